/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.c - how long processes and the fabric waited for cores of this host.
 *
 * Was a process silent because the host had no core for it? The time for which a thread waited for
 * a core does not count towards bounds on silence: emu_starved_ns(). Waits of a few time slices are
 * not taken off, since threads that share a core have such waits all the time.
 *
 * And on clock real: did the programs measure the network's time?
 *
 * The fabric keeps its times, or says how late it was. But a program's own steps take place when
 * the host gives it a core, and the emulated network has no part in that. While no thread of a
 * process that is attached, nor of the fabric, waits for a core, and no edge is full for want of
 * its process, all goes on as it would with a core for each. So of any time that a program
 * measures, at most that part is not the network's in which somebody waited.
 *
 * The kernel says how long each thread waited, not when. Between two looks somebody waited for no
 * longer than all waits together, and no longer than the looks are apart: the lesser counts, look
 * by look (once a second, and when somebody asks). A wait is counted when it ends, so what is older
 * than the last look adds to what was counted before.
 */
#include <string.h>
#include <unistd.h>

#include "apps/daemon/client.h"
#include "apps/base/schedstat.h"
#include "emu/util/now.h"

#define WAITS_SHARE 100 /* of its time the manager spends one part of so many on looking */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Add the waits of a process, or of the fabric, since the last sample. */
static void count_more(struct daemon *daemon, const struct waits_delta *more)
{
    daemon->waits.ns += more->ns;
    daemon->waits.over_ns += more->over_ns;
    if (more->starved_ns > daemon->waits.starved_ns)
        daemon->waits.starved_ns = more->starved_ns;
}

/* What @client's process has waited since the last look. */
static void look_at_client(struct daemon *daemon, struct client *client, uint64_t since_ns)
{
    struct daemon_waits *record = &daemon->record.waits;
    struct waits_delta more;

    if (!client->waits || waits_sample(client->waits, since_ns, &more))
        /* it has just ended, and its connection will say so; or the next look sees it all */
        return;
    count_more(daemon, &more);
    client->waited_ns += more.ns;
    record->programs_ns += more.ns;
    if (client->waited_ns <= record->longest_ns)
        return;
    record->longest_ns = client->waited_ns;
    record->longest_pid = client->pid;
    record->longest_node = (uint32_t)client->node;
    memcpy(record->longest_command, client->command, sizeof record->longest_command);
}

static void look_at_fabric(struct daemon *daemon, uint64_t since_ns)
{
    struct daemon_waits *record = &daemon->record.waits;
    uint64_t all_ns = fabric_full_ns(daemon->fabric);
    uint64_t full_ns = all_ns - lesser(all_ns, record->full_ns);
    struct waits_delta more;

    record->full_ns += full_ns;
    daemon->waits.ns += full_ns;
    daemon->waits.over_ns += full_ns - lesser(full_ns, since_ns);
    if (!daemon->waits.fabric || waits_sample(daemon->waits.fabric, since_ns, &more))
        return;
    record->fabric_ns += more.ns;
    count_more(daemon, &more);
}

/* Nobody was attached until now: what the fabric waited does not count. */
static void waits_begin(struct daemon *daemon)
{
    struct waits_delta more;

    if (daemon->waits.fabric)
        waits_sample(daemon->waits.fabric, 0, &more);
    daemon->waits.sample_ns = emu_now_ns();
    fabric_starved(daemon->fabric, 0, daemon->waits.sample_ns);
    daemon->waits.ns = daemon->waits.over_ns = daemon->waits.starved_ns = 0;
}

/* The time since the last look is over, and this is what was waited in it. */
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
    for (uint32_t node = 0; node < daemon->config->fabric->graph->nodes; node++)
        if (daemon->by_node[node])
            look_at_client(daemon, daemon->by_node[node], since_ns);
    look_at_fabric(daemon, since_ns);
    waits_add(daemon, at_ns, since_ns);
    daemon->waits.next_ns = at_ns + WAITS_SHARE * (emu_time_ns(CLOCK_THREAD_CPUTIME_ID) - ran_ns);
}

void daemon_waits_tick(struct daemon *daemon)
{
    if (emu_now_ns() >= daemon->waits.next_ns)
        daemon_waits_sample(daemon);
    else
        fabric_starved(daemon->fabric, 0, emu_now_ns()); /* the manager has a core */
}

void daemon_waits_attach(struct daemon *daemon, struct client *client)
{
    client->waits = NULL;
    client->waited_ns = 0;
    if (fabric_attached(daemon->fabric) == 1)
        waits_begin(daemon);
    if (client->remote || waits_open(&client->waits, client->pid))
        daemon->record.waits.unseen++;
}

/* Of the dead it is not known what they waited since the last look: it may be all that time. */
void daemon_waits_detach(struct daemon *daemon, struct client *client, bool dead)
{
    uint64_t since_ns = emu_now_ns() - daemon->waits.sample_ns;

    look_at_client(daemon, client, since_ns);
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
