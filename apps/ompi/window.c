/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c - one-sided calls on a window of which a member is gone, or cannot be reached, return an
 * error.
 *
 * Open MPI's one-sided communication over messages (osc/pt2pt) drops the errors of its messages: a
 * flush whose acknowledgment is lost waits for ever, and a put that never came is nobody's. Both
 * are so over any transport. So this component puts itself before that one's functions, window by
 * window. It knows when what was under way with a member has broken off (fabemu_breaks()); from
 * then on every call that has to do with it returns MPI_ERR_OTHER, and what was written there last
 * may not be. What has to do with other members alone goes on: it ends, or that member is lost,
 * too.
 *
 * A call that waits already is left by longjmp(), out of opal_progress(), which calls us in each of
 * its rounds. That is safe where all that waits is osc/pt2pt itself: what it has under way lies on
 * the heap and stays there, and of a member that is lost nothing comes any more that could be
 * written into the caller's memory. Calls that are with all members flush the others, one by one,
 * before they return their error, or leave after a while. A fence, or a free, is not left at all,
 * for something of Open MPI's collectives may wait in it, whose requests lie on the stack: one that
 * cannot end is the end of the process, with a line that says so.
 *
 * Between MPI_Win_lock_all() and MPI_Win_unlock_all() osc/pt2pt has one count of the answers that
 * it waits for, of all members. What a member that is lost owes stays in it for good, so from then
 * on a call that waits for that count returns an error, whichever member it is with: it could not
 * end; nor can that epoch, so that no other begins. Calls that do not wait for it go on. Locks of
 * single members have a count each.
 *
 * Thread: osc/pt2pt is not there with MPI_THREAD_MULTIPLE, so one thread at a time is in here.
 */
#include "coll_fabemu.h"

#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/win/win.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/output.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_GAP_S  1.0 /* as receives do: nic/host/progress/watch.c */
#define PROBE_ROUNDS 64  /* between looks at the clock */

/* A member of a window. */
struct member {
    uint32_t node;   /* FABEMU_ANY_NODE: not on this fabric */
    uint64_t breaks; /* of that node, when the window was made, */
    uint64_t losses; /* and losses */
    /* Since MPI_Win_lock_all(): */
    bool asked; /* it has been asked for its lock */
    bool owes;  /* it may owe an answer that was not waited for to the end */
};

struct window {
    struct window *next;
    ompi_win_t *win;
    ompi_communicator_t *comm;
    /* of osc/pt2pt's own communicator, a duplicate, in whose collectives fences wait; NULL: none */
    mca_coll_fabemu_module_t *module;
    uint64_t breaks; /* of all nodes, when the members were last looked at */
    uint64_t losses; /* the same */
    bool broken;
    bool torn; /* two members have lost something between them: calls with all cannot end */
    bool told; /* the user has been */
    bool all;  /* all members are locked */
    int rank, ranks;
    struct member member[];
};

/* When a call that waits is left because a member that it has to do with is lost. */
enum leave {
    LEAVE_ONE,   /* at once: it is with that member alone */
    LEAVE_FLUSH, /* at once, and then the others are flushed */
    LEAVE_LATE,  /* after the bound `silence` */
    LEAVE_NEVER, /* it ends the process, after that bound */
};

static struct {
    ompi_osc_base_component_t *component; /* osc/pt2pt's; NULL: there is none */
    ompi_osc_base_component_select_fn_t select_below;
    ompi_osc_base_module_t below; /* the functions of its windows */
    struct window *windows;
    bool hooked;           /* into opal_progress() */
    struct window *inside; /* the window in whose call the process is; NULL: none */
    enum leave leave;      /* when that call is left by longjmp() */
    int target;            /* the member that it has to do with; -1: all */
    bool acks;             /* it waits for the answers of all that were asked for any */
    const char *call;      /* its name */
    double probe_s;        /* when it asks the members whether they answer; 0: it has just begun */
    unsigned rounds;       /* that it has waited */
    double late_s;         /* when it has waited too long for who is lost; 0: it does not yet */
    jmp_buf home;
} windows;

static struct fabemu *fabric(void)
{
    return mca_coll_fabemu_component.fab;
}

static struct window *window_of(const ompi_win_t *win)
{
    struct window *w = windows.windows;

    while (w && w->win != win)
        w = w->next;
    return w;
}

/* Has anything with the member broken off since the window was made? It never mends. */
static bool member_is_lost(const struct window *w, int rank)
{
    const struct member *m = &w->member[rank >= 0 && rank < w->ranks ? rank : 0];

    return m->node != FABEMU_ANY_NODE && fabemu_breaks(fabric(), m->node) != m->breaks;
}

/* With any member? */
static bool window_is_broken(struct window *w)
{
    uint64_t breaks = fabemu_breaks(fabric(), FABEMU_ANY_NODE);

    if (w->broken || breaks == w->breaks)
        return w->broken;
    w->breaks = breaks;
    for (int i = 0; i < w->ranks && !w->broken; i++)
        w->broken = member_is_lost(w, i);
    return w->broken;
}

static bool member_has_lost(const struct window *w, int rank)
{
    const struct member *m = &w->member[rank];

    return m->node != FABEMU_ANY_NODE && fabemu_losses(fabric(), m->node) != m->losses;
}

/*
 * Has a group of the window's own communicator failed? Fences end with a barrier there, of which
 * osc/pt2pt drops the error.
 */
static bool window_group_why(const struct window *w, char *text, size_t bytes)
{
    const mca_coll_fabemu_module_t *module = w->module;

    return module && ((module->group && fabemu_group_why(module->group, text, bytes)) ||
                      (module->wide && fabemu_group_why(module->wide, text, bytes)));
}

/*
 * Have two members lost something between them, or all of them their group? They leave a call that
 * is with all, and who is not one of them waits there for what they do no more.
 */
static bool window_is_torn(struct window *w)
{
    uint64_t losses = fabemu_losses(fabric(), FABEMU_ANY_NODE);
    char why[96];
    int lost = 0;

    w->torn = w->torn || window_group_why(w, why, sizeof why);
    if (w->torn || losses == w->losses)
        return w->torn;
    w->losses = losses;
    for (int i = 0; i < w->ranks; i++)
        lost += member_has_lost(w, i);
    w->torn = lost > 1;
    return w->torn;
}

/* The line for the user, once a window. */
static void window_tell(struct window *w, const char *call)
{
    char why[96];

    if (!w->told && window_group_why(w, why, sizeof why)) {
        opal_output(0, "fabemu: %s on %s failed in the fabric: %s", call, w->win->w_name, why);
        w->told = true;
    }
    for (int i = 0; i < w->ranks && !w->told; i++) {
        const struct member *m = &w->member[i];

        if (!member_is_lost(w, i) && !(w->torn && member_has_lost(w, i)))
            continue;
        if (!fabemu_node_why(fabric(), m->node, why, sizeof why) &&
            !fabemu_node_lost(fabric(), m->node, why, sizeof why))
            snprintf(why, sizeof why, "what was under way with node %u has broken off", m->node);
        opal_output(0, "fabemu: %s on %s failed in the fabric: rank %d of it cannot be reached: %s",
                    call, w->win->w_name, i, why);
        w->told = true;
    }
}

static int window_fails(struct window *w, const char *call)
{
    window_tell(w, call);
    return MPI_ERR_OTHER;
}

/* @target: -1: all of them. */
static bool is_lost(struct window *w, int target)
{
    if (target < 0)
        return window_is_broken(w) || window_is_torn(w);
    return window_is_broken(w) && member_is_lost(w, target);
}

/* Does one that is lost owe what calls to all members wait for? */
static bool window_is_owed(struct window *w)
{
    if (!w->all || !window_is_broken(w))
        return false;
    for (int i = 0; i < w->ranks; i++)
        if (w->member[i].owes && member_is_lost(w, i))
            return true;
    return false;
}

/* @acks: it waits for the answers of all; so does what a process does to its own memory. */
static bool cannot_end(struct window *w, int target, bool acks)
{
    return is_lost(w, target) || ((acks || target == w->rank) && window_is_owed(w));
}

static void member_asked(struct member *m, bool acks)
{
    m->owes |= acks || !m->asked;
    m->asked = true;
}

/* A call to @target, -1: all, is about to begin. */
static void window_asks(struct window *w, int target, bool acks)
{
    if (w->all && target >= 0 && target < w->ranks)
        member_asked(&w->member[target], acks);
    for (int i = 0; w->all && acks && target < 0 && i < w->ranks; i++)
        member_asked(&w->member[i], acks);
}

/* A call has waited for the answers of all, and has them. */
static void window_answered(struct window *w)
{
    for (int i = 0; i < w->ranks; i++)
        w->member[i].owes = false;
}

/* The process waits for one that is lost in a call that may end all the same. For too long? */
static bool is_late(void)
{
    uint64_t silence_ms = fabemu_info(fabric())->bounds.silence_ms;
    double now = MPI_Wtime();

    if (windows.late_s == 0)
        windows.late_s = now + (double)silence_ms / 1e3;
    return silence_ms != FABEMU_FOREVER && now >= windows.late_s;
}

/* Who only waits for a member's answer has nothing under way that could fail: so it asks. */
static void window_probe(struct window *w)
{
    double now;

    if (windows.rounds++ % PROBE_ROUNDS)
        return;
    now = MPI_Wtime();
    if (now < windows.probe_s)
        return;
    if (windows.probe_s != 0)
        for (int i = 0; i < w->ranks; i++)
            fabemu_greet(fabric(), w->member[i].node);
    windows.probe_s = now + PROBE_GAP_S;
}

/* In each round of whatever waits. */
static int window_progress(void)
{
    struct window *w = windows.inside;

    coll_fabemu_fragments_again();
    if (!w)
        return 0;
    if (!cannot_end(w, windows.target, windows.acks)) {
        window_probe(w);
        return 0;
    }
    if (windows.leave >= LEAVE_LATE && !is_late())
        return 0;
    if (windows.leave != LEAVE_NEVER)
        longjmp(windows.home, 1);
    window_tell(w, windows.call);
    opal_output(0, "fabemu: %s cannot return an error; ending this process", windows.call);
    windows.inside = NULL;
    (void)ompi_mpi_abort(w->comm, MPI_ERR_OTHER);
    return 0;
}

static void enter(struct window *w, const char *call, enum leave leave, int target, bool acks)
{
    window_asks(w, target, acks);
    windows.inside = w;
    windows.call = call;
    windows.leave = leave;
    windows.target = target;
    windows.acks = acks;
    windows.late_s = windows.probe_s = 0;
    windows.rounds = 0;
}

static int guarded_flush(int target, ompi_win_t *win);

/*
 * The error of a call; before that, what is with others is complete, where it can be waited for:
 * not while all are locked, and one that is lost owes an answer.
 */
static int call_fails(struct window *w, const char *call, enum leave leave)
{
    for (int i = 0; leave == LEAVE_FLUSH && i < w->ranks; i++)
        if (!member_is_lost(w, i))
            (void)guarded_flush(i, w->win);
    return window_fails(w, call);
}

/* The call that was entered is over, with @rc, or left: MPI_ERR_OTHER. */
static int call_ends(int rc)
{
    struct window *w = windows.inside;
    bool ends = windows.acks && rc == OMPI_SUCCESS;

    windows.inside = NULL;
    if (ends)
        window_answered(w);
    if (cannot_end(w, windows.target, windows.acks))
        return call_fails(w, windows.call, windows.leave);
    return rc;
}

/*
 * A function before osc/pt2pt's own, which may wait. Inside of another one, as where freeing a
 * window completes what is under way, it is part of that. ACKS: one that waits for all answers.
 */
#define GUARDED_BY(name, call, leave, acks, target, params, ...) \
    static int guarded_##name params                             \
    {                                                            \
        struct window *const w = window_of(win);                 \
        volatile int rc = MPI_ERR_OTHER;                         \
                                                                 \
        if (!w || windows.inside)                                \
            return windows.below.osc_##name(__VA_ARGS__);        \
        if (cannot_end(w, target, acks))                         \
            return call_fails(w, call, leave);                   \
        enter(w, call, leave, target, acks);                     \
        if (!setjmp(windows.home))                               \
            rc = windows.below.osc_##name(__VA_ARGS__);          \
        return call_ends(rc);                                    \
    }
#define GUARDED(name, call, leave, ...)      GUARDED_BY(name, call, leave, false, __VA_ARGS__)
#define GUARDED_ACKS(name, call, leave, ...) GUARDED_BY(name, call, leave, true, __VA_ARGS__)

#define ORIGIN const void *from, int count, ompi_datatype_t *type
#define TARGET int target, ptrdiff_t disp, int its_count, ompi_datatype_t *its_type
#define WIN    ompi_win_t *win
#define RESULT void *result, int got, ompi_datatype_t *got_type

GUARDED(put, "MPI_Put", LEAVE_ONE, target, (ORIGIN, TARGET, WIN), from, count, type, target, disp,
        its_count, its_type, win)
GUARDED(get, "MPI_Get", LEAVE_ONE, target,
        (void *to, int count, ompi_datatype_t *type, TARGET, WIN), to, count, type, target, disp,
        its_count, its_type, win)
GUARDED(accumulate, "MPI_Accumulate", LEAVE_ONE, target, (ORIGIN, TARGET, ompi_op_t *op, WIN), from,
        count, type, target, disp, its_count, its_type, op, win)
GUARDED(get_accumulate, "MPI_Get_accumulate", LEAVE_ONE, target,
        (ORIGIN, RESULT, TARGET, ompi_op_t *op, WIN), from, count, type, result, got, got_type,
        target, disp, its_count, its_type, op, win)
GUARDED(fetch_and_op, "MPI_Fetch_and_op", LEAVE_ONE, target,
        (const void *from, void *result, ompi_datatype_t *type, int target, ptrdiff_t disp,
         ompi_op_t *op, WIN),
        from, result, type, target, disp, op, win)
GUARDED(compare_and_swap, "MPI_Compare_and_swap", LEAVE_ONE, target,
        (const void *from, const void *compare, void *result, ompi_datatype_t *type, int target,
         ptrdiff_t disp, WIN),
        from, compare, result, type, target, disp, win)
GUARDED(rput, "MPI_Rput", LEAVE_ONE, target, (ORIGIN, TARGET, WIN, ompi_request_t **req), from,
        count, type, target, disp, its_count, its_type, win, req)
GUARDED_ACKS(rget, "MPI_Rget", LEAVE_ONE, target,
             (void *to, int count, ompi_datatype_t *type, TARGET, WIN, ompi_request_t **req), to,
             count, type, target, disp, its_count, its_type, win, req)
GUARDED(raccumulate, "MPI_Raccumulate", LEAVE_ONE, target,
        (ORIGIN, TARGET, ompi_op_t *op, WIN, ompi_request_t **req), from, count, type, target, disp,
        its_count, its_type, op, win, req)
GUARDED_ACKS(rget_accumulate, "MPI_Rget_accumulate", LEAVE_ONE, target,
             (ORIGIN, RESULT, TARGET, ompi_op_t *op, WIN, ompi_request_t **req), from, count, type,
             result, got, got_type, target, disp, its_count, its_type, op, win, req)
GUARDED(fence, "MPI_Win_fence", LEAVE_NEVER, -1, (int assertion, WIN), assertion, win)
GUARDED(start, "MPI_Win_start", LEAVE_LATE, -1, (ompi_group_t * group, int assertion, WIN), group,
        assertion, win)
GUARDED(complete, "MPI_Win_complete", LEAVE_LATE, -1, (WIN), win)
GUARDED(post, "MPI_Win_post", LEAVE_LATE, -1, (ompi_group_t * group, int assertion, WIN), group,
        assertion, win)
GUARDED(wait, "MPI_Win_wait", LEAVE_LATE, -1, (WIN), win)
GUARDED(test, "MPI_Win_test", LEAVE_LATE, -1, (WIN, int *flag), win, flag)
GUARDED(lock, "MPI_Win_lock", LEAVE_ONE, target, (int kind, int target, int assertion, WIN), kind,
        target, assertion, win)
GUARDED(unlock, "MPI_Win_unlock", LEAVE_ONE, target, (int target, WIN), target, win)
GUARDED(lock_all, "MPI_Win_lock_all", LEAVE_LATE, -1, (int assertion, WIN), assertion, win)
GUARDED_ACKS(unlock_all, "MPI_Win_unlock_all", LEAVE_FLUSH, -1, (WIN), win)
GUARDED_ACKS(flush, "MPI_Win_flush", LEAVE_ONE, target, (int target, WIN), target, win)
GUARDED_ACKS(flush_all, "MPI_Win_flush_all", LEAVE_FLUSH, -1, (WIN), win)
GUARDED(flush_local, "MPI_Win_flush_local", LEAVE_ONE, target, (int target, WIN), target, win)
GUARDED(flush_local_all, "MPI_Win_flush_local_all", LEAVE_FLUSH, -1, (WIN), win)
GUARDED(free, "MPI_Win_free", LEAVE_NEVER, -1, (WIN), win)

/* Nothing is asked yet, and nothing owed, whether all members are locked from now on or no more. */
static int all_now(ompi_win_t *win, bool all, int rc)
{
    struct window *w = rc == OMPI_SUCCESS ? window_of(win) : NULL;

    for (int i = 0; w && i < w->ranks; i++)
        w->member[i].asked = w->member[i].owes = false;
    if (w)
        w->all = all;
    return rc;
}

static int lock_all_noted(int assertion, ompi_win_t *win)
{
    return all_now(win, true, guarded_lock_all(assertion, win));
}

static int unlock_all_noted(ompi_win_t *win)
{
    return all_now(win, false, guarded_unlock_all(win));
}

/* A window that is broken stays, with what is under way on it. */
static int free_and_forget(ompi_win_t *win)
{
    struct window *w = window_of(win), **at = &windows.windows;
    int rc = guarded_free(win);

    if (!w || rc != OMPI_SUCCESS)
        return rc;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
    return rc;
}

static void hook(ompi_osc_base_module_t *module)
{
    windows.below = *module; /* the same of each window */
#define HOOK(name) module->osc_##name = guarded_##name
    HOOK(put);
    HOOK(get);
    HOOK(accumulate);
    HOOK(get_accumulate);
    HOOK(fetch_and_op);
    HOOK(compare_and_swap);
    HOOK(rput);
    HOOK(rget);
    HOOK(raccumulate);
    HOOK(rget_accumulate);
    HOOK(fence);
    HOOK(start);
    HOOK(complete);
    HOOK(post);
    HOOK(wait);
    HOOK(test);
    HOOK(lock);
    HOOK(unlock);
    HOOK(flush);
    HOOK(flush_all);
    HOOK(flush_local);
    HOOK(flush_local_all);
#undef HOOK
    module->osc_lock_all = lock_all_noted;
    module->osc_unlock_all = unlock_all_noted;
    module->osc_free = free_and_forget;
}

/* Collective over @comm, also where a process is on no fabric. */
static struct window *window_make(ompi_win_t *win, ompi_communicator_t *comm)
{
    int ranks = ompi_comm_size(comm);
    struct window *w = calloc(1, sizeof *w + (size_t)ranks * sizeof w->member[0]);
    uint64_t *places = malloc((size_t)ranks * sizeof *places), mine = coll_fabemu_place(fabric());

    if (!w || !places)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* going on alone would hang the peers */
    w->win = win;
    w->comm = comm;
    w->rank = ompi_comm_rank(comm);
    w->ranks = ranks;
    w->breaks = fabric() ? fabemu_breaks(fabric(), FABEMU_ANY_NODE) : 0;
    w->losses = fabric() ? fabemu_losses(fabric(), FABEMU_ANY_NODE) : 0;
    if (comm->c_coll->coll_allgather(&mine, 1, MPI_UINT64_T, places, 1, MPI_UINT64_T, comm,
                                     comm->c_coll->coll_allgather_module) != OMPI_SUCCESS)
        ranks = 0;
    for (int i = 0; i < w->ranks; i++) {
        bool here = i < ranks && fabric() && places[i] >> 32 == mine >> 32 &&
                    places[i] != COLL_FABEMU_NOWHERE;

        w->member[i].node = here ? (uint32_t)places[i] : FABEMU_ANY_NODE;
        w->member[i].breaks = here ? fabemu_breaks(fabric(), w->member[i].node) : 0;
        w->member[i].losses = here ? fabemu_losses(fabric(), w->member[i].node) : 0;
    }
    free(places);
    return w;
}

static int select_window(ompi_win_t *win, void **base, size_t bytes, int unit,
                         ompi_communicator_t *comm, struct opal_info_t *info, int flavor,
                         int *model)
{
    struct window *w;
    int rc;

    mca_coll_fabemu_component.enabled = NULL;
    coll_fabemu_fragments_learn(true);
    rc = windows.select_below(win, base, bytes, unit, comm, info, flavor, model);
    coll_fabemu_fragments_learn(false);
    if (rc != OMPI_SUCCESS)
        return rc;
    w = window_make(win, comm);
    w->module = mca_coll_fabemu_component.enabled;
    if (!fabric()) {
        free(w);
        return rc;
    }
    if (!windows.hooked)
        opal_progress_register(window_progress);
    windows.hooked = true;
    w->next = windows.windows;
    windows.windows = w;
    hook(win->w_osc_module);
    return rc;
}

void coll_fabemu_windows(void)
{
    mca_base_component_list_item_t *item;

    if (windows.component)
        return;
    OPAL_LIST_FOREACH(item, &ompi_osc_base_framework.framework_components,
                      mca_base_component_list_item_t)
    {
        if (strcmp(item->cli_component->mca_component_name, "pt2pt") == 0)
            windows.component = (ompi_osc_base_component_t *)(uintptr_t)item->cli_component;
    }
    if (!windows.component)
        return;
    windows.select_below = windows.component->osc_select;
    windows.component->osc_select = select_window;
}

void coll_fabemu_windows_undo(void)
{
    if (windows.hooked)
        opal_progress_unregister(window_progress);
    windows.hooked = false;
    windows.inside = NULL;
    coll_fabemu_fragments_undo();
}
