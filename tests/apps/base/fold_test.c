/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_test.c - lines are broken between words, and only there; messages keep errno. */
#include "apps/base/fold.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/message.h"
#include "tests/test.h"

static char *folded(const char *text, const char *next, int columns, bool command)
{
    char *ret = NULL;
    size_t bytes;
    FILE *out = open_memstream(&ret, &bytes);

    if (command)
        fold_print_command(out, text, next, columns);
    else
        fold_print(out, text, next, columns);
    fclose(out);
    return ret;
}

static void fold__breaks_between_words(void)
{
    static const struct {
        const char *text, *next, *result;
        int columns;
    } rows[] = {
        {"a line\n\nand another", "", "a line\n\nand another\n", 80},
        {"one two three", "", "one two\nthree\n", 7},
        {"one two three", "  ", "one two\n  three\n", 7},
        {"one two three\nfour five", "# ", "one two\n# three\nfour\n# five\n", 8},
        {"title  one two", "       ", "title  one\n       two\n", 10},
        {"a  word-that-is-too-long b", "   ", "a  word-that-is-too-long\n   b\n", 8},
        {"ab   cd", "", "ab\ncd\n", 5},
        {"\xc3\xa4\xc3\xb6\xc3\xbc \xc3\x9f", "", "\xc3\xa4\xc3\xb6\xc3\xbc \xc3\x9f\n", 5},
        {"see the option --here now", "", "see the\noption --here\nnow\n", 14},
        {"one two three", "", "one two three\n", FOLD_NEVER},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *got = folded(rows[i].text, rows[i].next, rows[i].columns, false);

        CU_ASSERT_STRING_EQUAL(got, rows[i].result);
        free(got);
    }
}

static void fold_command__can_be_copied(void)
{
    static const struct {
        const char *text, *result;
    } rows[] = {
        {"  do this -- now", "  do this \\\n  -- now\n"},
        {"  do 'a b c d e f' g", "  do \\\n  'a b c d e f' \\\n  g\n"},
        {"  do 'it'\\''s so' it", "  do \\\n  'it'\\''s so' \\\n  it\n"},
        {"  do this now", "  do this now\n"}, /* as wide as the limit */
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *got = folded(rows[i].text, "  ", 13, true);

        CU_ASSERT_STRING_EQUAL(got, rows[i].result);
        free(got);
    }
}

static void fold_end__prints_what_was_written(void)
{
    char text[64] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    struct fold fold;

    fprintf(fold_begin(&fold, out, "  ", 8), "%s %s\n", "one", "two three");
    fold_end(&fold);
    fclose(out);
    CU_ASSERT_STRING_EQUAL(text, "one two\n  three\n");
}

/* Callers use errno after a message, to choose the exit status. */
static void message__keeps_errno(void)
{
    errno = ENOENT;
    print_message("this line of fold_test is no error");
    CU_ASSERT_EQUAL(errno, ENOENT);
}

int main(void)
{
    const struct test_case cases[] = {
        CASE(fold__breaks_between_words),
        CASE(fold_command__can_be_copied),
        CASE(fold_end__prints_what_was_written),
        CASE(message__keeps_errno),
        {NULL, NULL},
    };

    return test_run("fold", cases);
}
