/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_blocks.c - collectives that move blocks of data: gather(v), scatter(v), allgather(v),
 * alltoall(v,w) and those on the neighbours of a graph.
 *
 * Each is drawn in a blocking, non-blocking or persistent form, in place or not, with blocks of
 * equal or different sizes (also empty ones), with gaps between the blocks and within them, and
 * with another data type on each rank. Several are in flight at once.
 */
#include "check.h"
#include "check_forms.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST   6       /* calls in flight */
#define TURNS  2       /* executions of a persistent request */
#define POISON (-7777) /* in memory that must stay unwritten */

enum kind {
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLGATHERV,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    KINDS
};

static const struct {
    const char *name;
    bool sends_many;    /* a sender has a block for each receiver; false: one block for all */
    bool receives_many; /* a receiver gets a block from each sender */
    bool rooted;
    bool varies; /* blocks have different sizes */
    bool is_neighbor;
} kinds[KINDS] = {
    [GATHER] = {"gather", false, true, true, false, false},
    [GATHERV] = {"gatherv", false, true, true, true, false},
    [SCATTER] = {"scatter", true, false, true, false, false},
    [SCATTERV] = {"scatterv", true, false, true, true, false},
    [ALLGATHER] = {"allgather", false, true, false, false, false},
    [ALLGATHERV] = {"allgatherv", false, true, false, true, false},
    [ALLTOALL] = {"alltoall", true, true, false, false, false},
    [ALLTOALLV] = {"alltoallv", true, true, false, true, false},
    [ALLTOALLW] = {"alltoallw", true, true, false, true, false},
    [NEIGHBOR_ALLGATHER] = {"neighbor_allgather", false, true, false, false, true},
    [NEIGHBOR_ALLGATHERV] = {"neighbor_allgatherv", false, true, false, true, true},
    [NEIGHBOR_ALLTOALL] = {"neighbor_alltoall", true, true, false, false, true},
    [NEIGHBOR_ALLTOALLV] = {"neighbor_alltoallv", true, true, false, true, true},
    [NEIGHBOR_ALLTOALLW] = {"neighbor_alltoallw", true, true, false, true, true},
};

/* --- data types ------------------------------------------------------------------------- */

/* Every type has one int per element; element k of a buffer is at int k * stride + at. */
static const struct layout {
    int lb, stride, at; /* in ints */
} layouts[] = {
    {0, 1, 0},  /* MPI_INT */
    {0, 3, 0},  /* gaps after the elements */
    {-1, 2, 0}, /* a negative lower bound */
    {1, 4, 2},  /* gaps before and after the elements */
};
#define LAYOUTS (sizeof layouts / sizeof layouts[0])

static MPI_Datatype layout_type(const struct layout *layout)
{
    const int one = 1;
    const MPI_Aint at = layout->at * (MPI_Aint)sizeof(int);
    MPI_Datatype type, resized;

    MPI_Type_create_hindexed(1, &one, &at, MPI_INT, &type);
    MPI_Type_create_resized(type, layout->lb * (MPI_Aint)sizeof(int),
                            layout->stride * (MPI_Aint)sizeof(int), &resized);
    MPI_Type_free(&type);
    MPI_Type_commit(&resized);
    return resized;
}

/* The buffer of a rank for sending or for receiving: blocks to or from several ranks. */
struct side {
    const struct layout *layout;
    MPI_Datatype type;
    int blocks;
    int *counts, *displs; /* of each block, in elements */
    int *bytes;           /* its offset in bytes, for alltoallw */
    MPI_Aint *offsets;    /* the same, for neighbor_alltoallw */
    MPI_Datatype *types;  /* for alltoallw */
    int *buf, ints;
};

/* Lay out blocks of @counts elements; @gaps: with unused elements between them. */
static struct side side_make(uint64_t key, const struct layout *layout, int blocks,
                             const int *counts, bool gaps)
{
    const size_t n = (size_t)blocks + 1;
    struct side side = {.layout = layout, .blocks = blocks};
    int elements = 0;

    side.type = layout_type(side.layout);
    side.counts = check_alloc(n * sizeof(int));
    side.displs = check_alloc(n * sizeof(int));
    side.bytes = check_alloc(n * sizeof(int));
    side.offsets = check_alloc(n * sizeof(MPI_Aint));
    side.types = check_alloc(n * sizeof(MPI_Datatype));
    for (int b = 0; b < blocks; b++) {
        elements += gaps ? (int)(check_mix(key, (uint64_t)b, 1) % 3) : 0;
        side.counts[b] = counts[b];
        side.displs[b] = elements;
        side.bytes[b] = elements * side.layout->stride * (int)sizeof(int);
        side.offsets[b] = side.bytes[b];
        side.types[b] = side.type;
        elements += counts[b];
    }
    side.ints = (elements + 2) * side.layout->stride;
    side.buf = check_alloc((size_t)side.ints * sizeof(int));
    return side;
}

static void side_free(struct side *side)
{
    MPI_Type_free(&side->type);
    free(side->counts);
    free(side->displs);
    free(side->bytes);
    free(side->offsets);
    free(side->types);
    free(side->buf);
}

static int *side_at(const struct side *side, int block, int i)
{
    return &side->buf[(side->displs[block] + i) * side->layout->stride + side->layout->at];
}

/* --- a call ----------------------------------------------------------------------------- */

struct call {
    const struct check_comm *comm;
    enum kind kind;
    enum check_form form;
    uint64_t key;
    int root;
    bool in_place;
    int base;                   /* elements of a block, unless the sizes vary */
    int from[2], to[2], degree; /* neighbours */
    struct side in, out;
    MPI_Request request;
};

static bool is_root(const struct call *call)
{
    return !kinds[call->kind].rooted || call->comm->rank == call->root;
}

/*
 * Number of elements that rank @from sends to rank @to. In place, one size holds for both
 * directions. Open MPI 4.1.4 hangs if all sizes are 0 on one rank of an alltoallv in place.
 */
static int block_count(const struct check *check, const struct call *call, int from, int to)
{
    const bool in_place = call->in_place && call->kind >= ALLTOALL;
    const int low = in_place && to < from ? to : from, high = low == from ? to : from;
    const int least = in_place && !check->strict;

    if (!kinds[call->kind].varies)
        return call->base;
    return least + (int)(check_mix(call->key, (uint64_t)low,
                                   kinds[call->kind].sends_many ? (uint64_t)high + 1 : 0) %
                         ((uint64_t)call->base * 2 + 1));
}

static int value(const struct call *call, int turn, int from, int to, int i)
{
    const uint64_t pair = (uint64_t)from << 32 | (uint32_t)(kinds[call->kind].sends_many ? to : -1);

    return (int)(check_mix(call->key + (uint64_t)turn, pair, (uint64_t)i) >> 40);
}

/* The rank of a block of this rank's buffer for sending, or for receiving. */
static int peer(const struct call *call, bool sends, int block)
{
    if (kinds[call->kind].is_neighbor)
        return sends ? call->to[block] : call->from[block];
    if (kinds[call->kind].rooted &&
        (sends ? !kinds[call->kind].sends_many : !kinds[call->kind].receives_many))
        return call->root;
    return block;
}

static int blocks_of(const struct call *call, bool sends)
{
    bool many = sends ? kinds[call->kind].sends_many : kinds[call->kind].receives_many;

    if (many && !is_root(call))
        return 0;
    if (!many)
        return 1;
    return kinds[call->kind].is_neighbor ? call->degree : call->comm->size;
}

static struct side side_draw(const struct check *check, const struct call *call, bool sends)
{
    const int blocks = blocks_of(call, sends), rank = call->comm->rank;
    const bool many = sends ? kinds[call->kind].sends_many : kinds[call->kind].receives_many;
    const uint64_t key = check_mix(call->key, (uint64_t)rank, sends ? 11 : 12);
    int *counts = check_alloc(((size_t)blocks + 1) * sizeof(int));
    const struct layout *layout = &layouts[key % LAYOUTS];
    struct side side;

    /* Open MPI 4.1.4 writes outside the result of an alltoall of many ranks if the types differ */
    if (!check->strict && call->kind == ALLTOALL && call->comm->size > 8)
        layout = &layouts[0];
    for (int b = 0; b < blocks; b++) {
        const int other = peer(call, sends, b);

        counts[b] = sends ? block_count(check, call, rank, other)
                          : block_count(check, call, other, rank);
    }
    /* the calls have displacements only for a side with several blocks */
    side = side_make(key, layout, blocks, counts, kinds[call->kind].varies && many);
    free(counts);
    return side;
}

/*
 * Sizes of all blocks together: around the payload of a segment, and around the sizes at which
 * fabemu changes its algorithm.
 */
static const int totals[] = {0, 8, 240, 256, 1024, 4096, 16384, 65536};
#define TOTALS (sizeof totals / sizeof totals[0])

/* With --strict, also cases that Open MPI 4.1.4 gets wrong. */
static enum kind kind_draw(const struct check *check, const struct check_comm *comm, uint64_t draw,
                           bool neighbors)
{
    enum kind kind = neighbors ? NEIGHBOR_ALLGATHER + draw % (KINDS - NEIGHBOR_ALLGATHER)
                               : draw % NEIGHBOR_ALLGATHER;

    if (!check->strict && kind == ALLTOALLW && comm->size == 1)
        return ALLTOALLV; /* Open MPI takes displacements for numbers of elements */
    return kind;
}

static struct call call_draw(const struct check *check, const struct check_comm *comm, uint64_t key,
                             bool neighbors)
{
    const int size = comm->size;
    const size_t sizes = check->quick ? TOTALS - 1 : TOTALS;
    struct call call = {.comm = comm,
                        .key = key,
                        .kind = kind_draw(check, comm, key & 0xff, neighbors),
                        .form = check_form_draw(key >> 8 & 0xff),
                        .root = (int)((key >> 16 & 0xff) % (uint64_t)size),
                        .degree = size > 2 ? 2 : 1};
    int blocks = size;

    if (kinds[call.kind].sends_many && kinds[call.kind].receives_many)
        blocks *= size;
    call.base = totals[(key >> 24 & 0xff) % sizes] / (int)sizeof(int) / blocks +
                (int)(key >> 32 & 1);
    for (int i = 0; i < call.degree; i++) {
        call.to[i] = (comm->rank + i + 1) % size;
        call.from[i] = (comm->rank + size - i - 1) % size;
    }
    /* only the root of a gather or scatter may be in place; otherwise all ranks must be */
    call.in_place = !neighbors && is_root(&call) && key >> 40 & 1;
    call.in = side_draw(check, &call, true);
    call.out = side_draw(check, &call, false);
    return call;
}

static bool sends_in_place(const struct call *call)
{
    return call->in_place && call->kind != SCATTER && call->kind != SCATTERV;
}

/* Return whether a block of the result contains data that this rank sends. */
static bool is_contribution(const struct call *call, int block)
{
    return sends_in_place(call) &&
           (kinds[call->kind].sends_many || peer(call, false, block) == call->comm->rank);
}

static void call_fill(struct call *call, int turn)
{
    const int rank = call->comm->rank;

    for (int i = 0; i < call->in.ints; i++)
        call->in.buf[i] = POISON;
    for (int i = 0; i < call->out.ints; i++)
        call->out.buf[i] = POISON;
    for (int b = 0; b < call->in.blocks; b++)
        for (int i = 0; i < call->in.counts[b]; i++)
            *side_at(&call->in, b, i) = value(call, turn, rank, peer(call, true, b), i);
    for (int b = 0; b < call->out.blocks; b++)
        for (int i = 0; is_contribution(call, b) && i < call->out.counts[b]; i++)
            *side_at(&call->out, b, i) = value(call, turn, rank, peer(call, false, b), i);
}

/* Start a call in its form. @in, @out, and counts are the arguments of MPI. */
static void call_start(struct call *call)
{
    struct side *i = &call->in, *o = &call->out;
    const void *in = sends_in_place(call) ? MPI_IN_PLACE : i->buf;
    void *out = call->in_place && !sends_in_place(call) ? MPI_IN_PLACE : o->buf;
    const int in_count = i->blocks ? i->counts[0] : 0, count = o->blocks ? o->counts[0] : 0;
    const MPI_Datatype none = MPI_DATATYPE_NULL; /* for arguments that MPI ignores */
    const MPI_Datatype it = sends_in_place(call) || !i->blocks ? none : i->type;
    const MPI_Datatype ot = out == MPI_IN_PLACE || !o->blocks ? none : o->type;
    MPI_Comm comm = call->comm->comm;
    MPI_Request *request = &call->request;
    enum check_form form = call->form;

    switch (call->kind) {
    case GATHER:
        CHECK_START(Gather, Igather, in, in_count, it, out, count, ot, call->root, comm);
        break;
    case GATHERV:
        CHECK_START(Gatherv, Igatherv, in, in_count, it, out, o->counts, o->displs, ot, call->root,
                    comm);
        break;
    case SCATTER:
        CHECK_START(Scatter, Iscatter, in, in_count, it, out, count, ot, call->root, comm);
        break;
    case SCATTERV:
        CHECK_START(Scatterv, Iscatterv, in, i->counts, i->displs, it, out, count, ot, call->root,
                    comm);
        break;
    case ALLGATHER:
        CHECK_START(Allgather, Iallgather, in, in_count, it, out, count, ot, comm);
        break;
    case ALLGATHERV:
        CHECK_START(Allgatherv, Iallgatherv, in, in_count, it, out, o->counts, o->displs, ot, comm);
        break;
    case ALLTOALL:
        CHECK_START(Alltoall, Ialltoall, in, in_count, it, out, count, ot, comm);
        break;
    case ALLTOALLV:
        CHECK_START(Alltoallv, Ialltoallv, in, i->counts, i->displs, it, out, o->counts, o->displs,
                    ot, comm);
        break;
    case ALLTOALLW:
        CHECK_START(Alltoallw, Ialltoallw, in, i->counts, i->bytes, i->types, out, o->counts,
                    o->bytes, o->types, comm);
        break;
    case NEIGHBOR_ALLGATHER:
        CHECK_START(Neighbor_allgather, Ineighbor_allgather, in, in_count, it, out, count, ot,
                    comm);
        break;
    case NEIGHBOR_ALLGATHERV:
        CHECK_START(Neighbor_allgatherv, Ineighbor_allgatherv, in, in_count, it, out, o->counts,
                    o->displs, ot, comm);
        break;
    case NEIGHBOR_ALLTOALL:
        CHECK_START(Neighbor_alltoall, Ineighbor_alltoall, in, in_count, it, out, count, ot, comm);
        break;
    case NEIGHBOR_ALLTOALLV:
        CHECK_START(Neighbor_alltoallv, Ineighbor_alltoallv, in, i->counts, i->displs, it, out,
                    o->counts, o->displs, ot, comm);
        break;
    default:
        CHECK_START(Neighbor_alltoallw, Ineighbor_alltoallw, in, i->counts, i->offsets, i->types,
                    out, o->counts, o->offsets, o->types, comm);
        break;
    }
}

static void call_verify(struct check *check, const struct call *call, int turn)
{
    const struct side *out = &call->out;
    const int rank = call->comm->rank;
    int wrong = 0;

    for (int b = 0; b < out->blocks && !(call->in_place && !sends_in_place(call)); b++)
        for (int i = 0; i < out->counts[b]; i++) {
            int *at = side_at(out, b, i);

            wrong += *at != value(call, turn, peer(call, false, b), rank, i);
            *at = POISON;
        }
    for (int i = 0; i < out->ints; i++)
        wrong += out->buf[i] != POISON;
    check_that(check, !wrong,
               "%s %s%s of %d ints per block, root %d, on %s of %d: %d ints are wrong",
               check_form_name(call->form), kinds[call->kind].name,
               call->in_place ? " in place" : "", call->base, call->root, call->comm->name,
               call->comm->size, wrong);
}

/* --- the test --------------------------------------------------------------------------- */

void check_blocks_in_flight(struct check *check, uint64_t key, const struct check_comm *comms,
                            size_t count, bool neighbors)
{
    const uint64_t mine = check_mix(key, (uint64_t)check->rank, 1);
    const int calls = 1 + (int)(key % MOST);
    struct call call[MOST];

    for (int i = 0; i < calls; i++) {
        const uint64_t draw = check_mix(key, (uint64_t)i, 2);

        call[i] = call_draw(check, &comms[draw % count], check_mix(draw, 0, 3), neighbors);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < calls; i++) {
            if (turn && call[i].form != CHECK_PERSISTENT)
                continue;
            if (check_mix(mine, (uint64_t)i, 3) % 16 == 0)
                check_sleep_us(mine % 200);
            call_fill(&call[i], turn);
            if (!turn)
                call_start(&call[i]);
            if (call[i].form == CHECK_PERSISTENT)
                MPI_Start(&call[i].request);
        }
        for (int i = calls - 1; i >= 0; i--) {
            if (turn && call[i].form != CHECK_PERSISTENT)
                continue;
            if (call[i].form != CHECK_BLOCKING)
                MPI_Wait(&call[i].request, MPI_STATUS_IGNORE);
            call_verify(check, &call[i], turn);
        }
    }
    for (int i = 0; i < calls; i++) {
        if (call[i].form == CHECK_PERSISTENT)
            MPI_Request_free(&call[i].request);
        side_free(&call[i].in);
        side_free(&call[i].out);
    }
}

/* A graph in which each rank sends to the next one or two ranks. */
static MPI_Comm graph_of(const struct check_comm *comm)
{
    const int size = comm->size, degree = size > 2 ? 2 : 1;
    const int weights[2] = {1, 1};
    int to[2], from[2];
    MPI_Comm graph;

    for (int i = 0; i < degree; i++) {
        to[i] = (comm->rank + i + 1) % size;
        from[i] = (comm->rank + size - i - 1) % size;
    }
    MPI_Dist_graph_create_adjacent(comm->comm, degree, from, weights, degree, to, weights,
                                   MPI_INFO_NULL, 0, &graph);
    return graph;
}

void check_blocks(struct check *check, const struct check_comm *comms, size_t count)
{
    const int rounds = check->quick ? 80 : 1000;
    MPI_Comm graph = graph_of(&comms[0]);
    const struct check_comm neighbors = check_comm_of("a graph", graph);

    /* a rank is a member of all communicators, so all ranks draw the same calls on each of them */
    for (int i = 0; i < rounds; i++)
        if (i % 4 == 0)
            check_blocks_in_flight(check, check_key(check), &neighbors, 1, true);
        else
            check_blocks_in_flight(check, check_key(check), comms, count, false);
    MPI_Comm_free(&graph);
}
