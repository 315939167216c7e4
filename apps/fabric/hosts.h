/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts.h - a network that several hosts have together: parts, replicas, and what keeps these
 * alike.
 */
#ifndef APPS_FABRIC_HOSTS_H
#define APPS_FABRIC_HOSTS_H

#include "apps/fabric/fabric.h"

struct emu_clash;
struct emu_dev;
struct emu_pending;
struct emu_rx;
struct emu_tx;
struct emu_worker;
struct fabric_audit;
struct fabric_came;
struct fabric_comm;
struct fabric_loss;
struct fabric_stall;

/* A cable with one end here and the other on another host. */
struct fabric_crossing {
    uint32_t cable;  /* fabric_cable() */
    uint32_t host;   /* the other one */
    uint32_t number; /* of those that join the same two hosts; in the order of cables, on both */
};

/* The end of it that is here: of a switch, or of a link engine. */
struct fabric_crossing_end {
    struct emu_dev *dev;
    struct emu_tx *tx; /* what it sends */
    struct emu_rx *rx;
    uint8_t port;              /* of the device, for both */
    struct emu_intake *intake; /* of @rx, with link-level retry (emu_retry_join()); NULL: without */
};

/*
 * Host links, as a fabric sees them. Their devices are stepped by its workers. A cable's credits
 * are its far switch's, and pass, with `depth` more where there are no channels, which are for what
 * waits in the host link at the far end until that switch has room; a host link keeps the credits
 * of its own sending end as a sender does: what it puts on the cable takes one, what comes back is
 * added.
 */
struct fabric_crossing_ops {
    uint32_t devices;
    uint32_t depth; /* segments that a cable without channels holds besides, at its far end */
    /* Device @i, on @worker; all are made before any cable is joined. Errors: its own, negative. */
    int (*create)(void *ctx, uint32_t i, struct emu_worker *worker);
    /*
     * In the place of two emu_link_join(), both ways between @end and a device; with an intake the
     * way to @end is an emu_retry_join(), of a replay buffer of that device.
     * @credits: as on one host; with channels emu_vc_ring(). Errors: as above.
     */
    int (*join)(void *ctx, const struct fabric_crossing *crossing,
                const struct fabric_crossing_end *end, uint32_t credits,
                const struct emu_profile *profile);
    /*
     * All devices end, if any was made; each frees its sending ends, emu_link_unjoin(). Workers run
     * no more, and are still there.
     */
    void (*destroy)(void *ctx);
    /*
     * Entries of the crossing that its device has taken from here, and those that it has brought,
     * modulo 2^32. False: some wait to be taken. While workers stand still. NULL: none ever pass.
     */
    bool (*passed)(void *ctx, const struct fabric_crossing *crossing, uint32_t *sent,
                   uint32_t *came);
    /* The sending half of retry of the crossing, to this host's switch; NULL: it has none. */
    struct emu_replay *(*replay)(void *ctx, const struct fabric_crossing *crossing);
    /* References to buffers that devices hold, and those on cables to them; NULL: none ever. */
    uint64_t (*held)(void *ctx);
    /* The clock is rebased: as emu_tx_rebase() and emu_rx_rebase() of all ends. NULL: no times. */
    void (*rebase)(void *ctx, uint64_t by_ps);
    /* Clock virtual: struct emu_windows_hosts (emu/worker/windows.h). NULL: no such clock. */
    void (*agree)(void *ctx, uint64_t *next_ps);
};

/* A network that several hosts have together. Nodes are where topo_first_link() is. */
struct fabric_hosts {
    uint32_t self; /* this host */
    uint32_t count;
    const uint32_t *of; /* by switch: which host has it; borrowed, as are the others */
    const struct fabric_crossing_ops *ops;
    void *ctx;
};

/* --- replicas ---------------------------------------------------------------------- */

/*
 * On several hosts each has a fabric of the whole network, a *replica*: it knows all cables,
 * groups, trees and seats, and has the devices of its own part. What changes them is told to all
 * hosts, in the same order and with the same arguments:
 *
 *     fabric_group_create(), _wide(), fabric_multicast_create(), fabric_group_leave(),
 *     fabric_node_leave(), fabric_link_set(), fabric_reroute(), fabric_regrow(),
 *     fabric_combine_exhaust(), fabric_node_linked(), fabric_seat_set()
 *
 * and each decides the same, by what all know alone; then it does what is to be done to its own
 * devices. -ENOMEM alone is one host's: whoever governs takes back what the others have done, a
 * group by fabric_group_leave(), or gives the host up. Everything else is about devices here: it
 * does nothing, and finds nothing, where they are elsewhere.
 */

/** fabric_switch_host, fabric_node_host - which host has it; one host: 0. Pure. */
uint32_t fabric_switch_host(const struct fabric_config *config, uint32_t sw);
uint32_t fabric_node_host(const struct fabric_config *config, uint32_t node);

/**
 * fabric_way_host - the host with one end of a direction of a cable. @way: 2 * cable, plus 1 for
 * the direction from the cable's first end. @sends: the sending end; else the receiving end.
 * Thread: any.
 */
uint32_t fabric_way_host(const struct fabric *fabric, uint32_t way, bool sends);

/** fabric_crossings - cables between this host and @host; TOPO_NONE: and any other. Pure. */
uint32_t fabric_crossings(const struct fabric_config *config, uint32_t host);

/** fabric_crossings_all - cables between any two hosts: as many on each of them. Pure. */
uint32_t fabric_crossings_all(const struct fabric_config *config);

/** fabric_node_is_here - is the node on this host? */
bool fabric_node_is_here(const struct fabric *fabric, uint32_t node);

/**
 * fabric_cable_ends_here - is the receiving end of the way from (@out) or to the cable's first end
 * here? That is also the sending end of the other way.
 */
bool fabric_cable_ends_here(const struct fabric *fabric, uint32_t cable, bool out);

/**
 * fabric_seat_set - who is at a node on another host, emu_seat_state(): all that are attached here
 * see it when this returns. fabric_seat() - who is at any node, as other hosts are to be told.
 * Errors: -EINVAL, the node is here. Thread: manager.
 */
int fabric_seat_set(struct fabric *fabric, uint32_t node, uint64_t state);
uint64_t fabric_seat(const struct fabric *fabric, uint32_t node);

/* --- what is done to all of them (nodes.c, groups.c) ---------------------------------- */

/* What a host knows of the past of a cable that is down. */
struct fabric_past {
    bool quiet;          /* nothing of it is at the ends that are here */
    bool crosses;        /* one end is here, the other on another host: */
    uint32_t sent, came; /* entries that went there, and that came from there, modulo 2^32 */
};

/* What hosts have carried of what waits for links that are out: links.h. */
struct fabric_carried {
    uint32_t segments; /* that left */
    uint64_t parted;   /* of them: fabric_parted() */
};

/* A link that is to come up, and what other hosts say to it. */
struct fabric_test {
    uint32_t cable;
    uint32_t errors; /* fabric_cable_try() there: the most */
    bool quiet;      /* all of its past has left it, there and on its way: fabric_link_quiet() */
};

/* What hosts see of the ends that they have: by way, 2 * cable + out, and by switch. */
struct fabric_seen {
    uint64_t *packets, *errors; /* at the receiving end, where there are faults */
    struct fabric_port *port;   /* the sending end (links.h), where it is ready */
    uint64_t *trapped;          /* fabric_traps() */
    uint32_t *trapped_to;
};

/* A group that can combine, as the governor's fabric has made it. */
struct fabric_group_call {
    const uint32_t *nodes; /* count of them */
    uint32_t count;
    bool wide;
    uint32_t id; /* that it has there, and must have everywhere */
};

/*
 * On several hosts each has a replica of the fabric, with devices of its own part. What changes one
 * changes all: the governor's fabric calls these, and each returns when all other hosts have done
 * it; link(), linked() and alone() when they have been told, who will do it before anything that
 * they are told later. @ctx: the mirror's. Thread: the manager's.
 */
struct fabric_mirror {
    void *ctx;
    /* An edge for @node, on its @host: fabric_attach() there. */
    int (*attach)(void *ctx, uint32_t host, uint32_t node);
    void (*detach)(void *ctx, uint32_t host, uint32_t node, bool dead);
    void (*seat)(void *ctx, uint32_t node, uint64_t state);           /* fabric_seat_set() */
    void (*linked)(void *ctx, uint32_t node, bool linked);            /* fabric_node_linked() */
    int (*group)(void *ctx, const struct fabric_group_call *group);   /* fabric_group_is() */
    void (*leave)(void *ctx, uint32_t group, uint32_t node);          /* fabric_group_leave() */
    void (*link)(void *ctx, uint32_t cable, bool up, uint32_t fault); /* fabric_link_set() */
    void (*reroute)(void *ctx, const uint32_t *out, uint32_t count);  /* fabric_reroute(), cables */
    void (*cut_off)(void *ctx, bool parted);                          /* fabric_cut_off() */
    void (*totals)(void *ctx, struct fabric_totals *sum);             /* adds the others' */
    void (*comm)(void *ctx, struct fabric_comm *sum);                 /* likewise */
    void (*alone)(void *ctx, uint32_t node);                          /* fabric_node_alone() */
    void (*failed)(void *ctx, uint32_t group);                        /* fabric_group_fails() */
    void (*unit_out)(void *ctx, uint32_t sw);                         /* fabric_unit_out() */

    /*
     * What the others see of cables, each of the ends that it has. Nothing of it has been checked
     * but numbers of cables and switches; the same holds of workers.
     */
    /* fabric_test_far(); @here: fabric_link_past() of this host, one each. */
    void (*test)(void *ctx, struct fabric_test *tests, const struct fabric_past *here,
                 uint32_t count, uint32_t packets);
    /* fabric_ease(), fabric_part() as they are here, and fabric_carry_all(): adds the others'. */
    void (*carry)(void *ctx, bool eases, bool drops, struct fabric_carried *sum);
    /* fabric_look() of all of them. */
    void (*look)(void *ctx, struct fabric_seen *ret);
    /* fabric_losses_look(), and what they found: fabric_loss_heard(). */
    void (*losses)(void *ctx, uint64_t bound_ps);

    /*
     * What the others see of a standstill, each of its own part; never while workers are held,
     * which carry what is asked and answered. Nothing of it has been checked but lengths.
     */
    /* Of the process at @node, there: fabric_pending(), at most half a second old. */
    bool (*pending)(void *ctx, uint32_t host, uint32_t node, struct emu_pending *ret);
    /* fabric_came(), of all of them. */
    uint32_t (*came)(void *ctx, uint32_t group, uint32_t seq, struct fabric_came *ret,
                     uint32_t max);
    bool (*clash)(void *ctx, uint32_t group, struct emu_clash *ret); /* fabric_clash() */
    /* fabric_stalls(), of all of them; their times by our clock. */
    uint32_t (*stalls)(void *ctx, uint64_t now_ns, struct fabric_stall *ret, uint32_t max);
    /* fabric_audit() of all others added to @sum, each line with its host. Errors: as there. */
    int (*audit)(void *ctx, bool routes, struct fabric_audit *sum);
};

/*
 * None of what follows is to be called between fabric_hold() and fabric_go(), unless it says so:
 * what carries calls is held there, too. Thread: manager.
 *
 * fabric_link_told - all other hosts will do what fabric_link_set() did here: before whatever they
 * are told later. fabric_node_alone_told() - the same of fabric_node_alone().
 */
void fabric_link_told(const struct fabric *fabric, uint32_t cable, bool up, uint32_t fault);
void fabric_node_alone_told(const struct fabric *fabric, uint32_t node);

/**
 * fabric_link_past - of the ends that are here. Between fabric_hold() and fabric_go().
 * fabric_test_far() - what other hosts say to links that are to come up: at ends that they have,
 * and on the way between two of them. On one host that all is well. Errors: -ENOMEM.
 */
void fabric_link_past(const struct fabric *fabric, uint32_t cable, struct fabric_past *ret);
int fabric_test_far(struct fabric *fabric, struct fabric_test *tests, uint32_t count,
                    uint32_t packets);

/**
 * fabric_has_far - are there devices on other hosts, that this one governs? fabric_look_far() -
 * what those hosts see; all of @ret was zeros, or is from before. fabric_look() - what this one
 * does of a way that it has an end of; it holds the workers itself.
 */
bool fabric_has_far(const struct fabric *fabric);
void fabric_look_far(const struct fabric *fabric, struct fabric_seen *ret);
void fabric_look(struct fabric *fabric, struct fabric_seen *ret);

/**
 * fabric_loss_heard - @host, another one, has found it: fabric_loss_take() gives it. A loss that no
 * device of @host can have found is dropped, and so is one for which there is no room.
 * fabric_group_fails(), fabric_unit_out() - what follows of a loss, on all hosts alike: something
 * of the group is lost for good; the units of a switch are out of service.
 * fabric_group_fails_all() - the first of them, on this host, which governs, and all others; false:
 * it had failed. fabric_unit_is_out() - are they?
 */
bool fabric_unit_is_out(const struct fabric *fabric, uint32_t sw);
void fabric_loss_heard(struct fabric *fabric, uint32_t host, const struct fabric_loss *loss);
void fabric_group_fails(struct fabric *fabric, uint32_t group);
bool fabric_group_fails_all(struct fabric *fabric, uint32_t group);
void fabric_unit_out(struct fabric *fabric, uint32_t sw, uint64_t now_ps);

/**
 * fabric_crossings_by - the cables between hosts @a and @b that go by pair @number of @of pairs of
 * ports: each is noted in @noted, by cable. Returns their count. @b TOPO_NONE: all of @a's to
 * others.
 */
uint32_t fabric_crossings_by(const struct fabric *fabric, uint32_t a, uint32_t b, uint32_t number,
                             uint32_t of, bool *noted);

/**
 * fabric_sever - where nothing is sent around links that are out: these cables lead nowhere from
 * now on, and all others do again. fabric_reaches() says so of all that may go by one of them;
 * fabric_group_is_severed(), of a group: its tree does. @lost: by cable. Errors: -ENOMEM. Thread:
 * manager.
 */
int fabric_sever(struct fabric *fabric, const bool *lost);
bool fabric_group_is_severed(const struct fabric *fabric, uint32_t group);

/* --- a host that has come back (renew.c) ------------------------------------------------ */

#define FABRIC_LEFT (1u << 31) /* with the number of a node that is no member any more */

/* A group as a replica has it; what it points at is the fabric's, or the caller's. */
struct fabric_group_copy {
    uint32_t id, sources, count;
    bool combines, failed, treeless, parted;
    const uint32_t *nodes; /* with FABRIC_LEFT once it has left */
    struct topo_tree tree;
};

/**
 * fabric_group_each - call @each for every group. fabric_group_restore() - the group, of which no
 * member is here, is this one's, too. Errors: -EINVAL, it is none of this network, or there
 * already; -ENOMEM. Thread: manager.
 */
void fabric_group_each(const struct fabric *fabric,
                       void (*each)(void *ctx, const struct fabric_group_copy *group), void *ctx);
int fabric_group_restore(struct fabric *fabric, const struct fabric_group_copy *copy);

/**
 * fabric_node_word - who is at a node, and whether it has a link, for fabric_node_restore() on a
 * host that begins: nobody is attached there, but has been. Errors: -EINVAL.
 */
uint64_t fabric_node_word(const struct fabric *fabric, uint32_t node);
int fabric_node_restore(struct fabric *fabric, uint32_t node, uint64_t word);

/**
 * fabric_host_life - the devices of @host, this or another one, are in their life @life: 0 at
 * first. What is on its way from earlier ones is not taken any more (engine_life()).
 * Thread: manager; it holds the workers itself.
 */
void fabric_host_life(struct fabric *fabric, uint32_t host, uint32_t life);

/**
 * fabric_groups_through - groups of whose partial results some were in adapters or units of @host:
 * what these had combined is lost with it. At most @max into @groups; returns how many there are.
 */
uint32_t fabric_groups_through(const struct fabric *fabric, uint32_t host, uint32_t *groups,
                               uint32_t max);

/** fabric_mirror - from now on. @mirror: borrowed. Before anything is attached. */
void fabric_mirror(struct fabric *fabric, const struct fabric_mirror *mirror);

/**
 * fabric_attach_far - give a process on @host a node there: as fabric_attach(), but that its
 * descriptors are there. Errors: the same; -EHOSTDOWN.
 */
int fabric_attach_far(struct fabric *fabric, uint32_t host, int64_t want, struct fabric_seat *ret);

/** fabric_group_is - make the group that the governor's fabric has. Errors: as there; -EPROTO. */
int fabric_group_is(struct fabric *fabric, const struct fabric_group_call *group);

#endif
