/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * daemon_client.h - what the daemon's loop and its requests share. Not for others.
 */
#ifndef APPS_DAEMON_CLIENT_H
#define APPS_DAEMON_CLIENT_H

#include "apps/daemon.h"
#include "apps/wire.h"

/* A connection. Owned by the daemon's one thread. */
struct client {
    struct wire wire;
    struct client *next, *prev; /* in daemon->clients */
    pid_t pid;                  /* SO_PEERCRED */
    int64_t node;               /* that it attached to, -1 none */
    uint64_t seat;              /* counts the processes of that node, from 1 */
    char command[16];           /* name of an attached process */
    uint32_t events;            /* epoll events asked for */
    bool more;                  /* lines may be left over from its last turn */
    bool at_end;                /* nothing comes any more: closes once those are answered */
    bool closing;               /* close when all replies are out */
    bool gone;                  /* freed after this round of events */
    bool exits;                 /* it has said that it ends, by itself and without detaching */

    /* Of one that died, daemon_death.c's. */
    int64_t died;      /* node that it was attached to, -1: did not die */
    int end_fd;        /* pidfd, -1 none */
    int64_t how_by_ms; /* until then it may show how it ended */
};

struct daemon {
    struct fabric *fabric;
    const struct daemon_config *config;
    int epoll;
    int timer;          /* once a second while somebody is attached */
    bool ticking;       /* the timer is armed */
    int spare;          /* given up to say why when descriptors run out */
    bool deaf;          /* none is left even for that: nobody is let in until the next tick */
    uint32_t hop_limit; /* switches on the longest route */
    char fabric_id[17]; /* random: tells this fabric from all others, whatever their names */
    bool shutdown;      /* asked for */
    bool owner_gone;
    bool busy;               /* some client has more */
    struct client *clients;  /* all connections */
    struct client *dying;    /* died, and it is not known how: in order, by next */
    struct client **dying_end;
    struct client *owner;    /* NULL when gone */
    struct client **by_node; /* nodes of them: who is attached, or NULL */
    struct daemon_record record;
};

/** daemon_request - answer one request of @client. */
void daemon_request(struct daemon *daemon, struct client *client, struct json_object *request);

/** daemon_reply_error - answer with {"ok":false,…}; @error is one line for the user. */
void daemon_reply_error(struct daemon *daemon, struct client *client, int err, const char *error);

/** daemon_send - queue @message and send what the socket takes. */
void daemon_send(struct daemon *daemon, struct client *client, struct json_object *message);

/** daemon_send_with - the same, with two descriptors that pass to the client and close here. */
void daemon_send_with(struct daemon *daemon, struct client *client, struct json_object *message,
                      const int pass[2]);

/** daemon_seat_free - @client is no longer attached: free its node. */
void daemon_seat_free(struct daemon *daemon, struct client *client);

/**
 * daemon_died - @client, which is gone, had not detached: tell all others, free its node.
 * Telling may find that others are gone; their turn comes after, in the loop of daemon.c.
 */
void daemon_died(struct daemon *daemon, struct client *client);

/** daemon_left - @client detaches: free its node, break the groups that it did not leave. */
void daemon_left(struct daemon *daemon, struct client *client);

/** daemon_dying_add - take over @client, which died and is closed, until it is known how. */
void daemon_dying_add(struct daemon *daemon, struct client *client);

/**
 * daemon_dying_tell - record, tell the owner and free those of whom it is known, in order.
 * @all: as well as it is known. Never waits.
 */
void daemon_dying_tell(struct daemon *daemon, bool all);

/** daemon_dying_wait_ms - how long to sleep for them at most; -1 when there are none. */
int daemon_dying_wait_ms(const struct daemon *daemon);

/** daemon_tick_when - arm the timer while somebody is attached or the daemon deaf. */
void daemon_tick_when(struct daemon *daemon);

#endif
