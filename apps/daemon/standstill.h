/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.h - finds out which processes wait for which others.
 *
 * The library in each process reports the process's pending operations (emu/hostif/pending.h). The
 * daemon samples these reports once a second. On request, or when nothing moves, it compares the
 * reports. For each collective in progress, it finds the members that have entered, the members
 * that are missing, and the members that have called another operation.
 */
#ifndef APPS_DAEMON_STANDSTILL_H
#define APPS_DAEMON_STANDSTILL_H

#include "apps/daemon/client.h"
#include "emu/hostif/pending.h"

/* Minimum age of the collectives that are listed. A younger one may just have begun. */
#define STANDSTILL_AGE_NS 1000000000u

struct standstill_sample {
    struct emu_pending pending; /* the process's last report; written_ns 0: none yet */
    uint64_t attached_ns;
    bool waits; /* the program polls for completions and finds none, or would do so if it had a
                 * core */
    /*
     * values of daemon->waits.sample_ns and client->starved_ns when `pending.waits` was last set in
     * a report
     */
    uint64_t polled_ns;
    uint64_t polled_starved_ns;
    bool absent; /* the process is stopped or silent, so its last report may be outdated */
    bool mismatch_reported; /* the report's mismatch, or another one of its group, was published */
};

/** standstill_age - return the time from @since_ns to @now_ns; 0 if @since_ns is later. Pure. */
static inline uint64_t standstill_age(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/** standstill_kind - return the name of a collective. @kind: enum emu_kind. */
const char *standstill_kind(uint8_t kind);

/** standstill_what - add to @to the fields that describe a collective. */
void standstill_what(struct json_object *to, const struct emu_pending_what *what);

/**
 * standstill_collectives - list the collectives for which processes wait. Call this between
 * fabric_pause() and fabric_resume().
 */
struct json_object *standstill_collectives(struct daemon *daemon, uint64_t now_ns);

#endif
