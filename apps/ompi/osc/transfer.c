/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transfer.c - calls that move data: their parts, MPI_Put and MPI_Get.
 *
 * A call has one part for each long contiguous piece of the member's memory; batch.c sends the
 * short ones. In this process the data of a part is also contiguous: in the program's buffer or in
 * a packed copy. For each member there is a list of the parts on their way to it, in the order in
 * which they were posted. A part is removed from the list when it and all parts before it have
 * ended (osc_fabemu_reap()).
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MOST 1024u /* a call waits while this many parts of its window are on their way */

/* --- spans ----------------------------------------------------------------------------- */

static void *address(uint64_t at)
{
    return (void *)(uintptr_t)at;
}

size_t osc_fabemu_span_bytes(const struct osc_fabemu_span *span)
{
    return span->count > 0 ? span->type->super.size * (size_t)span->count : 0;
}

void *osc_fabemu_span_plain(const struct osc_fabemu_span *span)
{
    if (!coll_fabemu_is_contiguous(span->type, (size_t)span->count))
        return NULL;
    return address(span->at + (uint64_t)span->type->super.true_lb);
}

/*
 * Return the span as one piece, if Open MPI describes its type as one sequence of short blocks with
 * equal distances, as it does for MPI_Type_vector. Otherwise the piece has 0 bytes.
 */
static struct osc_fabemu_piece regular_piece(const struct osc_fabemu_span *span)
{
    const dt_type_desc_t *type = &span->type->super.opt_desc;
    const ddt_elem_desc_t *blocks = &type->desc->elem;
    size_t bytes = osc_fabemu_span_bytes(span);

    if (span->count != 1 || type->used != 1 || !(blocks->common.flags & OPAL_DATATYPE_FLAG_DATA) ||
        bytes / blocks->count > OSC_FABEMU_SMALL)
        return (struct osc_fabemu_piece){0};
    return (struct osc_fabemu_piece){.at = span->at + (uint64_t)blocks->disp,
                                     .bytes = bytes,
                                     .stride = {.block = bytes / blocks->count,
                                                .step = (uint64_t)blocks->extent}};
}

void osc_fabemu_pieces_begin(struct osc_fabemu_pieces *pieces, const struct osc_fabemu_span *span)
{
    void *plain = osc_fabemu_span_plain(span);
    size_t bytes = osc_fabemu_span_bytes(span);

    pieces->next = pieces->count = 0;
    pieces->plain = plain != NULL;
    pieces->whole = plain ? (struct osc_fabemu_piece){(uintptr_t)plain, bytes, {.block = bytes}}
                          : regular_piece(span);
    pieces->converts = !plain && !pieces->whole.bytes;
    pieces->last = !pieces->converts;
    if (!pieces->converts)
        return;
    OBJ_CONSTRUCT(&pieces->convertor, opal_convertor_t);
    (void)opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &span->type->super,
                                                   (size_t)span->count, address(span->at), 0,
                                                   &pieces->convertor);
}

bool osc_fabemu_pieces_next(struct osc_fabemu_pieces *pieces, struct osc_fabemu_piece *piece)
{
    const struct iovec *iov;
    size_t all;

    if (pieces->whole.bytes) {
        *piece = pieces->whole;
        pieces->whole.bytes = 0;
        return true;
    }
    while (pieces->next == pieces->count && !pieces->last) {
        pieces->next = 0;
        pieces->count = sizeof pieces->iov / sizeof pieces->iov[0];
        pieces->last = opal_convertor_raw(&pieces->convertor, pieces->iov, &pieces->count, &all);
    }
    if (pieces->next == pieces->count)
        return false;
    iov = &pieces->iov[pieces->next++];
    *piece =
        (struct osc_fabemu_piece){(uintptr_t)iov->iov_base, iov->iov_len, {.block = iov->iov_len}};
    return true;
}

void osc_fabemu_pieces_end(struct osc_fabemu_pieces *pieces)
{
    if (!pieces->converts)
        return;
    opal_convertor_cleanup(&pieces->convertor);
    OBJ_DESTRUCT(&pieces->convertor);
}

/* The program's types are committed, so a copy cannot fail. */
void osc_fabemu_pack(const struct osc_fabemu_span *span, void *packed, size_t bytes)
{
    (void)coll_fabemu_pack(address(span->at), (size_t)span->count, span->type, packed, bytes);
}

void osc_fabemu_unpack(const struct osc_fabemu_span *span, const void *packed, size_t bytes)
{
    (void)coll_fabemu_unpack(address(span->at), (size_t)span->count, span->type, packed, bytes);
}

/* --- requests -------------------------------------------------------------------------- */

static int request_free(ompi_request_t **request)
{
    if (!REQUEST_COMPLETE(*request))
        return MPI_ERR_REQUEST;
    OMPI_REQUEST_FINI(*request);
    OBJ_RELEASE(*request);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int complete)
{
    (void)request;
    (void)complete;
    return MPI_ERR_REQUEST;
}

static ompi_request_t *request_new(struct osc_fabemu_window *w)
{
    ompi_request_t *request = OBJ_NEW(ompi_request_t);

    if (!request)
        return NULL;
    OMPI_REQUEST_INIT(request, false);
    request->req_type = OMPI_REQUEST_WIN;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_free = request_free;
    request->req_cancel = request_cancel;
    request->req_mpi_object.win = w->win;
    request->req_status =
        (ompi_status_public_t){.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG};
    return request;
}

/* Complete a request. Lock: not held, because Open MPI may call this component again. */
static void request_end(struct osc_fabemu_window *w, ompi_request_t *request)
{
    atomic_fetch_sub_explicit(&w->requests, 1, memory_order_relaxed);
    ompi_request_complete(request, true);
}

/* --- calls and their parts ------------------------------------------------------------- */

/* Allocate a call and its buffers. Returns NULL if there is no memory. */
static struct osc_fabemu_call *call_new(struct osc_fabemu_window *w, size_t out_bytes,
                                        size_t in_bytes, ompi_request_t **request)
{
    struct osc_fabemu_call *call = calloc(1, sizeof *call);

    if (!call)
        return NULL;
    call->out = out_bytes ? malloc(out_bytes) : NULL;
    call->in = in_bytes ? malloc(in_bytes) : NULL;
    call->request = request ? request_new(w) : NULL;
    if ((!out_bytes || call->out) && (!in_bytes || call->in) && (!request || call->request))
        return call;
    if (call->request)
        OBJ_RELEASE(call->request);
    free(call->out);
    free(call->in);
    free(call);
    return NULL;
}

int osc_fabemu_call_begin(struct osc_fabemu_window *w, int rank, size_t out_bytes, size_t in_bytes,
                          const struct osc_fabemu_span *to, ompi_request_t **request,
                          struct osc_fabemu_call **ret)
{
    struct osc_fabemu_call *call = call_new(w, out_bytes, in_bytes, request);

    if (!call)
        return MPI_ERR_NO_MEM;
    call->w = w;
    call->peer = &w->peer[rank];
    call->parts = 1;
    call->in_bytes = in_bytes;
    if (in_bytes) {
        call->to = *to;
        OBJ_RETAIN(to->type);
    }
    if (request) {
        *request = call->request;
        atomic_fetch_add_explicit(&w->requests, 1, memory_order_relaxed);
    }
    *ret = call;
    return OMPI_SUCCESS;
}

/* Free a call that has ended. Returns its request, which the caller completes without the lock. */
static ompi_request_t *call_release(struct osc_fabemu_call *call)
{
    ompi_request_t *request = call->request;

    if (call->to.type) {
        if (!call->status)
            osc_fabemu_unpack(&call->to, call->in, call->in_bytes);
        OBJ_RELEASE(call->to.type);
    }
    if (request) /* its data may have been in the member's batch, which has failed */
        request->req_status.MPI_ERROR = call->peer->rc                     ? MPI_ERR_RMA_RANGE
                                        : call->status || call->peer->lost ? MPI_ERR_OTHER
                                                                           : MPI_SUCCESS;
    free(call->out);
    free(call->in);
    free(call);
    return request;
}

/*
 * End a part of the call, or the adding of parts. Returns the call's request if the caller must
 * complete it. Lock: held.
 */
static ompi_request_t *call_part_ends(struct osc_fabemu_call *call)
{
    return --call->parts ? NULL : call_release(call);
}

void osc_fabemu_call_end(struct osc_fabemu_call *call)
{
    struct osc_fabemu_window *w = call->w;
    ompi_request_t *request;

    OPAL_THREAD_LOCK(&w->lock);
    request = call_part_ends(call);
    OPAL_THREAD_UNLOCK(&w->lock);
    if (request)
        request_end(w, request);
}

/*
 * Record that a part has failed. If the address was wrong, the next flush returns an error. Any
 * other error means that the member is lost.
 */
static void part_fails(struct osc_fabemu_part *part, int status)
{
    struct osc_fabemu_call *call = part->call;

    if (!call->status)
        call->status = status;
    if (status == -EACCES)
        call->peer->rc = OMPI_ERR_RMA_RANGE;
    else
        call->peer->lost = true;
}

/* Remove the oldest part to @peer from the list, because it has ended. Lock: held. */
static ompi_request_t *part_take(struct osc_fabemu_window *w, struct osc_fabemu_peer *peer)
{
    struct osc_fabemu_part *part = peer->first;
    struct osc_fabemu_call *call = part->call;
    int status = fabemu_req_status(&part->req);

    peer->first = part->next;
    if (!peer->first)
        peer->last = &peer->first;
    peer->ended++;
    peer->flight.unordered -= part->unordered;
    peer->flight.borrows -= part->borrows;
    w->parts--;
    if (status)
        part_fails(part, status);
    if (part != &call->one)
        free(part);
    return call_part_ends(call);
}

/*
 * Return whether the oldest part to @peer has ended. If it is a batch of gets, and the member had
 * no memory for its result, send it again. Lock: held.
 */
static bool first_has_ended(const struct osc_fabemu_peer *peer)
{
    struct osc_fabemu_part *part = peer->first;
    int status = part ? fabemu_req_status(&part->req) : FABEMU_PENDING;

    if (status != -ENOBUFS || !part->gets_listed)
        return status != FABEMU_PENDING;
    part->req = (struct fabemu_req){.incarnation = peer->place.incarnation};
    status = osc_fabemu_gets_send(part);
    if (status)
        part->req.status = status;
    return false;
}

int osc_fabemu_reap(struct osc_fabemu_window *w, int rank)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    ompi_request_t *done[16];
    int count = 0;

    OPAL_THREAD_LOCK(&w->lock);
    while (count < 16 && first_has_ended(peer)) {
        done[count] = part_take(w, peer);
        count += done[count] != NULL;
    }
    OPAL_THREAD_UNLOCK(&w->lock);
    for (int i = 0; i < count; i++)
        request_end(w, done[i]);
    return count;
}

int osc_fabemu_reap_all(struct osc_fabemu_window *w)
{
    int count = 0;

    for (int i = 0; i < w->ranks; i++)
        count += osc_fabemu_reap(w, i);
    return count;
}

void osc_fabemu_parts_limit(struct osc_fabemu_window *w)
{
    struct osc_fabemu_wait wait = {0};

    while (w->parts >= PARTS_MOST) {
        osc_fabemu_wait(w, &wait);
        (void)osc_fabemu_reap_all(w);
    }
}

struct osc_fabemu_part *osc_fabemu_part_new(struct osc_fabemu_call *call, size_t listed)
{
    struct osc_fabemu_part *part = &call->one;

    if (part->call || listed)
        part = calloc(1, sizeof *part + listed);
    if (!part)
        (void)ompi_mpi_abort(call->w->comm, MPI_ERR_NO_MEM);
    part->call = call;
    part->req.incarnation = call->peer->place.incarnation;
    return part;
}

void osc_fabemu_part_append(struct osc_fabemu_part *part, int err)
{
    struct osc_fabemu_call *call = part->call;

    if (err)
        part->req.status = err;
    *call->peer->last = part;
    call->peer->last = &part->next;
    call->peer->sent++;
    call->peer->flight.unordered += part->unordered;
    call->peer->flight.borrows += part->borrows;
    call->parts++;
    call->w->parts++;
}

struct osc_fabemu_part *osc_fabemu_part(struct osc_fabemu_call *call, size_t listed)
{
    osc_fabemu_parts_limit(call->w);
    OPAL_THREAD_LOCK(&call->w->lock);
    osc_fabemu_batch_post(call->peer, true);
    OPAL_THREAD_UNLOCK(&call->w->lock);
    return osc_fabemu_part_new(call, listed);
}

void osc_fabemu_part_posted(struct osc_fabemu_part *part, int err)
{
    struct osc_fabemu_window *w = part->call->w;

    OPAL_THREAD_LOCK(&w->lock);
    osc_fabemu_part_append(part, err);
    OPAL_THREAD_UNLOCK(&w->lock);
}

struct osc_fabemu_flight osc_fabemu_flight(struct osc_fabemu_window *w, int rank)
{
    struct osc_fabemu_flight flight;

    OPAL_THREAD_LOCK(&w->lock);
    flight = w->peer[rank].flight;
    OPAL_THREAD_UNLOCK(&w->lock);
    return flight;
}

int osc_fabemu_drain(struct osc_fabemu_window *w, int rank, const char *name)
{
    struct osc_fabemu_peer *peer = &w->peer[rank];
    struct osc_fabemu_wait wait = {0};
    uint64_t sent;
    int rc;

    OPAL_THREAD_LOCK(&w->lock);
    osc_fabemu_batch_post(peer, true);
    sent = peer->sent;
    OPAL_THREAD_UNLOCK(&w->lock);
    for (;;) {
        (void)osc_fabemu_reap(w, rank);
        OPAL_THREAD_LOCK(&w->lock);
        rc = peer->ended >= sent ? peer->rc : 1;
        if (rc <= 0)
            peer->rc = 0;
        OPAL_THREAD_UNLOCK(&w->lock);
        if (rc <= 0)
            break;
        osc_fabemu_wait(w, &wait);
    }
    return osc_fabemu_is_lost(w, rank) ? osc_fabemu_fails(w, name, rank) : rc;
}

int osc_fabemu_drain_all(struct osc_fabemu_window *w, const char *name)
{
    int rc = OMPI_SUCCESS;

    for (int i = 0; i < w->ranks; i++) {
        int one = osc_fabemu_drain(w, i, name);

        rc = rc ? rc : one;
    }
    return rc;
}

/* --- the state of a member --------------------------------------------------------------- */

int osc_fabemu_state_post(struct osc_fabemu_window *w, int rank, unsigned op, size_t offset,
                          uint64_t operand, uint64_t *before, struct fabemu_req *req)
{
    static const uint64_t zero;
    const struct osc_fabemu_place *place = &w->peer[rank].place;
    const struct fabemu_atomic what = {.node = place->node,
                                       .key = place->key,
                                       .offset = place->state + offset,
                                       .op = op,
                                       .type = FABEMU_U64,
                                       .operand = &operand,
                                       .compare = op == FABEMU_ATOMIC_CAS ? &zero : NULL,
                                       .result = before};

    req->incarnation = place->incarnation;
    return fabemu_atomic(w->fab, &what, req);
}

int osc_fabemu_state_op(struct osc_fabemu_window *w, int rank, unsigned op, size_t offset,
                        uint64_t operand, uint64_t *before, const char *name)
{
    struct fabemu_req req = {0};
    struct osc_fabemu_wait wait = {0};
    int status = osc_fabemu_state_post(w, rank, op, offset, operand, before, &req);

    if (!status) {
        while ((status = fabemu_req_status(&req)) == FABEMU_PENDING)
            osc_fabemu_wait(w, &wait);
    }
    if (!status)
        return OMPI_SUCCESS;
    w->peer[rank].lost = true;
    return osc_fabemu_fails(w, name, rank);
}

/* --- puts and gets ----------------------------------------------------------------------- */

static bool has_access(const struct osc_fabemu_window *w, const struct osc_fabemu_peer *peer)
{
    return w->fence || w->lock_all || peer->lock || peer->started;
}

/*
 * Return whether the first and the last byte of a span are in the window. The span must not be
 * empty.
 */
static bool is_inside(const struct osc_fabemu_place *place, const struct osc_fabemu_span *target)
{
    const opal_datatype_t *type = &target->type->super;
    ptrdiff_t others = (ptrdiff_t)(target->count - 1) * (type->ub - type->lb);
    ptrdiff_t first = type->true_lb + (others < 0 ? others : 0);
    ptrdiff_t end = type->true_ub + (others > 0 ? others : 0);
    /* for an address below the base this wraps around to a value that is too large */
    uint64_t at = target->at + (uint64_t)first - place->base, bytes = (uint64_t)(end - first);

    return at <= place->bytes && bytes <= place->bytes - at;
}

int osc_fabemu_access(struct osc_fabemu_window *w, int rank, ptrdiff_t disp, int count,
                      ompi_datatype_t *type, const char *name, struct osc_fabemu_span *ret)
{
    const struct osc_fabemu_peer *peer = &w->peer[rank];

    *ret = (struct osc_fabemu_span){.at = peer->place.base + (uint64_t)disp * peer->place.unit,
                                    .count = count,
                                    .type = type};
    if (!has_access(w, peer))
        return OMPI_ERR_RMA_SYNC;
    if (osc_fabemu_is_lost(w, rank))
        return osc_fabemu_fails(w, name, rank);
    if (w->lock_all) {
        int rc = osc_fabemu_lock_lazily(w, rank, name);

        if (rc)
            return rc;
    }
    if (w->dynamic || !osc_fabemu_span_bytes(ret))
        return OMPI_SUCCESS; /* the member checks addresses in a dynamic window */
    return is_inside(&peer->place, ret) ? OMPI_SUCCESS : OMPI_ERR_RMA_RANGE;
}

/* Put or get a contiguous piece as one operation of the adapter. */
static void move_piece(struct osc_fabemu_call *call, uint64_t at, void *local, size_t bytes,
                       bool puts)
{
    const struct osc_fabemu_place *place = &call->peer->place;
    struct fabemu *fab = call->w->fab;
    struct osc_fabemu_part *part = osc_fabemu_part(call, 0);
    int err;

    part->unordered = !puts || bytes > FABEMU_INJECT_BYTES;
    part->borrows = !call->out;
    err = puts ? fabemu_put(fab, place->node, place->key, at, local, bytes, &part->req)
               : fabemu_get(fab, place->node, place->key, at, local, bytes, &part->req);
    osc_fabemu_part_posted(part, err);
}

void osc_fabemu_move(struct osc_fabemu_call *call, const struct osc_fabemu_span *target,
                     void *local, size_t left, bool puts)
{
    struct osc_fabemu_run run = {.call = call,
                                 .record.op = puts ? FABEMU_RECORD_PUT : FABEMU_RECORD_GET};
    struct osc_fabemu_pieces pieces;
    struct osc_fabemu_piece piece;
    char *at_local = local;
    int rc = OMPI_SUCCESS;

    osc_fabemu_pieces_begin(&pieces, target);
    for (; left && !rc && osc_fabemu_pieces_next(&pieces, &piece); left -= piece.bytes) {
        piece.bytes = piece.bytes < left ? piece.bytes : left;
        if (!pieces.plain && piece.stride.block <= OSC_FABEMU_SMALL)
            rc = osc_fabemu_run_add(&run, &piece, at_local, NULL);
        else
            move_piece(call, piece.at, at_local, piece.bytes, puts);
        at_local += piece.bytes;
    }
    osc_fabemu_pieces_end(&pieces);
    if (osc_fabemu_run_end(&run) || rc)
        (void)ompi_mpi_abort(call->w->comm, MPI_ERR_NO_MEM);
}

/*
 * If the put is small and has no gaps, copy it into the member's batch. Returns false if this is
 * not possible, so that it must be sent as a call.
 */
static bool put_by_batch(struct osc_fabemu_window *w, int rank,
                         const struct osc_fabemu_span *target, const void *local, size_t bytes)
{
    void *at = osc_fabemu_span_plain(target);
    const struct fabemu_record record = {.offset = (uintptr_t)at,
                                         .bytes = (uint32_t)bytes,
                                         .op = FABEMU_RECORD_PUT};

    return local && at && osc_fabemu_batches(&w->peer[rank], bytes) &&
           !osc_fabemu_batch(w, rank, &record, NULL, local);
}

static int transfer(struct osc_fabemu_window *w, const char *name,
                    const struct osc_fabemu_span *mine, int rank, ptrdiff_t disp, int target_count,
                    ompi_datatype_t *target_type, bool puts, ompi_request_t **request)
{
    struct osc_fabemu_call *call;
    struct osc_fabemu_span target;
    bool copies;
    size_t bytes;
    void *local;
    int rc = osc_fabemu_access(w, rank, disp, target_count, target_type, name, &target);

    if (rc)
        return rc;
    bytes = osc_fabemu_span_bytes(puts ? mine : &target);
    if (bytes > osc_fabemu_span_bytes(puts ? &target : mine))
        return MPI_ERR_TRUNCATE;
    if (!bytes) {
        if (request)
            *request = &ompi_request_empty;
        return OMPI_SUCCESS;
    }
    local = osc_fabemu_span_plain(mine);
    if (puts && !request && put_by_batch(w, rank, &target, local, bytes))
        return OMPI_SUCCESS;
    /* for few bytes a copy takes less time than waiting for them in MPI_Win_complete */
    copies = puts && (!local || bytes <= FABEMU_INJECT_BYTES);
    rc = osc_fabemu_call_begin(w, rank, copies ? bytes : 0, !local && !puts ? bytes : 0, mine,
                               request, &call);
    if (rc)
        return rc;
    if (call->out)
        osc_fabemu_pack(mine, call->out, bytes);
    osc_fabemu_move(call, &target, copies ? call->out : local ? local : call->in, bytes, puts);
    osc_fabemu_call_end(call);
    return OMPI_SUCCESS;
}

static int put(const void *from, int count, ompi_datatype_t *type, int rank, ptrdiff_t disp,
               int target_count, ompi_datatype_t *target_type, ompi_win_t *win)
{
    const struct osc_fabemu_span mine = osc_fabemu_span_of(from, count, type);

    return transfer(osc_fabemu_window(win), "MPI_Put", &mine, rank, disp, target_count, target_type,
                    true, NULL);
}

static int get(void *to, int count, ompi_datatype_t *type, int rank, ptrdiff_t disp,
               int target_count, ompi_datatype_t *target_type, ompi_win_t *win)
{
    const struct osc_fabemu_span mine = osc_fabemu_span_of(to, count, type);

    return transfer(osc_fabemu_window(win), "MPI_Get", &mine, rank, disp, target_count, target_type,
                    false, NULL);
}

static int rput(const void *from, int count, ompi_datatype_t *type, int rank, ptrdiff_t disp,
                int target_count, ompi_datatype_t *target_type, ompi_win_t *win,
                ompi_request_t **request)
{
    const struct osc_fabemu_span mine = osc_fabemu_span_of(from, count, type);

    return transfer(osc_fabemu_window(win), "MPI_Rput", &mine, rank, disp, target_count,
                    target_type, true, request);
}

static int rget(void *to, int count, ompi_datatype_t *type, int rank, ptrdiff_t disp,
                int target_count, ompi_datatype_t *target_type, ompi_win_t *win,
                ompi_request_t **request)
{
    const struct osc_fabemu_span mine = osc_fabemu_span_of(to, count, type);

    return transfer(osc_fabemu_window(win), "MPI_Rget", &mine, rank, disp, target_count,
                    target_type, false, request);
}

void osc_fabemu_transfers_fill(ompi_osc_base_module_t *module)
{
    module->osc_put = put;
    module->osc_get = get;
    module->osc_rput = rput;
    module->osc_rget = rget;
}
