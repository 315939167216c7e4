/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_fabric.c - see fake_fabric.h. */
#include "tests/fake_fabric.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/combine.h"
#include "tests/test.h"

#define MASK (EMU_EDGE_SLOTS - 1u)

struct fake_bag {
    struct emu_seg *seg;
    uint32_t count, room;
};

struct fake_state {
    bool used;
    uint32_t seq, count;
    uint64_t from; /* by place among the members */
    struct emu_seg sum;
};

struct fake_group {
    bool made;
    uint32_t id, count;
    uint32_t nodes[FAKE_NODES];
    struct fake_state state[EMU_WINDOW];
};

struct fake_edge {
    struct emu_edge_shared *shared;
    struct fabemu *fab;
    uint32_t up_head, down_tail;
    struct fake_bag bag;
};

struct fake {
    uint32_t nodes, seats;
    uint64_t random;
    bool shuffle;
    uint32_t conflicts, dropped;
    struct fake_edge edge[FAKE_NODES];
    struct fake_group group[FAKE_GROUPS];
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

struct fake *fake_open(uint32_t nodes, uint64_t seed, bool shuffle)
{
    struct fake *fake = calloc(1, sizeof *fake);

    must(fake && nodes <= FAKE_NODES, "fake_open");
    fake->nodes = nodes;
    fake->random = seed;
    fake->shuffle = shuffle;
    return fake;
}

static void edge_drop(struct fake_edge *edge)
{
    if (edge->fab)
        nic_close(edge->fab);
    if (edge->shared)
        munmap(edge->shared, sizeof *edge->shared);
    edge->fab = NULL;
    edge->shared = NULL;
    edge->bag.count = 0;
}

void fake_close(struct fake *fake)
{
    for (uint32_t i = 0; i < fake->nodes; i++) {
        edge_drop(&fake->edge[i]);
        free(fake->edge[i].bag.seg);
    }
    free(fake);
}

struct fabemu *fake_attach(struct fake *fake, uint32_t node)
{
    struct fake_edge *edge = &fake->edge[node];
    struct fabemu_info info = {.fabric = "fake", .node = node, .nodes = fake->nodes,
                               .seat = ++fake->seats};
    int fd = memfd_create("fake", MFD_CLOEXEC);

    must(fd >= 0 && !ftruncate(fd, sizeof *edge->shared), "memfd");
    edge_drop(edge);
    edge->shared = mmap(NULL, sizeof *edge->shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(edge->shared != MAP_FAILED, "mmap");
    edge->shared->magic = EMU_EDGE_MAGIC;
    edge->shared->version = EMU_EDGE_VERSION;
    edge->shared->slots = EMU_EDGE_SLOTS;
    edge->shared->node = node;
    edge->shared->nodes = fake->nodes;
    edge->up_head = edge->down_tail = 0;
    must(nic_open(&edge->fab, fd, -1, &info) == 0, "nic_open");
    close(fd);
    return edge->fab;
}

void fake_detach(struct fake *fake, uint32_t node)
{
    edge_drop(&fake->edge[node]);
}

void fake_group(struct fake *fake, uint32_t id, const uint32_t *nodes, uint32_t count)
{
    struct fake_group *g = fake->group;

    while (g->made)
        g++;
    must(g < fake->group + FAKE_GROUPS, "fake_group");
    g->made = true;
    g->id = id;
    g->count = count;
    memcpy(g->nodes, nodes, count * sizeof *nodes);
}

uint32_t fake_conflicts(const struct fake *fake)
{
    return fake->conflicts;
}

uint32_t fake_dropped(const struct fake *fake)
{
    return fake->dropped;
}

/* --- moving --------------------------------------------------------------------- */

static void bag_put(struct fake *fake, uint32_t node, const struct emu_seg *seg)
{
    struct fake_bag *bag = &fake->edge[node].bag;

    if (!fake->edge[node].shared) {
        fake->dropped++;
        return;
    }
    if (bag->count == bag->room) {
        bag->room = bag->room * 2 + 64;
        bag->seg = realloc(bag->seg, bag->room * sizeof *bag->seg);
        must(bag->seg, "bag");
    }
    bag->seg[bag->count].hdr = seg->hdr;
    memcpy(bag->seg[bag->count++].payload, seg->payload, seg->hdr.len);
}

static int member_of(const struct fake_group *g, uint32_t node)
{
    for (uint32_t i = 0; i < g->count; i++)
        if (g->nodes[i] == node)
            return (int)i;
    return -1;
}

static void combine(struct fake *fake, struct fake_group *g, const struct emu_seg *seg)
{
    struct fake_state *s = &g->state[seg->hdr.seq % EMU_WINDOW];
    uint64_t bit = UINT64_C(1) << member_of(g, seg->hdr.src);
    bool reduce = seg->hdr.kind == EMU_REDUCE;

    if (s->used && (s->seq != seg->hdr.seq || s->from & bit)) {
        fake->conflicts++;
        return;
    }
    if (!s->used) {
        *s = (struct fake_state){.used = true, .seq = seg->hdr.seq};
        s->sum.hdr = seg->hdr;
        memcpy(s->sum.payload, seg->payload, seg->hdr.len);
    } else if (seg->hdr.len) {
        emu_combine(seg->hdr.op, seg->hdr.type, s->sum.payload, seg->payload,
                    seg->hdr.len / emu_type_bytes(seg->hdr.type));
    }
    s->from |= bit;
    if (++s->count < g->count - reduce)
        return;
    s->used = false;
    for (uint32_t i = 0; i < g->count; i++)
        if (!reduce || !(s->from & UINT64_C(1) << i))
            bag_put(fake, g->nodes[i], &s->sum);
}

static void route(struct fake *fake, const struct emu_seg *seg)
{
    struct fake_group *g = fake->group;

    if (seg->hdr.kind == EMU_UNICAST) {
        must(seg->hdr.dst < fake->nodes, "destination");
        bag_put(fake, seg->hdr.dst, seg);
        return;
    }
    while (g < fake->group + FAKE_GROUPS && !(g->made && g->id == seg->hdr.dst))
        g++;
    must(g < fake->group + FAKE_GROUPS && member_of(g, seg->hdr.src) >= 0, "group");
    if (seg->hdr.kind != EMU_MULTICAST) {
        combine(fake, g, seg);
        return;
    }
    for (uint32_t i = 0; i < g->count; i++)
        if (g->nodes[i] != seg->hdr.src)
            bag_put(fake, g->nodes[i], seg);
}

static uint32_t take_up(struct fake *fake, uint32_t node)
{
    struct fake_edge *edge = &fake->edge[node];
    uint32_t tail = atomic_load_explicit(&edge->shared->up_tail, memory_order_acquire); /* X1: Y2 */
    uint32_t taken = 0;

    for (; edge->up_head != tail; edge->up_head++, taken++) {
        struct emu_seg seg = edge->shared->up[edge->up_head & MASK].seg;

        seg.hdr.src = node;
        route(fake, &seg);
    }
    atomic_store_explicit(&edge->shared->up_head, edge->up_head, memory_order_release); /* X2: Y1 */
    return taken;
}

bool fake_inject(struct fake *fake, uint32_t node, const struct emu_seg *seg)
{
    struct fake_edge *edge = &fake->edge[node];
    struct emu_edge_shared *sh = edge->shared;
    uint32_t head = atomic_load_explicit(&sh->down_head, memory_order_acquire); /* X3: Y4 */

    if (edge->down_tail - head == EMU_EDGE_SLOTS)
        return false;
    sh->down[edge->down_tail & MASK].seg = *seg;
    edge->down_tail++;
    atomic_exchange_explicit(&sh->down_tail, edge->down_tail, memory_order_seq_cst); /* X4: Y3 */
    if (atomic_load_explicit(&sh->asleep, memory_order_seq_cst) &&
        atomic_exchange_explicit(&sh->asleep, 0, memory_order_seq_cst))
        syscall(SYS_futex, &sh->asleep, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    return true;
}

static uint32_t give_down(struct fake *fake, uint32_t node)
{
    struct fake_bag *bag = &fake->edge[node].bag;
    uint32_t at = 0, given = 0;

    if (!fake->shuffle) {
        while (at < bag->count && fake_inject(fake, node, &bag->seg[at]))
            at++;
        if (at)
            memmove(bag->seg, bag->seg + at, (bag->count - at) * sizeof *bag->seg);
        bag->count -= at;
        return at;
    }
    /* Some of them, by chance; now and then nothing at all, so that others run ahead. */
    for (uint32_t most = (uint32_t)(test_random(&fake->random) % 96); given < most && bag->count;
         given++) {
        uint32_t near = bag->count < 200 ? bag->count : 200;

        at = (uint32_t)(test_random(&fake->random) % near);
        if (!fake_inject(fake, node, &bag->seg[at]))
            break;
        bag->seg[at] = bag->seg[--bag->count];
    }
    return given;
}

uint32_t fake_step(struct fake *fake)
{
    uint32_t moved = 0;

    for (uint32_t i = 0; i < fake->nodes; i++)
        if (fake->edge[i].shared)
            moved += take_up(fake, i);
    for (uint32_t i = 0; i < fake->nodes; i++)
        if (fake->edge[i].shared)
            moved += give_down(fake, i);
    return moved;
}

uint32_t fake_pump(struct fake *fake)
{
    uint32_t moved = fake_step(fake);

    for (uint32_t i = 0; i < fake->nodes; i++)
        if (fake->edge[i].fab)
            moved += fabemu_progress(fake->edge[i].fab);
    for (uint32_t i = 0; i < fake->nodes; i++)
        moved += fake->edge[i].bag.count;
    return moved;
}

bool fake_finish(struct fake *fake, struct fabemu_req *req, uint32_t count)
{
    uint32_t idle = 0;

    for (uint32_t i = 0; i < count; i++) {
        while (fabemu_req_status(&req[i]) == FABEMU_PENDING) {
            idle = fake_pump(fake) ? 0 : idle + 1;
            if (idle > 1000)
                return false;
        }
    }
    return true;
}

void fake_quiet(struct fake *fake)
{
    for (uint32_t idle = 0; idle < 3;)
        idle = fake_pump(fake) ? 0 : idle + 1;
}
