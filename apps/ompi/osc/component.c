/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * component.c - the component that Open MPI loads; creates and frees windows.
 *
 * It offers itself for a window if all members are on different nodes of one fabric. Like join.c,
 * it looks up their locations, so all members get the same result and choose the same component.
 */
#include "apps/ompi/osc/osc_fabemu.h"

#include "opal/runtime/opal_progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRIORITY   110 /* Open MPI's components: rdma 101, sm 100, pt2pt 10 */
#define LINE_BYTES 64

static struct {
    opal_mutex_t lock;
    struct osc_fabemu_window *windows;
    bool polls; /* progress() is registered */
} all;

/* Return the fabric to which the component for collectives is attached; NULL: none. */
static struct fabemu *fabric(void)
{
    mca_base_component_list_item_t *item;

    OPAL_LIST_FOREACH(item, &ompi_coll_base_framework.framework_components,
                      mca_base_component_list_item_t)
    {
        const mca_base_component_t *component = item->cli_component;

        if (strcmp(component->mca_component_name, "fabemu") == 0)
            return ((const struct coll_fabemu_component *)(const void *)component)->fab;
    }
    return NULL;
}

/* --- progress --------------------------------------------------------------------------- */

/*
 * Open MPI's progress callback: completes the requests of MPI_Rput, MPI_Rget and the similar calls.
 */
static int progress(void)
{
    int count = 0;

    if (OPAL_THREAD_TRYLOCK(&all.lock))
        return 0;
    for (struct osc_fabemu_window *w = all.windows; w; w = w->next)
        if (atomic_load_explicit(&w->requests, memory_order_relaxed))
            count += osc_fabemu_reap_all(w);
    OPAL_THREAD_UNLOCK(&all.lock);
    return count;
}

static void window_enlist(struct osc_fabemu_window *w)
{
    bool registers;

    OPAL_THREAD_LOCK(&all.lock);
    w->next = all.windows;
    all.windows = w;
    registers = !all.polls;
    all.polls = true;
    OPAL_THREAD_UNLOCK(&all.lock);
    if (registers)
        opal_progress_register(progress);
}

static void window_delist(struct osc_fabemu_window *w)
{
    struct osc_fabemu_window **at = &all.windows;

    OPAL_THREAD_LOCK(&all.lock);
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
    OPAL_THREAD_UNLOCK(&all.lock);
}

/* --- memory ------------------------------------------------------------------------------ */

/*
 * Allocate memory that peers may access, aligned for every type. NULL means that there is no
 * memory, even if @bytes is 0.
 */
static void *memory_new(size_t bytes)
{
    void *memory = NULL;

    if (posix_memalign(&memory, LINE_BYTES, bytes ? bytes : 1))
        return NULL;
    return memory;
}

#define ACCESS (FABEMU_REMOTE_READ | FABEMU_REMOTE_WRITE | FABEMU_REMOTE_ATOMIC)

static int window_register(struct osc_fabemu_window *w, void *base, size_t bytes)
{
    size_t state_bytes = sizeof *w->state + (size_t)w->ranks * sizeof w->state->posts[0];
    int err;

    w->state = memory_new(state_bytes);
    if (!w->state)
        return MPI_ERR_NO_MEM;
    memset(w->state, 0, state_bytes);
    err = fabemu_register(w->fab, NULL, 0, ACCESS | FABEMU_BY_PARTS, &w->key);
    if (!err)
        err = fabemu_region_add(w->fab, w->key, w->state, state_bytes);
    if (!err && bytes)
        err = fabemu_region_add(w->fab, w->key, base, bytes);
    return err ? MPI_ERR_NO_MEM : OMPI_SUCCESS;
}

static void window_unregister(struct osc_fabemu_window *w)
{
    if (w->key)
        (void)fabemu_unregister(w->fab, w->key);
    w->key = 0;
}

/* --- making a window --------------------------------------------------------------------- */

/* Exchange the places (struct osc_fabemu_place) of all members. */
static int window_exchange(struct osc_fabemu_window *w, ompi_communicator_t *comm, const void *base,
                           size_t bytes, int unit)
{
    const struct fabemu_info *info = fabemu_info(w->fab);
    struct osc_fabemu_place mine = {.incarnation = info->incarnation,
                                    .key = w->key,
                                    .state = (uintptr_t)w->state,
                                    .base = (uintptr_t)base,
                                    .bytes = bytes,
                                    .node = info->node,
                                    .unit = (uint32_t)unit};
    struct osc_fabemu_place *places = malloc((size_t)w->ranks * sizeof *places);
    int rc = places ? OMPI_SUCCESS : MPI_ERR_NO_MEM;

    for (int i = 0; i < w->ranks; i++)
        w->peer[i].last = &w->peer[i].first;
    if (!rc)
        rc = comm->c_coll->coll_allgather(&mine, sizeof mine, MPI_BYTE, places, sizeof mine,
                                          MPI_BYTE, comm, comm->c_coll->coll_allgather_module);
    for (int i = 0; !rc && i < w->ranks; i++) {
        w->peer[i].place = places[i];
        w->peer[i].breaks = fabemu_breaks(w->fab, places[i].node);
        w->peer[i].drops = fabemu_drops(w->fab, places[i].node);
    }
    free(places);
    return rc;
}

static int shared_query(ompi_win_t *win, int rank, size_t *bytes, int *unit, void *base)
{
    (void)win;
    (void)rank;
    (void)bytes;
    (void)unit;
    (void)base;
    return OMPI_ERR_RMA_FLAVOR; /* this component has no windows of shared memory */
}

static int attach(ompi_win_t *win, void *base, size_t bytes)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);

    if (!w->dynamic)
        return OMPI_ERR_RMA_FLAVOR;
    return bytes && fabemu_region_add(w->fab, w->key, base, bytes) ? OMPI_ERR_RMA_ATTACH
                                                                   : OMPI_SUCCESS;
}

/*
 * Memory of 0 bytes was not added to the region. So it is no error if the memory is not found
 * there.
 */
static int detach(ompi_win_t *win, const void *base)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);

    if (!w->dynamic)
        return OMPI_ERR_RMA_FLAVOR;
    (void)fabemu_region_remove(w->fab, w->key, base);
    return OMPI_SUCCESS;
}

static void window_free(struct osc_fabemu_window *w)
{
    window_unregister(w);
    if (w->comm)
        ompi_comm_free(&w->comm);
    free(w->state);
    free(w->allocated);
    free(w->exposed);
    free(w->targets);
    OBJ_DESTRUCT(&w->lock);
    free(w);
}

/*
 * Free the window. After an error, such as the loss of a member, only end the remote access to the
 * window's memory. The window itself stays, because Open MPI calls the window's error handler.
 */
static int win_free(ompi_win_t *win)
{
    struct osc_fabemu_window *w = osc_fabemu_window(win);
    int rc = osc_fabemu_free_barrier(w, osc_fabemu_drain_all(w, "MPI_Win_free"));

    window_delist(w);
    window_unregister(w);
    if (rc)
        return rc;
    window_free(w);
    win->w_osc_module = NULL;
    return OMPI_SUCCESS;
}

static struct osc_fabemu_window *window_new(ompi_win_t *win, ompi_communicator_t *comm, int flavor)
{
    size_t ranks = (size_t)ompi_comm_size(comm);
    struct osc_fabemu_window *w = calloc(1, sizeof *w + ranks * sizeof w->peer[0]);

    if (!w)
        return NULL;
    OBJ_CONSTRUCT(&w->lock, opal_mutex_t);
    w->fab = fabric();
    w->win = win;
    w->rank = ompi_comm_rank(comm);
    w->ranks = (int)ranks;
    w->dynamic = flavor == MPI_WIN_FLAVOR_DYNAMIC;
    w->super.osc_win_shared_query = shared_query;
    w->super.osc_win_attach = attach;
    w->super.osc_win_detach = detach;
    w->super.osc_free = win_free;
    osc_fabemu_transfers_fill(&w->super);
    osc_fabemu_accumulates_fill(&w->super);
    osc_fabemu_active_fill(&w->super);
    osc_fabemu_passive_fill(&w->super);
    return w;
}

static int window_open(struct osc_fabemu_window *w, void **base, size_t bytes, int unit,
                       ompi_communicator_t *comm, int flavor)
{
    int rc = ompi_comm_dup(comm, &w->comm);
    char name[MPI_MAX_OBJECT_NAME];

    if (rc)
        return rc;
    /*
     * Reports of a standstill show this name. After window_exchange(), only fences make calls on
     * this communicator.
     */
    snprintf(name, sizeof name, "MPI_Win_fence of fabemu window %d", ompi_comm_get_cid(w->comm));
    (void)ompi_comm_set_name(w->comm, name);
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE) {
        w->allocated = memory_new(bytes);
        *base = w->allocated;
        rc = w->allocated ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
    }
    if (!rc)
        rc = window_register(w, w->dynamic ? NULL : *base, bytes);
    if (rc)
        (void)ompi_mpi_abort(comm, rc); /* the other members would hang */
    return window_exchange(w, comm, w->dynamic ? NULL : *base, bytes, unit);
}

static int component_select(ompi_win_t *win, void **base, size_t bytes, int unit,
                            ompi_communicator_t *comm, struct opal_info_t *info, int flavor,
                            int *model)
{
    struct osc_fabemu_window *w = window_new(win, comm, flavor);
    char name[32];
    int rc;

    (void)info;
    if (!w)
        (void)ompi_mpi_abort(comm, MPI_ERR_NO_MEM); /* the other members would hang */
    rc = window_open(w, base, bytes, unit, comm, flavor);
    if (rc) {
        window_free(w);
        return rc;
    }
    snprintf(name, sizeof name, "fabemu window %d", ompi_comm_get_cid(w->comm));
    (void)ompi_win_set_name(win, name);
    win->w_osc_module = &w->super;
    *model = MPI_WIN_UNIFIED;
    window_enlist(w);
    return OMPI_SUCCESS;
}

/* --- the component ------------------------------------------------------------------------ */

static int component_query(ompi_win_t *win, void **base, size_t bytes, int unit,
                           ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
    uint32_t *nodes;

    (void)win;
    (void)base;
    (void)bytes;
    (void)unit;
    (void)info;
    if (flavor == MPI_WIN_FLAVOR_SHARED || !fabric())
        return -1;
    nodes = coll_fabemu_nodes(comm);
    free(nodes);
    return nodes ? PRIORITY : -1;
}

static int component_init(bool progress_threads, bool mpi_threads)
{
    (void)progress_threads;
    (void)mpi_threads;
    OBJ_CONSTRUCT(&all.lock, opal_mutex_t);
    return OMPI_SUCCESS;
}

static int component_finalize(void)
{
    if (all.polls)
        opal_progress_unregister(progress);
    all.polls = false;
    OBJ_DESTRUCT(&all.lock);
    return OMPI_SUCCESS;
}

static int component_open(void)
{
    return OMPI_SUCCESS;
}

/* Open MPI finds the component by the name of this global symbol. */
OMPI_MODULE_DECLSPEC extern ompi_osc_base_component_t mca_osc_fabemu_component;
ompi_osc_base_component_t mca_osc_fabemu_component = {
    .osc_version =
        {
            OMPI_OSC_BASE_VERSION_3_0_0,
            .mca_component_name = "fabemu",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = component_open,
        },
    .osc_data = {MCA_BASE_METADATA_PARAM_NONE},
    .osc_init = component_init,
    .osc_query = component_query,
    .osc_select = component_select,
    .osc_finalize = component_finalize,
};
