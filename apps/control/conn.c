/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.c - a non-blocking end of a control socket. The fabric must not wait for any client.
 * Commands wait with a time limit (conn_wait()).
 */
#include "apps/control/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/base/silence.h"
#include "apps/control/paths.h"
#include "emu/util/now.h"

void conn_open(struct conn *conn, int fd, size_t line_max)
{
    *conn = (struct conn){.fd = fd,
                          .line_max = line_max,
                          .containers_max = SIZE_MAX,
                          .pass.fd = EMU_JSON_NONE};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static bool conn_passes(const struct conn *conn)
{
    return conn->pass.fd[0] >= 0;
}

static void conn_drop_pass(struct conn *conn)
{
    for (int i = 0; i < EMU_JSON_FDS; i++) {
        if (conn->pass.fd[i] >= 0)
            close(conn->pass.fd[i]);
        conn->pass.fd[i] = -1;
    }
}

void conn_close(struct conn *conn)
{
    conn_drop_pass(conn);
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    emu_json_free(&conn->in);
    emu_json_free(&conn->out);
}

size_t conn_excess(const struct conn *conn)
{
    return emu_json_excess(&conn->in) + emu_json_excess(&conn->out);
}

/* Read once per call, so that a client that sends without pause does not delay others. */
int conn_fill(struct conn *conn)
{
    struct emu_json_fds came = {.fd = EMU_JSON_NONE};
    ssize_t got =
        emu_json_read(&conn->in, conn->fd, conn->received_fds ? &came : NULL, MSG_DONTWAIT);

    if (conn->received_fds && came.fd[0] >= 0)
        *conn->received_fds = came;
    if (got == 0)
        return -EPIPE;
    return got > 0 || got == -EAGAIN ? 0 : (int)got;
}

int conn_next(struct conn *conn, struct json_object **ret)
{
    return emu_json_next(&conn->in, conn->line_max, conn->containers_max, ret);
}

int conn_put(struct conn *conn, struct json_object *message)
{
    return emu_json_put(&conn->out, message, CONN_OUT_MAX + conn->line_out);
}

int conn_put_line(struct conn *conn, const char *line, size_t bytes)
{
    if (bytes > CONN_TELEMETRY_MAX)
        return -ENOBUFS;
    conn->line_out = bytes;
    return emu_json_put_line(&conn->out, line, bytes, CONN_OUT_MAX + bytes);
}

int conn_put_text(struct conn *conn, const char *text, size_t bytes, bool ends)
{
    return emu_json_put_text(&conn->out, text, bytes, ends, CONN_OUT_MAX);
}

int conn_put_with(struct conn *conn, struct json_object *message, const int pass[EMU_JSON_FDS])
{
    size_t at = conn->out.bytes;
    int err = conn_put(conn, message);

    conn_drop_pass(conn);
    memcpy(conn->pass.fd, pass, sizeof conn->pass.fd);
    conn->pass_at = at;
    if (err)
        conn_drop_pass(conn);
    return err;
}

/*
 * Send some bytes. Descriptors must arrive with the first byte of their line, so the bytes before
 * that line are sent without them.
 */
static ssize_t send_some(struct conn *conn)
{
    bool now = conn_passes(conn) && conn->pass_at == 0;
    size_t bytes = conn_passes(conn) && !now ? conn->pass_at : conn->out.bytes;
    ssize_t sent =
        emu_json_send(&conn->out, conn->fd, bytes, now ? &conn->pass : NULL, MSG_DONTWAIT);

    if (sent <= 0)
        return sent;
    if (now)
        conn_drop_pass(conn);
    else if (conn_passes(conn))
        conn->pass_at -= (size_t)sent;
    return sent;
}

int conn_flush(struct conn *conn)
{
    while (conn->out.bytes > 0) {
        ssize_t sent = send_some(conn);
        if (sent < 0)
            return (int)sent;
    }
    return 0;
}

void conn_drain(struct conn *conn, int timeout_ms)
{
    int64_t end_ms = emu_now_ms() + timeout_ms, left_ms = timeout_ms;

    while (conn_flush(conn) == -EAGAIN && left_ms > 0) {
        struct pollfd room = {conn->fd, POLLOUT, 0};
        poll(&room, 1, (int)left_ms);
        left_ms = end_ms - emu_now_ms();
    }
}

int conn_wait(struct conn *conn, struct json_object **ret, int timeout_ms)
{
    int64_t end_ms = emu_now_ms() + timeout_ms, left_ms = timeout_ms;

    for (bool last = false;; last = left_ms <= 0) {
        int got = conn_next(conn, ret);
        if (got)
            return got < 0 ? got : 0;
        if (last) /* bytes of an incomplete line do not extend the limit */
            return -ETIMEDOUT;
        int err = conn_flush(conn);
        if (err && err != -EAGAIN && err != -EPIPE)
            return err;
        left_ms = end_ms - emu_now_ms();
        struct pollfd poll_fd = {conn->fd, (short)(POLLIN | (err == -EAGAIN ? POLLOUT : 0)), 0};
        int ready = poll(&poll_fd, 1, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0 && poll_fd.revents & ~POLLOUT) {
            err = conn_fill(conn);
            if (err)
                return err;
        }
    }
}

/*
 * Handle an event during a query. If the fabric waits for other hosts, return the new time limit of
 * the query, and print lines until the reply arrives; else return 0. Only the first event changes
 * the limit: otherwise a peer that repeats the event could delay the command forever.
 */
static int query_event_ms(struct json_object *event, struct silence *silence)
{
    int limit_ms = silence->started ? 0 : emu_json_wait_ms(event);

    if (limit_ms)
        silence_begin(silence, SILENCE_MS, "waiting for other hosts of the fabric");
    return limit_ms;
}

int conn_query(struct conn *conn, struct json_object *request, struct json_object **ret,
               int timeout_ms)
{
    int64_t end_ms = emu_now_ms() + timeout_ms;
    struct silence silence = {.started = false};
    struct json_object *line = NULL;
    int err = conn_put(conn, request);

    while (!err) {
        int64_t left_ms = end_ms - emu_now_ms();
        int limit_ms;

        err = left_ms > 0 ? conn_wait(conn, &line, (int)left_ms) : -ETIMEDOUT;
        if (err || json_object_object_get_ex(line, "ok", NULL))
            break;
        limit_ms = query_event_ms(line, &silence);
        if (limit_ms)
            end_ms = emu_now_ms() + limit_ms;
        json_object_put(line);
    }
    silence_end(&silence);
    if (!err)
        *ret = line;
    return err;
}

struct json_object *json_add_text(struct json_object *message, const char *field, const char *text)
{
    json_object_object_add(message, field, json_object_new_string(text));
    return message;
}

struct json_object *json_add_number(struct json_object *message, const char *field, uint64_t number)
{
    json_object_object_add(message, field, json_object_new_uint64(number));
    return message;
}

static struct json_object *add_device(struct json_object *message, const char *kind,
                                      uint32_t number, const char *name)
{
    char field[16];

    json_add_number(message, kind, number);
    snprintf(field, sizeof field, "%s_name", kind);
    if (name)
        json_add_text(message, field, name);
    return message;
}

struct json_object *json_add_node(struct json_object *message, const struct topo_graph *graph,
                                  uint32_t node)
{
    return add_device(message, "node", node, topo_node_name(graph, node));
}

struct json_object *json_add_switch(struct json_object *message, const struct topo_graph *graph,
                                    uint32_t sw)
{
    return add_device(message, "switch", sw, topo_switch_name(graph, sw));
}

static const char *show_device(struct json_object *message, const char *kind,
                               char text[static TOPO_SHOWN_BYTES])
{
    long long number = (long long)emu_json_number(message, kind, -1);
    const char *name;
    char field[16];

    snprintf(field, sizeof field, "%s_name", kind);
    name = emu_json_text(message, field, NULL);
    if (name)
        snprintf(text, TOPO_SHOWN_BYTES, "%s %lld (%s)", kind, number, name);
    else
        snprintf(text, TOPO_SHOWN_BYTES, "%s %lld", kind, number);
    return text;
}

const char *json_show_node(struct json_object *message, char text[static TOPO_SHOWN_BYTES])
{
    return show_device(message, "node", text);
}

const char *json_show_switch(struct json_object *message, char text[static TOPO_SHOWN_BYTES])
{
    return show_device(message, "switch", text);
}

struct json_object *conn_event(const char *event)
{
    return json_add_text(json_object_new_object(), "event", event);
}

struct json_object *conn_frozen(pid_t pid)
{
    return json_add_number(conn_event("frozen"), "pid", (uint64_t)pid);
}

struct json_object *conn_ok(void)
{
    struct json_object *reply = json_object_new_object();

    json_object_object_add(reply, "ok", json_object_new_boolean(true));
    return reply;
}

struct json_object *conn_error(int err, const char *error)
{
    struct json_object *reply = json_object_new_object();

    json_object_object_add(reply, "ok", json_object_new_boolean(false));
    json_add_number(reply, "errno", (uint64_t)-err);
    return json_add_text(reply, "error", error);
}

struct json_object *conn_failed(int err, const char *error)
{
    struct json_object *event = json_add_number(conn_event("failed"), "errno", (uint64_t)-err);

    return json_add_text(event, "error", error);
}

struct json_object *query_request(const char *command)
{
    return json_add_text(json_object_new_object(), "cmd", command);
}

int query_check(const char *name, struct json_object *object, const struct query_field *fields,
                char *error, size_t error_bytes)
{
    struct json_object *value;

    for (; fields && fields->name; fields++)
        if (!json_object_object_get_ex(object, fields->name, &value) ||
            !json_object_is_type(value, fields->type))
            return fail(-EPROTO, error, error_bytes,
                        "fabric '%s': its reply has no field \"%s\" of type %s; use the fabemu "
                        "that started it",
                        name, fields->name, json_type_to_name(fields->type));
    return 0;
}

int query_fabric(const char *name, struct json_object *request, const struct query_field *fields,
                 struct json_object **reply, pid_t *owner, char *error, size_t error_bytes)
{
    struct conn conn;
    int fd;
    int err = paths_connect(&fd, owner, name, error, error_bytes);

    if (err) {
        json_object_put(request);
        return err;
    }
    conn_open(&conn, fd, CONN_REPLY_MAX);
    if (!json_object_object_get_ex(request, "wait", NULL))
        json_object_object_add(request, "wait", json_object_new_boolean(true));
    err = conn_query(&conn, request, reply, CONN_ANSWER_MS);
    conn_close(&conn);
    if (err) /* not -EMSGSIZE, which means to callers that the request is wrong */
        return fail(err == -EMSGSIZE ? -EPROTO : err, error, error_bytes,
                    "fabric '%s' does not answer (%s)", name, strerror(-err));
    if (!emu_json_true(*reply, "ok")) {
        err = emu_json_number(*reply, "errno", 0) == EINVAL ? -EINVAL : -EPROTO;
        fail(err, error, error_bytes, "fabric '%s': %s", name,
             emu_json_text(*reply, "error", "it refuses without giving a reason"));
        json_object_put(*reply);
        return err;
    }
    err = query_check(name, *reply, fields, error, error_bytes);
    if (err)
        json_object_put(*reply);
    return err;
}
