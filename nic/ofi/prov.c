/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov.c - entry point for libfabric: the provider `fabemu`, libfabemu-fi.so.
 *
 * FI_PROVIDER_PATH lets libfabric find it; FI_PROVIDER=fabemu excludes other providers. The
 * provider reads:
 *
 * FABEMU_SOCKET  the control socket of the fabric. If it is not set, or no fabric listens there,
 * fi_getinfo() returns -FI_ENODATA and reports the reason: in the first case with
 * FI_LOG_LEVEL=info, in the second on stderr.
 * FABEMU_NODE    the number or name of the node to request. If it is not set: the MPI launcher's
 * rank, or any node.
 *
 * fi_getinfo() takes no node: the process attaches when it opens a domain, and all its domains
 * share one adapter.
 */
#include "nic/ofi/ofi.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void prov_cleanup(void)
{
}

/* Not const, because libfabric modifies its context. */
struct fi_provider ofi_prov = {
    .version = FI_VERSION(1, 0),
    .name = OFI_NAME,
    .getinfo = ofi_getinfo,
    .fabric = ofi_fabric_open,
    .cleanup = prov_cleanup,
};

/*
 * fi_getinfo() skips a provider whose fi_version is below the version that the program requests,
 * which may be that of the running library. So this function returns the library's version, which
 * is safe: versions.h deals with structures that grew, and the provider refuses capabilities and
 * flags that it does not know.
 */
FI_EXT_INI
{
    ofi_prov.fi_version = fi_version();
    return &ofi_prov;
}

int ofi_errno(int err)
{
    switch (-err) {
    case EMSGSIZE:
        return FI_ETRUNC;
    case EPROTO:
    case EPIPE:
        return FI_EOTHER;
    default:
        return -err; /* libfabric's numbers below 256 are those of errno */
    }
}

/*
 * MPI libraries print only which call failed, so ofi_report() prints the reason. Several components
 * of Open MPI open a fabric object each. The reason must be printed once per process, hence the
 * static flag.
 */
void ofi_report(const char *format, ...)
{
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    char line[512];
    va_list args;

    if (atomic_flag_test_and_set_explicit(&reported, memory_order_relaxed))
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, OFI_NAME ": %s\n", line);
}

static int socket_connect(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)at, sizeof *at) && errno != EAGAIN)
        err = -errno; /* EAGAIN: a fabric listens, but its backlog is full */
    close(fd);
    return err;
}

int ofi_socket_check(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char path[2 * sizeof at.sun_path];

    fabemu_socket(NULL, path, sizeof path);
    if (!*path) {
        FI_INFO(&ofi_prov, FI_LOG_CORE, "FABEMU_SOCKET is not set: no fabric to attach to\n");
        return -FI_ENODATA;
    }
    if (strlen(path) >= sizeof at.sun_path) {
        ofi_report("FABEMU_SOCKET is longer than %zu bytes: %.300s", sizeof at.sun_path - 1, path);
        return -FI_ENODATA;
    }
    memcpy(at.sun_path, path, strlen(path) + 1);
    int err = socket_connect(&at);

    if (err) {
        ofi_report(
            err == -ENOENT || err == -ECONNREFUSED
                ? "no fabric listens at FABEMU_SOCKET=%s (%s): it was stopped, or never ran; "
                  "'fabemu status' lists those that run"
                : "cannot reach the fabric at FABEMU_SOCKET=%s: %s",
            path, strerror(-err));
        return -FI_ENODATA;
    }
    return 0;
}
