/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * web.h - the web page of a running fabric. The page's server is a separate process, which is a
 * client of the fabric's control socket. docs/web.md describes what the server serves, its access
 * control, and its limits. The *starter* is the process that starts the server.
 */
#ifndef APPS_WEB_WEB_H
#define APPS_WEB_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WEB_TOKEN_CHARS   32u /* hex digits: 128 random bits */
#define WEB_ADDRESS_BYTES 80u /* size of the page's address, with its final 0 */

struct json_object;

/* A server. Owned by one thread of the starter. The process of the server has its own copy. */
struct web {
    int listen_fd; /* listening socket; -1: closed */
    uint16_t port;
    char token[WEB_TOKEN_CHARS + 1];
    /*
     * A socket to the server's process; -1: none. The starter writes a byte when the fabric is
     * ready, and the last report when the fabric has ended. The server writes a byte when a browser
     * opens the page.
     */
    int child_fd;
    int parent_fd;    /* the peer of child_fd in the server's process; -1: closed */
    pid_t pid;        /* the server's process; 0: none, or already reaped */
    int recording_fd; /* recording to serve instead of a fabric; -1: none; the caller closes it */
};

/* A struct web without a server. */
#define WEB_NONE \
    ((struct web){.listen_fd = -1, .child_fd = -1, .parent_fd = -1, .recording_fd = -1})

/** web_supported - return whether this build has a server: it needs libmicrohttpd. */
bool web_supported(void);

/**
 * web_open - make a random token, and listen on @port of 127.0.0.1; 0: on any free port.
 * Errors: -ENOSYS if this build has no server; -EIO if there are no random numbers; those of
 * bind(); one line in @error.
 */
int web_open(struct web *ret, uint16_t port, char *error, size_t error_bytes);

/** web_close - stop listening. A server that was started continues. */
void web_close(struct web *web);

/** web_address - write the address of the page. */
void web_address(const struct web *web, char ret[WEB_ADDRESS_BYTES]);

/**
 * web_start - fork the server's process, and close our copy of the listening socket. The server
 * waits for web_fabric_ready(), and then serves fabric @name until the fabric or the calling
 * process ends. The calling process must be single-threaded. Of its other open files, the server
 * keeps only standard error. Errors: one line in @error.
 */
int web_start(struct web *web, const char *name, char *error, size_t error_bytes);

/** web_fabric_ready - notify the server that the fabric runs. */
void web_fabric_ready(struct web *web);

/**
 * web_opened - return whether a browser has opened the page since web_fabric_ready(), or the
 * server's process has ended. Never blocks. To wait, poll() @web->child_fd for input.
 */
bool web_opened(struct web *web);

/**
 * web_send_report - after the fabric has ended, send its last @report to the server, which passes
 * it to open pages before it notifies them of the end. Waits at most 0.5 s until the server has
 * read it.
 */
void web_send_report(struct web *web, struct json_object *report);

/** web_ended - reap the server's process if it has ended by itself. Returns whether it has. */
bool web_ended(struct web *web);

/** web_stop - after the fabric has ended, wait up to 2 s for the server's process, then kill it. */
void web_stop(struct web *web);

/**
 * web_serve - in this process, serve fabric @name until it ends or @signal_fd is readable. If @name
 * is NULL, serve the recording of @web until @signal_fd is readable. Unless @ready is NULL, calls
 * it as soon as browsers can connect. Closes the listening socket of @web, unless the server does
 * not start.
 * Errors: one line in @error.
 */
int web_serve(struct web *web, const char *name, int signal_fd,
              void (*ready)(const struct web *web), char *error, size_t error_bytes);

#endif
