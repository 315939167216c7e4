/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top.c - `fabemu top`: show a running fabric on a terminal, or print it once as plain text.
 *
 * The command subscribes to the fabric's telemetry (daemon/telemetry.h), and keeps views of the
 * last two snapshots, because rates need two.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "apps/control/conn.h"
#include "apps/cmd/options.h"
#include "apps/base/amount.h"
#include "apps/base/quantity.h"
#include "apps/control/paths.h"
#include "apps/cmd/commands.h"
#include "apps/base/fold.h"
#include "apps/base/message.h"
#include "apps/cmd/top.h"
#include "apps/telemetry/filter.h"
#include "emu/util/now.h"

#define EVERY_MS  1000u
#define ONCE_ROWS 40u /* maximum number of rows that --once prints of each page */

struct top {
    /* from the command line */
    bool once;
    uint32_t every_ms;
    uint64_t given; /* one bit for each row of rows[] whose option was given */
    const char *name;

    struct conn conn;
    struct telemetry_view view;                /* view of the last snapshot */
    struct telemetry_view before;              /* view of the snapshot before the last one */
    struct telemetry_view shown, shown_before; /* copies of both views, made when the user paused */
    struct telemetry_board board;
    struct screen_state state;
    bool ended; /* the fabric has ended */
};

static bool read_every(void *into, const char *value, const char **right)
{
    static const struct quantity_form form = {.units = quantity_times,
                                              .least = TELEMETRY_EVERY_LEAST_MS * QUANTITY_MS_PS,
                                              .most = TELEMETRY_EVERY_MOST_MS * QUANTITY_MS_PS};
    uint64_t ps;

    *right = "a time from 100ms to 1h, with its unit, such as 500ms or 2s";
    if (!quantity_read(value, &form, &ps))
        return false;
    ((struct top *)into)->every_ms = (uint32_t)(ps / QUANTITY_MS_PS);
    return true;
}

static const struct option_row rows[] = {
    {"once", NULL, "print all pages once, as plain text", .at = offsetof(struct top, once)},
    {"page", "nodes|links|switches|collectives",
     "show this page first; with --once: print only this page",
     .at = offsetof(struct top, board.page), .choice = true,
     .right = "nodes, links, switches or collectives"},
    {"every", "TIME", "time between samples (default 1s)", .read = read_every},
};
#define PAGE_GIVEN 2u /* bit of --page in top.given */

static const struct options_command top_command = {
    .name = "top",
    .operands = "[NAME]",
    .about = "Show the running fabric NAME (or \"default\"): nodes, links, switches and\n"
             "collectives, busiest first. The key ? lists all keys. If NO_COLOR is set in the\n"
             "environment, the screen has no colours.",
};

/* --- snapshots ---------------------------------------------------------------------- */

static int subscribe(struct top *top, char *error, size_t error_bytes)
{
    int fd, err = paths_connect(&fd, NULL, top->name, error, error_bytes);

    if (err)
        return err;
    conn_open(&top->conn, fd, CONN_TELEMETRY_MAX);
    return telemetry_view_subscribe(&top->conn, top->name, top->every_ms, error, error_bytes);
}

static int take(struct top *top, struct json_object *line)
{
    bool snapshot = strcmp(emu_json_text(line, "event", ""), "telemetry") == 0;
    int err = snapshot ? telemetry_view_copy(&top->before, &top->view) : 0;

    if (!err)
        err = telemetry_view_take(&top->view, line);
    return err < 0 ? err : 0;
}

static int take_all(struct top *top)
{
    struct json_object *line;
    int end = conn_fill(&top->conn), err = 0, got = 0;

    while (!err && (got = conn_next(&top->conn, &line)) == 1) {
        err = take(top, line);
        json_object_put(line);
    }
    top->ended = end != 0;
    return err ? err : got < 0 ? got : 0;
}

/* --- once --------------------------------------------------------------------------- */

static int print_page(struct top *top, enum telemetry_page page)
{
    char columns[TELEMETRY_ROW_BYTES];

    top->board.page = page;
    if (telemetry_board_fill(&top->board, &top->view, &top->before))
        return -ENOMEM;
    telemetry_page_columns(page, &top->view, columns, sizeof columns);
    printf("\n%s\n", columns);
    for (uint32_t i = 0; i < top->board.rows && i < ONCE_ROWS; i++)
        puts(top->board.row[i].text);
    if (top->board.rows > ONCE_ROWS)
        printf("(%s more)\n", amount_count(top->board.rows - ONCE_ROWS).text);
    return 0;
}

static int once(struct top *top)
{
    int64_t end_ms = emu_now_ms() + 2 * (int64_t)top->every_ms + CONN_ANSWER_MS;
    char sums[128], settings[256];
    int err = 0;

    while (!err && !top->before.sample) {
        int64_t left_ms = end_ms - emu_now_ms();
        struct json_object *line;

        err = left_ms > 0 ? conn_wait(&top->conn, &line, (int)left_ms) : -ETIMEDOUT;
        if (err)
            break;
        err = take(top, line);
        json_object_put(line);
    }
    if (err)
        return err;
    telemetry_board_sums(&top->view, &top->before, sums, sizeof sums);
    telemetry_view_settings(&top->view, " with ", settings, sizeof settings);
    fold_printf(stdout, "  ", "fabric %s: %s, profile %s%s, clock %s, up %.1f s\n%s\n",
                top->view.name, top->view.topo, top->view.profile, settings, top->view.clock,
                telemetry_view_s(&top->view), sums);
    if (top->given & PAGE_GIVEN)
        return print_page(top, top->board.page);
    for (int page = 0; !err && page < TELEMETRY_PAGES; page++)
        err = print_page(top, (enum telemetry_page)page);
    return err;
}

/* --- on a terminal ------------------------------------------------------------------ */

static int draw(struct top *top)
{
    struct telemetry_view *view = top->state.paused ? &top->shown : &top->view;
    struct telemetry_view *before = top->state.paused ? &top->shown_before : &top->before;
    int err = telemetry_board_fill(&top->board, view, before);

    if (!err)
        screen_draw(&top->state, &top->board, view, before);
    return err;
}

static int on_keys(struct top *top)
{
    bool paused = top->state.paused;
    int err = 0;

    screen_keys(&top->state, &top->board);
    top->state.paused &= top->view.sample > 0; /* before the first snapshot there is no view */
    if (top->state.paused && !paused) {
        err = telemetry_view_copy(&top->shown, &top->view);
        err = err ? err : telemetry_view_copy(&top->shown_before, &top->before);
    }
    return err;
}

/* @mask: the blocked signals while this waits. SIGWINCH is blocked only at other times. */
static int watch(struct top *top, int signals, const sigset_t *mask)
{
    struct pollfd fds[3] = {{STDIN_FILENO, POLLIN, 0},
                            {top->conn.fd, POLLIN, 0},
                            {signals, POLLIN, 0}};
    int err = 0;

    while (!err && !top->state.quits && !top->ended && !fds[2].revents) {
        if (ppoll(fds, 3, NULL, mask) < 0 && errno != EINTR)
            return -errno;
        if (fds[1].revents)
            err = take_all(top);
        if (!err)
            err = on_keys(top); /* even without input: a new size of the terminal raises a signal,
                                 * which ends ppoll(), and ncurses returns the size as a key */
        if (fds[0].revents & (POLLHUP | POLLERR))
            return 0; /* the terminal was closed */
        if (!err && top->view.sample)
            err = draw(top);
    }
    return err;
}

static int interactive(struct top *top)
{
    sigset_t ends, resize, mask;
    int signals, err;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    sigemptyset(&resize);
    sigaddset(&resize, SIGWINCH);
    sigprocmask(SIG_BLOCK, &resize, &mask);
    signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        return -errno;
    if (!screen_open()) {
        close(signals);
        return -ENOTTY;
    }
    err = watch(top, signals, &mask);
    screen_close();
    close(signals);
    if (!err && top->ended)
        print_message("fabric '%s' has ended", top->name);
    return err;
}

/* --- the command -------------------------------------------------------------------- */

static int run(struct top *top)
{
    char error[512];
    int err;

    if (!top->once && !screen_there()) {
        print_message(
            "top: this build has no ncurses (install libncurses-dev and rebuild); --once prints "
            "plain text");
        return EXIT_FAILURE;
    }
    if (!top->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
        print_message("top: this is not a terminal; --once prints plain text");
        return EXIT_USAGE;
    }
    top->conn.fd = -1;
    if (subscribe(top, error, sizeof error)) {
        print_message("%s", error);
        return EXIT_FAILURE;
    }
    err = top->once ? once(top) : interactive(top);
    if (err)
        print_message("top: %s",
                      err == -ENOTTY
                          ? "the type of this terminal (TERM) is unknown; --once prints plain text"
                      : err == -EPIPE ? "the fabric has ended"
                                      : strerror(-err));
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

int top_main(int argc, char **argv)
{
    struct top top = {.every_ms = EVERY_MS, .conn = {.fd = -1}};
    struct options options;
    struct option_table own = {rows, sizeof rows / sizeof rows[0], &top, &top.given};
    int status = options_parse_name(&options, &top.name, &top_command, &own, argc, argv);

    if (status >= 0)
        return status;
    status = run(&top);
    conn_close(&top.conn);
    telemetry_board_release(&top.board);
    telemetry_view_release(&top.view);
    telemetry_view_release(&top.before);
    telemetry_view_release(&top.shown);
    telemetry_view_release(&top.shown_before);
    return status;
}
