/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz.h - shared by fuzz targets.
 *
 * A *target* is a function that must survive any input. libFuzzer calls it with inputs that it
 * generates (scripts/fuzz), and main.c calls it with the inputs of the corpus (the fast suite). A
 * call leaves no state behind, so that an input with a failure, a *finding*, reproduces it alone.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** LLVMFuzzerTestOneInput - the target, under the name that libFuzzer calls. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/** fuzz_must - print @what, the expectation that failed, and abort unless @holds. */
void fuzz_must(bool holds, const char *what);

/** fuzz_print_why - abort if @error, the text of an error, is empty. */
void fuzz_print_why(const char *error);

/** fuzz_text - return the input as a string; the caller frees it. */
char *fuzz_text(const uint8_t *data, size_t bytes);

/** fuzz_now_ns - the time of all clocks of a target with clock.c; the input advances it. */
extern uint64_t fuzz_now_ns;

#define FUZZ_PATH_BYTES 32

/** fuzz_file - make a file in memory with the input, and its @path; the caller closes it. */
int fuzz_file(const uint8_t *data, size_t bytes, char path[static FUZZ_PATH_BYTES]);

/* An input that is read from the front, number by number; after its end all numbers are 0. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint32_t fuzz_u32(struct fuzz_input *in);

/** fuzz_bytes - copy the next @bytes, or all if fewer are left, to @ret. Returns the number. */
size_t fuzz_bytes(struct fuzz_input *in, void *ret, size_t bytes);

#endif
