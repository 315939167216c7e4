/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - the tables of kinds of fault and of keys, and functions that the files here share.
 *
 * The text of a fault consists of *words*: the name of its kind, and *keys* with values, KEY=VALUE.
 */
#ifndef APPS_FAULT_INTERNAL_H
#define APPS_FAULT_INTERNAL_H

#include "apps/base/quantity.h"
#include "apps/fault/fault.h"
#include "apps/base/message.h"
#include "emu/util/bits.h"

#define FAULT_WORD_MAX   1023 /* maximum number of characters of a word */
#define FAULT_SHOWN      40   /* characters of a word that a message shows */
#define FAULT_LIST_BYTES 400  /* size of a buffer for a list of keys or kinds */

/* Keys, in the order of a fault's text: when it acts, where, on which packets, and how. */
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

/* Types of values. The comments give the C types that the values have in struct fault. */
enum fault_type {
    FAULT_TYPE_TIME,   /* uint64_t, ps */
    FAULT_TYPE_COUNT,  /* uint64_t */
    FAULT_TYPE_NUMBER, /* uint32_t */
    FAULT_TYPE_NODE,   /* uint32_t, written as the number or the name of a node */
    FAULT_TYPE_SHARE,  /* uint32_t, in units of 1 / EMU_FAULT_ONE */
    FAULT_TYPE_FACTOR, /* uint32_t, in units of 1 / FAULT_FACTOR_ONE */
    FAULT_TYPE_BITS,   /* uint32_t, a bit for each of .names */
    FAULT_TYPE_NAME,   /* uint32_t, the index in .names */
    FAULT_TYPE_EVENT,  /* struct fault_event */
    FAULT_TYPE_WHERE   /* fault->where, by where.c */
};

struct fault_key_row {
    const char *name;
    const char *valid; /* describes valid values; follows "it must be" in a message */
    enum fault_type type;
    size_t offset;            /* offset of the value in struct fault */
    uint64_t least, most;     /* limits of a number */
    const char *const *names; /* valid names, ended by NULL; NULL if the type has no names */
};

/* A fault that is checked, the network to inject it into, and a buffer for one line of text. */
struct fault_check {
    const struct fault *fault;
    const struct fault_network *network;
    struct fault_targets targets; /* all candidates that the fault may be applied to */
    char *text;
    size_t text_bytes;
};

/* Return @err, and write one line for the user; @check is a struct fault_check. */
#define refuse(check, err, ...) fail(err, (check)->text, (check)->text_bytes, __VA_ARGS__)

/* Return -EINVAL, and write one line for the user; @at has the fields error and error_bytes. */
#define invalid(at, ...) fail(-EINVAL, (at)->error, (at)->error_bytes, __VA_ARGS__)

#define FAULT_REQUIRES 2 /* maximum number of requirements of a kind */

/* A kind of fault. Fields that kinds.def does not set are 0, false or NULL. */
struct fault_kind_row {
    const char *name;
    const char *about;
    enum fault_domain domain;
    bool at_once;             /* momentary: never reverted */
    uint64_t keys;            /* allowed keys: bits 1 << enum fault_key */
    uint64_t needs;           /* required keys: bits 1 << enum fault_key */
    const char *example;      /* required keys with usual values, for an example; NULL: none */
    bool has_rule;            /* fault->rule describes its effect */
    enum emu_fault_what what; /* initial value of rule.what */
    uint32_t packets, kinds;  /* initial values of these fields of rule.aim */

    bool takes_signal; /* it takes links down, so each cable that it acts on must be able to fail */
    bool takes_switch; /* it takes switches down, so all their cables must be able to fail */
    bool cuts;         /* it acts on the cables between the named nodes and all other nodes */

    /* Check that the keys fit each other. @seen: keys in the text. Errors: -EINVAL. */
    int (*validate)(const struct fault *fault, uint64_t seen, char *error, size_t error_bytes);
    /*
     * Check properties of the network that the fault needs. Unused entries are NULL. Errors: as
     * fault_check().
     */
    int (*requires[FAULT_REQUIRES])(const struct fault_check *check);
    /* Describe, in check->text, an effect that a user may not expect. NULL: there is none. */
    void (*note)(const struct fault_check *check);
};

/* --- kinds.c ---------------------------------------------------------------------- */

const struct fault_kind_row *fault_kind_row(enum fault_kind kind);

/** fault_init - initialize a fault of @kind, before its keys are read. */
void fault_init(struct fault *fault, enum fault_kind kind);

/* --- keys.c ----------------------------------------------------------------------- */

const struct fault_key_row *fault_key_row(enum fault_key key);

/** fault_list_keys - write "at, for, every" into the FAULT_LIST_BYTES at @text. Returns @text. */
char *fault_list_keys(uint64_t keys, char *text);

/* --- parse.c: numbers ------------------------------------------------------------- */

/** fault_scan - read the number in @text. @row: its type and its limits. */
enum quantity_verdict fault_scan(const struct fault_key_row *row, const char *text, uint64_t *ret);

/* --- where.c: places -------------------------------------------------------------- */

/* The network whose nodes a text may name, and the error if the text names none of them. */
struct fault_names {
    const struct topo_graph *graph; /* NULL: nodes have only numbers */
    /* describes the error; "": the text does not have the form of a number or a name */
    char why[TOPO_NODE_ERROR_BYTES];
};

/** fault_node_read - read a node's number or name. Returns false if @value is neither. */
bool fault_node_read(struct fault_names *names, const char *value, uint32_t *ret);

/**
 * fault_where_read - read the value of a key of FAULT_KEYS_WHERE. Returns false if it is not valid.
 * @value: NULL if the text has no value for the key.
 * @valid: receives a description of valid values.
 */
bool fault_where_read(struct fault *fault, enum fault_key key, const char *value,
                      struct fault_names *names, const char **valid);

/* --- print.c ---------------------------------------------------------------------- */

/* A buffer to which fault_put() appends as much of a text as fits. */
struct fault_writer {
    char *at;
    size_t left;
    const struct topo_graph *graph; /* for the names of nodes; NULL: write their numbers */
};

void fault_put(struct fault_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** fault_put_node - append a node's name if fault_node_read() can read it, otherwise its number. */
void fault_put_node(struct fault_writer *writer, uint32_t node);

/** fault_where_print - append the key that names the fault's targets, such as "link=3:5>". */
void fault_where_print(struct fault_writer *writer, const struct fault *fault);

#endif
