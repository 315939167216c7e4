/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tape.h - the file of this process's calls, which the fabric passes to it: written to record them,
 * or read to replay them (emu/hostif/calls.h). Thread: one.
 */
#ifndef NIC_TAPE_H
#define NIC_TAPE_H

#include "emu/hostif/calls.h"

struct nic_tape;

/**
 * nic_tape_open - use the file @fd, which the tape closes. @replays: the file has calls to be read.
 * Errors: -EPROTO, the file to be read is empty; -ENOMEM; -errno.
 */
int nic_tape_open(struct nic_tape **ret, int fd, bool replays);

/** nic_tape_put - record a call. If the file cannot be written, the recording ends there. */
void nic_tape_put(struct nic_tape *tape, const struct emu_call *call);

/** nic_tape_next - return the next call to replay. After the last call, it is EMU_CALL_END. */
struct emu_call *nic_tape_next(struct nic_tape *tape);
void nic_tape_skip(struct nic_tape *tape); /* advance to the call after the next one */

/** nic_tape_close - write calls that are not written yet, and close the file. @tape may be NULL. */
void nic_tape_close(struct nic_tape *tape);

#endif
