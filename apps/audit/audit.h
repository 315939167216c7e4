/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * audit.h - checks that a running fabric is consistent, and changes nothing.
 *
 * While the workers are held between two passes, on any clock, an audit recounts the contents of
 * devices (audit.c): credits in links and buffers, slots of switches, channels, packets, states of
 * collectives, references to buffers. While they run, it compares the devices' routing tables
 * (routes.c), and the groups and trees in devices (groups.c), with the manager's.
 */
#ifndef APPS_AUDIT_AUDIT_H
#define APPS_AUDIT_AUDIT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "apps/fabric/fabric.h"

#define FABRIC_FINDINGS      64u /* lines that are kept; further ones are only counted */
#define FABRIC_FINDING_BYTES 416u

struct fabric_audit {
    uint32_t found;                                   /* errors */
    char line[FABRIC_FINDINGS][FABRIC_FINDING_BYTES]; /* the first of them */

    /* Numbers of checked objects. */
    uint32_t switches;
    uint32_t cables;
    uint32_t crossing; /* cables between hosts, whose credits are not added up */
    uint32_t groups;
    uint64_t routes;      /* pairs of a switch with nodes and a destination */
    uint64_t partitioned; /* such pairs without a route, since links are out */
    uint64_t buffers;     /* references to pool buffers */
    uint32_t treeless;    /* groups without a tree, since links are out */
    uint64_t paused_ns;   /* time for which the workers were held; clock virtual: 0 */
    uint64_t elapsed_ns;  /* duration of the audit */
};

/**
 * fabric_audit - check everything. On clock virtual @now_ps is the time reached.
 * @routes: also the tables: no worker is held for them, but in a large network they take longest.
 * On several hosts each checks its partition, and the coordinator's fabric adds the results
 * (struct fabric_mirror). fabric_audit_host() - check only this host's.
 * Errors: -ENOMEM. Thread: manager; clock virtual: between two advances.
 */
int fabric_audit(struct fabric *fabric, uint64_t now_ps, bool routes, struct fabric_audit *ret);
int fabric_audit_host(struct fabric *fabric, uint64_t now_ps, bool routes,
                      struct fabric_audit *ret);

/**
 * fabric_check - clock virtual: check conservation of segments and credits on every cable and in
 * every switch, Little's law in every switch to the picosecond, and fabric_check_bufs().
 * @now_ps: the time reached by fabric_advance().
 * Errors: -EPROTO, with the error and its location on one line in @error.
 */
int fabric_check(struct fabric *fabric, uint64_t now_ps, char *error, size_t error_bytes);

/**
 * fabric_check_bufs - check that every reference to a pool buffer has a holder: a cable, a
 * crosspoint, a packet, a request of a host, a group's state. Part of fabric_check(). Nodes inside
 * the fabric hold none.
 * Errors: -EPROTO, with one line in @error. Thread: manager, while the workers stand still.
 */
int fabric_check_bufs(struct fabric *fabric, char *error, size_t error_bytes);

/** fabric_bufs_out - number of references to pool buffers. Thread: as fabric_check_bufs(). */
uint64_t fabric_bufs_out(const struct fabric *fabric);

/* --- as JSON (json.c): made by the daemon, printed by the command ----------------------- */

/**
 * audit_json - audit the fabric. @routes: follow the tables, too. NULL: out of memory.
 * audit_json_of() - the JSON of an audit. Thread: manager.
 */
struct json_object *audit_json(struct fabric *fabric, bool routes);
struct json_object *audit_json_of(const struct fabric_audit *audit);

/** audit_right - did it find nothing? */
bool audit_right(struct json_object *audit);

/** audit_print_wrong - print a line for each error, after @before. */
void audit_print_wrong(FILE *out, const char *before, struct json_object *audit);

/** audit_print - print a summary. @name: of the fabric. */
void audit_print(FILE *out, const char *name, struct json_object *audit);

/* --- parts of an audit ---------------------------------------------------------------------- */

enum fabric_at { FABRIC_AT_FABRIC, FABRIC_AT_SWITCH, FABRIC_AT_UNIT, FABRIC_AT_NODE };

struct fabric_group;

/* Location of an error. */
struct fabric_place {
    const struct fabric *fabric;
    enum fabric_at at;
    uint32_t number;                  /* of the switch or the node */
    uint32_t port;                    /* of the switch, or link of the node; EMU_NO_PORT */
    const struct fabric_group *group; /* concerned; NULL: none */
};

/* audit.c: report an error. */
__attribute__((format(printf, 3, 4))) void fabric_found(struct fabric_audit *audit,
                                                        const struct fabric_place *place,
                                                        const char *format, ...);

/* audit.c: set the location to an engine, by number: a node's, or a unit's. */
void fabric_place_engine(struct fabric_place *place, uint32_t number);

/* audit.c: check the contents of devices, while the workers are held. */
void fabric_check_devices(struct fabric *fabric, uint64_t now_ps, struct fabric_audit *audit);

/* routes.c: check that the tables in force lead from every switch with nodes to every node. */
int fabric_audit_routes(const struct fabric *fabric, struct fabric_audit *audit);

/* groups.c: check the shape of trees, the tables in devices, and the sums of reservations. */
int fabric_audit_groups(const struct fabric *fabric, struct fabric_audit *audit);

#endif
