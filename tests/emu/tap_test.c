/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap_test.c - the rings of a capture: records come out once and in order, overflow is counted, and
 * a reader that writes garbage harms only itself.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/link/link.h"
#include "emu/link/tap_area.h"
#include "emu/worker/worker.h"
#include "tests/test.h"

#define SLOTS   64u
#define RECORDS TEST_TRIALS(200000u)

/* A device with one sending end and a tap on it. */
struct tapped {
    struct emu_worker *worker;
    struct emu_pool *pool;
    struct emu_dev dev;
    struct emu_tx tx;
    struct emu_rx rx;
    struct emu_profile profile;
    struct emu_tap_area *area, *read; /* mapped by the fabric, and by the reader */
    struct emu_tap_area head;         /* the reader's copy of its beginning */
    size_t bytes;
    struct emu_taps *taps;
    uint64_t sent;
};

static uint32_t step(struct emu_dev *dev, uint64_t until_ps)
{
    (void)dev, (void)until_ps;
    return 0;
}

static void tap_open(struct tapped *t, uint32_t snap_bytes)
{
    const struct emu_tap_area plan = {.rings = 1, .ifaces = 1, .slots = SLOTS};
    struct emu_clock clock = {.mode = EMU_CLOCK_RAW};
    int memfd;

    *t = (struct tapped){.sent = 0};
    CU_ASSERT_FATAL((t->pool = emu_pool_create(64)) != NULL);
    CU_ASSERT_EQUAL_FATAL(emu_worker_create(&t->worker, 1, &clock, t->pool), 0);
    emu_dev_init(&t->dev, t->worker, step);
    CU_ASSERT_EQUAL_FATAL(emu_link_join(&t->tx, &t->dev, 0, &t->rx, &t->dev, 1, 4, &t->profile), 0);
    CU_ASSERT_EQUAL_FATAL(emu_tap_area_create(&t->area, &plan, &memfd), 0);
    CU_ASSERT_EQUAL_FATAL(emu_tap_area_open(&t->read, &t->head, memfd), 0);
    t->bytes = t->area->bytes;
    t->read->bytes = UINT64_MAX; /* a reader may overwrite this field; the fabric does not use it */
    close(memfd);
    t->taps = calloc(1, sizeof *t->taps + sizeof t->taps->end[0]);
    CU_ASSERT_FATAL(t->taps != NULL);
    t->taps->filter = (struct emu_tap_filter){.aim = {.packets = EMU_FAULT_ENTRIES,
                                                      .kinds = EMU_FAULT_KINDS,
                                                      .src = EMU_FAULT_ANY,
                                                      .dst = EMU_FAULT_ANY,
                                                      .group = EMU_FAULT_ANY},
                                              .what = ~0u,
                                              .snap_bytes = snap_bytes};
    t->taps->iface = emu_tap_iface(t->area, 0);
    t->taps->ring = emu_tap_ring(t->area, t->area, 0);
    t->taps->slots = SLOTS;
    t->taps->end[t->taps->ends++] = (struct emu_tap_end){.end = &t->tx, .takes = EMU_TAP_NOWHERE};
    t->worker->taps = t->taps;
    t->tx.tapped = true;
}

static void tap_close(struct tapped *t)
{
    emu_link_unjoin(&t->tx);
    emu_worker_destroy(t->worker);
    emu_pool_destroy(t->pool);
    emu_tap_area_close(t->area, t->bytes);
    emu_tap_area_close(t->read, t->bytes);
    free(t->taps);
}

/* Send the next segment, identified by its number and payload, and take it off the cable. */
static void tap_send(struct tapped *t)
{
    struct emu_entry entry = {.hdr = {.kind = EMU_UNICAST, .seq = (uint32_t)t->sent++},
                              .buf = EMU_NO_BUF};

    if (t->sent % 3 == 0) {
        entry.hdr.len = (uint8_t)(t->sent % EMU_PAYLOAD_BYTES);
        entry.buf = emu_pool_take(&t->worker->cache);
        memset(emu_pool_bytes(t->pool, entry.buf), (int)t->sent, EMU_PAYLOAD_BYTES);
    }
    emu_tx_send(&t->tx, &entry);
    emu_pool_drop(&t->worker->cache, entry.buf);
    emu_ring_skip(&t->rx.data);
    t->tx.credits++;
    t->tx.unnotified = 0;
}

static uint32_t number_of(const struct emu_tap_record *record)
{
    struct emu_hdr hdr;

    memcpy(&hdr, record->data + EMU_TAP_HEAD_BYTES, sizeof hdr);
    return hdr.seq;
}

/* Is the record whole, and all of one segment? */
static bool is_whole(const struct emu_tap_record *record)
{
    uint32_t before = EMU_TAP_HEAD_BYTES + EMU_HDR_BYTES;
    uint8_t fill = (uint8_t)(number_of(record) + 1);

    if (record->iface || record->bytes != record->whole || record->bytes < before)
        return false;
    for (uint32_t i = before; i < record->bytes; i++)
        if (record->data[i] != fill)
            return false;
    return true;
}

static void tap__a_full_ring_counts_and_keeps_what_it_has(void)
{
    struct tapped t;
    struct emu_tap_ring *ring;
    struct emu_tap_iface *iface;

    tap_open(&t, EMU_PAYLOAD_BYTES);
    ring = emu_tap_ring(t.read, &t.head, 0);
    iface = emu_tap_iface(t.read, 0);
    for (uint32_t i = 0; i < SLOTS + 10; i++)
        tap_send(&t);
    CU_ASSERT_EQUAL(emu_tap_there(ring), SLOTS);
    CU_ASSERT_EQUAL(emu_count_read(&iface->seen), SLOTS + 10);
    CU_ASSERT_EQUAL(emu_count_read(&iface->missed), 10);
    CU_ASSERT_EQUAL(number_of(&ring->record[0]), 0);
    CU_ASSERT_EQUAL(number_of(&ring->record[SLOTS - 1]), SLOTS - 1);
    emu_tap_done(ring, 3); /* space for exactly three */
    for (uint32_t i = 0; i < 5; i++)
        tap_send(&t);
    CU_ASSERT_EQUAL(emu_tap_there(ring), SLOTS + 3);
    CU_ASSERT_EQUAL(emu_count_read(&iface->missed), 12);
    CU_ASSERT_EQUAL(number_of(&ring->record[2]), SLOTS + 12);
    CU_ASSERT_EQUAL(number_of(&ring->record[3]), 3);
    CU_ASSERT_EQUAL(ring->record[3].missed, 0); /* each reports the records missed before it, */
    CU_ASSERT_EQUAL(ring->record[0].missed, 10);
    tap_send(&t);
    emu_tap_done(ring, 4);
    tap_send(&t);
    CU_ASSERT_EQUAL(ring->record[3].missed, 13); /* and none of those missed after it */
    tap_close(&t);
}

/* The reader claims to have taken more than was put: the ring then looks full. */
static void tap__a_lying_reader_only_loses_records(void)
{
    struct tapped t;

    tap_open(&t, EMU_PAYLOAD_BYTES);
    emu_tap_done(emu_tap_ring(t.read, &t.head, 0), UINT64_MAX / 2);
    for (uint32_t i = 0; i < 3 * SLOTS; i++)
        tap_send(&t);
    CU_ASSERT_EQUAL(emu_tap_there(emu_tap_ring(t.read, &t.head, 0)), SLOTS);
    emu_tap_done(emu_tap_ring(t.read, &t.head, 0), 0);
    tap_send(&t);
    CU_ASSERT_EQUAL(emu_tap_there(emu_tap_ring(t.read, &t.head, 0)), SLOTS);
    tap_close(&t);
}

/* The header's numbers are such that the size of all rings overflows, and looks right. */
static void tap__a_header_with_too_many_rings_is_refused(void)
{
    const struct emu_tap_area plan = {.rings = 1, .ifaces = 1, .slots = SLOTS};
    uint64_t bytes = UINT64_C(1) << 34; /* the file is sparse */
    struct emu_tap_area *area, *forged, *read, head;
    int memfd, fd = memfd_create("tap-test", MFD_CLOEXEC);

    CU_ASSERT_EQUAL_FATAL(emu_tap_area_create(&area, &plan, &memfd), 0);
    bytes += (uintptr_t)emu_tap_ring(area, area, 0) - (uintptr_t)area;
    CU_ASSERT_EQUAL_FATAL(ftruncate(fd, (off_t)bytes), 0);
    forged = mmap(NULL, sizeof *forged, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CU_ASSERT_FATAL(forged != MAP_FAILED);
    *forged = *area;
    forged->bytes = bytes;
    forged->slots = 1u << 31;
    forged->rings = (uint32_t)((UINT64_C(1) << 34) / sizeof(struct emu_tap_ring));
    CU_ASSERT_EQUAL(emu_tap_area_open(&read, &head, fd), -EPROTO);
    munmap(forged, sizeof *forged);
    emu_tap_area_close(area, area->bytes);
    close(memfd);
    close(fd);
}

static void tap__snaps_payloads(void)
{
    const struct emu_tap_record *record;
    struct tapped t;

    tap_open(&t, 2);
    for (uint32_t i = 0; i < 9; i++)
        tap_send(&t);
    record = &emu_tap_ring(t.read, &t.head, 0)->record[8]; /* number 8 has 9 bytes */
    CU_ASSERT_EQUAL(record->bytes, EMU_TAP_HEAD_BYTES + EMU_HDR_BYTES + 2);
    CU_ASSERT_EQUAL(record->whole, EMU_TAP_HEAD_BYTES + EMU_HDR_BYTES + 9);
    tap_close(&t);
}

/* An end with its tap bit set that is in no list is ignored. */
static void tap__an_unlisted_end_is_ignored(void)
{
    struct tapped t;

    tap_open(&t, EMU_PAYLOAD_BYTES);
    t.taps->ends = 0;
    tap_send(&t);
    t.worker->taps = NULL;
    tap_send(&t);
    CU_ASSERT_EQUAL(emu_tap_there(emu_tap_ring(t.read, &t.head, 0)), 0);
    tap_close(&t);
}

struct reader {
    struct emu_tap_area *area;
    const struct emu_tap_area *head;
    uint64_t wrong;
    _Atomic uint64_t got;
    _Atomic bool ends;
};

static void *read_all(void *arg)
{
    struct reader *r = arg;
    struct emu_tap_ring *ring = emu_tap_ring(r->area, r->head, 0);
    int64_t last = -1;
    uint64_t got = 0;
    bool ends;

    do {
        ends = atomic_load(&r->ends); /* read before the last check */
        for (uint64_t there = emu_tap_there(ring); got != there; got++) {
            const struct emu_tap_record *record = &ring->record[got % SLOTS];

            r->wrong += !is_whole(record) || (int64_t)number_of(record) <= last;
            last = number_of(record);
        }
        emu_tap_done(ring, got);
        atomic_store(&r->got, got);
    } while (!ends);
    return NULL;
}

/* Two threads: each record that was not missed is read whole and in order. */
static void tap__records_are_whole_and_in_order(void)
{
    struct tapped t;
    struct reader reader = {.got = 0};
    pthread_t thread;

    tap_open(&t, EMU_PAYLOAD_BYTES);
    reader.area = t.read;
    reader.head = &t.head;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, read_all, &reader), 0);
    /* until the ring has wrapped several times: the reader may wait for a core */
    while (t.sent < RECORDS || atomic_load(&reader.got) <= 4 * SLOTS) {
        tap_send(&t);
        if (t.sent % SLOTS == 0 && t.sent >= RECORDS)
            sched_yield();
    }
    atomic_store(&reader.ends, true);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(reader.wrong, 0);
    CU_ASSERT_EQUAL(reader.got + emu_count_read(&emu_tap_iface(t.read, 0)->missed), t.sent);
    CU_ASSERT_EQUAL(emu_count_read(&emu_tap_iface(t.read, 0)->seen), t.sent);
    tap_close(&t);
}

static const struct test_case cases[] = {
    CASE(tap__a_full_ring_counts_and_keeps_what_it_has),
    CASE(tap__a_lying_reader_only_loses_records),
    CASE(tap__a_header_with_too_many_rings_is_refused),
    CASE(tap__snaps_payloads),
    CASE(tap__an_unlisted_end_is_ignored),
    CASE(tap__records_are_whole_and_in_order),
    {NULL, NULL},
};

int main(void)
{
    return test_run("tap", cases);
}
