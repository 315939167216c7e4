/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.c - a fabric on several hosts (--cluster): see launch.h.
 *
 * A launcher such as ssh is started once for each other host, as LAUNCHER HOST COMMAND-LINE.
 * LAUNCHER is the value of --launch, split into words. A shell on that host executes the command
 * line. If a word of LAUNCHER contains %h, the host's name replaces %h, and only the command line
 * is appended.
 */
#include "apps/cmd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/command.h"
#include "apps/base/message.h"
#include "apps/control/paths.h"
#include "emu/util/now.h"

#define LINE_BYTES   16384
#define END_MS       2000 /* longest wait for launchers to end */
#define END_CHECK_MS 10   /* interval between checks whether launchers have ended */

/* The launchers that this process has started, by host. */
static struct launcher {
    const char *command; /* value of --launch; NULL: no launcher was started for this host */
    pid_t pid;           /* 0: it has ended */
    int status;          /* after it has ended: as from wait() */
} launchers[CLUSTER_HOSTS_MAX];

/* Append a space and @word, quoted for a shell, to @line. Returns false if it does not fit. */
static bool add_word(char *line, const char *word)
{
    size_t at = strlen(line);

    if (at + 4 >= LINE_BYTES)
        return false;
    line[at++] = ' ';
    line[at++] = '\'';
    for (; *word; word++) {
        const char *as = *word == '\'' ? "'\\''" : (const char[]){*word, '\0'};

        if (at + 8 >= LINE_BYTES)
            return false;
        at += (size_t)sprintf(line + at, "%s", as);
    }
    line[at++] = '\'';
    line[at] = '\0';
    return true;
}

static bool add_option(char *line, const char *name, const char *value)
{
    char word[80];

    snprintf(word, sizeof word, "--%s", name);
    return add_word(line, word) && (!value || add_word(line, value));
}

/*
 * Write `cd FOLDER && exec PROGRAM` to @line, with the working folder and the executable of this
 * process. Errors: -errno; -E2BIG, the line is too long.
 */
static int begin_line(char *line)
{
    char cwd[PATH_MAX], self[PATH_MAX];
    ssize_t bytes = readlink("/proc/self/exe", self, sizeof self - 1);
    bool fits;

    if (bytes < 0 || !getcwd(cwd, sizeof cwd))
        return -errno;
    self[bytes] = '\0';
    strcpy(line, "cd");
    fits = add_word(line, cwd);
    if (fits && strlen(line) + 10 < LINE_BYTES)
        strcat(line, " && exec");
    return fits && add_word(line, self) ? 0 : -E2BIG;
}

static int join_line(const struct hosts_plan *plan, const char *fabric, uint32_t h, char *line)
{
    const struct options *options = plan->options;
    bool fits = add_word(line, "join") && add_option(line, "cluster", options->cluster) &&
                add_option(line, "host", plan->cluster.host[h].name) &&
                add_option(line, "name", fabric);

    for (unsigned i = 0; fits && i < options->shared_count; i++)
        fits = add_option(line, options->shared[i].name, options->shared[i].value);
    return fits ? 0 : -E2BIG;
}

/*
 * Return a word of LAUNCHER, with @host in place of %h. Sets *@named to true if the word contains
 * %h.
 */
static char *launcher_word(char *word, const char *host, bool *named)
{
    char *at = strstr(word, "%h"), *with;

    if (!at)
        return word;
    *named = true;
    *at = '\0';
    return asprintf(&with, "%s%s%s", word, host, at + 2) < 0 ? word : with;
}

static void exec_launcher(const char *launcher, const char *host, char *line)
{
    char *words = strdup(launcher), *argv[64];
    size_t count = 0;
    int null = open("/dev/null", O_RDWR);
    bool named = false;
    sigset_t none;

    for (char *word = strtok(words, " "); word && count < 60; word = strtok(NULL, " "))
        argv[count++] = launcher_word(word, host, &named);
    if (!named)
        argv[count++] = (char *)(uintptr_t)host;
    argv[count++] = line;
    argv[count] = NULL;
    dup2(null, STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(argv[0], argv);
    print_message("cannot execute %s to start host %s: %s; choose another launcher with --launch",
                  argv[0], host, strerror(errno));
    _exit(127);
}

static int same_line(const struct hosts_plan *plan, char *const *argv, uint32_t h, char *line)
{
    bool fits = true;

    for (; fits && *argv; argv++)
        fits = add_word(line, *argv);
    return fits && add_option(line, "host", plan->cluster.host[h].name) &&
                   add_option(line, "launch", "none")
               ? 0
               : -E2BIG;
}

/* Start the command @argv on all other hosts or, if @argv is NULL, `fabemu join` for @fabric. */
static int launch_all(const struct hosts_plan *plan, const char *fabric, char *const *argv)
{
    char line[LINE_BYTES];
    int err;

    for (uint32_t h = 1; plan->launcher && h < plan->cluster.hosts; h++) {
        pid_t parent = getpid(), pid;

        err = begin_line(line);
        if (!err)
            err = argv ? same_line(plan, argv, h, line) : join_line(plan, fabric, h, line);
        if (err)
            return err;
        pid = fork();
        if (pid < 0)
            return -errno;
        if (pid > 0) {
            launchers[h] = (struct launcher){.command = plan->launcher, .pid = pid};
            continue;
        }
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(EXIT_FAILURE);
        exec_launcher(plan->launcher, plan->name[h], line);
    }
    return 0;
}

int hosts_launch(const struct hosts_plan *plan, const char *fabric)
{
    return launch_all(plan, fabric, NULL);
}

int hosts_launch_same(const struct hosts_plan *plan, char *const *argv)
{
    return launch_all(plan, NULL, argv);
}

bool hosts_launch_failed(uint32_t host, char *text, size_t bytes)
{
    struct launcher *launcher = &launchers[host];

    if (launcher->pid && waitpid(launcher->pid, &launcher->status, WNOHANG) == launcher->pid)
        launcher->pid = 0;
    if (!launcher->command || launcher->pid || !launcher->status)
        return false;
    if (WIFSIGNALED(launcher->status))
        snprintf(text, bytes, "its launcher (%.60s) was killed by signal %d", launcher->command,
                 WTERMSIG(launcher->status));
    else
        snprintf(text, bytes, "its launcher (%.60s) has ended with status %d", launcher->command,
                 WEXITSTATUS(launcher->status));
    return true;
}

void hosts_launched_end(void)
{
    int64_t until_ms = emu_now_ms() + END_MS;

    while (waitpid(-1, NULL, WNOHANG) >= 0 && emu_now_ms() < until_ms)
        poll(NULL, 0, END_CHECK_MS);
}

/*
 * Find this host in the cluster file by @given (--host) or, if that is NULL, by the hostname, first
 * with and then without its domain. Returns its index; CLUSTER_HOSTS_MAX: not found.
 */
static uint32_t find_self(const struct cluster *cluster, const char *given)
{
    char name[256];
    uint32_t host;

    if (given)
        return cluster_host(cluster, given);
    hosts_node_name(name, sizeof name);
    host = cluster_host(cluster, name);
    if (host == CLUSTER_HOSTS_MAX) {
        name[strcspn(name, ".")] = '\0';
        host = cluster_host(cluster, name);
    }
    return host;
}

static int check_self(const struct hosts_plan *plan, const struct options *options,
                      enum hosts_role role)
{
    const char *first = plan->cluster.host[0].name;
    char name[256];

    hosts_node_name(name, sizeof name);
    if (plan->self == CLUSTER_HOSTS_MAX) {
        print_message("%s: no host is named '%s'; give --host NAME, where NAME is this host's name "
                      "in the file",
                      options->cluster, options->host ? options->host : name);
        return EXIT_USAGE;
    }
    if (role == HOSTS_COORDINATOR && plan->self) {
        print_message("%s: its first host, %s, coordinates the fabric; start the fabric there",
                      options->cluster, first);
        return EXIT_USAGE;
    }
    if (role == HOSTS_AGENT && !plan->self) {
        print_message("%s: %s is its first host; start the fabric there, with fabemu run or up",
                      options->cluster, first);
        return EXIT_USAGE;
    }
    return 0;
}

int hosts_plan_make(struct hosts_plan *ret, const struct options *options,
                    const struct fabric_config *config, enum hosts_role role)
{
    char error[CLUSTER_ERROR_BYTES];
    int status = 0;

    *ret = (struct hosts_plan){.options = options, .launcher = options->launch};
    if (cluster_read(&ret->cluster, options->cluster, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_USAGE;
    }
    ret->self = find_self(&ret->cluster, options->host);
    ret->host_of = calloc(config->graph->switches, sizeof *ret->host_of);
    for (uint32_t h = 0; h < ret->cluster.hosts; h++)
        ret->name[h] = ret->cluster.host[h].name;
    status = ret->host_of ? check_self(ret, options, role) : EXIT_FAILURE;
    if (!status && cluster_place(&ret->cluster, config->graph, ret->host_of, error, sizeof error)) {
        print_message("%s: %s", options->cluster, error);
        status = EXIT_USAGE;
    }
    if (status)
        hosts_plan_release(ret);
    return status;
}

void hosts_plan_release(struct hosts_plan *plan)
{
    free(plan->host_of);
    plan->host_of = NULL;
    cluster_release(&plan->cluster);
}
