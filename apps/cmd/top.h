/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * top.h - the parts of `fabemu top`. A *page* shows nodes, links, switches or collectives. A
 * *board* is a page as rows of text (board.c), and the *screen* shows a board on a terminal
 * (screen.c). A *view* is the state of a fabric as of one snapshot (apps/telemetry/view.h).
 */
#ifndef APPS_CMD_TOP_H
#define APPS_CMD_TOP_H

#include "apps/telemetry/view.h"

/* size of a row's text, in bytes; the columns of the text fit on a screen of 80 columns */
#define TELEMETRY_ROW_BYTES 256u

enum telemetry_page {
    TELEMETRY_PAGE_NODES,
    TELEMETRY_PAGE_LINKS,
    TELEMETRY_PAGE_SWITCHES,
    TELEMETRY_PAGE_COLLECTIVES,
    TELEMETRY_PAGES
};

/* The state of a row's device. The screen shows it by a colour. */
enum telemetry_tone {
    TELEMETRY_TONE_IDLE,
    TELEMETRY_TONE_BUSY,
    TELEMETRY_TONE_WAITING, /* a process waits for an operation, or segments stall or queue */
    TELEMETRY_TONE_WRONG    /* errors, or a link that is not up */
};

struct telemetry_board_row {
    uint64_t key;    /* rows are sorted by key, largest first */
    uint32_t number; /* rows with equal keys are sorted by number, smallest first */
    double size;     /* length of the row's bar, relative to other rows; 0: no bar */
    enum telemetry_tone tone;
    char text[TELEMETRY_ROW_BYTES];
};

/* The user's choice of rows, and the rows. Owned by one thread. */
struct telemetry_board {
    enum telemetry_page page;
    uint32_t sort;   /* index of the chosen order in the page's list of orders */
    bool busy;       /* omit idle rows */
    char filter[32]; /* only rows that contain this text; "": all */
    uint32_t rows;
    struct telemetry_board_row *row; /* owned by the board */
    double size_most;                /* the largest size of all rows */
};

void telemetry_board_release(struct telemetry_board *board);

/**
 * telemetry_board_order - return the name of the order of rows.
 * telemetry_board_next() - choose the next order of the page.
 */
const char *telemetry_board_order(const struct telemetry_board *board);
void telemetry_board_next(struct telemetry_board *board);

/** telemetry_page_bar - return the unit of the bars, such as "segments/s". Pure. */
const char *telemetry_page_bar(enum telemetry_page page);

/** telemetry_page_name - return the name of the page, such as "nodes". Pure. */
const char *telemetry_page_name(enum telemetry_page page);

/** telemetry_page_columns - write the heads of the page's columns, which depend on the fabric. */
void telemetry_page_columns(enum telemetry_page page, const struct telemetry_view *view, char *ret,
                            size_t ret_bytes);

/**
 * telemetry_board_fill - make the rows of the view @now, sorted and filtered. Rates are means since
 * @before, an earlier view of the same fabric or, if that is empty, since the start of the fabric.
 * Errors: -ENOMEM.
 */
int telemetry_board_fill(struct telemetry_board *board, const struct telemetry_view *now,
                         const struct telemetry_view *before);

/** telemetry_board_sums - write a line about the whole fabric to @ret. */
void telemetry_board_sums(const struct telemetry_view *now, const struct telemetry_view *before,
                          char *ret, size_t ret_bytes);

struct screen_state {
    uint32_t first; /* index of the row at the top of the screen */
    bool paused;
    bool helps;   /* the list of keys is shown */
    bool filters; /* the user types the filter */
    bool quits;
};

/** screen_there - return whether this build has ncurses. If not, the functions below do nothing. */
bool screen_there(void);

/** screen_open - take over the terminal. Returns false if its type is unknown. */
bool screen_open(void);
void screen_close(void);

/** screen_keys - handle all keys that were pressed. Never blocks. */
void screen_keys(struct screen_state *state, struct telemetry_board *board);

/** screen_draw - draw the board in the current size of the terminal. */
void screen_draw(struct screen_state *state, const struct telemetry_board *board,
                 const struct telemetry_view *view, const struct telemetry_view *before);

#endif
