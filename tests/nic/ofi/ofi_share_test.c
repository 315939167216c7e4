/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_share_test.c - libfabric's shared transmit and receive contexts.
 *
 * Needs a fabric of at least two nodes: `fabemu run -- build/tests/…`. All endpoints are of this
 * process. Endpoints A and B of the fixture send to endpoints that share their contexts.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define MEMBERS 3u
#define LONG    300000u /* bytes of a message that the receiver fetches */

/* Endpoints that share a transmit and a receive context. */
struct share {
    struct ofi_fixture fixture;
    struct fid_stx *stx;
    struct fid_ep *srx;
    struct ofi_fixture_endpoint member[MEMBERS];
};

static const struct ofi_fixture_config config = {.caps = OFI_FIXTURE_CAPS_ALL | FI_MULTI_RECV,
                                                 .format = FI_CQ_FORMAT_TAGGED};
static unsigned char in[1u << 20], out[1u << 20];

/* --- fixture ------------------------------------------------------------------------ */

/* Open an endpoint for shared contexts, and bind everything but these. */
static void bare_open(struct share *share, struct ofi_fixture_endpoint *end)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_info *info = fi_dupinfo(share->fixture.info);

    *end = (struct ofi_fixture_endpoint){0};
    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    CU_ASSERT_EQUAL_FATAL(fi_cq_open(share->fixture.domain, &cq, &end->cq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_cntr_open(share->fixture.domain, &cntr, &end->sent, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_cntr_open(share->fixture.domain, &cntr, &end->received, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(share->fixture.domain, info, &end->ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end->ep, &end->sent->fid, FI_SEND), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end->ep, &end->received->fid, FI_RECV), 0);
    fi_freeinfo(info);
}

static void member_open(struct share *share, struct ofi_fixture_endpoint *end)
{
    size_t bytes = sizeof end->name;

    bare_open(share, end);
    CU_ASSERT_EQUAL(fi_ep_bind(end->ep, &share->fixture.av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end->ep, &share->stx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end->ep, &share->srx->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_enable(end->ep), 0);
    CU_ASSERT_EQUAL(fi_getname(&end->ep->fid, end->name, &bytes), 0);
    CU_ASSERT_EQUAL(fi_av_insert(share->fixture.av, end->name, 1, &end->addr, 0, NULL), 1);
}

static void member_close(struct ofi_fixture_endpoint *end)
{
    CU_ASSERT(ofi_fixture_endpoint_close(end));
    end->ep = NULL;
}

static struct share share_open(void)
{
    struct share share = {.fixture = ofi_fixture_open_with(&config)};
    const struct fi_info *info = share.fixture.info;

    CU_ASSERT_EQUAL_FATAL(fi_stx_context(share.fixture.domain, info->tx_attr, &share.stx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_srx_context(share.fixture.domain, info->rx_attr, &share.srx, NULL), 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        member_open(&share, &share.member[i]);
    return share;
}

static void share_close(struct share *share)
{
    CU_ASSERT_EQUAL(fi_close(&share->srx->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&share->stx->fid), -FI_EBUSY);
    for (unsigned i = 0; i < MEMBERS; i++)
        if (share->member[i].ep)
            member_close(&share->member[i]);
    CU_ASSERT_EQUAL(fi_close(&share->srx->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&share->stx->fid), 0);
    ofi_fixture_close(&share->fixture);
}

static void send_to(struct ofi_fixture_endpoint *from, const struct ofi_fixture_endpoint *to,
                    size_t bytes, uint64_t tag)
{
    ssize_t err;

    bytes_fill(out, bytes, tag);
    do {
        err = fi_tsend(from->ep, out, bytes, NULL, to->addr, tag, NULL);
        CU_ASSERT_FATAL(!err || err == -FI_EAGAIN);
    } while (err);
}

/* The next entry of @end must be a received message. */
static void arrives(struct ofi_fixture_endpoint *end, size_t bytes, uint64_t tag,
                    const void *context, fi_addr_t from)
{
    struct fi_cq_tagged_entry entry = {0};
    fi_addr_t source = FI_ADDR_NOTAVAIL;

    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(end->cq, &entry, &source), 1);
    CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_TAGGED);
    CU_ASSERT_EQUAL(entry.len, bytes);
    CU_ASSERT_EQUAL(entry.tag, tag);
    CU_ASSERT_PTR_EQUAL(entry.op_context, context);
    CU_ASSERT(bytes_filled(entry.buf, bytes, tag));
    CU_ASSERT_EQUAL(source, from);
}

static ssize_t post(struct share *share, void *context)
{
    return fi_trecv(share->srx, in, LONG, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, context);
}

/* --- messages ----------------------------------------------------------------------- */

static const size_t sizes[] = {0, 100, 5000, LONG};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void receive__takes_a_message_to_any_endpoint(void)
{
    struct share share = share_open();
    struct ofi_fixture_endpoint *a = &share.fixture.a;

    for (unsigned i = 0; i < MEMBERS * SIZES; i++) {
        struct ofi_fixture_endpoint *to = &share.member[i % MEMBERS];

        CU_ASSERT_EQUAL(post(&share, &in[i]), 0);
        send_to(a, to, sizes[i / MEMBERS], i);
        arrives(to, sizes[i / MEMBERS], i, &in[i], a->addr);
        CU_ASSERT_EQUAL(ofi_fixture_entry(a).flags, FI_SEND | FI_TAGGED);
        CU_ASSERT_EQUAL(fi_cntr_read(to->received), i / MEMBERS + 1);
    }
    CU_ASSERT_EQUAL(fi_recv(share.srx, in, 8, NULL, FI_ADDR_UNSPEC, in), 0);
    CU_ASSERT_EQUAL(fi_inject(a->ep, "untagged", 8, share.member[2].addr), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&share.member[2]).flags, FI_RECV | FI_MSG);
    share_close(&share);
}

static void receive__takes_unexpected_messages_in_order(void)
{
    struct share share = share_open();
    struct ofi_fixture_endpoint *a = &share.fixture.a;

    for (unsigned i = 0; i < 2 * MEMBERS; i++) {
        send_to(a, &share.member[i % MEMBERS], 1000, i);
        CU_ASSERT_EQUAL(ofi_fixture_entry(a).flags, FI_SEND | FI_TAGGED);
    }
    for (unsigned i = 0; i < 2 * MEMBERS; i++) {
        CU_ASSERT_EQUAL(post(&share, &in[i]), 0);
        arrives(&share.member[i % MEMBERS], 1000, i, &in[i], a->addr);
    }
    share_close(&share);
}

/* Endpoints that share a transmit context are different sources. */
static void send__comes_from_its_own_endpoint(void)
{
    struct share share = share_open();
    struct ofi_fixture_endpoint *a = &share.fixture.a;

    for (unsigned i = 0; i < MEMBERS; i++) {
        CU_ASSERT_EQUAL(fi_trecv(a->ep, in, LONG, NULL, FI_ADDR_UNSPEC, i, 0, in), 0);
        send_to(&share.member[i], a, LONG, i);
        arrives(a, LONG, i, in, share.member[i].addr);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&share.member[i]).flags, FI_SEND | FI_TAGGED);
        CU_ASSERT_EQUAL(fi_cntr_read(share.member[i].sent), 1);
    }
    share_close(&share);
}

static void directed_receive__takes_only_its_source(void)
{
    struct share share = share_open();
    struct ofi_fixture_endpoint *a = &share.fixture.a, *b = &share.fixture.b;

    CU_ASSERT_EQUAL(fi_trecv(share.srx, in, LONG, NULL, b->addr, 0, UINT64_MAX, &in[1]), 0);
    CU_ASSERT_EQUAL(fi_trecv(share.srx, in, LONG, NULL, a->addr, 0, UINT64_MAX, &in[2]), 0);
    send_to(a, &share.member[0], 10, 5);
    arrives(&share.member[0], 10, 5, &in[2], a->addr);
    send_to(b, &share.member[1], 10, 6);
    arrives(&share.member[1], 10, 6, &in[1], b->addr);
    share_close(&share);
}

static void peek__finds_and_claims_a_message(void)
{
    struct share share = share_open();
    struct iovec piece = {.iov_base = in, .iov_len = LONG};
    struct fi_msg_tagged msg = {.msg_iov = &piece, .iov_count = 1, .addr = FI_ADDR_UNSPEC};
    struct fi_context2 context;

    msg.ignore = UINT64_MAX;
    msg.context = &context;
    CU_ASSERT_EQUAL(fi_trecvmsg(share.srx, &msg, FI_PEEK), 0); /* reported at the oldest endpoint */
    CU_ASSERT_EQUAL(ofi_fixture_error(&share.member[0]).err, FI_ENOMSG);
    send_to(&share.fixture.a, &share.member[1], LONG, 9);
    while (ofi_fixture_quiet(&share.member[1])) {
        struct fi_cq_tagged_entry entry;

        CU_ASSERT_EQUAL(fi_trecvmsg(share.srx, &msg, FI_PEEK | FI_CLAIM), 0);
        if (ofi_fixture_entry_wait(share.member[1].cq, &entry, NULL) == 1) {
            CU_ASSERT_EQUAL(entry.len, LONG);
            break;
        }
    }
    CU_ASSERT_EQUAL(fi_trecvmsg(share.srx, &msg, FI_CLAIM), 0);
    arrives(&share.member[1], LONG, 9, &context, share.fixture.a.addr);
    CU_ASSERT_EQUAL(fi_cntr_read(share.member[1].received), 1);
    share_close(&share);
}

static void buffer__takes_messages_to_several_endpoints(void)
{
    struct share share = share_open();
    struct iovec piece = {.iov_base = in, .iov_len = 1000};
    struct fi_msg msg = {.msg_iov = &piece, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = in};
    struct fi_cq_tagged_entry entry;

    CU_ASSERT_EQUAL(fi_recvmsg(share.srx, &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(fi_inject(share.fixture.a.ep, out, 500, share.member[1 + i].addr), 0);
        entry = ofi_fixture_entry(&share.member[1 + i]);
        CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_MSG);
        CU_ASSERT_PTR_EQUAL(entry.buf, in + 500 * i);
    }
    entry = ofi_fixture_entry(&share.member[0]); /* the oldest endpoint */
    CU_ASSERT_EQUAL(entry.flags, FI_MULTI_RECV);
    CU_ASSERT_PTR_EQUAL(entry.op_context, in);
    CU_ASSERT_EQUAL(fi_cntr_read(share.member[0].received), 0);
    share_close(&share);
}

/* --- closing ------------------------------------------------------------------------ */

static void cancelled_receive__is_reported_at_the_oldest_endpoint(void)
{
    struct share share = share_open();

    for (unsigned i = 0; i < MEMBERS; i++) {
        CU_ASSERT_EQUAL(post(&share, &in[i]), 0);
        CU_ASSERT_EQUAL(fi_cancel(&share.srx->fid, &in[i]), 0);
        CU_ASSERT_EQUAL(ofi_fixture_error(&share.member[i]).err, FI_ECANCELED);
        CU_ASSERT_EQUAL(fi_cancel(&share.srx->fid, &in[i]), -FI_ENOENT);
        if (i + 1 < MEMBERS)
            member_close(&share.member[i]);
    }
    share_close(&share);
}

/* The endpoint loses its unread entries and messages. Posted receives stay for other endpoints. */
static void closed_endpoint__loses_only_its_own_messages(void)
{
    struct share share = share_open();
    struct ofi_fixture_endpoint *a = &share.fixture.a;

    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(post(&share, &in[i]), 0);
        send_to(a, &share.member[0], 100, i); /* its entry is not read */
        CU_ASSERT_EQUAL(ofi_fixture_entry(a).flags, FI_SEND | FI_TAGGED);
    }
    send_to(a, &share.member[0], 100, 2); /* unexpected */
    CU_ASSERT_EQUAL(ofi_fixture_entry(a).flags, FI_SEND | FI_TAGGED);
    send_to(a, &share.member[1], 100, 3);
    CU_ASSERT_EQUAL(ofi_fixture_entry(a).flags, FI_SEND | FI_TAGGED);
    send_to(a, &share.member[0], LONG, 4); /* fails, because its receiver closes */
    CU_ASSERT(ofi_fixture_quiet(a));
    member_close(&share.member[0]);
    CU_ASSERT_EQUAL(ofi_fixture_error(a).err, FI_ECANCELED);
    for (unsigned i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(post(&share, &in[i]), 0);
    arrives(&share.member[1], 100, 3, &in[0], a->addr);
    send_to(a, &share.member[2], LONG, 5);
    arrives(&share.member[2], LONG, 5, &in[1], a->addr);
    share_close(&share);
}

static void context__outlives_its_endpoints_and_their_vector(void)
{
    struct share share = share_open();
    struct fi_av_attr attr = {.type = FI_AV_MAP};
    struct ofi_fixture_endpoint end;
    struct fid_av *av;

    for (unsigned i = 0; i < MEMBERS; i++)
        member_close(&share.member[i]);
    CU_ASSERT_EQUAL(post(&share, in), 0);
    CU_ASSERT_EQUAL(fi_trecv(share.srx, in, 8, NULL, 0, 0, 0, in), -FI_ENOAV);
    CU_ASSERT_EQUAL(fi_av_open(share.fixture.domain, &attr, &av, NULL), 0);
    bare_open(&share, &end);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.stx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.srx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(end.ep), 0); /* another vector than the one before */
    member_close(&end);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    member_open(&share, &share.member[0]);
    send_to(&share.fixture.a, &share.member[0], LONG, 1);
    arrives(&share.member[0], LONG, 1, in, share.fixture.a.addr);
    share_close(&share);
}

/* --- wrong use ---------------------------------------------------------------------- */

static void bind__refuses_what_cannot_be_shared(void)
{
    struct share share = share_open();
    struct fid_domain *domain;
    struct fid_stx *stx;
    struct fid_ep *srx, *plain;
    struct ofi_fixture_endpoint end;

    CU_ASSERT_EQUAL(fi_domain(share.fixture.fabric, share.fixture.info, &domain, NULL), 0);
    CU_ASSERT_EQUAL(fi_stx_context(domain, NULL, &stx, NULL), 0);
    CU_ASSERT_EQUAL(fi_srx_context(domain, NULL, &srx, NULL), 0);
    bare_open(&share, &end);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &stx->fid, 0), -FI_EINVAL); /* of another domain */
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &srx->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.stx->fid, FI_SEND), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_enable(end.ep), -FI_ENOAV);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.fixture.av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(end.ep), -FI_EOPBADSTATE); /* contexts are missing */
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.stx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.stx->fid, 0), -FI_EINVAL); /* has one */
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.srx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.srx->fid, 0), -FI_EINVAL);
    member_close(&end); /* never enabled */
    CU_ASSERT_EQUAL(fi_close(&stx->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&srx->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&domain->fid), 0);
    CU_ASSERT_EQUAL(fi_endpoint(share.fixture.domain, share.fixture.info, &plain, NULL), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(plain, &share.stx->fid, 0), -FI_EINVAL); /* has its own */
    CU_ASSERT_EQUAL(fi_ep_bind(plain, &share.srx->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_close(&plain->fid), 0);
    share_close(&share);
}

static void enable__refuses_missing_queues_and_another_vector(void)
{
    struct share share = share_open();
    struct fi_av_attr attr = {.type = FI_AV_MAP};
    struct fi_info *info = fi_dupinfo(share.fixture.info);
    struct ofi_fixture_endpoint end;
    struct fid_ep *ep;
    struct fid_av *av;

    info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    CU_ASSERT_EQUAL(fi_endpoint(share.fixture.domain, info, &ep, NULL), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &share.fixture.av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &share.stx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(ep, &share.srx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(ep), -FI_ENOCQ);
    CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
    CU_ASSERT_EQUAL(fi_av_open(share.fixture.domain, &attr, &av, NULL), 0);
    bare_open(&share, &end);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &av->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.stx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(end.ep, &share.srx->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_enable(end.ep), -FI_EINVAL);
    member_close(&end);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    fi_freeinfo(info);
    share_close(&share);
}

static void calls__are_refused_at_the_wrong_object(void)
{
    struct share share = share_open();
    struct ofi_fixture_endpoint *member = &share.member[0];
    struct fi_rx_attr rx = {.size = SIZE_MAX};
    struct fi_tx_attr tx = {.inject_size = SIZE_MAX};
    struct fid_stx *stx;
    struct fid_ep *srx;
    size_t bytes = sizeof in;

    CU_ASSERT_EQUAL(fi_recv(member->ep, in, 8, NULL, FI_ADDR_UNSPEC, in), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_trecv(member->ep, in, 8, NULL, FI_ADDR_UNSPEC, 0, 0, in), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_send(share.srx, out, 8, NULL, share.fixture.a.addr, out), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_inject(share.srx, out, 8, share.fixture.a.addr), -FI_EOPNOTSUPP);
    CU_ASSERT_EQUAL(fi_getname(&share.srx->fid, in, &bytes), -FI_ENOSYS);
    CU_ASSERT_EQUAL(fi_ep_bind(share.srx, &member->cq->fid, FI_RECV), -FI_ENOSYS);
    CU_ASSERT_EQUAL(fi_tx_context(member->ep, 0, NULL, &srx, NULL), -FI_ENOSYS);
    CU_ASSERT_EQUAL(fi_srx_context(share.fixture.domain, &rx, &srx, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_stx_context(share.fixture.domain, &tx, &stx, NULL), -FI_EINVAL);
    share_close(&share);
}

/* --- connected endpoints ------------------------------------------------------------ */

struct connections {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq[2]; /* of the server, of the clients */
    struct fid_pep *pep;
    struct fid_ep *srx, *server[2], *client[2];
    struct fid_cq *server_cq[2], *client_cq;
};

static struct fid_eq *eq_open(struct fid_fabric *fabric)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_eq *eq = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_eq_open(fabric, &attr, &eq, NULL), 0);
    return eq;
}

/* Read events of both queues until @wanted was read from the one with index @at. */
static struct fi_eq_cm_entry event_wait(struct connections *all, unsigned at, uint32_t wanted)
{
    struct fi_eq_cm_entry entry = {0};
    uint32_t event = 0;

    for (unsigned i = at; event != wanted; i = !i) {
        ssize_t got = fi_eq_read(all->eq[i], &event, &entry, sizeof entry, i == at ? 0 : FI_PEEK);

        CU_ASSERT_FATAL(got == -FI_EAGAIN || got == sizeof entry);
        if (got == -FI_EAGAIN || i != at)
            event = 0;
    }
    return entry;
}

static struct fid_cq *cq_open(struct fid_domain *domain)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *cq = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_cq_open(domain, &attr, &cq, NULL), 0);
    return cq;
}

static void connect_pair(struct connections *all, unsigned i, const void *server)
{
    struct fi_info *info = fi_dupinfo(all->info);
    struct fi_eq_cm_entry request;

    info->ep_attr->rx_ctx_cnt = 1;
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(all->domain, info, &all->client[i], NULL), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(all->client[i], &all->eq[1]->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(all->client[i], &all->client_cq->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL_FATAL(fi_connect(all->client[i], server, NULL, 0), 0);
    request = event_wait(all, 0, FI_CONNREQ);
    CU_ASSERT_EQUAL(request.info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(all->domain, request.info, &all->server[i], NULL), 0);
    all->server_cq[i] = cq_open(all->domain);
    CU_ASSERT_EQUAL(fi_ep_bind(all->server[i], &all->eq[0]->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(all->server[i], &all->server_cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
    CU_ASSERT_EQUAL(fi_ep_bind(all->server[i], &all->srx->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_accept(all->server[i], NULL, 0), 0);
    event_wait(all, 1, FI_CONNECTED);
    event_wait(all, 0, FI_CONNECTED);
    fi_freeinfo(request.info);
    fi_freeinfo(info);
}

static struct connections connections_open(void)
{
    struct fi_info *hints = ofi_fixture_hints(FI_MSG | FI_TAGGED);
    struct connections all = {0};
    char server[OFI_FIXTURE_ADDR_BYTES];
    size_t bytes = sizeof server;

    hints->ep_attr->type = FI_EP_MSG;
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &all.info), 0);
    CU_ASSERT_EQUAL_FATAL(fi_fabric(all.info->fabric_attr, &all.fabric, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_domain(all.fabric, all.info, &all.domain, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        all.eq[i] = eq_open(all.fabric);
    all.client_cq = cq_open(all.domain);
    CU_ASSERT_EQUAL_FATAL(fi_srx_context(all.domain, all.info->rx_attr, &all.srx, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_passive_ep(all.fabric, all.info, &all.pep, NULL), 0);
    CU_ASSERT_EQUAL(fi_pep_bind(all.pep, &all.eq[0]->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_listen(all.pep), 0);
    CU_ASSERT_EQUAL_FATAL(fi_getname(&all.pep->fid, server, &bytes), 0);
    for (unsigned i = 0; i < 2; i++)
        connect_pair(&all, i, server);
    fi_freeinfo(hints);
    return all;
}

static void connections_close(struct connections *all)
{
    for (unsigned i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(fi_close(&all->client[i]->fid), 0);
        CU_ASSERT_EQUAL(fi_close(&all->server[i]->fid), 0);
        CU_ASSERT_EQUAL(fi_close(&all->server_cq[i]->fid), 0);
    }
    CU_ASSERT_EQUAL(fi_close(&all->client_cq->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&all->srx->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&all->pep->fid), 0);
    for (unsigned i = 0; i < 2; i++)
        CU_ASSERT_EQUAL(fi_close(&all->eq[i]->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&all->domain->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&all->fabric->fid), 0);
    fi_freeinfo(all->info);
}

static void connected_endpoint__reports_the_messages_of_its_connection(void)
{
    struct connections all = connections_open();
    struct fi_cq_tagged_entry entry;

    for (unsigned i = 0; i < 6; i++) {
        bytes_fill(out, LONG, i);
        CU_ASSERT_EQUAL(fi_recv(all.srx, in, LONG, NULL, 0, &in[i]), 0);
        CU_ASSERT_EQUAL(fi_send(all.client[i % 2], out, LONG, NULL, 0, &out[i]), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(all.server_cq[i % 2], &entry, NULL), 1);
        CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_MSG);
        CU_ASSERT_PTR_EQUAL(entry.op_context, &in[i]);
        CU_ASSERT(bytes_filled(in, LONG, i));
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(all.client_cq, &entry, NULL), 1);
    }
    connections_close(&all);
}

/* --- threads ------------------------------------------------------------------------ */

#define FLOOD 3000u
#define SLOT  4096u
#define SLOTS 16u
#define CHURN (UINT64_C(1) << 63) /* in the tags of messages to the endpoint that comes and goes */
/* The adapter keeps up to 4096 messages for closed queues, then it stops its senders. */
#define CHURNS 2000u

struct flood {
    struct share share;
    _Atomic bool ended;
    bool seen[FLOOD];
};

static size_t flood_bytes(uint64_t tag)
{
    return tag * 37 % SLOT;
}

/* Send messages with the tags 0, 1, … to the first two endpoints by turns. */
static void *flood_send(void *arg)
{
    struct flood *flood = arg;
    struct ofi_fixture_endpoint *from = &flood->share.fixture.a;
    static unsigned char data[SLOT];

    for (uint64_t tag = 0; tag < FLOOD; tag++) {
        const struct ofi_fixture_endpoint *to = &flood->share.member[tag % 2];
        struct fi_cq_tagged_entry entry;
        ssize_t err;

        bytes_fill(data, flood_bytes(tag), tag);
        while ((err = fi_tsend(from->ep, data, flood_bytes(tag), NULL, to->addr, tag, NULL)) ==
               -FI_EAGAIN)
            ;
        CU_ASSERT_EQUAL(err, 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(from->cq, &entry, NULL), 1);
    }
    return NULL;
}

/* Open and close another endpoint, again and again, while messages to it arrive and match. */
static void *flood_churn(void *arg)
{
    struct flood *flood = arg;
    static unsigned char data[SLOT];

    for (unsigned n = 0; n < CHURNS && !atomic_load(&flood->ended); n++) {
        struct ofi_fixture_endpoint end;

        member_open(&flood->share, &end);
        CU_ASSERT_EQUAL(fi_trecv(flood->share.srx, data, SLOT, NULL, FI_ADDR_UNSPEC, CHURN, 0,
                                 data),
                        0);
        for (unsigned i = 0; i < 2; i++)
            while (fi_tinject(flood->share.fixture.b.ep, out, SLOT, end.addr, CHURN) == -FI_EAGAIN)
                ;
        member_close(&end);
    }
    return NULL;
}

static void flood_post(struct flood *flood, unsigned char *slot)
{
    CU_ASSERT_EQUAL(fi_trecv(flood->share.srx, slot, SLOT, NULL, FI_ADDR_UNSPEC, 0, ~CHURN, slot),
                    0);
}

/* Each message must arrive once, at its endpoint. Long ones may complete later than short ones. */
static void flood_receive(struct flood *flood)
{
    unsigned left = FLOOD;

    for (unsigned i = 0; i < SLOTS; i++)
        flood_post(flood, in + i * SLOT);
    for (unsigned at = 0; left; at = !at) {
        struct fi_cq_tagged_entry entry;
        ssize_t got = fi_cq_read(flood->share.member[at].cq, &entry, 1);

        CU_ASSERT_FATAL(got == 1 || got == -FI_EAGAIN);
        if (got != 1)
            continue;
        CU_ASSERT_FATAL(entry.tag < FLOOD && entry.tag % 2 == at && !flood->seen[entry.tag]);
        CU_ASSERT_EQUAL(entry.len, flood_bytes(entry.tag));
        CU_ASSERT_PTR_EQUAL(entry.buf, entry.op_context);
        CU_ASSERT(bytes_filled(entry.buf, entry.len, entry.tag));
        flood->seen[entry.tag] = true;
        left--;
        flood_post(flood, entry.buf);
    }
}

static void endpoints__come_and_go_while_others_receive(void)
{
    static struct flood flood;
    pthread_t sender, churn;

    if (ofi_fixture_is_serial()) /* several threads may not use the domain */
        return;
    flood = (struct flood){.share = share_open()};
    CU_ASSERT_EQUAL_FATAL(pthread_create(&sender, NULL, flood_send, &flood), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&churn, NULL, flood_churn, &flood), 0);
    flood_receive(&flood);
    atomic_store(&flood.ended, true);
    pthread_join(sender, NULL);
    pthread_join(churn, NULL);
    share_close(&flood.share);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(receive__takes_a_message_to_any_endpoint),
        CASE(receive__takes_unexpected_messages_in_order),
        CASE(send__comes_from_its_own_endpoint),
        CASE(directed_receive__takes_only_its_source),
        CASE(peek__finds_and_claims_a_message),
        CASE(buffer__takes_messages_to_several_endpoints),
        CASE(cancelled_receive__is_reported_at_the_oldest_endpoint),
        CASE(closed_endpoint__loses_only_its_own_messages),
        CASE(context__outlives_its_endpoints_and_their_vector),
        CASE(bind__refuses_what_cannot_be_shared),
        CASE(enable__refuses_missing_queues_and_another_vector),
        CASE(calls__are_refused_at_the_wrong_object),
        CASE(connected_endpoint__reports_the_messages_of_its_connection),
        CASE(endpoints__come_and_go_while_others_receive),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_share_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_share", cases);
}
