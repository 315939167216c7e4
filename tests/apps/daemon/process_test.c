/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_test.c - processes come and go on the nodes of a real fabric, at random, and a model says
 * what must become of what they say to each other (process.h).
 *
 * process_test FABEMU [--lives N] [--profile P] [--seed S]: N lives on each profile, or on that
 * one. A seed draws the same orders again; when the processes run is the scheduler's.
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

#define PATIENCE_MS  60000 /* for what takes milliseconds on an idle machine */
#define SETTLE_EVERY 120   /* orders */

/* What main() was told. */
static struct {
    const char *fabemu, *profile;
    uint32_t lives;
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

    snprintf(c->dir, sizeof c->dir, "/tmp/fabemu-lives.XXXXXX");
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(c->dir));
    setenv("XDG_RUNTIME_DIR", c->dir, 1);
    snprintf(line, sizeof line, "%s/fabemu/lives.sock", c->dir);
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
              profile, "lives", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    CU_ASSERT_TRUE_FATAL(read(out[0], line, sizeof line) > 0); /* it says that it is up */
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

/* --- orders ------------------------------------------------------------------------- */

/* The next word of life @who, waiting for it. False: it said nothing for long. */
static bool hear(struct conductor *c, uint32_t who, struct process_word *word)
{
    struct pollfd fd = {.fd = c->model.life[who].fd, .events = POLLIN};
    char text[64];

    if (poll(&fd, 1, PATIENCE_MS) == 1 && recv(fd.fd, word, sizeof *word, 0) == sizeof *word)
        return true;
    snprintf(text, sizeof text, "life %u (pid %d) does not answer", who, c->model.life[who].pid);
    broken(c, text);
    return false;
}

static void hear_all(struct conductor *c, uint32_t who)
{
    struct process_word word = {0};

    while (fine(c) && word.what != PROCESS_END && hear(c, who, &word))
        model_hears(&c->model, who, &word);
}

static void tell(struct conductor *c, uint32_t who, const struct process_order *order)
{
    if (send(c->model.life[who].fd, order, sizeof *order, MSG_NOSIGNAL) != sizeof *order)
        broken(c, "a life ended by itself");
}

static void order(struct conductor *c, uint32_t who, const struct process_order *order)
{
    tell(c, who, order);
    hear_all(c, who);
}

static void look(struct conductor *c, uint32_t who)
{
    order(c, who, &(struct process_order){.what = PROCESS_REPORT});
}

/* --- birth and end ------------------------------------------------------------------ */

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
    who = model_born(&c->model, pid, pair[0], node, 0, 0);
    if (!hear(c, who, &word))
        return;
    c->model.life[who].incarnation = word.incarnation;
    c->model.life[who].key = word.key;
}

/* Is process @pid attached still, says the fabric? */
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
    end = strstr(line, "\"report\""); /* what follows are the dead */
    if (!end) {
        broken(c, "the fabric does not answer");
        return false;
    }
    *end = '\0';
    snprintf(mine, sizeof mine, "\"pid\":%d,", (int)pid);
    return strstr(line, mine);
}

/* It is gone, and everybody may know. */
static void bury(struct conductor *c, uint32_t who, bool died)
{
    waitpid(c->model.life[who].pid, NULL, 0);
    close(c->model.life[who].fd);
    model_gone(&c->model, who, died);
}

/* The fabric sees a death a moment after it: only then is it true for the others. */
static void bury_dead(struct conductor *c, uint32_t who)
{
    pid_t pid = c->model.life[who].pid;

    bury(c, who, true);
    while (fine(c) && is_attached(c, pid))
        usleep(200);
}

static void let_go_on(struct conductor *c, uint32_t who)
{
    struct life *life = &c->model.life[who];

    if (life->state == LIFE_STOPPED)
        life->state = LIFE_HERE;
    kill(life->pid, SIGCONT);
}

/* Those who were told to leave say how it ended; now, or as soon as others let them. */
static void hear_leaving(struct conductor *c, bool wait)
{
    for (uint32_t n = 0; n < PROCESS_NODES && fine(c); n++) {
        int64_t who = c->model.at[n];
        struct pollfd fd = {.events = POLLIN};

        if (who < 0 || c->model.life[who].state != LIFE_LEAVING)
            continue;
        fd.fd = c->model.life[who].fd;
        if (!wait && poll(&fd, 1, 0) != 1)
            continue;
        hear_all(c, (uint32_t)who);
        bury(c, (uint32_t)who, false);
    }
}

static bool anybody_stopped(const struct conductor *c)
{
    for (uint32_t n = 0; n < PROCESS_NODES; n++)
        if (c->model.at[n] >= 0 && c->model.life[c->model.at[n]].state == LIFE_STOPPED)
            return true;
    return false;
}

static void end_life(struct conductor *c, uint32_t who)
{
    struct life *life = &c->model.life[who];
    uint32_t how = draw(c, 6);

    if (how < 2) {
        kill(life->pid, SIGKILL);
        bury_dead(c, who);
    } else if (how == 2 && life->state == LIFE_HERE) {
        tell(c, who, &(struct process_order){.what = PROCESS_EXIT});
        bury_dead(c, who);
    } else if (life->state == LIFE_HERE) {
        tell(c, who, &(struct process_order){.what = PROCESS_LEAVE});
        life->state = LIFE_LEAVING;
        hear_leaving(c, !anybody_stopped(c) && draw(c, 2));
    }
}

/* --- one order, drawn --------------------------------------------------------------- */

/* Somebody who lives and runs, or -1. */
static int64_t draw_life(struct conductor *c)
{
    for (uint32_t i = 0, n = draw(c, PROCESS_NODES); i < PROCESS_NODES;
         i++, n = (n + 1) % PROCESS_NODES)
        if (c->model.at[n] >= 0 && c->model.life[c->model.at[n]].state == LIFE_HERE)
            return c->model.at[n];
    return -1;
}

/* One of the last few that were at @node, the present one included; -1 none. */
static int64_t draw_name(struct conductor *c, uint32_t node)
{
    uint32_t from = c->model.lives > 12 ? c->model.lives - 12 : 0;
    int64_t found = -1;

    if (draw(c, 4))
        return c->model.at[node];
    for (uint32_t i = from; i < c->model.lives; i++)
        if (c->model.life[i].node == node && (found < 0 || draw(c, 2)))
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
    o.incarnation = name >= 0 ? m->life[name].incarnation : 0;
    o.key = add ? m->life[name >= 0 ? name : m->at[node]].key : 0;
    o.id = model_sends(m, who, node, name, queue, o.bytes, add);
    order(c, who, &o);
}

static void receive_from(struct conductor *c, uint32_t who, uint32_t from)
{
    struct process_order o = {.what = PROCESS_RECV,
                              .node = c->model.life[from].node,
                              .bytes = 1000,
                              .incarnation = c->model.life[from].incarnation};

    o.id = model_receives(&c->model, who, from);
    order(c, who, &o);
}

static void draw_order(struct conductor *c)
{
    uint32_t node = draw(c, PROCESS_NODES), what = draw(c, 100);
    int64_t there = c->model.at[node], who = draw_life(c);

    hear_leaving(c, false);
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
        end_life(c, (uint32_t)c->model.at[node]);
    } else if (model_is_here(&c->model, c->model.at[node])) {
        struct life *life = &c->model.life[c->model.at[node]];
        if (life->state == LIFE_STOPPED) {
            let_go_on(c, (uint32_t)c->model.at[node]);
        } else {
            kill(life->pid, SIGSTOP);
            life->state = LIFE_STOPPED;
        }
    }
}

/* --- all that must happen does ------------------------------------------------------ */

static void settle(struct conductor *c)
{
    int64_t end_ms = emu_now_ms() + PATIENCE_MS, vacant;
    char what[320] = "";

    for (uint32_t n = 0; n < PROCESS_NODES; n++)
        if (c->model.at[n] >= 0)
            let_go_on(c, (uint32_t)c->model.at[n]);
    hear_leaving(c, true);
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
            fprintf(stderr, "lives: this did not happen in a minute:\n");
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
            kill(c->model.life[who].pid, SIGKILL);
            bury(c, (uint32_t)who, true);
            continue;
        }
        tell(c, (uint32_t)who, &(struct process_order){.what = PROCESS_LEAVE});
        c->model.life[who].state = LIFE_LEAVING;
    }
    hear_leaving(c, true);
}

static void lives_on(const char *profile)
{
    struct conductor c = {.random = test_seed()};

    if (wanted.profile && strcmp(wanted.profile, profile) != 0)
        return;
    model_init(&c.model);
    fabric_start_process(&c, profile);
    while (fine(&c) && c.model.lives < wanted.lives) {
        draw_order(&c);
        if (++c.orders % SETTLE_EVERY == 0)
            settle(&c);
    }
    settle(&c);
    end_all(&c);
    printf("%s: %u lives, %llu messages, %llu of them failed as they should or might\n", profile,
           c.model.lives, (unsigned long long)c.model.messages, (unsigned long long)c.model.failed);
    if (!fine(&c))
        fprintf(stderr, "lives: %s, seed %s: %s\n", profile, getenv(TEST_SEED), c.model.wrong);
    CU_ASSERT_TRUE(fine(&c));
    fabric_end(&c);
    model_release(&c.model);
}

static void incarnations__keep_what_is_said_on_crosspoints(void)
{
    lives_on("oq2004");
}

static void incarnations__keep_what_is_said_with_acknowledgments(void)
{
    lives_on("qsnet3");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(incarnations__keep_what_is_said_on_crosspoints),
        CASE(incarnations__keep_what_is_said_with_acknowledgments),
        {0},
    };

    wanted.lives = TEST_TRIALS(80u);
    wanted.fabemu = argc > 1 ? argv[1] : "build/fabemu";
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--lives") == 0)
            wanted.lives = (uint32_t)strtoul(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--profile") == 0)
            wanted.profile = argv[i + 1];
        else if (strcmp(argv[i], "--seed") == 0)
            setenv(TEST_SEED, argv[i + 1], 1);
    }
    return test_run("lives", cases);
}
