/* SPDX-License-Identifier: BSD-3-Clause */
/* cables.c - the stages between ports and cables: intakes and replay buffers. */
#include "switch/common/cables.h"

#include <errno.h>
#include <stdlib.h>

#include "emu/util/alloc.h"
#include "switch/common/crossbar.h"

/* --- a step ------------------------------------------------------------------------- */

/*
 * Step a switch that has intakes or replay buffers. On a timed clock there are three stages, each
 * for all events until @until_ps: the intakes take arrivals, then the switch processes arrivals and
 * departures, and then the replay buffers send.
 */
static uint32_t cables_step(struct emu_dev *dev, uint64_t until_ps)
{
    const struct switch_cables *cables = ((const struct switch_dev *)dev)->cables;
    uint64_t arrive_ps = EMU_NEVER, depart_ps = EMU_NEVER;
    uint32_t moved;

    emu_each_port (p, cables->in)
        arrive_ps = emu_earlier(arrive_ps, emu_intake_take(cables->intake[p], until_ps));
    moved = cables->step(dev, until_ps);
    emu_each_port (p, cables->in)
        emu_intake_give(cables->intake[p]);
    emu_each_port (p, cables->out)
        depart_ps = emu_earlier(depart_ps, emu_replay_run(cables->replay[p], until_ps));
    if (dev->timed)
        dev->next_ps = emu_earlier(dev->next_ps, emu_earlier(arrive_ps, depart_ps));
    else
        emu_dev_poll_within(dev, depart_ps);
    return moved;
}

/* --- creation ----------------------------------------------------------------------- */

/* Return the stages of @sw; create them if there are none. NULL: no memory. */
static struct switch_cables *cables_of(struct switch_dev *sw)
{
    if (sw->cables)
        return sw->cables;
    sw->cables = calloc(1, sizeof *sw->cables);
    if (!sw->cables)
        return NULL;
    sw->cables->step = sw->dev.step;
    sw->dev.step = cables_step;
    return sw->cables;
}

/* Return the intake of @port; create it if there is none. NULL: no memory. */
static struct emu_intake *cables_intake(struct switch_dev *sw, uint32_t port)
{
    struct switch_cables *cables = cables_of(sw);

    if (cables && !cables->intake[port])
        cables->intake[port] = emu_zeros(sizeof *cables->intake[port]);
    return cables ? cables->intake[port] : NULL;
}

int switch_cables_faults(struct switch_dev *sw, uint32_t port, struct emu_faults *faults)
{
    struct emu_intake *intake = cables_intake(sw, port);
    int err = intake ? 0 : -ENOMEM;

    if (!err && !emu_ports_has(sw->cables->in, port))
        err = emu_intake_insert(intake, sw->kind->rx(sw, port), emu_profile_credits(sw->profile),
                                sw->profile);
    if (err)
        return err;
    sw->cables->in |= emu_port(port);
    emu_intake_faults(intake, faults);
    if (emu_ports_has(sw->cables->out, port))
        sw->cables->replay[port]->faults = faults;
    return 0;
}

int switch_join_retry(struct switch_dev *from, uint32_t from_port, struct switch_dev *to,
                      uint32_t to_port)
{
    struct emu_intake *intake = cables_intake(to, to_port);
    struct switch_cables *cables = cables_of(from);
    struct emu_replay *replay = cables ? emu_zeros(sizeof *replay) : NULL;
    int err;

    if (!intake || !replay) {
        free(replay);
        return -ENOMEM;
    }
    cables->replay[from_port] = replay;
    err = emu_retry_join(replay, switch_tx(from, from_port), &from->dev, (uint8_t)from_port, intake,
                         switch_rx(to, to_port), &to->dev, (uint8_t)to_port,
                         emu_profile_credits(from->profile), from->profile);
    if (err)
        return err;
    cables->out |= emu_port(from_port);
    to->cables->in |= emu_port(to_port);
    return 0;
}

struct emu_intake *switch_retry_end(struct switch_dev *sw, uint32_t port)
{
    struct emu_intake *intake = cables_intake(sw, port);

    if (intake)
        sw->cables->in |= emu_port(port);
    return intake;
}

void switch_cables_free(struct switch_dev *sw)
{
    for (uint32_t p = 0; sw->cables && p < sw->ports; p++) {
        if (sw->cables->intake[p])
            emu_intake_free(sw->cables->intake[p]);
        if (sw->cables->replay[p])
            emu_replay_free(sw->cables->replay[p]);
        free(sw->cables->intake[p]);
        free(sw->cables->replay[p]);
    }
    free(sw->cables);
    sw->cables = NULL;
}

struct switch_cable_ends switch_cable_ends(struct switch_dev *sw, uint32_t port)
{
    const struct switch_cables *cables = sw->cables;
    struct switch_cable_ends ends = {.tx = switch_tx(sw, port), .rx = switch_rx(sw, port)};

    if (cables && cables->replay[port])
        ends.tx = &cables->replay[port]->wire;
    if (cables && cables->intake[port] && cables->intake[port]->remote)
        ends.answers = &cables->intake[port]->wire;
    return ends;
}

/* --- link changes, rebase, counts --------------------------------------------------- */

void switch_cables_link(struct switch_dev *sw, uint32_t port, bool up, uint64_t at_ps)
{
    if (sw->cables && emu_ports_has(sw->cables->out, port))
        emu_replay_link(sw->cables->replay[port], up, at_ps);
}

uint32_t switch_reroute_in_flight(struct emu_replay *replay, struct switch_dev *from,
                                  uint32_t from_port, struct switch_dev *to, uint32_t to_port,
                                  struct emu_reroute carry)
{
    const struct switch_out *out = &switch_crossbar_of(to)->out[to_port];

    carry.replay = replay ? replay : from->cables->replay[from_port];
    carry.remote = to->cables->intake[to_port];
    carry.near = replay ? NULL : from->cables->intake[from_port];
    carry.back = switch_tx(to, to_port);
    carry.spare = !emu_ports_any(out->waiting);
    carry.credits = emu_profile_credits(to->profile);
    return emu_replay_reroute(&carry);
}

void switch_cables_rebase(struct switch_dev *sw, uint64_t by_ps)
{
    if (!sw->cables)
        return;
    emu_each_port (p, sw->cables->in) {
        emu_intake_rebase(sw->cables->intake[p], by_ps);
        if (sw->cables->intake[p]->faults)
            emu_faults_rebase(sw->cables->intake[p]->faults, by_ps);
    }
    emu_each_port (p, sw->cables->out)
        emu_replay_rebase(sw->cables->replay[p], by_ps);
}

uint32_t switch_cables_bufs(const struct switch_dev *sw)
{
    uint32_t bufs = 0;

    if (!sw->cables)
        return 0;
    emu_each_port (p, sw->cables->in)
        bufs += emu_intake_bufs(sw->cables->intake[p]);
    emu_each_port (p, sw->cables->out)
        bufs += emu_replay_bufs(sw->cables->replay[p]);
    return bufs;
}

bool switch_cables_hold(const struct switch_dev *sw, uint32_t id)
{
    if (!sw->cables)
        return false;
    emu_each_port (p, sw->cables->out)
        if (emu_replay_holds(sw->cables->replay[p], id))
            return true;
    /* with retry, the segments on a cable are in the replay buffer of its sender */
    emu_each_port (p, sw->cables->in & ~sw->cables->out)
        if (emu_link_holds(&sw->cables->intake[p]->wire, id))
            return true;
    return false;
}

void switch_overruns(struct switch_dev *sw, uint32_t port,
                     void (*report)(void *ctx, const struct emu_hdr *hdr), void *ctx)
{
    if (sw->cables && emu_ports_has(sw->cables->in, port))
        emu_intake_overruns(sw->cables->intake[port], report, ctx);
}

void switch_retries_add(const struct switch_dev *sw, struct switch_retries *sum)
{
    if (!sw->cables)
        return;
    emu_each_port (p, sw->cables->in) {
        const struct emu_intake *intake = sw->cables->intake[p];

#define INTAKE(name)     sum->name += emu_count_read(&intake->counts.name);
#define UNREPORTED(name) INTAKE(name)
#include "switch/common/retries.def"
    }
    emu_each_port (p, sw->cables->out) {
        const struct emu_replay *replay = sw->cables->replay[p];

#define REPLAY(name) sum->name += emu_count_read(&replay->counts.name);
#include "switch/common/retries.def"
    }
}
