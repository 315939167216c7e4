/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c - an output file of a command. */
#include "apps/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/util/now.h"

#define RETRY_MS 10 /* interval of tries to open a pipe that has no reader yet */

static bool is_pipe(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int open_pipe(const char *path, int64_t until_ms)
{
    int wait = until_ms == INT64_MAX ? 0 : O_NONBLOCK; /* 0: open() waits for a reader */
    int fd = open(path, O_WRONLY | O_CLOEXEC | wait);

    while (fd < 0 && errno == ENXIO && emu_now_ms() < until_ms) {
        poll(NULL, 0, RETRY_MS);
        fd = open(path, O_WRONLY | O_CLOEXEC | wait);
    }
    if (fd < 0)
        return -errno;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

/* Returns a descriptor, or -errno. @made: set if the file was created. */
static int open_file(const char *path, bool *made)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

    *made = fd >= 0;
    if (fd < 0 && errno == EEXIST) /* O_CREAT creates the missing target of a symbolic link */
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return fd < 0 ? -errno : fd;
}

bool output_is_stdout(const char *path)
{
    return path && (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0);
}

int output_open(struct output *ret, const char *path, int64_t until_ms)
{
    struct stat st;
    int err;

    *ret = (struct output){.path = path, .fd = -1};
    if (output_is_stdout(path)) {
        ret->path = "standard output";
        ret->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
        return ret->fd < 0 ? -errno : 0;
    }
    ret->fd = is_pipe(path) ? open_pipe(path, until_ms) : open_file(path, &ret->made);
    if (ret->fd < 0) {
        err = ret->fd;
        ret->fd = -1;
        return err;
    }
    if (fstat(ret->fd, &st) == 0 && S_ISREG(st.st_mode) && flock(ret->fd, LOCK_EX | LOCK_NB) &&
        errno == EWOULDBLOCK) { /* any other error: the file system has no locks, so ignore it */
        close(ret->fd);
        *ret = OUTPUT_NONE;
        return -EWOULDBLOCK;
    }
    return 0;
}

const char *output_why(int err)
{
    return err == -EWOULDBLOCK ? "another process writes it"
           : err == -ENXIO     ? "no process reads it"
                               : strerror(-err);
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

int output_begin(int fd)
{
    struct stat st, standard;

    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || fcntl(fd, F_GETFL) & O_APPEND)
        return 0; /* O_APPEND, from the shell's >>: keep the contents */
    if (lseek(fd, 0, SEEK_CUR) > 0 ||
        (fstat(STDOUT_FILENO, &standard) == 0 && is_same(&st, &standard)))
        return 0; /* standard output, to which other processes write, too */
    return ftruncate(fd, 0) ? -errno : 0;
}

static bool is_there(const struct output *output)
{
    struct stat ours, there;

    return fstat(output->fd, &ours) == 0 && lstat(output->path, &there) == 0 &&
           is_same(&ours, &there);
}

FILE *output_stream(int fd)
{
    int err = output_begin(fd), copy;
    FILE *stream;

    if (err) {
        errno = -err;
        return NULL;
    }
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    stream = copy < 0 ? NULL : fdopen(copy, "w");
    if (!stream && copy >= 0)
        close(copy);
    return stream;
}

int output_close(FILE *stream)
{
    int err = ferror(stream) ? -EIO : 0;

    return fclose(stream) && !err ? -errno : err;
}

void output_end(struct output *output, bool refused)
{
    if (output->fd < 0)
        return;
    if (refused && output->made && lseek(output->fd, 0, SEEK_CUR) == 0 && is_there(output))
        unlink(output->path);
    close(output->fd);
    output->fd = -1;
}
