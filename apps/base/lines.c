/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.c - an output file of lines that never blocks.
 *
 * Lines that the file does not take at once wait in a queue of up to WAITING_MAX bytes. If it is
 * full, further lines are dropped and counted. A line with this count precedes the next line that
 * is queued, or is the last one in the file. An empty queue accepts a line of any length, because a
 * snapshot may be longer than WAITING_MAX.
 */
#include "apps/base/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "emu/util/now.h"

#define WAITING_MAX ((size_t)1 << 18) /* size of the queue, in bytes */
#define LAST_MS     500               /* longest wait for the reader at the end */

static mode_t type_of(int fd)
{
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

/*
 * Open a pipe or terminal again, and return a descriptor that does not block, or -1. All processes
 * that share an open file, such as standard output, share its O_NONBLOCK, so @fd itself must not
 * get this flag: writes of the user's program would fail with EAGAIN.
 */
static int open_again(int fd, mode_t type)
{
    char path[32];

    if (type != S_IFIFO && type != S_IFCHR)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

void lines_open(struct lines *file, int fd, int epoll, const char *what)
{
    int again;

    *file = (struct lines){.fd = fd, .epoll = epoll, .what = what, .type = type_of(fd)};
    again = open_again(fd, file->type);
    if (again >= 0) {
        file->fd = again;
        file->opened = true;
    }
}

/* Watch the file while lines wait. epoll refuses regular files, but writing these never blocks. */
static void file_watch(struct lines *file, bool wanted)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = file};

    if (wanted == file->watched)
        return;
    if (epoll_ctl(file->epoll, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, file->fd, &event) == 0)
        file->watched = wanted;
}

static void file_close(struct lines *file)
{
    if (file->fd >= 0)
        file_watch(file, false);
    emu_json_free(&file->out);
    if (file->opened)
        close(file->fd);
    file->opened = false;
    file->fd = -1;
}

/* Stop writing after a failed write, because the last line in the file may be incomplete. */
static void file_fails(struct lines *file, int err)
{
    file->failed = err != -EPIPE;
    print_message("%s are no longer written: %s", file->what, strerror(-err));
    file_close(file);
}

/*
 * Write waiting lines without blocking. Returns the number of bytes written, or -errno. A regular
 * file never blocks. If a pipe or terminal could not be opened again (another user owns it), poll()
 * says when it has space for PIPE_BUF bytes. The write then blocks only if another process has
 * filled this space in between.
 */
static ssize_t file_write(struct lines *file)
{
    struct pollfd room = {file->fd, POLLOUT, 0};
    size_t bytes = file->out.bytes;

    if (file->type == S_IFSOCK)
        return emu_json_send(&file->out, file->fd, bytes, NULL, MSG_DONTWAIT);
    if (file->opened || file->type == S_IFREG)
        return emu_json_write(&file->out, file->fd, bytes);
    if (poll(&room, 1, 0) <= 0)
        return -EAGAIN;
    return emu_json_write(&file->out, file->fd, bytes < PIPE_BUF ? bytes : PIPE_BUF);
}

void lines_flush(struct lines *file)
{
    ssize_t wrote = 0;

    while (file->fd >= 0 && file->out.bytes && wrote >= 0)
        wrote = file_write(file);
    if (wrote < 0 && wrote != -EAGAIN)
        file_fails(file, (int)wrote);
    else if (file->fd >= 0)
        file_watch(file, file->out.bytes);
}

static int put_left_out(struct lines *file)
{
    char line[64];
    int bytes = snprintf(line, sizeof line, "{\"event\":\"left_out\",\"lines\":%" PRIu64 "}",
                         file->left_out);

    return emu_json_put_line(&file->out, line, (size_t)bytes, SIZE_MAX);
}

void lines_put(struct lines *file, const char *line, size_t bytes)
{
    int err = 0;

    if (file->fd < 0)
        return;
    if (file->out.bytes && file->out.bytes + bytes > WAITING_MAX)
        err = -ENOBUFS;
    if (!err && file->left_out)
        err = put_left_out(file);
    if (!err) {
        file->left_out = 0;
        err = emu_json_put_line(&file->out, line, bytes, SIZE_MAX);
    }
    if (err) {
        file->left_out++;
        file->all_left_out++;
    }
    lines_flush(file);
}

bool lines_is_behind(const struct lines *file)
{
    return file->out.bytes;
}

void lines_drain(struct lines *file)
{
    int64_t end_ms = emu_now_ms() + LAST_MS, left_ms;

    lines_flush(file);
    while (file->fd >= 0 && file->out.bytes && (left_ms = end_ms - emu_now_ms()) > 0) {
        struct pollfd room = {file->fd, POLLOUT, 0};

        poll(&room, 1, (int)left_ms);
        lines_flush(file);
    }
}

static uint64_t count_waiting(const struct lines *file)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < file->out.bytes; i++)
        lines += file->out.data[file->out.at + i] == '\n';
    return lines;
}

void lines_close(struct lines *file)
{
    if (file->fd >= 0 && file->left_out && !put_left_out(file))
        file->left_out = 0;
    lines_drain(file);
    file->all_left_out += count_waiting(file);
    if (file->all_left_out)
        print_message("%s: %" PRIu64 " line%s left out; the reader was too slow", file->what,
                      file->all_left_out, file->all_left_out == 1 ? " was" : "s were");
    file_close(file);
}
