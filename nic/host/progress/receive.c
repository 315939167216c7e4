/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - receive from the down ring (from the fabric): check segments, put requests in order,
 * call their handlers.
 *
 * Every segment is copied out of the ring immediately, to a posted buffer, an unexpected message or
 * a reorder buffer. So the network never waits for the application. CTS, FIN, RESULT and DATA are
 * kinds of segments (base/wire.h). A *piece* of a transfer is the part in one DATA segment.
 */
#include "nic/host/progress/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/host/base/op.h"
#include "nic/host/base/trap.h"
#include "nic/host/group/break.h"
#include "nic/host/group/group.h"
#include "nic/host/group/word.h"
#include "nic/host/peer/disconnect.h"
#include "nic/host/peer/failure.h"
#include "nic/host/peer/handshake.h"
#include "nic/host/rx/message.h"
#include "nic/host/rx/serve.h"
#include "nic/host/tx/answer.h"
#include "nic/host/tx/bulk.h"
#include "nic/host/tx/up.h"

/*
 * Segments per step. The number is large because Open MPI yields after a step that completes no
 * operation, and on some hosts a yield takes as long as receiving 100 segments.
 */
#define NIC_RECEIVE_BURST   1024u
#define NIC_RECEIVE_PUBLISH 64u /* after so many segments, their slots return to the fabric */

/* --- requests: in order ------------------------------------------------------------- */

static void dispatch(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    static void (*const handle[NIC_REQUEST_LAST + 1])(struct fabemu * fab, struct nic_peer * peer,
                                                      const struct emu_seg *seg) = {
        [NIC_EAGER] = nic_message_eager,    [NIC_SHORT] = nic_message_eager,
        [NIC_MORE] = nic_message_more,      [NIC_RTS] = nic_message_rts,
        [NIC_PUT] = nic_memory_put,         [NIC_PUT_NOTICE] = nic_memory_put,
        [NIC_PUT_RTS] = nic_memory_put_rts, [NIC_PUT_NOTICE_RTS] = nic_memory_put_rts,
        [NIC_GET] = nic_memory_get,         [NIC_ATOMIC] = nic_memory_atomic,
        [NIC_BATCH] = nic_batch_begin,      [NIC_BATCH_MORE] = nic_batch_more,
    };

    peer->rx_next++;
    handle[seg->payload[0]](fab, peer, seg);
}

static void early_keep(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    uint32_t at = seg->hdr.seq % NIC_ORDER_WINDOW;
    struct nic_early *early = fab->early_free;

    if (!peer->early)
        peer->early = calloc(NIC_ORDER_WINDOW, sizeof(struct nic_early *));
    if (!peer->early || peer->early[at]) {
        fab->counts.out_of_window++;
        return;
    }
    if (early)
        fab->early_free = early->next;
    else
        early = malloc(sizeof *early);
    if (!early) {
        fab->counts.refused++;
        return;
    }
    early->seg.hdr = seg->hdr;
    emu_copy(early->seg.payload, seg->payload, seg->hdr.len);
    peer->early[at] = early;
    peer->earlies++;
}

/*
 * Return whether this request would exceed the limit of messages to queues that are not open. Such
 * a request and all later requests stay in the reorder buffer, and the sender stops when its window
 * is full. A process that is detaching accepts every request, because it will open no more queues.
 */
static bool request_must_wait(const struct fabemu *fab, const struct nic_peer *peer,
                              const struct emu_seg *seg)
{
    struct nic_wire_head head;

    if (fab->leaving || peer->parked < NIC_PARKED_MAX ||
        (seg->payload[0] != NIC_EAGER && seg->payload[0] != NIC_SHORT &&
         seg->payload[0] != NIC_RTS))
        return false;
    memcpy(&head, seg->payload, sizeof head);
    return !fab->retired[head.queue] &&
           (!fab->queues[head.queue] || !fab->queues[head.queue]->open);
}

static void early_replay(struct fabemu *fab, struct nic_peer *peer)
{
    while (peer->earlies) {
        uint32_t at = peer->rx_next % NIC_ORDER_WINDOW;
        struct nic_early *early = peer->early[at];

        if (!early || request_must_wait(fab, peer, &early->seg))
            break;
        peer->early[at] = NULL;
        peer->earlies--;
        dispatch(fab, peer, &early->seg);
        early->next = fab->early_free;
        fab->early_free = early;
    }
}

static void receive_request(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    uint32_t ahead = seg->hdr.seq - peer->rx_next;

    if (ahead >= NIC_ORDER_WINDOW) {
        fab->counts.out_of_window++;
        return;
    }
    if (ahead || request_must_wait(fab, peer, seg) ||
        (peer->earlies && peer->early[peer->rx_next % NIC_ORDER_WINDOW])) {
        early_keep(fab, peer, seg);
        return;
    }
    dispatch(fab, peer, seg);
    if (peer->earlies)
        early_replay(fab, peer);
    nic_peer_ack_if_due(fab, peer);
}

void nic_receive_resume(struct fabemu *fab)
{
    for (uint32_t node = 0; node < fab->info.nodes; node++) {
        struct nic_peer *peer = &fab->peers[node];

        if (!peer->earlies)
            continue;
        early_replay(fab, peer);
        nic_peer_ack_if_due(fab, peer);
    }
}

/* --- answers: in any order ---------------------------------------------------------- */

/* Return whether @cts may start or end @op: it asks for no more data than @op has to send. */
static bool cts_is_sane(const struct nic_op *op, const struct nic_wire_cts *cts)
{
    const struct nic_op_traits *traits = nic_op_traits(op);

    return traits->sends && op->state == NIC_OP_WAITING && !op->moved && cts->bytes <= op->bytes &&
           (!traits->whole || !cts->bytes || cts->bytes == op->bytes);
}

static void receive_cts(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_cts cts;
    struct nic_op *op;

    if (!nic_wire_read(fab, seg, &cts, sizeof cts))
        return;
    op = nic_op_find(fab, cts.id, peer->node);
    if (op && !cts_is_sane(op, &cts)) {
        fab->counts.malformed++;
        return;
    }
    /* this process is detaching, so it is too late to send the data */
    if (op && fab->leaving) {
        nic_op_end(fab, op, -ECANCELED);
        op = NULL;
    }
    if (!op) {
        if (cts.bytes) /* this process has aborted the operation, but the peer waits for its data */
            nic_fin(fab, peer, cts.to, -ECANCELED);
        return;
    }
    if (cts.bytes == 0) {
        nic_op_end(fab, op, nic_op_traits(op)->whole ? -EIO : 0);
        return;
    }
    op->bytes = cts.bytes;
    op->remote = cts.to;
    nic_stream(fab, op);
}

/* Return whether a FIN with @status may end @op. Status 0 requires that all bytes were moved. */
static bool fin_is_sane(const struct nic_op *op, int32_t status)
{
    if (op->state == NIC_OP_QUEUED || op->state == NIC_OP_EAGER || status > 0 || status < -4095)
        return false;
    return status ? nic_op_traits(op)->fails
                  : nic_op_traits(op)->succeeds && op->moved == op->bytes;
}

/*
 * Return whether @op is a put or get that the peer refused only because it serves too many
 * requests.
 */
static bool fin_wants_retry(const struct nic_op *op, int32_t status)
{
    return nic_op_traits(op)->again && status == -ENOBUFS && op->state == NIC_OP_WAITING &&
           !op->moved;
}

static void receive_fin(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_fin fin;
    struct nic_op *op;

    if (!nic_wire_read(fab, seg, &fin, sizeof fin))
        return;
    op = nic_op_find(fab, fin.id, peer->node);
    if (op && !fin_is_sane(op, fin.status)) {
        fab->counts.malformed++;
    } else if (op && fin_wants_retry(op, fin.status)) {
        op->state = NIC_OP_ARMED;
        op->named = true; /* retry only with the same process */
        nic_peer_request(fab, peer, op);
    } else if (op) {
        nic_op_end(fab, op, fin.status);
    }
}

/* Handle the result of an atomic of ours. It must contain values if we have requested them. */
static void receive_result(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_result result;
    struct nic_op *op;
    uint64_t fetched;

    if (seg->hdr.len < sizeof result) {
        fab->counts.malformed++;
        return;
    }
    memcpy(&result, seg->payload, sizeof result);
    op = nic_op_find(fab, result.id, peer->node);
    if (!op)
        return;
    fetched = op->iov[0].base ? op->bytes : 0;
    if (!nic_op_traits(op)->result || op->state != NIC_OP_WAITING ||
        seg->hdr.len - sizeof result != fetched) {
        fab->counts.malformed++;
        return;
    }
    if (fetched)
        memcpy(op->iov[0].base, seg->payload + sizeof result, fetched);
    nic_op_end(fab, op, 0);
}

static void recv_has_all(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    nic_fin(fab, peer, op->remote, 0);
    nic_op_end(fab, op, nic_recv_of(op)->status);
}

static void get_has_all(struct fabemu *fab, struct nic_peer *peer, struct nic_op *op)
{
    (void)peer;
    nic_op_end(fab, op, 0);
}

/* For each kind of operation that receives DATA, a function to call when all DATA has arrived. */
static void (*const has_all[NIC_OP_KINDS])(struct fabemu *fab, struct nic_peer *peer,
                                           struct nic_op *op) = {
    [NIC_OP_RECV] = recv_has_all,
    [NIC_OP_GET] = get_has_all,
    [NIC_OP_BATCH] = get_has_all,
    [NIC_OP_SERVE_PUT] = nic_memory_put_done,
};

static inline void data_put(struct nic_op *op, uint64_t offset, const struct emu_seg *seg,
                            uint64_t n)
{
    const uint8_t *from = seg->payload + sizeof(struct nic_wire_data);

    if (op->iovs == 1)
        emu_copy((uint8_t *)op->iov[0].base + offset, from, n);
    else
        nic_op_write(op, offset, from, n);
    op->moved += n;
}

static inline bool data_fits(const struct nic_op *op, uint64_t offset, uint64_t n)
{
    return has_all[op->kind] && op->state == NIC_OP_WAITING && offset <= op->bytes &&
           n <= op->bytes - offset && n <= op->bytes - op->moved;
}

/* Handle a DATA segment. Returns its operation if it needs more DATA, else NULL. */
static struct nic_op *receive_data(struct fabemu *fab, struct nic_peer *peer,
                                   const struct emu_seg *seg)
{
    struct nic_wire_data data;

    if (seg->hdr.len <= sizeof data) {
        fab->counts.malformed++;
        return NULL;
    }
    memcpy(&data, seg->payload, sizeof data);
    if (!peer->incarnation || data.check != (uint16_t)peer->rx_check) {
        fab->counts.wrong_incarnation++;
        return NULL;
    }

    uint64_t n = seg->hdr.len - sizeof data;
    uint64_t offset = (uint64_t)seg->hdr.seq * NIC_DATA_BYTES;
    struct nic_op *op = nic_op_find(fab, data.id, peer->node);

    if (!op)
        return NULL;
    if (!data_fits(op, offset, n)) {
        fab->counts.malformed++;
        return NULL;
    }
    if (op->traps) {
        uint32_t remote = op->remote;

        if (nic_trap_ends(fab, op, offset, n)) {
            nic_fin(fab, peer, remote, -EFAULT);
            return NULL;
        }
    }
    if (emu_listed(&peer->connect)) /* a process that sends us DATA has also answered our hello */
        nic_peer_opened(fab, peer);
    data_put(op, offset, seg, n);
    if (op->moved < op->bytes)
        return op;
    has_all[op->kind](fab, peer, op);
    return NULL;
}

/*
 * The header words and the struct nic_wire_data of the expected next piece. Except for the number,
 * they are equal to the words of the last piece.
 */
struct data_next {
    struct emu_hdr_words hdr;
    uint64_t data; /* bits of a struct nic_wire_data */
};

static inline struct data_next data_next_of(const struct emu_seg *seg)
{
    struct data_next ret = {.hdr = emu_hdr_words(&seg->hdr)};

    static_assert(sizeof(struct nic_wire_data) == sizeof ret.data, "a word");
    memcpy(&ret.data, seg->payload, sizeof ret.data);
    return ret;
}

/*
 * Return how many full pieces, beginning with number @seq, need no check and do not complete @op.
 */
static inline uint64_t data_room(const struct nic_op *op, uint32_t seq)
{
    uint64_t offset = (uint64_t)seq * NIC_DATA_BYTES, left = op->bytes - op->moved;

    if (offset >= op->bytes || !left || op->traps)
        return 0;
    left = left < op->bytes - offset ? left : op->bytes - offset;
    return (left - 1) / NIC_DATA_BYTES;
}

/*
 * Receive the pieces that follow @before, which was a full piece for @op. A piece that differs from
 * the previous piece only in its number would pass the same checks, so the checks are skipped.
 * Removes at most @most pieces from the ring, and never the one that completes @op. Returns the
 * number of pieces.
 */
static uint32_t data_run(struct fabemu *fab, struct nic_op *op, const struct emu_seg *before,
                         uint32_t most)
{
    struct data_next next = data_next_of(before);
    uint64_t room = data_room(op, before->hdr.seq + 1);
    const struct emu_seg *seg;
    uint32_t run = 0;

    for (; run < most && run < room && (seg = emu_hostif_nic_peek(&fab->hostif, fab->now_ps));
         run++) {
        struct data_next is = data_next_of(seg);

        next.hdr.fields = emu_hdr_next(next.hdr.fields);
        if (is.hdr.ends != next.hdr.ends || is.hdr.fields != next.hdr.fields ||
            is.data != next.data)
            break;
        data_put(op, (uint32_t)next.hdr.fields * NIC_DATA_BYTES, seg, NIC_DATA_BYTES);
        emu_hostif_nic_pop(&fab->hostif);
    }
    return run;
}

/* --- dispatch ----------------------------------------------------------------------- */

static void receive_hello(struct fabemu *fab, struct nic_peer *peer, const struct emu_seg *seg)
{
    struct nic_wire_hello hello;

    memcpy(&hello, seg->payload, sizeof hello);
    if (seg->hdr.len != sizeof hello || hello.incarnation == 0 || hello.want > 1)
        fab->counts.malformed++;
    else
        nic_peer_hello(fab, peer, &hello);
}

static inline bool unicast_is_sane(const struct fabemu *fab, const struct emu_seg *seg)
{
    return seg->hdr.len > sizeof(struct nic_wire_data) && seg->hdr.len <= EMU_PAYLOAD_BYTES &&
           seg->hdr.src < fab->info.nodes && seg->hdr.dst == fab->info.node;
}

/*
 * Clock virtual: tell the fabric that the pieces of operation @op, which have the same stream as
 * @seg, need not end a wait of this process. The last piece ends it. If @op is NULL, no more pieces
 * are expected, and each segment ends a wait.
 */
static void set_quiet(struct fabemu *fab, const struct emu_seg *seg, const struct nic_op *op)
{
    struct emu_simtime *sim = &fab->hostif.shared->sim;
    struct data_next of = data_next_of(seg);
    uint64_t most = op ? (op->bytes - op->moved - 1) / NIC_DATA_BYTES : 0;

    if (most > NIC_RECEIVE_BURST)
        most = NIC_RECEIVE_BURST;
    atomic_store_explicit(&sim->quiet_ends, of.hdr.ends, memory_order_relaxed);
    atomic_store_explicit(&sim->quiet_word, of.data, memory_order_relaxed);
    atomic_store_explicit(&sim->quiet_most, (uint32_t)most, memory_order_relaxed); /* before Z1 */
}

/*
 * Receive the DATA segment at the front of the ring, and the pieces of the same stream that follow.
 * Returns the number of segments removed from the ring; 0 if the first segment is not DATA.
 */
static uint32_t receive_stream(struct fabemu *fab, const struct emu_seg *seg, uint32_t most)
{
    struct nic_op *op;
    uint32_t run = 1;

    if (!unicast_is_sane(fab, seg) || seg->payload[0] != NIC_DATA)
        return 0;
    op = receive_data(fab, nic_peer(fab, seg->hdr.src), seg);
    emu_hostif_nic_pop(&fab->hostif);
    if (op && seg->hdr.len == EMU_PAYLOAD_BYTES)
        run += data_run(fab, op, seg, most - 1);
    if (fab->simulated)
        set_quiet(fab, seg, op);
    return run;
}

static void receive_unicast(struct fabemu *fab, const struct emu_seg *seg)
{
    struct nic_wire_head head;

    if (!unicast_is_sane(fab, seg)) {
        fab->counts.malformed++;
        return;
    }

    struct nic_peer *peer = nic_peer(fab, seg->hdr.src);

    memcpy(&head, seg->payload, sizeof head);
    if (head.what == NIC_DATA) {
        receive_data(fab, peer, seg);
        return;
    }
    if (head.what == NIC_HELLO) {
        receive_hello(fab, peer, seg);
        return;
    }
    if (seg->hdr.len < sizeof head || head.what < NIC_EAGER || head.what > NIC_DISCONNECT) {
        fab->counts.malformed++;
        return;
    }
    if (!peer->incarnation || head.check != peer->rx_check) {
        if (head.what == NIC_DISCONNECT)
            nic_leave_receive(fab, peer, seg, false);
        else
            nic_peer_unknown(fab, peer);
        return;
    }
    /* a process that uses this check has received our hello */
    if (!peer->open || emu_listed(&peer->connect))
        nic_peer_opened(fab, peer);
    nic_peer_ack(peer, &head);
    if (head.what <= NIC_REQUEST_LAST)
        receive_request(fab, peer, seg);
    else if (head.what == NIC_CTS)
        receive_cts(fab, peer, seg);
    else if (head.what == NIC_FIN)
        receive_fin(fab, peer, seg);
    else if (head.what == NIC_RESULT)
        receive_result(fab, peer, seg);
    else if (head.what == NIC_DISCONNECT)
        nic_leave_receive(fab, peer, seg, true);
}

/* --- reports of the network about our segments ------------------------------------------ */

/* Return whether this process may have sent @seg, to a node or to a group. */
static bool sent_by_us(const struct fabemu *fab, const struct emu_seg *seg, uint8_t kind)
{
    return fab->transport.reports_delivery && seg->hdr.src == fab->info.node &&
           seg->hdr.len <= EMU_PAYLOAD_BYTES &&
           (kind != EMU_UNICAST ||
            (seg->hdr.dst < fab->info.nodes && seg->hdr.dst != seg->hdr.src));
}

static void receive_given_up(struct fabemu *fab, const struct emu_seg *seg)
{
    uint8_t kind = seg->hdr.kind & (uint8_t) ~(EMU_FAILED | EMU_NOTIFY);

    if (kind > EMU_TEST || !sent_by_us(fab, seg, kind)) {
        fab->counts.malformed++;
        return;
    }
    fab->counts.given_up++;
    if (kind == EMU_UNICAST)
        nic_peer_given_up(fab, nic_peer(fab, seg->hdr.dst), seg);
    else
        nic_group_given_up(fab, seg);
}

/*
 * Handle the report that a segment was delivered. We request such reports for hellos, for broadcast
 * puts, and for alarms and probes of groups (group/break.h).
 */
static void receive_notice(struct fabemu *fab, const struct emu_seg *seg)
{
    uint8_t kind = seg->hdr.kind & (uint8_t)~EMU_NOTIFY;

    if (seg->hdr.len || !sent_by_us(fab, seg, kind))
        fab->counts.malformed++;
    else if (kind == EMU_UNICAST)
        nic_peer(fab, seg->hdr.dst)->hello_pending = false;
    else
        nic_group_notice(fab, seg);
}

static void receive_one(struct fabemu *fab, const struct emu_seg *seg)
{
    uint8_t kind = seg->hdr.kind, plain = kind & (uint8_t)~EMU_NOTIFY;

    if (kind == EMU_UNICAST)
        receive_unicast(fab, seg);
    else if (kind & EMU_FAILED)
        receive_given_up(fab, seg);
    else if (kind == EMU_TEST)
        nic_condition_answer(fab, seg);
    else if (plain >= EMU_KINDS || (kind != plain && plain > EMU_MULTICAST))
        fab->counts.malformed++;
    else if (kind != plain && seg->hdr.src == fab->info.node)
        receive_notice(fab, seg);
    else if (plain == EMU_UNICAST) /* the sender has requested a report */
        receive_unicast(fab, seg);
    else
        nic_group_receive(fab, seg);
}

uint32_t nic_receive(struct fabemu *fab)
{
    const struct emu_seg *seg;
    uint32_t taken = 0;

    while (taken < NIC_RECEIVE_BURST && (seg = emu_hostif_nic_peek(&fab->hostif, fab->now_ps))) {
        uint32_t most = NIC_RECEIVE_PUBLISH - taken % NIC_RECEIVE_PUBLISH;
        uint32_t run = seg->hdr.kind == EMU_UNICAST ? receive_stream(fab, seg, most)
                                                    : nic_group_receive_run(fab, seg, most);

        if (!run) {
            receive_one(fab, seg);
            emu_hostif_nic_pop(&fab->hostif);
            run = 1;
        }
        taken += run;
        if (taken % NIC_RECEIVE_PUBLISH == 0)
            /* so that the fabric can fill these slots while we go on */
            emu_hostif_nic_consumed(&fab->hostif);
    }
    for (uint32_t n = 0; fab->loop && n < NIC_RECEIVE_BURST; n++, taken++) {
        struct nic_loop *loop = fab->loop;

        if (loop->head == loop->tail)
            break;
        receive_one(fab, &loop->seg[loop->head % NIC_LOOP_SLOTS]);
        loop->head++;
    }
    return taken;
}
