/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - state of the router of QsNet III, with virtual channels and acknowledgments.
 *
 * A packet passes these stages. Each stage calls only stages further down this list; stages.h
 * declares what they offer each other.
 *
 * kind.c       creates and frees the switch; its struct switch_kind
 * check.c      recounts all state from scratch and compares
 * link.c       a link goes down or comes up; a port is stuck
 * raw.c, timed.c   when each stage runs, on clock raw and on timed clocks
 * arrival.c    checks an arriving header or segment and stores it in its input's buffer
 * bypass.c     clock raw: a packet that need not wait skips the buffer
 * reply.c      ACK and NACK on their way back; packets that are given up; time-outs
 * transmit.c   switch allocation: picks the channel that sends next, and sends its segment
 * allocate.c   virtual channel allocation: gives a packet a channel of its output, or makes it wait
 * route.c      route computation: the outputs that a packet may take
 * requests.h   which outputs have something to send
 * buffer.c     the input's buffer; credits return to the sender
 *
 * The switch's worker owns this state. All stages decide the same on every clock.
 * emu/packet/packet.h defines the protocol between the two ends of a cable.
 *
 * A channel's number is port * EMU_VCS + its number on the port. @v is always a channel of an
 * input, which holds a packet. @w is always a channel of an output; each one that a packet opens is
 * a *copy* of the packet: one for a unicast, one per output for a broadcast.
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
#define CHANNEL_TICKS 8u /* in a time-out */
/* most segments that a switch holds without a credit; only faults make such segments */
#define CHANNEL_UNCREDITED_MAX 64u

/* The state of an input's channel and of its packet. */
enum switch_channel_state {
    CHANNEL_CLOSED,
    CHANNEL_OPEN,    /* the packet has copies, or waits for channels */
    CHANNEL_DRAINED, /* no output leads on: segments are dropped, and the last one gets a NACK */
    CHANNEL_REPLIED  /* all copies have replies; the packet's own reply waits for the wire */
};

/* A channel of an input. */
struct switch_channel_in {
    /* outputs on which it waits for a channel: a unicast needs one of them, a broadcast all */
    emu_ports wants;
    struct switch_list queue; /* its segments in the buffer */
    uint32_t tag;
    uint16_t copies;   /* head of the list of copies, linked by switch_channel_out.next */
    uint16_t tick;     /* arrival of its latest segment */
    uint8_t state;     /* enum switch_channel_state */
    uint8_t queued;    /* segments in the queue */
    uint8_t index;     /* least index that the next segment may have */
    uint8_t last;      /* index of the packet's last segment */
    uint8_t last_wire; /* `wire` field of the last segment */
    uint8_t priority;
    uint8_t unsettled; /* copies, made or wanted, without a reply */
    bool group : 1;    /* a broadcast */
    bool whole : 1;    /* the last segment has come */
    bool nack : 1;     /* a copy was refused or given up */
};
static_assert(EMU_PORT_WORDS > 1 || sizeof(struct switch_channel_in) == 32, "two in a cache line");

/* A channel of an output. */
struct switch_channel_out {
    uint16_t from;   /* channel of the input; CHANNEL_NONE: its packet was given up there */
    uint16_t next;   /* next copy of the same packet */
    uint16_t cursor; /* slot of the next segment to send; CHANNEL_NONE: not here yet */
    uint16_t tick;   /* when it was opened or last sent a segment */
    uint8_t priority;
    bool ended; /* the last segment was sent */
};

/* bypass.c touches the cache lines up to `tag` in `vcs`, and the first line of the receiver. */
struct switch_channel_port {
    /* The output. */
    alignas(EMU_LINE) struct emu_tx tx;
    emu_ports waiters; /* inputs with a packet that waits for a channel here */
    emu_ports onward;  /* outputs that packets from this input may take: route.h */
    struct emu_vcs vcs;
    uint32_t stopped; /* set of open channels whose packet has waited at this output */
    uint8_t pending;  /* number of open channels; any thread may read it */

    /* The input. */
    uint8_t owed_channel;      /* raw: channel of the credits counted in rx.owed */
    uint32_t held;             /* segments at the input that took a credit */
    struct emu_faults *faults; /* NULL: none */
    alignas(EMU_LINE) struct emu_rx rx;

    /* The output's requests (requests.h), and round robin (transmit.c, allocate.c). */
    uint32_t ready[EMU_PRIORITIES]; /* set of channels with a segment to send */
    uint32_t replies;      /* set of this port's input channels whose reply waits for the wire */
    uint32_t nacks;        /* subset of `replies` that are NACKs */
    emu_ports twins;       /* outputs to the same device, including this one */
    emu_ports served;      /* inputs with a packet on a channel in `stopped` */
    uint8_t last_input;    /* input that sent a segment last */
    uint8_t last_reply;    /* channel that sent a reply last */
    uint8_t last_grant[2]; /* input that was granted a channel last; [1]: for a collecting packet */
    uint8_t collects;      /* by priority: the next grant goes to a packet that collects slots */
    uint8_t input_of[EMU_VCS];        /* for channels in `stopped`: the packet's input */
    uint32_t open_of[TOPO_PORTS_MAX]; /* the reverse: channels in `stopped`, by input */
    /* Packets of this input that wait for a channel: allocate.c. */
    uint32_t of_priority[EMU_PRIORITIES]; /* set of their channels */
    uint32_t collect;                     /* subset whose packets collect slots */
    uint64_t reply_ps[EMU_VCS];           /* time of the latest reply to a broadcast's copies */
};

/* An output and an input. */
struct switch_channel_pair {
    uint32_t waiting;      /* channels of the input that wait for one of the output */
    uint8_t last_sent;     /* channel of the output that sent for the input last */
    uint8_t last_grant[2]; /* channel of the input that was granted one last; [1]: collecting */
};

/* Why a segment still has its slot at an input: buffer.h. */
struct switch_channel_hold {
    uint8_t left;   /* copies that have not sent it yet */
    bool no_credit; /* it took no credit */
};

/* Combine units, which are devices of their own: see switch_units(). */
struct switch_channel_units {
    uint32_t first;     /* destinations from this number on are units; UINT32_MAX: there are none */
    uint32_t own;       /* port of this switch's unit; UINT32_MAX: it has none */
    const uint32_t *at; /* by port, the unit behind it; valid only if there are units */
};

/* Timed clocks: when each output acts. Each array is by output. */
struct switch_channel_timing {
    struct switch_agenda agenda;
    struct switch_little little;
    uint64_t sweep_ps;    /* next check for time-outs, a multiple of tick_ps; EMU_NEVER: none */
    uint64_t *busy_ps;    /* copies of each tx.busy_ps, side by side */
    uint64_t *due_ps;     /* outputs in agenda.due: when it acts */
    uint64_t *stalled_ps; /* when it last found no credit for any segment */
};

struct switch_channels {
    struct switch_dev sw;
    struct switch_channel_timing *timing; /* NULL: clock raw */

    /* Sets of outputs. */
    emu_ports news;        /* got a request since they were last scheduled */
    emu_ports plugged;     /* have a cable: routes name only these */
    emu_ports up;          /* subset whose link is up: segments are sent only by these */
    emu_ports openable[2]; /* have a channel to open: [0] for bulk, [1] for higher priorities */
    emu_ports light;       /* have fewer than profile->light_pending open channels */
    emu_ports queued;      /* have segments or replies to send */
    emu_ports owing;       /* raw: inputs that owe their senders credits, paid at the step's end */

    uint32_t waiting[EMU_PRIORITIES]; /* packets that wait for channels */
    uint32_t channels;                /* of a link */
    uint32_t bulk;                    /* channels that bulk packets may open */
    uint32_t light_pending;           /* profile->light_pending */
    struct switch_channel_units units;
    uint32_t open;                    /* open channels of all outputs */
    uint32_t uncredited;              /* segments held that took no credit */
    uint16_t tick;                    /* time for time-outs, CHANNEL_TICKS to one */
    uint64_t tick_ps;                 /* length of a tick */
    uint64_t credit_ps;               /* time that a credit takes to return; clock raw: 0 */
    struct switch_store store;        /* segments at the inputs */
    struct switch_channel_hold *hold; /* by slot of the store */
    struct switch_channel_port *port; /* sw.ports */
    struct switch_channel_in *in;     /* sw.ports * EMU_VCS */
    struct switch_channel_out *out;   /* sw.ports * EMU_VCS */
    struct switch_channel_pair *pair; /* [output][input] */
    /* changes of the CRC-16 of a head and of a continuation, by old channel ^ new channel */
    uint16_t head_crc[EMU_VCS];
    uint16_t cont_crc[EMU_VCS];
    /* raw: change of a continuation's word, by its index; and for the last one */
    uint32_t cont_index[EMU_INDEXES];
    uint32_t cont_last;
};

/* The device on timed clocks (sw.dev.timed). */
struct switch_channels_timed {
    struct switch_channels ch;
    struct switch_channel_timing timing;
};

/* The device on clock raw. */
struct switch_channels_raw {
    struct switch_channels ch;
    uint64_t swept_ps; /* last check for time-outs, by the host's clock */
};

static inline struct switch_channels_raw *switch_channels_raw_of(struct switch_dev *sw)
{
    return (struct switch_channels_raw *)sw;
}

static inline struct switch_channels *switch_channels_of(struct switch_dev *sw)
{
    return (struct switch_channels *)sw;
}

/* Timed clocks only. */
static inline struct switch_channel_timing *switch_channels_timing(struct switch_channels *ch)
{
    return &((struct switch_channels_timed *)ch)->timing;
}

static inline struct switch_channel_pair *switch_channel_pair(const struct switch_channels *ch,
                                                              uint32_t o, uint32_t p)
{
    return &ch->pair[o * ch->sw.ports + p];
}

/* The bits of a continuation's word that change when it moves from channel @from to @to. */
static inline uint32_t switch_channel_relabel_cont(const struct switch_channels *ch, uint32_t from,
                                                   uint32_t to)
{
    return (from ^ to) | (uint32_t)ch->cont_crc[from ^ to] << 16;
}

/* Rewrite a checked header of channel @from for channel @to. */
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

/* Do a head and its descriptor agree? */
static inline bool switch_channel_head_sane(const struct emu_head *head,
                                            const struct emu_packet_hdr *hdr, uint32_t segments)
{
    return head->channel == hdr->channel && hdr->last == (segments == 1) &&
           hdr->wire + 1u == (segments == 1 ? emu_packet_last_wire(head->bytes, 1) : EMU_SEG_BYTES);
}

/*
 * Set up @in for a packet whose head has come. The fields are written one by one: the compiler
 * would copy a struct literal in larger pieces than it was just stored in, and the processor would
 * wait for that (5 % of a hop of packets of five segments).
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

#endif
