/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * check_onesided.c - one-sided communication: puts, gets and accumulates of all sizes with all
 * kinds of synchronization, first single ones, then many random ones, compared with a simple model
 * of the memory.
 *
 * Most checks call MPI_Win_create() to make their windows. MPI could allocate a window as shared
 * memory, and its data would not go through the fabric. onesided_shared() checks such a window.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

enum sync { FENCE, PSCW, LOCK_EXCLUSIVE, LOCK_SHARED, FLUSH, FLUSH_ALL, FLUSH_LOCAL, SYNCS };

static const char *const sync_names[] = {"fence", "post and start", "lock",       "shared lock",
                                         "flush", "flush_all",      "flush_local"};

/* A window of this rank, and its peers. */
struct side {
    const struct check_comm *comm;
    MPI_Win win;
    MPI_Group to, from; /* for PSCW: targets of this rank, and its sources */
    int target;         /* for locks and flushes */
};

/* --- synchronization ---------------------------------------------------------------- */

static void side_open(struct side *s, enum sync sync)
{
    switch (sync) {
    case FENCE:
        MPI_Win_fence(0, s->win);
        break;
    case PSCW:
        MPI_Win_post(s->from, 0, s->win);
        MPI_Win_start(s->to, 0, s->win);
        break;
    case LOCK_EXCLUSIVE:
    case LOCK_SHARED:
        MPI_Win_lock(sync == LOCK_SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, s->target, 0,
                     s->win);
        break;
    default:
        MPI_Win_lock_all(0, s->win);
    }
}

static void side_close(struct side *s, enum sync sync)
{
    switch (sync) {
    case FENCE:
        MPI_Win_fence(MPI_MODE_NOSUCCEED, s->win); /* locks may follow */
        break;
    case PSCW:
        MPI_Win_complete(s->win);
        MPI_Win_wait(s->win);
        break;
    case LOCK_EXCLUSIVE:
    case LOCK_SHARED:
        MPI_Win_unlock(s->target, s->win);
        break;
    default:
        MPI_Win_unlock_all(s->win);
    }
}

/* Complete all operations at both sides. Then the epoch, or a new one of its kind, is open. */
static void side_done(struct side *s, enum sync sync)
{
    switch (sync) {
    case FENCE:
        MPI_Win_fence(0, s->win);
        break;
    case FLUSH:
        MPI_Win_flush(s->target, s->win);
        break;
    case FLUSH_ALL:
        MPI_Win_flush_all(s->win);
        break;
    case FLUSH_LOCAL: /* buffers are reusable, results available; the rest follows */
        MPI_Win_flush_local(s->target, s->win);
        MPI_Win_flush(s->target, s->win);
        break;
    default:
        side_close(s, sync);
        side_open(s, sync);
    }
}

static struct side side_of(const struct check_comm *comm, MPI_Win win, int to, int from)
{
    struct side s = {.comm = comm, .win = win, .target = to};
    MPI_Group all;

    MPI_Comm_group(comm->comm, &all);
    MPI_Group_incl(all, 1, &to, &s.to);
    MPI_Group_incl(all, 1, &from, &s.from);
    MPI_Group_free(&all);
    return s;
}

static struct side side_make(const struct check_comm *comm, void *base, size_t bytes, int to,
                             int from)
{
    MPI_Win win;

    MPI_Win_create(base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, comm->comm, &win);
    return side_of(comm, win, to, from);
}

static void side_free(struct side *s)
{
    MPI_Group_free(&s->to);
    MPI_Group_free(&s->from);
    MPI_Win_free(&s->win);
}

/* --- single operations of all sizes ------------------------------------------------- */

#define WINDOW_BYTES (1u << 20)
#define GUARD        64u /* bytes before and after that must stay unwritten */
#define GUARD_BYTE   0x5a

/* Sizes around one segment, several, a packet, the eager limit, and powers of two; 65536 always. */
static const size_t sizes[] = {
    0,           1,     7,     8,     143,    144,    145,    191,
    192,         193,   231,   232,   233,    927,    928,    929,
    1023,        1024,  1025,  4096,  8191,   8192,   8193,   16384,
    32768,       65535, 65536, 65537, 262143, 262144, 262145, WINDOW_BYTES - 1,
    WINDOW_BYTES};
#define SIZES (sizeof sizes / sizeof sizes[0])

struct pass {
    struct check *check;
    struct side side;
    unsigned char *mem;       /* the window: GUARD, WINDOW_BYTES, GUARD */
    unsigned char *out, *got; /* WINDOW_BYTES each */
    enum sync sync;
    size_t bytes, offset; /* offset in the window */
    uint64_t key;
};

static void draw(unsigned char *to, size_t bytes, uint64_t key, int rank, uint64_t what)
{
    uint64_t word = 0;

    for (size_t i = 0; i < bytes; i++, word >>= 8) {
        if (i % 8 == 0)
            word = check_mix(key, (uint64_t)rank << 8 | what, i);
        to[i] = (unsigned char)word;
    }
}

static void pass_that(const struct pass *p, bool ok, const char *what)
{
    check_that(p->check, ok, "%s of %zu bytes by %s: wrong data on %s of %d", what, p->bytes,
               sync_names[p->sync], p->side.comm->name, p->side.comm->size);
}

/* After a put, a get of the same data. The flush that ends a get waits for its data. */
static void pass_put_get(struct pass *p)
{
    const struct check_comm *comm = p->side.comm;

    draw(p->out, p->bytes, p->key, comm->rank, 0);
    memset(p->got, 0xff, p->bytes);
    MPI_Put(p->out, (int)p->bytes, MPI_BYTE, p->side.target, (MPI_Aint)p->offset, (int)p->bytes,
            MPI_BYTE, p->side.win);
    side_done(&p->side, p->sync);
    MPI_Get(p->got, (int)p->bytes, MPI_BYTE, p->side.target, (MPI_Aint)p->offset, (int)p->bytes,
            MPI_BYTE, p->side.win);
    side_done(&p->side, p->sync);
    pass_that(p, !memcmp(p->got, p->out, p->bytes), "get after put");
}

/* Then an accumulate, and a get-accumulate of the result. */
static void pass_accumulate(struct pass *p)
{
    const int count = (int)(p->bytes / 4);
    uint32_t *out = (void *)p->out, *got = (void *)p->got;
    bool right = true;

    draw(p->out, p->bytes, p->key, p->side.comm->rank, 1);
    MPI_Accumulate(out, count, MPI_UINT32_T, p->side.target, (MPI_Aint)p->offset, count,
                   MPI_UINT32_T, MPI_BXOR, p->side.win);
    side_done(&p->side, p->sync);
    memset(p->got, 0xff, p->bytes);
    MPI_Get_accumulate(out, count, MPI_UINT32_T, got, count, MPI_UINT32_T, p->side.target,
                       (MPI_Aint)p->offset, count, MPI_UINT32_T, MPI_SUM, p->side.win);
    side_done(&p->side, p->sync);

    unsigned char *put = check_alloc(p->bytes + 1);

    draw(put, p->bytes, p->key, p->side.comm->rank, 0);
    for (int i = 0; i < count; i++)
        right = right && got[i] == (((uint32_t *)(void *)put)[i] ^ out[i]);
    pass_that(p, right, "get_accumulate after accumulate");
    free(put);
}

/* Check the data of a rank's source in its window, and that nothing beside it was written. */
static void pass_check(struct pass *p, int source, bool accumulated)
{
    const size_t whole = accumulated ? p->bytes / 4 : 0;
    unsigned char *put = check_alloc(p->bytes + 1), *more = check_alloc(p->bytes + 1);
    bool right = true, alone = true;

    MPI_Win_lock(MPI_LOCK_SHARED, p->side.comm->rank, 0, p->side.win);
    draw(put, p->bytes, p->key, source, 0);
    draw(more, p->bytes, p->key, source, 1);
    for (size_t i = 0; i < whole; i++) {
        uint32_t *word = (uint32_t *)(void *)put + i, by = ((uint32_t *)(void *)more)[i];

        *word = (*word ^ by) + by;
    }
    right = !memcmp(p->mem + p->offset, put, p->bytes);
    for (size_t i = 0; i < p->offset; i++)
        alone = alone && p->mem[i] == GUARD_BYTE;
    for (size_t i = p->offset + p->bytes; i < WINDOW_BYTES + 2 * GUARD; i++)
        alone = alone && p->mem[i] == GUARD_BYTE;
    MPI_Win_unlock(p->side.comm->rank, p->side.win);
    pass_that(p, right,
              accumulated ? "the target's memory after accumulates"
                          : "the target's memory after a put");
    pass_that(p, alone, "beside the target's memory after a put");
    free(put);
    free(more);
}

static void pass_run(struct pass *p, int source)
{
    const bool accumulate = p->key & 1;

    p->offset = GUARD + (accumulate ? 4 * (p->key >> 8 & 7) : p->key >> 8 & 31);
    if (p->offset + p->bytes > WINDOW_BYTES + GUARD)
        p->offset = GUARD;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->side.comm->rank, 0, p->side.win);
    memset(p->mem, GUARD_BYTE, WINDOW_BYTES + 2 * GUARD);
    MPI_Win_unlock(p->side.comm->rank, p->side.win);
    MPI_Barrier(p->side.comm->comm);
    side_open(&p->side, p->sync);
    pass_put_get(p);
    if (accumulate)
        pass_accumulate(p);
    side_close(&p->side, p->sync);
    MPI_Barrier(p->side.comm->comm);
    pass_check(p, source, accumulate);
}

static void onesided_sizes(struct check *check, const struct check_comm *comm)
{
    const uint64_t shift = check_key(check);
    const int step = comm->size > 1 ? 1 + (int)(shift % (uint64_t)(comm->size - 1)) : 0;
    const int to = (comm->rank + step) % comm->size,
              from = (comm->rank + comm->size - step) % comm->size;
    struct pass p = {.check = check,
                     .mem = check_alloc(WINDOW_BYTES + 2 * GUARD),
                     .out = check_alloc(WINDOW_BYTES),
                     .got = check_alloc(WINDOW_BYTES)};

    p.side = side_make(comm, p.mem, WINDOW_BYTES + 2 * GUARD, to, from);
    for (size_t i = 0; i < SIZES; i++)
        for (p.sync = 0; p.sync < SYNCS; p.sync++) {
            p.key = check_key(check);
            p.bytes = sizes[i];
            if (!check->quick || (p.key >> 16) % 16 == 0 || sizes[i] == 65536)
                pass_run(&p, from);
        }
    side_free(&p.side);
    free(p.mem);
    free(p.out);
    free(p.got);
}

/* --- random operations -------------------------------------------------------------- */

#define SLOTS        6    /* operations of a rank in a round; each has its own part of the memory */
#define SLOT_WORDS   5000 /* beyond the eager limit */
#define SHARED_WORDS 16   /* words that all ranks add to */
#define STRIPE       (SLOTS * SLOT_WORDS)

enum action { PUT, GET, ADD, REPLACE, FETCH_ADD, FETCH_ONE, SWAP_IF, ADD_SHARED, ACTIONS };

struct access {
    enum action action;
    int target;
    bool by_request;
    uint32_t at, words; /* in the rank's stripe at the target */
    uint32_t *out, *got, compare;
};

/* This rank's model of its stripe in each rank's window. */
struct mixture {
    struct check *check;
    struct side side;
    uint32_t *mem;    /* the window: a stripe for each rank, then SHARED_WORDS */
    uint32_t *model;  /* [rank][STRIPE] */
    uint32_t *shared; /* [rank][SHARED_WORDS]: sums added there */
    uint32_t *buf;    /* [SLOTS][2][SLOT_WORDS] */
    uint64_t random;
    enum sync sync;
};

static uint64_t mixture_draw(struct mixture *m, uint64_t below)
{
    return check_mix(m->random++, 0, 0) % below;
}

static struct access access_draw(struct mixture *m, uint32_t slot)
{
    static const uint32_t words[] = {1, 1, 2, 36, 48, 49, 58, 59, 232, 256, 2048, 2049, SLOT_WORDS};
    struct access a = {.action = (enum action)mixture_draw(m, ACTIONS),
                       .target = (int)mixture_draw(m, (uint64_t)m->side.comm->size),
                       .by_request = m->sync >= LOCK_EXCLUSIVE && mixture_draw(m, 3) == 0,
                       .words = words[mixture_draw(m, sizeof words / sizeof words[0])],
                       .out = m->buf + 2 * slot * SLOT_WORDS,
                       .got = m->buf + (2 * slot + 1) * SLOT_WORDS};

    if (a.action == FETCH_ONE || a.action == SWAP_IF || a.action == ADD_SHARED)
        a.words = 1;
    a.at = slot * SLOT_WORDS + (uint32_t)mixture_draw(m, SLOT_WORDS - a.words + 1);
    for (uint32_t i = 0; i < a.words; i++) {
        a.out[i] = (uint32_t)check_mix(m->random, slot, i);
        a.got[i] = ~a.out[i];
    }
    return a;
}

/* Offset of @a in the target's window, in bytes. */
static MPI_Aint access_at(const struct mixture *m, const struct access *a)
{
    const size_t word = a->action == ADD_SHARED
                            ? (size_t)m->side.comm->size * STRIPE + a->at % SHARED_WORDS
                            : (size_t)m->side.comm->rank * STRIPE + a->at;

    return (MPI_Aint)(4 * word);
}

static void access_request(struct mixture *m, struct access *a)
{
    const int n = (int)a->words;
    const MPI_Aint at = access_at(m, a);
    MPI_Request request;

    if (a->action == PUT)
        MPI_Rput(a->out, n, MPI_UINT32_T, a->target, at, n, MPI_UINT32_T, m->side.win, &request);
    else if (a->action == GET)
        MPI_Rget(a->got, n, MPI_UINT32_T, a->target, at, n, MPI_UINT32_T, m->side.win, &request);
    else
        MPI_Rget_accumulate(a->out, n, MPI_UINT32_T, a->got, n, MPI_UINT32_T, a->target, at, n,
                            MPI_UINT32_T, MPI_SUM, m->side.win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void access_start(struct mixture *m, struct access *a)
{
    const MPI_Aint at = access_at(m, a);
    const int n = (int)a->words;
    const MPI_Win win = m->side.win;

    if (a->by_request && (a->action == PUT || a->action == GET || a->action == FETCH_ADD)) {
        access_request(m, a);
        return;
    }
    switch (a->action) {
    case PUT:
        MPI_Put(a->out, n, MPI_UINT32_T, a->target, at, n, MPI_UINT32_T, win);
        break;
    case GET:
        MPI_Get(a->got, n, MPI_UINT32_T, a->target, at, n, MPI_UINT32_T, win);
        break;
    case ADD:
    case ADD_SHARED:
    case REPLACE:
        MPI_Accumulate(a->out, n, MPI_UINT32_T, a->target, at, n, MPI_UINT32_T,
                       a->action == REPLACE ? MPI_REPLACE : MPI_SUM, win);
        break;
    case FETCH_ADD:
        MPI_Get_accumulate(a->out, n, MPI_UINT32_T, a->got, n, MPI_UINT32_T, a->target, at, n,
                           MPI_UINT32_T, MPI_SUM, win);
        break;
    case FETCH_ONE:
        MPI_Fetch_and_op(a->out, a->got, MPI_UINT32_T, a->target, at, MPI_SUM, win);
        break;
    default:
        a->compare = m->model[(size_t)a->target * STRIPE + a->at] +
                     (a->out[0] & 1); /* or not as it is */
        MPI_Compare_and_swap(a->out, &a->compare, a->got, MPI_UINT32_T, a->target, at, win);
    }
}

/* Check the fetched data and apply the operation to the model. */
static bool access_model(struct mixture *m, const struct access *a)
{
    uint32_t *word = m->model + (size_t)a->target * STRIPE + a->at;
    const bool fetches = a->action == GET || a->action == FETCH_ADD || a->action == FETCH_ONE ||
                         a->action == SWAP_IF;
    bool right = true;

    if (a->action == ADD_SHARED) {
        m->shared[a->target * SHARED_WORDS + a->at % SHARED_WORDS] += a->out[0];
        return true;
    }
    for (uint32_t i = 0; i < a->words; i++) {
        right = right && (!fetches || a->got[i] == word[i]);
        if (a->action == PUT || a->action == REPLACE ||
            (a->action == SWAP_IF && a->compare == word[i]))
            word[i] = a->out[i];
        else if (a->action == ADD || a->action == FETCH_ADD || a->action == FETCH_ONE)
            word[i] += a->out[i];
    }
    return right;
}

/*
 * Each operation has its own lock; other kinds of epoch span all of a rank's operations of the
 * round.
 */
static void mixture_round(struct mixture *m)
{
    const bool locks = m->sync == LOCK_EXCLUSIVE || m->sync == LOCK_SHARED;
    const uint32_t count = (uint32_t)mixture_draw(m, SLOTS + 1);
    struct access access[SLOTS];

    if (!locks)
        side_open(&m->side, m->sync);
    for (uint32_t i = 0; i < count; i++) {
        access[i] = access_draw(m, i);
        m->side.target = access[i].target;
        if (locks)
            side_open(&m->side, m->sync);
        access_start(m, &access[i]);
        if (locks)
            side_close(&m->side, m->sync);
        else if (m->sync >= FLUSH && mixture_draw(m, 2))
            side_done(&m->side, m->sync);
    }
    if (!locks)
        side_close(&m->side, m->sync);
    for (uint32_t i = 0; i < count; i++)
        check_that(m->check, access_model(m, &access[i]),
                   "action %d on %u words of rank %d by %s%s fetched wrong data on %s of %d",
                   access[i].action, access[i].words, access[i].target, sync_names[m->sync],
                   access[i].by_request ? " and a request" : "", m->side.comm->name,
                   m->side.comm->size);
}

/* Every rank tells every other the expected content of its window. */
static void mixture_check(struct mixture *m)
{
    const struct check_comm *comm = m->side.comm;
    const size_t stripes = (size_t)comm->size * STRIPE;
    uint32_t *want = check_alloc(4 * stripes),
             *shares = check_alloc(4 * (size_t)comm->size * SHARED_WORDS);
    bool right = true;

    MPI_Barrier(comm->comm);
    MPI_Alltoall(m->model, STRIPE, MPI_UINT32_T, want, STRIPE, MPI_UINT32_T, comm->comm);
    MPI_Alltoall(m->shared, SHARED_WORDS, MPI_UINT32_T, shares, SHARED_WORDS, MPI_UINT32_T,
                 comm->comm);
    MPI_Win_lock(MPI_LOCK_SHARED, comm->rank, 0, m->side.win);
    check_that(m->check, !memcmp(m->mem, want, 4 * stripes),
               "a window is not as the model says on %s of %d", comm->name, comm->size);
    for (uint32_t i = 0; i < SHARED_WORDS; i++) {
        uint32_t sum = 0;

        for (int r = 0; r < comm->size; r++)
            sum += shares[r * SHARED_WORDS + (int)i];
        right = right && m->mem[stripes + i] == sum;
    }
    MPI_Win_unlock(comm->rank, m->side.win);
    check_that(m->check, right, "what all ranks added to is not the sum on %s of %d", comm->name,
               comm->size);
    MPI_Barrier(comm->comm);
    free(want);
    free(shares);
}

static void onesided_random(struct check *check, const struct check_comm *comm)
{
    const size_t words = (size_t)comm->size * STRIPE + SHARED_WORDS;
    const int rounds = check->quick ? 14 : 140;
    const uint64_t key = check_key(check);
    struct mixture m = {.check = check,
                        .random = check_mix(key, (uint64_t)comm->rank, 1),
                        .mem = check_alloc(4 * words),
                        .model = check_alloc(4 * words),
                        .shared = check_alloc((size_t)comm->size * SHARED_WORDS * 4),
                        .buf = check_alloc(SLOTS * 2 * SLOT_WORDS * 4)};

    memset(m.mem, 0, 4 * words);
    memset(m.model, 0, 4 * words);
    memset(m.shared, 0, (size_t)comm->size * SHARED_WORDS * 4);
    m.side = side_make(comm, m.mem, 4 * words, 0, 0);
    MPI_Group_free(&m.side.to);
    MPI_Group_free(&m.side.from);
    MPI_Comm_group(comm->comm, &m.side.to);
    MPI_Comm_group(comm->comm, &m.side.from);
    for (int i = 0; i < rounds; i++) {
        m.sync = (enum sync)(check_mix(key, (uint64_t)i, 2) % SYNCS); /* the same kind for all */
        mixture_round(&m);
        MPI_Barrier(comm->comm); /* before another kind of synchronization */
        if (i % 7 == 6)
            mixture_check(&m);
    }
    side_free(&m.side);
    free(m.mem);
    free(m.model);
    free(m.shared);
    free(m.buf);
}

/* --- addresses ---------------------------------------------------------------------- */

/* Buffers named by absolute addresses, in types with a lower bound, and in pieces. */
static void onesided_layouts(struct check *check, const struct check_comm *comm)
{
    static const int lengths[] = {8, 200, 4000, 100000};
    const int to = (comm->rank + 1) % comm->size, from = (comm->rank + comm->size - 1) % comm->size;
    unsigned char *mem = check_alloc(200000), *out = check_alloc(200000),
                  *want = check_alloc(200000);
    struct side s = side_make(comm, mem, 200000, to, from);

    for (size_t i = 0; i < 4; i++) {
        const uint64_t key = check_key(check);
        int bytes = lengths[i];
        MPI_Datatype bottom, odd;
        MPI_Aint address;
        bool right = true;

        draw(out, (size_t)bytes, key, comm->rank, 0);
        draw(want, (size_t)bytes, key, from, 0);
        MPI_Get_address(out, &address);
        MPI_Type_create_hindexed(1, &bytes, &address, MPI_BYTE, &bottom);
        MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &odd); /* every other byte at the target */
        MPI_Type_commit(&bottom);
        MPI_Type_commit(&odd);
        MPI_Win_fence(0, s.win);
        MPI_Put(MPI_BOTTOM, 1, bottom, to, 0, 1, odd, s.win);
        MPI_Win_fence(0, s.win);
        for (int b = 0; b < bytes; b++)
            right = right && mem[2 * b] == want[b];
        check_that(check, right, "put of %d bytes from MPI_BOTTOM to every other byte is wrong",
                   bytes);
        memset(out, 0, (size_t)bytes);
        MPI_Win_fence(0, s.win);
        MPI_Get(MPI_BOTTOM, 1, bottom, to, 0, 1, odd, s.win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, s.win);
        draw(want, (size_t)bytes, key, comm->rank, 0);
        check_that(check, !memcmp(out, want, (size_t)bytes),
                   "get of %d bytes to MPI_BOTTOM is wrong", bytes);
        MPI_Type_free(&bottom);
        MPI_Type_free(&odd);
    }
    side_free(&s);
    free(mem);
    free(out);
    free(want);
}

/* --- shared memory -------------------------------------------------------------------- */

#define SHARED_INTS 1000
#define SHARED_ADDS 20

/* Each rank stores into its own part, and loads the parts of all others. */
static void shared_loads(struct check *check, struct side *s, int *own, uint64_t key)
{
    const struct check_comm *comm = s->comm;
    bool right = true;

    MPI_Win_lock_all(0, s->win);
    for (int i = 0; i < SHARED_INTS; i++)
        own[i] = (int)check_mix(key, (uint64_t)comm->rank, (uint64_t)i);
    MPI_Win_sync(s->win);
    MPI_Barrier(comm->comm);
    MPI_Win_sync(s->win);
    for (int r = 0; r < comm->size; r++) {
        MPI_Aint bytes;
        int *part, unit;

        MPI_Win_shared_query(s->win, r, &bytes, &unit, &part);
        for (int i = 0; i < SHARED_INTS; i++)
            right = right && part[i] == (int)check_mix(key, (uint64_t)r, (uint64_t)i);
    }
    check_that(check, right, "loads from shared memory of %d ranks are wrong", comm->size);
    MPI_Barrier(comm->comm);
    MPI_Win_unlock_all(s->win);
}

/*
 * Put to the next rank and get the value back. After the epoch, the next rank finds it in its own
 * memory. Loads and stores assume the unified memory model.
 */
static void shared_put_get(struct check *check, struct side *s, enum sync sync, const int *own,
                           int from)
{
    const int mine = s->comm->rank * 100 + (int)sync;
    int got = -1;

    side_open(s, sync);
    MPI_Put(&mine, 1, MPI_INT, s->target, 1, 1, MPI_INT, s->win);
    side_done(s, sync);
    MPI_Get(&got, 1, MPI_INT, s->target, 1, 1, MPI_INT, s->win);
    side_close(s, sync);
    MPI_Barrier(s->comm->comm);
    check_that(check, got == mine && own[1] == from * 100 + (int)sync,
               "put and get in shared memory of %d ranks by %s are wrong", s->comm->size,
               sync_names[sync]);
    MPI_Barrier(s->comm->comm); /* before the next put */
}

/* All ranks add to one counter by atomics, and to another one under an exclusive lock. */
static void shared_adds(struct check *check, struct side *s)
{
    const int one = 1, size = s->comm->size;
    int *counters, got, unit;
    MPI_Aint bytes;

    MPI_Win_shared_query(s->win, 0, &bytes, &unit, &counters);
    MPI_Barrier(s->comm->comm);
    if (s->comm->rank == 0)
        counters[0] = counters[1] = 0;
    MPI_Barrier(s->comm->comm);
    for (int i = 0; i < SHARED_ADDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, s->win);
        counters[0]++;
        MPI_Win_unlock(0, s->win);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, s->win);
        MPI_Fetch_and_op(&one, &got, MPI_INT, 0, 1, MPI_SUM, s->win);
        MPI_Win_unlock(0, s->win);
    }
    MPI_Barrier(s->comm->comm);
    check_that(check, counters[0] == SHARED_ADDS * size && counters[1] == SHARED_ADDS * size,
               "counters in shared memory of %d ranks: %d under locks, %d by atomics", size,
               counters[0], counters[1]);
}

static void onesided_shared(struct check *check)
{
    const uint64_t key = check_key(check);
    struct check_comm comm;
    int *own, to, from;
    struct side s;
    MPI_Comm node;
    MPI_Win win;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    comm = check_comm_of("one host", node);
    to = (comm.rank + 1) % comm.size;
    from = (comm.rank + comm.size - 1) % comm.size;
    MPI_Win_allocate_shared(SHARED_INTS * sizeof *own, sizeof *own, MPI_INFO_NULL, node, &own,
                            &win);
    s = side_of(&comm, win, to, from);
    shared_loads(check, &s, own, key);
    for (enum sync sync = FENCE; sync < SYNCS; sync++)
        shared_put_get(check, &s, sync, own, from);
    shared_adds(check, &s);
    side_free(&s);
    MPI_Comm_free(&node);
}

void check_onesided(struct check *check, const struct check_comm *comms, size_t count)
{
    /* the same at all ranks */
    const size_t other = count > 1 ? 1 + check_key(check) % (count - 1) : 0;

    for (size_t c = 0; c < count; c++) {
        if (check->quick && c != 0 && c != other)
            continue;
        check_epoch(check);
        if (c == 0 || check->full)
            onesided_sizes(check, &comms[c]);
        onesided_random(check, &comms[c]);
        onesided_layouts(check, &comms[c]);
    }
    onesided_shared(check);
}
