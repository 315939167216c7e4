/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_probe.c - what libfabric returns during network faults: ofi_probe BOARD messages onesided
 * PROCESSES. scripts/faulttable runs it.
 *
 * Each process runs operation after operation, waits for the completion, checks the result, and
 * writes its state to its row of the board (tests/fixtures/board.h). A process that gets an error
 * records it and stops. All keep stepping their adapters until every process has finished.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/fixtures/board.h"
#include "tests/fixtures/ofi/fixture.h"

#define WORDS       2048
#define PATIENCE_NS 2000000000u /* for a process that has failed and will send nothing */
#define START_NS    20000000000u

static const struct ofi_fixture_config with_memory = {.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA |
                                                              FI_ATOMIC,
                                                      .format = FI_CQ_FORMAT_TAGGED};

/* State that all processes map, outside of the fabric. */
struct shared {
    struct {
        _Atomic uint64_t there;
        char name[OFI_FIXTURE_ADDR_BYTES];
        uint64_t key;
    } one[BOARD_ROWS];
};

struct probe {
    struct board *board;
    struct board_row *row;
    struct shared *shared;
    struct ofi_fixture fixture;
    struct fid_mr *mr;
    uint32_t me, all;
    fi_addr_t peer[BOARD_ROWS];
    uint64_t round;
    uint64_t out[WORDS], in[WORDS];
    uint64_t memory[BOARD_ROWS * (WORDS + 1)]; /* a slot for each process, and a sum for each */
};

static bool begin(struct probe *p, struct shared *shared, const char *path, uint32_t me,
                  uint32_t all)
{
    uint64_t end = board_now_ns() + START_NS;

    *p = (struct probe){.board = board_open(path), .shared = shared, .me = me, .all = all};
    if (!p->board || !ofi_fixture_try_open(&p->fixture, &with_memory) ||
        fi_mr_reg(p->fixture.domain, p->memory, sizeof p->memory, FI_REMOTE_READ | FI_REMOTE_WRITE,
                  0, 0, 0, &p->mr, NULL))
        return false;
    p->row = &p->board->row[me];
    memcpy(shared->one[me].name, p->fixture.a.name, OFI_FIXTURE_ADDR_BYTES);
    shared->one[me].key = fi_mr_key(p->mr);
    shared->one[me].there = 1;
    for (uint32_t i = 0; i < all; i++) {
        while (!shared->one[i].there)
            if (board_now_ns() > end || usleep(1000))
                return false;
        if (fi_av_insert(p->fixture.av, shared->one[i].name, 1, &p->peer[i], 0, NULL) != 1)
            return false;
    }
    return true;
}

static void fail(struct probe *p, int code, int prov_errno, const void *data)
{
    char text[sizeof p->row->text], why[96] = "";

    fi_cq_strerror(p->fixture.a.cq, prov_errno, data, why, sizeof why);
    snprintf(text, sizeof text, "%s: %s", fi_strerror(code), why);
    board_fail(p->row, code, text);
}

/* Wait for @count completions. Returns false on an error, or if none will come. */
static bool completed(struct probe *p, int count)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    while (count > 0) {
        ssize_t got = fi_cq_read(p->fixture.a.cq, &entry, 1);

        if (got == 1) {
            count--;
        } else if (got == -FI_EAVAIL && fi_cq_readerr(p->fixture.a.cq, &error, 0) == 1) {
            fail(p, error.err, error.prov_errno, error.err_data);
            return false;
        } else if (got != -FI_EAGAIN) {
            fail(p, (int)-got, (int)-got, NULL);
            return false;
        } else if (p->board->quit || board_any_failed(p->board, p->all, PATIENCE_NS)) {
            p->row->failed_ns = board_now_ns();
            p->row->state = BOARD_FOLLOWED;
            return false;
        }
    }
    return true;
}

/* Step the adapter after posting failed with @err. Returns false if it is not -FI_EAGAIN. */
static bool again(struct probe *p, ssize_t err)
{
    struct fi_cq_tagged_entry entry;

    return err == -FI_EAGAIN && !p->board->quit && fi_cq_read(p->fixture.a.cq, &entry, 0) != 1;
}

static bool posted(struct probe *p, ssize_t err)
{
    if (err)
        fail(p, (int)-err, (int)-err, NULL);
    return !err;
}

static void fill(struct probe *p, uint32_t words)
{
    memset(p->in, 0, sizeof p->in);
    for (uint32_t i = 0; i < words; i++)
        p->out[i] = (p->round << 24) + (p->me << 16) + i;
}

static bool is_filled(const struct probe *p, uint32_t words, uint32_t from)
{
    for (uint32_t i = 0; i < words; i++)
        if (p->in[i] != (p->round << 24) + (from << 16) + i)
            return false;
    return true;
}

/* Sizes of a round that fit one segment, a few, or many. */
static uint32_t round_words(const struct probe *p)
{
    static const uint32_t words[] = {1, 16, 300, WORDS};

    return words[p->round % 4];
}

static uint32_t round_step(const struct probe *p)
{
    return 1 + (uint32_t)(p->round % (p->all - 1));
}

static bool round_messages(struct probe *p)
{
    uint32_t step = round_step(p), words = round_words(p);
    uint32_t to = (p->me + step) % p->all, from = (p->me + p->all - step) % p->all;
    struct fid_ep *ep = p->fixture.a.ep;
    ssize_t err;

    fill(p, words);
    board_begin(p->row, "fi_tsend, fi_trecv");
    do
        err = fi_trecv(ep, p->in, words * 8, NULL, p->peer[from], p->round, 0, NULL);
    while (again(p, err));
    if (!posted(p, err))
        return false;
    do
        err = fi_tsend(ep, p->out, words * 8, NULL, p->peer[to], p->round, NULL);
    while (again(p, err));
    if (!posted(p, err) || !completed(p, 2))
        return false;
    board_done(p->board, p->row, is_filled(p, words, from));
    return true;
}

static bool round_atomic(struct probe *p, uint32_t to)
{
    uint64_t sum = 8ull * (p->all * WORDS + p->me), one = 1, old = UINT64_MAX;
    uint64_t before = p->round / (p->all - 1);
    ssize_t err;

    board_begin(p->row, "fi_fetch_atomic");
    do
        err = fi_fetch_atomic(p->fixture.a.ep, &one, 1, NULL, &old, NULL, p->peer[to], sum,
                              p->shared->one[to].key, FI_UINT64, FI_SUM, NULL);
    while (again(p, err));
    if (!posted(p, err) || !completed(p, 1))
        return false;
    board_done(p->board, p->row, old == before);
    return true;
}

static bool round_onesided(struct probe *p)
{
    uint32_t to = (p->me + round_step(p)) % p->all, words = round_words(p);
    uint64_t slot = 8ull * WORDS * p->me, key = p->shared->one[to].key;
    struct fid_ep *ep = p->fixture.a.ep;
    ssize_t err;

    fill(p, words);
    board_begin(p->row, "fi_write");
    do
        err = fi_write(ep, p->out, words * 8, NULL, p->peer[to], slot, key, NULL);
    while (again(p, err));
    if (!posted(p, err) || !completed(p, 1))
        return false;
    board_done(p->board, p->row, true);
    board_begin(p->row, "fi_read");
    do
        err = fi_read(ep, p->in, words * 8, NULL, p->peer[to], slot, key, NULL);
    while (again(p, err));
    if (!posted(p, err) || !completed(p, 1))
        return false;
    board_done(p->board, p->row, is_filled(p, words, p->me));
    return round_atomic(p, to);
}

static int be_one(struct shared *shared, const char *path, bool onesided, uint32_t me, uint32_t all)
{
    static struct probe p;
    struct fi_cq_tagged_entry entry;
    char node[16];

    snprintf(node, sizeof node, "%u", me);
    setenv("FABEMU_NODE", node, 1);
    if (!begin(&p, shared, path, me, all))
        return 2;
    board_run(p.row);
    while (onesided ? round_onesided(&p) : round_messages(&p)) {
        if (!board_goes_on(p.board, p.row))
            break;
        p.round++;
    }
    while (!board_all_over(p.board, all))
        fi_cq_read(p.fixture.a.cq, &entry, 0);
    return board_all_well(p.board, all) && !fi_close(&p.mr->fid) &&
                   ofi_fixture_try_close(&p.fixture)
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int all = argc == 4 ? atoi(argv[3]) : 0, status = 0, worst = 0;

    if (all < 2 || all > BOARD_ROWS || shared == MAP_FAILED) {
        fputs("usage: ofi_probe BOARD messages|onesided PROCESSES\n", stderr);
        return 2;
    }
    for (uint32_t i = 0; i < (uint32_t)all; i++)
        if (fork() == 0)
            _exit(be_one(shared, argv[1], strcmp(argv[2], "onesided") == 0, i, (uint32_t)all));
    while (wait(&status) > 0)
        worst = status ? 1 : worst;
    return worst;
}
