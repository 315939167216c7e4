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

struct emu_tap_ring *emu_tap_ring(struct emu_tap_area *area, const struct emu_tap_area *head,
                                  uint32_t i)
{
    return (void *)((char *)area + rings_at(head) + i * ring_bytes(head));
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

/* Copy the beginning of the area. Read each field only once, because it may change. */
static struct emu_tap_area copy_of(const struct emu_tap_area *area)
{
    return (struct emu_tap_area){.magic = __atomic_load_n(&area->magic, __ATOMIC_RELAXED),
                                 .version = __atomic_load_n(&area->version, __ATOMIC_RELAXED),
                                 .rings = __atomic_load_n(&area->rings, __ATOMIC_RELAXED),
                                 .ifaces = __atomic_load_n(&area->ifaces, __ATOMIC_RELAXED),
                                 .slots = __atomic_load_n(&area->slots, __ATOMIC_RELAXED),
                                 .clock = __atomic_load_n(&area->clock, __ATOMIC_RELAXED),
                                 .snap_bytes = __atomic_load_n(&area->snap_bytes, __ATOMIC_RELAXED),
                                 .unit_ps = __atomic_load_n(&area->unit_ps, __ATOMIC_RELAXED),
                                 .bytes = __atomic_load_n(&area->bytes, __ATOMIC_RELAXED)};
}

/* Return whether a capture of @bytes bytes can begin with @head. */
static bool is_right(const struct emu_tap_area *head, uint64_t bytes)
{
    return head->magic == AREA_MAGIC && head->version == AREA_VERSION && head->slots &&
           !(head->slots & (head->slots - 1)) && head->bytes == bytes &&
           head->rings <= bytes / ring_bytes(head) && /* so that area_bytes() does not overflow */
           area_bytes(head) == bytes;
}

int emu_tap_area_open(struct emu_tap_area **ret, struct emu_tap_area *head, int memfd)
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
    *head = copy_of(area);
    if (!is_right(head, (uint64_t)stat.st_size)) {
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
