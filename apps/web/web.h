/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * web.h - the page of a running fabric: a server in a process of its own, which is a client of the
 * control socket like any other. docs/web.md has what it serves, to whom, and its limits.
 *
 * A build without libmicrohttpd has a server that is not there.
 */
#ifndef APPS_WEB_WEB_H
#define APPS_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEB_TOKEN_CHARS   32u /* hex digits: 128 random bits */
#define WEB_ADDRESS_BYTES 80u /* room for the page's address */

struct json_object;

/* A server's place. Owned by one thread. */
struct web {
    int listen_fd; /* -1: it is closed */
    uint16_t port;
    char token[WEB_TOKEN_CHARS + 1];
    /*
     * A socket to the server's process; -1: none. The owner writes a byte when the fabric runs,
     * and at the end the last report. The server writes a byte when a browser opens the page.
     */
    int go_fd;
    int last_fd;      /* in that process, the other end of go_fd; -1: it has closed */
    pid_t pid;        /* of that process; 0: none, or reaped */
    int recording_fd; /* the recording to serve instead of a fabric; -1: none; the caller's */
};

/* No server. */
#define WEB_NONE ((struct web){.listen_fd = -1, .go_fd = -1, .last_fd = -1, .recording_fd = -1})

/** web_there - has this build a server? */
bool web_there(void);

/**
 * web_open - listen on 127.0.0.1 alone, with a new random token. @port: 0: any that is free.
 * Errors: -ENOSYS, no server in this build; as bind(); one line in @error.
 */
int web_open(struct web *ret, uint16_t port, char *error, size_t error_bytes);

/** web_close - listen no more. A process that was started goes on. */
void web_close(struct web *web);

/** web_address - what a browser opens: WEB_ADDRESS_BYTES. */
void web_address(const struct web *web, char ret[WEB_ADDRESS_BYTES]);

/**
 * web_start - fork the server's process, and close our end of what it listens on. It waits for
 * web_go(), serves fabric @name until that ends, and ends with us. The calling process is
 * single-threaded; of its descriptors the server keeps standard error alone.
 * Errors: one line in @error.
 */
int web_start(struct web *web, const char *name, char *error, size_t error_bytes);

/** web_go - the fabric is there. */
void web_go(struct web *web);

/**
 * web_opened - has a browser opened the page since web_go()? Also true if the server's process has
 * ended, so that nobody waits for it in vain. Never blocks; to wait, poll() @web->go_fd for input.
 */
bool web_opened(struct web *web);

/**
 * web_last - the fabric has ended with @report: pages that are open get it before they are told of
 * the end. Waits for the server's process to take it, for half a second at most.
 */
void web_last(struct web *web, struct json_object *report);

/** web_ended - has the process that was started ended by itself? True once; it is reaped. */
bool web_ended(struct web *web);

/** web_stop - the fabric is not there any more: wait for the process, for 2 s, then kill it. */
void web_stop(struct web *web);

/**
 * web_serve - serve fabric @name until it ends, or @signal_fd has something to read. If @web has a
 * recording, @name is NULL, and the recording is served until @signal_fd has something to read.
 * @ready, unless NULL, is called once the fabric is found and browsers are served. The socket of
 * @web is closed when it returns 0. Errors: one line in @error.
 */
int web_serve(struct web *web, const char *name, int signal_fd,
              void (*ready)(const struct web *web), char *error, size_t error_bytes);

#endif
