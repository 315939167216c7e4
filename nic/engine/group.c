/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * group.c - the groups of an adapter: its position in their trees, its words, and its answers to
 * conditionals.
 *
 * A conditional is a packet to a group that asks each member's adapter whether one of its words has
 * a value. An adapter answers ACK or NACK, the switches merge the answers, and the source receives
 * one. A NACK may also mean that a segment was lost. So an ACK always means that the condition is
 * true, but a NACK only means that it may not be true yet. A conditional changes nothing at its
 * receivers, so it needs no sequence number.
 * Source: QsNet III §IV-A.
 *
 * A barrier by conditional does not test a word, but whether the member's host has posted an
 * EMU_BARRIER with the barrier's number. Each number in the window has its own state, so several
 * barriers may be in progress.
 */
#include "nic/engine/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/engine/internal.h"

/* --- for the manager ---------------------------------------------------------------- */

size_t engine_group_bytes(uint32_t sources)
{
    return sizeof(struct engine_group) + sources * sizeof(struct engine_history);
}

/* Each number of the window may need a buffer for the partial result, and one for the result. */
uint32_t engine_group_bufs(uint32_t id)
{
    return 2 * emu_window(id);
}

static void group_free(struct engine_group *group)
{
    if (group->tree) {
        free(group->tree->kept);
        free(group->tree->query);
        free(group->tree->memory);
    }
    free(group);
}

/*
 * Allocate a tree, aligned to a cache line. The pages from calloc() take memory only when they are
 * written, so unused states of a large group take none.
 */
static struct engine_tree *tree_alloc(uint32_t window)
{
    size_t bytes = sizeof(struct engine_tree) + window * sizeof(struct engine_coll);
    char *memory = calloc(1, bytes + EMU_LINE - 1);
    struct engine_tree *tree;

    if (!memory)
        return NULL;
    tree = (void *)(memory + -(uintptr_t)memory % EMU_LINE);
    tree->memory = memory;
    return tree;
}

static struct engine_tree *tree_create(struct engine_group *group,
                                       const struct engine_group_config *config)
{
    uint32_t window = emu_window(group->id);
    struct engine_tree *tree = tree_alloc(window);

    if (!tree)
        return NULL;
    tree->window = window;
    tree->width = (uint8_t)(ENGINE_CHILD + config->children);
    tree->by_link = config->by_link;
    tree->unit = config->unit;
    tree->all = emu_port_if(ENGINE_HERE, !config->unit) |
                emu_port_if(ENGINE_PARENT, config->parent != ENGINE_NO_NODE);
    tree->node[ENGINE_PARENT] = config->parent;
    for (uint32_t i = 0; i < config->children; i++) {
        tree->node[ENGINE_CHILD + i] = config->child[i];
        tree->all |= emu_port(ENGINE_CHILD + i);
    }
    for (uint32_t i = 0; i < window; i++)
        tree->state[i].group = group;
    return tree;
}

/* Allocate the memory that a group needs for combining. Returns false if there is no memory. */
static bool group_combine(struct engine_group *group, const struct engine_group_config *config)
{
    struct engine_tree *tree = group->tree = tree_create(group, config);

    if (tree)
        tree->query = calloc(tree->window, sizeof *tree->query);
    if (tree && config->in_order)
        tree->kept = calloc((size_t)tree->window * emu_kept_slots(tree->all), sizeof *tree->kept);
    return tree && tree->query && (tree->kept || !config->in_order);
}

int engine_group_create(struct engine_group **ret, const struct engine_group_config *config)
{
    struct engine_group *group;

    if (config->trees > EMU_TREES_MAX || config->children > ENGINE_CHILDREN_MAX)
        return -EINVAL;
    for (uint32_t t = 0; t < config->trees; t++)
        if (config->link[t] >= ENGINE_LINKS_MAX)
            return -EINVAL;
    group = calloc(1, engine_group_bytes(config->sources));
    if (!group)
        return -ENOMEM;
    group->id = config->id;
    group->sources = config->sources;
    group->trees = (uint8_t)config->trees;
    for (uint32_t t = 0; t < config->trees; t++)
        group->link[t] = (uint8_t)config->link[t];
    if (config->combines && !group_combine(group, config)) {
        group_free(group);
        return -ENOMEM;
    }
    *ret = group;
    return 0;
}

/* Store in @buf the buffers to which state @i holds references. Returns how many. */
static uint32_t state_holds(const struct engine_tree *tree, uint32_t i, uint32_t buf[ENGINE_WIDTH])
{
    const struct engine_coll *state = &tree->state[i];
    bool kept = engine_state_in_order(tree, state) && !state->made;
    uint32_t count = 0;

    if (!kept && emu_ports_any(state->have))
        buf[count++] = state->buf;
    emu_each_port (at, emu_ports_if(state->have, kept))
        buf[count++] = *emu_kept_at(engine_kept(tree, state), at);
    return count;
}

uint32_t engine_group_held(const struct engine_group *group)
{
    uint32_t buf[ENGINE_WIDTH];
    uint32_t bufs = 0;

    for (uint32_t i = 0; group->tree && i < group->tree->window; i++)
        bufs += state_holds(group->tree, i, buf);
    return bufs;
}

/* group->waiting must count each state whose result is being sent or whose conditional runs. */
const char *engine_group_check(const struct engine_group *group)
{
    uint32_t waiting = 0, open = 0;

    for (uint32_t i = 0; group->tree && i < group->tree->window; i++) {
        const struct engine_coll *state = &group->tree->state[i];

        waiting += emu_ports_any(state->outs) + state->querying;
        open += emu_ports_any(state->have) && state->hdr.kind != EMU_BARRIER;
        if ((emu_ports_any(state->have & ~group->tree->all) && !state->made) ||
            (state->made && !emu_ports_any(state->outs)))
            return "a state of a collective has leaked";
    }
    if (waiting != atomic_load_explicit(&group->waiting, memory_order_relaxed))
        return "a result of a collective has leaked: nothing will send it";
    if (group->tree && open != group->tree->open)
        return "states of collectives are counted wrong";
    return NULL;
}

bool engine_knows_group(const struct engine *e, const struct engine_group *group)
{
    return engine_group_of(e, group->id) == group;
}

uint32_t engine_group_parent(const struct engine_group *group)
{
    return group->tree ? group->tree->node[ENGINE_PARENT] : ENGINE_NO_NODE;
}

uint32_t engine_group_children(const struct engine_group *group)
{
    return group->tree ? group->tree->width - ENGINE_CHILD : 0;
}

bool engine_group_has_child(const struct engine_group *group, uint32_t node)
{
    for (uint32_t i = 0; i < engine_group_children(group); i++)
        if (group->tree->node[ENGINE_CHILD + i] == node)
            return true;
    return false;
}

bool engine_group_arrived(const struct engine_group *group, uint32_t seq)
{
    const struct engine_coll *state = group->tree ? engine_state(group->tree, seq) : NULL;

    return state && (engine_passed(group->tree, seq) ||
                     (state->used && state->hdr.seq == seq &&
                      (!emu_ports_any(state->have) || emu_ports_has(state->have, ENGINE_HERE))));
}

const struct emu_mismatch *engine_group_mismatch(const struct engine_group *group)
{
    return group->tree && group->tree->mismatch.seen ? &group->tree->mismatch : NULL;
}

bool engine_group_failed(const struct engine_group *group)
{
    return group->tree && group->tree->failed;
}

bool engine_group_gave_up(const struct engine_group *group)
{
    return group && group->gave_up;
}

/* T2 pairs with T1: if `waiting` is 0, the engine does not use the group's states any more. */
bool engine_group_destroy(struct engine_group *group, struct emu_pool_cache *cache, bool stopped)
{
    uint32_t buf[ENGINE_WIDTH];

    if (!group)
        return true;
    if (!stopped && atomic_load_explicit(&group->waiting, memory_order_acquire)) /* T2 */
        return false;
    for (uint32_t i = 0; group->tree && i < group->tree->window; i++)
        for (uint32_t left = state_holds(group->tree, i, buf); left--;)
            emu_pool_drop(cache, buf[left]);
    group_free(group);
    return true;
}

int engine_groups_set(struct engine *e, struct engine_group *group, void **old)
{
    assert(group->link[0] < e->links);
    return emu_table_set(&e->tree.groups, group->id, group, old);
}

void engine_groups_clear(struct engine *e, uint32_t id)
{
    emu_table_clear(&e->tree.groups, id);
}

/* --- for the engine ----------------------------------------------------------------- */

struct engine_group *engine_group_of(const struct engine *e, uint32_t id)
{
    struct engine_group *group = emu_table_at(&e->tree.groups, id);

    return group && group->id == id ? group : NULL;
}

struct engine_history *engine_group_history(struct engine_group *group, uint32_t src)
{
    uint32_t at = group->sources ? src * 0x9e3779b1u % group->sources : 0;

    for (uint32_t left = group->sources; left; left--) {
        struct engine_history *history = &group->history[at];

        if (!history->from || history->from == src + 1)
            return history;
        at = at + 1 < group->sources ? at + 1 : 0;
    }
    return NULL;
}

struct engine_to engine_to_group(const struct engine *e, const struct engine_group *group,
                                 enum engine_class class)
{
    return (struct engine_to){.dst = group->id,
                              .class = class,
                              .group = true,
                              .only = e->links > 1 ? (uint8_t)(group->link[0] + 1u) : 0};
}

static void packet_use_tree(const struct engine *e, struct engine_packet *p,
                            const struct engine_group *group, uint32_t tree)
{
    p->tree = (uint8_t)tree;
    p->only = e->links > 1 ? (uint8_t)(group->link[tree] + 1u) : 0;
}

void engine_choose_tree(const struct engine *e, struct engine_packet *p)
{
    struct engine_group *group = engine_group_of(e, p->dst);

    if (!group || group->trees < 2)
        return;
    packet_use_tree(e, p, group, group->turn);
    group->turn = (uint8_t)(group->turn + 1 < group->trees ? group->turn + 1 : 0);
}

void engine_group_relink(struct engine *e, uint32_t id, uint32_t tree, uint32_t link,
                         uint64_t at_ps)
{
    struct engine_group *group = engine_group_of(e, id);

    assert(link < e->links);
    if (!group || tree >= group->trees || group->link[tree] == link)
        return;
    group->link[tree] = (uint8_t)link;
    for (uint32_t i = 0; i < e->send.packets; i++) {
        struct engine_packet *p = &e->send.packet[i];

        if (p->group && p->dst == id && p->tree == tree)
            packet_use_tree(e, p, group, tree);
    }
    engine_wake_all(e, at_ps);
}

void engine_set(struct engine *e, struct engine_group *group, const struct emu_hdr *hdr,
                const struct emu_word *word)
{
    uint64_t first = word->value & UINT32_MAX, count = word->value >> 32;

    assert(group->tree);
    if (hdr->len == sizeof *word && word->word < EMU_WORDS) {
        group->tree->word[word->word] = word->value;
    } else if (hdr->len == sizeof *word && word->word == EMU_WORDS &&
               first + count <= EMU_MEMORY_WORDS) {
        group->tree->range.first = (uint32_t)first;
        group->tree->range.count = (uint32_t)count;
        group->tree->range.process = e->host.process;
    } else {
        emu_count(&e->counts.against, 1);
    }
}

/*
 * Return whether the condition @word is true at this adapter. A condition on a word in memory is
 * false if the process that chose the range of words has ended, or if no process has chosen one. So
 * the memory of a later process of this node is not tested.
 */
static bool word_agrees(const struct engine *e, const struct engine_tree *tree,
                        const struct emu_word *word)
{
    const struct emu_hostif *hostif = e->host.in.kind == EMU_LINK_HOSTIF ? e->host.in.plug.plugged
                                                                         : NULL;
    uint32_t at = word->word - EMU_WORDS;

    if (word->word < EMU_WORDS)
        return emu_word_is(tree->word[word->word], word->value, word->test);
    return hostif && hostif->serial == tree->range.process && at < tree->range.count &&
           emu_word_is(emu_hostif_word(hostif, tree->range.first + at), word->value, word->test);
}

bool engine_agrees(struct engine *e, uint32_t buf)
{
    const struct emu_seg *seg = emu_pool_seg(engine_cache(e)->pool, buf);
    const struct engine_group *group = engine_group_of(e, seg->hdr.dst);
    const struct engine_coll *state;
    struct emu_word word;

    if (!group || !group->tree)
        return false;
    if (seg->hdr.op == ENGINE_TEST_BARRIER) {
        state = engine_state(group->tree, seg->hdr.seq);
        return emu_ports_has(state->have, ENGINE_HERE) && state->hdr.seq == seg->hdr.seq &&
               state->hdr.kind == EMU_BARRIER;
    }
    if (seg->hdr.len != sizeof word)
        return false;
    memcpy(&word, seg->payload, sizeof word);
    return word_agrees(e, group->tree, &word);
}
