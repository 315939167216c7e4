/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.c - Ethernet ports and what goes over them.
 *
 * Two hosts may be joined by several pairs of ports. Cable k of those that join them goes over pair
 * k modulo the pairs, as both hosts reckon alike (fabric_crossings_by()); the control channel goes
 * over the first pair.
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
#include "emu/hostlink/port/open.h"
#include "emu/util/now.h"

#define KNOCK_BYTES   192 /* of a line */
#define CLOSE_LOOK_MS 1   /* between samples whether control channels are closed */

/* A pair of ports, seen from here: a peer of the host link over that port. */
struct pair {
    uint32_t host;
    uint32_t number;             /* of the pairs that join the two hosts */
    uint32_t pairs;              /* of these */
    char duplicate[KNOCK_BYTES]; /* who was refused while that host was there, as told last */
    bool warned;                 /* links_warn() has said why the host is not met */
};

struct port {
    struct emu_hostport *port; /* NULL: the link has it */
    struct emu_hostlink *link; /* NULL: not yet */
    uint32_t pairs;
    struct pair pair[CLUSTER_HOSTS_MAX];
    struct emu_hostlink_peer peer[CLUSTER_HOSTS_MAX];
};

struct links {
    const struct cluster *cluster;
    const struct fabric_config *config;
    struct fabric_crossing_ops ops;
    struct fabric_hosts hosts;
    bool has_key;
    uint8_t key[CLUSTER_KEY_BYTES];
    int control[CLUSTER_HOSTS_MAX]; /* this end */
    uint32_t watches;               /* links without one: their sockets say when they end */
    struct hosts_link watched[CLUSTER_HOSTS_MAX * CLUSTER_PORTS_MAX];
    uint32_t ports;
    struct port port[CLUSTER_PORTS_MAX];
};

/* --- what a fabric asks for ------------------------------------------------------------- */

static int links_create(void *ctx, uint32_t i, struct emu_worker *worker)
{
    struct links *links = ctx;
    struct port *port = &links->port[i];
    const struct emu_hostlink_config config = {.port = port->port,
                                               .nodes = links->config->graph->nodes,
                                               .peers = port->peer,
                                               .count = port->pairs};
    int err = emu_hostlink_create(&port->link, worker, &config);

    if (!err)
        port->port = NULL;
    return err;
}

/* The pair that a crossing cable goes over. */
static const struct port *port_of(const struct links *links, const struct fabric_crossing *crossing,
                                  uint32_t *peer)
{
    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++) {
            const struct pair *pair = &links->port[p].pair[i];

            if (pair->host != crossing->host || crossing->number % pair->pairs != pair->number)
                continue;
            *peer = i;
            return &links->port[p];
        }
    return NULL;
}

static int links_join(void *ctx, const struct fabric_crossing *crossing,
                      const struct fabric_crossing_end *end, uint32_t credits,
                      const struct emu_profile *profile)
{
    const struct links *links = ctx;
    uint32_t peer;
    const struct port *port = port_of(links, crossing, &peer);

    if (!port)
        return -ENODEV;
    return emu_hostlink_join(port->link, peer, crossing->number / port->pair[peer].pairs, end->tx,
                             end->rx, end->dev, end->port, end->intake, credits, links->ops.depth,
                             profile);
}

static bool links_passed(void *ctx, const struct fabric_crossing *crossing, uint32_t *sent,
                         uint32_t *came)
{
    const struct links *links = ctx;
    uint32_t peer;
    const struct port *port = port_of(links, crossing, &peer);

    *sent = *came = 0;
    if (!port)
        return true;
    return emu_hostlink_passed(port->link, peer, crossing->number / port->pair[peer].pairs, sent,
                               came);
}

static struct emu_replay *links_replay(void *ctx, const struct fabric_crossing *crossing)
{
    const struct links *links = ctx;
    uint32_t peer;
    const struct port *port = port_of(links, crossing, &peer);

    return port ? emu_hostlink_replay(port->link, peer, crossing->number / port->pair[peer].pairs)
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

/* --- as the cluster file has it ---------------------------------------------------------- */

/* The pair of ports over which the control channel to or from the governor goes. */
static bool carries_control(const struct links *links, const struct pair *pair)
{
    return !pair->number && (!links->hosts.self || !pair->host);
}

/*
 * A control channel, over the first pair that joins the governor and another host. Others carry
 * nothing: the device closes them as it does that one, when the session ends.
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
                                                               .of = which->pairs,
                                                               .closed_fd = pair[0]};
    peer->control_fd = pair[1];
    return 0;
}

struct emu_session_config links_session(const struct cluster *cluster, uint32_t self, uint32_t host,
                                        uint32_t number, const uint8_t *digest, const uint8_t *key)
{
    struct emu_session_config session = {.fabric = cluster_fabric(cluster) + number,
                                         .host = (uint16_t)self,
                                         .peer = (uint16_t)host,
                                         .key = key,
                                         .silent_ns = cluster->silent_ns,
                                         .window = 1024};
    const struct cluster_port *far;
    uint32_t mine, its;

    cluster_link(cluster, self, host, number, &mine, &its);
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
    struct emu_hostlink_peer *peer = &port->peer[port->pairs];

    *peer = (struct emu_hostlink_peer){.session = links_session(links->cluster, links->hosts.self,
                                                                pair->host, pair->number, digest,
                                                                links->has_key ? links->key : NULL),
                                       .cables = crossings / pair->pairs +
                                                 (pair->number < crossings % pair->pairs),
                                       .control_fd = -1};
    /* Without its governor a host ends, and is not to be taken for who comes after it. */
    peer->session.once = links->hosts.self && carries_control(links, pair);
    port->pair[port->pairs++] = *pair;
    return peer_control(links, pair, peer);
}

static int add_pairs(struct links *links, uint32_t host, const uint8_t *digest)
{
    const struct cluster *cluster = links->cluster;
    uint32_t pairs = cluster_links(cluster, links->hosts.self, host);
    int err = 0;

    for (uint32_t i = 0; !err && i < pairs; i++) {
        uint32_t mine, its;

        cluster_link(cluster, links->hosts.self, host, i, &mine, &its);
        err = add_pair(links, &links->port[mine],
                       &(struct pair){.host = host, .number = i, .pairs = pairs}, digest);
    }
    return err;
}

/* Huge pages are for adapters, whose IOMMU has fewer to look up; others gain nothing by them. */
static int open_ports(struct links *links, char *error, size_t error_bytes)
{
    const struct cluster_host *host = &links->cluster->host[links->hosts.self];
    struct emu_hostport_options options = {.huge_pages = false};
    int err = 0;

    for (uint32_t p = 0; p < links->ports; p++)
        options.huge_pages |= strncmp(host->port[p].device, "net_", 4) != 0;
    for (uint32_t p = 0; !err && p < links->ports; p++)
        err = emu_hostport_open(&links->port[p].port, host->port[p].device, &options, error,
                                error_bytes);
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
    for (uint32_t h = 0; !err && h < links->cluster->hosts; h++)
        if (h != links->hosts.self)
            err = add_pairs(links, h, digest);
    if (err)
        return fail(err, error, error_bytes, "cannot make host links: %s", strerror(-err));
    return open_ports(links, error, error_bytes);
}

/*
 * The depth of cables between hosts. While who takes what comes waits for a core, a cable carries
 * that and no more: a host whose threads share their cores with others is away for milliseconds.
 * Where there are few cables each may have more. All hosts reckon alike.
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
    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; links->port[p].link && i < links->port[p].pairs; i++)
            if (carries_control(links, &links->port[p].pair[i]) &&
                !emu_hostlink_is_closed(links->port[p].link, i))
                return false;
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
        for (uint32_t i = 0; port && i < links->port[p].pairs; i++)
            if (links->port[p].peer[i].control_fd >= 0)
                close(links->port[p].peer[i].control_fd);
    }
    for (uint32_t h = 0; h < CLUSTER_HOSTS_MAX; h++)
        if (links->control[h] >= 0)
            close(links->control[h]);
    for (uint32_t i = 0; i < links->watches; i++)
        close(links->watched[i].closed_fd);
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

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++)
            if (emu_hostlink_phase(links->port[p].link, i) != EMU_HOSTLINK_UP)
                return false;
    return true;
}

bool links_why(const void *ctx, char *text, size_t bytes)
{
    const struct links *links = ctx;
    bool may_come = true;

    *text = '\0';
    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs && may_come; i++) {
            const struct emu_session *session = emu_hostlink_session(links->port[p].link, i);
            char why[128];

            may_come = emu_session_state(session) != EMU_SESSION_REFUSED;
            if (emu_session_state(session) == EMU_SESSION_UP || (may_come && *text))
                continue;
            emu_session_why(session, why, sizeof why);
            snprintf(text, bytes, "host %s: %s",
                     links->cluster->host[links->port[p].pair[i].host].name, why);
        }
    return may_come;
}

bool links_launch_why(const void *ctx, bool (*failed)(uint32_t host, char *text, size_t bytes),
                      char *text, size_t bytes)
{
    const struct links *links = ctx;

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++) {
            const struct emu_session *session = emu_hostlink_session(links->port[p].link, i);
            uint32_t host = links->port[p].pair[i].host;
            char why[128], how[LINKS_HOW_BYTES];

            if (emu_hostlink_phase(links->port[p].link, i) == EMU_HOSTLINK_UP ||
                !failed(host, how, sizeof how))
                continue;
            emu_session_why(session, why, sizeof why);
            snprintf(text, bytes, "host %s: %s; %s", links->cluster->host[host].name, why, how);
            return true;
        }
    return false;
}

/* --- a host that comes back ----------------------------------------------------------------- */

/* A new socket for the next life of that session's. Returns our end, or -errno. */
static int peer_socket(struct emu_hostlink *link, uint32_t peer)
{
    int pair[2], old;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    old = emu_hostlink_control(link, peer, pair[1]);
    if (old >= 0)
        close(old);
    return pair[0];
}

int links_control_again(void *ctx, uint32_t host)
{
    struct links *links = ctx;

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++)
            if (links->port[p].pair[i].host == host && !links->port[p].pair[i].number)
                return peer_socket(links->port[p].link, i);
    return -ENODEV;
}

/* The watched link that is that pair's; NULL: it carries the control channel. */
static struct hosts_link *watched_of(struct links *links, const struct pair *pair)
{
    for (uint32_t i = 0; i < links->watches; i++)
        if (links->watched[i].host == pair->host && links->watched[i].number == pair->number)
            return &links->watched[i];
    return NULL;
}

/* Its session has ended since it was watched: the next one's end is to be seen, too. */
static int watch_again(struct links *links, struct port *port, uint32_t i)
{
    struct hosts_link *watched = watched_of(links, &port->pair[i]);
    char none;
    int fd;

    if (!watched || recv(watched->closed_fd, &none, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
        return 0;
    fd = peer_socket(port->link, i);
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

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; !err && i < links->port[p].pairs; i++) {
            if (links->port[p].pair[i].host != host)
                continue;
            err = watch_again(links, &links->port[p], i);
            emu_hostlink_bring_up(links->port[p].link, i);
            up &= emu_hostlink_phase(links->port[p].link, i) == EMU_HOSTLINK_UP;
        }
    return err ? err : up;
}

bool links_refused(const void *ctx, uint32_t host, char *text, size_t bytes)
{
    const struct links *links = ctx;

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++) {
            const struct emu_session *session = emu_hostlink_session(links->port[p].link, i);

            if (links->port[p].pair[i].host != host || !emu_session_is_refused(session))
                continue;
            emu_session_why(session, text, bytes);
            return true;
        }
    return false;
}

void links_warn(void *ctx)
{
    struct links *links = ctx;

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++) {
            const struct emu_session *session = emu_hostlink_session(links->port[p].link, i);
            struct pair *pair = &links->port[p].pair[i];
            char why[128];

            if (pair->warned || !emu_session_is_refused(session) ||
                emu_session_state(session) == EMU_SESSION_REFUSED) /* the start will fail soon */
                continue;
            pair->warned = true;
            emu_session_why(session, why, sizeof why);
            print_message("host %s: %s; waiting for it (--bound start)",
                          links->cluster->host[pair->host].name, why);
        }
}

/* Has somebody been refused there since that was told last? By the first pair: told once. */
static bool is_news(struct port *port, uint32_t i)
{
    struct pair *pair = &port->pair[i];
    char who[KNOCK_BYTES] = "";

    if (pair->number ||
        !emu_session_impostor(emu_hostlink_session(port->link, i), who, sizeof who) ||
        strcmp(who, pair->duplicate) == 0)
        return false;
    memcpy(pair->duplicate, who, sizeof pair->duplicate);
    return true;
}

const char *links_duplicate(void *ctx, uint32_t *host)
{
    struct links *links = ctx;

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; i < links->port[p].pairs; i++)
            if (is_news(&links->port[p], i)) {
                *host = links->port[p].pair[i].host;
                return links->port[p].pair[i].duplicate;
            }
    return NULL;
}

void links_print_duplicates(void *ctx)
{
    const struct links *links = ctx;
    const char *who;
    uint32_t host;

    while ((who = links_duplicate(ctx, &host)) != NULL)
        print_message(LINKS_DUPLICATE, links->cluster->host[host].name, who);
}

/* --- report -------------------------------------------------------------------------------- */

/* What is known of the other host's clock, by which times of what comes are translated. */
static struct json_object *add_clock(struct json_object *ret, struct emu_hostlink_clock known)
{
    if (!known.known)
        return ret;
    json_object_object_add(ret, "clock_offset_ns", json_object_new_int64(known.offset_ns));
    json_object_object_add(ret, "clock_drift_ppb", json_object_new_int64(known.drift_ppb));
    return json_add_number(ret, "clock_error_ns", known.error_ns);
}

static struct json_object *pair_report(const struct links *links, const struct port *port,
                                       uint32_t i)
{
    const struct emu_hostlink_counts *counts = emu_hostlink_counts(port->link, i);
    const struct emu_session *session = emu_hostlink_session(port->link, i);
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
               {"malformed", &frames->malformed},
               {"foreign", &frames->foreign},
               {"forged", &frames->forged},
               {"bad", &counts->bad},
               {"overrun", &counts->overrun},
               {"unearned", &counts->unearned},
               {"untimely", &counts->untimely},
               {"cuts", &counts->cuts},
               {"dropped", &counts->sunk}};

    json_add_text(ret, "host", links->cluster->host[port->pair[i].host].name);
    json_add_number(ret, "cables", port->peer[i].cables);
    for (size_t c = 0; c < sizeof all / sizeof all[0]; c++)
        json_add_number(ret, all[c].name, emu_count_read(all[c].count));
    return add_clock(json_add_number(ret, "round_trip_ns", emu_session_trip_ns(session)),
                     emu_hostlink_clock(port->link, i));
}

struct json_object *links_report(const struct links *links)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t p = 0; p < links->ports; p++)
        for (uint32_t i = 0; links->port[p].link && i < links->port[p].pairs; i++)
            json_object_array_add(list, pair_report(links, &links->port[p], i));
    return list;
}
