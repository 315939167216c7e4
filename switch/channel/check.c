/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check.c - counts the segments, credits and channels of a switch with channels, and compares its
 * counters with the result.
 */
#include "switch/channel/stages.h"

/* Add to @count, for each channel, the segments in a cable's ring and those delayed by @faults. */
static void count_in_flight(const struct emu_rx *rx, const struct emu_faults *faults,
                            uint32_t count[EMU_VCS])
{
    const struct emu_ring_end *data = &rx->tx->data;

    for (uint32_t at = rx->data.at; at != data->at; at++) {
        const struct emu_packet_hdr *hdr = &data->slot[at & data->mask].packet;

        if (hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT)
            count[hdr->channel % EMU_VCS]++;
    }
    for (uint32_t i = 0; faults && i < faults->held; i++) {
        const struct emu_packet_hdr *hdr = &faults->at[i].entry.packet;

        if (faults->at[i].fate != EMU_FATE_DUPLICATED &&
            (hdr->kind == EMU_PACKET_HEAD || hdr->kind == EMU_PACKET_CONT))
            count[hdr->channel % EMU_VCS]++;
    }
}

const char *switch_check_channels(const struct emu_rx *rx, const struct emu_vcs *vcs,
                                  const struct emu_faults *faults, const uint32_t *held,
                                  const uint32_t *promised, uint32_t slots)
{
    const struct emu_credit_end *back = &rx->tx->credit;
    uint32_t count[EMU_VCS] = {0};
    uint32_t pool = vcs->pool;

    count_in_flight(rx, faults, count);
    for (uint32_t at = back->at; at != rx->credit.at; at++)
        count[back->slot[at & back->mask].channel % EMU_VCS] += back->slot[at & back->mask].count;
    for (uint32_t c = 0; c < EMU_VCS; c++) {
        uint32_t ahead = promised ? promised[c] : vcs->promised[c];
        uint32_t found = count[c] + (held ? held[c] : 0) + ahead;

        if (found != vcs->used[c])
            return emu_credits_wrong(found, vcs->used[c]);
        if ((vcs->occupied >> c & 1) != (vcs->used[c] != 0) ||
            (vcs->paid >> c & 1) != (vcs->promised[c] && vcs->collector != c))
            return "a sender's sets of channels with slots are wrong";
        pool += vcs->used[c] > 1 ? vcs->used[c] - 1u : 0;
    }
    if (pool != slots)
        return "slots of a pool were lost or duplicated";
    return emu_link_check_segments(rx);
}

const char *switch_channels_check_out(struct switch_dev *sw, uint32_t p, const struct emu_rx *rx,
                                      const struct emu_faults *faults)
{
    return switch_check_channels(rx, &switch_channels_of(sw)->port[p].vcs, faults, NULL, NULL,
                                 sw->profile->pool_slots);
}

const char *switch_channels_check_cable(struct switch_dev *sw, uint32_t p,
                                        const struct emu_vcs *vcs, const uint32_t *promised)
{
    struct switch_channels *ch = switch_channels_of(sw);
    uint32_t held[EMU_VCS];

    for (uint32_t c = 0; c < EMU_VCS; c++) {
        const struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
        uint32_t slot = in->queue.first;

        held[c] = in->queued;
        for (uint32_t left = in->queued; left; left--) {
            held[c] -= ch->hold[slot].no_credit;
            slot = ch->store.next[slot];
        }
    }
    return switch_check_channels(&ch->port[p].rx, vcs, ch->port[p].faults, held, promised,
                                 sw->profile->pool_slots);
}

/* Return the switch at the remote end of the cable at port @p; NULL: there is none. */
static const struct switch_channels *check_remote(const struct switch_channels *ch, uint32_t p)
{
    const struct emu_rx *rx = &ch->port[p].rx;
    struct switch_dev *remote = rx->kind == EMU_LINK_LOCAL ? switch_of(rx->tx->owner, ch->sw.kind)
                                                           : NULL;

    return remote ? switch_channels_of(remote) : NULL;
}

/* Check the cable into port @p, if a switch sends on it. */
static const char *check_cable(struct switch_channels *ch, uint32_t p)
{
    const struct emu_rx *rx = &ch->port[p].rx;
    const struct switch_channels *from = check_remote(ch, p);

    return from ? switch_channels_check_cable(&ch->sw, p, &from->port[rx->peer.port].vcs, NULL)
                : NULL;
}

/* Return whether a head or, if @reply, a reply with @tag and channel @c is on the cable to @rx. */
static bool check_in_flight(const struct emu_rx *rx, uint32_t c, uint32_t tag, bool reply)
{
    const struct emu_ring_end *data = &rx->tx->data;

    for (uint32_t at = rx->data.at; at != data->at; at++) {
        const struct emu_packet_hdr *hdr = &data->slot[at & data->mask].packet;
        bool is_reply = hdr->kind == EMU_PACKET_ACK || hdr->kind == EMU_PACKET_NACK;

        if (hdr->channel == c && hdr->tag == tag && is_reply == reply &&
            (reply || hdr->kind == EMU_PACKET_HEAD))
            return true;
    }
    return false;
}

static bool check_unsent(const struct switch_channels *ch, uint32_t w)
{
    uint32_t slot = ch->out[w].cursor;

    return slot != CHANNEL_NONE && ch->store.slot[slot].packet.kind == EMU_PACKET_HEAD;
}

/*
 * Return whether a fault or time-out at this switch may have left a channel open at one end only.
 */
static bool check_faulty(const struct switch_channels *ch)
{
    for (uint32_t p = 0; p < ch->sw.ports; p++)
        if (ch->port[p].faults)
            return true;
    return emu_count_read(&ch->sw.counts.timeouts) || emu_count_read(&ch->sw.counts.given_up);
}

/*
 * Check that each channel of the cable at port @p is open at both ends, or at neither, or that the
 * packet's head or reply is on the cable. Skip the check if a segment may have been lost, or a
 * packet given up.
 */
static const char *check_open(const struct switch_channels *ch, uint32_t p)
{
    const struct switch_channel_port *port = &ch->port[p];
    const struct switch_channels *remote = check_remote(ch, p);

    if (!remote || check_faulty(ch) || check_faulty(remote))
        return NULL;
    for (uint32_t c = 0; c < EMU_VCS; c++) {
        const struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];
        const struct switch_channel_port *from = &remote->port[port->rx.peer.port];
        bool here = in->state != CHANNEL_CLOSED;
        bool there = from->vcs.open >> c & 1;
        bool both = here && there && in->tag == from->vcs.tag[c];

        if (here && !both)
            return "a channel is open at the receiving end only";
        if (there && !here && !check_unsent(remote, port->rx.peer.port * EMU_VCS + c) &&
            !check_in_flight(&port->rx, c, from->vcs.tag[c], false) &&
            !check_in_flight(&from->rx, c, from->vcs.tag[c], true))
            return "a channel is open at the sending end only";
    }
    return NULL;
}

/*
 * Check that `unsettled` is the number of copies of packet @v, open or wanted, and that each open
 * copy has a channel.
 */
static const char *check_copies(const struct switch_channels *ch, uint32_t v)
{
    const struct switch_channel_in *in = &ch->in[v];
    uint32_t copies = in->group ? emu_ports_count(in->wants) : emu_ports_any(in->wants);

    for (uint32_t w = in->copies; w != CHANNEL_NONE; w = ch->out[w].next) {
        const struct switch_channel_port *port = &ch->port[w / EMU_VCS];
        uint32_t c = w % EMU_VCS;
        bool ready = port->ready[ch->out[w].priority] >> c & 1;

        copies++;
        if (ch->out[w].from != v || !(port->vcs.open >> c & 1) || port->vcs.tag[c] != in->tag)
            return "a packet has a channel that is not its own";
        if (ready != (ch->out[w].cursor != CHANNEL_NONE))
            return "an output's set of channels with a segment to send is wrong";
    }
    return copies == in->unsettled ? NULL : "a packet's count of missing replies is wrong";
}

/* Check the queue of packet @v. Add its segments to *@held, their waiting times to *@waited_ps. */
static const char *check_queue(const struct switch_channels *ch, uint32_t v, uint64_t now_ps,
                               uint64_t *held, uint64_t *waited_ps)
{
    const struct switch_channel_in *in = &ch->in[v];
    uint32_t slot = in->queue.first;

    *held += in->queued;
    for (uint32_t left = in->queued; left; left--) {
        if (!ch->hold[slot].left || ch->hold[slot].left > in->unsettled)
            return "a segment's count of copies left to send is wrong";
        *waited_ps += now_ps - ch->store.slot[slot].time_ps;
        slot = ch->store.next[slot];
    }
    return in->queued && in->state != CHANNEL_OPEN ? "a closed channel holds segments" : NULL;
}

static bool check_has_requests(const struct switch_channel_port *port)
{
    uint32_t any = port->replies;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        any |= port->ready[priority];
    return any != 0;
}

/* Return whether `stopped`, `open_of` and `served` agree, and no channel belongs to two inputs. */
static bool check_served(const struct switch_channels *ch, const struct switch_channel_port *port)
{
    uint32_t open = 0;

    for (uint32_t p = 0; p < ch->sw.ports; p++) {
        if (emu_ports_has(port->served, p) != (port->open_of[p] != 0) || (open & port->open_of[p]))
            return false;
        open |= port->open_of[p];
    }
    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        if (port->ready[priority] & ~open)
            return false;
    return open == port->stopped && !(open & ~port->vcs.open);
}

static bool check_openable(const struct switch_channels *ch, uint32_t p)
{
    uint32_t pending = ch->port[p].pending;

    for (uint32_t priority = 0; priority < CHANNEL_OPENABLES; priority++)
        if (emu_ports_has(ch->openable[priority], p) != (pending < ch->most_open[priority]))
            return false;
    return emu_ports_has(ch->light, p) == (pending < ch->light_pending);
}

static const char *check_port(struct switch_channels *ch, uint32_t p, uint64_t now_ps,
                              uint64_t *held, uint64_t *waited_ps)
{
    const char *wrong = check_cable(ch, p);

    if (check_has_requests(&ch->port[p]) != emu_ports_has(ch->queued, p))
        return "the set of outputs with something to send is wrong";
    if (ch->port[p].pending != emu_vcs_pending(&ch->port[p].vcs))
        return "an output's count of open channels is wrong";
    if (!check_openable(ch, p))
        return "the set of outputs with channels to open is wrong";
    if (!check_served(ch, &ch->port[p]))
        return "an output's map from open channels to inputs is wrong";
    if (!wrong)
        wrong = check_open(ch, p);
    for (uint32_t v = p * EMU_VCS; !wrong && v < (p + 1) * EMU_VCS; v++) {
        wrong = check_queue(ch, v, now_ps, held, waited_ps);
        if (!wrong && ch->in[v].state == CHANNEL_OPEN)
            wrong = check_copies(ch, v);
    }
    return wrong;
}

void switch_channels_check(struct switch_dev *sw, uint64_t now_ps,
                           const struct emu_reporter *reporter)
{
    struct switch_channels *ch = switch_channels_of(sw);
    uint64_t held = 0, waited_ps = 0;
    bool counted = true;

    for (uint32_t p = 0; p < sw->ports; p++) {
        const char *wrong = check_port(ch, p, now_ps, &held, &waited_ps);

        emu_report_error(reporter, p, wrong);
        counted &= !wrong;
    }
    if (!counted)
        return; /* the checks below would only repeat the error */
    emu_report_error(reporter, EMU_NO_PORT, switch_store_check(&ch->store, held));
    if (ch->timing)
        emu_report_error(reporter, EMU_NO_PORT,
                         switch_little_check(sw, &ch->timing->little, now_ps, held, waited_ps));
}

uint32_t switch_channels_bufs(struct switch_dev *sw)
{
    const struct switch_channels *ch = switch_channels_of(sw);
    uint32_t bufs = 0;

    for (uint32_t p = 0; p < sw->ports; p++)
        bufs += emu_link_bufs(&ch->port[p].rx);
    for (uint32_t v = 0; v < sw->ports * EMU_VCS; v++) {
        uint32_t slot = ch->in[v].queue.first;

        for (uint32_t left = ch->in[v].queued; left; left--, slot = ch->store.next[slot])
            bufs += ch->store.slot[slot].buf != EMU_NO_BUF ? ch->hold[slot].left : 0;
    }
    return bufs;
}
