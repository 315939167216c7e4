/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refusals.c - a list, for the report, of requests that the libfabric provider could not satisfy.
 *
 * Many programs try several requests, the most demanding one first. So the refusals of a process
 * are discarded when it attaches, and the report names only processes that never attached.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "apps/daemon/client.h"
#include "apps/fabric/hosts.h"
#include "emu/util/printable.h"

static bool is_by(const struct daemon_refusal *refusal, const struct client *client)
{
    return refusal->pid == client->pid && refusal->host == daemon_client_host(client);
}

void daemon_refusals_forget(struct daemon *daemon, const struct client *client)
{
    struct daemon_record *record = &daemon->record;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < record->refusals; i++)
        if (!is_by(&record->refusal[i], client))
            record->refusal[kept++] = record->refusal[i];
    record->refusals = kept;
}

static bool is_attached(const struct daemon *daemon, const struct client *client)
{
    const struct daemon_refusal self = {.pid = client->pid, .host = daemon_client_host(client)};

    emu_each_listed (const struct client, other, &daemon->clients, link)
        if (other->node >= 0 && is_by(&self, other))
            return true;
    return false;
}

static bool is_known(const struct daemon_record *record, const struct client *client,
                     const char *what)
{
    for (uint32_t i = 0; i < record->refusals; i++)
        if (is_by(&record->refusal[i], client) && strcmp(record->refusal[i].what, what) == 0)
            return true;
    return false;
}

/* Return whether the list has space for a refusal on @host. */
static bool has_space(const struct daemon_record *record, uint32_t host)
{
    uint32_t held = 0;

    for (uint32_t i = 0; i < record->refusals; i++)
        held += record->refusal[i].host == host;
    return fabric_host_has_space(DAEMON_REFUSALS_MAX - record->refusals, host, held);
}

/*
 * Handle the request that the libfabric provider sends when fi_getinfo() finds nothing that
 * satisfies the hints.
 */
void daemon_refused(struct daemon *daemon, struct client *client, struct json_object *request)
{
    struct daemon_record *record = &daemon->record;
    struct daemon_refusal refusal = {.host = daemon_client_host(client),
                                     .pid = client->pid,
                                     .rank = emu_json_number(request, "rank", -1)};

    daemon_client_command(client, refusal.command, sizeof refusal.command);
    snprintf(refusal.what, sizeof refusal.what, "%s", emu_json_text(request, "what", ""));
    emu_printable(refusal.what);
    if (has_space(record, refusal.host) && !is_attached(daemon, client) &&
        !is_known(record, client, refusal.what))
        record->refusal[record->refusals++] = refusal;
    daemon_send(daemon, client, conn_ok());
}
