/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_reduce.c - all-reduce, and reduce to every root, for every operation and type.
 *
 * One set of inputs serves several calls. Each call starts at another element, so that the result
 * of one is wrong for the next, and a late or stale result is detected.
 */
#include "check.h"
#include "check_forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIFTS      13 /* call k starts at element k modulo this */
#define GUARD_BYTES 64 /* bytes after the result that must stay unwritten */
#define POISON      0xa5

static const size_t counts[] = {1, 2, 7, 31, 1000, 100000};
#define COUNTS      (sizeof counts / sizeof counts[0])
#define FORMS_COUNT 7 /* sums of so many elements are blocking, non-blocking or persistent */
#define LONG_COUNT  100000
#define ROOTS_ALL   4 /* with up to this many ranks, each is root once */

/* Inputs and results of one (type, operation, count) on one communicator. */
struct reduction {
    struct check *check;
    const struct check_comm *comm;
    const struct check_type *type;
    enum check_op op;
    size_t count;
    bool core;          /* see is_core() */
    uint64_t key;       /* of its draws */
    unsigned calls;     /* so far */
    uint8_t *in;        /* count + SHIFTS elements: this rank's input */
    uint8_t *in_before; /* a copy */
    uint8_t *want;      /* as many: the expected result */
    uint8_t *out;       /* count elements and GUARD_BYTES */
};

static bool poisoned(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != POISON)
            return false;
    return true;
}

/* The plain computation. */
static void reduction_draw(struct reduction *r)
{
    const size_t elements = r->count + SHIFTS;
    const size_t bytes = elements * r->type->bytes;
    struct draw draw = {.key = r->key,
                        .size = r->comm->size,
                        .op = r->op,
                        .strict = r->check->strict};

    memset(r->in, 0, bytes); /* padding, too: we compare copies */
    r->type->fill(r->want, elements, &draw);
    for (draw.rank = 1; draw.rank < r->comm->size; draw.rank++) {
        r->type->fill(r->in, elements, &draw);
        r->type->fold(r->want, r->in, elements, r->op);
    }
    draw.rank = r->comm->rank;
    r->type->fill(r->in, elements, &draw);
    memcpy(r->in_before, r->in, bytes);
}

static size_t reduction_offset(const struct reduction *r)
{
    return (r->calls % SHIFTS) * r->type->bytes;
}

/* After a call: the result is right, and nothing else was written. */
static void reduction_verify(struct reduction *r, bool has_result, bool was_in_place,
                             const char *what, int root)
{
    const size_t bytes = r->count * r->type->bytes;

    if (has_result) {
        size_t at = r->type->differs(r->out, r->want + reduction_offset(r), r->count);

        check_that(r->check, at == r->count,
                   "%s(%s, %s, %zu) root %d on %s of %d: element %zu is wrong", what,
                   check_op_name(r->op), r->type->name, r->count, root, r->comm->name,
                   r->comm->size, at);
    } else if (!was_in_place) {
        check_that(r->check, poisoned(r->out, bytes),
                   "%s(%s, %s, %zu) root %d on %s: wrote off the root", what, check_op_name(r->op),
                   r->type->name, r->count, root, r->comm->name);
    }
    if (!poisoned(r->out + bytes, GUARD_BYTES) ||
        memcmp(r->in, r->in_before, bytes + reduction_offset(r)) != 0)
        check_that(r->check, false, "%s(%s, %s, %zu) root %d on %s: wrote outside the result", what,
                   check_op_name(r->op), r->type->name, r->count, root, r->comm->name);
    r->calls++;
}

static const void *reduction_input(struct reduction *r, bool in_place)
{
    const uint8_t *in = r->in + reduction_offset(r);

    memset(r->out, POISON, r->count * r->type->bytes + GUARD_BYTES);
    if (in_place)
        memcpy(r->out, in, r->count * r->type->bytes);
    return in_place ? MPI_IN_PLACE : in;
}

static void allreduce_once(struct reduction *r, bool in_place)
{
    const bool draws = r->op == OP_SUM && r->count == FORMS_COUNT;
    const enum check_form form = draws ? check_form_draw((r->key >> 8) + r->calls) : CHECK_BLOCKING;
    const void *in = reduction_input(r, in_place);
    MPI_Request made = MPI_REQUEST_NULL, *request = &made;
    char what[48];

    CHECK_START(Allreduce, Iallreduce, in, r->out, (int)r->count, r->type->mpi, check_op_mpi(r->op),
                r->comm->comm);
    if (form == CHECK_PERSISTENT)
        MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
    if (form == CHECK_PERSISTENT)
        MPI_Request_free(request);
    snprintf(what, sizeof what, "%s%s allreduce", check_form_name(form),
             in_place ? " in-place" : "");
    reduction_verify(r, true, in_place, what, -1);
}

static void reduce_once(struct reduction *r, int root, bool in_place)
{
    const bool is_root = r->comm->rank == root;
    const void *in = reduction_input(r, in_place && is_root);

    MPI_Reduce(in, r->out, (int)r->count, r->type->mpi, check_op_mpi(r->op), root, r->comm->comm);
    reduction_verify(r, is_root, in_place && is_root, in_place ? "in-place reduce" : "reduce",
                     root);
}

/*
 * Quick: the first and the last root only. Otherwise all roots; with many ranks, and for non-core
 * combinations or many elements, only the first, the last and a random one: combining does not
 * depend on where the result goes.
 */
static bool root_wanted(const struct reduction *r, int root)
{
    const int last = r->comm->size - 1;

    if (root == 0 || root == last || r->check->full)
        return true;
    if (r->check->quick)
        return false;
    return (r->core && r->count < LONG_COUNT) || last < ROOTS_ALL ||
           root == 1 + (int)(r->key % (uint64_t)(last - 1));
}

static void reduction_calls(struct reduction *r)
{
    allreduce_once(r, false);
    allreduce_once(r, true);
    for (int root = 0; root < r->comm->size; root++) {
        if (!root_wanted(r, root))
            continue;
        reduce_once(r, root, root & 1);
        if (r->check->full)
            reduce_once(r, root, !(root & 1));
    }
}

/* One combination of each width and kind is checked on every communicator and at every length. */
static bool is_core(const struct check_type *type, enum check_op op)
{
    static const struct {
        MPI_Datatype type;
        enum check_op op;
    } core[] = {
        {MPI_INT, OP_SUM},
        {MPI_INT, OP_MAX},
        {MPI_DOUBLE, OP_SUM},
        {MPI_DOUBLE, OP_PROD},
        {MPI_FLOAT, OP_MIN},
        {MPI_DOUBLE_INT, OP_MAXLOC},
        {MPI_2INT, OP_MINLOC},
        {MPI_BYTE, OP_BXOR},
        {MPI_SHORT, OP_LAND},
        {MPI_INT64_T, OP_BAND},
        {MPI_LONG_DOUBLE_INT, OP_MINLOC},
    };

    for (size_t i = 0; i < sizeof core / sizeof core[0]; i++)
        if (core[i].type == type->mpi && core[i].op == op)
            return true;
    return false;
}

static void reduction_run(struct check *check, const struct check_comm *comm,
                          const struct check_type *type, enum check_op op, size_t count)
{
    const size_t bytes = (count + SHIFTS) * type->bytes;
    struct reduction r = {
        .check = check,
        .comm = comm,
        .type = type,
        .op = op,
        .count = count,
        .core = is_core(type, op),
        .key = check_key(check),
        .in = check_alloc(bytes),
        .in_before = check_alloc(bytes),
        .want = check_alloc(bytes),
        .out = check_alloc(count * type->bytes + GUARD_BYTES),
    };

    reduction_draw(&r);
    reduction_calls(&r);
    free(r.out);
    free(r.want);
    free(r.in_before);
    free(r.in);
}

/*
 * Return whether a combination runs. By default the core runs always, and the rest below LONG_COUNT
 * elements on the first communicator. Quick: the rest only with 7 elements there, and the core at
 * all lengths there and with 7 elements elsewhere. Full: all.
 */
static bool wanted(const struct check *check, bool first_comm, bool core, size_t count)
{
    if (check->full)
        return true;
    if (check->quick)
        return core ? first_comm || count == 7 : first_comm && count == 7;
    return core || (first_comm && count < LONG_COUNT);
}

/* --part: all ranks draw the same. */
static bool drawn(struct check *check)
{
    return check->part <= 1 || check_key(check) % (uint64_t)check->part == 0;
}

void check_reductions(struct check *check, const struct check_comm *comms, size_t count)
{
    for (size_t c = 0; c < count; c++) {
        check_epoch(check);
        for (size_t t = 0; t < check_types_count; t++)
            for (unsigned op = 0; op < OPS; op++) {
                if (!(check_types[t].ops >> op & 1))
                    continue;
                for (size_t n = 0; n < COUNTS; n++)
                    if (wanted(check, c == 0, is_core(&check_types[t], op), counts[n]) &&
                        drawn(check))
                        reduction_run(check, &comms[c], &check_types[t], op, counts[n]);
            }
    }
}
