/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - tasks that options give to a fabric's process: inject a schedule of faults, write files,
 * serve a web page, use several hosts.
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
    struct fault_schedule schedule; /* from --faults */
    struct host_plan host;
    struct hosts_plan hosts; /* from --cluster */
    bool web_waits;          /* --web=wait */
    struct web web;          /* from --web; plan_make() opens its socket, but starts no process */
    struct output report, events, record, timeline, calls;
    struct calls_file replay; /* from --compute replay:FILE */
    struct capture_files capture;
    bool begun; /* the fabric has started, so plan_release() does not delete the files that were
                 * created */
};

/**
 * plan_fabric - make the configuration of fabric @name by options_fabric(). With --cluster, the
 * name of the socket also contains the host's name, and the folder of sockets is the same on all
 * hosts.
 */
int plan_fabric(struct fabric_config *ret, struct topo_graph **graph, const struct options *options,
                const char *name);

/**
 * plan_make - read the schedule of faults and check it against the network, open all files for
 * writing without changing their contents, and listen for browsers. @mark: see struct host_plan.
 * Prints errors. Returns 0 or an exit status.
 */
int plan_make(struct plan *ret, const struct options *options, const struct fabric_config *config,
              const char *mark);
void plan_release(struct plan *plan);

/**
 * plan_capture - prepare the capture of --capture, and open its file in @files. @ret borrows
 * @files, which the caller closes even after an error. Prints errors. Returns 0 or an exit status.
 */
int plan_capture(struct capture_plan *ret, struct capture_files *files,
                 const struct options *options);

/**
 * plan_schedule - read the schedule or scenario @name, and check it against the network. The caller
 * releases @ret in any case. @notes: also print notes about the faults, but each text only once.
 * Prints errors. Returns 0 or an exit status.
 */
int plan_schedule(struct fault_schedule *ret, const char *name, const struct fabric_config *config,
                  bool notes);

#endif
