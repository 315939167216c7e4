/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.c - the coordinator's calls to other hosts about faults. They apply faults to the hosts'
 * devices, and fetch hits, the state of cable ends, and unrecoverable drops. agent/faults.c
 * executes them.
 */
#include <stdlib.h>
#include <string.h>

#include "apps/control/conn.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "apps/cluster/coordinator/internal.h"
#include "apps/inject/inject.h"
#include "emu/util/clock.h"
#include "emu/util/count.h"
#include "emu/fault/log.h"
#include "emu/util/now.h"

static struct json_object *with_number(const char *name, uint64_t number)
{
    return json_add_number(json_object_new_object(), name, number);
}

/* A host may report only on its own devices. Otherwise any host could keep a cable out of use. */
static bool has_cable(const struct fabric *fabric, uint32_t host, uint32_t cable)
{
    return fabric_direction_host(fabric, 2 * cable, true) == host ||
           fabric_direction_host(fabric, 2 * cable, false) == host;
}

/*
 * Find list @name of a reply, which has entries of @lot elements each. Returns the length of the
 * list, rounded down to a multiple of @lot.
 */
static size_t numbers(struct json_object *reply, const char *name, size_t lot,
                      struct json_object **list)
{
    *list = json_object_object_get(reply, name);
    return emu_json_count(*list) / lot * lot;
}

/* --- faults applied --------------------------------------------------------------------- */

static int agent_call(void *ctx, const struct inject_call *call)
{
    struct json_object *with = with_number("fault", call->id);
    char text[FAULT_TEXT_BYTES];

    fault_print(call->fault, NULL, text);
    json_add_text(with, "text", text);
    json_object_object_add(with, "seed", hosts_to_hex(&call->seed, sizeof call->seed));
    json_add_number(with, "what", call->what);
    if (call->what == INJECT_ON || call->what == INJECT_WATCH)
        return coordinator_call(ctx, call->only, "fault", with, NULL, NULL);
    /* a fault that ends must end on every host, so a host that fails is lost */
    coordinator_do(ctx, call->only, "fault", with, 0);
    return 0;
}

static void agent_taken_out(void *ctx, uint32_t cable)
{
    coordinator_notify(ctx, 0, "taken_out", with_number("cable", cable));
}

static int count_compare(const void *a, const void *b)
{
    const struct coordinator_hit_count *x = a, *y = b;

    return (x->fault > y->fault) - (x->fault < y->fault);
}

/*
 * Replace the numbers of hits by those in @list, which is [FAULT,HITS,…]. Sort them by fault,
 * because a report searches them for each of up to COORDINATOR_FAULTS_MOST faults. If there is no
 * memory, or if the list is invalid, keep the earlier numbers.
 */
static void counts_take(struct coordinator_hits *hits, struct json_object *list)
{
    size_t all = json_object_is_type(list, json_type_array) ? json_object_array_length(list) / 2
                                                            : SIZE_MAX;
    struct coordinator_hit_count *count;

    if (all > COORDINATOR_FAULTS_MOST)
        return;
    count = calloc(all + 1, sizeof *count);
    if (!count)
        return;
    for (size_t i = 0; i < all; i++)
        count[i] = (struct coordinator_hit_count){.fault = hosts_number_at(list, 2 * i),
                                                  .hits = hosts_number_at(list, 2 * i + 1)};
    qsort(count, all, sizeof *count, count_compare);
    free(hits->count);
    hits->count = count;
    hits->counts = (uint32_t)all;
}

static struct coordinator_hit_count *count_find(const struct coordinator_hits *hits, uint64_t fault)
{
    const struct coordinator_hit_count key = {.fault = fault};

    return hits->counts ? bsearch(&key, hits->count, hits->counts, sizeof key, count_compare)
                        : NULL;
}

static uint64_t agent_hits(void *ctx, uint32_t id, uint64_t hosts)
{
    struct coordinator *coord = ctx;
    uint64_t sum = 0;

    for (uint32_t h = 1; h < coord->config.count; h++) {
        const struct coordinator_hits *hits = &coord->agent[h].hits;
        const struct coordinator_hit_count *found = count_find(hits, id);

        if (!(hosts >> h & 1))
            continue;
        emu_sum(&sum, id < hits->link_down_slots ? hits->link_down[id] : 0);
        emu_sum(&sum, found ? found->hits : 0);
    }
    return sum;
}

void coordinator_hits_down(struct coordinator_hits *hits, int64_t fault, int64_t count)
{
    uint32_t slots = hits->link_down_slots ? hits->link_down_slots : 16;
    uint64_t *link_down;

    if (fault <= 0 || fault > COORDINATOR_FAULTS_MOST || count <= 0)
        return;
    while (slots <= fault)
        slots *= 2;
    if (slots > hits->link_down_slots) {
        link_down = realloc(hits->link_down, slots * sizeof *link_down);
        if (!link_down)
            return; /* without memory, these hits are not counted */
        memset(link_down + hits->link_down_slots, 0,
               (slots - hits->link_down_slots) * sizeof *link_down);
        hits->link_down = link_down;
        hits->link_down_slots = slots;
    }
    emu_sum(&hits->link_down[fault], (uint64_t)count);
}

void coordinator_hits_keep(struct coordinator_hits *hits)
{
    for (uint32_t i = 0; i < hits->counts; i++)
        coordinator_hits_down(hits, (int64_t)hits->count[i].fault, (int64_t)hits->count[i].hits);
    hits->counts = 0;
    emu_sum(&hits->past_missed, hits->missed);
    hits->missed = 0;
}

/* Note the last numbers of hits of faults that the host has removed from its list. */
static void take_forgotten(void *ctx, uint32_t host, struct json_object *reply)
{
    struct coordinator *coord = ctx;
    struct coordinator_hits *hits = &coord->agent[host].hits;
    struct json_object *list;
    size_t count = numbers(reply, "hits", 2, &list);

    for (size_t i = 0; i < count && i < 2 * (size_t)COORDINATOR_FAULTS_MOST; i += 2) {
        struct coordinator_hit_count *found = count_find(hits, hosts_number_at(list, i));
        uint64_t last = hosts_number_at(list, i + 1);

        if (found)
            found->hits = last;
        else
            coordinator_hits_down(hits, json_object_get_int64(json_object_array_get_idx(list, i)),
                                  (int64_t)last);
    }
}

static void agent_forget(void *ctx, const uint32_t *ids, uint32_t count)
{
    struct json_object *with = json_object_new_object(), *faults = json_object_new_array();

    for (uint32_t i = 0; i < count; i++)
        hosts_list_add(faults, ids[i]);
    json_object_object_add(with, "faults", faults);
    coordinator_query_all(ctx, "forget", with, take_forgotten, ctx);
}

struct inject_remote coordinator_inject(struct coordinator *coord)
{
    return (struct inject_remote){.call = agent_call,
                                  .taken_out = agent_taken_out,
                                  .hits = agent_hits,
                                  .forget = agent_forget,
                                  .ctx = coord};
}

/* --- hits -------------------------------------------------------------------------------- */

struct hits_take {
    struct coordinator *coord;
    void (*each)(void *ctx, uint32_t host, const struct emu_fault_hit *hit);
    void *ctx;
    bool more[HOSTS_MAX];
};

/*
 * Return whether @host may log hits of the struct emu_faults with number @name. The first numbers
 * are those of directions of cables: the host must have an end of the cable. The next ones are
 * those of combiners (apps/fabric/links.h): the host must have the combiner.
 */
static bool has_fault(const struct fabric *fabric, uint32_t host, uint32_t name)
{
    uint32_t directions = 2 * fabric_cable_count(fabric);

    if (name < directions)
        return has_cable(fabric, host, name / 2);
    return name - directions < fabric_combiners(fabric) &&
           fabric_combiner_host(fabric, name - directions) == host;
}

/*
 * Read a hit. Returns false if no device of @host can have logged it. The bytes of bool fields are
 * checked before they are copied, because C defines only the values 0 and 1 for a bool.
 */
static bool hit_read(const struct fabric *fabric, uint32_t host, struct json_object *digits,
                     struct emu_fault_hit *hit)
{
    uint8_t bytes[sizeof *hit];

    if (hosts_from_hex(digits, bytes, sizeof bytes) != sizeof bytes ||
        bytes[offsetof(struct emu_fault_hit, link_down)] > 1 ||
        bytes[offsetof(struct emu_fault_hit, known)] > 1)
        return false;
    memcpy(hit, bytes, sizeof *hit);
    return has_fault(fabric, host, hit->cable) && hit->what <= EMU_FAULT_SEE;
}

/* Pass on the hits in a reply, with their times converted to this host's clock. */
static void take_hits(void *ctx, uint32_t host, struct json_object *reply)
{
    struct hits_take *take = ctx;
    struct coordinator_hits *hits = &take->coord->agent[host].hits;
    const struct fabric *fabric = take->coord->config.fabric;
    uint64_t here_ps = fabric_has_time(fabric) ? fabric_now_ps(fabric) : emu_now_ns() * 1000u;
    uint64_t there_ps = (uint64_t)emu_json_number(reply, "now_ps", 0);
    struct json_object *log;
    size_t count = numbers(reply, "log", 1, &log);

    counts_take(hits, json_object_object_get(reply, "hits"));
    hits->missed = (uint64_t)emu_json_number(reply, "missed", 0);
    take->more[host] = emu_json_number(reply, "more", 0) != 0;
    for (size_t i = 0; i < count && i < HOSTS_HITS_MOST; i++) {
        struct emu_fault_hit hit;

        if (!hit_read(fabric, host, json_object_array_get_idx(log, i), &hit))
            continue;
        hit.at_ps += here_ps - there_ps;
        if (hit.at_ps > here_ps) /* a later time would delay faults that begin after this hit */
            hit.at_ps = here_ps;
        take->each(take->ctx, host, &hit);
    }
}

void coordinator_hits(struct coordinator *coord, bool counts,
                      void (*each)(void *ctx, uint32_t host, const struct emu_fault_hit *hit),
                      void *ctx)
{
    struct hits_take take = {.coord = coord, .each = each, .ctx = ctx};

    coordinator_query_all(coord, "hits", with_number("counts", counts), take_hits, &take);
    for (uint32_t h = 1; h < coord->config.count; h++)
        /*
         * fetch the rest of a burst by one more call; the next call of this function fetches later
         * hits
         */
        if (take.more[h])
            coordinator_call(coord, h, "hits", with_number("counts", counts), take_hits, &take);
}

uint64_t coordinator_hits_missed(struct coordinator *coord)
{
    uint64_t missed = 0;

    for (uint32_t h = 1; h < coord->config.count; h++) {
        emu_sum(&missed, coord->agent[h].hits.missed);
        emu_sum(&missed, coord->agent[h].hits.past_missed);
    }
    return missed;
}

/* --- calls of the fabric manager --------------------------------------------------------- */

/*
 * State of the ends of a tested cable. A cable that connects two hosts is quiet only if each host
 * reports the state of its end, and has received as many entries as the other has sent.
 */
struct tested_ends {
    uint32_t count;
    struct fabric_past end[2];
};

struct test_take {
    const struct fabric *fabric;
    struct fabric_test *tests;
    struct tested_ends *ends; /* by test; NULL: there is no memory, so no cable counts as quiet */
    uint32_t count;
};

static void end_add(const struct test_take *take, uint32_t i, const struct fabric_past *past)
{
    struct tested_ends *ends = &take->ends[i];

    take->tests[i].quiet = take->tests[i].quiet && past->quiet;
    if (!past->crosses)
        return;
    if (ends->count < 2)
        ends->end[ends->count] = *past;
    ends->count++;
}

static void take_tests(void *ctx, uint32_t host, struct json_object *reply)
{
    const struct test_take *take = ctx;
    struct json_object *list;
    size_t count = numbers(reply, "tests", HOSTS_TEST, &list) / HOSTS_TEST;

    for (uint32_t i = 0; i < take->count; i++) {
        size_t at = (size_t)i * HOSTS_TEST;
        /* the result if the host's reply lacks this cable */
        struct fabric_past past = {.quiet = false};

        if (!has_cable(take->fabric, host, take->tests[i].cable))
            continue;
        if (i < count) {
            uint32_t errors = (uint32_t)hosts_number_at(list, at);

            past = (struct fabric_past){.quiet = hosts_number_at(list, at + 1),
                                        .crosses = hosts_number_at(list, at + 2),
                                        .sent = (uint32_t)hosts_number_at(list, at + 3),
                                        .arrived = (uint32_t)hosts_number_at(list, at + 4)};
            if (errors > take->tests[i].errors)
                take->tests[i].errors = errors;
        }
        end_add(take, i, &past);
    }
}

static bool ends_agree(const struct tested_ends *ends)
{
    const struct fabric_past *end = ends->end;

    return !ends->count ||
           (ends->count == 2 && end[0].sent == end[1].arrived && end[1].sent == end[0].arrived);
}

void coordinator_mirror_test(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                             uint32_t count, uint32_t packets)
{
    const struct coordinator *coord = ctx;
    struct test_take take = {.fabric = coord->config.fabric,
                             .tests = tests,
                             .ends = calloc(count, sizeof *take.ends),
                             .count = count};
    struct json_object *cables = json_object_new_array(), *with = with_number("packets", packets);

    for (uint32_t i = 0; i < count; i++) {
        json_object_array_add(cables, json_object_new_int64(tests[i].cable));
        if (take.ends)
            end_add(&take, i, &here[i]);
    }
    json_object_object_add(with, "cables", cables);
    if (take.ends)
        coordinator_query_all(ctx, "test", with, take_tests, &take);
    else
        json_object_put(with);
    for (uint32_t i = 0; i < count; i++)
        tests[i].quiet = tests[i].quiet && take.ends && ends_agree(&take.ends[i]);
    free(take.ends);
}

struct scan_take {
    const struct fabric *fabric;
    struct fabric_scan_result *seen;
};

/*
 * Return whether the sending (@sends) or else the receiving end of @direction is on @host. A host
 * may report only on its own devices.
 */
static bool has_end(const struct scan_take *take, uint32_t host, uint64_t direction, bool sends)
{
    return direction < 2 * (uint64_t)fabric_cable_count(take->fabric) &&
           fabric_direction_host(take->fabric, (uint32_t)direction, sends) == host;
}

static bool has_switch(const struct scan_take *take, uint32_t host, uint64_t sw)
{
    return sw < fabric_graph(take->fabric)->switches &&
           fabric_switch_host(fabric_config_of(take->fabric), (uint32_t)sw) == host;
}

static void take_scan(void *ctx, uint32_t host, struct json_object *reply)
{
    const struct scan_take *take = ctx;
    struct fabric_scan_result *seen = take->seen;
    struct json_object *list;
    size_t count = numbers(reply, "errors", 3, &list);

    for (size_t i = 0; i < count; i += 3) {
        uint64_t direction = hosts_number_at(list, i);

        if (!has_end(take, host, direction, false))
            continue;
        seen->packets[direction] = hosts_number_at(list, i + 1);
        seen->errors[direction] = hosts_number_at(list, i + 2);
    }
    count = numbers(reply, "ready", 3, &list);
    for (size_t i = 0; i < count; i += 3) {
        uint64_t direction = hosts_number_at(list, i);

        if (!has_end(take, host, direction, true))
            continue;
        seen->port[direction] = (struct fabric_port){.ready = true,
                                                     .sent = hosts_number_at(list, i + 1),
                                                     .idle = hosts_number_at(list, i + 2) != 0};
    }
    count = numbers(reply, "traps", 3, &list);
    for (size_t i = 0; i < count; i += 3) {
        uint64_t sw = hosts_number_at(list, i), to = hosts_number_at(list, i + 2);

        if (!has_switch(take, host, sw) || to >= fabric_graph(take->fabric)->nodes)
            continue;
        seen->trapped[sw] = hosts_number_at(list, i + 1);
        seen->trapped_to[sw] = (uint32_t)to;
    }
}

void coordinator_mirror_scan(void *ctx, struct fabric_scan_result *ret)
{
    const struct coordinator *coord = ctx;
    struct scan_take take = {.fabric = coord->config.fabric, .seen = ret};

    coordinator_query_all(ctx, "scan", json_object_new_object(), take_scan, &take);
}

static void take_rerouted(void *ctx, uint32_t host, struct json_object *reply)
{
    struct fabric_rerouted *sum = ctx;

    (void)host;
    emu_sum(&sum->segments, (uint64_t)emu_json_number(reply, "segments", 0));
    emu_sum(&sum->partitioned, (uint64_t)emu_json_number(reply, "partitioned", 0));
}

void coordinator_mirror_reroute_in_flight(void *ctx, bool reachable, bool drops,
                                          struct fabric_rerouted *sum)
{
    struct json_object *with = json_add_number(with_number("reachable", reachable), "drops", drops);

    coordinator_query_all(ctx, "reroute_in_flight", with, take_rerouted, sum);
}

void coordinator_mirror_no_link(void *ctx, uint32_t node)
{
    coordinator_notify(ctx, 0, "node_no_link", with_number("node", node));
}

/* --- unrecoverable drops ------------------------------------------------------------------ */

/* Read a drop. The byte of its bool field is checked first, as in hit_read(). */
static bool loss_read(struct json_object *digits, struct fabric_drop *loss)
{
    uint8_t bytes[sizeof *loss];

    if (hosts_from_hex(digits, bytes, sizeof bytes) != sizeof bytes ||
        bytes[offsetof(struct fabric_drop, out)] > 1)
        return false;
    memcpy(loss, bytes, sizeof *loss);
    return true;
}

static void take_drops(void *ctx, uint32_t host, struct json_object *reply)
{
    struct fabric *fabric = ctx;
    struct json_object *list;
    size_t count = numbers(reply, "unrecoverable", 1, &list);
    struct fabric_drop loss;

    for (size_t i = 0; i < count && i < HOSTS_DROPS_MOST; i++)
        if (loss_read(json_object_array_get_idx(list, i), &loss))
            fabric_drop_receive(fabric, host, &loss);
}

void coordinator_mirror_drops(void *ctx, uint64_t bound_ps)
{
    struct coordinator *coord = ctx;

    coordinator_query_all(coord, "unrecoverable",
                          with_number("bound_us", bound_ps == EMU_NEVER ? 0 : bound_ps / 1000000u),
                          take_drops, coord->config.fabric);
}

void coordinator_mirror_failed(void *ctx, uint32_t group)
{
    coordinator_notify(ctx, 0, "failed", with_number("group", group));
}

void coordinator_mirror_unit_out(void *ctx, uint32_t sw)
{
    coordinator_do(ctx, 0, "unit_out", with_number("switch", sw), 0);
}
