/* SPDX-License-Identifier: BSD-3-Clause */
/* adapters.h - adapters of processes on a real fabric, in this process. */
#ifndef TESTS_WORLD_ADAPTERS_H
#define TESTS_WORLD_ADAPTERS_H

#include "tests/world/fabric.h"
#include "tests/world/host/parts.h"

/** adapters_open - a process attaches at @info->node; its adapter: nic_close() ends it. */
struct fabemu *adapters_open(struct fabric *fabric, const struct fabemu_info *info);

/**
 * adapters_pass - step all workers of a stopped fabric and @count adapters, once; yield if nothing
 * moved.
 */
void adapters_pass(struct fabric *fabric, struct fabemu *const *fab, uint32_t count);

/**
 * adapters_hasten - engines of the first @count nodes, if there are any, time out as soon as that.
 */
/* one thread steps all: nobody has to wait for a processor */
#define ADAPTERS_HASTE_PS UINT64_C(2000000000)
void adapters_hasten(struct fabric *fabric, uint32_t count);

/** adapters_all_are - have all of these requests that status? */
bool adapters_all_are(const struct fabemu_req *req, uint32_t count, int status);

#endif
