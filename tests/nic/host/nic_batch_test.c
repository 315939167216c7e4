/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_batch_test.c - batches of puts, gets and atomics: their order and results, refused records,
 * hostile input.
 *
 * One thread steps the adapters and a fake fabric alternately, except where noted.
 */
#include <pthread.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define WORDS 4096

/* A list that a test builds. */
struct list {
    uint8_t bytes[64 << 10];
    size_t used;
};

static void list_append(struct list *list, const void *from, size_t bytes)
{
    memcpy(list->bytes + list->used, from, bytes);
    list->used += bytes;
    list->used += -list->used % FABEMU_RECORD_UNIT;
}

static void list_add(struct list *list, struct fabemu_record record, const void *data)
{
    list_append(list, &record, sizeof record);
    list_append(list, data, record.bytes);
}

static int list_fetch(struct peers *w, uint32_t from, uint64_t key, const struct list *list,
                      void *to, size_t bytes)
{
    const struct fabemu_iov iov = {(void *)(uintptr_t)list->bytes, list->used};
    struct fabemu_req req = {0};
    int err = fabemu_batchv(w->fab[from], 1, key, &iov, 1, &(struct fabemu_iov){to, bytes}, &req);

    if (err)
        return err;
    CU_ASSERT_TRUE_FATAL(fake_finish(w->fake, &req, 1));
    return req.status;
}

static int list_run(struct peers *w, uint32_t from, uint64_t key, const struct list *list)
{
    return list_fetch(w, from, key, list, NULL, 0);
}

/* Records of random sizes, in lists of 1 to 300 segments, give the same memory as a model. */
static void batch__executes_records_in_order(void)
{
    static uint64_t memory[WORDS], model[WORDS], data[WORDS];
    static struct list list;
    uint64_t random = test_seed(), key;
    struct peers w;

    peers_open(&w, 2, true); /* segments overtake each other */
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_WRITE, &key);
    for (int round = 0; round < 30; round++) {
        list.used = 0;
        while (list.used < (size_t)(1 + test_random(&random) % 16384)) {
            uint64_t at = test_random(&random) % WORDS, count;
            bool puts = test_random(&random) & 1;

            count = 1 + test_random(&random) % (test_random(&random) % 8 ? 4 : 1000);
            count = count < WORDS - at ? count : WORDS - at;
            for (uint64_t i = 0; i < count; i++) {
                data[i] = test_random(&random);
                model[at + i] = puts ? data[i] : model[at + i] + data[i];
            }
            list_add(&list,
                     (struct fabemu_record){.offset = 8 * at,
                                            .bytes = (uint32_t)(8 * count),
                                            .op = puts ? FABEMU_RECORD_PUT : FABEMU_ATOMIC_ADD,
                                            .type = FABEMU_U64},
                     data);
        }
        CU_ASSERT_EQUAL_FATAL(list_run(&w, round % 8 ? 0 : 1, key, &list), 0);
        CU_ASSERT_TRUE_FATAL(!memcmp(memory, model, sizeof model));
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* A record of @count words from word @at on, in blocks of @block words, @step words apart. */
struct words {
    uint64_t at, count, block, step;
    uint8_t op;
};

static bool words_read(const struct words *words)
{
    return words->op == FABEMU_RECORD_GET || words->op == FABEMU_ATOMIC_FETCH;
}

static void list_strided(struct list *list, const struct words *words, const uint64_t *data)
{
    const struct fabemu_record record = {.offset = 8 * words->at,
                                         .bytes = (uint32_t)(8 * words->count),
                                         .op = words->op,
                                         .type = FABEMU_U64,
                                         .strided = 1};
    const struct fabemu_stride stride = {.block = 8 * words->block, .step = 8 * words->step};

    list_append(list, &record, sizeof record);
    list_append(list, &stride, sizeof stride);
    if (!words_read(words))
        list_append(list, data, record.bytes);
}

/* Add a record, and execute it on the model. Returns how many words of the result it gives. */
static uint64_t words_add(struct list *list, const struct words *words, uint64_t *model,
                          const uint64_t *data, uint64_t *result)
{
    list_strided(list, words, data);
    for (uint64_t i = 0; i < words->count; i++) {
        uint64_t *word = &model[words->at + i / words->block * words->step + i % words->block];

        result[i] = *word;
        if (!words_read(words))
            *word = words->op == FABEMU_ATOMIC_ADD ? *word + data[i] : data[i];
    }
    return words->op == FABEMU_RECORD_PUT ? 0 : words->count;
}

/* Gets and atomics with gaps return what a model has, and change the same words. */
static void batch__returns_a_result(void)
{
    static const uint8_t ops[] = {FABEMU_RECORD_PUT, FABEMU_RECORD_GET, FABEMU_ATOMIC_ADD,
                                  FABEMU_ATOMIC_FETCH, FABEMU_ATOMIC_SWAP};
    static uint64_t memory[WORDS], model[WORDS], data[WORDS], result[WORDS], got[WORDS];
    static struct list list;
    uint64_t random = test_seed(), key;
    struct peers w;

    peers_open(&w, 2, true); /* segments overtake each other */
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                    &key);
    for (uint64_t i = 0; i < WORDS; i++)
        data[i] = test_random(&random);
    for (int round = 0; round < 100; round++) {
        uint64_t fetched = 0;

        list.used = 0;
        for (uint64_t n = test_random(&random) % 8; n < 8; n++) {
            struct words words = {.count = 1 + test_random(&random) % 200,
                                  .block = 1 + test_random(&random) % 20,
                                  .op = ops[test_random(&random) % sizeof ops]};

            words.step = words.block + test_random(&random) % 3;
            words.at = test_random(&random) % (WORDS - 200 * 3);
            fetched += words_add(&list, &words, model, data, result + fetched);
        }
        CU_ASSERT_EQUAL_FATAL(list_fetch(&w, round % 8 ? 0 : 1, key, &list, got, 8 * fetched), 0);
        CU_ASSERT_TRUE_FATAL(!memcmp(memory, model, sizeof model));
        CU_ASSERT_TRUE_FATAL(!memcmp(got, result, 8 * fetched));
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* A result of the wrong size, without permission, or for which the list has no record. */
static void batch__refuses_a_wrong_result(void)
{
    static uint64_t memory[4], got[4], one = 1;
    static struct list add, get, gap;
    const struct fabemu_stride none = {0};
    uint64_t write, read, atomic;
    struct peers w;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_WRITE, &write);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_READ, &read);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_ATOMIC, &atomic);
    list_add(&add, (struct fabemu_record){.bytes = 8, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64},
             &one);
    list_append(&get, &(struct fabemu_record){.bytes = 8, .op = FABEMU_RECORD_GET}, 16);
    list_append(&gap, &(struct fabemu_record){.bytes = 8, .op = FABEMU_RECORD_GET, .strided = 1},
                16);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, write, &add, got, 8), -EACCES);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, read, &add, got, 8), -EACCES);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, write, &get, got, 8), -EACCES);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, atomic, &add, got, 16), -EINVAL); /* adds 1 */
    CU_ASSERT_EQUAL(list_fetch(&w, 0, atomic, &add, got, 4), -EINVAL);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, read, &get, NULL, 0), -EINVAL);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, read, &gap, got, 8), -EINVAL); /* ends before its stride */
    list_append(&gap, &none, sizeof none);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, read, &gap, got, 8), -EINVAL); /* blocks of 0 bytes */
    CU_ASSERT_EQUAL(list_fetch(&w, 0, read, &get, got, FABEMU_BATCH_RESULT + 1), -EINVAL);
    CU_ASSERT_EQUAL(memory[0], 1);
    CU_ASSERT_EQUAL(list_fetch(&w, 0, read, &get, got, 8), 0);
    CU_ASSERT_EQUAL(got[0], 1);
    CU_ASSERT_EQUAL(w.fab[1]->served, 0);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* An unconfirmed batch completes at once and gets no answer; a later request finds it executed. */
static void batch__needs_no_confirmation(void)
{
    static uint64_t memory[2], got;
    static struct list list;
    struct fabemu_req first = {.unconfirmed = true}, refused = first, last = {0};
    uint64_t key, one = 1;
    struct peers w;

    peers_open(&w, 2, true);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_ATOMIC | FABEMU_REMOTE_READ,
                    &key);
    list_add(&list, (struct fabemu_record){.bytes = 8, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64},
             &one);
    CU_ASSERT_EQUAL(list_run(&w, 0, key, &list), 0); /* now the two processes are connected */

    const struct fabemu_iov iov = {list.bytes, list.used}, result = {&got, 8};

    CU_ASSERT_EQUAL(fabemu_batchv(w.fab[0], 1, key, &iov, 1, &result, &first), -EINVAL);
    CU_ASSERT_EQUAL(fabemu_batchv(w.fab[0], 1, key, &iov, 1, NULL, &first), 0);
    CU_ASSERT_EQUAL(first.status, 0);
    CU_ASSERT_EQUAL(fabemu_batchv(w.fab[0], 1, key + 1, &iov, 1, NULL, &refused), 0);
    CU_ASSERT_EQUAL(fabemu_get(w.fab[0], 1, key, 0, &got, 8, &last), 0);
    CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &last, 1));
    CU_ASSERT_TRUE(got == 2 && refused.status == 0);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* --- threads ------------------------------------------------------------------------------ */

#define THREADS 3u
#define ROUNDS  100u
#define SHARED  1000u /* words that all threads change */

struct accumulator {
    struct peers *w;
    uint32_t node;
    uint64_t key;
};

/* Accumulate on all shared words with a result of several segments, and use words of its own. */
static void *run_accumulating(void *argument)
{
    const struct accumulator *a = argument;
    struct fabemu *fab = a->w->fab[a->node];
    uint64_t ones[SHARED], before[SHARED], own = 8 * (SHARED + a->node), value, got;
    struct fabemu_atomic add = {.key = a->key,
                                .op = FABEMU_ATOMIC_ADD,
                                .type = FABEMU_U64,
                                .operand = ones,
                                .result = before};

    for (unsigned i = 0; i < SHARED; i++)
        ones[i] = 1;
    for (uint64_t i = 0, least = 0; i < ROUNDS; i++) {
        struct fabemu_req reqs[3] = {{0}};

        value = i;
        if (fabemu_atomic_array(fab, &add, SHARED, &reqs[0]) ||
            fabemu_put(fab, 0, a->key, own, &value, 8, &reqs[1]) || fabemu_wait(fab, &reqs[1]) ||
            fabemu_get(fab, 0, a->key, own, &got, 8, &reqs[2]) || fabemu_wait(fab, &reqs[2]) ||
            fabemu_wait(fab, &reqs[0]) || got != i || before[SHARED - 1] < least)
            abort();
        least = before[SHARED - 1] + 1;
    }
    return NULL;
}

/* Three adapters change the same words in batches, while a thread steps the target. */
static void batch__is_atomic_among_adapters(void)
{
    static uint64_t memory[SHARED + THREADS + 1];
    struct accumulator accumulator[THREADS];
    pthread_t thread[THREADS];
    struct peers w;
    uint64_t key;
    bool good = true;

    peers_open(&w, THREADS + 1, false);
    memset(memory, 0, sizeof memory);
    fabemu_register(w.fab[0], memory, sizeof memory, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                    &key);
    CU_ASSERT_EQUAL_FATAL(nic_thread_start(&w.fab[0]->thread, w.fab[0]), 0);
    fake_start(w.fake);
    for (uint32_t i = 0; i < THREADS; i++) {
        accumulator[i] = (struct accumulator){.w = &w, .node = 1 + i, .key = key};
        pthread_create(&thread[i], NULL, run_accumulating, &accumulator[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    fake_stop(w.fake);
    nic_thread_stop(w.fab[0]->thread);
    for (unsigned i = 0; i < SHARED; i++)
        good = good && memory[i] == THREADS * ROUNDS;
    CU_ASSERT_TRUE(good);
    peers_close(&w);
}

/* The records before a refused one are executed, and those after it are not. */
static void batch__ends_at_the_first_refused_record(void)
{
    static uint64_t memory[64], big[64];
    static struct list list;
    const struct fabemu_record first = {.bytes = 8, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64};
    const struct fabemu_record last = {.offset = 8, .bytes = 5, .op = FABEMU_RECORD_PUT};
    const struct {
        struct fabemu_record record;
        int status;
    } c[] = {
        {{.offset = 505, .bytes = 8, .op = FABEMU_RECORD_PUT}, -EACCES},
        {{.offset = 8, .bytes = 505, .op = FABEMU_RECORD_PUT}, -EACCES},
        {{.offset = UINT64_MAX - 3, .bytes = 8, .op = FABEMU_RECORD_PUT}, -EACCES},
        {{.offset = 4, .bytes = 8, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64}, -EINVAL},
        {{.offset = 4, .bytes = 16, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64}, -EINVAL},
        {{.bytes = 12, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64}, -EINVAL},
        {{.bytes = 0, .op = FABEMU_RECORD_PUT}, -EINVAL},
        {{.bytes = 8, .op = FABEMU_RECORD_PUT, .strided = 2}, -EINVAL},
        {{.bytes = 8, .op = FABEMU_ATOMIC_CAS, .type = FABEMU_U64}, -EINVAL},
        {{.bytes = 8, .op = FABEMU_ATOMIC_FETCH, .type = FABEMU_U64}, -EINVAL},
        {{.bytes = 8, .op = FABEMU_ATOMIC_OPS, .type = FABEMU_U64}, -EINVAL},
        {{.bytes = 8, .op = FABEMU_ATOMIC_ADD, .type = 200}, -EINVAL},
    };
    uint64_t key, one = 1;
    struct peers w;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_WRITE, &key);
    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        list.used = 0;
        list_add(&list, first, &one);
        list_add(&list, c[i].record, big);
        list_add(&list, last, "later");
        CU_ASSERT_EQUAL(list_run(&w, 0, key, &list), c[i].status);
        CU_ASSERT_TRUE(memory[0] == i + 1 && memory[1] == 0);
    }
    CU_ASSERT_EQUAL(list_run(&w, 0, key + 1, &list), -EACCES);
    list.used = 24;
    CU_ASSERT_EQUAL(list_run(&w, 0, key, &list), -EINVAL);
    list.used = 0;
    CU_ASSERT_EQUAL(list_run(&w, 0, key, &list), -EINVAL);
    /* a record that claims more data than the list has */
    list_add(&list, first, &one);
    ((struct fabemu_record *)(void *)list.bytes)->bytes = 1 << 20;
    ((struct fabemu_record *)(void *)list.bytes)->op = FABEMU_RECORD_PUT;
    CU_ASSERT_EQUAL(list_run(&w, 0, key, &list), -EINVAL);
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/*
 * Put or get the words @c of a region of 64 words. Blocks before the first one that is not inside
 * the region are put, and the others are not.
 */
static void check_blocks(struct peers *w, uint64_t key, uint64_t memory[64], const struct words *c)
{
    static uint64_t data[64], got[64], model[64], result[64];
    static struct list list, modelled;
    struct words inside = *c;
    bool puts = c->op == FABEMU_RECORD_PUT;
    uint64_t at = c->at, n;
    int status;

    for (inside.count = 0; inside.count < c->count; inside.count += n, at += c->step) {
        n = c->block < c->count - inside.count ? c->block : c->count - inside.count;
        if (at > 64 - n)
            break;
    }
    for (unsigned i = 0; i < 64; i++) {
        memory[i] = model[i] = puts ? 0 : i + 100;
        data[i] = i + 1;
    }
    list.used = modelled.used = 0;
    words_add(&modelled, &inside, model, data, result);
    list_strided(&list, c, data);
    status = list_fetch(w, 0, key, &list, got, puts ? 0 : 8 * c->count);
    CU_ASSERT_EQUAL(status, inside.count < c->count ? -EACCES : 0);
    CU_ASSERT_TRUE(!memcmp(memory, model, sizeof model));
    CU_ASSERT_TRUE(puts || status || !memcmp(got, result, 8 * c->count));
}

static void batch__checks_every_block(void)
{
    static const struct words c[] = {
        {0, 32, 1, 2, 0},                /* up to the word before the last one */
        {1, 32, 1, 2, 0},                /* up to the last word */
        {0, 33, 1, 2, 0},                /* one block too many */
        {1, 33, 1, 2, 0},                /* the same */
        {63, 32, 1, (uint64_t)-2, 0},    /* backwards */
        {63, 33, 1, (uint64_t)-2, 0},    /* backwards to before the region */
        {3, 2, 1, 1u << 30, 0},          /* a long step */
        {2, 33, 3, 6, 0},                /* the last block is half outside */
        {2, 32, 3, 6, 0},                /* the last block is shorter, and inside */
        {1, 4, 3, 63, 0},                /* it is shorter, and outside */
        {4, 3, 1, UINT64_C(1) << 60, 0}, /* twice the step is 2^64 bytes */
        {1, 33, 3, 5, 0},                /* longer blocks */
    };
    static uint64_t memory[64];
    uint64_t key;
    struct peers w;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[1], memory, sizeof memory, FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                    &key);
    for (unsigned i = 0; i < 2 * sizeof c / sizeof *c; i++) {
        struct words words = c[i / 2];

        words.op = i % 2 ? FABEMU_RECORD_PUT : FABEMU_RECORD_GET;
        check_blocks(&w, key, memory, &words);
    }
    CU_ASSERT_TRUE(peers_clean(w.fab[0]) && peers_clean(w.fab[1]));
    peers_close(&w);
}

/* A record may be of a region without FABEMU_REMOTE_WRITE only if it is an atomic. */
static void batch__needs_permission(void)
{
    static uint64_t word;
    static struct list put, add;
    const unsigned access[] = {FABEMU_REMOTE_READ, FABEMU_REMOTE_WRITE, FABEMU_REMOTE_ATOMIC};
    uint64_t one = 1;
    struct peers w;

    peers_open(&w, 2, false);
    list_add(&put, (struct fabemu_record){.bytes = 8, .op = FABEMU_RECORD_PUT}, &one);
    list_add(&add, (struct fabemu_record){.bytes = 8, .op = FABEMU_ATOMIC_ADD, .type = FABEMU_U64},
             &one);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t key;

        fabemu_register(w.fab[1], &word, 8, access[i], &key);
        CU_ASSERT_EQUAL(list_run(&w, 0, key, &put), i == 1 ? 0 : -EACCES);
        CU_ASSERT_EQUAL(list_run(&w, 0, key, &add), i == 0 ? -EACCES : 0);
    }
    CU_ASSERT_EQUAL(word, 3);
    peers_close(&w);
}

static void send_raw(struct peers *w, uint32_t seq, const void *payload, size_t bytes)
{
    struct emu_seg seg = {.hdr = {.src = 1, .dst = 0, .len = (uint8_t)bytes, .seq = seq}};

    memcpy(seg.payload, payload, bytes);
    CU_ASSERT_TRUE(fake_inject(w->fake, 0, &seg));
    fabemu_progress(w->fab[0]);
}

/* Segments of batches with wrong lengths are counted and change nothing. */
static void receive__executes_no_invalid_batch(void)
{
    static uint64_t memory[64];
    static struct list list;
    struct {
        struct nic_wire_mem mem;
        uint8_t list[NIC_INLINE_BYTES];
    } raw = {.mem = {.head = {.what = NIC_BATCH}, .id = 1}};
    struct nic_wire_head more = {.what = NIC_BATCH_MORE};
    struct fabemu_req req = {0};
    uint64_t key, one = 1;
    struct peers w;
    uint32_t seq;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[0], memory, sizeof memory, FABEMU_REMOTE_WRITE, &key);
    CU_ASSERT_EQUAL(fabemu_put(w.fab[1], 0, key, 0, &one, 8, &req), 0);
    CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &req, 1));
    list_add(&list, (struct fabemu_record){.offset = 8, .bytes = 8, .op = FABEMU_RECORD_PUT}, &one);
    raw.mem.head.check = more.check = w.fab[0]->peers[1].rx_check;
    raw.mem.key = key;
    memcpy(raw.list, list.bytes, list.used);
    seq = w.fab[0]->peers[1].rx_next;

    const struct {
        uint64_t bytes;
        size_t length;
    } c[] = {{32, sizeof raw.mem - 1},  {0, sizeof raw.mem},
             {32, sizeof raw.mem},      {24, sizeof raw.mem + 24},
             {32, sizeof raw.mem + 16}, {32, sizeof raw.mem + 48},
             {48, sizeof raw.mem + 32}, {UINT64_MAX - 15, sizeof raw.mem + 32}};

    for (unsigned i = 0; i < sizeof c / sizeof *c; i++) {
        raw.mem.bytes = c[i].bytes;
        send_raw(&w, seq++, &raw, c[i].length);
        CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, i + 1);
    }
    send_raw(&w, seq++, &more, sizeof more); /* no batch has begun */
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 9);
    raw.mem.bytes = 4096;
    send_raw(&w, seq++, &raw, sizeof raw); /* begins, and the next is not its rest */
    memory[1] = 0;
    raw.mem.bytes = 32;
    send_raw(&w, seq++, &raw, sizeof raw.mem + 32);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 10);
    CU_ASSERT_EQUAL(memory[1], 0);
    send_raw(&w, seq, &raw, sizeof raw.mem + 32);
    CU_ASSERT_EQUAL(memory[1], 1);
    peers_close(&w);
}

/*
 * While this process detaches, a peer asks for the data of an operation that has none to send: it
 * collects the result of the peer's batch, which has not arrived completely.
 */
static void receive__cts_does_not_end_a_batch(void)
{
    static uint64_t memory[64], got;
    struct {
        struct nic_wire_mem mem;
        uint8_t list[NIC_INLINE_BYTES];
    } raw = {.mem = {.head = {.what = NIC_BATCH}, .id = 1, .bytes = 4096, .offset = 8}};
    struct nic_wire_cts cts = {.head = {.what = NIC_CTS}, .bytes = 8};
    const struct nic_serve *serve;
    struct fabemu_req req = {0};
    struct peers w;

    peers_open(&w, 2, false);
    fabemu_register(w.fab[0], memory, sizeof memory, FABEMU_REMOTE_READ, &raw.mem.key);
    CU_ASSERT_EQUAL(fabemu_get(w.fab[1], 0, raw.mem.key, 0, &got, 8, &req), 0);
    CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &req, 1));
    raw.mem.head.check = cts.head.check = w.fab[0]->peers[1].rx_check;
    memcpy(raw.list, &(struct fabemu_record){.bytes = 8, .op = FABEMU_RECORD_GET},
           sizeof(struct fabemu_record));
    send_raw(&w, w.fab[0]->peers[1].rx_next, &raw, sizeof raw);
    serve = w.fab[0]->peers[1].batch.serve;
    CU_ASSERT_PTR_NOT_NULL_FATAL(serve);
    nic_lock(w.fab[0]);
    nic_leave_begin(w.fab[0]);
    nic_unlock(w.fab[0]);
    cts.id = serve->op.id;
    send_raw(&w, 0, &cts, sizeof cts);
    CU_ASSERT_EQUAL(w.fab[0]->counts.malformed, 1);
    CU_ASSERT_EQUAL(serve->op.id, cts.id);
    CU_ASSERT_PTR_NOT_NULL(serve->result);
    peers_close(&w);
}

/*
 * While a strided put of a peer arrives, this process removes the memory in which the current block
 * begins. The next block begins there, too (step 1). The put must not change that memory.
 */
static void receive__batch_changes_no_removed_memory(void)
{
    static uint8_t memory[1024];
    struct {
        struct nic_wire_mem mem;
        struct fabemu_record record;
        struct fabemu_stride stride;
        uint8_t data[NIC_INLINE_BYTES - FABEMU_RECORD_UNIT * 2];
    } first = {.mem = {.head = {.what = NIC_BATCH}, .id = 1},
               .record = {.offset = (uintptr_t)memory, .op = FABEMU_RECORD_PUT, .strided = 1},
               .stride = {.step = 1}};
    struct {
        struct nic_wire_head head;
        uint8_t data[NIC_MORE_BYTES];
    } more = {.head = {.what = NIC_BATCH_MORE}};
    struct fabemu_req req = {0};
    uint8_t one = 1;
    struct peers w;
    uint32_t seq;

    peers_open(&w, 2, false);
    CU_ASSERT_EQUAL_FATAL(fabemu_register(w.fab[0], NULL, 0, FABEMU_REMOTE_WRITE | FABEMU_BY_PARTS,
                                          &first.mem.key),
                          0);
    fabemu_region_add(w.fab[0], first.mem.key, memory, 256);
    fabemu_region_add(w.fab[0], first.mem.key, memory + 256, sizeof memory - 256);
    CU_ASSERT_EQUAL(fabemu_put(w.fab[1], 0, first.mem.key, (uintptr_t)memory, &one, 1, &req), 0);
    CU_ASSERT_TRUE_FATAL(fake_finish(w.fake, &req, 1));
    first.mem.head.check = more.head.check = w.fab[0]->peers[1].rx_check;
    first.stride.block = sizeof first.data + sizeof more.data + 16;
    first.record.bytes = sizeof first.data + 2 * sizeof more.data;
    first.mem.bytes = 2 * FABEMU_RECORD_UNIT + first.record.bytes;
    seq = w.fab[0]->peers[1].rx_next;
    send_raw(&w, seq++, &first, sizeof first);
    send_raw(&w, seq++, &more, sizeof more);
    CU_ASSERT_EQUAL(memory[0], 0);
    CU_ASSERT_EQUAL(fabemu_region_remove(w.fab[0], first.mem.key, memory), 0);
    memset(more.data, 2, sizeof more.data);
    send_raw(&w, seq, &more, sizeof more);
    CU_ASSERT_EQUAL(memory[first.stride.block - 1], 2);
    CU_ASSERT_EQUAL(memory[1], 0);
    CU_ASSERT_EQUAL(w.fab[0]->peers[1].batch.left, 0);
    peers_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(batch__executes_records_in_order),
        CASE(batch__returns_a_result),
        CASE(batch__refuses_a_wrong_result),
        CASE(batch__needs_no_confirmation),
        CASE(batch__is_atomic_among_adapters),
        CASE(batch__ends_at_the_first_refused_record),
        CASE(batch__checks_every_block),
        CASE(batch__needs_permission),
        CASE(receive__executes_no_invalid_batch),
        CASE(receive__cts_does_not_end_a_batch),
        CASE(receive__batch_changes_no_removed_memory),
        {0},
    };

    return test_run("nic_batch", cases);
}
