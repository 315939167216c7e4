/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - `fabemu bench`: the emulator's own speed.
 */
#ifndef APPS_BENCH_H
#define APPS_BENCH_H

/** bench_main - @argv[0] is "bench". Returns the exit status. */
int bench_main(int argc, char **argv);

#endif
