/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.c - messages and collectives of an unmodified MPI program, over the fabric and over the
 * transports that users would compare it with.
 *
 * A *case* is one program with one number of ranks. Its transports take turns (A B C A B C ...), so
 * that a drift of the machine's speed affects all of them. There may be more ranks than cores; then
 * Open MPI yields when it waits. MCA and libfabric variables of the caller's environment are
 * removed, because the conditions that a row lists would not include them. A row's *bound* is the
 * best value that threads of one process reach without MPI (threads.c).
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "apps/base/command.h"
#include "apps/bench/internal.h"
#include "emu/util/plugin.h"

#define TOPO           "kary:4,2" /* 16 nodes, the default of `fabemu run` */
#define FIGURES_MAX    3
#define PROGRAMS_BUILT "tests" /* folder of the programs in the build folder */
#define ENV_MAX        1024
#define ARGS_MAX       24

enum transport { FABEMU, FABEMU_OFF, FABEMU_ACK, TCP, SHM, TRANSPORTS };

static const struct {
    const char *name;
    const char *over;
    bool fabric; /* runs under `fabemu run`, which sets the variables of the fabric */
    const char *env[8];
    const char *options[5]; /* more options of `fabemu run` */
} transports[TRANSPORTS] = {
    [FABEMU] = {"fabemu", "fabemu, " TOPO, true, {NULL}, {NULL}},
    [FABEMU_OFF] = {"fabemu_off",
                    "fabemu, " TOPO ", without the collective component",
                    true,
                    {"OMPI_MCA_coll=^fabemu"},
                    {NULL}},
    [FABEMU_ACK] = {"fabemu_ack",
                    "fabemu, " TOPO ", qsnet3 with acknowledgments",
                    true,
                    {NULL},
                    {"--profile", "qsnet3", "--set", "transport=acknowledged"}},
    [TCP] = {"tcp",
             "libfabric's tcp;ofi_rxm",
             false,
             {"FI_PROVIDER=tcp;ofi_rxm", "OMPI_MCA_pml=cm", "OMPI_MCA_mtl=ofi", "OMPI_MCA_btl=self",
              "OMPI_MCA_mtl_ofi_provider_include=tcp;ofi_rxm",
              "OMPI_MCA_opal_common_ofi_provider_include=tcp;ofi_rxm"},
             {NULL}},
    [SHM] = {"shm",
             "Open MPI's shared memory (vader)",
             false,
             {"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=vader,self"},
             {NULL}},
};

static const char *const common_env[] = {
    "OMPI_MCA_rmaps_base_oversubscribe=1",
    "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe", /* Open MPI 5 */
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
};

/* A number that the program prints. It becomes one row for each transport. */
struct figure {
    const char *row;
    const char *bench; /* name in the program's line of JSON */
    const char *field; /* field of that line that has the number */
    const char *unit;
    bool bound; /* the case's bound applies to this number */
};

struct mpi_case {
    const char *program;
    const char *args[8];
    int ranks;
    unsigned transports; /* bits 1 << enum transport */
    bool collectives;
    double (*bound)(unsigned ranks, uint64_t run_ns);
    struct figure figure[FIGURES_MAX];
    unsigned figures;
};

struct results {
    struct bench_samples samples[FIGURES_MAX][TRANSPORTS];
    struct bench_samples bound;
    char error[TRANSPORTS][512]; /* empty: no error */
};

/* --- the programs ------------------------------------------------------------------- */

static void own_path(char *ret, size_t ret_bytes)
{
    ssize_t bytes = readlink("/proc/self/exe", ret, ret_bytes - 1);

    ret[bytes > 0 ? bytes : 0] = '\0';
}

/* Programs are in FABEMU_BENCH_DIR, else in tests/ of the build, else beside the plug-ins. */
static void program_path(char *ret, size_t ret_bytes, const char *program)
{
    const char *dir = getenv("FABEMU_BENCH_DIR");
    char found[PATH_MAX - 64]; /* the name is appended */

    if (dir && *dir)
        snprintf(ret, ret_bytes, "%s/%s", dir, program);
    else if (emu_plugin_dir(found, sizeof found, program, PROGRAMS_BUILT))
        snprintf(ret, ret_bytes, "%s/%s", found, program);
    else
        snprintf(ret, ret_bytes, "%s", program);
}

bool bench_mpi_missing(char *what, size_t what_bytes)
{
    static const char *const programs[] = {"mpi_pingpong_bench", "mpi_allreduce_bench"};
    char path[PATH_MAX];

    if (command_find("mpirun", path)) {
        snprintf(what, what_bytes,
                 "mpirun was not found; install Open MPI: apt-get install openmpi-bin");
        return true;
    }
    for (int i = 0; i < 2; i++) {
        program_path(path, sizeof path, programs[i]);
        if (access(path, X_OK) == 0)
            continue;
        snprintf(what, what_bytes, "%.300s was not found; %s", path,
                 getenv("FABEMU_BENCH_DIR")
                     ? "FABEMU_BENCH_DIR must be its folder"
                     : "build it with scripts/build, or set FABEMU_BENCH_DIR to its folder");
        return true;
    }
    return false;
}

/* --- one run of one transport ---------------------------------------------------------- */

static bool is_removed(const char *variable)
{
    static const char *const prefixes[] = {"OMPI_", "PMIX_", "FI_", "FABEMU_"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void fill_env(const char **ret, enum transport transport)
{
    unsigned count = 0;

    for (char **at = environ; *at && count < ENV_MAX - 16; at++)
        if (!is_removed(*at))
            ret[count++] = *at;
    for (size_t i = 0; i < sizeof common_env / sizeof common_env[0]; i++)
        ret[count++] = common_env[i];
    for (const char *const *at = transports[transport].env; *at; at++)
        ret[count++] = *at;
    ret[count] = NULL;
}

/* A command line, and the strings that it points to. */
struct run {
    const char *argv[ARGS_MAX];
    const char *env[ENV_MAX];
    char exe[PATH_MAX];
    char program[PATH_MAX];
    char ranks[16];
    /* The fabric writes its report to a memfd, which needs no clean-up. */
    int report_fd; /* -1: no fabric */
    char report[64];
};

static void run_prepare(struct run *run, const struct mpi_case *what, enum transport transport)
{
    unsigned count = 0;

    own_path(run->exe, sizeof run->exe);
    program_path(run->program, sizeof run->program, what->program);
    snprintf(run->ranks, sizeof run->ranks, "%d", what->ranks);
    run->report_fd = -1;
    if (transports[transport].fabric) {
        run->report_fd = memfd_create("report", MFD_CLOEXEC);
        snprintf(run->report, sizeof run->report, "/proc/%d/fd/%d", getpid(), run->report_fd);
        const char *const front[] = {run->exe, "run", "--topo", TOPO, "--report", run->report};
        for (size_t i = 0; i < sizeof front / sizeof front[0]; i++)
            run->argv[count++] = front[i];
        for (const char *const *option = transports[transport].options; *option; option++)
            run->argv[count++] = *option;
        run->argv[count++] = "--";
    }
    run->argv[count++] = "mpirun";
    run->argv[count++] = "-np";
    run->argv[count++] = run->ranks;
    run->argv[count++] = run->program;
    for (const char *const *arg = what->args; *arg; arg++)
        run->argv[count++] = *arg;
    run->argv[count] = NULL;
    fill_env(run->env, transport);
}

/* Return @field in the line that the program prints about @bench; negative: there is none. */
static double find_number(const char *out, const char *bench, const char *field)
{
    char *text = strdup(out);
    char *rest = text;
    char *line;
    double ret = -1;

    while (text && (line = strsep(&rest, "\n"))) {
        struct json_object *object = *line == '{' ? json_tokener_parse(line) : NULL;
        struct json_object *name, *value;
        if (json_object_object_get_ex(object, "bench", &name) &&
            strcmp(json_object_get_string(name), bench) == 0 &&
            json_object_object_get_ex(object, field, &value))
            ret = json_object_get_double(value);
        json_object_put(object);
    }
    free(text);
    return ret;
}

static int64_t report_number(struct json_object *report, const char *one, const char *two,
                             const char *three)
{
    const char *const names[] = {one, two, three};

    for (int i = 0; i < 3 && names[i]; i++)
        if (!json_object_object_get_ex(report, names[i], &report))
            return -1;
    return json_object_get_int64(report);
}

/* Check by the fabric's report that the program used @transport without drops, else set @error. */
static void report_check(const char *path, const struct mpi_case *what, enum transport transport,
                         char *error, size_t error_bytes)
{
    struct json_object *report = json_object_from_file(path), *drops;
    const char *wrong = NULL;

    if (!report) {
        snprintf(error, error_bytes, "the fabric wrote no report");
        return;
    }
    int64_t in_switch = report_number(report, "collectives", "allreduce", "in_switch");
    if (report_number(report, "dropped", NULL, NULL) != 0 &&
        json_object_object_get_ex(report, "drops", &drops))
        snprintf(error, error_bytes, "the fabric dropped segments: %s",
                 json_object_to_json_string(drops));
    else if (report_number(report, "segments", "sent", NULL) <= 0)
        wrong = "no segments went through the fabric";
    else if (what->collectives && transport == FABEMU && in_switch <= 0)
        wrong = "the collectives did not run in the switches";
    else if (transport == FABEMU_OFF && in_switch > 0)
        wrong = "collectives ran in the switches, although the component was off";
    if (wrong)
        snprintf(error, error_bytes, "%s", wrong);
    json_object_put(report);
}

static void take_figures(const struct mpi_case *what, enum transport transport, const char *out,
                         struct results *results)
{
    for (unsigned f = 0; f < what->figures; f++) {
        double value = find_number(out, what->figure[f].bench, what->figure[f].field);
        if (value > 0)
            bench_sample(&results->samples[f][transport], value);
        else
            snprintf(results->error[transport], sizeof results->error[transport],
                     "%s did not print %s", what->program, what->figure[f].field);
    }
}

static void run_once(const struct bench *bench, const struct mpi_case *what,
                     enum transport transport, struct results *results)
{
    char *error = results->error[transport];
    struct bench_child *child = malloc(sizeof *child);
    struct run *run = malloc(sizeof *run);

    if (!child || !run) {
        snprintf(error, sizeof results->error[transport], "out of memory");
        goto free_run;
    }
    run_prepare(run, what, transport);
    if (bench_child_run(child, (char *const *)run->argv, (char *const *)run->env,
                        bench->quick ? 20 : 60, error, sizeof results->error[transport]) == 0) {
        if (run->report_fd >= 0)
            report_check(run->report, what, transport, error, sizeof results->error[transport]);
        if (!error[0])
            take_figures(what, transport, child->out, results);
    }
    if (run->report_fd >= 0)
        close(run->report_fd);
free_run:
    free(run);
    free(child);
}

/* --- rows --------------------------------------------------------------------------- */

static struct json_object *case_conditions(const struct mpi_case *what, enum transport transport)
{
    struct json_object *own = json_object_new_object();
    struct json_object *env = json_object_new_array();

    for (size_t i = 0; i < sizeof common_env / sizeof common_env[0]; i++)
        json_object_array_add(env, json_object_new_string(common_env[i]));
    for (const char *const *at = transports[transport].env; *at; at++)
        json_object_array_add(env, json_object_new_string(*at));
    json_object_object_add(own, "ranks", json_object_new_int(what->ranks));
    json_object_object_add(own, "over", json_object_new_string(transports[transport].over));
    json_object_object_add(own, "env", env);
    return own;
}

static void case_rows(struct bench *bench, const struct mpi_case *what,
                      const struct results *results)
{
    for (unsigned f = 0; f < what->figures; f++) {
        const struct figure *figure = &what->figure[f];

        for (enum transport t = 0; t < TRANSPORTS; t++) {
            char name[96];

            if (!(what->transports & 1u << t))
                continue;
            snprintf(name, sizeof name, "%s.np%d.%s", figure->row, what->ranks, transports[t].name);
            bench_row(bench, &(struct bench_row){
                                 .name = name,
                                 .unit = figure->unit,
                                 .samples = &results->samples[f][t],
                                 .bound = figure->bound ? &results->bound : NULL,
                                 .conditions = case_conditions(what, t),
                                 .error = results->error[t][0] ? results->error[t] : NULL,
                             });
        }
    }
}

/*
 * Take all samples of a case, and print its rows. A transport that has failed is not tried again,
 * because each attempt may end only by a long time-out.
 */
static void case_measure(struct bench *bench, const struct mpi_case *what)
{
    struct results *results = calloc(1, sizeof *results);

    prctl(PR_SET_CHILD_SUBREAPER, 1); /* bench_child_run() relies on it */
    for (unsigned left = results ? bench_repeat(bench, 5, 1) : 0; left; left--) {
        for (enum transport t = 0; t < TRANSPORTS; t++)
            if (what->transports & 1u << t && !results->error[t][0])
                run_once(bench, what, t, results);
        bench_sample(&results->bound, what->bound((unsigned)what->ranks, bench_sample_ns(bench)));
    }
    if (results)
        case_rows(bench, what, results);
    free(results);
}

/* --- the cases ---------------------------------------------------------------------- */

/* Messages do not use the collective component, so FABEMU_OFF would be the same as FABEMU. */
#define OF_MESSAGES    (1u << FABEMU | 1u << FABEMU_ACK | 1u << TCP | 1u << SHM)
#define OF_COLLECTIVES (OF_MESSAGES | 1u << FABEMU_OFF)

void bench_mpi_latency(struct bench *bench, int unused)
{
    const struct mpi_case what = {
        .program = "mpi_pingpong_bench",
        .args = {"--json", "--bytes", "8", "--iterations", bench->quick ? "4000" : "40000"},
        .ranks = 2,
        .transports = OF_MESSAGES,
        .bound = bench_threads_latency_us,
        .figure = {{"latency8", "pingpong", "latency_us", "us", true}},
        .figures = 1,
    };

    (void)unused;
    case_measure(bench, &what);
}

void bench_mpi_bandwidth(struct bench *bench, int unused)
{
    const struct mpi_case what = {
        .program = "mpi_pingpong_bench",
        .args = {"--json", "--bytes", "1048576", "--iterations", bench->quick ? "10000" : "80000"},
        .ranks = 2,
        .transports = OF_MESSAGES,
        .bound = bench_threads_mb_per_s,
        .figure = {{"bandwidth1M", "pingpong", "bandwidth_mb_per_s", "MB/s", true}},
        .figures = 1,
    };

    (void)unused;
    case_measure(bench, &what);
}

/*
 * Choose the number of measured calls of each collective, calls[0], and of warm-up calls before
 * them, calls[1]. During warm-up the worker must have time to choose its core, which it reconsiders
 * every 256 of its time slices (emu/worker/oversub.h). More ranks make fewer calls, so that all
 * runs take about the same time.
 */
static void collective_calls(bool quick, int ranks, const char *calls[2])
{
    static const struct {
        int ranks;
        const char *calls[2][2]; /* normal, quick: measured calls, warm-up calls */
    } rows[] = {
        {4, {{"20000", "5000"}, {"2000", "1000"}}},
        {8, {{"8000", "2000"}, {"800", "400"}}},
        {INT_MAX, {{"3000", "1000"}, {"300", "200"}}},
    };
    unsigned i = 0;

    while (rows[i].ranks < ranks)
        i++;
    calls[0] = rows[i].calls[quick][0];
    calls[1] = rows[i].calls[quick][1];
}

void bench_mpi_collectives(struct bench *bench, int ranks)
{
    const char *calls[2];

    collective_calls(bench->quick, ranks, calls);
    const struct mpi_case what = {
        .program = "mpi_allreduce_bench",
        .args = {"--json", "--bytes", "8", "--iterations", calls[0], "--warmup", calls[1]},
        .ranks = ranks,
        .transports = OF_COLLECTIVES,
        .collectives = true,
        .bound = bench_threads_allreduce_us,
        /* In a broadcast no rank waits for all others, so the bound does not apply. */
        .figure = {{"allreduce8", "allreduce", "median_us", "us", true},
                   {"barrier", "barrier", "median_us", "us", true},
                   {"bcast8", "bcast", "median_us", "us", false}},
        .figures = 3,
    };

    case_measure(bench, &what);
}
