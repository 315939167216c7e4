/* SPDX-License-Identifier: BSD-3-Clause */
/* coll.c - the calls for collectives and symmetric regions; counts for the fabric's report */
#include "nic/host/group/group.h"

#include <errno.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/group/stream.h"
#include "nic/host/rx/region.h"

static_assert((int)FABEMU_MAXLOC == (int)EMU_MAXLOC && (int)FABEMU_BXOR == (int)EMU_BXOR &&
                  (int)FABEMU_LAND == (int)EMU_LAND && (int)FABEMU_PROD == (int)EMU_PROD,
              "fabemu_op is emu_op");
static_assert((int)FABEMU_F64_F64 == (int)EMU_F64_F64 && (int)FABEMU_F64 == (int)EMU_F64 &&
                  (int)FABEMU_F128_I32 == (int)EMU_F128_I32 && (int)FABEMU_I64 == (int)EMU_I64 &&
                  (int)FABEMU_F128 == (int)EMU_F128 && (int)FABEMU_U128 + 1 == (int)EMU_TYPES,
              "fabemu_type is emu_type");

/* --- posting ------------------------------------------------------------------------ */

static int coll_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_coll *c = (struct nic_coll *)(void *)post->req->opaque;
    struct fabemu_group *g = c->group;

    (void)fab;
    if (g->members == 1 && c->out && c->in && c->out != c->in)
        memcpy(c->out, c->in, c->bytes);
    if (g->broken || g->members == 1 || c->segs == 0) {
        c->status = nic_group_status(g);
        nic_coll_end(g, c);
        return 0;
    }
    nic_group_start(g, c);
    return 0;
}

static struct emu_call coll_call(const struct nic_coll *c)
{
    static const enum emu_call_kind kinds[] = {[EMU_BARRIER] = EMU_CALL_BARRIER,
                                               [EMU_MULTICAST] = EMU_CALL_BROADCAST,
                                               [EMU_REDUCE] = EMU_CALL_REDUCE,
                                               [EMU_ALLREDUCE] = EMU_CALL_ALLREDUCE};
    bool rooted = c->kind == EMU_MULTICAST || c->kind == EMU_REDUCE;
    struct emu_call call = {.kind = kinds[c->kind],
                            .node = rooted ? c->root : EMU_CALL_NO_NODE,
                            .bytes = c->bytes,
                            .group = c->group->id,
                            .op = c->op,
                            .type = c->type};

    if (c->group->members == 1 || !c->segs)
        call.group = EMU_CALL_LOCAL;
    else if (c->ended) /* posted by fabemu_register_symmetric() */
        call.group = EMU_CALL_UNTRACED;
    return call;
}

static int coll_post(struct fabemu_group *g, struct fabemu_req *req, const struct nic_coll *init)
{
    struct nic_coll *c = (struct nic_coll *)(void *)req->opaque;
    struct emu_call call;

    if (nic_is_defunct(g->fab))
        return nic_fail_defunct();
    if (nic_event_check(g->fab, req))
        return -EINVAL;
    *c = *init;
    c->post.req = req;
    c->post.begin = coll_begin;
    c->group = g;
    c->segs = c->kind == EMU_BARRIER ? 1 : (c->bytes + c->step - 1) / c->step;
    call = coll_call(c);
    return nic_post(g->fab, &c->post, &call);
}

int fabemu_barrier(struct fabemu_group *group, struct fabemu_req *req)
{
    struct nic_coll c = {.kind = EMU_BARRIER, .sends = true, .awaits = true};

    return coll_post(group, req, &c);
}

int fabemu_broadcast(struct fabemu_group *group, void *buf, size_t bytes, uint32_t root_node,
                     struct fabemu_req *req)
{
    bool root = root_node == group->fab->info.node;
    struct nic_coll c = {.kind = EMU_MULTICAST,
                         .root = root_node,
                         .sends = root,
                         .awaits = !root,
                         .bytes = bytes,
                         .step = EMU_PAYLOAD_BYTES};
    int err = nic_buffer_check(buf, bytes);

    if (err)
        return err;
    if (root)
        c.in = buf;
    else
        c.out = buf;
    return coll_post(group, req, &c);
}

/* Check the arguments of a reduction. @result: whether this member gets the result. */
static int reduction_check(const void *in, const void *out, bool result, unsigned op, unsigned type,
                           size_t count)
{
    size_t size = emu_type_bytes(type);
    int err;

    if (!emu_combine_ok(op, type))
        return nic_fail(-EINVAL, "operation %u does not apply to type %u", op, type);
    if (count > SIZE_MAX / size)
        return nic_fail(-EINVAL, "the vector is larger than the address space");
    err = nic_buffer_check(in, count * size);
    return err || !result ? err : nic_buffer_check(out, count * size);
}

/*
 * Post a reduction. @c says whether this member contributes and whether it gets the result. The
 * other arguments are those of the call.
 */
static int reduction_post(struct fabemu_group *group, struct nic_coll *c, const void *in, void *out,
                          size_t count, unsigned op, unsigned type, struct fabemu_req *req)
{
    int err = reduction_check(in, out, c->awaits, op, type, count);
    size_t size = emu_type_bytes(type);

    if (err)
        return err;
    c->op = (uint8_t)op;
    c->type = (uint8_t)type;
    c->bytes = count * size;
    c->step = (uint32_t)(EMU_PAYLOAD_BYTES / size * size);
    c->in = in;
    c->out = c->awaits ? out : NULL;
    return coll_post(group, req, c);
}

int fabemu_reduce(struct fabemu_group *group, const void *in, void *out, size_t count, unsigned op,
                  unsigned type, uint32_t root_node, struct fabemu_req *req)
{
    bool root = root_node == group->fab->info.node;
    struct nic_coll c = {.kind = EMU_REDUCE, .root = root_node, .sends = !root, .awaits = root};

    return reduction_post(group, &c, in, out, count, op, type, req);
}

int fabemu_allreduce(struct fabemu_group *group, const void *in, void *out, size_t count,
                     unsigned op, unsigned type, struct fabemu_req *req)
{
    struct nic_coll c = {.kind = EMU_ALLREDUCE, .sends = true, .awaits = true};

    return reduction_post(group, &c, in, out, count, op, type, req);
}

bool fabemu_reducible(unsigned op, unsigned type)
{
    return emu_combine_ok(op, type);
}

/* --- symmetric regions -------------------------------------------------------------- */

static void region_refuse(struct fabemu_group *g, struct nic_coll *c)
{
    nic_region_drop(g->fab, c->region);
    nic_complete(g->fab, c->post.req, c->status);
}

/* All members know the key, so complete the request. */
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
 * The members have agreed on a key and on the size. A barrier follows, because no member may use
 * the key before all members know it.
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
    struct nic_region init = {.piece = {{.base = addr, .bytes = bytes}},
                              .pieces = 1,
                              .bytes = bytes,
                              .access = access,
                              .group = g};
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
    if (!err)
        err = nic_event_check(g->fab, req);
    if (err)
        return err;
    if (nic_is_defunct(g->fab))
        return nic_fail_defunct();
    nic_lock(g->fab);
    err = nic_region_add(g->fab, &init, &c.region);
    nic_unlock(g->fab);
    if (err)
        return err;
    c.agree[0] = nic_random_of(g->fab);
    c.agree[1] = bytes;
    c.agree[2] = ~(uint64_t)bytes;
    c.in = (const uint8_t *)posted->agree;
    c.out = (uint8_t *)posted->agree;
    c.bytes = c.step = sizeof c.agree;
    return coll_post(g, req, &c);
}

/* --- counts for the report ---------------------------------------------------------- */

void fabemu_count_in_network(struct fabemu_group *group, enum fabemu_coll coll)
{
    struct fabemu *fab = group->fab;
    struct emu_hostif_stats *stats = &fab->hostif.shared->stats;

    if ((unsigned)coll >= FABEMU_COLLS || nic_is_defunct(fab))
        return;
    atomic_fetch_add_explicit(&stats->in_network[coll], 1, memory_order_relaxed);
}

static_assert(FABEMU_COLLS == EMU_HOSTIF_COLLS && FABEMU_WHYS == EMU_HOSTIF_REASONS,
              "dimensions of the counters in emu/hostif/hostif.h");

void fabemu_count_elsewhere(struct fabemu *fab, enum fabemu_coll coll, enum fabemu_why why)
{
    if ((unsigned)coll < FABEMU_COLLS && (unsigned)why < FABEMU_WHYS && !nic_is_defunct(fab))
        atomic_fetch_add_explicit(&fab->hostif.shared->stats.elsewhere[coll][why], 1,
                                  memory_order_relaxed);
}

void fabemu_time_elsewhere(struct fabemu *fab, enum fabemu_coll coll, uint64_t bytes, uint64_t ns)
{
    /* the kind under which durations are recorded; 0: none are recorded */
    static const uint8_t kinds[FABEMU_COLLS] = {
        [FABEMU_COLL_BARRIER] = EMU_BARRIER,
        [FABEMU_COLL_BROADCAST] = EMU_MULTICAST,
        [FABEMU_COLL_REDUCE] = EMU_REDUCE,
        [FABEMU_COLL_ALLREDUCE] = EMU_ALLREDUCE,
    };
    struct emu_comm_cell *cell;

    if ((unsigned)coll >= FABEMU_COLLS || !kinds[coll] || nic_is_defunct(fab))
        return;
    cell = &fab->hostif.shared->comm
                .cell[EMU_COMM_ELSEWHERE][kinds[coll] - EMU_MULTICAST][emu_comm_size(bytes)];
    nic_lock(fab);
    emu_comm_called(cell, bytes);
    emu_comm_timed(cell, ns, 0);
    nic_unlock(fab);
}
