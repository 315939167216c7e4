/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cntr.c - completion counters. Reading a counter steps the adapter.
 *
 * C1 pairs with C2: a thread that reads a count sees what the counted operations have written.
 */
#include "nic/ofi/unsupported.h"

#include <stdlib.h>

static struct ofi_cntr *cntr_of(struct fid_cntr *fid)
{
    return container_of(fid, struct ofi_cntr, cntr_fid);
}

static uint64_t count_get(_Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_acquire); /* C1 pairs with C2 in op.c */
}

static uint64_t cntr_sum(struct ofi_cntr *cntr)
{
    return count_get(&cntr->done) + count_get(&cntr->failed);
}

static bool cntr_ready(struct ofi_source *source)
{
    struct ofi_cntr *cntr = container_of(source, struct ofi_cntr, source);

    return cntr_sum(cntr) != atomic_load_explicit(&cntr->seen, memory_order_relaxed);
}

static void cntr_note_seen(struct ofi_cntr *cntr)
{
    atomic_store_explicit(&cntr->seen, cntr_sum(cntr), memory_order_relaxed);
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
    fabemu_progress(cntr_of(fid)->domain->fab);
    cntr_note_seen(cntr_of(fid));
    return count_get(&cntr_of(fid)->done);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
    cntr_note_seen(cntr_of(fid));
    return count_get(&cntr_of(fid)->failed);
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add_explicit(&cntr_of(fid)->done, value, memory_order_relaxed);
    ofi_source_wake(&cntr_of(fid)->source);
    return 0;
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
    atomic_store_explicit(&cntr_of(fid)->done, value, memory_order_relaxed);
    ofi_source_wake(&cntr_of(fid)->source);
    return 0;
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
    atomic_fetch_add_explicit(&cntr_of(fid)->failed, value, memory_order_relaxed);
    return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
    atomic_store_explicit(&cntr_of(fid)->failed, value, memory_order_relaxed);
    return 0;
}

/*
 * Wait until the counter reaches @threshold. Also returns when an operation has failed, because the
 * counter might then never reach it.
 */
static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
    struct ofi_cntr *cntr = cntr_of(fid);
    uint64_t failed = count_get(&cntr->failed);
    struct ofi_wait wait = ofi_wait_begin(cntr->domain->fab, timeout_ms);

    while (count_get(&cntr->done) < threshold) {
        if (count_get(&cntr->failed) != failed)
            return -FI_EAVAIL;
        if (!ofi_wait_step(&wait))
            return -FI_ETIMEDOUT;
    }
    return 0;
}

static int cntr_close(struct fid *fid)
{
    struct ofi_cntr *cntr = container_of(fid, struct ofi_cntr, cntr_fid.fid);

    if (ofi_held(&cntr->source.refs))
        return -FI_EBUSY;
    ofi_source_close(&cntr->source);
    ofi_release(&cntr->domain->refs);
    free(cntr);
    return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
    return ofi_source_control(ofi_source_of(fid), command, arg);
}

static struct fi_ops cntr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cntr_close,
    .bind = ofi_no_bind,
    .control = cntr_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_cntr cntr_ops = {
    .size = sizeof(struct fi_ops_cntr),
    .read = cntr_read,
    .readerr = cntr_readerr,
    .add = cntr_add,
    .set = cntr_set,
    .wait = cntr_wait,
    .adderr = cntr_adderr,
    .seterr = cntr_seterr,
};

int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **ret,
                  void *context)
{
    struct ofi_cntr *cntr;
    int err;

    if (attr->events != FI_CNTR_EVENTS_COMP)
        return -FI_ENOSYS;
    cntr = calloc(1, sizeof *cntr);
    if (!cntr)
        return -FI_ENOMEM;
    cntr->domain = ofi_domain_of(domain);
    cntr->source.fid = &cntr->cntr_fid.fid;
    cntr->source.fab = cntr->domain->fab;
    cntr->source.ready = cntr_ready;
    err = ofi_source_open(&cntr->source, attr->wait_obj, attr->wait_set);
    if (err) {
        free(cntr);
        return err;
    }
    ofi_fid_init(&cntr->cntr_fid.fid, FI_CLASS_CNTR, context, &cntr_fid_ops);
    cntr->cntr_fid.ops = &cntr_ops;
    ofi_hold(&cntr->domain->refs);
    *ret = &cntr->cntr_fid;
    return 0;
}
