/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * drops.c - notifies processes of unrecoverable drops: segments that are lost for good, and groups
 * that failed because of a drop.
 */
#include "apps/daemon/faults.h"

#include <stdio.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/util/now.h"

#define CHECK_MS 100u /* longest time between two checks */

/*
 * Maximum number of lines that one check sends, summed over all processes. Further drops wait for
 * the next check, so that a fault that affects thousands of pairs does not block the daemon.
 */
#define LINES_PER_CHECK 8192u

/* A description of a process for an error message. */
struct process_text {
    char text[64 + TOPO_SHOWN_BYTES];
};

/*
 * Describe process @incarnation of a node. If it is unknown (0) or still attached, the text is the
 * name of the node and the suffix @s, which is "'s" or "".
 */
static struct process_text process_text_of(const struct daemon *daemon, uint32_t node,
                                           uint64_t incarnation, const char *s)
{
    const struct client *client = daemon->by_node[node];
    char shown[TOPO_SHOWN_BYTES];
    struct process_text process;

    topo_show_node(daemon->graph, node, shown);
    if (!incarnation || (client && client->incarnation == incarnation))
        snprintf(process.text, sizeof process.text, "%s%s", shown, s);
    else
        snprintf(process.text, sizeof process.text, "process %llu of %s (has left)",
                 (unsigned long long)incarnation, shown);
    return process;
}

/* Write the reason, which programs show to users. @of: sender and receiver of a lost segment. */
static void why_text(struct daemon *daemon, const struct fabric_drop *drop, const char *of,
                     char *text, size_t bytes)
{
    char cable[DAEMON_CABLE_BYTES], sw[TOPO_SHOWN_BYTES] = "";

    if (drop->what >= FABRIC_UNIT_DAMAGED && drop->what != FABRIC_LEFT_GAVE_UP)
        topo_show_switch(daemon->graph, drop->sw, sw);
    switch (drop->what) {
    case FABRIC_LOST_SEGMENT:
    case FABRIC_LOST_OF_GROUP:
        snprintf(text, bytes, "%s lost a segment of %s (overrun)",
                 daemon_cable_name(daemon->fabric, drop->cable, drop->out ? "->" : "<-", cable),
                 of);
        break;
    case FABRIC_UNIT_DAMAGED:
        snprintf(text, bytes, "the combine unit of %s found a parity error in a partial result",
                 sw);
        break;
    case FABRIC_UNIT_GAVE_UP:
        snprintf(text, bytes, "the combine unit of %s gave up a packet that it had sent", sw);
        break;
    case FABRIC_LEFT_GAVE_UP:
        snprintf(text, bytes, "a packet that %s sent before it detached was given up",
                 process_text_of(daemon, drop->from, drop->from_incarnation, "").text);
        break;
    case FABRIC_UNIT_STUCK:
    case FABRIC_UNIT_OUT:
    case FABRIC_UNIT_BACK:
        snprintf(text, bytes, "the combine unit of %s was stuck and was taken out of service", sw);
        break;
    }
}

/* Add the sender and the receiver of a segment: nodes and, if known, processes' incarnations. */
static struct json_object *pair_add(struct json_object *event, const struct fabric_drop *drop)
{
    json_add_number(json_add_number(event, "from", drop->from), "to", drop->to);
    if (drop->from_incarnation)
        json_add_number(event, "from_incarnation", drop->from_incarnation);
    if (drop->to_incarnation)
        json_add_number(event, "to_incarnation", drop->to_incarnation);
    return event;
}

/*
 * Notify all processes of a lost segment, not only its sender and receiver, because other processes
 * may wait for one of these.
 */
static void segment_notify(struct daemon *daemon, const struct fabric_drop *drop, const char *why)
{
    for (uint32_t node = 0; node < daemon->graph->nodes; node++) {
        struct client *client = daemon->by_node[node];
        struct json_object *event;

        if (!client)
            continue;
        event = pair_add(conn_event("lost"), drop);
        json_add_number(event, "at_ns", drop->found_ns);
        json_add_text(event, "why", why);
        daemon_send(daemon, client, event);
    }
}

static void drop_notify(struct daemon *daemon, struct daemon_drops *drops,
                        const struct fabric_drop *drop, struct json_object *event)
{
    char of[2 * sizeof(struct process_text) + 8] = "the group", why[640];

    if (drop->what == FABRIC_LOST_SEGMENT)
        snprintf(of, sizeof of, "%s to %s",
                 process_text_of(daemon, drop->from, drop->from_incarnation, "'s").text,
                 process_text_of(daemon, drop->to, drop->to_incarnation, "").text);
    why_text(daemon, drop, of, why, sizeof why);
    if (drop->what == FABRIC_LOST_SEGMENT) {
        drops->pairs++;
        drops->more += drop->more;
        json_add_number(pair_add(event, drop), "more", drop->more);
        segment_notify(daemon, drop, why);
    } else {
        drops->groups++;
        json_add_number(event, "group", drop->group);
        daemon_group_fail(daemon, drop->group, why);
    }
    daemon_publish_from(daemon, fabric_drop_host(daemon->fabric, drop),
                        json_add_text(event, "why", why));
}

static void drop_take(struct daemon *daemon, struct daemon_drops *drops,
                      const struct fabric_drop *drop, uint64_t at_ps)
{
    bool unit = drop->what == FABRIC_UNIT_OUT || drop->what == FABRIC_UNIT_BACK;
    struct json_object *event = daemon_event(daemon, unit ? "unit" : "lost", at_ps);

    if (!unit) {
        drop_notify(daemon, drops, drop, event);
        return;
    }
    drops->out += drop->what == FABRIC_UNIT_OUT;
    drops->back += drop->what == FABRIC_UNIT_BACK;
    drops->moved += drop->moved;
    json_add_switch(event, daemon->graph, drop->sw);
    json_add_text(event, "state", drop->what == FABRIC_UNIT_OUT ? "out of service" : "in service");
    json_add_number(event, "groups_moved", drop->moved);
    daemon_publish_from(daemon, fabric_drop_host(daemon->fabric, drop), event);
}

void daemon_drops_step(struct daemon *daemon, struct daemon_drops *drops, uint64_t now_ps)
{
    uint64_t bound_ns = emu_bound_ns(daemon->config->fabric->bounds.unit_ms);
    uint64_t gap_ns = CHECK_MS * UINT64_C(1000000);
    /* maximum number of lines that one drop causes */
    uint32_t lines = fabric_attached(daemon->fabric) + 1;
    struct fabric_drop drop;

    if (now_ps < drops->scan_ps)
        return;
    fabric_drops_find(daemon->fabric, now_ps,
                      bound_ns == EMU_BOUND_OFF ? EMU_NEVER : bound_ns * 1000u);
    for (uint32_t reported = 0;
         reported < LINES_PER_CHECK && fabric_drop_take(daemon->fabric, &drop); reported += lines)
        drop_take(daemon, drops, &drop, now_ps);
    if (bound_ns / 4 < gap_ns)
        gap_ns = bound_ns / 4;
    drops->scan_ps = now_ps + gap_ns * 1000u;
}

void daemon_drops_report(const struct daemon *daemon, const struct daemon_drops *drops,
                         struct json_object *report)
{
    struct json_object *reported = json_object_new_object();
    struct fabric_totals totals;

    fabric_totals_read(daemon->fabric, &totals);
    json_add_number(reported, "units_out", drops->out);
    json_add_number(reported, "units_back", drops->back);
    json_add_number(reported, "groups_moved", drops->moved);
    json_add_number(reported, "groups_failed", drops->groups);
    json_add_number(reported, "pairs_reported", drops->pairs);
    json_add_number(reported, "pairs_not_reported", drops->more);
    json_add_number(reported, "unreported", fabric_drops_left(daemon->fabric));
    if (daemon->coordinator)
        json_add_number(reported, "refused", fabric_drops_refused(daemon->fabric));
    json_add_number(reported, "states_damaged", totals.states_damaged);
    json_add_number(reported, "overruns", totals.dropped_overrun);
    json_object_object_add(report, "unrecoverable", reported);
}
