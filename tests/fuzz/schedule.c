/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.c - schedules of faults. An accepted schedule is unchanged after printing and reading
 * it. Its targets exist in a network, or it gives a reason why there are none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apps/fault/fault.h"
#include "tests/fuzz/fuzz.h"

#define SEED 1u

static const struct machine {
    const char *spec;
    const char *profile;
} machines[] = {{"kary:2,2", "oq2004"}, {"qsnet:16,links=2", "qsnet3"}};

static void print_and_parse(const struct fault *fault)
{
    char text[2][FAULT_TEXT_BYTES];
    char error[FAULT_ERROR_BYTES] = "";
    struct fault again;

    fault_print(fault, NULL, text[0]);
    fuzz_must(fault_parse(&again, text[0], NULL, error, sizeof error) == 0, error);
    fuzz_must(memcmp(&again, fault, sizeof again) == 0,
              "a fault that is printed and parsed is the same");
    fault_print(&again, NULL, text[1]);
    fuzz_must(strcmp(text[0], text[1]) == 0,
              "a fault that is printed, parsed and printed has the same text");
}

/* Check that all targets of a fault exist. */
static void find(const struct fault *fault, const struct topo_graph *graph)
{
    enum fault_domain domain = fault_domain(fault->kind);
    uint32_t most = domain == FAULT_OF_NODES ? graph->nodes : graph->switches;
    char error[FAULT_ERROR_BYTES] = "";
    struct fault_targets targets;

    if (fault_targets_find(&targets, fault, graph, SEED, error, sizeof error)) {
        fuzz_print_why(error);
        return;
    }
    fuzz_must(targets.count >= 1 && targets.among >= 1, "a fault has a target");
    for (uint32_t i = 0; i < targets.count; i++) {
        const struct fault_target *target = &targets.target[i];
        fuzz_must(target->id < most, "a target exists");
        fuzz_must(domain != FAULT_OF_LINKS ||
                      (target->port < graph->ports &&
                       graph->sw[target->id].end[target->port].kind != TOPO_END_NONE),
                  "the target of a link fault has a cable");
    }
    fault_targets_release(&targets);
}

static void apply_fault(const struct fault_schedule *schedule, const struct machine *machine)
{
    struct fault_network network;
    struct emu_profile profile;
    struct topo_graph *graph;
    char error[1024] = "";

    fuzz_must(topo_parse(&graph, machine->spec, error, sizeof error) == 0, error);
    fuzz_must(emu_profile_load(&profile, machine->profile, error, sizeof error) == 0, error);
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct fault *fault = &schedule->line[i].fault;
        network = (struct fault_network){graph, &profile, (enum emu_clock_mode)(i % 3)};
        *error = '\0';
        if (fault_check(fault, &network, error, sizeof error))
            fuzz_print_why(error);
        find(fault, graph);
    }
    topo_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fault_schedule schedule;
    char error[FAULT_ERROR_BYTES] = "";

    if (fault_schedule_text(&schedule, "input", (const char *)data, bytes, NULL, error,
                            sizeof error)) {
        fuzz_print_why(error);
        return 0;
    }
    fuzz_must(schedule.count >= 1, "an accepted schedule has a fault");
    for (uint32_t i = 0; i < schedule.count; i++)
        print_and_parse(&schedule.line[i].fault);
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        apply_fault(&schedule, &machines[i]);
    fault_schedule_release(&schedule);
    return 0;
}
