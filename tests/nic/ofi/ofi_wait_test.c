/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi_wait_test.c - waiting for events of libfabric's objects: file descriptors with fi_trywait(),
 * wait sets, poll sets, event queues.
 *
 * Needs a fabric of at least two nodes: `fabemu run -- build/tests/…`. In the last case a second
 * process answers each message, and this process sleeps in poll(2) meanwhile.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include "tests/test.h"
#include "tests/fixtures/ofi/fixture.h"

#define PATIENCE_MS (OFI_FIXTURE_PATIENCE_S * 1000)
#define ROUNDS      200

static const struct ofi_fixture_config with_fd = {.caps = OFI_FIXTURE_CAPS_ALL,
                                                  .format = FI_CQ_FORMAT_TAGGED,
                                                  .wait_obj = FI_WAIT_FD};

static int fd_of(struct fid *fid)
{
    int fd = -1;

    CU_ASSERT_EQUAL_FATAL(fi_control(fid, FI_GETWAIT, &fd), 0);
    return fd;
}

static bool is_readable(int fd, int timeout_ms)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};

    return poll(&pollfd, 1, timeout_ms) == 1;
}

/* Sleep until @fid has an event, as a program does. */
static bool sleeps_until_ready(struct fid_fabric *fabric, struct fid *fid, int fd)
{
    int err = fi_trywait(fabric, &fid, 1);

    return err == -FI_EAGAIN || (err == 0 && is_readable(fd, PATIENCE_MS));
}

static void send_empty(struct ofi_fixture *fixture, uint64_t tag)
{
    CU_ASSERT_EQUAL(ofi_fixture_inject(&fixture->a, NULL, 0, 0, fixture->b.addr, tag), 0);
}

static void trywait__refuses_to_wait_if_there_is_an_entry(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_fd);
    struct fid *fid = &fixture.b.cq->fid, *wrong = &fixture.domain->fid;
    struct fi_cq_tagged_entry entry;
    int fd = fd_of(fid);

    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &wrong, 1), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), 0);
    CU_ASSERT_FALSE(is_readable(fd, 0));
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    send_empty(&fixture, 1);
    CU_ASSERT(is_readable(fd, PATIENCE_MS)); /* it was armed; the library's thread steps */
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), -FI_EAGAIN);
    CU_ASSERT_EQUAL(ofi_fixture_entry_wait(fixture.b.cq, &entry, NULL), 1);
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), 0);
    CU_ASSERT_FALSE(is_readable(fd, 0)); /* fi_trywait() has reset it */
    ofi_fixture_close(&fixture);
}

static void signal__wakes_and_ends_one_sread(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_fd);
    struct fid *fid = &fixture.b.cq->fid;
    struct fi_cq_tagged_entry entry;

    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), 0);
    CU_ASSERT_EQUAL(fi_cq_signal(fixture.b.cq), 0);
    CU_ASSERT(is_readable(fd_of(fid), PATIENCE_MS));
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_cq_sread(fixture.b.cq, &entry, 1, NULL, -1), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), 0);
    ofi_fixture_close(&fixture);
}

static struct fid_cntr *counter_open(struct ofi_fixture *fixture, enum fi_wait_obj wait_obj,
                                     struct fid_wait *set, void *context)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP,
                                .wait_obj = wait_obj,
                                .wait_set = set};
    struct fid_cntr *cntr = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_cntr_open(fixture->domain, &attr, &cntr, context), 0);
    return cntr;
}

static struct fid_eq *events_open(struct ofi_fixture *fixture, enum fi_wait_obj wait_obj,
                                  struct fid_wait *set)
{
    struct fi_eq_attr attr = {.wait_obj = wait_obj, .wait_set = set};
    struct fid_eq *eq = NULL;

    CU_ASSERT_EQUAL_FATAL(fi_eq_open(fixture->fabric, &attr, &eq, NULL), 0);
    return eq;
}

static void eq__keeps_events_in_order(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_eq *eq = events_open(&fixture, FI_WAIT_FD, NULL);
    struct fi_eq_entry in = {.data = 7}, out = {0};
    struct fid *fid = &eq->fid;
    uint32_t event = 0;
    char small[4];

    CU_ASSERT_EQUAL(fi_eq_read(eq, &event, &out, sizeof out, 0), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_eq_sread(eq, &event, &out, sizeof out, 1, 0), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), 0);
    for (uint32_t i = 1; i < 4; i++) {
        in.data = i;
        CU_ASSERT_EQUAL(fi_eq_write(eq, FI_NOTIFY + i, &in, sizeof in, 0), sizeof in);
    }
    CU_ASSERT(is_readable(fd_of(fid), PATIENCE_MS));
    CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_eq_read(eq, &event, small, sizeof small, 0), -FI_ETOOSMALL);
    CU_ASSERT_EQUAL(fi_eq_read(eq, &event, &out, sizeof out, FI_PEEK), sizeof out);
    for (uint32_t i = 1; i < 4; i++) {
        CU_ASSERT_EQUAL(fi_eq_sread(eq, &event, &out, sizeof out, -1, 0), sizeof out);
        CU_ASSERT_EQUAL(event, FI_NOTIFY + i);
        CU_ASSERT_EQUAL(out.data, i);
    }
    CU_ASSERT_EQUAL(fi_eq_read(eq, &event, &out, sizeof out, 0), -FI_EAGAIN);
    CU_ASSERT_EQUAL(fi_eq_write(eq, 1, &in, sizeof in, 0), sizeof in); /* left: closing frees it */
    CU_ASSERT_EQUAL(fi_close(&eq->fid), 0);
    ofi_fixture_close(&fixture);
}

/* These kinds of wait objects are for blocking calls only, so the program gets no object. */
static void blocking_calls__need_no_wait_object_of_the_program(void)
{
    static const enum fi_wait_obj kinds[] = {FI_WAIT_UNSPEC, FI_WAIT_YIELD, FI_WAIT_MUTEX_COND};

    for (unsigned i = 0; i < 3; i++) {
        struct ofi_fixture_config config = with_fd;
        struct fi_mutex_cond object;
        struct fi_cq_tagged_entry entry;
        struct fid_cntr *cntr;
        struct fid_eq *eq;
        uint32_t event = 0;

        config.wait_obj = kinds[i];
        struct ofi_fixture fixture = ofi_fixture_open_with(&config);

        cntr = counter_open(&fixture, kinds[i], NULL, NULL);
        eq = events_open(&fixture, kinds[i], NULL);
        CU_ASSERT_EQUAL(fi_control(&fixture.b.cq->fid, FI_GETWAIT, &object), -FI_ENOSYS);
        CU_ASSERT_EQUAL(fi_control(&cntr->fid, FI_GETWAIT, &object), -FI_ENOSYS);
        CU_ASSERT_EQUAL(fi_control(&eq->fid, FI_GETWAIT, &object), -FI_ENOSYS);
        CU_ASSERT_EQUAL(fi_cq_sread(fixture.b.cq, &entry, 1, NULL, 1), -FI_EAGAIN);
        CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
        send_empty(&fixture, 1);
        CU_ASSERT_EQUAL(fi_cq_sread(fixture.b.cq, &entry, 1, NULL, PATIENCE_MS), 1);
        CU_ASSERT_EQUAL(fi_cntr_wait(cntr, 1, 1), -FI_ETIMEDOUT);
        CU_ASSERT_EQUAL(fi_cntr_add(cntr, 1), 0);
        CU_ASSERT_EQUAL(fi_cntr_wait(cntr, 1, PATIENCE_MS), 0);
        CU_ASSERT_EQUAL(fi_eq_write(eq, 1, &event, sizeof event, 0), sizeof event);
        CU_ASSERT_EQUAL(fi_eq_sread(eq, &event, &event, sizeof event, PATIENCE_MS, 0),
                        sizeof event);
        CU_ASSERT_EQUAL(fi_close(&eq->fid), 0);
        CU_ASSERT_EQUAL(fi_close(&cntr->fid), 0);
        ofi_fixture_close(&fixture);
    }
}

static void poll_set__names_the_objects_with_events(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fid_cntr *cntr = counter_open(&fixture, FI_WAIT_NONE, NULL, &cntr);
    struct fid_poll *set = NULL;
    void *contexts[4];

    CU_ASSERT_EQUAL_FATAL(fi_poll_open(fixture.domain, &(struct fi_poll_attr){0}, &set), 0);
    CU_ASSERT_EQUAL(fi_poll_add(set, &fixture.b.cq->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_poll_add(set, &cntr->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_poll_add(set, &fixture.av->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_poll(set, contexts, 4), 0);
    CU_ASSERT_EQUAL(fi_cntr_add(cntr, 1), 0);
    CU_ASSERT_EQUAL(fi_poll(set, contexts, 4), 1);
    CU_ASSERT_PTR_EQUAL(contexts[0], &cntr);
    CU_ASSERT_EQUAL(fi_cntr_read(cntr), 1);
    CU_ASSERT_EQUAL(fi_poll(set, contexts, 4), 0);
    CU_ASSERT_EQUAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    send_empty(&fixture, 1);
    while (fi_poll(set, contexts, 4) == 0)
        ;
    CU_ASSERT_EQUAL(fi_cntr_adderr(cntr, 1), 0);
    CU_ASSERT_EQUAL(fi_poll(set, contexts, 4), 2);
    CU_ASSERT_EQUAL(fi_poll(set, contexts, 1), 1);
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_poll_del(set, &cntr->fid, 0), 0);
    CU_ASSERT_EQUAL(fi_poll_del(set, &cntr->fid, 0), -FI_EINVAL);
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&set->fid), 0);
    ofi_fixture_close(&fixture);
}

static void wait_set__waits_for_any_member(void)
{
    struct ofi_fixture fixture = ofi_fixture_open();
    struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fid_wait *set = NULL;
    struct fid_cntr *cntr;
    struct fid_eq *eq;
    uint32_t event = 9;
    int fd;

    CU_ASSERT_EQUAL_FATAL(fi_wait_open(fixture.fabric, &attr, &set), 0);
    cntr = counter_open(&fixture, FI_WAIT_SET, set, NULL);
    eq = events_open(&fixture, FI_WAIT_SET, set);
    fd = fd_of(&set->fid);
    CU_ASSERT_EQUAL(fi_wait(set, 1), -FI_ETIMEDOUT);
    CU_ASSERT_EQUAL(fi_cntr_add(cntr, 1), 0);
    CU_ASSERT_EQUAL(fi_wait(set, -1), 0);
    CU_ASSERT_EQUAL(fi_cntr_read(cntr), 1);
    for (unsigned i = 0; i < 2; i++) {
        struct fid *fid = &set->fid;

        CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), 0);
        CU_ASSERT_FALSE(is_readable(fd, 0));
        if (i) {
            CU_ASSERT_EQUAL(fi_eq_write(eq, 1, &event, sizeof event, 0), sizeof event);
        } else {
            CU_ASSERT_EQUAL(fi_cntr_add(cntr, 1), 0);
        }
        CU_ASSERT(is_readable(fd, PATIENCE_MS));
        CU_ASSERT_EQUAL(fi_trywait(fixture.fabric, &fid, 1), -FI_EAGAIN);
        CU_ASSERT_EQUAL(fi_cntr_read(cntr), 2);
    }
    CU_ASSERT_EQUAL(fi_close(&set->fid), -FI_EBUSY);
    CU_ASSERT_EQUAL(fi_close(&eq->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&cntr->fid), 0);
    CU_ASSERT_EQUAL(fi_close(&set->fid), 0);
    ofi_fixture_close(&fixture);
}

/* --- a thread or a process that wakes this one -------------------------------------- */

static void *send_some(void *arg)
{
    struct ofi_fixture *fixture = arg;

    for (unsigned i = 0; i < ROUNDS; i++)
        send_empty(fixture, i);
    return NULL;
}

/* No wake-up is lost between a check of the queue and the sleep. */
static void fd__wakes_for_every_message_of_a_thread(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_fd);
    int fd = fd_of(&fixture.b.cq->fid);
    struct fi_cq_tagged_entry entry;
    unsigned got = 0;
    pthread_t thread;

    if (ofi_fixture_is_serial()) { /* two threads may not use the domain */
        ofi_fixture_close(&fixture);
        return;
    }
    for (unsigned i = 0; i < ROUNDS; i++)
        CU_ASSERT_EQUAL_FATAL(fi_trecv(fixture.b.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, i, 0, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, send_some, &fixture), 0);
    while (got < ROUNDS) {
        CU_ASSERT_FATAL(sleeps_until_ready(fixture.fabric, &fixture.b.cq->fid, fd));
        while (fi_cq_read(fixture.b.cq, &entry, 1) == 1)
            got++;
    }
    pthread_join(thread, NULL);
    ofi_fixture_close(&fixture);
}

static struct {
    pid_t pid;
    int to, from;
} echo;

/* The second process: answer each message, sleeping in between. */
static int echo_run(int from, int to)
{
    struct ofi_fixture fixture;
    char name[OFI_FIXTURE_ADDR_BYTES];
    fi_addr_t peer;
    int fd = -1;

    if (!ofi_fixture_try_open(&fixture, &with_fd) ||
        fi_control(&fixture.a.cq->fid, FI_GETWAIT, &fd) ||
        write(to, fixture.a.name, sizeof name) != sizeof name ||
        read(from, name, sizeof name) != sizeof name ||
        fi_av_insert(fixture.av, name, 1, &peer, 0, NULL) != 1)
        return 1;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct fi_cq_tagged_entry entry;
        ssize_t err;

        if (fi_trecv(fixture.a.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, i, 0, NULL))
            return 2;
        while (fi_cq_read(fixture.a.cq, &entry, 1) != 1)
            if (!sleeps_until_ready(fixture.fabric, &fixture.a.cq->fid, fd))
                return 3;
        while ((err = fi_tinject(fixture.a.ep, NULL, 0, peer, i)) == -FI_EAGAIN)
            fi_cq_read(fixture.a.cq, &entry, 1); /* makes progress */
        if (err)
            return 4;
    }
    return ofi_fixture_try_close(&fixture) ? 0 : 5;
}

static void echo_start(void)
{
    int there[2], back[2];

    if (pipe(there) || pipe(back))
        exit(2);
    echo.pid = fork();
    if (!echo.pid)
        _exit(echo_run(there[0], back[1]));
    echo.to = there[1];
    echo.from = back[0];
}

static void fd__wakes_for_messages_of_another_process(void)
{
    struct ofi_fixture fixture = ofi_fixture_open_with(&with_fd);
    int fd = fd_of(&fixture.a.cq->fid), status = 1;
    char name[OFI_FIXTURE_ADDR_BYTES];
    fi_addr_t peer;

    CU_ASSERT_EQUAL_FATAL(read(echo.from, name, sizeof name), sizeof name);
    CU_ASSERT_EQUAL_FATAL(write(echo.to, fixture.a.name, sizeof name), sizeof name);
    CU_ASSERT_EQUAL_FATAL(fi_av_insert(fixture.av, name, 1, &peer, 0, NULL), 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct fi_cq_tagged_entry entry;

        CU_ASSERT_EQUAL(fi_trecv(fixture.a.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, i, 0, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(ofi_fixture_inject(&fixture.a, NULL, 0, 0, peer, i), 0);
        while (fi_cq_read(fixture.a.cq, &entry, 1) != 1)
            CU_ASSERT_FATAL(sleeps_until_ready(fixture.fabric, &fixture.a.cq->fid, fd));
        CU_ASSERT_EQUAL(entry.tag, i);
    }
    CU_ASSERT_EQUAL(waitpid(echo.pid, &status, 0), echo.pid);
    CU_ASSERT_EQUAL(status, 0);
    ofi_fixture_close(&fixture);
}

int main(void)
{
    static const struct test_case cases[] = {
        CASE(trywait__refuses_to_wait_if_there_is_an_entry),
        CASE(signal__wakes_and_ends_one_sread),
        CASE(eq__keeps_events_in_order),
        CASE(blocking_calls__need_no_wait_object_of_the_program),
        CASE(poll_set__names_the_objects_with_events),
        CASE(wait_set__waits_for_any_member),
        CASE(fd__wakes_for_every_message_of_a_thread),
        CASE(fd__wakes_for_messages_of_another_process),
        {0},
    };

    if (!getenv("FABEMU_SOCKET")) {
        fprintf(stderr, "ofi_wait_test: no fabric; start it under `fabemu run --`\n");
        return 2;
    }
    echo_start();
    return test_run("ofi_wait", cases);
}
