/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * web.c - `fabemu web`: the page of a fabric that runs already, or of a recording.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/cmd/options.h"
#include "apps/base/message.h"
#include "apps/cmd/host.h"
#include "apps/control/paths.h"
#include "apps/cmd/commands.h"
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
    .operands = "[NAME|FILE]",
    .about = "Serve the page of the running fabric NAME (default), or of the recording FILE\n"
             "that run, up (--record) or traffic (--telemetry) has written, to this user's\n"
             "browser, until the fabric ends or this is interrupted. docs/web.md explains what\n"
             "it shows, and its keys.",
};

static void say_address(const struct web *web)
{
    char address[WEB_ADDRESS_BYTES];

    web_address(web, address);
    printf("page %s%s\n", address, web->recording_fd < 0 ? "" : "#recording");
    fflush(stdout);
}

/* Is @what the name of a running fabric, or else of a file? Errors: neither; one line in @error. */
static int open_what(struct web *web, const char *what, char *error, size_t error_bytes)
{
    struct stat st;
    char first;
    int fd, err = paths_connect(&fd, NULL, what, error, error_bytes);

    if (!err) {
        close(fd);
        return 0;
    }
    if (stat(what, &st) < 0 && !strchr(what, '/')) {
        if ((err != -ENOENT && err != -EINVAL) || strcmp(what, "default") == 0)
            return err;
        return fail(err, error, error_bytes,
                    "there is neither a running fabric nor a file named '%.80s'; 'fabemu status' "
                    "lists the fabrics",
                    what);
    }
    web->recording_fd = open(what, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (web->recording_fd < 0)
        return fail(-errno, error, error_bytes, "cannot read %s: %s", what, strerror(errno));
    if (fstat(web->recording_fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fail(-EINVAL, error, error_bytes, "%s is not a file", what);
    if (pread(web->recording_fd, &first, 1, 0) == 1 && first != '{')
        return fail(-EINVAL, error, error_bytes, "%s is not a recording (--record): it is not JSON",
                    what);
    return 0;
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
    int err = web_serve(web, web->recording_fd < 0 ? name : NULL, signal_fd, say_address, error,
                        sizeof error);
    if (err)
        print_message("%s", error);
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
        return options_usage_error("web", "give one name, or one file");
    const char *what = argc > options.operands ? argv[options.operands]
                                               : paths_default(options.running);
    if (web_open(&web, port, error, sizeof error) || open_what(&web, what, error, sizeof error)) {
        print_message("%s", error);
        status = EXIT_FAILURE;
    } else {
        status = serve(&web, what);
    }
    web_close(&web);
    if (web.recording_fd >= 0)
        close(web.recording_fd);
    return status;
}
