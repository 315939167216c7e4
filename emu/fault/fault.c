/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.c - decide what happens to each entry that arrives on a cable with faults. */
#include "emu/fault/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/packet/packet.h"
#include "emu/util/now.h"
#include "emu/util/random.h"

void emu_faults_init(struct emu_faults *faults, const struct emu_fault_rates *rates, uint64_t seed)
{
    memset(faults, 0, sizeof *faults);
    faults->rates = *rates;
    faults->seed = emu_splitmix_at(seed, 1);
}

/*
 * Return when the first delayed entry arrives; EMU_NEVER: there is none, or, on clock raw, other
 * entries must overtake it first. @alone: no other entry is on the cable.
 */
static uint64_t fault_delayed_ps(const struct emu_faults *faults, bool alone)
{
    const struct emu_fault_delayed *first = &faults->at[0];

    if (!faults->held || (!alone && first->passing > faults->seen))
        return EMU_NEVER;
    return first->due_ps;
}

uint64_t emu_faults_next_ps(const struct emu_faults *faults, struct emu_rx *rx)
{
    uint64_t delayed_ps = fault_delayed_ps(faults, true);
    uint64_t front_ps = emu_rx_next_ps(rx);

    return delayed_ps < front_ps ? delayed_ps : front_ps;
}

static bool fault_before(const struct emu_fault_delayed *a, const struct emu_fault_delayed *b)
{
    return a->due_ps != b->due_ps ? a->due_ps < b->due_ps : a->passing < b->passing;
}

/* The effect of a rule or of the rates on an entry. */
struct fault_verdict {
    bool hit;
    enum emu_fault_what what;
    uint64_t how;             /* random number: which bit is flipped, or how long the delay is */
    uint64_t by_ps, until_ps; /* EMU_FAULT_DELAY, EMU_FAULT_DUPLICATE: shortest and longest delay */
    struct emu_fault_armed *by; /* the rule that hit the entry; NULL: the rates did */
};

/*
 * Delay the entry by a random time, or on clock raw by a random number of entries. The caller has
 * checked that faults->at[] has space (fault_can()).
 */
static void fault_delay(struct emu_faults *faults, const struct emu_rx *rx,
                        const struct emu_entry *entry, const struct fault_verdict *verdict,
                        enum emu_fate fate)
{
    uint64_t range_ps = verdict->until_ps - verdict->by_ps;
    struct emu_fault_delayed held = {.entry = *entry, .number = faults->number, .fate = fate};
    uint32_t i = faults->held++;

    if (rx->owner->timed)
        held.due_ps = entry->time_ps + verdict->by_ps + (range_ps ? verdict->how % range_ps : 0);
    else
        held.passing = faults->seen + 1 + verdict->how % EMU_FAULT_DELAYED;
    for (; i && fault_before(&held, &faults->at[i - 1]); i--)
        faults->at[i] = faults->at[i - 1];
    faults->at[i] = held;
}

static bool fault_is_reply(const struct emu_entry *entry)
{
    return entry->packet.kind == EMU_PACKET_ACK || entry->packet.kind == EMU_PACKET_NACK;
}

static void fault_drop(struct emu_pool_cache *cache, struct emu_entry *entry)
{
    emu_pool_drop(cache, entry->buf);
    entry->buf = EMU_NO_BUF;
}

static enum emu_fate fault_lose(struct emu_faults *faults, struct emu_pool_cache *cache,
                                struct emu_entry *entry)
{
    emu_count(&faults->counts.lost, 1);
    fault_drop(cache, entry);
    return EMU_FATE_LOST;
}

static void fault_flip_head(struct emu_entry *entry, uint64_t draw)
{
    if (entry->packet.kind == EMU_PACKET_HEAD)
        entry->packet.head ^= (uint64_t)1 << draw % (8 * EMU_HEAD_BYTES);
    else
        entry->packet.cont ^= 1u << draw % (8 * EMU_CONT_BYTES);
}

/*
 * Flip a payload bit in a copy of the buffer, because others may refer to the buffer. Return false
 * if no buffer is free for the copy.
 */
static bool fault_flip_payload(struct emu_pool_cache *cache, struct emu_entry *entry, uint64_t draw)
{
    uint32_t header = entry->packet.kind == EMU_PACKET_HEAD ? EMU_HEAD_BYTES : EMU_CONT_BYTES;
    uint32_t bytes = entry->packet.wire + 1u - header;
    uint32_t buf = emu_pool_take(cache);
    uint8_t *payload;

    if (buf == EMU_NO_BUF)
        return false;
    payload = (uint8_t *)emu_pool_seg(cache->pool, buf);
    memcpy(payload, emu_pool_seg(cache->pool, entry->buf), EMU_SEG_BYTES);
    *emu_pool_note(cache->pool, buf) = *emu_pool_note(cache->pool, entry->buf);
    payload[draw / 8 % bytes] ^= (uint8_t)(1u << draw % 8);
    emu_pool_drop(cache, entry->buf);
    entry->buf = buf;
    return true;
}

static enum emu_fate fault_flip(struct emu_faults *faults, struct emu_pool_cache *cache,
                                struct emu_entry *entry, const struct fault_verdict *verdict)
{
    bool header = verdict->what == EMU_FAULT_FLIP_HEADER ||
                  (verdict->what == EMU_FAULT_FLIP_ANY &&
                   /* half of the flips hit the header, although it is shorter than the payload */
                   verdict->how >> 32 & 1);
    bool payload = !header && entry->buf != EMU_NO_BUF;

    if (faults->checked) { /* the cable's checksum finds every flipped bit */
        emu_count(&faults->counts.damaged, 1);
        fault_drop(cache, entry);
        return EMU_FATE_DAMAGED;
    }
    if (fault_is_reply(entry) || (payload && !fault_flip_payload(cache, entry, verdict->how)))
        return fault_lose(faults, cache, entry);
    if (!payload)
        fault_flip_head(entry, verdict->how);
    emu_count(&faults->counts.damaged, 1);
    return EMU_FATE_ARRIVED;
}

/* --- which entries are hit ----------------------------------------------------------- */

/* Decide by random numbers whether the rates hit the entry that was just taken. */
static struct fault_verdict fault_by_rates(const struct emu_faults *faults)
{
    const struct emu_fault_rates *rates = &faults->rates;
    uint32_t draw = (uint32_t)(emu_splitmix_at(faults->seed, 2 * faults->seen) % EMU_FAULT_UNIT);
    struct fault_verdict verdict = {.hit = true,
                                    .how = emu_splitmix_at(faults->seed, 2 * faults->seen + 1),
                                    .until_ps = rates->late_ps};

    if (draw < rates->lost)
        verdict.what = EMU_FAULT_LOSE;
    else if ((draw -= rates->lost) < rates->head)
        verdict.what = EMU_FAULT_FLIP_HEADER;
    else if ((draw -= rates->head) < rates->payload)
        verdict.what = EMU_FAULT_FLIP_PAYLOAD;
    else if ((draw -= rates->payload) < rates->duplicated)
        verdict.what = EMU_FAULT_DUPLICATE;
    else if (draw - rates->duplicated < rates->late)
        verdict.what = EMU_FAULT_DELAY;
    else
        verdict.hit = false;
    return verdict;
}

/* Return the segment's header as its sender wrote it; NULL if the entry carries no segment. */
static const struct emu_hdr *fault_hdr(const struct emu_faults *faults,
                                       const struct emu_pool_cache *cache,
                                       const struct emu_entry *entry)
{
    if (faults->checked)
        return &entry->hdr;
    return entry->buf != EMU_NO_BUF ? &emu_pool_seg(cache->pool, entry->buf)->hdr : NULL;
}

/* Return whether the rule, which matches the entry, hits it. If so, set *@how at random. */
static bool fault_hits(struct emu_fault_armed *armed, uint64_t *how)
{
    const struct emu_fault_rule *rule = &armed->rule;
    uint64_t n = armed->aimed++;

    if (rule->most && emu_count_read(&armed->hits) >= rule->most)
        return false;
    if (rule->nth && rule->nth != n + 1)
        return false;
    *how = emu_splitmix_at(armed->seed, 2 * n + 1);
    return emu_splitmix_at(armed->seed, 2 * n) % EMU_FAULT_ONE < rule->rate;
}

void emu_faults_note(const struct emu_faults *faults, const struct emu_pool_cache *cache,
                     const struct emu_entry *entry, uint32_t fault, enum emu_fault_what what,
                     uint64_t at_ps)
{
    const struct emu_hdr *hdr = fault_hdr(faults, cache, entry);
    struct emu_fault_hit hit = {.at_ps = at_ps,
                                .fault = fault,
                                .cable = faults->name,
                                .what = (uint8_t)what,
                                .packet = (uint8_t)emu_fault_packet_of(entry->packet.kind),
                                .link_down = faults->down,
                                .known = hdr != NULL};

    if (!faults->log || !fault)
        return;
    if (hdr)
        hit.hdr = *hdr;
    if (hdr && entry->buf != EMU_NO_BUF)
        memcpy(hit.begins, emu_pool_bytes(cache->pool, entry->buf),
               hdr->len < EMU_FAULT_BEGINS ? hdr->len : EMU_FAULT_BEGINS);
    emu_fault_log_put(faults->log, &hit);
}

/* Return @at_ps on timed clocks. On clock raw it is 0, so return the host's time instead. */
static uint64_t fault_time_ps(const struct emu_rx *rx, uint64_t at_ps)
{
    return rx->owner->timed ? at_ps : emu_now_ns() * 1000u;
}

/* Log that @fault hit an entry. Called before the entry is changed. */
static void fault_log(const struct emu_faults *faults, const struct emu_rx *rx,
                      const struct emu_pool_cache *cache, const struct emu_entry *entry,
                      uint32_t fault, enum emu_fault_what what)
{
    emu_faults_note(faults, cache, entry, fault, what, fault_time_ps(rx, entry->time_ps));
}

/* Count a segment of @group that an EMU_FAULT_SEE rule has matched. Return whether to log it. */
static bool fault_sees(struct emu_fault_armed *armed, uint32_t group)
{
    for (uint32_t i = 0; i < EMU_FAULT_SEEN; i++) {
        struct emu_fault_seen *seen = &armed->seen[i];

        if (seen->count && seen->group != group)
            continue;
        seen->group = group;
        return ++seen->count == armed->rule.nth;
    }
    return false;
}

/*
 * Find the first rule that hits and changes the entry; if there is none, apply the rates. Also
 * count and log the hits of the earlier rules that change nothing (EMU_FAULT_SEE, EMU_FAULT_SLOW).
 */
static struct fault_verdict fault_find(struct emu_faults *faults, const struct emu_rx *rx,
                                       const struct emu_pool_cache *cache,
                                       const struct emu_entry *entry)
{
    enum emu_fault_packet packet = emu_fault_packet_of(entry->packet.kind);
    const struct emu_hdr *hdr = fault_hdr(faults, cache, entry);

    for (uint32_t i = 0; i < faults->rules; i++) {
        struct emu_fault_armed *armed = &faults->armed[i];
        struct fault_verdict verdict = {.hit = true,
                                        .what = armed->rule.what,
                                        .by_ps = armed->rule.by_ps,
                                        .until_ps = armed->rule.by_ps + armed->rule.jitter_ps,
                                        .by = armed};

        if (!emu_fault_aimed(&armed->rule.aim, packet, hdr))
            continue;
        if (armed->seen) {
            if (hdr && fault_sees(armed, hdr->dst))
                fault_log(faults, rx, cache, entry, armed->fault, verdict.what);
            continue;
        }
        if (!fault_hits(armed, &verdict.how))
            continue;
        if (verdict.what != EMU_FAULT_SLOW)
            return verdict;
        emu_count(&armed->hits, 1);
        fault_log(faults, rx, cache, entry, armed->fault, verdict.what);
    }
    return fault_by_rates(faults);
}

uint32_t emu_faults_credit(struct emu_faults *faults, const struct emu_rx *rx, uint64_t at_ps)
{
    for (uint32_t i = 0; i < faults->rules; i++) {
        struct emu_fault_armed *armed = &faults->armed[i];
        bool forge = armed->rule.what == EMU_FAULT_DUPLICATE;
        struct emu_fault_hit hit = {.fault = armed->fault,
                                    .cable = faults->name,
                                    .what = (uint8_t)armed->rule.what,
                                    .packet = EMU_FAULT_CREDIT};
        uint64_t how;

        if (!(armed->rule.aim.packets & EMU_FAULT_CREDIT) || (forge && !faults->forges_left) ||
            !fault_hits(armed, &how))
            continue;
        emu_count(&armed->hits, 1);
        faults->forges_left -= forge;
        hit.at_ps = fault_time_ps(rx, at_ps);
        emu_fault_log_put(faults->log, &hit);
        return forge ? 2 : 0;
    }
    return 1;
}

/*
 * Return a writable buffer with the contents of @buf: @buf itself, if nobody else refers to it,
 * else a copy, which replaces the reference to @buf. If no buffer is free for the copy, return
 * EMU_NO_BUF and keep the reference.
 */
static uint32_t fold_own(struct emu_pool_cache *cache, uint32_t buf)
{
    uint32_t own;

    if (emu_pool_alone(cache->pool, buf))
        return buf;
    own = emu_pool_take(cache);
    if (own == EMU_NO_BUF)
        return own;
    memcpy(emu_pool_seg(cache->pool, own), emu_pool_seg(cache->pool, buf), EMU_SEG_BYTES);
    *emu_pool_note(cache->pool, own) = *emu_pool_note(cache->pool, buf);
    emu_pool_drop(cache, buf);
    return own;
}

bool emu_faults_fold(struct emu_faults *faults, struct emu_pool_cache *cache,
                     const struct emu_hdr *hdr, uint32_t *state, bool begins, bool timed,
                     uint64_t at_ps)
{
    for (uint32_t i = 0; i < faults->rules; i++) {
        struct emu_fault_armed *armed = &faults->armed[i];
        struct emu_fault_hit hit = {.at_ps = timed ? at_ps : emu_now_ns() * 1000u,
                                    .fault = armed->fault,
                                    .cable = faults->name,
                                    .what = (uint8_t)armed->rule.what,
                                    .packet = EMU_FAULT_HEAD,
                                    .known = true,
                                    .hdr = *hdr};
        uint64_t how;
        uint32_t own;

        if (!emu_fault_aimed(&armed->rule.aim, EMU_FAULT_HEAD, hdr))
            continue;
        if (armed->seen) {
            if (begins && !emu_hdr_is_token(hdr) && fault_sees(armed, hdr->dst))
                emu_fault_log_put(faults->log, &hit);
            continue;
        }
        if (*state == EMU_NO_BUF || !hdr->len || !fault_hits(armed, &how))
            continue;
        own = fold_own(cache, *state);
        if (own == EMU_NO_BUF)
            break;
        *state = own;
        emu_pool_bytes(cache->pool, own)[how / 8 % hdr->len] ^= (uint8_t)(1u << how % 8);
        emu_count(&armed->hits, 1);
        emu_fault_log_put(faults->log, &hit);
        return true;
    }
    return false;
}

/* --- the effect of a hit ---------------------------------------------------------------- */

/* Apply the verdict to the entry. Return false if the entry is delayed. */
static bool fault_do(struct emu_faults *faults, const struct emu_rx *rx,
                     struct emu_pool_cache *cache, struct emu_entry *entry,
                     const struct fault_verdict *verdict, enum emu_fate *fate)
{
    switch (verdict->what) {
    case EMU_FAULT_LOSE:
        *fate = fault_lose(faults, cache, entry);
        return true;
    case EMU_FAULT_FLIP_ANY:
    case EMU_FAULT_FLIP_HEADER:
    case EMU_FAULT_FLIP_PAYLOAD:
        *fate = fault_flip(faults, cache, entry, verdict);
        return true;
    case EMU_FAULT_DUPLICATE:
        emu_count(&faults->counts.duplicated, 1);
        emu_pool_share(cache->pool, entry->buf, 1);
        fault_delay(faults, rx, entry, verdict, EMU_FATE_DUPLICATED);
        return true;
    case EMU_FAULT_DELAY:
        emu_count(&faults->counts.late, 1);
        fault_delay(faults, rx, entry, verdict, EMU_FATE_ARRIVED);
        return false;
    case EMU_FAULT_SLOW:
    case EMU_FAULT_STICK:
    case EMU_FAULT_SEE:
        break; /* these never become a verdict */
    }
    return true;
}

/* Return whether the fault can be applied now: at[] limits the number of delays and duplicates. */
static bool fault_can(const struct emu_faults *faults, enum emu_fault_what what)
{
    return (what != EMU_FAULT_DUPLICATE && what != EMU_FAULT_DELAY) ||
           faults->held < EMU_FAULT_DELAYED;
}

/* Decide the fate of @entry, which was just taken off the ring. Return false if it is delayed. */
static bool fault_judge(struct emu_faults *faults, const struct emu_rx *rx,
                        struct emu_pool_cache *cache, struct emu_entry *entry, enum emu_fate *fate)
{
    struct fault_verdict verdict;

    *fate = EMU_FATE_ARRIVED;
    emu_count(&faults->counts.seen, 1);
    if (faults->down) {
        faults->seen++;
        fault_log(faults, rx, cache, entry, faults->link_down, EMU_FAULT_LOSE);
        emu_count(&faults->counts.link_down, 1);
        *fate = fault_lose(faults, cache, entry);
        return true;
    }
    verdict = fault_find(faults, rx, cache, entry);
    faults->seen++;
    if (!verdict.hit || !fault_can(faults, verdict.what))
        return true;
    if (verdict.by) {
        emu_count(&verdict.by->hits, 1);
        fault_log(faults, rx, cache, entry, verdict.by->fault, verdict.what);
    }
    return fault_do(faults, rx, cache, entry, &verdict, fate);
}

bool emu_faults_take(struct emu_faults *faults, struct emu_rx *rx, struct emu_pool_cache *cache,
                     uint64_t until_ps, struct emu_entry *entry, enum emu_fate *fate)
{
    for (;;) {
        uint64_t front_ps = emu_rx_next_ps(rx);
        uint64_t delayed_ps = fault_delayed_ps(faults, front_ps == EMU_NEVER);

        if ((delayed_ps < front_ps ? delayed_ps : front_ps) > until_ps)
            return false;
        if (delayed_ps <= front_ps) {
            *entry = faults->at[0].entry;
            *fate = faults->at[0].fate;
            faults->number = faults->at[0].number;
            /* the time fits into the bit field: see EMU_LAST_PS */
            entry->time_ps = delayed_ps & (EMU_RING_FULL - 1);
            memmove(faults->at, faults->at + 1, --faults->held * sizeof faults->at[0]);
            if (faults->down && *fate == EMU_FATE_ARRIVED)
                *fate = fault_lose(faults, cache, entry);
            return true;
        }
        *entry = *emu_rx_front(rx, until_ps);
        if (faults->numbers)
            faults->number = faults->numbers[rx->data.at & rx->data.mask];
        emu_rx_skip(rx);
        emu_rx_done(rx, 1);
        if (fault_judge(faults, rx, cache, entry, fate))
            return true;
    }
}

uint32_t emu_faults_bufs(const struct emu_faults *faults)
{
    uint32_t bufs = 0;

    for (uint32_t i = 0; i < faults->held; i++)
        bufs += faults->at[i].entry.buf != EMU_NO_BUF;
    return bufs;
}

void emu_faults_rebase(struct emu_faults *faults, uint64_t by_ps)
{
    for (uint32_t i = 0; i < faults->held; i++) {
        faults->at[i].due_ps = emu_rebased_ps(faults->at[i].due_ps, by_ps);
        faults->at[i].entry.time_ps = emu_rebased_ps(faults->at[i].entry.time_ps, by_ps);
    }
}

void emu_faults_drop(struct emu_faults *faults, struct emu_pool_cache *cache)
{
    for (; faults->held; faults->held--)
        emu_pool_drop(cache, faults->at[faults->held - 1].entry.buf);
    for (uint32_t i = 0; i < faults->rules; i++)
        free(faults->armed[i].seen);
    free(faults->armed);
    faults->armed = NULL;
    faults->rules = 0;
}

int emu_faults_add(struct emu_faults *faults, const struct emu_fault_rule *rule, uint32_t fault,
                   uint64_t seed)
{
    struct emu_fault_armed *armed = realloc(faults->armed, (faults->rules + 1) * sizeof *armed);
    struct emu_fault_seen *seen = NULL;

    if (!armed)
        return -ENOMEM;
    faults->armed = armed;
    if (rule->what == EMU_FAULT_SEE && !(seen = calloc(EMU_FAULT_SEEN, sizeof *seen)))
        return -ENOMEM;
    armed[faults->rules++] = (struct emu_fault_armed){.rule = *rule,
                                                      .fault = fault,
                                                      .seed = emu_splitmix_at(seed, 1),
                                                      .seen = seen};
    return 0;
}

uint64_t emu_faults_hits(const struct emu_faults *faults, uint32_t fault)
{
    uint64_t hits = 0;

    for (uint32_t i = 0; i < faults->rules; i++)
        if (faults->armed[i].fault == fault)
            hits += emu_count_read(&faults->armed[i].hits);
    return hits;
}

uint64_t emu_faults_remove(struct emu_faults *faults, uint32_t fault)
{
    uint64_t hits = emu_faults_hits(faults, fault);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < faults->rules; i++) {
        if (faults->armed[i].fault != fault)
            faults->armed[kept++] = faults->armed[i];
        else
            free(faults->armed[i].seen);
    }
    faults->rules = kept;
    return hits;
}

uint64_t emu_faults_errors(const struct emu_faults *faults)
{
    return emu_count_read(&faults->counts.lost) + emu_count_read(&faults->counts.damaged);
}

/*
 * Return whether test packet @number is lost or damaged: by the rates, or by a rule that hits every
 * kind of segment with a fixed probability.
 */
static bool fault_try(const struct emu_faults *faults, uint64_t number)
{
    const struct emu_fault_rates *rates = &faults->rates;
    uint32_t often = rates->lost + rates->head + rates->payload;

    if (emu_splitmix_at(~faults->seed, number) % EMU_FAULT_UNIT < often)
        return true;
    for (uint32_t i = 0; i < faults->rules; i++) {
        const struct emu_fault_rule *rule = &faults->armed[i].rule;
        uint64_t draw = emu_splitmix_at(~faults->armed[i].seed, number);

        if (rule->what <= EMU_FAULT_FLIP_PAYLOAD && !rule->nth && !rule->most &&
            emu_fault_aimed(&rule->aim, EMU_FAULT_HEAD, NULL) && draw % EMU_FAULT_ONE < rule->rate)
            return true;
    }
    return false;
}

uint32_t emu_faults_try(struct emu_faults *faults, uint32_t packets)
{
    uint32_t errors = 0;

    for (uint32_t i = 0; i < packets; i++)
        errors += fault_try(faults, faults->tried++);
    return errors;
}
