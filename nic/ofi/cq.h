/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues and counters */
#ifndef NIC_OFI_CQ_H
#define NIC_OFI_CQ_H

#include <stdalign.h>

#include "nic/ofi/addr.h"
#include "nic/ofi/source.h"

/* after so many reads in a row that found nothing, each further read calls fabemu_idle() */
#define OFI_POLLS_BEFORE_IDLE 4

struct ofi_ep;

/* A lock-free stack; any thread may push. */
struct ofi_stack {
    _Atomic(struct ofi_op *) top;
};

/*
 * A counter is an event of the adapter that also counts failures. So the adapter itself can start
 * operations that wait for the counter. Endpoints and regions that count in it, and operations that
 * wait for it, hold a reference each (source.refs).
 */
struct ofi_cntr {
    struct fid_cntr cntr_fid;
    struct ofi_domain *domain;
    struct ofi_source source;
    /* count: operations that succeeded; failures: operations that failed */
    struct fabemu_event event;
    _Atomic uint64_t seen; /* sum of both when the program last read the counter */
};

struct ofi_cq {
    struct fid_cq cq_fid;
    struct ofi_domain *domain;
    struct ofi_source source;
    size_t entry_bytes;     /* size of an entry in the requested format */
    _Atomic unsigned empty; /* reads in a row that found nothing; a lost update is harmless */
    /* fi_cq_signal() was called, so the next fi_cq_sread() returns at once */
    _Atomic bool signalled;
    /* completed operations, newest first; callbacks push, readers take all at once */
    struct ofi_stack arrived;

    struct ofi_lock lock;  /* taken by threads that read entries; protects oldest and newest */
    struct ofi_op *oldest; /* operations taken from arrived, in the order of arrival */
    struct ofi_op *newest;

    /* text of the last error that was read, for fi_cq_strerror() */
    char why[96];
    int why_of; /* prov_errno of that error */
    /* err_data of the last error, if the caller gave no buffer: the address of the sender */
    alignas(struct ofi_addr) char err_data[OFI_ADDR_TEXT_BYTES];
};

/* cq.c */
int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                void *context);

/** ofi_cq_forget - drop the entries of an endpoint that is being closed. */
void ofi_cq_forget(struct ofi_cq *cq, struct ofi_ep *ep);

/** ofi_cq_poll_missed - count a poll that found nothing; after a few in a row, yield the core. */
void ofi_cq_poll_missed(struct ofi_cq *cq);

/* cntr.c */
int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                  void *context);

/** ofi_cntr_of - find the counter. NULL: @cntr is NULL, or not a counter of this domain. */
struct ofi_cntr *ofi_cntr_of(const struct ofi_domain *domain, struct fid_cntr *cntr);

/** ofi_cntr_bind - let *@slot, which must be NULL, refer to the counter. Errors: -FI_EINVAL. */
int ofi_cntr_bind(const struct ofi_domain *domain, struct fid *cntr, struct ofi_cntr **slot);
void ofi_cntr_unbind(struct ofi_cntr **slot);

#endif
