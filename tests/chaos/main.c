/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - chaos_nodes: one process for each node runs its part of a common plan (plan.h), on the
 * fabric that the environment names. scripts/chaos runs it and injects faults into this fabric.
 *
 * This process does not use the fabric. It starts the others, stops, continues and kills them at
 * given times, limits how far they may advance in the plan, and checks that they make progress.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emu/util/now.h"
#include "tests/chaos/node.h"
#include "tests/test.h"

#define NAP_NS              2000000
#define AHEAD               8u  /* how many steps nodes may start ahead of the slowest */
#define PLANNED_SIGNALS_MAX 64u /* actions of this process on others */
#define USAGE               2   /* exit status: invalid command line */

/* An action on a process, and its time. */
struct planned_signal {
    uint64_t at_ms;
    uint32_t node;
    int signal;
};

struct chaos {
    struct chaos_plan plan;
    uint64_t steps;       /* at most */
    uint64_t ms;          /* no step starts after this time; 0: only steps count */
    uint64_t patience_ms; /* for nodes without progress */
    struct planned_signal planned_signal[PLANNED_SIGNALS_MAX];
    uint32_t planned_signals;
    uint64_t successor_ms; /* delay until a killed process gets a successor; 0: never */
    uint32_t hosts;        /* nodes with an entry in `host`; 0: the fabric is on one host */
    uint64_t host[CHAOS_NODES];
    bool greeted;
    bool help;

    struct chaos_board *board;
    pid_t pid[CHAOS_NODES];  /* 0: it has ended */
    pid_t successor;         /* PID of the successor; 0: there is none, or it has ended */
    uint32_t successor_node; /* its node; and its start time, 0: none is due */
    uint64_t successor_at_ms;
    uint32_t alive;
    uint64_t began_ns;
    uint64_t sum, moved_ns; /* sum of finished operations, and when it last changed */
};

/* --- options ------------------------------------------------------------------------ */

static bool number(const char **text, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoull(*text, &end, 0);
    if (**text < '0' || **text > '9' || errno || *ret > most)
        return false;
    *text = end;
    return true;
}

static bool whole(const char *text, uint64_t most, uint64_t *ret)
{
    return number(&text, most, ret) && !*text;
}

static bool set_of_nodes(const char *text, uint64_t *ret)
{
    uint64_t node;

    for (*ret = 0; number(&text, CHAOS_NODES - 1, &node); text++) {
        *ret |= UINT64_C(1) << node;
        if (!*text)
            return true;
        if (*text != ',')
            return false;
    }
    return false;
}

/* Read a host for each node, in order. */
static bool hosts_read(struct chaos *c, const char *text)
{
    for (c->hosts = 0; c->hosts < CHAOS_NODES; text++) {
        if (!number(&text, UINT16_MAX, &c->host[c->hosts]))
            return false;
        c->hosts++;
        if (*text != ',')
            return !*text;
    }
    return false;
}

/* NODE@MS; with @length NODE@MS+MS, after which the process continues. */
static bool planned_signal_read(struct chaos *c, const char *text, int what, bool length)
{
    uint64_t node, at_ms, for_ms = 0;

    if (c->planned_signals + 2 > PLANNED_SIGNALS_MAX || !number(&text, CHAOS_NODES - 1, &node) ||
        *text++ != '@' || !number(&text, UINT32_MAX, &at_ms) ||
        (length && (*text++ != '+' || !number(&text, UINT32_MAX, &for_ms))) || *text)
        return false;
    c->planned_signal[c->planned_signals++] = (struct planned_signal){at_ms, (uint32_t)node, what};
    if (length)
        c->planned_signal[c->planned_signals++] =
            (struct planned_signal){at_ms + for_ms, (uint32_t)node, SIGCONT};
    return true;
}

static const struct {
    const char *name, *value, *help;
} rows[] = {
    {"seed", "N", "of the plan (default 1)"},
    {"nodes", "N", "processes, nodes 0 to N-1 of the fabric (default 4)"},
    {"teams", "N", "groups at a time, 0 to 4 (default 3)"},
    {"steps", "N", "of the plan (default 40)"},
    {"ms", "N", "no step begins after so long (default: the steps alone count)"},
    {"doomed", "N,N", "these nodes may die, or be cut off: what others do with them may fail"},
    {"partitioned", "N,N", "these may be cut off from all that are not among them"},
    {"kill", "NODE@MS", "SIGKILL to a doomed node's process; may be given again"},
    {"stop", "NODE@MS+MS", "SIGSTOP, and SIGCONT; may be given again"},
    {"heir", "MS", "a process that was killed has a successor after so long, if nodes go on then"},
    {"cancels", NULL, "messages are recalled, and receives cancelled"},
    {"hosts", "N,N", "node i is on the i-th of these hosts; $FABEMU_SOCKET has hN for %h"},
    {"patience", "MS", "nodes that do nothing for so long stand still (default 30000)"},
    {"help", NULL, "this text"},
};
#define ROWS (sizeof rows / sizeof rows[0])

static bool option_read(struct chaos *c, size_t row, const char *value)
{
    uint64_t n = 0;
    bool good;

    switch (row) {
    case 0:
        return whole(value, UINT64_MAX, &c->plan.seed);
    case 1:
        good = whole(value, CHAOS_NODES, &n) && n >= 2;
        c->plan.nodes = (uint32_t)n;
        return good;
    case 2:
        good = whole(value, CHAOS_TEAMS, &n);
        c->plan.teams = (uint32_t)n;
        return good;
    case 3:
        return whole(value, CHAOS_ERA * CHAOS_ERAS, &c->steps);
    case 4:
        return whole(value, UINT32_MAX, &c->ms);
    case 5:
        return set_of_nodes(value, &c->plan.doomed);
    case 6:
        return set_of_nodes(value, &c->plan.parted);
    case 7:
        return planned_signal_read(c, value, SIGKILL, false);
    case 8:
        return planned_signal_read(c, value, SIGSTOP, true);
    case 9:
        c->plan.successors = whole(value, UINT32_MAX, &c->successor_ms) && c->successor_ms;
        return c->plan.successors;
    case 10:
        return c->plan.cancels = true;
    case 11:
        return hosts_read(c, value);
    case 12:
        return whole(value, UINT32_MAX, &c->patience_ms);
    default:
        return c->help = true;
    }
}

static bool options_read(struct chaos *c, int argc, char **argv)
{
    struct option options[ROWS + 1] = {{0}};
    int index = 0, got;

    for (size_t i = 0; i < ROWS; i++)
        options[i] = (struct option){.name = rows[i].name, .has_arg = rows[i].value != NULL};
    while ((got = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (got)
            return false;
        if (!option_read(c, (size_t)index, optarg)) {
            fprintf(stderr, "chaos_nodes: --%s wants %s, and not \"%s\"\n", rows[index].name,
                    rows[index].value, optarg);
            return false;
        }
    }
    for (uint32_t i = 0; i < c->planned_signals; i++)
        if (c->planned_signal[i].node >= c->plan.nodes ||
            (c->planned_signal[i].signal == SIGKILL &&
             !chaos_is_in(c->plan.doomed, c->planned_signal[i].node))) {
            fprintf(stderr, "chaos_nodes: node %u is none of the nodes, or not doomed\n",
                    c->planned_signal[i].node);
            return false;
        }
    if (c->hosts && c->hosts < c->plan.nodes) {
        fprintf(stderr, "chaos_nodes: --hosts names those of %u nodes, and there are %u\n",
                c->hosts, c->plan.nodes);
        return false;
    }
    return optind == argc;
}

static void help(void)
{
    printf(
        "usage: chaos_nodes [OPTION...]\nProcesses do random things with each other over a fabric, "
        "and check every result.\n\n");
    for (size_t i = 0; i < ROWS; i++)
        test_print_option(rows[i].name, rows[i].value, rows[i].help);
}

/* --- other options ------------------------------------------------------------------ */

/*
 * Select the fabric of the process's host, whose socket is named after it. Processes of all hosts
 * run on this machine, and the sockets are files.
 */
static void host_enter(const struct chaos *c, uint32_t node)
{
    const char *given = getenv("FABEMU_SOCKET"), *at = given ? strstr(given, "%h") : NULL;
    char path[256];

    if (!c->hosts || !at)
        return;
    snprintf(path, sizeof path, "%.*sh%" PRIu64 "%s", (int)(at - given), given, c->host[node],
             at + 2);
    setenv("FABEMU_SOCKET", path, 1);
}

static pid_t process_start(struct chaos *c, uint32_t node,
                           int (*run)(const struct chaos_plan *plan, struct chaos_board *board,
                                      uint32_t me))
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        perror("chaos_nodes");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        host_enter(c, node);
        _exit(getppid() == parent ? run(&c->plan, c->board, node) : 1);
    }
    c->alive += pid > 0;
    return pid;
}

static int nodes_start(struct chaos *c)
{
    c->board =
        mmap(NULL, sizeof *c->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c->board == MAP_FAILED) {
        perror("chaos_nodes");
        return -errno;
    }
    fflush(NULL);
    for (uint32_t n = 0; n < c->plan.nodes; n++) {
        c->pid[n] = process_start(c, n, chaos_node_run);
        if (c->pid[n] < 0)
            return -errno;
    }
    return 0;
}

static void wrong(struct chaos *c, uint32_t node, const char *what, int number)
{
    if (!atomic_exchange(&c->board->wrong, true))
        snprintf(c->board->line, CHAOS_LINE, "node %u: its process %s %d", node, what, number);
}

static uint64_t ms_now(const struct chaos *c)
{
    return (emu_now_ns() - c->began_ns) / 1000000;
}

/* Start a successor of a killed process if one is due, unless the others start no more steps. */
static void successor_start(struct chaos *c)
{
    if (!c->successor_at_ms || ms_now(c) < c->successor_at_ms)
        return;
    c->successor_at_ms = 0;
    if (atomic_load(&c->board->last))
        return;
    atomic_fetch_or(&c->board->successors, UINT64_C(1) << c->successor_node);
    c->successor = process_start(c, c->successor_node, chaos_successor_run);
    if (c->successor < 0)
        wrong(c, c->successor_node, "has no successor:", errno);
}

static void successor_reap(struct chaos *c)
{
    int status;

    if (c->successor <= 0 || waitpid(c->successor, &status, WNOHANG) != c->successor)
        return;
    c->successor = 0;
    c->alive--;
    if (status)
        wrong(c, c->successor_node, "was followed by one that ended with status", status);
}

/* Collect processes that have ended: finished, dead as intended, or with an error. */
static void nodes_reap(struct chaos *c)
{
    for (uint32_t n = 0; n < c->plan.nodes; n++) {
        int status;

        if (!c->pid[n] || waitpid(c->pid[n], &status, WNOHANG) != c->pid[n])
            continue;
        c->pid[n] = 0;
        c->alive--;
        atomic_fetch_or(&c->board->dead, UINT64_C(1) << n);
        if (WIFSIGNALED(status) && !(WTERMSIG(status) == SIGKILL && chaos_is_in(c->plan.doomed, n)))
            wrong(c, n, "was ended by signal", WTERMSIG(status));
        else if (WIFEXITED(status) && WEXITSTATUS(status))
            wrong(c, n, "ended with status", WEXITSTATUS(status));
        else if (WIFSIGNALED(status) && c->plan.successors) {
            c->successor_node = n;
            c->successor_at_ms = ms_now(c) + c->successor_ms;
        }
    }
}

static void nodes_kill(struct chaos *c)
{
    for (uint32_t n = 0; n < c->plan.nodes; n++)
        if (c->pid[n]) {
            kill(c->pid[n], SIGKILL);
            waitpid(c->pid[n], NULL, 0);
        }
    if (c->successor > 0) {
        kill(c->successor, SIGKILL);
        waitpid(c->successor, NULL, 0);
    }
}

static void planned_signals_send(struct chaos *c)
{
    for (uint32_t i = 0; i < c->planned_signals; i++) {
        struct planned_signal *planned_signal = &c->planned_signal[i];

        if (!planned_signal->signal || planned_signal->at_ms > ms_now(c))
            continue;
        if (c->pid[planned_signal->node])
            kill(c->pid[planned_signal->node], planned_signal->signal);
        planned_signal->signal = 0;
    }
}

/*
 * The slowest node determines how far all may go: a node that is cut off waits for nobody, and
 * would run ahead.
 */
static void steps_let(struct chaos *c)
{
    uint64_t least = UINT32_MAX, steps = atomic_load(&c->board->steps);

    for (uint32_t n = 0; n < c->plan.nodes; n++) {
        uint32_t begun = atomic_load(&c->board->place[n].begun);

        if (c->pid[n] && begun < least)
            least = begun;
    }
    if (steps >= c->steps || (c->ms && ms_now(c) >= c->ms)) {
        atomic_store(&c->board->last, true);
        return;
    }
    if (least + AHEAD > steps)
        atomic_store(&c->board->steps,
                     (uint32_t)(least + 2 * AHEAD < c->steps ? least + 2 * AHEAD : c->steps));
}

static bool stands_still(struct chaos *c)
{
    uint64_t sum = c->alive;

    for (uint32_t n = 0; n < c->plan.nodes; n++)
        sum += atomic_load(&c->board->place[n].done) + atomic_load(&c->board->place[n].begun);
    if (sum != c->sum || !c->moved_ns) {
        c->sum = sum;
        c->moved_ns = emu_now_ns();
    }
    return (emu_now_ns() - c->moved_ns) / 1000000 > c->patience_ms;
}

static void print_where(const struct chaos *c)
{
    fprintf(stderr, "chaos_nodes: it stands still\n");
    for (uint32_t n = 0; n < c->plan.nodes; n++)
        fprintf(stderr, "chaos_nodes: node %u%s: %u steps begun, %" PRIu64 " operations over\n", n,
                c->pid[n] ? "" : ", which has ended", atomic_load(&c->board->place[n].begun),
                atomic_load(&c->board->place[n].done));
}

/* Tell the script that waits for it that the nodes are ready. */
static void greet(struct chaos *c)
{
    if (c->greeted || !c->hosts || atomic_load(&c->board->ready) != chaos_all(&c->plan))
        return;
    c->greeted = true;
    printf("chaos_nodes: all have come\n");
    fflush(stdout);
}

static bool watch(struct chaos *c)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    while (c->alive && !atomic_load(&c->board->wrong)) {
        greet(c);
        nodes_reap(c);
        successor_reap(c);
        successor_start(c);
        planned_signals_send(c);
        steps_let(c);
        if (stands_still(c)) {
            print_where(c);
            wrong(c, 0, "and others stand still for ms:", (int)c->patience_ms);
        }
        nanosleep(&nap, NULL);
    }
    return !atomic_load(&c->board->wrong);
}

int main(int argc, char **argv)
{
    struct chaos c = {.plan = {.seed = 1, .nodes = 4, .teams = 3},
                      .steps = 40,
                      .patience_ms = 30000,
                      .began_ns = emu_now_ns()};
    uint64_t done = 0, failed = 0, steps = 0;
    bool good;

    if (!options_read(&c, argc, argv)) {
        fprintf(stderr, "chaos_nodes: --help lists the options\n");
        return USAGE;
    }
    if (c.help) {
        help();
        return 0;
    }
    good = !nodes_start(&c) && watch(&c);
    nodes_kill(&c);
    for (uint32_t n = 0; n < c.plan.nodes; n++) {
        done += c.board->place[n].done;
        failed += c.board->place[n].failed;
        steps = c.board->place[n].begun > steps ? c.board->place[n].begun : steps;
    }
    printf("chaos_nodes: %" PRIu64 " steps, %" PRIu64 " operations, %" PRIu64
           " ended as they may, %" PRIu64 " taken back, %" PRIu64 " visits, %s%s\n",
           steps, done, failed, c.board->taken_back, c.board->visits,
           good ? "0 wrong" : "WRONG: ", good ? "" : c.board->line);
    return !good;
}
