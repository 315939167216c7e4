/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench.h"

#include <stdio.h>

int bench_main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fprintf(stderr, "fabemu: bench is not built yet\n");
    return 1;
}
