/* SPDX-License-Identifier: BSD-3-Clause */
/* standstill_lines.c - the lines about a standstill: which processes wait for which others. */
#include "apps/cmd/standstill_lines.h"

#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/base/amount.h"
#include "apps/cmd/cycle.h"
#include "apps/control/conn.h"
#include "emu/hostif/pending.h"
#include "emu/util/json.h"

#define STARVED_NS 500000000  /* shorter waits for cores are not printed */
#define OLD_NS     1000000000 /* younger operations are not printed */
#define RANGES     8          /* maximum number of ranges or items of a list that are printed */
#define LINES_MAX  24         /* maximum number of processes that are printed */

/* A line of text to which parts are appended. Text that does not fit is cut off. */
struct line {
    char text[900];
    size_t used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct line *line, const char *format, ...)
{
    size_t left = sizeof line->text - line->used;
    va_list args;
    int bytes;

    va_start(args, format);
    bytes = vsnprintf(line->text + line->used, left, format, args);
    va_end(args);
    if (bytes > 0)
        line->used += (size_t)bytes < left ? (size_t)bytes : left - 1;
}

/* Return the article of a kind of operation: "an" for "all-reduce". */
static const char *article_of(const char *kind)
{
    return *kind == 'a' ? "an" : "a";
}

struct printing {
    struct json_object *attached;    /* the processes that are attached, as JSON */
    struct json_object *collectives; /* the collectives in progress, as JSON */
    void (*print)(const char *line);
};

/* --- names of processes ------------------------------------------------------------- */

static struct json_object *process_at(const struct printing *to, int64_t node)
{
    for (size_t i = 0; i < emu_json_count(to->attached); i++) {
        struct json_object *one = emu_json_at(to->attached, i);

        if (emu_json_number(one, "node", -1) == node)
            return one;
    }
    return NULL;
}

/*
 * Return the rank of the process at @node. Returns -1 if it has none, or if a process of another
 * MPI job has the same rank, because the lines do not name jobs.
 */
static int64_t rank_at(const struct printing *to, int64_t node)
{
    int64_t rank = emu_json_number(process_at(to, node), "rank", -1);

    for (size_t i = 0; rank >= 0 && i < emu_json_count(to->attached); i++) {
        struct json_object *other = emu_json_at(to->attached, i);

        if (emu_json_number(other, "rank", -1) == rank &&
            emu_json_number(other, "node", -1) != node)
            return -1;
    }
    return rank;
}

/* Return "node 3" or, if the node has a name, "node 3 (node01)". */
static const char *node_shown(const struct printing *to, int64_t node,
                              char text[static TOPO_SHOWN_BYTES])
{
    struct json_object *process = process_at(to, node);

    if (process)
        return json_show_node(process, text);
    snprintf(text, TOPO_SHOWN_BYTES, "node %lld", (long long)node);
    return text;
}

/* Append "rank 3" or, if the process at @node has no rank of its own, "node 3". */
static void add_process(struct line *line, const struct printing *to, int64_t node)
{
    int64_t rank = rank_at(to, node);
    char shown[TOPO_SHOWN_BYTES];

    if (rank >= 0)
        add(line, "rank %lld", (long long)rank);
    else
        add(line, "%s", node_shown(to, node, shown));
}

/* Append "rank 3 (node 3, host beta, pid 77, program)". */
static void add_process_fully(struct line *line, const struct printing *to, int64_t node)
{
    struct json_object *process = process_at(to, node);
    char shown[TOPO_SHOWN_BYTES];

    add_process(line, to, node);
    if (!emu_json_number(process, "pid", 0))
        return;
    add(line, " (");
    if (rank_at(to, node) >= 0)
        add(line, "%s, ", node_shown(to, node, shown));
    if (json_object_object_get(process, "host"))
        add(line, "host %s, ", emu_json_text(process, "host", ""));
    add(line, "pid %lld, %s)", (long long)emu_json_number(process, "pid", 0),
        emu_json_text(process, "command", "?"));
}

static int64_t number_at(const struct printing *to, struct json_object *nodes, size_t i, bool ranks)
{
    int64_t node = json_object_get_int64(emu_json_at(nodes, i));

    return ranks ? rank_at(to, node) : node;
}

/* Append "ranks 0-2, 5" or, if a process has no rank of its own, "nodes 0-2, 5". */
static void add_list(struct line *line, const struct printing *to, struct json_object *nodes)
{
    size_t count = emu_json_count(nodes), ranges = 0;
    bool ranks = true;

    for (size_t i = 0; i < count; i++)
        ranks = ranks && number_at(to, nodes, i, true) >= 0;
    add(line, ranks ? "rank%s " : "node%s ", plural_s(count));
    for (size_t i = 0; i < count; ranges++) {
        int64_t first = number_at(to, nodes, i, ranks), last = first;

        if (ranges == RANGES) {
            add(line, " and %zu more", count - i);
            return;
        }
        while (++i < count && number_at(to, nodes, i, ranks) == last + 1)
            last++;
        add(line, ranges ? ", %lld" : "%lld", (long long)first);
        if (last > first)
            add(line, "-%lld", (long long)last);
    }
}

/* --- names of collectives ----------------------------------------------------------- */

/*
 * Append "all-reduce of 32 bytes (sum of int32)" or, with an article (@a), "a barrier". If the
 * network executes the program's call as another collective, name both.
 */
static void add_what(struct line *line, const struct printing *to, struct json_object *what, bool a)
{
    const char *kind = emu_json_text(what, "kind", "collective");
    int64_t bytes = emu_json_number(what, "bytes", 0), root = emu_json_number(what, "root", -1);
    const char *call = emu_json_text(what, "call", "");

    if (a)
        add(line, "%s ", article_of(*call ? call : kind));
    if (*call)
        add(line, "%s, executed as %s ", call, article_of(kind));
    add(line, "%s", kind);
    if (bytes)
        add(line, " of %lld byte%s", (long long)bytes, plural_s((uint64_t)bytes));
    if (json_object_object_get(what, "operation"))
        add(line, " (%s of %s)", emu_json_text(what, "operation", ""),
            emu_json_text(what, "type", ""));
    if (root >= 0) {
        add(line, strcmp(kind, "reduce") == 0 ? " to " : " from ");
        add_process(line, to, root);
    }
}

static void add_group(struct line *line, struct json_object *collective)
{
    const char *name = emu_json_text(collective, "name", "");

    if (*name)
        add(line, "%s (group %lld)", name, (long long)emu_json_number(collective, "group", 0));
    else
        add(line, "group %lld", (long long)emu_json_number(collective, "group", 0));
}

static void add_for(struct line *line, struct json_object *of)
{
    add(line, ", for %s", duration_of_ns((double)emu_json_number(of, "for_ns", 0)).text);
}

/* --- collectives -------------------------------------------------------------------- */

/*
 * If a process is stopped or has not reported for some time, append this. Returns false if neither
 * is the case.
 */
static bool add_absence(struct line *line, struct json_object *process)
{
    if (emu_json_true(process, "stopped"))
        add(line, " is stopped");
    else if (!process || !json_object_object_get(process, "waits"))
        add(line, " has reported nothing");
    else if (json_object_object_get(process, "silent_ns"))
        add(line, " has reported nothing for %s",
            duration_of_ns((double)emu_json_number(process, "silent_ns", 0)).text);
    else
        return false;
    return true;
}

/* Return whether the process at @node has begun one of the collectives. */
static bool is_in_collective(const struct printing *to, int64_t node)
{
    for (size_t i = 0; i < emu_json_count(to->collectives); i++) {
        struct json_object *one = emu_json_at(to->collectives, i);
        struct json_object *arrived = json_object_object_get(one, "arrived");
        struct json_object *differ = json_object_object_get(one, "differ");

        for (size_t n = 0; n < emu_json_count(arrived); n++)
            if (json_object_get_int64(emu_json_at(arrived, n)) == node)
                return true;
        for (size_t n = 0; n < emu_json_count(differ); n++)
            if (emu_json_number(emu_json_at(differ, n), "node", -1) == node)
                return true;
    }
    return false;
}

/*
 * Return whether the process waits for something that is neither a message nor one of the listed
 * collectives.
 */
static bool waits_elsewhere(const struct printing *to, struct json_object *process, int64_t node)
{
    return emu_json_true(process, "waits") && !json_object_object_get(process, "send") &&
           !json_object_object_get(process, "receive") && !is_in_collective(to, node);
}

static void add_doing(struct line *line, const struct printing *to, int64_t node)
{
    struct json_object *process = process_at(to, node);
    struct line absence = {.used = 0};

    if (add_absence(&absence, process))
        add(line, "; it%s", absence.text);
    else if (emu_json_true(process, "finalizes"))
        return; /* print_finalizing() lists it */
    else if (!emu_json_true(process, "waits"))
        add(line, "; it computes, or waits for something outside the fabric");
    else if (waits_elsewhere(to, process, node))
        add(line, "; it waits in a call that sends and receives nothing, such as MPI_Win_wait");
}

static void print_missing(const struct printing *to, struct json_object *one)
{
    struct line line = {.used = 0};
    int64_t node = emu_json_number(one, "node", -1);
    char shown[TOPO_SHOWN_BYTES];

    add(&line, "  ");
    add_process_fully(&line, to, node);
    add(&line, emu_json_true(one, "entered")
                   ? " has entered it, but its contribution has not arrived"
                   : " has not entered it");
    if (json_object_object_get(one, "switch"))
        add(&line, ": %s waits for it at port %lld", json_show_switch(one, shown),
            (long long)emu_json_number(one, "port", 0));
    else if (json_object_object_get(one, "adapter"))
        add(&line, ": its adapter waits for it");
    add_doing(&line, to, node);
    to->print(line.text);
}

static void print_differing(const struct printing *to, struct json_object *one)
{
    struct line line = {.used = 0};

    add(&line, "  ");
    add_process_fully(&line, to, emu_json_number(one, "node", -1));
    add(&line, " called ");
    add_what(&line, to, one, true);
    add(&line, " instead: the members do not agree");
    to->print(line.text);
}

static void print_mismatch(const struct printing *to, struct json_object *mismatch)
{
    struct line line = {.used = 0};

    add(&line, "  the members do not agree:");
    for (size_t i = 0; i < emu_json_count(mismatch); i++) {
        struct json_object *side = emu_json_at(mismatch, i);
        int64_t node = emu_json_number(side, "node", -1);

        add(&line, i ? ", and " : " ");
        if (node < 0)
            add(&line, "several");
        else
            add_process_fully(&line, to, node);
        add(&line, " called ");
        add_what(&line, to, side, true);
    }
    to->print(line.text);
}

static void print_gap(const struct printing *to, struct json_object *gap)
{
    struct line line = {.used = 0};
    char shown[TOPO_SHOWN_BYTES];

    add(&line, "  the contribution of switch %lld", (long long)emu_json_number(gap, "from", -1));
    if (json_object_object_get(gap, "from_host"))
        add(&line, " on host %s", emu_json_text(gap, "from_host", ""));
    add(&line, " has not arrived at %s, port %lld", json_show_switch(gap, shown),
        (long long)emu_json_number(gap, "port", -1));
    if (json_object_object_get(gap, "host"))
        add(&line, ", on host %s", emu_json_text(gap, "host", ""));
    to->print(line.text);
}

static void print_collective(const struct printing *to, struct json_object *one)
{
    struct json_object *arrived = json_object_object_get(one, "arrived");
    struct json_object *missing = json_object_object_get(one, "missing");
    struct json_object *differ = json_object_object_get(one, "differ");
    struct json_object *gaps = json_object_object_get(one, "gaps");
    struct line line = {.used = 0};

    add_what(&line, to, one, false);
    add(&line, ", number %lld of ", (long long)emu_json_number(one, "number", 0));
    add_group(&line, one);
    add_for(&line, one);
    add(&line, ": %zu of %lld have arrived", emu_json_count(arrived),
        (long long)emu_json_number(one, "members", 0));
    if (emu_json_count(arrived)) {
        add(&line, ", ");
        add_list(&line, to, arrived);
    }
    to->print(line.text);
    for (size_t i = 0; i < emu_json_count(missing) && i < RANGES; i++)
        print_missing(to, emu_json_at(missing, i));
    if (emu_json_count(missing) > RANGES) {
        line.used = 0;
        add(&line, "  and %zu more have not", emu_json_count(missing) - RANGES);
        to->print(line.text);
    }
    for (size_t i = 0; i < emu_json_count(differ) && i < RANGES; i++)
        print_differing(to, emu_json_at(differ, i));
    for (size_t i = 0; i < emu_json_count(gaps); i++)
        print_gap(to, emu_json_at(gaps, i));
    if (!emu_json_count(differ) && json_object_object_get(one, "mismatch"))
        print_mismatch(to, json_object_object_get(one, "mismatch"));
}

/* --- operations with one peer ------------------------------------------------------- */

/*
 * Over libfabric, Open MPI puts the MPI tag into the lower 32 bits of a tag, two bits for
 * synchronous sends above it, and the communicator's number above these (mtl_ofi_types.h of Open
 * MPI). Messages of Open MPI's collectives have negative MPI tags.
 */
#define MPI_COMMUNICATOR(tag) ((unsigned)((tag) >> 34))

static const char *mpi_collective(int32_t tag)
{
    static const char *const names[] = {
        [10] = "MPI_Allgather",      [11] = "MPI_Allgatherv", [12] = "MPI_Allreduce",
        [13] = "MPI_Alltoall",       [14] = "MPI_Alltoallv",  [15] = "MPI_Alltoallw",
        [16] = "MPI_Barrier",        [17] = "MPI_Bcast",      [18] = "MPI_Exscan",
        [19] = "MPI_Gather",         [20] = "MPI_Gatherv",    [21] = "MPI_Reduce",
        [22] = "MPI_Reduce_scatter", [23] = "MPI_Scan",       [24] = "MPI_Scatter",
        [25] = "MPI_Scatterv",
    };

    return tag <= -10 && tag >= -25 ? names[-tag] : "a collective";
}

/*
 * Append the tag of a message or, if an MPI collective uses this tag, its name. @mpi: the process
 * is an MPI rank.
 */
static void add_tag(struct line *line, struct json_object *op, bool mpi)
{
    uint64_t tag = json_object_get_uint64(json_object_object_get(op, "tag"));
    uint64_t ignore = json_object_get_uint64(json_object_object_get(op, "ignore"));

    if (ignore & 1)
        add(line, ", any tag");
    else if (mpi && (int32_t)tag < 0)
        add(line, ", in %s", mpi_collective((int32_t)tag));
    else
        add(line, ", tag %llu", (unsigned long long)(mpi ? tag & UINT32_MAX : tag));
    if (mpi && MPI_COMMUNICATOR(tag))
        add(line, " of communicator %u", MPI_COMMUNICATOR(tag));
}

static const char *op_why(struct json_object *op)
{
    const char *state = emu_json_text(op, "state", "");
    const char *kind = emu_json_text(op, "kind", "");
    bool receives = strcmp(kind, "receive") == 0 || strcmp(kind, "probe") == 0;

    if (strcmp(state, "unsent") == 0)
        return "it is not sent: the peer accepts no more, or has never answered";
    if (strcmp(state, "moving") == 0)
        return receives ? "it has matched, and its data is being sent" : "it is being sent";
    return receives ? "no matching message has arrived" : "no matching receive is posted";
}

/* Return the operation in this field of @process, or NULL if it is younger than OLD_NS. */
static struct json_object *old_op(struct json_object *process, const char *field)
{
    struct json_object *op = json_object_object_get(process, field);

    return op && emu_json_number(op, "for_ns", 0) >= OLD_NS ? op : NULL;
}

static void add_bytes(struct line *line, struct json_object *op)
{
    uint64_t bytes = (uint64_t)emu_json_number(op, "bytes", 0);

    if (json_object_object_get(op, "bytes"))
        add(line, ", %llu byte%s", (unsigned long long)bytes, plural_s(bytes));
}

/*
 * Append a note about unmatched messages, because the program may have meant the waiting receive
 * for one of them.
 */
static void add_unexpected(struct line *line, const struct printing *to,
                           struct json_object *process, bool mpi)
{
    struct json_object *first = json_object_object_get(process, "first_unexpected");
    int64_t count = emu_json_number(process, "unexpected", 0);

    if (!first)
        return;
    add(line, "; %lld message%s arrived that match%s no receive, the first from ", (long long)count,
        count == 1 ? " has" : "s have", count == 1 ? "es" : "");
    add_process(line, to, emu_json_number(first, "node", -1));
    add_tag(line, first, mpi);
    add_bytes(line, first);
}

/* Return the text before the names of the processes that must act; NULL: @kind is no action. */
static const char *action_text(const char *kind)
{
    static const struct {
        const char *kind, *text;
    } actions[] = {{"unlock", " for "},
                   {"post", " in MPI_Win_start for MPI_Win_post of "},
                   {"complete", " in MPI_Win_wait for MPI_Win_complete of "},
                   {"free", " in MPI_Win_free for MPI_Win_free of "}};

    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(kind, actions[i].kind) == 0)
            return actions[i].text;
    return NULL;
}

/* Append that a process waits for an action of another member of an MPI window. */
static void add_action(struct line *line, const struct printing *to, struct json_object *op,
                       const char *text)
{
    int64_t node = emu_json_number(op, "node", -1), target = emu_json_number(op, "target", -1);

    add(line, "%s", text);
    if (node < 0)
        add(line, "other ranks");
    else
        add_process(line, to, node);
    if (target < 0)
        return;
    add(line, " to release the lock of ");
    add_process(line, to, target);
    add(line, " in an MPI window");
}

/*
 * Append that @process waits in @op. If the process has been silent, add that this comes from its
 * last report.
 */
static void add_op(struct line *line, const struct printing *to, struct json_object *process,
                   struct json_object *op)
{
    int64_t silent_ns = emu_json_number(process, "silent_ns", 0);
    const char *kind = emu_json_text(op, "kind", ""), *action = action_text(kind);
    int64_t node = emu_json_number(op, "node", -1);
    bool probes = strcmp(kind, "probe") == 0, gets = strcmp(kind, "get") == 0;
    bool receives = strcmp(kind, "receive") == 0 || probes, sends = strcmp(kind, "send") == 0;
    bool mpi = json_object_object_get(process, "rank");
    uint64_t tag = json_object_get_uint64(json_object_object_get(op, "tag"));

    if (silent_ns)
        add(line, " waited %s ago, in its last report,", duration_of_ns((double)silent_ns).text);
    else
        add(line, " waits");
    if (action) {
        add_action(line, to, op, action);
        add_for(line, op);
        return;
    }
    if (mpi && sends && tag & EMU_PENDING_SYNC)
        add(line, " in a synchronous send (MPI_Ssend or MPI_Issend)");
    else if (probes)
        add(line, " in a probe for a message");
    else
        add(line, " in %s %s", article_of(kind), kind);
    add(line, receives || gets ? " from " : " to ");
    if (node < 0)
        add(line, "anyone");
    else
        add_process(line, to, node);
    if (receives || sends)
        add_tag(line, op, mpi);
    add_bytes(line, op);
    if (receives && !probes)
        add(line, " at most");
    if (silent_ns)
        return;
    add_for(line, op);
    add(line, ": %s", op_why(op));
    if (receives)
        add_unexpected(line, to, process, mpi);
}

static void print_op(const struct printing *to, struct json_object *process, const char *field)
{
    struct json_object *op = old_op(process, field);
    struct line line = {.used = 0};

    if (!op)
        return;
    add_process_fully(&line, to, emu_json_number(process, "node", -1));
    add_op(&line, to, process, op);
    to->print(line.text);
}

/* Print stopped and silent processes in a standstill. At other times a short silence is normal. */
static void print_absent(const struct printing *to)
{
    for (size_t i = 0, printed = 0; i < emu_json_count(to->attached) && printed < RANGES; i++) {
        struct json_object *process = emu_json_at(to->attached, i);
        struct line line = {.used = 0};

        add_process_fully(&line, to, emu_json_number(process, "node", -1));
        if (!add_absence(&line, process))
            continue;
        to->print(line.text);
        printed++;
    }
}

/* Print the processes in MPI_Finalize: others may wait for messages that these do not send. */
static void print_finalizing(const struct printing *to)
{
    struct json_object *nodes = json_object_new_array();
    struct line line = {.used = 0};

    for (size_t i = 0; i < emu_json_count(to->attached); i++) {
        struct json_object *process = emu_json_at(to->attached, i);

        if (emu_json_true(process, "finalizes"))
            json_object_array_add(nodes,
                                  json_object_new_int64(emu_json_number(process, "node", -1)));
    }
    if (emu_json_count(nodes)) {
        add_list(&line, to, nodes);
        add(&line, emu_json_count(nodes) == 1 ? " is in MPI_Finalize" : " are in MPI_Finalize");
        to->print(line.text);
    }
    json_object_put(nodes);
}

static void print_processes(const struct printing *to)
{
    size_t left = 0;

    for (size_t i = 0, printed = 0; i < emu_json_count(to->attached); i++) {
        struct json_object *process = emu_json_at(to->attached, i);

        if (!old_op(process, "send") && !old_op(process, "receive"))
            continue;
        left += ++printed > LINES_MAX;
        if (printed > LINES_MAX)
            continue;
        print_op(to, process, "send");
        print_op(to, process, "receive");
    }
    if (left) {
        struct line line = {.used = 0};

        add(&line, "and %zu more process%s", left,
            left == 1 ? " waits for a peer" : "es wait for one peer each");
        to->print(line.text);
    }
}

/* --- links, disagreements ----------------------------------------------------------- */

static void add_lacks(struct line *line, const char *what)
{
    if (strcmp(what, "port") == 0)
        add(line, " has a segment and a credit, and sends nothing");
    else
        add(line, " waits for a %s", what);
}

static void print_link(const struct printing *to, struct json_object *one)
{
    const char *what = emu_json_text(one, "waits_for", "");
    int64_t node = emu_json_number(one, "node", -1), sw = emu_json_number(one, "switch", -1);
    long long port = (long long)emu_json_number(one, "port", 0);
    struct line line = {.used = 0};
    char shown[TOPO_SHOWN_BYTES];

    if (strcmp(what, "process") == 0) {
        add(&line, "the link to ");
        add_process_fully(&line, to, node);
        add(&line, " waits for space: its process does not receive its segments");
    } else if (node >= 0) {
        /* with a switch, `port` is the switch's; the node has one link, which needs no number */
        if (sw >= 0)
            add(&line, "the link of ");
        else
            add(&line, "link %lld of ", port);
        add_process_fully(&line, to, node);
        add_lacks(&line, what);
    } else {
        add(&line, "the link from %s, port %lld", json_show_switch(one, shown), port);
        if (json_object_object_get(one, "to_switch"))
            add(&line, ", to switch %lld", (long long)emu_json_number(one, "to_switch", 0));
        add_lacks(&line, what);
    }
    add_for(&line, one);
    to->print(line.text);
}

static void print_disagreement(const struct printing *to, struct json_object *one)
{
    struct json_object *mine = json_object_object_get(one, "mine");
    struct json_object *other = json_object_object_get(one, "other");
    struct line line = {.used = 0};

    add_process_fully(&line, to, emu_json_number(mine, "node", -1));
    add(&line, " and ");
    add_process_fully(&line, to, emu_json_number(other, "node", -1));
    add(&line, " do not agree on collective %lld of ",
        (long long)emu_json_number(one, "number", 0));
    add_group(&line, one);
    add(&line, ": ");
    add_process(&line, to, emu_json_number(mine, "node", -1));
    add(&line, " called ");
    add_what(&line, to, mine, true);
    add(&line, ", and ");
    add_process(&line, to, emu_json_number(other, "node", -1));
    add(&line, " called ");
    add_what(&line, to, other, true);
    to->print(line.text);
}

/* --- a cycle of processes ----------------------------------------------------------- */

#define VERTEX_MOST 0x7fffffff

/*
 * Add an edge. The first vertices of the graph are the collectives. The nodes follow, because there
 * is no limit for their numbers: an operation may name a node that is not attached.
 */
static void add_edge(struct cycle_graph *graph, int64_t from, int64_t to)
{
    if (from >= 0 && to >= 0 && from < VERTEX_MOST && to < VERTEX_MOST)
        cycle_add(graph, (uint32_t)from, (uint32_t)to);
}

/* Return the vertex of @node; -1: no node. */
static int64_t vertex_of(const struct printing *to, int64_t node)
{
    return node < 0 || node >= VERTEX_MOST ? -1 : node + (int64_t)emu_json_count(to->collectives);
}

/* Add edges from the nodes in @arrived to @vertex, and from @vertex to the nodes in @missing. */
static void add_waits(struct cycle_graph *graph, const struct printing *to, int64_t vertex,
                      struct json_object *arrived, struct json_object *missing)
{
    for (size_t i = 0; i < emu_json_count(arrived); i++)
        add_edge(graph, vertex_of(to, json_object_get_int64(emu_json_at(arrived, i))), vertex);
    for (size_t i = 0; i < emu_json_count(missing); i++)
        add_edge(graph, vertex,
                 vertex_of(to, emu_json_number(emu_json_at(missing, i), "node", -1)));
}

static void build_graph(struct cycle_graph *graph, const struct printing *to)
{
    static const char *const fields[] = {"send", "receive"};

    for (size_t i = 0; i < emu_json_count(to->attached); i++) {
        struct json_object *process = emu_json_at(to->attached, i);
        int64_t vertex = vertex_of(to, emu_json_number(process, "node", -1));

        /* skip a stopped process, because its last report is outdated */
        for (size_t f = 0; f < 2 && !emu_json_true(process, "stopped"); f++)
            add_edge(graph, vertex,
                     vertex_of(to, emu_json_number(old_op(process, fields[f]), "node", -1)));
    }
    for (size_t i = 0; i < emu_json_count(to->collectives); i++) {
        struct json_object *one = emu_json_at(to->collectives, i);

        add_waits(graph, to, (int64_t)i, json_object_object_get(one, "arrived"),
                  json_object_object_get(one, "missing"));
    }
}

/* Print a cycle of waiting processes. The web page shows the same cycle (page/standstill.js). */
static void print_cycle(const struct printing *to)
{
    size_t collectives = emu_json_count(to->collectives);
    struct json_object *nodes = json_object_new_array();
    struct cycle_graph graph = {0};
    struct line line = {.used = 0};
    uint32_t *cycle, count, first = 0;

    build_graph(&graph, to);
    count = cycle_find(&graph, &cycle);
    for (uint32_t i = 0; i < count; i++) /* begin with the first node */
        if (cycle[i] >= collectives && (cycle[first] < collectives || cycle[i] < cycle[first]))
            first = i;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t vertex = cycle[(first + i) % count];

        if (vertex >= collectives)
            json_object_array_add(nodes, json_object_new_int64(vertex - (int64_t)collectives));
    }
    if (emu_json_count(nodes) == 1) {
        add_list(&line, to, nodes);
        add(&line, " waits for itself");
    } else if (count) {
        add_list(&line, to, nodes);
        add(&line, " wait for each other in a cycle");
    }
    if (count)
        to->print(line.text);
    free(cycle);
    cycle_release(&graph);
    json_object_put(nodes);
}

/* --- all lines ---------------------------------------------------------------------- */

static void print_each(const struct printing *to, struct json_object *list,
                       void (*one)(const struct printing *, struct json_object *))
{
    for (size_t i = 0; i < emu_json_count(list); i++)
        one(to, emu_json_at(list, i));
}

void standstill_print(struct json_object *message, void (*print)(const char *line))
{
    struct json_object *standstill = json_object_object_get(message, "standstill");
    struct printing to = {.attached = json_object_object_get(message, "attached"),
                          .collectives = json_object_object_get(standstill, "collectives"),
                          .print = print};

    if (standstill_for_ns(message))
        print_cycle(&to);
    print_each(&to, json_object_object_get(standstill, "disagreements"), print_disagreement);
    print_each(&to, to.collectives, print_collective);
    print_processes(&to);
    if (standstill_for_ns(message)) {
        print_finalizing(&to);
        print_absent(&to);
    }
    print_each(&to, json_object_object_get(standstill, "links"), print_link);
}

int64_t standstill_for_ns(struct json_object *message)
{
    return emu_json_number(json_object_object_get(message, "standstill"), "for_ns", 0);
}

int64_t standstill_starved_ns(struct json_object *message)
{
    return emu_json_number(json_object_object_get(message, "standstill"), "starved_ns", 0);
}

void standstill_print_time(struct json_object *message, void (*print)(const char *line))
{
    struct line line = {.used = 0};

    add(&line, "nothing has moved for %s", duration_of_ns((double)standstill_for_ns(message)).text);
    if (emu_json_true(json_object_object_get(message, "standstill"), "simulated"))
        add(&line, " (all times here are simulated)");
    if (standstill_starved_ns(message) >= STARVED_NS)
        add(&line, ", %s of it without a core: a host had too many threads to run",
            duration_of_ns((double)standstill_starved_ns(message)).text);
    add(&line, ":");
    print(line.text);
}

void standstill_print_disagreement(struct json_object *event, void (*print)(const char *line))
{
    struct printing to = {.attached = json_object_object_get(event, "attached"), .print = print};

    print_disagreement(&to, json_object_object_get(event, "disagreement"));
}
