/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.c - see fuzz.h. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

void fuzz_print_why(const char *error)
{
    fuzz_must(*error, "an error has a reason");
}

char *fuzz_text(const uint8_t *data, size_t bytes)
{
    char *text = malloc(bytes + 1);

    fuzz_must(text, "no memory");
    if (bytes)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    return text;
}

int fuzz_file(const uint8_t *data, size_t bytes, char path[static FUZZ_PATH_BYTES])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    fuzz_must(fd >= 0 && (!bytes || write(fd, data, bytes) == (ssize_t)bytes), "no file in memory");
    snprintf(path, FUZZ_PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}

size_t fuzz_bytes(struct fuzz_input *in, void *ret, size_t bytes)
{
    size_t some = in->left < bytes ? in->left : bytes;

    if (some)
        memcpy(ret, in->at, some);
    in->at += some;
    in->left -= some;
    return some;
}

uint8_t fuzz_u8(struct fuzz_input *in)
{
    uint8_t number = 0;

    fuzz_bytes(in, &number, sizeof number);
    return number;
}

uint16_t fuzz_u16(struct fuzz_input *in)
{
    uint16_t low = fuzz_u8(in);

    return (uint16_t)(low | fuzz_u8(in) << 8);
}

uint32_t fuzz_u32(struct fuzz_input *in)
{
    uint32_t low = fuzz_u16(in);

    return low | (uint32_t)fuzz_u16(in) << 16;
}
