/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.c - parse the options of commands. options_fabric.c then makes a fabric's configuration.
 *
 * The table `rows` has all options that commands share. It is used for getopt, for --help, and to
 * parse values.
 */
#include "apps/cmd/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/base/bounds.h"
#include "apps/base/fold.h"
#include "apps/base/quantity.h"
#include "apps/base/message.h"
#include "apps/base/output.h"
#include "apps/capture/capture.h"
#include "apps/control/paths.h"
#include "apps/timeline/timeline.h"
#include "emu/util/nearest.h"
#include "nic/provider.h"

bool options_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    char *end;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < least || number > most)
        return false;
    *ret = number;
    return true;
}

static bool read_clock(void *into, const char *value, const char **right)
{
    struct options *options = into;

    *right = "raw, real or virtual";
    for (int clock = 0; clock <= EMU_CLOCK_VIRTUAL; clock++) {
        options->clock = (enum emu_clock_mode)clock;
        if (strcmp(value, emu_clock_name(options->clock)) == 0)
            return true;
    }
    return false;
}

static bool read_threads(void *into, const char *value, const char **right)
{
    struct options *options = into;
    uint64_t threads = 0;

    *right = "device, auto, or a number from 1 to 1024";
    if (strcmp(value, "device") == 0) {
        options->threads = FABRIC_THREADS_DEVICE;
    } else if (strcmp(value, "auto") == 0) {
        options->threads = FABRIC_THREADS_AUTO;
    } else {
        if (!options_count(value, 1, 1024, &threads))
            return false;
        options->threads = (uint32_t)threads;
    }
    return true;
}

static bool read_capture(void *into, const char *value, const char **right)
{
    struct options *options = into;

    *right = "the name of a file; fabemu capture -w - writes to standard output";
    options->capture = value;
    return *value != '\0' && !output_is_stdout(value);
}

static bool read_set(void *into, const char *value, const char **right)
{
    struct options *options = into;

    *right = "given at most 32 times";
    if (options->set_count == OPTIONS_SETS_MAX)
        return false;
    options->sets[options->set_count++] = value;
    return true;
}

#define COUNT_PS 250 /* time of an instruction, unless --compute count:NS gives it */

/* Read "SCALE" or "NS", a decimal number above 0, which multiplies @unit_ps. */
static bool read_factor(const char *text, double unit_ps, double *ret)
{
    char *end;
    double factor = strtod(text, &end);

    *ret = factor * unit_ps;
    return strspn(text, "0123456789.e-") == strlen(text) && end != text && !*end &&
           factor >= 1e-6 && factor <= 1e6;
}

static bool read_compute(void *into, const char *value, const char **right)
{
    struct options *options = into;
    struct emu_compute *compute = &options->compute;
    const char *colon = strchr(value, ':');
    size_t length = colon ? (size_t)(colon - value) : strlen(value);

    *right = "none, cpu or cpu:SCALE, such as cpu:0.5, count or count:NS, record:FILE or "
             "replay:FILE; SCALE and NS are from 1e-6 to 1e6";
    *compute = (struct emu_compute){.unit_ps = 1000};
    if (length == 5 && strncmp(value, "count", length) == 0) {
        compute->mode = EMU_COMPUTE_COUNT;
        compute->unit_ps = COUNT_PS;
        return !colon || read_factor(colon + 1, 1000, &compute->unit_ps);
    }
    if (length == 3 && strncmp(value, "cpu", length) == 0) {
        compute->mode = EMU_COMPUTE_CPU;
        return !colon || read_factor(colon + 1, 1000, &compute->unit_ps);
    }
    if (colon && colon[1] && length == 6) {
        compute->mode = *value == 'r' && strncmp(value, "record", 6) == 0 ? EMU_COMPUTE_RECORD
                                                                          : EMU_COMPUTE_REPLAY;
        options->compute_file = colon + 1;
        return compute->mode == EMU_COMPUTE_RECORD || strncmp(value, "replay", 6) == 0;
    }
    compute->mode = EMU_COMPUTE_NONE;
    return strcmp(value, "none") == 0;
}

static bool read_call_ns(void *into, const char *value, const char **right)
{
    static const struct quantity_form form = {.units = quantity_times,
                                              .bare = QUANTITY_NS_PS,
                                              .most = QUANTITY_S_PS};
    struct options *options = into;
    uint64_t ps;

    *right = "a time up to 1s, such as 250, 250ns or 1.5us; a number alone is in ns";
    if (!quantity_read(value, &form, &ps))
        return false;
    snprintf(options->call_set, sizeof options->call_set, "call_ps=%llu", (unsigned long long)ps);
    return read_set(into, options->call_set, right);
}

static bool read_bound(void *into, const char *value, const char **right)
{
    return bounds_read(&((struct options *)into)->bounds, value, right);
}

static bool read_provider(void *into, const char *value, const char **right)
{
    *right = PROVIDER_NAME_FORM;
    ((struct options *)into)->provider = value;
    return provider_name_is_valid(value);
}

static bool read_launch(void *into, const char *value, const char **right)
{
    struct options *options = into;

    *right = "a command, or none";
    options->launch = strcmp(value, "none") == 0 ? NULL : value;
    return *value != '\0';
}

static bool read_web(void *into, const char *value, const char **right)
{
    struct options *options = into;
    uint64_t port = 0;

    *right = "a port from 1 to 65535";
    if (value && !options_count(value, 1, UINT16_MAX, &port))
        return false;
    options->web_port = (uint16_t)port;
    return options->web = true;
}

static bool read_web_wait(void *into, const char *value, const char **right)
{
    struct options *options = into;
    const char *comma = value ? strchr(value, ',') : NULL;
    size_t digits = comma ? (size_t)(comma - value) : 0;
    char text[8] = "";
    uint64_t port = 0;

    *right = "a port from 1 to 65535, wait, or PORT,wait";
    options->web_waits = value && strcmp(comma ? comma + 1 : value, "wait") == 0;
    if ((comma && !options->web_waits) || digits >= sizeof text)
        return false;
    if (comma)
        value = memcpy(text, value, digits);
    if (value && (comma || !options->web_waits) && !options_count(value, 1, UINT16_MAX, &port))
        return false;
    options->web_port = (uint16_t)port;
    return options->web = true;
}

#define AT(field) offsetof(struct options, field)
#define FILE_NAME "the name of a file"
/* Fields of an option_row whose value is a size from @low to @high bytes. */
#define SIZE(low, high)              \
    .form = &(struct quantity_form)  \
    {                                \
        quantity_sizes, 1, low, high \
    }

static const struct option_row rows[] = {
    {"topo", "SPEC", "network: kary:4,2, qsnet:128, clos:..., or a file; see fabemu topo --help",
     .at = AT(topo), .group = OPTIONS_NETWORK},
    {"nodes", "N", "instead of --topo: a tree large enough for N nodes (default 16)",
     .at = AT(nodes), OPTIONS_RANGE(2, 65536), .group = OPTIONS_NETWORK},
    {"profile", "NAME|FILE",
     "parameters of the hardware: oq2004 (default), qsnet3 (for qsnet:N), or a JSON file",
     .at = AT(profile), .group = OPTIONS_FABRIC},
    {"clock", "raw|real", "as fast as the host can (default), or in real time", read_clock,
     .group = OPTIONS_FABRIC},
    {"threads", "device|N|auto",
     "one thread for each switch, N threads, or the best number (default)", read_threads,
     .group = OPTIONS_FABRIC},
    {"seed", "N", "seed of random choices (default 1)", .at = AT(seed), .most = UINT64_MAX,
     .wide = true, .right = "a whole number from 0 to 18446744073709551615",
     .group = OPTIONS_FABRIC},
    {"set", "FIELD=VALUE", "override a field of the profile; may be repeated", read_set,
     .group = OPTIONS_FABRIC},
    {"compute", "none|cpu[:SCALE]|count[:NS]|record:FILE|replay:FILE",
     "with --clock virtual: simulated time that the program's computing between calls takes. none "
     "(default): no time; cpu: SCALE (default 1) times its CPU time; count: NS (default 0.25) for "
     "each instruction; record: as cpu, and write the times to FILE; replay: the times in FILE",
     read_compute, .group = OPTIONS_COMPUTE},
    {"goal", "FILE",
     "with --clock virtual: write FILE, a GOAL program with the messages and the computing of "
     "the processes (docs/traffic.md)",
     .at = AT(goal), .right = FILE_NAME, .group = OPTIONS_COMPUTE},
    {"call-ns", "TIME",
     "with --clock virtual: time of each call of the library (default from the profile)",
     read_call_ns, .group = OPTIONS_COMPUTE},
    {"date", "SECONDS",
     "with --clock virtual: date of the program's clocks at simulated time 0, in seconds since "
     "1970 (default: the host's date)",
     .at = AT(date_s), OPTIONS_RANGE(1, 4294967295), .group = OPTIONS_COMPUTE},
    {"tsc", NULL,
     "with --clock virtual: the instructions RDTSC and RDTSCP read simulated time, at 1 GHz "
     "(x86-64)",
     .at = AT(tsc), .group = OPTIONS_COMPUTE},
    {"bound", "NAME=TIME|off", "change a bound on waiting: see below; may be repeated", read_bound,
     .group = OPTIONS_BOUNDS},
    {"provider-name", "NAME",
     "name of the libfabric provider, such as cxi or verbs (default fabemu)", read_provider,
     .group = OPTIONS_PROVIDER},
    {"keep-going", NULL, "do not end the run when a process dies", .at = AT(keep_going),
     .group = OPTIONS_KEEP},
    {"name", "NAME", "name of the fabric and of its socket", .at = AT(name), .group = OPTIONS_NAME},
    {"report", "FILE", "also write the report to FILE, as JSON", .at = AT(report),
     .right = FILE_NAME, .group = OPTIONS_REPORT},
    {"faults", "FILE|NAME", "inject a schedule of faults, or a scenario (fabemu fault --list)",
     .at = AT(faults), .right = "the name of a scenario (fabemu fault --list) or of a file",
     .group = OPTIONS_FAULTS},
    {"events", "FILE", "log faults and link changes as lines of JSON", .at = AT(events),
     .right = FILE_NAME, .group = OPTIONS_EVENTS},
    {"capture", "FILE", "capture segments for Wireshark (docs/capture.md)", read_capture,
     .group = OPTIONS_CAPTURE},
    {"capture-filter", "TEXT", "capture only these links and records: 'link=3:5 kind=allreduce'",
     .at = AT(capture_filter), .group = OPTIONS_CAPTURE},
    {"snaplen", "BYTES", "bytes of each payload to capture (default 240: all)",
     .at = AT(snap_bytes), SIZE(0, CAPTURE_SNAP_MOST), .right = "a number of bytes from 0 to 240",
     .group = OPTIONS_CAPTURE | OPTIONS_SNAP},
    {"capture-size", "SIZE", "stop at this size of FILE, such as 500MB or 2GiB",
     .at = AT(capture_limits.most_bytes), SIZE(1, UINT64_MAX / CAPTURE_FILES_MOST),
     .right = "a size, such as 500MB or 2GiB; a number alone is in bytes",
     .group = OPTIONS_CAPTURE | OPTIONS_SNAP},
    {"capture-files", "N", "write a ring of N files, each up to --capture-size",
     .at = AT(capture_limits.count), OPTIONS_RANGE(2, 100),
     .group = OPTIONS_CAPTURE | OPTIONS_SNAP},
    {"record", "FILE", "record all counters ten times per second, and events", .at = AT(record),
     .right = FILE_NAME, .group = OPTIONS_EVENTS},
    {"timeline", "FILE", "write collectives, messages and faults, for Perfetto", .at = AT(timeline),
     .right = FILE_NAME, .group = OPTIONS_EVENTS},
    {"timeline-bytes", "SIZE", "include messages of SIZE or more (default 1KiB)",
     .at = AT(timeline_from_bytes), SIZE(0, UINT64_MAX - 1),
     .right = "a size, such as 1024, 64K or 1MB; a number alone is in bytes",
     .group = OPTIONS_EVENTS},
    {"timeline-limit", "SIZE", "stop at this size of the timeline (default 256MiB)",
     .at = AT(timeline_most_bytes), SIZE(UINT64_C(1) << 20, UINT64_C(1) << 40),
     .right = "a size from 1MiB to 1024GiB, such as 256MiB or 1GB", .group = OPTIONS_EVENTS},
    {"web", "[=PORT]", "serve a web page (docs/web.md)", read_web, .group = OPTIONS_WEB},
    {"web", "[=PORT|wait]",
     "serve a web page (docs/web.md); wait, or PORT,wait: start COMMAND when it is open",
     read_web_wait, .group = OPTIONS_WEB_WAIT},
    {"json", NULL, "print JSON", .at = AT(json), .group = OPTIONS_JSON},
    {"foreground", NULL, "stay in the foreground until the fabric is stopped", .at = AT(foreground),
     .group = OPTIONS_FOREGROUND},
    {"cluster", "FILE", "spread the fabric over the hosts in FILE (docs/hosts.md)",
     .at = AT(cluster), .right = FILE_NAME, .group = OPTIONS_CLUSTER},
    {"host", "NAME", "name of this host in FILE (default: its hostname)", .at = AT(host),
     .right = "the name of a host in the cluster file", .group = OPTIONS_CLUSTER},
    {"launch", "LAUNCHER|none",
     "start the other hosts with LAUNCHER HOST COMMAND-LINE (default ssh)", .read = read_launch,
     .group = OPTIONS_LAUNCH},
    {"check", NULL, "check cables and routes, and that no deadlock is possible", .at = AT(check),
     .group = OPTIONS_CHECK},
};

#define ROWS         (sizeof rows / sizeof rows[0])
#define HELP         1000
#define HELP_INDENT  "                             " /* spaces before the text about an option */
#define BOUND_INDENT "                           "   /* spaces before the text about a bound */
#define SHARED       (OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_BOUNDS)
#define OWN          2000 /* getopt's return value for the first option of a command's own table */

static_assert(CAPTURE_FILES_MOST == 100 && CAPTURE_SNAP_MOST == 240, "ranges in rows[]");
static_assert(ROWS <= 64, "struct options.given has one bit for each row");

int options_usage_error(const char *command, const char *format, ...)
{
    char what[512];
    bool question;
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    question = *what && what[strlen(what) - 1] == '?';
    print_message("%s%s: fabemu%s%s --help", what, question ? " Try" : "; try", *command ? " " : "",
                  command);
    return EXIT_USAGE;
}

static bool is_optional(const char *value)
{
    return strncmp(value, "[=", 2) == 0;
}

static void print_help_line(const char *name, const char *value, const char *help)
{
    char left[64], line[1024];

    snprintf(left, sizeof left, "--%s%s%s", name, value && !is_optional(value) ? " " : "",
             value ? value : "");
    if (strlen(left) > 26)
        printf("  %s\n", left);
    snprintf(line, sizeof line, "  %-26s %s", strlen(left) > 26 ? "" : left, help);
    fold_print(stdout, line, HELP_INDENT, FOLD_COLUMNS);
}

static void print_bound(const char *name, const char *value, const char *help)
{
    char line[256];

    snprintf(line, sizeof line, "  %-10s %-13s %s", name, value, help);
    fold_print(stdout, line, BOUND_INDENT, FOLD_COLUMNS);
}

static void print_bounds(void)
{
    struct emu_bounds none = emu_bounds_filled((struct emu_bounds){0});

    printf("\nBounds on waiting, as in --bound silence=30s,cut-off=off (docs/manual.md):\n");
#define PRINT(field, name, ms, what) print_bound(name, bounds_text(none.field##_ms).text, what);
    EMU_BOUNDS(PRINT)
#undef PRINT
    print_bound("retries", "from profile",
                "with acknowledgments: a number of tries of a packet before it is dropped");
}

static void print_help(const struct options_command *command, const struct option_table *own)
{
    printf("usage: fabemu %s [options]%s%s\n\n%s\n\n", command->name, *command->operands ? " " : "",
           command->operands, command->about);
    for (size_t i = 0; i < own->count; i++)
        print_help_line(own->row[i].name, own->row[i].value, own->row[i].help);
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].read == read_clock && command->groups & OPTIONS_VIRTUAL)
            print_help_line("clock", "virtual", "simulated time: the only clock of this command");
        else if (rows[i].read == read_clock && command->groups & OPTIONS_ANY_CLOCK)
            print_help_line("clock", "raw|real|virtual",
                            "raw (default): as fast as possible; real: at the times of the "
                            "profile; virtual: simulated time");
        else if (rows[i].group & command->groups)
            print_help_line(rows[i].name, rows[i].value, rows[i].help);
    }
    printf("  %-26s %s\n", "--help", "this text");
    if (command->groups & OPTIONS_BOUNDS)
        print_bounds();
    if (command->more)
        printf("\n%s\n", command->more);
}

static struct option long_option(const struct option_row *row, int got)
{
    int argument = !row->value               ? no_argument
                   : is_optional(row->value) ? optional_argument
                                             : required_argument;

    return (struct option){row->name, argument, NULL, got};
}

static void long_options(struct option *ret, const struct options_command *command,
                         const struct option_table *own)
{
    size_t count = 0;

    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].group & command->groups)
            ret[count++] = long_option(&rows[i], (int)i + 1);
    for (size_t i = 0; i < own->count; i++)
        ret[count++] = long_option(&own->row[i], OWN + (int)i);
    ret[count++] = (struct option){"help", no_argument, NULL, HELP};
    ret[count] = (struct option){NULL, 0, NULL, 0};
}

static bool share(struct options *options, const char *name, const char *value)
{
    if (options->shared_count == OPTIONS_SHARED_MAX)
        return false;
    options->shared[options->shared_count].name = name;
    options->shared[options->shared_count++].value = value;
    return true;
}

/* Return whether the option names an output file, so that it can be given only once. */
static bool writes_file(const struct option_row *row)
{
    return row->group & (OPTIONS_REPORT | OPTIONS_EVENTS | OPTIONS_CAPTURE) &&
           strcmp(row->value, "FILE") == 0;
}

/* Find the index of @value in @names, such as "a|b|c". Returns false if @names does not have it. */
static bool find_choice(const char *names, const char *value, unsigned *ret)
{
    size_t length = strlen(value);

    for (*ret = 0; strncmp(names, value, length) != 0 || !strchr("|", names[length]); ++*ret) {
        names += strcspn(names, "|");
        if (!*names++)
            return false;
    }
    return true;
}

/* Parse the value of @row, by its read() if it has one. @right and the result are as for read(). */
static bool read_value(const struct option_row *row, void *into, const char *value,
                       const char **right)
{
    void *at = (char *)into + row->at;
    uint64_t number;

    if (row->read)
        return row->read(into, value, right);
    if (!row->value)
        return *(bool *)at = true;
    *right = row->right;
    if (row->choice)
        return find_choice(row->value, value, at);
    if (row->form)
        return quantity_read(value, row->form, at);
    if (!row->most) {
        *(const char **)at = value;
        return !row->right || *value;
    }
    if (!options_count(value, row->least, row->most, &number))
        return false;
    if (row->wide)
        *(uint64_t *)at = number;
    else
        *(uint32_t *)at = (uint32_t)number;
    return true;
}

/* Handle one option. @got: getopt's return value. Returns -1 to continue, or an exit status. */
static int take_option(struct options *options, const char *command, const struct option_table *own,
                       int got)
{
    bool shared = got < OWN;
    const struct option_row *row = shared ? &rows[got - 1] : &own->row[got - OWN];
    const char *names = row->value, *right = "";
    uint64_t bit = UINT64_C(1) << (shared ? got - 1 : got - OWN);
    uint64_t *given = shared ? &options->given : own->given;

    if (shared && *given & bit && writes_file(row))
        return options_usage_error(command, "--%s is given twice, but can write only one file",
                                   row->name);
    if (read_value(row, shared ? options : own->into, optarg, &right)) {
        if (given)
            *given |= bit;
        if (shared && row->group & SHARED && !share(options, row->name, optarg))
            return options_usage_error(command, "--%s: there are more than %u options", row->name,
                                       OPTIONS_SHARED_MAX);
        return -1;
    }
    if (row->read == read_bound || row->read == read_clock)
        names = right; /* the text lists the names of the bounds, or all clocks */
    return options_usage_error(command, "--%s %.80s: it must be %s%s", row->name,
                               optarg ? optarg : "", right,
                               optarg && names ? nearest_in(optarg, names).text : "");
}

/* Return whether @next seems to be the value of an option that needs a '=', as in "--web wait". */
static bool lacks_equals(const struct options *options, int got, const char *next)
{
    struct options probe = *options;
    const char *right;

    return got < OWN && !optarg && next && rows[got - 1].value &&
           is_optional(rows[got - 1].value) && rows[got - 1].read(&probe, next, &right);
}

/* Options that may be given only together with the option `of`. */
static const struct {
    const char *name, *of;
} parts[] = {
    {"capture-filter", "capture"},
    {"snaplen", "capture"},
    {"timeline-bytes", "timeline"},
    {"timeline-limit", "timeline"},
    {"host", "cluster"},
    {"launch", "cluster"},
    {"capture-size", "capture"},
    {"capture-files", "capture-size"},
};

static size_t row_of(const char *name)
{
    size_t i = 0;

    while (strcmp(rows[i].name, name) != 0)
        i++;
    return i;
}

/*
 * For each given option of parts[], check that the option `of` was given, too. Returns -1 to
 * continue, or an exit status.
 */
static int check_parts(const struct options *options, const struct options_command *command)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const struct option_row *of = &rows[row_of(parts[i].of)];

        if (options->given >> row_of(parts[i].name) & 1 && !(options->given >> (of - rows) & 1) &&
            command->groups & of->group)
            return options_usage_error(command->name, "--%s needs --%s %s", parts[i].name, of->name,
                                       of->value);
    }
    return -1;
}

/* Bounds that are fields of the profile. */
static const struct {
    const char *name, *field;
    size_t at; /* offset in struct emu_bounds */
} of_profile[] = {
    {"reply", "reply_timeout_ps", offsetof(struct emu_bounds, reply_ms)},
    {"retries", "retry_limit", offsetof(struct emu_bounds, retries)},
};
#define OF_PROFILE (sizeof of_profile / sizeof of_profile[0])

static bool gives_bound(const struct options *options, size_t i)
{
    uint64_t given;

    memcpy(&given, (const char *)&options->bounds + of_profile[i].at, sizeof given);
    return given;
}

bool options_sets(const struct options *options, const char *field)
{
    size_t length = strlen(field);

    for (unsigned i = 0; i < options->set_count; i++)
        if (strncmp(options->sets[i], field, length) == 0 && options->sets[i][length] == '=')
            return true;
    return false;
}

/*
 * Return whether PR_SET_TSC makes the instruction RDTSC raise a signal. Some virtual machines
 * accept the setting and ignore it, so a child tries it.
 */
static bool rdtsc_can_fault(void)
{
#ifdef __x86_64__
    const struct rlimit no_core = {0};
    int status;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        setrlimit(RLIMIT_CORE, &no_core);
        if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0)
            __builtin_ia32_rdtsc();
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGSEGV;
#else
    return false;
#endif
}

int options_on_stdout(const struct options *options)
{
    return output_is_stdout(options->report) + output_is_stdout(options->events) +
           output_is_stdout(options->record) + output_is_stdout(options->goal) +
           (options->compute.mode == EMU_COMPUTE_RECORD && output_is_stdout(options->compute_file));
}

/* Refuse two results on standard output, because no reader could tell them apart. */
static int check_stdout(const struct options *options, const struct options_command *command)
{
    if (options_on_stdout(options) <= 1)
        return -1;
    return options_usage_error(command->name,
                               "only one of --report, --events, --record, --goal and --compute "
                               "record can go to standard output; choose files for the others");
}

static int check_together(const struct options *options, const struct options_command *command)
{
    bool virtual = options->clock == EMU_CLOCK_VIRTUAL;

    if (options->topo && options->nodes)
        return options_usage_error(command->name, "--topo and --nodes cannot be used together");
    if (check_parts(options, command) >= 0 || check_stdout(options, command) >= 0)
        return EXIT_USAGE;
    for (size_t i = 0; i < OF_PROFILE; i++)
        if (gives_bound(options, i) && options_sets(options, of_profile[i].field))
            return options_usage_error(command->name,
                                       "--bound %s and --set %s cannot be used together",
                                       of_profile[i].name, of_profile[i].field);
    for (size_t i = 0; i < ROWS && !virtual; i++)
        if (options->given >> i & 1 && rows[i].group & OPTIONS_COMPUTE)
            return options_usage_error(command->name, "--%s needs --clock virtual", rows[i].name);
    if (options->tsc && !rdtsc_can_fault())
        return options_usage_error(command->name,
                                   "--tsc needs a processor of type x86-64, and a kernel or "
                                   "virtual machine that lets RDTSC raise a signal (PR_SET_TSC)");
    if (options->goal && options->compute_file)
        return options_usage_error(command->name, "--goal cannot be used with --compute record or "
                                                  "replay");
    if (virtual && !(command->groups & (OPTIONS_VIRTUAL | OPTIONS_ANY_CLOCK)))
        return options_usage_error(command->name,
                                   "--clock virtual: it must be raw or real; only fabemu run, "
                                   "traffic and compare have simulated time");
    if (!virtual && command->groups & OPTIONS_VIRTUAL)
        return options_usage_error(command->name, "--clock %s: it must be virtual",
                                   options->clock == EMU_CLOCK_RAW ? "raw" : "real");
    return -1;
}

/*
 * Return a suggestion for a misspelt option. For "--nmae=lab", the suggestion is: did you mean
 * '--name'?
 */
static struct nearest_text resembling(const struct options_command *command,
                                      const struct option_table *own, const char *word)
{
    char text[80];

    snprintf(text, sizeof text, "%.*s", (int)strcspn(word, "="), word);
    struct nearest nearest = nearest_to(text + strspn(text, "-"));
    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].group || rows[i].group & command->groups)
            nearest_try(&nearest, rows[i].name);
    for (size_t i = 0; i < own->count; i++)
        nearest_try(&nearest, own->row[i].name);
    nearest_try(&nearest, "help");
    return nearest_question(&nearest, "--");
}

/*
 * Print an error about an unknown option. getopt reads "-topo" as four short options. Then optopt
 * is the first of them, and @word may already be the next word of the command line.
 */
static int no_option(const struct options_command *command, const struct option_table *own,
                     const char *word)
{
    const char *whole = command->part ? command->part : command->name;

    if (optopt > (int)ROWS && optopt < HELP)
        return options_usage_error(command->name,
                                   "%s has no option '-%c': write two dashes before a name", whole,
                                   optopt);
    return options_usage_error(command->name, "%s has no option '%.80s'%s%s", whole, word,
                               optopt ? " of this form" : "",
                               optopt ? "" : resembling(command, own, word).text);
}

int options_parse(struct options *ret, const struct options_command *command,
                  const struct option_table *own, int argc, char **argv)
{
    static const struct option_table none = {.count = 0};
    struct option longs[ROWS + OPTION_ROWS_MAX + 2];
    int got;

    own = own ? own : &none;
    *ret = (struct options){.clock = EMU_CLOCK_RAW,
                            .compute = {.unit_ps = 1000},
                            .threads = FABRIC_THREADS_AUTO,
                            .seed = 1,
                            .launch = "ssh",
                            .snap_bytes = CAPTURE_SNAP_MOST,
                            .capture_limits = {.most_bytes = UINT64_MAX, .count = 1},
                            .timeline_from_bytes = TIMELINE_FROM_BYTES,
                            .timeline_most_bytes = TIMELINE_MOST_BYTES,
                            .argv = argv};
    if (command->groups & OPTIONS_VIRTUAL)
        ret->clock = EMU_CLOCK_VIRTUAL;
    long_options(longs, command, own);
    optind = 0; /* with glibc: restart getopt */
    opterr = 0;
    /* "+": words after the first operand belong to the command to run */
    const char *shorts = command->command_follows ? "+:h" : ":h";
    while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const char *word = argv[optind - 1];
        if (got == HELP || got == 'h') {
            print_help(command, own);
            return EXIT_SUCCESS;
        }
        if (got == ':')
            return options_usage_error(command->name, "%s needs a value", word);
        if (optarg == word && strncmp(word, "--", 2) == 0) /* the value is an option, or "--" */
            return options_usage_error(command->name, "%s needs a value before '%.80s'",
                                       argv[optind - 2], word);
        if (got == '?')
            return no_option(command, own, word);
        if (lacks_equals(ret, got, argv[optind]))
            return options_usage_error(command->name, "write '%s=%.80s', with '='", word,
                                       argv[optind]);
        int status = take_option(ret, command->name, own, got);
        if (status >= 0)
            return status;
    }
    ret->operands = optind;
    ret->dashes = optind > 0 && strcmp(argv[optind - 1], "--") == 0;
    return check_together(ret, command);
}

int options_parse_name(struct options *ret, const char **name,
                       const struct options_command *command, const struct option_table *own,
                       int argc, char **argv)
{
    char error[512];
    int status = options_parse(ret, command, own, argc, argv);

    if (status >= 0)
        return status;
    *name = argc > ret->operands ? argv[ret->operands] : paths_default(ret->running, false);
    if (argc - ret->operands > 1)
        return options_usage_error(command->name, "give one name");
    /* an operand "NAME|FILE" may also be a file, which is not checked here */
    if (argc > ret->operands && !strchr(command->operands, '|') &&
        paths_check_name(*name, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_USAGE;
    }
    return -1;
}

void options_print_json(struct json_object *value)
{
    puts(json_object_to_json_string_ext(value,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
}

void options_print_idle(const struct options *options, const struct fabric_config *config)
{
    char text[512];
    const char *what;

    if (config->clock != EMU_CLOCK_RAW && options_print_rates(config, text, sizeof text))
        print_message("cables: %s", text);
    if (config->graph->up > TOPO_UP_DISTANCE)
        print_message(
            "routes: the cables do not form a tree, so many routes may share few switches; up "
            "is %s",
            topo_up_text(config->graph->up));

    for (unsigned i = 0; i < options->set_count; i++) {
        what = emu_profile_idle(&config->profile, config->clock, options->sets[i]);
        if (what)
            print_message("%s has no effect here: it is for %s", options->sets[i], what);
    }
    for (size_t i = 0; i < OF_PROFILE; i++) {
        what = emu_profile_idle(&config->profile, config->clock, of_profile[i].field);
        if (what && gives_bound(options, i))
            print_message("--bound %s has no effect here: it is for %s", of_profile[i].name, what);
    }
    if (config->threads < FABRIC_THREADS_DEVICE && config->threads > config->graph->switches)
        print_message("--threads %u: fabemu uses only %u, one for each switch of this network",
                      config->threads, config->graph->switches);
}
