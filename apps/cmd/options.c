/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.c - the options that commands share. options_fabric.c has what they make of a fabric.
 *
 * One table gives getopt its long options, --help its lines, and each option
 * its reader.
 */
#include "apps/cmd/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/bounds.h"
#include "apps/base/quantity.h"
#include "apps/base/message.h"
#include "apps/capture/capture.h"
#include "apps/cmd/rates.h"
#include "apps/control/paths.h"
#include "apps/timeline/timeline.h"
#include "emu/util/nearest.h"
#include "emu/util/plugin.h"

#define NODES_MAX 65536

/* A reader takes one value; on a wrong one it writes what would be right and returns false. */
typedef bool option_reader(struct options *options, const char *value, const char **right);

struct option_row {
    const char *name;
    const char *value; /* NULL: takes none; "[=VALUE]": one, or none */
    const char *help;
    unsigned group; /* enum options_group; 0: every command */
    option_reader *read;
};

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

/* A number alone is in bytes. */
static bool read_size(const char *text, uint64_t least, uint64_t most, uint64_t *ret)
{
    const struct quantity_form form = {.units = quantity_sizes,
                                       .bare = 1,
                                       .least = least,
                                       .most = most};

    return quantity_read(text, &form, ret);
}

static bool read_topo(struct options *options, const char *value, const char **right)
{
    (void)right; /* topo_parse() says what is wrong */
    options->topo = value;
    return true;
}

static bool read_nodes(struct options *options, const char *value, const char **right)
{
    uint64_t nodes = 0;

    *right = "a number from 2 to 65536";
    if (!options_count(value, 2, NODES_MAX, &nodes))
        return false;
    options->nodes = (uint32_t)nodes;
    return true;
}

static bool read_profile(struct options *options, const char *value, const char **right)
{
    (void)right;
    options->profile = value;
    return true;
}

static bool read_clock(struct options *options, const char *value, const char **right)
{
    *right = "raw or real (virtual time is what fabemu traffic runs in)";
    for (int clock = 0; clock <= EMU_CLOCK_VIRTUAL; clock++) {
        options->clock = (enum emu_clock_mode)clock;
        if (strcmp(value, emu_clock_name(options->clock)) == 0)
            return true;
    }
    return false;
}

static bool read_threads(struct options *options, const char *value, const char **right)
{
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

static bool read_seed(struct options *options, const char *value, const char **right)
{
    *right = "a whole number from 0 to 18446744073709551615";
    return options_count(value, 0, UINT64_MAX, &options->seed);
}

static bool read_name(struct options *options, const char *value, const char **right)
{
    (void)right; /* paths_check_name() says what is wrong */
    options->name = value;
    return true;
}

static bool read_faults(struct options *options, const char *value, const char **right)
{
    *right = "the name of a scenario (fabemu fault --list) or of a file";
    options->faults = value;
    return *value != '\0';
}

static bool read_events(struct options *options, const char *value, const char **right)
{
    *right = "the name of a file";
    options->events = value;
    return *value != '\0';
}

static bool read_capture(struct options *options, const char *value, const char **right)
{
    *right = "the name of a file; fabemu capture -w - writes to standard output";
    options->capture = value;
    return *value != '\0' && strcmp(value, "-") != 0;
}

static bool read_capture_filter(struct options *options, const char *value, const char **right)
{
    (void)right; /* capture_filter_read() says what is wrong */
    options->capture_filter = value;
    return true;
}

static bool read_snaplen(struct options *options, const char *value, const char **right)
{
    uint64_t bytes = 0;

    *right = "a number of bytes from 0 to 240";
    if (!read_size(value, 0, CAPTURE_SNAP_MOST, &bytes))
        return false;
    options->snap_bytes = (uint32_t)bytes;
    return true;
}

static bool read_capture_size(struct options *options, const char *value, const char **right)
{
    *right = "a size, such as 500MB or 2GiB; a number alone is in bytes";
    return read_size(value, 1, UINT64_MAX / CAPTURE_FILES_MOST,
                     &options->capture_limits.most_bytes);
}

static bool read_capture_files(struct options *options, const char *value, const char **right)
{
    uint64_t count = 0;

    *right = "a number of files from 2 to 100";
    if (!options_count(value, 2, CAPTURE_FILES_MOST, &count))
        return false;
    options->capture_limits.count = (uint32_t)count;
    return true;
}

static bool read_record(struct options *options, const char *value, const char **right)
{
    *right = "the name of a file";
    options->record = value;
    return *value != '\0';
}

static bool read_timeline(struct options *options, const char *value, const char **right)
{
    *right = "the name of a file";
    options->timeline = value;
    return *value != '\0';
}

static bool read_timeline_bytes(struct options *options, const char *value, const char **right)
{
    *right = "a size, such as 1024, 64K or 1MB; a number alone is in bytes";
    return read_size(value, 0, UINT64_MAX - 1, &options->timeline_from_bytes);
}

static bool read_timeline_limit(struct options *options, const char *value, const char **right)
{
    *right = "a size from 1MiB to 1024GiB, such as 256MiB or 1GB";
    return read_size(value, UINT64_C(1) << 20, UINT64_C(1) << 40, &options->timeline_most_bytes);
}

static bool read_report(struct options *options, const char *value, const char **right)
{
    *right = "the name of a file";
    options->report = value;
    return *value != '\0';
}

static bool read_set(struct options *options, const char *value, const char **right)
{
    *right = "given at most 32 times";
    if (options->set_count == OPTIONS_SETS_MAX)
        return false;
    options->sets[options->set_count++] = value;
    return true;
}

static bool read_combine(struct options *options, const char *value, const char **right)
{
    *right = "arrival or port";
    if (strcmp(value, "arrival") == 0)
        return read_set(options, "combine_order=arrival", right);
    return strcmp(value, "port") == 0 && read_set(options, "combine_order=port", right);
}

static bool read_credits(struct options *options, const char *value, const char **right)
{
    *right = "row or counter";
    if (strcmp(value, "row") == 0)
        return read_set(options, "credit=row", right);
    return strcmp(value, "counter") == 0 && read_set(options, "credit=counter", right);
}

static bool read_bound(struct options *options, const char *value, const char **right)
{
    return bounds_read(&options->bounds, value, right);
}

static bool read_keep_going(struct options *options, const char *value, const char **right)
{
    (void)value, (void)right;
    return options->keep_going = true;
}

static bool read_cluster(struct options *options, const char *value, const char **right)
{
    *right = "the name of a file";
    options->cluster = value;
    return *value != '\0';
}

static bool read_host(struct options *options, const char *value, const char **right)
{
    *right = "the name of a host in the cluster file";
    options->host = value;
    return *value != '\0';
}

static bool read_launch(struct options *options, const char *value, const char **right)
{
    *right = "a command, or none";
    options->launch = strcmp(value, "none") == 0 ? NULL : value;
    return *value != '\0';
}

static bool read_web(struct options *options, const char *value, const char **right)
{
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

static bool read_json(struct options *options, const char *value, const char **right)
{
    (void)value, (void)right;
    return options->json = true;
}

static bool read_foreground(struct options *options, const char *value, const char **right)
{
    (void)value, (void)right;
    return options->foreground = true;
}

static bool read_check(struct options *options, const char *value, const char **right)
{
    (void)value, (void)right;
    return options->check = true;
}

static const struct option_row rows[] = {
    {"topo", "SPEC", "network: kary:4,2, qsnet:128, clos:..., or a file; see fabemu topo --help",
     OPTIONS_NETWORK, read_topo},
    {"nodes", "N", "instead of --topo: a tree large enough for N nodes (default 16)",
     OPTIONS_NETWORK, read_nodes},
    {"profile", "NAME|FILE",
     "the hardware's numbers: oq2004 (default), qsnet3 (for qsnet:N), or a JSON file",
     OPTIONS_FABRIC, read_profile},
    {"clock", "raw|real", "as fast as the host can (default), or in real time", OPTIONS_FABRIC,
     read_clock},
    {"threads", "device|N|auto",
     "a thread for each switch, N threads, or the best number (default)", OPTIONS_FABRIC,
     read_threads},
    {"seed", "N", "seed of random choices (default 1)", OPTIONS_FABRIC, read_seed},
    {"combine", "arrival|port", "order of reductions; port: identical bits in every run",
     OPTIONS_FABRIC, read_combine},
    {"credits", "row|counter", "what a credit guarantees; see docs/profiles.md", OPTIONS_FABRIC,
     read_credits},
    {"set", "FIELD=VALUE", "override a number of the profile; may be repeated", OPTIONS_FABRIC,
     read_set},
    {"bound", "NAME=TIME|off", "limit a wait; may be repeated: see below", OPTIONS_BOUNDS,
     read_bound},
    {"keep-going", NULL, "do not end the run when a process dies", OPTIONS_KEEP, read_keep_going},
    {"name", "NAME", "name of the fabric and of its socket", OPTIONS_NAME, read_name},
    {"report", "FILE", "also write the report to FILE, as JSON", OPTIONS_REPORT, read_report},
    {"faults", "FILE|NAME", "inject a schedule of faults, or a scenario (fabemu fault --list)",
     OPTIONS_FAULTS, read_faults},
    {"events", "FILE", "log faults and changes of links as lines of JSON", OPTIONS_EVENTS,
     read_events},
    {"capture", "FILE", "capture segments for Wireshark (docs/capture.md)", OPTIONS_CAPTURE,
     read_capture},
    {"capture-filter", "TEXT", "which cables and records: 'link=3:5 kind=allreduce'",
     OPTIONS_CAPTURE, read_capture_filter},
    {"snaplen", "BYTES", "bytes of each payload to capture (240: all)",
     OPTIONS_CAPTURE | OPTIONS_SNAP, read_snaplen},
    {"capture-size", "SIZE", "limit the capture file, such as 500MB or 2GiB",
     OPTIONS_CAPTURE | OPTIONS_SNAP, read_capture_size},
    {"capture-files", "N", "at the limit, continue in a ring of N files",
     OPTIONS_CAPTURE | OPTIONS_SNAP, read_capture_files},
    {"record", "FILE", "record counters ten times per second, and events", OPTIONS_EVENTS,
     read_record},
    {"timeline", "FILE", "write collectives, messages and faults, for Perfetto", OPTIONS_EVENTS,
     read_timeline},
    {"timeline-bytes", "SIZE", "include messages of SIZE or more (default 1KiB)", OPTIONS_EVENTS,
     read_timeline_bytes},
    {"timeline-limit", "SIZE", "stop at this size of the file (default 256MiB)", OPTIONS_EVENTS,
     read_timeline_limit},
    {"web", "[=PORT|wait]", "serve a web page (docs/web.md); run only: wait for a browser",
     OPTIONS_WEB, read_web},
    {"json", NULL, "print JSON", OPTIONS_JSON, read_json},
    {"foreground", NULL, "stay in the foreground until the fabric is shut down", OPTIONS_FOREGROUND,
     read_foreground},
    {"cluster", "FILE", "spread the fabric over the hosts in FILE (docs/hosts.md)", OPTIONS_CLUSTER,
     read_cluster},
    {"host", "NAME", "the name of this host in FILE (default: its hostname)", OPTIONS_CLUSTER,
     read_host},
    {"launch", "AGENT|none", "start the other hosts with AGENT HOST COMMAND-LINE (ssh)",
     OPTIONS_LAUNCH, read_launch},
    {"check", NULL, "verify cables, routes, and that no deadlock is possible", OPTIONS_CHECK,
     read_check},
};

#define ROWS         (sizeof rows / sizeof rows[0])
#define HELP         1000
#define HELP_COLUMNS 80
#define HELP_INDENT  29 /* of the text about an option */
#define SHARED       (OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_BOUNDS)
#define OWN          2000 /* and the number of a command's own option */

static_assert(CAPTURE_FILES_MOST == 100, "as read_capture_files() says");
static_assert(ROWS <= 64, "struct options.given has a bit for each");

int options_usage_error(const char *command, const char *format, ...)
{
    char what[512];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    print_message("%s; try: fabemu%s%s --help", what, *command ? " " : "", command);
    return EXIT_USAGE;
}

static bool may_be_left_out(const char *value)
{
    return strncmp(value, "[=", 2) == 0;
}

/*
 * Print @text from column @indent to HELP_COLUMNS, on as many lines as it needs. The first line has
 * been printed as far as @indent.
 */
static void print_wrapped(const char *text, int indent)
{
    int room = HELP_COLUMNS - indent;

    while ((int)strlen(text) > room) {
        int length = room;

        /* a line that begins with the name of an option is a line about that option */
        while (length && (text[length] != ' ' || strncmp(text + length, " --", 3) == 0))
            length--;
        if (!length) /* a word longer than the line */
            length = (int)strcspn(text, " ");
        printf("%.*s\n%*s", length, text, indent, "");
        text += length + strspn(text + length, " ");
    }
    puts(text);
}

static void print_help_line(const char *name, const char *value, const char *help)
{
    char left[64];

    snprintf(left, sizeof left, "--%s%s%s", name, value && !may_be_left_out(value) ? " " : "",
             value ? value : "");
    if (strlen(left) > 26)
        printf("  %s\n%*s", left, HELP_INDENT, "");
    else
        printf("  %-26s ", left);
    print_wrapped(help, HELP_INDENT);
}

static void print_bound(const char *name, const char *value, const char *help)
{
    print_wrapped(help, printf("  %-10s %-10s ", name, value));
}

static void print_bounds(void)
{
    struct emu_bounds none = emu_bounds_filled((struct emu_bounds){0});

    printf("\nBounds on waiting, as in --bound silence=30s,cut-off=off (docs/manual.md):\n");
#define PRINT(field, name, ms, what) print_bound(name, bounds_text(none.field##_ms).text, what);
    EMU_BOUNDS(PRINT)
#undef PRINT
    print_bound("retries", "profile's",
                "with acknowledgments: tries of a packet before it is given up; a number");
}

static void print_help(const struct options_command *command, const struct options_owns *owns)
{
    printf("usage: fabemu %s [options]%s%s\n\n%s\n\n", command->name, *command->operands ? " " : "",
           command->operands, command->about);
    for (size_t i = 0; i < owns->count; i++)
        print_help_line(owns->row[i].name, owns->row[i].value, owns->row[i].help);
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].read == read_clock && command->groups & OPTIONS_VIRTUAL)
            print_help_line("clock", "virtual", "simulated time: the only one here");
        else if (rows[i].read == read_clock && command->groups & OPTIONS_ANY_CLOCK)
            print_help_line("clock", "raw|real|virtual",
                            "for run and up raw (default) or real, for traffic virtual");
        else if (!rows[i].group || rows[i].group & command->groups)
            print_help_line(rows[i].name, rows[i].value, rows[i].help);
    }
    printf("  %-26s %s\n", "--help", "this text");
    if (command->groups & OPTIONS_BOUNDS)
        print_bounds();
    if (command->more)
        printf("\n%s\n", command->more);
}

/* getopt's table of the options that @command takes; val is 1 + the row. */
/* Whether a value is wanted, as getopt says it. */
static int argument_of(const char *value)
{
    return !value ? no_argument : may_be_left_out(value) ? optional_argument : required_argument;
}

static void long_options(struct option *ret, const struct options_command *command,
                         const struct options_owns *owns)
{
    size_t count = 0;

    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].group || rows[i].group & command->groups)
            ret[count++] =
                (struct option){rows[i].name, argument_of(rows[i].value), NULL, (int)i + 1};
    for (size_t i = 0; i < owns->count; i++)
        ret[count++] =
            (struct option){owns->row[i].name, argument_of(owns->row[i].value), NULL, OWN + (int)i};
    ret[count++] = (struct option){"help", no_argument, NULL, HELP};
    ret[count] = (struct option){NULL, 0, NULL, 0};
}

/* Other hosts get it, too. */
static bool share(struct options *options, const char *name, const char *value)
{
    if (options->shared_count == OPTIONS_SHARED_MAX)
        return false;
    options->shared[options->shared_count].name = name;
    options->shared[options->shared_count++].value = value;
    return true;
}

/* Of what is written to a file the user would find the last one's alone. */
static bool writes_file(const struct option_row *row)
{
    return row->group & (OPTIONS_REPORT | OPTIONS_EVENTS | OPTIONS_CAPTURE) &&
           strcmp(row->value, "FILE") == 0;
}

/* @got: what getopt makes of a row, or of an option of the command's own. */
static int take_option(struct options *options, const char *command,
                       const struct options_owns *owns, int got)
{
    const char *name = got >= OWN ? owns->row[got - OWN].name : rows[got - 1].name;
    const char *names = got >= OWN ? owns->row[got - OWN].value : rows[got - 1].value;
    const char *right = "";

    if (got < OWN && options->given >> (got - 1) & 1 && writes_file(&rows[got - 1]))
        return options_usage_error(command, "--%s is given twice, and writes one file", name);
    if (got >= OWN ? owns->row[got - OWN].read(owns->into, optarg, &right)
                   : rows[got - 1].read(options, optarg, &right)) {
        if (got < OWN)
            options->given |= UINT64_C(1) << (got - 1);
        if (got < OWN && rows[got - 1].group & SHARED && !share(options, name, optarg))
            return options_usage_error(command, "--%s: that is one option too many", name);
        return -1;
    }
    if (got < OWN && rows[got - 1].read == read_bound)
        names = right; /* the names of bounds are there */
    return options_usage_error(command, "--%s %.80s: it must be %s%s", name, optarg ? optarg : "",
                               right, optarg && names ? nearest_in(optarg, names).text : "");
}

/* Is @next the value of an option whose value follows a '=', as in "--web wait"? */
static bool lacks_equals(const struct options *options, int got, const char *next)
{
    struct options probe = *options;
    const char *right;

    return got < OWN && !optarg && next && rows[got - 1].value &&
           may_be_left_out(rows[got - 1].value) && rows[got - 1].read(&probe, next, &right);
}

/* Options that have no meaning without another one. */
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

/* Says what is lacking, if @command takes it. Returns -1 to go on. */
static int check_parts(const struct options *options, const struct options_command *command)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const struct option_row *of = &rows[row_of(parts[i].of)];

        if (options->given >> row_of(parts[i].name) & 1 && !(options->given >> (of - rows) & 1) &&
            command->groups & of->group)
            return options_usage_error(command->name, "--%s has no meaning without --%s %s",
                                       parts[i].name, of->name, of->value);
    }
    return -1;
}

/* Bounds that are a profile's, and the fields that say the same. */
static const struct {
    const char *name, *field;
    size_t at; /* in struct emu_bounds */
} of_profile[] = {
    {"reply", "reply_timeout_ps", offsetof(struct emu_bounds, reply_ms)},
    {"retries", "retry_limit", offsetof(struct emu_bounds, retries)},
};
#define OF_PROFILE (sizeof of_profile / sizeof of_profile[0])

/* Was the @i th of them given? */
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

/* What no reader sees alone. Returns -1 to go on. */
static int check_together(const struct options *options, const struct options_command *command)
{
    bool virtual = options->clock == EMU_CLOCK_VIRTUAL;

    if (options->topo && options->nodes)
        return options_usage_error(command->name, "--topo and --nodes exclude each other");
    if (check_parts(options, command) >= 0)
        return EXIT_USAGE;
    for (size_t i = 0; i < OF_PROFILE; i++)
        if (gives_bound(options, i) && options_sets(options, of_profile[i].field))
            return options_usage_error(command->name, "--bound %s and --set %s exclude each other",
                                       of_profile[i].name, of_profile[i].field);
    if (virtual && !(command->groups & (OPTIONS_VIRTUAL | OPTIONS_ANY_CLOCK)))
        return options_usage_error(command->name,
                                   "--clock virtual: it must be raw or real; virtual time is what "
                                   "fabemu traffic runs in");
    if (!virtual && command->groups & OPTIONS_VIRTUAL)
        return options_usage_error(command->name, "--clock %s: it must be virtual",
                                   options->clock == EMU_CLOCK_RAW ? "raw" : "real");
    return -1;
}

int options_parse(struct options *ret, const struct options_command *command, int argc, char **argv)
{
    return options_parse_own(ret, command, &(struct options_owns){.count = 0}, argc, argv);
}

/* The question for the user of a misspelt option: for "--nmae=lab", did you mean '--name'? */
static struct nearest_text resembling(const struct options_command *command,
                                      const struct options_owns *owns, const char *word)
{
    char text[80];

    snprintf(text, sizeof text, "%.*s", (int)strcspn(word, "="), word);
    struct nearest nearest = nearest_to(text + strspn(text, "-"));
    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].group || rows[i].group & command->groups)
            nearest_try(&nearest, rows[i].name);
    for (size_t i = 0; i < owns->count; i++)
        nearest_try(&nearest, owns->row[i].name);
    return nearest_question(&nearest, "--");
}

/* -topo is letters to getopt, of which the first is wrong; the word that it is in may come next. */
static int no_option(const struct options_command *command, const struct options_owns *owns,
                     const char *word)
{
    if (optopt > (int)ROWS && optopt < HELP)
        return options_usage_error(command->name, "%s has no option '-%c': names have two dashes",
                                   command->name, optopt);
    return options_usage_error(command->name, "%s has no option '%.80s'%s%s", command->name, word,
                               optopt ? " of this form" : "",
                               optopt ? "" : resembling(command, owns, word).text);
}

int options_parse_own(struct options *ret, const struct options_command *command,
                      const struct options_owns *owns, int argc, char **argv)
{
    struct option longs[ROWS + OPTIONS_OWNS_MAX + 2];
    int got;

    *ret = (struct options){.clock = EMU_CLOCK_RAW,
                            .threads = FABRIC_THREADS_AUTO,
                            .seed = 1,
                            .launch = "ssh",
                            .snap_bytes = CAPTURE_SNAP_MOST,
                            .capture_limits = {.most_bytes = UINT64_MAX, .count = 1},
                            .timeline_from_bytes = TIMELINE_FROM_BYTES,
                            .timeline_most_bytes = TIMELINE_MOST_BYTES};
    ret->argv = argv;
    if (command->groups & OPTIONS_VIRTUAL)
        ret->clock = EMU_CLOCK_VIRTUAL;
    long_options(longs, command, owns);
    optind = 0; /* glibc: start anew */
    opterr = 0;
    /* "+": what follows a command to run is the command's. */
    const char *shorts = command->command_follows ? "+:h" : ":h";
    while ((got = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        const char *word = argv[optind - 1];
        if (got == HELP || got == 'h') {
            print_help(command, owns);
            return EXIT_SUCCESS;
        }
        if (got == ':')
            return options_usage_error(command->name, "%s needs a value", word);
        if (optarg == word && strncmp(word, "--", 2) == 0) /* another option, or the end of all */
            return options_usage_error(command->name, "%s needs a value before '%.80s'",
                                       argv[optind - 2], word);
        if (got == '?')
            return no_option(command, owns, word);
        if (lacks_equals(ret, got, argv[optind]))
            return options_usage_error(command->name, "write '%s=%.80s', with '='", word,
                                       argv[optind]);
        int status = take_option(ret, command->name, owns, got);
        if (status >= 0)
            return status;
    }
    ret->operands = optind;
    ret->dashes = optind > 0 && strcmp(argv[optind - 1], "--") == 0;
    return check_together(ret, command);
}

void options_print_idle(const struct options *options, const struct fabric_config *config)
{
    char text[512];
    const char *what;

    if (config->clock != EMU_CLOCK_RAW && rates_print(config, text, sizeof text))
        print_message("cables: %s", text);
    if (config->graph->up > TOPO_UP_DISTANCE)
        print_message(
            "routes: the cables form no tree, so routes may lead through few switches; up is %s",
            topo_up_text(config->graph->up));

    for (unsigned i = 0; i < options->set_count; i++) {
        what = emu_profile_idle(&config->profile, config->clock, options->sets[i]);
        if (what)
            print_message("%s plays no part here: it is for %s", options->sets[i], what);
    }
    for (size_t i = 0; i < OF_PROFILE; i++) {
        what = emu_profile_idle(&config->profile, config->clock, of_profile[i].field);
        if (what && gives_bound(options, i))
            print_message("--bound %s plays no part here: it is for %s", of_profile[i].name, what);
    }
    if (config->threads < FABRIC_THREADS_DEVICE && config->threads > config->graph->switches)
        print_message("--threads %u: this network has %u switches, and a switch one thread at most",
                      config->threads, config->graph->switches);
}
