/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crc.c - what the checksums of a QsNet III packet cost, from warm memory.
 *
 * A segment's CRC-32 is computed once at each end, and goes on where the one
 * before it in the packet ended, so a figure is the time from begin to end. A
 * header's or a continuation's CRC-16 is checked at every hop, each for itself.
 */
#include <stdio.h>

#include "apps/bench/internal.h"
#include "emu/now.h"
#include "emu/packet/crc.h"
#include "emu/packet/packet.h"
#include "emu/random.h"
#include "emu/link/seg.h"

#define SEGMENTS   16 /* in turns: 4 KB */
#define LOOK_EVERY 1000

struct crc_input {
    uint8_t seg[SEGMENTS][EMU_SEG_BYTES];
    uint64_t head[SEGMENTS];
    uint32_t cont[SEGMENTS];
};

/* @sum: of what came before. */
typedef uint32_t (*crc_fn)(uint32_t sum, const struct crc_input *in, unsigned i);

static uint32_t crc32_here(uint32_t sum, const struct crc_input *in, unsigned i)
{
    return emu_crc32(sum, in->seg[i], EMU_SEG_BYTES);
}

static uint32_t crc32_tables(uint32_t sum, const struct crc_input *in, unsigned i)
{
    return emu_crc32_by(EMU_CRC32_TABLES, sum, in->seg[i], EMU_SEG_BYTES);
}

static uint32_t head_check(uint32_t sum, const struct crc_input *in, unsigned i)
{
    struct emu_head head;

    return sum + emu_head_unpack(&head, in->head[i]);
}

static uint32_t cont_check(uint32_t sum, const struct crc_input *in, unsigned i)
{
    struct emu_cont cont;

    return sum + emu_cont_unpack(&cont, in->cont[i]);
}

static void fill(struct crc_input *in)
{
    uint64_t random = EMU_GOLDEN;

    for (unsigned i = 0; i < SEGMENTS; i++) {
        for (unsigned b = 0; b < EMU_SEG_BYTES; b++)
            in->seg[i][b] = (uint8_t)(emu_xorshift(&random) >> 32);
        in->head[i] = emu_head_pack(&(struct emu_head){
            .channel = i, .dst = (uint16_t)random, .bytes = 1024, .stamp = random >> 53});
        in->cont[i] = emu_cont_pack(&(struct emu_cont){.channel = i, .index = i & 3u});
    }
}

static double ns_of(const struct crc_input *in, crc_fn fn, uint64_t sample_ns, uint32_t *sum)
{
    uint64_t start_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now_ns = start_ns;
    uint64_t done = 0;

    while (now_ns < start_ns + sample_ns) {
        for (unsigned i = 0; i < LOOK_EVERY; i++)
            *sum = fn(*sum, in, i % SEGMENTS);
        done += LOOK_EVERY;
        now_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return (double)(now_ns - start_ns) / (double)done;
}

void bench_crc(struct bench *bench, int unused)
{
    static const struct {
        const char *name;
        const char *of;
        crc_fn fn;
    } rows[] = {
        {"crc.segment", "CRC-32, 256 bytes", crc32_here},
        {"crc.segment.tables", "the same without the processor's instruction", crc32_tables},
        {"crc.head", "a header taken apart, CRC-16 over 6 bytes", head_check},
        {"crc.cont", "a continuation, CRC-16 over 2 bytes", cont_check},
    };
    struct crc_input in;
    uint32_t sum = 0;

    (void)unused;
    fill(&in);
    for (unsigned r = 0; r < 4; r++) {
        struct bench_samples samples = {.count = 0};
        struct json_object *own = json_object_new_object();

        bench_progress(bench, "crc", r / 4.0);
        for (unsigned left = bench_repeat(bench, 9, 3); left; left--)
            bench_sample(&samples, ns_of(&in, rows[r].fn, bench_sample_ns(bench), &sum));
        json_object_object_add(own, "of", json_object_new_string(rows[r].of));
        json_object_object_add(own, "threads", json_object_new_int(1));
        bench_row(bench, &(struct bench_row){.name = rows[r].name,
                                             .unit = "ns",
                                             .samples = &samples,
                                             .conditions = own,
                                             .error = sum ? NULL : "nothing was computed"});
    }
}
