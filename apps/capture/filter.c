/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filter.c - see filter.h.
 *
 * A filter is a list of terms KEY=VALUE. Terms that select cables, nodes and segments have the same
 * syntax in a fault (docs/faults.md), so the parser of faults parses them.
 */
#include "apps/capture/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/fault/fault.h"
#include "apps/base/message.h"
#include "emu/util/nearest.h"

#define DIRECTIONS_BOTH (FABRIC_CAPTURE_OUT | FABRIC_CAPTURE_IN)

static_assert(CAPTURE_ERROR_BYTES > FAULT_ERROR_BYTES + 200,
              "an error text has a term and the error of a fault");

enum term { TERM_LINKS, TERM_NODES, TERM_SEGMENTS, TERM_DIRECTION, TERM_WHAT, TERM_UNKNOWN };

/* The state of parsing a filter. */
struct reading {
    const struct fabric *fabric;
    const struct topo_graph *graph;
    uint8_t *directions_of;
    bool has_cables;                  /* at least one term selects cables */
    unsigned directions;              /* bits DIRECTION_DOWN and DIRECTION_UP; 0: both directions */
    unsigned what;                    /* record types of "what=" (1 << emu_tap_what); 0: absent */
    char aim[CAPTURE_TEXT_BYTES + 1]; /* the terms that select segments, each after a space */
    char *error;
    size_t error_bytes;
};

enum { DIRECTION_DOWN = 1, DIRECTION_UP = 2 };

/* --- cables ------------------------------------------------------------------------- */

/* Select the cable at a port. @direction: as seen from the port. */
static void add_cable(struct reading *r, uint32_t sw, uint32_t port, enum fault_direction direction)
{
    uint32_t i = fabric_cable_at(r->fabric, sw, port);
    const struct fabric_cable *cable;
    bool first;

    if (i == TOPO_NONE)
        return;
    cable = fabric_cable(r->fabric, i);
    first = cable->at.sw == sw && cable->at.port == port;
    if (direction == FAULT_BOTH)
        r->directions_of[i] = DIRECTIONS_BOTH;
    else
        r->directions_of[i] |= (direction == FAULT_OUT) == first ? FABRIC_CAPTURE_OUT
                                                                 : FABRIC_CAPTURE_IN;
}

/*
 * Report that @what cannot be captured: traffic is captured at the sending end, which is on another
 * host.
 */
static int fail_elsewhere(struct reading *r, const char *term, const char *what)
{
    return fail(-EXDEV, r->error, r->error_bytes,
                "%.40s: %s is sent on another host, and a capture has only traffic that this host "
                "sends; \"link=S:P>\" selects the traffic that switch S sends at port P",
                term, what);
}

/*
 * Check that this host can capture a cable that @term selects by name. "link=" needs a sender on
 * this host for each selected direction. "switch=" needs one only for the direction that leaves the
 * switch. "level=" needs none: it captures only traffic that this host sends.
 */
static int cable_is_here(struct reading *r, const char *term, const struct fault_target *target)
{
    uint32_t i = fabric_cable_at(r->fabric, target->id, target->port);
    bool link = strncmp(term, "link=", 5) == 0, first;
    const struct fabric_cable *cable;
    char name[48];

    if (i == TOPO_NONE || strncmp(term, "level=", 6) == 0)
        return 0;
    cable = fabric_cable(r->fabric, i);
    first = cable->at.sw == target->id && cable->at.port == target->port;
    for (int back = 0; back <= link; back++) { /* directions: from the port, and to the port */
        bool out = first != back, selected = target->direction != (back ? FAULT_OUT : FAULT_IN);

        if (!selected || fabric_cable_ends_here(r->fabric, i, !out))
            continue;
        fabric_direction_name(r->fabric, i, out, name);
        return fail_elsewhere(r, term, name);
    }
    return 0;
}

static int node_is_here(struct reading *r, const char *term, uint32_t node)
{
    char name[32];

    if (fabric_node_is_here(r->fabric, node))
        return 0;
    snprintf(name, sizeof name, "traffic of node %u", node);
    return fail_elsewhere(r, term, name);
}

static void add_node(struct reading *r, uint32_t node)
{
    for (uint32_t l = 0; l < r->graph->node[node].links; l++) {
        const struct topo_link *link = &r->graph->node[node].link[l];

        if (link->sw != TOPO_NONE)
            add_cable(r, link->sw, link->port, FAULT_BOTH);
    }
}

/* Remove the kind of fault from the start of the error text, because the user has not given it. */
static int without_kind(struct reading *r, const char *kind, int err)
{
    size_t length = strlen(kind);

    if (strncmp(r->error, kind, length) == 0 && r->error[length] == ':')
        memmove(r->error, r->error + length + 2, strlen(r->error + length + 2) + 1);
    return err;
}

/* Select the cables or nodes in @term, which is parsed as the target of a fault of @kind. */
static int read_target(struct reading *r, const char *kind, const char *term)
{
    char text[CAPTURE_TEXT_BYTES + 16];
    struct fault_targets targets;
    struct fault fault;
    int err;

    snprintf(text, sizeof text, "%s %s", kind, term);
    err = fault_parse(&fault, text, r->graph, r->error, r->error_bytes);
    if (!err)
        err = fault_targets_find(&targets, &fault, r->graph, 0, r->error, r->error_bytes);
    if (err)
        return without_kind(r, kind, err);
    for (uint32_t i = 0; i < targets.count && !err; i++) {
        const struct fault_target *target = &targets.target[i];
        bool node = fault_domain(fault.kind) == FAULT_OF_NODES;

        err = node ? node_is_here(r, term, target->id) : cable_is_here(r, term, target);
        if (node)
            add_node(r, target->id);
        else
            add_cable(r, target->id, target->port, target->direction);
    }
    fault_targets_release(&targets);
    r->has_cables = true;
    return err;
}

/* --- other terms -------------------------------------------------------------------- */

static int read_direction(struct reading *r, const char *value)
{
    if (strcmp(value, "up") == 0)
        r->directions |= DIRECTION_UP;
    else if (strcmp(value, "down") == 0)
        r->directions |= DIRECTION_DOWN;
    else
        return fail(-EINVAL, r->error, r->error_bytes,
                    "direction=%.40s: it must be up (away from the nodes) or down", value);
    return 0;
}

static int read_what(struct reading *r, const char *value)
{
    static const struct {
        const char *name;
        unsigned what;
    } names[] = {{"segments", 1u << EMU_TAP_SEGMENT | 1u << EMU_TAP_PACKET},
                 {"replies", 1u << EMU_TAP_REPLY},
                 {"credits", 1u << EMU_TAP_CREDITS},
                 {"answers", 1u << EMU_TAP_ANSWER}};
    static const char right[] = "segments, replies, credits or answers";

    for (;;) {
        size_t length = strcspn(value, ","), i = 0;

        while (i < 4 && (strlen(names[i].name) != length || memcmp(names[i].name, value, length)))
            i++;
        if (i == 4)
            return fail(-EINVAL, r->error, r->error_bytes,
                        "what=%.40s: it must be %s, or several: segments,credits%s", value, right,
                        nearest_in(value, right).text);
        r->what |= names[i].what;
        if (!value[length])
            return 0;
        value += length + 1;
    }
}

static enum term term_of(const char *term, size_t length)
{
    static const struct {
        const char *key;
        enum term term;
    } keys[] = {{"link", TERM_LINKS},      {"switch", TERM_LINKS},        {"level", TERM_LINKS},
                {"node", TERM_NODES},      {"nodes", TERM_NODES},         {"kind", TERM_SEGMENTS},
                {"from", TERM_SEGMENTS},   {"to", TERM_SEGMENTS},         {"group", TERM_SEGMENTS},
                {"packet", TERM_SEGMENTS}, {"direction", TERM_DIRECTION}, {"what", TERM_WHAT}};

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i].key) == length && memcmp(keys[i].key, term, length) == 0)
            return keys[i].term;
    return TERM_UNKNOWN;
}

static int read_term(struct reading *r, const char *term)
{
    static const char terms[] =
        "link, switch, level, node, nodes, direction, what, kind, packet, from, to and group";
    size_t length = strcspn(term, "=");
    const char *value = term[length] ? term + length + 1 : "";
    size_t used = strlen(r->aim);

    switch (term_of(term, length)) {
    case TERM_LINKS:
        if (strcmp(term, "level=nodes") != 0)
            return read_target(r, "link-down", term);
        for (uint32_t n = 0; n < r->graph->nodes; n++)
            add_node(r, n);
        r->has_cables = true;
        return 0;
    case TERM_NODES:
        return read_target(r, "node-freeze", term);
    case TERM_SEGMENTS:
        snprintf(r->aim + used, sizeof r->aim - used, " %s", term);
        return 0;
    case TERM_DIRECTION:
        return read_direction(r, value);
    case TERM_WHAT:
        return read_what(r, value);
    default:
        return fail(-EINVAL, r->error, r->error_bytes,
                    "%.40s: the terms of a capture's filter are %s: docs/capture.md%s", term, terms,
                    nearest_in(term, terms).text);
    }
}

/* --- the whole filter --------------------------------------------------------------- */

static void keep_directions(struct reading *r)
{
    for (uint32_t i = 0; r->directions && i < fabric_cable_count(r->fabric); i++) {
        const struct fabric_cable *cable = fabric_cable(r->fabric, i);
        bool out_is_up = cable->kind == TOPO_END_SWITCH &&
                         r->graph->sw[cable->peer.sw].level > r->graph->sw[cable->at.sw].level;
        uint8_t up = out_is_up ? FABRIC_CAPTURE_OUT : FABRIC_CAPTURE_IN;
        uint8_t keep = (uint8_t)((r->directions & DIRECTION_UP ? up : 0) |
                                 (r->directions & DIRECTION_DOWN ? DIRECTIONS_BOTH ^ up : 0));

        r->directions_of[i] &= keep;
    }
}

/* Check that the profile has packets if "packet=" selects some. */
static int check_packets(struct reading *r)
{
    const struct emu_profile *profile = &fabric_config_of(r->fabric)->profile;

    if (emu_profile_has_packets(profile) || !strstr(r->aim, " packet="))
        return 0;
    return fail(-EINVAL, r->error, r->error_bytes,
                "packet=: profile %s does not acknowledge packets; leave packet out",
                profile->name);
}

/* Check that the selected segments cross cables. */
static int check_kinds(struct reading *r, const struct emu_fault_aim *aim)
{
    if (aim->kinds != 1u << EMU_SET)
        return 0;
    return fail(-EINVAL, r->error, r->error_bytes,
                "kind=set: a set goes to the node's own adapter and crosses no cable; use another "
                "kind");
}

/*
 * Fill in the filter that workers apply to each record. Records that have no segment, such as
 * credits, are captured if "what=" selects them, or if the filter has neither "what=" nor a term
 * that selects segments.
 */
static int finish(struct reading *r, struct emu_tap_filter *tap)
{
    char text[CAPTURE_TEXT_BYTES + 32];
    struct fault fault;
    int err;

    snprintf(text, sizeof text, "loss link=any%s", r->aim);
    err = fault_parse(&fault, text, r->graph, r->error, r->error_bytes);
    if (err)
        return err;
    tap->aim = fault.rule.aim;
    err = check_kinds(r, &tap->aim);
    if (!err)
        err = check_packets(r);
    if (err)
        return err;
    tap->what = r->what;
    if (!tap->what)
        tap->what = *r->aim ? 1u << EMU_TAP_SEGMENT | 1u << EMU_TAP_PACKET : ~0u;
    if (!r->what && tap->aim.packets != EMU_FAULT_ENTRIES &&
        tap->aim.packets & (EMU_FAULT_ACK | EMU_FAULT_NACK))
        tap->what |= 1u << EMU_TAP_REPLY; /* selected by packet=ack or packet=nack */
    if (!r->has_cables)
        memset(r->directions_of, DIRECTIONS_BOTH, fabric_cable_count(r->fabric));
    keep_directions(r);
    return 0;
}

int capture_filter_read(struct capture_filter *ret, const char *text, uint32_t snap_bytes,
                        const struct fabric *fabric, const struct topo_graph *graph, char *error,
                        size_t error_bytes)
{
    struct reading r = {.fabric = fabric,
                        .graph = graph,
                        .error = error,
                        .error_bytes = error_bytes};
    char copy[CAPTURE_TEXT_BYTES], *rest = copy;
    int err = 0;

    if (strlen(text) >= sizeof copy)
        return fail(-EINVAL, error, error_bytes, "a capture's filter has at most %u characters",
                    CAPTURE_TEXT_BYTES - 1);
    r.directions_of = calloc(fabric_cable_count(fabric) + 1u, 1);
    if (!r.directions_of)
        return fail(-ENOMEM, error, error_bytes, "out of memory");
    memcpy(copy, text, strlen(text) + 1);
    for (char *term; !err && (term = strsep(&rest, " \t\n"));)
        err = *term ? read_term(&r, term) : 0;
    if (!err)
        err = finish(&r, &ret->tap);
    if (err) {
        free(r.directions_of);
        return err;
    }
    ret->directions_of = r.directions_of;
    ret->tap.snap_bytes = snap_bytes;
    return 0;
}

void capture_filter_release(struct capture_filter *filter)
{
    free(filter->directions_of);
    filter->directions_of = NULL;
}
