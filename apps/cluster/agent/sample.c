/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.c - takes samples of this host's part of the fabric when the coordinator requests them. A
 * sample has counters, or finished operations of processes. It contains the changes since the
 * previous sample, and is sent in pieces. coordinator/samples.c is the other side.
 */
#include "apps/fabric/sample.h"
#include "apps/cluster/agent/internal.h"

static void counters_end(struct agent *agent)
{
    if (!agent->telemetry)
        return;
    fabric_watch(agent->fabric, FABRIC_WATCH_TELEMETRY, false);
    telemetry_agent_destroy(agent->telemetry);
    agent->telemetry = NULL;
}

static int counters_begin(struct agent *agent, struct json_object *call)
{
    const struct telemetry_source source = {.fabric = agent->fabric,
                                            .config = fabric_config_of(agent->fabric)};
    int err;

    (void)call;
    counters_end(agent);
    err = telemetry_agent_create(&agent->telemetry, &source);
    if (!err)
        fabric_watch(agent->fabric, FABRIC_WATCH_TELEMETRY, true);
    return err;
}

/* Write the next piece to agent->report. Returns 1 if the sample has more pieces, 0, or -errno. */
static int counters_report(struct agent *agent)
{
    return agent->telemetry
               ? telemetry_agent_report(agent->telemetry, HOSTS_SAMPLE_BYTES, &agent->report)
               : -EINVAL;
}

static void finished_end(struct agent *agent)
{
    timeline_agent_destroy(agent->timeline);
    agent->timeline = NULL;
}

static int finished_begin(struct agent *agent, struct json_object *call)
{
    uint64_t from_bytes = (uint64_t)emu_json_number(call, "from_bytes", 0);

    finished_end(agent);
    return timeline_agent_create(&agent->timeline, agent->fabric, from_bytes);
}

static int finished_report(struct agent *agent)
{
    return agent->timeline
               ? timeline_agent_report(agent->timeline, HOSTS_SAMPLE_BYTES, &agent->report)
               : -EINVAL;
}

static const struct {
    int (*begin)(struct agent *, struct json_object *call);
    int (*report)(struct agent *);
    void (*end)(struct agent *);
} reports[HOSTS_SAMPLE_KINDS] = {
    [HOSTS_SAMPLE_COUNTERS] = {counters_begin, counters_report, counters_end},
    [HOSTS_SAMPLE_FINISHED] = {finished_begin, finished_report, finished_end},
};

/*
 * Fields of the call: {"of":KIND,"number":N,"anew":1,"from_bytes":N}; of its reply:
 * {"sample":DIGITS,"of":KIND,"number":N,"more":0|1}.
 */
int agent_sample(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int64_t of = emu_json_number(call, "of", -1);
    int more, err = of >= 0 && of < HOSTS_SAMPLE_KINDS ? 0 : -EINVAL;

    if (!err && emu_json_number(call, "anew", 0))
        err = reports[of].begin(agent, call);
    if (err)
        return err;
    more = reports[of].report(agent);
    if (more < 0)
        return more;
    json_object_object_add(reply, "sample", hosts_to_hex(agent->report.at, agent->report.bytes));
    json_add_number(reply, "of", (uint64_t)of);
    json_add_number(reply, "number", (uint64_t)emu_json_number(call, "number", 0));
    json_add_number(reply, "more", (uint64_t)more);
    return 0;
}

int agent_sample_end(struct agent *agent, struct json_object *call, struct json_object *reply)
{
    int64_t of = emu_json_number(call, "of", -1);

    (void)reply;
    if (of < 0 || of >= HOSTS_SAMPLE_KINDS)
        return -EINVAL;
    reports[of].end(agent);
    return 0;
}

void agent_sample_leaves(struct agent *agent, uint32_t node)
{
    if (agent->telemetry)
        telemetry_agent_leaves(agent->telemetry, node);
    if (agent->timeline)
        timeline_agent_leaves(agent->timeline, node);
}

void agent_sample_close(struct agent *agent)
{
    for (int of = 0; of < HOSTS_SAMPLE_KINDS; of++)
        reports[of].end(agent);
    text_buf_free(&agent->report);
}
