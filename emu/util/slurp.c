/* SPDX-License-Identifier: BSD-3-Clause */
/* slurp.c - read a whole file (slurp.h). */
#include "emu/util/slurp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES     65536u
#define PIPE_MS         5000 /* how long to wait for a process that writes to a pipe */
#define MARK_BYTES      3u   /* size of BYTE_ORDER_MARK, with which some editors begin a file */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/*
 * Wait for data, and read once. read() of a pipe returns 0 if no process has the pipe open for
 * writing, and fails with EAGAIN if such a process has written nothing yet.
 */
static ssize_t read_some(int fd, bool is_pipe, void *to, size_t bytes)
{
    struct pollfd ready = {fd, POLLIN, 0};
    bool waited;
    ssize_t got;

    do {
        waited = poll(&ready, 1, is_pipe ? PIPE_MS : -1) == 0;
        got = read(fd, to, bytes);
    } while (got < 0 && (errno == EINTR || errno == EAGAIN));
    if (!got && waited)
        return -ETIMEDOUT;
    return got < 0 ? -errno : got;
}

/* Append the file to *@text. Errors: as emu_slurp(). */
static int read_all(int fd, size_t most, char **text, size_t *bytes)
{
    size_t room = 0;
    struct stat is;
    ssize_t got;

    if (fstat(fd, &is))
        return -errno;
    do {
        if (room - *bytes < PIECE_BYTES) {
            char *bigger = realloc(*text, room = 2 * room + PIECE_BYTES);

            if (!bigger)
                return -ENOMEM;
            *text = bigger;
        }
        got = read_some(fd, S_ISFIFO(is.st_mode), *text + *bytes, PIECE_BYTES);
        if (got > 0)
            *bytes += (size_t)got;
        if (*bytes > most)
            return -EFBIG;
    } while (got > 0);
    return (int)got;
}

int emu_slurp(const char *name, size_t most, char **text, size_t *bytes)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int err = fd < 0 ? -errno : 0;

    *text = NULL;
    *bytes = 0;
    if (!err)
        err = read_all(fd, most, text, bytes);
    if (fd >= 0)
        close(fd);
    if (!err && *bytes >= MARK_BYTES && memcmp(*text, BYTE_ORDER_MARK, MARK_BYTES) == 0) {
        *bytes -= MARK_BYTES;
        memmove(*text, *text + MARK_BYTES, *bytes);
    }
    return err;
}

const char *emu_slurp_why(int err)
{
    return err == -ETIMEDOUT ? "nobody writes to the pipe" : strerror(-err);
}
