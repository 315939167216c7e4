/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - clock virtual: record the operations of this process in the text form of GOAL, as the
 * block of a rank (`fabemu run --goal`).
 *
 * Post N is the operation oN. It requires the calc cN, whose duration is the time since the last
 * post or completion. cN requires the previous calc, and all operations that have completed since
 * the previous calc. So oN begins after all operations that the program knows to be complete.
 * Lock: held, except in nic_trace_open().
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

/**
 * nic_trace_begin - note that the operation of @req is about to be posted. NULL: it has no request,
 * or the post has failed.
 */
void nic_trace_begin(struct fabemu *fab, const struct fabemu_req *req);

/** nic_trace_posted - record this operation, which has been posted. */
void nic_trace_posted(struct fabemu *fab, const struct emu_call *call);

/** nic_trace_completed - record that @req has completed with @status. */
void nic_trace_completed(struct fabemu *fab, const struct fabemu_req *req, int status);

#endif
