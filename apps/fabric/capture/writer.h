/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * writer.h - from the rings of a capture into a file.
 *
 * One thread's, in the fabric's process or in another. It disturbs nobody: workers see of it how
 * far it has come, and what does not fit into their rings meanwhile is counted.
 */
#ifndef APPS_CAPTURE_WRITER_H
#define APPS_CAPTURE_WRITER_H

#include <stdbool.h>
#include <stdint.h>

struct capture_writer;

/* How far it is. */
struct capture_written {
    uint64_t records; /* in the file */
    uint64_t missed;  /* found their ring full */
    bool ended;       /* as many as were wanted: more are not taken */
};

/**
 * capture_writer_open - the section and the interfaces are written. @memfd: of the rings; closed in
 * any case. @fd: the file, borrowed. @most: records; UINT64_MAX: without limit. @hurry_fd: see
 * struct pcapng.
 * Errors: -ENOMEM, -EPROTO (these are no rings), of mmap().
 */
int capture_writer_open(struct capture_writer **ret, int memfd, int fd, uint64_t most,
                        int hurry_fd);

/**
 * capture_writer_step - what is in the rings now, in the order of its times. Returns how many
 * records that were, or of the file a negative errno, for good.
 */
int64_t capture_writer_step(struct capture_writer *writer);

struct capture_written capture_writer_written(const struct capture_writer *writer);

/**
 * capture_writer_close - the rest, and the statistics. Returns 0, or of the file a negative errno.
 * Nothing is put into the rings any more.
 */
int capture_writer_close(struct capture_writer *writer, struct capture_written *ret);

/** capture_say - a line to the user of how it ended; @err: as capture_writer_close() said. */
void capture_say(const char *file, const struct capture_written *written, int err);

#endif
