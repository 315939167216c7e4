/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenarios.c - schedules that are built in. They name nothing that only one network has: places
 * are drawn from the network at hand. Times are those of a program that runs for seconds.
 */
#include <string.h>

#include "apps/fault/internal.h"

static const struct fault_scenario scenarios[] = {
    {"flap", "a link flaps, a top switch dies and comes back, 1 segment in 1000 is damaged",
     "# Never two of them at a time, so that a network in which every switch and cable can be\n"
     "# spared is always in one piece.\n"
     "at=1s for=100ms every=1s link-down random\n"
     "at=3.2s for=700ms every=5s switch-crash top\n"
     "bit-errors link=any rate=1e-3\n"},
    {"flapping-link", "one link is down for 5 ms, up for 20 ms, and so on",
     "at=1s link-flap random down=5ms up=20ms\n"},
    {"cut-link", "one link dies for good", "at=1s link-down random\n"},
    {"unplugged-node", "a node's cables are out for a second", "at=1s for=1s link-down link=n0\n"},
    {"noisy-links", "1 segment in 1000 is damaged, everywhere", "bit-errors link=any rate=1e-3\n"},
    {"bad-cable", "1 segment in 20 is damaged, on one cable", "bit-errors random rate=5%\n"},
    {"lossy", "1 segment in 1000 is lost, everywhere", "loss link=any rate=1e-3\n"},
    {"doubles", "1 segment in 1000 arrives twice", "duplicate link=any rate=1e-3\n"},
    {"late", "1 segment in 100 is up to 20 us late", "delay link=any rate=1% jitter=20us\n"},
    {"stuck-port", "one port sends nothing for half a second",
     "at=1s for=500ms stuck-port random\n"},
    {"lost-credits", "one link loses 4 credits", "at=1s credit-loss random count=4\n"},
    {"forged-credits", "one link gets 4 credits too many", "at=1s credit-forge random count=4\n"},
    {"slow-link", "one link has a tenth of its bandwidth", "slow-link random factor=10\n"},
    {"slow-top", "all cables of a top switch have a quarter of their bandwidth",
     "slow-link top factor=4\n"},
    {"dying-switch", "a top switch dies for good", "at=1s switch-crash top\n"},
    {"rebooting-switch", "a top switch dies and comes back after 2 s",
     "at=1s for=2s switch-crash top\n"},
    {"stalled-combiner", "a top switch combines nothing for half a second",
     "at=1s for=500ms combine-stall top\n"},
    {"wrong-sums", "a top switch flips a bit in 1 of 1000 contributions",
     "combine-flip top rate=1e-3\n"},
    {"full-combiner", "a top switch has no states to combine in for a second",
     "at=1s for=1s combine-exhaust top\n"},
    {"adapter-resets", "every second the adapter of another node is reset",
     "at=1s every=1s adapter-reset random\n"},
    {"stop-a-node", "a node stands still for 3 s", "at=1s for=3s node-freeze random\n"},
    {"slow-node", "a node has a quarter of its time", "node-slow random share=25%\n"},
    {"kill-a-node", "a node dies", "at=1s node-kill random\n"},
    {"noise", "every node loses 100 us of each 10 ms to its operating system",
     "noise node=any period=10ms length=100us\n"},
    {"noisy-nodes", "one node in 16 loses 1 ms of each 10 ms",
     "noise random=6.25% period=10ms length=1ms\n"},
    {"partition", "half of the nodes are parted from the others for good",
     "at=1s partition random=50%\n"},
    {"partition-heals", "half of the nodes are parted from the others for half a second",
     "at=1s for=500ms partition random=50%\n"},
};

#define SCENARIOS (sizeof scenarios / sizeof scenarios[0])

const struct fault_scenario *fault_scenario_at(size_t i)
{
    return i < SCENARIOS ? &scenarios[i] : NULL;
}

const struct fault_scenario *fault_scenario_find(const char *name)
{
    for (size_t i = 0; i < SCENARIOS; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    return NULL;
}
