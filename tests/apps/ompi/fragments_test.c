/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fragments_test.c - receives of one-sided windows that arrived incomplete are restarted, unless
 * their window was freed before. This test simulates the layer below.
 */
#include "apps/ompi/coll_fabemu.h"

#include "tests/test.h"

#define RECEIVES 6

struct receive {
    ompi_request_t req;
    unsigned started, taken, freed;
};

static struct receive *receive_of(ompi_request_t *req)
{
    return (struct receive *)(void *)((char *)req - offsetof(struct receive, req));
}

static int below_start(size_t count, ompi_request_t **reqs)
{
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL_FATAL(receive_of(reqs[i])->freed, 0);
        receive_of(reqs[i])->started++;
        reqs[i]->req_complete = REQUEST_PENDING;
    }
    return OMPI_SUCCESS;
}

static int below_called(ompi_request_t *req)
{
    receive_of(req)->taken++;
    return OMPI_SUCCESS;
}

static int below_free(ompi_request_t **req)
{
    receive_of(*req)->freed++;
    *req = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

/* As ompi_request_complete() does: the callback is called first, and cleared. */
static void complete(struct receive *receive, int error)
{
    ompi_request_complete_fn_t callback = receive->req.req_complete_cb;

    receive->req.req_status.MPI_ERROR = error;
    receive->req.req_complete_cb = NULL;
    CU_ASSERT_EQUAL(callback(&receive->req), 0);
    receive->req.req_complete = REQUEST_COMPLETED;
}

/* As osc/pt2pt ends a receive of a window that is freed. */
static void free_receive(struct receive *receive)
{
    ompi_request_t *req = &receive->req;

    req->req_complete_cb = NULL;
    CU_ASSERT_EQUAL(req->req_free(&req), OMPI_SUCCESS);
    CU_ASSERT_EQUAL(receive->freed, 1);
}

/* Create a window that posts its receives. */
static void window_make(struct receive receives[RECEIVES])
{
    mca_pml.pml_start = below_start;
    coll_fabemu_fragments_learn(true);
    for (size_t i = 0; i < RECEIVES; i++) {
        ompi_request_t *req = &receives[i].req;

        receives[i] = (struct receive){.req.req_free = below_free};
        req->req_complete_cb = below_called;
        (void)mca_pml.pml_start(1, &req);
        CU_ASSERT_EQUAL(receives[i].started, 1);
    }
    coll_fabemu_fragments_learn(false);
}

static void window_free(struct receive receives[RECEIVES])
{
    for (size_t i = 0; i < RECEIVES; i++)
        if (!receives[i].freed)
            free_receive(&receives[i]);
    coll_fabemu_fragments_again(); /* none is left to restart */
    coll_fabemu_fragments_undo();
    CU_ASSERT_PTR_EQUAL(mca_pml.pml_start, below_start);
}

static void fragments__incomplete_ones_are_received_again(void)
{
    struct receive receives[RECEIVES];

    window_make(receives);
    complete(&receives[0], MPI_SUCCESS);
    CU_ASSERT_EQUAL(receives[0].taken, 1);
    complete(&receives[1], MPI_ERR_OTHER);
    CU_ASSERT_EQUAL(receives[1].taken, 0);
    coll_fabemu_fragments_again();
    CU_ASSERT_EQUAL(receives[0].started, 1);
    CU_ASSERT_EQUAL(receives[1].started, 2);
    CU_ASSERT_EQUAL(receives[1].req.req_status.MPI_ERROR, MPI_SUCCESS);
    complete(&receives[1], MPI_SUCCESS);
    CU_ASSERT_EQUAL(receives[1].taken, 1);
    window_free(receives);
}

static void fragments__freed_window_drops_its_incomplete_receives(void)
{
    struct receive receives[RECEIVES];

    window_make(receives);
    for (size_t i = 1; i < RECEIVES; i++)
        complete(&receives[i], MPI_ERR_OTHER);
    free_receive(&receives[1]); /* the first, one in between, and the last of the incomplete ones */
    free_receive(&receives[3]);
    free_receive(&receives[RECEIVES - 1]);
    coll_fabemu_fragments_again();
    CU_ASSERT_EQUAL(receives[2].started, 2);
    CU_ASSERT_EQUAL(receives[4].started, 2);
    CU_ASSERT_EQUAL(receives[3].started, 1);
    window_free(receives);
}

static void fragments__pending_one_may_be_freed(void)
{
    struct receive receives[RECEIVES];

    window_make(receives);
    complete(&receives[0], MPI_ERR_OTHER);
    /* ompi_request_complete() has not returned yet */
    receives[0].req.req_complete = REQUEST_PENDING;
    coll_fabemu_fragments_again();
    CU_ASSERT_EQUAL(receives[0].started, 1);
    window_free(receives);
    CU_ASSERT_EQUAL(receives[0].started, 1);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(fragments__incomplete_ones_are_received_again),
        CASE(fragments__freed_window_drops_its_incomplete_receives),
        CASE(fragments__pending_one_may_be_freed),
        {NULL, NULL},
    };

    return test_run("fragments", cases);
}
