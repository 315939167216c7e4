/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm.c - statistics of the communication of all processes, and how long members of collectives
 * wait for each other and for the network.
 *
 * A member of a barrier or an all-reduce, and the root of a reduction, cannot continue before the
 * last member has arrived. A member of a broadcast cannot continue before the root has arrived.
 * Until then a member waits for other members, and the network is not the cause. Afterwards it
 * waits for the network. The other members of a reduction wait for no member.
 */
#include "apps/fabric/comm.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fabric/internal.h"
#include "apps/fabric/sample.h"
#include "emu/packet/kind.h"
#include "emu/hostif/fabric/fabric.h"
#include "emu/util/count.h"

/* Messages that the detached processes of one node have sent, sorted by destination. */
struct comm_row {
    struct fabric_pair *pair;
    uint32_t count;
};

/*
 * Counters of detached processes, saved from their host interfaces; and the reports of all
 * processes.
 */
struct fabric_comm_past {
    struct fabric_comm_memory memory;
    struct fabric_comm_cell cell[EMU_COMM_WHERES][EMU_COMM_KINDS][EMU_COMM_SIZES];
    struct comm_row *row; /* by node */
    uint32_t pairs;
    uint64_t more_messages, more_bytes;
    struct fabric_finished_at *at; /* by node: number of its next report to read */
    uint64_t *passed;              /* by node: segments sent and delivered at the last reading */
    struct comm_samples samples;
};

static void cells_add(struct fabric_comm_cell *to, struct emu_comm_shared *from)
{
    const struct emu_comm_cell *cell = &from->cell[0][0][0];

    for (size_t i = 0; i < sizeof from->cell / sizeof *cell; i++) {
        uint64_t longest_ns = emu_count_read(&cell[i].longest_ns);

        emu_sum(&to[i].calls, emu_count_read(&cell[i].calls));
        emu_sum(&to[i].bytes, emu_count_read(&cell[i].bytes));
        emu_sum(&to[i].ns, emu_count_read(&cell[i].ns));
        if (longest_ns > to[i].longest_ns)
            to[i].longest_ns = longest_ns;
    }
}

static void memory_add(struct fabric_comm_memory *to, const struct emu_comm_shared *from,
                       uint32_t node)
{
    uint64_t traps = emu_count_read(&from->traps);

    emu_sum(&to->translated, emu_count_read(&from->translated));
    emu_sum(&to->traps, traps);
    if (!traps)
        return;
    to->node = node;
    to->last = emu_comm_trap(from);
}

/* Return the first node, not before @node, to which the process has sent; hostif->nodes: none. */
static uint32_t peer_next(const struct emu_hostif *hostif, uint32_t node)
{
    const _Atomic uint64_t *sent = emu_hostif_peers(hostif->shared, hostif->nodes);

    while (node < hostif->nodes) {
        uint64_t word = emu_count_read(&sent[node / 64]) >> node % 64;

        if (word) {
            node += (uint32_t)__builtin_ctzll(word);
            return node < hostif->nodes ? node : hostif->nodes;
        }
        node += 64 - node % 64;
    }
    return hostif->nodes;
}

static uint32_t peers_count(const struct emu_hostif *hostif)
{
    uint32_t count = 0;

    for (uint32_t n = 0; hostif && (n = peer_next(hostif, n)) < hostif->nodes; n++)
        count++;
    return count;
}

/* Merge @row and the messages of @hostif, which may be NULL, into at most @most pairs. */
static uint32_t row_sum(struct fabric_pair *ret, const struct comm_row *row,
                        const struct emu_hostif *hostif, uint32_t node, uint32_t most)
{
    uint32_t nodes = hostif ? hostif->nodes : 0;
    uint32_t peer = hostif ? peer_next(hostif, 0) : nodes;
    uint32_t i = 0, count = 0;

    while ((i < row->count || peer < nodes) && count < most) {
        uint32_t to = i < row->count && (peer == nodes || row->pair[i].to < peer) ? row->pair[i].to
                                                                                  : peer;
        struct fabric_pair *pair = &ret[count++];

        *pair = (struct fabric_pair){.from = node, .to = to};
        if (i < row->count && row->pair[i].to == to)
            *pair = row->pair[i++];
        if (peer == to && peer < nodes) {
            const struct emu_comm_peer *sent = emu_hostif_peer(hostif->shared, nodes, peer);

            emu_sum(&pair->messages, emu_count_read(&sent->messages));
            emu_sum(&pair->bytes, emu_count_read(&sent->bytes));
            peer = peer_next(hostif, peer + 1);
        }
    }
    return count;
}

/* Add all messages of @hostif to one sum, because there is no space for its pairs. */
static void hostif_more(const struct emu_hostif *hostif, uint64_t *messages, uint64_t *bytes)
{
    for (uint32_t n = 0; (n = peer_next(hostif, n)) < hostif->nodes; n++) {
        const struct emu_comm_peer *sent = emu_hostif_peer(hostif->shared, hostif->nodes, n);

        emu_sum(messages, emu_count_read(&sent->messages));
        emu_sum(bytes, emu_count_read(&sent->bytes));
    }
}

/* --- past processes ----------------------------------------------------------------- */

static struct fabric_comm_past *past_of(struct fabric *fabric)
{
    uint32_t nodes = fabric->config.graph->nodes;
    struct fabric_comm_past *past = fabric->comm;

    if (past)
        return past;
    past = fabric->comm = calloc(1, sizeof *past);
    if (!past)
        return NULL;
    comm_samples_open(&past->samples, nodes);
    past->row = calloc(nodes, sizeof *past->row);
    past->at = calloc(nodes, sizeof *past->at);
    past->passed = calloc(nodes, sizeof *past->passed);
    if (!past->row || !past->at || !past->passed)
        fabric_comm_stop(fabric);
    return fabric->comm;
}

void fabric_comm_stop(struct fabric *fabric)
{
    struct fabric_comm_past *past = fabric->comm;

    if (!past)
        return;
    for (uint32_t n = 0; past->row && n < fabric->config.graph->nodes; n++)
        free(past->row[n].pair);
    comm_samples_free(&past->samples);
    free(past->passed);
    free(past->at);
    free(past->row);
    free(past);
    fabric->comm = NULL;
}

/* Add the messages of a process that detaches from @node to those of earlier processes. */
static void past_add(struct fabric_comm_past *past, uint32_t node, const struct emu_hostif *hostif)
{
    struct comm_row *row = &past->row[node];
    uint32_t capacity = row->count + peers_count(hostif);
    struct fabric_pair *pair = NULL;

    if (capacity == row->count)
        return;
    if (past->pairs - row->count + capacity <= FABRIC_PAIRS_MOST)
        pair = malloc(capacity * sizeof *pair);
    if (!pair) {
        hostif_more(hostif, &past->more_messages, &past->more_bytes);
        return;
    }
    past->pairs -= row->count;
    capacity = row_sum(pair, row, hostif, node, capacity);
    free(row->pair);
    *row = (struct comm_row){pair, capacity};
    past->pairs += capacity;
}

/* Add the new reports of sampled collectives by the process at @node. */
static void reports_read(struct fabric *fabric, struct fabric_comm_past *past, uint32_t node)
{
    struct emu_finished ring[EMU_FINISHED_SLOTS];
    uint64_t missed = 0;
    uint32_t count = fabric_drawn(fabric, node, &past->at[node], ring, &missed);

    for (uint32_t i = 0; i < count; i++)
        comm_samples_add(&past->samples, node, &ring[i]);
    past->samples.unreported += missed;
}

/*
 * Skip nodes that have sent and received no segments since the last call. This saves 30 us a
 * second with 256 idle nodes. At most one report of such a node stays unread until its next
 * segment, and the ring of reports has space for it.
 */
void fabric_comm_tick(struct fabric *fabric)
{
    struct fabric_comm_past *past = past_of(fabric);

    for (uint32_t n = 0; past && n < fabric->config.graph->nodes; n++) {
        const struct emu_hostif *hostif = fabric->hostif[n];
        uint64_t passed =
            hostif ? emu_count_read(&hostif->sent) + emu_count_read(&hostif->delivered) : 0;

        if (!hostif || passed == past->passed[n])
            continue;
        past->passed[n] = passed;
        reports_read(fabric, past, n);
    }
}

void fabric_comm_leaves(struct fabric *fabric, uint32_t node)
{
    struct fabric_comm_past *past = past_of(fabric);
    const struct emu_hostif *hostif = fabric->hostif[node];

    if (!past || !hostif)
        return;
    reports_read(fabric, past, node);
    cells_add(&past->cell[0][0][0], &hostif->shared->comm);
    memory_add(&past->memory, &hostif->shared->comm, node);
    past_add(past, node, hostif);
}

/* --- all processes ------------------------------------------------------------------ */

/* Read the pairs of all processes so far. Add pairs for which there is no space to one sum. */
static int pairs_read(const struct fabric *fabric, const struct fabric_comm_past *past,
                      struct fabric_comm *ret)
{
    uint32_t nodes = fabric->config.graph->nodes;
    uint64_t capacity = 0;

    for (uint32_t n = 0; n < nodes; n++)
        capacity += past->row[n].count + peers_count(fabric->hostif[n]);
    if (capacity > FABRIC_PAIRS_MOST)
        /* past_add() saves at most this many pairs of detached processes */
        capacity = FABRIC_PAIRS_MOST;
    ret->pair = malloc((capacity ? capacity : 1) * sizeof *ret->pair);
    if (!ret->pair)
        return -ENOMEM;
    for (uint32_t n = 0, gone = past->pairs; n < nodes; n++) {
        const struct emu_hostif *hostif = fabric->hostif[n];
        uint64_t left = capacity - ret->pairs;

        gone -= past->row[n].count;
        if (hostif && left < gone + past->row[n].count + peers_count(hostif)) {
            hostif_more(hostif, &ret->more_messages, &ret->more_bytes);
            hostif = NULL;
        }
        ret->pairs +=
            row_sum(ret->pair + ret->pairs, &past->row[n], hostif, n, (uint32_t)(left - gone));
    }
    return 0;
}

int fabric_comm_read(struct fabric *fabric, struct fabric_comm *ret)
{
    struct fabric_comm_past *past = past_of(fabric);

    memset(ret, 0, sizeof *ret);
    ret->nodes = fabric->config.graph->nodes;
    if (!past)
        return -ENOMEM;
    for (uint32_t n = 0; n < ret->nodes; n++)
        if (fabric->hostif[n])
            reports_read(fabric, past, n);
    comm_samples_settle(&past->samples);
    if (pairs_read(fabric, past, ret))
        return -ENOMEM;
    memcpy(ret->cell, past->cell, sizeof ret->cell);
    memcpy(ret->sampled, past->samples.sum, sizeof ret->sampled);
    ret->unreported = past->samples.unreported + past->samples.count;
    emu_sum(&ret->more_messages, past->more_messages);
    emu_sum(&ret->more_bytes, past->more_bytes);
    ret->memory = past->memory;
    for (uint32_t n = 0; n < fabric->config.graph->nodes; n++) {
        if (!fabric->hostif[n])
            continue;
        cells_add(&ret->cell[0][0][0], &fabric->hostif[n]->shared->comm);
        memory_add(&ret->memory, &fabric->hostif[n]->shared->comm, n);
    }
    if (fabric->mirror && fabric->mirror->comm)
        fabric->mirror->comm(fabric->mirror->ctx, ret);
    return 0;
}

void fabric_comm_free(struct fabric_comm *comm)
{
    free(comm->pair);
    comm->pair = NULL;
    comm->pairs = 0;
}

/* --- collectives that all members have reported ------------------------------------- */

#define SAMPLES_LEAST 4096u
/* comm_samples.most is SAMPLES_MORE, plus SAMPLES_NODES for each of at most 4096 nodes */
#define SAMPLES_MORE  65536u
#define SAMPLES_NODES 256u
#define SAMPLES_BITS  31u /* limit of emu_finished.report_bits, which a process may forge */

void comm_samples_open(struct comm_samples *samples, uint32_t nodes)
{
    samples->most = SAMPLES_MORE + (nodes < 4096 ? nodes : 4096) * SAMPLES_NODES;
}

void comm_samples_free(struct comm_samples *samples)
{
    free(samples->entry);
    samples->entry = NULL;
    samples->count = samples->capacity = 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Order reports by collective, then by node, then from old to new. */
static int by_collective(const void *left, const void *right)
{
    const struct comm_sample *a = left, *b = right;
    int ret = compare(a->one.group, b->one.group);

    if (!ret)
        ret = compare(a->one.first, b->one.first);
    if (!ret)
        ret = compare(a->node, b->node);
    return ret ? ret : compare(a->one.ended_ns, b->one.ended_ns);
}

static void keep_largest(uint64_t *largest, uint64_t ns)
{
    *largest = ns > *largest ? ns : *largest;
}

struct arrivals {
    uint64_t last_ns; /* when the last member arrived */
    uint64_t root_ns; /* when the root arrived, if there is one */
};

/*
 * In the functions below, @run is the part of the array with the @count reports of one collective.
 */
static struct arrivals arrivals_of(const struct comm_sample *run, uint32_t count)
{
    struct arrivals ret = {0};

    for (uint32_t i = 0; i < count; i++) {
        keep_largest(&ret.last_ns, run[i].one.began_ns);
        if (run[i].node == run[i].one.root)
            ret.root_ns = run[i].one.began_ns;
    }
    return ret;
}

/* Return the time from which @member waited only for the network. */
static uint64_t released_ns(const struct arrivals *arrivals, const struct comm_sample *member)
{
    const struct emu_finished *one = &member->one;
    enum emu_root root = emu_kind_traits(one->kind)->root;
    uint64_t ret = arrivals->last_ns;

    if (root == EMU_ROOT_SENDS)
        ret = arrivals->root_ns;
    else if (root == EMU_ROOT_RECEIVES && one->root != member->node)
        ret = 0;
    ret = ret > one->began_ns ? ret : one->began_ns;
    return ret < one->ended_ns ? ret : one->ended_ns;
}

static void run_sum(struct comm_samples *samples, const struct comm_sample *run, uint32_t count)
{
    const struct emu_finished *any = &run->one;
    struct fabric_comm_sum *sum =
        &samples->sum[any->kind - EMU_MULTICAST][emu_comm_size(any->bytes)];
    double weight = ldexp(1, any->report_bits < SAMPLES_BITS ? any->report_bits : SAMPLES_BITS);
    struct arrivals arrivals = arrivals_of(run, count);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t from_ns = released_ns(&arrivals, &run[i]);
        uint64_t wait_ns = from_ns - run[i].one.began_ns;
        uint64_t network_ns = run[i].one.ended_ns - from_ns;

        sum->calls++;
        sum->weight += weight;
        sum->wait_ns += weight * (double)wait_ns;
        sum->network_ns += weight * (double)network_ns;
        keep_largest(&sum->wait_most_ns, wait_ns);
        keep_largest(&sum->network_most_ns, network_ns);
    }
}

/* Keep each node's newest report; older reports belong to a former group with the same address. */
static uint32_t run_unique(struct comm_samples *samples, struct comm_sample *run, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool last = i + 1 == count || run[i].node != run[i + 1].node;

        samples->unreported += !last;
        if (last)
            run[kept++] = run[i];
    }
    return kept;
}

static bool run_is_complete(const struct comm_sample *run, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (run[i].one.members != count || run[i].one.kind != run->one.kind ||
            run[i].one.bytes != run->one.bytes)
            return false;
    return count < UINT16_MAX; /* .members is UINT16_MAX if there are at least as many members */
}

void comm_samples_settle(struct comm_samples *samples)
{
    struct comm_sample *entry = samples->entry;
    uint32_t kept = 0;

    if (samples->count)
        qsort(entry, samples->count, sizeof *entry, by_collective);
    for (uint32_t i = 0, next; i < samples->count; i = next) {
        uint32_t count;

        for (next = i + 1; next < samples->count && entry[next].one.group == entry[i].one.group &&
                           entry[next].one.first == entry[i].one.first;)
            next++;
        count = run_unique(samples, &entry[i], next - i);
        if (run_is_complete(&entry[i], count)) {
            run_sum(samples, &entry[i], count);
            continue;
        }
        for (uint32_t k = 0; k < count; k++)
            entry[kept++] = entry[i + k];
    }
    samples->count = kept;
}

/* Make space for one more report, if necessary by dropping reports of incomplete collectives. */
static bool samples_reserve(struct comm_samples *samples)
{
    uint32_t capacity = samples->capacity ? 2 * samples->capacity : SAMPLES_LEAST;
    struct comm_sample *more;

    if (samples->count < samples->capacity)
        return true;
    if (samples->capacity >= samples->most) {
        comm_samples_settle(samples);
        /*
         * If many are left, drop all of them, or a few new reports would already cause the next
         * sort.
         */
        if (samples->count > samples->capacity / 2) {
            samples->unreported += samples->count;
            samples->count = 0;
        }
        return true;
    }
    more = realloc(samples->entry, capacity * sizeof *more);
    if (!more)
        return false;
    samples->entry = more;
    samples->capacity = capacity;
    return true;
}

void comm_samples_add(struct comm_samples *samples, uint32_t node, const struct emu_finished *one)
{
    if (one->kind >= EMU_KINDS || one->report_bits == EMU_COMM_UNREPORTED)
        return;
    if (samples_reserve(samples))
        samples->entry[samples->count++] = (struct comm_sample){*one, node};
    else
        samples->unreported++;
}
