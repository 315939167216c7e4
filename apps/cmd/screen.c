/* SPDX-License-Identifier: BSD-3-Clause */
/* screen.c - the terminal of `fabemu top`. Only this file uses ncurses. */
#include "apps/cmd/top.h"

#ifdef TELEMETRY_NCURSES

#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"

#define HEAD_LINES  3  /* lines above the rows */
#define ROW_COLUMNS 80 /* columns of a row's text; a bar follows if the screen is wide enough */
#define BAR_LEAST   12 /* smallest number of columns for a bar */
#define ESCAPE      27

bool screen_there(void)
{
    return true;
}

/* Return whether to draw in colours: the terminal has them, and the user has not set NO_COLOR. */
static bool is_coloured(void)
{
    const char *no_color = getenv("NO_COLOR"); /* https://no-color.org */

    return has_colors() && !(no_color && *no_color);
}

bool screen_open(void)
{
    SCREEN *screen = newterm(NULL, stdout, stdin);

    if (!screen)
        return false;
    set_escdelay(25);
    if (is_coloured()) { /* colour pair N + 1 is for tone N */
        start_color();
        use_default_colors();
        init_pair(TELEMETRY_TONE_BUSY + 1, COLOR_GREEN, -1);
        init_pair(TELEMETRY_TONE_WAITING + 1, COLOR_YELLOW, -1);
        init_pair(TELEMETRY_TONE_WRONG + 1, COLOR_RED, -1);
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, true);
    nodelay(stdscr, true);
    curs_set(0);
    return true;
}

void screen_close(void)
{
    endwin();
}

static void filter_key(struct screen_state *state, struct telemetry_board *board, int key)
{
    size_t length = strlen(board->filter);

    if (key == '\r' || key == '\n' || key == KEY_ENTER) {
        state->filters = false;
    } else if (key == ESCAPE) {
        state->filters = false;
        board->filter[0] = '\0';
    } else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
        board->filter[length - (length > 0)] = '\0';
    } else if (key >= ' ' && key <= '~' && length + 1 < sizeof board->filter) {
        board->filter[length] = (char)key;
        board->filter[length + 1] = '\0';
    }
    state->first = 0;
}

static void page_key(struct screen_state *state, struct telemetry_board *board,
                     enum telemetry_page page)
{
    board->page = page;
    board->sort = 0;
    state->first = 0;
}

static void move_key(struct screen_state *state, int key)
{
    uint32_t page = LINES > HEAD_LINES + 1 ? (uint32_t)(LINES - HEAD_LINES - 1) : 1;
    uint32_t by = key == KEY_NPAGE || key == KEY_PPAGE ? page : 1;

    if (key == KEY_DOWN || key == KEY_NPAGE)
        state->first += by; /* may be too large: screen_draw() corrects it */
    else if (key == KEY_HOME)
        state->first = 0;
    else if (key == KEY_UP || key == KEY_PPAGE)
        state->first -= state->first < by ? state->first : by;
}

static void command_key(struct screen_state *state, struct telemetry_board *board, int key)
{
    static const char pages[] = "nlsc";
    const char *page = key > 0 && key < 128 ? strchr(pages, key) : NULL;

    if (page)
        page_key(state, board, (enum telemetry_page)(page - pages));
    else if (key >= '1' && key < '1' + TELEMETRY_PAGES)
        page_key(state, board, (enum telemetry_page)(key - '1'));
    else if (key == '\t')
        page_key(state, board, (board->page + 1) % TELEMETRY_PAGES);
    else if (key == 'o')
        telemetry_board_next(board);
    else if (key == 'b')
        board->busy = !board->busy;
    else if (key == '/')
        state->filters = true;
    else if (key == 'p' || key == ' ')
        state->paused = !state->paused;
    else if (key == '?' || key == 'h')
        state->helps = true;
    else if (key == 'q' || key == 3) /* 3: Ctrl-C on a terminal that sends no signal for it */
        state->quits = true;
    else
        move_key(state, key);
}

void screen_keys(struct screen_state *state, struct telemetry_board *board)
{
    int key;

    while ((key = getch()) != ERR) {
        if (key == KEY_RESIZE)
            continue;
        if (state->helps)
            state->helps = false;
        else if (state->filters)
            filter_key(state, board, key);
        else
            command_key(state, board, key);
    }
}

static void line(int y, attr_t attributes, const char *text)
{
    if (y < 0 || y >= LINES)
        return;
    attrset(attributes);
    mvaddnstr(y, 0, text, COLS);
    clrtoeol();
    if (attributes & A_REVERSE)
        mvchgat(y, 0, -1, A_REVERSE, 0, NULL);
    attrset(A_NORMAL);
}

static bool has_bars(void)
{
    return COLS >= ROW_COLUMNS + BAR_LEAST;
}

/* Draw a bar "[||||| ]" after the text. @share: the row's size / the largest size. */
static void draw_bar(int y, attr_t attributes, double share)
{
    const int left = ROW_COLUMNS + 1; /* after a space */
    int room = COLS - left - 3;

    mvaddch(y, left, '[');
    attrset(attributes);
    mvhline(y, left + 1, '|', (int)(share * room + 0.5));
    attrset(A_NORMAL);
    mvaddch(y, left + 1 + room, ']');
}

static void draw_row(int y, const struct telemetry_board_row *row, double size_most)
{
    attr_t attributes = row->tone == TELEMETRY_TONE_IDLE ? A_DIM : A_NORMAL;

    if (is_coloured() && row->tone != TELEMETRY_TONE_IDLE)
        attributes = COLOR_PAIR(row->tone + 1);
    line(y, row->tone == TELEMETRY_TONE_BUSY ? A_NORMAL : attributes, row->text);
    if (has_bars() && size_most > 0)
        draw_bar(y, attributes, row->size / size_most);
}

static void draw_columns(enum telemetry_page page, const struct telemetry_view *view)
{
    char columns[TELEMETRY_ROW_BYTES], text[2 * TELEMETRY_ROW_BYTES];

    telemetry_page_columns(page, view, columns, sizeof columns);
    snprintf(text, sizeof text, "%-*s %s", ROW_COLUMNS, columns,
             has_bars() ? telemetry_page_bar(page) : "");
    line(HEAD_LINES - 1, A_REVERSE, text);
}

static void draw_help(void)
{
    static const char *const keys[] = {
        "n l s c, 1-4, Tab   nodes, links, switches, collectives",
        "o                   change the order of the rows",
        "b                   hide idle rows",
        "/                   show only rows that contain a text; Enter: done, Esc: all",
        "p, space            pause",
        "arrows, pages, Home scroll",
        "q                   quit",
        "",
        "hops/s: how often switches forward a segment, summed over the fabric.",
        "Yellow: a process waits for an operation, or segments stall or queue.",
        "Red: errors, or a link that is not up.",
        "POSTED: segments that wait to be sent. UNREAD: delivered, not yet read.",
        "OUTS: how often a link went out of use. STATES: space for partial results.",
        "On a screen of 92 columns or more each row has a bar. The longest bar",
        "belongs to the largest value.",
    };

    line(HEAD_LINES - 1, A_REVERSE, "KEYS (press any key to go back)");
    for (int i = 0; i < (int)(sizeof keys / sizeof keys[0]); i++)
        line(HEAD_LINES + i, A_NORMAL, keys[i]);
}

static void draw_foot(const struct screen_state *state, const struct telemetry_board *board,
                      uint32_t rows)
{
    char text[TELEMETRY_ROW_BYTES];

    if (COLS < ROW_COLUMNS && !state->filters && !*board->filter)
        snprintf(text, sizeof text, "cut at %d of %d columns  ? q)uit", COLS, ROW_COLUMNS);
    else if (state->filters || *board->filter)
        snprintf(text, sizeof text, "/%s%s  %s of %s", board->filter, state->filters ? "_" : "",
                 amount_count(rows ? state->first + 1 : 0).text, amount_count(rows).text);
    else
        snprintf(text, sizeof text,
                 "n)odes l)inks s)witches c)ollectives o)rder: %s %s /filter ? q)uit",
                 telemetry_board_order(board), board->busy ? "BUSY" : "b)usy");
    line(LINES - 1, A_BOLD, text);
}

/* Write the first line, with the network's name from @from on. Returns its length. */
static int head_text(char *ret, size_t bytes, const struct screen_state *state,
                     const struct telemetry_board *board, const struct telemetry_view *view,
                     size_t from)
{
    return snprintf(ret, bytes, "%s: %s%s  %s%s, %s, clock %s, up %.1f s", view->name,
                    telemetry_page_name(board->page), state->paused ? "  PAUSED" : "",
                    from ? "~" : "", view->topo + from, view->profile, view->clock,
                    telemetry_view_s(view));
}

static void draw_head(const struct screen_state *state, const struct telemetry_board *board,
                      const struct telemetry_view *view, const struct telemetry_view *before)
{
    char text[TELEMETRY_ROW_BYTES], settings[128];
    int length = head_text(text, sizeof text, state, board, view, 0);
    size_t named = strlen(view->topo);

    if (length > COLS) { /* cut the beginning of the network's name, which may be a path */
        size_t from = (size_t)(length - COLS) + 1;
        while (from < named && (view->topo[from] & 0xc0) == 0x80) /* inside a character */
            from++;
        length = head_text(text, sizeof text, state, board, view, from < named ? from : named);
    }
    telemetry_view_settings(view, "  ", settings, sizeof settings);
    length += (int)strlen(settings);
    if (length <= COLS && length < (int)sizeof text) /* otherwise only `fabemu status` shows them */
        strcat(text, settings);
    line(0, A_BOLD, text);
    telemetry_board_sums(view, before, text, sizeof text);
    line(1, A_NORMAL, text);
}

void screen_draw(struct screen_state *state, const struct telemetry_board *board,
                 const struct telemetry_view *view, const struct telemetry_view *before)
{
    uint32_t room = LINES > HEAD_LINES + 1 ? (uint32_t)(LINES - HEAD_LINES - 1) : 0;

    erase();
    draw_head(state, board, view, before);
    if (state->first + room > board->rows)
        state->first = board->rows > room ? board->rows - room : 0;
    if (state->helps) {
        draw_help();
    } else {
        draw_columns(board->page, view);
        for (uint32_t i = 0; i < room && state->first + i < board->rows; i++)
            draw_row(HEAD_LINES + (int)i, &board->row[state->first + i], board->size_most);
    }
    draw_foot(state, board, board->rows);
    refresh();
}

#else

bool screen_there(void)
{
    return false;
}

bool screen_open(void)
{
    return false;
}

void screen_close(void)
{
}

void screen_keys(struct screen_state *state, struct telemetry_board *board)
{
    (void)board;
    state->quits = true;
}

void screen_draw(struct screen_state *state, const struct telemetry_board *board,
                 const struct telemetry_view *view, const struct telemetry_view *before)
{
    (void)state, (void)board, (void)view, (void)before;
}

#endif
