/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manager.h - the fabric manager: which links are in use, tests those that come back, and publishes
 * tables and trees for the rest.
 *
 * It works out of band, as QsNet III's does: what it does takes nothing of the network. What
 * happens to links in hardware, and is told to it, comes by manager_signal(); the rest it finds out
 * by itself when it is stepped. Times are its user's: simulated on clock virtual, else the host's.
 *
 * Thread: the fabric's manager, all of it; on clock virtual between two advances.
 * Source: QsNet III §V (link bring-up in three steps, error rates), §III (broken links).
 */
#ifndef APPS_MANAGER_MANAGER_H
#define APPS_MANAGER_MANAGER_H

#include "apps/fabric/fabric.h"

struct manager;

/* What a link is at. */
enum manager_link {
    MANAGER_UP,       /* in use */
    MANAGER_LOST,     /* it has no signal */
    MANAGER_BEGINS,   /* step 1: the ends negotiate layer, speed and protocol */
    MANAGER_ASKS,     /* step 2: each end asks who is at the other */
    MANAGER_TESTS,    /* step 3: pseudo-random packets at full rate, errors counted */
    MANAGER_RESTS,    /* it failed the test, and is tried again after a while */
    MANAGER_ISOLATED, /* a switch at an end of it had no way for packets: see MANAGER_SAYS_TRAP */
    MANAGER_SWAPPED   /* it does not lead to where the topology says: unused until plugged anew */
};

enum manager_what {
    MANAGER_SAYS_LOST,     /* a link has lost its signal */
    MANAGER_SAYS_UP,       /* it is in use again; took_ps: since its signal came back */
    MANAGER_SAYS_SWAPPED,  /* it leads to `far`; the topology says otherwise */
    MANAGER_SAYS_FAILED,   /* its test: `errors` of `packets` */
    MANAGER_SAYS_OUT,      /* it was in use, and had `errors` in `packets`: too many; taken out */
    MANAGER_SAYS_TABLES,   /* new ones are in force; took_ps: since the first change they are for */
    MANAGER_SAYS_TREELESS, /* a group can have no tree for now */
    /*
     * A switch had no way for `packets` unicasts since the last look, of which the last was to go
     * to node `to`. With trap=isolate, if the switch has no nodes and a link of its is out, all of
     * its links are out from now on, until that link is up again.
     */
    MANAGER_SAYS_TRAP,
    /*
     * A port at the link, which was in use, has sent nothing for took_ps of what it could. Told
     * before the link is taken out.
     */
    MANAGER_SAYS_STUCK,
    /*
     * Without acknowledgments: `parted` pairs of a switch with nodes and a destination have had no
     * route for too long (fabric_reaches()). What is under way between them is dropped until they
     * have one. Told again and again, and before the tables change.
     */
    MANAGER_SAYS_PARTED,
    MANAGER_SAYS_ALONE /* a node has had no link for too long: its adapter gives up */
};

/* What it tells its user. */
struct manager_event {
    enum manager_what what;
    uint64_t at_ps;
    uint32_t cable; /* TABLES, TREELESS, TRAP, ALONE, PARTED: TOPO_NONE */
    union {
        uint64_t took_ps;   /* UP, TABLES, STUCK */
        struct topo_at far; /* SWAPPED */
        struct {            /* FAILED, OUT */
            uint64_t errors;
            uint64_t packets;
        };
        struct {              /* TRAP */
            uint64_t trapped; /* packets */
            uint32_t sw;
            uint32_t to;       /* node */
            uint32_t isolated; /* links that were taken out for it */
        };
        uint32_t group; /* TREELESS */
        uint32_t node;  /* ALONE */
    };
    uint32_t links_out; /* links that are not in use */
    uint64_t
        parted; /* TABLES, PARTED: pairs of a switch with nodes and a destination without a route */
};

struct manager_config {
    bool reroute;         /* false: tables stay as they are */
    uint64_t reaction_ps; /* from a change to new tables for it, at least */
    uint64_t step_ps;     /* that a step of a link's bring-up takes */
    uint32_t test_packets;
    uint64_t again_ps; /* after a failed test, and doubled with each further one, 6 times */
    /* that a node without a link waits for one, and parted nodes for a way; EMU_NEVER: they wait */
    uint64_t alone_ps;
    uint64_t look_ps; /* between two looks at the errors of links in use, and at their ports */
    /* that a port may send nothing of what it could: then its link is out. EMU_NEVER: for ever */
    uint64_t stuck_ps;
    /* between two times that it carries what waits for links that are out, while something does; */
    uint64_t carry_ps;
    uint64_t carry_last_ps; /* doubled while nothing does, up to this */
    /* of a million packets, beyond which a link between switches is out, or not let in */
    uint32_t errors_inside;
    uint32_t errors_node; /* the same of a node's link: more, where it is the only one */
    void (*event)(void *ctx, const struct manager_event *event); /* may be NULL */
    void *ctx;
};

/** manager_defaults - what holds where nobody says otherwise. */
struct manager_config manager_defaults(void);

/**
 * manager_create - of a fabric whose links are all up. Errors: -ENOMEM; -ENOTSUP, it cannot do
 * without any (fabric_can_reroute()). Where they cannot lose what is on them (fabric_has_links()),
 * they are not to lose their signal: those that are stuck are taken out.
 */
int manager_create(struct manager **ret, struct fabric *fabric,
                   const struct manager_config *config);
void manager_destroy(struct manager *manager);

/**
 * manager_signal - the cable has lost its signal at @now_ps, or has it again. Both of its ends know
 * when this returns. @fault: whose doing the loss is, for the log of hits; 0: nobody's.
 * @hit: packets under way on it, which are lost, and sent again.
 * Errors: -ENOMEM.
 */
int manager_signal(struct manager *manager, uint32_t cable, bool signal, uint32_t fault,
                   uint64_t now_ps, uint32_t *hit);

/**
 * manager_sever - the cable has lost its signal at @now_ps, whatever else befalls it: what it led
 * to is gone. Errors: -ENOMEM. manager_mend() - that is there again, and with it the signal, if
 * nothing else has taken it.
 */
int manager_sever(struct manager *manager, uint32_t cable, uint64_t now_ps);
void manager_mend(struct manager *manager, uint32_t cable, uint64_t now_ps);

/**
 * manager_renewed - devices of another host are made anew: their counts begin at 0. @is: is the
 * switch, or the node, one of its? The other one is TOPO_NONE.
 */
void manager_renewed(struct manager *manager, bool (*is)(void *ctx, uint32_t sw, uint32_t node),
                     void *ctx);

/**
 * manager_plug - the cable's second end is plugged in at @far instead, while it has no signal; it
 * will be found out.
 */
void manager_plug(struct manager *manager, uint32_t cable, const struct topo_at *far);

/** manager_due_ps - when it wants to be stepped; EMU_NEVER. */
uint64_t manager_due_ps(const struct manager *manager);

/** manager_is_busy - is a link on its way back, or are new tables on theirs? */
bool manager_is_busy(const struct manager *manager);

/** manager_step - what is due by @now_ps. Errors, what is due is tried again: -ENOMEM, -E2BIG. */
int manager_step(struct manager *manager, uint64_t now_ps);

/**
 * manager_link_state - of a cable. manager_link_outs() - how often it has gone out of use so far.
 */
enum manager_link manager_link_state(const struct manager *manager, uint32_t cable);
uint64_t manager_link_outs(const struct manager *manager, uint32_t cable);

/**
 * manager_carried - segments that waited for links that were out, and left another way
 * (fabric_carry()).
 */
uint64_t manager_carried(const struct manager *manager);

/** manager_links_out - links that are not in use. */
uint32_t manager_links_out(const struct manager *manager);

#endif
