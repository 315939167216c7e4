/* SPDX-License-Identifier: BSD-3-Clause */
/* sane.h - check headers that enter the fabric from a process or another host. */
#ifndef EMU_SANE_H
#define EMU_SANE_H

#include "emu/packet/profile.h"
#include "emu/util/combine.h"

/**
 * emu_hdr_is_sane - return whether switches of a fabric with @nodes nodes can handle a segment with
 * this header. Pure.
 */
static inline bool emu_hdr_is_sane(const struct emu_hdr *hdr, const struct emu_profile *profile,
                                   uint32_t nodes)
{
    uint8_t kind = hdr->kind;

    if (hdr->len > EMU_PAYLOAD_BYTES)
        return false;
    if (emu_profile_acknowledged(profile) && (kind & ~EMU_NOTIFY) <= EMU_MULTICAST)
        kind &= (uint8_t)~EMU_NOTIFY;
    if (kind == EMU_UNICAST)
        return hdr->dst < nodes;
    switch (kind) {
    case EMU_MULTICAST:
        return true; /* the switch checks membership */
    case EMU_BARRIER:
        return hdr->len == 0;
    case EMU_REDUCE:
    case EMU_ALLREDUCE:
        return emu_combine_takes(hdr->op, hdr->type, hdr->len);
    case EMU_SET:
    case EMU_TEST:
        return emu_profile_has_words(profile) && hdr->len == sizeof(struct emu_word);
    default:
        return false;
    }
}

#endif
