/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * component.c - the component that Open MPI loads: parameters, attaching and detaching.
 *
 * Open MPI finds it through OMPI_MCA_mca_base_component_path=DIR:SYSTEM_DEFAULT, so only jobs that
 * use a fabric load it. If a rank of such a job cannot attach, or has no socket, it publishes that
 * it is on no fabric. Its peers then run the collectives in which it takes part over messages
 * (join.c).
 */
#include "coll_fabemu.h"

#include "ompi/mca/pml/base/base.h"
#include "opal/util/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* priorities of Open MPI's components: self 75, inter 40, han 35, tuned 30, basic and libnbc 10 */
#define PRIORITY   90
#define WIDE_BYTES 16384u /* about a quarter of the payload of a narrow window */

static int component_register(void);
static int component_open(void);
static int component_close(void);

/*
 * Notify the fabric if messages do not use the fabric. Call it when Open MPI has chosen its
 * transport for messages. If it has chosen our libfabric provider, the provider has a reference to
 * @fab, too.
 */
static void check_messages(struct fabemu *fab)
{
    const char *pml = mca_pml_base_selected_component.pmlm_version.mca_component_name;
    char why[200];

    if (fabemu_uses(fab) > 1)
        return;
    if (strcmp(pml, "cm") == 0)
        snprintf(why, sizeof why,
                 "Open MPI uses an mtl other than ofi, or a libfabric provider other than "
                 "fabemu; see FI_PROVIDER, OMPI_MCA_mtl*, and mpirun's --mca");
    else
        snprintf(why, sizeof why,
                 "Open MPI sends them with pml %s instead of cm; see OMPI_MCA_pml, mpirun's --mca "
                 "pml, and Open MPI's parameter files",
                 pml);
    /*
     * ignore an error: it means that the fabric has ended, and then the library ends this process
     */
    fabemu_outside(fab, why);
}

static int component_init_query(bool progress_threads, bool mpi_threads);

struct coll_fabemu_component mca_coll_fabemu_component = {
    .super =
        {
            .collm_version =
                {
                    COLL_FABEMU_FRAMEWORK_VERSION,
                    .mca_component_name = "fabemu",
                    MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                          OMPI_RELEASE_VERSION),
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                    .mca_register_component_params = component_register,
                },
            .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
            .collm_init_query = component_init_query,
            .collm_comm_query = coll_fabemu_comm_query,
        },
};

static void param_register(const char *name, const char *help, mca_base_var_type_t type,
                           mca_base_var_flag_t flags, mca_base_var_scope_t scope, void *storage)
{
    (void)mca_base_component_var_register(&mca_coll_fabemu_component.super.collm_version, name,
                                          help, type, NULL, 0, flags, OPAL_INFO_LVL_3, scope,
                                          storage);
}

static void param(const char *name, const char *help, mca_base_var_type_t type, void *storage)
{
    param_register(name, help, type, 0, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static int component_register(void)
{
    struct coll_fabemu_component *me = &mca_coll_fabemu_component;

    me->priority = PRIORITY;
    param("priority", "Priority of the fabemu collective component", MCA_BASE_VAR_TYPE_INT,
          &me->priority);
    me->enable = true;
    param_register("enable",
                   "Run collectives in the fabric. When it is off, collectives run over messages, "
                   "and are only counted. MPI_T may change this parameter for communicators that "
                   "are created later; all their members must have the same value",
                   MCA_BASE_VAR_TYPE_BOOL, MCA_BASE_VAR_FLAG_SETTABLE, MCA_BASE_VAR_SCOPE_GROUP,
                   &me->enable);
    me->step_aside = true;
    param("step_aside",
          "Run collectives over messages at the sizes and numbers of ranks at which messages were "
          "measured to be faster than the network (clock raw only). When it is off, the network "
          "runs every collective that it supports. All ranks must have the same value",
          MCA_BASE_VAR_TYPE_BOOL, &me->step_aside);
    me->wide_bytes = WIDE_BYTES;
    param("wide_bytes",
          "Operations of this many bytes or more use a group with a wide window, which lets ranks "
          "run further ahead of each other. All ranks must have the same value",
          MCA_BASE_VAR_TYPE_SIZE_T, &me->wide_bytes);
    me->socket = NULL;
    param("socket",
          "Control socket of the fabric; default: $FABEMU_SOCKET. (mpirun passes MCA parameters on "
          "to other hosts, but not the environment.)",
          MCA_BASE_VAR_TYPE_STRING, &me->socket);
    return OMPI_SUCCESS;
}

static bool is_finalizing(void)
{
    return ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_STARTED;
}

/*
 * Attach to the fabric. Open MPI calls this in MPI_Init before the processes of the job exchange
 * the addresses of their transports, so this process can publish its location.
 */
static int component_open(void)
{
    struct coll_fabemu_component *me = &mca_coll_fabemu_component;
    const char *path = me->socket && *me->socket ? me->socket : getenv("FABEMU_SOCKET");
    int err = 0;

    coll_fabemu_requests_begin();
    me->loaded = true;
    if (path && *path)
        err = fabemu_attach(&me->fab, path); /* on an error, me->fab stays NULL */
    if (err) {
        const char *why = fabemu_error();

        opal_output(0,
                    "fabemu: cannot attach to the fabric at %s, so collectives with this process "
                    "run over messages: %s",
                    path, *why ? why : strerror(-err));
    }
    if (me->fab)
        fabemu_finalizing(me->fab, is_finalizing);
    coll_fabemu_publish(me->fab);
    return OMPI_SUCCESS;
}

static int component_init_query(bool progress_threads, bool mpi_threads)
{
    (void)progress_threads;
    (void)mpi_threads; /* ignored, because fabemu.h is thread-safe */
    if (mca_coll_fabemu_component.fab)
        check_messages(mca_coll_fabemu_component.fab);
    return OMPI_SUCCESS;
}

static int component_close(void)
{
    struct coll_fabemu_component *me = &mca_coll_fabemu_component;

    coll_fabemu_repair_undo();
    coll_fabemu_tests_undo();
    if (me->loaded)
        coll_fabemu_requests_end();
    me->loaded = false;
    if (me->fab) {
        fabemu_finalizing(me->fab, NULL);
        fabemu_detach(me->fab);
    }
    me->fab = NULL;
    return OMPI_SUCCESS;
}
