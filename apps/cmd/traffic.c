/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic.c - `fabemu traffic`: simulate synthetic traffic of nodes inside the fabric. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/cluster/links.h"
#include "apps/cmd/launch.h"
#include "apps/cmd/plan.h"
#include "apps/cmd/options.h"
#include "apps/fabric/origin.h"
#include "apps/base/output.h"
#include "apps/cmd/commands.h"
#include "apps/base/amount.h"
#include "apps/base/message.h"
#include "apps/base/silence.h"
#include "apps/traffic/goal/goal.h"
#include "apps/traffic/hosts.h"
#include "apps/traffic/live.h"
#include "apps/cmd/traffic.h"
#include "apps/traffic/run.h"
#include "apps/web/web.h"
#include "emu/util/now.h"

#define PROGRESS_MS      100 /* time between two updates of the progress and checks for signals */
#define EXIT_INTERRUPTED (128 + SIGINT)
#define BUILDING         "traffic: building the network"

static const struct options_command traffic_command = {
    .name = "traffic",
    .operands = "",
    .about = "Send synthetic traffic through a fabric in simulated time, and measure it. The\n"
             "same seed gives the same digest with any number of threads. docs/traffic.md\n"
             "defines every figure.\n\n"
             "Patterns: uniform; transpose, reversal, complement, tornado, neighbour (each\n"
             "node to one other); permutation:N (each node to one other, by the Nth random\n"
             "permutation of the seed); alltoall (to all others in turn);\n"
             "hotspot:NODE:FRACTION; file:PATH (each line is a destination, or a source and a\n"
             "destination); multicast (to sets of nodes); md (1 node in 16 sends multicasts,\n"
             "each to 16 nodes on average); reduce, barrier, allreduce (one operation after\n"
             "the other).\n\n"
             "Times are simulated, and have units: 500ns, 2us, 1ms.\n"
             "Loads are fractions of the link rate, headers included: 0.5, 50%.\n\n"
             "--cluster on the first host of FILE starts the same command on the other hosts.\n"
             "The results are the same as on one host (docs/hosts.md).",
    .more = "A GOAL file (the format of LogGOPSim and ATLAHS) is a program. Labels, tag\n"
            "(default 0), cpu (default 0, at most 255) and nic (no effect) are optional:\n\n"
            "  num_ranks 2\n"
            "  rank 0 {\n"
            "    a: calc 1500 cpu 1        // computes for 1500 ns\n"
            "    b: send 4096b to 1 tag 7\n"
            "    b requires a              // b starts when a is complete\n"
            "    c: recv 0b from 1 nic 0\n"
            "    c irequires b             // c starts when b has started\n"
            "  }\n"
            "  rank 1 {                    /* -1: any source, any tag */\n"
            "    recv 4096b from -1 tag -1\n"
            "    send 0b to 0\n"
            "  }\n",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_JSON | OPTIONS_VIRTUAL | OPTIONS_FAULTS |
              OPTIONS_CLUSTER | OPTIONS_LAUNCH | OPTIONS_CAPTURE | OPTIONS_WEB,
};

struct progress {
    bool terminal;           /* show the progress in a line of the terminal */
    struct silence *silence; /* on a terminal, progress_print() ends it */
    int64_t checked_ms;      /* the last check for an interrupt, by emu_now_ms() */
    uint32_t run, runs;      /* index of the current run; number of runs */
    double done;             /* finished fraction of the current run, 0 to 1 */
};

/* The signals after which a run stops and prints its results. interrupt_hold() fills the set. */
static sigset_t interrupts;

static void interrupt_hold_one(int signo)
{
    struct sigaction now;

    if (sigaction(signo, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(&interrupts, signo);
}

/*
 * Block SIGINT, and with a web page also SIGTERM and SIGHUP, so that a run can stop and print its
 * results. Signals that were ignored before are still ignored.
 */
static void interrupt_hold(bool page)
{
    sigemptyset(&interrupts);
    interrupt_hold_one(SIGINT);
    if (page) {
        interrupt_hold_one(SIGTERM);
        interrupt_hold_one(SIGHUP);
    }
    sigprocmask(SIG_BLOCK, &interrupts, NULL); /* worker threads inherit this mask */
}

/*
 * If one of the signals has arrived, return true and unblock them, so that a second signal ends the
 * process.
 */
static bool interrupted(void)
{
    const struct timespec at_once = {.tv_sec = 0};

    if (sigtimedwait(&interrupts, NULL, &at_once) < 0)
        return false;
    sigprocmask(SIG_UNBLOCK, &interrupts, NULL);
    return true;
}

static bool handshake_interrupted(void *ctx)
{
    (void)ctx;
    return interrupted();
}

struct progress_text {
    char text[64];
};

/* Return a text such as "traffic: 43 % done, load 2 of 5", where @before is "traffic: ". */
static struct progress_text progress_text(const struct progress *progress, const char *before)
{
    struct progress_text ret;
    int bytes = snprintf(ret.text, sizeof ret.text, "%s%.0f %% done", before, 100 * progress->done);

    if (progress->runs > 1)
        snprintf(ret.text + bytes, sizeof ret.text - (size_t)bytes, ", load %u of %u",
                 progress->run + 1, progress->runs);
    return ret;
}

/* Print the progress if an update is due. Returns false if the user has interrupted the run. */
static bool progress_print(void *context, double done)
{
    struct progress *progress = context;
    int64_t at_ms = emu_now_ms();

    progress->done = done;
    if (at_ms - progress->checked_ms < PROGRESS_MS)
        return true;
    progress->checked_ms = at_ms;
    if (progress->terminal) {
        silence_end(progress->silence);
        fprintf(stderr, "\r\033[K%s", progress_text(progress, "").text);
    }
    silence_update(progress->silence, progress_text(progress, "traffic: ").text);
    return !interrupted();
}

static void progress_clear(const struct progress *progress)
{
    if (progress->terminal)
        fprintf(stderr, "\r\033[K");
}

static int run_one(struct traffic_result *result, const struct traffic_config *config)
{
    const struct progress *progress = config->context;
    char error[640];

    int err = traffic_run(result, config, error, sizeof error);
    progress_clear(progress);
    if (!err && result->faults.begun < result->faults.all)
        print_message("the run ended before %u of its %u fault%s began; --measure makes it longer",
                      result->faults.all - result->faults.begun, result->faults.all,
                      plural_s(result->faults.all));
    if (!err && result->measure_ps && result->senders && !result->offered)
        print_message("load %g: no source sent a message in the measurement of %s; --measure makes "
                      "it longer",
                      (double)config->load / TRAFFIC_LOAD_UNIT,
                      duration_of_ns((double)result->measure_ps / 1000).text);
    if (!err)
        return EXIT_SUCCESS;
    if (err == -EINTR) {
        print_message("traffic: %s: %s", error, progress_text(progress, "").text);
        return EXIT_INTERRUPTED;
    }
    print_message("traffic: %s", error);
    return err == -ENOTSUP || err == -ENOSPC ? EXIT_USAGE : exit_status_of(err);
}

static void print_json(struct json_object *list, const struct traffic_options *own)
{
    printf("%s\n",
           json_object_to_json_string_ext(own->loads > 1 ? list
                                                         : json_object_array_get_idx(list, 0),
                                          JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                              JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void print_result(FILE *out, struct traffic_result *result,
                         const struct traffic_config *config, const struct traffic_title *title,
                         bool first, bool only)
{
    if (only) {
        traffic_report_text(out, result, config, title);
        return;
    }
    if (first)
        traffic_report_head(out, result, config, title);
    traffic_report_row(out, result, config);
}

/*
 * Run all loads, and print their results. After an interrupt, print only the results of finished
 * runs. If the only run is interrupted, --json prints null.
 */
static int run_all(struct traffic_config *config, const struct traffic_options *own, bool json,
                   struct silence *silence)
{
    bool prints = !config->hosts || !config->hosts->fabric.self; /* only the first host prints */
    struct progress progress = {.terminal = prints && isatty(STDERR_FILENO),
                                .silence = silence,
                                .runs = own->loads};
    struct traffic_title title = {.pattern = own->goal ? "goal" : own->pattern,
                                  .goal = own->goal,
                                  .origin = origin_json(&config->fabric)};
    struct json_object *list = json_object_new_array();
    FILE *out = output_is_stdout(own->telemetry) ? stderr : stdout;
    struct traffic_result result;
    int status = EXIT_SUCCESS;

    if (prints && !own->page && !silence->started) /* a page shows the progress */
        silence_begin(silence, SILENCE_MS, BUILDING);
    config->progress = progress_print;
    config->context = &progress;
    for (uint32_t i = 0; i < own->loads && !ferror(stdout); i++) {
        progress.run = i;
        config->load = own->load[i];
        status = run_one(&result, config);
        if (status != EXIT_SUCCESS)
            break;
        if (!prints)
            status = EXIT_SUCCESS;
        else if (json)
            json_object_array_add(list, traffic_report_json(&result, config, &title));
        else
            print_result(out, &result, config, &title, i == 0, own->loads == 1);
        traffic_result_release(&result);
    }
    silence_end(silence);
    if (prints && json && (status == EXIT_SUCCESS || status == EXIT_INTERRUPTED))
        print_json(list, own);
    json_object_put(list);
    json_object_put(title.origin);
    return status;
}

static int snapshots_open(FILE **ret, struct output *output, const char *path)
{
    int err, fd;

    if (!path)
        return 0;
    if (output_is_stdout(path)) {
        *ret = stdout;
        return 0;
    }
    err = output_open(output, path, INT64_MAX);
    if (!err) {
        fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 0); /* the caller closes the copy by fclose() */
        *ret = fd < 0 ? NULL : fdopen(fd, "w");
        err = *ret ? 0 : -errno;
    }
    if (!err)
        return 0;
    print_message("cannot write snapshots to %s: %s; choose another --telemetry", path,
                  output_why(err));
    return EXIT_FAILURE;
}

static int snapshots_close(FILE *out, struct output *output, int status)
{
    if (out && out != stdout && fclose(out) && !status) { /* if @status is not 0, the run has
                                                           * printed the error */
        print_message("the snapshots in %s are incomplete: %s", output->path, strerror(errno));
        status = EXIT_FAILURE;
    }
    output_end(output, status);
    return status;
}

struct with_hosts {
    struct hosts_plan plan;
    struct emu_barrier *barrier; /* NULL: one host */
    struct traffic_hosts hosts;
};

static int hosts_begin(struct with_hosts *with, const struct options *options,
                       const struct fabric_config *fabric, char **argv)
{
    char error[EMU_BARRIER_WHY_BYTES];
    int status = hosts_plan_make(&with->plan, options, fabric, HOSTS_ANY);
    struct hosts_handshake_config handshake = {.cluster = &with->plan.cluster,
                                               .self = with->plan.self,
                                               .name = with->plan.name,
                                               .launch_failed = hosts_launch_failed,
                                               .stops = handshake_interrupted};
    int err = 0;

    if (status)
        return status;
    if (!with->plan.self)
        err = hosts_launch_same(&with->plan, argv);
    if (err) {
        print_message("cannot start the other hosts: %s", strerror(-err));
        return EXIT_FAILURE;
    }
    err = hosts_handshake(&with->barrier, &handshake, fabric, error, sizeof error);
    if (err) {
        print_message("traffic: %s", error);
        return EXIT_FAILURE;
    }
    traffic_hosts_init(&with->hosts, with->barrier, fabric->graph, with->plan.host_of);
    return 0;
}

static void hosts_end(struct with_hosts *with, const struct options *options)
{
    emu_barrier_destroy(with->barrier);
    if (!options->cluster)
        return;
    hosts_launched_end();
    if (with->plan.host_of) /* NULL: hosts_plan_make() has failed */
        hosts_plan_release(&with->plan);
}

struct with_page {
    struct web web;
    struct traffic_live *live; /* NULL: no page */
};

static int page_begin(struct with_page *page, const struct options *options,
                      const struct fabric_config *fabric)
{
    char error[512], address[WEB_ADDRESS_BYTES];

    if (!options->web)
        return 0;
    signal(SIGPIPE, SIG_IGN);
    if (web_open(&page->web, options->web_port, error, sizeof error) ||
        web_start(&page->web, fabric->name, error, sizeof error) ||
        traffic_live_open(&page->live, fabric, error, sizeof error)) {
        print_message("--web: %s", error);
        web_stop(&page->web);
        return EXIT_FAILURE;
    }
    web_fabric_ready(&page->web);
    web_address(&page->web, address);
    print_message("page %s", address);
    print_message("the simulation starts when a browser has opened the page");
    return 0;
}

static void page_end(struct with_page *page)
{
    traffic_live_close(page->live);
    web_stop(&page->web);
}

/*
 * Open the file of --capture. If there are several hosts, each writes a file FILE.HOST with the
 * traffic that it sends. @path: buffer of PATH_MAX bytes. Prints errors. Returns 0 or an exit
 * status.
 */
static int capture_open(struct capture_plan *ret, struct capture_files *files,
                        const struct with_hosts *with, const struct options *options, char *path)
{
    struct options of_host = *options;

    if (with->barrier) {
        snprintf(path, PATH_MAX, "%s.%s", options->capture, with->plan.name[with->plan.self]);
        of_host.capture = path;
    }
    return plan_capture(ret, files, &of_host);
}

static int run_config(struct traffic_config *config, const struct traffic_options *own,
                      const struct options *options, char **argv, struct silence *silence)
{
    struct with_hosts with = {.barrier = NULL};
    struct capture_plan capture = {.files = NULL};
    struct capture_files files = {.path = NULL}; /* the files of --capture */
    char path[PATH_MAX];
    struct with_page page = {.web = WEB_NONE, .live = NULL};
    int status = options->cluster ? hosts_begin(&with, options, &config->fabric, argv) : 0;

    if (!status && options->capture)
        status = capture_open(&capture, &files, &with, options, path);
    interrupt_hold(options->web);
    if (!status)
        status = page_begin(&page, options, &config->fabric);
    config->capture = options->capture ? &capture : NULL;
    if (with.barrier)
        config->hosts = &with.hosts;
    if (page.live)
        config->snapshots.viewer = traffic_live_viewer(page.live);
    if (!status)
        status = run_all(config, own, options->json, silence);
    if (!status && files.err) /* the error was printed */
        status = EXIT_FAILURE;
    hosts_end(&with, options);
    page_end(&page);
    capture_files_close(&files, status);
    return status;
}

int traffic_main(int argc, char **argv)
{
    struct traffic_options own;
    struct option_table table;
    struct options options;
    struct fabric_config fabric;
    struct traffic_config config;
    struct fault_schedule faults = {.count = 0};
    struct output snapshots = OUTPUT_NONE;
    struct topo_graph *graph;
    struct silence silence;
    char name[32];

    traffic_options_init(&own, &table);
    int status = options_parse(&options, &traffic_command, &table, argc, argv);
    if (status >= 0)
        return status;
    if (options.operands < argc)
        return options_usage_error("traffic", "traffic takes no operand '%.80s'",
                                   argv[options.operands]);
    const char *local = options.faults ? "faults" : own.telemetry ? "telemetry" : "web";
    if (options.cluster && own.goal)
        return options_usage_error("traffic",
                                   "--goal and --cluster cannot be used together: a GOAL file "
                                   "needs a network on one host");
    if (options.cluster && (options.faults || own.telemetry || options.web))
        return options_usage_error("traffic",
                                   "--%s and --cluster cannot be used together: --%s needs a "
                                   "network on one host",
                                   local, local);
    if (options.json && output_is_stdout(own.telemetry))
        return options_usage_error("traffic",
                                   "--json and --telemetry %s cannot be used together: both print "
                                   "to standard output; choose a file for --telemetry",
                                   own.telemetry);
    if (own.config.window_ps && own.loads > 1 && !options.json)
        return options_usage_error("traffic", "--series with several loads needs --json, because "
                                              "the table of loads has no place for it");
    snprintf(name, sizeof name, "traffic-%d", (int)getpid());
    silence_begin(&silence, SILENCE_MS, BUILDING);
    status = options_fabric(&fabric, &graph, &options, options.web ? name : NULL);
    if (status) {
        silence_end(&silence);
        return status;
    }
    options_print_idle(&options, &fabric);
    if (options.faults)
        status = plan_schedule(&faults, options.faults, &fabric, true);
    own.page = options.web;
    if (!status)
        status = traffic_options_config(&config, &own, &fabric);
    if (!status) {
        config.faults = options.faults ? &faults : NULL;
        /* the next steps may wait for a host, a browser or a reader, so BUILDING would be wrong */
        if (options.cluster || options.web || options.capture || own.telemetry)
            silence_end(&silence);
        status = snapshots_open(&config.snapshots.out, &snapshots, own.telemetry);
        if (!status)
            status = run_config(&config, &own, &options, argv, &silence);
        status = snapshots_close(config.snapshots.out, &snapshots, status);
        traffic_pattern_release(&config.pattern);
        goal_free((struct goal *)config.goal);
    }
    silence_end(&silence);
    fault_schedule_release(&faults);
    topo_free(graph);
    return status;
}
