/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz.h - shared by fuzz targets.
 *
 * A target is a function that must survive any input. libFuzzer calls it with inputs that it
 * generates (scripts/fuzz), and main.c calls it with those of the corpus (the fast suite). An input
 * leaves no state behind, so that every finding can be reproduced alone.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** LLVMFuzzerTestOneInput - the target; libFuzzer's name. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/** fuzz_must - unless @holds, print @what and abort: a finding. */
void fuzz_must(bool holds, const char *what);

/** fuzz_print_why - a finding if @error contains no reason. */
void fuzz_print_why(const char *error);

/** fuzz_text - the input as a string; the caller frees it. */
char *fuzz_text(const uint8_t *data, size_t bytes);

/** fuzz_now_ns - clock.c: the time of every clock of the target; the input advances it. */
extern uint64_t fuzz_now_ns;

#define FUZZ_PATH_BYTES 32

/** fuzz_file - a file in memory that contains the input, and its @path; the caller closes it. */
int fuzz_file(const uint8_t *data, size_t bytes, char path[static FUZZ_PATH_BYTES]);

/* An input that is consumed from the front, number by number; after its end all numbers are 0. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint32_t fuzz_u32(struct fuzz_input *in);

/** fuzz_bytes - copy the next @bytes, or as many as there are, to @ret. Returns how many. */
size_t fuzz_bytes(struct fuzz_input *in, void *ret, size_t bytes);

#endif
