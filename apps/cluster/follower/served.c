/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * served.c - processes of a host that obeys: their requests go to the governor, and what it answers
 * to them.
 *
 * Of what they ask this host understands one thing: the reply to "attach", with which the
 * descriptors of the node's edge must go, since these are this host's. Whoever asks more than is
 * answered, or does not read the answers, waits; others do not (HOSTS_BACKLOG).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/base/schedstat.h"
#include "apps/cluster/follower/internal.h"
#include "emu/hostif/hostif.h"
#include "emu/util/now.h"

#define LAST_BREATH_MS 200 /* between a process's closing of its files and its end, at most */

struct json_object *served_message(const struct served *served)
{
    return json_add_number(json_object_new_object(), "client", (uint64_t)served->client);
}

static void served_free(struct obey *obey, struct served *served)
{
    obey->door.connections--;
    emu_list_del(&served->link);
    conn_close(&served->conn);
    if (served->end_fd >= 0)
        close(served->end_fd);
    waits_close(served->waits);
    free(served);
}

/* Its connection ends; how it ended itself shows a moment later. */
static void served_end(struct obey *obey, struct served *served, bool tell)
{
    if (tell)
        obey_say(obey, json_add_number(served_message(served), "end", 1));
    conn_close(&served->conn);
    served->ended = true;
    served->end_fd = pidfd_open(served->pid, 0);
    served->how_by_ms = emu_now_ms() + LAST_BREATH_MS;
}

/* All of them are of this host. */
static uint32_t served_held(void *ctx, uint32_t host, pid_t pid)
{
    const struct obey *obey = ctx;
    uint32_t held = 0;

    (void)host;
    emu_each_listed (const struct served, served, &obey->served, link)
        held += served->pid == pid;
    return held;
}

int served_open(struct obey *obey)
{
    obey->door = (struct door){.epoll = obey->epoll,
                               .listen_fd = &obey->config->listen_fd,
                               .nodes = obey->config->graph->nodes,
                               .held = served_held,
                               .ctx = obey};
    obey->waits_ns = emu_now_ns();
    waits_open(&obey->waits, getpid()); /* on failure it stays NULL */
    return door_open(&obey->door);
}

static struct served *served_new(struct obey *obey, int fd, pid_t pid)
{
    struct served *served = calloc(1, sizeof *served);

    if (!served)
        return NULL;
    served->client = obey->clients++;
    served->pid = pid;
    served->end_fd = -1;
    conn_open(&served->conn, fd, CONN_LINE_MAX);
    emu_list_add(&obey->served, &served->link);
    obey->door.connections++;
    hosts_listen(obey->epoll, &served->conn, &served->events, served);
    return served;
}

void served_accept(struct obey *obey)
{
    struct ucred cred;
    int fd = door_accept(&obey->door, &cred);
    struct json_object *message;
    struct served *served;
    char command[16];

    if (fd < 0)
        return;
    if (cred.uid != geteuid()) {
        door_turn_away(fd, -EACCES, DOOR_NOT_YOURS);
        return;
    }
    served = served_new(obey, fd, cred.pid);
    if (!served) {
        door_turn_away(fd, -ENOMEM, DOOR_NO_MEMORY);
        return;
    }
    procs_name(cred.pid, command, sizeof command);
    message = json_add_number(served_message(served), "new", (uint64_t)cred.pid);
    obey_say(obey, json_add_text(message, "command", command));
}

/* May its next request go to the governor? */
static bool served_may_ask(const struct obey *obey, const struct served *served)
{
    return !obey->over && !hosts_is_full(&obey->governor) && !served->ended && !served->closing &&
           !served->wrong && !served->mid && !served->conn.out.bytes &&
           served->asked < HOSTS_ASKED_MOST;
}

static void served_ask(struct obey *obey, struct served *served, struct json_object *line)
{
    struct json_object *message = served_message(served);

    served->asked++;
    served->exits |= strcmp(emu_json_text(line, "cmd", ""), "exits") == 0;
    json_object_object_add(message, "line", line);
    obey_say(obey, message);
}

/* What is no request is answered here, in its turn. */
static void served_correct(struct served *served)
{
    bool too_long = served->wrong == -EMSGSIZE;

    served->closing = too_long || conn_put(&served->conn, conn_error(served->wrong, CONN_NO_LINE));
    if (too_long)
        conn_put(&served->conn, conn_error(served->wrong, CONN_LONG_LINE));
    served->wrong = 0;
    conn_flush(&served->conn); /* whoever settles it sees what came of that */
}

/* What it asks goes to the governor. Returns whether that was all that has come. */
static bool served_requests(struct obey *obey, struct served *served)
{
    struct json_object *line;

    while (served_may_ask(obey, served)) {
        int got = conn_next(&served->conn, &line);

        if (got == 0)
            return true;
        if (got == 1)
            served_ask(obey, served, line);
        else
            served->wrong = got;
        if (served->wrong && !served->asked)
            served_correct(served);
    }
    return false;
}

/* The governor is told what it has taken of pieces. What lies before them counts as theirs. */
static void served_took(struct obey *obey, struct served *served)
{
    size_t waits = served->conn.out.bytes;
    size_t taken = served->owed > waits ? served->owed - waits : 0;

    if (taken < HOSTS_TAKEN_BYTES)
        return;
    served->owed -= taken;
    obey_say(obey, json_add_number(served_message(served), "taken", taken));
}

/* After whatever may have changed: what can go on does. */
static void served_settle(struct obey *obey, struct served *served)
{
    int err = conn_flush(&served->conn);
    bool all, over;

    if (err && err != -EAGAIN) {
        served_end(obey, served, !served->dismissed);
        return;
    }
    served_took(obey, served);
    if (served->wrong && !served->asked && !served->mid)
        served_correct(served);
    all = served_requests(obey, served);
    if (served->at_end && all)
        over = served->attached || !served->asked;
    else
        over = served->closing && !served->conn.out.bytes;
    if (over) {
        served_end(obey, served, !served->dismissed);
        return;
    }
    obey->held = obey->held || hosts_is_full(&obey->governor);
    hosts_listen_for(obey->epoll, &served->conn, !served->at_end && served_may_ask(obey, served),
                     &served->events, served);
}

void served_go_on(struct obey *obey)
{
    if (hosts_is_full(&obey->governor)) {
        obey->held = true;
        door_shut(&obey->door);
        return;
    }
    if (!obey->held)
        return;
    obey->held = false;
    door_hear(&obey->door);
    emu_each_listed (struct served, served, &obey->served, link)
        if (!served->ended)
            served_settle(obey, served);
}

/* Together they may have no more waiting than is the daemon's bound: who has most goes. */
static void served_excess(struct obey *obey)
{
    struct served *most = NULL;
    size_t sum = 0;

    emu_each_listed (struct served, served, &obey->served, link) {
        size_t excess = conn_excess(&served->conn);

        sum += excess;
        if (excess && (!most || excess > conn_excess(&most->conn)))
            most = served;
    }
    if (most && sum > CONN_EXCESS_MAX)
        served_end(obey, most, !most->dismissed);
}

/* What the governor says to it. With the reply to "attach" go the descriptors of its edge. */
void served_line(struct obey *obey, struct served *served, struct json_object *line)
{
    struct seat *seat = json_object_object_get_ex(line, "seat", NULL) &&
                                json_object_object_get_ex(line, "ok", NULL)
                            ? obey_seat_of(obey, emu_json_number(line, "node", -1))
                            : NULL;
    int err;

    if (served->mid) { /* it is refused in the middle of a line, and cannot be told so */
        json_object_put(line);
        served_end(obey, served, true);
        return;
    }
    if (served->asked && json_object_object_get_ex(line, "ok", NULL))
        served->asked--;
    if (seat) {
        err = conn_put_with(&served->conn, line,
                            (const int[EMU_JSON_FDS]){seat->seat.fds.memory, seat->seat.fds.bell,
                                                      seat->seat.fds.shelf});
        obey_seat_free(seat, true);
        served->attached = true;
        waits_open(&served->waits, served->pid); /* on failure it stays NULL */
    } else {
        err = conn_put(&served->conn, line);
    }
    if (err)
        served_end(obey, served, true);
    else
        served_settle(obey, served);
    if (!served->ended && conn_excess(&served->conn))
        served_excess(obey);
}

void served_text(struct obey *obey, struct served *served, struct json_object *message)
{
    static const char reply[] = "{\"ok\":"; /* it begins so: docs/control.md */
    struct json_object *text = json_object_object_get(message, "text");
    const char *at = json_object_is_type(text, json_type_string) ? json_object_get_string(text)
                                                                 : "";
    size_t bytes = strlen(at);
    bool more = emu_json_number(message, "more", 0) != 0;

    if (!served->mid && served->asked && strncmp(at, reply, strlen(reply)) == 0)
        served->asked--;
    served->mid = more;
    served->owed += bytes;
    if (conn_put_text(&served->conn, at, bytes, !more))
        served_end(obey, served, true);
    else
        served_settle(obey, served);
    if (!served->ended && conn_excess(&served->conn))
        served_excess(obey);
}

void served_dismiss(struct obey *obey, struct served *served)
{
    served->dismissed = served->closing = true;
    served_settle(obey, served);
}

void served_tell_how(struct obey *obey)
{
    for (struct emu_list *at = obey->served.next, *next; at != &obey->served; at = next) {
        struct served *served = emu_list_entry(at, struct served, link);
        struct json_object *message;
        char how[48];

        next = at->next;
        if (!served->ended ||
            (!procs_how_it_ended(served->pid, served->end_fd, served->exits, how, sizeof how) &&
             emu_now_ms() < served->how_by_ms))
            continue;
        message = served_message(served);
        obey_say(obey, json_add_text(message, "how", how));
        served_free(obey, served);
    }
}

struct served *served_of(struct obey *obey, int64_t client)
{
    emu_each_listed (struct served, served, &obey->served, link)
        if (served->client == client)
            return served;
    return NULL;
}

/* One that is to be stopped is listed before, here and by the supervisor. */
int served_signal(struct obey *obey, struct served *served, int signal)
{
    int listed = signal == SIGSTOP ? procs_freeze(&obey->frozen, served->pid) : 0;

    if (listed < 0)
        return listed;
    if (listed && obey->owner.fd >= 0 && !conn_put(&obey->owner, conn_frozen(served->pid)))
        conn_flush(&obey->owner);
    return kill(served->pid, signal) < 0 ? -errno : 0;
}

/* The larger of @starved_ns and the starved_ns of @waits since the last sample. */
static uint64_t most_starved(struct waits *waits, uint64_t since_ns, uint64_t starved_ns)
{
    struct waits_more more;

    if (!waits || waits_look(waits, since_ns, &more) || more.starved_ns < starved_ns)
        return starved_ns;
    return more.starved_ns;
}

/* As daemon/waits.c, for this host: for how long had its processes, or this one, no core? */
static void count_starved(struct obey *obey)
{
    uint64_t now_ns = emu_now_ns(), since_ns = now_ns - obey->waits_ns;
    uint64_t starved_ns = most_starved(obey->waits, since_ns, 0);

    emu_each_listed (struct served, served, &obey->served, link)
        starved_ns = most_starved(served->waits, since_ns, starved_ns);
    obey->waits_ns = now_ns;
    fabric_starved(obey->fabric, emu_starved_ns(since_ns, starved_ns), now_ns);
}

/* What the governor would see of them, were they on its host. */
void served_tick(struct obey *obey)
{
    uint64_t bound_ns = emu_bound_ns(obey->config->stopped_ms);

    count_starved(obey);
    if (!hosts_is_full(&obey->governor))
        door_hear(&obey->door);
    if (bound_ns == EMU_BOUND_OFF)
        return;
    emu_each_listed (struct served, served, &obey->served, link) {
        bool stopped = !served->ended && procs_stopped_for(&served->stop, served->pid, bound_ns);

        if (stopped != served->stopped && !served->ended)
            obey_say(obey, json_add_number(served_message(served), "stopped", stopped));
        served->stopped = stopped;
    }
}

void served_event(struct obey *obey, struct served *served)
{
    if (served->ended)
        return;
    if (!served->at_end && served_may_ask(obey, served))
        served->at_end = conn_fill(&served->conn) != 0;
    served_settle(obey, served);
}

int served_wait_ms(const struct obey *obey)
{
    emu_each_listed (struct served, served, &obey->served, link)
        if (served->ended)
            return 10; /* a few looks, and it is told */
    return -1;
}

void served_close(struct obey *obey)
{
    while (!emu_list_empty(&obey->served)) {
        struct served *served = emu_list_entry(obey->served.next, struct served, link);

        if (!served->ended && !served->mid && conn_put(&served->conn, conn_event("shutdown")) == 0)
            conn_drain(&served->conn, 0);
        served_free(obey, served);
    }
    waits_close(obey->waits);
    door_close(&obey->door);
    procs_thaw(&obey->frozen);
}
