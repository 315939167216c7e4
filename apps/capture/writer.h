/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.h - moves the records of a capture from its rings into its files.
 *
 * A writer is used by one thread, in the fabric's process or in another one. It never blocks the
 * workers: a worker that finds its ring full drops the record and counts it.
 */
#ifndef APPS_CAPTURE_WRITER_H
#define APPS_CAPTURE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

struct capture_files;
struct capture_writer;

/* How many records are in the files, and how many are not, by reason. */
struct capture_written {
    uint64_t records;     /* in the files */
    uint64_t missed;      /* dropped because their ring was full, before the writer stopped */
    uint64_t overwritten; /* in files of a ring that were overwritten */
    uint64_t after;       /* captured after the writer had stopped, or lost in a failed write */
    bool full;            /* the only file has reached its limit */
};

/**
 * capture_writer_open - empty the files, and write the section header and the descriptions of the
 * interfaces to the first one. @memfd: the file with the rings; this function always closes it.
 * @files: open; borrowed. @most: limit of the number of records; UINT64_MAX: none. @hurry_fd: see
 * struct pcapng.
 * Errors, all before the files are changed: -ENOMEM; -EPROTO if @memfd has no rings; those of
 * mmap(); -EMSGSIZE if the interfaces do not fit into files of this size, see
 * capture_files_small(); those of capture_files_begin(). Errors of writing are returned by
 * capture_writer_step().
 */
int capture_writer_open(struct capture_writer **ret, int memfd, struct capture_files *files,
                        uint64_t most, int hurry_fd);

/**
 * capture_writer_step - write the records that are in the rings now, ordered by time. Returns their
 * number, or a negative errno of the file; all later calls then return it, too.
 */
int64_t capture_writer_step(struct capture_writer *writer);

/** capture_writer_ended - return whether @most records were written or the files are full. */
bool capture_writer_ended(const struct capture_writer *writer);

/**
 * capture_writer_close - write the remaining records and the statistics. The taps must be closed.
 * Returns 0, or a negative errno of the file.
 */
int capture_writer_close(struct capture_writer *writer, struct capture_written *ret);

/** capture_print - print a summary for the user. @err: from capture_writer_close(). */
void capture_print(const struct capture_files *files, const struct capture_written *written,
                   int err);

#endif
