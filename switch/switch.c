/* SPDX-License-Identifier: BSD-3-Clause */
/* switch.c - the list of kinds of switches, and switch_create(). */
#include "switch/switch.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/alloc.h"
#include "switch/channel/stages.h"
#include "switch/common/base.h"
#include "switch/crosspoint/counter.h"
#include "switch/crosspoint/crosspoint.h"
#include "switch/input/fifo.h"
#include "switch/input/slots.h"
#include "switch/policy/policy.h"

/*
 * A profile fits exactly one of these kinds. To add a kind, define its struct switch_kind
 * (switch/common/base.h) and add it here.
 */
static const struct switch_kind *const switch_kinds[] = {
    &switch_row_kind,   &switch_counter_kind, &switch_fifo_kind,
    &switch_slots_kind, &switch_channel_kind,
};

static const struct switch_kind *switch_kind_of(const struct emu_profile *profile)
{
    uint32_t k = 0;

    while (!switch_kinds[k]->fits(profile)) {
        k++;
        assert(k < sizeof switch_kinds / sizeof *switch_kinds);
    }
    return switch_kinds[k];
}

bool switch_has_clock(const struct emu_profile *profile, bool timed)
{
    return switch_impl_of(switch_kind_of(profile), timed)->step;
}

bool switch_combines(const struct emu_profile *profile)
{
    return switch_kind_of(profile)->combines;
}

uint32_t switch_segments(uint32_t ports, const struct emu_profile *profile)
{
    return switch_kind_of(profile)->segments(ports, profile);
}

size_t switch_bytes(uint32_t ports, const struct emu_profile *profile)
{
    return switch_kind_of(profile)->bytes(ports, profile);
}

int switch_create(struct switch_dev **ret, struct emu_worker *worker, uint32_t ports,
                  const struct topo_route *route, const struct emu_profile *profile, uint64_t seed)
{
    const struct switch_kind *kind = switch_kind_of(profile);
    bool timed = worker->clock.mode != EMU_CLOCK_RAW;
    const struct switch_impl *impl = switch_impl_of(kind, timed);
    struct switch_dev *sw;

    if (!ports || ports > TOPO_PORTS_MAX || !impl->step || !kind->sane(ports, profile) ||
        kind->segments(ports, profile) > SWITCH_SEGMENTS_MAX)
        return -EINVAL;
    sw = emu_zeros(impl->bytes);
    if (!sw)
        return -ENOMEM;
    sw->kind = kind;
    atomic_init(&sw->route, route);
    sw->whole = route;
    sw->profile = profile;
    sw->policy = route_policies[profile->choice];
    sw->choice.random = seed | 1;
    sw->ports = ports;
    sw->dev.timed = timed;
    if (!kind->init(sw)) {
        switch_destroy(sw);
        return -ENOMEM;
    }
    emu_dev_init(&sw->dev, worker, impl->step);
    sw->dev.fetch = impl->fetch;
    *ret = sw;
    return 0;
}

bool switch_links_are_lossless(const struct emu_profile *profile)
{
    return switch_supports_link_down(profile) &&
           (emu_profile_acknowledged(profile) || emu_profile_retries(profile));
}

bool switch_supports_link_down(const struct emu_profile *profile)
{
    return switch_kind_of(profile)->link != NULL;
}
