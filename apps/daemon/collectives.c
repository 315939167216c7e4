/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collectives.c - lists the collectives for which processes wait. For each, it lists the members
 * that have entered, the members that are missing, and the members that have called another
 * operation instead.
 *
 * A group numbers its collectives; all members use the same numbers. For each group, the list has
 * the oldest collective for which a member waits. If the members that have entered it report
 * different operations, the list names the most frequent one. A member whose current number is
 * lower has not entered this collective; a member whose number is higher has completed it. If the
 * network has a record of a member's contribution, the record takes precedence over the member's
 * report.
 *
 * An *absent* member is stopped or silent, and its last report may be outdated. Therefore its wait
 * counts only if no other member waits, and if some contribution is certainly missing.
 */
#include <stdlib.h>

#include "apps/daemon/standstill.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fabric/stalls.h"
#include "emu/buffer/combiner.h"
#include "emu/packet/kind.h"
#include "emu/util/combine.h"
#include "nic/fabemu.h"

static_assert(FABEMU_COLLS == EMU_HOSTIF_COLLS,
              "emu_pending_check() accepts exactly the calls that have a name here");

#define GAPS_MAX        16u /* maximum number of partial results in the list, for each collective */
#define COLLECTIVES_MAX 16u /* maximum number of collectives in the list */

/* --- description of a collective ------------------------------------------------------ */

static const char *const op_names[EMU_OPS] = {
    [EMU_SUM] = "sum",          [EMU_MIN] = "minimum",      [EMU_MAX] = "maximum",
    [EMU_PROD] = "product",     [EMU_LAND] = "logical and", [EMU_LOR] = "logical or",
    [EMU_LXOR] = "logical xor", [EMU_BAND] = "bitwise and", [EMU_BOR] = "bitwise or",
    [EMU_BXOR] = "bitwise xor", [EMU_MINLOC] = "minloc",    [EMU_MAXLOC] = "maxloc",
};

static const char *const type_names[EMU_TYPES] = {
    [EMU_I8] = "int8",
    [EMU_U8] = "uint8",
    [EMU_I16] = "int16",
    [EMU_U16] = "uint16",
    [EMU_I32] = "int32",
    [EMU_U32] = "uint32",
    [EMU_I64] = "int64",
    [EMU_U64] = "uint64",
    [EMU_F32] = "float",
    [EMU_F64] = "double",
    [EMU_F32_I32] = "float-int",
    [EMU_F64_I32] = "double-int",
    [EMU_I64_I32] = "long-int",
    [EMU_I32_I32] = "2 int",
    [EMU_I16_I32] = "short-int",
    [EMU_F128_I32] = "long double-int",
    [EMU_F32_F32] = "2 float",
    [EMU_F64_F64] = "2 double",
    [EMU_F128] = "long double",
    [EMU_F32_COMPLEX] = "float complex",
    [EMU_F64_COMPLEX] = "double complex",
    [EMU_F128_COMPLEX] = "long double complex",
    [EMU_I128] = "int128",
    [EMU_U128] = "uint128",
};

/*
 * names of the MPI collectives that the network executes as other collectives; NULL: the network
 * executes this one directly
 */
static const char *const call_names[FABEMU_COLLS] = {
    [FABEMU_COLL_ALLGATHER] = "all-gather",
    [FABEMU_COLL_REDUCE_SCATTER] = "reduce-scatter",
    [FABEMU_COLL_GATHER] = "gather",
    [FABEMU_COLL_SCATTER] = "scatter",
    [FABEMU_COLL_SCAN] = "scan",
    [FABEMU_COLL_ALLTOALL] = "all-to-all",
};

const char *standstill_kind(uint8_t kind)
{
    return kind == EMU_UNICAST ? "" : emu_kind_traits(kind)->spoken;
}

void standstill_what(struct json_object *to, const struct emu_pending_what *what)
{
    if (what->call && call_names[what->call - 1])
        json_add_text(to, "call", call_names[what->call - 1]);
    json_add_text(to, "kind", standstill_kind(what->kind));
    if (what->kind != EMU_BARRIER)
        json_add_number(to, "bytes", what->bytes);
    if (emu_kind_traits(what->kind)->has_op) {
        json_add_text(to, "operation", op_names[what->op]);
        json_add_text(to, "type", type_names[what->type]);
    }
    if (what->root != EMU_PENDING_ANY)
        json_add_number(to, "root", what->root);
}

static bool same_what(const struct emu_pending_what *a, const struct emu_pending_what *b)
{
    return a->kind == b->kind && a->op == b->op && a->type == b->type && a->bytes == b->bytes &&
           a->root == b->root && a->call == b->call;
}

/* Return the report of the client's process on group @id; NULL: there is none. */
static const struct emu_pending_group *reported_group(const struct client *client, uint32_t id)
{
    const struct emu_pending *pending = client && client->sample ? &client->sample->pending : NULL;

    for (uint32_t g = 0; pending && g < pending->groups; g++)
        if (pending->group[g].id == id)
            return &pending->group[g];
    return NULL;
}

/* --- comparison of a group's members --------------------------------------------------- */

struct member_view {
    uint32_t node;
    const struct emu_pending_group *report; /* its report on this group; NULL: none */
    const struct fabric_contribution *part; /* the network's record of its contribution; NULL:
                                             * none */
    bool absent;                            /* as in struct standstill_sample */
};

/* A group, its members, and the oldest collective for which a member waits. */
struct group_view {
    uint32_t id, count;
    struct member_view *member;
    const struct emu_pending_group *waits; /* a member's report of that collective */
    bool is_awaited; /* a member that is not absent waits for the collective */
    /* two contributions that do not match, found by a switch; NULL: none */
    const struct emu_mismatch *mismatch;
    uint64_t now_ns;
};

static bool is_in(const struct member_view *member, const struct emu_pending_group *it)
{
    return member->report && member->report->since_ns && member->report->number == it->number;
}

/*
 * Return the oldest collective for which one of the absent members waits or, if @absent is false,
 * one of the other members. NULL: none waits.
 */
static const struct emu_pending_group *oldest_of(const struct group_view *group, bool absent)
{
    const struct emu_pending_group *oldest = NULL;

    for (uint32_t i = 0; i < group->count; i++) {
        const struct emu_pending_group *report = group->member[i].report;

        if (report && report->since_ns && group->member[i].absent == absent &&
            standstill_age(group->now_ns, report->since_ns) >= STANDSTILL_AGE_NS &&
            (!oldest || report->number < oldest->number))
            oldest = report;
    }
    return oldest;
}

/*
 * Find the oldest collective for which a member waits. If its members describe it differently, use
 * the most frequent description. Returns false if no member waits.
 */
static bool group_find(struct group_view *group)
{
    uint32_t most = 0;

    group->waits = oldest_of(group, false);
    group->is_awaited = group->waits;
    if (!group->waits)
        group->waits = oldest_of(group, true);
    for (uint32_t i = 0; group->waits && i < group->count; i++) {
        const struct emu_pending_group *report = group->member[i].report;
        uint32_t alike = 0;

        if (!is_in(&group->member[i], group->waits))
            continue;
        for (uint32_t j = 0; j < group->count; j++)
            alike += is_in(&group->member[j], group->waits) &&
                     same_what(&group->member[j].report->what, &report->what);
        if (alike > most) {
            most = alike;
            group->waits = report;
        }
    }
    return group->waits != NULL;
}

static uint64_t group_age(const struct group_view *group)
{
    uint64_t age_ns = 0;

    for (uint32_t i = 0; i < group->count; i++)
        if (is_in(&group->member[i], group->waits)) {
            uint64_t its_ns = standstill_age(group->now_ns, group->member[i].report->since_ns);

            age_ns = its_ns > age_ns ? its_ns : age_ns;
        }
    return age_ns;
}

/* Return whether a switch or an adapter combines a contribution of this member. */
static bool contributes(const struct group_view *group, const struct member_view *member)
{
    const struct emu_pending_what *what = &group->waits->what;
    const struct emu_kind_traits *kind = emu_kind_traits(what->kind);

    if (!kind->folds)
        return false;
    return kind->root != EMU_ROOT_RECEIVES || what->root != member->node;
}

static bool has_entered(const struct group_view *group, const struct member_view *member)
{
    return member->report && member->report->begun >= group->waits->number;
}

/*
 * Return whether the member has entered the collective and its contribution has arrived. After a
 * mismatch, a switch drops later contributions. Then it is enough that the member has entered.
 */
static bool has_contributed(const struct group_view *group, const struct member_view *member)
{
    if (!contributes(group, member) || !member->part || !member->part->known || group->mismatch)
        return has_entered(group, member);
    return member->part->arrived;
}

static void add_port(struct json_object *to, const struct topo_graph *graph,
                     const struct fabric_contribution *part)
{
    if (!part || !part->known)
        return;
    if (part->sw == TOPO_NONE) {
        json_object_object_add(to, "adapter", json_object_new_boolean(true));
        return;
    }
    json_add_switch(to, graph, part->sw);
    json_add_number(to, "port", topo_switch_port(graph, part->sw, part->port));
}

static struct json_object *missing_build(const struct topo_graph *graph,
                                         const struct group_view *group,
                                         const struct member_view *member)
{
    struct json_object *one = json_add_node(json_object_new_object(), graph, member->node);

    if (member->report)
        json_add_number(one, "begun", member->report->begun);
    json_object_object_add(one, "entered", json_object_new_boolean(has_entered(group, member)));
    if (contributes(group, member))
        add_port(one, graph, member->part);
    return one;
}

static struct json_object *mismatch_side(const struct daemon *daemon, const struct emu_hdr *hdr)
{
    struct emu_pending_what what = {.bytes = hdr->len,
                                    .root = EMU_PENDING_ANY,
                                    .kind = hdr->kind,
                                    .op = hdr->op,
                                    .type = hdr->type};
    struct json_object *one = json_object_new_object();

    if (hdr->src < daemon->graph->nodes)
        json_add_number(one, "node", hdr->src);
    if (hdr->kind < EMU_KINDS &&
        (!emu_kind_traits(hdr->kind)->has_op || emu_combine_ok(hdr->op, hdr->type)))
        standstill_what(one, &what);
    return one;
}

static void add_mismatch(const struct daemon *daemon, const struct emu_mismatch *mismatch,
                         struct json_object *to)
{
    struct json_object *list;

    if (!mismatch)
        return;
    list = json_object_new_array();
    json_object_array_add(list, mismatch_side(daemon, &mismatch->first));
    json_object_array_add(list, mismatch_side(daemon, &mismatch->other));
    json_object_object_add(to, "mismatch", list);
}

/* Add the names of both hosts if a partial result is on its way from one host to another. */
static void add_crossing(const struct daemon *daemon, const struct fabric_gap *gap,
                         struct json_object *to)
{
    const struct coordinator_config *hosts = daemon->config->hosts;
    uint32_t from = fabric_switch_host(daemon->config->fabric, gap->from);
    uint32_t at = fabric_switch_host(daemon->config->fabric, gap->sw);

    if (!hosts || from == at)
        return;
    json_add_text(to, "from_host", hosts->name[from]);
    json_add_text(to, "host", hosts->name[at]);
}

/* Add the partial results that are on the way between two switches. Returns their number. */
static uint32_t add_gaps(const struct daemon *daemon, const struct group_view *group,
                         struct json_object *to)
{
    struct fabric_gap gap[GAPS_MAX];
    uint32_t count = fabric_gaps(daemon->fabric, group->id, group->waits->seq, gap, GAPS_MAX);
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < count && i < GAPS_MAX; i++) {
        struct json_object *one = json_add_number(json_object_new_object(), "from", gap[i].from);

        json_add_switch(one, daemon->graph, gap[i].sw);
        json_add_number(one, "port", topo_switch_port(daemon->graph, gap[i].sw, gap[i].port));
        json_object_array_add(list, one);
        add_crossing(daemon, &gap[i], one);
    }
    json_object_object_add(to, "gaps", list);
    return count;
}

/*
 * Return whether the member has certainly not entered. An absent member may have entered after its
 * last report, so for such a member only the network's record counts.
 */
static bool is_surely_missing(const struct group_view *group, const struct member_view *member)
{
    return !member->absent || (contributes(group, member) && member->part && member->part->known);
}

/*
 * Add the collective, unless only absent members wait for it and no contribution is certainly
 * missing. Returns whether it was added.
 */
static bool collective_add(const struct daemon *daemon, const struct group_view *group,
                           struct json_object *list)
{
    struct json_object *ret = json_add_number(json_object_new_object(), "group", group->id);
    struct json_object *arrived = json_object_new_array(), *missing = json_object_new_array();
    struct json_object *differ = json_object_new_array();
    uint32_t gaps, lacks = 0;

    json_add_text(ret, "name", group->waits->name);
    json_add_number(ret, "number", group->waits->number);
    standstill_what(ret, &group->waits->what);
    json_add_number(ret, "for_ns", group_age(group));
    json_add_number(ret, "members", group->count);
    for (uint32_t i = 0; i < group->count; i++) {
        const struct member_view *member = &group->member[i];

        if (is_in(member, group->waits) && !same_what(&member->report->what, &group->waits->what)) {
            struct json_object *one = json_object_new_object();

            json_add_number(one, "node", member->node);
            standstill_what(one, &member->report->what);
            json_object_array_add(differ, one);
            lacks++;
        } else if (has_contributed(group, member)) {
            json_object_array_add(arrived, json_object_new_int64(member->node));
        } else {
            json_object_array_add(missing, missing_build(daemon->graph, group, member));
            lacks += is_surely_missing(group, member);
        }
    }
    json_object_object_add(ret, "arrived", arrived);
    json_object_object_add(ret, "missing", missing);
    json_object_object_add(ret, "differ", differ);
    gaps = add_gaps(daemon, group, ret);
    add_mismatch(daemon, group->mismatch, ret);
    if (group->is_awaited || gaps || lacks) {
        json_object_array_add(list, ret);
        return true;
    }
    json_object_put(ret);
    return false;
}

struct collectives {
    struct daemon *daemon;
    struct json_object *list;
    uint64_t now_ns;
    uint32_t count; /* space used: by listed collectives, and by unlisted ones of other hosts */
    uint32_t count_of[HOSTS_MAX]; /* by host: those for groups that its processes made */
};

static void parts_find(const struct daemon *daemon, struct group_view *group,
                       struct fabric_contribution *part)
{
    uint32_t count =
        fabric_contributions(daemon->fabric, group->id, group->waits->seq, part, group->count);

    for (uint32_t i = 0; i < group->count; i++)
        for (uint32_t p = 0; p < count && !group->member[i].part; p++)
            if (part[p].node == group->member[i].node)
                group->member[i].part = &part[p];
}

/*
 * Examine the oldest collective of a group that a process of @host has made. This needs calls to
 * all hosts. So a collective of a host other than the coordinator uses space even if it is not
 * listed. Otherwise a host could have any number of them examined, and each standstill report would
 * take longer.
 */
static void collective_examine(void *context, uint32_t id, uint32_t host, const uint32_t *nodes,
                               uint32_t count)
{
    struct collectives *all = context;
    struct group_view group = {.id = id, .count = count, .now_ns = all->now_ns};
    struct fabric_contribution *part = calloc(count, sizeof *part);

    group.member = calloc(count, sizeof *group.member);
    if (part && group.member &&
        fabric_host_has_space(COLLECTIVES_MAX - all->count, host, all->count_of[host])) {
        for (uint32_t i = 0; i < count; i++) {
            const struct client *client = all->daemon->by_node[nodes[i]];

            group.member[i].node = nodes[i];
            group.member[i].report = reported_group(client, id);
            group.member[i].absent = client && client->sample && client->sample->absent;
        }
        if (group_find(&group)) {
            parts_find(all->daemon, &group, part);
            group.mismatch = fabric_mismatch(all->daemon->fabric, id);
            if (collective_add(all->daemon, &group, all->list) || host) {
                all->count++;
                all->count_of[host]++;
            }
        }
    }
    free(group.member);
    free(part);
}

struct json_object *standstill_collectives(struct daemon *daemon, uint64_t now_ns)
{
    struct collectives all = {.daemon = daemon, .list = json_object_new_array(), .now_ns = now_ns};

    daemon_groups_each(daemon, collective_examine, &all);
    return all.list;
}
