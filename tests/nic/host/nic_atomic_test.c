/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_atomic_test.c - atomics on registered memory: permissions, order, concurrency, hostile input.
 * Their results: nic_atomic_model_test.c.
 *
 * One thread steps the adapters and a fake fabric alternately, except where noted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

static int post(struct peers *w, uint32_t from, const struct fabemu_atomic *what,
                struct fabemu_req *req)
{
    memset(req, 0, sizeof *req);
    return fabemu_atomic(w->fab[from], what, req);
}

static int run(struct peers *w, uint32_t from, const struct fabemu_atomic *what)
{
    struct fabemu_req req;
    int err = post(w, from, what, &req);

    if (err)
        return err;
    CU_ASSERT_TRUE_FATAL(fake_finish(w->fake, &req, 1));
    return req.status;
}

/* The target checks permissions each time, also for the node's own memory. */
static void atomic__refuses_missing_permissions(void)
{
    struct peers w;
    static uint64_t word;
    static uint8_t bytes[64];
    uint64_t read, write, both, atomic, narrow, v = 1, old = 7;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_READ, &read);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_WRITE, &write);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &both);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_ATOMIC, &atomic);
    fabemu_register(w.fab[1], bytes + 1, 60, FABEMU_REMOTE_ATOMIC, &narrow);

    const struct {
        uint64_t key, offset;
        unsigned op;
        bool fetch;
        int status;
    } c[] = {
        {read, 0, FABEMU_ATOMIC_ADD, false, -EACCES},
        {read, 0, FABEMU_ATOMIC_ADD, true, -EACCES},
        {read, 0, FABEMU_ATOMIC_FETCH, true, 0},
        {write, 0, FABEMU_ATOMIC_ADD, false, 0},
        {write, 0, FABEMU_ATOMIC_ADD, true, -EACCES},
        {write, 0, FABEMU_ATOMIC_FETCH, true, -EACCES},
        {write, 0, FABEMU_ATOMIC_CAS, false, 0},
        {both, 0, FABEMU_ATOMIC_SWAP, true, 0},
        {atomic, 0, FABEMU_ATOMIC_CAS, true, 0},
        {atomic, 0, FABEMU_ATOMIC_FETCH, true, 0},
        {atomic, 1, FABEMU_ATOMIC_ADD, false, -EACCES},
        {atomic, 8, FABEMU_ATOMIC_ADD, false, -EACCES},
        {atomic, UINT64_MAX - 3, FABEMU_ATOMIC_ADD, false, -EACCES},
        {atomic ^ 1 << 21, 0, FABEMU_ATOMIC_ADD, false, -EACCES},
        {narrow, 0, FABEMU_ATOMIC_ADD, false, -EINVAL},
        {12345, 0, FABEMU_ATOMIC_ADD, false, -EACCES},
        {atomic | UINT64_C(1) << 63, 0, FABEMU_ATOMIC_ADD, false, -EACCES},
    };
    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        struct fabemu_atomic what = {.node = 1,
                                     .key = c[i].key,
                                     .offset = c[i].offset,
                                     .op = c[i].op,
                                     .type = FABEMU_U64,
                                     .operand = &v,
                                     .compare = &v,
                                     .result = c[i].fetch ? &old : NULL};

        CU_ASSERT_EQUAL(run(&w, 0, &what), c[i].status);
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* Invalid, out-of-range and unknown targets; the node's own memory needs permissions too. */
static void atomic__refuses_invalid_requests(void)
{
    struct peers w;
    static uint64_t word;
    uint64_t both, v = 1, old = 41;
    struct fabemu_req req = {0};
    struct fabemu_atomic bad;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE, &both);
    bad =
        (struct fabemu_atomic){.node = 1, .key = both, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64};
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EINVAL); /* no operand */
    bad.operand = &v;
    bad.op = FABEMU_ATOMIC_CAS;
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EINVAL); /* nothing to compare with */
    bad.op = FABEMU_ATOMIC_OPS;
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EINVAL);
    bad = (struct fabemu_atomic){.node = 2, .key = both, .type = FABEMU_U64, .operand = &v};
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EHOSTUNREACH);
    bad = (struct fabemu_atomic){.node = 1, .key = both, .type = FABEMU_F32_F32, .operand = &v};
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EINVAL);
    bad.type = FABEMU_F128; /* is too large to be copied */
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EINVAL);
    bad.type = FABEMU_U64;
    CU_ASSERT_EQUAL(fabemu_atomic_array(w.fab[0], &bad, 0, &req), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_atomic_array(w.fab[0], &bad, (1 << 27) + 1, &req), -EMSGSIZE);
    bad.result = &old;
    CU_ASSERT_EQUAL(fabemu_atomic_array(w.fab[0], &bad, 2049, &req), -EMSGSIZE);
    req.unconfirmed = true; /* then no answer brings the result of a batch */
    CU_ASSERT_EQUAL(fabemu_atomic_array(w.fab[0], &bad, 100, &req), -EINVAL);
    bad = (struct fabemu_atomic){.node = 0, .key = both, .type = FABEMU_U64, .operand = &v};
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EACCES); /* the node itself has no such key */
    fabemu_register(w.fab[0], &old, 8, FABEMU_REMOTE_ATOMIC, &bad.key);
    CU_ASSERT_EQUAL(run(&w, 0, &bad), 0);
    CU_ASSERT_EQUAL(old, 42);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* --- order and concurrency ---------------------------------------------------------- */

/* Requests are executed in post order however segments travel: a put, then an atomic. */
static void atomic__follows_earlier_requests(void)
{
    enum { MANY = 3000 };
    static uint64_t memory[2], sum[MANY];
    static struct fabemu_req put[MANY], add[MANY];
    struct peers w;
    uint64_t key, one = 1;
    bool good = true;

    peers_open(&w, 2, true);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                    &key);
    for (uint64_t i = 0; i < MANY; i++) {
        static uint64_t value[MANY];
        struct fabemu_atomic what = {.node = 1,
                                     .key = key,
                                     .op = FABEMU_ATOMIC_ADD,
                                     .type = FABEMU_U64,
                                     .operand = &one,
                                     .result = &sum[i]};

        value[i] = 10 * i;
        memset(&put[i], 0, sizeof put[i]);
        CU_ASSERT_EQUAL(fabemu_put(w.fab[0], 1, key, 0, &value[i], 8, &put[i]), 0);
        CU_ASSERT_EQUAL(post(&w, 0, &what, &add[i]), 0);
        if (test_random(&w.random) % 8 == 0)
            fake_pump(w.fake);
    }
    CU_ASSERT_TRUE(fake_finish(w.fake, put, MANY) && fake_finish(w.fake, add, MANY));
    for (uint64_t i = 0; i < MANY; i++)
        good = good && put[i].status == 0 && add[i].status == 0 && sum[i] == 10 * i;
    CU_ASSERT_TRUE(good);
    CU_ASSERT_EQUAL(memory[0], 10 * (MANY - 1) + 1);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

static atomic_bool adders_done; /* shared between these threads only */

/* A thread of the target that updates the word until the adapters are done. */
struct counter {
    _Atomic uint64_t *word;
    uint64_t times;
};

static void *run_counting(void *argument)
{
    struct counter *c = argument;

    for (; !atomic_load_explicit(&adders_done, memory_order_relaxed); c->times++)
        atomic_fetch_add_explicit(c->word, 3, memory_order_relaxed);
    return NULL;
}

struct adder {
    struct peers *w;
    uint32_t node;
    uint64_t key;
};

static void *run_adder(void *argument)
{
    struct adder *a = argument;
    struct fabemu *fab = a->w->fab[a->node];
    uint64_t old = 0, five = 5, five_twice[4] = {5, 0, 5, 0};

    for (int i = 0; i < 300; i++) {
        struct fabemu_req req = {0};
        struct fabemu_atomic add = {.node = 0,
                                    .key = a->key,
                                    .op = FABEMU_ATOMIC_ADD,
                                    .type = FABEMU_U64,
                                    .operand = &five,
                                    .result = &old};
        uint64_t before = old;

        if (fabemu_atomic(fab, &add, &req) || fabemu_wait(fab, &req) || (i && old < before + 5))
            abort();
        add.offset = sizeof old;
        add.type = FABEMU_I128;
        add.operand = five_twice;
        add.result = NULL;
        if (fabemu_atomic_array(fab, &add, 2, &req) || fabemu_wait(fab, &req))
            abort();
    }
    return NULL;
}

/*
 * Many adapters and the target's own threads update one word, and the adapters also elements of 16
 * bytes: nothing is lost or executed twice.
 */
static void atomic__is_atomic_among_threads_and_adapters(void)
{
    static struct {
        _Atomic uint64_t word;
        uint64_t wide[2][2]; /* low and high half of each */
    } memory;
    struct peers w;
    struct adder adder[3];
    struct counter counter = {.word = &memory.word};
    pthread_t thread[4];
    uint64_t key;

    peers_open(&w, 4, false);
    atomic_store(&adders_done, false);
    memset(&memory, 0, sizeof memory);
    fabemu_register(w.fab[0], &memory, sizeof memory, FABEMU_REMOTE_ATOMIC, &key);
    CU_ASSERT_EQUAL_FATAL(nic_thread_start(&w.fab[0]->thread, w.fab[0]), 0);
    fake_start(w.fake);
    pthread_create(&thread[3], NULL, run_counting, &counter);
    for (uint32_t i = 0; i < 3; i++) {
        adder[i] = (struct adder){.w = &w, .node = 1 + i, .key = key};
        pthread_create(&thread[i], NULL, run_adder, &adder[i]);
    }
    for (uint32_t i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&adders_done, true);
    pthread_join(thread[3], NULL);
    fake_stop(w.fake);
    nic_thread_stop(w.fab[0]->thread);
    CU_ASSERT_EQUAL(atomic_load(&memory.word), 3 * 300 * 5 + 3 * counter.times);
    for (unsigned i = 0; i < 2; i++)
        CU_ASSERT_TRUE(memory.wide[i][0] == 3 * 300 * 5 && !memory.wide[i][1]);
    peers_close(&w);
}

/* An atomic that is aborted in flight ends at once, and its result is not written. */
static void atomic__can_be_aborted(void)
{
    struct peers w;
    struct fabemu_req req;
    uint64_t key, word = 1, one = 1, old = 99;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_ATOMIC, &key);
    struct fabemu_atomic add = {
        .node = 1, .key = key, .type = FABEMU_U64, .operand = &one, .result = &old};
    CU_ASSERT_EQUAL(run(&w, 0, &add), 0);
    CU_ASSERT_EQUAL(old, 1);
    CU_ASSERT_EQUAL(post(&w, 0, &add, &req), 0);
    CU_ASSERT_EQUAL(fabemu_abort(w.fab[0], &req), -ECANCELED);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(old, 1);
    CU_ASSERT_EQUAL(word, 3); /* it was already in flight */
    CU_ASSERT_EQUAL(w.fab[0]->counts.stale, 1);
    peers_close(&w);
}

/* --- hostile input ------------------------------------------------------------------ */

static void send_raw(struct peers *w, uint32_t at, uint32_t seq, const void *payload, size_t bytes)
{
    struct emu_seg seg = {.hdr = {.dst = at, .src = !at, .seq = seq, .len = (uint8_t)bytes}};

    memcpy(seg.payload, payload, bytes);
    CU_ASSERT_TRUE(fake_inject(w->fake, at, &seg));
    fabemu_progress(w->fab[at]);
}

#define LONG 3000

static int run_long(struct peers *w, const struct fabemu_atomic *what)
{
    struct fabemu_req req = {0};
    int err = fabemu_atomic_array(w->fab[0], what, LONG, &req);

    if (err)
        return err;
    CU_ASSERT_TRUE_FATAL(fake_finish(w->fake, &req, 1));
    return req.status;
}

/* Return whether memory[i] is @factor * i + @sum for all elements. */
static bool memory_is(const uint64_t *memory, uint64_t factor, uint64_t sum)
{
    for (uint64_t i = 0; i <= LONG; i++)
        if (memory[i] != (i < LONG ? factor * i + sum : 0))
            return false;
    return true;
}

/*
 * An atomic of several segments changes each element once, and a later atomic finds all elements
 * changed. If the target refuses it, no element has changed.
 */
static void atomic__changes_long_arrays(void)
{
    struct peers w;
    static uint64_t memory[LONG + 1], operands[LONG];
    uint64_t old = 0, one = 1;

    peers_open(&w, 2, false);
    struct fabemu_atomic add = {.node = 1, .type = FABEMU_U64, .operand = operands};
    struct fabemu_atomic last = {.node = 1,
                                 .offset = (LONG - 1) * sizeof one,
                                 .type = FABEMU_U64,
                                 .operand = &one,
                                 .result = &old};
    struct fabemu_req first = {0}, second = {0};

    memset(memory, 0, sizeof memory);
    for (uint64_t i = 0; i < LONG; i++)
        operands[i] = i;
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_ATOMIC, &add.key);
    last.key = add.key;
    CU_ASSERT_EQUAL(run_long(&w, &add), 0);
    CU_ASSERT_TRUE(memory_is(memory, 1, 0));
    CU_ASSERT_EQUAL(fabemu_atomic_array(w.fab[0], &add, LONG, &first), 0);
    CU_ASSERT_EQUAL(post(&w, 0, &last, &second), 0);
    CU_ASSERT_TRUE(fake_finish(w.fake, &second, 1) && fake_finish(w.fake, &first, 1));
    CU_ASSERT_EQUAL(old, 2 * (LONG - 1));
    memory[LONG - 1]--;
    CU_ASSERT_TRUE(memory_is(memory, 2, 0));
    add.offset = 2 * sizeof memory[0];
    CU_ASSERT_EQUAL(run_long(&w, &add), -EACCES);
    add.offset = 4;
    CU_ASSERT_EQUAL(run_long(&w, &add), -EINVAL);
    CU_ASSERT_TRUE(memory_is(memory, 2, 0));
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

struct raw_atomic {
    struct nic_wire_atomic head;
    uint64_t operand[23];
};

/* Make a request invalid, in one of INVALID ways. Returns its new length. */
#define INVALID 11
static size_t make_invalid(struct raw_atomic *atomic, unsigned how, size_t length)
{
    struct nic_wire_atomic *head = &atomic->head;

    if (how == 1)
        head->op = FABEMU_ATOMIC_OPS;
    if (how == 2)
        head->type = FABEMU_F64_F64;
    if (how == 3)
        head->mem.bytes = 4;
    if (how == 4)
        head->flags = 2;
    if (how == 5) {
        head->type = FABEMU_F64;
        head->op = FABEMU_ATOMIC_XOR;
    }
    if (how == 6)
        head->op = FABEMU_ATOMIC_CAS; /* has a second operand */
    if (how == 7)
        head->op = FABEMU_ATOMIC_FETCH; /* has none */
    if (how == 8)
        head->mem.bytes = 0;
    if (how == 9)
        head->mem.bytes = UINT64_MAX - 7;
    if (how == 10) {
        head->type = 255;
        head->op = 255;
    }
    return how == 8 ? sizeof *head : how ? length : sizeof *head - 1;
}

static void receive__executes_no_invalid_atomic(void)
{
    struct peers w;
    struct raw_atomic atomic;
    static uint64_t word;
    uint64_t key, one = 1;
    uint32_t check, seq;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[0], &word, 8, FABEMU_REMOTE_ATOMIC, &key);
    struct fabemu_atomic add = {.node = 0, .key = key, .type = FABEMU_U64, .operand = &one};
    CU_ASSERT_EQUAL(run(&w, 1, &add), 0);
    check = w.fab[0]->peers[1].rx_check;
    seq = w.fab[0]->peers[1].rx_next;
    const struct raw_atomic good = {.head = {.mem = {.head = {.what = NIC_ATOMIC, .check = check},
                                                     .id = 1,
                                                     .key = key,
                                                     .bytes = 8},
                                             .type = FABEMU_U64},
                                    .operand = {1}};
    const size_t length = sizeof good.head + 8;

    for (unsigned i = 0; i < INVALID; i++) {
        size_t bytes;

        atomic = good;
        bytes = make_invalid(&atomic, i, length);
        send_raw(&w, 0, seq++, &atomic, bytes);
        CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, i + 1);
    }
    send_raw(&w, 0, seq, &good, length);
    CU_ASSERT_EQUAL(word, 2);
    for (unsigned i = 0; i < 3; i++) /* another one: the number was used before */
        send_raw(&w, 0, seq, &good, length);
    CU_ASSERT_EQUAL(word, 2);
    CU_ASSERT_EQUAL(w.fab[0]->counts.out_of_window, 3);
    peers_close(&w);
}

/*
 * Rejected: a result of the wrong length, for another operation, or repeated; and a FIN for an
 * atomic that awaits a result.
 */
static void receive__accepts_only_its_own_result(void)
{
    struct peers w;
    struct fabemu_req req, get = {0};
    static uint64_t word, mine;
    uint64_t key, one = 1, old = 55;
    uint32_t check;

    peers_open(&w, 3, false);
    fabemu_register(w.fab[1], &word, 8, FABEMU_REMOTE_ATOMIC | FABEMU_REMOTE_READ, &key);
    struct fabemu_atomic add = {
        .node = 1, .key = key, .type = FABEMU_U64, .operand = &one, .result = &old};
    CU_ASSERT_EQUAL(run(&w, 0, &add), 0);
    peers_inject(&w, 2, 0, 9, "x", 1);
    fake_quiet(w.fake);
    CU_ASSERT_EQUAL(post(&w, 0, &add, &req), 0);
    fabemu_get(w.fab[0], 1, key, 0, &mine, 8, &get);
    check = w.fab[0]->peers[1].rx_check;

    struct {
        struct nic_wire_result head;
        uint64_t value;
    } result = {.head = {.head = {.what = NIC_RESULT, .check = check}, .id = nic_op_of(&req)->id},
                .value = 1234};
    struct nic_wire_fin fin = {.head = {.what = NIC_FIN, .check = check},
                               .id = nic_op_of(&req)->id};
    send_raw(&w, 0, 0, &result, sizeof result - 8);
    send_raw(&w, 0, 0, &fin, sizeof fin);
    result.head.id = nic_op_of(&get)->id;
    send_raw(&w, 0, 0, &result, sizeof result);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 3);
    result.head.id = nic_op_of(&req)->id + 1;
    send_raw(&w, 0, 0, &result, sizeof result);
    CU_ASSERT_EQUAL(req.status, FABEMU_PENDING);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_TRUE(req.status == 0 && old == 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, &get, 1));
    result.head.id = 65; /* it has ended */
    send_raw(&w, 0, 0, &result, sizeof result);
    CU_ASSERT_EQUAL(old, 1);
    CU_ASSERT_TRUE(w.fab[0]->counts.stale >= 1);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(atomic__refuses_missing_permissions),
        CASE(atomic__refuses_invalid_requests),
        CASE(atomic__follows_earlier_requests),
        CASE(atomic__is_atomic_among_threads_and_adapters),
        CASE(atomic__can_be_aborted),
        CASE(atomic__changes_long_arrays),
        CASE(receive__executes_no_invalid_atomic),
        CASE(receive__accepts_only_its_own_result),
        {0},
    };

    return test_run("nic_atomic", cases);
}
