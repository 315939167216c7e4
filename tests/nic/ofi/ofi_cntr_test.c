/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_cntr_test.c - counters, triggered operations and deferred work of the libfabric provider.
 *
 * Needs a fabric: `fabemu run -- build/tests/…`. The two endpoints of the fixture are in this
 * process, so the adapter sends to itself. `a` starts operations on memory that `b` owns.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define PATIENCE_MS (OFI_FIXTURE_PATIENCE_S * 1000)
#define CAPS        (OFI_FIXTURE_CAPS_ALL | FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER)
#define WORDS       64

static const struct ofi_fixture_config all_counters = {.caps = CAPS,
                                                       .format = FI_CQ_FORMAT_TAGGED,
                                                       .bind_flags = FI_SELECTIVE_COMPLETION,
                                                       .all_counters = true};

/* The fixture, memory of b that a may access, and values of a. */
struct setup {
    struct ofi_fixture f;
    struct fid_mr *mr;
    uint64_t key;
    uint64_t memory[WORDS], value[WORDS];
};

static void setup_open(struct setup *w, const struct ofi_fixture_config *config)
{
    memset(w, 0, sizeof *w);
    w->f = ofi_fixture_open_with(config);
    w->mr = ofi_fixture_window(&w->f, w->memory, sizeof w->memory);
    w->key = fi_mr_key(w->mr);
}

static void setup_close(struct setup *w)
{
    CU_ASSERT_EQUAL(fi_close(&w->mr->fid), 0);
    ofi_fixture_close(&w->f);
}

static struct fid_cntr *counter_open_in(struct fid_domain *domain)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};
    struct fid_cntr *cntr = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_cntr_open(domain, &attr, &cntr, NULL), 0);
    return cntr;
}

static struct fid_cntr *counter_open(struct setup *w)
{
    return counter_open_in(w->f.domain);
}

static void counter_close(struct fid_cntr *cntr)
{
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), 0);
}

/* Wait until the sum of successes and errors is at least @sum, as deferred work does. */
static void await_sum(struct fid_cntr *cntr, uint64_t sum)
{
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;

    while (fi_cntr_read(cntr) + fi_cntr_readerr(cntr) < sum)
        CU_ASSERT_FATAL(time(NULL) < until);
}

static void counter_is(struct fid_cntr *cntr, uint64_t count, uint64_t errors)
{
    await_sum(cntr, count + errors);
    CU_ASSERT_EQUAL(fi_cntr_read(cntr), count);
    CU_ASSERT_EQUAL(fi_cntr_readerr(cntr), errors);
}

/* Let pending segments arrive. */
static void step(struct setup *w)
{
    for (unsigned i = 0; i < 300; i++)
        fi_cq_read(w->f.a.cq, NULL, 0);
}

static struct fi_triggered_context when(struct fid_cntr *cntr, uint64_t threshold)
{
    return (struct fi_triggered_context){
        .event_type = FI_TRIGGER_THRESHOLD,
        .trigger.threshold = {.cntr = cntr, .threshold = threshold},
    };
}

/* --- counting ----------------------------------------------------------------------- */

static void cntr__can_be_set_and_waited_for(void)
{
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr *cntr = counter_open(&w);

    CU_ASSERT_EQUAL(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
    CU_ASSERT_EQUAL(fi_cntr_add(cntr, 5), 0);
    CU_ASSERT_EQUAL(fi_cntr_wait(cntr, 5, -1), 0);
    CU_ASSERT_EQUAL(fi_cntr_set(cntr, 2), 0);
    CU_ASSERT_EQUAL(fi_cntr_adderr(cntr, 3), 0);
    counter_is(cntr, 2, 3);
    CU_ASSERT_EQUAL(fi_cntr_seterr(cntr, 1), 0);
    counter_is(cntr, 2, 1);
    CU_ASSERT_EQUAL(fi_cntr_wait(cntr, 3, 0), -FI_ETIMEDOUT); /* no new error */
    CU_ASSERT_EQUAL(fi_cntr_add(cntr, UINT64_MAX), 0);        /* wraps around */
    counter_is(cntr, 1, 1);
    counter_close(cntr);
    setup_close(&w);
}

static void write_words(struct setup *w, size_t words)
{
    CU_ASSERT_EQUAL(fi_write(w->f.a.ep, w->value, words * 8, NULL, w->f.b.addr, 0, w->key, NULL),
                    0);
}

static void add_word(struct setup *w, bool fetch)
{
    static uint64_t old;

    CU_ASSERT_EQUAL(fetch ? fi_fetch_atomic(w->f.a.ep, w->value, 1, NULL, &old, NULL, w->f.b.addr,
                                            0, w->key, FI_UINT64, FI_SUM, NULL)
                          : fi_atomic(w->f.a.ep, w->value, 1, NULL, w->f.b.addr, 0, w->key,
                                      FI_UINT64, FI_SUM, NULL),
                    0);
}

/* fi_endpoint(3): fetching atomics count as reads, others as writes, at both sides. */
static void endpoint__counts_its_operations_and_those_of_peers(void)
{
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr **a = w.f.a.count, **b = w.f.b.count;
    struct fi_rma_iov two[] = {{.addr = 0, .len = 8, .key = w.key},
                               {.addr = 64, .len = 8, .key = w.key}};
    struct iovec iov = {.iov_base = w.value, .iov_len = 16};
    struct fi_msg_rma pieces = {
        .msg_iov = &iov, .iov_count = 1, .addr = w.f.b.addr, .rma_iov = two, .rma_iov_count = 2};

    for (size_t words = 0; words < WORDS; words += 21)
        write_words(&w, words);
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &pieces, 0), 0); /* counts once */
    CU_ASSERT_EQUAL(fi_inject_write(w.f.a.ep, w.value, 8, w.f.b.addr, 0, w.key), 0);
    add_word(&w, false);
    counter_is(a[OFI_FIXTURE_WRITTEN], 7, 0);
    counter_is(b[OFI_FIXTURE_PEERS_WROTE], 7, 0);
    add_word(&w, true);
    for (size_t words = 0; words < WORDS; words += 63)
        CU_ASSERT_EQUAL(fi_read(w.f.a.ep, w.value, words * 8, NULL, w.f.b.addr, 0, w.key, NULL), 0);
    counter_is(a[OFI_FIXTURE_READ], 3, 0);
    counter_is(b[OFI_FIXTURE_PEERS_READ], 3, 0);
    CU_ASSERT_EQUAL(fi_recv(w.f.b.ep, w.memory, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    CU_ASSERT_EQUAL(fi_send(w.f.a.ep, w.value, 8, NULL, w.f.b.addr, NULL), 0);
    counter_is(a[OFI_FIXTURE_SENT], 1, 0);
    counter_is(b[OFI_FIXTURE_RECEIVED], 1, 0);
    /* refused: only the initiator counts */
    CU_ASSERT_EQUAL(fi_write(w.f.a.ep, w.value, 8, NULL, w.f.b.addr, sizeof w.memory, w.key, NULL),
                    0);
    counter_is(a[OFI_FIXTURE_WRITTEN], 7, 1);
    step(&w);
    counter_is(b[OFI_FIXTURE_PEERS_WROTE], 7, 0);
    counter_is(a[OFI_FIXTURE_PEERS_WROTE], 0, 0); /* the other endpoint of the same process */
    setup_close(&w);
}

static void endpoint__refuses_counters_it_cannot_bind(void)
{
    struct ofi_fixture f = ofi_fixture_open_with(&all_counters);
    struct fid_domain *other = NULL;
    struct fid_ep *ep = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_domain(f.fabric, f.info, &other, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(f.domain, f.info, &ep, NULL), 0);
    struct fid_cntr *near = counter_open_in(f.domain), *far = counter_open_in(other);

    CU_ASSERT_EQUAL(fi_ep_bind(ep, &far->fid, FI_SEND), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &near->fid, FI_SEND | FI_TAGGED), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &near->fid, FI_SEND | FI_REMOTE_READ), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &near->fid, FI_RECV | FI_SEND), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_close(&near->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    counter_close(near);
    counter_close(far);
    CU_ASSERT_EQUAL(fi_close(&other->fid), 0);
    ofi_fixture_close(&f);
}

static void region__counts_what_peers_do(void)
{
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr *reads = counter_open(&w), *writes = counter_open(&w);

    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &reads->fid, 0), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &reads->fid, FI_REMOTE_READ | FI_SEND), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &w.f.a.ep->fid, 0), -FI_ENOSYS);
    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &reads->fid, FI_REMOTE_READ), 0);
    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &writes->fid, FI_REMOTE_WRITE), 0);
    CU_ASSERT_EQUAL(fi_mr_bind(w.mr, &writes->fid, FI_REMOTE_READ), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_mr_enable(w.mr), 0); /* it was enabled */
    write_words(&w, 8);
    add_word(&w, false);
    add_word(&w, true); /* reads and modifies the region */
    CU_ASSERT_EQUAL(fi_read(w.f.a.ep, w.value, 8, NULL, w.f.b.addr, 0, w.key, NULL), 0);
    counter_is(writes, 3, 0);
    counter_is(reads, 2, 0);
    CU_ASSERT_EQUAL(fi_close(&reads->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&w.mr->fid), 0);
    counter_close(reads);
    counter_close(writes);
    w.mr = ofi_fixture_window(&w.f, w.memory, sizeof w.memory);
    setup_close(&w);
}

static struct fid_mr *region_with_event(struct setup *w)
{
    struct fid_mr *mr = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_mr_reg(w->f.domain, w->memory, sizeof w->memory,
                                    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 77, FI_RMA_EVENT, &mr,
                                    NULL),
                          0);
    return mr;
}

/* FI_MR_RMA_EVENT: no access before fi_mr_enable(), and no bindings afterwards. */
static void region__is_disabled_until_enabled(void)
{
    struct ofi_fixture_config config = all_counters;
    struct setup w;

    config.mr_mode = FI_MR_RMA_EVENT | FI_MR_PROV_KEY;
    setup_open(&w, &config);
    struct fid_cntr *writes = counter_open(&w);
    struct fid_mr *mr = region_with_event(&w);

    CU_ASSERT_EQUAL(w.f.info->domain_attr->mr_mode, FI_MR_RMA_EVENT);
    CU_ASSERT_EQUAL(fi_mr_key(mr), 77);
    w.key = 77;
    write_words(&w, 1);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 0, 1);
    CU_ASSERT_EQUAL(fi_mr_bind(mr, &writes->fid, FI_REMOTE_WRITE), 0);
    CU_ASSERT_EQUAL(fi_mr_enable(mr), 0);
    CU_ASSERT_EQUAL(fi_mr_bind(mr, &writes->fid, FI_REMOTE_READ), -FI_EOPBADSTATE);
    write_words(&w, 1);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 1, 1);
    counter_is(writes, 1, 0);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    mr = region_with_event(&w); /* closed without having been enabled */
    CU_ASSERT_EQUAL(fi_mr_bind(mr, &writes->fid, FI_REMOTE_WRITE), 0);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    counter_close(writes);
    setup_close(&w);
}

/* Nobody reads the counter while the adapter counts, so the descriptor must wake a sleeper. */
static void fd__wakes_for_what_peers_write(void)
{
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid *fid = &w.f.b.count[OFI_FIXTURE_PEERS_WROTE]->fid;
    struct pollfd pollfd = {.events = POLLIN};

    CU_ASSERT_EQUAL_FATAL(fi_control(fid, FI_GETWAIT, &pollfd.fd), 0);
    for (unsigned i = 1; i <= 50; i++) {
        CU_ASSERT_EQUAL(fi_trywait(w.f.fabric, &fid, 1), 0);
        write_words(&w, 1);
        CU_ASSERT_EQUAL(poll(&pollfd, 1, PATIENCE_MS), 1);
        counter_is(w.f.b.count[OFI_FIXTURE_PEERS_WROTE], i, 0);
    }
    setup_close(&w);
}

/* A region is closed while long writes to it are in flight. Each ends, and counts or fails. */
static void region__may_close_while_peers_write(void)
{
    enum { BYTES = 1 << 20 };
    struct setup w;
    char *to = calloc(1, BYTES), *from = calloc(1, BYTES);

    setup_open(&w, &all_counters);
    struct fid_cntr *writes = counter_open(&w), *written = w.f.a.count[OFI_FIXTURE_WRITTEN];

    for (uint64_t i = 1; i <= 50; i++) {
        struct fid_mr *mr = NULL;

        CU_ASSERT_EQUAL_FATAL(fi_mr_reg(w.f.domain, to, BYTES, FI_REMOTE_WRITE, 0, i, 0, &mr, NULL),
                              0);
        CU_ASSERT_EQUAL(fi_mr_bind(mr, &writes->fid, FI_REMOTE_WRITE), 0);
        CU_ASSERT_EQUAL(fi_write(w.f.a.ep, from, BYTES, NULL, w.f.b.addr, 0, fi_mr_key(mr), NULL),
                        0);
        for (uint64_t steps = 0; steps < i; steps++)
            fi_cntr_read(writes);
        CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
        await_sum(written, i);
    }
    CU_ASSERT_EQUAL(fi_cntr_read(writes), fi_cntr_read(written));
    counter_close(writes);
    setup_close(&w);
    free(to);
    free(from);
}

/* --- triggered operations ----------------------------------------------------------- */

/* Sends start in the order of thresholds, and read their data then. */
static void trigger__starts_sends_in_order(void)
{
    static const uint64_t thresholds[] = {3, 1, 2, 1, 9};
    struct fi_triggered_context context[5];
    struct setup w;
    uint64_t got[4] = {0};

    setup_open(&w, &all_counters);
    struct fid_cntr *cntr = counter_open(&w);

    for (unsigned i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(fi_trecv(w.f.b.ep, &got[i], 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
    for (unsigned i = 0; i < 5; i++) {
        struct iovec iov = {.iov_base = &w.value[i], .iov_len = 8};
        struct fi_msg_tagged msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = w.f.b.addr, .tag = 5, .context = &context[i]};

        context[i] = when(cntr, thresholds[i]);
        CU_ASSERT_EQUAL(fi_tsendmsg(w.f.a.ep, &msg, FI_TRIGGER | FI_COMPLETION), 0);
    }
    for (unsigned i = 0; i < 5; i++)
        w.value[i] = 100 + i;
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
    fi_cntr_adderr(cntr, 10); /* errors start nothing, and fail nothing */
    step(&w);
    counter_is(w.f.a.count[OFI_FIXTURE_SENT], 0, 0);
    fi_cntr_add(cntr, 3);
    counter_is(w.f.b.count[OFI_FIXTURE_RECEIVED], 4, 0);
    counter_is(w.f.a.count[OFI_FIXTURE_SENT], 4, 0);
    CU_ASSERT(got[0] == 101 && got[1] == 103 && got[2] == 102 && got[3] == 100);
    for (unsigned i = 0; i < 4; i++) /* each entry has its own context */
        CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&w.f.a).op_context, &context[got[i] - 100]);
    CU_ASSERT_EQUAL(fi_cancel(&w.f.a.ep->fid, &context[4]), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&w.f.a).err, FI_ECANCELED);
    CU_ASSERT_EQUAL(fi_cancel(&w.f.a.ep->fid, &context[4]), -FI_ENOENT);
    counter_close(cntr);
    setup_close(&w);
}

/*
 * A receive takes no message before it starts. Receives start in the order of thresholds, so the
 * first of two messages goes to the receive that was posted last.
 */
static void trigger__starts_receives_in_order(void)
{
    struct fi_triggered_context context[4];
    uint64_t got[4] = {0};
    struct fi_cq_tagged_entry entry;
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr *cntr = counter_open(&w);

    for (unsigned i = 0; i < 4; i++) {
        struct iovec iov = {.iov_base = &got[i], .iov_len = 8};
        struct fi_msg_tagged msg = {
            .msg_iov = &iov, .iov_count = 1, .addr = w.f.a.addr, .tag = 5, .context = &context[i]};

        context[i] = when(cntr, 4 - i);
        CU_ASSERT_EQUAL(fi_trecvmsg(w.f.b.ep, &msg, FI_TRIGGER | FI_COMPLETION), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        w.value[i] = 100 + i;
        CU_ASSERT_EQUAL(fi_tsend(w.f.a.ep, &w.value[i], 8, NULL, w.f.b.addr, 5, NULL), 0);
    }
    counter_is(w.f.a.count[OFI_FIXTURE_SENT], 2, 0);
    CU_ASSERT(ofi_fixture_quiet(&w.f.b));
    fi_cntr_add(cntr, 3);
    for (unsigned i = 0; i < 2; i++) {
        entry = ofi_fixture_entry(&w.f.b);
        CU_ASSERT(entry.op_context == &context[3 - i] && entry.tag == 5 && entry.len == 8);
        CU_ASSERT(got[3 - i] == 100 + i);
    }
    CU_ASSERT_EQUAL(fi_tsend(w.f.a.ep, &w.value[0], 8, NULL, w.f.b.addr, 5, NULL), 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&w.f.b).op_context, &context[1]);
    counter_is(w.f.b.count[OFI_FIXTURE_RECEIVED], 3, 0);
    CU_ASSERT_EQUAL(fi_cancel(&w.f.b.ep->fid, &context[0]), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&w.f.b).err, FI_ECANCELED);
    CU_ASSERT_EQUAL(got[0], 0);
    struct fi_msg never = {.context = &context[0]};

    CU_ASSERT_EQUAL(fi_recvmsg(w.f.b.ep, &never, FI_TRIGGER), 0); /* ends with its endpoint */
    counter_is(w.f.a.count[OFI_FIXTURE_SENT], 3, 0);
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
    CU_ASSERT(ofi_fixture_endpoint_close(&w.f.b));
    counter_close(cntr);
    CU_ASSERT(ofi_fixture_endpoint_open(&w.f, &w.f.b, &all_counters));
    setup_close(&w);
}

static ssize_t triggered_rma(struct setup *w, bool read, struct fi_triggered_context *context,
                             size_t pieces)
{
    struct fi_rma_iov remote[] = {{.addr = 0, .len = 8, .key = w->key},
                                  {.addr = 8, .len = 8, .key = w->key}};
    struct iovec iov = {.iov_base = w->value, .iov_len = 8 * pieces};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = w->f.b.addr,
                             .rma_iov = remote,
                             .rma_iov_count = pieces,
                             .context = context};

    return read ? fi_readmsg(w->f.a.ep, &msg, FI_TRIGGER)
                : fi_writemsg(w->f.a.ep, &msg, FI_TRIGGER);
}

static ssize_t triggered_add(struct setup *w, struct fi_triggered_context *context, uint64_t flags)
{
    struct fi_ioc ioc = {.addr = &w->value[8], .count = 1};
    struct fi_rma_ioc remote = {.count = 1, .key = w->key};
    struct fi_msg_atomic msg = {.msg_iov = &ioc,
                                .iov_count = 1,
                                .addr = w->f.b.addr,
                                .rma_iov = &remote,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM,
                                .context = context};

    return fi_atomicmsg(w->f.a.ep, &msg, FI_TRIGGER | flags);
}

/* A peer's write triggers an atomic, whose completion triggers a write, which triggers a read. */
static void trigger__runs_a_chain_in_the_adapter(void)
{
    struct fi_triggered_context context[3];
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w), *written = w.f.a.count[OFI_FIXTURE_WRITTEN];

    w.memory[0] = 100;
    context[0] = when(go, 1);
    context[1] = when(written, 1);
    context[2] = when(written, 2);
    CU_ASSERT_EQUAL(triggered_rma(&w, true, &context[2], 2), 0);
    CU_ASSERT_EQUAL(triggered_rma(&w, false, &context[1], 2), 0);
    CU_ASSERT_EQUAL(triggered_add(&w, &context[0], 0), 0);
    step(&w);
    CU_ASSERT_EQUAL(w.memory[0], 100);
    w.value[0] = 1, w.value[1] = 2, w.value[8] = 11; /* read when the operations start */
    fi_cntr_set(go, 7);
    counter_is(w.f.a.count[OFI_FIXTURE_READ], 1, 0);
    counter_is(written, 2, 0);
    CU_ASSERT(w.memory[0] == 1 && w.memory[1] == 2);
    CU_ASSERT_EQUAL(triggered_add(&w, &context[0], 0), 0); /* it is due at once */
    counter_is(written, 3, 0);
    CU_ASSERT_EQUAL(w.memory[0], 12);
    context[0] = when(go, 8);
    CU_ASSERT_EQUAL(triggered_add(&w, &context[0], FI_INJECT), 0); /* reads its operand now */
    w.value[8] = 1000;
    fi_cntr_add(go, 1);
    counter_is(written, 4, 0);
    CU_ASSERT_EQUAL(w.memory[0], 23);
    counter_close(go);
    setup_close(&w);
}

/* An array in two pieces that are too large for one segment. */
static void trigger__reads_arrays_of_operands_when_it_starts(void)
{
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w);
    struct fi_triggered_context context = when(go, 1);
    struct fi_ioc ioc[2] = {{.addr = &w.value[10], .count = 40}, {.addr = w.value, .count = 3}};
    struct fi_rma_ioc remote = {.count = 43, .key = w.key};
    struct fi_msg_atomic msg = {.msg_iov = ioc,
                                .iov_count = 2,
                                .addr = w.f.b.addr,
                                .rma_iov = &remote,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM,
                                .context = &context};

    CU_ASSERT_EQUAL(fi_atomicmsg(w.f.a.ep, &msg, FI_TRIGGER), 0);
    for (unsigned i = 0; i < 50; i++)
        w.value[i] = i + 1;
    fi_cntr_add(go, 1);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 1, 0);
    for (unsigned i = 0; i < 43; i++)
        CU_ASSERT_EQUAL(w.memory[i], i < 40 ? i + 11 : i - 39);
    counter_close(go);
    setup_close(&w);
}

/* One piece names no region: the whole fails once, and its other piece is written. */
static void trigger__reports_a_failed_part_once(void)
{
    struct setup w;

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w);
    struct fi_triggered_context context = when(go, 1);
    struct fi_rma_iov remote[] = {{.addr = 0, .len = 8, .key = w.key + 12345},
                                  {.addr = 8, .len = 8, .key = w.key}};
    struct iovec iov = {.iov_base = w.value, .iov_len = 16};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .iov_count = 1,
                             .addr = w.f.b.addr,
                             .rma_iov = remote,
                             .rma_iov_count = 2,
                             .context = &context};

    w.value[1] = 5;
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, FI_TRIGGER), 0);
    fi_cntr_add(go, 1);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 0, 1);
    struct fi_cq_err_entry error = ofi_fixture_error(&w.f.a);

    CU_ASSERT(error.err == FI_EACCES && error.op_context == &context);
    CU_ASSERT_EQUAL(w.memory[1], 5);
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, FI_TRIGGER), 0);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 0, 2);
    CU_ASSERT_EQUAL(ofi_fixture_error(&w.f.a).err, FI_EACCES);
    context = when(go, 100);
    CU_ASSERT_EQUAL(fi_writemsg(w.f.a.ep, &msg, FI_TRIGGER), 0);
    CU_ASSERT_EQUAL(fi_cancel(&w.f.a.ep->fid, &context), 0); /* both pieces */
    CU_ASSERT_EQUAL(ofi_fixture_error(&w.f.a).err, FI_ECANCELED);
    counter_close(go);
    setup_close(&w);
}

static void trigger__refuses_what_it_cannot_trigger(void)
{
    struct ofi_fixture_config config = all_counters;
    struct fid_domain *other = NULL;
    struct setup w;

    setup_open(&w, &all_counters);
    CU_ASSERT_EQUAL_FATAL(fi_domain(w.f.fabric, w.f.info, &other, NULL), 0);
    struct fid_cntr *far = counter_open_in(other);
    struct fi_triggered_context wrong = when(far, 1);
    struct iovec iov = {.iov_base = w.value, .iov_len = 8};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = w.f.b.addr};

    CU_ASSERT_EQUAL(fi_sendmsg(w.f.a.ep, &msg, FI_TRIGGER), -FI_EINVAL); /* no context */
    CU_ASSERT_EQUAL(triggered_rma(&w, true, &wrong, 1), -FI_EINVAL);
    wrong = when(NULL, 1);
    CU_ASSERT_EQUAL(triggered_add(&w, &wrong, 0), -FI_EINVAL);
    wrong.event_type = FI_TRIGGER_XPU;
    CU_ASSERT_EQUAL(triggered_add(&w, &wrong, 0), -FI_ENOSYS);
    wrong.event_type = 99;
    CU_ASSERT_EQUAL(triggered_add(&w, &wrong, 0), -FI_EINVAL);
    wrong = when(w.f.a.count[0], 1);
    msg.context = &wrong;
    CU_ASSERT_EQUAL(fi_recvmsg(w.f.a.ep, &msg, FI_TRIGGER | FI_MULTI_RECV), -FI_ENOSYS);
    msg.context = NULL;
    CU_ASSERT_EQUAL(fi_recvmsg(w.f.a.ep, &msg, FI_TRIGGER), -FI_EINVAL);
    counter_close(far);
    CU_ASSERT_EQUAL(fi_close(&other->fid), 0);
    setup_close(&w);
    config.caps &= ~FI_TRIGGER;
    setup_open(&w, &config);
    wrong = when(w.f.a.count[0], 1);
    CU_ASSERT_EQUAL(triggered_add(&w, &wrong, 0), -FI_EBADFLAGS);
    setup_close(&w);
}

/* An alias whose flags include FI_TRIGGER needs no flags argument. */
static void alias__has_flags_of_its_own(void)
{
    struct setup w;
    struct fid_ep *alias = NULL;
    uint64_t flags = FI_TRANSMIT;

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w);
    struct fi_triggered_context context = when(go, 2);

    CU_ASSERT_EQUAL(fi_ep_alias(w.f.a.ep, &alias, FI_TRIGGER), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_ep_alias(w.f.a.ep, &alias, FI_TRANSMIT | FI_MULTI_RECV), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL_FATAL(fi_ep_alias(w.f.a.ep, &alias, FI_TRANSMIT | FI_TRIGGER), 0);
    CU_ASSERT_EQUAL(fi_control(&alias->fid, FI_GETOPSFLAG, &flags), 0);
    CU_ASSERT_EQUAL(flags, FI_TRIGGER);
    w.value[0] = 3;
    CU_ASSERT_EQUAL(fi_write(alias, w.value, 8, NULL, w.f.b.addr, 0, w.key, &context), 0);
    CU_ASSERT_EQUAL(fi_write(w.f.a.ep, w.value, 8, NULL, w.f.b.addr, 8, w.key, NULL), 0);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 1, 0);
    CU_ASSERT(w.memory[0] == 0 && w.memory[1] == 3);
    fi_cntr_add(go, 2);
    counter_is(w.f.a.count[OFI_FIXTURE_WRITTEN], 2, 0);
    CU_ASSERT_EQUAL(w.memory[0], 3);
    CU_ASSERT_EQUAL(fi_close(&w.f.a.ep->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&alias->fid), 0);
    counter_close(go);
    setup_close(&w);
}

static void endpoint__cancels_what_waits_when_it_closes(void)
{
    struct setup w;
    struct fi_triggered_context context[100];

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w);

    for (unsigned i = 0; i < 100; i++) {
        context[i] = when(go, i % 2 ? UINT64_MAX : 5);
        CU_ASSERT_EQUAL(triggered_rma(&w, false, &context[i], 2), 0);
    }
    CU_ASSERT_EQUAL(fi_close(&go->fid), -FI_EBUSY);
    ofi_fixture_endpoint_close(&w.f.a);
    fi_cntr_add(go, 5);
    CU_ASSERT_EQUAL(w.memory[0], 0);
    counter_close(go);
    CU_ASSERT(ofi_fixture_endpoint_open(&w.f, &w.f.a, &all_counters));
    setup_close(&w);
}

/* --- deferred work ------------------------------------------------------------------ */

/* A request of deferred work, and everything that it refers to. */
struct request {
    struct fi_deferred_work work;
    union {
        struct fi_op_msg msg;
        struct fi_op_rma rma;
        struct fi_op_fetch_atomic fetch;
        struct fi_op_cntr cntr;
    } op;
    struct iovec iov;
    struct fi_ioc ioc, result;
    struct fi_rma_iov remote;
    struct fi_rma_ioc remote_ioc;
};

static int control(struct setup *w, int command, void *arg)
{
    return fi_control(&w->f.domain->fid, command, arg);
}

static int queue_when(struct setup *w, struct request *r, struct fid_cntr *trigger,
                      uint64_t threshold, struct fid_cntr *completion)
{
    r->work.triggering_cntr = trigger;
    r->work.threshold = threshold;
    r->work.completion_cntr = completion;
    return control(w, FI_QUEUE_WORK, &r->work);
}

static void to_write(struct setup *w, struct request *r, uint64_t *value, size_t word)
{
    *r = (struct request){.work = {.op_type = FI_OP_WRITE, .op.rma = &r->op.rma}};
    r->iov = (struct iovec){.iov_base = value, .iov_len = 8};
    r->remote = (struct fi_rma_iov){.addr = word * 8, .len = 8, .key = w->key};
    r->op.rma = (struct fi_op_rma){.ep = w->f.a.ep,
                                   .msg = {.msg_iov = &r->iov,
                                           .iov_count = 1,
                                           .addr = w->f.b.addr,
                                           .rma_iov = &r->remote,
                                           .rma_iov_count = 1}};
}

static void to_send(struct setup *w, struct request *r, uint64_t *value, void *context)
{
    *r = (struct request){.work = {.op_type = FI_OP_SEND, .op.msg = &r->op.msg}};
    r->iov = (struct iovec){.iov_base = value, .iov_len = 8};
    r->op.msg = (struct fi_op_msg){
        .ep = w->f.a.ep,
        .msg = {.msg_iov = &r->iov, .iov_count = 1, .addr = w->f.b.addr, .context = context},
        .flags = FI_COMPLETION};
}

static void to_fetch_add(struct setup *w, struct request *r, uint64_t *value, uint64_t *result)
{
    *r = (struct request){.work = {.op_type = FI_OP_FETCH_ATOMIC, .op.fetch_atomic = &r->op.fetch}};
    r->ioc = (struct fi_ioc){.addr = value, .count = 1};
    r->result = (struct fi_ioc){.addr = result, .count = 1};
    r->remote_ioc = (struct fi_rma_ioc){.count = 1, .key = w->key};
    r->op.fetch = (struct fi_op_fetch_atomic){.ep = w->f.a.ep,
                                              .msg = {.msg_iov = &r->ioc,
                                                      .iov_count = 1,
                                                      .addr = w->f.b.addr,
                                                      .rma_iov = &r->remote_ioc,
                                                      .rma_iov_count = 1,
                                                      .datatype = FI_UINT64,
                                                      .op = FI_SUM},
                                              .fetch = {.msg_iov = &r->result, .iov_count = 1}};
}

static void to_change(struct request *r, enum fi_op_type type, struct fid_cntr *cntr,
                      uint64_t value)
{
    *r = (struct request){.work = {.op_type = type, .op.cntr = &r->op.cntr}};
    r->op.cntr = (struct fi_op_cntr){.cntr = cntr, .value = value};
}

/* Only the completion counters count, and only what requests FI_COMPLETION has an entry. */
static void work__runs_a_chain_of_all_kinds(void)
{
    struct setup w;
    struct request r[5];
    struct fid_cntr *c[5];
    uint64_t got = 0, old = 0;

    setup_open(&w, &all_counters);
    for (unsigned i = 0; i < 5; i++)
        c[i] = counter_open(&w);
    CU_ASSERT_EQUAL(fi_recv(w.f.b.ep, &got, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    to_write(&w, &r[0], &w.value[0], 0);
    to_fetch_add(&w, &r[1], &w.value[1], &old);
    to_change(&r[2], FI_OP_CNTR_ADD, c[3], 4);
    to_change(&r[3], FI_OP_CNTR_SET, c[2], 70);
    to_send(&w, &r[4], &old, &got);
    CU_ASSERT_EQUAL(queue_when(&w, &r[4], c[2], 70, c[4]), 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r[3], c[3], 4, NULL), 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r[2], c[2], 1, NULL), 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r[1], c[1], 1, c[2]), 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r[0], c[0], 1, c[1]), 0);
    w.value[0] = 40, w.value[1] = 2;
    fi_cntr_add(c[0], 1);
    counter_is(c[4], 1, 0);
    counter_is(w.f.b.count[OFI_FIXTURE_RECEIVED], 1, 0);
    CU_ASSERT(got == 40 && w.memory[0] == 42);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&w.f.a).op_context, &got);
    CU_ASSERT(ofi_fixture_quiet(&w.f.a));
    for (unsigned i = 0; i < 4; i++)
        counter_is(w.f.a.count[i], 0, 0);
    for (unsigned i = 0; i < 5; i++)
        counter_close(c[i]);
    setup_close(&w);
}

/* fi_trigger(3): the threshold is compared with the sum of the success and the error values. */
/* When a message arrives, the adapter itself answers it, without a thread of the program. */
static void work__receives_and_answers(void)
{
    struct setup w;
    struct request r[2];
    uint64_t got = 0, back = 0;

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w), *arrived = counter_open(&w);

    to_send(&w, &r[0], &got, NULL);
    r[0].work.op_type = FI_OP_RECV;
    r[0].op.msg.ep = w.f.b.ep;
    r[0].op.msg.msg.addr = w.f.a.addr;
    r[0].op.msg.flags = 0;
    to_send(&w, &r[1], &got, NULL);
    r[1].op.msg.ep = w.f.b.ep;
    r[1].op.msg.msg.addr = w.f.a.addr;
    r[1].op.msg.flags = 0;
    CU_ASSERT_EQUAL(queue_when(&w, &r[1], arrived, 1, NULL), 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r[0], go, 1, arrived), 0);
    CU_ASSERT_EQUAL(fi_recv(w.f.a.ep, &back, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
    w.value[0] = 77;
    CU_ASSERT_EQUAL(fi_send(w.f.a.ep, w.value, 8, NULL, w.f.b.addr, NULL), 0);
    step(&w);
    CU_ASSERT_EQUAL(fi_cntr_read(arrived), 0);
    fi_cntr_add(go, 1);
    counter_is(w.f.a.count[OFI_FIXTURE_RECEIVED], 1, 0);
    CU_ASSERT(back == 77 && got == 77);
    CU_ASSERT(ofi_fixture_quiet(&w.f.b)); /* deferred work is not reported by default */
    counter_is(w.f.b.count[OFI_FIXTURE_RECEIVED], 0, 0);
    counter_is(arrived, 1, 0);
    to_send(&w, &r[0], &got, NULL);
    r[0].work.op_type = FI_OP_RECV;
    CU_ASSERT_EQUAL(queue_when(&w, &r[0], go, 9, arrived), 0);
    CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &r[0].work), 0);
    counter_is(arrived, 1, 0);
    counter_close(go);
    counter_close(arrived);
    setup_close(&w);
}

static void work__starts_after_failures_too(void)
{
    struct setup w;
    struct request r[2];

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w), *ended = counter_open(&w), *last = counter_open(&w);

    to_write(&w, &r[0], &w.value[0], WORDS); /* outside the region */
    to_write(&w, &r[1], &w.value[1], 1);
    w.value[1] = 9;
    CU_ASSERT_EQUAL(queue_when(&w, &r[1], ended, 1, last), 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r[0], go, 0, ended), 0);
    counter_is(ended, 0, 1);
    counter_is(last, 1, 0);
    CU_ASSERT_EQUAL(w.memory[1], 9);
    counter_close(go);
    counter_close(ended);
    counter_close(last);
    setup_close(&w);
}

/* Cancelled work does nothing, counts nowhere, and starts no other work. */
static void work__can_be_cancelled_and_flushed(void)
{
    struct setup w;
    struct request r[4];

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w), *next = counter_open(&w), *other = counter_open(&w);
    struct fi_deferred_work waits_for = {.triggering_cntr = go};

    CU_ASSERT_EQUAL(control(&w, FI_FLUSH_WORK, NULL), 0);
    for (unsigned round = 0; round < 3; round++) {
        to_write(&w, &r[0], &w.value[0], 0);
        to_change(&r[1], FI_OP_CNTR_ADD, other, 1);
        to_write(&w, &r[2], &w.value[0], 1);
        to_change(&r[3], FI_OP_CNTR_ADD, other, 10);
        CU_ASSERT_EQUAL(queue_when(&w, &r[0], go, 1, next), 0);
        CU_ASSERT_EQUAL(queue_when(&w, &r[1], next, 1, NULL), 0);
        CU_ASSERT_EQUAL(queue_when(&w, &r[2], go, 1, next), 0);
        CU_ASSERT_EQUAL(queue_when(&w, &r[3], other, 1000, NULL), 0);
        CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &r[2].work), 0);
        CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &r[2].work), -FI_ENOENT);
        CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &waits_for), -FI_ENOENT);
        CU_ASSERT_EQUAL(fi_close(&next->fid), -FI_EBUSY);
        if (round)
            CU_ASSERT_EQUAL(control(&w, FI_FLUSH_WORK, round == 1 ? &waits_for : NULL), 0);
        CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &r[0].work), round ? -FI_ENOENT : 0);
        CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &r[1].work), round == 2 ? -FI_ENOENT : 0);
        CU_ASSERT_EQUAL(control(&w, FI_CANCEL_WORK, &r[3].work), round == 2 ? -FI_ENOENT : 0);
        fi_cntr_add(go, 1);
        step(&w);
        counter_is(next, 0, 0);
        counter_is(other, 0, 0);
        fi_cntr_set(go, 0);
    }
    counter_close(go);
    counter_close(next);
    counter_close(other);
    setup_close(&w);
}

static void work__refuses_what_it_cannot_do(void)
{
    struct ofi_fixture_config config = all_counters;
    struct setup w;
    struct request r;

    config.caps &= ~FI_TRIGGER;
    setup_open(&w, &config);
    to_write(&w, &r, w.value, 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r, w.f.a.count[0], 1, NULL), -FI_EINVAL);
    setup_close(&w);
    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w);

    CU_ASSERT_EQUAL(control(&w, FI_QUEUE_WORK, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(control(&w, FI_ENABLE, NULL), -FI_ENOSYS);
    to_write(&w, &r, w.value, 0);
    CU_ASSERT_EQUAL(queue_when(&w, &r, NULL, 1, go), -FI_EINVAL);
    r.op.rma.ep = NULL;
    CU_ASSERT_EQUAL(queue_when(&w, &r, go, 1, go), -FI_EINVAL);
    to_write(&w, &r, w.value, 0);
    r.op.rma.flags = FI_MULTI_RECV;
    CU_ASSERT_EQUAL(queue_when(&w, &r, go, 1, go), -FI_EBADFLAGS);
    r.work.op_type = FI_OP_CNTR_ADD + 99;
    CU_ASSERT_EQUAL(queue_when(&w, &r, go, 1, go), -FI_ENOSYS);
    to_change(&r, FI_OP_CNTR_ADD, go, 1);
    CU_ASSERT_EQUAL(queue_when(&w, &r, go, 1, go), -FI_EINVAL);
    to_change(&r, FI_OP_CNTR_ADD, NULL, 1);
    CU_ASSERT_EQUAL(queue_when(&w, &r, go, 1, NULL), -FI_EINVAL);
    counter_close(go); /* nothing refers to it */
    setup_close(&w);
}

static void work__may_be_plenty(void)
{
    enum { MANY = 20000 };
    struct setup w;
    struct request *r = calloc(MANY, sizeof *r);

    setup_open(&w, &all_counters);
    struct fid_cntr *go = counter_open(&w), *written = counter_open(&w);

    for (unsigned i = 0; i < MANY; i++) {
        if (i % 2)
            to_write(&w, &r[i], &w.value[i % WORDS], i % WORDS);
        else
            to_change(&r[i], FI_OP_CNTR_ADD, go, 1);
        CU_ASSERT_EQUAL(queue_when(&w, &r[i], go, i % 4 < 2 ? i / 2 + 1 : UINT64_MAX,
                                   i % 2 ? written : NULL),
                        0);
    }
    for (unsigned i = 0; i < MANY; i += 8) /* each of these starts others */
        fi_cntr_add(go, 4);
    counter_is(written, MANY / 4, 0);
    CU_ASSERT_EQUAL(control(&w, FI_FLUSH_WORK, NULL), 0);
    counter_is(written, MANY / 4, 0);
    counter_close(go);
    counter_close(written);
    setup_close(&w);
    free(r);
}

/* --- several threads ---------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 300 };

struct worker {
    struct setup *w;
    struct fid_cntr *go, *count;
    unsigned number;
    uint64_t completions; /* expected */
};

/* Each thread queues work, and cancels some of it before or after its trigger. */
static void *worker_run(void *arg)
{
    struct worker *self = arg;
    struct setup *w = self->w;
    struct request r[2];
    uint64_t value = self->number;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        bool before = i % 3 == 1, after = i % 3 == 2, cancelled;

        to_write(w, &r[0], &value, self->number);
        to_change(&r[1], FI_OP_CNTR_ADD, self->count, 1);
        if (queue_when(w, &r[0], self->go, i, self->count) ||
            queue_when(w, &r[1], self->go, i + 1, NULL))
            return NULL; /* the number of completions will be wrong */
        cancelled = before && !control(w, FI_CANCEL_WORK, &r[0].work);
        fi_cntr_add(self->go, 1);
        cancelled |= after && !control(w, FI_CANCEL_WORK, &r[0].work);
        cancelled |= control(w, FI_CANCEL_WORK, &r[1].work) != 0;
        self->completions += !cancelled;
        while (fi_cntr_read(self->count) < self->completions)
            ;
    }
    return NULL;
}

static void work__may_be_used_by_many_threads(void)
{
    struct worker worker[THREADS];
    pthread_t thread[THREADS];
    struct setup w;

    if (ofi_fixture_is_serial())
        return;
    setup_open(&w, &all_counters);
    for (unsigned i = 0; i < THREADS; i++) {
        worker[i] = (struct worker){.w = &w,
                                    .go = counter_open(&w),
                                    .count = counter_open(&w),
                                    .number = i};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, worker_run, &worker[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        CU_ASSERT(worker[i].completions >= ROUNDS / 3 && worker[i].completions < ROUNDS);
        counter_is(worker[i].count, worker[i].completions, 0);
        counter_close(worker[i].go);
        counter_close(worker[i].count);
    }
    setup_close(&w);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(cntr__can_be_set_and_waited_for),
        CASE(endpoint__counts_its_operations_and_those_of_peers),
        CASE(endpoint__refuses_counters_it_cannot_bind),
        CASE(region__counts_what_peers_do),
        CASE(region__is_disabled_until_enabled),
        CASE(fd__wakes_for_what_peers_write),
        CASE(region__may_close_while_peers_write),
        CASE(trigger__starts_sends_in_order),
        CASE(trigger__starts_receives_in_order),
        CASE(trigger__runs_a_chain_in_the_adapter),
        CASE(trigger__reads_arrays_of_operands_when_it_starts),
        CASE(trigger__reports_a_failed_part_once),
        CASE(trigger__refuses_what_it_cannot_trigger),
        CASE(alias__has_flags_of_its_own),
        CASE(endpoint__cancels_what_waits_when_it_closes),
        CASE(work__runs_a_chain_of_all_kinds),
        CASE(work__receives_and_answers),
        CASE(work__starts_after_failures_too),
        CASE(work__can_be_cancelled_and_flushed),
        CASE(work__refuses_what_it_cannot_do),
        CASE(work__may_be_plenty),
        CASE(work__may_be_used_by_many_threads),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_cntr_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_cntr", cases);
}
