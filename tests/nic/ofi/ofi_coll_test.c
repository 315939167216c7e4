/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_coll_test.c - collectives of libfabric: sets of addresses, joining, all collectives, errors.
 *
 * Needs a fabric of four nodes: `fabemu run -- build/tests/…`. All cases run in a team of four
 * processes. A member that finds an error prints its line and exits, which fails the case. With the
 * argument `death`, and `fabemu run --keep-going`, members kill themselves.
 */
#include <complex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define MEMBERS    4u
#define TEAM_S     60u /* a member that takes longer is killed */
#define NO_CONTEXT ((void *)1)
#define ADDR_MC    ((fi_addr_t)1 << 62 | 1)

#define must(cond)                                                     \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #cond); \
            _exit(1);                                                  \
        }                                                              \
    } while (0)

/* In memory of all members. */
struct team {
    pthread_barrier_t barrier; /* of the processes, not of the fabric */
    bool rogue;
    char name[MEMBERS][OFI_FIXTURE_ADDR_BYTES];
};

struct member {
    struct team *team;
    unsigned rank;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_cntr *cntr;
    struct fid_ep *ep;
    struct fid_av_set *all; /* a set of all members */
};

/* --- a team ------------------------------------------------------------------------- */

static void meet(struct member *me)
{
    pthread_barrier_wait(&me->team->barrier);
}

static struct fid_av_set *set_of_range(struct member *me, unsigned first, unsigned last,
                                       unsigned stride)
{
    struct fi_av_set_attr attr = {.start_addr = first, .end_addr = last, .stride = stride};
    struct fid_av_set *set;

    must(fi_av_set(me->av, &attr, &set, NULL) == 0);
    return set;
}

static void member_open(struct member *me, uint64_t bind_flags)
{
    struct fi_info *hints = ofi_fixture_hints(FI_MSG | FI_TAGGED | FI_COLLECTIVE);
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    size_t bytes = OFI_FIXTURE_ADDR_BYTES;

    must(ofi_fixture_info(hints, &me->info) == 0);
    fi_freeinfo(hints);
    must(fi_fabric(me->info->fabric_attr, &me->fabric, NULL) == 0);
    must(fi_domain(me->fabric, me->info, &me->domain, NULL) == 0);
    must(fi_eq_open(me->fabric, &(struct fi_eq_attr){0}, &me->eq, NULL) == 0);
    must(fi_av_open(me->domain, &av, &me->av, NULL) == 0);
    must(fi_cq_open(me->domain, &cq, &me->cq, NULL) == 0);
    must(fi_cntr_open(me->domain, &cntr, &me->cntr, NULL) == 0);
    must(fi_endpoint(me->domain, me->info, &me->ep, NULL) == 0);
    must(fi_ep_bind(me->ep, &me->eq->fid, 0) == 0);
    must(fi_ep_bind(me->ep, &me->av->fid, 0) == 0);
    must(fi_ep_bind(me->ep, &me->cq->fid, FI_TRANSMIT | FI_RECV | bind_flags) == 0);
    must(fi_ep_bind(me->ep, &me->cntr->fid, FI_WRITE) == 0);
    must(fi_enable(me->ep) == 0);
    must(fi_getname(&me->ep->fid, me->team->name[me->rank], &bytes) == 0);
    meet(me);
    must(fi_av_insert(me->av, me->team->name, MEMBERS, NULL, 0, NULL) == MEMBERS);
    me->all = set_of_range(me, 0, MEMBERS - 1, 1);
}

static void member_close(struct member *me)
{
    must(fi_close(&me->all->fid) == 0);
    must(fi_close(&me->ep->fid) == 0);
    must(fi_close(&me->cntr->fid) == 0);
    must(fi_close(&me->cq->fid) == 0);
    must(fi_close(&me->av->fid) == 0);
    must(fi_close(&me->eq->fid) == 0);
    must(fi_close(&me->domain->fid) == 0);
    must(fi_close(&me->fabric->fid) == 0);
    fi_freeinfo(me->info);
}

#define JOIN_QUEUE    1 /* OFI_JOIN_QUEUE */
#define JOIN_KIND     ((uint64_t)3 << 62)
#define JOIN_WITHDRAW ((uint64_t)1 << 62)
#define JOIN_GROUP    ((uint64_t)2 << 62)

/* An address of this provider. */
struct own_addr {
    uint32_t node;
    uint16_t queue[2];
    uint64_t fabric, incarnation;
};

/* An endpoint whose queue for tagged messages is the one for the messages of join.c. */
static void rogue_open(struct member *me)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_ALL);
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct own_addr own = {.node = UINT32_MAX, .queue = {300, JOIN_QUEUE}};
    size_t bytes = OFI_FIXTURE_ADDR_BYTES;

    must(ofi_fixture_info(hints, &me->info) == 0);
    fi_freeinfo(hints);
    must(fi_fabric(me->info->fabric_attr, &me->fabric, NULL) == 0);
    must(fi_domain(me->fabric, me->info, &me->domain, NULL) == 0);
    must(fi_av_open(me->domain, &av, &me->av, NULL) == 0);
    must(fi_cq_open(me->domain, &cq, &me->cq, NULL) == 0);
    must(fi_endpoint(me->domain, me->info, &me->ep, NULL) == 0);
    must(fi_setname(&me->ep->fid, &own, sizeof own) == 0);
    must(fi_ep_bind(me->ep, &me->av->fid, 0) == 0);
    must(fi_ep_bind(me->ep, &me->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    must(fi_enable(me->ep) == 0);
    must(fi_getname(&me->ep->fid, me->team->name[me->rank], &bytes) == 0);
    meet(me);
}

static void rogue_close(struct member *me)
{
    must(fi_close(&me->ep->fid) == 0 && fi_close(&me->cq->fid) == 0);
    must(fi_close(&me->av->fid) == 0 && fi_close(&me->domain->fid) == 0);
    must(fi_close(&me->fabric->fid) == 0);
    fi_freeinfo(me->info);
}

typedef void member_fn(struct member *me);

static void member_run(struct team *team, unsigned rank, uint64_t bind_flags, member_fn *run)
{
    struct member me = {.team = team, .rank = rank};

    bool rogue = team->rogue && rank == 0;

    alarm(TEAM_S);
    if (rogue)
        rogue_open(&me);
    else
        member_open(&me, bind_flags);
    run(&me);
    if (rogue)
        rogue_close(&me);
    else
        member_close(&me);
    _exit(0);
}

/*
 * Run a team. @victim: the member that kills itself; MEMBERS: none. @rogue: member 0 is opened by
 * rogue_open().
 */
static void team_run_plan(member_fn *run, uint64_t bind_flags, unsigned victim, bool rogue)
{
    struct team *team =
        mmap(NULL, sizeof *team, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;
    pid_t pid[MEMBERS];

    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&team->barrier, &attr, MEMBERS);
    team->rogue = rogue;
    fflush(NULL);
    for (unsigned i = 0; i < MEMBERS; i++) {
        pid[i] = fork();
        CU_ASSERT_TRUE_FATAL(pid[i] >= 0);
        if (pid[i] == 0)
            member_run(team, i, bind_flags, run);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        int status;

        CU_ASSERT_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
        CU_ASSERT_TRUE(i == victim ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                   : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    pthread_barrierattr_destroy(&attr);
    munmap(team, sizeof *team);
}

static void team_run_with(member_fn *run, uint64_t bind_flags, unsigned victim)
{
    team_run_plan(run, bind_flags, victim, false);
}

static void team_run(member_fn *run)
{
    team_run_with(run, 0, MEMBERS);
}

/* --- joining ------------------------------------------------------------------------ */

static struct fid_mc *join_begin(struct member *me, struct fid_av_set *set, void *context)
{
    struct fid_mc *mc = NULL;
    fi_addr_t addr;

    must(fi_av_set_addr(set, &addr) == 0);
    must(fi_join_collective(me->ep, addr, set, 0, &mc, context) == 0);
    return mc;
}

/* Wait for an event. Returns its group; NULL: it is an error, which is copied to *error. */
static struct fid *join_event(struct member *me, struct fi_eq_err_entry *error, void **context)
{
    struct fi_eq_entry entry = {0};
    uint32_t code = 0;
    ssize_t got;

    while ((got = fi_eq_read(me->eq, &code, &entry, sizeof entry, 0)) == -FI_EAGAIN)
        ;
    if (got == -FI_EAVAIL) {
        must(error != NULL);
        *error = (struct fi_eq_err_entry){0};
        must(fi_eq_readerr(me->eq, error, 0) == sizeof *error);
        return NULL;
    }
    must(got == sizeof entry && code == FI_JOIN_COMPLETE);
    if (context)
        *context = entry.context;
    return entry.fid;
}

static struct fid_mc *join(struct member *me, struct fid_av_set *set)
{
    struct fid_mc *mc = join_begin(me, set, me);
    void *context = NULL;

    must(join_event(me, NULL, &context) == &mc->fid && context == me);
    return mc;
}

/* Wait for a successful completion entry. Returns its context. */
static void *entry_wait(struct member *me)
{
    struct fi_cq_tagged_entry entry = {0};
    ssize_t got = ofi_fixture_entry_wait(me->cq, &entry, NULL);

    must(got == 1 && entry.flags == FI_COLLECTIVE);
    return entry.op_context;
}

static struct fi_cq_err_entry error_wait(struct member *me)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    must(ofi_fixture_entry_wait(me->cq, &entry, NULL) == -FI_EAVAIL);
    must(fi_cq_readerr(me->cq, &error, 0) == 1);
    return error;
}

static void barrier(struct member *me, struct fid_mc *mc)
{
    must(fi_barrier(me->ep, fi_mc_addr(mc), mc) == 0);
    must(entry_wait(me) == mc);
}

/* --- sets --------------------------------------------------------------------------- */

/* Compare a set with the addresses in @want, by means of its difference from each of them. */
static bool set_is(struct member *me, struct fid_av_set *set, const char *want)
{
    bool same = true;

    for (unsigned i = 0; i < MEMBERS; i++) {
        bool has = fi_av_set_remove(set, i) == 0;

        same = same && has == (strchr(want, (int)('0' + i)) != NULL);
        if (has)
            must(fi_av_set_insert(set, i) == 0);
    }
    (void)me;
    return same;
}

static struct fid_av_set *set_with(struct member *me, size_t count, fi_addr_t first, fi_addr_t last,
                                   uint64_t stride, uint64_t flags, int want)
{
    struct fi_av_set_attr attr = {
        .count = count, .start_addr = first, .end_addr = last, .stride = stride, .flags = flags};
    struct fid_av_set *set = NULL;

    must(fi_av_set(me->av, &attr, &set, NULL) == want);
    return set;
}

static void check_sets(struct member *me)
{
    const fi_addr_t none = FI_ADDR_NOTAVAIL;
    struct fid_av_set *even = set_with(me, 0, 0, 3, 2, 0, 0);
    struct fid_av_set *low = set_with(me, 2, 0, 1, 1, FI_BARRIER_SET, 0);
    struct fid_av_set *empty = set_with(me, 0, none, none, 0, 0, 0);
    struct fid_av_set *all = set_with(me, 0, none, none, 0, FI_UNIVERSE, 0);
    struct fi_av_set_attr keyed = {.comm_key_size = 1, .comm_key = (uint8_t *)"k"};
    struct fid_av_set *none_set;

    must(set_is(me, even, "02") && set_is(me, low, "01") && set_is(me, empty, ""));
    must(set_is(me, all, "0123"));
    must(fi_av_set_union(empty, even) == 0 && set_is(me, empty, "02"));
    must(fi_av_set_union(empty, low) == 0 && set_is(me, empty, "012"));
    must(fi_av_set_intersect(empty, low) == 0 && set_is(me, empty, "01"));
    must(fi_av_set_diff(all, even) == 0 && set_is(me, all, "13"));
    must(fi_av_set_diff(all, all) == 0 && set_is(me, all, ""));
    must(fi_av_set_insert(even, 2) == -FI_EINVAL && fi_av_set_insert(even, 4) == -FI_EINVAL);
    must(fi_av_set_remove(even, 1) == -FI_EINVAL);
    set_with(me, 0, 0, 4, 1, 0, -FI_EINVAL);
    set_with(me, 0, 2, 1, 1, 0, -FI_EINVAL);
    set_with(me, 0, 0, 3, 0, 0, -FI_EINVAL);
    set_with(me, 3, 0, 3, 1, 0, -FI_EINVAL);
    set_with(me, 0, none, none, 0, FI_MORE, -FI_EBADFLAGS);
    must(fi_av_set(me->av, &keyed, &none_set, NULL) == -FI_ENOSYS);
    must(fi_close(&me->av->fid) == -FI_EBUSY);
    must(fi_close(&even->fid) == 0 && fi_close(&low->fid) == 0);
    must(fi_close(&empty->fid) == 0 && fi_close(&all->fid) == 0);
}

static void set__combines_addresses(void)
{
    team_run(check_sets);
}

/* --- fi_query_collective ------------------------------------------------------------ */

static int query(struct member *me, enum fi_collective_op coll, enum fi_datatype type,
                 enum fi_op op)
{
    struct fi_collective_attr attr = {.op = op, .datatype = type};
    int err = fi_query_collective(me->domain, coll, &attr, 0);

    must(err || coll == FI_BARRIER ||
         (attr.datatype_attr.size && attr.datatype_attr.count > 1000000));
    must(err || attr.max_members >= MEMBERS);
    return err;
}

/* What fi_query_collective() says about a reduction must be what fi_allreduce() does. */
static void check_query(struct member *me)
{
    struct fi_collective_attr attr = {.op = FI_NOOP, .datatype = FI_UINT64, .mode = 1};
    struct fid_mc *mc = join(me, me->all);
    char in[64] = {0}, out[64];

    for (unsigned type = FI_INT8; type <= FI_LONG_DOUBLE_COMPLEX; type++)
        for (unsigned op = FI_MIN; op <= FI_MSWAP; op++) {
            int err = query(me, FI_ALLREDUCE, type, op);

            must(err == 0 || err == -FI_EOPNOTSUPP);
            must(query(me, FI_REDUCE, type, op) == err);
            must(query(me, FI_REDUCE_SCATTER, type, op) == err);
            must(fi_allreduce(me->ep, in, 1, NULL, out, NULL, fi_mc_addr(mc), type, op, 0, NULL) ==
                 err);
            if (!err)
                must(entry_wait(me) == NULL);
        }
    must(query(me, FI_ALLREDUCE, FI_UINT64, FI_SUM) == 0);
    must(query(me, FI_ALLREDUCE, FI_DOUBLE_COMPLEX, FI_PROD) == 0);
    must(query(me, FI_ALLREDUCE, FI_DOUBLE, FI_BOR) == -FI_EOPNOTSUPP);
    must(query(me, FI_ALLREDUCE, FI_FLOAT_COMPLEX, FI_MIN) == -FI_EOPNOTSUPP);
    must(query(me, FI_ALLREDUCE, FI_UINT64, FI_NOOP) == -FI_EOPNOTSUPP);
    must(query(me, FI_BARRIER, FI_VOID, FI_NOOP) == 0);
    must(query(me, FI_ALLTOALL, FI_INT128, FI_NOOP) == 0);
    must(query(me, FI_GATHER, FI_VOID, FI_NOOP) == -FI_EOPNOTSUPP);
    must(query(me, FI_SCATTER, FI_UINT8, FI_SUM) == -FI_EOPNOTSUPP);
    must(query(me, FI_GATHER + 1, FI_UINT8, FI_SUM) == -FI_EOPNOTSUPP);
    must(fi_query_collective(me->domain, FI_GATHER, &attr, 0) == -FI_EINVAL);
    attr.mode = 0;
    must(fi_query_collective(me->domain, FI_GATHER, &attr, FI_MORE) == -FI_EBADFLAGS);
    must(fi_query_collective(me->domain, FI_GATHER, NULL, 0) == -FI_EINVAL);
    must(fi_close(&mc->fid) == 0);
}

static void query__agrees_with_the_calls(void)
{
    team_run(check_query);
}

/* --- results of all collectives ----------------------------------------------------- */

/* The element @i of the block that member @from has for member @to. */
static uint64_t value(unsigned from, unsigned to, size_t i)
{
    return (uint64_t)(from + 1) * 1000003 + (uint64_t)to * 7919 + i;
}

static uint64_t value_sum(unsigned members, unsigned to, size_t i)
{
    uint64_t sum = 0;

    for (unsigned from = 0; from < members; from++)
        sum += value(from, to, i);
    return sum;
}

/* Buffers of one call, for all members. */
struct buffers {
    size_t count;
    uint64_t *in, *out;
};

static struct buffers buffers_open(unsigned rank, size_t count)
{
    struct buffers b = {.count = count,
                        .in = malloc((MEMBERS * count + 1) * sizeof(uint64_t)),
                        .out = calloc(MEMBERS * count + 1, sizeof(uint64_t))};

    for (unsigned to = 0; to < MEMBERS; to++)
        for (size_t i = 0; i < count; i++)
            b.in[to * count + i] = value(rank, to, i);
    b.out[MEMBERS * count] = 42; /* behind the result */
    return b;
}

static void buffers_close(struct buffers *b)
{
    must(b->out[MEMBERS * b->count] == 42);
    free(b->in);
    free(b->out);
}

/* Start a collective of each kind; the data is in @b. */
static ssize_t start(struct member *me, struct fid_mc *mc, enum fi_collective_op coll,
                     unsigned root, struct buffers *b, void *context)
{
    fi_addr_t addr = fi_mc_addr(mc);
    struct fid_ep *ep = me->ep;
    size_t n = b->count;

    switch (coll) {
    case FI_BARRIER:
        return fi_barrier(ep, addr, context);
    case FI_BROADCAST:
        return fi_broadcast(ep, me->rank == root ? b->in : b->out, n, NULL, addr, root, FI_UINT64,
                            0, context);
    case FI_ALLTOALL:
        return fi_alltoall(ep, b->in, n, NULL, b->out, NULL, addr, FI_UINT64, 0, context);
    case FI_ALLREDUCE:
        return fi_allreduce(ep, b->in, n, NULL, b->out, NULL, addr, FI_UINT64, FI_SUM, 0, context);
    case FI_ALLGATHER:
        return fi_allgather(ep, b->in, n, NULL, b->out, NULL, addr, FI_UINT64, 0, context);
    case FI_REDUCE_SCATTER:
        return fi_reduce_scatter(ep, b->in, n, NULL, b->out, NULL, addr, FI_UINT64, FI_SUM, 0,
                                 context);
    case FI_REDUCE:
        return fi_reduce(ep, b->in, n, NULL, me->rank == root ? b->out : NULL, NULL, addr, root,
                         FI_UINT64, FI_SUM, 0, context);
    case FI_SCATTER:
        return fi_scatter(ep, me->rank == root ? b->in : NULL, n, NULL, b->out, NULL, addr, root,
                          FI_UINT64, 0, context);
    default:
        return fi_gather(ep, b->in, n, NULL, me->rank == root ? b->out : NULL, NULL, addr, root,
                         FI_UINT64, 0, context);
    }
}

/* The element @i of block @block that member @rank must have in its result; 0: nothing is there. */
static uint64_t expected(enum fi_collective_op coll, unsigned rank, unsigned root, unsigned block,
                         size_t i)
{
    bool first = block == 0, is_root = rank == root;

    switch (coll) {
    case FI_BROADCAST:
        return first && !is_root ? value(root, 0, i) : 0;
    case FI_ALLTOALL:
        return value(block, rank, i);
    case FI_ALLREDUCE:
        return first ? value_sum(MEMBERS, 0, i) : 0;
    case FI_ALLGATHER:
        return value(block, 0, i);
    case FI_REDUCE_SCATTER:
        return first ? value_sum(MEMBERS, rank, i) : 0;
    case FI_REDUCE:
        return first && is_root ? value_sum(MEMBERS, 0, i) : 0;
    case FI_SCATTER:
        return first ? value(root, rank, i) : 0;
    case FI_GATHER:
        return is_root ? value(block, 0, i) : 0;
    default:
        return 0;
    }
}

static void check_result(unsigned rank, enum fi_collective_op coll, unsigned root,
                         const struct buffers *b)
{
    for (unsigned block = 0; block < MEMBERS; block++)
        for (size_t i = 0; i < b->count; i++)
            must(b->out[block * b->count + i] == expected(coll, rank, root, block, i));
}

static void check_collective(struct member *me, struct fid_mc *mc, enum fi_collective_op coll,
                             unsigned root, size_t count)
{
    struct buffers b = buffers_open(me->rank, count);

    must(start(me, mc, coll, root, &b, &b) == 0);
    must(entry_wait(me) == &b);
    check_result(me->rank, coll, root, &b);
    buffers_close(&b);
}

static void check_all(struct member *me)
{
    static const size_t counts[] = {0, 1, 3, 1000, 50000};
    struct fid_mc *mc = join(me, me->all);

    for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (unsigned coll = FI_BARRIER; coll <= FI_GATHER; coll++)
            for (unsigned root = 0; root < (counts[c] > 1000 ? 1 : MEMBERS); root++)
                check_collective(me, mc, coll, root, counts[c]);
    must(fi_close(&mc->fid) == 0);
}

static void coll__has_the_right_result(void)
{
    team_run(check_all);
}

/* Other types, and a result in the place of the input. */
static void check_types(struct member *me)
{
    struct fid_mc *mc = join(me, me->all);
    fi_addr_t addr = fi_mc_addr(mc);
    double _Complex z = (me->rank + 1) * (1.0 + 1.0 * I), product = 0;
    int8_t low = (int8_t)-me->rank, lowest = 0;
    long double real = 0.5L * me->rank, sum = 0;
    uint32_t bits[4] = {0};

    must(fi_allreduce(me->ep, &z, 1, NULL, &product, NULL, addr, FI_DOUBLE_COMPLEX, FI_PROD, 0,
                      NULL) == 0);
    must(fi_allreduce(me->ep, &low, 1, NULL, &lowest, NULL, addr, FI_INT8, FI_MIN, 0, NULL) == 0);
    must(fi_allreduce(me->ep, &real, 1, NULL, &sum, NULL, addr, FI_LONG_DOUBLE, FI_SUM, 0, NULL) ==
         0);
    bits[me->rank] = 1u << me->rank;
    must(fi_allreduce(me->ep, bits, 4, NULL, bits, NULL, addr, FI_UINT32, FI_BOR, 0, NULL) == 0);
    for (unsigned i = 0; i < 4; i++)
        must(entry_wait(me) == NULL);
    must(lowest == -3 && sum == 3.0L && product == -96.0);
    for (unsigned i = 0; i < 4; i++)
        must(bits[i] == 1u << i);
    must(fi_close(&mc->fid) == 0);
}

static void coll__applies_to_all_types(void)
{
    team_run(check_types);
}

/* --- many at once ------------------------------------------------------------------- */

#define FLIGHT 60u

/* Collectives in flight in two groups, whose members joined in different orders. */
static void check_flight(struct member *me)
{
    struct fid_mc *mc[2];
    struct buffers b[FLIGHT];
    bool done[FLIGHT] = {false};
    unsigned first = me->rank % 2;
    struct fid_av_set *reverse = set_with(me, 0, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 0, 0, 0);

    for (unsigned i = MEMBERS; i-- > 0;)
        must(fi_av_set_insert(reverse, i) == 0);
    mc[first] = join_begin(me, first ? me->all : reverse, NULL);
    mc[!first] = join_begin(me, first ? reverse : me->all, NULL);
    must(join_event(me, NULL, NULL) != join_event(me, NULL, NULL));
    must(fi_mc_addr(mc[0]) != fi_mc_addr(mc[1]));
    for (unsigned i = 0; i < FLIGHT; i++) {
        b[i] = buffers_open(me->rank, 1 + i % 7 * 100);
        /* the reverse set would have other results where the order of members counts */
        must(start(me, mc[1 - (i % 3 == 0 && i % 9 == FI_ALLREDUCE)], i % 9, i % MEMBERS, &b[i],
                   &b[i]) == 0);
    }
    for (unsigned i = 0; i < FLIGHT; i++)
        done[(struct buffers *)entry_wait(me) - b] = true;
    for (unsigned i = 0; i < FLIGHT; i++) {
        must(done[i]);
        check_result(me->rank, i % 9, i % MEMBERS, &b[i]);
        buffers_close(&b[i]);
    }
    must(fi_close(&mc[0]->fid) == 0 && fi_close(&mc[1]->fid) == 0);
    must(fi_close(&reverse->fid) == 0);
}

static void coll__many_are_in_flight(void)
{
    team_run(check_flight);
}

/* A group of every second member, made from the address of a group; and a group of one member. */
static void check_subgroups(struct member *me)
{
    struct fid_mc *all = join(me, me->all), *mc = NULL, *own = NULL;
    struct fid_av_set *half = set_of_range(me, me->rank % 2, MEMBERS - 1, 2);
    struct fid_av_set *one = set_of_range(me, me->rank, me->rank, 1);
    struct buffers b = buffers_open(me->rank, 10);
    uint64_t mine = me->rank, sum = 0;

    must(fi_join_collective(me->ep, fi_mc_addr(all), half, 0, &mc, NULL) == 0);
    must(join_event(me, NULL, NULL) == &mc->fid);
    must(fi_allreduce(me->ep, &mine, 1, NULL, &sum, NULL, fi_mc_addr(mc), FI_UINT64, FI_SUM, 0,
                      &sum) == 0);
    must(entry_wait(me) == &sum && sum == 2 * (me->rank % 2) + 2);
    own = join(me, one);
    for (unsigned coll = FI_BARRIER; coll <= FI_GATHER; coll++) {
        must(start(me, own, coll, me->rank, &b, &b) == 0);
        must(entry_wait(me) == &b);
        for (size_t i = 0; i < b.count && coll > FI_BROADCAST; i++)
            must(b.out[i] == b.in[i] && b.out[b.count + i] == 0);
        memset(b.out, 0, b.count * sizeof b.out[0]);
    }
    barrier(me, all);
    must(fi_close(&own->fid) == 0 && fi_close(&mc->fid) == 0 && fi_close(&all->fid) == 0);
    must(fi_close(&half->fid) == 0 && fi_close(&one->fid) == 0);
    buffers_close(&b);
}

static void join__makes_subgroups(void)
{
    team_run(check_subgroups);
}

struct starter {
    struct member *me;
    fi_addr_t addr;
    atomic_uint starts;
};

/* Start collectives until the group is closed. */
static void *run_starter(void *argument)
{
    struct starter *starter = argument;
    struct fi_cq_tagged_entry entry;

    while (fi_barrier(starter->me->ep, starter->addr, NULL) != -FI_EINVAL) {
        atomic_fetch_add(&starter->starts, 1);
        fi_cq_read(starter->me->cq, &entry, 1);
    }
    return NULL;
}

/* A group of one member is closed while another thread starts collectives. */
static void check_close_alone(struct member *me)
{
    struct fid_av_set *one = set_of_range(me, me->rank, me->rank, 1);

    for (unsigned round = 0; round < 200 && me->rank == 0; round++) {
        struct fid_mc *mc = join(me, one);
        struct starter starter = {.me = me, .addr = fi_mc_addr(mc)};
        pthread_t thread;

        must(pthread_create(&thread, NULL, run_starter, &starter) == 0);
        while (atomic_load(&starter.starts) < 20)
            ;
        must(fi_close(&mc->fid) == 0);
        pthread_join(thread, NULL);
    }
    must(fi_close(&one->fid) == 0);
}

static void close__of_a_group_of_one_member_is_safe(void)
{
    team_run(check_close_alone);
}

/* --- completion --------------------------------------------------------------------- */

static void check_selective(struct member *me)
{
    struct fid_mc *mc = join(me, me->all);
    fi_addr_t addr = fi_mc_addr(mc);
    uint64_t in = 1, out[2] = {0};

    must(fi_barrier(me->ep, addr, &in) == 0);
    must(fi_allreduce(me->ep, &in, 1, NULL, &out[0], NULL, addr, FI_UINT64, FI_SUM, 0, &out[0]) ==
         0);
    must(fi_allreduce(me->ep, &in, 1, NULL, &out[1], NULL, addr, FI_UINT64, FI_SUM, FI_COMPLETION,
                      &out[1]) == 0);
    must(fi_barrier2(me->ep, addr, FI_COMPLETION, mc) == 0);
    void *one = entry_wait(me), *two = entry_wait(me);

    must((one == &out[1] && two == mc) || (one == mc && two == &out[1]));
    while (fi_cntr_read(me->cntr) < 4)
        ;
    must(fi_cntr_read(me->cntr) == 4 && fi_cntr_readerr(me->cntr) == 0);
    must(out[0] == MEMBERS && out[1] == MEMBERS);
    must(fi_cq_read(me->cq, &(struct fi_cq_tagged_entry){0}, 1) == -FI_EAGAIN);
    must(fi_close(&mc->fid) == 0);
}

static void coll__reports_what_was_requested(void)
{
    team_run_with(check_selective, FI_SELECTIVE_COMPLETION, MEMBERS);
}

/* Read entries until the @count collectives with this context have failed with @error. */
static void errors_wait(struct member *me, unsigned count, void *context, int error)
{
    while (count--) {
        struct fi_cq_err_entry got = error_wait(me);

        must(got.op_context == context && got.err == error && got.flags == FI_COLLECTIVE);
    }
}

/* Start a collective of the switches, and three of messages that are eager or wait for CTS. */
static unsigned start_some(struct member *me, struct fid_mc *mc, struct buffers *b,
                           struct buffers *large)
{
    must(start(me, mc, FI_ALLREDUCE, 0, b, b) == 0);
    must(start(me, mc, FI_ALLTOALL, 0, b, b) == 0);
    must(start(me, mc, FI_ALLTOALL, 0, large, b) == 0);
    must(start(me, mc, FI_GATHER, 0, large, b) == 0);
    return 4;
}

/*
 * Member 0 never calls the collectives that the others start. Member 1 closes its group, so that
 * their collectives fail, and that member 0 gets an error for its own. @late: member 1 has started
 * nothing itself.
 */
static void abandon(struct member *me, bool late)
{
    struct fid_mc *mc = join(me, me->all);
    struct buffers b = buffers_open(me->rank, 3), large = buffers_open(me->rank, 10000);
    bool starts = me->rank > 1 || (me->rank == 1 && !late);
    unsigned count = starts ? start_some(me, mc, &b, &large) : 0;

    must(fi_close(&me->ep->fid) == -FI_EBUSY && fi_close(&me->eq->fid) == -FI_EBUSY);
    must(fi_cancel(&me->ep->fid, &b) == -FI_ENOENT);
    if (late && me->rank == 1)
        must(fi_barrier(me->ep, fi_mc_addr(mc), &b) == 0 && ++count);
    meet(me);
    if (me->rank == 1) {
        must(fi_close(&mc->fid) == 0);
        must(fi_barrier(me->ep, ADDR_MC, NULL) == -FI_EINVAL);
    }
    errors_wait(me, count, &b, me->rank == 1 ? FI_ECANCELED : FI_EOTHER);
    meet(me);
    if (me->rank == 0)
        errors_wait(me, start_some(me, mc, &b, &large), &b, FI_EOTHER);
    if (me->rank != 1)
        must(fi_close(&mc->fid) == 0);
    buffers_close(&large);
    buffers_close(&b);
}

/* A group that is joined afterwards works. */
static void check_abandon(struct member *me)
{
    struct fid_mc *mc;

    for (unsigned i = 0; i < 4; i++)
        abandon(me, i % 2);
    mc = join(me, me->all);
    check_collective(me, mc, FI_ALLTOALL, 1, 1000);
    barrier(me, mc);
    must(fi_close(&mc->fid) == 0);
}

static void close__abandons_collectives_in_flight(void)
{
    team_run(check_abandon);
}

/* --- errors ------------------------------------------------------------------------- */

static void check_join_errors(struct member *me)
{
    struct fid_av_set *others = set_of_range(me, me->rank ? 0 : 1, me->rank ? 0 : 1, 1);
    struct fid_mc *mc = NULL;
    struct fid_ep *bare;
    fi_addr_t addr;
    uint64_t x = 0;

    must(fi_av_set_addr(me->all, &addr) == 0);
    must(fi_join_collective(me->ep, addr, others, 0, &mc, NULL) == -FI_EINVAL);
    must(fi_join_collective(me->ep, FI_ADDR_NOTAVAIL, me->all, 0, &mc, NULL) == -FI_ENOSYS);
    must(fi_join_collective(me->ep, ADDR_MC, me->all, 0, &mc, NULL) == -FI_EINVAL);
    must(fi_join_collective(me->ep, 0, me->all, 0, &mc, NULL) == -FI_EINVAL);
    must(fi_join_collective(me->ep, addr, NULL, 0, &mc, NULL) == -FI_EINVAL);
    must(fi_join_collective(me->ep, addr, me->all, FI_MORE, &mc, NULL) == -FI_EBADFLAGS);
    must(fi_join_collective(me->ep, addr, me->all, FI_SEND, &mc, NULL) == -FI_EOPNOTSUPP);
    must(fi_join(me->ep, &x, 0, &mc, NULL) == -FI_EOPNOTSUPP);
    must(fi_endpoint(me->domain, me->info, &bare, NULL) == 0);
    must(fi_join_collective(bare, addr, me->all, 0, &mc, NULL) == -FI_EOPBADSTATE);
    must(fi_ep_bind(bare, &me->av->fid, 0) == 0);
    must(fi_ep_bind(bare, &me->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    must(fi_enable(bare) == 0);
    must(fi_join_collective(bare, addr, me->all, 0, &mc, NULL) == -FI_ENOEQ);
    must(fi_close(&bare->fid) == 0);
    must(fi_close(&others->fid) == 0);
    if (me->rank) { /* no call may use a group before it is complete */
        mc = join_begin(me, me->all, NULL);
        must(fi_barrier(me->ep, fi_mc_addr(mc), NULL) == -FI_EINVAL);
    }
    meet(me);
    if (me->rank == 0)
        mc = join_begin(me, me->all, NULL);
    must(join_event(me, NULL, NULL) == &mc->fid);
    must(fi_close(&mc->fid) == 0);
}

static void join__refuses_wrong_arguments(void)
{
    team_run(check_join_errors);
}

static void check_call_errors(struct member *me)
{
    struct fid_mc *mc = join(me, me->all);
    fi_addr_t addr = fi_mc_addr(mc);
    struct fid_ep *ep = me->ep;
    uint64_t x[MEMBERS] = {0};

    must(fi_barrier(ep, addr + 1, NULL) == -FI_EINVAL);
    must(fi_barrier(ep, FI_ADDR_NOTAVAIL, NULL) == -FI_EINVAL);
    must(fi_barrier(ep, 0, NULL) == -FI_EINVAL);
    must(fi_barrier2(ep, addr, FI_REMOTE_CQ_DATA, NULL) == -FI_EBADFLAGS);
    must(fi_broadcast(ep, x, 1, NULL, addr, 9, FI_UINT64, 0, NULL) == -FI_EINVAL);
    must(fi_broadcast(ep, x, 1, NULL, addr, 0, FI_VOID, 0, NULL) == -FI_EOPNOTSUPP);
    must(fi_broadcast(ep, NULL, 1, NULL, addr, 0, FI_UINT64, 0, NULL) == -FI_EFAULT);
    must(fi_broadcast(ep, x, SIZE_MAX, NULL, addr, 0, FI_UINT64, 0, NULL) == -FI_EMSGSIZE);
    must(fi_allreduce(ep, x, 1, NULL, NULL, NULL, addr, FI_UINT64, FI_SUM, 0, NULL) == -FI_EFAULT);
    must(fi_allreduce(ep, x, 1, NULL, x, NULL, addr, FI_UINT64, FI_CSWAP, 0, NULL) ==
         -FI_EOPNOTSUPP);
    must(fi_alltoall(ep, NULL, 1, NULL, x, NULL, addr, FI_UINT64, 0, NULL) == -FI_EFAULT);
    must(fi_gather(ep, x, 1, NULL, NULL, NULL, addr, me->rank, FI_UINT64, 0, NULL) == -FI_EFAULT);
    barrier(me, mc); /* refused calls have no effect on the next collectives */
    check_collective(me, mc, FI_GATHER, 1, 5);
    must(fi_close(&mc->fid) == 0);
    must(fi_barrier(ep, addr, NULL) == -FI_EINVAL);
}

static void coll__refuses_wrong_arguments(void)
{
    team_run(check_call_errors);
}

/* Two members of the set are endpoints of one process. */
static void check_same_node(struct member *me)
{
    char name[OFI_FIXTURE_ADDR_BYTES];
    size_t bytes = sizeof name;
    struct fid_mc *mc;
    struct fid_ep *two;
    fi_addr_t addr;

    must(fi_endpoint(me->domain, me->info, &two, NULL) == 0);
    must(fi_ep_bind(two, &me->av->fid, 0) == 0);
    must(fi_ep_bind(two, &me->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    must(fi_enable(two) == 0 && fi_getname(&two->fid, name, &bytes) == 0);
    must(fi_av_insert(me->av, name, 1, &addr, 0, NULL) == 1);
    must(fi_av_set_insert(me->all, addr) == 0);
    must(fi_join_collective(me->ep, (fi_addr_t)1 << 62, me->all, 0, &mc, NULL) == -FI_EOPNOTSUPP);
    must(fi_close(&two->fid) == 0);
}

static void join__refuses_two_members_on_one_node(void)
{
    team_run(check_same_node);
}

/* Members call different collectives, both of which send messages; or send other lengths. */
static void check_mismatch(struct member *me)
{
    struct fid_mc *mc = join(me, me->all);
    fi_addr_t addr = fi_mc_addr(mc);
    uint64_t x[4 * MEMBERS] = {0}, y[4 * MEMBERS] = {0};
    struct fi_cq_err_entry error;

    if (me->rank == 0)
        must(fi_gather(me->ep, x, 1, NULL, y, NULL, addr, 0, FI_UINT64, 0, x) == 0);
    else
        must(fi_gather(me->ep, x, me->rank, NULL, y, NULL, addr, 0, FI_UINT64, 0, x) == 0);
    if (me->rank == 0) {
        error = error_wait(me);
        must(error.op_context == x && (error.err == FI_EOTHER || error.err == FI_ETRUNC));
        must(error.flags == FI_COLLECTIVE);
        while (fi_cntr_readerr(me->cntr) < 1)
            ;
    } else {
        must(entry_wait(me) == x);
    }
    if (me->rank < 2)
        must(fi_scatter(me->ep, x, 1, NULL, y, NULL, addr, 0, FI_UINT64, 0, x) == 0);
    else
        must(fi_gather(me->ep, x, 1, NULL, y, NULL, addr, 1, FI_UINT64, 0, x) == 0);
    must(entry_wait(me) == x);
    barrier(me, mc); /* the group still works */
    must(fi_close(&mc->fid) == 0);
}

static void coll__members_disagree(void)
{
    team_run(check_mismatch);
}

/* --- members that withdraw or die --------------------------------------------------- */

/* Complete the join of @mc or, if it is NULL, of a new group. After an error, join again. */
static struct fid_mc *join_again(struct member *me, struct fid_mc *mc)
{
    struct fi_eq_err_entry error;

    if (!mc)
        mc = join_begin(me, me->all, NULL);
    for (;;) {
        struct fid *fid = join_event(me, &error, NULL);

        if (fid) {
            must(fid == &mc->fid);
            return mc;
        }
        must(error.fid == &mc->fid);
        must(error.err == FI_ECANCELED || error.err == FI_EOTHER);
        must(fi_barrier(me->ep, fi_mc_addr(mc), NULL) == -FI_EINVAL);
        must(fi_close(&mc->fid) == 0);
        mc = join_begin(me, me->all, NULL);
    }
}

/*
 * A member closes its group before it has joined, and joins again. Then the leader does so. The
 * others get an error if the message of this member was used already. If not, they wait for its
 * next attempt.
 */
static void check_withdraw(struct member *me)
{
    struct fid_mc *mc;

    if (me->rank == 2) {
        mc = join_begin(me, me->all, NULL);
        must(fi_close(&mc->fid) == 0);
    }
    mc = join_again(me, NULL);
    barrier(me, mc);
    must(fi_close(&mc->fid) == 0);
    mc = me->rank == 3 ? NULL : join_begin(me, me->all, NULL);
    meet(me);
    if (me->rank == 0) {
        must(fi_close(&mc->fid) == 0);
        mc = NULL;
    }
    meet(me);
    mc = join_again(me, mc);
    barrier(me, mc);
    must(fi_close(&mc->fid) == 0);
}

static void join__can_be_withdrawn(void)
{
    team_run(check_withdraw);
}

/* --- a leader that sends invalid answers --------------------------------------------- */

static struct fi_cq_tagged_entry rogue_receive(struct member *me, void *buf, size_t bytes)
{
    struct fi_cq_tagged_entry entry;

    must(fi_trecv(me->ep, buf, bytes, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, NULL) == 0);
    do
        must(ofi_fixture_entry_wait(me->cq, &entry, NULL) == 1);
    while (!(entry.flags & FI_RECV));
    return entry;
}

#define ROGUE_ANSWERS 7

/* Answer the JOIN_HELLO of member 1 with a JOIN_GROUP that is invalid, in different ways. */
static void rogue_answer(struct member *me, fi_addr_t to)
{
    uint64_t hello[3];
    struct {
        uint32_t error, id, members, zero;
        uint64_t member[2][2];
    } group = {.id = 77, .members = 2, .member = {{0, 300}, {1, 70000}}};
    const size_t bytes[ROGUE_ANSWERS] = {
        0, 7, sizeof group - 1, sizeof group, sizeof group, sizeof group, sizeof group};
    struct own_addr own;

    memcpy(&own, me->team->name[0], sizeof own);
    group.member[0][0] = own.incarnation;
    for (unsigned i = 0; i < ROGUE_ANSWERS; i++) {
        struct fi_cq_tagged_entry entry = rogue_receive(me, hello, sizeof hello);

        must((entry.tag & JOIN_KIND) == 0 && entry.len == sizeof hello);
        uint64_t attempt = hello[1] & ~JOIN_KIND;

        if (i == 4)
            group.members = 3;
        if (i == 5) { /* valid, but there is no such group */
            group.members = 2;
            group.member[1][1] = 302;
        }
        if (i == 6) /* the leader was another process */
            group.member[0][0]++;
        while (fi_tinject(me->ep, &group, bytes[i], to, JOIN_GROUP | attempt) == -FI_EAGAIN)
            fi_cq_read(me->cq, NULL, 0);
        entry = rogue_receive(me, hello, sizeof hello);
        must(entry.tag == (JOIN_WITHDRAW | attempt));
    }
}

/* Member 1 gets an error for each attempt, and withdraws, so that no other member would wait. */
static void rogue_join(struct member *me)
{
    struct fid_av_set *pair = set_of_range(me, 0, 1, 1);

    for (unsigned i = 0; i < ROGUE_ANSWERS; i++) {
        struct fid_mc *mc = join_begin(me, pair, NULL);
        struct fi_eq_err_entry error;

        must(join_event(me, &error, NULL) == NULL && error.fid == &mc->fid);
        must(error.err == FI_EOTHER);
        must(fi_close(&mc->fid) == 0);
    }
    must(fi_close(&pair->fid) == 0);
}

static void rogue_run(struct member *me)
{
    struct own_addr to;

    if (me->rank) {
        if (me->rank == 1)
            rogue_join(me);
        return;
    }
    memcpy(&to, me->team->name[1], sizeof to);
    to.queue[1] = JOIN_QUEUE;
    must(fi_av_insert(me->av, &to, 1, &(fi_addr_t){0}, 0, NULL) == 1);
    rogue_answer(me, 0);
}

static void join__withdraws_after_an_invalid_answer(void)
{
    team_run_plan(rogue_run, 0, MEMBERS, true);
}

/* A member dies before it joins, so nobody can. The others form a group without it. */
static void check_death_before(struct member *me, unsigned victim)
{
    struct fid_av_set *rest = set_of_range(me, victim == 0, victim ? victim - 1 : MEMBERS - 1, 1);
    struct fi_eq_err_entry error;
    struct fid_mc *mc;

    if (me->rank == victim)
        kill(getpid(), SIGKILL);
    mc = join_begin(me, me->all, me);
    must(join_event(me, &error, NULL) == NULL);
    must(error.fid == &mc->fid && error.context == me && error.err == FI_EHOSTUNREACH);
    must(fi_close(&mc->fid) == 0);
    mc = join(me, rest);
    barrier(me, mc);
    must(fi_close(&mc->fid) == 0);
    must(fi_close(&rest->fid) == 0);
}

static void check_death_of_last(struct member *me)
{
    check_death_before(me, MEMBERS - 1);
}

static void check_death_of_leader(struct member *me)
{
    check_death_before(me, 0);
}

static void join__fails_if_a_member_dies(void)
{
    team_run_with(check_death_of_last, 0, MEMBERS - 1);
    team_run_with(check_death_of_leader, 0, 0);
}

/* Member 3 dies while the others wait for it in the switches and in messages. */
static void check_death_in_use(struct member *me)
{
    struct fid_av_set *rest = set_of_range(me, 0, 2, 1);
    struct fid_mc *mc = join(me, me->all);
    struct buffers b = buffers_open(me->rank, 3);
    struct fi_cq_err_entry error;

    meet(me);
    if (me->rank == 3)
        kill(getpid(), SIGKILL);
    must(start(me, mc, FI_ALLREDUCE, 0, &b, &b) == 0);
    must(start(me, mc, FI_ALLTOALL, 0, &b, &b) == 0);
    for (unsigned i = 0; i < 2; i++) {
        error = error_wait(me);
        must(error.op_context == &b && (error.err == FI_EOTHER || error.err == FI_EHOSTUNREACH));
    }
    must(fi_close(&mc->fid) == 0);
    mc = join(me, rest);
    barrier(me, mc);
    must(fi_close(&mc->fid) == 0 && fi_close(&rest->fid) == 0);
    buffers_close(&b);
}

static void coll__fails_if_a_member_dies(void)
{
    team_run_with(check_death_in_use, 0, 3);
}

/* --- threads ------------------------------------------------------------------------ */

struct worker {
    struct member *me;
    struct fid_mc *mc;
    _Atomic bool done;      /* the collective that was started last is complete */
    _Atomic unsigned count; /* barriers that were started */
    fi_addr_t addr;         /* of the group */
};

/* Each thread reads the entries of both threads. */
static void *worker_run(void *arg)
{
    struct worker *worker = arg;
    struct member *me = worker->me;
    struct fi_cq_tagged_entry entry;

    for (unsigned i = 0; i < TEST_TRIALS(200); i++) {
        uint64_t one = 1, sum = 0;

        atomic_store(&worker->done, false);
        must(fi_allreduce(me->ep, &one, 1, NULL, &sum, NULL, fi_mc_addr(worker->mc), FI_UINT64,
                          FI_SUM, 0, worker) == 0);
        while (!atomic_load(&worker->done))
            if (fi_cq_read(me->cq, &entry, 1) == 1)
                atomic_store(&((struct worker *)entry.op_context)->done, true);
        must(sum == MEMBERS);
    }
    return NULL;
}

/* Two threads of each member use a group each. */
static void check_threads(struct member *me)
{
    struct worker worker[2];
    pthread_t thread[2];

    for (unsigned i = 0; i < 2; i++)
        worker[i] = (struct worker){.me = me, .mc = join(me, me->all)};
    for (unsigned i = 0; i < 2 && !ofi_fixture_is_serial(); i++)
        must(pthread_create(&thread[i], NULL, worker_run, &worker[i]) == 0);
    for (unsigned i = 0; i < 2 && !ofi_fixture_is_serial(); i++)
        must(pthread_join(thread[i], NULL) == 0);
    meet(me);
    for (unsigned i = 0; i < 2; i++)
        must(fi_close(&worker[i].mc->fid) == 0);
}

static void coll__threads_use_groups_of_their_own(void)
{
    team_run(check_threads);
}

/* Start barriers, each when the one before is complete, until one fails. */
static void *barriers_run(void *arg)
{
    struct worker *worker = arg;
    struct member *me = worker->me;
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t err;

    for (;;) {
        while ((err = fi_barrier(me->ep, worker->addr, worker)) == -FI_EAGAIN)
            ;
        if (err == -FI_EINVAL) /* this member has closed the group */
            break;
        must(!err);
        atomic_fetch_add(&worker->count, 1);
        err = ofi_fixture_entry_wait(me->cq, &entry, NULL);
        if (err == -FI_EAVAIL) {
            must(fi_cq_readerr(me->cq, &error, 0) == 1);
            must(error.err == FI_ECANCELED || error.err == FI_EOTHER);
            break;
        }
        must(err == 1);
    }
    return NULL;
}

/*
 * Member 1 closes its group while another thread of it, and the other members, use the group. Then
 * the others close theirs. If member 1 had no barrier in flight, they may have got no error. Member
 * 1 first waits until all have joined: a join that is not complete when the group breaks fails.
 */
static void check_close_in_use(struct member *me)
{
    for (unsigned i = 0; i < TEST_TRIALS(10) && !ofi_fixture_is_serial(); i++) {
        struct worker worker = {.me = me, .mc = join(me, me->all)};
        pthread_t thread;

        worker.addr = fi_mc_addr(worker.mc); /* the thread may start after the group has closed */
        meet(me);
        must(pthread_create(&thread, NULL, barriers_run, &worker) == 0);
        if (me->rank == 1) {
            while (atomic_load(&worker.count) < 3 * i)
                sched_yield();
            must(fi_close(&worker.mc->fid) == 0);
        }
        meet(me);
        if (me->rank != 1)
            must(fi_close(&worker.mc->fid) == 0);
        must(pthread_join(thread, NULL) == 0);
        meet(me);
    }
}

static void close__is_safe_while_other_threads_use_the_group(void)
{
    team_run(check_close_in_use);
}

int main(int argc, char **argv)
{
    static const struct test_case deaths[] = {
        CASE(join__fails_if_a_member_dies),
        CASE(coll__fails_if_a_member_dies),
        {0},
    };
    static const struct test_case cases[] = {
        CASE(set__combines_addresses),
        CASE(query__agrees_with_the_calls),
        CASE(coll__has_the_right_result),
        CASE(coll__applies_to_all_types),
        CASE(coll__many_are_in_flight),
        CASE(join__makes_subgroups),
        CASE(close__of_a_group_of_one_member_is_safe),
        CASE(coll__reports_what_was_requested),
        CASE(close__abandons_collectives_in_flight),
        CASE(join__refuses_wrong_arguments),
        CASE(coll__refuses_wrong_arguments),
        CASE(join__refuses_two_members_on_one_node),
        CASE(coll__members_disagree),
        CASE(join__can_be_withdrawn),
        CASE(join__withdraws_after_an_invalid_answer),
        CASE(coll__threads_use_groups_of_their_own),
        CASE(close__is_safe_while_other_threads_use_the_group),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_coll_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    if (argc < 2)
        return test_run("ofi_coll", cases);
    if (strcmp(argv[1], "death") != 0 || test_run("ofi_coll", deaths))
        return 1;
    puts("all deaths were reported");
    return 0;
}
