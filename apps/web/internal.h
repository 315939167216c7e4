/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the server's parts: connections that have not shown the token (door.c), connections
 * of browsers (server.c), their requests (request.c), and connections to the fabric on their behalf
 * (link.c). Only for apps/web/.
 *
 * All of it is one thread's, and nothing in it waits.
 */
#ifndef APPS_WEB_INTERNAL_H
#define APPS_WEB_INTERNAL_H

#include <microhttpd.h>

#include "apps/control/conn.h"
#include "apps/base/text.h"
#include "apps/telemetry/view.h"
#include "apps/web/web.h"
#include "emu/util/list.h"

#define WEB_CONNS           128u  /* connections that have shown the token, at the same time */
#define WEB_UNAUTHENTICATED 1024u /* connections that have not: door.c */
#define WEB_STREAMS         8u    /* pages that are open at the same time */
#define WEB_LINKS           24u   /* connections to the fabric, streams among them */
#define WEB_SCRAPES         2u    /* of these, for metrics: each has a view of the whole fabric */
#define WEB_BODY_BYTES      2048u
#define WEB_REQUEST_MS      5000 /* for a request to come */
#define WEB_ANSWER_MS       5000 /* for the fabric to answer */
#define WEB_IDLE_S          10u  /* for a browser to take something of an answer */
/* for the fabric's end and last report to be known, behind a stream */
#define WEB_LAST_MS 1000

/*
 * Answers that browsers have not taken yet have so many bytes together, and those that are coming;
 * of each EMU_JSON_KEEP do not count. What would be more is refused, so who does not read costs
 * others large answers, and never small ones.
 */
#define WEB_ANSWERS_BYTES ((size_t)32 << 20)

/* A file of the page; web_files.c, which embed.py makes of apps/web/page/, has all of them. */
struct web_file {
    const char *path; /* behind the token; "": the page itself */
    const char *type;
    const unsigned char *at;
    size_t bytes;
};

extern const struct web_file web_files[]; /* ends with one without a path */

/* Connections that have not shown the token. */
struct web_admission {
    int epoll;                       /* watches these, and the listening socket */
    struct emu_list unauthenticated; /* the oldest first */
    uint32_t count, most;
};

/* A connection that has shown the token. */
struct web_conn {
    struct emu_list all;
    int fd;             /* microhttpd's */
    int64_t since_ms;   /* a request has been awaited since then */
    bool authenticated; /* a complete request has come, and is being answered */
    bool cut;           /* it will be closed for being late */
};

enum web_kind { WEB_STREAM, WEB_QUERY, WEB_METRICS, WEB_KINDS };

/* A connection to the fabric, for one request of a browser's. */
struct web_link {
    struct emu_list all;
    struct web_server *server;
    enum web_kind kind;
    struct MHD_Connection *http;
    bool waits;       /* the browser's connection is suspended until something comes */
    struct conn conn; /* to the fabric */
    int64_t end_ms;   /* no answer is waited for after that; of a stream that is over: no watch */
    struct web_answer *answer;  /* ask: once it is there */
    struct telemetry_view view; /* metrics */
    size_t buffered;            /* ask, metrics: what has come, as it counts in the server's */
    bool refused;               /* it is too much beside what others have */
    bool done;                  /* ask, metrics: it is there, or will not come */
    /* stream: bytes that came, and were not passed on yet */
    char raw[16384];
    size_t raw_at, raw_bytes;
    bool begun;
    bool mid;       /* what was passed on last is a piece of a line */
    bool over;      /* nothing more comes from the fabric */
    size_t tail_at; /* so much of the server's was passed on */
};

/* What a browser is yet to take. */
struct web_answer {
    struct web_server *server;
    char *at;
    size_t bytes;
    size_t buffered; /* as it counts in the server's */
};

struct web_server {
    struct web *web;
    const char *name; /* of the fabric; NULL: a recording is served instead */
    struct MHD_Daemon *daemon;
    struct web_admission admission;
    struct emu_list conns; /* the oldest wait first */
    struct emu_list links;
    uint32_t link_count;
    uint32_t answers;            /* that browsers have not taken all of */
    uint32_t of_kind[WEB_KINDS]; /* of the links */
    size_t buffered;             /* WEB_ANSWERS_BYTES at most, but while something comes */
    struct conn watch;           /* its end is the fabric's */
    int64_t ended_ms;            /* since then there is no fabric; 0: there is */
    bool opened;                 /* a browser has opened the page */
    struct text_buf tail;        /* events that end each stream: what has come of the last report */
};

/**
 * web_admission_open - begin to accept on @listen_fd, which is non-blocking and stays the caller's.
 * Errors: -errno.
 * web_admission_step() - accept connections, and pass those that have shown the token to
 * microhttpd. Bounded work; the next call continues.
 */
int web_admission_open(struct web_admission *admission, int listen_fd);
void web_admission_step(struct web_server *server);
void web_admission_close(struct web_admission *admission);

/* request.c: are WEB_TOKEN_CHARS characters the token? Takes constant time. */
bool web_same_token(const char *token, const char *given);

/*
 * server.c: a browser has opened the page: notify the starter of the server, which may wait for
 * that.
 */
void web_page_opened(struct web_server *server);

/*
 * server.c: @authenticated: a complete request has come; else one is awaited, for WEB_REQUEST_MS.
 */
void web_conn_authenticated(struct web_server *server, struct web_conn *conn, bool authenticated);

/* request.c: microhttpd's callbacks; the context is the server. */
enum MHD_Result web_request(void *ctx, struct MHD_Connection *http, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_bytes, void **request);
void web_request_over(void *ctx, struct MHD_Connection *http, void **request,
                      enum MHD_RequestTerminationCode why);

/**
 * web_link_open - connect to the fabric and send it @query, which is put. Errors: one line in
 * @error.
 */
int web_link_open(struct web_link **ret, struct web_server *server, enum web_kind kind,
                  struct MHD_Connection *http, struct json_object *query, char *error,
                  size_t error_bytes);
void web_link_close(struct web_link *link);

/**
 * web_answer_make - of @at, which passes on, malloc()ed. NULL: there is no memory, or too much is
 * held already (*refused), and it is freed. web_answer_free() - it was taken, or nobody wants it.
 */
struct web_answer *web_answer_make(struct web_server *server, char *at, size_t bytes,
                                   bool *refused);
void web_answer_free(struct web_answer *answer);

/** web_link_await - have the browser wait until something has come. */
void web_link_await(struct web_link *link);

/**
 * web_link_step - something has come, or it is late: who waits for it goes on if there is reason.
 */
void web_link_step(struct web_link *link, bool readable);

/** web_stream_read - microhttpd's reader of a stream: lines as server-sent events. */
ssize_t web_stream_read(void *ctx, uint64_t at, char *buf, size_t bytes);

#endif
