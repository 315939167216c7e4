/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sparse.c - allocate pieces one after the other in blocks of 1 MB. Blocks are aligned to their
 * size, so a piece's address gives its block. Freed pieces are not reused; a block is unmapped with
 * its last piece, since the pieces of a fabric are made and freed together.
 */
#include "emu/buffer/sparse.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/util/alloc.h"

#ifdef __SANITIZE_ADDRESS__ /* ASan finds writes past the end of a piece */

void *emu_sparse_alloc(size_t bytes)
{
    return emu_zeros(bytes);
}

void emu_sparse_free(void *piece)
{
    free(piece);
}

#else

#define BLOCK_BYTES ((size_t)1 << 20)
#define FIRST       EMU_LINE /* offset of a block's first piece */

struct block {
    size_t bytes;  /* of the mapping */
    size_t used;   /* bytes from its beginning on */
    size_t pieces; /* not freed */
};
static_assert(sizeof(struct block) <= FIRST, "and not in it");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *current; /* block for the next piece; may be NULL. Protected by lock */

/* Map @bytes aligned to BLOCK_BYTES; the rest of a larger mapping is unmapped. */
static struct block *block_map(size_t bytes)
{
    char *at =
        mmap(NULL, bytes + BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before = -(uintptr_t)at % BLOCK_BYTES;
    struct block *block;

    if (at == MAP_FAILED)
        return NULL;
    if (before)
        munmap(at, before);
    munmap(at + before + bytes, BLOCK_BYTES - before);
    block = (void *)(at + before);
    *block = (struct block){.bytes = bytes, .used = FIRST};
    return block;
}

/* A block with space for @bytes. A piece larger than a block gets one of its own. */
static struct block *block_for(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct block *block;

    if (bytes > BLOCK_BYTES - FIRST)
        return block_map((FIRST + bytes + page - 1) / page * page);
    if (current && current->bytes - current->used >= bytes)
        return current;
    block = block_map(BLOCK_BYTES);
    if (block)
        current = block;
    return block;
}

void *emu_sparse_alloc(size_t bytes)
{
    size_t whole = bytes ? (bytes + EMU_LINE - 1) / EMU_LINE * EMU_LINE : EMU_LINE;
    struct block *block;
    void *ret = NULL;

    if (whole < bytes || whole > SIZE_MAX / 2)
        return NULL;
    pthread_mutex_lock(&lock);
    block = block_for(whole);
    if (block) {
        ret = (char *)block + block->used;
        block->used += whole;
        block->pieces++;
    }
    pthread_mutex_unlock(&lock);
    return ret;
}

void emu_sparse_free(void *piece)
{
    struct block *block = (void *)((char *)piece - (uintptr_t)piece % BLOCK_BYTES);

    if (!piece)
        return;
    pthread_mutex_lock(&lock);
    if (!--block->pieces) {
        if (block == current)
            current = NULL;
        munmap(block, block->bytes);
    }
    pthread_mutex_unlock(&lock);
}

#endif
