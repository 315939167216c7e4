/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_atomic_test.c - libfabric's atomics: every operation on every type, arrays, arrays in pieces,
 * refused calls. nic_atomic_model_test.c compares the arithmetic of adapters with a model.
 */
#include <complex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define CALL_BYTES 4096u /* of the elements of one call, at most */

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

enum call { BASE, FETCH, COMPARE, CALLS };

static const uint64_t query_flags[CALLS] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};

static struct ofi_fixture open_fixture(void)
{
    return ofi_fixture_open_with(
        &(struct ofi_fixture_config){.caps = FI_ATOMIC | FI_TAGGED, .format = FI_CQ_FORMAT_TAGGED});
}

static int valid(struct ofi_fixture *fixture, enum call call, int type, int op, size_t *count)
{
    return call == BASE    ? fi_atomicvalid(fixture->a.ep, type, op, count)
           : call == FETCH ? fi_fetch_atomicvalid(fixture->a.ep, type, op, count)
                           : fi_compare_atomicvalid(fixture->a.ep, type, op, count);
}

/* Arguments of a call on elements that are next to each other. */
struct args {
    enum call call;
    int type, op;
    const void *operand, *compare;
    void *result;
    size_t count;
    uint64_t offset, key;
};

static ssize_t start(struct ofi_fixture *fixture, const struct args *c)
{
    struct fid_ep *ep = fixture->a.ep;
    fi_addr_t dest = fixture->b.addr;

    if (c->call == BASE)
        return fi_atomic(ep, c->operand, c->count, NULL, dest, c->offset, c->key, c->type, c->op,
                         fixture);
    if (c->call == FETCH)
        return fi_fetch_atomic(ep, c->operand, c->count, NULL, c->result, NULL, dest, c->offset,
                               c->key, c->type, c->op, fixture);
    return fi_compare_atomic(ep, c->operand, c->count, NULL, c->compare, NULL, c->result, NULL,
                             dest, c->offset, c->key, c->type, c->op, fixture);
}

static void finish(struct ofi_fixture *fixture, enum call call)
{
    struct fi_cq_tagged_entry entry = ofi_fixture_entry(&fixture->a);

    CU_ASSERT_EQUAL(entry.flags, FI_ATOMIC | (call == BASE ? FI_WRITE : FI_READ));
    CU_ASSERT_PTR_EQUAL(entry.op_context, fixture);
}

/* --- operations --------------------------------------------------------------------- */

/* The calls support exactly what fi_atomicvalid() and its siblings report, on every type. */
static void atomic__agrees_with_the_queries(void)
{
    static _Alignas(32) unsigned char word[32], operand[32], compare[32], result[32];
    struct ofi_fixture fixture = open_fixture();
    struct fid_mr *mr = ofi_fixture_window(&fixture, word, sizeof word);
    unsigned can = 0;

    for (int i = 0; i < (FI_UINT128 + 2) * (FI_MSWAP + 2) * CALLS; i++) {
        struct args args = {.call = i % CALLS,
                            .type = i / CALLS % (FI_UINT128 + 2),
                            .op = i / CALLS / (FI_UINT128 + 2),
                            .operand = operand,
                            .compare = compare,
                            .result = result,
                            .count = 1,
                            .key = fi_mr_key(mr)};
        struct fi_atomic_attr attr = {0};
        size_t count = 0;
        int is_valid = valid(&fixture, args.call, args.type, args.op, &count);

        CU_ASSERT_EQUAL(fi_query_atomic(fixture.domain, args.type, args.op, &attr,
                                        query_flags[args.call]),
                        is_valid);
        CU_ASSERT_EQUAL(start(&fixture, &args), is_valid);
        if (is_valid) {
            CU_ASSERT_EQUAL(is_valid, -FI_EOPNOTSUPP);
            continue;
        }
        CU_ASSERT(count == attr.count && count * attr.size == CALL_BYTES);
        can++;
        finish(&fixture, args.call);
    }
    /* integers, floating-point numbers, complex numbers */
    CU_ASSERT_EQUAL(can, 10 * (11 + 12 + 7) + 3 * (8 + 9 + 6) + 3 * (6 + 7 + 2));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* Each operation on the word 6, or another, as fi_atomic(3) defines it. */
static const struct {
    int op;
    int word, operand, compare, after;
} examples[] = {
    {FI_MIN, 6, 3, 0, 3},         {FI_MIN, 3, 6, 0, 3},          {FI_MAX, 6, 3, 0, 6},
    {FI_MAX, 3, 6, 0, 6},         {FI_SUM, 6, 3, 0, 9},          {FI_PROD, 6, 3, 0, 18},
    {FI_LOR, 6, 0, 0, 1},         {FI_LOR, 0, 0, 0, 0},          {FI_LAND, 6, 3, 0, 1},
    {FI_LAND, 6, 0, 0, 0},        {FI_LXOR, 6, 3, 0, 0},         {FI_LXOR, 6, 0, 0, 1},
    {FI_BOR, 6, 3, 0, 7},         {FI_BAND, 6, 3, 0, 2},         {FI_BXOR, 6, 3, 0, 5},
    {FI_ATOMIC_READ, 6, 3, 0, 6}, {FI_ATOMIC_WRITE, 6, 3, 0, 3}, {FI_CSWAP, 6, 3, 6, 3},
    {FI_CSWAP, 6, 3, 5, 6},       {FI_CSWAP_NE, 6, 3, 5, 3},     {FI_CSWAP_NE, 6, 3, 6, 6},
    {FI_CSWAP_LE, 6, 3, 6, 3},    {FI_CSWAP_LE, 6, 3, 5, 3},     {FI_CSWAP_LE, 6, 3, 7, 6},
    {FI_CSWAP_LT, 6, 3, 5, 3},    {FI_CSWAP_LT, 6, 3, 6, 6},     {FI_CSWAP_GE, 6, 3, 6, 3},
    {FI_CSWAP_GE, 6, 3, 7, 3},    {FI_CSWAP_GE, 6, 3, 5, 6},     {FI_CSWAP_GT, 6, 3, 7, 3},
    {FI_CSWAP_GT, 6, 3, 6, 6},    {FI_MSWAP, 6, 3, 1, 7},
};

/* Elements of each type with this value. */
#define VALUE(FI, T)              \
    case FI: {                    \
        T v = (T)value;           \
        memcpy(to, &v, sizeof v); \
        break;                    \
    }
static void value_put(int type, void *to, int value)
{
    switch (type) {
        VALUE(FI_INT8, int8_t)
        VALUE(FI_UINT8, uint8_t)
        VALUE(FI_INT16, int16_t)
        VALUE(FI_UINT16, uint16_t)
        VALUE(FI_INT32, int32_t)
        VALUE(FI_UINT32, uint32_t)
        VALUE(FI_INT64, int64_t)
        VALUE(FI_UINT64, uint64_t)
        VALUE(FI_FLOAT, float)
        VALUE(FI_DOUBLE, double)
        VALUE(FI_FLOAT_COMPLEX, float complex)
        VALUE(FI_DOUBLE_COMPLEX, double complex)
        VALUE(FI_LONG_DOUBLE, long double)
        VALUE(FI_LONG_DOUBLE_COMPLEX, long double complex)
        VALUE(FI_INT128, int128)
        VALUE(FI_UINT128, uint128)
    default:
        abort();
    }
}

/* Bytes that carry the value of a small number: a long double has unused ones. */
static size_t value_bytes(int type, size_t bytes)
{
    return type == FI_LONG_DOUBLE || type == FI_LONG_DOUBLE_COMPLEX ? 10 : bytes;
}

static void atomic__does_what_libfabric_defines(void)
{
    static _Alignas(32) unsigned char word[32], operand[32], compare[32], result[32], want[32];
    struct ofi_fixture fixture = open_fixture();
    struct fid_mr *mr = ofi_fixture_window(&fixture, word, sizeof word);

    for (int type = 0; type <= FI_UINT128; type++)
        for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
            struct args args = {.call = examples[i].op >= FI_CSWAP ? COMPARE : FETCH,
                                .type = type,
                                .op = examples[i].op,
                                .operand = operand,
                                .compare = compare,
                                .result = result,
                                .count = 1,
                                .key = fi_mr_key(mr)};
            size_t count;

            if (valid(&fixture, args.call, type, args.op, &count))
                continue;
            size_t bytes = value_bytes(type, CALL_BYTES / count);

            value_put(type, word, examples[i].word);
            value_put(type, operand, examples[i].operand);
            value_put(type, compare, examples[i].compare);
            CU_ASSERT_EQUAL(start(&fixture, &args), 0);
            finish(&fixture, args.call);
            value_put(type, want, examples[i].after);
            CU_ASSERT(!memcmp(word, want, bytes));
            value_put(type, want, examples[i].word);
            CU_ASSERT(!memcmp(result, want, bytes));
        }
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- arrays ------------------------------------------------------------------------- */

/* Cut @count elements into 1 to 4 pieces, some of them empty. Returns the number of pieces. */
static size_t cut(uint64_t *random, size_t count, size_t sizes[4])
{
    size_t pieces = 1 + test_random(random) % 4, left = count;

    for (size_t i = 0; i < pieces; i++) {
        sizes[i] = i + 1 < pieces ? test_random(random) % (left + 1) : left;
        left -= sizes[i];
    }
    return pieces;
}

static size_t cut_local(uint64_t *random, unsigned char *at, size_t bytes, size_t count,
                        struct fi_ioc to[4])
{
    size_t sizes[4], pieces = cut(random, count, sizes);

    for (size_t i = 0; i < pieces; at += sizes[i++] * bytes)
        to[i] = (struct fi_ioc){at, sizes[i]};
    return pieces;
}

struct arrays {
    _Alignas(64) unsigned char memory[CALL_BYTES], operand[CALL_BYTES], compare[CALL_BYTES];
    unsigned char result[CALL_BYTES];
};

static void arrays_draw(struct arrays *a, int type, size_t bytes, size_t count, uint64_t *random)
{
    memset(a, 0, sizeof *a);
    for (size_t i = 0; i < count; i++) {
        value_put(type, a->memory + i * bytes, (int)(test_random(random) % 3));
        value_put(type, a->operand + i * bytes, (int)(test_random(random) % 3));
        value_put(type, a->compare + i * bytes, (int)(test_random(random) % 3));
    }
}

/* Execute one call whose arrays are in pieces. Overwrite its operands as soon as it returns. */
static void call_in_pieces(struct ofi_fixture *fixture, const struct args *args,
                           struct arrays *arrays, size_t bytes, uint64_t *random)
{
    struct fi_ioc operand[4], compare[4], result[4];
    struct fi_rma_ioc remote[4];
    size_t sizes[4], at = 0;
    struct fi_msg_atomic msg = {.msg_iov = operand,
                                .addr = fixture->b.addr,
                                .rma_iov = remote,
                                .datatype = args->type,
                                .op = args->op,
                                .context = fixture};
    ssize_t err;

    msg.iov_count = cut_local(random, arrays->operand, bytes, args->count, operand);
    size_t compares = cut_local(random, arrays->compare, bytes, args->count, compare);
    size_t results = cut_local(random, arrays->result, bytes, args->count, result);

    msg.rma_iov_count = cut(random, args->count, sizes);
    for (size_t i = 0; i < msg.rma_iov_count; at += sizes[i++])
        remote[i] = (struct fi_rma_ioc){at * bytes, sizes[i], args->key};
    if (args->op == FI_ATOMIC_READ)
        msg.iov_count = 0;
    err = args->call == BASE ? fi_atomicmsg(fixture->a.ep, &msg, FI_INJECT | FI_COMPLETION)
          : args->call == FETCH
              ? fi_fetch_atomicmsg(fixture->a.ep, &msg, result, NULL, results,
                                   FI_INJECT | FI_COMPLETION)
              : fi_compare_atomicmsg(fixture->a.ep, &msg, compare, NULL, compares, result, NULL,
                                     results, FI_INJECT | FI_COMPLETION);
    CU_ASSERT_EQUAL(err, 0);
    memset(arrays->operand, 0x55, sizeof arrays->operand);
    memset(arrays->compare, 0x55, sizeof arrays->compare);
    finish(fixture, args->call);
}

/* Compare one call on an array with calls on each of its elements, at the same places. */
static void array_agrees(struct ofi_fixture *fixture, struct args args, size_t bytes,
                         uint64_t *random)
{
    static struct arrays whole, one;
    struct fid_mr *mr[2] = {ofi_fixture_window(fixture, whole.memory, CALL_BYTES),
                            ofi_fixture_window(fixture, one.memory, CALL_BYTES)};
    size_t count = args.count;

    arrays_draw(&whole, args.type, bytes, count, random);
    one = whole;
    args.key = fi_mr_key(mr[0]);
    call_in_pieces(fixture, &args, &whole, bytes, random);
    args.key = fi_mr_key(mr[1]);
    args.count = 1;
    for (size_t at = 0; at < count * bytes; at += bytes) {
        args.offset = at;
        args.operand = one.operand + at;
        args.compare = one.compare + at;
        args.result = one.result + at;
        CU_ASSERT_EQUAL(start(fixture, &args), 0);
        finish(fixture, args.call);
    }
    for (size_t at = 0; at < CALL_BYTES; at += bytes) {
        size_t used = value_bytes(args.type, bytes);

        CU_ASSERT_FATAL(!memcmp(whole.memory + at, one.memory + at, used) &&
                        !memcmp(whole.result + at, one.result + at, used));
    }
    CU_ASSERT_EQUAL(fi_close(&mr[0]->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&mr[1]->fid), 0);
}

static void atomic__changes_arrays_in_pieces(void)
{
    static const int type[] = {FI_UINT8, FI_INT32, FI_UINT64, FI_DOUBLE, FI_LONG_DOUBLE_COMPLEX};
    static const struct {
        enum call call;
        int op;
    } ops[] = {{BASE, FI_SUM},          {FETCH, FI_PROD},       {FETCH, FI_ATOMIC_READ},
               {BASE, FI_ATOMIC_WRITE}, {COMPARE, FI_CSWAP_NE}, {COMPARE, FI_CSWAP}};
    struct ofi_fixture fixture = open_fixture();
    uint64_t random = test_seed();

    for (unsigned i = 0; i < 5 * 6; i++) {
        struct args args = {.type = type[i % 5], .call = ops[i / 5].call, .op = ops[i / 5].op};
        size_t most = 0;

        CU_ASSERT_EQUAL_FATAL(valid(&fixture, args.call, args.type, args.op, &most), 0);
        const size_t counts[] = {1, 2, 100, 1 + test_random(&random) % most, most};

        for (unsigned c = 0; c < 5; c++) {
            args.count = counts[c] < 300 ? counts[c] : c == 4 && most < 600 ? most : 300;
            array_agrees(&fixture, args, CALL_BYTES / most, &random);
        }
    }
    ofi_fixture_close(&fixture);
}

/* For a signed 64-bit word. */
static struct fi_msg_atomic one_word(const struct fi_ioc *operand, fi_addr_t addr,
                                     const struct fi_rma_ioc *at, enum fi_op op)
{
    return (struct fi_msg_atomic){.msg_iov = operand,
                                  .iov_count = 1,
                                  .addr = addr,
                                  .rma_iov = at,
                                  .rma_iov_count = 1,
                                  .datatype = FI_INT64,
                                  .op = op};
}

static void atomic__changes_and_fetches(void)
{
    struct ofi_fixture fixture = open_fixture();
    static int64_t word[2] = {0, 7};
    int64_t five = 5, minus = -3, seven = 7, old = 0;
    struct fid_mr *mr;
    uint64_t key;

    mr = ofi_fixture_window(&fixture, word, sizeof word);
    key = fi_mr_key(mr);
    CU_ASSERT_EQUAL(fi_atomic(fixture.a.ep, &five, 1, NULL, fixture.b.addr, 8, key, FI_INT64,
                              FI_SUM, NULL),
                    0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(word[1], 12);
    CU_ASSERT_EQUAL(fi_inject_atomic(fixture.a.ep, &minus, 1, fixture.b.addr, 8, key, FI_INT64,
                                     FI_MIN),
                    0);

    struct fi_ioc in = {&five, 1}, out = {&old, 1}, with = {&minus, 1};
    struct fi_rma_ioc at = {.addr = 8, .count = 1, .key = key};
    struct fi_msg_atomic msg = one_word(&in, fixture.b.addr, &at, FI_CSWAP);

    CU_ASSERT_EQUAL(fi_compare_atomicmsg(fixture.a.ep, &msg, &with, NULL, 1, &out, NULL, 1,
                                         FI_COMPLETION),
                    0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT(old == -3 && word[1] == 5); /* after the injected one */
    msg.op = FI_ATOMIC_WRITE;
    in.addr = &seven;
    CU_ASSERT_EQUAL(fi_fetch_atomicmsg(fixture.a.ep, &msg, &out, NULL, 1, FI_COMPLETION), 0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT(old == 5 && word[1] == 7);
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_COMPLETION), 0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(fi_fetch_atomicv(fixture.a.ep, NULL, NULL, 0, &out, NULL, 1, fixture.b.addr, 8,
                                     key, FI_INT64, FI_ATOMIC_READ, NULL),
                    0);
    ofi_fixture_entry(&fixture.a);
    CU_ASSERT_EQUAL(old, 7);
    CU_ASSERT_EQUAL(word[0], 0);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- errors ------------------------------------------------------------------------- */

static void atomic__refuses_wrong_arguments(void)
{
    struct ofi_fixture fixture = open_fixture();
    static int64_t word[513], five[513], old[513];
    struct fid_mr *mr = ofi_fixture_window(&fixture, word, sizeof word);
    struct fi_ioc in[5] = {{five, 1}}, out[5] = {{old, 1}};
    struct fi_rma_ioc at[5] = {{.addr = 8, .count = 1, .key = fi_mr_key(mr)}};
    struct fi_msg_atomic msg = one_word(in, fixture.b.addr, at, FI_ATOMIC_WRITE);
    struct args args = {
        .type = FI_INT64, .op = FI_SUM, .operand = five, .count = 513, .key = fi_mr_key(mr)};

    CU_ASSERT_EQUAL(start(&fixture, &args), -FI_EMSGSIZE);
    args.count = SIZE_MAX;
    CU_ASSERT_EQUAL(start(&fixture, &args), -FI_EMSGSIZE);
    args.count = 0;
    CU_ASSERT_EQUAL(start(&fixture, &args), -FI_EINVAL);
    in[0].count = 2; /* of one at the target */
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    at[0].count = SIZE_MAX;
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    at[0].count = 2;
    CU_ASSERT_EQUAL(fi_fetch_atomicmsg(fixture.a.ep, &msg, out, NULL, 1, FI_COMPLETION),
                    -FI_EINVAL);
    out[0] = (struct fi_ioc){NULL, 2};
    CU_ASSERT_EQUAL(fi_fetch_atomicmsg(fixture.a.ep, &msg, out, NULL, 1, FI_COMPLETION),
                    -FI_EFAULT);
    CU_ASSERT_EQUAL(fi_fetch_atomicmsg(fixture.a.ep, &msg, out, NULL, 5, FI_COMPLETION),
                    -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
    msg.iov_count = 5;
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    msg.iov_count = 1;
    msg.rma_iov_count = 5;
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    msg.rma_iov_count = 0;
    CU_ASSERT_EQUAL(fi_atomicmsg(fixture.a.ep, &msg, FI_COMPLETION), -FI_EINVAL);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

/* The target's errors, also of the last of many operations of one call: one entry for the call. */
static void atomic__reports_the_errors_of_the_target(void)
{
    struct ofi_fixture fixture = open_fixture();
    static int64_t word[512], five[512], old[512];
    struct fid_mr *mr = ofi_fixture_window(&fixture, word, sizeof word), *deaf;
    struct args args = {
        .call = FETCH, .type = FI_INT64, .op = FI_SUM, .operand = five, .result = old, .count = 1};

    CU_ASSERT_EQUAL_FATAL(fi_mr_reg(fixture.domain, word, sizeof word, FI_REMOTE_WRITE, 0, 0, 0,
                                    &deaf, NULL),
                          0);
    args.key = fi_mr_key(deaf);
    CU_ASSERT_EQUAL(start(&fixture, &args), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_EACCES);
    args.key = fi_mr_key(mr);
    args.offset = 4;
    CU_ASSERT_EQUAL(start(&fixture, &args), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_EINVAL);
    args.offset = 8;
    args.count = 512;
    CU_ASSERT_EQUAL(start(&fixture, &args), 0);
    CU_ASSERT_EQUAL(ofi_fixture_error(&fixture.a).err, FI_EACCES);
    CU_ASSERT(ofi_fixture_quiet(&fixture.a));
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&deaf->fid), 0);
    ofi_fixture_close(&fixture);
}

/* A call with FI_FENCE starts when all earlier ones are complete. */
static void atomic__waits_at_a_fence(void)
{
    struct ofi_fixture fixture = open_fixture();
    static int64_t word[512], five[512];
    struct fid_mr *mr = ofi_fixture_window(&fixture, word, sizeof word);
    struct args args = {
        .type = FI_INT64, .op = FI_SUM, .operand = five, .count = 512, .key = fi_mr_key(mr)};
    struct fi_ioc in = {five, 1};
    struct fi_rma_ioc at = {.count = 1, .key = fi_mr_key(mr)};
    struct fi_msg_atomic msg = one_word(&in, fixture.b.addr, &at, FI_SUM);
    ssize_t err;

    msg.context = &fixture;
    for (int i = 0; i < 512; i++)
        five[i] = 5;
    memset(word, 0, sizeof word);
    CU_ASSERT_EQUAL(start(&fixture, &args), 0);
    while ((err = fi_atomicmsg(fixture.a.ep, &msg, FI_FENCE | FI_COMPLETION)) == -FI_EAGAIN)
        ;
    CU_ASSERT_EQUAL(err, 0);
    CU_ASSERT_EQUAL(word[511], 5);
    finish(&fixture, BASE);
    finish(&fixture, BASE);
    CU_ASSERT_EQUAL(word[0], 10);
    CU_ASSERT_EQUAL(fi_close(&mr->fid), 0);
    ofi_fixture_close(&fixture);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(atomic__agrees_with_the_queries),  CASE(atomic__does_what_libfabric_defines),
        CASE(atomic__changes_arrays_in_pieces), CASE(atomic__changes_and_fetches),
        CASE(atomic__refuses_wrong_arguments),  CASE(atomic__reports_the_errors_of_the_target),
        CASE(atomic__waits_at_a_fence),         {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_atomic_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    return test_run("ofi_atomic", cases);
}
