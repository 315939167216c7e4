/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - JSON objects, one a line, over a stream socket that never blocks.
 *
 * Both ends of the control socket use it: the fabric, which must not wait for
 * any client, and the commands, which wait with a limit (wire_wait).
 */
#include "apps/daemon/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/now.h"

void wire_open(struct wire *wire, int fd, size_t line_max)
{
    *wire = (struct wire){ .fd = fd, .line_max = line_max, .pass = { -1, -1 } };
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void wire_drop_pass(struct wire *wire)
{
    for (int i = 0; i < 2; i++) {
        if (wire->pass[i] >= 0)
            close(wire->pass[i]);
        wire->pass[i] = -1;
    }
}

void wire_close(struct wire *wire)
{
    wire_drop_pass(wire);
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
    free(wire->in.data);
    free(wire->out.data);
    wire->in = wire->out = (struct wire_buf){ 0 };
}

static char *buf_start(const struct wire_buf *buf)
{
    return buf->data + buf->at;
}

static char *buf_end(const struct wire_buf *buf)
{
    return buf->data + buf->at + buf->bytes;
}

/* Moves what is in use only when as much before it is free: so it costs no more than reading. */
static int buf_reserve(struct wire_buf *buf, size_t more)
{
    if (buf->at + buf->bytes + more <= buf->room)
        return 0;
    if (buf->at && buf->at >= buf->bytes) {
        memcpy(buf->data, buf_start(buf), buf->bytes);
        buf->at = 0;
    }
    size_t room = buf->room ? buf->room : 1024;
    while (room < buf->at + buf->bytes + more)
        room *= 2;
    if (room == buf->room)
        return 0;
    char *data = realloc(buf->data, room);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->room = room;
    return 0;
}

/* What one long line needed is not kept once it is gone. */
static void buf_consume(struct wire_buf *buf, size_t bytes)
{
    buf->bytes -= bytes;
    buf->at = buf->bytes ? buf->at + bytes : 0;
    if (buf->bytes || buf->room <= WIRE_KEEP)
        return;
    free(buf->data);
    *buf = (struct wire_buf){ 0 };
}

static size_t buf_excess(const struct wire_buf *buf)
{
    return buf->room > WIRE_KEEP ? buf->room - WIRE_KEEP : 0;
}

size_t wire_excess(const struct wire *wire)
{
    return buf_excess(&wire->in) + buf_excess(&wire->out);
}

/* One read: a client that floods gets its turn like the others. */
int wire_fill(struct wire *wire)
{
    int err = buf_reserve(&wire->in, 4096);

    if (err)
        return err;
    size_t room = wire->in.room - wire->in.at - wire->in.bytes;
    ssize_t got = recv(wire->fd, buf_end(&wire->in), room, MSG_DONTWAIT);
    if (got == 0)
        return -EPIPE;
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    wire->in.bytes += (size_t)got;
    return 0;
}

static struct json_object *parse_object(const char *line, size_t bytes)
{
    struct json_tokener *tok = json_tokener_new();

    if (!tok)
        return NULL;
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
    struct json_object *object = json_tokener_parse_ex(tok, line, (int)bytes);
    bool whole = json_tokener_get_error(tok) == json_tokener_success;
    json_tokener_free(tok);
    if (whole && json_object_is_type(object, json_type_object))
        return object;
    json_object_put(object);
    return NULL;
}

int wire_next(struct wire *wire, struct json_object **ret)
{
    char *line = wire->in.bytes ? buf_start(&wire->in) : NULL;
    char *end = line ? memchr(line, '\n', wire->in.bytes) : NULL;

    if (!end)
        return wire->in.bytes > wire->line_max ? -EMSGSIZE : 0;
    size_t bytes = (size_t)(end - line);
    if (bytes > wire->line_max)
        return -EMSGSIZE;
    struct json_object *object = parse_object(line, bytes);
    buf_consume(&wire->in, bytes + 1);
    if (!object)
        return -EBADMSG;
    *ret = object;
    return 1;
}

int wire_put(struct wire *wire, struct json_object *message)
{
    size_t bytes;
    const char *line = json_object_to_json_string_length(
        message, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &bytes);
    int err = line ? 0 : -ENOMEM;

    if (!err && wire->out.bytes + bytes + 1 > WIRE_OUT_MAX)
        err = -ENOBUFS;
    if (!err)
        err = buf_reserve(&wire->out, bytes + 1);
    if (!err) {
        memcpy(buf_end(&wire->out), line, bytes);
        buf_end(&wire->out)[bytes] = '\n';
        wire->out.bytes += bytes + 1;
    }
    json_object_put(message);
    return err;
}

int wire_put_with(struct wire *wire, struct json_object *message, const int pass[2])
{
    size_t at = wire->out.bytes;
    int err = wire_put(wire, message);

    wire_drop_pass(wire);
    wire->pass[0] = pass[0];
    wire->pass[1] = pass[1];
    wire->pass_at = at;
    if (err)
        wire_drop_pass(wire);
    return err;
}

/* Send the bytes before the passing line alone, and the rest with the descriptors. */
static ssize_t send_some(struct wire *wire)
{
    bool pass = wire->pass[0] >= 0 && wire->pass_at == 0;
    size_t bytes = wire->pass[0] >= 0 && !pass ? wire->pass_at : wire->out.bytes;
    struct iovec iov = { buf_start(&wire->out), bytes };
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = { 0 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (pass) {
        msg.msg_control = control.space;
        msg.msg_controllen = sizeof control.space;
        struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(head), wire->pass, 2 * sizeof(int));
    }
    ssize_t sent = sendmsg(wire->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent <= 0)
        return sent;
    if (pass)
        wire_drop_pass(wire);
    else if (wire->pass[0] >= 0)
        wire->pass_at -= (size_t)sent;
    return sent;
}

int wire_flush(struct wire *wire)
{
    while (wire->out.bytes > 0) {
        ssize_t sent = send_some(wire);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return -errno;
        buf_consume(&wire->out, (size_t)sent);
    }
    return 0;
}

void wire_drain(struct wire *wire, int timeout_ms)
{
    int64_t end_ms = emu_now_ms() + timeout_ms;

    while (wire_flush(wire) == -EAGAIN && emu_now_ms() < end_ms) {
        struct pollfd room = { wire->fd, POLLOUT, 0 };
        poll(&room, 1, (int)(end_ms - emu_now_ms()));
    }
}

int wire_wait(struct wire *wire, struct json_object **ret, int timeout_ms)
{
    int64_t end_ms = emu_now_ms() + timeout_ms;

    for (;;) {
        int got = wire_next(wire, ret);
        if (got)
            return got < 0 ? got : 0;
        int err = wire_flush(wire);
        if (err && err != -EAGAIN && err != -EPIPE)
            return err;
        int64_t left_ms = end_ms - emu_now_ms();
        if (left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd poll_fd = { wire->fd, (short)(POLLIN | (err == -EAGAIN ? POLLOUT : 0)), 0 };
        if (poll(&poll_fd, 1, (int)left_ms) > 0 && poll_fd.revents & ~POLLOUT) {
            err = wire_fill(wire);
            if (err)
                return err;
        }
    }
}

int wire_ask(struct wire *wire, const char *command, struct json_object **ret, int timeout_ms)
{
    struct json_object *request = json_object_new_object();

    wire_add_text(request, "cmd", command);
    int err = wire_put(wire, request);
    while (!err) {
        struct json_object *reply;
        err = wire_wait(wire, &reply, timeout_ms);
        if (err)
            break;
        if (json_object_object_get_ex(reply, "ok", NULL)) {
            *ret = reply;
            return 0;
        }
        json_object_put(reply);
    }
    return err;
}

const char *wire_text(struct json_object *message, const char *field, const char *otherwise)
{
    struct json_object *value;

    if (!json_object_object_get_ex(message, field, &value) ||
        !json_object_is_type(value, json_type_string))
        return otherwise;
    return json_object_get_string(value);
}

int64_t wire_number(struct json_object *message, const char *field, int64_t otherwise)
{
    struct json_object *value;

    if (!json_object_object_get_ex(message, field, &value) ||
        !json_object_is_type(value, json_type_int))
        return otherwise;
    return json_object_get_int64(value);
}

bool wire_true(struct json_object *message, const char *field)
{
    struct json_object *value;

    return json_object_object_get_ex(message, field, &value) &&
           json_object_is_type(value, json_type_boolean) && json_object_get_boolean(value);
}

struct json_object *wire_add_text(struct json_object *message, const char *field, const char *text)
{
    json_object_object_add(message, field, json_object_new_string(text));
    return message;
}

struct json_object *wire_add_number(struct json_object *message, const char *field, uint64_t number)
{
    json_object_object_add(message, field, json_object_new_uint64(number));
    return message;
}

struct json_object *wire_event(const char *event)
{
    return wire_add_text(json_object_new_object(), "event", event);
}

struct json_object *wire_ok(void)
{
    struct json_object *reply = json_object_new_object();

    json_object_object_add(reply, "ok", json_object_new_boolean(true));
    return reply;
}
