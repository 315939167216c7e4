/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rig.h - two endpoints of the libfabric provider in this process, each with a completion queue.
 *
 * A rig owns all that it opened. The provider steps itself when a queue is read; rig_close() looks
 * whether everything can be closed.
 */
#ifndef TESTS_WORLD_RIG_H
#define TESTS_WORLD_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#define RIG_VERSION    FI_VERSION(1, 5) /* as Open MPI */
#define RIG_ADDR_BYTES 24
#define RIG_PATIENCE_S 20

/* An endpoint with a completion queue of its own. */
struct rig_end {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_cntr *sent, *received; /* NULL unless asked for */
    char name[RIG_ADDR_BYTES];
    fi_addr_t addr; /* in the rig's vector */
};

/* One domain, two endpoints. */
struct rig {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct rig_end a, b;
};

struct rig_config {
    uint64_t caps;
    enum fi_cq_format format;
    enum fi_wait_obj wait_obj;
    uint64_t bind_flags; /* FI_SELECTIVE_COMPLETION */
    uint64_t op_flags;   /* of all that is sent */
    bool counters;
    uint32_t version; /* of libfabric's interface; 0: RIG_VERSION */
    int mr_mode;      /* 0: as rig_hints() says */
    bool no_cq_data;  /* the domain is opened with a cq_data_size of 0 */
};

#define RIG_CAPS_MPI (FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV)
#define RIG_CAPS_ALL (RIG_CAPS_MPI | FI_MSG | FI_SOURCE)

/** rig_is_serial - $FABEMU_TEST_SERIAL: what is opened is for one thread (FI_THREAD_DOMAIN). */
bool rig_is_serial(void);
/** rig_hints - what a program asks for; fi_freeinfo() ends it. */
struct fi_info *rig_hints(uint64_t caps);
/** rig_info - fi_getinfo() of them. */
int rig_info(const struct fi_info *hints, struct fi_info **info);

/* All capabilities, and tagged entries. */
extern const struct rig_config rig_plain;

/** rig_open_with - it can be opened; rig_open: as rig_plain says. */
struct rig rig_open_with(const struct rig_config *config);
struct rig rig_open(void);
void rig_close(struct rig *rig);

/** rig_window - memory that all may read and write; fi_close() ends it. */
struct fid_mr *rig_window(struct rig *rig, void *addr, size_t bytes);

/**
 * rig_try_open, rig_try_close - the same without assertions, for other processes. False: it failed.
 */
bool rig_try_open(struct rig *rig, const struct rig_config *config);
bool rig_try_close(struct rig *rig);

/** rig_end_open, rig_end_close - one more endpoint of the same domain. */
bool rig_end_open(struct rig *rig, struct rig_end *end, const struct rig_config *config);
bool rig_end_close(struct rig_end *end);

/**
 * rig_entry_wait - read until there is an entry or an error; -FI_ETIMEDOUT after RIG_PATIENCE_S.
 */
ssize_t rig_entry_wait(struct fid_cq *cq, void *entry, fi_addr_t *source);
/** rig_entry, rig_error - what comes next is a tagged entry, or an error. */
struct fi_cq_tagged_entry rig_entry(struct rig_end *end);
struct fi_cq_err_entry rig_error(struct rig_end *end);
/** rig_quiet - does nothing come, not even in a while of stepping? */
bool rig_quiet(struct rig_end *end);

/** rig_inject - again while it is refused: the fabric is busy, or the peer has not been met. */
int rig_inject(struct rig_end *from, const void *buf, size_t bytes, uint64_t data, fi_addr_t to,
               uint64_t tag);

#endif
