/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * command.c - `fabemu web`: the page of a fabric that runs already.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "apps/cli/options.h"
#include "apps/cli/say.h"
#include "apps/run/host.h"
#include "apps/run/run.h"
#include "apps/web/web.h"

static bool read_port(void *into, const char *value, const char **right)
{
    uint64_t port = 0;

    *right = "a number from 1 to 65535";
    if (!options_count(value, 1, UINT16_MAX, &port))
        return false;
    *(uint16_t *)into = (uint16_t)port;
    return true;
}

static const struct options_own own[] = {
    {"port", "PORT", "of the address 127.0.0.1 (default: any that is free)", read_port},
};

static const struct options_command web_command = {
    .name = "web",
    .operands = "[NAME]",
    .about = "Serve the page of the running fabric NAME (default), to this user's browser, until "
             "the\nfabric ends or this is interrupted. docs/web.md says what it shows, and its "
             "keys.",
};

static void say_address(const struct web *web)
{
    char address[WEB_ADDRESS_BYTES];

    web_address(web, address);
    printf("page %s\n", address);
    fflush(stdout);
}

static int serve(struct web *web, const char *name)
{
    char error[512];
    sigset_t signals;

    host_signals(&signals);
    sigdelset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int err = web_serve(web, name, signal_fd, say_address, error, sizeof error);
    if (err)
        say("%s", error);
    if (signal_fd >= 0)
        close(signal_fd);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int web_main(int argc, char **argv)
{
    uint16_t port = 0;
    struct options options;
    struct web web;
    char error[512];
    int status = options_parse_own(&options, &web_command,
                                   &(struct options_owns){own, sizeof own / sizeof own[0], &port},
                                   argc, argv);

    if (status >= 0)
        return status;
    if (argc - options.operands > 1)
        return options_usage_error("web", "give one name");
    if (web_open(&web, port, error, sizeof error)) {
        say("%s", error);
        return EXIT_FAILURE;
    }
    status = serve(&web, argc > options.operands ? argv[options.operands] : "default");
    web_close(&web);
    return status;
}
