/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c - `fabemu capture`: record the segments on links of a running fabric in a file or a
 * pipe.
 *
 * The fabric writes records into rings in shared memory, and this process writes them to the file.
 * So a full disk or a slow reader of a pipe cannot delay the fabric. When this process ends, the
 * fabric stops recording.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "apps/capture/capture.h"
#include "apps/capture/files.h"
#include "apps/capture/filter.h"
#include "apps/capture/writer.h"
#include "apps/control/conn.h"
#include "apps/cmd/options.h"
#include "apps/control/paths.h"
#include "apps/cmd/commands.h"
#include "apps/base/message.h"
#include "apps/base/quantity.h"
#include "emu/util/now.h"

#define CHECK_MS 5 /* interval of reads of empty rings */

static const struct options_command capture_command = {
    .name = "capture",
    .operands = "[NAME] [FILTER...] -w FILE",
    .about = "Capture segments on links of the running fabric NAME (or \"default\") in the\n"
             "format of Wireshark. '-w -' writes to standard output. The capture ends with the\n"
             "fabric, on Ctrl-C, after --seconds or --count, or when FILE reaches\n"
             "--capture-size. For example\n"
             "    fabemu capture mine link=3:5 kind=allreduce -w links.pcapng\n"
             "    fabemu capture mine node=0 -w - | wireshark -k -i -\n"
             "docs/capture.md explains the filters and the format of the file.",
    .groups = OPTIONS_NAME | OPTIONS_SNAP,
};

struct wanted {
    const char *name; /* name of the fabric */
    const char *file;
    char filter[CAPTURE_TEXT_BYTES];
    uint32_t snap_bytes;
    uint64_t for_ps; /* 0: no time limit */
    uint64_t count;  /* records to write; UINT64_MAX: no limit */
    struct capture_limits limits;
};

static const struct option_row rows[] = {
    {"write", "FILE", "the file, or - for standard output; -w FILE is the same",
     .at = offsetof(struct wanted, file), .right = "the name of a file, or -"},
    {"seconds", "N", "stop after N seconds, or after a time with its unit, such as 500ms",
     .at = offsetof(struct wanted, for_ps),
     .form = &(struct quantity_form){quantity_times, QUANTITY_S_PS, QUANTITY_MS_PS,
                                     86400 * QUANTITY_S_PS},
     .right = "a time from 1ms to 24h, such as 30s or 500ms; a number alone is in seconds"},
    {"count", "N", "stop after N records", .at = offsetof(struct wanted, count), .wide = true,
     .least = 1, .most = UINT64_MAX - 1, .right = "a number from 1 on"},
};

/* Open a signalfd for the signals that end the capture. Returns it, or -errno. */
static int signals_open(void)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t ends;
    int fd;

    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL); /* at the size limit, write() then returns an error */
    fd = signalfd(-1, &ends, SFD_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Request the rings over @conn. *@memfd: a file with their memory. Errors: one line in @error. */
static int ask_rings(struct conn *conn, const struct wanted *wanted, int *memfd, char *error,
                     size_t error_bytes)
{
    struct emu_json_fds received = {.fd = EMU_JSON_NONE};
    struct json_object *request = query_request("capture"), *reply;
    int err;

    json_add_text(request, "filter", wanted->filter);
    json_add_number(request, "snaplen", wanted->snap_bytes);
    conn->received_fds = &received;
    err = conn_query(conn, request, &reply, CONN_ANSWER_MS);
    conn->received_fds = NULL;
    if (err)
        return fail(-EPROTO, error, error_bytes, "fabric '%s' does not answer (%s)", wanted->name,
                    strerror(-err));
    if (!emu_json_true(reply, "ok"))
        err = fail(-(int)emu_json_number(reply, "errno", EPROTO), error, error_bytes,
                   "fabric '%s': %s", wanted->name,
                   emu_json_text(reply, "error", "it refuses without giving a reason"));
    else if (received.fd[0] < 0)
        err = fail(
            -EMFILE, error, error_bytes,
            "the fabric's memory for the capture did not arrive; raise the limit of open files "
            "(ulimit -n)");
    json_object_put(reply);
    *memfd = received.fd[0];
    return err;
}

static void end_rings(struct conn *conn)
{
    struct json_object *reply;

    if (conn->fd >= 0 &&
        conn_query(conn, query_request("capture_stop"), &reply, CONN_ANSWER_MS) == 0)
        json_object_put(reply);
}

/* Return the time limit of a capture that begins now, by emu_now_ms(). */
static int64_t end_of(const struct wanted *wanted)
{
    return wanted->for_ps ? emu_now_ms() + (int64_t)(wanted->for_ps / QUANTITY_MS_PS) : INT64_MAX;
}

static void write_all(struct capture_writer *writer, struct conn *conn, const struct wanted *wanted,
                      int signal_fd)
{
    int64_t end_ms = end_of(wanted), wrote = 0;

    while (wrote >= 0 && !capture_writer_ended(writer) && emu_now_ms() < end_ms) {
        struct pollfd fds[2] = {{signal_fd, POLLIN, 0}, {conn->fd, POLLIN, 0}};

        poll(fds, 2, wrote ? 0 : CHECK_MS);
        if (fds[0].revents)
            return;
        if (fds[1].revents && conn_fill(conn)) {
            conn_close(conn); /* the fabric has ended */
            return;
        }
        emu_json_drop(&conn->in, conn->in.bytes, false); /* ignore events */
        wrote = capture_writer_step(writer);
    }
}

static int begin(struct capture_writer **ret, struct conn *conn, const struct wanted *wanted,
                 struct capture_files *files, int signal_fd, char *error, size_t error_bytes)
{
    int socket, memfd = -1;
    int err = paths_connect(&socket, NULL, wanted->name, error, error_bytes);

    if (err)
        return err;
    conn_open(conn, socket, CONN_REPLY_MAX);
    err = ask_rings(conn, wanted, &memfd, error, error_bytes);
    if (!err) {
        err = capture_writer_open(ret, memfd, files, wanted->count, signal_fd);
        if (err == -EMSGSIZE)
            capture_files_small(files, error, error_bytes);
        else if (err)
            fail(err, error, error_bytes, "cannot capture fabric '%s' to %s: %s", wanted->name,
                 files->label, strerror(-err));
    }
    if (err)
        conn_close(conn);
    return err;
}

static int capture(const struct wanted *wanted, struct capture_files *files, int signal_fd)
{
    char error[CAPTURE_ERROR_BYTES + 128];
    struct capture_writer *writer;
    struct capture_written written;
    struct conn conn;
    int err = begin(&writer, &conn, wanted, files, signal_fd, error, sizeof error);

    if (err) {
        print_message("%s", error);
        return exit_status_of(err);
    }
    write_all(writer, &conn, wanted, signal_fd);
    end_rings(&conn);
    conn_close(&conn);
    err = capture_writer_close(writer, &written);
    if (err == -EPIPE) /* the reader of a pipe may end the capture by closing it */
        err = 0;
    capture_print(files, &written, err);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Accept -w as a short form of --write, as other tools do. */
static void name_short(int argc, char **argv)
{
    static char write[] = "--write";

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "-w") == 0)
            argv[i] = write;
}

/*
 * Read the operands: a fabric's name, which may be omitted, and filters. Return false if they are
 * too long.
 */
static bool read_operands(struct wanted *wanted, struct options *options, int argc, char **argv)
{
    char *filter = wanted->filter;
    int i = options->operands;
    size_t used = 0;

    wanted->snap_bytes = (uint32_t)options->snap_bytes;
    wanted->limits = options->capture_limits;
    wanted->name = options->name;
    if (!wanted->name)
        wanted->name = i < argc && !strchr(argv[i], '=') ? argv[i++]
                                                         : paths_default(options->running, false);
    for (; i < argc; i++) {
        size_t length = strlen(argv[i]);

        if (used + length + 2 > CAPTURE_TEXT_BYTES)
            return false;
        memcpy(filter + used, argv[i], length);
        used += length;
        filter[used++] = ' ';
        filter[used] = '\0';
    }
    return true;
}

static int open_files(struct capture_files *ret, const struct wanted *wanted)
{
    int err = capture_files_open(ret, wanted->file, &wanted->limits, end_of(wanted));

    if (!err)
        return EXIT_SUCCESS;
    print_message("cannot write a capture to %s: %s; choose another -w", ret->label,
                  capture_files_why(err));
    return EXIT_FAILURE;
}

int capture_main(int argc, char **argv)
{
    struct wanted wanted = {.count = UINT64_MAX};
    const struct option_table own = OPTION_TABLE(rows, &wanted);
    struct capture_files files;
    struct options options;
    int signal_fd, status;

    name_short(argc, argv);
    status = options_parse(&options, &capture_command, &own, argc, argv);
    if (status >= 0)
        return status;
    if (!wanted.file)
        return options_usage_error("capture", "-w FILE is missing; -w - writes to standard output");
    if (!read_operands(&wanted, &options, argc, argv))
        return options_usage_error("capture", "the filter has more than %u characters",
                                   CAPTURE_TEXT_BYTES - 1);
    status = open_files(&files, &wanted);
    if (status)
        return status;
    signal_fd = signals_open();
    if (signal_fd < 0)
        print_message("cannot capture: %s", strerror(-signal_fd));
    status = signal_fd < 0 ? EXIT_FAILURE : capture(&wanted, &files, signal_fd);
    capture_files_close(&files, status);
    return status;
}
