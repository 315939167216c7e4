/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c - move bytes between a local socket and the records of a session (control.h). */
#include "emu/hostlink/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "emu/util/wait.h"

#define CONTROL_POLL_NS 50000u /* interval between reads of an empty socket */
/* send a CONTROL_TAKEN each time that this many bytes were written to the socket */
#define CONTROL_REPORT_BYTES (EMU_HOSTLINK_WINDOW / 4)

int hostlink_control_init(struct hostlink_control *control)
{
    control->in = malloc(EMU_HOSTLINK_WINDOW);
    return control->in ? 0 : -ENOMEM;
}

void hostlink_control_none(struct hostlink_control *control)
{
    control->fd = -1;
    atomic_init(&control->next, -1);
}

static void control_close(struct hostlink_control *control)
{
    if (control->fd >= 0)
        close(control->fd); /* closing also removes the socket from the waiter */
    control->fd = -1;
}

void hostlink_control_free(struct hostlink_control *control)
{
    /* H2 pairs with H1 */
    int next = atomic_exchange_explicit(&control->next, -1, memory_order_acquire);

    control_close(control);
    if (next >= 0)
        close(next);
    free(control->in);
}

uint32_t hostlink_control_cut(struct hostlink_control *control, struct emu_hostlink_counts *counts)
{
    uint32_t lost;

    hostlink_control_write(control, counts);
    lost = control->in_put - control->in_sent;
    control_close(control);
    control->out_bytes = control->in_flight = 0;
    control->in_put = control->in_sent = control->in_reported = 0;
    control->out_end = control->out_ended = control->in_end = control->in_ended = false;
    control->in_stuck = false;
    control->poll_ns = 0;
    return lost;
}

void hostlink_control_take(struct hostlink_control *control, struct emu_waiter *waiter)
{
    if (control->fd >= 0 || atomic_load_explicit(&control->next, memory_order_relaxed) < 0)
        return;
    /* H2 pairs with H1 */
    control->fd = atomic_exchange_explicit(&control->next, -1, memory_order_acquire);
    if (control->fd >= 0)
        emu_waiter_add(waiter, control->fd); /* if this fails, the periodic reads suffice */
    control->poll_ns = 0;
}

bool hostlink_control_read(struct hostlink_control *control, uint64_t now_ns, bool woke)
{
    ssize_t got;

    if (control->out_bytes)
        return true;
    if (control->out_end)
        return !control->out_ended;
    if (control->fd < 0 || control->in_flight + control->out_most > EMU_HOSTLINK_WINDOW ||
        (now_ns < control->poll_ns && !woke))
        return false;
    got = recv(control->fd, control->out, control->out_most, MSG_DONTWAIT);
    if (got > 0) {
        control->out_bytes = (uint32_t)got;
        return true;
    }
    control->poll_ns = now_ns + CONTROL_POLL_NS;
    control->out_end = !got || (errno != EAGAIN && errno != EINTR);
    return control->out_end;
}

struct emu_hostlink_record hostlink_control_record(const struct hostlink_control *control)
{
    return (struct emu_hostlink_record){.kind = EMU_HOSTLINK_CONTROL,
                                        .bytes = control->out,
                                        .length = control->out_bytes};
}

void hostlink_control_sent(struct hostlink_control *control)
{
    if (!control->out_bytes)
        control->out_ended = true;
    control->in_flight += control->out_bytes;
    control->out_bytes = 0;
}

bool hostlink_control_rx(struct hostlink_control *control, const uint8_t *bytes, uint32_t length)
{
    uint32_t at = control->in_put % EMU_HOSTLINK_WINDOW;
    uint32_t first = EMU_HOSTLINK_WINDOW - at < length ? EMU_HOSTLINK_WINDOW - at : length;

    if (control->in_end || length > EMU_HOSTLINK_WINDOW - (control->in_put - control->in_reported))
        return false;
    control->in_end = !length;
    memcpy(control->in + at, bytes, first);
    memcpy(control->in, bytes + first, length - first);
    control->in_put += length;
    return true;
}

bool hostlink_control_taken(struct hostlink_control *control, uint32_t count)
{
    if (count > control->in_flight)
        return false;
    control->in_flight -= count;
    return true;
}

/* Write the ring's next contiguous bytes to the socket. Return how many; 0: the socket is full. */
static uint32_t control_send(struct hostlink_control *control, struct emu_hostlink_counts *counts)
{
    uint32_t at = control->in_sent % EMU_HOSTLINK_WINDOW, left = control->in_put - control->in_sent;
    uint32_t piece = EMU_HOSTLINK_WINDOW - at < left ? EMU_HOSTLINK_WINDOW - at : left;
    ssize_t sent = send(control->fd, control->in + at, piece, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent >= 0)
        return (uint32_t)sent;
    if (errno == EAGAIN || errno == EINTR)
        return 0;
    emu_count(&counts->control_lost, piece); /* the reader has closed its socket */
    return piece;
}

void hostlink_control_write(struct hostlink_control *control, struct emu_hostlink_counts *counts)
{
    control->in_stuck = false;
    if (control->fd < 0)
        return;
    while (control->in_sent != control->in_put && !control->in_stuck) {
        uint32_t sent = control_send(control, counts);

        control->in_sent += sent;
        control->in_stuck = !sent;
    }
    if (control->in_end && !control->in_ended && control->in_sent == control->in_put) {
        shutdown(control->fd, SHUT_WR);
        control->in_ended = true;
    }
}

uint32_t hostlink_control_unreported(const struct hostlink_control *control)
{
    uint32_t unreported = control->in_sent - control->in_reported;

    return unreported >= CONTROL_REPORT_BYTES ? unreported : 0;
}
