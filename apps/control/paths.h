/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths.h - the control sockets of this user's fabrics.
 *
 * They are NAME.sock, mode 0600, in the folder $XDG_RUNTIME_DIR/fabemu or, if that variable is
 * unset, /tmp/fabemu-UID: the user's own, mode 0700, checked on every use. Sockets of fabrics on
 * several hosts are in the latter, which has the same name on all hosts; so a socket that is not in
 * the first folder is searched there.
 */
#ifndef APPS_CONTROL_PATHS_H
#define APPS_CONTROL_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define PATHS_NAME_MAX 63 /* characters of a fabric's name */

/* A socket made by this process; device and inode distinguish it from a later one. */
struct paths_socket {
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    dev_t dev;
    ino_t ino;
};

/** paths_check_name - letters, digits, '.', '_', '-'; not '.' or '-' first. -EINVAL, one line. */
int paths_check_name(const char *name, char *error, size_t error_bytes);

/**
 * paths_listen - make the socket of fabric @name and listen on it. Removes a socket that nobody
 * listens on, and logs that. Clients see the credentials of the calling process.
 * Errors: -EADDRINUSE, a fabric of this name runs; others; one line in @error.
 */
int paths_listen(struct paths_socket *ret, int *fd, const char *name, char *error,
                 size_t error_bytes);

/** paths_free - is the name free now? Only paths_listen() claims it. Errors: as that one. */
int paths_free(const char *name, char *error, size_t error_bytes);

/** paths_unlink - remove the socket unless another process has replaced it. */
void paths_unlink(const struct paths_socket *socket);

/**
 * paths_connect - connect to fabric @name. @owner: the process that listens; may be NULL.
 * Errors: -ENOENT, -ECONNREFUSED, others; one line in @error.
 */
int paths_connect(int *fd, pid_t *owner, const char *name, char *error, size_t error_bytes);

/**
 * paths_supervised_by - is @owner the supervisor of fabric @name: does one of its children serve
 * it? paths_connect() returns as @owner the process that made the socket; another process may have
 * that number by now.
 */
bool paths_supervised_by(const char *name, pid_t owner);

/** paths_list - call @each with the name of every socket, in order. */
int paths_list(void (*each)(void *context, const char *name), void *context, char *error,
               size_t error_bytes);

/**
 * paths_default - the name of the fabric that a command without a name is for: "default" if that
 * one runs, or else the only one that runs. If none or several run, "default": paths_connect() then
 * says what is wrong. @ret: room for the name.
 */
const char *paths_default(char ret[static PATHS_NAME_MAX + 1]);

/** paths_of - path of fabric @name's socket. Errors as paths_listen. */
int paths_of(char *path, size_t path_bytes, const char *name, char *error, size_t error_bytes);

/** hosts_node_name - this host's name, as in sockets' names (hosts_socket_name()). */
void hosts_node_name(char *ret, size_t ret_bytes);

/**
 * hosts_socket_name - the name of a fabric's socket on this host: the fabric's name and the host's,
 * since hosts may share a folder. hosts_socket_anywhere() - the path for programs on all hosts,
 * with %h instead of the host's name.
 */
void hosts_socket_name(char *ret, size_t ret_bytes, const char *fabric);
void hosts_socket_anywhere(char *ret, size_t ret_bytes, const char *path);

#endif
