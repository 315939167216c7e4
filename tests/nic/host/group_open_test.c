/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group_open_test.c - processes open groups by a key, without messages: the first member starts
 * operations, and may even leave, before the others have joined.
 *
 * `fabemu run` starts a fabric of at least four nodes for it. Each case forks a process for each of
 * the nodes 0 to 3, and these run through rounds. Nothing keeps the rounds apart, and all groups of
 * a window have the same key.
 */
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nic/fabemu.h"
#include "tests/test.h"
#include "tests/fixtures/bytes.h"

#define MEMBERS 4u
#define ROUNDS  100u
#define COUNT   300u    /* elements of a reduction: several segments */
#define NARROW  40000u  /* bytes that a broadcast sends ahead in a narrow window, */
#define WIDE    300000u /* and in a wide one */

/* When a member opens the group of a round. */
enum order {
    IN_TURN,     /* each member after the one before it has posted all its operations */
    ROOT_LEAVES, /* the root broadcasts and leaves; then all others open */
    AT_ONCE,
};

/* Shared by all members. */
struct board {
    enum order order;
    _Atomic uint32_t attached;     /* number of members */
    _Atomic uint32_t turn[ROUNDS]; /* number of members that have had their turn */
};

struct member {
    struct fabemu *fab;
    struct board *board;
    uint32_t node, round;
    struct fabemu_group *group;
    struct fabemu_req req[4];
    uint8_t data[WIDE];
    uint64_t in[COUNT], all[COUNT], one[COUNT];
};

/* --- a member ----------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3), noreturn)) static void wrong(const struct member *m,
                                                                  const char *format, ...)
{
    va_list args;

    fprintf(stderr, "group_open: node %u, round %u: ", m->node, m->round);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (%s)\n", fabemu_error());
    _exit(1);
}

static void must(const struct member *m, int err, const char *what)
{
    if (err)
        wrong(m, "%s: %s", what, strerror(-err));
}

static bool is_wide(const struct member *m)
{
    return m->round % 2;
}

static uint32_t root_of(const struct member *m)
{
    return m->round / 2 % MEMBERS;
}

static size_t bytes_of(const struct member *m)
{
    return is_wide(m) ? WIDE : NARROW;
}

/* Wait until it is the turn of member number @place in this round. */
static void await_turn(const struct member *m, uint32_t place)
{
    while (atomic_load(&m->board->turn[m->round]) < place)
        usleep(100);
}

static void end_turn(const struct member *m)
{
    atomic_fetch_add(&m->board->turn[m->round], 1);
}

static void group_open(struct member *m)
{
    static const uint32_t nodes[MEMBERS] = {0, 1, 2, 3};

    must(m, fabemu_group_open(m->fab, "the test's", nodes, MEMBERS, is_wide(m), &m->group), "open");
}

static void broadcast_post(struct member *m)
{
    memset(m->data, 0, sizeof m->data);
    if (m->node == root_of(m))
        bytes_fill(m->data, bytes_of(m), m->round);
    must(m, fabemu_broadcast(m->group, m->data, bytes_of(m), root_of(m), &m->req[0]), "broadcast");
}

static void broadcast_check(struct member *m)
{
    must(m, fabemu_wait(m->fab, &m->req[0]), "wait for the broadcast");
    if (!bytes_filled(m->data, bytes_of(m), m->round))
        wrong(m, "the broadcast's data are wrong");
}

static uint64_t element(const struct member *m, uint32_t node, uint32_t i)
{
    return (uint64_t)(m->round + 1) * (i + 1) << 8 * node;
}

static void rest_post(struct member *m)
{
    for (uint32_t i = 0; i < COUNT; i++)
        m->in[i] = element(m, m->node, i);
    memset(m->all, 0, sizeof m->all);
    memset(m->one, 0, sizeof m->one);
    must(m, fabemu_barrier(m->group, &m->req[1]), "barrier");
    must(m, fabemu_allreduce(m->group, m->in, m->all, COUNT, FABEMU_SUM, FABEMU_U64, &m->req[2]),
         "all-reduce");
    must(m,
         fabemu_reduce(m->group, m->in, m->node == root_of(m) ? m->one : NULL, COUNT, FABEMU_SUM,
                       FABEMU_U64, root_of(m), &m->req[3]),
         "reduce");
}

static void rest_check(struct member *m)
{
    for (uint32_t k = 1; k < 4; k++)
        must(m, fabemu_wait(m->fab, &m->req[k]), "wait");
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t sum = 0;

        for (uint32_t node = 0; node < MEMBERS; node++)
            sum += element(m, node, i);
        if (m->all[i] != sum || (m->node == root_of(m) && m->one[i] != sum))
            wrong(m, "element %u of a reduction is wrong", i);
    }
}

static void round_run(struct member *m)
{
    enum order order = m->board->order;
    uint32_t place = (m->node + MEMBERS - root_of(m)) % MEMBERS; /* the root is the first */

    if (order == IN_TURN)
        await_turn(m, place);
    else if (order == ROOT_LEAVES && place)
        await_turn(m, 1);
    group_open(m);
    broadcast_post(m);
    if (order != ROOT_LEAVES)
        rest_post(m);
    if (order == IN_TURN) {
        for (uint32_t i = 0; i < 20; i++)
            fabemu_progress(m->fab);
        if (place < MEMBERS - 1 && fabemu_req_status(&m->req[1]) != FABEMU_PENDING)
            wrong(m, "the barrier is complete before all members have joined");
        end_turn(m);
    }
    broadcast_check(m);
    if (order != ROOT_LEAVES)
        rest_check(m);
    fabemu_group_leave(m->group);
    if (order == ROOT_LEAVES && !place)
        end_turn(m);
}

__attribute__((noreturn)) static void member_run(struct board *board)
{
    static struct member member;
    struct member *m = &member;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    m->board = board;
    must(m, fabemu_attach(&m->fab, NULL), "attach");
    m->node = fabemu_info(m->fab)->node;
    atomic_fetch_add(&board->attached, 1);
    while (atomic_load(&board->attached) < MEMBERS) /* a group needs all processes */
        usleep(100);
    for (m->round = 0; m->round < TEST_TRIALS(ROUNDS); m->round++)
        round_run(m);
    fabemu_detach(m->fab);
    exit(0); /* with the checks of a sanitizer */
}

/* --- the cases ---------------------------------------------------------------------- */

static void members_run(enum order order)
{
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[MEMBERS];

    CU_ASSERT_TRUE_FATAL(board != MAP_FAILED);
    board->order = order;
    fflush(NULL);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        pid[i] = fork();
        CU_ASSERT_TRUE_FATAL(pid[i] >= 0);
        if (!pid[i])
            member_run(board);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        int status = -1;

        CU_ASSERT_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
        CU_ASSERT_EQUAL(status, 0);
    }
    munmap(board, sizeof *board);
}

static void group_open__starts_before_others_join(void)
{
    members_run(IN_TURN);
}

static void group_open__root_leaves_before_others_join(void)
{
    members_run(ROOT_LEAVES);
}

static void group_open__by_all_at_once(void)
{
    members_run(AT_ONCE);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(group_open__starts_before_others_join),
        CASE(group_open__root_leaves_before_others_join),
        CASE(group_open__by_all_at_once),
        {0},
    };

    return test_run("group_open", cases);
}
