/* SPDX-License-Identifier: BSD-3-Clause */
/* tape.c - record the calls of this process in a file, or read them. */
#include "nic/host/base/tape.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct nic_tape {
    int fd;
    struct emu_calls calls;

    /* recording: calls that are not written yet */
    uint8_t buffer[4096];
    size_t used;
    bool failed;

    /* replay */
    const uint8_t *data; /* the whole file; NULL: this tape records */
    size_t bytes, at;
    struct emu_call next;
};

static int tape_map(struct nic_tape *tape)
{
    struct stat st;
    void *at;

    if (fstat(tape->fd, &st))
        return -errno;
    if (st.st_size <= 0)
        return -EPROTO;
    at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, tape->fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    tape->data = at;
    tape->bytes = (size_t)st.st_size;
    nic_tape_skip(tape);
    return 0;
}

int nic_tape_open(struct nic_tape **ret, int fd, bool replays)
{
    struct nic_tape *tape = calloc(1, sizeof *tape);
    int err = tape ? 0 : -ENOMEM;

    if (tape)
        tape->fd = fd;
    else
        close(fd);
    if (!err && replays)
        err = tape_map(tape);
    if (err) {
        nic_tape_close(tape);
        return err;
    }
    *ret = tape;
    return 0;
}

/* Write whole calls, so that the file ends with a whole call if the process is killed. */
static void tape_write(struct nic_tape *tape)
{
    ssize_t put = tape->failed ? 0 : write(tape->fd, tape->buffer, tape->used);

    tape->failed |= put != (ssize_t)tape->used;
    tape->used = 0;
}

void nic_tape_put(struct nic_tape *tape, const struct emu_call *call)
{
    tape->used += emu_call_put(&tape->calls, call, tape->buffer + tape->used);
    if (tape->used > sizeof tape->buffer - EMU_CALL_BYTES)
        tape_write(tape);
}

struct emu_call *nic_tape_next(struct nic_tape *tape)
{
    return &tape->next;
}

/* The fabric has checked the file, so all its calls are valid. */
void nic_tape_skip(struct nic_tape *tape)
{
    size_t used =
        emu_call_get(&tape->calls, tape->data + tape->at, tape->bytes - tape->at, &tape->next);

    if (!used)
        tape->next = (struct emu_call){.kind = EMU_CALL_END};
    tape->at += used;
}

void nic_tape_close(struct nic_tape *tape)
{
    if (!tape)
        return;
    if (tape->data)
        munmap((void *)(uintptr_t)tape->data, tape->bytes);
    else if (tape->used)
        tape_write(tape);
    close(tape->fd);
    free(tape);
}
