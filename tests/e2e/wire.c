/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - forwards frames between Ethernet ports as a bridge does, with faults: it loses,
 * duplicates, delays and thereby reorders them, at random by a seed. It replaces netem, which some
 * kernels do not have.
 *
 *    wire [--seed N] [--lose P] [--double P] [--late P] [--delay US] [--jitter US]
 *         [--liar I [--lie P] [--lie-json P] [--honest MS] [--log FILE]] PORT PORT...
 *
 * With --liar, it changes frames that arrive at the port with index I, as if their host lied
 * (lies.h). --lie is the probability of a change of a record in a frame, and --lie-json of a lie in
 * a piece of JSON. It changes no frame in the first --honest ms. It writes the lies to FILE.
 *
 * P are probabilities from 0 to 1. Each frame is delayed by DELAY plus a random time of up to
 * JITTER microseconds; a fraction LATE of them by up to ten times JITTER more. A signal ends it;
 * then it prints its counts. The exit status is 1 if its buffer was full.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "tests/e2e/lies.h"

#define PORTS_MAX      4u
#define HELD_MAX       16384u /* frames in flight */
#define FRAME_MAX      9216u
#define MACS_MAX       16u
#define LIES_FRAME_MAX 9014u /* MTU 9000 and the Ethernet header */
#define SOCKET_BUF     (64 << 20)

struct held {
    uint64_t due_ns;
    uint64_t number; /* among frames with the same time the earlier one goes first */
    uint8_t *frame;
    uint32_t bytes;
    uint32_t to;
};

struct mac {
    uint8_t mac[ETH_ALEN];
    uint32_t port;
};

struct wire {
    uint64_t random;
    double lose, duplicated, late;
    uint64_t delay_ns, jitter_ns;
    uint32_t ports, macs, count;
    int fd[PORTS_MAX];
    struct mac mac[MACS_MAX];
    struct held *held; /* a heap: the first is due first */
    uint64_t carried, lost, doubled, overtaken, overflow, refused;
    uint64_t last_number[PORTS_MAX]; /* the last number that left on this port */
    uint32_t liar;                   /* index of the port of the lying host; PORTS_MAX: none */
    struct lies lies;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Random number from 0 to 1: splitmix64. */
static double draw(struct wire *w)
{
    uint64_t x = w->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* --- frames in flight ------------------------------------------------------------------- */

static bool before(const struct held *a, const struct held *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void swap(struct held *a, struct held *b)
{
    struct held was = *a;

    *a = *b;
    *b = was;
}

static void hold(struct wire *w, const uint8_t *frame, uint32_t bytes, uint32_t to, uint64_t due_ns)
{
    uint32_t at = w->count;

    if (w->count == HELD_MAX) {
        w->overflow++;
        return;
    }
    w->held[at] = (struct held){due_ns, ++w->carried, malloc(bytes), bytes, to};
    if (!w->held[at].frame)
        abort();
    memcpy(w->held[at].frame, frame, bytes);
    w->count++;
    for (; at && before(&w->held[at], &w->held[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&w->held[at], &w->held[(at - 1) / 2]);
}

static void drop_first(struct wire *w)
{
    uint32_t at = 0;

    free(w->held[0].frame);
    w->held[0] = w->held[--w->count];
    for (;;) {
        uint32_t least = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < w->count && before(&w->held[child], &w->held[least]))
                least = child;
        if (least == at)
            return;
        swap(&w->held[at], &w->held[least]);
        at = least;
    }
}

/* A port that is down accepts nothing, like a cable that is cut. */
static void release(struct wire *w)
{
    uint64_t now = now_ns();

    while (w->count && w->held[0].due_ns <= now) {
        const struct held *first = &w->held[0];

        if (send(w->fd[first->to], first->frame, first->bytes, 0) < 0)
            w->refused++;
        if (first->number < w->last_number[first->to])
            w->overtaken++;
        else
            w->last_number[first->to] = first->number;
        drop_first(w);
    }
}

/* --- receiving ---------------------------------------------------------------------------- */

/* PORTS_MAX: this address is unknown so far. */
static uint32_t port_of(const struct wire *w, const uint8_t *mac)
{
    for (uint32_t i = 0; i < w->macs; i++)
        if (memcmp(w->mac[i].mac, mac, ETH_ALEN) == 0)
            return w->mac[i].port;
    return PORTS_MAX;
}

static void carry(struct wire *w, const uint8_t *frame, uint32_t bytes, uint32_t to)
{
    uint32_t times = 1;

    if (draw(w) < w->lose) {
        w->lost++;
        return;
    }
    if (draw(w) < w->duplicated) {
        w->doubled++;
        times = 2;
    }
    while (times--) {
        double jitter = draw(w) * (double)w->jitter_ns;

        if (draw(w) < w->late)
            jitter += 10.0 * (double)w->jitter_ns;
        hold(w, frame, bytes, to, now_ns() + w->delay_ns + (uint64_t)jitter);
    }
}

static void take(struct wire *w, uint32_t from)
{
    uint8_t frame[FRAME_MAX];
    uint32_t length_now;
    struct sockaddr_ll address;
    socklen_t length = sizeof address;
    ssize_t bytes;
    uint32_t to;

    bytes = recvfrom(w->fd[from], frame, sizeof frame, MSG_DONTWAIT | MSG_TRUNC,
                     (struct sockaddr *)&address, &length);
    if (bytes < (ssize_t)sizeof(struct ether_header) || bytes > (ssize_t)sizeof frame ||
        address.sll_pkttype == PACKET_OUTGOING)
        return;
    if (port_of(w, frame + ETH_ALEN) == PORTS_MAX && w->macs < MACS_MAX) {
        memcpy(w->mac[w->macs].mac, frame + ETH_ALEN, ETH_ALEN);
        w->mac[w->macs++].port = from;
    }
    to = port_of(w, frame);
    length_now = (uint32_t)bytes;
    if (from == w->liar)
        length_now = lies_tell(&w->lies, frame, length_now, LIES_FRAME_MAX);
    else if (w->liar < PORTS_MAX && to == w->liar)
        lies_hide(&w->lies, frame, length_now);
    for (uint32_t port = 0; port < w->ports; port++)
        if (port != from && (to == port || to == PORTS_MAX))
            carry(w, frame, length_now, port);
}

/* Forward until a signal arrives. */
static void serve(struct wire *w, int signal_fd)
{
    struct pollfd fds[PORTS_MAX + 1];

    for (;;) {
        uint64_t now = now_ns(), wait_ns = 1000000000u;

        if (w->count)
            wait_ns = w->held[0].due_ns > now ? w->held[0].due_ns - now : 0;
        for (uint32_t port = 0; port < w->ports; port++)
            fds[port] = (struct pollfd){w->fd[port], POLLIN, 0};
        fds[w->ports] = (struct pollfd){signal_fd, POLLIN, 0};
        ppoll(fds, w->ports + 1,
              &(struct timespec){.tv_nsec = (long)(wait_ns % 1000000000u),
                                 .tv_sec = (time_t)(wait_ns / 1000000000u)},
              NULL);
        if (fds[w->ports].revents)
            return;
        for (uint32_t port = 0; port < w->ports; port++)
            for (uint32_t i = 0; fds[port].revents && i < 64; i++)
                take(w, port);
        release(w);
    }
}

/* --- start ---------------------------------------------------------------------------------- */

static void fatal(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int port_open(const char *name)
{
    const struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                        .sll_protocol = htons(ETH_P_ALL),
                                        .sll_ifindex = (int)if_nametoindex(name)};
    const struct packet_mreq all = {.mr_ifindex = address.sll_ifindex,
                                    .mr_type = PACKET_MR_PROMISC};
    const int bytes = SOCKET_BUF, one = 1;
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        fatal(name);
    return fd;
}

static void options(struct wire *w, int argc, char **argv)
{
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},     {"lose", required_argument, NULL, 'l'},
        {"double", required_argument, NULL, 'd'},   {"late", required_argument, NULL, 'a'},
        {"delay", required_argument, NULL, 'y'},    {"jitter", required_argument, NULL, 'j'},
        {"liar", required_argument, NULL, 'L'},     {"lie", required_argument, NULL, 'r'},
        {"lie-json", required_argument, NULL, 'o'}, {"honest", required_argument, NULL, 'h'},
        {"log", required_argument, NULL, 'g'},      {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 's':
            w->random = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            w->lose = strtod(optarg, NULL);
            break;
        case 'd':
            w->duplicated = strtod(optarg, NULL);
            break;
        case 'a':
            w->late = strtod(optarg, NULL);
            break;
        case 'y':
            w->delay_ns = strtoull(optarg, NULL, 10) * 1000;
            break;
        case 'j':
            w->jitter_ns = strtoull(optarg, NULL, 10) * 1000;
            break;
        case 'L':
            w->liar = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            w->lies.records = strtod(optarg, NULL);
            break;
        case 'o':
            w->lies.json = strtod(optarg, NULL);
            break;
        case 'h':
            w->lies.after_ns = now_ns() + strtoull(optarg, NULL, 10) * 1000000;
            break;
        case 'g':
            w->lies.log = fopen(optarg, "w");
            break;
        default:
            exit(2);
        }
    }
    for (; optind < argc && w->ports < PORTS_MAX; optind++)
        w->fd[w->ports++] = port_open(argv[optind]);
}

int main(int argc, char **argv)
{
    static struct wire w;
    sigset_t end;
    int signal_fd;

    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigaddset(&end, SIGINT);
    sigprocmask(SIG_BLOCK, &end, NULL);
    signal_fd = signalfd(-1, &end, SFD_CLOEXEC);
    w.held = calloc(HELD_MAX, sizeof *w.held);
    if (signal_fd < 0 || !w.held)
        fatal("cannot begin");
    w.liar = PORTS_MAX;
    options(&w, argc, argv);
    w.lies.random = w.random;
    serve(&w, signal_fd);
    printf("wire: %llu carried, %llu lost, %llu doubled, %llu overtaken, %llu refused, %llu "
           "without room\n",
           (unsigned long long)w.carried, (unsigned long long)w.lost, (unsigned long long)w.doubled,
           (unsigned long long)w.overtaken, (unsigned long long)w.refused,
           (unsigned long long)w.overflow);
    while (w.count)
        drop_first(&w);
    free(w.held);
    return w.overflow ? EXIT_FAILURE : EXIT_SUCCESS;
}
