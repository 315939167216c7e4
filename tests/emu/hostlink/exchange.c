/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exchange.c - two instances, on two ports that are connected to each other, exchange numbered
 * frames of all sizes.
 *
 * Both directions run at once. Sent frames are kept and sent again: each seventh at once, others
 * when no acknowledgment arrives. The receiver checks every byte. exchange_test.py starts them.
 *
 *    exchange DEVICE [FRAMES]     FRAMES: how many to send; 0: one of each size
 *
 * Prints "up" when the peer has been heard, and a line of JSON at the end. The exit status is 0 if
 * all frames have arrived in both directions.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "emu/hostlink/port/open.h"
#include "emu/util/now.h"

#define WINDOW    64u
#define HOLD      16384u
#define AGAIN_NS  20000000ull
#define LINGER_NS 1000000000ull
#define BOUND_NS  45000000000ull

enum kind { HELLO = 1, DATA, ACK };

/* Follows the Ethernet header. Byte order is the host's: both ends run on one machine. */
struct head {
    uint32_t kind, number, of, acknowledged, bytes, done;
};

#define BODY     (14u + (uint32_t)sizeof(struct head))
#define SMALLEST EMU_HOSTLINK_FRAME_LEAST

struct end {
    struct emu_hostport *port;
    uint8_t peer[EMU_HOSTLINK_MAC_BYTES];
    bool heard, peer_done, to_acknowledge;
    uint32_t frames;             /* to send */
    uint32_t next, acknowledged; /* next to send, and first not acknowledged */
    uint32_t expected, of;       /* frames from the peer: next expected, and total */
    struct emu_hostframe *kept[WINDOW];
    uint64_t sent_ns, heard_ns;
    uint64_t again, doubles, early, foreign, wrong, refused, woken, slept;
};

static uint8_t byte_of(uint32_t number, uint32_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static void frame_head(const struct end *end, struct emu_hostframe *frame, enum kind kind,
                       uint32_t number, uint32_t bytes)
{
    struct head head = {kind,
                        number,
                        end->frames,
                        end->expected,
                        bytes,
                        end->acknowledged == end->frames && end->of && end->expected == end->of};

    memcpy(frame->data, end->peer, 6);
    memcpy(frame->data + 6, end->port->mac, 6);
    frame->data[12] = EMU_HOSTLINK_ETHERTYPE >> 8;
    frame->data[13] = EMU_HOSTLINK_ETHERTYPE & 0xff;
    memcpy(frame->data + 14, &head, sizeof head);
    frame->bytes = bytes;
}

/*
 * Send a greeting or an acknowledgment. Acknowledgments are cumulative, so one that cannot be sent
 * is dropped.
 */
static void send_control(struct end *end, enum kind kind)
{
    struct emu_hostframe *frame = end->port->ops->take(end->port);

    if (!frame)
        return;
    frame_head(end, frame, kind, 0, BODY);
    if (end->port->ops->send(end->port, &frame, 1) == 0)
        end->port->ops->drop(end->port, frame);
}

static bool send_kept(struct end *end, uint32_t number)
{
    struct emu_hostframe *frame = end->kept[number % WINDOW];

    end->port->ops->keep(end->port, frame);
    if (end->port->ops->send(end->port, &frame, 1) == 1)
        return true;
    end->port->ops->drop(end->port, frame);
    end->refused++;
    return false;
}

/* Send new frames while the window has space. Returns how many. */
static uint32_t send_new(struct end *end, uint64_t now)
{
    uint32_t sent = 0, sizes = end->port->frame_bytes - SMALLEST + 1;

    while (end->next < end->frames && end->next - end->acknowledged < WINDOW && sent < 16) {
        uint32_t number = end->next, bytes = SMALLEST + number % sizes;
        struct emu_hostframe *frame = end->port->ops->take(end->port);
        if (!frame)
            break;
        frame_head(end, frame, DATA, number, bytes);
        for (uint32_t i = BODY; i < bytes; i++)
            frame->data[i] = byte_of(number, i);
        end->kept[number % WINDOW] = frame;
        if (!send_kept(end, number)) {
            end->port->ops->drop(end->port, frame);
            break;
        }
        if (number % 7 == 0)
            end->again += send_kept(end, number);
        end->sent_ns = now;
        end->next++;
        sent++;
    }
    return sent;
}

static void send_again(struct end *end, uint64_t now)
{
    if (end->acknowledged == end->next || now - end->sent_ns < AGAIN_NS)
        return;
    for (uint32_t i = end->acknowledged; i != end->next && send_kept(end, i); i++)
        end->again++;
    end->sent_ns = now;
}

static void data_received(struct end *end, const struct emu_hostframe *frame,
                          const struct head *head)
{
    end->to_acknowledge = true;
    end->of = head->of;
    if (head->number != end->expected) {
        end->doubles += head->number < end->expected;
        end->early += head->number > end->expected;
        return;
    }
    end->wrong += head->bytes != frame->bytes;
    for (uint32_t i = BODY; i < frame->bytes; i++)
        end->wrong += frame->data[i] != byte_of(head->number, i);
    end->expected++;
}

static void frame_received(struct end *end, const struct emu_hostframe *frame, uint64_t now)
{
    struct head head;

    if (frame->bytes < BODY || frame->data[12] != EMU_HOSTLINK_ETHERTYPE >> 8 ||
        frame->data[13] != (EMU_HOSTLINK_ETHERTYPE & 0xff)) {
        end->foreign++;
        return;
    }
    memcpy(&head, frame->data + 14, sizeof head);
    if (!end->heard)
        printf("up\n"), fflush(stdout);
    end->heard = true;
    end->heard_ns = now;
    memcpy(end->peer, frame->data + 6, 6);
    end->peer_done |= head.done;
    end->to_acknowledge |= head.kind == HELLO;
    while (end->acknowledged < head.acknowledged && end->acknowledged < end->next)
        end->port->ops->drop(end->port, end->kept[end->acknowledged++ % WINDOW]);
    if (head.kind == DATA)
        data_received(end, frame, &head);
}

static uint32_t receive(struct end *end, uint64_t now)
{
    struct emu_hostframe *frames[EMU_HOSTLINK_BURST];
    uint32_t count = end->port->ops->receive(end->port, frames, EMU_HOSTLINK_BURST);

    for (uint32_t i = 0; i < count; i++) {
        frame_received(end, frames[i], now);
        end->port->ops->drop(end->port, frames[i]);
    }
    if (end->to_acknowledge && count < EMU_HOSTLINK_BURST) {
        end->to_acknowledge = false;
        send_control(end, ACK);
    }
    return count;
}

/* Sleep until a frame arrives or a retransmission is due. */
static void wait_for_frame(struct end *end, int epoll)
{
    struct epoll_event event;

    if (epoll < 0) {
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        return;
    }
    end->port->ops->wake_clear(end->port);
    if (receive(end, emu_now_ns()) > 0)
        return;
    end->slept++;
    end->woken += epoll_wait(epoll, &event, 1, (int)(AGAIN_NS / 1000000)) == 1;
}

static bool finished(const struct end *end, uint64_t now)
{
    return end->acknowledged == end->frames && end->of && end->expected == end->of &&
           (end->peer_done || now - end->heard_ns > LINGER_NS);
}

static bool exchange(struct end *end, int epoll)
{
    uint64_t began = emu_now_ns(), now = began, said = 0;

    while (!finished(end, now)) {
        if (now - began > BOUND_NS)
            return false;
        if (!end->heard && now - said > AGAIN_NS) {
            memset(end->peer, 0xff, sizeof end->peer);
            send_control(end, HELLO);
            said = now;
        }
        uint32_t moved = receive(end, now);
        if (end->heard) {
            moved += send_new(end, now);
            send_again(end, now);
        }
        if (moved == 0)
            wait_for_frame(end, epoll);
        now = emu_now_ns();
    }
    for (int i = 0; i < 3; i++) /* the peer may be waiting for this last acknowledgment */
        send_control(end, ACK);
    return true;
}

static uint32_t frames_free(struct emu_hostport *port)
{
    static struct emu_hostframe *taken[HOLD];
    uint32_t count = 0;

    while (count < HOLD && (taken[count] = port->ops->take(port)) != NULL)
        count++;
    for (uint32_t i = 0; i < count; i++)
        port->ops->drop(port, taken[i]);
    return count;
}

int main(int argc, char **argv)
{
    static struct end end;
    char error[512];
    int epoll = -1;

    if (argc < 2)
        return 2;
    if (emu_hostport_open(&end.port, argv[1], NULL, error, sizeof error) != 0) {
        fprintf(stderr, "%s\n", error);
        return 3;
    }
    uint32_t before = frames_free(end.port);
    end.frames = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (!end.frames)
        end.frames = end.port->frame_bytes - SMALLEST + 1;
    int wake = end.port->ops->wake_fd(end.port);
    if (wake >= 0) {
        struct epoll_event event = {.events = EPOLLIN};
        epoll = epoll_create1(EPOLL_CLOEXEC);
        epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event);
    }
    bool all = exchange(&end, epoll);
    for (uint32_t i = end.acknowledged; i != end.next; i++)
        end.port->ops->drop(end.port, end.kept[i % WINDOW]);
    printf("{\"all\": %s, \"sent\": %u, \"of\": %u, \"received\": %u, \"again\": %llu, "
           "\"doubles\": %llu, "
           "\"early\": %llu, \"foreign\": %llu, \"wrong\": %llu, \"refused\": %llu, \"wakes\": %s, "
           "\"slept\": %llu, "
           "\"woken\": %llu, \"frame_bytes\": %u, \"free_before\": %u, \"free_after\": %u}\n",
           all ? "true" : "false", end.acknowledged, end.frames, end.expected,
           (unsigned long long)end.again, (unsigned long long)end.doubles,
           (unsigned long long)end.early, (unsigned long long)end.foreign,
           (unsigned long long)end.wrong, (unsigned long long)end.refused,
           wake >= 0 ? "true" : "false", (unsigned long long)end.slept,
           (unsigned long long)end.woken, end.port->frame_bytes, before, frames_free(end.port));
    end.port->ops->close(end.port);
    return !all || end.wrong > 0;
}
