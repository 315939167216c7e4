/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * slower.c - finds the sizes at which messages are faster than the network, in the table
 * slower.def.
 *
 * The table was measured on clock raw, where everything takes as long as the host needs for it. On
 * clock real the emulated hardware decides how long a collective takes, so the table is not used.
 */
#include "coll_fabemu.h"

#include <assert.h>
#include <string.h>

/* the transport of the fabric: CREDITS if fabemu_info.acknowledged is false, else ACKNOWLEDGED */
enum { CREDITS, ACKNOWLEDGED };

/*
 * A measurement: in communicators of `ranks` members, messages were faster at sizes from `first` to
 * `last` bytes.
 */
struct slower_row {
    int transport;
    enum fabemu_coll coll;
    int ranks;
    size_t first, last;
};

static const struct slower_row rows[] = {
#define SLOWER(transport, coll, ranks, first, last) \
    {transport, FABEMU_COLL_##coll, ranks, first, last},
#include "slower.def"
};

static const int measured_ranks[] = {SLOWER_RANKS};

/* Return the largest number of ranks in the measurements that is not above @size. */
static int ranks_for(int size)
{
    int ranks = 0;

    for (size_t i = 0; i < sizeof measured_ranks / sizeof *measured_ranks; i++)
        if (measured_ranks[i] <= size)
            ranks = measured_ranks[i];
    return ranks;
}

/*
 * Maximum size in bytes at which the network executes a collective; 0: no limit. In these
 * collectives the network carries more data than messages do, because each rank gets or sends the
 * blocks of other ranks, too. So above this size messages are faster on every clock.
 */
static const size_t blocks_most[FABEMU_COLLS] = {
    [FABEMU_COLL_GATHER] = 1u << 20,
    [FABEMU_COLL_SCATTER] = 1u << 20,
    [FABEMU_COLL_SCAN] = 1u << 20,
    [FABEMU_COLL_ALLTOALL] = 1u << 14,
};

static void range_add(struct coll_fabemu_slower *slower, size_t first, size_t last)
{
    assert(slower->ranges < COLL_FABEMU_RANGES);
    slower->range[slower->ranges].first = first;
    slower->range[slower->ranges].last = last;
    slower->ranges++;
}

void coll_fabemu_slower_find(mca_coll_fabemu_module_t *module, int size)
{
    const struct fabemu_info *info = fabemu_info(module->fab);
    const int transport = info->acknowledged ? ACKNOWLEDGED : CREDITS;

    memset(module->slower, 0, sizeof module->slower);
    for (int coll = 0; coll < FABEMU_COLLS; coll++)
        if (blocks_most[coll])
            range_add(&module->slower[coll], blocks_most[coll] + 1, SIZE_MAX);
    if (!mca_coll_fabemu_component.step_aside || strcmp(info->clock, "raw") != 0)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].transport == transport && rows[i].ranks == ranks_for(size))
            range_add(&module->slower[rows[i].coll], rows[i].first, rows[i].last);
}
