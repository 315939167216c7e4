#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""partition_test.py - partitioned networks. With crosspoints and link-level retry, operations that
wait for unreachable nodes end with an error that names a node, and work again when a route is
restored. With acknowledgments, segments to a group are dropped, and their sender leaves.

   tests/cli/partition_test.py --fabemu build/fabemu [unittest options]
"""
import os
import select
import subprocess
import threading

from cli_helpers import PATIENCE_S, FabemuCase, main, until

# Two processes. Each waits in barriers until one fails, then for a message of its peer; then they
# send to each other until a message arrives, and continue until they are asked to end.
PROGRAM = r'''
#include <errno.h>
#include <fabemu.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fabemu *fab;
static struct fabemu_queue *queue;
static struct fabemu_group *group;
static uint32_t me, peer;             /* a pair, and maybe more in their group: */
static uint32_t member[8], members, root; /* all of them, and the lowest */

static int receive(uint64_t tag, void *buf, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};

    memset(req, 0, sizeof *req);
    return fabemu_recv(queue, peer, tag, 0, &iov, 1, req);
}

static int send_word(uint32_t to, uint64_t tag, void *buf, size_t bytes)
{
    struct fabemu_dest dest = {.node = to, .queue = 1, .tag = tag};
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};
    struct fabemu_req req = {0};
    int err = fabemu_send(queue, &dest, &iov, 1, &req);

    return err ? err : fabemu_wait(fab, &req);
}

static void group_has(uint32_t node)
{
    member[members++] = node;
    root = node < root ? node : root;
}

/* All but the root have it for a peer. */
static int join(void)
{
    struct fabemu_req req = {0};
    uint32_t id = 0;
    int err;

    if (me == root) {
        err = fabemu_group_create(fab, member, members, &id);
        for (uint32_t i = 0; !err && i < members; i++)
            err = member[i] == me ? 0 : send_word(member[i], 1, &id, sizeof id);
    } else {
        err = receive(1, &id, sizeof id, &req) || fabemu_wait(fab, &req);
    }
    return err ? err : fabemu_group_join(fab, id, members, &group);
}

static void barriers(void)
{
    char why[96] = "";
    int err;

    do {
        struct fabemu_req req = {0};

        err = fabemu_barrier(group, &req);
        err = err ? err : fabemu_wait(fab, &req);
    } while (!err);
    fabemu_node_why(fab, peer, why, sizeof why);
    printf("barrier: %s: %s\n", strerror(-err), why);
}

/* From the root, until one fails; then the group is left at once. */
static void broadcasts(void)
{
    uint32_t word = 0;
    int err;

    do {
        struct fabemu_req req = {0};

        err = fabemu_broadcast(group, &word, sizeof word, root, &req);
        err = err ? err : fabemu_wait(fab, &req);
    } while (!err);
    fabemu_group_leave(group);
    printf("broadcast: %s\n", strerror(-err));
}

/* To the root. The others have done their part when they have posted it. */
static int reduce(char *why, size_t bytes)
{
    uint32_t word = me, sum;
    struct fabemu_req req = {0};
    int err = fabemu_reduce(group, &word, &sum, 1, FABEMU_SUM, FABEMU_U32, root, &req);

    err = err ? err : fabemu_wait(fab, &req);
    fabemu_req_why(fab, &req, why, bytes);
    return err;
}

/* One; then the group is left at once. */
static void reduces_once(void)
{
    char why[96];
    int err = reduce(why, sizeof why);

    fabemu_group_leave(group);
    printf("reduce: %s: %s\n", strerror(-err), why);
}

/* Until one fails; then the group is left at once. */
static void reduces(void)
{
    char why[96];
    int err;

    do
        err = reduce(why, sizeof why);
    while (!err);
    fabemu_group_leave(group);
    printf("reduce: %s: %s\n", strerror(-err), why);
}

static const struct {
    const char *name;
    void (*does)(void);
} parts[] = {{"broadcasts", broadcasts}, {"reduces", reduces}, {"reduces once", reduces_once}};

/* What the word on the command line says, and no more. */
static int partition(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strcmp(parts[i].name, name)) {
            getchar(); /* it is to begin */
            parts[i].does();
            fabemu_detach(fab);
            return 0;
        }
    return 3;
}

static void waits(void)
{
    struct fabemu_req req;
    char why[96] = "";
    long word;
    int err = receive(2, &word, sizeof word, &req);

    err = err ? err : fabemu_wait(fab, &req);
    fabemu_req_why(fab, &req, why, sizeof why);
    printf("receive: %s: %s\n", strerror(-err), why);
}

/* What is sent before there is a way may be lost; what is sent then comes. */
static void again(void)
{
    struct pollfd end = {.fd = 0, .events = POLLIN};
    struct fabemu_req req;
    bool arrived = false;
    long word = 7;

    receive(3, &word, sizeof word, &req);
    while (!poll(&end, 1, 20)) {
        send_word(peer, 3, &word, sizeof word);
        if (arrived || !fabemu_test(fab, &req))
            continue;
        arrived = !fabemu_req_status(&req);
        if (arrived)
            printf("again\n");
        else
            receive(3, &word, sizeof word, &req);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2 || fabemu_attach(&fab, NULL) || fabemu_queue_open(fab, 1, &queue))
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    me = fabemu_info(fab)->node;
    peer = root = (uint32_t)atoi(argv[1]);
    group_has(me);
    group_has(peer);
    for (int i = 3; i < argc; i++)
        group_has((uint32_t)atoi(argv[i]));
    printf("here\n");
    getchar(); /* both are */
    if (join())
        return 2;
    printf("ready\n");
    if (argc > 2)
        return partition(argv[2]);
    barriers();
    waits();
    again();
    fabemu_group_leave(group);
    fabemu_detach(fab);
    return 0;
}
'''


class PartedTest(FabemuCase):
    def program(self, path, node, peer, *words):
        env = {**self.env, "FABEMU_SOCKET": self.socket_path("u"), "FABEMU_NODE": str(node)}
        process = subprocess.Popen([path, str(peer), *words], env=env, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def line(self, process):
        """Its next line; after a time-out the process is killed, and has no more lines."""
        timer = threading.Timer(PATIENCE_S, process.kill)
        timer.start()
        try:
            return process.stdout.readline()
        finally:
            timer.cancel()

    def pair(self, *options):
        """Two processes on both sides of the future partition, in barriers."""
        return self.pair_that([], "--profile", "oq2004", "--set", "link_retry=go_back_n", *options)

    def pair_that(self, words, *options):
        """Two processes, 0 and 2, that do what the first of @words says; the other words name more
        nodes of their group."""
        path = self.against_library(PROGRAM)
        more = words[1:]
        self.up("u", "--bound", "silence=off", *options)
        both = [self.program(path, 0, 2, *words), self.program(path, 2, 0, *words)]
        both += [self.program(path, node, 0, *words[:1], "2") for node in more]
        self.say(both, "here\n")
        self.goes_on(both)
        self.say(both, "ready\n")
        return both

    def goes_on(self, both):
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()

    def fault(self, number, *words):
        done = self.fabemu("fault", "--name", "u", *words)
        self.assertEqual(done.stdout, f"fault {number}\n", done.stderr)

    def say(self, both, *lines):
        for line in lines:
            self.assertEqual([self.line(process) for process in both], [line] * len(both))

    def partition(self):
        done = self.fabemu("fault", "--name", "u", "partition", "nodes=0-1")
        self.assertEqual(done.stdout, "fault 1\n", done.stderr)

    def test_partition__ends_waiting_operations_and_heals(self):
        both = self.pair("--bound", "no-link=100ms")
        self.partition()
        for name, error in ("barrier", "Broken pipe"), ("receive", "No route to host"):
            expected = [f"{name}: {error}: no route leads to node {peer}\n" for peer in (2, 0)]
            self.assertEqual([self.line(process) for process in both], expected)
        # including state that the barrier left behind
        self.assertTrue(until(lambda: self.status("u")["report"]["links"]["partitioned"]))
        self.assertEqual(self.fabemu("fault", "--name", "u", "--clear", "1").returncode, 0)
        self.say(both, "again\n")
        for process in both:
            _, err = process.communicate("\n", timeout=30)
            self.assertEqual(process.returncode, 0)
            self.assertRegex(err, "no route leads to node [02]: "
                                  "pending operations of node [02] with node [02] fail")

    def test_partition__may_last_with_the_bound_off(self):
        both = self.pair("--bound", "no-link=off")
        self.partition()
        self.assertEqual(select.select([process.stdout for process in both], [], [], 1.5)[0], [])
        self.assertEqual(self.fabemu("fault", "--name", "u", "--clear", "1").returncode, 0)
        self.assertEqual(self.status("u")["report"]["links"]["partitioned"], 0)
        for process in both:
            process.kill()

    def test_group__dropped_ends_for_all_although_its_member_leaves(self):
        both = self.pair_that(["broadcasts"], "--profile", "qsnet3", "--bound", "retries=3")
        self.goes_on(both)
        self.fault(1, "loss", "link=any", "packet=head", "from=0", "kind=multicast", "rate=1")
        self.say(both, "broadcast: Broken pipe\n")
        self.assertEqual([process.wait(PATIENCE_S) for process in both], [0, 0])

    def test_group__dropped_by_a_combine_unit_ends_for_all(self):
        both = self.pair_that([], "--profile", "qsnet3", "--set", "combining=switch", "--bound",
                              "retries=3")
        self.fault(1, "loss", "link=n2:0<", "packet=head", "kind=barrier", "rate=1")
        self.assertEqual([self.line(process)[:20] for process in both],
                         ["barrier: Broken pipe"] * 2)
        for process in both:
            process.kill()

    def test_group__ends_for_all_when_a_cut_off_member_leaves(self):
        """The flapping link causes new tables all the time. These give the group a tree without
        the member, so that the probes of waiting members get through."""
        both = self.pair_that(["reduces", "3"], "--profile", "qsnet3")
        self.goes_on(both)
        self.fault(1, "link-flap", "link=n1", "down=5ms", "up=50ms")
        self.fault(2, "link-down", "link=n2")
        for process in both:
            self.assertRegex(self.line(process), r"^reduce: Broken pipe: .*node \d")
        self.assertEqual([process.wait(PATIENCE_S) for process in both], [0, 0, 0])

    def test_group__ends_for_waiters_when_a_leavers_segment_is_dropped(self):
        both = self.pair_that(["reduces once"], "--profile", "qsnet3", "--bound", "retries=3")
        self.fault(1, "loss", "link=any", "packet=head", "from=2", "kind=reduce", "rate=1")
        self.goes_on(both)
        root, other = [self.line(process) for process in both]
        self.assertRegex(root, r"^reduce: Broken pipe: a packet that (node 2|process 1 of "
                               r"node 2 \(has left\)) sent before it detached was given up\n$")
        self.assertEqual(other, "reduce: Success: Success\n")
        self.assertEqual([process.wait(PATIENCE_S) for process in both], [0, 0])


if __name__ == "__main__":
    main()
