/* SPDX-License-Identifier: BSD-3-Clause */
/* kind.c - the kinds of DPDK devices, and our values for arguments that the user does not give. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "emu/hostlink/dpdk/dpdk.h"

#define PAGE_BYTES  4096u
#define ETHER_BYTES 14u /* size of an Ethernet header */

/* net_af_packet: header of the kernel before a frame in its ring (TPACKET_V2, raw sockets) */
#define RING_HEADER_BYTES 66u
#define RING_FRAMES       4096u /* DPDK's default of 512 loses bursts when two hosts share a core */
#define RING_STEP         256u
#define RING_BLOCK_MOST   (64u * PAGE_BYTES)

/*
 * net_memif: 2^8 buffers per direction. With fewer, the buffers stay in one core's private cache,
 * from which the other core fetches a line several times more slowly than from the shared cache.
 * With DPDK's default of 2^10, buffers of 9 KB do not stay in the shared cache if other data needs
 * it, too.
 */
#define MEMIF_RING_LOG2 8u

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static int bad_number(const struct dpdk_device *device, const struct dpdk_error *error)
{
    return dpdk_fail(error, -EINVAL, "%s: an argument must be a number", device->name);
}

/*
 * Return the number of frames per block that wastes the least memory. The kernel allocates a block
 * as a power of two of pages, and DPDK requires that frames fill a block exactly. @count: the
 * result must be a divisor of it; 0: no condition.
 */
static uint32_t block_frames(uint32_t frame, uint32_t count)
{
    uint32_t best = 0;
    uint64_t best_waste = UINT64_MAX;

    for (uint32_t frames = 1; (uint64_t)frames * frame <= RING_BLOCK_MOST; frames++) {
        uint64_t bytes = (uint64_t)frames * frame, taken = PAGE_BYTES;
        if (bytes % PAGE_BYTES || (count && count % frames))
            continue;
        while (taken < bytes)
            taken *= 2;
        uint64_t waste = (taken - bytes) * 1000 / bytes; /* per mille */
        if (waste < best_waste) {
            best = frames;
            best_waste = waste;
        }
    }
    return best;
}

static int packet_arguments(struct dpdk_device *device, const struct dpdk_error *error)
{
    bool bad = false;
    uint32_t frame = least(device->frame_wanted, device->interface.mtu + ETHER_BYTES);
    uint32_t ring = dpdk_number(device, "framesz",
                                (frame + RING_HEADER_BYTES + RING_STEP - 1) / RING_STEP * RING_STEP,
                                &bad);
    uint32_t given = dpdk_number(device, "framecnt", 0, &bad);

    if (bad)
        return bad_number(device, error);
    if (ring <= RING_HEADER_BYTES + ETHER_BYTES)
        return dpdk_fail(error, -EINVAL, "%s: framesz=%u is too small for a frame", device->name,
                         ring);
    uint32_t frames = block_frames(ring, given);
    if (!frames) /* the user has given these numbers; DPDK and the kernel will check them */
        frames = 1;
    dpdk_argument_add(device, "framesz", ring);
    dpdk_argument_add(device, "blocksz", frames * ring);
    dpdk_argument_add(device, "framecnt", RING_FRAMES / frames * frames);
    dpdk_argument_add(device, "qdisc_bypass", 1);
    device->ring_bytes = ring;
    device->frame_bytes = least(frame, ring - RING_HEADER_BYTES);
    return 0;
}

static int xdp_arguments(struct dpdk_device *device, const struct dpdk_error *error)
{
    bool bad = false;

    dpdk_number(device, "busy_budget", 0, &bad);
    if (bad)
        return bad_number(device, error);
    dpdk_argument_add(device, "busy_budget", 0);
    device->frame_bytes = least(device->frame_wanted, device->interface.mtu + ETHER_BYTES);
    return 0;
}

/* Remove the socket of a server that has died, so that this server can create it. */
static int socket_clear(const struct dpdk_device *device, const char *path,
                        const struct dpdk_error *error)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err = 0;

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (fd < 0 || access(path, F_OK) != 0)
        err = 0;
    else if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        err = dpdk_fail(error, -EEXIST, "%s: another server has the socket %s", device->name, path);
    else if (errno == ECONNREFUSED)
        unlink(path);
    if (fd >= 0)
        close(fd);
    return err;
}

static int memif_arguments(struct dpdk_device *device, const struct dpdk_error *error)
{
    char path[sizeof((struct sockaddr_un *)0)->sun_path + 1], role[16] = "client",
                                                              abstract[8] = "yes";
    bool bad = false;
    uint32_t buffer = dpdk_number(device, "bsize",
                                  (device->frame_wanted + RING_STEP - 1) / RING_STEP * RING_STEP,
                                  &bad);

    if (bad)
        return bad_number(device, error);
    if (buffer > UINT16_MAX)
        return dpdk_fail(error, -EINVAL, "%s: bsize=%u is too large; its limit is %u", device->name,
                         buffer, UINT16_MAX);
    dpdk_argument(device, "role", role, sizeof role);
    dpdk_argument(device, "socket-abstract", abstract, sizeof abstract);
    if (!dpdk_argument(device, "socket", path, sizeof path))
        return dpdk_fail(error, -EINVAL,
                         "%s: which socket? say %s,role=server,socket=PATH on one "
                         "host and role=client on the other",
                         device->name, device->name);
    if (strlen(path) >= sizeof path - 1)
        return dpdk_fail(error, -EINVAL, "%s: the name of its socket is too long", device->name);
    /*
     * The socket is a file, which can be seen and removed. DPDK's default is an abstract name in
     * the network namespace.
     */
    size_t at = strlen(device->text);
    if (strcmp(abstract, "yes") == 0 && !strstr(device->text, "socket-abstract="))
        snprintf(device->text + at, sizeof device->text - at, ",socket-abstract=no");
    dpdk_argument_add(device, "bsize", buffer);
    dpdk_argument_add(device, "rsize", MEMIF_RING_LOG2);
    device->connects = strcmp(role, "server") != 0;
    device->frame_bytes = least(device->frame_wanted, buffer);
    return *path == '/' && !device->connects ? socket_clear(device, path, error) : 0;
}

static const struct dpdk_kind kinds[] = {
    {.name = "net_af_packet",
     .has_interface = true,
     .family = AF_PACKET,
     .polls_to_send = true,
     .filters = true,
     .arguments = packet_arguments,
     .hint = "its rings need locked memory: raise ulimit -l, or give a smaller framecnt="},
    {.name = "net_af_xdp",
     .has_interface = true,
     .family = AF_XDP,
     .polls_to_receive = true,
     .keeps_queues = true,
     .object_most = PAGE_BYTES,
     .arguments = xdp_arguments,
     .hint = "it needs root, an MTU of at most 3498, and an interface without another XDP program"},
    {.name = "net_memif",
     .stops_among_interrupts = true,
     .arguments = memif_arguments,
     .hint = "is the folder of its socket writable?"},
    {.name = "net_ring", .keeps_queues = true},
    {.name = "net_tap",
     .has_mtu = true,
     .has_interrupts = true,
     .ends_in_kernel = true,
     .hint = "it needs root or CAP_NET_ADMIN, and /dev/net/tun"},
    {.has_mtu = true,
     .has_interrupts = true,
     .keeps_queues = true,
     .hint = "DPDK needs a driver for it (librte-net-...), and an adapter must be bound to "
             "vfio-pci (dpdk-devbind.py), unless its driver is mlx5"},
};

const struct dpdk_kind *dpdk_kind_of(const char *name)
{
    const struct dpdk_kind *kind = kinds;

    while (kind->name && strncmp(name, kind->name, strlen(kind->name)) != 0)
        kind++;
    return kind;
}

bool dpdk_is_address(const char *name)
{
    unsigned domain, bus, slot, function;
    int end = -1;

    if (sscanf(name, "%4x:%2x:%2x.%1u%n", &domain, &bus, &slot, &function, &end) == 4 && end > 0)
        return !name[end];
    end = -1;
    return sscanf(name, "%2x:%2x.%1u%n", &bus, &slot, &function, &end) == 3 && end > 0 &&
           !name[end];
}
