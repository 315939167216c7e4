/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - what both sides of the control channel share. Not for others.
 */
#ifndef APPS_HOSTS_INTERNAL_H
#define APPS_HOSTS_INTERNAL_H

#include "apps/hosts/hosts.h"

#define HOSTS_DRAIN_MS 1000 /* for the last messages to leave */

/* hosts/totals.c: counters as a list of numbers, and such a list added to others. */
struct json_object *hosts_totals_list(const struct fabric_totals *totals);
void hosts_totals_add(struct fabric_totals *sum, struct json_object *list);

#endif
