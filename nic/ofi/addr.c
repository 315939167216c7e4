/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * addr.c - addresses of endpoints: parse names, copy, print.
 *
 * A server's address can be given as two numbers, so that clients find it without exchanging
 * addresses. The node name is the number of the server's node. The service is a number S from 0 to
 * 32766, which stands for queues 2S (untagged messages) and 2S + 1 (tagged messages). Endpoints
 * without a service get free queues from 256 up. The address that an endpoint returns for itself
 * also includes the incarnation of its node, so that it never names a later process of the node.
 */
#include "nic/ofi/ofi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE_MAX 32766u /* so that the tagged queue is below OFI_QUEUE_NONE */

static int addr_number(const char *text, unsigned long max, unsigned long *ret)
{
    char *end;

    if (*text < '0' || *text > '9')
        return -FI_ENODATA;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end || value > max)
        return -FI_ENODATA;
    *ret = value;
    return 0;
}

int ofi_addr_parse(const char *node, const char *service, struct ofi_addr *ret)
{
    unsigned long number = FABEMU_ANY_NODE;
    unsigned long port = 0;
    int err = node ? addr_number(node, FABEMU_ANY_NODE - 1, &number) : 0;

    if (err) {
        FI_INFO(&ofi_prov, FI_LOG_CORE, "node '%s': want the number of a node\n", node);
        return err;
    }
    err = service ? addr_number(service, SERVICE_MAX, &port) : 0;
    if (err) {
        FI_INFO(&ofi_prov, FI_LOG_CORE, "service '%s': want 0 to %u\n", service, SERVICE_MAX);
        return err;
    }
    *ret = (struct ofi_addr){.node = (uint32_t)number};
    ret->queue[OFI_UNTAGGED] = service ? (uint16_t)(2 * port) : OFI_QUEUE_NONE;
    ret->queue[OFI_TAGGED] = service ? (uint16_t)(2 * port + 1) : OFI_QUEUE_NONE;
    return 0;
}

uint64_t ofi_addr_hash(const struct fabemu_info *info)
{
    return info->fabric_id ? info->fabric_id : 1;
}

int ofi_addr_copy(const struct ofi_addr *addr, void *to, size_t *bytes)
{
    size_t room = *bytes;

    *bytes = sizeof *addr;
    if (to)
        memcpy(to, addr, room < sizeof *addr ? room : sizeof *addr);
    return to && room >= sizeof *addr ? 0 : -FI_ETOOSMALL;
}

#define NUMBER_TEXT_BYTES 11 /* room for 32 bits in decimal and the terminating zero */

/* Return a number of an address as text, or "*" if it is unknown. */
static const char *number_text(char text[NUMBER_TEXT_BYTES], uint32_t number, uint32_t unknown)
{
    if (number == unknown)
        return "*";
    snprintf(text, NUMBER_TEXT_BYTES, "%" PRIu32, number);
    return text;
}

const char *ofi_addr_text(const struct ofi_addr *addr, char *text, size_t *bytes)
{
    char node[NUMBER_TEXT_BYTES], queue[OFI_KINDS][NUMBER_TEXT_BYTES];
    int want = snprintf(text, *bytes, OFI_NAME "://%s:%s:%s",
                        number_text(node, addr->node, FABEMU_ANY_NODE),
                        number_text(queue[OFI_UNTAGGED], addr->queue[OFI_UNTAGGED], OFI_QUEUE_NONE),
                        number_text(queue[OFI_TAGGED], addr->queue[OFI_TAGGED], OFI_QUEUE_NONE));

    if (addr->incarnation && (size_t)want < *bytes)
        want += snprintf(text + want, *bytes - (size_t)want, "#%" PRIu64, addr->incarnation);

    *bytes = (size_t)want + 1;
    return text;
}
