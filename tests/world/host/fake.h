/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fake.h - a fabric of one function for testing adapters: it moves
 * segments between edges, in order or shuffled, and combines without switches.
 * With acknowledgments it says what came of segments, keeps words, and gives up
 * what goes where a way was cut.
 *
 * Thread: whoever calls fake_step(); everything else before or after.
 */
#ifndef TESTS_WORLD_FAKE_H
#define TESTS_WORLD_FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/hostif/hostif.h"
#include "tests/world/host/parts.h"

#define FAKE_NODES  16
#define FAKE_GROUPS 8

struct fake;

/**
 * fake_open - @nodes edges. @shuffle: segments overtake each other, by @seed. Aborts on failure.
 */
struct fake *fake_open(uint32_t nodes, uint64_t seed, bool shuffle);
void fake_close(struct fake *fake);

/** fake_acknowledge - a fabric with acknowledgments; before anybody attaches. */
void fake_acknowledge(struct fake *fake);

/** fake_slow - from now on a node gets what is on its way to it in one step of four, at random. */
void fake_slow(struct fake *fake);

/**
 * fake_cut - from now on nothing gets from @from to @to, or it does again. What @from sends there
 * is given up; so is what comes the other way, although it arrives: its acknowledgment is lost.
 */
void fake_cut(struct fake *fake, uint32_t from, uint32_t to, bool cut);

/** fake_attach - an adapter at @node on a fresh edge (what was on its way there is lost). */
struct fabemu *fake_attach(struct fake *fake, uint32_t node);
/** fake_detach - close the adapter; its edge takes nothing more. */
void fake_detach(struct fake *fake, uint32_t node);

/** fake_group - make group @id of @nodes. */
void fake_group(struct fake *fake, uint32_t id, const uint32_t *nodes, uint32_t count);

/** fake_word - what @node's adapter has in a word of group @id. */
uint64_t fake_word(const struct fake *fake, uint32_t id, uint32_t node, uint32_t word);

/** fake_inject - write a segment into @node's down ring as it is; false: no room. */
bool fake_inject(struct fake *fake, uint32_t node, const struct emu_seg *seg);

/** fake_step - one pass. Returns segments moved. */
uint32_t fake_step(struct fake *fake);

/** fake_start, fake_stop - fake_step() again and again, on a thread of its own. */
void fake_start(struct fake *fake);
void fake_stop(struct fake *fake);

/**
 * fake_pump - fake_step(), and one step of every adapter. Returns 0 once nothing moves or waits.
 */
uint32_t fake_pump(struct fake *fake);
/**
 * fake_finish - pump until all @count requests are complete; false: everything stood still before.
 */
bool fake_finish(struct fake *fake, struct fabemu_req *req, uint32_t count);
/** fake_quiet - pump until nothing moves. */
void fake_quiet(struct fake *fake);

/**
 * fake_conflicts - times that a combine state was wanted while another number held it, or that a
 * member contributed twice.
 */
uint32_t fake_conflicts(const struct fake *fake);
/** fake_dropped - segments to nodes where nobody was attached when they came. */
uint32_t fake_dropped(const struct fake *fake);

#endif
