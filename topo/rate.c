/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rate.c - rates of InfiniBand cables. A rate is a width ("4x") and a speed ("FDR"). Its number is
 * 1 + (index of the speed) * (number of widths) + index of the width.
 */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include "topo/topo.h"

#define FS_PER_PS 1000

static const uint8_t widths[] = {1, 2, 4, 8, 12};

static const struct {
    const char *name;
    uint32_t lane_fs; /* femtoseconds per byte of data on one lane */
} speeds[] = {
    {"SDR", 4000000},  /* 2.5 Gb/s, 8b/10b */
    {"DDR", 2000000},  /* 5 Gb/s, 8b/10b */
    {"QDR", 1000000},  /* 10 Gb/s, 8b/10b */
    {"FDR10", 800000}, /* 10.3125 Gb/s, 64b/66b */
    {"FDR", 586667},   /* 14.0625 Gb/s, 64b/66b */
    {"EDR", 320000},   /* 25.78125 Gb/s, 64b/66b */
    {"HDR", 160000},   /* 50 Gb/s of data */
    {"NDR", 80000},    /* 100 Gb/s of data */
    {"XDR", 40000},    /* 200 Gb/s of data */
};

#define WIDTHS (sizeof widths / sizeof widths[0])
#define SPEEDS (sizeof speeds / sizeof speeds[0])
static_assert(1 + SPEEDS * WIDTHS == TOPO_RATES, "TOPO_RATES in topo.h");

uint8_t topo_rate_scan(const char *text, size_t length)
{
    char name[16];

    for (uint8_t rate = 1; rate < TOPO_RATES; rate++) {
        topo_rate_name(rate, name);
        if (strlen(name) == length && strncasecmp(name, text, length) == 0)
            return rate;
    }
    return 0;
}

const char *topo_rate_name(uint8_t rate, char text[static 16])
{
    if (rate)
        snprintf(text, 16, "%ux%s", widths[(rate - 1u) % WIDTHS],
                 speeds[(rate - 1u) / WIDTHS].name);
    else
        snprintf(text, 16, "not known");
    return text;
}

uint32_t topo_rate_ps(uint8_t rate)
{
    uint32_t width_fs;

    if (!rate)
        return 0;
    width_fs = widths[(rate - 1u) % WIDTHS] * FS_PER_PS;
    return (speeds[(rate - 1u) / WIDTHS].lane_fs + width_fs / 2) / width_fs;
}

void topo_rates(const struct topo_graph *graph, struct topo_rates *ret)
{
    *ret = (struct topo_rates){.fastest = 0};
    for (uint32_t s = 0; s < graph->switches; s++)
        for (uint32_t port = 0; port < graph->ports; port++) {
            const struct topo_end *end = &graph->sw[s].end[port];

            /* count a cable between switches only once */
            if (end->kind == TOPO_END_NONE || (end->kind == TOPO_END_SWITCH && end->id < s))
                continue;
            ret->cables[end->rate]++;
            if (end->rate &&
                (!ret->fastest || topo_rate_ps(end->rate) < topo_rate_ps(ret->fastest)))
                ret->fastest = end->rate;
        }
}
