/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * files.h - the files of a capture: one, or a ring of files in which the oldest is overwritten.
 *
 * The limit and the ring work as those of dumpcap (-a filesize, -b filesize with -b files). The
 * first file is opened, and so locked, before the fabric starts (base/output.h). The writer opens
 * the others when it reaches them. Files stay open, so that their locks are kept. Not thread-safe:
 * there is one writer at a time.
 */
#ifndef APPS_CAPTURE_FILES_H
#define APPS_CAPTURE_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/base/output.h"

#define CAPTURE_FILES_MOST 100u

/* Limits from the command's options. */
struct capture_limits {
    uint64_t most_bytes; /* limit of each file; UINT64_MAX: none */
    uint32_t count;      /* number of files in the ring; 1: a single file */
};

struct capture_files {
    const char *path; /* as the user gave it; borrowed */
    struct capture_limits limits;
    char label[PATH_MAX]; /* for messages: the path, or "NAME_*.SUFFIX" for a ring */
    char first[PATH_MAX]; /* the name of file 0 */
    struct output file[CAPTURE_FILES_MOST];
    uint32_t at;          /* the file that is being written */
    uint64_t used_bytes;  /* bytes that earlier captures have written to the current file */
    uint64_t least_bytes; /* smallest limit for this capture; set by capture_writer_open() */
    bool begun;           /* the old contents of the files were removed */
    int err;              /* error of the first capture that is incomplete; 0: none */
};

/**
 * capture_files_open - open the first file without changing its contents. @path: borrowed until
 * capture_files_close(). @until_ms: see output_open().
 * Errors, after which no file is open: as output_open(); -ENAMETOOLONG; -ESPIPE if the first file
 * of a ring is not a regular file.
 */
int capture_files_open(struct capture_files *ret, const char *path,
                       const struct capture_limits *limits, int64_t until_ms);

/** capture_files_why - return a text for the user about an error of capture_files_open(). */
const char *capture_files_why(int err);

/**
 * capture_files_begin - on the first call, empty the files, and print how much disk space the
 * capture may take and how much is free. @record_bytes: size of the largest record in a file.
 * Errors: as ftruncate().
 */
int capture_files_begin(struct capture_files *files, size_t record_bytes);

/**
 * capture_files_next - empty the next file of the ring and make it the current one. Errors: -EFBIG
 * if there is no other file; as output_open() and ftruncate().
 */
int capture_files_next(struct capture_files *files);

/** capture_files_small - write to @error that the limit is below least_bytes. Returns -EMSGSIZE. */
int capture_files_small(const struct capture_files *files, char *error, size_t error_bytes);

/** capture_files_close - close all files that are open. @refused: see output_end(). */
void capture_files_close(struct capture_files *files, bool refused);

#endif
