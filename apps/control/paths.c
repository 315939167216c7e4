/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paths.c - the control sockets of this user's fabrics.
 *
 * Two fabrics of the same name may start at the same time. Each locks the folder, and then tests
 * the old socket, binds and listens before it unlocks. So the second one to get the lock finds a
 * listener and fails. Rejected: lock files, because they remain after a crash.
 */
#include "apps/control/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/base/procs.h"

#define SUFFIX        ".sock"
#define VECTOR_SUFFIX ".av"
#define DEFAULT_NAME  "default"
#define ACCEPTS       0x10000u /* flag in /proc/net/unix: the socket listens */

int paths_check_name(const char *name, char *error, size_t error_bytes)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(name);

    if (length == 0 || length > PATHS_NAME_MAX || strspn(name, allowed) != length ||
        name[0] == '.' || name[0] == '-')
        return fail(-EINVAL, error, error_bytes,
                    "'%.80s' is not a valid name of a fabric; use up to %d letters, digits, '_', "
                    "'-' and '.', such as 'test-1'",
                    name, PATHS_NAME_MAX);
    return 0;
}

/* Check that only this user can write to the folder. Others could put a false fabric there. */
static int check_dir(const char *dir, char *error, size_t error_bytes)
{
    struct stat st;

    if (lstat(dir, &st) < 0)
        return fail(-errno, error, error_bytes,
                    "cannot access %s (%s); set XDG_RUNTIME_DIR to a directory of your own", dir,
                    strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return fail(-ENOTDIR, error, error_bytes,
                    "%s is not a directory; remove it, or set XDG_RUNTIME_DIR to a directory of "
                    "your own",
                    dir);
    if (st.st_uid != geteuid())
        return fail(-EACCES, error, error_bytes,
                    "%s belongs to user %u, not to you; set XDG_RUNTIME_DIR to a directory of "
                    "your own",
                    dir, (unsigned)st.st_uid);
    if (st.st_mode & 077)
        return fail(-EACCES, error, error_bytes,
                    "%s is open to other users (mode %03o); close it: chmod 700 %s", dir,
                    (unsigned)st.st_mode & 0777u, dir);
    return 0;
}

/*
 * Write the path of the folder in /tmp. It has the sockets of fabrics on several hosts and, if
 * $XDG_RUNTIME_DIR names no folder, those of all fabrics.
 */
static void plain_dir(char *dir, size_t dir_bytes)
{
    snprintf(dir, dir_bytes, "/tmp/fabemu-%u", (unsigned)geteuid());
}

/*
 * Open the folder of sockets, and create it if necessary. Returns its descriptor, or -errno with
 * one line in @error.
 */
static int open_dir(char *dir, size_t dir_bytes, char *error, size_t error_bytes)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    struct stat st;

    size_t bytes = runtime ? strlen(runtime) : 0;

    while (bytes && runtime[bytes - 1] == '/')
        bytes--;
    if (runtime && runtime[0] == '/' && stat(runtime, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(dir, dir_bytes, "%.*s/fabemu", (int)bytes, runtime);
    else
        plain_dir(dir, dir_bytes);
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return fail(-errno, error, error_bytes,
                    "cannot create %s (%s); set XDG_RUNTIME_DIR to a directory of your own", dir,
                    strerror(errno));
    int err = check_dir(dir, error, error_bytes);
    if (err)
        return err;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail(-errno, error, error_bytes, "cannot open %s (%s); check its permissions", dir,
                    strerror(errno));
    return fd;
}

static int socket_path(char *path, size_t path_bytes, const char *dir, const char *name,
                       char *error, size_t error_bytes)
{
    int bytes = snprintf(path, path_bytes, "%s/%s" SUFFIX, dir, name);

    if (bytes < 0 || (size_t)bytes >= path_bytes)
        return fail(-ENAMETOOLONG, error, error_bytes,
                    "the socket's path %s/%s" SUFFIX " is longer than %zu characters; choose a "
                    "shorter --name or XDG_RUNTIME_DIR",
                    dir, name, path_bytes - 1);
    return 0;
}

/* Check @name, and open the folder of its socket. Returns a descriptor, or -errno. */
static int open_dir_for(const char *name, char *dir, size_t dir_bytes, char *error,
                        size_t error_bytes)
{
    int err = paths_check_name(name, error, error_bytes);

    return err ? err : open_dir(dir, dir_bytes, error, error_bytes);
}

void hosts_node_name(char *ret, size_t ret_bytes)
{
    if (gethostname(ret, ret_bytes))
        snprintf(ret, ret_bytes, "localhost");
    ret[ret_bytes - 1] = '\0';
}

void hosts_socket_name(char *ret, size_t ret_bytes, const char *fabric)
{
    char node[256];

    hosts_node_name(node, sizeof node);
    snprintf(ret, ret_bytes, "%.30s.%.32s", fabric, node);
}

void hosts_socket_anywhere(char *ret, size_t ret_bytes, const char *path)
{
    char node[256], end[256];
    size_t bytes = strlen(path), tail;

    hosts_node_name(node, sizeof node);
    tail = (size_t)snprintf(end, sizeof end, ".%.32s" SUFFIX, node);
    if (bytes > tail && strcmp(path + bytes - tail, end) == 0)
        snprintf(ret, ret_bytes, "%.*s.%%h" SUFFIX, (int)(bytes - tail), path);
    else
        snprintf(ret, ret_bytes, "%s", path);
}

/* Return whether @name is a name that hosts_socket_name() writes on this host. */
static bool is_of_hosts(const char *name)
{
    char host[256], end[64];
    size_t bytes = strlen(name), tail;

    hosts_node_name(host, sizeof host);
    tail = (size_t)snprintf(end, sizeof end, ".%.32s", host);
    return bytes > tail && strcmp(name + bytes - tail, end) == 0;
}

/* Write plain_dir() to @other. Returns whether it differs from @dir and passes check_dir(). */
static bool other_dir(char *other, size_t other_bytes, const char *dir)
{
    char error[256];

    plain_dir(other, other_bytes);
    return strcmp(other, dir) != 0 && check_dir(other, error, sizeof error) == 0;
}

int paths_of(char *path, size_t path_bytes, const char *name, char *error, size_t error_bytes)
{
    char dir[512], other[512];
    struct stat st;
    int fd = open_dir_for(name, dir, sizeof dir, error, error_bytes), err;

    if (fd < 0)
        return fd;
    close(fd);
    err = socket_path(path, path_bytes, dir, name, error, error_bytes);
    if (err || !is_of_hosts(name) || lstat(path, &st) == 0 || !other_dir(other, sizeof other, dir))
        return err;
    err = socket_path(path, path_bytes, other, name, error, error_bytes);
    if (err || lstat(path, &st) < 0) /* the socket does not exist: use the first folder */
        err = socket_path(path, path_bytes, dir, name, error, error_bytes);
    return err;
}

/* Return a connected descriptor, or -errno. -EAGAIN: a process listens, but its backlog is full. */
static int connect_to(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    snprintf(addr.sun_path, sizeof addr.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

static pid_t peer_pid(int fd)
{
    struct ucred cred = {0};
    socklen_t bytes = sizeof cred;

    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes);
    return cred.pid;
}

/*
 * Remove the address vectors of fabric @name, files NAME.VECTOR.av (nic/ofi/shared.c), from its
 * folder. The processes that use a vector remove it, unless they are killed.
 */
static void unlink_vectors(int folder, const char *name)
{
    size_t bytes = strlen(name);
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        const char *vector = entry->d_name + bytes;

        if (strncmp(entry->d_name, name, bytes) != 0 || *vector != '.')
            continue;
        vector += 1 + strcspn(vector + 1, "."); /* the name of a vector has no dot */
        if (strcmp(vector, VECTOR_SUFFIX) == 0)
            unlinkat(folder, entry->d_name, 0);
    }
    if (dir)
        closedir(dir); /* closes fd */
    else if (fd >= 0)
        close(fd);
}

/*
 * Check that no fabric listens. @fd: result of connect_to(); is closed. -ECONNRESET means that no
 * fabric listens, because a process that is ending resets connections. Errors: -EADDRINUSE; another
 * error if this process cannot find out, for example -EMFILE.
 */
static int check_free(int fd, const char *name, char *error, size_t error_bytes)
{
    char pid[32] = "";

    if (fd == -ECONNREFUSED || fd == -ECONNRESET || fd == -ENOENT)
        return 0;
    if (fd < 0 && fd != -EAGAIN)
        return fail(fd, error, error_bytes, "cannot check whether a fabric named '%s' runs: %s",
                    name, strerror(-fd));
    if (fd >= 0) {
        snprintf(pid, sizeof pid, " (pid %d)", (int)peer_pid(fd));
        close(fd);
    }
    return fail(-EADDRINUSE, error, error_bytes,
                "a fabric named '%s' is running already%s; end it with 'fabemu down %s', or choose "
                "another --name",
                name, pid, name);
}

/* Remove a socket at @path on which nobody listens. Call this with the folder locked. */
static int clear_path(const char *path, const char *name, char *error, size_t error_bytes)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return fail(-EEXIST, error, error_bytes,
                    "%s exists and is not a socket; remove it or choose another --name", path);
    int fd = connect_to(path);
    int err = check_free(fd, name, error, error_bytes);
    if (err)
        return err;
    if (fd == -ECONNREFUSED)
        print_message("removed the stale socket of fabric '%s': its process has ended", name);
    unlink(path);
    return 0;
}

/*
 * Return advice for the user if no socket can be made. Fabrics on several hosts use a folder that
 * has the same name on all hosts, so XDG_RUNTIME_DIR does not affect it.
 */
static const char *remedy(const char *name)
{
    return is_of_hosts(name) ? "make its folder writable, and free some space in it"
                             : "set XDG_RUNTIME_DIR to a writable directory of your own with free "
                               "space";
}

/*
 * Write the name under which the socket is bound. It is @path with its last character replaced, so
 * it does not end with SUFFIX.
 */
static void bound_path(char ret[static sizeof((struct sockaddr_un *)0)->sun_path], const char *path)
{
    snprintf(ret, sizeof((struct sockaddr_un *)0)->sun_path, "%s", path);
    ret[strlen(ret) - 1] = '~';
}

/*
 * Make a listening socket at @path. It is bound under another name, and renamed only when it
 * listens, so that no client finds it earlier and is refused. Call this with the folder locked.
 */
static int bind_socket(struct paths_socket *ret, const char *path, const char *name, char *error,
                       size_t error_bytes)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err = 0;

    if (fd < 0)
        return fail(-errno, error, error_bytes, "cannot create a socket: %s", strerror(errno));
    bound_path(addr.sun_path, path);
    unlink(addr.sun_path);
    if (bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        goto close_fd;
    if (chmod(addr.sun_path, 0600) < 0 || listen(fd, 1024) < 0 || lstat(addr.sun_path, &st) < 0 ||
        rename(addr.sun_path, path) < 0)
        goto unlink_path;
    snprintf(ret->path, sizeof ret->path, "%s", path);
    ret->dev = st.st_dev;
    ret->ino = st.st_ino;
    return fd;

unlink_path:
    err = errno;
    unlink(addr.sun_path);
close_fd:
    err = err ? err : errno;
    fail(0, error, error_bytes, "cannot listen on %s (%s); %s", path, strerror(err), remedy(name));
    close(fd);
    return -EIO;
}

/* Call @each for all sockets in a folder or, if !@all, for those of fabrics on several hosts. */
static int list_dir(const char *dir, bool all, void (*each)(void *context, const char *name),
                    void *context, char *error, size_t error_bytes)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, NULL, alphasort);

    if (count < 0)
        return fail(-errno, error, error_bytes, "cannot list %s: %s", dir, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *end = strrchr(entries[i]->d_name, '.');
        if (end && strcmp(end, SUFFIX) == 0) {
            *end = '\0';
            if (all || is_of_hosts(entries[i]->d_name))
                each(context, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return 0;
}

/*
 * Return whether the folder is on a file system that other machines cannot share. On a shared one,
 * a fabric of another machine looks crashed, because its socket refuses connections from here.
 */
static bool is_local(int folder)
{
    static const uint32_t local[] = {TMPFS_MAGIC,       RAMFS_MAGIC,     EXT4_SUPER_MAGIC,
                                     BTRFS_SUPER_MAGIC, XFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
    struct statfs fs;

    if (fstatfs(folder, &fs))
        return false;
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if ((uint32_t)fs.f_type == local[i])
            return true;
    return false;
}

/* The folder of a fabric that starts. It is locked. */
struct sweep {
    int folder;
    const char *dir, *own; /* its path, and the name of that fabric */
};

/*
 * Remove the socket and the address vectors of fabric @name if it has crashed. Skip the fabric
 * whose socket this process has just made.
 */
static void sweep(void *context, const char *name)
{
    const struct sweep *in = context;
    char error[512], path[sizeof((struct sockaddr_un *)0)->sun_path];
    struct stat st;

    if (strcmp(name, in->own) == 0 || paths_check_name(name, error, sizeof error) ||
        socket_path(path, sizeof path, in->dir, name, error, sizeof error))
        return;
    int fd = lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) ? connect_to(path) : -ENOENT;
    if (fd >= 0)
        close(fd);
    if (fd == -ECONNREFUSED) {
        unlink(path);
        unlink_vectors(in->folder, name);
    }
}

int paths_listen(struct paths_socket *ret, int *fd, const char *name, char *error,
                 size_t error_bytes)
{
    char dir[512];
    char path[sizeof ret->path], more[512];
    int lock = open_dir_for(name, dir, sizeof dir, error, error_bytes);

    if (lock < 0)
        return lock;
    int err = socket_path(path, sizeof path, dir, name, error, error_bytes);
    bool locked = !err && flock(lock, LOCK_EX) == 0;
    if (!err)
        err = clear_path(path, name, error, error_bytes);
    if (!err) {
        unlink_vectors(lock, name);
        *fd = bind_socket(ret, path, name, error, error_bytes);
        err = *fd < 0 ? *fd : 0;
    }
    if (!err && locked && is_local(lock))
        list_dir(dir, true, sweep, &(struct sweep){lock, dir, name}, more, sizeof more);
    close(lock); /* unlocks */
    return err;
}

void paths_unlink(const struct paths_socket *socket)
{
    char dir[sizeof socket->path];
    struct stat st;

    snprintf(dir, sizeof dir, "%s", socket->path);
    char *slash = strrchr(dir, '/');
    if (!slash)
        return;
    *slash = '\0';
    int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return;
    flock(lock, LOCK_EX);
    if (lstat(socket->path, &st) == 0 && st.st_dev == socket->dev && st.st_ino == socket->ino) {
        unlink(socket->path);
        slash[strlen(slash + 1) + 1 - strlen(SUFFIX)] = '\0';
        unlink_vectors(lock, slash + 1);
    }
    close(lock);
}

int paths_free(const char *name, char *error, size_t error_bytes)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int err = paths_of(path, sizeof path, name, error, error_bytes);

    return err ? err : check_free(connect_to(path), name, error, error_bytes);
}

/* --- the fabric of a command without a name ------------------------------------------- */

struct running {
    char *name;                     /* name of the last fabric found; PATHS_NAME_MAX + 1 bytes */
    bool kept;                      /* count only fabrics of `fabemu up` */
    unsigned count;                 /* number of fabrics that run */
    char names[4 * PATHS_NAME_MAX]; /* names of the first fabrics, such as ", a, b" */
};

static void count_running(void *context, const char *name)
{
    struct running *running = context;
    char path[sizeof((struct sockaddr_un *)0)->sun_path], error[512];
    size_t used = strlen(running->names);
    int fd = -1;

    if (running->kept && strncmp(name, PATHS_RUN_PREFIX, strlen(PATHS_RUN_PREFIX)) == 0)
        return;
    if (!paths_of(path, sizeof path, name, error, sizeof error))
        fd = connect_to(path);
    if (fd < 0)
        return;
    close(fd);
    running->count++;
    snprintf(running->name, PATHS_NAME_MAX + 1, "%s", name);
    if (used + strlen(", ") + strlen(name) + strlen(", …") < sizeof running->names)
        sprintf(running->names + used, ", %s", name);
    else if (used < 3 || strcmp(running->names + used - 3, "…") != 0)
        strcat(running->names, ", …");
}

const char *paths_default(char ret[static PATHS_NAME_MAX + 1], bool kept)
{
    struct running running = {.name = ret, .kept = kept};
    char error[512];

    count_running(&running, DEFAULT_NAME);
    if (!running.count)
        paths_list(count_running, &running, error, sizeof error);
    if (!running.count && kept)
        return paths_default(ret, false);
    return running.count == 1 ? ret : DEFAULT_NAME;
}

/* Write an error for fabric @name, which does not run. */
static int not_running(const char *name, char *error, size_t error_bytes)
{
    char last[PATHS_NAME_MAX + 1];
    struct running running = {.name = last};
    const char *what = strcmp(name, DEFAULT_NAME) ? "" : " (the default name)";

    if (!paths_list(count_running, &running, error, error_bytes) && running.count)
        return fail(-ENOENT, error, error_bytes,
                    "no fabric named '%s' is running%s; give the NAME of a running fabric: %s",
                    name, what, running.names + 2);
    return fail(
        -ENOENT, error, error_bytes,
        "no fabric named '%s' is running%s, nor is any other; 'fabemu up --name %s' starts it",
        name, what, name);
}

int paths_connect(int *fd, pid_t *owner, const char *name, char *error, size_t error_bytes)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    int err = paths_of(path, sizeof path, name, error, error_bytes);

    if (err)
        return err;
    int got = connect_to(path);
    if (got == -ENOENT)
        return not_running(name, error, error_bytes);
    if (got == -ECONNREFUSED)
        return fail(got, error, error_bytes,
                    "fabric '%s' has crashed and left a stale socket; 'fabemu up --name %s' "
                    "replaces it",
                    name, name);
    if (got < 0)
        return fail(got, error, error_bytes, "cannot reach fabric '%s' (%s): %s", name, path,
                    strerror(-got));
    *fd = got;
    if (owner)
        *owner = peer_pid(got);
    return 0;
}

/* Return the inode of the listening socket that is bound to @bound; 0: none. */
static unsigned long listening_inode(const char *bound)
{
    FILE *sockets = fopen("/proc/net/unix", "re");
    unsigned long inode, found = 0;
    char line[256], path[sizeof line];
    unsigned flags;

    while (sockets && !found && fgets(line, sizeof line, sockets))
        if (sscanf(line, "%*s %*s %*s %x %*s %*s %lu %255[^\n]", &flags, &inode, path) == 3 &&
            flags & ACCEPTS && strcmp(path, bound) == 0)
            found = inode;
    if (sockets)
        fclose(sockets);
    return found;
}

bool paths_supervised_by(const char *name, pid_t owner)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path], bound[sizeof path], error[512];
    unsigned long inode;

    if (paths_of(path, sizeof path, name, error, sizeof error))
        return false;
    bound_path(bound, path);
    inode = listening_inode(bound);
    return inode && procs_child_has_socket(owner, inode);
}

int paths_list(void (*each)(void *context, const char *name), void *context, char *error,
               size_t error_bytes)
{
    char dir[512], other[512];
    int fd = open_dir(dir, sizeof dir, error, error_bytes), err;

    if (fd < 0)
        return fd;
    close(fd);
    err = list_dir(dir, true, each, context, error, error_bytes);
    if (!err && other_dir(other, sizeof other, dir))
        err = list_dir(other, false, each, context, error, error_bytes);
    return err;
}
