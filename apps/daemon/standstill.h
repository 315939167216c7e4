/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.h - finds out which processes wait for which others.
 *
 * The library of each process reports its pending operations (emu/hostif/pending.h). They are
 * sampled once a second. On request, or when nothing moves, the reports are compared: for each
 * collective in progress, which members have entered it, which are missing, and which call another
 * operation.
 */
#ifndef APPS_DAEMON_STANDSTILL_H
#define APPS_DAEMON_STANDSTILL_H

#include "apps/daemon/client.h"
#include "emu/hostif/pending.h"

/* Age from which a collective in progress is reported: a younger one may have just begun. */
#define STANDSTILL_AGE_NS 1000000000u

/* What the daemon knows of an attached process. */
struct standstill_sample {
    struct emu_pending pending; /* last report; written_ns 0: none yet */
    uint64_t attached_ns;
    bool absent; /* stopped or silent: the last report may be outdated */
    /* its mismatch with another member was reported, by it or by the other one */
    bool mismatch_reported;
};

/** standstill_age - how long ago @since_ns was. Pure. */
static inline uint64_t standstill_age(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/** standstill_kind - name of a collective of this enum emu_kind. */
const char *standstill_kind(uint8_t kind);

/** standstill_what - add to @to the fields that describe a collective. */
void standstill_what(struct json_object *to, const struct emu_pending_what *what);

/** standstill_collectives - the waiting collectives. Between fabric_pause() and fabric_resume(). */
struct json_object *standstill_collectives(struct daemon *daemon, uint64_t now_ns);

#endif
