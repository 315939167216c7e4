/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - what a fabric's process is to do beside being a fabric, by the options of a command.
 */
#ifndef APPS_CMD_PLAN_H
#define APPS_CMD_PLAN_H

#include "apps/capture/files.h"
#include "apps/fault/fault.h"
#include "apps/cmd/launch.h"
#include "apps/cmd/options.h"
#include "apps/base/output.h"
#include "apps/cmd/host.h"
#include "apps/web/web.h"

struct plan {
    struct fault_schedule schedule; /* of --faults */
    struct host_plan host;
    struct hosts_plan hosts; /* of --cluster */
    bool web_waits;          /* --web=wait */
    struct web web;          /* of --web: its socket is there, and its process is not yet */
    struct output report, events, record, timeline;
    struct capture_files capture;
    bool begun; /* the fabric is there, and writes: files that were made stay */
};

/**
 * plan_fabric - options_fabric() of fabric @name; on several hosts the name of its socket has this
 * host's in it, and sockets are in the same folder on all.
 */
int plan_fabric(struct fabric_config *ret, struct topo_graph **graph, const struct options *options,
                const char *name);

/**
 * plan_make - read the schedule, check it against the network, open all files that are to be
 * written, listen for browsers. What the files hold is still there.
 * @mark: see struct host_plan. Errors are said. Returns 0 or an exit status.
 */
int plan_make(struct plan *ret, const struct options *options, const struct fabric_config *config,
              const char *mark);
void plan_release(struct plan *plan);

/**
 * plan_capture - the capture that the options ask for, with its file open in @files. @ret borrows
 * @files; the caller closes it, also after an error. Errors are printed. Returns 0 or an exit
 * status.
 */
int plan_capture(struct capture_plan *ret, struct capture_files *files,
                 const struct options *options);

/**
 * plan_schedule - read the schedule or scenario @name, and check it against the network. @ret:
 * released by the caller in any case. @notes: what is to be known of its faults is said, each thing
 * once. Errors are said. Returns 0 or an exit status.
 */
int plan_schedule(struct fault_schedule *ret, const char *name, const struct fabric_config *config,
                  bool notes);

#endif
