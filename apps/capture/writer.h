/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.h - moves the records of a capture from memory into its files.
 *
 * Each worker of the fabric writes records to a ring in shared memory. If the ring is full, the
 * worker does not wait, but drops the record and counts it. A writer is used by one thread, in the
 * fabric's process or in another one.
 */
#ifndef APPS_CAPTURE_WRITER_H
#define APPS_CAPTURE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

struct capture_files;
struct capture_writer;

/* The number of records in the files, and the numbers of other records by reason. */
struct capture_written {
    uint64_t records; /* in the files now */
    uint64_t missed;  /* dropped before the writer stopped, because the ring of a worker was full */
    uint64_t overwritten; /* written to files that were overwritten later (files.h) */
    uint64_t after;       /* captured after the writer had stopped, or lost in a failed write */
    bool full;            /* the only file has reached its limit */
};

/**
 * capture_writer_open - write the section header and the descriptions of the interfaces to the
 * current file. The first writer of @files empties the files first; later writers append. @memfd:
 * the file with the rings of the workers; this function always closes it. @files: open; borrowed.
 * @most: limit of the number of records; UINT64_MAX: none. @end_fd: see struct pcapng.
 * Errors, all before the files are changed: -ENOMEM; -EPROTO if @memfd has no rings; those of
 * mmap(); -EMSGSIZE if the interfaces do not fit into files of this size, see
 * capture_files_small(); those of capture_files_begin(). Errors of writing are returned by
 * capture_writer_step().
 */
int capture_writer_open(struct capture_writer **ret, int memfd, struct capture_files *files,
                        uint64_t most, int end_fd);

/**
 * capture_writer_step - write the records that are in the rings now, ordered by time. Returns their
 * number, or a negative errno of the file; all later calls then return it, too.
 */
int64_t capture_writer_step(struct capture_writer *writer);

/** capture_writer_ended - return whether the limit of records or of the files is reached. */
bool capture_writer_ended(const struct capture_writer *writer);

/**
 * capture_writer_close - write the remaining records and the statistics, after
 * fabric_capture_stop(). Returns 0, or a negative errno of the file.
 */
int capture_writer_close(struct capture_writer *writer, struct capture_written *ret);

/** capture_print - print a summary for the user. @err: from capture_writer_close(). */
void capture_print(const struct capture_files *files, const struct capture_written *written,
                   int err);

#endif
