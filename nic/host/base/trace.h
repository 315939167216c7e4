/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - clock virtual: record the operations of this process in the text form of GOAL, as the
 * block of a rank (`fabemu run --goal`).
 *
 * Post N is the operation oN. Before it comes the calc cN, whose time has passed since the last
 * post or completion. cN requires the calc before it, and all operations that have completed since;
 * so an operation follows the completions that the program knew. Lock: held, except by open.
 */
#ifndef NIC_TRACE_H
#define NIC_TRACE_H

#include "nic/host/base/complete.h"

struct emu_call;
struct nic_trace;

/** nic_trace_open - write to @fd, which the trace closes. Errors: -ENOMEM. */
int nic_trace_open(struct nic_trace **ret, int fd);

/** nic_trace_close - write the end of the block, and close the file. @trace may be NULL. */
void nic_trace_close(struct fabemu *fab, struct nic_trace *trace);

/** nic_trace_begin - the operation of @req is about to begin. */
void nic_trace_begin(struct fabemu *fab, const struct fabemu_req *req);

/** nic_trace_posted - it has been posted, or a send without a request. */
void nic_trace_posted(struct fabemu *fab, const struct emu_call *call);

/** nic_trace_completed - @req has completed with @status. */
void nic_trace_completed(struct fabemu *fab, const struct fabemu_req *req, int status);

#endif
