/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - how long processes and the fabric waited for cores of this host. For other hosts only
 * the times of emu_starved_ns() are known here: agents count them (apps/cluster/agent/clients.c).
 *
 * The result has two uses. First, bounds on silence do not count the time for which a thread waited
 * for a core (emu_starved_ns()). The exception is waits of a few time slices, which do count,
 * because they are normal for threads that share a core. Second, on clock real the report says
 * whether the times that programs measured are those of the emulated network.
 *
 * On clock real the fabric keeps its times, or reports its lag. But a program runs only when the
 * host gives it a core, which the fabric does not control. While no thread of an attached process
 * or of the fabric waits for a core, and no receive ring is full because its process does not run,
 * a program behaves as if each thread had its own core. Therefore the error of a time that a
 * program measures is at most the time in which a thread or ring waited.
 *
 * The kernel counts how long each thread has waited, but not when. So the result is an upper bound.
 * There is a sample once a second and on request. Between two samples, the result counts the sum of
 * all waits, but not more than the time between them. The kernel counts a wait when it ends, so a
 * part of it may lie before the last sample. If a wait is longer than the time since the last
 * sample, the excess lies before that sample, and is added in full.
 */
#include <string.h>
#include <unistd.h>

#include "apps/daemon/client.h"
#include "apps/base/schedstat.h"
#include "emu/util/now.h"

#define WAITS_SHARE 100 /* sampling takes at most 1/WAITS_SHARE of the manager's time */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Add the waits of a process, the fabric or another host to the waits since the last sample. */
static void count_more(struct daemon *daemon, const struct waits_delta *more)
{
    daemon->waits.ns += more->ns;
    daemon->waits.over_ns += more->over_ns;
    if (more->starved_ns > daemon->waits.starved_ns)
        daemon->waits.starved_ns = more->starved_ns;
}

static void sample_client(struct daemon *daemon, struct client *client, uint64_t since_ns)
{
    struct daemon_waits *record = &daemon->record.waits;
    struct waits_delta more;

    if (!client->waits || waits_sample(client->waits, since_ns, &more))
        /* the process has just ended, or the next sample will include these waits */
        return;
    count_more(daemon, &more);
    client->waited_ns += more.ns;
    client->starved_ns += emu_starved_ns(since_ns, more.starved_ns);
    record->programs_ns += more.ns;
    if (client->waited_ns <= record->longest_ns)
        return;
    record->longest_ns = client->waited_ns;
    record->longest_pid = client->pid;
    record->longest_node = (uint32_t)client->node;
    memcpy(record->longest_command, client->command, sizeof record->longest_command);
}

static void sample_fabric(struct daemon *daemon, uint64_t since_ns)
{
    struct daemon_waits *record = &daemon->record.waits;
    uint64_t all_ns = fabric_full_ns(daemon->fabric);
    uint64_t full_ns = all_ns - lesser(all_ns, record->full_ns);
    struct waits_delta more, hosts = {.starved_ns = fabric_hosts_starved_ns(daemon->fabric)};

    record->full_ns += full_ns;
    daemon->waits.ns += full_ns;
    daemon->waits.over_ns += full_ns - lesser(full_ns, since_ns);
    count_more(daemon, &hosts);
    if (!daemon->waits.fabric || waits_sample(daemon->waits.fabric, since_ns, &more))
        return;
    record->fabric_ns += more.ns;
    count_more(daemon, &more);
}

/* Forget earlier waits of the fabric, because the first process has attached. */
static void waits_begin(struct daemon *daemon)
{
    struct waits_delta more;

    if (daemon->waits.fabric)
        waits_sample(daemon->waits.fabric, 0, &more);
    fabric_hosts_starved_ns(daemon->fabric);
    daemon->waits.sample_ns = emu_now_ns();
    fabric_starved(daemon->fabric, 0, daemon->waits.sample_ns);
    daemon->waits.ns = daemon->waits.over_ns = daemon->waits.starved_ns = 0;
}

/* Add the waits since the last sample, which was @since_ns before @at_ns, to the record. */
static void waits_add(struct daemon *daemon, uint64_t at_ns, uint64_t since_ns)
{
    struct daemon_waits *record = &daemon->record.waits;

    record->attached_ns += since_ns;
    record->late_ns += lesser(since_ns, daemon->waits.ns) + daemon->waits.over_ns;
    record->late_ns = lesser(record->late_ns, record->attached_ns);
    fabric_starved(daemon->fabric, emu_starved_ns(since_ns, daemon->waits.starved_ns), at_ns);
    daemon->waits.sample_ns = at_ns;
    daemon->waits.ns = daemon->waits.over_ns = daemon->waits.starved_ns = 0;
}

void daemon_waits_sample(struct daemon *daemon)
{
    uint64_t at_ns = emu_now_ns(), since_ns = at_ns - daemon->waits.sample_ns;
    uint64_t ran_ns = emu_time_ns(CLOCK_THREAD_CPUTIME_ID);

    if (!fabric_attached(daemon->fabric))
        return;
    for (uint32_t node = 0; node < daemon->graph->nodes; node++)
        if (daemon->by_node[node])
            sample_client(daemon, daemon->by_node[node], since_ns);
    sample_fabric(daemon, since_ns);
    waits_add(daemon, at_ns, since_ns);
    daemon->waits.next_ns = at_ns + WAITS_SHARE * (emu_time_ns(CLOCK_THREAD_CPUTIME_ID) - ran_ns);
}

void daemon_waits_tick(struct daemon *daemon)
{
    if (emu_now_ns() >= daemon->waits.next_ns)
        daemon_waits_sample(daemon);
    else
        /* the manager runs now, so it has a core */
        fabric_starved(daemon->fabric, 0, emu_now_ns());
}

void daemon_waits_attach(struct daemon *daemon, struct client *client)
{
    client->waits = NULL;
    client->waited_ns = client->starved_ns = 0;
    if (fabric_attached(daemon->fabric) == 1)
        waits_begin(daemon);
    if (client->remote || waits_open(&client->waits, client->pid))
        daemon->record.waits.unseen++;
}

/* The last waits of a dead process are unknown, so count the whole time since the last sample. */
void daemon_waits_detach(struct daemon *daemon, struct client *client, bool dead)
{
    uint64_t since_ns = emu_now_ns() - daemon->waits.sample_ns;

    sample_client(daemon, client, since_ns);
    if (dead && client->waits)
        daemon->waits.ns += since_ns;
    waits_close(client->waits);
    client->waits = NULL;
    if (fabric_attached(daemon->fabric) == 1)
        daemon_waits_sample(daemon);
}

void daemon_waits_open(struct daemon *daemon)
{
    if (waits_open(&daemon->waits.fabric, getpid()))
        daemon->record.waits.unseen++;
}

void daemon_waits_close(struct daemon *daemon)
{
    emu_each_listed (struct client, client, &daemon->clients, link)
        waits_close(client->waits);
    waits_close(daemon->waits.fabric);
}
