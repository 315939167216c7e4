/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel.c - network interfaces of the kernel (whether they can be used, and their MTU), and
 * descriptors that DPDK has opened.
 *
 * Programs that this process starts would inherit DPDK's descriptors and keep the device open. DPDK
 * also does not say which descriptors can be waited on. Therefore we find the descriptors that a
 * call to DPDK has opened: we compare the lists of open descriptors before and after the call.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/hostlink/dpdk/dpdk.h"

static struct ifreq request(const char *name)
{
    struct ifreq ask = {0};

    memcpy(ask.ifr_name, name, strnlen(name, sizeof ask.ifr_name - 1));
    return ask;
}

void dpdk_interface_readdress(unsigned index, const uint8_t mac[static 6])
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq set = {0};

    set.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(set.ifr_hwaddr.sa_data, mac, 6);
    set.ifr_hwaddr.sa_data[5] ^= 1;
    if (fd >= 0 && if_indextoname(index, set.ifr_name))
        ioctl(fd, SIOCSIFHWADDR, &set); /* if this fails, the port still works without a bridge */
    if (fd >= 0)
        close(fd);
}

static int may_open(const struct dpdk_device *device, const struct dpdk_error *error)
{
    int fd = socket(device->kind->family, SOCK_RAW | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno == EPERM)
        return dpdk_fail(error, -EPERM,
                         "%s: no permission: it needs root, or the capabilities CAP_NET_RAW and "
                         "CAP_NET_ADMIN (with net_af_xdp CAP_BPF, too)",
                         device->name);
    return dpdk_fail(error, -ENODEV, "%s: this kernel does not support its sockets: %s",
                     device->name, strerror(errno));
}

int dpdk_interface_missing(const struct dpdk_device *device, const char *name,
                           const struct dpdk_error *error)
{
    return dpdk_fail(error, -ENODEV, "%s: there is no network interface %s (ip link shows them)",
                     device->name, name);
}

int dpdk_interface_check(struct dpdk_interface *interface, const struct dpdk_device *device,
                         const struct dpdk_error *error)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq flags = request(interface->name), mtu = flags;
    bool found = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &flags) == 0 &&
                 ioctl(fd, SIOCGIFMTU, &mtu) == 0;

    if (fd >= 0)
        close(fd);
    if (!found)
        return dpdk_interface_missing(device, interface->name, error);
    if (!(flags.ifr_flags & IFF_UP))
        return dpdk_fail(error, -ENETDOWN, "%s: the interface %s is down (ip link set %s up)",
                         device->name, interface->name, interface->name);
    interface->mtu = (uint32_t)mtu.ifr_mtu;
    return device->kind->family ? may_open(device, error) : 0;
}

/* --- descriptors that DPDK opened --------------------------------------------------- */

void dpdk_open_list(struct dpdk_open *ret)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;

    ret->count = 0;
    while (dir && (entry = readdir(dir)) && ret->count < sizeof ret->fds / sizeof ret->fds[0]) {
        int fd = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);
        if (fd >= 0 && fd != dirfd(dir))
            ret->fds[ret->count++] = fd;
    }
    if (dir)
        closedir(dir);
}

static bool was_open(const struct dpdk_open *before, int fd)
{
    for (uint32_t i = 0; i < before->count; i++)
        if (before->fds[i] == fd)
            return true;
    return false;
}

int dpdk_open_claim(const struct dpdk_open *before, int family)
{
    struct dpdk_open *now = malloc(sizeof *now);
    int found = -1;

    if (!now || before->count == sizeof before->fds / sizeof before->fds[0]) {
        free(now); /* the new descriptors cannot be determined */
        return -1;
    }
    dpdk_open_list(now);
    for (uint32_t i = 0; i < now->count; i++) {
        int domain = 0, fd = now->fds[i];
        socklen_t bytes = sizeof domain;
        if (was_open(before, fd))
            continue;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (family && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 &&
            domain == family)
            found = fd;
    }
    free(now);
    return found;
}

void dpdk_socket_prepare(int fd)
{
    /* The kernel has removed any VLAN tag, so the EtherType is at offset 12. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EMU_HOSTLINK_ETHERTYPE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    const int in_flight = 1 << 24;

    /*
     * Ignore errors, because both options are only for speed: a session checks the EtherType
     * itself, and retransmits frames that were not sent.
     */
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &in_flight, sizeof in_flight) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &in_flight, sizeof in_flight);
}
