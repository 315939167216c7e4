/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - the router of QsNet III, with virtual channels and acknowledgments:
 * its machine. All of it is the switch's worker's.
 *
 * What a packet meets, in order: channel/input.c (checks, the input's buffer),
 * channel/route.c (candidates, choice, a channel of the output or a turn to
 * wait), channel/output.c (arbitration, room, the wire), channel/reply.c (ACK
 * and NACK on their way back, time-outs). They decide the same on every clock;
 * when they are asked is for channel/timed.c and channel/raw.c to say. On clock raw what need not
 * wait takes a shorter way, channel/through.c.
 * What cables promise is in emu/packet/packet.h.
 *
 * A channel is named by a number: port * EMU_VCS + its own. A channel of an
 * input holds a packet; each channel of an output that the packet opens is a
 * *copy* of it: one, or of a broadcast one for each output.
 */
#ifndef SWITCH_CHANNEL_H
#define SWITCH_CHANNEL_H

#include "emu/packet/vc.h"
#include "emu/fault/fault.h"
#include "emu/link/channels.h"
#include "switch/common/base.h"
#include "switch/common/events.h"
#include "switch/common/store.h"

#define CHANNEL_NONE  UINT16_MAX
#define CHANNEL_TICKS 8u /* to a time-out */
/* segments without a credit (faults) that a switch holds at most */
#define CHANNEL_UNCREDITED_MAX 64u

/* What the packet on an input's channel is at. */
enum switch_channel_state {
    CHANNEL_CLOSED,
    CHANNEL_OPEN,    /* it has copies, or waits for channels */
    CHANNEL_DRAINED, /* it goes nowhere: its segments are dropped, and the last one makes a NACK */
    CHANNEL_REPLIED  /* everything is known of it; the reply waits for the wire */
};

/* A channel of an input. */
struct switch_channel_in {
    /* outputs whose channel it waits for: any of them; of a group's, all */
    emu_ports wants;
    struct switch_list queue; /* its segments here */
    uint32_t tag;
    uint16_t copies;   /* first of them; the others by switch_channel_out.next */
    uint16_t tick;     /* when its last segment came */
    uint8_t state;     /* enum switch_channel_state */
    uint8_t queued;    /* segments in the queue */
    uint8_t index;     /* of the segment to come next, or a later one */
    uint8_t last;      /* index of the last one */
    uint8_t last_wire; /* what stands in its `wire` */
    uint8_t priority;
    uint8_t unsettled; /* copies, made or wanted, without a reply */
    bool group : 1;
    bool whole : 1; /* the last one has come */
    bool nack : 1;  /* a copy was refused, or given up */
};
static_assert(EMU_PORT_WORDS > 1 || sizeof(struct switch_channel_in) == 32, "two in a cache line");

/* A channel of an output. */
struct switch_channel_out {
    uint16_t from;   /* channel of the input; CHANNEL_NONE: its packet was given up there */
    uint16_t next;   /* of the packet's copies */
    uint16_t cursor; /* slot of the segment to send next; CHANNEL_NONE: it has not come */
    uint16_t tick;   /* when it was opened, or sent a segment */
    uint8_t priority;
    bool ended; /* the last one was sent */
};

/* What goes through touches the lines up to `tag` in `vcs`, and the first of the receiving end. */
struct switch_channel_port {
    /* The sending end. */
    alignas(EMU_LINE) struct emu_tx tx;
    emu_ports waiters; /* inputs with a packet that waits for a channel here */
    emu_ports onward;  /* outputs that what comes in here may take, by the state of their links */
    struct emu_vcs vcs;
    uint32_t stopped; /* open channels with a packet that has waited here, by bit */
    uint8_t pending;  /* channels that are open; read by anyone */

    /* Of this port's input. */
    uint8_t owed_channel;      /* of the credits rx.owed: raw */
    uint32_t held;             /* segments at the input */
    struct emu_faults *faults; /* NULL: none */
    alignas(EMU_LINE) struct emu_rx rx;

    /* Of what waits: at the sending end, */
    uint32_t ready[EMU_PRIORITIES]; /* channels with a segment to send */
    uint32_t replies;   /* of this port's input: channels whose reply waits for the wire */
    uint32_t nacks;     /* of them, those that are NACKs */
    emu_ports twins;    /* outputs to the same device, this one too */
    emu_ports served;   /* inputs with a packet on a channel that has `stopped` */
    uint8_t last_input; /* that sent a segment: round robin */
    uint8_t last_reply;
    uint8_t last_grant[2]; /* input that was given a channel; and one for a packet that collects */
    uint8_t collects;      /* by priority, whose turn it is for a channel: a packet that collects */
    uint8_t input_of[EMU_VCS];        /* of the packet on a channel that has stopped */
    uint32_t open_of[TOPO_PORTS_MAX]; /* by input: such channels with its packets, by bit */
    /* and at the input */
    uint32_t of_priority[EMU_PRIORITIES]; /* channels whose packets wait for one of an output; */
    uint32_t collect;                     /* of them, those whose packets collect slots there */
    uint64_t reply_ps[EMU_VCS];           /* the last reply to a broadcast's copies so far */
};

/* What an output keeps of an input. */
struct switch_channel_pair {
    uint32_t waiting;      /* channels of the input that wait for one of the output */
    uint8_t last_sent;     /* channel of the output that sent for the input last */
    uint8_t last_grant[2]; /* channel of the input that was given one last; and as above */
};

/* What holds a segment at an input. */
struct switch_channel_hold {
    uint8_t left;   /* copies that are still to leave */
    bool no_credit; /* no credit stands for it */
};

/* Combine units, which are devices of their own: see switch_units(). */
struct switch_channel_units {
    uint32_t first;     /* destinations from this number on are units; UINT32_MAX: there are none */
    uint32_t own;       /* port of this switch's; UINT32_MAX: it has none */
    const uint32_t *at; /* by port, the unit that it leads to; looked at only if there are any */
};

/* What the machine keeps where the clock has times; each array by output. */
struct switch_channel_timing {
    struct switch_agenda agenda;
    struct switch_little little;
    uint64_t sweep_ps;    /* the next look for time-outs, at a multiple of tick_ps; EMU_NEVER */
    uint64_t *busy_ps;    /* its tx.busy_ps, side by side */
    uint64_t *due_ps;     /* of those in agenda.due: when it acts */
    uint64_t *stalled_ps; /* of those that have found no room: when */
};

struct switch_channels {
    struct switch_dev sw;
    struct switch_channel_timing *timing; /* of a clock with times; NULL: there are none */

    /* Outputs, by bit. */
    emu_ports news;        /* with something to send that they did not have before */
    emu_ports plugged;     /* with a cable; all that routes may name */
    emu_ports up;          /* of them, those whose link is up: all that may be sent on */
    emu_ports openable[2]; /* with a channel to open: for bulk, and for higher priorities */
    emu_ports light;       /* with fewer than profile->light_pending open channels */
    emu_ports queued;      /* with segments to send, or replies */
    emu_ports paid;        /* whose far ends get credits when the step ends, and are told */

    uint32_t waiting[EMU_PRIORITIES]; /* packets that wait for channels */
    uint32_t channels;                /* of a link */
    uint32_t bulk;                    /* of them, those that packets of bulk may open */
    uint32_t light_pending;           /* profile->light_pending */
    struct switch_channel_units units;
    uint32_t open;                    /* channels of all outputs that are open */
    uint32_t uncredited;              /* held now */
    uint16_t tick;                    /* time, for time-outs: CHANNEL_TICKS to one */
    uint64_t tick_ps;                 /* how long a tick is */
    uint64_t credit_ps;               /* how long a credit takes on its way back; clock raw: 0 */
    struct switch_store store;        /* segments at the inputs */
    struct switch_channel_hold *hold; /* like the store's slots */
    struct switch_channel_port *port; /* sw.ports */
    struct switch_channel_in *in;     /* sw.ports * EMU_VCS */
    struct switch_channel_out *out;   /* as many */
    struct switch_channel_pair *pair; /* [output][input] */
    /* what another channel changes in a header's CRC-16, by the bits */
    uint16_t head_crc[EMU_VCS];
    uint16_t cont_crc[EMU_VCS]; /* that differ; and in a continuation's */
    /* raw: what an index changes in a continuation's word; and that it is the last */
    uint32_t cont_index[EMU_INDEXES];
    uint32_t cont_last;
};

/* The machine where the clock has times: sw.dev.timed. */
struct switch_channels_timed {
    struct switch_channels ch;
    struct switch_channel_timing timing;
};

/* The machine on clock raw. */
struct switch_channels_raw {
    struct switch_channels ch;
    uint64_t swept_ps; /* the last look for time-outs, by the host's clock */
};

static inline struct switch_channels_raw *switch_channels_raw_of(struct switch_dev *sw)
{
    return (struct switch_channels_raw *)sw;
}

static inline struct switch_channels *switch_channels_of(struct switch_dev *sw)
{
    return (struct switch_channels *)sw;
}

/* Only where the clock has times. */
static inline struct switch_channel_timing *switch_channels_timing(struct switch_channels *ch)
{
    return &((struct switch_channels_timed *)ch)->timing;
}

static inline struct switch_channel_pair *switch_channel_pair(const struct switch_channels *ch,
                                                              uint32_t o, uint32_t p)
{
    return &ch->pair[o * ch->sw.ports + p];
}

/* Output @o has something to send. */
static inline void switch_channel_tell(struct switch_channels *ch, uint32_t o)
{
    ch->news |= emu_port(o);
    ch->queued |= emu_port(o);
}

/* Output @o may have nothing left to send. */
static inline void switch_channel_untell(struct switch_channels *ch, uint32_t o)
{
    const struct switch_channel_port *port = &ch->port[o];
    uint32_t any = port->replies;

    for (uint32_t priority = 0; priority < EMU_PRIORITIES; priority++)
        any |= port->ready[priority];
    ch->queued &= ~emu_port_if(o, !any);
}

/* Output @o has @pending open channels now, or had before: what it has changes there. */
static inline void switch_channel_count(struct switch_channels *ch, uint32_t o, uint32_t pending)
{
    ch->light ^= emu_port_if(o, pending == ch->light_pending);
    ch->openable[0] ^= emu_port_if(o, pending == ch->bulk);
    ch->openable[1] ^= emu_port_if(o, pending == ch->channels);
}

/* One more channel of output @o is open. */
static inline void switch_channel_opened(struct switch_channels *ch, uint32_t o)
{
    uint32_t pending = ch->port[o].pending + 1u;

    __atomic_store_n(&ch->port[o].pending, (uint8_t)pending,
                     __ATOMIC_RELAXED); /* switch_queued() */
    ch->open++;
    switch_channel_count(ch, o, pending);
}

/* The packet on channel @c of output @o, of input @p, has a segment that waits here. */
static inline void switch_channel_stopped(struct switch_channels *ch, uint32_t o, uint32_t c,
                                          uint32_t p, uint32_t priority)
{
    struct switch_channel_port *port = &ch->port[o];

    port->ready[priority] |= 1u << c;
    port->stopped |= 1u << c;
    port->input_of[c] = (uint8_t)p;
    port->open_of[p] |= 1u << c;
    port->served |= emu_port(p);
    switch_channel_tell(ch, o);
}

/* Channel @c of output @o is open no more. */
static inline void switch_channel_closed(struct switch_channels *ch, uint32_t o, uint32_t c)
{
    struct switch_channel_port *port = &ch->port[o];
    uint32_t pending = port->pending;

    if (port->stopped >> c & 1) {
        uint32_t p = port->input_of[c];

        port->stopped &= ~(1u << c);
        port->open_of[p] &= ~(1u << c);
        port->served &= ~emu_port_if(p, !port->open_of[p]);
    }
    switch_channel_count(ch, o, pending);
    ch->open--;
    __atomic_store_n(&port->pending, (uint8_t)(pending - 1), __ATOMIC_RELAXED);
}

/* Of input @p, @count credits for segments of channel @c: raw, at the end of the step at last. */
static inline void switch_channel_owe(struct switch_channels *ch, uint32_t p, uint32_t c,
                                      uint32_t count)
{
    struct switch_channel_port *port = &ch->port[p];

    if (port->rx.owed && port->owed_channel != c) {
        emu_rx_put_credits(&port->rx, port->rx.owed, port->owed_channel, 0);
        port->rx.owed = 0;
    }
    port->owed_channel = (uint8_t)c;
    port->rx.owed += count;
    ch->paid |= emu_port(p);
}

/* What is other in a continuation, where it goes on from channel @from to @to. */
static inline uint32_t switch_channel_relabel_cont(const struct switch_channels *ch, uint32_t from,
                                                   uint32_t to)
{
    return (from ^ to) | (uint32_t)ch->cont_crc[from ^ to] << 16;
}

/* A segment's header on channel @to; it was checked on channel @from. */
static inline void switch_channel_relabel(const struct switch_channels *ch,
                                          struct emu_packet_hdr *hdr, uint32_t from, uint32_t to)
{
    uint32_t other = from ^ to;

    hdr->channel = (uint8_t)to;
    if (hdr->kind == EMU_PACKET_HEAD)
        hdr->head ^= other | (uint64_t)ch->head_crc[other] << 48;
    else
        hdr->cont ^= switch_channel_relabel_cont(ch, from, to);
}

/* Segments that port @p's input has room for. */
static inline bool switch_channel_has_room(const struct switch_channels *ch, uint32_t p)
{
    return ch->port[p].held < ch->channels + ch->sw.profile->pool_slots;
}

/* Does a head say the same as the descriptor around it? */
static inline bool switch_channel_head_sane(const struct emu_head *head,
                                            const struct emu_packet_hdr *hdr, uint32_t segments)
{
    return head->channel == hdr->channel && hdr->last == (segments == 1) &&
           hdr->wire + 1u == (segments == 1 ? emu_packet_last_wire(head->bytes, 1) : EMU_SEG_BYTES);
}

/*
 * What is known of a packet whose head has come, all of it. Field by field: a whole one that was
 * made elsewhere would be copied in larger pieces than it was just stored in, which the processor
 * waits for: of a hop of packets of five segments 5 %.
 */
static inline void switch_channel_new(const struct switch_channels *ch,
                                      struct switch_channel_in *in, const struct emu_head *head,
                                      uint32_t tag, uint32_t segments)
{
    in->wants = EMU_NO_PORTS;
    in->queue.first = in->queue.last = 0;
    in->tag = tag;
    in->copies = CHANNEL_NONE;
    in->tick = ch->tick;
    in->state = CHANNEL_OPEN;
    in->queued = 0;
    in->index = 1;
    in->last = (uint8_t)(segments - 1);
    in->last_wire = (uint8_t)(emu_packet_last_wire(head->bytes, segments) - 1);
    in->priority = head->priority;
    in->unsettled = 0;
    in->group = head->group;
    in->whole = in->nack = false;
}

/* What follows the first word of the reply on channel @c of an input, to the packet @in. */
static inline uint64_t switch_channel_reply_rest(const struct switch_channel_in *in, uint32_t c,
                                                 bool nack)
{
    return (struct emu_packet_hdr){.tag = in->tag,
                                   .wire = EMU_REPLY_BYTES - 1,
                                   .channel = (uint8_t)c,
                                   .last = 1,
                                   .kind = nack ? EMU_PACKET_NACK : EMU_PACKET_ACK}
        .rest;
}

/* That reply. */
static inline struct emu_entry switch_channel_reply(const struct switch_channel_in *in, uint32_t c,
                                                    bool nack)
{
    return (struct emu_entry){.packet.rest = switch_channel_reply_rest(in, c, nack),
                              .buf = EMU_NO_BUF};
}

/* channel/input.c: @entry came to port @p, at @at_ps; its buffer reference comes with it. */
void switch_channel_arrive(struct switch_channels *ch, uint32_t p, const struct emu_entry *entry,
                           enum emu_fate fate, uint64_t at_ps);

/* channel/input.c: the oldest segments of @v that no copy wants leave, with their credits. */
void switch_channel_leave(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/* channel/input.c: clock raw: who is owed credits gets them, and is told. Once a pass. */
void switch_channel_tell_paid(struct switch_channels *ch);

/* channel/route.c: the head of the packet @v is here: where to, and by which channels. */
void switch_channel_route(struct switch_channels *ch, uint32_t v, const struct emu_head *head,
                          uint64_t at_ps);

/* channel/route.c: the packet @v waits no longer. */
void switch_channel_unwait(struct switch_channels *ch, uint32_t v);

/* channel/route.c: channels of output @o may have become free: to those that wait, in turn. */
void switch_channel_grant(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

/* channel/output.c: credits that came by @at_ps; raw: all. */
void switch_channel_take_credits(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

/* channel/output.c: send a reply or a segment by output @o, if one may go. */
bool switch_channel_send(struct switch_channels *ch, uint32_t o, uint64_t at_ps);

/*
 * channel/through.c: clock raw: the next segment of the packet @v, and the reply to it, go on at
 * once if nothing is in the way. False: it has to be queued; nothing has changed.
 */
bool switch_channel_pass(struct switch_channels *ch, uint32_t v, const struct emu_entry *entry);
bool switch_channel_pass_reply(struct switch_channels *ch, uint32_t v);

/*
 * channel/through.c: clock raw: of what has come to port @p, that which goes on at once, as far as
 * it is as most is; at most @most. Returns how many.
 */
uint32_t switch_channel_through(struct switch_channels *ch, uint32_t p, uint32_t most);

/* channel/output.c: the copy @w sends nothing more. The slots promised to it are free. */
void switch_channel_mute(struct switch_channels *ch, uint32_t w);

/* channel/reply.c: a reply came to port @p. */
void switch_channel_replied(struct switch_channels *ch, uint32_t p,
                            const struct emu_packet_hdr *reply, uint64_t at_ps);

/* channel/reply.c: all that will be known of the packet @v is known: its reply. */
void switch_channel_finish(struct switch_channels *ch, uint32_t v);

/* channel/reply.c: forget the packet @v: its source's side has. */
void switch_channel_give_up(struct switch_channels *ch, uint32_t v, uint64_t at_ps);

/*
 * channel/reply.c: the copy of @v that was to open a channel of output @o, and cannot, gets a NACK;
 * if it is to take one of several outputs, when it can take none.
 */
void switch_channel_refuse(struct switch_channels *ch, uint32_t v, uint32_t o, uint64_t at_ps);

/* channel/reply.c: a tick has passed: who waits too long? Returns true if any channel is open. */
bool switch_channel_sweep(struct switch_channels *ch, uint64_t at_ps);

/* Take the next entry of port @p that has come by @until_ps; false: there is none. */
static inline bool switch_channel_take(struct switch_channels *ch, uint32_t p, uint64_t until_ps,
                                       struct emu_entry *entry, enum emu_fate *fate)
{
    struct switch_channel_port *port = &ch->port[p];

    return emu_rx_take(&port->rx, port->faults, &ch->sw.dev.worker->cache, until_ps, entry, fate);
}

/* link.c: the first step: which ports have cables. */
void switch_channel_plugged(struct switch_channels *ch);

/*
 * link.c: the link at @port goes down, or comes up again. Down: what waits for it goes another way
 * or gets a NACK, and what has come by it in part is given up. Returns packets that were sent by it
 * and had no reply yet.
 */
uint32_t switch_channel_link(struct switch_channels *ch, uint32_t port, bool up, uint64_t at_ps);

/* link.c: stick and waiting of a struct switch_kind. */
void switch_channels_stick(struct switch_dev *sw, uint32_t port, bool stuck, uint64_t at_ps);
bool switch_channels_ready(const struct switch_dev *sw, uint32_t port);
uint32_t switch_channels_waiting(struct switch_dev *sw, uint32_t port,
                                 void (*tell)(void *ctx, const struct emu_entry *entry), void *ctx);

/*
 * timed.c: outputs that were given something outside of a step: all that was to happen by @at_ps
 * has happened, so they act after that.
 */
void switch_channel_news(struct switch_channels *ch, uint64_t at_ps);

/* reply.c: the copy of @v that is to leave by channel @w, closed now, has no other reply. */
void switch_channel_settle(struct switch_channels *ch, uint32_t w, bool nack, uint64_t at_ps);

/* route.c: the packet @v waits for none of @outs any more. */
void switch_channel_unwait_for(struct switch_channels *ch, uint32_t v, emu_ports outs);

/* channel/raw.c, channel/timed.c: emu_step_fn of each clock. */
uint32_t switch_step_channels_raw(struct emu_dev *dev, uint64_t until_ps);
uint32_t switch_step_channels(struct emu_dev *dev, uint64_t until_ps);

/* channel/check.c: check, check_cable, check_out and bufs of a struct switch_kind. */
void switch_channels_check(struct switch_dev *sw, uint64_t now_ps, const struct emu_found *found);
const char *switch_channels_check_out(struct switch_dev *sw, uint32_t port, const struct emu_rx *rx,
                                      const struct emu_faults *faults);
const char *switch_channels_check_cable(struct switch_dev *sw, uint32_t port,
                                        const struct emu_vcs *vcs, const uint32_t *promised);
uint32_t switch_channels_bufs(struct switch_dev *sw);

/* channel.c: the kind, for the list in switch.c. */
extern const struct switch_kind switch_channel_kind;

#endif
