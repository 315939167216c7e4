/* SPDX-License-Identifier: BSD-3-Clause */
/* trees_draw.c - see trees_draw.h. */
#include "tests/world/engine/trees_draw.h"

#include <string.h>

#include "emu/util/combine.h"
#include "tests/test.h"

uint64_t trees_draw(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = seed ^ a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu ^
                     c * 0x165667b19e3779f9u;

    return test_random(&state);
}

/* Any order of these gives the same bits, for the numbers that element() makes. */
static const struct {
    uint8_t op, type;
} arithmetic[] = {
    {EMU_SUM, EMU_I64},  {EMU_SUM, EMU_U8},         {EMU_MAX, EMU_I32},        {EMU_MIN, EMU_F64},
    {EMU_BXOR, EMU_U16}, {EMU_PROD, EMU_U32},       {EMU_SUM, EMU_F32},        {EMU_LAND, EMU_I16},
    {EMU_BOR, EMU_U64},  {EMU_MINLOC, EMU_I32_I32}, {EMU_MAXLOC, EMU_F32_I32}, {EMU_SUM, EMU_F64},
};
#define ARITHMETIC (sizeof arithmetic / sizeof arithmetic[0])

/* And of these not. */
static const struct {
    uint8_t op, type;
} rough_arithmetic[] = {
    {EMU_SUM, EMU_F32}, {EMU_SUM, EMU_F64}, {EMU_PROD, EMU_F64},
    {EMU_MIN, EMU_F32}, {EMU_MAX, EMU_F64},
};
#define ROUGH (sizeof rough_arithmetic / sizeof rough_arithmetic[0])

void trees_draw_reduction(const struct tree_stream *s, uint64_t number, struct tree_op *ret)
{
    uint32_t most;

    ret->op = arithmetic[number % ARITHMETIC].op;
    ret->type = arithmetic[number % ARITHMETIC].type;
    if (s->mix & MIX_ROUGH) {
        ret->op = rough_arithmetic[number % ROUGH].op;
        ret->type = rough_arithmetic[number % ROUGH].type;
    }
    most = EMU_PAYLOAD_BYTES / (uint32_t)emu_type_bytes(ret->type);
    number >>= 8;
    most = number % 3 == 0 ? most : number % 3 == 1 ? 1 : 1 + (uint32_t)(number >> 8) % most;
    ret->len = (uint8_t)(most * emu_type_bytes(ret->type));
}

void trees_draw_op(const struct tree_stream *s, uint64_t i, struct tree_op *ret)
{
    static const uint8_t kinds[] = {EMU_BARRIER, EMU_REDUCE, EMU_ALLREDUCE, EMU_MULTICAST};
    uint64_t number = trees_draw(s->seed, i, 1, 0);
    uint32_t pick = (uint32_t)(number % 4);

    while (!(s->mix >> pick & 1))
        pick = (pick + 1) % 4;
    *ret = (struct tree_op){.kind = kinds[pick], .root = s->node[(number >> 8) % s->members]};
    number = trees_draw(s->seed, i, 2, 0);
    if (ret->kind == EMU_REDUCE || ret->kind == EMU_ALLREDUCE)
        trees_draw_reduction(s, number, ret);
    if (ret->kind == EMU_MULTICAST) {
        ret->len = (uint8_t)(number % 3 ? number / 3 % (EMU_PAYLOAD_BYTES + 1) : EMU_PAYLOAD_BYTES);
        ret->told = number >> 32 & 1;
    }
}

static void element_float(uint64_t number, bool rough, float *value)
{
    static const float odd[] = {0.0f, -0.0f, 1e30f, -1e30f, 1e-30f, 0.1f, 3.3333333f, 1.0f};

    *value = rough ? odd[number % 8] : (float)(int)(number % 17) - 8.0f;
}

/* One number of a contribution. */
static void element(uint8_t type, uint64_t number, bool rough, uint8_t *to)
{
    struct {
        float value;
        int32_t index;
    } pair;
    struct {
        int32_t value, index;
    } ints;
    double wide;

    element_float(number, rough, &pair.value);
    pair.index = ints.index = (int32_t)(number >> 8 & 63);
    wide = rough && number % 5 == 0 ? 1e300 : (double)pair.value;
    ints.value = (int32_t)(number >> 16 & 7);
    switch (type) {
    case EMU_F32:
        memcpy(to, &pair.value, sizeof(float));
        break;
    case EMU_F64:
        memcpy(to, &wide, sizeof wide);
        break;
    case EMU_F32_I32:
        memcpy(to, &pair, sizeof pair);
        break;
    case EMU_I32_I32:
        memcpy(to, &ints, sizeof ints);
        break;
    default:
        memcpy(to, &number, emu_type_bytes(type));
        break;
    }
}

void trees_contribution(const struct tree_stream *s, uint64_t i, const struct tree_op *op,
                        uint32_t node, uint8_t *bytes)
{
    uint64_t number = trees_draw(s->seed, i, node, 3);
    uint32_t size;

    if (op->kind == EMU_MULTICAST)
        for (uint32_t b = 0; b < op->len; b++)
            bytes[b] = (uint8_t)(number + b * 31);
    if (op->kind != EMU_REDUCE && op->kind != EMU_ALLREDUCE)
        return;
    size = (uint32_t)emu_type_bytes(op->type);
    for (uint32_t at = 0; at < op->len; at += size) {
        number = (number ^ number >> 29) * 0xbf58476d1ce4e5b9u;
        element(op->type, number ^ number >> 32, s->mix & MIX_ROUGH, bytes + at);
    }
}

void trees_result(const struct tree_stream *s, uint64_t i, const struct tree_op *op, uint8_t *bytes)
{
    uint8_t in[EMU_PAYLOAD_BYTES];
    bool first = true;

    if (op->kind == EMU_MULTICAST)
        trees_contribution(s, i, op, op->root, bytes);
    if (op->kind != EMU_REDUCE && op->kind != EMU_ALLREDUCE)
        return;
    for (uint32_t m = 0; m < s->members; m++) {
        if (op->kind == EMU_REDUCE && s->node[m] == op->root)
            continue;
        trees_contribution(s, i, op, s->node[m], first ? bytes : in);
        if (!first)
            emu_combine_fold(op->op, op->type, bytes, in, op->len);
        first = false;
    }
}

uint32_t trees_contributions(const struct tree_stream *s, const struct tree_op *op)
{
    return op->kind == EMU_MULTICAST ? 1 : s->members - (op->kind == EMU_REDUCE);
}

bool trees_op_posts(const struct tree_op *op, uint32_t node)
{
    return op->kind == EMU_MULTICAST ? op->root == node
                                     : op->kind != EMU_REDUCE || op->root != node;
}

bool trees_op_awaits(const struct tree_op *op, uint32_t node)
{
    return op->kind == EMU_MULTICAST ? op->root != node
                                     : op->kind != EMU_REDUCE || op->root == node;
}

uint32_t trees_seq(const struct tree_stream *s, uint64_t i)
{
    return s->base + (uint32_t)(i / TREES_USABLE * (EMU_WINDOW / 2) + i % TREES_USABLE);
}
