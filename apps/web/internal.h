/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the parts of the server: connections without the token (door.c), connections of
 * browsers (server.c), their requests (request.c), and links, which are connections to the fabric
 * on their behalf (link.c). Private to apps/web/.
 *
 * One thread runs all of it, and blocks only in poll().
 */
#ifndef APPS_WEB_INTERNAL_H
#define APPS_WEB_INTERNAL_H

#include <microhttpd.h>

#include "apps/control/conn.h"
#include "apps/base/text.h"
#include "apps/telemetry/view.h"
#include "apps/web/web.h"
#include "emu/util/list.h"

#define WEB_CONNS      128u  /* most connections with the token */
#define WEB_UNVERIFIED 1024u /* most connections without the token: door.c */
#define WEB_STREAMS    8u    /* most open pages */
#define WEB_LINKS      24u   /* most connections to the fabric, including streams */
#define WEB_SCRAPES    2u    /* most links for metrics: each has a view of the whole fabric */
#define WEB_BODY_BYTES 2048u
#define WEB_REQUEST_MS 5000 /* time-out of a request */
#define WEB_ANSWER_MS  5000 /* time-out of the fabric's reply */
#define WEB_IDLE_S     10u  /* time-out of a browser that does not read */
#define WEB_LAST_MS    1000 /* wait for the tail, after the end of a stream */

/*
 * Limit of the bytes of all answers that are being received from the fabric or sent to browsers.
 * The first EMU_JSON_KEEP bytes of each do not count. Larger answers are refused then, so that
 * browsers that do not read never prevent small answers to others.
 */
#define WEB_ANSWERS_BYTES ((size_t)32 << 20)

/* A file of the page. embed.py writes web_files.c from apps/web/page/. */
struct web_file {
    const char *path; /* after the token; "": the page itself */
    const char *type;
    const unsigned char *at;
    size_t bytes;
};

extern const struct web_file web_files[]; /* ends with one without a path */

/* Connections without the token. */
struct web_admission {
    int epoll;                  /* watches them and the listening socket */
    struct emu_list unverified; /* oldest first */
    uint32_t count, most;
};

/* A connection with the token. */
struct web_conn {
    struct emu_list all;
    int fd;           /* owned by microhttpd */
    int64_t since_ms; /* start of the wait for a request */
    bool busy;        /* a complete request is being answered */
    bool cut;         /* it was shut down because of a time-out */
};

enum web_kind { WEB_STREAM, WEB_QUERY, WEB_METRICS, WEB_KINDS };

/* A connection to the fabric, for one request of a browser. */
struct web_link {
    struct emu_list all;
    struct web_server *server;
    enum web_kind kind;
    struct MHD_Connection *http;
    bool waits;       /* the browser's connection is suspended until the fabric sends data */
    struct conn conn; /* to the fabric */
    int64_t end_ms;   /* time-out of the answer; of a closed stream: of the wait for the tail */
    struct web_answer *answer;  /* WEB_QUERY: NULL until it has come */
    struct telemetry_view view; /* WEB_METRICS */
    size_t buffered;            /* share of web_server.held */
    bool refused;               /* the answer would exceed WEB_ANSWERS_BYTES */
    bool done;                  /* WEB_QUERY, WEB_METRICS: the answer is complete, or has failed */
    /* WEB_STREAM: bytes from the fabric that were not sent to the browser yet */
    char raw[16384];
    size_t raw_at, raw_bytes;
    bool begun;
    bool mid;       /* the last bytes sent to the browser are an incomplete line */
    bool over;      /* the fabric has closed the stream */
    size_t tail_at; /* number of bytes of web_server.tail that were sent */
};

/* An answer that a browser is reading. */
struct web_answer {
    struct web_server *server;
    char *at;
    size_t bytes;
    size_t buffered; /* share of web_server.held */
};

struct web_server {
    struct web *web;
    const char *name; /* of the fabric; NULL: serve a recording */
    struct MHD_Daemon *daemon;
    struct web_admission admission;
    struct emu_list conns; /* by since_ms */
    struct emu_list links;
    uint32_t link_count;
    uint32_t answers;            /* number of struct web_answer */
    uint32_t of_kind[WEB_KINDS]; /* number of links by kind */
    size_t buffered;             /* bytes of answers; limit WEB_ANSWERS_BYTES */
    struct conn watch;           /* closes when the fabric ends */
    int64_t ended_ms;            /* when the fabric ended; 0: it runs */
    bool opened;                 /* a browser has opened the page */
    struct text_buf tail;        /* events that end each stream: the last report, and ENDED */
};

/**
 * web_admission_open - begin to accept on @listen_fd, which is non-blocking; the caller closes it.
 * Errors: -errno.
 * web_admission_step() - accept connections, and hand those with the token to microhttpd. The work
 * per call is bounded; the next call continues.
 */
int web_admission_open(struct web_admission *admission, int listen_fd);
void web_admission_step(struct web_server *server);
void web_admission_close(struct web_admission *admission);

/* request.c: are WEB_TOKEN_CHARS characters the token? Takes constant time. */
bool web_same_token(const char *token, const char *given);

/* server.c: notify the starter of the server that a browser has opened the page. */
void web_page_opened(struct web_server *server);

/* server.c: set conn->busy; if it is false, WEB_REQUEST_MS begins anew. */
void web_conn_busy(struct web_server *server, struct web_conn *conn, bool busy);

/* request.c: callbacks of microhttpd. @ctx: the server. */
enum MHD_Result web_request(void *ctx, struct MHD_Connection *http, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_bytes, void **request);
void web_request_over(void *ctx, struct MHD_Connection *http, void **request,
                      enum MHD_RequestTerminationCode why);

/**
 * web_link_open - connect to the fabric and send it @query, which is put. Errors: line in @error.
 * */
int web_link_open(struct web_link **ret, struct web_server *server, enum web_kind kind,
                  struct MHD_Connection *http, struct json_object *query, char *error,
                  size_t error_bytes);
void web_link_close(struct web_link *link);

/**
 * web_answer_make - create an answer that owns @at, which was allocated by malloc(). Frees @at and
 * returns NULL without memory, or, with *refused true, if WEB_ANSWERS_BYTES would be exceeded.
 */
struct web_answer *web_answer_make(struct web_server *server, char *at, size_t bytes,
                                   bool *refused);
void web_answer_free(struct web_answer *answer);

/** web_link_await - suspend the browser's connection until the fabric sends data. */
void web_link_await(struct web_link *link);

/** web_link_step - read the fabric's data, check time-outs, resume the browser's connection. */
void web_link_step(struct web_link *link, bool readable);

/** web_stream_read - callback of microhttpd: writes lines as server-sent events. */
ssize_t web_stream_read(void *ctx, uint64_t at, char *buf, size_t bytes);

#endif
