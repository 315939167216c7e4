/* SPDX-License-Identifier: BSD-3-Clause */
/* symmetric.c - register regions under the same key at all members of a group */
#include "nic/fabemu.h"

#include <errno.h>

#include "emu/util/combine.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/group/group.h"
#include "nic/host/rx/region.h"

static void region_refuse(struct fabemu_group *g, struct nic_coll *c)
{
    nic_region_drop(g->fab, c->region);
    nic_complete(g->fab, c->post.req, c->status);
}

/* All members have the key. */
static void region_ready(struct fabemu_group *g, struct nic_coll *c)
{
    if (c->status) {
        region_refuse(g, c);
        return;
    }
    *c->key = c->region->key;
    nic_complete(g->fab, c->post.req, 0);
}

/*
 * The members have agreed on a key and on the size. Nobody may use the key before all members know
 * it.
 */
static void region_agreed(struct fabemu_group *g, struct nic_coll *c)
{
    uint64_t most = c->agree[1], least = ~c->agree[2];

    if (!c->status && most != least)
        c->status = -EINVAL;
    if (c->status) {
        region_refuse(g, c);
        return;
    }
    c->region->key = c->agree[0] | NIC_KEY_SYMMETRIC;
    c->ended = region_ready;
    if (g->members == 1) {
        region_ready(g, c);
        return;
    }
    c->kind = EMU_BARRIER;
    c->in = c->out = NULL;
    c->bytes = c->sent = c->done = 0;
    c->segs = 1;
    nic_group_start(g, c);
}

int fabemu_register_symmetric(struct fabemu_group *g, void *addr, size_t bytes, unsigned access,
                              uint64_t *key, struct fabemu_req *req)
{
    struct nic_region init = {.base = addr, .bytes = bytes, .access = access, .group = g};
    struct nic_coll c = {.kind = EMU_ALLREDUCE,
                         .op = EMU_MAX,
                         .type = EMU_U64,
                         .sends = true,
                         .awaits = true,
                         .ended = region_agreed,
                         .key = key};
    struct nic_coll *posted = (struct nic_coll *)(void *)req->opaque;
    int err = nic_region_check(addr, bytes, access);

    if (!err && req->after)
        err = nic_fail(-EINVAL, "a registration cannot be armed");
    if (err)
        return err;
    if (nic_gone(g->fab))
        return nic_fail_gone();
    nic_lock(g->fab);
    err = nic_region_add(g->fab, &init, &c.region);
    nic_unlock(g->fab);
    if (err)
        return err;
    c.agree[0] = nic_random();
    c.agree[1] = bytes;
    c.agree[2] = ~(uint64_t)bytes;
    c.in = (const uint8_t *)posted->agree;
    c.out = (uint8_t *)posted->agree;
    c.bytes = c.step = sizeof c.agree;
    return nic_coll_post(g, req, &c);
}
