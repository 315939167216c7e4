/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_calls_test.c - each call of libfabric's interface (calls.def): used properly; with each
 * pointer NULL; with wrong objects, numbers and flags; on each kind of endpoint; on endpoints and
 * regions that close at once; and by several threads.
 *
 * Each call must return, with a result of its man page. After it has returned, its arguments are
 * freed. When an endpoint or a region has closed, its memory is freed. A build with
 * AddressSanitizer reports an access to any of these. At the end, each object can be closed.
 * ofi_hostile_test.c checks the data of wrong and hasty calls.
 *
 * Needs a fabric: `fabemu run --bound drain=20ms -- build/tests/…`.
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
#define WORDS         8u
#define SMALL         (WORDS * 8)
#define LONG          100000u /* bytes that take many steps */
#define THREADS       4u
#define TRIES         10000u /* of a call that returns -FI_EAGAIN */
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* Objects that all calls use. */
struct setup {
    struct ofi_fixture f; /* a is not used, b receives */
    struct ofi_fixture_endpoint own;
    struct fi_info *hints, *connected, *datagrams, *scalable;
    struct fid_cq *cq; /* idle, with a file descriptor */
    struct fid_cntr *cntr;
    struct fid_eq *eq, *idle_eq;
    struct fid_wait *wait;
    struct fid_poll *poll;
    struct fid_av_set *set, *empty_set;
    struct fid_mc *mc;
    struct fid_av *av; /* with FI_EVENT */
    fi_addr_t set_addr, group;
    struct fid_pep *pep;
    struct fid_stx *stx;
    /* endpoints that lack something */
    struct fid_ep *disabled, *unconnected, *datagram, *sep, *tx, *rx, *srx, *alias;
};

/* The arguments of one call; freed when it has returned. */
struct args {
    struct iovec iov[2], iov_in[2];
    struct fi_ioc ioc[1], ioc_in[1];
    struct fi_rma_iov rma_iov;
    struct fi_rma_ioc rma_ioc;
    struct fi_msg msg, msg_in;
    struct fi_msg_tagged tagged, tagged_in;
    struct fi_msg_rma rma, rma_in;
    struct fi_msg_atomic atomic, swap;
    struct fi_atomic_attr atomic_attr;
    struct fi_collective_attr coll_attr;
    struct fi_tx_attr tx_attr;
    struct fi_rx_attr rx_attr;
    struct fi_mr_attr mr_attr;
    struct fi_av_attr av_attr;
    struct fi_av_set_attr set_attr;
    struct fi_cq_attr cq_attr;
    struct fi_cntr_attr cntr_attr;
    struct fi_eq_attr eq_attr;
    struct fi_wait_attr wait_attr;
    struct fi_poll_attr poll_attr;
    struct fi_cq_err_entry cq_error;
    struct fi_eq_err_entry eq_error;
    struct fi_cq_tagged_entry entry[4];
    struct fid *objects[1];
    void *contexts[1];
    char name[OFI_FIXTURE_ADDR_BYTES], own[OFI_FIXTURE_ADDR_BYTES], text[64];
    uint8_t raw_key[8];
    uint64_t flags, any[32];
    fi_addr_t addr, no_addr;
    size_t bytes, text_bytes, option, option_bytes;
    uint32_t event;
};

/* Memory of the operations of an endpoint; freed when it has closed. */
struct load {
    uint64_t out[LONG / 8], in[LONG / 8];
    struct fi_triggered_context2 context;
    struct iovec iov;
    struct fi_op_tagged op;
    struct fi_deferred_work work;
};

/* One call. */
struct use {
    struct setup *w;
    struct args *args;
    struct load *load;
    struct fid_ep *ep;
    struct fid_mr *mr;
    fi_addr_t to;
    uint64_t key;
    size_t bytes;
    /* what the call gets instead of the proper arguments; -1: the proper ones */
    int null, wrong_value, wrong_object;
    bool wrong_flags;
    uint64_t value, flags;
    struct fid *object;
    /* what the call has */
    unsigned pointers; /* N() of each */
    int values, objects;
    bool has_flags;
    /* the object that the call has opened */
    union {
        struct fid *fid;
        struct fid_fabric *fabric;
        struct fid_domain *domain;
        struct fid_ep *ep;
        struct fid_pep *pep;
        struct fid_stx *stx;
        struct fid_av *av;
        struct fid_av_set *set;
        struct fid_mc *mc;
        struct fid_mr *mr;
        struct fid_cq *cq;
        struct fid_cntr *cntr;
        struct fid_eq *eq;
        struct fid_wait *wait;
        struct fid_poll *poll;
    } made;
    struct fi_info *info;
};

enum kind { PLAIN, STARTS, USES, OPENS };

struct call {
    const char *name;
    enum kind kind;
    ssize_t answer;
    unsigned optional;
    ssize_t (*run)(struct use *u);
};

static char nothing;
static struct fi_deferred_work no_work;

/* --- arguments ---------------------------------------------------------------------- */

/* Indexes of pointers inside of arguments. Calls may refuse NULL there, or ignore it. */
enum { INNER = 8, PIECES = INNER, BASE, REMOTE, CONTEXTS, COUNTER, POINTERS };

static void *pointer(struct use *u, int index, const void *proper)
{
    u->pointers |= 1u << index;
    return u->null == index ? NULL : (void *)proper;
}

static uint64_t value(struct use *u, uint64_t proper)
{
    return u->values++ == u->wrong_value ? u->value : proper;
}

static uint64_t flags(struct use *u, uint64_t proper)
{
    u->has_flags = true;
    return u->wrong_flags ? u->flags : proper;
}

static struct fid *object(struct use *u, struct fid *proper)
{
    return u->objects++ == u->wrong_object ? u->object : proper;
}

#define N(index)         (1u << (index))
#define ALL              (~0u)
#define P(index, proper) pointer(u, index, proper)
#define V(proper)        value(u, proper)
#define F(proper)        flags(u, proper)
#define H(proper)        object(u, proper)
#define W                (u->w)
#define A                (u->args)
#define EP               (u->ep)
#define OUT              (u->load->out)
#define IN               (u->load->in)
#define CONTEXT          (&u->load->context)

static void args_fill(struct use *u)
{
    struct args *a = u->args;
    struct iovec *iov = P(PIECES, a->iov), *iov_in = P(PIECES, a->iov_in);
    struct fi_ioc *ioc = P(PIECES, a->ioc);
    void *context = P(CONTEXTS, CONTEXT);

    a->iov[0] = (struct iovec){P(BASE, OUT), SMALL};
    a->iov[1] = (struct iovec){OUT + WORDS, u->bytes - SMALL};
    a->iov_in[0] = (struct iovec){P(BASE, IN), SMALL};
    a->iov_in[1] = (struct iovec){IN + WORDS, u->bytes - SMALL};
    a->ioc[0] = (struct fi_ioc){P(BASE, OUT), WORDS};
    a->ioc_in[0] = (struct fi_ioc){P(BASE, IN), WORDS};
    a->rma_iov = (struct fi_rma_iov){.len = u->bytes, .key = u->key};
    a->rma_ioc = (struct fi_rma_ioc){.count = WORDS, .key = u->key};
    a->msg = (struct fi_msg){
        .msg_iov = iov, .iov_count = 2, .addr = u->to, .context = context, .data = 7};
    a->msg_in = (struct fi_msg){.msg_iov = iov_in,
                                .iov_count = 2,
                                .addr = FI_ADDR_UNSPEC,
                                .context = context};
    a->tagged = (struct fi_msg_tagged){
        .msg_iov = iov, .iov_count = 2, .addr = u->to, .tag = 1, .context = context, .data = 7};
    a->tagged_in = (struct fi_msg_tagged){
        .msg_iov = iov_in, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .tag = 1, .context = context};
    a->rma = (struct fi_msg_rma){.msg_iov = iov,
                                 .iov_count = 2,
                                 .addr = u->to,
                                 .rma_iov = P(REMOTE, &a->rma_iov),
                                 .rma_iov_count = 1,
                                 .context = context,
                                 .data = 7};
    a->rma_in = a->rma;
    a->rma_in.msg_iov = iov_in;
    a->atomic = (struct fi_msg_atomic){.msg_iov = ioc,
                                       .iov_count = 1,
                                       .addr = u->to,
                                       .rma_iov = P(REMOTE, &a->rma_ioc),
                                       .rma_iov_count = 1,
                                       .datatype = FI_UINT64,
                                       .op = FI_SUM,
                                       .context = context};
    a->swap = a->atomic;
    a->swap.op = FI_CSWAP;
    a->coll_attr = (struct fi_collective_attr){.op = FI_NOOP, .datatype = FI_VOID};
    a->tx_attr = *W->f.info->tx_attr;
    a->rx_attr = *W->f.info->rx_attr;
    a->mr_attr = (struct fi_mr_attr){.mr_iov = iov,
                                     .iov_count = 2,
                                     .access = FI_REMOTE_READ,
                                     .context = context};
    memcpy(a->own, W->own.name, sizeof a->own);
    a->no_addr = FI_ADDR_NOTAVAIL;
    a->bytes = sizeof a->name;
    a->text_bytes = sizeof a->text;
    a->option = SMALL;
    a->option_bytes = sizeof a->option;
    *CONTEXT = (struct fi_triggered_context2){.event_type = FI_TRIGGER_THRESHOLD,
                                              .trigger.threshold = {.cntr = P(COUNTER, W->cntr),
                                                                    .threshold = 0}};
}

static struct fi_av_attr *av_attr(struct use *u)
{
    A->av_attr = (struct fi_av_attr){.type = (enum fi_av_type)V(FI_AV_TABLE),
                                     .rx_ctx_bits = (int)V(0),
                                     .count = V(4),
                                     .flags = F(0)};
    return &A->av_attr;
}

static struct fi_av_set_attr *set_attr(struct use *u)
{
    A->set_attr = (struct fi_av_set_attr){.count = V(0),
                                          .start_addr = V(FI_ADDR_NOTAVAIL),
                                          .end_addr = V(FI_ADDR_NOTAVAIL),
                                          .stride = V(1),
                                          .comm_key_size = V(0),
                                          .flags = F(0)};
    return &A->set_attr;
}

static struct fi_cq_attr *cq_attr(struct use *u)
{
    A->cq_attr = (struct fi_cq_attr){.size = V(0),
                                     .format = (enum fi_cq_format)V(FI_CQ_FORMAT_TAGGED),
                                     .wait_obj = (enum fi_wait_obj)V(FI_WAIT_NONE),
                                     .wait_cond = (enum fi_cq_wait_cond)V(FI_CQ_COND_NONE),
                                     .flags = F(0)};
    return &A->cq_attr;
}

static struct fi_cntr_attr *cntr_attr(struct use *u)
{
    A->cntr_attr = (struct fi_cntr_attr){.events = (enum fi_cntr_events)V(FI_CNTR_EVENTS_COMP),
                                         .wait_obj = (enum fi_wait_obj)V(FI_WAIT_NONE),
                                         .flags = F(0)};
    return &A->cntr_attr;
}

static struct fi_eq_attr *eq_attr(struct use *u)
{
    A->eq_attr = (struct fi_eq_attr){.size = V(0),
                                     .wait_obj = (enum fi_wait_obj)V(FI_WAIT_NONE),
                                     .flags = F(0)};
    return &A->eq_attr;
}

static struct fi_wait_attr *wait_attr(struct use *u)
{
    A->wait_attr =
        (struct fi_wait_attr){.wait_obj = (enum fi_wait_obj)V(FI_WAIT_FD), .flags = F(0)};
    return &A->wait_attr;
}

static struct fi_poll_attr *poll_attr(struct use *u)
{
    A->poll_attr = (struct fi_poll_attr){.flags = F(0)};
    return &A->poll_attr;
}

static struct fid **object_list(struct use *u)
{
    A->objects[0] = H(&W->idle_eq->fid);
    return A->objects;
}

static uint64_t *flags_of(struct use *u, uint64_t proper)
{
    A->flags = F(proper);
    return &A->flags;
}

static struct fi_deferred_work *work_of(struct use *u)
{
    struct load *load = u->load;

    fi_control(&W->f.domain->fid, FI_CANCEL_WORK, &load->work); /* the previous use */
    load->iov = (struct iovec){OUT, SMALL};
    load->op = (struct fi_op_tagged){
        .ep = EP,
        .msg = {.msg_iov = P(PIECES, &load->iov), .iov_count = 1, .addr = V(u->to), .tag = 1},
        .flags = F(0)};
    load->work = (struct fi_deferred_work){.threshold = V(0),
                                           .triggering_cntr = P(COUNTER, W->cntr),
                                           .op_type = (enum fi_op_type)V(FI_OP_TSEND),
                                           .op.tagged = P(BASE, &load->op)};
    return &load->work;
}

/* --- the table ---------------------------------------------------------------------- */

#define CALL(name, kind, answer, optional, expression) \
    static ssize_t run_##name(struct use *u)           \
    {                                                  \
        return expression;                             \
    }
#include "tests/nic/ofi/calls.def"
#undef CALL

static const struct call calls[] = {
#define CALL(name, kind, answer, optional, expression) {#name, kind, answer, optional, run_##name},
#include "tests/nic/ofi/calls.def"
#undef CALL
};

/* --- the objects -------------------------------------------------------------------- */

static struct fi_info *info_of(enum fi_ep_type type)
{
    struct fi_info *hints = ofi_fixture_hints(FI_MSG), *info = NULL;

    hints->ep_attr->type = type;
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static void endpoint_open(struct setup *w, struct ofi_fixture_endpoint *end)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    size_t bytes = sizeof end->name;

    CU_ASSERT_EQUAL_FATAL(fi_cq_open(w->f.domain, &attr, &end->cq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(w->f.domain, w->f.info, &end->ep, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(end->ep, &w->eq->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(end->ep, &w->f.av->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL_FATAL(fi_enable(end->ep), 0);
    CU_ASSERT_EQUAL_FATAL(fi_getname(&end->ep->fid, end->name, &bytes), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_insert(w->f.av, end->name, 1, &end->addr, 0, NULL), 1);
}

static void endpoints_open(struct setup *w)
{
    struct fid_domain *domain = w->f.domain;

    w->connected = info_of(FI_EP_MSG);
    w->datagrams = info_of(FI_EP_DGRAM);
    w->scalable = fi_dupinfo(w->f.info);
    w->scalable->ep_attr->tx_ctx_cnt = w->scalable->ep_attr->rx_ctx_cnt = 2;
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(domain, w->f.info, &w->disabled, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(domain, w->connected, &w->unconnected, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(domain, w->datagrams, &w->datagram, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_scalable_ep(domain, w->scalable, &w->sep, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_scalable_ep_bind(w->sep, &w->f.av->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_enable(w->sep), 0);
    CU_ASSERT_EQUAL_FATAL(fi_tx_context(w->sep, 0, NULL, &w->tx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_rx_context(w->sep, 0, NULL, &w->rx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_srx_context(domain, w->f.info->rx_attr, &w->srx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_stx_context(domain, w->f.info->tx_attr, &w->stx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_ep_alias(w->own.ep, &w->alias, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(w->f.fabric, w->connected, &w->pep, NULL), 0);
}

static void group_join(struct setup *w)
{
    struct fi_av_set_attr none = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;
    struct fi_eq_entry entry;
    uint32_t code = 0;

    CU_ASSERT_EQUAL_FATAL(fi_av_set(w->f.av, &none, &w->set, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_set(w->f.av, &none, &w->empty_set, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_set_insert(w->set, w->own.addr), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_set_addr(w->set, &w->set_addr), 0);
    CU_ASSERT_EQUAL_FATAL(fi_join_collective(w->own.ep, w->set_addr, w->set, 0, &w->mc, NULL), 0);
    while (fi_eq_read(w->eq, &code, &entry, sizeof entry, 0) == -FI_EAGAIN)
        CU_ASSERT_FATAL(time(NULL) < until);
    CU_ASSERT_EQUAL_FATAL(code, FI_JOIN_COMPLETE);
    w->group = fi_mc_addr(w->mc);
}

static void setup_open(struct setup *w)
{
    static const struct ofi_fixture_config config = {.caps = CAPS, .format = FI_CQ_FORMAT_TAGGED};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_eq_attr eq = {.flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fi_wait_attr wait = {.wait_obj = FI_WAIT_FD};
    struct fi_av_attr av = {.type = FI_AV_TABLE, .flags = FI_EVENT};

    memset(w, 0, sizeof *w);
    w->f = ofi_fixture_open_with(&config);
    w->hints = ofi_fixture_hints(CAPS);
    CU_ASSERT_EQUAL_FATAL(fi_cq_open(w->f.domain, &cq, &w->cq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_cntr_open(w->f.domain, &cntr, &w->cntr, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_eq_open(w->f.fabric, &eq, &w->eq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_eq_open(w->f.fabric, &eq, &w->idle_eq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_open(w->f.domain, &av, &w->av, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_wait_open(w->f.fabric, &wait, &w->wait), 0);
    CU_ASSERT_EQUAL_FATAL(fi_poll_open(w->f.domain, NULL, &w->poll), 0);
    endpoint_open(w, &w->own);
    endpoints_open(w);
    CU_ASSERT_EQUAL_FATAL(fi_pep_bind(w->pep, &w->eq->fid, 0), 0);
    group_join(w);
}

static void setup_close(struct setup *w)
{
    struct fid *in_order[] = {&w->mc->fid,        &w->av->fid,          &w->set->fid,
                              &w->empty_set->fid, &w->alias->fid,       &w->tx->fid,
                              &w->rx->fid,        &w->sep->fid,         &w->disabled->fid,
                              &w->datagram->fid,  &w->unconnected->fid, &w->own.ep->fid,
                              &w->own.cq->fid,    &w->srx->fid,         &w->stx->fid,
                              &w->pep->fid,       &w->poll->fid,        &w->wait->fid,
                              &w->cq->fid,        &w->cntr->fid,        &w->eq->fid,
                              &w->idle_eq->fid};

    fi_control(&w->f.domain->fid, FI_FLUSH_WORK, NULL);
    for (unsigned i = 0; i < LENGTH(in_order); i++)
        CU_ASSERT_EQUAL(fi_close(in_order[i]), 0);
    ofi_fixture_close(&w->f);
    fi_freeinfo(w->hints);
    fi_freeinfo(w->connected);
    fi_freeinfo(w->datagrams);
    fi_freeinfo(w->scalable);
}

/* --- one call ----------------------------------------------------------------------- */

/* The use of a call with proper arguments: the endpoint own sends to b, which has this window. */
static struct use use_of(struct setup *w, struct load *load)
{
    return (struct use){.w = w,
                        .load = load,
                        .ep = w->own.ep,
                        .to = w->f.b.addr,
                        .bytes = 2 * SMALL,
                        .null = -1,
                        .wrong_value = -1,
                        .wrong_object = -1};
}

static void entries_drop(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got;

    while ((got = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN)
        if (got == -FI_EAVAIL)
            fi_cq_readerr(cq, &error, 0);
}

/* Make the call once. All that it opened is closed again. */
static ssize_t make(const struct call *call, struct use *u)
{
    struct args *args = calloc(1, sizeof *args);

    CU_ASSERT_FATAL(args != NULL);
    u->args = args;
    u->pointers = 0;
    u->values = u->objects = 0;
    u->has_flags = false;
    u->made.fid = NULL;
    u->info = NULL;
    args_fill(u);
    ssize_t err = call->run(u);

    memset(args, 0xee, sizeof *args);
    free(args);
    CU_ASSERT_FATAL(err > -FI_ERRNO_MAX);
    if (u->made.fid)
        CU_ASSERT_EQUAL_FATAL(fi_close(u->made.fid), 0);
    fi_freeinfo(u->info);
    return err;
}

/* Receive a message of each kind, because a fenced operation waits for the messages before it. */
static void receive_another(struct setup *w)
{
    static uint64_t sink[LONG / 8];

    fi_recv(w->f.b.ep, sink, sizeof sink, NULL, FI_ADDR_UNSPEC, NULL);
    fi_trecv(w->f.b.ep, sink, sizeof sink, NULL, FI_ADDR_UNSPEC, 0, ~UINT64_C(0), NULL);
}

/* Make the call with a region of its own; again if it has to wait for other operations. */
static ssize_t attempt(const struct call *call, struct use *u)
{
    static uint64_t window[LONG / 8];
    unsigned tries = call->kind == STARTS ? TRIES : 1;
    ssize_t err;

    u->mr = ofi_fixture_window(&u->w->f, window, sizeof window);
    u->key = fi_mr_key(u->mr);
    while ((err = make(call, u)) == -FI_EAGAIN && --tries) {
        receive_another(u->w);
        entries_drop(u->w->own.cq);
        entries_drop(u->w->f.b.cq);
    }
    if (call->kind == STARTS) {
        entries_drop(u->w->own.cq);
        entries_drop(u->w->f.b.cq);
    }
    CU_ASSERT_EQUAL(fi_close(&u->mr->fid), 0);
    return err;
}

static void complain(const struct call *call, const char *how, uint64_t which, ssize_t err)
{
    fprintf(stderr, "%s: %s %#llx: result %zd\n", call->name, how, (unsigned long long)which, err);
    CU_FAIL("a wrong result");
}

/* Messages still pass. */
static void works(struct setup *w)
{
    struct fi_cq_tagged_entry entry;
    char in[8] = {0};

    entries_drop(w->f.a.cq);
    entries_drop(w->f.b.cq);
    CU_ASSERT_EQUAL(fi_trecv(w->f.a.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 99, 0, in), 0);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&w->f.b, "works", 6, 0, w->f.a.addr, 99), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(w->f.a.cq, &entry, NULL), 1);
    CU_ASSERT_STRING_EQUAL(in, "works");
}

/* Run @each with each call. */
static void each_call(void (*each)(const struct call *call, struct use *u))
{
    struct load *load = calloc(1, sizeof *load);
    struct setup w;

    CU_ASSERT_FATAL(load != NULL);
    setup_open(&w);
    for (unsigned i = 0; i < LENGTH(calls); i++) {
        struct use u = use_of(&w, load);

        each(&calls[i], &u);
    }
    works(&w);
    setup_close(&w);
    free(load);
}

/* --- tests -------------------------------------------------------------------------- */

static void use_properly(const struct call *call, struct use *u)
{
    ssize_t err = attempt(call, u);

    if (call->answer ? err != call->answer : err < 0)
        complain(call, "proper use", 0, err);
}

static void calls__work(void)
{
    each_call(use_properly);
}

static void use_null(const struct call *call, struct use *u)
{
    for (u->null = 0; u->null < POINTERS; u->null++) {
        ssize_t err = attempt(call, u);

        if (u->null < INNER && u->pointers & ~call->optional & N(u->null) && err >= 0)
            complain(call, "NULL at pointer", (unsigned)u->null, err);
        if (u->null < INNER && u->pointers & call->optional & N(u->null) && !call->answer &&
            call->optional != ALL && err < 0)
            complain(call, "NULL at optional pointer", (unsigned)u->null, err);
    }
}

static void calls__refuse_null(void)
{
    each_call(use_null);
}

static void use_objects(const struct call *call, struct use *u)
{
    struct setup *w = u->w;
    struct fid *object[] = {NULL,          &w->f.fabric->fid, &w->f.domain->fid,
                            &w->f.av->fid, &w->own.ep->fid,   &w->own.cq->fid,
                            &w->cq->fid,   &w->cntr->fid,     &w->eq->fid,
                            &w->wait->fid, &w->poll->fid,     &w->set->fid,
                            &w->mc->fid,   &w->pep->fid,      &w->stx->fid,
                            &w->srx->fid,  &w->sep->fid,      &w->tx->fid,
                            &w->alias->fid};

    for (unsigned i = 0; i < LENGTH(object); i++) {
        u->wrong_object = 0;
        u->object = object[i];
        ssize_t err = attempt(call, u);

        if (!u->objects)
            return;
        if (!object[i] && err >= 0)
            complain(call, "object", i, err);
    }
}

static void calls__may_get_wrong_objects(void)
{
    each_call(use_objects);
}

static void use_endpoints(const struct call *call, struct use *u)
{
    struct setup *w = u->w;
    struct fid_ep *ep[] = {w->disabled, w->unconnected, w->datagram, w->sep,
                           w->tx,       w->rx,          w->srx,      w->alias};

    for (unsigned i = 0; i < LENGTH(ep) && (call->kind == USES || call->kind == STARTS); i++) {
        u->ep = ep[i];
        attempt(call, u);
    }
}

static void calls__may_get_wrong_endpoints(void)
{
    each_call(use_endpoints);
}

static void use_values(const struct call *call, struct use *u)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   5,
                                   7,
                                   11,
                                   13,
                                   19,
                                   99,
                                   256,
                                   1 << 20,
                                   1u << 31,
                                   1u << 31,
                                   (uint64_t)1 << 62,
                                   ((uint64_t)1 << 62) + 1,
                                   UINT64_MAX - 1,
                                   UINT64_MAX};

    u->wrong_value = 0;
    do {
        for (unsigned i = 0; i < LENGTH(odd); i++) {
            u->value = odd[i];
            attempt(call, u);
        }
    } while (++u->wrong_value < u->values);
}

static void calls__may_get_wrong_numbers(void)
{
    each_call(use_values);
}

/* Each flag, and each pair of flags that are not refused alone. */
static void use_flags(const struct call *call, struct use *u)
{
    uint64_t good = 0;

    attempt(call, u);
    if (!u->has_flags)
        return;
    u->wrong_flags = true;
    for (unsigned i = 0; i < 64; i++) {
        u->flags = UINT64_C(1) << i;
        good |= attempt(call, u) < 0 ? 0 : u->flags;
    }
    for (unsigned i = 0; i < 64; i++)
        for (unsigned j = i + 1; j < 64; j++) {
            u->flags = UINT64_C(1) << i | UINT64_C(1) << j;
            if ((good & u->flags) == u->flags)
                attempt(call, u);
        }
}

static void calls__may_get_wrong_flags(void)
{
    each_call(use_flags);
}

/* --- closing at once ---------------------------------------------------------------- */

/* What closes first. */
enum order { ORIGIN, TARGET, REGION, ORDERS };

static void origin_close(struct setup *w, struct ofi_fixture_endpoint *end, struct load *load)
{
    CU_ASSERT_EQUAL(fi_close(&end->cq->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&w->f.av->fid), -FI_EBUSY);
    fi_control(&w->f.domain->fid, FI_CANCEL_WORK, &load->work);
    CU_ASSERT(ofi_fixture_endpoint_close(end));
    memset(load, 0xee, sizeof *load);
    free(load);
}

/* Start the operation from a new endpoint to another, and close everything in this order. */
static void use_briefly(const struct call *call, struct setup *w, enum order order, unsigned steps)
{
    struct ofi_fixture_endpoint from = {0}, to = {0};
    struct load *load = calloc(1, sizeof *load);
    uint64_t *window = calloc(1, LONG), *sink = calloc(1, LONG);

    CU_ASSERT_FATAL(load && window && sink);
    endpoint_open(w, &from);
    endpoint_open(w, &to);
    struct fid_mr *mr = ofi_fixture_window(&w->f, window, LONG);
    struct use u = use_of(w, load);

    CU_ASSERT_EQUAL(fi_recv(to.ep, sink, LONG, NULL, FI_ADDR_UNSPEC, NULL), 0);
    CU_ASSERT_EQUAL(fi_trecv(to.ep, sink, LONG, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    u.ep = from.ep;
    u.to = to.addr;
    u.mr = mr;
    u.key = fi_mr_key(mr);
    u.bytes = LONG;
    make(call, &u);
    while (steps--)
        entries_drop(w->own.cq);
    if (order == ORIGIN)
        origin_close(w, &from, load);
    if (order != REGION)
        CU_ASSERT(ofi_fixture_endpoint_close(&to));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    free(window);
    if (order == REGION)
        CU_ASSERT(ofi_fixture_endpoint_close(&to));
    free(sink);
    if (order != ORIGIN)
        origin_close(w, &from, load);
    CU_ASSERT_EQUAL(fi_av_remove(w->f.av, &from.addr, 1, 0), 0);
    CU_ASSERT_EQUAL(fi_av_remove(w->f.av, &to.addr, 1, 0), 0);
}

static void objects__may_close_at_once(void)
{
    uint64_t state = test_seed();
    struct setup w;

    setup_open(&w);
    for (unsigned i = 0; i < LENGTH(calls); i++)
        for (enum order order = 0; order < ORDERS && calls[i].kind == STARTS; order++) {
            use_briefly(&calls[i], &w, order, 0);
            use_briefly(&calls[i], &w, order, (unsigned)test_draw(&state, 1, 30));
        }
    works(&w);
    setup_close(&w);
}

/* --- threads ------------------------------------------------------------------------ */

struct caller {
    struct setup *w;
    uint64_t random;
};

static void *call_at_random(void *arg)
{
    struct caller *me = arg;
    struct load *load = calloc(1, sizeof *load);

    CU_ASSERT_FATAL(load != NULL);
    for (unsigned i = 0; i < TEST_TRIALS(3000); i++) {
        const struct call *call = &calls[test_draw(&me->random, 0, LENGTH(calls) - 1)];
        struct use u = use_of(me->w, load);

        u.wrong_flags = test_draw(&me->random, 0, 3) == 0;
        u.flags = (uint64_t)1 << test_draw(&me->random, 0, 63);
        u.null = (int)test_draw(&me->random, 0, POINTERS) - 1;
        u.wrong_value = (int)test_draw(&me->random, 0, 8) - 1;
        u.value = (uint64_t)1 << test_draw(&me->random, 0, 63);
        attempt(call, &u);
    }
    return load; /* receives are pending */
}

static void calls__may_be_wrong_in_several_threads(void)
{
    struct caller caller[THREADS];
    pthread_t thread[THREADS];
    void *load[THREADS];
    struct setup w;

    if (ofi_fixture_is_serial())
        return;
    setup_open(&w);
    for (unsigned i = 0; i < THREADS; i++) {
        caller[i] = (struct caller){.w = &w, .random = test_seed() * THREADS + i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, call_at_random, &caller[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], &load[i]);
    works(&w);
    setup_close(&w);
    for (unsigned i = 0; i < THREADS; i++)
        free(load[i]);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(calls__work),
        CASE(calls__refuse_null),
        CASE(calls__may_get_wrong_objects),
        CASE(calls__may_get_wrong_endpoints),
        CASE(calls__may_get_wrong_numbers),
        CASE(calls__may_get_wrong_flags),
        CASE(objects__may_close_at_once),
        CASE(calls__may_be_wrong_in_several_threads),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_calls_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_calls", cases);
}
