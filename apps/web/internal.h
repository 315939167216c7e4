/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the parts of the server, private to apps/web/: connections that have not sent the
 * token (admission.c), connections of browsers (server.c) and their requests (request.c). A *link*
 * is a connection to the fabric for one request of a browser (link.c). A *stream* is a request that
 * lasts until the fabric ends. Its *tail* consists of its last events, which the server appends.
 *
 * One thread runs the whole server, and blocks only in poll().
 */
#ifndef APPS_WEB_INTERNAL_H
#define APPS_WEB_INTERNAL_H

#include <microhttpd.h>

#include "apps/control/conn.h"
#include "apps/base/text.h"
#include "apps/telemetry/view.h"
#include "apps/web/web.h"
#include "emu/util/list.h"

#define WEB_CONNS      128u  /* limit of connections with the token */
#define WEB_UNVERIFIED 1024u /* limit of connections without the token: admission.c */
#define WEB_STREAMS    8u    /* limit of streams: open pages */
#define WEB_LINKS      24u   /* limit of links, including those of streams */
#define WEB_SCRAPES    2u    /* limit of links for metrics, each of which needs much memory */
#define WEB_BODY_BYTES 2048u
#define WEB_REQUEST_MS 5000 /* time-out of a request */
#define WEB_IDLE_S     10u  /* time-out of a browser that does not read */
#define WEB_LAST_MS    1000 /* longest wait for the end of the fabric after the end of a stream */

/*
 * Limit of the bytes of all answers that are being received from the fabric or sent to browsers.
 * The first EMU_JSON_KEEP bytes of an answer do not count. If some browsers do not read their
 * answers, so that these use up the limit, other browsers still get small answers.
 */
#define WEB_ANSWERS_BYTES ((size_t)32 << 20)

/* A file of the page. embed.py writes web_files.c from apps/web/page/. */
struct web_file {
    const char *path; /* after the token; "": the page itself */
    const char *type;
    const unsigned char *at;
    size_t bytes;
};

extern const struct web_file web_files[]; /* the last one has the path NULL */

/* The connections that have not sent the token. */
struct web_admission {
    int epoll;                  /* watches them and the listening socket */
    struct emu_list unverified; /* oldest first */
    uint32_t count, most;
    int64_t paused_ms; /* when accepting failed; 0: the listening socket is watched */
};

/* A connection of a browser that has sent the token. */
struct web_conn {
    struct emu_list all;
    int fd;           /* owned by microhttpd */
    int64_t since_ms; /* when the server began to wait for a request */
    bool busy;        /* a complete request is being answered */
    bool cut;         /* the server has shut it down because of a time-out */
};

enum web_kind { WEB_STREAM, WEB_QUERY, WEB_METRICS, WEB_KINDS };

/* A link: a connection to the fabric, for one request of a browser. */
struct web_link {
    struct emu_list all;
    struct web_server *server;
    enum web_kind kind;
    struct MHD_Connection *http;
    bool waits;       /* the browser's connection is suspended until the fabric sends data */
    struct conn conn; /* to the fabric */
    int64_t end_ms;   /* end of the wait for the answer or, after a stream's end, for the tail */
    struct web_answer *answer;  /* WEB_QUERY: NULL until it has arrived */
    struct telemetry_view view; /* WEB_METRICS */
    size_t buffered;            /* this link's share of web_server.buffered */
    bool refused;               /* the answer would exceed WEB_ANSWERS_BYTES */
    bool done;                  /* WEB_QUERY, WEB_METRICS: the answer is complete or has failed */
    /* WEB_STREAM: bytes from the fabric; those from raw_at on are not sent to the browser yet */
    char raw[16384];
    size_t raw_at, raw_bytes;
    bool begun;
    bool mid;       /* the last bytes sent to the browser are an incomplete line */
    bool over;      /* the fabric has closed the stream */
    size_t tail_at; /* bytes of web_server.tail that were sent */
};

/* An answer that a browser is reading. */
struct web_answer {
    struct web_server *server;
    char *at;
    size_t bytes;
    size_t buffered; /* this answer's share of web_server.buffered */
};

struct web_server {
    struct web *web;
    const char *name; /* of the fabric; NULL: the server serves a recording */
    struct MHD_Daemon *daemon;
    struct web_admission admission;
    struct emu_list conns; /* sorted by since_ms */
    struct emu_list links;
    uint32_t link_count;
    uint32_t answers;            /* number of struct web_answer that exist */
    uint32_t of_kind[WEB_KINDS]; /* number of links by kind */
    size_t buffered;             /* bytes that count for WEB_ANSWERS_BYTES */
    struct conn watch;           /* a connection that the fabric closes when it ends */
    int64_t ended_ms;            /* when the fabric ended; 0: it still runs */
    int64_t tail_ms;             /* when the tail was complete; 0: it is not, or has no report */
    bool opened;                 /* a browser has opened the page */
    struct text_buf tail;        /* the last events of each stream: report and ENDED */
};

/**
 * web_admission_open - begin to accept connections on @listen_fd, which is non-blocking. The caller
 * closes it. Errors: -errno.
 * web_admission_step() - accept connections, and pass those that have sent the token to microhttpd.
 * The work of one call is bounded, and the next call continues.
 */
int web_admission_open(struct web_admission *admission, int listen_fd);
void web_admission_step(struct web_server *server);
void web_admission_close(struct web_admission *admission);

/* request.c: return in constant time whether the first WEB_TOKEN_CHARS characters are the token. */
bool web_same_token(const char *token, const char *given);

/* server.c: notify the parent process that a browser has opened the page. */
void web_page_opened(struct web_server *server);

/* server.c: set conn->busy. If @busy is false, the time-out WEB_REQUEST_MS begins. */
void web_conn_busy(struct web_server *server, struct web_conn *conn, bool busy);

/* request.c: callbacks of microhttpd. @ctx: the server. */
enum MHD_Result web_request(void *ctx, struct MHD_Connection *http, const char *url,
                            const char *method, const char *version, const char *upload,
                            size_t *upload_bytes, void **request);
void web_request_over(void *ctx, struct MHD_Connection *http, void **request,
                      enum MHD_RequestTerminationCode why);

/**
 * web_link_open - connect to the fabric and send it @query. Frees @query in any case.
 * Errors: -errno, with a line in @error if there is no connection.
 */
int web_link_open(struct web_link **ret, struct web_server *server, enum web_kind kind,
                  struct MHD_Connection *http, struct json_object *query, char *error,
                  size_t error_bytes);
void web_link_close(struct web_link *link);

/**
 * web_answer_make - create an answer that owns @at, which malloc() has allocated. If there is no
 * memory, or if WEB_ANSWERS_BYTES would be exceeded (*refused is then true), frees @at and returns
 * NULL.
 */
struct web_answer *web_answer_make(struct web_server *server, char *at, size_t bytes,
                                   bool *refused);
void web_answer_free(struct web_answer *answer);

/** web_link_await - suspend the browser's connection until the fabric sends data. */
void web_link_await(struct web_link *link);

/**
 * web_link_step - read what the fabric has sent, or detect a time-out. Then resume the browser's
 * connection.
 */
void web_link_step(struct web_link *link, bool readable);

/** web_stream_read - write lines as server-sent events: callback of microhttpd. */
ssize_t web_stream_read(void *ctx, uint64_t at, char *buf, size_t bytes);

#endif
