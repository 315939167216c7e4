/* SPDX-License-Identifier: BSD-3-Clause */
/* member.c - the calls that create, join and leave a group */
#include "nic/fabemu.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "emu/util/json.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/control/control.h"
#include "nic/host/group/group.h"
#include "nic/host/rx/queue.h"

/* Ask the fabric for a group, and store its id in *@id. @key: of fabemu_group_open(), or NULL. */
static int group_create(struct fabemu *fab, const char *key, const uint32_t *nodes, uint32_t count,
                        bool wide, uint32_t *id)
{
    struct json_object *ask, *list, *reply;
    int64_t group;
    int err;

    if (count < 2)
        return nic_fail(-EINVAL, "a group has 2 members or more");
    if (!fab->control || nic_is_defunct(fab))
        return nic_fail_defunct();
    ask = json_object_new_object();
    list = json_object_new_array();
    for (uint32_t i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int64(nodes[i]));
    json_object_object_add(ask, "cmd", json_object_new_string("group_create"));
    json_object_object_add(ask, "nodes", list);
    if (wide)
        json_object_object_add(ask, "wide", json_object_new_boolean(true));
    if (key)
        json_object_object_add(ask, "key", json_object_new_string(key));
    err = nic_control_request(fab->control, ask, &reply);
    if (err)
        return err;
    group = emu_json_number(reply, "group", -1);
    if (group >= 0 && group <= UINT32_MAX)
        *id = (uint32_t)group;
    else
        err = nic_fail(-EPROTO, "the fabric's reply names no group");
    json_object_put(reply);
    return err;
}

int fabemu_group_create(struct fabemu *fab, const uint32_t *nodes, uint32_t count, uint32_t *id)
{
    return group_create(fab, NULL, nodes, count, false, id);
}

/*
 * Notify the fabric that this process joins, leaves or breaks a group, and wait for the reply.
 * @members: number of members, if this process joins; else 0.
 */
static int group_request(struct fabemu *fab, const char *command, uint32_t id, uint32_t members)
{
    struct json_object *ask = json_object_new_object(), *reply;
    int err;

    json_object_object_add(ask, "cmd", json_object_new_string(command));
    json_object_object_add(ask, "group", json_object_new_int64(id));
    if (members)
        json_object_object_add(ask, "members", json_object_new_int64(members));
    err = nic_control_request(fab->control, ask, &reply);
    if (!err)
        json_object_put(reply);
    return err;
}

static void group_request_leave(struct fabemu *fab, uint32_t id)
{
    if (fab->control)
        group_request(fab, "group_leave", id, 0);
}

void nic_group_request_break(const struct fabemu_group *g)
{
    if (g->fab->control)
        group_request(g->fab, "group_break", g->id, 0);
}

/*
 * Ask the fabric whether this process may join. If @members is wrong, the fabric breaks the group,
 * as if this process had declined to join. The fabric does not know groups of one member: for
 * these, -ENOENT means success.
 */
static int group_request_join(struct fabemu *fab, uint32_t id, uint32_t members)
{
    int err = fab->control ? group_request(fab, "group_join", id, members) : 0;

    return err == -ENOENT && members == 1 ? 0 : err;
}

/* Enter the group into the table before asking the fabric, so that early segments are kept. */
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
        /* this process has not joined: stop the other members from waiting for it */
        group_request_leave(fab, id);
        nic_fail(err, "there is no memory for group %u", id);
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
        nic_group_forget_broken(fab, g->id);
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
        return nic_fail(-EINVAL, "a group has at least one member");
    if (nic_is_defunct(fab))
        return nic_fail_defunct();
    err = group_begin_join(fab, id, &g);
    if (err)
        return err;
    err = group_request_join(fab, id, members);
    group_end_join(g, members, !err);
    if (!err)
        *ret = g;
    return err;
}

int fabemu_group_open(struct fabemu *fab, const char *key, const uint32_t *nodes, uint32_t count,
                      bool wide, struct fabemu_group **ret)
{
    uint32_t id;
    int err;

    if (!key || !*key || strlen(key) > FABEMU_GROUP_KEY)
        return nic_fail(-EINVAL, "a key of a group has 1 to %u bytes", FABEMU_GROUP_KEY);
    err = group_create(fab, key, nodes, count, wide, &id);
    if (err)
        return err;
    err = fabemu_group_join(fab, id, count, ret);
    return err == -ENOENT ? -EPIPE : err;
}

void fabemu_group_name(struct fabemu_group *g, const char *name)
{
    if (nic_is_defunct(g->fab))
        return;
    nic_lock(g->fab);
    snprintf(g->name, sizeof g->name, "%s", name);
    nic_unlock(g->fab);
}

void fabemu_group_queue(struct fabemu_group *g, struct fabemu_queue *queue)
{
    if (nic_is_defunct(g->fab))
        return;
    nic_lock(g->fab);
    queue->group = g;
    if (g->broken)
        nic_queue_break(queue);
    nic_unlock(g->fab);
}

/*
 * Return whether our alarm (break.h) has not reached all members. It cannot be sent any more after
 * this process has left the group.
 */
static bool group_owes_alarm(struct fabemu_group *g)
{
    bool owes;

    nic_lock(g->fab);
    owes = g->broken && g->alarm != NIC_ALARM_NONE;
    nic_unlock(g->fab);
    return owes;
}

/*
 * The group stays in the table until the fabric has replied, so that late segments for the id go to
 * the group for which they were sent.
 */
void fabemu_group_leave(struct fabemu_group *g)
{
    struct fabemu *fab = g->fab;

    if (nic_is_defunct(fab))
        return;
    if (g->members > 1 && group_owes_alarm(g))
        nic_group_request_break(g); /* let the fabric notify the other members instead */
    if (g->members > 1)
        group_request_leave(fab, g->id);
    nic_lock(fab);
    nic_group_leave(g);
    nic_unlock(fab);
}
