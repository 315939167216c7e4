/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * telemetry.h - snapshots of a running fabric, as lines of JSON: docs/telemetry.md has the fields.
 *
 * One *sampler* (struct telemetry) serves any number of readers. For each sample it reads all
 * counters of the fabric, and records which devices and cables have changed. For each reader it
 * writes the changes since the reader's previous sample. Counters are cumulative, so a reader that
 * misses samples loses only the times of the changes. The counters run with or without a sampler.
 * Thread: the fabric's manager; in simulated time the driver of the traffic, between two advances.
 */
#ifndef APPS_TELEMETRY_TELEMETRY_H
#define APPS_TELEMETRY_TELEMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "apps/fabric/fabric.h"
#include "apps/base/text.h"

/* version of the lines; while it stays the same, fields may only be added */
#define TELEMETRY_VERSION 1u

struct manager;
struct telemetry;

enum telemetry_link {
    TELEMETRY_UP,      /* in use */
    TELEMETRY_TESTING, /* the signal is back, and the manager tests the cable */
    TELEMETRY_OUT,     /* out of use despite a signal: errors, stuck port, or wrongly plugged */
    TELEMETRY_DOWN,    /* no signal */
    TELEMETRY_LINKS
};

struct telemetry_cable {
    enum telemetry_link state;
    uint64_t outs; /* number of times that it went out of use */
};

/** telemetry_cable_at - return the state of a cable. @manager: NULL: all cables are up. */
struct telemetry_cable telemetry_cable_at(const struct manager *manager, uint32_t cable);

/* Operations that a process can wait for. */
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
    TELEMETRY_WINDOW, /* a call that waits for an action of another member of an MPI window */
    TELEMETRY_KINDS
};

/** telemetry_kind_of - return the operation whose segments have @emu_kind (enum emu_kind). Pure. */
enum telemetry_kind telemetry_kind_of(uint8_t emu_kind);

/* The process at a node. */
struct telemetry_process {
    int64_t pid;      /* 0: no process */
    int64_t rank;     /* its rank in its job, from the process itself; -1: none */
    char command[16]; /* its name, ended by 0 */
};

/* The oldest pending operation of a process, whose library publishes it about once a second. */
struct telemetry_wait {
    enum telemetry_kind kind;
    int64_t other;     /* peer node; -1: any node, or a group */
    int64_t group;     /* group of a collective; -1: not a collective */
    uint64_t bytes;    /* size of the message or operation */
    uint64_t since_ns; /* emu_now_ns() when the library first saw it pending */
};

/* The fabric to sample, and callbacks for data that the fabric does not have. */
struct telemetry_source {
    const struct fabric *fabric;
    const struct fabric_config *config;
    uint64_t origin; /* time 0 of the samples, in the unit of telemetry_sample() */
    /* Set *ret to the state of a cable; *ret is zero before the call. NULL: all cables are up. */
    void (*link)(void *ctx, uint32_t cable, struct telemetry_cable *ret);
    /*
     * Set *who and *waits to the process at a node and to its pending operation. Before the call,
     * they say that there is no process and no operation. NULL: there are no processes.
     */
    void (*node)(void *ctx, uint32_t node, struct telemetry_process *who,
                 struct telemetry_wait *waits);
    void *ctx;
    /*
     * Names of all config->hosts->count hosts, which report their counters to this sampler. NULL:
     * there is one host, or the sampler covers only this host.
     */
    const char *const *hosts;
};

/** telemetry_create - create a sampler, without a sample yet. Copies @source. Errors: -ENOMEM. */
int telemetry_create(struct telemetry **ret, const struct telemetry_source *source);
void telemetry_destroy(struct telemetry *telemetry);

/**
 * telemetry_sample - take a sample. @now: emu_now_ns(); on clock virtual simulated time in ps.
 * Cost: some hundreds of microseconds for 1000 nodes and 300 switches.
 */
void telemetry_sample(struct telemetry *telemetry, uint64_t now);

/** telemetry_leaves - read the completions of the process at @node before it leaves. */
void telemetry_leaves(struct telemetry *telemetry, uint32_t node);

/** telemetry_samples - return the number of the last sample, from 1; 0: none yet. */
uint64_t telemetry_samples(const struct telemetry *telemetry);

/**
 * telemetry_shape - replace the contents of @text by the line that describes the network, without a
 * newline. @every_ns: the interval that the reader requests (clock virtual: simulated); 0: none.
 */
void telemetry_shape(const struct telemetry *telemetry, uint64_t every_ns, struct text_buf *text);

/**
 * telemetry_line - replace the contents of @text by the last sample, without a newline. The line
 * has the rows that have changed after sample @since; 0: all rows that are not 0. @skipped: number
 * of lines after @since that the reader has missed.
 */
void telemetry_line(struct telemetry *telemetry, uint64_t since, uint64_t skipped,
                    struct text_buf *text);

/* Aggregation of a large network: groups of devices, with the sums of their counters. */
struct telemetry_aggregate;

/**
 * telemetry_aggregate - aggregate the network. Call this before telemetry_aggregate_put_shape() and
 * telemetry_aggregate_put_line(). Returns 1, or 0 if the network is too small to be aggregated.
 * Errors: -ENOMEM.
 */
int telemetry_aggregate(struct telemetry *telemetry);

/**
 * telemetry_open - create an aggregation for one reader. The @count blocks in @block are open, so
 * their devices have rows of their own. The caller destroys it. It is valid while @telemetry
 * exists. Errors: -ENOENT if there is no such block; -E2BIG: too many rows; -ENOMEM.
 */
int telemetry_open(struct telemetry_aggregate **ret, const struct telemetry *telemetry,
                   const uint32_t *block, size_t count);
void telemetry_aggregate_destroy(struct telemetry_aggregate *aggregate);

/**
 * telemetry_aggregate_put_shape, telemetry_aggregate_put_line - like telemetry_shape() and
 * telemetry_line(), but for an aggregation. @open: from telemetry_open(); NULL: no block is open.
 */
void telemetry_aggregate_put_shape(const struct telemetry *telemetry,
                                   const struct telemetry_aggregate *open, uint64_t every_ns,
                                   struct text_buf *text);
void telemetry_aggregate_put_line(struct telemetry *telemetry, struct telemetry_aggregate *open,
                                  uint64_t since, uint64_t skipped, struct text_buf *text);

/* --- on several hosts ------------------------------------------------------------------- */

/* An agent sends its host's counters to the coordinator. Thread: the manager of that host. */
struct telemetry_agent;

/**
 * telemetry_agent_create - create an agent; parameters as telemetry_create(). source->hosts must be
 * NULL.
 */
int telemetry_agent_create(struct telemetry_agent **ret, const struct telemetry_source *source);
void telemetry_agent_destroy(struct telemetry_agent *agent);

/** telemetry_agent_leaves - the same as telemetry_leaves(). */
void telemetry_agent_leaves(struct telemetry_agent *agent, uint32_t node);

/**
 * telemetry_agent_report - replace the contents of @bytes by about @most bytes of changes since the
 * last call. The coordinator must pass all these bytes, in order, to telemetry_receive(). Returns 1
 * if the sample has more changes to send, or 0 if @bytes has the last of them. Errors: -ENOMEM:
 * changes were lost, so the coordinator's sums are wrong from now on.
 */
int telemetry_agent_report(struct telemetry_agent *agent, size_t most, struct text_buf *bytes);

/**
 * telemetry_receive - receive changes from @host; they are part of the next sample. @now_ns:
 * emu_now_ns(). Returns false if the changes are invalid.
 */
bool telemetry_receive(struct telemetry *telemetry, uint32_t host, const void *bytes, size_t count,
                       uint64_t now_ns);

/**
 * telemetry_host_lost - set the gauges (such as queue lengths) of @host to 0. Its other
 * counters remain.
 */
void telemetry_host_lost(struct telemetry *telemetry, uint32_t host);

#endif
