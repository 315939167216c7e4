/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op.c - pending operations, and the table of their ids.
 *
 * An id consists of a table index (20 bits) and a generation (12 bits), which changes each time the
 * table entry is used again. So a late segment does not name the operation that uses the entry now.
 * Successive processes of a node start with different generations. A forged id can harm only
 * operations whose peer is the forger, because nic_op_find() accepts an id only from the
 * operation's peer. A sender cannot pretend to be another node, because the fabric writes the
 * source node into each segment.
 */
#include "nic/host/base/op.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/peer.h"

#define INDEX_BITS  20
#define INDEX_MASK  ((1u << INDEX_BITS) - 1)
#define GENERATIONS 0xfffu

const struct nic_op_traits *nic_op_traits(const struct nic_op *op)
{
    static const struct nic_op_traits traits[NIC_OP_KINDS] = {
        [NIC_OP_SEND] = {.sends = true, .succeeds = true, .fails = true, .message = true},
        [NIC_OP_RECV] = {.fails = true, .message = true}, /* fails if the sender cancels */
        [NIC_OP_PUT] =
            {.sends = true, .whole = true, .succeeds = true, .fails = true, .again = true},
        [NIC_OP_GET] = {.succeeds = true, .fails = true, .again = true},
        [NIC_OP_ATOMIC] = {.fails = true, .result = true},
        [NIC_OP_BATCH] = {.succeeds = true, .fails = true},
        [NIC_OP_SERVE_PUT] = {.fails = true, .serves = true},
        [NIC_OP_SERVE_GET] = {.serves = true},
    };

    return &traits[op->kind];
}

static int op_table_grow(struct fabemu *fab)
{
    uint32_t count = fab->slot_count ? fab->slot_count * 2 : 64;
    struct nic_slot *slots;

    if (count > NIC_OPS_MAX)
        return -ENOBUFS;
    slots = realloc(fab->slots, count * sizeof *slots);
    if (!slots)
        return -ENOBUFS;
    for (uint32_t i = count; i-- > fab->slot_count;) {
        slots[i] = (struct nic_slot){.next_free = fab->slot_free,
                                     .generation = (uint32_t)fab->incarnation & GENERATIONS};
        if (i) /* id 0 stands for no operation */
            fab->slot_free = i;
    }
    fab->slots = slots;
    fab->slot_count = count;
    return 0;
}

int nic_op_id(struct fabemu *fab, struct nic_op *op)
{
    assert(!op->id);
    if (!fab->slot_free && op_table_grow(fab))
        return -ENOBUFS;

    uint32_t index = fab->slot_free;
    struct nic_slot *slot = &fab->slots[index];

    fab->slot_free = slot->next_free;
    slot->op = op;
    op->id = slot->generation << INDEX_BITS | index;
    return 0;
}

struct nic_op *nic_op_find(struct fabemu *fab, uint32_t id, uint32_t node)
{
    uint32_t index = id & INDEX_MASK;
    struct nic_slot *slot = index < fab->slot_count ? &fab->slots[index] : NULL;

    if (!slot || !slot->op || slot->generation != id >> INDEX_BITS || slot->op->node != node) {
        fab->counts.stale++;
        return NULL;
    }
    return slot->op;
}

void nic_op_report(const struct fabemu *fab, const struct nic_op *op)
{
    const struct nic_watched *watched = (const struct nic_watched *)(const void *)(op + 1);
    const struct fabemu_req *req = op->post.req;

    if (__builtin_expect(!watched->began_ns, 1))
        return;
    if (op->kind == NIC_OP_RECV)
        nic_watched_report(fab, watched,
                           (struct emu_finished){.kind = EMU_FINISHED_RECEIVED,
                                                 .group = op->node,
                                                 .root = (uint32_t)req->src_incarnation,
                                                 .bytes = req->bytes});
    else
        nic_watched_report(fab, watched,
                           (struct emu_finished){.kind = EMU_FINISHED_SENT,
                                                 .group = op->node,
                                                 .root = (uint32_t)fab->peers[op->node].incarnation,
                                                 .bytes = op->bytes});
}

void nic_op_end(struct fabemu *fab, struct nic_op *op, int status)
{
    if (status == -EHOSTUNREACH && op->post.req) {
        nic_peer_count_break(fab, op->node);
        nic_peer_report(fab, op->node);
    }
    emu_list_del(&op->post.link);
    if (!status && nic_op_traits(op)->message)
        nic_op_report(fab, op);
    if (op->id) {
        struct nic_slot *slot = &fab->slots[op->id & INDEX_MASK];

        slot->op = NULL;
        slot->generation = (slot->generation + 1) & GENERATIONS;
        slot->next_free = fab->slot_free;
        fab->slot_free = op->id & INDEX_MASK;
        op->id = 0;
    }
    if (op->state == NIC_OP_STREAM)
        emu_hostif_nic_streamed(&fab->hostif);
    op->state = NIC_OP_IDLE;
    if (op->post.req) {
        nic_complete(fab, op->post.req, status);
    } else {
        fab->served--;
        free(nic_serve_of(op)->result);
        nic_serve_of(op)->result = NULL;
        emu_list_add(&fab->serving, &op->post.link);
    }
}

struct nic_op *nic_op_new(struct fabemu_req *req, enum nic_op_kind kind, uint32_t node,
                          int (*begin)(struct fabemu *fab, struct nic_post *post))
{
    struct nic_op *op = nic_op_of(req);

    memset(req->opaque, 0, sizeof req->opaque);
    op->post.req = req;
    op->post.begin = begin;
    op->kind = (uint8_t)kind;
    op->state = NIC_OP_ARMED;
    op->node = node;
    op->incarnation = req->incarnation;
    op->named = req->incarnation != 0;
    return op;
}

struct emu_call nic_op_call(const struct nic_op *op)
{
    static const enum emu_call_kind kinds[NIC_OP_KINDS] = {
        [NIC_OP_SEND] = EMU_CALL_SEND,
        [NIC_OP_RECV] = EMU_CALL_RECEIVE,
        [NIC_OP_PUT] = EMU_CALL_PUT,
        [NIC_OP_GET] = EMU_CALL_GET,
        [NIC_OP_ATOMIC] = EMU_CALL_ATOMIC,
        [NIC_OP_BATCH] = EMU_CALL_BATCH,
        [NIC_OP_WHEN] = EMU_CALL_EVENT,
        [NIC_OP_NOTICE] = EMU_CALL_NOTICE,
        [NIC_OP_SET] = EMU_CALL_SET,
        [NIC_OP_TEST] = EMU_CALL_TEST,
        [NIC_OP_BROADCAST] = EMU_CALL_BROADCAST_PUT,
    };

    static_assert(FABEMU_ANY_NODE == EMU_CALL_NO_NODE, "same value");
    return (struct emu_call){.kind = kinds[op->kind], .node = op->node, .bytes = op->bytes};
}

int nic_op_post(struct fabemu *fab, struct nic_op *op)
{
    const struct emu_call call = nic_op_call(op);

    return nic_post(fab, &op->post, &call);
}

struct nic_serve *nic_op_serve(struct fabemu *fab, uint8_t kind, uint32_t node)
{
    struct nic_serve *serve;

    if (fab->served >= NIC_SERVED_MAX)
        return NULL;
    if (!emu_list_empty(&fab->serving)) {
        serve = emu_list_entry(fab->serving.next, struct nic_serve, op.post.link);
        emu_list_del(&serve->op.post.link);
    } else {
        serve = malloc(sizeof *serve);
        if (!serve)
            return NULL;
    }
    memset(serve, 0, sizeof *serve);
    serve->op.kind = kind;
    serve->op.node = node;
    fab->served++;
    if (nic_op_id(fab, &serve->op)) {
        nic_op_end(fab, &serve->op, 0);
        return NULL;
    }
    return serve;
}

bool nic_op_any(const struct fabemu *fab, uint32_t node, bool (*is)(const struct nic_op *op))
{
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        const struct nic_op *op = fab->slots[i].op;

        if (op && op->node == node && is(op))
            return true;
    }
    return false;
}

void nic_op_fail_all(struct fabemu *fab, uint32_t node, int status)
{
    for (uint32_t i = 1; i < fab->slot_count; i++) {
        struct nic_op *op = fab->slots[i].op;

        if (op &&
            /* skip an operation that is just being started: its begin() returns the error */
            op->state != NIC_OP_ARMED && (node == FABEMU_ANY_NODE || op->node == node))
            nic_op_end(fab, op, status);
    }
}

/* --- the pieces of memory of an operation ------------------------------------------- */

int nic_buffer_check(const void *base, size_t bytes)
{
    return !base && bytes ? nic_fail(-EFAULT, "a buffer of %zu bytes has address 0", bytes) : 0;
}

int nic_iov_check(const struct fabemu_iov *iov, unsigned iovs)
{
    uint64_t sum = 0;
    int err = iovs > NIC_IOVS
                  ? nic_fail(-EINVAL, "an operation has at most %d pieces of memory", NIC_IOVS)
                  : 0;

    for (unsigned i = 0; i < iovs && !err; i++) {
        err = nic_buffer_check(iov[i].base, iov[i].bytes);
        if (!err && __builtin_add_overflow(sum, iov[i].bytes, &sum))
            err = nic_fail(-EMSGSIZE, "the pieces are larger than the address space");
    }
    return err;
}

int nic_transfer_check(uint64_t bytes)
{
    return bytes > NIC_TRANSFER_MAX ? nic_fail(-EMSGSIZE, "a transfer has at most %llu bytes",
                                               (unsigned long long)NIC_TRANSFER_MAX)
                                    : 0;
}

void nic_op_iov(struct nic_op *op, const struct fabemu_iov *iov, unsigned iovs)
{
    op->iovs = (uint8_t)iovs;
    op->iov_at = 0;
    op->iov_off = 0;
    op->moved = 0;
    op->bytes = 0;
    for (unsigned i = 0; i < iovs; i++) {
        op->iov[i] = iov[i];
        op->bytes += iov[i].bytes;
    }
}

void nic_op_write(const struct nic_op *op, uint64_t offset, const void *src, size_t bytes)
{
    const uint8_t *from = src;

    for (unsigned i = 0; i < op->iovs && bytes; i++) {
        uint64_t room = op->iov[i].bytes;

        if (offset >= room) {
            offset -= room;
            continue;
        }
        room -= offset;
        size_t n = bytes < room ? bytes : (size_t)room;

        emu_copy((uint8_t *)op->iov[i].base + offset, from, n);
        from += n;
        bytes -= n;
        offset = 0;
    }
}

void nic_op_read(struct nic_op *op, void *dst, size_t bytes)
{
    uint8_t *to = dst;

    while (bytes && op->iov_at < op->iovs) {
        const struct fabemu_iov *iov = &op->iov[op->iov_at];
        uint64_t left = iov->bytes - op->iov_off;
        size_t n = bytes < left ? bytes : (size_t)left;

        if (n)
            emu_copy(to, (const uint8_t *)iov->base + op->iov_off, n);
        to += n;
        bytes -= n;
        op->iov_off += n;
        if (op->iov_off == iov->bytes) {
            op->iov_at++;
            op->iov_off = 0;
        }
    }
}

void fabemu_req_why(const struct fabemu *fab, const struct fabemu_req *req, char *text,
                    size_t bytes)
{
    const struct nic_op *op = (const struct nic_op *)(const void *)req->opaque;
    int status = fabemu_req_status(req);

    if (status == -EPIPE) {
        snprintf(text, bytes, "%s", ((const struct nic_failure *)(const void *)req->opaque)->why);
        return;
    }
    if (status != -EHOSTUNREACH || op->node >= fab->info.nodes) {
        snprintf(text, bytes, "%s", strerror(-status));
        return;
    }
    uint64_t word = emu_hostif_nic_incarnation(&fab->hostif, op->node);

    if (!emu_incarnation_attached(word))
        snprintf(text, bytes, "nobody is attached to node %u (any more)", op->node);
    else if (op->incarnation && op->incarnation != emu_incarnation_first(word))
        snprintf(text, bytes, "the process of node %u has left or died", op->node);
    else
        nic_peer_why(fab, op->node, text, bytes);
}

bool fabemu_drop_why(struct fabemu *fab, uint32_t node, char *text, size_t bytes)
{
    const char *lost;

    if (nic_is_defunct(fab))
        return false;
    nic_lock(fab);
    lost = node < fab->info.nodes &&
                   nic_incarnation_is_last(fab, node, fab->peers[node].drop_incarnation)
               ? fab->peers[node].lost
               : NULL;
    if (lost)
        snprintf(text, bytes, "%s", lost);
    nic_unlock(fab);
    return lost;
}

bool fabemu_node_why(const struct fabemu *fab, uint32_t node, char *text, size_t bytes)
{
    uint64_t word = node < fab->info.nodes ? emu_hostif_nic_incarnation(&fab->hostif, node) : 0;
    bool partitioned = node < fab->info.nodes && fab->peers[node].broke == NIC_BROKE_PARTITIONED;

    if (word & EMU_INCARNATION_NO_LINK)
        snprintf(text, bytes, "node %u has no link in use", node);
    else if (!emu_incarnation_attached(word))
        snprintf(text, bytes, "nobody is attached to node %u (any more)", node);
    else if (partitioned)
        nic_peer_why(fab, node, text, bytes);
    return word & EMU_INCARNATION_NO_LINK || !emu_incarnation_attached(word) || partitioned;
}
