/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sparse_test.c - sparse memory: pieces are zeroed, do not overlap, use no memory before they are
 * written, and are freed when they are returned.
 */
#include "emu/buffer/sparse.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/packet/seg.h"
#include "tests/test.h"

#define BLOCK   ((size_t)1 << 20) /* pieces of about this size get blocks of their own */
#define PIECES  64u
#define ROUNDS  1000u
#define THREADS 3

/*
 * Counts bytes that differ from @byte; samples large pieces, always with the first and the last
 * byte.
 */
static uint32_t wrong_bytes(const uint8_t *piece, size_t bytes, uint8_t byte)
{
    size_t step = bytes / 64 + 1;
    uint32_t wrong = piece[bytes - 1] != byte;

    for (size_t i = 0; i < bytes; i += step)
        wrong += piece[i] != byte;
    return wrong;
}

static void sparse__is_zeros_of_any_size(void)
{
    static const size_t sizes[] = {1,
                                   EMU_LINE - 1,
                                   EMU_LINE,
                                   EMU_LINE + 1,
                                   4096,
                                   BLOCK - EMU_LINE - 1,
                                   BLOCK - EMU_LINE,
                                   BLOCK - EMU_LINE + 1,
                                   BLOCK,
                                   BLOCK + 1,
                                   5 * BLOCK + 4097};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    uint8_t *piece[SIZES][SIZES];

    for (size_t i = 0; i < SIZES; i++)
        for (size_t k = 0; k < SIZES; k++) { /* each size after each other size */
            piece[i][k] = emu_sparse_alloc(sizes[k]);
            CU_ASSERT_PTR_NOT_NULL_FATAL(piece[i][k]);
            CU_ASSERT_EQUAL((uintptr_t)piece[i][k] % EMU_LINE, 0);
            CU_ASSERT_EQUAL(wrong_bytes(piece[i][k], sizes[k], 0), 0);
            memset(piece[i][k], (int)(i * SIZES + k + 1), sizes[k]);
        }
    for (size_t i = SIZES; i--;)
        for (size_t k = 0; k < SIZES; k++) {
            CU_ASSERT_EQUAL(wrong_bytes(piece[i][k], sizes[k], (uint8_t)(i * SIZES + k + 1)), 0);
            emu_sparse_free(piece[i][k]);
        }
    emu_sparse_free(NULL);
    emu_sparse_free(emu_sparse_alloc(0));
}

struct held {
    uint8_t *piece;
    size_t bytes;
    uint8_t byte;
};

/* Pieces of all sizes, freed in any order, keep their owner's bytes. */
static void *owner_run(void *arg)
{
    struct held held[PIECES] = {0};
    uint64_t random = *(uint64_t *)arg;
    uint64_t *wrong = arg;

    *wrong = 0;
    for (uint32_t i = 0; i < TEST_TRIALS(ROUNDS); i++) {
        struct held *at = &held[test_random(&random) % PIECES];
        size_t most = (size_t)64 << test_random(&random) % 16;

        if (at->piece)
            *wrong += wrong_bytes(at->piece, at->bytes, at->byte);
        emu_sparse_free(at->piece);
        *at = (struct held){.bytes = test_random(&random) % most + 1,
                            .byte = (uint8_t)test_random(&random)};
        at->piece = emu_sparse_alloc(at->bytes);
        *wrong += !at->piece || wrong_bytes(at->piece, at->bytes, 0);
        if (at->piece)
            memset(at->piece, at->byte, at->bytes);
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        if (held[i].piece)
            *wrong += wrong_bytes(held[i].piece, held[i].bytes, held[i].byte);
        emu_sparse_free(held[i].piece);
    }
    return NULL;
}

static void sparse__has_one_owner(void)
{
    uint64_t random = test_seed(), wrong[THREADS];
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++) {
        wrong[i] = test_random(&random);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, owner_run, &wrong[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        CU_ASSERT_EQUAL(wrong[i], 0);
    }
}

/* The first page that lies entirely in the piece. */
static uint8_t *first_page(uint8_t *piece)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return piece + -(uintptr_t)piece % page;
}

/* Resident whole pages of a piece; -1: it is not mapped. */
static int resident(uint8_t *piece, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *from = first_page(piece);
    size_t pages = (size_t)(piece + bytes - from) / page;
    unsigned char in[4 * BLOCK / 4096];
    int count = 0;

    if (mincore(from, pages * page, in))
        return errno == ENOMEM ? -1 : -2;
    for (size_t i = 0; i < pages; i++)
        count += in[i] & 1;
    return count;
}

static void sparse__uses_memory_when_written(void)
{
    enum { MANY = 300 }; /* 300 of 8 KB: more than two blocks */
    uint8_t *large, *piece[MANY];

#ifdef __SANITIZE_ADDRESS__
    test_skip("AddressSanitizer has its own memory");
    return;
#endif
    for (int i = 0; i < MANY; i++) {
        piece[i] = emu_sparse_alloc(8192);
        CU_ASSERT_PTR_NOT_NULL_FATAL(piece[i]);
    }
    large = emu_sparse_alloc(3 * BLOCK);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    for (int i = 0; i < MANY; i++)
        CU_ASSERT_EQUAL(resident(piece[i], 8192), 0);
    CU_ASSERT_EQUAL(resident(large, 3 * BLOCK), 0);
    *first_page(piece[1]) = large[BLOCK] = 1;
    CU_ASSERT_EQUAL(resident(piece[1], 8192), 1);
    CU_ASSERT_EQUAL(resident(large, 3 * BLOCK), 1);
    emu_sparse_free(large);
    for (int i = 0; i < MANY; i++)
        emu_sparse_free(piece[i]);
    CU_ASSERT_EQUAL(resident(large, 3 * BLOCK), -1);
    CU_ASSERT_EQUAL(resident(piece[MANY / 2], 8192), -1);
    CU_ASSERT_PTR_NULL(emu_sparse_alloc(SIZE_MAX)); /* AddressSanitizer aborts here */
    CU_ASSERT_PTR_NULL(emu_sparse_alloc(SIZE_MAX / 2));
}

int main(void)
{
    static const struct test_case cases[] = {CASE(sparse__is_zeros_of_any_size),
                                             CASE(sparse__has_one_owner),
                                             CASE(sparse__uses_memory_when_written),
                                             {NULL, NULL}};

    return test_run("sparse", cases);
}
