/* SPDX-License-Identifier: BSD-3-Clause */
/* board.c - the pages of `fabemu top` as rows of text. */
#include "apps/cmd/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"

#define NAME_COLUMNS 10 /* maximum number of columns of a name */

/* --- numbers and rates -------------------------------------------------------------- */

struct short_text {
    char text[16];
};

/* Return a number as text of at most six characters: 99,999, 1.2M. */
static struct short_text brief(double number)
{
    static const char units[] = " kMGTPE";
    struct short_text ret;
    size_t unit = 0;

    if (number < 99999.5) {
        snprintf(ret.text, sizeof ret.text, "%.10s", amount_of_real(number, 0).text);
        return ret;
    }
    for (; number >= 999.5 && units[unit + 1]; unit++)
        number /= 1000;
    snprintf(ret.text, sizeof ret.text, "%.*f%c", number < 99.95 ? 1 : 0, number, units[unit]);
    return ret;
}

/*
 * Return a node's or switch's name in the network's file, or else its number. Show the end of a
 * longer name, because names often differ only there.
 */
static struct short_text label(const struct telemetry_view *view, bool node, uint32_t number)
{
    const char *name = telemetry_view_name(view, node, number);
    size_t bytes = name ? strlen(name) : 0;
    const char *end = bytes > NAME_COLUMNS ? name + bytes - (NAME_COLUMNS - 1) : name;
    struct short_text ret;

    while (name && (*end & 0xc0) == 0x80) /* in the middle of a UTF-8 character */
        end++;
    if (name)
        snprintf(ret.text, sizeof ret.text, "%s%s", bytes > NAME_COLUMNS ? "~" : "", end);
    else
        snprintf(ret.text, sizeof ret.text, "%u", number);
    return ret;
}

/* Return the width of the first column, which has a node or switch; negative: aligned left. */
static int label_width(const struct telemetry_view *view, int width_of_number)
{
    return telemetry_view_name(view, false, 0) ? -NAME_COLUMNS : width_of_number;
}

struct span {
    const struct telemetry_view *now;
    const struct telemetry_view *before; /* NULL if the span begins at the fabric's start */
    double s;                            /* length in seconds */
};

static struct span span_of(const struct telemetry_view *now, const struct telemetry_view *before)
{
    bool same = before && before->sample && before->nodes == now->nodes &&
                before->cables == now->cables && before->switches == now->switches &&
                before->at < now->at;
    struct span span = {.now = now, .before = same ? before : NULL, .s = telemetry_view_s(now)};

    if (same)
        span.s -= telemetry_view_s(before);
    return span;
}

static double rate(const struct span *span, uint64_t now, uint64_t before)
{
    return span->s > 0 && now > before ? (double)(now - before) / span->s : 0;
}

/* --- pages -------------------------------------------------------------------------- */

enum order {
    BY_TRAFFIC,
    BY_WAITING,
    BY_STALLS,
    BY_ERRORS,
    BY_COMBINING,
    NEWEST,
    SLOWEST,
    BY_NUMBER
};

static const struct {
    const char *name;
    int number_width; /* width of the first column, if nodes and switches have no names */
    const char *first, *columns, *bar;
    enum order order[4];
    uint32_t orders;
} pages[TELEMETRY_PAGES] = {
    [TELEMETRY_PAGE_NODES] = {"nodes",
                              5,
                              "NODE",
                              "  RANK     PID COMMAND  SENT/s RECV/s POSTED UNREAD "
                              "WAITS FOR",
                              "segments/s",
                              {BY_TRAFFIC, BY_WAITING, BY_NUMBER},
                              3},
    [TELEMETRY_PAGE_LINKS] = {"links",
                              0,
                              "",
                              "LINK                           STATE    OUT/s   IN/s STALL/s  QUEUE "
                              "ERRORS  OUTS",
                              "segments/s",
                              {BY_TRAFFIC, BY_STALLS, BY_ERRORS, BY_NUMBER},
                              4},
    [TELEMETRY_PAGE_SWITCHES] = {"switches",
                                 6,
                                 "SWITCH",
                                 " LEVEL   HOPS/s STALLS/s  QUEUE COMBINED/s RESULTS/s COPIES/s "
                                 "STATES",
                                 "segments/s",
                                 {BY_TRAFFIC, BY_STALLS, BY_COMBINING, BY_NUMBER},
                                 4},
    [TELEMETRY_PAGE_COLLECTIVES] =
        {"collectives",
         0,
         "",
         "KIND            GROUP      NUMBER    BYTES DONE BY      TOOK/us "
         "SINCE START/s",
         "time taken",
         {NEWEST, SLOWEST},
         2},
};

const char *telemetry_page_name(enum telemetry_page page)
{
    return pages[page].name;
}

void telemetry_page_columns(enum telemetry_page page, const struct telemetry_view *view, char *ret,
                            size_t ret_bytes)
{
    int width = pages[page].number_width;

    snprintf(ret, ret_bytes, "%*s%s", width ? label_width(view, width) : 0, pages[page].first,
             pages[page].columns);
}

const char *telemetry_page_bar(enum telemetry_page page)
{
    return pages[page].bar;
}

static enum order order_of(const struct telemetry_board *board)
{
    return pages[board->page].order[board->sort % pages[board->page].orders];
}

const char *telemetry_board_order(const struct telemetry_board *board)
{
    static const char *const names[] = {
        [BY_TRAFFIC] = "traffic", [BY_WAITING] = "waiting",     [BY_STALLS] = "stalls",
        [BY_ERRORS] = "errors",   [BY_COMBINING] = "combining", [NEWEST] = "newest",
        [SLOWEST] = "slowest",    [BY_NUMBER] = "number",
    };

    return names[order_of(board)];
}

void telemetry_board_next(struct telemetry_board *board)
{
    board->sort = (board->sort + 1) % pages[board->page].orders;
}

void telemetry_board_release(struct telemetry_board *board)
{
    free(board->row);
    board->row = NULL;
    board->rows = 0;
    board->size_most = 0;
}

/* --- rows --------------------------------------------------------------------------- */

/* Values of a device, which determine the order of rows and the tone of the row. */
struct row_values {
    double traffic, waiting, errors, combining;
};

static uint64_t key_of(const struct telemetry_board *board, const struct row_values *values)
{
    switch (order_of(board)) {
    case BY_WAITING:
    case BY_STALLS:
        return (uint64_t)(1000 * values->waiting);
    case BY_ERRORS:
        return (uint64_t)(1000 * values->errors);
    case BY_COMBINING:
        return (uint64_t)(1000 * values->combining);
    case BY_NUMBER:
        return 0;
    default:
        return (uint64_t)(1000 * values->traffic);
    }
}

static bool contains(const char *text, const char *filter)
{
    return text && strstr(text, filter);
}

/*
 * Keep the row that was written last, unless the filter excludes it. @a, @b: the full names of
 * things whose names the row may have shortened, or NULL. The filter also matches these.
 */
static void row_keep(struct telemetry_board *board, uint32_t number, uint64_t key, double size,
                     enum telemetry_tone tone, const char *a, const char *b)
{
    struct telemetry_board_row *row = &board->row[board->rows];

    if (board->busy && tone == TELEMETRY_TONE_IDLE)
        return;
    if (*board->filter && !contains(row->text, board->filter) && !contains(a, board->filter) &&
        !contains(b, board->filter))
        return;
    row->number = number;
    row->key = key;
    row->size = size;
    row->tone = tone;
    if (size > board->size_most)
        board->size_most = size;
    board->rows++;
}

static enum telemetry_tone tone_of(const struct row_values *values)
{
    return values->errors > 0                             ? TELEMETRY_TONE_WRONG
           : values->waiting > 0                          ? TELEMETRY_TONE_WAITING
           : values->traffic > 0 || values->combining > 0 ? TELEMETRY_TONE_BUSY
                                                          : TELEMETRY_TONE_IDLE;
}

/* Return the time from @from to @to, which are in the unit of @view; 0 if @to is earlier. */
static struct duration time_between(const struct telemetry_view *view, uint64_t from, uint64_t to)
{
    double ns = (double)(to - from) * (view->is_virtual ? 1e-3 : 1);

    return duration_of_ns(to > from ? ns : 0);
}

/*
 * Write the operation for which a process waits, and for how long it has waited: "barrier 3, 1.2
 * s", where 3 is the number of the group or of the peer's node.
 */
static void wait_text(const struct span *span, uint32_t n, char *ret, size_t ret_bytes)
{
    const struct telemetry_view_node *node = &span->now->node[n];
    struct duration waited = time_between(span->now, node->waits_since, span->now->at);

    *ret = '\0';
    if (!node->waits)
        return;
    if (node->waits_group >= 0)
        snprintf(ret, ret_bytes, "%s %lld, %s", telemetry_view_wait(span->now, n),
                 (long long)node->waits_group, waited.text);
    else if (node->waits_other >= 0)
        snprintf(ret, ret_bytes, "%s %s, %s", telemetry_view_wait(span->now, n),
                 label(span->now, true, (uint32_t)node->waits_other).text, waited.text);
    else
        snprintf(ret, ret_bytes, "%s, %s", telemetry_view_wait(span->now, n), waited.text);
}

static void node_row(struct telemetry_board *board, const struct span *span, uint32_t n)
{
    const struct telemetry_view_node *node = &span->now->node[n];
    const struct telemetry_view_node none = {0},
                                     *was = span->before ? &span->before->node[n] : &none;
    double sent = rate(span, node->now.sent, was->now.sent);
    double received = rate(span, node->now.delivered, was->now.delivered);
    struct row_values values = {.traffic = sent + received,
                                .waiting = node->waits
                                               ? 1 + (double)(node->now.posted + node->now.untaken)
                                               : 0};
    const char *name = telemetry_view_name(span->now, true, n);
    char pid[24] = "-", rank[24] = "-", waits[64];

    if (node->pid)
        snprintf(pid, sizeof pid, "%lld", (long long)node->pid);
    if (node->rank >= 0)
        snprintf(rank, sizeof rank, "%lld", (long long)node->rank);
    wait_text(span, n, waits, sizeof waits);
    snprintf(board->row[board->rows].text, TELEMETRY_ROW_BYTES,
             "%*s %5s %7s %-8.8s %6s %6s %6s %6s %s", label_width(span->now, 5),
             label(span->now, true, n).text, rank, pid, node->pid ? node->command : "-",
             brief(sent).text, brief(received).text, brief((double)node->now.posted).text,
             brief((double)node->now.untaken).text, waits);
    row_keep(board, n, key_of(board, &values), values.traffic, tone_of(&values), node->command,
             name);
}

static void link_row(struct telemetry_board *board, const struct span *span, uint32_t c)
{
    const struct telemetry_view_cable *cable = &span->now->cable[c];
    const struct telemetry_view_cable none = {0};
    const struct telemetry_view_cable *was = span->before ? &span->before->cable[c] : &none;
    double out = rate(span, cable->direction[1].segments, was->direction[1].segments);
    double in = rate(span, cable->direction[0].segments, was->direction[0].segments);
    double stalls = rate(span, cable->direction[0].stalls + cable->direction[1].stalls,
                         was->direction[0].stalls + was->direction[1].stalls);
    double queue = (double)(cable->direction[0].queue + cable->direction[1].queue);
    double errors = (double)(cable->direction[0].errors + cable->direction[1].errors);
    struct row_values values = {.traffic = out + in,
                                .waiting = stalls + queue,
                                .errors = errors + (double)cable->outs + 1000000.0 * cable->state};
    const char *here = telemetry_view_name(span->now, false, cable->sw);
    const char *there = telemetry_view_name(span->now, !cable->to_switch, cable->peer);
    char name[64];

    if (here)
        snprintf(name, sizeof name, "%s:%u - %s:%u", label(span->now, false, cable->sw).text,
                 cable->port, label(span->now, !cable->to_switch, cable->peer).text,
                 cable->peer_port);
    else
        snprintf(name, sizeof name, "switch %u:%u - %s %u:%u", cable->sw, cable->port,
                 cable->to_switch ? "switch" : "node", cable->peer, cable->peer_port);
    snprintf(board->row[board->rows].text, TELEMETRY_ROW_BYTES,
             "%-30s %-7s %6s %6s %7s %6s %6s %5s", name, telemetry_view_link(span->now, c),
             brief(out).text, brief(in).text, brief(stalls).text, brief(queue).text,
             brief(errors).text, brief((double)cable->outs).text);
    row_keep(board, c, key_of(board, &values), values.traffic, tone_of(&values), here, there);
}

/* Return for each switch the sums of the counters at its sending ports. The caller frees them. */
static struct fabric_direction_sample *sums_out(const struct telemetry_view *view)
{
    struct fabric_direction_sample *out = calloc(view->switches + 1u, sizeof *out);

    for (uint32_t c = 0; out && c < 2 * view->cables; c++) {
        const struct telemetry_view_cable *cable = &view->cable[c / 2];
        const struct fabric_direction_sample *direction = &cable->direction[c % 2];
        struct fabric_direction_sample *sum = &out[c % 2 ? cable->sw : cable->peer];

        if (c % 2 == 0 && !cable->to_switch)
            continue;
        fabric_counters_add(&fabric_direction_counters, sum->value, direction->value);
    }
    return out;
}

static void switch_row(struct telemetry_board *board, const struct span *span, uint32_t s,
                       const struct fabric_direction_sample *out,
                       const struct fabric_direction_sample *was)
{
    const struct telemetry_view_switch *sw = &span->now->sw[s];
    const struct telemetry_view_switch none = {0},
                                       *sw_was = span->before ? &span->before->sw[s] : &none;
    double hops = rate(span, out->segments, was->segments);
    double stalls = rate(span, out->stalls, was->stalls);
    double combined = rate(span, sw->now.contributions, sw_was->now.contributions);
    struct row_values values = {.traffic = hops,
                                .waiting = stalls + (double)out->queue,
                                .combining = combined + (double)sw->now.states / 1000.0};

    snprintf(board->row[board->rows].text, TELEMETRY_ROW_BYTES,
             "%*s %5u %8s %8s %6s %10s %9s %8s %6s", label_width(span->now, 6),
             label(span->now, false, s).text, sw->level, brief(hops).text, brief(stalls).text,
             brief((double)out->queue).text, brief(combined).text,
             brief(rate(span, sw->now.results, sw_was->now.results)).text,
             brief(rate(span, sw->now.multicasts, sw_was->now.multicasts)).text,
             brief((double)sw->now.states).text);
    row_keep(board, s, key_of(board, &values), values.traffic, tone_of(&values),
             telemetry_view_name(span->now, false, s), NULL);
}

static int switch_rows(struct telemetry_board *board, const struct span *span)
{
    struct fabric_direction_sample *now = sums_out(span->now);
    struct fabric_direction_sample *was =
        span->before ? sums_out(span->before) : calloc(span->now->switches + 1u, sizeof *was);

    for (uint32_t s = 0; now && was && s < span->now->switches; s++)
        switch_row(board, span, s, &now[s], &was[s]);
    int err = now && was ? 0 : -ENOMEM;
    free(now);
    free(was);
    return err;
}

static void collective_row(struct telemetry_board *board, const struct span *span, uint32_t i)
{
    const struct telemetry_view_finished *one = &span->now->finished[i];
    uint64_t took = one->ended > one->began ? one->ended - one->began : 0;
    double s = span->now->is_virtual ? 1e-12 : 1e-9; /* the view's unit of time, in seconds */

    if (!one->members)
        return;
    snprintf(board->row[board->rows].text, TELEMETRY_ROW_BYTES,
             "%-10s %10lld %11llu %8s %7s %12s %13s", telemetry_view_kind(span->now, one->kind),
             (long long)one->group, (unsigned long long)one->number, brief((double)one->bytes).text,
             amount_count(one->members).text, amount_of_real((double)took * s * 1e6, 1).text,
             amount_of_real((double)one->ended * s, 3).text);
    row_keep(board, i, order_of(board) == SLOWEST ? took : one->ended, (double)took,
             TELEMETRY_TONE_BUSY, NULL, NULL);
}

static int by_key(const void *a, const void *b)
{
    const struct telemetry_board_row *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static uint32_t rows_most(const struct telemetry_board *board, const struct telemetry_view *now)
{
    const uint32_t most[TELEMETRY_PAGES] = {
        [TELEMETRY_PAGE_NODES] = now->nodes,
        [TELEMETRY_PAGE_LINKS] = now->cables,
        [TELEMETRY_PAGE_SWITCHES] = now->switches,
        [TELEMETRY_PAGE_COLLECTIVES] = TELEMETRY_VIEW_FINISHED,
    };

    return most[board->page];
}

int telemetry_board_fill(struct telemetry_board *board, const struct telemetry_view *now,
                         const struct telemetry_view *before)
{
    struct span span = span_of(now, before);
    uint32_t most = rows_most(board, now);
    int err = 0;

    telemetry_board_release(board);
    board->row = malloc((most + 1u) * sizeof *board->row);
    if (!board->row)
        return -ENOMEM;
    for (uint32_t i = 0; i < most; i++) {
        if (board->page == TELEMETRY_PAGE_NODES)
            node_row(board, &span, i);
        else if (board->page == TELEMETRY_PAGE_LINKS)
            link_row(board, &span, i);
        else if (board->page == TELEMETRY_PAGE_COLLECTIVES)
            collective_row(board, &span, i);
    }
    if (board->page == TELEMETRY_PAGE_SWITCHES)
        err = switch_rows(board, &span);
    qsort(board->row, board->rows, sizeof *board->row, by_key);
    return err;
}

void telemetry_board_sums(const struct telemetry_view *now, const struct telemetry_view *before,
                          char *ret, size_t ret_bytes)
{
    struct span span = span_of(now, before);
    const struct telemetry_totals none = {0};
    const struct telemetry_totals *was = span.before ? &span.before->totals : &none;
    uint32_t attached = 0, out = 0;

    for (uint32_t n = 0; n < now->nodes; n++)
        attached += now->node[n].pid != 0;
    for (uint32_t c = 0; c < now->cables; c++)
        out += now->cable[c].state != 0;
    snprintf(ret, ret_bytes, "%s of %s nodes  %s hops/s  %s stalls/s  %s combined/s  %s link%s out",
             amount_count(attached).text, amount_count(now->nodes).text,
             brief(rate(&span, now->totals.hops, was->hops)).text,
             brief(rate(&span, now->totals.credit_stalls, was->credit_stalls)).text,
             brief(rate(&span, now->totals.contributions, was->contributions)).text,
             amount_count(out).text, plural_s(out));
}
