/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - links: a link is a connection to the fabric for one request of a browser.
 *
 * Data of a stream is copied to the browser as it arrives. While a browser does not read, the data
 * stays in the link's socket, and the fabric skips snapshots for this reader and counts them. So
 * the server buffers little.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "apps/control/paths.h"
#include "apps/web/internal.h"
#include "emu/util/now.h"

int web_link_open(struct web_link **ret, struct web_server *server, enum web_kind kind,
                  struct MHD_Connection *http, struct json_object *query, char *error,
                  size_t error_bytes)
{
    struct web_link *link = calloc(1, sizeof *link);
    int fd = -1, err = link ? 0 : -ENOMEM;

    if (!err)
        err = paths_connect(&fd, NULL, server->name, error, error_bytes);
    if (err) {
        json_object_put(query);
        free(link);
        return err;
    }
    conn_open(&link->conn, fd, kind == WEB_METRICS ? CONN_TELEMETRY_MAX : CONN_REPLY_MAX);
    link->server = server;
    link->kind = kind;
    link->http = http;
    link->end_ms = kind == WEB_STREAM ? INT64_MAX : emu_now_ms() + CONN_ANSWER_MS;
    emu_list_add(&server->links, &link->all);
    server->link_count++;
    server->of_kind[kind]++;
    err = conn_put(&link->conn, query);
    if (!err)
        err = conn_flush(&link->conn); /* a new socket accepts a short line */
    if (err) {
        web_link_close(link);
        return err;
    }
    *ret = link;
    return 0;
}

/*
 * Set *buffered to the part of @bytes that counts against the limit, and adjust server->buffered,
 * the sum of all such parts. Returns false if the sum is above the limit.
 */
static bool account(struct web_server *server, size_t *buffered, size_t bytes)
{
    size_t counts = bytes > EMU_JSON_KEEP ? bytes - EMU_JSON_KEEP : 0;

    server->buffered += counts - *buffered;
    *buffered = counts;
    return !counts || server->buffered <= WEB_ANSWERS_BYTES;
}

struct web_answer *web_answer_make(struct web_server *server, char *at, size_t bytes, bool *refused)
{
    struct web_answer *answer = calloc(1, sizeof *answer);

    *refused = false;
    if (!answer) {
        free(at);
        return NULL;
    }
    *answer = (struct web_answer){.server = server, .at = at, .bytes = bytes};
    server->answers++;
    *refused = !account(server, &answer->buffered, bytes);
    if (!*refused)
        return answer;
    web_answer_free(answer);
    return NULL;
}

void web_answer_free(struct web_answer *answer)
{
    if (!answer)
        return;
    account(answer->server, &answer->buffered, 0);
    answer->server->answers--;
    free(answer->at);
    free(answer);
}

void web_link_close(struct web_link *link)
{
    emu_list_del(&link->all);
    link->server->link_count--;
    link->server->of_kind[link->kind]--;
    conn_close(&link->conn);
    account(link->server, &link->buffered, 0);
    web_answer_free(link->answer);
    telemetry_view_release(&link->view);
    free(link);
}

void web_link_await(struct web_link *link)
{
    link->waits = true;
    MHD_suspend_connection(link->http);
}

static void resume(struct web_link *link)
{
    link->waits = false;
    MHD_resume_connection(link->http);
}

/* Apply the received lines to the view. Returns true if the view is complete or the link failed. */
static bool take_metrics(struct web_link *link)
{
    struct json_object *line;
    bool whole = false;
    int got = 0;

    while (!whole && (got = conn_next(&link->conn, &line)) == 1) {
        whole = telemetry_view_take(&link->view, line) < 0 || link->view.sample;
        json_object_put(line);
    }
    return whole || got < 0;
}

#define REPLY "{\"ok\":" /* the beginning of a reply: docs/control.md */

/*
 * Take the received reply, unchanged, as the answer. Returns true if the reply is complete, or the
 * link has failed.
 */
static bool take_reply(struct web_link *link)
{
    size_t bytes;
    char *line;
    int got;

    while ((got = emu_json_take(&link->conn.in, CONN_REPLY_MAX, &line, &bytes)) == 1) {
        if (bytes > strlen(REPLY) && memcmp(line, REPLY, strlen(REPLY)) == 0) {
            account(link->server, &link->buffered, 0); /* the answer counts these bytes */
            link->answer = web_answer_make(link->server, line, bytes, &link->refused);
            return true;
        }
        free(line);
    }
    return got < 0;
}

/* Receive data. Returns true if the answer is complete, or cannot become complete. */
static bool take_all(struct web_link *link)
{
    int end = conn_fill(&link->conn);
    bool all;

    link->refused = !account(link->server, &link->buffered, link->conn.in.bytes);
    if (link->refused)
        return true;
    all = link->kind == WEB_METRICS ? take_metrics(link) : take_reply(link);
    account(link->server, &link->buffered, link->conn.in.bytes);
    return all || end;
}

/*
 * Return whether a stream that the fabric has closed can be ended now. If the fabric itself has
 * ended, the tail must be complete (the last report and the event ENDED: server.c). Otherwise
 * WEB_LAST_MS must have passed.
 */
static bool end_is_known(const struct web_link *link)
{
    return link->server->ended_ms ? link->server->web->parent_fd < 0 : emu_now_ms() >= link->end_ms;
}

void web_link_step(struct web_link *link, bool readable)
{
    if (!link->waits)
        return;
    if (link->over) {
        if (end_is_known(link))
            resume(link);
    } else if (link->kind != WEB_STREAM) {
        link->done = (readable && take_all(link)) || emu_now_ms() >= link->end_ms;
        if (link->done)
            resume(link);
    } else if (readable) {
        resume(link);
    }
}

#define EVENT "data: "
#define NEXT  "\n\n" EVENT

static size_t put(char *buf, const char *text)
{
    memcpy(buf, text, strlen(text));
    return strlen(text);
}

/* Copy as many bytes of lines as fit into @buf. Each line becomes an event. */
static size_t copy_events(struct web_link *link, char *buf, size_t bytes)
{
    size_t used = 0;

    while (link->raw_at < link->raw_bytes && bytes - used >= strlen(NEXT)) {
        const char *at = link->raw + link->raw_at;
        size_t left = link->raw_bytes - link->raw_at, most = bytes - used;
        const char *end = memchr(at, '\n', left < most ? left : most);
        size_t text = end ? (size_t)(end - at) : left < most ? left : most;

        memcpy(buf + used, at, text);
        used += text;
        link->raw_at += text;
        link->mid |= text > 0;
        if (!end || bytes - used < strlen(NEXT))
            break;
        used += put(buf + used, NEXT);
        link->raw_at++;
        link->mid = false;
    }
    return used;
}

/*
 * Continue a stream that the fabric has closed. If the fabric has ended, send the tail and end the
 * stream. If the fabric has closed only this connection, end the stream without the tail, so that
 * the browser opens another one. The server may learn a moment later that the fabric has ended
 * (web_server.watch), so the stream waits before it ends without the tail.
 */
static ssize_t stream_end(struct web_link *link, char *buf, size_t bytes)
{
    const struct text_buf *tail = &link->server->tail;
    size_t piece;

    if (!end_is_known(link)) {
        web_link_await(link);
        return 0;
    }
    if (!link->server->ended_ms || link->tail_at == tail->bytes)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (link->mid) {
        link->mid = false;
        return (ssize_t)put(buf, NEXT);
    }
    piece = tail->bytes - link->tail_at < bytes ? tail->bytes - link->tail_at : bytes;
    memcpy(buf, tail->at + link->tail_at, piece);
    link->tail_at += piece;
    return (ssize_t)piece;
}

ssize_t web_stream_read(void *ctx, uint64_t at, char *buf, size_t bytes)
{
    struct web_link *link = ctx;
    ssize_t got;

    (void)at;
    if (!link->begun) {
        link->begun = true;
        return (ssize_t)put(buf, EVENT);
    }
    if (link->raw_at == link->raw_bytes && !link->over) {
        got = recv(link->conn.fd, link->raw, sizeof link->raw, MSG_DONTWAIT);
        link->raw_at = 0;
        link->raw_bytes = got > 0 ? (size_t)got : 0;
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            web_link_await(link);
            return 0;
        }
        link->over = got <= 0;
        link->end_ms = link->over ? emu_now_ms() + WEB_LAST_MS : link->end_ms;
    }
    if (link->raw_at == link->raw_bytes)
        return stream_end(link, buf, bytes);
    return (ssize_t)copy_events(link, buf, bytes);
}
