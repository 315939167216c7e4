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

#define CONN_LINE_MAX       65536u      /* limit of a request, in bytes */
#define CONN_CONTAINERS_MAX 256u        /* limit of the lists and objects in a request */
#define CONN_REPLY_MAX      (16u << 20) /* limit of a reply, such as that to "status", in bytes */
#define CONN_OUT_MAX        (17u << 20) /* limit of the queued bytes, except for telemetry */
/* limit of a line of telemetry, in bytes: 65536 nodes with four links need half of that */
#define CONN_TELEMETRY_MAX (48u << 20)

#define CONN_EXCESS_MAX ((size_t)64 << 20) /* limit of conn_excess() of all connections together */

/*
 * How long a command waits for a reply of the fabric, in ms. The coordinator replies to no command
 * while it waits for the reply of another host. By default it waits for up to 6 s
 * (docs/control.md), so this limit is longer.
 */
#define CONN_ANSWER_MS 9000

/* Error texts for invalid requests. */
#define CONN_NO_LINE                                                                          \
    "a request must be one JSON object on one line, with at most 256 lists and objects; see " \
    "docs/control.md"
#define CONN_LONG_LINE "the line is longer than 65536 bytes"

/* One end of a connection. Owned by one thread. */
struct conn {
    int fd;          /* non-blocking; -1 when closed */
    size_t line_max; /* conn_next() rejects longer lines */
    /* conn_next() rejects lines with more lists and objects; SIZE_MAX: no limit */
    size_t containers_max;
    struct emu_json_buf in;
    struct emu_json_buf out;
    size_t line_out;          /* bytes of the last line of telemetry, added to the limit of `out` */
    struct emu_json_fds pass; /* descriptors to be sent; the first is -1 if there are none */
    size_t pass_at;           /* offset in `out` of the line with which the descriptors are sent */
    /* receives the descriptors that conn_fill() reads; NULL: they are closed */
    struct emu_json_fds *received_fds;
};

/** conn_open - take over @fd and make it non-blocking. Sets containers_max to SIZE_MAX. */
void conn_open(struct conn *conn, int fd, size_t line_max);
void conn_close(struct conn *conn);

/** conn_excess - return the bytes of `in` and `out` beyond EMU_JSON_KEEP, added together. */
size_t conn_excess(const struct conn *conn);

/** conn_fill - read the available bytes, if any. Errors: -EPIPE, the stream has ended; -errno. */
int conn_fill(struct conn *conn);

/** conn_next - take the next whole line out of `in`, and parse it, as emu_json_next() does. */
int conn_next(struct conn *conn, struct json_object **ret);

/** conn_put - queue @message, and release it. Errors: -ENOBUFS, the peer does not read. */
int conn_put(struct conn *conn, struct json_object *message);

/**
 * conn_put_line - queue a line of telemetry of up to CONN_TELEMETRY_MAX bytes, without its newline.
 * It does not use up the space for events. The previous line of telemetry must have been sent.
 */
int conn_put_line(struct conn *conn, const char *line, size_t bytes);

/** conn_put_text - queue a piece of a line. @ends: it is the last piece of its line. */
int conn_put_text(struct conn *conn, const char *text, size_t bytes, bool ends);

/**
 * conn_put_with - queue @message as conn_put() does, and pass with it the descriptors in @pass, up
 * to the first -1. They are closed when they have been sent, or on error.
 */
int conn_put_with(struct conn *conn, struct json_object *message, const int pass[EMU_JSON_FDS]);

/** conn_flush - send queued bytes. Errors: -EAGAIN, some bytes are left; -errno. */
int conn_flush(struct conn *conn);

/** conn_drain - send all queued bytes, waiting at most @timeout_ms for the peer to read. */
void conn_drain(struct conn *conn, int timeout_ms);

/** conn_wait - wait for the next message. Errors: -ETIMEDOUT; as conn_fill() and conn_next(). */
int conn_wait(struct conn *conn, struct json_object **ret, int timeout_ms);

/**
 * conn_query - send and release @request, and wait at most @timeout_ms for the reply, which may be
 * a refusal. Events that arrive before the reply are dropped, except the first event "wait", which
 * replaces the time limit (docs/control.md). Errors: as conn_put() and conn_wait().
 */
int conn_query(struct conn *conn, struct json_object *request, struct json_object **ret,
               int timeout_ms);

/* Build an object: each function adds a field and returns @message. */
struct json_object *json_add_text(struct json_object *message, const char *field, const char *text);
struct json_object *json_add_number(struct json_object *message, const char *field,
                                    uint64_t number);
/*
 * Add "node":3 and, if a file gives the node a name, "node_name":"node01". json_add_switch() does
 * this for a switch.
 */
struct json_object *json_add_node(struct json_object *message, const struct topo_graph *graph,
                                  uint32_t node);
struct json_object *json_add_switch(struct json_object *message, const struct topo_graph *graph,
                                    uint32_t sw);
struct json_object *conn_event(const char *event);
/* an event that notifies the supervisor that an injected fault is about to stop process @pid */
struct json_object *conn_frozen(pid_t pid);
struct json_object *conn_ok(void); /* {"ok":true}, to which a reply's fields are added */
/* {"ok":false,…} with one line for the user */
struct json_object *conn_error(int err, const char *error);
/* an event that notifies the supervisor that the fabric cannot start */
struct json_object *conn_failed(int err, const char *error);

/** json_show_node - write a node that json_add_node() added: "node 3 (node01)". Returns @text. */
const char *json_show_node(struct json_object *message, char text[static TOPO_SHOWN_BYTES]);
const char *json_show_switch(struct json_object *message, char text[static TOPO_SHOWN_BYTES]);

/* --- a command sends one request to a running fabric (docs/control.md) ------------------- */

struct query_field {
    const char *name;
    enum json_type type;
};

/* A list of fields that a reply must have, for query_fabric() and query_check(). */
#define QUERY_FIELDS(...) ((const struct query_field[]){__VA_ARGS__, {NULL, json_type_null}})

/** query_request - create the request {"cmd":COMMAND}. */
struct json_object *query_request(const char *command);

/**
 * query_fabric - send and release @request to fabric @name, and wait for the reply, which the
 * caller releases. The time limit is CONN_ANSWER_MS. If the fabric waits for its other hosts, the
 * limit is the time that the fabric states, and a line is printed every 9 s. A request with
 * "wait": false keeps this limit. @fields: fields that the reply must have; may be NULL. @owner: as
 * in paths_connect(). Errors, with one line in @error: -ETIMEDOUT, no reply; -EINVAL, the fabric
 * refuses because the request is wrong; -EPROTO, it refuses for another reason, or the reply lacks
 * a field; as paths_connect().
 */
int query_fabric(const char *name, struct json_object *request, const struct query_field *fields,
                 struct json_object **reply, pid_t *owner, char *error, size_t error_bytes);

/** query_check - check the @fields of @object, from fabric @name. Errors: -EPROTO, see @error. */
int query_check(const char *name, struct json_object *object, const struct query_field *fields,
                char *error, size_t error_bytes);

#endif
