/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * board.h - what `fabemu top` shows: a view as rows of text, sorted and filtered. top.c puts it on
 * a terminal, or prints it once.
 */
#ifndef APPS_CMD_BOARD_H
#define APPS_CMD_BOARD_H

#include "apps/telemetry/view.h"

#define TELEMETRY_ROW_BYTES 256u /* of a row; all that matters is in the first 80 */

enum telemetry_page {
    TELEMETRY_PAGE_NODES,
    TELEMETRY_PAGE_LINKS,
    TELEMETRY_PAGE_SWITCHES,
    TELEMETRY_PAGE_COLLECTIVES,
    TELEMETRY_PAGES
};

/* What a row shows, for its colour. */
enum telemetry_tone {
    TELEMETRY_TONE_IDLE,
    TELEMETRY_TONE_BUSY,
    TELEMETRY_TONE_WAITING, /* something waits: for a credit, for a peer, or in a queue */
    TELEMETRY_TONE_WRONG    /* errors, or a link that is not up */
};

struct telemetry_board_row {
    uint64_t key;    /* the greatest first */
    uint32_t number; /* then the least */
    double size;     /* length of its bar, relative to other rows; 0: no bar */
    enum telemetry_tone tone;
    char text[TELEMETRY_ROW_BYTES];
};

/* What is to be shown, and the rows. Owned by one thread. */
struct telemetry_board {
    enum telemetry_page page;
    uint32_t sort;   /* which of the page's orders; from 0 */
    bool busy;       /* only rows of which something moves, waits or is wrong */
    char filter[32]; /* only rows with this in them; "": all */
    uint32_t rows;
    struct telemetry_board_row *row; /* the board's to free */
    double size_most;                /* the largest size of all rows */
};

void telemetry_board_release(struct telemetry_board *board);

/** telemetry_board_order - the name of the order, for people. telemetry_board_next() - the next. */
const char *telemetry_board_order(const struct telemetry_board *board);
void telemetry_board_next(struct telemetry_board *board);

/** telemetry_page_bar - the unit of the rows' sizes: "segments/s". Pure. */
const char *telemetry_page_bar(enum telemetry_page page);

/** telemetry_page_name - "nodes", …. telemetry_page_columns() - names of the columns. Pure. */
const char *telemetry_page_name(enum telemetry_page page);
const char *telemetry_page_columns(enum telemetry_page page);

/**
 * telemetry_board_fill - the rows of @now, sorted and filtered. @before: an earlier view of the
 * same fabric, which rates are since; without a shape: since the start. Errors: -ENOMEM.
 */
int telemetry_board_fill(struct telemetry_board *board, const struct telemetry_view *now,
                         const struct telemetry_view *before);

/** telemetry_board_sums - a line about the whole fabric. */
void telemetry_board_sums(const struct telemetry_view *now, const struct telemetry_view *before,
                          char *ret, size_t ret_bytes);

#endif
