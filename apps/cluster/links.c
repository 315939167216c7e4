/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.c - Ethernet ports, and the host links over them.
 *
 * Several pairs of ports may connect two hosts. Cable k between the two hosts then uses pair k
 * modulo the number of pairs, on both hosts (fabric_crossings_by()). The control channel uses the
 * first pair.
 */
#include "apps/cluster/links.h"
#include "apps/fabric/hosts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/control/conn.h"
#include "apps/base/message.h"
#include "emu/hostif/bounds.h"
#include "emu/hostlink/hostlink.h"
#include "emu/util/now.h"

/* minimum number of frames of a port; it has more if its sessions need more */
#define PORT_FRAMES 4096u
#define FRAME_KIB   10u /* memory of a frame, including the overhead of DPDK */
/* minimum memory of all ports of a process; larger if their frames need more */
#define MEMORY_MIB     256u
#define WINDOW_MOST    1024u /* maximum number of unacknowledged frames of a session (its window) */
#define REJECTED_BYTES 192   /* space for a line about a rejected host */
#define CLOSE_LOOK_MS  1     /* interval between checks whether control channels are closed */

struct port {
    struct emu_hostport *port; /* NULL once `link` owns the port */
    struct emu_hostlink *link; /* NULL until the fabric creates it */
    uint32_t peers;
    struct emu_hostlink_peer peer[CLUSTER_HOSTS_MAX];
};

/*
 * A pair of ports between this host and another one. The host link over this host's port has a peer
 * for each pair.
 */
struct pair {
    struct port *port;
    uint32_t peer; /* index in port->peer */
    uint32_t host;
    uint32_t number;                /* number of the pair among those that connect the two hosts */
    uint32_t of;                    /* number of pairs that connect the two hosts */
    char duplicate[REJECTED_BYTES]; /* the rejected host that was reported last */
    bool warned;                    /* links_warn() has explained why the host is not connected */
};

struct links {
    const struct cluster *cluster;
    const struct fabric_config *config;
    struct fabric_crossing_ops ops;
    struct fabric_hosts hosts;
    bool has_key;
    uint8_t key[CLUSTER_KEY_BYTES];
    int control[CLUSTER_HOSTS_MAX]; /* by host: this host's end of the control channel, or -1 */
    /* links without a control channel; their socket only shows the end of the session */
    uint32_t watches;
    struct hosts_link watched[CLUSTER_HOSTS_MAX * CLUSTER_PORTS_MAX];
    uint32_t ports;
    struct port port[CLUSTER_PORTS_MAX];
    uint32_t pairs;
    struct pair pair[CLUSTER_PORTS_MAX * CLUSTER_HOSTS_MAX]; /* ordered by port, then by host */
};

static const struct emu_session *session_of(const struct pair *pair)
{
    return emu_hostlink_session(pair->port->link, pair->peer);
}

static bool is_up(const struct pair *pair)
{
    return emu_hostlink_phase(pair->port->link, pair->peer) == EMU_HOSTLINK_UP;
}

/* --- calls of the fabric -------------------------------------------------------------- */

static int links_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    struct links *links = ctx;
    struct port *port = &links->port[i];
    const struct emu_hostlink_config config = {.port = port->port,
                                               .nodes = links->config->graph->nodes,
                                               .peers = port->peer,
                                               .count = port->peers};
    int err = emu_hostlink_create(&port->link, worker, &config);

    if (err)
        return err;
    port->port = NULL;
    for (uint32_t p = 0; p < port->peers; p++)
        port->peer[p].control_fd = -1; /* the host link owns the socket */
    return 0;
}

/* Return the pair of ports that a cable between hosts uses; NULL if no ports connect them. */
static const struct pair *pair_of(const struct links *links, const struct fabric_crossing *crossing)
{
    for (uint32_t i = 0; i < links->pairs; i++)
        if (links->pair[i].host == crossing->host &&
            links->pair[i].number == crossing->number % links->pair[i].of)
            return &links->pair[i];
    return NULL;
}

static int links_join(void *ctx, const struct fabric_crossing *crossing,
                      const struct fabric_crossing_end *end, uint32_t credits,
                      const struct emu_profile *profile)
{
    const struct links *links = ctx;
    const struct pair *pair = pair_of(links, crossing);

    if (!pair)
        return -ENODEV;
    return emu_hostlink_join(pair->port->link, pair->peer, crossing->number / pair->of, end->tx,
                             end->rx, end->dev, end->port, end->intake, credits, links->ops.depth,
                             profile);
}

static bool links_passed(void *ctx, const struct fabric_crossing *crossing, uint32_t *sent,
                         uint32_t *came)
{
    const struct links *links = ctx;
    const struct pair *pair = pair_of(links, crossing);

    *sent = *came = 0;
    if (!pair)
        return true;
    return emu_hostlink_passed(pair->port->link, pair->peer, crossing->number / pair->of, sent,
                               came);
}

static struct emu_replay *links_replay(void *ctx, const struct fabric_crossing *crossing)
{
    const struct links *links = ctx;
    const struct pair *pair = pair_of(links, crossing);

    return pair ? emu_hostlink_replay(pair->port->link, pair->peer, crossing->number / pair->of)
                : NULL;
}

static void links_destroy(void *ctx)
{
    struct links *links = ctx;

    for (uint32_t p = 0; p < links->ports; p++) {
        emu_hostlink_destroy(links->port[p].link);
        links->port[p].link = NULL;
    }
}

static uint64_t links_held(void *ctx)
{
    const struct links *links = ctx;
    uint64_t held = 0;

    for (uint32_t p = 0; p < links->ports; p++)
        held += emu_hostlink_bufs(links->port[p].link);
    return held;
}

static const struct fabric_crossing_ops crossing_ops = {
    .create = links_create,
    .join = links_join,
    .destroy = links_destroy,
    .passed = links_passed,
    .replay = links_replay,
    .held = links_held,
};

/* --- setup by the cluster file ---------------------------------------------------------- */

/* Return whether the control channel between the coordinator and an agent uses this pair. */
static bool carries_control(const struct links *links, const struct pair *pair)
{
    return !pair->number && (!links->hosts.self || !pair->host);
}

/*
 * Make the socket pair of a peer. For the first pair of ports between the coordinator and another
 * host, the sockets are this host's end of the control channel. For other pairs of ports the
 * sockets carry no data: the device closes its end when the session ends, and only this hang-up
 * matters.
 */
static int peer_control(struct links *links, const struct pair *which,
                        struct emu_hostlink_peer *peer)
{
    int pair[2];

    peer->control_fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    if (carries_control(links, which))
        links->control[which->host] = pair[0];
    else
        links->watched[links->watches++] = (struct hosts_link){.host = which->host,
                                                               .number = which->number,
                                                               .of = which->of,
                                                               .closed_fd = pair[0]};
    peer->control_fd = pair[1];
    return 0;
}

/*
 * Return the largest window with which PORT_FRAMES frames suffice for @sessions sessions, but not
 * less than the minimum window.
 */
static uint32_t window_of(uint32_t sessions)
{
    uint32_t window = WINDOW_MOST;

    while (window > EMU_FRAME_WINDOW_LEAST && sessions * EMU_SESSION_FRAMES(window) > PORT_FRAMES)
        window /= 2;
    return window;
}

static uint32_t port_frames(const struct cluster *cluster, uint32_t self, uint32_t port)
{
    uint32_t sessions = cluster_sessions(cluster, self, port);
    uint32_t frames = sessions * EMU_SESSION_FRAMES(window_of(sessions));

    return frames > PORT_FRAMES ? frames : PORT_FRAMES;
}

struct emu_hostport_options links_port(const struct cluster *cluster, uint32_t self, uint32_t port)
{
    uint32_t frames = 0, mib;

    for (uint32_t p = 0; p < cluster->host[self].ports; p++)
        frames += port_frames(cluster, self, p);
    mib = frames / 1024 * FRAME_KIB;
    return (struct emu_hostport_options){.frames = port_frames(cluster, self, port),
                                         .memory_mib = mib > MEMORY_MIB / 2 ? 2 * mib : MEMORY_MIB};
}

struct emu_session_config links_session(const struct cluster *cluster, uint32_t self, uint32_t host,
                                        uint32_t number, const uint8_t *digest, const uint8_t *key)
{
    struct emu_session_config session = {.fabric = cluster_fabric(cluster) + number,
                                         .host = (uint16_t)self,
                                         .peer = (uint16_t)host,
                                         .key = key,
                                         .silent_ns = cluster->silent_ns};
    const struct cluster_port *far;
    uint32_t mine, its;

    cluster_link(cluster, self, host, number, &mine, &its);
    session.window = window_of(cluster_sessions(cluster, self, mine));
    far = &cluster->host[host].port[its];
    memcpy(session.digest, digest, sizeof session.digest);
    if (far->has_mac)
        memcpy(session.peer_mac, far->mac, sizeof session.peer_mac);
    return session;
}

static int add_pair(struct links *links, struct port *port, const struct pair *pair,
                    const uint8_t *digest)
{
    uint32_t crossings = fabric_crossings(links->config, pair->host);
    struct emu_hostlink_peer *peer = &port->peer[port->peers];

    *peer = (struct emu_hostlink_peer){.session = links_session(links->cluster, links->hosts.self,
                                                                pair->host, pair->number, digest,
                                                                links->has_key ? links->key : NULL),
                                       .cables = crossings / pair->of +
                                                 (pair->number < crossings % pair->of),
                                       .control_fd = -1};
    /* An agent ends when it loses the coordinator, so this session connects only once. */
    peer->session.once = links->hosts.self && carries_control(links, pair);
    links->pair[links->pairs] = *pair;
    links->pair[links->pairs].port = port;
    links->pair[links->pairs++].peer = port->peers++;
    return peer_control(links, pair, peer);
}

static int add_pairs(struct links *links, uint32_t p, uint32_t host, const uint8_t *digest)
{
    struct pair pair = {.host = host, .of = cluster_links(links->cluster, links->hosts.self, host)};
    int err = 0;

    for (; !err && pair.number < pair.of; pair.number++) {
        uint32_t mine, its;

        cluster_link(links->cluster, links->hosts.self, host, pair.number, &mine, &its);
        if (mine == p)
            err = add_pair(links, &links->port[p], &pair, digest);
    }
    return err;
}

/*
 * Use huge pages only if some port is a physical adapter, because the adapter then needs fewer
 * IOMMU entries.
 */
static int open_ports(struct links *links, char *error, size_t error_bytes)
{
    const struct cluster_host *host = &links->cluster->host[links->hosts.self];
    bool huge_pages = false;
    int err = 0;

    for (uint32_t p = 0; p < links->ports; p++)
        huge_pages |= strncmp(host->port[p].device, "net_", 4) != 0;
    for (uint32_t p = 0; !err && p < links->ports; p++) {
        struct emu_hostport_options options = links_port(links->cluster, links->hosts.self, p);

        options.huge_pages = huge_pages;
        err = emu_hostport_open(&links->port[p].port, host->port[p].device, &options, error,
                                error_bytes);
    }
    return err;
}

static int links_make(struct links *links, char *error, size_t error_bytes)
{
    uint8_t digest[CLUSTER_DIGEST_BYTES];
    int err = cluster_key(links->cluster, links->key, error, error_bytes);

    links->has_key = !err;
    if (err && err != -ENOENT)
        return err;
    *error = '\0';
    err = cluster_digest(links->cluster, links->config, digest);
    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t h = 0; !err && h < links->cluster->hosts; h++)
            if (h != links->hosts.self)
                err = add_pairs(links, p, h, digest);
    if (err)
        return fail(err, error, error_bytes, "cannot make host links: %s", strerror(-err));
    return open_ports(links, error, error_bytes);
}

/*
 * Return the depth of cables between hosts: the number of entries that a cable can store while its
 * receiver waits for a core. Such a wait takes milliseconds on a host with more threads than cores.
 * If there are few cables, each of them gets more entries. All hosts compute the same depth.
 */
static uint32_t links_depth(const struct fabric_config *config)
{
    uint32_t cables = fabric_crossings_all(config);
    uint32_t depth = cables ? EMU_HOSTLINK_DEPTHS / cables : 0;

    if (config->clock != EMU_CLOCK_RAW)
        return 0;
    depth = depth < EMU_HOSTLINK_DEEP ? depth : EMU_HOSTLINK_DEEP;
    return depth > EMU_HOSTLINK_DEPTH ? depth : EMU_HOSTLINK_DEPTH;
}

int links_open(struct links **ret, const struct cluster *cluster, uint32_t self,
               struct fabric_config *config, const uint32_t *host_of, char *error,
               size_t error_bytes)
{
    struct links *links = calloc(1, sizeof *links);
    int err;

    if (!links)
        return fail(-ENOMEM, error, error_bytes, "no memory for host links");
    links->cluster = cluster;
    links->config = config;
    links->ports = cluster->host[self].ports;
    links->ops = crossing_ops;
    links->ops.devices = links->ports;
    links->hosts = (struct fabric_hosts){
        .self = self, .count = cluster->hosts, .of = host_of, .ops = &links->ops, .ctx = links};
    for (uint32_t h = 0; h < CLUSTER_HOSTS_MAX; h++)
        links->control[h] = -1;
    config->hosts = &links->hosts;
    links->ops.depth = links_depth(config);
    err = links_make(links, error, error_bytes);
    if (err) {
        links_close(links);
        return err;
    }
    *ret = links;
    return 0;
}

static bool all_closed(const struct links *links)
{
    for (uint32_t i = 0; i < links->pairs; i++) {
        const struct pair *pair = &links->pair[i];

        if (pair->port->link && carries_control(links, pair) &&
            !emu_hostlink_is_closed(pair->port->link, pair->peer))
            return false;
    }
    return true;
}

void links_await_close(const struct links *links, uint64_t most_ms)
{
    int64_t until_ms = emu_now_ms() + emu_bound_int_ms(most_ms);

    while (!all_closed(links) && emu_now_ms() < until_ms)
        poll(NULL, 0, CLOSE_LOOK_MS);
}

void links_close(struct links *links)
{
    if (!links)
        return;
    for (uint32_t p = 0; p < links->ports; p++) {
        struct emu_hostport *port = links->port[p].port;

        if (port)
            port->ops->close(port);
        for (uint32_t i = 0; i < links->port[p].peers; i++)
            if (links->port[p].peer[i].control_fd >= 0)
                close(links->port[p].peer[i].control_fd);
    }
    for (uint32_t h = 0; h < CLUSTER_HOSTS_MAX; h++)
        if (links->control[h] >= 0)
            close(links->control[h]);
    for (uint32_t i = 0; i < links->watches; i++)
        close(links->watched[i].closed_fd);
    explicit_bzero(links->key, sizeof links->key);
    free(links);
}

int links_control(struct links *links, uint32_t host)
{
    int fd = links->control[host];

    links->control[host] = -1;
    return fd;
}

const struct hosts_link *links_watched(const struct links *links, uint32_t *count)
{
    *count = links->watches;
    return links->watched;
}

bool links_up(const void *ctx)
{
    const struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++)
        if (!is_up(&links->pair[i]))
            return false;
    return true;
}

bool links_why(const void *ctx, char *text, size_t bytes)
{
    const struct links *links = ctx;
    bool may_come = true;

    *text = '\0';
    for (uint32_t i = 0; i < links->pairs && may_come; i++) {
        const struct emu_session *session = session_of(&links->pair[i]);
        char why[128];

        may_come = emu_session_state(session) != EMU_SESSION_REFUSED;
        if (emu_session_state(session) == EMU_SESSION_UP || (may_come && *text))
            continue;
        emu_session_why(session, why, sizeof why);
        snprintf(text, bytes, "host %s: %s", links->cluster->host[links->pair[i].host].name, why);
    }
    return may_come;
}

bool links_launch_why(const void *ctx, bool (*failed)(uint32_t host, char *text, size_t bytes),
                      char *text, size_t bytes)
{
    const struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++) {
        const struct pair *pair = &links->pair[i];
        char why[128], how[LINKS_HOW_BYTES];

        if (is_up(pair) || !failed(pair->host, how, sizeof how))
            continue;
        emu_session_why(session_of(pair), why, sizeof why);
        snprintf(text, bytes, "host %s: %s; %s", links->cluster->host[pair->host].name, why, how);
        return true;
    }
    return false;
}

/* --- a host that rejoins -------------------------------------------------------------------- */

/* Make a socket pair for the session's next incarnation. Returns this host's end, or -errno. */
static int peer_socket(const struct pair *of)
{
    int pair[2], old;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    old = emu_hostlink_control(of->port->link, of->peer, pair[1]);
    if (old >= 0)
        close(old);
    return pair[0];
}

int links_control_again(void *ctx, uint32_t host)
{
    const struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++)
        if (links->pair[i].host == host && !links->pair[i].number)
            return peer_socket(&links->pair[i]);
    return -ENODEV;
}

/* Return the watched link over @pair; NULL if the pair carries the control channel. */
static struct hosts_link *watched_of(struct links *links, const struct pair *pair)
{
    for (uint32_t i = 0; i < links->watches; i++)
        if (links->watched[i].host == pair->host && links->watched[i].number == pair->number)
            return &links->watched[i];
    return NULL;
}

/* If the session of a watched link has ended, watch its next incarnation over a new socket. */
static int watch_again(struct links *links, const struct pair *pair)
{
    struct hosts_link *watched = watched_of(links, pair);
    char none;
    int fd;

    if (!watched || recv(watched->closed_fd, &none, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        return 0;
    fd = peer_socket(pair);
    if (fd < 0)
        return fd;
    close(watched->closed_fd);
    watched->closed_fd = fd;
    return 0;
}

int links_rejoin(void *ctx, uint32_t host)
{
    struct links *links = ctx;
    int up = 1, err = 0;

    for (uint32_t i = 0; !err && i < links->pairs; i++) {
        const struct pair *pair = &links->pair[i];

        if (pair->host != host)
            continue;
        err = watch_again(links, pair);
        emu_hostlink_bring_up(pair->port->link, pair->peer);
        up &= is_up(pair);
    }
    return err ? err : up;
}

bool links_refused(const void *ctx, uint32_t host, char *text, size_t bytes)
{
    const struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++)
        if (links->pair[i].host == host && emu_session_is_refused(session_of(&links->pair[i]))) {
            emu_session_why(session_of(&links->pair[i]), text, bytes);
            return true;
        }
    return false;
}

void links_warn(void *ctx)
{
    struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++) {
        struct pair *pair = &links->pair[i];
        const struct emu_session *session = session_of(pair);
        char why[128];

        if (pair->warned || !emu_session_is_refused(session) ||
            /* in this state, the start will fail soon and print the reason */
            emu_session_state(session) == EMU_SESSION_REFUSED)
            continue;
        pair->warned = true;
        emu_session_why(session, why, sizeof why);
        print_message("host %s: %s; waiting for it (--bound start)",
                      links->cluster->host[pair->host].name, why);
    }
}

/*
 * If another host was rejected since the last report, store its text in pair->duplicate, and return
 * true. Only the first pair of ports between two hosts reports this.
 */
static bool take_new_rejection(struct pair *pair)
{
    char who[REJECTED_BYTES] = "";

    if (pair->number || !emu_session_impostor(session_of(pair), who, sizeof who) ||
        strcmp(who, pair->duplicate) == 0)
        return false;
    memcpy(pair->duplicate, who, sizeof pair->duplicate);
    return true;
}

const char *links_duplicate(void *ctx, uint32_t *host)
{
    struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++)
        if (take_new_rejection(&links->pair[i])) {
            *host = links->pair[i].host;
            return links->pair[i].duplicate;
        }
    return NULL;
}

void links_print_duplicates(void *ctx)
{
    struct links *links = ctx;

    for (uint32_t i = 0; i < links->pairs; i++) {
        struct pair *pair = &links->pair[i];

        if (take_new_rejection(pair))
            print_message(LINKS_DUPLICATE, links->cluster->host[pair->host].name, pair->duplicate);
    }
}

/* --- report -------------------------------------------------------------------------------- */

/* Add the estimated offset of the other host's clock, which is used to convert times. */
static struct json_object *add_clock(struct json_object *ret, struct emu_hostlink_clock known)
{
    if (!known.known)
        return ret;
    json_object_object_add(ret, "clock_offset_ns", json_object_new_int64(known.offset_ns));
    json_object_object_add(ret, "clock_drift_ppb", json_object_new_int64(known.drift_ppb));
    return json_add_number(ret, "clock_error_ns", known.error_ns);
}

static struct json_object *pair_report(const struct links *links, const struct pair *pair)
{
    const struct emu_hostlink_counts *counts = emu_hostlink_counts(pair->port->link, pair->peer);
    const struct emu_session *session = session_of(pair);
    const struct emu_session_counts *frames = emu_session_counts(session);
    struct json_object *ret = json_object_new_object();
    const struct {
        const char *name;
        const _Atomic uint64_t *count;
    } all[] = {{"segments_sent", &counts->entries_sent},
               {"segments_received", &counts->entries_received},
               {"frames_sent", &frames->frames_sent},
               {"frames_received", &frames->frames_received},
               {"sent_again", &frames->sent_again},
               {"timeouts", &frames->timeouts},
               {"doubles", &frames->doubles},
               {"out_of_order", &frames->out_of_order},
               {"foreign", &frames->foreign},
               {"forged", &frames->forged},
               {"bad", &counts->bad},
               {"overrun", &counts->overrun},
               {"unearned", &counts->unearned},
               {"untimely", &counts->untimely},
               {"cuts", &counts->cuts},
               {"dropped", &counts->discarded}};

    json_add_text(ret, "host", links->cluster->host[pair->host].name);
    json_add_number(ret, "cables", pair->port->peer[pair->peer].cables);
    json_add_number(ret, "malformed", /* sum of frames and of records in frames */
                    emu_count_read(&frames->malformed) + emu_count_read(&counts->malformed));
    for (size_t c = 0; c < sizeof all / sizeof all[0]; c++)
        json_add_number(ret, all[c].name, emu_count_read(all[c].count));
    return add_clock(json_add_number(ret, "round_trip_ns", emu_session_rtt_ns(session)),
                     emu_hostlink_clock(pair->port->link, pair->peer));
}

struct json_object *links_report(const struct links *links)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < links->pairs; i++)
        if (links->pair[i].port->link)
            json_object_array_add(list, pair_report(links, &links->pair[i]));
    return list;
}
