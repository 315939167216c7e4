/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * example.c - a first program on libfabemu: a group, an all-reduce, a barrier, a ring of messages.
 *
 *   cc -o example example.c $(pkg-config --cflags --libs libfabemu)
 *   fabemu run -- sh -c 'for i in 0 1 2 3; do FABEMU_NODE=$i ./example 4 & done; wait'
 *   fabemu run -- mpirun -n 4 ./example 4          (here the rank is the node)
 *
 * Every process is one node of the fabric. This program ends at the first error; a real program
 * would handle errors.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fabemu.h>

#define QUEUE     1 /* number of the receive queue of every process */
#define TAG_GROUP 1
#define TAG_RING  2

/* The state of this process. */
struct self {
    struct fabemu *fab;
    struct fabemu_queue *queue;
    struct fabemu_group *group;
    uint32_t node;
    uint32_t count; /* number of processes, which are nodes 0 to count - 1 */
};

static void check(int err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "example: %s: %s\n", what, *fabemu_error() ? fabemu_error() : strerror(-err));
    exit(1);
}

static void send(struct self *me, uint32_t node, uint64_t tag, void *buf, size_t bytes)
{
    struct fabemu_dest dest = {.node = node, .queue = QUEUE, .tag = tag};
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};
    struct fabemu_req req = {0};

    check(fabemu_send(me->queue, &dest, &iov, 1, &req), "send");
    check(fabemu_wait(me->fab, &req), "send");
}

static void receive(struct self *me, uint32_t node, uint64_t tag, void *buf, size_t bytes)
{
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};
    struct fabemu_req req = {0};

    check(fabemu_recv(me->queue, node, tag, 0, &iov, 1, &req), "receive");
    check(fabemu_wait(me->fab, &req), "receive");
}

/* Create the group. This fails until all its nodes are attached, so try for up to half a minute. */
static uint32_t create(struct self *me, const uint32_t *nodes)
{
    const struct timespec rest = {.tv_nsec = 10000000};
    uint32_t id = 0;
    int err = fabemu_group_create(me->fab, nodes, me->count, &id);

    for (int i = 0; err == -EHOSTUNREACH && i < 3000; i++) {
        nanosleep(&rest, NULL);
        err = fabemu_group_create(me->fab, nodes, me->count, &id);
    }
    check(err, "group");
    return id;
}

/* Node 0 creates a group and sends its address to the others. Then each node joins it. */
static void join(struct self *me)
{
    uint32_t id;

    if (me->node == 0) {
        uint32_t *nodes = calloc(me->count, sizeof *nodes);

        check(nodes ? 0 : -ENOMEM, "memory");
        for (uint32_t i = 0; i < me->count; i++)
            nodes[i] = i;
        id = create(me, nodes);
        free(nodes);
        for (uint32_t i = 1; i < me->count; i++)
            send(me, i, TAG_GROUP, &id, sizeof id);
    } else {
        receive(me, 0, TAG_GROUP, &id, sizeof id);
    }
    check(fabemu_group_join(me->fab, id, me->count, &me->group), "join");
}

/* Compute the sum of all node numbers. The switches add them on the way. */
static void sum(struct self *me)
{
    int64_t mine = me->node, all = 0;
    struct fabemu_req req = {0};

    check(fabemu_allreduce(me->group, &mine, &all, 1, FABEMU_SUM, FABEMU_I64, &req), "allreduce");
    check(fabemu_wait(me->fab, &req), "allreduce");
    /* the fabric's report shows only the collectives that the program counts in this way */
    if (me->node == 0)
        fabemu_count_in_network(me->group, FABEMU_COLL_ALLREDUCE);
    printf("node %u: the sum of all is %lld\n", me->node, (long long)all);
}

/* Pass a token around the ring of all processes. Each process adds one to it. */
static void ring(struct self *me)
{
    uint32_t next = (me->node + 1) % me->count, before = (me->node + me->count - 1) % me->count;
    uint32_t token = 1;

    if (me->node == 0)
        send(me, next, TAG_RING, &token, sizeof token);
    receive(me, before, TAG_RING, &token, sizeof token);
    if (me->node == 0) {
        printf("node 0: the token passed %u processes\n", token);
        return;
    }
    token++;
    send(me, next, TAG_RING, &token, sizeof token);
}

int main(int argc, char **argv)
{
    struct self me = {.count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0};
    struct fabemu_req req = {0};

    if (me.count < 2) {
        fprintf(stderr, "usage: example PROCESSES (2 or more)\n");
        return 2;
    }
    check(fabemu_attach(&me.fab, NULL), "attach");
    me.node = fabemu_info(me.fab)->node;
    check(fabemu_queue_open(me.fab, QUEUE, &me.queue), "queue");
    join(&me);
    sum(&me);
    check(fabemu_barrier(me.group, &req), "barrier");
    check(fabemu_wait(me.fab, &req), "barrier");
    if (me.node == 0)
        fabemu_count_in_network(me.group, FABEMU_COLL_BARRIER);
    ring(&me);
    fabemu_group_leave(me.group);
    fabemu_queue_close(me.queue);
    fabemu_detach(me.fab);
    return 0;
}
