/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json.c - the codec of the control socket (emu/util/json.h): arbitrary bytes, in pieces of any
 * length.
 *
 * The input's first byte determines the length of the pieces; the rest are the bytes.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/util/json.h"
#include "tests/fuzz/fuzz.h"

#define LINE_MAX_BYTES 512u
#define CONTAINERS_MAX 16u
#define OUT_MAX_BYTES  4096u

/* Read fields as every type, whatever type they have. */
static void read_fields(struct json_object *message)
{
    static const char *const fields[] = {"cmd", "want", "wide", "f", ""};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const char *text = emu_json_text(message, fields[i], "none");
        fuzz_must(text, "emu_json_text() returns a text or the default");
        fuzz_must(strlen(text) < LINE_MAX_BYTES, "a text is shorter than its line");
        emu_json_number(message, fields[i], -1);
        emu_json_double(message, fields[i], 0.5);
        emu_json_true(message, fields[i]);
    }
}

/* Send a message that was read: it is one line, or is refused because too much is queued. */
static void send_back(struct emu_json_buf *out, int fd, struct json_object *message)
{
    size_t before = out->bytes;
    int err = emu_json_put(out, message, OUT_MAX_BYTES);

    if (err) {
        fuzz_must(err == -ENOBUFS && out->bytes == before,
                  "a refused message is too long, and leaves the buffer unchanged");
        return;
    }
    const char *line = out->data + out->at + before;
    fuzz_must(memchr(line, '\n', out->bytes - before) == line + out->bytes - before - 1,
              "an object is one line");
    while (out->bytes > OUT_MAX_BYTES / 2)
        fuzz_must(emu_json_send(out, fd, out->bytes / 2, NULL, MSG_DONTWAIT) > 0,
                  "bytes can be sent");
}

static void take_lines(struct emu_json_buf *in, struct emu_json_buf *out, int fd)
{
    struct json_object *message;
    int got;

    while ((got = emu_json_next(in, LINE_MAX_BYTES, CONTAINERS_MAX, &message)) != 0) {
        if (got == -EMSGSIZE) { /* the connection has ended */
            emu_json_free(in);
            return;
        }
        fuzz_must(got == 1 || got == -EBADMSG, "a line is an object or is refused");
        if (got != 1)
            continue;
        read_fields(message);
        send_back(out, fd, message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input input = {.at = data, .left = bytes};
    size_t most = 1 + (size_t)fuzz_u8(&input) * 16;
    struct emu_json_buf in = {.room = 0}, out = {.room = 0};
    int fd[2], sink[2];

    fuzz_must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd),
              "a pair of sockets can be created");
    fuzz_must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sink), "another one");
    while (input.left) {
        uint8_t piece[1 + 255 * 16], taken[sizeof piece];
        size_t length = fuzz_bytes(&input, piece, most);

        fuzz_must(send(fd[0], piece, length, MSG_DONTWAIT) == (ssize_t)length, "sent");
        fuzz_must(emu_json_read(&in, fd[1], NULL, MSG_DONTWAIT) > 0, "read");
        take_lines(&in, &out, sink[0]);
        while (recv(sink[1], taken, sizeof taken, MSG_DONTWAIT) > 0)
            ;
    }
    emu_json_free(&in);
    emu_json_free(&out);
    for (unsigned i = 0; i < 2; i++) {
        close(fd[i]);
        close(sink[i]);
    }
    return 0;
}
