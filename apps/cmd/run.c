/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.c - `fabemu run`: start a fabric, run a command on it, end both and leave nothing behind.
 *
 * This process is the supervisor. It is single-threaded, the parent of the fabric's process and of
 * the command, and a subreaper: it becomes the parent of descendants whose own parent has ended. It
 * waits in poll() for signals, events of the fabric and the next deadline. These are its phases,
 * and the bounds (--bound) that limit them:
 *
 *   RUNNING --(a node died, the fabric died, an interrupt, a standstill)--> ENDING
 *   ENDING   the command may end by itself                    -- bound end  --> TERM
 *   TERM     SIGTERM to all processes except the command      -- bound term --> KILL
 *   KILL     SIGKILL to these, SIGTERM to the command         -- bound last --> LAST
 *   LAST     SIGKILL to every descendant
 *   RUNNING --(the command ended, descendants are left)--> LEFTOVER -- bound leftover --> TERM
 *
 * The run is over when the command was reaped and no descendant is left. The command gets signals
 * later than its descendants, because it is usually a launcher such as mpirun, which is already
 * ending its job. If mpirun gets a signal during that time, it prints messages that would mislead
 * the user.
 */
#include "apps/timeline/timeline.h"
#include "apps/cmd/commands.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/command.h"
#include "apps/fabric/origin.h"
#include "apps/cmd/arrival.h"
#include "apps/cmd/host.h"
#include "apps/control/paths.h"
#include "apps/cmd/launch.h"
#include "apps/cmd/plan.h"
#include "apps/cmd/options.h"
#include "apps/base/procs.h"
#include "apps/daemon/report.h"
#include "apps/base/message.h"
#include "apps/cmd/scratch.h"
#include "apps/cmd/standstill.h"
#include "apps/web/web.h"
#include "emu/util/now.h"

#define AGAIN_MS 100 /* interval between checks of processes that are being killed */
/* if SIGKILL has not ended a process within this time, stop waiting for it */
#define GIVE_UP_MS     1800
#define LAST_EVENTS_MS 1000 /* longest wait for the last events of a fabric that has ended */

enum phase { RUNNING, LEFTOVER, ENDING, TERM, KILL, LAST };

struct run {
    struct host host;
    int signal_fd;
    const struct output *report; /* file of --report; fd -1: none */
    char **argv;                 /* the command with its arguments */
    char scratch[160];           /* folder for temporary files */
    pid_t command;
    bool command_done;
    int command_status; /* after the command's end: its status, as from wait() */
    enum phase phase;
    int64_t start_ms;
    int64_t end_ms;    /* when the command ended; 0: it still runs */
    int64_t phase_ms;  /* when the current phase began; not set in phase RUNNING */
    bool ends_at_once; /* this phase ends at once, for example because the user interrupted twice */
    struct emu_bounds bounds;
    bool keep_going;          /* --keep-going: the death of a process does not end the run */
    bool tsc;                 /* --tsc */
    int interrupted;          /* the first signal that requested the end; 0: none */
    bool failed;              /* a process on a node died, so the exit status is not 0 */
    bool fabric_lost;         /* the fabric ended before the command */
    bool ended_by_standstill; /* --standstill TIME:end ended the run */
    size_t deaths; /* number of attached processes that died before the run began to end */
    /* descendants that do not belong to the run: the page's server, and children that this process
     * had before it executed fabemu */
    pid_t foreign[65];
    size_t foreign_count;
    struct web *web; /* the web page's server, if there is one */
    struct standstill standstill;
    struct arrival arrival;
    char *runtime_dir; /* $XDG_RUNTIME_DIR, or NULL */
};

static void enter(struct run *run, enum phase phase)
{
    run->phase = phase;
    run->phase_ms = emu_now_ms();
    run->ends_at_once = false;
}

static void begin_ending(struct run *run)
{
    if (run->phase < ENDING)
        enter(run, ENDING);
}

/* --- events ------------------------------------------------------------------------- */

static void print_death(struct json_object *death, const char *then)
{
    char node[TOPO_SHOWN_BYTES];

    print_message("%s (pid %lld, %s) died: %s%s", json_show_node(death, node),
                  (long long)emu_json_number(death, "pid", 0), emu_json_text(death, "command", "?"),
                  emu_json_text(death, "how", "?"), then);
}

/*
 * After the death of a process on a node or the loss of a host, begin to end the run, unless
 * --keep-going was given. Returns text to append to the line about the failure; NULL: print no
 * line, because the failure is a consequence of the run's end.
 */
static const char *on_failure(struct run *run)
{
    if (run->phase >= ENDING)
        return NULL;
    if (run->command_done)
        return "";
    run->failed = true;
    if (run->keep_going)
        return "; the others go on";
    begin_ending(run);
    return "; ending the run";
}

static void on_death(struct run *run, struct json_object *event)
{
    const char *then = on_failure(run);

    if (!then)
        return;
    print_death(event, then);
    run->deaths++;
}

/* Print that a host is lost. An event "node_died" follows for each process on it. */
static void on_host_lost(struct run *run, struct json_object *event)
{
    const char *then = on_failure(run);

    if (then)
        print_message("host %s is lost: %s%s", emu_json_text(event, "name", "?"),
                      emu_json_text(event, "why", "?"), then);
}

/*
 * Handle a standstill. With :end the run ends, and the command gets SIGTERM, because a program that
 * stands still does not end by itself. If only mpirun gets the signal, it ends its ranks without a
 * message. If its ranks got the signal, too, it would print messages.
 */
static void on_standstill(struct run *run, struct json_object *event)
{
    bool runs = run->phase == RUNNING && !run->command_done;

    standstill_event(&run->standstill, event, runs);
    if (!runs || !run->standstill.printed || !run->standstill.ends_run)
        return;
    print_message("ending the run, which stands still (--standstill …:end); exit status %d",
                  EXIT_STANDSTILL);
    run->ended_by_standstill = true;
    begin_ending(run);
    if (run->command > 0) /* 0 while the run waits for a browser (--web=wait) */
        kill(run->command, SIGTERM);
}

/* Simulated time is over, so no segment arrives any more: end the run. */
static void on_time_over(struct run *run)
{
    if (run->phase >= ENDING || run->command_done)
        return;
    print_message("ending the run, because no simulated time is left");
    run->failed = true;
    begin_ending(run);
}

static void on_event(struct run *run, struct json_object *event)
{
    const char *what = emu_json_text(event, "event", "");
    char node[TOPO_SHOWN_BYTES];

    host_event(&run->host, event);
    host_print_event(event);
    if (strcmp(what, "attached") == 0) {
        arrival_event(&run->arrival, event);
    } else if (strcmp(what, "node_died") == 0) {
        on_death(run, event);
    } else if (strcmp(what, "host_lost") == 0) {
        on_host_lost(run, event);
    } else if (strcmp(what, "cut_off") == 0) {
        print_message("%s was cut off: its process does not receive its segments (is it stopped?)",
                      json_show_node(event, node));
    } else if (strcmp(what, "standstill") == 0) {
        on_standstill(run, event);
    } else if (strcmp(what, "time_over") == 0) {
        on_time_over(run);
    }
}

static void read_events(struct run *run)
{
    struct json_object *event;
    int end = conn_fill(&run->host.conn);

    while (conn_next(&run->host.conn, &event) == 1) {
        on_event(run, event);
        json_object_put(event);
    }
    if (end)
        conn_close(&run->host.conn);
}

/* Handle all events that the fabric sent before it ended. The last one has the final report. */
static void read_last_events(struct run *run)
{
    struct json_object *event;

    while (run->host.conn.fd >= 0 && conn_wait(&run->host.conn, &event, LAST_EVENTS_MS) == 0) {
        on_event(run, event);
        json_object_put(event);
    }
    conn_close(&run->host.conn);
}

static void on_host_end(struct run *run, int status)
{
    read_last_events(run);
    host_ended(&run->host);
    if (WIFSIGNALED(status))
        print_message("the fabric (pid %d) was killed by signal %d; ending the run",
                      (int)run->host.pid, WTERMSIG(status));
    else if (run->host.report)
        print_message("the fabric was shut down; ending the run");
    else
        print_message("the fabric (pid %d) failed; ending the run", (int)run->host.pid);
    run->host.pid = 0;
    run->host.status = status;
    run->fabric_lost = true;
    if (run->host.report) /* send it now, because the command may take long to end */
        web_send_report(run->web, run->host.report);
    begin_ending(run);
}

static void on_command_end(struct run *run, int status)
{
    run->command_done = true;
    run->end_ms = emu_now_ms();
    run->command_status = status;
    if (WIFSIGNALED(status) && run->phase == RUNNING)
        print_message("the command (pid %d, %s) was killed by signal %d", (int)run->command,
                      run->argv[0], WTERMSIG(status));
}

/* Remove @pid from run->foreign. It has ended, so a process of the run may get the same number. */
static void forget_foreign(struct run *run, pid_t pid)
{
    size_t kept = 0;

    for (size_t i = 0; i < run->foreign_count; i++)
        if (run->foreign[i] != pid)
            run->foreign[kept++] = run->foreign[i];
    run->foreign_count = kept;
}

static void reap_all(struct run *run)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        forget_foreign(run, pid);
        if (pid == run->command) {
            on_command_end(run, status);
        } else if (pid == run->host.pid) {
            on_host_end(run, status);
        } else if (pid == run->web->pid) {
            run->web->pid = 0;
            if (run->phase < ENDING)
                print_message("the web page's server has ended; the run goes on");
        }
    }
}

static void on_interrupt(struct run *run, const struct signalfd_siginfo *info)
{
    int signal = (int)info->ssi_signo;

    if (!run->interrupted)
        print_message("%s; ending the run", signal == SIGINT ? "interrupted" : strsignal(signal));
    if (!run->interrupted && run->phase == RUNNING)
        standstill_print_last(&run->standstill);
    else if (run->interrupted && run->phase == ENDING)
        run->ends_at_once = true;
    run->interrupted = run->interrupted ? run->interrupted : signal;
    begin_ending(run);
    /* the command has also received the signal if it comes from the terminal (SI_KERNEL) */
    if (info->ssi_code != SI_KERNEL && !run->command_done && run->command > 0)
        kill(run->command, signal);
}

static void read_signals(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD)
            on_interrupt(run, &info);
}

/* --- escalation --------------------------------------------------------------------- */

/* Send a signal to the command or, if @command is false, to all other processes in @left. */
static void signal_left(const struct run *run, const pid_t *left, size_t count, bool command,
                        int signal)
{
    for (size_t i = 0; i < count; i++)
        if ((left[i] == run->command && !run->command_done) == command)
            procs_signal(&left[i], 1, signal);
}

static uint64_t phase_bound_ms(const struct run *run)
{
    switch (run->phase) {
    case LEFTOVER:
        return run->bounds.leftover_ms;
    case ENDING:
        return run->bounds.end_ms;
    case TERM:
        return run->bounds.term_ms;
    case KILL:
        return run->bounds.last_ms;
    default:
        return EMU_BOUND_OFF;
    }
}

static bool phase_is_over(const struct run *run)
{
    return run->ends_at_once || (uint64_t)(emu_now_ms() - run->phase_ms) >= phase_bound_ms(run);
}

/* Enter the next phases that are due, and send their signals. @left: living descendants. */
static void escalate(struct run *run, const pid_t *left, size_t count)
{
    if (run->phase == LEFTOVER && phase_is_over(run)) {
        print_message("the command left %zu process%s behind; ending %s", count, plural_es(count),
                      count == 1 ? "it" : "them");
        enter(run, ENDING);
        run->ends_at_once = true;
    }
    if (run->phase == ENDING && phase_is_over(run)) {
        signal_left(run, left, count, false, SIGTERM);
        enter(run, TERM);
    }
    if (run->phase == TERM && phase_is_over(run)) {
        signal_left(run, left, count, true, SIGTERM);
        enter(run, KILL);
    }
    if (run->phase == KILL && phase_is_over(run))
        enter(run, LAST);
    if (run->phase >= KILL)
        signal_left(run, left, count, false, SIGKILL);
    if (run->phase == LAST)
        signal_left(run, left, count, true, SIGKILL);
}

/* Return the time until the next phase or check, in ms; -1: wait for an event. */
static int64_t next_step_ms(const struct run *run)
{
    uint64_t bound_ms = phase_bound_ms(run);

    if (run->phase >= KILL)
        return AGAIN_MS;
    if (bound_ms == EMU_BOUND_OFF)
        return -1;
    int64_t left_ms = run->phase_ms + (int64_t)bound_ms - emu_now_ms();
    return left_ms > 0 ? left_ms : 0;
}

/* Find living descendants that belong to the run. Returns their number, @max at most. */
static size_t find_left(const struct run *run, pid_t *left, size_t max)
{
    size_t found = procs_descendants(getpid(), run->host.pid, left, max);
    size_t count = 0;

    for (size_t i = 0; i < found; i++) {
        size_t j = 0;
        while (j < run->foreign_count && run->foreign[j] != left[i])
            j++;
        if (j == run->foreign_count)
            left[count++] = left[i];
    }
    return count;
}

/*
 * Reap processes, and take the steps that are due. Returns true when the run is over. *@timeout_ms:
 * gets the time to wait for events.
 */
static bool step(struct run *run, int64_t *timeout_ms)
{
    pid_t left[PROCS_MAX];
    size_t count = 0;

    *timeout_ms = -1;
    if (run->phase == RUNNING && !run->command_done) {
        arrival_print(&run->arrival);
        *timeout_ms = arrival_due_ms(&run->arrival);
        return false;
    }
    count = find_left(run, left, PROCS_MAX);
    if (run->command_done && count == 0)
        return true;
    if (run->phase == RUNNING)
        enter(run, LEFTOVER);
    escalate(run, left, count);
    *timeout_ms = next_step_ms(run);
    return run->phase == LAST && emu_now_ms() - run->phase_ms > GIVE_UP_MS;
}

static void wait_events(struct run *run, int page_fd, int64_t timeout_ms)
{
    struct pollfd fds[3] = {{run->signal_fd, POLLIN, 0},
                            {run->host.conn.fd, POLLIN, 0},
                            {page_fd, POLLIN, 0}};

    poll(fds, 3, (int)timeout_ms);
    if (fds[1].revents)
        read_events(run);
    read_signals(run);
    reap_all(run);
}

static void supervise(struct run *run)
{
    int64_t timeout_ms;

    reap_all(run);
    if (run->host.conn.fd >= 0) /* the buffer may have events that arrived together with "ready" */
        read_events(run);
    while (!step(run, &timeout_ms))
        wait_events(run, -1, timeout_ms);
}

/* Wait (--web=wait) until a browser has opened the page, its server has ended, or the run ends. */
static void await_browser(struct run *run)
{
    print_message("the command starts once a browser has opened the page");
    while (run->phase == RUNNING && run->web->pid > 0 && !web_opened(run->web))
        wait_events(run, run->web->child_fd, -1);
    if (run->phase != RUNNING)
        print_message("the run ended before a browser opened the page: the command was not "
                      "started");
    run->start_ms = emu_now_ms();
}

/* --- the end ------------------------------------------------------------------------ */

/* Return the exit status of the command itself, as a shell shows it. */
static int status_of_command(const struct run *run)
{
    int status = run->command_status;

    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int exit_status(const struct run *run)
{
    int status = status_of_command(run);

    if (run->interrupted)
        return 128 + run->interrupted;
    if (run->fabric_lost)
        return EXIT_FAILURE;
    if (run->ended_by_standstill)
        return EXIT_STANDSTILL;
    return status == 0 && run->failed ? EXIT_FAILURE : status;
}

/*
 * Correct the report's list of deaths. The first run->deaths entries were already printed. If the
 * supervisor has ended the run, the other processes died for that reason, and are deleted from the
 * list. Otherwise the events about their deaths arrived too late, and these deaths are printed now.
 */
static void settle_deaths(struct run *run, struct json_object *died)
{
    size_t count = emu_json_count(died);

    if (run->phase >= ENDING && count > run->deaths)
        json_object_array_del_idx(died, run->deaths, count - run->deaths);
    /* the supervisor has killed these processes, so they do not count */
    if (run->interrupted || run->ended_by_standstill)
        json_add_number(json_object_object_get(run->host.report, "processes"), "died", run->deaths);
    for (size_t i = run->deaths; run->phase < ENDING && i < count; i++)
        print_death(emu_json_at(died, i), "");
}

/* Add the fields of the report that only the supervisor knows. */
static void complete_report(struct run *run, int status)
{
    struct json_object *report = run->host.report;
    int64_t end_ms = run->end_ms ? run->end_ms : emu_now_ms(); /* 0: the command still runs */
    double wall_s = (double)(end_ms - run->start_ms) / 1000.0;
    char wall_text[32];

    snprintf(wall_text, sizeof wall_text, "%.3f", wall_s);
    json_object_object_add(report, "command", origin_words(run->argv));
    json_object_object_add(report, "exit_status",
                           run->command ? json_object_new_int(status) : NULL);
    standstill_report(&run->standstill, report);
    json_object_object_add(report, "wall_s", json_object_new_double_s(wall_s, wall_text));
}

/* Print and write the report. Returns @status, or EXIT_FAILURE if that is 0 and writing failed. */
static int finish_report(struct run *run, int status)
{
    struct json_object *report = run->host.report;

    report_print(stderr, report);
    if (run->report->fd >= 0 && report_write(run->report->fd, run->report->path, report))
        status = status ? status : EXIT_FAILURE;
    return status;
}

#define ANOTHER_NETWORK                                                              \
    "does an option of mpirun (--mca), a variable (FI_*, OMPI_MCA_*) or ~/.openmpi/" \
    "mca-params.conf select another network?"

/*
 * Return whether MPI_Init has probably failed in a process of the command. If so, nothing was sent,
 * and the first process that died has exited, or mpirun ended it by SIGTERM after another one had
 * exited. A process that has done its work detaches before it exits, so it does not count as dead.
 */
static bool failed_before_use(struct json_object *report)
{
    struct json_object *died = json_object_object_get(report, "died");
    const char *how = emu_json_text(emu_json_at(died, 0), "how", "");

    return emu_json_count(died) &&
           (strncmp(how, "exited", 6) == 0 || strcmp(how, "killed by signal 15") == 0) &&
           !json_object_object_get(report, "standstill") &&
           !emu_json_number(json_object_object_get(report, "segments"), "sent", 0) &&
           !emu_json_number(json_object_object_get(report, "combined"), "contributions", 0);
}

/* Print a hint if the command did not use the fabric. */
static void hint_if_unused(const struct run *run)
{
    struct json_object *report = run->host.report;
    bool attached = emu_json_number(json_object_object_get(report, "processes"), "attached", 0);
    int status = status_of_command(run);

    if (run->command <= 0)
        return; /* it did not start, and a message has said why */
    if (!attached && status)
        print_message("the command failed before any of its processes attached to the fabric; its "
                      "own messages may say why");
    else if (!attached)
        print_message("no process attached to the fabric: no process of the command opened it "
                      "through MPI, libfabric or libfabemu; " ANOTHER_NETWORK);
    else if (status && failed_before_use(report))
        print_message("the command failed before its processes sent anything over the fabric, to "
                      "which they had attached; " ANOTHER_NETWORK);
}

/*
 * Return @status, or EXIT_FAILURE if it is 0 and the program has not made the calls of the
 * recording (--compute replay:FILE).
 */
static int check_replay(struct json_object *report, int status)
{
    struct json_object *clock = json_object_object_get(report, "clock");
    struct json_object *compute = json_object_object_get(clock, "compute");
    long long differing = emu_json_number(compute, "differing", 0);
    long long unused = emu_json_number(compute, "unused", 0);

    if (!differing && !unused)
        return status;
    print_message("the program is not that of the recording (--compute): %lld process%s made other "
                  "calls, and %lld process%s of the recording did not run",
                  differing, plural_es(differing), unused, plural_es(unused));
    return status ? status : EXIT_FAILURE;
}

static int finish(struct run *run)
{
    scratch_remove(run->scratch);
    host_stop(&run->host);
    int status = exit_status(run);
    if (host_has_unwritten_files(&run->host))
        status = status ? status : EXIT_FAILURE;
    if (run->host.report) {
        settle_deaths(run, json_object_object_get(run->host.report, "died"));
        status = check_replay(run->host.report, status);
        complete_report(run, status);
        web_send_report(run->web, run->host.report);
    }
    web_stop(run->web);
    if (run->host.report) {
        status = finish_report(run, status);
    } else {
        print_message("there is no report, because the fabric ended before it could make one");
        status = status ? status : EXIT_FAILURE;
    }
    if (run->host.refused[0]) /* print the reason again, below the report */
        print_message("%s", run->host.refused);
    else if (run->host.report && !run->interrupted)
        hint_if_unused(run);
    host_release(&run->host);
    standstill_release(&run->standstill);
    return status;
}

/* --- the beginning ------------------------------------------------------------------ */

static const struct options_command run_command = {
    .name = "run",
    .operands = "-- COMMAND [ARGUMENTS]",
    .about = "Start a fabric, run COMMAND with an environment in which MPI and libfabric\n"
             "programs use the fabric, stop the fabric, and print a report. For example:\n"
             "    fabemu run --topo kary:2,2 -- mpirun -np 4 ./program",
    .groups = OPTIONS_NETWORK | OPTIONS_ANY_CLOCK | OPTIONS_FABRIC | OPTIONS_NAME | OPTIONS_REPORT |
              OPTIONS_FAULTS | OPTIONS_EVENTS | OPTIONS_BOUNDS | OPTIONS_KEEP | OPTIONS_CLUSTER |
              OPTIONS_LAUNCH | OPTIONS_CAPTURE | OPTIONS_WEB_WAIT | OPTIONS_PROVIDER |
              OPTIONS_COMPUTE,
    .command_follows = true,
};

static const struct option_row rows[] = {
    {"standstill", "TIME[:end]|off",
     "if nothing has moved for TIME (default 5s), report it; with :end, this also ends the run",
     .read = standstill_read},
};

static int check_operands(const struct options *options, int argc, char **argv)
{
    if (options->operands == argc)
        return options_usage_error("run", "no command to run; write it after '--', as in: fabemu "
                                          "run -- mpirun -np 4 ./program");
    if (!options->dashes)
        return options_usage_error("run",
                                   "write '--' before the command, as in: fabemu run "
                                   "[options] -- %.80s …",
                                   argv[options->operands]);
    return 0;
}

/*
 * Check that the network has enough nodes for the processes that mpirun will start. A node serves
 * one process. Without this check, Open MPI, libfabric and libfabemu would each print an error.
 */
static int check_processes(const struct topo_graph *graph, char *const *command)
{
    unsigned long processes = command_processes(command);
    char larger[96] = "";

    if (processes <= graph->nodes)
        return 0;
    if (!graph->label) /* a network from a file has a fixed size */
        snprintf(larger, sizeof larger, ", or take a larger network, for example --nodes %lu",
                 processes);
    print_message("%.80s starts %lu processes, but %.80s has %u nodes, each for one process; "
                  "start fewer processes%s",
                  command[0], processes, graph->spec, graph->nodes, larger);
    return EXIT_USAGE;
}

static int page_start(struct run *run, const char *name)
{
    char address[WEB_ADDRESS_BYTES], error[256];

    if (run->web->listen_fd < 0)
        return 0;
    int err = web_start(run->web, name, error, sizeof error);
    if (err) {
        print_message("%s", error);
        return err;
    }
    run->foreign[run->foreign_count++] = run->web->pid;
    web_address(run->web, address);
    print_message("page %s", address);
    return 0;
}

static void begin_command(struct run *run, const struct command_signals *signals)
{
    if (run->phase == RUNNING)
        run->command = command_start(run->argv, signals);
    run->command_done = run->command <= 0;
    if (run->command < 0) {
        print_message("cannot start %s: %s", run->argv[0], strerror((int)-run->command));
        run->failed = true;
    }
    arrival_begin(&run->arrival, run->argv[0]);
}

static int run_on(struct run *run, const struct fabric_config *config, struct plan *plan,
                  const struct command_signals *signals)
{
    char mark[64];
    char marked[96];
    char error[1024] = "";
    char path[256];

    snprintf(mark, sizeof mark, "%d.%lld", (int)getpid(), (long long)run->start_ms);
    snprintf(marked, sizeof marked, "%s=%s", COMMAND_MARK, mark);
    plan->host.mark = marked;
    run->web = &plan->web;
    int err = page_start(run, config->name) ? -EIO : 0;
    if (!err)
        err = host_start(&run->host, config, &plan->host, error, sizeof error);
    if (err) {
        if (*error)
            print_message("%s", error);
        web_stop(run->web);
        return host_start_status(err);
    }
    plan->begun = true;
    if (isatty(STDERR_FILENO)) /* the user may need the name for fabemu top, web, fault, … */
        print_message("fabric %s", config->name);
    web_fabric_ready(run->web);
    if (plan->web_waits)
        await_browser(run);
    if (run->runtime_dir) /* the command needs it, but plan_fabric() may have removed it */
        setenv("XDG_RUNTIME_DIR", run->runtime_dir, 1);
    scratch_path(run->scratch, sizeof run->scratch, run->host.socket.path, getpid());
    if (scratch_make(run->scratch))
        print_message(
            "cannot create %s (%s); set XDG_RUNTIME_DIR to a directory of yours with free space",
            run->scratch, strerror(errno));
    hosts_socket_anywhere(path, sizeof path, run->host.socket.path);
    if (command_environment(run->argv, plan->host.hosts ? path : run->host.socket.path,
                            config->provider, mark, run->scratch, error, sizeof error))
        print_message("%s", error);
    if (config->clock == EMU_CLOCK_VIRTUAL)
        command_prepare_virtual(run->tsc);
    begin_command(run, signals);
    supervise(run);
    return finish(run);
}

/*
 * Prepare this process: receive signals through a descriptor, become a subreaper, and ignore
 * signals about failed writes, so that write() returns an error. @before: gets the previous
 * settings, which are restored for the command.
 */
static void become_supervisor(struct run *run, struct command_signals *before)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t signals;

    host_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, &before->mask);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, the command's exit status would be lost */
    sigaction(SIGPIPE, &ignore, &before->pipe);
    sigaction(SIGXFSZ, &ignore, &before->file_size);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    run->foreign_count = procs_descendants(getpid(), 0, run->foreign, 64);
    run->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

int run_main(int argc, char **argv)
{
    struct run run = {.start_ms = emu_now_ms(), .standstill.after_ns = STANDSTILL_AFTER_NS};
    const struct option_table own = OPTION_TABLE(rows, &run.standstill);
    struct fabric_config config;
    struct topo_graph *graph;
    struct options options;
    struct plan plan;
    char name[32];
    struct command_signals before;

    int status = options_parse(&options, &run_command, &own, argc, argv);
    if (status >= 0)
        return status;
    status = check_operands(&options, argc, argv);
    if (status)
        return status;
    snprintf(name, sizeof name, PATHS_RUN_PREFIX "%d", (int)getpid());
    options.name = options.name ? options.name : name;
    if (getenv("XDG_RUNTIME_DIR"))
        run.runtime_dir = strdup(getenv("XDG_RUNTIME_DIR"));
    status = plan_fabric(&config, &graph, &options, options.name);
    if (status) {
        free(run.runtime_dir);
        return status;
    }
    run.argv = argv + options.operands;
    run.report = &plan.report;
    run.bounds = config.bounds;
    run.keep_going = options.keep_going;
    run.tsc = options.tsc;
    status = check_processes(graph, run.argv);
    if (!status)
        status = plan_make(&plan, &options, &config, NULL);
    if (!status) {
        /* this check is the last one: scripts/run gives an empty command to check all options */
        status = command_check(run.argv[0]);
        if (!status) {
            become_supervisor(&run, &before);
            status = run_on(&run, &config, &plan, &before);
            timeline_sweep(plan.host.timeline.path);
        }
        plan_release(&plan);
    }
    topo_free(graph);
    free(run.runtime_dir);
    return status;
}
