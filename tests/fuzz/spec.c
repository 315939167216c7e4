/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spec.c - networks as --topo SPEC describes them. topology.c covers files.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "topo/topo.h"

#define SIZE_LONG 2000u               /* kary:2,11 takes 5 s to check with sanitizers */
#define SIZE_OVER (UINT64_C(1) << 40) /* larger networks are refused */

static uint64_t times(uint64_t a, uint64_t b)
{
    return b && a > SIZE_OVER / b ? SIZE_OVER : a * b;
}

static uint64_t power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;

    for (uint64_t i = 0; i < exponent && i < 64; i++)
        result = times(result, base);
    return result;
}

/* Read the next number of a SPEC. Return false if there is none. */
static bool next_number(const char **text, uint64_t *ret)
{
    char *end;

    *text += strcspn(*text, "0123456789");
    if (!**text)
        return false;
    *ret = strtoull(*text, &end, 10);
    *text = end;
    return true;
}

/*
 * Return an upper bound of the network's size: for QsNet III the first number; for others the
 * product of all numbers, or a number to the power of the next one, which may be the levels.
 */
static uint64_t size_of(const char *text)
{
    bool qsnet = strncmp(text, "qsnet", 5) == 0;
    uint64_t product = 1, most = 1, before = 0, number;

    while (next_number(&text, &number)) {
        if (qsnet)
            return number;
        product = times(product, number ? number : 1);
        most = power(before, number) > most ? power(before, number) : most;
        before = number;
    }
    return product > most ? product : most;
}

static bool takes_long(const char *text)
{
    return size_of(text) > SIZE_LONG && size_of(text) < SIZE_OVER;
}

static void parse(const char *text)
{
    struct topo_graph *graph = NULL;
    struct topo_checked what;
    char error[1280] = "";

    topo_machine(text);
    if (topo_parse(&graph, text, error, sizeof error)) {
        fuzz_print_why(error);
        return;
    }
    fuzz_must(strcmp(graph->spec, text) == 0 || *graph->spec, "a network has a name");
    fuzz_must(topo_check(graph, &what, error, sizeof error) == 0, error);
    topo_free(graph);
}

static void find_for_nodes(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {.at = data, .left = bytes};
    char spec[TOPO_SPEC_BYTES], error[256] = "";

    if (topo_spec_for_nodes(fuzz_u32(&in), spec, 1 + fuzz_u8(&in), error, sizeof error))
        fuzz_print_why(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes);

    if (!strpbrk(text, "/.") && !takes_long(text)) /* do not read files of this machine */
        parse(text);
    find_for_nodes(data, bytes);
    free(text);
    return 0;
}
