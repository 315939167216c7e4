#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lifecycle_test.py - how runs and fabrics end, and misbehaving clients of the control socket.
After a rank, the fabric or the supervisor is killed, or after an interrupt, all processes end
in time and leave nothing. Ranks are played by a script that speaks the protocol of
docs/control.md, so that neither Open MPI nor the provider is needed.

   tests/cli/lifecycle_test.py --fabemu build/fabemu [unittest options]
"""
import contextlib
import errno
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

from cli_helpers import ATTACH, END_S, FabemuCase, Client, alive, main, stat_of, stopped, until

JOB = f"ATTACH = {ATTACH!r}\n" + r'''
import json, signal, socket, sys
connections = [socket.socket(socket.AF_UNIX) for _ in range(int(sys.argv[2]))]
for s in connections:
    s.connect(sys.argv[1])
    s.sendall(ATTACH)
    assert json.loads(s.recv(65536))["ok"]
print(len(connections), flush=True)
signal.pause()
'''


class LifeTest(FabemuCase):
    # --- a fabric that stays --------------------------------------------------------------

    def test_up__is_private_and_leaves_nothing_after_down(self):
        path = self.up()
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        status = self.status("u")
        self.assertIn("u: kary:2,2", self.fabemu("status").stdout)
        env = self.fabemu("env", "u").stdout
        self.assertIn(f"export FABEMU_SOCKET='{path}'", env)
        client = self.client(path)
        self.assertEqual(client.attach()["node"], 0)
        self.assertEqual(self.status("u")["attached"][0]["pid"], os.getpid())
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        self.assertEqual(client.next(), {"event": "shutdown"})
        self.assertEqual(self.sockets(), [])
        self.assertFalse(alive(status["pid"]) or alive(status["supervisor"]))

    def test_fabric__removes_the_shared_address_vectors_that_remain(self):
        """Those of its name, when it starts and when it ends, and no other files."""
        folder = os.path.join(self.dir, "fabemu")
        own, other = ["u.a.av", "u.b%2E.av"], ["u.a.b.av", "u.av", "v.a.av", "u.a.av.x", "ux.a.av"]

        os.makedirs(folder, 0o700)
        for name in own + other:
            open(os.path.join(folder, name), "w").close()
        self.up("u")
        self.assertEqual(sorted(os.listdir(folder)), sorted(other + ["u.sock"]))
        for name in own:
            open(os.path.join(folder, name), "w").close()
        self.fabemu("down", "u")
        self.assertEqual(sorted(os.listdir(folder)), sorted(other))
        for name in other:
            os.unlink(os.path.join(folder, name))

    def test_env__of_a_fabric_on_several_hosts_is_that_of_each(self):
        host = socket.gethostname()[:32]
        self.up(f"u.{host}")
        got = self.fabemu("env", f"u.{host}").stdout
        for name in ("FABEMU_SOCKET", "OMPI_MCA_coll_fabemu_socket"):
            self.assertIn(f"export {name}='{self.socket_path('u.%h')}'", got)
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        env = {**self.env, "FABEMU_SOCKET": self.socket_path("u.%h")}
        done = subprocess.run(["sh", "-c", '"$0" 2 & "$0" 2; wait', example], env=env, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.stdout.count("the sum of all is 1"), 2, done.stderr)

    def test_fabric_on_several_hosts__is_found_where_its_socket_is(self):
        """Not in $XDG_RUNTIME_DIR, which may differ between hosts."""
        name = f"t{os.getpid()}.{socket.gethostname()[:32]}"
        plain = {key: value for key, value in self.env.items() if key != "XDG_RUNTIME_DIR"}
        done = self.fabemu("up", "--topo", "kary:2,2", name, env=plain)
        self.assertEqual(done.returncode, 0, done.stderr)
        try:
            self.assertEqual(self.sockets(), [])
            self.assertEqual(self.status(name)["name"], name)
            self.assertIn(name + ":", self.fabemu("status").stdout)
            self.assertIn(f"/tmp/fabemu-{os.geteuid()}/", self.fabemu("env", name).stdout)
        finally:
            done = self.fabemu("down", name)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_example__works_in_any_start_order(self):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        script = ('for i in 0 1 2 3; do [ $i = $0 ] || FABEMU_NODE=$i "$1" 4 & done; sleep 0.3; '
                  'FABEMU_NODE=$0 "$1" 4; status=$?; wait; exit $status')
        for profile in ("oq2004", "qsnet3"):
            for last in ("0", "3"):
                with self.subTest(profile=profile, last=last):
                    done = self.fabemu("run", "--profile", profile, "--", "sh", "-c", script, last,
                                       example)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout.count("the sum of all is 6"), 4)
                    self.assertIn("passed 4 processes", done.stdout)

    def leaves_no_socket(self, killed, other):
        """A fabric that stays up has two processes. One is killed: the other ends, too."""
        self.up()
        status = self.status("u")
        os.kill(status[killed], signal.SIGKILL)
        self.assertTrue(until(lambda: not self.sockets(), END_S))
        self.assertTrue(until(lambda: not alive(status[other]), END_S))

    def test_up__leaves_no_socket_when_its_fabric_is_killed(self):
        self.leaves_no_socket("pid", "supervisor")

    def test_up__leaves_no_socket_when_its_supervisor_is_killed(self):
        self.leaves_no_socket("supervisor", "pid")

    def test_up__stays_in_the_session_and_not_in_the_terminal(self):
        # Linux may schedule sessions as groups: a session of its own would starve all processes
        # that yield in others.
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(self.command, [self.command, "up", "--topo", "kary:2,2", "u"], self.env)
        with contextlib.suppress(OSError):
            while os.read(terminal, 4096):
                pass
        os.waitpid(pid, 0)
        os.close(terminal)
        status = self.status("u")
        for process in (status["pid"], status["supervisor"]):
            self.assertEqual((os.getsid(process), stat_of(process)[4]), (pid, "0"))
            self.assertNotEqual(os.getpgid(process), pid)
        os.kill(status["supervisor"], signal.SIGHUP)  # as a shell may do when it exits
        self.assertTrue(self.client(self.socket_path("u")).attach()["ok"])
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        self.assertFalse(alive(status["pid"]) or alive(status["supervisor"]))

    def test_up_foreground__ends_on_an_interrupt(self):
        up = self.start("up", "--foreground", "f")
        self.assertTrue(until(self.sockets))
        self.assertIn("fabric f", up.stdout.readline())
        up.send_signal(signal.SIGINT)
        self.assertIn("fabemu: report", self.ends(up, [up.pid], time.monotonic()))
        self.assertEqual(up.returncode, 0)

    # --- ends of a run ----------------------------------------------------------------------

    def test_hint_at_another_network__is_only_for_processes_that_end_before_use(self):
        """A failed MPI_Init exits with its process attached, and mpirun then ends the other ranks
        by SIGTERM; a program that ends detaches."""
        attach = f"{sys.executable} {self.rank} {self.dir} "
        attached = f"{attach} & until [ -e {self.dir}/rank.0 ]; do sleep 0.02; done; "
        for line, hint in ((f"{attach} leave; exit 3", False),
                           (f"{attached} kill -9 $!; wait; exit 3", False),
                           (f"{attached} kill -TERM $!; wait; exit 3", True),
                           (f"{attach} exit; exit 3", True)):
            with self.subTest(line=line):
                run = self.fabemu("run", "--topo", "kary:2,2", "--", "sh", "-c", line)
                self.assertEqual(run.returncode, 3, run.stderr)
                self.assertEqual("select another network?" in run.stderr, hint, run.stderr)
            os.unlink(os.path.join(self.dir, "rank.0"))

    def test_hint_at_another_network__is_not_for_a_command_that_failed_at_once(self):
        for words, failed in ((("false",), True), (("cat", "/no/such/file"), True),
                              (("sh", "-c", "kill -9 $$"), True), (("true",), False),
                              (("mpirun", "-np", "2", "/no/such/file"), True)):
            with self.subTest(words=words):
                run = self.fabemu("run", "--report", "/dev/full", "--", *words)
                self.assertRegex(run.stderr.splitlines()[-1], "^fabemu: the command failed before "
                                 "any of its processes attached" if failed else
                                 "^fabemu: no process attached .* select another network[?]$")

    def test_no_hint_at_another_network__for_a_library_of_another_version(self):
        older = ('import os, socket\ns = socket.socket(socket.AF_UNIX)\n'
                 's.connect(os.environ["FABEMU_SOCKET"])\n'
                 's.sendall(b\'{"cmd":"attach","version":1,"want":-1}\\n\')\ns.recv(4096)\n')
        run = self.fabemu("run", "--", sys.executable, "-c", older)
        self.assertIn(", 1 attempt to attach failed\n", run.stderr)
        self.assertRegex(run.stderr.splitlines()[-1],
                         "^fabemu: this process's library has protocol version 1, but the fabric "
                         r"has version \d+: use the libfabemu that ")
        self.assertNotIn("another network", run.stderr)

    def test_killed_rank__ends_the_run(self):
        path = os.path.join(self.dir, "r.json")
        run, ranks = self.start_ranks(3, "--report", path)
        since = time.monotonic()
        os.kill(ranks[1], signal.SIGKILL)
        err = self.ends(run, ranks.values(), since)
        self.assertRegex(err, rf"fabemu: node 1 \(pid {ranks[1]}, python[\d.]*\) died: "
                              r"(killed by signal 9|ended without detaching: it was killed, or "
                              r"called _exit\(\))"
                              "; ending the run")
        self.assertNotEqual(run.returncode, 0)
        with open(path) as f:
            self.assertEqual(json.load(f)["died"][0]["pid"], ranks[1])

    def test_killed_rank__ends_even_those_that_ignore_SIGTERM(self):
        run, ranks = self.start_ranks(2, mode="deaf")
        since = time.monotonic()
        os.kill(ranks[0], signal.SIGKILL)
        self.ends(run, ranks.values(), since)
        self.assertNotEqual(run.returncode, 0)

    def test_killed_rank__gives_the_launcher_time(self):
        run, ranks = self.start_ranks(2, wait="trap 'echo impatient >&2' TERM; wait; wait")
        since = time.monotonic()
        os.kill(ranks[0], signal.SIGKILL)
        err = self.ends(run, ranks.values(), since)
        self.assertIn("; ending the run", err)
        self.assertNotIn("impatient\n", err)

    def test_killed_fabric__ends_the_run(self):
        run, ranks = self.start_ranks(2)
        fabric = self.status("r")["pid"]
        since = time.monotonic()
        os.kill(fabric, signal.SIGKILL)
        err = self.ends(run, [fabric, *ranks.values()], since)
        self.assertIn(f"fabemu: the fabric (pid {fabric}) was killed by signal 9", err)
        self.assertEqual(run.returncode, 1)

    def test_killed_supervisor__ends_the_run(self):
        for mode in ("", "deaf"):
            with self.subTest(mode=mode):
                run, ranks = self.start_ranks(2, mode=mode)
                fabric = self.status("r")["pid"]
                since = time.monotonic()
                run.kill()
                err = self.ends(run, [fabric, *ranks.values()], since)
                self.assertIn("the supervisor of fabric 'r' died", err)
                for node in ranks:
                    os.unlink(os.path.join(self.dir, f"rank.{node}"))

    def test_killed_command__ends_the_ranks_it_left(self):
        run, ranks = self.start_ranks(2, wait="exec sleep 1000")
        children = f"/proc/{run.pid}/task/{run.pid}/children"
        with open(children) as f:
            pids = [int(pid) for pid in f.read().split()]
        command = [pid for pid in pids if pid != self.status("r")["pid"]][0]
        since = time.monotonic()
        os.kill(command, signal.SIGKILL)
        err = self.ends(run, ranks.values(), since)
        self.assertIn("left 2 processes behind", err)
        self.assertEqual(run.returncode, 137)

    def test_interrupt__ends_the_run_with_130(self):
        for sig, code, word in ((signal.SIGINT, 130, "interrupted"),
                                (signal.SIGTERM, 143, "Term"), (signal.SIGHUP, 129, "Hangup")):
            with self.subTest(signal=sig):
                report = os.path.join(self.dir, "r.json")
                run, ranks = self.start_ranks(2, "--report", report, preexec_fn=lambda sig=sig:
                                              signal.signal(sig, signal.SIG_DFL))
                since = time.monotonic()
                run.send_signal(sig)
                err = self.ends(run, ranks.values(), since)
                self.assertIn(word, err)
                self.assertIn("ending the run", err)
                with open(report) as f:  # the run ended its processes, so none counts as died
                    got = json.load(f)
                self.assertEqual((got["processes"]["died"], got["died"]), (0, []))
                self.assertEqual(run.returncode, code)
                for node in ranks:
                    os.unlink(os.path.join(self.dir, f"rank.{node}"))

    def test_hangup__is_ignored_under_nohup(self):
        run = self.start("run", "--topo", "kary:2,2", "--", "sh", "-c",
                         "kill -HUP $PPID; sleep 0.3; echo goes on", preexec_fn=lambda:
                         signal.signal(signal.SIGHUP, signal.SIG_IGN))
        out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (0, "goes on\n"), err)

    def test_interrupt_from_a_terminal__ends_the_run_with_130(self):
        line = f"{sys.executable} {self.rank} {self.dir} & " * 2 + "wait"
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(self.command, [self.command, "run", "--topo", "kary:2,2", "--name", "r",
                                     "--", "sh", "-c", line], self.env)
        self.assertTrue(until(lambda: len(self.rank_pids()) == 2))
        ranks = self.rank_pids()
        since = time.monotonic()
        os.write(terminal, b"\x03")
        output = b""
        with contextlib.suppress(OSError):
            while data := os.read(terminal, 4096):
                output += data
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(status), 130)
        self.assertTrue(output.startswith(b"fabemu: fabric r\r\n"), output)
        self.assertIn(b"interrupted; ending the run", output)
        self.assertTrue(until(lambda: not any(alive(rank) for rank in ranks.values()), END_S))
        self.assertLess(time.monotonic() - since, END_S)
        self.assertEqual(self.sockets(), [])

    def test_shutdown_of_a_run__ends_it(self):
        run, ranks = self.start_ranks(2)
        since = time.monotonic()
        self.fabemu("down", "r")
        err = self.ends(run, ranks.values(), since)
        self.assertIn("the fabric was shut down; ending the run", err)
        self.assertEqual(run.returncode, 1)

    def test_long_final_report__is_taken_to_its_end(self):
        report = os.path.join(self.dir, "r.json")
        path = self.socket_path("r")
        run = self.start("run", "--topo", "kary:2,7", "--name", "r", "--report", report, "--",
                         sys.executable, "-c", JOB, path, "127")
        self.assertEqual(run.stdout.readline(), "127\n")
        status = self.status("r")
        os.kill(run.pid, signal.SIGSTOP)  # all that comes waits for it in its socket
        os.kill(status["attached"][0]["pid"], signal.SIGKILL)
        self.assertTrue(until(lambda: self.status("r")["report"]["processes"]["died"] == 127))
        self.assertTrue(self.client(path).ask("shutdown")["ok"])
        self.assertTrue(until(lambda: not alive(status["pid"])))
        since = time.monotonic()
        os.kill(run.pid, signal.SIGCONT)
        self.assertIn("the fabric was shut down", self.ends(run, [run.pid], since))
        with open(report) as f:
            self.assertEqual(json.load(f)["processes"]["died"], 127)

    def test_daemonised_leftover__is_ended(self):
        pid_file = os.path.join(self.dir, "left")
        since = time.monotonic()
        done = self.fabemu("run", "--", "sh", "-c",
                           f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 1000' & "
                           f"until [ -s {pid_file} ]; do sleep 0.05; done")
        self.assertEqual(done.returncode, 0)
        self.assertIn("left 1 process behind; ending it", done.stderr)
        self.assertLess(time.monotonic() - since, END_S)
        with open(pid_file) as f:
            self.assertFalse(alive(int(f.read())))

    def test_reader_closing__changes_nothing(self):
        run = self.start("run", "--name", "p", "--", "sh", "-c", "exec 2>/dev/null; exit 5")
        run.stderr.close()
        self.assertEqual(run.wait(timeout=10), 5)
        self.assertEqual(self.sockets(), [])

    def test_earlier_children__are_not_affected(self):
        done = subprocess.run(
            ["sh", "-c", f"sleep 1000 >/dev/null 2>&1 & echo $!; exec {self.command} run -- true"],
            env=self.env, text=True, capture_output=True, timeout=30)
        pid = int(done.stdout)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(alive(pid))
        os.kill(pid, signal.SIGTERM)

    def test_temporary_files__are_removed_with_the_run(self):
        line = 'cd "$OMPI_MCA_orte_tmpdir_base" && touch x && ls -d "$PWD/x"'
        done = self.fabemu("run", "--", "sh", "-c", line)
        folder, name = os.path.split(done.stdout.rstrip("\n"))
        self.assertEqual(name, "x")
        self.assertFalse(os.path.exists(folder))
        self.assertEqual(self.sockets(), [])

    # --- the control socket -------------------------------------------------------------------

    def test_control__answers_invalid_requests_and_continues(self):
        path = self.up()
        client = self.client(path)
        for line in (b"hello\n", b"\n", b"[]\n", b"{\n", b'{"cmd":5}\n', b'{"cmd":"fly"}\n',
                     b"{}x\n", b"\x00\xff\n", b"[" * 5000 + b"\n", b'{"cmd":"attach"}\n',
                     b'{"cmd":"group_create","nodes":[0,1]}\n',
                     b'{"cmd":"group_leave","group":0}\n', b'{"cmd":"detach"}\n'):
            with self.subTest(line=line[:40]):
                client.raw(line)
                reply = client.next()
                self.assertFalse(reply["ok"])
                self.assertGreater(reply["errno"], 0)
                self.assertTrue(reply["error"])
        self.assertEqual(client.attach(want=2)["node"], 2)
        for nodes in ([0], [0, 99], [0, "1"], [-1, 0], "all", None):
            self.assertFalse(client.ask("group_create", nodes=nodes)["ok"])
        self.assertFalse(client.attach()["ok"])
        self.assertTrue(client.ask("status")["ok"])

    def test_control__refuses_an_endless_line(self):
        client = self.client(self.up())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.raw(b"x" * 200000)
        reply = client.next()
        self.assertFalse(reply["ok"])
        self.assertIn("65536", reply["error"])
        self.assertEqual(self.status("u")["name"], "u")

    def test_control__is_not_blocked_by_a_client_that_does_not_read(self):
        path = self.up()
        deaf = self.client(path)
        deaf.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            for _ in range(20000):
                deaf.raw(b'{"cmd":"status"}\n')
        half = self.client(path)
        half.raw(b'{"cmd":"sta')
        since = time.monotonic()
        self.assertTrue(self.client(path).ask("status")["ok"])
        self.assertLess(time.monotonic() - since, 2)
        half.raw(b'tus"}\n')
        self.assertTrue(half.next()["ok"])

    def test_control__answers_all_requests_before_the_end(self):
        path = self.up()
        client = self.client(path)
        client.raw(b"".join(b'{"cmd":"no %d"}\n' % i for i in range(1000)))
        client.socket.shutdown(socket.SHUT_WR)
        for i in range(1000):
            self.assertIn(f'"no {i}"', client.next()["error"])
        with self.assertRaises(EOFError):
            client.next()

    def test_no_descriptors_left__callers_wait_and_the_fabric_sleeps(self):
        path = self.up()
        pid = self.status("u")["pid"]
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        waits = self.client(path)
        waits.send({"cmd": "status"})
        self.assertLessEqual(self.cpu_ticks_of_a_second(pid), 0.2 * os.sysconf("SC_CLK_TCK"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        self.assertTrue(waits.next()["ok"])
        self.assertTrue(self.client(path).ask("status")["ok"])

    def test_attach__hands_over_a_hostif_a_bell_and_a_mcast_buf(self):
        client = self.client(self.up())
        reply = client.attach(want=3)
        self.assertEqual((reply["node"], reply["nodes"], reply["topo"], reply["profile"],
                          reply["clock"], reply["hop_limit"]),
                         (3, 4, "kary:2,2", "oq2004", "raw", 3))
        self.assertEqual(reply["link_bytes_per_s"], 1.25e9)
        self.assertEqual(len(client.fds), 3)
        self.assertTrue(client.ask("detach")["ok"])
        with self.assertRaises(EOFError):
            client.next()
        self.assertEqual(self.status("u")["attached"], [])

    def test_mcast_buf__is_replaced_after_a_death_only(self):
        """A process that has not asked to detach may still be alive and reading."""
        path, shelves = self.up(), []
        for ends in ("detach", "close", "detach"):
            client = self.client(path)
            self.assertEqual(client.attach(want=0)["node"], 0)
            shelves.append(os.fstat(client.fds[2]).st_ino)
            if ends == "detach":
                self.assertTrue(client.ask("detach")["ok"])
            client.close()
            self.assertTrue(until(lambda: not self.status("u")["attached"]))
        self.assertEqual(shelves[0], shelves[1])
        self.assertNotEqual(shelves[1], shelves[2])

    def test_attach__numbers_the_incarnations_and_names_the_fabric(self):
        path = self.up()
        incarnations, ids = [], set()
        for _ in range(3):  # the same node each time
            client = self.client(path)
            reply = client.attach(want=1)
            incarnations.append(reply["incarnation"])
            ids.add(reply["fabric_id"])
            self.assertTrue(client.ask("detach")["ok"])
        self.assertEqual(incarnations, [1, 2, 3])
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        ids.add(self.client(self.up()).attach()["fabric_id"])
        self.assertEqual(len(ids), 2)
        for fabric_id in ids:
            self.assertRegex(fabric_id, r"^[0-9a-f]{16}$")

    def attached(self, path, count):
        """@count clients, attached to the nodes in order, and their incarnations."""
        clients = [self.client(path) for _ in range(count)]
        replies = [client.attach(want=node) for node, client in enumerate(clients)]
        self.assertEqual([reply["node"] for reply in replies], list(range(count)))
        return clients, [reply["incarnation"] for reply in replies]

    def test_death__is_reported_to_everybody_with_the_groups_in_common(self):
        path = self.up()
        clients, incarnations = self.attached(path, 4)
        reply = clients[0].ask("group_create", nodes=[0, 1, 2])
        self.assertTrue(reply["ok"], reply)
        for client in clients[:2]:
            self.assertTrue(client.ask("group_join", group=reply["group"])["ok"])
        clients[2].close()
        for node, groups in ((0, [reply["group"]]), (1, [reply["group"]]), (3, [])):
            died = {"event": "node_died", "node": 2, "incarnation": incarnations[2],
                    "groups": groups}
            self.assertEqual(clients[node].next(), died)
        self.assertTrue(clients[0].ask("group_leave", group=reply["group"])["ok"])
        self.assertFalse(clients[0].ask("group_leave", group=reply["group"])["ok"])
        self.assertEqual(self.client(path).attach()["node"], 2)

    def test_detach__is_not_a_death(self):
        clients, _ = self.attached(self.up(), 2)
        self.assertTrue(clients[1].ask("detach")["ok"])
        self.assertTrue(until(lambda: len(self.status("u")["attached"]) == 1))
        self.assertTrue(clients[0].ask("status")["ok"])  # no event before the reply
        self.assertEqual(self.status("u")["report"]["died"], [])

    def test_group_break__is_reported_to_the_other_members_once(self):
        clients, _ = self.attached(self.up(), 3)
        group = clients[0].ask("group_create", nodes=[0, 1])["group"]
        for node in (0, 1):
            self.assertTrue(clients[node].ask("group_join", group=group, members=2)["ok"])
        for node, wrong in ((2, group), (0, group + 1)):
            self.assertFalse(clients[node].ask("group_break", group=wrong)["ok"])
        for request in range(2):
            clients[0].send({"cmd": "group_break", "group": group})
        self.assertEqual(clients[1].next(),
                         {"event": "groups_broken", "groups": [group], "by": 0})
        # no event before the reply
        self.assertTrue(clients[1].ask("group_break", group=group)["ok"])
        self.assertTrue(clients[2].ask("status")["ok"])

    def test_late_join__is_told_the_dead_member(self):
        clients, _ = self.attached(self.up(), 3)
        group = clients[0].ask("group_create", nodes=[0, 1, 2])["group"]
        self.assertTrue(clients[0].ask("group_join", group=group)["ok"])
        self.assertTrue(clients[2].ask("detach")["ok"])
        for node in (0, 1):
            self.assertEqual(clients[node].next()["by"], 2)
        self.assertIn("member on node 2 left or declined",
                      clients[1].ask("group_join", group=group)["error"])

    def test_detach__breaks_groups_that_were_not_left(self):
        clients, _ = self.attached(self.up(), 4)
        group = clients[0].ask("group_create", nodes=[0, 1, 2])["group"]
        self.assertTrue(clients[2].ask("detach")["ok"])
        for node in (0, 1):
            self.assertEqual(clients[node].next(),
                             {"event": "groups_broken", "groups": [group], "by": 2})
        # it is not in the group: no event before the reply
        self.assertTrue(clients[3].ask("status")["ok"])

    def test_exit__is_not_a_kill(self):
        path = self.up()
        script = ('import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n'
                  f's.sendall({ATTACH!r})\ns.recv(65536)\n'
                  's.sendall(b\'{"cmd":"exits"}\\n\')\nassert b"true" in s.recv(65536)\n')
        self.assertEqual(subprocess.run([sys.executable, "-c", script, path]).returncode, 0)
        self.assertTrue(until(lambda: self.status("u")["report"]["died"]))
        self.assertRegex(self.status("u")["report"]["died"][0]["how"],
                         r"^exited (with status 0 )?without detaching$")

    def test_messages_outside__are_counted_by_process(self):
        path = self.up()
        clients, _ = self.attached(path, 2)
        stranger = self.client(path)
        self.assertEqual(stranger.ask("outside", why="x")["errno"], errno.ENOTCONN)
        for client in (*clients, clients[0]):
            self.assertTrue(client.ask("outside", why="by\x1b[2Jtests" + "s" * 300)["ok"])
        outside = self.status("u")["report"]["outside"]
        self.assertEqual(outside["processes"], 2)
        self.assertRegex(outside["why"], r"^by\?\[2Jtestss{100,200}$")
        self.assertTrue(clients[1].ask("outside")["ok"])

    def test_queues__are_found_by_processes_of_the_host(self):
        path = self.up()
        clients, incarnations = self.attached(path, 3)
        stranger = self.client(path)
        for command in ("queue_announce", "queue_withdraw", "queue_find"):
            self.assertEqual(stranger.ask(command, queue=1)["errno"], errno.ENOTCONN)
            for wrong in (-1, 65536, "x", None):
                self.assertEqual(clients[0].ask(command, queue=wrong)["errno"], errno.EINVAL)
        self.assertEqual(clients[0].ask("queue_find", queue=65535)["errno"], errno.ENOENT)
        for client in clients[1:]:
            self.assertTrue(client.ask("queue_announce", queue=65535)["ok"])
        found = [client.ask("queue_find", queue=65535) for client in clients]
        self.assertEqual([(one["node"], one["incarnation"]) for one in found],
                         [(node, incarnations[node]) for node in (1, 1, 2)])
        self.assertEqual(clients[0].ask("queue_find", queue=65534)["errno"], errno.ENOENT)
        self.assertTrue(clients[1].ask("queue_withdraw", queue=65535)["ok"])
        self.assertEqual(clients[0].ask("queue_find", queue=65535)["node"], 2)
        self.assertTrue(clients[1].ask("queue_announce", queue=65535)["ok"])
        self.assertTrue(clients[1].ask("detach")["ok"])
        self.assertEqual(clients[0].ask("queue_find", queue=65535)["node"], 2)
        clients[2].close()
        self.assertEqual(clients[0].next()["event"], "node_died")
        self.assertEqual(clients[0].ask("queue_find", queue=65535)["errno"], errno.ENOENT)

    def test_refusals__are_forgotten_when_the_process_attaches(self):
        path = self.up()
        client = self.client(path)
        for what in ("inject size", "inject size", "x\x1b[2J" + "y" * 300):
            self.assertTrue(client.ask("refused", what=what, rank=3)["ok"])
        refusals = self.status("u")["report"]["refusals"]
        self.assertEqual([(one["what"][:12], one["processes"], one["rank"], one["pid"])
                          for one in refusals],
                         [("inject size", 1, 3, os.getpid()), ("x?[2Jyyyyyyy", 1, 3, os.getpid())])
        self.assertLess(len(refusals[1]["what"]), 100)
        self.attached(path, 1)
        self.assertEqual(self.status("u")["report"]["refusals"], [])
        self.assertTrue(client.ask("refused", what="inject size")["ok"])
        self.assertEqual(self.status("u")["report"]["refusals"], [])

    def dies_and_is_reaped(self, code):
        """Return the cause that the fabric reports for a process that executes @code at its end,
        and that its parent has reaped before the fabric runs again."""
        path = self.up()
        fabric = self.status("u")["pid"]
        script = ('import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\n'
                  f's.connect(sys.argv[1])\ns.sendall({ATTACH!r})\ns.recv(65536)\n'
                  f'print(flush=True)\nsys.stdin.read()\n{code}\n')
        process = subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdout.readline()
        os.kill(fabric, signal.SIGSTOP)
        try:
            self.assertTrue(until(lambda: stopped(fabric)))
            process.communicate()
        finally:
            os.kill(fabric, signal.SIGCONT)
        self.assertTrue(until(lambda: self.status("u")["report"]["died"]))
        how = self.status("u")["report"]["died"][0]["how"]
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        return how

    def test_reaped_process__still_has_a_known_cause_of_death(self):
        release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
        unknown = "ended without detaching: it was killed, or called _exit()"
        for code, how in (("os.kill(os.getpid(), 11)", "killed by signal 11"),
                          ("os._exit(3)", "exited with status 3 without detaching")):
            with self.subTest(how=how):
                self.assertEqual(self.dies_and_is_reaped(code),
                                 how if release >= (6, 16) else unknown)

    def test_closed_connection__frees_the_node_before_the_exit_status(self):
        path = self.up()
        clients, _ = self.attached(path, 4)
        for client in clients:
            client.close()
        self.attached(path, 4)
        self.assertTrue(until(lambda: len(self.status("u")["report"]["died"]) == 4))
        for death in self.status("u")["report"]["died"]:
            self.assertEqual((death["pid"], death["how"]),
                             (os.getpid(), "closed its connection without detaching"))

    def test_many_deaths_at_once__are_reported_to_survivors(self):
        path = self.up("u", "--topo", "kary:4,4")
        witness = self.client(path)
        self.assertEqual(witness.attach(want=0)["node"], 0)
        job = subprocess.Popen([sys.executable, "-c", JOB, path, "255"], stdout=subprocess.PIPE)
        self.started.append(job)
        self.assertEqual(job.stdout.readline(), b"255\n")
        job.kill()
        events = [witness.next() for _ in range(255)]
        self.assertEqual({event["event"] for event in events}, {"node_died"})
        self.assertEqual(sorted(event["node"] for event in events), list(range(1, 256)))
        self.assertEqual({event["incarnation"] for event in events}, {1})
        self.assertTrue(until(lambda: self.status("u")["report"]["processes"]["died"] == 255))
        self.assertEqual([one["node"] for one in self.status("u")["attached"]], [0])

    def test_group__needs_all_its_members_and_one_of_them_to_ask(self):
        clients, _ = self.attached(self.up(), 3)
        for nodes, err, word in (([0, 1, 3], errno.EHOSTUNREACH, "node 3"),
                                 ([1, 2], errno.EPERM, "member")):
            with self.subTest(nodes=nodes):
                reply = clients[0].ask("group_create", nodes=nodes)
                self.assertEqual((reply["ok"], reply["errno"]), (False, err))
                self.assertIn(word, reply["error"])
        clients[2].close()
        self.assertEqual(clients[0].next()["event"], "node_died")
        self.assertEqual(clients[0].ask("group_create", nodes=[0, 1, 2])["errno"],
                         errno.EHOSTUNREACH)
        self.assertTrue(clients[0].ask("group_create", nodes=[0, 1])["ok"])

    def test_many_attach_and_detach__no_descriptor_leaks(self):
        path = self.up()
        fds = f"/proc/{self.status('u')['pid']}/fd"
        self.client(path).attach()
        before = len(os.listdir(fds))
        for _ in range(50):
            client = Client(path)
            self.assertTrue(client.attach()["ok"])
            client.close()
        self.assertTrue(until(lambda: len(self.status("u")["attached"]) == 1))
        self.assertTrue(until(lambda: len(os.listdir(fds)) <= before))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
    def test_another_user__cannot_attach(self):
        path = self.up()
        script = ("import socket; s = socket.socket(socket.AF_UNIX); "
                  f"s.connect({path!r}); "
                  "print(s.recv(4096).decode())")
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable,
                 "-c", script]
        done = subprocess.run(other, text=True, capture_output=True, timeout=30)
        self.assertIn("PermissionError", done.stderr)  # the folder is not accessible
        for opened in (self.dir, os.path.dirname(path), path):
            os.chmod(opened, 0o777)
        done = subprocess.run(other, text=True, capture_output=True, timeout=30)
        reply = json.loads(done.stdout)
        self.assertEqual((reply["ok"], reply["errno"]), (False, 13))
        self.assertIn("another user", reply["error"])
        os.chmod(os.path.dirname(path), 0o700)
        self.assertEqual(self.status("u")["attached"], [])

    def test_idle_fabric__sleeps(self):
        self.up("idle", )
        pid = self.status("idle")["pid"]
        self.assertLessEqual(self.cpu_ticks_of_a_second(pid), 0.05 * os.sysconf("SC_CLK_TCK"))

    def cpu_ticks_of_a_second(self, pid):
        def cpu_ticks():
            fields = stat_of(pid)
            return int(fields[11]) + int(fields[12])
        before = cpu_ticks()
        time.sleep(1)  # measures a second of idling
        return cpu_ticks() - before


if __name__ == "__main__":
    main()
