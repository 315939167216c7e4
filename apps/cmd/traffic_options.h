/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic_options.h - the options that only `fabemu traffic` has.
 */
#ifndef APPS_CMD_TRAFFIC_OPTIONS_H
#define APPS_CMD_TRAFFIC_OPTIONS_H

#include <stdint.h>

#include "apps/cmd/options.h"
#include "apps/traffic/run.h"

#define TRAFFIC_LOADS_MAX 1000

struct traffic_options {
    const char *pattern;
    const char *telemetry;        /* file; NULL: none */
    bool page;                    /* the caller's to set: snapshots go to one, too */
    struct traffic_config config; /* what can be known without the network */
    uint32_t loads;
    uint64_t load[TRAFFIC_LOADS_MAX];
    uint64_t given; /* a bit an option: which were */
};

/** traffic_options_init - the defaults. @owns: what options_parse_own() wants; reads into @ret. */
void traffic_options_init(struct traffic_options *ret, struct options_owns *owns);

/**
 * traffic_options_config - the configuration of the runs; traffic_pattern_release() it.
 * @fabric: the network. Errors are said. Returns 0 or an exit status.
 */
int traffic_options_config(struct traffic_config *ret, const struct traffic_options *options,
                           const struct fabric_config *fabric);

#endif
