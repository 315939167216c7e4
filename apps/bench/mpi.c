/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi.c - messages and collectives of an unmodified MPI program: over the
 * fabric, and side by side over what it is compared with.
 *
 * A cell is one program at one count of ranks. Its contenders take turns
 * (A B C D A B C D …), so that a drift of the machine hits all alike; a ratio is
 * the median of the rounds' ratios. All may oversubscribe the cores, and yield
 * when idle where Open MPI finds that they do; the MCA and libfabric variables of
 * the caller's environment are left out, so that the conditions are those named
 * here.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "apps/bench/internal.h"
#include "emu/hostlink/plugin.h"

#define TOPO           "kary:4,2" /* what `fabemu run` takes by itself: 16 nodes */
#define FIGURES_MAX    3
#define RATIOS_MAX     5
#define PROGRAMS_BUILT "tests" /* below the build folder */
#define ENV_MAX        1024
#define ARGS_MAX       24

enum contender { FABEMU, FABEMU_OFF, FABEMU_ACK, FABEMU_ACK_OFF, TCP, SHM, CONTENDERS };

static const struct {
    const char *name;
    const char *over;
    bool fabric; /* runs under `fabemu run`, which adds what leads to the fabric */
    const char *env[8];
    const char *options[5]; /* of `fabemu run`, beside the network */
} contenders[CONTENDERS] = {
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
    [FABEMU_ACK_OFF] = {"fabemu_ack_off",
                        "fabemu, " TOPO
                        ", qsnet3 with acknowledgments, without the collective component",
                        true,
                        {"OMPI_MCA_coll=^fabemu"},
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

static const char *const everyone[] = {
    "OMPI_MCA_rmaps_base_oversubscribe=1",
    "OMPI_ALLOW_RUN_AS_ROOT=1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
};

struct ratio {
    enum contender over; /* numerator */
    enum contender under;
    double at_least; /* the target; 0: none */
    double at_most;  /* the other way round */
};

/* One number that the program prints, and what is made of it. */
struct figure {
    const char *row;   /* what our rows are called */
    const char *bench; /* which of the program's lines */
    const char *field; /* and which number in it */
    const char *unit;
    struct ratio ratio[RATIOS_MAX];
    unsigned ratios;
    double at_most[CONTENDERS]; /* targets; 0: none */
};

struct cell {
    const char *program;
    const char *args[8];
    int ranks;
    unsigned who; /* a bit a contender */
    bool collectives;
    struct figure figure[FIGURES_MAX];
    unsigned figures;
};

/* What a cell has measured so far. */
struct results {
    struct bench_samples samples[FIGURES_MAX][CONTENDERS];
    char error[CONTENDERS][512]; /* empty: none */
};

/* --- where things are --------------------------------------------------------------- */

static bool in_path(const char *name)
{
    char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    char *rest = path;
    char *dir;
    bool found = false;

    while (!found && (dir = strsep(&rest, ":"))) {
        char file[PATH_MAX];
        snprintf(file, sizeof file, "%s/%s", *dir ? dir : ".", name);
        found = access(file, X_OK) == 0;
    }
    free(path);
    return found;
}

static void own_path(char *ret, size_t ret_bytes)
{
    ssize_t bytes = readlink("/proc/self/exe", ret, ret_bytes - 1);

    ret[bytes > 0 ? bytes : 0] = '\0';
}

/* The bench programs: where the variable says, in the build's tests/, or beside the plug-ins. */
static void program_path(char *ret, size_t ret_bytes, const char *program)
{
    const char *dir = getenv("FABEMU_BENCH_DIR");
    char found[PATH_MAX - 64]; /* leaves room for what is appended */

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

    if (!in_path("mpirun")) {
        snprintf(what, what_bytes,
                 "mpirun is not there; install Open MPI: apt-get install "
                 "openmpi-bin");
        return true;
    }
    for (int i = 0; i < 2; i++) {
        program_path(path, sizeof path, programs[i]);
        if (access(path, X_OK) == 0)
            continue;
        snprintf(what, what_bytes, "%.300s is not there; %s", path,
                 getenv("FABEMU_BENCH_DIR")
                     ? "FABEMU_BENCH_DIR is to be its folder"
                     : "build it with scripts/build, or set FABEMU_BENCH_DIR to its folder");
        return true;
    }
    return false;
}

/* --- one run ------------------------------------------------------------------------ */

static bool ours_to_set(const char *variable)
{
    static const char *const prefixes[] = {"OMPI_", "PMIX_", "FI_", "FABEMU_"};

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void fill_env(const char **ret, enum contender who)
{
    unsigned count = 0;

    for (char **at = environ; *at && count < ENV_MAX - 16; at++)
        if (!ours_to_set(*at))
            ret[count++] = *at;
    for (size_t i = 0; i < sizeof everyone / sizeof everyone[0]; i++)
        ret[count++] = everyone[i];
    for (const char *const *at = contenders[who].env; *at; at++)
        ret[count++] = *at;
    ret[count] = NULL;
}

/* The command line of one run; the texts that it needs stand in the struct. */
struct run {
    const char *argv[ARGS_MAX];
    const char *env[ENV_MAX];
    char exe[PATH_MAX];
    char program[PATH_MAX];
    char ranks[16];
    /* The fabric's report, which has no name and so is nowhere when this process has ended. */
    int report_fd; /* -1: there is none */
    char report[64];
};

static void run_prepare(struct run *run, const struct cell *cell, enum contender who)
{
    unsigned count = 0;

    own_path(run->exe, sizeof run->exe);
    program_path(run->program, sizeof run->program, cell->program);
    snprintf(run->ranks, sizeof run->ranks, "%d", cell->ranks);
    run->report_fd = -1;
    if (contenders[who].fabric) {
        run->report_fd = memfd_create("report", MFD_CLOEXEC);
        snprintf(run->report, sizeof run->report, "/proc/%d/fd/%d", getpid(), run->report_fd);
        const char *const front[] = {run->exe, "run", "--topo", TOPO, "--report", run->report};
        for (size_t i = 0; i < sizeof front / sizeof front[0]; i++)
            run->argv[count++] = front[i];
        for (const char *const *option = contenders[who].options; *option; option++)
            run->argv[count++] = *option;
        run->argv[count++] = "--";
    }
    run->argv[count++] = "mpirun";
    run->argv[count++] = "-np";
    run->argv[count++] = run->ranks;
    run->argv[count++] = run->program;
    for (const char *const *arg = cell->args; *arg; arg++)
        run->argv[count++] = *arg;
    run->argv[count] = NULL;
    fill_env(run->env, who);
}

/* A number of the program's line about @bench; negative when there is none. */
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

/* The fabric's own word on what it did must fit the row: else @error says what is wrong. */
static void report_check(const char *path, const struct cell *cell, enum contender who, char *error,
                         size_t error_bytes)
{
    struct json_object *report = json_object_from_file(path), *drops;
    const char *wrong = NULL;

    if (!report) {
        snprintf(error, error_bytes, "the fabric's report is not there");
        return;
    }
    int64_t in_switch = report_number(report, "collectives", "allreduce", "in_switch");
    if (report_number(report, "dropped", NULL, NULL) != 0 &&
        json_object_object_get_ex(report, "drops", &drops))
        snprintf(error, error_bytes, "the fabric dropped segments: %s",
                 json_object_to_json_string(drops));
    else if (report_number(report, "segments", "sent", NULL) <= 0)
        wrong = "no segments went through the fabric";
    else if (cell->collectives && who == FABEMU && in_switch <= 0)
        wrong = "the collectives did not run in the switches";
    else if ((who == FABEMU_OFF || who == FABEMU_ACK_OFF) && in_switch > 0)
        wrong = "collectives ran in the switches that should not";
    if (wrong)
        snprintf(error, error_bytes, "%s", wrong);
    json_object_put(report);
}

static void take_figures(const struct cell *cell, enum contender who, const char *out,
                         struct results *results)
{
    for (unsigned f = 0; f < cell->figures; f++) {
        double value = find_number(out, cell->figure[f].bench, cell->figure[f].field);
        if (value > 0)
            bench_sample(&results->samples[f][who], value);
        else
            snprintf(results->error[who], sizeof results->error[who], "%s did not print %s",
                     cell->program, cell->figure[f].field);
    }
}

static void run_once(const struct bench *bench, const struct cell *cell, enum contender who,
                     struct results *results)
{
    char *error = results->error[who];
    struct bench_child *child = malloc(sizeof *child);
    struct run *run = malloc(sizeof *run);

    if (!child || !run) {
        snprintf(error, sizeof results->error[who], "no memory");
        goto free_run;
    }
    run_prepare(run, cell, who);
    if (bench_child_run(child, (char *const *)run->argv, (char *const *)run->env,
                        bench->quick ? 20 : 60, error, sizeof results->error[who]) == 0) {
        if (run->report_fd >= 0)
            report_check(run->report, cell, who, error, sizeof results->error[who]);
        if (!error[0])
            take_figures(cell, who, child->out, results);
    }
    if (run->report_fd >= 0)
        close(run->report_fd);
free_run:
    free(run);
    free(child);
}

/* --- rows --------------------------------------------------------------------------- */

static struct json_object *cell_conditions(const struct cell *cell, enum contender who)
{
    struct json_object *own = json_object_new_object();
    struct json_object *env = json_object_new_array();

    for (size_t i = 0; i < sizeof everyone / sizeof everyone[0]; i++)
        json_object_array_add(env, json_object_new_string(everyone[i]));
    for (const char *const *at = contenders[who].env; *at; at++)
        json_object_array_add(env, json_object_new_string(*at));
    json_object_object_add(own, "ranks", json_object_new_int(cell->ranks));
    json_object_object_add(own, "over", json_object_new_string(contenders[who].over));
    json_object_object_add(own, "env", env);
    return own;
}

/* At most one of them is there. */
static enum bench_goal goal_of(double at_least, double at_most)
{
    if (at_least > 0)
        return BENCH_AT_LEAST;
    return at_most > 0 ? BENCH_AT_MOST : BENCH_NO_GOAL;
}

static void value_row(struct bench *bench, const struct cell *cell, const struct figure *figure,
                      enum contender who, const struct bench_samples *samples, const char *error)
{
    char name[96];

    snprintf(name, sizeof name, "%s.np%d.%s", figure->row, cell->ranks, contenders[who].name);
    bench_row(bench, &(struct bench_row){.name = name,
                                         .unit = figure->unit,
                                         .samples = samples,
                                         .conditions = cell_conditions(cell, who),
                                         .error = *error ? error : NULL,
                                         .goal = goal_of(0, figure->at_most[who]),
                                         .target = figure->at_most[who]});
}

/* Round by round; a row only if both have measured. */
static void ratio_row(struct bench *bench, const struct cell *cell, const struct figure *figure,
                      const struct ratio *ratio, const struct bench_samples *samples)
{
    const struct bench_samples *over = &samples[ratio->over];
    const struct bench_samples *under = &samples[ratio->under];
    struct bench_samples ratios = {.count = 0};
    struct json_object *own = json_object_new_object();
    char name[96];

    for (unsigned i = 0; i < over->count && i < under->count; i++)
        bench_sample(&ratios, over->value[i] / under->value[i]);
    snprintf(name, sizeof name, "%s.np%d %s/%s", figure->row, cell->ranks,
             contenders[ratio->over].name, contenders[ratio->under].name);
    json_object_object_add(own, "ranks", json_object_new_int(cell->ranks));
    if (ratios.count)
        bench_row(bench, &(struct bench_row){
                             .name = name,
                             .unit = "x",
                             .samples = &ratios,
                             .conditions = json_object_get(own),
                             .goal = goal_of(ratio->at_least, ratio->at_most),
                             .target = ratio->at_least + ratio->at_most,
                         });
    json_object_put(own);
}

static void cell_rows(struct bench *bench, const struct cell *cell, const struct results *results)
{
    for (unsigned f = 0; f < cell->figures; f++) {
        const struct figure *figure = &cell->figure[f];
        for (enum contender who = 0; who < CONTENDERS; who++)
            if (cell->who & 1u << who)
                value_row(bench, cell, figure, who, &results->samples[f][who], results->error[who]);
        for (unsigned r = 0; r < figure->ratios; r++)
            ratio_row(bench, cell, figure, &figure->ratio[r], results->samples[f]);
    }
}

/* A contender that failed is not tried again: its time may have been the timeout. */
static void cell_measure(struct bench *bench, const struct cell *cell, const char *what)
{
    struct results *results = calloc(1, sizeof *results);
    unsigned rounds = bench_repeat(bench, 5, 1);

    prctl(PR_SET_CHILD_SUBREAPER, 1); /* as bench/child.c wants */
    for (unsigned i = 0; results && i < rounds * CONTENDERS; i++) {
        enum contender who = i % CONTENDERS;
        if (!(cell->who & 1u << who) || results->error[who][0])
            continue;
        bench_progress(bench, what, i / (double)(rounds * CONTENDERS));
        run_once(bench, cell, who, results);
    }
    if (results)
        cell_rows(bench, cell, results);
    free(results);
}

/* --- the cells ---------------------------------------------------------------------- */

/* The component has no part in messages. */
#define PAIR (1u << FABEMU | 1u << FABEMU_ACK | 1u << TCP | 1u << SHM)

/* Messages between two: one figure each. */
static const struct pingpong {
    const char *what;
    const char *bytes;
    const char *iterations[2]; /* normal, quick */
    struct figure figure;
} pingpongs[] = {
    {"mpi.latency8",
     "8",
     {"40000", "4000"},
     {"latency8",
      "pingpong",
      "latency_us",
      "us",
      {{TCP, FABEMU, 0, 0}, {FABEMU, SHM, 0, 0}, {FABEMU_ACK, FABEMU, 0, 0}},
      3,
      {[FABEMU] = 1, [FABEMU_ACK] = 1.5}}},
    {"mpi.bandwidth1M",
     "1048576",
     {"80000", "10000"},
     {"bandwidth1M",
      "pingpong",
      "bandwidth_mb_per_s",
      "MB/s",
      {{FABEMU, SHM, 0.6, 0},
       {FABEMU, TCP, 1, 0},
       {FABEMU_ACK, FABEMU, 0, 0},
       {FABEMU_ACK, SHM, 0.3, 0},
       {FABEMU_ACK, TCP, 1, 0}},
      5,
      {0}}},
};

static void pingpong(struct bench *bench, int ranks, const struct pingpong *own)
{
    const struct cell cell = {
        .program = "mpi_pingpong_bench",
        .args = {"--json", "--bytes", own->bytes, "--iterations", own->iterations[bench->quick]},
        .ranks = ranks,
        .who = PAIR,
        .figure = {own->figure},
        .figures = 1,
    };

    cell_measure(bench, &cell, own->what);
}

void bench_mpi_latency(struct bench *bench, int ranks)
{
    pingpong(bench, ranks, &pingpongs[0]);
}

void bench_mpi_bandwidth(struct bench *bench, int ranks)
{
    pingpong(bench, ranks, &pingpongs[1]);
}

/*
 * Calls of each collective, and those before that do not count: about as long a run at every
 * count of ranks. The worker looks for its core every 256 turns (emu/worker/crowd.h), so that it
 * has found it by then.
 */
static void collective_args(const struct bench *bench, int ranks, const char *args[2])
{
    static const struct {
        int ranks;
        const char *args[2][2]; /* normal, quick: calls, calls before */
    } calls[] = {
        {4, {{"20000", "5000"}, {"2000", "1000"}}},
        {8, {{"8000", "2000"}, {"800", "400"}}},
        {INT_MAX, {{"3000", "1000"}, {"300", "200"}}},
    };
    unsigned i = 0;

    while (calls[i].ranks < ranks)
        i++;
    args[0] = calls[i].args[bench->quick][0];
    args[1] = calls[i].args[bench->quick][1];
}

void bench_mpi_collectives(struct bench *bench, int ranks)
{
    const char *calls[2];
    const struct ratio tcp = {TCP, FABEMU, 0, 0};
    const struct ratio off = {FABEMU_OFF, FABEMU, 1, 0};
    const struct ratio ack = {FABEMU_ACK, FABEMU, 0, 0};
    const struct ratio ack_off = {FABEMU_ACK_OFF, FABEMU_ACK, 1, 0};
    const struct ratio shm = {FABEMU, SHM, 0, ranks == 4 ? 1.3 : 0};
    collective_args(bench, ranks, calls);
    const struct cell cell = {
        .program = "mpi_allreduce_bench",
        .args = {"--json", "--bytes", "8", "--iterations", calls[0], "--warmup", calls[1]},
        .ranks = ranks,
        .who = PAIR | 1u << FABEMU_OFF | 1u << FABEMU_ACK_OFF,
        .collectives = true,
        .figure = {{"allreduce8", "allreduce", "median_us", "us", {tcp, off, shm, ack, ack_off}, 5},
                   {"barrier", "barrier", "median_us", "us", {tcp, off, ack, ack_off}, 4},
                   {"bcast8", "bcast", "median_us", "us", {tcp, off, ack, ack_off}, 4}},
        .figures = 3,
    };

    cell_measure(bench, &cell, "mpi.collectives");
}

/* What the network is there for: the same bytes over messages take longer. */
void bench_mpi_large(struct bench *bench, int bytes)
{
    bool mega = bytes >= 1 << 20;
    const char *calls = bench->quick ? (mega ? "100" : "1000") : (mega ? "1000" : "10000");
    const struct ratio off = {FABEMU_OFF, FABEMU, mega ? 1 / 0.7 : 1, 0};
    const struct ratio ack_off = {FABEMU_ACK_OFF, FABEMU_ACK, 1, 0};
    const struct ratio shm = {FABEMU, SHM, 0, 0};
    const struct cell cell = {
        .program = "mpi_allreduce_bench",
        .args = {"--json", "--bytes", mega ? "1048576" : "65536", "--iterations", calls, "--warmup",
                 mega ? "50" : "500"},
        .ranks = 4,
        .who = 1u << FABEMU | 1u << FABEMU_OFF | 1u << FABEMU_ACK | 1u << FABEMU_ACK_OFF |
               1u << SHM,
        .collectives = true,
        .figure =
            {{mega ? "allreduce1M" : "allreduce64K",
              "allreduce",
              "median_us",
              "us",
              {off, shm, ack_off},
              3},
             {mega ? "bcast1M" : "bcast64K", "bcast", "median_us", "us", {off, shm, ack_off}, 3},
             {mega ? "reduce1M" : "reduce64K",
              "reduce",
              "median_us",
              "us",
              {off, shm, ack_off},
              3}},
        .figures = 3,
    };

    cell_measure(bench, &cell, mega ? "mpi.large1M" : "mpi.large64K");
}
