/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - the router of QsNet III, with virtual channels and acknowledgments: its state.
 *
 * A packet passes these stages. Each is a header and a file that say what must hold, and each calls
 * only stages further down in this list:
 *
 * kind.c       the switch is made and freed; the table of what a kind of switch offers
 * check.c      all invariants, recounted from scratch
 * link.c       a link goes down or comes up; a port is stuck
 * raw.c, timed.c   when each stage runs, on the two sorts of clocks
 * arrival.c    a header or a segment is checked, and enters its input's buffer
 * bypass.c     clock raw: a packet that has to wait for nothing skips the buffer
 * reply.c      ACK and NACK on their way back; a packet is given up; time-outs
 * transmit.c   switch allocation: one of the channels that are ready sends a segment on the wire
 * allocate.c   virtual channel allocation: a packet gets a channel of its output, or waits for one
 * route.c      route computation: the outputs that a packet may take
 * requests.h   which outputs have something to send
 * buffer.c     the input's buffer; credits return to the sender
 *
 * All of it belongs to the switch's worker. All stages decide the same on every clock.
 * What the two ends of a cable promise each other is in emu/packet/packet.h.
 *
 * A channel is named by a number: port * EMU_VCS + its number on the port. A channel of an input
 * (@v) holds a packet. Each channel of an output (@w) that the packet opens is a *copy* of it: one
 * for a unicast, one for each output of a broadcast.
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

/* The state of an input's channel and of its packet. */
enum switch_channel_state {
    CHANNEL_CLOSED,
    CHANNEL_OPEN,    /* it has copies, or waits for channels */
    CHANNEL_DRAINED, /* it can go nowhere: its segments are dropped; after the last one, a NACK */
    CHANNEL_REPLIED  /* all its copies have replies; its own reply waits for the wire */
};

/* A channel of an input. */
struct switch_channel_in {
    /* outputs of which it waits for a channel: a unicast for one of them, a broadcast for all */
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

/* bypass.c touches the lines up to `tag` in `vcs`, and the first line of the receiving end. */
struct switch_channel_port {
    /* The sending end. */
    alignas(EMU_LINE) struct emu_tx tx;
    emu_ports waiters; /* inputs with a packet that waits for a channel here */
    emu_ports onward;  /* outputs that packets from this input may take: route.h */
    struct emu_vcs vcs;
    uint32_t stopped; /* open channels with a packet that has waited here, by bit */
    uint8_t pending;  /* channels that are open; read by anyone */

    /* Of this port's input. */
    uint8_t owed_channel;      /* of the credits rx.owed: raw */
    uint32_t held;             /* segments at the input */
    struct emu_faults *faults; /* NULL: none */
    alignas(EMU_LINE) struct emu_rx rx;

    /* Requests of the sending end (requests.h), and round robin (transmit.c, allocate.c). */
    uint32_t ready[EMU_PRIORITIES]; /* channels with a segment to send */
    uint32_t replies;   /* of this port's input: channels whose reply waits for the wire */
    uint32_t nacks;     /* of them, those that are NACKs */
    emu_ports twins;    /* outputs to the same device, this one too */
    emu_ports served;   /* inputs with a packet on a channel that has `stopped` */
    uint8_t last_input; /* that sent a segment: round robin */
    uint8_t last_reply;
    uint8_t last_grant[2]; /* input that was given a channel; and one for a packet that collects */
    uint8_t collects;      /* by priority: the next channel is granted to a packet that collects */
    uint8_t input_of[EMU_VCS];        /* of the packet on a channel that has stopped */
    uint32_t open_of[TOPO_PORTS_MAX]; /* by input: such channels with its packets, by bit */
    /* Packets of this input that wait for a channel: allocate.c. */
    uint32_t of_priority[EMU_PRIORITIES]; /* their channels */
    uint32_t collect;                     /* of these, the channels whose packets collect slots */
    uint64_t reply_ps[EMU_VCS];           /* the last reply to a broadcast's copies so far */
};

/* An output and an input. */
struct switch_channel_pair {
    uint32_t waiting;      /* channels of the input that wait for one of the output */
    uint8_t last_sent;     /* channel of the output that sent for the input last */
    uint8_t last_grant[2]; /* channel of the input that was granted one last; as above */
};

/* Why a segment still has its slot at an input: buffer.h. */
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

/* Timed clocks: when each output acts. Each array is by output. */
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

/* Do a head and the descriptor around it agree? */
static inline bool switch_channel_head_sane(const struct emu_head *head,
                                            const struct emu_packet_hdr *hdr, uint32_t segments)
{
    return head->channel == hdr->channel && hdr->last == (segments == 1) &&
           hdr->wire + 1u == (segments == 1 ? emu_packet_last_wire(head->bytes, 1) : EMU_SEG_BYTES);
}

/*
 * The head of a packet has come: all that is known of the packet. The fields are written one by
 * one: a struct that was made elsewhere would be copied in larger pieces than it was just stored
 * in, and the processor would wait for that (5 % of a hop of packets of five segments).
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
