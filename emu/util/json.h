/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - JSON objects, one per line, over a stream socket, with descriptors: the protocol of the
 * fabric's control socket (docs/control.md). Used by the fabric and the commands, which never block
 * (apps/control/conn.h), and by libfabemu, which does (nic/host/control/control.c).
 */
#ifndef EMU_JSON_H
#define EMU_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EMU_JSON_KEEP 16384u /* bytes of memory that an empty buffer keeps at most */

/* Bytes received and not yet taken, or waiting to be sent. Owned by one thread. */
struct emu_json_buf {
    char *data;
    size_t at;    /* offset of the used bytes */
    size_t bytes; /* used */
    size_t room;
};

/* Most descriptors sent with a line. The first -1 ends the list. */
#define EMU_JSON_FDS 3
#define EMU_JSON_NONE \
    {                 \
        -1, -1, -1    \
    }

struct emu_json_fds {
    int fd[EMU_JSON_FDS];
    bool lost; /* read: a descriptor was lost, no space in this process */
};

/** emu_json_free - free a buffer's memory; it is empty then. */
void emu_json_free(struct emu_json_buf *buf);

/** emu_json_excess - bytes of a buffer's memory beyond EMU_JSON_KEEP. */
size_t emu_json_excess(const struct emu_json_buf *buf);

/**
 * emu_json_parse - parse all of @text; the caller puts the result. @bytes: its length; -1: up to
 * its NUL. NULL: the value null, or invalid for the reason in *@bad.
 */
struct json_object *emu_json_parse(const char *text, int bytes, enum json_tokener_error *bad);

/**
 * emu_json_put - queue @message as a line and drop its reference. @most: bytes that may wait.
 * Errors: -ENOBUFS, -ENOMEM; nothing is queued then.
 */
int emu_json_put(struct emu_json_buf *out, struct json_object *message, size_t most);

/** emu_json_put_line - the same for an object given as text without its newline. */
int emu_json_put_line(struct emu_json_buf *out, const char *line, size_t bytes, size_t most);

/** emu_json_put_text - the same for a part of a line; @ends: its last part. */
int emu_json_put_text(struct emu_json_buf *out, const char *text, size_t bytes, bool ends,
                      size_t most);

/**
 * emu_json_send - one sendmsg() of the first @bytes of @out; what was sent is removed. @fds: sent
 * with the first byte; NULL: none. Returns bytes or -errno.
 */
ssize_t emu_json_send(struct emu_json_buf *out, int fd, size_t bytes,
                      const struct emu_json_fds *fds, int flags);

/**
 * emu_json_write - one write() of @out to a file or pipe; what was written is removed. Returns
 * bytes or -errno.
 */
ssize_t emu_json_write(struct emu_json_buf *out, int fd);

/**
 * emu_json_read - one recvmsg(). @ret: descriptors received, the caller's; NULL: the kernel closes
 * them. Returns bytes, 0 at the end, or -errno.
 */
ssize_t emu_json_read(struct emu_json_buf *in, int fd, struct emu_json_fds *ret, int flags);

/**
 * emu_json_next - take the next whole line; the caller puts *ret.
 * @containers_max: the largest number of lists and objects in it. json-c needs up to 750 bytes of
 * memory for `{},`, but only 40 for any other byte of a line.
 * Returns 1; 0, no whole line yet; -EBADMSG, not a JSON object, or one of too many lists and
 * objects; -EMSGSIZE, line longer than @line_max.
 */
int emu_json_next(struct emu_json_buf *in, size_t line_max, size_t containers_max,
                  struct json_object **ret);

/**
 * emu_json_take - take the next line as text, unparsed and without its newline; the caller frees
 * *line. Returns 1; 0, no whole line yet; -EMSGSIZE; -ENOMEM.
 */
int emu_json_take(struct emu_json_buf *in, size_t line_max, char **line, size_t *bytes);

/**
 * emu_json_peek_line - peek at the next line, at most @most bytes. *text is valid until the buffer
 * changes. *ends: that is all of the line. Returns bytes. emu_json_drop() - remove what was peeked
 * at, with the newline if it @ends.
 */
size_t emu_json_peek_line(const struct emu_json_buf *in, size_t most, const char **text,
                          bool *ends);
void emu_json_drop(struct emu_json_buf *in, size_t bytes, bool ends);

/* Fields of an object; the default if absent or of another type. */
const char *emu_json_text(struct json_object *message, const char *field, const char *otherwise);
int64_t emu_json_number(struct json_object *message, const char *field, int64_t otherwise);
double emu_json_double(struct json_object *message, const char *field, double otherwise);
bool emu_json_true(struct json_object *message, const char *field);

/**
 * emu_json_count, emu_json_at - elements of a list that another party has sent. json-c's own
 * functions abort the process if the value is not a list; these return 0 and NULL.
 */
size_t emu_json_count(struct json_object *list);
struct json_object *emu_json_at(struct json_object *list, size_t i);

#endif
