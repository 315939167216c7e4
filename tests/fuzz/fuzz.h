/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz.h - what fuzz targets share.
 *
 * A target is a function that takes any bytes and must survive them. libFuzzer calls it with inputs
 * that it makes up (scripts/fuzz), and main.c calls it with those of the corpus (the fast suite).
 * One input leaves nothing behind for the next, so that every finding can be repeated alone.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** LLVMFuzzerTestOneInput - the target; its name is libFuzzer's. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/** fuzz_must - a finding, unless it @holds: says @what does not hold, and aborts. */
void fuzz_must(bool holds, const char *what);

/** fuzz_print_why - a finding, unless there is a reason in @error. */
void fuzz_print_why(const char *error);

/** fuzz_text - the input as a string; free() takes it back. */
char *fuzz_text(const uint8_t *data, size_t bytes);

/** fuzz_now_ns - clock.c: what every clock of the target says: the input moves it. */
extern uint64_t fuzz_now_ns;

#define FUZZ_PATH_BYTES 32

/** fuzz_file - a file in memory that holds the input, and its @path; close() takes it back. */
int fuzz_file(const uint8_t *data, size_t bytes, char path[static FUZZ_PATH_BYTES]);

/* An input that is taken from its front, number by number; behind its end all are 0. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint32_t fuzz_u32(struct fuzz_input *in);

/** fuzz_bytes - the next @bytes, or as many as there are, to @ret. Returns how many. */
size_t fuzz_bytes(struct fuzz_input *in, void *ret, size_t bytes);

#endif
