/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_test.c - the libfabric provider, by libfabric's public interface alone.
 *
 * Run it in a fabric of at least two nodes (FABEMU_SOCKET) with the provider's path in
 * FI_PROVIDER_PATH: `fabemu run -- build/ofi_test`. Most cases use two endpoints of one process;
 * the last ones use a second process, an echo, which main() forks before anything is attached.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "nic/ofi/versions.h"
#include "tests/test.h"
#include "tests/fixtures/bytes.h"
#include "tests/fixtures/ofi/fixture.h"

#define LARGEST   (1u << 20)
#define ECHO_STOP UINT64_C(0xffffffffffffffff)
#define EXACT     0 /* no ignored bits of a tag */

static const size_t sizes[] = {0,    1,    8,     191,   192,   193,    255,    256,    1024,
                               4095, 8192, 65535, 65536, 65537, 262144, 999999, LARGEST};
#define SIZES (sizeof sizes / sizeof sizes[0])

/* A tagged message of one piece. */
static struct fi_msg_tagged one_piece(const struct iovec *piece, fi_addr_t addr, uint64_t tag,
                                      void *context)
{
    return (struct fi_msg_tagged){
        .msg_iov = piece, .iov_count = 1, .addr = addr, .tag = tag, .context = context};
}

/* --- fi_getinfo --------------------------------------------------------------------- */

static void getinfo__answers_open_mpi(void)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    struct fi_info *info;

    hints->tx_attr->op_flags = FI_COMPLETION;
    hints->rx_attr->op_flags = FI_COMPLETION;
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &info), 0);
    CU_ASSERT_EQUAL(info->ep_attr->type, FI_EP_RDM);
    CU_ASSERT_EQUAL(info->caps & OFI_FIXTURE_CAPS_MPI, OFI_FIXTURE_CAPS_MPI);
    CU_ASSERT_EQUAL(info->caps & FI_RMA, 0);
    CU_ASSERT_EQUAL(info->mode, 0);
    CU_ASSERT_EQUAL(info->tx_attr->op_flags, FI_COMPLETION);
    CU_ASSERT_EQUAL(info->ep_attr->mem_tag_format, UINT64_MAX);
    CU_ASSERT_EQUAL(info->ep_attr->max_msg_size, (size_t)1 << 39);
    CU_ASSERT_EQUAL(info->domain_attr->cq_data_size, 8);
    CU_ASSERT_EQUAL(info->domain_attr->mr_mode, 0);
    CU_ASSERT_EQUAL(info->ep_attr->tx_ctx_cnt, 1);
    CU_ASSERT_EQUAL(info->tx_attr->inject_size, 4096);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

static bool refused(struct fi_info *hints)
{
    struct fi_info *info;
    int err = ofi_fixture_info(hints, &info);

    fi_freeinfo(hints);
    fi_freeinfo(info);
    return err == -FI_ENODATA;
}

static void getinfo__refuses_unsupported_features(void)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);

    hints->ep_attr->type = FI_EP_DGRAM;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(FI_MSG | FI_NAMED_RX_CTX);
    hints->ep_attr->type = FI_EP_MSG;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(FI_MSG);
    hints->ep_attr->rx_ctx_cnt = 257;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    hints->domain_attr->cq_data_size = 9;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    hints->tx_attr->op_flags = FI_FENCE;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    hints->rx_attr->total_buffered_recv = 1;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(FI_RMA);
    hints->domain_attr->mr_iov_limit = 5;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(FI_RMA);
    hints->domain_attr->mr_cnt = 1u << 20;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(FI_RMA);
    hints->domain_attr->cntr_cnt = 1u << 20;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(FI_RMA);
    hints->domain_attr->max_err_data = 1;
    CU_ASSERT(refused(hints));
    hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    hints->addr_format = FI_SOCKADDR_IN6;
    CU_ASSERT(refused(hints));
}

/* A known traffic class is passed on, and an endpoint with it opens. */
static void getinfo__checks_the_traffic_class(void)
{
    static const uint32_t known[] = {FI_TC_UNSPEC,           FI_TC_BEST_EFFORT, FI_TC_LOW_LATENCY,
                                     FI_TC_DEDICATED_ACCESS, FI_TC_BULK_DATA,   FI_TC_SCAVENGER,
                                     FI_TC_NETWORK_CTRL,     FI_TC_DSCP | 46,   FI_TC_DSCP | 8};
    static const uint32_t unknown[] = {1, FI_TC_DSCP | 64, FI_TC_NETWORK_CTRL + 1, UINT32_MAX};
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_info *hints, *info;
    struct fid_ep *ep;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        hints = ofi_fixture_hints(FI_MSG);
        hints->tx_attr->tclass = hints->domain_attr->tclass = known[i];
        CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &info), 0);
        CU_ASSERT_EQUAL(info->tx_attr->tclass, known[i]);
        CU_ASSERT_EQUAL(info->domain_attr->tclass, known[i]);
        CU_ASSERT_EQUAL_FATAL(fi_endpoint(fixture.domain, info, &ep, NULL), 0);
        CU_ASSERT_EQUAL(fi_close(&ep->fid), 0);
        fi_freeinfo(info);
        fi_freeinfo(hints);
    }
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        hints = ofi_fixture_hints(FI_MSG);
        hints->tx_attr->tclass = unknown[i];
        CU_ASSERT(refused(hints));
        hints = ofi_fixture_hints(FI_MSG);
        hints->domain_attr->tclass = unknown[i];
        CU_ASSERT(refused(hints));
        info = fi_dupinfo(fixture.info);
        info->tx_attr->tclass = unknown[i];
        CU_ASSERT_EQUAL(fi_endpoint(fixture.domain, info, &ep, NULL), -FI_EINVAL);
        fi_freeinfo(info);
    }
    ofi_fixture_close(&fixture);
}

/* The protocol is that of the provider whose name this one has. Others are refused. */
static void getinfo__accepts_the_protocol_of_its_name(void)
{
    const char *name = getenv("FABEMU_PROVIDER_NAME");
    struct fi_info *hints = ofi_fixture_hints(FI_MSG), *info;

    hints->ep_attr->protocol = FI_PROTO_UNSPEC;
    CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &info), 0);
    if (name && strcmp(name, "sockets") == 0)
        CU_ASSERT_EQUAL(info->ep_attr->protocol, FI_PROTO_SOCK_TCP);
    hints->ep_attr->protocol = info->ep_attr->protocol;
    fi_freeinfo(info);
    CU_ASSERT_EQUAL(ofi_fixture_info(hints, &info), 0);
    fi_freeinfo(info);
    hints->ep_attr->protocol = FI_PROTO_GNI;
    CU_ASSERT(refused(hints));
}

static void getinfo__returns_no_data_without_a_fabric(void)
{
    char *path = strdup(getenv("FABEMU_SOCKET"));

    unsetenv("FABEMU_SOCKET");
    CU_ASSERT(refused(ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI)));
    setenv("FABEMU_SOCKET", "/nonexistent/socket", 1);
    CU_ASSERT(refused(ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI)));
    setenv("FABEMU_SOCKET", path, 1);
    free(path);
}

/*
 * The adapter chooses keys of 8 bytes, so hints about the size of a program's own keys do not
 * matter.
 */
static void getinfo__accepts_every_size_of_keys(void)
{
    for (size_t bytes = 0; bytes <= 8; bytes++) {
        struct fi_info *hints = ofi_fixture_hints(FI_RMA | FI_ATOMIC);
        struct fi_info *info = NULL;

        hints->domain_attr->mr_key_size = bytes;
        CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &info), 0);
        CU_ASSERT_EQUAL(info->domain_attr->mr_key_size, 8);
        fi_freeinfo(hints);
        fi_freeinfo(info);
    }
}

/* The mr_mode that a program of @version gets for @caps and @mr_mode; -1: no offer. */
static int granted(uint32_t version, uint64_t caps, int mr_mode, uint64_t *got)
{
    struct fi_info *hints = ofi_fixture_hints(caps);
    struct fi_info *info = NULL;
    int ret = -1;

    hints->domain_attr->mr_mode = mr_mode;
    if (!fi_getinfo(version, NULL, NULL, 0, hints, &info)) {
        ret = info->domain_attr->mr_mode;
        *got = info->caps;
    }
    fi_freeinfo(hints);
    fi_freeinfo(info);
    return ret;
}

/*
 * fi_mr(3): before version 1.5 there are two ways to register memory. The provider has both, and
 * FI_MR_BASIC for programs that leave it open.
 */
static void getinfo__offers_basic_registration(void)
{
    static const uint32_t old[] = {0, FI_VERSION(1, 0), FI_VERSION(1, 4)};
    struct fi_info *info = NULL;
    uint64_t caps = 0;

    for (unsigned i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(granted(old[i], 0, OFI_MR_UNSPEC, &caps), OFI_MR_BASIC);
        CU_ASSERT(caps & FI_RMA && caps & FI_ATOMIC);
        CU_ASSERT_EQUAL(granted(old[i], FI_RMA, OFI_MR_UNSPEC, &caps), OFI_MR_BASIC);
        CU_ASSERT_EQUAL(granted(old[i], FI_RMA, OFI_MR_BASIC, &caps), OFI_MR_BASIC);
        CU_ASSERT_EQUAL(granted(old[i], FI_RMA, OFI_MR_SCALABLE, &caps), OFI_MR_SCALABLE);
        CU_ASSERT_EQUAL_FATAL(fi_getinfo(old[i], NULL, NULL, 0, NULL, &info), 0);
        fi_freeinfo(info);
    }
    CU_ASSERT_EQUAL(granted(FI_VERSION(1, 5), FI_RMA, OFI_MR_BASIC, &caps), OFI_MR_BASIC);
    CU_ASSERT_EQUAL(granted(FI_VERSION(1, 5), FI_RMA, OFI_MR_SCALABLE, &caps), OFI_MR_SCALABLE);
    CU_ASSERT_EQUAL(granted(FI_VERSION(1, 5), FI_RMA, OFI_MR_UNSPEC, &caps), 0);
    CU_ASSERT_EQUAL(granted(FI_VERSION(1, 5), FI_RMA, FI_MR_PROV_KEY | FI_MR_VIRT_ADDR, &caps),
                    FI_MR_PROV_KEY);
    CU_ASSERT_EQUAL(granted(FI_VERSION(1, 5), FI_MSG, FI_MR_PROV_KEY, &caps), 0);
}

/* The provider supports the latest version that the library knows. */
static void getinfo__supports_the_latest_version(void)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    struct fi_info *info = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_getinfo(fi_version(), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    fi_freeinfo(info);
}

/* Version 2 of libfabric has groups of peers. The field does not exist in version 1. */
static void getinfo__refuses_groups_of_peers(void)
{
#if FI_MAJOR_VERSION >= 2
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    struct fi_info *info = NULL;

    hints->domain_attr->max_group_id = 1;
    CU_ASSERT_EQUAL(fi_getinfo(fi_version(), NULL, NULL, 0, hints, &info), -FI_ENODATA);
    fi_freeinfo(hints);
#endif
}

/* Unless a program chooses, an address vector may be of either type; fi_av_open() then chooses. */
static void getinfo__leaves_the_type_of_address_vectors_open(void)
{
    static const enum fi_av_type types[] = {FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE};

    for (unsigned i = 0; i < 3; i++) {
        struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
        struct fi_info *info = NULL;

        hints->domain_attr->av_type = types[i];
        CU_ASSERT_EQUAL_FATAL(ofi_fixture_info(hints, &info), 0);
        CU_ASSERT_EQUAL(info->domain_attr->av_type, types[i]);
        fi_freeinfo(hints);
        fi_freeinfo(info);
    }
}

static void getinfo__turns_names_into_addresses(void)
{
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    struct fi_info *info = NULL;
    uint32_t node;

    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, "1", "7", 0, hints, &info), 0);
    CU_ASSERT_EQUAL_FATAL(info->dest_addrlen, OFI_FIXTURE_ADDR_BYTES);
    memcpy(&node, info->dest_addr, sizeof node);
    CU_ASSERT_EQUAL(node, 1);
    CU_ASSERT_EQUAL(info->src_addrlen, OFI_FIXTURE_ADDR_BYTES); /* address of any endpoint here */
    fi_freeinfo(info);
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, "1", NULL, 0, hints, &info), 0);
    CU_ASSERT_EQUAL_FATAL(info->dest_addrlen, OFI_FIXTURE_ADDR_BYTES);
    memcpy(&node, info->dest_addr, sizeof node);
    CU_ASSERT_EQUAL(node, 1);
    fi_freeinfo(info);
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, NULL, NULL, 0, hints, &info), 0);
    CU_ASSERT_EQUAL(info->src_addrlen, OFI_FIXTURE_ADDR_BYTES);
    CU_ASSERT_EQUAL(info->dest_addrlen, 0);
    fi_freeinfo(info);
    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, NULL, "7", FI_SOURCE, hints, &info), 0);
    CU_ASSERT_EQUAL(info->src_addrlen, OFI_FIXTURE_ADDR_BYTES);
    fi_freeinfo(info);
    CU_ASSERT_EQUAL(fi_getinfo(OFI_FIXTURE_VERSION, "nowhere.invalid", "7", 0, hints, &info),
                    -FI_ENODATA);
    fi_freeinfo(hints);
}

/* An address of a node without queue numbers cannot be used for sending. */
static void av__refuses_an_address_without_queues(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_info *hints = ofi_fixture_hints(OFI_FIXTURE_CAPS_MPI);
    struct fi_info *info = NULL;
    char text[64];
    size_t bytes = sizeof text;
    fi_addr_t addr;

    CU_ASSERT_EQUAL_FATAL(fi_getinfo(OFI_FIXTURE_VERSION, "1", NULL, 0, hints, &info), 0);
    CU_ASSERT_EQUAL(fi_av_insert(fixture.av, info->dest_addr, 1, &addr, 0, NULL), 0);
    CU_ASSERT_EQUAL(addr, FI_ADDR_NOTAVAIL);
    CU_ASSERT_STRING_EQUAL(fi_av_straddr(fixture.av, info->dest_addr, text, &bytes),
                           "fabemu://1:*:*");
    bytes = sizeof text;
    CU_ASSERT_STRING_EQUAL(fi_av_straddr(fixture.av, info->src_addr, text, &bytes),
                           "fabemu://*:*:*");
    CU_ASSERT_EQUAL(bytes, sizeof "fabemu://*:*:*");
    fi_freeinfo(hints);
    fi_freeinfo(info);
    ofi_fixture_close(&fixture);
}

/* --- addresses ---------------------------------------------------------------------- */

static void av__inserts_looks_up_and_removes(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    char name[OFI_FIXTURE_ADDR_BYTES], text[64];
    size_t bytes = sizeof name, text_bytes = sizeof text;
    fi_addr_t again;

    CU_ASSERT_EQUAL(fixture.a.addr, 0);
    CU_ASSERT_EQUAL(fixture.b.addr, 1);
    CU_ASSERT_EQUAL(fi_av_lookup(fixture.av, fixture.b.addr, name, &bytes), 0);
    CU_ASSERT_EQUAL(memcmp(name, fixture.b.name, sizeof name), 0);
    fi_av_straddr(fixture.av, name, text, &text_bytes);
    CU_ASSERT_EQUAL(strncmp(text, "fabemu://", 9), 0);
    CU_ASSERT_EQUAL(fi_av_remove(fixture.av, &fixture.b.addr, 1, 0), 0);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, NULL, 0, NULL, fixture.b.addr, 1, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, NULL, 0, NULL, 77, 1, NULL), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_insert(fixture.av, fixture.b.name, 1, &again, 0, NULL), 1);
    CU_ASSERT_EQUAL(again, 1);
    memset(name + 8, 0x55, 8); /* another fabric's */
    CU_ASSERT_EQUAL(fi_av_insert(fixture.av, name, 1, &again, 0, NULL), 0);
    CU_ASSERT_EQUAL(again, FI_ADDR_NOTAVAIL);
    for (int i = 0; i < 2000; i++) { /* removed entries leave the hash table */
        CU_ASSERT_EQUAL(fi_av_remove(fixture.av, &fixture.b.addr, 1, 0), 0);
        CU_ASSERT_EQUAL(fi_av_insert(fixture.av, fixture.b.name, 1, &again, 0, NULL), 1);
        CU_ASSERT_EQUAL(again, fixture.b.addr);
    }
    ofi_fixture_close(&fixture);
}

/* An address belongs to a process: after the node's slot has a new process, it is unreachable. */
static void av__address_of_another_process_is_unreachable(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_cq_err_entry error;
    struct fi_cq_tagged_entry entry;
    char name[OFI_FIXTURE_ADDR_BYTES], text[2][64];
    size_t text_bytes = sizeof text[0];
    fi_addr_t other, source;
    uint64_t incarnation;

    memcpy(name, fixture.b.name, sizeof name);
    memcpy(&incarnation, name + 16, sizeof incarnation);
    CU_ASSERT_TRUE(incarnation > 0);
    incarnation++;
    memcpy(name + 16, &incarnation, sizeof incarnation);
    CU_ASSERT_EQUAL_FATAL(fi_av_insert(fixture.av, name, 1, &other, 0, NULL), 1);
    fi_av_straddr(fixture.av, name, text[0], &text_bytes);
    text_bytes = sizeof text[1];
    fi_av_straddr(fixture.av, fixture.b.name, text[1], &text_bytes);
    CU_ASSERT_NOT_EQUAL(strcmp(text[0], text[1]), 0);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, NULL, 0, NULL, other, 1, &fixture), 0);
    error = ofi_fixture_error(&fixture.a);
    CU_ASSERT_TRUE(error.err == FI_EHOSTUNREACH && error.op_context == &fixture);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, other, 1, EXACT, &fixture), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_EHOSTUNREACH);
    /*
     * Of two processes with the same queue numbers, the source is the one whose slot sent the
     * message.
     */
    CU_ASSERT_EQUAL(fi_trecv(fixture.a.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 2, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.b, NULL, 0, 0, fixture.a.addr, 2), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(fixture.a.cq, &entry, &source), 1);
    CU_ASSERT_EQUAL(source, fixture.b.addr);
    ofi_fixture_close(&fixture);
}

static void av__holds_thousands(void)
{
    enum { COUNT = 5000 };
    struct ofi_fixture fixture = ofi_fixture_open();
    struct ofi_fixture_endpoint *b = &fixture.b;
    fi_addr_t addr, source;
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < COUNT; i++) {
        char name[OFI_FIXTURE_ADDR_BYTES];
        uint16_t queue = (uint16_t)(1000 + i);

        memcpy(name, b->name, sizeof name);
        memcpy(name + 4, &queue, sizeof queue);
        memcpy(name + 6, &queue, sizeof queue);
        CU_ASSERT_EQUAL(fi_av_insert(fixture.av, name, 1, &addr, 0, NULL), 1);
        CU_ASSERT_EQUAL(addr, (fi_addr_t)i + 2);
    }
    CU_ASSERT_EQUAL(fi_trecv(b->ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, b->addr, 1), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(b->cq, &entry, &source), 1);
    CU_ASSERT_EQUAL(source, fixture.a.addr);
    ofi_fixture_close(&fixture);
}

/* --- messages ----------------------------------------------------------------------- */

static void exchange(struct ofi_fixture_endpoint *from, struct ofi_fixture_endpoint *to,
                     size_t bytes, bool early)
{
    unsigned char *out = malloc(LARGEST), *in = calloc(1, LARGEST);
    int send_context, recv_context;
    uint64_t tag = UINT64_C(0xfedcba9876543210) + bytes;
    struct fi_cq_tagged_entry entry;

    bytes_fill(out, bytes, bytes);
    if (early)
        CU_ASSERT_EQUAL(fi_trecv(to->ep, in, LARGEST, NULL, from->addr, tag, EXACT, &recv_context),
                        0);
    CU_ASSERT_EQUAL(fi_tsenddata(from->ep, out, bytes, NULL,
                                 early ? UINT64_MAX - bytes : 0xcafef00d, to->addr, tag,
                                 &send_context),
                    0);
    if (!early)
        CU_ASSERT_EQUAL(fi_trecv(to->ep, in, LARGEST, NULL, from->addr, tag, EXACT, &recv_context),
                        0);
    for (int i = 0; i < (from == to ? 2 : 1); i++) {
        entry = ofi_fixture_entry(to);
        if (entry.op_context == &send_context) {
            CU_ASSERT_EQUAL(entry.flags, FI_SEND | FI_TAGGED);
            continue;
        }
        CU_ASSERT_PTR_EQUAL(entry.op_context, &recv_context);
        CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
        CU_ASSERT_EQUAL(entry.len, bytes);
        CU_ASSERT_PTR_EQUAL(entry.buf, in);
        CU_ASSERT_EQUAL(entry.data, early ? UINT64_MAX - bytes : 0xcafef00d);
        CU_ASSERT_EQUAL(entry.tag, tag);
    }
    if (from != to) {
        entry = ofi_fixture_entry(from);
        CU_ASSERT_PTR_EQUAL(entry.op_context, &send_context);
        CU_ASSERT_EQUAL(entry.flags, FI_SEND | FI_TAGGED);
    }
    CU_ASSERT(bytes_filled(in, bytes, bytes));
    free(out);
    free(in);
}

static void tsenddata__delivers_every_size(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();

    for (size_t i = 0; i < SIZES; i++) {
        exchange(&fixture.a, &fixture.b, sizes[i], true);
        exchange(&fixture.b, &fixture.a, sizes[i], false);
    }
    ofi_fixture_close(&fixture);
}

static void tsenddata__reaches_its_own_endpoint(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();

    for (size_t i = 0; i < SIZES; i++)
        exchange(&fixture.a, &fixture.a, sizes[i], i % 2);
    ofi_fixture_close(&fixture);
}

static void tinject__sends_without_an_entry(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    static const size_t injected[] = {0, 1, 64, 191, 192, 193, 1000, 4095, 4096};
    static unsigned char out[4097], in[4097];

    for (unsigned i = 0; i < 9; i++) {
        size_t bytes = injected[i];

        bytes_fill(out, sizeof out, 7);
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, in, sizeof in, NULL, fixture.a.addr, bytes, EXACT,
                                 in),
                        0);
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, out, bytes, bytes, fixture.b.addr, bytes),
                        0);
        memset(out, 0, sizeof out); /* we own the buffer again */
        struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture.b);

        CU_ASSERT_EQUAL(entry.len, bytes);
        CU_ASSERT_EQUAL(entry.data, bytes);
        CU_ASSERT_EQUAL(entry.flags & FI_REMOTE_CQ_DATA, FI_REMOTE_CQ_DATA);
        CU_ASSERT(bytes_filled(in, bytes, 7));
    }
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(fi_tinject(fixture.a.ep, out, 4097, fixture.b.addr, 1), -FI_EMSGSIZE);
    ofi_fixture_close(&fixture);
}

static void send__does_not_match_tagged(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    int tagged, untagged, in_tagged = 0, in_untagged = 0, one = 1, two = 2;

    CU_ASSERT_EQUAL(fi_recv(fixture.b.ep, &in_untagged, 4, NULL, FI_ADDR_UNSPEC, &untagged), 0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in_tagged, 4, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX,
                             &tagged),
                    0);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, &one, 4, NULL, fixture.b.addr, 0, &one), 0);
    struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture.b);

    CU_ASSERT_PTR_EQUAL(entry.op_context, &tagged);
    CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_TAGGED);
    CU_ASSERT_EQUAL(fi_senddata(fixture.a.ep, &two, 4, NULL, 0, fixture.b.addr, &two), 0);
    entry = ofi_fixture_entry(&fixture.b);
    CU_ASSERT_PTR_EQUAL(entry.op_context, &untagged);
    CU_ASSERT_EQUAL(entry.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    CU_ASSERT_EQUAL(in_tagged, 1);
    CU_ASSERT_EQUAL(in_untagged, 2);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_MSG);
    ofi_fixture_close(&fixture);
}

static void trecv__matches_in_order_with_ignored_bits(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    int in[3] = {0}, out[3] = {10, 20, 30};

    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, &out[i], 4, 0, fixture.b.addr,
                                           0x100 + (uint64_t)i),
                        0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in[1], 4, NULL, FI_ADDR_UNSPEC, 0x101, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in[0], 4, NULL, FI_ADDR_UNSPEC, 0x100, 0xff, NULL), 0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in[2], 4, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, NULL),
                    0);
    for (int i = 0; i < 3; i++)
        ofi_fixture_entry(&fixture.b);
    CU_ASSERT_EQUAL(in[0], 10);
    CU_ASSERT_EQUAL(in[1], 20);
    CU_ASSERT_EQUAL(in[2], 30);
    ofi_fixture_close(&fixture);
}

static void sendv__gathers_and_scatters(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    unsigned char out[1000], in[1000];
    struct iovec from[5], to[5];

    bytes_fill(out, sizeof out, 3);
    for (size_t i = 0; i < 5; i++) {
        from[i] = (struct iovec){out + 250 * i, 250};
        to[i] = (struct iovec){in + (i ? 200 + 200 * i : 0), i ? 200 : 400};
    }
    CU_ASSERT_EQUAL(fi_trecvv(fixture.b.ep, to, NULL, 4, fixture.a.addr, 1, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(fi_tsendv(fixture.a.ep, from, NULL, 4, fixture.b.addr, 1, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).flags, FI_RECV | FI_TAGGED);
    CU_ASSERT(bytes_filled(in, 1000, 3));
    CU_ASSERT_EQUAL(fi_tsendv(fixture.a.ep, from, NULL, 5, fixture.b.addr, 1, NULL), -FI_EINVAL);
    ofi_fixture_close(&fixture);
}

static void trecv__reports_truncation(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    static const size_t longs[] = {100, 5000, LARGEST};
    unsigned char *out = malloc(LARGEST), in[65];

    bytes_fill(out, LARGEST, 9);
    for (int i = 0; i < 6; i++) {
        size_t bytes = longs[i / 2];

        in[64] = 0xee;
        if (i % 2)
            fi_trecv(fixture.b.ep, in, 64, NULL, FI_ADDR_UNSPEC, 5, EXACT, &in);
        CU_ASSERT_EQUAL(fi_tsenddata(fixture.a.ep, out, bytes, NULL, 77, fixture.b.addr, 5, NULL),
                        0);
        if (!(i % 2))
            fi_trecv(fixture.b.ep, in, 64, NULL, FI_ADDR_UNSPEC, 5, EXACT, &in);
        struct fi_cq_err_entry error = ofi_fixture_error(&fixture.b);

        CU_ASSERT_EQUAL(error.err, FI_ETRUNC);
        CU_ASSERT_PTR_EQUAL(error.op_context, &in);
        CU_ASSERT_EQUAL(error.len, 64);
        CU_ASSERT_EQUAL(error.olen, bytes - 64);
        CU_ASSERT_EQUAL(error.tag, 5);
        CU_ASSERT_EQUAL(error.data, 77);
        CU_ASSERT(bytes_filled(in, 64, 9));
        CU_ASSERT_EQUAL(in[64], 0xee);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
    }
    free(out);
    ofi_fixture_close(&fixture);
}

/* --- peek, claim, discard, cancel --------------------------------------------------- */

static ssize_t probe(struct ofi_fixture *fixture, uint64_t tag, uint64_t flags, void *buf,
                     size_t bytes, void *context)
{
    struct iovec iov = {buf, bytes};
    struct fi_msg_tagged msg = one_piece(&iov, fixture->a.addr, tag, context);

    return fi_trecvmsg(fixture->b.ep, &msg, flags | FI_COMPLETION);
}

/* Peek until there is a message. */
static struct fi_cq_tagged_entry probe_hit(struct ofi_fixture *fixture, uint64_t tag,
                                           uint64_t flags, void *context)
{
    struct fi_cq_tagged_entry entry = {0};
    struct fi_cq_err_entry error = {0};
    time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;

    do {
        CU_ASSERT_EQUAL(probe(fixture, tag, FI_PEEK | flags, NULL, 0, context), 0);
        ssize_t got = ofi_fixture_entry_wait(fixture->b.cq, &entry, NULL);

        if (got == 1)
            return entry;
        CU_ASSERT_EQUAL_FATAL(fi_cq_readerr(fixture->b.cq, &error, 0), 1);
        CU_ASSERT_EQUAL(error.err, FI_ENOMSG);
        CU_ASSERT_PTR_EQUAL(error.op_context, context);
    } while (time(NULL) < until);
    CU_FAIL("no message to peek at");
    return entry;
}

static void peek__finds_without_removing(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_context context;
    char in[8] = "";

    CU_ASSERT_EQUAL(probe(&fixture, 1, FI_PEEK, NULL, 0, &context), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ENOMSG);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, "hello", 6, 42, fixture.b.addr, 1), 0);
    for (int i = 0; i < 2; i++) {
        struct fi_cq_tagged_entry entry = probe_hit(&fixture, 1, 0, &context);

        CU_ASSERT_PTR_EQUAL(entry.op_context, &context);
        CU_ASSERT_EQUAL(entry.len, 6);
        CU_ASSERT_EQUAL(entry.tag, 1);
        CU_ASSERT_EQUAL(entry.data, 42);
        CU_ASSERT_PTR_NULL(entry.buf);
    }
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, in, 8, NULL, fixture.a.addr, 1, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).len, 6);
    CU_ASSERT_STRING_EQUAL(in, "hello");
    ofi_fixture_close(&fixture);
}

static void claim__takes_out_of_matching(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_context claim, other;
    unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST), small = 0;

    for (size_t i = 0; i < SIZES; i++) {
        bytes_fill(out, sizes[i], i);
        CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, out, sizes[i], NULL, fixture.b.addr, 1, NULL), 0);
        CU_ASSERT_EQUAL(probe_hit(&fixture, 1, FI_CLAIM, &claim).len, sizes[i]);
        CU_ASSERT_EQUAL(probe(&fixture, 1, FI_PEEK, NULL, 0, &other), 0);
        CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ENOMSG);
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, "x", 1, 0, fixture.b.addr, 1), 0);
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &small, 1, NULL, FI_ADDR_UNSPEC, 1, EXACT, &other),
                        0);
        CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.b).op_context, &other);
        CU_ASSERT_EQUAL(small, 'x');
        CU_ASSERT_EQUAL(probe(&fixture, 1, FI_CLAIM, in, LARGEST, &other), -FI_ENOMSG);
        CU_ASSERT_EQUAL(probe(&fixture, 1, FI_CLAIM, in, LARGEST, &claim), 0);
        struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture.b);

        CU_ASSERT_PTR_EQUAL(entry.op_context, &claim);
        CU_ASSERT_EQUAL(entry.len, sizes[i]);
        CU_ASSERT(bytes_filled(in, sizes[i], i));
        ofi_fixture_entry(&fixture.a);
    }
    free(out);
    free(in);
    ofi_fixture_close(&fixture);
}

static void discard__drops_the_message(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_context context;
    unsigned char *out = calloc(1, LARGEST);

    for (size_t bytes = 10; bytes <= LARGEST; bytes = bytes == 10 ? LARGEST : bytes + 1) {
        CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, out, bytes, NULL, fixture.b.addr, 1, NULL), 0);
        CU_ASSERT_EQUAL(probe_hit(&fixture, 1, FI_DISCARD, &context).len, bytes);
        ofi_fixture_entry(&fixture.a);
        CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, out, bytes, NULL, fixture.b.addr, 1, NULL), 0);
        probe_hit(&fixture, 1, FI_CLAIM, &context);
        CU_ASSERT_EQUAL(probe(&fixture, 1, FI_CLAIM | FI_DISCARD, NULL, 0, &context), 0);
        CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.b).op_context, &context);
        ofi_fixture_entry(&fixture.a);
    }
    CU_ASSERT_EQUAL(probe(&fixture, 1, FI_PEEK, NULL, 0, &context), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ENOMSG);
    /* Left claimed: closing must handle that. */
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, out, 10, NULL, fixture.b.addr, 1, NULL), 0);
    probe_hit(&fixture, 1, FI_CLAIM, &context);
    ofi_fixture_close(&fixture);
    free(out);
}

static void cancel__ends_an_unmatched_receive(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    int in = 0, out = 5, first, second, untagged;

    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, EXACT, &first), 0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, EXACT, &second), 0);
    CU_ASSERT_EQUAL(fi_recv(fixture.b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, &untagged), 0);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &first), 0);
    struct fi_cq_err_entry error = ofi_fixture_error(&fixture.b);

    CU_ASSERT_EQUAL(error.err, FI_ECANCELED);
    CU_ASSERT_PTR_EQUAL(error.op_context, &first);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &first), -FI_ENOENT);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, &out, 4, NULL, fixture.b.addr, 1, NULL), 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.b).op_context, &second);
    CU_ASSERT_EQUAL(in, 5);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &second), -FI_ENOENT);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &untagged), 0);
    error = (struct fi_cq_err_entry){.err_data = &out, .err_data_size = sizeof out};
    CU_ASSERT_EQUAL(fi_cq_readerr(fixture.b.cq, &error, 0), 1);
    CU_ASSERT_PTR_EQUAL(error.op_context, &untagged);
    CU_ASSERT_PTR_EQUAL(error.err_data, &out); /* our context, left empty */
    CU_ASSERT_EQUAL(error.err_data_size, 0);
    /* Left posted: closing must handle that. */
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, EXACT, &first), 0);
    ofi_fixture_close(&fixture);
}

/* Operations are reused: none keeps the data of its last message. */
static void cancel__keeps_no_data_of_older_messages(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    int in, out = 5;

    for (int i = 0; i < 300; i++) {
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, EXACT, NULL), 0);
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, &out, 4, 7, fixture.b.addr, 1), 0);
        CU_ASSERT(ofi_fixture_entry(&fixture.b).flags & FI_REMOTE_CQ_DATA);
    }
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, EXACT, &in), 0);
    CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &in), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).flags & FI_REMOTE_CQ_DATA, 0);
    ofi_fixture_close(&fixture);
}

/*
 * After the close the buffer belongs to the user again, and the receiver does not wait for the
 * message.
 */
static void close__ends_an_unreceived_send(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    unsigned char *out = calloc(1, LARGEST), *in = calloc(1, LARGEST);

    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, out, LARGEST, NULL, fixture.b.addr, 1, NULL), 0);
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    CU_ASSERT_EQUAL(fi_close(&fixture.a.ep->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&fixture.a.cq->fid), 0);
    free(out);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, in, LARGEST, NULL, FI_ADDR_UNSPEC, 1, EXACT, in), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ECANCELED);
    CU_ASSERT(ofi_fixture_endpoint_open(&fixture, &fixture.a, &ofi_fixture_plain));
    ofi_fixture_close(&fixture);
    free(in);
}

/* --- completions -------------------------------------------------------------------- */

static void selective__reports_requested_completions(void)
{
    struct ofi_fixture fixture =
        ofi_fixture_open_with(&(struct ofi_fixture_config){.caps = OFI_FIXTURE_CAPS_ALL,
                                                           .format = FI_CQ_FORMAT_TAGGED,
                                                           .bind_flags = FI_SELECTIVE_COMPLETION});
    int out = 3, in = 0, context;
    struct iovec from = {&out, 4}, to = {&in, 4};
    struct fi_msg_tagged send = one_piece(&from, fixture.b.addr, 1, &context);
    struct fi_msg_tagged recv = one_piece(&to, FI_ADDR_UNSPEC, 1, &context);

    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &recv, 0), 0);
    CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &send, 0), 0);
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &recv, FI_COMPLETION), 0);
    CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &send, FI_COMPLETION), 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.a).op_context, &context);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.b).op_context, &context);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT(ofi_fixture_quiet(&fixture.b));
    ssize_t err;

    while ((err = fi_tsendmsg(fixture.a.ep, &send, FI_INJECT | FI_COMPLETION)) == -FI_EAGAIN)
        CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(err, 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.a).op_context, &context);
    to.iov_len = 1; /* errors are always reported */
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &recv, 0), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.b).err, FI_ETRUNC);
    ofi_fixture_close(&fixture);
}

static void data__is_flagged_only_when_sent(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();

    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 2, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, NULL, 0, NULL, fixture.b.addr, 1, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).flags & FI_REMOTE_CQ_DATA, 0);
    CU_ASSERT_EQUAL(fi_tsenddata(fixture.a.ep, NULL, 0, NULL, 0, fixture.b.addr, 2, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).flags & FI_REMOTE_CQ_DATA, FI_REMOTE_CQ_DATA);
    ofi_fixture_close(&fixture);
}

static void cq__uses_its_format(void)
{
    static const size_t bytes[] = {
        [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
        [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
        [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
        [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
    };

    for (unsigned format = FI_CQ_FORMAT_CONTEXT; format <= FI_CQ_FORMAT_TAGGED; format++) {
        struct ofi_fixture fixture = ofi_fixture_open_with(
            &(struct ofi_fixture_config){.caps = OFI_FIXTURE_CAPS_ALL, .format = format});
        unsigned char buf[2 * sizeof(struct fi_cq_tagged_entry)];
        fi_addr_t source = 99;
        void *context;
        int mine;

        memset(buf, 0xa5, sizeof buf);
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, fixture.a.addr, 1, EXACT, &mine), 0);
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, fixture.b.addr, 1), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(fixture.b.cq, buf, &source), 1);
        memcpy(&context, buf, sizeof context);
        CU_ASSERT_PTR_EQUAL(context, &mine);
        CU_ASSERT_EQUAL(buf[bytes[format]], 0xa5);
        CU_ASSERT_EQUAL(source, fixture.a.addr);
        ofi_fixture_close(&fixture);
    }
}

/* struct fi_cq_err_entry has grown with versions. A program gets only the fields of its version. */
static void readerr__respects_the_version(void)
{
    static const struct {
        uint32_t version;
        size_t bytes;
    } of[] = {{FI_VERSION(1, 4), offsetof(struct fi_cq_err_entry, err_data_size)},
              {FI_VERSION(1, 5), offsetof(struct fi_cq_err_entry, err_data_size) + sizeof(size_t)}};

    for (unsigned i = 0; i < 2; i++) {
        struct ofi_fixture fixture =
            ofi_fixture_open_with(&(struct ofi_fixture_config){.caps = OFI_FIXTURE_CAPS_ALL,
                                                               .format = FI_CQ_FORMAT_TAGGED,
                                                               .version = of[i].version,
                                                               .mr_mode = i ? 0 : OFI_MR_BASIC});
        _Alignas(8) unsigned char buf[2 * sizeof(struct fi_cq_err_entry)];
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;

        memset(buf, 0xa5, sizeof buf);
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, fixture.a.addr, 1, EXACT, &fixture),
                        0);
        CU_ASSERT_EQUAL(fi_cancel(&fixture.b.ep->fid, &fixture), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry_wait(fixture.b.cq, &entry, NULL), -FI_EAVAIL);
        /* in version 2, fi_cq_readerr() itself writes to the last field */
        CU_ASSERT_EQUAL(fixture.b.cq->ops->readerr(fixture.b.cq,
                                                   (struct fi_cq_err_entry *)(void *)buf, 0),
                        1);
        memcpy(&error, buf, of[i].bytes);
        CU_ASSERT(error.err == FI_ECANCELED && error.op_context == &fixture);
        for (size_t at = of[i].bytes; at < sizeof buf; at++)
            CU_ASSERT_EQUAL_FATAL(buf[at], 0xa5);
        ofi_fixture_close(&fixture);
    }
}

static void sread__waits_and_gives_up(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&(struct ofi_fixture_config){
        .caps = OFI_FIXTURE_CAPS_ALL, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC});
    struct fi_cq_tagged_entry entry;

    CU_ASSERT_EQUAL(fi_cq_sread(fixture.b.cq, &entry, 1, NULL, 20), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_cq_signal(fixture.b.cq), 0);
    CU_ASSERT_EQUAL(fi_cq_sread(fixture.b.cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, fixture.a.addr, 1, EXACT, &entry), 0);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, fixture.b.addr, 1), 0);
    CU_ASSERT_EQUAL(fi_cq_sread(fixture.b.cq, &entry, 1, NULL, -1), 1);
    CU_ASSERT_PTR_EQUAL(entry.op_context, &entry);
    ofi_fixture_close(&fixture);
}

static void cntr__counts(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&(struct ofi_fixture_config){
        .caps = OFI_FIXTURE_CAPS_ALL, .format = FI_CQ_FORMAT_TAGGED, .counters = true});
    char in[4];

    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, in, 4, NULL, FI_ADDR_UNSPEC, 1, EXACT, NULL), 0);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, "abc", 4, NULL, fixture.b.addr, 1, NULL), 0);
    CU_ASSERT_EQUAL(fi_cntr_wait(fixture.a.sent, 1, -1), 0);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, "abc", 4, 0, fixture.b.addr, 1), 0);
    CU_ASSERT_EQUAL(fi_cntr_wait(fixture.b.received, 2, -1), 0);
    CU_ASSERT_EQUAL(fi_cntr_read(fixture.a.sent), 2);
    CU_ASSERT_EQUAL(fi_tsend(fixture.a.ep, "abcde", 6, NULL, fixture.b.addr, 1, NULL), 0);
    for (time_t until = time(NULL) + OFI_FIXTURE_PATIENCE_S;
         !fi_cntr_readerr(fixture.b.received) && time(NULL) < until;)
        CU_ASSERT_EQUAL(fi_cntr_read(fixture.b.received), 2);
    CU_ASSERT_EQUAL(fi_cntr_readerr(fixture.b.received), 1);
    CU_ASSERT_EQUAL(fi_cntr_wait(fixture.b.received, 9, 10), -FI_ETIMEDOUT);
    ofi_fixture_close(&fixture);
}

/* With FI_PEER, an object would belong to another provider (fi_peer(3)). */
static void open__refuses_the_objects_of_other_providers(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_cntr *cntr;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_eq *eq;

    CU_ASSERT_EQUAL(fi_cq_open(fixture.domain, &(struct fi_cq_attr){.flags = FI_PEER}, &cq, NULL),
                    -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_cntr_open(fixture.domain, &(struct fi_cntr_attr){.flags = FI_PEER}, &cntr,
                                 NULL),
                    -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_eq_open(fixture.fabric, &(struct fi_eq_attr){.flags = FI_PEER}, &eq, NULL),
                    -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_av_open(fixture.domain, &(struct fi_av_attr){.flags = FI_PEER}, &av, NULL),
                    -FI_EBADFLAGS);
    ofi_fixture_close(&fixture);
}

static void cq__grows_beyond_its_size(void)
{
    enum { COUNT = 3000 };
    struct ofi_fixture fixture = ofi_fixture_open();
    uintptr_t next = 0;

    for (uintptr_t i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, EXACT, (void *)i),
                        0);
    for (int i = 0; i < COUNT; i++)
        CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, fixture.b.addr, 1), 0);
    while (next < COUNT) {
        struct fi_cq_tagged_entry entry[64];
        ssize_t got = fi_cq_read(fixture.b.cq, entry, 64);

        for (ssize_t i = 0; i < got; i++)
            CU_ASSERT_EQUAL_FATAL((uintptr_t)entry[i].op_context, next++);
        CU_ASSERT_FATAL(got > 0 || got == -FI_EAGAIN);
    }
    ofi_fixture_close(&fixture);
}

/* --- several threads ---------------------------------------------------------------- */

#define THREAD_MESSAGES 2000

struct talker {
    struct ofi_fixture *fixture;
    uint64_t tag;
    int bad;
};

static void *talk(void *argument)
{
    struct talker *talker = argument;
    struct ofi_fixture *fixture = talker->fixture;

    for (uint64_t i = 0; i < THREAD_MESSAGES; i++) {
        ssize_t err;

        while ((err = fi_tinjectdata(fixture->a.ep, &i, sizeof i, (uint32_t)talker->tag,
                                     fixture->b.addr, talker->tag)) == -FI_EAGAIN)
            sched_yield();
        talker->bad += err != 0;
        err = fi_tsend(fixture->a.ep, &talker->tag, sizeof talker->tag, NULL, fixture->b.addr,
                       talker->tag + 100, talker);
        talker->bad += err != 0;
        struct fi_cq_tagged_entry entry;

        while (fi_cq_read(fixture->a.cq, &entry, 1) != 1) /* its own or another thread's */
            ;
        talker->bad += !(entry.flags & FI_SEND);
    }
    return NULL;
}

static void threads__share_endpoint_and_queue(void)
{
    enum { THREADS = 3 };
    struct talker talkers[THREADS];
    pthread_t threads[THREADS];
    struct ofi_fixture fixture;

    if (ofi_fixture_is_serial())
        return; /* no process may */
    fixture = ofi_fixture_open();
    for (uint64_t i = 0; i < THREADS; i++) {
        talkers[i] = (struct talker){.fixture = &fixture, .tag = i + 1};
        pthread_create(&threads[i], NULL, talk, &talkers[i]);
    }
    for (uint64_t n = 0; n < THREAD_MESSAGES; n++)
        for (uint64_t i = 0; i < THREADS; i++) {
            uint64_t number = 0, tag = 0;

            fi_trecv(fixture.b.ep, &number, 8, NULL, FI_ADDR_UNSPEC, i + 1, EXACT, &number);
            fi_trecv(fixture.b.ep, &tag, 8, NULL, FI_ADDR_UNSPEC, i + 101, EXACT, &tag);
            ofi_fixture_entry(&fixture.b);
            ofi_fixture_entry(&fixture.b);
            CU_ASSERT_EQUAL(number, n);
            CU_ASSERT_EQUAL(tag, i + 1);
        }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CU_ASSERT_EQUAL(talkers[i].bad, 0);
    }
    ofi_fixture_close(&fixture);
}

/* --- directed receives and delivery ------------------------------------------------- */

/* A directed receive for @from gets @number and reports its sender. */
static void directed_arrives(struct ofi_fixture *fixture, const struct ofi_fixture_endpoint *from,
                             uint64_t number, const uint64_t *got)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t source = FI_ADDR_NOTAVAIL;

    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(fixture->a.cq, &entry, &source), 1);
    CU_ASSERT_EQUAL(source, from->addr);
    CU_ASSERT_EQUAL(*got, number);
}

static ssize_t directed_recv(struct ofi_fixture *fixture, bool tagged, fi_addr_t from,
                             uint64_t *got)
{
    *got = 0;
    return tagged ? fi_trecv(fixture->a.ep, got, 8, NULL, from, 5, EXACT, NULL)
                  : fi_recv(fixture->a.ep, got, 8, NULL, from, NULL);
}

static void directed_send(struct ofi_fixture *fixture, struct ofi_fixture_endpoint *from,
                          bool tagged, uint64_t *number)
{
    CU_ASSERT_EQUAL(tagged ? fi_tsend(from->ep, number, 8, NULL, fixture->a.addr, 5, NULL)
                           : fi_send(from->ep, number, 8, NULL, fixture->a.addr, NULL),
                    0);
    ofi_fixture_entry(from);
}

/* Endpoints of one node are distinguished, whether the receive or the message came first. */
static void directed__receives_from_one_endpoint_of_a_node(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct ofi_fixture_endpoint c = {0};
    uint64_t of_b = 11, of_c = 22, got[2];

    CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&fixture, &c, &ofi_fixture_plain));
    for (int tagged = 0; tagged < 2; tagged++) {
        CU_ASSERT_EQUAL(directed_recv(&fixture, tagged, c.addr, &got[0]), 0);
        CU_ASSERT_EQUAL(directed_recv(&fixture, tagged, fixture.b.addr, &got[1]), 0);
        directed_send(&fixture, &fixture.b, tagged, &of_b);
        directed_arrives(&fixture, &fixture.b, 11, &got[1]);
        directed_send(&fixture, &c, tagged, &of_c);
        directed_arrives(&fixture, &c, 22, &got[0]);

        directed_send(&fixture, &fixture.b, tagged, &of_b);
        directed_send(&fixture, &c, tagged, &of_c);
        CU_ASSERT(ofi_fixture_quiet(&fixture.a)); /* both are there */
        CU_ASSERT_EQUAL(directed_recv(&fixture, tagged, c.addr, &got[0]), 0);
        directed_arrives(&fixture, &c, 22, &got[0]);
        CU_ASSERT_EQUAL(directed_recv(&fixture, tagged, FI_ADDR_UNSPEC, &got[0]), 0);
        directed_arrives(&fixture, &fixture.b, 11, &got[0]);
    }
    CU_ASSERT(ofi_fixture_endpoint_close(&c));
    ofi_fixture_close(&fixture);
}

static void directed__peeks_and_claims_from_one_endpoint(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct ofi_fixture_endpoint c = {0};
    uint64_t of_b = 11, of_c = 22, got = 0;
    struct iovec iov = {&got, sizeof got};
    struct fi_context context;
    struct fi_msg_tagged msg;

    CU_ASSERT_FATAL(ofi_fixture_endpoint_open(&fixture, &c, &ofi_fixture_plain));
    directed_send(&fixture, &fixture.b, true, &of_b);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    msg = one_piece(&iov, c.addr, 5, &context);
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.a.ep, &msg, FI_PEEK), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_ENOMSG);
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.a.ep, &msg, FI_PEEK | FI_CLAIM), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_ENOMSG);
    directed_send(&fixture, &c, true, &of_c);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.a.ep, &msg, FI_PEEK | FI_CLAIM), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).len, 8);
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.a.ep, &msg, FI_CLAIM), 0);
    directed_arrives(&fixture, &c, 22, &got);
    CU_ASSERT_EQUAL(directed_recv(&fixture, true, fixture.b.addr, &got), 0);
    directed_arrives(&fixture, &fixture.b, 11, &got);
    CU_ASSERT(ofi_fixture_endpoint_close(&c));
    ofi_fixture_close(&fixture);
}

/*
 * The receiver does not step between the sender's completion and the peek: the message is in
 * memory.
 */
static void delivery__completes_after_delivery(void)
{
    static const uint64_t flags[] = {FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE,
                                     FI_DELIVERY_COMPLETE | FI_INJECT};
    static const size_t bytes[] = {0, 1, 192, 193, 8192};
    static unsigned char out[8192], in[8192];
    struct ofi_fixture fixture = ofi_fixture_open();

    for (unsigned i = 0; i < 15; i++) {
        struct iovec iov = {out, bytes[i % 5]}, into = {in, sizeof in};
        struct fi_msg_tagged msg = one_piece(&iov, fixture.b.addr, i, NULL);
        struct fi_msg_tagged want = one_piece(&into, FI_ADDR_UNSPEC, i, NULL);
        ssize_t err;

        bytes_fill(out, iov.iov_len, i);
        err = fi_tsendmsg(fixture.a.ep, &msg, flags[i / 5] | FI_COMPLETION);
        CU_ASSERT_EQUAL(err, i / 5 == 2 && iov.iov_len > 4096 ? -FI_EMSGSIZE : 0);
        if (err)
            continue;
        if (flags[i / 5] & FI_INJECT)
            memset(out, 0, sizeof out);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
        CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &want, FI_PEEK), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).len, iov.iov_len);
        CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &want, FI_COMPLETION), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).len, iov.iov_len);
        CU_ASSERT(bytes_filled(in, iov.iov_len, i));
    }
    ofi_fixture_close(&fixture);
}

/* Send a message, and post its receive before (@first) or afterwards. */
static void address_0_recv(struct ofi_fixture *fixture, const struct iovec *into, size_t pieces,
                           size_t bytes, bool first)
{
    static unsigned char out[100000];

    if (first)
        CU_ASSERT_EQUAL(fi_trecvv(fixture->b.ep, into, NULL, pieces, FI_ADDR_UNSPEC, 0, 0, NULL),
                        0);
    CU_ASSERT_EQUAL(fi_tsend(fixture->a.ep, out, bytes, NULL, fixture->b.addr, 0, NULL), 0);
    if (!first)
        CU_ASSERT_EQUAL(fi_trecvv(fixture->b.ep, into, NULL, pieces, FI_ADDR_UNSPEC, 0, 0, NULL),
                        0);
}

/* A receive has no room at address 0, nor in the pieces behind it. */
static void recv__has_no_room_at_address_0(void)
{
    static const size_t lengths[] = {3, 300, 100000};
    struct ofi_fixture fixture = ofi_fixture_open();
    unsigned char in[2] = {0};
    const struct iovec nowhere = {NULL, 100}, pieces[3] = {{in, 1}, {NULL, 100}, {in + 1, 1}};

    for (unsigned first = 0; first < 2; first++) {
        address_0_recv(&fixture, &nowhere, 1, 0, first);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).len, 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
        address_0_recv(&fixture, pieces, 3, 1, first);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).len, 1);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
        for (unsigned i = 0; i < 6; i++) {
            bool alone = i % 2;
            struct fi_cq_err_entry error;

            in[1] = 0xee;
            address_0_recv(&fixture, alone ? &nowhere : pieces, alone ? 1 : 3, lengths[i / 2],
                           first);
            error = ofi_fixture_error(&fixture.b);
            CU_ASSERT_EQUAL(error.err, FI_ETRUNC);
            CU_ASSERT_EQUAL(error.len, alone ? 0 : 1);
            CU_ASSERT_EQUAL(error.olen, lengths[i / 2] - error.len);
            CU_ASSERT_EQUAL(in[1], 0xee);
            CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
        }
    }
    ofi_fixture_close(&fixture);
}

/* Other calls refuse buffers at address 0 in any piece, unless they are empty. */
static void calls__refuse_buffers_at_address_0(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(
        &(struct ofi_fixture_config){.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA | FI_ATOMIC,
                                     .format = FI_CQ_FORMAT_TAGGED});
    struct iovec iov[2] = {{"", 1}, {NULL, 100}};
    struct fi_msg_tagged multi = one_piece(&iov[1], FI_ADDR_UNSPEC, 0, NULL);
    static char window[100];
    struct fid_mr *mr;
    uint64_t key;

    mr = ofi_fixture_window(&fixture, window, sizeof window);
    key = fi_mr_key(mr);
    CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &multi, FI_MULTI_RECV), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_send(fixture.a.ep, NULL, 100000, NULL, fixture.b.addr, NULL), -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_tsendv(fixture.a.ep, iov, NULL, 2, fixture.b.addr, 0, NULL), -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_inject(fixture.a.ep, NULL, 8, fixture.b.addr), -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_write(fixture.a.ep, NULL, 8, NULL, fixture.b.addr, 0, key, NULL),
                    -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_inject_write(fixture.a.ep, NULL, 8, fixture.b.addr, 0, key), -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_read(fixture.a.ep, NULL, 8, NULL, fixture.b.addr, 0, key, NULL), -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_write(fixture.a.ep, NULL, 0, NULL, fixture.b.addr, 0, key, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_RMA | FI_WRITE);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a) && ofi_fixture_quiet(&fixture.b));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- memory ------------------------------------------------------------------------- */

static void rma__writes_and_reads(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(
        &(struct ofi_fixture_config){.caps = FI_RMA | FI_TAGGED, .format = FI_CQ_FORMAT_TAGGED});
    unsigned char *window = calloc(1, LARGEST + 100), *out = malloc(LARGEST);
    struct fid_mr *mr;

    mr = ofi_fixture_window(&fixture, window, LARGEST + 100);
    for (size_t i = 0; i < SIZES; i++) {
        bytes_fill(out, sizes[i], i);
        CU_ASSERT_EQUAL(fi_write(fixture.a.ep, out, sizes[i], NULL, fixture.b.addr, 100,
                                 fi_mr_key(mr), &mr),
                        0);
        struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture.a);

        CU_ASSERT_EQUAL(entry.flags, FI_RMA | FI_WRITE);
        CU_ASSERT_PTR_EQUAL(entry.op_context, &mr);
        CU_ASSERT(bytes_filled(window + 100, sizes[i], i));
        memset(out, 0, sizes[i]);
        CU_ASSERT_EQUAL(fi_read(fixture.a.ep, out, sizes[i], NULL, fixture.b.addr, 100,
                                fi_mr_key(mr), &mr),
                        0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_RMA | FI_READ);
        CU_ASSERT(bytes_filled(out, sizes[i], i));
    }
    CU_ASSERT_EQUAL(fi_inject_write(fixture.a.ep, "inject", 7, fixture.b.addr, 0, fi_mr_key(mr)),
                    0);
    CU_ASSERT_EQUAL(fi_write(fixture.a.ep, out, 8, NULL, fixture.b.addr, LARGEST + 99,
                             fi_mr_key(mr), NULL),
                    0); /* over the end */
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_EACCES);
    CU_ASSERT_STRING_EQUAL(window, "inject");
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    free(window);
    free(out);
    ofi_fixture_close(&fixture);
}

/* FI_INJECT among an endpoint's flags affects outgoing data only. */
static void op_flags__inject_does_not_affect_receives(void)
{
    struct ofi_fixture fixture =
        ofi_fixture_open_with(&(struct ofi_fixture_config){.caps = FI_RMA | FI_ATOMIC | FI_TAGGED,
                                                           .format = FI_CQ_FORMAT_TAGGED,
                                                           .op_flags = FI_INJECT});
    static _Alignas(8) char window[5000];
    uint64_t one = 1, five = 5, old = 99, flags = FI_TRANSMIT | FI_PEEK;
    char buf[5000] = "untouched";
    struct fid_mr *mr;
    uint64_t key;

    mr = ofi_fixture_window(&fixture, window, sizeof window);
    key = fi_mr_key(mr);
    bytes_fill((unsigned char *)window, sizeof window, 3);
    CU_ASSERT_EQUAL(fi_read(fixture.a.ep, buf, sizeof buf, NULL, fixture.b.addr, 0, key, NULL), 0);
    CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_RMA | FI_READ);
    CU_ASSERT(bytes_filled((unsigned char *)buf, sizeof buf, 3));
    CU_ASSERT_EQUAL(fi_write(fixture.a.ep, buf, sizeof buf, NULL, fixture.b.addr, 0, key, NULL),
                    -FI_EMSGSIZE);
    memset(buf, 0, 8);
    CU_ASSERT_EQUAL(fi_write(fixture.a.ep, buf, 8, NULL, fixture.b.addr, 8, key, NULL), 0);
    memset(buf, 1, 8); /* we own it again */
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(fi_fetch_atomic(fixture.a.ep, &five, 1, NULL, &old, NULL, fixture.b.addr, 8,
                                    key, FI_UINT64, FI_SUM, NULL),
                    0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(old, 0);
    CU_ASSERT_EQUAL(fi_compare_atomic(fixture.a.ep, &one, 1, NULL, &five, NULL, &old, NULL,
                                      fixture.b.addr, 8, key, FI_UINT64, FI_CSWAP, NULL),
                    0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(old, 5);
    CU_ASSERT_EQUAL(memcmp(window + 8, &one, 8), 0);
    CU_ASSERT_EQUAL(fi_control(&fixture.a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* The number of pieces is limited by iov_limit; both sides must have the same number of bytes. */
static void rma__gathers_and_scatters(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(
        &(struct ofi_fixture_config){.caps = FI_RMA | FI_TAGGED, .format = FI_CQ_FORMAT_TAGGED});
    static unsigned char window[50000], out[50000], in[50000];
    struct iovec from[4] = {{out, 1}, {out + 1, 40000}, {NULL, 0}, {out + 40001, 9999}};
    struct iovec into[4] = {{in, 300}, {in + 300, 231}, {in + 531, 1}, {in + 532, 49468}};
    struct fi_rma_iov there = {.len = 49999};
    struct fi_msg_rma msg = {.msg_iov = from,
                             .iov_count = 4,
                             .addr = fixture.b.addr,
                             .rma_iov = &there,
                             .rma_iov_count = 1};
    struct fid_mr *mr;

    CU_ASSERT_EQUAL_FATAL(fixture.info->tx_attr->iov_limit, 4);
    mr = ofi_fixture_window(&fixture, window, sizeof window);
    there.key = fi_mr_key(mr);
    bytes_fill(out, sizeof out, 9);
    CU_ASSERT_EQUAL(fi_writemsg(fixture.a.ep, &msg, FI_COMPLETION),
                    -FI_EINVAL); /* the byte counts differ */
    there.len = 50000;
    CU_ASSERT_EQUAL(fi_writemsg(fixture.a.ep, &msg, FI_COMPLETION), 0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT(bytes_filled(window, sizeof window, 9));
    CU_ASSERT_EQUAL(fi_readv(fixture.a.ep, into, NULL, 4, fixture.b.addr, 0, there.key, NULL), 0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT(bytes_filled(in, sizeof in, 9));
    from[1].iov_len = 10;
    CU_ASSERT_EQUAL(fi_writev(fixture.a.ep, from, NULL, 2, fixture.b.addr, 20000, there.key, NULL),
                    0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(memcmp(window + 20000, out, 11), 0);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/*
 * Transfers between pieces of local and of remote memory. The remote bytes are divided into four
 * pieces in four ways, some of them empty. One more transfer has a wrong key for one piece.
 */
static void rma__reaches_pieces_of_remote_memory(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(
        &(struct ofi_fixture_config){.caps = FI_RMA | FI_TAGGED, .format = FI_CQ_FORMAT_TAGGED});
    static const size_t cuts[][4] = {{5000, 0, 0, 0},
                                     {0, 0, 1, 4999},
                                     {1, 191, 193, 4615},
                                     {1250, 1250, 1250, 1250}};
    static unsigned char window[20000], out[5000], in[5000];
    struct iovec from[2] = {{out, 1300}, {out + 1300, 3700}}, into = {in, 5000};
    struct fi_rma_iov there[4] = {{.addr = 15000}, {.addr = 5000}, {.addr = 0}, {.addr = 10000}};
    struct fi_msg_rma msg = {.addr = fixture.b.addr, .rma_iov = there, .rma_iov_count = 4};
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);

    for (unsigned c = 0; c < 8; c++) {
        uint64_t inject = c / 4 ? FI_INJECT : 0;
        size_t at = 0, bytes = 0;

        for (unsigned i = 0; i < 4; i++) {
            there[i].key = fi_mr_key(mr);
            there[i].len = cuts[c % 4][i] / (inject ? 2 : 1);
            bytes += there[i].len;
        }
        from[1].iov_len = bytes - from[0].iov_len;
        into.iov_len = bytes;
        bytes_fill(out, sizeof out, c + 1);
        memset(window, 0, sizeof window);
        msg.msg_iov = from;
        msg.iov_count = 2;
        CU_ASSERT_EQUAL_FATAL(fi_writemsg(fixture.a.ep, &msg, FI_COMPLETION | inject), 0);
        if (inject)
            memset(out, 0, sizeof out);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_RMA | FI_WRITE);
        msg.msg_iov = &into;
        msg.iov_count = 1;
        CU_ASSERT_EQUAL_FATAL(fi_readmsg(fixture.a.ep, &msg, FI_COMPLETION), 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_RMA | FI_READ);
        CU_ASSERT(bytes_filled(in, bytes, c + 1));
        for (unsigned i = 0; i < 4; at += there[i++].len)
            CU_ASSERT_EQUAL(memcmp(window + there[i].addr, in + at, there[i].len), 0);
        CU_ASSERT(ofi_fixture_quiet(&fixture.a)); /* the parts are not reported */
    }
    there[2].key++;
    CU_ASSERT_EQUAL(fi_readmsg(fixture.a.ep, &msg, FI_COMPLETION), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_EACCES);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    there[1].len++;
    CU_ASSERT_EQUAL(fi_readmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    there[1].len = SIZE_MAX;
    CU_ASSERT_EQUAL(fi_readmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    msg.rma_iov_count = 5;
    CU_ASSERT_EQUAL(fi_readmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    msg.rma_iov_count = 0;
    CU_ASSERT_EQUAL(fi_readmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* A program that chooses its keys, and names a region of pieces by offsets. */
static void mr__has_the_chosen_key(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&(struct ofi_fixture_config){
        .caps = FI_RMA | FI_TAGGED, .format = FI_CQ_FORMAT_TAGGED, .mr_mode = OFI_MR_SCALABLE});
    static const uint64_t keys[] = {0, 5, UINT64_MAX};
    char left[8] = "........", right[8] = "........";
    struct iovec pieces[2] = {{left, 8}, {right, 8}};
    struct fid_mr *mr[4];

    memset(left, '.', 8);
    memset(right, '.', 8);
    CU_ASSERT_EQUAL(fixture.info->domain_attr->mr_mode & FI_MR_PROV_KEY, 0);
    for (unsigned i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(fi_mr_regv(fixture.domain, pieces, 2, FI_REMOTE_WRITE, 0, keys[i], 0,
                                         &mr[i], NULL),
                              0);
        CU_ASSERT_EQUAL(fi_mr_key(mr[i]), keys[i]);
        CU_ASSERT_EQUAL(fi_mr_reg(fixture.domain, left, 8, FI_REMOTE_READ, 0, keys[i], 0, &mr[3],
                                  NULL),
                        -FI_ENOKEY);
        CU_ASSERT_EQUAL(fi_write(fixture.a.ep, "abcd", 4, NULL, fixture.b.addr, 6, keys[i], NULL),
                        0);
        ofi_fixture_entry(&fixture.a);
        CU_ASSERT(!memcmp(left, "......ab", 8) && !memcmp(right, "cd......", 8));
        memset(left, '.', 8);
        memset(right, '.', 8);
    }
    for (unsigned i = 0; i < 3; i++)
        CU_ASSERT_EQUAL(fi_close(&mr[i]->fid), 0);
    ofi_fixture_close(&fixture);
}

/* A fenced send starts when the operations before it have completed. */
static void fence__waits_for_earlier_operations(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    static unsigned char out[LARGEST], in[LARGEST];
    struct iovec iov = {out, 1}, whole = {out, sizeof out};
    struct fi_msg_tagged fenced = one_piece(&iov, fixture.b.addr, 2, &fenced);
    struct fi_msg_tagged before = one_piece(&whole, fixture.b.addr, 1, &before);

    CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &fenced, FI_FENCE | FI_COMPLETION), 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.a).op_context, &fenced);
    CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &before, FI_COMPLETION), 0);
    for (unsigned i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &fenced, FI_FENCE | FI_COMPLETION), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 1, EXACT, in), 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.a).op_context, &before);
    CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &fenced, FI_FENCE | FI_COMPLETION), 0);
    CU_ASSERT_PTR_EQUAL(ofi_fixture_entry(&fixture.a).op_context, &fenced);
    ofi_fixture_close(&fixture);
}

/* With FI_ORDER_SAW a message arrives after the data of all earlier writes, injected or not. */
static void order__sends_after_writes(void)
{
    static const struct ofi_fixture_config config = {.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA,
                                                     .format = FI_CQ_FORMAT_TAGGED,
                                                     .bind_flags = FI_SELECTIVE_COMPLETION,
                                                     .order = FI_ORDER_SAW};
    static unsigned char out[LARGEST], window[LARGEST];
    struct ofi_fixture fixture = ofi_fixture_open_with(&config);
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
    struct iovec empty = {window, 0};

    CU_ASSERT_EQUAL(fixture.info->tx_attr->msg_order, FI_ORDER_SAS | FI_ORDER_SAW);
    for (unsigned i = 0; i < 5 * SIZES; i++) {
        size_t bytes = sizes[i % SIZES];
        struct fi_msg_tagged msg = one_piece(&empty, FI_ADDR_UNSPEC, i, &msg);
        ssize_t err;

        bytes_fill(out, bytes, i);
        if (i % 2 && bytes <= 4096)
            CU_ASSERT_EQUAL(fi_inject_write(fixture.a.ep, out, bytes, fixture.b.addr, 0,
                                            fi_mr_key(mr)),
                            0)
        else
            CU_ASSERT_EQUAL(fi_write(fixture.a.ep, out, bytes, NULL, fixture.b.addr, 0,
                                     fi_mr_key(mr), NULL),
                            0);
        CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &msg, FI_COMPLETION), 0);
        while ((err = fi_tinject(fixture.a.ep, NULL, 0, fixture.b.addr, i)) == -FI_EAGAIN)
            fi_cq_read(fixture.a.cq, NULL, 0);
        CU_ASSERT_EQUAL(err, 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).tag, i);
        CU_ASSERT(bytes_filled(window, bytes, i));
    }
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/*
 * Without FI_ORDER_SAW a message arrives after the data of injected writes, because the adapter
 * sends their data with the requests. Together the writes are longer than the rings.
 */
static void order__sends_after_injected_writes(void)
{
    enum { BYTES = 4096, WRITES = 600 };
    static const struct ofi_fixture_config config = {.caps = OFI_FIXTURE_CAPS_ALL | FI_RMA,
                                                     .format = FI_CQ_FORMAT_TAGGED,
                                                     .bind_flags = FI_SELECTIVE_COMPLETION};
    static unsigned char out[BYTES], window[WRITES * BYTES];
    struct ofi_fixture fixture = ofi_fixture_open_with(&config);
    struct fid_mr *mr = ofi_fixture_window(&fixture, window, sizeof window);
    struct iovec empty = {window, 0};

    for (unsigned round = 0; round < 10; round++) {
        struct fi_msg_tagged msg = one_piece(&empty, FI_ADDR_UNSPEC, round, &msg);
        ssize_t err;

        CU_ASSERT_EQUAL(fi_trecvmsg(fixture.b.ep, &msg, FI_COMPLETION), 0);
        for (unsigned i = 0; i < WRITES; i++) {
            bytes_fill(out, BYTES, round + i);
            while ((err = fi_inject_write(fixture.a.ep, out, BYTES, fixture.b.addr,
                                          (uint64_t)i * BYTES, fi_mr_key(mr))) == -FI_EAGAIN)
                fi_cq_read(fixture.a.cq, NULL, 0);
            CU_ASSERT_EQUAL(err, 0);
        }
        while ((err = fi_tinject(fixture.a.ep, NULL, 0, fixture.b.addr, round)) == -FI_EAGAIN)
            fi_cq_read(fixture.a.cq, NULL, 0);
        CU_ASSERT_EQUAL(err, 0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).tag, round);
        for (unsigned i = 0; i < WRITES; i++)
            CU_ASSERT(bytes_filled(window + i * BYTES, BYTES, round + i));
    }
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* With FI_MATCH_COMPLETE a send of any size completes only when a receive matches it. */
static void match__completes_after_the_receive(void)
{
    static const size_t bytes[] = {0, 1, 192, 193, 8192};
    static unsigned char out[8192], in[8192];
    struct ofi_fixture fixture = ofi_fixture_open();

    for (unsigned i = 0; i < 10; i++) {
        struct iovec iov = {out, bytes[i % 5]};
        struct fi_msg_tagged msg = one_piece(&iov, fixture.b.addr, i, NULL);
        bool inject = i / 5 && iov.iov_len <= 4096;

        bytes_fill(out, iov.iov_len, i);
        CU_ASSERT_EQUAL(fi_tsendmsg(fixture.a.ep, &msg,
                                    FI_MATCH_COMPLETE | FI_COMPLETION | (inject ? FI_INJECT : 0)),
                        0);
        if (inject)
            memset(out, 0, sizeof out);
        CU_ASSERT(ofi_fixture_quiet(&fixture.a));
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, i, EXACT, NULL),
                        0);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.b).len, iov.iov_len);
        CU_ASSERT_EQUAL(ofi_fixture_entry(&fixture.a).flags, FI_SEND | FI_TAGGED);
        CU_ASSERT(bytes_filled(in, iov.iov_len, i));
    }
    ofi_fixture_close(&fixture);
}

/* --- another process ---------------------------------------------------------------- */

struct echo {
    pid_t pid;
    int to, from; /* pipes for addresses */
};

static struct echo echo; /* set by main() before the cases run */

static bool swap_names(const char *mine, char *theirs, int to, int from)
{
    return write(to, mine, OFI_FIXTURE_ADDR_BYTES) == OFI_FIXTURE_ADDR_BYTES &&
           read(from, theirs, OFI_FIXTURE_ADDR_BYTES) == OFI_FIXTURE_ADDR_BYTES;
}

/* Send back each message until a tag says stop; one message at a time. */
static bool echo_serve(struct ofi_fixture *fixture, fi_addr_t peer, unsigned char *buf)
{
    struct fi_cq_tagged_entry entry;

    for (;;) {
        if (fi_trecv(fixture->a.ep, buf, LARGEST, NULL, peer, 0, UINT64_MAX, NULL) ||
            ofi_fixture_entry_wait(fixture->a.cq, &entry, NULL) != 1)
            return false;
        if (entry.tag == ECHO_STOP)
            return true;
        if (fi_tsenddata(fixture->a.ep, buf, entry.len, NULL, entry.data, peer, entry.tag, NULL) ||
            ofi_fixture_entry_wait(fixture->a.cq, &entry, NULL) != 1)
            return false;
    }
}

/* The other process. No CU_ASSERT here: it runs no test. */
static int echo_main(int to, int from)
{
    char theirs[OFI_FIXTURE_ADDR_BYTES];
    unsigned char *buf = malloc(LARGEST);
    struct ofi_fixture fixture;
    fi_addr_t peer;

    if (read(from, theirs, 1) != 1) /* no echo is needed */
        return 0;
    if (!ofi_fixture_try_open(&fixture, &ofi_fixture_plain) ||
        !swap_names(fixture.a.name, theirs, to, from) ||
        fi_av_insert(fixture.av, theirs, 1, &peer, 0, NULL) != 1 ||
        !echo_serve(&fixture, peer, buf) || !ofi_fixture_try_close(&fixture))
        return 1;
    free(buf);
    return 0;
}

static void echo_start(void)
{
    int there[2], back[2];

    if (pipe(there) || pipe(back))
        exit(2);
    echo = (struct echo){.pid = fork(), .to = there[1], .from = back[0]};
    if (echo.pid == 0) {
        close(there[1]);
        close(back[0]);
        _exit(echo_main(back[1], there[0]));
    }
    close(there[0]);
    close(back[1]);
}

static void echo_once(struct ofi_fixture *fixture, fi_addr_t peer, size_t bytes, unsigned char *out,
                      unsigned char *in)
{
    struct fi_cq_tagged_entry entry = {0};

    bytes_fill(out, bytes, bytes + 1);
    CU_ASSERT_EQUAL(fi_trecv(fixture->a.ep, in, LARGEST, NULL, peer, bytes, EXACT, in), 0);
    CU_ASSERT_EQUAL(fi_tsenddata(fixture->a.ep, out, bytes, NULL, bytes, peer, bytes, out), 0);
    for (int i = 0; i < 2; i++) {
        struct fi_cq_tagged_entry got = ofi_fixture_entry(&fixture->a);

        if (got.flags & FI_RECV)
            entry = got;
    }
    CU_ASSERT_EQUAL(entry.len, bytes);
    CU_ASSERT_EQUAL(entry.data, bytes);
    CU_ASSERT(bytes_filled(in, bytes, bytes + 1));
}

static void peer__echoes_every_size(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
    char theirs[OFI_FIXTURE_ADDR_BYTES];
    fi_addr_t peer;
    int status = 1;

    CU_ASSERT_EQUAL(write(echo.to, "", 1), 1);
    CU_ASSERT_FATAL(swap_names(fixture.a.name, theirs, echo.to, echo.from));
    CU_ASSERT_NOT_EQUAL(memcmp(theirs, fixture.a.name, 4), 0); /* another node */
    CU_ASSERT_EQUAL_FATAL(fi_av_insert(fixture.av, theirs, 1, &peer, 0, NULL), 1);
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < SIZES; i++)
            echo_once(&fixture, peer, sizes[i], out, in);
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, peer, ECHO_STOP), 0);
    CU_ASSERT_EQUAL(waitpid(echo.pid, &status, 0), echo.pid);
    CU_ASSERT_EQUAL(status, 0);
    free(out);
    free(in);
    ofi_fixture_close(&fixture);
}

static const struct test_case cases[] = {
    {"getinfo__answers_open_mpi", getinfo__answers_open_mpi},
    {"getinfo__refuses_unsupported_features", getinfo__refuses_unsupported_features},
    {"getinfo__checks_the_traffic_class", getinfo__checks_the_traffic_class},
    {"getinfo__accepts_the_protocol_of_its_name", getinfo__accepts_the_protocol_of_its_name},
    {"getinfo__returns_no_data_without_a_fabric", getinfo__returns_no_data_without_a_fabric},
    CASE(getinfo__accepts_every_size_of_keys),
    CASE(getinfo__offers_basic_registration),
    CASE(getinfo__supports_the_latest_version),
    CASE(getinfo__leaves_the_type_of_address_vectors_open),
    CASE(getinfo__refuses_groups_of_peers),
    {"getinfo__turns_names_into_addresses", getinfo__turns_names_into_addresses},
    CASE(av__refuses_an_address_without_queues),
    {"av__inserts_looks_up_and_removes", av__inserts_looks_up_and_removes},
    {"av__address_of_another_process_is_unreachable",
     av__address_of_another_process_is_unreachable},
    {"av__holds_thousands", av__holds_thousands},
    {"tsenddata__delivers_every_size", tsenddata__delivers_every_size},
    {"tsenddata__reaches_its_own_endpoint", tsenddata__reaches_its_own_endpoint},
    {"tinject__sends_without_an_entry", tinject__sends_without_an_entry},
    {"send__does_not_match_tagged", send__does_not_match_tagged},
    {"trecv__matches_in_order_with_ignored_bits", trecv__matches_in_order_with_ignored_bits},
    {"sendv__gathers_and_scatters", sendv__gathers_and_scatters},
    {"trecv__reports_truncation", trecv__reports_truncation},
    {"peek__finds_without_removing", peek__finds_without_removing},
    {"claim__takes_out_of_matching", claim__takes_out_of_matching},
    {"discard__drops_the_message", discard__drops_the_message},
    {"cancel__ends_an_unmatched_receive", cancel__ends_an_unmatched_receive},
    {"cancel__keeps_no_data_of_older_messages", cancel__keeps_no_data_of_older_messages},
    {"close__ends_an_unreceived_send", close__ends_an_unreceived_send},
    {"selective__reports_requested_completions", selective__reports_requested_completions},
    {"data__is_flagged_only_when_sent", data__is_flagged_only_when_sent},
    {"cq__uses_its_format", cq__uses_its_format},
    CASE(readerr__respects_the_version),
    {"sread__waits_and_gives_up", sread__waits_and_gives_up},
    {"cntr__counts", cntr__counts},
    CASE(open__refuses_the_objects_of_other_providers),
    {"cq__grows_beyond_its_size", cq__grows_beyond_its_size},
    {"threads__share_endpoint_and_queue", threads__share_endpoint_and_queue},
    {"directed__receives_from_one_endpoint_of_a_node",
     directed__receives_from_one_endpoint_of_a_node},
    {"directed__peeks_and_claims_from_one_endpoint", directed__peeks_and_claims_from_one_endpoint},
    {"delivery__completes_after_delivery", delivery__completes_after_delivery},
    {"recv__has_no_room_at_address_0", recv__has_no_room_at_address_0},
    {"calls__refuse_buffers_at_address_0", calls__refuse_buffers_at_address_0},
    {"rma__writes_and_reads", rma__writes_and_reads},
    {"rma__gathers_and_scatters", rma__gathers_and_scatters},
    {"op_flags__inject_does_not_affect_receives", op_flags__inject_does_not_affect_receives},
    CASE(rma__reaches_pieces_of_remote_memory),
    CASE(mr__has_the_chosen_key),
    CASE(fence__waits_for_earlier_operations),
    CASE(order__sends_after_writes),
    CASE(order__sends_after_injected_writes),
    CASE(match__completes_after_the_receive),
    {"peer__echoes_every_size", peer__echoes_every_size},
    {NULL, NULL},
};

int main(void)
{
    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_test: no fabric; try: fabemu run -- %s\n", "build/ofi_test");
        return 2;
    }
    echo_start();
    return test_run("ofi", cases);
}
