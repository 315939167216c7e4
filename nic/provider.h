/* SPDX-License-Identifier: BSD-3-Clause */
/* provider.h - the name of the libfabric provider, for the provider and for the fabemu command */
#ifndef NIC_PROVIDER_H
#define NIC_PROVIDER_H

#include <stdbool.h>
#include <string.h>

#define PROVIDER_NAME          "fabemu"
#define PROVIDER_NAME_VARIABLE "FABEMU_PROVIDER_NAME" /* another name for the provider */
#define PROVIDER_NAME_MAX      31
#define PROVIDER_NAME_FORM                                                                        \
    "up to 31 letters, digits, '_' and '-', with a letter first, such as cxi; it must not begin " \
    "with ofi_ or off_"

/**
 * provider_name_is_valid - return whether the provider may have this name. The prefixes ofi_ and
 * off_ are excluded, because libfabric treats such providers differently. Pure.
 */
static inline bool provider_name_is_valid(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = strlen(name);

    return length && length <= PROVIDER_NAME_MAX && strspn(name, allowed) == length &&
           strspn(name, letters) && strncmp(name, "ofi_", 4) != 0 && strncmp(name, "off_", 4) != 0;
}

#endif
