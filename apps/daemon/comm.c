/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - how programs have communicated, as JSON and as a summary of a few lines. */
#include "apps/daemon/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/control/conn.h"
#include "apps/fabric/comm.h"
#include "emu/packet/kind.h"
#include "emu/util/count.h"

#define KIND(emu_kind) ((emu_kind)-EMU_MULTICAST)
/* maximum number of lines about collectives; each line is for one kind, size and place */
#define LINES_MOST 8u
#define HEAVY_MOST 3u /* maximum number of pairs of nodes that the summary names */

/* Return the name of a kind of collective. @kind: index in struct fabric_comm. */
static const char *kind_name(uint32_t kind)
{
    return emu_kind_traits(EMU_MULTICAST + kind)->collective;
}

/* --- collectives -------------------------------------------------------------------- */

/* Return the name of the mechanism that combines contributions and copies results. */
static const char *network_name(const struct emu_profile *profile, uint32_t kind)
{
    bool adapters = !emu_profile_switches_combine(profile) && kind != KIND(EMU_MULTICAST) &&
                    !(kind == KIND(EMU_BARRIER) && emu_profile_barrier_queries(profile));

    return adapters ? "adapters" : "switches";
}

static struct json_object *times(double sum_ns, double calls, uint64_t longest_ns)
{
    struct json_object *ret = json_object_new_object();

    json_add_number(ret, "sum", comm_count_of(sum_ns));
    json_add_number(ret, "mean", calls > 0 ? comm_count_of(sum_ns / calls) : 0);
    return json_add_number(ret, "longest", longest_ns);
}

/*
 * Divide the time of all calls into wait and network time, in the ratio that was measured in the
 * sampled calls.
 */
static void add_split(struct json_object *one, const struct fabric_comm_cell *cell,
                      const struct fabric_comm_sum *sum)
{
    double all_ns = sum->wait_ns + sum->network_ns;
    double share = all_ns > 0 ? sum->wait_ns / all_ns : 0;

    json_add_number(one, "sampled", sum->calls);
    if (!sum->calls)
        return;
    json_object_object_add(one, "wait_ns",
                           times(share * (double)cell->ns, (double)cell->calls, sum->wait_most_ns));
    json_object_object_add(one, "network_ns",
                           times((1 - share) * (double)cell->ns, (double)cell->calls,
                                 sum->network_most_ns));
}

static struct json_object *cell_build(const struct fabric_comm *comm, uint32_t where, uint32_t kind,
                                      uint32_t size, const struct emu_profile *profile)
{
    const struct fabric_comm_cell *cell = &comm->cell[where][kind][size];
    struct json_object *one = json_object_new_object();
    uint64_t most = emu_comm_size_most(size);

    json_add_text(one, "kind", kind_name(kind));
    json_add_text(one, "where",
                  where == EMU_COMM_NETWORK ? network_name(profile, kind) : "elsewhere");
    json_object_object_add(one, "bytes_most",
                           most == UINT64_MAX ? NULL : json_object_new_uint64(most));
    json_add_number(one, "calls", cell->calls);
    json_add_number(one, "bytes", cell->bytes);
    json_object_object_add(one, "time_ns",
                           times((double)cell->ns, (double)cell->calls, cell->longest_ns));
    if (where == EMU_COMM_NETWORK)
        add_split(one, cell, &comm->sampled[kind][size]);
    return one;
}

static struct json_object *collectives_build(const struct fabric_comm *comm,
                                             const struct emu_profile *profile)
{
    struct json_object *all = json_object_new_array();

    for (uint32_t kind = 0; kind < EMU_COMM_KINDS; kind++)
        for (uint32_t size = 0; size < EMU_COMM_SIZES; size++)
            for (uint32_t where = 0; where < EMU_COMM_WHERES; where++)
                if (comm->cell[where][kind][size].calls)
                    json_object_array_add(all, cell_build(comm, where, kind, size, profile));
    return all;
}

/* --- messages ----------------------------------------------------------------------- */

static int heavier(const void *left, const void *right)
{
    const struct fabric_pair *a = left, *b = right;

    return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

static int by_nodes(const void *left, const void *right)
{
    const struct fabric_pair *a = left, *b = right;
    int ret = (a->from > b->from) - (a->from < b->from);

    return ret ? ret : (a->to > b->to) - (a->to < b->to);
}

struct sum {
    uint64_t pairs, messages, bytes;
};

static void sum_add(struct sum *sum, const struct fabric_pair *pair)
{
    sum->pairs++;
    emu_sum(&sum->messages, pair->messages);
    emu_sum(&sum->bytes, pair->bytes);
}

static struct json_object *sum_build(struct json_object *ret, const struct sum *sum)
{
    json_add_number(ret, "pairs", sum->pairs);
    json_add_number(ret, "messages", sum->messages);
    return json_add_number(ret, "bytes", sum->bytes);
}

static bool within_a_switch(const struct topo_graph *graph, const struct fabric_pair *pair)
{
    return pair->from != pair->to &&
           topo_first_link(graph, pair->from)->sw == topo_first_link(graph, pair->to)->sw;
}

static struct json_object *pair_build(const struct fabric_pair *pair)
{
    struct json_object *row = json_object_new_array_ext(4);

    json_object_array_add(row, json_object_new_uint64(pair->from));
    json_object_array_add(row, json_object_new_uint64(pair->to));
    json_object_array_add(row, json_object_new_uint64(pair->messages));
    json_object_array_add(row, json_object_new_uint64(pair->bytes));
    return row;
}

/* Build an object with the names of the nodes of the first @listed pairs. Its keys are numbers. */
static struct json_object *names_build(const struct fabric_comm *comm, uint32_t listed,
                                       const struct topo_graph *graph)
{
    struct json_object *ret = json_object_new_object();
    char number[16];

    for (uint32_t i = 0; i < 2 * listed; i++) {
        uint32_t node = i % 2 ? comm->pair[i / 2].to : comm->pair[i / 2].from;

        snprintf(number, sizeof number, "%u", node);
        json_add_text(ret, number, topo_node_name(graph, node));
    }
    return ret;
}

static struct json_object *messages_build(struct fabric_comm *comm, const struct topo_graph *graph)
{
    struct json_object *ret = json_object_new_object(), *matrix = json_object_new_array();
    struct sum all = {0}, near = {0}, self = {0}, left = {0};
    uint32_t listed = comm->pairs < COMM_PAIRS_MOST ? comm->pairs : COMM_PAIRS_MOST;

    for (uint32_t i = 0; i < comm->pairs; i++) {
        const struct fabric_pair *pair = &comm->pair[i];

        sum_add(&all, pair);
        if (within_a_switch(graph, pair))
            sum_add(&near, pair);
        if (pair->from == pair->to)
            sum_add(&self, pair);
    }
    if (comm->pairs)
        qsort(comm->pair, comm->pairs, sizeof *comm->pair, heavier);
    for (uint32_t i = listed; i < comm->pairs; i++)
        sum_add(&left, &comm->pair[i]);
    if (listed)
        qsort(comm->pair, listed, sizeof *comm->pair, by_nodes);
    for (uint32_t i = 0; i < listed; i++)
        json_object_array_add(matrix, pair_build(&comm->pair[i]));
    emu_sum(&left.messages, comm->more_messages);
    emu_sum(&left.bytes, comm->more_bytes);
    emu_sum(&all.messages, comm->more_messages);
    emu_sum(&all.bytes, comm->more_bytes);
    sum_build(ret, &all);
    json_object_object_add(ret, "within_switch", sum_build(json_object_new_object(), &near));
    json_object_object_add(ret, "to_itself", sum_build(json_object_new_object(), &self));
    json_object_object_add(ret, "matrix", matrix);
    if (graph->label)
        json_object_object_add(ret, "names", names_build(comm, listed, graph));
    json_object_object_add(ret, "not_listed", sum_build(json_object_new_object(), &left));
    return ret;
}

static struct json_object *memory_build(const struct fabric_comm_memory *memory)
{
    struct json_object *ret = json_object_new_object(), *last = NULL;

    json_add_number(ret, "translated", memory->translated);
    json_add_number(ret, "traps", memory->traps);
    if (memory->traps) {
        last = json_add_number(json_object_new_object(), "node", memory->node);
        json_add_number(last, "from", memory->last.from);
        json_add_number(last, "address", memory->last.address);
        json_add_number(last, "bytes", memory->last.bytes);
        json_add_text(last, "error", memory->last.error == EFAULT ? "EFAULT" : "EACCES");
    }
    json_object_object_add(ret, "last_trap", last);
    return ret;
}

/* Count the numbers in @json, and in all objects and lists in it, that are unknown sums. */
static uint64_t overflows(struct json_object *json)
{
    uint64_t count = 0;

    if (json_object_is_type(json, json_type_object)) {
        json_object_object_foreach(json, name, value)
        {
            (void)name;
            count += overflows(value);
        }
        return count;
    }
    for (size_t i = 0; i < emu_json_count(json); i++)
        count += overflows(emu_json_at(json, i));
    if (json_object_is_type(json, json_type_int))
        count += !emu_sum_is_known(json_object_get_uint64(json));
    return count;
}

struct json_object *comm_build(struct fabric *fabric, const struct fabric_config *config)
{
    struct json_object *ret;
    struct fabric_comm comm;

    if (fabric_comm_read(fabric, &comm))
        return NULL;
    ret = json_object_new_object();
    json_object_object_add(ret, "collectives", collectives_build(&comm, &config->profile));
    json_add_number(ret, "unreported", comm.unreported);
    json_object_object_add(ret, "messages", messages_build(&comm, config->graph));
    json_object_object_add(ret, "memory", memory_build(&comm.memory));
    json_add_number(ret, "overflows", overflows(ret));
    fabric_comm_free(&comm);
    return ret;
}

/* --- as text -------------------------------------------------------------------------- */

static struct json_object *member(struct json_object *object, const char *name)
{
    return json_object_object_get(object, name); /* NULL if @object is NULL */
}

static uint64_t number(struct json_object *object, const char *name)
{
    return json_object_get_uint64(member(object, name));
}

struct share_text {
    char text[16];
};

/* Return the share of @part in @of as text; "unknown": a process or a host has forged a count. */
static struct share_text share_of(uint64_t part, uint64_t of)
{
    struct share_text ret = {"unknown"};

    if (part <= of && emu_sum_is_known(of))
        snprintf(ret.text, sizeof ret.text, "%.0f %%", of ? 100.0 * (double)part / (double)of : 0);
    return ret;
}

static void print_collective(FILE *out, struct json_object *one, const struct duration_unit *unit)
{
    struct json_object *wait = member(one, "wait_ns"), *network = member(one, "network_ns");
    struct json_object *time = member(one, "time_ns");
    char size[40] = "";

    if (!member(one, "bytes_most"))
        snprintf(size, sizeof size, "more");
    else if (number(one, "bytes_most"))
        snprintf(size, sizeof size, "to %s", amount_of_bytes(number(one, "bytes_most")).text);
    fprintf(out, "    %-9s %-10s %9s %9s %9s", emu_json_text(one, "kind", "?"), size,
            amount_count(number(one, "calls")).text,
            duration_in(unit, (double)number(time, "mean")).text,
            duration_in(unit, (double)number(time, "longest")).text);
    if (wait)
        fprintf(out, " %9s %9s %5s", duration_in(unit, (double)number(wait, "mean")).text,
                duration_in(unit, (double)number(network, "mean")).text,
                share_of(number(wait, "sum"), number(time, "sum")).text);
    else
        fputs(strcmp(emu_json_text(one, "where", ""), "elsewhere") ? "   not measured"
                                                                   : "   elsewhere",
              out);
    fputc('\n', out);
}

static int longer(const void *left, const void *right)
{
    uint64_t a = number(member(*(struct json_object *const *)left, "time_ns"), "sum");
    uint64_t b = number(member(*(struct json_object *const *)right, "time_ns"), "sum");

    return (a < b) - (a > b);
}

/* Print the collectives that took the most time, summed over their members. */
static void print_collectives(FILE *out, struct json_object *all)
{
    size_t count = emu_json_count(all);
    struct json_object **row = count ? malloc(count * sizeof *row) : NULL;
    struct duration_unit unit;
    double most_ns = 0;

    if (!row)
        return;
    for (size_t i = 0; i < count; i++)
        row[i] = emu_json_at(all, i);
    qsort(row, count, sizeof *row, longer);
    for (size_t i = 0; i < count && i < LINES_MOST; i++)
        if (most_ns < (double)number(member(row[i], "time_ns"), "longest"))
            most_ns = (double)number(member(row[i], "time_ns"), "longest");
    unit = duration_unit_of(most_ns, 9);
    fprintf(out, "  calls of all ranks, in %-2s %6s %9s %9s %9s %9s %5s\n", unit.name, "count",
            "mean", "longest", "skew", "network", "skew%");
    for (size_t i = 0; i < count && i < LINES_MOST; i++)
        print_collective(out, row[i], &unit);
    if (count > LINES_MOST)
        fprintf(out, "    and %zu more kind%s and size%s\n", count - LINES_MOST,
                plural_s(count - LINES_MOST), plural_s(count - LINES_MOST));
    free(row);
}

static uint64_t of_row(struct json_object *row, size_t column)
{
    return json_object_get_uint64(emu_json_at(row, column));
}

/* Print a node's number, and its name if the network's file gives it one. */
static void print_node(FILE *out, struct json_object *names, uint64_t node)
{
    char number[24];

    snprintf(number, sizeof number, "%llu", (unsigned long long)node);
    fputs(number, out);
    if (member(names, number))
        fprintf(out, " (%s)", json_object_get_string(member(names, number)));
}

/*
 * Print the pairs of nodes between which most bytes were sent. Insert them into a short ordered
 * list, so that it is not necessary to sort all pairs.
 */
static void print_heaviest(FILE *out, struct json_object *matrix, struct json_object *names)
{
    struct json_object *heavy[HEAVY_MOST + 1] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < emu_json_count(matrix); i++) {
        struct json_object *row = emu_json_at(matrix, i);
        size_t at = count;

        for (; at && of_row(heavy[at - 1], 3) < of_row(row, 3); at--)
            heavy[at] = heavy[at - 1];
        heavy[at] = row;
        count += count < HEAVY_MOST;
    }
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "               most from node ", out);
        print_node(out, names, of_row(heavy[i], 0));
        fputs(" to ", out);
        print_node(out, names, of_row(heavy[i], 1));
        fprintf(out, " (%s)", amount_of_bytes(of_row(heavy[i], 3)).text);
    }
    fputs(count ? "\n" : "", out);
}

static void print_traps(FILE *out, struct json_object *memory)
{
    struct json_object *last = member(memory, "last_trap");
    uint64_t accesses = number(memory, "translated");

    if (!last)
        return;
    emu_sum(&accesses, number(memory, "traps"));
    fprintf(out, "  traps        %s of %s accesses to memory of other processes; the last at node ",
            amount_count(number(memory, "traps")).text, amount_count(accesses).text);
    fprintf(out, "%llu,\n               by node %llu, %s at 0x%llx: %s\n",
            (unsigned long long)number(last, "node"), (unsigned long long)number(last, "from"),
            amount_of_bytes(number(last, "bytes")).text,
            (unsigned long long)number(last, "address"),
            strcmp(emu_json_text(last, "error", ""), "EFAULT") ? "no region allows it"
                                                               : "the page is not mapped");
}

void comm_print(FILE *out, struct json_object *comm)
{
    struct json_object *messages = member(comm, "messages");
    uint64_t bytes = number(messages, "bytes");

    print_collectives(out, member(comm, "collectives"));
    print_traps(out, member(comm, "memory"));
    if (number(comm, "overflows"))
        fprintf(out,
                "  overflows    %s sums of counts do not fit in 64 bits: a process has forged a "
                "count\n",
                amount_count(number(comm, "overflows")).text);
    if (!number(messages, "messages"))
        return;
    fprintf(out, "  messages     %s of %s in all, between %s pair%s of nodes\n",
            amount_count(number(messages, "messages")).text, amount_of_bytes(bytes).text,
            amount_count(number(messages, "pairs")).text, plural_s(number(messages, "pairs")));
    fprintf(out, "               %s of the bytes within a switch\n",
            share_of(number(member(messages, "within_switch"), "bytes"), bytes).text);
    print_heaviest(out, member(messages, "matrix"), member(messages, "names"));
}
