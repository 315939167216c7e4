/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * screen.h - the terminal of `fabemu top`: the only place that knows of ncurses. A build without it
 * has a screen that is not there.
 */
#ifndef APPS_CMD_SCREEN_H
#define APPS_CMD_SCREEN_H

#include "apps/cmd/board.h"

struct screen_state {
    uint32_t first; /* row at the top */
    bool paused;
    bool helps;   /* the keys are listed */
    bool filters; /* what is typed is the filter */
    bool quits;
};

/** screen_there - has this build ncurses? */
bool screen_there(void);

/**
 * screen_open - take the terminal. False: it is none that is known. screen_close() - give it back.
 */
bool screen_open(void);
void screen_close(void);

/** screen_keys - what has been typed. Never waits. */
void screen_keys(struct screen_state *state, struct telemetry_board *board);

/** screen_draw - as large as the terminal is now. */
void screen_draw(struct screen_state *state, const struct telemetry_board *board,
                 const struct telemetry_view *view, const struct telemetry_view *before);

#endif
