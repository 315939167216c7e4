/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rates.h - the rates of cables that a network's file gives, and the profile.
 */
#ifndef APPS_CMD_RATES_H
#define APPS_CMD_RATES_H

#include "apps/cmd/options.h"

/**
 * rates_apply - if the network's file gives rates, and neither --profile nor --set gives one, the
 * fastest rate becomes the profile's link_ps_per_byte, and slower cables keep theirs. Crosspoints
 * get enough slots for two round trips at that rate, as far as the switch can hold them.
 * @config: has its graph and its profile; --set is not applied yet.
 * Source of the two round trips: output-queued routers §2.
 */
void rates_apply(struct fabric_config *config, const struct options *options);

/**
 * rates_print - write a line about the rates of the network's cables to @text: which rates the file
 * gives, and whether the profile overrides them. False: the file gives no rate.
 */
bool rates_print(const struct fabric_config *config, char *text, size_t bytes);

#endif
