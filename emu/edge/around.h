/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * around.h - whole segments written around the caches of the core that writes them.
 *
 * A line that another core has read is taken back from it before it can be written, and fetched
 * from the writer when it is read again. Where the two cores share no cache, and few lines can be
 * on their way at a time, this takes 120 ns a segment (AMD EPYC, Zen 5). Lines that are written
 * around the caches go to memory and come from there: 28 ns; where the cores do share a cache 22,
 * and as usual 11 to 20. So streams are written this way, and short messages are not.
 *
 * Such stores are ordered by nothing that orders others: emu_around_end() comes before the index
 * that shows them.
 * Rejected: asking the clock which way is faster. The writer waits less, the reader more, and
 * neither knows of both.
 */
#ifndef EMU_EDGE_AROUND_H
#define EMU_EDGE_AROUND_H

#include <stdint.h>
#include <string.h>

#include "emu/link/seg.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define EMU_AROUND_RUN 16u /* segments: fewer of them are not a stream */

/**
 * emu_around_write - a full segment to @to: @hdr, a payload of the 8 bytes at @first, and all
 * others from @rest on. The payload may change under us; nothing of it is followed.
 */
static inline void emu_around_write(struct emu_seg *to, struct emu_hdr_words hdr, const void *first,
                                    const void *rest)
{
#if defined(__SSE2__)
    const uint32_t parts = (EMU_PAYLOAD_BYTES - 8) / sizeof(__m128i);
    const char *from = (const char *)rest + 8;
    __m128i *at = (__m128i *)(void *)to;

    static_assert(sizeof hdr == sizeof *at && EMU_PAYLOAD_BYTES % sizeof *at == 0, "parts");
    _mm_stream_si128(at, _mm_set_epi64x((long long)hdr.says, (long long)hdr.whom));
    _mm_stream_si128(at + 1, _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)first),
                                                _mm_loadl_epi64((const __m128i *)rest)));
    for (uint32_t i = 0; i < parts; i++)
        _mm_stream_si128(at + 2 + i, _mm_loadu_si128((const __m128i *)(const void *)from + i));
#else
    emu_hdr_store(&to->hdr, hdr);
    memcpy(to->payload, first, 8);
    emu_copy(to->payload + 8, rest, EMU_PAYLOAD_BYTES - 8);
#endif
}

/** emu_around_end - what was written so comes before all that this thread stores from now on. */
static inline void emu_around_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
