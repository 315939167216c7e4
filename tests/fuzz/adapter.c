/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * adapter.c - what one process can do to another: libfabemu receives arbitrary segments from a
 * peer, while its application sends, receives, and shares a group with this peer.
 *
 * The fabric is the fake one of the tests, on this thread, and the input sets the clock (the linker
 * replaces clock_gettime() and getrandom()). The process under test is at node 0. A well-behaved
 * adapter is at node 1 and connected to it. The input adds segments to the traffic of node 1, if it
 * likes with valid numbers and checks.
 *
 * In the first byte of the input, 1 selects a fabric with acknowledgments, and 2 lets segments
 * overtake each other. Commands follow, each a byte (enum command) with parameters.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "emu/util/random.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fixtures/host/fake.h"

#define REQUESTS     12u
#define ARRIVALS     4u
#define REGION_BYTES 4096u
#define GROUP        77u
#define MEMBERS      2u

enum command {
    SEGMENT, /* kind, seq, flags, op, type, length, payload: arrives at node 0 */
    RECEIVE, /* which, tag, 2 of bytes */
    SEND,    /* which, tag, 2 of bytes */
    PUT,     /* which, offset / 16, 2 of bytes */
    GET,     /* which, offset / 16, 2 of bytes */
    ATOMIC,  /* which, op, type, count; 0: fabemu_atomic() */
    COLLECT, /* which, what, 2 of bytes: a collective, by both members or only one */
    WORDS,   /* which, word, how, value: sets a word and tests a word */
    GIVE_UP, /* which: cancels or aborts a request */
    PUMP,    /* count: steps of the fabric and both adapters */
    TIME,    /* exponent: advances the clock by a power of two */
    ANSWER,  /* tag, 2 of bytes: node 1 sends a valid message */
    PROBE,   /* which, tag: receives or discards an unexpected message */
    DEPART,  /* another process replaces that at node 1 */
    NOTICE,  /* which: receives the notice of a put */
    NOTIFY,  /* which, offset / 16, 2 of bytes: puts with a notice */
    MULTI,   /* which, tag, 2 of bytes: a buffer for several messages */
    COUNT,   /* what: an event counts, or stops to count, accesses to the region or by the queue */
    ARM,     /* which, threshold, 2 of bytes: a put that the event starts */
    RENEW,   /* what: closes the queue, or removes the region, and opens another one */
    BATCH,   /* length / 16, which, bytes: a batch of these bytes; node 1 executes it */
    COMMANDS
};

enum flag {
    TO_GROUP = 1,     /* to the group, else to node 0 */
    OF_OURSELVES = 2, /* from node 0 itself, as if it came back; else from node 1 */
    CHECKED = 4,      /* with the check of the pair */
    CHECKED_16 = 8,   /* with the lower half of the check, at its place in NIC_DATA */
    KEYED = 16,       /* with the key of node 0's region */
    NAMED = 32        /* with the id of an operation of node 0 */
};

/* Global, because the wrapper of clock_gettime() has no argument for it. */
static struct fixture {
    struct fake *fake;
    struct fabemu *fab[MEMBERS];
    struct fabemu_queue *queue[MEMBERS];
    uint64_t key[2];    /* key of each node's region */
    uint64_t symmetric; /* key of the symmetric region; 0: none */
    uint8_t *region[2];
    struct fabemu_group *group[2];
    struct fabemu_req *req[REQUESTS];     /* requests of node 0 */
    uint8_t *buf[REQUESTS];               /* buffers of these requests */
    struct fabemu_req *arrival[ARRIVALS]; /* requests of messages in a buffer for several */
    bool several[REQUESTS];     /* the buffer is for several messages, whose requests use it, too */
    struct fabemu_event event;  /* of node 0 */
    struct fabemu_req valid[2]; /* requests of node 1: collectives, sends */
    uint8_t *collect_buf;
    uint64_t random;    /* state of the replacement of getrandom() */
    uint32_t transfers; /* number of operations whose id NAMED has tried */
} fixture;

ssize_t __wrap_getrandom(void *ret, size_t bytes, unsigned flags);

ssize_t __wrap_getrandom(void *ret, size_t bytes, unsigned flags)
{
    uint8_t *at = ret;

    (void)flags;
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)emu_splitmix(&fixture.random);
    return (ssize_t)bytes;
}

/* --- a segment ---------------------------------------------------------------------- */

static void put_at(struct emu_seg *seg, size_t at, const void *bytes, size_t count)
{
    memcpy(seg->payload + at, bytes, count);
}

/* Fill in values that the peer knows but random bytes would not match. */
static void fill_in(struct emu_seg *seg, uint8_t flags)
{
    const struct nic_peer *peer = nic_peer(fixture.fab[0], 1);
    uint32_t check = flags & OF_OURSELVES ? peer->tx_check : peer->rx_check;
    uint16_t low = (uint16_t)check;
    uint32_t id = 0;

    if (flags & CHECKED)
        put_at(seg, offsetof(struct nic_wire_head, check), &check, sizeof check);
    if (flags & CHECKED_16)
        put_at(seg, offsetof(struct nic_wire_data, check), &low, sizeof low);
    if ((flags & KEYED) && (flags & TO_GROUP))
        put_at(seg, offsetof(struct nic_wire_broadcast, key), &fixture.symmetric,
               sizeof fixture.symmetric);
    else if (flags & KEYED)
        put_at(seg, offsetof(struct nic_wire_mem, key), &fixture.key[0], sizeof fixture.key[0]);
    for (uint32_t i = 0; (flags & NAMED) && i < fixture.fab[0]->slot_count && !id; i++) {
        const struct nic_slot *slot =
            &fixture.fab[0]->slots[fixture.transfers++ % fixture.fab[0]->slot_count];
        id = slot->op ? slot->op->id : 0;
    }
    if (id)
        put_at(seg,
               flags & CHECKED_16 ? offsetof(struct nic_wire_data, id)
                                  : sizeof(struct nic_wire_head),
               &id, sizeof id);
}

static void do_segment(struct fuzz_input *in)
{
    struct emu_seg seg = {.hdr.kind = fuzz_u8(in)};
    const struct nic_peer *peer = nic_peer(fixture.fab[0], 1);
    int8_t seq = (int8_t)fuzz_u8(in);
    uint8_t flags = fuzz_u8(in);

    seg.hdr.op = fuzz_u8(in);
    seg.hdr.type = fuzz_u8(in);
    seg.hdr.src = !(flags & OF_OURSELVES);
    seg.hdr.dst = flags & TO_GROUP ? GROUP : !seg.hdr.src;
    seg.hdr.seq = flags & (TO_GROUP | CHECKED_16) ? (uint32_t)seq : peer->rx_next + (uint32_t)seq;
    seg.hdr.len = (uint8_t)(fuzz_u8(in) % (EMU_PAYLOAD_BYTES + 1));
    fuzz_bytes(in, seg.payload, seg.hdr.len);
    fill_in(&seg, flags);
    for (uint32_t i = 0; i < 8 && !fake_inject(fixture.fake, 0, &seg); i++)
        fabemu_progress(fixture.fab[0]);
}

/* --- the application ---------------------------------------------------------------- */

/* Return whether a message in a buffer for several messages is still arriving. */
static bool is_arriving(void)
{
    for (uint32_t i = 0; i < ARRIVALS; i++)
        if (fabemu_req_status(fixture.arrival[i]) == FABEMU_PENDING)
            return true;
    return false;
}

/* Return a request, with a buffer of @bytes; NULL if the request or its buffer is in use. */
static struct fabemu_req *request(struct fuzz_input *in, uint8_t **buf, size_t bytes)
{
    uint32_t which = fuzz_u8(in) % REQUESTS;

    if (fabemu_req_status(fixture.req[which]) == FABEMU_PENDING ||
        (fixture.several[which] && is_arriving()))
        return NULL;
    fixture.several[which] = false;
    free(fixture.buf[which]);
    *buf = fixture.buf[which] = calloc(1, bytes + 1);
    fuzz_must(*buf, "no memory");
    memset(fixture.req[which], 0, sizeof *fixture.req[which]);
    return fixture.req[which];
}

static void do_message(struct fuzz_input *in, enum command command)
{
    uint64_t tag = fuzz_u8(in);
    struct fabemu_iov iov = {.bytes = fuzz_u16(in)};
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, iov.bytes);
    struct fabemu_dest dest = {.node = 1, .queue = 1, .tag = tag};

    if (!req)
        return;
    iov.base = buf;
    dest.delivered = tag & 1;
    if (command == SEND)
        fabemu_send(fixture.queue[0], &dest, &iov, 1, req);
    else
        fabemu_recv(fixture.queue[0], tag & 64 ? 1 : FABEMU_ANY_NODE, tag,
                    tag & 128 ? UINT64_MAX : 0, &iov, 1, req);
}

static void do_memory(struct fuzz_input *in, enum command command)
{
    uint64_t offset = 16 * (uint64_t)fuzz_u8(in);
    size_t bytes = fuzz_u16(in);
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, bytes);

    if (req && command == PUT)
        fabemu_put(fixture.fab[0], 1, fixture.key[1], offset, buf, bytes, req);
    else if (req)
        fabemu_get(fixture.fab[0], 1, fixture.key[1], offset, buf, bytes, req);
}

static void do_atomic(struct fuzz_input *in)
{
    static const uint8_t operands[EMU_PAYLOAD_BYTES] = {1, [8] = 1, [16] = 1};
    struct fabemu_atomic atomic = {.node = 1, .key = fixture.key[1]};
    uint8_t *buf;

    atomic.op = fuzz_u8(in) % (FABEMU_ATOMIC_OPS + 1);
    atomic.type = fuzz_u8(in) % (FABEMU_U128 + 2);
    size_t count = fuzz_u8(in) % 32;
    struct fabemu_req *req = request(in, &buf, sizeof operands);

    atomic.operand = atomic.compare = operands;
    atomic.result = buf;
    if (req && count)
        fabemu_atomic_array(fixture.fab[0], &atomic, count, req);
    else if (req)
        fabemu_atomic(fixture.fab[0], &atomic, req);
}

static void do_notice(struct fuzz_input *in)
{
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, 0);

    if (req)
        fabemu_recv_notice(fixture.queue[0], req);
}

/* The queue at node 1 takes notices only if its process has received one before. */
static void do_notify(struct fuzz_input *in)
{
    const struct fabemu_notice notice = {.queue = 1, .src_queue = 1, .data = 7};
    uint64_t offset = 16 * (uint64_t)fuzz_u8(in);
    struct fabemu_iov iov = {.bytes = fuzz_u16(in)};
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, iov.bytes);

    iov.base = buf;
    if (req)
        fabemu_putv_notice(fixture.fab[0], 1, fixture.key[1], offset, &iov, 1, &notice, req);
}

/* Callback of the adapter: a message has matched a buffer for several. */
static struct fabemu_req *next_arrival(struct fabemu_req *req, void *at)
{
    (void)req, (void)at;
    for (uint32_t i = 0; i < ARRIVALS; i++)
        if (fabemu_req_status(fixture.arrival[i]) != FABEMU_PENDING)
            return memset(fixture.arrival[i], 0, sizeof *req);
    return NULL;
}

static void do_multi(struct fuzz_input *in)
{
    const struct fabemu_source any = {FABEMU_ANY_NODE, FABEMU_ANY_QUEUE};
    struct fabemu_multi multi = {.min_bytes = 8, .next = next_arrival};
    uint64_t tag = fuzz_u8(in);
    uint8_t *buf;

    multi.bytes = fuzz_u16(in) + 8;
    struct fabemu_req *req = request(in, &buf, multi.bytes);

    if (!req)
        return;
    for (uint32_t i = 0; i < REQUESTS; i++)
        if (fixture.req[i] == req)
            fixture.several[i] = true;
    multi.base = buf;
    fabemu_recv_multi(fixture.queue[0], any, tag, tag & 128 ? UINT64_MAX : 0, &multi, req);
}

static void do_count(struct fuzz_input *in)
{
    uint8_t what = fuzz_u8(in);
    struct fabemu_event *event = what & 8 ? NULL : &fixture.event;

    if (what & 4)
        fabemu_queue_event(fixture.queue[0], what & 3, event);
    else
        fabemu_register_event(fixture.fab[0], fixture.key[0], what & 3, event);
    if (what & 16)
        fabemu_event_change(&fixture.event, what >> 5 & 3, what >> 6);
}

static void do_arm(struct fuzz_input *in)
{
    uint64_t threshold = fuzz_u8(in);
    size_t bytes = fuzz_u16(in);
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, bytes);

    if (!req)
        return;
    req->after = &fixture.event;
    req->threshold = threshold % 64;
    req->after_failures = threshold & 64;
    req->event = threshold & 128 ? &fixture.event : NULL;
    req->targets_queue = true;
    req->target_queue = 1;
    fabemu_put(fixture.fab[0], 1, fixture.key[1], 0, buf, bytes, req);
}

static void region_register(uint32_t node)
{
    fuzz_must(!fabemu_register(fixture.fab[node], fixture.region[node], REGION_BYTES,
                               FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC,
                               &fixture.key[node]),
              "a process can register a region");
}

static void do_renew(struct fuzz_input *in)
{
    if (fuzz_u8(in) & 1) {
        fabemu_unregister(fixture.fab[0], fixture.key[0]);
        region_register(0);
    } else {
        fabemu_queue_close(fixture.queue[0]);
        fuzz_must(!fabemu_queue_open(fixture.fab[0], 1, &fixture.queue[0]),
                  "a closed queue can be opened");
    }
}

static void collect(uint32_t node, uint8_t what, uint8_t *buf, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_group *group = fixture.group[node];

    switch (what % 5) {
    case 0:
        fabemu_barrier(group, req);
        break;
    case 1:
        fabemu_broadcast(group, buf, bytes, what / 5 % MEMBERS, req);
        break;
    case 2:
        fabemu_reduce(group, buf, buf, bytes / 8, FABEMU_SUM, FABEMU_U64, what / 5 % MEMBERS, req);
        break;
    case 3:
        fabemu_allreduce(group, buf, buf, bytes / 8, FABEMU_SUM, FABEMU_U64, req);
        break;
    default:
        fabemu_broadcast_put(group, fixture.symmetric, 0, buf, bytes, req);
    }
}

/* The well-behaved adapter at node 1 also takes part if @what has the bit 128. */
static void do_collect(struct fuzz_input *in)
{
    uint8_t what = fuzz_u8(in);
    size_t bytes = fuzz_u16(in);
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, bytes);

    if (!req)
        return;
    collect(0, what & 127, buf, bytes, req);
    if (what < 128 || !fixture.group[1] || fabemu_req_status(&fixture.valid[0]) == FABEMU_PENDING)
        return;
    free(fixture.collect_buf);
    fixture.collect_buf = calloc(1, bytes + 1);
    fuzz_must(fixture.collect_buf, "no memory");
    memset(&fixture.valid[0], 0, sizeof fixture.valid[0]);
    collect(1, what & 127, fixture.collect_buf, bytes, &fixture.valid[0]);
}

static void do_words(struct fuzz_input *in)
{
    uint32_t word = fuzz_u8(in) % (FABEMU_WORDS + 1);
    uint8_t how = fuzz_u8(in);
    uint64_t value = fuzz_u8(in);
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, 0);

    if (req && how & 128)
        fabemu_group_set(fixture.group[0], word, value, req);
    else if (req)
        fabemu_group_test(fixture.group[0], word, value, how % 4, req);
}

static void do_give_up(struct fuzz_input *in)
{
    struct fabemu_req *req = fixture.req[fuzz_u8(in) % REQUESTS];

    if (fabemu_req_status(req) == FABEMU_PENDING)
        fabemu_cancel(fixture.queue[0], req);
}

static void do_answer(struct fuzz_input *in)
{
    static uint8_t bytes[UINT16_MAX];
    struct fabemu_dest dest = {.queue = 1, .tag = fuzz_u8(in)};
    struct fabemu_iov iov = {.base = bytes, .bytes = fuzz_u16(in)};

    if (fabemu_req_status(&fixture.valid[1]) == FABEMU_PENDING)
        return;
    memset(&fixture.valid[1], 0, sizeof fixture.valid[1]);
    fabemu_send(fixture.queue[1], &dest, &iov, 1, &fixture.valid[1]);
}

static void do_probe(struct fuzz_input *in)
{
    struct fabemu_message *claim = NULL;
    struct fabemu_req found = {0};
    uint64_t tag = fuzz_u8(in);
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, FABEMU_INJECT_BYTES);
    struct fabemu_iov iov = {.base = buf, .bytes = FABEMU_INJECT_BYTES};

    if (req && !fabemu_probe(fixture.queue[0], FABEMU_ANY_NODE, tag, tag & 128 ? UINT64_MAX : 0,
                             &claim, &found))
        fabemu_recv_claimed(fixture.queue[0], claim, &iov, tag & 1, req);
}

/* Replace the process at node 1. This breaks the group, and the new process is in no group. */
static void do_depart(void)
{
    if (fabemu_req_status(&fixture.valid[0]) == FABEMU_PENDING ||
        fabemu_req_status(&fixture.valid[1]) == FABEMU_PENDING)
        return; /* the application at node 1 still uses its buffers */
    fixture.fab[1] = fake_attach(fixture.fake, 1);
    fuzz_must(!fabemu_queue_open(fixture.fab[1], 1, &fixture.queue[1]), "a queue can be opened");
    fixture.group[1] = NULL;
}

/* Post records as the input has them, so that node 1 executes arbitrary ones. */
static void do_batch(struct fuzz_input *in)
{
    struct fabemu_iov iov = {.bytes = (fuzz_u8(in) % 64 + 1) * FABEMU_RECORD_UNIT};
    struct fabemu_iov result = {.bytes = fuzz_u8(in)};
    uint8_t *buf;
    struct fabemu_req *req = request(in, &buf, iov.bytes + result.bytes);

    if (!req)
        return;
    fuzz_bytes(in, buf, iov.bytes);
    iov.base = buf;
    result.base = buf + iov.bytes;
    fabemu_batchv(fixture.fab[0], 1, fixture.key[1], &iov, 1, result.bytes ? &result : NULL, req);
}

/* Commands about batches, notices, events and buffers for several messages. */
static void do_late_command(struct fuzz_input *in, enum command command)
{
    if (command == NOTICE)
        do_notice(in);
    else if (command == NOTIFY)
        do_notify(in);
    else if (command == MULTI)
        do_multi(in);
    else if (command == COUNT)
        do_count(in);
    else if (command == ARM)
        do_arm(in);
    else if (command == BATCH)
        do_batch(in);
    else
        do_renew(in);
}

static void do_command(struct fuzz_input *in)
{
    enum command command = fuzz_u8(in) % COMMANDS;

    if (command == SEGMENT)
        do_segment(in);
    else if (command == RECEIVE || command == SEND)
        do_message(in, command);
    else if (command == PUT || command == GET)
        do_memory(in, command);
    else if (command == ATOMIC)
        do_atomic(in);
    else if (command == COLLECT)
        do_collect(in);
    else if (command == WORDS)
        do_words(in);
    else if (command == GIVE_UP)
        do_give_up(in);
    else if (command == TIME)
        fuzz_now_ns += UINT64_C(1) << fuzz_u8(in) % 40;
    else if (command == ANSWER)
        do_answer(in);
    else if (command == PROBE)
        do_probe(in);
    else if (command == DEPART)
        do_depart();
    else if (command >= NOTICE)
        do_late_command(in, command);
    else
        for (uint32_t steps = 1 + fuzz_u8(in) % 16; steps; steps--)
            fake_pump(fixture.fake);
}

/* --- a run -------------------------------------------------------------------------- */

static void fixture_open(uint8_t how)
{
    static const uint32_t nodes[MEMBERS] = {0, 1};

    fixture = (struct fixture){0};
    fuzz_now_ns = 1000000000000u;
    fixture.fake = fake_open(MEMBERS, 1, how & 2);
    if (how & 1)
        fake_acknowledge(fixture.fake);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        fixture.fab[i] = fake_attach(fixture.fake, i);
        fuzz_must(!fabemu_queue_open(fixture.fab[i], 1, &fixture.queue[i]),
                  "a queue can be opened");
    }
    fake_group(fixture.fake, GROUP, nodes, MEMBERS);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        fixture.region[i] = calloc(1, REGION_BYTES);
        fuzz_must(fixture.region[i] &&
                      !fabemu_group_join(fixture.fab[i], GROUP, MEMBERS, &fixture.group[i]),
                  "a process can join a group");
        region_register(i);
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        fixture.req[i] = calloc(1, sizeof *fixture.req[i]);
        fuzz_must(fixture.req[i], "no memory");
    }
    for (uint32_t i = 0; i < ARRIVALS; i++) {
        fixture.arrival[i] = calloc(1, sizeof *fixture.arrival[i]);
        fuzz_must(fixture.arrival[i], "no memory");
    }
    fuzz_must(!fabemu_event_open_tolerant(fixture.fab[0], &fixture.event, NULL),
              "an event can be opened");
}

/* Connect the two processes by a message in each direction. */
static void fixture_connect(void)
{
    static struct fabemu_req none;
    struct fabemu_req req[MEMBERS] = {none, none};
    uint8_t byte[MEMBERS];

    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct fabemu_iov iov = {.base = &byte[i], .bytes = 1};
        fabemu_recv(fixture.queue[i], !i, 1, 0, &iov, 1, &req[i]);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct fabemu_dest dest = {.node = !i, .queue = 1, .tag = 1};
        while (fabemu_inject(fixture.queue[i], &dest, "x", 1) == -EAGAIN)
            fake_pump(fixture.fake);
    }
    fuzz_must(fake_finish(fixture.fake, req, MEMBERS), "two processes exchange messages");
    for (uint32_t i = 0; i < MEMBERS && fixture.fab[0]->info.acknowledged; i++)
        fuzz_must(!fabemu_register_symmetric(fixture.group[i], fixture.region[i], REGION_BYTES,
                                             FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE,
                                             &fixture.symmetric, &req[i]),
                  "a symmetric region can be registered");
    fuzz_must(fake_finish(fixture.fake, req, MEMBERS), "both processes have the symmetric region");
}

static void fixture_close(void)
{
    fake_close(fixture.fake);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        free(fixture.req[i]);
        free(fixture.buf[i]);
    }
    for (uint32_t i = 0; i < ARRIVALS; i++)
        free(fixture.arrival[i]);
    for (uint32_t i = 0; i < MEMBERS; i++)
        free(fixture.region[i]);
    free(fixture.collect_buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fuzz_input in = {.at = data, .left = bytes};

    fixture_open(fuzz_u8(&in));
    fixture_connect();
    while (in.left)
        do_command(&in);
    for (uint32_t i = 0; i < 100; i++)
        fake_pump(fixture.fake);
    fixture_close();
    return 0;
}
