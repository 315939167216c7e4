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
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "apps/base/message.h"
#include "emu/util/now.h"

#define WAITING_MAX ((size_t)1 << 18) /* size of the queue, in bytes */
#define LAST_MS     500               /* longest wait for the reader at the end */

void lines_open(struct lines *file, int fd, int epoll, const char *what)
{
    *file = (struct lines){.fd = fd, .epoll = epoll, .what = what};
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
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

/* Stop writing after a failed write, because the last line in the file may be incomplete. */
static void file_fails(struct lines *file, int err)
{
    file->failed = err != -EPIPE;
    print_message("%s are no longer written: %s", file->what, strerror(-err));
    file_watch(file, false);
    emu_json_free(&file->out);
    file->fd = -1;
}

void lines_flush(struct lines *file)
{
    ssize_t wrote = 0;

    while (file->fd >= 0 && file->out.bytes && wrote >= 0)
        wrote = emu_json_write(&file->out, file->fd);
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
    if (file->fd >= 0)
        file_watch(file, false);
    emu_json_free(&file->out);
    file->fd = -1;
}
