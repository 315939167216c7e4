/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dpdk_test.c - ports that are DPDK devices, as far as no privileges are needed.
 *
 * net_ring is a DPDK device that loops its frames back. exchange_test.py covers kernel interfaces
 * and two processes.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emu/hostlink/port/open.h"
#include "emu/util/now.h"
#include "tests/test.h"

#define FRAMES 512u
#define RING   "net_ring0"

static const struct emu_hostport_options few = {.frames = FRAMES};

/* Returns NULL, after printing why, if this build has no DPDK. */
static struct emu_hostport *port_open(const char *device)
{
    struct emu_hostport *port = NULL;
    char error[512] = "";
    int err = emu_hostport_open(&port, device, &few, error, sizeof error);

    if (err == -ENOTSUP) {
        CU_ASSERT_PTR_NOT_NULL(strstr(error, "libdpdk-dev"));
        test_skip(error);
        return NULL;
    }
    if (err != 0)
        printf("%s: %s\n", device, error);
    CU_ASSERT_EQUAL_FATAL(err, 0);
    CU_ASSERT_STRING_EQUAL(error, "");
    return port;
}

/* Take all free frames and drop them. Returns how many there were. */
static uint32_t frames_free(struct emu_hostport *port)
{
    static struct emu_hostframe *taken[65536];
    uint32_t count = 0;

    while (count < 65536 && (taken[count] = port->ops->take(port)) != NULL)
        count++;
    for (uint32_t i = 0; i < count; i++)
        port->ops->drop(port, taken[i]);
    return count;
}

static uint8_t byte_of(uint32_t frame, uint32_t at)
{
    return (uint8_t)(frame * 31 + at * 7);
}

static struct emu_hostframe *frame_made(struct emu_hostport *port, uint32_t number, uint32_t bytes)
{
    struct emu_hostframe *frame = port->ops->take(port);

    CU_ASSERT_PTR_NOT_NULL_FATAL(frame);
    CU_ASSERT_EQUAL(frame->room, port->frame_bytes);
    for (uint32_t i = 0; i < bytes; i++)
        frame->data[i] = byte_of(number, i);
    frame->bytes = bytes;
    return frame;
}

static bool frame_is(const struct emu_hostframe *frame, uint32_t number, uint32_t bytes)
{
    bool same = frame->bytes ==
                (bytes < EMU_HOSTLINK_FRAME_LEAST ? EMU_HOSTLINK_FRAME_LEAST : bytes);

    for (uint32_t i = 0; same && i < frame->bytes; i++)
        same = frame->data[i] == (i < bytes ? byte_of(number, i) : 0);
    return same;
}

/* Frames of any length arrive with every byte; short ones are padded with zeros. */
static void frames__arrive_whole(void)
{
    struct emu_hostport *port = port_open(RING);
    uint64_t random = test_seed();

    if (!port)
        return;
    uint32_t all = frames_free(port);
    CU_ASSERT(all >= FRAMES);
    CU_ASSERT_EQUAL(port->frame_bytes, EMU_HOSTLINK_FRAME_BYTES);
    for (uint32_t turn = 0; turn < 100; turn++) {
        struct emu_hostframe *frames[EMU_HOSTLINK_BURST], *received[EMU_HOSTLINK_BURST];
        uint32_t bytes[EMU_HOSTLINK_BURST],
            count = (uint32_t)test_draw(&random, 1, EMU_HOSTLINK_BURST);
        for (uint32_t i = 0; i < count; i++) {
            bytes[i] = (uint32_t)test_draw(&random, 1, turn % 2 ? 100 : port->frame_bytes);
            if (turn == 0)
                bytes[i] = i % 2 ? port->frame_bytes : 1;
            frames[i] = frame_made(port, turn + i, bytes[i]);
        }
        CU_ASSERT_EQUAL_FATAL(port->ops->send(port, frames, count), count);
        CU_ASSERT_EQUAL_FATAL(port->ops->receive(port, received, EMU_HOSTLINK_BURST), count);
        for (uint32_t i = 0; i < count; i++) {
            CU_ASSERT_TRUE(frame_is(received[i], turn + i, bytes[i]));
            port->ops->drop(port, received[i]);
        }
    }
    CU_ASSERT_EQUAL(frames_free(port), all);
    port->ops->close(port);
}

/*
 * A frame kept by the sender has one reference again once the device and the receiver have released
 * it.
 */
static void kept__is_sent_again(void)
{
    struct emu_hostport *port = port_open(RING);
    struct emu_hostframe *frame, *received;

    if (!port)
        return;
    uint32_t all = frames_free(port);
    frame = frame_made(port, 1, 272);
    CU_ASSERT_TRUE(port->ops->is_alone(port, frame));
    for (uint32_t turn = 0; turn < 3; turn++) {
        port->ops->keep(port, frame);
        CU_ASSERT_FALSE(port->ops->is_alone(port, frame));
        CU_ASSERT_EQUAL_FATAL(port->ops->send(port, &frame, 1), 1);
        CU_ASSERT_FALSE(port->ops->is_alone(port, frame));
        CU_ASSERT_EQUAL_FATAL(port->ops->receive(port, &received, 1), 1);
        CU_ASSERT_TRUE(frame_is(received, 1, 272));
        port->ops->drop(port, received);
        CU_ASSERT_TRUE(port->ops->is_alone(port, frame));
        CU_ASSERT_EQUAL(frames_free(port), all - 1);
    }
    port->ops->drop(port, frame);
    CU_ASSERT_EQUAL(frames_free(port), all);
    port->ops->close(port);
}

/*
 * A full device accepts the first frames of a burst; the caller keeps the others and can send them
 * later.
 */
static void send__takes_as_many_as_fit(void)
{
    struct emu_hostport *port = port_open(RING);
    struct emu_hostframe *frame, *burst[EMU_HOSTLINK_BURST];
    uint32_t sent = 0, received = 0, got;

    if (!port)
        return;
    uint32_t all = frames_free(port);
    frame = frame_made(port, 2, 60);
    for (;; sent++) {
        CU_ASSERT_FATAL(sent < 1u << 20);
        port->ops->keep(port, frame);
        if (port->ops->send(port, &frame, 1) == 0)
            break;
    }
    port->ops->drop(port, frame); /* for the frame that was refused */
    CU_ASSERT(sent > 0);
    while ((got = port->ops->receive(port, burst, EMU_HOSTLINK_BURST)) > 0)
        for (received += got; got > 0; got--)
            port->ops->drop(port, burst[got - 1]);
    CU_ASSERT_EQUAL(received, sent);
    CU_ASSERT_TRUE(port->ops->is_alone(port, frame));
    port->ops->drop(port, frame);
    CU_ASSERT_EQUAL(port->ops->send(port, NULL, 0), 0);
    CU_ASSERT_EQUAL(frames_free(port), all);
    port->ops->close(port);
}

/* A closed port can be opened again; two open ports need two names. */
static void open__works_again_after_close(void)
{
    struct emu_hostport *port = port_open(RING), *other = NULL;
    char error[512];

    if (!port)
        return;
    CU_ASSERT_EQUAL(emu_hostport_open(&other, RING, &few, error, sizeof error), -EEXIST);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "already"));
    CU_ASSERT_PTR_NULL(other);
    other = port_open("net_ring1");
    port->ops->close(port);
    port = port_open(RING);
    CU_ASSERT_EQUAL(frames_free(port), frames_free(other));
    port->ops->close(port);
    other->ops->close(other);
}

/* An error of a device is reported in one line, and leaves no resources behind. */
static void open__reports_errors_in_one_line(void)
{
    static const struct {
        const char *device;
        int err;
        const char *signature;
    } wrong[] = {
        {"", -EINVAL, "no name"},
        {",iface=lo", -EINVAL, "no name"},
        {"eth0", -EINVAL, "say net_af_packet0,iface=NAME"},
        {"net_af_packet0 ,iface=lo", -EINVAL, "a space"},
        {"net_af_packet0", -EINVAL, "which interface?"},
        {"net_af_packet0,iface=", -EINVAL, "which interface?"},
        {"net_af_packet0,iface=nosuch0", -ENODEV, "no network interface nosuch0"},
        {"net_af_packet0,iface=averylonginterface0", -ENODEV, "averylonginterface0"},
        {"net_af_xdp0,iface=nosuch0", -ENODEV, "no network interface nosuch0"},
        {"net_memif0,role=server", -EINVAL, "which socket?"},
        {"net_memif0,socket=/tmp/x,bsize=big", -EINVAL, "number"},
        {"net_memif0,socket=/tmp/x,bsize=65536", -EINVAL, "bsize=65536 is too large"},
        {"net_nosuch0", -EIO, "net_nosuch0: DPDK cannot open it"},
        {"ffff:ff:1f.7", -ENODEV, "no adapter has this address"},
        {"0f:1f.7", -ENODEV, "no adapter has this address"},
    };
    char error[512], long_name[1000];
    struct emu_hostport *port = port_open(RING), *none = NULL;

    if (!port)
        return;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int err = emu_hostport_open(&none, wrong[i].device, &few, error, sizeof error);
        if (err != wrong[i].err || !strstr(error, wrong[i].signature))
            printf("\"%s\": %d, %s\n", wrong[i].device, err, error);
        CU_ASSERT_EQUAL(err, wrong[i].err);
        CU_ASSERT_PTR_NOT_NULL(strstr(error, wrong[i].signature));
        CU_ASSERT_PTR_NULL(strchr(error, '\n'));
        CU_ASSERT_PTR_NULL(none);
    }
    memset(long_name, 'x', sizeof long_name);
    memcpy(long_name, "net_ring9,", 10);
    long_name[sizeof long_name - 1] = '\0';
    CU_ASSERT_EQUAL(emu_hostport_open(&none, long_name, &few, error, sizeof error), -EINVAL);
    CU_ASSERT_EQUAL(frames_free(port) >= FRAMES, true);
    port->ops->close(port);
}

/* Frames too small for a link, and a pool larger than memory. */
static void open__refuses_impossible_sizes(void)
{
    const struct emu_hostport_options small = {.frame_bytes = 200, .frame_least = 400},
                                      many = {.frames = 1u << 20};
    struct emu_hostport *none = NULL, *port = port_open(RING);
    char error[512];

    if (!port)
        return;
    CU_ASSERT_EQUAL(emu_hostport_open(&none, "net_ring1", &small, error, sizeof error), -EMSGSIZE);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "at most 200 bytes, and a link between hosts needs 400"));
    CU_ASSERT_EQUAL(emu_hostport_open(&none, "net_ring1", &many, error, sizeof error), -ENOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(error, "no memory for"));
    CU_ASSERT_PTR_NULL(none);
    port->ops->close(port);
}

/* Process state that DPDK must not change. */
struct held {
    void (*handlers[65])(int);
    int flags[65];
    sigset_t mask;
    cpu_set_t cores;
    int optind;
};

static void held_read(struct held *ret)
{
    memset(ret, 0, sizeof *ret);
    for (int i = 1; i < 65; i++) {
        struct sigaction action = {0};
        sigaction(i, NULL, &action);
        ret->handlers[i] = action.sa_handler;
        ret->flags[i] = action.sa_flags;
    }
    sigprocmask(SIG_SETMASK, NULL, &ret->mask);
    sched_getaffinity(0, sizeof ret->cores, &ret->cores);
    ret->optind = optind;
}

/* How many descriptors a program inherits that is executed now. */
static int descriptors_passed_on(void)
{
    FILE *f = popen("ls /proc/self/fd | wc -l", "r");
    int count = -1;

    if (f && fscanf(f, "%d", &count) != 1)
        count = -1;
    if (f)
        pclose(f);
    return count;
}

static void open__leaves_process_state_unchanged(void)
{
    struct held before, after;
    cpu_set_t all, one;
    char path[100];

    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof one, &one);
    held_read(&before);
    int passed_on = descriptors_passed_on();
    struct emu_hostport *port = port_open(RING);
    held_read(&after);
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof before), 0);
    CU_ASSERT_EQUAL(descriptors_passed_on(), passed_on);
    sched_setaffinity(0, sizeof all, &all);
    snprintf(path, sizeof path, "/var/run/dpdk/fabemu-%d", (int)getpid());
    CU_ASSERT_NOT_EQUAL(access(path, F_OK), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    int status = 0;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(WEXITSTATUS(status), 7);
    if (port)
        port->ops->close(port);
}

/* --- memif -------------------------------------------------------------------------- */

/* Not with sanitizers: see emu/hostlink/port/open.c. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#define MEMIF_TURNS  20u
#define MEMIF_FRAMES 2000u
#define MEMIF_NS     UINT64_C(20000000000) /* a hang, not a slow host */

/* The end that stays open, on a thread of its own. */
struct stays {
    struct emu_hostport *port;
    pthread_t thread;
    _Atomic bool stop;
    _Atomic uint64_t received;
};

/* Drop all received frames and send as many as the port accepts. Returns the number received. */
static uint32_t memif_burst(struct emu_hostport *port)
{
    struct emu_hostframe *frames[EMU_HOSTLINK_BURST];
    uint32_t received = port->ops->receive(port, frames, EMU_HOSTLINK_BURST), count = 0, sent;

    for (uint32_t i = 0; i < received; i++)
        port->ops->drop(port, frames[i]);
    while (count < EMU_HOSTLINK_BURST && (frames[count] = port->ops->take(port)))
        frames[count++]->bytes = port->frame_bytes;
    sent = port->ops->send(port, frames, count);
    while (sent < count)
        port->ops->drop(port, frames[sent++]);
    return received;
}

static void *stays_main(void *argument)
{
    struct stays *stays = argument;

    while (!atomic_load(&stays->stop))
        atomic_fetch_add(&stays->received, memif_burst(stays->port));
    return NULL;
}

/* The peer disconnects under load and reconnects: DPDK unmaps the rings each time. */
static void memif__survives_peers_that_disconnect_under_load(void)
{
    char folder[] = "/tmp/fabemu-memif-XXXXXX", server[128], client[128];
    struct stays stays = {.stop = false};

    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    snprintf(server, sizeof server, "net_memif0,role=server,id=0,socket=%s/s", folder);
    stays.port = port_open(server);
    if (stays.port)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&stays.thread, NULL, stays_main, &stays), 0);
    for (uint32_t turn = 0; stays.port && turn < MEMIF_TURNS; turn++) {
        uint64_t until_ns = emu_now_ns() + MEMIF_NS, before = atomic_load(&stays.received);
        uint32_t received = 0;
        struct emu_hostport *port;

        snprintf(client, sizeof client, "net_memif%u,role=client,id=0,socket=%s/s", turn + 1,
                 folder);
        port = port_open(client);
        while ((received < MEMIF_FRAMES || atomic_load(&stays.received) - before < MEMIF_FRAMES) &&
               emu_now_ns() < until_ns)
            received += memif_burst(port);
        CU_ASSERT_TRUE(received >= MEMIF_FRAMES);
        CU_ASSERT_TRUE(atomic_load(&stays.received) - before >= MEMIF_FRAMES);
        port->ops->close(port);
    }
    atomic_store(&stays.stop, true);
    if (stays.port) {
        pthread_join(stays.thread, NULL);
        stays.port->ops->close(stays.port);
    }
    snprintf(client, sizeof client, "%s/s", folder);
    unlink(client);
    rmdir(folder);
}

#endif

static const struct test_case cases[] = {
    CASE(open__leaves_process_state_unchanged), /* must be the first case: it starts DPDK */
    CASE(frames__arrive_whole),
    CASE(kept__is_sent_again),
    CASE(send__takes_as_many_as_fit),
    CASE(open__works_again_after_close),
    CASE(open__reports_errors_in_one_line),
    CASE(open__refuses_impossible_sizes),
/* Not with sanitizers: see emu/hostlink/port/open.c. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CASE(memif__survives_peers_that_disconnect_under_load),
#endif
    {NULL, NULL},
};

int main(void)
{
    return test_run("dpdk", cases);
}
