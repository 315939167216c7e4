/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * socket.c - descriptors that DPDK opened.
 *
 * DPDK passes them on to programs that are started later, which would then hold the device, and
 * does not tell on which of them one could sleep. They are those that were not there before.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "emu/hostlink/dpdk/dpdk.h"

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
        free(now); /* what is new is not known */
        return -1;
    }
    dpdk_open_list(now);
    for (uint32_t i = 0; i < now->count; i++) {
        int its = 0, fd = now->fds[i];
        socklen_t bytes = sizeof its;
        if (was_open(before, fd))
            continue;
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (family && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &its, &bytes) == 0 && its == family)
            found = fd;
    }
    free(now);
    return found;
}

void dpdk_socket_prepare(int fd)
{
    /* The EtherType stands at 12, tag of a VLAN or not: the kernel has taken that out. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EMU_HOSTLINK_ETHERTYPE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    const struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    const int in_flight = 1 << 24;

    /* Both are for speed: a session reads frames' types itself, and sends again what is refused. */
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &in_flight, sizeof in_flight) != 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &in_flight, sizeof in_flight);
}
