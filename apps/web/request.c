/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - checks and answers the requests of browsers (docs/web.md). A *link* is a connection
 * to the fabric for one request (link.c). A request with a wrong Host, Origin or token has no
 * effect, and its answer is a line of text.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/control/conn.h"
#include "apps/telemetry/filter.h"
#include "apps/base/text.h"
#include "apps/web/internal.h"
#include "emu/util/now.h"

#define BLOCK_BYTES 65536u /* largest number of bytes that microhttpd requests at once */
#define OPEN_BYTES  4096u  /* longest value of the argument open=N,N,..., in characters */

struct request {
    struct web_conn *conn;
    struct web_link *link;
    char body[WEB_BODY_BYTES + 1];
    size_t body_bytes;
};

/* --- answers ------------------------------------------------------------------------ */

/* Browsers allow the page only its own scripts and this server, and do not show it in a frame. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

static enum MHD_Result answer(struct MHD_Connection *http, unsigned status, const char *type,
                              struct MHD_Response *response)
{
    enum MHD_Result done;

    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    done = MHD_queue_response(http, status, response);
    MHD_destroy_response(response);
    return done;
}

static enum MHD_Result answer_bytes(struct MHD_Connection *http, unsigned status, const char *type,
                                    const void *at, size_t bytes)
{
    /* microhttpd only reads the bytes, but its parameter is not const */
    return answer(http, status, type,
                  MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)at,
                                                  MHD_RESPMEM_MUST_COPY));
}

static enum MHD_Result refuse(struct MHD_Connection *http, unsigned status, const char *why)
{
    return answer_bytes(http, status, "text/plain; charset=utf-8", why, strlen(why));
}

static enum MHD_Result refuse_large(struct MHD_Connection *http)
{
    return refuse(http, MHD_HTTP_SERVICE_UNAVAILABLE,
                  "Browsers have not read earlier answers, which fill the server's memory for "
                  "answers; try again later.\n");
}

static ssize_t answer_read(void *ctx, uint64_t from, char *buf, size_t most)
{
    const struct web_answer *answer = ctx;
    size_t left = answer->bytes - (size_t)from;
    size_t bytes = left < most ? left : most;

    memcpy(buf, answer->at + from, bytes);
    return (ssize_t)bytes;
}

static void answer_done(void *ctx)
{
    web_answer_free(ctx);
}

/* Send @buffered, which is freed when it has been sent, or on error. */
static enum MHD_Result answer_held(struct MHD_Connection *http, const char *type,
                                   struct web_answer *buffered)
{
    struct MHD_Response *response = MHD_create_response_from_callback(buffered->bytes, BLOCK_BYTES,
                                                                      answer_read, buffered,
                                                                      answer_done);

    if (!response)
        web_answer_free(buffered);
    return answer(http, MHD_HTTP_OK, type, response);
}

/* --- access control ----------------------------------------------------------------- */

bool web_same_token(const char *token, const char *given)
{
    unsigned differ = 0;

    if (strnlen(given, WEB_TOKEN_CHARS) < WEB_TOKEN_CHARS)
        return false;
    for (size_t i = 0; i < WEB_TOKEN_CHARS; i++)
        differ |= (unsigned char)token[i] ^ (unsigned char)given[i];
    return !differ;
}

/* Return whether @value is @scheme followed by HOST:PORT of this server. */
static bool is_ours(const struct web *web, const char *scheme, const char *value)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    char ours[64];
    bool is = false;

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        snprintf(ours, sizeof ours, "%s%s:%u", scheme, hosts[i], web->port);
        is |= strcmp(value, ours) == 0;
    }
    return is;
}

/* Check Host, Origin and token. Returns the reason why the request is refused, or NULL. */
static const char *wrong_with(const struct web *web, struct MHD_Connection *http, const char *url)
{
    const char *host = MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *origin = MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);

    if (!host || !is_ours(web, "", host))
        return "The request has the name of another server (Host).\n";
    if (origin && !is_ours(web, "http://", origin))
        return "Requests from other pages are refused (Origin).\n";
    if (url[0] != '/' || !web_same_token(web->token, url + 1) || url[1 + WEB_TOKEN_CHARS] != '/')
        return "Open the address that fabemu printed: it has a token.\n";
    return NULL;
}

/* --- requests to the fabric --------------------------------------------------------- */

/*
 * Translate a page's request for a *pace*: it stops simulated time (hold), or sets the time on the
 * host between two snapshots (every_ms). The pace ends after for_ms, unless the page repeats the
 * request.
 */
static struct json_object *ask_pace(struct json_object *command)
{
    struct json_object *query = query_request("pace");

    json_object_object_add(query, "who", json_object_new_int64(emu_json_number(command, "who", 0)));
    json_object_object_add(query, "hold", json_object_new_boolean(emu_json_true(command, "hold")));
    json_object_object_add(query, "every_ms",
                           json_object_new_int64(emu_json_number(command, "every_ms", 0)));
    json_object_object_add(query, "for_ms",
                           json_object_new_int64(emu_json_number(command, "for_ms", -1)));
    return query;
}

/*
 * Translate a command of the page for the fabric. Returns NULL if pages may not send it, or if it
 * is not JSON.
 */
static struct json_object *ask_of(const char *body)
{
    static const char *const commands[] = {"faults", "status", "report", "check"};
    struct json_object *command = json_tokener_parse(body), *query = NULL;
    const char *cmd = emu_json_text(command, "cmd", "");

    if (!json_object_is_type(command, json_type_object))
        cmd = "";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(cmd, commands[i]) == 0)
            query = query_request(cmd);
    if (strcmp(cmd, "fault") == 0)
        query = json_add_text(query_request(cmd), "fault", emu_json_text(command, "fault", ""));
    if (strcmp(cmd, "fault_kinds") == 0) {
        query = json_add_text(query_request(cmd), "where", emu_json_text(command, "where", ""));
        json_add_text(query, "for", emu_json_text(command, "for", ""));
    }
    if (strcmp(cmd, "fault_clear") == 0)
        query = json_add_number(query_request(cmd), "fault",
                                (uint64_t)emu_json_number(command, "fault", 0));
    if (strcmp(cmd, "pace") == 0)
        query = ask_pace(command);
    json_object_put(command);
    return query;
}

static bool can_open(const struct web_server *server, enum web_kind kind)
{
    static const uint32_t most[WEB_KINDS] = {
        [WEB_STREAM] = WEB_STREAMS, [WEB_QUERY] = WEB_LINKS, [WEB_METRICS] = WEB_SCRAPES};

    return server->link_count < WEB_LINKS && server->of_kind[kind] < most[kind];
}

/* Open a link and send @query to the fabric. If this fails, answer the request with the reason. */
static enum MHD_Result open_link(struct web_server *server, struct MHD_Connection *http,
                                 struct request *request, enum web_kind kind,
                                 struct json_object *query)
{
    char error[512] = "The fabric does not answer.";

    if (!server->name) {
        json_object_put(query);
        return refuse(http, MHD_HTTP_NOT_FOUND, "This server shows a recording, not a fabric.\n");
    }
    if (!can_open(server, kind)) {
        json_object_put(query);
        return refuse(http, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many pages or requests are open.\n");
    }
    if (web_link_open(&request->link, server, kind, http, query, error, sizeof error))
        return refuse(http, MHD_HTTP_BAD_GATEWAY, error);
    if (kind != WEB_STREAM) {
        web_link_await(request->link);
        return MHD_YES;
    }
    web_page_opened(server);
    return answer(http, MHD_HTTP_OK, "text/event-stream; charset=utf-8",
                  MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, web_stream_read,
                                                    request->link, NULL));
}

static struct json_object *subscription(void)
{
    return json_add_number(query_request("subscribe"), "telemetry", TELEMETRY_EVERY_LEAST_MS);
}

static bool read_numbers(struct json_object *list, const char *text)
{
    if (strlen(text) > OPEN_BYTES)
        return false;
    while (*text) {
        size_t digits = strspn(text, "0123456789");

        if (!digits || digits > 10 || (text[digits] && text[digits] != ','))
            return false;
        json_object_array_add(list, json_object_new_int64(strtoll(text, NULL, 10)));
        text += digits + (text[digits] == ',');
    }
    return true;
}

/*
 * Make the query of a page. A browser cannot draw all parts of a large network. So the fabric
 * combines switches and nodes into blocks, and sends one entry for each block. Only the blocks in
 * open=N,… are sent part by part. Returns NULL on a syntax error.
 */
static struct json_object *page_subscription(struct MHD_Connection *http)
{
    const char *open = MHD_lookup_connection_value(http, MHD_GET_ARGUMENT_KIND, "open");
    struct json_object *ret = subscription(), *fold = json_object_new_object();
    struct json_object *list = json_object_new_array();

    json_object_object_add(fold, "open", list);
    json_object_object_add(ret, "fold", fold);
    if (!open || read_numbers(list, open))
        return ret;
    json_object_put(ret);
    return NULL;
}

static enum MHD_Result answer_stream(struct web_server *server, struct MHD_Connection *http,
                                     struct request *request)
{
    struct json_object *query = page_subscription(http);

    if (!query)
        return refuse(http, MHD_HTTP_BAD_REQUEST, "open must be numbers of blocks: open=3,17.\n");
    return open_link(server, http, request, WEB_STREAM, query);
}

/* Parse the argument "names" of a request for metrics. Returns false if it is unknown. */
static bool metrics_names(struct MHD_Connection *http, enum telemetry_names *ret)
{
    const char *asked = MHD_lookup_connection_value(http, MHD_GET_ARGUMENT_KIND, "names");

    *ret = TELEMETRY_NODE_EXPORTER;
    return !asked || telemetry_names_of(asked, ret);
}

static enum MHD_Result answer_metrics(struct MHD_Connection *http, struct web_server *server,
                                      struct telemetry_view *view)
{
    struct text_buf text = {0};
    enum telemetry_names names;
    struct web_answer *buffered;
    bool refused;

    metrics_names(http, &names); /* ask_metrics() has checked it */
    telemetry_metrics(view, names, &text);
    buffered = web_answer_make(server, text.at, text.bytes, &refused);
    if (!buffered)
        return refused ? refuse_large(http) : MHD_NO;
    return answer_held(http, "text/plain; version=0.0.4; charset=utf-8", buffered);
}

static enum MHD_Result ask_metrics(struct web_server *server, struct MHD_Connection *http,
                                   struct request *request)
{
    enum telemetry_names names;

    if (!metrics_names(http, &names))
        return refuse(http, MHD_HTTP_BAD_REQUEST,
                      "names must be node_exporter or infiniband_exporter.\n");
    return open_link(server, http, request, WEB_METRICS, subscription());
}

/* Answer a request whose link is done. Close the link now, because the browser may read slowly. */
static enum MHD_Result answer_link(struct MHD_Connection *http, struct request *request)
{
    struct web_link *link = request->link;
    struct web_answer *buffered = link->answer;
    enum MHD_Result done;

    link->answer = NULL;
    if (link->refused)
        done = refuse_large(http);
    else if (buffered)
        done = answer_held(http, "application/json; charset=utf-8", buffered);
    else if (link->kind == WEB_METRICS && link->view.sample)
        done = answer_metrics(http, link->server, &link->view);
    else
        done = refuse(http, MHD_HTTP_GATEWAY_TIMEOUT, "The fabric does not answer.\n");
    web_link_close(link);
    request->link = NULL;
    return done;
}

/* --- files -------------------------------------------------------------------------- */

static enum MHD_Result answer_file(struct MHD_Connection *http, const char *path)
{
    for (const struct web_file *file = web_files; file->path; file++)
        if (strcmp(file->path, path) == 0)
            return answer_bytes(http, MHD_HTTP_OK, file->type, file->at, file->bytes);
    return refuse(http, MHD_HTTP_NOT_FOUND, "Not found.\n");
}

static enum MHD_Result answer_recording(struct MHD_Connection *http, int recording_fd)
{
    int fd = recording_fd < 0 ? -1 : fcntl(recording_fd, F_DUPFD_CLOEXEC, 0);
    struct MHD_Response *response = NULL;
    struct stat st;

    if (fd < 0)
        return refuse(http, MHD_HTTP_NOT_FOUND, "There is no recording here.\n");
    if (fstat(fd, &st) == 0)
        response = MHD_create_response_from_fd64((uint64_t)st.st_size, fd);
    if (!response)
        close(fd);
    return answer(http, MHD_HTTP_OK, "application/x-ndjson; charset=utf-8", response);
}

static enum MHD_Result answer_get(struct web_server *server, struct MHD_Connection *http,
                                  struct request *request, const char *path)
{
    if (strcmp(path, "stream") == 0)
        return answer_stream(server, http, request);
    if (strcmp(path, "metrics") == 0)
        return ask_metrics(server, http, request);
    if (strcmp(path, "recording") == 0)
        return answer_recording(http, server->web->recording_fd);
    return answer_file(http, path);
}

/* --- steps of a request ------------------------------------------------------------- */

static struct web_conn *conn_of(struct MHD_Connection *http)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(http, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* End the time limit of a request that is complete. */
static void set_busy(struct web_server *server, struct MHD_Connection *http,
                     struct request *request)
{
    request->conn = conn_of(http);
    if (request->conn)
        web_conn_busy(server, request->conn, true);
}

static enum MHD_Result begin(struct web_server *server, struct MHD_Connection *http,
                             const char *url, const char *method, struct request *request)
{
    const char *wrong = wrong_with(server->web, http, url), *path;
    const char *type =
        MHD_lookup_connection_value(http, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);

    if (wrong)
        return refuse(http, MHD_HTTP_FORBIDDEN, wrong);
    path = url + 1 + WEB_TOKEN_CHARS + 1;
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0) {
        set_busy(server, http, request);
        return answer_get(server, http, request, path);
    }
    if (strcmp(method, MHD_HTTP_METHOD_POST) != 0)
        return refuse(http, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET and POST are supported.\n");
    if (strcmp(path, "ask") != 0)
        return refuse(http, MHD_HTTP_NOT_FOUND, "Not found.\n");
    if (!type || strcmp(type, "application/json") != 0) /* other pages cannot send this type */
        return refuse(http, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                      "The content type must be application/json.\n");
    return MHD_YES;
}

/*
 * Handle a piece of the body. An empty piece means that the body is complete or, if the request has
 * a link, that the link is done.
 */
static enum MHD_Result go_on(struct web_server *server, struct MHD_Connection *http,
                             struct request *request, const char *upload, size_t *upload_bytes)
{
    struct json_object *query;

    if (*upload_bytes) {
        if (*upload_bytes > WEB_BODY_BYTES - request->body_bytes)
            return MHD_NO; /* the connection is closed */
        memcpy(request->body + request->body_bytes, upload, *upload_bytes);
        request->body_bytes += *upload_bytes;
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (request->link)
        return answer_link(http, request);
    set_busy(server, http, request);
    query = ask_of(request->body);
    if (!query)
        return refuse(http, MHD_HTTP_BAD_REQUEST,
                      "The page may not send this command, or it is not JSON.\n");
    return open_link(server, http, request, WEB_QUERY, query);
}

enum MHD_Result web_request(void *ctx, struct MHD_Connection *http, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_bytes, void **context)
{
    struct request *request = *context;

    (void)version;
    if (request)
        return go_on(ctx, http, request, upload, upload_bytes);
    request = calloc(1, sizeof *request);
    if (!request)
        return MHD_NO;
    *context = request;
    return begin(ctx, http, url, method, request);
}

void web_request_over(void *ctx, struct MHD_Connection *http, void **context,
                      enum MHD_RequestTerminationCode why)
{
    struct request *request = *context;

    (void)http, (void)why;
    if (!request)
        return;
    if (request->conn)
        web_conn_busy(ctx, request->conn, false);
    if (request->link)
        web_link_close(request->link);
    free(request);
    *context = NULL;
}
