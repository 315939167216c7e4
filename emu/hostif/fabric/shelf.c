/* SPDX-License-Identifier: BSD-3-Clause */
/* shelf.c - memory shared by the fabric and processes. */
#include "emu/hostif/fabric/shelf.h"

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

int emu_shelf_create(struct emu_shelf **ret, uint32_t first)
{
    struct emu_shelf *shelf =
        aligned_alloc(EMU_LINE, sizeof *shelf); /* the worker writes it: lines of its own */
    int err;

    if (!shelf)
        return -ENOMEM;
    first -= first % EMU_SHELF_PART;
    *shelf = (struct emu_shelf){.next = first, .end = first, .users = 1};
    shelf->shared = emu_hostif_memory("fabemu-shelf", sizeof *shelf->shared, F_SEAL_FUTURE_WRITE,
                                      &shelf->memfd);
    if (!shelf->shared) {
        err = -errno;
        free(shelf);
        return err;
    }
    *ret = shelf;
    return 0;
}

void emu_shelf_drop(struct emu_shelf *shelf)
{
    if (!shelf || --shelf->users)
        return;
    munmap(shelf->shared, sizeof *shelf->shared);
    close(shelf->memfd);
    free(shelf);
}
