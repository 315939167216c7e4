/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.h - the control socket, at an end that never blocks: JSON objects, one a line (emu/json.h).
 */
#ifndef APPS_WIRE_H
#define APPS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "emu/json.h"

#define WIRE_LINE_MAX  65536u      /* bytes of a request */
#define WIRE_REPLY_MAX (16u << 20) /* bytes of a reply: the status of a large fabric */
#define WIRE_OUT_MAX   (17u << 20) /* bytes waiting for a peer that does not read: a reply, and events */

/* One end of a connection. Owned by one thread. */
struct wire {
    int fd;          /* non-blocking; -1 when closed */
    size_t line_max; /* longer lines are refused */
    struct emu_json_buf in;
    struct emu_json_buf out;
    struct emu_json_fds pass; /* descriptors to pass */
    size_t pass_at;           /* offset in what is in use of out of the line that they go with */
};

/** wire_open - take over @fd and make it non-blocking. */
void wire_open(struct wire *wire, int fd, size_t line_max);
void wire_close(struct wire *wire);

/** wire_excess - memory that its buffers take beyond EMU_JSON_KEEP each. Bytes. */
size_t wire_excess(const struct wire *wire);

/** wire_fill - read what has come. Returns 0 (more or nothing), -EPIPE at the end, or -errno. */
int wire_fill(struct wire *wire);

/** wire_next - take the next whole line: emu_json_next(). */
int wire_next(struct wire *wire, struct json_object **ret);

/** wire_put - queue @message (its reference passes). Errors: -ENOBUFS, the peer does not read. */
int wire_put(struct wire *wire, struct json_object *message);

/** wire_put_with - the same, with two descriptors that are closed once they are sent. */
int wire_put_with(struct wire *wire, struct json_object *message, const int pass[2]);

/** wire_flush - send what the socket takes. 0, all is out; -EAGAIN, the rest later; -errno. */
int wire_flush(struct wire *wire);

/** wire_drain - flush, waiting at most @timeout_ms for the peer to make room. */
void wire_drain(struct wire *wire, int timeout_ms);

/**
 * wire_wait - the next message, waiting at most @timeout_ms.
 * Errors: -ETIMEDOUT, and as wire_fill() and wire_next().
 */
int wire_wait(struct wire *wire, struct json_object **ret, int timeout_ms);

/** wire_ask - send {"cmd": @command} and wait for the reply; events on the way are skipped. */
int wire_ask(struct wire *wire, const char *command, struct json_object **ret, int timeout_ms);

/* Build an object: each adds a field and returns @message. */
struct json_object *wire_add_text(struct json_object *message, const char *field, const char *text);
struct json_object *wire_add_number(struct json_object *message, const char *field,
                                    uint64_t number);
struct json_object *wire_event(const char *event);
struct json_object *wire_ok(void); /* {"ok":true}: a reply begins with it */

#endif
