/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * audit.h - is a running fabric right? An audit looks at all of it and changes nothing.
 *
 * What devices hold is counted anew while their workers are held between two passes, on any clock
 * (check.c): credits in links and buffers, slots of switches, channels, packets, states of
 * collectives, references to buffers. What the manager has given the devices is compared with what
 * it knows while they run: the tables of routes (routes.c), and groups and their trees
 * (groups.c).
 */
#ifndef APPS_AUDIT_AUDIT_H
#define APPS_AUDIT_AUDIT_H

#include "apps/fabric/fabric.h"

#define FABRIC_FINDINGS      64u /* lines that are kept; more are counted */
#define FABRIC_FINDING_BYTES 416u

struct fabric_audit {
    uint32_t found;                                   /* things that are wrong */
    char line[FABRIC_FINDINGS][FABRIC_FINDING_BYTES]; /* the first of them */

    /* What was looked at. */
    uint32_t switches;
    uint32_t cables;
    uint32_t crossing; /* of them, those between hosts: their credits are not added up */
    uint32_t groups;
    uint64_t routes;     /* pairs of a switch with nodes and a destination */
    uint64_t parted;     /* of them, those that nothing joins: links are out */
    uint64_t buffers;    /* references that are out, and have a holder each */
    uint32_t treeless;   /* groups that can have no tree for now: links are out */
    uint64_t held_ns;    /* for how long the workers were held; clock virtual: 0 */
    uint64_t elapsed_ns; /* for how long it took */
};

/**
 * fabric_audit - look at everything. On clock virtual everything up to @now_ps has happened.
 * @routes: the tables, too: no worker is held for them, but in a large network they take longest.
 * On several hosts each looks at its part, and the governor's adds them up (struct fabric_mirror).
 * fabric_audit_part() - look at the part of this host alone.
 * Errors: -ENOMEM. Thread: the fabric's manager; clock virtual: between two advances.
 */
int fabric_audit(struct fabric *fabric, uint64_t now_ps, bool routes, struct fabric_audit *ret);
int fabric_audit_part(struct fabric *fabric, uint64_t now_ps, bool routes,
                      struct fabric_audit *ret);

/**
 * fabric_check - clock virtual: conservation of segments and credits on every cable and in every
 * switch, and Little's law in every switch, to the picosecond;
 * and fabric_check_bufs().
 * @now_ps: up to where fabric_advance() has come.
 * Errors: -EPROTO, with one line in @error that says what is wrong and where.
 */
int fabric_check(struct fabric *fabric, uint64_t now_ps, char *error, size_t error_bytes);

/**
 * fabric_check_bufs - every reference to a pool buffer that is out has a holder: a cable, a
 * crosspoint, a packet, a question of a host, a group's state. Part of fabric_check(). Nodes inside
 * the fabric hold none.
 * Errors: -EPROTO, with one line in @error. Thread: manager, while the workers stand still.
 */
int fabric_check_bufs(struct fabric *fabric, char *error, size_t error_bytes);

/** fabric_bufs_out - references to pool buffers that are out. Thread: as fabric_check_bufs(). */
uint64_t fabric_bufs_out(const struct fabric *fabric);

/* --- its parts ---------------------------------------------------------------------- */

enum fabric_at { FABRIC_AT_FABRIC, FABRIC_AT_SWITCH, FABRIC_AT_UNIT, FABRIC_AT_NODE };

struct fabric_group;

/* Where something is wrong. */
struct fabric_place {
    const struct fabric *fabric;
    enum fabric_at at;
    uint32_t number;                  /* of the switch or the node */
    uint32_t port;                    /* of the switch, or link of the node; EMU_NO_PORT */
    const struct fabric_group *group; /* of which; NULL: of none */
};

/* audit.c: one thing is wrong there. */
__attribute__((format(printf, 3, 4))) void fabric_found(struct fabric_audit *audit,
                                                        const struct fabric_place *place,
                                                        const char *format, ...);

/* audit.c: the place of the engine of this number: a node's, or a unit's. */
void fabric_place_engine(struct fabric_place *place, uint32_t number);

/* audit.c: what devices hold. While the workers are held. */
void fabric_check_devices(struct fabric *fabric, uint64_t now_ps, struct fabric_audit *audit);

/* routes.c: the tables in force lead from every switch with nodes to every node. */
int fabric_audit_routes(const struct fabric *fabric, struct fabric_audit *audit);

/* groups.c: trees are trees, are in the tables, and what was set aside for them adds up. */
int fabric_audit_groups(const struct fabric *fabric, struct fabric_audit *audit);

#endif
