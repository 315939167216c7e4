/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_misuse_test.c - random calls on random objects of the libfabric provider, by one thread and
 * by several: wrong flags and addresses, objects that are closed while they are in use, endpoints
 * that lack what they need. Each call must return, and at the end each object can be closed.
 *
 * Needs a fabric: `fabemu run --bound drain=20ms -- build/tests/…`. All objects are of this
 * process. Threads share the domain, the address vector, the event queue and two shared contexts.
 * All other objects belong to one thread, because a program must not close an object that a thread
 * uses.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define CAPS                                                                                  \
    (OFI_FIXTURE_CAPS_ALL | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_MULTI_RECV | FI_COLLECTIVE | \
     FI_NAMED_RX_CTX)
#define CALLS         6000u
#define THREADS       3u
#define MOST          64u /* objects of a thread */
#define CONTEXTS      32u /* contexts of operations, and requests for deferred work */
#define BYTES         20000u
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* The object whose first field is @fid. The headers of libfabric 2 have no container_of(). */
#define OBJECT(fid, type) ((struct type *)(void *)(fid))

/* In the order in which objects can be closed. */
enum kind { MC, SET, TX, RX, SEP, EP, SRX, STX, MR, CQ, CNTR, AV, KINDS };
#define IS(kind)  (1u << (kind))
#define ENDPOINTS (IS(EP) | IS(TX) | IS(RX) | IS(SEP) | IS(SRX))

/* Objects that all threads use. */
struct shared {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_eq *eq;
    struct fid_stx *stx;
    struct fid_ep *srx;
};

struct thing {
    enum kind kind;
    struct fid *fid;
};

struct misuser {
    struct shared *shared;
    uint64_t random;
    struct thing thing[MOST];
    unsigned count;
    unsigned done; /* calls that were not refused */
    struct fi_triggered_context2 context[CONTEXTS];
    struct fi_deferred_work work[CONTEXTS];
    union {
        struct fi_op_msg msg;
        struct fi_op_tagged tagged;
        struct fi_op_rma rma;
        struct fi_op_cntr cntr;
    } op[CONTEXTS];
};

/* Operations of all threads read and write the same bytes; nothing checks them. */
static unsigned char in[BYTES], out[BYTES], window[BYTES];

static uint64_t draw(struct misuser *m, uint64_t below)
{
    return test_draw(&m->random, 0, below - 1);
}

static bool rarely(struct misuser *m)
{
    return draw(m, 8) == 0;
}

/* --- random arguments --------------------------------------------------------------- */

static uint64_t draw_flags(struct misuser *m)
{
    static const uint64_t bits[] = {
        FI_COMPLETION,
        FI_INJECT,
        FI_INJECT_COMPLETE,
        FI_TRANSMIT_COMPLETE,
        FI_DELIVERY_COMPLETE,
        FI_MATCH_COMPLETE,
        FI_FENCE,
        FI_MORE,
        FI_REMOTE_CQ_DATA,
        FI_MULTI_RECV,
        FI_PEEK,
        FI_CLAIM,
        FI_DISCARD,
        FI_TRIGGER,
        FI_SEND,
        FI_RECV,
        FI_READ,
        FI_WRITE,
        FI_REMOTE_READ,
        FI_REMOTE_WRITE,
        FI_TRANSMIT,
        FI_SELECTIVE_COMPLETION,
        FI_COLLECTIVE,
        FI_UNIVERSE,
        UINT64_C(1) << 62,
    };
    uint64_t flags = 0;

    for (uint64_t n = draw(m, 2) ? draw(m, 4) : 0; n; n--)
        flags |= bits[draw(m, LENGTH(bits))];
    return flags;
}

static struct fid *pick(struct misuser *m, unsigned kinds)
{
    for (unsigned tries = 0; m->count && tries < 8; tries++) {
        const struct thing *thing = &m->thing[draw(m, m->count)];

        if (kinds & IS(thing->kind))
            return thing->fid;
    }
    return NULL;
}

static struct fid_ep *pick_ep(struct misuser *m, unsigned kinds)
{
    struct fid *fid = pick(m, kinds);

    return fid ? OBJECT(fid, fid_ep) : NULL;
}

static struct fid_cntr *pick_cntr(struct misuser *m)
{
    struct fid *fid = pick(m, IS(CNTR));

    return fid ? OBJECT(fid, fid_cntr) : NULL;
}

static fi_addr_t draw_addr(struct misuser *m)
{
    static const fi_addr_t odd[] = {FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL - 1, 1u << 20,
                                    (fi_addr_t)1 << 62, (fi_addr_t)1 << 62 | 1};

    return rarely(m) ? odd[draw(m, LENGTH(odd))] : draw(m, 24);
}

static size_t draw_bytes(struct misuser *m)
{
    static const size_t most[] = {1, 200, 5000, BYTES};

    return draw(m, most[draw(m, LENGTH(most))] + 1);
}

static void *draw_context(struct misuser *m)
{
    struct fi_triggered_context2 *context = &m->context[draw(m, CONTEXTS)];

    if (rarely(m))
        return NULL;
    context->event_type = rarely(m) ? (enum fi_trigger_event)7 : FI_TRIGGER_THRESHOLD;
    context->trigger.threshold.cntr = pick_cntr(m);
    context->trigger.threshold.threshold = draw(m, 4);
    return context;
}

static void add(struct misuser *m, enum kind kind, struct fid *fid, int err)
{
    CU_ASSERT_FATAL(err <= 0 && err > -FI_ERRNO_MAX);
    if (err)
        return;
    if (m->count == MOST) { /* nobody uses it yet */
        CU_ASSERT_EQUAL(fi_close(fid), 0);
        return;
    }
    m->thing[m->count++] = (struct thing){.kind = kind, .fid = fid};
}

static void refused_or_done(struct misuser *m, ssize_t err)
{
    CU_ASSERT_FATAL(err <= 0 && err > -FI_ERRNO_MAX);
    m->done += !err;
}

/* --- open, bind, enable, close ------------------------------------------------------ */

static void open_source(struct misuser *m)
{
    struct fi_cq_attr cq = {.format = (enum fi_cq_format)draw(m, 6),
                            .wait_obj = (enum fi_wait_obj)draw(m, 7)};
    struct fi_cntr_attr cntr = {.wait_obj = (enum fi_wait_obj)draw(m, 7)};
    struct fid_cq *queue = NULL;
    struct fid_cntr *counter = NULL;

    if (cq.wait_obj == FI_WAIT_SET || cntr.wait_obj == FI_WAIT_SET)
        return; /* needs a set */
    int err = fi_cq_open(m->shared->domain, &cq, &queue, NULL);

    add(m, CQ, queue ? &queue->fid : NULL, err);
    err = fi_cntr_open(m->shared->domain, &cntr, &counter, NULL);
    add(m, CNTR, counter ? &counter->fid : NULL, err);
}

static void open_vector(struct misuser *m)
{
    struct fi_av_attr attr = {.type = (enum fi_av_type)draw(m, 4),
                              .rx_ctx_bits = (int)draw(m, 3),
                              .count = draw(m, 100),
                              .flags = rarely(m) ? draw_flags(m) : 0};
    struct fi_av_set_attr set_attr = {.start_addr = draw(m, 4),
                                      .end_addr = draw(m, 8),
                                      .stride = draw(m, 3),
                                      .count = draw(m, 3),
                                      .flags = rarely(m) ? draw_flags(m) : 0};
    struct fid_av_set *set = NULL;
    struct fid_av *av = NULL;
    int err = rarely(m) ? fi_av_open(m->shared->domain, &attr, &av, NULL) : -FI_EAGAIN;

    add(m, AV, av ? &av->fid : NULL, err);
    if (draw(m, 2))
        set_attr.start_addr = set_attr.end_addr = FI_ADDR_NOTAVAIL;
    err = fi_av_set(m->shared->av, &set_attr, &set, NULL);
    add(m, SET, set ? &set->fid : NULL, err);
}

static void open_endpoint(struct misuser *m)
{
    struct fi_info *info = fi_dupinfo(m->shared->info);
    bool scalable = rarely(m);
    struct fid_ep *ep = NULL;
    int err;

    if (draw(m, 2))
        info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
    if (draw(m, 2))
        info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    if (scalable)
        info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = draw(m, 4);
    if (rarely(m))
        info->tx_attr->op_flags = draw_flags(m);
    if (rarely(m))
        info->caps &= ~draw_flags(m);
    err = scalable ? fi_scalable_ep(m->shared->domain, info, &ep, NULL)
                   : fi_endpoint(m->shared->domain, info, &ep, NULL);
    add(m, scalable ? SEP : EP, ep ? &ep->fid : NULL, err);
    fi_freeinfo(info);
}

static void open_context(struct misuser *m)
{
    struct fid_ep *sep = pick_ep(m, IS(SEP)), *ep = NULL;
    struct fid_stx *stx = NULL;
    int err;

    if (sep) {
        bool sends = draw(m, 2);
        int index = (int)draw(m, 5) - 1;

        err = sends ? fi_tx_context(sep, index, NULL, &ep, NULL)
                    : fi_rx_context(sep, index, NULL, &ep, NULL);
        add(m, sends ? TX : RX, ep ? &ep->fid : NULL, err);
    } else if (rarely(m)) {
        err = fi_srx_context(m->shared->domain, m->shared->info->rx_attr, &ep, NULL);
        add(m, SRX, ep ? &ep->fid : NULL, err);
        err = fi_stx_context(m->shared->domain, m->shared->info->tx_attr, &stx, NULL);
        add(m, STX, stx ? &stx->fid : NULL, err);
    }
}

static void open_region(struct misuser *m)
{
    size_t at = draw(m, BYTES), bytes = draw(m, BYTES - at) + 1;
    struct fid_mr *mr = NULL;
    int err = fi_mr_reg(m->shared->domain, window + at, bytes,
                        rarely(m) ? draw_flags(m) : FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0,
                        rarely(m) ? draw_flags(m) : 0, &mr, NULL);

    add(m, MR, mr ? &mr->fid : NULL, err);
}

/* Bind everything that an endpoint may need, or something that may not fit. */
static void bind_some(struct misuser *m)
{
    struct fid_ep *ep = pick_ep(m, ENDPOINTS);
    struct fid *all[] = {
        &m->shared->av->fid, &m->shared->eq->fid, &m->shared->stx->fid, &m->shared->srx->fid,
        pick(m, IS(CQ)),     pick(m, IS(CNTR)),   pick(m, ~0u),         pick(m, IS(SRX) | IS(STX)),
    };

    if (!ep)
        return;
    for (unsigned i = 0; i < LENGTH(all); i++)
        if (all[i] && !rarely(m))
            refused_or_done(m, fi_ep_bind(ep, all[i],
                                          rarely(m) ? draw_flags(m)
                                          : i == 4  ? FI_TRANSMIT | FI_RECV
                                          : i == 5  ? FI_SEND | FI_REMOTE_WRITE
                                                    : 0));
}

static void enable(struct misuser *m)
{
    struct fid_ep *ep = pick_ep(m, ENDPOINTS);
    char name[OFI_FIXTURE_ADDR_BYTES];
    size_t bytes = sizeof name;
    fi_addr_t addr;

    if (!ep)
        return;
    refused_or_done(m, fi_enable(ep));
    if (!fi_getname(&ep->fid, name, &bytes) && draw(m, 2))
        CU_ASSERT_TRUE(fi_av_insert(m->shared->av, name, 1, &addr, 0, NULL) <= 1);
}

static void close_one(struct misuser *m)
{
    unsigned at = m->count ? (unsigned)draw(m, m->count) : 0;

    if (!m->count || (m->count < MOST / 2 && draw(m, 3)))
        return;
    int err = fi_close(m->thing[at].fid);

    CU_ASSERT_FATAL(!err || err == -FI_EBUSY);
    if (!err)
        m->thing[at] = m->thing[--m->count];
}

/* --- addresses ---------------------------------------------------------------------- */

static void change_vector(struct misuser *m)
{
    uint64_t garbage[3] = {draw(m, 1u << 20), draw(m, 1u << 20), draw(m, 3)};
    char text[8], name[OFI_FIXTURE_ADDR_BYTES];
    size_t bytes = draw(m, sizeof name + 1);
    fi_addr_t addr = draw_addr(m);
    struct fid *set = pick(m, IS(SET));

    CU_ASSERT_TRUE(
        fi_av_insert(m->shared->av, garbage, 1, &addr, rarely(m) ? draw_flags(m) : 0, NULL) <= 1);
    addr = draw_addr(m);
    if (rarely(m))
        refused_or_done(m, fi_av_remove(m->shared->av, &addr, 1, 0));
    refused_or_done(m, fi_av_lookup(m->shared->av, draw_addr(m), name, &bytes));
    bytes = draw(m, sizeof text + 1);
    fi_av_straddr(m->shared->av, garbage, text, &bytes);
    if (!set)
        return;
    struct fid_av_set *of = OBJECT(set, fid_av_set);

    refused_or_done(m, draw(m, 2) ? fi_av_set_insert(of, draw_addr(m))
                                  : fi_av_set_remove(of, draw_addr(m)));
    set = pick(m, IS(SET));
    if (set)
        refused_or_done(m, fi_av_set_union(of, OBJECT(set, fid_av_set)));
}

/* --- transfers ---------------------------------------------------------------------- */

static void send_some(struct misuser *m)
{
    struct iovec iov[5];
    struct fi_msg msg = {.msg_iov = iov,
                         .iov_count = draw(m, 6),
                         .addr = draw_addr(m),
                         .context = draw_context(m),
                         .data = draw(m, 99)};
    struct fi_msg_tagged tagged = {.msg_iov = iov,
                                   .iov_count = msg.iov_count,
                                   .addr = msg.addr,
                                   .context = msg.context,
                                   .tag = draw(m, 4),
                                   .data = msg.data};
    struct fid_ep *ep = pick_ep(m, ENDPOINTS);

    if (!ep)
        return;
    for (unsigned i = 0; i < LENGTH(iov); i++)
        iov[i] = (struct iovec){.iov_base = out, .iov_len = draw_bytes(m)};
    switch (draw(m, 5)) {
    case 0:
        refused_or_done(m, fi_sendmsg(ep, &msg, draw_flags(m)));
        break;
    case 1:
        refused_or_done(m, fi_tsendmsg(ep, &tagged, draw_flags(m)));
        break;
    case 2:
        refused_or_done(m, fi_tinject(ep, out, draw_bytes(m), msg.addr, tagged.tag));
        break;
    case 3:
        refused_or_done(m, fi_senddata(ep, out, iov[0].iov_len, NULL, 7, msg.addr, msg.context));
        break;
    default:
        refused_or_done(m,
                        fi_tsend(ep, out, iov[0].iov_len, NULL, msg.addr, tagged.tag, msg.context));
    }
}

static void receive_some(struct misuser *m)
{
    struct iovec iov = {.iov_base = in, .iov_len = draw_bytes(m)};
    struct fi_msg msg = {.msg_iov = &iov,
                         .iov_count = 1,
                         .addr = draw(m, 2) ? FI_ADDR_UNSPEC : draw_addr(m),
                         .context = draw_context(m)};
    struct fi_msg_tagged tagged = {.msg_iov = &iov,
                                   .iov_count = 1,
                                   .addr = msg.addr,
                                   .context = msg.context,
                                   .tag = draw(m, 4),
                                   .ignore = draw(m, 4)};
    struct fid_ep *ep = rarely(m) ? m->shared->srx : pick_ep(m, ENDPOINTS);
    size_t least = draw_bytes(m);

    if (!ep)
        return;
    if (draw(m, 2))
        refused_or_done(m, fi_recvmsg(ep, &msg, draw_flags(m)));
    else
        refused_or_done(m, fi_trecvmsg(ep, &tagged, draw_flags(m)));
    if (rarely(m))
        refused_or_done(m, fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
                                     draw(m, 2) ? sizeof least : 3));
    if (draw(m, 2))
        refused_or_done(m, fi_cancel(&ep->fid, draw_context(m)));
}

static uint64_t draw_key(struct misuser *m)
{
    struct fid *mr = pick(m, IS(MR));

    return mr ? fi_mr_key(OBJECT(mr, fid_mr)) : draw(m, 1000);
}

static void access_some(struct misuser *m)
{
    struct iovec iov = {.iov_base = draw(m, 2) ? in : out, .iov_len = draw_bytes(m)};
    struct fi_rma_iov rma = {.addr = draw(m, BYTES), .len = iov.iov_len, .key = draw_key(m)};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = draw_addr(m),
                             .rma_iov = &rma,
                             .rma_iov_count = 1,
                             .context = draw_context(m)};
    struct fid_ep *ep = pick_ep(m, ENDPOINTS);

    if (!ep)
        return;
    if (rarely(m))
        rma.len++;
    switch (draw(m, 4)) {
    case 0:
        refused_or_done(m, fi_writemsg(ep, &msg, draw_flags(m)));
        break;
    case 1:
        iov.iov_base = in;
        refused_or_done(m, fi_readmsg(ep, &msg, draw_flags(m)));
        break;
    case 2:
        refused_or_done(m, fi_inject_write(ep, out, draw_bytes(m), msg.addr, rma.addr, rma.key));
        break;
    default:
        refused_or_done(m,
                        fi_inject_atomic(ep, out, 1, msg.addr, rma.addr, rma.key,
                                         (enum fi_datatype)draw(m, 20), (enum fi_op)draw(m, 22)));
    }
}

static void collect(struct misuser *m)
{
    struct fid_ep *ep = pick_ep(m, ENDPOINTS);
    struct fid *set = pick(m, IS(SET)), *mc = pick(m, IS(MC));
    fi_addr_t addr = mc && !rarely(m) ? fi_mc_addr(OBJECT(mc, fid_mc)) : draw_addr(m);
    struct fid_mc *joined = NULL;
    int err;

    if (!ep)
        return;
    if (set && draw(m, 2)) {
        err = fi_join_collective(ep, rarely(m) ? addr : (fi_addr_t)1 << 62, OBJECT(set, fid_av_set),
                                 rarely(m) ? draw_flags(m) : 0, &joined, NULL);
        add(m, MC, joined ? &joined->fid : NULL, err);
    }
    if (draw(m, 2))
        refused_or_done(m, fi_barrier2(ep, addr, draw_flags(m), draw_context(m)));
    else
        refused_or_done(m, fi_allreduce(ep, out, draw(m, 20), NULL, in, NULL, addr,
                                        (enum fi_datatype)draw(m, 20), (enum fi_op)draw(m, 22), 0,
                                        draw_context(m)));
}

/* --- counters and deferred work ----------------------------------------------------- */

static void queue_work(struct misuser *m)
{
    unsigned at = (unsigned)draw(m, CONTEXTS);
    struct fi_deferred_work *work = &m->work[at];
    static struct iovec iov = {.iov_base = out, .iov_len = 100};
    struct fid_ep *ep = pick_ep(m, ENDPOINTS);

    refused_or_done(m, fi_control(&m->shared->domain->fid, FI_CANCEL_WORK, work));
    *work = (struct fi_deferred_work){.threshold = draw(m, 4),
                                      .triggering_cntr = pick_cntr(m),
                                      .completion_cntr = pick_cntr(m),
                                      .op_type = (enum fi_op_type)draw(m, 12)};
    memset(&m->op[at], 0, sizeof m->op[at]);
    if (work->op_type == FI_OP_TSEND) {
        m->op[at].tagged = (struct fi_op_tagged){
            .ep = ep, .msg = {.msg_iov = &iov, .iov_count = 1, .addr = draw_addr(m), .tag = 1}};
        work->op.tagged = &m->op[at].tagged;
    } else if (work->op_type == FI_OP_CNTR_SET || work->op_type == FI_OP_CNTR_ADD) {
        m->op[at].cntr = (struct fi_op_cntr){.cntr = pick_cntr(m), .value = draw(m, 4)};
        work->op.cntr = &m->op[at].cntr;
    } else if (work->op_type == FI_OP_SEND) {
        m->op[at].msg =
            (struct fi_op_msg){.ep = ep,
                               .msg = {.msg_iov = &iov, .iov_count = 1, .addr = draw_addr(m)},
                               .flags = draw_flags(m)};
        work->op.msg = &m->op[at].msg;
    }
    refused_or_done(m, fi_control(&m->shared->domain->fid, FI_QUEUE_WORK, work));
    if (rarely(m))
        refused_or_done(m, fi_control(&m->shared->domain->fid, FI_FLUSH_WORK, NULL));
}

static void use_counter(struct misuser *m)
{
    struct fid_cntr *cntr = pick_cntr(m);

    if (!cntr)
        return;
    refused_or_done(m, draw(m, 2) ? fi_cntr_add(cntr, draw(m, 3)) : fi_cntr_set(cntr, draw(m, 3)));
    refused_or_done(m, fi_cntr_wait(cntr, draw(m, 4), 0));
    if (rarely(m))
        refused_or_done(m, fi_cntr_adderr(cntr, 1));
}

static void set_flags(struct misuser *m)
{
    struct fid_ep *ep = pick_ep(m, ENDPOINTS), *alias = NULL;
    uint64_t flags = draw_flags(m);

    if (!ep)
        return;
    refused_or_done(m, fi_control(&ep->fid, draw(m, 2) ? FI_GETOPSFLAG : FI_SETOPSFLAG, &flags));
    int err = fi_ep_alias(ep, &alias, draw_flags(m));

    refused_or_done(m, err);
    if (!err) {
        refused_or_done(m, fi_tinject(alias, out, 8, draw_addr(m), 1));
        CU_ASSERT_EQUAL(fi_close(&ep->fid), -FI_EBUSY);
        CU_ASSERT_EQUAL(fi_close(&alias->fid), 0);
    }
}

/* --- completions -------------------------------------------------------------------- */

static void poll_some(struct misuser *m)
{
    struct fi_cq_tagged_entry entry[3];
    struct fi_cq_err_entry error = {0};
    struct fi_eq_err_entry failed = {0};
    struct fi_eq_entry event;
    uint32_t code;
    fi_addr_t source[3];
    struct fid *fid = pick(m, IS(CQ));

    if (fi_eq_read(m->shared->eq, &code, &event, sizeof event, 0) == -FI_EAVAIL)
        fi_eq_readerr(m->shared->eq, &failed, 0);
    if (!fid)
        return;
    struct fid_cq *cq = OBJECT(fid, fid_cq);
    ssize_t got = draw(m, 2) ? fi_cq_readfrom(cq, entry, draw(m, 4), source)
                             : fi_cq_sreadfrom(cq, entry, draw(m, 4), source, NULL, 0);

    CU_ASSERT_FATAL(got <= 3 && got > -FI_ERRNO_MAX);
    if (got == -FI_EAVAIL)
        CU_ASSERT_EQUAL(fi_cq_readerr(cq, &error, 0), 1);
    if (rarely(m))
        CU_ASSERT_EQUAL(fi_cq_signal(cq), 0);
}

/* --- a run -------------------------------------------------------------------------- */

static void (*const calls[])(struct misuser *m) = {
    open_source, open_vector, open_endpoint, open_context, open_region, bind_some,
    bind_some,   enable,      enable,        close_one,    close_one,   change_vector,
    send_some,   send_some,   receive_some,  receive_some, access_some, collect,
    queue_work,  use_counter, set_flags,     poll_some,    poll_some,   poll_some,
};

static void close_all(struct misuser *m)
{
    fi_control(&m->shared->domain->fid, FI_FLUSH_WORK, NULL);
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < m->count; i++)
            if (m->thing[i].kind == kind)
                CU_ASSERT_EQUAL(fi_close(m->thing[i].fid), 0);
}

static void *misuse(void *arg)
{
    struct misuser *m = arg;

    for (unsigned i = 0; i < TEST_TRIALS(CALLS); i++)
        calls[draw(m, LENGTH(calls))](m);
    CU_ASSERT_TRUE(m->done > TEST_TRIALS(CALLS) / 10); /* the objects are used, too */
    close_all(m);
    return NULL;
}

static void shared_open(struct shared *s)
{
    struct fi_info *hints = ofi_fixture_hints(CAPS);
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &s->info), 0);
    fi_freeinfo(hints);
    CU_ASSERT_EQUAL_FATAL(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_domain(s->fabric, s->info, &s->domain, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_open(s->domain, &av, &s->av, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_eq_open(s->fabric, &(struct fi_eq_attr){0}, &s->eq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_stx_context(s->domain, s->info->tx_attr, &s->stx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_srx_context(s->domain, s->info->rx_attr, &s->srx, NULL), 0);
    CU_ASSERT_EQUAL(fi_enable(s->srx), 0);
}

static void shared_close(struct shared *s)
{
    CU_ASSERT_EQUAL(fi_close(&s->srx->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&s->stx->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&s->eq->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&s->av->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&s->domain->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&s->fabric->fid), 0);
    fi_freeinfo(s->info);
}

static void misuse_by(unsigned threads)
{
    static struct misuser m[THREADS];
    pthread_t thread[THREADS];
    struct shared shared;

    shared_open(&shared);
    for (unsigned i = 0; i < threads; i++) {
        m[i] = (struct misuser){.shared = &shared, .random = test_seed() * THREADS + i};
        if (i)
            CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, misuse, &m[i]), 0);
    }
    misuse(&m[0]);
    for (unsigned i = 1; i < threads; i++)
        pthread_join(thread[i], NULL);
    shared_close(&shared);
}

static void calls__may_be_wrong(void)
{
    misuse_by(1);
}

static void calls__of_several_threads_may_be_wrong(void)
{
    if (!ofi_fixture_is_serial())
        misuse_by(THREADS);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(calls__may_be_wrong),
        CASE(calls__of_several_threads_may_be_wrong),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_misuse_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_misuse", cases);
}
