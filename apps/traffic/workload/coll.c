/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.c - a member of a group: sends its contributions and checks the results.
 *
 * Each node has a *weight* w, a hash of its number. Element i of its contribution to operation op
 * is a + w * b, where a and b are hashes of (op, i). Sums are modulo 2^64, so every node can
 * compute the expected result: members * a + (sum of weights) * b. This detects a contribution that
 * is lost, duplicated or added to another element.
 */
#include "apps/traffic/workload/member.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/traffic/workload/random.h"
#include "apps/traffic/workload/stats.h"
#include "apps/traffic/workload/storage.h"
#include "emu/link/link.h"
#include "emu/util/combine.h"

#define WORDS (EMU_PAYLOAD_BYTES / 8) /* number of elements in a full segment */

/* --- values ------------------------------------------------------------------------- */

static uint64_t weight_of(uint32_t node)
{
    return emu_mix(node + UINT64_C(0x5851f42d4c957f2d));
}

uint64_t traffic_member_value(uint64_t op, uint64_t element, uint64_t members, uint64_t weights)
{
    uint64_t a = emu_splitmix_at(element, op);

    return members * a + weights * emu_mix(a);
}

/* Return the number of elements in segment @part of an operation. */
static uint32_t words_of(const struct traffic_coll *all, uint64_t part)
{
    uint64_t left = all->plan.bytes / 8 - part * WORDS;

    return (uint32_t)(left < WORDS ? left : WORDS);
}

/* --- sending ------------------------------------------------------------------------ */

/*
 * Return when the member learned that all switches have freed the state for sequence number @seq;
 * EMU_NEVER: it does not know this yet.
 */
static uint64_t state_free_ps(const struct traffic_member *member, uint64_t seq)
{
    bool reduce = member->all->plan.what == TRAFFIC_REDUCE;

    if (seq < EMU_WINDOW)
        return 0;
    if (seq - EMU_WINDOW >= (reduce ? member->group->announced : member->got))
        return EMU_NEVER;
    return (reduce ? member->group->freed_ps : member->freed_ps)[seq % EMU_WINDOW];
}

static uint64_t skew_ps(const struct traffic_coll *all, uint32_t node, uint64_t op)
{
    uint64_t draw = emu_mix(emu_mix(all->plan.seed + node) + op);

    return (uint64_t)((unsigned __int128)all->plan.skew_ps * draw >> 64);
}

uint64_t traffic_member_post_ps(const struct traffic_member *member, uint64_t op)
{
    const struct traffic_coll *all = member->all;

    return traffic_coll_post_ps(all, (uint32_t)(member->group - all->group), op) +
           skew_ps(all, member->node, op);
}

/*
 * Return when the program has posted @segments segments of operation @op. It begins when the other
 * processes of the node have contributed, and posts the segments one after the other, each as a
 * message of its own.
 */
static uint64_t posted_ps(const struct traffic_member *member, uint64_t op, uint64_t segments)
{
    return traffic_member_awake(member, traffic_member_post_ps(member, op)) +
           traffic_member_gather_ps(member) + segments * member->all->plan.profile->host_send_ps;
}

/*
 * Return when the next segment may be on the cable; EMU_NEVER: the member waits for the next post
 * or for an earlier result.
 */
static uint64_t member_ready_ps(const struct traffic_member *member)
{
    const struct traffic_coll *all = member->all;
    uint64_t post_ps, free_ps;

    if (member->op == member->group->posted)
        return EMU_NEVER;
    post_ps = posted_ps(member, member->op, member->part + 1);
    free_ps = state_free_ps(member, member->op * all->segments + member->part);
    if (free_ps == EMU_NEVER)
        return EMU_NEVER;
    return traffic_member_awake(member, post_ps > free_ps ? post_ps : free_ps) + all->times.send_ps;
}

static void member_put(struct traffic_member *member, struct emu_entry *entry)
{
    static const uint8_t kinds[] = {[TRAFFIC_REDUCE] = EMU_REDUCE,
                                    [TRAFFIC_BARRIER] = EMU_BARRIER,
                                    [TRAFFIC_ALLREDUCE] = EMU_ALLREDUCE};
    const struct traffic_coll *all = member->all;

    entry->hdr = (struct emu_hdr){
        .dst = member->group->id,
        .src = member->node,
        .seq = (uint32_t)(member->op * all->segments + member->part),
        .kind = kinds[all->plan.what],
        .op = EMU_SUM,
        .type = EMU_U64,
    };
    entry->buf = EMU_NO_BUF;
    if (all->plan.what == TRAFFIC_BARRIER)
        return;
    uint32_t words = words_of(all, member->part);
    entry->hdr.len = (uint8_t)(8 * words);
    entry->buf = emu_pool_take(&member->base.dev.worker->cache);
    if (entry->buf == EMU_NO_BUF) {
        member->wrong = NO_BUFFER;
        return;
    }
    uint8_t *payload = emu_pool_bytes(member->base.dev.worker->cache.pool, entry->buf);
    for (uint32_t i = 0; i < words; i++) {
        uint64_t value =
            traffic_member_value(member->op, member->part * WORDS + i, 1, member->weight);
        memcpy(payload + 8 * i, &value, sizeof value);
    }
}

/*
 * Return whether the member sends contributions. The root of a reduction does not: it adds its
 * contribution to the sum that it receives.
 */
static bool member_sends(const struct traffic_member *member)
{
    return member->group && !member->wrong &&
           (member->all->plan.what != TRAFFIC_REDUCE || member->group->node[0] != member->node);
}

/* Send all segments that may leave by @until_ps. Returns when the next one may leave. */
static uint64_t member_send(struct traffic_member *member, uint64_t until_ps)
{
    uint64_t depart_ps = EMU_NEVER;
    bool sent = false;

    while (member_sends(member)) {
        uint64_t ready_ps = member_ready_ps(member);
        struct emu_entry entry = {.note = 0};

        depart_ps = ready_ps == EMU_NEVER ? EMU_NEVER
                                          : traffic_earliest_ps(&member->base, ready_ps);
        if (depart_ps > until_ps)
            break;
        member_put(member, &entry);
        if (member->wrong)
            break;
        traffic_depart(&member->base, &entry, depart_ps);
        sent = true;
        if (++member->part == member->all->segments) {
            member->part = 0;
            member->op++;
        }
    }
    if (sent)
        emu_tx_flush(&member->base.tx);
    return depart_ps;
}

/* --- receiving ---------------------------------------------------------------------- */

static bool member_awaits(const struct traffic_member *member, uint64_t number)
{
    if (!member->seen_ps)
        return number == member->got;
    return number - member->got < EMU_WINDOW && !member->seen_ps[number % EMU_WINDOW];
}

static enum traffic_member_wrong member_check(const struct traffic_member *member,
                                              const struct emu_entry *entry, uint64_t number)
{
    const struct traffic_coll *all = member->all;
    uint64_t op = number / all->segments, part = number % all->segments;
    uint32_t words = words_of(all, part);
    bool reduce = all->plan.what == TRAFFIC_REDUCE;
    const uint8_t *payload;

    if (!member->group || entry->hdr.dst != member->group->id || !member_awaits(member, number) ||
        entry->hdr.len != 8 * words)
        return WRONG_SEGMENT;
    if (!words)
        return RIGHT;
    /* only a malicious host sends a contribution or result without payload */
    if (entry->buf == EMU_NO_BUF)
        return WRONG_SEGMENT;
    payload = emu_pool_bytes(member->base.dev.worker->cache.pool, entry->buf);
    for (uint32_t i = 0; i < words; i++) {
        uint64_t element = part * WORDS + i;
        uint64_t want = traffic_member_value(op, element, all->plan.members, member->group->sum);
        uint64_t got;
        memcpy(&got, payload + 8 * i, sizeof got);
        if (reduce)
            got += traffic_member_value(op, element, 1, member->weight);
        if (got != want)
            return WRONG_RESULT;
    }
    return RIGHT;
}

void traffic_member_log(struct traffic_member *member, uint64_t op, uint64_t at_ps)
{
    const struct traffic_coll *all = member->all;

    traffic_log_add(&member->worker->log,
                    &(struct traffic_part){.birth_ps = op,
                                           .at_ps = at_ps,
                                           .src = (uint32_t)(member->group - all->group),
                                           .of = traffic_coll_receivers(&all->plan)});
}

/* Consume the next segment of the stream at @now_ps. It has been in memory since @at_ps. */
static void member_advance(struct traffic_member *member, uint64_t at_ps, uint64_t now_ps)
{
    const struct traffic_coll *all = member->all;

    if (member->freed_ps)
        member->freed_ps[member->got % EMU_WINDOW] = now_ps;
    if (at_ps > member->last_ps)
        member->last_ps = at_ps;
    member->got++;
    if (++member->got_part < all->segments)
        return;
    traffic_member_log(member, member->got_op, member->last_ps + traffic_member_spread_ps(member));
    member->last_ps = 0;
    member->got_part = 0;
    member->got_op++;
}

/*
 * Return when the program has processed a segment of operation @op that has been in memory since
 * @at_ps. The program first posts all segments of the operation, and then processes the results one
 * after the other.
 */
static uint64_t member_take(struct traffic_member *member, uint64_t op, uint64_t at_ps)
{
    const struct traffic_coll *all = member->all;
    uint64_t busy_ps = member->taken_ps;

    if (all->plan.profile->host_send_ps || all->plan.profile->host_recv_ps) {
        uint64_t sent_ps = posted_ps(member, op, member_sends(member) ? all->segments : 0);

        busy_ps = sent_ps > busy_ps ? sent_ps : busy_ps;
        at_ps = (at_ps > busy_ps ? at_ps : busy_ps) + all->plan.profile->host_recv_ps;
        member->taken_ps = at_ps;
    }
    return traffic_member_awake(member, at_ps);
}

/* Process a segment. Noise (struct traffic_noise) may delay the program. */
static inline void member_deliver(void *context, const struct emu_entry *entry)
{
    struct traffic_member *member = context;
    const struct traffic_coll *all = member->all;
    uint64_t at_ps = traffic_memory_ps(&all->times, all->plan.profile, entry);
    uint64_t number = member->got + (uint32_t)(entry->hdr.seq - (uint32_t)member->got);

    if (!member->wrong) {
        member->wrong = member_check(member, entry, number);
        member->wrong_op = number / all->segments;
    }
    emu_pool_drop(&member->base.dev.worker->cache, entry->buf);
    if (member->wrong)
        return;
    at_ps = member_take(member, number / all->segments, at_ps);
    member->digest = traffic_digest(member->digest, entry->hdr.dst, number, at_ps);
    if (!member->seen_ps) {
        member_advance(member, at_ps, at_ps);
        return;
    }
    member->seen_ps[number % EMU_WINDOW] = at_ps;
    for (uint64_t *seen_ps; *(seen_ps = &member->seen_ps[member->got % EMU_WINDOW]); *seen_ps = 0)
        member_advance(member, *seen_ps, at_ps);
}

static uint32_t member_step(struct emu_dev *dev, uint64_t until_ps)
{
    return traffic_member_step(dev, until_ps, member_deliver, member_send);
}

/* --- functions of the driver -------------------------------------------------------- */

uint32_t traffic_coll_receivers(const struct traffic_coll_plan *plan)
{
    return plan->what == TRAFFIC_REDUCE ? 1 : plan->members;
}

uint64_t traffic_coll_post_ps(const struct traffic_coll *all, uint32_t g, uint64_t op)
{
    return all->plan.interval_ps ? op * all->plan.interval_ps : all->group[g].post_ps;
}

uint64_t traffic_coll_last_ps(const struct traffic_coll *all, uint32_t g, uint64_t op)
{
    const uint32_t *node = all->group[g].node;
    uint32_t members = all->plan.skew_ps ? all->plan.members : 0;
    uint64_t most_ps = 0;

    for (uint32_t i = all->plan.what == TRAFFIC_REDUCE; i < members; i++) {
        uint64_t late_ps = skew_ps(all, node[i], op);
        most_ps = late_ps > most_ps ? late_ps : most_ps;
    }
    return traffic_coll_post_ps(all, g, op) + most_ps;
}

static void wake_members(struct traffic_coll *all, const struct traffic_group *group,
                         uint64_t at_ps)
{
    for (uint32_t i = 0; i < all->plan.members; i++)
        if (all->member[group->node[i]])
            emu_dev_wake(&all->member[group->node[i]]->base.dev, at_ps);
}

void traffic_coll_post(struct traffic_coll *all, uint32_t g, uint64_t at_ps)
{
    struct traffic_group *group = &all->group[g];

    group->post_ps = at_ps;
    group->posted++;
    wake_members(all, group, at_ps);
}

void traffic_coll_roots(const struct traffic_coll *all, uint64_t *got)
{
    for (uint32_t g = 0; g < all->plan.groups; g++) {
        const struct traffic_member *root = all->member[all->group[g].node[0]];

        got[g] = root ? root->got : 0;
    }
}

bool traffic_coll_announce(struct traffic_coll *all, const uint64_t *got, uint64_t now_ps)
{
    uint64_t known_ps = /* time by which all segments that have arrived are in memory */
        now_ps + traffic_wire_ps(all->plan.profile, EMU_PAYLOAD_BYTES) +
        all->plan.profile->nic_recv_ps;
    bool changed = false;

    for (uint32_t g = 0; g < all->plan.groups; g++) {
        struct traffic_group *group = &all->group[g];

        if (group->announced == got[g])
            continue;
        changed = true;
        for (; group->announced < got[g]; group->announced++)
            if (group->freed_ps)
                group->freed_ps[group->announced % EMU_WINDOW] = known_ps;
        wake_members(all, group, now_ps + 1);
    }
    return changed;
}

void traffic_coll_totals(const struct traffic_coll *all, uint64_t *digest, uint64_t *sent)
{
    *sent = 0;
    for (uint32_t n = 0; n < all->nodes; n++) {
        const struct traffic_member *member = all->member[n];

        digest[n] = member ? member->digest : 0;
        *sent += member ? emu_count_read(&member->base.tx.counts.segments) : 0;
    }
}

uint32_t traffic_coll_unfinished(const struct traffic_coll *all)
{
    bool reduce = all->plan.what == TRAFFIC_REDUCE;
    uint32_t n = 0;

    for (; n < all->nodes; n++) {
        const struct traffic_member *member = all->member[n];

        if (!member || !member->group || (reduce && member->group->node[0] != n))
            continue;
        if ((member->exchange ? member->op : member->got_op) < all->plan.operations)
            break;
    }
    return n;
}

int traffic_coll_check(const struct traffic_coll *all, char *error, size_t error_bytes)
{
    static const char *const what[] = {
        [WRONG_SEGMENT] = "it received a segment that is not the next one of its group's stream",
        [WRONG_RESULT] = "the result is wrong",
        [NO_BUFFER] = "no buffer was free for a payload",
    };

    for (uint32_t n = 0; n < all->nodes; n++) {
        const struct traffic_member *member = all->member[n];
        if (!member || !member->wrong)
            continue;
        snprintf(error, error_bytes, "node %u, operation %llu: %s", n,
                 (unsigned long long)member->wrong_op, what[member->wrong]);
        return -EPROTO;
    }
    return 0;
}

/* --- creation ----------------------------------------------------------------------- */

static int member_create(void *ctx, uint32_t n, struct emu_worker *worker, struct emu_dev **dev,
                         struct emu_tx **tx, struct emu_rx **rx)
{
    struct traffic_coll *all = ctx;
    bool frees = all->windowed && all->plan.what != TRAFFIC_REDUCE;
    emu_step_fn step = all->plan.by == TRAFFIC_BY_HARDWARE ? member_step : traffic_exchange_step;
    struct traffic_member *member = traffic_base_new(sizeof *member, worker, step, dev, tx, rx);

    if (!member)
        return -ENOMEM;
    all->member[n] = member;
    member->all = all;
    member->node = n;
    member->weight = weight_of(n);
    member->digest = TRAFFIC_DIGEST_START + n;
    member->noise_phase_ps = traffic_noise_phase(&all->plan.noise, all->plan.seed, n);
    if (all->times.engines)
        member->seen_ps = calloc(EMU_WINDOW, sizeof(uint64_t));
    if (frees)
        member->freed_ps = calloc(EMU_WINDOW, sizeof(uint64_t));
    if ((all->times.engines && !member->seen_ps) || (frees && !member->freed_ps))
        return -ENOMEM;
    member->worker = traffic_worker_join(&all->workers, worker->index);
    return member->worker ? 0 : -ENOMEM;
}

/*
 * Assign the first plan.groups * plan.members nodes to the groups. If plan.at_random is set, first
 * shuffle all nodes.
 */
static int choose_members(struct traffic_coll *all)
{
    const struct traffic_coll_plan *plan = &all->plan;
    struct traffic_random random;

    for (uint32_t n = 0; n < all->nodes; n++)
        all->at[n] = n;
    traffic_random_init(&random, plan->seed, 0, TRAFFIC_STREAM_GROUPS);
    if (plan->at_random)
        traffic_shuffle(&random, all->at, all->nodes);
    for (uint32_t g = 0; g < plan->groups; g++) {
        struct traffic_group *group = &all->group[g];
        group->node = &all->at[(size_t)g * plan->members];
        for (uint32_t i = 0; i < plan->members; i++)
            group->sum += weight_of(group->node[i]);
        if (!all->windowed || plan->what != TRAFFIC_REDUCE)
            continue;
        group->freed_ps = calloc(EMU_WINDOW, sizeof(uint64_t));
        if (!group->freed_ps)
            return -ENOMEM;
    }
    return 0;
}

int traffic_coll_init(struct traffic_coll *all, uint32_t nodes,
                      const struct traffic_coll_plan *plan)
{
    uint64_t segments = traffic_segments_of(plan->bytes);

    *all = (struct traffic_coll){
        .ops = {.create = member_create, .ctx = all},
        .plan = *plan,
        .nodes = nodes,
        .times = traffic_times_of(plan->profile),
        .segments = segments,
        .windowed = plan->operations * segments > EMU_WINDOW,
        .at = calloc(nodes, sizeof(uint32_t)),
        .group = calloc(plan->groups, sizeof(struct traffic_group)),
        .member = calloc(nodes, sizeof(struct traffic_member *)),
    };
    return all->at && all->group && all->member ? choose_members(all) : -ENOMEM;
}

/* Return the maximum number of operations that a member completes between two reads of its log. */
static uint32_t completions_most(const struct traffic_coll_plan *plan, uint64_t slice_ps)
{
    uint64_t wire_ps = traffic_wire_ps(plan->profile, plan->bytes < 8 ? 0 : 8);

    if (!plan->interval_ps)
        return 2;
    return (uint32_t)(slice_ps / wire_ps) + 2 +
           /* a late segment can complete all operations of a window at once */
           (traffic_times_of(plan->profile).engines ? EMU_WINDOW : 0);
}

static int member_join(struct traffic_member *member, struct traffic_group *group, uint32_t rank,
                       char *error, size_t error_bytes)
{
    int err = 0;

    member->group = group;
    if (member->all->plan.by != TRAFFIC_BY_HARDWARE)
        err = traffic_exchange_join(member, rank);
    if (err)
        snprintf(error, error_bytes, "out of memory");
    return err;
}

int traffic_coll_groups(struct traffic_coll *all, struct fabric *fabric, uint64_t slice_ps,
                        char *error, size_t error_bytes)
{
    uint32_t most = completions_most(&all->plan, slice_ps);
    int err = 0;

    for (uint32_t g = 0; !err && g < all->plan.groups; g++) {
        struct traffic_group *group = &all->group[g];
        if (all->plan.by == TRAFFIC_BY_HARDWARE)
            err = fabric_group_create(fabric, group->node, all->plan.members, &group->id, error,
                                      error_bytes);
        for (uint32_t i = 0; !err && i < all->plan.members; i++)
            if (all->member[group->node[i]])
                err = member_join(all->member[group->node[i]], group, i, error, error_bytes);
    }
    traffic_storage_assign(all);
    for (uint32_t w = 0; !err && w < all->workers.count; w++) {
        struct traffic_worker *worker = all->workers.at[w];
        if (worker)
            err = traffic_log_init(&worker->log, most * worker->nodes);
        if (err)
            snprintf(error, error_bytes, "out of memory");
    }
    return err;
}

void traffic_coll_free(struct traffic_coll *all)
{
    for (uint32_t n = 0; all->member && n < all->nodes; n++) {
        if (!all->member[n])
            continue;
        emu_link_unjoin(&all->member[n]->base.tx);
        free(all->member[n]->freed_ps);
        free(all->member[n]->seen_ps);
        free(all->member[n]->exchange);
        free(all->member[n]);
    }
    for (uint32_t g = 0; all->group && g < all->plan.groups; g++)
        free(all->group[g].freed_ps);
    traffic_workers_free(&all->workers);
    free(all->member);
    free(all->group);
    free(all->at);
    *all = (struct traffic_coll){.nodes = 0};
}

uint64_t traffic_coll_bytes(uint32_t nodes, const struct traffic_coll_plan *plan, uint64_t slice_ps)
{
    uint64_t segments = plan->operations * traffic_segments_of(plan->bytes);
    uint64_t window = segments > EMU_WINDOW ? EMU_WINDOW * sizeof(uint64_t) : 0;
    uint64_t seen = traffic_times_of(plan->profile).engines ? EMU_WINDOW * sizeof(uint64_t) : 0;
    uint64_t each = sizeof(struct traffic_member) + sizeof(struct traffic_member *) +
                    completions_most(plan, slice_ps) * sizeof(struct traffic_part) + window + seen;

    if (plan->by != TRAFFIC_BY_HARDWARE)
        each += traffic_exchange_bytes(plan);
    return nodes * each + plan->groups * (sizeof(struct traffic_group) + window);
}
