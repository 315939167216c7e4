/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filter.h - which cables a capture listens at, and what of all that passes there it keeps, as
 * users write it: "link=3:5 kind=allreduce". docs/capture.md has the grammar.
 */
#ifndef APPS_CAPTURE_FILTER_H
#define APPS_CAPTURE_FILTER_H

#include "apps/fabric/taps.h"

#define CAPTURE_TEXT_BYTES  1024u /* of a filter, with its end */
#define CAPTURE_ERROR_BYTES 896u  /* room for a line about what is wrong */

struct capture_filter {
    uint8_t *directions_of; /* by cable; freed by capture_filter_release() */
    struct emu_tap_filter tap;
};

/**
 * capture_filter_read - @graph: the fabric's. @ret: released by the caller on success. @error: one
 * line for the user.
 * Errors: -EINVAL, the text is wrong or the network has not what it names; -ENOMEM.
 * Thread: the fabric's manager; nothing of it is changed.
 */
int capture_filter_read(struct capture_filter *ret, const char *text, uint32_t snap_bytes,
                        const struct fabric *fabric, const struct topo_graph *graph, char *error,
                        size_t error_bytes);
void capture_filter_release(struct capture_filter *filter);

#endif
