/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * osc_fabemu.h - the Open MPI component `fabemu` for one-sided communication.
 *
 * Each call becomes puts, gets and atomics of fabemu.h. The adapters of the targets execute them,
 * so the target's program does not take part, not even in locks: these are words in a member's
 * *state*, which the members change by atomics. Windows of MPI_Win_allocate_shared are left to
 * Open MPI's component sm.
 *
 * A flush waits for the puts, gets and atomics that are on their way. These end with an error if
 * the target has died or cannot be reached, or if the network has dropped one of their segments for
 * good. From then on the target is *lost*: all calls that involve it return MPI_ERR_OTHER.
 * MPI_Win_complete waits only for parts that borrow memory of the program. The next call that
 * waits for the target reports an error of the others.
 *
 * Thread: any, with MPI_THREAD_MULTIPLE. Each window has a lock, which is never held while a call
 * waits or while Open MPI completes a request.
 */
#ifndef OSC_FABEMU_H
#define OSC_FABEMU_H

#include "apps/ompi/coll_fabemu.h"

#include "ompi/group/group.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"

#include <stdatomic.h>

/*
 * The state of a member, which the adapters of all members change. The numbers of posts and
 * completes are free-running.
 */
struct osc_fabemu_state {
    /* bits 0 to 31: number of shared locks; bits 32 to 63: 1 + the rank with an exclusive lock */
    uint64_t lock;
    uint64_t accumulate_lock; /* 0, or 1 + the rank that accumulates by get and put */
    uint64_t completes;       /* calls of MPI_Win_complete that involve this member */
    /* bits 0 to 31: members that have called MPI_Win_free (rank 0), or whether all have (others);
       bits 32 to 63: not 0 if any of them has an error */
    uint64_t frees;
    uint64_t posts[]; /* for each rank: its calls of MPI_Win_post that involve this member */
};

/* What each member tells the others when a window is made. */
struct osc_fabemu_place {
    uint64_t incarnation;
    uint64_t key;   /* of the window's memory and of the state, by address */
    uint64_t state; /* address of the state */
    uint64_t base, bytes;
    uint32_t node;
    uint32_t unit; /* displacement unit */
};

enum osc_fabemu_lock {
    OSC_FABEMU_UNLOCKED,
    OSC_FABEMU_LOCKING, /* MPI_Win_lock_all: a thread is taking the lock at its first access */
    OSC_FABEMU_SHARED,
    OSC_FABEMU_EXCLUSIVE
};

/* A part of a call that is on its way, and the call: see transfer.c. */
struct osc_fabemu_part;
struct osc_fabemu_call;

/* Numbers of parts on their way to a member. */
struct osc_fabemu_flight {
    unsigned unordered; /* parts that are unordered */
    unsigned borrows;   /* parts that borrow memory of the program */
};

/* A member of a window, as this process sees it. */
struct osc_fabemu_peer {
    struct osc_fabemu_place place;

    /* Parts on their way to the member, oldest first. */
    struct osc_fabemu_part *first, **last;
    uint64_t sent;  /* parts that were ever appended to this list */
    uint64_t ended; /* parts that were ever removed from it */
    struct osc_fabemu_flight flight;
    /* small puts and accumulates that are not posted yet, or NULL: see batch.c */
    struct osc_fabemu_call *batch;

    _Atomic bool lost; /* an operation with the member has failed */
    int rc; /* an error that the next flush returns and clears: an address outside the window */
    uint64_t breaks; /* fabemu_breaks() of the node when the window was made */
    uint64_t drops;  /* fabemu_drops() of the node when the window was made */

    enum osc_fabemu_lock lock;
    bool unchecked;         /* the lock is not taken, because of MPI_MODE_NOCHECK */
    bool started;           /* between MPI_Win_start and MPI_Win_complete with this member */
    uint64_t started_count; /* calls of MPI_Win_start with this member */
};

/* A call that waits. Zero it first. */
struct osc_fabemu_wait {
    unsigned round, idle;
    double probe_s; /* time of the next probe of the members; 0: not set yet */
    double late_s;  /* when waiting for a lost member has taken too long; 0: not set yet */
};

struct osc_fabemu_window {
    ompi_osc_base_module_t super;
    struct osc_fabemu_window *next; /* in the list of all windows */
    struct fabemu *fab;             /* the reference of the component for collectives */
    ompi_win_t *win;
    ompi_communicator_t *comm; /* a duplicate of the program's */
    int rank, ranks;
    bool dynamic;
    void *allocated; /* memory of MPI_Win_allocate; else NULL */
    struct osc_fabemu_state *state;
    uint64_t key;

    opal_mutex_t lock;         /* protects the rest */
    _Atomic unsigned parts;    /* on their way to all members */
    _Atomic unsigned requests; /* requests of the program that are not complete */
    _Atomic bool reported;     /* the first error was printed */
    bool fence;                /* between two fences */
    bool lock_all;
    int exposed_count;      /* members of the group of MPI_Win_post; 0: not between post and wait */
    int *exposed;           /* ranks of that group */
    uint64_t completes_due; /* state->completes when they have all called MPI_Win_complete */
    struct osc_fabemu_wait tests; /* calls of MPI_Win_test since MPI_Win_post */
    int *starters;                /* ranks of the group of MPI_Win_start; NULL: not started */
    int starters_count;
    struct osc_fabemu_peer peer[];
};

static inline struct osc_fabemu_window *osc_fabemu_window(ompi_win_t *win)
{
    return (struct osc_fabemu_window *)win->w_osc_module;
}

/* --- loss.c: waiting, lost members ------------------------------------------------------ */

/** osc_fabemu_wait - let the adapter and Open MPI make progress. Lock: not held. */
void osc_fabemu_wait(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait);

/**
 * osc_fabemu_wait_lost - return whether a caller of osc_fabemu_wait() must not wait any longer for
 * something that one of the @count members @ranks will do, because one of them is lost, or messages
 * between two members were lost. Probes these members once a second. @ranks NULL: all members.
 */
bool osc_fabemu_wait_lost(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait,
                          const int *ranks, int count);

/** osc_fabemu_is_late - return whether the bound `silence` has passed since the first such call. */
bool osc_fabemu_is_late(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait);

/** osc_fabemu_is_lost - return whether @rank has died, or operations with it have failed. */
bool osc_fabemu_is_lost(const struct osc_fabemu_window *w, int rank);

/** osc_fabemu_fails - print why @call has failed. Returns MPI_ERR_OTHER. @rank -1: any member. */
int osc_fabemu_fails(struct osc_fabemu_window *w, const char *call, int rank);

/* --- transfer.c: puts and gets ---------------------------------------------------------- */

/* A datatype in memory: this process's or a member's. */
struct osc_fabemu_span {
    uint64_t at; /* address of the buffer */
    int count;
    ompi_datatype_t *type;
};

/** osc_fabemu_span_of - return the span of @count elements of a buffer of this process. */
static inline struct osc_fabemu_span osc_fabemu_span_of(const void *buf, int count,
                                                        ompi_datatype_t *type)
{
    return (struct osc_fabemu_span){.at = (uintptr_t)buf, .count = count, .type = type};
}

/* The contiguous pieces of a span, one after the other. */
struct osc_fabemu_pieces {
    opal_convertor_t convertor;
    struct iovec iov[16];
    uint32_t next, count;
    bool last;  /* iov has the last pieces */
    bool plain; /* the span has no gaps: one piece, and no convertor */
};
void osc_fabemu_pieces_begin(struct osc_fabemu_pieces *pieces, const struct osc_fabemu_span *span);
bool osc_fabemu_pieces_next(struct osc_fabemu_pieces *pieces, uint64_t *at, size_t *bytes);
void osc_fabemu_pieces_end(struct osc_fabemu_pieces *pieces);

size_t osc_fabemu_span_bytes(const struct osc_fabemu_span *span);
/** osc_fabemu_span_plain - return the address of the data if they have no gaps; else NULL. */
void *osc_fabemu_span_plain(const struct osc_fabemu_span *span);
/** osc_fabemu_pack, osc_fabemu_unpack - copy the first @bytes of a span to or from @packed. */
void osc_fabemu_pack(const struct osc_fabemu_span *span, void *packed, size_t bytes);
void osc_fabemu_unpack(const struct osc_fabemu_span *span, const void *packed, size_t bytes);

/* A call that moves data to or from a member, and the buffers that it needs until it ends. */
struct osc_fabemu_part {
    struct osc_fabemu_part *next;
    struct osc_fabemu_call *call;
    /* a get or a long put: the adapter may execute an atomic earlier that was posted later */
    bool unordered;
    bool borrows; /* the adapter may access memory of the program until the part has ended */
    struct fabemu_req req;
    /* here follows the list of a batch of gets */
};
struct osc_fabemu_call {
    struct osc_fabemu_window *w;
    struct osc_fabemu_peer *peer;
    unsigned parts; /* on their way, and one more while parts are being added */
    int status;     /* 0, or the first error */
    /* NULL, or a copy of the data to be sent, without gaps, or the list of a batch */
    void *out;
    size_t listed; /* bytes of the list of a batch */
    void *in;      /* NULL, or where the fetched data arrive, before they are unpacked to @to */
    size_t in_bytes;
    struct osc_fabemu_span to; /* its type is retained; NULL: nothing is unpacked */
    ompi_request_t *request;   /* NULL, or the request that ends with this call */
    struct osc_fabemu_part one;
};

/**
 * osc_fabemu_call_begin - make a call to @rank.
 * @out_bytes, @in_bytes: sizes of its buffers `out` and `in`; 0: it needs none.
 * @to: where `in` is unpacked when the call ends.
 * @request: NULL, or receives a request that ends with the call.
 * Errors: MPI_ERR_NO_MEM. Lock: not held.
 */
int osc_fabemu_call_begin(struct osc_fabemu_window *w, int rank, size_t out_bytes, size_t in_bytes,
                          const struct osc_fabemu_span *to, ompi_request_t **request,
                          struct osc_fabemu_call **ret);
/**
 * osc_fabemu_part - make a part of the call, whose request the caller posts. Waits while too many
 * parts are on their way. @listed: bytes of its list, or 0. Lock: not held.
 * osc_fabemu_part_posted - @part was posted with the result @err. It may be freed. Lock: not held.
 */
struct osc_fabemu_part *osc_fabemu_part(struct osc_fabemu_call *call, size_t listed);
void osc_fabemu_part_posted(struct osc_fabemu_part *part, int err);
/**
 * osc_fabemu_part_new - as osc_fabemu_part(), but do not wait. Lock: held.
 * osc_fabemu_part_append - as osc_fabemu_part_posted(). Lock: held.
 * osc_fabemu_parts_limit - wait while too many parts are on their way. Lock: not held.
 */
struct osc_fabemu_part *osc_fabemu_part_new(struct osc_fabemu_call *call, size_t listed);
void osc_fabemu_part_append(struct osc_fabemu_part *part, int err);
void osc_fabemu_parts_limit(struct osc_fabemu_window *w);
/** osc_fabemu_call_end - no further parts follow. The call may be freed. Lock: not held. */
void osc_fabemu_call_end(struct osc_fabemu_call *call);

/**
 * osc_fabemu_drain - wait until all parts that were sent to @rank have ended. Returns an error of
 * MPI if one of them has failed, or if the member is lost. Lock: not held.
 */
int osc_fabemu_drain(struct osc_fabemu_window *w, int rank, const char *name);
int osc_fabemu_drain_all(struct osc_fabemu_window *w, const char *name);
/** osc_fabemu_flight - return the numbers of parts on their way to @rank. Lock: not held. */
struct osc_fabemu_flight osc_fabemu_flight(struct osc_fabemu_window *w, int rank);
/**
 * osc_fabemu_reap, osc_fabemu_reap_all - end the parts that are complete: those to @rank, or all of
 * the window. Returns how many requests of the program are now complete. Lock: not held.
 */
int osc_fabemu_reap(struct osc_fabemu_window *w, int rank);
int osc_fabemu_reap_all(struct osc_fabemu_window *w);

#define OSC_FABEMU_AT(field) offsetof(struct osc_fabemu_state, field)
/**
 * osc_fabemu_state_post - start an atomic on a word of @rank's state. FABEMU_ATOMIC_CAS compares
 * with 0. Errors: those of fabemu_atomic().
 * osc_fabemu_state_op - the same, and wait for the result.
 * @before: receives the previous value.
 */
int osc_fabemu_state_post(struct osc_fabemu_window *w, int rank, unsigned op, size_t offset,
                          uint64_t operand, uint64_t *before, struct fabemu_req *req);
int osc_fabemu_state_op(struct osc_fabemu_window *w, int rank, unsigned op, size_t offset,
                        uint64_t operand, uint64_t *before, const char *name);

/**
 * osc_fabemu_access - check a call that accesses the memory of @rank. Returns 0, with the span in
 * the member's memory in @ret, or an error.
 */
int osc_fabemu_access(struct osc_fabemu_window *w, int rank, ptrdiff_t disp, int count,
                      ompi_datatype_t *type, const char *name, struct osc_fabemu_span *ret);

/* --- batch.c: small puts and accumulates ------------------------------------------------- */

#define OSC_FABEMU_SMALL 512u /* bytes of data that a batch may copy */

/**
 * osc_fabemu_batches - return whether @bytes for a put or an accumulate without a result should go
 * into the member's batch: they are few, and other operations are on their way, or
 * MPI_Win_complete will follow.
 * osc_fabemu_batch - copy @data into the batch of @rank. It is posted when it is full, and before
 * any other part. @stride: NULL if the record has none. Returns an error of MPI. Lock: not held.
 * osc_fabemu_batch_post - post the member's batch, if there is one. @confirmed: its part ends when
 * the member has executed it, not when it is sent. Lock: held.
 */
bool osc_fabemu_batches(const struct osc_fabemu_peer *peer, size_t bytes);
int osc_fabemu_batch(struct osc_fabemu_window *w, int rank, const struct fabemu_record *record,
                     const struct fabemu_stride *stride, const void *data);
void osc_fabemu_batch_post(struct osc_fabemu_peer *peer, bool confirmed);
/**
 * osc_fabemu_state_add - add to a word of @rank's state, without waiting and without a
 * confirmation. The member sees it after everything that was posted before and is not unordered.
 * @joins: the member's batch is sent together with it, and is not confirmed either. Lock: not held.
 */
int osc_fabemu_state_add(struct osc_fabemu_window *w, int rank, size_t offset, uint64_t operand,
                         bool joins);

/*
 * Blocks of equal size and distance in the member's memory, which become one record. Records of
 * puts and accumulates are copied into the member's batch. Gets have batches of their own, because
 * these have a result.
 */
struct osc_fabemu_run {
    struct osc_fabemu_call *call;
    struct fabemu_record record; /* bytes 0: no block was added */
    struct fabemu_stride stride;
    uint64_t next; /* the address of the next block; not known after the first one */
    char *data;    /* of all blocks, one after the other */

    struct osc_fabemu_part *gets; /* NULL, or the batch of gets that is not posted yet */
    size_t listed;                /* bytes of its list */
    struct fabemu_iov result;
};
/**
 * osc_fabemu_run_add - add the next block, of at most OSC_FABEMU_SMALL bytes. If it does not fit,
 * make a record of the blocks before it. Returns an error of MPI. Lock: not held.
 * osc_fabemu_run_end - make a record of all blocks, and post the gets. If the call has a request,
 * this ends after the member's batch. Returns an error of MPI. Lock: not held.
 */
int osc_fabemu_run_add(struct osc_fabemu_run *run, uint64_t at, size_t bytes, char *data);
int osc_fabemu_run_end(struct osc_fabemu_run *run);

/* --- transfer.c, continued: memory of members -------------------------------------------- */

/** osc_fabemu_move - put (@puts) or get the first @bytes of a span, from or to @local. */
void osc_fabemu_move(struct osc_fabemu_call *call, const struct osc_fabemu_span *its, void *local,
                     size_t bytes, bool puts);

/* --- accumulate.c, active.c, passive.c: the functions of the module (osc.h) -------------- */

/** osc_fabemu_*_fill - set the functions of a window's module that the file implements. */
void osc_fabemu_transfers_fill(ompi_osc_base_module_t *module);
void osc_fabemu_accumulates_fill(ompi_osc_base_module_t *module);
void osc_fabemu_active_fill(ompi_osc_base_module_t *module);
void osc_fabemu_passive_fill(ompi_osc_base_module_t *module);

/**
 * osc_fabemu_lock_lazily - after MPI_Win_lock_all, take the shared lock of @rank, unless it is
 * taken. Lock: not held.
 */
int osc_fabemu_lock_lazily(struct osc_fabemu_window *w, int rank, const char *name);

/**
 * osc_fabemu_meet - wait until all members have called MPI_Win_free. Returns an error if @rc is one
 * at any of them.
 */
int osc_fabemu_meet(struct osc_fabemu_window *w, int rc);

#endif
