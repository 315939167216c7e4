/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the `fabemu` command. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/base/message.h"
#include "apps/cmd/commands.h"
#include "apps/cmd/launch.h"
#include "apps/cmd/options.h"
#include "emu/util/nearest.h"

#ifndef FABEMU_VERSION
#define FABEMU_VERSION "0.1"
#endif

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
    const char *about;
} commands[] = {
    {"run", run_main, "start a fabric, run a command on it, and print a report"},
    {"up", up_main, "start a fabric that runs until 'fabemu down'"},
    {"join", join_main, "run this host's part of a fabric that spans several hosts"},
    {"down", down_main, "stop a running fabric"},
    {"status", status_main, "show running fabrics and their processes (also: ls)"},
    {"top", top_main, "watch nodes, links, switches and collectives in a terminal"},
    {"web", web_main, "show a running fabric or a recording on a web page"},
    {"check", check_main, "check the internal state of a running fabric"},
    {"env", env_main, "print the environment for programs that use a running fabric"},
    {"topo", topo_main, "print, check or save a network topology"},
    {"fault", fault_main, "inject, list or clear faults; check a schedule of faults"},
    {"capture", capture_main, "capture segments of a running fabric, for Wireshark"},
    {"cluster", cluster_main, "check a cluster file, which places a network on several hosts"},
    {"traffic", traffic_main, "simulate synthetic traffic, and measure latency and throughput"},
    {"compare", compare_main, "run a program in simulated time on several networks"},
    {"figures", figures_main, "reproduce figures of two papers, and compare the results"},
    {"bench", bench_main, "measure the speed of the emulator"},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static int help(void)
{
    printf("usage: fabemu COMMAND [options]\n\n"
           "An emulated network fabric for unmodified MPI and libfabric programs.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s %s\n", commands[i].name, commands[i].about);
    printf("\n  fabemu COMMAND --help    the options of a command (also fabemu help COMMAND)\n"
           "  fabemu --version         the version (also -V, version)\n\n"
           "For example: fabemu run --topo kary:2,2 -- mpirun -np 4 ./program\n\n"
           "Manual pages: fabemu(1), fabemu-COMMAND(1), fabemu(7). In a checkout, read them\n"
           "with: man -l build/docs/man1/fabemu-run.1\n"
           "Other texts refer to pages docs/NAME.md: these are in the source tree, and in\n"
           "share/doc/fabemu of an installation.\n");
    return EXIT_SUCCESS;
}

/*
 * The parent process may have closed standard input, output or error. A file or socket that we open
 * would get the number of the closed one, and our messages would go into it. So open /dev/null
 * instead.
 */
static void open_standard(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static int check_output(int status)
{
    if (fflush(stdout))
        print_message("standard output: %s", strerror(errno));
    else if (ferror(stdout)) /* an earlier write failed: write again to get its errno */
        print_message("standard output: %s",
                      write(STDOUT_FILENO, "\n", 1) < 0 ? strerror(errno) : "some output is lost");
    else
        return status;
    return status ? status : EXIT_FAILURE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return options_usage_error("", "no command");
    if (strcmp(argv[1], "help") == 0 && argc == 3)
        return dispatch(3, (char *[]){argv[0], argv[2], "--help", NULL});
    if (strcmp(argv[1], "help") == 0 && argc > 3)
        return options_usage_error("", "help takes only one command; '%.80s' is one too many",
                                   argv[3]);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help();
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0 ||
        strcmp(argv[1], "version") == 0) {
        puts("fabemu " FABEMU_VERSION);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "ls") == 0)
        return status_main(argc - 1, argv + 1);
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].main(argc - 1, argv + 1);
    struct nearest nearest = nearest_to(argv[1]);
    for (size_t i = 0; i < COMMANDS; i++)
        nearest_try(&nearest, commands[i].name);
    nearest_try(&nearest, "--help");
    nearest_try(&nearest, "--version");
    if (strcmp(argv[1], "list") == 0)
        nearest.name = "ls";
    return options_usage_error("", "no command '%.80s'%s", argv[1],
                               nearest_question(&nearest, "").text);
}

int main(int argc, char **argv)
{
    open_standard();
    return check_output(dispatch(argc, argv));
}
