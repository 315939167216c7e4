/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_fabemu.h - the Open MPI collective component `fabemu`.
 *
 * If all members of the communicator are on one fabric, it runs the collectives of collectives.def
 * in the switches, including non-blocking and persistent collectives. It passes all other calls to
 * *the component below*, which is Open MPI's component of the next lower priority, and counts them
 * by the reason. The reason in `fallback_why` applies to all collectives of a communicator. Only
 * apps/ompi includes internal headers of Open MPI. They may change between releases, so this file
 * checks the version.
 */
#ifndef COLL_FABEMU_H
#define COLL_FABEMU_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/op/op.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/runtime/opal_progress.h"

#include "nic/fabemu.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#if OMPI_MAJOR_VERSION == 5 && OMPI_MINOR_VERSION == 0
#include "opal/mca/pmix/pmix-internal.h"
#define COLL_FABEMU_FRAMEWORK_VERSION MCA_COLL_BASE_VERSION_2_4_0
#define COLL_FABEMU_MODEX_SCOPE       PMIX_GLOBAL
/*
 * A communicator has a number, which is the same on all its members. The next two macros return its
 * two parts.
 */
#define COLL_FABEMU_CID_BASE(comm) ((comm)->c_contextid.cid_base)
#define COLL_FABEMU_CID(comm)      ((comm)->c_contextid.cid_sub.u64)
#elif OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION == 1
#include "opal/mca/pmix/pmix.h"
#define COLL_FABEMU_FRAMEWORK_VERSION MCA_COLL_BASE_VERSION_2_0_0
#define COLL_FABEMU_MODEX_SCOPE       OPAL_PMIX_GLOBAL
#define COLL_FABEMU_CID_BASE(comm)    UINT64_C(0)
#define COLL_FABEMU_CID(comm)         ((uint64_t)(comm)->c_contextid)
#else
/* port the component and test it before changing this check */
#error "apps/ompi is written against the internals of Open MPI 4.1 and 5.0"
#endif
static_assert(sizeof(MPI_Fint) == sizeof(int),
              "shim/.../fint_2_int.h assumes that a Fortran INTEGER is an int");

/* Why a collective runs over messages: enum fabemu_why, or one of these two values. */
#define COLL_FABEMU_NO_FALLBACK (-1) /* there is no reason: the collective runs in the switches */
#define COLL_FABEMU_NOT_TRIED   (-2) /* the module has not tried to join a group yet */

/* The functions of the components below. Each needs a module, which is retained. */
struct coll_fabemu_below {
#define COLL_FABEMU_BELOW(name)                                     \
    __typeof__(((mca_coll_base_module_t *)NULL)->coll_##name) name; \
    mca_coll_base_module_t *name##_module;
#define COLLECTIVE(name, parameters, arguments, ...) \
    COLL_FABEMU_BELOW(name) COLL_FABEMU_BELOW(i##name) COLL_FABEMU_BELOW(name##_init)
#include "collectives.def"
#undef COLL_FABEMU_BELOW
};

#define COLL_FABEMU_RANGES 4 /* per collective: at most 3 from slower.def, and 1 from slower.c */

/* For one collective: the ranges of sizes, in bytes, at which messages are faster (slower.c). */
struct coll_fabemu_slower {
    unsigned ranges;
    struct {
        size_t first, last;
    } range[COLL_FABEMU_RANGES];
};

/*
 * The component's state for one communicator. MPI forbids a program to call two collectives on one
 * communicator at the same time, so only one thread at a time writes the state. Another thread,
 * which completes a non-blocking collective (requests.c), may read it at the same time.
 */
struct mca_coll_fabemu_module_t {
    mca_coll_base_module_t super;

    /* Every collective reads the next fields. */
    /* why all collectives run over messages: COLL_FABEMU_* or enum fabemu_why */
    int fallback_why;
    bool counts; /* this process counts the communicator's collectives; the other members do not */
    /*
     * a component below is executing a collective. If it calls further collectives itself, these
     * are passed to the components below, too, and are not counted
     */
    bool passing;
    struct fabemu *fab; /* borrowed from the component; NULL: this process is not on a fabric */
    struct fabemu_group *group; /* group of all members; NULL until joined */
    uint32_t *nodes;            /* node of each rank; NULL until joined */
    /* number of groups for persistent requests so far, including refused ones */
    uint64_t persistent;
    /* indexed by enum fabemu_coll; valid once a group is joined */
    struct coll_fabemu_slower slower[FABEMU_COLLS];

    /* For large operations: a group with a wide window, requested when it is first needed. */
    /* why large operations run over messages: COLL_FABEMU_* or FABEMU_WHY_WINDOW */
    int wide_fallback_why;
    struct fabemu_group *wide; /* NULL until joined */

    struct coll_fabemu_below below;
};
/* Open MPI's object system names classes by typedef. */
typedef struct mca_coll_fabemu_module_t mca_coll_fabemu_module_t;
OBJ_CLASS_DECLARATION(mca_coll_fabemu_module_t);

/* The component. Open MPI finds it by the name of this global symbol. */
struct coll_fabemu_component {
    mca_coll_base_component_t super;
    int priority; /* MCA parameter */
    bool enable;  /* MCA parameter */
    /* MCA parameter: run a collective over messages if these were measured to be faster */
    bool step_aside;
    size_t wide_bytes;  /* MCA parameter: operations of this size or more use a wide window */
    char *socket;       /* MCA parameter; NULL or empty: $FABEMU_SOCKET */
    struct fabemu *fab; /* set once in MPI_Init; NULL: this process is not on a fabric */
    bool loaded;        /* component_open() was called */
    /* Open MPI's function, which repair.c replaces; NULL: not replaced */
    mca_pml_base_module_isend_init_fn_t isend_init_below;
    /* Open MPI's functions, which tests.c replaces; NULL: not replaced */
    ompi_request_fns_t tests_below;
    mca_pml_base_module_iprobe_fn_t iprobe_below;
    mca_pml_base_module_improbe_fn_t improbe_below;
};
OMPI_DECLSPEC extern struct coll_fabemu_component mca_coll_fabemu_component;

/**
 * coll_fabemu_tests - on clock virtual, tell the library when the program only tests for a message
 * or for the end of an operation (fabemu_testing()). May be called again.
 */
void coll_fabemu_tests(void);
void coll_fabemu_tests_undo(void);

/**
 * coll_fabemu_repair - install repair.c (addresses in persistent sends). May be called again. Open
 * MPI 5 does not need it.
 */
#if OMPI_MAJOR_VERSION == 4
void coll_fabemu_repair(void);
void coll_fabemu_repair_undo(void);
#else
static inline void coll_fabemu_repair(void)
{
}
static inline void coll_fabemu_repair_undo(void)
{
}
#endif

#define COLL_FABEMU_PROGRESS_ROUNDS 64 /* rounds between calls of opal_progress(); power of two */

/**
 * coll_fabemu_wait_round - execute one round of waiting for operations of the adapter.
 * @round: number of the round. @idle: for how many rounds in a row the adapter had nothing to do.
 *
 * fabemu_progress() completes the operations, so it is called most often. Open MPI's own progress
 * function, opal_progress(), is called only in some rounds, because it polls every transport. It
 * must be called, because peers may need replies from this process (to messages or non-blocking
 * collectives) before they can reach the same call. With mpi_yield_when_idle, opal_progress()
 * itself yields the core if it found nothing to do. In this case fabemu_idle() is not called,
 * because it would yield a second time.
 */
static inline void coll_fabemu_wait_round(struct fabemu *fab, unsigned round, unsigned *idle)
{
    if (round % COLL_FABEMU_PROGRESS_ROUNDS == 0) {
        opal_progress();
        if (opal_progress_yield_when_idle)
            return;
    }
    if (fabemu_progress(fab))
        *idle = 0;
    else
        fabemu_idle(fab, (*idle)++);
}

#define COLL_FABEMU_NO_LOCATION UINT64_MAX

/**
 * coll_fabemu_location - return the location of this process: a hash of the fabric's id in the
 * upper 32 bits, and the node in the lower 32 bits. COLL_FABEMU_NO_LOCATION if @fab is NULL.
 */
uint64_t coll_fabemu_location(const struct fabemu *fab);

/** coll_fabemu_comm_query - return a module for @comm; NULL: no memory. Exchanges no messages. */
mca_coll_base_module_t *coll_fabemu_comm_query(ompi_communicator_t *comm, int *priority);

/**
 * coll_fabemu_publish - publish the location of this process to all other processes of its MPI job.
 * Call it in MPI_Init before Open MPI exchanges published data.
 */
void coll_fabemu_publish(const struct fabemu *fab);

/**
 * coll_fabemu_nodes - return an array with the node of each rank, which the caller frees. Returns
 * NULL unless all members are on one fabric and on different nodes. The result is the same at all
 * members.
 */
uint32_t *coll_fabemu_nodes(ompi_communicator_t *comm);

/**
 * coll_fabemu_join - join the group of all members of @comm, if they are on one fabric. Each member
 * calls it in its first collective. It does not wait for other members, and all of them get the
 * same result. Sets fallback_why to COLL_FABEMU_NO_FALLBACK or FABEMU_WHY_GROUP.
 */
void coll_fabemu_join(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm);

/**
 * coll_fabemu_join_wide - join a group with a wide window in the same way, after coll_fabemu_join()
 * has joined a group. Sets wide_fallback_why to COLL_FABEMU_NO_FALLBACK or FABEMU_WHY_WINDOW.
 */
void coll_fabemu_join_wide(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm);

/**
 * coll_fabemu_join_another - join a further group of the same members, for one persistent request.
 * All members call it in the same order. Returns NULL, at all members, if the fabric has no further
 * group.
 */
struct fabemu_group *coll_fabemu_join_another(mca_coll_fabemu_module_t *module,
                                              ompi_communicator_t *comm, bool wide);

/**
 * coll_fabemu_slower_find - set @module->slower from the table of measurements (slower.def).
 * @size: number of members of the communicator.
 * Call it when this member has joined the group. All members get the same sizes, because all
 * members of a group are on one fabric.
 */
void coll_fabemu_slower_find(mca_coll_fabemu_module_t *module, int size);

/**
 * coll_fabemu_map - translate @op and @dtype to enum fabemu_op and enum fabemu_type. Returns
 * COLL_FABEMU_NO_FALLBACK, or the reason why the switches cannot execute them: FABEMU_WHY_OP or
 * FABEMU_WHY_TYPE. Pure; the result is the same on every rank.
 */
int coll_fabemu_map(const ompi_op_t *op, const ompi_datatype_t *dtype, unsigned *fab_op,
                    unsigned *fab_type);

/* One call of a collective: its arguments, and its state in the network. */
struct coll_fabemu_call {
    enum fabemu_coll coll;
    int root;
    const void *in; /* contribution; MPI_IN_PLACE: it is in @out */
    /* number of elements of type @in_type in @in or, if @in has a block per rank, in each block */
    int in_count;
    int count;                /* number of elements or, if there are several parts, in each part */
    ompi_datatype_t *in_type; /* NULL: @in has elements of type @dtype, or MPI ignores the type */
    ompi_datatype_t *dtype;   /* NULL: a barrier, or MPI ignores the type on this rank */
    void *out;                /* result, or the buffer of a broadcast */
    const int *counts;        /* NULL, or the number of elements for each rank */
    const int *displs;        /* NULL, or the offset of each rank's part in @out, in elements */
    ompi_op_t *op;            /* NULL: not a reduction */
    bool exclusive;           /* an exscan: the result leaves out this rank's contribution */
    bool uneven;              /* a rank need not know how much data the others send */
    bool overlaps;            /* non-blocking or persistent: the program may compute meanwhile */
    size_t bytes;             /* size of the data of all parts; the same on every rank */

    unsigned fab_op;   /* enum fabemu_op, set by coll_fabemu_choose() */
    unsigned fab_type; /* enum fabemu_type, set by coll_fabemu_choose() */
    void *packed;      /* contiguous copy of data; NULL: none. Freed by coll_fabemu_finish() */
};

/**
 * coll_fabemu_bytes - return the size of the elements of all ranks together. Each rank has @count
 * elements or, if @counts is not NULL, @counts[rank] elements.
 */
size_t coll_fabemu_bytes(ompi_communicator_t *comm, const ompi_datatype_t *dtype, int count,
                         const int *counts);

/**
 * coll_fabemu_of_blocks - fill in the call of a gather, scatter or all-to-all, in which each rank
 * has a block of data for one or for all ranks. Sets the size. Sets to NULL the types that MPI
 * ignores on this rank, because they may be invalid. Returns the call.
 */
struct coll_fabemu_call coll_fabemu_of_blocks(ompi_communicator_t *comm,
                                              struct coll_fabemu_call call);

/**
 * coll_fabemu_is_slower - return whether the network is slower than messages for @call. The
 * measurements are of blocking calls. Open MPI's non-blocking reductions are slower than its
 * blocking ones, and do not continue while the program computes. So the network is faster than
 * these at all sizes. Pure.
 */
static inline bool coll_fabemu_is_slower(const mca_coll_fabemu_module_t *module,
                                         const struct coll_fabemu_call *call)
{
    const struct coll_fabemu_slower *slower = &module->slower[call->coll];

    if (call->overlaps && (call->coll == FABEMU_COLL_REDUCE || call->coll == FABEMU_COLL_ALLREDUCE))
        return false;
    for (unsigned i = 0; i < slower->ranges; i++)
        if (call->bytes >= slower->range[i].first && call->bytes <= slower->range[i].last)
            return true;
    return false;
}

/**
 * coll_fabemu_is_empty - return whether @call moves no data. Such a call is complete at once, and
 * is not counted. Other ranks may not even call the component, so an empty call must not join a
 * group. Pure.
 */
static inline bool coll_fabemu_is_empty(ompi_communicator_t *comm,
                                        const struct coll_fabemu_call *call)
{
    return !call->bytes && !call->uneven && call->coll != FABEMU_COLL_BARRIER &&
           !OMPI_COMM_IS_INTER(comm);
}

/* --- where the data are (layout.c) --- */

/** coll_fabemu_part_count - return the number of elements of @part. */
static inline int coll_fabemu_part_count(const struct coll_fabemu_call *call, int part)
{
    return call->counts ? call->counts[part] : call->count;
}

/**
 * coll_fabemu_part_bytes - return the size of @part.
 * coll_fabemu_part_offset - return its offset if all parts are packed one after the other.
 * coll_fabemu_part_place - return where the elements of @part are in the user's result.
 */
size_t coll_fabemu_part_bytes(const struct coll_fabemu_call *call, int part);
size_t coll_fabemu_part_offset(const struct coll_fabemu_call *call, int part);
char *coll_fabemu_part_place(const struct coll_fabemu_call *call, int part);

/* --- copies (pack.c, also in the component for one-sided communication) --- */

/** coll_fabemu_is_contiguous - return whether @count elements have no gaps between them. Pure. */
bool coll_fabemu_is_contiguous(const ompi_datatype_t *dtype, size_t count);

/**
 * coll_fabemu_pack - copy @count elements of @buf, but at most @most bytes, to the contiguous
 * buffer @packed.
 * coll_fabemu_unpack - copy them from @packed to @buf. Return OMPI_SUCCESS or an error.
 */
int coll_fabemu_pack(const void *buf, size_t count, const ompi_datatype_t *dtype, void *packed,
                     size_t most);
int coll_fabemu_unpack(void *buf, size_t count, const ompi_datatype_t *dtype, const void *packed,
                       size_t most);

/**
 * coll_fabemu_pack_own - copy this rank's contribution to an allgather, gather, scan or all-to-all
 * to @packed, which has space for @room bytes. Returns OMPI_SUCCESS or an error.
 */
int coll_fabemu_pack_own(ompi_communicator_t *comm, const struct coll_fabemu_call *call,
                         void *packed, size_t room);

/**
 * coll_fabemu_choose - decide where a call runs. Returns the group that executes it. If the call
 * runs over messages, returns NULL, and counts the call unless a component below has made it.
 */
struct fabemu_group *coll_fabemu_choose(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                                        struct coll_fabemu_call *call);

/** coll_fabemu_parts - return the number of requests that coll_fabemu_post() needs for @call. */
int coll_fabemu_parts(ompi_communicator_t *comm, const struct coll_fabemu_call *call);

/**
 * coll_fabemu_post - start @call in @group.
 * @reqs: coll_fabemu_parts() requests, all zero. The request of an empty part is not used. Its
 * status stays 0, which means that it is complete. Errors: those of fabemu_broadcast() and the
 * similar functions; -EINVAL, the data cannot be packed. After an error, call
 * coll_fabemu_failed_alone().
 */
int coll_fabemu_post(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                     struct fabemu_group *group, struct coll_fabemu_call *call,
                     struct fabemu_req *reqs);

/**
 * coll_fabemu_status - return the status of a call that was posted: FABEMU_PENDING until all of its
 * parts are complete, then 0 or the status of the first part that has failed.
 */
int coll_fabemu_status(const struct fabemu_req *reqs, int parts);

/**
 * coll_fabemu_finish - end a call that was posted: report an error, or store the result and count
 * the call. @err: 0, or the status of a request that has failed. Returns an error of MPI or
 * MPI_SUCCESS.
 */
int coll_fabemu_finish(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                       struct coll_fabemu_call *call, int err);

/**
 * coll_fabemu_failed - print why a collective has failed. Returns MPI_ERR_OTHER.
 * coll_fabemu_failed_alone - print why only this rank could not post a collective, and abort the
 * program.
 */
int coll_fabemu_failed(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                       enum fabemu_coll coll, int err);
int coll_fabemu_failed_alone(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                             enum fabemu_coll coll, int err);

/* The collectives, with the signatures of Open MPI's coll.h. */
#define COLL_FABEMU_UNWRAP(...) __VA_ARGS__
#define COLLECTIVE(name, parameters, arguments, ...)                                       \
    int coll_fabemu_##name(COLL_FABEMU_UNWRAP parameters ompi_communicator_t *comm,        \
                           mca_coll_base_module_t *module);                                \
    int coll_fabemu_i##name(COLL_FABEMU_UNWRAP parameters ompi_communicator_t *comm,       \
                            ompi_request_t **request, mca_coll_base_module_t *module);     \
    int coll_fabemu_##name##_init(COLL_FABEMU_UNWRAP parameters ompi_communicator_t *comm, \
                                  ompi_info_t *info, ompi_request_t **request,             \
                                  mca_coll_base_module_t *module);
#include "collectives.def"

/**
 * coll_fabemu_each_group - call @visit for each group of the communicator, including those of its
 * persistent requests. @visit must not free requests. Thread: any.
 */
void coll_fabemu_each_group(const mca_coll_fabemu_module_t *module,
                            void (*visit)(struct fabemu_group *group, void *arg), void *arg);

/**
 * coll_fabemu_requests_abandon - end the operations of requests that the program has not completed
 * before MPI_Finalize, and print a line about them. @module: end only the requests of this module;
 * NULL: end all.
 */
void coll_fabemu_requests_abandon(const mca_coll_fabemu_module_t *module);

/** coll_fabemu_requests_begin - prepare requests.c; coll_fabemu_requests_end - free its memory. */
void coll_fabemu_requests_begin(void);
void coll_fabemu_requests_end(void);

#endif
