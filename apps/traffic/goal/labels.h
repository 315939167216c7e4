/* SPDX-License-Identifier: BSD-3-Clause */
/* labels.h - the labels of the operations of one rank: a hash table with open addressing. */
#ifndef APPS_TRAFFIC_GOAL_LABELS_H
#define APPS_TRAFFIC_GOAL_LABELS_H

#include <stdint.h>

/* A part of the file's text. */
struct goal_word {
    const char *text;
    uint32_t bytes;
};

struct goal_label {
    struct goal_word word;
    uint32_t op;   /* the operation, numbered from the first one of its rank */
    uint32_t rank; /* the slot is used if this is goal_labels.rank */
};

struct goal_labels {
    struct goal_label *slot;
    uint32_t slots; /* a power of two; 0: no memory yet */
    uint32_t used;
    uint32_t rank; /* number of ranks so far, including the present one */
};

/** goal_labels_begin - remove the labels of the previous rank. */
void goal_labels_begin(struct goal_labels *labels);

/**
 * goal_labels_add - add a label. The table refers to the text of @word and does not copy it.
 * Errors: -EEXIST, -ENOMEM.
 */
int goal_labels_add(struct goal_labels *labels, struct goal_word word, uint32_t op);

/** goal_labels_find - return the operation with a label; GOAL_NONE: there is none. */
uint32_t goal_labels_find(const struct goal_labels *labels, struct goal_word word);

void goal_labels_release(struct goal_labels *labels);

#endif
