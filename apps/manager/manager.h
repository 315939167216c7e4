/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * manager.h - the fabric manager: decides which links are in use, tests links that come back, and
 * publishes routing tables and trees for the links in use.
 *
 * It works out of band, as in QsNet III: it uses no capacity of the network. Devices report changes
 * of a link's signal by manager_signal(); the manager discovers everything else when it is stepped.
 * Its times are its user's: simulated on clock virtual, else the host's.
 *
 * Thread: manager; on clock virtual between two advances.
 * Source: QsNet III §V (link bring-up in three steps, error rates), §III (broken links).
 */
#ifndef APPS_MANAGER_MANAGER_H
#define APPS_MANAGER_MANAGER_H

#include "apps/fabric/fabric.h"

struct manager;

/* State of a link. */
enum manager_link {
    MANAGER_UP,       /* in use */
    MANAGER_LOST,     /* no signal */
    MANAGER_BEGINS,   /* step 1: the ends negotiate layer, speed and protocol */
    MANAGER_QUERIES,  /* step 2: each end identifies its peer */
    MANAGER_TESTS,    /* step 3: pseudo-random packets at full rate, errors counted */
    MANAGER_BACKOFF,  /* backoff after a failed test */
    MANAGER_ISOLATED, /* a switch at one end had no route for packets: see MANAGER_EVENT_TRAP */
    MANAGER_SWAPPED   /* it leads elsewhere than in the topology: unused until plugged anew */
};

enum manager_what {
    MANAGER_EVENT_LOST,     /* a link has lost its signal */
    MANAGER_EVENT_UP,       /* a link is in use again; took_ps: since its signal came back */
    MANAGER_EVENT_SWAPPED,  /* a link leads to `far`, contrary to the topology */
    MANAGER_EVENT_FAILED,   /* a link failed its test: `errors` in `packets` */
    MANAGER_EVENT_OUT,      /* a link in use was taken out for its error rate */
    MANAGER_EVENT_TABLES,   /* new tables are in force; took_ps: since the first change for them */
    MANAGER_EVENT_TREELESS, /* no tree is possible now for a group */
    /*
     * A switch had no route for `trapped` unicasts since the last scan; the last one was for node
     * `to`. With trap=isolate, if the switch has no nodes and one of its links is out, all of its
     * links are taken out until that link is up again.
     */
    MANAGER_EVENT_TRAP,
    /* A port of a link could send, but did not, for took_ps. Reported before the link goes out. */
    MANAGER_EVENT_STUCK,
    /*
     * Without acknowledgments: `partitioned` pairs of a switch with nodes and a destination have
     * had no route for too long (fabric_reaches()). Segments between them are dropped until they
     * have one. Reported repeatedly, and before the tables change.
     */
    MANAGER_EVENT_PARTITIONED,
    MANAGER_EVENT_NO_LINK /* a node has had no link for too long: its adapter gives up */
};

struct manager_event {
    enum manager_what what;
    uint64_t at_ps;
    uint32_t cable; /* TABLES, TREELESS, TRAP, ALONE, PARTED: TOPO_NONE */
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
            uint32_t isolated; /* links that were taken out for it */
        };
        uint32_t group; /* TREELESS */
        uint32_t node;  /* ALONE */
    };
    uint32_t links_out; /* links that are not in use */
    uint64_t
        partitioned; /* TABLES, PARTED: pairs of a switch with nodes and a destination, no route */
};

struct manager_config {
    bool reroute;         /* false: never change the tables */
    uint64_t reaction_ps; /* least time from a change to new tables */
    uint64_t step_ps;     /* duration of a step of a link's bring-up */
    uint32_t test_packets;
    uint64_t again_ps; /* backoff after a failed test, doubled by each further one, 6 times */
    /* how long nodes wait for a link, and partitioned nodes for a route; EMU_NEVER: no limit */
    uint64_t no_link_ps;
    uint64_t scan_ps; /* interval of checks of the errors and ports of links in use */
    /* how long a port may not send although it could; then its link is out. EMU_NEVER: no limit */
    uint64_t stuck_ps;
    uint64_t in_flight_ps;      /* interval of rerouting in flight while segments leave, */
    uint64_t in_flight_last_ps; /* doubled while none do, up to this */
    /* limit of errors in a million packets beyond which a link between switches is not used */
    uint32_t errors_inside;
    uint32_t errors_node; /* the same for a node's link: higher, since it may be the only one */
    void (*event)(void *ctx, const struct manager_event *event); /* may be NULL */
    void *ctx;
};

struct manager_config manager_defaults(void);

/**
 * manager_create - manage a fabric whose links are all up. Errors: -ENOMEM; -ENOTSUP, the fabric
 * cannot reroute (fabric_can_reroute()). Without fabric_has_links(), links must not lose their
 * signal, but stuck ones are taken out.
 */
int manager_create(struct manager **ret, struct fabric *fabric,
                   const struct manager_config *config);
void manager_destroy(struct manager *manager);

/**
 * manager_signal - the cable has lost its signal at @now_ps, or has it again. Both ends know when
 * this returns. @fault: the fault that caused the loss, for the log of hits; 0: none.
 * @hit: number of packets on the cable, which are lost and retransmitted. Errors: -ENOMEM.
 */
int manager_signal(struct manager *manager, uint32_t cable, bool signal, uint32_t fault,
                   uint64_t now_ps, uint32_t *hit);

/**
 * manager_sever - the device or host at one end of the cable is gone, so the cable has no signal
 * from @now_ps on. Errors: -ENOMEM. manager_rejoin() - it has rejoined; the signal is back unless
 * it was lost for another reason, too.
 */
int manager_sever(struct manager *manager, uint32_t cable, uint64_t now_ps);
void manager_rejoin(struct manager *manager, uint32_t cable, uint64_t now_ps);

/**
 * manager_resync - devices of another host were recreated, with counters at 0. @is: is the switch,
 * or the node, on that host? The other argument is TOPO_NONE.
 */
void manager_resync(struct manager *manager, bool (*is)(void *ctx, uint32_t sw, uint32_t node),
                    void *ctx);

/** manager_plug - plug the cable's second end in at @peer, for tests, while it has no signal. */
void manager_plug(struct manager *manager, uint32_t cable, const struct topo_at *peer);

/** manager_due_ps - the time of the next step; EMU_NEVER. */
uint64_t manager_due_ps(const struct manager *manager);

/** manager_is_busy - is a link being brought up, or are new tables due? */
bool manager_is_busy(const struct manager *manager);

/** manager_step - do all work due by @now_ps. Errors: -ENOMEM, -E2BIG; it is retried later. */
int manager_step(struct manager *manager, uint64_t now_ps);

/** manager_link_state - state of a cable. manager_link_outs() - how often it went out of use. */
enum manager_link manager_link_state(const struct manager *manager, uint32_t cable);
uint64_t manager_link_outs(const struct manager *manager, uint32_t cable);

/** manager_rerouted - number of segments rerouted in flight (fabric_reroute_in_flight()). */
uint64_t manager_rerouted(const struct manager *manager);

/** manager_links_out - number of links that are not in use. */
uint32_t manager_links_out(const struct manager *manager);

#endif
