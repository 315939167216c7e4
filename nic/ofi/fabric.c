/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - fi_fabric(), the root of a program's objects, and fi_domain(), which attaches the
 * process to its node.
 */
#include "nic/ofi/cm.h"
#include "nic/ofi/coll.h"
#include "nic/ofi/unsupported.h"

#include <stdlib.h>
#include <string.h>

/* --- domains ------------------------------------------------------------------------ */

static int domain_close(struct fid *fid)
{
    struct ofi_domain *domain = container_of(fid, struct ofi_domain, domain_fid.fid);

    if (ofi_held(&domain->refs))
        return -FI_EBUSY;
    ofi_work_free(domain);
    ofi_lock_destroy(&domain->lock);
    fabemu_detach(domain->fab);
    ofi_release(&domain->fabric->refs);
    free(domain);
    return 0;
}

static int domain_control(struct fid *fid, int command, void *arg)
{
    return ofi_work_control(container_of(fid, struct ofi_domain, domain_fid.fid), command, arg);
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = ofi_no_bind,
    .control = domain_control,
    .ops_open = ofi_no_ops_open,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = ofi_av_open,
    .cq_open = ofi_cq_open,
    .endpoint = ofi_ep_open,
    .scalable_ep = ofi_sep_open,
    .cntr_open = ofi_cntr_open,
    .poll_open = ofi_poll_set_open,
    .stx_ctx = ofi_stx_open,
    .srx_ctx = ofi_srx_open,
    .query_atomic = ofi_atomic_query,
    .query_collective = ofi_coll_query,
};

static int domain_open(struct fid_fabric *fabric_fid, struct fi_info *info, struct fid_domain **ret,
                       void *context)
{
    struct ofi_fabric *fabric = container_of(fabric_fid, struct ofi_fabric, fabric_fid);
    struct ofi_domain *domain;
    int mr_mode, err;

    if (!info || !ret)
        return -FI_EINVAL;
    if (info->domain_attr && info->domain_attr->name &&
        strcmp(info->domain_attr->name, ofi_prov.name) != 0)
        return -FI_EINVAL;
    if (ofi_addr_format(info->addr_format) == FI_FORMAT_UNSPEC)
        return -FI_EINVAL;
    if (info->domain_attr && ofi_tclass(info->domain_attr->tclass) < 0)
        return -FI_EINVAL;
    domain = calloc(1, sizeof *domain);
    if (!domain)
        return -FI_ENOMEM;
    mr_mode = info->domain_attr ? info->domain_attr->mr_mode : FI_MR_PROV_KEY;
    err = fabemu_attach(&domain->fab, NULL);
    if (err) {
        ofi_report("%s", fabemu_error());
        goto free_domain;
    }
    if (info->domain_attr)
        ofi_tclass_set(domain, info->domain_attr->tclass);
    domain->fabric = fabric;
    domain->serial = info->domain_attr && info->domain_attr->threading == FI_THREAD_DOMAIN;
    domain->by_address = mr_mode & (OFI_MR_BASIC | FI_MR_VIRT_ADDR);
    domain->enables_regions = mr_mode & FI_MR_RMA_EVENT;
    domain->chosen_keys = !(mr_mode & (OFI_MR_BASIC | FI_MR_PROV_KEY));
    domain->cq_data = !info->domain_attr || info->domain_attr->cq_data_size;
    ofi_lock_init(&domain->lock, domain);
    domain->addr_format = ofi_addr_format(info->addr_format);
    domain->fabric_hash = ofi_addr_hash(fabemu_info(domain->fab));
    ofi_fid_init(&domain->domain_fid.fid, FI_CLASS_DOMAIN, context, &domain_fid_ops);
    domain->domain_fid.ops = &domain_ops;
    domain->domain_fid.mr = &ofi_mr_ops;
    ofi_hold(&fabric->refs);
    *ret = &domain->domain_fid;
    return 0;

free_domain:
    free(domain);
    return -ofi_errno(err);
}

/* --- fabrics ------------------------------------------------------------------------ */

static int fabric_close(struct fid *fid)
{
    struct ofi_fabric *fabric = container_of(fid, struct ofi_fabric, fabric_fid.fid);

    if (ofi_held(&fabric->refs))
        return -FI_EBUSY;
    pthread_mutex_destroy(&fabric->request_lock);
    free(fabric);
    return 0;
}

static struct fi_ops fabric_fid_ops = OFI_FID_OPS(fabric_close);

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = domain_open,
    .passive_ep = ofi_pep_open,
    .eq_open = ofi_eq_open,
    .wait_open = ofi_wait_set_open,
    .trywait = ofi_trywait,
};

int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret, void *context)
{
    if (!attr || !ret)
        return -FI_EINVAL;
    if (attr->name && strcmp(attr->name, ofi_prov.name) != 0)
        return -FI_ENODATA;
    struct ofi_fabric *fabric = calloc(1, sizeof *fabric);

    if (!fabric)
        return -FI_ENOMEM;
    ofi_fid_init(&fabric->fabric_fid.fid, FI_CLASS_FABRIC, context, &fabric_fid_ops);
    fabric->fabric_fid.ops = &fabric_ops;
    pthread_mutex_init(&fabric->request_lock, NULL);
    fabric->fabric_fid.api_version = attr->api_version;
    *ret = &fabric->fabric_fid;
    return 0;
}
