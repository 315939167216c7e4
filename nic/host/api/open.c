/* SPDX-License-Identifier: BSD-3-Clause */
/* open.c - create and free an adapter */
#include "nic/host/api/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/hostif/bounds.h"
#include "emu/util/now.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/group/group.h"
#include "nic/host/peer/failure.h"
#include "nic/host/progress/progress.h"
#include "nic/host/rx/message.h"
#include "nic/host/rx/queue.h"
#include "nic/host/rx/region.h"
#include "nic/host/tx/answer.h"

#define EAGER_DEFAULT 8192u

/* Indexed by fabemu_info.acknowledged. */
static const struct nic_transport transports[] = {
    {.reports_delivery = false, .has_engine = false},
    {.reports_delivery = true, .has_engine = true},
};

/*
 * Read a number from the environment, but at most @most. *ret stays unchanged if there is none. The
 * number may be decimal, octal (0...) or hexadecimal (0x...). Errors: -EINVAL.
 */
static int env_limited(const char *name, uint64_t most, uint64_t *ret)
{
    const char *text = getenv(name);
    unsigned long long value;
    char *end;

    if (!text || !*text)
        return 0;
    value = strtoull(text, &end, 0);
    if (*end || *text < '0' || *text > '9') /* strtoull() accepts a sign */
        return nic_fail(-EINVAL, "%s is '%.40s': it must be a whole number", name, text);
    *ret = value > most ? most : value;
    return 0;
}

static int env_eager(uint64_t *bytes)
{
    return env_limited("FABEMU_EAGER_BYTES", NIC_EAGER_LIMIT, bytes);
}

static int env_peer_timeout(uint64_t *ms)
{
    const char *text = getenv("FABEMU_PEER_TIMEOUT_MS");

    if (!text || strcmp(text, "off") != 0)
        return env_limited("FABEMU_PEER_TIMEOUT_MS", UINT32_MAX, ms);
    *ms = FABEMU_FOREVER;
    return 0;
}

int nic_check_environment(void)
{
    uint64_t number;
    int err = env_eager(&number);

    return err ? err : env_peer_timeout(&number);
}

/*
 * Set the bounds to those of the fabric. A bound that the fabric did not give gets its default.
 * FABEMU_PEER_TIMEOUT_MS overrides two of them for this process.
 */
static void nic_init_bounds(struct fabemu *fab)
{
    struct fabemu_bounds *bounds = &fab->info.bounds;
    uint64_t own_ms = 0;

    env_peer_timeout(&own_ms);
#define FILL(field, name, ms, what) bounds->field##_ms += bounds->field##_ms ? 0 : (ms);
    EMU_BOUNDS_LIBRARY(FILL)
#undef FILL
    if (own_ms)
        bounds->silence_ms = bounds->leave_ms = own_ms;
    fab->hello_limit_ns = emu_bound_ns(bounds->silence_ms);
    fab->successor_limit_ns = emu_bound_ns(bounds->successor_ms);
    fab->leave_limit_ns = emu_bound_ns(bounds->leave_ms);
    fab->farewell_limit_ns = emu_bound_ns(bounds->farewell_ms);
}

static void nic_init(struct fabemu *fab)
{
    uint64_t eager_bytes = EAGER_DEFAULT;
    const struct emu_hostif_shared *sh = fab->hostif.shared;
    struct emu_list *const lists[] = {&fab->ready,    &fab->connecting, &fab->bulk,   &fab->ctls,
                                      &fab->ctl_free, &fab->serving,    &fab->busy,   &fab->setting,
                                      &fab->again,    &fab->events,     &fab->opened, &fab->fired};

    fab->incarnation = fab->info.incarnation =
        emu_incarnation_first(emu_hostif_nic_incarnation(&fab->hostif, fab->info.node));
    fab->transport = transports[fab->info.acknowledged];
    env_eager(&eager_bytes);
    fab->eager_bytes = (uint32_t)eager_bytes;
    nic_init_bounds(fab);
    fab->simulated = sh->simulated;
    fab->watch_gap_ns = NIC_WATCH_NS;
    fab->watch_ns = nic_now_ns(fab) + NIC_WATCH_NS;
    fab->hello_starved_ns = emu_hostif_nic_starved(&fab->hostif, fab->watch_ns);
    fab->timed = sh->timed;
    fab->send_ps = sh->timed ? sh->nic_send_ps : 0;
    fab->pid = getpid();
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        emu_list_init(lists[i]);
    for (unsigned pool = 0; pool < NIC_MSG_POOLS; pool++)
        emu_list_init(&fab->msg_free[pool]);
    fab->pending.written_ns = fab->pending.quiet_ns = nic_now_ns(fab);
    fab->pending.mismatch.node = EMU_PENDING_ANY;
    fab->rank = -1;
    atomic_store_explicit(&fab->seen_tail, fab->hostif.down_head, memory_order_relaxed);
}

/* Allocate and check the parts that nic_init() needs. After an error the caller frees them. */
static int nic_begin(struct fabemu *fab, const struct fabemu_info *info)
{
    if (info->node != fab->hostif.shared->node || info->nodes != fab->hostif.shared->nodes)
        return -EPROTO;
    fab->info = *info;
    fab->peers = calloc(info->nodes, sizeof *fab->peers);
    fab->queues = calloc(NIC_QUEUES, sizeof(struct fabemu_queue *));
    fab->retired = calloc(NIC_QUEUES, sizeof *fab->retired);
    if (!fab->peers || !fab->queues || !fab->retired)
        return -ENOMEM;
    return -pthread_mutex_init(&fab->lock, NULL);
}

int nic_open(struct fabemu **ret, const struct emu_hostif_fds *fds, const struct fabemu_info *info)
{
    struct fabemu *fab = aligned_alloc(EMU_LINE, sizeof *fab);
    int err;

    if (!fab)
        return -ENOMEM;
    memset(fab, 0, sizeof *fab);
    err = emu_hostif_nic_open(&fab->hostif, fds);
    if (err)
        goto free_fab;
    err = nic_begin(fab, info);
    if (err)
        goto close_hostif;
    nic_init(fab);
    *ret = fab;
    return 0;

close_hostif:
    free(fab->queues);
    free(fab->retired);
    free(fab->peers);
    fab->hostif.bell = -1; /* the caller still owns it */
    emu_hostif_nic_close(&fab->hostif);
free_fab:
    free(fab);
    return err;
}

static void ctls_free(struct emu_list *ctls)
{
    while (!emu_list_empty(ctls)) {
        struct nic_ctl *ctl = emu_list_entry(ctls->next, struct nic_ctl, link);

        emu_list_del(&ctl->link);
        free(ctl);
    }
}

static void nic_free_pools(struct fabemu *fab)
{
    while (!emu_list_empty(&fab->serving)) {
        struct nic_serve *serve = emu_list_entry(fab->serving.next, struct nic_serve, op.post.link);

        emu_list_del(&serve->op.post.link);
        free(serve);
    }
    ctls_free(&fab->ctls);
    ctls_free(&fab->ctl_free);
    while (fab->early_free) {
        struct nic_early *early = fab->early_free;

        fab->early_free = early->next;
        free(early);
    }
    nic_message_release_pools(fab);
}

void nic_close(struct fabemu *fab)
{
    /*
     * The calls below complete requests, so armed operations may become due. nic_unlock() would
     * start them. It is not called here, so nic_event_release() cancels them.
     */
    nic_lock(fab);
    nic_queue_release(fab);
    nic_group_release(fab);
    for (uint32_t i = 0; i < fab->info.nodes; i++)
        nic_peer_release(fab, &fab->peers[i]);
    nic_op_fail_all(fab, FABEMU_ANY_NODE, -ECANCELED);
    nic_event_release(fab);
    nic_region_release(fab);
    nic_free_pools(fab);
    free(fab->slots);
    free(fab->loop);
    free(fab->queues);
    free(fab->retired);
    free(fab->peers);
    pthread_mutex_unlock(&fab->lock);
    pthread_mutex_destroy(&fab->lock);
    emu_hostif_nic_close(&fab->hostif);
    free(fab->path);
    free(fab);
}

const struct fabemu_info *fabemu_info(const struct fabemu *fab)
{
    return &fab->info;
}
