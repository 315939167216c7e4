/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lines.c - lines written into a file as they come, which is never waited for.
 *
 * What there is no room for waits here, WAITING_MAX at most; further lines are left out, whole, and
 * counted. The next one that is taken has a line before it that says how many are missing; the last
 * are said when the file is closed. A line that comes when nothing waits is always taken: so a
 * snapshot may be as long as it must.
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

#define WAITING_MAX ((size_t)1 << 18) /* bytes */
#define LAST_MS     500               /* for the reader to take what is left */

void lines_open(struct lines *file, int fd, int epoll, const char *what)
{
    *file = (struct lines){.fd = fd, .epoll = epoll, .what = what};
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Only while something waits. Files of a disk are not looked at so; they always have room. */
static void file_watch(struct lines *file, bool wanted)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.ptr = file};

    if (wanted == file->watched)
        return;
    if (epoll_ctl(file->epoll, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, file->fd, &event) == 0)
        file->watched = wanted;
}

/*
 * A part of a line is useless, so nothing more is written. A reader that closed its pipe is no
 * failure.
 */
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

/* How many are missing here. */
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

/* Of what still waits the first line is written in part, maybe, and the others are not. */
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
        print_message("%s: %" PRIu64 " lines were left out; who reads them was too slow",
                      file->what, file->all_left_out);
    if (file->fd >= 0)
        file_watch(file, false);
    emu_json_free(&file->out);
    file->fd = -1;
}
