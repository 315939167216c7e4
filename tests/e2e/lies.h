/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lies.h - change the frames that a host sends, as if the host ran a modified fabemu. The frames
 * must have no key, because their tags are computed again.
 *
 * A *lie* is one change of a data frame. It changes a field of a record, or digits or a letter in
 * the JSON of the control channel, or inserts a JSON message. Each lie is written to a log.
 */
#ifndef TESTS_E2E_LIES_H
#define TESTS_E2E_LIES_H

#include <stdint.h>
#include <stdio.h>

struct lies {
    uint64_t random;   /* state of the random numbers */
    double records;    /* probability that a field of a frame is changed */
    double json;       /* probability of a lie in a record of the control channel */
    uint64_t after_ns; /* monotonic time before which the host is honest */
    FILE *log;
    uint64_t told;
    /* inserted bytes of the control channel that lies_hide() must still subtract from receipts */
    uint64_t inserted;
};

/**
 * lies_tell - change a frame of the lying host, at random. @room: number of bytes that fit at
 * @frame. Returns the new length of the frame.
 */
uint32_t lies_tell(struct lies *lies, uint8_t *frame, uint32_t bytes, uint32_t room);

/** lies_hide - hide from the lying host that bytes inserted into its control channel were read. */
void lies_hide(struct lies *lies, uint8_t *frame, uint32_t bytes);

#endif
