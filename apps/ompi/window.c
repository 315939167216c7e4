/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window.c - make one-sided calls on a window return an error if a member has died or cannot be
 * reached.
 *
 * osc/pt2pt, Open MPI's one-sided communication over messages, ignores the errors of its messages.
 * If an acknowledgment is lost, a flush waits for it forever, and the loss of a put is not
 * reported. Both happen with any transport. So this component replaces the functions of each window
 * by its own, which call the original ones. It learns from fabemu_breaks() when communication with
 * a member has failed. From then on every call that involves that member returns MPI_ERR_OTHER, and
 * the member may lack the latest data. Calls that involve only other members continue: either they
 * complete, or another member is lost, too.
 *
 * If a call waits already, it is ended by longjmp() out of opal_progress(), which calls
 * window_progress() in each of its rounds. That is safe while only osc/pt2pt waits: its requests
 * are on the heap and stay there, and a lost member sends nothing more that could be written into
 * the caller's memory. Calls that flush all members first flush the others one by one, and then
 * return the error. Other calls that wait for all members are ended when the bound `silence` has
 * passed. A fence or a free is never ended in this way, because Open MPI's collectives may wait in
 * it with requests on the stack. If it cannot complete, the process ends with an error message.
 *
 * Between MPI_Win_lock_all() and MPI_Win_unlock_all(), osc/pt2pt has a single count of outstanding
 * acknowledgments for all members. The acknowledgments of a lost member stay in that count forever.
 * So after the loss each call that waits for the count returns an error, whichever member it
 * addresses. The program cannot end that epoch, nor begin another. Calls that do not wait for the
 * count continue. Locks of single members have a count each.
 *
 * Thread: osc/pt2pt does not support MPI_THREAD_MULTIPLE, so only one thread at a time runs this
 * code.
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

#define PROBE_GAP_S  1.0 /* seconds between two probes, as in nic/host/progress/watch.c */
#define PROBE_ROUNDS 64  /* rounds between two reads of the clock */

/* A member of a window. */
struct member {
    uint32_t node;   /* FABEMU_ANY_NODE: the member is not on this fabric */
    uint64_t breaks; /* fabemu_breaks() of that node when the window was made */
    uint64_t drops;  /* fabemu_drops() of that node when the window was made */
    /* The next two are valid between MPI_Win_lock_all() and MPI_Win_unlock_all(), which both clear
       them. */
    bool requested; /* this process has requested a lock from the member */
    bool owes;      /* the member may owe an acknowledgment */
};

struct window {
    struct window *next;
    ompi_win_t *win;
    ompi_communicator_t *comm;
    /* this component's module for the duplicate of comm that osc/pt2pt made; fences use the
       collectives of that duplicate; NULL: none */
    mca_coll_fabemu_module_t *module;
    uint64_t breaks;    /* fabemu_breaks() for all nodes when the members were last checked */
    uint64_t drops;     /* fabemu_drops() for all nodes when the members were last checked */
    bool broken;        /* a member is lost */
    bool lost_messages; /* messages between two members were lost, or a group has failed */
    bool reported;      /* an error was printed */
    bool all;           /* MPI_Win_lock_all() has locked all members */
    int rank, ranks;
    struct member member[];
};

/* When to end a waiting call because a member that it involves is lost. */
enum leave {
    LEAVE_ONE,   /* immediately, because it involves that member alone */
    LEAVE_FLUSH, /* immediately, and then flush the other members */
    LEAVE_LATE,  /* after the bound `silence` */
    LEAVE_NEVER, /* never, but end the process after the bound `silence` */
};

static struct {
    ompi_osc_base_component_t *component; /* the component osc/pt2pt; NULL: Open MPI has none */
    ompi_osc_base_component_select_fn_t select_below;
    ompi_osc_base_module_t below; /* the original functions of the windows */
    struct window *windows;
    bool hooked;           /* window_progress() is registered */
    struct window *inside; /* the window of the current call; NULL: none */
    enum leave leave;      /* when to end that call by longjmp() */
    int target;            /* rank that the call involves; -1: all */
    bool acks;             /* the call waits for all outstanding acknowledgments */
    const char *call;      /* name of the MPI function */
    double probe_s;        /* time of the next probe of the members; 0: not set yet */
    unsigned rounds;       /* rounds that the call has waited */
    double late_s;         /* when waiting for a lost member has taken too long; 0: not set yet */
    jmp_buf end_call;
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

/* Return whether communication with the member has failed since the window was made. */
static bool member_is_lost(const struct window *w, int rank)
{
    const struct member *m = &w->member[rank >= 0 && rank < w->ranks ? rank : 0];

    return m->node != FABEMU_ANY_NODE && fabemu_breaks(fabric(), m->node) != m->breaks;
}

/* Return whether any member is lost. */
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

static bool member_has_drop(const struct window *w, int rank)
{
    const struct member *m = &w->member[rank];

    return m->node != FABEMU_ANY_NODE && fabemu_drops(fabric(), m->node) != m->drops;
}

/*
 * Return whether a group of w->module has failed, and describe why. Fences end with a barrier in
 * such a group, whose error osc/pt2pt ignores.
 */
static bool window_group_why(const struct window *w, char *text, size_t bytes)
{
    const mca_coll_fabemu_module_t *module = w->module;

    return module && ((module->group && fabemu_group_why(module->group, text, bytes)) ||
                      (module->wide && fabemu_group_why(module->wide, text, bytes)));
}

/*
 * Return whether messages between two members were lost, or a group has failed. Members that have
 * noticed such a loss end calls that involve all members. The others must check for it, too, or
 * they would wait for those members forever.
 */
static bool window_has_lost_messages(struct window *w)
{
    uint64_t drops = fabemu_drops(fabric(), FABEMU_ANY_NODE);
    char why[96];
    int lost = 0;

    w->lost_messages = w->lost_messages || window_group_why(w, why, sizeof why);
    if (w->lost_messages || drops == w->drops)
        return w->lost_messages;
    w->drops = drops;
    for (int i = 0; i < w->ranks; i++)
        lost += member_has_drop(w, i);
    w->lost_messages = lost > 1;
    return w->lost_messages;
}

/* Print the error. Only the first error of a window is printed. */
static void window_report(struct window *w, const char *call)
{
    char why[96];

    if (!w->reported && window_group_why(w, why, sizeof why)) {
        opal_output(0, "fabemu: %s on %s failed in the fabric: %s", call, w->win->w_name, why);
        w->reported = true;
    }
    for (int i = 0; i < w->ranks && !w->reported; i++) {
        const struct member *m = &w->member[i];

        if (!member_is_lost(w, i) && !(w->lost_messages && member_has_drop(w, i)))
            continue;
        if (!fabemu_node_why(fabric(), m->node, why, sizeof why) &&
            !fabemu_drop_why(fabric(), m->node, why, sizeof why))
            snprintf(why, sizeof why, "communication with node %u has failed", m->node);
        opal_output(0, "fabemu: %s on %s failed in the fabric: rank %d of it cannot be reached: %s",
                    call, w->win->w_name, i, why);
        w->reported = true;
    }
}

static int window_fails(struct window *w, const char *call)
{
    window_report(w, call);
    return MPI_ERR_OTHER;
}

/*
 * Return whether calls to @target must fail because it is lost. @target -1: whether calls to all
 * members must fail, because any member is lost, or messages between two members were lost, or a
 * group has failed.
 */
static bool is_lost(struct window *w, int target)
{
    if (target < 0)
        return window_is_broken(w) || window_has_lost_messages(w);
    return window_is_broken(w) && member_is_lost(w, target);
}

/* Return whether a lost member owes an acknowledgment for which calls to all members wait. */
static bool window_lacks_ack(struct window *w)
{
    if (!w->all || !window_is_broken(w))
        return false;
    for (int i = 0; i < w->ranks; i++)
        if (w->member[i].owes && member_is_lost(w, i))
            return true;
    return false;
}

/*
 * Return whether a call involves a lost member, or waits for an acknowledgment that a lost member
 * owes. Such a call may still complete if it does not need that member.
 * @acks: the call waits for all acknowledgments. In osc/pt2pt, a put, get or accumulate to this
 * process itself waits for them, too.
 */
static bool involves_loss(struct window *w, int target, bool acks)
{
    return is_lost(w, target) || ((acks || target == w->rank) && window_lacks_ack(w));
}

static void member_note_request(struct member *m, bool acks)
{
    m->owes |= acks || !m->requested;
    m->requested = true;
}

/* Note which acknowledgments a call to @target, or to all members if @target is -1, will cause. */
static void window_note_requests(struct window *w, int target, bool acks)
{
    if (w->all && target >= 0 && target < w->ranks)
        member_note_request(&w->member[target], acks);
    for (int i = 0; w->all && acks && target < 0 && i < w->ranks; i++)
        member_note_request(&w->member[i], acks);
}

/* Note that all outstanding acknowledgments have arrived. */
static void window_note_acks(struct window *w)
{
    for (int i = 0; i < w->ranks; i++)
        w->member[i].owes = false;
}

/*
 * Return whether the bound `silence` has passed since this call first noticed the loss. Until then
 * the call may still complete, because it may not need the lost member.
 */
static bool is_late(void)
{
    uint64_t silence_ms = fabemu_info(fabric())->bounds.silence_ms;
    double now = MPI_Wtime();

    if (windows.late_s == 0)
        windows.late_s = now + (double)silence_ms / 1e3;
    return silence_ms != FABEMU_FOREVER && now >= windows.late_s;
}

/* Probe the members once a second, because a waiting process sends nothing that could fail. */
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
            fabemu_ping(fabric(), w->member[i].node);
    windows.probe_s = now + PROBE_GAP_S;
}

/*
 * Callback of opal_progress(), in each round of any wait. If the current call involves a lost
 * member, end the call, at once or after the bound `silence`, as windows.leave says.
 */
static int window_progress(void)
{
    struct window *w = windows.inside;

    coll_fabemu_fragments_again();
    if (!w)
        return 0;
    if (!involves_loss(w, windows.target, windows.acks)) {
        window_probe(w);
        return 0;
    }
    if (windows.leave >= LEAVE_LATE && !is_late())
        return 0;
    if (windows.leave != LEAVE_NEVER)
        longjmp(windows.end_call, 1);
    window_report(w, windows.call);
    opal_output(0, "fabemu: %s cannot return an error; ending this process", windows.call);
    windows.inside = NULL;
    (void)ompi_mpi_abort(w->comm, MPI_ERR_OTHER);
    return 0;
}

static void enter(struct window *w, const char *call, enum leave leave, int target, bool acks)
{
    window_note_requests(w, target, acks);
    windows.inside = w;
    windows.call = call;
    windows.leave = leave;
    windows.target = target;
    windows.acks = acks;
    windows.late_s = windows.probe_s = 0;
    windows.rounds = 0;
}

static int guarded_flush(int target, ompi_win_t *win);

/* Return the error of a call. With LEAVE_FLUSH, first flush the other members. */
static int call_fails(struct window *w, const char *call, enum leave leave)
{
    for (int i = 0; leave == LEAVE_FLUSH && i < w->ranks; i++)
        if (!member_is_lost(w, i))
            (void)guarded_flush(i, w->win);
    return window_fails(w, call);
}

/* End the current call, which has returned @rc or was ended by longjmp() (MPI_ERR_OTHER). */
static int call_ends(int rc)
{
    struct window *w = windows.inside;
    bool ends = windows.acks && rc == OMPI_SUCCESS;

    windows.inside = NULL;
    if (ends)
        window_note_acks(w);
    if (involves_loss(w, windows.target, windows.acks))
        return call_fails(w, windows.call, windows.leave);
    return rc;
}

/*
 * Define a wrapper of osc/pt2pt's function @name. A nested call (such as one that completes
 * operations while a window is freed) is a part of the outer one.
 * @acks: the call waits for all outstanding acknowledgments. In osc/pt2pt, calls that move no data,
 * and a flush of this process itself, do not wait for them.
 */
#define GUARDED_BY(name, call, leave, acks, target, params, ...) \
    static int guarded_##name params                             \
    {                                                            \
        struct window *const w = window_of(win);                 \
        volatile int rc = MPI_ERR_OTHER;                         \
                                                                 \
        if (!w || windows.inside)                                \
            return windows.below.osc_##name(__VA_ARGS__);        \
        if (involves_loss(w, target, acks))                      \
            return call_fails(w, call, leave);                   \
        enter(w, call, leave, target, acks);                     \
        if (!setjmp(windows.end_call))                           \
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
GUARDED_BY(rget, "MPI_Rget", LEAVE_ONE, count &&its_count, target,
           (void *to, int count, ompi_datatype_t *type, TARGET, WIN, ompi_request_t **req), to,
           count, type, target, disp, its_count, its_type, win, req)
GUARDED(raccumulate, "MPI_Raccumulate", LEAVE_ONE, target,
        (ORIGIN, TARGET, ompi_op_t *op, WIN, ompi_request_t **req), from, count, type, target, disp,
        its_count, its_type, op, win, req)
GUARDED_BY(rget_accumulate, "MPI_Rget_accumulate", LEAVE_ONE, got &&its_count, target,
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
GUARDED_BY(flush, "MPI_Win_flush", LEAVE_ONE, target != w->rank, target, (int target, WIN), target,
           win)
GUARDED_ACKS(flush_all, "MPI_Win_flush_all", LEAVE_FLUSH, -1, (WIN), win)
GUARDED(flush_local, "MPI_Win_flush_local", LEAVE_ONE, target, (int target, WIN), target, win)
GUARDED(flush_local_all, "MPI_Win_flush_local_all", LEAVE_FLUSH, -1, (WIN), win)
GUARDED(free, "MPI_Win_free", LEAVE_NEVER, -1, (WIN), win)

/* Note that MPI_Win_lock_all() or MPI_Win_unlock_all() has succeeded: no acknowledgment is owed. */
static int note_lock_all(ompi_win_t *win, bool all, int rc)
{
    struct window *w = rc == OMPI_SUCCESS ? window_of(win) : NULL;

    for (int i = 0; w && i < w->ranks; i++)
        w->member[i].requested = w->member[i].owes = false;
    if (w)
        w->all = all;
    return rc;
}

static int lock_all_noted(int assertion, ompi_win_t *win)
{
    return note_lock_all(win, true, guarded_lock_all(assertion, win));
}

static int unlock_all_noted(ompi_win_t *win)
{
    return note_lock_all(win, false, guarded_unlock_all(win));
}

/*
 * Free a window and forget it. A window with an error is never freed, because operations on it are
 * still pending.
 */
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
    windows.below = *module; /* all windows have the same functions */
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

/* Make the state of a window. All processes of @comm call this, even those on no fabric. */
static struct window *window_make(ompi_win_t *win, ompi_communicator_t *comm)
{
    int ranks = ompi_comm_size(comm);
    struct window *w = calloc(1, sizeof *w + (size_t)ranks * sizeof w->member[0]);
    uint64_t *places = malloc((size_t)ranks * sizeof *places),
             mine = coll_fabemu_location(fabric());

    if (!w || !places)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* the other ranks would hang */
    w->win = win;
    w->comm = comm;
    w->rank = ompi_comm_rank(comm);
    w->ranks = ranks;
    w->breaks = fabric() ? fabemu_breaks(fabric(), FABEMU_ANY_NODE) : 0;
    w->drops = fabric() ? fabemu_drops(fabric(), FABEMU_ANY_NODE) : 0;
    if (comm->c_coll->coll_allgather(&mine, 1, MPI_UINT64_T, places, 1, MPI_UINT64_T, comm,
                                     comm->c_coll->coll_allgather_module) != OMPI_SUCCESS)
        ranks = 0;
    for (int i = 0; i < w->ranks; i++) {
        bool here = i < ranks && fabric() && places[i] >> 32 == mine >> 32 &&
                    places[i] != COLL_FABEMU_NOWHERE;

        w->member[i].node = here ? (uint32_t)places[i] : FABEMU_ANY_NODE;
        w->member[i].breaks = here ? fabemu_breaks(fabric(), w->member[i].node) : 0;
        w->member[i].drops = here ? fabemu_drops(fabric(), w->member[i].node) : 0;
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
