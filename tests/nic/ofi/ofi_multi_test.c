/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_multi_test.c - libfabric's receive buffers for several messages (FI_MULTI_RECV).
 *
 * Needs a fabric of at least two nodes: `fabemu run -- build/tests/…`. Two endpoints of one process
 * exchange messages.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define BUFFER (1u << 20)

static const struct ofi_fixture_config multi = {.caps = OFI_FIXTURE_CAPS_ALL | FI_MULTI_RECV,
                                                .format = FI_CQ_FORMAT_TAGGED};
static unsigned char buffer[BUFFER], out[BUFFER];

static void min_set(struct ofi_fixture_endpoint *end, size_t min_bytes)
{
    size_t got = 0, size = sizeof got;

    CU_ASSERT_EQUAL(fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min_bytes,
                              sizeof min_bytes),
                    0);
    CU_ASSERT_EQUAL(fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &got, &size),
                    0);
    CU_ASSERT_EQUAL(got, min_bytes);
}

static ssize_t post(struct ofi_fixture_endpoint *to, void *buf, size_t bytes, void *context)
{
    struct iovec piece = {.iov_base = buf, .iov_len = bytes};
    struct fi_msg msg = {.msg_iov = &piece,
                         .iov_count = 1,
                         .addr = FI_ADDR_UNSPEC,
                         .context = context};

    return fi_recvmsg(to->ep, &msg, FI_MULTI_RECV | FI_COMPLETION);
}

static void send_filled(struct ofi_fixture *fixture, size_t bytes, uint64_t seed)
{
    ssize_t err;

    bytes_fill(out, bytes, seed);
    do {
        err = fi_senddata(fixture->a.ep, out, bytes, NULL, seed, fixture->b.addr, NULL);
        CU_ASSERT_FATAL(!err || err == -FI_EAGAIN);
    } while (err);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture->a).flags, FI_SEND | FI_MSG);
}

/* The next entry must be a message at @at. */
static void arrives(struct ofi_fixture *fixture, const void *at, size_t bytes, uint64_t seed,
                    const void *context)
{
    struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture->b);

    CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    CU_ASSERT_EQUAL(entry.len, bytes);
    CU_ASSERT_EQUAL(entry.data, seed);
    CU_ASSERT_PTR_EQUAL(entry.buf, at);
    CU_ASSERT_PTR_EQUAL(entry.op_context, context);
    CU_ASSERT(bytes_filled(at, bytes, seed));
}

static void is_released(struct ofi_fixture *fixture, const void *context)
{
    struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture->b);

    CU_ASSERT_EQUAL(entry.flags, FI_MULTI_RECV);
    CU_ASSERT_PTR_EQUAL(entry.op_context, context);
}

/* Messages of all kinds: empty, of one segment, of several, and fetched from the sender. */
static const size_t sizes[] = {0, 1, 192, 193, 1000, 8192, 65536, 65537, 300000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void messages__follow_each_other_without_gaps(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&multi);
    unsigned char *at = buffer;

    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer, sizeof buffer, &fixture), 0);
    for (size_t i = 0; i < SIZES; at += sizes[i++]) {
        send_filled(&fixture, sizes[i], i);
        arrives(&fixture, at, sizes[i], i, &fixture);
    }
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    ofi_fixture_close(&fixture); /* the buffer is still posted */
}

static void buffer__is_released_below_its_minimum(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&multi);

    min_set(&fixture.b, 200);
    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer, 1000, &buffer[1]), 0);
    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer + 1000, 1000, &buffer[2]), 0);
    send_filled(&fixture, 800, 1); /* leaves exactly the minimum */
    arrives(&fixture, buffer, 800, 1, &buffer[1]);
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    send_filled(&fixture, 1, 2);
    arrives(&fixture, buffer + 800, 1, 2, &buffer[1]);
    is_released(&fixture, &buffer[1]);
    send_filled(&fixture, 1000, 3); /* fills the second buffer */
    arrives(&fixture, buffer + 1000, 1000, 3, &buffer[2]);
    is_released(&fixture, &buffer[2]);
    ofi_fixture_close(&fixture);
}

static void buffer__takes_unexpected_messages(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&multi);

    min_set(&fixture.b, 100);
    for (uint64_t i = 0; i < 4; i++) {
        send_filled(&fixture, 150, i);
        CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    }
    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer, 400, &fixture), 0);
    for (uint64_t i = 0; i < 2; i++) /* 100 bytes are left: a third message is cut below */
        arrives(&fixture, buffer + 150 * i, 150, i, &fixture);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ETRUNC);
    is_released(&fixture, &fixture);
    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer, 400, &fixture), 0);
    arrives(&fixture, buffer, 150, 3, &fixture);
    ofi_fixture_close(&fixture);
}

static void truncation__reports_the_length_of_the_message(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&multi);

    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer, 1000, &fixture), 0);
    send_filled(&fixture, 900, 1);
    arrives(&fixture, buffer, 900, 1, &fixture);
    send_filled(&fixture, 500, 2);
    struct fi_cq_err_entry error = ofi_fixture_error(&fixture.b);

    CU_ASSERT_EQUAL(error.err, FI_ETRUNC);
    CU_ASSERT_EQUAL(error.len, 100);
    CU_ASSERT_EQUAL(error.olen, 400);
    CU_ASSERT_PTR_EQUAL(error.op_context, &fixture);
    is_released(&fixture, &fixture);
    ofi_fixture_close(&fixture);
}

static void cancel__releases_the_buffer(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&multi);

    CU_ASSERT_EQUAL_FATAL(post(&fixture.b, buffer, 1000, &fixture), 0);
    send_filled(&fixture, 10, 1);
    arrives(&fixture, buffer, 10, 1, &fixture);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &fixture), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ECANCELED);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &fixture), -FI_ENOENT);
    send_filled(&fixture, 10, 2);
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    ofi_fixture_close(&fixture);
}

static void calls__refuse_invalid_buffers_and_options(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&multi);
    struct iovec pieces[2] = {{buffer, 8}, {buffer + 8, 8}};
    struct fi_msg msg = {.msg_iov = pieces, .iov_count = 2, .addr = FI_ADDR_UNSPEC};
    size_t value = 8, bytes = 1;

    CU_ASSERT_EQUAL(fi_recvmsg(fixture.b.ep, &msg, FI_MULTI_RECV), -FI_EINVAL);
    CU_ASSERT_EQUAL(post(&fixture.b, buffer, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_getopt(&fixture.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
                              &bytes),
                    -FI_ETOOSMALL);
    CU_ASSERT_EQUAL(bytes, sizeof value);
    CU_ASSERT_EQUAL(fi_getopt(&fixture.b.ep->fid, FI_OPT_ENDPOINT, 99, &value, &bytes),
                    -FI_ENOPROTOOPT);
    CU_ASSERT_EQUAL(fi_setopt(&fixture.b.ep->fid, 99, FI_OPT_MIN_MULTI_RECV, &value, sizeof value),
                    -FI_ENOPROTOOPT);
    CU_ASSERT_EQUAL(fi_setopt(&fixture.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value,
                              4),
                    -FI_EINVAL);
    ofi_fixture_close(&fixture);
}

/* --- many messages, many buffers ---------------------------------------------------- */

#define MESSAGES 20000u
#define BUFFERS  4u
#define SLICE    (BUFFER / BUFFERS)

struct flood {
    struct ofi_fixture fixture;
    _Atomic uint64_t sent; /* bytes */
};

static size_t flood_bytes(uint64_t i)
{
    return (i * 2654435761u >> 7) % (i % 64 ? 300 : 60000);
}

static void *flood_send(void *arg)
{
    struct flood *flood = arg;

    for (uint64_t i = 0; i < MESSAGES; i++) {
        send_filled(&flood->fixture, flood_bytes(i), i);
        atomic_fetch_add(&flood->sent, flood_bytes(i));
    }
    return NULL;
}

/* The messages of a thread arrive in order and complete, in buffers that are posted again. */
static void flood__loses_and_reorders_nothing(void)
{
    struct flood flood = {.fixture = ofi_fixture_open_with(&multi)};
    unsigned releases = 0;
    uint64_t next = 0;
    pthread_t thread;

    if (ofi_fixture_is_serial()) { /* two threads may not use the domain */
        ofi_fixture_close(&flood.fixture);
        return;
    }
    min_set(&flood.fixture.b, 60000);
    for (unsigned i = 0; i < BUFFERS; i++)
        CU_ASSERT_EQUAL_FATAL(post(&flood.fixture.b, buffer + i * SLICE, SLICE, buffer + i * SLICE),
                              0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, flood_send, &flood), 0);
    while (next < MESSAGES) {
        struct fi_cq_tagged_entry entry = ofi_fixture_entry(&flood.fixture.b);

        if (entry.flags & FI_MULTI_RECV) {
            releases++;
            CU_ASSERT_EQUAL_FATAL(post(&flood.fixture.b, entry.op_context, SLICE, entry.op_context),
                                  0);
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(entry.data, next);
        CU_ASSERT_EQUAL_FATAL(entry.len, flood_bytes(next));
        CU_ASSERT(bytes_filled(entry.buf, entry.len, next));
        next++;
    }
    pthread_join(thread, NULL);
    CU_ASSERT(releases >= atomic_load(&flood.sent) / SLICE - BUFFERS);
    ofi_fixture_close(&flood.fixture);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(messages__follow_each_other_without_gaps),
        CASE(buffer__is_released_below_its_minimum),
        CASE(buffer__takes_unexpected_messages),
        CASE(truncation__reports_the_length_of_the_message),
        CASE(cancel__releases_the_buffer),
        CASE(calls__refuse_invalid_buffers_and_options),
        CASE(flood__loses_and_reorders_nothing),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_multi_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_multi", cases);
}
