/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.h - the options that commands share, and what they make of a fabric.
 */
#ifndef APPS_CMD_OPTIONS_H
#define APPS_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/control/paths.h"
#include "apps/capture/files.h"
#include "apps/fabric/fabric.h"

#define OPTIONS_SETS_MAX   32
#define OPTIONS_SHARED_MAX 64

/* Which options a command takes. */
enum options_group {
    OPTIONS_NETWORK = 1,       /* --topo, --nodes */
    OPTIONS_FABRIC = 2,        /* --profile, --clock, … */
    OPTIONS_REPORT = 4,        /* --report */
    OPTIONS_NAME = 8,          /* --name */
    OPTIONS_JSON = 16,         /* --json */
    OPTIONS_FOREGROUND = 32,   /* --foreground */
    OPTIONS_CHECK = 64,        /* --check */
    OPTIONS_VIRTUAL = 128,     /* no option: the clock is always virtual */
    OPTIONS_FAULTS = 256,      /* --faults */
    OPTIONS_EVENTS = 512,      /* --events, --record, --timeline */
    OPTIONS_BOUNDS = 1024,     /* --bound */
    OPTIONS_KEEP = 2048,       /* --keep-going */
    OPTIONS_CLUSTER = 4096,    /* --cluster, --host */
    OPTIONS_LAUNCH = 8192,     /* --launch */
    OPTIONS_CAPTURE = 16384,   /* --capture, --capture-filter */
    OPTIONS_SNAP = 32768,      /* --snaplen, --capture-size, --capture-files */
    OPTIONS_WEB = 65536,       /* --web */
    OPTIONS_ANY_CLOCK = 131072 /* no option: --clock may be virtual, too */
};

/* An option of one command alone. */
struct options_own {
    const char *name;
    const char *value; /* how --help calls it; NULL: takes none */
    const char *help;
    /* Takes one value; on a wrong one writes what would be right and returns false. */
    bool (*read)(void *into, const char *value, const char **right);
};

#define OPTIONS_OWNS_MAX 32

/* All of a command's. */
struct options_owns {
    const struct options_own *row;
    size_t count; /* at most OPTIONS_OWNS_MAX */
    void *into;   /* what the readers get */
};

/* A command, for its --help. */
struct options_command {
    const char *name;     /* "run" */
    const char *operands; /* "-- COMMAND…" */
    const char *about;    /* a sentence or two */
    unsigned groups;      /* enum options_group */
    bool command_follows; /* the operands are a command line of their own */
    const char *more;     /* what --help says behind the options, lines; NULL: nothing */
};

struct options {
    char running[PATHS_NAME_MAX + 1]; /* room for paths_default() */
    const char *topo;                 /* NULL: not given */
    uint32_t nodes;                   /* 0: not given */
    const char *profile;              /* NULL: not given */
    enum emu_clock_mode clock;
    uint32_t threads; /* count, or FABRIC_THREADS_* */
    uint64_t seed;
    const char *name;           /* NULL: not given */
    const char *report;         /* file; NULL: none */
    const char *faults;         /* schedule or scenario; NULL: none */
    const char *events;         /* file; NULL: none */
    const char *capture;        /* file; NULL: none */
    const char *capture_filter; /* NULL: not given */
    uint32_t snap_bytes;        /* of a payload */
    struct capture_limits capture_limits;
    const char *record;                 /* file; NULL: none */
    const char *timeline;               /* file; NULL: none */
    uint64_t timeline_from_bytes;       /* of messages in it */
    uint64_t timeline_most_bytes;       /* that it may have */
    const char *sets[OPTIONS_SETS_MAX]; /* FIELD=VALUE of the profile */
    unsigned set_count;
    struct emu_bounds bounds; /* those that were given */
    const char *cluster;      /* file; NULL: one host */
    const char *host;         /* this one's name there; NULL: not given */
    const char *launch;       /* agent that starts the others; NULL: none */
    struct {
        const char *name, *value;
    } shared[OPTIONS_SHARED_MAX]; /* given options that all hosts of a fabric must have */
    unsigned shared_count;
    uint16_t web_port; /* of the page; 0: any that is free */
    bool web;          /* there is a page */
    bool web_waits;    /* the command starts once a browser has opened it */
    bool keep_going;
    bool json;
    bool foreground;
    bool check;
    uint64_t given; /* options that were, by bit: in options.c */
    char **argv;    /* the command and its arguments, as options_parse() had them */
    bool dashes;    /* the operands came after "--" */
    int operands;   /* index in argv of the first */
};

/**
 * options_parse - read the options of @command; argv[0] is its name.
 * Returns -1 to go on; otherwise the exit status: help was printed, or an error said.
 */
int options_parse(struct options *ret, const struct options_command *command, int argc,
                  char **argv);

/** options_parse_own - the same for a command with options of its own. */
int options_parse_own(struct options *ret, const struct options_command *command,
                      const struct options_owns *owns, int argc, char **argv);

/** options_sets - does --set, or an option that means the same, set this field of the profile? */
bool options_sets(const struct options *options, const char *field);

/** options_count - read a decimal number from @least to @most; false: @text is none. */
bool options_count(const char *text, uint64_t least, uint64_t most, uint64_t *ret);

/** options_usage_error - say the line and where help is; returns EXIT_USAGE. */
int options_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/**
 * options_fabric - the configuration of the fabric that @options describe.
 * @name: its name, or NULL for a fabric that will not run.
 * @graph: the same as ret->graph; the caller's to free with topo_free(). @options must outlive
 * @ret. Errors are said. Returns 0 or an exit status.
 */
int options_fabric(struct fabric_config *ret, struct topo_graph **graph,
                   const struct options *options, const char *name);

/**
 * options_print_idle - print which of the given fields, bounds and threads have no effect in
 * @config's machine on its clock. They are no error: a script may set them for several machines. On
 * clocks on which a byte takes time, also print the rates of a file's cables.
 */
void options_print_idle(const struct options *options, const struct fabric_config *config);

#endif
