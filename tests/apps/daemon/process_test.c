/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_test.c - processes attach and leave the nodes of a real fabric at random, and a model
 * says which messages must arrive or fail (process.h).
 *
 *    process_test FABEMU [--processes N] [--profile P] [--seed S]: N processes on each profile, or
 *    on that one. A seed reproduces the commands; when the processes run depends on the scheduler.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emu/util/now.h"
#include "tests/apps/daemon/process.h"
#include "tests/test.h"

#define PATIENCE_MS  60000 /* for steps that take milliseconds on an idle machine */
#define SETTLE_EVERY 120   /* commands */

/* Options from main(). */
static struct {
    const char *fabemu, *profile;
    uint32_t procs;
} wanted;

struct conductor {
    struct model model;
    uint64_t random;
    pid_t fabric;
    int control; /* the fabric's control socket */
    char dir[64];
    uint32_t orders;
};

static uint32_t draw(struct conductor *c, uint32_t below)
{
    return (uint32_t)(test_random(&c->random) % below);
}

static void broken(struct conductor *c, const char *what)
{
    if (!c->model.wrong[0])
        snprintf(c->model.wrong, sizeof c->model.wrong, "%.500s", what);
}

static bool fine(const struct conductor *c)
{
    return !c->model.wrong[0];
}

/* --- the fabric --------------------------------------------------------------------- */

static void fabric_start_process(struct conductor *c, const char *profile)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char line[256];
    int out[2];

    snprintf(c->dir, sizeof c->dir, "/tmp/fabemu-procs.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(c->dir));
    setenv("XDG_RUNTIME_DIR", c->dir, 1);
    snprintf(line, sizeof line, "%s/fabemu/procs.sock", c->dir);
    setenv("FABEMU_SOCKET", line, 1);
    CU_ASSERT_EQUAL_FATAL(pipe(out), 0);
    fflush(NULL);
    c->fabric = fork();
    if (c->fabric == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        close(out[1]);
        execl(wanted.fabemu, "fabemu", "up", "--foreground", "--topo", "kary:2,2", "--profile",
              profile, "procs", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    /* the fabric reports that it is up */
    CU_ASSERT_TRUE_FATAL(read(out[0], line, sizeof line) > 0);
    close(out[0]);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", getenv("FABEMU_SOCKET"));
    c->control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_EQUAL_FATAL(connect(c->control, (struct sockaddr *)&to, sizeof to), 0);
}

static void fabric_end(struct conductor *c)
{
    char path[128];

    close(c->control);
    kill(c->fabric, SIGTERM);
    waitpid(c->fabric, NULL, 0);
    snprintf(path, sizeof path, "%s/fabemu", c->dir);
    rmdir(path);
    rmdir(c->dir);
}

/* --- commands ----------------------------------------------------------------------- */

/* Wait for the next word of process @who. Returns false on time-out. */
static bool read_word(struct conductor *c, uint32_t who, struct process_word *word)
{
    struct pollfd fd = {.fd = c->model.proc[who].fd, .events = POLLIN};
    char text[64];

    if (poll(&fd, 1, PATIENCE_MS) == 1 && recv(fd.fd, word, sizeof *word, 0) == sizeof *word)
        return true;
    snprintf(text, sizeof text, "process %u (pid %d) does not answer", who, c->model.proc[who].pid);
    broken(c, text);
    return false;
}

static void read_all(struct conductor *c, uint32_t who)
{
    struct process_word word = {0};

    while (fine(c) && word.what != PROCESS_END && read_word(c, who, &word))
        model_reported(&c->model, who, &word);
}

static void send_command(struct conductor *c, uint32_t who, const struct process_order *order)
{
    if (send(c->model.proc[who].fd, order, sizeof *order, MSG_NOSIGNAL) != sizeof *order)
        broken(c, "a process ended by itself");
}

static void order(struct conductor *c, uint32_t who, const struct process_order *order)
{
    send_command(c, who, order);
    read_all(c, who);
}

static void look(struct conductor *c, uint32_t who)
{
    order(c, who, &(struct process_order){.what = PROCESS_REPORT});
}

/* --- start and end ------------------------------------------------------------------ */

static void birth(struct conductor *c, uint32_t node)
{
    struct process_word word = {0};
    uint32_t who;
    int pair[2];
    pid_t pid;

    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    if (draw(c, 4))
        unsetenv("FABEMU_ADAPTER_THREAD");
    else
        setenv("FABEMU_ADAPTER_THREAD", "0", 1);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        process_child(pair[1], node);
    }
    close(pair[1]);
    who = model_started(&c->model, pid, pair[0], node, 0, 0);
    if (!read_word(c, who, &word))
        return;
    c->model.proc[who].incarnation = word.incarnation;
    c->model.proc[who].key = word.key;
}

/* Does the fabric list process @pid as attached? */
static bool is_attached(struct conductor *c, pid_t pid)
{
    static const char ask[] = "{\"cmd\":\"status\"}\n";
    char line[65536], mine[32], *end;
    size_t got = 0;
    ssize_t n = 1;

    if (send(c->control, ask, sizeof ask - 1, MSG_NOSIGNAL) < 0)
        broken(c, "the fabric is gone");
    while (n > 0 && got < sizeof line - 1 && !memchr(line, '\n', got)) {
        n = recv(c->control, line + got, sizeof line - 1 - got, 0);
        got += n > 0 ? (size_t)n : 0;
    }
    line[got] = '\0';
    end = strstr(line, "\"report\""); /* the dead processes follow */
    if (!end) {
        broken(c, "the fabric does not answer");
        return false;
    }
    *end = '\0';
    snprintf(mine, sizeof mine, "\"pid\":%d,", (int)pid);
    return strstr(line, mine);
}

/* Record that the process is gone. */
static void retire(struct conductor *c, uint32_t who, bool died)
{
    waitpid(c->model.proc[who].pid, NULL, 0);
    close(c->model.proc[who].fd);
    model_gone(&c->model, who, died);
}

/* The fabric detects a death a moment later; only then does it hold for the other processes. */
static void retire_dead(struct conductor *c, uint32_t who)
{
    pid_t pid = c->model.proc[who].pid;

    retire(c, who, true);
    while (fine(c) && is_attached(c, pid))
        usleep(200);
}

static void let_go_on(struct conductor *c, uint32_t who)
{
    struct proc *proc = &c->model.proc[who];

    if (proc->state == PROC_STOPPED)
        proc->state = PROC_HERE;
    kill(proc->pid, SIGCONT);
}

/* Read the final report of processes that were told to leave: now, or when the others let them. */
static void read_leaving(struct conductor *c, bool wait)
{
    for (uint32_t n = 0; n < PROCESS_NODES && fine(c); n++) {
        int64_t who = c->model.at[n];
        struct pollfd fd = {.events = POLLIN};

        if (who < 0 || c->model.proc[who].state != PROC_LEAVING)
            continue;
        fd.fd = c->model.proc[who].fd;
        if (!wait && poll(&fd, 1, 0) != 1)
            continue;
        read_all(c, (uint32_t)who);
        retire(c, (uint32_t)who, false);
    }
}

static bool anybody_stopped(const struct conductor *c)
{
    for (uint32_t n = 0; n < PROCESS_NODES; n++)
        if (c->model.at[n] >= 0 && c->model.proc[c->model.at[n]].state == PROC_STOPPED)
            return true;
    return false;
}

static void end_process(struct conductor *c, uint32_t who)
{
    struct proc *proc = &c->model.proc[who];
    uint32_t how = draw(c, 6);

    if (how < 2) {
        kill(proc->pid, SIGKILL);
        retire_dead(c, who);
    } else if (how == 2 && proc->state == PROC_HERE) {
        send_command(c, who, &(struct process_order){.what = PROCESS_EXIT});
        retire_dead(c, who);
    } else if (proc->state == PROC_HERE) {
        send_command(c, who, &(struct process_order){.what = PROCESS_LEAVE});
        proc->state = PROC_LEAVING;
        read_leaving(c, !anybody_stopped(c) && draw(c, 2));
    }
}

/* --- one random command ------------------------------------------------------------- */

/* A random running process, or -1. */
static int64_t draw_process(struct conductor *c)
{
    for (uint32_t i = 0, n = draw(c, PROCESS_NODES); i < PROCESS_NODES;
         i++, n = (n + 1) % PROCESS_NODES)
        if (c->model.at[n] >= 0 && c->model.proc[c->model.at[n]].state == PROC_HERE)
            return c->model.at[n];
    return -1;
}

/* One of the last few processes at @node, the present one included; -1: none. */
static int64_t draw_name(struct conductor *c, uint32_t node)
{
    uint32_t from = c->model.procs > 12 ? c->model.procs - 12 : 0;
    int64_t found = -1;

    if (draw(c, 4))
        return c->model.at[node];
    for (uint32_t i = from; i < c->model.procs; i++)
        if (c->model.proc[i].node == node && (found < 0 || draw(c, 2)))
            found = i;
    return found;
}

static void draw_send(struct conductor *c, uint32_t who)
{
    static const uint32_t sizes[] = {1, 8, 150, 192, 193, 700, 5000, 9000, 60000};
    struct model *m = &c->model;
    uint32_t node = draw(c, PROCESS_NODES);
    int64_t name = draw(c, 3) ? draw_name(c, node) : -1;
    bool add = m->at[node] >= 0 && draw(c, 5) == 0;
    uint32_t queue = !add && name >= 0 && draw(c, 5) == 0 ? PROCESS_NAMED_QUEUE : PROCESS_ANY_QUEUE;
    struct process_order o = {.what = add ? PROCESS_ADD : PROCESS_SEND,
                              .node = node,
                              .queue = queue};

    o.bytes = add ? 8 : sizes[draw(c, queue == PROCESS_NAMED_QUEUE ? 4 : 9)];
    o.incarnation = name >= 0 ? m->proc[name].incarnation : 0;
    o.key = add ? m->proc[name >= 0 ? name : m->at[node]].key : 0;
    o.id = model_sends(m, who, node, name, queue, o.bytes, add);
    order(c, who, &o);
}

static void receive_from(struct conductor *c, uint32_t who, uint32_t from)
{
    struct process_order o = {.what = PROCESS_RECV,
                              .node = c->model.proc[from].node,
                              .bytes = 1000,
                              .incarnation = c->model.proc[from].incarnation};

    o.id = model_receives(&c->model, who, from);
    order(c, who, &o);
}

static void draw_order(struct conductor *c)
{
    uint32_t node = draw(c, PROCESS_NODES), what = draw(c, 100);
    int64_t there = c->model.at[node], who = draw_process(c);

    read_leaving(c, false);
    if (there < 0 && c->model.at[node] < 0 && (what < 40 || who < 0)) {
        birth(c, node);
        return;
    }
    if (what < 55 && who >= 0) {
        uint32_t burst = 1 + draw(c, 4) * draw(c, 4);

        while (burst-- && fine(c))
            draw_send(c, (uint32_t)who);
    } else if (what < 65 && who >= 0) {
        int64_t from = draw_name(c, node);
        if (from >= 0)
            receive_from(c, (uint32_t)who, (uint32_t)from);
    } else if (what < 78 && who >= 0) {
        look(c, (uint32_t)who);
    } else if (what < 90 && model_is_here(&c->model, c->model.at[node])) {
        end_process(c, (uint32_t)c->model.at[node]);
    } else if (model_is_here(&c->model, c->model.at[node])) {
        struct proc *proc = &c->model.proc[c->model.at[node]];
        if (proc->state == PROC_STOPPED) {
            let_go_on(c, (uint32_t)c->model.at[node]);
        } else {
            kill(proc->pid, SIGSTOP);
            proc->state = PROC_STOPPED;
        }
    }
}

/* --- settling ----------------------------------------------------------------------- */

static void settle(struct conductor *c)
{
    int64_t end_ms = emu_now_ms() + PATIENCE_MS, vacant;
    char what[320] = "";

    for (uint32_t n = 0; n < PROCESS_NODES; n++)
        if (c->model.at[n] >= 0)
            let_go_on(c, (uint32_t)c->model.at[n]);
    read_leaving(c, true);
    while (fine(c) && model_open(&c->model, what, sizeof what, &vacant)) {
        if (vacant >= 0 && c->model.at[vacant] < 0)
            birth(c, (uint32_t)vacant);
        for (uint32_t n = 0; n < PROCESS_NODES && fine(c); n++) {
            int64_t who = c->model.at[n], from;

            if (who < 0)
                continue;
            from = model_receives_short(&c->model, (uint32_t)who);
            if (from >= 0)
                receive_from(c, (uint32_t)who, (uint32_t)from);
            else
                look(c, (uint32_t)who);
        }
        if (emu_now_ms() > end_ms) {
            broken(c, what);
            fprintf(stderr, "procs: this did not happen in a minute:\n");
        }
    }
}

static void end_all(struct conductor *c)
{
    for (uint32_t n = 0; n < PROCESS_NODES; n++) {
        int64_t who = c->model.at[n];

        if (who < 0)
            continue;
        if (!fine(c)) {
            kill(c->model.proc[who].pid, SIGKILL);
            retire(c, (uint32_t)who, true);
            continue;
        }
        send_command(c, (uint32_t)who, &(struct process_order){.what = PROCESS_LEAVE});
        c->model.proc[who].state = PROC_LEAVING;
    }
    read_leaving(c, true);
}

static void run_model_on(const char *profile)
{
    struct conductor c = {.random = test_seed()};

    if (wanted.profile && strcmp(wanted.profile, profile) != 0)
        return;
    model_init(&c.model);
    fabric_start_process(&c, profile);
    while (fine(&c) && c.model.procs < wanted.procs) {
        draw_order(&c);
        if (++c.orders % SETTLE_EVERY == 0)
            settle(&c);
    }
    settle(&c);
    end_all(&c);
    printf("%s: %u procs, %llu messages, %llu of them failed as they should or might\n", profile,
           c.model.procs, (unsigned long long)c.model.messages, (unsigned long long)c.model.failed);
    if (!fine(&c))
        fprintf(stderr, "procs: %s, seed %s: %s\n", profile, getenv(TEST_SEED), c.model.wrong);
    CU_ASSERT_TRUE(fine(&c));
    fabric_end(&c);
    model_release(&c.model);
}

static void messages__follow_the_model_on_crosspoints(void)
{
    run_model_on("oq2004");
}

static void messages__follow_the_model_with_acknowledgments(void)
{
    run_model_on("qsnet3");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(messages__follow_the_model_on_crosspoints),
        CASE(messages__follow_the_model_with_acknowledgments),
        {0},
    };

    wanted.procs = TEST_TRIALS(80u);
    wanted.fabemu = argc > 1 ? argv[1] : "build/fabemu";
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--processes") == 0)
            wanted.procs = (uint32_t)strtoul(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--profile") == 0)
            wanted.profile = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            setenv(TEST_SEED, argv[i + 1], 1);
    }
    return test_run("process", cases);
}
