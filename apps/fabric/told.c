/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * told.c - collectives of which all members have told, put together.
 *
 * A member of a barrier or an all-reduce goes on when the last one has come, one of a broadcast
 * when the root has, and the root of a reduction when all have. Until then a member waits for
 * others, which no network can help; from then on it waits for the network. Others of a reduction
 * wait for nobody.
 */
#include "apps/fabric/told.h"

#include <math.h>
#include <stdlib.h>

#define TOLD_LEAST 4096u
#define TOLD_MORE  65536u /* entries that wait at most, and so many a node more */
#define TOLD_NODES 256u
#define TOLD_BITS  31u

void told_open(struct told *told, uint32_t nodes)
{
    told->most = TOLD_MORE + (nodes < 4096 ? nodes : 4096) * TOLD_NODES;
}

void told_free(struct told *told)
{
    free(told->entry);
    told->entry = NULL;
    told->count = told->room = 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Those of one collective together, by node; of one node the newest last. */
static int by_collective(const void *left, const void *right)
{
    const struct told_entry *a = left, *b = right;
    int ret = compare(a->one.group, b->one.group);

    if (!ret)
        ret = compare(a->one.first, b->one.first);
    if (!ret)
        ret = compare(a->node, b->node);
    return ret ? ret : compare(a->one.ended_ns, b->one.ended_ns);
}

static bool is_same(const struct emu_finished *a, const struct emu_finished *b)
{
    return a->group == b->group && a->first == b->first;
}

static void most(uint64_t *of, uint64_t ns)
{
    *of = ns > *of ? ns : *of;
}

/* When what those of a collective wait for had come. */
struct arrivals {
    uint64_t last_ns; /* the last member */
    uint64_t root_ns; /* the root, where there is one */
};

static struct arrivals arrivals_of(const struct told_entry *run, uint32_t count)
{
    struct arrivals ret = {0};

    for (uint32_t i = 0; i < count; i++) {
        most(&ret.last_ns, run[i].one.began_ns);
        if (run[i].node == run[i].one.root)
            ret.root_ns = run[i].one.began_ns;
    }
    return ret;
}

/* From when on @member waits for the network alone. */
static uint64_t released_ns(const struct arrivals *arrivals, const struct told_entry *member)
{
    const struct emu_finished *one = &member->one;
    uint64_t ret = arrivals->last_ns;

    if (one->kind == EMU_MULTICAST)
        ret = arrivals->root_ns;
    else if (one->kind == EMU_REDUCE && one->root != member->node)
        ret = 0;
    ret = ret > one->began_ns ? ret : one->began_ns;
    return ret < one->ended_ns ? ret : one->ended_ns;
}

static void run_sum(struct told *told, const struct told_entry *run, uint32_t count)
{
    const struct emu_finished *any = &run->one;
    struct fabric_told *sum = &told->sum[any->kind - EMU_MULTICAST][emu_comm_size(any->bytes)];
    double weight = ldexp(1, any->told_bits < TOLD_BITS ? any->told_bits : TOLD_BITS);
    struct arrivals arrivals = arrivals_of(run, count);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t from_ns = released_ns(&arrivals, &run[i]);
        uint64_t wait_ns = from_ns - run[i].one.began_ns;
        uint64_t network_ns = run[i].one.ended_ns - from_ns;

        sum->calls++;
        sum->weight += weight;
        sum->wait_ns += weight * (double)wait_ns;
        sum->network_ns += weight * (double)network_ns;
        most(&sum->wait_most_ns, wait_ns);
        most(&sum->network_most_ns, network_ns);
    }
}

/* Of one node only the newest counts: an older one is of a group that had the address before. */
static uint32_t run_unique(struct told *told, struct told_entry *run, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool last = i + 1 == count || run[i].node != run[i + 1].node;

        told->untold += !last;
        if (last)
            run[kept++] = run[i];
    }
    return kept;
}

static bool run_is_complete(const struct told_entry *run, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (run[i].one.members != count || run[i].one.kind != run->one.kind ||
            run[i].one.bytes != run->one.bytes)
            return false;
    return count < UINT16_MAX; /* so many or more */
}

void told_settle(struct told *told)
{
    struct told_entry *entry = told->entry;
    uint32_t kept = 0;

    if (told->count)
        qsort(entry, told->count, sizeof *entry, by_collective);
    for (uint32_t i = 0, next; i < told->count; i = next) {
        uint32_t count;

        for (next = i + 1; next < told->count && is_same(&entry[i].one, &entry[next].one);)
            next++;
        count = run_unique(told, &entry[i], next - i);
        if (run_is_complete(&entry[i], count)) {
            run_sum(told, &entry[i], count);
            continue;
        }
        for (uint32_t k = 0; k < count; k++)
            entry[kept++] = entry[i + k];
    }
    told->count = kept;
}

/* Room for one more, by giving up what is not complete if there is none. */
static bool told_has_room(struct told *told)
{
    uint32_t room = told->room ? 2 * told->room : TOLD_LEAST;
    struct told_entry *more;

    if (told->count < told->room)
        return true;
    if (told->room >= told->most) {
        told_settle(told);
        if (told->count > told->room / 2) { /* or it would be sorted for every few more */
            told->untold += told->count;
            told->count = 0;
        }
        return true;
    }
    more = realloc(told->entry, room * sizeof *more);
    if (!more)
        return false;
    told->entry = more;
    told->room = room;
    return true;
}

void told_add(struct told *told, uint32_t node, const struct emu_finished *one)
{
    if (one->kind >= EMU_KINDS || one->told_bits == EMU_COMM_UNTOLD)
        return;
    if (told_has_room(told))
        told->entry[told->count++] = (struct told_entry){*one, node};
    else
        told->untold++;
}
