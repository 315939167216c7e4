/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parse.c - read the text form of GOAL.
 *
 * A file begins with `num_ranks N`; a block `rank K { … }` for each rank follows. Each line of a
 * block has one statement: `[LABEL:] send SIZEb to RANK`, `[LABEL:] recv SIZEb from RANK` or
 * `[LABEL:] calc NS`, with the options `tag T`, `cpu C`, `nic N` behind it; or `LABEL requires
 * LABEL`, or `LABEL irequires LABEL`. Comments are as in C++. We also accept options in any order,
 * a label before its operation, and blocks in any order.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/message.h"
#include "apps/traffic/goal/build.h"
#include "emu/util/printable.h"
#include "emu/util/slurp.h"

#define SHOWN_BYTES 24u

/*
 * The binary form begins with this number of 8 bytes. A text cannot begin with it, because most of
 * its bytes are 0.
 */
#define BINARY_MAGIC UINT64_C(4223)

struct scan {
    struct goal_build build;
    const char *at, *end;
    uint32_t line;
};

/* --- words -------------------------------------------------------------------------- */

static bool at_end(const struct scan *in)
{
    return in->at == in->end;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Describe the text at the present position, for an error. @text: a buffer for it. */
static const char *found(const struct scan *in, char text[static SHOWN_BYTES + 3])
{
    size_t bytes = 0;

    if (at_end(in))
        return "the end of the file";
    if (*in->at == '\n')
        return "the end of the line";
    while (bytes < SHOWN_BYTES && in->at + bytes < in->end && in->at[bytes] != '\n' &&
           (!bytes || in->at[bytes] != ' '))
        bytes++;
    snprintf(text, SHOWN_BYTES + 3, "'%.*s", (int)bytes, in->at);
    emu_printable(text);
    return strcat(text, "'");
}

/* Report an error: @right should be at the present position, but something else is. */
static int expected(const struct scan *in, const char *right)
{
    char text[SHOWN_BYTES + 3];

    return goal_wrong(&in->build, in->line, "%s, where there should be %s", found(in, text), right);
}

/* Skip a comment of the form of C, which may have several lines. */
static int skip_comment(struct scan *in)
{
    uint32_t line = in->line;

    for (in->at += 2; in->end - in->at >= 2; in->at++) {
        if (in->at[0] == '*' && in->at[1] == '/') {
            in->at += 2;
            return 0;
        }
        in->line += *in->at == '\n';
    }
    return goal_wrong(&in->build, line, "the comment that begins here has no end: */ is missing");
}

/* Skip spaces and comments. @lines: also skip ends of lines. */
static int skip(struct scan *in, bool lines)
{
    while (!at_end(in)) {
        bool two = in->end - in->at >= 2;

        if (*in->at == '\n') {
            if (!lines)
                return 0;
            in->line++;
            in->at++;
        } else if (*in->at == ' ' || *in->at == '\t' || *in->at == '\r') {
            in->at++;
        } else if (two && in->at[0] == '/' && in->at[1] == '/') {
            const char *newline = memchr(in->at, '\n', (size_t)(in->end - in->at));

            in->at = newline ? newline : in->end;
        } else if (two && in->at[0] == '/' && in->at[1] == '*') {
            int err = skip_comment(in);

            if (err)
                return err;
        } else {
            return 0;
        }
    }
    return 0;
}

/* Read a word: letters, digits and '_', beginning with a letter. Its length may be 0. */
static struct goal_word word_read(struct scan *in)
{
    struct goal_word word = {.text = in->at};

    while (!at_end(in) &&
           (is_letter(*in->at) || (in->at > word.text && (is_digit(*in->at) || *in->at == '_'))))
        in->at++;
    word.bytes = (uint32_t)(in->at - word.text);
    return word;
}

static bool is_word(struct goal_word word, const char *text)
{
    return word.bytes == strlen(text) && memcmp(word.text, text, word.bytes) == 0;
}

/* Read @text. @right: what should be here, for the error. */
static int word_expect(struct scan *in, const char *text, const char *right)
{
    int err = skip(in, false);
    const char *begin = in->at;

    if (err || is_word(word_read(in), text))
        return err;
    in->at = begin;
    return expected(in, right);
}

/* Read a decimal number from 0 to @most. @what: its name, for errors. */
static int number_read(struct scan *in, uint64_t most, const char *what, uint64_t *ret)
{
    int err = skip(in, false);
    const char *begin = in->at;
    char right[96];

    *ret = 0;
    for (; !err && !at_end(in) && is_digit(*in->at); in->at++) {
        uint64_t digit = (uint64_t)(*in->at - '0');

        if (digit > most || *ret > (most - digit) / 10) {
            in->at = begin;
            snprintf(right, sizeof right, "%s from 0 to %llu", what, (unsigned long long)most);
            return expected(in, right);
        }
        *ret = *ret * 10 + digit;
    }
    if (err || in->at > begin)
        return err;
    snprintf(right, sizeof right, "%s, a decimal number", what);
    return expected(in, right);
}

/* Read "-1", which stands for any source or tag. Returns false if something else follows. */
static bool any_read(struct scan *in)
{
    if (in->end - in->at < 2 || in->at[0] != '-' || in->at[1] != '1' ||
        (in->end - in->at > 2 && is_digit(in->at[2])))
        return false;
    in->at += 2;
    return true;
}

/* --- operations --------------------------------------------------------------------- */

/*
 * Read a number from 0 to @most. A receive may have "-1" instead, which stands for any number.
 * @what: name of the number, for errors.
 */
static int number_or_any_read(struct scan *in, const struct goal_op *op, uint64_t most,
                              const char *what, uint32_t *ret)
{
    uint64_t number = GOAL_ANY;
    int err = skip(in, false);

    if (!err && !(op->kind == GOAL_RECV && any_read(in)))
        err = number_read(in, most, what, &number);
    *ret = (uint32_t)number;
    return err;
}

static int peer_read(struct scan *in, struct goal_op *op)
{
    return number_or_any_read(in, op, in->build.goal->ranks - 1, "a rank", &op->peer);
}

static int tag_read(struct scan *in, struct goal_op *op)
{
    return number_or_any_read(in, op, GOAL_ANY - 1, "a tag", &op->tag);
}

/*
 * Read an option of an operation. @seen: the options that were read so far. Returns 1 if no option
 * follows.
 */
static int option_read(struct scan *in, struct goal_op *op, unsigned *seen)
{
    static const char *const names[] = {"tag", "cpu", "nic"};
    int err = skip(in, false);
    const char *begin = in->at;
    uint64_t number;
    unsigned which = 0;

    if (err)
        return err;
    if (at_end(in) || *in->at == '\n' || *in->at == '}')
        return 1;
    struct goal_word word = word_read(in);

    while (which < 3 && !is_word(word, names[which]))
        which++;
    if (which == 3 || *seen >> which & 1 || (!which && op->kind == GOAL_CALC)) {
        in->at = begin;
        return expected(
            in, op->kind == GOAL_CALC
                    ? "the end of the line, or an option (each at most once): cpu C, nic N"
                    : "the end of the line, or an option (each at most once): tag T, cpu C, nic N");
    }
    *seen |= 1u << which;
    if (!which)
        return tag_read(in, op);
    err = number_read(in, GOAL_CPUS_MOST - 1, which == 1 ? "a cpu" : "a nic", &number);
    if (which == 1)
        op->cpu = (uint8_t)number;
    return err;
}

/* Read the rest of an operation after its kind, and add the operation. */
static int op_read(struct scan *in, enum goal_kind kind, struct goal_word label)
{
    struct goal_op op = {.kind = (uint8_t)kind, .line = in->line};
    unsigned seen = 0;
    int err;

    if (kind == GOAL_CALC) {
        err = number_read(in, GOAL_NS_MOST, "a time in ns", &op.amount);
    } else {
        err = number_read(in, GOAL_BYTES_MOST, "a size in bytes", &op.amount);
        if (!err)
            err = word_expect(in, "b", "b (for bytes)");
        if (!err && kind == GOAL_SEND)
            err = word_expect(in, "to", "to RANK");
        else if (!err)
            err = word_expect(in, "from", "from RANK");
        if (!err)
            err = peer_read(in, &op);
    }
    while (!err)
        err = option_read(in, &op, &seen);
    return err < 0 ? err : goal_build_op(&in->build, &op, label);
}

/* Set *@ret to the kind that @word names. Returns false if it names none. */
static bool kind_of(struct goal_word word, enum goal_kind *ret)
{
    static const char *const names[] = {
        [GOAL_CALC] = "calc", [GOAL_SEND] = "send", [GOAL_RECV] = "recv"};

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_word(word, names[i])) {
            *ret = (enum goal_kind)i;
            return true;
        }
    return false;
}

/* Read the rest of a dependency after its first label. */
static int need_read(struct scan *in, struct goal_word label)
{
    struct goal_later need = {.op = label, .line = in->line};
    const char *begin = in->at;
    struct goal_word word = word_read(in);

    need.start = is_word(word, "irequires") ? GOAL_EDGE_START : 0;
    if (!need.start && !is_word(word, "requires")) {
        in->at = begin;
        return expected(in, "a colon, requires or irequires behind the label");
    }
    int err = skip(in, false);

    need.on = word_read(in);
    if (!err && !need.on.bytes)
        err = expected(in, "a label");
    return err ? err : goal_build_need(&in->build, &need);
}

/* Read a statement in a block. @word: its first word. */
static int statement_read(struct scan *in, struct goal_word word)
{
    struct goal_word label = {.bytes = 0};
    enum goal_kind kind;
    int err;

    if (!kind_of(word, &kind)) {
        label = word;
        err = skip(in, false);
        if (err || at_end(in) || *in->at != ':')
            return err ? err : need_read(in, label);
        in->at++;
        err = skip(in, false);
        const char *begin = in->at;

        if (err || !kind_of(word_read(in), &kind)) {
            in->at = begin;
            return err ? err : expected(in, "send, recv or calc");
        }
    }
    return op_read(in, kind, label);
}

/* Check that only the end of the block follows a statement in the same line. */
static int line_end(struct scan *in)
{
    int err = skip(in, false);

    if (err || at_end(in) || *in->at == '\n' || *in->at == '}')
        return err;
    return expected(in, "the end of the line");
}

/* --- blocks ------------------------------------------------------------------------- */

static int block_read(struct scan *in)
{
    uint32_t line = in->build.rank->line;
    int err;

    while (!(err = skip(in, true))) {
        if (at_end(in))
            return goal_wrong(&in->build, line,
                              "the block that begins here has no end: } is "
                              "missing");
        if (*in->at == '}') {
            in->at++;
            return goal_build_end(&in->build);
        }
        struct goal_word word = word_read(in);

        if (!word.bytes)
            return expected(in, "send, recv, calc, a label, or }");
        if (is_word(word, "rank"))
            return goal_wrong(&in->build, in->line,
                              "a block begins inside the block of line %u: } is missing", line);
        err = statement_read(in, word);
        if (!err)
            err = line_end(in);
        if (err)
            return err;
    }
    return err;
}

/* Read the rest of `rank K {` after the word rank. */
static int rank_read(struct scan *in)
{
    uint64_t rank;
    int err = number_read(in, in->build.goal->ranks - 1, "a rank", &rank);
    uint32_t line = in->line;

    if (err)
        return err;
    if (in->build.goal->rank[rank].line)
        return goal_wrong(&in->build, line, "rank %u has a block already, in line %u",
                          (unsigned)rank, in->build.goal->rank[rank].line);
    err = skip(in, true);
    if (!err && (at_end(in) || *in->at != '{'))
        err = expected(in, "{");
    if (err)
        return err;
    in->at++;
    goal_build_begin(&in->build, (uint32_t)rank, line);
    return block_read(in);
}

static int ranks_read(struct scan *in)
{
    struct goal *goal = in->build.goal;
    uint64_t ranks;
    int err = word_expect(in, "num_ranks", "num_ranks N");
    const char *begin;

    if (!err)
        err = skip(in, false);
    begin = in->at;
    if (!err)
        err = number_read(in, GOAL_RANKS_MOST, "a number of ranks", &ranks);
    if (!err && !ranks) {
        in->at = begin;
        err = expected(in, "a number of ranks from 1 on");
    }
    if (err)
        return err;
    goal->ranks = (uint32_t)ranks;
    goal->rank = calloc(goal->ranks, sizeof goal->rank[0]);
    return goal->rank ? 0 : goal_no_memory(&in->build);
}

static int file_read(struct scan *in)
{
    const struct goal *goal = in->build.goal;
    int err = skip(in, true);

    if (!err)
        err = ranks_read(in);
    while (!err && !(err = skip(in, true)) && !at_end(in)) {
        err = word_expect(in, "rank", "rank K {");
        if (!err)
            err = rank_read(in);
    }
    for (uint32_t r = 0; !err && r < goal->ranks; r++)
        if (!goal->rank[r].line)
            err = goal_wrong(&in->build, in->line,
                             "the file ends without a block of rank %u; a rank without operations "
                             "needs an empty one: rank %u { }",
                             r, r);
    return err ? err : goal_build_done(&in->build);
}

static bool is_binary(const char *text, size_t bytes)
{
    uint64_t magic = 0;

    if (bytes >= sizeof magic)
        memcpy(&magic, text, sizeof magic);
    return magic == BINARY_MAGIC;
}

int goal_parse(struct goal **ret, const char *path, const char *text, size_t bytes, char *error,
               size_t error_bytes)
{
    struct scan in = {.build = {.goal = calloc(1, sizeof(struct goal)),
                                .path = path,
                                .error = error,
                                .error_bytes = error_bytes},
                      .at = text,
                      .end = text + bytes,
                      .line = 1};

    if (!in.build.goal)
        return goal_no_memory(&in.build);
    int err = is_binary(text, bytes) ? fail(-EINVAL, error, error_bytes,
                                            "%s has the binary form of GOAL; give the text form "
                                            "from which txt2bin made this file",
                                            path)
                                     : file_read(&in);

    goal_build_release(&in.build);
    if (err)
        goal_free(in.build.goal);
    else
        *ret = in.build.goal;
    return err;
}

/* --- the file ----------------------------------------------------------------------- */

int goal_read(struct goal **ret, const char *path, char *error, size_t error_bytes)
{
    char *text;
    size_t bytes;
    int err = emu_slurp(path, SIZE_MAX, &text, &bytes);

    if (err)
        fail(err, error, error_bytes, "cannot read %s: %s", path, emu_slurp_why(err));
    else
        err = goal_parse(ret, path, text, bytes, error, error_bytes);
    free(text);
    return err;
}

void goal_free(struct goal *goal)
{
    if (!goal)
        return;
    free(goal->rank);
    free(goal->op);
    free(goal->waits);
    free(goal->edge_first);
    free(goal->edge);
    free(goal->message);
    free(goal);
}
