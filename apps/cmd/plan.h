/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - tasks of a fabric's process beside running the fabric, as the options of a command say.
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
    struct web web;          /* of --web: its socket is open, its process has not started */
    struct output report, events, record, timeline;
    struct capture_files capture;
    bool begun; /* the fabric has started and writes the files: keep new files */
};

/**
 * plan_fabric - options_fabric() of fabric @name. On several hosts the name of the socket contains
 * the host's name, and the folder of sockets is the same on all hosts.
 */
int plan_fabric(struct fabric_config *ret, struct topo_graph **graph, const struct options *options,
                const char *name);

/**
 * plan_make - read the schedule, check it against the network, open all files for writing without
 * changing their contents, listen for browsers. @mark: see struct host_plan. Prints errors. Returns
 * 0 or an exit status.
 */
int plan_make(struct plan *ret, const struct options *options, const struct fabric_config *config,
              const char *mark);
void plan_release(struct plan *plan);

/**
 * plan_capture - the capture of --capture, with its file open in @files. @ret borrows @files, which
 * the caller closes, also after an error. Prints errors. Returns 0 or an exit status.
 */
int plan_capture(struct capture_plan *ret, struct capture_files *files,
                 const struct options *options);

/**
 * plan_schedule - read the schedule or scenario @name, and check it against the network. The caller
 * releases @ret in any case. @notes: also print notes about its faults, equal ones once. Prints
 * errors. Returns 0 or an exit status.
 */
int plan_schedule(struct fault_schedule *ret, const char *name, const struct fabric_config *config,
                  bool notes);

#endif
