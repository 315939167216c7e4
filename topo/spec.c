/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spec.c - SPECs: the short text in which a user names a network.
 */
#include "topo/graph.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_BYTES 48 /* of the user's text in an error, terminator included */
#define RADIX_K 16     /* the tree that we suggest has switches of 32 ports at most */

/* Digits at *@at, which moves past them; a number too large becomes UINT32_MAX. */
static bool spec_number(const char **at, uint32_t *ret)
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

static bool spec_char(const char **at, char want)
{
    if (**at != want)
        return false;
    ++*at;
    return true;
}

static bool spec_kary(const char *spec, uint32_t *k, uint32_t *n)
{
    static const char name[] = "kary:";
    const char *at = spec + strlen(name);

    return strncmp(spec, name, strlen(name)) == 0 && spec_number(&at, k) && spec_char(&at, ',') &&
           spec_number(&at, n) && *at == '\0';
}

/* The user's text, fit to stand in one line. */
static void spec_show(char shown[SHOWN_BYTES], const char *spec)
{
    int len = snprintf(shown, SHOWN_BYTES, "%s", spec);

    for (char *p = shown; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    if (len >= SHOWN_BYTES)
        strcpy(shown + SHOWN_BYTES - sizeof("..."), "...");
}

int topo_parse(struct topo_graph **ret, const char *spec, char *error, size_t error_bytes)
{
    const char *why = "want kary:K,N, for example kary:4,2 (16 nodes)";
    char shown[SHOWN_BYTES];
    uint32_t k, n;
    int err = -EINVAL;

    if (spec_kary(spec, &k, &n))
        err = topo_kary(ret, k, n, &why);
    if (err) {
        spec_show(shown, spec);
        snprintf(error, error_bytes, "bad topology '%s': %s", shown, why);
    }
    return err;
}

int topo_spec_for_nodes(uint32_t nodes, char *spec, size_t spec_bytes, char *error,
                        size_t error_bytes)
{
    uint32_t k = 2, n = 2, room;

    if (nodes < 1 || nodes > TOPO_NODES_MAX) {
        snprintf(error, error_bytes, "no topology for %u nodes: want 1 to %u", nodes,
                 TOPO_NODES_MAX);
        return -EINVAL;
    }
    while (k < RADIX_K && k * k < nodes)
        k++;
    for (room = k * k; room < nodes; room *= k)
        n++;
    if ((size_t)snprintf(spec, spec_bytes, "kary:%u,%u", k, n) >= spec_bytes) {
        snprintf(error, error_bytes, "no room for the topology's name in %zu bytes", spec_bytes);
        return -EINVAL;
    }
    return 0;
}
