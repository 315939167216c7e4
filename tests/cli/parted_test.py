#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""parted_test.py - nodes that no way joins, over crosspoints with link-level retry: what waits for
the others ends with an error that names a node, and when there is a way again, they go on. Over
acknowledgments: what was sent to a group is given up, and whoever sent it leaves.

    tests/cli/parted_test.py --fabemu build/fabemu [unittest options]
"""
import os
import select
import subprocess
import threading

from cli_kit import PATIENCE_S, FabemuCase, main, until

# Two processes. Each waits in barriers until one fails, then for a message of the other's; then
# they send to each other until something comes, and on until they are told to end.
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
static uint32_t me, peer;

static int receive(uint64_t tag, void *buf, size_t bytes, struct fabemu_req *req)
{
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};

    memset(req, 0, sizeof *req);
    return fabemu_recv(queue, peer, tag, 0, &iov, 1, req);
}

static int send_word(uint64_t tag, void *buf, size_t bytes)
{
    struct fabemu_dest dest = {.node = peer, .queue = 1, .tag = tag};
    struct fabemu_iov iov = {.base = buf, .bytes = bytes};
    struct fabemu_req req = {0};
    int err = fabemu_send(queue, &dest, &iov, 1, &req);

    return err ? err : fabemu_wait(fab, &req);
}

static int join(void)
{
    uint32_t nodes[2] = {me, peer}, id = 0;
    struct fabemu_req req = {0};
    int err;

    if (me < peer)
        err = fabemu_group_create(fab, nodes, 2, &id) || send_word(1, &id, sizeof id);
    else
        err = receive(1, &id, sizeof id, &req) || fabemu_wait(fab, &req);
    return err ? err : fabemu_group_join(fab, id, 2, &group);
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

/* From the lower node, until one fails; then the group is left at once. */
static void broadcasts(void)
{
    uint32_t word = 0;
    int err;

    do {
        struct fabemu_req req = {0};

        err = fabemu_broadcast(group, &word, sizeof word, me < peer ? me : peer, &req);
        err = err ? err : fabemu_wait(fab, &req);
    } while (!err);
    fabemu_group_leave(group);
    printf("broadcast: %s\n", strerror(-err));
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
    bool came = false;
    long word = 7;

    receive(3, &word, sizeof word, &req);
    while (!poll(&end, 1, 20)) {
        send_word(3, &word, sizeof word);
        if (came || !fabemu_test(fab, &req))
            continue;
        came = !fabemu_req_status(&req);
        if (came)
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
    peer = (uint32_t)atoi(argv[1]);
    printf("here\n");
    getchar(); /* both are */
    if (join())
        return 2;
    printf("ready\n");
    if (argc > 2) {
        broadcasts();
        fabemu_detach(fab);
        return 0;
    }
    barriers();
    waits();
    again();
    fabemu_group_leave(group);
    fabemu_detach(fab);
    return 0;
}
'''


class PartedTest(FabemuCase):
    def build(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        library = os.path.join(os.path.dirname(self.command), "nic")
        path = os.path.join(self.dir, "p")
        with open(path + ".c", "w") as f:
            f.write(PROGRAM)
        subprocess.run(["cc", "-D_GNU_SOURCE", path + ".c", "-o", path,
                        "-I" + os.path.join(source, "nic"), "-L" + library, "-lfabemu",
                        "-Wl,-rpath," + library], check=True, timeout=60)
        return path

    def program(self, path, node, peer, *words):
        env = {**self.env, "FABEMU_SOCKET": self.socket_path("u"), "FABEMU_NODE": str(node)}
        process = subprocess.Popen([path, str(peer), *words], env=env, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def line(self, process):
        """What it says next; it is ended, and says no more, if that takes too long."""
        timer = threading.Timer(PATIENCE_S, process.kill)
        timer.start()
        try:
            return process.stdout.readline()
        finally:
            timer.cancel()

    def pair(self, *options):
        """Two processes on either side of where the network will be parted, in barriers."""
        return self.pair_that([], "--profile", "oq2004", "--set", "link_retry=go_back_n", *options)

    def pair_that(self, words, *options):
        path = self.build()
        self.up("u", "--bound", "silence=off", *options)
        both = [self.program(path, 0, 2, *words), self.program(path, 2, 0, *words)]
        self.say(both, "here\n")
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        self.say(both, "ready\n")
        return both

    def say(self, both, *lines):
        for line in lines:
            self.assertEqual([self.line(process) for process in both], [line, line])

    def part(self):
        done = self.fabemu("fault", "--name", "u", "partition", "nodes=0-1")
        self.assertEqual(done.stdout, "fault 1\n", done.stderr)

    def test_partition__ends_what_waits_for_the_others_and_is_forgotten_when_it_is_over(self):
        both = self.pair("--bound", "no-link=100ms")
        self.part()
        for name, error in ("barrier", "Broken pipe"), ("receive", "No route to host"):
            self.assertEqual([self.line(process) for process in both],
                             [f"{name}: {error}: no way leads to node {peer}\n" for peer in (2, 0)])
        # also what the barrier has left behind
        self.assertTrue(until(lambda: self.status("u")["report"]["links"]["parted"]))
        self.assertEqual(self.fabemu("fault", "--name", "u", "--clear", "1").returncode, 0)
        self.say(both, "again\n")
        for process in both:
            _, err = process.communicate("\n", timeout=30)
            self.assertEqual(process.returncode, 0)
            self.assertRegex(err, "no way leads to node [02]: "
                                  "what node [02] had under way with node [02] fails")

    def test_partition__may_last_where_the_bound_is_off(self):
        both = self.pair("--bound", "no-link=off")
        self.part()
        self.assertEqual(select.select([process.stdout for process in both], [], [], 1.5)[0], [])
        self.assertEqual(self.fabemu("fault", "--name", "u", "--clear", "1").returncode, 0)
        self.assertEqual(self.status("u")["report"]["links"]["parted"], 0)
        for process in both:
            process.kill()

    def test_group__that_was_given_up_ends_for_all_though_its_member_leaves_at_once(self):
        both = self.pair_that(["broadcasts"], "--profile", "qsnet3", "--bound", "retries=3")
        done = self.fabemu("fault", "--name", "u", "loss", "link=any", "packet=head", "from=0",
                           "kind=multicast", "rate=1")
        self.assertEqual(done.stdout, "fault 1\n", done.stderr)
        self.say(both, "broadcast: Broken pipe\n")
        self.assertEqual([process.wait(PATIENCE_S) for process in both], [0, 0])

    def test_group__that_a_combine_unit_gave_up_ends_for_all(self):
        both = self.pair_that([], "--profile", "qsnet3", "--set", "combining=switch", "--bound",
                              "retries=3")
        done = self.fabemu("fault", "--name", "u", "loss", "link=n2:0<", "packet=head",
                           "kind=barrier", "rate=1")
        self.assertEqual(done.stdout, "fault 1\n", done.stderr)
        self.assertEqual([self.line(process)[:20] for process in both],
                         ["barrier: Broken pipe"] * 2)
        for process in both:
            process.kill()


if __name__ == "__main__":
    main()
