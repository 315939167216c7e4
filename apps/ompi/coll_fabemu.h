/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_fabemu.h - the Open MPI collective component `fabemu`.
 *
 * It takes barrier, bcast, reduce and allreduce of communicators whose members
 * all sit on one fabric, and has them done in its switches. What it cannot do
 * there goes to the module below, counted, with the reason. Only apps/ompi
 * includes Open MPI's internals; they carry no promise between releases, hence
 * the check below.
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

#include "nic/fabemu.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#if OMPI_MAJOR_VERSION != 4 || OMPI_MINOR_VERSION != 1
/* port and test it before lifting this check */
#error "apps/ompi is written against the internals of Open MPI 4.1.x"
#endif
static_assert(sizeof(MPI_Fint) == sizeof(int),
              "shim/.../fint_2_int.h takes a Fortran INTEGER for an int");

/* Why a collective goes below: enum fabemu_why, or one of these. */
#define COLL_FABEMU_NOTHING (-1) /* nothing speaks against the switches */
#define COLL_FABEMU_FRESH   (-2) /* a module that has not tried to join a group yet */

/* The functions below ours, and their modules (each retained). */
struct coll_fabemu_below {
    mca_coll_base_module_allgather_fn_t allgather;
    mca_coll_base_module_t *allgather_module;
    mca_coll_base_module_allreduce_fn_t allreduce;
    mca_coll_base_module_t *allreduce_module;
    mca_coll_base_module_barrier_fn_t barrier;
    mca_coll_base_module_t *barrier_module;
    mca_coll_base_module_bcast_fn_t bcast;
    mca_coll_base_module_t *bcast_module;
    mca_coll_base_module_reduce_fn_t reduce;
    mca_coll_base_module_t *reduce_module;
};

/* Sizes in bytes at which messages are faster (slower.c): below @below, and from @from on. */
struct coll_fabemu_slower {
    size_t below, from;
};

/*
 * One communicator. MPI has the program serialise the collectives of a
 * communicator, so the thread in a collective owns all of it.
 */
struct mca_coll_fabemu_module_t {
    mca_coll_base_module_t super;

    /* Read by every collective. */
    /* the reason that holds for all collectives: COLL_FABEMU_*, enum fabemu_why */
    int standing;
    bool counts; /* this process counts the communicator's collectives */
    /* the module below is at work: what it calls of ours is handed on, uncounted */
    bool passing;
    /* NULL: this process is not on a fabric; the component's reference */
    struct fabemu *fab;
    struct fabemu_group *group; /* NULL until joined */
    uint32_t *nodes;            /* node by rank, as many as members; NULL until joined */
    struct coll_fabemu_slower slower[FABEMU_COLLS]; /* valid once a group is joined */

    /* For what has many segments: a group with a wide window, asked for when it is first needed. */
    int wide_standing;         /* COLL_FABEMU_FRESH, COLL_FABEMU_NOTHING or FABEMU_WHY_WINDOW */
    struct fabemu_group *wide; /* NULL until joined */

    struct coll_fabemu_below below;
};
/* Open MPI's object system names classes by typedef. */
typedef struct mca_coll_fabemu_module_t mca_coll_fabemu_module_t;
OBJ_CLASS_DECLARATION(mca_coll_fabemu_module_t);

/* Open MPI finds the component by its symbol, so this one is global. */
struct coll_fabemu_component {
    mca_coll_base_component_t super;
    int priority;       /* MCA parameter */
    bool enable;        /* MCA parameter */
    bool step_aside;    /* MCA parameter: use messages where they were measured to be faster */
    size_t wide_bytes;  /* MCA parameter: operations of so many want a wide window */
    char *socket;       /* MCA parameter; NULL or empty: $FABEMU_SOCKET */
    struct fabemu *fab; /* set once in MPI_Init; NULL: not on a fabric */
    /* the module that was enabled last: a window that is made finds its communicator's by it */
    mca_coll_fabemu_module_t *enabled;
    mca_pml_base_module_isend_init_fn_t isend_init_below; /* likewise; NULL: nothing to repair */
};
OMPI_MODULE_DECLSPEC extern struct coll_fabemu_component mca_coll_fabemu_component;

/**
 * coll_fabemu_repair - persistent sends over libfabric get the right address (repair.c). Again:
 * nothing.
 */
void coll_fabemu_repair(void);
void coll_fabemu_repair_undo(void);

/**
 * coll_fabemu_windows - from now on one-sided calls return errors (window.c). Again: nothing.
 */
void coll_fabemu_windows(void);
void coll_fabemu_windows_undo(void);

/**
 * coll_fabemu_fragments_learn - a window is being made, or is: what Open MPI receives for windows
 * is looked at from now on (fragments.c).
 * coll_fabemu_fragments_again - in each round of whatever waits.
 */
void coll_fabemu_fragments_learn(bool learns);
void coll_fabemu_fragments_again(void);
void coll_fabemu_fragments_undo(void);

#define COLL_FABEMU_NOWHERE UINT64_MAX

/**
 * coll_fabemu_place - where this process is: the fabric's id, folded, above the node, which are the
 * lower 32 bits; COLL_FABEMU_NOWHERE where it is on none (@fab is NULL).
 */
uint64_t coll_fabemu_place(const struct fabemu *fab);

/** coll_fabemu_comm_query - a module for @comm, or NULL. Costs no communication. */
mca_coll_base_module_t *coll_fabemu_comm_query(ompi_communicator_t *comm, int *priority);

/**
 * coll_fabemu_join - make a group of @comm's members, all of them or none.
 * Collective over @comm, in the program's @call. Sets standing: COLL_FABEMU_NOTHING or
 * FABEMU_WHY_GROUP.
 */
void coll_fabemu_join(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                      enum fabemu_coll call);

/**
 * coll_fabemu_join_wide - the same for a group with a wide window; @module has joined the other.
 * Sets wide_standing: COLL_FABEMU_NOTHING or FABEMU_WHY_WINDOW.
 */
void coll_fabemu_join_wide(mca_coll_fabemu_module_t *module, ompi_communicator_t *comm,
                           enum fabemu_coll call);

/**
 * coll_fabemu_slower_find - set @module->slower from the table of measurements (slower.def).
 * @size: members of the communicator. Call it only once all members have joined the group: a member
 * without the fabric has another table, and all members must decide alike.
 */
void coll_fabemu_slower_find(mca_coll_fabemu_module_t *module, int size);

/** coll_fabemu_is_slower - are messages faster than the network for @bytes? Pure. */
static inline bool coll_fabemu_is_slower(const mca_coll_fabemu_module_t *module,
                                         enum fabemu_coll coll, size_t bytes)
{
    const struct coll_fabemu_slower *slower = &module->slower[coll];

    return bytes < slower->below || bytes >= slower->from;
}

/**
 * coll_fabemu_map - @op and @dtype in the words of fabemu.h.
 * Returns COLL_FABEMU_NOTHING, or the reason why the switches cannot do it:
 * FABEMU_WHY_OP or FABEMU_WHY_TYPE. Pure; the same on every rank.
 */
int coll_fabemu_map(const ompi_op_t *op, const ompi_datatype_t *dtype, unsigned *fab_op,
                    unsigned *fab_type);

/* The collectives, as Open MPI's coll.h wants them. */
int coll_fabemu_barrier(ompi_communicator_t *comm, mca_coll_base_module_t *module);
int coll_fabemu_bcast(void *buf, int count, ompi_datatype_t *dtype, int root,
                      ompi_communicator_t *comm, mca_coll_base_module_t *module);
int coll_fabemu_reduce(const void *in, void *out, int count, ompi_datatype_t *dtype, ompi_op_t *op,
                       int root, ompi_communicator_t *comm, mca_coll_base_module_t *module);
int coll_fabemu_allreduce(const void *in, void *out, int count, ompi_datatype_t *dtype,
                          ompi_op_t *op, ompi_communicator_t *comm, mca_coll_base_module_t *module);

#endif
