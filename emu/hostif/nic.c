/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.c - the application's end of a host interface.
 *
 * The fabric's end is in fabric/. Labels of orderings have a Y at this end and an X at the other:
 *   Y1 pairs with X2 (up_head): the fabric has copied a slot out, so it may be overwritten.
 *   Y2 pairs with X1 (up_tail): the fabric sees the segments below the tail.
 *   Y3 pairs with X4 (down_tail): the process sees the segments below the tail.
 *   Y4 pairs with X3 (down_head): the process has finished reading the segments below the head.
 *   Y5 (bell, an eventfd that wakes the fabric's worker): the process stores an index, then reads
 *   bell_wanted, with a fence between; the fabric stores bell_wanted, then reads the index. All of
 *   these except the process's store are seq_cst, so at least one side sees the other side's store.
 *   Y6 (futex): the process stores asleep, then reads down_tail; the fabric stores down_tail, then
 *   reads asleep, with a fence between. Again at least one side sees the other side's store.
 *   Y7, Y8 pair with X5, X6: see emu_hostif_nic_incarnation(), emu_hostif_nic_endings().
 * Orderings of simulated time have labels with Z at both ends: see emu_hostif_nic_await(). In code,
 * "Y1: X2" means that Y1 pairs with X2.
 * Rejected: a bell for every segment. A bell is a system call, and one per burst is enough.
 */
#include "emu/hostif/hostif.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "emu/util/clock.h"
#include "emu/util/now.h"

static int mcast_buf_map(struct emu_hostif_nic *nic, int mcast_buf_fd)
{
    struct stat st;
    void *at;

    if (nic->shared->mcast_buf_slots != EMU_MCAST_BUF_SLOTS || fstat(mcast_buf_fd, &st) ||
        (uint64_t)st.st_size != sizeof *nic->mcast_buf)
        return -EPROTO;
    at = mmap(NULL, sizeof *nic->mcast_buf, PROT_READ, MAP_SHARED, mcast_buf_fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    nic->mcast_buf = at;
    return 0;
}

int emu_hostif_nic_open(struct emu_hostif_nic *nic, const struct emu_hostif_fds *fds)
{
    struct emu_hostif_shared *sh;
    struct stat st;
    int err;

    if (fstat(fds->memory, &st))
        return -errno;
    if ((uint64_t)st.st_size < sizeof *sh)
        return -EPROTO;
    sh = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds->memory, 0);
    if (sh == MAP_FAILED)
        return -errno;
    if (sh->magic != EMU_HOSTIF_MAGIC || sh->version != EMU_HOSTIF_VERSION ||
        sh->slots != EMU_HOSTIF_SLOTS || sh->node >= sh->nodes ||
        (size_t)st.st_size != emu_hostif_bytes(sh->nodes)) {
        munmap(sh, (size_t)st.st_size);
        return -EPROTO;
    }
    *nic = (struct emu_hostif_nic){.shared = sh, .bell = fds->bell};
    err = sh->mcast_buf_slots ? mcast_buf_map(nic, fds->mcast_buf) : 0;
    if (err) {
        munmap(sh, (size_t)st.st_size);
        return err;
    }
    nic->up_tail = nic->up_published = atomic_load_explicit(&sh->up_tail, memory_order_relaxed);
    nic->up_head = atomic_load_explicit(&sh->up_head, memory_order_acquire); /* Y1 */
    nic->down_head = nic->down_published =
        atomic_load_explicit(&sh->down_head, memory_order_relaxed);
    nic->down_tail = nic->down_head;
    nic->up_shift = atomic_load_explicit(&sh->up_shift, memory_order_relaxed);
    return 0;
}

uint32_t emu_hostif_nic_taken(struct emu_hostif_nic *nic)
{
    const struct emu_hostif_shared *shared = nic->shared;
    uint32_t head = atomic_load_explicit(&shared->up_head, memory_order_acquire); /* Y1: X2 */
    uint64_t simulated_ps = atomic_load_explicit(&nic->simulated_ps, memory_order_relaxed);

    if (!shared->simulated)
        nic->up_head = head;
    while (nic->up_head != head &&
           shared->up_ps[emu_hostif_slot_at(nic->up_head, nic->up_shift)] <= simulated_ps)
        nic->up_head++;
    return nic->up_head;
}

bool emu_hostif_nic_find_room(struct emu_hostif_nic *nic, uint32_t reserve)
{
    struct emu_simtime *sim = &nic->shared->sim;

    if (nic->up_tail - emu_hostif_nic_taken(nic) < EMU_HOSTIF_SLOTS - reserve)
        return true;
    atomic_store_explicit(&sim->room_at, nic->up_head + EMU_HOSTIF_SLOTS / 2, memory_order_relaxed);
    atomic_store_explicit(&sim->room_wanted, 1, memory_order_relaxed); /* before Z1 */
    return false;
}

uint32_t emu_hostif_nic_wrap(struct emu_hostif_nic *nic, uint32_t at)
{
    struct emu_hostif_shared *shared = nic->shared;

    if (emu_hostif_nic_taken(nic) != nic->up_tail)
        return at;
    nic->up_shift -= at;
    atomic_store_explicit(&shared->up_shift, nic->up_shift, memory_order_relaxed); /* before Y2 */
    return 0;
}

void emu_hostif_nic_leave(struct emu_hostif_nic *nic)
{
    if (nic->mcast_buf)
        munmap((void *)nic->mcast_buf, sizeof *nic->mcast_buf);
    nic->mcast_buf = NULL;
}

void emu_hostif_nic_close(struct emu_hostif_nic *nic)
{
    emu_hostif_nic_leave(nic);
    munmap(nic->shared, emu_hostif_bytes(nic->shared->nodes));
    if (nic->bell >= 0)
        close(nic->bell);
    nic->shared = NULL;
    nic->bell = -1;
}

void emu_hostif_nic_stream(struct emu_hostif_nic *nic)
{
    struct emu_hostif_shared *shared = nic->shared;
    uint32_t ours = (uint32_t)sched_getcpu() + 1;

    if (atomic_load_explicit(&shared->up_core, memory_order_relaxed) != ours)
        atomic_store_explicit(&shared->up_core, ours, memory_order_relaxed);
}

/* This publishes freed slots at once, so that a process that is about to detach blocks no other. */
const struct emu_seg *emu_hostif_nic_skip(struct emu_hostif_nic *nic, uint64_t now_ps)
{
    while (nic->down_head != nic->down_tail && !emu_hostif_nic_at(nic, nic->down_head))
        nic->down_head++;
    emu_hostif_nic_consumed(nic);
    return emu_hostif_nic_peek(nic, now_ps);
}

/* Ring the bell (Y5) if the worker has requested it for event @what. One ring is enough. */
static void hostif_ring(struct emu_hostif_nic *nic, uint32_t what)
{
    struct emu_hostif_shared *sh = nic->shared;
    uint64_t one = 1;

    if (!(atomic_load_explicit(&sh->bell_wanted, memory_order_seq_cst) & what))
        return;
    atomic_exchange_explicit(&sh->bell_wanted, 0, memory_order_seq_cst);
    if (nic->bell >= 0 && write(nic->bell, &one, sizeof one) < 0)
        return; /* EAGAIN: the counter is full, so the bell is ringing */
}

/* @published: the index that was last published. @what: the event for which to ring the bell. */
static inline void hostif_publish(struct emu_hostif_nic *nic, _Atomic uint32_t *shared,
                                  uint32_t *published, uint32_t index, uint32_t what)
{
    if (*published == index)
        return;
    *published = index;
    emu_hostif_publish(shared, index); /* Y2 or Y4, and Y5 */
    emu_hostif_publish_end();
    hostif_ring(nic, what);
}

/* Store this thread's core for the worker. The tail, which is written next, is in the same line. */
static void hostif_post_core(struct emu_hostif_shared *shared)
{
    uint32_t core = (uint32_t)sched_getcpu() + 1;

    if (atomic_load_explicit(&shared->post_core, memory_order_relaxed) != core)
        atomic_store_explicit(&shared->post_core, core, memory_order_relaxed);
}

void emu_hostif_nic_publish(struct emu_hostif_nic *nic)
{
    if (nic->up_published != nic->up_tail &&
        atomic_load_explicit(&nic->shared->oversubscribed, memory_order_relaxed))
        hostif_post_core(nic->shared);
    hostif_publish(nic, &nic->shared->up_tail, &nic->up_published, nic->up_tail,
                   EMU_HOSTIF_RING_DATA);
}

/* Clock virtual: store the current time for all segments whose read is not published yet. */
static void hostif_stamp_read(struct emu_hostif_nic *nic)
{
    struct emu_hostif_shared *shared = nic->shared;
    uint64_t now_ps = atomic_load_explicit(&shared->sim.now_ps, memory_order_relaxed);

    for (uint32_t number = nic->down_published; number != nic->down_head; number++)
        __atomic_store_n(&shared->down_ps[emu_hostif_slot_at(number, nic->down_shift)], now_ps,
                         __ATOMIC_RELAXED); /* before Y4 */
}

void emu_hostif_nic_consumed(struct emu_hostif_nic *nic)
{
    if (nic->shared->simulated)
        hostif_stamp_read(nic);
    hostif_publish(nic, &nic->shared->down_head, &nic->down_published, nic->down_head,
                   EMU_HOSTIF_RING_ROOM);
}

void emu_hostif_nic_sleep(struct emu_hostif_shared *shared, uint32_t seen_down_tail,
                          uint64_t timeout_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                          .tv_nsec = (long)(timeout_ns % 1000000000u)};

    /* Y6: first this exchange, then the load of down_tail */
    atomic_exchange_explicit(&shared->asleep, EMU_HOSTIF_WAKE_SLEEPERS, memory_order_seq_cst);
    if (atomic_load_explicit(&shared->down_tail, memory_order_seq_cst) != seen_down_tail || /* Y6 */
        atomic_load_explicit(&shared->cut_off, memory_order_relaxed))
        return; /* `asleep` stays set until this process next polls; a needless wake is harmless */
    syscall(SYS_futex, &shared->asleep, FUTEX_WAIT, EMU_HOSTIF_WAKE_SLEEPERS, &ts, NULL, 0);
}

bool emu_hostif_nic_stand_by(struct emu_hostif_shared *shared, uint64_t timeout_ns)
{
    uint64_t until_ns = emu_time_ns(CLOCK_MONOTONIC) + timeout_ns; /* an absolute time */
    struct timespec ts = {.tv_sec = (time_t)(until_ns / 1000000000u),
                          .tv_nsec = (long)(until_ns % 1000000000u)};
    uint32_t asleep = atomic_load_explicit(&shared->asleep, memory_order_relaxed);

    return syscall(SYS_futex, &shared->asleep, FUTEX_WAIT_BITSET, asleep, &ts, NULL,
                   EMU_HOSTIF_WAKE_STANDBY) == 0 ||
           errno == EAGAIN; /* `asleep` has just changed */
}

void emu_hostif_nic_hand_over(struct emu_hostif_shared *shared)
{
    atomic_store_explicit(&shared->asleep, EMU_HOSTIF_WAKE_STANDBY, memory_order_relaxed);
}

/*
 * Advance the local time to @to_ps, unless another thread has advanced it further. A local time
 * above EMU_LAST_PS is invalid, and is replaced.
 */
static void advance_to(struct emu_simtime *sim, uint64_t to_ps)
{
    uint64_t now_ps = atomic_load_explicit(&sim->now_ps, memory_order_relaxed);

    while ((now_ps < to_ps || now_ps > EMU_LAST_PS) &&
           !atomic_compare_exchange_weak_explicit(&sim->now_ps, &now_ps, to_ps,
                                                  memory_order_release, /* Z1 */
                                                  memory_order_relaxed))
        ;
}

/*
 * Z1 pairs with Z2: a fabric that sees the wait also sees its end and the segments posted before
 * it. Z3 pairs with Z4: either the fabric sees the wait before it sleeps, or this thread sees that
 * the fabric wants the bell. Z6 pairs with Z5: this thread sees the segments that have arrived.
 */
bool emu_hostif_nic_await(struct emu_hostif_nic *nic, uint64_t until_ps)
{
    static const struct timespec check = {.tv_nsec = EMU_SIMTIME_CHECK_NS};
    struct emu_simtime *sim = &nic->shared->sim;
    uint32_t begun = atomic_load_explicit(&sim->begun, memory_order_relaxed);
    uint32_t ended = atomic_load_explicit(&sim->ended, memory_order_acquire); /* Z6 */
    uint64_t end_ps;

    if (begun == ended) {
        atomic_store_explicit(&sim->until_ps, until_ps, memory_order_relaxed);
        atomic_exchange_explicit(&sim->begun, ++begun, memory_order_seq_cst); /* Z1, Z3 */
        hostif_ring(nic, EMU_HOSTIF_RING_WAIT);
    }
    for (; (ended = atomic_load_explicit(&sim->ended, memory_order_acquire)) != begun;) /* Z6 */
        if (syscall(SYS_futex, &sim->ended, FUTEX_WAIT, ended, &check, NULL, 0) &&
            errno == ETIMEDOUT)
            return false;
    end_ps = atomic_load_explicit(&sim->end_ps, memory_order_relaxed);
    advance_to(sim, end_ps);
    atomic_store_explicit(&nic->simulated_ps, end_ps, memory_order_relaxed);
    return true;
}

void emu_hostif_nic_wake(struct emu_hostif_shared *shared)
{
    atomic_exchange_explicit(&shared->asleep, 0, memory_order_seq_cst);
    syscall(SYS_futex, &shared->asleep, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
