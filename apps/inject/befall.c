/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * befall.c - can a fault be had here, and does it hit what it is aimed at? Without acknowledgments
 * a node's cable leads to its process, and nothing goes wrong on it.
 */
#include <errno.h>

#include "apps/inject/internal.h"
#include "apps/fabric/links.h"
#include "apps/cli/say.h"

/* Can all cables of the switch lose their signal? */
static bool switch_can_crash(const struct injector *in, uint32_t sw)
{
    for (uint32_t p = 0; p < in->graph->ports; p++) {
        uint32_t cable = fabric_cable_at(in->fabric, sw, p);

        if (cable != TOPO_NONE && !fabric_can_fail(in->fabric, cable))
            return false;
    }
    return true;
}

static bool any_cable_can_fail(const struct injector *in, const struct fault_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct fault_target *at = &targets->target[i];

        if (fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
            return true;
    }
    return false;
}

/* Does it hit @targets, or some of them where they are cables? */
static bool befalls(const struct injector *in, enum fault_kind kind,
                    const struct fault_targets *targets)
{
    if (fault_domain(kind) == FAULT_OF_LINKS)
        return any_cable_can_fail(in, targets);
    for (uint32_t i = 0; kind == FAULT_SWITCH_CRASH && i < targets->count; i++)
        if (!switch_can_crash(in, targets->target[i].id))
            return false;
    return true;
}

int inject_signals_can(const struct injector *in, const struct fault *fault,
                       const struct fault_targets *targets, char *error, size_t error_bytes)
{
    for (uint32_t i = 0; inject_is_of_signals(fault->kind) && i < targets->count; i++) {
        const struct fault_target *at = &targets->target[i];

        if (!fabric_can_fail(in->fabric, fabric_cable_at(in->fabric, at->id, at->port)))
            return fail(-ENOTSUP, error, error_bytes,
                        "%s: it would take the cable at switch %u, port %u, which leads to a node: "
                        "without acknowledgments nothing can go wrong there",
                        fault_name(fault->kind), at->id, at->port);
    }
    return 0;
}

/* What a kind needs to be done. */
enum need {
    NEED_MENDING, /* what sends again what is lost */
    NEED_CABLES,  /* cables that faults can stand on: any profile has some */
    NEED_CREDITS, /* the same, and credits that nothing sends again */
    NEED_TIME,    /* the same, and a byte takes time */
    NEED_UNITS,   /* switches that combine: fault_check() */
    NEED_PROCESSES
};

static enum need need_of(enum fault_kind kind)
{
    if (inject_is_of_processes(kind))
        return NEED_PROCESSES;
    if (kind == FAULT_SLOW_LINK)
        return NEED_TIME;
    if (kind == FAULT_CREDIT_LOSS || kind == FAULT_CREDIT_FORGE)
        return NEED_CREDITS;
    if (kind == FAULT_COMBINE_STALL || kind == FAULT_COMBINE_FLIP || kind == FAULT_COMBINE_EXHAUST)
        return NEED_UNITS;
    return kind == FAULT_STUCK_PORT ? NEED_CABLES : NEED_MENDING;
}

static int units_can(const struct injector *in, const struct fault *fault, char *error,
                     size_t error_bytes)
{
    if (!fabric_combiners(in->fabric))
        return fail(-ENOTSUP, error, error_bytes,
                    "%s: these switches have no combine units: use buffers=xpoint or input_xpoint",
                    fault_name(fault->kind));
    if (fault->kind == FAULT_COMBINE_EXHAUST && !in->config.process)
        return fail(-ENOTSUP, error, error_bytes,
                    "%s: it refuses groups that are made while it lasts, and synthetic traffic has "
                    "all of its groups before time begins: use fabemu run",
                    fault_name(fault->kind));
    return 0;
}

int inject_can(const struct injector *in, const struct fault *fault, char *error,
               size_t error_bytes)
{
    enum need need = need_of(fault->kind);
    struct fault_targets targets = {.count = 0};
    int err;

    if (fault->when.on.nth && inject_can_see(in, fault, error, error_bytes))
        return -ENOTSUP;
    if (need == NEED_MENDING && !fabric_has_links(in->fabric))
        return fail(
            -ENOTSUP, error, error_bytes,
            "%s: this profile acknowledges nothing, so nothing would mend what is lost: use "
            "profile qsnet3, transport=acknowledged or link_retry=go_back_n",
            fault_name(fault->kind));
    if (need == NEED_UNITS && units_can(in, fault, error, error_bytes))
        return -ENOTSUP;
    if (need == NEED_PROCESSES && !in->config.process)
        return fail(-ENOTSUP, error, error_bytes, "%s befalls processes, and here nodes have none",
                    fault_name(fault->kind));
    if (need == NEED_TIME && !fabric_has_time(in->fabric))
        return fail(
            -ENOTSUP, error, error_bytes,
            "%s: on clock raw a byte takes no time, so nothing can take longer: use --clock "
            "real, or fabemu traffic",
            fault_name(fault->kind));
    if (need == NEED_CREDITS && fabric_retries(in->fabric))
        return fail(-ENOTSUP, error, error_bytes,
                    "%s: with link-level retry credits go with what is checked and sent again, so "
                    "that none is lost or made on a cable: use link_retry=none",
                    fault_name(fault->kind));
    err = inject_targets(&targets, fault, in->graph, 0, error, error_bytes);
    if (!err && !befalls(in, fault->kind, &targets))
        err = fail(-ENOTSUP, error, error_bytes,
                   "%s: without acknowledgments nothing goes wrong on a node's cable: name cables "
                   "between switches, switches without nodes, or take profile qsnet3",
                   fault_name(fault->kind));
    if (!err)
        err = inject_signals_can(in, fault, &targets, error, error_bytes);
    fault_targets_release(&targets);
    return err;
}
