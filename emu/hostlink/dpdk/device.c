/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - parse the text that names a device: NAME[,KEY=VALUE]..., in DPDK's syntax. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/hostlink/dpdk/dpdk.h"

int dpdk_fail(const struct dpdk_error *error, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error->text, error->bytes, format, args);
    va_end(args);
    return err;
}

/* Return the start of the value of @key; NULL if it is not given. */
static const char *argument_at(const struct dpdk_device *device, const char *key)
{
    size_t length = strlen(key);

    for (const char *at = strchr(device->text, ','); at; at = strchr(at, ',')) {
        at++;
        if (strncmp(at, key, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

bool dpdk_argument(const struct dpdk_device *device, const char *key, char *ret, size_t ret_bytes)
{
    const char *value = argument_at(device, key);

    if (value)
        snprintf(ret, ret_bytes, "%.*s", (int)strcspn(value, ","), value);
    return value;
}

uint32_t dpdk_number(const struct dpdk_device *device, const char *key, uint32_t otherwise,
                     bool *bad)
{
    char value[24], *end;

    if (!dpdk_argument(device, key, value, sizeof value))
        return otherwise;
    unsigned long number = strtoul(value, &end, 10);
    if (!isdigit((unsigned char)value[0]) || *end || number > UINT32_MAX)
        *bad = true;
    return (uint32_t)number;
}

void dpdk_argument_add(struct dpdk_device *device, const char *key, uint32_t value)
{
    size_t at = strlen(device->text);

    if (!argument_at(device, key))
        snprintf(device->text + at, sizeof device->text - at, ",%s=%u", key, value);
}

/* Check that there is an adapter with this PCI address. */
static int address_check(const struct dpdk_device *device, const struct dpdk_error *error)
{
    char path[128];

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s%s",
             strlen(device->name) < sizeof "0000:00:00.0" - 1 ? "0000:" : "", device->name);
    if (access(path, F_OK) != 0)
        return dpdk_fail(error, -ENODEV, "%s: no adapter has this address (lspci -D shows them)",
                         device->name);
    return 0;
}

static int interface_read(struct dpdk_device *device, const struct dpdk_error *error)
{
    struct dpdk_interface *interface = &device->interface;
    char value[64];

    if (!dpdk_argument(device, "iface", value, sizeof value) || !value[0])
        return dpdk_fail(error, -EINVAL, "%s: which interface? say %s,iface=NAME", device->name,
                         device->name);
    if (strlen(value) >= sizeof interface->name)
        return dpdk_interface_missing(device, value, error);
    memcpy(interface->name, value, strlen(value) + 1);
    return dpdk_interface_check(interface, device, error);
}

int dpdk_device_read(struct dpdk_device *ret, const char *text, uint32_t frame_bytes,
                     const struct dpdk_error *error)
{
    size_t name = strcspn(text, ",");
    int err = 0;

    *ret = (struct dpdk_device){.frame_wanted = frame_bytes};
    /* Leave space for the arguments that kind.c adds. */
    if (name == 0 || name >= sizeof ret->name || strlen(text) > sizeof ret->text - 128)
        return dpdk_fail(error, -EINVAL, "\"%.40s\" is no device: %s", text,
                         name == 0 ? "it has no name" : "it is too long");
    for (const char *c = text; *c; c++)
        if (!isgraph((unsigned char)*c))
            return dpdk_fail(error, -EINVAL,
                             "\"%.40s\" is not the name of a device: it contains a space or an "
                             "unprintable character",
                             text);
    memcpy(ret->name, text, name);
    memcpy(ret->text, text, strlen(text) + 1);
    ret->kind = dpdk_kind_of(ret->name);
    ret->frame_bytes = frame_bytes;
    if (dpdk_is_address(ret->name))
        err = address_check(ret, error);
    else if (strncmp(ret->name, "net_", 4) != 0)
        err = dpdk_fail(error, -EINVAL,
                        "\"%s\" is no device: say net_af_packet0,iface=NAME or another of DPDK's "
                        "net_... devices, or the PCI address of an adapter",
                        ret->name);
    if (err == 0 && ret->kind->has_interface)
        err = interface_read(ret, error);
    if (err == 0 && ret->kind->arguments)
        err = ret->kind->arguments(ret, error);
    return err;
}
