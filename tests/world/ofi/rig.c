/* SPDX-License-Identifier: BSD-3-Clause */
/* rig.c - see rig.h. */
#include "tests/world/ofi/rig.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"

bool rig_is_serial(void)
{
    return getenv("FABEMU_TEST_SERIAL") != NULL;
}

struct fi_info *rig_hints(uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo();

    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("fabemu");
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = rig_is_serial() ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->cq_data_size = 4;
    hints->domain_attr->mr_mode = caps & (FI_RMA | FI_ATOMIC) ? FI_MR_PROV_KEY : 0;
    return hints;
}

int rig_info(const struct fi_info *hints, struct fi_info **info)
{
    *info = NULL;
    return fi_getinfo(RIG_VERSION, NULL, NULL, 0, hints, info);
}

bool rig_end_open(struct rig *rig, struct rig_end *end, const struct rig_config *config)
{
    struct fi_cq_attr cq = {.format = config->format, .wait_obj = config->wait_obj};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    size_t bytes = sizeof end->name;
    bool good = !fi_cq_open(rig->domain, &cq, &end->cq, NULL) &&
                !fi_endpoint(rig->domain, rig->info, &end->ep, NULL) &&
                !fi_ep_bind(end->ep, &rig->av->fid, 0) &&
                !fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | config->bind_flags) &&
                !fi_ep_bind(end->ep, &end->cq->fid, FI_RECV | config->bind_flags);

    if (good && config->counters)
        good = !fi_cntr_open(rig->domain, &cntr, &end->sent, NULL) &&
               !fi_cntr_open(rig->domain, &cntr, &end->received, NULL) &&
               !fi_ep_bind(end->ep, &end->sent->fid, FI_SEND) &&
               !fi_ep_bind(end->ep, &end->received->fid, FI_RECV);
    return good && !fi_enable(end->ep) && !fi_getname(&end->ep->fid, end->name, &bytes) &&
           bytes == RIG_ADDR_BYTES && fi_av_insert(rig->av, end->name, 1, &end->addr, 0, NULL) == 1;
}

bool rig_try_open(struct rig *rig, const struct rig_config *config)
{
    struct fi_info *hints = rig_hints(config->caps);
    struct fi_av_attr av = {.type = FI_AV_MAP};

    hints->tx_attr->op_flags = config->op_flags;
    if (config->mr_mode)
        hints->domain_attr->mr_mode = config->mr_mode;
    *rig = (struct rig){0};
    if (fi_getinfo(config->version ? config->version : RIG_VERSION, NULL, NULL, 0, hints,
                   &rig->info)) {
        fi_freeinfo(hints);
        return false;
    }
    if (config->no_cq_data)
        rig->info->domain_attr->cq_data_size = 0;
    bool good = !fi_fabric(rig->info->fabric_attr, &rig->fabric, NULL) &&
                !fi_domain(rig->fabric, rig->info, &rig->domain, NULL) &&
                !fi_av_open(rig->domain, &av, &rig->av, NULL) &&
                rig_end_open(rig, &rig->a, config) && rig_end_open(rig, &rig->b, config);

    fi_freeinfo(hints);
    return good;
}

struct rig rig_open_with(const struct rig_config *config)
{
    struct rig rig;

    CU_ASSERT_FATAL(rig_try_open(&rig, config));
    return rig;
}

const struct rig_config rig_plain = {.caps = RIG_CAPS_ALL, .format = FI_CQ_FORMAT_TAGGED};

struct rig rig_open(void)
{
    return rig_open_with(&rig_plain);
}

bool rig_end_close(struct rig_end *end)
{
    return !fi_close(&end->ep->fid) && !fi_close(&end->cq->fid) &&
           (!end->sent || (!fi_close(&end->sent->fid) && !fi_close(&end->received->fid)));
}

bool rig_try_close(struct rig *rig)
{
    bool good = fi_close(&rig->domain->fid) == -FI_EBUSY && rig_end_close(&rig->a) &&
                rig_end_close(&rig->b) && !fi_close(&rig->av->fid) &&
                !fi_close(&rig->domain->fid) && !fi_close(&rig->fabric->fid);

    fi_freeinfo(rig->info);
    return good;
}

void rig_close(struct rig *rig)
{
    CU_ASSERT(rig_try_close(rig));
}

struct fid_mr *rig_window(struct rig *rig, void *addr, size_t bytes)
{
    struct fid_mr *mr = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_mr_reg(rig->domain, addr, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                                    0, 0, &mr, NULL),
                          0);
    return mr;
}

ssize_t rig_entry_wait(struct fid_cq *cq, void *entry, fi_addr_t *source)
{
    time_t until = time(NULL) + RIG_PATIENCE_S;
    ssize_t got;

    while ((got = fi_cq_readfrom(cq, entry, 1, source)) == -FI_EAGAIN)
        if (time(NULL) > until)
            return -FI_ETIMEDOUT;
    return got;
}

struct fi_cq_tagged_entry rig_entry(struct rig_end *end)
{
    struct fi_cq_tagged_entry entry = {0};

    CU_ASSERT_EQUAL(rig_entry_wait(end->cq, &entry, NULL), 1);
    return entry;
}

struct fi_cq_err_entry rig_error(struct rig_end *end)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    CU_ASSERT_EQUAL(rig_entry_wait(end->cq, &entry, NULL), -FI_EAVAIL);
    CU_ASSERT_EQUAL(fi_cq_readerr(end->cq, &error, 0), 1);
    return error;
}

bool rig_quiet(struct rig_end *end)
{
    struct fi_cq_tagged_entry entry;
    bool none = true;

    for (int i = 0; i < 200 && none; i++)
        none = fi_cq_read(end->cq, &entry, 1) == -FI_EAGAIN;
    return none;
}

int rig_inject(struct rig_end *from, const void *buf, size_t bytes, uint64_t data, fi_addr_t to,
               uint64_t tag)
{
    struct fi_cq_tagged_entry none;
    ssize_t err;

    while ((err = fi_tinjectdata(from->ep, buf, bytes, data, to, tag)) == -FI_EAGAIN)
        fi_cq_read(from->cq, &none, 0);
    return (int)err;
}
