/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sample.c - what this host tells of its part whenever the governor asks: what it has counted, and
 * what its processes have finished. samples.c is the other side.
 */
#include "apps/fabric/sample.h"
#include "apps/cluster/follower/internal.h"

static void counted_end(struct obey *obey)
{
    if (!obey->part)
        return;
    fabric_watch(obey->fabric, FABRIC_WATCH_TELEMETRY, false);
    telemetry_part_destroy(obey->part);
    obey->part = NULL;
}

static int counted_begin(struct obey *obey, struct json_object *call)
{
    const struct telemetry_source source = {.fabric = obey->fabric,
                                            .config = fabric_config_of(obey->fabric)};
    int err;

    (void)call;
    counted_end(obey);
    err = telemetry_part_create(&obey->part, &source);
    if (!err)
        fabric_watch(obey->fabric, FABRIC_WATCH_TELEMETRY, true);
    return err;
}

/* 1: there is more; 0; -errno. */
static int counted_tell(struct obey *obey)
{
    return obey->part ? telemetry_part_tell(obey->part, HOSTS_SAMPLE_BYTES, &obey->told) : -EINVAL;
}

static void finished_end(struct obey *obey)
{
    timeline_part_destroy(obey->timeline);
    obey->timeline = NULL;
}

static int finished_begin(struct obey *obey, struct json_object *call)
{
    uint64_t from_bytes = (uint64_t)emu_json_number(call, "from_bytes", 0);

    finished_end(obey);
    return timeline_part_create(&obey->timeline, obey->fabric, from_bytes);
}

static int finished_tell(struct obey *obey)
{
    return obey->timeline ? timeline_part_tell(obey->timeline, HOSTS_SAMPLE_BYTES, &obey->told)
                          : -EINVAL;
}

static const struct {
    int (*begin)(struct obey *, struct json_object *call);
    int (*tell)(struct obey *);
    void (*end)(struct obey *);
} tells[HOSTS_TOLDS] = {
    [HOSTS_COUNTED] = {counted_begin, counted_tell, counted_end},
    [HOSTS_FINISHED] = {finished_begin, finished_tell, finished_end},
};

/* {"sample":DIGITS,"of":KIND,"number":N,"more":0|1} */
int obey_sample(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t of = emu_json_number(call, "of", -1);
    int more, err = of >= 0 && of < HOSTS_TOLDS ? 0 : -EINVAL;

    if (!err && emu_json_number(call, "anew", 0))
        err = tells[of].begin(obey, call);
    if (err)
        return err;
    more = tells[of].tell(obey);
    if (more < 0)
        return more;
    json_object_object_add(reply, "sample", hosts_digits(obey->told.at, obey->told.bytes));
    json_add_number(reply, "of", (uint64_t)of);
    json_add_number(reply, "number", (uint64_t)emu_json_number(call, "number", 0));
    json_add_number(reply, "more", (uint64_t)more);
    return 0;
}

int obey_unsampled(struct obey *obey, struct json_object *call, struct json_object *reply)
{
    int64_t of = emu_json_number(call, "of", -1);

    (void)reply;
    if (of < 0 || of >= HOSTS_TOLDS)
        return -EINVAL;
    tells[of].end(obey);
    return 0;
}

void obey_sample_leaves(struct obey *obey, uint32_t node)
{
    if (obey->part)
        telemetry_part_leaves(obey->part, node);
    if (obey->timeline)
        timeline_part_leaves(obey->timeline, node);
}

void obey_sample_close(struct obey *obey)
{
    for (int of = 0; of < HOSTS_TOLDS; of++)
        tells[of].end(obey);
    telemetry_text_free(&obey->told);
}
