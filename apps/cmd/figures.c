/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * figures.c - `fabemu figures`: execute the Python program in scripts/figures.
 *
 * The program gets the path of this executable as an argument, and runs it to measure. Debian's
 * python3 is preferred to others in PATH, because Debian's package of matplotlib works with it.
 */
#include <stdbool.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/fabric/origin.h"
#include "apps/cmd/figures_build.h"
#include "apps/cmd/commands.h"
#include "apps/base/message.h"
#include "apps/base/procs.h"

#define DEBIAN_PYTHON "/usr/bin/python3"

/*
 * Possible places of the program, relative to this executable's folder. FIGURES_SOURCE is tried
 * last.
 */
static const char *const places[] = {"../scripts/figures", "../share/fabemu/figures", NULL};

static bool is_runner(const char *folder)
{
    char path[PATH_MAX + sizeof "/__main__.py"];

    snprintf(path, sizeof path, "%s/__main__.py", folder);
    return access(path, R_OK) == 0;
}

static bool find_runner(char *ret, size_t ret_bytes, const char *exe)
{
    const char *slash = strrchr(exe, '/');
    int bytes = slash ? (int)(slash - exe) : 0;

    for (const char *const *place = places; *place; place++) {
        snprintf(ret, ret_bytes, "%.*s/%s", bytes, exe, *place);
        if (is_runner(ret))
            return true;
    }
    snprintf(ret, ret_bytes, "%s", FIGURES_SOURCE);
    return is_runner(ret);
}

int figures_main(int argc, char **argv)
{
    char exe[PATH_MAX - 64]; /* the rest of PATH_MAX is for one of places[] */
    char runner[PATH_MAX], error[256];
    ssize_t bytes = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (procs_check(error, sizeof error)) {
        print_message("%s", error);
        return EXIT_FAILURE;
    }
    exe[bytes > 0 ? bytes : 0] = '\0';
    if (!find_runner(runner, sizeof runner, exe)) {
        print_message("there is no %s/__main__.py; run fabemu from its build folder, or install it",
                      FIGURES_SOURCE);
        return EXIT_FAILURE;
    }
    /*
     * PYTHON -B RUNNER --fabemu EXE --origin JSON, then the user's arguments and NULL. Python finds
     * its packages relative to argv[0].
     */
    struct json_object *origin = origin_json(NULL);
    char *text = strdup(json_object_to_json_string(origin));
    json_object_put(origin);
    char **args = calloc((size_t)argc + 7, sizeof *args);
    if (!args || !text) {
        print_message("out of memory");
        return EXIT_FAILURE;
    }
    char *const head[] = {DEBIAN_PYTHON, "-B", runner, "--fabemu", exe, "--origin", text};
    memcpy(args, head, sizeof head);
    memcpy(args + 7, argv + 1, (size_t)argc * sizeof *args);
    execv(args[0], args);
    args[0] = "python3";
    execvp(args[0], args);
    print_message("cannot run python3: %s; install it: apt-get install python3 python3-matplotlib",
                  strerror(errno));
    free(args);
    free(text);
    return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
