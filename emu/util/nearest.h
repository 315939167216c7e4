/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nearest.h - find the known name that is most similar to a misspelt word. A name is similar if few
 * edits make one from the other: at most one edit for each three letters of the longer of the two.
 * An edit changes, adds or drops a letter, or swaps two neighbouring letters. Scripts follow the
 * same rule (scripts/figures/nearest.py).
 */
#ifndef EMU_NEAREST_H
#define EMU_NEAREST_H

/* A search for the name most similar to a word, among those passed to nearest_try(). */
struct nearest {
    const char *word;
    const char *name;  /* the most similar so far; NULL: none is similar */
    unsigned distance; /* number of letters to change, add, drop or swap */
};

/** nearest_to - begin a search for @word, which must stay valid. */
struct nearest nearest_to(const char *word);

/** nearest_try - consider @name, which must stay valid. */
void nearest_try(struct nearest *nearest, const char *name);

struct nearest_text {
    char text[96];
};

/**
 * nearest_question - return "; did you mean '--name'?", or "" if no name is similar to the word.
 * @before: the text before the name, such as "--".
 */
struct nearest_text nearest_question(const struct nearest *nearest, const char *before);

/**
 * nearest_in - find a misspelt word and ask whether a similar name was meant. Returns the same text
 * as nearest_question(). Pure.
 * @words: one or more words, separated by commas. The question is about the first word that is not
 * in @names but resembles a name. In each word, everything from '=' or ':' on is ignored.
 * @names: a text for people, such as "raw, real or virtual". Each word in it that begins with a
 * lower-case letter counts as a name.
 */
struct nearest_text nearest_in(const char *words, const char *names);

#endif
