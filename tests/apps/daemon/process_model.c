/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process_model.c - which messages must, may and must not arrive: see process.h.
 *
 * The rules, from nic/fabemu.h:
 * - A message that names a process which is gone fails. It never reaches another process.
 * - A message that names a node is for the process there, or for the next process if there is none
 *   and one attaches in time.
 * - Between two live processes all messages arrive once and whole, and match in the order in which
 *   they were sent.
 * - A message whose send completed with status 0 arrives even if its sender then detaches.
 * - Messages to or from a process that dies may be lost. Then one operation that names only the
 *   node may report it, once.
 * - An operation with a process that is gone ends.
 */
#include "tests/apps/daemon/process.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void wrong(struct model *m, const char *format, ...)
{
    va_list args;

    if (m->wrong[0])
        return; /* the first error matters */
    va_start(args, format);
    vsnprintf(m->wrong, sizeof m->wrong, format, args);
    va_end(args);
}

static void describe(const struct model *m, uint64_t id, char *to_text, size_t bytes)
{
    static const char *const states[] = {"here", "stopped", "leaving", "left", "dead"};
    const struct message *x = &m->message[id];
    const struct proc *from = &m->proc[x->from], *to = x->to < 0 ? NULL : &m->proc[x->to];

    snprintf(to_text, bytes,
             "%s %llu of %u bytes from process %u (node %u incarnation %llu, %s) to process %lld "
             "(node %u seat "
             "%llu, %s), "
             "%s, queue %u, status %d%s",
             x->add ? "addition" : "message", (unsigned long long)id, x->bytes, x->from, from->node,
             (unsigned long long)from->incarnation, states[from->state], (long long)x->to, x->node,
             to ? (unsigned long long)to->incarnation : 0, to ? states[to->state] : "nobody",
             x->named ? "named" : "by node", x->queue, x->status, x->arrived ? ", arrived" : "");
}

static void wrong_message(struct model *m, uint64_t id, const char *what)
{
    char text[320];

    describe(m, id, text, sizeof text);
    wrong(m, "%s: %s", text, what);
}

void model_init(struct model *m)
{
    memset(m, 0, sizeof *m);
    for (uint32_t n = 0; n < PROCESS_NODES; n++)
        m->at[n] = -1;
}

void model_release(struct model *m)
{
    free(m->proc);
    free(m->message);
    free(m->receive);
}

static void *grown(void *old, size_t count, size_t each)
{
    void *new = reallocarray(old, count, each);

    if (!new)
        abort();
    return new;
}

/* --- processes ---------------------------------------------------------------------- */

uint32_t model_started(struct model *m, pid_t pid, int fd, uint32_t node, uint64_t incarnation,
                       uint64_t key)
{
    if (m->procs == m->room)
        m->proc = grown(m->proc, m->room = 2 * m->room + 64, sizeof *m->proc);
    m->proc[m->procs] =
        (struct proc){.pid = pid, .fd = fd, .node = node, .incarnation = incarnation, .key = key};
    m->at[node] = m->procs;
    for (uint64_t i = m->first_open; i < m->messages; i++) {
        struct message *x = &m->message[i];

        if (x->node != node)
            continue;
        if (x->may_pass) /* it may be delivered to this process */
            m->proc[x->from].spoke |= 1u << node;
        if (x->to >= 0)
            continue;
        x->to = m->procs;
        x->may_fail = true; /* it may have waited too long */
        m->proc[x->from].spoke |= 1u << node;
    }
    return m->procs++;
}

void model_gone(struct model *m, uint32_t proc, bool died)
{
    uint32_t bit = 1u << m->proc[proc].node;

    m->proc[proc].state = died ? PROC_DEAD : PROC_LEFT;
    m->at[m->proc[proc].node] = -1;
    for (uint32_t i = 0; i < m->procs; i++) {
        struct proc *other = &m->proc[i];

        if (died && other->spoke & bit)
            other->owed |= bit;
        other->spoke &= ~bit;
    }
}

/* --- operations --------------------------------------------------------------------- */

uint64_t model_sends(struct model *m, uint32_t from, uint32_t node, int64_t to, uint32_t queue,
                     uint32_t bytes, bool add)
{
    struct proc *sender = &m->proc[from];
    struct message x = {.from = from,
                        .to = to,
                        .node = node,
                        .queue = queue,
                        .bytes = bytes,
                        .add = add,
                        .named = to >= 0,
                        .status = PROCESS_PENDING};

    if (!x.named)
        x.to = m->at[node];
    x.must_fail = x.named && m->proc[to].state > PROC_LEAVING;
    if (x.to >= 0 && m->proc[x.to].state == PROC_LEAVING) {
        x.may_fail = true;
        x.may_pass = !x.named;
    }
    if (!x.named && sender->owed & 1u << node)
        x.may_fail = true;
    if (x.to >= 0 && m->proc[x.to].state <= PROC_LEAVING)
        sender->spoke |= 1u << node;
    if (add && x.to >= 0)
        m->proc[x.to].maybe_added++;
    if (m->messages == m->message_room)
        m->message =
            grown(m->message, m->message_room = 2 * m->message_room + 1024, sizeof *m->message);
    m->message[m->messages] = x;
    return m->messages++;
}

/* --- results ------------------------------------------------------------------------ */

static struct message *message_of(struct model *m, uint64_t id)
{
    if (id < m->messages)
        return &m->message[id];
    wrong(m, "there is no message %llu", (unsigned long long)id);
    return NULL;
}

static void read_end(struct model *m, uint32_t who, const struct process_word *word)
{
    struct message *x = message_of(m, word->id);

    if (!x)
        return;
    if (x->from != who || x->status != PROCESS_PENDING || word->status == PROCESS_PENDING) {
        wrong_message(m, word->id, "it ended twice, or somebody else's");
        return;
    }
    x->status = word->status;
    m->failed += x->status != 0;
    if (x->add && x->to >= 0 && !x->status) {
        m->proc[x->to].maybe_added--;
        m->proc[x->to].added++;
    }
    if (x->status == -EHOSTUNREACH && !x->named)
        m->proc[who].owed &= ~(1u << x->node); /* that is reported once */
}

/* May process @who receive this message? */
static bool is_for(const struct model *m, const struct message *x, uint32_t who)
{
    return x->to == who || (x->may_pass && m->proc[who].node == x->node && who > x->to);
}

/* Messages of one pair to one queue match receives in order. */
static void check_order(struct model *m, uint64_t id)
{
    const struct message *x = &m->message[id];

    for (uint64_t i = m->first_open; i < m->messages; i++) {
        const struct message *y = &m->message[i];

        if (y->arrived && i != id && y->from == x->from && y->to == x->to && y->queue == x->queue &&
            !y->add && (i < id) != (y->nth < x->nth)) {
            wrong_message(m, id, "it did not match in the order in which it was sent");
            return;
        }
    }
}

static void read_arrived(struct model *m, uint32_t who, const struct process_word *word)
{
    struct message *x;

    if (word->status == -EHOSTUNREACH || word->status == -ECANCELED) {
        if (!word->bytes)
            return; /* it had no receiver yet */
    } else if (word->status) {
        wrong(m, "a receive of process %u ended with %d", who, word->status);
        return;
    }
    x = message_of(m, word->id);
    if (!x)
        return;
    if (x->arrived || x->add || !is_for(m, x, who) || word->queue != x->queue) {
        wrong_message(m, word->id,
                      x->arrived ? "it arrived twice" : "it arrived at the wrong process");
        return;
    }
    if (m->proc[x->from].node != word->node || m->proc[x->from].incarnation != word->incarnation) {
        wrong_message(m, word->id, "it arrived with another sender's name");
        return;
    }
    if (word->bytes != x->bytes || !word->intact) {
        wrong_message(m, word->id, "it is not what was sent");
        return;
    }
    if (word->status && m->proc[x->from].state < PROC_LEAVING) {
        wrong_message(m, word->id, "its receive failed, and its sender is here");
        return;
    }
    x->to = who;
    if (word->status)
        return;
    x->arrived = true;
    x->nth = word->nth;
    if (x->queue == PROCESS_ANY_QUEUE)
        check_order(m, word->id);
}

/* --- named receives ----------------------------------------------------------------- */

uint64_t model_receives(struct model *m, uint32_t who, uint32_t from)
{
    if (m->receives == m->receive_room)
        m->receive =
            grown(m->receive, m->receive_room = 2 * m->receive_room + 256, sizeof *m->receive);
    m->receive[m->receives] = (struct receive){.who = who, .from = from};
    return m->receives++;
}

int64_t model_receives_short(const struct model *m, uint32_t to)
{
    for (uint64_t i = m->first_open; i < m->messages; i++) {
        const struct message *x = &m->message[i];
        int64_t short_by = 0;

        if (x->queue != PROCESS_NAMED_QUEUE || x->to != to || x->arrived || x->status || x->over)
            continue;
        for (uint64_t k = m->first_open; k < m->messages; k++) {
            const struct message *y = &m->message[k];

            short_by += y->queue == x->queue && y->to == to && y->from == x->from && !y->arrived &&
                        !y->status;
        }
        for (uint64_t k = m->first_receive; k < m->receives; k++)
            short_by -= !m->receive[k].over && m->receive[k].who == to &&
                        m->receive[k].from == x->from;
        if (short_by > 0)
            return x->from;
    }
    return -1;
}

static void read_ended(struct model *m, uint32_t who, const struct process_word *word)
{
    struct receive *r = word->id < m->receives ? &m->receive[word->id] : NULL;

    if (!r || r->who != who || r->over) {
        wrong(m, "process %u: a receive that ended twice, or another's", who);
        return;
    }
    r->over = true;
    if (word->status && (word->status != -EHOSTUNREACH || model_is_here(m, r->from)) &&
        m->proc[who].state < PROC_LEAVING)
        wrong(m, "process %u: its receive from process %u, which is %s, ended with %d", who,
              r->from, model_is_here(m, r->from) ? "here" : "gone", word->status);
}

/* Must this receive still end? Its sender is gone, and its receiver is not. */
static bool receive_open(const struct model *m, struct receive *r)
{
    r->over |= !model_is_here(m, r->who);
    return !r->over && m->proc[r->from].state > PROC_LEAVING;
}

void model_reported(struct model *m, uint32_t who, const struct process_word *word)
{
    struct proc *proc = &m->proc[who];

    if (word->what == PROCESS_SENT || word->what == PROCESS_ADDED)
        read_end(m, who, word);
    else if (word->what == PROCESS_ARRIVED)
        read_arrived(m, who, word);
    else if (word->what == PROCESS_ENDED)
        read_ended(m, who, word);
    else if (word->what == PROCESS_END &&
             (word->key < proc->added || word->key > proc->added + proc->maybe_added))
        wrong(m, "process %u (node %u) was added %llu, for certain %llu and perhaps %llu more", who,
              proc->node, (unsigned long long)word->key, (unsigned long long)proc->added,
              (unsigned long long)proc->maybe_added);
}

/* --- completion --------------------------------------------------------------------- */

/* A status that is impossible whatever happens next. */
static void check_status(struct model *m, uint64_t id)
{
    const struct message *x = &m->message[id];
    bool target_gone = x->to < 0 || m->proc[x->to].state >= PROC_LEAVING;
    bool canceled = x->status == -ECANCELED && m->proc[x->from].state >= PROC_LEAVING;
    bool passed = x->add && x->may_pass && x->status == -EACCES; /* memory of the next process */
    bool bulk = x->bytes > PROCESS_EAGER_BYTES;
    /* a receive that was aborted half way */
    bool given_up = bulk && target_gone && x->status == -ECANCELED;
    /* before it could confirm */
    bool dead = bulk && x->to >= 0 && m->proc[x->to].state == PROC_DEAD;

    if (x->status && !canceled && !passed && !given_up && x->status != -EHOSTUNREACH)
        wrong_message(m, id, "no such error may be");
    else if (x->status == -EHOSTUNREACH && !target_gone && !x->may_fail)
        wrong_message(m, id, "it failed, and its target is here");
    else if (x->status && x->arrived && !dead)
        wrong_message(m, id, "it failed, and it arrived");
    else if (!x->status && (x->must_fail || x->to < 0))
        wrong_message(m, id, "it did not fail, and nobody is there");
}

/* Has everything happened that must happen? */
static bool message_over(const struct model *m, const struct message *x)
{
    const struct proc *from = &m->proc[x->from];
    const struct proc *to = x->to < 0 ? NULL : &m->proc[x->to];

    if (from->state == PROC_DEAD)
        return true;
    if (x->status == PROCESS_PENDING)
        return false;
    return x->status || x->add || x->arrived || (to && to->state >= PROC_LEAVING);
}

bool model_open(struct model *m, char *what, size_t what_bytes, int64_t *vacant)
{
    bool open = false, all = true;

    *vacant = -1;
    for (uint64_t i = m->first_open; i < m->messages && !m->wrong[0]; i++) {
        struct message *x = &m->message[i];

        if (x->status != PROCESS_PENDING && !x->over)
            check_status(m, i);
        x->over = x->over || message_over(m, x);
        if (!x->over && !open)
            describe(m, i, what, what_bytes);
        open = open || !x->over;
        if (!x->over && x->to < 0)
            *vacant = x->node;
    }
    for (uint64_t i = m->first_receive; i < m->receives; i++) {
        struct receive *r = &m->receive[i];

        if (receive_open(m, r) && !open)
            snprintf(what, what_bytes, "the receive of process %u from process %u, which is gone",
                     r->who, r->from);
        open = open || receive_open(m, r);
        all = all && r->over;
    }
    if (!open)
        m->first_open = m->messages;
    if (all)
        m->first_receive = m->receives;
    return open;
}
