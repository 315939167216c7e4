/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ops.c - translates MPI operations and types to the operations and types of fabemu.h, using the
 * table in ops.def.
 */
#include "coll_fabemu.h"

#define NO_OP 0xff /* greater than every operation of fabemu.h */

/* 1 + the operation or type of fabemu.h; 0: ops.def has no row for it. */
static const uint8_t ops[OMPI_OP_BASE_FORTRAN_OP_MAX + 1] = {
#define OP(ompi, fab) [OMPI_OP_BASE_FORTRAN_##ompi] = (uint8_t)((fab) + 1),
#include "ops.def"
};

static const uint8_t types[OMPI_DATATYPE_MAX_PREDEFINED + 1] = {
#define TYPE(ompi, fab) [OMPI_DATATYPE_MPI_##ompi] = (uint8_t)((fab) + 1),
#include "ops.def"
};

int coll_fabemu_map(const ompi_op_t *op, const ompi_datatype_t *dtype, unsigned *fab_op,
                    unsigned *fab_type)
{
    /* A user-defined operation has an index above the predefined ones. */
    if (!(op->o_flags & OMPI_OP_FLAGS_INTRINSIC) ||
        (unsigned)op->o_f_to_c_index > OMPI_OP_BASE_FORTRAN_OP_MAX)
        return FABEMU_WHY_OP;
    /* A duplicate of a predefined type has the same id, but lacks the flag of predefined types. */
    if (!ompi_datatype_is_predefined(dtype) || (unsigned)dtype->id > OMPI_DATATYPE_MAX_PREDEFINED)
        return FABEMU_WHY_TYPE;

    *fab_op = ops[op->o_f_to_c_index] - 1u; /* UINT_MAX if the table has no row for it */
    *fab_type = types[dtype->id] - 1u;
    if (*fab_op > NO_OP)
        return FABEMU_WHY_OP;
    return fabemu_reducible(*fab_op, *fab_type) ? COLL_FABEMU_NO_FALLBACK : FABEMU_WHY_TYPE;
}
