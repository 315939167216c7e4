/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - the client side of the control socket (docs/control.md).
 *
 * The functions wait for the fabric's reply, so the adapter's lock must not be held. struct
 * nic_control has locks of its own.
 */
#ifndef NIC_CONTROL_H
#define NIC_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/fabemu.h"

struct json_object;
struct nic_control;
struct emu_hostif_fds;

/* The properties that a process reports when it attaches. A number is -1 if it is unknown. */
struct nic_job {
    const char *node; /* number or name of the node that it requests; NULL: any */
    int rank;         /* its rank in its MPI job; also the number of the node that it prefers */
    int ranks;        /* number of ranks of its MPI job */
};

/**
 * nic_control_attach - connect to the fabric at @path and request a node.
 * @job: describes this process.
 * @hostif: receives the file descriptors of the host interface; the caller must close them.
 */
int nic_control_attach(struct nic_control **ret, const char *path, const struct nic_job *job,
                       struct fabemu_info *info, struct emu_hostif_fds *hostif);
/**
 * nic_control_notify - send a request to the fabric at @path without attaching. Wait for the reply
 * for at most a second, and ignore it. Consumes the reference to @request. Errors: -errno.
 */
int nic_control_notify(const char *path, struct json_object *request);
/**
 * nic_control_in_other_session - return whether the fabric runs in another session than this
 * process, or in an unknown one.
 */
bool nic_control_in_other_session(const struct nic_control *control);
/**
 * nic_control_watch - start the thread that reads the socket.
 * @event: called by this thread, with @fab, for each event that does not concern the connection
 * itself.
 */
int nic_control_watch(struct nic_control *control, struct fabemu *fab,
                      void (*event)(struct fabemu *fab, const char *name,
                                    struct json_object *object));
/**
 * nic_control_request - send a request and wait for the reply. Consumes the reference to @request.
 * Errors, after which *@reply is NULL: the -errno with which the fabric refused the request; errors
 * of sending; -ENOTCONN.
 */
int nic_control_request(struct nic_control *control, struct json_object *request,
                        struct json_object **reply);
/**
 * nic_control_detach - detach from the fabric, and free @control. @disconnects_unconfirmed: result
 * of nic_leave(), the number of peers that may lack data; the fabric reports it.
 */
void nic_control_detach(struct nic_control *control, uint32_t disconnects_unconfirmed);
/**
 * nic_control_exits - notify the fabric that the process exits without detaching, unless another
 * request is in progress. @control may be NULL.
 */
void nic_control_exits(struct nic_control *control);
/** nic_control_forked - close the copy of the socket in a forked child. @control may be NULL. */
void nic_control_forked(struct nic_control *control);

#endif
