/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queries.c - what the governor asks all other hosts and does not wait for: their answers come when
 * they do, and meanwhile it serves. And the audit that it does wait for, at the fabric's end.
 *
 * A host that has not answered when its time is over is lost, as with a call. Any other call to a
 * host that is at an audit waits as long as the audit may take.
 */
#include <limits.h>
#include <string.h>

#include "apps/audit/audit.h"
#include "apps/cluster/coordinator/internal.h"
#include "emu/util/bits.h"
#include "emu/util/now.h"

/* --- audits added up ---------------------------------------------------------------------- */

static void line_set(const struct hosts_audits *audits, uint32_t i, const char *host,
                     const char *wrong)
{
    char *line = audits->sum->line[i];

    snprintf(line, FABRIC_FINDING_BYTES, "host %s: %.*s", host, FABRIC_FINDING_BYTES / 2, wrong);
    emu_printable(line);
}

/* The number of findings of a host: at least its lines, so that it cannot hide those of others. */
static uint32_t found_by(struct json_object *audit, size_t lines)
{
    int64_t found = emu_json_number(audit, "found", 0);

    if (found < (int64_t)lines)
        found = (int64_t)lines;
    return found < UINT32_MAX / HOSTS_MAX ? (uint32_t)found : UINT32_MAX / HOSTS_MAX;
}

static void audit_take(void *ctx, uint32_t host, struct json_object *reply)
{
    struct hosts_audits *audits = ctx;
    struct fabric_audit *sum = audits->sum;
    struct json_object *audit = json_object_object_get(reply, "audit");
    struct json_object *wrong = json_object_object_get(audit, "wrong");
    uint64_t held_ns = (uint64_t)emu_json_number(audit, "held_ns", 0);
    size_t count = json_object_is_type(wrong, json_type_array) ? json_object_array_length(wrong)
                                                               : 0;

    for (size_t i = 0; i < count && audits->lines < FABRIC_FINDINGS; i++) {
        const char *line = json_object_get_string(json_object_array_get_idx(wrong, i));

        line_set(audits, audits->lines++, audits->hosts->config.name[host], line ? line : "");
    }
    sum->found += found_by(audit, count);
    sum->switches += (uint32_t)emu_json_number(audit, "switches", 0);
    sum->cables += (uint32_t)emu_json_number(audit, "cables", 0);
    sum->crossing += (uint32_t)emu_json_number(audit, "between_hosts", 0);
    sum->buffers += (uint64_t)emu_json_number(audit, "buffers", 0);
    sum->held_ns = held_ns > sum->held_ns ? held_ns : sum->held_ns;
}

/* The governor's own lines, too, have its host's name. */
static void audits_begin(struct hosts_audits *audits, struct hosts *hosts, struct fabric_audit *sum)
{
    *audits = (struct hosts_audits){.hosts = hosts, .sum = sum};
    while (audits->lines < sum->found && audits->lines < FABRIC_FINDINGS) {
        char wrong[FABRIC_FINDING_BYTES];

        memcpy(wrong, sum->line[audits->lines], sizeof wrong);
        line_set(audits, audits->lines++, hosts->config.name[0], wrong);
    }
}

static struct json_object *of_routes(bool routes)
{
    return json_add_number(json_object_new_object(), "routes", routes);
}

int hosts_view_audit(void *ctx, bool routes, struct fabric_audit *sum)
{
    struct hosts_audits audits;

    audits_begin(&audits, ctx, sum);
    return hosts_call_long(ctx, "audit", of_routes(routes), audit_take, &audits);
}

/* --- queries ------------------------------------------------------------------------------ */

static void query_begin(struct hosts *hosts, enum hosts_asked of, const char *what,
                        struct json_object *with, uint64_t most_ms)
{
    struct hosts_query *query = &hosts->query[of];

    *query = (struct hosts_query){.until_ms = hosts_deadline_ms(most_ms)};
    for (uint32_t h = 1; h < hosts->config.count; h++)
        if (!hosts->far[h].lost)
            query->waits |= emu_bit(h);
    query->number = hosts_call_begin(hosts, 0, what, with);
}

void hosts_query_audit(struct hosts *hosts, bool routes, struct fabric_audit *sum)
{
    uint64_t call_ms = hosts->config.call_ms, start_ms = hosts->config.start_ms;

    audits_begin(&hosts->audits, hosts, sum);
    query_begin(hosts, HOSTS_AUDIT, "audit", of_routes(routes),
                start_ms > call_ms ? start_ms : call_ms);
}

void hosts_query_answer(struct hosts *hosts)
{
    query_begin(hosts, HOSTS_ANSWER, "answer", json_object_new_object(), hosts->config.call_ms);
}

int hosts_query_wait_ms(struct hosts *hosts, enum hosts_asked of)
{
    struct hosts_query *query = &hosts->query[of];
    int64_t left_ms = query->until_ms - emu_now_ms();

    if (left_ms <= 0)
        emu_each_bit (h, query->waits)
            hosts_lose(&hosts->far[h], "it does not answer");
    if (!query->waits)
        return 0;
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

int hosts_query_error(const struct hosts *hosts, enum hosts_asked of)
{
    return hosts->query[of].err;
}

void hosts_query_end(struct hosts *hosts, enum hosts_asked of)
{
    hosts->query[of].waits = 0;
}

void hosts_message_of_query(struct host_far *far, struct json_object *message)
{
    int64_t number = emu_json_number(message, "reply", 0);
    uint64_t bit = emu_bit(far->number);

    for (uint32_t of = 0; of < HOSTS_ASKED; of++) {
        struct hosts_query *query = &far->hosts->query[of];
        int err = hosts_error_of(message, 0);

        if (!(query->waits & bit) || query->number != number)
            continue;
        query->waits &= ~bit;
        if (of == HOSTS_AUDIT && !err)
            audit_take(&far->hosts->audits, far->number, message);
        query->err = query->err ? query->err : err;
    }
}

/* Its next life has not been asked. */
void hosts_query_lost(struct host_far *far)
{
    for (uint32_t of = 0; of < HOSTS_ASKED; of++)
        far->hosts->query[of].waits &= ~(emu_bit(far->number));
}

int64_t hosts_query_until_ms(const struct host_far *far, int64_t until_ms)
{
    const struct hosts_query *audit = &far->hosts->query[HOSTS_AUDIT];
    bool is_at_it = audit->waits >> far->number & 1;

    return is_at_it && audit->until_ms > until_ms ? audit->until_ms : until_ms;
}
