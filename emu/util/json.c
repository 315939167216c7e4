/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - JSON objects, one per line, and file descriptors over a stream socket. */
#include "emu/util/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/util/printable.h"

#define READ_BYTES 4096u /* one read has at least this much space */

/* --- buffers ------------------------------------------------------------------------ */

static char *buf_start(const struct emu_json_buf *buf)
{
    return buf->data + buf->at;
}

static char *buf_end(const struct emu_json_buf *buf)
{
    return buf->data + buf->at + buf->bytes;
}

/*
 * Make space for @more bytes. The used bytes are moved to the front only if at least as many bytes
 * are free there. So moving takes no longer than reading those bytes did.
 */
static int buf_reserve(struct emu_json_buf *buf, size_t more)
{
    if (buf->at + buf->bytes + more <= buf->room)
        return 0;
    if (buf->at && buf->at >= buf->bytes) {
        memcpy(buf->data, buf_start(buf), buf->bytes);
        buf->at = 0;
    }
    size_t room = buf->room ? buf->room : 1024;
    while (room < buf->at + buf->bytes + more)
        room *= 2;
    if (room == buf->room)
        return 0;
    char *data = realloc(buf->data, room);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->room = room;
    return 0;
}

/* Remove bytes from the front. An empty buffer does not keep the memory of a long line. */
static void buf_consume(struct emu_json_buf *buf, size_t bytes)
{
    buf->bytes -= bytes;
    buf->at = buf->bytes ? buf->at + bytes : 0;
    if (!buf->bytes && buf->room > EMU_JSON_KEEP)
        emu_json_free(buf);
}

void emu_json_free(struct emu_json_buf *buf)
{
    free(buf->data);
    *buf = (struct emu_json_buf){.room = 0};
}

size_t emu_json_excess(const struct emu_json_buf *buf)
{
    return buf->room > EMU_JSON_KEEP ? buf->room - EMU_JSON_KEEP : 0;
}

/* --- lines -------------------------------------------------------------------------- */

int emu_json_put_text(struct emu_json_buf *out, const char *text, size_t bytes, bool ends,
                      size_t most)
{
    int err = out->bytes + bytes + ends > most ? -ENOBUFS : buf_reserve(out, bytes + ends);

    if (err)
        return err;
    if (bytes)
        memcpy(buf_end(out), text, bytes);
    if (ends)
        buf_end(out)[bytes] = '\n';
    out->bytes += bytes + ends;
    return 0;
}

int emu_json_put_line(struct emu_json_buf *out, const char *line, size_t bytes, size_t most)
{
    return emu_json_put_text(out, line, bytes, true, most);
}

int emu_json_put(struct emu_json_buf *out, struct json_object *message, size_t most)
{
    size_t bytes;
    const char *line =
        json_object_to_json_string_length(message,
                                          JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE,
                                          &bytes);
    int err = line ? emu_json_put_line(out, line, bytes, most) : -ENOMEM;

    json_object_put(message);
    return err;
}

static struct json_object *parse(const char *text, int bytes, int flags,
                                 enum json_tokener_error *bad)
{
    struct json_tokener *tok = json_tokener_new_ex(EMU_JSON_DEPTH);
    struct json_object *object;

    *bad = json_tokener_error_size; /* json-c has no code for out of memory */
    if (!tok)
        return NULL;
    json_tokener_set_flags(tok, flags);
    object = json_tokener_parse_ex(tok, text, bytes);
    *bad = json_tokener_get_error(tok);
    json_tokener_free(tok);
    return object;
}

/* Return a copy of @text with '?' in place of each byte that is not ASCII; NULL: no memory. */
static char *in_ascii(const char *text, size_t length)
{
    char *copy = malloc(length + 1);

    for (size_t i = 0; copy && i < length; i++)
        copy[i] = text[i] & 0x80 ? '?' : text[i];
    if (copy)
        copy[length] = '\0';
    return copy;
}

/*
 * In strict mode, json-c 0.18 refuses all strings that are not ASCII. So the syntax of such a text
 * is checked on a copy in ASCII, and the text itself is parsed without strict mode.
 */
struct json_object *emu_json_parse(const char *text, int bytes, enum json_tokener_error *bad)
{
    size_t length = bytes < 0 ? strlen(text) : (size_t)bytes;
    char *ascii = in_ascii(text, length);
    struct json_object *object;

    *bad = json_tokener_error_size;
    if (!ascii)
        return NULL;
    object = parse(ascii, bytes, JSON_TOKENER_STRICT, bad);
    if (*bad == json_tokener_success && memcmp(ascii, text, length) != 0) {
        json_object_put(object);
        object = parse(text, bytes, 0, bad);
    }
    free(ascii);
    return object;
}

static struct json_object *parse_object(const char *line, size_t bytes)
{
    enum json_tokener_error bad;
    struct json_object *object = emu_json_parse(line, (int)bytes, &bad);

    if (bad == json_tokener_success && json_object_is_type(object, json_type_object))
        return object;
    json_object_put(object);
    return NULL;
}

/* Return 1 if there is a whole line, 0 if not, or -EMSGSIZE. @bytes: gets its length so far. */
static int line_find(const struct emu_json_buf *in, size_t line_max, size_t *bytes)
{
    char *line = in->bytes ? buf_start(in) : NULL;
    char *end = line ? memchr(line, '\n', in->bytes) : NULL;

    *bytes = end ? (size_t)(end - line) : in->bytes;
    if (*bytes > line_max)
        return -EMSGSIZE;
    return end != NULL;
}

/*
 * Return whether the line has at most @most lists and objects. Brackets in strings do not count. A
 * line with single quotes outside strings is refused: it is not JSON, but json-c would accept it.
 */
static bool containers_fit(const char *line, size_t bytes, size_t most)
{
    bool in_string = false;

    for (size_t i = 0; i < bytes; i++)
        if (line[i] == '"')
            in_string = !in_string;
        else if (in_string)
            i += line[i] == '\\'; /* the next character is escaped */
        else if (line[i] == '\'' || ((line[i] == '[' || line[i] == '{') && !most--))
            return false;
    return true;
}

int emu_json_next(struct emu_json_buf *in, size_t line_max, size_t containers_max,
                  struct json_object **ret)
{
    struct json_object *object = NULL;
    size_t bytes;
    int found = line_find(in, line_max, &bytes);

    if (found != 1)
        return found;
    if (containers_fit(buf_start(in), bytes, containers_max))
        object = parse_object(buf_start(in), bytes);
    buf_consume(in, bytes + 1);
    if (!object)
        return -EBADMSG;
    *ret = object;
    return 1;
}

size_t emu_json_peek_line(const struct emu_json_buf *in, size_t most, const char **text, bool *ends)
{
    size_t bytes = in->bytes < most + 1 ? in->bytes : most + 1;
    const char *end = bytes ? memchr(buf_start(in), '\n', bytes) : NULL;

    *text = in->bytes ? buf_start(in) : "";
    *ends = end != NULL;
    if (end)
        return (size_t)(end - *text);
    return bytes < most ? bytes : most;
}

void emu_json_drop(struct emu_json_buf *in, size_t bytes, bool ends)
{
    buf_consume(in, bytes + ends);
}

/* If the buffer contains only this line, the caller gets the buffer's memory. */
int emu_json_take(struct emu_json_buf *in, size_t line_max, char **line, size_t *bytes)
{
    int found = line_find(in, line_max, bytes);
    bool alone = !in->at && in->bytes == *bytes + 1;
    char *text;

    if (found != 1)
        return found;
    text = realloc(alone ? in->data : NULL, *bytes + 1);
    if (!text)
        return -ENOMEM;
    if (alone) {
        *in = (struct emu_json_buf){.room = 0};
    } else {
        memcpy(text, buf_start(in), *bytes);
        buf_consume(in, *bytes + 1);
    }
    *line = text;
    return 1;
}

/* --- the socket --------------------------------------------------------------------- */

union fds_space {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(EMU_JSON_FDS * sizeof(int))];
};

static void fds_give(struct msghdr *msg, union fds_space *space, const struct emu_json_fds *fds)
{
    size_t count = 1, bytes;
    struct cmsghdr *head;

    while (count < EMU_JSON_FDS && fds->fd[count] >= 0)
        count++;
    bytes = count * sizeof fds->fd[0];
    *space = (union fds_space){.bytes = {0}};
    msg->msg_control = space->bytes;
    msg->msg_controllen = CMSG_SPACE(bytes);
    head = CMSG_FIRSTHDR(msg);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(bytes);
    memcpy(CMSG_DATA(head), fds->fd, bytes);
}

/* Store the received descriptors in @ret. The space given to recvmsg() limits their number. */
static void fds_take(struct msghdr *msg, struct emu_json_fds *ret)
{
    ret->lost = msg->msg_flags & MSG_CTRUNC;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(msg); at; at = CMSG_NXTHDR(msg, at)) {
        size_t bytes = at->cmsg_len - CMSG_LEN(0);

        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS && bytes <= sizeof ret->fd)
            memcpy(ret->fd, CMSG_DATA(at), bytes);
    }
}

ssize_t emu_json_send(struct emu_json_buf *out, int fd, size_t bytes,
                      const struct emu_json_fds *fds, int flags)
{
    struct iovec iov = {.iov_base = buf_start(out), .iov_len = bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union fds_space space;
    ssize_t sent;

    if (fds)
        fds_give(&msg, &space, fds);
    do
        sent = sendmsg(fd, &msg, flags | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return -errno;
    buf_consume(out, (size_t)sent);
    return sent;
}

ssize_t emu_json_write(struct emu_json_buf *out, int fd, size_t bytes)
{
    ssize_t wrote;

    do
        wrote = write(fd, buf_start(out), bytes);
    while (wrote < 0 && errno == EINTR);
    if (wrote < 0)
        return -errno;
    buf_consume(out, (size_t)wrote);
    return wrote;
}

ssize_t emu_json_read(struct emu_json_buf *in, int fd, struct emu_json_fds *ret, int flags)
{
    int err = buf_reserve(in, READ_BYTES);
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union fds_space space;
    ssize_t got;

    if (ret) {
        *ret = (struct emu_json_fds){.fd = EMU_JSON_NONE};
        msg.msg_control = space.bytes;
        /* if more descriptors arrive, they are lost */
        msg.msg_controllen = CMSG_LEN(EMU_JSON_FDS * sizeof(int));
    }
    if (err)
        return err;
    iov = (struct iovec){.iov_base = buf_end(in), .iov_len = in->room - in->at - in->bytes};
    do
        got = recvmsg(fd, &msg, flags | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    if (ret)
        fds_take(&msg, ret);
    in->bytes += (size_t)got;
    return got;
}

/* --- fields ------------------------------------------------------------------------- */

static struct json_object *field_of(struct json_object *message, const char *field, json_type type)
{
    struct json_object *value;

    if (!json_object_object_get_ex(message, field, &value) || !json_object_is_type(value, type))
        return NULL;
    return value;
}

const char *emu_json_text(struct json_object *message, const char *field, const char *otherwise)
{
    struct json_object *value = field_of(message, field, json_type_string);

    return value ? json_object_get_string(value) : otherwise;
}

int64_t emu_json_number(struct json_object *message, const char *field, int64_t otherwise)
{
    struct json_object *value = field_of(message, field, json_type_int);

    return value ? json_object_get_int64(value) : otherwise;
}

double emu_json_double(struct json_object *message, const char *field, double otherwise)
{
    struct json_object *value = field_of(message, field, json_type_double);

    if (!value)
        value = field_of(message, field, json_type_int);
    return value ? json_object_get_double(value) : otherwise;
}

bool emu_json_true(struct json_object *message, const char *field)
{
    struct json_object *value = field_of(message, field, json_type_boolean);

    return value && json_object_get_boolean(value);
}

size_t emu_json_count(struct json_object *list)
{
    return json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
}

struct json_object *emu_json_at(struct json_object *list, size_t i)
{
    return i < emu_json_count(list) ? json_object_array_get_idx(list, i) : NULL;
}

static void text_no_controls(struct json_object *text)
{
    size_t bytes = (size_t)json_object_get_string_len(text);
    char *copy = malloc(bytes + 1);

    if (copy) {
        memcpy(copy, json_object_get_string(text), bytes);
        emu_no_controls(copy, bytes);
    }
    /* the new text has the length of the old one, so this needs no memory */
    json_object_set_string_len(text, copy ? copy : "", copy ? (int)bytes : 0);
    free(copy);
}

static bool name_has_controls(const char *name)
{
    size_t bytes = strlen(name);
    char *copy = strdup(name);
    bool ret = true; /* the result if there is no memory */

    if (copy) {
        emu_no_controls(copy, bytes);
        ret = strcmp(copy, name) != 0;
    }
    free(copy);
    return ret;
}

void emu_json_no_controls(struct json_object *json)
{
    if (json_object_is_type(json, json_type_string))
        text_no_controls(json);
    for (size_t i = 0; i < emu_json_count(json); i++)
        emu_json_no_controls(emu_json_at(json, i));
    if (!json_object_is_type(json, json_type_object))
        return;
    json_object_object_foreach(json, name, value) /* the body may delete the current member */
    {
        if (name_has_controls(name))
            json_object_object_del(json, name);
        else
            emu_json_no_controls(value);
    }
}

int emu_json_wait_ms(struct json_object *line)
{
    int64_t limit_ms = emu_json_number(line, "limit_ms", 0);

    if (strcmp(emu_json_text(line, "event", ""), "wait") != 0)
        return 0;
    return limit_ms > 0 && limit_ms < INT32_MAX ? (int)limit_ms : INT32_MAX;
}
