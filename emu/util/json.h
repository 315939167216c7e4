/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - JSON objects, one a line, over a stream socket, with descriptors: what the fabric's
 * control socket speaks (docs/control.md). Both of its ends use this: the fabric and the commands,
 * which never block (apps/control/conn.h), and libfabemu, which does (nic/host/control/control.c).
 */
#ifndef EMU_JSON_H
#define EMU_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EMU_JSON_KEEP 16384u /* bytes of room that an empty buffer keeps, at most */

/* Bytes that came and were not taken yet, or that wait to be sent. Owned by one thread. */
struct emu_json_buf {
    char *data;
    size_t at;    /* where what is in use begins */
    size_t bytes; /* in use */
    size_t room;
};

/* Descriptors that go with a line, at most; -1: none, and none after it. */
#define EMU_JSON_FDS 3
#define EMU_JSON_NONE \
    {                 \
        -1, -1, -1    \
    }

struct emu_json_fds {
    int fd[EMU_JSON_FDS];
    bool lost; /* read: there was no room in this process for one that came */
};

/** emu_json_free - what a buffer holds; it is empty then. */
void emu_json_free(struct emu_json_buf *buf);

/** emu_json_excess - memory that a buffer takes beyond EMU_JSON_KEEP. Bytes. */
size_t emu_json_excess(const struct emu_json_buf *buf);

/**
 * emu_json_parse - the JSON value that all of @text is, the caller's to put. @bytes: its length;
 * -1: up to its end. NULL: it is none, for the reason in *@bad, or null.
 */
struct json_object *emu_json_parse(const char *text, int bytes, enum json_tokener_error *bad);

/**
 * emu_json_put - queue @message as a line (its reference passes).
 * @most: bytes that may wait. Errors: -ENOBUFS, -ENOMEM; nothing is queued then.
 */
int emu_json_put(struct emu_json_buf *out, struct json_object *message, size_t most);

/** emu_json_put_line - the same of text that is an object already, without its line's end. */
int emu_json_put_line(struct emu_json_buf *out, const char *line, size_t bytes, size_t most);

/** emu_json_put_text - the same of a piece of a line; if it @ends, that is the line's last. */
int emu_json_put_text(struct emu_json_buf *out, const char *text, size_t bytes, bool ends,
                      size_t most);

/**
 * emu_json_send - one sendmsg() of the first @bytes of @out, which it takes out.
 * @fds: go with the first byte; NULL: none. Returns bytes or -errno.
 */
ssize_t emu_json_send(struct emu_json_buf *out, int fd, size_t bytes,
                      const struct emu_json_fds *fds, int flags);

/**
 * emu_json_write - one write() of what waits in @out, which it takes out: for @fd that is a file or
 * a pipe. Returns bytes or -errno.
 */
ssize_t emu_json_write(struct emu_json_buf *out, int fd);

/**
 * emu_json_read - one recvmsg() of what has come.
 * @ret: descriptors that came with it, the caller's now; NULL: the host closes them.
 * Returns bytes, 0 at the end, or -errno.
 */
ssize_t emu_json_read(struct emu_json_buf *in, int fd, struct emu_json_fds *ret, int flags);

/**
 * emu_json_next - take the next whole line. *ret is the caller's to put.
 * Returns 1; 0, no whole line yet; -EBADMSG, not a JSON object; -EMSGSIZE, line longer than
 * @line_max.
 */
int emu_json_next(struct emu_json_buf *in, size_t line_max, struct json_object **ret);

/**
 * emu_json_take - the same of its text, without its end and not looked at: *line is the caller's to
 * free. Returns 1; 0, no whole line yet; -EMSGSIZE; -ENOMEM.
 */
int emu_json_take(struct emu_json_buf *in, size_t line_max, char **line, size_t *bytes);

/**
 * emu_json_look - what has come of the next line, at most @most bytes: *text, until the buffer
 * changes. *ends: that is all of the line. Returns bytes. emu_json_drop() - take a piece that was
 * looked at, and what ends the line, if it @ends.
 */
size_t emu_json_look(const struct emu_json_buf *in, size_t most, const char **text, bool *ends);
void emu_json_drop(struct emu_json_buf *in, size_t bytes, bool ends);

/* Fields of an object, with a default where they are absent or of another type. */
const char *emu_json_text(struct json_object *message, const char *field, const char *otherwise);
int64_t emu_json_number(struct json_object *message, const char *field, int64_t otherwise);
double emu_json_double(struct json_object *message, const char *field, double otherwise);
bool emu_json_true(struct json_object *message, const char *field);

/**
 * emu_json_count, emu_json_at - the elements of a list that somebody else has sent. json-c's own
 * functions abort the process if the value is not a list; these then return 0 and NULL.
 */
size_t emu_json_count(struct json_object *list);
struct json_object *emu_json_at(struct json_object *list, size_t i);

#endif
