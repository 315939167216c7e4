/* SPDX-License-Identifier: BSD-3-Clause */
/* nearest.c - find the known name that is most similar to a misspelt word. */
#include "emu/util/nearest.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_MAX 32 /* longer words are not compared */

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Return the optimal string alignment distance: how many letters to change, add, drop or swap. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    /* [i % 3][j]: the distance between the first i letters of @a and the first j letters of @b */
    unsigned row[3][LETTERS_MAX + 1];

    for (unsigned j = 0; j <= b_length; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        const unsigned *above = row[(i - 1) % 3], *two_above = row[(i + 1) % 3];
        unsigned *here = row[i % 3];

        here[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            here[j] =
                least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], here[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                here[j] = least(here[j], two_above[j - 2] + 1);
        }
    }
    return row[a_length % 3][b_length];
}

struct nearest nearest_to(const char *word)
{
    return (struct nearest){.word = word, .distance = LETTERS_MAX};
}

void nearest_try(struct nearest *nearest, const char *name)
{
    size_t word_length = strlen(nearest->word), name_length = strlen(name);

    if (word_length < 2 || word_length > LETTERS_MAX || name_length > LETTERS_MAX)
        return;
    unsigned letters = distance(nearest->word, word_length, name, name_length);
    size_t longer = word_length > name_length ? word_length : name_length;
    if (letters <= longer / 3 && letters < nearest->distance) {
        nearest->distance = letters;
        nearest->name = name;
    }
}

static struct nearest_text ask_for(const char *word, size_t length, const char *names)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    /* @name: the most similar name so far and the next candidate, in either order */
    char wanted[LETTERS_MAX + 2], name[2][LETTERS_MAX + 1];

    snprintf(wanted, sizeof wanted, "%.*s", (int)length, word);
    struct nearest nearest = nearest_to(wanted);
    for (size_t bytes; *names; names += bytes ? bytes : 1) {
        char *next = name[nearest.name == name[0]];

        bytes = strspn(names, letters);
        if (bytes < 2 || bytes > LETTERS_MAX || *names < 'a')
            continue;
        memcpy(next, names, bytes);
        next[bytes] = '\0';
        if (strcmp(next, wanted) == 0)
            return (struct nearest_text){""};
        nearest_try(&nearest, next);
    }
    return nearest_question(&nearest, "");
}

struct nearest_text nearest_in(const char *words, const char *names)
{
    struct nearest_text ret = {""};

    for (size_t length; *words && !*ret.text; words += length + (words[length] == ',')) {
        length = strcspn(words, ",");
        size_t letters = strcspn(words, "=:,");
        ret = ask_for(words, letters, names);
    }
    return ret;
}

struct nearest_text nearest_question(const struct nearest *nearest, const char *before)
{
    struct nearest_text ret = {""};

    if (nearest->name)
        snprintf(ret.text, sizeof ret.text, "; did you mean '%s%s'?", before, nearest->name);
    return ret;
}
