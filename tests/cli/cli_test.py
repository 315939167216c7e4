#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cli_test.py - the fabemu command line: successful runs, and the errors of a beginner.

   tests/cli/cli_test.py --fabemu build/fabemu [unittest options]
"""
import collections
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from cli_helpers import ALONE, FabemuCase, alive, flat, main, until
from helpers.fabric import FakeFabric

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "figures"))
import nearest  # pylint: disable=wrong-import-position

IN_MOVED_TO, IN_CREATE = 0x80, 0x100


class CliTest(FabemuCase):
    # --- the command line ----------------------------------------------------------

    def test_help__names_every_command_and_exits_0(self):
        done = self.fabemu("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("run", "up", "down", "status", "check", "env", "topo", "fault"):
            self.assertIn(name, done.stdout)
            own = self.fabemu(name, "--help")
            self.assertEqual((own.returncode, own.stderr), (0, ""))
            self.assertIn("usage: fabemu " + name, own.stdout)
        for words in ("--version", "-V", "version"):
            self.assertRegex(self.fabemu(words).stdout, r"^fabemu \d")

    def commands(self):
        return re.findall(r"^  (\w+) ", self.fabemu("--help").stdout.split("\n\n")[2], re.M)

    def test_help__has_80_columns_and_both_forms_agree(self):
        for command in self.commands():
            with self.subTest(command=command):
                text = self.fabemu(command, "--help").stdout
                self.assertEqual(self.fabemu("help", command).stdout, text)
                if command != "figures":  # argparse wraps its lines to the terminal
                    self.assertLessEqual(max(map(len, text.split("\n"))), 80)
        text = self.fabemu("help").stdout
        self.assertEqual(self.fabemu("help", "help").stdout, text)
        self.assertLessEqual(max(map(len, text.split("\n"))), 80)
        self.one_line(self.fabemu("help", "rnu"), 2, "no command 'rnu'")
        self.one_line(self.fabemu("help", "run", "up"), 2, "'up' is one too many")

    def test_usage_errors__are_one_line_and_exit_2(self):
        for args, words in (
                ((), ["no command", "--help"]),
                (("fly",), ["no command 'fly'; try"]),
                (("list",), ["did you mean 'ls'?"]),
                (("figures", "--olny", "A3"), ["figures has no option '--olny'",
                                               "did you mean '--only'? Try"]),
                (("figures", "--jobs", "0"), ["--jobs 0: it must be"]),
                (("capture", "--seconds", "1x", "-w", "f"), ["500ms"]),
                (("topo", "nofile"), ["fabemu: bad topology 'nofile'"]),
                (("topo", "/nofile"), ["fabemu: /nofile: cannot read the topology"]),
                (("topo", "--topo", "nofile"), ["fabemu: --topo: bad topology 'nofile'"]),
                (("traffic", "--pattern", "barrier", "--groups", "1000"),
                 ["--groups 1000: a group needs 2 or more nodes, so a network of 16 nodes has "
                  "space for at most 8 groups"]),
                (("traffic", "--pattern", "barrier", "--groups", "2", "--group-size", "9"),
                 ["2 groups of 9 nodes: the network has 16 nodes"]),
                (("stauts",), ["no command 'stauts'; did you mean 'status'?"]),
                (("run", "--nmae=x", "--", "true"), ["'--nmae=x'; did you mean '--name'?"]),
                (("traffic", "--patern", "uniform"), ["did you mean '--pattern'?"]),
                (("run", "--clock", "rael", "--", "true"), ["did you mean 'real'?"]),
                (("run", "--clock", "vitual", "--", "true"), ["did you mean 'virtual'?"]),
                (("--hlep",), ["did you mean '--help'?"]),
                (("bench", "--only", "hop"), ["--list prints all; did you mean 'hops'? Try"]),
                (("figures", "--only", "A99"), ["--list prints them; did you mean 'A9'? Try"]),
                (("run", "--bound", "silence=9s,cutof=off", "--", "true"), ["mean 'cut-off'?"]),
                (("run", "--set", "xpoint_slot=9", "--", "true"), ["mean 'xpoint_slots'?"]),
                (("run", "--set", "credit=rwo", "--", "true"), ["did you mean 'row'?"]),
                (("run", "--set", "broadcast_tree=1", "--", "true"),  # the last field of all
                 ["did you mean 'broadcast_trees'?"]),
                (("run", "--profile", "qsnet33", "--", "true"), ["did you mean 'qsnet3'?"]),
                (("run", "--faults", "flpa", "--", "true"), ["did you mean 'flap'?"]),
                (("traffic", "--pattern", "permuation:3"), ["did you mean 'permutation'?"]),
                (("traffic", "--multicast", "tre:4"), ["did you mean 'tree'?"]),
                (("run", "--web", "wait", "--", "true"), ["write '--web=wait'"]),
                (("traffic", "--web=wait"), ["--web wait: it must be a port from 1 to 65535"]),
                (("up", "--web=wait"), ["--web wait: it must be a port from 1 to 65535"]),
                (("run", "--web", "8080", "--", "true"), ["write '--web=8080'"]),
                (("run", "--web", "true"), ["'--'", "true"]),  # not a value of --web
                (("run", "--wings"), ["--wings", "fabemu run --help"]),
                (("run", "--topo"), ["--topo", "needs a value"]),
                (("run", "--report", "--", "true"), ["--report", "needs a value"]),
                (("fault", "--check", "--topo", "kary:2,2", "x.faults"),
                 ["--check needs a value before '--topo'"]),
                (("run", "--report", "--web", "--", "true"), ["--report needs a value before"]),
                (("fault", "--check", "link-down random"), ["'link-down random' is a fault;"]),
                (("run", "--faults", "at=1.5s node-kill", "--", "true"), ["is a fault; write"]),
                (("top", "--every", "5"), ["with its unit"]),
                (("traffic", "--every", "5"), ["with its unit"]),
                (("run", "--standstill", "5", "--", "true"), ["such as 5s"]),
                (("run", "-topo", "kary:2,2", "--", "true"), ["'-t'", "two dashes"]),
                (("run",), ["no command to run", "--"]),
                (("run", "--"), ["no command to run"]),
                (("run", "true"), ["'--'", "true"]),
                (("run", "--topo", "kary:2,2", "--nodes", "4", "--", "true"),
                 ["cannot be used together"]),
                (("run", "--nodes", "one", "--", "true"), ["--nodes one", "2 to"]),
                (("run", "--clock", "fast", "--", "true"), ["raw, real or virtual"]),
                (("up", "--clock", "virtual"), ["raw or real"]),
                (("run", "--threads", "0", "--", "true"), ["device"]),
                (("run", "--seed", "-1", "--", "true"), ["from 0 to 18446744073709551615"]),
                (("run", "--profile", "x", "--", "true"), ["oq2004", "qsnet3"]),
                (("run", "--set", "speed=1", "--", "true"), ["speed", "switch_ps"]),
                (("run", "--set", "xpoint_slots=99", "--", "true"), ["1 to 64"]),
                (("topo",), ["kary:4,2"]),
        ):
            with self.subTest(args=args):
                self.one_line(self.fabemu(*args), 2, *words)

    def test_help_of_mpi_check__explains_each_option(self):
        program = os.path.join(os.path.dirname(self.command), "tests", "mpi_check")
        text = subprocess.run([program, "--help"], text=True, capture_output=True, timeout=60,
                              check=True).stdout
        usage, options = text.split("\n\n")
        named = re.findall(r"\[(--[a-z]+)", usage)
        self.assertIn("--quick", named)
        self.assertEqual(re.findall(r"^  (--[a-z]+) .* \S+$", options, re.M), [*named, "--help"])
        self.assertLessEqual(max(map(len, text.split("\n"))), 80)

    def test_usage_errors_of_mpi_check__are_one_line_of_rank_0(self):
        program = os.path.join(os.path.dirname(self.command), "tests", "mpi_check")
        for words, error in ((["--foo"], "there is no option '--foo'; see --help"),
                             (["quick"], "there is no option 'quick'; see --help"),
                             (["--seed"], "--seed needs a value; see --help"),
                             (["--part", "x"], "--part x: it must be a number from 0 to"),
                             (["--skip", "scan"], "--skip scan: it must be reductions|broadcasts|"),
                             (["--skip", "odds|scans"], "--skip odds|scans: it must be ")):
            with self.subTest(words=words):
                done = [subprocess.run([program, *words], text=True, capture_output=True,
                                       env=dict(os.environ, OMPI_COMM_WORLD_RANK=rank), timeout=60)
                        for rank in ("0", "1")]
                self.assertEqual((done[0].returncode, done[0].stdout), (2, ""))
                self.assertEqual(len(done[0].stderr.splitlines()), 1)
                self.assertIn(f"mpi_check: {error}", done[0].stderr)
                self.assertEqual((done[1].returncode, done[1].stdout, done[1].stderr), (0, "", ""))

    def test_bad_spec__is_one_line_with_the_valid_values(self):
        for spec in ("kary", "kary:0,2", "torus:4", "kary:2,x", "kary:900,900", ""):
            with self.subTest(spec=spec):
                self.one_line(self.fabemu("run", "--topo", spec, "--", "true"), 2, "kary:")

    def test_bad_name__is_one_line(self):
        for name in ("", "a/b", ".x", "-x", "n" * 64, "a b"):
            with self.subTest(name=name):
                done = self.fabemu("run", "--name=" + name, "--", "true")
                self.one_line(done, 2, "name")

    def test_settings__may_have_units(self):
        def network(setting):
            done = self.fabemu("topo", "kary:2,2", "--json", "--profile", "qsnet3", "--set",
                               setting)
            self.assertEqual(done.returncode, 0, done.stderr)
            return {name: value for name, value in json.loads(done.stdout).items()
                    if name != "origin"}
        self.assertEqual(network("switch_ps=95.5ns"), network("switch_ps=95500"))
        self.assertNotEqual(network("switch_ps=95.5ns"), network("switch_ps=95ns"))
        self.assertEqual(network("packet_bytes=2KiB"), network("packet_bytes=2048"))
        for setting in "switch_ps=0.5ps", "switch_ps=1KiB", "xpoint_slots=1ns", "switch_ps=9h":
            self.one_line(self.fabemu("topo", "kary:2,2", "--set", setting), 2, "it can be ")

    def test_unused_settings__are_reported_and_the_run_continues(self):
        for options, said in (
                (("--set", "channels=8"), "channels=8 has no effect here: it is for transport=ack"),
                (("--set", "credit=row", "--profile", "qsnet3"), "credit=row has no effect here"),
                (("--bound", "reply=3s,retries=off"), "--bound retries has no effect here"),
                (("--bound", "reply=3s"), "--bound reply has no effect here"),
                (("--topo", "kary:2,2", "--threads", "5"), "fabemu uses only 4, one for each")):
            with self.subTest(options=options):
                done = self.fabemu("run", *options, "--", "true")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(said, done.stderr)
        for options in ((), ("--set", "channels=8", "--profile", "qsnet3"),
                        ("--topo", "kary:2,2", "--threads", "4"), ("--threads", "device"),
                        ("--bound", "reply=3s,retries=off", "--profile", "qsnet3")):
            with self.subTest(options=options):
                done = self.fabemu("run", *options, "--", "true")
                self.assertTrue(done.stderr.startswith("fabemu: report\n"), done.stderr)

    def test_options_that_exclude_each_other__are_refused(self):
        for options, said in (
                (("--report", "a", "--report", "b"), "--report is given twice"),
                (("--capture", "a", "--capture", "b"), "--capture is given twice"),
                (("--bound", "retries=3", "--set", "retry_limit=5"), "cannot be used together"),
                (("--set", "reply_timeout_ps=5", "--bound", "reply=off"),
                 "cannot be used together")):
            with self.subTest(options=options):
                self.one_line(self.fabemu("run", *options, "--", "true"), 2, said)
        self.assertFalse(os.path.exists("a"))

    def test_up__prints_commands_that_work(self):
        """They work even if the command is not in PATH, as in a checkout."""
        done = self.fabemu("up", "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        for line, words in (("use it:", "printenv FABEMU_SOCKET"), ("stop it:", "true")):
            typed = done.stdout.split(line)[1].split("\n")[0]
            said = subprocess.run(["bash", "-ec", f"{typed}\n{words}"], env=self.env, text=True,
                                  capture_output=True, timeout=60)
            self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertEqual(self.sockets(), [])

    def test_missing_command__exits_127(self):
        self.one_line(self.fabemu("run", "--", "no-such-command"), 127, "not found", "PATH")
        self.one_line(self.fabemu("run", "--", "/no/such/command"), 127, "not found")

    def test_missing_mpirun__says_how_to_install_it(self):
        done = self.fabemu("run", "--", "mpirun", "-np", "2", "x",
                           env={**self.env, "PATH": self.dir})
        self.one_line(done, 127, "mpirun", "apt-get install openmpi-bin")

    def test_not_executable__exits_126(self):
        self.one_line(self.fabemu("run", "--", self.rank), 126, "not executable")
        self.one_line(self.fabemu("run", "--", "/etc"), 126, "not executable")

    def test_unwritable_report__is_reported_at_the_start(self):
        done = self.fabemu("run", "--report", "/no/such/dir/r.json", "--", "true")
        self.one_line(done, 1, "/no/such/dir/r.json")

    def test_unwritten_report__is_named(self):
        done = self.fabemu("run", "--report", "/dev/full", "--", "true")
        self.assertIn("fabemu: cannot write the report to /dev/full: No space left", done.stderr)
        self.assertEqual(done.returncode, 1)
        done = self.fabemu("run", "--report", "/dev/full", "--", "sh", "-c", "exit 7")
        self.assertEqual(done.returncode, 7)

    # Hundreds of events, more than fit into a file of one page.
    EVENTS = ("--topo", "kary:2,2", "--faults", "often.faults")

    def often(self):
        with open(os.path.join(self.dir, "often.faults"), "w") as f:
            f.write("every=5ms for=1ms stuck-port random\n")

    def test_unwritable_file__ends_the_command_with_1(self):
        self.often()
        for option in ("--events", "--record", "--capture", "--report"):
            for words, code in ((("sleep", "0.2"), 1), (("sh", "-c", "sleep 0.2; exit 7"), 7)):
                with self.subTest(option=option, code=code):
                    done = self.fabemu("run", *self.EVENTS, option, "/dev/full", "--", *words,
                                       cwd=self.dir)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertIn("No space left on device", done.stderr)
        for args in (("traffic", "--topo", "kary:2,2", "--load", "0.1", "--telemetry"),
                     ("topo", "kary:2,2", "--write")):
            with self.subTest(args=args):
                self.one_line(self.fabemu(*args, "/dev/full"), 1, "No space left on device")

    def test_file_on_a_full_disk__ends_the_command_with_1(self):
        self.often()
        room = os.path.join(self.dir, "room")
        os.mkdir(room)
        mount = ["unshare", "--mount", "sh", "-c",
                 f'mount -t tmpfs -o size=32k none {room} && exec "$@"', "sh"]
        if os.geteuid() or subprocess.run([*mount, "true"], capture_output=True).returncode:
            self.skipTest("cannot mount a small disk")
        for option in ("--events", "--record", "--timeline"):
            with self.subTest(option=option):
                done = subprocess.run(
                    [*mount, self.command, "run", *self.EVENTS, option, f"{room}/file", "--",
                     "sh", "-c", f"cat /dev/zero >{room}/rest 2>/dev/null; sleep 1"],
                    env=self.env, cwd=self.dir, text=True, stdin=subprocess.DEVNULL,
                    capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(done.stderr.count("No space left on device"), 1, done.stderr)

    def test_reader_closing_its_pipe__is_not_a_failure(self):
        self.often()
        for option in ("--events", "--record", "--report"):
            with self.subTest(option=option):
                done = subprocess.run(
                    ["bash", "-c", f'"$@" {option} >(read -r line) -- sleep 0.3', "bash",
                     self.command, "run", *self.EVENTS],
                    env=self.env, cwd=self.dir, text=True, stdin=subprocess.DEVNULL,
                    capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_unwritable_output__is_reported_and_exits_1(self):
        self.up("full")
        large = os.path.join(self.dir, "large.topo")
        self.assertEqual(self.fabemu("topo", "kary:8,3", "--write", large).returncode, 0)
        for args in (("--help",), ("--version",), ("topo", "kary:2,2"), ("topo", "--json", large),
                     ("topo", "kary:2,2", "--json"), ("status",),
                     ("status", "--json"), ("status", "full"), ("check", "full"),
                     ("env", "full"), ("bench", "--list"),
                     *((command, "--help") for command in self.commands()),
                     ("figures", "--list"), ("figures", "--help"),
                     ("traffic", "--topo", "kary:2,2", "--load", "0.1")):
            with self.subTest(args=args), open("/dev/full", "w") as full:
                done = subprocess.run([self.command, *args], env=self.env, text=True,
                                      stdin=subprocess.DEVNULL,
                                      stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.one_line(done, 1, "standard output: No space left on device")

    def closed(self, which, *args):
        return self.in_shell(f'exec "$@" {which}', self.command, *args)

    def in_shell(self, line, *args):
        return subprocess.run(["sh", "-c", line, "sh", *args], env=self.env, text=True,
                              stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, cwd=self.dir)

    def test_closed_descriptors__are_not_reused(self):
        path = os.path.join(self.dir, "r.json")
        for which in ("2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
            with self.subTest(which=which):
                done = self.closed(which, "run", "--topo", "kary:2,2", "--report", path, "--", "sh",
                                   "-c", "exit 3")
                self.assertEqual((done.returncode, done.stderr), (3, ""))
                with open(path) as f:
                    self.assertEqual(json.load(f)["exit_status"], 3)
                os.unlink(path)
                done = self.closed(which, "up", "closed")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(self.status("closed")["name"], "closed")
                self.assertEqual(self.fabemu("down", "closed").returncode, 0)
        for which in ("<&-", "<&- >&-"):
            with self.subTest(which=which):
                self.one_line(self.closed(which, "up", "/"), 2, "not a valid name of a fabric")

    def test_env__twice_equals_once(self):
        self.up("e")
        show = 'echo "$FI_PROVIDER_PATH $OMPI_MCA_mca_base_component_path"'
        for before in ("", "export FI_PROVIDER_PATH=/mine; "):
            env = f'eval "$({self.command} env e)"; '
            once, twice = (self.in_shell(before + env * times + show).stdout for times in (1, 2))
            self.assertEqual(once, twice)
            self.assertIn(":SYSTEM_DEFAULT:USER_DEFAULT", once)
            self.assertEqual("/mine " in once, bool(before))

    def test_env__sets_each_variable_once(self):
        self.up("e")
        names = re.findall(r"^export (\w+)=", self.fabemu("env", "e").stdout, re.M)
        self.assertIn("FI_PROVIDER", names)
        self.assertEqual(sorted(names), sorted(set(names)))

    def with_mounts(self, line, *args):
        """Runs fabemu @args after the shell's @line, which may mount something that no other
        process sees; $D is a folder for sockets."""
        words = ["unshare", "--mount", "sh", "-ec"]
        if subprocess.run([*words, "mount -t tmpfs none /mnt"], capture_output=True).returncode:
            self.skipTest("this machine does not let us mount")
        return subprocess.run([*words, line + ' exec "$@"', "sh", self.command, *args],
                              env={**self.env, "D": self.dir}, text=True, capture_output=True,
                              timeout=60)

    def test_proc_missing__is_reported(self):
        self.up("e")
        for args in (("run", "--", "true"), ("up", "x"), ("env", "e"), ("figures",)):
            with self.subTest(args=args):
                self.one_line(self.with_mounts("mount -t tmpfs none /proc;", *args), 1,
                              "/proc/self/exe is missing", "mount -t proc proc /proc")

    def test_folder_without_sockets__error_says_what_to_do(self):
        for mounts in ('mkdir -m 700 "$D/fabemu"; mount --bind "$D" "$D"; '
                       'mount -o remount,bind,ro "$D";',
                       'mount -t tmpfs -o nr_inodes=2 none "$D"; mkdir -m 700 "$D/fabemu";'):
            with self.subTest(mounts=mounts):
                self.one_line(self.with_mounts(mounts, "run", "--", "true"), 1,
                              "cannot listen on", "; set XDG_RUNTIME_DIR to a writable directory")

    def test_status__fails_if_the_folder_of_sockets_cannot_be_listed(self):
        folder = os.path.join(self.dir, "fabemu")
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)
        self.one_line(self.fabemu("status"), 1, "is open to other users")

    def test_runtime_dir__needs_no_tidy_path(self):
        done = self.fabemu("up", "dir", env={**self.env, "XDG_RUNTIME_DIR": self.dir + "//"})
        self.assertIn(f"socket {self.socket_path('dir')}\n", done.stdout)

    def test_set__shows_in_reports(self):
        path = os.path.join(self.dir, "r.json")
        done = self.fabemu("run", "--topo", "kary:2,1", "--set", "transport=acknowledged",
                           "--set", "combine_order=port", "--report", path, "--", "true")
        said = "profile oq2004 with transport=acknowledged, combine_order=port,"
        self.assertIn("kary:2,1: 2 nodes, 1 switch, " + said, flat(done.stderr))
        with open(path) as f:
            self.assertEqual(json.load(f)["profile_set"],
                             ["transport=acknowledged", "combine_order=port"])
        up = self.fabemu("up", "--set", "transport=acknowledged", "--set", "combine_order=port",
                         "--threads", "1", "s")
        self.assertIn(said, flat(up.stdout))
        status = flat(self.fabemu("status").stdout)
        self.assertIn(said, status)
        self.assertIn(", 1 thread, ", status)

    def test_topo__prints_numbers(self):
        done = self.fabemu("topo", "kary:4,4", "--json", "--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual((got["nodes"], got["switches"], got["levels"], got["longest_route"]),
                         (256, 256, 4, 7))
        self.assertEqual(got["cables"], {"node": 256, "switch": 768})
        self.assertEqual(got["zero_load_most_ps"], 3594800)  # FACTS A: 3.595 us
        self.assertRegex(flat(self.fabemu("topo", "--nodes", "4").stdout),
                         r" KiB in all \(.* KiB per node, switches included\), .* more for each ")
        self.assertNotIn("workers", got)
        got = json.loads(self.fabemu("topo", "kary:4,4", "--threads", "4", "--json").stdout)
        self.assertEqual(got["workers"], 4)
        self.assertTrue(0 < got["to_other_workers"] < got["cables_a_segment"] < 6)
        text = self.fabemu("topo", "kary:4,4", "--threads", "device", "--check").stdout
        self.assertIn("  workers        256: ", text)
        self.assertIn("  check          1,024 links agree at both ends; 65,536 routes ", text)

    def test_topo__counts_what_table_1_counts(self):
        got = json.loads(self.fabemu("topo", "qsnet:640", "--json").stdout)
        self.assertEqual(got["parts"], {"node_chassis": 5, "top_chassis": 3, "top_switches": 128,
                                        "routers": 102, "cables": 1280, "node_cables": 640,
                                        "top_cables": 640, "backplane_links": 640})
        text = self.fabemu("topo", "qsnet:640").stdout
        self.assertIn("5 node chassis, 3 top chassis (128 top switches), 102 routers", text)
        self.assertIn("1,280 cables: 640 to nodes, 640 between chassis", text)

    def test_topo__counts_one_in_the_singular(self):
        text = self.fabemu("topo", "qsnet:2").stdout
        self.assertIn("(0 top switches), 1 router\n", text)
        self.assertIn("longest route  1 switch\n", text)
        # the route over 1 switch is not printed again as the longest one
        self.assertIn("ns over 1 switch (profile", flat(text))

    def test_quantities__have_units(self):
        """A number with a unit equals the number in the default unit."""
        def digest(*options):
            done = self.fabemu("traffic", "--topo", "kary:2,2", "--json", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["digest"]
        fixed = ("--warmup", "1000ns")
        self.assertEqual(digest(*fixed, "--measure", "20000ns", "--load", "0.5", "--bytes", "1024"),
                         digest(*fixed, "--measure", "20us", "--load", "50%", "--bytes", "1K"))
        self.assertEqual(digest(*fixed, "--measure", "20us", "--pattern", "hotspot:1:0.25"),
                         digest("--warmup", "1us", "--measure", "0.02ms", "--pattern",
                                "hotspot:1:25%"))
        for args, words in (
                (("traffic", "--measure", "1msec"), "a time from 1ns to 1s"),
                (("traffic", "--measure", "2s"), "a time from 1ns to 1s"),
                (("traffic", "--bytes", "1mb"), "a size from 0 to 1GiB"),
                (("traffic", "--bytes", "0.5B"), "a size from 0 to 1GiB"),
                (("traffic", "--load", "2000%"), "share of the link rate"),
                (("traffic", "--pattern", "hotspot:0:101%"), "hotspot:0:10%"),
                (("run", "--standstill", "0s", "--", "true"), "a time from 1s to 24h"),
                (("run", "--standstill", "5s:fin", "--", "true"), "a time from 1s to 24h"),
                (("run", "--timeline-limit", "1K", "--", "true"), "a size from 1MiB")):
            with self.subTest(args=args):
                self.one_line(self.fabemu(*args), 2, words)

    def test_minus__is_standard_output(self):
        for name in ("-", "/dev/stdout"):
            self.one_line(self.fabemu("topo", "kary:2,2", "--write", name, "--json"), 2,
                          f"--json and --write {name} cannot be used together")
        network = self.fabemu("topo", "kary:2,2", "--write", "-")
        self.assertEqual(network.returncode, 0, network.stderr)
        path = os.path.join(self.dir, "piped.topo")
        with open(path, "w") as f:
            f.write(network.stdout)
        self.assertEqual(self.fabemu("topo", path, "--check").returncode, 0)
        run = self.fabemu("run", "--topo", "kary:2,2", "--report", "-", "--", "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout)["nodes"], 4)
        path = os.path.join(self.dir, "appended")
        with open(path, "w") as f:
            f.write("before\n")
        with open(path, "a") as f:
            subprocess.run([self.command, "run", "--topo", "kary:2,2", "--record", "-", "--",
                            "true"], stdout=f, stderr=subprocess.DEVNULL, env=self.env, check=True,
                           timeout=60)
        with open(path) as f:
            first, *lines = f.read().split("\n")
        self.assertEqual(first, "before")
        self.assertEqual(json.loads(lines[0])["event"], "telemetry_shape")
        run = self.fabemu("run", "--topo", "kary:2,2", "--events", "-", "--", "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("event", json.loads(run.stdout.splitlines()[0]))
        for options in (("--report", "-", "--events", "-"), ("--record", "-", "--report=-"),
                        ("--events", "/dev/stdout", "--record", "-"),
                        ("--clock=virtual", "--compute=record:-", "--report", "-")):
            both = self.fabemu("run", "--topo", "kary:2,2", *options, "--", "true")
            self.assertEqual((both.returncode, both.stdout), (2, ""), options)
            self.assertIn("only one of --report, --events, --record", both.stderr)
        capture = self.fabemu("run", "--topo", "kary:2,2", "--capture", "/dev/stdout", "--", "true")
        self.assertEqual((capture.returncode, capture.stdout), (2, ""))
        up = self.start("up", "--topo", "kary:2,2", "--report", "-", "u")
        self.assertTrue(until(lambda: self.fabemu("status", "u").returncode == 0))
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        out, err = up.communicate(timeout=60)
        self.assertEqual(json.loads(out)["nodes"], 4)
        self.assertIn("fabric u: kary:2,2", err)
        for name in "-", "/dev/stdout":
            for mode, kept in (("w", "before"), ("r+", "before"), ("a", "before\nlater")):
                self.report_after_output(name, mode, kept)
        self.one_line(self.fabemu("run", "--timeline", "-", "--", "true"), 1, "a regular file")
        self.one_line(self.fabemu("run", "--capture", "-", "--", "true"), 2, "fabemu capture -w -")
        self.assertFalse(os.path.exists(os.path.join(self.dir, "-")))

    def test_standard_output__keeps_its_flags(self):
        """The program and other processes may write to the same open file. They did not expect
        EAGAIN, so neither --events nor --record sets O_NONBLOCK."""
        words = (sys.executable, "-c", "import os; print(os.get_blocking(1), flush=True)")

        def opened(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT)
            return os.open(path, os.O_RDONLY), fd

        for make in (os.pipe, pty.openpty, lambda: [s.detach() for s in socket.socketpair()],
                     lambda: opened(os.path.join(self.dir, "log"))):
            out, fd = make()
            with open(out, "rb", buffering=0) as reader:
                run = subprocess.run([self.command, "run", "--topo", "kary:2,2", "--events", "-",
                                      "--", *words], stdin=subprocess.DEVNULL, stdout=fd,
                                     stderr=subprocess.PIPE, env=self.env, text=True, timeout=60)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertTrue(os.get_blocking(fd))
                os.close(fd)
                text = b""
                with contextlib.suppress(OSError):  # the end of a terminal is EIO
                    while more := reader.read(65536):
                        text += more
            self.assertIn(b"True", text)
            self.assertIn(b'{"event":', text)

    def test_events_to_standard_output__reach_a_slow_reader(self):
        """The program's writes wait for the reader, and no event is lost."""
        self.often()
        run = subprocess.Popen([self.command, "run", *self.EVENTS, "--events", "-", "--", "sh",
                                "-c", "sleep 0.3; head -c 200000 /dev/zero"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=self.env, cwd=self.dir)
        self.started.append(run)
        time.sleep(1)
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, err)
        self.assertEqual(out.count(b"\0"), 200000)
        events = [json.loads(line) for line in out.replace(b"\0", b"").splitlines()]
        self.assertGreater(len(events), 10)
        self.assertNotIn(b"left out", err)

    def report_after_output(self, name, mode, kept):
        """--report to standard output, a file opened with @mode, follows the output of the program,
        and keeps the lines that the file had: with r+ (1<>FILE) also a line after these."""
        path = os.path.join(self.dir, "log")
        with open(path, "w") as f:
            f.write(kept + "\n" if mode == "a" else "old\n" * 100000 if mode == "r+" else "")
        with open(path, mode) as f:
            if mode != "a":
                f.write(kept + "\n")
                f.flush()
            subprocess.run([self.command, "run", "--topo", "kary:2,2", "--report", name, "--",
                            "echo", "output"], stdout=f, stderr=subprocess.DEVNULL, env=self.env,
                           check=True, timeout=60)
        with open(path) as f:
            text = f.read()
        self.assertTrue(text.startswith(kept + "\noutput\n{"), (name, mode, text[:80]))
        report, _ = json.JSONDecoder().raw_decode(text[len(kept + "\noutput\n"):])
        self.assertEqual(report["nodes"], 4)
        self.assertEqual(text.endswith("old\n"), mode == "r+")

    def test_topo__writes_the_file_it_read(self):
        one, two = (os.path.join(self.dir, name) for name in ("one.topo", "two.topo"))
        wrote = self.fabemu("topo", "qsnet:40", "--write", one)
        self.assertEqual(wrote.returncode, 0, wrote.stderr)
        done = self.fabemu("topo", one, "--write", two, "--check", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual((got["topo"], got["nodes"], got["switches"], got["levels"]),
                         (one, 40, 11, 2))
        self.assertEqual((got["left_out"], got["loops"], got["checked"]), (0, 0, True))
        self.assertEqual(got["check"], {"cables": 88, "routes": 440, "channels": 96, "waits": 240,
                                        "by_levels": False})
        with open(one) as a, open(two) as b:
            self.assertEqual(a.read().split("level=", 2)[2], b.read().split("level=", 2)[2])
        self.one_line(self.fabemu("topo", one, "--write", "/no/such/dir/x"), 1, "/no/such/dir/x")
        run = self.fabemu("run", "--topo", one, "--report", two, "--", "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(two) as f:
            self.assertEqual(json.load(f)["topo"], one)

    def test_topo_file__error_names_the_line(self):
        path = os.path.join(self.dir, "bad.topo")
        for text, words in ((b'Switch 4 "s"\n[9] "x"[1]\n', ["bad.topo, line 2", "port 9"]),
                            (b"\x7fELF\x02\x01\x01\0\0", ["line 1", "not a text file"]),
                            (b"", ["no Switch line"])):
            with open(path, "wb") as f:
                f.write(text)
            self.one_line(self.fabemu("topo", path), 2, *words)
        self.one_line(self.fabemu("topo", "/no/such.topo"), 2, "cannot read", "No such file")
        self.one_line(self.fabemu("topo", "/dev/zero"), 2, "larger than 128 MiB")

    def test_run__refuses_nodes_of_several_links(self):
        done = self.fabemu("run", "--topo", "qsnet:16,links=2", "--profile", "oq2004", "--", "true")
        self.one_line(done, 2, "2 links", "links=1")

    def test_wrong_value__ends_with_status_2(self):
        """The status does not depend on the option, nor on when the command notices."""
        none, text = os.path.join(self.dir, "none"), os.path.join(self.dir, "a.text")
        with open(text, "w") as f:
            f.write("no network, schedule or recording\n")
        capture = ("--capture", os.path.join(self.dir, "c"), "--capture-filter")
        wrong = [("--topo", none + "/"), ("--topo", text), ("--topo", self.dir),
                 ("--faults", none + "/"), ("--faults", text), ("--faults", self.dir),
                 ("--set", "x"), ("--set", "x=1"), ("--profile", "x"), ("--profile", none + "/"),
                 ("--clock", "x"), ("--cluster", none), ("--cluster", text),
                 (*capture, "link=0:99"), (*capture, "sausage=3"),
                 ("--topo", "qsnet:16,links=2", "--profile", "oq2004")]
        commands = [(command, *words) for command in ("run", "up", "traffic") for words in wrong]
        commands += [("topo", none + "/"), ("topo", "kary:2,2", "--set", "x"),
                     ("cluster", "--check", none), ("fault", "--check", text),
                     ("join", "--cluster", none), ("bench", "--only", "x"),
                     ("figures", "--only", "x"), ("capture", "-w", "x", "--count", "x"),
                     ("web", none + "/"), ("web", text), ("web", self.dir)]
        commands += [(command, "a/b") for command in ("status", "down", "check", "env", "top")]
        for words in commands:
            done = self.fabemu(*words, *(("--", "true") if words[0] == "run" else ()))
            self.assertEqual((done.returncode, done.stdout), (2, ""), (words, done.stderr))
            self.assertIn("fabemu: ", done.stderr)

    def test_network_named_after_a_machine__comes_with_it(self):
        path = os.path.join(self.dir, "r.json")
        for args, profile, why, said in (
                (("--topo", "qsnet:4,links=2"), "qsnet3", "network",
                 "profile qsnet3 (the network's own),"),
                (("--topo", "qsnet:4", "--profile", "oq2004"), "oq2004", "option",
                 "profile oq2004,"),
                (("--topo", "qsnet:4", "--set", "tree_width=3"), "qsnet3", "network", "qsnet3"),
                (("--topo", "kary:2,2"), "oq2004", "default", "profile oq2004,"),
                (("--topo", "kary:2,2", "--profile", "qsnet3"), "qsnet3", "option",
                 "profile qsnet3,")):
            with self.subTest(args=args):
                done = self.fabemu("run", *args, "--report", path, "--", "true")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(said, flat(done.stderr))
                with open(path) as f:
                    got = json.load(f)
                self.assertEqual((got["profile"], got["profile_from"]), (profile, why))
        self.assertEqual(json.loads(self.fabemu("topo", "qsnet:4", "--json").stdout)["profile"],
                         "qsnet3")
        self.assertEqual(self.fabemu("up", "--topo", "qsnet:4",
                                     "q").stdout.split("profile ")[1][:6], "qsnet3")
        traffic = self.fabemu("traffic", "--topo", "qsnet:4", "--pattern", "barrier",
                              "--operations", "2", "--json")
        self.assertEqual(json.loads(traffic.stdout)["profile"], "qsnet3")

    def test_profile_file__overrides_its_base(self):
        path = os.path.join(self.dir, "mine.json")
        with open(path, "w") as f:
            f.write('{"base": "qsnet3", "switch_ps": 50000, "credit": "counter"}')
        got = json.loads(self.fabemu("topo", "kary:2,2", "--json", "--profile", path).stdout)
        self.assertEqual(got["profile"], "mine")
        self.assertEqual(got["zero_load_least_ps"], 600000 + 50000 + 40000 + 256 * 400)
        for text, word in (('{"base": "x"}', "oq2004"), ('{"speed": 1}', "speed"),
                           ('{"credit": "z"}', "row"), ('{"switch_ps": 1.5}', "whole number"),
                           ("[]", "object"), ("{", "not JSON: it ends too early"),
                           ('{"switch_ps": 1', "not JSON: it ends too early"),
                           ('{"base": "qsnet3"} }', "not JSON: unexpected"), ("", "empty")):
            with open(path, "w") as f:
                f.write(text)
            self.one_line(self.fabemu("topo", "kary:2,2", "--profile", path), 2, word)

    # --- a run that goes well -------------------------------------------------------

    def test_run__passes_output_and_exit_status_through(self):
        done = self.fabemu("run", "--", "sh", "-c", "printf 'a\\0b'; echo err >&2; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "a\0b"))
        self.assertIn("err\n", done.stderr)
        self.assertIn("fabemu: report", done.stderr)
        self.assertEqual(self.fabemu("run", "--", "sh", "-c", "kill -SEGV $$").returncode, 139)
        self.assertEqual(self.sockets(), [])

    def test_run__writes_the_promised_report(self):
        path = os.path.join(self.dir, "r.json")
        done = self.fabemu("run", "--topo", "kary:2,2", "--clock", "real", "--threads", "2",
                           "--report", path, "--", "sh", "-c",
                           f"{sys.executable} {self.rank} {self.dir} leave")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path) as f:
            got = json.load(f)
        self.assertEqual(got["command"][:2], ["sh", "-c"])
        self.assertEqual((got["exit_status"], got["topo"], got["profile"], got["digest"]),
                         (0, "kary:2,2", "oq2004", None))
        self.assertEqual(set(got["clock"]), {"mode", "real_time_factor", "worst_lag_ns"})
        self.assertEqual(got["clock"]["mode"], "real")
        self.assertEqual(set(got["segments"]), {"sent", "delivered", "hops"})
        self.assertEqual(set(got["collectives"]), {"allgather", "allreduce", "alltoall", "barrier",
                                                   "broadcast", "gather", "neighbor", "reduce",
                                                   "reduce_scatter", "scan", "scatter"})
        for one in got["collectives"].values():
            self.assertEqual(set(one), {"in_switch", "in_adapter", "elsewhere", "why",
                                        "mechanism"})
        for field in ("threads", "credit_stalls", "dropped"):
            self.assertIsInstance(got[field], int)
        self.assertEqual((got["nodes"], got["switches"], got["died"]), (4, 4, []))
        self.assertEqual(got["processes"]["attached"], 1)

    def test_run__sets_the_environment_and_leaves_what_the_user_set(self):
        env = {**self.env, "OMPI_MCA_btl": "mine", "FI_PROVIDER_PATH": "/mine",
               "FABEMU_SOCKET": "/old", "OMPI_MCA_coll_fabemu_socket": "/old"}
        done = self.fabemu("run", "--name", "e", "--", "env", "-0", env=env)
        got = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
        self.assertEqual(got["FABEMU_SOCKET"], self.socket_path("e"))
        self.assertEqual(got["OMPI_MCA_coll_fabemu_socket"], self.socket_path("e"))
        self.assertEqual(got["OMPI_MCA_btl"], "mine")
        self.assertEqual(got["OMPI_MCA_mtl"], "ofi")
        self.assertEqual(got["FI_PROVIDER"], "fabemu")
        self.assertTrue(got["FI_PROVIDER_PATH"].endswith("/mine"))

    def test_provider_name__is_that_of_the_environment_and_in_the_report(self):
        report = f"{self.dir}/report.json"
        done = self.fabemu("run", "--name", "e", "--provider-name", "cxi", "--report", report, "--",
                           "env", "-0")
        got = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
        for name in ("FABEMU_PROVIDER_NAME", "FI_PROVIDER", "FI_PROViDER",
                     "OMPI_MCA_mtl_ofi_provider_include"):
            self.assertEqual(got[name], "cxi")
        self.assertRegex(done.stderr, "provider .*'cxi', which is fabemu")
        with open(report) as file:
            self.assertEqual(json.load(file)["provider"], "cxi")
        self.up("named", "--provider-name", "verbs")
        self.assertIn("FABEMU_PROVIDER_NAME='verbs'", self.fabemu("env", "named").stdout)
        self.assertIn("FI_PROVIDER='tcp'",
                      self.fabemu("env", "named", "--provider-name", "tcp").stdout)
        self.up("plain")
        self.assertNotIn("FABEMU_PROVIDER_NAME", self.fabemu("env", "plain").stdout)
        for wrong in ("", "1x", "ofi_rxm", "tcp;ofi_rxm", "a" * 32):
            self.one_line(self.fabemu("run", "--provider-name", wrong, "--", "true"), 2,
                          "--provider-name")
            if wrong:
                self.one_line(self.fabemu("run", "--", "true", env={
                    **self.env, "FABEMU_PROVIDER_NAME": wrong}), 2, "FABEMU_PROVIDER_NAME")

    def test_refused_hints__are_in_the_report(self):
        if not shutil.which("fi_info"):
            self.skipTest("needs fi_info")
        report = f"{self.dir}/report.json"
        line = ("fi_info -p fabemu -c FI_HMEM; PMIX_RANK=3 fi_info -p fabemu -c FI_HMEM; "
                "fi_info -p fabemu -t FI_EP_SOCK_STREAM; exit 0")
        done = self.fabemu("run", "--report", report, "--", "sh", "-c", line)
        self.assertRegex(flat(done.stderr), r"refused fi_getinfo\(\) of pid \d+ \(fi_info\) and 1 "
                         r"more process: .* capability .*FI_HMEM")
        with open(report) as file:
            refusals = json.load(file)["refusals"]
        self.assertEqual([(one["processes"], one["rank"]) for one in refusals],
                         [(2, None), (1, None)])
        self.assertEqual(flat(done.stderr).count("the provider does not support"), 2)

    def test_two_runs_at_once__are_separate(self):
        runs = [self.start("run", "--", "sh", "-c", "echo $FABEMU_SOCKET") for _ in range(2)]
        paths = [run.communicate(timeout=30)[0] for run in runs]
        self.assertNotEqual(paths[0], paths[1])
        self.assertEqual([run.returncode for run in runs], [0, 0])

    # --- errors of a newcomer, fabric running ------------------------------------------

    def test_too_many_ranks__are_reported_how_to_get_more(self):
        line = f"{sys.executable} {self.rank} {self.dir} & " * 4
        line += f"until [ -e {self.dir}/rank.0 ] && [ -e {self.dir}/rank.1 ] && "
        line += f"[ -e {self.dir}/rank.2 ] && [ -e {self.dir}/rank.3 ]; do sleep 0.1; done; "
        line += f"{sys.executable} {self.rank} {self.dir}"
        done = self.fabemu("run", "--topo", "kary:2,2", "--name", "full", "--", "sh", "-c", line)
        hint = "all 4 nodes of fabric 'full' (kary:2,2) are taken; start it with more"
        self.assertIn("refused " + hint, done.stdout)
        self.assertIn("--nodes 8", done.stderr.splitlines()[-1])
        self.assertIn(hint, done.stderr.splitlines()[-1])
        self.assertEqual(done.returncode, 3)

    def test_second_fabric_of_the_same_name__is_refused_with_the_owner(self):
        self.up("same")
        for args in (("up", "same"), ("run", "--name", "same", "--", "true")):
            done = self.fabemu(*args)
            self.one_line(done, 1, "'same' is running already",
                          f"pid {self.status('same')['supervisor']}", "fabemu down same")
        self.assertEqual(self.status("same")["name"], "same")
        self.assertIn(f"(pid {self.status('same')['supervisor']})",
                      flat(self.fabemu("status").stdout))

    def test_twins_started_together__one_wins(self):
        twins = [self.start("up", "--foreground", "twin") for _ in range(4)]
        self.assertTrue(until(lambda: sum(t.poll() is not None for t in twins) == 3))
        self.assertEqual(self.fabemu("down", "twin").returncode, 0)
        codes = sorted(twin.wait(timeout=10) for twin in twins)
        self.assertEqual(codes, [0, 1, 1, 1])

    def refused(self, name):
        """Does nobody listen? While its process dies, connections are reset instead."""
        with socket.socket(socket.AF_UNIX) as one:
            return one.connect_ex(self.socket_path(name)) == errno.ECONNREFUSED

    def test_unknown_socket__is_not_removed(self):
        """connect() fails, but not because nobody listens."""
        self.up("first")
        path = self.socket_path("odd")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.bind(path)
            self.one_line(self.fabemu("up", "odd"), 1, "a fabric named 'odd' runs: Protocol wrong")
        self.assertTrue(os.path.exists(path))

    def test_stale_socket__is_removed_with_a_message(self):
        self.up("stale")
        status = self.status("stale")
        os.kill(status["supervisor"], signal.SIGSTOP)
        os.kill(status["pid"], signal.SIGKILL)
        os.kill(status["supervisor"], signal.SIGKILL)
        self.assertTrue(until(lambda: self.refused("stale")))
        self.assertEqual(self.sockets(), ["stale.sock"])
        self.one_line(self.fabemu("down", "stale"), 1, "stale socket", "up")
        done = self.fabemu("run", "--name", "stale", "--", "echo", "hi")
        self.assertEqual((done.returncode, done.stdout), (0, "hi\n"))
        self.assertIn("removed the stale socket of fabric 'stale'", done.stderr)
        self.assertEqual(self.sockets(), [])

    def test_socket__has_its_name_when_it_listens(self):
        """Otherwise a client that waits for the name would sometimes be refused."""
        libc = ctypes.CDLL(None, use_errno=True)
        self.up("before")  # creates the folder
        watch = libc.inotify_init()
        self.addCleanup(os.close, watch)
        self.assertGreaterEqual(
            libc.inotify_add_watch(watch, os.path.dirname(self.socket_path("u")).encode(),
                                   IN_CREATE | IN_MOVED_TO), 0, ctypes.get_errno())
        self.up("u")
        seen, at = {}, 0
        events = os.read(watch, 65536)
        while at < len(events):
            _, mask, _, size = struct.unpack_from("iIII", events, at)
            name = events[at + 16:at + 16 + size].rstrip(b"\0").decode()
            seen.setdefault(name, []).append(mask)
            at += 16 + size
        self.assertEqual(seen.pop("u.sock"), [IN_MOVED_TO])
        # under a temporary name, which is gone
        self.assertEqual(list(seen.values()), [[IN_CREATE]])
        self.assertEqual(sorted(self.sockets()), ["before.sock", "u.sock"])

    def test_no_such_fabric__is_one_line(self):
        for command in ("down", "status", "env"):
            self.one_line(self.fabemu(command, "none"), 1, "no fabric named 'none'")
        self.assertEqual(self.fabemu("status", "none", "--json").stdout, "")

    def test_a_command_without_a_name__is_for_the_only_fabric(self):
        def socket_of_env():
            return re.search(r"/(\w+)\.sock", self.fabemu("env").stdout + "/none.sock")[1]
        if not os.environ.get(ALONE):
            self.skipTest("it needs root, for a view of files of its own")
        self.up("only")
        self.assertEqual(socket_of_env(), "only")
        self.assertEqual(self.fabemu("fault").stdout, "no faults\n")
        self.assertIn("fabric only: ", self.fabemu("top", "--once", "--every", "100ms").stdout)
        self.assertIn("only: right", self.fabemu("check").stdout)
        self.one_line(self.fabemu("status", "onyl"), 1,
                      "no fabric named 'onyl' is running; give the NAME of a running fabric: only")
        self.up("other")
        self.one_line(self.fabemu("env"), 1, "no fabric named 'default'")
        for command in ("top", "--once"), ("fault",), ("check",), ("down",):
            self.one_line(self.fabemu(*command), 1,
                          "give the NAME of a running fabric: only, other")
        self.up("default")
        self.assertEqual(socket_of_env(), "default")
        for name in ("default", "other"):
            self.assertEqual(self.fabemu("down", name).returncode, 0)
        self.up("run-7")  # a name as `fabemu run` gives it
        self.assertEqual(self.fabemu("down").returncode, 0)  # the remaining one of up
        self.one_line(self.fabemu("down"), 1, "fabemu down run-7")
        self.assertEqual(self.fabemu("down", "run-7").returncode, 0)
        self.assertEqual(self.sockets(), [])

    def test_status_of_all__has_a_line_for_each_fabric_and_one_for_left_over_sockets(self):
        for name in ("a", "b"):
            client = self.client(self.up(name))
            self.assertTrue(client.attach()["ok"])
        left = [self.socket_path(name) for name in ("crashed", "gone")]
        for path in left:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(path)
        for command in ("ls", "status"):
            done = self.fabemu(command)
            self.one_line(done, 0, "2 sockets are left over", "the next fabric that starts removes")
            self.assertEqual(re.findall(r"^([ab]): ", done.stdout, re.M), ["a", "b"])
            self.assertNotIn("node 0: pid", done.stdout)
            self.assertEqual(flat(done.stdout).count("1 of 4 nodes attached"), 2)
        self.assertIn("\n  node 0: pid ", self.fabemu("status", "a").stdout)
        self.up("next")
        self.assertEqual(sorted(self.sockets()), ["a.sock", "b.sock", "next.sock"])

    def test_status_of_all__skips_a_fabric_that_ends_meanwhile(self):
        self.up("a")
        os.symlink(self.dir + "/none", self.socket_path("ended"))  # connect() finds no file
        done = self.fabemu("status")
        self.assertNotIn("ended", done.stderr)
        self.assertEqual(done.returncode, 0)
        self.one_line(self.fabemu("status", "ended"), 1, "no fabric named 'ended'")
        os.unlink(self.socket_path("ended"))

    def test_status_of_all__lists_a_fabric_of_several_hosts_on_one_machine_once(self):
        """Hosts that are network namespaces share the folder of sockets. Each agent answers with
        the reply of its coordinator."""
        report = {"topo": "kary:2,2", "threads": 1, "nodes": 4}
        fabrics = {name: FakeFabric(self.socket_path(name)) for name in ("lab.h0", "lab.h1")}
        os.chmod(os.path.dirname(self.socket_path("lab.h0")), 0o700)
        for fabric in fabrics.values():
            fabric.replies["status"] = {"ok": True, "name": "lab.h0", "supervisor": 7,
                                        "attached": [], "report": report}
        lines = [line for line in self.fabemu("status").stdout.splitlines() if "lab" in line]
        self.assertEqual([line.split(", profile")[0] for line in lines], ["lab.h0: kary:2,2"])
        listed = json.loads(self.fabemu("status", "--json").stdout)
        self.assertEqual([one["name"] for one in listed].count("lab.h0"), 1)
        fabrics["lab.h0"].close()  # as on the agent's own machine
        lines = [line for line in self.fabemu("status").stdout.splitlines() if "lab" in line]
        self.assertEqual([line.split(", profile")[0] for line in lines],
                         ["lab.h1 (a host of lab.h0): kary:2,2"])
        self.assertIn("lab.h1 (a host of lab.h0): ", self.fabemu("status", "lab.h1").stdout)
        fabrics["lab.h1"].close()

    def cycle_of(self, attached, *collectives):
        """The lines about cycles that status prints for these processes and collectives, each of
        which is a pair: arrived nodes, and missing ones."""
        listed = [{"group": 1, "number": 1, "kind": "barrier", "for_ns": 2 * 10**9, "members": 4,
                   "arrived": arrived, "missing": [{"node": node} for node in missing]}
                  for arrived, missing in collectives]
        fabric = FakeFabric(self.socket_path("cycle"))
        os.chmod(os.path.dirname(fabric.path), 0o700)
        fabric.replies["status"] = {
            "ok": True, "name": "cycle", "supervisor": 7,
            "report": {"topo": "kary:2,2", "threads": 1, "nodes": 4},
            "standstill": {"for_ns": 9 * 10**9, "collectives": listed},
            "attached": [{"node": node, "rank": node, "pid": 7, "command": "a", "waits": True,
                          **({} if peer is None else
                             {"receive": {"kind": "receive", "node": peer, "tag": 1,
                                          "for_ns": 2 * 10**9}})}
                         for node, peer in attached.items()]}
        lines = self.fabemu("status", "cycle").stdout.splitlines()
        fabric.end()
        return [line.strip() for line in lines if "itself" in line or "cycle" in line[7:]]

    def test_standstill__names_a_cycle_only_of_processes_that_wait(self):
        """A node that is not attached waits for nothing; its number may exceed all others."""
        self.assertEqual(self.cycle_of({0: 1}, ([0], [3])), [])
        self.assertEqual(self.cycle_of({2: 3}, ([0], [2])), [])
        self.assertEqual(self.cycle_of({0: 3, 2: None}, ([2], [0]), ([0], [2])),
                         ["ranks 0, 2 wait for each other in a cycle"])
        self.assertEqual(self.cycle_of({0: None, 2: None}, ([2], [0]), ([0], [2])),
                         ["ranks 0, 2 wait for each other in a cycle"])
        self.assertEqual(self.cycle_of({1: 2, 2: 1}), ["ranks 1-2 wait for each other in a cycle"])
        self.assertEqual(self.cycle_of({1: 1}), ["rank 1 waits for itself"])

    def scripts_package(self, build, seconds=60):
        """Start scripts/package's build with @build, a script for sh."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/package")
        code = ("import importlib.machinery, sys\n"
                "loader = importlib.machinery.SourceFileLoader('package', sys.argv[1])\n"
                "loader.load_module().build_steps(['sh', '-c', sys.argv[2]], int(sys.argv[3]))\n")
        child = subprocess.Popen([sys.executable, "-B", "-W", "ignore", "-c", code, path, build,
                                  str(seconds)], stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def test_scripts_package__shows_the_steps_of_the_build_while_it_runs(self):
        go_on = os.path.join(self.dir, "go-on")
        os.mkfifo(go_on)
        child = self.scripts_package(
            "printf '   dh_auto_configure\\n   dh_auto_build\\n[4/8] cc a.c\\n[6/8] cc 1/8.c\\n';"
            f" read -r x <{go_on}; printf '[8/8] ld\\n  dh_builddeb\\nno disk\\n'; exit 3")
        lines = [child.stderr.readline() for _ in range(5)]
        self.assertEqual(lines, ["package: packing the source ...\n",
                                 "package: configuring the build ...\n",
                                 "package: compiling ...\n",
                                 "package: compiling: 50 % done\n",
                                 "package: compiling: 75 % done\n"])
        with open(go_on, "w") as pipe:
            pipe.write("\n")
        rest = child.stderr.read()
        self.assertEqual(child.wait(), 1)
        self.assertIn("package: packing ...\n", rest)
        self.assertIn("compiling: 100 % done\n", rest)
        self.assertIn("no disk\npackage: status 3 of: sh -c ", rest)

    def test_scripts_package__ends_a_build_that_takes_too_long_with_its_compilers(self):
        child = self.scripts_package("sleep 1000 & echo $! >&2; wait", seconds=1)
        said = child.stderr.read()
        self.assertEqual(child.wait(), 1)
        self.assertIn("package: sh did not finish within 1 s", said)
        self.assertFalse(alive(int(re.search(r"^\d+$", said, re.M)[0])))

    def test_scripts_package__shows_the_time_of_a_step_that_prints_nothing(self):
        os.environ["PROGRESS_SECONDS"] = "1"
        self.addCleanup(os.environ.pop, "PROGRESS_SECONDS")
        child = self.scripts_package("echo dh_builddeb; sleep 4")
        self.assertRegex(child.stderr.read(), r"\npackage: packing: \d+ s so far\n")

    def scripts_run(self, *options, build="#!/bin/sh\n", built=True, mpirun="#!/bin/sh\n"):
        """Run scripts/run of a folder in which nothing needs to be installed, and the check of
        hpcc's results does nothing. @build: scripts/build. @built: build/fabemu exists. @mpirun:
        in the place of hpcc. It must leave no temporary file."""
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        for path, text in (("scripts/run", None), ("scripts/words.bash", None),
                           ("scripts/figures/nearest.py", None), ("apps/cmd/run.c", None),
                           ("apps/cmd/options.c", None), ("apps/cmd/options_fabric.c", None),
                           ("tests/e2e/hpccinf.txt", None),
                           ("scripts/deps", "#!/bin/sh\n"), ("scripts/build", build),
                           ("tests/e2e/hpcc_check.py", ""), ("bin/mpirun", mpirun),
                           ("build/fabemu", f'#!/bin/sh\nexec "{self.command}" "$@"\n')):
            if text is None:
                with open(os.path.join(top, path)) as f:
                    text = f.read()
            os.makedirs(os.path.join(self.dir, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(self.dir, path), "w") as f:
                f.write(text)
            os.chmod(os.path.join(self.dir, path), 0o755)
        if not built:
            os.remove(os.path.join(self.dir, "build/fabemu"))
        for name in ("tmp", "here"):
            os.makedirs(os.path.join(self.dir, name), exist_ok=True)
        path = os.path.join(self.dir, "bin") + os.pathsep + os.environ["PATH"]
        done = subprocess.run([os.path.join(self.dir, "scripts/run"), *options],
                              cwd=os.path.join(self.dir, "here"),
                              env={**self.env, "TMPDIR": os.path.join(self.dir, "tmp"),
                                   "PATH": path},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(os.listdir(os.path.join(self.dir, "tmp")), [])
        return done

    def refused_at_once(self, done, *words):
        """A script has printed one line with the words, and has done nothing else."""
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1),
                         done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_suggestions__follow_one_rule_in_c_and_in_scripts(self):
        names = re.findall(r"^  --([a-z-]+)", self.fabemu("traffic", "--help").stdout, re.M)
        random_word, counts = random.Random(1), collections.Counter()
        letters = "abcdefghijklmnopqrstuvwxyz-"
        for name in names * 3:
            word = name
            for _ in range(random_word.randint(1, 4)):  # change a letter, drop it or add one
                at = random_word.randrange(len(word))
                put = "".join(random_word.choices(letters, k=random_word.randint(0, 2)))
                word = word[:at] + put + word[at + 1:] or "x"
            text = self.fabemu("traffic", "--" + word).stderr
            if "traffic has no option" not in text:
                continue  # it is the beginning of a name
            found = re.findall("did you mean '--(.*)'", text)
            best = nearest.nearest(word, names)
            self.assertEqual(bool(found), bool(best), text)
            if found:  # the order decides between equally similar names
                self.assertEqual(nearest.distance(word, found[0]), nearest.distance(word, best))
            counts[bool(found)] += 1
        self.assertGreater(counts[True], 20)
        self.assertGreater(counts[False], 20)

    def test_suggestions__are_similar(self):
        for words in (["figures", "--foo"], ["figures", "--fast"], ["run", "--foo", "--", "true"],
                      ["traffic", "--foo"], ["fo"], ["run", "--set", "foo=1", "--", "true"]):
            self.assertNotIn("did you mean", self.fabemu(*words).stderr)
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        for script in ("run", "demo", "test", "two-hosts", "build"):
            done = subprocess.run([os.path.join(top, "scripts", script), "--foo"], timeout=60,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.refused_at_once(done, "--foo")
            self.assertNotIn("did you mean", done.stderr)

    def test_scripts_run__with_a_wrong_option_ends_with_2(self):
        for words, wrong in ((("--bogus",), ("'--bogus'",)), (("word",), ("'word'",)),
                             (("--hlep",), ("'--hlep'", "did you mean '--help'?")),
                             (("--seed", "3", "--web", "--rport=x"), ("did you mean '--report'?",)),
                             (("--report",), ("--report needs a value",))):
            done = self.scripts_run(*words, build="#!/bin/sh\necho built >&2\n")
            self.refused_at_once(done, *wrong)

    def test_scripts_run__with_a_wrong_value_ends_before_it_builds(self):
        for words, status, wrong in ((("--topo", "kary:4"), 2, "kary:4"),
                                     (("--nodes", "8"), 2, "--nodes"),  # scripts/run gives --topo
                                     (("--clock", "vritual"), 2, "raw, real or virtual"),
                                     (("--faults", "flpa"), 2, "did you mean 'flap'?"),
                                     (("--report", "/no/such/folder/f"), 1, "/no/such/folder/f")):
            with self.subTest(words=words):
                done = self.scripts_run(*words, build="#!/bin/sh\necho built >&2\n")
                error, hint = done.stderr.splitlines()
                self.assertEqual((done.returncode, done.stdout), (status, ""))
                self.assertIn(wrong, error)
                self.assertIn("scripts/build", hint)
                self.assertEqual(os.listdir(os.path.join(self.dir, "here")), [])
        done = self.scripts_run("--report", "new.json", build="#!/bin/sh\necho built >&2\nexit 5\n")
        self.assertEqual((done.returncode, done.stderr), (5, "built\n"))
        self.assertEqual(os.listdir(os.path.join(self.dir, "here")), [])

    def test_scripts_run__without_a_build__builds_the_command_first_to_check_values(self):
        build = (f"#!/bin/sh\necho built $* >&2\nmkdir -p build\n"
                 f"ln -sf '{os.path.abspath(self.command)}' build/fabemu\n")
        done = self.scripts_run("--topo", "kary:4", build=build, built=False)
        first, error, hint = done.stderr.splitlines()
        self.assertEqual((done.returncode, first), (2, "built --target fabemu"))
        self.assertIn("kary:4", error)
        self.assertIn("scripts/build", hint)

    def test_scripts_run__writes_the_report_to_a_file_of_the_caller(self):
        done = self.scripts_run("--report", "report.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.dir, "here", "report.json")) as f:
            self.assertEqual(json.load(f)["exit_status"], 0)

    def test_scripts_run__writes_only_the_report_to_standard_output(self):
        done = self.scripts_run("--report", "-", build="#!/bin/sh\necho built\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["exit_status"], 0)
        for text in ("built\n", "\n$ fabemu run --topo kary:2,2 --report - -- mpirun",
                     "\nfabemu: report"):
            self.assertIn(text, done.stderr)

    def test_scripts_run__prints_a_line_for_each_section_of_hpcc(self):
        done = self.scripts_run(mpirun='#!/bin/sh\nfor name in HPL STREAM; do\n'
                                       'echo "Begin of $name section." >>"$4/hpccoutf.txt"\n'
                                       'done\nsleep 2\n')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("$ fabemu run --topo kary:2,2 -- mpirun"))
        self.assertEqual(done.stderr.splitlines(),
                         ["run: hpcc: HPL (1 of 17)", "run: hpcc: STREAM (2 of 17)"])

    def test_scripts__name_a_wrong_option_in_a_few_lines(self):
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        for name in ("two-hosts", "deps", "test", "format", "fuzz", "package", "chaos", "slower",
                     "faulttable", "run", "demo", "build"):
            with self.subTest(script=name):
                done = subprocess.run([os.path.join(top, "scripts", name), "--bogus"],
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=60)
                lines = done.stderr.splitlines()
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("--bogus", lines[-1])
                self.assertLess(len(lines), 10)
        for words in (["Trixie"], ["trixie", "sid"]):
            done = subprocess.run([os.path.join(top, "scripts", "other-debian"), *words],
                                  timeout=60, text=True, stdin=subprocess.DEVNULL,
                                  capture_output=True)
            self.refused_at_once(done, "one release", words[-1])
        for name, word, similar in (("test", "tsna", "tsan"), ("test", "--lnog", "--long"),
                                    ("demo", "--headles", "--headless"),
                                    ("build", "--targt", "--target"),
                                    ("build", "--buildtpye=debug", "--buildtype"),
                                    ("two-hosts", "--devcie", "--device")):
            done = subprocess.run([os.path.join(top, "scripts", name), word], timeout=60, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True)
            self.refused_at_once(done, word, f"did you mean '{similar}'?")

    def test_demo__refuses_wrong_numbers(self):
        demo = os.path.join(os.path.dirname(self.command), "apps/demo")
        if not os.path.exists(demo):
            self.skipTest("build/apps/demo does not exist")
        for nodes in "-1", "1", "4x", "65536":
            done = subprocess.run([demo, nodes], text=True, capture_output=True, timeout=20)
            self.assertEqual((done.returncode, done.stderr[:17]), (2, "usage: demo NODES"), nodes)

    def test_scripts_demo__takes_other_networks(self):
        """The networks are small; one has an odd number of nodes, and one has a single switch."""
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        if (os.path.abspath(self.command) != os.path.realpath(os.path.join(top, "build/fabemu")) or
                not os.path.exists(os.path.join(top, "build/apps/demo"))):
            self.skipTest("scripts/demo runs build/fabemu and build/apps/demo")
        demo = [os.path.join(top, "scripts/demo"), "--headless", "--pace", "1", "--seconds"]
        for options, nodes in ((["8", "--topo", "kary:2,2"], 4), (["3", "--nodes", "8"], 9),
                               (["3", "--topo=kary:3,1"], 3)):
            with self.subTest(options=options):
                report = os.path.join(self.dir, f"report.{nodes}")
                done = subprocess.run([*demo, *options, "--report", report], env=self.env,
                                      text=True, stdin=subprocess.DEVNULL, capture_output=True,
                                      timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(report) as f:
                    self.assertEqual(json.load(f)["processes"]["attached"], nodes)
                if options[0] == "8":  # this is too long without a line
                    self.assertRegex(done.stderr, r"(?m)^demo: [a-z -]+, \d+ s so far$")
        done = subprocess.run([*demo, "3", "--topo", "nofile"], env=self.env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        self.one_line(done, 2, "--topo: bad topology 'nofile'")

    def test_status_of_all__reports_that_nothing_runs(self):
        if not os.environ.get(ALONE):
            self.skipTest("it needs root, for a view of files of its own")
        done = self.fabemu("status")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, "no fabric is running\n", ""))

    def test_directory_open_to_others__is_refused(self):
        os.mkdir(os.path.join(self.dir, "fabemu"))
        os.chmod(os.path.join(self.dir, "fabemu"), 0o755)
        self.one_line(self.fabemu("up", "x"), 1, "open to other users", "chmod 700")
        os.rmdir(os.path.join(self.dir, "fabemu"))
        os.symlink(self.dir, os.path.join(self.dir, "fabemu"))
        self.one_line(self.fabemu("up", "x"), 1, "not a directory")
        os.unlink(os.path.join(self.dir, "fabemu"))


if __name__ == "__main__":
    main()
