/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * web.h - the web page of a running fabric. Its server is a separate process, which is a client of
 * the control socket. docs/web.md describes what it serves, the access control, and its limits.
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

/* The server, as its starter sees it. Owned by one thread. */
struct web {
    int listen_fd; /* -1: closed */
    uint16_t port;
    char token[WEB_TOKEN_CHARS + 1];
    /*
     * A socket to the server's process; -1: none. The starter writes a byte when the fabric runs,
     * and at the end the last report. The server writes a byte when a browser opens the page.
     */
    int child_fd;
    int parent_fd;    /* in the server's process, the peer of child_fd; -1: closed */
    pid_t pid;        /* of the server's process; 0: none, or reaped */
    int recording_fd; /* recording to serve instead of a fabric; -1: none; the caller closes it */
};

/* No server. */
#define WEB_NONE \
    ((struct web){.listen_fd = -1, .child_fd = -1, .parent_fd = -1, .recording_fd = -1})

/** web_supported - false in a build without libmicrohttpd, which has no server. */
bool web_supported(void);

/**
 * web_open - listen on 127.0.0.1 only, with a new random token. @port: 0: any free port.
 * Errors: -ENOSYS if this build has no server; as bind(); one line in @error.
 */
int web_open(struct web *ret, uint16_t port, char *error, size_t error_bytes);

/** web_close - stop listening. A server that was started continues. */
void web_close(struct web *web);

/** web_address - write the address of the page. */
void web_address(const struct web *web, char ret[WEB_ADDRESS_BYTES]);

/**
 * web_start - fork the server's process and close our copy of the listening socket. The server
 * waits for web_fabric_ready(), serves fabric @name until that ends, and ends with us. The calling
 * process must be single-threaded. Of its other descriptors the server keeps only standard error.
 * Errors: one line in @error.
 */
int web_start(struct web *web, const char *name, char *error, size_t error_bytes);

/** web_fabric_ready - notify the server that the fabric runs. */
void web_fabric_ready(struct web *web);

/**
 * web_opened - true if a browser has opened the page since web_fabric_ready(), or if the server's
 * process has ended. Never blocks; to wait, poll() @web->child_fd for input.
 */
bool web_opened(struct web *web);

/**
 * web_send_report - the fabric has ended with @report: send it to open pages, before they are
 * notified of the end. Waits at most 0.5 s for the server's process to read it.
 */
void web_send_report(struct web *web, struct json_object *report);

/** web_ended - true once if the server's process has ended by itself; it is reaped. */
bool web_ended(struct web *web);

/** web_stop - the fabric has ended: wait up to 2 s for the server's process, then kill it. */
void web_stop(struct web *web);

/**
 * web_serve - serve fabric @name until it ends or @signal_fd is readable. If @name is NULL, serve
 * the recording of @web until @signal_fd is readable. @ready, unless NULL, is called once the
 * fabric is found and browsers are served. On success the listening socket of @web is closed.
 * Errors: one line in @error.
 */
int web_serve(struct web *web, const char *name, int signal_fd,
              void (*ready)(const struct web *web), char *error, size_t error_bytes);

#endif
