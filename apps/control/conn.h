/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * conn.h - the control socket, at an end that never blocks: JSON objects, one a line
 * (emu/util/json.h).
 */
#ifndef APPS_CONTROL_CONN_H
#define APPS_CONTROL_CONN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/util/json.h"
#include "topo/topo.h"

#define CONN_LINE_MAX  65536u      /* bytes of a request */
#define CONN_REPLY_MAX (16u << 20) /* bytes of a reply: the status of a large fabric */
/* bytes waiting for a peer that does not read: a reply, and events; beyond a line of telemetry */
#define CONN_OUT_MAX (17u << 20)
/* bytes of a line of telemetry: all of 65536 nodes with four links takes half of that */
#define CONN_TELEMETRY_MAX (48u << 20)

/* bytes of the buffers of all connections together, beyond what each may have (conn_excess()) */
#define CONN_EXCESS_MAX ((size_t)64 << 20)

/* What who sends something else is told. */
#define CONN_NO_LINE   "a request must be one JSON object on one line; see docs/control.md"
#define CONN_LONG_LINE "the line is longer than 65536 bytes"

/* One end of a connection. Owned by one thread. */
struct conn {
    int fd;          /* non-blocking; -1 when closed */
    size_t line_max; /* longer lines are refused */
    struct emu_json_buf in;
    struct emu_json_buf out;
    size_t line_out;           /* of these at most so many are of the last line of telemetry */
    struct emu_json_fds pass;  /* descriptors to pass */
    size_t pass_at;            /* offset in what is in use of out of the line that they go with */
    struct emu_json_fds *came; /* where descriptors that come go; NULL: the host closes them */
};

/** conn_open - take over @fd and make it non-blocking. */
void conn_open(struct conn *conn, int fd, size_t line_max);
void conn_close(struct conn *conn);

/** conn_excess - memory that its buffers take beyond EMU_JSON_KEEP each. Bytes. */
size_t conn_excess(const struct conn *conn);

/** conn_fill - read what has come. Returns 0 (more or nothing), -EPIPE at the end, or -errno. */
int conn_fill(struct conn *conn);

/** conn_next - take the next whole line: emu_json_next(). */
int conn_next(struct conn *conn, struct json_object **ret);

/** conn_put - queue @message (its reference passes). Errors: -ENOBUFS, the peer does not read. */
int conn_put(struct conn *conn, struct json_object *message);

/**
 * conn_put_line - the same of a line of telemetry, without its end, which may have up to
 * CONN_TELEMETRY_MAX bytes. Events find the same room behind it as without. The line before it has
 * been sent.
 */
int conn_put_line(struct conn *conn, const char *line, size_t bytes);

/** conn_put_text - queue a piece of a line as it is; if it @ends, that is the line's last. */
int conn_put_text(struct conn *conn, const char *text, size_t bytes, bool ends);

/**
 * conn_put_with - as conn_put(), with descriptors that are closed once they are sent: those before
 * the first -1.
 */
int conn_put_with(struct conn *conn, struct json_object *message, const int pass[EMU_JSON_FDS]);

/** conn_flush - send what the socket takes. 0, all is out; -EAGAIN, the rest later; -errno. */
int conn_flush(struct conn *conn);

/** conn_drain - flush, waiting at most @timeout_ms for the peer to make room. */
void conn_drain(struct conn *conn, int timeout_ms);

/**
 * conn_wait - the next message, waiting at most @timeout_ms for all of it.
 * Errors: -ETIMEDOUT, and as conn_fill() and conn_next().
 */
int conn_wait(struct conn *conn, struct json_object **ret, int timeout_ms);

/**
 * conn_ask - send @request, put it, and wait for the reply, at most @timeout_ms in all. Events that
 * arrive before the reply are skipped. Errors: as conn_wait(). A refusal by the peer is a reply,
 * too.
 */
int conn_ask(struct conn *conn, struct json_object *request, struct json_object **ret,
             int timeout_ms);

/* Build an object: each adds a field and returns @message. */
struct json_object *json_add_text(struct json_object *message, const char *field, const char *text);
struct json_object *json_add_number(struct json_object *message, const char *field,
                                    uint64_t number);
/* Add "node":3 and, if a file names the node, "node_name":"node01"; the same for a switch. */
struct json_object *json_add_node(struct json_object *message, const struct topo_graph *graph,
                                  uint32_t node);
struct json_object *json_add_switch(struct json_object *message, const struct topo_graph *graph,
                                    uint32_t sw);
struct json_object *conn_event(const char *event);
struct json_object *conn_frozen(pid_t pid); /* a supervisor is told that a fault may stop it */
struct json_object *conn_ok(void);          /* {"ok":true}: a reply begins with it */
struct json_object *conn_error(int err, const char *error); /* {"ok":false,…}: a line for a user */

/**
 * json_show_node - write the node that json_add_node() has added to @message for people: "node 3",
 * or "node 3 (node01)". Returns @text.
 */
const char *json_show_node(struct json_object *message, char text[static TOPO_SHOWN_BYTES]);
const char *json_show_switch(struct json_object *message, char text[static TOPO_SHOWN_BYTES]);

#endif
