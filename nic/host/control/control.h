/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - the client's end of the control socket (docs/control.md).
 *
 * Owner: struct nic_control, under locks of its own. Lock: the adapter's is not held, for these
 * wait. Callers: attach.c, and calls that ask the fabric. What the fabric says by itself goes up to
 * the function that nic_control_watch() was given.
 */
#ifndef NIC_CONTROL_H
#define NIC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/fabemu.h"

struct json_object;
struct nic_control;
struct emu_hostif_fds;

/* What a process tells the fabric about itself when it attaches; -1: not known. */
struct nic_job {
    int want;  /* the node that it asks for */
    int rank;  /* its rank in its job */
    int ranks; /* number of ranks of its job */
};

/**
 * nic_control_attach - ask the fabric at @path for a node. @job: of this process. @edge: the caller
 * closes it.
 */
int nic_control_attach(struct nic_control **ret, const char *path, const struct nic_job *job,
                       struct fabemu_info *info, struct emu_hostif_fds *edge);
/**
 * nic_control_apart - is the fabric in another session than this process, as far as can be seen?
 */
bool nic_control_apart(const struct nic_control *control);
/**
 * nic_control_watch - from here on a thread reads the socket.
 * @event: called on that thread with @fab, for each event that is not about the socket itself.
 */
int nic_control_watch(struct nic_control *control, struct fabemu *fab,
                      void (*event)(struct fabemu *fab, const char *name,
                                    struct json_object *object));
/**
 * nic_control_ask - send a request (put here), wait for the reply. Errors: -errno of the fabric's
 * refusal.
 */
int nic_control_ask(struct nic_control *control, struct json_object *request,
                    struct json_object **reply);
void nic_control_detach(struct nic_control *control, uint32_t unheard);
/** nic_control_exits - tell the fabric that the process ends without detaching. */
void nic_control_exits(struct nic_control *control);
/** nic_control_forked - in a forked child: let go of the socket. */
void nic_control_forked(struct nic_control *control);

#endif
