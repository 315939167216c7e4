/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addr.c - addresses of endpoints, and their formats.
 *
 * The provider works with struct ofi_addr. Programs choose a format (fi_info.addr_format), and this
 * file converts:
 * - OFI_ADDR_FORMAT, the default: struct ofi_addr itself.
 * - FI_ADDR_STR: the text "fabemu://NODE:QUEUE:QUEUE#INCARNATION". The first queue is for untagged
 * messages, the second for tagged messages. "*" stands for any node or any free queues, and
 * "localhost" for this host (see below). The text may lack the incarnation. fi_av_straddr() also
 * prints addresses of the default format in this form.
 * - FI_SOCKADDR_IN: node N has the IPv4 address 198.18.0.0 + N, and port P stands for the queues 2P
 * (untagged messages) and 2P + 1 (tagged messages). The addresses are in 198.18.0.0/15, which RFC
 * 2544 reserves for benchmarks, so no real machine has such an address. Port 0 stands for any free
 * queues, 0.0.0.0 for any node, and 127.0.0.1 for this host. Such an address has no incarnation: a
 * message goes to the process that is attached to the node when the message is sent.
 * fi_av_straddr() prints "fi_sockaddr_in://IPV4:PORT", as libfabric's own providers do. Mercury
 * sends this text to its peers, which read the IPv4 address and the port from it.
 *
 * A program may also name a node and a service by text. The service is a port. The node is a
 * number, an IPv4 address of the kind described above, or a name or any IPv4 address of this host.
 * Endpoints without a port get free queues from 256 up, so their ports are 128 and higher. Except
 * in the format FI_SOCKADDR_IN, the address that an endpoint returns for itself contains the
 * incarnation of its node, so that it never names a later process of the node.
 *
 * Each process has a node of its own. An address of *this host* (OFI_NODE_SELF) stands for the
 * process of the host that has opened an endpoint with that port. The fabric knows this process,
 * because endpoints announce their queues (fabemu_queue_announce()). The address is looked up when
 * a program inserts it into an address vector or connects to it. Only ports that programs have
 * chosen are announced, because the free ports of different processes may have equal numbers.
 */
#include "nic/ofi/addr.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADDR_SCHEME  OFI_NAME "://"
#define ADDR_SELF    "localhost"
#define IPV4_FIRST   UINT32_C(0xc6120000) /* 198.18.0.0: node 0 */
#define IPV4_NODES   UINT32_C(131072)     /* 198.18.0.0/15 */
#define IPV4_NET_127 UINT32_C(127)        /* the first byte of all loopback addresses */

const struct ofi_addr ofi_addr_any = {
    .node = FABEMU_ANY_NODE,
    .queue = {OFI_QUEUE_NONE, OFI_QUEUE_NONE},
};

/* --- ports and numbers -------------------------------------------------------------- */

void ofi_addr_set_port(struct ofi_addr *addr, uint32_t port)
{
    addr->queue[OFI_UNTAGGED] = port ? (uint16_t)(2 * port) : OFI_QUEUE_NONE;
    addr->queue[OFI_TAGGED] = port ? (uint16_t)(2 * port + 1) : OFI_QUEUE_NONE;
}

uint32_t ofi_addr_port(const struct ofi_addr *addr)
{
    return ofi_addr_has_queues(addr) ? addr->queue[OFI_UNTAGGED] / 2u : 0;
}

/*
 * Read a decimal number. Returns the first character behind the number, or NULL if there is no
 * number, or it is above @max.
 */
static const char *number_read(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;

    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno || *ret > max ? NULL : end;
}

/* --- text --------------------------------------------------------------------------- */

#define NUMBER_TEXT_BYTES 12 /* room for a 32-bit number in decimal, or for ADDR_SELF */

static const char *node_text(char text[NUMBER_TEXT_BYTES], uint32_t node)
{
    if (node == FABEMU_ANY_NODE)
        return "*";
    if (node == OFI_NODE_SELF)
        return ADDR_SELF;
    snprintf(text, NUMBER_TEXT_BYTES, "%" PRIu32, node);
    return text;
}

static size_t text_print(const struct ofi_addr *addr, char *text, size_t bytes)
{
    char node[NUMBER_TEXT_BYTES], queues[2 * NUMBER_TEXT_BYTES] = "*:*", incarnation[24] = "";

    if (ofi_addr_has_queues(addr))
        snprintf(queues, sizeof queues, "%u:%u", (unsigned)addr->queue[OFI_UNTAGGED],
                 (unsigned)addr->queue[OFI_TAGGED]);
    if (addr->incarnation)
        snprintf(incarnation, sizeof incarnation, "#%" PRIu64, addr->incarnation);
    return (size_t)snprintf(text, bytes, ADDR_SCHEME "%s:%s%s", node_text(node, addr->node), queues,
                            incarnation) +
           1;
}

/*
 * Read "*", "localhost" or a node's number. Refuse the numbers that stand for any node and for this
 * host.
 */
static const char *text_read_node(const char *text, uint32_t *ret)
{
    uint64_t number = 0;

    if (*text == '*') {
        *ret = FABEMU_ANY_NODE;
        return text + 1;
    }
    if (strncmp(text, ADDR_SELF, strlen(ADDR_SELF)) == 0) {
        *ret = OFI_NODE_SELF;
        return text + strlen(ADDR_SELF);
    }
    text = number_read(text, OFI_NODE_SELF - 1, &number);
    *ret = (uint32_t)number;
    return text;
}

/* Read ":QUEUE:QUEUE", or skip ":*:*". */
static const char *text_read_queues(const char *text, struct ofi_addr *ret)
{
    uint64_t number = 0;

    if (strncmp(text, ":*:*", 4) == 0)
        return text + 4;
    for (unsigned kind = 0; kind < OFI_KINDS; kind++) {
        text = *text == ':' ? number_read(text + 1, UINT16_MAX, &number) : NULL;
        if (!text)
            return NULL;
        ret->queue[kind] = (uint16_t)number;
    }
    return text;
}

/*
 * Parse the text of an address. To accept only one spelling of an address, print the result and
 * compare it with the text.
 */
static int text_parse(const char *text, struct ofi_addr *ret)
{
    char again[OFI_ADDR_TEXT_BYTES];
    const char *at = text;

    *ret = ofi_addr_any;
    if (strncmp(at, ADDR_SCHEME, strlen(ADDR_SCHEME)) != 0)
        return -FI_EINVAL;
    at = text_read_node(at + strlen(ADDR_SCHEME), &ret->node);
    if (at)
        at = text_read_queues(at, ret);
    if (at && *at == '#')
        at = number_read(at + 1, UINT64_MAX, &ret->incarnation);
    if (!at || *at)
        return -FI_EINVAL;
    text_print(ret, again, sizeof again);
    return strcmp(text, again) == 0 ? 0 : -FI_EINVAL;
}

/* --- IPv4 --------------------------------------------------------------------------- */

static bool ipv4_is_of_host(uint32_t ipv4)
{
    struct ifaddrs *list, *at;
    bool found = false;

    if (getifaddrs(&list))
        return false;
    for (at = list; at && !found; at = at->ifa_next) {
        struct sockaddr_in in;

        if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&in, at->ifa_addr, sizeof in);
        found = ntohl(in.sin_addr.s_addr) == ipv4;
    }
    freeifaddrs(list);
    return found;
}

static int ipv4_to_node(uint32_t ipv4, uint32_t *ret)
{
    if (ipv4 - IPV4_FIRST < IPV4_NODES)
        *ret = ipv4 - IPV4_FIRST;
    else if (ipv4 == INADDR_ANY)
        *ret = FABEMU_ANY_NODE;
    else if (ipv4 >> 24 == IPV4_NET_127 || ipv4_is_of_host(ipv4))
        *ret = OFI_NODE_SELF;
    else
        return -FI_EINVAL;
    return 0;
}

static int sockaddr_read(const struct sockaddr_in *in, struct ofi_addr *ret)
{
    uint32_t port = ntohs(in->sin_port);

    *ret = ofi_addr_any;
    if (in->sin_family != AF_INET || port > OFI_PORT_MAX)
        return -FI_EINVAL;
    ofi_addr_set_port(ret, port);
    return ipv4_to_node(ntohl(in->sin_addr.s_addr), &ret->node);
}

static int sockaddr_write(const struct ofi_addr *addr, struct sockaddr_in *ret)
{
    uint32_t ipv4 = IPV4_FIRST + addr->node;

    if (addr->node == FABEMU_ANY_NODE)
        ipv4 = INADDR_ANY;
    else if (addr->node == OFI_NODE_SELF)
        ipv4 = INADDR_LOOPBACK;
    else if (addr->node >= IPV4_NODES)
        return -FI_EADDRNOTAVAIL;
    *ret = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)ofi_addr_port(addr)),
        .sin_addr.s_addr = htonl(ipv4),
    };
    return 0;
}

/* --- formats ------------------------------------------------------------------------ */

uint32_t ofi_addr_format(uint32_t format)
{
    switch (format) {
    case FI_FORMAT_UNSPEC:
    case OFI_ADDR_FORMAT:
        return OFI_ADDR_FORMAT;
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
        return FI_SOCKADDR_IN;
    case FI_ADDR_STR:
        return FI_ADDR_STR;
    default:
        return FI_FORMAT_UNSPEC;
    }
}

/* Return the size of addresses of this format; 0: their sizes differ. */
static size_t format_bytes(uint32_t format)
{
    return format == FI_ADDR_STR      ? 0
           : format == FI_SOCKADDR_IN ? sizeof(struct sockaddr_in)
                                      : sizeof(struct ofi_addr);
}

int ofi_addr_read(uint32_t format, const void *from, size_t bytes, struct ofi_addr *ret)
{
    struct sockaddr_in in;
    struct ofi_addr addr;
    int err = 0;

    if (!from || (format_bytes(format) && bytes != format_bytes(format)))
        return -FI_EINVAL;
    if (format == FI_ADDR_STR) { /* the last byte, and no other, is zero */
        err = bytes && strnlen(from, bytes) == bytes - 1 ? text_parse(from, &addr) : -FI_EINVAL;
    } else if (format == FI_SOCKADDR_IN) {
        memcpy(&in, from, sizeof in);
        err = sockaddr_read(&in, &addr);
    } else {
        memcpy(&addr, from, sizeof addr);
    }
    if (!err)
        *ret = addr;
    return err;
}

int ofi_addr_read_whole(uint32_t format, const void *from, struct ofi_addr *ret)
{
    size_t bytes = format_bytes(format);

    if (!from)
        return -FI_EINVAL;
    return ofi_addr_read(format, from, bytes ? bytes : strlen(from) + 1, ret);
}

int ofi_addr_read_element(uint32_t format, const void *array, size_t index, struct ofi_addr *ret)
{
    const char *const *texts = array;

    return ofi_addr_read_whole(format,
                               format == FI_ADDR_STR
                                   ? texts[index]
                                   : (const char *)array + index * format_bytes(format),
                               ret);
}

int ofi_addr_copy(uint32_t format, const struct ofi_addr *addr, void *to, size_t *bytes)
{
    char text[OFI_ADDR_TEXT_BYTES];
    struct sockaddr_in in;
    const void *from = addr;
    size_t room, all = format_bytes(format);
    int err = 0;

    if (!bytes)
        return -FI_EINVAL;
    room = *bytes;
    if (format == FI_ADDR_STR) {
        all = text_print(addr, text, sizeof text);
        from = text;
    } else if (format == FI_SOCKADDR_IN) {
        err = sockaddr_write(addr, &in);
        from = &in;
    }
    if (err)
        return err;
    *bytes = all;
    if (to)
        memcpy(to, from, room < all ? room : all);
    return to && room >= all ? 0 : -FI_ETOOSMALL;
}

size_t ofi_addr_text(uint32_t format, const struct ofi_addr *addr, char *text, size_t bytes)
{
    char ipv4[INET_ADDRSTRLEN];
    struct sockaddr_in in;

    if (format != FI_SOCKADDR_IN || sockaddr_write(addr, &in))
        return text_print(addr, text, bytes);
    inet_ntop(AF_INET, &in.sin_addr, ipv4, sizeof ipv4);
    return (size_t)snprintf(text, bytes, "fi_sockaddr_in://%s:%u", ipv4,
                            (unsigned)ntohs(in.sin_port)) +
           1;
}

int ofi_addr_dup(uint32_t format, const struct ofi_addr *addr, void **ret, size_t *bytes)
{
    char copy[OFI_ADDR_TEXT_BYTES];
    int err;

    *bytes = sizeof copy;
    err = ofi_addr_copy(format, addr, copy, bytes);
    if (err)
        return err;
    free(*ret);
    *ret = malloc(*bytes);
    if (!*ret)
        return -FI_ENOMEM;
    memcpy(*ret, copy, *bytes);
    return 0;
}

/* --- names -------------------------------------------------------------------------- */

/* Return whether this is a name of this host: its full name, or the part before the first dot. */
static bool name_is_of_host(const char *name)
{
    char host[256];

    if (strcasecmp(name, ADDR_SELF) == 0)
        return true;
    if (gethostname(host, sizeof host))
        return false;
    host[sizeof host - 1] = '\0';
    if (strcasecmp(name, host) == 0)
        return true;
    host[strcspn(host, ".")] = '\0';
    return *host && strcasecmp(name, host) == 0;
}

static int name_to_node(const char *name, bool numeric, uint32_t *ret)
{
    struct in_addr in;
    uint64_t number = 0;
    const char *end = number_read(name, OFI_NODE_SELF - 1, &number);

    if (end && !*end) {
        *ret = (uint32_t)number;
        return 0;
    }
    if (inet_pton(AF_INET, name, &in) == 1)
        return ipv4_to_node(ntohl(in.s_addr), ret);
    *ret = OFI_NODE_SELF;
    return !numeric && name_is_of_host(name) ? 0 : -FI_EINVAL;
}

int ofi_addr_parse(const char *node, const char *service, uint64_t flags, struct ofi_addr *ret)
{
    uint64_t port = 0;
    const char *end;

    *ret = ofi_addr_any;
    if (node && strncmp(node, ADDR_SCHEME, strlen(ADDR_SCHEME)) == 0) {
        if (service || text_parse(node, ret)) {
            FI_INFO(&ofi_prov, FI_LOG_CORE,
                    "'%s' is not of the form " ADDR_SCHEME "NODE:QUEUE:QUEUE, or a service is "
                    "given, too\n",
                    node);
            return -FI_ENODATA;
        }
        return 0;
    }
    if (node && name_to_node(node, flags & FI_NUMERICHOST, &ret->node)) {
        FI_INFO(&ofi_prov, FI_LOG_CORE,
                "'%s' is neither the number of a node, nor its address (198.18.0.0 + number), "
                "nor%s an address of this host\n",
                node, flags & FI_NUMERICHOST ? "" : " a name or");
        return -FI_ENODATA;
    }
    end = service ? number_read(service, OFI_PORT_MAX, &port) : "";
    if (!end || *end) {
        FI_INFO(&ofi_prov, FI_LOG_CORE, "service '%s' is not a number from 0 to %u\n", service,
                OFI_PORT_MAX);
        return -FI_ENODATA;
    }
    ofi_addr_set_port(ret, (uint32_t)port);
    return 0;
}

uint64_t ofi_addr_hash(const struct fabemu_info *info)
{
    return info->fabric_id ? info->fabric_id : 1;
}

/* Find the process of this host that has opened an endpoint with the queues of @addr. */
static int addr_find(struct ofi_addr *addr, struct fabemu *fab)
{
    int err = fabemu_queue_find(fab, addr->queue[OFI_UNTAGGED], &addr->node, &addr->incarnation);

    if (err != -ENOENT)
        return err ? -ofi_errno(err) : 0;
    FI_WARN(&ofi_prov, FI_LOG_AV, "no process of this host has opened an endpoint at port %u\n",
            ofi_addr_port(addr));
    return -FI_ECONNREFUSED;
}

int ofi_addr_dest(struct ofi_addr *addr, struct fabemu *fab)
{
    const struct fabemu_info *info = fabemu_info(fab);

    if (addr->node == FABEMU_ANY_NODE || !ofi_addr_has_queues(addr))
        return -FI_EINVAL;
    if (addr->node == OFI_NODE_SELF)
        return addr_find(addr, fab);
    if (addr->node >= info->nodes) {
        FI_WARN(&ofi_prov, FI_LOG_AV, "there is no node %u: the fabric has %u nodes\n", addr->node,
                info->nodes);
        return -FI_EHOSTUNREACH;
    }
    if (addr->fabric && addr->fabric != ofi_addr_hash(info)) {
        FI_WARN(&ofi_prov, FI_LOG_AV, "the address belongs to another fabric (node %u)\n",
                addr->node);
        return -FI_EHOSTUNREACH;
    }
    return 0;
}

bool ofi_addr_is_here(const struct ofi_addr *source, const struct fabemu_info *info)
{
    if (source->node == FABEMU_ANY_NODE || source->node == OFI_NODE_SELF ||
        source->node == info->node)
        return true;
    FI_WARN(&ofi_prov, FI_LOG_EP_CTRL, "the source address is node %u, but this is node %u\n",
            source->node, info->node);
    return false;
}

int ofi_addr_of_source(const struct fi_info *info, struct ofi_addr *ret)
{
    uint32_t format = ofi_addr_format(info->addr_format);

    *ret = ofi_addr_any;
    if (format == FI_FORMAT_UNSPEC)
        return -FI_EINVAL;
    return info->src_addr ? ofi_addr_read(format, info->src_addr, info->src_addrlen, ret) : 0;
}
