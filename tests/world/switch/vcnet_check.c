/* SPDX-License-Identifier: BSD-3-Clause */
/* vcnet_check.c - see vcnet.h: what must hold in it, and what the nodes make of what came. */
#include <string.h>

#include "switch/channel/channel.h"
#include "tests/test.h"
#include "tests/world/switch/vcnet.h"

bool vcnet_holds(struct vcnet *w)
{
    const char *wrong = NULL;

    for (uint32_t s = 0; s < w->switches && !wrong; s++)
        wrong = switch_check(w->sw[s], w->now_ps);
    for (uint32_t n = 0; n < w->nodes && !wrong; n++) {
        struct vcnode *p = w->node[n];
        const struct switch_channels *ch = switch_channels_of(p->sw);

        wrong = switch_check_cable(p->sw, p->port, &p->vcs, NULL);
        if (!wrong)
            wrong = switch_check_channels(&p->rx, &ch->port[p->port].vcs, p->faults, NULL, NULL,
                                          w->profile.pool_slots);
    }
    if (wrong)
        printf("at %llu ps: %s\n", (unsigned long long)w->now_ps, wrong);
    return !wrong;
}

bool vcnet_free(struct vcnet *w, bool lossy)
{
    uint32_t taken = 0;

    for (uint32_t s = 0; s < w->switches; s++) {
        const struct switch_channels *ch = switch_channels_of(w->sw[s]);

        for (uint32_t p = 0; p < ch->sw.ports; p++) {
            const struct switch_channel_port *port = &ch->port[p];

            taken += port->vcs.open != 0 || port->vcs.pool != w->profile.pool_slots ||
                     port->vcs.occupied || port->vcs.paid || port->replies || port->waiters ||
                     port->collect || port->held || emu_vcs_collecting(&port->vcs);
            for (uint32_t c = 0; c < EMU_VCS; c++) {
                const struct switch_channel_in *in = &ch->in[p * EMU_VCS + c];

                taken += in->queued || in->wants || port->vcs.used[c] ||
                         (in->state != CHANNEL_CLOSED && !lossy);
            }
        }
        taken += ch->queued != 0 || ch->uncredited != 0;
    }
    for (uint32_t n = 0; n < w->nodes; n++)
        taken += w->node[n]->vcs.open || w->node[n]->vcs.pool != w->profile.pool_slots;
    return !taken && !world_bufs_held(w->pool, w->worker, w->workers);
}

/* Packets to a group that came to @n and should have: not what it sent itself. */
static bool vcnet_wanted(const struct vcnet *w, const struct vcnet_post *post, uint32_t src,
                         uint32_t n)
{
    return post->group ? w->member[post->dst][n] && n != src : post->dst == n;
}

static void verdict_node(const struct vcnet *w, uint32_t n, uint8_t *came, const uint32_t *first,
                         struct vcnet_verdict *verdict)
{
    const struct vcnode *p = w->node[n];

    for (uint32_t i = 0; i < p->gots; i++) {
        uint32_t src = p->got[i].tag >> TAG_NODE;
        uint32_t post = (p->got[i].tag & ((1u << TAG_NODE) - 1)) - 1;

        if (src >= w->nodes || post >= w->node[src]->posts || !p->got[i].good ||
            !vcnet_wanted(w, &w->node[src]->post[post], src, n))
            verdict->wrong++;
        else
            verdict->twice += came[first[src] + post]++;
    }
    for (uint32_t src = 0; src < w->nodes; src++)
        for (uint32_t i = 0; i < w->node[src]->posts; i++) {
            const struct vcnet_post *post = &w->node[src]->post[i];

            verdict->lost += post->state == POST_ACKED && vcnet_wanted(w, post, src, n) &&
                             !came[first[src] + i];
        }
}

struct vcnet_verdict vcnet_judge(const struct vcnet *w)
{
    struct vcnet_verdict verdict = {0};
    uint32_t first[VCNET_NODES], posts = 0;
    uint8_t *came;

    for (uint32_t n = 0; n < w->nodes; n++) {
        first[n] = posts;
        posts += w->node[n]->posts;
    }
    came = malloc(posts ? posts : 1);
    for (uint32_t n = 0; n < w->nodes; n++) {
        memset(came, 0, posts);
        verdict_node(w, n, came, first, &verdict);
    }
    free(came);
    return verdict;
}

uint32_t vcnet_count(const struct vcnet *w, enum post_state state)
{
    uint32_t count = 0;

    for (uint32_t n = 0; n < w->nodes; n++)
        for (uint32_t i = 0; i < w->node[n]->posts; i++)
            count += w->node[n]->post[i].state == state;
    return count;
}

static const void *vcnet_counts(const void *world, uint32_t s)
{
    return switch_counts(((const struct vcnet *)world)->sw[s]);
}

uint64_t vcnet_sum(const struct vcnet *w, size_t counter)
{
    return world_counters(w, w->switches, vcnet_counts, counter);
}

uint64_t vcnet_digest(const struct vcnet *w)
{
    uint64_t digest = 0;

    for (uint32_t n = 0; n < w->nodes; n++) {
        const struct vcnode *p = w->node[n];

        for (uint32_t i = 0; i < p->gots; i++)
            digest = world_digest(digest, p->got[i].whole_ps ^ (uint64_t)p->got[i].tag << 32);
        for (uint32_t i = 0; i < p->posts; i++)
            digest = world_digest(digest, p->post[i].reply_ps ^ (uint64_t)p->post[i].state << 60);
    }
    return digest;
}
