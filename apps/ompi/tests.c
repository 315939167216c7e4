/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests.c - on clock virtual, tell the library when the program polls without waiting: in MPI_Test,
 * MPI_Iprobe and the like. In programs of all languages, these calls go through Open MPI's tables
 * of functions, in which coll_fabemu_tests() replaces the pointers.
 */
#include "coll_fabemu.h"

#define ME       (&mca_coll_fabemu_component)
#define REQUESTS (ME->tests_below)

/* Call a function of Open MPI as a test. */
#define AS_TEST(call)                   \
    do {                                \
        int rc_;                        \
                                        \
        fabemu_testing(ME->fab, true);  \
        rc_ = (call);                   \
        fabemu_testing(ME->fab, false); \
        return rc_;                     \
    } while (0)

static int test(ompi_request_t **request, int *completed, ompi_status_public_t *status)
{
    AS_TEST(REQUESTS.req_test(request, completed, status));
}

static int test_any(size_t count, ompi_request_t **requests, int *index, int *completed,
                    ompi_status_public_t *status)
{
    AS_TEST(REQUESTS.req_test_any(count, requests, index, completed, status));
}

static int test_all(size_t count, ompi_request_t **requests, int *completed,
                    ompi_status_public_t *statuses)
{
    AS_TEST(REQUESTS.req_test_all(count, requests, completed, statuses));
}

static int test_some(size_t count, ompi_request_t **requests, int *outcount, int *indices,
                     ompi_status_public_t *statuses)
{
    AS_TEST(REQUESTS.req_test_some(count, requests, outcount, indices, statuses));
}

static int iprobe(int source, int tag, ompi_communicator_t *comm, int *matched,
                  ompi_status_public_t *status)
{
    AS_TEST(ME->iprobe_below(source, tag, comm, matched, status));
}

static int improbe(int source, int tag, ompi_communicator_t *comm, int *matched,
                   struct ompi_message_t **message, ompi_status_public_t *status)
{
    AS_TEST(ME->improbe_below(source, tag, comm, matched, message, status));
}

void coll_fabemu_tests(void)
{
    if (!ME->fab || REQUESTS.req_test || !fabemu_testing(ME->fab, false))
        return;
    REQUESTS = ompi_request_functions;
    ME->iprobe_below = mca_pml.pml_iprobe;
    ME->improbe_below = mca_pml.pml_improbe;
    ompi_request_functions.req_test = test;
    ompi_request_functions.req_test_any = test_any;
    ompi_request_functions.req_test_all = test_all;
    ompi_request_functions.req_test_some = test_some;
    mca_pml.pml_iprobe = iprobe;
    mca_pml.pml_improbe = improbe;
}

void coll_fabemu_tests_undo(void)
{
    if (!REQUESTS.req_test)
        return;
    ompi_request_functions = REQUESTS;
    mca_pml.pml_iprobe = ME->iprobe_below;
    mca_pml.pml_improbe = ME->improbe_below;
    REQUESTS.req_test = NULL;
}
