/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clock.c - the clock of targets whose input sets the time: the linker replaces clock_gettime() of
 * the C library by this function.
 */
#include <time.h>

#include "fuzz.h"

uint64_t fuzz_now_ns;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    ret->tv_sec = (time_t)(fuzz_now_ns / 1000000000u);
    ret->tv_nsec = (long)(fuzz_now_ns % 1000000000u);
    return 0;
}
