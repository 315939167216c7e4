/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coordinator.c - the governor's side of the control channels: messages and calls; how all meet,
 * and the end. guests.c has the processes of other hosts, mirror.c what the fabric has them do.
 *
 * A call is waited for. What else comes from that host meanwhile is kept, in order, for the next
 * hosts_serve().
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "apps/cluster/coordinator/internal.h"
#include "apps/base/say.h"
#include "emu/util/list.h"
#include "emu/util/now.h"

#define MEET_AGAIN_MS 5     /* between looks at links that come up */
#define LATE_MOST     4096u /* messages of other things, once a reply is late: more is no answer */
#define END_LOOK_MS   100   /* between looks whether this host is to end */
#define AGENTS_MS     1000  /* for others to say what they know, once an agent has failed */

/* --- connections --------------------------------------------------------------------- */

void hosts_lose(struct host_far *far, const char *why)
{
    struct hosts *hosts = far->hosts;

    if (far->lost)
        return;
    far->lost = true;
    far->back = false;
    conn_close(&far->conn);
    json_object_put(far->kept);
    far->kept = NULL;
    json_object_put(far->links); /* of a life that is over */
    far->links = NULL;
    hosts_hits_past(&far->hits);
    memset(far->sample, 0, sizeof far->sample); /* its next life counts from 0 */
    hosts_query_lost(far);
    emu_each_listed (struct hosts_process, process, &far->processes, link) {
        if (!*process->how)
            snprintf(process->how, sizeof process->how, "its host %s was lost",
                     hosts->config.name[far->number]);
        if (!process->ended)
            hosts_process_end(process);
        process->lost = true;
        process->client = -1; /* another life may have one of that number */
    }
    hosts_part_of(hosts, far->number, TOPO_NONE);
    hosts->config.ops.lost(hosts->config.ops.ctx, far->number, why);
    hosts_await(far);
}

void hosts_expel(struct hosts *hosts, uint32_t host, const char *why)
{
    hosts_lose(&hosts->far[host], why);
}

/* Whatever waits, on either side, is told of. */
static void far_listen(struct host_far *far)
{
    hosts_listen(far->hosts->epoll, &far->conn, &far->events, far);
    if (far->held && !hosts_is_full(&far->conn))
        eventfd_write(far->hosts->kept_fd, 1);
}

static void far_flush(struct host_far *far)
{
    int err = far->lost ? 0 : conn_flush(&far->conn);

    if (err && err != -EAGAIN)
        hosts_lose(far, "its control channel has ended");
    else
        far_listen(far);
}

/* @message is put. */
void hosts_say(struct host_far *far, struct json_object *message)
{
    if (far->lost) {
        json_object_put(message);
    } else if (conn_put(&far->conn, message)) {
        hosts_lose(far, "it does not read its control channel");
    } else {
        far_flush(far);
    }
}

/* What others have done it could not: it is no replica any more. */
static void far_failed(struct host_far *far, const char *what, int err)
{
    char why[HOSTS_WHY_BYTES];

    snprintf(why, sizeof why, "it could not do as it was told (%.32s): %s", what, strerror(-err));
    emu_printable(why);
    hosts_lose(far, why);
}

/* --- messages ------------------------------------------------------------------------- */

/* A session between that host and another one has ended. */
static void message_of_link(struct host_far *far, struct json_object *link)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;
    int64_t host = emu_json_number(link, "host", -1), of = emu_json_number(link, "of", 0);
    int64_t number = emu_json_number(link, "number", -1);

    if (host < 0 || host >= far->hosts->config.count || host == far->number || of < 1 ||
        of > UINT32_MAX || number < 0 || number >= of)
        return;
    hosts_part_of(far->hosts, far->number, (uint32_t)host);
    ops->link_lost(ops->ctx, far->number,
                   &(struct hosts_link){.host = (uint32_t)host,
                                        .number = (uint32_t)number,
                                        .of = (uint32_t)of,
                                        .end_fd = -1});
}

/* A process there does not take its segments. */
static void message_of_node(struct host_far *far, int64_t node)
{
    const struct hosts_ops *ops = &far->hosts->config.ops;

    if (node >= 0 && node <= UINT32_MAX)
        ops->cut_off(ops->ctx, far->number, (uint32_t)node);
}

int hosts_error_of(struct json_object *message, int64_t unsaid)
{
    int64_t number = emu_json_number(message, "errno", unsaid);

    return number >= 0 && number < 4096 ? -(int)number : -EIO;
}

static void message_serve(struct host_far *far, struct json_object *message)
{
    int64_t client = emu_json_number(message, "client", -1);
    struct json_object *field;

    if (client >= 0)
        hosts_message_of_client(far, client, message);
    if (json_object_object_get_ex(message, "hit", &field))
        hosts_dark(&far->hits, emu_json_number(message, "fault", 0), json_object_get_int64(field));
    if (json_object_object_get_ex(message, "sample", NULL))
        hosts_message_of_sample(far, message);
    if (json_object_object_get_ex(message, "link_lost", &field))
        message_of_link(far, field);
    if (json_object_object_get_ex(message, "cut_off", &field))
        message_of_node(far, json_object_get_int64(field));
    if (json_object_object_get_ex(message, "failed", &field))
        far_failed(far, emu_json_text(message, "failed", "?"), hosts_error_of(message, EIO));
    if (emu_json_number(message, "reply", 0) > 0)
        hosts_message_of_query(far, message);
}

static void serve_kept(struct host_far *far)
{
    struct json_object *kept = far->kept;

    far->kept = NULL;
    /* of a host that is lost meanwhile nobody is to be let in any more */
    for (size_t i = 0; kept && !far->lost && i < json_object_array_length(kept); i++)
        message_serve(far, json_object_array_get_idx(kept, i));
    json_object_put(kept);
}

static void far_serve(struct host_far *far)
{
    struct json_object *message;
    int end, got = 1;

    if (far->lost) {
        hosts_await_serve(far);
        return;
    }
    serve_kept(far);
    far_flush(far);
    end = far->lost ? 0 : conn_fill(&far->conn);
    while (!far->lost && (got = conn_next(&far->conn, &message)) == 1) {
        message_serve(far, message);
        json_object_put(message);
    }
    if (end || got < 0)
        hosts_lose(far, end ? "its control channel has ended" : "what it says is no message");
}

bool hosts_is_among(const void *what, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++)
        if (events[i].data.ptr == what)
            return true;
    return false;
}

void hosts_serve(struct hosts *hosts)
{
    struct epoll_event events[64];
    int count = epoll_wait(hosts->epoll, events, 64, 0);
    uint64_t times;
    bool kept = read(hosts->kept_fd, &times, sizeof times) > 0;

    for (uint32_t i = 0; i < hosts->config.links; i++)
        if (hosts_is_among(&hosts->config.link[i], events, count)) {
            epoll_ctl(hosts->epoll, EPOLL_CTL_DEL, hosts->config.link[i].end_fd, NULL);
            hosts_part_of(hosts, 0, hosts->config.link[i].host);
            hosts->config.ops.link_lost(hosts->config.ops.ctx, 0, &hosts->config.link[i]);
        }

    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        if (kept || hosts_is_among(far, events, count))
            far_serve(far);
        hosts_processes_serve(far, events, count);
    }
    if (hosts_is_among(&hosts->timer, events, count))
        hosts_mend_look(hosts);
}

int hosts_fd(const struct hosts *hosts)
{
    return hosts->epoll;
}

/* --- calls ---------------------------------------------------------------------------- */

bool hosts_keep(struct host_far *far, struct json_object *message)
{
    /* more than an honest host's connections have under way, first and last words included */
    uint64_t most = 64 * ((uint64_t)fabric_graph(far->hosts->config.fabric)->nodes + 128);

    if (!far->kept)
        far->kept = json_object_new_array();
    json_object_array_add(far->kept, message);
    eventfd_write(far->hosts->kept_fd, 1);
    return json_object_array_length(far->kept) <= most;
}

/* The supervisor, or a signal, wants the end; nobody else looks while a host is waited for. */
static bool ends_within(const struct hosts *hosts, int ms)
{
    struct pollfd fds[2] = {{hosts->config.signal_fd, POLLIN, 0},
                            {hosts->config.owner_fd, POLLIN, 0}};

    return poll(fds, 2, ms) > 0;
}

/* conn_wait(). Errors: -ECANCELED, where the end is looked for. */
static int far_wait(struct host_far *far, struct json_object **message, int64_t left_ms)
{
    int64_t until_ms = emu_now_ms() + (left_ms > 0 ? left_ms : 0);
    int err = -ETIMEDOUT;

    while (far->hosts->may_end && left_ms > END_LOOK_MS && err == -ETIMEDOUT) {
        err = ends_within(far->hosts, 0) ? -ECANCELED : conn_wait(&far->conn, message, END_LOOK_MS);
        left_ms = until_ms - emu_now_ms();
    }
    return err == -ETIMEDOUT ? conn_wait(&far->conn, message, left_ms > 0 ? (int)left_ms : 0) : err;
}

/* A message that is not the reply that is waited for. False: no more of them can be kept. */
static bool message_take(struct host_far *far, struct json_object *message)
{
    if (!json_object_object_get_ex(message, "hit", NULL) &&
        !json_object_object_get_ex(message, "sample", NULL))
        return hosts_keep(far, message);
    message_serve(far, message); /* it is to be counted in what is waited for */
    json_object_put(message);
    return true;
}

/* The reply to call @number, waited for until @until_ms; NULL: the host is lost, or the end is
 * wanted before: its reply is dropped when it comes. */
static struct json_object *far_reply(struct host_far *far, int64_t number, int64_t until_ms)
{
    struct json_object *message;
    uint32_t late = 0; /* messages that were there already when the time was over */

    until_ms = hosts_query_until_ms(far, until_ms);
    while (!far->lost) {
        int64_t left_ms = until_ms - emu_now_ms();
        int err = conn_flush(&far->conn);

        if (!err || err == -EAGAIN)
            err = far_wait(far, &message, left_ms);
        if (err == -ECANCELED)
            return NULL;
        if (err) {
            hosts_lose(far,
                       err == -ETIMEDOUT ? "it does not answer" : "its control channel has ended");
        } else if (emu_json_number(message, "reply", -1) == number) {
            far_listen(far);
            if (far->conn.in.bytes) /* what has come behind it */
                eventfd_write(far->hosts->kept_fd, 1);
            return message;
        } else {
            late += left_ms <= 0;
            if (!message_take(far, message) || late > LATE_MOST)
                hosts_lose(far, "it talks and does not answer");
        }
    }
    return NULL;
}

int64_t hosts_deadline_ms(uint64_t ms)
{
    return ms > INT32_MAX ? emu_now_ms() + INT32_MAX : emu_now_ms() + (int64_t)ms;
}

/* @with passes on. */
static void far_call(struct host_far *far, int64_t number, const char *what,
                     struct json_object *with)
{
    json_add_number(with, "call", (uint64_t)number);
    json_add_text(with, "do", what);
    hosts_say(far, with);
}

int64_t hosts_call_begin(struct hosts *hosts, uint32_t only, const char *what,
                         struct json_object *with)
{
    int64_t number = ++hosts->calls;

    for (uint32_t h = 1; h < hosts->config.count; h++)
        if (!only || h == only)
            far_call(&hosts->far[h], number, what, json_object_get(with));
    json_object_put(with);
    return number;
}

struct call {
    const char *what;
    uint32_t only; /* host; 0: all */
    int may_fail;  /* with this error, or with all: INT_MIN */
    void (*each)(void *ctx, uint32_t host, struct json_object *reply);
    void *ctx;
};

/* @with is put. A host that fails otherwise than it may is lost. Returns the first error. */
static int call_all(struct hosts *hosts, const struct call *call, struct json_object *with)
{
    int64_t number = hosts_call_begin(hosts, call->only, call->what, with);
    int64_t until_ms = hosts_deadline_ms(hosts->config.call_ms);
    int err = 0;

    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct json_object *reply;
        int failed;

        if (call->only && h != call->only)
            continue;
        reply = far_reply(&hosts->far[h], number, until_ms);
        failed = reply                 ? hosts_error_of(reply, 0)
                 : !hosts->far[h].lost ? -ECANCELED
                 : call->only          ? -EHOSTDOWN
                                       : 0;
        err = err ? err : failed;
        if (reply && call->each)
            call->each(call->ctx, h, reply);
        if (reply && failed && call->may_fail != INT_MIN && failed != call->may_fail)
            far_failed(&hosts->far[h], call->what, failed);
        json_object_put(reply);
    }
    return err;
}

int hosts_call(struct hosts *hosts, uint32_t only, const char *what, struct json_object *with,
               void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    const struct call call = {
        .what = what, .only = only, .may_fail = INT_MIN, .each = each, .ctx = ctx};

    return call_all(hosts, &call, with);
}

void hosts_do(struct hosts *hosts, uint32_t only, const char *what, struct json_object *with,
              int may_fail)
{
    call_all(hosts, &(struct call){.what = what, .only = only, .may_fail = may_fail}, with);
}

void hosts_ask(struct hosts *hosts, const char *what, struct json_object *with,
               void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    call_all(hosts, &(struct call){.what = what, .each = each, .ctx = ctx}, with);
}

void hosts_tell(struct hosts *hosts, const char *what, struct json_object *with)
{
    for (uint32_t h = 1; h < hosts->config.count; h++)
        far_call(&hosts->far[h], 0, what, json_object_get(with));
    json_object_put(with);
}

void hosts_tell_one(struct host_far *far, const char *what, struct json_object *with)
{
    far_call(far, 0, what, with);
}

int hosts_call_long(struct hosts *hosts, const char *what, struct json_object *with,
                    void (*each)(void *ctx, uint32_t host, struct json_object *reply), void *ctx)
{
    uint64_t call_ms = hosts->config.call_ms, start_ms = hosts->config.start_ms;
    int err;

    if (hosts->ends) /* who did not answer is not waited for again */
        return json_object_put(with), -ECANCELED;
    /* who is at the end already asks the last time, and is itself waited for */
    hosts->may_end = !ends_within(hosts, 0);
    if (hosts->may_end && start_ms > call_ms)
        hosts->config.call_ms = start_ms;
    err = hosts_call(hosts, 0, what, with, each, ctx);
    hosts->config.call_ms = call_ms;
    hosts->may_end = false;
    hosts->ends = err == -ECANCELED;
    return err;
}

bool hosts_is_lost(const struct hosts *hosts, uint32_t host)
{
    return hosts->far[host].lost;
}

/* --- beginning and end ------------------------------------------------------------------ */

static int hosts_make(struct hosts *hosts)
{
    struct epoll_event event = {.events = EPOLLIN};

    hosts->epoll = epoll_create1(EPOLL_CLOEXEC);
    hosts->kept_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hosts->epoll < 0 || hosts->kept_fd < 0 ||
        epoll_ctl(hosts->epoll, EPOLL_CTL_ADD, hosts->kept_fd, &event) < 0)
        return -errno;
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];

        conn_open(&far->conn, hosts->config.control[h], CONN_REPLY_MAX);
        hosts_listen(hosts->epoll, &far->conn, &far->events, far);
    }
    for (uint32_t i = 0; i < hosts->config.links; i++)
        if (hosts_watch(hosts->epoll, &hosts->config.link[i]))
            return -errno;
    return hosts_mend_open(hosts);
}

/* Until our links carry segments. Errors: -ETIMEDOUT, -EPROTO, -ECANCELED. */
static int links_meet(struct hosts *hosts, int64_t until_ms, char *why)
{
    const struct hosts_config *config = &hosts->config;
    int64_t began_ms = emu_now_ms(), good_ms = began_ms, now_ms = began_ms, failed_ms = 0;

    while (config->links_up && !config->links_up(config->links_ctx)) {
        now_ms = emu_now_ms();
        if (config->links_warn && now_ms - began_ms > HOSTS_WARN_MS)
            config->links_warn(config->links_ctx);
        if (!config->links_why || config->links_why(config->links_ctx, why, HOSTS_WHY_BYTES))
            good_ms = now_ms;
        if (now_ms - good_ms > HOSTS_REFUSED_MS + HOSTS_LONGER_MS)
            return -EPROTO;
        if (!config->agents_why || !config->agents_why(config->links_ctx, why, HOSTS_WHY_BYTES))
            failed_ms = 0;
        else if (!failed_ms)
            failed_ms = now_ms;
        else if (now_ms - failed_ms > AGENTS_MS)
            return -EPROTO;
        if (now_ms > until_ms)
            return -ETIMEDOUT;
        if (ends_within(hosts, MEET_AGAIN_MS))
            return -ECANCELED;
    }
    return 0;
}

struct meets {
    struct hosts *hosts;
    char *why;
};

static void take_why(void *ctx, uint32_t host, struct json_object *reply)
{
    const struct meets *meets = ctx;
    char why[HOSTS_WHY_BYTES];

    hosts_text(why, sizeof why, reply, "why");
    if (*why)
        snprintf(meets->why, HOSTS_WHY_BYTES, "host %s does not reach %.*s",
                 meets->hosts->config.name[host], HOSTS_WHY_BYTES / 2, why);
}

/* Until it answers that its links do, too. */
static int host_meet(struct hosts *hosts, uint32_t h, int64_t until_ms, char *why)
{
    struct meets meets = {hosts, why};
    int err = -EAGAIN;

    snprintf(why, HOSTS_WHY_BYTES, "host %s does not answer", hosts->config.name[h]);
    while (err == -EAGAIN) {
        int64_t left_ms = until_ms - emu_now_ms();

        if (left_ms < 0)
            return -ETIMEDOUT;
        hosts->config.call_ms = (uint64_t)left_ms;
        err = hosts_call(hosts, h, "meet", json_object_new_object(), take_why, &meets);
        if (err == -EAGAIN && ends_within(hosts, MEET_AGAIN_MS))
            return -ECANCELED;
    }
    return err;
}

/* All must be there before anybody is served. */
static int all_meet(struct hosts *hosts, char *error, size_t error_bytes)
{
    int64_t until_ms = hosts_deadline_ms(hosts->config.start_ms) + HOSTS_LONGER_MS;
    uint64_t call_ms = hosts->config.call_ms;
    char why[HOSTS_WHY_BYTES] = "";
    int err;

    hosts->may_end = true;
    err = links_meet(hosts, until_ms, why);
    for (uint32_t h = 1; !err && h < hosts->config.count; h++)
        err = host_meet(hosts, h, until_ms, why);
    hosts->config.call_ms = call_ms;
    hosts->may_end = false;
    if (err && ends_within(hosts, 0))
        return fail(-ECANCELED, error, error_bytes, "ended before all hosts were there");
    if (err)
        fail(err, error, error_bytes, "%s%s", why, err == -EPROTO ? "" : " (--bound start)");
    return err;
}

int hosts_open(struct hosts **ret, const struct hosts_config *config, char *error,
               size_t error_bytes)
{
    struct hosts *hosts = calloc(1, sizeof *hosts);
    int err;

    if (!hosts) {
        for (uint32_t h = 1; h < config->count; h++)
            close(config->control[h]);
        return fail(-ENOMEM, error, error_bytes, "no memory for %u hosts", config->count);
    }
    hosts->config = *config;
    hosts->timer = -1;
    hosts_mirror_open(hosts);
    for (uint32_t h = 1; h < config->count; h++) {
        hosts->far[h] = (struct host_far){.hosts = hosts, .number = h, .conn.fd = -1};
        emu_list_init(&hosts->far[h].processes);
    }
    err = hosts_make(hosts);
    if (err)
        fail(err, error, error_bytes, "cannot serve %u hosts: %s", config->count, strerror(-err));
    else
        err = all_meet(hosts, error, error_bytes);
    if (err) {
        hosts_close(hosts, error);
        return err;
    }
    *ret = hosts;
    return 0;
}

/* Tell every connected host to end, also one that has just rejoined. */
static void end_tell(struct hosts *hosts, const char *why)
{
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];
        struct json_object *with = json_object_new_object();

        far->lost = far->lost && !far->back;
        if (why)
            json_add_text(with, "why", why);
        if (!far->lost && far->conn.fd >= 0)
            far_call(far, ++hosts->calls, "end", with);
        else
            json_object_put(with);
    }
}

void hosts_close(struct hosts *hosts, const char *why)
{
    int64_t until_ms = emu_now_ms() + HOSTS_DRAIN_MS;

    if (!hosts)
        return;
    end_tell(hosts, why);
    for (uint32_t h = 1; h < hosts->config.count; h++) {
        struct host_far *far = &hosts->far[h];
        int64_t left_ms = until_ms - emu_now_ms();

        if (far->conn.fd >= 0)
            conn_drain(&far->conn, left_ms > 0 ? (int)left_ms : 0);
        conn_close(&far->conn);
        while (!emu_list_empty(&far->processes))
            hosts_process_free(emu_list_entry(far->processes.next, struct hosts_process, link));
        json_object_put(far->kept);
        json_object_put(far->links);
        json_object_put(far->said.blocks);
        json_object_put(far->hits.counts);
        free(far->hits.dark);
    }
    if (hosts->kept_fd >= 0)
        close(hosts->kept_fd);
    if (hosts->timer >= 0)
        close(hosts->timer);
    if (hosts->epoll >= 0)
        close(hosts->epoll);
    free(hosts);
}
