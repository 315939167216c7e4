/* SPDX-License-Identifier: BSD-3-Clause */
/* fake.c - see fake.h. */
#include "tests/world/host/fake.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emu/util/combine.h"
#include "emu/util/wait.h"
#include "tests/test.h"

#define MASK (EMU_HOSTIF_SLOTS - 1u)

/* Says to the sender what came of a segment, when all of its copies lie in down rings. */
struct fake_report {
    struct emu_seg seg;
    uint32_t copies; /* still on their way, and one while they are made */
};

struct fake_item {
    struct emu_seg seg;
    struct fake_report *report; /* or NULL */
};

struct fake_bag {
    struct fake_item *item;
    uint32_t count, room;
};

/* A conditional that is not true yet. */
struct fake_ask {
    struct fake_ask *next;
    struct fake_group *group;
    struct emu_seg seg;
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
    struct fake_state state[EMU_WINDOW_WIDE];
    uint64_t word[FAKE_NODES][EMU_WORDS]; /* by place */
};

struct fake_edge {
    struct emu_hostif_shared *shared;
    struct fabemu *fab;
    uint32_t up_head, down_tail;
    struct fake_bag bag;
};

struct fake {
    pthread_t thread;
    atomic_bool done; /* between this thread and who stops it */
    uint32_t nodes;
    uint64_t seat[FAKE_NODES]; /* emu_seat_state() */
    uint64_t random;
    bool shuffle, acknowledged, slow;
    bool cut[FAKE_NODES][FAKE_NODES];
    uint32_t conflicts, dropped;
    struct fake_ask *asks;
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

void fake_acknowledge(struct fake *fake)
{
    fake->acknowledged = true;
}

void fake_slow(struct fake *fake)
{
    fake->slow = true;
}

void fake_cut(struct fake *fake, uint32_t from, uint32_t to, bool cut)
{
    fake->cut[from][to] = cut;
}

static void report_drop(struct fake_report *report)
{
    if (report && !--report->copies)
        free(report);
}

static void edge_drop(struct fake_edge *edge)
{
    for (uint32_t i = 0; i < edge->bag.count; i++)
        report_drop(edge->bag.item[i].report); /* nobody is told */
    if (edge->fab)
        nic_close(edge->fab);
    if (edge->shared)
        munmap(edge->shared, emu_hostif_bytes(edge->shared->nodes));
    edge->fab = NULL;
    edge->shared = NULL;
    edge->bag.count = 0;
}

void fake_close(struct fake *fake)
{
    for (uint32_t i = 0; i < fake->nodes; i++) {
        edge_drop(&fake->edge[i]);
        free(fake->edge[i].bag.item);
    }
    while (fake->asks) {
        struct fake_ask *ask = fake->asks;

        fake->asks = ask->next;
        free(ask);
    }
    free(fake);
}

/* The seat at @node is taken, or free. */
static void seat_tell(struct fake *fake, uint32_t node, bool attached)
{
    fake->seat[node] = emu_seat_state(emu_seat_first(fake->seat[node]), attached);
    for (uint32_t i = 0; i < fake->nodes; i++)
        if (fake->edge[i].shared) {
            atomic_store_explicit(&fake->edge[i].shared->seats[node], fake->seat[node],
                                  memory_order_release); /* X5: Y7 */
            atomic_fetch_add_explicit(&fake->edge[i].shared->endings, !attached,
                                      memory_order_release); /* X6: Y8 */
        }
}

struct fabemu *fake_attach(struct fake *fake, uint32_t node)
{
    struct fake_edge *edge = &fake->edge[node];
    struct fabemu_info info = {.fabric = "fake",
                               .node = node,
                               .nodes = fake->nodes,
                               .acknowledged = fake->acknowledged};
    int fd = memfd_create("fake", MFD_CLOEXEC);

    must(fd >= 0 && !ftruncate(fd, (off_t)emu_hostif_bytes(fake->nodes)), "memfd");
    if (edge->shared)
        fake_detach(fake, node);
    edge->shared =
        mmap(NULL, emu_hostif_bytes(fake->nodes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(edge->shared != MAP_FAILED, "mmap");
    edge->shared->magic = EMU_HOSTIF_MAGIC;
    edge->shared->version = EMU_HOSTIF_VERSION;
    edge->shared->slots = EMU_HOSTIF_SLOTS;
    edge->shared->node = node;
    edge->shared->nodes = fake->nodes;
    edge->up_head = edge->down_tail = 0;
    for (uint32_t i = 0; i < fake->nodes; i++)
        atomic_store_explicit(&edge->shared->seats[i], fake->seat[i], memory_order_relaxed);
    seat_tell(fake, node, true);
    must(nic_open(&edge->fab, &(const struct emu_hostif_fds){fd, -1, -1}, &info) == 0, "nic_open");
    close(fd);
    return edge->fab;
}

void fake_detach(struct fake *fake, uint32_t node)
{
    seat_tell(fake, node, false);
    fake->dropped += fake->edge[node].bag.count;
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

/* --- moving ------------------------------------------------------------------------- */

static void bag_put(struct fake *fake, uint32_t node, const struct emu_seg *seg,
                    struct fake_report *report)
{
    struct fake_bag *bag = &fake->edge[node].bag;
    struct fake_item *item;

    if (!fake->edge[node].shared) {
        fake->dropped++;
        return;
    }
    if (bag->count == bag->room) {
        bag->room = bag->room * 2 + 64;
        bag->item = realloc(bag->item, bag->room * sizeof *bag->item);
        must(bag->item, "bag");
    }
    item = &bag->item[bag->count++];
    item->seg.hdr = seg->hdr;
    memcpy(item->seg.payload, seg->payload, seg->hdr.len);
    item->report = report;
    if (report)
        report->copies++;
}

/* One copy less is on its way. */
static void report_copy(struct fake *fake, struct fake_report *report)
{
    if (!report)
        return;
    if (report->copies == 1)
        bag_put(fake, report->seg.hdr.src, &report->seg, NULL);
    report_drop(report);
}

/*
 * Copies go where the way is not cut; the sender is told when it asked for that, and of what was
 * cut.
 */
static void deliver(struct fake *fake, const struct emu_seg *seg, const uint32_t *nodes,
                    uint32_t count)
{
    struct fake_report *report = NULL;
    struct emu_seg copy = *seg;
    bool lost = false;

    for (uint32_t i = 0; i < count; i++)
        lost |= fake->cut[seg->hdr.src][nodes[i]] || fake->cut[nodes[i]][seg->hdr.src];
    if (lost || seg->hdr.kind & EMU_NOTIFY) {
        report = calloc(1, sizeof *report);
        must(report, "report");
        report->copies = 1;
        report->seg = *seg;
        if (lost)
            report->seg.hdr.kind |= EMU_FAILED;
        else
            report->seg.hdr.len = 0;
    }
    if (!fake->shuffle || test_random(&fake->random) % 2)
        copy.hdr.kind &= (uint8_t)~EMU_NOTIFY; /* whether a receiver sees it does not matter */
    for (uint32_t i = 0; i < count; i++)
        if (!fake->cut[seg->hdr.src][nodes[i]])
            bag_put(fake, nodes[i], &copy, report);
    report_copy(fake, report);
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
    struct fake_state *s = &g->state[seg->hdr.seq % emu_window(g->id)];
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
        emu_combine_fold(seg->hdr.op, seg->hdr.type, s->sum.payload, seg->payload, seg->hdr.len);
    }
    s->from |= bit;
    if (++s->count < g->count - reduce)
        return;
    s->used = false;
    for (uint32_t i = 0; i < g->count; i++)
        if (!reduce || !(s->from & UINT64_C(1) << i))
            bag_put(fake, g->nodes[i], &s->sum, NULL);
}

/* --- words -------------------------------------------------------------------------- */

static struct fake_group *group_at(struct fake *fake, uint32_t id)
{
    struct fake_group *g = fake->group;

    while (g < fake->group + FAKE_GROUPS && !(g->made && g->id == id))
        g++;
    must(g < fake->group + FAKE_GROUPS, "group");
    return g;
}

uint64_t fake_word(const struct fake *fake, uint32_t id, uint32_t node, uint32_t word)
{
    const struct fake_group *g = fake->group;

    while (g->id != id)
        g++;
    return g->word[member_of(g, node)][word];
}

static bool test_holds(const struct fake *fake, const struct fake_group *g,
                       const struct emu_seg *seg)
{
    struct emu_word ask;
    bool holds = true;

    memcpy(&ask, seg->payload, sizeof ask);
    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t word = g->word[i][ask.word];

        holds = holds && !fake->cut[seg->hdr.src][g->nodes[i]] &&
                (ask.test == EMU_TEST_EQUAL ? word == ask.value : (int64_t)(word - ask.value) >= 0);
    }
    return holds;
}

static void test_answer(struct fake *fake, struct emu_seg *seg, bool holds)
{
    seg->hdr.op = holds ? EMU_TEST_TRUE : EMU_TEST_FALSE;
    seg->hdr.len = 0;
    bag_put(fake, seg->hdr.src, seg, NULL);
}

/* The test with that number, of that node. */
static void ask_take_back(struct fake *fake, const struct emu_seg *seg)
{
    for (struct fake_ask **at = &fake->asks; *at; at = &(*at)->next) {
        struct fake_ask *ask = *at;

        if (ask->seg.hdr.src == seg->hdr.src && ask->seg.hdr.seq == seg->hdr.seq) {
            *at = ask->next;
            free(ask);
            return;
        }
    }
}

static void word_route(struct fake *fake, struct fake_group *g, struct emu_seg *seg)
{
    struct emu_word word;
    struct fake_ask *ask;

    must(fake->acknowledged && seg->hdr.len == sizeof word, "word");
    memcpy(&word, seg->payload, sizeof word);
    must(word.word < EMU_WORDS, "word");
    if (seg->hdr.kind == EMU_SET) {
        g->word[member_of(g, seg->hdr.src)][word.word] = word.value;
    } else if (word.until == EMU_TEST_ONCE) {
        test_answer(fake, seg, test_holds(fake, g, seg));
    } else if (word.until == EMU_TEST_TAKE_BACK) {
        ask_take_back(fake, seg);
    } else {
        ask = malloc(sizeof *ask);
        must(ask, "ask");
        *ask = (struct fake_ask){.next = fake->asks, .group = g, .seg = *seg};
        fake->asks = ask;
    }
}

static uint32_t asks_answer(struct fake *fake)
{
    uint32_t answered = 0;

    for (struct fake_ask **at = &fake->asks; *at;) {
        struct fake_ask *ask = *at;

        if (!test_holds(fake, ask->group, &ask->seg)) {
            at = &ask->next;
            continue;
        }
        test_answer(fake, &ask->seg, true);
        *at = ask->next;
        free(ask);
        answered++;
    }
    return answered;
}

/* Can what this member contributes get to all the others? If not, it is told. */
static bool contribution_arrives(struct fake *fake, const struct fake_group *g, struct emu_seg *seg)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (!fake->cut[seg->hdr.src][g->nodes[i]])
            continue;
        seg->hdr.kind |= EMU_FAILED;
        bag_put(fake, seg->hdr.src, seg, NULL);
        return false;
    }
    return true;
}

static void route(struct fake *fake, struct emu_seg *seg)
{
    uint8_t kind = seg->hdr.kind & (uint8_t)~EMU_NOTIFY;
    uint32_t others[FAKE_NODES], count = 0;
    struct fake_group *g;

    must(kind == seg->hdr.kind || (fake->acknowledged && kind <= EMU_MULTICAST), "told");
    if (kind == EMU_UNICAST) {
        must(seg->hdr.dst < fake->nodes, "destination");
        deliver(fake, seg, &seg->hdr.dst, 1);
        return;
    }
    g = group_at(fake, seg->hdr.dst);
    must(member_of(g, seg->hdr.src) >= 0, "member");
    if (kind >= EMU_KINDS) {
        word_route(fake, g, seg);
    } else if (kind != EMU_MULTICAST) {
        if (contribution_arrives(fake, g, seg))
            combine(fake, g, seg);
    } else {
        for (uint32_t i = 0; i < g->count; i++)
            if (g->nodes[i] != seg->hdr.src)
                others[count++] = g->nodes[i];
        deliver(fake, seg, others, count);
    }
}

static uint32_t take_up(struct fake *fake, uint32_t node)
{
    struct fake_edge *edge = &fake->edge[node];
    uint32_t tail = atomic_load_explicit(&edge->shared->up_tail, memory_order_acquire); /* X1: Y2 */
    uint32_t taken = 0;

    for (; edge->up_head != tail; edge->up_head++, taken++) {
        uint32_t shift = atomic_load_explicit(&edge->shared->up_shift, memory_order_relaxed);
        struct emu_seg seg = edge->shared->up[(edge->up_head + shift) & MASK].seg;

        seg.hdr.src = node;
        route(fake, &seg);
    }
    atomic_store_explicit(&edge->shared->up_head, edge->up_head, memory_order_release); /* X2: Y1 */
    return taken;
}

bool fake_inject(struct fake *fake, uint32_t node, const struct emu_seg *seg)
{
    struct fake_edge *edge = &fake->edge[node];
    struct emu_hostif_shared *sh = edge->shared;
    uint32_t head = atomic_load_explicit(&sh->down_head, memory_order_acquire); /* X3: Y4 */

    if (edge->down_tail - head == EMU_HOSTIF_SLOTS)
        return false;
    sh->down[edge->down_tail & MASK].seg = *seg;
    edge->down_tail++;
    emu_hostif_show(&sh->down_tail, edge->down_tail); /* X4: Y3 */
    emu_hostif_shown();
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
        while (at < bag->count && fake_inject(fake, node, &bag->item[at].seg))
            report_copy(fake, bag->item[at++].report);
        if (at)
            memmove(bag->item, bag->item + at, (bag->count - at) * sizeof *bag->item);
        bag->count -= at;
        return at;
    }
    /* Some of them, by chance; now and then nothing at all, so that others run ahead. */
    for (uint32_t most = (uint32_t)(test_random(&fake->random) % 96); given < most && bag->count;
         given++) {
        uint32_t near = bag->count < 200 ? bag->count : 200;
        struct fake_report *report;

        at = (uint32_t)(test_random(&fake->random) % near);
        if (!fake_inject(fake, node, &bag->item[at].seg))
            break;
        report = bag->item[at].report;
        bag->item[at] = bag->item[--bag->count];
        report_copy(fake, report);
    }
    return given;
}

uint32_t fake_step(struct fake *fake)
{
    uint32_t moved = 0;

    for (uint32_t i = 0; i < fake->nodes; i++)
        if (fake->edge[i].shared)
            moved += take_up(fake, i);
    moved += asks_answer(fake);
    for (uint32_t i = 0; i < fake->nodes; i++)
        if (fake->edge[i].shared && !(fake->slow && test_random(&fake->random) % 4))
            moved += give_down(fake, i);
    return moved;
}

static void *fake_run(void *argument)
{
    struct fake *fake = argument;

    while (!atomic_load(&fake->done))
        if (!fake_step(fake))
            emu_wait_yield();
    return NULL;
}

void fake_start(struct fake *fake)
{
    atomic_store(&fake->done, false);
    if (pthread_create(&fake->thread, NULL, fake_run, fake))
        abort();
}

void fake_stop(struct fake *fake)
{
    atomic_store(&fake->done, true);
    pthread_join(fake->thread, NULL);
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
