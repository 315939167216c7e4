/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kind.h - properties of each kind of segment (enum emu_kind), and of the collective that uses this
 * kind. Code that runs for each segment does not use this table. It compares the kind with
 * constants, which costs less than a load from memory.
 */
#ifndef EMU_KIND_H
#define EMU_KIND_H

#include "emu/packet/seg.h"

/* The role of the root of a collective. */
enum emu_root {
    EMU_ROOT_NONE, /* no root: all members send and receive */
    EMU_ROOT_SENDS,
    EMU_ROOT_RECEIVES
};

struct emu_kind_traits {
    const char *name;
    const char *collective; /* name in reports and telemetry; NULL: not a collective */
    const char *spoken;     /* name in sentences; NULL: not a collective */
    enum emu_root root;
    bool folds;  /* contributions of the members are combined */
    bool has_op; /* contributions have an operation and a type (enum emu_op, emu_type) */
};

/** emu_kind_traits - return the properties of a kind. @kind may be EMU_SET or EMU_TEST. Pure. */
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
