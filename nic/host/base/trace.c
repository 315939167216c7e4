/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c - record the operations of this process as GOAL. */
#include "nic/host/base/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "emu/util/combine.h"
#include "nic/host/base/base.h"
#include "nic/host/base/compute.h"
#include "nic/host/base/local_time.h"

#define LINE_BYTES 160
#define POLL_PS    50000u /* as GOAL_POLL_PS in apps/traffic/goal/player.h */
#define TAG_BITS   31

struct open {
    const struct fabemu_req *req;
    uint32_t number;
    bool receives;
};

struct nic_trace {
    int fd;
    char buffer[8192];
    size_t used;
    bool failed;
    const struct fabemu_req *posting; /* request of the operation being posted; NULL: none */
    bool triggered;                   /* that operation begins when a counter reaches a value */
    bool inside;                      /* that operation has already completed */
    int inside_status;                /* the status with which it has completed */
    uint32_t posts;                   /* number of the next post */
    uint64_t last_ps;                 /* local time of the last post or completion */
    uint64_t spare_ps;                /* part of the time since last_ps that a receive includes */
    struct open *open;                /* operations that have not completed */
    uint32_t opens, room;
};

static void flush(struct nic_trace *trace)
{
    ssize_t put = trace->failed ? 0 : write(trace->fd, trace->buffer, trace->used);

    trace->failed |= put != (ssize_t)trace->used;
    trace->used = 0;
}

static void __attribute__((format(printf, 2, 3)))
line(struct nic_trace *trace, const char *format, ...)
{
    va_list args;

    if (trace->used > sizeof trace->buffer - LINE_BYTES)
        flush(trace);
    va_start(args, format);
    trace->used += (size_t)vsnprintf(trace->buffer + trace->used, LINE_BYTES, format, args);
    va_end(args);
}

/* Reduce a tag to TAG_BITS bits, because GOAL's tags have 32. Sender and receiver do the same. */
static uint32_t fold(uint64_t tag)
{
    return (uint32_t)((tag * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - TAG_BITS));
}

/* Write the calc before the next post, or at the end. @idle_ps: part of the time to leave out. */
static void put_calc(struct fabemu *fab, struct nic_trace *trace, uint64_t idle_ps)
{
    uint64_t now_ps = nic_local_ps(fab);
    uint64_t ps = now_ps > trace->last_ps ? now_ps - trace->last_ps : 0;

    idle_ps = idle_ps > trace->spare_ps ? idle_ps : trace->spare_ps;
    line(trace, "c%u: calc %llu\n", trace->posts,
         (unsigned long long)(ps > idle_ps ? (ps - idle_ps + 500) / 1000 : 0));
    trace->last_ps = now_ps;
    trace->spare_ps = 0;
}

/* Remember an operation that has not completed. Returns false if there is no memory. */
static bool keep(struct nic_trace *trace, const struct open *open)
{
    uint32_t room = trace->room ? 2 * trace->room : 64;
    struct open *more = trace->open;

    if (trace->opens == trace->room) {
        more = realloc(trace->open, room * sizeof *more);
        if (!more)
            return false;
        trace->room = room;
    }
    trace->open = more;
    trace->open[trace->opens++] = *open;
    return true;
}

/*
 * Write a receive that has ended with @status. A message that is too long for the receive's buffer
 * was received, too. For a receive that got no message, write a calc that takes no time.
 */
static void put_receive(struct nic_trace *trace, uint32_t number, const struct fabemu_req *req,
                        int status)
{
    if (status && status != -EMSGSIZE)
        line(trace, "o%u: calc 0 // a receive that got no message\n", number);
    else
        line(trace, "o%u: recv %llub from %u tag %u\n", number, (unsigned long long)req->bytes,
             req->src_node, fold(req->tag));
}

/* Write a collective in the network. If it sends nothing, write a calc instead. */
static void put_coll(struct nic_trace *trace, const struct emu_call *call)
{
    uint32_t number = trace->posts;
    bool reduces = call->kind == EMU_CALL_REDUCE || call->kind == EMU_CALL_ALLREDUCE;
    static const char *const names[] = {[EMU_CALL_BARRIER] = "barrier",
                                        [EMU_CALL_BROADCAST] = "broadcast",
                                        [EMU_CALL_REDUCE] = "reduce",
                                        [EMU_CALL_ALLREDUCE] = "allreduce"};

    if (call->group == EMU_CALL_LOCAL) {
        line(trace, "o%u: calc 0 // a collective that sends nothing\n", number);
        return;
    }
    line(trace, "o%u: coll %s", number, names[call->kind]);
    if (call->kind != EMU_CALL_BARRIER)
        line(trace, " %llub", (unsigned long long)call->bytes);
    if (reduces)
        line(trace, " %s %s", emu_op_name(call->op), emu_type_name(call->type));
    if (call->node != EMU_CALL_NO_NODE)
        line(trace, " root %u", call->node);
    line(trace, " group %u\n", call->group);
}

/* Write an operation, except a receive, whose message is not known yet. */
static void put_operation(struct nic_trace *trace, const struct emu_call *call)
{
    if (trace->triggered)
        line(trace, "o%u: calc 0" EMU_TRACE_NOT "triggered operation\n", trace->posts);
    else if (call->kind == EMU_CALL_SEND)
        line(trace, "o%u: send %llub to %u tag %u\n", trace->posts, (unsigned long long)call->bytes,
             call->node, fold(call->tag));
    else if (call->kind >= EMU_CALL_BARRIER && call->group != EMU_CALL_UNTRACED)
        put_coll(trace, call);
    else if (call->kind != EMU_CALL_RECEIVE)
        line(trace, "o%u: calc 0" EMU_TRACE_NOT "call of kind %u\n", trace->posts, call->kind);
}

void nic_trace_begin(struct fabemu *fab, const struct fabemu_req *req)
{
    struct nic_trace *trace = fab->sim.trace;

    if (!trace)
        return;
    trace->posting = req;
    trace->triggered = req && req->after;
}

/* Handle an operation that has completed before its call ends. If it is a receive, write it now. */
static void completed_inside(struct nic_trace *trace, const struct open *open)
{
    if (!open->receives)
        return;
    put_receive(trace, trace->posts, trace->posting, trace->inside_status);
    line(trace, "c%u requires o%u\n", trace->posts + 1, trace->posts);
    trace->spare_ps = POLL_PS;
}

void nic_trace_posted(struct fabemu *fab, const struct emu_call *call)
{
    struct nic_trace *trace = fab->sim.trace;
    struct open open;

    if (!trace)
        return;
    open = (struct open){trace->posting, trace->posts,
                         call->kind == EMU_CALL_RECEIVE && !trace->triggered};
    put_calc(fab, trace, 0);
    put_operation(trace, call);
    /* an operation must be ready before the next calc, which the cpu would otherwise start first */
    line(trace, "o%u requires c%u\nc%u requires c%u\n", open.number, open.number, open.number + 1,
         open.number);
    if (trace->inside)
        completed_inside(trace, &open);
    else if (trace->posting && !keep(trace, &open))
        trace->failed = true;
    trace->posting = NULL;
    trace->triggered = trace->inside = false;
    trace->posts++;
}

void nic_trace_completed(struct fabemu *fab, const struct fabemu_req *req, int status)
{
    struct nic_trace *trace = fab->sim.trace;
    struct open open;
    uint32_t i;

    if (!trace)
        return;
    if (req == trace->posting) {
        trace->inside = true;
        trace->inside_status = status;
        return;
    }
    for (i = trace->opens; i && trace->open[i - 1].req != req; i--)
        ;
    if (!i)
        return;
    open = trace->open[i - 1];
    trace->open[i - 1] = trace->open[--trace->opens];
    if (open.receives)
        put_receive(trace, open.number, req, status);
    line(trace, "c%u requires o%u\n", trace->posts, open.number);
    trace->last_ps = nic_local_ps(fab);
    trace->spare_ps = open.receives ? POLL_PS : 0;
}

int nic_trace_open(struct nic_trace **ret, int fd)
{
    struct nic_trace *trace = calloc(1, sizeof *trace);

    if (!trace) {
        close(fd);
        return -ENOMEM;
    }
    trace->fd = fd;
    *ret = trace;
    return 0;
}

void nic_trace_close(struct fabemu *fab, struct nic_trace *trace)
{
    if (!trace)
        return;
    put_calc(fab, trace, fab->sim.compute.idle_ps);
    for (uint32_t i = 0; i < trace->opens; i++)
        if (trace->open[i].receives)
            put_receive(trace, trace->open[i].number, NULL, -ECANCELED);
    line(trace, EMU_TRACE_END);
    flush(trace);
    close(trace->fd);
    free(trace->open);
    free(trace);
}
