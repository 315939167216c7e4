/* SPDX-License-Identifier: BSD-3-Clause */
/* interface.c - network interfaces of the kernel: whether one can be used, and for which frames. */
#include <errno.h>
#include <net/if_arp.h>
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

bool dpdk_interface_runs(const struct dpdk_interface *interface, int fd)
{
    struct ifreq ask = request(interface->name);

    return ioctl(fd, SIOCGIFFLAGS, &ask) == 0 && (ask.ifr_flags & IFF_UP) &&
           (ask.ifr_flags & IFF_RUNNING);
}

void dpdk_interface_readdress(unsigned index, const uint8_t mac[static 6])
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq set = {0};

    set.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    memcpy(set.ifr_hwaddr.sa_data, mac, 6);
    set.ifr_hwaddr.sa_data[5] ^= 1;
    if (fd >= 0 && if_indextoname(index, set.ifr_name))
        ioctl(fd, SIOCSIFHWADDR, &set); /* who has no bridge goes on without, too */
    if (fd >= 0)
        close(fd);
}

/* May this process have the socket that the driver will want? */
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
    return dpdk_fail(error, -ENODEV, "%s: this kernel has no such sockets: %s", device->name,
                     strerror(errno));
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
        return dpdk_fail(error, -ENODEV,
                         "%s: there is no network interface %s (ip link shows them)", device->name,
                         interface->name);
    if (!(flags.ifr_flags & IFF_UP))
        return dpdk_fail(error, -ENETDOWN, "%s: the interface %s is down (ip link set %s up)",
                         device->name, interface->name, interface->name);
    interface->mtu = (uint32_t)mtu.ifr_mtu;
    return device->kind->family ? may_open(device, error) : 0;
}
