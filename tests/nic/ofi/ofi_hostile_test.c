/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_hostile_test.c - wrong, hasty and extreme use of the libfabric provider: every call either
 * fails with an error of its man page, or does what it reports.
 *
 * Needs a fabric: `fabemu run -- build/tests/…`. The two endpoints of the fixture are in this
 * process, so the adapter sends to itself. ofi_random.c has random programs of several processes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define CAPS          (OFI_FIXTURE_CAPS_ALL | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_MULTI_RECV)
#define IOV_LIMIT     4
#define INJECT        4096
#define WORDS         16
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static const struct ofi_fixture_config everything = {.caps = CAPS, .format = FI_CQ_FORMAT_TAGGED};

/* The fixture, and memory of b that a may access. */
struct setup {
    struct ofi_fixture f;
    struct fid_mr *mr;
    uint64_t key;
    uint64_t memory[WORDS];
};

static void setup_open(struct setup *w)
{
    memset(w, 0, sizeof *w);
    w->f = ofi_fixture_open_with(&everything);
    w->mr = ofi_fixture_window(&w->f, w->memory, sizeof w->memory);
    w->key = fi_mr_key(w->mr);
}

static void setup_close(struct setup *w)
{
    CU_ASSERT_EQUAL(fi_close(&w->mr->fid), 0);
    ofi_fixture_close(&w->f);
}

static void step(struct setup *w, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++)
        fi_cq_read(w->f.a.cq, NULL, 0);
}

/* Call @call again, as long as it returns -FI_EAGAIN. */
#define RETRY(w, err, call)                                  \
    do {                                                     \
        time_t until_ = time(NULL) + OFI_FIXTURE_PATIENCE_S; \
        while (((err) = (call)) == -FI_EAGAIN) {             \
            step((w), 1);                                    \
            CU_ASSERT_FATAL(time(NULL) <= until_);           \
        }                                                    \
    } while (0)

/* Send @bytes tagged bytes of the sequence @tag from a to b, and check that they arrive. */
static void works(struct setup *w, uint64_t tag, size_t bytes)
{
    unsigned char *out = malloc(bytes + 1), *in = calloc(1, bytes + 1);
    struct fi_cq_tagged_entry entry;
    ssize_t err;

    CU_ASSERT_FATAL(out && in);
    bytes_fill(out, bytes, tag);
    CU_ASSERT_EQUAL_FATAL(fi_trecv(w->f.b.ep, in, bytes, NULL, FI_ADDR_UNSPEC, tag, 0, in), 0);
    RETRY(w, err, fi_tsend(w->f.a.ep, out, bytes, NULL, w->f.b.addr, tag, out));
    CU_ASSERT_EQUAL_FATAL(err, 0);
    entry = ofi_fixture_entry(&w->f.b);
    CU_ASSERT_FATAL(entry.op_context == in && entry.tag == tag && entry.len == bytes);
    CU_ASSERT(bytes_filled(in, bytes, tag));
    CU_ASSERT_FATAL(ofi_fixture_entry(&w->f.a).op_context == out);
    free(out);
    free(in);
}

static struct fid_cntr *counter_open(struct fid_domain *domain)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_cntr *cntr = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_cntr_open(domain, &attr, &cntr, NULL), 0);
    return cntr;
}

static struct fid_cq *queue_open(struct fid_domain *domain, enum fi_wait_obj wait_obj,
                                 struct fid_wait *set)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait_obj, .wait_set = set};
    struct fid_cq *cq = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_cq_open(domain, &attr, &cq, NULL), 0);
    return cq;
}

static struct fid_eq *events_open(struct fid_fabric *fabric)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_eq *eq = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_eq_open(fabric, &attr, &eq, NULL), 0);
    return eq;
}

static void closes(struct fid *fid)
{
    CU_ASSERT_EQUAL(fi_close(fid), 0);
}

/* --- wrong objects ------------------------------------------------------------------ */

static void bind__refuses_objects_that_do_not_fit(void)
{
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fid_domain *other = NULL;
    struct fid_ep *ep = NULL;
    struct fid_av *far_av = NULL;
    struct setup w;

    setup_open(&w);
    CU_ASSERT_EQUAL_FATAL(fi_domain(w.f.fabric, w.f.info, &other, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(w.f.domain, w.f.info, &ep, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_open(other, &av_attr, &far_av, NULL), 0);
    struct fid_cq *cq = queue_open(w.f.domain, FI_WAIT_NONE, NULL);
    struct fid_cq *far_cq = queue_open(other, FI_WAIT_NONE, NULL);
    struct fid_cntr *cntr = counter_open(w.f.domain), *far_cntr = counter_open(other);
    struct fid *wrong[] = {NULL,           &w.mr->fid,   &w.f.domain->fid, &w.f.fabric->fid,
                           &w.f.a.ep->fid, &far_cq->fid, &far_cntr->fid,   &far_av->fid};

    for (unsigned i = 0; i < LENGTH(wrong); i++) {
        CU_ASSERT_EQUAL(fi_ep_bind(ep, wrong[i], FI_RECV), -FI_EINVAL);
        CU_ASSERT_NOT_EQUAL(fi_mr_bind(w.mr, wrong[i], FI_REMOTE_WRITE), 0);
        CU_ASSERT_EQUAL(fi_av_bind(w.f.av, wrong[i], 0), -FI_EINVAL);
    }
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cq->fid, 0), -FI_EINVAL); /* for which direction? */
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cq->fid, FI_SELECTIVE_COMPLETION), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cntr->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV | FI_REMOTE_READ),
                    -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_enable(ep), -FI_ENOAV);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &w.f.av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(ep), -FI_ENOCQ);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cq->fid, FI_RECV), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_enable(ep), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &cntr->fid, FI_SEND), -FI_EOPBADSTATE);
    closes(&ep->fid);
    closes(&cq->fid);
    closes(&cntr->fid);
    closes(&far_av->fid);
    closes(&far_cq->fid);
    closes(&far_cntr->fid);
    closes(&other->fid);
    works(&w, 1, 100);
    setup_close(&w);
}

static void sets__refuse_objects_that_do_not_fit(void)
{
    struct fi_wait_attr wait_attr = {.wait_obj = FI_WAIT_FD};
    struct fi_poll_attr poll_attr = {0};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET};
    struct fid_wait *wait = NULL;
    struct fid_poll *poll = NULL;
    struct fid_cq *cq = NULL;
    void *context;
    struct setup w;

    setup_open(&w);
    CU_ASSERT_EQUAL_FATAL(fi_wait_open(w.f.fabric, &wait_attr, &wait), 0);
    CU_ASSERT_EQUAL_FATAL(fi_poll_open(w.f.domain, &poll_attr, &poll), 0);
    CU_ASSERT_EQUAL(fi_cq_open(w.f.domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    cq_attr.wait_set = (struct fid_wait *)w.f.av;
    CU_ASSERT_EQUAL(fi_cq_open(w.f.domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    struct fid *wrong[] = {NULL,           &w.mr->fid, &w.f.domain->fid,
                           &w.f.a.ep->fid, &wait->fid, &poll->fid};

    for (unsigned i = 0; i < LENGTH(wrong); i++) {
        CU_ASSERT_EQUAL(fi_poll_add(poll, wrong[i], 0), -FI_EINVAL);
        CU_ASSERT_EQUAL(fi_poll_del(poll, wrong[i], 0), -FI_EINVAL);
        if (wrong[i] != &wait->fid)
            CU_ASSERT_EQUAL(fi_trywait(w.f.fabric, &wrong[i], 1), -FI_EINVAL);
    }
    cq = queue_open(w.f.domain, FI_WAIT_SET, wait);
    CU_ASSERT_EQUAL(fi_poll_add(poll, &cq->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_close(&cq->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&wait->fid), -FI_EBUSY);
    closes(&poll->fid);
    closes(&cq->fid);
    closes(&wait->fid);
    CU_ASSERT_EQUAL_FATAL(fi_poll_open(w.f.domain, &poll_attr, &poll), 0);
    CU_ASSERT_EQUAL(fi_poll(poll, &context, 1), 0);
    closes(&poll->fid);
    setup_close(&w);
}

/* No object can be closed while another one uses it, and each can be closed after that. */
static void close__refuses_objects_in_use(void)
{
    struct fid_ep *alias = NULL;
    struct fid_av *av = NULL;
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
    struct setup w;

    setup_open(&w);
    struct fid_cntr *cntr = counter_open(w.f.domain), *trigger = counter_open(w.f.domain);
    struct fid_eq *eq = events_open(w.f.fabric);

    CU_ASSERT_EQUAL_FATAL(fi_av_open(w.f.domain, &av_attr, &av, NULL), 0);
    CU_ASSERT_EQUAL(fi_av_bind(av, &eq->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &cntr->fid, FI_REMOTE_WRITE), 0);
    CU_ASSERT_EQUAL(fi_ep_alias(w.f.a.ep, &alias, 0), 0);
    struct fi_op_cntr add = {.cntr = cntr, .value = 1};
    struct fi_deferred_work work = {.threshold = 1,
                                    .triggering_cntr = trigger,
                                    .op_type = FI_OP_CNTR_ADD,
                                    .op.cntr = &add};

    CU_ASSERT_EQUAL(fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work), 0);
    struct fid *used[] = {&eq->fid,      &w.f.a.cq->fid, &w.f.av->fid,     &cntr->fid,
                          &trigger->fid, &w.f.a.ep->fid, &w.f.domain->fid, &w.f.fabric->fid};

    for (unsigned i = 0; i < LENGTH(used); i++)
        CU_ASSERT_EQUAL(fi_close(used[i]), -FI_EBUSY);
    closes(&alias->fid);
    CU_ASSERT_EQUAL(fi_control(&w.f.domain->fid, FI_CANCEL_WORK, &work), 0);
    closes(&trigger->fid);
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
    closes(&w.mr->fid);
    closes(&cntr->fid);
    closes(&av->fid);
    closes(&eq->fid);
    ofi_fixture_close(&w.f);
}

static void work__refuses_requests_without_arguments(void)
{
    struct setup w;

    setup_open(&w);
    struct fid_cntr *cntr = counter_open(w.f.domain);
    struct fi_deferred_work work = {.triggering_cntr = cntr};

    for (int type = FI_OP_RECV; type <= FI_OP_CNTR_ADD + 1; type++) {
        work.op_type = (uint32_t)type;
        int err = fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work);

        CU_ASSERT(err == -FI_EINVAL || err == -FI_ENOSYS);
    }
    closes(&cntr->fid);
    setup_close(&w);
}

/* --- combinations of flags ---------------------------------------------------------- */

enum call { SENDMSG, TSENDMSG, READMSG, WRITEMSG, ATOMICMSG, FETCHMSG, COMPAREMSG, CALLS };

static const uint64_t sending_flags[] = {
    FI_COMPLETION,        FI_INJECT,         FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
    FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_FENCE,           FI_MORE,
    FI_REMOTE_CQ_DATA,    FI_TRIGGER};
static const uint64_t receiving_flags[] = {FI_COMPLETION, FI_MULTI_RECV, FI_MORE,
                                           FI_PEEK,       FI_CLAIM,      FI_DISCARD};
static const uint64_t strange_flags[] = {
    FI_MULTICAST, FI_RMA_EVENT,       FI_SEND,           FI_RECV,          FI_READ,
    FI_WRITE,     FI_COMMIT_COMPLETE, UINT64_C(1) << 62, UINT64_C(1) << 63};

#define VALUES 8 /* 8-byte elements of an attempt */

/* One call with one combination of flags. */
struct attempt {
    struct setup *w;
    enum call call;
    uint64_t flags;
    struct fi_triggered_context context;
    uint64_t out[VALUES], in[VALUES], compare[VALUES], result[VALUES];
};

static bool is_message(enum call call)
{
    return call == SENDMSG || call == TSENDMSG;
}

static ssize_t attempt_message(struct attempt *t)
{
    struct iovec iov = {t->out, sizeof t->out};
    struct fi_msg msg = {.msg_iov = &iov,
                         .iov_count = 1,
                         .addr = t->w->f.b.addr,
                         .context = &t->context,
                         .data = 77};
    struct fi_msg_tagged tagged = {.msg_iov = &iov,
                                   .iov_count = 1,
                                   .addr = t->w->f.b.addr,
                                   .tag = 5,
                                   .context = &t->context,
                                   .data = 77};

    return t->call == SENDMSG ? fi_sendmsg(t->w->f.a.ep, &msg, t->flags)
                              : fi_tsendmsg(t->w->f.a.ep, &tagged, t->flags);
}

static ssize_t attempt_memory(struct attempt *t)
{
    struct iovec iov = {t->call == READMSG ? t->in : t->out, sizeof t->out};
    struct fi_rma_iov remote = {.len = sizeof t->out, .key = t->w->key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = t->w->f.b.addr,
                             .rma_iov = &remote,
                             .rma_iov_count = 1,
                             .context = &t->context,
                             .data = 77};

    return t->call == READMSG ? fi_readmsg(t->w->f.a.ep, &msg, t->flags)
                              : fi_writemsg(t->w->f.a.ep, &msg, t->flags);
}

static ssize_t attempt_atomic(struct attempt *t)
{
    struct fi_ioc out = {t->out, VALUES}, compare = {t->compare, VALUES},
                  result = {t->result, VALUES};
    struct fi_rma_ioc remote = {.count = VALUES, .key = t->w->key};
    struct fi_msg_atomic msg = {.msg_iov = &out,
                                .iov_count = 1,
                                .addr = t->w->f.b.addr,
                                .rma_iov = &remote,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = t->call == COMPAREMSG ? FI_CSWAP : FI_SUM,
                                .context = &t->context};
    struct fid_ep *ep = t->w->f.a.ep;

    if (t->call == ATOMICMSG)
        return fi_atomicmsg(ep, &msg, t->flags);
    if (t->call == FETCHMSG)
        return fi_fetch_atomicmsg(ep, &msg, &result, NULL, 1, t->flags);
    return fi_compare_atomicmsg(ep, &msg, &compare, NULL, 1, &result, NULL, 1, t->flags);
}

static ssize_t attempt_start(struct attempt *t)
{
    if (is_message(t->call))
        return attempt_message(t);
    return t->call == READMSG || t->call == WRITEMSG ? attempt_memory(t) : attempt_atomic(t);
}

static bool is_error_of_flags(ssize_t err)
{
    return err == -FI_EBADFLAGS || err == -FI_EOPNOTSUPP || err == -FI_EINVAL || err == -FI_ENOSYS;
}

static void attempt_prepare(struct attempt *t)
{
    struct fid_ep *b = t->w->f.b.ep;

    bytes_fill(t->out, sizeof t->out, t->flags + 1);
    bytes_fill(t->w->memory, sizeof t->out, t->flags + 2);
    memcpy(t->compare, t->w->memory, sizeof t->compare);
    memset(t->in, 0, sizeof t->in);
    memset(t->result, 0, sizeof t->result);
    if (t->call == SENDMSG)
        CU_ASSERT_EQUAL_FATAL(fi_recv(b, t->in, sizeof t->in, NULL, FI_ADDR_UNSPEC, t->in), 0);
    if (t->call == TSENDMSG)
        CU_ASSERT_EQUAL_FATAL(fi_trecv(b, t->in, sizeof t->in, NULL, FI_ADDR_UNSPEC, 5, 0, t->in),
                              0);
}

/* The call was refused: nothing has happened. */
static void attempt_refused(struct attempt *t, ssize_t err)
{
    CU_ASSERT_FATAL(is_error_of_flags(err));
    CU_ASSERT(bytes_filled(t->w->memory, sizeof t->out, t->flags + 2));
    if (!is_message(t->call))
        return;
    CU_ASSERT_EQUAL(fi_cancel(&t->w->f.b.ep->fid, t->in), 0);
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_error(&t->w->f.b).err, FI_ECANCELED);
}

static void check_memory(const struct attempt *t)
{
    uint64_t out[VALUES], was[VALUES];

    bytes_fill(out, sizeof out, t->flags + 1);
    bytes_fill(was, sizeof was, t->flags + 2);
    if (t->call == READMSG)
        CU_ASSERT_EQUAL(memcmp(t->in, was, sizeof was), 0);
    if (t->call == FETCHMSG || t->call == COMPAREMSG)
        CU_ASSERT_EQUAL(memcmp(t->result, was, sizeof was), 0);
    if (t->call == READMSG)
        return;
    for (unsigned i = 0; i < VALUES; i++)
        CU_ASSERT_EQUAL(t->w->memory[i],
                        t->call == ATOMICMSG || t->call == FETCHMSG ? was[i] + out[i] : out[i]);
}

/* The call has started the operation, which must complete with the right data. */
static void attempt_completes(struct attempt *t)
{
    struct fi_cq_tagged_entry entry;
    uint64_t out[VALUES];

    if (t->flags & FI_INJECT) /* the program may use the buffer again */
        memset(t->out, 0xee, sizeof t->out);
    entry = ofi_fixture_entry(&t->w->f.a);
    CU_ASSERT_FATAL(entry.op_context == &t->context);
    if (is_message(t->call)) {
        entry = ofi_fixture_entry(&t->w->f.b);
        bytes_fill(out, sizeof out, t->flags + 1);
        CU_ASSERT_FATAL(entry.op_context == t->in && entry.len == sizeof out);
        CU_ASSERT_EQUAL(memcmp(t->in, out, sizeof out), 0);
    } else {
        check_memory(t);
        if (t->flags & FI_REMOTE_CQ_DATA)
            entry = ofi_fixture_entry(&t->w->f.b);
    }
    if (t->flags & FI_REMOTE_CQ_DATA)
        CU_ASSERT(entry.flags & FI_REMOTE_CQ_DATA && entry.data == 77);
}

static void attempt(struct setup *w, struct fid_cntr *trigger, enum call call, uint64_t flags)
{
    struct attempt t = {.w = w,
                        .call = call,
                        .flags = flags,
                        .context = {.event_type = FI_TRIGGER_THRESHOLD,
                                    .trigger.threshold = {.cntr = trigger, .threshold = 1}}};
    ssize_t err;

    attempt_prepare(&t);
    RETRY(w, err, attempt_start(&t));
    if (err)
        attempt_refused(&t, err);
    else
        attempt_completes(&t);
}

static uint64_t combination(const uint64_t *flags, size_t count, uint64_t number)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum |= number >> i & 1 ? flags[i] : 0;
    return sum;
}

static void flags__of_sending_calls_are_refused_or_obeyed(void)
{
    uint64_t state = test_seed(), all = UINT64_C(1) << LENGTH(sending_flags);
    struct setup w;

    setup_open(&w);
    struct fid_cntr *trigger = counter_open(w.f.domain);

    CU_ASSERT_EQUAL(fi_cntr_add(trigger, 1), 0);
    for (enum call call = 0; call < CALLS; call++) {
        for (uint64_t n = 0; n < all; n += test_draw(&state, 1, 15))
            attempt(&w, trigger, call, combination(sending_flags, LENGTH(sending_flags), n));
        for (unsigned i = 0; i < LENGTH(strange_flags); i++)
            attempt(&w, trigger, call, strange_flags[i]);
        for (unsigned i = 0; i < LENGTH(receiving_flags); i++)
            attempt(&w, trigger, call, receiving_flags[i]);
    }
    CU_ASSERT(ofi_fixture_quiet(&w.f.a) && ofi_fixture_quiet(&w.f.b));
    closes(&trigger->fid);
    setup_close(&w);
}

/* What fi_trecvmsg() or fi_recvmsg() must do with these flags while a message waits. */
enum answer { REFUSED, RECEIVED, RECEIVED_MULTI, REPORTED, REMOVED, CLAIMED, NOTHING_CLAIMED };

static enum answer answer_of(bool tagged, uint64_t flags)
{
    if (!tagged && flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
        return REFUSED;
    if (flags & FI_MULTI_RECV)
        return flags & (FI_PEEK | FI_CLAIM | FI_DISCARD) ? REFUSED : RECEIVED_MULTI;
    if (flags & FI_PEEK)
        return flags & FI_DISCARD ? REMOVED : flags & FI_CLAIM ? CLAIMED : REPORTED;
    if (flags & FI_CLAIM)
        return NOTHING_CLAIMED;
    return flags & FI_DISCARD ? REFUSED : RECEIVED;
}

/* Wait until a message with tag 5 has arrived, so that a peek finds it. */
static void await_message(struct setup *w)
{
    struct fi_msg_tagged peek = {.addr = FI_ADDR_UNSPEC, .tag = 5};
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    ssize_t got;

    do {
        CU_ASSERT_EQUAL_FATAL(fi_trecvmsg(w->f.b.ep, &peek, FI_PEEK), 0);
        got = ofi_fixture_entry_wait(w->f.b.cq, &entry, NULL);
        if (got == -FI_EAVAIL)
            CU_ASSERT_EQUAL(fi_cq_readerr(w->f.b.cq, &error, 0), 1);
    } while (got == -FI_EAVAIL);
    CU_ASSERT_EQUAL_FATAL(got, 1);
}

static ssize_t receive(struct setup *w, bool tagged, void *buf, size_t bytes, uint64_t flags)
{
    struct iovec iov = {buf, bytes};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf};
    struct fi_msg_tagged message = {
        .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 5, .context = buf};

    return tagged ? fi_trecvmsg(w->f.b.ep, &message, flags) : fi_recvmsg(w->f.b.ep, &msg, flags);
}

/* The message that the call left must still be there. */
static void receive_rest(struct setup *w, bool tagged, uint64_t key)
{
    unsigned char in[100] = {0};

    CU_ASSERT_EQUAL_FATAL(receive(w, tagged, in, sizeof in, 0), 0);
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_entry(&w->f.b).op_context, in);
    CU_ASSERT(bytes_filled(in, sizeof in, key));
}

static void attempt_receive(struct setup *w, bool tagged, uint64_t flags)
{
    enum answer answer = answer_of(tagged, flags);
    unsigned char out[100], in[100] = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t err;

    bytes_fill(out, sizeof out, flags);
    if (tagged)
        RETRY(w, err, fi_tinject(w->f.a.ep, out, sizeof out, w->f.b.addr, 5));
    else
        RETRY(w, err, fi_inject(w->f.a.ep, out, sizeof out, w->f.b.addr));
    CU_ASSERT_EQUAL_FATAL(err, 0);
    if (tagged)
        await_message(w);
    err = receive(w, tagged, in, sizeof in, flags);
    if (answer == REFUSED || answer == NOTHING_CLAIMED) {
        CU_ASSERT_FATAL(answer == REFUSED ? is_error_of_flags(err) : err == -FI_ENOMSG);
        receive_rest(w, tagged, flags);
        return;
    }
    CU_ASSERT_EQUAL_FATAL(err, 0);
    entry = ofi_fixture_entry(&w->f.b);
    CU_ASSERT_FATAL(entry.op_context == in && (entry.len == sizeof out || !entry.len));
    if (answer == CLAIMED) {
        CU_ASSERT_EQUAL_FATAL(receive(w, tagged, in, sizeof in, FI_CLAIM | (flags & FI_MORE)), 0);
        CU_ASSERT_EQUAL_FATAL(ofi_fixture_entry(&w->f.b).op_context, in);
    }
    if (answer == RECEIVED_MULTI && !(entry.flags & FI_MULTI_RECV)) {
        entry = ofi_fixture_entry(&w->f.b); /* the buffer, which is full, is released */
        CU_ASSERT(entry.op_context == in && entry.flags & FI_MULTI_RECV);
    }
    if (answer == REPORTED)
        receive_rest(w, tagged, flags);
    else if (answer != REMOVED)
        CU_ASSERT(bytes_filled(in, sizeof in, flags));
}

static void flags__of_receiving_calls_are_refused_or_obeyed(void)
{
    uint64_t all = UINT64_C(1) << LENGTH(receiving_flags);
    struct setup w;

    setup_open(&w);
    for (unsigned tagged = 0; tagged < 2; tagged++)
        for (uint64_t n = 0; n < all; n++)
            attempt_receive(&w, tagged, combination(receiving_flags, LENGTH(receiving_flags), n));
    CU_ASSERT(ofi_fixture_quiet(&w.f.a) && ofi_fixture_quiet(&w.f.b));
    for (unsigned i = 0; i < LENGTH(strange_flags); i++)
        for (unsigned tagged = 0; tagged < 2; tagged++)
            CU_ASSERT(is_error_of_flags(receive(&w, tagged, NULL, 0, strange_flags[i])));
    works(&w, 1, 100);
    setup_close(&w);
}

/* --- sizes -------------------------------------------------------------------------- */

/* Numbers of pieces from none to one more than allowed, and no array of pieces. */
static void pieces__are_counted(void)
{
    static unsigned char bytes[IOV_LIMIT + 1] = "abcde";
    unsigned char in[IOV_LIMIT + 1];
    struct iovec iov[IOV_LIMIT + 1];
    struct fi_ioc ioc[IOV_LIMIT + 1];
    struct fi_rma_iov remote = {0};
    struct fi_msg_rma msg = {.rma_iov = &remote, .rma_iov_count = 1};
    struct setup w;
    ssize_t err;

    setup_open(&w);
    remote.key = w.key;
    msg.addr = w.f.b.addr;
    for (unsigned i = 0; i <= IOV_LIMIT; i++) {
        iov[i] = (struct iovec){bytes + i, 1};
        ioc[i] = (struct fi_ioc){bytes + i, 1};
    }
    for (size_t n = 0; n <= IOV_LIMIT + 1; n++) {
        ssize_t wanted = n <= IOV_LIMIT ? 0 : -FI_EINVAL;

        RETRY(&w, err, fi_tsendv(w.f.a.ep, iov, NULL, n, w.f.b.addr, 1, NULL));
        CU_ASSERT_EQUAL_FATAL(err, wanted);
        CU_ASSERT_EQUAL(fi_trecvv(w.f.b.ep, iov, NULL, IOV_LIMIT + 1, FI_ADDR_UNSPEC, 1, 0, NULL),
                        -FI_EINVAL);
        memcpy(w.memory, "fghij", sizeof in);
        err = fi_writev(w.f.a.ep, iov, NULL, n, w.f.b.addr, 0, w.key, NULL);
        CU_ASSERT_EQUAL_FATAL(err, wanted);
        err = fi_atomicv(w.f.a.ep, ioc, NULL, n, w.f.b.addr, 8, w.key, FI_UINT8, FI_ATOMIC_WRITE,
                         NULL);
        CU_ASSERT_EQUAL_FATAL(err, n ? wanted : -FI_EINVAL); /* an atomic has elements */
        if (wanted)
            continue;
        CU_ASSERT_EQUAL_FATAL(fi_trecv(w.f.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, NULL),
                              0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&w.f.b).len, n);
        CU_ASSERT_EQUAL(memcmp(in, bytes, n), 0);
        for (unsigned i = n ? 3 : 2; i; i--)
            ofi_fixture_entry(&w.f.a);
        CU_ASSERT(memcmp(w.memory, bytes, n) == 0 && memcmp(&w.memory[1], bytes, n) == 0);
        CU_ASSERT_EQUAL(memcmp((char *)w.memory + n, "fghij" + n, sizeof in - n), 0);
    }
    CU_ASSERT_EQUAL(fi_tsendv(w.f.a.ep, NULL, NULL, 1, w.f.b.addr, 1, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_trecvv(w.f.a.ep, NULL, NULL, 1, w.f.b.addr, 1, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_readv(w.f.a.ep, NULL, NULL, 1, w.f.b.addr, 0, w.key, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_send(w.f.a.ep, NULL, 1, NULL, w.f.b.addr, NULL), -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_atomicv(w.f.a.ep, NULL, NULL, 1, w.f.b.addr, 0, w.key, FI_UINT8, FI_SUM,
                               NULL),
                    -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, 0), 0); /* of no bytes */
    ofi_fixture_entry(&w.f.a);
    msg.rma_iov_count = IOV_LIMIT + 1;
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, 0), -FI_EINVAL);
    msg.rma_iov_count = 1;
    msg.rma_iov = NULL;
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, 0), -FI_EINVAL);
    msg.rma_iov = &remote;
    remote.len = SIZE_MAX; /* not the size of the local memory */
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, 0), -FI_EINVAL);
    setup_close(&w);
}

/* Sizes around every limit of the provider and the adapter. */
static void messages__of_all_sizes_arrive(void)
{
    static const size_t limits[] = {1, 8, 192, 208, 240, 256, INJECT, 8192, 16384, 65536, 1u << 20};
    struct setup w;

    setup_open(&w);
    for (unsigned i = 0; i < LENGTH(limits); i++)
        for (size_t bytes = limits[i] - 1; bytes <= limits[i] + 1; bytes++)
            works(&w, bytes + 10, bytes);
    setup_close(&w);
}

static void inject__takes_its_limit_and_no_more(void)
{
    static unsigned char out[INJECT + 1], in[INJECT + 1], memory[INJECT + 1];
    struct setup w;
    ssize_t err;

    setup_open(&w);
    struct fid_mr *mr = ofi_fixture_window(&w.f, memory, sizeof memory);

    for (size_t bytes = INJECT - 1; bytes <= INJECT + 1; bytes++) {
        ssize_t wanted = bytes <= INJECT ? 0 : -FI_EMSGSIZE;

        bytes_fill(out, bytes, bytes);
        RETRY(&w, err, fi_inject(w.f.a.ep, out, bytes, w.f.b.addr));
        CU_ASSERT_EQUAL_FATAL(err, wanted);
        RETRY(&w, err, fi_inject_write(w.f.a.ep, out, bytes, w.f.b.addr, 0, fi_mr_key(mr)));
        CU_ASSERT_EQUAL_FATAL(err, wanted);
        RETRY(&w, err,
              fi_inject_atomic(w.f.a.ep, out, bytes, w.f.b.addr, 0, fi_mr_key(mr), FI_UINT8,
                               FI_ATOMIC_WRITE));
        CU_ASSERT_EQUAL_FATAL(err, wanted);
        memset(out, 0, sizeof out);
        if (wanted)
            continue;
        CU_ASSERT_EQUAL_FATAL(fi_recv(w.f.b.ep, in, bytes, NULL, FI_ADDR_UNSPEC, NULL), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&w.f.b).len, bytes);
        CU_ASSERT(bytes_filled(in, bytes, bytes));
        for (unsigned i = 0; i < 100000 && !bytes_filled(memory, bytes, bytes); i++)
            step(&w, 1);
        CU_ASSERT(bytes_filled(memory, bytes, bytes));
    }
    closes(&mr->fid);
    setup_close(&w);
}

/* Sizes of 4 GiB and more, of memory that exists only in part. */
static void huge_sizes__are_refused_or_truncated(void)
{
    size_t huge = (size_t)1 << 32;
    unsigned char *memory = mmap(NULL, huge, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct iovec iov[2] = {{memory, SIZE_MAX}, {memory, 2}};
    unsigned char in[8];
    struct fi_cq_err_entry error;
    struct setup w;

    CU_ASSERT_FATAL(memory != MAP_FAILED);
    setup_open(&w);
    CU_ASSERT_EQUAL(fi_send(w.f.a.ep, memory, SIZE_MAX, NULL, w.f.b.addr, NULL), -FI_EMSGSIZE);
    CU_ASSERT_EQUAL(fi_send(w.f.a.ep, memory, ((size_t)1 << 39) + 1, NULL, w.f.b.addr, NULL),
                    -FI_EMSGSIZE);
    CU_ASSERT_EQUAL(fi_sendv(w.f.a.ep, iov, NULL, 2, w.f.b.addr, NULL), -FI_EMSGSIZE);
    CU_ASSERT_EQUAL(fi_recvv(w.f.a.ep, iov, NULL, 2, w.f.b.addr, NULL), -FI_EMSGSIZE);
    CU_ASSERT_EQUAL(fi_writev(w.f.a.ep, iov, NULL, 2, w.f.b.addr, 0, w.key, NULL), -FI_EMSGSIZE);
    CU_ASSERT_EQUAL(fi_write(w.f.a.ep, memory, SIZE_MAX, NULL, w.f.b.addr, 0, w.key, NULL),
                    -FI_EMSGSIZE);
    CU_ASSERT_EQUAL(fi_atomic(w.f.a.ep, memory, SIZE_MAX, NULL, w.f.b.addr, 0, w.key, FI_UINT64,
                              FI_SUM, NULL),
                    -FI_EMSGSIZE);
    for (size_t bytes = huge - 1; bytes <= huge + 1; bytes++) {
        CU_ASSERT_EQUAL_FATAL(fi_recv(w.f.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, in), 0);
        CU_ASSERT_EQUAL_FATAL(fi_send(w.f.a.ep, memory, bytes, NULL, w.f.b.addr, NULL), 0);
        error = ofi_fixture_error(&w.f.b);
        CU_ASSERT(error.err == FI_ETRUNC && error.len == sizeof in &&
                  error.olen == bytes - sizeof in);
        ofi_fixture_entry(&w.f.a); /* the sender does not know */
        CU_ASSERT_EQUAL_FATAL(fi_read(w.f.a.ep, memory, bytes, NULL, w.f.b.addr, 0, w.key, NULL),
                              0);
        CU_ASSERT_NOT_EQUAL(ofi_fixture_error(&w.f.a).err, 0);
        CU_ASSERT_EQUAL_FATAL(fi_write(w.f.a.ep, memory, bytes, NULL, w.f.b.addr, 0, w.key, NULL),
                              0);
        CU_ASSERT_NOT_EQUAL(ofi_fixture_error(&w.f.a).err, 0);
    }
    works(&w, 1, 100);
    setup_close(&w);
    munmap(memory, huge);
}

/* --- memory that cannot be accessed ------------------------------------------------- */

/* All accesses with this key and offset end with an error, and change nothing. */
static void cannot_access(struct setup *w, uint64_t key, uint64_t offset)
{
    uint64_t value[2] = {1, 1}, was[WORDS];
    unsigned failed = 3;

    memcpy(was, w->memory, sizeof was);
    CU_ASSERT_EQUAL_FATAL(fi_read(w->f.a.ep, value, 16, NULL, w->f.b.addr, offset, key, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_write(w->f.a.ep, value, 16, NULL, w->f.b.addr, offset, key, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_atomic(w->f.a.ep, value, 2, NULL, w->f.b.addr, offset, key, FI_UINT64,
                                    FI_SUM, NULL),
                          0);
    for (; failed; failed--)
        CU_ASSERT_NOT_EQUAL(ofi_fixture_error(&w->f.a).err, 0);
    CU_ASSERT_EQUAL(memcmp(was, w->memory, sizeof was), 0);
    CU_ASSERT(value[0] == 1 && value[1] == 1);
}

static void region__is_protected(void)
{
    uint64_t state = test_seed();
    struct fid_mr *mr = NULL;
    struct setup w;

    setup_open(&w);
    for (unsigned i = 0; i < 100; i++)
        cannot_access(&w, w.key ^ UINT64_C(1) << test_draw(&state, 0, 63), 0);
    cannot_access(&w, w.key, sizeof w.memory - 8);
    cannot_access(&w, w.key, sizeof w.memory);
    cannot_access(&w, w.key, UINT64_MAX - 7);
    cannot_access(&w, FI_KEY_NOTAVAIL, 0);
    for (unsigned i = 0; i < 300; i++) {
        mr = ofi_fixture_window(&w.f, w.memory, sizeof w.memory);
        uint64_t key = fi_mr_key(mr);

        closes(&mr->fid);
        cannot_access(&w, key, 0);
    }
    CU_ASSERT_EQUAL(fi_mr_regv(w.f.domain, NULL, 1, FI_REMOTE_READ, 0, 0, 0, &mr, NULL),
                    -FI_EINVAL);
    /* memory for local use only: nobody can access it, whatever its key is */
    CU_ASSERT_EQUAL_FATAL(fi_mr_reg(w.f.domain, w.memory, sizeof w.memory, FI_SEND | FI_RECV, 0,
                                    w.key, 0, &mr, NULL),
                          0);
    cannot_access(&w, fi_mr_key(mr), 0);
    closes(&mr->fid);
    setup_close(&w);
}

/* --- closing while operations are in flight ----------------------------------------- */

#define FLIGHT_BYTES 300000
#define UNTOUCHED    0xaa
#define FLIGHTS      4 /* operations of each kind */

/* Read entries and errors of @end until there are none for a while. Returns how many. */
static unsigned entries_drop(struct ofi_fixture_endpoint *end)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    unsigned count = 0, none = 0;
    ssize_t got;

    while (none < 200) {
        got = fi_cq_read(end->cq, &entry, 1);
        if (got == -FI_EAVAIL)
            CU_ASSERT_EQUAL(fi_cq_readerr(end->cq, &error, 0), 1);
        count += got != -FI_EAGAIN;
        none = got == -FI_EAGAIN ? none + 1 : 0;
    }
    return count;
}

/* Do all FLIGHT_BYTES bytes still have the value UNTOUCHED? */
static bool is_untouched(const unsigned char *bytes)
{
    for (size_t i = 0; i < FLIGHT_BYTES; i++)
        if (bytes[i] != UNTOUCHED)
            return false;
    return true;
}

/* a sends to c, receives from it, reads and writes its memory; then c closes after some steps. */
static void flight(struct setup *w, uint64_t *state, bool mine)
{
    unsigned char *out = calloc(1, FLIGHT_BYTES), *in = calloc(1, FLIGHT_BYTES);
    unsigned char *window = calloc(1, FLIGHT_BYTES);
    struct ofi_fixture_endpoint c = {0};
    unsigned posted = 0, ended = 0;
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;

    CU_ASSERT_FATAL(out && in && window && ofi_fixture_endpoint_open(&w->f, &c, &everything));
    struct fid_mr *mr = ofi_fixture_window(&w->f, window, FLIGHT_BYTES);
    uint64_t key = fi_mr_key(mr);
    struct ofi_fixture_endpoint *from = mine ? &c : &w->f.a, *to = mine ? &w->f.a : &c;

    for (unsigned i = 0; i < FLIGHTS; i++) {
        size_t bytes = test_draw(state, 0, FLIGHT_BYTES);

        posted += !fi_tsend(from->ep, out, bytes, NULL, to->addr, i, out);
        posted += !fi_read(from->ep, in, bytes, NULL, to->addr, 0, key, in);
        posted += !fi_write(from->ep, out, bytes, NULL, to->addr, 0, key, out);
        fi_trecv(to->ep, in, bytes, NULL, FI_ADDR_UNSPEC, i, 0, in);
        fi_recv(c.ep, in, bytes, NULL, FI_ADDR_UNSPEC, in);
    }
    step(w, (unsigned)test_draw(state, 0, 40));
    if (test_draw(state, 0, 1))
        closes(&mr->fid), mr = NULL;
    CU_ASSERT(ofi_fixture_endpoint_close(&c));
    if (mr)
        closes(&mr->fid);
    memset(window, UNTOUCHED, FLIGHT_BYTES); /* it belongs to the program again */
    while (!mine && ended < posted) {        /* the operations of an open endpoint all end */
        ended += entries_drop(&w->f.a);
        CU_ASSERT_FATAL(time(NULL) < until);
    }
    entries_drop(&w->f.a);
    CU_ASSERT_FATAL(is_untouched(window));
    while (mine && !fi_cancel(&w->f.a.ep->fid, in))
        entries_drop(&w->f.a);
    CU_ASSERT_EQUAL(fi_av_remove(w->f.av, &c.addr, 1, 0), 0);
    free(window);
    free(out);
    free(in);
}

static void endpoint__may_close_while_operations_are_in_flight(void)
{
    uint64_t state = test_seed();
    struct setup w;

    setup_open(&w);
    for (unsigned i = 0; i < TEST_TRIALS(40); i++)
        flight(&w, &state, i & 1);
    works(&w, 1, FLIGHT_BYTES);
    setup_close(&w);
}

/* Messages to endpoints that have closed do not stop those to others. */
static void endpoint__closed_does_not_stop_others(void)
{
    struct setup w;
    ssize_t err;

    setup_open(&w);
    for (unsigned i = 0; i < 60; i++) {
        struct ofi_fixture_endpoint c = {0};

        CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&w.f, &c, &everything));
        CU_ASSERT_FATAL(ofi_fixture_endpoint_close(&c));
        for (unsigned j = 0; j < 100; j++) {
            RETRY(&w, err, fi_tinject(w.f.a.ep, "late", 5, c.addr, 1));
            CU_ASSERT_EQUAL_FATAL(err, 0);
        }
        CU_ASSERT_EQUAL(fi_av_remove(w.f.av, &c.addr, 1, 0), 0);
    }
    works(&w, 1, 100);
    setup_close(&w);
}

/* The sender of a message that must be delivered gets an error if the receiver closes. */
static void closing__fails_messages_that_nobody_received(void)
{
    static const uint64_t flags[] = {FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE, FI_MATCH_COMPLETE};
    static unsigned char out[FLIGHT_BYTES];
    struct setup w;

    setup_open(&w);
    for (unsigned i = 0; i < LENGTH(flags); i++)
        for (unsigned late = 0; late < 2; late++)
            for (size_t bytes = 8; bytes <= sizeof out; bytes = bytes * 33 + 1) {
                struct iovec iov = {out, bytes};
                struct ofi_fixture_endpoint c = {0};
                struct fi_cq_tagged_entry entry;
                ssize_t got;

                CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&w.f, &c, &everything));
                struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = c.addr};

                if (late)
                    CU_ASSERT_FATAL(ofi_fixture_endpoint_close(&c));
                CU_ASSERT_EQUAL_FATAL(fi_sendmsg(w.f.a.ep, &msg, flags[i]), 0);
                step(&w, 30);
                if (!late)
                    CU_ASSERT_FATAL(ofi_fixture_endpoint_close(&c));
                got = ofi_fixture_entry_wait(w.f.a.cq, &entry, NULL);
                if (flags[i] == FI_MATCH_COMPLETE || got != 1) /* delivered, but not matched */
                    CU_ASSERT_EQUAL_FATAL(got, -FI_EAVAIL);
                entries_drop(&w.f.a);
                CU_ASSERT_EQUAL(fi_av_remove(w.f.av, &c.addr, 1, 0), 0);
            }
    setup_close(&w);
}

/* After a region has closed, no byte of its memory changes. */
static void region__closed_is_not_written(void)
{
    static unsigned char out[FLIGHT_BYTES], window[FLIGHT_BYTES];
    uint64_t state = test_seed();
    struct setup w;

    setup_open(&w);
    memset(out, 0x11, sizeof out);
    for (unsigned i = 0; i < 30; i++) {
        struct fid_mr *mr = ofi_fixture_window(&w.f, window, sizeof window);
        unsigned posted = 0, ended = 0;

        for (unsigned j = 0; j < FLIGHTS; j++)
            posted +=
                !fi_write(w.f.a.ep, out, sizeof out, NULL, w.f.b.addr, 0, fi_mr_key(mr), NULL);
        step(&w, (unsigned)test_draw(&state, 0, 60));
        closes(&mr->fid);
        memset(window, UNTOUCHED, sizeof window);
        while (ended < posted)
            ended += entries_drop(&w.f.a);
        CU_ASSERT_FATAL(is_untouched(window));
    }
    setup_close(&w);
}

/* --- many operations ---------------------------------------------------------------- */

#define MANY 3000

/* Cancelled receives complete once, with an error or with a message; no message is lost. */
static void cancel__loses_no_message(void)
{
    static uint32_t in[MANY], out[MANY];
    static bool ended[MANY], arrived[MANY];
    uint64_t state = test_seed();
    unsigned cancelled = 0, received = 0, sent = 0, left = MANY;
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry entry;
    struct setup w;
    ssize_t got;

    setup_open(&w);
    memset(ended, 0, sizeof ended);
    memset(arrived, 0, sizeof arrived);
    for (uint32_t i = 0; i < MANY; i++)
        CU_ASSERT_EQUAL_FATAL(fi_trecv(w.f.b.ep, &in[i], 4, NULL, FI_ADDR_UNSPEC, 1, 0, &in[i]), 0);
    while (left) {
        if (sent < MANY && test_draw(&state, 0, 1)) {
            out[sent] = sent;
            sent += !fi_tinject(w.f.a.ep, &out[sent], 4, w.f.b.addr, 1);
        }
        fi_cancel(&w.f.b.ep->fid, &in[test_draw(&state, 0, MANY - 1)]);
        got = fi_cq_read(w.f.b.cq, &entry, 1);
        uint32_t *at = entry.op_context;

        if (got == -FI_EAVAIL) {
            CU_ASSERT_EQUAL_FATAL(fi_cq_readerr(w.f.b.cq, &error, 0), 1);
            CU_ASSERT_EQUAL(error.err, FI_ECANCELED);
            at = error.op_context;
            cancelled++;
        } else if (got == 1) {
            CU_ASSERT_FATAL(*at < sent && !arrived[*at]);
            arrived[*at] = true;
            CU_ASSERT_EQUAL(*at, received); /* in order */
            received++;
        } else {
            continue;
        }
        CU_ASSERT_FATAL(!ended[at - in]);
        ended[at - in] = true;
        left--;
    }
    CU_ASSERT_EQUAL(received + cancelled, MANY);
    for (; received < sent; received++) { /* the others wait for a receive */
        CU_ASSERT_EQUAL_FATAL(fi_trecv(w.f.b.ep, &in[0], 4, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
        ofi_fixture_entry(&w.f.b);
        CU_ASSERT_EQUAL(in[0], received);
    }
    CU_ASSERT_EQUAL(fi_cancel(&w.f.b.ep->fid, &w), -FI_ENOENT);
    setup_close(&w);
}

/* Nobody reads the queues, whose requested size is one, until everything has happened. */
static void cq__cannot_overrun(void)
{
    static uint32_t in[MANY], out[MANY];
    struct fi_cq_tagged_entry entry;
    struct setup w;
    ssize_t err;

    setup_open(&w);
    for (uint32_t i = 0; i < MANY; i++) {
        out[i] = i;
        CU_ASSERT_EQUAL_FATAL(fi_trecv(w.f.b.ep, &in[i], 4, NULL, FI_ADDR_UNSPEC, 1, 0, &in[i]), 0);
        while ((err = fi_tsend(w.f.a.ep, &out[i], 4, NULL, w.f.b.addr, 1, &out[i])) == -FI_EAGAIN)
            ;
        CU_ASSERT_EQUAL_FATAL(err, 0);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        entry = ofi_fixture_entry(&w.f.b);
        CU_ASSERT_FATAL(entry.op_context == &in[i] && in[i] == i);
        CU_ASSERT_FATAL(ofi_fixture_entry(&w.f.a).op_context == &out[i]);
    }
    setup_close(&w);
}

static void cntr__wraps(void)
{
    struct setup w;

    setup_open(&w);
    struct fid_cntr *cntr = counter_open(w.f.domain);

    CU_ASSERT_EQUAL(fi_cntr_set(cntr, UINT64_MAX), 0);
    CU_ASSERT_EQUAL(fi_cntr_wait(cntr, UINT64_MAX, 0), 0);
    CU_ASSERT_EQUAL(fi_cntr_add(cntr, 2), 0);
    CU_ASSERT_EQUAL(fi_cntr_read(cntr), 1);
    CU_ASSERT_EQUAL(fi_cntr_wait(cntr, 2, 1), -FI_ETIMEDOUT);
    CU_ASSERT_EQUAL(fi_cntr_seterr(cntr, UINT64_MAX), 0);
    CU_ASSERT_EQUAL(fi_cntr_adderr(cntr, 1), 0);
    CU_ASSERT_EQUAL(fi_cntr_readerr(cntr), 0);
    /* a triggered operation compares with the sum, which cannot be represented */
    struct fi_op_cntr add = {.cntr = cntr, .value = UINT64_MAX};
    struct fi_deferred_work work = {.threshold = UINT64_MAX,
                                    .triggering_cntr = cntr,
                                    .op_type = FI_OP_CNTR_ADD,
                                    .op.cntr = &add};

    CU_ASSERT_EQUAL(fi_control(&w.f.domain->fid, FI_QUEUE_WORK, &work), 0);
    CU_ASSERT_EQUAL(fi_cntr_read(cntr), 1);
    CU_ASSERT_EQUAL(fi_cntr_seterr(cntr, UINT64_MAX), 0); /* starts the work */
    for (unsigned i = 0; i < 10000 && fi_cntr_read(cntr) != 0; i++)
        ;
    CU_ASSERT_EQUAL(fi_cntr_read(cntr), 0);
    closes(&cntr->fid);
    setup_close(&w);
}

/* Waiting calls with a time limit of 0 make progress, so a program may poll with them alone. */
static void waiting_calls__poll_with_a_limit_of_zero(void)
{
    static const struct ofi_fixture_config config = {.caps = CAPS,
                                                     .format = FI_CQ_FORMAT_TAGGED,
                                                     .wait_obj = FI_WAIT_UNSPEC,
                                                     .counters = true};
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;
    struct ofi_fixture f = ofi_fixture_open_with(&config);
    struct fi_cq_tagged_entry entry;
    static unsigned char in[FLIGHT_BYTES], out[FLIGHT_BYTES]; /* take many steps */

    CU_ASSERT_EQUAL_FATAL(fi_trecv(f.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_tsend(f.a.ep, out, sizeof out, NULL, f.b.addr, 1, NULL), 0);
    while (fi_cq_sread(f.b.cq, &entry, 1, NULL, 0) == -FI_EAGAIN)
        CU_ASSERT_FATAL(time(NULL) < until);
    CU_ASSERT_EQUAL_FATAL(fi_trecv(f.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_tsend(f.a.ep, out, sizeof out, NULL, f.b.addr, 1, NULL), 0);
    while (fi_cntr_wait(f.b.received, 2, 0) == -FI_ETIMEDOUT)
        CU_ASSERT_FATAL(time(NULL) < until);
    ofi_fixture_close(&f);
}

/* --- connections -------------------------------------------------------------------- */

/* A passive endpoint, a domain, and the event queues of both sides. */
struct meeting {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *server, *client;
    struct fid_pep *pep;
    struct fid_cq *cq;
    char name[OFI_FIXTURE_ADDR_BYTES];
};

static void meeting_open(struct meeting *m)
{
    struct fi_info *hints = ofi_fixture_hints(FI_MSG | FI_TAGGED);
    size_t bytes = sizeof m->name;

    hints->ep_attr->type = FI_EP_MSG;
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &m->info), 0);
    fi_freeinfo(hints);
    CU_ASSERT_EQUAL_FATAL(fi_fabric(m->info->fabric_attr, &m->fabric, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_domain(m->fabric, m->info, &m->domain, NULL), 0);
    m->server = events_open(m->fabric);
    m->client = events_open(m->fabric);
    m->cq = queue_open(m->domain, FI_WAIT_NONE, NULL);
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(m->fabric, m->info, &m->pep, NULL), 0);
    CU_ASSERT_EQUAL(fi_listen(m->pep), -FI_ENOEQ);
    CU_ASSERT_EQUAL(fi_pep_bind(m->pep, NULL, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL_FATAL(fi_pep_bind(m->pep, &m->server->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_listen(m->pep), 0);
    CU_ASSERT_EQUAL(fi_listen(m->pep), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL_FATAL(fi_getname(&m->pep->fid, m->name, &bytes), 0);
}

static void meeting_close(struct meeting *m)
{
    if (m->pep)
        closes(&m->pep->fid);
    closes(&m->server->fid);
    closes(&m->client->fid);
    closes(&m->cq->fid);
    closes(&m->domain->fid);
    closes(&m->fabric->fid);
    fi_freeinfo(m->info);
}

static struct fid_ep *end_open(struct meeting *m, struct fi_info *info, struct fid_eq *eq)
{
    struct fid_ep *ep = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_endpoint(m->domain, info, &ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_connect(ep, m->name, NULL, 0), -FI_ENOCQ);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(ep, &m->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL(fi_connect(ep, m->name, NULL, 0), -FI_ENOEQ);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(ep, &eq->fid, 0), 0);
    return ep;
}

static struct fid_ep *client_connect(struct meeting *m)
{
    struct fid_ep *ep = end_open(m, m->info, m->client);

    CU_ASSERT_EQUAL(fi_accept(ep, NULL, 0), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL(fi_shutdown(ep, 0), -FI_ENOTCONN);
    CU_ASSERT_EQUAL(fi_connect(ep, NULL, NULL, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_connect(ep, m->name, NULL, 1), -FI_EINVAL);
    CU_ASSERT_EQUAL_FATAL(fi_connect(ep, m->name, "hello", 5), 0);
    CU_ASSERT_EQUAL(fi_connect(ep, m->name, NULL, 0), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL(fi_send(ep, NULL, 0, NULL, 0, NULL), -FI_ENOTCONN);
    return ep;
}

/* Wait for this event. With FI_PEEK it stays in the queue. Returns the information in it. */
static struct fi_info *event_wait(struct fid_eq *eq, uint32_t wanted, uint64_t flags)
{
    struct {
        struct fi_eq_cm_entry entry;
        char data[256];
    } event = {0};
    uint32_t code = 0;
    ssize_t got;

    got = fi_eq_sread(eq, &code, &event, sizeof event, OFI_FIXTURE_PATIENCE_S * 1000, flags);
    CU_ASSERT_FATAL(got >= (ssize_t)sizeof event.entry && code == wanted);
    return event.entry.info;
}

static struct fi_eq_err_entry event_error(struct fid_eq *eq)
{
    struct fi_eq_err_entry error = {0};
    struct fi_eq_cm_entry entry;
    uint32_t code;

    CU_ASSERT_EQUAL_FATAL(fi_eq_sread(eq, &code, &entry, sizeof entry,
                                      OFI_FIXTURE_PATIENCE_S * 1000, 0),
                          -FI_EAVAIL);
    CU_ASSERT_FATAL(fi_eq_readerr(eq, &error, 0) > 0);
    return error;
}

static void connection__is_answered_once(void)
{
    struct meeting m = {0};
    struct fid_ep *late = NULL;
    struct fid_pep *stranger = NULL;

    meeting_open(&m);
    struct fid_ep *client = client_connect(&m);
    struct fi_info *info = event_wait(m.server, FI_CONNREQ, 0);
    struct fid_ep *server = end_open(&m, info, m.server), *other = end_open(&m, info, m.server);

    CU_ASSERT_EQUAL(fi_reject(m.pep, NULL, NULL, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_reject(m.pep, &client->fid, NULL, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(m.fabric, m.info, &stranger, NULL), 0);
    CU_ASSERT_EQUAL(fi_reject(stranger, info->handle, NULL, 0), -FI_EOPBADSTATE);
    closes(&stranger->fid);
    CU_ASSERT_EQUAL(fi_accept(server, NULL, 1), -FI_EINVAL);
    CU_ASSERT_EQUAL_FATAL(fi_accept(server, NULL, 0), 0);
    CU_ASSERT_EQUAL(fi_accept(server, NULL, 0), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL(fi_accept(other, NULL, 0), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL(fi_reject(m.pep, info->handle, NULL, 0), -FI_EOPBADSTATE);
    event_wait(m.client, FI_CONNECTED, 0);
    event_wait(m.server, FI_CONNECTED, FI_PEEK);
    closes(&other->fid);
    closes(&server->fid); /* its event, too, is gone */
    CU_ASSERT_EQUAL(fi_reject(m.pep, info->handle, NULL, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_endpoint(m.domain, info, &late, NULL), -FI_EINVAL);
    event_wait(m.client, FI_SHUTDOWN, 0);
    CU_ASSERT_EQUAL(fi_shutdown(client, 0), -FI_ENOTCONN);
    closes(&client->fid);
    fi_freeinfo(info);

    client = client_connect(&m);
    info = event_wait(m.server, FI_CONNREQ, 0);
    CU_ASSERT_EQUAL_FATAL(fi_reject(m.pep, info->handle, "no", 2), 0);
    CU_ASSERT_EQUAL(fi_reject(m.pep, info->handle, "no", 2), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_endpoint(m.domain, info, &late, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(event_error(m.client).err, FI_ECONNREFUSED);
    closes(&client->fid);
    fi_freeinfo(info);
    meeting_close(&m);
}

/*
 * A program of a version before 1.5 does not set err_data, and its structure has no err_data_size.
 * A later program may set a size without a buffer.
 */
static void readerr__writes_only_what_the_program_has(void)
{
    const size_t sizes[] = {offsetof(struct fi_eq_err_entry, err_data_size),
                            sizeof(struct fi_eq_err_entry)};

    for (unsigned i = 0; i < 2; i++) {
        struct meeting m = {0};
        struct fi_eq_cm_entry entry;
        struct fi_eq_err_entry error;
        uint32_t code;

        meeting_open(&m);
        m.fabric->api_version = FI_VERSION(1, 4 + i);
        struct fid_ep *client = client_connect(&m);
        struct fi_info *info = event_wait(m.server, FI_CONNREQ, 0);

        CU_ASSERT_EQUAL_FATAL(fi_reject(m.pep, info->handle, "no", 2), 0);
        CU_ASSERT_EQUAL_FATAL(fi_eq_sread(m.client, &code, &entry, sizeof entry,
                                          OFI_FIXTURE_PATIENCE_S * 1000, 0),
                              -FI_EAVAIL);
        memset(&error, 0xa5, sizeof error);
        if (i)
            error.err_data = NULL;
        CU_ASSERT_EQUAL(fi_eq_readerr(m.client, &error, 0), (ssize_t)sizes[i]);
        CU_ASSERT_EQUAL(error.err, FI_ECONNREFUSED);
        CU_ASSERT_EQUAL(memcmp(error.err_data, "no", 2), 0);
        CU_ASSERT_EQUAL(error.err_data_size, i ? 2 : UINT64_C(0xa5a5a5a5a5a5a5a5));
        closes(&client->fid);
        fi_freeinfo(info);
        meeting_close(&m);
    }
}

/* The passive endpoint closes before the program has read or answered the requests. */
static void requests__end_with_their_passive_endpoint(void)
{
    struct meeting m = {0};
    struct fid_ep *server = NULL;

    meeting_open(&m);
    struct fid_ep *first = client_connect(&m);
    struct fi_info *info = event_wait(m.server, FI_CONNREQ, 0);
    struct fid_ep *second = client_connect(&m);

    event_wait(m.server, FI_CONNREQ, FI_PEEK);
    closes(&m.pep->fid);
    m.pep = NULL;
    CU_ASSERT_EQUAL(fi_endpoint(m.domain, info, &server, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(event_error(m.client).err, FI_ECONNREFUSED);
    CU_ASSERT_EQUAL(event_error(m.client).err, FI_ECONNREFUSED);
    struct fi_eq_cm_entry entry;
    uint32_t code;

    CU_ASSERT_EQUAL(fi_eq_read(m.server, &code, &entry, sizeof entry, 0), -FI_EAGAIN);
    fi_freeinfo(info);
    closes(&first->fid);
    closes(&second->fid);
    meeting_close(&m);
}

/* Clients close in every state of their connection; events that the program wrote stay. */
static void connection__may_close_in_any_state(void)
{
    struct meeting m = {0};
    uint64_t state = test_seed();
    uint32_t code = 0;
    char text[8];

    meeting_open(&m);
    CU_ASSERT_EQUAL(fi_eq_write(m.client, FI_CONNECTED, "x", 1, 0), 1);
    CU_ASSERT_EQUAL(fi_eq_write(m.server, FI_CONNREQ, "x", 1, 0), 1);
    for (unsigned i = 0; i < TEST_TRIALS(40); i++) {
        struct fid_ep *client = client_connect(&m);

        for (uint64_t steps = test_draw(&state, 0, 60); steps; steps--)
            CU_ASSERT_EQUAL(fi_eq_read(m.server, &code, text, sizeof text, FI_PEEK), 1);
        closes(&client->fid);
    }
    CU_ASSERT(fi_eq_read(m.client, &code, text, sizeof text, 0) == 1 && code == FI_CONNECTED);
    meeting_close(&m); /* with requests that nobody has read */
}

/* Step the adapter, without handling messages to the server. */
static void client_poll(struct meeting *m, uint64_t times)
{
    struct fi_eq_cm_entry entry;
    uint32_t code;

    while (times--)
        CU_ASSERT_EQUAL(fi_eq_read(m->client, &code, &entry, sizeof entry, 0), -FI_EAGAIN);
}

/* The client closes before the server accepts, or before the client has handled that. */
static void connection__ends_if_the_client_has_closed(void)
{
    struct meeting m = {0};
    uint64_t state = test_seed();

    meeting_open(&m);
    for (unsigned i = 0; i < TEST_TRIALS(60); i++) {
        struct fid_ep *client = client_connect(&m);
        struct fi_info *info = event_wait(m.server, FI_CONNREQ, 0);
        struct fid_ep *server = end_open(&m, info, m.server);
        struct fi_eq_cm_entry entry;
        uint32_t code;

        if (i % 3 == 0)
            closes(&client->fid);
        CU_ASSERT_EQUAL_FATAL(fi_accept(server, NULL, 0), 0);
        for (uint64_t steps = test_draw(&state, 0, 40); i % 3 == 1 && steps; steps--)
            CU_ASSERT_EQUAL(fi_eq_read(m.server, &code, &entry, sizeof entry, 0), -FI_EAGAIN);
        if (i % 3)
            closes(&client->fid);
        CU_ASSERT_EQUAL(event_error(m.server).err, FI_ECONNABORTED);
        closes(&server->fid);
        fi_freeinfo(info);
    }
    meeting_close(&m);
}

/* The server closes after the client has been connected, but before the server has noticed that. */
static void connection__ends_if_the_accepting_server_has_closed(void)
{
    struct meeting m = {0};

    meeting_open(&m);
    struct fid_ep *client = client_connect(&m);
    struct fi_info *info = event_wait(m.server, FI_CONNREQ, 0);
    struct fid_ep *server = end_open(&m, info, m.server);

    CU_ASSERT_EQUAL_FATAL(fi_accept(server, NULL, 0), 0);
    event_wait(m.client, FI_CONNECTED, 0);
    closes(&server->fid);
    event_wait(m.client, FI_SHUTDOWN, 0);
    closes(&client->fid);
    fi_freeinfo(info);
    meeting_close(&m);
}

/* The passive endpoint closes before it has handled the request, or has closed before. */
static void connection__is_refused_by_a_closed_server(void)
{
    uint64_t state = test_seed();

    for (unsigned i = 0; i < TEST_TRIALS(20); i++) {
        struct meeting m = {0};

        meeting_open(&m);
        struct fid_ep *first = client_connect(&m), *second;

        client_poll(&m, test_draw(&state, 0, 20));
        closes(&m.pep->fid);
        m.pep = NULL;
        second = client_connect(&m);
        CU_ASSERT_EQUAL(event_error(m.client).err, FI_ECONNREFUSED);
        CU_ASSERT_EQUAL(event_error(m.client).err, FI_ECONNREFUSED);
        closes(&first->fid);
        closes(&second->fid);
        meeting_close(&m);
    }
}

/* A thread reads the event queue while another one opens and closes its connections. */
static void *events_read(void *arg)
{
    struct fid_eq *eq = arg;
    struct {
        struct fi_eq_cm_entry entry;
        char data[256];
    } event;
    struct fi_eq_err_entry error = {0};
    uint32_t code = 0;

    while (code != FI_NOTIFY) {
        ssize_t got = fi_eq_sread(eq, &code, &event, sizeof event, 1, 0);

        if (got == -FI_EAVAIL)
            fi_eq_readerr(eq, &error, 0);
        if (got > 0 && code == FI_CONNREQ)
            fi_freeinfo(event.entry.info);
    }
    return NULL;
}

static void connection__may_close_while_a_thread_reads_its_events(void)
{
    struct meeting m = {0};
    pthread_t reader[2];

    if (ofi_fixture_is_serial())
        return;
    meeting_open(&m);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&reader[0], NULL, events_read, m.client), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&reader[1], NULL, events_read, m.server), 0);
    for (unsigned i = 0; i < TEST_TRIALS(100); i++) {
        struct fid_ep *client = client_connect(&m);

        closes(&client->fid);
    }
    closes(&m.pep->fid);
    m.pep = NULL;
    fi_eq_write(m.client, FI_NOTIFY, "", 1, 0);
    fi_eq_write(m.server, FI_NOTIFY, "", 1, 0);
    pthread_join(reader[0], NULL);
    pthread_join(reader[1], NULL);
    meeting_close(&m);
}

/* --- many objects ------------------------------------------------------------------- */

#define OBJECTS 10000

static void objects__may_be_opened_very_often(void)
{
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    struct setup w;

    setup_open(&w);
    for (unsigned i = 0; i < TEST_TRIALS(OBJECTS); i++) {
        struct fid_ep *ep = NULL;
        struct fid_av *av = NULL;

        CU_ASSERT_EQUAL_FATAL(fi_av_open(w.f.domain, &attr, &av, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(fi_endpoint(w.f.domain, w.f.info, &ep, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(fi_ep_bind(ep, &av->fid, 0), 0);
        CU_ASSERT_EQUAL_FATAL(fi_ep_bind(ep, &w.f.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        CU_ASSERT_EQUAL_FATAL(fi_enable(ep), 0);
        struct fid_mr *mr = ofi_fixture_window(&w.f, w.memory, sizeof w.memory);

        closes(&mr->fid);
        closes(&ep->fid);
        closes(&av->fid);
    }
    works(&w, 1, 100);
    setup_close(&w);
}

/* Open endpoints until no queue numbers are left, close them, and open one more. */
static void endpoint__is_refused_without_a_free_queue(void)
{
    static struct fid_ep *ep[40000];
    unsigned count = 0;
    struct setup w;
    int err = 0;

    setup_open(&w);
    while (!err && count < LENGTH(ep)) {
        CU_ASSERT_EQUAL_FATAL(fi_endpoint(w.f.domain, w.f.info, &ep[count], NULL), 0);
        CU_ASSERT_EQUAL_FATAL(fi_ep_bind(ep[count], &w.f.av->fid, 0), 0);
        CU_ASSERT_EQUAL_FATAL(fi_ep_bind(ep[count], &w.f.a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        err = fi_enable(ep[count++]);
    }
    CU_ASSERT(err == -FI_EADDRINUSE && count > 32000);
    CU_ASSERT_EQUAL(fi_enable(ep[count - 1]), -FI_EADDRINUSE);
    closes(&ep[0]->fid);
    CU_ASSERT_EQUAL(fi_enable(ep[count - 1]), 0);
    while (--count)
        closes(&ep[count]->fid);
    works(&w, 1, 100);
    setup_close(&w);
}

/* --- threads ------------------------------------------------------------------------ */

#define THREADS 4

/* The context of an operation. The thread that reads its entry sets it. */
struct ticket {
    _Atomic int ended; /* 1: success, 2: an error */
};

/* One of the threads that use the same two endpoints and queues. */
struct worker {
    struct setup *w;
    uint64_t number;
    unsigned good;
    uint64_t in[64], out[64], never;
    struct ticket sent, received, cancelled;
};

static void tickets_read(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    ssize_t got = fi_cq_read(cq, &entry, 1);

    if (got == 1)
        atomic_store(&((struct ticket *)entry.op_context)->ended, 1);
    else if (got == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1) /* else another thread has */
        atomic_store(&((struct ticket *)error.op_context)->ended, 2);
}

static int ticket_wait(struct worker *me, struct ticket *ticket)
{
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;

    while (!atomic_load(&ticket->ended) && time(NULL) < until) {
        tickets_read(me->w->f.a.cq);
        tickets_read(me->w->f.b.cq);
    }
    return atomic_exchange(&ticket->ended, 0);
}

/* Send a message with a tag of this thread's own, receive it, and cancel another receive. */
static bool worker_turn(struct worker *me, uint64_t turn, size_t bytes)
{
    struct fid_ep *a = me->w->f.a.ep, *b = me->w->f.b.ep;
    struct iovec iov = {me->out, bytes};
    struct fi_msg_tagged msg = {.msg_iov = &iov,
                                .iov_count = 1,
                                .addr = me->w->f.b.addr,
                                .tag = me->number,
                                .context = &me->sent};
    uint64_t flags = (turn & 1 ? FI_INJECT : 0) | (turn % 16 == 3 ? FI_FENCE : 0);
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;
    ssize_t err;

    memset(me->in, 0, sizeof me->in);
    bytes_fill(me->out, bytes, turn);
    if (fi_trecv(b, me->in, bytes, NULL, FI_ADDR_UNSPEC, me->number, 0, &me->received) ||
        fi_trecv(b, &me->never, 8, NULL, FI_ADDR_UNSPEC, me->number + 1000, 0, &me->cancelled))
        return false;
    while ((err = fi_tsendmsg(a, &msg, flags)) == -FI_EAGAIN && time(NULL) < until)
        tickets_read(me->w->f.a.cq);
    return !err && !fi_cancel(&b->fid, &me->cancelled) && ticket_wait(me, &me->sent) == 1 &&
           ticket_wait(me, &me->received) == 1 && ticket_wait(me, &me->cancelled) == 2 &&
           bytes_filled(me->in, bytes, turn);
}

static void *worker_run(void *arg)
{
    struct worker *me = arg;
    uint64_t state = me->number + test_seed();

    for (unsigned i = 0; i < TEST_TRIALS(400); i++)
        me->good += worker_turn(me, i, test_draw(&state, 0, sizeof me->out));
    return NULL;
}

static void endpoint__may_be_used_by_many_threads(void)
{
    static struct worker worker[THREADS];
    pthread_t thread[THREADS];
    struct setup w;

    if (ofi_fixture_is_serial())
        return;
    setup_open(&w);
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.w = &w, .number = i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, worker_run, &worker[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CU_ASSERT_EQUAL(worker[i].good, TEST_TRIALS(400));
    }
    setup_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(bind__refuses_objects_that_do_not_fit),
        CASE(sets__refuse_objects_that_do_not_fit),
        CASE(close__refuses_objects_in_use),
        CASE(work__refuses_requests_without_arguments),
        CASE(flags__of_sending_calls_are_refused_or_obeyed),
        CASE(flags__of_receiving_calls_are_refused_or_obeyed),
        CASE(pieces__are_counted),
        CASE(messages__of_all_sizes_arrive),
        CASE(inject__takes_its_limit_and_no_more),
        CASE(huge_sizes__are_refused_or_truncated),
        CASE(region__is_protected),
        CASE(endpoint__may_close_while_operations_are_in_flight),
        CASE(endpoint__closed_does_not_stop_others),
        CASE(closing__fails_messages_that_nobody_received),
        CASE(region__closed_is_not_written),
        CASE(cancel__loses_no_message),
        CASE(cq__cannot_overrun),
        CASE(cntr__wraps),
        CASE(waiting_calls__poll_with_a_limit_of_zero),
        CASE(connection__is_answered_once),
        CASE(readerr__writes_only_what_the_program_has),
        CASE(requests__end_with_their_passive_endpoint),
        CASE(connection__may_close_in_any_state),
        CASE(connection__ends_if_the_client_has_closed),
        CASE(connection__ends_if_the_accepting_server_has_closed),
        CASE(connection__is_refused_by_a_closed_server),
        CASE(connection__may_close_while_a_thread_reads_its_events),
        CASE(objects__may_be_opened_very_often),
        CASE_ALONE(endpoint__is_refused_without_a_free_queue),
        CASE(endpoint__may_be_used_by_many_threads),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_hostile_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_hostile", cases);
}
