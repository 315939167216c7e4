/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_memory_test.c - random puts with and without notices, gets and atomics, compared with a model
 * of the memory, over fabrics that reorder, lose, duplicate and corrupt segments, with and without
 * acknowledgments.
 *
 * One thread steps everything in turn: a fake fabric or a real one's workers, and the adapters. The
 * argument multiplies the length of the test.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/test.h"
#include "tests/fixtures/host/adapters.h"
#include "tests/fixtures/host/fake.h"

#define NODES       4u
#define SLOTS       4u         /* parts of a node's memory; one operation at a time uses each */
#define SLOT_BYTES  (1u << 20) /* bytes of a slot */
#define GUARD       64u        /* bytes after it that must stay unwritten */
#define WORDS       4u         /* words that all nodes change by atomics */
#define IN_PROGRESS 12u        /* operations in progress, of all nodes */
#define OPERATIONS  300u       /* operations of a run */
#define TICKETS     (1u << 20) /* at most, in a run */
#define GIVE_UP_NS  UINT64_C(30000000000) /* without any completion: a hang */

/* The fabric to run over. */
struct setting {
    const char *profile; /* NULL: a fake fabric */
    const char *set;     /* a profile setting, or NULL */
    bool acknowledged, shuffle;
    uint32_t bad; /* faults of each kind per million entries */
};

enum kind { PUT, NOTICED, GET, REFUSED, ADD, TICKET, KINDS };

enum refusal {
    NO_WRITING,
    NO_READING,
    OVER_THE_END,
    NO_SUCH_KEY,
    BELOW_THE_ADDRESS,
    NO_NOTICES, /* the queue accepts no notices */
    REFUSALS
};

struct access {
    struct fabemu_req req;
    bool busy;
    enum kind kind;
    uint32_t origin, target, slot;
    uint64_t offset; /* within the slot */
    size_t bytes;
    uint8_t *buf; /* SLOT_BYTES + GUARD */
    uint64_t operand, old;
    unsigned notices; /* notices that arrived */
};

struct memory {
    uint8_t *bytes;                  /* [SLOTS][SLOT_BYTES + GUARD] */
    uint8_t *model;                  /* the model of it */
    alignas(8) uint64_t word[WORDS]; /* the first one issues tickets */
    uint64_t sum[WORDS];
    /* keys of all memory; of all, by address; of the words; of all, read-only; write-only */
    uint64_t key, address_key, word_key, read_key, write_key;
    struct fabemu_req notice; /* always posted again; its callback checks the data */
    bool busy[SLOTS];
};

struct fixture {
    const struct setting *set;
    struct fake *fake;
    struct topo_graph *graph;
    struct fabric *fabric;
    struct fabemu *fab[NODES];
    struct fabemu_queue *queue[NODES];
    struct memory memory[NODES];
    struct access access[IN_PROGRESS];
    uint8_t *drawn; /* tickets */
    uint64_t random;
};

static unsigned times = 1; /* multiplies the test's length; set once by main() */

/* --- a fixture ------------------------------------------------------------------------ */

static void fabric_open(struct fixture *w)
{
    struct emu_fault_rates rates = fixture_faults(w->set->bad);
    struct fabric_config config = {.clock = EMU_CLOCK_RAW,
                                   .threads = 1,
                                   .faults = &rates,
                                   .start_stopped = true,
                                   .seed = test_random(&w->random)};

    fixture_profile(&config.profile, w->set->profile, w->set->set);
    w->fabric = fixture_fabric_start(&w->graph, "kary:2,2", NODES, &config);
    adapters_hasten(w->fabric, NODES);
}

static void fabric_node(struct fixture *w, uint32_t node)
{
    w->fab[node] =
        adapters_open(w->fabric, &(struct fabemu_info){.fabric = "test",
                                                       .node = node,
                                                       .nodes = NODES,
                                                       .incarnation = node + 1,
                                                       .acknowledged = w->set->acknowledged});
}

static void memory_open(struct fixture *w, uint32_t node)
{
    struct memory *m = &w->memory[node];
    struct fabemu *fab = w->fab[node];
    size_t bytes = SLOTS * (SLOT_BYTES + GUARD);

    m->bytes = malloc(bytes);
    m->model = malloc(bytes);
    memset(m->bytes, 0x11 * (int)(node + 1), bytes);
    memset(m->model, 0x11 * (int)(node + 1), bytes);
    fabemu_register(fab, m->bytes, bytes, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &m->key);
    fabemu_register(fab, m->bytes, bytes,
                    FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_BY_ADDRESS, &m->address_key);
    fabemu_register(fab, m->bytes, bytes, FABEMU_REMOTE_READ, &m->read_key);
    fabemu_register(fab, m->bytes, bytes, FABEMU_REMOTE_WRITE, &m->write_key);
    fabemu_register(fab, m->word, sizeof m->word, FABEMU_REMOTE_ATOMIC, &m->word_key);
}

static size_t place(const struct access *a)
{
    return a->slot * (size_t)(SLOT_BYTES + GUARD) + a->offset;
}

/* Called when a notice arrives: all bytes of its put must be in memory. */
static void notice_arrived(struct fabemu_req *req)
{
    struct fixture *w = req->context;
    struct access *a = &w->access[req->data % IN_PROGRESS];

    if (req->status == -ECANCELED)
        return;
    CU_ASSERT_EQUAL_FATAL(req->status, 0);
    CU_ASSERT_TRUE_FATAL(a->busy && a->kind == NOTICED &&
                         req->data / IN_PROGRESS == a->operand >> 8);
    CU_ASSERT_TRUE(req->src_node == a->origin && req->src_queue == 7 && req->bytes == a->bytes);
    CU_ASSERT_EQUAL(req->src_incarnation, w->fab[a->origin]->info.incarnation);
    CU_ASSERT_TRUE_FATAL(!memcmp(w->memory[a->target].bytes + place(a), a->buf, a->bytes));
    a->notices++;
}

static void await_notice(struct fixture *w, uint32_t node)
{
    struct fabemu_req *req = &w->memory[node].notice;

    memset(req, 0, sizeof *req);
    req->done = notice_arrived;
    req->context = w;
    CU_ASSERT_EQUAL_FATAL(fabemu_recv_notice(w->queue[node], req), 0);
}

static void fixture_open(struct fixture *w, const struct setting *set)
{
    memset(w, 0, sizeof *w);
    w->set = set;
    w->random = test_seed();
    w->drawn = calloc(NODES, TICKETS);
    if (set->profile)
        fabric_open(w);
    else
        w->fake = fake_open(NODES, test_random(&w->random), set->shuffle);
    if (w->fake && set->acknowledged)
        fake_acknowledge(w->fake);
    for (uint32_t n = 0; n < NODES; n++) {
        if (w->fake)
            w->fab[n] = fake_attach(w->fake, n);
        else
            fabric_node(w, n);
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(w->fab[n], 1, &w->queue[n]), 0);
        memory_open(w, n);
        await_notice(w, n);
    }
    for (uint32_t i = 0; i < IN_PROGRESS; i++)
        w->access[i].buf = malloc(SLOT_BYTES + GUARD);
}

static void fixture_close(struct fixture *w)
{
    for (uint32_t i = 0; i < IN_PROGRESS; i++)
        free(w->access[i].buf);
    for (uint32_t n = 0; n < NODES; n++) {
        const struct nic_counts *counts = &w->fab[n]->counts;

        CU_ASSERT_EQUAL(counts->malformed + counts->out_of_window + counts->stale + counts->refused,
                        0);
        CU_ASSERT_EQUAL(counts->given_up, 0);
        CU_ASSERT_EQUAL(fabemu_cancel(w->queue[n], &w->memory[n].notice), 0);
        CU_ASSERT_EQUAL(w->memory[n].notice.status, -ECANCELED);
        if (!w->fake)
            nic_close(w->fab[n]);
        free(w->memory[n].bytes);
        free(w->memory[n].model);
    }
    if (w->fake) {
        fake_close(w->fake);
    } else {
        fixture_fabric_stop(w->fabric, w->graph);
    }
    free(w->drawn);
}

static void pump(struct fixture *w)
{
    if (w->fake)
        fake_pump(w->fake);
    else
        adapters_pass(w->fabric, w->fab, NODES);
}

/* Wait until @req is complete. Returns false on a hang. */
static bool finish(struct fixture *w, const struct fabemu_req *req)
{
    uint64_t end = emu_now_ns() + GIVE_UP_NS;

    while (fabemu_req_status(req) == FABEMU_PENDING) {
        pump(w);
        if (emu_now_ns() > end)
            return false;
    }
    return true;
}

/* --- one operation ------------------------------------------------------------------ */

/*
 * Sizes around the capacity of one segment of each kind, of several, of packets of four, and powers
 * of two.
 */
static size_t draw_bytes(struct fixture *w)
{
    static const size_t around[] = {1,
                                    8,
                                    NIC_INLINE_BYTES,
                                    NIC_NOTICED_BYTES,
                                    NIC_DATA_BYTES,
                                    EMU_PAYLOAD_BYTES,
                                    4 * NIC_DATA_BYTES,
                                    1024,
                                    4096,
                                    8192,
                                    16384,
                                    65536};
    static const size_t large[] = {262144, SLOT_BYTES - 1, SLOT_BYTES, 4000 * NIC_DATA_BYTES};
    uint64_t r = test_random(&w->random);
    size_t bytes = around[r % (sizeof around / sizeof *around)];

    if (r >> 32 & 1)
        bytes = NIC_DATA_BYTES * (1 + (r >> 8) % 200);
    if ((r >> 33) % 24 == 0)
        return large[(r >> 40) % 4] + ((r >> 48) % 3 - 1) * ((r >> 40) % 4 == 3);
    return bytes + (r >> 40) % 3 - 1; /* one less, as many, one more */
}

/* Split the buffer into up to four pieces, some of them empty. */
static unsigned cut_up(struct fixture *w, const struct access *a, struct fabemu_iov iov[4])
{
    unsigned iovs = 1 + (unsigned)(test_random(&w->random) % 4);
    size_t at = 0;

    for (unsigned i = 0; i < iovs; i++) {
        size_t left = a->bytes - at;

        iov[i].base = a->buf + at;
        iov[i].bytes = i + 1 == iovs ? left : test_random(&w->random) % (left + 1);
        at += iov[i].bytes;
    }
    return iovs;
}

static int begin_transfer(struct fixture *w, struct access *a)
{
    struct memory *m = &w->memory[a->target];
    struct fabemu *fab = w->fab[a->origin];
    struct fabemu_iov iov[4];
    unsigned iovs = cut_up(w, a, iov);
    bool by_address = a->operand & 1;
    uint64_t key = by_address ? m->address_key : m->key;
    uint64_t at = place(a) + (by_address ? (uintptr_t)m->bytes : 0);
    struct fabemu_notice notice = {.queue = 1, .src_queue = 7};

    memset(a->buf, 0xee, a->bytes + GUARD);
    if (a->kind == GET)
        return fabemu_getv(fab, a->target, key, at, iov, iovs, &a->req);
    for (size_t i = 0; i < a->bytes; i++)
        a->buf[i] = (uint8_t)(a->operand + i * 7 + (i >> 8));
    if (a->kind == PUT)
        return fabemu_putv(fab, a->target, key, at, iov, iovs, &a->req);
    a->notices = 0;
    notice.data = (a->operand >> 8) * IN_PROGRESS + (uint64_t)(a - w->access);
    return fabemu_putv_notice(fab, a->target, key, at, iov, iovs, &notice, &a->req);
}

/* Transfers without permission, to an unknown region, or beyond its end. */
static int begin_refused(struct fixture *w, struct access *a)
{
    struct memory *m = &w->memory[a->target];
    struct fabemu *fab = w->fab[a->origin];
    uint64_t end = SLOTS * (uint64_t)(SLOT_BYTES + GUARD);
    struct fabemu_iov iov = {a->buf, a->bytes};
    struct fabemu_notice notice = {.queue = 2};

    memset(a->buf, 0xee, a->bytes + GUARD);
    switch ((enum refusal)(a->operand % REFUSALS)) {
    case NO_WRITING:
        return fabemu_put(fab, a->target, m->read_key, place(a), a->buf, a->bytes, &a->req);
    case NO_READING:
        return fabemu_get(fab, a->target, m->write_key, place(a), a->buf, a->bytes, &a->req);
    case OVER_THE_END:
        return fabemu_put(fab, a->target, m->key, end - a->bytes + 1, a->buf, a->bytes, &a->req);
    case BELOW_THE_ADDRESS:
        return fabemu_put(fab, a->target, m->address_key, (uintptr_t)m->bytes - 1, a->buf, a->bytes,
                          &a->req);
    case NO_NOTICES:
        return fabemu_putv_notice(fab, a->target, m->key, place(a), &iov, 1, &notice, &a->req);
    default:
        return fabemu_get(fab, a->target, m->key ^ UINT64_C(1) << 30, 0, a->buf, a->bytes, &a->req);
    }
}

/* The expected status of @a. */
static int status_of(const struct access *a)
{
    if (a->kind != REFUSED)
        return 0;
    return a->operand % REFUSALS == NO_NOTICES ? -EOPNOTSUPP : -EACCES;
}

static int begin_atomic(struct fixture *w, struct access *a)
{
    uint32_t word = a->kind == TICKET ? 0 : 1 + a->slot % (WORDS - 1);
    struct fabemu_atomic add = {.node = a->target,
                                .key = w->memory[a->target].word_key,
                                .offset = 8 * word,
                                .op = FABEMU_ATOMIC_ADD,
                                .type = FABEMU_U64,
                                .operand = &a->operand,
                                .result = &a->old};

    if (a->kind == TICKET)
        a->operand = 1;
    w->memory[a->target].sum[word] += a->operand;
    return fabemu_atomic(w->fab[a->origin], &add, &a->req);
}

static bool uses_slot(const struct access *a)
{
    return a->kind == PUT || a->kind == NOTICED || a->kind == GET;
}

static void access_begin(struct fixture *w, struct access *a)
{
    int err;

    a->kind = (enum kind)(test_random(&w->random) % KINDS);
    a->origin = (uint32_t)(test_random(&w->random) % NODES);
    a->target = (uint32_t)(test_random(&w->random) % NODES);
    a->slot = (uint32_t)(test_random(&w->random) % SLOTS);
    a->operand = test_random(&w->random);
    a->bytes = draw_bytes(w);
    a->offset = test_random(&w->random) % (SLOT_BYTES - a->bytes + 1);
    if (a->kind == REFUSED && !a->bytes)
        a->bytes = 1;
    if (uses_slot(a) && w->memory[a->target].busy[a->slot])
        return;
    memset(&a->req, 0, sizeof a->req);
    err = uses_slot(a)         ? begin_transfer(w, a)
          : a->kind == REFUSED ? begin_refused(w, a)
                               : begin_atomic(w, a);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    a->busy = true;
    if (uses_slot(a))
        w->memory[a->target].busy[a->slot] = true;
}

static bool all_are(const uint8_t *at, size_t bytes, uint8_t value)
{
    return !bytes || (at[0] == value && !memcmp(at, at + 1, bytes - 1));
}

/* Compare the memory with the model at once: the peer is in this process. */
static void access_end(struct fixture *w, struct access *a)
{
    struct memory *m = &w->memory[a->target];
    size_t slot = a->slot * (size_t)(SLOT_BYTES + GUARD);

    CU_ASSERT_EQUAL_FATAL(a->req.status, status_of(a));
    if (a->kind == NOTICED) {
        while (m->notice.status != FABEMU_PENDING) /* notices that were queued meanwhile */
            await_notice(w, a->target);
        CU_ASSERT_EQUAL_FATAL(a->notices, 1);
    }
    a->busy = false;
    if (uses_slot(a))
        m->busy[a->slot] = false;
    if (a->kind == PUT || a->kind == NOTICED) {
        memcpy(m->model + place(a), a->buf, a->bytes);
        CU_ASSERT_TRUE_FATAL(!memcmp(m->bytes + slot, m->model + slot, SLOT_BYTES + GUARD));
    }
    if (a->kind == GET)
        CU_ASSERT_TRUE_FATAL(!memcmp(a->buf, m->model + place(a), a->bytes));
    if (a->kind == GET || a->kind == REFUSED)
        CU_ASSERT_TRUE_FATAL(all_are(a->buf + (a->kind == GET ? a->bytes : 0),
                                     GUARD + (a->kind == GET ? 0 : a->bytes), 0xee));
    if (a->kind == TICKET)
        CU_ASSERT_TRUE_FATAL(a->old < TICKETS && !w->drawn[a->target * TICKETS + a->old]++);
}

/* --- many operations ---------------------------------------------------------------- */

static void memory_at_random(const struct setting *set)
{
    uint64_t begun = 0, most = (uint64_t)OPERATIONS * times;
    struct fixture *w = malloc(sizeof *w);
    uint64_t end = emu_now_ns() + GIVE_UP_NS;

    fixture_open(w, set);
    for (uint32_t busy = 1; busy || begun < most;) {
        busy = 0;
        for (uint32_t i = 0; i < IN_PROGRESS; i++) {
            struct access *a = &w->access[i];

            if (a->busy && fabemu_req_status(&a->req) != FABEMU_PENDING) {
                access_end(w, a);
                end = emu_now_ns() + GIVE_UP_NS;
            }
            if (!a->busy && begun < most) {
                access_begin(w, a);
                begun += a->busy;
            }
            busy += a->busy;
        }
        pump(w);
        CU_ASSERT_TRUE_FATAL(emu_now_ns() < end);
    }
    for (uint32_t n = 0; n < NODES; n++) {
        struct memory *m = &w->memory[n];

        CU_ASSERT_TRUE(!memcmp(m->bytes, m->model, SLOTS * (SLOT_BYTES + GUARD)));
        CU_ASSERT_TRUE(!memcmp(m->word, m->sum, sizeof m->sum));
    }
    fixture_close(w);
    free(w);
}

static void send_to_1(struct fixture *w, uint64_t tag, const void *buf, size_t bytes,
                      struct fabemu_req *req)
{
    struct fabemu_dest dest = {.node = 1, .queue = 1, .tag = tag};
    struct fabemu_iov iov = {.base = (void *)(uintptr_t)buf, .bytes = bytes};

    CU_ASSERT_EQUAL_FATAL(fabemu_send(w->queue[0], &dest, &iov, 1, req), 0);
}

/* A message sent after a send has completed finds all data of that send delivered. */
static void completed_is_delivered(const struct setting *set)
{
    static const size_t sizes[] = {193, 8192, 8193, 16384, 65536, 300000};
    struct fixture *w = malloc(sizeof *w);

    fixture_open(w, set);
    for (unsigned i = 0; i < 18 * times; i++) {
        struct fabemu_req recv = {0}, token = {0}, send[2] = {{0}};
        size_t bytes = sizes[i % 6];
        uint8_t *out = w->access[0].buf, *in = w->access[1].buf, none = 0;
        struct fabemu_iov into = {in, bytes}, empty = {&none, 1};

        for (size_t k = 0; k < bytes; k++)
            out[k] = (uint8_t)(i + k * 5 + (k >> 8));
        memset(in, 0, bytes);
        CU_ASSERT_EQUAL_FATAL(fabemu_recv(w->queue[1], 0, 1, 0, &into, 1, &recv), 0);
        CU_ASSERT_EQUAL_FATAL(fabemu_recv(w->queue[1], 0, 2, 0, &empty, 1, &token), 0);
        send_to_1(w, 1, out, bytes, &send[0]);
        CU_ASSERT_TRUE_FATAL(finish(w, &send[0]));
        send_to_1(w, 2, "", 1, &send[1]);
        CU_ASSERT_TRUE_FATAL(finish(w, &token));
        CU_ASSERT_EQUAL(fabemu_req_status(&recv), 0);
        CU_ASSERT_TRUE(!memcmp(in, out, bytes));
        CU_ASSERT_TRUE_FATAL(finish(w, &recv) && finish(w, &send[1]));
    }
    fixture_close(w);
    free(w);
}

#define PIECED 40000u /* bytes of a region of four pieces, one of them empty */

/*
 * The pieces of a region are not in the order of their addresses. A put and a get across each
 * boundary of two pieces, of one segment and of many, move exactly the bytes of the region.
 */
static void pieces_are_one_region(const struct setting *set)
{
    static const uint64_t starts[] = {0, 99, 100, 101, 10050, 10100, 10101, 39000};
    static const uint64_t sizes[] = {1, 2, 150, 176, 9000, 29899};
    static uint8_t memory[PIECED + 3], out[PIECED], in[PIECED];
    const struct fabemu_iov pieces[] = {{memory + 30000, 100},
                                        {memory, 0},
                                        {memory + 20000, 10000},
                                        {memory + 30101, 9902}};
    struct fixture *w = malloc(sizeof *w);
    uint64_t key = UINT64_MAX;
    struct fabemu_req req = {0};

    fixture_open(w, set);
    CU_ASSERT_EQUAL_FATAL(fabemu_registerv(w->fab[1], pieces, 4,
                                           FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE |
                                               FABEMU_CHOSEN_KEY,
                                           &key),
                          0);
    for (unsigned i = 0; i < 48; i++) {
        uint64_t at = starts[i % 8], bytes = sizes[i / 8];

        if (at + bytes > 20002)
            continue;
        for (uint64_t k = 0; k < bytes; k++)
            out[k] = (uint8_t)(i + k * 5 + (k >> 8) + 1);
        memset(memory, 0, sizeof memory);
        CU_ASSERT_EQUAL_FATAL(fabemu_put(w->fab[0], 1, key, at, out, bytes, &req), 0);
        CU_ASSERT_TRUE_FATAL(finish(w, &req));
        for (uint64_t k = 0; k < 20002; k++) {
            uint8_t is = k < 100     ? memory[30000 + k]
                         : k < 10100 ? memory[20000 + k - 100]
                                     : memory[30101 + k - 10100];

            CU_ASSERT_EQUAL_FATAL(is, k >= at && k < at + bytes ? out[k - at] : 0);
        }
        CU_ASSERT_EQUAL_FATAL(fabemu_get(w->fab[0], 1, key, at, in, bytes, &req), 0);
        CU_ASSERT_TRUE_FATAL(finish(w, &req));
        CU_ASSERT_TRUE(!memcmp(in, out, bytes));
    }
    req = (struct fabemu_req){0};
    CU_ASSERT_EQUAL_FATAL(fabemu_put(w->fab[0], 1, key, 20000, out, 3, &req), 0);
    CU_ASSERT_TRUE_FATAL(finish(w, &req));
    CU_ASSERT_EQUAL(req.status, -EACCES);
    CU_ASSERT_EQUAL(fabemu_unregister(w->fab[1], key), 0);
    fixture_close(w);
    free(w);
}

/* Put @bytes at @to, and return the status. */
static int put_status(struct fixture *w, uint64_t key, const uint8_t *to, uint64_t bytes)
{
    static const uint8_t from[300] = {1};
    struct fabemu_req req = {0};

    CU_ASSERT_EQUAL_FATAL(fabemu_put(w->fab[0], 1, key, (uintptr_t)to, from, bytes, &req), 0);
    CU_ASSERT_TRUE_FATAL(finish(w, &req));
    return req.status;
}

/* Peers may access the parts that a region has now, also two of them that have no gap. */
static void parts_come_and_go(const struct setting *set)
{
    static uint8_t memory[2000];
    struct fixture *w = malloc(sizeof *w);
    uint64_t key = 0;
    const unsigned access = FABEMU_REMOTE_WRITE | FABEMU_BY_PARTS;
    struct fabemu *fab;

    fixture_open(w, set);
    fab = w->fab[1];
    CU_ASSERT_EQUAL(fabemu_register(fab, memory, 1, access, &key), -EINVAL);
    CU_ASSERT_EQUAL_FATAL(fabemu_register(fab, NULL, 0, access, &key), 0);
    CU_ASSERT_EQUAL(put_status(w, key, memory, 1), -EACCES);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, key, memory + 1000, 100), 0);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, key, memory + 1200, 100), 0);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, key, memory + 1099, 2), -EEXIST);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, key, memory, 1001), -EEXIST);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, key, memory, 0), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, w->memory[1].key, memory, 1), -ENOENT);
    CU_ASSERT_EQUAL(put_status(w, key, memory + 1050, 200), -EACCES); /* over the gap */
    CU_ASSERT_EQUAL(fabemu_region_add(fab, key, memory + 1100, 100), 0);
    CU_ASSERT_EQUAL(put_status(w, key, memory + 1000, 300), 0);
    CU_ASSERT_EQUAL(put_status(w, key, memory + 1001, 300), -EACCES);
    CU_ASSERT_EQUAL(put_status(w, key, memory + 999, 1), -EACCES);
    CU_ASSERT_EQUAL(fabemu_region_remove(fab, key, memory + 1001), -ENOENT);
    CU_ASSERT_EQUAL(fabemu_region_remove(fab, key, memory + 1000), 0);
    CU_ASSERT_EQUAL(put_status(w, key, memory + 1099, 1), -EACCES);
    CU_ASSERT_EQUAL(put_status(w, key, memory + 1100, 200), 0);
    CU_ASSERT_EQUAL(fabemu_unregister(fab, key), 0);
    CU_ASSERT_EQUAL(fabemu_region_remove(fab, key, memory + 1100), -ENOENT);
    fixture_close(w);
    free(w);
}

/* Chosen keys may be any numbers; a number that is in use is refused. */
static void chosen_keys(const struct setting *set)
{
    static const uint64_t keys[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, 0x12345};
    const unsigned access = FABEMU_REMOTE_READ | FABEMU_CHOSEN_KEY;
    struct fixture *w = malloc(sizeof *w);
    uint8_t memory[5] = {10, 11, 12, 13, 14}, got = 0;
    uint64_t key;

    fixture_open(w, set);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 5; i++) {
            struct fabemu_req req = {0};

            key = keys[i];
            CU_ASSERT_EQUAL(fabemu_register(w->fab[1], &memory[i], 1, access, &key), 0);
            CU_ASSERT_EQUAL(fabemu_register(w->fab[1], memory, 1, access, &key), -EEXIST);
            CU_ASSERT_EQUAL_FATAL(fabemu_get(w->fab[0], 1, keys[i], 0, &got, 1, &req), 0);
            CU_ASSERT_TRUE_FATAL(finish(w, &req));
            CU_ASSERT_EQUAL(got, memory[i]);
        }
        key = w->memory[1].key;
        CU_ASSERT_EQUAL(fabemu_register(w->fab[1], memory, 1, access, &key), -EEXIST);
        for (unsigned i = 0; i < 5 && !round; i++)
            CU_ASSERT_EQUAL(fabemu_unregister(w->fab[1], keys[i]), 0);
        CU_ASSERT_EQUAL(fabemu_unregister(w->fab[1], 77), -ENOENT);
    }
    fixture_close(w);
    free(w);
}

/* --- traps -------------------------------------------------------------------------- */

#define PAGE  4096u
#define PAGES 256u

/* A region of node 1's memory that other nodes access by address. */
struct mapping {
    struct fixture w;
    uint8_t *at; /* PAGES pages, at first all mapped and 0 */
    uint64_t key;
    struct fabemu_event event;
};

static void mapping_open(struct mapping *m, const struct setting *set)
{
    fixture_open(&m->w, set);
    m->at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CU_ASSERT_TRUE_FATAL(m->at != MAP_FAILED);
    CU_ASSERT_EQUAL_FATAL(fabemu_register(m->w.fab[1], NULL, SIZE_MAX,
                                          FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE |
                                              FABEMU_REMOTE_ATOMIC | FABEMU_TRAPS,
                                          &m->key),
                          0);
    CU_ASSERT_EQUAL_FATAL(fabemu_event_open(m->w.fab[1], &m->event), 0);
    CU_ASSERT_EQUAL(fabemu_trap_event(m->w.fab[1], &m->event), 0);
}

static void mapping_close(struct mapping *m)
{
    struct fabemu_trap last;

    fabemu_traps(m->w.fab[1], &last);
    CU_ASSERT_EQUAL(last.count, fabemu_event_count(&m->event));
    fabemu_event_close(&m->event);
    munmap(m->at, PAGES * PAGE);
    for (uint32_t n = 0; n < 2; n++) /* DATA that arrived after the end of its transfer */
        m->w.fab[n]->counts.stale = 0;
    fixture_close(&m->w);
}

static void mapping_map(struct mapping *m, uint32_t page)
{
    CU_ASSERT_TRUE_FATAL(mmap(m->at + page * PAGE, PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

static bool is_zero(const uint8_t *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i])
            return false;
    return true;
}

/* Put to or get from an address of node 1. Returns the status at the origin, node 0. */
static int move(struct mapping *m, bool put, uintptr_t at, size_t bytes)
{
    static uint8_t buf[PAGES * PAGE];
    struct fabemu_req req = {0};

    memset(buf, 0x5a, bytes);
    CU_ASSERT_EQUAL_FATAL((put ? fabemu_put(m->w.fab[0], 1, m->key, at, buf, bytes, &req)
                               : fabemu_get(m->w.fab[0], 1, m->key, at, buf, bytes, &req)),
                          0);
    CU_ASSERT_TRUE_FATAL(finish(&m->w, &req));
    return req.status;
}

static int add(struct mapping *m, uintptr_t at, unsigned op)
{
    uint64_t operand = 3, result = 0;
    struct fabemu_req req = {0};
    struct fabemu_atomic atomic = {.node = 1,
                                   .key = m->key,
                                   .offset = at,
                                   .op = op,
                                   .type = FABEMU_U64,
                                   .operand = op == FABEMU_ATOMIC_FETCH ? NULL : &operand,
                                   .result = &result};

    CU_ASSERT_EQUAL_FATAL(fabemu_atomic(m->w.fab[0], &atomic, &req), 0);
    CU_ASSERT_TRUE_FATAL(finish(&m->w, &req));
    return req.status;
}

/* Pages 2 and 5 are not mapped, page 3 is for reading only. */
static void unmapped_traps(const struct setting *set)
{
    struct mapping *m = malloc(sizeof *m);
    struct fabemu_trap last;
    uintptr_t at;

    mapping_open(m, set);
    at = (uintptr_t)m->at;
    munmap(m->at + 2 * PAGE, PAGE);
    munmap(m->at + 5 * PAGE, PAGE);
    mprotect(m->at + 3 * PAGE, PAGE, PROT_READ);
    for (int put = 0; put < 2; put++) {
        CU_ASSERT_EQUAL(move(m, put, at + 2 * PAGE + 8, 8), -EFAULT);
        CU_ASSERT_EQUAL(move(m, put, at + 2 * PAGE - 100, 101), -EFAULT); /* over its end */
        CU_ASSERT_EQUAL(move(m, put, at, 10 * PAGE), -EFAULT);            /* long */
        CU_ASSERT_EQUAL(move(m, put, (uintptr_t)1 << 63, 8), -EFAULT);    /* no user address */
        CU_ASSERT_EQUAL(move(m, put, at + 3 * PAGE, 8), put ? -EFAULT : 0);
        CU_ASSERT_EQUAL(add(m, at + 3 * PAGE, put ? FABEMU_ATOMIC_ADD : FABEMU_ATOMIC_FETCH),
                        put ? -EFAULT : 0);
        CU_ASSERT_EQUAL(add(m, at + 2 * PAGE, put ? FABEMU_ATOMIC_ADD : FABEMU_ATOMIC_FETCH),
                        -EFAULT);
    }
    CU_ASSERT_TRUE(is_zero(m->at, 2 * PAGE));
    CU_ASSERT_TRUE(is_zero(m->at + 3 * PAGE, 2 * PAGE));
    CU_ASSERT_TRUE(is_zero(m->at + 6 * PAGE, 4 * PAGE));
    fabemu_traps(m->w.fab[1], &last);
    CU_ASSERT_EQUAL(last.count, 12);
    CU_ASSERT_TRUE(last.node == 0 && last.status == -EFAULT && last.key == m->key &&
                   last.offset == at + 2 * PAGE && last.bytes == 8);
    mapping_map(m, 2);
    mapping_map(m, 3);
    mapping_map(m, 5);
    CU_ASSERT_EQUAL(move(m, true, at, 10 * PAGE), 0);
    CU_ASSERT_EQUAL(m->at[2 * PAGE], 0x5a);
    CU_ASSERT_EQUAL(add(m, at + 2 * PAGE, FABEMU_ATOMIC_ADD), 0);
    CU_ASSERT_EQUAL(m->at[2 * PAGE], 0x5d);
    m->key++;
    CU_ASSERT_EQUAL(move(m, true, at, 8), -EACCES);
    fabemu_traps(m->w.fab[1], &last);
    CU_ASSERT_TRUE(last.count == 13 && last.status == -EACCES && last.key == m->key);
    mapping_close(m);
    free(m);
}

/* A region of parts also traps: pages 0 to 3 and 5 are parts, and page 2 is not mapped. */
static void parts_trap(const struct setting *set)
{
    struct mapping *m = malloc(sizeof *m);
    struct fabemu *fab;
    uintptr_t at;

    mapping_open(m, set);
    fab = m->w.fab[1];
    at = (uintptr_t)m->at;
    CU_ASSERT_EQUAL_FATAL(fabemu_register(fab, NULL, 0,
                                          FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE |
                                              FABEMU_REMOTE_ATOMIC | FABEMU_TRAPS | FABEMU_BY_PARTS,
                                          &m->key),
                          0);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, m->key, m->at, 3 * PAGE), 0);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, m->key, m->at + 3 * PAGE, PAGE), 0);
    CU_ASSERT_EQUAL(fabemu_region_add(fab, m->key, m->at + 5 * PAGE, PAGE), 0);
    munmap(m->at + 2 * PAGE, PAGE);
    for (int put = 0; put < 2; put++) {
        CU_ASSERT_EQUAL(move(m, put, at, 2 * PAGE), 0);
        CU_ASSERT_EQUAL(move(m, put, at + 2 * PAGE, 8), -EFAULT);
        CU_ASSERT_EQUAL(move(m, put, at, 4 * PAGE), -EFAULT); /* two parts */
        CU_ASSERT_EQUAL(move(m, put, at + 4 * PAGE, 8), -EACCES);
        CU_ASSERT_EQUAL(move(m, put, at + 3 * PAGE, 2 * PAGE), -EACCES);
        CU_ASSERT_EQUAL(add(m, at + 2 * PAGE, put ? FABEMU_ATOMIC_ADD : FABEMU_ATOMIC_FETCH),
                        -EFAULT);
    }
    CU_ASSERT_TRUE(is_zero(m->at + 3 * PAGE, PAGE));
    mapping_map(m, 2);
    CU_ASSERT_EQUAL(move(m, true, at, 4 * PAGE), 0);
    CU_ASSERT_EQUAL(add(m, at + 2 * PAGE, FABEMU_ATOMIC_ADD), 0);
    CU_ASSERT_EQUAL(m->at[2 * PAGE], 0x5d);
    CU_ASSERT_EQUAL(fabemu_region_remove(fab, m->key, m->at), 0);
    CU_ASSERT_EQUAL(move(m, false, at, 8), -EACCES);
    CU_ASSERT_EQUAL(move(m, false, at + 3 * PAGE, PAGE), 0);
    mapping_close(m);
    free(m);
}

/* In the middle of a transfer the second half of the memory is unmapped, or the region ends. */
static void transfer_ends(const struct setting *set, bool put, bool unregister)
{
    struct mapping *m = malloc(sizeof *m);
    uint8_t *buf = calloc(PAGES, PAGE), *to = buf;
    struct fabemu_req req = {0};

    mapping_open(m, set);
    memset(put ? buf : m->at, 0x5a, PAGES * PAGE);
    to = put ? m->at : buf;
    CU_ASSERT_EQUAL_FATAL(
        (put ? fabemu_put(m->w.fab[0], 1, m->key, (uintptr_t)m->at, buf, PAGES * PAGE, &req)
             : fabemu_get(m->w.fab[0], 1, m->key, (uintptr_t)m->at, buf, PAGES * PAGE, &req)),
        0);
    for (uint32_t i = 0; i < 1000000 && is_zero(to, PAGES * PAGE / 2); i++)
        pump(&m->w);
    CU_ASSERT_EQUAL_FATAL(fabemu_req_status(&req), FABEMU_PENDING);
    if (unregister) {
        CU_ASSERT_EQUAL(fabemu_unregister(m->w.fab[1], m->key), 0);
        memset(to, 0, PAGES * PAGE);
    } else {
        munmap(m->at + PAGES * PAGE / 2, PAGES * PAGE / 2);
    }
    CU_ASSERT_TRUE_FATAL(finish(&m->w, &req));
    CU_ASSERT_EQUAL(req.status, unregister ? -EACCES : -EFAULT);
    CU_ASSERT_TRUE(!unregister || !put || is_zero(to, PAGES * PAGE));
    mapping_close(m);
    free(buf);
    free(m);
}

static const struct setting settings[] = {
    {.shuffle = false},
    {.shuffle = true},
    {.shuffle = true, .acknowledged = true},
    {.profile = "oq2004"},
    {.profile = "oq2004", .set = "transport=acknowledged", .acknowledged = true},
    {.profile = "qsnet3", .acknowledged = true},
    {.profile = "qsnet3", .acknowledged = true, .bad = 2000},
    {.profile = "qsnet3", .set = "transport=none"},
};

#define SETTINGS (sizeof settings / sizeof settings[0])
#define FAKE     3u /* the first of them */

static void memory__agrees_with_the_model_over_a_fake_fabric(void)
{
    test_each_setting (i, FAKE)
        memory_at_random(&settings[i]);
}

static void memory__agrees_with_the_model_over_a_fabric(void)
{
    test_each_setting (i, SETTINGS - FAKE)
        memory_at_random(&settings[FAKE + i]);
}

static void send__completed_is_not_overtaken(void)
{
    test_each_setting (i, SETTINGS)
        completed_is_delivered(&settings[i]);
}

static void registerv__makes_one_region_of_pieces(void)
{
    test_each_setting (i, SETTINGS)
        pieces_are_one_region(&settings[i]);
}

static void region__has_the_parts_that_were_added(void)
{
    test_each_setting (i, SETTINGS)
        parts_come_and_go(&settings[i]);
}

static void register__accepts_chosen_keys(void)
{
    test_each_setting (i, SETTINGS)
        chosen_keys(&settings[i]);
}

static void traps__fail_at_the_origin(void)
{
    test_each_setting (i, SETTINGS)
        unmapped_traps(&settings[i]);
}

static void traps__of_parts_fail_at_the_origin(void)
{
    test_each_setting (i, SETTINGS)
        parts_trap(&settings[i]);
}

static void traps__end_a_transfer(void)
{
    test_each_setting (i, SETTINGS)
        for (int how = 0; how < 4; how++)
            if (how & 1 ||
                settings[i].profile) /* the fake fabric takes all data of a get at once */
                transfer_ends(&settings[i], how & 1, how & 2);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(memory__agrees_with_the_model_over_a_fake_fabric),
        CASE(memory__agrees_with_the_model_over_a_fabric),
        CASE(send__completed_is_not_overtaken),
        CASE(registerv__makes_one_region_of_pieces),
        CASE(region__has_the_parts_that_were_added),
        CASE(register__accepts_chosen_keys),
        CASE(traps__fail_at_the_origin),
        CASE(traps__of_parts_fail_at_the_origin),
        CASE(traps__end_a_transfer),
        {0},
    };

    if (argc > 1)
        times = (unsigned)strtoul(argv[1], NULL, 0);
    return test_run("nic_memory", cases);
}
