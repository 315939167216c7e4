/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * speaks.c - two processes that send every kind of segment once, with values for which
 * dissector_test.py searches in a capture.
 *
 *    FABEMU_NODE=0 speaks FLOOD & FABEMU_NODE=1 speaks FLOOD
 *
 * FLOOD: number of messages in one direction. Each process prints a line of JSON with the values
 * that the fabric or the library has chosen.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fabemu.h>

#define REGION_BYTES 65536u
#define TAG          UINT64_C(0xa1b2c3d400000000)
#define DATA         UINT64_C(0x0102030405060700)
#define SHORT        4 /* the message whose completion data fit in 32 bits */
#define WORD_AT      40000u
#define WORD         UINT64_C(0x1122334455667788)
#define NOTICE       UINT64_C(0x5566778899aabb00)

struct self {
    struct fabemu *fab;
    struct fabemu_queue *queue; /* number 7 at node 0, number 9 at node 1 */
    struct fabemu_group *group;
    uint32_t node;
    unsigned long flood;
    uint8_t *region; /* of node 1 */
    uint64_t key;
    uint32_t id; /* of the group */
};

static void must(int err, const char *what)
{
    if (!err)
        return;
    fprintf(stderr, "speaks: %s: %s\n", what, *fabemu_error() ? fabemu_error() : strerror(-err));
    exit(1);
}

static void finish(struct self *me, struct fabemu_req *req, int wanted, const char *what)
{
    int status = fabemu_wait(me->fab, req);

    if (status != wanted)
        must(status ? status : -EPROTO, what);
}

/* --- messages ----------------------------------------------------------------------- */

/* Bytes that encode the message @i and their position. */
static void fill(uint8_t *at, size_t bytes, unsigned i)
{
    for (size_t n = 0; n < bytes; n++)
        at[n] = (uint8_t)(n * 7 + i * 31);
}

static void send(struct self *me, unsigned i, void *at, size_t bytes)
{
    struct fabemu_dest dest = {.node = !me->node,
                               .queue = me->node ? 7 : 9,
                               .tag = TAG + i,
                               .data = i == SHORT ? i : DATA + i};
    struct fabemu_iov iov = {.base = at, .bytes = bytes};
    struct fabemu_req req = {0};

    must(fabemu_send(me->queue, &dest, &iov, 1, &req), "send");
    finish(me, &req, 0, "send");
}

static void receive(struct self *me, unsigned i, void *at, size_t bytes)
{
    struct fabemu_iov iov = {.base = at, .bytes = bytes};
    struct fabemu_req req = {0};

    must(fabemu_recv(me->queue, !me->node, TAG + i, 0, &iov, 1, &req), "receive");
    finish(me, &req, 0, "receive");
}

static void message(struct self *me, unsigned i, size_t bytes)
{
    uint8_t *at = malloc(bytes), *wanted = malloc(bytes);

    must(at && wanted ? 0 : -ENOMEM, "memory");
    fill(wanted, bytes, i);
    if (me->node)
        receive(me, i, at, bytes);
    else
        send(me, i, wanted, bytes);
    must(me->node && memcmp(at, wanted, bytes) ? -EBADMSG : 0, "what came");
    free(at);
    free(wanted);
}

static void messages(struct self *me)
{
    message(me, 1, 100);
    message(me, 2, 500);
    message(me, 3, 100000);
    for (unsigned long n = 0; n < me->flood; n++)
        message(me, 4, 8);
}

/* --- memory ------------------------------------------------------------------------- */

static void atomic(struct self *me, const struct fabemu_atomic *what, const char *name)
{
    struct fabemu_req req = {0};

    must(fabemu_atomic(me->fab, what, &req), name);
    finish(me, &req, 0, name);
}

static void atomics(struct self *me)
{
    const uint64_t add = 5;
    const int32_t swap = -7, compare = 0x01020304;
    uint64_t before = 0;
    struct fabemu_atomic what = {.node = 1, .key = me->key, .offset = WORD_AT};

    what.op = FABEMU_ATOMIC_ADD;
    what.type = FABEMU_U64;
    what.operand = &add;
    what.result = &before;
    atomic(me, &what, "add");
    must(before == WORD ? 0 : -EBADMSG, "the value before");
    what.offset += 8;
    what.op = FABEMU_ATOMIC_CAS;
    what.type = FABEMU_I32;
    what.operand = &swap;
    what.compare = &compare;
    what.result = NULL;
    atomic(me, &what, "compare and swap");
}

/* A batch of one put, which needs two segments. */
static void batch(struct self *me, uint8_t *bytes, size_t count)
{
    struct fabemu_record record = {.offset = 30000,
                                   .bytes = (uint32_t)count,
                                   .op = FABEMU_RECORD_PUT};
    const struct fabemu_iov iov[] = {{&record, sizeof record}, {bytes, count}};
    struct fabemu_req req = {0};

    must(fabemu_batchv(me->fab, 1, me->key, iov, 2, NULL, &req), "batch");
    finish(me, &req, 0, "batch");
}

static void put_with_notice(struct self *me, uint64_t offset, uint8_t *bytes, size_t count,
                            uint64_t data)
{
    const struct fabemu_notice notice = {.queue = 9, .src_queue = 7, .data = data};
    const struct fabemu_iov iov = {bytes, count};
    struct fabemu_req req = {0};

    must(fabemu_putv_notice(me->fab, 1, me->key, offset, &iov, 1, &notice, &req), "noticed put");
    finish(me, &req, 0, "noticed put");
}

static void memory(struct self *me)
{
    static uint8_t bytes[9000];
    struct fabemu_req req = {0}, notice[2] = {{0}};

    if (me->node) {
        must(fabemu_recv_notice(me->queue, &notice[0]), "notice");
        must(fabemu_recv_notice(me->queue, &notice[1]), "notice");
        must(fabemu_register(me->fab, me->region, REGION_BYTES,
                             FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC,
                             &me->key),
             "register");
        memcpy(me->region + WORD_AT, &(uint64_t){WORD}, 8);
        send(me, 5, &me->key, sizeof me->key);
        receive(me, 6, bytes, 1);
        finish(me, &notice[0], 0, "notice");
        finish(me, &notice[1], 0, "notice");
        must(notice[0].data == NOTICE && notice[1].data == NOTICE + 1 ? 0 : -EBADMSG, "notices");
        return;
    }
    receive(me, 5, &me->key, sizeof me->key);
    fill(bytes, sizeof bytes, 5);
    must(fabemu_put(me->fab, 1, me->key, 16, bytes, 50, &req), "put");
    finish(me, &req, 0, "put");
    must(fabemu_put(me->fab, 1, me->key, 50000, bytes, 9000, &req), "long put");
    finish(me, &req, 0, "long put");
    put_with_notice(me, 20000, bytes, 50, NOTICE);
    put_with_notice(me, 24000, bytes, 3000, NOTICE + 1);
    must(fabemu_get(me->fab, 1, me->key, 8192, bytes, 3000, &req), "get");
    finish(me, &req, 0, "get");
    must(fabemu_get(me->fab, 1, me->key, REGION_BYTES, bytes, 100, &req), "get beyond");
    finish(me, &req, -EACCES, "get beyond");
    atomics(me);
    batch(me, bytes, 256);
    send(me, 6, bytes, 1);
}

/* --- groups ------------------------------------------------------------------------- */

static void group(struct self *me)
{
    const struct timespec rest = {.tv_nsec = 10000000};
    int err = -EHOSTUNREACH;

    for (int i = 0; me->node == 0 && err == -EHOSTUNREACH && i < 3000; i++) {
        err = fabemu_group_create(me->fab, (const uint32_t[]){0, 1}, 2, &me->id);
        if (err)
            nanosleep(&rest, NULL);
    }
    if (me->node == 0) {
        must(err, "group");
        send(me, 7, &me->id, sizeof me->id);
    } else {
        receive(me, 7, &me->id, sizeof me->id);
    }
    must(fabemu_group_join(me->fab, me->id, 2, &me->group), "join");
}

static void barrier(struct self *me)
{
    struct fabemu_req req = {0};

    must(fabemu_barrier(me->group, &req), "barrier");
    finish(me, &req, 0, "barrier");
}

static void collectives(struct self *me)
{
    const int64_t sums[2] = {100 + me->node, -7};
    const double most[3] = {1.5, 2.5 + me->node, -1};
    int64_t all[2];
    double max[3];
    uint8_t bytes[100];
    struct fabemu_req req = {0};

    must(fabemu_allreduce(me->group, sums, all, 2, FABEMU_SUM, FABEMU_I64, &req), "allreduce");
    finish(me, &req, 0, "allreduce");
    must(fabemu_reduce(me->group, most, max, 3, FABEMU_MAX, FABEMU_F64, 1, &req), "reduce");
    finish(me, &req, 0, "reduce");
    fill(bytes, sizeof bytes, 8);
    must(fabemu_broadcast(me->group, bytes, sizeof bytes, 0, &req), "broadcast");
    finish(me, &req, 0, "broadcast");
    barrier(me);
}

/*
 * Node 0 tests conditionals: a true one, one that is true only for its own word, and one with
 * "until".
 */
static void words(struct self *me)
{
    struct fabemu_req req = {0};
    uint8_t byte = 0;

    must(fabemu_group_set(me->group, 3, 77, NULL), "set");
    barrier(me);
    if (me->node) {
        receive(me, 8, &byte, 1);
        must(fabemu_group_set(me->group, 5, 1000, NULL), "set");
        barrier(me);
        return;
    }
    must(fabemu_group_test(me->group, 3, 77, FABEMU_TEST_EQUAL, &req), "test");
    finish(me, &req, 0, "test");
    must(fabemu_group_set(me->group, 4, 78, NULL), "set");
    must(fabemu_group_test(me->group, 4, 78, FABEMU_TEST_EQUAL, &req), "test of another");
    finish(me, &req, -EAGAIN, "test of another");
    must(fabemu_group_set(me->group, 5, 1001, NULL), "set");
    must(fabemu_group_test(me->group, 5, 999, FABEMU_TEST_REACHED | FABEMU_TEST_UNTIL, &req),
         "until");
    send(me, 8, &byte, 1);
    finish(me, &req, 0, "until");
    barrier(me);
}

int main(int argc, char **argv)
{
    static uint8_t region[REGION_BYTES] __attribute__((aligned(64)));
    struct self me = {.region = region, .flood = argc > 1 ? strtoul(argv[1], NULL, 10) : 0};
    const struct fabemu_info *info;

    memcpy(region + WORD_AT + 8, &(uint32_t){0x01020304}, 4);
    must(fabemu_attach(&me.fab, NULL), "attach");
    info = fabemu_info(me.fab);
    me.node = info->node;
    must(me.node > 1 ? -EINVAL : 0, "FABEMU_NODE");
    must(fabemu_queue_open(me.fab, me.node ? 9 : 7, &me.queue), "queue");
    messages(&me);
    memory(&me);
    group(&me);
    collectives(&me);
    if (info->acknowledged)
        words(&me);
    printf("{\"node\": %u, \"incarnation\": %" PRIu64 ", \"key\": %" PRIu64 ", \"group\": %u}\n",
           me.node, info->incarnation, me.key, me.id);
    fabemu_group_leave(me.group);
    fabemu_queue_close(me.queue);
    fabemu_detach(me.fab);
    return 0;
}
