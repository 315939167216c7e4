/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * standstill.h - who waits for whom: what processes have pending, compared.
 *
 * Each process's library tells what it has pending (emu/hostif/pending.h). Here that is looked at
 * once a second and, when it is asked for or nothing moves, put side by side: of each collective
 * under way who has come, who is missing and who does something else.
 */
#ifndef APPS_DAEMON_STANDSTILL_H
#define APPS_DAEMON_STANDSTILL_H

#include "apps/daemon/client.h"
#include "emu/hostif/pending.h"

/* A collective under way is told of from this age on: a younger one may just have begun. */
#define STANDSTILL_AGE_NS 1000000000u

/* What the daemon knows of an attached process. */
struct standstill_sample {
    struct emu_pending pending; /* as it was told last; written_ns 0: never */
    uint64_t attached_ns;
    bool absent; /* stopped, or silent: what it told last may not be so any more */
    /* that it does not agree with others; or others of its group were quicker */
    bool mismatch_reported;
};

/** standstill_age - how long ago @since_ns was. Pure. */
static inline uint64_t standstill_age(uint64_t now_ns, uint64_t since_ns)
{
    return now_ns > since_ns ? now_ns - since_ns : 0;
}

/** standstill_group - what @client says of group @id, or NULL. */
const struct emu_pending_group *standstill_group(const struct client *client, uint32_t id);

/** standstill_kind - what a collective of this enum emu_kind is called. */
const char *standstill_kind(uint8_t kind);
/** standstill_what - fields that say what a collective is, added to @to. */
void standstill_what(struct json_object *to, const struct emu_pending_what *what);

/** standstill_collectives - a list of the collectives that wait. Between fabric_pause(), _go(). */
struct json_object *standstill_collectives(struct daemon *daemon, uint64_t now_ns);

#endif
