/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths.h - the control sockets of this user's fabrics.
 *
 * The socket of fabric NAME is NAME.sock, mode 0600, in the folder $XDG_RUNTIME_DIR/fabemu or, if
 * that variable names no directory, /tmp/fabemu-UID. The folder must be the user's own, with mode
 * 0700, which is checked on every use. Sockets of fabrics on several hosts are always in
 * /tmp/fabemu-UID, because that name is the same on all hosts. So if the socket of such a fabric is
 * not in the first folder, it is looked for in /tmp/fabemu-UID.
 */
#ifndef APPS_CONTROL_PATHS_H
#define APPS_CONTROL_PATHS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#define PATHS_NAME_MAX   63     /* limit of characters in a fabric's name */
#define PATHS_RUN_PREFIX "run-" /* fabemu run gives its fabric this prefix and its pid */

/* A socket of this process. @dev and @ino distinguish it from a later socket of the same name. */
struct paths_socket {
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    dev_t dev;
    ino_t ino;
};

/**
 * paths_check_name - check that a name consists of letters, digits, '.', '_' and '-', and does not
 * begin with '.' or '-'. Errors: -EINVAL, with one line in @error.
 */
int paths_check_name(const char *name, char *error, size_t error_bytes);

/**
 * paths_listen - make the socket of fabric @name and listen on it. If the folder has an old socket
 * of this name, on which no process listens, this function removes it and prints a line about it.
 * It also removes the sockets of other fabrics that have crashed, unless other machines could share
 * the folder's file system. SO_PEERCRED gives clients the credentials of the calling process.
 * Errors, with one line in @error: -EADDRINUSE, a fabric of this name runs; others.
 */
int paths_listen(struct paths_socket *ret, int *fd, const char *name, char *error,
                 size_t error_bytes);

/**
 * paths_free - check that no fabric named @name runs now. This does not reserve the name.
 * Errors: as paths_listen().
 */
int paths_free(const char *name, char *error, size_t error_bytes);

/**
 * paths_unlink - remove the socket, and the fabric's shared address vectors, unless another process
 * has replaced the socket.
 */
void paths_unlink(const struct paths_socket *socket);

/**
 * paths_connect - connect to fabric @name. @owner: set to the process that made the socket; may be
 * NULL.
 * Errors, with one line in @error: -ENOENT, -ECONNREFUSED, others.
 */
int paths_connect(int *fd, pid_t *owner, const char *name, char *error, size_t error_bytes);

/**
 * paths_supervised_by - return whether @owner is the supervisor of fabric @name: whether one of its
 * children serves the socket. This check is needed because the @owner of paths_connect() made the
 * socket, but may have ended, and its number may belong to another process by now.
 */
bool paths_supervised_by(const char *name, pid_t owner);

/** paths_list - call @each with each socket's name, sorted. Errors: as paths_listen(). */
int paths_list(void (*each)(void *context, const char *name), void *context, char *error,
               size_t error_bytes);

/**
 * paths_default - return the name of the fabric to which a command without a name applies:
 * "default" if that fabric runs, otherwise the only fabric that runs. If none runs, or several do,
 * the result is "default", and paths_connect() then reports the error. @ret: space for the name.
 * @kept: if the user keeps fabrics with `fabemu up`, ignore the fabrics of `fabemu run`.
 */
const char *paths_default(char ret[static PATHS_NAME_MAX + 1], bool kept);

/** paths_of - write the path of fabric @name's socket. Errors: as paths_listen(). */
int paths_of(char *path, size_t path_bytes, const char *name, char *error, size_t error_bytes);

/** hosts_node_name - write this host's name. */
void hosts_node_name(char *ret, size_t ret_bytes);

/**
 * hosts_socket_name - write the name of a fabric's socket on this host. It consists of the fabric's
 * name and the host's, because hosts may share a folder.
 * hosts_socket_anywhere() - write @path, the path of that socket, with %h in place of the host's
 * name, for programs on any host.
 */
void hosts_socket_name(char *ret, size_t ret_bytes, const char *fabric);
void hosts_socket_anywhere(char *ret, size_t ret_bytes, const char *path);

#endif
