/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.c - see capture.h. */
#include "apps/capture/capture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "apps/capture/files.h"
#include "apps/capture/filter.h"
#include "apps/capture/writer.h"
#include "apps/base/message.h"
#include "emu/util/spawn.h"

#define POLL_MS 5 /* interval of reads of empty rings */

struct capture_thread {
    const struct capture_plan *plan;
    struct capture_writer *writer;
    pthread_t thread;
    int end_fd; /* readable when the capture ends */

    /* Written by the thread, and read after it has ended. */
    struct capture_written written;
    int err; /* error of writing the file */
};

/* Report that the writer stopped early. capture_print() says later how many records are missing. */
static void print_stopped(const struct capture_thread *capture, int64_t err)
{
    const char *label = capture->plan->files->label;

    if (err >= 0)
        print_message(
            "capture: %s has reached the limit of --capture-size; later records are only counted",
            label);
    else if (err != -EPIPE)
        print_message(
            "capture: cannot write %s (%s); later records are only counted, and the fabric goes on",
            label, strerror((int)-err));
}

/* Write records until capture_end(). If the writer ends earlier, workers only count records. */
static void *thread_main(void *arg)
{
    struct capture_thread *capture = arg;
    struct pollfd end = {.fd = capture->end_fd, .events = POLLIN};
    int64_t wrote = 0;
    bool ended = false;
    sigset_t blocked;

    sigemptyset(&blocked); /* then write() fails with EPIPE or EFBIG, and no signal comes */
    sigaddset(&blocked, SIGPIPE);
    sigaddset(&blocked, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    while (wrote >= 0 && !ended && poll(&end, 1, wrote ? 0 : POLL_MS) <= 0) {
        wrote = capture_writer_step(capture->writer);
        ended = capture_writer_ended(capture->writer);
    }
    if (wrote < 0 || ended)
        print_stopped(capture, wrote);
    while (poll(&end, 1, -1) <= 0)
        continue;
    capture->err = capture_writer_close(capture->writer, &capture->written);
    return NULL;
}

static int thread_start(struct capture_thread *capture, int memfd)
{
    struct capture_written none;
    int err;

    capture->end_fd = eventfd(0, EFD_CLOEXEC);
    if (capture->end_fd < 0) {
        err = -errno;
        close(memfd);
        return err;
    }
    err = capture_writer_open(&capture->writer, memfd, capture->plan->files, UINT64_MAX,
                              capture->end_fd);
    if (!err) {
        err = emu_spawn(&capture->thread, "fab-capture", thread_main, capture);
        if (err)
            capture_writer_close(capture->writer, &none);
    }
    if (err)
        close(capture->end_fd);
    return err;
}

static int capture_error(int err, const struct capture_plan *plan, char *error, size_t error_bytes)
{
    if (err == -EMSGSIZE)
        return capture_files_small(plan->files, error, error_bytes);
    return fail(err, error, error_bytes, "cannot capture: %s",
                err == -EBUSY    ? "another capture is active, and there can be only one"
                : err == -ENODEV ? "no cable that the filter names has an end on this host"
                                 : strerror(-err));
}

int capture_begin(struct capture_thread **ret, struct fabric *fabric,
                  const struct topo_graph *graph, const struct capture_plan *plan, char *error,
                  size_t error_bytes)
{
    struct capture_filter filter;
    struct capture_thread *capture;
    char why[CAPTURE_ERROR_BYTES];
    int memfd;
    int err = capture_filter_read(&filter, plan->filter, plan->snap_bytes, fabric, graph, why,
                                  sizeof why);

    if (err)
        return fail(err, error, error_bytes, "--capture-filter: %s", why);
    err = fabric_capture_start(fabric,
                               &(struct fabric_capture){.directions_of = filter.directions_of,
                                                        .filter = filter.tap},
                               &memfd);
    capture_filter_release(&filter);
    if (err)
        return capture_error(err, plan, error, error_bytes);
    capture = calloc(1, sizeof *capture);
    if (!capture) {
        close(memfd);
        fabric_capture_stop(fabric);
        return capture_error(-ENOMEM, plan, error, error_bytes);
    }
    capture->plan = plan;
    err = thread_start(capture, memfd);
    if (err) {
        fabric_capture_stop(fabric);
        free(capture);
        return capture_error(err, plan, error, error_bytes);
    }
    *ret = capture;
    return 0;
}

int capture_end(struct capture_thread *capture, struct fabric *fabric)
{
    const uint64_t one = 1;
    int err;

    if (!capture)
        return 0;
    fabric_capture_stop(fabric);
    while (write(capture->end_fd, &one, sizeof one) < 0 && errno == EINTR)
        continue;
    pthread_join(capture->thread, NULL);
    err = capture->err == -EPIPE ? 0 : capture->err; /* the reader of the pipe has closed it */
    if (err && !capture->plan->files->err)
        capture->plan->files->err = err;
    capture_print(capture->plan->files, &capture->written, err);
    close(capture->end_fd);
    free(capture);
    return err;
}
