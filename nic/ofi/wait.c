/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c - time limits of blocking calls */
#include "nic/ofi/source.h"

#include <limits.h>
#include <time.h>

int64_t ofi_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = OFI_SLEEP_NS}, NULL);
}

static bool wait_is_over(const struct ofi_wait *wait)
{
    return wait->until_ms != INT64_MAX && ofi_clock_ms() >= wait->until_ms;
}

struct ofi_wait ofi_wait_begin(struct fabemu *fab, int timeout_ms)
{
    return (struct ofi_wait){.fab = fab,
                             .until_ms = timeout_ms < 0 ? INT64_MAX : ofi_clock_ms() + timeout_ms};
}

struct ofi_wait ofi_wait_drain(struct fabemu *fab)
{
    uint64_t drain_ms = fabemu_info(fab)->bounds.drain_ms;

    return ofi_wait_begin(fab, drain_ms > INT_MAX ? -1 : (int)drain_ms);
}

bool ofi_wait_step(struct ofi_wait *wait)
{
    if (wait->stepped && wait_is_over(wait))
        return false;
    wait->stepped = true;
    if (wait->fab && fabemu_progress(wait->fab))
        wait->rounds = 0;
    else if (!wait->fab || wait->rounds++ >= OFI_POLLS_BEFORE_SLEEP)
        sleep_briefly();
    else
        fabemu_idle(wait->fab, wait->rounds - 1);
    return true;
}
