/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * join.c - how the members of a set form a group.
 *
 * The first member of the set is the leader. Every other member sends it a JOIN_HELLO, and waits.
 * When the leader has a JOIN_HELLO from each member, it asks the fabric for a group. It then sends
 * a JOIN_GROUP to all members, with the number of the group and the addresses of the members. Each
 * member joins the group, and starts a barrier in it. When the barrier is complete, all members
 * have joined. If a member fails to join, the fabric breaks the group, and the barrier fails.
 *
 * If a member's process ends, the receives that name it fail. If the leader has an error, it sends
 * a JOIN_GROUP with the error to each member whose JOIN_HELLO has arrived, and a JOIN_FAILED to
 * each other member. So a member that has sent a JOIN_HELLO waits for both kinds of message. A
 * member that stops waiting for a JOIN_GROUP sends a JOIN_WITHDRAW: when it receives a JOIN_FAILED,
 * when it has an error of its own, and when it closes its group. If the leader has not created the
 * group yet, it then waits for the member's next JOIN_HELLO. If it has created the group, it breaks
 * the group. The network may drop the JOIN_GROUP for good, so the leader requests that it is
 * confirmed. If a member is alive and never joins, the others wait until they close their groups,
 * as in all collective calls.
 *
 * All these messages go to one queue of each process (OFI_JOIN_QUEUE), and are matched by tag. The
 * tag of JOIN_HELLO and JOIN_FAILED contains a hash of the members, which separates the joins of
 * different sets. The tag of JOIN_GROUP and JOIN_WITHDRAW contains the number of the attempt, which
 * the member that is not the leader has chosen. Two sets can have the same hash by accident or by
 * malice, so the receiver checks the contents of JOIN_HELLO and JOIN_GROUP.
 *
 * Callbacks of the adapter only note that a message was sent or has arrived. The threads that read
 * the event queue do everything else (ofi_join_step()).
 *
 * Rejected: to exchange these messages by puts into a region of the leader. Programs may choose all
 * keys of regions, so no key could be reserved for that region.
 */
#include "nic/ofi/coll.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum join_kind { JOIN_HELLO, JOIN_WITHDRAW, JOIN_GROUP, JOIN_FAILED };

/* JOIN_HELLO, JOIN_WITHDRAW */
struct join_hello {
    uint32_t members; /* number of members of the sender's set */
    uint32_t rank;    /* position of the sender in its set */
    uint64_t attempt;
    uint32_t queue; /* the sender's queue for messages of the group */
    uint32_t zero;
};

struct join_member {
    uint64_t incarnation;
    uint64_t queue;
};

/* JOIN_GROUP, JOIN_FAILED */
struct join_group {
    uint32_t error;   /* FI_E number; 0: there is a group */
    uint32_t id;      /* number of the group, from fabemu_group_create() */
    uint32_t members; /* length of the array below; 0 if there is an error */
    uint32_t zero;
    struct join_member member[];
};

/* A message that is sent or received. */
struct join_op {
    struct fabemu_req req;
    struct ofi_mc *mc;
    _Atomic bool done; /* the operation is complete, and op_take() has not reported that yet */
};

/* The leader's data about another member. */
struct join_slot {
    struct join_op receive;  /* receives JOIN_HELLO, then JOIN_WITHDRAW */
    struct join_op send;     /* sends JOIN_GROUP */
    struct join_hello hello; /* the message that `receive` received */
    uint64_t attempt;        /* number of the member's attempt, while `here` is set */
    bool here;               /* the member has sent JOIN_HELLO */
    bool answered;           /* JOIN_GROUP was sent */
};

enum join_state { JOINING_WAITS, JOINING_IN_BARRIER, JOINING_FAILED };

struct ofi_join {
    enum join_state state;
    void *context; /* argument of fi_join_collective() */
    uint64_t hash; /* hash of the members */
    uint64_t attempt;
    struct join_op barrier;
    struct join_group *group; /* JOIN_GROUP */
    size_t group_bytes;
    /* used by the leader: */
    struct join_slot *slot; /* by rank; the leader's slot is not used */
    uint32_t here;          /* members that have sent JOIN_HELLO */
    /* used by the other members: */
    struct join_op hello_sent, answer, failed;
    struct join_hello hello;
    struct join_group failure; /* JOIN_FAILED */
};

/* --- messages ----------------------------------------------------------------------- */

static uint64_t tag_of(enum join_kind kind, uint64_t number)
{
    return (uint64_t)kind << 62 | (number & (UINT64_MAX >> 2));
}

/* Return a hash of the members, which is the same at all of them. */
static uint64_t members_hash(const struct ofi_mc *mc)
{
    uint64_t hash = mc->members;

    for (uint32_t i = 0; i < mc->members; i++) {
        const struct ofi_peer *peer = &mc->peer[i];

        hash ^= (uint64_t)peer->node << 16 | peer->queue[OFI_UNTAGGED];
        hash *= UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Return a number that no other attempt of this process has. */
static uint64_t attempt_number(const struct ofi_mc *mc)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) << 16 |
           fabemu_queue_id(mc->queue);
}

/* Callback of the adapter. C5 pairs with C6 in op_take(). */
static void op_done(struct fabemu_req *req)
{
    struct join_op *op = container_of(req, struct join_op, req);
    struct ofi_source *source = ofi_eq_source(&op->mc->ep->eq->fid);

    atomic_store_explicit(&op->done, true, memory_order_release); /* C5 */
    ofi_source_wake(source);
}

/* Return true if the operation is complete, but only once for each operation. */
static bool op_take(struct join_op *op)
{
    if (!atomic_load_explicit(&op->done, memory_order_acquire)) /* C6 */
        return false;
    atomic_store_explicit(&op->done, false, memory_order_relaxed);
    return true;
}

/* The operation cannot be started: complete it with this error. */
static void op_refused(struct join_op *op, int err)
{
    op->req.status = err;
    atomic_store_explicit(&op->done, true, memory_order_relaxed);
}

static void op_init(struct join_op *op, struct ofi_mc *mc)
{
    op->mc = mc;
    op->req.done = op_done;
}

static void op_receive(struct join_op *op, uint32_t rank, uint64_t tag, void *buf, size_t bytes)
{
    struct ofi_mc *mc = op->mc;
    const struct fabemu_iov iov = {.base = buf, .bytes = bytes};
    const struct fabemu_source from = {mc->peer[rank].node, OFI_JOIN_QUEUE};

    op->req.incarnation = mc->peer[rank].incarnation;
    int err = fabemu_recv_from(mc->ep->join_queue, from, tag, 0, &iov, 1, &op->req);

    if (err)
        op_refused(op, err);
}

static struct fabemu_dest dest_of(const struct ofi_mc *mc, uint32_t rank, uint64_t tag)
{
    return (struct fabemu_dest){.node = mc->peer[rank].node,
                                .incarnation = mc->peer[rank].incarnation,
                                .queue = OFI_JOIN_QUEUE,
                                .tag = tag};
}

/* The operation is complete when the receiver has the message. */
static void op_send(struct join_op *op, uint32_t rank, uint64_t tag, void *buf, size_t bytes)
{
    struct fabemu_dest dest = dest_of(op->mc, rank, tag);
    const struct fabemu_iov iov = {.base = buf, .bytes = bytes};
    int err;

    dest.delivered = true;
    err = fabemu_send(op->mc->ep->join_queue, &dest, &iov, 1, &op->req);
    if (err)
        op_refused(op, err);
}

/* Send a short message without a request. If it cannot be sent within a second, drop it. */
static void notify(struct ofi_mc *mc, uint32_t rank, uint64_t tag, const void *buf, size_t bytes)
{
    const struct fabemu_dest dest = dest_of(mc, rank, tag);
    struct ofi_wait wait = ofi_wait_begin(mc->ep->domain->fab, 1000);

    while (fabemu_inject(mc->ep->join_queue, &dest, buf, bytes) == -EAGAIN && ofi_wait_step(&wait))
        ;
}

/* --- results ------------------------------------------------------------------------ */

/* Notify a member of an error, unless a JOIN_GROUP was already sent to it. */
static void answer_error(struct ofi_mc *mc, uint32_t rank, int error)
{
    const struct join_slot *slot = &mc->join->slot[rank];
    const struct join_group group = {.error = (uint32_t)error};
    uint64_t tag = slot->here ? tag_of(JOIN_GROUP, slot->attempt)
                              : tag_of(JOIN_FAILED, mc->join->hash);

    if (!slot->answered)
        notify(mc, rank, tag, &group, sizeof group);
}

/* Report an error. The leader also notifies the other members. @error: FI_E number. */
static void join_fail(struct ofi_mc *mc, int error)
{
    struct ofi_join *join = mc->join;
    const struct fi_eq_err_entry entry = {.fid = &mc->mc_fid.fid,
                                          .context = join->context,
                                          .err = error,
                                          .prov_errno = error};

    if (join->state == JOINING_FAILED)
        return;
    join->state = JOINING_FAILED;
    if (mc->group)
        fabemu_group_break(mc->group);
    for (uint32_t i = 1; join->slot && i < mc->members; i++)
        answer_error(mc, i, error);
    ofi_eq_report_error(mc->ep->eq, &entry);
}

static void send_withdraw(struct ofi_mc *mc)
{
    const struct ofi_join *join = mc->join;

    notify(mc, 0, tag_of(JOIN_WITHDRAW, join->attempt), &join->hello, sizeof join->hello);
}

/* A member that is not the leader reports an error. The leader may still wait for this member. */
static void member_fail(struct ofi_mc *mc, int error)
{
    send_withdraw(mc);
    join_fail(mc, error);
}

static void join_free(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    mc->join = NULL;
    free(join->group);
    free(join->slot);
    free(join);
}

static void join_abort(struct ofi_mc *mc)
{
    struct fabemu *fab = mc->ep->domain->fab;
    struct ofi_join *join = mc->join;

    for (uint32_t i = 1; join->slot && i < mc->members; i++) {
        fabemu_abort(fab, &join->slot[i].receive.req);
        fabemu_abort(fab, &join->slot[i].send.req);
    }
    fabemu_abort(fab, &join->hello_sent.req);
    fabemu_abort(fab, &join->answer.req);
    fabemu_abort(fab, &join->failed.req);
}

/*
 * All members have joined. C3 pairs with C4 in mc.c: a thread that finds the group also sees its
 * fields.
 */
static void join_complete(struct ofi_mc *mc)
{
    const struct fi_eq_entry entry = {.fid = &mc->mc_fid.fid, .context = mc->join->context};

    join_abort(mc);
    join_free(mc);
    atomic_store_explicit(&mc->joined, true, memory_order_release); /* C3 */
    ofi_eq_report(mc->ep->eq, FI_JOIN_COMPLETE, &entry, sizeof entry);
}

/*
 * Every member: join the group @id, and start the barrier. If another member has withdrawn too late
 * (slot_received()), the fabric may have broken the group. Joining it then fails with
 * -ENOENT.
 */
static void enter_group(struct ofi_mc *mc, uint32_t id)
{
    struct ofi_join *join = mc->join;
    int err = fabemu_group_join(mc->ep->domain->fab, id, mc->members, &mc->group);

    if (!err) {
        fabemu_group_name(mc->group, "libfabric's collectives");
        fabemu_group_queue(mc->group, mc->queue);
        join->state = JOINING_IN_BARRIER;
        err = fabemu_barrier(mc->group, &join->barrier.req);
    }
    if (err == -ENOENT)
        err = -EPIPE;
    if (err && mc->rank)
        member_fail(mc, ofi_errno(err));
    else if (err)
        join_fail(mc, ofi_errno(err));
}

/* --- the leader --------------------------------------------------------------------- */

static void slot_await(struct ofi_mc *mc, uint32_t rank)
{
    struct join_slot *slot = &mc->join->slot[rank];

    slot->here = false;
    op_receive(&slot->receive, rank, tag_of(JOIN_HELLO, mc->join->hash), &slot->hello,
               sizeof slot->hello);
}

static bool hello_valid(const struct ofi_mc *mc, uint32_t rank, const struct join_slot *slot)
{
    const struct join_hello *hello = &slot->hello;

    return slot->receive.req.bytes == sizeof *hello && hello->members == mc->members &&
           hello->rank == rank && hello->queue < OFI_QUEUE_NONE;
}

/* A member has sent JOIN_HELLO. Its next message can only be a JOIN_WITHDRAW. */
static void slot_hello(struct ofi_mc *mc, uint32_t rank)
{
    struct ofi_join *join = mc->join;
    struct join_slot *slot = &join->slot[rank];

    if (!hello_valid(mc, rank, slot)) {
        join_fail(mc, FI_EOTHER);
        return;
    }
    slot->here = true;
    slot->attempt = slot->hello.attempt;
    join->here++;
    mc->queue_of[rank] = (uint16_t)slot->hello.queue;
    mc->peer[rank].incarnation = slot->receive.req.src_incarnation;
    op_receive(&slot->receive, rank, tag_of(JOIN_WITHDRAW, slot->attempt), &slot->hello,
               sizeof slot->hello);
}

/*
 * Handle a message of this member, or the failure of the receive because the member's process has
 * ended. During the barrier this failure is no error: if the member has not left the group in
 * order, the fabric breaks the group.
 */
static void slot_received(struct ofi_mc *mc, uint32_t rank)
{
    struct ofi_join *join = mc->join;
    struct join_slot *slot = &join->slot[rank];

    if (slot->receive.req.status) {
        if (join->state == JOINING_WAITS)
            join_fail(mc, ofi_errno(slot->receive.req.status));
    } else if (!slot->here) {
        slot_hello(mc, rank);
    } else if (join->state == JOINING_IN_BARRIER) {
        join_fail(mc, FI_ECANCELED); /* the member has withdrawn too late */
    } else {
        join->here--;
        slot_await(mc, rank);
    }
}

/*
 * Handle the messages of this member that have arrived. Its JOIN_HELLO, a JOIN_WITHDRAW, and its
 * next JOIN_HELLO may all have arrived, so each receive that is posted may complete at once.
 */
static void slot_step(struct ofi_mc *mc, uint32_t rank)
{
    struct join_slot *slot = &mc->join->slot[rank];

    if (op_take(&slot->send) && slot->send.req.status)
        join_fail(mc, ofi_errno(slot->send.req.status));
    while (mc->join->state != JOINING_FAILED && op_take(&slot->receive))
        slot_received(mc, rank);
}

/* All members are here: create the group, and notify them. */
static void leader_create(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;
    struct fabemu *fab = mc->ep->domain->fab;
    uint32_t *node = malloc(mc->members * sizeof *node);
    int err = node ? 0 : -ENOMEM;

    for (uint32_t i = 0; i < mc->members && !err; i++) {
        node[i] = mc->peer[i].node;
        join->group->member[i] =
            (struct join_member){.incarnation = mc->peer[i].incarnation, .queue = mc->queue_of[i]};
    }
    if (!err)
        err = fabemu_group_create(fab, node, mc->members, &join->group->id);
    free(node);
    if (err) {
        FI_INFO(&ofi_prov, FI_LOG_EP_CTRL, "no group of %u members for collectives: %s\n",
                mc->members, fabemu_error());
        join_fail(mc, ofi_errno(err));
        return;
    }
    join->group->members = mc->members;
    for (uint32_t i = 1; i < mc->members; i++) {
        join->slot[i].answered = true;
        op_send(&join->slot[i].send, i, tag_of(JOIN_GROUP, join->slot[i].attempt), join->group,
                join->group_bytes);
    }
    enter_group(mc, join->group->id);
}

static void leader_step(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    for (uint32_t i = 1; i < mc->members; i++)
        slot_step(mc, i);
    if (join->state == JOINING_WAITS && join->here == mc->members - 1)
        leader_create(mc);
}

/* --- other members ------------------------------------------------------------------ */

static bool group_valid(const struct ofi_mc *mc, const struct join_op *answer)
{
    const struct join_group *group = mc->join->group;

    if (answer->req.bytes < sizeof *group || group->error)
        return false;
    if (answer->req.bytes != mc->join->group_bytes || group->members != mc->members ||
        group->member[0].incarnation != answer->req.src_incarnation)
        return false;
    for (uint32_t i = 0; i < mc->members; i++)
        if (group->member[i].queue >= OFI_QUEUE_NONE)
            return false;
    return true;
}

/* Return whether the leader has sent an error in @group. */
static bool is_error(const struct join_op *op, const struct join_group *group)
{
    return !op->req.status && op->req.bytes >= sizeof *group && group->error;
}

/* Return the error of the adapter, or else the error that the leader has sent in @group. */
static int error_of(const struct join_op *op, const struct join_group *group)
{
    if (op->req.status)
        return ofi_errno(op->req.status);
    return is_error(op, group) && group->error < FI_ERRNO_MAX ? (int)group->error : FI_EOTHER;
}

/* The leader has sent its answer. If that is an error, the leader does not wait for this member. */
static void member_answered(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    if (is_error(&join->answer, join->group)) {
        join_fail(mc, error_of(&join->answer, join->group));
        return;
    }
    if (join->answer.req.status || !group_valid(mc, &join->answer)) {
        member_fail(mc, error_of(&join->answer, join->group));
        return;
    }
    for (uint32_t i = 0; i < mc->members; i++) {
        mc->queue_of[i] = (uint16_t)join->group->member[i].queue;
        mc->peer[i].incarnation = join->group->member[i].incarnation;
    }
    enter_group(mc, join->group->id);
}

static void member_step(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    if (op_take(&join->hello_sent) && join->hello_sent.req.status && join->state == JOINING_WAITS)
        member_fail(mc, ofi_errno(join->hello_sent.req.status));
    if (op_take(&join->answer) && join->state == JOINING_WAITS)
        member_answered(mc);
    if (op_take(&join->failed) && join->state == JOINING_WAITS)
        member_fail(mc, error_of(&join->failed, &join->failure));
}

/* --- begin, step, end --------------------------------------------------------------- */

bool ofi_join_step(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    fabemu_progress(mc->ep->domain->fab);
    if (mc->rank == 0)
        leader_step(mc);
    else
        member_step(mc);
    if (join->state != JOINING_IN_BARRIER || !op_take(&join->barrier))
        return false;
    if (join->barrier.req.status) {
        join_fail(mc, ofi_errno(join->barrier.req.status));
        return false;
    }
    join_complete(mc);
    return true;
}

static void leader_begin(struct ofi_mc *mc)
{
    const struct fabemu_info *info = fabemu_info(mc->ep->domain->fab);

    mc->peer[0].incarnation = info->incarnation;
    mc->queue_of[0] = fabemu_queue_id(mc->queue);
    for (uint32_t i = 1; i < mc->members; i++) {
        op_init(&mc->join->slot[i].receive, mc);
        op_init(&mc->join->slot[i].send, mc);
        slot_await(mc, i);
    }
}

static void member_begin(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    op_init(&join->hello_sent, mc);
    op_init(&join->answer, mc);
    op_init(&join->failed, mc);
    join->hello = (struct join_hello){.members = mc->members,
                                      .rank = mc->rank,
                                      .attempt = join->attempt,
                                      .queue = fabemu_queue_id(mc->queue)};
    op_receive(&join->answer, 0, tag_of(JOIN_GROUP, join->attempt), join->group, join->group_bytes);
    op_receive(&join->failed, 0, tag_of(JOIN_FAILED, join->hash), &join->failure,
               sizeof join->failure);
    op_send(&join->hello_sent, 0, tag_of(JOIN_HELLO, join->hash), &join->hello, sizeof join->hello);
}

int ofi_join_begin(struct ofi_mc *mc, void *context)
{
    size_t bytes = sizeof(struct join_group) + mc->members * sizeof(struct join_member);
    struct ofi_join *join = calloc(1, sizeof *join);

    if (!join)
        return -FI_ENOMEM;
    mc->join = join;
    join->context = context;
    join->hash = members_hash(mc);
    join->attempt = attempt_number(mc);
    join->group = calloc(1, bytes);
    join->group_bytes = bytes;
    join->slot = mc->rank ? NULL : calloc(mc->members, sizeof *join->slot);
    op_init(&join->barrier, mc);
    if (!join->group || (!mc->rank && !join->slot)) {
        join_free(mc);
        return -FI_ENOMEM;
    }
    if (mc->members == 1)
        join_complete(mc);
    else if (mc->rank == 0)
        leader_begin(mc);
    else
        member_begin(mc);
    return 0;
}

/* End the barrier by breaking the group. When this returns, the barrier's callback has returned. */
static void barrier_end(struct ofi_mc *mc)
{
    struct fabemu *fab = mc->ep->domain->fab;
    struct fabemu_req *req = &mc->join->barrier.req;

    if (!mc->group)
        return;
    fabemu_group_break(mc->group);
    fabemu_wait(fab, req);
    fabemu_abort(fab, req); /* it is complete, so this only waits for the adapter's lock */
}

/*
 * Notify each member that waits for an answer. A JOIN_HELLO or a JOIN_WITHDRAW may have arrived
 * before its receive was aborted, so this handles it first. A JOIN_HELLO that arrives later stays
 * in the queue for the leader's next attempt.
 */
static void leader_end(struct ofi_mc *mc)
{
    for (uint32_t i = 1; i < mc->members; i++) {
        struct join_slot *slot = &mc->join->slot[i];
        bool arrived = op_take(&slot->receive) && !slot->receive.req.status;

        if (arrived && !slot->here) {
            slot->here = hello_valid(mc, i, slot);
            slot->attempt = slot->hello.attempt;
        } else if (arrived) {
            slot->here = false; /* it has withdrawn */
        }
        if (slot->here)
            answer_error(mc, i, FI_ECANCELED);
    }
}

void ofi_join_end(struct ofi_mc *mc)
{
    struct ofi_join *join = mc->join;

    if (!join)
        return;
    barrier_end(mc);
    if (mc->rank && join->state == JOINING_WAITS)
        send_withdraw(mc);
    join_abort(mc);
    if (!mc->rank && join->state == JOINING_WAITS)
        leader_end(mc);
    join_free(mc);
}
