/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.c - an adapter's life and its step; waiting.
 */
#include "nic/host/adapter.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "emu/worker/wait.h"

#define EAGER_DEFAULT 8192u
#define HAIL_LIMIT_MS 10000u

uint64_t nic_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t nic_random(void)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = nic_now_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ (uintptr_t)&random;
    return random;
}

/* --- the error line -------------------------------------------------------------- */

static _Thread_local char error_line[256]; /* fabemu_error() is a thread's own */

int nic_fail(int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error_line, sizeof error_line, format, args);
    va_end(args);
    return err;
}

const char *nic_remedy(int err)
{
    switch (err) {
    case -EMFILE:
        return "; raise its limit of open files (ulimit -n)";
    case -ENOMEM:
        return "; raise its limit of memory (ulimit -v)";
    case -EAGAIN:
        return "; raise this user's limit of processes and threads (ulimit -u)";
    default:
        return "";
    }
}

int nic_fail_gone(void)
{
    return nic_fail(-ENOTCONN, "this process has no fabric (any more)");
}

const char *fabemu_error(void)
{
    return error_line;
}

/* --- open, close ------------------------------------------------------------------- */

static uint32_t env_number(const char *name, uint32_t otherwise, uint32_t most)
{
    const char *text = getenv(name);
    unsigned long long value;
    char *end;

    if (!text || !*text)
        return otherwise;
    value = strtoull(text, &end, 0);
    if (*end)
        return otherwise;
    return value > most ? most : (uint32_t)value;
}

static void nic_init(struct fabemu *fab)
{
    const struct emu_edge_shared *sh = fab->edge.shared;

    fab->life = fab->info.seat = emu_seat_first(emu_edge_nic_seat(&fab->edge, fab->info.node));
    fab->eager_bytes = env_number("FABEMU_EAGER_BYTES", EAGER_DEFAULT, NIC_EAGER_LIMIT);
    fab->hail_limit_ns =
        env_number("FABEMU_PEER_TIMEOUT_MS", HAIL_LIMIT_MS, UINT32_MAX) * UINT64_C(1000000);
    fab->watch_gap_ns = NIC_WATCH_NS;
    fab->watch_ns = nic_now_ns() + NIC_WATCH_NS;
    fab->timed = sh->timed;
    fab->send_ps = sh->timed ? sh->nic_send_ps : 0;
    fab->pid = getpid();
    emu_list_init(&fab->ready);
    emu_list_init(&fab->hailing);
    emu_list_init(&fab->bulk);
    emu_list_init(&fab->ctls);
    emu_list_init(&fab->ctl_free);
    emu_list_init(&fab->serving);
    emu_list_init(&fab->busy);
    emu_list_init(&fab->setting);
    emu_list_init(&fab->again);
    emu_list_init(&fab->events);
    emu_list_init(&fab->fired);
    for (unsigned pool = 0; pool < NIC_MSG_POOLS; pool++)
        emu_list_init(&fab->msg_free[pool]);
    atomic_store_explicit(&fab->seen_tail, fab->edge.down_head, memory_order_relaxed);
}

int nic_open(struct fabemu **ret, int memfd, int bell, const struct fabemu_info *info)
{
    struct fabemu *fab = aligned_alloc(EMU_LINE, sizeof *fab);
    int err = -ENOMEM;

    if (!fab)
        return err;
    memset(fab, 0, sizeof *fab);
    err = emu_edge_nic_open(&fab->edge, memfd, bell);
    if (err)
        goto free_fab;
    err = -EPROTO;
    if (info->node != fab->edge.shared->node || info->nodes != fab->edge.shared->nodes)
        goto close_edge;
    fab->info = *info;
    err = -ENOMEM;
    fab->peers = calloc(info->nodes, sizeof *fab->peers);
    if (!fab->peers)
        goto close_edge;
    fab->queues = calloc(NIC_QUEUES, sizeof(struct fabemu_queue *));
    if (!fab->queues)
        goto free_peers;
    err = -pthread_mutex_init(&fab->lock, NULL);
    if (err)
        goto free_queues;
    nic_init(fab);
    *ret = fab;
    return 0;

free_queues:
    free(fab->queues);
free_peers:
    free(fab->peers);
close_edge:
    fab->edge.bell = -1; /* stays the caller's */
    emu_edge_nic_close(&fab->edge);
free_fab:
    free(fab);
    return err;
}

static void nic_free_pools(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->serving)) {
        struct nic_op *op = emu_list_entry(fab->serving.next, struct nic_op, link);

        emu_list_del(&op->link);
        free(op);
    }
    for (struct emu_list *head = &fab->ctls;; head = &fab->ctl_free) {
        while (!emu_list_empty(head)) {
            struct nic_ctl *ctl = emu_list_entry(head->next, struct nic_ctl, link);

            emu_list_del(&ctl->link);
            free(ctl);
        }
        if (head == &fab->ctl_free)
            break;
    }
    while (fab->early_free) {
        struct nic_early *early = fab->early_free;

        fab->early_free = early->next;
        free(early);
    }
    nic_message_release_pools(fab);
}

void nic_close(struct fabemu *fab)
{
    nic_queue_release(fab);
    nic_group_release(fab);
    for (uint32_t i = 0; i < fab->info.nodes; i++)
        nic_peer_release(fab, &fab->peers[i]);
    nic_op_fail_all(fab, FABEMU_ANY_NODE, NULL, -ECANCELED);
    nic_event_release(fab);
    for (uint32_t i = 0; i < fab->region_count; i++)
        free(fab->regions[i]);
    nic_free_pools(fab);
    free(fab->regions);
    free(fab->slots);
    free(fab->loop);
    free(fab->queues);
    free(fab->peers);
    pthread_mutex_destroy(&fab->lock);
    emu_edge_nic_close(&fab->edge);
    free(fab->path);
    free(fab);
}

const struct fabemu_info *fabemu_info(const struct fabemu *fab)
{
    return &fab->info;
}

/* --- the lock, the step ---------------------------------------------------------------- */

static void nic_clock(struct fabemu *fab)
{
    if (fab->timed)
        fab->now_ps = (nic_now_ns() - fab->edge.shared->origin_ns) * 1000;
}

void nic_lock(struct fabemu *fab)
{
    pthread_mutex_lock(&fab->lock);
    nic_clock(fab);
}

/* Is there anything that is to go to the up ring? */
static bool nic_has_more(const struct fabemu *fab)
{
    return !emu_list_empty(&fab->bulk) || !emu_list_empty(&fab->ready) ||
           !emu_list_empty(&fab->busy) || !emu_list_empty(&fab->ctls) ||
           !emu_list_empty(&fab->setting);
}

/* Does something wait for room in the up ring? The fabric does not wake us for that. */
static bool nic_is_stalled(const struct fabemu *fab)
{
    return fab->edge.up_tail - fab->edge.up_head >= EMU_EDGE_SLOTS - NIC_RING_RESERVE &&
           nic_has_more(fab);
}

void nic_unlock(struct fabemu *fab)
{
    bool stalled, wake = false;

    if (!emu_list_empty(&fab->fired))
        nic_event_run(fab);
    emu_edge_nic_publish(&fab->edge);
    stalled = nic_is_stalled(fab);
    if (stalled != atomic_load_explicit(&fab->stalled, memory_order_relaxed))
        atomic_store_explicit(&fab->stalled, stalled, memory_order_relaxed);
    if (fab->completions) {
        fab->completions = 0;
        wake = atomic_load_explicit(&fab->sleepers, memory_order_seq_cst);
    }
    pthread_mutex_unlock(&fab->lock);
    if (wake)
        emu_edge_nic_wake(fab->edge.shared);
}

uint32_t nic_step(struct fabemu *fab)
{
    uint32_t taken = nic_receive(fab);

    if (taken) {
        emu_edge_nic_consumed(&fab->edge);
        /* N1 pairs with N2: who sees this tail sees what its segments completed. */
        atomic_store_explicit(&fab->seen_tail, fab->edge.down_head, memory_order_release);
    }
    if (emu_edge_nic_endings(&fab->edge) != fab->endings) /* after what those had sent */
        nic_peer_look_all(fab);
    if (!emu_list_empty(&fab->hailing))
        nic_peer_rehail(fab);
    if (!emu_list_empty(&fab->again))
        taken += nic_word_again(fab);
    if (++fab->steps % NIC_WATCH_STEPS == 0)
        nic_peer_watch(fab);
    return taken + nic_transmit(fab);
}

uint32_t nic_poll(struct fabemu *fab)
{
    uint32_t moved;

    if (nic_gone(fab) || pthread_mutex_trylock(&fab->lock))
        return 0;
    nic_clock(fab);
    moved = nic_step(fab);
    nic_unlock(fab);
    return moved;
}

uint32_t nic_poll_app(struct fabemu *fab)
{
    struct emu_edge_shared *sh = fab->edge.shared;
    uint32_t polls = atomic_load_explicit(&fab->polls, memory_order_relaxed);

    if (nic_gone(fab))
        return 0; /* the edge is the parent's */
    atomic_store_explicit(&fab->polls, polls + 1, memory_order_relaxed); /* may lose a count */
    if (atomic_load_explicit(&sh->asleep, memory_order_relaxed))
        atomic_store_explicit(&sh->asleep, 0, memory_order_relaxed); /* no need to wake anybody */
    return nic_poll(fab);
}

bool nic_in_fabric(struct fabemu *fab)
{
    return !nic_has_more(fab) &&
           atomic_load_explicit(&fab->edge.shared->up_head, memory_order_acquire) ==
               fab->edge.up_tail; /* Y1 */
}

void nic_complete(struct fabemu *fab, struct fabemu_req *req, int status)
{
    void (*done)(struct fabemu_req *) = req->done;
    struct fabemu_event *event = req->event;

    fab->completions++;
    /* N3 pairs with N4, fabemu_req_status(). */
    __atomic_store_n(&req->status, status, __ATOMIC_RELEASE);
    if (event)
        nic_event_counts(fab, event, 1, status);
    if (done)
        done(req);
}

unsigned fabemu_progress(struct fabemu *fab)
{
    return nic_poll_app(fab);
}

/* --- waiting --------------------------------------------------------------------------- */

bool fabemu_test(struct fabemu *fab, struct fabemu_req *req)
{
    if (fabemu_req_status(req) != FABEMU_PENDING)
        return true;
    nic_poll_app(fab);
    return fabemu_req_status(req) != FABEMU_PENDING;
}

static bool nic_is_crowded(const struct fabemu *fab)
{
    return atomic_load_explicit(&fab->edge.shared->crowded, memory_order_relaxed);
}

/* Until the fabric brings something, or @most_ns. */
static void nic_nap(const struct fabemu *fab, uint32_t seen_tail, uint64_t most_ns)
{
    struct emu_edge_shared *sh = fab->edge.shared;

    if (atomic_load_explicit(&fab->stalled, memory_order_relaxed) ||
        atomic_load_explicit(&sh->down_tail, memory_order_relaxed) != seen_tail)
        sched_yield(); /* room comes, or a segment is due, sooner than a sleep would end */
    else
        emu_edge_nic_sleep(sh, seen_tail, most_ns);
}

void nic_sleep(struct fabemu *fab, uint32_t seen_tail)
{
    nic_nap(fab, seen_tail, NIC_SLEEP_NS);
}

static uint64_t thread_ran_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * A yield gives the core to threads of the same session only, where Linux schedules sessions as
 * groups (sched_autogroup), and a fabric that is up, or a peer, may be in another: it would wait until
 * the scheduler has had enough of this group. So a thread that does nothing but ask naps now and then.
 * It is known by having hardly run over several questions: one that works between them may ask twice
 * in a row, as MPI_Iprobe does, and is not to be held up.
 */
void fabemu_idle(const struct fabemu *fab, unsigned rounds)
{
    static _Thread_local uint64_t since_ns; /* time that the thread had run when it last was looked at, */
    static _Thread_local unsigned asked;    /* and how often it has asked since */
    uint64_t ran_ns;

    if (emu_wait_round(rounds, nic_is_crowded(fab)) == EMU_WAIT_AGAIN)
        return;
    if (nic_gone(fab) || ++asked < NIC_NAP_QUESTIONS) {
        emu_wait_yield();
        return;
    }
    ran_ns = thread_ran_ns() - since_ns;
    if (ran_ns > NIC_NAP_QUESTIONS * NIC_NAP_WORK_NS)
        emu_wait_yield();
    else
        nic_nap(fab, atomic_load_explicit(&fab->seen_tail, memory_order_acquire), NIC_NAP_NS); /* N2 */
    since_ns = thread_ran_ns();
    asked = 0;
}

/* Sleep unless @req completed meanwhile. */
static void wait_sleep(struct fabemu *fab, const struct fabemu_req *req)
{
    uint32_t seen;

    atomic_fetch_add_explicit(&fab->sleepers, 1, memory_order_seq_cst);
    seen = atomic_load_explicit(&fab->seen_tail, memory_order_acquire); /* N2 */
    if (fabemu_req_status(req) == FABEMU_PENDING)
        nic_sleep(fab, seen);
    atomic_fetch_sub_explicit(&fab->sleepers, 1, memory_order_relaxed);
}

int fabemu_wait(struct fabemu *fab, struct fabemu_req *req)
{
    unsigned idle = 0;
    int status;

    while ((status = fabemu_req_status(req)) == FABEMU_PENDING) {
        if (nic_gone(fab))
            return nic_fail_gone();
        if (nic_poll_app(fab))
            idle = 0;
        else if (fabemu_req_status(req) == FABEMU_PENDING &&
                 emu_wait_round(idle++, nic_is_crowded(fab)) == EMU_WAIT_SLEEP)
            wait_sleep(fab, req);
    }
    return status;
}
