/* SPDX-License-Identifier: BSD-3-Clause */
/* domain.c - fi_domain(): attaches the process to its node of the fabric */
#include "nic/ofi/no.h"

#include <stdlib.h>
#include <string.h>

static int domain_close(struct fid *fid)
{
    struct ofi_domain *domain = container_of(fid, struct ofi_domain, domain_fid.fid);

    if (ofi_held(&domain->refs))
        return -FI_EBUSY;
    fabemu_detach(domain->fab);
    ofi_release(&domain->fabric->refs);
    free(domain);
    return 0;
}

static struct fi_ops domain_fid_ops = OFI_FID_OPS(domain_close);

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = ofi_av_open,
    .cq_open = ofi_cq_open,
    .endpoint = ofi_ep_open,
    .scalable_ep = ofi_no_scalable_ep,
    .cntr_open = ofi_cntr_open,
    .poll_open = ofi_no_poll_open,
    .stx_ctx = ofi_no_stx_ctx,
    .srx_ctx = ofi_no_srx_ctx,
    .query_atomic = ofi_atomic_query,
    .query_collective = ofi_no_collective,
};

int ofi_domain_open(struct fid_fabric *fabric_fid, struct fi_info *info, struct fid_domain **ret,
                    void *context)
{
    struct ofi_fabric *fabric = container_of(fabric_fid, struct ofi_fabric, fabric_fid);
    struct ofi_domain *domain;
    int err;

    if (info->domain_attr && info->domain_attr->name &&
        strcmp(info->domain_attr->name, OFI_NAME) != 0)
        return -FI_EINVAL;
    domain = calloc(1, sizeof *domain);
    if (!domain)
        return -FI_ENOMEM;
    err = fabemu_attach(&domain->fab, NULL);
    if (err) {
        ofi_tell("%s", fabemu_error());
        goto free_domain;
    }
    domain->fabric = fabric;
    domain->serial = info->domain_attr && info->domain_attr->threading == FI_THREAD_DOMAIN;
    domain->by_address = info->domain_attr && info->domain_attr->mr_mode == OFI_MR_BASIC;
    domain->cq_data = !info->domain_attr || info->domain_attr->cq_data_size;
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
