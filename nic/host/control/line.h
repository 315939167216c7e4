/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * line.h - lines of JSON on the control socket, with the descriptors that come along.
 *
 * Owner: struct nic_line, which has one reader; a line is sent whole by who holds the control's `ask`. Lock:
 * none of the adapter's. Callers: control.c.
 */
#ifndef NIC_LINE_H
#define NIC_LINE_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nic_line {
    int fd;
    char *text;         /* what has come and was not taken */
    size_t bytes, room;
    int passed[2];      /* descriptors that came, -1 when none */
    bool no_room;       /* there was no room in this process for one that came */
};

/**
 * nic_above_standard - @fd, or what it was moved to: above standard input, output and error. -1 with errno:
 * no room.
 */
int nic_above_standard(int fd);
/** nic_line_next - the next line as JSON. Errors: -EPIPE at the end, -EPROTO for what is no JSON, -errno. */
int nic_line_next(struct nic_line *line, struct json_object **ret);
/** nic_line_send - sends @request and puts it. Errors: -errno. */
int nic_line_send(const struct nic_line *line, struct json_object *request);

/* A field of @object; what is absent is @otherwise, "", 0 or false. */
int64_t nic_field_number(struct json_object *object, const char *name, int64_t otherwise);
const char *nic_field_text(struct json_object *object, const char *name);
double nic_field_double(struct json_object *object, const char *name);
bool nic_field_bool(struct json_object *object, const char *name);

#endif
