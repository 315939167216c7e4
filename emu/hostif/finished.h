/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * finished.h - records of collectives and messages that a process has finished: a ring in the host
 * interface's memory, which the process's library writes while a client of the fabric watches. A
 * second ring contains the collectives that emu_comm_draw() selects.
 *
 * The writer never waits: if the ring is full, it overwrites the oldest entry. emu_finished_read()
 * counts the entries that a slow reader has missed. The fabric copies the entries and drops invalid
 * ones.
 *
 * F1 pairs with F2: a reader that sees a count sees the words of the entries below it. F3 pairs
 * with F4: if a reader finds a word of a later entry in a slot, it then also reads a count which
 * shows that the slot's earlier entry was overwritten.
 */
#ifndef EMU_FINISHED_H
#define EMU_FINISHED_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/packet/seg.h"

#define EMU_FINISHED_SLOTS 4096u
#define EMU_FINISHED_WORDS 6u

/* The kind of an entry. An entry of a collective has an enum emu_kind instead. */
enum emu_finished_kind {
    EMU_FINISHED_SENT = EMU_KINDS, /* a message to another process */
    EMU_FINISHED_RECEIVED,         /* a message from another process */
    EMU_FINISHED_KINDS
};

/* A finished collective as one member saw it, or a message as its sender or receiver saw it. */
struct emu_finished {
    /*
     * A collective: the number of its first segment in the group's stream, which is the same at all
     * members. A message: its number among the requests from sender to receiver, modulo 2^16.
     */
    uint64_t first;
    uint64_t began_ns; /* when it began, by emu_now_ns() */
    uint64_t ended_ns;
    uint64_t bytes;   /* payload of the operation */
    uint32_t group;   /* id of the group; message: the peer's node */
    uint32_t root;    /* broadcast, reduction: the root's node; message: the peer's incarnation */
    uint16_t members; /* members of the group; 65535: this many or more */
    uint8_t kind;     /* enum emu_kind or enum emu_finished_kind */
    uint8_t op;       /* reduction: enum emu_op */
    uint8_t type;     /* reduction: enum emu_type */
    uint8_t report_bits; /* see struct emu_comm_draw */
};

/* The ring in the host interface's memory. */
struct emu_finished_shared {
    alignas(EMU_LINE) _Atomic uint64_t count; /* entries written so far */
    _Atomic uint64_t word[EMU_FINISHED_SLOTS][EMU_FINISHED_WORDS];
};

/** emu_finished_write - append an entry. Thread: the process, one thread at a time. */
void emu_finished_write(struct emu_finished_shared *to, const struct emu_finished *from);

/**
 * emu_finished_read - read the entries, beginning with number *@at, and set *@at to the number
 * after the last entry. Valid entries, at most EMU_FINISHED_SLOTS, are copied to @ret. An entry is
 * valid if its kind is known, it did not begin after its end, and it did not end after the time
 * that @now_ns() returns after the copy. Returns the number of valid entries. Adds the number of
 * overwritten and invalid entries to *@missed.
 */
uint32_t emu_finished_read(struct emu_finished *ret, struct emu_finished_shared *from, uint64_t *at,
                           uint64_t (*now_ns)(void), uint64_t *missed);

#endif
