/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manager.h - the fabric manager, which decides which links are in use, tests links whose signal
 * has returned, and publishes routing tables and trees for the links in use.
 *
 * It works out of band, as in QsNet III, and uses no capacity of the network. Its caller reports
 * changes of a link's signal by manager_signal(). The manager discovers everything else in
 * manager_step(). The caller passes all times: simulated time on clock virtual, otherwise the
 * host's time.
 *
 * A link is *out* while the manager does not use it. The *bring-up* of a link is the three steps
 * between the return of its signal and its use. *Rerouting in flight* moves segments that wait for
 * a link that is out to another route (links.h). Two nodes are *partitioned* if no route of links
 * in use connects them.
 *
 * Thread: the manager of the fabric; on clock virtual only between two calls of fabric_advance().
 * Source: QsNet III §V (link bring-up in three steps, error rates), §III (broken links).
 */
#ifndef APPS_MANAGER_MANAGER_H
#define APPS_MANAGER_MANAGER_H

#include "apps/fabric/fabric.h"

struct manager;

enum manager_link {
    MANAGER_UP,      /* in use */
    MANAGER_LOST,    /* no signal */
    MANAGER_BEGINS,  /* bring-up step 1: the ends negotiate layer, speed and protocol */
    MANAGER_QUERIES, /* bring-up step 2: each end identifies its peer */
    /* bring-up step 3: the ends exchange test packets at full rate, and count errors */
    MANAGER_TESTS,
    MANAGER_BACKOFF,  /* waits after a failed test, too many errors, or a stuck port */
    MANAGER_ISOLATED, /* taken out with all links of a switch: see MANAGER_EVENT_TRAP */
    /* leads to another port than in the topology; out until its signal is lost */
    MANAGER_SWAPPED
};

enum manager_what {
    MANAGER_EVENT_LOST,     /* a link has lost its signal */
    MANAGER_EVENT_UP,       /* a link is in use again, `took_ps` after its signal returned */
    MANAGER_EVENT_SWAPPED,  /* a link leads to `peer`, contrary to the topology */
    MANAGER_EVENT_FAILED,   /* a link failed its test, with `errors` errors in `packets` packets */
    MANAGER_EVENT_OUT,      /* a link in use was taken out because of its error rate */
    MANAGER_EVENT_TABLES,   /* new tables are in force, `took_ps` after a link's first change */
    MANAGER_EVENT_TREELESS, /* a group has no tree, and none is possible now */
    /*
     * A switch had no route for `trapped` unicasts since the last scan; the last of them was for
     * node `to`. If the profile has trap=isolate, the switch has no nodes, and one of its links is
     * out, then all of its links are taken out until that link is up again.
     */
    MANAGER_EVENT_TRAP,
    /* A port of a link was able to send for `took_ps`, but did not. The link is then taken out. */
    MANAGER_EVENT_STUCK,
    /*
     * Without acknowledgments: `partitioned` pairs of a switch with nodes and a destination have
     * had no route for too long (fabric_reaches()). Segments between them are dropped until there
     * is a route. The event is repeated, the last time just before the tables change.
     */
    MANAGER_EVENT_PARTITIONED,
    MANAGER_EVENT_NO_LINK /* `node` has had no link for too long: its adapter gives up packets */
};

struct manager_event {
    enum manager_what what;
    uint64_t at_ps;
    uint32_t cable; /* TOPO_NONE for TABLES, TREELESS, TRAP, NO_LINK and PARTITIONED */
    union {
        uint64_t took_ps;    /* UP, TABLES, STUCK */
        struct topo_at peer; /* SWAPPED */
        struct {             /* FAILED, OUT */
            uint64_t errors;
            uint64_t packets;
        };
        struct {              /* TRAP */
            uint64_t trapped; /* packets */
            uint32_t sw;
            uint32_t to;       /* node */
            uint32_t isolated; /* links that were taken out to isolate the switch */
        };
        uint32_t group; /* TREELESS */
        uint32_t node;  /* NO_LINK */
    };
    uint32_t links_out; /* links that are not in use */
    /* TABLES, PARTITIONED: number of pairs (a switch with nodes, a destination) without a route */
    uint64_t partitioned;
};

struct manager_config {
    bool reroute;         /* false: never change the tables */
    uint64_t reaction_ps; /* time from the first change of a link to new tables */
    uint64_t step_ps;     /* duration of each step of a link's bring-up */
    uint32_t test_packets;
    /* backoff after a failed test; each further failure doubles it, up to 64 times this */
    uint64_t again_ps;
    /* how long nodes wait for a link, and partitioned nodes for a route; EMU_NEVER: forever */
    uint64_t no_link_ps;
    uint64_t scan_ps; /* interval of checks of the errors and ports of links in use */
    /* a link is taken out if its port could send for this long, but did not; EMU_NEVER: never */
    uint64_t stuck_ps;
    uint64_t in_flight_ps;      /* shortest interval between two reroutings in flight */
    uint64_t in_flight_last_ps; /* longest interval; it doubles while no segments are moved */
    /* maximum number of errors in a million packets on links between switches */
    uint32_t errors_inside;
    /* the same on links of nodes; higher, because a node may have only one link */
    uint32_t errors_node;
    void (*event)(void *ctx, const struct manager_event *event); /* may be NULL */
    void *ctx;
};

struct manager_config manager_defaults(void);

/**
 * manager_create - create the manager of a fabric. At first all links are in use. If
 * fabric_has_links() is false, no link may lose its signal, but links with stuck ports are taken
 * out. Errors: -ENOMEM; -ENOTSUP, fabric_can_reroute() is false.
 */
int manager_create(struct manager **ret, struct fabric *fabric,
                   const struct manager_config *config);
void manager_destroy(struct manager *manager);

/**
 * manager_signal - report that the cable has lost its signal at @now_ps or, if @signal, has it
 * again. When the call returns after a loss, neither end sends any more. @fault: the fault that
 * caused the loss, for the log of hits; 0: none. @hit: receives the number of packets that were on
 * the cable; these are lost and will be retransmitted. Errors: -ENOMEM.
 */
int manager_signal(struct manager *manager, uint32_t cable, bool signal, uint32_t fault,
                   uint64_t now_ps, uint32_t *hit);

/**
 * manager_sever - report that the device or host at one end of the cable is lost, so that the cable
 * has no signal from @now_ps on. Errors: -ENOMEM.
 * manager_rejoin() - report that the device or host has rejoined. The cable then has its signal
 * again, unless this was also lost for another reason.
 */
int manager_sever(struct manager *manager, uint32_t cable, uint64_t now_ps);
void manager_rejoin(struct manager *manager, uint32_t cable, uint64_t now_ps);

/**
 * manager_resync - report that the devices of another host were recreated, with all counters at 0.
 * @is: returns whether @sw or @node is on that host; one of these arguments is TOPO_NONE.
 */
void manager_resync(struct manager *manager, bool (*is)(void *ctx, uint32_t sw, uint32_t node),
                    void *ctx);

/** manager_plug - for tests: plug the second end of a cable that has no signal into @peer. */
void manager_plug(struct manager *manager, uint32_t cable, const struct topo_at *peer);

/** manager_due_ps - return when to call manager_step() next; EMU_NEVER: nothing is due. */
uint64_t manager_due_ps(const struct manager *manager);

/** manager_is_busy - return whether a link is being brought up, or new tables are due. */
bool manager_is_busy(const struct manager *manager);

/**
 * manager_step - do all work that is due by @now_ps. Errors: -ENOMEM, -E2BIG; a later step tries
 * again to publish the tables.
 */
int manager_step(struct manager *manager, uint64_t now_ps);

/**
 * manager_link_state - return the state of a cable's link.
 * manager_link_outs() - return how often this link has been taken out or lost.
 * manager_rerouted() - return how many segments rerouting in flight has moved.
 * manager_links_out() - return the number of links not in use now.
 */
enum manager_link manager_link_state(const struct manager *manager, uint32_t cable);
uint64_t manager_link_outs(const struct manager *manager, uint32_t cable);
uint64_t manager_rerouted(const struct manager *manager);
uint32_t manager_links_out(const struct manager *manager);

#endif
