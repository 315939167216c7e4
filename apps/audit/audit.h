/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * audit.h - check that a running fabric is consistent, without changing it.
 *
 * While the workers are held between two passes, an audit recounts the contents of devices
 * (audit.c): credits of links, slots of switches, channels, packets, states of collectives, and
 * references to buffers. While the workers run, it checks the routing tables of devices (routes.c),
 * and the trees of groups in devices (groups.c), against the manager's plan. A *part* of a group is
 * its table in one device.
 */
#ifndef APPS_AUDIT_AUDIT_H
#define APPS_AUDIT_AUDIT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "apps/fabric/fabric.h"

#define FABRIC_FINDINGS      64u /* errors that are described; further ones are only counted */
#define FABRIC_FINDING_BYTES 416u

/* The result of an audit. */
struct fabric_audit {
    uint32_t found;                                   /* number of errors */
    uint32_t lines;                                   /* number of descriptions in line */
    char line[FABRIC_FINDINGS][FABRIC_FINDING_BYTES]; /* descriptions of the first errors */

    /* Numbers of checked objects. */
    uint32_t switches;
    uint32_t cables;
    uint32_t crossing; /* cables between hosts, whose credits cannot be added up */
    uint32_t groups;
    uint64_t routes;      /* pairs: a switch that has nodes, and a destination node */
    uint64_t partitioned; /* number of pairs without a route, because links are out of use */
    uint64_t buffers;     /* references to pool buffers */
    uint32_t treeless;    /* groups without a tree, because links are out of use */
    uint64_t paused_ns;   /* time for which the workers were held; clock virtual: 0 */
    uint64_t elapsed_ns;  /* duration of the audit */
};

/**
 * fabric_audit - check a fabric. On several hosts each checks its own devices, and the coordinator
 * adds up the results (struct fabric_mirror).
 * fabric_audit_host() - check only the devices of this host.
 * @now_ps: on clock virtual, the time that fabric_advance() has reached.
 * @routes: check the routing tables, too. This does not hold the workers, but it is the slowest
 * part of the audit of a large network.
 * Errors: -ENOMEM. Thread: manager; on clock virtual not during fabric_advance().
 */
int fabric_audit(struct fabric *fabric, uint64_t now_ps, bool routes, struct fabric_audit *ret);
int fabric_audit_host(struct fabric *fabric, uint64_t now_ps, bool routes,
                      struct fabric_audit *ret);

/**
 * fabric_check - clock virtual: check that no segment or credit was lost or duplicated on any cable
 * or in any switch, and that every switch satisfies Little's law to the picosecond; then call
 * fabric_check_bufs(). @now_ps: the time that fabric_advance() has reached. Errors: -EPROTO, with
 * the error and its location on one line in @error.
 */
int fabric_check(struct fabric *fabric, uint64_t now_ps, char *error, size_t error_bytes);

/**
 * fabric_check_bufs - check that the pool's number of references to buffers is the sum over all
 * holders: cables, crosspoints, packets, requests of processes, and states of groups. Nodes inside
 * the fabric must hold none. Errors: -EPROTO, with one line in @error. Thread: manager, workers
 * held.
 */
int fabric_check_bufs(struct fabric *fabric, char *error, size_t error_bytes);

/** fabric_bufs_out - return the pool's number of references. Thread: as fabric_check_bufs(). */
uint64_t fabric_bufs_out(const struct fabric *fabric);

/* --- as JSON (json.c): made by the daemon, printed by the command ----------------------- */

/**
 * audit_json - audit the fabric and return the result. @routes: as in fabric_audit(). NULL: out of
 * memory.
 * audit_json_of() - return the result of an audit as JSON. Thread: manager.
 */
struct json_object *audit_json(struct fabric *fabric, bool routes);
struct json_object *audit_json_of(const struct fabric_audit *audit);

/** audit_right - return whether the audit has found no error. */
bool audit_right(struct json_object *audit);

/** audit_print_wrong - print a line for each error; each begins with @before. */
void audit_print_wrong(FILE *out, const char *before, struct json_object *audit);

/** audit_print - print a summary. @name: the name of the fabric. */
void audit_print(FILE *out, const char *name, struct json_object *audit);

/* --- parts of an audit ---------------------------------------------------------------------- */

enum fabric_at { FABRIC_AT_FABRIC, FABRIC_AT_SWITCH, FABRIC_AT_UNIT, FABRIC_AT_NODE };

struct fabric_group;

/* Location of an error. */
struct fabric_place {
    const struct fabric *fabric;
    enum fabric_at at;
    uint32_t number;                  /* number of the switch or the node */
    uint32_t port;                    /* port of the switch, or link of the node; or EMU_NO_PORT */
    const struct fabric_group *group; /* the group that the error concerns; NULL: none */
};

/* audit.c: count an error. Describe it unless FABRIC_FINDINGS errors are described already. */
__attribute__((format(printf, 3, 4))) void fabric_found(struct fabric_audit *audit,
                                                        const struct fabric_place *place,
                                                        const char *format, ...);

/* audit.c: set the location to link engine @number: that of a node, or the unit of a switch. */
void fabric_place_engine(struct fabric_place *place, uint32_t number);

/* audit.c: check the contents of devices. Call this while the workers are held. */
void fabric_check_devices(struct fabric *fabric, uint64_t now_ps, struct fabric_audit *audit);

/* routes.c: check that the tables in force route from every switch with nodes to every node. */
int fabric_audit_routes(const struct fabric *fabric, struct fabric_audit *audit);

/* groups.c: check that the trees of groups are trees, and that reservations add up. */
int fabric_audit_groups(const struct fabric *fabric, struct fabric_audit *audit);

#endif
