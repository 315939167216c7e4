/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nearest.h - the known name that a misspelt word resembles most.
 */
#ifndef APPS_BASE_NEAREST_H
#define APPS_BASE_NEAREST_H

/* A search over the names that are passed to nearest_try(). */
struct nearest {
    const char *word;
    const char *name;  /* the most similar so far; NULL: none is similar */
    unsigned distance; /* letters to change, add, drop or swap */
};

/** nearest_to - begin a search for @word, which must stay valid. */
struct nearest nearest_to(const char *word);

/** nearest_try - consider @name, which must stay valid. */
void nearest_try(struct nearest *nearest, const char *name);

struct nearest_text {
    char text[96];
};

/**
 * nearest_question - "; did you mean '--name'?", or "" if no name is similar to the word.
 * @before: the text before the name, such as "--".
 */
struct nearest_text nearest_question(const struct nearest *nearest, const char *before);

#endif
