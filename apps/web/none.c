/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * none.c - replaces the server in a build without libmicrohttpd. web_open() then returns an error.
 */
#include <errno.h>

#include "apps/base/message.h"
#include "apps/web/web.h"

bool web_supported(void)
{
    return false;
}

int web_serve(struct web *web, const char *name, int signal_fd,
              void (*ready)(const struct web *web), char *error, size_t error_bytes)
{
    (void)web, (void)name, (void)signal_fd, (void)ready;
    return fail(-ENOSYS, error, error_bytes, "this build has no web server");
}
