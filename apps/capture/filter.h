/* SPDX-License-Identifier: BSD-3-Clause */
/* filter.h - parser of a capture's filter: "link=3:5 kind=allreduce" (docs/capture.md). */
#ifndef APPS_CAPTURE_FILTER_H
#define APPS_CAPTURE_FILTER_H

#include "apps/fabric/taps.h"

#define CAPTURE_TEXT_BYTES  1024u /* maximum size of a filter's text, with its final 0 */
#define CAPTURE_ERROR_BYTES 896u  /* size of a buffer for an error text */

struct capture_filter {
    uint8_t *directions_of; /* by cable: bits FABRIC_CAPTURE_OUT and FABRIC_CAPTURE_IN */
    struct emu_tap_filter tap;
};

/**
 * capture_filter_read - parse the filter in @text. @graph: the fabric's network. On success the
 * caller must release @ret. @error: one line for the user.
 * Errors: -EINVAL if the text is wrong or names something that the network does not have; -EXDEV if
 * it names a sender on another host; -ENOMEM. Thread: the fabric's manager.
 */
int capture_filter_read(struct capture_filter *ret, const char *text, uint32_t snap_bytes,
                        const struct fabric *fabric, const struct topo_graph *graph, char *error,
                        size_t error_bytes);
void capture_filter_release(struct capture_filter *filter);

#endif
