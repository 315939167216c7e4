/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_scan.c - scan, exscan and reduce-scatter(-block) in the three forms, in place or not: sums,
 * locations of minima, and a user-defined operation that is not commutative, on a type with gaps.
 */
#include "check.h"
#include "check_forms.h"

#include <stdlib.h>
#include <string.h>

#define MOST   5 /* calls in flight */
#define TURNS  2 /* executions of a persistent request */
#define POISON 0xa5

enum kind { SCAN, EXSCAN, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, KINDS };

static const char *const kind_names[KINDS] = {"scan", "exscan", "reduce_scatter",
                                              "reduce_scatter_block"};

/* --- operations ------------------------------------------------------------------------- */

/* The function x -> factor * x + plus, modulo 2^32. */
struct affine {
    uint32_t before, factor, plus, after; /* the type leaves out the first and last word */
};

struct place {
    double value;
    int index;
};

/* MPI_User_function: apply the functions of @in, which come from the lower ranks, first. */
static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    struct affine *first = in, *second = inout;

    (void)type;
    for (int i = 0; i < *count; i++) {
        second[i].plus += second[i].factor * first[i].plus;
        second[i].factor *= first[i].factor;
    }
}

static void sum_draw(void *at, uint64_t draw)
{
    *(int64_t *)at = (int64_t)(draw >> 16);
}

static void sum_fold(void *acc, const void *in)
{
    *(int64_t *)acc += *(const int64_t *)in;
}

static void place_draw(void *at, uint64_t draw)
{
    *(struct place *)at = (struct place){(double)(draw % 4), (int)(draw >> 8 & 0xffff)};
}

static void place_fold(void *acc, const void *in)
{
    struct place *a = acc;
    const struct place *b = in;

    if (b->value < a->value || (b->value == a->value && b->index < a->index))
        *a = *b;
}

static void affine_draw(void *at, uint64_t draw)
{
    struct affine *a = at;

    a->factor = (uint32_t)draw | 1;
    a->plus = (uint32_t)(draw >> 32);
}

static void affine_fold(void *acc, const void *in)
{
    struct affine next = *(const struct affine *)in;
    int one = 1;

    compose(acc, &next, &one, NULL);
    ((struct affine *)acc)->factor = next.factor;
    ((struct affine *)acc)->plus = next.plus;
}

static const struct arithmetic {
    const char *name;
    size_t bytes; /* of an element in memory */
    size_t used;  /* of these, from the first to the last byte of data */
    void (*draw)(void *at, uint64_t draw);
    void (*fold)(void *acc, const void *in); /* @in comes from the higher rank */
} arithmetics[] = {
    {"sums", sizeof(int64_t), sizeof(int64_t), sum_draw, sum_fold},
    {"minima", sizeof(struct place), sizeof(double) + sizeof(int), place_draw, place_fold},
    {"functions", sizeof(struct affine), sizeof(struct affine), affine_draw, affine_fold},
};
#define ARITHMETICS (sizeof arithmetics / sizeof arithmetics[0])

/* The types and operations of `arithmetics`. */
struct handles {
    MPI_Datatype type[ARITHMETICS];
    MPI_Op op[ARITHMETICS];
};

static struct handles handles_make(void)
{
    struct handles handles = {{MPI_INT64_T, MPI_DOUBLE_INT, MPI_DATATYPE_NULL},
                              {MPI_SUM, MPI_MINLOC, MPI_OP_NULL}};
    const int two = 2;
    const MPI_Aint at = offsetof(struct affine, factor);
    MPI_Datatype type;

    MPI_Type_create_hindexed(1, &two, &at, MPI_UINT32_T, &type);
    MPI_Type_create_resized(type, -4, sizeof(struct affine), &handles.type[2]);
    MPI_Type_commit(&handles.type[2]);
    MPI_Type_free(&type);
    MPI_Op_create(compose, 0, &handles.op[2]);
    return handles;
}

static void handles_free(struct handles *handles)
{
    MPI_Type_free(&handles->type[2]);
    MPI_Op_free(&handles->op[2]);
}

/* --- a call ----------------------------------------------------------------------------- */

struct call {
    const struct check_comm *comm;
    enum kind kind;
    enum check_form form;
    const struct arithmetic *of;
    MPI_Datatype type;
    MPI_Op op;
    uint64_t key;
    bool in_place;
    int *counts;     /* of each rank's part of a reduce-scatter */
    int first, part; /* elements before this rank's part, and in it */
    int all;         /* elements of the contribution */
    uint8_t *in, *out;
    MPI_Request request;
};

/* Sizes in bytes: around the payload of a segment, and where fabemu changes its algorithm. */
static const int totals[] = {0, 16, 240, 1024, 4096, 16384, 65536};
#define TOTALS (sizeof totals / sizeof totals[0])

static struct call call_draw(const struct check *check, const struct check_comm *comm,
                             const struct handles *handles, uint64_t key)
{
    const size_t which = (key >> 8) % ARITHMETICS, sizes = check->quick ? TOTALS - 1 : TOTALS;
    struct call call = {.comm = comm,
                        .kind = (enum kind)(key % KINDS),
                        .form = check_form_draw(key >> 16),
                        .of = &arithmetics[which],
                        .type = handles->type[which],
                        .op = handles->op[which],
                        .key = key,
                        .in_place = key >> 24 & 1};
    const int base = totals[(key >> 32) % sizes] / (int)call.of->bytes / comm->size +
                     (int)((key >> 40) % 2);

    call.counts = check_alloc((size_t)comm->size * sizeof(int));
    for (int r = 0; r < comm->size; r++) {
        call.counts[r] = call.kind == REDUCE_SCATTER
                             ? (int)(check_mix(key, (uint64_t)r, 1) % ((uint64_t)base * 2 + 1))
                             : base;
        call.first += r < comm->rank ? call.counts[r] : 0;
        call.all += call.counts[r];
    }
    call.part = call.counts[comm->rank];
    if (call.kind == SCAN || call.kind == EXSCAN) {
        call.first = 0;
        call.all = base;
    }
    call.in = check_alloc(((size_t)call.all + 1) * call.of->bytes);
    call.out = check_alloc(((size_t)call.all + 1) * call.of->bytes);
    return call;
}

static void contribution(const struct call *call, int turn, int rank, int i, void *at)
{
    call->of->draw(at, check_mix(call->key + (uint64_t)turn, (uint64_t)rank, (uint64_t)i));
}

static void call_fill(struct call *call, int turn)
{
    const size_t bytes = call->of->bytes;

    memset(call->in, POISON, ((size_t)call->all + 1) * bytes);
    memset(call->out, POISON, ((size_t)call->all + 1) * bytes);
    for (int i = 0; i < call->all; i++)
        contribution(call, turn, call->comm->rank, i,
                     (call->in_place ? call->out : call->in) + (size_t)i * bytes);
}

static void call_start(struct call *call)
{
    const void *in = call->in_place ? MPI_IN_PLACE : call->in;
    MPI_Comm comm = call->comm->comm;
    MPI_Request *request = &call->request;
    enum check_form form = call->form;

    switch (call->kind) {
    case SCAN:
        CHECK_START(Scan, Iscan, in, call->out, call->all, call->type, call->op, comm);
        break;
    case EXSCAN:
        CHECK_START(Exscan, Iexscan, in, call->out, call->all, call->type, call->op, comm);
        break;
    case REDUCE_SCATTER:
        CHECK_START(Reduce_scatter, Ireduce_scatter, in, call->out, call->counts, call->type,
                    call->op, comm);
        break;
    default:
        CHECK_START(Reduce_scatter_block, Ireduce_scatter_block, in, call->out, call->part,
                    call->type, call->op, comm);
        break;
    }
}

/* Return whether element @i of the result is right, and its gaps are unchanged. */
static bool is_right(const struct call *call, int turn, int i)
{
    const int ranks = call->kind == SCAN     ? call->comm->rank + 1
                      : call->kind == EXSCAN ? call->comm->rank
                                             : call->comm->size;
    _Alignas(16) uint8_t want[32], next[32];

    memset(want, POISON, sizeof want);
    memset(next, POISON, sizeof next);
    contribution(call, turn, 0, call->first + i, want);
    for (int r = 1; r < ranks; r++) {
        contribution(call, turn, r, call->first + i, next);
        call->of->fold(want, next);
    }
    return memcmp(want, call->out + (size_t)i * call->of->bytes, call->of->used) == 0;
}

static void call_verify(struct check *check, const struct call *call, int turn)
{
    int i = 0;

    if (call->kind == EXSCAN && call->comm->rank == 0)
        return; /* its result is undefined */
    while (i < call->part && is_right(call, turn, i))
        i++;
    check_that(check, i == call->part && call->out[(size_t)call->all * call->of->bytes] == POISON,
               "%s %s%s of %d %s on %s of %d: element %d is wrong", check_form_name(call->form),
               kind_names[call->kind], call->in_place ? " in place" : "", call->all, call->of->name,
               call->comm->name, call->comm->size, i);
}

static void call_free(struct call *call)
{
    if (call->form == CHECK_PERSISTENT)
        MPI_Request_free(&call->request);
    free(call->counts);
    free(call->in);
    free(call->out);
}

/* --- the test --------------------------------------------------------------------------- */

static bool runs_in(const struct call *call, int turn)
{
    return !turn || call->form == CHECK_PERSISTENT;
}

static void in_flight(struct check *check, const struct check_comm *comms, size_t count,
                      const struct handles *handles)
{
    const uint64_t key = check_key(check), mine = check_mix(key, (uint64_t)check->rank, 1);
    const int calls = 1 + (int)(key % MOST);
    struct call call[MOST];

    for (int i = 0; i < calls; i++) {
        const uint64_t draw = check_mix(key, (uint64_t)i, 2);

        call[i] = call_draw(check, &comms[draw % count], handles, check_mix(draw, 0, 3));
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < calls; i++) {
            if (!runs_in(&call[i], turn))
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
            if (!runs_in(&call[i], turn))
                continue;
            if (call[i].form != CHECK_BLOCKING)
                MPI_Wait(&call[i].request, MPI_STATUS_IGNORE);
            call_verify(check, &call[i], turn);
        }
    }
    for (int i = 0; i < calls; i++)
        call_free(&call[i]);
}

void check_scans(struct check *check, const struct check_comm *comms, size_t count)
{
    const int rounds = check->quick ? 60 : 700;
    struct handles handles = handles_make();

    /* a rank is a member of all communicators, so all ranks draw the same calls on each of them */
    for (int i = 0; i < rounds; i++)
        in_flight(check, comms, count, &handles);
    handles_free(&handles);
}
