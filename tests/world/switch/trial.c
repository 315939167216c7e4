/* SPDX-License-Identifier: BSD-3-Clause */
/* trial.c - see trial.h. */
#include "tests/world/switch/trial.h"

#include <string.h>

#include "emu/util/combine.h"
#include "tests/test.h"

struct trial trial_draw(uint64_t seed, enum emu_buffers buffers)
{
    static const char *const specs[] = {"kary:4,1", "kary:8,1", "kary:2,3", "kary:4,2", "kary:3,2"};
    static const uint32_t units[] = {1, 2, 5};
    struct trial t = {.seed = seed, .spread = seed};
    uint64_t random = seed;

    world_profile(&t.profile, "oq2004", NULL);
    t.spec = specs[test_draw(&random, 0, 4)];
    t.profile.buffers = buffers;
    t.profile.credit = (enum emu_credit_policy)test_draw(&random, 0, 1);
    t.profile.choice = (enum emu_choice)test_draw(&random, 0, EMU_CHOICES_COUNT - 1);
    t.profile.combine_order = (enum emu_combine_order)test_draw(&random, 0, 1);
    t.profile.combine_units = units[test_draw(&random, 0, 2)];
    t.profile.xpoint_slots = test_draw(&random, 1, test_draw(&random, 0, 1) ? 2 : EMU_XPOINT_MAX);
    t.profile.input_slots = test_draw(&random, 1, test_draw(&random, 0, 1) ? 3 : 40);
    t.profile.light_slots = test_draw(&random, 1, 3);
    t.profile.credit_ps = test_draw(&random, 0, 3) ? 110000 : test_draw(&random, 1, 300000);
    t.profile.combine_word_ps = test_draw(&random, 0, 1) ? 4000 : 100000;
    t.grid_ps = test_draw(&random, 0, 1) ? 204800 : 1;
    t.posts = test_draw(&random, 20, 120);
    t.ops = buffers == EMU_BUFFERS_INPUT ? 0 : test_draw(&random, 0, TRIAL_OPS);
    t.type = EMU_I64;
    return t;
}

void trial_say(const struct trial *t)
{
    const struct emu_profile *p = &t->profile;

    printf("trial %llu: %s buffers %d credit %d choice %d order %d units %u xpoint_slots %u "
           "input_slots %u light %u credit_ps %llu word %llu grid %llu posts %u ops %u\n",
           (unsigned long long)t->seed, t->spec, p->buffers, p->credit, p->choice, p->combine_order,
           p->combine_units, p->xpoint_slots, p->input_slots, p->light_slots,
           (unsigned long long)p->credit_ps, (unsigned long long)p->combine_word_ps,
           (unsigned long long)t->grid_ps, t->posts, t->ops);
}

/* Some of the nodes: 2 at least. */
static void trial_members(struct trial_group *group, uint32_t nodes, uint64_t *random)
{
    group->members = 0;
    while (group->members < 2) {
        uint32_t one_in = test_draw(random, 1, 3);

        group->members = 0;
        for (uint32_t n = 0; n < nodes; n++)
            if (test_draw(random, 1, one_in) == 1)
                group->node[group->members++] = n;
    }
}

static int64_t trial_member(const struct trial_group *group, uint32_t node)
{
    for (uint32_t i = 0; i < group->members; i++)
        if (group->node[i] == node)
            return i;
    return -1;
}

static void trial_groups(struct trial *t, struct sim *w)
{
    uint64_t random = t->seed ^ 1;

    for (uint32_t g = 0; g < TRIAL_BROADCASTS; g++) {
        trial_members(&t->cast[g], w->graph->nodes, &random);
        t->cast[g].id = world_multicast(w->fabric, t->cast[g].node, t->cast[g].members);
    }
    trial_members(&t->all, w->graph->nodes, &random);
    if (t->ops)
        t->all.id = world_group(w->fabric, t->all.node, t->all.members);
}

/* Collective @op: its header, and the member that gets a REDUCE's result and sends nothing. */
static struct emu_hdr trial_op(const struct trial *t, uint32_t op, uint32_t *root)
{
    static const uint8_t kinds[] = {EMU_ALLREDUCE, EMU_REDUCE, EMU_BARRIER, EMU_REDUCE};
    uint64_t random = t->seed ^ (op + 2) * UINT64_C(0x9e3779b97f4a7c15);
    struct emu_hdr hdr = {.dst = t->all.id, .seq = op, .kind = kinds[op % 4]};

    *root = TOPO_NONE;
    if (hdr.kind != EMU_BARRIER) {
        hdr.op = EMU_SUM;
        hdr.type = t->type;
        hdr.len = (uint8_t)(8 * test_draw(&random, 1, 30));
    }
    if (hdr.kind == EMU_REDUCE)
        *root = t->all.node[test_draw(&random, 0, t->all.members - 1)];
    return hdr;
}

static uint64_t trial_payload(const struct trial *t, uint32_t op, uint32_t node)
{
    return t->seed * 31 + op * 1000003 + node;
}

/* Node @n's part of collective @op. */
static void trial_contribute(struct trial *t, struct sim *w, uint32_t n, uint32_t op,
                             uint64_t ready_ps)
{
    uint32_t root;
    struct emu_hdr hdr = trial_op(t, op, &root);

    if (root != n)
        sim_post(w, n, ready_ps, hdr)->seed = trial_payload(t, op, n);
    if (root == n || root == TOPO_NONE)
        t->expect[n]++;
}

/* A unicast, or a multicast if it is a member of the group that was drawn. */
static void trial_send(struct trial *t, struct sim *w, uint32_t n, uint64_t ready_ps,
                       uint64_t *random)
{
    const struct trial_group *group = &t->cast[test_draw(random, 0, TRIAL_BROADCASTS - 1)];
    struct emu_hdr hdr = {.dst = test_draw(random, 0, w->graph->nodes - 1),
                          .len = (uint8_t)test_draw(random, 0, EMU_PAYLOAD_BYTES)};

    if (test_draw(random, 0, 3) || trial_member(group, n) < 0) {
        t->expect[hdr.dst]++;
    } else {
        hdr.kind = EMU_MULTICAST;
        hdr.dst = group->id;
        for (uint32_t i = 0; i < group->members; i++)
            t->expect[group->node[i]] += group->node[i] != n;
    }
    sim_post(w, n, ready_ps, hdr)->seed = test_random(random);
}

/* All that is to be sent. What, by the seed; when, by the spread. */
static void trial_fill(struct trial *t, struct sim *w)
{
    memset(t->expect, 0, sizeof t->expect);
    for (uint32_t n = 0; n < w->graph->nodes; n++) {
        uint64_t random = t->seed + n, when = t->spread + n;
        uint32_t ops = trial_member(&t->all, n) < 0 ? 0 : t->ops;
        uint64_t ready_ps = 0;

        if (test_draw(&when, 0, 4) == 0)
            w->node[n]->service_ps = test_draw(&when, 1, 800000);
        for (uint32_t i = 0, op = 0; i < t->posts || op < ops; i++) {
            ready_ps += test_draw(&when, 0, 400000) / t->grid_ps * t->grid_ps;
            if (op < ops && (i >= t->posts || test_draw(&random, 0, 2) == 0))
                trial_contribute(t, w, n, op++, ready_ps);
            else
                trial_send(t, w, n, ready_ps, &random);
        }
    }
}

void trial_open(struct trial *t, struct sim *w, uint32_t workers)
{
    sim_start(w, t->spec, &t->profile, workers);
    trial_groups(t, w);
    trial_fill(t, w);
}

/* The result of collective @op, of whole numbers. */
static void trial_result(const struct trial *t, uint32_t op, uint8_t *bytes)
{
    uint32_t root;
    struct emu_hdr hdr = trial_op(t, op, &root);
    uint8_t in[EMU_PAYLOAD_BYTES];
    bool begun = false;

    for (uint32_t i = 0; i < t->all.members; i++) {
        uint32_t n = t->all.node[i];

        if (n == root)
            continue;
        sim_payload(&hdr, trial_payload(t, op, n), begun ? in : bytes);
        if (begun)
            emu_combine_fold(hdr.op, hdr.type, bytes, in, hdr.len);
        begun = true;
    }
}

bool trial_arrived(const struct trial *t, const struct sim *w)
{
    bool right = true;

    for (uint32_t n = 0; n < w->graph->nodes; n++) {
        const struct sim_node *p = w->node[n];

        right &= p->gots == t->expect[n] && p->sent == p->posts;
        for (uint32_t i = 0; i < p->gots && t->type == EMU_I64; i++) {
            uint8_t result[EMU_PAYLOAD_BYTES];

            if (p->got[i].hdr.kind < EMU_REDUCE || p->got[i].hdr.kind == EMU_BARRIER)
                continue;
            trial_result(t, p->got[i].hdr.seq, result);
            right &= !memcmp(result, p->got[i].payload, p->got[i].hdr.len);
        }
    }
    return right;
}
