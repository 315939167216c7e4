/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_atomic_test.c - atomics on registered memory: results, permissions, order, concurrency.
 *
 * One thread steps the adapters and a fake fabric alternately, except where noted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "emu/util/combine.h"
#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

static const unsigned types[] = {FABEMU_I32, FABEMU_U32, FABEMU_I64, FABEMU_U64, FABEMU_F64};

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

/* --- results ------------------------------------------------------------------------ */

/* The result of @op on a word, computed in another way. The low bytes hold the type's bits. */
static uint64_t expected(unsigned op, unsigned type, uint64_t word, uint64_t operand,
                         uint64_t compare)
{
    bool wide = emu_type_bytes(type) == 8, sign = type == FABEMU_I32 || type == FABEMU_I64;
    uint64_t mask = wide ? UINT64_MAX : UINT32_MAX, after = word;
    int64_t a = wide ? (int64_t)word : (int32_t)(uint32_t)word;
    int64_t b = wide ? (int64_t)operand : (int32_t)(uint32_t)operand;
    bool more = sign ? a < b : word < operand;
    double x, y;

    memcpy(&x, &word, 8);
    memcpy(&y, &operand, 8);
    if (op == FABEMU_ATOMIC_ADD && type == FABEMU_F64) {
        x += y;
        memcpy(&after, &x, 8);
    } else if (op == FABEMU_ATOMIC_ADD) {
        after = word + operand;
    } else if (op == FABEMU_ATOMIC_AND) {
        after = word & operand;
    } else if (op == FABEMU_ATOMIC_OR) {
        after = word | operand;
    } else if (op == FABEMU_ATOMIC_XOR) {
        after = word ^ operand;
    } else if (op == FABEMU_ATOMIC_MIN) {
        after = more ? word : operand;
    } else if (op == FABEMU_ATOMIC_MAX) {
        after = more ? operand : word;
    } else if (op == FABEMU_ATOMIC_SWAP || (op == FABEMU_ATOMIC_CAS && word == compare)) {
        after = operand;
    }
    return after & mask;
}

static uint64_t draw(struct peers *w, unsigned type)
{
    uint64_t r = test_random(&w->random);
    double x = (double)(int64_t)(r >> 12) / 1000;

    if (type == FABEMU_F64) {
        memcpy(&r, &x, 8);
        return r;
    }
    if (r % 3 == 0)
        r = r % 4 - 2; /* values near 0, some of them equal */
    return emu_type_bytes(type) == 8 ? r : (uint32_t)r;
}

static void atomic__does_every_operation_on_every_type(void)
{
    struct peers w;
    alignas(8) static uint8_t memory[24];
    uint64_t key;

    peers_open(&w, 2, true);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_ATOMIC, &key);
    for (unsigned i = 0; i < 2000; i++) {
        unsigned op = i % FABEMU_ATOMIC_OPS, type = types[i / FABEMU_ATOMIC_OPS % 5];
        size_t bytes = emu_type_bytes(type);
        uint64_t word = draw(&w, type), operand = draw(&w, type), compare = draw(&w, type);
        uint64_t before = 0x5555555555555555, after = 0;
        struct fabemu_atomic what = {.node = 1,
                                     .key = key,
                                     .offset = 8,
                                     .op = op,
                                     .type = type,
                                     .operand = &operand,
                                     .compare = &compare,
                                     .result = i % 3 ? &before : NULL};
        uint64_t want = expected(op, type, word, operand, compare);

        if (op == FABEMU_ATOMIC_CAS && i % 2)
            want = expected(op, type, word, operand, compare = word);
        memset(memory, 0xee, sizeof memory);
        memcpy(memory + 8, &word, bytes);
        CU_ASSERT_EQUAL(run(&w, 0, &what), fabemu_atomic_ok(op, type) ? 0 : -EINVAL);
        if (!fabemu_atomic_ok(op, type))
            continue;
        memcpy(&after, memory + 8, bytes);
        CU_ASSERT_EQUAL(after, want);
        if (what.result) {
            CU_ASSERT_EQUAL(memcmp(&before, &word, bytes), 0);
        }
        CU_ASSERT_TRUE(memory[7] == 0xee && memory[8 + bytes] == 0xee && memory[16] == 0xee);
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
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
    bad = (struct fabemu_atomic){.node = 1, .key = both, .type = FABEMU_I16, .operand = &v};
    CU_ASSERT_EQUAL(run(&w, 0, &bad), -EINVAL);
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
    uint64_t old = 0, five = 5;

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
    }
    return NULL;
}

/* Many adapters and the target's own threads update one word: nothing is lost or executed twice. */
static void atomic__is_atomic_among_threads_and_adapters(void)
{
    static _Atomic uint64_t word;
    struct peers w;
    struct adder adder[3];
    struct counter counter = {.word = &word};
    pthread_t thread[4];
    uint64_t key;

    peers_open(&w, 4, false);
    atomic_store(&adders_done, false);
    atomic_store(&word, 0);
    fabemu_register(w.fab[0], &word, 8, FABEMU_REMOTE_ATOMIC, &key);
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
    CU_ASSERT_EQUAL(atomic_load(&word), 3 * 300 * 5 + 3 * counter.times);
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

static void receive__executes_no_invalid_atomic(void)
{
    struct peers w;
    struct nic_wire_atomic atomic;
    static uint64_t word;
    uint64_t key, one = 1;
    uint32_t check, seq;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[0], &word, 8, FABEMU_REMOTE_ATOMIC, &key);
    struct fabemu_atomic add = {.node = 0, .key = key, .type = FABEMU_U64, .operand = &one};
    CU_ASSERT_EQUAL(run(&w, 1, &add), 0);
    check = w.fab[0]->peers[1].rx_check;
    seq = w.fab[0]->peers[1].rx_next;
    const struct nic_wire_atomic good = {
        .mem = {.head = {.what = NIC_ATOMIC, .check = check}, .id = 1, .key = key, .bytes = 8},
        .type = FABEMU_U64,
        .operand = 1};

    for (unsigned i = 0; i < 6; i++) {
        atomic = good;
        if (i == 1)
            atomic.op = FABEMU_ATOMIC_OPS;
        if (i == 2)
            atomic.type = FABEMU_F64_F64;
        if (i == 3)
            atomic.mem.bytes = 4;
        if (i == 4)
            atomic.flags = 2;
        if (i == 5) {
            atomic.type = FABEMU_F64;
            atomic.op = FABEMU_ATOMIC_XOR;
        }
        send_raw(&w, 0, seq++, &atomic, i ? sizeof atomic : sizeof atomic - 1);
        CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, i + 1);
    }
    send_raw(&w, 0, seq, &good, sizeof good);
    CU_ASSERT_EQUAL(word, 2);
    for (unsigned i = 0; i < 3; i++) /* another one: the number was used before */
        send_raw(&w, 0, seq, &good, sizeof good);
    CU_ASSERT_EQUAL(word, 2);
    CU_ASSERT_EQUAL(w.fab[0]->counts.out_of_window, 3);
    peers_close(&w);
}

/*
 * Answers to atomics of the wrong length, to other operations, repeated, or a success where a
 * result is due.
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

    struct nic_wire_result result = {.head = {.what = NIC_RESULT, .check = check},
                                     .id = nic_op_of(&req)->id,
                                     .value = 1234};
    struct nic_wire_fin fin = {.head = {.what = NIC_FIN, .check = check},
                               .id = nic_op_of(&req)->id};
    send_raw(&w, 0, 0, &result, sizeof result - 8);
    send_raw(&w, 0, 0, &fin, sizeof fin);
    result.id = nic_op_of(&get)->id;
    send_raw(&w, 0, 0, &result, sizeof result);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 3);
    result.id = nic_op_of(&req)->id + 1;
    send_raw(&w, 0, 0, &result, sizeof result);
    CU_ASSERT_EQUAL(req.status, FABEMU_PENDING);
    CU_ASSERT_TRUE(fake_finish(w.fake, &req, 1));
    CU_ASSERT_TRUE(req.status == 0 && old == 1);
    CU_ASSERT_TRUE(fake_finish(w.fake, &get, 1));
    result.id = 65; /* it has ended */
    send_raw(&w, 0, 0, &result, sizeof result);
    CU_ASSERT_EQUAL(old, 1);
    CU_ASSERT_TRUE(w.fab[0]->counts.stale >= 1);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(atomic__does_every_operation_on_every_type),
        CASE(atomic__refuses_missing_permissions),
        CASE(atomic__refuses_invalid_requests),
        CASE(atomic__follows_earlier_requests),
        CASE(atomic__is_atomic_among_threads_and_adapters),
        CASE(atomic__can_be_aborted),
        CASE(receive__executes_no_invalid_atomic),
        CASE(receive__accepts_only_its_own_result),
        {0},
    };

    return test_run("nic_atomic", cases);
}
