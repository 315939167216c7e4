/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calls.h - files with the calls of processes in simulated time (`--compute record:FILE`).
 *
 * A file begins with a line of JSON: `calls` is the version of the format, `origin` says where the
 * file comes from, and `processes` has an object for each process. This object has the `rank`, the
 * number of `calls`, their `bytes`, and whether the process `ended` well, that is, detached. The
 * calls of the processes follow, in the order of the list (emu/hostif/calls.h). The last call of a
 * process that ended well is EMU_CALL_END.
 */
#ifndef APPS_CALLS_H
#define APPS_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_object;

#define CALLS_FILE_MOST (UINT64_C(1) << 31) /* maximum size of a file, in bytes */

/* The calls of a process. */
struct calls_part {
    int64_t rank; /* rank of the process in its MPI job, or number of its node */
    const uint8_t *data;
    size_t bytes;
    bool used; /* a process replays it */
};

struct calls_file {
    char *text; /* the whole file */
    struct calls_part *part;
    size_t parts;
};

/**
 * calls_check - count the posts (emu/hostif/calls.h) of a part. Returns whether the part is valid
 * and its process ended well.
 */
bool calls_check(const uint8_t *data, size_t bytes, uint64_t *calls);

/**
 * calls_read - read and check a file. Errors, with one line in @error: -EINVAL, the file is
 * not a recording, or is incomplete; those of open() and read(); -ENOMEM.
 */
int calls_read(struct calls_file *ret, const char *path, char *error, size_t error_bytes);
void calls_release(struct calls_file *file);

/** calls_write - write a file. Takes over the reference to @origin. @part: for each process. */
void calls_write(FILE *out, struct json_object *origin, const struct calls_part *part,
                 size_t parts);

#endif
