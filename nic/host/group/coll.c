/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - the calls on groups: membership, collectives, counts for the report.
 */
#include "nic/host/group/group.h"

#include <json-c/json.h>
#include <string.h>

#include "emu/combine.h"

static_assert((int)FABEMU_MAXLOC == (int)EMU_MAXLOC && (int)FABEMU_BXOR == (int)EMU_BXOR &&
                  (int)FABEMU_LAND == (int)EMU_LAND && (int)FABEMU_PROD == (int)EMU_PROD,
              "fabemu_op is emu_op");
static_assert((int)FABEMU_F64_F64 == (int)EMU_F64_F64 && (int)FABEMU_F64 == (int)EMU_F64 &&
                  (int)FABEMU_F128_I32 == (int)EMU_F128_I32 && (int)FABEMU_I64 == (int)EMU_I64,
              "fabemu_type is emu_type");

/* --- membership ------------------------------------------------------------------------ */

static int group_create(struct fabemu *fab, const uint32_t *nodes, uint32_t count, bool wide,
                        uint32_t *id)
{
    struct json_object *ask, *list, *reply, *group;
    int err;

    if (count < 2)
        return nic_fail(-EINVAL, "a group has 2 members or more");
    if (!fab->control || nic_gone(fab))
        return nic_fail_gone();
    ask = json_object_new_object();
    list = json_object_new_array();
    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int64(nodes[i]));
    json_object_object_add(ask, "cmd", json_object_new_string("group_create"));
    json_object_object_add(ask, "nodes", list);
    if (wide)
        json_object_object_add(ask, "wide", json_object_new_boolean(true));
    err = nic_control_ask(fab->control, ask, &reply);
    if (err)
        return err;
    if (json_object_object_get_ex(reply, "group", &group))
        *id = (uint32_t)json_object_get_int64(group);
    else
        err = nic_fail(-EPROTO, "the fabric named no group");
    json_object_put(reply);
    return err;
}

int fabemu_group_create(struct fabemu *fab, const uint32_t *nodes, uint32_t count, uint32_t *id)
{
    return group_create(fab, nodes, count, false, id);
}

int fabemu_group_create_wide(struct fabemu *fab, const uint32_t *nodes, uint32_t count,
                             uint32_t *id)
{
    return group_create(fab, nodes, count, true, id);
}

/* Tell the fabric that this process does something with a group: joins it as one of @members, or leaves it (0). */
static int group_ask(struct fabemu *fab, const char *command, uint32_t id, uint32_t members)
{
    struct json_object *ask = json_object_new_object(), *reply;
    int err;

    json_object_object_add(ask, "cmd", json_object_new_string(command));
    json_object_object_add(ask, "group", json_object_new_int64(id));
    if (members)
        json_object_object_add(ask, "members", json_object_new_int64(members));
    err = nic_control_ask(fab->control, ask, &reply);
    if (!err)
        json_object_put(reply);
    return err;
}

static void group_ask_leave(struct fabemu *fab, uint32_t id)
{
    if (fab->control)
        group_ask(fab, "group_leave", id, 0);
}

/*
 * May this process join? The fabric knows, and where the count is wrong it takes that for a refusal to join.
 * Of a group of one that is nobody else's it knows nothing.
 */
static int group_ask_join(struct fabemu *fab, uint32_t id, uint32_t members)
{
    int err = fab->control ? group_ask(fab, "group_join", id, members) : 0;

    return err == -ENOENT && members == 1 ? 0 : err;
}

/* The group's place here while the fabric is asked: what comes meanwhile is kept. */
static int group_begin_join(struct fabemu *fab, uint32_t id, struct fabemu_group **ret)
{
    struct fabemu_group *g;
    int err = 0;

    nic_lock(fab);
    g = nic_group_find(fab, id);
    if (g && (g->joined || g->joining)) {
        err = nic_fail(-EALREADY, "this process is a member of group %u already", id);
    } else {
        if (!g && (g = nic_group_make(fab, id)))
            fab->early_groups++;
        if (g)
            g->joining = true;
        else
            err = -ENOMEM;
    }
    nic_unlock(fab);
    if (err == -ENOMEM) {
        group_ask_leave(fab, id); /* it has not joined, so the others are not to wait for it */
        nic_fail(err, "no memory for group %u", id);
    }
    *ret = g;
    return err;
}

static void group_end_join(struct fabemu_group *g, uint32_t members, bool joined)
{
    struct fabemu *fab = g->fab;

    nic_lock(fab);
    g->joining = false;
    if (joined) {
        fab->early_groups--;
        g->members = members;
        g->joined = true;
        nic_group_known(fab, g->id);
    } else {
        nic_group_drop_early(g);
    }
    nic_unlock(fab);
}

int fabemu_group_join(struct fabemu *fab, uint32_t id, uint32_t members, struct fabemu_group **ret)
{
    struct fabemu_group *g;
    int err;

    if (members < 1)
        return nic_fail(-EINVAL, "a group has members");
    if (nic_gone(fab))
        return nic_fail_gone();
    err = group_begin_join(fab, id, &g);
    if (err)
        return err;
    err = group_ask_join(fab, id, members);
    group_end_join(g, members, !err);
    if (!err)
        *ret = g;
    return err;
}

/* Until the fabric has answered the id is taken: what still comes for it goes to the group that it was meant for. */
void fabemu_group_leave(struct fabemu_group *g)
{
    struct fabemu *fab = g->fab;

    if (nic_gone(fab))
        return;
    if (g->members > 1)
        group_ask_leave(fab, g->id);
    nic_lock(fab);
    nic_group_leave(g);
    nic_unlock(fab);
}

int nic_group_check(const struct fabemu_group *g, const struct fabemu_req *req)
{
    if (nic_gone(g->fab))
        return nic_fail_gone();
    if (!g->fab->info.acknowledged)
        return nic_fail(-EOPNOTSUPP, "the fabric has no acknowledgments (use profile qsnet3)");
    return req ? nic_event_check(g->fab, req) : 0;
}

/* --- posting ----------------------------------------------------------------------------- */

static int coll_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_coll *c = (struct nic_coll *)(void *)post->req->opaque;
    struct fabemu_group *g = c->group;

    (void)fab;
    if (g->members == 1 && c->out && c->in && c->out != c->in)
        memcpy(c->out, c->in, c->bytes);
    if (g->broken || g->members == 1 || c->segs == 0) {
        c->status = g->broken;
        nic_coll_end(g, c);
        return 0;
    }
    nic_group_start(g, c);
    return 0;
}

int nic_coll_post(struct fabemu_group *g, struct fabemu_req *req, const struct nic_coll *init)
{
    struct nic_coll *c = (struct nic_coll *)(void *)req->opaque;

    if (nic_gone(g->fab))
        return nic_fail_gone();
    if (nic_event_check(g->fab, req))
        return -EINVAL;
    *c = *init;
    c->req = req;
    c->post.begin = coll_begin;
    c->group = g;
    c->segs = c->kind == EMU_BARRIER ? 1 : (c->bytes + c->step - 1) / c->step;
    return nic_post(g->fab, &c->post);
}

int fabemu_barrier(struct fabemu_group *group, struct fabemu_req *req)
{
    struct nic_coll c = {.kind = EMU_BARRIER, .sends = true, .awaits = true};

    return nic_coll_post(group, req, &c);
}

int fabemu_broadcast(struct fabemu_group *group, void *buf, size_t bytes, uint32_t root_node,
                     struct fabemu_req *req)
{
    bool root = root_node == group->fab->info.node;
    struct nic_coll c = {.kind = EMU_MULTICAST, .sends = root, .awaits = !root, .bytes = bytes,
                         .step = EMU_PAYLOAD_BYTES};
    int err = nic_buffer_check(buf, bytes);

    if (err)
        return err;
    if (root)
        c.in = buf;
    else
        c.out = buf;
    return nic_coll_post(group, req, &c);
}

/* @result: does this member get one? */
static int reduction_check(const void *in, const void *out, bool result, unsigned op, unsigned type,
                           size_t count)
{
    size_t size = emu_type_bytes(type);
    int err;

    if (!emu_combine_ok(op, type))
        return nic_fail(-EINVAL, "operation %u does not apply to type %u", op, type);
    if (count > SIZE_MAX / size)
        return nic_fail(-EINVAL, "so many elements do not fit memory");
    err = nic_buffer_check(in, count * size);
    return err || !result ? err : nic_buffer_check(out, count * size);
}

static uint32_t reduction_step(size_t size)
{
    return (uint32_t)(EMU_PAYLOAD_BYTES / size * size);
}

int fabemu_reduce(struct fabemu_group *group, const void *in, void *out, size_t count, unsigned op,
                  unsigned type, uint32_t root_node, struct fabemu_req *req)
{
    bool root = root_node == group->fab->info.node;
    int err = reduction_check(in, out, root, op, type, count);
    size_t size = emu_type_bytes(type);

    if (err)
        return err;

    struct nic_coll c = {.kind = EMU_REDUCE, .op = (uint8_t)op, .type = (uint8_t)type,
                         .sends = !root, .awaits = root, .bytes = count * size,
                         .step = reduction_step(size), .in = in, .out = root ? out : NULL};

    return nic_coll_post(group, req, &c);
}

int fabemu_allreduce(struct fabemu_group *group, const void *in, void *out, size_t count,
                     unsigned op, unsigned type, struct fabemu_req *req)
{
    int err = reduction_check(in, out, true, op, type, count);
    size_t size = emu_type_bytes(type);

    if (err)
        return err;

    struct nic_coll c = {.kind = EMU_ALLREDUCE, .op = (uint8_t)op, .type = (uint8_t)type,
                         .sends = true, .awaits = true, .bytes = count * size,
                         .step = reduction_step(size), .in = in, .out = out};

    return nic_coll_post(group, req, &c);
}

bool fabemu_reducible(unsigned op, unsigned type)
{
    return emu_combine_ok(op, type);
}

/* --- counts for the report ------------------------------------------------------------------ */

void fabemu_count_in_switch(struct fabemu *fab, enum fabemu_coll coll)
{
    if ((unsigned)coll < FABEMU_COLLS && !nic_gone(fab))
        atomic_fetch_add_explicit(&fab->edge.shared->stats.in_switch[coll], 1,
                                  memory_order_relaxed);
}

void fabemu_count_elsewhere(struct fabemu *fab, enum fabemu_coll coll, enum fabemu_why why)
{
    if ((unsigned)coll < FABEMU_COLLS && (unsigned)why < FABEMU_WHYS && !nic_gone(fab))
        atomic_fetch_add_explicit(&fab->edge.shared->stats.elsewhere[coll][why], 1,
                                  memory_order_relaxed);
}
