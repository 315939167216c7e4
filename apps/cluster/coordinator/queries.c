/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queries.c - queries to all other hosts. The coordinator serves clients while a query is in
 * progress. The only exception is the audit at the fabric's end, for which it waits.
 *
 * If a host does not reply to a query before its deadline, the coordinator treats the host as lost,
 * as after a call. A host executes no calls during an audit. Therefore a call during an audit gets
 * a deadline that is not earlier than the audit's.
 */
#include <limits.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/cluster/coordinator/internal.h"
#include "emu/util/bits.h"
#include "emu/util/count.h"
#include "emu/util/now.h"

/* the time limit of a request allows for this many operations; it rarely needs more */
#define OPERATIONS 8u
/*
 * Maximum number of reads of a channel in search of a late reply. This empties a socket, which
 * buffers 208 KiB by default: each read gets 4 KiB or more, if the socket has as much.
 */
#define LATE_READS 64

/* --- audits added up ---------------------------------------------------------------------- */

/*
 * Return the maximum number of descriptions for each host. All hosts have the same share of the
 * list of descriptions, so that no host can use up the space for the others.
 */
static uint32_t share(const struct coordinator *coord)
{
    return FABRIC_FINDINGS / coord->config.count;
}

static void line_set(char *line, const char *host, const char *wrong)
{
    snprintf(line, FABRIC_FINDING_BYTES, "host %s: %.*s", host, FABRIC_FINDING_BYTES / 2, wrong);
    emu_printable(line);
}

/*
 * Return the number of findings of a host: the number that it reports, but at least the number of
 * lines that it has sent. So a wrong number from one host does not hide the findings of others.
 */
static uint32_t found_by(struct json_object *audit, size_t lines)
{
    int64_t found = emu_json_number(audit, "found", 0);

    if (found < (int64_t)lines)
        found = (int64_t)lines;
    return found < UINT32_MAX / HOSTS_MAX ? (uint32_t)found : UINT32_MAX / HOSTS_MAX;
}

static void audit_take(void *ctx, uint32_t host, struct json_object *reply)
{
    struct coordinator_audits *audits = ctx;
    struct fabric_audit *sum = audits->sum;
    struct json_object *audit = json_object_object_get(reply, "audit");
    struct json_object *wrong = json_object_object_get(audit, "wrong");
    int64_t paused_ns = emu_json_number(audit, "paused_ns", 0);
    size_t count = emu_json_count(wrong);
    size_t described = count < share(audits->coord) ? count : share(audits->coord);

    for (size_t i = 0; i < described && sum->lines < FABRIC_FINDINGS; i++) {
        const char *line = json_object_get_string(json_object_array_get_idx(wrong, i));

        line_set(sum->line[sum->lines++], audits->coord->config.name[host], line ? line : "");
    }
    sum->found += found_by(audit, count);
    emu_sum32(&sum->switches, (uint64_t)emu_json_number(audit, "switches", 0));
    emu_sum32(&sum->cables, (uint64_t)emu_json_number(audit, "cables", 0));
    emu_sum32(&sum->crossing, (uint64_t)emu_json_number(audit, "between_hosts", 0));
    emu_sum(&sum->buffers, (uint64_t)emu_json_number(audit, "buffers", 0));
    if (paused_ns > 0 && (uint64_t)paused_ns > sum->paused_ns)
        sum->paused_ns = (uint64_t)paused_ns;
}

/*
 * Begin the sum with the coordinator's own audit. Prefix each of its lines with the coordinator's
 * host name.
 */
static void audits_begin(struct coordinator_audits *audits, struct coordinator *coord,
                         struct fabric_audit *sum)
{
    *audits = (struct coordinator_audits){.coord = coord, .sum = sum};
    if (sum->lines > share(coord))
        sum->lines = share(coord);
    for (uint32_t i = 0; i < sum->lines; i++) {
        char wrong[FABRIC_FINDING_BYTES];

        memcpy(wrong, sum->line[i], sizeof wrong);
        line_set(sum->line[i], coord->config.name[0], wrong);
    }
}

static struct json_object *of_routes(bool routes)
{
    return json_add_number(json_object_new_object(), "routes", routes);
}

int coordinator_view_audit(void *ctx, bool routes, struct fabric_audit *sum)
{
    struct coordinator_audits audits;

    audits_begin(&audits, ctx, sum);
    return coordinator_call_last(ctx, "audit", of_routes(routes), audit_take, &audits);
}

/* --- queries ------------------------------------------------------------------------------ */

static void query_begin(struct coordinator *coord, enum coordinator_query_kind of, const char *what,
                        struct json_object *with, uint64_t most_ms)
{
    struct coordinator_query *query = &coord->query[of];

    *query = (struct coordinator_query){.until_ms = coordinator_deadline_ms(most_ms)};
    for (uint32_t h = 1; h < coord->config.count; h++)
        if (!coord->agent[h].lost)
            query->waits |= emu_bit(h);
    query->number = coordinator_call_begin(coord, 0, what, with);
}

static uint64_t audit_ms(const struct coordinator *coord)
{
    uint64_t query_ms = coord->config.query_ms, start_ms = coord->config.start_ms;

    return start_ms > query_ms ? start_ms : query_ms;
}

void coordinator_query_audit(struct coordinator *coord, bool routes, struct fabric_audit *sum)
{
    audits_begin(&coord->audits, coord, sum);
    query_begin(coord, COORDINATOR_AUDIT, "audit", of_routes(routes), audit_ms(coord));
}

void coordinator_query_answer(struct coordinator *coord)
{
    query_begin(coord, COORDINATOR_ANSWER, "answer", json_object_new_object(),
                coord->config.query_ms);
}

uint64_t coordinator_request_ms(const struct coordinator *coord, enum coordinator_query_kind of)
{
    uint64_t sum_ms = 0;

    /* the limit allows for three queries: two of kind @of, and one of the other kind in between */
    emu_sum(&sum_ms, audit_ms(coord));
    emu_sum(&sum_ms, coord->config.query_ms);
    emu_sum(&sum_ms, of == COORDINATOR_AUDIT ? audit_ms(coord) : coord->config.query_ms);
    for (uint32_t i = 0; i < OPERATIONS * (coord->config.count - 1); i++)
        emu_sum(&sum_ms, coord->config.call_ms);
    return sum_ms;
}

int coordinator_query_wait_ms(struct coordinator *coord, enum coordinator_query_kind of)
{
    struct coordinator_query *query = &coord->query[of];
    int64_t left_ms = query->until_ms - emu_now_ms();

    if (left_ms <= 0)
        emu_each_bit (h, query->waits) {
            /* its reply may have arrived while this thread waited for another host */
            for (int i = 0; i < LATE_READS && (query->waits >> h & 1); i++)
                coordinator_agent_serve(&coord->agent[h]);
            if (query->waits >> h & 1)
                coordinator_lose(&coord->agent[h], "it does not answer");
        }
    if (!query->waits)
        return 0;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

int coordinator_query_error(const struct coordinator *coord, enum coordinator_query_kind of)
{
    return coord->query[of].err;
}

void coordinator_query_end(struct coordinator *coord, enum coordinator_query_kind of)
{
    coord->query[of].waits = 0;
}

void coordinator_message_of_query(struct coordinator_agent *agent, struct json_object *message)
{
    int64_t number = emu_json_number(message, "reply", 0);
    uint64_t bit = emu_bit(agent->number);

    for (uint32_t of = 0; of < COORDINATOR_QUERIES; of++) {
        struct coordinator_query *query = &agent->coord->query[of];
        int err = coordinator_error_of(message, 0);

        if (!(query->waits & bit) || query->number != number)
            continue;
        query->waits &= ~bit;
        if (of == COORDINATOR_AUDIT && !err)
            audit_take(&agent->coord->audits, agent->number, message);
        query->err = query->err ? query->err : err;
    }
}

/* Do not wait for the reply of a lost host: its next incarnation does not know of the query. */
void coordinator_query_lost(struct coordinator_agent *agent)
{
    for (uint32_t of = 0; of < COORDINATOR_QUERIES; of++)
        agent->coord->query[of].waits &= ~(emu_bit(agent->number));
}

int64_t coordinator_query_until_ms(const struct coordinator_agent *agent, int64_t until_ms)
{
    const struct coordinator_query *audit = &agent->coord->query[COORDINATOR_AUDIT];
    bool audits = audit->waits >> agent->number & 1;

    return audits && audit->until_ms > until_ms ? audit->until_ms : until_ms;
}
