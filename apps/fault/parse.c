/* SPDX-License-Identifier: BSD-3-Clause */
/* parse.c - read a fault from its text word by word, then check that the words fit together. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "apps/fault/internal.h"
#include "emu/util/nearest.h"

struct parse {
    struct fault fault;
    const struct fault_kind_row *kind; /* NULL until its name has been read */
    uint64_t seen;                     /* keys read so far: bits 1 << enum fault_key */
    const struct topo_graph *graph;    /* for the names of nodes; NULL: none */
    char *error;
    size_t error_bytes;
};

#define EXAMPLE "for example: at=1s for=100ms link-down link=0:3"

static bool has(const struct parse *p, enum fault_key key)
{
    return p->seen & emu_bit(key);
}

/* --- values ----------------------------------------------------------------------- */

static const char *const reasons[] = {[QUANTITY_OK] = "",
                                      [QUANTITY_WRONG] = "",
                                      [QUANTITY_LARGE] = " is too large",
                                      [QUANTITY_SMALL] = " is too small",
                                      [QUANTITY_FINE] = " is too fine"};

static int find_name(const char *const *names, const char *text, size_t length)
{
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0)
            return i;
    return -1;
}

static bool read_bits(const char *const *names, const char *value, uint32_t *ret)
{
    uint32_t bits = 0;

    for (;; value++) {
        size_t length = strcspn(value, ",");
        int i = find_name(names, value, length);

        if (i < 0)
            return false;
        bits |= 1u << i;
        value += length;
        if (!*value)
            break;
    }
    *ret = bits;
    return true;
}

/* Read an event, such as "allreduce:3" or, with a group, "allreduce:3:0". */
static bool read_event(const char *const *names, const char *value, struct fault_event *ret)
{
    struct fault_event event = {.group = EMU_FAULT_ANY};
    size_t length = strcspn(value, ":");
    int kind = find_name(names, value, length);
    uint64_t group;

    if (kind < 0 || kind == EMU_UNICAST || kind == EMU_SET || !value[length])
        return false;
    value += length + 1;
    if (!quantity_digits(&value, INT64_MAX, &event.nth) || !event.nth)
        return false;
    if (*value == ':') {
        value++;
        if (!quantity_digits(&value, EMU_GROUP_WIDE - 1, &group))
            return false;
        event.group = (uint32_t)group;
    }
    event.kind = (uint32_t)kind;
    *ret = event;
    return !*value;
}

enum quantity_verdict fault_scan(const struct fault_key_row *row, const char *text, uint64_t *ret)
{
    struct quantity_form form = {.bare = 1, .least = row->least, .most = row->most};

    if (row->type == FAULT_TYPE_TIME) {
        form.units = quantity_times;
        form.bare = 0;
    } else if (row->type == FAULT_TYPE_SHARE) {
        form.units = quantity_shares;
        form.bare = QUANTITY_SHARE_ONE;
    } else if (row->type == FAULT_TYPE_FACTOR) {
        form.bare = FAULT_FACTOR_ONE;
    }
    enum quantity_verdict verdict = quantity_scan(&text, &form, ret);
    return verdict == QUANTITY_OK && *text ? QUANTITY_WRONG : verdict;
}

static enum quantity_verdict read_value(struct fault *fault, const struct fault_key_row *row,
                                        const char *value, struct fault_names *names)
{
    void *at = (char *)fault + row->offset;
    uint64_t number = 0;
    enum quantity_verdict verdict;
    int i;

    switch (row->type) {
    case FAULT_TYPE_BITS:
        return read_bits(row->names, value, at) ? QUANTITY_OK : QUANTITY_WRONG;
    case FAULT_TYPE_NODE:
        return fault_node_read(names, value, at) ? QUANTITY_OK : QUANTITY_WRONG;
    case FAULT_TYPE_EVENT:
        return read_event(row->names, value, at) ? QUANTITY_OK : QUANTITY_WRONG;
    case FAULT_TYPE_NAME:
        i = find_name(row->names, value, strlen(value));
        *(uint32_t *)at = (uint32_t)(row->least + (uint64_t)(i < 0 ? 0 : i));
        return i < 0 ? QUANTITY_WRONG : QUANTITY_OK;
    default:
        verdict = fault_scan(row, value, &number);
        if (row->type == FAULT_TYPE_TIME || row->type == FAULT_TYPE_COUNT)
            *(uint64_t *)at = number;
        else
            *(uint32_t *)at = (uint32_t)number;
        return verdict;
    }
}

static int read_key_value(struct parse *p, enum fault_key key, const char *value)
{
    const struct fault_key_row *row = fault_key_row(key);
    enum quantity_verdict verdict = QUANTITY_WRONG;
    struct fault_names names = {.graph = p->graph};
    const char *valid = row->valid;

    if (row->type != FAULT_TYPE_WHERE)
        verdict = value ? read_value(&p->fault, row, value, &names) : QUANTITY_WRONG;
    else if (fault_where_read(&p->fault, key, value, &names, &valid))
        verdict = QUANTITY_OK;
    if (verdict == QUANTITY_OK)
        return 0;
    if (!value)
        return invalid(p, "%s has no value; %s= is followed by %s", row->name, row->name, valid);
    if (*names.why)
        return invalid(p, "%s=%.*s: %s", row->name, FAULT_SHOWN, value, names.why);
    return invalid(p, "%s=%.*s%s: it must be %s%s", row->name, FAULT_SHOWN, value, reasons[verdict],
                   valid, row->names ? nearest_in(value, valid).text : "");
}

/* --- words ------------------------------------------------------------------------ */

static int find_key(const char *word, size_t length)
{
    for (int key = 0; key < FAULT_KEYS; key++) {
        const char *name = fault_key_row((enum fault_key)key)->name;

        if (strlen(name) == length && memcmp(name, word, length) == 0)
            return key;
    }
    return -1;
}

static int find_kind(const char *word)
{
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        if (strcmp(fault_name((enum fault_kind)kind), word) == 0)
            return kind;
    return -1;
}

static int no_such_key(const struct parse *p, enum fault_key key)
{
    char list[FAULT_LIST_BYTES];

    return invalid(p, "%s has no '%s'%s; it has %s", p->kind->name, fault_key_row(key)->name,
                   key == FAULT_KEY_FOR ? ", since it is momentary" : "",
                   fault_list_keys(p->kind->keys, list));
}

static int read_kind(struct parse *p, const char *word)
{
    struct fault_when when = p->fault.when;
    char list[FAULT_LIST_BYTES];
    struct fault_writer writer = {.at = list, .left = sizeof list};
    int kind = find_kind(word);

    if (kind >= 0 && p->kind)
        return invalid(p, "%s and %s: a line has one fault; write the other one on its own line",
                       p->kind->name, word);
    if (kind >= 0) {
        fault_init(&p->fault, (enum fault_kind)kind);
        p->fault.when = when;
        p->kind = fault_kind_row((enum fault_kind)kind);
        return p->seen & ~p->kind->keys
                   ? no_such_key(p, (enum fault_key)emu_bits_first(p->seen & ~p->kind->keys))
                   : 0;
    }
    if (fault_scenario_find(word))
        return invalid(p, "'%.*s' is a scenario, not a fault: start a fabric with --faults %.*s",
                       FAULT_SHOWN, word, FAULT_SHOWN, word);
    for (int i = 0; i < FAULT_KINDS; i++)
        fault_put(&writer, "%s%s", i ? ", " : "", fault_name((enum fault_kind)i));
    return invalid(p, "no fault '%.*s'; there are %s%s", FAULT_SHOWN, word, list,
                   nearest_in(word, list).text);
}

static int read_key(struct parse *p, enum fault_key key, const char *value)
{
    const char *name = fault_key_row(key)->name;
    uint64_t where = p->seen & FAULT_KEYS_WHERE;
    char list[FAULT_LIST_BYTES];

    if (!p->kind && !(FAULT_KEYS_WHEN & emu_bit(key)))
        return invalid(
            p,
            "%s is before the fault; write the times (at=, for=, every=, on=), then the fault, "
            "then the rest: " EXAMPLE,
            name);
    if (p->kind && !(p->kind->keys & emu_bit(key)))
        return no_such_key(p, key);
    if (has(p, key))
        return invalid(p, "%s is given twice; give it once", name);
    if (where && FAULT_KEYS_WHERE & emu_bit(key))
        return invalid(p, "%s and %s: a fault has one of them; write another fault on its own line",
                       fault_list_keys(where, list), name);
    p->seen |= emu_bit(key);
    return read_key_value(p, key, value);
}

/* Read one word, which has no spaces or control characters. */
static int read_word(struct parse *p, char *word)
{
    char *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    char list[FAULT_LIST_BYTES];
    int key = find_key(word, length);

    if (key >= 0)
        return read_key(p, (enum fault_key)key, equals ? equals + 1 : NULL);
    if (!equals)
        return read_kind(p, word);
    uint64_t keys = p->kind ? p->kind->keys : FAULT_KEYS_WHEN;
    fault_list_keys(keys, list);
    return invalid(p, "no key '%.*s'; %s has %s%s",
                   length < FAULT_SHOWN ? (int)length : FAULT_SHOWN, word,
                   p->kind ? p->kind->name : "the time of a fault", list,
                   nearest_in(word, list).text);
}

static int read_words(struct parse *p, const char *text)
{
    char word[FAULT_WORD_MAX + 1];
    size_t length;

    for (;; text += length) {
        text += strspn(text, " \t");
        length = strcspn(text, " \t");
        if (!length)
            return 0;
        if (length > FAULT_WORD_MAX)
            return invalid(p,
                           "'%.*s…' is longer than %d characters, so it cannot be part of a fault",
                           FAULT_SHOWN, text, FAULT_WORD_MAX);
        memcpy(word, text, length);
        word[length] = '\0';
        int err = read_word(p, word);
        if (err)
            return err;
    }
}

/* --- checks that words fit each other ------------------------------------------------- */

static int check_complete(const struct parse *p)
{
    char list[FAULT_LIST_BYTES];

    if (!p->kind)
        return invalid(p, "no kind of fault is named; " EXAMPLE);
    if (!(p->seen & FAULT_KEYS_WHERE))
        return invalid(p, "%s does not say where; it needs one of %s", p->kind->name,
                       fault_list_keys(p->kind->keys & FAULT_KEYS_WHERE, list));
    if (p->kind->needs & ~p->seen)
        return invalid(p, "%s needs %s, too", p->kind->name,
                       fault_list_keys(p->kind->needs & ~p->seen, list));
    return p->kind->validate ? p->kind->validate(&p->fault, p->seen, p->error, p->error_bytes) : 0;
}

static int check_times(const struct parse *p)
{
    const struct fault_when *when = &p->fault.when;
    char every[32], last[32];

    fault_print_time(when->every_ps, every);
    fault_print_time(when->for_ps, last);
    if (when->every_ps && when->for_ps >= when->every_ps)
        return invalid(p,
                       "every=%s for=%s: it would begin again before it ends; 'for' must be less "
                       "than 'every'",
                       every, last);
    if (when->every_ps && !when->for_ps && !p->kind->at_once && !has(p, FAULT_KEY_NTH) &&
        !has(p, FAULT_KEY_COUNT))
        return invalid(p,
                       "every=%s: %s never ends, so it cannot begin again; add its duration: "
                       "for=TIME",
                       every, p->kind->name);
    return 0;
}

static int check_rule(const struct parse *p)
{
    char list[FAULT_LIST_BYTES];

    if (!p->kind->has_rule)
        return 0;
    if (has(p, FAULT_KEY_NTH) && (has(p, FAULT_KEY_RATE) || has(p, FAULT_KEY_COUNT)))
        return invalid(
            p, "nth hits once; leave out %s",
            fault_list_keys(p->seen & (emu_bit(FAULT_KEY_RATE) | emu_bit(FAULT_KEY_COUNT)), list));
    if (p->fault.rule.aim.kinds & ~p->kind->kinds)
        return invalid(p, "%s hits contributions: kind must be reduce or allreduce, or both",
                       p->kind->name);
    return 0;
}

int fault_parse(struct fault *ret, const char *text, const struct topo_graph *graph, char *error,
                size_t error_bytes)
{
    struct parse p = {.graph = graph, .error = error, .error_bytes = error_bytes};
    int err;

    for (const char *c = text; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
            return fail(-EINVAL, error, error_bytes,
                        "a control character, %d; a fault is one line of text, " EXAMPLE, *c);
    err = read_words(&p, text);
    if (!err)
        err = check_complete(&p);
    if (!err)
        err = check_times(&p);
    if (!err)
        err = check_rule(&p);
    if (!err)
        memcpy(ret, &p.fault, sizeof *ret);
    return err;
}
