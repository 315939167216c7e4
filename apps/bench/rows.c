/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rows.c - print samples as rows of a table or as objects of a JSON list.
 *
 * docs/bench.md promises the fields of the JSON. Fields may be added, but not removed or changed.
 */
#include "apps/bench/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/bench/bench_build.h"
#include "apps/fabric/origin.h"
#include "emu/dev/affinity.h"

/* --- samples ------------------------------------------------------------------------ */

void bench_sample(struct bench_samples *samples, double value)
{
    if (samples->count < BENCH_SAMPLES_MAX)
        samples->value[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct bench_samples sorted(const struct bench_samples *samples)
{
    struct bench_samples ret = *samples;

    qsort(ret.value, ret.count, sizeof ret.value[0], compare);
    return ret;
}

static double median(const struct bench_samples *samples)
{
    struct bench_samples in_order = sorted(samples);
    unsigned half = in_order.count / 2;

    if (in_order.count == 0)
        return 0;
    if (in_order.count % 2)
        return in_order.value[half];
    return (in_order.value[half - 1] + in_order.value[half]) / 2;
}

unsigned bench_repeat(const struct bench *bench, unsigned normal, unsigned quick)
{
    if (bench->repeat)
        return bench->repeat;
    return bench->quick ? quick : normal;
}

uint64_t bench_sample_ns(const struct bench *bench)
{
    return bench->quick ? 30000000u : 200000000u;
}

/* --- the conditions of all rows ------------------------------------------------------ */

static void cpu_model(char *ret, size_t ret_bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];

    snprintf(ret, ret_bytes, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(ret, ret_bytes, "%s", colon + 1 + (colon[1] == ' '));
            break;
        }
    }
    if (file)
        fclose(file);
}

static void add_text(struct json_object *to, const char *name, const char *text)
{
    json_object_object_add(to, name, json_object_new_string(text));
}

static struct json_object *number(double value)
{
    char text[32];

    snprintf(text, sizeof text, "%.*f", value < 1 ? 4 : value < 100 ? 3 : 1, value);
    return json_object_new_double_s(value, text);
}

static struct json_object *conditions_now(void)
{
    struct json_object *ret = json_object_new_object();
    struct utsname kernel;
    char text[256];
    time_t now = time(NULL);
    double load[1] = {0};
    struct tm tm;

    cpu_model(text, sizeof text);
    add_text(ret, "cpu", text);
    json_object_object_add(ret, "cores", json_object_new_int64(emu_affinity_cores()));
    if (uname(&kernel) == 0) {
        snprintf(text, sizeof text, "%s %s", kernel.sysname, kernel.release);
        add_text(ret, "kernel", text);
    }
    add_text(ret, "compiler", BENCH_COMPILER);
    add_text(ret, "build", BENCH_BUILD);
    if (getloadavg(load, 1) == 1)
        json_object_object_add(ret, "load", number(load[0]));
    if (gmtime_r(&now, &tm) && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm))
        add_text(ret, "date", text);
    add_text(ret, "clock", "raw");
    add_text(ret, "profile", "oq2004");
    return ret;
}

/* --- rows --------------------------------------------------------------------------- */

void bench_begin(struct bench *bench)
{
    struct fold fold;
    FILE *out;

    bench->conditions = conditions_now();
    bench->origin = origin_json(NULL);
    bench->progress = isatty(STDERR_FILENO);
    if (bench->json) {
        printf("[");
        return;
    }
    origin_print(stdout, bench->origin, "# ", "# ", FOLD_COLUMNS);
    out = fold_begin(&fold, stdout, "# ", FOLD_COLUMNS);
    json_object_object_foreach(bench->conditions, name, value)
        fprintf(out, "# %s: %s\n", name, json_object_get_string(value));
    fold_end(&fold);
    printf("\n%-33s %8s %-7s %8s %8s %2s %8s\n", "row", "median", "unit", "least", "most", "n",
           "of bound");
    fflush(stdout);
}

static void print_json(const struct bench *bench, const struct bench_row *row,
                       struct json_object *conditions)
{
    struct json_object *one = json_object_new_object();
    struct json_object *samples = json_object_new_array();

    json_object_object_foreach(bench->conditions, name, value)
    {
        if (!json_object_object_get_ex(conditions, name, NULL)) /* unless the row has its own */
            json_object_object_add(conditions, name, json_object_get(value));
    }
    for (unsigned i = 0; i < row->samples->count; i++)
        json_object_array_add(samples, number(row->samples->value[i]));
    add_text(one, "name", row->name);
    json_object_object_add(one, "value", row->error ? NULL : number(median(row->samples)));
    add_text(one, "unit", row->unit);
    if (row->bound)
        json_object_object_add(one, "bound", row->error ? NULL : number(median(row->bound)));
    json_object_object_add(one, "samples", samples);
    json_object_object_add(one, "conditions", json_object_get(conditions));
    json_object_object_add(one, "origin", json_object_get(bench->origin));
    if (row->error)
        add_text(one, "error", row->error);
    printf("%s\n%s", bench->rows ? "," : "",
           json_object_to_json_string_ext(one, JSON_C_TO_STRING_SPACED |
                                                   JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(one);
}

/* Return the fraction of the bound that the row reaches; for a time, this is bound / row. */
static double of_bound(const struct bench_row *row)
{
    double value = median(row->samples), bound = median(row->bound);
    bool time = strcmp(row->unit, "us") == 0 || strcmp(row->unit, "ns") == 0;

    return time ? bound / value : value / bound;
}

static void print_text(const struct bench_row *row)
{
    struct bench_samples in_order = sorted(row->samples);
    double figure[3] = {median(row->samples), in_order.value[0],
                        in_order.value[in_order.count ? in_order.count - 1 : 0]};
    struct amount text[3];

    if (row->error) {
        fold_printf(stdout, "    ", "%-33s %8s %s\n", row->name, "failed", row->error);
        return;
    }
    for (int i = 0; i < 3; i++)
        text[i] = amount_of_real(figure[i], figure[i] < 100 ? 2 : 1);
    printf("%-33s %8s %-7s %8s %8s %2u", row->name, text[0].text, row->unit, text[1].text,
           text[2].text, in_order.count);
    if (row->bound)
        printf(" %7.0f%%", 100 * of_bound(row));
    printf("\n");
}

static void clear_progress(const struct bench *bench)
{
    if (bench->progress)
        fprintf(stderr, "\r\033[K");
}

void bench_row(struct bench *bench, const struct bench_row *row)
{
    struct json_object *own = row->conditions ? row->conditions : json_object_new_object();

    clear_progress(bench);
    if (bench->json)
        print_json(bench, row, own);
    else
        print_text(row);
    fflush(stdout);
    json_object_put(own);
    bench->rows++;
    bench->failed |= row->error != NULL;
}

void bench_end(struct bench *bench)
{
    silence_end(&bench->silence);
    clear_progress(bench);
    if (bench->json)
        printf("\n]\n");
    json_object_put(bench->conditions);
    json_object_put(bench->origin);
    bench->conditions = bench->origin = NULL;
}

void bench_progress(struct bench *bench, const char *name, unsigned number, unsigned total)
{
    char what[sizeof bench->silence.what];

    if (bench->progress) {
        fprintf(stderr, "\r\033[K[%u of %u] %s", number, total, name);
        return;
    }
    snprintf(what, sizeof what, "bench: benchmark %u of %u: %s", number, total, name);
    if (bench->silence.started)
        silence_set(&bench->silence, what);
    else
        silence_begin(&bench->silence, SILENCE_MS, what);
}
