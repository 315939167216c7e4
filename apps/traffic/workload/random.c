/* SPDX-License-Identifier: BSD-3-Clause */
/* random.c - initializes streams, and computes the table of -ln. */
#include "apps/traffic/workload/random.h"

/* logarithms are computed with this many binary digits after the point */
#define LOG_BITS 48
#define LN2_2_64 UINT64_C(0xb17217f7d1cf79ac) /* ln 2 * 2^64 */

void traffic_random_init(struct traffic_random *random, uint64_t seed, uint64_t node,
                         enum traffic_stream stream)
{
    uint64_t key = emu_splitmix_at(seed, 1);

    key = emu_mix(key ^ (node + 1) * UINT64_C(0xd1342543de82ef95));
    random->state = emu_mix(key ^ ((uint64_t)stream + 1) * UINT64_C(0xda942042e4dd58b5));
}

void traffic_shuffle(struct traffic_random *random, uint32_t *item, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = traffic_random_below(random, i);
        uint32_t kept = item[j];
        item[j] = item[i - 1];
        item[i - 1] = kept;
    }
}

/* Return log2(y / 2^62) * 2^LOG_BITS, for y / 2^62 in [1, 2). Each squaring gives one digit. */
static uint64_t log2_of(uint64_t y)
{
    uint64_t digits = 0;

    for (int i = 0; i < LOG_BITS; i++) {
        y = (uint64_t)((unsigned __int128)y * y >> 62);
        digits = digits << 1 | y >> 63;
        y >>= y >> 63;
    }
    return digits;
}

/* The table uses -ln(x) = ln 2 * (1 - log2(2x)). */
void traffic_exp_init(struct traffic_exp *exp)
{
    const uint32_t last = 1u << TRAFFIC_EXP_BITS;

    for (uint32_t i = 0; i < last; i++) {
        uint64_t twice = (UINT64_C(1) << 62) + ((uint64_t)i << (62 - TRAFFIC_EXP_BITS));
        uint64_t rest = (UINT64_C(1) << LOG_BITS) - log2_of(twice);

        exp->minus_ln[i] =
            (uint64_t)(((unsigned __int128)rest * LN2_2_64 >> (LOG_BITS + 31)) + 1) >> 1;
    }
    exp->minus_ln[last] = 0;
}
