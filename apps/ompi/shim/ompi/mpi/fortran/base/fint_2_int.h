/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fint_2_int.h - replaces a header that ompi/op/op.h includes, but that is missing in Debian's
 * libopenmpi-dev. A Fortran INTEGER is an int on all supported hosts, as coll_fabemu.h checks, so
 * nothing is converted.
 */
#ifndef FABEMU_SHIM_FINT_2_INT_H
#define FABEMU_SHIM_FINT_2_INT_H

#define OMPI_INT_2_FINT(a) a
#define OMPI_FINT_2_INT(a) a

#endif
