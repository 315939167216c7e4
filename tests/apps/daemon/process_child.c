/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_child.c - one process: see process.h. It reports only on request, and each result once.
 */
#include "tests/apps/daemon/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic/fabemu.h"

#define ANY_RECEIVES 8u
#define BYTES_MAX    65536u
#define IDLE_ROUNDS  6u /* empty rounds before a sleep */

/* An operation started by a command. */
struct ordered {
    struct ordered *next;
    struct fabemu_req req;
    enum process_order_what what;
    uint64_t id;
    uint8_t *buf;
};

/* A receive from any source, reposted each time. */
struct any {
    struct fabemu_req req;
    uint64_t nth;
    uint8_t buf[BYTES_MAX];
};

struct process {
    int orders;
    struct fabemu *fab;
    struct fabemu_queue *queue[PROCESS_NAMED_QUEUE + 1];
    struct ordered *ordered;
    struct any any[ANY_RECEIVES];
    uint64_t posted;
    uint64_t word, key;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "procs: pid %d: %s: %s (%s)\n", (int)getpid(), what, strerror(errno),
            fabemu_error());
    _exit(9);
}

static void report(const struct process *p, const struct process_word *word)
{
    must(send(p->orders, word, sizeof *word, MSG_NOSIGNAL) == sizeof *word, "say");
}

static void fill(uint8_t *buf, uint32_t bytes, uint64_t id)
{
    for (uint32_t i = 0; i < bytes; i++)
        buf[i] = (uint8_t)(id * 31 + i * 7 + (i >> 8));
}

static bool filled(const uint8_t *buf, uint32_t bytes, uint64_t id)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (buf[i] != (uint8_t)(id * 31 + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* --- reports ------------------------------------------------------------------------ */

/* A message's tag is its number. */
static void report_arrival(const struct process *p, const struct fabemu_req *req, uint32_t queue,
                           const uint8_t *buf, uint64_t nth)
{
    report(p, &(struct process_word){.what = PROCESS_ARRIVED,
                                     .node = req->src_node,
                                     .incarnation = req->src_incarnation,
                                     .queue = queue,
                                     .bytes = (uint32_t)req->bytes,
                                     .id = req->tag,
                                     .nth = nth,
                                     .status = req->status,
                                     .intact = req->status ||
                                               filled(buf, (uint32_t)req->bytes, req->tag)});
}

static void post_any(struct process *p, struct any *any)
{
    struct fabemu_iov iov = {.base = any->buf, .bytes = sizeof any->buf};

    memset(&any->req, 0, sizeof any->req);
    any->nth = p->posted++;
    must(!fabemu_recv(p->queue[PROCESS_ANY_QUEUE], FABEMU_ANY_NODE, 0, UINT64_MAX, &iov, 1,
                      &any->req),
         "receive");
}

static void report_ordered(const struct process *p, const struct ordered *o)
{
    if (o->what == PROCESS_RECV && !o->req.status)
        report_arrival(p, &o->req, PROCESS_NAMED_QUEUE, o->buf, 0);
    report(p, &(struct process_word){.what = o->what == PROCESS_SEND  ? PROCESS_SENT
                                             : o->what == PROCESS_ADD ? PROCESS_ADDED
                                                                      : PROCESS_ENDED,
                                     .id = o->id,
                                     .status = o->req.status});
}

static void report_all(struct process *p, bool gone)
{
    for (uint32_t i = 0; !gone && i < ANY_RECEIVES; i++) {
        struct any *any = &p->any[i];

        if (fabemu_req_status(&any->req) == FABEMU_PENDING)
            continue;
        report_arrival(p, &any->req, PROCESS_ANY_QUEUE, any->buf, any->nth);
        post_any(p, any);
    }
    for (struct ordered **at = &p->ordered, *o; (o = *at);) {
        if (fabemu_req_status(&o->req) == FABEMU_PENDING) {
            at = &o->next;
            continue;
        }
        report_ordered(p, o);
        *at = o->next;
        free(o->buf);
        free(o);
    }
    report(p, &(struct process_word){.what = PROCESS_END,
                                     .key = __atomic_load_n(&p->word, __ATOMIC_ACQUIRE)});
}

/* --- commands ----------------------------------------------------------------------- */

static int ordered_post(struct process *p, const struct process_order *order, struct ordered *o)
{
    struct fabemu_iov iov = {.base = o->buf, .bytes = order->bytes};
    uint64_t one = 1;

    if (order->what == PROCESS_SEND) {
        struct fabemu_dest dest = {.node = order->node,
                                   .queue = (uint16_t)order->queue,
                                   .tag = order->id,
                                   .incarnation = order->incarnation};
        fill(o->buf, order->bytes, order->id);
        return fabemu_send(p->queue[PROCESS_ANY_QUEUE], &dest, &iov, 1, &o->req);
    }
    o->req.incarnation = order->incarnation;
    if (order->what == PROCESS_RECV)
        return fabemu_recv(p->queue[PROCESS_NAMED_QUEUE], order->node, 0, UINT64_MAX, &iov, 1,
                           &o->req);
    return fabemu_atomic(p->fab,
                         &(struct fabemu_atomic){.node = order->node,
                                                 .key = order->key,
                                                 .op = FABEMU_ATOMIC_ADD,
                                                 .type = FABEMU_U64,
                                                 .operand = &one},
                         &o->req);
}

static void ordered_begin(struct process *p, const struct process_order *order)
{
    struct ordered *o = calloc(1, sizeof *o);

    must(o, "memory");
    o->what = order->what;
    o->id = order->id;
    o->buf = malloc(order->bytes + 1);
    must(o->buf && !ordered_post(p, order, o), "order");
    o->next = p->ordered;
    p->ordered = o;
}

/* Sends nothing before it has detached: the conductor waits for the whole report. */
static _Noreturn void leave(struct process *p)
{
    bool arrived[ANY_RECEIVES];

    for (uint32_t i = 0; i < ANY_RECEIVES; i++)
        arrived[i] = fabemu_req_status(&p->any[i].req) != FABEMU_PENDING;
    fabemu_queue_close(p->queue[PROCESS_ANY_QUEUE]);
    fabemu_queue_close(p->queue[PROCESS_NAMED_QUEUE]);
    fabemu_detach(p->fab); /* pending operations end */
    for (uint32_t i = 0; i < ANY_RECEIVES; i++)
        if (arrived[i])
            report_arrival(p, &p->any[i].req, PROCESS_ANY_QUEUE, p->any[i].buf, p->any[i].nth);
    report_all(p, true);
    _exit(0);
}

static void execute(struct process *p, const struct process_order *order)
{
    switch (order->what) {
    case PROCESS_LEAVE:
        leave(p);
    case PROCESS_EXIT:
        exit(0);
    case PROCESS_REPORT:
        fabemu_progress(p->fab);
        break;
    default:
        ordered_begin(p, order);
    }
    report_all(p, false);
}

static void be_born(struct process *p, uint32_t node)
{
    char text[16];

    snprintf(text, sizeof text, "%u", node);
    setenv("FABEMU_NODE", text, 1);
    must(!fabemu_attach(&p->fab, NULL), "attach");
    must(fabemu_info(p->fab)->node == node, "the node is taken");
    for (uint32_t q = PROCESS_ANY_QUEUE; q <= PROCESS_NAMED_QUEUE; q++)
        must(!fabemu_queue_open(p->fab, (uint16_t)q, &p->queue[q]), "queue");
    must(!fabemu_register(p->fab, &p->word, sizeof p->word, FABEMU_REMOTE_ATOMIC, &p->key), "key");
    for (uint32_t i = 0; i < ANY_RECEIVES; i++)
        post_any(p, &p->any[i]);
    report(p, &(struct process_word){.what = PROCESS_STARTED,
                                     .incarnation = fabemu_info(p->fab)->incarnation,
                                     .key = p->key});
}

_Noreturn void process_child(int orders, uint32_t node)
{
    struct process *p = calloc(1, sizeof *p);
    struct pollfd ask = {.fd = orders, .events = POLLIN};
    unsigned idle = 0;

    must(p, "memory");
    p->orders = orders;
    be_born(p, node);
    for (;;) {
        struct process_order order;

        idle = fabemu_progress(p->fab) ? 0 : idle + 1;
        if (poll(&ask, 1, idle > IDLE_ROUNDS ? 1 : 0) <= 0) {
            fabemu_idle(p->fab, idle);
            continue;
        }
        if (recv(orders, &order, sizeof order, 0) != sizeof order)
            _exit(0); /* the conductor is gone */
        execute(p, &order);
        idle = 0;
    }
}
