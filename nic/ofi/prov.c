/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov.c - entry point for libfabric: the provider `fabemu`, libfabemu-fi.so.
 *
 * FI_PROVIDER_PATH lets libfabric find it; FI_PROVIDER=fabemu excludes other providers. The
 * provider reads these environment variables:
 * - FABEMU_SOCKET: the control socket of the fabric. If it is not set, or no fabric listens there,
 *   fi_getinfo() returns -FI_ENODATA and reports the reason: in the first case with
 *   FI_LOG_LEVEL=info, in the second on stderr.
 * - FABEMU_NODE: the number or name of the node to request. If it is not set, the provider requests
 *   the node of the rank that the MPI launcher assigned, or any node.
 * - FABEMU_PROVIDER_NAME: another name for the provider, for programs that accept only names from a
 *   list. If this is the name of a provider in limits_of[], fi_getinfo() reports the protocol and
 *   the size limits that are listed there.
 *
 * fi_getinfo() does not attach the process to a node. fi_domain() does, and all domains of the
 * process share one adapter.
 */
#include "nic/ofi/addr.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Some programs accept only a provider of a certain name, and request the protocol of that
 * provider. Sources: the attributes of these providers in libfabric 1.17; for tcp, those of
 * libfabric 2.0; for cxi, prov/cxi/src/cxip_info.c of libfabric 2.0.0 and 2.1.0, with
 * CXIP_EP_MAX_MSG_SZ and CXIP_INJECT_SIZE of cxip.h. CXIP_INJECT_SIZE is C_MAX_IDC_PAYLOAD_UNR of
 * cassini_user_defs.h. The limits of the other providers depend on the hardware, or are not below
 * those of this provider.
 */
#define LIMITS_OWN OFI_INJECT_BYTES, OFI_IOV_MAX, OFI_MESSAGE_MAX_BYTES
static const struct ofi_limits limits_of[] = {
    {"cxi", FI_PROTO_CXI, 192, 1, (UINT64_C(1) << 32) - 1},
    {"efa", FI_PROTO_EFA, LIMITS_OWN},
    {"opx", FI_PROTO_OPX, LIMITS_OWN},
    {"psm2", FI_PROTO_PSMX2, LIMITS_OWN},
    {"psm3", FI_PROTO_PSMX3, LIMITS_OWN},
    {"shm", FI_PROTO_SHM, LIMITS_OWN},
    {"sockets", FI_PROTO_SOCK_TCP, LIMITS_OWN},
    {"tcp", FI_PROTO_XNET, LIMITS_OWN},
};
static const struct ofi_limits limits_own = {OFI_NAME, OFI_ADDR_FORMAT, LIMITS_OWN};

/* The provider's present name and limits. Written once, when libfabric loads the provider. */
static char prov_name[PROVIDER_NAME_MAX + 1] = OFI_NAME;
static const struct ofi_limits *prov_limits = &limits_own;

static void prov_cleanup(void)
{
}

/* Not const, because libfabric modifies the field context. */
struct fi_provider ofi_prov = {
    .version = FI_VERSION(1, 0),
    .name = prov_name,
    .getinfo = ofi_getinfo,
    .fabric = ofi_fabric_open,
    .cleanup = prov_cleanup,
};

/*
 * The version that this provider reports when it uses another provider's name. If several providers
 * have the same name, libfabric uses the provider with the highest version, so this is above all
 * versions of libfabric's own providers.
 */
#define VERSION_BORROWED FI_VERSION(9999, 0)

const struct ofi_limits *ofi_limits(void)
{
    return prov_limits;
}

static void prov_rename(void)
{
    const char *name = getenv(PROVIDER_NAME_VARIABLE);

    if (!name || !*name || strcmp(name, OFI_NAME) == 0)
        return;
    if (!provider_name_is_valid(name)) {
        ofi_report(PROVIDER_NAME_VARIABLE "=%.64s is ignored: it may have " PROVIDER_NAME_FORM,
                   name);
        return;
    }
    strcpy(prov_name, name);
    ofi_prov.version = VERSION_BORROWED;
    for (size_t i = 0; i < sizeof limits_of / sizeof limits_of[0]; i++)
        if (strcasecmp(limits_of[i].name, name) == 0)
            prov_limits = &limits_of[i];
}

/*
 * fi_getinfo() skips a provider whose fi_version is below the version that the program requests. A
 * program may request the version of the running library, so this function sets fi_version to that
 * version. This is safe: versions.h deals with structures that grew, and the provider
 * refuses capabilities and flags that it does not know.
 */
FI_EXT_INI
{
    ofi_prov.fi_version = fi_version();
    prov_rename();
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
 * MPI libraries print only the name of the call that failed, so this function prints the reason.
 * Several components of Open MPI open a fabric each, so a static flag ensures that a process prints
 * the reason only once.
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
                  "'fabemu status' lists the running fabrics"
                : "cannot reach the fabric at FABEMU_SOCKET=%s: %s",
            path, strerror(-err));
        return -FI_ENODATA;
    }
    return 0;
}
