/* SPDX-License-Identifier: BSD-3-Clause */
/* tap_area.c - create the memory of a capture, or map the memory that another process created. */
#include "emu/link/tap_area.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AREA_MAGIC   0x70617466u /* "ftap" */
#define AREA_VERSION 4u

static size_t ring_bytes(const struct emu_tap_area *area)
{
    return sizeof(struct emu_tap_ring) + (size_t)area->slots * sizeof(struct emu_tap_record);
}

static size_t ifaces_at(void)
{
    return (sizeof(struct emu_tap_area) + EMU_LINE - 1) / EMU_LINE * EMU_LINE;
}

static size_t rings_at(const struct emu_tap_area *area)
{
    return ifaces_at() + (size_t)area->ifaces * sizeof(struct emu_tap_iface);
}

static size_t area_bytes(const struct emu_tap_area *area)
{
    return rings_at(area) + (size_t)area->rings * ring_bytes(area);
}

struct emu_tap_iface *emu_tap_iface(struct emu_tap_area *area, uint32_t i)
{
    return (void *)((char *)area + ifaces_at() + i * sizeof(struct emu_tap_iface));
}

struct emu_tap_ring *emu_tap_ring(struct emu_tap_area *area, uint32_t i)
{
    return (void *)((char *)area + rings_at(area) + i * ring_bytes(area));
}

static int area_map(struct emu_tap_area **ret, size_t bytes, int fd)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return -errno;
    *ret = at;
    return 0;
}

int emu_tap_area_create(struct emu_tap_area **ret, const struct emu_tap_area *plan, int *memfd)
{
    size_t bytes = area_bytes(plan);
    int fd = memfd_create("fabemu-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int err = 0;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        err = -errno;
    if (!err)
        err = area_map(ret, bytes, fd);
    if (err) {
        close(fd);
        return err;
    }
    **ret = *plan;
    (*ret)->magic = AREA_MAGIC;
    (*ret)->version = AREA_VERSION;
    (*ret)->bytes = bytes;
    *memfd = fd;
    return 0;
}

int emu_tap_area_open(struct emu_tap_area **ret, int memfd)
{
    struct emu_tap_area *area = NULL;
    struct stat stat;
    int err;

    if (fstat(memfd, &stat))
        return -errno;
    if (stat.st_size < (off_t)sizeof *area)
        return -EPROTO;
    err = area_map(&area, (size_t)stat.st_size, memfd);
    if (err)
        return err;
    if (area->magic != AREA_MAGIC || area->version != AREA_VERSION ||
        area->bytes != (uint64_t)stat.st_size || area_bytes(area) != area->bytes || !area->slots ||
        area->slots & (area->slots - 1)) {
        munmap(area, (size_t)stat.st_size);
        return -EPROTO;
    }
    *ret = area;
    return 0;
}

void emu_tap_area_close(struct emu_tap_area *area, size_t bytes)
{
    if (area)
        munmap(area, bytes);
}
