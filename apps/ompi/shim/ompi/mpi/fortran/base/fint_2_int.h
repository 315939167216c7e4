/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fint_2_int.h - stand-in for a header that ompi/op/op.h includes and Debian's
 * libopenmpi-dev leaves out. A Fortran INTEGER is an int on the hosts that we
 * build for, so converting is doing nothing; coll_fabemu.h checks that.
 */
#ifndef FABEMU_SHIM_FINT_2_INT_H
#define FABEMU_SHIM_FINT_2_INT_H

#define OMPI_INT_2_FINT(a) a
#define OMPI_FINT_2_INT(a) a

#endif
