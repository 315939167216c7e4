/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * groups.c - groups of processes: creation, joining and leaving.
 *
 * A member creates a group, for nodes that all have an attached process. Each of these processes is
 * invited, joins the group, and later leaves it. The group is freed when all members have left it
 * or lost their invitations, and no member is owed an error (see below).
 *
 * A member breaks the group if it dies or detaches before it has left, or if it declines the
 * invitation, because then no collective of the group can complete. The members that have joined
 * are notified, and leave at any time. The others lose their invitations, so their attempts to join
 * fail. Therefore no group waits for a process that does not know of it.
 *
 * Members may ask for a group by a key, so that they need not exchange its number. The first member
 * that asks creates the group, and the others get the same group. If the fabric refuses the group,
 * all members get the same error, even if its cause no longer exists when they ask. Otherwise some
 * members would wait in a group that others never join. (An error in the request itself, -EINVAL or
 * -EPERM, goes only to the caller.) For the same reason, if a group breaks before a member has
 * joined it, the member gets an error when it asks for the group. A key may be used for several
 * groups. Each member then gets the answers for these groups in the order of their creation, and
 * each error once.
 *
 * A member *is owed* an error until it has asked for the group or its process has ended. Until
 * then the group is kept, unless more than KEPT_MAX ended groups are charged to one node, their
 * *holder*. Then the fabric forgets the errors of the oldest of them. A process that was owed a
 * forgotten error may still ask for that group. It must not create the group anew, because the
 * others would never join. Therefore the fabric refuses every later request of such a process to
 * create, by a key, a group with this holder as a member. The other members get this refusal, too.
 *
 * A group is charged to the process that created it. When that process leaves, the first of the
 * remaining members is charged. No process may have more than its share of the groups
 * (ADMISSION_SHARE).
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/daemon/client.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/base/message.h"

enum member_state {
    INVITED,
    JOINED,
    GONE /* it has left, or has lost its invitation */
};

struct member {
    uint32_t node;
    enum member_state state;
    bool owed; /* it gets the group's error when it asks for the group by its key */
};

/* maximum number of ended groups that are kept, for each node to which they were charged */
#define KEPT_MAX 64u

/* The text by which all members ask for the same group, and the window that they request. */
struct group_key {
    char text[96]; /* "": the group has no key */
    bool wide;
};

/* An entry in a node's list: its process was owed errors that the fabric has forgotten. */
struct forgotten {
    struct forgotten *next;
    uint32_t holder; /* node to which the groups were charged; each holder is once in the list */
};

struct daemon_group {
    struct daemon_group *next;
    uint32_t id;
    uint32_t holder; /* node of the process to which the group is charged */
    uint32_t host;   /* host of the process that made it */
    uint32_t left;   /* members that are not GONE; the fabric's group has these members, too */
    uint32_t owed;   /* members that are owed the error */
    bool over;       /* no member is left; the group is kept for members that are owed the error */
    bool failed;     /* its members were notified that no operation can complete any more */
    uint32_t count;
    bool partitioned; /* its members were notified that they cannot reach each other */
    bool broken;      /* its members were notified that it is broken */
    int64_t over_by;  /* node of the member that broke the group; -1: none */
    struct group_key key;
    int err;   /* the error that members are owed */
    char *why; /* the text of a refusal; NULL: the group broke, or there was no memory for it */
    struct member member[];
};

static struct member *group_member(struct daemon_group *group, int64_t node)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->member[i].node == node)
            return &group->member[i];
    return NULL;
}

static struct daemon_group *find_group(const struct daemon *daemon, int64_t id)
{
    struct daemon_group *group = daemon->groups;

    while (group && (group->id != id || group->over))
        group = group->next;
    return group;
}

/*
 * Return member @node of group @id; NULL: the node is not a member (any more). *ret: the group, or
 * NULL.
 */
static struct member *find_member(struct daemon *daemon, int64_t id, int64_t node,
                                  struct daemon_group **ret)
{
    struct daemon_group *group = find_group(daemon, id);
    struct member *member;

    *ret = group;
    member = group ? group_member(group, node) : NULL;
    return member && member->state != GONE ? member : NULL;
}

/* --- charging ------------------------------------------------------------------------- */

static void group_charge(struct daemon *daemon, struct daemon_group *group, uint32_t node)
{
    group->holder = node;
    daemon->by_node[node]->groups++;
}

static void group_discharge(struct daemon *daemon, const struct daemon_group *group)
{
    daemon->by_node[group->holder]->groups--;
}

/* Charge the group to another member, because the process to which it is charged leaves. */
static void group_charge_next(struct daemon *daemon, struct daemon_group *group)
{
    uint32_t i = 0;

    group_discharge(daemon, group);
    while (group->member[i].state == GONE)
        i++;
    group_charge(daemon, group, group->member[i].node);
}

/*
 * Check for each of @nodes that the groups charged to it do not use up its share yet. Otherwise a
 * process that never leaves its groups could use up all of them.
 */
static int check_share(const struct daemon *daemon, const uint32_t *nodes, uint32_t count,
                       char *error, size_t error_bytes)
{
    uint32_t left = fabric_groups_left(daemon->fabric, nodes, count);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t held = daemon->by_node[nodes[i]]->groups;

        if (held && held >= (uint64_t)left * ADMISSION_SHARE)
            return fail(-ENOSPC, error, error_bytes,
                        "node %u holds %u group%s, and the remaining %u are reserved for others; "
                        "it must leave some",
                        nodes[i], held, plural_s(held), left);
    }
    return 0;
}

/*
 * Publish an event "group". @by: the node that caused the event; -1: none. @why: the reason, or "".
 */
static void group_publish(struct daemon *daemon, const struct daemon_group *group,
                          const char *state, int64_t by, const char *why)
{
    struct json_object *event;

    if (!daemon_has_subscribers(daemon))
        return;
    event =
        json_add_number(daemon_event(daemon, "group", daemon_now_ps(daemon)), "group", group->id);
    json_add_text(event, "state", state);
    json_add_number(event, "members", group->count);
    if (by >= 0)
        json_add_number(event, "by", (uint64_t)by);
    if (*why)
        json_add_text(event, "why", why);
    daemon_publish_from(daemon, group->host, event);
}

/* --- leaving ------------------------------------------------------------------------ */

static void member_drop(struct daemon *daemon, struct daemon_group *group, struct member *member)
{
    member->state = GONE;
    group->left--;
    fabric_group_leave(daemon->fabric, group->id, member->node);
}

static void member_owe(struct daemon_group *group, struct member *member)
{
    member->owed = true;
    group->owed++;
}

static void member_settle(struct daemon_group *group, struct member *member)
{
    if (member->owed)
        group->owed--;
    member->owed = false;
}

/* Note that an error of a group charged to @holder is forgotten. False: there is no memory. */
static bool note_forgotten(struct forgotten **list, uint32_t holder)
{
    struct forgotten *entry = *list;

    while (entry && entry->holder != holder)
        entry = entry->next;
    if (entry)
        return true;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return false;
    *entry = (struct forgotten){.next = *list, .holder = holder};
    *list = entry;
    return true;
}

static void forgotten_free(struct forgotten **list)
{
    for (struct forgotten *entry; (entry = *list);) {
        *list = entry->next;
        free(entry);
    }
}

static void group_forget(struct daemon *daemon, struct daemon_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct member *member = &group->member[i];

        if (member->owed && note_forgotten(&daemon->forgotten[member->node], group->holder))
            member_settle(group, member);
    }
}

/* If too many ended groups that were charged to @node are kept, forget the oldest one's errors. */
static void kept_limit(struct daemon *daemon, uint32_t node)
{
    struct daemon_group *oldest = NULL;
    uint32_t kept = 0;

    for (struct daemon_group *group = daemon->groups; group; group = group->next) {
        if (!group->over || !group->owed || group->holder != node)
            continue;
        oldest = group;
        kept++;
    }
    if (kept > KEPT_MAX)
        group_forget(daemon, oldest);
}

/*
 * Break the group, and end its invitations. @by: the node of the member that caused this; -1: no
 * member did, and @why is the reason.
 */
static void group_break(struct daemon *daemon, struct daemon_group *group, int64_t by,
                        const char *why)
{
    if (!group->broken && group->left)
        group_publish(daemon, group, "broken", by, why);
    group->broken = true;
    if (group->over_by < 0)
        group->over_by = by;
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->member[i].state != INVITED)
            continue;
        member_drop(daemon, group, &group->member[i]);
        if (*group->key.text)
            member_owe(group, &group->member[i]);
    }
}

static void group_free(struct daemon_group *group)
{
    free(group->why);
    free(group);
}

/* Record that the last member has left. The fabric has already freed its own group. */
static void group_end(struct daemon *daemon, struct daemon_group *group)
{
    group->over = true;
    group_publish(daemon, group, "over", -1, "");
    group_discharge(daemon, group);
    kept_limit(daemon, group->holder);
}

/* Free each group that all members have left, unless a member is still owed its error. */
static void groups_sweep(struct daemon *daemon)
{
    struct daemon_group **at = &daemon->groups;

    while (*at) {
        struct daemon_group *group = *at;

        if (!group->left && !group->over)
            group_end(daemon, group);
        if (group->left || group->owed) {
            at = &group->next;
        } else {
            *at = group->next;
            group_free(group);
        }
    }
}

/* Add @group to the lists of all its members except node @without. @lists: the lists, by node. */
static void group_list(const struct daemon_group *group, int64_t without,
                       struct json_object **lists)
{
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t node = group->member[i].node;

        if (group->member[i].state == GONE || node == without)
            continue;
        if (!lists[node])
            lists[node] = json_object_new_array();
        json_object_array_add(lists[node], json_object_new_int64(group->id));
    }
}

struct json_object **daemon_groups_quit(struct daemon *daemon, struct client *client)
{
    struct json_object **lists = calloc(daemon->graph->nodes, sizeof *lists);

    forgotten_free(&daemon->forgotten[client->node]);
    for (struct daemon_group *group = daemon->groups; group; group = group->next) {
        struct member *member = group_member(group, client->node);

        if (member)
            member_settle(group, member); /* a later process on the node is not owed an error */
        if (member && member->state != GONE) {
            if (lists)
                group_list(group, client->node, lists);
            member_drop(daemon, group, member);
            group_break(daemon, group, client->node, "");
        }
        if (group->left && group->holder == client->node)
            group_charge_next(daemon, group);
    }
    groups_sweep(daemon);
    return lists;
}

static bool group_is_partitioned(const struct daemon *daemon, const struct daemon_group *group)
{
    if (fabric_group_is_severed(daemon->fabric, group->id))
        return true;
    for (uint32_t i = 0; i < group->count; i++)
        for (uint32_t k = 0; k < group->count && group->member[i].state != GONE; k++)
            if (group->member[k].state != GONE &&
                !fabric_reaches(daemon->fabric, group->member[i].node, group->member[k].node))
                return true;
    return false;
}

struct json_object **daemon_groups_break_unreachable(struct daemon *daemon)
{
    struct json_object **lists = calloc(daemon->graph->nodes, sizeof *lists);

    for (struct daemon_group *group = daemon->groups; lists && group; group = group->next) {
        if (group->over || group->partitioned || !group_is_partitioned(daemon, group))
            continue;
        group->partitioned = true;
        group_list(group, -1, lists);
        group_break(daemon, group, -1, "two of its members cannot reach each other");
    }
    groups_sweep(daemon);
    return lists;
}

void daemon_groups_each(struct daemon *daemon,
                        void (*each)(void *context, uint32_t id, uint32_t host,
                                     const uint32_t *nodes, uint32_t count),
                        void *context)
{
    uint32_t *nodes = calloc(daemon->graph->nodes, sizeof *nodes);

    for (struct daemon_group *group = daemon->groups; nodes && group; group = group->next) {
        uint32_t count = 0;

        if (group->over)
            continue;
        for (uint32_t i = 0; i < group->count; i++)
            if (group->member[i].state != GONE)
                nodes[count++] = group->member[i].node;
        each(context, group->id, group->host, nodes, count);
    }
    free(nodes);
}

void daemon_groups_free(struct daemon *daemon)
{
    for (struct daemon_group *group; (group = daemon->groups);) {
        daemon->groups = group->next;
        group_free(group);
    }
    for (uint32_t node = 0; daemon->forgotten && node < daemon->graph->nodes; node++)
        forgotten_free(&daemon->forgotten[node]);
}

/*
 * Break the group, because a member declines its invitation: notify all other members, joined or
 * invited. The member itself gets a reply to its request.
 */
static void group_decline(struct daemon *daemon, struct daemon_group *group, struct member *member)
{
    struct json_object **lists = calloc(daemon->graph->nodes, sizeof *lists);

    if (lists)
        group_list(group, member->node, lists);
    member_drop(daemon, group, member);
    group_break(daemon, group, member->node, "");
    daemon_notify_broken(daemon, member->node, lists);
}

/*
 * Notify all members that no operation of the group can complete any more. The notification has the
 * reason @why or, if @why is "", the node @by that reported the failure. The members may leave at
 * any time.
 */
static void group_fail(struct daemon *daemon, struct daemon_group *group, const char *why,
                       int64_t by)
{
    if (group->failed)
        return;
    group->failed = true;
    for (uint32_t i = 0; i < group->count; i++) {
        struct client *client = daemon->by_node[group->member[i].node];
        struct json_object *groups, *event;

        if (group->member[i].state == GONE || !client)
            continue;
        groups = json_object_new_array();
        json_object_array_add(groups, json_object_new_int64(group->id));
        event = conn_event("groups_broken");
        json_object_object_add(event, "groups", groups);
        if (*why)
            json_add_text(event, "why", why);
        else
            json_add_number(event, "by", (uint64_t)by);
        daemon_send(daemon, client, event);
    }
    group_break(daemon, group, *why ? -1 : by, why);
}

void daemon_group_fail(struct daemon *daemon, uint32_t id, const char *why)
{
    struct daemon_group *group = find_group(daemon, id);

    if (group)
        group_fail(daemon, group, why, -1);
    groups_sweep(daemon);
}

/* --- requests ----------------------------------------------------------------------- */

/* Read the array of members in "nodes"; the caller frees it. NULL: @error has a line. */
static uint32_t *read_nodes(struct daemon *daemon, struct json_object *request, uint32_t *count,
                            char *error, size_t error_bytes)
{
    struct json_object *list;
    uint32_t nodes = daemon->graph->nodes;

    if (!json_object_object_get_ex(request, "nodes", &list) ||
        !json_object_is_type(list, json_type_array) || json_object_array_length(list) < 2 ||
        json_object_array_length(list) > nodes) {
        snprintf(error, error_bytes, "\"nodes\" must be an array of 2 to %u nodes", nodes);
        return NULL;
    }
    *count = (uint32_t)json_object_array_length(list);
    uint32_t *ret = calloc(*count, sizeof *ret);
    for (uint32_t i = 0; ret && i < *count; i++) {
        struct json_object *item = json_object_array_get_idx(list, i);
        int64_t node = json_object_is_type(item, json_type_int) ? json_object_get_int64(item) : -1;
        if (node < 0 || node >= nodes) {
            snprintf(error, error_bytes, "a member must be a node from 0 to %u", nodes - 1);
            free(ret);
            return NULL;
        }
        ret[i] = (uint32_t)node;
    }
    return ret;
}

/* Read the fields "key" (optional) and "wide". Errors: -EINVAL, with one line in @error. */
static int read_key(struct json_object *request, struct group_key *key, char *error,
                    size_t error_bytes)
{
    struct json_object *value;
    size_t bytes;

    memset(key, 0, sizeof *key);
    key->wide = json_object_object_get_ex(request, "wide", &value) &&
                json_object_get_boolean(value);
    if (!json_object_object_get_ex(request, "key", &value))
        return 0;
    bytes = json_object_is_type(value, json_type_string) ? (size_t)json_object_get_string_len(value)
                                                         : 0;
    if (!bytes || bytes >= sizeof key->text)
        return fail(-EINVAL, error, error_bytes, "\"key\" must be a text of 1 to %zu bytes",
                    sizeof key->text - 1);
    memcpy(key->text, json_object_get_string(value), bytes);
    for (size_t i = 0; i < bytes; i++)
        if (iscntrl((unsigned char)key->text[i]))
            return fail(-EINVAL, error, error_bytes, "\"key\" has a control character");
    return 0;
}

/* Check that all members are attached, so that they can join. */
static int check_members(const struct daemon *daemon, const uint32_t *nodes, uint32_t count,
                         char *error, size_t error_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct client *who = daemon->by_node[nodes[i]];

        if (!who || who->gone)
            return fail(
                -EHOSTUNREACH, error, error_bytes,
                "no process is attached to node %u; create the group when all members are attached",
                nodes[i]);
    }
    return check_share(daemon, nodes, count, error, error_bytes);
}

/* Return a new group with all members invited, which is not in the list yet; or NULL. */
static struct daemon_group *group_new(const uint32_t *nodes, uint32_t count,
                                      const struct group_key *key)
{
    struct daemon_group *group = calloc(1, sizeof *group + count * sizeof group->member[0]);

    if (!group)
        return NULL;
    group->id = TOPO_NONE;
    group->count = count;
    group->over_by = -1;
    group->key = *key;
    group->err = -EPIPE;
    for (uint32_t i = 0; i < count; i++)
        group->member[i].node = nodes[i];
    return group;
}

static void group_list_first(struct daemon *daemon, struct daemon_group *group)
{
    group->next = daemon->groups;
    daemon->groups = group;
}

static int group_make(struct daemon *daemon, const struct client *client, const uint32_t *nodes,
                      uint32_t count, const struct group_key *key, uint32_t *ret, char *error,
                      size_t error_bytes)
{
    struct daemon_group *group = group_new(nodes, count, key);
    int err = -ENOMEM;

    if (group && key->wide)
        err =
            fabric_group_create_wide(daemon->fabric, nodes, count, &group->id, error, error_bytes);
    else if (group)
        err = fabric_group_create(daemon->fabric, nodes, count, &group->id, error, error_bytes);

    if (err) {
        free(group);
        return err;
    }
    group->left = count;
    group->host = fabric_node_host(daemon->config->fabric, (uint32_t)client->node);
    group_list_first(daemon, group);
    group_charge(daemon, group, (uint32_t)client->node);
    group_publish(daemon, group, "made", -1, "");
    daemon_goal_group(daemon, group->id, nodes, count);
    *ret = group->id;
    return 0;
}

/*
 * Record that the fabric has refused a group to @client, so that all other members get the same
 * error. If there is no memory for the record, they do not get it.
 */
static void group_refuse(struct daemon *daemon, const struct client *client, const uint32_t *nodes,
                         uint32_t count, const struct group_key *key, int err, const char *why)
{
    struct daemon_group *group = group_new(nodes, count, key);

    if (!group)
        return;
    group->holder = (uint32_t)client->node;
    group->over = true;
    group->err = err;
    group->why = strdup(why);
    for (uint32_t i = 0; i < count; i++) {
        group->member[i].state = GONE;
        if (nodes[i] != group->holder)
            member_owe(group, &group->member[i]);
    }
    group_list_first(daemon, group);
    kept_limit(daemon, group->holder);
}

static bool group_matches(const struct daemon_group *group, const uint32_t *nodes, uint32_t count,
                          const struct group_key *key)
{
    if (!*key->text || strcmp(group->key.text, key->text) || group->key.wide != key->wide ||
        group->count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (group->member[i].node != nodes[i])
            return false;
    return true;
}

/*
 * Find the oldest group with this @key and these @nodes that is an answer for @client: a group that
 * has invited the client, or an error that it has not got yet. Returns the client's entry among the
 * members; NULL: there is no such group. *ret: the group.
 */
static struct member *find_answer(struct daemon *daemon, const struct client *client,
                                  const uint32_t *nodes, uint32_t count,
                                  const struct group_key *key, struct daemon_group **ret)
{
    struct member *found = NULL;

    for (struct daemon_group *group = daemon->groups; group; group = group->next) {
        struct member *member =
            group_matches(group, nodes, count, key) ? group_member(group, client->node) : NULL;

        if (!member || (member->state != INVITED && !member->owed))
            continue;
        found = member; /* the list has the newest group first */
        *ret = group;
    }
    return found;
}

/* Refuse the request if it may ask for a group whose error the fabric has forgotten. */
static int check_forgotten(const struct daemon *daemon, const struct client *client,
                           const uint32_t *nodes, uint32_t count, const struct group_key *key,
                           char *error, size_t error_bytes)
{
    const struct forgotten *entry = *key->text ? daemon->forgotten[client->node] : NULL;

    for (; entry; entry = entry->next)
        for (uint32_t i = 0; i < count; i++)
            if (nodes[i] == entry->holder)
                return fail(-ENOSPC, error, error_bytes,
                            "more than %u groups of node %u were refused or broke before the "
                            "process at node %" PRId64 " asked for them; this process can no "
                            "longer create groups with node %u by a key",
                            KEPT_MAX, entry->holder, client->node, entry->holder);
    return 0;
}

static int group_find_or_make(struct daemon *daemon, const struct client *client,
                              const uint32_t *nodes, uint32_t count, const struct group_key *key,
                              uint32_t *ret, char *error, size_t error_bytes)
{
    struct daemon_group *group;
    struct member *member = find_answer(daemon, client, nodes, count, key, &group);
    int err;

    if (member && member->owed) {
        member_settle(group, member);
        return fail(group->err, error, error_bytes, "%s",
                    group->why ? group->why : "the group broke before this process joined it");
    }
    if (member) {
        *ret = group->id;
        return 0;
    }
    err = check_forgotten(daemon, client, nodes, count, key, error, error_bytes);
    if (!err)
        err = check_members(daemon, nodes, count, error, error_bytes);
    if (!err)
        err = group_make(daemon, client, nodes, count, key, ret, error, error_bytes);
    if (err && err != -EINVAL && *key->text)
        group_refuse(daemon, client, nodes, count, key, err, error);
    return err;
}

static int create(struct daemon *daemon, const struct client *client, struct json_object *request,
                  uint32_t *ret, char *error, size_t error_bytes)
{
    struct group_key key;
    uint32_t *nodes, count = 0;
    bool member = false;
    int err = read_key(request, &key, error, error_bytes);

    if (err)
        return err;
    nodes = read_nodes(daemon, request, &count, error, error_bytes);
    if (!nodes)
        return -EINVAL;
    for (uint32_t i = 0; i < count; i++)
        member = member || nodes[i] == client->node;
    if (member)
        err = group_find_or_make(daemon, client, nodes, count, &key, ret, error, error_bytes);
    else
        err = fail(-EPERM, error, error_bytes, "only a member can create a group");
    free(nodes);
    return err;
}

void daemon_group_create(struct daemon *daemon, struct client *client, struct json_object *request)
{
    char error[256] = "out of memory";
    uint32_t group = 0;
    int err;

    if (client->node < 0) {
        daemon_reply_error(daemon, client, -ENOTCONN, "attach before you create a group");
        return;
    }
    err = create(daemon, client, request, &group, error, sizeof error);
    groups_sweep(daemon);
    if (err)
        daemon_reply_error(daemon, client, err, "%s", error);
    else
        daemon_send(daemon, client, json_add_number(conn_ok(), "group", group));
}

/* Refuse a request to join a group. @group: NULL if the group does not exist. */
static void refuse_join(struct daemon *daemon, struct client *client, int64_t id,
                        const struct daemon_group *group)
{
    if (group && group->over_by >= 0)
        daemon_reply_error(daemon, client, -ENOENT,
                           "this process cannot join group %" PRId64 ": its member on node %" PRId64
                           " left or declined before all members had joined",
                           id, group->over_by);
    else
        daemon_reply_error(daemon, client, -ENOENT,
                           "this process cannot join group %" PRId64 ": the group does not exist "
                           "or has ended; a group ends when a member leaves before all members "
                           "have joined",
                           id);
}

/*
 * Record that a process got the error of group @id when it tried to join, so that it does not get
 * the same error again when it asks by the key.
 */
static void settle_error(struct daemon *daemon, int64_t id, int64_t node)
{
    for (struct daemon_group *group = daemon->groups; group; group = group->next) {
        struct member *member = group->id == id ? group_member(group, node) : NULL;

        if (!member)
            continue;
        member_settle(group, member);
        break; /* the newest group of this id is the first; older ones have ended */
    }
    groups_sweep(daemon);
}

void daemon_group_join(struct daemon *daemon, struct client *client, struct json_object *request)
{
    int64_t id = emu_json_number(request, "group", -1), members;
    struct daemon_group *group;
    struct member *member = find_member(daemon, id, client->node, &group);

    if (!member) {
        refuse_join(daemon, client, id, group);
        settle_error(daemon, id, client->node);
        return;
    }
    members = emu_json_number(request, "members", group->count);
    if (member->state == JOINED) {
        daemon_reply_error(daemon, client, -EALREADY, "this process has joined that group already");
    } else if (members != group->count) { /* the process means another group, because its number
                                           * of members differs */
        uint32_t count = group->count;

        group_decline(daemon, group, member);
        groups_sweep(daemon); /* the group may be freed here */
        daemon_reply_error(daemon, client, -EINVAL,
                           "group %" PRId64 " has %u member%s, not %" PRId64, id, count,
                           plural_s(count), members);
    } else {
        member->state = JOINED;
        daemon_send(daemon, client, json_add_number(conn_ok(), "members", group->count));
    }
}

void daemon_group_leave(struct daemon *daemon, struct client *client, struct json_object *request)
{
    struct daemon_group *group;
    struct member *member =
        find_member(daemon, emu_json_number(request, "group", -1), client->node, &group);

    if (!member) {
        daemon_reply_error(daemon, client, -ENOENT, "this node is not a member of that group");
        return;
    }
    if (member->state == INVITED)
        group_decline(daemon, group, member);
    else
        member_drop(daemon, group, member);
    groups_sweep(daemon);
    daemon_send(daemon, client, conn_ok());
}

void daemon_group_break(struct daemon *daemon, struct client *client, struct json_object *request)
{
    struct daemon_group *group;
    struct member *member =
        find_member(daemon, emu_json_number(request, "group", -1), client->node, &group);

    if (!member || member->state != JOINED) {
        daemon_reply_error(daemon, client, -ENOENT, "this node has not joined that group");
        return;
    }
    group_fail(daemon, group, "", member->node);
    groups_sweep(daemon);
    daemon_send(daemon, client, conn_ok());
}
