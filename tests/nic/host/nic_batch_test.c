/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_batch_test.c - batches of puts and atomics: their order, refused records, hostile input.
 *
 * One thread steps the adapters and a fake fabric alternately.
 */
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/host/peers.h"

#define WORDS 4096

/* A list that a test builds. */
struct list {
    uint8_t bytes[64 << 10];
    size_t used;
};

static void list_add(struct list *list, struct fabemu_record record, const void *data)
{
    memcpy(list->bytes + list->used, &record, sizeof record);
    memcpy(list->bytes + list->used + sizeof record, data, record.bytes);
    list->used += sizeof record + record.bytes;
    list->used += -list->used % FABEMU_RECORD_UNIT;
}

static int list_run(struct peers *w, uint32_t from, uint64_t key, const struct list *list)
{
    const struct fabemu_iov iov = {(void *)(uintptr_t)list->bytes, list->used};
    struct fabemu_req req = {0};
    int err = fabemu_batchv(w->fab[from], 1, key, &iov, 1, &req);

    if (err)
        return err;
    CU_ASSERT_TRUE_FATAL(fake_finish(w->fake, &req, 1));
    return req.status;
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
        {{.bytes = 8, .op = FABEMU_RECORD_PUT, .spare = 1}, -EINVAL},
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

int main(void)
{
    static const struct test_case cases[] = {
        CASE(batch__executes_records_in_order),
        CASE(batch__ends_at_the_first_refused_record),
        CASE(batch__needs_permission),
        CASE(receive__executes_no_invalid_batch),
        {0},
    };

    return test_run("nic_batch", cases);
}
