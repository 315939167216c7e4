/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packet.c - pack and unpack headers.
 *
 * Fields of a head's header with their widths in bits, lowest first: channel 5, priority 2, group
 * 1, dst 16, bytes 13, stamp 10, more 1, CRC 16. Fields of a continuation's header: channel 5,
 * priority 2, index 5, last 1, zeros 3, CRC 16.
 */
#include "emu/packet/packet.h"

#include "emu/packet/crc.h"

uint64_t emu_head_pack(const struct emu_head *head)
{
    uint64_t word = head->channel | (uint64_t)head->priority << 5 | (uint64_t)head->group << 7 |
                    (uint64_t)head->dst << 8 | (uint64_t)head->bytes << 24 |
                    (uint64_t)head->stamp << 37 | (uint64_t)head->more << 47;

    return word | (uint64_t)emu_crc16(word, 6) << 48;
}

bool emu_cont_unpack(struct emu_cont *ret, uint32_t wire)
{
    uint32_t word = wire & 0xffff;

    if (emu_crc16(word, 2) != wire >> 16 || word >> 13)
        return false;
    *ret = (struct emu_cont){.channel = word & 31,
                             .priority = word >> 5 & 3,
                             .index = word >> 7 & 31,
                             .last = word >> 12 & 1};
    return true;
}
