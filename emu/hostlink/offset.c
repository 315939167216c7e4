/* SPDX-License-Identifier: BSD-3-Clause */
/* offset.c - the filter of clock samples (offset.h). */
#include "emu/hostlink/offset.h"

#include <string.h>

#define OFFSET_QUARTER_NS 250000000u
#define OFFSET_SECOND_NS  UINT64_C(1000000000)
#define OFFSET_RTT_NS     (10 * OFFSET_SECOND_NS) /* samples with longer round trips are ignored */
#define OFFSET_UNSURE     1e-4 /* largest drift of any clock; assumed until the drift is known */
#define OFFSET_SURE       1e-6 /* how much a known drift may change */
/* the error of the drift grows by this factor with each sample that does not reduce it */
#define OFFSET_AGES 1.01

void hostlink_offset_reset(struct hostlink_offset *offset)
{
    memset(offset->least, 0, sizeof offset->least);
    memset(offset->second, 0, sizeof offset->second);
    offset->asked_ns = offset->received_ns = 0;
    offset->best.good = false;
    offset->drift = 0;
    offset->unsure = OFFSET_UNSURE;
    atomic_store_explicit(&offset->known, false, memory_order_relaxed);
}

static uint64_t offset_error_ns(const struct hostlink_offset *offset,
                                const struct hostlink_sample *sample, uint64_t now_ns)
{
    return (sample->rtt_ns + 1) / 2 +
           (uint64_t)((double)(int64_t)(now_ns - sample->at_ns) * offset->unsure);
}

/*
 * Keep @sample if its round trip is the shortest of its period. Periods last @part_ns. @kept: one
 * sample for each of the last @count periods.
 */
static void offset_keep(struct hostlink_sample *kept, uint32_t count, uint64_t part_ns,
                        const struct hostlink_sample *sample)
{
    struct hostlink_sample *at = &kept[sample->at_ns / part_ns % count];

    if (!at->good || at->at_ns / part_ns != sample->at_ns / part_ns || sample->rtt_ns < at->rtt_ns)
        *at = *sample;
}

/* Compute the drift from the oldest and the newest sample of offset->second. */
static void offset_drift(struct hostlink_offset *offset, uint64_t now_ns)
{
    const struct hostlink_sample *old = NULL, *young = NULL;
    double between_ns, drift, unsure;
    int64_t apart_ns;

    for (uint32_t i = 0; i < HOSTLINK_SECONDS; i++) {
        const struct hostlink_sample *at = &offset->second[i];

        if (!at->good || now_ns - at->at_ns > HOSTLINK_SECONDS * OFFSET_SECOND_NS)
            continue;
        if (!old || at->at_ns < old->at_ns)
            old = at;
        if (!young || at->at_ns > young->at_ns)
            young = at;
    }
    if (!old || young->at_ns - old->at_ns < 2 * OFFSET_SECOND_NS)
        return;
    apart_ns = (int64_t)((uint64_t)young->offset_ns - (uint64_t)old->offset_ns);
    between_ns = (double)(young->at_ns - old->at_ns);
    drift = (double)apart_ns / between_ns;
    unsure = (double)(old->rtt_ns + young->rtt_ns) / 2 / between_ns + OFFSET_SURE;
    if (unsure < offset->unsure && drift < OFFSET_UNSURE && drift > -OFFSET_UNSURE) {
        offset->drift = drift;
        offset->unsure = unsure;
    } else if (offset->unsure < OFFSET_UNSURE) {
        offset->unsure *= OFFSET_AGES;
    }
}

static void offset_choose(struct hostlink_offset *offset, uint64_t now_ns)
{
    uint64_t least_ns = UINT64_MAX;

    for (uint32_t i = 0; i < HOSTLINK_SAMPLES; i++) {
        const struct hostlink_sample *at = &offset->least[i];
        uint64_t error_ns = offset_error_ns(offset, at, now_ns);

        if (at->good && error_ns < least_ns) {
            least_ns = error_ns;
            offset->best = *at;
        }
    }
    atomic_store_explicit(&offset->offset_ns, hostlink_offset_at(offset, now_ns),
                          memory_order_relaxed);
    atomic_store_explicit(&offset->error_ns, least_ns, memory_order_relaxed);
    atomic_store_explicit(&offset->drift_ppb, (int64_t)(offset->drift * 1e9), memory_order_relaxed);
    atomic_store_explicit(&offset->known, true, memory_order_relaxed);
}

/* Return the middle of @a and @b, which are modulo 2^64 and differ by less than 2^63. */
static int64_t offset_middle(uint64_t a, uint64_t b)
{
    return (int64_t)(a + (uint64_t)((int64_t)(b - a) / 2));
}

void hostlink_offset_sample(struct hostlink_offset *offset, uint64_t sent_ns, uint64_t echo_ns,
                            uint64_t received_ns, uint64_t now_ns)
{
    uint64_t away_ns = now_ns - echo_ns, there_ns = sent_ns - received_ns;
    struct hostlink_sample sample = {.at_ns = echo_ns + away_ns / 2, .good = true};

    if (!echo_ns) {
        offset->asked_ns = sent_ns;
        offset->received_ns = now_ns;
        return;
    }
    if (away_ns > OFFSET_RTT_NS || there_ns > away_ns)
        return;
    /* the peer's clock may have drifted between the query's arrival and the answer */
    sample.rtt_ns = away_ns - there_ns + (uint64_t)((double)there_ns * OFFSET_UNSURE) + 1;
    sample.offset_ns = offset_middle(received_ns - echo_ns, sent_ns - now_ns);
    offset_keep(offset->least, HOSTLINK_SAMPLES, OFFSET_QUARTER_NS, &sample);
    offset_keep(offset->second, HOSTLINK_SECONDS, OFFSET_SECOND_NS, &sample);
    offset_drift(offset, now_ns);
    offset_choose(offset, now_ns);
}

int64_t hostlink_offset_at(const struct hostlink_offset *offset, uint64_t now_ns)
{
    const struct hostlink_sample *best = &offset->best;

    if (!best->good)
        return 0;
    return (int64_t)((uint64_t)best->offset_ns +
                     (uint64_t)(int64_t)(offset->drift * (double)(int64_t)(now_ns - best->at_ns)));
}
