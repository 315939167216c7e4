/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * numbers.c - converts data between hosts to lists of numbers or to hexadecimal digits, and back:
 * counters, bytes, sets of ports, and the communication of processes. It also computes the limits
 * of the lines that contain these.
 */
#include "apps/cluster/channel.h"

#include <stdlib.h>

#include "apps/fabric/comm.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"
#include "emu/hostif/pending.h"
#include "emu/util/count.h"

/* --- limits of a line ------------------------------------------------------------------- */

#define DIGITS      21u /* bytes of a number in a list, with its comma */
#define FIXED_BYTES ((size_t)5 << 20)

size_t hosts_line_most(const struct fabric *fabric)
{
    const struct topo_graph *graph = fabric_graph(fabric);
    size_t devices = (size_t)graph->nodes + graph->switches;
    size_t numbers = 17 * (size_t)fabric_cable_count(fabric) + (3 + HOSTS_TREE_NUMBERS) * devices;
    /* the pending operations of all processes, with two digits per byte */
    size_t pending = 2 * (size_t)graph->nodes * sizeof(struct emu_pending);
    size_t most = FIXED_BYTES + DIGITS * numbers +
                  (pending < HOSTS_BLOCKS_MOST ? pending : HOSTS_BLOCKS_MOST);

    return most < CONN_REPLY_MAX ? most : CONN_REPLY_MAX;
}

void hosts_limit(struct conn *conn, const struct fabric *fabric, size_t containers_max)
{
    conn->line_max = hosts_line_most(fabric);
    conn->containers_max = containers_max;
}

/* --- counters --------------------------------------------------------------------------- */

struct json_object *hosts_totals_list(const struct fabric_totals *totals)
{
    const uint64_t *counter = (const uint64_t *)(const void *)totals;
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        hosts_list_add(list, counter[i]);
    json_object_array_add(list, json_object_new_double(totals->real_time_factor));
    hosts_list_add(list, totals->worst_lag_ns);
    return list;
}

void hosts_totals_add(struct fabric_totals *sum, struct json_object *list)
{
    uint64_t *counter = (uint64_t *)(void *)sum;
    double factor;
    uint64_t lag_ns;

    if (!json_object_is_type(list, json_type_array) ||
        json_object_array_length(list) != FABRIC_COUNTERS + 2)
        return;
    for (size_t i = 0; i < FABRIC_COUNTERS; i++)
        emu_sum(&counter[i], hosts_number_at(list, i));
    factor = json_object_get_double(json_object_array_get_idx(list, FABRIC_COUNTERS));
    lag_ns = json_object_get_uint64(json_object_array_get_idx(list, FABRIC_COUNTERS + 1));
    /* The sum has the factor of the slowest host. A host may send NaN, or a number below 0. */
    if (factor >= 0 && factor < sum->real_time_factor)
        sum->real_time_factor = factor;
    if (lag_ns > sum->worst_lag_ns)
        sum->worst_lag_ns = lag_ns;
}

/* --- bytes as digits ------------------------------------------------------------------ */

static void digits_add(char *to, const void *from, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = from;

    for (size_t i = 0; i < bytes; i++) {
        to[2 * i] = digits[at[i] >> 4];
        to[2 * i + 1] = digits[at[i] & 15];
    }
}

struct json_object *hosts_to_hex(const void *from, size_t bytes)
{
    char *text = malloc(2 * bytes + 1);
    struct json_object *ret = NULL;

    if (text) {
        digits_add(text, from, bytes);
        ret = json_object_new_string_len(text, (int)(2 * bytes));
    }
    free(text);
    return ret;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t hosts_from_hex(struct json_object *digits, void *to, size_t most)
{
    const char *text = json_object_get_string(digits);
    size_t bytes = json_object_is_type(digits, json_type_string)
                       ? (size_t)json_object_get_string_len(digits) / 2
                       : 0;
    uint8_t *at = to;

    if (bytes > most)
        return 0;
    for (size_t i = 0; i < bytes; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return 0;
        at[i] = (uint8_t)(high << 4 | low);
    }
    return bytes;
}

/* --- sets of ports -------------------------------------------------------------------- */

void hosts_ports_add(struct json_object *list, emu_ports set)
{
    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++)
        hosts_list_add(list, emu_ports_word(set, w));
}

bool hosts_ports_read(emu_ports *ret, struct json_object *list, size_t at, uint32_t ports)
{
    *ret = EMU_NO_PORTS;
    for (uint32_t w = 0; w < EMU_PORT_WORDS; w++) {
        struct json_object *word = emu_json_at(list, at + w);

        if (!json_object_is_type(word, json_type_int))
            return false;
        emu_ports_word_set(ret, w, json_object_get_uint64(word));
    }
    return !emu_ports_any(*ret & ~emu_ports_below(ports));
}

/* --- the communication of processes ------------------------------------------------ */

#define OF_PAIR   4u /* numbers per pair: from, to, messages, bytes */
#define CELLS     (EMU_COMM_WHERES * EMU_COMM_KINDS * EMU_COMM_SIZES)
#define COMM_SUMS (EMU_COMM_KINDS * EMU_COMM_SIZES)

/*
 * One number of a *cell*, a structure of counters in struct fabric_comm. The numbers of a cell are
 * sent in the order of the tables below.
 */
struct number {
    size_t offset;
    /* how to combine the numbers of two hosts; ADDED_REAL: a double, sent as a whole number */
    enum { ADDED, ADDED_REAL, LARGEST } how;
};

static const struct number of_cell[] = {
    {offsetof(struct fabric_comm_cell, calls), ADDED},
    {offsetof(struct fabric_comm_cell, bytes), ADDED},
    {offsetof(struct fabric_comm_cell, ns), ADDED},
    {offsetof(struct fabric_comm_cell, longest_ns), LARGEST},
};
#define OF_CELL (sizeof of_cell / sizeof of_cell[0])

static const struct number comm_sum_numbers[] = {
    {offsetof(struct fabric_comm_sum, calls), ADDED},
    {offsetof(struct fabric_comm_sum, weight), ADDED_REAL},
    {offsetof(struct fabric_comm_sum, wait_ns), ADDED_REAL},
    {offsetof(struct fabric_comm_sum, network_ns), ADDED_REAL},
    {offsetof(struct fabric_comm_sum, wait_most_ns), LARGEST},
    {offsetof(struct fabric_comm_sum, network_most_ns), LARGEST},
};
#define COMM_SUM_NUMBERS (sizeof comm_sum_numbers / sizeof comm_sum_numbers[0])

static void put_cell(struct json_object *list, const void *cell, const struct number *of,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const void *at = (const char *)cell + of[i].offset;

        hosts_list_add(list, of[i].how == ADDED_REAL ? comm_count_of(*(const double *)at)
                                                     : *(const uint64_t *)at);
    }
}

/* Combine @cell with the cell that begins at element @first of @list. */
static void add_cell(void *cell, struct json_object *list, size_t first, const struct number *of,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *at = (char *)cell + of[i].offset;
        uint64_t other = hosts_number_at(list, first + i), *own = at;

        if (of[i].how == ADDED_REAL)
            *(double *)at += (double)other;
        else if (of[i].how == ADDED)
            emu_sum(own, other);
        else
            *own = other > *own ? other : *own;
    }
}

static struct json_object *cells_list(const struct fabric_comm *comm)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < CELLS; i++)
        put_cell(list, &comm->cell[0][0][0] + i, of_cell, OF_CELL);
    return list;
}

static struct json_object *comm_sums_list(const struct fabric_comm *comm)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < COMM_SUMS; i++)
        put_cell(list, &comm->sampled[0][0] + i, comm_sum_numbers, COMM_SUM_NUMBERS);
    return list;
}

/*
 * [TRANSLATED,TRAPS,NODE,PEER,ERRNO,ADDRESS,BYTES]; the last five numbers describe the last trap.
 */
#define OF_MEMORY 7u

static struct json_object *memory_list(const struct fabric_comm_memory *memory)
{
    const uint64_t number[OF_MEMORY] = {memory->translated, memory->traps,
                                        memory->node,       memory->last.from,
                                        memory->last.error, memory->last.address,
                                        memory->last.bytes};
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < OF_MEMORY; i++)
        hosts_list_add(list, number[i]);
    return list;
}

/* Return whether @node exists and is on @host. */
static bool node_is_on(const struct fabric_config *config, uint64_t node, uint32_t host)
{
    return node < config->graph->nodes && fabric_node_host(config, (uint32_t)node) == host;
}

static void memory_add(struct fabric_comm_memory *sum, const struct fabric_config *config,
                       uint32_t host, struct json_object *list)
{
    uint64_t traps = list ? hosts_number_at(list, 1) : 0;

    if (list)
        emu_sum(&sum->translated, hosts_number_at(list, 0));
    if (!traps || !node_is_on(config, hosts_number_at(list, 2), host) ||
        hosts_number_at(list, 3) >= config->graph->nodes)
        return;
    emu_sum(&sum->traps, traps);
    sum->node = (uint32_t)hosts_number_at(list, 2);
    sum->last = (struct emu_comm_trap){.from = (uint32_t)hosts_number_at(list, 3),
                                       .error = (uint32_t)hosts_number_at(list, 4),
                                       .address = hosts_number_at(list, 5),
                                       .bytes = hosts_number_at(list, 6)};
}

/* Return the number of a pair. Pairs are sent in ascending order of their numbers. */
static uint64_t pair_number(const struct fabric_comm *comm, const struct fabric_pair *pair)
{
    return (uint64_t)pair->from * comm->nodes + pair->to;
}

/* List at most @most pairs from number @from on. *next: number of the next pair; 0 if none. */
static struct json_object *pairs_list(const struct fabric_comm *comm, uint64_t from, uint32_t most,
                                      uint64_t *next)
{
    struct json_object *list = json_object_new_array();
    uint32_t listed = 0;

    *next = 0;
    for (uint32_t i = 0; i < comm->pairs && !*next; i++) {
        const struct fabric_pair *pair = &comm->pair[i];

        if (pair_number(comm, pair) < from)
            continue;
        if (listed++ == most) {
            *next = pair_number(comm, pair);
            continue;
        }
        hosts_list_add(list, pair->from);
        hosts_list_add(list, pair->to);
        hosts_list_add(list, pair->messages);
        hosts_list_add(list, pair->bytes);
    }
    return list;
}

struct json_object *hosts_comm_list(struct fabric *fabric, uint64_t from, uint32_t most)
{
    struct json_object *ret;
    struct fabric_comm comm;
    uint64_t next;

    if (fabric_comm_read(fabric, &comm))
        return NULL;
    ret = json_object_new_object();
    json_object_object_add(ret, "pairs", pairs_list(&comm, from, most, &next));
    if (next)
        json_add_number(ret, "next", next);
    if (!from) {
        json_object_object_add(ret, "cells", cells_list(&comm));
        json_object_object_add(ret, "sampled", comm_sums_list(&comm));
        json_add_number(ret, "more_messages", comm.more_messages);
        json_add_number(ret, "more_bytes", comm.more_bytes);
        json_add_number(ret, "unreported", comm.unreported);
        json_object_object_add(ret, "memory", memory_list(&comm.memory));
    }
    fabric_comm_free(&comm);
    return ret;
}

/*
 * Return list @name, or NULL if it is missing or has a wrong length. The length must be @count or,
 * if @count is 0, a multiple of @each.
 */
static struct json_object *list_of(struct json_object *comm, const char *name, size_t count,
                                   size_t each)
{
    struct json_object *list = json_object_object_get(comm, name);

    if (!json_object_is_type(list, json_type_array) ||
        (count && json_object_array_length(list) != count) || json_object_array_length(list) % each)
        return NULL;
    return list;
}

static void cells_add(struct fabric_comm *sum, struct json_object *list)
{
    for (uint32_t i = 0; list && i < CELLS; i++)
        add_cell(&sum->cell[0][0][0] + i, list, OF_CELL * i, of_cell, OF_CELL);
}

static void comm_sums_add(struct fabric_comm *sum, struct json_object *list)
{
    for (uint32_t i = 0; list && i < COMM_SUMS; i++)
        add_cell(&sum->sampled[0][0] + i, list, COMM_SUM_NUMBERS * i, comm_sum_numbers,
                 COMM_SUM_NUMBERS);
}

/*
 * Return how many of @count more pairs from @host may be kept. The share of each host is
 * proportional to its number of nodes, so that no host can use up the space for the others.
 */
static size_t pairs_capacity(const struct fabric_comm *sum, const struct fabric_config *config,
                             uint32_t host, size_t count)
{
    size_t left = sum->pairs < FABRIC_PAIRS_MOST ? FABRIC_PAIRS_MOST - sum->pairs : 0;
    uint32_t all = config->graph->nodes;
    uint64_t share = 0, held = 0;

    for (uint32_t n = 0; n < all; n++)
        share += node_is_on(config, n, host);
    share = share * FABRIC_PAIRS_MOST / all;
    if (sum->pairs + count > share) /* otherwise the host cannot hold more than its share */
        for (uint32_t i = 0; i < sum->pairs; i++)
            held += node_is_on(config, sum->pair[i].from, host);
    share = held < share ? share - held : 0;
    left = left < share ? left : (size_t)share;
    return left < count ? left : count;
}

/*
 * Add the pairs in @list that have their first node on @host, because the host of the sender counts
 * the messages. Pairs beyond pairs_capacity() are only added to the sums.
 */
static void pairs_add(struct fabric_comm *sum, const struct fabric_config *config, uint32_t host,
                      struct json_object *list)
{
    size_t count = list ? json_object_array_length(list) / OF_PAIR : 0;
    struct fabric_pair *pair;
    size_t capacity;

    if (!count || count > HOSTS_PAIRS_MOST)
        return;
    capacity = pairs_capacity(sum, config, host, count);
    pair = capacity ? realloc(sum->pair, (sum->pairs + capacity) * sizeof *pair) : NULL;
    if (pair)
        sum->pair = pair;
    for (size_t i = 0; i < count; i++) {
        uint64_t from = hosts_number_at(list, OF_PAIR * i),
                 to = hosts_number_at(list, OF_PAIR * i + 1);
        uint64_t messages = hosts_number_at(list, OF_PAIR * i + 2);
        uint64_t bytes = hosts_number_at(list, OF_PAIR * i + 3);

        if (!node_is_on(config, from, host) || to >= sum->nodes)
            continue;
        if (pair && capacity) {
            sum->pair[sum->pairs++] = (struct fabric_pair){.from = (uint32_t)from,
                                                           .to = (uint32_t)to,
                                                           .messages = messages,
                                                           .bytes = bytes};
            capacity--;
        } else {
            emu_sum(&sum->more_messages, messages);
            emu_sum(&sum->more_bytes, bytes);
        }
    }
}

/* Return counter @name; 0 if it is missing or negative. */
static uint64_t count_of(struct json_object *comm, const char *name)
{
    return json_object_get_uint64(json_object_object_get(comm, name));
}

void hosts_comm_add(struct fabric_comm *sum, const struct fabric_config *config, uint32_t host,
                    struct json_object *comm)
{
    cells_add(sum, list_of(comm, "cells", OF_CELL * CELLS, OF_CELL));
    comm_sums_add(sum, list_of(comm, "sampled", COMM_SUM_NUMBERS * COMM_SUMS, COMM_SUM_NUMBERS));
    pairs_add(sum, config, host, list_of(comm, "pairs", 0, OF_PAIR));
    emu_sum(&sum->more_messages, count_of(comm, "more_messages"));
    emu_sum(&sum->more_bytes, count_of(comm, "more_bytes"));
    emu_sum(&sum->unreported, count_of(comm, "unreported"));
    memory_add(&sum->memory, config, host, list_of(comm, "memory", OF_MEMORY, OF_MEMORY));
}
