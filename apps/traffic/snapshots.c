/* SPDX-License-Identifier: BSD-3-Clause */
/* snapshots.c - telemetry of a run in simulated time. */
#include "apps/traffic/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/output.h"
#include "apps/telemetry/telemetry.h"

struct traffic_snapshots {
    struct telemetry *telemetry;
    struct text_buf line;
    uint64_t due_ps;
    uint64_t last_ps;
};

static void link_of(void *ctx, uint32_t cable, struct telemetry_cable *ret)
{
    *ret = telemetry_cable_at(traffic_faults_manager(ctx), cable);
}

static int write_line(struct traffic_run *run)
{
    struct traffic_snapshots *s = run->snapshots;
    FILE *out = run->config->snapshots.out;

    if (s->line.failed)
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    if (!out)
        return 0;
    if (fwrite(s->line.at, 1, s->line.bytes, out) == s->line.bytes && fputc('\n', out) != EOF)
        return 0;
    return traffic_run_wrong(run, -EIO, "the snapshots of --telemetry could not be written: %s",
                             strerror(errno));
}

static int snapshot(struct traffic_run *run, uint64_t at_ps)
{
    struct traffic_snapshots *s = run->snapshots;

    telemetry_sample(s->telemetry, at_ps);
    s->last_ps = at_ps;
    if (!run->config->snapshots.out)
        return 0;
    telemetry_line(s->telemetry, telemetry_samples(s->telemetry) - 1, 0, &s->line);
    return write_line(run);
}

/* Call the viewer, which may pause simulated time. Errors: -EINTR. */
static int show(struct traffic_run *run, bool taken)
{
    const struct traffic_viewer *viewer = &run->config->snapshots.viewer;
    int err = 0;

    if (!viewer->view)
        return 0;
    while (!err && viewer->view(viewer->ctx, taken) && !viewer->ends(viewer->ctx)) {
        taken = false;
        err = traffic_run_progress(run, run->done);
    }
    if (!err && viewer->ends(viewer->ctx))
        err = traffic_run_interrupted(run);
    return err;
}

int traffic_snapshots_start(struct traffic_run *run)
{
    const struct traffic_config *config = run->config;
    const struct traffic_viewer *viewer = &config->snapshots.viewer;
    const struct telemetry_source source = {.fabric = run->fabric,
                                            .config = &run->built,
                                            .link = link_of,
                                            .ctx = run};

    if (!config->snapshots.out && !viewer->run)
        return 0;
    run->snapshots = calloc(1, sizeof *run->snapshots);
    if (!run->snapshots || telemetry_create(&run->snapshots->telemetry, &source))
        return traffic_run_wrong(run, -ENOMEM, "out of memory");
    if (viewer->run)
        viewer->run(viewer->ctx, run->fabric, run->snapshots->telemetry,
                    config->snapshots.every_ps / 1000u);
    run->snapshots->due_ps = config->snapshots.every_ps;
    if (config->snapshots.out && config->snapshots.out != stdout &&
        output_begin(fileno(config->snapshots.out)))
        return traffic_run_wrong(run, -EIO, "cannot write the snapshots of --telemetry: %s",
                                 strerror(errno));
    telemetry_shape(run->snapshots->telemetry, config->snapshots.every_ps / 1000u,
                    &run->snapshots->line);
    return write_line(run);
}

int traffic_snapshots_end(struct traffic_run *run)
{
    const struct traffic_snapshots *s = run->snapshots;

    if (!s || !s->telemetry || s->last_ps >= run->now_ps || s->line.failed)
        return 0;
    return snapshot(run, run->now_ps);
}

void traffic_snapshots_stop(struct traffic_run *run)
{
    const struct traffic_viewer *viewer = &run->config->snapshots.viewer;
    struct traffic_snapshots *s = run->snapshots;

    if (!s)
        return;
    traffic_snapshots_end(run);
    if (s->telemetry && viewer->run)
        viewer->run(viewer->ctx, NULL, NULL, 0);
    telemetry_destroy(s->telemetry);
    text_buf_free(&s->line);
    free(s);
    run->snapshots = NULL;
}

int traffic_snapshots_advance(struct traffic_run *run, uint64_t until_ps)
{
    struct traffic_snapshots *s = run->snapshots;
    int err = 0;

    while (s && !err && s->due_ps <= until_ps) {
        fabric_advance(run->fabric, s->due_ps);
        err = snapshot(run, s->due_ps);
        s->due_ps += run->config->snapshots.every_ps;
        if (!err)
            err = show(run, true);
    }
    fabric_advance(run->fabric, until_ps);
    return err ? err : show(run, false);
}
