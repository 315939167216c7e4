/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.h - JSON objects, one per line, and file descriptors over a stream socket: the protocol of
 * the fabric's control socket (docs/control.md). The fabric and the commands use non-blocking
 * sockets (apps/control/conn.h), libfabemu a blocking one (nic/host/control/control.c).
 */
#ifndef EMU_JSON_H
#define EMU_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EMU_JSON_KEEP  16384u /* maximum number of bytes of memory that an empty buffer keeps */
#define EMU_JSON_DEPTH 300    /* how deep lists and objects may be nested; json-c's default is 32 */

/* Bytes that were received and not yet taken, or that wait to be sent. Owned by one thread. */
struct emu_json_buf {
    char *data;
    size_t at; /* offset of the used bytes in data */
    size_t bytes;
    size_t room;
};

/* A line is sent with at most this many descriptors. The first -1 ends the list. */
#define EMU_JSON_FDS 3
#define EMU_JSON_NONE \
    {                 \
        -1, -1, -1    \
    }

struct emu_json_fds {
    int fd[EMU_JSON_FDS];
    bool lost; /* a received descriptor was lost, because this process has too many open */
};

/** emu_json_free - free a buffer's memory. Afterwards the buffer is empty and can be used again. */
void emu_json_free(struct emu_json_buf *buf);

/** emu_json_excess - return by how many bytes a buffer's memory exceeds EMU_JSON_KEEP. */
size_t emu_json_excess(const struct emu_json_buf *buf);

/**
 * emu_json_parse - parse all of @text. @bytes: the length of @text; -1: up to its NUL. Returns a
 * value, which the caller frees by json_object_put(). Returns NULL if the text is "null", or if it
 * is invalid; *@bad tells the reason.
 */
struct json_object *emu_json_parse(const char *text, int bytes, enum json_tokener_error *bad);

/**
 * emu_json_put - queue @message as a line and drop its reference. @most: maximum number of bytes in
 * the buffer. Errors: -ENOBUFS, -ENOMEM; then nothing is queued.
 */
int emu_json_put(struct emu_json_buf *out, struct json_object *message, size_t most);

/** emu_json_put_line - queue a line given as text without newline. Errors: as emu_json_put(). */
int emu_json_put_line(struct emu_json_buf *out, const char *line, size_t bytes, size_t most);

/** emu_json_put_text - queue a part of a line; @ends: the last part. Errors: as emu_json_put(). */
int emu_json_put_text(struct emu_json_buf *out, const char *text, size_t bytes, bool ends,
                      size_t most);

/**
 * emu_json_send - send the first @bytes bytes of @out by one sendmsg(), and remove the bytes that
 * were sent. @fds: descriptors to send with the first byte; NULL: none. Returns the number of bytes
 * sent, or -errno.
 */
ssize_t emu_json_send(struct emu_json_buf *out, int fd, size_t bytes,
                      const struct emu_json_fds *fds, int flags);

/** emu_json_write - do emu_json_send() for a file or pipe, by one write(). */
ssize_t emu_json_write(struct emu_json_buf *out, int fd, size_t bytes);

/**
 * emu_json_read - receive bytes into @in by one recvmsg(). @ret: gets the descriptors that were
 * received, which the caller then owns; NULL: the kernel closes them. Returns the number of bytes,
 * 0 at the end of the stream, or -errno.
 */
ssize_t emu_json_read(struct emu_json_buf *in, int fd, struct emu_json_fds *ret, int flags);

/**
 * emu_json_next - take the next whole line and parse it. The caller frees *ret by
 * json_object_put(). @containers_max: the largest number of lists and objects that the line may
 * contain. json-c needs up to 750 bytes of memory for `{},`, but only 40 for any other byte of a
 * line.
 * Returns 1; 0 if there is no whole line yet; -EBADMSG if the line is not a JSON object or contains
 * too many lists and objects; -EMSGSIZE if the line is longer than @line_max.
 */
int emu_json_next(struct emu_json_buf *in, size_t line_max, size_t containers_max,
                  struct json_object **ret);

/**
 * emu_json_take - take the next whole line as text, unparsed and without its newline. The caller
 * frees *line. Returns 1; 0 if there is no whole line yet; -EMSGSIZE if the line is longer than
 * @line_max; -ENOMEM.
 */
int emu_json_take(struct emu_json_buf *in, size_t line_max, char **line, size_t *bytes);

/**
 * emu_json_peek_line - look at the next line without taking it. Returns the number of its bytes
 * that are there, but at most @most. *text points to them, and is valid until the buffer changes.
 * *ends becomes true if these bytes are the whole line.
 * emu_json_drop - remove @bytes bytes and, if @ends, the newline behind them.
 */
size_t emu_json_peek_line(const struct emu_json_buf *in, size_t most, const char **text,
                          bool *ends);
void emu_json_drop(struct emu_json_buf *in, size_t bytes, bool ends);

/* Return a field of an object, or the default if it is absent or of another type. */
const char *emu_json_text(struct json_object *message, const char *field, const char *otherwise);
int64_t emu_json_number(struct json_object *message, const char *field, int64_t otherwise);
double emu_json_double(struct json_object *message, const char *field, double otherwise);
bool emu_json_true(struct json_object *message, const char *field);

/**
 * emu_json_count, emu_json_at - return how many elements a list has, and element @i. If @list is no
 * list, because another program sent it, they return 0 and NULL. json-c's functions would abort the
 * process.
 */
size_t emu_json_count(struct json_object *list);
struct json_object *emu_json_at(struct json_object *list, size_t i);

/**
 * emu_json_no_controls - make the texts in @json safe to print on a terminal, because another
 * program sent them: replace control characters (emu_no_controls()), and delete each member whose
 * name has control characters.
 */
void emu_json_no_controls(struct json_object *json);

/**
 * emu_json_wait_ms - if @line is the event "wait", by which the fabric says that a reply has to
 * wait for other hosts, return its time limit in ms (INT32_MAX: it has none); else 0. Pure.
 */
int emu_json_wait_ms(struct json_object *line);

#endif
