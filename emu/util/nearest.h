/* SPDX-License-Identifier: BSD-3-Clause */
/* nearest.h - the known name that is most similar to a misspelt word. */
#ifndef EMU_NEAREST_H
#define EMU_NEAREST_H

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

/**
 * nearest_in - the whole search, in a list for people: "raw, real or virtual".
 * @words: one or more, separated by commas. The first that is not in the list but resembles a name
 * is used. What follows '=' or ':' in a word is ignored.
 * @names: every word in it that begins with a small letter is a name.
 * Returns as nearest_question(). Pure.
 */
struct nearest_text nearest_in(const char *words, const char *names);

#endif
