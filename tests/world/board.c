/* SPDX-License-Identifier: BSD-3-Clause */
/* board.c - see board.h. */
#include "board.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define STEPS_AHEAD (4u * BOARD_ROWS) /* more than any row is ahead of row 0 */

struct board *board_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *map = MAP_FAILED;

    if (fd >= 0 && lseek(fd, 0, SEEK_END) == sizeof(struct board))
        map = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return map == MAP_FAILED ? NULL : map;
}

uint64_t board_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void board_run(struct board_row *row)
{
    row->pid = getpid();
    row->state = BOARD_RUNS;
}

void board_begin(struct board_row *row, const char *op)
{
    snprintf(row->op, sizeof row->op, "%s", op);
    row->began_ns = board_now_ns();
}

void board_done(struct board *board, struct board_row *row, bool right)
{
    uint64_t now = board_now_ns(), took = now - row->began_ns;

    if (!right && !row->wrong++) /* the first one; an error that comes later has its place */
        snprintf(row->text, sizeof row->text, "%s in round %" PRIu64, row->op, row->rounds);
    if (!board->fault_ns || took <= row->longest_ns)
        return;
    row->longest_ns = took;
    row->longest_at_ns = now;
}

void board_fail(struct board_row *row, int64_t code, const char *text)
{
    snprintf(row->text, sizeof row->text, "%s", text);
    row->code = code;
    row->failed_ns = board_now_ns();
    row->state = BOARD_FAILED;
}

bool board_goes_on(struct board *board, struct board_row *row)
{
    uint64_t round = ++row->rounds;

    if (row == board->row && board->stop && !board->last)
        board->last = round + STEPS_AHEAD;
    if (!board->last || round < board->last)
        return true;
    row->state = BOARD_ENDED;
    return false;
}

bool board_any_failed(const struct board *board, uint32_t rows, uint64_t patience_ns)
{
    uint64_t now = board_now_ns();

    for (uint32_t i = 0; i < rows; i++)
        if (board->row[i].state >= BOARD_FAILED && board->row[i].failed_ns + patience_ns < now)
            return true;
    return false;
}

bool board_all_over(const struct board *board, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        if (board->row[i].state < BOARD_ENDED && !board->quit)
            return false;
    return true;
}

bool board_all_well(const struct board *board, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        if (board->row[i].state != BOARD_ENDED)
            return false;
    return true;
}
