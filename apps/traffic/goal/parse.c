/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * parse.c - read the text form of GOAL.
 *
 * A file begins with `num_ranks N`. A block `rank K { … }` for each rank follows. Before the
 * blocks, there may be groups, each in a line of its own: `group G [wide] ranks R R-R …`. Each line
 * of a block has one statement, which is an operation or a dependency. An operation is
 * `[LABEL:] send SIZEb to RANK`, `[LABEL:] recv SIZEb from RANK` or `[LABEL:] calc NS`. The options
 * `tag T`, `cpu C` and `nic N` may follow it. A dependency is `LABEL requires LABEL` or
 * `LABEL irequires LABEL`. Comments are as in C++. We also accept options in any order, a label
 * before its operation, and blocks in any order.
 *
 * Groups and the collectives of their ranks are an extension: `coll barrier group G`,
 * `coll broadcast SIZEb root RANK group G`, `coll reduce SIZEb OP TYPE root RANK group G`,
 * `coll allreduce SIZEb OP TYPE group G`, with the options `cpu C` and `nic N`. OP and TYPE are
 * names in emu/util/combine.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/message.h"
#include "apps/traffic/goal/build.h"
#include "emu/packet/seg.h"
#include "emu/util/combine.h"
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

/* Report an error: @wanted should be at the present position, but something else is. */
static int expected(const struct scan *in, const char *wanted)
{
    char text[SHOWN_BYTES + 3];

    return goal_wrong(&in->build, in->line, "found %s, but expected %s", found(in, text), wanted);
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

/* Read @text. @wanted: describes @text in the error. */
static int word_expect(struct scan *in, const char *text, const char *wanted)
{
    int err = skip(in, false);
    const char *begin = in->at;

    if (err || is_word(word_read(in), text))
        return err;
    in->at = begin;
    return expected(in, wanted);
}

/* Read a decimal number from 0 to @most. @what: its name, for errors. */
static int number_read(struct scan *in, uint64_t most, const char *what, uint64_t *ret)
{
    int err = skip(in, false);
    const char *begin = in->at;
    char wanted[96];

    *ret = 0;
    for (; !err && !at_end(in) && is_digit(*in->at); in->at++) {
        uint64_t digit = (uint64_t)(*in->at - '0');

        if (digit > most || *ret > (most - digit) / 10) {
            in->at = begin;
            snprintf(wanted, sizeof wanted, "%s from 0 to %llu", what, (unsigned long long)most);
            return expected(in, wanted);
        }
        *ret = *ret * 10 + digit;
    }
    if (err || in->at > begin)
        return err;
    snprintf(wanted, sizeof wanted, "%s, a decimal number", what);
    return expected(in, wanted);
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
    bool tagged = op->kind == GOAL_SEND || op->kind == GOAL_RECV;

    if (which == 3 || *seen >> which & 1 || (!which && !tagged)) {
        in->at = begin;
        return expected(
            in, !tagged
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

/* --- collectives -------------------------------------------------------------------- */

/* Read one of @count words, which @name returns by index. @what: describes them in the error. */
static int name_read(struct scan *in, const char *(*name)(unsigned index), unsigned count,
                     const char *what, uint8_t *ret)
{
    int err = skip(in, false);
    const char *begin = in->at;
    struct goal_word word = word_read(in);
    unsigned i = 0;

    if (err)
        return err;
    while (i < count && !is_word(word, name(i)))
        i++;
    *ret = (uint8_t)i;
    if (i < count)
        return 0;
    in->at = begin;
    return expected(in, what);
}

static const uint8_t coll_kinds[] = {EMU_BARRIER, EMU_MULTICAST, EMU_REDUCE, EMU_ALLREDUCE};

static const char *coll_name(unsigned i)
{
    static const char *const names[] = {"barrier", "broadcast", "reduce", "allreduce"};

    return names[i];
}

static int bytes_read(struct scan *in, struct goal_op *op)
{
    int err = number_read(in, GOAL_BYTES_MOST, "a size in bytes", &op->amount);

    return err ? err : word_expect(in, "b", "b (for bytes)");
}

/* Read the size of a collective and, for a reduction, the operation and the type. */
static int vector_read(struct scan *in, struct goal_op *op)
{
    bool folds = op->coll_kind == EMU_REDUCE || op->coll_kind == EMU_ALLREDUCE;
    int err = bytes_read(in, op);

    if (!err && folds)
        err = name_read(in, emu_op_name, EMU_OPS, "an operation, such as SUM", &op->fold_op);
    if (!err && folds)
        err = name_read(in, emu_type_name, EMU_TYPES, "a type, such as F64", &op->fold_type);
    if (err)
        return err;
    if (!op->amount || (folds && op->amount % emu_type_bytes(op->fold_type)))
        return goal_wrong(&in->build, op->line, "%llu bytes are not a vector of whole elements",
                          (unsigned long long)op->amount);
    if (folds && !emu_combine_ok(op->fold_op, op->fold_type))
        return goal_wrong(&in->build, op->line, "operation %s does not apply to type %s",
                          emu_op_name(op->fold_op), emu_type_name(op->fold_type));
    return 0;
}

/* Read the rest of a collective after the word coll, except options. */
static int coll_read(struct scan *in, struct goal_op *op)
{
    uint64_t group;
    int err = name_read(in, coll_name, sizeof coll_kinds, "barrier, broadcast, reduce or allreduce",
                        &op->coll_kind);
    bool rooted;

    if (err)
        return err;
    op->coll_kind = coll_kinds[op->coll_kind];
    rooted = op->coll_kind == EMU_MULTICAST || op->coll_kind == EMU_REDUCE;
    if (op->coll_kind != EMU_BARRIER)
        err = vector_read(in, op);
    if (!err && rooted)
        err = word_expect(in, "root", "root RANK");
    if (!err && rooted)
        err = peer_read(in, op);
    if (!err)
        err = word_expect(in, "group", "group G");
    if (!err)
        err = number_read(in, UINT32_MAX, "a group", &group);
    return err ? err : goal_build_member(&in->build, op, (uint32_t)group, rooted);
}

/* Read the rest of an operation after its kind, and add the operation. */
static int op_read(struct scan *in, enum goal_kind kind, struct goal_word label)
{
    struct goal_op op = {.kind = (uint8_t)kind, .line = in->line};
    unsigned seen = 0;
    int err;

    if (kind == GOAL_CALC) {
        err = number_read(in, GOAL_NS_MOST, "a time in ns", &op.amount);
    } else if (kind == GOAL_COLL) {
        err = coll_read(in, &op);
    } else {
        err = bytes_read(in, &op);
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
        [GOAL_CALC] = "calc", [GOAL_SEND] = "send", [GOAL_RECV] = "recv", [GOAL_COLL] = "coll"};

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
    struct goal_label_need need = {.op = label, .line = in->line};
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
            return err ? err : expected(in, "send, recv, calc or coll");
        }
    }
    return op_read(in, kind, label);
}

/* Check that a statement is followed by the end of the line or by the end of the block. */
static int line_end(struct scan *in)
{
    int err = skip(in, false);

    if (err || at_end(in) || *in->at == '\n' || *in->at == '}')
        return err;
    return expected(in, "the end of the line");
}

/* --- groups ------------------------------------------------------------------------- */

/* Read "R" or "R-R", and append the ranks to @ranks, which has room for all ranks. */
static int range_read(struct scan *in, uint32_t *ranks, uint32_t *count)
{
    uint64_t first, last, most = in->build.goal->ranks - 1;
    int err = number_read(in, most, "a rank", &first);

    last = first;
    if (!err && !at_end(in) && *in->at == '-') {
        in->at++;
        err = number_read(in, most, "a rank", &last);
    }
    if (err)
        return err;
    if (last < first || last - first >= in->build.goal->ranks - *count)
        return goal_wrong(&in->build, in->line,
                          "ranks %llu-%llu are not in order, or are in the group twice",
                          (unsigned long long)first, (unsigned long long)last);
    while (first <= last)
        ranks[(*count)++] = (uint32_t)first++;
    return 0;
}

/* Read the rest of `group G [wide] ranks R R-R …` after the word group. */
static int group_read(struct scan *in)
{
    uint32_t *ranks = malloc(in->build.goal->ranks * sizeof ranks[0]), count = 0, line = in->line;
    uint64_t number;
    bool wide = false;
    int err = number_read(in, UINT32_MAX, "a group", &number);
    const char *begin = in->at;

    if (!err)
        err = skip(in, false);
    if (!err)
        begin = in->at;
    if (!err && !(wide = is_word(word_read(in), "wide")))
        in->at = begin;
    if (!err)
        err = word_expect(in, "ranks", "ranks R R-R …");
    if (!err && !ranks)
        err = goal_no_memory(&in->build);
    while (!err && !(err = skip(in, false)) && !at_end(in) && *in->at != '\n')
        err = range_read(in, ranks, &count);
    if (!err)
        err = goal_build_group(&in->build, (uint32_t)number, wide, line, ranks, count);
    free(ranks);
    return err;
}

/* --- blocks ------------------------------------------------------------------------- */

static int block_read(struct scan *in)
{
    uint32_t line = in->build.rank->line;
    int err;

    while (!(err = skip(in, true))) {
        if (at_end(in))
            return goal_wrong(&in->build, line,
                              "the block that begins here has no end: } is missing, as in a "
                              "recording that is not complete");
        if (*in->at == '}') {
            in->at++;
            return goal_build_end(&in->build);
        }
        struct goal_word word = word_read(in);

        if (!word.bytes)
            return expected(in, "send, recv, calc, coll, a label, or }");
        if (is_word(word, "rank"))
            return goal_wrong(&in->build, in->line,
                              "a block begins inside the block of line %u: } is missing, as in a "
                              "recording that is not complete",
                              line);
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

/* Read a group or a block. *@blocks: whether a block was read; then no group may follow. */
static int item_read(struct scan *in, bool *blocks)
{
    const char *begin = in->at;
    struct goal_word word = word_read(in);

    if (!*blocks && is_word(word, "group"))
        return group_read(in);
    *blocks = true;
    if (is_word(word, "rank"))
        return rank_read(in);
    in->at = begin;
    return expected(in, "rank K {");
}

static int file_read(struct scan *in)
{
    const struct goal *goal = in->build.goal;
    bool blocks = false;
    int err = skip(in, true);

    if (!err)
        err = ranks_read(in);
    while (!err && !(err = skip(in, true)) && !at_end(in))
        err = item_read(in, &blocks);
    for (uint32_t r = 0; !err && r < goal->ranks; r++)
        if (!goal->rank[r].line)
            err = goal_wrong(&in->build, in->line,
                             "the file ends without a block of rank %u; a rank without operations "
                             "needs an empty one: rank %u { }",
                             r, r);
    if (!err && !goal->ops)
        err = goal_wrong(&in->build, in->line, "the file ends, and no rank has an operation");
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
    for (uint32_t g = 0; g < goal->groups; g++)
        free(goal->group[g].rank);
    free(goal->group);
    free(goal->member);
    free(goal->rank);
    free(goal->op);
    free(goal->waits);
    free(goal->edge_first);
    free(goal->edge);
    free(goal->message);
    free(goal);
}
