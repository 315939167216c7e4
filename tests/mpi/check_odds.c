/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_odds.c - operations that a fabric never or rarely runs in its switches. Their results must
 * be right, too.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

/* x -> factor * x + plus, modulo 2^32; composing two is not commutative. */
struct affine {
    uint32_t factor, plus;
};

static struct affine affine_draw(uint64_t key, int rank)
{
    const uint64_t h = check_mix(key, (uint64_t)rank, 0);

    return (struct affine){(uint32_t)h | 1, (uint32_t)(h >> 32)};
}

static struct affine affine_after(struct affine second, struct affine first)
{
    return (struct affine){second.factor * first.factor, second.factor * first.plus + second.plus};
}

/* MPI_User_function: @in comes from the lower ranks. */
static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    struct affine *a = in, *b = inout;

    (void)type;
    for (int i = 0; i < *count; i++)
        b[i] = affine_after(b[i], a[i]);
}

static void add_mod(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *a = in, *b = inout;

    (void)type;
    for (int i = 0; i < *count; i++)
        b[i] = (a[i] + b[i]) % 1009;
}

/* A user's operation on a user's type, in rank order. */
static void odd_user_type(struct check *check, const struct check_comm *comm, int root)
{
    const uint64_t key = check_key(check);
    struct affine mine = affine_draw(key, comm->rank), all = {0, 0}, at_root = {0, 0};
    struct affine want = affine_draw(key, 0);
    MPI_Datatype type;
    MPI_Op op;

    for (int r = 1; r < comm->size; r++)
        want = affine_after(affine_draw(key, r), want);
    MPI_Type_contiguous(2, MPI_UINT32_T, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose, 0, &op);
    MPI_Allreduce(&mine, &all, 1, type, op, comm->comm);
    MPI_Reduce(&mine, &at_root, 1, type, op, root, comm->comm);
    check_that(check, all.factor == want.factor && all.plus == want.plus,
               "allreduce(user operation, user type) on %s of %d is wrong", comm->name, comm->size);
    check_that(check,
               comm->rank != root || (at_root.factor == want.factor && at_root.plus == want.plus),
               "reduce(user operation, user type) to %d on %s of %d is wrong", root, comm->name,
               comm->size);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

/* A user's operation on a predefined type, in place. */
static void odd_user_op(struct check *check, const struct check_comm *comm)
{
    const uint64_t key = check_key(check);
    int value = (int)(check_mix(key, (uint64_t)comm->rank, 0) % 1009), want = 0;
    MPI_Op op;

    for (int r = 0; r < comm->size; r++)
        want = (want + (int)(check_mix(key, (uint64_t)r, 0) % 1009)) % 1009;
    MPI_Op_create(add_mod, 1, &op);
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, op, comm->comm);
    check_that(check, value == want, "allreduce(user operation, MPI_INT) on %s of %d is wrong",
               comm->name, comm->size);
    MPI_Op_free(&op);
}

static void odd_empty(struct check *check, const struct check_comm *comm)
{
    int guard = 42;

    MPI_Bcast(&guard, 0, MPI_INT, 0, comm->comm);
    MPI_Bcast(NULL, 0, MPI_DOUBLE, comm->size - 1, comm->comm);
    MPI_Allreduce(MPI_IN_PLACE, &guard, 0, MPI_INT, MPI_SUM, comm->comm);
    check_that(check, guard == 42, "a collective of no elements wrote some on %s", comm->name);
}

/*
 * MPI lets one rank pass no elements, and another one elements of no size. Open MPI ignores the
 * first call. The second one must not affect the next communicator with the same number.
 */
static void odd_empty_type(struct check *check)
{
    MPI_Datatype nothing;
    MPI_Request request;
    MPI_Comm comm;
    int sum = 0;

    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Bcast(&sum, check->rank == 0, check->rank == 0 ? nothing : MPI_INT, 0, comm);
        MPI_Ibcast(&sum, check->rank == 0, check->rank == 0 ? nothing : MPI_INT, 0, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Allreduce(&check->rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    check_that(check, sum == check->size * (check->size - 1) / 2,
               "allreduce after empty broadcasts is wrong");
    MPI_Comm_free(&comm);
    MPI_Type_free(&nothing);
}

/* A communicator of one. */
static void odd_alone(struct check *check)
{
    int in = 7, out = 0;

    MPI_Barrier(MPI_COMM_SELF);
    MPI_Bcast(&in, 1, MPI_INT, 0, MPI_COMM_SELF);
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    MPI_Reduce(&in, &out, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_SELF);
    check_that(check, in == 7 && out == 7, "collectives on MPI_COMM_SELF are wrong");
}

/* Collectives that fabrics do not accelerate, between others that they do. */
static void odd_others(struct check *check, const struct check_comm *comm)
{
    int *from = check_alloc((size_t)comm->size * sizeof(int)),
        *to = check_alloc((size_t)comm->size * sizeof(int));
    int scan = 0, block = 0, gathered = 0;
    bool right = true;

    for (int r = 0; r < comm->size; r++)
        from[r] = comm->rank * 1000 + r;
    MPI_Barrier(comm->comm);
    MPI_Alltoall(from, 1, MPI_INT, to, 1, MPI_INT, comm->comm);
    for (int r = 0; r < comm->size; r++)
        right = right && to[r] == r * 1000 + comm->rank;
    MPI_Scan(&comm->rank, &scan, 1, MPI_INT, MPI_SUM, comm->comm);
    right = right && scan == comm->rank * (comm->rank + 1) / 2;
    MPI_Reduce_scatter_block(from, &block, 1, MPI_INT, MPI_MAX, comm->comm);
    right = right && block == (comm->size - 1) * 1000 + comm->rank;
    MPI_Gather(&comm->rank, 1, MPI_INT, to, 1, MPI_INT, 0, comm->comm);
    for (int r = 0; comm->rank == 0 && r < comm->size; r++)
        gathered += to[r] == r;
    right = right && (comm->rank != 0 || gathered == comm->size);
    check_that(check, right, "alltoall, scan, reduce_scatter_block or gather on %s of %d is wrong",
               comm->name, comm->size);
    free(to);
    free(from);
}

/* Does @in hold the left neighbour's data? */
static bool is_from_left(const struct check_comm *comm, const unsigned char *in, size_t bytes,
                         uint64_t key)
{
    const int left = (comm->rank + comm->size - 1) % comm->size;
    bool right = true;

    for (size_t i = 0; i < bytes; i++)
        right = right && in[i] == (unsigned char)check_mix(key, (uint64_t)left, i);
    return right;
}

/* Send one @type at @buf to the right, receive @bytes from the left, with persistent requests. */
static void send_persistent(const struct check_comm *comm, const void *buf, MPI_Datatype type,
                            void *in, int bytes)
{
    MPI_Request request;

    MPI_Send_init(buf, 1, type, (comm->rank + 1) % comm->size, 3, comm->comm, &request);
    MPI_Start(&request);
    MPI_Recv(in, bytes, MPI_BYTE, (comm->rank + comm->size - 1) % comm->size, 3, comm->comm,
             MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

/* The same in a collective. */
static void send_alltoallw(const struct check_comm *comm, const void *buf, MPI_Datatype type,
                           void *in, int bytes)
{
    const size_t n = (size_t)comm->size;
    int *counts = calloc(3 * n, sizeof(int)), *zero = counts + 2 * n;
    MPI_Datatype *types = check_alloc(2 * n * sizeof *types);

    for (size_t r = 0; r < n; r++) {
        types[r] = type;
        types[n + r] = MPI_BYTE;
    }
    counts[(comm->rank + 1) % comm->size] = 1;
    counts[n + (size_t)((comm->rank + comm->size - 1) % comm->size)] = bytes;
    MPI_Alltoallw(buf, counts, zero, types, in, counts + n, zero, types + n, comm->comm);
    free(counts);
    free(types);
}

/* Data with a lower bound other than 0, and data named by absolute addresses. */
static void odd_lower_bound(struct check *check, const struct check_comm *comm, int bytes)
{
    const uint64_t key = check_key(check);
    unsigned char *out = check_alloc((size_t)bytes + 24), *in = check_alloc((size_t)bytes);
    MPI_Aint begins[2] = {24};

    memset(out, 0xee, 24);
    for (int i = 0; i < bytes; i++)
        out[24 + i] = (unsigned char)check_mix(key, (uint64_t)comm->rank, (uint64_t)i);
    MPI_Get_address(out + 24, &begins[1]);
    for (int bottom = 0; bottom < 2; bottom++) {
        const void *buf = bottom ? MPI_BOTTOM : out;
        MPI_Datatype type;

        MPI_Type_create_hindexed(1, &bytes, &begins[bottom], MPI_BYTE, &type);
        MPI_Type_commit(&type);
        memset(in, 0, (size_t)bytes);
        send_persistent(comm, buf, type, in, bytes);
        check_that(check, is_from_left(comm, in, (size_t)bytes, key),
                   "a persistent send of %d bytes from %s is wrong on %s of %d", bytes,
                   bottom ? "MPI_BOTTOM" : "lower bound 24", comm->name, comm->size);
        memset(in, 0, (size_t)bytes);
        send_alltoallw(comm, buf, type, in, bytes);
        check_that(check, is_from_left(comm, in, (size_t)bytes, key),
                   "alltoallw of %d bytes from %s is wrong on %s of %d", bytes,
                   bottom ? "MPI_BOTTOM" : "lower bound 24", comm->name, comm->size);
        MPI_Type_free(&type);
    }
    free(out);
    free(in);
}

/* Even ranks in one group, odd ones in the other. */
static void odd_inter(struct check *check)
{
    const int side = check->rank & 1;
    const int there = side ? (check->size + 1) / 2 : check->size / 2;
    int sum = -1, word = side ? -1 : 4711;
    MPI_Comm half, inter;

    if (check->size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, side, check->rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 17, &inter);
    MPI_Barrier(inter);
    MPI_Allreduce(&check->rank, &sum, 1, MPI_INT, MPI_SUM, inter); /* the remote group's ranks */
    check_that(check, sum == there * (there - 1) + (side ? 0 : there),
               "allreduce on an intercommunicator is wrong: %d", sum);
    MPI_Bcast(&word, 1, MPI_INT, side ? 0 : check->rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    check_that(check, word == 4711, "bcast on an intercommunicator is wrong");
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* Communicators are created and freed; leftovers of one must not affect the next. */
static void odd_churn(struct check *check)
{
    const int times = check->quick ? 10 : 60;

    for (int i = 0; i < times; i++) {
        int sum = 0;
        MPI_Comm comm;
        struct check_comm c;

        MPI_Comm_split(MPI_COMM_WORLD, (check->rank >> (i & 3)) & 1, -check->rank, &comm);
        c = check_comm_of("a passing one", comm);
        MPI_Allreduce(&c.rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        check_that(check, sum == c.size * (c.size - 1) / 2,
                   "allreduce on communicator number %d is wrong", i);
        if (i & 1)
            MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
}

void check_odds(struct check *check, const struct check_comm *comms, size_t count)
{
    for (size_t c = 0; c < count; c++) {
        check_epoch(check);
        for (int root = 0; root < comms[c].size; root++)
            odd_user_type(check, &comms[c], root);
        odd_user_op(check, &comms[c]);
        odd_empty(check, &comms[c]);
        odd_others(check, &comms[c]);
        odd_lower_bound(check, &comms[c], 100);
        odd_lower_bound(check, &comms[c], 50000);
    }
    odd_empty_type(check);
    odd_alone(check);
    odd_inter(check);
    odd_churn(check);
}
