#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""library_test.py - error messages to programs on libfabemu, libfabric and MPI.

   tests/cli/library_test.py --fabemu build/fabemu [unittest options]
"""
import errno
import json
import os
import shutil
import signal
import subprocess
import unittest

from cli_helpers import FabemuCase, main, stat_of, until

PROGRAM = r'''
#include <errno.h>
#include <fabemu.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Who writes to what it has closed must not write to the fabric. */
static int closed(struct fabemu **fab)
{
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    int err = fabemu_attach(fab, NULL);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 10 + fd;
    return err ? 20 : 0;
}

/* Two messages to node 1, and what becomes of them. */
static void send_twice(struct fabemu *fab)
{
    struct fabemu_dest dest = {.node = 1, .queue = 1};
    struct fabemu_iov iov = {.base = "word", .bytes = 4};
    struct fabemu_queue *queue;

    fabemu_queue_open(fab, 1, &queue);
    for (int i = 0; i < 2; i++) {
        struct fabemu_req req = {0};
        int err = fabemu_send(queue, &dest, &iov, 1, &req);
        printf("%s\n", strerror(-(err ? err : fabemu_wait(fab, &req))));
    }
}

/* Messages that no operation stands for, until one is refused. */
static void inject(struct fabemu *fab)
{
    struct fabemu_dest dest = {.node = 1, .queue = 1};
    struct fabemu_queue *queue;
    int err;

    fabemu_queue_open(fab, 1, &queue);
    while (!(err = fabemu_inject(queue, &dest, "word", 4)) || err == -EAGAIN)
        fabemu_progress(fab);
    printf("%s\n", strerror(-err));
}

/* One message comes, then we stop. */
static void receive_and_stop(struct fabemu *fab)
{
    char word[4];
    struct fabemu_iov iov = {.base = word, .bytes = 4};
    struct fabemu_queue *queue;
    struct fabemu_req req = {0};

    fabemu_queue_open(fab, 1, &queue);
    if (!fabemu_recv(queue, 0, 0, 0, &iov, 1, &req))
        fabemu_wait(fab, &req);
    raise(SIGSTOP);
    fabemu_queue_close(queue);
}

int main(int argc, char **argv)
{
    struct fabemu *fab;

    if (argc > 1 && strcmp(argv[1], "closed") == 0) {
        int status = closed(&fab);
        if (!status)
            fabemu_detach(fab);
        return status;
    }
    if (fabemu_attach(&fab, NULL))
        return puts(fabemu_error()), 1;
    if (argc > 1 && strcmp(argv[1], "stop") == 0)
        raise(SIGSTOP);
    else if (argc > 1 && strcmp(argv[1], "receive") == 0)
        receive_and_stop(fab);
    else if (argc > 1 && strcmp(argv[1], "inject") == 0)
        inject(fab);
    else if (argc > 1 && strcmp(argv[1], "node") == 0)
        printf("%u\n", fabemu_info(fab)->node);
    else
        send_twice(fab);
    fabemu_detach(fab);
    return 0;
}
'''

HELLO = r'''
#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    return MPI_Finalize();
}
'''


TRAP = r'''
#include <fabemu.h>
#include <stdio.h>
#include <sys/mman.h>
int main(void)
{
    struct fabemu_req req = {0};
    struct fabemu *fab;
    uint64_t key;
    char buf[64] = {0}, *at = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(at + 4096, 4096);
    if (fabemu_attach(&fab, NULL) ||
        fabemu_register(fab, NULL, SIZE_MAX, FABEMU_REMOTE_WRITE | FABEMU_TRAPS, &key))
        return 1;
    fabemu_put(fab, 0, key, (uintptr_t)buf, buf, 64, &req);
    if (fabemu_wait(fab, &req))
        return 2;
    fabemu_put(fab, 0, key, (uintptr_t)at + 4090, buf, 64, &req);
    printf("%p %d\n", at + 4090, fabemu_wait(fab, &req));
    fabemu_detach(fab);
    return 0;
}
'''

class LibraryTest(FabemuCase):
    def build(self, text, *compiler):
        source, program = (os.path.join(self.dir, name) for name in ("p.c", "p"))
        with open(source, "w") as f:
            f.write(text)
        subprocess.run([*compiler[:1], source, "-o", program, *compiler[1:]], check=True,
                       timeout=60)
        return program

    def program(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        library = os.path.join(os.path.dirname(self.command), "nic")
        return self.build(PROGRAM, "cc", "-I" + os.path.join(source, "nic"), "-L" + library,
                          "-lfabemu",
                          "-Wl,-rpath," + library)

    def in_shell(self, line, **env):
        return subprocess.run(["sh", "-c", line], env={**self.env, **env}, text=True, cwd=self.dir,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    def test_attach__leaves_closed_standard_descriptors_alone(self):
        done = self.fabemu("run", "--topo", "kary:2,2", "--", self.program(), "closed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 attached", done.stderr)

    def test_attach__requests_the_node_of_the_rank(self):
        program = self.program()
        for env in ({"PMIX_RANK": "2"}, {"OMPI_COMM_WORLD_RANK": "2"}, {"PMI_RANK": "2"},
                    {"PMI_RANK": "1", "FABEMU_NODE": "2"}):
            with self.subTest(env=env):
                done = self.fabemu("run", "--topo", "kary:2,2", "--", program, "node",
                                   env={**self.env, **env})
                self.assertEqual(done.stdout, "2\n", done.stderr)

    def test_traps__are_in_the_report(self):
        path = self.against_library(TRAP)
        report = os.path.join(self.dir, "report")
        done = self.fabemu("run", "--topo", "kary:2,2", "--report", report, "--", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        address, status = done.stdout.split()
        self.assertEqual(int(status), -errno.EFAULT)
        self.assertIn(f"traps        1 of 2 accesses to memory of other processes; the last at "
                      f"node 0,\n               by node 0, 64 B at {address}: the page is not "
                      "mapped\n", done.stderr)
        with open(report) as f:
            memory = json.load(f)["communication"]["memory"]
        self.assertEqual(memory, {"translated": 1, "traps": 1, "last_trap": {
            "node": 0, "from": 0, "address": int(address, 16), "bytes": 64, "error": "EFAULT"}})

    def test_peer_that_is_stopped__is_named_once(self):
        env = {"FABEMU_SOCKET": self.up("u")}
        program = self.program()
        stopped = subprocess.Popen([program, "stop"], env={**self.env, **env, "FABEMU_NODE": "1"})
        self.started.append(stopped)
        self.assertTrue(until(lambda: stat_of(stopped.pid)[0] == "T"))
        done = self.in_shell(program, FABEMU_NODE="0", FABEMU_PEER_TIMEOUT_MS="200", **env)
        stopped.send_signal(signal.SIGCONT)
        self.assertEqual(done.stdout, "No route to host\n" * 2)
        self.one_line(done, 0, "node 1 has been silent for 200 ms (is its process stopped?)",
                      "node 0")
        self.assertEqual(stopped.wait(timeout=30), 0)

    def test_peer_that_stops__ends_injected_messages(self):
        env = {"FABEMU_SOCKET": self.up("u")}
        program = self.program()
        stops = subprocess.Popen([program, "receive"], env={**self.env, **env, "FABEMU_NODE": "1"})
        self.started.append(stops)
        self.assertTrue(until(lambda: self.status("u")["attached"]))
        done = self.in_shell("timeout 30 " + program + " inject", FABEMU_NODE="0",
                             FABEMU_PEER_TIMEOUT_MS="1000", **env)
        self.assertEqual(stat_of(stops.pid)[0], "T")
        self.assertEqual(done.stdout, "No route to host\n")
        self.one_line(done, 0, "node 1 has been silent for 1000 ms")

    # --- the fabric is gone --------------------------------------------------------

    def environment_of_a_dead_fabric(self):
        self.up("gone")
        return f'eval "$({self.command} env gone)"; {self.command} down gone; '

    @unittest.skipUnless(shutil.which("fi_info"), "needs fi_info")
    def test_provider__reports_that_no_fabric_listens(self):
        done = self.in_shell(self.environment_of_a_dead_fabric() +
                             "fi_info -p fabemu >fi_info.out 2>&1; grep ^fabemu fi_info.out >&2")
        self.one_line(done, 0, "no fabric listens at FABEMU_SOCKET=" + self.socket_path("gone"),
                      "fabemu status")
        quiet = self.in_shell(self.environment_of_a_dead_fabric() +
                              "unset FABEMU_SOCKET; fi_info -p fabemu")
        self.assertNotIn("fabric", quiet.stderr)

    @unittest.skipUnless(shutil.which("mpicc"), "needs mpicc")
    def test_mpi_program__reports_that_no_fabric_listens(self):
        program = self.build(HELLO, "mpicc")
        done = self.in_shell(self.environment_of_a_dead_fabric() + "mpirun -np 2 " + program)
        self.assertNotEqual(done.returncode, 0)
        lines = [line for line in done.stderr.splitlines()
                 if line.startswith("fabemu: no fabric listens")]
        # mpirun kills the second rank when the first has failed
        self.assertIn(len(lines), (1, 2), done.stderr)


if __name__ == "__main__":
    main()
