/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_addr_test.c - addresses of libfabric's endpoints in all formats, and address vectors.
 *
 * Needs a fabric of at least four nodes: `fabemu run -- build/tests/…`.
 */
#include <arpa/inet.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define TEXT_BYTES 64
#define IPV4_NODE0 0xc6120000u /* 198.18.0.0 */
#define NODES_MAX  131072u     /* addresses in 198.18.0.0/15 */

static const uint32_t formats[] = {FI_FORMAT_UNSPEC, FI_ADDR_STR, FI_SOCKADDR_IN, FI_SOCKADDR};
#define FORMATS (sizeof formats / sizeof formats[0])

/* An endpoint in a domain of its own, whose addresses have the requested format. */
struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_av *av;
    struct ofi_fixture_endpoint end; /* ep is NULL until side_enable() */
};

static int getinfo_with(uint64_t caps, uint32_t format, const char *node, const char *service,
                        uint64_t flags, struct fi_info **info)
{
    struct fi_info *hints = ofi_fixture_hints(caps);
    int err;

    hints->addr_format = format;
    *info = NULL;
    err = fi_getinfo(OFI_FIXTURE_VERSION, node, service, flags, hints, info);
    fi_freeinfo(hints);
    return err;
}

static int getinfo(uint32_t format, const char *node, const char *service, uint64_t flags,
                   struct fi_info **info)
{
    return getinfo_with(OFI_FIXTURE_CAPS_ALL, format, node, service, flags, info);
}

/* Open all but the endpoint. The endpoint will have the source address @node and @service. */
static struct side side_open_with(uint64_t caps, uint32_t format, const char *node,
                                  const char *service)
{
    struct side side = {0};
    struct fi_av_attr attr = {.type = FI_AV_TABLE};

    CU_ASSERT_EQUAL_FATAL(getinfo_with(caps, format, node, service, node || service ? FI_SOURCE : 0,
                                       &side.info),
                          0);
    CU_ASSERT_EQUAL_FATAL(fi_fabric(side.info->fabric_attr, &side.fabric, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_domain(side.fabric, side.info, &side.domain, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_eq_open(side.fabric, &(struct fi_eq_attr){0}, &side.eq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_open(side.domain, &attr, &side.av, NULL), 0);
    return side;
}

static struct side side_open(uint32_t format, const char *node, const char *service)
{
    return side_open_with(OFI_FIXTURE_CAPS_ALL, format, node, service);
}

/* Open an endpoint. Returns the result of fi_enable(). */
static int side_enable(struct side *side)
{
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
    struct ofi_fixture_endpoint *end = &side->end;

    CU_ASSERT_EQUAL_FATAL(fi_cq_open(side->domain, &cq, &end->cq, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_endpoint(side->domain, side->info, &end->ep, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(end->ep, &side->av->fid, 0), 0);
    CU_ASSERT_EQUAL_FATAL(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    return fi_enable(end->ep);
}

static void side_close(struct side *side)
{
    if (side->end.ep)
        CU_ASSERT_TRUE(ofi_fixture_endpoint_close(&side->end));
    CU_ASSERT_EQUAL(fi_close(&side->av->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&side->eq->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&side->domain->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&side->fabric->fid), 0);
    fi_freeinfo(side->info);
}

static struct sockaddr_in ipv4(uint32_t addr, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(addr)};
}

static bool is_ipv4(const void *addr, size_t bytes, uint32_t want, uint16_t port)
{
    const struct sockaddr_in in = ipv4(want, port);

    return bytes == sizeof in && memcmp(addr, &in, sizeof in) == 0;
}

/* Print an address that has the format of @av. */
static const char *text_of(struct fid_av *av, const void *addr, char text[TEXT_BYTES])
{
    size_t bytes = TEXT_BYTES;

    CU_ASSERT_EQUAL(fi_av_straddr(av, addr, text, &bytes), text);
    CU_ASSERT_EQUAL(bytes, strlen(text) + 1);
    return text;
}

/*
 * Return whether fi_av_straddr() prints an address of the format of @side as it must: in its own
 * text or, where the format is IPv4, in the text of libfabric's other providers.
 */
static bool prints(const struct side *side, const void *addr, const char *own, const char *in)
{
    char text[TEXT_BYTES];

    return strcmp(text_of(side->av, addr, text),
                  side->info->addr_format == FI_SOCKADDR_IN ? in : own) == 0;
}

/* --- fi_getinfo --------------------------------------------------------------------- */

static void getinfo__answers_in_each_format(void)
{
    for (unsigned i = 0; i < FORMATS; i++) {
        struct side side = side_open(formats[i], NULL, NULL);
        struct fi_info *info;

        CU_ASSERT_EQUAL_FATAL(getinfo(formats[i], "1", "300", 0, &info), 0);
        CU_ASSERT_TRUE(info->addr_format == formats[i] || formats[i] == FI_FORMAT_UNSPEC ||
                       info->addr_format == FI_SOCKADDR_IN);
        CU_ASSERT_TRUE(prints(&side, info->dest_addr, "fabemu://1:600:601",
                              "fi_sockaddr_in://198.18.0.1:300"));
        CU_ASSERT_TRUE(
            prints(&side, info->src_addr, "fabemu://*:*:*", "fi_sockaddr_in://0.0.0.0:0"));
        fi_freeinfo(info);
        CU_ASSERT_EQUAL_FATAL(getinfo(formats[i], "198.18.0.1", NULL, FI_SOURCE, &info), 0);
        CU_ASSERT_TRUE(
            prints(&side, info->src_addr, "fabemu://1:*:*", "fi_sockaddr_in://198.18.0.1:0"));
        CU_ASSERT_PTR_NULL(info->dest_addr);
        fi_freeinfo(info);
        CU_ASSERT_EQUAL_FATAL(getinfo(formats[i], "0.0.0.0", "32767", FI_SOURCE, &info), 0);
        CU_ASSERT_TRUE(prints(&side, info->src_addr, "fabemu://*:65534:65535",
                              "fi_sockaddr_in://0.0.0.0:32767"));
        fi_freeinfo(info);
        CU_ASSERT_EQUAL_FATAL(getinfo(formats[i], NULL, "7", 0, &info), 0);
        CU_ASSERT_TRUE(prints(&side, info->dest_addr, "fabemu://localhost:14:15",
                              "fi_sockaddr_in://127.0.0.1:7"));
        fi_freeinfo(info);
        CU_ASSERT_EQUAL_FATAL(getinfo(formats[i], "fabemu://1:2:3", NULL, 0, &info), 0);
        CU_ASSERT_TRUE(
            prints(&side, info->dest_addr, "fabemu://1:2:3", "fi_sockaddr_in://198.18.0.1:1"));
        fi_freeinfo(info);
        side_close(&side);
    }
}

static void getinfo__knows_names_of_this_host(void)
{
    char host[256];
    const char *names[] = {"localhost", "LOCALHOST", host, "127.0.0.1", "127.255.0.1"};
    struct fi_info *info;

    CU_ASSERT_EQUAL_FATAL(gethostname(host, sizeof host), 0);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        CU_ASSERT_EQUAL_FATAL(getinfo(FI_SOCKADDR_IN, names[i], "7", 0, &info), 0);
        CU_ASSERT_TRUE(is_ipv4(info->dest_addr, info->dest_addrlen, INADDR_LOOPBACK, 7));
        CU_ASSERT_TRUE(is_ipv4(info->src_addr, info->src_addrlen, INADDR_ANY, 0));
        fi_freeinfo(info);
        CU_ASSERT_EQUAL_FATAL(getinfo(FI_SOCKADDR_IN, names[i], "7", FI_SOURCE, &info), 0);
        CU_ASSERT_TRUE(is_ipv4(info->src_addr, info->src_addrlen, INADDR_LOOPBACK, 7));
        fi_freeinfo(info);
    }
    CU_ASSERT_EQUAL(getinfo(FI_SOCKADDR_IN, "localhost", "7", FI_NUMERICHOST, &info), -FI_ENODATA);
    CU_ASSERT_EQUAL(getinfo(FI_SOCKADDR_IN, host, "7", FI_NUMERICHOST, &info), -FI_ENODATA);
    CU_ASSERT_EQUAL(getinfo(FI_SOCKADDR_IN, "127.0.0.1", "7", FI_NUMERICHOST, &info), 0);
    fi_freeinfo(info);
}

static void getinfo__refuses_invalid_names(void)
{
    static const struct {
        const char *node, *service;
        uint64_t flags;
    } bad[] = {
        {"", "7", 0},
        {"-1", "7", 0},
        {"+1", "7", 0},
        {" 1", "7", 0},
        {"1x", "7", 0},
        {"4294967294", "7", 0},
        {"99999999999999999999", "7", 0},
        {"8.8.8.8", "7", 0},
        {"198.20.0.0", "7", 0},
        {"198.17.255.255", "7", 0},
        {"198.18.0", "7", 0},
        {"198.18.0.1.", "7", 0},
        {"::1", "7", 0},
        {"nowhere.invalid", "7", 0},
        {"0.0.0.0", "7", 0},
        {"1", "", 0},
        {"1", "32768", 0},
        {"1", "-1", 0},
        {"1", "7 ", 0},
        {"1", "discard", 0},
        {"1", "4294967303", 0},
        {"fabemu://1:2:3", "7", 0},
        {NULL, NULL, FI_SOURCE},
    };
    struct fi_info *info;

    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (unsigned f = 0; f < FORMATS; f++)
            CU_ASSERT_EQUAL(getinfo(formats[f], bad[i].node, bad[i].service, bad[i].flags, &info),
                            -FI_ENODATA);
}

/*
 * Pass @bytes as an address of the hints, in memory of exactly that size, so that a sanitizer finds
 * reads beyond it.
 */
static int getinfo_of_hints(uint32_t format, const void *from, size_t bytes, bool source)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_ALL), *info = NULL;
    void *addr = malloc(bytes ? bytes : 1);
    int err;

    memcpy(addr, from, bytes);
    hints->addr_format = format;
    *(source ? &hints->src_addr : &hints->dest_addr) = addr;
    *(source ? &hints->src_addrlen : &hints->dest_addrlen) = bytes;
    err = ofi_fixture_info(hints, &info);
    if (!err) {
        CU_ASSERT_EQUAL(source ? info->src_addrlen : info->dest_addrlen, bytes);
        CU_ASSERT_EQUAL(memcmp(source ? info->src_addr : info->dest_addr, from, bytes), 0);
        fi_freeinfo(info);
    }
    fi_freeinfo(hints);
    return err;
}

/* Only addresses of exactly the format's size are read. */
static void getinfo__checks_the_size_of_addresses(void)
{
    for (unsigned i = 0; i < FORMATS; i++) {
        struct fi_info *info;
        char padded[2 * TEXT_BYTES] = "";

        CU_ASSERT_EQUAL_FATAL(getinfo(formats[i], "1", "7", 0, &info), 0);
        memcpy(padded, info->dest_addr, info->dest_addrlen);
        for (size_t bytes = 0; bytes < sizeof padded; bytes++) {
            int want = bytes == info->dest_addrlen ? 0 : -FI_ENODATA;

            CU_ASSERT_EQUAL(getinfo_of_hints(formats[i], padded, bytes, true), want);
            CU_ASSERT_EQUAL(getinfo_of_hints(formats[i], padded, bytes, false), want);
        }
        fi_freeinfo(info);
    }
}

/* The addresses of hints do not count where the caller names one. Source: fi_getinfo(3). */
static void getinfo__prefers_names_to_hints(void)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_ALL), *info = NULL;
    const struct sockaddr_in in = ipv4(IPV4_NODE0 + 2, 9);

    hints->addr_format = FI_SOCKADDR_IN;
    hints->src_addr = malloc(sizeof in);
    hints->dest_addr = malloc(sizeof in);
    memcpy(hints->src_addr, &in, sizeof in);
    memcpy(hints->dest_addr, &in, sizeof in);
    hints->src_addrlen = hints->dest_addrlen = sizeof in;
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, "1", "7", 0, hints, &info), 0);
    CU_ASSERT_TRUE(is_ipv4(info->src_addr, info->src_addrlen, IPV4_NODE0 + 2, 9));
    CU_ASSERT_TRUE(is_ipv4(info->dest_addr, info->dest_addrlen, IPV4_NODE0 + 1, 7));
    fi_freeinfo(info);
    hints->src_addrlen = 3; /* not read */
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, "1", "7", FI_SOURCE, hints, &info), 0);
    CU_ASSERT_TRUE(is_ipv4(info->src_addr, info->src_addrlen, IPV4_NODE0 + 1, 7));
    CU_ASSERT_TRUE(is_ipv4(info->dest_addr, info->dest_addrlen, IPV4_NODE0 + 2, 9));
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

/* --- text --------------------------------------------------------------------------- */

static void text__only_what_is_printed_is_parsed(void)
{
    static const char *const good[] = {
        "fabemu://3:2:3",
        "fabemu://*:*:*",
        "fabemu://localhost:14:15#9",
        "fabemu://0:65534:65535",
        "fabemu://4294967293:0:0#18446744073709551615",
    };
    static const char *const bad[] = {
        "",
        "fabemu",
        "fabemu:/",
        "fabemu://",
        "Fabemu://1:2:3",
        "fabemu://1",
        "fabemu://1:2",
        "fabemu://1:2:",
        "fabemu://1:2:3:",
        "fabemu://1:2:3 ",
        "fabemu://1:2:3\n",
        "fabemu:// 1:2:3",
        "fabemu://01:2:3",
        "fabemu://+1:2:3",
        "fabemu://-1:2:3",
        "fabemu://1:2:03",
        "fabemu://1:65536:3",
        "fabemu://1:65535:3",
        "fabemu://1:*:3",
        "fabemu://1:2:*",
        "fabemu://1:2:3#",
        "fabemu://1:2:3#0",
        "fabemu://1:2:3#01",
        "fabemu://1:2:3#18446744073709551616",
        "fabemu://1:2:3#1#1",
        "fabemu://4294967294:2:3",
        "fabemu://4294967295:2:3",
        "fabemu://localhosts:2:3",
        "fabemu://**:2:3",
        "fabemu://1:2:3/%s%n",
    };
    char text[TEXT_BYTES];
    struct side side = side_open(FI_ADDR_STR, NULL, NULL);

    for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
        CU_ASSERT_EQUAL(getinfo_of_hints(FI_ADDR_STR, good[i], strlen(good[i]) + 1, true), 0);
        CU_ASSERT_STRING_EQUAL(text_of(side.av, good[i], text), good[i]);
    }
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CU_ASSERT_EQUAL(getinfo_of_hints(FI_ADDR_STR, bad[i], strlen(bad[i]) + 1, true),
                        -FI_ENODATA);
        CU_ASSERT_EQUAL(fi_av_insert(side.av, &bad[i], 1, NULL, 0, NULL), 0);
        CU_ASSERT_EQUAL(fi_av_insertsvc(side.av, bad[i], NULL, NULL, 0, NULL), -FI_EINVAL);
        CU_ASSERT_STRING_EQUAL(text_of(side.av, bad[i], text), "invalid address");
    }
    side_close(&side);
}

static void straddr__cuts_to_the_buffer(void)
{
    struct side side = side_open(FI_ADDR_STR, NULL, NULL);
    static const char whole[] = "fabemu://3:2:3";

    for (size_t room = 0; room <= sizeof whole + 1; room++) {
        char *text = malloc(room + 1);
        size_t bytes = room;

        CU_ASSERT_EQUAL(fi_av_straddr(side.av, whole, text, &bytes), text);
        CU_ASSERT_EQUAL(bytes, sizeof whole);
        if (room)
            CU_ASSERT_EQUAL(strncmp(text, whole, room - 1), 0);
        bytes = room;
        fi_av_straddr(side.av, "?", text, &bytes);
        CU_ASSERT_EQUAL(bytes, sizeof "invalid address");
        free(text);
    }
    side_close(&side);
}

/* --- endpoints ---------------------------------------------------------------------- */

/* Return the address of an enabled endpoint; the caller frees it. */
static void *name_of(struct side *side, size_t *bytes)
{
    void *name;

    *bytes = 0;
    CU_ASSERT_EQUAL(fi_getname(&side->end.ep->fid, NULL, bytes), -FI_ETOOSMALL);
    name = malloc(*bytes);
    CU_ASSERT_EQUAL(fi_getname(&side->end.ep->fid, name, bytes), 0);
    return name;
}

/* Insert an address that has the side's format. */
static fi_addr_t insert(struct side *side, const void *addr)
{
    const char *text = addr;
    fi_addr_t ret = FI_ADDR_NOTAVAIL;

    CU_ASSERT_EQUAL(fi_av_insert(side->av,
                                 side->info->addr_format == FI_ADDR_STR ? (void *)&text : addr, 1,
                                 &ret, 0, NULL),
                    1);
    return ret;
}

/* Send a message to @to and receive it in the same endpoint. */
static void send_to_self(struct side *side, fi_addr_t to, fi_addr_t want)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;

    CU_ASSERT_EQUAL(fi_trecv(side->end.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_inject(&side->end, NULL, 0, 0, to, 1), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(side->end.cq, &entry, &source), 1);
    CU_ASSERT_EQUAL(source, want);
}

static void endpoint__is_reached_in_each_format(void)
{
    for (unsigned i = 0; i < FORMATS; i++) {
        struct side side = side_open(formats[i], "127.0.0.1", "300");
        fi_addr_t addr, self;
        size_t bytes;
        void *name;

        CU_ASSERT_EQUAL_FATAL(side_enable(&side), 0);
        name = name_of(&side, &bytes);
        addr = insert(&side, name);
        send_to_self(&side, addr, addr);
        CU_ASSERT_EQUAL(fi_av_remove(side.av, &addr, 1, 0), 0);
        CU_ASSERT_EQUAL(fi_av_insertsvc(side.av, "localhost", "300", &self, 0, NULL), 1);
        CU_ASSERT_EQUAL(self, addr); /* the index is used again */
        send_to_self(&side, self, self);
        free(name);
        side_close(&side);
    }
}

/* An endpoint without a port gets two queues for which a port stands, until all are in use. */
static void endpoint__gets_a_free_pair_of_queues(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);

    for (unsigned i = 0; i < 3; i++) {
        struct side other = side_open(FI_SOCKADDR_IN, NULL, NULL);
        struct sockaddr_in in;
        size_t bytes = sizeof in;

        CU_ASSERT_EQUAL_FATAL(side_enable(&other), 0);
        CU_ASSERT_EQUAL(fi_getname(&other.end.ep->fid, &in, &bytes), 0);
        CU_ASSERT_EQUAL(bytes, sizeof in);
        CU_ASSERT_TRUE(ntohs(in.sin_port) >= 128);
        CU_ASSERT_TRUE(ntohl(in.sin_addr.s_addr) - IPV4_NODE0 < NODES_MAX);
        insert(&other, &in);
        send_to_self(&other, 0, 0);
        side_close(&other);
    }
    side_close(&side);
}

static void endpoint__refuses_addresses_in_use_or_elsewhere(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, "0.0.0.0", "301");
    struct side same = side_open(FI_FORMAT_UNSPEC, NULL, "301");
    struct side there = side_open(FI_SOCKADDR_IN, "198.18.200.0", NULL);

    CU_ASSERT_EQUAL(side_enable(&side), 0);
    CU_ASSERT_EQUAL(side_enable(&same), -FI_EADDRINUSE);
    CU_ASSERT_EQUAL(side_enable(&there), -FI_EADDRNOTAVAIL);
    side_close(&there);
    side_close(&same);
    side_close(&side);
}

static void endpoint__checks_the_address_that_it_is_given(void)
{
    for (unsigned i = 0; i < FORMATS; i++) {
        struct side side = side_open(formats[i], NULL, NULL);
        size_t bytes = side.info->src_addrlen;
        char *name = malloc(2 * bytes);
        struct fid_ep *ep;

        memset(name, 0, 2 * bytes);
        memcpy(name, side.info->src_addr, bytes);
        side.info->src_addrlen--;
        CU_ASSERT_EQUAL(fi_endpoint(side.domain, side.info, &ep, NULL), -FI_EINVAL);
        side.info->src_addrlen++;
        CU_ASSERT_EQUAL_FATAL(fi_endpoint(side.domain, side.info, &ep, NULL), 0);
        for (size_t wrong = 0; wrong < 2 * bytes; wrong++)
            CU_ASSERT_EQUAL(fi_setname(&ep->fid, name, wrong), wrong == bytes ? 0 : -FI_EINVAL);
        CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
        CU_ASSERT_TRUE(prints(&side, name, "fabemu://*:*:*", "fi_sockaddr_in://0.0.0.0:0"));
        free(name);
        side_close(&side);
    }
}

/* --- FI_SOURCE_ERR ------------------------------------------------------------------ */

static void source_err__needs_a_request(void)
{
    struct fi_info *info;

    CU_ASSERT_EQUAL_FATAL(getinfo(FI_FORMAT_UNSPEC, NULL, NULL, 0, &info), 0);
    CU_ASSERT_EQUAL(info->caps & FI_SOURCE_ERR, 0);
    fi_freeinfo(info);
    CU_ASSERT_EQUAL_FATAL(getinfo_with(0, FI_FORMAT_UNSPEC, NULL, NULL, 0, &info), 0);
    CU_ASSERT_EQUAL(info->caps & FI_SOURCE_ERR, 0);
    fi_freeinfo(info);
    CU_ASSERT_EQUAL(getinfo_with(FI_MSG | FI_SOURCE_ERR, FI_FORMAT_UNSPEC, NULL, NULL, 0, &info),
                    -FI_ENODATA);
}

/* Send a message between two endpoints. Returns the result of reading the receiver's entry. */
static ssize_t message(struct side *from, fi_addr_t to, struct side *at, uint64_t tag,
                       fi_addr_t *source)
{
    struct fi_cq_tagged_entry entry;
    uint64_t sent = 7 + tag, got = 0;
    ssize_t read;

    CU_ASSERT_EQUAL(fi_trecv(at->end.ep, &got, sizeof got, NULL, FI_ADDR_UNSPEC, tag, 0, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_inject(&from->end, &sent, sizeof sent, 9, to, tag), 0);
    read = ofi_fixture_entry_wait(at->end.cq, &entry, source);
    CU_ASSERT_EQUAL(got, sent);
    return read;
}

/* Read the error entry of a message whose sender has the address @name, which has @bytes. */
static void unknown_sender(struct side *at, uint64_t tag, const void *name, size_t bytes, void *buf,
                           size_t room)
{
    struct fi_cq_err_entry error = {.err_data = buf, .err_data_size = room};
    size_t got = room && room < bytes ? room : bytes;

    CU_ASSERT_EQUAL(fi_cq_readerr(at->end.cq, &error, 0), 1);
    CU_ASSERT_EQUAL(error.err, FI_EADDRNOTAVAIL);
    CU_ASSERT_EQUAL(error.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    CU_ASSERT_EQUAL(error.len, sizeof(uint64_t));
    CU_ASSERT_EQUAL(error.olen, 0);
    CU_ASSERT_EQUAL(error.data, 9);
    CU_ASSERT_EQUAL(error.tag, tag);
    CU_ASSERT_EQUAL(error.err_data == buf, room != 0);
    CU_ASSERT_EQUAL_FATAL(error.err_data_size, got);
    CU_ASSERT_EQUAL(memcmp(error.err_data, name, got), 0);
}

/*
 * The error entry contains the address of the unknown sender. After the receiver has inserted it,
 * the sender is known.
 */
static void source_err__gives_the_address_of_an_unknown_sender(void)
{
    for (unsigned i = 0; i < FORMATS; i++) {
        struct side from = side_open(formats[i], NULL, NULL);
        struct side at =
            side_open_with(OFI_FIXTURE_CAPS_ALL | FI_SOURCE_ERR, formats[i], NULL, NULL);
        char buf[TEXT_BYTES];
        fi_addr_t to, known, source = 0;
        size_t bytes, at_bytes;
        void *name, *at_name;

        CU_ASSERT_TRUE(at.info->domain_attr->max_err_data >= sizeof buf);
        CU_ASSERT_EQUAL_FATAL(side_enable(&from), 0);
        CU_ASSERT_EQUAL_FATAL(side_enable(&at), 0);
        name = name_of(&from, &bytes);
        at_name = name_of(&at, &at_bytes);
        to = insert(&from, at_name);
        CU_ASSERT_EQUAL(message(&from, to, &at, 1, NULL), -FI_EAVAIL);
        unknown_sender(&at, 1, name, bytes, NULL, 0);
        CU_ASSERT_EQUAL(message(&from, to, &at, 2, &source), -FI_EAVAIL);
        unknown_sender(&at, 2, name, bytes, buf, 4);
        CU_ASSERT_EQUAL(message(&from, to, &at, 3, &source), -FI_EAVAIL);
        unknown_sender(&at, 3, name, bytes, buf, sizeof buf);
        known = insert(&at, buf);
        CU_ASSERT_EQUAL(message(&from, to, &at, 4, &source), 1);
        CU_ASSERT_EQUAL(source, known);
        CU_ASSERT_EQUAL(message(&at, known, &from, 5, &source), 1);
        CU_ASSERT_EQUAL(source, to);
        free(at_name);
        free(name);
        side_close(&at);
        side_close(&from);
    }
}

/* Wait for an entry, which must be an error of an unknown sender. Returns its flags. */
static uint64_t unknown_flags(struct side *at, uint64_t bytes)
{
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;

    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(at->end.cq, &entry, NULL), -FI_EAVAIL);
    CU_ASSERT_EQUAL(fi_cq_readerr(at->end.cq, &error, 0), 1);
    CU_ASSERT_EQUAL(error.err, FI_EADDRNOTAVAIL);
    CU_ASSERT_EQUAL(error.len, bytes);
    return error.flags;
}

/* Send a message without a tag. The first one may have to wait for a connection. */
static void inject_untagged(struct side *from, fi_addr_t to, uint64_t value)
{
    ssize_t err;

    while ((err = fi_inject(from->end.ep, &value, sizeof value, to)) == -FI_EAGAIN)
        fi_cq_read(from->end.cq, NULL, 0);
    CU_ASSERT_EQUAL(err, 0);
}

/*
 * Each message of an unknown sender in a multi-receive buffer is reported as an error, and so is a
 * write with data. The entry that releases the buffer is not an error.
 */
static void source_err__covers_buffers_of_many_messages_and_writes(void)
{
    const uint64_t caps = OFI_FIXTURE_CAPS_ALL | FI_MSG | FI_RMA | FI_MULTI_RECV;
    struct side from = side_open_with(caps, FI_FORMAT_UNSPEC, NULL, NULL);
    struct side at = side_open_with(caps | FI_SOURCE_ERR, FI_FORMAT_UNSPEC, NULL, NULL);
    uint64_t got[4] = {0}, sent = 5;
    const struct fi_msg msg = {.msg_iov = &(struct iovec){got, 2 * sizeof sent},
                               .iov_count = 1,
                               .addr = FI_ADDR_UNSPEC};
    size_t least = sizeof sent, bytes;
    struct fi_cq_tagged_entry entry;
    struct fid_mr *mr;
    void *name;
    fi_addr_t to;

    CU_ASSERT_EQUAL_FATAL(side_enable(&from), 0);
    CU_ASSERT_EQUAL_FATAL(side_enable(&at), 0);
    name = name_of(&at, &bytes);
    to = insert(&from, name);
    free(name);
    CU_ASSERT_EQUAL(fi_setopt(&at.end.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
                              sizeof least),
                    0);
    CU_ASSERT_EQUAL(fi_recvmsg(at.end.ep, &msg, FI_MULTI_RECV | FI_COMPLETION), 0);
    inject_untagged(&from, to, sent);
    CU_ASSERT_EQUAL(unknown_flags(&at, sizeof sent), FI_RECV | FI_MSG);
    inject_untagged(&from, to, sent);
    CU_ASSERT_EQUAL(unknown_flags(&at, sizeof sent), FI_RECV | FI_MSG);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(at.end.cq, &entry, NULL),
                    1); /* the buffer is released */
    CU_ASSERT_TRUE(entry.flags & FI_MULTI_RECV);
    CU_ASSERT_TRUE(got[0] == sent && got[1] == sent);

    CU_ASSERT_EQUAL_FATAL(fi_mr_reg(at.domain, got, sizeof got, FI_REMOTE_WRITE, 0, 7, 0, &mr,
                                    NULL),
                          0);
    CU_ASSERT_EQUAL(fi_inject_writedata(from.end.ep, &sent, sizeof sent, 9, to, 0, fi_mr_key(mr)),
                    0);
    CU_ASSERT_EQUAL(unknown_flags(&at, sizeof sent), FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    side_close(&at);
    side_close(&from);
}

/* --- address vectors ---------------------------------------------------------------- */

static void insert__checks_addresses(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);
    struct sockaddr_in in[] = {
        {0}, /* no family */
        ipv4(IPV4_NODE0, 9),
        ipv4(IPV4_NODE0, 0),
        ipv4(INADDR_ANY, 9), /* no port, no node */
        ipv4(IPV4_NODE0, 32768),
        ipv4(IPV4_NODE0 + NODES_MAX - 1, 9), /* no such port, node */
        ipv4(0x08080808, 9),
        ipv4(INADDR_LOOPBACK, 9),
    };
    enum { COUNT = sizeof in / sizeof in[0] };
    const bool good[COUNT] = {[1] = true, [COUNT - 1] = true};
    fi_addr_t addr[COUNT];
    int error[COUNT];

    CU_ASSERT_EQUAL(fi_av_insert(side.av, in, COUNT, addr, FI_SYNC_ERR, error), 2);
    for (unsigned i = 0; i < COUNT; i++) {
        CU_ASSERT_EQUAL(addr[i] != FI_ADDR_NOTAVAIL, good[i]);
        CU_ASSERT_EQUAL(error[i] == 0, good[i]);
        CU_ASSERT_TRUE(error[i] >= 0);
    }
    CU_ASSERT_EQUAL(fi_av_insert(side.av, NULL, 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(side.av, in, (size_t)INT_MAX + 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(side.av, in, 1, addr, FI_SYNC_ERR, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(side.av, in, 1, addr, FI_REMOTE_READ, NULL), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_av_insert(side.av, NULL, 0, NULL, 0, NULL), 0);
    side_close(&side);
}

static void lookup__cuts_to_the_buffer(void)
{
    for (unsigned i = 0; i < FORMATS; i++) {
        struct side side = side_open(formats[i], NULL, NULL);
        char whole[TEXT_BYTES];
        size_t all = sizeof whole;
        fi_addr_t addr;

        CU_ASSERT_EQUAL(fi_av_insertsvc(side.av, "1", "300", &addr, 0, NULL), 1);
        CU_ASSERT_EQUAL(fi_av_lookup(side.av, addr, whole, &all), 0);
        for (size_t room = 0; room <= all; room++) {
            char *name = malloc(room + 1);
            size_t bytes = room;

            CU_ASSERT_EQUAL(fi_av_lookup(side.av, addr, name, &bytes), 0);
            CU_ASSERT_EQUAL(bytes, all);
            CU_ASSERT_EQUAL(memcmp(name, whole, room), 0);
            free(name);
        }
        CU_ASSERT_EQUAL(fi_av_lookup(side.av, addr + 1, whole, &all), -FI_EINVAL);
        CU_ASSERT_EQUAL(fi_av_lookup(side.av, FI_ADDR_NOTAVAIL, whole, &all), -FI_EINVAL);
        side_close(&side);
    }
}

/* Removed indices are used again, the lowest one first. */
static void remove__frees_the_lowest_index(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);
    const struct sockaddr_in in = ipv4(IPV4_NODE0 + 1, 9);
    fi_addr_t addr[6] = {0, 1, 2, 3, 4, 5}, again[4] = {4, 1, 3, 1};

    for (unsigned i = 0; i < 6; i++)
        CU_ASSERT_EQUAL(insert(&side, &in), i);
    CU_ASSERT_EQUAL(fi_av_remove(side.av, again, 1, FI_MORE), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_av_remove(side.av, NULL, 1, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_remove(side.av, again, 4, 0), -FI_EINVAL); /* 1 is removed already */
    CU_ASSERT_EQUAL(insert(&side, &in), 1);
    CU_ASSERT_EQUAL(insert(&side, &in), 3);
    CU_ASSERT_EQUAL(insert(&side, &in), 4);
    CU_ASSERT_EQUAL(insert(&side, &in), 6);
    CU_ASSERT_EQUAL(fi_av_remove(side.av, addr, 6, 0), 0);
    side_close(&side);
}

static void insertsym__enters_nodes_and_ports_in_order(void)
{
    static const char *const want[][2] = {
        {"fabemu://1:600:601", "fi_sockaddr_in://198.18.0.1:300"},
        {"fabemu://1:602:603", "fi_sockaddr_in://198.18.0.1:301"},
        {"fabemu://2:600:601", "fi_sockaddr_in://198.18.0.2:300"},
        {"fabemu://2:602:603", "fi_sockaddr_in://198.18.0.2:301"},
    };
    static const char *const first[] = {"1", "198.18.0.1", "1", "198.18.0.1"};

    for (unsigned f = 0; f < FORMATS; f++) {
        struct side side = side_open(formats[f], NULL, NULL);
        fi_addr_t addr[4];

        CU_ASSERT_EQUAL(fi_av_insertsym(side.av, first[f], 2, "300", 2, addr, 0, NULL), 4);
        for (unsigned i = 0; i < 4; i++) {
            char name[TEXT_BYTES];
            size_t bytes = sizeof name;

            CU_ASSERT_EQUAL(fi_av_lookup(side.av, addr[i], name, &bytes), 0);
            CU_ASSERT_TRUE(prints(&side, name, want[i][0], want[i][1]));
        }
        side_close(&side);
    }
}

/* An address of this host is looked up at each use, so no process needs to have the ports yet. */
static void insertsym__enters_ports_of_this_host(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);
    fi_addr_t addr[2];
    int error[2];

    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "localhost", 1, "300", 2, addr, FI_SYNC_ERR, error),
                    2);
    CU_ASSERT(error[0] == 0 && error[1] == 0);
    side_close(&side);
}

static void insertsym__refuses_impossible_ranges(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);
    fi_addr_t addr[3];
    int error[3];

    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", 1, "32766", 3, addr, FI_SYNC_ERR, error), 2);
    CU_ASSERT_EQUAL(addr[2], FI_ADDR_NOTAVAIL);
    CU_ASSERT_EQUAL(error[2], FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", SIZE_MAX, "1", 2, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", SIZE_MAX, "1", 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "localhost", 2, "1", 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", 1, "0", 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", 1, NULL, 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, NULL, 1, "1", 1, addr, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", 0, "1", 5, addr, 0, NULL), 0);
    CU_ASSERT_EQUAL(fi_av_insertsym(side.av, "1", 5, "1", 0, addr, 0, NULL), 0);
    CU_ASSERT_EQUAL(fi_av_insertsvc(side.av, "fabemu://1:2:3", NULL, addr, 0, NULL), 1);
    side_close(&side);
}

static void open__checks_attributes(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);
    const struct sockaddr_in in = ipv4(IPV4_NODE0 + 1, 9);
    struct fi_av_attr attr = {.flags = FI_READ};
    struct fid_av *av;
    fi_addr_t addr;

    CU_ASSERT_EQUAL(fi_av_open(side.domain, &attr, &av, NULL), -FI_EINVAL);
    attr.flags = FI_REMOTE_READ;
    CU_ASSERT_EQUAL(fi_av_open(side.domain, &attr, &av, NULL), -FI_EBADFLAGS);
    attr = (struct fi_av_attr){.type = 99};
    CU_ASSERT_EQUAL(fi_av_open(side.domain, &attr, &av, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_open(side.domain, NULL, &av, NULL), -FI_EINVAL);
    attr = (struct fi_av_attr){.type = FI_AV_MAP, .flags = FI_SYMMETRIC};
    CU_ASSERT_EQUAL_FATAL(fi_av_open(side.domain, &attr, &av, NULL), 0);
    CU_ASSERT_EQUAL(fi_av_insert(av, &in, 1, NULL, 0, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(av, &in, 1, &addr, 0, NULL), 1);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    side_close(&side);
}

/* Insert and remove addresses until the other thread has finished. The vector grows at first. */
struct churn {
    struct fid_av *av;
    _Atomic bool stop;
    bool good;
};

static void *churn(void *arg)
{
    struct churn *churn = arg;
    fi_addr_t addr[3];

    churn->good = true;
    for (unsigned i = 0; churn->good && !atomic_load(&churn->stop); i++)
        churn->good = fi_av_insertsym(churn->av, "1", 1, "300", 3, addr, 0, NULL) == 3 &&
                      fi_av_remove(churn->av, addr, i < 5000 ? 2 : 3, 0) == 0;
    return NULL;
}

/* Senders, and receivers that look up a source, see whole entries while a thread inserts. */
static void threads__insert_while_others_send(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, "127.0.0.1", "300");
    struct churn state = {.av = side.av};
    pthread_t thread;
    fi_addr_t self;

    if (ofi_fixture_is_serial()) { /* such a program does not do this */
        side_close(&side);
        return;
    }
    CU_ASSERT_EQUAL_FATAL(side_enable(&side), 0);
    CU_ASSERT_EQUAL_FATAL(fi_av_insertsvc(side.av, "localhost", "300", &self, 0, NULL), 1);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, churn, &state), 0);
    for (unsigned i = 0; i < TEST_TRIALS(500); i++)
        send_to_self(&side, self, self);
    atomic_store(&state.stop, true);
    CU_ASSERT_EQUAL(pthread_join(thread, NULL), 0);
    CU_ASSERT_TRUE(state.good);
    side_close(&side);
}

/* --- asynchronous insertion --------------------------------------------------------- */

static void event__reports_errors_and_then_the_count(void)
{
    struct side side = side_open(FI_SOCKADDR_IN, NULL, NULL);
    struct fi_av_attr attr = {.type = FI_AV_TABLE, .flags = FI_EVENT};
    const struct sockaddr_in in[3] = {{0}, ipv4(IPV4_NODE0 + 1, 9), {0}};
    struct fi_eq_err_entry error = {0};
    struct fi_eq_entry entry;
    struct fid_av *av;
    fi_addr_t addr[3];
    int context, errors[3];
    uint32_t event;

    CU_ASSERT_EQUAL_FATAL(fi_av_open(side.domain, &attr, &av, NULL), 0);
    CU_ASSERT_EQUAL(fi_av_insert(av, in, 3, addr, 0, &context), -FI_ENOEQ);
    CU_ASSERT_EQUAL(fi_av_bind(av, &side.domain->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_bind(av, &side.eq->fid, FI_RECV), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL_FATAL(fi_av_bind(av, &side.eq->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_av_bind(av, &side.eq->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(av, in, 3, addr, FI_SYNC_ERR, errors), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_av_insert(av, in, 3, addr, 0, &context), 0);
    for (unsigned i = 0; i < 3; i += 2) {
        CU_ASSERT_EQUAL(fi_eq_read(side.eq, &event, &entry, sizeof entry, 0), -FI_EAVAIL);
        CU_ASSERT_EQUAL(fi_eq_readerr(side.eq, &error, 0), sizeof error);
        CU_ASSERT_TRUE(error.fid == &av->fid && error.context == &context);
        CU_ASSERT_TRUE(error.data == i && error.err == FI_EINVAL);
        CU_ASSERT_EQUAL(addr[i], FI_ADDR_NOTAVAIL);
    }
    CU_ASSERT_EQUAL(fi_eq_read(side.eq, &event, &entry, sizeof entry, 0), sizeof entry);
    CU_ASSERT_EQUAL(event, FI_AV_COMPLETE);
    CU_ASSERT_TRUE(entry.fid == &av->fid && entry.context == &context && entry.data == 1);
    CU_ASSERT_EQUAL(addr[1], 0);
    CU_ASSERT_EQUAL(fi_av_insert(av, NULL, 0, NULL, 0, NULL), 0);
    CU_ASSERT_EQUAL(fi_eq_read(side.eq, &event, &entry, sizeof entry, 0), sizeof entry);
    CU_ASSERT_TRUE(event == FI_AV_COMPLETE && entry.data == 0);
    CU_ASSERT_EQUAL(fi_eq_read(side.eq, &event, &entry, sizeof entry, 0), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_close(&side.eq->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&av->fid), 0);
    side_close(&side);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(getinfo__answers_in_each_format),
        CASE(getinfo__knows_names_of_this_host),
        CASE(getinfo__refuses_invalid_names),
        CASE(getinfo__checks_the_size_of_addresses),
        CASE(getinfo__prefers_names_to_hints),
        CASE(text__only_what_is_printed_is_parsed),
        CASE(straddr__cuts_to_the_buffer),
        CASE(endpoint__is_reached_in_each_format),
        CASE(endpoint__gets_a_free_pair_of_queues),
        CASE(endpoint__refuses_addresses_in_use_or_elsewhere),
        CASE(endpoint__checks_the_address_that_it_is_given),
        CASE(source_err__needs_a_request),
        CASE(source_err__gives_the_address_of_an_unknown_sender),
        CASE(source_err__covers_buffers_of_many_messages_and_writes),
        CASE(insert__checks_addresses),
        CASE(lookup__cuts_to_the_buffer),
        CASE(remove__frees_the_lowest_index),
        CASE(insertsym__enters_nodes_and_ports_in_order),
        CASE(insertsym__enters_ports_of_this_host),
        CASE(insertsym__refuses_impossible_ranges),
        CASE(open__checks_attributes),
        CASE(threads__insert_while_others_send),
        CASE(event__reports_errors_and_then_the_count),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_addr_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_addr", cases);
}
