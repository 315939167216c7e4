/* SPDX-License-Identifier: BSD-3-Clause */
/* adapters.c - see adapters.h. */
#include "tests/world/host/adapters.h"

#include <sched.h>
#include <unistd.h>

#include "nic/engine/internal.h"
#include "tests/test.h"

struct fabemu *adapters_open(struct fabric *fabric, const struct fabemu_info *info)
{
    struct fabric_seat seat;
    struct fabemu *fab;

    CU_ASSERT_EQUAL_FATAL(fabric_attach(fabric, info->node, &seat), 0);
    CU_ASSERT_EQUAL_FATAL(nic_open(&fab, &seat.fds, info), 0);
    seat.fds.bell = -1;
    fabric_seat_close(&seat);
    return fab;
}

void adapters_pass(struct fabric *fabric, struct fabemu *const *fab, uint32_t count)
{
    uint32_t moved = world_fabric_pass(fabric);

    for (uint32_t n = 0; n < count; n++)
        moved += fabemu_progress(fab[n]);
    if (!moved)
        sched_yield(); /* a time-out is what comes next */
}

void adapters_hasten(struct fabric *fabric, uint32_t count)
{
    for (uint32_t n = 0; n < count && fabric_engine(fabric, n); n++)
        emu_rto_init(&fabric_engine(fabric, n)->rto, ADAPTERS_HASTE_PS);
}

bool adapters_all_are(const struct fabemu_req *req, uint32_t count, int status)
{
    for (uint32_t i = 0; i < count; i++)
        if (req[i].status != status)
            return false;
    return true;
}
