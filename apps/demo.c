/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo.c - a program at work, for scripts/demo: one process for each node of the fabric, all of
 * them started by this one.
 *
 *   fabemu run --web --nodes 64 -- demo 64 [SECONDS [PACE]]
 *
 * In turn, for some seconds each: all-reduces with a pause behind each, so that one can be seen to
 * climb the tree and to come down; a hot spot, all sending to node 0, which takes its time; and
 * exchanges between halves of the network, over its top. After SECONDS (0, the default: never) it
 * ends. PACE: seconds for each of these (default 6).
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fabemu.h>

#define QUEUE         1
#define TAG_GROUP     1
#define TAG_WORK      2
#define NUMBERS       256   /* doubles of an all-reduce */
#define MESSAGE_BYTES 16384 /* of an exchange */
#define BURST         8     /* messages of an exchange between two checks of the time */
#define FLOOD         400   /* messages of each node to the hot spot, likewise */
#define LINGER_S      5     /* for how long others go on when one has failed */

enum work { COLLECTIVES, HOT_SPOT, EXCHANGES, END, WORKS = END };

struct self {
    struct fabemu *fab;
    struct fabemu_queue *queue;
    struct fabemu_group *group;
    uint32_t node, count;
    struct timespec began;
    double seconds, pace;
    char message[MESSAGE_BYTES];
};

/*
 * Of all processes: one has said why it ends, or is ended by a signal. What follows for the others
 * nobody need hear of each. In memory that all share.
 */
static atomic_bool *quiet;

static void ended_by(int number)
{
    atomic_store(quiet, true);
    signal(number, SIG_DFL);
    raise(number);
}

/* @why: more than the number says; "": nothing. */
static void give_up(int err, const char *what, const char *why)
{
    if (atomic_exchange(quiet, true))
        exit(1);
    fprintf(stderr, "demo: node %s: %s: %s\n", getenv("FABEMU_NODE"), what,
            *why ? why : strerror(-err));
    exit(1);
}

static void check(int err, const char *what)
{
    if (err)
        give_up(err, what, fabemu_error());
}

static void rest(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static double seconds_since(const struct timespec *began)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - began->tv_sec) + (double)(now.tv_nsec - began->tv_nsec) / 1e9;
}

static void wait_for(struct self *me, struct fabemu_req *req, const char *what)
{
    int err = fabemu_wait(me->fab, req);
    char why[256] = "";

    if (!err)
        return;
    fabemu_req_why(me->fab, req, why, sizeof why);
    give_up(err, what, why);
}

static void post_send(struct self *me, uint32_t node, uint64_t tag, void *at, size_t bytes,
                      struct fabemu_req *req)
{
    struct fabemu_dest dest = {.node = node, .queue = QUEUE, .tag = tag};
    struct fabemu_iov iov = {.base = at, .bytes = bytes};

    check(fabemu_send(me->queue, &dest, &iov, 1, req), "send");
}

static void receive(struct self *me, uint32_t node, uint64_t tag, void *at, size_t bytes)
{
    struct fabemu_iov iov = {.base = at, .bytes = bytes};
    struct fabemu_req req = {0};

    check(fabemu_recv(me->queue, node, tag, 0, &iov, 1, &req), "receive");
    wait_for(me, &req, "receive");
}

/* Node 0 makes a group when all are attached, and sends its address to the others. */
static uint32_t make_group(struct self *me)
{
    uint32_t *nodes = calloc(me->count, sizeof *nodes), id = 0;
    int err = -EHOSTUNREACH;

    check(nodes ? 0 : -ENOMEM, "memory");
    for (uint32_t i = 0; i < me->count; i++)
        nodes[i] = i;
    for (int i = 0; err == -EHOSTUNREACH && i < 3000; i++) {
        err = fabemu_group_create(me->fab, nodes, me->count, &id);
        if (err == -EHOSTUNREACH)
            rest(10000000);
    }
    check(err, "group");
    free(nodes);
    return id;
}

static void join(struct self *me)
{
    uint32_t id = 0;

    if (me->node == 0) {
        id = make_group(me);
        for (uint32_t i = 1; i < me->count; i++) {
            struct fabemu_req req = {0};

            post_send(me, i, TAG_GROUP, &id, sizeof id, &req);
            wait_for(me, &req, "send");
        }
    } else {
        receive(me, 0, TAG_GROUP, &id, sizeof id);
    }
    check(fabemu_group_join(me->fab, id, me->count, &me->group), "join");
}

static void sum(struct self *me, void *mine, void *all, size_t count, enum fabemu_type type)
{
    struct fabemu_req req = {0};

    check(fabemu_allreduce(me->group, mine, all, count, FABEMU_SUM, type, &req), "all-reduce");
    wait_for(me, &req, "all-reduce");
    if (me->node == 0)
        fabemu_count_in_network(me->group, FABEMU_COLL_ALLREDUCE);
}

/* What all do next: node 0 looks at the clock, and the others add nothing to what it says. */
static enum work next(struct self *me)
{
    double now = seconds_since(&me->began);
    int64_t mine = 0, all;

    if (me->node == 0)
        mine = me->seconds > 0 && now >= me->seconds ? END : (int64_t)(now / me->pace) % WORKS;
    sum(me, &mine, &all, 1, FABEMU_I64);
    return (enum work)all;
}

/* What all nodes have given, node + i each, added up. */
static void check_sum(const struct self *me, int i, double sum)
{
    double right = me->count * (me->count - 1) / 2.0 + (double)i * me->count;

    if (sum == right)
        return;
    atomic_store(quiet, true);
    fprintf(stderr,
            "demo: node %u: element %d of an all-reduce over %u nodes is %.17g and should be %.17g:"
            " the network has computed it wrong\n",
            me->node, i, me->count, sum, right);
    exit(1);
}

static void collectives(struct self *me)
{
    double mine[NUMBERS], all[NUMBERS];

    for (int i = 0; i < NUMBERS; i++)
        mine[i] = me->node + i;
    sum(me, mine, all, NUMBERS, FABEMU_F64);
    for (int i = 0; i < NUMBERS; i++)
        check_sum(me, i, all[i]);
    rest(150000000);
}

/* Short messages without a rendezvous: those that node 0 does not read back up into the tree. */
static void hot_spot(struct self *me)
{
    struct fabemu_dest dest = {.queue = QUEUE, .tag = TAG_WORK};

    for (uint32_t i = 0; i < (me->count - 1) * FLOOD && me->node == 0; i++)
        receive(me, FABEMU_ANY_NODE, TAG_WORK, me->message, FABEMU_INJECT_BYTES);
    for (int i = 0; i < FLOOD && me->node; i++)
        while (fabemu_inject(me->queue, &dest, me->message, FABEMU_INJECT_BYTES) == -EAGAIN)
            fabemu_progress(me->fab);
}

static void exchanges(struct self *me)
{
    uint32_t other = (me->node + me->count / 2) % me->count;

    for (int i = 0; i < BURST; i++) {
        struct fabemu_req req = {0};

        post_send(me, other, TAG_WORK, me->message, MESSAGE_BYTES, &req);
        receive(me, other, TAG_WORK, me->message, MESSAGE_BYTES);
        wait_for(me, &req, "send");
        rest(2000000);
    }
}

static int node_main(uint32_t node, uint32_t count, double seconds, double pace)
{
    struct self me = {.count = count, .seconds = seconds, .pace = pace};
    char text[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(text, sizeof text, "%u", node);
    setenv("FABEMU_NODE", text, 1);
    check(fabemu_attach(&me.fab, NULL), "attach");
    me.node = fabemu_info(me.fab)->node;
    check(fabemu_queue_open(me.fab, QUEUE, &me.queue), "queue");
    join(&me);
    clock_gettime(CLOCK_MONOTONIC, &me.began);
    for (enum work work; (work = next(&me)) != END;) {
        if (work == COLLECTIVES)
            collectives(&me);
        else if (work == HOT_SPOT)
            hot_spot(&me);
        else
            exchanges(&me);
    }
    fabemu_group_leave(me.group);
    fabemu_queue_close(me.queue);
    fabemu_detach(me.fab);
    return 0;
}

/*
 * Wait for all of them. When one has failed, the others notice at their next collective; who waits
 * for a message of just anybody never does, and is ended. Returns: has one failed?
 */
static bool reap(const pid_t *pids, uint32_t count)
{
    struct timespec since;
    bool failed = false;
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, failed ? WNOHANG : 0)) >= 0;) {
        if (pid && !failed && (!WIFEXITED(status) || WEXITSTATUS(status))) {
            failed = true;
            clock_gettime(CLOCK_MONOTONIC, &since);
        }
        if (pid == 0 && seconds_since(&since) > LINGER_S)
            for (uint32_t i = 0; i < count; i++)
                if (waitpid(pids[i], NULL, WNOHANG) == 0)
                    kill(pids[i], SIGKILL);
        if (pid == 0)
            rest(10000000);
    }
    return failed;
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0;
    double pace = argc > 3 ? strtod(argv[3], NULL) : 6;
    pid_t *pids;
    bool failed;

    if (count < 2 || seconds < 0 || pace <= 0) {
        fprintf(stderr, "usage: demo NODES [SECONDS [PACE]]\n");
        return 2;
    }
    quiet = mmap(NULL, sizeof *quiet, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (quiet == MAP_FAILED) {
        perror("demo: mmap");
        return 1;
    }
    signal(SIGINT, ended_by);
    signal(SIGTERM, ended_by);
    pids = calloc(count, sizeof *pids);
    if (!pids) {
        perror("demo: memory");
        return 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            free(pids);
            return node_main(i, count, seconds, pace);
        }
        if (pids[i] < 0) {
            perror("demo: fork");
            return 1;
        }
    }
    failed = reap(pids, count);
    free(pids);
    return failed;
}
