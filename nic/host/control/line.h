/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.h - lines of JSON on the control socket, with the descriptors that come along.
 *
 * Owner: struct nic_line, which has one reader; a line is sent whole by who holds the control's
 * `ask`. Lock: none of the adapter's. Callers: control.c.
 */
#ifndef NIC_LINE_H
#define NIC_LINE_H

#include <stdbool.h>

#include "emu/util/json.h"

struct nic_line {
    int fd;
    struct emu_json_buf in;   /* what has come and was not taken */
    int passed[EMU_JSON_FDS]; /* descriptors that came, -1 when none */
    bool no_room;             /* there was no room in this process for one that came */
};

/**
 * nic_above_standard - @fd, or what it was moved to: above standard input, output and error. -1
 * with errno: no room.
 */
int nic_above_standard(int fd);
/**
 * nic_line_next - the next line as JSON, if all of it comes before emu_now_ms() is @end_ms;
 * INT64_MAX: wait without limit. Errors: -ETIMEDOUT; -EPIPE at the end; -EPROTO, a line is not a
 * JSON object; -EMSGSIZE, it is too long; -errno.
 */
int nic_line_next(struct nic_line *line, int64_t end_ms, struct json_object **ret);
/** nic_line_send - sends @request and puts it. Errors: -errno. */
int nic_line_send(const struct nic_line *line, struct json_object *request);

#endif
