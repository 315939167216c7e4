/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * profile.c - profiles: the input is parsed as the file of a profile, and each of its lines as
 * --set. A fabric with the result is built, or refused with an error line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fabric/fabric.h"
#include "emu/packet/profile.h"
#include "tests/fuzz/fuzz.h"

#define STATES_MOST 65536u /* larger switches take too long to create */

/* Build a fabric with an accepted profile, which may be refused but must not crash. */
static void build(const struct emu_profile *profile, enum emu_clock_mode clock, const char *spec)
{
    struct fabric_config config = {.profile = *profile,
                                   .clock = clock,
                                   .threads = 1,
                                   .start_stopped = true};
    struct topo_graph *graph;
    struct fabric *fabric;
    char error[1024] = "";

    fuzz_must(topo_parse(&graph, spec, error, sizeof error) == 0, error);
    config.graph = graph;
    if (profile->combine_states <= STATES_MOST) {
        if (fabric_start(&fabric, &config, error, sizeof error) == 0)
            fabric_stop(fabric);
        else
            fuzz_print_why(error);
    }
    topo_free(graph);
}

static void build_all(const struct emu_profile *profile)
{
    for (size_t i = 0; profile->name[i]; i++)
        fuzz_must((unsigned char)profile->name[i] >= ' ',
                  "the name of a profile is a line of text");
    build(profile, EMU_CLOCK_RAW, "kary:2,1");
    build(profile, EMU_CLOCK_REAL, "kary:2,2");
}

static void load(const uint8_t *data, size_t bytes)
{
    struct emu_profile profile;
    char path[FUZZ_PATH_BYTES];
    char error[1024] = "";
    int fd = fuzz_file(data, bytes, path);

    if (emu_profile_load(&profile, path, error, sizeof error) == 0)
        build_all(&profile);
    else
        fuzz_print_why(error);
    close(fd);
}

static void set(char *text)
{
    struct emu_profile profile;
    char error[1024] = "";
    bool changed = false;
    char *rest;

    if (strncmp(text, "qsnet3", 6) == 0 || strncmp(text, "oq2004", 6) == 0) {
        char name[7] = "";
        memcpy(name, text, 6);
        fuzz_must(emu_profile_load(&profile, name, error, sizeof error) == 0, error);
        text += 6;
    } else {
        fuzz_must(emu_profile_load(&profile, "oq2004", error, sizeof error) == 0, error);
    }
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        *error = '\0';
        if (emu_profile_set(&profile, line, error, sizeof error) == 0)
            changed = true;
        else
            fuzz_print_why(error);
    }
    if (changed)
        build_all(&profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = fuzz_text(data, bytes);

    load(data, bytes);
    set(text);
    free(text);
    return 0;
}
