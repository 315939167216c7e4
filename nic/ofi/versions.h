/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * versions.h - differences between the versions of libfabric from 1.17 to 2.1.
 *
 * The provider is compiled with the headers of one version, and another version may load it.
 * Later versions only add fields at the end of structures, and check the field `size` before they
 * call an operation that was added. So the provider must neither read nor write the added fields of
 * a structure whose size it does not know.
 */
#ifndef NIC_OFI_VERSIONS_H
#define NIC_OFI_VERSIONS_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/* Version 2 has no container_of(). */
#undef container_of
#define container_of(ptr, type, field) ((type *)(void *)((char *)(ptr)-offsetof(type, field)))

/* Version 2 warns about the mr_mode bits that version 1.5 deprecated. Programs still pass them. */
#define OFI_MR_UNSPEC   0        /* FI_MR_UNSPEC */
#define OFI_MR_BASIC    (1 << 0) /* FI_MR_BASIC */
#define OFI_MR_SCALABLE (1 << 1) /* FI_MR_SCALABLE */

/*
 * Without these lines, a provider that was linked with version 2 would need symbol versions that
 * version 1 does not have. With these symbol versions, any library can be used: fi_allocinfo()
 * allocates the structures of the running library, and fi_dupinfo() copies at least the fields that
 * version 1.17 has.
 */
__asm__(".symver fi_dupinfo, fi_dupinfo@FABRIC_1.3");
__asm__(".symver fi_freeinfo, fi_freeinfo@FABRIC_1.3");

/* Size of the fields of struct fi_domain_attr that version 1.17 has. */
#define OFI_DOMAIN_ATTR_BYTES (offsetof(struct fi_domain_attr, tclass) + sizeof(uint32_t))

/* Return max_group_id, the highest id of a peer group in the hints. Before version 2: return 0. */
static inline uint32_t ofi_max_group_id(const struct fi_domain_attr *attr)
{
#if FI_MAJOR_VERSION >= 2
    if (FI_VERSION_GE(fi_version(), FI_VERSION(2, 0)))
        return attr->max_group_id;
#endif
    (void)attr;
    return 0;
}

#endif
