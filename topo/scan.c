/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scan.c - the words of a SPEC.
 */
#include <string.h>

#include "topo/graph.h"

bool topo_scan_number(const char **at, uint32_t *ret)
{
    const char *p = *at;
    uint64_t number = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        number = number * 10 + (uint64_t)(*p - '0');
        if (number > UINT32_MAX)
            number = UINT32_MAX;
    }
    if (p == *at)
        return false;
    *at = p;
    *ret = (uint32_t)number;
    return true;
}

bool topo_scan_word(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}
