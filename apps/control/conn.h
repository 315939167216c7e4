/* SPDX-License-Identifier: BSD-3-Clause */
/* conn.h - a non-blocking end of a control socket: JSON objects, one per line (emu/util/json.h). */
#ifndef APPS_CONTROL_CONN_H
#define APPS_CONTROL_CONN_H

#include <json-c/json.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "emu/util/json.h"
#include "topo/topo.h"

#define CONN_LINE_MAX       65536u      /* bytes of a request, */
#define CONN_CONTAINERS_MAX 256u        /* and its lists and objects */
#define CONN_REPLY_MAX      (16u << 20) /* bytes of a reply: the status of a large fabric */
/* queued bytes for a peer that does not read, a reply and events, besides a line of telemetry */
#define CONN_OUT_MAX (17u << 20)
/* bytes of a line of telemetry: 65536 nodes with four links need half of them */
#define CONN_TELEMETRY_MAX (48u << 20)

/* limit of conn_excess() of all connections together, in bytes */
#define CONN_EXCESS_MAX ((size_t)64 << 20)

/* Errors for invalid requests. */
#define CONN_NO_LINE                                                                          \
    "a request must be one JSON object on one line, with at most 256 lists and objects; see " \
    "docs/control.md"
#define CONN_LONG_LINE "the line is longer than 65536 bytes"

/* One end of a connection. Owned by one thread. */
struct conn {
    int fd;                /* non-blocking; -1 when closed */
    size_t line_max;       /* longer lines are refused, */
    size_t containers_max; /* and lines with more lists and objects; SIZE_MAX: no limit */
    struct emu_json_buf in;
    struct emu_json_buf out;
    size_t line_out;          /* limit of the bytes in `out` of the last line of telemetry */
    struct emu_json_fds pass; /* descriptors to send */
    size_t pass_at;           /* offset in `out` of the line that they go with */
    struct emu_json_fds
        *received_fds; /* where received descriptors are put; NULL: they are closed */
};

/** conn_open - take over @fd and make it non-blocking. containers_max has no limit yet. */
void conn_open(struct conn *conn, int fd, size_t line_max);
void conn_close(struct conn *conn);

/** conn_excess - bytes of its buffers beyond EMU_JSON_KEEP each. */
size_t conn_excess(const struct conn *conn);

/** conn_fill - read available bytes. Returns 0 (some or none), -EPIPE at the end, or -errno. */
int conn_fill(struct conn *conn);

/** conn_next - take the next whole line: emu_json_next(). */
int conn_next(struct conn *conn, struct json_object **ret);

/** conn_put - queue @message, and put it. Errors: -ENOBUFS, the peer does not read. */
int conn_put(struct conn *conn, struct json_object *message);

/**
 * conn_put_line - queue a line of telemetry of up to CONN_TELEMETRY_MAX bytes, without its newline.
 * It leaves the space for events as it is. The previous line must have been sent.
 */
int conn_put_line(struct conn *conn, const char *line, size_t bytes);

/** conn_put_text - queue a piece of a line; @ends: the last one of the line. */
int conn_put_text(struct conn *conn, const char *text, size_t bytes, bool ends);

/** conn_put_with - conn_put() with the descriptors before the first -1, closed when sent. */
int conn_put_with(struct conn *conn, struct json_object *message, const int pass[EMU_JSON_FDS]);

/** conn_flush - send as much as the socket takes. 0: all; -EAGAIN: the rest later; -errno. */
int conn_flush(struct conn *conn);

/** conn_drain - flush, waiting at most @timeout_ms for the peer to read. */
void conn_drain(struct conn *conn, int timeout_ms);

/** conn_wait - the next message. Errors: -ETIMEDOUT, and as conn_fill() and conn_next(). */
int conn_wait(struct conn *conn, struct json_object **ret, int timeout_ms);

/**
 * conn_query - send @request, put it, and wait for the reply, at most @timeout_ms in all. Skips
 * events that arrive before the reply. A refusal is a reply, too. Errors: as conn_wait().
 */
int conn_query(struct conn *conn, struct json_object *request, struct json_object **ret,
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
struct json_object *conn_frozen(pid_t pid); /* event to a supervisor: a fault may stop @pid */
struct json_object *conn_ok(void);          /* {"ok":true}: the beginning of a reply */
struct json_object *conn_error(int err, const char *error); /* {"ok":false,…}: a line for a user */

/** json_show_node - describe a node added by json_add_node(): "node 3 (node01)". Returns @text. */
const char *json_show_node(struct json_object *message, char text[static TOPO_SHOWN_BYTES]);
const char *json_show_switch(struct json_object *message, char text[static TOPO_SHOWN_BYTES]);

/* --- a command sends one request to a running fabric (docs/control.md) ------------------- */

/* A field that a reply must have. */
struct query_field {
    const char *name;
    enum json_type type;
};

/* Fields that a reply must have, for query_fabric() and query_check(). */
#define QUERY_FIELDS(...) ((const struct query_field[]){__VA_ARGS__, {NULL, json_type_null}})

/** query_request - create a request of that name. */
struct json_object *query_request(const char *command);

/**
 * query_fabric - send @request to fabric @name and put it. The caller puts the reply, which has the
 * fields @fields; NULL: any. @owner: the process that listens; may be NULL. Errors: one line in
 * @error. -ETIMEDOUT, no answer; -EPROTO, the fabric refuses, or the reply lacks a field.
 */
int query_fabric(const char *name, struct json_object *request, const struct query_field *fields,
                 struct json_object **reply, pid_t *owner, char *error, size_t error_bytes);

/** query_check - check fields of @object from fabric @name. Errors: -EPROTO, one line in @error. */
int query_check(const char *name, struct json_object *object, const struct query_field *fields,
                char *error, size_t error_bytes);

#endif
