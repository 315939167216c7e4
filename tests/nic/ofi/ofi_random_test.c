/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_random_test.c - random programs of several processes over libfabric, with every byte checked:
 * ofi_random_test [SEED (default 1) [OPERATIONS (default 300) [kill]]]
 *
 * Each process sends to, writes to, reads from and adds to all others, in an order that the seed
 * determines. Both sides check the bytes: those around a received message and around a read must be
 * unchanged, and so must the source of each operation; at the end each process checks its window.
 * Over a fabric with faults an operation may fail with FI_EHOSTUNREACH, which ends the use of that
 * peer on both sides, but a successful one must have the right data. With `kill`, one process is
 * killed, and a successor takes its node: no operation for the first may reach the second. The
 * status of this program is then 0, but that of `fabemu run` is 1, because a process died.
 *
 * Needs a fabric of at least PROCESSES nodes: `fabemu run --keep-going -- build/tests/…`. The
 * processes are at successive nodes, or $FABEMU_TEST_STRIDE nodes apart.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "emu/util/random.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define PROCESSES  3u
#define VICTIM     (PROCESSES - 1) /* the process that `kill` kills */
#define MOST_BYTES 70000u          /* more than an adapter sends without an announcement */
#define SLOT_BYTES 20000u
#define LIMIT_S    90
#define GAP        0x5a /* bytes that must stay as they are */

static const struct ofi_fixture_config config = {.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA | FI_ATOMIC,
                                                 .format = FI_CQ_FORMAT_TAGGED,
                                                 .wait_obj = FI_WAIT_UNSPEC};

/* The latest write to a slot, which covers all of it. */
struct written {
    uint64_t key;
    bool failed; /* the slot has bytes of this write, or of earlier ones */
};

/* What all processes share, by process. */
struct board {
    char name[PROCESSES][OFI_FIXTURE_ADDR_BYTES];
    uint64_t key[PROCESSES];
    _Atomic uint32_t ready, finished;
    struct written written[PROCESSES][PROCESSES]; /* by source and target */
    uint64_t added[PROCESSES][PROCESSES];
    /* the first process does not use the second any more. If they had not connected when a link
       broke, the second one gets no error */
    _Atomic bool gone[PROCESSES][PROCESSES];
    uint32_t limit;                         /* number of operations of each process */
    _Atomic uint32_t operations[PROCESSES]; /* how many it has begun */
};

/* What peers may access: a slot and a counter for each. */
struct window {
    uint64_t count[PROCESSES];
    unsigned char slot[PROCESSES][SLOT_BYTES];
};

struct peer {
    fi_addr_t addr;
    uint64_t sent, received; /* messages */
    uint64_t added;          /* to its counter */
    bool gone;               /* an operation has failed: it is not used any more */
    bool ended;              /* it has sent its last message, or is gone */
    unsigned char in[MOST_BYTES];
};

struct process {
    struct board *board;
    struct ofi_fixture f;
    struct fid_mr *mr;
    uint32_t self;
    uint64_t seed, random;
    struct window window;
    struct peer peer[PROCESSES];
    /* the operation for which the process waits; the only one in flight, except receives and
       operations with peers that are gone */
    uint64_t operation; /* its context */
    bool pending;
    int error; /* of that operation */
};

static void fail(const struct process *p, const char *what)
{
    fprintf(stderr, "ofi_random_test: seed %llu, process %u: %s\n", (unsigned long long)p->seed,
            p->self, what);
    _exit(1);
}

static void must(const struct process *p, bool holds, const char *what)
{
    if (!holds)
        fail(p, what);
}

static uint32_t draw(struct process *p, uint32_t below)
{
    return (uint32_t)(emu_splitmix(&p->random) % below);
}

static uint64_t tag_of(uint32_t from, uint64_t number)
{
    return (uint64_t)from << 32 | number;
}

/* The key of the bytes of message @number between two processes; its size follows from it. */
static uint64_t message_key(const struct process *p, uint32_t from, uint32_t to, uint64_t number)
{
    uint64_t state = p->seed + ((uint64_t)from << 40) + ((uint64_t)to << 32) + number;

    return emu_splitmix(&state);
}

static size_t message_bytes(uint64_t key)
{
    return key & 1 ? key / 2 % 300 : key / 2 % MOST_BYTES;
}

static void peer_gone(struct process *p, struct peer *peer)
{
    peer->gone = true;
    peer->ended = true;
    atomic_store(&p->board->gone[p->self][peer - p->peer], true);
}

/* Stop using the peers that do not use this process any more. */
static void peers_check(struct process *p)
{
    for (uint32_t i = 0; i < PROCESSES; i++)
        if (!p->peer[i].gone && atomic_load(&p->board->gone[i][p->self]))
            peer_gone(p, &p->peer[i]);
}

static bool is_peer(const struct process *p, const void *context)
{
    return (uintptr_t)context >= (uintptr_t)p->peer &&
           (uintptr_t)context < (uintptr_t)(p->peer + PROCESSES);
}

static void receive(struct process *p, uint32_t from)
{
    struct peer *peer = &p->peer[from];

    memset(peer->in, GAP, sizeof peer->in);
    must(p,
         !fi_trecv(p->f.a.ep, peer->in, sizeof peer->in, NULL, peer->addr,
                   tag_of(from, peer->received), 0, peer),
         "a receive can be posted");
}

/* Return whether nothing was written to these bytes. */
static bool is_gap(const unsigned char *at, size_t bytes)
{
    return !bytes || (at[0] == GAP && !memcmp(at, at + 1, bytes - 1));
}

static void message_arrived(struct process *p, struct peer *peer,
                            const struct fi_cq_tagged_entry *entry)
{
    uint32_t from = (uint32_t)(peer - p->peer);
    uint64_t key = message_key(p, from, p->self, peer->received);

    must(p, entry->tag == tag_of(from, peer->received), "messages arrive in order");
    if (entry->flags & FI_REMOTE_CQ_DATA) { /* its last one */
        must(p, entry->len == 0, "the last message is empty");
        peer->ended = true;
        return;
    }
    must(p, entry->len == message_bytes(key) && bytes_filled(peer->in, entry->len, key),
         "a message has the right bytes");
    must(p, is_gap(peer->in + entry->len, sizeof peer->in - entry->len),
         "nothing is written behind a message");
    peer->received++;
    receive(p, from);
}

/*
 * Read one entry of the queue, if there is any. Contexts: a peer's for receives, p->operation for
 * others.
 */
static void progress(struct process *p)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got = draw(p, 2) ? fi_cq_read(p->f.a.cq, &entry, 1)
                             : fi_cq_sread(p->f.a.cq, &entry, 1, NULL, 0);
    void *context = entry.op_context;

    if (got == -FI_EAGAIN) {
        peers_check(p);
        sched_yield();
        return;
    }
    if (got == -FI_EAVAIL) {
        must(p, fi_cq_readerr(p->f.a.cq, &error, 0) == 1, "an error can be read");
        must(p, error.err == FI_EHOSTUNREACH, fi_strerror(error.err));
        context = error.op_context;
    }
    if ((uintptr_t)context == p->operation) {
        p->pending = false;
        p->error = error.err;
    } else if (!is_peer(p, context)) {
        return; /* an operation with a peer that is gone */
    } else if (error.err) {
        peer_gone(p, context);
    } else if (!((struct peer *)context)->gone) {
        message_arrived(p, context, &entry);
    }
}

#define OPERATION(p) ((void *)(uintptr_t)(p)->operation)

/* Start an operation, by a call that may have to be repeated, and wait until it is complete. */
#define COMPLETE(p, peer, call)                          \
    do {                                                 \
        ssize_t err_;                                    \
        (p)->pending = true;                             \
        (p)->operation++;                                \
        while ((err_ = (call)) == -FI_EAGAIN)            \
            progress(p);                                 \
        must((p), !err_, "an operation can be started"); \
        while ((p)->pending && !(peer)->gone)            \
            progress(p);                                 \
        if ((p)->pending || (p)->error)                  \
            peer_gone(p, peer);                          \
    } while (0)

static void send_to(struct process *p, uint32_t to, bool last)
{
    static unsigned char out[MOST_BYTES];
    struct peer *peer = &p->peer[to];
    uint64_t key = message_key(p, p->self, to, peer->sent), tag = tag_of(p->self, peer->sent);
    size_t bytes = message_bytes(key);

    bytes_fill(out, bytes, key);
    if (last)
        COMPLETE(p, peer, fi_tsenddata(p->f.a.ep, out, 0, NULL, 1, peer->addr, tag, OPERATION(p)));
    else
        COMPLETE(p, peer, fi_tsend(p->f.a.ep, out, bytes, NULL, peer->addr, tag, OPERATION(p)));
    must(p, bytes_filled(out, bytes, key), "the source of a send is unchanged");
    peer->sent++;
}

static void write_to(struct process *p, uint32_t to)
{
    static unsigned char out[SLOT_BYTES], in[SLOT_BYTES];
    struct peer *peer = &p->peer[to];
    uint64_t at = offsetof(struct window, slot) + (uint64_t)p->self * SLOT_BYTES;
    size_t bytes = draw(p, SLOT_BYTES + 1), skip = draw(p, (uint32_t)(SLOT_BYTES - bytes) + 1);
    uint64_t key = emu_splitmix(&p->random);

    bytes_fill(out, SLOT_BYTES, key);
    p->board->written[p->self][to] = (struct written){.key = key, .failed = true};
    COMPLETE(p, peer,
             fi_write(p->f.a.ep, out, SLOT_BYTES, NULL, peer->addr, at, p->board->key[to],
                      OPERATION(p)));
    must(p, bytes_filled(out, SLOT_BYTES, key), "the source of a write is unchanged");
    if (peer->gone)
        return;
    p->board->written[p->self][to].failed = false;
    memset(in, GAP, sizeof in);
    COMPLETE(p, peer,
             fi_read(p->f.a.ep, in + skip, bytes, NULL, peer->addr, at + skip, p->board->key[to],
                     OPERATION(p)));
    must(p, peer->gone || !memcmp(in + skip, out + skip, bytes), "a read returns what was written");
    must(p, is_gap(in, skip) && is_gap(in + skip + bytes, SLOT_BYTES - skip - bytes),
         "a read writes nothing around its bytes");
}

/* Check what the others have written to the window of this process. */
static void window_check(const struct process *p)
{
    for (uint32_t from = 0; from < PROCESSES; from++) {
        const struct written *written = &p->board->written[from][p->self];
        uint64_t added = p->board->added[from][p->self];

        must(p,
             written->failed || !written->key ||
                 bytes_filled(p->window.slot[from], SLOT_BYTES, written->key),
             "a slot has the bytes of the latest write");
        must(p, p->window.count[from] == added || p->window.count[from] == added + 1,
             "a counter has the sum"); /* an addition may have failed after it took place */
    }
}

static void add_to(struct process *p, uint32_t to)
{
    static uint64_t one = 1, before; /* the operation may outlive this function */
    struct peer *peer = &p->peer[to];

    before = UINT64_MAX;
    COMPLETE(p, peer,
             fi_fetch_atomic(p->f.a.ep, &one, 1, NULL, &before, NULL, peer->addr,
                             p->self * sizeof(uint64_t), p->board->key[to], FI_UINT64, FI_SUM,
                             OPERATION(p)));
    must(p, peer->gone || before == peer->added++, "each addition happens once");
    if (!peer->gone)
        p->board->added[p->self][to]++;
}

static void operate(struct process *p)
{
    uint32_t to = draw(p, PROCESSES);

    atomic_fetch_add(&p->board->operations[p->self], 1);
    if (p->peer[to].gone)
        return;
    switch (draw(p, 4)) {
    case 0:
        write_to(p, to);
        break;
    case 1:
        add_to(p, to);
        break;
    default:
        send_to(p, to, false);
    }
}

static bool open_process(struct process *p, struct board *board, uint32_t self, uint64_t seed)
{
    const char *stride = getenv("FABEMU_TEST_STRIDE");
    char node[12];

    snprintf(node, sizeof node, "%u", self * (stride ? (uint32_t)atoi(stride) : 1));
    setenv("FABEMU_NODE", node, 1);
    p->board = board;
    p->self = self;
    p->seed = seed;
    p->random = seed * PROCESSES + self;
    return ofi_fixture_try_open(&p->f, &config) &&
           !fi_mr_reg(p->f.domain, &p->window, sizeof p->window, FI_REMOTE_READ | FI_REMOTE_WRITE,
                      0, 0, 0, &p->mr, NULL);
}

static int close_process(struct process *p)
{
    return !fi_close(&p->mr->fid) && ofi_fixture_try_close(&p->f) ? 0 : 1;
}

static int run_process(struct board *board, uint32_t self, uint64_t seed)
{
    struct process *p = calloc(1, sizeof *p);

    if (!p || !open_process(p, board, self, seed))
        return 2;
    board->key[self] = fi_mr_key(p->mr);
    memcpy(board->name[self], p->f.a.name, OFI_FIXTURE_ADDR_BYTES);
    atomic_fetch_add(&board->ready, 1);
    while (atomic_load(&board->ready) < PROCESSES)
        progress(p);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        must(p, fi_av_insert(p->f.av, board->name[i], 1, &p->peer[i].addr, 0, NULL) == 1,
             "an address can be inserted");
        receive(p, i);
    }
    for (uint32_t i = 0; i < board->limit; i++)
        operate(p);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        if (!p->peer[i].gone)
            send_to(p, i, true);
        while (!p->peer[i].ended)
            progress(p);
    }
    atomic_fetch_add(&board->finished, 1);
    while (atomic_load(&board->finished) < PROCESSES) /* others may still access the window */
        progress(p);
    window_check(p);
    int status = close_process(p);

    free(p);
    return status;
}

/* The successor of a killed process must neither receive anything nor find its memory changed. */
static int run_successor(struct board *board, uint64_t seed)
{
    struct process *p = calloc(1, sizeof *p);
    static unsigned char in[8];
    struct window *untouched = calloc(1, sizeof *untouched);

    if (!p || !untouched || !open_process(p, board, VICTIM, seed))
        return 2;
    must(p, !fi_trecv(p->f.a.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, OPERATION(p)),
         "a receive can be posted");
    p->pending = true;
    atomic_fetch_add(&board->finished, 1);
    while (atomic_load(&board->finished) < PROCESSES)
        progress(p);
    must(p, p->pending, "a successor receives no message of its predecessor");
    must(p, memcmp(&p->window, untouched, sizeof p->window) == 0, "nobody accesses its memory");
    int status = close_process(p);

    free(untouched);
    free(p);
    return status;
}

static pid_t start(struct board *board, uint32_t self, uint64_t seed, bool successor)
{
    pid_t pid = fork();

    if (pid)
        return pid;
    alarm(LIMIT_S);
    exit(successor ? run_successor(board, seed) : run_process(board, self, seed));
}

int main(int argc, char **argv)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    bool kills = argc > 3 && strcmp(argv[3], "kill") == 0;
    pid_t pid[PROCESSES];
    int status, bad = 0;

    if (board == MAP_FAILED || !getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_random_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    board->limit = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 300;
    if (!board->limit)
        board->limit = 1; /* the victim must begin one before it is killed */
    printf("ofi_random_test: seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    for (uint32_t i = 0; i < PROCESSES; i++)
        pid[i] = start(board, i, seed, false);
    if (kills) {
        time_t until = time(NULL) + LIMIT_S;

        while (atomic_load(&board->operations[VICTIM]) < 1 + seed % board->limit &&
               time(NULL) < until)
            sched_yield();
        kill(pid[VICTIM], SIGKILL);
        waitpid(pid[VICTIM], &status, 0);
        pid[VICTIM] = start(board, VICTIM, seed, true);
    }
    for (uint32_t i = 0; i < PROCESSES; i++)
        if (waitpid(pid[i], &status, 0) != pid[i] || status) {
            fprintf(stderr, "ofi_random_test: process %u ended with status %d\n", i, status);
            bad = 1;
        }
    puts(bad ? "ofi_random_test: failed" : "ofi_random_test: passed");
    return bad;
}
