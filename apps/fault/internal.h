/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - the tables of kinds and keys. */
#ifndef APPS_FAULT_INTERNAL_H
#define APPS_FAULT_INTERNAL_H

#include "apps/base/quantity.h"
#include "apps/fault/fault.h"
#include "apps/base/message.h"
#include "emu/util/bits.h"

#define FAULT_WORD_MAX   1023 /* characters of a word */
#define FAULT_SHOWN      40   /* characters of it shown in a message */
#define FAULT_LIST_BYTES 400  /* for a list of keys or kinds */

/* Keys, in the order in which they are written: when, where, which entries, what. */
enum fault_key {
    FAULT_KEY_AT,
    FAULT_KEY_FOR,
    FAULT_KEY_EVERY,
    FAULT_KEY_ON,
    FAULT_KEY_LINK,
    FAULT_KEY_LEVEL,
    FAULT_KEY_SWITCH,
    FAULT_KEY_NODE,
    FAULT_KEY_NODES,
    FAULT_KEY_TOP,
    FAULT_KEY_RANDOM,
    FAULT_KEY_PACKET,
    FAULT_KEY_KIND,
    FAULT_KEY_FROM,
    FAULT_KEY_TO,
    FAULT_KEY_GROUP,
    FAULT_KEY_NTH,
    FAULT_KEY_RATE,
    FAULT_KEY_COUNT,
    FAULT_KEY_PART,
    FAULT_KEY_BY,
    FAULT_KEY_JITTER,
    FAULT_KEY_DOWN,
    FAULT_KEY_UP,
    FAULT_KEY_FACTOR,
    FAULT_KEY_SHARE,
    FAULT_KEY_PERIOD,
    FAULT_KEY_LENGTH,
    FAULT_KEYS
};

#define FAULT_KEYS_WHEN  emu_bits_below(FAULT_KEY_LINK)
#define FAULT_KEYS_WHERE (emu_bits_below(FAULT_KEY_PACKET) & ~FAULT_KEYS_WHEN)

/* Types of values, and of the field at .offset of struct fault. */
enum fault_type {
    FAULT_TYPE_TIME,   /* uint64_t, ps */
    FAULT_TYPE_COUNT,  /* uint64_t */
    FAULT_TYPE_NUMBER, /* uint32_t */
    FAULT_TYPE_SHARE,  /* uint32_t of EMU_FAULT_ONE */
    FAULT_TYPE_FACTOR, /* uint32_t of FAULT_FACTOR_ONE */
    FAULT_TYPE_BITS,   /* uint32_t, a bit for each of .names */
    FAULT_TYPE_NAME,   /* uint32_t, the index in .names */
    FAULT_TYPE_EVENT,  /* struct fault_event */
    FAULT_TYPE_WHERE   /* fault->where, by where.c */
};

struct fault_key_row {
    const char *name;
    const char *right; /* description of valid values: "it must be ..." */
    enum fault_type type;
    size_t offset;
    uint64_t least, most;
    const char *const *names; /* NULL ends them */
};

/* A fault, the network to inject it into, and a buffer for one line to the user. */
struct fault_check {
    const struct fault *fault;
    const struct fault_network *network;
    struct fault_targets targets; /* all that the fault may act on, for any seed */
    char *text;
    size_t text_bytes;
};

/* Fail with one line of text to the user; @check is a struct fault_check. */
#define refuse(check, err, ...) fail(err, (check)->text, (check)->text_bytes, __VA_ARGS__)

/* The same for invalid text or targets; @at has the fields error and error_bytes. */
#define invalid(at, ...) fail(-EINVAL, (at)->error, (at)->error_bytes, __VA_ARGS__)

#define FAULT_REQUIRES 2 /* requirements of a kind, at most */

/* A kind of fault. Fields that kinds.def does not set are 0, false or NULL. */
struct fault_kind_row {
    const char *name;
    const char *about;
    enum fault_domain domain;
    bool at_once;        /* momentary: never reverted */
    uint64_t keys;       /* allowed keys */
    uint64_t needs;      /* required keys */
    const char *example; /* keys with usual values, for an example; NULL: none are needed */
    bool has_rule;
    enum emu_fault_what what; /* defaults of the rule */
    uint32_t packets, kinds;

    bool takes_signal; /* it takes links down: each of its cables must be able to fail */
    bool takes_switch; /* it needs all cables of each of its switches */
    bool cuts;         /* of nodes: it acts on the cables between these and all other nodes */

    /* Check that the keys fit each other. @seen: keys in the text. Errors: -EINVAL. */
    int (*validate)(const struct fault *fault, uint64_t seen, char *error, size_t error_bytes);
    /* Check that the network has what the fault needs. Errors: as fault_check(). NULL: no more. */
    int (*requires[FAULT_REQUIRES])(const struct fault_check *check);
    /* Write an effect that a user may not expect, if the fault has any. */
    void (*note)(const struct fault_check *check);
};

/* --- kinds.c ---------------------------------------------------------------------- */

const struct fault_kind_row *fault_kind_row(enum fault_kind kind);

/** fault_init - initialize a fault of @kind, before its keys are read. */
void fault_init(struct fault *fault, enum fault_kind kind);

/* --- keys.c ----------------------------------------------------------------------- */

const struct fault_key_row *fault_key_row(enum fault_key key);

/** fault_list_keys - list @keys: "at, for, every". @text: of FAULT_LIST_BYTES. Returns it. */
char *fault_list_keys(uint64_t keys, char *text);

/* --- parse.c: numbers ------------------------------------------------------------- */

/** fault_scan - read the number @text by @row's type and bounds. */
enum quantity_verdict fault_scan(const struct fault_key_row *row, const char *text, uint64_t *ret);

/* --- where.c: places -------------------------------------------------------------- */

/**
 * fault_where_read - read the value of a key of FAULT_KEYS_WHERE, NULL if it has none.
 * @right: on failure, the description of valid values.
 */
bool fault_where_read(struct fault *fault, enum fault_key key, const char *value,
                      const char **right);

/* --- print.c ---------------------------------------------------------------------- */

/* Appends text to a buffer, as much as fits. */
struct fault_writer {
    char *at;
    size_t left;
};

void fault_put(struct fault_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** fault_where_print - "link=3:5>". */
void fault_where_print(struct fault_writer *writer, const struct fault *fault);

#endif
