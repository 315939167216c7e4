/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c - compute the workers, buffers and memory that a configuration needs, and check whether
 * the fabric can be built.
 */
#include <errno.h>
#include <sys/resource.h>

#include "apps/base/amount.h"
#include "apps/fabric/fabric.h"
#include "apps/fabric/internal.h"
#include "apps/base/message.h"
#include "emu/retry/replay.h"
#include "emu/dev/outbox.h"
#include "emu/dev/affinity.h"

#define FABRIC_AUTO_WORKERS_MAX 8u
#define FABRIC_WINDOW_SWITCHES  16u        /* clock virtual: fewest switches per worker */
#define FABRIC_LOCAL_BUFS       (1u << 20) /* buffers for payload of nodes inside the fabric */

/* Limits for raw_slots(). */
#define RAW_RINGS_BYTES   ((uint64_t)1 << 22) /* rings of all cables */
#define RAW_SEGMENTS_MOST 65535u              /* segments that a switch can hold */
#define RAW_SLOTS_LEAST   4u                  /* slots of a crosspoint */

/*
 * Return the number of workers that suits the cores of this host. A quarter of the cores is for
 * workers, and the others are for the processes that use the fabric. If the sources of the traffic
 * are in the fabric, all cores are for workers. But then each worker needs enough switches, so that
 * its work in a window of simulated time takes longer than the barrier at the window's end.
 */
static uint32_t auto_workers(const struct fabric_config *config)
{
    uint32_t cores = emu_affinity_cores();
    uint32_t most = fabric_own_switches(config);
    uint32_t workers = cores / 4;

    if (config->clock == EMU_CLOCK_VIRTUAL && config->local_nodes) {
        workers = cores;
        most /= FABRIC_WINDOW_SWITCHES;
    }
    if (workers > most)
        workers = most;
    if (workers > FABRIC_AUTO_WORKERS_MAX)
        workers = FABRIC_AUTO_WORKERS_MAX;
    return workers ? workers : 1;
}

uint32_t fabric_worker_count(const struct fabric_config *config)
{
    uint32_t switches = fabric_own_switches(config);

    if (config->threads == FABRIC_THREADS_AUTO)
        return auto_workers(config);
    if (config->threads == FABRIC_THREADS_DEVICE || config->threads > switches)
        return switches;
    return config->threads;
}

uint64_t fabric_bufs(const struct fabric_config *config, uint32_t workers)
{
    const struct topo_graph *graph = config->graph;
    uint32_t switches = fabric_own_switches(config);
    uint64_t bufs = (uint64_t)(workers + 1) * (3 * EMU_POOL_CHAIN + EMU_POOL_LATE);

    /* entries on cables to other hosts, and in the host links at both ends of these cables */
    bufs += (uint64_t)fabric_crossings(config, TOPO_NONE) * 2 * fabric_crossing_segments(config);
    for (uint32_t n = 0; fabric_has_engines(config) && n < graph->nodes; n++)
        if (fabric_has_node(config, n))
            bufs += engine_bufs(graph->node[n].links, &config->profile);
    if (fabric_has_units(config))
        bufs += (uint64_t)switches * engine_bufs(1, &config->profile);
    if (emu_profile_retries(&config->profile)) /* replay buffers */
        bufs += (uint64_t)switches * graph->ports *
                emu_retry_window(emu_profile_credits(&config->profile));
    if (config->local_nodes) /* nothing else limits the buffers of nodes inside the fabric */
        return bufs + FABRIC_LOCAL_BUFS;
    return bufs +
           (uint64_t)switches * switch_segments(fabric_switch_ports(config), &config->profile) +
           (uint64_t)fabric_own_nodes(config) * EMU_HOSTIF_BATCH;
}

/* Return the profile adapted to the clock. On clock raw a crosspoint then has @slots slots. */
static struct emu_profile profile_raw(const struct fabric_config *config, uint32_t slots)
{
    struct emu_profile profile = config->profile;

    profile.raw_xpoint_slots = slots;
    return emu_profile_on(&profile, config->clock);
}

/*
 * Return the number of slots of a crosspoint on clock raw, which is also the number of credits of a
 * cable. With more slots fewer segments wait for a credit. This makes uniform traffic 1.3 times as
 * fast, as long as the rings of all cables fit into a processor's inner caches. With link-level
 * retry a cable has more rings, so fewer slots are used. Large switches also get fewer slots,
 * because the number of their crosspoints is the square of the number of their ports.
 */
static uint32_t raw_slots(const struct fabric_config *config)
{
    const struct topo_graph *graph = config->graph;
    uint64_t slot_bytes = (uint64_t)graph->switches * graph->ports * sizeof(struct emu_entry);
    uint32_t slots = emu_profile_retries(&config->profile) ? EMU_RAW_SLOTS : EMU_XPOINT_MAX;

    for (; slots > RAW_SLOTS_LEAST; slots /= 2) {
        struct emu_profile profile = profile_raw(config, slots);

        if (switch_segments(fabric_switch_ports(config), &profile) <= RAW_SEGMENTS_MOST &&
            (slots <= EMU_RAW_SLOTS || slots * slot_bytes <= RAW_RINGS_BYTES))
            break;
    }
    return slots;
}

struct emu_profile fabric_profile_on(const struct fabric_config *config)
{
    uint32_t slots = config->profile.raw_xpoint_slots;

    return profile_raw(config, slots ? slots : raw_slots(config));
}

/* Return the memory of all outboxes (emu/dev/outbox.h): at most one per direction of a cable. */
static uint64_t outbox_bytes(const struct topo_graph *graph)
{
    uint64_t directions = 0;

    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t p = 0; p < graph->ports; p++)
            directions += graph->sw[s].end[p].kind == TOPO_END_SWITCH;
    return directions * EMU_OUTBOX_BYTES;
}

void fabric_bytes(const struct fabric_config *config, struct fabric_bytes *ret)
{
    const struct topo_graph *graph = config->graph;
    struct emu_profile profile = fabric_profile_on(config);
    /* bytes per buffer, without the payload */
    uint64_t buf = sizeof(uint16_t) + 2 * sizeof(uint32_t);
    uint64_t nodes = graph->nodes * (sizeof(struct emu_hostif *) + sizeof(struct engine *));

    ret->per_switch = switch_bytes(fabric_switch_ports(config), &profile) +
                      sizeof(struct switch_dev *) + sizeof(uint32_t) * 2;
    if (fabric_has_units(config))
        ret->per_switch += engine_bytes(1, &profile);
    for (uint32_t n = 0; fabric_has_engines(config) && n < graph->nodes; n++)
        if (fabric_has_node(config, n))
            nodes += engine_bytes(graph->node[n].links, &profile);
    ret->per_attached_node = sizeof(struct emu_hostif) + emu_hostif_bytes(graph->nodes);
    ret->total = fabric_own_switches(config) * ret->per_switch + graph->bytes + nodes +
                 sizeof(struct fabric) + FABRIC_GROUPS_MAX * sizeof(struct fabric_group *) +
                 fabric_worker_count(config) * (sizeof(struct emu_worker) + EMU_POOL_CHAIN * buf);
    if (config->clock == EMU_CLOCK_VIRTUAL && fabric_worker_count(config) > 1)
        ret->total += outbox_bytes(graph);
    ret->per_idle_node = ret->total / graph->nodes;
}

static int check_links(const struct fabric_config *config, char *error, size_t error_bytes)
{
    for (uint32_t n = 0; n < config->graph->nodes; n++) {
        const struct topo_node *node = &config->graph->node[n];
        uint32_t cut = 0;

        for (uint32_t i = 0; i < node->links; i++)
            cut += node->link[i].sw == TOPO_NONE;
        if (cut == node->links)
            return fail(-EINVAL, error, error_bytes, "node %u has no link into the network", n);
        if (node->links > 1 && !fabric_has_engines(config))
            return fail(-EINVAL, error, error_bytes,
                        "node %u has %u links into the network; without acknowledgments an adapter "
                        "has one: use transport=acknowledged (profile qsnet3), or a network with "
                        "links=1 and rails=1",
                        n, node->links);
    }
    return 0;
}

/* Check that the limit on file sizes permits host interfaces, which are files in memory. */
static int check_files(const struct fabric_config *config, char *error, size_t error_bytes)
{
    size_t hostif_bytes = emu_hostif_bytes(config->graph->nodes);
    struct rlimit most;

    if (config->local_nodes || getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur >= hostif_bytes)
        return 0;
    return fail(-EFBIG, error, error_bytes,
                "the limit on file sizes is %llu bytes here, and the host interface of a process "
                "needs %zu: raise it (ulimit -f)",
                (unsigned long long)most.rlim_cur, hostif_bytes);
}

static int check_clock(const struct fabric_config *config, const struct emu_profile *profile,
                       char *error, size_t error_bytes)
{
    if (config->clock == EMU_CLOCK_VIRTUAL && !emu_profile_lookahead_ps(profile))
        return fail(-EINVAL, error, error_bytes,
                    "clock virtual needs credit_ps, and channel_ps + switch_ps, above 0");
    if (config->clock == EMU_CLOCK_VIRTUAL && !config->local_nodes && !profile->nic_send_ps)
        return fail(-EINVAL, error, error_bytes,
                    "processes in simulated time need nic_send_ps above 0");
    if (!switch_has_clock(profile, config->clock != EMU_CLOCK_RAW))
        return fail(-EINVAL, error, error_bytes,
                    "buffers=input has an arbiter that works in time slots, and clock raw has no "
                    "time: use real or virtual, or buffers=xpoint");
    return 0;
}

static int check_switches(const struct fabric_config *config, const struct emu_profile *profile,
                          char *error, size_t error_bytes)
{
    uint32_t ports = fabric_switch_ports(config);
    uint32_t segments = switch_segments(ports, profile);

    if (ports + profile->combine_units > SWITCH_ROWS_MAX || segments > SWITCH_SEGMENTS_MAX)
        return fail(-EINVAL, error, error_bytes,
                    "a switch of %u ports and %u combine unit%s would hold %u segments; the limits "
                    "are %u ports and units together, and %u segments: lower combine_units, "
                    "xpoint_slots, raw_xpoint_slots or input_slots",
                    config->graph->ports, profile->combine_units, plural_s(profile->combine_units),
                    segments, SWITCH_ROWS_MAX, SWITCH_SEGMENTS_MAX);
    return 0;
}

static int check_engines(const struct fabric_config *config, char *error, size_t error_bytes)
{
    if (!fabric_has_engines(config))
        return 0;
    if (fabric_engine_numbers(config) > ENGINE_NODES_MAX)
        return fail(-EINVAL, error, error_bytes,
                    "with transport=acknowledged a network can have at most %u nodes; with "
                    "combining=switch this is the limit of nodes and switches together",
                    ENGINE_NODES_MAX);
    if (fabric_has_units(config) && fabric_switch_ports(config) > TOPO_PORTS_MAX)
        return fail(-EINVAL, error, error_bytes,
                    "combining=switch takes a port of each switch: a switch can have %u other "
                    "ports, and in this network it has %u",
                    TOPO_PORTS_MAX - 1, config->graph->ports);
    return 0;
}

/* Check that host interfaces, if there are any, can have as many credits as the profile says. */
static int check_credits(const struct fabric_config *config, const struct emu_profile *profile,
                         char *error, size_t error_bytes)
{
    if (config->local_nodes || emu_profile_credits(profile) <= EMU_XPOINT_MAX)
        return 0;
    return fail(-EINVAL, error, error_bytes,
                "input_slots=%u is for networks without processes; with processes it can be 1 "
                "to %u",
                profile->input_slots, EMU_XPOINT_MAX);
}

static int check_hosts(const struct fabric_config *config, char *error, size_t error_bytes)
{
    const struct fabric_hosts *hosts = config->hosts;

    if (!hosts)
        return 0;
    if (hosts->count > TOPO_HOSTS_MAX || hosts->self >= hosts->count)
        return fail(-EINVAL, error, error_bytes,
                    "host %u of %u is not possible: hosts are counted from 0, and the limit is %d",
                    hosts->self, hosts->count, TOPO_HOSTS_MAX);
    for (uint32_t s = 0; s < config->graph->switches; s++)
        if (hosts->of[s] >= hosts->count)
            return fail(-EINVAL, error, error_bytes,
                        "switch %u is on host %u, but there are only %u hosts", s, hosts->of[s],
                        hosts->count);
    if (!fabric_own_switches(config))
        return fail(-EINVAL, error, error_bytes, "host %u has no switch", hosts->self);
    if (!hosts->ops && fabric_crossings(config, TOPO_NONE))
        return fail(-EINVAL, error, error_bytes, "cables to other hosts need host links");
    if (config->clock == EMU_CLOCK_VIRTUAL && hosts->count > 1 && !config->local_nodes)
        return fail(-EINVAL, error, error_bytes,
                    "programs in simulated time need a fabric on one host");
    if (config->clock == EMU_CLOCK_VIRTUAL && hosts->count > 1 &&
        (!hosts->ops || !hosts->ops->agree))
        return fail(-EINVAL, error, error_bytes,
                    "simulated time on several hosts needs host links that agree on it");
    return 0;
}

int fabric_check_config(const struct fabric_config *config, char *error, size_t error_bytes)
{
    struct emu_profile profile = fabric_profile_on(config);
    int err = check_links(config, error, error_bytes);

    if (!err)
        err = check_hosts(config, error, error_bytes);
    if (!err)
        err = check_files(config, error, error_bytes);
    if (!err)
        err = check_clock(config, &profile, error, error_bytes);
    if (!err)
        err = check_switches(config, &profile, error, error_bytes);
    if (!err)
        err = check_engines(config, error, error_bytes);
    if (!err)
        err = check_credits(config, &profile, error, error_bytes);
    return err;
}
