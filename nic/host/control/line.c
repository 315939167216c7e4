/* SPDX-License-Identifier: BSD-3-Clause */
/* line.c - see line.h; the codec is that of both ends (emu/util/json.h). */
#include "nic/host/control/line.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "emu/util/now.h"

#define LINE_MAX_BYTES (16u << 20)

/*
 * A program may have closed standard input, output or error, and then writes where nobody reads:
 * that must not be our socket.
 */
int nic_above_standard(int fd)
{
    int moved, err;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    err = errno;
    close(fd);
    errno = err;
    return moved;
}

static void line_keep_fds(struct nic_line *line, const struct emu_json_fds *came)
{
    line->no_room |= came->lost;
    for (int i = 0; i < EMU_JSON_FDS; i++) {
        int fd = nic_above_standard(came->fd[i]);

        line->no_room |= came->fd[i] >= 0 && fd < 0;
        if (line->passed[i] < 0)
            line->passed[i] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

/* Wait until something can be read, or @end_ms. Errors: -ETIMEDOUT. */
static int line_await(const struct nic_line *line, int64_t end_ms)
{
    struct pollfd come = {line->fd, POLLIN, 0};
    int64_t left_ms = end_ms == INT64_MAX ? 0 : end_ms - emu_now_ms();

    if (end_ms == INT64_MAX)
        return 0; /* a read without a timeout waits itself */
    while (left_ms > 0 && poll(&come, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) <= 0)
        left_ms = end_ms - emu_now_ms();
    return left_ms > 0 ? 0 : -ETIMEDOUT;
}

int nic_line_next(struct nic_line *line, int64_t end_ms, struct json_object **ret)
{
    struct emu_json_fds came;
    int got;

    while (!(got = emu_json_next(&line->in, LINE_MAX_BYTES, ret))) {
        ssize_t n = line_await(line, end_ms);

        if (!n)
            n = emu_json_read(&line->in, line->fd, &came, 0);
        if (n < 0)
            return (int)n;
        line_keep_fds(line, &came);
        if (!n)
            return -EPIPE;
    }
    return got > 0 ? 0 : got == -EBADMSG ? -EPROTO : got;
}

int nic_line_send(const struct nic_line *line, struct json_object *request)
{
    struct emu_json_buf out = {.bytes = 0};
    int err = emu_json_put(&out, request, LINE_MAX_BYTES);

    while (!err && out.bytes) {
        ssize_t n = emu_json_send(&out, line->fd, out.bytes, NULL, 0);

        err = n < 0 ? (int)n : 0;
    }
    emu_json_free(&out);
    return err;
}
