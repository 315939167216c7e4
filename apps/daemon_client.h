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
    char command[16];           /* name of an attached process */
    uint32_t events;            /* epoll events asked for */
    bool closing;               /* close when all replies are out */
    bool gone;                  /* freed after this round of events */
};

struct daemon {
    struct fabric *fabric;
    const struct daemon_config *config;
    int epoll;
    int timer;          /* once a second while somebody is attached */
    bool ticking;       /* the timer is armed */
    int spare;          /* given up to say why when descriptors run out */
    uint32_t hop_limit; /* switches on the longest route */
    bool shutdown;      /* asked for */
    bool owner_gone;
    struct client *clients;  /* all connections */
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

/** daemon_died - an attached process has gone without detaching: tell its peers, free its node. */
void daemon_died(struct daemon *daemon, struct client *client, const char *how);

/** daemon_tick_when - arm the timer while somebody is attached, disarm it otherwise. */
void daemon_tick_when(struct daemon *daemon);

#endif
