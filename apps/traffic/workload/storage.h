/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * storage.h - traffic of a file system, which disturbs collectives. Nodes in no group are
 * *servers*, which only receive, or *clients*. Each client writes 64 KB to one server after the
 * other, as fast as its adapter can send, until the driver stops it.
 */
#ifndef APPS_TRAFFIC_WORKLOAD_STORAGE_H
#define APPS_TRAFFIC_WORKLOAD_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/traffic/workload/coll.h"
#include "emu/dev/dev.h"

/** traffic_storage_step - the step function of a node in no group. */
uint32_t traffic_storage_step(struct emu_dev *dev, uint64_t until_ps);

/** traffic_storage_assign - make the nodes in no group servers and clients. */
void traffic_storage_assign(struct traffic_coll *all);

/**
 * traffic_storage_totals - count the segments that clients of this host have sent, and that its
 * servers have received. Thread: the driver, while the workers are stopped.
 */
void traffic_storage_totals(const struct traffic_coll *all, uint64_t *sent, uint64_t *received);

#endif
