#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bounds_test.py - bounds on waiting: with a short value each bound ends the wait, with "off" it
does not. Also runs with --keep-going, and the errors of libfabric and MPI for a dead peer.

   tests/cli/bounds_test.py --fabemu build/fabemu [unittest options]
"""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from cli_helpers import FabemuCase, alive, main, stat_of, until

STILL_S = 1.5  # a wait that still lasts after this time has no limit
PROGRAM = r'''
#include <fabemu.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct fabemu_dest dest = {.node = 1, .queue = 1};
    struct fabemu_iov iov = {.base = "word", .bytes = 4};
    struct fabemu_req req = {0};
    struct fabemu_queue *queue;
    struct fabemu *fab;
    char why[96];
    if (fabemu_attach(&fab, NULL) || fabemu_queue_open(fab, 1, &queue))
        return 1;
    if (argc > 1)
        raise(SIGSTOP);
    while (argc > 2)
        pause();
    if (!fabemu_send(queue, &dest, &iov, 1, &req))
        fabemu_wait(fab, &req);
    fabemu_req_why(fab, &req, why, sizeof why);
    printf("%s: %s\n", strerror(-req.status), why);
    fabemu_queue_close(queue);
    fabemu_detach(fab);
    return 0;
}
'''


class BoundsTest(FabemuCase):
    def of_the_build(self, name):
        path = os.path.join(os.path.dirname(self.command), "tests", name)
        if not os.path.exists(path):
            self.skipTest(f"{name} is not built")
        return path

    def program(self, *args, node):
        """Start a process on the fabric u."""
        env = {**self.env, "FABEMU_SOCKET": self.socket_path("u"), "FABEMU_NODE": str(node)}
        process = subprocess.Popen(args, env=env, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def check_running(self, process):
        """Check that the process does not exit by itself."""
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=STILL_S)

    # --- as options -----------------------------------------------------------------------

    def test_wrong_bounds__are_one_line(self):
        for text, words in (("silence", "NAME=TIME"), ("", "NAME=TIME"), ("silence=", "500ms"),
                            ("silence=5", "1.5s"), ("silence=0s", "1ms"), ("silence=25h", "24h"),
                            ("silence=-1s", "1ms"), ("silence=never", "off"),
                            ("silence=0x5s", "off"), ("silence=1s,", "NAME=TIME"),
                            ("quiet=5s", "cut-off"), ("retries=0", "1 to 1000"),
                            ("retries=2s", "1 to 1000"), ("silence=1s,end=x", "24h"),
                            ("silence=" + "1" * 300, "NAME=TIME")):
            for command in (("run", "--", "true"), ("up",)):
                with self.subTest(text=text, command=command):
                    self.one_line(self.fabemu(command[0], "--bound", text, *command[1:]), 2,
                                  "--bound", words)

    def test_bounds__are_shown_by_status(self):
        self.up("u", "--profile", "qsnet3", "--bound", "silence=1.5s,cut-off=off", "--bound",
                "stopped=2min,retries=off,reply=off")
        bounds = self.status("u")["bounds"]
        self.assertEqual({bounds[name] for name in ("cut_off_ms", "retries", "reply_ms")}, {None})
        self.assertEqual((bounds["silence_ms"], bounds["stopped_ms"], bounds["leave_ms"]),
                         (1500, 120000, 10000))
        printed = self.client(self.socket_path("u")).attach()["bounds"]
        self.assertEqual({name: bounds[name] for name in printed}, printed)
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        self.up("v", "--profile", "qsnet3", "--bound", "reply=1ms,retries=7")
        bounds = self.status("v")["bounds"]
        self.assertEqual((bounds["reply_ms"], bounds["retries"]), (100, 7))  # for a shared host

    # --- each of them ----------------------------------------------------------------------

    def test_start__is_reported_when_it_expires(self):
        self.one_line(self.fabemu("run", "--bound", "start=1ms", "--topo", "kary:16,3", "--",
                                  "true"), 1, "did not start in time", "--bound start=")

    def silence(self, *options):
        program = self.against_library(PROGRAM)
        self.up("u", *options)
        stopped = self.program(program, "stop", node=1)
        self.assertTrue(until(lambda: stat_of(stopped.pid)[0] == "T"))
        return self.program(program, node=0)

    def test_silence__ends_operations_with_a_stopped_process(self):
        out, err = self.silence("--bound", "silence=200ms").communicate(timeout=30)
        self.assertRegex(out, r"^No route to host: node 1 has been silent for 200 ms \(is its "
                              r"process stopped\?\)(, and \d+ ms without a core)?\n$")
        self.assertIn("node 1 has been silent for 200 ms", err)

    def test_silence__may_be_off(self):
        self.check_running(self.silence("--bound", "silence=off"))

    def test_stopped__detaches_a_process(self):
        out, _ = self.silence("--bound", "silence=off,stopped=100ms").communicate(timeout=30)
        self.assertEqual(out, "No route to host: nobody is attached to node 1 (any more)\n")
        died = self.status("u")["report"]["died"]
        self.assertEqual([(one["node"], one["how"]) for one in died],
                         [(1, "was stopped for too long (--bound stopped)")])
        self.started[0].send_signal(signal.SIGCONT)
        _, err = self.started[0].communicate(timeout=30)
        self.assertIn("which was stopped for too long", err)

    def test_stopped__spares_a_process_that_runs_in_between(self):
        """At each check of the fabric the process is stopped, but it ran between two checks. The
        bound exceeds the time that this test may be without a core, during which the process
        stays stopped."""
        self.up("u", "--bound", "stopped=1500ms")
        slow = self.program(self.against_library(PROGRAM), "stop", "stay", node=1)
        self.assertTrue(until(lambda: stat_of(slow.pid)[0] == "T"))
        for _ in range(60):  # the fabric checks five times meanwhile: for longer than the bound
            slow.send_signal(signal.SIGCONT)
            time.sleep(0.001)
            slow.send_signal(signal.SIGSTOP)
            time.sleep(0.09)
        self.assertEqual(self.status("u")["report"]["died"], [])
        self.assertEqual([one["pid"] for one in self.status("u")["attached"]], [slow.pid])

    def killed(self, bound, mode="deaf"):
        """A run in which a rank is killed."""
        run, ranks = self.start_ranks(2, "--bound", bound, mode=mode)
        os.kill(ranks[0], signal.SIGKILL)
        return run, ranks

    def test_end__bounds_the_end_of_a_run(self):
        run, _ = self.killed("end=1ms,term=1ms,last=1ms")
        _, err = run.communicate(timeout=30)
        self.assertIn("; ending the run", err)

    def test_end__may_be_off(self):
        run, ranks = self.killed("end=off")
        self.check_running(run)
        run.send_signal(signal.SIGTERM)
        self.check_running(run)  # but not after a second request
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=30)
        self.assertFalse(alive(ranks[1]))

    def test_term__may_be_off(self):
        run, ranks = self.killed("end=1ms,term=off")
        self.check_running(run)
        self.assertTrue(alive(ranks[1]))
        os.kill(ranks[1], signal.SIGKILL)
        run.communicate(timeout=30)

    def test_leftover__processes_get_their_time(self):
        pid_file = os.path.join(self.dir, "left")
        line = (f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 1000' & "
                f"until [ -s {pid_file} ]; do sleep 0.05; done")
        done = self.fabemu("run", "--bound", "leftover=1ms", "--", "sh", "-c", line)
        self.assertIn("left 1 process behind; ending it", done.stderr)
        run = self.start("run", "--bound", "leftover=off", "--", "sh", "-c", line)
        self.check_running(run)
        with open(pid_file) as f:
            os.kill(int(f.read()), signal.SIGTERM)
        self.assertEqual(run.wait(timeout=30), 0)

    # --- a run that keeps going ------------------------------------------------------------

    def test_keep_going__keeps_the_survivors(self):
        run, ranks = self.start_ranks(3, "--keep-going", wait="wait; echo done")
        os.kill(ranks[1], signal.SIGKILL)
        self.assertTrue(until(lambda: self.status("r")["report"]["died"]))
        self.check_running(run)
        self.assertTrue(alive(ranks[0]) and alive(ranks[2]))
        for node in (0, 2):
            os.kill(ranks[node], signal.SIGKILL)
        out, err = run.communicate(timeout=30)
        self.assertEqual(out, "done\n")  # the command ended by itself, with status 0
        self.assertIn("; the others go on", err)
        self.assertEqual(len(re.findall(r"^fabemu: node \d .* died", err, re.M)), 3, err)
        self.assertEqual(run.returncode, 1)

    def test_keep_going__returns_the_status_of_a_failed_command(self):
        run, ranks = self.start_ranks(1, "--keep-going", wait="wait; exit 7")
        os.kill(ranks[0], signal.SIGKILL)
        run.communicate(timeout=30)
        self.assertEqual(run.returncode, 7)
        self.assertEqual(self.fabemu("run", "--keep-going", "--", "true").returncode, 0)

    # --- which error says that a peer is dead ----------------------------------------------

    def death(self, what, how, *options):
        program = self.of_the_build("ofi_death")
        return self.start("run", "--topo", "kary:2,2", "--keep-going", *options, "--", program,
                          what, how)

    def test_libfabric__reports_a_dead_peer(self):
        for profile in ("oq2004", "qsnet3"):
            for what in ("recv", "send", "read", "write", "writedata"):
                with self.subTest(profile=profile, what=what):
                    out, err = self.death(what, "kill", "--profile",
                                          profile).communicate(timeout=60)
                    self.assertRegex(out, "^No route to host: .*node 1", err)

    def test_libfabric__reports_a_dead_member_of_a_group(self):
        program = self.of_the_build("ofi_coll_test")
        for profile in ("oq2004", "qsnet3"):
            with self.subTest(profile=profile):
                run = self.start("run", "--topo", "kary:2,2", "--keep-going", "--profile", profile,
                                 "--", program, "death")
                out, err = run.communicate(timeout=120)
                self.assertIn("all deaths were reported", out, err)

    def test_libfabric__reports_a_silent_or_detached_peer(self):
        for what, bound in (("send", "silence=200ms"), ("read", "silence=200ms"),
                            ("recv", "stopped=1500ms")):
            with self.subTest(what=what):
                out, err = self.death(what, "stop", "--bound", bound).communicate(timeout=60)
                self.assertRegex(out, "^No route to host: .*node 1", err)

    def test_libfabric__reports_a_lost_injected_message(self):
        out, err = self.death("inject", f"{self.command} fault i 'partition nodes=1' >&2", "--name",
                              "i", "--profile", "qsnet3", "--bound",
                              "no-link=300ms").communicate(timeout=60)
        self.assertRegex(out, "^No route to host: .*node 1", err)

    def test_libfabric__protects_the_successor_of_a_killed_process(self):
        program = self.of_the_build("ofi_random_test")
        for profile in ("oq2004", "qsnet3"):
            for seed in (1, 150, 279):
                with self.subTest(profile=profile, seed=seed):
                    run = self.start("run", "--topo", "kary:2,2", "--profile", profile,
                                     "--keep-going", "--", program, str(seed), "300", "kill")
                    out, err = run.communicate(timeout=100)
                    self.assertIn("ofi_random_test: passed\n", out, err)
                    self.assertEqual(run.returncode, 1)  # because a process died
                    self.assertIn("died: killed by signal 9; the others go on", err)

    @unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
    def test_mpi__returns_an_error_with_MPI_ERRORS_RETURN(self):
        program = self.of_the_build("mpi_death")
        for profile in ("oq2004", "qsnet3"):
            for what in ("recv", "send", "barrier", "allreduce"):
                with self.subTest(profile=profile, what=what):
                    run = self.start("run", "--topo", "kary:2,2", "--profile", profile,
                                     "--keep-going", "--bound", "stopped=1s", "--", "mpirun",
                                     "-np", "3", program, what)
                    out, err = run.communicate(timeout=60)
                    own = "MPI_ERR_INTERN" if what in ("recv", "send") else "MPI_ERR_OTHER"
                    self.assertIn("it ended with " + own, out, err)
                    if own == "MPI_ERR_OTHER" and profile == "oq2004":
                        self.assertIn("rank 1 of the communicator, on node 1, died", err)

    @unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
    def test_mpi__rank_stopped_in_a_put_does_not_affect_others(self):
        program = self.of_the_build("mpi_death")
        for profile in ("oq2004", "qsnet3"):
            with self.subTest(profile=profile):
                run = self.start("run", "--topo", "kary:2,2", "--profile", profile, "--keep-going",
                                 "--bound", "stopped=1s", "--", "mpirun", "-np", "3", program,
                                 "put")
                out, err = run.communicate(timeout=60)
                self.assertIn("it ended with MPI_SUCCESS", out, err)

    @unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
    def test_mpi__windows_report_a_lost_member(self):
        program = self.of_the_build("mpi_death")
        for profile in ("oq2004", "qsnet3"):
            for what, end in (("flush", "MPI_SUCCESS"), ("fence", "MPI_ERR_OTHER"),
                              ("start", "MPI_ERR_OTHER"), ("wait", "MPI_ERR_OTHER"),
                              ("test", "MPI_ERR_OTHER"), ("lock", "MPI_ERR_OTHER")):
                with self.subTest(profile=profile, what=what):
                    run = self.start("run", "--topo", "kary:2,2", "--profile", profile,
                                     "--keep-going", "--bound", "stopped=1s", "--", "mpirun",
                                     "-np", "3", program, what)
                    out, err = run.communicate(timeout=60)
                    self.assertIn("it ended with " + end, out, err)


if __name__ == "__main__":
    main(jobs=4)  # nearly all of them wait
