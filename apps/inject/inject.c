/* SPDX-License-Identifier: BSD-3-Clause */
/* inject.c - the list of faults; begin, apply, revert and end each of them at its times. */
#include "apps/inject/inject.h"
#include "apps/fabric/hosts.h"
#include "apps/fabric/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/inject/internal.h"
#include "apps/base/message.h"
#include "emu/util/count.h"

/* --- apply and revert --------------------------------------------------------------- */

/*
 * Hold or release the workers once for all targets of a fault, which may be all cables. They are
 * not held if the manager or the daemon applies the fault (by_others), except for a fault of links
 * on a single host. With other hosts, the manager sends requests to them for such a fault, and the
 * workers carry these requests.
 */
static void targets_hold(struct injector *in, const struct injection *f, bool held)
{
    const struct inject_kind *kind = inject_kind(f);

    if (kind->by_others && (!kind->on_links || fabric_has_remote(in->fabric)))
        return;
    if (held)
        fabric_pause(in->fabric);
    else
        fabric_resume(in->fabric);
}

static int revert_here(struct injector *in, struct injection *f)
{
    int err = 0;

    f->on = false; /* first: inject_set() computes a link's speed from all faults with `on` */
    targets_hold(in, f, true);
    for (uint32_t i = 0; !fault_at_once(f->fault.kind) && i < f->applied; i++) {
        int one = inject_set(in, f, &f->targets.target[i], false);

        err = err ? err : one;
    }
    targets_hold(in, f, false);
    f->applied = 0;
    return err;
}

int inject_set_here(struct injector *in, struct injection *f, bool on)
{
    int err = 0;

    if (f->on == on)
        return 0;
    if (!on)
        return revert_here(in, f);
    f->on = true;
    targets_hold(in, f, true);
    while (!err && f->applied < f->targets.count)
        err = inject_set(in, f, &f->targets.target[f->applied++], true);
    targets_hold(in, f, false);
    if (err) {
        f->applied--; /* the last target failed */
        revert_here(in, f);
    }
    return err;
}

static int set_all(struct injector *in, struct injection *f, bool on)
{
    int err, remote;

    if (f->on == on)
        return 0;
    err = inject_set_here(in, f, on);
    if (on && err)
        return err;
    remote = inject_elsewhere(in, f, on ? INJECT_ON : INJECT_OFF, 0);
    if (on && remote) {
        inject_set_here(in, f, false);
        inject_elsewhere(in, f, INJECT_OFF, 0);
    }
    return err ? err : remote;
}

static void report(const struct injector *in, const struct injection *f, bool begins)
{
    if (in->config.event)
        in->config.event(in->config.ctx, &(struct inject_event){.id = f->id,
                                                                .fault = &f->fault,
                                                                .begins = begins,
                                                                .at_ps = in->now_ps,
                                                                .targets = f->targets.count});
}

/*
 * Return the first time after now that is a multiple of @every_ps after @last_ps. A host that is
 * late skips the times that it has missed, because catching up would make it even later.
 */
static uint64_t next_ps(const struct injector *in, uint64_t last_ps, uint64_t every_ps)
{
    uint64_t at_ps = last_ps + every_ps;

    return at_ps <= in->now_ps ? at_ps + (in->now_ps - at_ps) / every_ps * every_ps + every_ps
                               : at_ps;
}

static int injection_begin(struct injector *in, struct injection *f)
{
    const struct inject_kind *kind = inject_kind(f);
    char error[FAULT_ERROR_BYTES];
    int err;

    fault_targets_release(&f->targets);
    f->seed = fault_seed(in->config.seed, f->id - 1, f->times);
    err = fault_affected_find(&f->targets, &f->fault, in->graph, f->seed, error, sizeof error);
    if (!err)
        fault_targets_limit(&f->targets, &f->fault, &in->config.network);
    if (err)
        return err;
    f->hosts = inject_target_hosts(in, f);
    f->active = true;
    f->times++;
    f->end_ps = f->fault.when.for_ps ? f->begin_ps + f->fault.when.for_ps : EMU_NEVER;
    f->toggle_ps = kind->duty ? f->begin_ps + kind->duty(&f->fault).on_ps : EMU_NEVER;
    f->begin_ps = f->fault.when.every_ps ? next_ps(in, f->begin_ps, f->fault.when.every_ps)
                                         : EMU_NEVER;
    report(in, f, true);
    err = set_all(in, f, true);
    if (fault_at_once(f->fault.kind)) {
        f->active = f->on = false;
        f->applied = 0;
        f->end_ps = EMU_NEVER;
    }
    return err;
}

static int injection_end(struct injector *in, struct injection *f)
{
    int err = set_all(in, f, false);

    f->active = false;
    f->end_ps = f->toggle_ps = EMU_NEVER;
    report(in, f, false);
    return err;
}

/* With a duty cycle: revert the fault if it is applied; apply it if it is not. */
static int injection_toggle(struct injector *in, struct injection *f)
{
    struct inject_duty duty = inject_kind(f)->duty(&f->fault);

    f->toggle_ps += f->on ? duty.off_ps : duty.on_ps;
    if (f->toggle_ps + duty.on_ps + duty.off_ps <= in->now_ps)
        f->toggle_ps =
            next_ps(in, f->toggle_ps, duty.on_ps + duty.off_ps); /* periods were missed */
    return set_all(in, f, !f->on);
}

static uint64_t injection_due_ps(const struct injection *f)
{
    uint64_t due_ps = f->begin_ps;

    due_ps = f->end_ps < due_ps ? f->end_ps : due_ps;
    return f->toggle_ps < due_ps ? f->toggle_ps : due_ps;
}

/* Make the next change of the fault. If it ends and begins at the same time, it ends first. */
static int injection_step(struct injector *in, struct injection *f)
{
    uint64_t due_ps = injection_due_ps(f);

    if (f->end_ps == due_ps)
        return injection_end(in, f);
    if (f->begin_ps != due_ps)
        return injection_toggle(in, f);
    return f->active ? injection_end(in, f) : injection_begin(in, f);
}

/* --- the injector ------------------------------------------------------------------- */

int injector_create(struct injector **ret, struct fabric *fabric, struct manager *manager,
                    const struct inject_config *config)
{
    const struct topo_graph *graph = config->network.graph;
    struct injector *in = calloc(1, sizeof *in);

    if (!in)
        return -ENOMEM;
    in->link_down = calloc(fabric_cable_count(fabric) + 1u, sizeof *in->link_down);
    in->stuck = calloc(2u * fabric_cable_count(fabric) + 1u, sizeof *in->stuck);
    in->stopped = calloc(graph->nodes + 1u, sizeof *in->stopped);
    in->stalled = calloc(graph->switches + 1u, sizeof *in->stalled);
    in->exhausted = calloc(graph->switches + 1u, sizeof *in->exhausted);
    if (!in->link_down || !in->stuck || !in->stopped || !in->stalled || !in->exhausted) {
        injector_destroy(in);
        return -ENOMEM;
    }
    in->fabric = fabric;
    in->graph = graph;
    in->manager = manager;
    in->config = *config;
    in->scan_ps = EMU_NEVER;
    if (config->remote)
        fabric_expect_faults(fabric);
    *ret = in;
    return 0;
}

void injector_destroy(struct injector *in)
{
    if (!in)
        return;
    for (uint32_t i = 0; i < in->count; i++)
        fault_targets_release(&in->injection[i].targets);
    free(in->injection);
    free(in->exhausted);
    free(in->stalled);
    free(in->stopped);
    free(in->stuck);
    free(in->link_down);
    free(in);
}

/* --- the list ----------------------------------------------------------------------- */

static bool is_over(const struct injection *f)
{
    return injection_due_ps(f) == EMU_NEVER && !f->active && !f->on && !f->waits;
}

static uint64_t hits_of(const struct injector *in, const struct injection *f)
{
    const struct inject_remote *remote = in->config.remote;
    uint64_t hits = inject_hits(in, f);

    if (remote)
        emu_sum(&hits, remote->hits(remote->ctx, f->id, inject_hosts(f)));
    return hits;
}

/* Return the index of fault @id or, if it is not listed, where it would be inserted. */
static uint32_t index_of(const struct injector *in, uint32_t id)
{
    uint32_t from = 0, to = in->count;

    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (in->injection[mid].id < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

struct injection *inject_find(const struct injector *in, uint32_t id)
{
    uint32_t i = index_of(in, id);

    return i < in->count && in->injection[i].id == id ? &in->injection[i] : NULL;
}

/*
 * Remove each fault in @ids that is over, but first call @each with it. @ids must be in ascending
 * order.
 */
static void list_remove(struct injector *in, const uint32_t *ids, uint32_t count,
                        void (*each)(void *ctx, const struct injector *in,
                                     const struct injection *f),
                        void *ctx)
{
    uint32_t kept = 0, next = 0;

    for (uint32_t i = 0; i < in->count; i++) {
        struct injection *f = &in->injection[i];

        while (next < count && ids[next] < f->id)
            next++;
        if (next < count && ids[next] == f->id && is_over(f)) {
            each(ctx, in, f);
            fault_targets_release(&f->targets);
        } else {
            in->injection[kept++] = *f;
        }
    }
    in->count = kept;
}

static void past_add(void *ctx, const struct injector *in, const struct injection *f)
{
    struct inject_past *past = ctx;

    past->faults++;
    past->times += f->times;
    emu_sum(&past->hits, hits_of(in, f));
}

/*
 * Remove faults that are over, except the last OVER_KEPT, and add their counts to in->past. Only
 * the coordinator knows which faults are over. So it chooses the faults, and tells other hosts to
 * remove the same ones. If there is no memory, keep all.
 */
static void list_trim(struct injector *in)
{
    const struct fabric_hosts *hosts = fabric_config_of(in->fabric)->hosts;
    uint32_t over = 0, count = 0, *ids;

    for (uint32_t i = 0; i < in->count; i++)
        over += is_over(&in->injection[i]);
    if (over <= OVER_KEPT || (hosts && hosts->self))
        return;
    ids = calloc(over - OVER_KEPT, sizeof *ids);
    for (uint32_t i = 0; ids && count < over - OVER_KEPT; i++)
        if (is_over(&in->injection[i]))
            ids[count++] = in->injection[i].id;
    if (in->config.remote && count)
        in->config.remote->forget(in->config.remote->ctx, ids, count);
    list_remove(in, ids, count, past_add, &in->past);
    free(ids);
}

struct forgotten {
    void (*each)(void *ctx, uint32_t id, uint64_t hits);
    void *ctx;
};

static void forgotten_report(void *ctx, const struct injector *in, const struct injection *f)
{
    const struct forgotten *forgotten = ctx;

    forgotten->each(forgotten->ctx, f->id, hits_of(in, f));
}

void injector_forget(struct injector *injector, const uint32_t *ids, uint32_t count,
                     void (*each)(void *ctx, uint32_t id, uint64_t hits), void *ctx)
{
    struct forgotten forgotten = {each, ctx};

    list_remove(injector, ids, count, forgotten_report, &forgotten);
}

/*
 * Make space for one more fault. If the list is full, trim it, and allocate space for twice as many
 * faults as remain, so that it is rarely trimmed. False: out of memory, or LISTED_MOST faults are
 * listed.
 */
static bool list_grow(struct injector *in)
{
    struct injection *all;
    uint32_t capacity = in->capacity ? in->capacity : 16;

    if (in->count < in->capacity)
        return true;
    list_trim(in);
    while (capacity < 2 * (in->count + 1))
        capacity *= 2;
    if (in->count == LISTED_MOST)
        return false;
    all = capacity == in->capacity ? in->injection : realloc(in->injection, capacity * sizeof *all);
    if (!all)
        return false;
    in->injection = all;
    in->capacity = capacity;
    return true;
}

struct injection *inject_list(struct injector *in, uint32_t id, const struct fault *fault)
{
    uint32_t i;

    if (!list_grow(in))
        return NULL;
    i = index_of(in, id);
    memmove(&in->injection[i + 1], &in->injection[i], (in->count++ - i) * sizeof *in->injection);
    in->injection[i] = (struct injection){.id = id,
                                          .fault = *fault,
                                          .begin_ps = EMU_NEVER,
                                          .end_ps = EMU_NEVER,
                                          .toggle_ps = EMU_NEVER};
    return &in->injection[i];
}

/* --- add and clear faults ----------------------------------------------------------- */

int injector_add(struct injector *in, const struct fault *fault, uint64_t from_ps, uint32_t *id,
                 char *text, size_t text_bytes)
{
    struct injection *f;
    int err = fault_check(fault, &in->config.network, text, text_bytes);

    if (err)
        return err;
    f = inject_list(in, in->last_id + 1, fault);
    if (!f)
        return fail(-ENOMEM, text, text_bytes,
                    "no space for another fault: clear some that are not over");
    if (fault->when.on.nth) {
        err = inject_watch(in, f);
        in->scan_ps = 0;
    } else {
        f->begin_ps = from_ps + fault->when.at_ps;
    }
    if (err) {
        in->count--; /* remove the new fault, which is the last one */
        return fail(err, text, text_bytes, "out of memory: cannot observe the event of on=");
    }
    *id = in->last_id = f->id;
    return 0;
}

int injector_add_all(struct injector *in, const struct fault_schedule *schedule, char *error,
                     size_t error_bytes)
{
    char why[FAULT_ERROR_BYTES];
    uint32_t id;

    for (uint32_t i = 0; i < schedule->count; i++) {
        int err =
            injector_add(in, &schedule->line[i].fault, in->config.origin_ps, &id, why, sizeof why);

        if (err)
            return fail(err, error, error_bytes, "line %u: %s", schedule->line[i].number, why);
    }
    return 0;
}

int injector_clear(struct injector *in, uint32_t id, uint64_t now_ps)
{
    struct injection *f = inject_find(in, id);

    if (!f)
        return -ENOENT;
    f->begin_ps = EMU_NEVER;
    in->now_ps = now_ps;
    if (f->waits)
        inject_unwatch(in, f);
    return f->active ? injection_end(in, f) : 0;
}

int injector_clear_all(struct injector *in, uint64_t now_ps)
{
    int err = 0;

    for (uint32_t i = 0; i < in->count; i++) {
        int one = injector_clear(in, in->injection[i].id, now_ps);

        err = err ? err : one;
    }
    return err;
}

bool injector_is_active(const struct injector *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].active)
            return true;
    return false;
}

bool injector_will_revert(const struct injector *in)
{
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].active &&
            (in->injection[i].end_ps != EMU_NEVER || in->injection[i].toggle_ps != EMU_NEVER))
            return true;
    return false;
}

/*
 * Make the changes that are due at @at_ps, those of older faults first, but at most *@left. Returns
 * the error of the first change that fails. The fault of that change is not changed again.
 */
static int injector_change(struct injector *in, uint64_t at_ps, uint32_t *left)
{
    for (uint32_t i = 0; i < in->count && *left; i++) {
        struct injection *f = &in->injection[i];

        for (; *left && injection_due_ps(f) == at_ps; --*left) {
            int err = injection_step(in, f);

            if (err) {
                f->begin_ps = f->end_ps = f->toggle_ps = EMU_NEVER;
                f->active = f->on;
                return err;
            }
        }
    }
    return 0;
}

/* Return the first time at which a fault changes; EMU_NEVER: none does. */
static uint64_t injector_first_ps(const struct injector *in)
{
    uint64_t first_ps = EMU_NEVER;

    for (uint32_t i = 0; i < in->count; i++) {
        uint64_t at_ps = injection_due_ps(&in->injection[i]);

        first_ps = at_ps < first_ps ? at_ps : first_ps;
    }
    return first_ps;
}

uint64_t injector_due_ps(const struct injector *in)
{
    uint64_t first_ps = injector_first_ps(in);

    return first_ps < in->scan_ps ? first_ps : in->scan_ps;
}

int injector_step(struct injector *in, uint64_t now_ps)
{
    uint32_t left = STEP_MOST;
    int err = 0;

    in->now_ps = now_ps;
    for (uint32_t i = 0; i < in->count; i++)
        if (in->injection[i].saw)
            inject_unwatch(in, &in->injection[i]);
    if (in->scan_ps <= now_ps)
        in->scan_ps = injector_waits(in) ? now_ps + in->config.scan_ps : EMU_NEVER;
    while (!err && left) {
        uint64_t first_ps = injector_first_ps(in);

        if (first_ps > now_ps)
            break;
        err = injector_change(in, first_ps, &left);
    }
    return err;
}

uint32_t injector_count(const struct injector *in)
{
    return in->count;
}

struct inject_state injector_at(const struct injector *in, uint32_t i)
{
    const struct injection *f = &in->injection[i];

    return (struct inject_state){.id = f->id,
                                 .fault = &f->fault,
                                 .times = f->times,
                                 .active = f->active,
                                 .over = is_over(f),
                                 .targets = f->targets.count,
                                 .hits = hits_of(in, f),
                                 .next_ps = injection_due_ps(f)};
}

struct inject_past injector_past(const struct injector *in)
{
    return in->past;
}
