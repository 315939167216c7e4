/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare.c - `fabemu compare`: run a program in simulated time on several networks, and compare
 * the reports of the runs.
 *
 * Each run is a `fabemu run --clock virtual --report FILE` of this executable.
 */
#include "apps/cmd/compare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/command.h"
#include "apps/base/message.h"
#include "apps/base/output.h"
#include "apps/base/silence.h"
#include "apps/cmd/arrival.h"
#include "apps/cmd/commands.h"
#include "apps/cmd/options.h"
#include "apps/cmd/scratch.h"
#include "apps/cmd/standstill.h"
#include "apps/cmd/standstill_lines.h"
#include "apps/fabric/origin.h"
#include "emu/util/json.h"
#include "emu/util/printable.h"

#define LISTED_MAX 16  /* values of an option that may be repeated */
#define WORDS_MAX  160 /* most words of a command line of fabemu run, without COMMAND */
#define WORDS_RUN  7   /* number of these words that row_run() adds */
/*
 * Default of --standstill. It is long, because one rank may compute for seconds of simulated time
 * while all others wait. If all ranks wait, the simulated minute passes within seconds.
 */
#define STANDSTILL "60s:end"
#define WHY_BYTES  sizeof((struct compare_row *)0)->why

struct list {
    const char *value[LISTED_MAX];
    unsigned count;
};

struct compare {
    struct list topos, profiles, variants;
    struct list sets;
    const char *seed, *call_ns, *faults; /* NULL: not given */
    uint32_t date_s;                     /* date at time 0 of all runs, in seconds since 1970 */
    const char *compute;
    const char *standstill; /* the value of --standstill */
    const char *out;        /* folder for the files of the runs; NULL: not given */
    const char *csv, *json, *plot;
    char folder[PATH_MAX - 32];
    char **command; /* words of COMMAND, ended by NULL */
    struct compare_table table;
    unsigned runs; /* number of runs in all */
    unsigned run;  /* number of runs that have begun */
    struct silence silence;
    bool ended;         /* --standstill TIME:end ended a run */
    int interrupted;    /* the signal that interrupted the comparison; 0: none */
    sigset_t waited;    /* signals for which run_wait() waits; they are blocked while rows run */
    sigset_t unblocked; /* signal mask without them */
};

/* --- options ------------------------------------------------------------------------- */

static bool list_add(struct list *list, const char *value, const char **right)
{
    *right = "given at most " OPTIONS_TEXT(LISTED_MAX) " times, and not empty";
    if (list->count == LISTED_MAX || !*value)
        return false;
    list->value[list->count++] = value;
    return true;
}

static bool read_topo(void *into, const char *value, const char **right)
{
    return list_add(&((struct compare *)into)->topos, value, right);
}

static bool read_profile(void *into, const char *value, const char **right)
{
    return list_add(&((struct compare *)into)->profiles, value, right);
}

static bool read_set(void *into, const char *value, const char **right)
{
    return list_add(&((struct compare *)into)->sets, value, right);
}

static bool read_variant(void *into, const char *value, const char **right)
{
    const char *colon = strstr(value, ": ");

    if (!list_add(&((struct compare *)into)->variants, value, right))
        return false;
    *right = "a name, ': ' and options of fabemu run, as in 'no credits: --set credit=counter'";
    return colon && colon != value && colon[2 + strspn(colon + 2, " ")] == '-';
}

static bool read_compute(void *into, const char *value, const char **right)
{
    *right = "none, cpu or replay:FILE";
    ((struct compare *)into)->compute = value;
    return strcmp(value, "none") == 0 || strcmp(value, "cpu") == 0 ||
           (strncmp(value, "replay:", 7) == 0 && value[7]);
}

static bool read_standstill(void *into, const char *value, const char **right)
{
    struct standstill standstill;

    ((struct compare *)into)->standstill = value;
    return standstill_read(&standstill, value, right);
}

#define AT(field) offsetof(struct compare, field)

static const struct option_row rows[] = {
    {"topo", "SPEC", "a network, as in fabemu run; may be repeated", .read = read_topo},
    {"profile", "NAME|FILE", "a profile; each network runs with each of them; may be repeated",
     .read = read_profile},
    {"variant", "'NAME: OPTIONS'",
     "also run on the first network with these options of fabemu run; may be repeated",
     .read = read_variant},
    {"set", "FIELD=VALUE", "override a field of all profiles; may be repeated", .read = read_set},
    {"seed", "N", "seed of random choices (default 1)", .at = AT(seed)},
    {"call-ns", "TIME", "time of each call of the library (default from the profile)",
     .at = AT(call_ns)},
    {"date", "SECONDS",
     "date of the program's clocks at simulated time 0, in seconds since 1970 (default: the host's "
     "date when fabemu compare begins)",
     .at = AT(date_s), OPTIONS_RANGE(1, 4294967295)},
    {"faults", "FILE|NAME", "inject a schedule of faults into each network", .at = AT(faults)},
    {"compute", "none|cpu|replay:FILE",
     "time that the program computes between calls: none (default), its CPU time in a first run "
     "on the first network, or the times of a recording of fabemu run",
     .read = read_compute},
    {"standstill", "TIME[:end]|off",
     "if nothing moves for TIME of simulated time, report after the run who waits for whom; with "
     ":end, this also ends the run (default " STANDSTILL ")",
     .read = read_standstill},
    {"csv", "FILE", "also write the table as CSV", .at = AT(csv), .right = "the name of a file"},
    {"json", "FILE", "also write the table as JSON", .at = AT(json), .right = "the name of a file"},
    {"plot", "FILE", "also draw the times as SVG", .at = AT(plot), .right = "the name of a file"},
    {"out", "DIR", "keep the report and the program's output of each run in DIR", .at = AT(out),
     .right = "the name of a folder"},
};

static const struct options_command compare_command = {
    .name = "compare",
    .operands = "-- COMMAND [ARGUMENTS]",
    .about = "Run COMMAND in simulated time on several networks, and print a table of their\n"
             "times. For example:\n"
             "    fabemu compare --topo kary:4,2 --topo kary:16,1 -- \\\n"
             "        mpirun -np 16 ./program",
    .more = "The output of COMMAND is not shown; --out keeps it. docs/manual.md explains the\n"
            "table. Exit status: 0 if COMMAND succeeded on all networks; 1 if not; 124 if a\n"
            "run was ended because it stood still; 2 if the command line is wrong; 130\n"
            "after Ctrl-C, which ends the comparison: the table then has the networks on\n"
            "which COMMAND has finished.",
    .command_follows = true,
};

/* The options that a row may have. */
static const struct options_command row_command = {
    .name = "compare",
    .part = "--variant",
    .operands = "",
    .about = "The options of --variant.",
    .groups = OPTIONS_NETWORK | OPTIONS_FABRIC | OPTIONS_ANY_CLOCK | OPTIONS_FAULTS |
              OPTIONS_BOUNDS | OPTIONS_PROVIDER | OPTIONS_COMPUTE,
};

/* --- command lines ------------------------------------------------------------------- */

struct words {
    char *word[WORDS_MAX + 1];
    int count;
};

static void add_word(struct words *words, const char *word)
{
    if (words->count < WORDS_MAX)
        words->word[words->count++] = (char *)(uintptr_t)word;
}

static void add_option(struct words *words, const char *option, const char *value)
{
    if (!value)
        return;
    add_word(words, option);
    add_word(words, value);
}

/* Add the words of a variant. @text: a copy of its text, which is cut up and holds the words. */
static void add_variant(struct words *words, char *text)
{
    char *rest = NULL;

    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        add_word(words, word);
}

/* Return the options of `fabemu run` for a row. row_run() adds further ones. */
static struct words row_words(const struct compare *compare, const struct compare_row *row,
                              char *variant)
{
    struct words words = {.count = 0};

    add_option(&words, "--clock", "virtual");
    add_option(&words, "--topo", row->topo);
    add_option(&words, "--profile", row->profile);
    for (unsigned i = 0; i < compare->sets.count; i++)
        add_option(&words, "--set", compare->sets.value[i]);
    add_option(&words, "--seed", compare->seed);
    add_option(&words, "--call-ns", compare->call_ns);
    add_option(&words, "--faults", compare->faults);
    if (variant)
        add_variant(&words, variant);
    return words;
}

/* Check the options of a row before anything runs. Returns 0 or an exit status. */
static int row_check(const struct compare *compare, const struct compare_row *row, char **argv)
{
    char *variant = row->variant ? strdup(row->variant) : NULL;
    struct words words = row_words(compare, row, variant);
    struct fabric_config config;
    struct topo_graph *graph;
    struct options options;
    int status;

    if (words.count > WORDS_MAX - WORDS_RUN) {
        free(variant);
        return options_usage_error("compare", "--variant '%.80s': it has too many words",
                                   row->name);
    }
    memmove(words.word + 1, words.word, (size_t)words.count * sizeof words.word[0]);
    words.word[0] = (char *)(uintptr_t) "compare";
    status = options_parse(&options, &row_command, NULL, words.count + 1, words.word);
    if (!status)
        status =
            options_usage_error("compare", "--variant '%.80s': a variant has no --help", row->name);
    else if (status < 0 && (options.operands <= words.count || options.dashes))
        status = options_usage_error("compare",
                                     "--variant '%.80s': its options have a word "
                                     "'%.80s' that is no option",
                                     row->name,
                                     options.operands <= words.count ? words.word[options.operands]
                                                                     : "--");
    else if (status < 0 && (options.clock != EMU_CLOCK_VIRTUAL || options.goal ||
                            options.compute_file || options.compute.mode != EMU_COMPUTE_NONE))
        status = options_usage_error("compare",
                                     "--variant '%.80s': a variant cannot change --clock or "
                                     "--compute, and cannot have --goal",
                                     row->name);
    if (status < 0) {
        options.argv = argv; /* fabemu-wide gets the same command line */
        status = options_fabric(&config, &graph, &options, NULL);
        if (!status)
            topo_free(graph);
    }
    free(variant);
    return status;
}

/* --- rows ---------------------------------------------------------------------------- */

/* Return whether a row before @row has the same name. */
static bool is_named_before(const struct compare_table *table, const struct compare_row *row)
{
    for (const struct compare_row *other = table->row; other < row; other++)
        if (strcmp(other->name, row->name) == 0)
            return true;
    return false;
}

/* Name a row. If earlier rows have the same name, add a number to the name. */
static void row_name(const struct compare_table *table, struct compare_row *row, const char *name)
{
    unsigned number = 1;

    snprintf(row->name, sizeof row->name, "%s", name);
    emu_printable(row->name);
    while (is_named_before(table, row)) {
        snprintf(row->name, sizeof row->name, "%.100s #%u", name, ++number);
        emu_printable(row->name);
    }
}

/*
 * Make a row for each network with each profile. Also make a row for each variant, on the first
 * network with the first profile.
 */
static int rows_make(struct compare *compare)
{
    unsigned topos = compare->topos.count ? compare->topos.count : 1;
    unsigned profiles = compare->profiles.count ? compare->profiles.count : 1;
    char name[sizeof compare->table.row[0].name];

    if (topos * profiles + compare->variants.count > COMPARE_ROWS_MAX)
        return options_usage_error("compare", "more than %d networks", COMPARE_ROWS_MAX);
    for (unsigned t = 0; t < topos; t++)
        for (unsigned p = 0; p < profiles; p++) {
            struct compare_row *row = &compare->table.row[compare->table.rows++];

            row->topo = compare->topos.value[t];
            row->profile = compare->profiles.value[p];
            snprintf(name, sizeof name, "%.80s%s%.40s", row->topo ? row->topo : "default network",
                     row->profile ? " " : "", row->profile ? row->profile : "");
            row_name(&compare->table, row, name);
        }
    for (unsigned v = 0; v < compare->variants.count; v++) {
        const char *text = compare->variants.value[v], *colon = strstr(text, ": ");
        struct compare_row *row = &compare->table.row[compare->table.rows++];

        row->topo = compare->topos.value[0];
        row->profile = compare->profiles.value[0];
        row->variant = colon + 2;
        snprintf(name, sizeof name, "%.*s", (int)(colon - text), text);
        row_name(&compare->table, row, name);
    }
    return 0;
}

/* --- runs ---------------------------------------------------------------------------- */

static void progress(struct compare *compare, const char *name)
{
    char what[sizeof compare->silence.what];

    compare->run++;
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K[%u of %u] %s", compare->run, compare->runs, name);
        return;
    }
    snprintf(what, sizeof what, "run %u of %u: %s", compare->run, compare->runs, name);
    print_message("%s", what);
    if (compare->run == 1)
        silence_begin(&compare->silence, SILENCE_MS, what);
    else
        silence_set(&compare->silence, what);
}

static void progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* Start fabemu run. Its standard output and error go to the file @log. Returns the pid. */
static pid_t run_start(char **argv, const char *log, const sigset_t *signals)
{
    pid_t parent = getpid(), pid = fork();
    int fd;

    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE); /* the parent died before the prctl() */
    setpgid(0, 0);           /* the parent forwards signals of the terminal */
    fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(EXIT_FAILURE);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        dup2(fd, STDIN_FILENO);
    sigprocmask(SIG_SETMASK, signals, NULL);
    execv("/proc/self/exe", argv);
    _exit(EXIT_CANNOT_RUN);
}

/*
 * Block SIGCHLD and the signals that interrupt the comparison, so that it can wait for them and
 * then print its finished rows.
 */
static void signals_block(struct compare *compare)
{
    struct sigaction now;

    sigemptyset(&compare->waited);
    sigaddset(&compare->waited, SIGCHLD);
    for (const int *s = (const int[]){SIGINT, SIGTERM, SIGHUP, 0}; *s; s++)
        if (sigaction(*s, NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* as under nohup */
            sigaddset(&compare->waited, *s);
    sigprocmask(SIG_BLOCK, &compare->waited, &compare->unblocked);
}

/* Take the signals that have arrived since the last run, and let later ones end this process. */
static void signals_unblock(struct compare *compare)
{
    static const struct timespec at_once = {.tv_sec = 0};

    for (int signal; (signal = sigtimedwait(&compare->waited, NULL, &at_once)) > 0;)
        if (signal != SIGCHLD)
            compare->interrupted = signal;
    sigprocmask(SIG_SETMASK, &compare->unblocked, NULL);
}

/* Wait until process @pid ends, and forward signals to it. Returns its exit status. */
static int run_wait(struct compare *compare, pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        int signal = sigwaitinfo(&compare->waited, NULL);

        if (signal > 0 && signal != SIGCHLD) {
            compare->interrupted = signal;
            kill(pid, signal);
        }
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/*
 * Find the line of @file that tells why a run has failed, and copy it without "fabemu: ". Lines
 * about a slow start are skipped, because they give no reason.
 */
static void find_why(FILE *file, char *why, size_t bytes)
{
    static const char mark[] = "fabemu: ";
    char line[480];

    while (fgets(line, sizeof line, file)) {
        char *differs = strstr(line, ": the recording has ");
        char *text = strncmp(line, mark, sizeof mark - 1) == 0 ? line + sizeof mark - 1 : NULL;

        line[strcspn(line, "\n")] = '\0';
        if (differs && strstr(line, "; from here on"))
            *strstr(line, "; from here on") = '\0';
        if (text &&
            (differs || (!*why && strcmp(text, "report") != 0 && !arrival_prints_line(text))))
            snprintf(why, bytes, "%s", text);
        if (differs)
            return;
    }
}

/* Describe why the run of @row has failed. @log: the output of the run. */
static void explain(struct compare_row *row, const char *log)
{
    static const char standstill[] = "nothing has moved";
    FILE *file = fopen(log, "re");
    char why[WHY_BYTES - 32] = "";

    if (file) {
        find_why(file, why, sizeof why);
        fclose(file);
    }
    emu_printable(why);
    /* the log has only the first message, which came before the report and states a shorter time */
    if (standstill_for_ns(row->report) && strncmp(why, standstill, strlen(standstill)) == 0)
        snprintf(why, sizeof why, "%s for %s of simulated time", standstill,
                 duration_of_ns((double)standstill_for_ns(row->report)).text);
    snprintf(row->why, sizeof row->why, "exit status %d%s%s", row->status, *why ? ": " : "", why);
}

/* If the run of @row has reported a standstill, print which ranks wait for which others. */
static void print_standstill(struct compare *compare, const struct compare_row *row)
{
    if (!json_object_object_get(row->report, "standstill"))
        return;
    compare->ended |= row->status == EXIT_STANDSTILL;
    progress_clear();
    print_message("%s: the program stood still:", row->name);
    standstill_print_report(row->report);
}

/*
 * Run COMMAND with the options of @row. @number: number in the names of the run's files. @compute:
 * value of --compute.
 */
static void row_run(struct compare *compare, struct compare_row *row, unsigned number,
                    const char *compute)
{
    char *variant = row->variant ? strdup(row->variant) : NULL;
    struct words words = row_words(compare, row, variant);
    char report[PATH_MAX], log[PATH_MAX], date[12];
    size_t count = 0;
    char **argv;
    pid_t pid;

    snprintf(report, sizeof report, "%s/%u.json", compare->folder, number);
    snprintf(log, sizeof log, "%s/%u.txt", compare->folder, number);
    add_option(&words, "--report", report);
    add_option(&words, "--compute", compute);
    add_option(&words, "--standstill", compare->standstill);
    add_word(&words, "--");
    while (compare->command[count])
        count++;
    snprintf(date, sizeof date, "%u", compare->date_s);
    argv = calloc((size_t)words.count + count + 5, sizeof *argv);
    if (!argv || (row->variant && !variant)) {
        row->status = EXIT_FAILURE;
        snprintf(row->why, WHY_BYTES, "out of memory");
        free(argv);
        free(variant);
        return;
    }
    argv[0] = program_invocation_name;
    argv[1] = (char *)(uintptr_t) "run";
    argv[2] = (char *)(uintptr_t) "--date"; /* comes first: a variant may override it */
    argv[3] = date;
    memcpy(argv + 4, words.word, (size_t)words.count * sizeof *argv);
    memcpy(argv + 4 + words.count, compare->command, count * sizeof *argv);
    progress(compare, row->name);
    pid = run_start(argv, log, &compare->unblocked);
    row->status = pid < 0 ? EXIT_FAILURE : run_wait(compare, pid);
    row->report = json_object_from_file(report);
    *row->why = '\0';
    if (row->status || !row->report)
        explain(row, log);
    else if (!emu_json_number(json_object_object_get(row->report, "clock"), "finished_ns", 0))
        snprintf(row->why, WHY_BYTES, "no process has used the fabric and then detached");
    print_standstill(compare, row);
    free(argv);
    free(variant);
}

/*
 * Run COMMAND on the first network, and record how long it computes between calls. *@compute: the
 * value of --compute that replays this recording.
 */
static bool record(struct compare *compare, char *compute, size_t bytes)
{
    struct compare_row first = compare->table.row[0];
    char record[PATH_MAX];

    snprintf(first.name, sizeof first.name, "%.100s, to record the computing",
             compare->table.row[0].name);
    snprintf(record, sizeof record, "record:%s/calls", compare->folder);
    snprintf(compute, bytes, "replay:%s/calls", compare->folder);
    row_run(compare, &first, 0, record);
    json_object_put(first.report);
    if (!*first.why)
        return true;
    for (unsigned i = 0; i < compare->table.rows; i++) {
        compare->table.row[i].status = first.status;
        snprintf(compare->table.row[i].why, WHY_BYTES, "the recording failed: %.480s", first.why);
    }
    return false;
}

/* Run the rows until an interrupt. The table keeps only the finished rows. */
static void run_all(struct compare *compare)
{
    bool records = strcmp(compare->compute, "cpu") == 0;
    char recording[PATH_MAX];
    const char *compute = compare->compute;
    unsigned finished = 0;

    compare->runs = compare->table.rows + records;
    if (records && record(compare, recording, sizeof recording))
        compute = recording;
    else if (records && !compare->interrupted)
        return; /* each row says that the recording failed */
    for (unsigned i = 0; i < compare->table.rows && !compare->interrupted; i++) {
        row_run(compare, &compare->table.row[i], i + 1, compute);
        finished += !compare->interrupted;
    }
    compare->table.rows = finished;
}

/* --- files --------------------------------------------------------------------------- */

/* Find the path of the folder, which must be empty and writable. Errors: an errno, positive. */
static int folder_check(struct compare *compare)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *dir;
    int err = 0;

    if (!realpath(compare->out, path) || access(path, W_OK))
        return errno;
    if (strlen(path) >= sizeof compare->folder)
        return ENAMETOOLONG;
    strcpy(compare->folder, path);
    dir = opendir(path);
    if (!dir)
        return errno;
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            err = ENOTEMPTY;
    closedir(dir);
    return err;
}

static int folder_make(struct compare *compare)
{
    const char *tmp = getenv("TMPDIR");
    int err;

    if (compare->out) {
        if (mkdir(compare->out, 0777) && errno != EEXIST) {
            print_message("cannot make the folder %s: %s; choose another --out", compare->out,
                          strerror(errno));
            return EXIT_FAILURE;
        }
        err = folder_check(compare);
        if (!err)
            return 0;
        print_message("cannot write to %s: %s; choose another --out", compare->out, strerror(err));
        return EXIT_FAILURE;
    }
    snprintf(compare->folder, sizeof compare->folder, "%s/fabemu-compare-XXXXXX",
             tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(compare->folder))
        return 0;
    print_message("cannot make a temporary folder %s: %s; set TMPDIR", compare->folder,
                  strerror(errno));
    return EXIT_FAILURE;
}

/* An output file, and the function that prints it. */
struct file {
    const char *path;   /* NULL: the file is not written */
    const char *option; /* the option that names it */
    void (*print)(FILE *out, const struct compare_table *table);
    struct output output;
};

static int file_open(struct file *file)
{
    int err;

    file->output = OUTPUT_NONE;
    err = file->path ? output_open(&file->output, file->path, INT64_MAX) : 0;
    if (!err)
        return 0;
    print_message("cannot write to %s: %s; choose another %s", file->path, output_why(err),
                  file->option);
    return EXIT_FAILURE;
}

static int file_print(struct file *file, const struct compare_table *table)
{
    FILE *out;
    int err;

    if (!file->path)
        return 0;
    out = output_stream(file->output.fd);
    err = out ? 0 : -errno;
    if (out) {
        file->print(out, table);
        err = output_close(out);
    }
    if (!err || err == -EPIPE)
        return 0;
    print_message("cannot write to %s: %s", file->path, strerror(-err));
    return EXIT_FAILURE;
}

/* Print a line with the names of the files that were written for the user. */
static void print_written(const struct compare *compare, const struct file *files, size_t count)
{
    char names[4 * PATH_MAX] = "";
    size_t used = 0;

    for (size_t i = 0; i < count && compare->table.rows; i++)
        if (files[i].path && !output_is_stdout(files[i].path))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                                     files[i].path);
    if (compare->out)
        snprintf(names + used, sizeof names - used, "%sthe folder %s", used ? ", " : "",
                 compare->out);
    if (*names)
        print_message("the results are in %s", names);
}

/* --- the command --------------------------------------------------------------------- */

static int print_all(struct compare *compare, struct file *files, size_t count)
{
    struct compare_table *table = &compare->table;
    int status = EXIT_SUCCESS;
    /* Perhaps only the program's output says why it failed. Fabemu itself explains two statuses. */
    bool unexplained = false;
    FILE *out = stdout;

    for (size_t i = 0; i < count; i++)
        if (output_is_stdout(files[i].path))
            out = stderr;
    progress_clear();
    if (compare->interrupted)
        print_message("interrupted: %u of %u networks finished", table->rows, table->wanted);
    if (table->rows)
        compare_print(out, table);
    fflush(out);
    for (size_t i = 0; i < count && table->rows; i++)
        if (file_print(&files[i], table)) {
            files[i].path = NULL; /* print_written() leaves it out */
            status = EXIT_FAILURE;
        }
    for (unsigned i = 0; i < table->rows; i++)
        if (*table->row[i].why) {
            status = EXIT_FAILURE;
            unexplained |= table->row[i].status && table->row[i].status != EXIT_USAGE &&
                           table->row[i].status != EXIT_STANDSTILL;
        }
    if (unexplained && !compare->out)
        print_message("--out DIR keeps the program's output, which may say why it failed");
    if (compare->ended)
        status = EXIT_STANDSTILL;
    print_written(compare, files, count);
    return compare->interrupted ? 128 + compare->interrupted : status;
}

static int compare_run(struct compare *compare)
{
    struct file files[] = {{compare->csv, "--csv", compare_print_csv, OUTPUT_NONE},
                           {compare->json, "--json", compare_print_json, OUTPUT_NONE},
                           {compare->plot, "--plot", compare_print_svg, OUTPUT_NONE}};
    const size_t count = sizeof files / sizeof files[0];
    int status = 0;

    for (size_t i = 0; i < count && !status; i++)
        status = file_open(&files[i]);
    if (!status)
        status = folder_make(compare);
    if (!status) {
        signal(SIGCHLD, SIG_DFL);
        signals_block(compare);
        run_all(compare);
        silence_end(&compare->silence);
        if (!compare->out)
            scratch_remove(compare->folder);
        signals_unblock(compare);
        status = print_all(compare, files, count);
    }
    for (size_t i = 0; i < count; i++) /* remove empty files */
        output_end(&files[i].output, true);
    for (unsigned i = 0; i < compare->table.wanted; i++)
        json_object_put(compare->table.row[i].report);
    return status;
}

/* Refuse --out -, and two results on standard output, because no reader could tell them apart. */
static int outputs_check(const struct compare *compare)
{
    int count = output_is_stdout(compare->csv) + output_is_stdout(compare->json) +
                output_is_stdout(compare->plot);

    if (count > 1)
        return options_usage_error("compare", "only one of --csv, --json and --plot can go to "
                                              "standard output; choose files for the others");
    if (output_is_stdout(compare->out))
        return options_usage_error("compare", "--out %s: it must be a folder", compare->out);
    return 0;
}

static int parse(struct compare *compare, int argc, char **argv)
{
    const struct option_table own = OPTION_TABLE(rows, compare);
    struct options options;
    int status = options_parse(&options, &compare_command, &own, argc, argv);

    if (status >= 0)
        return status;
    if (options.operands == argc || !options.dashes)
        return options_usage_error("compare", "write '--' and a command, as in: fabemu compare "
                                              "--topo kary:4,2 -- mpirun -np 4 ./program");
    compare->command = argv + options.operands;
    status = outputs_check(compare);
    if (!status)
        status = command_check(argv[options.operands]);
    if (!status)
        status = rows_make(compare);
    compare->table.wanted = compare->table.rows;
    for (unsigned i = 0; i < compare->table.rows && !status; i++)
        status = row_check(compare, &compare->table.row[i], argv);
    return status ? status : -1;
}

int compare_main(int argc, char **argv)
{
    struct compare *compare = calloc(1, sizeof *compare);
    struct fabric_config config = {.seed = 1}; /* the settings that all networks share */
    int status;

    if (!compare) {
        print_message("out of memory");
        return EXIT_FAILURE;
    }
    compare->compute = "none";
    compare->standstill = STANDSTILL;
    compare->date_s = (uint32_t)time(NULL);
    status = parse(compare, argc, argv);
    if (status < 0) {
        if (compare->seed)
            options_count(compare->seed, 0, UINT64_MAX, &config.seed);
        config.sets = compare->sets.value;
        config.set_count = compare->sets.count;
        compare->table.compute = compare->compute;
        compare->table.origin = origin_json(&config);
        status = compare_run(compare);
        json_object_put(compare->table.origin);
    }
    free(compare);
    return status;
}
