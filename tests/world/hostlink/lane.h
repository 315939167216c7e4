/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.h - two Ethernet ports joined by datagram sockets of this process, for devices on threads:
 * they wake who sleeps, and lose nothing unless they are full or told to. Nothing here needs CUnit.
 */
#ifndef TESTS_WORLD_HOSTLINK_LANE_H
#define TESTS_WORLD_HOSTLINK_LANE_H

#include "emu/hostlink/port/port.h"

struct lane;

/** lane_create - each port has @frames frames of @frame_bytes; NULL: it cannot be made. */
struct lane *lane_create(uint32_t frames, uint32_t frame_bytes);
void lane_destroy(struct lane *lane);

struct emu_hostport *lane_port(struct lane *lane, uint32_t port);

#define LANE_UNIT 1000000u /* rates are of so many frames */

/**
 * lane_lose - from now on @rate of the frames that are sent are lost, drawn from @seed; LANE_UNIT:
 * all, which cuts the lane. Thread: any.
 */
void lane_lose(struct lane *lane, uint32_t rate, uint64_t seed);

/** lane_receives - how often the port was asked for frames; while its device stands still. */
uint64_t lane_receives(const struct lane *lane, uint32_t port);

#endif
