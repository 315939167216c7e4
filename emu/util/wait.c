/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c - spin, yield and sleep. */
#include "emu/util/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "emu/util/now.h"

/* One yield in 16 is timed. A thread that spins reads the clock in one round in 16. */
#define WAIT_CLOCK_INTERVAL 16u
/* A yield that takes longer than this included a context switch. Without one it takes 400 ns. */
#define WAIT_SWITCH_NS 1500u

static inline void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* The state of the calling thread. */
static _Thread_local struct {
    uint64_t back_ns; /* end of the last timed yield */
    unsigned yields;  /* yields since the last timed one */
    bool away;        /* the last timed yield gave the core to another thread */
    bool all_timed;
    uint64_t spin_end_ns; /* when the current wait stops spinning */
    unsigned spin_rounds; /* the round in which the current wait stops spinning */
} wait;

/* Timing every yield would make the time slice of a polling thread 5 % longer. */
static bool wait_is_timed(void)
{
    if (wait.all_timed)
        return true;
    wait.yields = (wait.yields + 1) % WAIT_CLOCK_INTERVAL;
    return wait.yields == 1;
}

void emu_wait_yield(void)
{
    uint64_t before_ns;

    if (!wait_is_timed()) {
        sched_yield();
        return;
    }
    before_ns = emu_now_ns();
    sched_yield();
    wait.back_ns = emu_now_ns();
    wait.away = wait.back_ns - before_ns > WAIT_SWITCH_NS;
}

void emu_wait_time_all(void)
{
    wait.all_timed = true;
}

bool emu_wait_was_preempted(void)
{
    return wait.away;
}

bool emu_wait_may_poll(void)
{
    return emu_now_ns() - wait.back_ns < EMU_WAIT_POLL_NS;
}

void emu_wait_spin(void)
{
    cpu_pause();
}

/*
 * An inner wait overwrites the limits of the outer wait, so the outer wait may spin for a shorter
 * or longer time.
 */
static bool wait_spins(unsigned rounds, bool oversubscribed)
{
    if (wait.away)
        return false;
    if (oversubscribed)
        return rounds < EMU_WAIT_SPINS_OVERSUBSCRIBED;
    if (rounds < EMU_WAIT_SPINS)
        return true;
    if (rounds == EMU_WAIT_SPINS) {
        wait.spin_end_ns = emu_now_ns() + EMU_WAIT_SPIN_NS;
        wait.spin_rounds = EMU_WAIT_SPINS_MOST;
    } else if (rounds % WAIT_CLOCK_INTERVAL == 0 && emu_now_ns() >= wait.spin_end_ns) {
        return false;
    }
    return rounds < wait.spin_rounds;
}

enum emu_wait_next emu_wait_round(unsigned rounds, bool oversubscribed)
{
    unsigned yields = oversubscribed ? EMU_WAIT_YIELDS_OVERSUBSCRIBED : EMU_WAIT_YIELDS;

    if (wait_spins(rounds, oversubscribed)) {
        cpu_pause();
        return EMU_WAIT_AGAIN;
    }
    if (rounds < wait.spin_rounds)
        wait.spin_rounds = rounds;
    if (rounds < wait.spin_rounds + yields) {
        emu_wait_yield();
        return EMU_WAIT_AGAIN;
    }
    return EMU_WAIT_SLEEP;
}

struct emu_waiter {
    int epoll;
    int bell; /* eventfd by which emu_waiter_ring() wakes the sleeper, who reads it */
};

int emu_waiter_add(struct emu_waiter *waiter, int bell)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = bell};

    return epoll_ctl(waiter->epoll, EPOLL_CTL_ADD, bell, &event) ? -errno : 0;
}

void emu_waiter_remove(struct emu_waiter *waiter, int bell)
{
    epoll_ctl(waiter->epoll, EPOLL_CTL_DEL, bell, NULL);
}

static int waiter_open(struct emu_waiter *waiter)
{
    waiter->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (waiter->epoll < 0)
        return -errno;
    waiter->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (waiter->bell < 0)
        return -errno;
    return emu_waiter_add(waiter, waiter->bell);
}

int emu_waiter_create(struct emu_waiter **ret)
{
    struct emu_waiter *waiter = malloc(sizeof *waiter);
    int err;

    if (!waiter)
        return -ENOMEM;
    *waiter = (struct emu_waiter){.epoll = -1, .bell = -1};
    err = waiter_open(waiter);
    if (err)
        emu_waiter_destroy(waiter);
    else
        *ret = waiter;
    return err;
}

void emu_waiter_destroy(struct emu_waiter *waiter)
{
    if (!waiter)
        return;
    if (waiter->bell >= 0)
        close(waiter->bell);
    if (waiter->epoll >= 0)
        close(waiter->epoll);
    free(waiter);
}

void emu_waiter_ring(struct emu_waiter *waiter)
{
    /* EAGAIN means that the counter is full, so the bell has rung already. */
    while (eventfd_write(waiter->bell, 1) && errno == EINTR)
        ;
}

/*
 * Do what epoll_pwait2() does, with other system calls: before Linux 5.11 there is no
 * epoll_pwait2(), and a container may forbid it.
 */
static int epoll_sleep(int epoll, struct epoll_event *event, int most, const struct timespec *ts)
{
    struct pollfd ready = {epoll, POLLIN, 0};

    return ppoll(&ready, 1, ts, NULL) > 0 ? epoll_wait(epoll, event, most, 0) : 0;
}

void emu_waiter_sleep(struct emu_waiter *waiter, uint64_t timeout_ns)
{
    struct epoll_event event[8];
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000u),
                          .tv_nsec = (long)(timeout_ns % 1000000000u)};
    const struct timespec *limit = timeout_ns == UINT64_MAX ? NULL : &ts;
    int n = epoll_pwait2(waiter->epoll, event, 8, limit, NULL);

    if (n < 0 && (errno == ENOSYS || errno == EPERM))
        n = epoll_sleep(waiter->epoll, event, 8, limit);
    for (int i = 0; i < n; i++) {
        eventfd_t rings;

        if (event[i].data.fd == waiter->bell)
            (void)eventfd_read(waiter->bell, &rings);
    }
}
