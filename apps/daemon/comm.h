/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.h - the profile of a program's communication, as part of the run report: what it did by
 * collectives and by messages, how long that took, and who talks to whom.
 *
 * Thread: comm_build() the manager's; comm_print() any.
 */
#ifndef APPS_DAEMON_COMM_H
#define APPS_DAEMON_COMM_H

#include <json-c/json.h>
#include <stdio.h>

#include "apps/fabric/fabric.h"

/* Pairs of nodes that a report lists, those with most bytes; the rest is summed up. */
#define COMM_PAIRS_MOST 65536u

/** comm_build - "communication" of the report (docs/manual.md); NULL: there is no memory. */
struct json_object *comm_build(struct fabric *fabric, const struct fabric_config *config);

/** comm_print - of it, what people want to see at once: nothing, where nothing was sent. */
void comm_print(FILE *out, struct json_object *comm);

#endif
