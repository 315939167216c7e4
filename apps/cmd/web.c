/* SPDX-License-Identifier: BSD-3-Clause */
/* web.c - `fabemu web`: show a running fabric or a recording on a web page. */
#include <ctype.h>
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

#define BEGIN "{\"event\":\"telemetry_shape\"" /* the first line of every recording */

static const struct option_row rows[] = {
    {"port", "PORT", "port at the address 127.0.0.1 (default: any free port)",
     OPTIONS_RANGE(1, 65535)},
};

static const struct options_command web_command = {
    .name = "web",
    .operands = "[NAME|FILE]",
    .about = "Serve a web page of the running fabric NAME (or \"default\") to this user's\n"
             "browser, or of the recording FILE, which run, up (--record) or traffic\n"
             "(--telemetry) has written. The command runs until the fabric ends, or until it\n"
             "is interrupted.\n"
             "docs/web.md explains the page, and the key ? lists its keys.",
};

static void print_address(const struct web *web)
{
    char address[WEB_ADDRESS_BYTES];

    web_address(web, address);
    printf("page %s%s\n", address, web->recording_fd < 0 ? "" : "#recording");
    fflush(stdout);
    if (isatty(STDERR_FILENO))
        print_message("web: Ctrl-C ends the page");
}

/* Return whether @text is the beginning of a recording. Ignores white space. */
static bool is_beginning(const char *text, size_t bytes)
{
    const char *expected = BEGIN;

    for (size_t i = 0; i < bytes && *expected; i++)
        if (!isspace((unsigned char)text[i]) && text[i] != *expected++)
            return false;
    return !*expected;
}

/*
 * Connect to the running fabric @what or, if there is none of this name, open the file @what.
 * Errors, with one line in @error: -EINVAL, the file cannot be read or is not a recording; as
 * paths_connect().
 */
static int open_what(struct web *web, const char *what, char *error, size_t error_bytes)
{
    struct stat st;
    char begin[2 * sizeof BEGIN];
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
        return fail(-EINVAL, error, error_bytes, "cannot read %s: %s", what, strerror(errno));
    if (fstat(web->recording_fd, &st) < 0 || !S_ISREG(st.st_mode))
        return fail(-EINVAL, error, error_bytes, "%s is not a file", what);
    ssize_t bytes = pread(web->recording_fd, begin, sizeof begin, 0);
    if (bytes < 0 || !is_beginning(begin, (size_t)bytes))
        return fail(-EINVAL, error, error_bytes,
                    "%s is not a recording (--record): it does not begin with telemetry_shape",
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
    int err = web_serve(web, web->recording_fd < 0 ? name : NULL, signal_fd, print_address, error,
                        sizeof error);
    if (err)
        print_message("%s", error);
    if (signal_fd >= 0)
        close(signal_fd);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int web_main(int argc, char **argv)
{
    uint32_t port = 0;
    struct options options;
    struct web web;
    char error[512];
    const char *what;
    struct option_table own = OPTION_TABLE(rows, &port);
    int status = options_parse_name(&options, &what, &web_command, &own, argc, argv);

    if (status >= 0)
        return status;
    int err = web_open(&web, (uint16_t)port, error, sizeof error) ? -EIO : 0;
    if (!err)
        err = open_what(&web, what, error, sizeof error);
    if (err)
        print_message("%s", error);
    status = err ? exit_status_of(err) : serve(&web, what);
    web_close(&web);
    if (web.recording_fd >= 0)
        close(web.recording_fd);
    return status;
}
