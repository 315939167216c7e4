/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.c - the client's end of the control socket (docs/control.md).
 *
 * A thread reads the socket: replies go to the one who asked, events to the
 * adapter. The connection is the life of the node, both ways: when it ends
 * without our detach, the fabric has died, and a process that would wait for
 * it for ever is ended with one line instead.
 */
#include "nic/host/adapter.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "emu/json.h"

#define LINE_MAX_BYTES (16u << 20)
#define ATTACH_TIMEOUT_S 20
#define DETACH_TIMEOUT_S 2

struct nic_control {
    int fd;
    struct fabemu *fab;
    pthread_t watcher;
    bool watched;
    atomic_bool detaching;
    const char *why; /* the watcher's: what the fabric said last about its end */

    /* Input: attach's, then the watcher's. */
    struct emu_json_buf in;
    int passed[2]; /* descriptors that came, -1 when none */
    bool no_room;  /* there was no room in this process for one that came */
    bool seated;   /* attach's: the fabric has given us a node */

    pthread_mutex_t ask; /* one request at a time */
    pthread_mutex_t lock;
    pthread_cond_t replied;
    struct json_object *reply; /* under lock */
    bool waiting, closed;
};

/* --- lines ------------------------------------------------------------------------ */

/*
 * Above standard input, output and error. A program may have closed these, and then writes where nobody reads:
 * that must not be our socket. Returns -1 with errno where there is no room, and for -1.
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

static void control_keep_fds(struct nic_control *c, const struct emu_json_fds *came)
{
    c->no_room |= came->lost;
    for (int i = 0; i < 2; i++) {
        int fd = above_standard(came->fd[i]);

        c->no_room |= came->fd[i] >= 0 && fd < 0;
        if (c->passed[i] < 0)
            c->passed[i] = fd;
        else if (fd >= 0)
            close(fd);
    }
}

/* The next line as JSON. Errors: -EPIPE at the end, -EPROTO for what is no JSON, -errno. */
static int control_next(struct nic_control *c, struct json_object **ret)
{
    struct emu_json_fds came;
    int got;

    while (!(got = emu_json_next(&c->in, LINE_MAX_BYTES, ret))) {
        ssize_t n = emu_json_read(&c->in, c->fd, &came, 0);

        if (n < 0)
            return (int)n;
        control_keep_fds(c, &came);
        if (!n)
            return -EPIPE;
    }
    return got > 0 ? 0 : got == -EBADMSG ? -EPROTO : got;
}

/* Sends @request and puts it. */
static int control_send(struct nic_control *c, struct json_object *request)
{
    struct emu_json_buf out = {.bytes = 0};
    int err = emu_json_put(&out, request, LINE_MAX_BYTES);

    while (!err && out.bytes) {
        ssize_t n = emu_json_send(&out, c->fd, out.bytes, NULL, 0);

        err = n < 0 ? (int)n : 0;
    }
    emu_json_free(&out);
    return err;
}

static double field_double(struct json_object *object, const char *name)
{
    struct json_object *field;

    return json_object_object_get_ex(object, name, &field) ? json_object_get_double(field) : 0;
}

/* 0 for a reply that is ok; otherwise the fabric's errno, its line in fabemu_error(). */
static int reply_check(struct json_object *reply)
{
    int64_t err;

    if (emu_json_true(reply, "ok"))
        return 0;
    err = emu_json_number(reply, "errno", EPROTO);
    if (err <= 0 || err > 4095)
        err = EPROTO;
    return nic_fail((int)-err, "%s", emu_json_text(reply, "error", ""));
}

/* --- attach ------------------------------------------------------------------------- */

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
        return nic_fail(-errno, "no socket: %s%s", strerror(errno), nic_remedy(-errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    err = errno == ENOENT ? ECONNREFUSED : errno;
    close(fd);
    return nic_fail(-err, err == EACCES ? "the fabric at %s is another user's"
                                        : "no fabric listens at %s", path);
}

/* 16 hexadecimal digits; a fabric that tells none has its name hashed (FNV-1a). */
static uint64_t fabric_id(const char *text, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (*text)
        return strtoull(text, NULL, 16);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

static void reply_info(struct json_object *reply, struct fabemu_info *info)
{
    memset(info, 0, sizeof *info);
    snprintf(info->fabric, sizeof info->fabric, "%s", emu_json_text(reply, "fabric", ""));
    snprintf(info->topo, sizeof info->topo, "%s", emu_json_text(reply, "topo", ""));
    snprintf(info->profile, sizeof info->profile, "%s", emu_json_text(reply, "profile", ""));
    snprintf(info->clock, sizeof info->clock, "%s", emu_json_text(reply, "clock", ""));
    info->node = (uint32_t)emu_json_number(reply, "node", 0);
    info->nodes = (uint32_t)emu_json_number(reply, "nodes", 0);
    info->link_bytes_per_s = field_double(reply, "link_bytes_per_s");
    info->hop_limit = (uint32_t)emu_json_number(reply, "hop_limit", 0);
    info->seat = (uint64_t)emu_json_number(reply, "seat", 0);
    info->acknowledged = emu_json_true(reply, "acknowledged");
    info->fabric_id = fabric_id(emu_json_text(reply, "fabric_id", ""), info->fabric);
}

static int control_greet(struct nic_control *c, int want, struct fabemu_info *info)
{
    struct json_object *ask = json_object_new_object(), *reply = NULL;
    struct timeval forever = {0};
    int err;

    json_object_object_add(ask, "cmd", json_object_new_string("attach"));
    json_object_object_add(ask, "version", json_object_new_int(EMU_EDGE_VERSION));
    json_object_object_add(ask, "want", json_object_new_int(want));
    err = control_send(c, ask);
    if (!err || err == -EPIPE) /* who has closed already has said why */
        err = control_next(c, &reply);
    if (err)
        return nic_fail(err == -EAGAIN ? -ETIMEDOUT : err, "the fabric does not answer: %s",
                        strerror(err == -EAGAIN ? ETIMEDOUT : -err));
    err = reply_check(reply);
    c->seated = !err;
    if (!err && c->no_room)
        err = nic_fail(-EMFILE, "this process has no room for the fabric's edge%s", nic_remedy(-EMFILE));
    else if (!err && (c->passed[0] < 0 || c->passed[1] < 0))
        err = nic_fail(-EPROTO, "the fabric handed over no edge");
    if (!err)
        reply_info(reply, info);
    json_object_put(reply);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof forever);
    return err;
}

/* No watcher reads yet. Waits for the fabric's answer, so that the node is free when we return. */
static void control_give_back(struct nic_control *c)
{
    struct json_object *ask = json_object_new_object(), *reply = NULL;
    struct timeval limit = {.tv_sec = DETACH_TIMEOUT_S};
    bool answered;

    json_object_object_add(ask, "cmd", json_object_new_string("detach"));
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (control_send(c, ask))
        return;
    do {
        if (control_next(c, &reply))
            return;
        answered = !*emu_json_text(reply, "event", "");
        json_object_put(reply);
    } while (!answered);
}

static void control_free(struct nic_control *c)
{
    for (int i = 0; i < 2; i++)
        if (c->passed[i] >= 0)
            close(c->passed[i]);
    if (c->fd >= 0)
        close(c->fd);
    json_object_put(c->reply);
    pthread_cond_destroy(&c->replied);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->ask);
    emu_json_free(&c->in);
    free(c);
}

int nic_control_attach(struct nic_control **ret, const char *path, int want,
                       struct fabemu_info *info, int *memfd, int *bell)
{
    struct nic_control *c = calloc(1, sizeof *c);
    pthread_condattr_t attr;
    int err;

    if (!c)
        return -ENOMEM;
    c->passed[0] = c->passed[1] = -1;
    c->why = "its control socket closed";
    pthread_mutex_init(&c->ask, NULL);
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->replied, &attr);
    pthread_condattr_destroy(&attr);
    c->fd = control_connect(path);
    err = c->fd < 0 ? c->fd : control_greet(c, want, info);
    if (err) {
        if (c->seated)
            control_give_back(c);
        control_free(c);
        return err;
    }
    *memfd = c->passed[0];
    *bell = c->passed[1];
    c->passed[0] = c->passed[1] = -1;
    *ret = c;
    return 0;
}

/* --- the watcher ----------------------------------------------------------------------- */

/* Under the adapter's lock. */
static void event_groups(struct fabemu *fab, struct json_object *event)
{
    struct json_object *groups;

    if (json_object_object_get_ex(event, "groups", &groups))
        for (size_t i = 0; i < json_object_array_length(groups); i++)
            nic_group_over(fab, (uint32_t)json_object_get_int64(
                                    json_object_array_get_idx(groups, i)));
}

static void event_groups_broken(struct fabemu *fab, struct json_object *event)
{
    nic_lock(fab);
    event_groups(fab, event);
    nic_unlock(fab);
}

/* A process died. Which one it was is in the edge: step, and see. */
static void event_node_died(struct fabemu *fab, struct json_object *event)
{
    nic_lock(fab);
    event_groups(fab, event);
    nic_step(fab);
    nic_unlock(fab);
}

static _Noreturn void control_end(const struct nic_control *c)
{
    fprintf(stderr, "fabemu: the fabric is gone (%s); ending this process\n", c->why);
    _exit(1);
}

static void control_event(struct nic_control *c, const char *event, struct json_object *object)
{
    if (strcmp(event, "node_died") == 0) {
        event_node_died(c->fab, object);
    } else if (strcmp(event, "groups_broken") == 0) {
        event_groups_broken(c->fab, object);
    } else if (strcmp(event, "shutdown") == 0) {
        c->why = "it was shut down";
    } else if (strcmp(event, "cut_off") == 0) {
        c->why = "it cut this process off, which did not take its segments";
        if (!atomic_load_explicit(&c->detaching, memory_order_acquire))
            control_end(c);
    }
}

static void *control_watch(void *argument)
{
    struct nic_control *c = argument;
    struct json_object *object;

    while (control_next(c, &object) == 0) {
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
    if (!atomic_load_explicit(&c->detaching, memory_order_acquire))
        control_end(c);
    pthread_mutex_lock(&c->lock);
    c->closed = true;
    pthread_cond_signal(&c->replied);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int nic_control_watch(struct nic_control *c, struct fabemu *fab)
{
    int err;

    c->fab = fab;
    err = nic_spawn(&c->watcher, control_watch, c);
    c->watched = !err;
    return err;
}

/* --- requests ------------------------------------------------------------------------ */

/* Send, and wait for the reply until @limit_s passed (0: for ever). */
static int control_ask(struct nic_control *c, struct json_object *request, unsigned limit_s,
                       struct json_object **reply)
{
    struct timespec until;
    int err;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_s;
    pthread_mutex_lock(&c->ask);
    pthread_mutex_lock(&c->lock);
    c->waiting = true;
    pthread_mutex_unlock(&c->lock);
    err = control_send(c, request);
    pthread_mutex_lock(&c->lock);
    while (!err && !c->reply && !c->closed) {
        if (limit_s)
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
    pthread_mutex_unlock(&c->ask);
    return err;
}

int nic_control_ask(struct nic_control *c, struct json_object *request, struct json_object **reply)
{
    int err = control_ask(c, request, 0, reply);

    if (err)
        return nic_fail(err, "the fabric does not answer: %s", strerror(-err));
    err = reply_check(*reply);
    if (err)
        json_object_put(*reply);
    return err;
}

void nic_control_detach(struct nic_control *c, uint32_t unheard)
{
    struct json_object *ask, *reply = NULL;

    atomic_store_explicit(&c->detaching, true, memory_order_release);
    if (c->watched) {
        ask = json_object_new_object();
        json_object_object_add(ask, "cmd", json_object_new_string("detach"));
        json_object_object_add(ask, "unheard", json_object_new_int64(unheard));
        control_ask(c, ask, DETACH_TIMEOUT_S, &reply);
        json_object_put(reply);
        shutdown(c->fd, SHUT_RDWR);
        pthread_join(c->watcher, NULL);
    } else {
        control_give_back(c);
    }
    control_free(c);
}

void nic_control_exits(struct nic_control *c)
{
    static const char line[] = "{\"cmd\":\"exits\"}\n";

    if (!c || c->fd < 0 || pthread_mutex_trylock(&c->ask))
        return; /* a request of another thread is on its way: no place for another line */
    send(c->fd, line, sizeof line - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    pthread_mutex_unlock(&c->ask);
}

void nic_control_forked(struct nic_control *c)
{
    if (c && c->fd >= 0)
        close(c->fd);
    if (c)
        c->fd = -1;
}
