/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_simtime_test.c - adapters in simulated time, each with a thread of its own: equal times in
 * each run, a process that names a wrong time, and a long message.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emu/util/clock.h"
#include "nic/host/api/open.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/local_time.h"
#include "nic/host/base/wire.h"
#include "nic/host/progress/progress.h"
#include "nic/host/tx/up.h"
#include "tests/fixtures/host/adapters.h"
#include "tests/test.h"

#define NODES  3u
#define ROUNDS 40u
#define BYTES  20000u

struct process {
    struct run *run;
    uint32_t node;
    struct fabemu *fab;
    struct fabemu_queue *queue;
    pthread_t thread;
    uint64_t at_ps[ROUNDS]; /* local time after each round */
    bool goes_back;         /* it names a time that is past */
    bool goes_far;          /* it names a time that does not exist */
    bool is_late;           /* the host delays its polls */
    uint64_t sleeps_ns;     /* it only sleeps for this time */
    uint8_t out[BYTES], in[BYTES];
};

struct run {
    struct topo_graph *graph;
    struct fabric *fabric;
    pthread_mutex_t lock;
    uint64_t outside_ns;  /* set by run_all() */
    uint64_t full_ns;     /* how long segments waited for space in down rings; set by run_all() */
    uint64_t finished_ns; /* set by run_all() */
    uint64_t stalls;      /* how often a port had no credit; set by run_all() */
    int alarm_fd;         /* eventfd of fabric_set_alarm() */
    struct process process[NODES];
};

static uint64_t local_ps(const struct fabemu *fab)
{
    return atomic_load(&fab->hostif.shared->sim.now_ps);
}

/* Send a message to process @node and receive one from any process. */
static void exchange_with(struct process *p, uint32_t node, uint32_t round)
{
    struct fabemu_req send = {.status = 0}, receive = {.status = 0};
    const struct fabemu_dest next = {.node = node, .queue = 1, .tag = 7};
    const struct fabemu_iov out = {p->out, round * 997 % BYTES + 1}, in = {p->in, BYTES};

    p->out[0] = (uint8_t)round;
    CU_ASSERT_EQUAL(fabemu_recv(p->queue, FABEMU_ANY_NODE, 7, 0, &in, 1, &receive), 0);
    CU_ASSERT_EQUAL(fabemu_send(p->queue, &next, &out, 1, &send), 0);
    CU_ASSERT_EQUAL(fabemu_wait(p->fab, &send), 0);
    CU_ASSERT_EQUAL(fabemu_wait(p->fab, &receive), 0);
    CU_ASSERT_EQUAL(p->in[0], (uint8_t)round);
}

static void exchange(struct process *p, uint32_t round)
{
    exchange_with(p, (p->node + 1) % NODES, round);
}

/* The end of the next wait corrects the local time. */
static void name_far_time(struct fabemu *fab)
{
    atomic_store(&fab->hostif.shared->sim.now_ps, EMU_LAST_PS + 1);
    nic_sim_pause(fab);
    CU_ASSERT_TRUE(local_ps(fab) < EMU_LAST_PS);
}

/* A process that neither waits nor detaches holds up the others. One manager at a time detaches. */
static void detach(struct process *p)
{
    pthread_mutex_lock(&p->run->lock);
    fabric_detach(p->run->fabric, p->node);
    pthread_mutex_unlock(&p->run->lock);
}

/* Detach in order. Other processes see the end at once, so the last segments must arrive before. */
static void depart(struct process *p)
{
    CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, 100000));
    nic_leave(p->fab, p->fab->leave_limit_ns);
    detach(p);
}

static void *process_main(void *argument)
{
    struct process *p = argument;
    struct timespec now;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    CU_ASSERT_EQUAL(atomic_load(&p->fab->hostif.shared->sim.base_ns) % 1000000000, 0);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t before_ps = local_ps(p->fab);

        if (p->goes_back && round == ROUNDS / 2)
            atomic_store(&p->fab->hostif.shared->sim.now_ps, 1);
        if (p->goes_far && round == ROUNDS / 2)
            name_far_time(p->fab);
        exchange(p, round);
        if (round % 8 == p->node)
            CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, 5000));
        CU_ASSERT_TRUE(p->fab->sim.clock.read(p->fab, CLOCK_MONOTONIC, &now));
        p->at_ps[round] = local_ps(p->fab);
        CU_ASSERT_TRUE(p->goes_back || p->at_ps[round] > before_ps);
    }
    depart(p);
    return NULL;
}

static void run_open_set(struct run *run, const char *profile, const char *set, uint32_t threads)
{
    struct fabric_config config = {.clock = EMU_CLOCK_VIRTUAL, .threads = threads, .seed = 1};

    memset(run, 0, sizeof *run);
    pthread_mutex_init(&run->lock, NULL);
    fixture_profile(&config.profile, profile, set);
    run->fabric = fixture_fabric_start(&run->graph, "kary:2,2", UINT32_MAX, &config);
    for (uint32_t n = 0; n < NODES; n++) {
        struct process *p = &run->process[n];
        struct fabemu_info info = {.fabric = "test",
                                   .node = n,
                                   .nodes = run->graph->nodes,
                                   .incarnation = 1,
                                   .acknowledged = fabric_engine(run->fabric, n) != NULL};

        p->run = run;
        p->node = n;
        p->fab = adapters_open(run->fabric, &info);
        CU_ASSERT_EQUAL_FATAL(fabemu_queue_open(p->fab, 1, &p->queue), 0);
    }
    fabric_expect(run->fabric, NODES);
}

static void run_open(struct run *run, const char *profile, uint32_t threads)
{
    run_open_set(run, profile, NULL, threads);
}

/* Let all processes run @body. Returns how many segments were posted after their time. */
static uint64_t run_all(struct run *run, void *(*body)(void *process))
{
    struct fabric_totals totals;

    for (uint32_t n = 0; n < NODES; n++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&run->process[n].thread, NULL, body, &run->process[n]),
                              0);
    for (uint32_t n = 0; n < NODES; n++)
        pthread_join(run->process[n].thread, NULL);
    fabric_totals_read(run->fabric, &totals);
    run->outside_ns = totals.outside_ns;
    run->finished_ns = totals.finished_ns;
    run->stalls = totals.credit_stalls;
    run->full_ns = fabric_full_ns(run->fabric);
    for (uint32_t n = 0; n < NODES; n++) {
        nic_sim_end(run->process[n].fab);
        nic_close(run->process[n].fab);
    }
    fixture_fabric_stop(run->fabric, run->graph);
    pthread_mutex_destroy(&run->lock);
    return totals.late_posts;
}

static void processes__have_equal_times_in_each_run(void)
{
    static struct run first, again;
    static const char *const profiles[] = {"oq2004", "qsnet3"};

    for (uint32_t i = 0; i < 4; i++) {
        run_open(&first, profiles[i / 2], 1);
        CU_ASSERT_EQUAL(run_all(&first, process_main), 0);
        run_open(&again, profiles[i / 2], 1 + i % 2);
        CU_ASSERT_EQUAL(run_all(&again, process_main), 0);
        for (uint32_t n = 0; n < NODES; n++)
            CU_ASSERT_EQUAL(memcmp(first.process[n].at_ps, again.process[n].at_ps,
                                   sizeof first.process[n].at_ps),
                            0);
    }
}

static void fabric__does_not_go_back_with_a_process(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    run.process[1].goes_back = true;
    CU_ASSERT_TRUE(run_all(&run, process_main) > 0);
}

static void fabric__ignores_a_time_that_does_not_exist(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    run.process[1].goes_far = true;
    run_all(&run, process_main);
    for (uint32_t n = 0; n < NODES; n++)
        CU_ASSERT_TRUE(run.process[n].at_ps[ROUNDS - 1] < EMU_LAST_PS / 1000);
}

/* Other processes have detached or wait, so simulated time advances as far as it can. */
static void *sleeper_main(void *argument)
{
    struct process *p = argument;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    if (p->sleeps_ns)
        CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, p->sleeps_ns));
    p->at_ps[0] = local_ps(p->fab);
    detach(p);
    return NULL;
}

static struct fabemu_req *no_request(struct fabemu_req *req, void *at)
{
    (void)req, (void)at;
    return NULL;
}

/* Each process posts a receive of another kind. */
static void *receiver_main(void *argument)
{
    struct process *p = argument;
    const struct fabemu_source any = {FABEMU_ANY_NODE, FABEMU_ANY_QUEUE};
    const struct fabemu_multi multi = {p->in, BYTES, .min_bytes = 1, .next = no_request};
    const struct fabemu_iov in = {p->in, BYTES};
    struct fabemu_req req = {.status = 0};
    int err;

    nic_sim_begin(p->fab);
    if (p->node == 0)
        err = fabemu_recv_multi(p->queue, any, 7, 0, &multi, &req);
    else if (p->node == 1)
        err = fabemu_recv_notice(p->queue, &req);
    else
        err = fabemu_recv_from(p->queue, any, 7, 0, &in, 1, &req);
    CU_ASSERT_EQUAL(err, 0);
    CU_ASSERT_EQUAL(atomic_load(&p->fab->hostif.shared->sim.ready), 1);
    fabemu_await_time(p->fab);
    CU_ASSERT_EQUAL(fabemu_cancel(p->queue, &req), 0);
    detach(p);
    return NULL;
}

static void time__begins_after_a_receive_of_any_kind(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    run_all(&run, receiver_main);
}

/* The number of picoseconds of a sleep may exceed 64 bits. */
static void sleep__beyond_simulated_time_ends_with_it(void)
{
    static const uint64_t sleeps_ns[] = {UINT64_MAX / 1000 + 2000, UINT64_MAX};
    static struct run run;

    for (uint32_t i = 0; i < sizeof sleeps_ns / sizeof sleeps_ns[0]; i++) {
        run_open(&run, "oq2004", 1);
        run.process[0].sleeps_ns = sleeps_ns[i];
        run_all(&run, sleeper_main);
        CU_ASSERT_EQUAL(run.process[0].at_ps[0], EMU_LAST_PS);
    }
}

/* EPERM is the error number 1, and -1 as a descriptor means that no counter is used. */
static void *uncounted_main(void *argument)
{
    struct process *p = argument;
    struct emu_compute *compute = &p->fab->hostif.shared->sim.compute;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    if (p->node == 0) {
        int calls_fd = eventfd(0, 0);

        test_forbid(SYS_perf_event_open);
        compute->mode = EMU_COMPUTE_COUNT;
        CU_ASSERT_EQUAL(nic_compute_open(p->fab, calls_fd), -EPERM);
        CU_ASSERT_EQUAL(close(calls_fd), -1); /* it is closed already */
        compute->mode = EMU_COMPUTE_NONE;
    }
    detach(p);
    return NULL;
}

static void compute__is_not_measured_without_a_counter(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    run_all(&run, uncounted_main);
}

#define LONG_SLEEP_NS  UINT64_C(10000000000)
#define SHORT_SLEEP_NS UINT64_C(1000000)

/* Also before its end, a long sleep is reported as no standstill. */
static void *reporter_main(void *argument)
{
    static const uint64_t sleeps_ns[] = {SHORT_SLEEP_NS, LONG_SLEEP_NS};
    struct process *p = argument;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    for (uint32_t i = 0; i < sizeof sleeps_ns / sizeof sleeps_ns[0] && p->node == 0; i++) {
        struct emu_pending pending = {0};
        uint64_t began_ns = local_ps(p->fab) / 1000;

        CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, sleeps_ns[i]));
        emu_pending_read(&pending, &p->fab->hostif.shared->pending, NODES, UINT64_MAX);
        CU_ASSERT_EQUAL(pending.quiet_ns >= began_ns + sleeps_ns[i], sleeps_ns[i] == LONG_SLEEP_NS);
        CU_ASSERT_EQUAL(pending.written_ns > 0, sleeps_ns[i] == LONG_SLEEP_NS);
    }
    detach(p);
    return NULL;
}

static void sleep__is_reported_if_it_is_long(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    run_all(&run, reporter_main);
}

#define ASLEEP_NS 300000000 /* host time after which a sleeping process is surely outside */

/* Node 1 does nothing for @times times, and the kernel says that its process is asleep. */
static void sleep_outside(const struct process *p, uint32_t times)
{
    static const struct timespec duration = {.tv_nsec = ASLEEP_NS};

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    for (uint32_t i = 0; p->node == 1 && i < times; i++) {
        if (i > 0) /* between two sleeps, count progress as if it had posted an operation */
            nic_sim_progress(p->fab);
        nanosleep(&duration, NULL);
    }
}

static void *asleep_main(void *argument)
{
    struct process *p = argument;

    sleep_outside(p, 2);
    depart(p);
    return NULL;
}

static void *asleep_at_the_end_main(void *argument)
{
    struct process *p = argument;

    sleep_outside(p, 1);
    depart(p);
    return NULL;
}

/* Return for how long a process that sleeps, with @requests in progress, was outside. */
static uint64_t outside_ns(uint32_t requests, void *(*main)(void *argument))
{
    static struct run run;
    pid_t child = fork();

    if (!child) {
        for (;;)
            pause();
    }
    run_open(&run, "oq2004", 1);
    fabric_set_pid(run.fabric, 1, child);
    atomic_store(&run.process[1].fab->hostif.shared->sim.requests, requests);
    run_all(&run, main);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return run.outside_ns;
}

static void sleep__is_outside_unless_the_daemon_owes_a_reply(void)
{
    CU_ASSERT_TRUE(outside_ns(0, asleep_main) > 0);
    CU_ASSERT_EQUAL(outside_ns(1, asleep_main), 0);
    CU_ASSERT_EQUAL(outside_ns(0, asleep_at_the_end_main), 0); /* as in MPI_Finalize() */
}

#define ALARM_PS UINT64_C(1000000000)
#define AGENT_NS 20000000 /* host time that the agent takes to react to the alarm */

/* A sleep is one wait, unless the fabric ends the wait early. Record the number of waits. */
static void *long_sleeper_main(void *argument)
{
    struct process *p = argument;
    struct emu_simtime *sim = &p->fab->hostif.shared->sim;
    uint32_t begun;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    begun = atomic_load(&sim->begun);
    CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, 10 * ALARM_PS / 1000));
    p->at_ps[0] = atomic_load(&sim->begun) - begun;
    detach(p);
    return NULL;
}

/* React slowly to the alarm, as a daemon does that applies a fault on a busy host. */
static void *agent_main(void *argument)
{
    static const struct timespec duration = {.tv_nsec = AGENT_NS};
    struct run *run = argument;
    uint64_t expired;

    CU_ASSERT_EQUAL(read(run->alarm_fd, &expired, sizeof expired), sizeof expired);
    CU_ASSERT_EQUAL(fabric_reached_ps(run->fabric), ALARM_PS);
    nanosleep(&duration, NULL);
    pthread_mutex_lock(&run->lock); /* as in detach() */
    fabric_set_alarm(run->fabric, EMU_NEVER, -1);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static void wait__does_not_end_while_time_stands_at_an_alarm(void)
{
    static struct run run;
    pthread_t agent;

    run_open(&run, "oq2004", 1);
    run.alarm_fd = eventfd(0, EFD_CLOEXEC);
    fabric_set_alarm(run.fabric, ALARM_PS, run.alarm_fd);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&agent, NULL, agent_main, &run), 0);
    run_all(&run, long_sleeper_main);
    pthread_join(agent, NULL);
    close(run.alarm_fd);
    for (uint32_t n = 0; n < NODES; n++)
        CU_ASSERT_EQUAL(run.process[n].at_ps[0], 1);
}

/* A process may write anything into its part of the host interface. */
static void host_time__has_no_unknown_bits(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    for (uint32_t n = 0; n < 2; n++)
        atomic_store(&run.process[n].fab->hostif.shared->sim.host_time,
                     n ? ~(uint32_t)0 : UINT32_C(1) << 31);
    CU_ASSERT_EQUAL(fabric_host_time(run.fabric, 0), 0);
    CU_ASSERT_EQUAL(fabric_host_time(run.fabric, 1),
                    EMU_HOST_TIME_TIMERS | EMU_HOST_TIME_THREADS | EMU_HOST_TIME_CLOCKS);
    run_all(&run, process_main);
}

#define LONG_BYTES  (1u << 20)
#define LONG_PIECES (LONG_BYTES / NIC_DATA_BYTES + 1)

/* Node 0 sends a long message to node 1, which counts its waits. */
static void *stream_main(void *argument)
{
    static uint8_t out[LONG_BYTES], in[LONG_BYTES];
    struct process *p = argument;
    struct emu_simtime *sim = &p->fab->hostif.shared->sim;
    const struct fabemu_dest to = {.node = 1, .queue = 1, .tag = 7};
    const struct fabemu_iov from = {out, LONG_BYTES}, into = {in, LONG_BYTES};
    struct fabemu_req req = {.status = 0};
    uint32_t begun;
    uint64_t began_ps;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    begun = atomic_load(&sim->begun);
    began_ps = local_ps(p->fab);
    if (p->node == 0) {
        out[LONG_BYTES - 1] = 1;
        CU_ASSERT_EQUAL(fabemu_send(p->queue, &to, &from, 1, &req), 0);
        CU_ASSERT_EQUAL(fabemu_wait(p->fab, &req), 0);
    } else if (p->node == 1) {
        CU_ASSERT_EQUAL(fabemu_recv(p->queue, 0, 7, 0, &into, 1, &req), 0);
        CU_ASSERT_EQUAL(fabemu_wait(p->fab, &req), 0);
        CU_ASSERT_EQUAL(in[LONG_BYTES - 1], 1);
        p->at_ps[0] = local_ps(p->fab) - began_ps;
        p->at_ps[1] = atomic_load(&sim->begun) - begun;
    }
    depart(p);
    return NULL;
}

/* It continues at the arrival of the last piece, and few of the others wake it. */
static void wait__is_not_ended_by_each_piece_of_a_long_message(void)
{
    static struct run run;
    const uint64_t piece_ps = EMU_SEG_BYTES * UINT64_C(800);

    run_open(&run, "oq2004", 1);
    CU_ASSERT_EQUAL(run_all(&run, stream_main), 0);
    CU_ASSERT_TRUE(run.process[1].at_ps[0] > LONG_PIECES * piece_ps);
    CU_ASSERT_TRUE(run.process[1].at_ps[0] < LONG_PIECES * piece_ps + 15000000);
    CU_ASSERT_TRUE(run.process[1].at_ps[1] < LONG_PIECES / 16);
}

#define FULL_BYTES   (3u << 19) /* more than fits in a ring */
#define FULL_POLLS   20u
#define FULL_BUSY_PS UINT64_C(2000000000) /* 2 ms; a ring is full after 0.9 ms */

/* Poll until the requests have completed. A late process sometimes sleeps before it polls. */
static void poll_until_done(const struct process *p, struct fabemu_req *req, uint32_t count)
{
    for (uint32_t i = 0, polls = 0; i < count; polls++) {
        if (p->is_late && polls % 8 == p->node)
            usleep(300);
        fabemu_progress(p->fab);
        while (i < count && __atomic_load_n(&req[i].status, __ATOMIC_ACQUIRE) != FABEMU_PENDING)
            CU_ASSERT_EQUAL(req[i++].status, 0);
    }
}

/*
 * Exchange long messages with both other processes at once. Node 1 computes meanwhile, so its down
 * ring becomes full.
 */
static void *full_main(void *argument)
{
    static uint8_t out[FULL_BYTES], in[NODES][2][FULL_BYTES];
    struct process *p = argument;
    const struct fabemu_iov from = {out, FULL_BYTES};
    struct fabemu_req req[4] = {{.status = 0}};

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    for (uint32_t i = 0; i < 2; i++) {
        const struct fabemu_dest to = {(p->node + 1 + i) % NODES, .queue = 1, .tag = i};
        const struct fabemu_iov into = {in[p->node][i], FULL_BYTES};

        CU_ASSERT_EQUAL(fabemu_recv(p->queue, FABEMU_ANY_NODE, i, 0, &into, 1, &req[i]), 0);
        CU_ASSERT_EQUAL(fabemu_send(p->queue, &to, &from, 1, &req[2 + i]), 0);
    }
    for (uint32_t i = 0; i < FULL_POLLS; i++)
        fabemu_progress(p->fab);
    if (p->node == 1)
        nic_spend(p->fab, FULL_BUSY_PS);
    poll_until_done(p, req, 4);
    p->at_ps[0] = local_ps(p->fab);
    depart(p);
    return NULL;
}

/* The host decides when processes see space in the rings, but their local times stay equal. */
static void processes__have_equal_times_when_rings_are_full(void)
{
    static struct run first, again;
    static const char *const profiles[] = {"oq2004", "qsnet3"};

    for (uint32_t i = 0; i < 2 * NODES; i++) {
        run_open(&first, profiles[i % 2], 1);
        CU_ASSERT_EQUAL(run_all(&first, full_main), 0);
        CU_ASSERT_TRUE(first.full_ns > 500000);
        run_open(&again, profiles[i % 2], 2);
        again.process[i / 2].is_late = true;
        CU_ASSERT_EQUAL(run_all(&again, full_main), 0);
        CU_ASSERT_EQUAL(again.full_ns, first.full_ns);
        for (uint32_t n = 0; n < NODES; n++)
            CU_ASSERT_EQUAL(first.process[n].at_ps[0], again.process[n].at_ps[0]);
    }
}

#define FORGED_WAITS 100u

/*
 * Node 1 fills its down ring with quiet segments, and says that it has read more than there are. It
 * would take minutes to count these in each wait.
 */
static void *forge_main(void *argument)
{
    struct process *p = argument;
    struct emu_hostif_shared *shared = p->fab->hostif.shared;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    if (p->node == 1) {
        memset(shared->down, 0, sizeof shared->down);
        for (uint32_t i = 0; i < EMU_HOSTIF_SLOTS; i++) {
            shared->down[i].seg.hdr.kind = EMU_UNICAST;
            shared->down[i].seg.hdr.len = sizeof(uint64_t);
        }
        atomic_store(&shared->sim.quiet_ends, emu_hdr_words(&shared->down[0].seg.hdr).ends);
        atomic_store(&shared->sim.quiet_word, 0);
        atomic_store(&shared->sim.quiet_most, UINT32_MAX);
        atomic_store(&shared->down_head, atomic_load(&shared->down_tail) + 1);
    }
    for (uint32_t i = 0; i < FORGED_WAITS; i++)
        CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, 1000000));
    detach(p);
    return NULL;
}

static void fabric__is_not_stopped_by_forged_quiet_segments(void)
{
    static struct run run;

    run_open(&run, "oq2004", 1);
    run_all(&run, forge_main);
}

#define GARBAGE (2 * EMU_HOSTIF_SLOTS)
#define POSTS   20u
#define POST_NS 1000000u
#define BUSY_PS UINT64_C(18000000000)
#define LATE_PS UINT64_C(1000000000000)

/* The times at which node 1 says that it has read its segments. */
static const struct read_time {
    bool says;
    uint64_t ps;
} read_times[] = {{false, 0}, {true, EMU_LAST_PS / 2}, {true, EMU_LAST_PS - 1}, {true, 1}};
static const struct read_time *read_time;

/*
 * Write up to @count full segments to @dst into the ring of @fab, bypassing the adapter. Return how
 * many fitted.
 */
static uint32_t post_garbage(struct fabemu *fab, uint32_t dst, uint32_t count)
{
    struct emu_seg *seg;
    uint32_t posted = 0;

    nic_lock(fab);
    for (; posted < count && (seg = nic_claim(fab, dst)); posted++) {
        seg->hdr.len = EMU_PAYLOAD_BYTES;
        memset(seg->payload, 0, EMU_PAYLOAD_BYTES);
    }
    nic_unlock(fab);
    return posted;
}

static void say_read_times(struct emu_hostif_shared *shared)
{
    for (uint32_t i = 0; read_time->says && i < EMU_HOSTIF_SLOTS; i++)
        __atomic_store_n(&shared->down_ps[i], read_time->ps, __ATOMIC_RELAXED);
}

/* Compute until the down ring is full, and die. */
static void die_full(struct process *p)
{
    struct emu_hostif_shared *shared = p->fab->hostif.shared;

    say_read_times(shared);
    nic_spend(p->fab, BUSY_PS);
    while (fabric_reached_ps(p->run->fabric) < BUSY_PS)
        usleep(1000);
    if (read_time->says) { /* it has read all segments but one, and waits */
        say_read_times(shared);
        atomic_store(&shared->down_head, atomic_load(&shared->down_tail) - 1);
        emu_hostif_nic_await(&p->fab->hostif, BUSY_PS + 1);
    }
    pthread_mutex_lock(&p->run->lock);
    fabric_detach_dead(p->run->fabric, p->node);
    pthread_mutex_unlock(&p->run->lock);
}

/* The others send to node 1 more than fits, and exchange a message after its death. */
static void *full_and_dead_main(void *argument)
{
    struct process *p = argument;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    if (p->node == 1) {
        die_full(p);
        return NULL;
    }
    for (uint32_t posted = 0, i = 0; i < POSTS; i++) {
        posted += post_garbage(p->fab, 1, GARBAGE - posted);
        CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, POST_NS));
    }
    exchange_with(p, 2 - p->node, 0);
    p->at_ps[0] = local_ps(p->fab);
    depart(p);
    return NULL;
}

/* The segments that waited for a dead process do not block others, whatever it has said. */
static void fabric__is_not_blocked_by_a_full_ring_of_a_dead_process(void)
{
    static struct run run;
    static const struct {
        const char *profile, *set;
    } machines[] = {{"oq2004", NULL}, {"oq2004", "buffers=input"}, {"qsnet3", NULL}};

    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++)
        for (size_t i = 0; i < sizeof read_times / sizeof read_times[0]; i++) {
            read_time = &read_times[i];
            run_open_set(&run, machines[m].profile, machines[m].set, 1);
            run_all(&run, full_and_dead_main);
            CU_ASSERT_TRUE(run.process[0].at_ps[0] < LATE_PS);
            CU_ASSERT_TRUE(run.process[2].at_ps[0] < LATE_PS);
        }
}

/* Node 0 sends to node 1 one segment more than fits. Node 1 reads them when it has computed. */
static void *one_stall_main(void *argument)
{
    struct process *p = argument;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    for (uint32_t posted = 0; p->node == 0 && posted <= EMU_HOSTIF_SLOTS;) {
        posted += post_garbage(p->fab, 1, EMU_HOSTIF_SLOTS + 1 - posted);
        CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, POST_NS));
    }
    if (p->node == 1)
        nic_spend(p->fab, 2 * FULL_BUSY_PS);
    for (uint32_t i = 0; i < FULL_POLLS; i++) {
        fabemu_progress(p->fab);
        CU_ASSERT_TRUE(p->fab->sim.clock.sleep(p->fab, POST_NS));
    }
    depart(p);
    return NULL;
}

/* A stall is counted when it begins, and not again when the process names the time of space. */
static void stalls__of_host_interfaces_are_counted_once(void)
{
    static struct run run;
    static const char *const sets[] = {"", "buffers=input_xpoint", "credit=counter"};

    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        run_open_set(&run, "oq2004", sets[i], 1);
        run_all(&run, one_stall_main);
        CU_ASSERT_TRUE(run.full_ns > 0);
        CU_ASSERT_EQUAL(run.stalls, 1);
    }
}

#define END_NS 1000000u

/* Node 0 computes for END_NS. Its end counts although the fabric has nothing to do until then. */
static void *end_main(void *argument)
{
    struct process *p = argument;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    if (!p->node)
        nic_spend(p->fab, END_NS * 1000u - local_ps(p->fab));
    atomic_store(&p->fab->hostif.shared->sim.finished_ps,
                 p->goes_far ? EMU_LAST_PS : local_ps(p->fab));
    nic_sim_settle(p->fab);
    detach(p);
    return NULL;
}

static void fabric__believes_no_end_that_it_has_not_reached(void)
{
    static struct run run;
    struct emu_profile profile;
    uint64_t ahead_ps;

    /* The fabric may be ahead of node 0 by the time in which node 0 can affect it, and then by a
       window for each process that detaches. */
    fixture_profile(&profile, "oq2004", NULL);
    ahead_ps = profile.nic_send_ps + profile.channel_ps + profile.switch_ps +
               NODES * emu_profile_lookahead_ps(&profile);
    for (int forged = 0; forged < 2; forged++) {
        run_open(&run, "oq2004", 1);
        run.process[1].goes_far = forged;
        run_all(&run, end_main);
        CU_ASSERT_TRUE(run.finished_ns >= END_NS);
        CU_ASSERT_TRUE(run.finished_ns <= END_NS + (forged ? ahead_ps / 1000 : 0));
    }
}

/* --- threads -------------------------------------------------------------------------- */

#define READINGS 100u

/* A thread that only polls, while others use the adapter. */
struct poller {
    struct fabemu *fab;
    pthread_t thread;
    _Atomic bool stop;
    bool went_back;
};

static void *poll_main(void *argument)
{
    struct poller *poller = argument;
    uint64_t last_ps = 0;

    while (!atomic_load(&poller->stop)) {
        uint64_t now_ps = local_ps(poller->fab);

        poller->went_back |= now_ps < last_ps;
        last_ps = now_ps;
        fabemu_progress(poller->fab);
    }
    return NULL;
}

/* Exchange messages and read the clock, while two other threads poll. */
static void *threads_main(void *argument)
{
    struct process *p = argument;
    struct poller poller[2] = {{.fab = p->fab}, {.fab = p->fab}};
    struct timespec now;
    uint64_t last_ps = 0;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    for (uint32_t i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&poller[i].thread, NULL, poll_main, &poller[i]), 0);
    for (uint32_t round = 0; round < ROUNDS / 4; round++) {
        exchange(p, round);
        for (uint32_t i = 0; i < READINGS; i++) {
            CU_ASSERT_TRUE(p->fab->sim.clock.read(p->fab, CLOCK_MONOTONIC, &now));
            CU_ASSERT_TRUE(local_ps(p->fab) >= last_ps);
            last_ps = local_ps(p->fab);
        }
    }
    for (uint32_t i = 0; i < 2; i++)
        atomic_store(&poller[i].stop, true);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(poller[i].thread, NULL);
        CU_ASSERT_FALSE(poller[i].went_back);
    }
    depart(p);
    return NULL;
}

static void time__does_not_go_back_for_any_thread(void)
{
    struct run run;

    run_open(&run, "qsnet3", 2);
    run_all(&run, threads_main);
}

/* What a signal handler does that has interrupted a call of the library. */
static void handle(struct fabemu *fab)
{
    uint64_t before_ps = local_ps(fab), readings = fab->sim.compute.readings;
    struct timespec now;

    CU_ASSERT_FALSE(fab->sim.clock.sleep(fab, 2000000000));
    CU_ASSERT_EQUAL(local_ps(fab), before_ps);
    CU_ASSERT_TRUE(fab->sim.clock.read(fab, CLOCK_MONOTONIC, &now));
    CU_ASSERT_EQUAL(fab->sim.compute.readings, readings);
}

static void *handler_main(void *argument)
{
    struct process *p = argument;

    nic_sim_begin(p->fab);
    fabemu_await_time(p->fab);
    exchange(p, 0);
    nic_lock(p->fab);
    handle(p->fab);
    nic_unlock(p->fab);
    nic_turn_take(p->fab);
    handle(p->fab);
    CU_ASSERT_TRUE(nic_trylock(p->fab));
    CU_ASSERT_FALSE(nic_turn_try(p->fab) || nic_trylock(p->fab));
    handle(p->fab);
    nic_unlock(p->fab);
    nic_turn_release(p->fab);
    nic_sim_enter(p->fab);
    handle(p->fab);
    nic_sim_leave(p->fab);
    exchange(p, 1);
    depart(p);
    return NULL;
}

/* A handler that waited for the lock of its own thread would never return. */
static void handler__neither_waits_for_a_lock_nor_counts_calls(void)
{
    static struct run run;

    run_open(&run, "qsnet3", 1);
    run_all(&run, handler_main);
}

static void *await_main(void *argument)
{
    struct emu_hostif_nic *nic = argument;

    while (!emu_hostif_nic_await(nic, 100))
        ;
    return NULL;
}

/* The fabric ends a wait at 100 ps. Before the waiting thread runs, another one spends 500 ps. */
static void wait__keeps_the_time_that_another_thread_has_spent(void)
{
    struct emu_hostif_nic nic = {.shared = emu_zeros(sizeof *nic.shared), .bell = -1};
    struct emu_simtime *sim = &nic.shared->sim;
    struct fabemu fab = {.hostif = nic};
    pthread_t thread;

    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, await_main, &nic), 0);
    while (!atomic_load(&sim->begun))
        sched_yield();
    atomic_store(&sim->end_ps, 100);
    nic_spend(&fab, 500);
    while (pthread_tryjoin_np(thread, NULL)) {
        atomic_store(&sim->ended, atomic_load(&sim->begun));
        syscall(SYS_futex, &sim->ended, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        sched_yield();
    }
    CU_ASSERT_EQUAL(local_ps(&fab), 500);
    free(nic.shared);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(processes__have_equal_times_in_each_run),
        CASE(fabric__does_not_go_back_with_a_process),
        CASE(fabric__ignores_a_time_that_does_not_exist),
        CASE(time__begins_after_a_receive_of_any_kind),
        CASE(sleep__beyond_simulated_time_ends_with_it),
        CASE(compute__is_not_measured_without_a_counter),
        CASE(sleep__is_reported_if_it_is_long),
        CASE(sleep__is_outside_unless_the_daemon_owes_a_reply),
        CASE(wait__does_not_end_while_time_stands_at_an_alarm),
        CASE(host_time__has_no_unknown_bits),
        CASE(wait__is_not_ended_by_each_piece_of_a_long_message),
        CASE(processes__have_equal_times_when_rings_are_full),
        CASE(fabric__is_not_stopped_by_forged_quiet_segments),
        CASE(fabric__is_not_blocked_by_a_full_ring_of_a_dead_process),
        CASE(stalls__of_host_interfaces_are_counted_once),
        CASE(fabric__believes_no_end_that_it_has_not_reached),
        CASE(time__does_not_go_back_for_any_thread),
        CASE(handler__neither_waits_for_a_lock_nor_counts_calls),
        CASE(wait__keeps_the_time_that_another_thread_has_spent),
        {0},
    };

    return test_run("nic_simtime", cases);
}
