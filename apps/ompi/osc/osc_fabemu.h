/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * osc_fabemu.h - the Open MPI component `fabemu` for one-sided communication.
 *
 * Each call consists of puts, gets and atomics of fabemu.h. The adapters of the targets execute
 * them, so the program of the target does not take part. It does not take part in locks either: a
 * lock is a word in a member's *state*, which the members change by atomics. Open MPI's component
 * sm handles windows of MPI_Win_allocate_shared.
 *
 * A flush waits for the puts, gets and atomics that are on their way. These end with an error if
 * the target has died or cannot be reached, or if the network has dropped one of their segments for
 * good. From then on the target is *lost*: all calls that involve it return MPI_ERR_OTHER.
 * MPI_Win_complete waits only for operations that borrow memory of the program. If another
 * operation fails, the next call that waits for the target reports the error.
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
 * The state of a member. Other members change it by atomics, which the member's adapter executes.
 * The numbers of posts and completes are never reset.
 */
struct osc_fabemu_state {
    /* bits 0 to 31: number of shared locks; bits 32 to 63: 1 + the rank with an exclusive lock */
    uint64_t lock;
    uint64_t accumulate_lock; /* 1 + the rank that executes an accumulate by get and put; 0: none */
    /* number of calls of MPI_Win_complete by origins that accessed this member */
    uint64_t completes;
    /*
     * bits 0 to 31: at rank 0, the number of members that have called MPI_Win_free; at other ranks,
     * 1 if all members have called it. Bits 32 to 63: not 0 if any of them has an error
     */
    uint64_t frees;
    uint64_t posts[]; /* for each rank: number of its calls of MPI_Win_post for this member */
};

/* The data that all members exchange when a window is created. */
struct osc_fabemu_place {
    uint64_t incarnation;
    /*
     * key of a region that contains the window's memory and the state; offsets in it are addresses
     */
    uint64_t key;
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

/*
 * A call, and a part of a call: see transfer.c. A part is *on its way* from the time when it is
 * posted until it ends.
 */
struct osc_fabemu_part;
struct osc_fabemu_call;

/* Numbers of parts on their way to a member. */
struct osc_fabemu_flight {
    unsigned unordered; /* number of these parts that are unordered */
    unsigned borrows;   /* number of these parts that borrow memory of the program */
};

/* A member of a window, as this process sees it. */
struct osc_fabemu_peer {
    struct osc_fabemu_place place;

    /* Parts on their way to the member, oldest first. */
    struct osc_fabemu_part *first, **last;
    uint64_t sent;  /* number of parts appended to this list so far */
    uint64_t ended; /* number of parts removed from it so far */
    struct osc_fabemu_flight flight;
    /* small puts and accumulates that are not posted yet, or NULL: see batch.c */
    struct osc_fabemu_call *batch;

    _Atomic bool lost; /* an operation with the member has failed */
    int rc; /* an error that the next flush returns and clears: an address outside the window */
    uint64_t breaks; /* fabemu_breaks() of the node when the window was made */
    uint64_t drops;  /* fabemu_drops() of the node when the window was made */

    enum osc_fabemu_lock lock;
    bool unchecked;         /* the lock is not acquired, because of MPI_MODE_NOCHECK */
    bool started;           /* between MPI_Win_start and MPI_Win_complete with this member */
    uint64_t started_count; /* number of calls of MPI_Win_start with this member */
};

/* The state of a call that waits. The call sets it to 0 first. */
struct osc_fabemu_wait {
    unsigned round, idle;
    double probe_s; /* time of the next probe of the members; 0: not set yet */
    double late_s;  /* when osc_fabemu_is_late() becomes true; 0: not set yet */
};

struct osc_fabemu_window {
    ompi_osc_base_module_t super;
    struct osc_fabemu_window *next; /* next in the list of all windows */
    struct fabemu *fab;             /* borrowed from the component for collectives */
    ompi_win_t *win;
    ompi_communicator_t *comm; /* a duplicate of the program's communicator */
    int rank, ranks;
    bool dynamic;
    void *allocated; /* memory of MPI_Win_allocate; else NULL */
    struct osc_fabemu_state *state;
    uint64_t key;

    opal_mutex_t lock;         /* protects the next fields */
    _Atomic unsigned parts;    /* number of parts on their way to all members */
    _Atomic unsigned requests; /* number of requests of the program that are not complete */
    _Atomic bool reported;     /* the first error was printed */
    bool fence;                /* between two fences */
    bool lock_all;
    int exposed_count;
    int *exposed; /* ranks of the group of MPI_Win_post; NULL: not between post and wait */
    /* value of state->completes when all of them have called MPI_Win_complete */
    uint64_t completes_due;
    struct osc_fabemu_wait tests; /* the calls of MPI_Win_test since MPI_Win_post, as one wait */
    int *targets;                 /* ranks of the group of MPI_Win_start; NULL: not started */
    int targets_count;
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
 * osc_fabemu_awaits - as fabemu_awaits(), for an action of the member @rank; -1: of several
 * members. When the wait has ended, call fabemu_awaits() with NULL.
 */
void osc_fabemu_awaits(struct osc_fabemu_window *w, enum fabemu_action action, int rank);

/**
 * osc_fabemu_awaits_lock - as fabemu_awaits(), for a lock of the member @rank. Call it after each
 * unsuccessful attempt. @holder: the member that has the lock; -1: unknown. @checks: the number of
 * operations of the attempt.
 */
void osc_fabemu_awaits_lock(struct osc_fabemu_window *w, int rank, int holder, unsigned checks);

/**
 * osc_fabemu_wait_lost - return whether a caller of osc_fabemu_wait() would wait forever for an
 * action of the @count members @ranks: one of them is lost, or messages between two members were
 * lost. Probes these members once a second. If @ranks is NULL, it checks the ranks 0 to @count - 1.
 */
bool osc_fabemu_wait_lost(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait,
                          const int *ranks, int count);

/** osc_fabemu_is_late - return whether @wait has lasted for the bound `silence`. */
bool osc_fabemu_is_late(struct osc_fabemu_window *w, struct osc_fabemu_wait *wait);

/** osc_fabemu_is_lost - return whether @rank has died, or operations with it have failed. */
bool osc_fabemu_is_lost(const struct osc_fabemu_window *w, int rank);

/** osc_fabemu_fails - print why @call has failed. Returns MPI_ERR_OTHER. @rank -1: any member. */
int osc_fabemu_fails(struct osc_fabemu_window *w, const char *call, int rank);

/* --- transfer.c: puts and gets ---------------------------------------------------------- */

/* Elements of a datatype in memory of this process or of a member. */
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

/* A piece of a span: blocks of equal size and distance, or a single block. */
struct osc_fabemu_piece {
    uint64_t at;  /* address of the first block */
    size_t bytes; /* size of all blocks */
    struct fabemu_stride stride;
};

/* The pieces of a span, one after the other. */
struct osc_fabemu_pieces {
    opal_convertor_t convertor;
    struct iovec iov[16];
    uint32_t next, count;
    bool last;     /* `iov` contains the last pieces */
    bool plain;    /* the span has no gaps */
    bool converts; /* `convertor` is in use */
    /* the whole span, if it is a single piece; bytes 0: it is not, or was already returned */
    struct osc_fabemu_piece whole;
};
void osc_fabemu_pieces_begin(struct osc_fabemu_pieces *pieces, const struct osc_fabemu_span *span);
bool osc_fabemu_pieces_next(struct osc_fabemu_pieces *pieces, struct osc_fabemu_piece *piece);
void osc_fabemu_pieces_end(struct osc_fabemu_pieces *pieces);

size_t osc_fabemu_span_bytes(const struct osc_fabemu_span *span);
/** osc_fabemu_span_plain - return the address of the data if it has no gaps; else NULL. */
void *osc_fabemu_span_plain(const struct osc_fabemu_span *span);
/** osc_fabemu_pack, osc_fabemu_unpack - copy the first @bytes of a span to or from @packed. */
void osc_fabemu_pack(const struct osc_fabemu_span *span, void *packed, size_t bytes);
void osc_fabemu_unpack(const struct osc_fabemu_span *span, const void *packed, size_t bytes);

/* A call moves data to or from a member. It has buffers, which it needs until it ends. */
struct osc_fabemu_part {
    struct osc_fabemu_part *next;
    struct osc_fabemu_call *call;
    /*
     * this is a get or a long put: the adapter may execute a later atomic before it has executed
     * this part
     */
    bool unordered;
    bool borrows; /* the adapter may access memory of the program until the part has ended */
    struct fabemu_req req;
    /* in a batch of gets: size of its list, which follows this struct; otherwise 0 */
    size_t gets_listed;
    struct fabemu_iov result;
};
struct osc_fabemu_call {
    struct osc_fabemu_window *w;
    struct osc_fabemu_peer *peer;
    unsigned parts; /* number of parts on their way, plus 1 while parts are being added */
    int status;     /* 0, or the first error */
    /* NULL, a copy without gaps of the data to be sent, or the list of a batch */
    void *out;
    size_t listed; /* size of the list of a batch in bytes */
    void *in;      /* NULL, or a buffer for fetched data, which is then unpacked to `to` */
    size_t in_bytes;
    struct osc_fabemu_span to; /* its type is retained; type NULL: nothing is unpacked */
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
 * osc_fabemu_part - create a part of the call. The caller then posts the request of the part. Waits
 * while too many parts are on their way. @listed: bytes of the part's list of records, or 0. Lock:
 * not held.
 * osc_fabemu_part_posted - append @part to the list of its member. @err: the result of posting it.
 * @part may be freed. Lock: not held.
 */
struct osc_fabemu_part *osc_fabemu_part(struct osc_fabemu_call *call, size_t listed);
void osc_fabemu_part_posted(struct osc_fabemu_part *part, int err);
/**
 * osc_fabemu_part_new - like osc_fabemu_part(), but do not wait. Lock: held.
 * osc_fabemu_part_append - the same as osc_fabemu_part_posted(). Lock: held.
 * osc_fabemu_parts_limit - wait while too many parts are on their way. Lock: not held.
 */
struct osc_fabemu_part *osc_fabemu_part_new(struct osc_fabemu_call *call, size_t listed);
void osc_fabemu_part_append(struct osc_fabemu_part *part, int err);
void osc_fabemu_parts_limit(struct osc_fabemu_window *w);
/**
 * osc_fabemu_call_end - call this when all parts were added. May free the call. Lock: not held.
 */
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
 * osc_fabemu_reap, osc_fabemu_reap_all - end the parts that are complete: those to @rank, or all
 * parts of the window. Returns how many requests of the program are now complete. Lock: not held.
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

#define OSC_FABEMU_SMALL 512u /* maximum size of an operation that is copied into a batch */

/**
 * osc_fabemu_batches - return whether a put of @bytes, or such an accumulate without a result,
 * should be copied into the member's batch. This is the case if it is small, and either other
 * operations are on their way or MPI_Win_complete will follow.
 * osc_fabemu_batch - copy @data into the batch of @rank. The batch is posted when it is full, and
 * before any other part. @stride: NULL if the record has none. Returns an error of MPI. Lock: not
 * held.
 * osc_fabemu_batch_post - post the member's batch, if there is one. @confirmed: the batch ends when
 * the member has executed it; otherwise, when it was sent. Lock: held.
 */
bool osc_fabemu_batches(const struct osc_fabemu_peer *peer, size_t bytes);
int osc_fabemu_batch(struct osc_fabemu_window *w, int rank, const struct fabemu_record *record,
                     const struct fabemu_stride *stride, const void *data);
void osc_fabemu_batch_post(struct osc_fabemu_peer *peer, bool confirmed);
/**
 * osc_fabemu_state_add - add to a word of @rank's state, without waiting and without a
 * confirmation. The member's adapter executes it after all earlier operations that are not
 * unordered. @joins: send it together with the member's batch, which then has no confirmation
 * either. Lock: not held.
 */
int osc_fabemu_state_add(struct osc_fabemu_window *w, int rank, size_t offset, uint64_t operand,
                         bool joins);

/*
 * A run: blocks of equal size and distance in the member's memory, which are sent as one record.
 * Short records of puts and accumulates are copied into the member's batch. Long ones have batches
 * of their own, and so have gets and accumulates that return previous values.
 */
struct osc_fabemu_run {
    struct osc_fabemu_call *call;
    struct fabemu_record record;
    struct fabemu_stride stride;
    uint64_t bytes; /* size of all blocks; 0: no block was added */
    /* the address that the next block must have; not known after the first block */
    uint64_t next;
    char *data;   /* data of all blocks, one after the other; NULL: the run sends none */
    char *result; /* NULL, or receives the previous values of the elements */

    struct osc_fabemu_part *gets; /* the batch of gets that is not posted yet; NULL: none */
};
/**
 * osc_fabemu_run_add - add a piece with blocks of at most OSC_FABEMU_SMALL bytes. If the run cannot
 * include it, first make a record of the run, and begin a new run. Returns an error of MPI. Lock:
 * not held.
 * osc_fabemu_run_end - make a record of the run, and post the gets. If the call has a request, the
 * request ends after the member's batch. Returns an error of MPI. Lock: not held.
 */
int osc_fabemu_run_add(struct osc_fabemu_run *run, const struct osc_fabemu_piece *piece, char *data,
                       char *result);
int osc_fabemu_run_end(struct osc_fabemu_run *run);
/** osc_fabemu_gets_send - send a batch of gets. Errors: those of fabemu_batchv(). Lock: any. */
int osc_fabemu_gets_send(struct osc_fabemu_part *part);

/* --- transfer.c, continued: memory of members -------------------------------------------- */

/** osc_fabemu_move - put (@puts) or get the first @bytes of a span, from or to @local. */
void osc_fabemu_move(struct osc_fabemu_call *call, const struct osc_fabemu_span *target,
                     void *local, size_t bytes, bool puts);

/* --- accumulate.c, active.c, passive.c: the functions of the module (osc.h) -------------- */

/**
 * osc_fabemu_*_fill - set those functions of a window's module that the respective file implements.
 */
void osc_fabemu_transfers_fill(ompi_osc_base_module_t *module);
void osc_fabemu_accumulates_fill(ompi_osc_base_module_t *module);
void osc_fabemu_active_fill(ompi_osc_base_module_t *module);
void osc_fabemu_passive_fill(ompi_osc_base_module_t *module);

/**
 * osc_fabemu_lock_lazily - after MPI_Win_lock_all, acquire the shared lock of @rank, unless this
 * process has it already. Lock: not held.
 */
int osc_fabemu_lock_lazily(struct osc_fabemu_window *w, int rank, const char *name);

/**
 * osc_fabemu_free_barrier - wait until all members have called MPI_Win_free. Returns an error if
 * @rc is an error at any of them.
 */
int osc_fabemu_free_barrier(struct osc_fabemu_window *w, int rc);

#endif
