/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clients.c - the processes of an agent's host: forwards their requests to the coordinator, and the
 * coordinator's replies to the processes.
 *
 * Lines are forwarded unchanged, with two exceptions: the reply to "attach" gets the descriptors of
 * the node's host interface, which exist only on this host, and the event "lost" gets this host's
 * time (agent.c). Only a process that sends too many requests, or does not read replies, has to
 * wait; the other processes do not (HOSTS_BACKLOG).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apps/base/schedstat.h"
#include "apps/cluster/agent/internal.h"
#include "emu/hostif/hostif.h"
#include "emu/util/now.h"

/* longest wait for the exit status of a process after its connection has ended */
#define EXIT_STATUS_MS 200

static_assert(
    CONN_CONTAINERS_MAX + 2 < EMU_JSON_DEPTH,
    "a forwarded request is nested one level deeper, and the coordinator must still parse it");

struct json_object *agent_process_message(const struct agent_process *process)
{
    return json_add_number(json_object_new_object(), "client", (uint64_t)process->client);
}

static void agent_process_free(struct agent *agent, struct agent_process *process)
{
    agent->admission.connections--;
    emu_list_del(&process->link);
    conn_close(&process->conn);
    if (process->pidfd >= 0)
        close(process->pidfd);
    waits_close(process->waits);
    free(process);
}

/*
 * End a process's connection and, if @notify is set, send "end" to the coordinator. Keep the
 * structure until the exit status is known, which may be a little later.
 */
static void agent_process_end(struct agent *agent, struct agent_process *process, bool notify)
{
    if (notify)
        agent_send(agent, json_add_number(agent_process_message(process), "end", 1));
    process->pidfd = procs_pidfd(process->conn.fd, process->pid);
    conn_close(&process->conn);
    process->ended = true;
    process->how_by_ms = emu_now_ms() + EXIT_STATUS_MS;
}

/* @host is ignored, because all processes that connect here are on this host. */
static uint32_t agent_connections_of(void *ctx, uint32_t host, pid_t pid)
{
    const struct agent *agent = ctx;
    uint32_t held = 0;

    (void)host;
    emu_each_listed (const struct agent_process, process, &agent->processes, link)
        held += process->pid == pid;
    return held;
}

int agent_process_open(struct agent *agent)
{
    agent->admission = (struct admission){.epoll = agent->epoll,
                                          .listen_fd = &agent->config->listen_fd,
                                          .nodes = fabric_graph(agent->fabric)->nodes,
                                          .connections_of = agent_connections_of,
                                          .ctx = agent};
    agent->waits_ns = emu_now_ns();
    waits_open(&agent->waits, getpid()); /* stays NULL if that fails */
    return admission_open(&agent->admission);
}

static struct agent_process *agent_process_new(struct agent *agent, int fd, pid_t pid)
{
    struct agent_process *process = calloc(1, sizeof *process);

    if (!process)
        return NULL;
    process->client = agent->clients++;
    process->pid = pid;
    process->pidfd = -1;
    conn_open(&process->conn, fd, CONN_LINE_MAX);
    process->conn.containers_max = CONN_CONTAINERS_MAX;
    emu_list_add(&agent->processes, &process->link);
    agent->admission.connections++;
    hosts_listen(agent->epoll, &process->conn, &process->events, process);
    return process;
}

void agent_process_accept(struct agent *agent)
{
    struct ucred cred;
    int fd = admission_accept(&agent->admission, &cred);
    struct json_object *message;
    struct agent_process *process;
    char command[16];

    if (fd < 0)
        return;
    if (cred.uid != geteuid()) {
        admission_reject(fd, -EACCES, ADMISSION_NOT_YOURS);
        return;
    }
    process = agent_process_new(agent, fd, cred.pid);
    if (!process) {
        admission_reject(fd, -ENOMEM, ADMISSION_NO_MEMORY);
        return;
    }
    procs_name(cred.pid, command, sizeof command);
    message = json_add_number(agent_process_message(process), "new", (uint64_t)cred.pid);
    agent_send(agent, json_add_text(message, "command", command));
}

static bool agent_process_may_request(const struct agent *agent,
                                      const struct agent_process *process)
{
    return !agent->over && !hosts_is_full(&agent->coordinator) && !process->ended &&
           !process->closing && !process->wrong && !process->in_line && !process->conn.out.bytes &&
           process->asked < HOSTS_ASKED_MOST;
}

static void agent_process_request(struct agent *agent, struct agent_process *process,
                                  struct json_object *line)
{
    struct json_object *message = agent_process_message(process);

    process->asked++;
    process->exits |= strcmp(emu_json_text(line, "cmd", ""), "exits") == 0;
    json_object_object_add(message, "line", line);
    agent_send(agent, message);
}

/*
 * Reply to an invalid request with an error, as soon as all earlier requests of the process have
 * their replies.
 */
static void agent_process_reject_request(struct agent_process *process)
{
    bool too_long = process->wrong == -EMSGSIZE;

    process->closing = too_long ||
                       conn_put(&process->conn, conn_error(process->wrong, CONN_NO_LINE));
    if (too_long)
        conn_put(&process->conn, conn_error(process->wrong, CONN_LONG_LINE));
    process->wrong = 0;
    conn_flush(&process->conn); /* agent_process_settle() handles errors */
}

/*
 * Forward the requests that have arrived from the process. Returns whether all of them were
 * forwarded.
 */
static bool agent_process_requests(struct agent *agent, struct agent_process *process)
{
    struct json_object *line;

    while (agent_process_may_request(agent, process)) {
        int got = conn_next(&process->conn, &line);

        if (got == 0)
            return true;
        if (got == 1)
            agent_process_request(agent, process, line);
        else
            process->wrong = got;
        if (process->wrong && !process->asked)
            agent_process_reject_request(process);
    }
    return false;
}

/*
 * Acknowledge to the coordinator the text that the process has read. Output that was queued before
 * the text counts as a part of the text. So text may be acknowledged too late, but never too early.
 */
static void agent_process_acknowledge(struct agent *agent, struct agent_process *process)
{
    size_t waits = process->conn.out.bytes;
    size_t taken = process->owed > waits ? process->owed - waits : 0;

    if (taken < HOSTS_ACK_BYTES)
        return;
    process->owed -= taken;
    agent_send(agent, json_add_number(agent_process_message(process), "taken", taken));
}

/*
 * Send output, acknowledge text, forward requests and end the connection, as far as possible
 * without waiting.
 */
static void agent_process_settle(struct agent *agent, struct agent_process *process)
{
    int err = conn_flush(&process->conn);
    bool all, over;

    if (err && err != -EAGAIN) {
        agent_process_end(agent, process, !process->dismissed);
        return;
    }
    agent_process_acknowledge(agent, process);
    if (process->wrong && !process->asked && !process->in_line)
        agent_process_reject_request(process);
    all = agent_process_requests(agent, process);
    if (process->at_end && all)
        over = process->attached || !process->asked;
    else
        over = process->closing && !process->conn.out.bytes;
    if (over) {
        agent_process_end(agent, process, !process->dismissed);
        return;
    }
    agent->blocked = agent->blocked || hosts_is_full(&agent->coordinator);
    hosts_listen_for(agent->epoll, &process->conn,
                     !process->at_end && agent_process_may_request(agent, process),
                     &process->events, process);
}

void agent_process_resume(struct agent *agent)
{
    if (hosts_is_full(&agent->coordinator)) {
        agent->blocked = true;
        admission_pause(&agent->admission);
        return;
    }
    if (!agent->blocked)
        return;
    agent->blocked = false;
    admission_resume(&agent->admission);
    emu_each_listed (struct agent_process, process, &agent->processes, link)
        if (!process->ended)
            agent_process_settle(agent, process);
}

/*
 * If the processes' buffers together exceed the daemon's limit CONN_EXCESS_MAX, end the process
 * with the largest buffers.
 */
static void agent_process_limit(struct agent *agent)
{
    struct agent_process *most = NULL;
    size_t sum = 0;

    emu_each_listed (struct agent_process, process, &agent->processes, link) {
        size_t excess = conn_excess(&process->conn);

        sum += excess;
        if (excess && (!most || excess > conn_excess(&most->conn)))
            most = process;
    }
    if (most && sum > CONN_EXCESS_MAX)
        agent_process_end(agent, most, !most->dismissed);
}

/* The reply to "attach" gets the descriptors of the host interface. */
void agent_process_line(struct agent *agent, struct agent_process *process,
                        struct json_object *line)
{
    struct agent_reservation *reservation =
        json_object_object_get_ex(line, "incarnation", NULL) &&
                json_object_object_get_ex(line, "ok", NULL)
            ? agent_reservation_of(agent, emu_json_number(line, "node", -1))
            : NULL;
    int err;

    if (process->in_line) { /* the process has only a part of a line, so no other line may follow */
        json_object_put(line);
        agent_process_end(agent, process, true);
        return;
    }
    if (process->asked && json_object_object_get_ex(line, "ok", NULL))
        process->asked--;
    if (reservation) {
        err = conn_put_with(&process->conn, line,
                            (const int[EMU_JSON_FDS]){reservation->attachment.fds.memory,
                                                      reservation->attachment.fds.bell,
                                                      reservation->attachment.fds.mcast_buf});
        agent_reservation_free(reservation, true);
        process->attached = true;
        if (!process->waits) /* a correct coordinator sends such a reply to a process only once */
            waits_open(&process->waits, process->pid); /* stays NULL if that fails */
    } else {
        err = conn_put(&process->conn, line);
    }
    if (err)
        agent_process_end(agent, process, true);
    else
        agent_process_settle(agent, process);
    if (!process->ended && conn_excess(&process->conn))
        agent_process_limit(agent);
}

void agent_process_text(struct agent *agent, struct agent_process *process,
                        struct json_object *message)
{
    static const char reply[] = "{\"ok\":"; /* start of every reply: docs/control.md */
    struct json_object *text = json_object_object_get(message, "text");
    const char *at = json_object_is_type(text, json_type_string) ? json_object_get_string(text)
                                                                 : "";
    size_t bytes = strlen(at);
    bool more = emu_json_number(message, "more", 0) != 0;

    if (!process->in_line && process->asked && strncmp(at, reply, strlen(reply)) == 0)
        process->asked--;
    process->in_line = more;
    process->owed += bytes;
    if (conn_put_text(&process->conn, at, bytes, !more))
        agent_process_end(agent, process, true);
    else
        agent_process_settle(agent, process);
    if (!process->ended && conn_excess(&process->conn))
        agent_process_limit(agent);
}

void agent_process_dismiss(struct agent *agent, struct agent_process *process)
{
    process->dismissed = process->closing = true;
    agent_process_settle(agent, process);
}

void agent_process_report_exits(struct agent *agent)
{
    for (struct emu_list *at = agent->processes.next, *next; at != &agent->processes; at = next) {
        struct agent_process *process = emu_list_entry(at, struct agent_process, link);
        struct json_object *message;
        char how[96];

        next = at->next;
        if (!process->ended ||
            (!procs_exit_reason(process->pid, process->pidfd, process->exits, how, sizeof how) &&
             emu_now_ms() < process->how_by_ms))
            continue;
        message = agent_process_message(process);
        agent_send(agent, json_add_text(message, "how", how));
        agent_process_free(agent, process);
    }
}

struct agent_process *agent_process_of(struct agent *agent, int64_t client)
{
    emu_each_listed (struct agent_process, process, &agent->processes, link)
        if (process->client == client)
            return process;
    return NULL;
}

/*
 * Send a signal to a process. Before SIGSTOP, add the process to two lists: that of this agent and
 * that of the agent's supervisor. Each of the two resumes the processes in its list when it ends.
 */
int agent_process_signal(struct agent *agent, struct agent_process *process, int signal)
{
    int listed = signal == SIGSTOP ? procs_freeze(&agent->frozen, process->pid) : 0;

    if (listed < 0)
        return listed;
    if (listed && agent->owner.fd >= 0 && !conn_put(&agent->owner, conn_frozen(process->pid)))
        conn_flush(&agent->owner);
    return kill(process->pid, signal) < 0 ? -errno : 0;
}

/* Return @starved_ns, or the starved_ns of a new sample of @waits if that is larger. */
static uint64_t most_starved(struct waits *waits, uint64_t since_ns, uint64_t starved_ns)
{
    struct waits_delta more;

    if (!waits || waits_sample(waits, since_ns, &more) || more.starved_ns < starved_ns)
        return starved_ns;
    return more.starved_ns;
}

/*
 * Report to the fabric for how long a process of this host or the agent itself waited for a core,
 * as daemon/waits.c does on the coordinator's host.
 */
static void count_starved(struct agent *agent)
{
    uint64_t now_ns = emu_now_ns(), since_ns = now_ns - agent->waits_ns;
    uint64_t starved_ns = most_starved(agent->waits, since_ns, 0);

    emu_each_listed (struct agent_process, process, &agent->processes, link)
        starved_ns = most_starved(process->waits, since_ns, starved_ns);
    agent->waits_ns = now_ns;
    fabric_starved(agent->fabric, emu_starved_ns(since_ns, starved_ns), now_ns);
}

void agent_process_tick(struct agent *agent)
{
    uint64_t bound_ns = emu_bound_ns(agent->config->stopped_ms);

    count_starved(agent);
    if (!hosts_is_full(&agent->coordinator))
        admission_resume(&agent->admission);
    if (bound_ns == EMU_BOUND_OFF)
        return;
    emu_each_listed (struct agent_process, process, &agent->processes, link) {
        bool stopped = !process->ended && procs_stopped_for(&process->stop, process->pid, bound_ns);

        if (stopped != process->stopped && !process->ended)
            agent_send(agent, json_add_number(agent_process_message(process), "stopped", stopped));
        process->stopped = stopped;
    }
}

void agent_process_event(struct agent *agent, struct agent_process *process)
{
    if (process->ended)
        return;
    if (!process->at_end && agent_process_may_request(agent, process))
        process->at_end = conn_fill(&process->conn) != 0;
    agent_process_settle(agent, process);
}

int agent_process_wait_ms(const struct agent *agent)
{
    emu_each_listed (struct agent_process, process, &agent->processes, link)
        if (process->ended)
            return 10; /* after 10 ms, check again whether the exit status is known */
    return -1;
}

void agent_process_close(struct agent *agent)
{
    while (!emu_list_empty(&agent->processes)) {
        struct agent_process *process =
            emu_list_entry(agent->processes.next, struct agent_process, link);

        if (!process->ended && !process->in_line &&
            conn_put(&process->conn, conn_event("shutdown")) == 0)
            conn_drain(&process->conn, 0);
        agent_process_free(agent, process);
    }
    waits_close(agent->waits);
    admission_close(&agent->admission);
    procs_thaw(&agent->frozen);
}
