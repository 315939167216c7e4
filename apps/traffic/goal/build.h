/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build.h - a struct goal that is being built while its file is read. Only parse.c, build.c and
 * groups.c include this header.
 */
#ifndef APPS_TRAFFIC_GOAL_BUILD_H
#define APPS_TRAFFIC_GOAL_BUILD_H

#include <stdbool.h>

#include "apps/traffic/goal/goal.h"
#include "apps/traffic/goal/labels.h"

/*
 * A dependency between two operations of the present rank, which are numbered from the first one of
 * the rank.
 */
struct goal_need {
    uint32_t op; /* the operation that waits */
    uint32_t on; /* the operation for which `op` waits, times 2, plus GOAL_EDGE_START or 0 */
};

/* A dependency as the file states it: `op` and `on` are labels. */
struct goal_label_need {
    struct goal_word op, on;
    uint32_t line;
    uint32_t start; /* GOAL_EDGE_START or 0 */
};

/* An array that grows. */
struct goal_array {
    void *at;
    size_t room; /* elements that fit */
};

struct goal_build {
    struct goal *goal;
    struct goal_array op, waits, edge_first, edge, group, member;
    struct goal_rank *rank; /* the present rank */

    /* The next fields belong to the present rank. */
    struct goal_labels labels;
    struct goal_array need;
    struct goal_array unresolved; /* dependencies on labels that were not read yet */
    uint32_t needs, unresolved_count;

    const char *path;
    char *error;
    size_t error_bytes;
};

/**
 * goal_wrong - write an error to the error text: the names of the file and the line, then the text
 * by @format. Returns -EINVAL.
 */
int goal_wrong(const struct goal_build *build, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** goal_no_memory - write an error about missing memory to the error text. Returns -ENOMEM. */
int goal_no_memory(const struct goal_build *build);

/** goal_build_begin - begin the block of a rank. */
void goal_build_begin(struct goal_build *build, uint32_t rank, uint32_t line);

/** goal_build_op - add an operation. @label: its label; label.bytes is 0 if it has none. */
int goal_build_op(struct goal_build *build, const struct goal_op *op, struct goal_word label);

/** goal_build_reserve - make room for @count elements of @bytes each. Returns false: no memory. */
bool goal_build_reserve(struct goal_array *array, size_t count, size_t bytes);

/**
 * goal_build_group - add a group of @count @ranks, which are copied. Errors: -EINVAL, it has fewer
 * than 2 ranks or one rank twice, or its number is not above that of the previous group; -ENOMEM.
 */
int goal_build_group(struct goal_build *build, uint32_t number, bool wide, uint32_t line,
                     const uint32_t *ranks, uint32_t count);

/**
 * goal_build_member - set @op->member to the present rank's membership in group @number. @rooted:
 * @op->peer is the root. Errors: -EINVAL, there is no such group, or the rank or the root is not in
 * it; -ENOMEM.
 */
int goal_build_member(struct goal_build *build, struct goal_op *op, uint32_t number, bool rooted);

/** goal_build_need - add the dependency @need. Its labels may belong to operations that follow. */
int goal_build_need(struct goal_build *build, const struct goal_label_need *need);

/** goal_build_end - end the block of a rank: resolve its labels, and check its dependencies. */
int goal_build_end(struct goal_build *build);

/** goal_build_done - give each message its number, after all ranks were read. */
int goal_build_done(struct goal_build *build);

/** goal_build_release - free all memory except the goal, which goal_free() frees. */
void goal_build_release(struct goal_build *build);

#endif
