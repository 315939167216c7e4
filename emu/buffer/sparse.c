/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sparse.c - allocate pieces of memory one after the other, from blocks of 1 MB.
 *
 * Blocks are aligned to their size, so the address of a piece gives its block. Freed pieces are not
 * reused; a block is unmapped when its last piece is freed. That suffices because all pieces of a
 * fabric are allocated and freed together.
 */
#include "emu/buffer/sparse.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/util/alloc.h"

/* with AddressSanitizer each piece is allocated alone, so that writes past its end are found */
#ifdef __SANITIZE_ADDRESS__

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
#define FIRST       EMU_LINE /* offset of the first piece of a block, after the struct */

struct block {
    size_t bytes;  /* size of the mapping */
    size_t used;   /* bytes in use, from the beginning of the block */
    size_t pieces; /* pieces that were not freed */
};
static_assert(sizeof(struct block) <= FIRST, "the struct fits before the first piece");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *current; /* block for the next piece; NULL: none. Protected by `lock` */

/* Map @bytes, aligned to BLOCK_BYTES: map more, and unmap the parts before and after the block. */
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

/* Return a block with space for @bytes, or NULL. A piece larger than a block gets its own block. */
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
