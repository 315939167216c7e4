/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer.c - the calls for puts, gets and atomics */
#include "nic/fabemu.h"

#include <errno.h>
#include <string.h>

#include "emu/util/combine.h"
#include "nic/host/base/base.h"
#include "nic/host/base/lock.h"
#include "nic/host/base/op.h"
#include "nic/host/peer/failure.h"
#include "nic/host/rx/atomic.h"
#include "nic/host/tx/request.h"

static int memory_begin(struct fabemu *fab, struct nic_post *post)
{
    struct nic_op *op = nic_op_of(post->req);
    int err = op->kind == NIC_OP_BATCH && post->req->unconfirmed ? 0 : nic_op_id(fab, op);

    if (!err)
        nic_peer_request(fab, nic_peer(fab, op->node), op);
    return err;
}

static int memory_check(struct fabemu *fab, uint32_t node, const struct fabemu_req *req)
{
    int err = nic_node_check(fab, node);

    return err ? err : nic_event_check(fab, req);
}

static struct nic_op *memory_op(enum nic_op_kind kind, uint32_t node, uint64_t key, uint64_t offset,
                                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    struct nic_op *op = nic_op_new(req, kind, node, memory_begin);

    nic_access_of(op)->key = key;
    nic_access_of(op)->offset = offset;
    nic_op_iov(op, iov, iovs);
    return op;
}

/* Check and prepare a put, a get or a batch, which nic_op_post() then starts. */
static int transfer_prepare(struct fabemu *fab, enum nic_op_kind kind, uint32_t node, uint64_t key,
                            uint64_t offset, const struct fabemu_iov *iov, unsigned iovs,
                            struct fabemu_req *req, struct nic_op **ret)
{
    int err = memory_check(fab, node, req);

    if (!err)
        err = nic_iov_check(iov, iovs);
    if (err)
        return err;
    *ret = memory_op(kind, node, key, offset, iov, iovs, req);
    return nic_transfer_check((*ret)->bytes);
}

/* Post a put or get. @notice: the notice of a put, or NULL. */
static int transfer_post(struct fabemu *fab, enum nic_op_kind kind, uint32_t node, uint64_t key,
                         uint64_t offset, const struct fabemu_iov *iov, unsigned iovs,
                         const struct fabemu_notice *notice, struct fabemu_req *req)
{
    struct nic_op *op;
    int err = transfer_prepare(fab, kind, node, key, offset, iov, iovs, req, &op);

    if (err)
        return err;
    if (notice) {
        nic_put_of(op)->has_notice = true;
        nic_put_of(op)->notice = *notice;
    }
    return nic_op_post(fab, op);
}

int fabemu_putv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    return transfer_post(fab, NIC_OP_PUT, node, key, offset, iov, iovs, NULL, req);
}

int fabemu_putv_notice(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                       const struct fabemu_iov *iov, unsigned iovs,
                       const struct fabemu_notice *notice, struct fabemu_req *req)
{
    return transfer_post(fab, NIC_OP_PUT, node, key, offset, iov, iovs, notice, req);
}

int fabemu_getv(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset,
                const struct fabemu_iov *iov, unsigned iovs, struct fabemu_req *req)
{
    return transfer_post(fab, NIC_OP_GET, node, key, offset, iov, iovs, NULL, req);
}

static int batch_check(uint64_t fetched, const struct fabemu_req *req)
{
    if (fetched > FABEMU_BATCH_RESULT || (fetched && req->unconfirmed))
        return nic_fail(-EINVAL, "a batch returns at most %u bytes, and none if it is unconfirmed",
                        FABEMU_BATCH_RESULT);
    return 0;
}

int fabemu_batchv(struct fabemu *fab, uint32_t node, uint64_t key, const struct fabemu_iov *iov,
                  unsigned iovs, const struct fabemu_iov *result, struct fabemu_req *req)
{
    uint64_t fetched = result ? result->bytes : 0;
    struct nic_op *op;
    int err = transfer_prepare(fab, NIC_OP_BATCH, node, key, fetched, iov, iovs, req, &op);

    if (!err && result)
        err = nic_buffer_check(result->base, fetched);
    if (!err)
        err = batch_check(fetched, req);
    if (err)
        return err;
    nic_batch_of(op)->result = result ? result->base : NULL;
    if (!op->bytes || op->bytes % FABEMU_RECORD_UNIT)
        return nic_fail(-EINVAL,
                        "a batch has %llu bytes, but must consist of one or more units of %u bytes",
                        (unsigned long long)op->bytes, FABEMU_RECORD_UNIT);
    return nic_op_post(fab, op);
}

int fabemu_put(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset, const void *src,
               size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = (void *)(uintptr_t)src, .bytes = bytes};

    return fabemu_putv(fab, node, key, offset, &local, 1, req);
}

int fabemu_get(struct fabemu *fab, uint32_t node, uint64_t key, uint64_t offset, void *dst,
               size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov local = {.base = dst, .bytes = bytes};

    return fabemu_getv(fab, node, key, offset, &local, 1, req);
}

#define ARRAY_MOST (1u << 30) /* bytes of the longest array without a result */

static int atomic_check(const struct fabemu_atomic *what, size_t count)
{
    size_t most = fabemu_atomic_most(what->op, what->type);
    unsigned operands = nic_atomic_operands(what->op);

    if (!most)
        return nic_fail(-EINVAL, "atomic operation %u does not apply to type %u", what->op,
                        what->type);
    if ((operands > 0 && !what->operand) || (operands > 1 && !what->compare))
        return nic_fail(-EINVAL, "atomic operation %u needs an operand", what->op);
    if (operands < 2)
        most = (what->result ? FABEMU_BATCH_RESULT : ARRAY_MOST) / emu_type_bytes(what->type);
    if (!count || count > most)
        return nic_fail(count ? -EMSGSIZE : -EINVAL, "an atomic has 1 to %zu elements, not %zu",
                        most, count);
    return 0;
}

/* Check the arguments, and make an operation that is not posted. */
static int atomic_new(struct fabemu *fab, const struct fabemu_atomic *what, size_t count,
                      struct fabemu_req *req, struct nic_atomic_access **ret)
{
    struct fabemu_iov local = {.base = what->result};
    int err = memory_check(fab, what->node, req);
    unsigned operands = nic_atomic_operands(what->op);
    struct nic_atomic_access *at;

    if (!err)
        err = atomic_check(what, count);
    if (err)
        return err;
    local.bytes = count * emu_type_bytes(what->type);
    at = nic_atomic_of(
        memory_op(NIC_OP_ATOMIC, what->node, what->key, what->offset, &local, 1, req));
    at->what = (uint8_t)what->op;
    at->type = (uint8_t)what->type;
    at->operand = operands > 0 ? what->operand : NULL;
    at->compare = operands > 1 ? what->compare : NULL;
    *ret = at;
    return 0;
}

/* Copy one operand, so that the caller may change it. Returns NULL if there is none. */
static const void *atomic_copy(uint64_t *copy, const void *operand, uint64_t bytes)
{
    return operand ? memcpy(copy, operand, bytes) : NULL;
}

int fabemu_atomic(struct fabemu *fab, const struct fabemu_atomic *what, struct fabemu_req *req)
{
    struct nic_atomic_access *at;
    uint64_t bytes = emu_type_bytes(what->type);
    int err;

    if (bytes > sizeof at->copy[0])
        return nic_fail(-EINVAL, "type %u has more than 8 bytes: use fabemu_atomic_array()",
                        what->type);
    err = atomic_new(fab, what, 1, req, &at);
    if (err)
        return err;
    if (!req->after) { /* an armed operation reads its operands when it starts */
        at->operand = atomic_copy(&at->copy[0], at->operand, bytes);
        at->compare = atomic_copy(&at->copy[1], at->compare, bytes);
    }
    return nic_op_post(fab, &at->access.op);
}

/*
 * Post an array of more than one segment as a batch with one record. The data begin at byte 32 of
 * the batch, a multiple of the size of every element.
 */
static int atomic_batch(struct fabemu *fab, const struct fabemu_atomic *what, size_t count,
                        struct fabemu_req *req)
{
    static const uint8_t zeros[FABEMU_RECORD_UNIT];
    uint64_t bytes = count * emu_type_bytes(what->type);
    bool sends = nic_atomic_operands(what->op);
    struct nic_batch_access *batch = nic_batch_of(nic_op_of(req));
    const struct fabemu_iov list[] = {{&batch->record, sizeof batch->record + sizeof batch->stride},
                                      {(void *)(uintptr_t)what->operand, sends ? bytes : 0},
                                      {(void *)(uintptr_t)zeros,
                                       sends ? -bytes % FABEMU_RECORD_UNIT : 0}};
    int err = batch_check(what->result ? bytes : 0, req);

    if (err)
        return err;
    memory_op(NIC_OP_BATCH, what->node, what->key, what->result ? bytes : 0, list, 3, req);
    batch->result = what->result;
    batch->record = (struct fabemu_record){.offset = what->offset,
                                           .bytes = (uint32_t)bytes,
                                           .op = (uint8_t)what->op,
                                           .type = (uint8_t)what->type,
                                           .strided = 1};
    batch->stride.block = bytes;
    return nic_op_post(fab, &batch->access.op);
}

int fabemu_atomic_array(struct fabemu *fab, const struct fabemu_atomic *what, size_t count,
                        struct fabemu_req *req)
{
    struct nic_atomic_access *at;
    int err = atomic_new(fab, what, count, req, &at);

    if (!err && count > fabemu_atomic_most(what->op, what->type))
        return atomic_batch(fab, what, count, req);
    return err ? err : nic_op_post(fab, &at->access.op);
}
