/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.h - move the records of a capture from its rings into its files.
 *
 * One thread's, in the fabric's process or in another. It disturbs nobody: workers see of it how
 * far it has come, and what does not fit into their rings meanwhile is counted.
 */
#ifndef APPS_CAPTURE_WRITER_H
#define APPS_CAPTURE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

struct capture_files;
struct capture_writer;

/* What happened to the records: those that are not in the files are counted by the reason. */
struct capture_written {
    uint64_t records;     /* in the files */
    uint64_t missed;      /* dropped because their ring was full, before the writer stopped */
    uint64_t overwritten; /* lost when their file in a ring of files was overwritten */
    uint64_t after;       /* arrived after the writer had stopped, or could not be written */
    bool full;            /* the only file has reached its limit */
};

/**
 * capture_writer_open - empty the files, and write the section and the interfaces. @memfd: holds
 * the rings; closed in any case. @files: open; borrowed. @most: records; UINT64_MAX: without limit.
 * @hurry_fd: see struct pcapng.
 * Errors, all before the files are changed: -ENOMEM, -EPROTO (these are no rings), of mmap();
 * -EMSGSIZE, files of this size have no room for the interfaces: capture_files_small(); as
 * capture_files_begin(). Errors of writing are returned by capture_writer_step().
 */
int capture_writer_open(struct capture_writer **ret, int memfd, struct capture_files *files,
                        uint64_t most, int hurry_fd);

/**
 * capture_writer_step - write the records that are in the rings now, ordered by time. Returns their
 * number, or a negative errno of the file; all later calls then return it, too.
 */
int64_t capture_writer_step(struct capture_writer *writer);

/** capture_writer_ended - no more records are taken: there are @most, or the file is full. */
bool capture_writer_ended(const struct capture_writer *writer);

/**
 * capture_writer_close - write the rest, and the statistics. Returns 0, or a negative errno of the
 * file. Nothing is put into the rings any more.
 */
int capture_writer_close(struct capture_writer *writer, struct capture_written *ret);

/** capture_print - a line to the user of how it ended; @err: as capture_writer_close() said. */
void capture_print(const struct capture_files *files, const struct capture_written *written,
                   int err);

#endif
