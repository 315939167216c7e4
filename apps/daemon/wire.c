/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - the control socket, at an end that never blocks.
 *
 * Both ends of the control socket use it: the fabric, which must not wait for
 * any client, and the commands, which wait with a limit (wire_wait).
 */
#include "apps/daemon/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/now.h"

void wire_open(struct wire *wire, int fd, size_t line_max)
{
    *wire = (struct wire){ .fd = fd, .line_max = line_max, .pass.fd = { -1, -1 } };
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static bool wire_passes(const struct wire *wire)
{
    return wire->pass.fd[0] >= 0;
}

static void wire_drop_pass(struct wire *wire)
{
    for (int i = 0; i < 2; i++) {
        if (wire->pass.fd[i] >= 0)
            close(wire->pass.fd[i]);
        wire->pass.fd[i] = -1;
    }
}

void wire_close(struct wire *wire)
{
    wire_drop_pass(wire);
    if (wire->fd >= 0)
        close(wire->fd);
    wire->fd = -1;
    emu_json_free(&wire->in);
    emu_json_free(&wire->out);
}

size_t wire_excess(const struct wire *wire)
{
    return emu_json_excess(&wire->in) + emu_json_excess(&wire->out);
}

/* One read: a client that floods gets its turn like the others. */
int wire_fill(struct wire *wire)
{
    ssize_t got = emu_json_read(&wire->in, wire->fd, NULL, MSG_DONTWAIT);

    if (got == 0)
        return -EPIPE;
    return got > 0 || got == -EAGAIN ? 0 : (int)got;
}

int wire_next(struct wire *wire, struct json_object **ret)
{
    return emu_json_next(&wire->in, wire->line_max, ret);
}

int wire_put(struct wire *wire, struct json_object *message)
{
    return emu_json_put(&wire->out, message, WIRE_OUT_MAX);
}

int wire_put_with(struct wire *wire, struct json_object *message, const int pass[2])
{
    size_t at = wire->out.bytes;
    int err = wire_put(wire, message);

    wire_drop_pass(wire);
    wire->pass = (struct emu_json_fds){ .fd = { pass[0], pass[1] } };
    wire->pass_at = at;
    if (err)
        wire_drop_pass(wire);
    return err;
}

/* Send the bytes before the passing line alone, and the rest with the descriptors. */
static ssize_t send_some(struct wire *wire)
{
    bool now = wire_passes(wire) && wire->pass_at == 0;
    size_t bytes = wire_passes(wire) && !now ? wire->pass_at : wire->out.bytes;
    ssize_t sent = emu_json_send(&wire->out, wire->fd, bytes, now ? &wire->pass : NULL, MSG_DONTWAIT);

    if (sent <= 0)
        return sent;
    if (now)
        wire_drop_pass(wire);
    else if (wire_passes(wire))
        wire->pass_at -= (size_t)sent;
    return sent;
}

int wire_flush(struct wire *wire)
{
    while (wire->out.bytes > 0) {
        ssize_t sent = send_some(wire);
        if (sent < 0)
            return (int)sent;
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
