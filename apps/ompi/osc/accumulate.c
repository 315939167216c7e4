/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accumulate.c - MPI_Accumulate, MPI_Get_accumulate, MPI_Fetch_and_op, MPI_Compare_and_swap.
 *
 * The target's adapter executes these calls, element by element, if it can apply the operation to
 * the type and the elements are aligned. It cannot do so for the pairs of MPI_MINLOC and
 * MPI_MAXLOC, for types without arithmetic, and for elements that are not aligned. Then this
 * process acquires the target's accumulate_lock, gets the elements, changes them, and puts them
 * back. The type and the address of an element decide which of the two ways is used. Therefore all
 * accumulates of one type on one element use the same way, and are atomic with respect to each
 * other.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include <stdlib.h>
#include <string.h>

#define ATOMICS_MOST (1u << 20) /* maximum size of the elements of one part, in bytes */

/* By Open MPI's number of an operation: 1 + the operation of fabemu.h; 0: none. */
static const uint8_t ops[OMPI_OP_BASE_FORTRAN_OP_MAX + 1] = {
    [OMPI_OP_BASE_FORTRAN_SUM] = 1 + FABEMU_ATOMIC_ADD,
    [OMPI_OP_BASE_FORTRAN_PROD] = 1 + FABEMU_ATOMIC_PROD,
    [OMPI_OP_BASE_FORTRAN_MIN] = 1 + FABEMU_ATOMIC_MIN,
    [OMPI_OP_BASE_FORTRAN_MAX] = 1 + FABEMU_ATOMIC_MAX,
    [OMPI_OP_BASE_FORTRAN_BAND] = 1 + FABEMU_ATOMIC_AND,
    [OMPI_OP_BASE_FORTRAN_BOR] = 1 + FABEMU_ATOMIC_OR,
    [OMPI_OP_BASE_FORTRAN_BXOR] = 1 + FABEMU_ATOMIC_XOR,
    [OMPI_OP_BASE_FORTRAN_LAND] = 1 + FABEMU_ATOMIC_LAND,
    [OMPI_OP_BASE_FORTRAN_LOR] = 1 + FABEMU_ATOMIC_LOR,
    [OMPI_OP_BASE_FORTRAN_LXOR] = 1 + FABEMU_ATOMIC_LXOR,
    [OMPI_OP_BASE_FORTRAN_REPLACE] = 1 + FABEMU_ATOMIC_SWAP,
    [OMPI_OP_BASE_FORTRAN_NO_OP] = 1 + FABEMU_ATOMIC_FETCH,
};

/* By Open MPI's id of a type: 1 + the type of fabemu.h; 0: none. */
static const uint8_t types[OMPI_DATATYPE_MAX_PREDEFINED + 1] = {
#define TYPE(ompi, fab) [OMPI_DATATYPE_MPI_##ompi] = (uint8_t)((fab) + 1),
#include "apps/ompi/ops.def"
};

/* The arguments of one call. */
struct accumulate {
    struct osc_fabemu_window *w;
    const char *name;
    int rank;
    struct osc_fabemu_span from;   /* operands; MPI_NO_OP: not used */
    struct osc_fabemu_span to;     /* previous values; type NULL: not wanted */
    struct osc_fabemu_span target; /* elements in the target's memory */
    const void *compare;           /* for MPI_Compare_and_swap; else NULL */
    ompi_op_t *op;                 /* NULL for MPI_Compare_and_swap */
    ompi_request_t **request;

    size_t bytes;               /* size of the data at the target */
    ompi_datatype_t *primitive; /* type of the elements */
    unsigned fab_op, fab_type;  /* operation and type for the adapter */
};

static bool fetches_only(const struct accumulate *a)
{
    return a->op == &ompi_mpi_op_no_op.op;
}

/* Return whether all elements are aligned as fabemu_atomic() requires. */
static bool is_aligned(const struct accumulate *a)
{
    size_t size = a->primitive->super.size;
    uint64_t mask = (size < sizeof(uint64_t) ? size : sizeof(uint64_t)) - 1;
    struct osc_fabemu_pieces pieces;
    struct osc_fabemu_piece piece;
    bool aligned = true;

    osc_fabemu_pieces_begin(&pieces, &a->target);
    while (aligned && osc_fabemu_pieces_next(&pieces, &piece))
        aligned = !((piece.at | piece.stride.step) & mask);
    osc_fabemu_pieces_end(&pieces);
    return aligned;
}

/* Find the adapter's operation and type. Returns false if it cannot execute the call. */
static bool choose_atomic(struct accumulate *a)
{
    int id = a->primitive->id;

    if (id < 0 || id > OMPI_DATATYPE_MAX_PREDEFINED || !types[id])
        return false;
    a->fab_type = types[id] - 1u;
    a->fab_op = a->op ? ops[a->op->o_f_to_c_index] - 1u : FABEMU_ATOMIC_CAS;
    return a->fab_op < FABEMU_ATOMIC_OPS && fabemu_atomic_ok(a->fab_op, a->fab_type) &&
           is_aligned(a);
}

/* --- by the adapter ---------------------------------------------------------------------- */

/* Return whether records of a batch can execute the call. */
static bool has_records(const struct accumulate *a)
{
    return !a->compare && a->primitive->super.size <= FABEMU_RECORD_UNIT;
}

/* Return the maximum number of elements of one part. */
static size_t part_most(const struct accumulate *a)
{
    if (a->compare)
        return fabemu_atomic_most(a->fab_op, a->fab_type);
    return (a->to.type ? FABEMU_BATCH_RESULT : ATOMICS_MOST) / a->primitive->super.size;
}

/* Post the atomics for a contiguous block of the target's memory. */
static void post_block(const struct accumulate *a, struct osc_fabemu_call *call, uint64_t at,
                       size_t bytes, const char *out, char *in)
{
    size_t element = a->primitive->super.size, most = part_most(a), count;

    for (size_t done = 0; done < bytes; done += count * element) {
        struct osc_fabemu_part *part = osc_fabemu_part(call, 0);
        const struct fabemu_atomic what = {.node = call->peer->place.node,
                                           .key = call->peer->place.key,
                                           .offset = at + done,
                                           .op = a->fab_op,
                                           .type = a->fab_type,
                                           .operand = out ? out + done : NULL,
                                           .compare = a->compare,
                                           .result = in ? in + done : NULL};
        bool single;

        count = (bytes - done) / element;
        count = count < most ? count : most;
        single = count == 1 && element <= sizeof(uint64_t);
        part->borrows = in || (!single && !call->out);
        osc_fabemu_part_posted(part,
                               single ? fabemu_atomic(a->w->fab, &what, &part->req)
                                      : fabemu_atomic_array(a->w->fab, &what, count, &part->req));
    }
}

/* Post the atomics for the blocks of a piece. */
static void post_blocks(const struct accumulate *a, struct osc_fabemu_call *call,
                        const struct osc_fabemu_piece *piece, const char *out, char *in)
{
    uint64_t at = piece->at;
    size_t bytes;

    for (size_t done = 0; done < piece->bytes; done += bytes, at += piece->stride.step) {
        bytes = piece->bytes - done;
        bytes = bytes < piece->stride.block ? bytes : piece->stride.block;
        post_block(a, call, at, bytes, out ? out + done : NULL, in ? in + done : NULL);
    }
}

static void post_all(const struct accumulate *a, struct osc_fabemu_call *call, char *out, char *in)
{
    struct osc_fabemu_run run = {.call = call,
                                 .record.op = (uint8_t)a->fab_op,
                                 .record.type = (uint8_t)a->fab_type};
    struct osc_fabemu_pieces pieces;
    struct osc_fabemu_piece piece;
    int rc = OMPI_SUCCESS;

    osc_fabemu_pieces_begin(&pieces, &a->target);
    while (!rc && osc_fabemu_pieces_next(&pieces, &piece)) {
        if (has_records(a) && !pieces.plain && piece.stride.block <= OSC_FABEMU_SMALL)
            rc = osc_fabemu_run_add(&run, &piece, out, in);
        else
            post_blocks(a, call, &piece, out, in);
        out = out ? out + piece.bytes : NULL;
        in = in ? in + piece.bytes : NULL;
    }
    osc_fabemu_pieces_end(&pieces);
    if (osc_fabemu_run_end(&run) || rc)
        (void)ompi_mpi_abort(a->w->comm, MPI_ERR_NO_MEM);
}

/*
 * If the accumulate is small and has no gaps, copy it into the member's batch. Returns whether this
 * was possible.
 */
static bool by_batch(const struct accumulate *a)
{
    void *out = osc_fabemu_span_plain(&a->from), *target = osc_fabemu_span_plain(&a->target);
    const struct fabemu_record record = {.offset = (uintptr_t)target,
                                         .bytes = (uint32_t)a->bytes,
                                         .op = (uint8_t)a->fab_op,
                                         .type = (uint8_t)a->fab_type};

    return !a->request && !a->to.type && out && target && has_records(a) &&
           osc_fabemu_batches(&a->w->peer[a->rank], a->bytes) &&
           !osc_fabemu_batch(a->w, a->rank, &record, NULL, out);
}

static int by_adapter(const struct accumulate *a)
{
    bool sends = !fetches_only(a), wants = a->to.type;
    char *out = sends ? osc_fabemu_span_plain(&a->from) : NULL;
    char *in = wants ? osc_fabemu_span_plain(&a->to) : NULL;
    struct osc_fabemu_call *call;
    int rc;

    if (by_batch(a))
        return OMPI_SUCCESS;
    rc = osc_fabemu_call_begin(a->w, a->rank, sends && !out ? a->bytes : 0,
                               wants && !in ? a->bytes : 0, &a->to, a->request, &call);
    if (rc)
        return rc;
    if (call->out)
        osc_fabemu_pack(&a->from, out = call->out, a->bytes);
    if (call->in)
        in = call->in;
    post_all(a, call, out, in);
    osc_fabemu_call_end(call);
    return OMPI_SUCCESS;
}

/* --- by get and put ------------------------------------------------------------------------ */

/*
 * Put @packed into the target's memory or, if @puts is false, get it from there. Wait until all
 * data has been moved.
 */
static int move_all(const struct accumulate *a, void *packed, bool puts)
{
    struct osc_fabemu_call *call;
    int rc = osc_fabemu_call_begin(a->w, a->rank, 0, 0, NULL, NULL, &call);

    if (rc)
        return rc;
    osc_fabemu_move(call, &a->target, packed, a->bytes, puts);
    osc_fabemu_call_end(call);
    return osc_fabemu_drain(a->w, a->rank, a->name);
}

/*
 * Apply the operation to @packed, the elements of the target. MPI's operations need elements at the
 * distance that the extent of their type determines, but packed elements have no gaps.
 */
static int apply(const struct accumulate *a, void *packed)
{
    size_t count = a->bytes / a->primitive->super.size;
    size_t extent = (size_t)(a->primitive->super.ub - a->primitive->super.lb);
    char *operands = calloc(count, extent), *elements = calloc(count, extent);
    void *out = malloc(a->bytes);
    struct osc_fabemu_span left = {(uintptr_t)operands, (int)count, a->primitive};
    struct osc_fabemu_span right = {(uintptr_t)elements, (int)count, a->primitive};
    int rc = operands && elements && out ? OMPI_SUCCESS : MPI_ERR_NO_MEM;

    if (!rc)
        osc_fabemu_pack(&a->from, out, a->bytes);
    if (!rc && a->compare) {
        if (memcmp(packed, a->compare, a->bytes) == 0)
            memcpy(packed, out, a->bytes);
    } else if (!rc && a->op == &ompi_mpi_op_replace.op) {
        memcpy(packed, out, a->bytes);
    } else if (!rc) {
        osc_fabemu_unpack(&left, out, a->bytes);
        osc_fabemu_unpack(&right, packed, a->bytes);
        ompi_op_reduce(a->op, operands, elements, (int)count, a->primitive);
        osc_fabemu_pack(&right, packed, a->bytes);
    }
    free(out);
    free(operands);
    free(elements);
    return rc;
}

static int lock_accumulates(const struct accumulate *a)
{
    struct osc_fabemu_wait wait = {0};
    uint64_t mine = (uint64_t)a->w->rank + 1, holder;

    for (;;) {
        int rc = osc_fabemu_state_op(a->w, a->rank, FABEMU_ATOMIC_CAS,
                                     OSC_FABEMU_AT(accumulate_lock), mine, &holder, a->name);

        if (rc || !holder)
            return rc;
        if (holder <= (uint64_t)a->w->ranks && osc_fabemu_is_lost(a->w, (int)holder - 1))
            return osc_fabemu_fails(a->w, a->name, (int)holder - 1);
        osc_fabemu_wait(a->w, &wait);
    }
}

static int by_transfer(const struct accumulate *a)
{
    void *packed = malloc(a->bytes);
    int rc = packed ? lock_accumulates(a) : MPI_ERR_NO_MEM;

    if (rc) {
        free(packed);
        return rc;
    }
    rc = move_all(a, packed, false);
    if (!rc && a->to.type)
        osc_fabemu_unpack(&a->to, packed, a->bytes);
    if (!rc && !fetches_only(a))
        rc = apply(a, packed);
    if (!rc && !fetches_only(a))
        rc = move_all(a, packed, true);
    free(packed);
    if (!osc_fabemu_is_lost(a->w, a->rank)) {
        int err = osc_fabemu_state_add(a->w, a->rank, OSC_FABEMU_AT(accumulate_lock),
                                       -((uint64_t)a->w->rank + 1), false);

        rc = rc ? rc : err;
    }
    if (a->request)
        *a->request = &ompi_request_empty;
    return rc;
}

/* --- the calls ----------------------------------------------------------------------------- */

static int start(struct accumulate *a, ptrdiff_t disp, int count, ompi_datatype_t *type)
{
    int rc = osc_fabemu_access(a->w, a->rank, disp, count, type, a->name, &a->target);

    if (rc)
        return rc;
    a->bytes = osc_fabemu_span_bytes(&a->target);
    if (!a->bytes || (fetches_only(a) && !a->to.type)) {
        if (a->request)
            *a->request = &ompi_request_empty;
        return OMPI_SUCCESS;
    }
    if ((!fetches_only(a) && osc_fabemu_span_bytes(&a->from) < a->bytes) ||
        (a->to.type && osc_fabemu_span_bytes(&a->to) < a->bytes))
        return MPI_ERR_TRUNCATE;
    a->primitive = ompi_datatype_get_single_predefined_type_from_args(type);
    if (!a->primitive || !a->primitive->super.size)
        return MPI_ERR_TYPE;
    return choose_atomic(a) ? by_adapter(a) : by_transfer(a);
}

static int raccumulate(const void *from, int count, ompi_datatype_t *type, int rank, ptrdiff_t disp,
                       int target_count, ompi_datatype_t *target_type, ompi_op_t *op,
                       ompi_win_t *win, ompi_request_t **request)
{
    struct accumulate a = {.w = osc_fabemu_window(win),
                           .name = request ? "MPI_Raccumulate" : "MPI_Accumulate",
                           .rank = rank,
                           .from = osc_fabemu_span_of(from, count, type),
                           .op = op,
                           .request = request};

    return start(&a, disp, target_count, target_type);
}

static int accumulate(const void *from, int count, ompi_datatype_t *type, int rank, ptrdiff_t disp,
                      int target_count, ompi_datatype_t *target_type, ompi_op_t *op,
                      ompi_win_t *win)
{
    return raccumulate(from, count, type, rank, disp, target_count, target_type, op, win, NULL);
}

static int rget_accumulate(const void *from, int count, ompi_datatype_t *type, void *to,
                           int to_count, ompi_datatype_t *to_type, int rank, ptrdiff_t disp,
                           int target_count, ompi_datatype_t *target_type, ompi_op_t *op,
                           ompi_win_t *win, ompi_request_t **request)
{
    struct accumulate a = {.w = osc_fabemu_window(win),
                           .name = request ? "MPI_Rget_accumulate" : "MPI_Get_accumulate",
                           .rank = rank,
                           .from = osc_fabemu_span_of(from, count, type),
                           .to = osc_fabemu_span_of(to, to_count, to_type),
                           .op = op,
                           .request = request};

    return start(&a, disp, target_count, target_type);
}

static int get_accumulate(const void *from, int count, ompi_datatype_t *type, void *to,
                          int to_count, ompi_datatype_t *to_type, int rank, ptrdiff_t disp,
                          int target_count, ompi_datatype_t *target_type, ompi_op_t *op,
                          ompi_win_t *win)
{
    return rget_accumulate(from, count, type, to, to_count, to_type, rank, disp, target_count,
                           target_type, op, win, NULL);
}

static int fetch_and_op(const void *from, void *to, ompi_datatype_t *type, int rank, ptrdiff_t disp,
                        ompi_op_t *op, ompi_win_t *win)
{
    struct accumulate a = {.w = osc_fabemu_window(win),
                           .name = "MPI_Fetch_and_op",
                           .rank = rank,
                           .from = osc_fabemu_span_of(from, 1, type),
                           .to = osc_fabemu_span_of(to, 1, type),
                           .op = op};

    return start(&a, disp, 1, type);
}

static int compare_and_swap(const void *from, const void *compare, void *to, ompi_datatype_t *type,
                            int rank, ptrdiff_t disp, ompi_win_t *win)
{
    struct accumulate a = {.w = osc_fabemu_window(win),
                           .name = "MPI_Compare_and_swap",
                           .rank = rank,
                           .from = osc_fabemu_span_of(from, 1, type),
                           .to = osc_fabemu_span_of(to, 1, type),
                           .compare = compare};

    return start(&a, disp, 1, type);
}

void osc_fabemu_accumulates_fill(ompi_osc_base_module_t *module)
{
    module->osc_accumulate = accumulate;
    module->osc_raccumulate = raccumulate;
    module->osc_get_accumulate = get_accumulate;
    module->osc_rget_accumulate = rget_accumulate;
    module->osc_fetch_and_op = fetch_and_op;
    module->osc_compare_and_swap = compare_and_swap;
}
