/* SPDX-License-Identifier: BSD-3-Clause */
/* spec.c - parse SPECs, the texts by which users name networks. */
#include "topo/graph.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "emu/util/nearest.h"

#define SHOWN_BYTES 48 /* bytes of the user's text in an error, NUL included */
#define RADIX_K     16 /* largest k of a suggested tree, whose switches have 2k ports */

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

/* Copy the user's text for an error, with '?' in place of unprintable characters. */
static void spec_show(char shown[SHOWN_BYTES], const char *spec)
{
    int len = snprintf(shown, SHOWN_BYTES, "%s", spec);

    for (char *p = shown; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    if (len >= SHOWN_BYTES)
        strcpy(shown + SHOWN_BYTES - sizeof("..."), "...");
}

static const struct {
    const char *kind;
    topo_generator *generate;
    const char *machine; /* the machine that has such networks, or NULL */
} generators[] = {
    {"kary:", topo_kary, NULL},
    {"qsnet:", topo_qsnet, "qsnet3"},
    {"clos:", topo_clos, NULL},
};

const char *topo_machine(const char *spec)
{
    for (size_t i = 0; i < sizeof generators / sizeof generators[0]; i++)
        if (topo_scan_word(&spec, generators[i].kind))
            return generators[i].machine;
    return NULL;
}

static bool names_file(const char *spec)
{
    static const char *const ends[] = {".topo", ".txt", ".net"};
    size_t length = strlen(spec);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (length > strlen(ends[i]) && strcmp(spec + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    return strchr(spec, '/');
}

int topo_parse(struct topo_graph **ret, const char *spec, char *error, size_t error_bytes)
{
    char why[TOPO_ERROR_BYTES], shown[SHOWN_BYTES];
    int err = -EINVAL;

    for (size_t i = 0; i < sizeof generators / sizeof generators[0]; i++) {
        const char *args = spec;

        if (!topo_scan_word(&args, generators[i].kind))
            continue;
        err = generators[i].generate(ret, args, why, sizeof why);
        if (!err)
            return 0;
        goto failed;
    }
    if (names_file(spec))
        return topo_load(ret, spec, error, error_bytes);
    if (access(spec, F_OK) == 0)
        snprintf(
            why, sizeof why,
            "the name of a file must contain a '/', as in ./NAME, or end in .topo, .txt or .net");
    else
        snprintf(
            why, sizeof why,
            "want kary:K,N, qsnet:N, clos:radix=R,levels=L, or a file (./NAME); see fabemu topo "
            "--help%s",
            nearest_in(spec, "kary, qsnet, clos").text);

failed:
    spec_show(shown, spec);
    snprintf(error, error_bytes, "bad topology '%s': %s", shown, why);
    return err;
}

int topo_spec_for_nodes(uint32_t nodes, char *spec, size_t spec_bytes, char *error,
                        size_t error_bytes)
{
    uint32_t k = 2, n = 2, room;

    if (nodes < 1 || nodes > TOPO_NODES_MAX) {
        snprintf(error, error_bytes, "there is no topology for %u nodes: want 1 to %u", nodes,
                 TOPO_NODES_MAX);
        return -EINVAL;
    }
    while (k < RADIX_K && k * k < nodes)
        k++;
    for (room = k * k; room < nodes; room *= k)
        n++;
    if ((size_t)snprintf(spec, spec_bytes, "kary:%u,%u", k, n) >= spec_bytes) {
        snprintf(error, error_bytes, "the topology's name does not fit into %zu bytes", spec_bytes);
        return -EINVAL;
    }
    return 0;
}
