/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_scalable_test.c - libfabric's scalable endpoints.
 *
 * Needs a fabric of at least two nodes: `fabemu run -- build/tests/…`. All endpoints are of this
 * process: the endpoints A and B of the fixture, and two scalable ones.
 */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define CONTEXTS 4
#define BITS     2
#define LONG     300000u /* bytes of a message that the receiver fetches */

/* A context with a completion queue of its own. */
struct context {
    struct fid_ep *ep;
    struct fid_cq *cq;
};

struct scalable {
    struct fid_ep *ep;
    struct context tx[CONTEXTS], rx[CONTEXTS];
    fi_addr_t addr;
};

struct pair {
    struct ofi_fixture fixture; /* ordinary endpoints, with a vector of their own */
    struct fid_av *av;          /* of the scalable endpoints */
    struct fi_info *info;
    struct scalable from, to;
};

static const struct ofi_fixture_config config = {.caps = OFI_FIXTURE_CAPS_ALL | FI_NAMED_RX_CTX |
                                                         FI_RMA,
                                                 .format = FI_CQ_FORMAT_TAGGED};
static unsigned char in[1u << 20], out[1u << 20];

/* --- fixture ------------------------------------------------------------------------ */

static struct fid_cq *cq_open(struct pair *pair)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *cq = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_cq_open(pair->fixture.domain, &attr, &cq, NULL), 0);
    return cq;
}

static void tx_open(struct pair *pair, struct scalable *scalable, int i)
{
    struct context *tx = &scalable->tx[i];

    tx->cq = cq_open(pair);
    CU_ASSERT_EQUAL_FATAL(fi_tx_context(scalable->ep, i, NULL, &tx->ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(tx->ep, &tx->cq->fid, FI_TRANSMIT), 0);
    CU_ASSERT_EQUAL_FATAL(fi_enable(tx->ep), 0);
}

static void rx_open(struct pair *pair, struct scalable *scalable, int i)
{
    struct context *rx = &scalable->rx[i];

    rx->cq = cq_open(pair);
    CU_ASSERT_EQUAL_FATAL(fi_rx_context(scalable->ep, i, NULL, &rx->ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(rx->ep, &rx->cq->fid, FI_RECV), 0);
    CU_ASSERT_EQUAL_FATAL(fi_enable(rx->ep), 0);
}

static void context_close(struct context *context)
{
    CU_ASSERT_EQUAL(fi_close(&context->ep->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&context->cq->fid), 0);
    context->ep = NULL;
}

static void scalable_open(struct pair *pair, struct scalable *scalable)
{
    char name[OFI_FIXTURE_ADDR_BYTES];
    size_t bytes = sizeof name;

    CU_ASSERT_EQUAL_FATAL(fi_scalable_ep(pair->fixture.domain, pair->info, &scalable->ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_enable(scalable->ep), -FI_ENOAV);
    CU_ASSERT_EQUAL(fi_scalable_ep_bind(scalable->ep, &pair->av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_getname(&scalable->ep->fid, name, &bytes), -FI_EOPBADSTATE);
    CU_ASSERT_EQUAL_FATAL(fi_enable(scalable->ep), 0);
    CU_ASSERT_EQUAL(fi_getname(&scalable->ep->fid, name, &bytes), 0);
    CU_ASSERT_EQUAL(fi_av_insert(pair->av, name, 1, &scalable->addr, 0, NULL), 1);
    for (int i = 0; i < CONTEXTS; i++) {
        tx_open(pair, scalable, i);
        rx_open(pair, scalable, i);
    }
}

static void scalable_close(struct scalable *scalable)
{
    for (int i = 0; i < CONTEXTS; i++) {
        CU_ASSERT_EQUAL(fi_close(&scalable->ep->fid), -FI_EBUSY);
        if (scalable->tx[i].ep)
            context_close(&scalable->tx[i]);
        if (scalable->rx[i].ep)
            context_close(&scalable->rx[i]);
    }
    CU_ASSERT_EQUAL(fi_close(&scalable->ep->fid), 0);
}

static struct pair pair_open(void)
{
    struct pair pair = {.fixture = ofi_fixture_open_with(&config)};
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};

    pair.info = fi_dupinfo(pair.fixture.info);
    pair.info->ep_attr->tx_ctx_cnt = pair.info->ep_attr->rx_ctx_cnt = CONTEXTS;
    CU_ASSERT_EQUAL_FATAL(fi_av_open(pair.fixture.domain, &attr, &pair.av, NULL), 0);
    scalable_open(&pair, &pair.from);
    scalable_open(&pair, &pair.to);
    return pair;
}

static void pair_close(struct pair *pair)
{
    scalable_close(&pair->from);
    scalable_close(&pair->to);
    CU_ASSERT_EQUAL(fi_close(&pair->av->fid), 0);
    fi_freeinfo(pair->info);
    ofi_fixture_close(&pair->fixture);
}

static fi_addr_t context_addr(const struct pair *pair, int i)
{
    return fi_rx_addr(pair->to.addr, i, BITS);
}

static void send_to(struct context *tx, fi_addr_t to, size_t bytes, uint64_t tag)
{
    ssize_t err;

    bytes_fill(out, bytes, tag);
    do {
        err = fi_tsend(tx->ep, out, bytes, NULL, to, tag, NULL);
        CU_ASSERT_FATAL(!err || err == -FI_EAGAIN);
    } while (err);
}

/* The next entry of the context must be a message from the other scalable endpoint. */
static void arrives(struct pair *pair, int i, size_t bytes, uint64_t tag)
{
    struct fi_cq_tagged_entry entry = {0};
    fi_addr_t source = FI_ADDR_NOTAVAIL;

    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(pair->to.rx[i].cq, &entry, &source), 1);
    CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_TAGGED);
    CU_ASSERT_EQUAL(entry.len, bytes);
    CU_ASSERT_EQUAL(entry.tag, tag);
    CU_ASSERT(bytes_filled(entry.buf, bytes, tag));
    CU_ASSERT_EQUAL(source, pair->from.addr);
}

static bool is_sent(struct context *tx)
{
    struct fi_cq_tagged_entry entry;

    return ofi_fixture_entry_wait(tx->cq, &entry, NULL) == 1 &&
           entry.flags == (FI_SEND | FI_TAGGED);
}

static ssize_t post(struct context *rx, fi_addr_t from, void *context)
{
    return fi_trecv(rx->ep, in, LONG, NULL, from, 0, UINT64_MAX, context);
}

/* --- messages and memory ------------------------------------------------------------ */

static void message__arrives_at_the_context_that_it_names(void)
{
    struct pair pair = pair_open();

    for (int i = 0; i < CONTEXTS; i++) /* a receive of another context does not match */
        CU_ASSERT_EQUAL(post(&pair.to.rx[i], FI_ADDR_UNSPEC, in), 0);
    for (int i = CONTEXTS - 1; i >= 0; i--) {
        struct context *tx = &pair.from.tx[(i + 1) % CONTEXTS];

        send_to(tx, context_addr(&pair, i), LONG, (uint64_t)i);
        arrives(&pair, i, LONG, (uint64_t)i);
        CU_ASSERT(is_sent(tx));
    }
    CU_ASSERT_EQUAL(post(&pair.to.rx[0], FI_ADDR_UNSPEC, in), 0);
    send_to(&pair.from.tx[0], pair.to.addr, 10, 77); /* names the first context */
    arrives(&pair, 0, 10, 77);
    pair_close(&pair);
}

/* The source may be named with or without a receive context, which makes no difference. */
static void directed_receive__names_the_scalable_endpoint(void)
{
    struct pair pair = pair_open();

    CU_ASSERT_EQUAL(post(&pair.to.rx[1], pair.to.addr, &in[1]), 0); /* another source */
    CU_ASSERT_EQUAL(post(&pair.to.rx[1], pair.from.addr, &in[2]), 0);
    for (int i = 0; i < CONTEXTS; i++) {
        send_to(&pair.from.tx[i], context_addr(&pair, 1), 1000, (uint64_t)i);
        arrives(&pair, 1, 1000, (uint64_t)i);
        CU_ASSERT(is_sent(&pair.from.tx[i]));
        CU_ASSERT_EQUAL(post(&pair.to.rx[1], fi_rx_addr(pair.from.addr, i, BITS), &in[2]), 0);
    }
    CU_ASSERT_EQUAL(fi_cancel(&pair.to.rx[1].ep->fid, &in[1]), 0);
    pair_close(&pair);
}

static void write__notifies_the_context_that_it_names(void)
{
    struct pair pair = pair_open();
    struct fid_mr *mr = ofi_fixture_window(&pair.fixture, in, sizeof in);
    struct fi_cq_tagged_entry entry;
    ssize_t err;

    bytes_fill(out, LONG, 3);
    do
        err = fi_writedata(pair.from.tx[2].ep, out, LONG, NULL, 42, context_addr(&pair, 3), 0,
                           fi_mr_key(mr), NULL);
    while (err == -FI_EAGAIN);
    CU_ASSERT_EQUAL(err, 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(pair.to.rx[3].cq, &entry, NULL), 1);
    CU_ASSERT_EQUAL(entry.data, 42);
    CU_ASSERT(entry.flags & FI_REMOTE_WRITE);
    CU_ASSERT(bytes_filled(in, LONG, 3));
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(pair.from.tx[2].cq, &entry, NULL), 1);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    pair_close(&pair);
}

/* --- opening and closing ------------------------------------------------------------ */

/* The receives of a closed context are dropped. Messages stay for the next context at its index. */
static void closed_context__keeps_its_messages(void)
{
    struct pair pair = pair_open();

    CU_ASSERT_EQUAL(post(&pair.to.rx[2], FI_ADDR_UNSPEC, in), 0);
    context_close(&pair.to.rx[2]);
    context_close(&pair.to.tx[0]);
    send_to(&pair.from.tx[0], context_addr(&pair, 2), 100, 5);
    CU_ASSERT(is_sent(&pair.from.tx[0]));
    CU_ASSERT_EQUAL(post(&pair.to.rx[1], FI_ADDR_UNSPEC, in), 0);
    send_to(&pair.from.tx[0], context_addr(&pair, 1), 100, 6);
    arrives(&pair, 1, 100, 6);
    CU_ASSERT(is_sent(&pair.from.tx[0]));
    rx_open(&pair, &pair.to, 2);
    CU_ASSERT_EQUAL(post(&pair.to.rx[2], FI_ADDR_UNSPEC, in), 0);
    arrives(&pair, 2, 100, 5);
    pair_close(&pair);
}

static void address__may_be_chosen(void)
{
    struct pair pair = pair_open();
    struct fi_info *hints = ofi_fixture_hints(config.caps), *info = NULL;
    struct fid_ep *ep, *same;

    hints->ep_attr->rx_ctx_cnt = 2;
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, NULL, "77", FI_SOURCE, hints, &info), 0);
    CU_ASSERT_EQUAL(info->ep_attr->rx_ctx_cnt, 2);
    CU_ASSERT_EQUAL(fi_scalable_ep(pair.fixture.domain, info, &ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_scalable_ep_bind(ep, &pair.av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(ep), 0);
    CU_ASSERT_EQUAL(fi_scalable_ep(pair.fixture.domain, info, &same, NULL), 0);
    CU_ASSERT_EQUAL(fi_scalable_ep_bind(same, &pair.av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(same), -FI_EADDRINUSE);
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    CU_ASSERT_EQUAL(fi_enable(same), 0);
    CU_ASSERT_EQUAL(fi_close(&same->fid), 0);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    pair_close(&pair);
}

static void context__has_the_attributes_that_it_asked_for(void)
{
    struct pair pair = pair_open();
    struct fi_tx_attr tx = {.caps = FI_MSG | FI_SEND, .op_flags = FI_DELIVERY_COMPLETE};
    struct fi_rx_attr rx = {0};
    struct fid_ep *ep;
    uint64_t flags = FI_TRANSMIT;

    context_close(&pair.to.tx[0]);
    CU_ASSERT_EQUAL_FATAL(fi_tx_context(pair.to.ep, 0, &tx, &ep, NULL), 0);
    CU_ASSERT_EQUAL(tx.caps, FI_MSG | FI_SEND);
    CU_ASSERT_EQUAL(tx.inject_size, pair.info->tx_attr->inject_size);
    CU_ASSERT_EQUAL(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
    CU_ASSERT_EQUAL(flags, FI_DELIVERY_COMPLETE);
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    context_close(&pair.to.rx[0]);
    CU_ASSERT_EQUAL_FATAL(fi_rx_context(pair.to.ep, 0, &rx, &ep, NULL), 0);
    CU_ASSERT_EQUAL(rx.caps, pair.info->rx_attr->caps);
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    pair_close(&pair);
}

/* --- wrong use ---------------------------------------------------------------------- */

static void contexts__are_limited(void)
{
    struct pair pair = pair_open();
    struct fi_tx_attr tx = {.caps = FI_ATOMIC};
    struct fid_ep *ep;

    CU_ASSERT_EQUAL(fi_tx_context(pair.to.ep, CONTEXTS, NULL, &ep, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_rx_context(pair.to.ep, CONTEXTS, NULL, &ep, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_rx_context(pair.to.ep, -1, NULL, &ep, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_tx_context(pair.to.ep, 0, NULL, &ep, NULL), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_rx_context(pair.to.ep, 0, NULL, &ep, NULL), -FI_EBUSY);
    context_close(&pair.to.tx[0]);
    CU_ASSERT_EQUAL(fi_tx_context(pair.to.ep, 0, &tx, &ep, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_endpoint(pair.fixture.domain, pair.info, &ep, NULL), -FI_EINVAL);
    pair.info->ep_attr->rx_ctx_cnt = pair.info->domain_attr->max_ep_rx_ctx + 1;
    CU_ASSERT_EQUAL(fi_scalable_ep(pair.fixture.domain, pair.info, &ep, NULL), -FI_EINVAL);
    pair.info->ep_attr->rx_ctx_cnt = 1;
    pair.info->ep_attr->type = FI_EP_MSG;
    CU_ASSERT_EQUAL(fi_scalable_ep(pair.fixture.domain, pair.info, &ep, NULL), -FI_EINVAL);
    pair_close(&pair);
}

static void calls__are_refused_at_the_wrong_object(void)
{
    struct pair pair = pair_open();
    struct context *tx = &pair.to.tx[0], *rx = &pair.to.rx[0];
    struct fi_av_attr attr = {.rx_ctx_bits = 17};
    struct fid_av *av;
    struct fid_ep *ep;

    CU_ASSERT_EQUAL(fi_recv(tx->ep, in, 8, NULL, FI_ADDR_UNSPEC, in), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_send(rx->ep, out, 8, NULL, pair.from.addr, out), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_send(pair.to.ep, out, 8, NULL, pair.from.addr, out), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_recv(pair.to.ep, in, 8, NULL, FI_ADDR_UNSPEC, in), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_scalable_ep_bind(pair.to.ep, &tx->cq->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
    context_close(tx);
    CU_ASSERT_EQUAL(fi_tx_context(pair.to.ep, 0, NULL, &ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_enable(ep), -FI_ENOCQ);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &rx->cq->fid, FI_RECV), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &pair.av->fid, 0), -FI_EINVAL); /* it has that of its endpoint */
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    CU_ASSERT_EQUAL(fi_scalable_ep(pair.fixture.domain, pair.info, &ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_scalable_ep_bind(ep, &rx->cq->fid, FI_RECV), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    CU_ASSERT_EQUAL(fi_av_open(pair.fixture.domain, &attr, &av, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_send(pair.from.tx[0].ep, out, 8, NULL, FI_ADDR_NOTAVAIL, out), -FI_EINVAL);
    pair_close(&pair);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(message__arrives_at_the_context_that_it_names),
        CASE(directed_receive__names_the_scalable_endpoint),
        CASE(write__notifies_the_context_that_it_names),
        CASE(closed_context__keeps_its_messages),
        CASE(address__may_be_chosen),
        CASE(context__has_the_attributes_that_it_asked_for),
        CASE(contexts__are_limited),
        CASE(calls__are_refused_at_the_wrong_object),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_scalable_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_scalable", cases);
}
