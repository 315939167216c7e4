/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_async.c - non-blocking and persistent collectives: many in flight on several communicators,
 * completed in an order that differs between ranks, together with blocking collectives.
 */
#include "check.h"
#include "check_forms.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST   24     /* collectives in flight */
#define POISON (-777) /* in elements that must stay unwritten */

/* in elements of 8 bytes: none, parts of a segment, whole segments, and more than a window */
static const int counts[] = {0, 1, 5, 29, 30, 31, 600, 3000, 100000};
#define COUNTS (sizeof counts / sizeof counts[0])

enum kind { BARRIER, BCAST, REDUCE, ALLREDUCE, ALLGATHER, REDUCE_SCATTER, KINDS };

struct call {
    const struct check_comm *comm;
    enum kind kind;
    uint64_t key;
    int root;
    int count;
    int stride; /* of a broadcast's elements; 1: contiguous */
    bool in_place;
    MPI_Datatype type;
    int64_t *in, *out;
};

static int64_t element(uint64_t key, int rank, int i)
{
    return (int64_t)(check_mix(key, (uint64_t)rank, (uint64_t)i) >> 16);
}

static bool has_result(const struct call *call)
{
    return call->kind >= ALLREDUCE || (call->kind == REDUCE && call->comm->rank == call->root);
}

/* Number of elements, with gaps, of the contribution and of the result. */
static int elements_in(const struct call *call)
{
    return call->count * call->stride * (call->kind == REDUCE_SCATTER ? call->comm->size : 1);
}

static int elements_out(const struct call *call)
{
    return call->kind == ALLGATHER ? call->count * call->comm->size : elements_in(call);
}

/* Draw a call. All ranks of @comm draw the same call; only MPI_IN_PLACE may differ. */
static struct call call_draw(const struct check *check, const struct check_comm *comm, uint64_t key)
{
    const size_t sizes = check->quick ? COUNTS - 1 : COUNTS;
    struct call call = {.comm = comm,
                        .kind = (enum kind)(key % KINDS),
                        .key = key,
                        .root = (int)((key >> 8) % (uint64_t)comm->size),
                        .count = counts[(key >> 16) % sizes],
                        .stride = key >> 24 & 1 ? 3 : 1,
                        .type = MPI_INT64_T};

    if (call.kind != BCAST)
        call.stride = 1;
    if (call.stride > 1) {
        MPI_Type_vector(call.count, 1, call.stride, MPI_INT64_T, &call.type);
        MPI_Type_commit(&call.type);
    }
    call.in_place = has_result(&call) && check_mix(key, (uint64_t)comm->rank, 5) & 1;
    call.in = check_alloc(((size_t)elements_in(&call) + 1) * sizeof *call.in);
    call.out = check_alloc(((size_t)elements_out(&call) + 1) * sizeof *call.out);
    return call;
}

static void call_free(struct call *call)
{
    free(call->in);
    free(call->out);
}

/* Write the input of one execution. @turn: number of the execution of a persistent request. */
static void call_fill(struct call *call, int turn)
{
    const int rank = call->comm->rank;

    for (int i = 0; i < elements_out(call); i++)
        call->out[i] = POISON;
    for (int i = 0; i < elements_in(call); i++) {
        const bool mine = i % call->stride == 0 && (call->kind != BCAST || rank == call->root);

        call->in[i] = mine ? element(call->key + (uint64_t)turn, rank, i) : POISON;
        if (call->in_place || call->kind == BCAST)
            call->out[i + (call->kind == ALLGATHER ? rank * call->count : 0)] = call->in[i];
    }
}

static void call_start(struct call *call, MPI_Request *request)
{
    const void *in = call->in_place ? MPI_IN_PLACE : call->in;
    MPI_Comm comm = call->comm->comm;

    switch (call->kind) {
    case BARRIER:
        MPI_Ibarrier(comm, request);
        break;
    case BCAST:
        MPI_Ibcast(call->out, call->stride > 1 ? 1 : call->count, call->type, call->root, comm,
                   request);
        break;
    case REDUCE:
        MPI_Ireduce(in, call->out, call->count, call->type, MPI_SUM, call->root, comm, request);
        break;
    case ALLREDUCE:
        MPI_Iallreduce(in, call->out, call->count, call->type, MPI_SUM, comm, request);
        break;
    case ALLGATHER:
        MPI_Iallgather(in, call->count, call->type, call->out, call->count, call->type, comm,
                       request);
        break;
    default:
        MPI_Ireduce_scatter_block(in, call->out, call->count, call->type, MPI_SUM, comm, request);
        break;
    }
    if (call->stride > 1)
        MPI_Type_free(&call->type); /* MPI keeps it as long as it needs it */
}

static int64_t expected(const struct call *call, int turn, int i)
{
    int64_t sum = 0;

    if (call->kind == BCAST)
        return i % call->stride ? POISON : element(call->key + (uint64_t)turn, call->root, i);
    if (call->kind == ALLGATHER)
        return element(call->key + (uint64_t)turn, i / call->count, i % call->count);
    if (!has_result(call))
        return POISON;
    if (call->kind == REDUCE_SCATTER)
        i += call->comm->rank * call->count;
    for (int r = 0; r < call->comm->size; r++)
        sum += element(call->key + (uint64_t)turn, r, i);
    return sum;
}

static void call_verify(struct check *check, const struct call *call, int turn)
{
    static const char *const names[KINDS] = {"barrier",   "bcast",     "reduce",
                                             "allreduce", "allgather", "reduce_scatter_block"};
    const int elements = call->kind == BARRIER          ? 0
                         : call->kind == REDUCE_SCATTER ? call->count
                                                        : elements_out(call);
    int i = 0;

    while (i < elements && call->out[i] == expected(call, turn, i))
        i++;
    check_that(check, i == elements, "%s(%d) of root %d on %s of %d: element %d is wrong",
               names[call->kind], call->count, call->root, call->comm->name, call->comm->size, i);
}

/* --- waiting ---------------------------------------------------------------------------- */

static void wait_backwards(MPI_Request *requests, int count)
{
    while (count--)
        MPI_Wait(&requests[count], MPI_STATUS_IGNORE);
}

static void wait_any(MPI_Request *requests, int count)
{
    int done;

    for (int i = 0; i < count; i++)
        MPI_Waitany(count, requests, &done, MPI_STATUS_IGNORE);
}

static void test_all(MPI_Request *requests, int count)
{
    int done = 0;

    while (!done)
        MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
}

/* Wait for all requests. Each rank draws its own way of waiting. */
static void wait_for(MPI_Request *requests, int count, uint64_t draw)
{
    switch (draw % 4) {
    case 0:
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        break;
    case 1:
        wait_backwards(requests, count);
        break;
    case 2:
        wait_any(requests, count);
        break;
    default:
        test_all(requests, count);
        break;
    }
}

/* --- non-blocking ------------------------------------------------------------------------ */

/* Run a blocking collective. It must not be mixed with the non-blocking ones in flight. */
static void blocking_between(struct check *check, const struct check_comm *comm, uint64_t key)
{
    int64_t in = element(key, comm->rank, 0), out = 0, want = 0;

    MPI_Allreduce(&in, &out, 1, MPI_INT64_T, MPI_SUM, comm->comm);
    for (int r = 0; r < comm->size; r++)
        want += element(key, r, 0);
    check_that(check, out == want, "allreduce between non-blocking collectives on %s is wrong",
               comm->name);
}

void check_calls_in_flight(struct check *check, uint64_t key, const struct check_comm *comms,
                           size_t count)
{
    const uint64_t mine = check_mix(key, (uint64_t)check->rank, 1);
    const int calls = 1 + (int)(key % MOST);
    MPI_Request requests[MOST];
    struct call call[MOST];

    for (int i = 0; i < calls; i++) {
        const uint64_t draw = check_mix(key, (uint64_t)i, 2);

        if (check_mix(mine, (uint64_t)i, 3) % 16 == 0)
            check_sleep_us(mine % 300);
        call[i] = call_draw(check, &comms[draw % count], draw >> 8);
        call_fill(&call[i], 0);
        call_start(&call[i], &requests[i]);
        if (draw >> 40 & 1 && draw >> 41 & 1)
            blocking_between(check, &comms[draw % count], draw);
    }
    wait_for(requests, calls, mine);
    for (int i = 0; i < calls; i++) {
        call_verify(check, &call[i], 0);
        call_free(&call[i]);
    }
}

/*
 * The first collective of a new communicator is a non-blocking one, which must not wait for a rank
 * that is late: rank 0 sends to the last rank only after its own call, and the last rank waits for
 * this message first. With --strict the communicator is freed while the collective is in flight.
 * Open MPI 4.1.4 crashes then if the collective runs over messages.
 */
static void on_new_communicator(struct check *check)
{
    const uint64_t key = check_key(check);
    struct check_comm comm;
    MPI_Request request;
    MPI_Comm copy;
    struct call call;
    int word = 0;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    comm = check_comm_of("a new communicator", copy);
    call = call_draw(check, &comm, key);
    call_fill(&call, 0);
    if (comm.rank == comm.size - 1 && comm.size > 1)
        MPI_Recv(&word, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    call_start(&call, &request);
    if (comm.rank == 0 && comm.size > 1)
        MPI_Send(&word, 1, MPI_INT, comm.size - 1, 9, MPI_COMM_WORLD);
    if (check->strict)
        MPI_Comm_free(&copy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!check->strict)
        MPI_Comm_free(&copy);
    call_verify(check, &call, 0);
    call_free(&call);
}

/* MPI_Comm_idup runs collectives of its own, at other times on each rank. */
static void around_idup(struct check *check, const struct check_comm *comms)
{
    const uint64_t key = check_key(check), mine = check_mix(key, (uint64_t)check->rank, 1);
    MPI_Request request;
    MPI_Comm copy;
    int done = 0;

    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    for (unsigned i = 0; i < 8; i++) {
        if (mine >> i & 1 && !done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        blocking_between(check, &comms[0], check_mix(key, i, 2));
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    blocking_between(check, &(struct check_comm){"a copy", copy, comms[0].rank, comms[0].size},
                     key);
    MPI_Comm_free(&copy);
}

void check_nonblocking(struct check *check, const struct check_comm *comms, size_t count)
{
    const int rounds = check->quick ? 15 : 120;

    /* a rank is a member of all communicators, so all ranks draw the same calls on each of them */
    for (int i = 0; i < rounds; i++) {
        check_calls_in_flight(check, check_key(check), comms, count);
        if (i % 8 == 0)
            on_new_communicator(check);
        if (i % 4 == 0)
            around_idup(check, comms);
    }
}

/* --- persistent --------------------------------------------------------------------------- */

#ifdef CHECK_INIT

#define REQUESTS 6

static void call_init(struct call *call, MPI_Request *request)
{
    const void *in = call->in_place ? MPI_IN_PLACE : call->in;
    MPI_Comm comm = call->comm->comm;

    switch (call->kind) {
    case BARRIER:
        CHECK_INIT(Barrier)(comm, MPI_INFO_NULL, request);
        break;
    case BCAST:
        CHECK_INIT(Bcast)
        (call->out, call->stride > 1 ? 1 : call->count, call->type, call->root, comm, MPI_INFO_NULL,
         request);
        break;
    case REDUCE:
        CHECK_INIT(Reduce)
        (in, call->out, call->count, call->type, MPI_SUM, call->root, comm, MPI_INFO_NULL, request);
        break;
    case ALLREDUCE:
        CHECK_INIT(Allreduce)
        (in, call->out, call->count, call->type, MPI_SUM, comm, MPI_INFO_NULL, request);
        break;
    case ALLGATHER:
        CHECK_INIT(Allgather)
        (in, call->count, call->type, call->out, call->count, call->type, comm, MPI_INFO_NULL,
         request);
        break;
    default:
        CHECK_INIT(Reduce_scatter_block)
        (in, call->out, call->count, call->type, MPI_SUM, comm, MPI_INFO_NULL, request);
        break;
    }
}

/* MPI lets each rank start its persistent requests in another order. */
static void start_from(MPI_Request *requests, int first)
{
    for (int i = 0; i < REQUESTS; i++)
        MPI_Start(&requests[(first + i) % REQUESTS]);
}

/*
 * MPI allows to free a type while a persistent request uses it, but then Open MPI 4.1.4 crashes if
 * its own collectives execute the request. So without --strict, types are freed after the requests.
 */
void check_requests_restart(struct check *check, uint64_t key, const struct check_comm *comms,
                            size_t count)
{
    const uint64_t mine = check_mix(key, (uint64_t)check->rank, 1);
    const int turns = check->quick ? 5 : 30;
    MPI_Request requests[REQUESTS];
    struct call call[REQUESTS];

    for (int i = 0; i < REQUESTS; i++) {
        const uint64_t draw = check_mix(key, (uint64_t)i, 2);

        call[i] = call_draw(check, &comms[draw % count], draw >> 8);
        call_init(&call[i], &requests[i]);
        if (call[i].stride > 1 && check->strict)
            MPI_Type_free(&call[i].type);
    }
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < REQUESTS; i++)
            call_fill(&call[i], turn);
        start_from(requests, (int)(check_mix(mine, (uint64_t)turn, 3) % REQUESTS));
        if (turn % 3 == 0)
            blocking_between(check, &comms[0], check_mix(key, (uint64_t)turn, 4));
        wait_for(requests, REQUESTS, check_mix(mine, (uint64_t)turn, 5));
        for (int i = 0; i < REQUESTS; i++)
            call_verify(check, &call[i], turn);
    }
    for (int i = 0; i < REQUESTS; i++) {
        MPI_Request_free(&requests[i]);
        if (call[i].stride > 1 && !check->strict)
            MPI_Type_free(&call[i].type);
        call_free(&call[i]);
    }
}

void check_persistent(struct check *check, const struct check_comm *comms, size_t count)
{
    const int rounds = check->quick ? 2 : 8;

    for (int round = 0; round < rounds; round++)
        check_requests_restart(check, check_key(check), comms, count);
}

#else

void check_requests_restart(struct check *check, uint64_t key, const struct check_comm *comms,
                            size_t count)
{
    (void)check;
    (void)key;
    (void)comms;
    (void)count;
}

void check_persistent(struct check *check, const struct check_comm *comms, size_t count)
{
    (void)comms;
    (void)count;
    if (check->rank == 0)
        fprintf(stderr, "check: this MPI has no persistent collectives\n");
}

#endif
