/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simtime.h - clock virtual: how a process takes part in simulated time.
 *
 * A process has a *local time*, which it advances itself: by the cost of its calls, and by waiting.
 * At each moment it either *runs* or *waits*. While it runs, the fabric simulates no event that a
 * segment posted at the local time could still affect. A process that waits has named the latest
 * time at which its wait ends. The fabric ends the wait at the arrival of the next segment for the
 * process or at that time, whichever is earlier, and only after it has simulated all events up to
 * then. So a process that continues after a wait finds all segments that have arrived by its local
 * time, and results do not depend on the speed of the host.
 *
 * The pieces of a long message arrive one by one, but only the last one matters to the program. So
 * a process can name a stream of *quiet* segments, which do not end its wait.
 *
 * The space in the two rings also depends only on simulated time. The fabric stores in up_ps[] the
 * time at which it took a segment. The process counts the slot as free only once it knows that all
 * events up to that time have been simulated. The process stores in down_ps[] the time at which it
 * read a segment. The fabric does not fill the slot again before the read can affect the device
 * (emu_hostif_lookahead_ps()). A process whose up ring is full can wait until the fabric has taken
 * a certain segment.
 *
 * The local time of a process also advances by the time that it computes between two calls of its
 * library, as `--compute` says (nic/host/base/compute.c).
 *
 * A running process whose threads all sleep in the kernel, for example in read() or waitpid(), is
 * *outside*. The duration of its call is unknown. Therefore simulated time advances at the pace of
 * the host's clock during the call, and results are not exact. When the process next uses the
 * fabric, it waits once, and its local time becomes the time that the fabric has reached. A process
 * that waits for the daemon to reply to a request is not outside: the reply takes no simulated
 * time.
 *
 * The values that a process writes here can harm only this process. If it writes a wrong time, only
 * its own calls are late, or its posts count as posted at the time that the fabric has reached.
 * Times after EMU_LAST_PS are ignored. Simulated time passes quickly while all processes wait, so
 * it can end at EMU_LAST_PS. The daemon reports this end (event time_over).
 */
#ifndef EMU_SIMTIME_H
#define EMU_SIMTIME_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/hostif/calls.h"
#include "emu/util/alloc.h"

#define EMU_SIMTIME_CHECK_NS 50000000u /* host time after which emu_hostif_nic_await() returns */

/* How to find the time that a process computes between two calls of its library: --compute. */
enum emu_compute_mode {
    EMU_COMPUTE_NONE,   /* computing takes no time */
    EMU_COMPUTE_CPU,    /* from the thread's CPU time */
    EMU_COMPUTE_COUNT,  /* from the number of its instructions */
    EMU_COMPUTE_RECORD, /* as for EMU_COMPUTE_CPU; the process also records it */
    EMU_COMPUTE_REPLAY  /* from a recording */
};

struct emu_compute {
    enum emu_compute_mode mode;
    bool traces;    /* --goal: the process records what it communicates */
    double unit_ps; /* simulated time of a nanosecond of CPU time, or of an instruction */
};

/* How a process measures the host's time instead of simulated time: bits of host_time. */
enum emu_host_time {
    EMU_HOST_TIME_TIMERS = 1,  /* it has set a timer */
    EMU_HOST_TIME_THREADS = 2, /* a thread other than the one that attached has slept or waited */
    EMU_HOST_TIME_CLOCKS = 4   /* libfabemu-clock, which shows simulated time, is not loaded */
};

/* Part of a host interface. All times are in ps; EMU_NEVER: no limit. */
struct emu_simtime {
    /* Written once by the fabric, before the process maps it. */
    struct emu_compute compute;
    uint64_t call_ps; /* from the profile: time of each call of the library */

    /* Written by the process. */
    alignas(EMU_LINE) _Atomic uint64_t now_ps; /* its local time */
    _Atomic uint64_t until_ps;                 /* latest time at which its last wait ends */
    /* During a wait: quiet segments have this source and destination (emu_hdr_words.ends) and this
       first word of payload. At most quiet_most segments are quiet. */
    _Atomic uint64_t quiet_ends, quiet_word;
    _Atomic uint32_t quiet_most;
    _Atomic uint32_t room_wanted; /* 1: a wait also ends when segment number room_at is taken */
    _Atomic uint32_t room_at;
    _Atomic uint32_t begun;                   /* number of waits begun, free-running */
    _Atomic uint32_t ready;                   /* 1: simulated time may begin for this process */
    _Atomic uint32_t differs;                 /* 1: its calls are not those of the recording */
    _Atomic uint32_t host_time;               /* bits of enum emu_host_time */
    _Atomic uint32_t requests;                /* requests to the daemon that are in progress */
    _Atomic uint64_t calls[EMU_CALL_CLASSES]; /* calls that post an operation */
    /* time spent in polls, by the class of the last post before them */
    _Atomic uint64_t waited_ps[EMU_CALL_CLASSES];
    /* when it began to detach, minus its sleeps and polls after its last operation; 0: it has not
       begun. If this time is later than the fabric's time, the fabric uses its own time. */
    _Atomic uint64_t finished_ps;
    _Atomic uint64_t computed_ps; /* time that the process has computed */
    _Atomic uint64_t progress;    /* operations posted, and polls that found some complete */
    _Atomic uint64_t digest;      /* hash of all counted calls and their local times */

    /* Written by the fabric. */
    alignas(EMU_LINE) _Atomic uint32_t ended; /* number of waits ended; a futex */
    _Atomic uint64_t end_ps;                  /* time at which the last wait ended */
    _Atomic uint32_t outside;    /* 1: the process was outside and has not waited since */
    _Atomic uint64_t reached_ps; /* all segments that arrive by then are in the down ring */
    /* the process's CLOCK_MONOTONIC and CLOCK_REALTIME at time 0; base_ns is 0 until then */
    _Atomic uint64_t base_ns, base_real_ns;
};

#endif
