#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""limits_test.py - bounded resources at their limits, with well-behaved programs and hostile ones.
A well-behaved program continues, or gets an error that says what to do; a hostile one harms
nobody else.

   tests/cli/limits_test.py --fabemu build/fabemu [unittest options]
"""
import contextlib
import errno
import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from cli_helpers import HOSTIF_VERSION, Client, FabemuCase, alive, main, stopped, until

HOSTIF_BYTES = 2163008  # minimum size of a host interface

# A process on libfabemu: attaches, does what its argument says, detaches.
PROGRAM = r'''
import ctypes, os, resource, sys
lib = ctypes.CDLL(sys.argv[1])
lib.fabemu_error.restype = ctypes.c_char_p
fab, group = ctypes.c_void_p(), ctypes.c_void_p()
def limit(what, most):
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (most, hard))
    return soft
def show(err):
    print(err, lib.fabemu_error().decode() if err else "", flush=True)
def attach():
    err = lib.fabemu_attach(ctypes.byref(fab), None)
    show(err)
    return err
exec(sys.argv[2])
if fab:
    lib.fabemu_detach(fab)
'''


def peak_kb(pid):
    """Peak memory of the process."""
    with open(f"/proc/{pid}/status") as f:
        return int(f.read().split("VmHWM:")[1].split()[0])


class LimitsTest(FabemuCase):
    def setUp(self):
        super().setUp()
        self.lib = os.path.join(os.path.dirname(self.command), "nic", "libfabemu.so")

    def program(self, path, what, **kwargs):
        """Start PROGRAM; returns the running process."""
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, self.lib, what], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE,
                                   env={**self.env, "FABEMU_SOCKET": path}, **kwargs)
        self.started.append(process)
        return process

    def output_of(self, path, what, **kwargs):
        """All lines that PROGRAM printed, as (errno, text)."""
        out, err = self.program(path, what, **kwargs).communicate(timeout=60)
        self.assertEqual(err, "")
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in out.splitlines()]

    @contextlib.contextmanager
    def limited(self, pid, what, most):
        had = resource.prlimit(pid, what)
        resource.prlimit(pid, what, (most, had[1]))
        try:
            yield
        finally:
            resource.prlimit(pid, what, had)

    def attached(self, path, *nodes):
        clients = [self.client(path) for _ in nodes]
        for client, node in zip(clients, nodes):
            self.assertEqual(client.attach(want=node)["node"], node)
        return clients

    def next_event(self, client, name):
        event = client.next()
        self.assertEqual(event["event"], name)
        return event

    # --- leaving: how long it may take -------------------------------------------------------

    def test_unanswered_disconnect__is_reported_and_counted(self):
        path = self.up()
        (_, other) = (self.program(path, "attach(); sys.stdin.readline()") for _ in range(2))
        for process in self.started[-2:]:
            self.assertEqual(process.stdout.readline(), "0 \n")
        nodes = {who["pid"]: who["node"] for who in self.status("u")["attached"]}
        self.env["FABEMU_PEER_TIMEOUT_MS"] = "500"
        leaver = self.program(path, "attach(); queue = ctypes.c_void_p()\n"
                                    "show(lib.fabemu_queue_open(fab, 1, ctypes.byref(queue)))\n"
                                    "class Dest(ctypes.Structure):\n"
                                    "    _fields_ = [('node', ctypes.c_uint32),\n"
                                    "                ('queue', ctypes.c_uint16),\n"
                                    "                ('delivered', ctypes.c_bool),\n"
                                    "                ('matched', ctypes.c_bool),\n"
                                    "                ('tag', ctypes.c_uint64),\n"
                                    "                ('data', ctypes.c_uint64),\n"
                                    "                ('mark', ctypes.c_uint16),\n"
                                    "                ('incarnation', ctypes.c_uint64)]\n"
                                    "for node in range(2):\n"
                                    "    dest = ctypes.byref(Dest(node=node, queue=1))\n"
                                    "    while lib.fabemu_inject(queue, dest, b'x', 1):\n"
                                    "        lib.fabemu_progress(fab)\n"
                                    "show(0); sys.stdin.readline()\n"
                                    "lib.fabemu_queue_close(queue)\n")
        self.assertEqual([leaver.stdout.readline() for _ in range(3)], ["0 \n"] * 3)
        os.kill(other.pid, signal.SIGSTOP)
        try:
            self.assertTrue(until(lambda: stopped(other.pid)))
            _, err = leaver.communicate("\n", timeout=60)
        finally:
            os.kill(other.pid, signal.SIGCONT)
        self.assertRegex(err,
                         rf"^fabemu: node 2 detaches and node {nodes[other.pid]} has not confirmed "
                         r"that it received everything \(waited \d+ ms\); data may be lost\n$")
        self.assertEqual(self.status("u")["report"]["processes"]["disconnects_unconfirmed"], 1)

    def test_unanswered_disconnects__at_most_one_per_node(self):
        path = self.up()
        for silent, counted in ((3, 3), (5, 3), (-1, 3), (4, 7)):
            (client,) = self.attached(path, 0)
            self.assertTrue(client.ask("detach", disconnects_unconfirmed=silent)["ok"])
            processes = self.status("u")["report"]["processes"]
            self.assertEqual(processes["disconnects_unconfirmed"], counted)

    # --- groups: when one is over -----------------------------------------------------------

    def groups_are_freed(self, profile, go):
        """Short-lived processes at node 0 make groups with node 1, which never joins, and exit."""
        path = self.up("u", "--profile", profile)
        self.attached(path, 1)
        made = []
        for _ in range(3):
            (goes,) = self.attached(path, 0)
            groups = [goes.ask("group_create", nodes=[0, 1]) for _ in range(100)]
            made.append(sum(group["ok"] for group in groups))
            go(goes)
            self.assertTrue(until(lambda: len(self.status("u")["attached"]) == 1))
        self.assertEqual(made, [100, 100, 100])

    def test_dead_creators__free_their_groups(self):
        for profile in ("oq2004", "qsnet3"):
            with self.subTest(profile=profile):
                self.groups_are_freed(profile, Client.close)
                self.fabemu("down", "u")

    def test_detached_creators__free_their_groups(self):
        self.groups_are_freed("oq2004", lambda client: client.ask("detach"))

    def ends(self, clients, who, how):
        """Member @who of a group of four goes before it has left; members 0 and 1 had joined."""
        group = clients[0].ask("group_create", nodes=[0, 1, 2, 3])["group"]
        for client in clients[:2]:
            self.assertEqual(client.ask("group_join", group=group), {"ok": True, "members": 4})
        how(clients[who], group)
        return group

    def test_member_exit_before_all_have_joined__ends_the_group(self):
        for who, how, event in (
                (0, lambda client, group: client.close(), "node_died"),
                (3, lambda client, group: client.close(), "node_died"),
                (1, lambda client, group: client.ask("detach"), "groups_broken"),
                (3, lambda client, group: client.ask("detach"), "groups_broken"),
                (3, lambda client, group: client.ask("group_leave", group=group), "groups_broken"),
                (3, lambda client, group: client.ask("group_join", group=group, members=5),
                 "groups_broken")):
            with self.subTest(who=who, event=event):
                path = self.up()
                clients = self.attached(path, 0, 1, 2, 3)
                group = self.ends(clients, who, how)
                for i in {0, 1, 2, 3} - {who}:
                    self.assertEqual(self.next_event(clients[i], event)["groups"], [group])
                late = clients[2].ask("group_join", group=group)
                self.assertEqual((late["ok"], late["errno"]), (False, errno.ENOENT))
                self.assertIn(f"its member on node {who} left or declined before all "
                              "members had joined", late["error"])
                for i in {0, 1} - {who}:  # members that had joined leave in their own time
                    self.assertTrue(clients[i].ask("group_leave", group=group)["ok"])
                    self.assertFalse(clients[i].ask("group_leave", group=group)["ok"])
                self.fabemu("down", "u")

    def test_member_leaving_in_order__ends_nothing(self):
        first, second = self.attached(self.up(), 0, 1)
        group = first.ask("group_create", nodes=[0, 1])["group"]
        self.assertTrue(first.ask("group_join", group=group)["ok"])
        # a root that has sent its broadcast
        self.assertTrue(first.ask("group_leave", group=group)["ok"])
        self.assertTrue(first.ask("detach")["ok"])
        self.assertTrue(second.ask("group_join", group=group)["ok"])
        self.assertFalse(second.ask("group_join", group=group)["ok"])
        self.assertTrue(second.ask("group_leave", group=group)["ok"])
        self.assertFalse(second.ask("group_join", group=group)["ok"])

    def test_late_join__is_an_error_of_the_library(self):
        path = self.up()
        (maker,) = self.attached(path, 0)
        late = self.program(path, "attach(); sys.stdin.readline(); "
                                  "[show(lib.fabemu_group_join(fab, int(g), 2, "
                                  "ctypes.byref(group))) for g in sys.stdin.readline().split()]")
        self.assertEqual(late.stdout.readline(), "0 \n")
        groups = [maker.ask("group_create", nodes=[0, 1])["group"] for _ in range(3)]
        maker.ask("group_join", group=groups[0])
        maker.ask("group_leave", group=groups[0])  # joined and left in order: may be joined
        maker.close()
        self.assertTrue(until(lambda: len(self.status("u")["attached"]) == 1))
        out, err = late.communicate("\n" + " ".join(map(str, groups)) + "\n", timeout=60)
        self.assertEqual(err, "")
        lines = out.splitlines()
        self.assertEqual([line.split(" ", 1)[0] for line in lines], ["0", "-2", "-2"])
        self.assertIn(f"this process cannot join group {groups[2]}: ", lines[2])
        self.assertTrue(until(lambda: not self.status("u")["attached"]))
        # only the creator
        self.assertTrue(until(lambda: self.status("u")["report"]["processes"]["died"] == 1))

    def test_wrong_count_of_members__is_an_error_and_ends_the_group(self):
        path = self.up()
        (maker,) = self.attached(path, 0)
        joins = self.program(path, "attach(); "
                                   "[show(lib.fabemu_group_join(fab, *map(int, line.split()), "
                                   "ctypes.byref(group))) for line in sys.stdin]")
        self.assertEqual(joins.stdout.readline(), "0 \n")
        groups, text = [], ""
        for count in (3, 1):
            groups.append(maker.ask("group_create", nodes=[0, 1])["group"])
            self.assertTrue(maker.ask("group_join", group=groups[-1], members=2)["ok"])
            text += f"{groups[-1]} {count}\n"
        text += "7 1\n"  # nobody else's
        out, _ = joins.communicate(text, timeout=60)
        self.assertEqual(out.splitlines(),
                         [f"{-errno.EINVAL} group {groups[0]} has 2 members, not 3",
                          f"{-errno.EINVAL} group {groups[1]} has 2 members, not 1", "0 "])
        for group in groups:  # waiting clients are notified
            self.assertEqual(self.next_event(maker, "groups_broken")["groups"], [group])

    # --- groups: how many ---------------------------------------------------------------------

    def fill(self, client, nodes):
        """Create groups until refused: returns their numbers, and the refusal."""
        groups = []
        while (reply := client.ask("group_create", nodes=nodes))["ok"]:
            groups.append(reply["group"])
            client.ask("group_join", group=groups[-1])
            self.assertLess(len(groups), 5000)
        return groups, reply

    def test_groups__well_behaved_program_continues_at_its_limit(self):
        for profile in ("oq2004", "qsnet3"):
            with self.subTest(profile=profile):
                path = self.up("u", "--profile", profile, "--set", "combine_states=16384")
                (client, _) = self.attached(path, 0, 1)
                groups, refused = self.fill(client, [0, 1])
                self.assertEqual(refused["errno"], errno.ENOSPC)
                self.assertIn("it must leave some", refused["error"])
                again = len(groups) // 2
                for group in groups[:again]:
                    self.assertTrue(client.ask("group_leave", group=group)["ok"])
                # The other member has not left them: they are still charged to who made them.
                self.assertEqual(client.ask("group_create", nodes=[0, 1])["errno"], errno.ENOSPC)
                self.fabemu("down", "u")

    def test_groups__hostile_process_leaves_some_for_others(self):
        path = self.up("u", "--set", "combine_states=16384")  # 64 groups per switch
        hostile, other, third = self.attached(path, 0, 1, 2)
        taken, refused = self.fill(hostile, [0, 1])
        self.assertEqual(refused["errno"], errno.ENOSPC)
        self.assertGreater(len(taken), 32)
        mine = [other.ask("group_create", nodes=[1, 2]) for _ in range(4)]
        self.assertEqual([one["ok"] for one in mine], [True] * 4, mine[-1])
        refused = other.ask("group_create", nodes=[0, 1])  # including the process that has too many
        self.assertIn("node 0 holds", refused["error"])
        hostile.close()
        for client in (other, third):
            self.next_event(client, "node_died")
        self.assertGreater(len(self.fill(other, [1, 2])[0]), 32)

    def test_groups__last_member_is_charged_for_unleft_groups(self):
        path = self.up("u", "--set", "combine_states=4096")  # 16 groups per switch
        (stays, other) = self.attached(path, 1, 2)
        for _ in range(40):
            (goes,) = self.attached(path, 0)
            reply = goes.ask("group_create", nodes=[0, 1])
            if not reply["ok"]:
                break
            for client in (goes, stays):
                self.assertTrue(client.ask("group_join", group=reply["group"])["ok"])
            self.assertTrue(goes.ask("group_leave", group=reply["group"])["ok"])
            goes.ask("detach")
            goes.close()
        self.assertIn("node 1 holds", reply["error"])
        self.assertTrue(other.ask("group_create", nodes=[0, 2])["ok"])

    # --- files --------------------------------------------------------------------------------

    def test_file_size__below_a_hostif_is_reported_at_the_start(self):
        done = self.fabemu("run", "--", "true", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (HOSTIF_BYTES // 2, HOSTIF_BYTES // 2)))
        self.one_line(done, 1, "ulimit -f")
        done = self.fabemu("run", "--", "true", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY)))  # the soft limit is raised
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_file_size__below_a_large_hostif_is_reported_at_the_start(self):
        small = (HOSTIF_BYTES + 10000, HOSTIF_BYTES + 10000)
        # a host interface of 4096 nodes
        done = self.fabemu("run", "--topo", "kary:16,3", "--", "true",
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, small))
        self.one_line(done, 1, "ulimit -f")

    def test_file_size__lowered_later_is_an_attach_error(self):
        path = self.up()
        pid = self.status("u")["pid"]
        with self.limited(pid, resource.RLIMIT_FSIZE, HOSTIF_BYTES // 2):
            ((err, text),) = self.output_of(path, "attach()")
            self.assertEqual(-err, errno.EFBIG)
            self.assertIn("ulimit -f", text)
        self.assertTrue(alive(pid))
        self.assertEqual(self.output_of(path, "attach()"), [(0, "")])

    def test_file_size__too_small_for_the_report_is_a_failure(self):
        path = os.path.join(self.dir, "r.json")
        script = ("import resource, sys; "
                  "resource.prlimit(int(sys.argv[1]), resource.RLIMIT_FSIZE, (100, 100))")
        done = self.fabemu("run", "--report", path, "--", "sh", "-c",
                           'grep SigIgn /proc/self/status; exec "$0" -c "$1" $PPID', sys.executable,
                           script)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("r.json: File too large", done.stderr)
        # SIGXFSZ is the command's again
        self.assertFalse(int(done.stdout.split()[1], 16) >> 24 & 1)

    # --- versions -----------------------------------------------------------------------------

    def stand_between(self, path, version, hostif_version):
        """A proxy socket that reports another version of the fabric, or of the host interface."""
        between = socket.socket(socket.AF_UNIX)
        between.bind(os.path.join(self.dir, "between"))
        between.listen(1)
        self.addCleanup(between.close)

        def serve():
            client, fabric = between.accept()[0], self.client(path)
            ask = json.loads(client.recv(65536))
            fabric.send({**ask, "version": version or ask["version"]})
            reply = fabric.next()
            if hostif_version:
                with mmap.mmap(fabric.fds[0], 4096) as hostif:
                    hostif[8:12] = struct.pack("I", hostif_version)
            socket.send_fds(client, [json.dumps(reply).encode() + b"\n"], fabric.fds)
            client.recv(65536)  # its detach request or end of file
            client.close()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 20)
        return os.path.join(self.dir, "between")

    def test_library_of_another_version__is_reported(self):
        older, newer = HOSTIF_VERSION - 1, HOSTIF_VERSION + 1
        for version, hostif_version in ((older, None), (newer, None), (None, older), (None, newer)):
            with self.subTest(version=version, hostif_version=hostif_version):
                path = self.up()
                between = self.stand_between(path, version, hostif_version)
                ((err, text),) = self.output_of(between, "attach()")
                self.assertEqual(-err, errno.EPROTO, text)
                self.assertIn("use the libfabemu that came with this fabemu", text)
                if version:
                    self.assertIn(f"library has protocol version {version}, "
                                  f"but the fabric has version {HOSTIF_VERSION}", text)
                self.assertEqual(self.output_of(path, "attach()"), [(0, "")])
                self.fabemu("down", "u")
                os.unlink(between)

    # --- descriptors -----------------------------------------------------------------------------

    def test_descriptors__error_of_a_fabric_says_what_to_do(self):
        path = self.up()
        pid = self.status("u")["pid"]
        self.attached(path, 0)
        used = max(int(fd) for fd in os.listdir(f"/proc/{pid}/fd")) + 1
        refused = 0
        for spare in range(6):  # too few for the connection, or for the host interface
            with self.subTest(spare=spare), self.limited(pid, resource.RLIMIT_NOFILE, used + spare):
                lines = self.output_of(path, "[attach() for _ in range(100)]")
                for err, text in lines:
                    if err:
                        self.assertEqual(-err, errno.EMFILE, text)
                        self.assertIn("ulimit -n", text)
                        refused += 1
        self.assertGreater(refused, 5)
        self.assertEqual(self.output_of(path, "attach()"), [(0, "")])
        self.assertTrue(alive(pid))

    def test_descriptors__error_of_a_process_frees_its_node(self):
        path = self.up()
        lines = self.output_of(path, r'''
for most in range(4, 12):
    had = limit(resource.RLIMIT_NOFILE, most)
    err = attach()
    limit(resource.RLIMIT_NOFILE, had)
    if not err:
        break
''')
        self.assertGreater(len(lines), 2, lines)
        for err, text in lines[:-1]:
            self.assertEqual(-err, errno.EMFILE, text)
            self.assertIn("ulimit -n", text)
        self.assertEqual(lines[-1][0], 0)
        self.assertTrue(until(lambda: not self.status("u")["attached"]))
        self.assertEqual(self.status("u")["report"]["processes"]["died"], 0)

    def test_connections__one_process_cannot_use_all(self):
        path = self.up()
        before = len(os.listdir(f"/proc/{self.status('u')['pid']}/fd"))
        script = r'''
import json, socket, sys
mine = []
while True:
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    try:
        s.sendall(b'{"cmd":"no"}\n')
    except BrokenPipeError:
        pass  # it has said why
    reply = json.loads(s.recv(65536))
    if reply["errno"] != 38:
        break
    mine.append(s)
print(len(mine), reply["error"], flush=True)
sys.stdin.readline()
'''
        hostile = subprocess.Popen([sys.executable, "-c", script, path], text=True,
                                   stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.started.append(hostile)
        count, text = hostile.stdout.readline().split(" ", 1)
        self.assertIn("its share of the fabric's connections", text)
        self.assertLess(int(count), 300)
        self.attached(path, 0, 1, 2, 3)
        # out of nodes: that is another error
        self.assertEqual(self.output_of(path, "attach()")[0][0], -errno.ENOSPC)
        hostile.communicate("\n", timeout=30)
        pid = self.status("u")["pid"]
        self.assertTrue(until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < before + 30))

    # --- memory ----------------------------------------------------------------------------------

    def deaf(self, path, request, most_bytes):
        """A client that sends as long as possible, up to @most_bytes, and reads nothing."""
        client = self.client(path)
        client.socket.setblocking(False)
        sent = 0
        tries = 0
        while sent < most_bytes and tries < 50:
            try:
                sent += client.socket.send(request)
                tries = 0
            except BlockingIOError:
                tries += 1
                # others are served meanwhile
                self.assertTrue(self.client(path).ask("status")["ok"])
            except ConnectionError:
                break
        return client, sent

    def test_unread_replies__are_not_buffered_by_the_fabric(self):
        path = self.up("u", "--topo", "kary:2,6")
        pid = self.status("u")["pid"]
        self.attached(path, *range(64))  # a longer status
        before = peak_kb(pid)
        client, sent = self.deaf(path, b'{"cmd":"status"}\n' * 64, 4 << 20)
        self.assertLess(peak_kb(pid) - before, 2048)
        self.assertLess(sent, 4 << 20)  # nor are the requests
        client.socket.setblocking(True)
        for _ in range(sent // 17):  # a client that reads at last gets all replies, in order
            self.assertEqual(client.next()["name"], "u")

    def test_unterminated_lines__are_bounded_in_total(self):
        path = self.up("u", "--topo", "kary:8,3")  # 512 nodes: that many connections
        pid = self.status("u")["pid"]
        before = peak_kb(pid)
        clients = []
        for _ in range(800):
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            clients.append(client)
            with contextlib.suppress(ConnectionError):
                client.sendall(b"x" * 62000)
        self.assertTrue(self.client(path).ask("status")["ok"])  # it has read some of each
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"x")
        self.assertTrue(self.client(path).ask("status")["ok"])
        self.assertLess(peak_kb(pid) - before, 100 << 10)
        closed = 0
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                with contextlib.suppress(ConnectionError):
                    client.recv(1)
                closed += 1
            client.close()
        self.assertGreater(closed, 50)  # those that used most of it
        self.assertLess(closed, 700)
        self.assertTrue(self.client(path).attach()["ok"])

    def test_memory__error_of_a_fabric_says_what_to_do(self):
        done = self.fabemu("run", "--", "true", preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (512 << 20, 512 << 20)))
        self.one_line(done, 1, "ulimit -v")
        path = self.up()
        pid = self.status("u")["pid"]
        with open(f"/proc/{pid}/statm") as f:
            has = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        with self.limited(pid, resource.RLIMIT_AS, has + HOSTIF_BYTES // 2):
            ((err, text),) = self.output_of(path, "attach()")
            self.assertEqual(-err, errno.ENOMEM)
            self.assertIn("ulimit -v", text)
        self.assertEqual(self.output_of(path, "attach()"), [(0, "")])


if __name__ == "__main__":
    main()
