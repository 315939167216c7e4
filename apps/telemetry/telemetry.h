/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.h - snapshots of a running fabric, as lines of JSON: docs/telemetry.md has the fields.
 *
 * One sampler serves any number of readers. It looks at all counters of the fabric, notes of each
 * part in which look it has changed last, and writes for a reader what has changed since the look
 * that it has seen last. Counters are cumulative, so who misses looks loses nothing but the times
 * in between. Without a sampler nothing is counted that was not before.
 *
 * Thread: the fabric's manager; on clock virtual the driver, between two advances.
 */
#ifndef APPS_TELEMETRY_TELEMETRY_H
#define APPS_TELEMETRY_TELEMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/base/text.h"

#define TELEMETRY_VERSION 1u /* of the lines; fields may be added, and none is changed, within it */

struct manager;
struct telemetry;

/* What a cable is at. */
enum telemetry_link {
    TELEMETRY_UP,      /* in use */
    TELEMETRY_TESTING, /* its signal is back, and the manager tests it */
    TELEMETRY_OUT,     /* it has a signal, and is not used: errors, a stuck port, a wrong place */
    TELEMETRY_DOWN,    /* it has no signal */
    TELEMETRY_LINKS
};

struct telemetry_cable {
    enum telemetry_link state;
    uint64_t outs; /* times that it went out of use so far */
};

/** telemetry_cable_at - the same, as @manager has it; NULL: there is none, and all are up. */
struct telemetry_cable telemetry_cable_at(const struct manager *manager, uint32_t cable);

/* What a process waits for. */
enum telemetry_kind {
    TELEMETRY_NOTHING,
    TELEMETRY_SEND,
    TELEMETRY_RECEIVE,
    TELEMETRY_PUT,
    TELEMETRY_GET,
    TELEMETRY_ATOMIC,
    TELEMETRY_BARRIER,
    TELEMETRY_BROADCAST,
    TELEMETRY_REDUCE,
    TELEMETRY_ALLREDUCE,
    TELEMETRY_KINDS
};

/** telemetry_kind_of - of a collective's segments (enum emu_kind). Pure. */
enum telemetry_kind telemetry_kind_of(uint8_t emu_kind);

/* Who is at a node. */
struct telemetry_process {
    int64_t pid;      /* 0: nobody */
    int64_t rank;     /* in its job, as it says; -1: it has none */
    char command[16]; /* its name */
};

/* The oldest thing that it waits for, as its library tells about once a second. */
struct telemetry_wait {
    enum telemetry_kind kind;
    int64_t other;     /* the node that it is with; -1: anyone, or a group */
    int64_t group;     /* of a collective; -1: it is none */
    uint64_t bytes;    /* of the message, or the operation */
    uint64_t since_ns; /* emu_now_ns() when it was there already */
};

/* What is sampled, and what the fabric alone does not know of itself. */
struct telemetry_source {
    const struct fabric *fabric;
    const struct fabric_config *config;
    uint64_t origin; /* the time that telemetry_sample() counts from */
    /* Cleared before; NULL: all are up. */
    void (*link)(void *ctx, uint32_t cable, struct telemetry_cable *ret);
    /* both say beforehand that nobody is there, for nothing; NULL: no processes */
    void (*node)(void *ctx, uint32_t node, struct telemetry_process *who,
                 struct telemetry_wait *waits);
    void *ctx;
    /*
     * Names of all hosts, config->hosts->count of them, who tell of their parts; NULL: one host,
     * or this one alone is sampled.
     */
    const char *const *hosts;
};

/** telemetry_create - a sampler; it has not looked yet. @source is copied. Errors: -ENOMEM. */
int telemetry_create(struct telemetry **ret, const struct telemetry_source *source);
void telemetry_destroy(struct telemetry *telemetry);

/**
 * telemetry_sample - take a snapshot. @now: emu_now_ns(); on clock virtual simulated time, in ps.
 * Cost: 1000 nodes in 300 switches, some hundreds of microseconds.
 */
void telemetry_sample(struct telemetry *telemetry, uint64_t now);

/** telemetry_leaves - the process at @node is about to leave: what it told is of the next look. */
void telemetry_leaves(struct telemetry *telemetry, uint32_t node);

/** telemetry_samples - how many there were: the number of the last one, from 1. */
uint64_t telemetry_samples(const struct telemetry *telemetry);

/**
 * telemetry_shape - in place of what is in @text: the line, without its end, that says what does
 * not change. @every_ns: the interval that the reader asked for (virtual: simulated ns); 0: none.
 */
void telemetry_shape(const struct telemetry *telemetry, uint64_t every_ns, struct text_buf *text);

/**
 * telemetry_line - in place of what is in @text: the line, without its end, with all that has
 * changed after look @since, as of the last look. 0: all that is not 0. @skipped: lines that the
 * reader might have had since then.
 */
void telemetry_line(struct telemetry *telemetry, uint64_t since, uint64_t skipped,
                    struct text_buf *text);

/* A large network as one of few parts, each the sum of many. */
struct telemetry_aggregate;

/**
 * telemetry_aggregate - it is one, and may be told by telemetry_aggregate_put_shape() and
 * telemetry_aggregate_put_line(). Returns 1; 0: it is not large. Errors: -ENOMEM.
 */
int telemetry_aggregate(struct telemetry *telemetry);

/**
 * telemetry_open - the same with @count blocks open: what is in them is told one by one. The
 * caller's to destroy, at any time; each is one reader's. It may be used while @telemetry is there.
 * Errors: -ENOENT, there is no such block; -E2BIG, that would be too many parts; -ENOMEM.
 */
int telemetry_open(struct telemetry_aggregate **ret, const struct telemetry *telemetry,
                   const uint32_t *block, size_t count);
void telemetry_aggregate_destroy(struct telemetry_aggregate *aggregate);

/** @open: as telemetry_open() made it; NULL: nothing is. */
void telemetry_aggregate_put_shape(const struct telemetry *telemetry,
                                   const struct telemetry_aggregate *open, uint64_t every_ns,
                                   struct text_buf *text);
void telemetry_aggregate_put_line(struct telemetry *telemetry, struct telemetry_aggregate *open,
                                  uint64_t since, uint64_t skipped, struct text_buf *text);

/* --- on several hosts ------------------------------------------------------------------- */

/* What a host that does not govern has counted, and has told. Thread: its fabric's manager. */
struct telemetry_agent;

/** telemetry_agent_create - nothing was told yet. As telemetry_create(); @source without hosts. */
int telemetry_agent_create(struct telemetry_agent **ret, const struct telemetry_source *source);
void telemetry_agent_destroy(struct telemetry_agent *part);

/** telemetry_agent_leaves - as telemetry_leaves(). */
void telemetry_agent_leaves(struct telemetry_agent *part, uint32_t node);

/**
 * telemetry_agent_report - in place of what is in @bytes: what is new since it was told last, about
 * @most bytes of it, for telemetry_receive() of the host that governs, which hears all of it, in
 * order. Returns 1: the next call has the rest; 0: that was all, of one look. Errors: -ENOMEM, and
 * what was told is not whole any more.
 */
int telemetry_agent_report(struct telemetry_agent *part, size_t most, struct text_buf *bytes);

/**
 * telemetry_receive - it is added to what the next look finds. @now_ns: emu_now_ns(). False: no
 * honest host says that. telemetry_host_lost() - nothing waits there any more; its counters stay,
 * and those of its next life are added.
 */
bool telemetry_receive(struct telemetry *telemetry, uint32_t host, const void *bytes, size_t count,
                       uint64_t now_ns);
void telemetry_host_lost(struct telemetry *telemetry, uint32_t host);

#endif
