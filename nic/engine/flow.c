/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.c - sequence numbers: the window of a source, and detection of duplicates */
#include "nic/engine/internal.h"

#define SEQ_MASK  (UINT32_MAX >> ENGINE_TRY_BITS) /* sequence numbers as in a tag */
#define CUT_TRIES (ENGINE_DOUBLINGS + 1u)         /* tries for a destination that is unreachable */

/* --- at the source ------------------------------------------------------------------ */

/* Return the flow to @dst. NULL: @dst is a group that was removed, and its flow with it. */
static struct engine_flow *flow_to(struct engine *e, uint32_t dst, bool group)
{
    struct engine_group *to;

    if (!group)
        return &e->send.flow[dst];
    to = engine_group_of(e, dst);
    return to ? &to->flow : NULL;
}

static struct engine_flow *flow_of(struct engine *e, const struct engine_packet *p)
{
    return flow_to(e, p->dst, p->group);
}

bool engine_flow_dead(struct engine *e, struct engine_to to)
{
    const struct engine_flow *flow = to.class == ENGINE_TEST ? NULL : flow_to(e, to.dst, to.group);

    return flow && flow->next - flow->acked >= ENGINE_SPAN;
}

bool engine_flow_open(struct engine *e, const struct engine_packet *p)
{
    const struct engine_flow *flow;

    if (p->tries || p->class == ENGINE_TEST)
        return true;
    flow = flow_of(e, p);
    if (!flow || !flow->oldest)
        return true;
    return flow->next + e->send.first_seq - e->send.packet[flow->oldest - 1].seq < ENGINE_WINDOW;
}

void engine_flow_number(struct engine *e, uint16_t i)
{
    struct engine_packet *p = &e->send.packet[i];
    struct engine_flow *flow = flow_of(e, p);
    struct engine_join *join = e->send.flow_join;

    p->seq = e->send.first_seq;
    join[i] = (struct engine_join){ENGINE_NONE, ENGINE_NONE};
    if (!flow)
        return;
    p->seq += flow->next++;
    if (flow->newest) {
        join[i].prev = (uint16_t)(flow->newest - 1);
        join[flow->newest - 1].next = i;
    } else {
        flow->oldest = (uint16_t)(i + 1);
    }
    flow->newest = (uint16_t)(i + 1);
}

void engine_flow_leave(struct engine *e, uint16_t i)
{
    const struct engine_packet *p = &e->send.packet[i];
    struct engine_flow *flow = p->tries && p->class != ENGINE_TEST ? flow_of(e, p) : NULL;
    struct engine_join *join = e->send.flow_join;
    uint16_t next = join[i].next, prev = join[i].prev;

    if (!flow)
        return;
    if (prev == ENGINE_NONE)
        flow->oldest = (uint16_t)(next + 1); /* ENGINE_NONE + 1 is 0: none */
    else
        join[prev].next = next;
    if (next == ENGINE_NONE)
        flow->newest = (uint16_t)(prev + 1);
    else
        join[next].prev = prev;
}

uint32_t engine_flow_tries(struct engine *e, const struct engine_packet *p)
{
    const struct engine_flow *flow = p->class == ENGINE_TEST ? NULL : flow_of(e, p);
    uint32_t most = e->profile->retry_limit;

    return flow && flow->cut && most > CUT_TRIES && most != EMU_RETRIES_ENDLESS ? CUT_TRIES : most;
}

void engine_flow_cut(struct engine *e, struct engine_to to)
{
    struct engine_flow *flow = to.class == ENGINE_TEST ? NULL : flow_to(e, to.dst, to.group);

    if (flow)
        flow->cut = true;
}

void engine_flow_acked(struct engine *e, const struct engine_packet *p)
{
    struct engine_flow *flow = flow_of(e, p);
    uint32_t next = p->seq - e->send.first_seq + 1;

    if (!flow)
        return;
    flow->cut = false;
    if ((int32_t)(next - flow->acked) > 0)
        flow->acked = next;
}

/* --- at the destination ------------------------------------------------------------- */

/*
 * A tag has only the low 26 bits of a number n. The receiver knows L, the highest number of the
 * flow that it has received. Of all numbers with those low bits, it chooses the number nearest to
 * L. This number is n if n and L differ by less than 2^25:
 *
 * First, n is not far ahead of L. A flow goes to one node or one group, so all its packets have the
 * same receivers. An acknowledged packet was received by all of them, because switches merge the
 * replies of a group's members. Let A be the highest acknowledged number when the source assigned
 * n. Then A <= L. A flow accepts no packet while its next number is ENGINE_SPAN or more beyond the
 * highest acknowledged one (engine_flow_dead()), so n - A <= ENGINE_SPAN + the number of packets
 * that wait to be sent. So n - L < 2^25.
 *
 * Second, n is not far behind L. A packet that has not ended is less than ENGINE_WINDOW behind the
 * next number to be assigned (engine_flow_open()), and L is below that number. So L - n <
 * ENGINE_WINDOW. A number further behind L belongs to a late copy of a packet that was delivered or
 * dropped. The copy would count as a new packet only if it were late by 2^25 packets of its flow.
 * But only channels and rings hold copies. A channel or ring passes its packets on, or drops them,
 * within a few time-outs.
 *
 * Before the first number is received there is no L, and any number is new.
 */
static_assert(ENGINE_SPAN + UINT16_MAX + ENGINE_WINDOW < 1u << (31 - ENGINE_TRY_BITS),
              "numbers in a tag are unambiguous");

static inline uint64_t history_bit(uint32_t seq)
{
    return emu_bit(seq % 64);
}

static inline uint64_t *history_word(struct engine_history *history, uint32_t seq)
{
    return &history->seen[seq % ENGINE_WINDOW / 64];
}

/* Make @seq, which is @ahead numbers above the highest received so far, the highest one. */
static void history_advance(struct engine_history *history, uint32_t seq, uint32_t ahead)
{
    if (ahead > ENGINE_WINDOW)
        ahead = ENGINE_WINDOW;
    for (uint32_t i = 0; i < ahead; i++)
        *history_word(history, seq - i) &= ~history_bit(seq - i);
    history->last = seq;
}

static bool history_first(struct engine_history *history, uint32_t src, uint32_t seq)
{
    uint32_t ahead = (seq - history->last) & SEQ_MASK, behind = (history->last - seq) & SEQ_MASK;

    if (!history->from || ahead - 1 < SEQ_MASK / 2) {
        history_advance(history, seq, history->from ? ahead : ENGINE_WINDOW);
        history->from = src + 1;
    } else if (behind >= ENGINE_WINDOW || (*history_word(history, seq) & history_bit(seq))) {
        return false;
    }
    *history_word(history, seq) |= history_bit(seq);
    return true;
}

bool engine_history_first(struct engine *e, const struct engine_incoming *in)
{
    const struct emu_hdr *hdr = engine_hdr(e, in->buf[0]);
    bool to_group = in->head.group;
    struct engine_group *group = to_group ? engine_group_of(e, hdr->dst) : NULL;
    struct engine_history *history = group      ? engine_group_history(group, hdr->src)
                                     : to_group ? NULL
                                                : &e->receive.history[hdr->src];
    uint32_t key = engine_flow_key(hdr->src, to_group ? hdr->dst : in->head.dst, to_group);

    if (!history) { /* all members have left the group, or the source is not in the group */
        emu_count(&e->counts.not_in_group, in->count);
        return false;
    }
    if (history_first(history, hdr->src, (in->tag ^ key) >> ENGINE_TRY_BITS))
        return true;
    emu_count(&e->counts.duplicates, 1);
    return false;
}
