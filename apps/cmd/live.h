/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.h - faults of a fabric that runs already. Each returns an exit status, and says errors.
 */
#ifndef APPS_RUN_LIVE_H
#define APPS_RUN_LIVE_H

#include <stdbool.h>

/** live_fault - inject the fault that @words, @count of them, describe together. */
int live_fault(const char *name, char *const *words, int count);

/** live_clear - take fault @number back. */
int live_clear(const char *name, const char *number);

/** live_list - print those that were asked for. */
int live_list(const char *name, bool json);

#endif
