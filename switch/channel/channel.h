/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * channel.h - state of the router of QsNet III, with virtual channels and acknowledgments.
 *
 * These files implement the router. Each file calls only functions of files further down this list.
 * stages.h declares the functions that the files share.
 *
 *   kind.c       creates and frees the switch; defines its struct switch_kind
 *   check.c      counts all state again, and compares the counts
 *   link.c       takes a link down or up, or stops a port
 *   raw.c, timed.c   the steps, on clock raw and on timed clocks
 *   arrival.c    checks an arriving header or segment and stores it in its input's buffer
 *   bypass.c     clock raw: a packet that need not wait skips the buffer
 *   reply.c      returns ACK and NACK; ends packets without a reply, and handles time-outs
 *   transmit.c   switch allocation: picks the channel that sends next, and sends its segment
 *   allocate.c   virtual channel allocation: gives a packet a channel, or makes it wait for one
 *   route.c      route computation: the outputs that a packet may take
 *   requests.h   records which outputs have something to send
 *   buffer.c     keeps segments in the input's buffer; returns credits to the sender
 *
 * The switch's worker owns this state. All decisions are the same on every clock.
 * emu/packet/packet.h defines the protocol between the two ends of a cable.
 *
 * A channel's number in the switch is port * EMU_VCS + its number on the port. A packet's first
 * segment is its *head*, the others are *continuations*. @v is always a channel of an input, and
 * also stands for the packet on it. @w is always a channel of an output. Each channel that a packet
 * opens at an output is a *copy* of the packet: one for a unicast, one per output for a broadcast.
 * A broadcast of several segments *collects* slots: before a copy sends the first segment, slots at
 * the remote end are *promised* to all its segments (allocate.h).
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
#define CHANNEL_TICKS 8u /* ticks per time-out */
/* number of sets of outputs in switch_channels.openable */
#define CHANNEL_OPENABLES (EMU_PRIORITY_LONG + 2)
/* maximum number of segments without a credit in a switch; only faults cause such segments */
#define CHANNEL_UNCREDITED_MAX 64u

/* The state of an input's channel and of its packet. */
enum switch_channel_state {
    CHANNEL_CLOSED,
    CHANNEL_OPEN, /* the packet has copies, or waits for channels */
    /* no output leads to its destination, so its segments are dropped and it gets a NACK */
    CHANNEL_DRAINED,
    CHANNEL_REPLIED /* all copies have their replies; the packet's own reply waits for the wire */
};

struct switch_channel_in {
    /* outputs where the packet waits for a channel: a unicast needs one of them, a broadcast all */
    emu_ports wants;
    struct switch_list queue; /* its segments in the input's buffer */
    uint32_t tag;
    /* first copy of the packet, linked by switch_channel_out.next; CHANNEL_NONE: none */
    uint16_t copies;
    uint16_t tick;     /* when its latest segment arrived, in ticks */
    uint8_t state;     /* enum switch_channel_state */
    uint8_t queued;    /* segments in the queue */
    uint8_t index;     /* lowest index that the next segment may have */
    uint8_t last;      /* index of the packet's last segment */
    uint8_t last_wire; /* `wire` field of the last segment */
    uint8_t priority;
    uint8_t unsettled; /* number of copies, open or wanted, without a reply */
    bool group : 1;    /* a broadcast */
    bool whole : 1;    /* the last segment has arrived */
    bool nack : 1;     /* a copy was refused or given up */
};
static_assert(EMU_PORT_WORDS > 1 || sizeof(struct switch_channel_in) == 32,
              "two fit into a cache line");

struct switch_channel_out {
    uint16_t from; /* channel of the input; CHANNEL_NONE: the packet has ended there */
    uint16_t next; /* next copy of the same packet */
    /* slot of the next segment to send; CHANNEL_NONE: that segment has not arrived */
    uint16_t cursor;
    uint16_t tick; /* when the channel was opened or last sent a segment, in ticks */
    uint8_t priority;
    bool ended; /* the last segment was sent */
};

/* bypass.c uses the first cache lines, up to `tag` in `vcs`, and the first line of the receiver. */
struct switch_channel_port {
    /* The output; only `onward` belongs to the input. */
    alignas(EMU_LINE) struct emu_tx tx;
    emu_ports waiters; /* inputs with a packet that waits for a channel of this output */
    emu_ports onward;  /* outputs that packets from this input may take (route.c) */
    struct emu_vcs vcs;
    /*
     * set of open channels whose packets have made a request (requests.h), because a segment of
     * theirs stopped in the input's buffer
     */
    uint32_t stopped;
    uint8_t pending; /* number of open channels; any thread may read it */

    /* The input. */
    uint8_t owed_channel;      /* raw: the channel to which the credits in rx.owed belong */
    uint32_t held;             /* segments in the input's buffer that took a credit */
    struct emu_faults *faults; /* faults of the cable into this port; NULL: none */
    alignas(EMU_LINE) struct emu_rx rx;

    /* The output's requests (requests.h), and positions of round robin (transmit.c, allocate.c). */
    uint32_t ready[EMU_PRIORITIES]; /* set of channels with a segment to send */
    uint32_t replies;   /* set of this port's input channels whose replies wait for the wire */
    uint32_t nacks;     /* subset of `replies` that are NACKs */
    emu_ports twins;    /* outputs to the same device, including this one */
    emu_ports served;   /* inputs that have a packet on a channel in `stopped` */
    uint8_t last_input; /* the input that sent a segment last */
    uint8_t last_reply; /* the channel that sent a reply last */
    /*
     * the input whose packet was last granted a channel: [0] for packets that collect no slots, [1]
     * for packets that collect slots
     */
    uint8_t last_grant[2];
    /* bit per priority: the next grant goes to a packet that collects slots */
    uint8_t collects;
    uint8_t input_of[EMU_VCS]; /* for each channel in `stopped`: the packet's input */
    /* for each input: the channels in `stopped` that its packets have opened */
    uint32_t open_of[TOPO_PORTS_MAX];
    /* Packets of this input that wait for a channel: allocate.c. */
    /* set of the channels of the waiting packets, by priority */
    uint32_t of_priority[EMU_PRIORITIES];
    uint32_t collect; /* subset of channels whose packets collect slots */
    /* for each channel: time of the latest reply to a copy, if its packet is a broadcast */
    uint64_t reply_ps[EMU_VCS];
};

/* State of a pair of an output and an input. */
struct switch_channel_pair {
    /* channels of the input whose packets wait for a channel of the output */
    uint32_t waiting;
    uint8_t last_sent; /* the channel of the output that last sent a segment from the input */
    /*
     * the channel of the input whose packet was last granted a channel of the output: [0] for
     * packets that collect no slots, [1] for packets that collect slots
     */
    uint8_t last_grant[2];
};

/* Why a segment still occupies its slot at an input: buffer.h. */
struct switch_channel_hold {
    uint8_t left;   /* number of copies that have not sent the segment yet */
    bool no_credit; /* the segment took no credit */
};

/* Combine units, which are separate devices here: see switch_units(). */
struct switch_channel_units {
    /* a destination with this number or a higher one is a unit; UINT32_MAX: there are no units */
    uint32_t first;
    uint32_t own;       /* the port of this switch's unit; UINT32_MAX: it has none */
    const uint32_t *at; /* for each port, the unit behind it; valid only if there are units */
};

/* Timed clocks: when each output acts. Each array has an entry for each output. */
struct switch_channel_timing {
    struct switch_agenda agenda;
    struct switch_little little;
    /* when time-outs are checked next, a multiple of tick_ps; EMU_NEVER: not scheduled */
    uint64_t sweep_ps;
    uint64_t *busy_ps;    /* copies of tx.busy_ps, next to each other */
    uint64_t *due_ps;     /* for outputs in agenda.due: when the output acts */
    uint64_t *stalled_ps; /* when the output last found no credit for any of its segments */
};

struct switch_channels {
    struct switch_dev sw;
    struct switch_channel_timing *timing; /* NULL on clock raw */

    /* Sets of outputs. */
    emu_ports news;    /* outputs that received a request since they were last scheduled */
    emu_ports plugged; /* outputs with a cable; routes lead only to these */
    emu_ports up;      /* subset whose link is up; segments are sent only through these */
    /*
     * outputs with a channel that may be opened, by priority; the last set is for all priorities
     * above EMU_PRIORITY_LONG: switch_channel_openable()
     */
    emu_ports openable[CHANNEL_OPENABLES];
    emu_ports light;  /* outputs with fewer than profile->light_pending open channels */
    emu_ports queued; /* outputs with segments or replies to send */
    /* raw: inputs with credits that must be returned to their senders at the end of the step */
    emu_ports owing;

    uint32_t waiting[EMU_PRIORITIES]; /* number of packets that wait for channels, by priority */
    uint32_t channels;                /* number of channels of a link */
    /* for each set in `openable`: an output with this many open channels is not in the set */
    uint32_t most_open[CHANNEL_OPENABLES];
    uint32_t light_pending; /* copy of profile->light_pending */
    struct switch_channel_units units;
    uint32_t open;                    /* number of open channels of all outputs */
    uint32_t uncredited;              /* number of segments at the inputs that took no credit */
    uint16_t tick;                    /* current time, in ticks; a time-out lasts CHANNEL_TICKS */
    uint64_t tick_ps;                 /* length of a tick */
    uint64_t credit_ps;               /* time until a credit has returned; 0 on clock raw */
    struct switch_store store;        /* segments at the inputs */
    struct switch_channel_hold *hold; /* index: slot of the store */
    struct switch_channel_port *port; /* by port */
    struct switch_channel_in *in;     /* by channel: port * EMU_VCS + its number on the port */
    struct switch_channel_out *out;   /* by channel, as `in` */
    struct switch_channel_pair *pair; /* [output][input] */
    /* change of the CRC-16 of a head, or of a continuation; index: old channel ^ new channel */
    uint16_t head_crc[EMU_VCS];
    uint16_t cont_crc[EMU_VCS];
    /* raw: bits that change in a continuation's first word (emu_cont_other()) */
    uint32_t cont_index[EMU_INDEXES]; /* element i: if its segment index is i instead of 0 */
    uint32_t cont_last;               /* if it is the last segment of its packet */
};

struct switch_channels_timed {
    struct switch_channels ch;
    struct switch_channel_timing timing;
};

struct switch_channels_raw {
    struct switch_channels ch;
    uint64_t swept_ps; /* when time-outs were last checked, by the host's clock */
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

/* Return the outputs with a channel that a packet of @priority may open. */
static inline emu_ports switch_channel_openable(const struct switch_channels *ch, uint32_t priority)
{
    return ch->openable[priority < CHANNEL_OPENABLES ? priority : CHANNEL_OPENABLES - 1];
}

static inline struct switch_channel_pair *switch_channel_pair(const struct switch_channels *ch,
                                                              uint32_t o, uint32_t p)
{
    return &ch->pair[o * ch->sw.ports + p];
}

/* Return the bits of a continuation's first word that differ between channels @from and @to. */
static inline uint32_t switch_channel_relabel_cont(const struct switch_channels *ch, uint32_t from,
                                                   uint32_t to)
{
    return (from ^ to) | (uint32_t)ch->cont_crc[from ^ to] << 16;
}

/* Change a checked header of channel @from into one of channel @to. */
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

/* Return whether a head agrees with the rest of its packet header. */
static inline bool switch_channel_head_sane(const struct emu_head *head,
                                            const struct emu_packet_hdr *hdr, uint32_t segments)
{
    return head->channel == hdr->channel && hdr->last == (segments == 1) &&
           hdr->wire + 1u == (segments == 1 ? emu_packet_last_wire(head->bytes, 1) : EMU_SEG_BYTES);
}

/*
 * Initialize @in for a packet whose head has arrived. The fields are written one by one. For a
 * struct literal, the compiler would store small pieces and then copy larger pieces, and the
 * processor would have to wait (5 % of the time of a hop, for packets of five segments).
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
