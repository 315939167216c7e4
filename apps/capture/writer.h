/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.h - moves the records of a capture from its rings into its files.
 *
 * Owned by one thread, in the fabric's process or in another. It never blocks the workers: they see
 * how far it has read their rings, and count the records that do not fit.
 */
#ifndef APPS_CAPTURE_WRITER_H
#define APPS_CAPTURE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

struct capture_files;
struct capture_writer;

/* Number of records in the files, and of all others by reason. */
struct capture_written {
    uint64_t records;     /* in the files */
    uint64_t missed;      /* dropped because their ring was full, before the writer stopped */
    uint64_t overwritten; /* lost with an overwritten file of a ring */
    uint64_t after;       /* after the writer had stopped, or not written because of an error */
    bool full;            /* the only file has reached its limit */
};

/**
 * capture_writer_open - empty the files and write the section and the interfaces. @memfd: has the
 * rings; always closed. @files: open; borrowed. @most: limit of records; UINT64_MAX: none.
 * @hurry_fd: see struct pcapng.
 * Errors, all before the files are changed: -ENOMEM; -EPROTO if @memfd has no rings; of mmap();
 * -EMSGSIZE if the interfaces do not fit into files of this size, see capture_files_small(); as
 * capture_files_begin(). Errors of writing are returned by capture_writer_step().
 */
int capture_writer_open(struct capture_writer **ret, int memfd, struct capture_files *files,
                        uint64_t most, int hurry_fd);

/**
 * capture_writer_step - write the records that are in the rings now, ordered by time. Returns their
 * number, or a negative errno of the file; all later calls then return it, too.
 */
int64_t capture_writer_step(struct capture_writer *writer);

/** capture_writer_ended - true if there are @most records or the file is full. */
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
