/* SPDX-License-Identifier: BSD-3-Clause */
/* mcast_buf.c - create memory that the fabric shares with processes. */
#include "emu/hostif/fabric/mcast_buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emu/hostif/fabric/fabric.h"

void *emu_hostif_memory(const char *name, size_t bytes, int seals, int *memfd)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *at;
    int err;

    if (fd < 0)
        return NULL;
    at = ftruncate(fd, (off_t)bytes) ? MAP_FAILED
                                     : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        goto close_fd;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals))
        goto unmap;
    *memfd = fd;
    return at;

unmap:
    err = errno;
    munmap(at, bytes);
    errno = err;
close_fd:
    err = errno;
    close(fd);
    errno = err;
    return NULL;
}

int emu_mcast_buf_create(struct emu_mcast_buf **ret, uint32_t first)
{
    /* in cache lines of its own, because the worker writes it */
    struct emu_mcast_buf *mcast_buf = aligned_alloc(EMU_LINE, sizeof *mcast_buf);
    int err;

    if (!mcast_buf)
        return -ENOMEM;
    first -= first % EMU_MCAST_BLOCK_SLOTS;
    *mcast_buf = (struct emu_mcast_buf){.next = first, .end = first, .users = 1};
    mcast_buf->shared = emu_hostif_memory("fabemu-mcast", sizeof *mcast_buf->shared,
                                          F_SEAL_FUTURE_WRITE, &mcast_buf->memfd);
    if (!mcast_buf->shared) {
        err = -errno;
        free(mcast_buf);
        return err;
    }
    *ret = mcast_buf;
    return 0;
}

void emu_mcast_buf_drop(struct emu_mcast_buf *mcast_buf)
{
    if (!mcast_buf || --mcast_buf->users)
        return;
    munmap(mcast_buf->shared, sizeof *mcast_buf->shared);
    close(mcast_buf->memfd);
    free(mcast_buf);
}
