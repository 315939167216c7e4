/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * demo.c - a program that keeps a fabric busy, for scripts/demo. It starts one process for each
 * node of the fabric.
 *
 *   fabemu run --web --nodes 64 -- demo 64 [SECONDS [PACE]]
 *
 * The processes do three kinds of work in turn, each for PACE seconds (default 6):
 * - all-reduces with a pause after each, so that a viewer of the web page can see one go up the
 *   tree and down again,
 * - a hot spot, in which all nodes send to node 0, which receives more slowly than they send,
 * - exchanges between the two halves of the network, over its top switches.
 * The program ends after SECONDS; 0, the default: it does not end. If standard error is not a
 * terminal, node 0 prints the current work to it after each 8 s.
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
#define NUMBERS       256   /* number of doubles in an all-reduce */
#define MESSAGE_BYTES 16384 /* size of a message in an exchange */
#define BURST         8     /* messages of a node in an exchange, between two checks of the time */
#define FLOOD         400   /* messages of a node to the hot spot, between two checks of the time */
#define LINGER_S      5     /* how long other processes may continue after one has failed */
#define SILENT_S      8     /* node 0 prints a line after this time without one */

enum work { COLLECTIVES, HOT_SPOT, EXCHANGES, END, WORKS = END };

struct self {
    struct fabemu *fab;
    struct fabemu_queue *queue;
    struct fabemu_group *group;
    uint32_t node, count;
    struct timespec began;
    double seconds, pace;
    double printed_s; /* node 0: time of the last line, since the beginning; negative: no lines */
    char message[MESSAGE_BYTES];
};

/*
 * This flag is in memory that all processes share. It is set when a process prints why it fails, or
 * when a signal ends a process. The others then fail as a consequence, and print nothing.
 */
static atomic_bool *quiet;

/* Handle a signal that ends the program. */
static void ended_by(int number)
{
    atomic_store(quiet, true);
    signal(number, SIG_DFL);
    raise(number);
}

/* Print an error and exit. @why: text about the error; "": only its number @err is known. */
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

/* Make a group of all nodes. This fails until all nodes are attached, so try for half a minute. */
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

/* Node 0 makes the group and sends its address to the other nodes. Then each node joins it. */
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

/* Print the current work if no line has been printed for a while. Only node 0 calls this. */
static void end_silence(struct self *me, double now_s, enum work work)
{
    static const char *const names[] = {"all-reduces", "a hot spot", "exchanges", "ending"};

    if (me->printed_s < 0 || now_s - me->printed_s < SILENT_S)
        return;
    me->printed_s = now_s;
    fprintf(stderr, "demo: %s, %.0f s so far\n", names[work], now_s);
}

/*
 * Return the work that all nodes do next. Node 0 chooses it by its clock. The others get it from an
 * all-reduce, to which they contribute 0.
 */
static enum work next(struct self *me)
{
    double now = seconds_since(&me->began);
    int64_t mine = 0, all;

    if (me->node == 0) {
        mine = me->seconds > 0 && now >= me->seconds ? END : (int64_t)(now / me->pace) % WORKS;
        end_silence(me, now, (enum work)mine);
    }
    sum(me, &mine, &all, 1, FABEMU_I64);
    return (enum work)all;
}

/* Check the sum of element @i, to which each node has contributed its number plus @i. */
static void check_sum(const struct self *me, int i, double sum)
{
    double right = me->count * (me->count - 1) / 2.0 + (double)i * me->count;

    if (sum == right)
        return;
    atomic_store(quiet, true);
    fprintf(stderr,
            "demo: node %u: element %d of an all-reduce over %u nodes is %.17g and should be %.17g:"
            " the network has computed a wrong sum\n",
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

/* Send short messages to node 0. They need no rendezvous, so unread ones back up into the tree. */
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
    /* @to and @from are different nodes if the number of nodes is odd */
    uint32_t to = (me->node + me->count / 2) % me->count;
    uint32_t from = (me->node + me->count - me->count / 2) % me->count;

    for (int i = 0; i < BURST; i++) {
        struct fabemu_req req = {0};

        post_send(me, to, TAG_WORK, me->message, MESSAGE_BYTES, &req);
        receive(me, from, TAG_WORK, me->message, MESSAGE_BYTES);
        wait_for(me, &req, "send");
        rest(2000000);
    }
}

static int node_main(uint32_t node, uint32_t count, double seconds, double pace)
{
    struct self me = {.count = count,
                      .seconds = seconds,
                      .pace = pace,
                      .printed_s = isatty(STDERR_FILENO) ? -1 : 0};
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
 * Wait for all processes. When one has failed, the others notice it at their next collective. A
 * process that waits for a message from any node does not notice, so after LINGER_S the rest is
 * killed. Returns whether a process has failed.
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

static int usage(FILE *out, int status)
{
    fputs("usage: demo NODES [SECONDS [PACE]]\n"
          "\n"
          "Keep a fabric busy, so that there is something to see on its page. demo starts one\n"
          "process for each of NODES nodes itself. It is no MPI program, so do not start it with\n"
          "mpirun: fabemu run --web --nodes 16 -- demo 16 60\n"
          "\n"
          "  NODES    number of processes, 2 or more; the fabric needs as many nodes\n"
          "  SECONDS  end after this time (default 0: do not end)\n"
          "  PACE     seconds for each kind of work: all-reduces, a hot spot, exchanges\n"
          "           (default 6)\n",
          out);
    return status;
}

/* Return the number of nodes; 0: @text is not a number, or is too large. */
static uint32_t nodes_of(const char *text)
{
    char *end;
    unsigned long count = strtoul(text, &end, 10);

    return *text >= '0' && *text <= '9' && !*end && count <= UINT16_MAX ? (uint32_t)count : 0;
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? nodes_of(argv[1]) : 0;
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0;
    double pace = argc > 3 ? strtod(argv[3], NULL) : 6;
    pid_t *pids;
    bool failed;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return usage(stdout, 0);
    if (count < 2 || !(seconds >= 0) || !(pace > 0)) /* also if a number is NaN */
        return usage(stderr, 2);
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
