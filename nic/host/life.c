/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life.c - an adapter begins on an edge, and ends.
 */
#include "nic/host/life.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/now.h"
#include "nic/host/base.h"
#include "nic/host/group/group.h"
#include "nic/host/message/end.h"
#include "nic/host/message/message.h"
#include "nic/host/op/op.h"
#include "nic/host/peer/gone.h"
#include "nic/host/progress/watch.h"
#include "nic/host/send/answer.h"

#define EAGER_DEFAULT  8192u
#define HELLO_LIMIT_MS 10000u

static uint32_t env_number(const char *name, uint32_t otherwise, uint32_t most)
{
    const char *text = getenv(name);
    unsigned long long value;
    char *end;

    if (!text || !*text)
        return otherwise;
    value = strtoull(text, &end, 0);
    if (*end)
        return otherwise;
    return value > most ? most : (uint32_t)value;
}

static void nic_init(struct fabemu *fab)
{
    const struct emu_edge_shared *sh = fab->edge.shared;

    fab->life = fab->info.seat = emu_seat_first(emu_edge_nic_seat(&fab->edge, fab->info.node));
    fab->eager_bytes = env_number("FABEMU_EAGER_BYTES", EAGER_DEFAULT, NIC_EAGER_LIMIT);
    fab->hello_limit_ns = env_number("FABEMU_PEER_TIMEOUT_MS", HELLO_LIMIT_MS, UINT32_MAX) *
                          UINT64_C(1000000);
    fab->watch_gap_ns = NIC_WATCH_NS;
    fab->watch_ns = emu_now_ns() + NIC_WATCH_NS;
    fab->timed = sh->timed;
    fab->send_ps = sh->timed ? sh->nic_send_ps : 0;
    fab->pid = getpid();
    emu_list_init(&fab->ready);
    emu_list_init(&fab->connecting);
    emu_list_init(&fab->bulk);
    emu_list_init(&fab->ctls);
    emu_list_init(&fab->ctl_free);
    emu_list_init(&fab->serving);
    emu_list_init(&fab->busy);
    emu_list_init(&fab->setting);
    emu_list_init(&fab->again);
    emu_list_init(&fab->events);
    emu_list_init(&fab->fired);
    for (unsigned pool = 0; pool < NIC_MSG_POOLS; pool++)
        emu_list_init(&fab->msg_free[pool]);
    atomic_store_explicit(&fab->seen_tail, fab->edge.down_head, memory_order_relaxed);
}

int nic_open(struct fabemu **ret, int memfd, int bell, const struct fabemu_info *info)
{
    struct fabemu *fab = aligned_alloc(EMU_LINE, sizeof *fab);
    int err = -ENOMEM;

    if (!fab)
        return err;
    memset(fab, 0, sizeof *fab);
    err = emu_edge_nic_open(&fab->edge, memfd, bell);
    if (err)
        goto free_fab;
    err = -EPROTO;
    if (info->node != fab->edge.shared->node || info->nodes != fab->edge.shared->nodes)
        goto close_edge;
    fab->info = *info;
    err = -ENOMEM;
    fab->peers = calloc(info->nodes, sizeof *fab->peers);
    if (!fab->peers)
        goto close_edge;
    fab->queues = calloc(NIC_QUEUES, sizeof(struct fabemu_queue *));
    if (!fab->queues)
        goto free_peers;
    err = -pthread_mutex_init(&fab->lock, NULL);
    if (err)
        goto free_queues;
    nic_init(fab);
    *ret = fab;
    return 0;

free_queues:
    free(fab->queues);
free_peers:
    free(fab->peers);
close_edge:
    fab->edge.bell = -1; /* stays the caller's */
    emu_edge_nic_close(&fab->edge);
free_fab:
    free(fab);
    return err;
}

static void nic_free_pools(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->serving)) {
        struct nic_serve *serve = emu_list_entry(fab->serving.next, struct nic_serve, op.post.link);

        emu_list_del(&serve->op.post.link);
        free(serve);
    }
    for (struct emu_list *head = &fab->ctls;; head = &fab->ctl_free) {
        while (!emu_list_empty(head)) {
            struct nic_ctl *ctl = emu_list_entry(head->next, struct nic_ctl, link);

            emu_list_del(&ctl->link);
            free(ctl);
        }
        if (head == &fab->ctl_free)
            break;
    }
    while (fab->early_free) {
        struct nic_early *early = fab->early_free;

        fab->early_free = early->next;
        free(early);
    }
    nic_message_release_pools(fab);
}

void nic_close(struct fabemu *fab)
{
    nic_queue_release(fab);
    nic_group_release(fab);
    for (uint32_t i = 0; i < fab->info.nodes; i++)
        nic_peer_release(fab, &fab->peers[i]);
    nic_op_fail_all(fab, FABEMU_ANY_NODE, -ECANCELED);
    nic_event_release(fab);
    for (uint32_t i = 0; i < fab->region_count; i++)
        free(fab->regions[i]);
    nic_free_pools(fab);
    free(fab->regions);
    free(fab->slots);
    free(fab->loop);
    free(fab->queues);
    free(fab->peers);
    pthread_mutex_destroy(&fab->lock);
    emu_edge_nic_close(&fab->edge);
    free(fab->path);
    free(fab);
}

const struct fabemu_info *fabemu_info(const struct fabemu *fab)
{
    return &fab->info;
}
