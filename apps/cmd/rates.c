/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rates.c - the rates of cables that a network's file gives, and the profile.
 */
#include "apps/cmd/rates.h"

#include <stdio.h>
#include <string.h>

#include "switch/switch.h"

#define ROUND_TRIPS 2 /* a crosspoint holds at least the segments of so many */

/*
 * Slots of a crosspoint for the round trips of the fastest cable: with fewer the cable is idle
 * while it waits for credits. If a switch of this network cannot hold so many, as many as it can.
 */
static uint32_t xpoint_slots(const struct fabric_config *config)
{
    struct emu_profile profile = config->profile;
    uint64_t round_ps = profile.channel_ps + profile.switch_ps + profile.credit_ps;
    uint64_t segment_ps = EMU_SEG_BYTES * profile.link_ps_per_byte;
    uint64_t slots = (ROUND_TRIPS * round_ps + segment_ps - 1) / segment_ps;
    uint32_t least = profile.xpoint_slots;

    profile.xpoint_slots = slots < EMU_XPOINT_MAX ? (uint32_t)slots : EMU_XPOINT_MAX;
    while (profile.xpoint_slots > least &&
           switch_segments(config->graph->ports, &profile) > SWITCH_SEGMENTS_MAX)
        profile.xpoint_slots--;
    return profile.xpoint_slots > least ? profile.xpoint_slots : least;
}

void rates_apply(struct fabric_config *config, const struct options *options)
{
    struct topo_rates rates;

    topo_rates(config->graph, &rates);
    if (!rates.fastest || options->profile || options_sets(options, "link_ps_per_byte"))
        return;
    config->link_rates = true;
    config->profile.link_ps_per_byte = topo_rate_ps(rates.fastest);
    config->profile.xpoint_slots = xpoint_slots(config);
}

/* "36 of 4xHDR, 4 of 4xEDR, 2 without a rate", the fastest first. */
static void print_counts(const struct topo_rates *rates, char *text, size_t bytes)
{
    bool done[TOPO_RATES] = {false};
    size_t used = 0;
    char name[16];

    for (uint32_t round = 0; round < TOPO_RATES && used < bytes; round++) {
        uint8_t next = 0;

        for (uint8_t rate = 1; rate < TOPO_RATES; rate++)
            if (!done[rate] && rates->cables[rate] &&
                (!next || topo_rate_ps(rate) < topo_rate_ps(next)))
                next = rate;
        if (!next)
            break;
        done[next] = true;
        used += (size_t)snprintf(text + used, bytes - used, "%s%u of %s", used ? ", " : "",
                                 rates->cables[next], topo_rate_name(next, name));
    }
    if (rates->cables[0] && used < bytes)
        snprintf(text + used, bytes - used, ", %u without a rate", rates->cables[0]);
}

bool rates_print(const struct fabric_config *config, char *text, size_t bytes)
{
    double gigabytes = 1000.0 / (double)config->profile.link_ps_per_byte;
    struct topo_rates rates;
    char counts[256];

    topo_rates(config->graph, &rates);
    if (!rates.fastest)
        return false;
    print_counts(&rates, counts, sizeof counts);
    if (!config->link_rates)
        snprintf(text, bytes, "%s; all run at %.2f GB/s, as the profile says", counts, gigabytes);
    else
        snprintf(text, bytes, "%s; each runs at its rate, the fastest%s at %.2f GB/s", counts,
                 rates.cables[0] ? " and those without a rate" : "", gigabytes);
    return true;
}
