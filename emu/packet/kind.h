/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kind.h - what differs between the kinds of segment (enum emu_kind), and so between the
 * collectives that are made of them.
 *
 * Code that handles each segment compares the kind itself: a comparison costs less than a load.
 */
#ifndef EMU_KIND_H
#define EMU_KIND_H

#include "emu/packet/seg.h"

/* The part of the root of a collective. */
enum emu_root {
    EMU_ROOT_NONE,    /* there is no root: all members send and receive */
    EMU_ROOT_SENDS,   /* it alone sends */
    EMU_ROOT_RECEIVES /* it alone receives */
};

struct emu_kind_traits {
    const char *name;
    const char *collective; /* its name in reports and telemetry; NULL: it is no collective's */
    const char *spoken;     /* its name in sentences; NULL as well */
    enum emu_root root;
    bool folds;  /* the network or adapters combine contributions of the members */
    bool has_op; /* the contributions have an operation and a type (enum emu_op, emu_type) */
};

/** emu_kind_traits - of enum emu_kind @kind, which may be of EMU_SET and EMU_TEST, too. Pure. */
static inline const struct emu_kind_traits *emu_kind_traits(unsigned kind)
{
    static const struct emu_kind_traits traits[] = {
#define KIND(id, ...) [EMU_##id] = {__VA_ARGS__},
#include "emu/packet/kinds.def"
    };

    assert(kind < sizeof traits / sizeof traits[0]);
    return &traits[kind];
}

#endif
