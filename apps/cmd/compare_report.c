/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * compare_report.c - print the table of `fabemu compare` as text, CSV, JSON or SVG. All figures are
 * from the reports of `fabemu run` (docs/manual.md).
 */
#include "apps/cmd/compare.h"

#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/base/fold.h"
#include "apps/control/conn.h"
#include "apps/fabric/origin.h"
#include "emu/util/json.h"

/* The figures of a network. */
struct figures {
    uint64_t time_ns;       /* time to solution */
    double ratio;           /* time_ns divided by that of the first network; 0: unknown */
    uint64_t calls[3];      /* sum over ranks, by class of calls */
    uint64_t waited_ns[3];  /* sum over ranks, by class of calls */
    uint64_t waited_all_ns; /* sum over ranks and classes */
    double link_mean;       /* mean number of segments over all links */
    uint64_t link_most;     /* number of segments of the busiest link */
    bool exact;             /* no host time was used, and no segment was late */
};

static const char *const classes[] = {"message", "collective", "one_sided"};
#define CLASSES (sizeof classes / sizeof classes[0])

static struct json_object *member(struct json_object *object, const char *name)
{
    return json_object_object_get(object, name);
}

static uint64_t number(struct json_object *object, const char *name)
{
    return (uint64_t)emu_json_number(object, name, 0);
}

static uint64_t time_of(const struct compare_row *row)
{
    return *row->why ? 0 : number(member(row->report, "clock"), "finished_ns");
}

static struct figures figures_of(const struct compare_table *table, unsigned i)
{
    const struct compare_row *row = &table->row[i];
    struct json_object *clock = member(row->report, "clock");
    struct json_object *load = member(row->report, "link_load");
    uint64_t links = number(load, "links"), first_ns = time_of(&table->row[0]);
    struct figures ret = {.time_ns = time_of(row), .link_most = number(load, "most")};

    ret.ratio = first_ns ? (double)ret.time_ns / (double)first_ns : 0;
    for (size_t c = 0; c < CLASSES; c++) {
        struct json_object *calls = member(member(clock, "calls"), classes[c]);

        ret.calls[c] = number(calls, "calls");
        ret.waited_ns[c] = number(calls, "waited_ns");
        ret.waited_all_ns += ret.waited_ns[c];
    }
    ret.link_mean = links ? (double)number(load, "segments") / (double)links : 0;
    ret.exact = !number(clock, "late_posts") && !number(clock, "outside_ns") &&
                !member(clock, "host_time");
    return ret;
}

/* Print a line if rows are missing. @before: text at the beginning of this line. */
static void print_lacking(FILE *out, const struct compare_table *table, const char *before)
{
    if (table->rows < table->wanted)
        fprintf(out, "%sinterrupted: %u of %u networks finished\n", before, table->rows,
                table->wanted);
}

/* --- text ---------------------------------------------------------------------------- */

/* The table has 80 columns. A name that is longer than NAME_COLUMNS has a line of its own. */
#define NAME_COLUMNS 9

/* Return the unit in which all times of the table are printed. */
static struct duration_unit unit_of(const struct compare_table *table)
{
    uint64_t most_ns = 0;

    for (unsigned i = 0; i < table->rows; i++) {
        struct figures f = figures_of(table, i);

        most_ns = f.time_ns > most_ns ? f.time_ns : most_ns;
        for (size_t c = 0; c < CLASSES; c++)
            most_ns = f.waited_ns[c] > most_ns ? f.waited_ns[c] : most_ns;
    }
    return duration_unit_of((double)most_ns, 9);
}

static void print_row(FILE *out, const struct figures *f, const struct duration_unit *unit)
{
    fprintf(out, " %9s ", duration_in(unit, (double)f->time_ns).text);
    if (f->ratio > 0)
        fprintf(out, "%6.3f", f->ratio);
    else
        fprintf(out, "%6s", "-");
    for (size_t c = 0; c < CLASSES; c++)
        fprintf(out, c == 1 ? " %10s" : " %9s", duration_in(unit, (double)f->waited_ns[c]).text);
    fprintf(out, " %7s %7s %5s\n", amount_of_real(f->link_mean, 1).text,
            amount_count(f->link_most).text, f->exact ? "yes" : "no");
}

void compare_print(FILE *out, const struct compare_table *table)
{
    struct duration_unit unit = unit_of(table);
    char time[16], waited[40];

    origin_print(out, table->origin, "# ", "# ", FOLD_COLUMNS);
    print_lacking(out, table, "# ");
    snprintf(time, sizeof time, "time/%s", unit.name);
    snprintf(waited, sizeof waited, "ranks waited/%s, by last call", unit.name);
    fprintf(out, "\n%*s %9s %6s %30s %15s\n", NAME_COLUMNS, "", "", "", waited, "segments/link");
    fprintf(out, "%-*s %9s %6s %9s %10s %9s %7s %7s %5s\n", NAME_COLUMNS, "network", time, "ratio",
            "message", "collective", "one-sided", "mean", "most", "exact");
    for (unsigned i = 0; i < table->rows; i++) {
        const struct compare_row *row = &table->row[i];
        struct figures f = figures_of(table, i);

        if (*row->why) {
            fold_printf(out, "    ", "%s failed: %s\n", row->name, row->why);
            continue;
        }
        fprintf(out, "%-*s", NAME_COLUMNS, row->name);
        if (strlen(row->name) > NAME_COLUMNS)
            fprintf(out, "\n%*s", NAME_COLUMNS, "");
        print_row(out, &f, &unit);
    }
}

/* --- CSV ----------------------------------------------------------------------------- */

/* Print a field of a CSV file in quotes, as RFC 4180 requires. */
static void print_quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

void compare_print_csv(FILE *out, const struct compare_table *table)
{
    origin_print(out, table->origin, "# ", "# ", FOLD_NEVER);
    print_lacking(out, table, "# ");
    fputs("network,time_ns,ratio", out);
    for (size_t c = 0; c < CLASSES; c++)
        fprintf(out, ",%s_calls,%s_waited_ns", classes[c], classes[c]);
    fputs(",waited_ns,link_segments_mean,link_segments_most,link_most,exact,error\n", out);
    for (unsigned i = 0; i < table->rows; i++) {
        const struct compare_row *row = &table->row[i];
        struct figures f = figures_of(table, i);

        print_quoted(out, row->name);
        if (*row->why) {
            fputs(",,,,,,,,,,,,,,", out);
            print_quoted(out, row->why);
            fputc('\n', out);
            continue;
        }
        fprintf(out, ",%llu,", (unsigned long long)f.time_ns);
        if (f.ratio > 0)
            fprintf(out, "%.6f", f.ratio);
        for (size_t c = 0; c < CLASSES; c++)
            fprintf(out, ",%llu,%llu", (unsigned long long)f.calls[c],
                    (unsigned long long)f.waited_ns[c]);
        fprintf(out, ",%llu,%.3f,%llu,", (unsigned long long)f.waited_all_ns, f.link_mean,
                (unsigned long long)f.link_most);
        print_quoted(out, emu_json_text(member(row->report, "link_load"), "most_at", ""));
        fprintf(out, ",%s,\n", f.exact ? "yes" : "no");
    }
}

/* --- JSON ---------------------------------------------------------------------------- */

static void add_real(struct json_object *to, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", value);
    json_object_object_add(to, name, value > 0 ? json_object_new_double_s(value, text) : NULL);
}

static struct json_object *row_json(const struct compare_table *table, unsigned i)
{
    const struct compare_row *row = &table->row[i];
    struct json_object *one = json_object_new_object();
    struct figures f = figures_of(table, i);

    json_add_text(one, "network", row->name);
    json_object_object_add(one, "error", *row->why ? json_object_new_string(row->why) : NULL);
    json_add_number(one, "exit_status", (uint64_t)row->status);
    if (*row->why)
        return one;
    json_add_number(one, "time_ns", f.time_ns);
    add_real(one, "ratio", f.ratio);
    json_add_number(one, "waited_ns", f.waited_all_ns);
    json_object_object_add(one, "calls",
                           json_object_get(member(member(row->report, "clock"), "calls")));
    json_object_object_add(one, "link_load", json_object_get(member(row->report, "link_load")));
    json_object_object_add(one, "exact", json_object_new_boolean(f.exact));
    return one;
}

void compare_print_json(FILE *out, const struct compare_table *table)
{
    struct json_object *all = json_object_new_object(), *rows = json_object_new_array();

    json_object_object_add(all, "origin", json_object_get(table->origin));
    json_add_text(all, "compute", table->compute);
    json_object_object_add(all, "interrupted",
                           json_object_new_boolean(table->rows < table->wanted));
    for (unsigned i = 0; i < table->rows; i++)
        json_object_array_add(rows, row_json(table, i));
    json_object_object_add(all, "networks", rows);
    fprintf(out, "%s\n",
            json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(all);
}

/* --- SVG ----------------------------------------------------------------------------- */

#define BAR_PIXELS   420 /* length of the longest bar */
#define NAME_PIXELS  240
#define VALUE_PIXELS 140
#define ROW_PIXELS   26
#define TOP_PIXELS   48

static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("<>&\"", *text))
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    }
}

static void print_label(FILE *out, int x, int y, const char *anchor, const char *text)
{
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">", x, y, anchor);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

/* Print the origin as the SVG's description, which viewers do not draw. */
static void print_description(FILE *out, const struct compare_table *table)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *lines = open_memstream(&text, &bytes);

    fputs("<desc>", out);
    if (lines) {
        origin_print(lines, table->origin, "", "", FOLD_NEVER);
        print_lacking(lines, table, "");
        fclose(lines);
        print_escaped(out, text);
    }
    fputs("</desc>\n", out);
    free(text);
}

void compare_print_svg(FILE *out, const struct compare_table *table)
{
    uint64_t most_ns = 1;

    for (unsigned i = 0; i < table->rows; i++)
        if (time_of(&table->row[i]) > most_ns)
            most_ns = time_of(&table->row[i]);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
            "font-family=\"sans-serif\" font-size=\"13\">\n",
            NAME_PIXELS + BAR_PIXELS + VALUE_PIXELS, TOP_PIXELS + table->rows * ROW_PIXELS + 12);
    print_description(out, table);
    fputs("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n", out);
    print_label(out, NAME_PIXELS, 26, "start",
                table->rows < table->wanted
                    ? "Simulated time to solution; interrupted, so networks are missing"
                    : "Simulated time to solution");
    for (unsigned i = 0; i < table->rows; i++) {
        int y = TOP_PIXELS + (int)i * ROW_PIXELS;
        uint64_t ns = time_of(&table->row[i]);
        int bar = (int)(BAR_PIXELS * (double)ns / (double)most_ns);

        print_label(out, NAME_PIXELS - 10, y + 14, "end", table->row[i].name);
        fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"18\" fill=\"#0072b2\"/>\n",
                NAME_PIXELS, y, bar);
        print_label(out, NAME_PIXELS + bar + 6, y + 14, "start",
                    *table->row[i].why ? "failed" : duration_of_ns((double)ns).text);
    }
    fputs("</svg>\n", out);
}
