/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.c - lines of JSON on the control socket, with the descriptors that come along.
 */
#include "nic/host/control/line.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16u << 20)
#define READ_BYTES 4096u

/*
 * Above standard input, output and error. A program may have closed these, and then writes where nobody
 * reads: that must not be our socket. Returns -1 with errno where there is no room, and for -1.
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

static void line_take_fds(struct nic_line *l, struct msghdr *msg)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at; at = CMSG_NXTHDR(msg, at)) {
        size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        int fds[2];

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS || count > 2)
            continue;
        memcpy(fds, CMSG_DATA(at), count * sizeof(int));
        for (size_t i = 0; i < count; i++) {
            fds[i] = nic_above_standard(fds[i]);
            l->no_room |= fds[i] < 0;
            if (l->passed[i] < 0)
                l->passed[i] = fds[i];
            else if (fds[i] >= 0)
                close(fds[i]);
        }
    }
}

/* Read more. Returns bytes, 0 at the end, or a negative errno. */
static ssize_t line_read(struct nic_line *l)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t n;

    if (l->room - l->bytes < READ_BYTES) {
        size_t room = l->room * 2 + READ_BYTES;
        char *text = room > LINE_MAX_BYTES ? NULL : realloc(l->text, room);

        if (!text)
            return -ENOMEM;
        l->text = text;
        l->room = room;
    }
    iov = (struct iovec){.iov_base = l->text + l->bytes, .iov_len = l->room - l->bytes};
    do
        n = recvmsg(l->fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    line_take_fds(l, &msg);
    l->no_room |= (msg.msg_flags & MSG_CTRUNC) != 0;
    l->bytes += (size_t)n;
    return n;
}

/* The next line as JSON. Errors: -EPIPE at the end, -EPROTO for what is no JSON, -errno. */
int nic_line_next(struct nic_line *l, struct json_object **ret)
{
    char *end;

    while (!(end = l->bytes ? memchr(l->text, '\n', l->bytes) : NULL)) {
        ssize_t n = line_read(l);

        if (n <= 0)
            return n ? (int)n : -EPIPE;
    }
    *end++ = '\0';
    *ret = json_tokener_parse(l->text);
    l->bytes -= (size_t)(end - l->text);
    memmove(l->text, end, l->bytes);
    return *ret ? 0 : -EPROTO;
}

/* Sends @request and puts it. */
int nic_line_send(const struct nic_line *l, struct json_object *request)
{
    const char *text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
    size_t left = strlen(text);
    int err = 0;

    while (left && !err) {
        ssize_t n = send(l->fd, text, left, MSG_NOSIGNAL);

        if (n >= 0) {
            text += n;
            left -= (size_t)n;
        } else if (errno != EINTR) {
            err = -errno;
        }
    }
    if (!err && send(l->fd, "\n", 1, MSG_NOSIGNAL) != 1)
        err = -errno;
    json_object_put(request);
    return err;
}

/* --- fields ----------------------------------------------------------------------- */

int64_t nic_field_number(struct json_object *object, const char *name, int64_t otherwise)
{
    struct json_object *field;

    return json_object_object_get_ex(object, name, &field) ? json_object_get_int64(field)
                                                           : otherwise;
}

const char *nic_field_text(struct json_object *object, const char *name)
{
    struct json_object *field;
    const char *text = json_object_object_get_ex(object, name, &field)
                           ? json_object_get_string(field) : NULL;

    return text ? text : "";
}

double nic_field_double(struct json_object *object, const char *name)
{
    struct json_object *field;

    return json_object_object_get_ex(object, name, &field) ? json_object_get_double(field) : 0;
}

bool nic_field_bool(struct json_object *object, const char *name)
{
    struct json_object *field;

    return json_object_object_get_ex(object, name, &field) && json_object_get_boolean(field);
}
