#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""wide_test.py - networks whose switches have more than 60 ports.

    tests/cli/wide_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import shutil
import subprocess

from cli_helpers import FabemuCase, main

SHORT = ("--warmup", "2000ns", "--measure", "5000ns")
UNIT = "Mellanox Technologies Aggregation Node"
# Puts an MPI program's ranks on ports in each word of a port set.
RANKS = """#!/bin/sh
set -- 5 69 70 127
shift $OMPI_COMM_WORLD_RANK
FABEMU_NODE=$1 exec {} --quick
"""


def star(hosts, ports=None):
    """A switch in ibnetdiscover's format, with hosts at its ports from 1 on."""
    lines = [f'Switch {ports or hosts} "S-1" # "star"']
    lines += [f'[{i + 1}] "H-{i}"[1] # "host{i} HCA-1" lid {i + 2} 4xNDR' for i in range(hosts)]
    lines += [f'Ca 1 "H-{i}" # "host{i} HCA-1"' for i in range(hosts)]
    return "\n".join(lines) + "\n"


def ndr(leaves, spines):
    """Switches with 64 ports and a 65th port for the aggregation unit; 32 hosts on each leaf."""
    lines = []
    for leaf in range(leaves):
        lines.append(f'Switch 65 "S-l{leaf}" # "MF0;leaf{leaf}:MQM9700/U1" enhanced port 0 lid 1')
        lines += [f'[{p + 1}] "H-{leaf}.{p}"[1](1) # "n{leaf}-{p} mlx5_0" lid 3 4xNDR'
                  for p in range(32)]
        lines += [f'[{33 + p}] "S-s{p % spines}"[{leaf * (32 // spines) + p // spines + 1}] '
                  f'# "MF0;spine{p % spines}:MQM9700/U1" lid 2 4xNDR' for p in range(32)]
        lines.append(f'[65] "H-a{leaf}"[1](1) # "{UNIT}" lid 9 4xNDR')
    for spine in range(spines):
        lines.append(f'Switch 65 "S-s{spine}" # "MF0;spine{spine}:MQM9700/U1"')
    for leaf in range(leaves):
        lines += [f'Ca 1 "H-{leaf}.{p}" # "n{leaf}-{p} mlx5_0"' for p in range(32)]
        lines.append(f'Ca 1 "H-a{leaf}" # "{UNIT}"')
    return "\n".join(lines) + "\n"


class WideTest(FabemuCase):
    def file(self, text, name="net.topo"):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def checked(self, topo):
        done = self.fabemu("topo", topo, "--check", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertTrue(got["checked"])
        return got

    def traffic(self, *args, program=None):
        done = subprocess.run([program or self.command, "traffic", *args, "--json"], env=self.env,
                              text=True, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    # --- which networks exist ----------------------------------------------------------------

    def test_networks__of_64_and_128_ports_are_sound(self):
        for spec, nodes, switches in (("clos:radix=64,levels=2", 2048, 96),
                                      ("clos:radix=128,levels=2", 8192, 192),
                                      ("clos:radix=252,levels=1", 252, 1),
                                      ("kary:100,2", 10000, 200)):
            got = self.checked(spec)
            self.assertEqual((got["nodes"], got["switches"]), (nodes, switches), spec)

    def test_files__of_64_and_128_ports_are_read(self):
        got = self.checked(self.file(star(128)))
        self.assertEqual((got["nodes"], got["ports"]), (128, 128))
        got = self.checked(self.file(star(200, 254)))
        self.assertEqual((got["nodes"], got["node_names"][199]["name"]), (200, "host199"))
        got = self.checked(self.file(ndr(8, 4)))
        self.assertEqual((got["nodes"], got["switches"], got["left_out"]), (256, 12, 8))
        self.assertEqual((got["ports"], got["up"], got["rates"]), (65, "distance", {"4xNDR": 512}))

    def test_written__is_read_as_the_same_network(self):
        one, two = (os.path.join(self.dir, name) for name in ("one.topo", "two.topo"))
        done = self.fabemu("topo", "clos:radix=80,levels=2", "--write", one)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.fabemu("topo", one, "--check", "--write", two).returncode, 0)
        with open(one) as a, open(two) as b:
            self.assertEqual(a.read().split("level=", 2)[2], b.read().split("level=", 2)[2])

    def test_files__keep_their_numbers_of_ports(self):
        """Two switches with 64 and 36 ports, of which few have cables."""
        topo = self.file('Switch 64 "S-a" # "MF0;big:X/U1"\n[63] "H-a"[2]\n[64] "S-b"[36]\n'
                         'Switch 36 "S-b"\n[7] "H-b"[1]\nCa 2 "H-a" # "ann HCA-1"\n'
                         'Ca 1 "H-b"\n')
        two = os.path.join(self.dir, "two.topo")
        done = self.fabemu("topo", topo, "--write", two)
        self.assertIn("switches       2 in 2 levels, 36 to 64 ports, including unused ones\n",
                      done.stdout)
        with open(two) as f:
            written = f.read()
        for text in 'Switch\t64 "S-a"', 'Switch\t36 "S-b"', 'Ca\t2 "H-a"', '[63]\t"H-a"[2]\t':
            self.assertIn(text, written)
        self.assertNotIn("guid", written)
        faults = self.file("link-down link=big:64\nlink-down link=ann:2>\n", "names.faults")
        done = self.fabemu("fault", "--check", faults, "--topo", two, "--profile", "qsnet3")
        for text in "0:64-1:36 (big:64, S-b:36)", "0:63<-n0:2 (big:63, ann:2)":
            self.assertIn(text, done.stdout)

    def test_origin__is_the_command_line_of_the_user(self):
        args = ("--topo", "clos:radix=64,levels=1", "--load", "0.1", *SHORT)
        self.assertEqual(self.traffic(*args)["origin"]["command"],
                         [self.command, "traffic", *args, "--json"])

    def test_one_port_more__is_refused(self):
        self.one_line(self.fabemu("topo", "clos:radix=253,levels=1"), 2, "radix must be 2 to 252")
        self.one_line(self.fabemu("topo", "clos:down=200x4,up=53"), 2, "at most 252 ports")
        self.one_line(self.fabemu("topo", "kary:127,2"), 2, "at most 252")
        self.one_line(self.fabemu("topo", self.file(star(253))), 2,
                      '"S-1" has 253 cables; fabemu supports at most 252')

    def test_pipe__is_not_read_twice(self):
        done = subprocess.run([self.command, "topo", "/dev/stdin"], env=self.env, text=True,
                              input=star(128), capture_output=True, timeout=60)
        self.one_line(done, 2, "/dev/stdin", "write the network to a file")

    def test_without_the_program__is_reported(self):
        alone = os.path.join(self.dir, "alone")
        shutil.copy(self.command, alone)
        done = subprocess.run([alone, "topo", "clos:radix=64,levels=1"], env=self.env, text=True,
                              capture_output=True, timeout=60)
        if done.returncode:  # otherwise fabemu-wide is installed on this host
            self.one_line(done, 2, "need the program fabemu-wide, which is not installed")

    # --- how they behave -------------------------------------------------------------------

    def test_small_networks__have_the_digests_of_the_other_program(self):
        for args in (("--topo", "kary:4,2", "--load", "0.7"),
                     ("--topo", "kary:4,2", "--load", "0.7", "--profile", "qsnet3"),
                     ("--topo", "kary:4,2", "--load", "0.5", "--set", "buffers=input"),
                     ("--topo", "kary:4,2", "--load", "0.7", "--set", "buffers=input_xpoint"),
                     ("--topo", "kary:4,2", "--load", "0.7", "--set", "credit=counter"),
                     ("--topo", "kary:4,2", "--load", "0.3", "--pattern", "md")):
            self.assertEqual(self.traffic(*args, *SHORT)["digest"],
                             self.traffic(*args, *SHORT, program=self.command + "-wide")["digest"])

    def test_traffic__is_the_same_with_any_number_of_threads(self):
        for args in (("--load", "0.6"), ("--load", "0.3", "--pattern", "md"),
                     ("--load", "0.5", "--profile", "qsnet3"),
                     ("--load", "0.4", "--set", "buffers=input"),
                     ("--load", "0.5", "--set", "buffers=input_xpoint"),
                     ("--load", "0.5", "--set", "credit=counter")):
            runs = [self.traffic("--topo", "clos:down=66x3,up=66", *args, *SHORT, "--threads", n)
                    for n in ("1", "3")]
            self.assertEqual(runs[0]["digest"], runs[1]["digest"], args)
            self.assertGreater(runs[0]["accepted"], 0.2, args)

    def test_static_routes__use_all_links(self):
        """Links 62 to 64 of a leaf lead to one spine, and links 65 to 67 to another."""
        lines = []
        for leaf in range(2):
            lines.append(f'Switch 68 "S-{leaf}"')
            lines += [f'[{p + 1}] "H-{leaf}.{p}"[1]' for p in range(62)]
            lines += [f'[{63 + p}] "S-{"ab"[p // 3]}"[{3 * leaf + p % 3 + 1}]' for p in range(6)]
        lines += ['Switch 68 "S-a"', 'Switch 68 "S-b"']
        lines += [f'Ca 1 "H-{leaf}.{p}"' for leaf in range(2) for p in range(62)]
        pairs = self.file("".join(f"{i} {66 + i}\n" for i in range(6)), "pairs")
        got = self.traffic("--topo", self.file("\n".join(lines) + "\n"), "--profile", "qsnet3",
                           "--set", "routing=static", "--pattern", "file:" + pairs, "--load",
                           "0.9", "--warmup", "20000ns", "--measure", "100000ns")
        self.assertGreater(got["accepted"], 0.85)

    def test_collectives__are_right(self):
        """Each result is checked by the nodes that receive it."""
        for args in ((), ("--set", "combine_units=5"), ("--set", "combine_order=port"),
                     ("--profile", "qsnet3"), ("--profile", "qsnet3", "--set", "combining=switch")):
            for pattern in ("allreduce", "barrier"):
                self.traffic("--topo", "clos:radix=128,levels=1", "--pattern", pattern,
                             "--operations", "20", *args)

    def test_mpi__is_right(self):
        check = os.path.join(os.path.dirname(self.command), "tests", "mpi_check")
        rank = self.file(RANKS.format(check), "ranks")
        os.chmod(rank, 0o755)
        for args in ((), ("--profile", "qsnet3")):
            done = self.fabemu("run", "--topo", self.file(star(128)), *args, "--", "mpirun",
                               "--allow-run-as-root", "--oversubscribe", "-np", "4", rank)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("0 failed", done.stdout)
            self.assertIn("(host127)", done.stderr)

    def test_faults__of_high_ports(self):
        schedule = self.file("at=2us for=20us link-down link=0:100\n"
                             "at=4us for=20us link-down link=1:127\n", "faults")
        args = ("--topo", "clos:down=64x64,up=64", "--load", "0.3", "--set",
                "link_retry=go_back_n", "--measure", "40000ns", "--faults", schedule)
        runs = [self.traffic(*args, "--threads", n) for n in ("1", "3")]
        self.assertEqual(runs[0]["digest"], runs[1]["digest"])
        self.assertEqual(runs[0]["faults"]["links_lost"], 2)

    def test_running__passes_the_check(self):
        self.up("w", "--topo", "clos:radix=64,levels=2")
        done = self.fabemu("check", "w")
        self.assertEqual((done.returncode, done.stdout.splitlines()[0]), (0, "w: right"))


if __name__ == "__main__":
    main()
