/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths.h - where the control sockets of this user's fabrics lie.
 *
 * $XDG_RUNTIME_DIR/fabemu, or /tmp/fabemu-UID where that does not exist: ours,
 * mode 0700, checked on every use; in it NAME.sock, mode 0600. Those of fabrics on
 * several hosts are in the latter, which has one name on all of them; so what is
 * not in the first is looked for there.
 */
#ifndef APPS_CONTROL_PATHS_H
#define APPS_CONTROL_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define PATHS_NAME_MAX 63 /* characters of a fabric's name */

/* A socket that we made; inode and device tell it from a successor of the same name. */
struct paths_socket {
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    dev_t dev;
    ino_t ino;
};

/** paths_check_name - letters, digits, '.', '_', '-'; no dot or dash first. -EINVAL, one line. */
int paths_check_name(const char *name, char *error, size_t error_bytes);

/**
 * paths_listen - make the socket of fabric @name and listen on it.
 * A socket that nobody listens on any more is removed, and said. The peer
 * credentials that clients see are the calling process's.
 * Errors: -EADDRINUSE, a fabric of this name runs; others; one line in @error.
 */
int paths_listen(struct paths_socket *ret, int *fd, const char *name, char *error,
                 size_t error_bytes);

/**
 * paths_free - does no fabric @name run now? paths_listen() alone can be sure of it later.
 * Errors: as paths_listen().
 */
int paths_free(const char *name, char *error, size_t error_bytes);

/** paths_unlink - remove the socket if it is still the one that we made. */
void paths_unlink(const struct paths_socket *socket);

/**
 * paths_connect - connect to fabric @name. @owner: the process that listens; may be NULL.
 * Errors: -ENOENT, -ECONNREFUSED, others; one line in @error.
 */
int paths_connect(int *fd, pid_t *owner, const char *name, char *error, size_t error_bytes);

/**
 * paths_supervised_by - does a child of process @owner serve fabric @name, so that @owner is the
 * fabric's supervisor? @owner as paths_connect() returns it is the process that made the socket;
 * another process may have its number by now.
 */
bool paths_supervised_by(const char *name, pid_t owner);

/** paths_list - call @each with the name of every socket in the directory, in order. */
int paths_list(void (*each)(void *context, const char *name), void *context, char *error,
               size_t error_bytes);

/** paths_of - path of fabric @name's socket. Errors as paths_listen. */
int paths_of(char *path, size_t path_bytes, const char *name, char *error, size_t error_bytes);

/** hosts_node_name - this machine's name, as in sockets' names (hosts_socket_name()). */
void hosts_node_name(char *ret, size_t ret_bytes);

/**
 * hosts_socket_name - of a fabric's socket on this host: the fabric's name and this machine's,
 * since hosts may share a folder. hosts_socket_anywhere() - the path that programs are given on all
 * hosts: with %h where the machine's name stands.
 */
void hosts_socket_name(char *ret, size_t ret_bytes, const char *fabric);
void hosts_socket_anywhere(char *ret, size_t ret_bytes, const char *path);

#endif
