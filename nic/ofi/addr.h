/* SPDX-License-Identifier: BSD-3-Clause */
/* addr.h - addresses of endpoints, and address vectors */
#ifndef NIC_OFI_ADDR_H
#define NIC_OFI_ADDR_H

#include "nic/ofi/ofi.h"

/* the format of addresses that are a struct ofi_addr; only this provider knows it */
#define OFI_ADDR_FORMAT (UINT32_C(1) << 31 | 0xfabu)
#define OFI_QUEUE_NONE  UINT16_MAX
#define OFI_NODE_SELF   (FABEMU_ANY_NODE - 1) /* in an address: this host, see addr.c */
#define OFI_PORT_MAX    32767u                /* port P stands for the queues 2P and 2P + 1 */

enum ofi_kind { OFI_UNTAGGED, OFI_TAGGED, OFI_KINDS };

/*
 * The address of an endpoint. It has a fixed length, so a program may use it as an address format.
 * In an address without queues, the untagged queue is OFI_QUEUE_NONE. If such an address is the
 * source of a new endpoint, the endpoint gets any free queues.
 */
struct ofi_addr {
    /* in a source address, OFI_NODE_SELF and FABEMU_ANY_NODE mean the node of this process */
    uint32_t node;
    uint16_t queue[OFI_KINDS];
    uint64_t fabric;      /* the fabric's id; 0: unknown */
    uint64_t incarnation; /* incarnation of the node; 0: any */
};
static_assert(sizeof(struct ofi_addr) == 24, "no padding in an address");

/* An entry of an address vector, which an fi_addr_t names. */
struct ofi_peer {
    uint32_t node; /* FABEMU_ANY_NODE: the entry was removed */
    uint16_t queue[OFI_KINDS];
    uint64_t incarnation; /* incarnation of the node; 0: any */
};

/* addr.c */
/* room for the longest text of an address, with the terminating zero */
#define OFI_ADDR_TEXT_BYTES 64

extern const struct ofi_addr ofi_addr_any;

/**
 * ofi_addr_has_queues - return whether the address names queues; if not, it means any free queues.
 */
static inline bool ofi_addr_has_queues(const struct ofi_addr *addr)
{
    return addr->queue[OFI_UNTAGGED] != OFI_QUEUE_NONE;
}

/**
 * ofi_addr_port, ofi_addr_set_port - get or set the port, which stands for two queues; 0: any free
 * queues.
 */
uint32_t ofi_addr_port(const struct ofi_addr *addr);
void ofi_addr_set_port(struct ofi_addr *addr, uint32_t port);

/**
 * ofi_addr_format - return the format with which the provider answers this fi_info.addr_format;
 * FI_FORMAT_UNSPEC: the format is not supported.
 */
uint32_t ofi_addr_format(uint32_t format);

/**
 * ofi_addr_read - read an address in @format. @bytes must be exactly the size of the address; a
 * text is counted with its terminating zero.
 * ofi_addr_read_whole - read an address for which the caller gave no size.
 * ofi_addr_read_element - read an element of an array that has the form for fi_av_insert().
 * @format: a result of ofi_addr_format(). Errors: -FI_EINVAL.
 */
int ofi_addr_read(uint32_t format, const void *from, size_t bytes, struct ofi_addr *ret);
int ofi_addr_read_whole(uint32_t format, const void *from, struct ofi_addr *ret);
int ofi_addr_read_element(uint32_t format, const void *array, size_t index, struct ofi_addr *ret);

/**
 * ofi_addr_copy - write an address for fi_getname() or fi_av_lookup(). Writes at most *@bytes, and
 * sets *@bytes to the full size. Errors: -FI_ETOOSMALL, it was cut; -FI_EADDRNOTAVAIL, the format
 * has no address for this node.
 * ofi_addr_dup - replace *@ret by an address in new memory. Errors: also -FI_ENOMEM.
 */
int ofi_addr_copy(uint32_t format, const struct ofi_addr *addr, void *to, size_t *bytes);
int ofi_addr_dup(uint32_t format, const struct ofi_addr *addr, void **ret, size_t *bytes);

/**
 * ofi_addr_text - print an address for fi_av_straddr(), at most @bytes of it. Returns the full
 * size, with the terminating zero.
 */
size_t ofi_addr_text(uint32_t format, const struct ofi_addr *addr, char *text, size_t bytes);

/**
 * ofi_addr_parse - make an address from names, as described in addr.c.
 * @node: NULL: any node. @service: NULL: any free queues. @flags: may have FI_NUMERICHOST.
 * Errors: -FI_ENODATA, a name is invalid.
 */
int ofi_addr_parse(const char *node, const char *service, uint64_t flags, struct ofi_addr *ret);

/**
 * ofi_addr_dest - check that messages can be sent to @addr. If its node is OFI_NODE_SELF, ask
 * the fabric which process of this host has opened an endpoint with these queues, wait for the
 * reply, and replace OFI_NODE_SELF by the node of that process.
 * Errors: -FI_EINVAL, @addr names no node or no queues; -FI_EHOSTUNREACH, @addr belongs to another
 * fabric; -FI_ECONNREFUSED, no process of this host has such an endpoint.
 */
int ofi_addr_dest(struct ofi_addr *addr, struct fabemu *fab);

/**
 * ofi_addr_is_here - return whether an endpoint of this process may have this source address.
 * ofi_addr_of_source - read the source address for a new endpoint. Errors: -FI_EINVAL.
 */
bool ofi_addr_is_here(const struct ofi_addr *source, const struct fabemu_info *info);
int ofi_addr_of_source(const struct fi_info *info, struct ofi_addr *ret);

/** ofi_addr_hash - return a number that identifies this run of the fabric in addresses; never 0. */
uint64_t ofi_addr_hash(const struct fabemu_info *info);

/* pep.c: addresses of passive endpoints */
/**
 * ofi_is_pep - return whether @fid is a passive endpoint of this provider.
 * ofi_pep_addr - get the address of a passive endpoint. Afterwards the address does not change any
 * more. Errors: as fi_getname().
 * ofi_pep_addr_of - as ofi_pep_addr(), for a handle that may be wrong. Errors: also -FI_EINVAL,
 * the fabric has no such passive endpoint.
 */
bool ofi_is_pep(const struct fid *fid);
int ofi_pep_addr(struct fid *fid, struct ofi_addr *ret);
int ofi_pep_addr_of(struct ofi_fabric *fabric, const struct fid *handle, struct ofi_addr *ret);

/* av.c */
struct ofi_av;
int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                void *context);
struct ofi_av *ofi_av_of(struct fid *fid);
void ofi_av_hold(struct ofi_av *av);
void ofi_av_release(struct ofi_av *av);

/** ofi_av_count - return 1 more than the highest index that was ever used. */
fi_addr_t ofi_av_count(const struct ofi_av *av);
const struct ofi_domain *ofi_av_domain(const struct ofi_av *av);
bool ofi_av_is_table(const struct ofi_av *av);

/**
 * ofi_av_peer - find the peer that @addr names. If @addr was made by fi_rx_addr(), return the
 * queues of the peer's receive context. Lock-free. Errors: -FI_EINVAL, no such entry.
 */
int ofi_av_peer(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret);

/**
 * ofi_av_endpoint - as ofi_av_peer(), but return the queues in the peer's address even if @addr
 * names a receive context. All contexts send from these queues.
 */
int ofi_av_endpoint(struct ofi_av *av, fi_addr_t addr, struct ofi_peer *ret);

/**
 * ofi_av_find - return the fi_addr_t of the entry that has @from's node and its queue of this kind,
 * or FI_ADDR_NOTAVAIL.
 */
fi_addr_t ofi_av_find(struct ofi_av *av, enum ofi_kind kind, const struct ofi_peer *from);

/* av_set.c */
int ofi_av_set_open(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set,
                    void *context);

#endif
