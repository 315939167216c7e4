/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - the client side of the control socket (docs/control.md).
 *
 * A thread, the watcher, reads the socket. It hands replies to the thread that sent the request,
 * and events to the function given to nic_control_watch(). The process owns its node as long as the
 * connection lasts. If the connection closes without a detach, the fabric has died. The process
 * would wait for it forever, so the watcher prints one line on stderr and ends the process.
 */
#include "nic/host/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "emu/hostif/bounds.h"
#include "emu/hostif/hostif.h"
#include "emu/util/json.h"
#include "emu/util/now.h"
#include "nic/host/base/adapter.h"
#include "nic/host/base/base.h"

/*
 * Limits that apply until the fabric sends its bounds. The event "wait" replaces the limit of the
 * attach.
 */
#define ATTACH_TIMEOUT_S 20
#define DETACH_EARLY_MS  2000
#define NOTIFY_MS        1000

#define LINE_MAX_BYTES (16u << 20)

struct control_line {
    int fd;
    struct emu_json_buf in;   /* bytes received, not yet parsed */
    int passed[EMU_JSON_FDS]; /* file descriptors received; -1: none */
    /* a received descriptor was lost because this process has too many open files */
    bool no_room;
};

struct nic_control {
    struct fabemu *fab; /* passed to event() */
    void (*event)(struct fabemu *fab, const char *name, struct json_object *object);
    pthread_t watcher;
    bool watched;
    _Atomic bool detaching;
    const char *why; /* the text that the watcher prints if the connection closes */

    struct control_line line; /* read by nic_control_attach(), later by the watcher */
    bool has_node;            /* during attach: the fabric has given this process a node */
    uint64_t detach_ms;       /* fabemu_bounds.detach_ms */

    /* held during a request, so that there is only one request at a time */
    pthread_mutex_t request;
    pthread_mutex_t lock;
    pthread_cond_t replied;
    struct json_object *reply; /* protected by lock */
    bool waiting, closed;
};

/* --- lines of JSON on the socket ---------------------------------------------------- */

/*
 * Move @fd above standard input, output and error, because a program that closes one of these three
 * and still writes to its number must not write to our socket. Returns -1 with errno if no
 * descriptor is free.
 */
static int above_standard(int fd)
{
    int moved, err;

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    err = errno;
    close(fd);
    errno = err;
    return moved;
}

static void line_keep_fds(struct control_line *line, const struct emu_json_fds *came)
{
    line->no_room |= came->lost;
    for (int i = 0; i < EMU_JSON_FDS; i++) {
        int fd = above_standard(came->fd[i]);

        line->no_room |= came->fd[i] >= 0 && fd < 0;
        if (line->passed[i] < 0)
            line->passed[i] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

/* Wait until the socket is readable, or until emu_now_ms() reaches @end_ms. Errors: -ETIMEDOUT. */
static int line_await(const struct control_line *line, int64_t end_ms)
{
    struct pollfd come = {line->fd, POLLIN, 0};
    int64_t left_ms = end_ms == INT64_MAX ? 0 : end_ms - emu_now_ms();

    if (end_ms == INT64_MAX)
        return 0; /* no limit: read() waits */
    while (left_ms > 0 && poll(&come, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) <= 0)
        left_ms = end_ms - emu_now_ms();
    return left_ms > 0 ? 0 : -ETIMEDOUT;
}

/*
 * Read the next line of JSON. Wait for it until emu_now_ms() reaches @end_ms; INT64_MAX: no limit.
 * Errors: -ETIMEDOUT; -EPIPE, the connection is closed; -EPROTO, the line is not a JSON object;
 * -EMSGSIZE, it is too long; -errno.
 */
static int line_next(struct control_line *line, int64_t end_ms, struct json_object **ret)
{
    struct emu_json_fds came;
    int got;

    while (!(got = emu_json_next(&line->in, LINE_MAX_BYTES, SIZE_MAX, ret))) {
        ssize_t n = line_await(line, end_ms);

        if (!n)
            n = emu_json_read(&line->in, line->fd, &came, 0);
        if (n < 0)
            return (int)n;
        line_keep_fds(line, &came);
        if (!n)
            return -EPIPE;
    }
    return got > 0 ? 0 : got == -EBADMSG ? -EPROTO : got;
}

/* Send @request and drop its reference. Errors: -errno. */
static int line_send(const struct control_line *line, struct json_object *request)
{
    struct emu_json_buf out = {.bytes = 0};
    int err = emu_json_put(&out, request, LINE_MAX_BYTES);

    while (!err && out.bytes) {
        ssize_t n = emu_json_send(&out, line->fd, out.bytes, NULL, 0);

        err = n < 0 ? (int)n : 0;
    }
    emu_json_free(&out);
    return err;
}

/* --- attach ------------------------------------------------------------------------- */

/* Return 0 if the reply is ok; otherwise set fabemu_error() and return the fabric's -errno. */
static int reply_check(struct json_object *reply)
{
    struct json_object *ok;
    int64_t err;

    if (json_object_object_get_ex(reply, "ok", &ok) && json_object_get_boolean(ok))
        return 0;
    err = emu_json_number(reply, "errno", EPROTO);
    if (err <= 0 || err > 4095)
        err = EPROTO;
    return nic_fail((int)-err, "%s",
                    emu_json_text(reply, "error",
                                  "the fabric refused the request without giving a reason"));
}

static int control_connect(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ATTACH_TIMEOUT_S};
    int fd, err;

    if (strlen(path) >= sizeof to.sun_path)
        return nic_fail(-ENAMETOOLONG, "the socket's path is too long: %s", path);
    strcpy(to.sun_path, path);
    fd = above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return nic_fail(-errno, "cannot create a socket: %s%s", strerror(errno),
                        nic_remedy(-errno));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* also limits connect() */
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    err = errno == ENOENT ? ECONNREFUSED : errno == EAGAIN ? ETIMEDOUT : errno;
    close(fd);
    return nic_fail(-err,
                    err == EACCES      ? "the fabric at %s belongs to another user"
                    : err == ETIMEDOUT ? "the fabric at %s does not answer"
                                       : "no fabric listens at %s",
                    path);
}

/* Return the id in @text (16 hexadecimal digits); if it is empty, a hash of @name (FNV-1a). */
static uint64_t fabric_id(const char *text, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (*text)
        return strtoull(text, NULL, 16);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/*
 * Return a bound in milliseconds. JSON null, and a number too large for nanoseconds in 64 bits,
 * mean no limit. If there is no number above 0, return @preset.
 */
static uint64_t bound_of(struct json_object *bounds, const char *field, uint64_t preset)
{
    int64_t ms = emu_json_number(bounds, field, 0);
    struct json_object *value;

    if (json_object_object_get_ex(bounds, field, &value) && !value)
        return FABEMU_FOREVER;
    if (ms <= 0)
        return preset;
    return ms <= INT64_MAX / 1000000 ? (uint64_t)ms : FABEMU_FOREVER;
}

static void reply_bounds(struct json_object *reply, struct fabemu_bounds *ret)
{
    struct json_object *bounds = json_object_object_get(reply, "bounds");

#define READ(field, name, ms, what) ret->field##_ms = bound_of(bounds, #field "_ms", ms);
    EMU_BOUNDS_LIBRARY(READ)
#undef READ
}

/* Read the reply to an attach into @info. Errors: -EPROTO, a field is missing or invalid. */
static int reply_info(struct json_object *reply, struct fabemu_info *info)
{
    int64_t node = emu_json_number(reply, "node", -1), nodes = emu_json_number(reply, "nodes", -1);
    int64_t hop_limit = emu_json_number(reply, "hop_limit", 0);

    memset(info, 0, sizeof *info);
    snprintf(info->fabric, sizeof info->fabric, "%s", emu_json_text(reply, "fabric", ""));
    snprintf(info->topo, sizeof info->topo, "%s", emu_json_text(reply, "topo", ""));
    snprintf(info->profile, sizeof info->profile, "%s", emu_json_text(reply, "profile", ""));
    snprintf(info->clock, sizeof info->clock, "%s", emu_json_text(reply, "clock", ""));
    if (node < 0 || node >= nodes || nodes > UINT32_MAX || hop_limit < 0 || hop_limit > UINT32_MAX)
        return nic_fail(-EPROTO, "the fabric's reply does not give this process's node and the "
                                 "number of nodes; use the libfabemu that came with this fabemu");
    info->node = (uint32_t)node;
    info->nodes = (uint32_t)nodes;
    info->link_bytes_per_s = emu_json_double(reply, "link_bytes_per_s", 0);
    info->hop_limit = (uint32_t)hop_limit;
    info->incarnation = (uint64_t)emu_json_number(reply, "incarnation", 0);
    info->acknowledged = emu_json_true(reply, "acknowledged");
    reply_bounds(reply, &info->bounds);
    info->fabric_id = fabric_id(emu_json_text(reply, "fabric_id", ""), info->fabric);
    return 0;
}

/*
 * Read the next line that is not an event. The first event "wait", which says that the fabric waits
 * for other hosts, replaces the time limit. Errors: as line_next().
 */
static int control_reply(struct nic_control *c, int64_t end_ms, struct json_object **ret)
{
    bool waits = false;
    int err;

    while (!(err = line_next(&c->line, end_ms, ret)) && *emu_json_text(*ret, "event", "")) {
        int limit_ms = waits ? 0 : emu_json_wait_ms(*ret);

        if (limit_ms) {
            waits = true;
            end_ms = emu_now_ms() + limit_ms;
        }
        json_object_put(*ret);
    }
    return err;
}

static int control_handshake(struct nic_control *c, const struct nic_job *job,
                             struct fabemu_info *info)
{
    struct json_object *request = json_object_new_object(), *reply = NULL;
    int64_t end_ms = emu_now_ms() + ATTACH_TIMEOUT_S * 1000;
    struct timeval forever = {0};
    int err;

    json_object_object_add(request, "cmd", json_object_new_string("attach"));
    json_object_object_add(request, "version", json_object_new_int(EMU_HOSTIF_VERSION));
    json_object_object_add(request, "want",
                           job->node ? json_object_new_string(job->node)
                                     : json_object_new_int(job->rank));
    if (job->rank >= 0)
        json_object_object_add(request, "rank", json_object_new_int(job->rank));
    if (job->ranks >= 0)
        json_object_object_add(request, "ranks", json_object_new_int(job->ranks));
    json_object_object_add(request, "wait", json_object_new_boolean(true));
    err = line_send(&c->line, request);
    /* if the fabric has closed the socket, it may have sent the reason first */
    if (!err || err == -EPIPE)
        err = control_reply(c, end_ms, &reply);
    if (err == -EAGAIN) /* the fabric does not read from the socket */
        err = -ETIMEDOUT;
    if (err)
        return nic_fail(err, "the fabric does not answer: %s", strerror(-err));
    err = reply_check(reply);
    c->has_node = !err;
    if (!err && c->line.no_room)
        err = nic_fail(-EMFILE, "no file descriptor is free for the fabric's host interface%s",
                       nic_remedy(-EMFILE));
    else if (!err && (c->line.passed[0] < 0 || c->line.passed[1] < 0))
        err = nic_fail(-EPROTO, "the fabric sent no host interface");
    if (!err) {
        err = reply_info(reply, info);
        if (!err)
            c->detach_ms = info->bounds.detach_ms;
    }
    json_object_put(reply);
    setsockopt(c->line.fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof forever);
    return err;
}

/*
 * Detach when no watcher reads the socket. Waits for the reply, so the node is free when this
 * function returns.
 */
static void control_give_back(struct nic_control *c)
{
    struct json_object *request = json_object_new_object(), *reply = NULL;
    int64_t end_ms = INT64_MAX;

    if (c->detach_ms != FABEMU_FOREVER)
        end_ms = emu_now_ms() + (int64_t)c->detach_ms;
    json_object_object_add(request, "cmd", json_object_new_string("detach"));
    if (!line_send(&c->line, request) && !control_reply(c, end_ms, &reply))
        json_object_put(reply);
}

static void control_free(struct nic_control *c)
{
    for (int i = 0; i < EMU_JSON_FDS; i++)
        if (c->line.passed[i] >= 0)
            close(c->line.passed[i]);
    if (c->line.fd >= 0)
        close(c->line.fd);
    json_object_put(c->reply);
    pthread_cond_destroy(&c->replied);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->request);
    emu_json_free(&c->line.in);
    free(c);
}

int nic_control_notify(const char *path, struct json_object *request)
{
    struct nic_control c = {.line = {.fd = control_connect(path), .passed = EMU_JSON_NONE}};
    struct json_object *reply = NULL;
    int err = c.line.fd < 0 ? c.line.fd : 0;

    if (err) {
        json_object_put(request);
        return err;
    }
    err = line_send(&c.line, request);
    if (!err)
        err = control_reply(&c, emu_now_ms() + NOTIFY_MS, &reply);
    json_object_put(reply);
    emu_json_free(&c.line.in);
    close(c.line.fd);
    return err;
}

int nic_control_attach(struct nic_control **ret, const char *path, const struct nic_job *job,
                       struct fabemu_info *info, struct emu_hostif_fds *hostif)
{
    struct nic_control *c = calloc(1, sizeof *c);
    int err;

    if (!c)
        return -ENOMEM;
    memcpy(c->line.passed, (const int[])EMU_JSON_NONE, sizeof c->line.passed);
    c->detach_ms = DETACH_EARLY_MS;
    c->why = "the fabric is gone (its control socket closed)";
    pthread_mutex_init(&c->request, NULL);
    pthread_mutex_init(&c->lock, NULL);
    nic_cond_init(&c->replied);
    c->line.fd = control_connect(path);
    err = c->line.fd < 0 ? c->line.fd : control_handshake(c, job, info);
    if (err) {
        if (c->has_node)
            control_give_back(c);
        control_free(c);
        return err;
    }
    *hostif = (struct emu_hostif_fds){.memory = c->line.passed[0],
                                      .bell = c->line.passed[1],
                                      .mcast_buf = c->line.passed[2]};
    memcpy(c->line.passed, (const int[])EMU_JSON_NONE, sizeof c->line.passed);
    *ret = c;
    return 0;
}

/* The PID of a fabric in another container reads as 0, or as a PID for which getsid() fails. */
bool nic_control_in_other_session(const struct nic_control *control)
{
    struct ucred fabric;
    socklen_t bytes = sizeof fabric;

    return getsockopt(control->line.fd, SOL_SOCKET, SO_PEERCRED, &fabric, &bytes) < 0 ||
           fabric.pid <= 0 || getsid(fabric.pid) != getsid(0);
}

/* --- the watcher -------------------------------------------------------------------- */

static _Noreturn void control_end(const struct nic_control *c)
{
    fprintf(stderr, "fabemu: %s; ending this process\n", c->why);
    _exit(1);
}

static void control_event(struct nic_control *c, const char *event, struct json_object *object)
{
    if (strcmp(event, "shutdown") == 0) {
        c->why = "the fabric is gone (it was shut down)";
    } else if (strcmp(event, "stopped") == 0) {
        c->why = "the fabric has detached this process, which was stopped for too long";
    } else if (strcmp(event, "cut_off") == 0) {
        c->why = "the fabric has detached this process, which did not receive its segments";
        if (!atomic_load_explicit(&c->detaching, memory_order_acquire))
            control_end(c);
    } else {
        c->event(c->fab, event, object);
    }
}

static void *control_watch(void *argument)
{
    struct nic_control *c = argument;
    struct json_object *object;
    int err;

    while (!(err = line_next(&c->line, INT64_MAX, &object))) {
        const char *event = emu_json_text(object, "event", "");

        if (*event) {
            control_event(c, event, object);
            json_object_put(object);
            continue;
        }
        pthread_mutex_lock(&c->lock);
        if (c->waiting && !c->reply)
            c->reply = object;
        else
            json_object_put(object);
        pthread_cond_signal(&c->replied);
        pthread_mutex_unlock(&c->lock);
    }
    if (err == -EPROTO || err == -EMSGSIZE)
        c->why = "the fabric has sent a line that the control protocol does not allow";
    if (!atomic_load_explicit(&c->detaching, memory_order_acquire))
        control_end(c);
    pthread_mutex_lock(&c->lock);
    c->closed = true;
    pthread_cond_signal(&c->replied);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int nic_control_watch(struct nic_control *c, struct fabemu *fab,
                      void (*event)(struct fabemu *fab, const char *name,
                                    struct json_object *object))
{
    int err;

    c->fab = fab;
    c->event = event;
    err = nic_spawn(&c->watcher, control_watch, c);
    c->watched = !err;
    return err;
}

/* --- requests ----------------------------------------------------------------------- */

static int control_request(struct nic_control *c, struct json_object *request, uint64_t limit_ms,
                           struct json_object **reply)
{
    bool limited = limit_ms != FABEMU_FOREVER;
    struct timespec until = nic_until(limited ? limit_ms * 1000000 : 0);
    int err;

    pthread_mutex_lock(&c->request);
    pthread_mutex_lock(&c->lock);
    c->waiting = true;
    pthread_mutex_unlock(&c->lock);
    err = line_send(&c->line, request);
    pthread_mutex_lock(&c->lock);
    while (!err && !c->reply && !c->closed) {
        if (limited)
            err = -pthread_cond_timedwait(&c->replied, &c->lock, &until);
        else
            pthread_cond_wait(&c->replied, &c->lock);
    }
    *reply = c->reply;
    c->reply = NULL;
    c->waiting = false;
    if (*reply)
        err = 0;
    else if (!err)
        err = -ENOTCONN;
    pthread_mutex_unlock(&c->lock);
    pthread_mutex_unlock(&c->request);
    return err;
}

/*
 * Clock virtual: count the requests in progress. While there is one, the fabric knows that this
 * process waits for its reply, and does not sleep outside the fabric (simtime.h).
 */
static void count_requests(struct nic_control *c, uint32_t by)
{
    if (c->fab && c->fab->simulated)
        atomic_fetch_add_explicit(&c->fab->hostif.shared->sim.requests, by, memory_order_relaxed);
}

int nic_control_request(struct nic_control *c, struct json_object *request,
                        struct json_object **reply)
{
    int err;

    count_requests(c, 1);
    err = control_request(c, request, FABEMU_FOREVER, reply);
    count_requests(c, -1u);
    if (err)
        return nic_fail(err, "the fabric does not answer: %s", strerror(-err));
    err = reply_check(*reply);
    if (err) {
        json_object_put(*reply);
        *reply = NULL;
    }
    return err;
}

void nic_control_detach(struct nic_control *c, uint32_t disconnects_unconfirmed)
{
    struct json_object *request, *reply = NULL;

    atomic_store_explicit(&c->detaching, true, memory_order_release);
    if (c->watched) {
        request = json_object_new_object();
        json_object_object_add(request, "cmd", json_object_new_string("detach"));
        json_object_object_add(request, "disconnects_unconfirmed",
                               json_object_new_int64(disconnects_unconfirmed));
        control_request(c, request, c->detach_ms, &reply);
        json_object_put(reply);
        shutdown(c->line.fd, SHUT_RDWR);
        pthread_join(c->watcher, NULL);
    } else {
        control_give_back(c);
    }
    control_free(c);
}

void nic_control_exits(struct nic_control *c)
{
    static const char line[] = "{\"cmd\":\"exits\"}\n";

    if (!c || c->line.fd < 0 || pthread_mutex_trylock(&c->request))
        return; /* another thread is sending a request, and the two lines must not mix */
    send(c->line.fd, line, sizeof line - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    pthread_mutex_unlock(&c->request);
}

void nic_control_forked(struct nic_control *c)
{
    if (c && c->line.fd >= 0)
        close(c->line.fd);
    if (c)
        c->line.fd = -1;
}
