/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_keys.c - keys, by which processes agree on a group without exchanging messages, and the
 * refused groups that have a key.
 *
 * Every member of a group asks the fabric for the group with the same key, the same nodes and the
 * same window. The first member that asks creates the group, and groups.c gives the others the
 * same group. If the fabric refuses, all of them must get this refusal, even if the reason for it
 * has gone meanwhile. Otherwise some would wait in a group that the others never join.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/daemon/client.h"
#include "apps/base/message.h"

/* A group that the fabric has refused. It is remembered until each of its members has asked. */
struct daemon_refused_group {
    struct daemon_refused_group *next;
    struct daemon_group_key key;
    uint32_t by; /* node of the process that asked first */
    int err;
    char why[256];
    uint32_t count;
    uint32_t left; /* members that have not asked yet */
    struct {
        uint32_t node;
        bool asked;
    } member[];
};

int daemon_group_key_read(struct json_object *request, struct daemon_group_key *key, char *error,
                          size_t error_bytes)
{
    struct json_object *wide = NULL, *text = NULL;

    memset(key, 0, sizeof *key);
    key->wide = json_object_object_get_ex(request, "wide", &wide) && json_object_get_boolean(wide);
    if (!json_object_object_get_ex(request, "key", &text))
        return 0;
    if (!json_object_is_type(text, json_type_string) || !json_object_get_string_len(text) ||
        (size_t)json_object_get_string_len(text) >= sizeof key->text)
        return fail(-EINVAL, error, error_bytes, "\"key\" must be a text of 1 to %zu bytes",
                    sizeof key->text - 1);
    snprintf(key->text, sizeof key->text, "%s", json_object_get_string(text));
    return 0;
}

bool daemon_group_key_equal(const struct daemon_group_key *a, const struct daemon_group_key *b)
{
    return *a->text && strcmp(a->text, b->text) == 0 && a->wide == b->wide;
}

static bool has_nodes(const struct daemon_refused_group *group, const uint32_t *nodes,
                      uint32_t count)
{
    for (uint32_t i = 0; i < group->count && group->count == count; i++)
        if (group->member[i].node != nodes[i])
            return false;
    return group->count == count;
}

static void refused_free(struct daemon_refused_group **at)
{
    struct daemon_refused_group *group = *at;

    *at = group->next;
    free(group);
}

/* Note that the process on @node has asked. Returns false if it had asked before. */
static bool refused_ask(struct daemon_refused_group *group, uint32_t node)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (group->member[i].node != node)
            continue;
        if (group->member[i].asked)
            return false;
        group->member[i].asked = true;
        group->left--;
        return true;
    }
    return false;
}

int daemon_group_refused(struct daemon *daemon, const struct client *client,
                         const struct daemon_group_key *key, const uint32_t *nodes, uint32_t count,
                         char *error, size_t error_bytes)
{
    for (struct daemon_refused_group **at = &daemon->refused_groups; *at; at = &(*at)->next) {
        struct daemon_refused_group *group = *at;
        int err = group->err;

        if (!daemon_group_key_equal(&group->key, key) || !has_nodes(group, nodes, count) ||
            !refused_ask(group, (uint32_t)client->node))
            continue;
        snprintf(error, error_bytes, "%s", group->why);
        if (!group->left)
            refused_free(at);
        return err;
    }
    return 0;
}

/* Forget the oldest refusal for which @node asked first if there are many of them. */
static void refused_limit(struct daemon *daemon, uint32_t node)
{
    struct daemon_refused_group **oldest = NULL;
    uint32_t held = 0;

    for (struct daemon_refused_group **at = &daemon->refused_groups; *at; at = &(*at)->next) {
        if ((*at)->by != node)
            continue;
        if (!oldest)
            oldest = at;
        held++;
    }
    if (held >= DAEMON_REFUSED_GROUPS)
        refused_free(oldest);
}

void daemon_group_refuse(struct daemon *daemon, const struct client *client,
                         const struct daemon_group_key *key, const uint32_t *nodes, uint32_t count,
                         int err, const char *why)
{
    struct daemon_refused_group *group, **at;

    if (!*key->text)
        return;
    refused_limit(daemon, (uint32_t)client->node);
    group = calloc(1, sizeof *group + count * sizeof group->member[0]);
    if (!group)
        return;
    group->key = *key;
    group->by = (uint32_t)client->node;
    group->err = err;
    snprintf(group->why, sizeof group->why, "%s", why);
    group->count = group->left = count;
    for (uint32_t i = 0; i < count; i++)
        group->member[i].node = nodes[i];
    refused_ask(group, (uint32_t)client->node);
    for (at = &daemon->refused_groups; *at;)
        at = &(*at)->next;
    *at = group; /* the newest is the last */
}

void daemon_refused_groups_forget(struct daemon *daemon, uint32_t node)
{
    struct daemon_refused_group **at = &daemon->refused_groups;

    while (*at) {
        bool member = false;

        for (uint32_t i = 0; i < (*at)->count; i++)
            member = member || (*at)->member[i].node == node;
        if (member)
            refused_free(at);
        else
            at = &(*at)->next;
    }
}

void daemon_refused_groups_free(struct daemon *daemon)
{
    while (daemon->refused_groups)
        refused_free(&daemon->refused_groups);
}
