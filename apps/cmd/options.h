/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h - the options of commands, and the configuration of a fabric that is made from them. */
#ifndef APPS_CMD_OPTIONS_H
#define APPS_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/base/quantity.h"
#include "apps/control/paths.h"
#include "apps/capture/files.h"
#include "apps/fabric/fabric.h"

struct json_object;

#define OPTIONS_SETS_MAX   32
#define OPTIONS_SHARED_MAX 64

/* Groups of options that several commands share. A command has a set of these. */
enum options_group {
    OPTIONS_NETWORK = 1,       /* --topo, --nodes */
    OPTIONS_FABRIC = 2,        /* --profile, --clock, … */
    OPTIONS_REPORT = 4,        /* --report */
    OPTIONS_NAME = 8,          /* --name */
    OPTIONS_JSON = 16,         /* --json */
    OPTIONS_FOREGROUND = 32,   /* --foreground */
    OPTIONS_CHECK = 64,        /* --check */
    OPTIONS_VIRTUAL = 128,     /* not an option: the clock is always virtual */
    OPTIONS_FAULTS = 256,      /* --faults */
    OPTIONS_EVENTS = 512,      /* --events, --record, --timeline */
    OPTIONS_BOUNDS = 1024,     /* --bound */
    OPTIONS_KEEP = 2048,       /* --keep-going */
    OPTIONS_CLUSTER = 4096,    /* --cluster, --host */
    OPTIONS_LAUNCH = 8192,     /* --launch */
    OPTIONS_CAPTURE = 16384,   /* --capture, --capture-filter, and those of OPTIONS_SNAP */
    OPTIONS_SNAP = 32768,      /* --snaplen, --capture-size, --capture-files */
    OPTIONS_WEB = 65536,       /* --web[=PORT] */
    OPTIONS_WEB_WAIT = 524288, /* --web[=PORT|wait] */
    OPTIONS_PROVIDER = 262144, /* --provider-name */
    OPTIONS_COMPUTE = 1048576, /* --compute, --goal, --call-ns, --date, --tsc */
    OPTIONS_ANY_CLOCK = 131072 /* not an option: --clock may also be virtual */
};

/* An option: its line in --help, and the way to read its value. */
struct option_row {
    const char *name;
    const char *value; /* form of the value in --help; "[=VALUE]": optional; NULL: no value */
    const char *help;
    /*
     * Parse a value into @into. If it returns false, the value is wrong, and *@right describes a
     * correct value.
     */
    bool (*read)(void *into, const char *value, const char **right);

    /*
     * If read is NULL, the value is stored in the field at offset `at` of @into. The field is
     * - bool, if the option has no value,
     * - an enumeration, if `choice` is set; `value` then lists the names of its values 0, 1, ...
     *   ("a|b|c"),
     * - uint64_t, if `form` is given,
     * - uint32_t (if `wide` is set, uint64_t), if `most` is given, for a number from `least` to
     *   `most`,
     * - const char * otherwise; an empty value is wrong if `right` is given.
     */
    size_t at;
    bool choice;
    const struct quantity_form *form;
    uint64_t least, most;
    bool wide;
    const char *right; /* for error messages: a description of a correct value */

    unsigned group; /* for a shared option: enum options_group; for others, the command defines
                     * the meaning */
};

#define OPTIONS_TEXT_OF(x) #x
#define OPTIONS_TEXT(x)    OPTIONS_TEXT_OF(x)
/* Fields of an option_row whose value is a number from @low to @high. Both must be literals. */
#define OPTIONS_RANGE(low, high)    \
    .least = (low), .most = (high), \
    .right = "a number from " OPTIONS_TEXT(low) " to " OPTIONS_TEXT(high)

#define OPTION_ROWS_MAX 32

/* The options that belong to one command only. */
struct option_table {
    const struct option_row *row;
    size_t count;    /* at most OPTION_ROWS_MAX */
    void *into;      /* the structure in which their values are stored */
    uint64_t *given; /* gets one bit for each row whose option was given; may be NULL */
};
#define OPTION_TABLE(rows, into)                             \
    {                                                        \
        (rows), sizeof(rows) / sizeof(rows)[0], (into), NULL \
    }

/* The properties of a command that options_parse() and --help need. */
struct options_command {
    const char *name;     /* "run" */
    const char *part;     /* the option whose value has these options; NULL: the command itself */
    const char *operands; /* "-- COMMAND…" */
    const char *about;
    unsigned groups;      /* enum options_group */
    bool command_follows; /* the operands are another command with its own options, as for run */
    const char *more;     /* text of --help after the options; NULL: none */
};

struct options {
    char running[PATHS_NAME_MAX + 1]; /* buffer for paths_default() */
    const char *topo;                 /* NULL: not given */
    bool topo_is_operand;             /* `topo` is an operand, not the value of --topo */
    uint32_t nodes;                   /* 0: not given */
    const char *profile;              /* NULL: not given */
    enum emu_clock_mode clock;
    struct emu_compute compute;
    const char *compute_file; /* recording of --compute; NULL: none */
    const char *goal;         /* file of --goal; NULL: none */
    char call_set[40];        /* FIELD=VALUE of --call-ns */
    uint32_t date_s;          /* 0: not given */
    bool tsc;
    uint32_t threads; /* count, or FABRIC_THREADS_* */
    uint64_t seed;
    const char *name;           /* NULL: not given */
    const char *report;         /* file; NULL: none */
    const char *faults;         /* schedule or scenario; NULL: none */
    const char *events;         /* file; NULL: none */
    const char *capture;        /* file; NULL: none */
    const char *capture_filter; /* NULL: not given */
    uint64_t snap_bytes;        /* bytes of each payload to capture */
    struct capture_limits capture_limits;
    const char *record;                 /* file; NULL: none */
    const char *timeline;               /* file; NULL: none */
    uint64_t timeline_from_bytes;       /* smaller messages are not in the timeline */
    uint64_t timeline_most_bytes;       /* limit of the file's size */
    const char *sets[OPTIONS_SETS_MAX]; /* FIELD=VALUE of the profile */
    unsigned set_count;
    struct emu_bounds bounds; /* given by --bound */
    const char *provider;     /* name of the libfabric provider; NULL: not given */
    const char *cluster;      /* file; NULL: one host */
    const char *host;         /* name of this host in the file; NULL: not given */
    const char *launch;       /* launcher that starts the other hosts; NULL: none */
    struct {
        const char *name, *value;
    } shared[OPTIONS_SHARED_MAX]; /* options that were given and that all hosts must get */
    unsigned shared_count;
    uint16_t web_port; /* port of the web page; 0: any free port */
    bool web;          /* serve a web page */
    bool web_waits;    /* the command starts when a browser has opened the page */
    bool keep_going;
    bool json;
    bool foreground;
    bool check;
    uint64_t given; /* one bit for each row of the table in options.c */
    char **argv;    /* the arguments of options_parse() */
    bool dashes;    /* the operands came after "--" */
    int operands;   /* index in argv of the first operand */
};

/**
 * options_parse - parse the options of @command; argv[0] is its name. @own: options that only this
 * command has; NULL: none. Returns -1 if the command shall continue. If it has printed the help or
 * an error, it returns the exit status.
 */
int options_parse(struct options *ret, const struct options_command *command,
                  const struct option_table *own, int argc, char **argv);

/**
 * options_parse_name - as options_parse(), for a command whose only operand is a fabric's name.
 * @name: set to the operand, or to the name of the default fabric.
 */
int options_parse_name(struct options *ret, const char **name,
                       const struct options_command *command, const struct option_table *own,
                       int argc, char **argv);

/** options_sets - return whether --set, or another option, sets this field of the profile. */
bool options_sets(const struct options *options, const char *field);

/** options_count - parse a decimal number from @least to @most. False: @text is no such number. */
bool options_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret);

/** options_on_stdout - return how many results of the command go to standard output. Pure. */
int options_on_stdout(const struct options *options);

/** options_usage_error - print an error, and the command that prints help. Returns EXIT_USAGE. */
int options_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/**
 * options_fabric - make the fabric's configuration from @options.
 * @name: the fabric's name, or NULL for a fabric that will not run.
 * @graph: set to ret->graph, which the caller frees with topo_free().
 * @options must outlive @ret. Prints errors. Returns 0 or an exit status.
 */
int options_fabric(struct fabric_config *ret, struct topo_graph **graph,
                   const struct options *options, const char *name);

/**
 * options_print_rates - write a line to @text that says which rates of cables the network's file
 * gives, and whether the profile overrides them. Returns false if the file gives no rate.
 */
bool options_print_rates(const struct fabric_config *config, char *text, size_t bytes);

/**
 * options_print_idle - print which of the fields (--set), bounds and threads that were given have
 * no effect with the profile and the clock of @config. This is not an error, because a script may
 * set them for several profiles. On a clock with times, also print the rates of cables. If the
 * cables do not form a tree, also print how routes are found.
 */
void options_print_idle(const struct options *options, const struct fabric_config *config);

/** options_print_json - print @value to standard output, indented. */
void options_print_json(struct json_object *value);

#endif
