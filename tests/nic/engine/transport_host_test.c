/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_host_test.c - libfabemu adapters on a running fabric with faulty cables: random
 * messages, puts, gets and atomics, and the collectives and broadcast puts of a group; every byte
 * is checked, and every operation happens exactly once.
 *
 * One thread steps all adapters, and so acts for every process; the fabric's workers are threads.
 * Every node keeps some operations of each kind in progress to random other nodes. The seed, the
 * node and the number define each operation.
 */
#include <sched.h>
#include <string.h>

#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/host/adapters.h"

#define NODES_MAX     32u
#define DEPTH         4u      /* operations of one kind in progress at a node */
#define BYTES_MAX     100000u /* largest operation */
#define BROADCAST_MAX 20000u  /* largest broadcast, broadcast put, or reduction */
#define GUARD         64u     /* bytes after a buffer that must stay unwritten */
#define GUARD_BYTE    0xa5
#define GIVE_UP_NS    UINT64_C(60000000000) /* without any completion: a hang */

enum kind { KIND_SEND, KIND_PUT, KIND_GET, KIND_ATOMIC, KIND_BROADCAST, KINDS };

/* Words of a node that the others change by atomics. */
enum word {
    WORD_SUM,    /* random numbers are added */
    WORD_TICKET, /* fetch-and-add of 1: each old value is returned once */
    WORD_XOR,
    WORD_CAS,    /* counts successful compare-and-swaps */
    WORD_DOUBLE, /* whole numbers are added */
    WORDS
};

/* The collectives of the group run one after the other; the number selects which one. */
enum together { TOGETHER_BARRIER, TOGETHER_BROADCAST, TOGETHER_REDUCE, TOGETHER_ALLREDUCE };

/* An operation of a node. */
struct action {
    struct fabemu_req req;
    uint32_t peer;
    uint32_t bytes;
    uint64_t key;     /* identifies its bytes */
    uint64_t offset;  /* gets */
    enum word word;   /* atomics: the word, */
    uint64_t compare; /* CAS: the expected value, */
    uint64_t before;  /* the old value */
    uint8_t *buf;     /* its buffer, BYTES_MAX + GUARD */
    bool busy;
};

struct member {
    struct fabemu *fab;
    struct fabemu_queue *queue;
    uint64_t random;
    uint8_t *source; /* BYTES_MAX * 2: source of the other nodes' gets; never changes */
    uint8_t *target; /* [node][slot]: targets of the other nodes' puts, BYTES_MAX + GUARD each */
    uint8_t *cast;   /* [node][slot]: targets of broadcast puts, BROADCAST_MAX + GUARD each */
    uint64_t source_key, target_key, broadcast_key, word_key;
    alignas(8) uint64_t word[WORDS];
    uint64_t sum, xor, cas, doubles; /* expected sums of the other nodes' atomics */
    uint8_t *tickets;                /* how often each ticket was drawn */
    uint64_t seen[NODES_MAX];        /* last known value of each node's WORD_CAS */
    struct action action[KINDS][DEPTH];
    struct action recv[DEPTH];
    uint32_t left[KINDS];         /* operations left to start */
    uint32_t sent[NODES_MAX];     /* messages, by destination */
    uint8_t *arrivals[NODES_MAX]; /* by source: how often each of its messages arrived */
    uint32_t arrived_all, sent_all;
    struct fabemu_group *group;
    struct fabemu_req together_req;
    uint32_t together; /* collectives started so far */
    bool together_busy;
    uint8_t *in, *out; /* their buffers: BROADCAST_MAX */
};

struct setting {
    const char *topo;
    uint32_t threads;
    uint32_t each; /* of a million entries: losses, corruptions, duplicates, delays; */
    /* only in one direction of two: entries of other cables are taken by the packet */
    bool some;
    uint32_t count; /* operations of each kind and node */
    enum emu_clock_mode clock;
};

struct fixture {
    struct topo_graph *graph;
    struct fabric *fabric;
    uint32_t nodes;
    uint32_t count;
    uint64_t seed;
    uint32_t wrong; /* errors; only the first ones are reported one by one */
    uint32_t done;
    uint32_t group;
    uint32_t *entered; /* by collective: members that have started it */
    struct member member[NODES_MAX];
};

static void wrong(struct fixture *w, const char *what, uint32_t node, uint32_t peer,
                  uint64_t number)
{
    if (!w->wrong++)
        printf("\n  node %u, peer %u, number %llu: %s; again: " TEST_SEED "=%llu\n", node, peer,
               (unsigned long long)number, what, (unsigned long long)test_seed());
}

/* --- create and destroy ------------------------------------------------------------- */

static void attach(struct fixture *w, uint32_t n)
{
    struct fabemu_info info = {.fabric = "transport",
                               .node = n,
                               .nodes = w->nodes,
                               .incarnation = n + 1,
                               .acknowledged = true};
    struct member *m = &w->member[n];

    m->fab = adapters_open(w->fabric, &info);
    CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(m->fab, 1, &m->queue), 0);
    CU_ASSERT_EQUAL_FATAL(fabemu_group_join(m->fab, w->group, w->nodes, &m->group), 0);
}

static uint8_t *guarded(void)
{
    uint8_t *buf = malloc(BYTES_MAX + GUARD);

    memset(buf, GUARD_BYTE, BYTES_MAX + GUARD);
    return buf;
}

static void member_open(struct fixture *w, uint32_t n)
{
    struct member *m = &w->member[n];
    size_t targets = (size_t)w->nodes * DEPTH * (BYTES_MAX + GUARD);

    m->random = emu_mix(w->seed + n);
    m->source = malloc(2 * BYTES_MAX);
    m->target = malloc(targets);
    bytes_fill(m->source, 2 * BYTES_MAX, w->seed ^ n);
    memset(m->target, GUARD_BYTE, targets);
    attach(w, n);
    CU_ASSERT_EQUAL_FATAL(fabemu_register(m->fab, m->source, 2 * BYTES_MAX, FABEMU_REMOTE_READ,
                                          &m->source_key),
                          0);
    CU_ASSERT_EQUAL_FATAL(fabemu_register(m->fab, m->target, targets, FABEMU_REMOTE_WRITE,
                                          &m->target_key),
                          0);
    CU_ASSERT_EQUAL_FATAL(fabemu_register(m->fab, m->word, sizeof m->word, FABEMU_REMOTE_ATOMIC,
                                          &m->word_key),
                          0);
    m->cast = calloc(w->nodes * DEPTH, BROADCAST_MAX + GUARD);
    m->in = malloc(BROADCAST_MAX);
    m->out = malloc(BROADCAST_MAX);
    m->tickets = calloc(w->count * w->nodes + 1, 1);
    for (uint32_t d = 0; d < DEPTH; d++) {
        m->recv[d].buf = guarded();
        for (uint32_t k = 0; k < KINDS; k++)
            m->action[k][d].buf = guarded();
    }
    for (uint32_t k = 0; k < KINDS; k++)
        m->left[k] = w->count;
    for (uint32_t src = 0; src < w->nodes; src++)
        m->arrivals[src] = calloc(w->count + 1, 1);
}

/* Register the memory for broadcast puts: the group's first collective. */
static void register_symmetric(struct fixture *w)
{
    uint64_t began_ns = emu_now_ns();
    uint32_t left = w->nodes;

    for (uint32_t n = 0; n < w->nodes; n++) {
        struct member *m = &w->member[n];

        CU_ASSERT_EQUAL_FATAL(fabemu_register_symmetric(m->group, m->cast,
                                                        w->nodes * DEPTH * (BROADCAST_MAX + GUARD),
                                                        FABEMU_REMOTE_WRITE, &m->broadcast_key,
                                                        &m->together_req),
                              0);
    }
    while (left && emu_now_ns() - began_ns < GIVE_UP_NS) {
        left = 0;
        for (uint32_t n = 0; n < w->nodes; n++)
            left += !fabemu_test(w->member[n].fab, &w->member[n].together_req);
        sched_yield();
    }
    CU_ASSERT_EQUAL_FATAL(left, 0);
    for (uint32_t n = 0; n < w->nodes; n++)
        CU_ASSERT_EQUAL_FATAL(w->member[n].together_req.status, 0);
}

/* Apply the faults to a random direction of each cable. */
static void spoil_some(struct fixture *w, const struct emu_fault_rates *rates)
{
    uint64_t random = w->seed;

    fabric_pause(w->fabric);
    for (uint32_t i = 0; i < 2 * fabric_cable_count(w->fabric); i++) {
        struct emu_faults *faults = bytes_below(&random, 2) ? fabric_faults(w->fabric, i / 2, i % 2)
                                                            : NULL;

        if (faults)
            faults->rates = *rates;
    }
    fabric_resume(w->fabric);
}

static void fixture_open(struct fixture *w, const struct setting *set)
{
    const struct emu_fault_rates rates = {.lost = set->each,
                                          .head = set->each / 2,
                                          .payload = set->each / 2,
                                          .duplicated = set->each,
                                          .late = set->each,
                                          .late_ps = 2000000};
    struct fabric_config config = {.name = "transport",
                                   .clock = set->clock,
                                   .seed = test_seed(),
                                   .threads = set->threads,
                                   .faults = set->each && !set->some ? &rates : NULL};

    memset(w, 0, sizeof *w);
    w->seed = test_seed();
    w->count = set->count;
    fixture_profile(&config.profile, "qsnet3", NULL);
    w->fabric = fixture_fabric_start(&w->graph, set->topo, NODES_MAX, &config);
    w->nodes = w->graph->nodes;
    if (set->some)
        spoil_some(w, &rates);
    w->entered = calloc(w->count + 1, sizeof *w->entered);
    w->group = fixture_group_of_first(w->fabric, w->nodes);
    for (uint32_t n = 0; n < w->nodes; n++)
        member_open(w, n);
    register_symmetric(w);
}

static void member_close(struct fixture *w, uint32_t n)
{
    struct member *m = &w->member[n];

    fabemu_queue_close(m->queue);
    fabemu_group_leave(m->group);
    nic_close(m->fab);
    fabric_detach(w->fabric, n);
    for (uint32_t d = 0; d < DEPTH; d++) {
        free(m->recv[d].buf);
        for (uint32_t k = 0; k < KINDS; k++)
            free(m->action[k][d].buf);
    }
    for (uint32_t src = 0; src < w->nodes; src++)
        free(m->arrivals[src]);
    free(m->source);
    free(m->target);
    free(m->cast);
    free(m->tickets);
    free(m->in);
    free(m->out);
}

static void fixture_close(struct fixture *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        member_close(w, n);
    fixture_fabric_stop(w->fabric, w->graph);
    free(w->entered);
}

/* --- operations --------------------------------------------------------------------- */

/* Offset of the put target of @src's slot @d at its destination. */
static uint64_t target_at(uint32_t src, uint32_t d)
{
    return ((uint64_t)src * DEPTH + d) * (BYTES_MAX + GUARD);
}

/* The bytes of message @number from @src to @dst. */
static uint64_t message_key(const struct fixture *w, uint32_t src, uint32_t dst, uint32_t number)
{
    return emu_mix(w->seed ^ emu_mix((uint64_t)src << 48 | (uint64_t)dst << 32 | number));
}

/* Small, medium and large sizes. */
static uint32_t draw_bytes(struct member *m)
{
    static const uint32_t most[] = {192, 8192, BYTES_MAX};

    return bytes_below(&m->random, most[bytes_below(&m->random, 3)] + 1);
}

static int begin_send(struct fixture *w, uint32_t n, struct action *a)
{
    struct member *m = &w->member[n];
    uint32_t number = m->sent[a->peer]++;
    struct fabemu_dest dest = {.node = a->peer,
                               .queue = 1,
                               .tag = number,
                               .data = (uint64_t)n << 32 | a->bytes};
    struct fabemu_iov iov = {.base = a->buf, .bytes = a->bytes};

    bytes_fill(a->buf, a->bytes, message_key(w, n, a->peer, number));
    m->sent_all++;
    return fabemu_send(m->queue, &dest, &iov, 1, &a->req);
}

static int begin_put(struct fixture *w, uint32_t n, struct action *a, uint32_t d)
{
    struct member *m = &w->member[n];

    a->key = emu_mix(m->random);
    bytes_fill(a->buf, a->bytes, a->key);
    memset(w->member[a->peer].target + target_at(n, d) + a->bytes, GUARD_BYTE, GUARD);
    return fabemu_put(m->fab, a->peer, w->member[a->peer].target_key, target_at(n, d), a->buf,
                      a->bytes, &a->req);
}

static int begin_get(struct fixture *w, uint32_t n, struct action *a)
{
    struct member *m = &w->member[n];

    a->offset = bytes_below(&m->random, 2 * BYTES_MAX - a->bytes + 1);
    memset(a->buf + a->bytes, GUARD_BYTE, GUARD);
    return fabemu_get(m->fab, a->peer, w->member[a->peer].source_key, a->offset, a->buf, a->bytes,
                      &a->req);
}

static int begin_atomic(struct fixture *w, uint32_t n, struct action *a)
{
    struct member *m = &w->member[n], *peer = &w->member[a->peer];
    uint64_t operand = 1;
    struct fabemu_atomic what = {.node = a->peer,
                                 .key = peer->word_key,
                                 .type = FABEMU_U64,
                                 .op = FABEMU_ATOMIC_ADD,
                                 .operand = &operand,
                                 .result = &a->before};
    double number;

    a->word = bytes_below(&m->random, WORDS);
    what.offset = a->word * sizeof(uint64_t);
    switch (a->word) {
    case WORD_SUM:
        operand = emu_mix(m->random);
        peer->sum += operand;
        what.result = NULL;
        break;
    case WORD_XOR:
        operand = emu_mix(m->random);
        peer->xor ^= operand;
        what.op = FABEMU_ATOMIC_XOR;
        break;
    case WORD_CAS:
        a->compare = m->seen[a->peer];
        operand = a->compare + 1;
        what.op = FABEMU_ATOMIC_CAS;
        what.compare = &a->compare;
        break;
    case WORD_DOUBLE:
        number = bytes_below(&m->random, 1000);
        peer->doubles += (uint64_t)number;
        memcpy(&operand, &number, sizeof operand);
        what.type = FABEMU_F64;
        break;
    case WORD_TICKET:
    case WORDS:
        break;
    }
    return fabemu_atomic(m->fab, &what, &a->req);
}

/* Offset of the broadcast put target of @src's slot @d at each member. */
static uint64_t broadcast_at(uint32_t src, uint32_t d)
{
    return ((uint64_t)src * DEPTH + d) * (BROADCAST_MAX + GUARD);
}

static int begin_broadcast(struct fixture *w, uint32_t n, struct action *a, uint32_t d)
{
    struct member *m = &w->member[n];

    a->bytes = bytes_below(&m->random, bytes_below(&m->random, 2) ? BROADCAST_MAX : 300) + 1;
    a->key = emu_mix(m->random);
    bytes_fill(a->buf, a->bytes, a->key);
    for (uint32_t to = 0; to < w->nodes; to++)
        memset(w->member[to].cast + broadcast_at(n, d) + a->bytes, GUARD_BYTE, GUARD);
    return fabemu_broadcast_put(m->group, m->broadcast_key, broadcast_at(n, d), a->buf, a->bytes,
                                &a->req);
}

static void begin(struct fixture *w, uint32_t n, enum kind kind, uint32_t d)
{
    struct member *m = &w->member[n];
    struct action *a = &m->action[kind][d];
    int err = 0;

    m->left[kind]--;
    memset(&a->req, 0, sizeof a->req);
    a->busy = true;
    a->peer = bytes_below(&m->random, w->nodes); /* including itself */
    a->bytes = draw_bytes(m);
    switch (kind) {
    case KIND_SEND:
        err = begin_send(w, n, a);
        break;
    case KIND_PUT:
        err = begin_put(w, n, a, d);
        break;
    case KIND_GET:
        err = begin_get(w, n, a);
        break;
    case KIND_ATOMIC:
        err = begin_atomic(w, n, a);
        break;
    case KIND_BROADCAST:
        err = begin_broadcast(w, n, a, d);
        break;
    case KINDS:
        break;
    }
    if (err)
        wrong(w, "not begun", n, a->peer, kind);
}

/* Are the guard bytes unchanged? */
static bool is_guarded(const uint8_t *behind)
{
    for (uint32_t g = 0; g < GUARD; g++)
        if (behind[g] != GUARD_BYTE)
            return false;
    return true;
}

/* Are all bytes right and the guard bytes unchanged? */
static bool is_right(const uint8_t *buf, uint64_t key, uint32_t bytes)
{
    return is_guarded(buf + bytes) && bytes_filled(buf, bytes, key);
}

static void end_atomic(struct fixture *w, uint32_t n, struct action *a)
{
    struct member *peer = &w->member[a->peer];

    if (a->word == WORD_TICKET) {
        if (a->before >= (uint64_t)w->count * w->nodes || peer->tickets[a->before]++)
            wrong(w, "a ticket was drawn twice", n, a->peer, a->before);
    } else if (a->word == WORD_CAS) {
        peer->cas += a->before == a->compare;
        w->member[n].seen[a->peer] = a->before + (a->before == a->compare);
    }
}

/*
 * The put is on its way to all members' processes, ahead of everything they receive from now on.
 * The host's scheduler decides when a worker notifies them.
 */
static void end_broadcast(struct fixture *w, uint32_t n, const struct action *a, uint32_t d)
{
    for (uint32_t to = 0; to < w->nodes; to++) {
        const uint8_t *at = w->member[to].cast + broadcast_at(n, d);
        uint64_t began_ns = emu_now_ns();

        while (!is_right(at, a->key, a->bytes) && emu_now_ns() - began_ns < GIVE_UP_NS) {
            fabemu_progress(w->member[to].fab);
            sched_yield();
        }
        if (!is_right(at, a->key, a->bytes))
            wrong(w, "a broadcast put's bytes are wrong", n, to, d);
    }
}

static void failed(struct fixture *w, uint32_t n, enum kind kind, const struct action *a)
{
    static const char *const names[] = {"a message", "a put", "a get", "an atomic",
                                        "a broadcast put"};
    struct fabric_totals totals;
    char what[160];

    fabric_totals_read(w->fabric, &totals);
    snprintf(what, sizeof what, "%s of %u bytes failed: %s (%llu segments given up)", names[kind],
             a->bytes, strerror(-a->req.status), (unsigned long long)totals.transport.lost);
    wrong(w, what, n, a->peer, kind);
}

static void end(struct fixture *w, uint32_t n, enum kind kind, uint32_t d)
{
    struct action *a = &w->member[n].action[kind][d];
    const struct member *peer = &w->member[a->peer];

    a->busy = false;
    w->done++;
    if (a->req.status)
        failed(w, n, kind, a);
    else if (kind == KIND_ATOMIC)
        end_atomic(w, n, a);
    else if (kind == KIND_BROADCAST)
        end_broadcast(w, n, a, d);
    else if (kind == KIND_PUT && !is_right(peer->target + target_at(n, d), a->key, a->bytes))
        wrong(w, "a put's bytes are wrong", n, a->peer, d);
    else if (kind == KIND_GET &&
             (memcmp(a->buf, peer->source + a->offset, a->bytes) || !is_guarded(a->buf + a->bytes)))
        wrong(w, "a get's bytes are wrong", n, a->peer, d);
}

static void post_recv(struct fixture *w, uint32_t n, struct action *a)
{
    struct fabemu_iov iov = {.base = a->buf, .bytes = BYTES_MAX};

    memset(&a->req, 0, sizeof a->req);
    memset(a->buf, GUARD_BYTE, BYTES_MAX + GUARD);
    a->busy = true;
    if (fabemu_recv(w->member[n].queue, FABEMU_ANY_NODE, 0, UINT64_MAX, &iov, 1, &a->req))
        wrong(w, "no receive", n, n, 0);
}

/* A message arrived: was it sent to this node, and is it the first copy? */
static void finish_recv(struct fixture *w, uint32_t n, struct action *a)
{
    struct member *m = &w->member[n];
    const struct fabemu_req *req = &a->req;
    uint32_t src = req->src_node, number = (uint32_t)req->tag;

    w->done++;
    m->arrived_all++;
    if (req->status || src >= w->nodes || number >= w->member[src].sent[n] ||
        req->data != ((uint64_t)src << 32 | req->bytes))
        wrong(w, "not a message that was sent", n, src, number);
    else if (m->arrivals[src][number]++)
        wrong(w, "a message arrived twice", n, src, number);
    else if (!is_right(a->buf, message_key(w, src, n, number), (uint32_t)req->bytes))
        wrong(w, "a message's bytes are wrong", n, src, number);
    post_recv(w, n, a);
}

/* --- collectives -------------------------------------------------------------------- */

struct joint {
    enum together what;
    uint32_t root;
    uint32_t bytes; /* a multiple of 8 */
    uint64_t key;
};

static struct joint joint_of(const struct fixture *w, uint32_t number)
{
    uint64_t state = w->seed * 31 + number;

    return (struct joint){.what = bytes_below(&state, 4),
                          .root = bytes_below(&state, w->nodes),
                          .bytes = 8 * bytes_below(&state, BROADCAST_MAX / 8 + 1),
                          .key = state};
}

/* The values that node @n contributes to a reduction. */
static int64_t joint_value(const struct joint *joint, uint32_t n, uint32_t i)
{
    return (int64_t)(emu_mix(joint->key + i) >> 16) * (n + 1);
}

static void joint_begin(struct fixture *w, uint32_t n)
{
    struct member *m = &w->member[n];
    struct joint joint = joint_of(w, m->together);
    int64_t *in = (int64_t *)(void *)m->in;
    int err = 0;

    w->entered[m->together]++;
    memset(&m->together_req, 0, sizeof m->together_req);
    m->together_busy = true;
    memset(m->out, 0, BROADCAST_MAX);
    for (uint32_t i = 0; i < joint.bytes / 8; i++)
        in[i] = joint_value(&joint, n, i);
    if (joint.root == n && joint.what == TOGETHER_BROADCAST)
        bytes_fill(m->out, joint.bytes, joint.key);
    switch (joint.what) {
    case TOGETHER_BARRIER:
        err = fabemu_barrier(m->group, &m->together_req);
        break;
    case TOGETHER_BROADCAST:
        err = fabemu_broadcast(m->group, m->out, joint.bytes, joint.root, &m->together_req);
        break;
    case TOGETHER_REDUCE:
        err = fabemu_reduce(m->group, m->in, m->out, joint.bytes / 8, FABEMU_SUM, FABEMU_I64,
                            joint.root, &m->together_req);
        break;
    case TOGETHER_ALLREDUCE:
        err = fabemu_allreduce(m->group, m->in, m->out, joint.bytes / 8, FABEMU_SUM, FABEMU_I64,
                               &m->together_req);
        break;
    }
    if (err)
        wrong(w, "a collective was not begun", n, joint.root, m->together);
}

static bool sums_right(const struct fixture *w, const struct joint *joint, const uint8_t *out)
{
    const int64_t *sum = (const int64_t *)(const void *)out;

    for (uint32_t i = 0; i < joint->bytes / 8; i++) {
        int64_t want = 0;

        for (uint32_t n = 0; n < w->nodes; n++)
            want += joint_value(joint, n, i);
        if (sum[i] != want)
            return false;
    }
    return true;
}

static void joint_end(struct fixture *w, uint32_t n)
{
    struct member *m = &w->member[n];
    struct joint joint = joint_of(w, m->together);
    bool right = true;

    w->done++;
    m->together_busy = false;
    if (m->together_req.status)
        wrong(w, "a collective failed", n, joint.root, m->together);
    else if (joint.what == TOGETHER_BARRIER)
        right = w->entered[m->together] == w->nodes;
    else if (joint.what == TOGETHER_BROADCAST)
        right = bytes_filled(m->out, joint.bytes, joint.key);
    else if (joint.what == TOGETHER_ALLREDUCE || joint.root == n)
        right = sums_right(w, &joint, m->out);
    if (!right)
        wrong(w, "a collective's result is wrong", n, joint.root, m->together);
    m->together++;
}

/* Returns the number of collectives in progress here. */
static uint32_t joint_step(struct fixture *w, uint32_t n)
{
    struct member *m = &w->member[n];

    if (m->together_busy && fabemu_req_status(&m->together_req) != FABEMU_PENDING)
        joint_end(w, n);
    if (!m->together_busy && m->together < w->count)
        joint_begin(w, n);
    return m->together_busy;
}

/* --- run ---------------------------------------------------------------------------- */

/* Start and finish operations where possible. Returns how many are in progress or left to start. */
static uint32_t member_step(struct fixture *w, uint32_t n)
{
    struct member *m = &w->member[n];
    uint32_t left;

    fabemu_progress(m->fab);
    left = joint_step(w, n);
    for (uint32_t d = 0; d < DEPTH; d++) {
        if (!m->recv[d].busy)
            post_recv(w, n, &m->recv[d]);
        else if (fabemu_req_status(&m->recv[d].req) != FABEMU_PENDING)
            finish_recv(w, n, &m->recv[d]);
        for (enum kind k = 0; k < KINDS; k++) {
            struct action *a = &m->action[k][d];

            if (a->busy && fabemu_req_status(&a->req) != FABEMU_PENDING)
                end(w, n, k, d);
            if (!a->busy && m->left[k])
                begin(w, n, k, d);
            left += a->busy;
        }
    }
    return left;
}

/* Run until everything has ended and every message has arrived. Returns false if nothing moves. */
static bool run(struct fixture *w)
{
    uint64_t still_ns = emu_now_ns();
    uint32_t left = 1, done = 0;

    while (left && !w->wrong) {
        uint32_t sent = 0, arrivals = 0;

        left = 0;
        for (uint32_t n = 0; n < w->nodes; n++) {
            left += member_step(w, n);
            sent += w->member[n].sent_all;
            arrivals += w->member[n].arrived_all;
        }
        left += sent - arrivals;
        if (w->done != done) {
            done = w->done;
            still_ns = emu_now_ns();
        } else if (emu_now_ns() - still_ns > GIVE_UP_NS) {
            printf("\n  %u are left, %u messages of %u arrived\n", left, arrivals, sent);
            return false;
        } else {
            sched_yield();
        }
    }
    return !w->wrong;
}

/* No adapter received a segment too many. */
static bool clean(const struct fabemu *fab)
{
    static const struct nic_counts none;

    return !memcmp(&fab->counts, &none, sizeof none);
}

/* The last put of each slot is still in memory: no older one arrived after it. */
static void check_targets(struct fixture *w)
{
    for (uint32_t n = 0; n < w->nodes; n++)
        for (uint32_t d = 0; d < DEPTH; d++) {
            const struct action *a = &w->member[n].action[KIND_PUT][d];

            if (!is_right(w->member[a->peer].target + target_at(n, d), a->key, a->bytes))
                wrong(w, "a put was overwritten", n, a->peer, d);
        }
}

/* The words show that every atomic was executed once. */
static void check_words(struct fixture *w)
{
    for (uint32_t n = 0; n < w->nodes; n++) {
        const struct member *m = &w->member[n];
        uint64_t tickets = 0;
        double doubles;

        memcpy(&doubles, &m->word[WORD_DOUBLE], sizeof doubles);
        for (uint32_t t = 0; t < w->count * w->nodes; t++)
            tickets += m->tickets[t];
        if (m->word[WORD_SUM] != m->sum || m->word[WORD_XOR] != m->xor ||
            m->word[WORD_CAS] != m->cas || m->word[WORD_TICKET] != tickets ||
            doubles != (double)m->doubles)
            wrong(w, "an atomic was not done exactly once", n, n, 0);
    }
}

static struct fabric_totals run_setting(const struct setting *set)
{
    struct fabric_totals totals;
    struct fixture w;

    fixture_open(&w, set);
    CU_ASSERT_TRUE(run(&w));
    check_targets(&w);
    check_words(&w);
    CU_ASSERT_EQUAL(w.wrong, 0);
    for (uint32_t n = 0; n < w.nodes; n++)
        CU_ASSERT_TRUE(clean(w.member[n].fab));
    fabric_totals_read(w.fabric, &totals);
    CU_ASSERT_EQUAL(totals.transport.lost, 0);
    CU_ASSERT_EQUAL(totals.transport.refused, 0);
    CU_ASSERT_EQUAL(totals.dropped_nobody_attached, 0);
    CU_ASSERT_TRUE(set->each || !totals.dropped_malformed); /* corrupted headers count there */
    fixture_close(&w);
    return totals;
}

/* --- cases -------------------------------------------------------------------------- */

static uint32_t operations; /* of each kind and node; 0: each case's own count */

static uint32_t count_or(uint32_t otherwise)
{
    return operations ? operations : otherwise;
}

static void raw__over_good_cables(void)
{
    run_setting(&(struct setting){.topo = "kary:4,1", .threads = 1, .count = count_or(60)});
    run_setting(&(struct setting){.topo = "qsnet:8,links=2", .threads = 2, .count = count_or(20)});
}

static void raw__over_bad_cables(void)
{
    struct fabric_totals totals = run_setting(
        &(struct setting){.topo = "kary:2,2", .threads = 2, .each = 1000, .count = count_or(24)});

    CU_ASSERT_TRUE(totals.transport.retransmissions > 0);
    CU_ASSERT_TRUE(totals.transport.duplicates > 0);
}

static void raw__over_bad_cables_and_two_links(void)
{
    run_setting(&(struct setting){
        .topo = "qsnet:8,links=2", .threads = 2, .each = 300, .count = count_or(12)});
}

static void raw__over_some_bad_cables(void)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct fabric_totals totals = run_setting(&(struct setting){.topo = "kary:2,2",
                                                                    .threads = threads,
                                                                    .each = 1000,
                                                                    .some = true,
                                                                    .count = count_or(24)});

        CU_ASSERT_TRUE(totals.transport.retransmissions > 0);
    }
}

static void real__over_bad_cables(void)
{
    run_setting(&(struct setting){.topo = "kary:2,2",
                                  .threads = 1,
                                  .each = 500,
                                  .count = count_or(8),
                                  .clock = EMU_CLOCK_REAL});
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(raw__over_good_cables),
        CASE(raw__over_bad_cables),
        CASE(raw__over_bad_cables_and_two_links),
        CASE(raw__over_some_bad_cables),
        CASE(real__over_bad_cables),
        {NULL, NULL},
    };

    setenv("FABEMU_PEER_TIMEOUT_MS", "120000", 0); /* a slow host is not a failed peer */
    operations = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    return test_run("transport_host", cases);
}
