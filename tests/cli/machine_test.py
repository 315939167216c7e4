#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""machine_test.py - a network from ibnetdiscover's output: the fabric uses its names and rates.

   tests/cli/machine_test.py --fabemu build/fabemu [unittest options]
"""
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

from cli_helpers import FabemuCase, flat, main, until

# Two leaves, a spine and four hosts. The last host has a slower cable, and a hostile description.
HOSTS = [("a1", "node01 HCA-1", 0, "4xHDR"), ("a2", "node02 mlx5_0", 0, "4xHDR"),
         ("a3", "node03 HCA-1", 1, "4xHDR"), ("a4", "<img src=x>\x1b[31m", 1, "2xEDR")]
LEAVES = [("2c1", "MF0;leaf1:MSB7700/U1"), ("2c2", "MF0;leaf2:MSB7700/U1")]


def identity(letter, guid):
    return f'"{letter}-{int(guid, 16):016x}"'


def machine():
    lines = ["#", "# Topology file: generated on Fri Nov 20 09:00:00 2026", "#"]
    for number, (guid, title) in enumerate(LEAVES):
        lines += ["", "vendid=0x2c9", f"switchguid=0x{guid}({guid})",
                  f'Switch\t8 {identity("S", guid)}\t\t# "{title}" enhanced port 0 lid 1 lmc 0']
        for i, (host, what, leaf, rate) in enumerate(HOSTS):
            if leaf == number:
                lines.append(f'[{i % 2 + 1}]\t{identity("H", host)}[1]({host}f) \t\t# "{what}" '
                             f'lid {i + 4} {rate}')
        lines.append(f'[8]\t{identity("S", "2cf")}[{number + 1}]\t\t# "spine" lid 9 4xHDR')
    lines += ["", "switchguid=0x2cf(2cf)", f'Switch\t8 {identity("S", "2cf")}\t\t# "spine"']
    for i, (host, what, leaf, rate) in enumerate(HOSTS):
        lines += ["", f"caguid=0x{host}", f'Ca\t1 {identity("H", host)}\t\t# "{what}"',
                  f'[1]({host}f) \t{identity("S", LEAVES[leaf][0])}[{i % 2 + 1}]'
                  f'\t\t# lid 4 lmc 0 "leaf" lid 1 {rate}']
    return "\n".join(lines) + "\n"


class MachineTest(FabemuCase):
    def setUp(self):
        super().setUp()
        self.topo = os.path.join(self.dir, "machine.topo")
        with open(self.topo, "w") as f:
            f.write(machine())

    def pair(self, src, dst, *args):
        """The latency of a message of one segment in an empty network."""
        path = os.path.join(self.dir, "pair")
        with open(path, "w") as f:
            f.write(f"{src} {dst}\n")
        done = self.fabemu("traffic", "--topo", self.topo, "--pattern", "file:" + path, "--load",
                           "0.0005", "--warmup", "1ns", "--measure", "2000000ns", "--json", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        latency = json.loads(done.stdout)["latency_ns"]
        self.assertEqual(latency["min"], latency["max"])
        return latency["min"], done.stderr

    def test_topo__shows_names_and_rates(self):
        done = self.fabemu("topo", self.topo, "--json", "--check")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = json.loads(done.stdout)
        self.assertEqual([one["name"] for one in got["node_names"]],
                         ["node01", "node02", "node03", "<img src=x>?[31m"])
        self.assertEqual([one["name"] for one in got["switch_names"]], ["leaf1", "leaf2", "spine"])
        self.assertEqual(got["switch_names"][0]["guid"], "0x00000000000002c1")
        self.assertEqual(got["rates"], {"4xHDR": 5, "2xEDR": 1})
        self.assertIn("5 of 4xHDR, 1 of 2xEDR; each runs at its rate, the fastest at 25.00 GB/s",
                      flat(self.fabemu("topo", self.topo).stdout))
        self.assertIn("all run at 1.25 GB/s, as the profile says",
                      flat(self.fabemu("topo", self.topo, "--profile", "oq2004").stdout))

    def test_topo__names_a_rate_that_is_not_known(self):
        with open(self.topo, "w") as f:
            f.write(machine().replace("4xHDR", "4xFOO"))
        self.one_line(self.fabemu("topo", self.topo), 0,
                      "5 links have a rate that is not known, for example 4xFOO")

    def test_topo__counts_have_groups_of_three_digits(self):
        with open(self.topo, "w") as f:
            f.write(re.sub(r"(?m)^(\[.*)$", r"\1 4xQDR",
                           self.fabemu("topo", "kary:32,2", "--write", "-").stdout))
        self.assertIn("2,048 of 4xQDR", flat(self.fabemu("topo", self.topo).stdout))

    def test_topo__writes_names_and_rates(self):
        two = os.path.join(self.dir, "two.topo")
        self.assertEqual(self.fabemu("topo", self.topo, "--write", two).returncode, 0)
        one, again = (json.loads(self.fabemu("topo", name, "--json").stdout)
                      for name in (self.topo, two))
        for field in ("rates", "node_names", "switch_names"):
            self.assertEqual(one[field], again[field])

    def test_latency__follows_the_cables(self):
        """1300 ns in each adapter, 90 per switch, 20 per cable, 256 bytes of 40 ps each."""
        base = 2600 + 90 + 2 * 20
        latency, said = self.pair(0, 1)
        self.assertEqual(latency, base + 10.24)
        self.assertIn("cables: 5 of 4xHDR, 1 of 2xEDR; each runs at its rate", said)
        # A slower cable takes 160 ps per byte, in either direction.
        self.assertEqual(self.pair(2, 3)[0], base + 40.96)
        self.assertEqual(self.pair(3, 2)[0], base + 40.96)
        self.assertEqual(self.pair(3, 0)[0], base + 2 * 110 + 40.96)

    def test_latency__follows_a_given_profile(self):
        for option in ("--profile", "oq2004"), ("--set", "link_ps_per_byte=800"):
            latency, said = self.pair(2, 3, *option)
            self.assertEqual(latency, 2934.8)
            self.assertIn("all run at 1.25 GB/s, as the profile says", said)

    def test_slow_link__is_slow_in_addition(self):
        faults = os.path.join(self.dir, "slow")
        with open(faults, "w") as f:
            f.write("at=0 slow-link link=1:8 factor=2\n")  # leaf2 to the spine
        self.assertEqual(self.pair(3, 0, "--faults", faults)[0],
                         2600 + 3 * 90 + 4 * 20 + 40.96 + 10.24)

    def test_traffic__takes_names_of_nodes(self):
        args = ("traffic", "--topo", self.topo, "--load", "0.3", "--measure", "20us", "--json")
        path = os.path.join(self.dir, "pairs")
        with open(path, "w") as f:
            f.write("node01 node03\nnode02 0\n")
        for name, number in (("hotspot:node03:0.5", "hotspot:2:0.5"),
                             ("hotspot:H-00000000000000a3", "hotspot:2"),
                             (f"file:{path}", None)):
            done = self.fabemu(*args, "--pattern", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            if number:
                same = self.fabemu(*args, "--pattern", number)
                self.assertEqual(json.loads(done.stdout)["digest"],
                                 json.loads(same.stdout)["digest"])
        done = self.fabemu(*args, "--pattern", "hotspot:nod03")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"no node nod03; .*; did you mean 'node03'\?")

    def test_node__is_given_to_a_process_by_name_or_number(self):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        path = os.path.join(self.dir, "r.json")
        done = self.fabemu("run", "--topo", self.topo, "--report", path, "--", "sh", "-c",
                           'FABEMU_NODE=node02 "$0" 2 | sed "s/^/named: /" & '
                           'FABEMU_NODE=0 "$0" 2; wait', example)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path) as f:  # the nodes are at ports 1 and 2 of leaf1
            self.assertRegex(json.load(f)["link_load"]["most_at"],
                             r"switch 0:(1 to node 0|2 to node 1)|"
                             r"node (0 to switch 0:1|1 to switch 0:2)")
        self.assertIn("named: node 1: the sum of all is 1", done.stdout)
        for node, words in (("nod02", ("no node nod02", "did you mean 'node0")),
                            ("99", ("no node 99; ", " has nodes 0 to 3")),
                            ("-1", ("no node -1; ",))):
            self.env["FABEMU_NODE"] = node
            done = self.fabemu("run", "--topo", self.topo, "--", example, "2")
            self.assertEqual(done.returncode, 1, done.stderr)
            for who, word in itertools.product(("example: attach", "fabemu"), words):
                self.assertRegex(done.stderr, f"(?m)^{who}: FABEMU_NODE: there is .*{word}")
            self.assertIn("1 attempt to attach failed", done.stderr)

    def test_traffic_class__is_checked(self):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        both = 'FABEMU_NODE=1 "$0" 2 & FABEMU_NODE=0 "$0" 2; wait'
        for tclass in ("bulk", "default", "latency", ""):
            self.env["FABEMU_TCLASS"] = tclass
            done = self.fabemu("run", "--topo", "qsnet:4", "--", "sh", "-c", both, example)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.env["FABEMU_TCLASS"] = "fast"
        done = self.fabemu("run", "--topo", "qsnet:4", "--", example, "2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("FABEMU_TCLASS is 'fast': it must be default, bulk or latency", done.stderr)

    def test_numbers_in_the_environment__are_checked(self):
        example = os.path.join(os.path.dirname(self.command), "apps", "example")
        both = 'FABEMU_NODE=1 "$0" 2 & FABEMU_NODE=0 "$0" 2; wait'
        for name, value in itertools.product(("FABEMU_EAGER_BYTES", "FABEMU_PEER_TIMEOUT_MS"),
                                             ("-1", "+5", "1e9", "many", " 7")):
            self.env[name] = value
            done = self.fabemu("run", "--topo", self.topo, "--", example, "2")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{name} is '{value}': it must be a whole number", done.stderr)
            del self.env[name]
        for name, value in (("FABEMU_EAGER_BYTES", "0x100"), ("FABEMU_EAGER_BYTES", "9" * 30),
                            ("FABEMU_PEER_TIMEOUT_MS", "off"), ("FABEMU_EAGER_BYTES", "")):
            self.env[name] = value
            done = self.fabemu("run", "--topo", self.topo, "--", "sh", "-c", both, example)
            self.assertEqual(done.returncode, 0, done.stderr)
            del self.env[name]

    def test_throughput__is_not_bound_by_credits(self):
        path = os.path.join(self.dir, "pair")
        with open(path, "w") as f:
            f.write("0 1\n")
        done = self.fabemu("traffic", "--topo", self.topo, "--pattern", "file:" + path, "--load",
                           "0.9", "--warmup", "20000ns", "--measure", "100000ns", "--json")
        self.assertAlmostEqual(json.loads(done.stdout)["accepted"], 0.9, delta=0.03)

    def test_digest__is_the_same_for_any_number_of_threads(self):
        digests = {json.loads(self.fabemu("traffic", "--topo", self.topo, "--load", "0.4",
                                          "--warmup", "5000ns", "--measure", "50000ns", "--json",
                                          "--threads", threads).stdout)["digest"]
                   for threads in ("1", "2", "3")}
        self.assertEqual(len(digests), 1)

    @unittest.skipUnless(shutil.which("mpirun"), "needs Open MPI")
    def test_run__names_nodes_in_its_report(self):
        report = os.path.join(self.dir, "report.json")
        ring = os.path.join(os.path.dirname(self.command), "tests", "mpi_ring")
        done = self.fabemu("run", "--topo", self.topo, "--clock", "real", "--report", report, "--",
                           "mpirun", "-np", "2", ring)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cables: 5 of 4xHDR, 1 of 2xEDR", done.stderr)
        with open(report) as f:
            got = json.load(f)
        self.assertEqual(got["up"], "distance")
        self.assertEqual(got["communication"]["messages"]["names"], {"0": "node01", "1": "node02"})

    def test_status__names_nodes(self):
        path = self.up("u", "--topo", self.topo)
        client = self.client(path)
        self.assertTrue(client.attach(1)["ok"])
        self.assertIn("node 1 (node02): pid ", self.fabemu("status", "u").stdout)

    def test_fault__takes_names(self):
        self.up("u", "--topo", self.topo, "--profile", "qsnet3")
        done = self.fabemu("fault", "--name", "u", "for=60s", "link-down", "switch=leaf1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("switch=leaf1", self.fabemu("fault", "--name", "u").stdout)
        self.one_line(self.fabemu("fault", "--name", "u", "node-freeze", "node=nobody"), 2,
                      "node=nobody: there is no node nobody")

    def dry_run(self, fault):
        schedule = os.path.join(self.dir, "schedule")
        with open(schedule, "w") as f:
            f.write(fault + "\n")
        return self.fabemu("fault", "--check", schedule, "--topo", self.topo, "--profile",
                           "qsnet3")

    def test_fault__takes_links_by_name_with_the_ports_of_the_file(self):
        for fault, cable in (("link=leaf1:8>", "0:8->2:1 (leaf1:8, spine:1)"),
                             ("link=spine:2", "2:2-1:8 (spine:2, leaf2:8)"),
                             ("link=node03", "1:1-n2:1 (leaf2:1, node03:1)"),
                             ("link=node03:1<", "1:1->n2:1 (leaf2:1, node03:1)"),
                             ("link=S-00000000000002c1:2", "0:2-n1:1 (leaf1:2, node02:1)"),
                             ("link=0:8", "0:8-2:1 (leaf1:8, spine:1)"),
                             ("link=n2:1", "1:1-n2:1 (leaf2:1, node03:1)")):
            done = self.dry_run("link-down " + fault)
            self.assertEqual((done.returncode, done.stderr), (0, ""), fault)
            self.assertEqual(done.stdout.splitlines()[-2:],
                             [f"link-down {fault}", f"    # 1 cable: {cable}"])
        for fault, words in (("link=leaf1", ("is a switch", "link=leaf1:PORT")),
                             ("link=leaf1:7", ("leaf1:7", "no cable")),
                             ("link=node03:2", ("node03:2", "no cable")),
                             ("link=laef1:8", ("no switch or node", "did you mean 'leaf1'?")),
                             ("link=0:7", ("no cable", "switch 0 (leaf1)")),
                             ("link=n0:0", ("no link 0", "node 0 (node01)", "network's file"))):
            self.one_line(self.dry_run("link-down " + fault), 2, *words)

    def test_ports__have_the_numbers_of_the_file_in_all_output(self):
        self.up("u", "--topo", self.topo, "--profile", "qsnet3")
        cables = {"leaf1:1 - node01:1", "leaf1:2 - node02:1", "leaf1:8 - spine:1",
                  "leaf2:1 - node03:1", "leaf2:2 - ~c=x>?[31m:1", "leaf2:8 - spine:2"}
        shown = self.fabemu("top", "--once", "--page", "links", "u").stdout
        self.assertEqual(set(re.findall(r"\S+:\d+ - (?:\S+ )?\S+:\d+", shown)), cables)
        metrics = self.fabemu("status", "--metrics", "u").stdout
        self.assertEqual(set(re.findall(r'port_packets_transmitted_total{(device="\w+",port="\d+")',
                                        metrics)),
                         {f'device="{device}",port="{port}"' for device, port in (
                             ("switch0", 1), ("switch0", 2), ("switch0", 8), ("switch1", 1),
                             ("switch1", 2), ("switch1", 8), ("switch2", 1), ("switch2", 2),
                             ("node0", 1), ("node1", 1), ("node2", 1), ("node3", 1))})
        # a cable that is copied from the output of top is the cable that the fault acts on
        self.fabemu("fault", "--name", "u", "link-down", "link=leaf1:8")
        self.assertTrue(until(lambda: re.search(
            r"leaf1:8 - spine:1 +down", self.fabemu("top", "--once", "--page", "links",
                                                    "u").stdout)))

    def test_fault__shows_names_in_the_dry_run(self):
        self.assertIn("# 1 switch: 1 (leaf2)", self.dry_run("switch-crash switch=leaf2").stdout)
        self.assertIn("# 2 nodes: 0 (node01) 1 (node02)",
                      self.dry_run("node-freeze nodes=0-1").stdout)
        self.one_line(self.dry_run("node-freeze node=nod01"), 2, "did you mean 'node01'?")

    def test_fault__takes_nodes_by_name_in_lists_and_rules(self):
        for fault, printed in (("loss link=any from=node02 to=2", "from=node02 to=node03"),
                               ("node-freeze nodes=node01,2", "nodes=0,2"),
                               ("partition nodes=node03", "node=node03")):
            self.assertIn(printed + "\n", self.dry_run(fault).stdout)
        for fault in "loss link=any to=nod01", "node-freeze nodes=0-1,nod01":
            self.one_line(self.dry_run(fault), 2, "there is no node nod01",
                          "did you mean 'node01'?")
        self.up("u", "--topo", self.topo, "--profile", "qsnet3")
        done = self.fabemu("fault", "u", "loss", "link=any", "from=node02", "nth=9")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("from=node02", self.fabemu("fault", "u").stdout)

    def interfaces(self, *options, option=3):
        """The descriptions of a capture's interfaces, or their names (option 2)."""
        capture = os.path.join(self.dir, "c.pcapng")
        done = self.fabemu("run", "--topo", self.topo, "--capture", capture, *options, "--",
                           "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(capture, "rb") as f:
            data = f.read()
        about = []
        while data:  # blocks: kind, length, body, length; options of an interface start at byte 8
            kind, length = struct.unpack_from("<II", data)
            at = 16
            while kind == 1:
                code, size = struct.unpack_from("<HH", data, at)
                if not code:
                    break
                if code == option:
                    about.append(data[at + 4:at + 4 + size].decode())
                at += 4 + (size + 3) // 4 * 4
            data = data[length:]
        return about

    def test_switches_of_several_sizes__use_the_memory_of_the_largest(self):
        with open(self.topo) as f:
            text = f.read()
        self.assertNotIn("is emulated", self.fabemu("topo", self.topo).stdout)
        larger = os.path.join(self.dir, "larger.topo")
        with open(larger, "w") as f:
            f.write(re.sub(r'Switch\t8 ("S-0+2cf")', r"Switch\t12 \1", text))
        found = flat(self.fabemu("topo", larger).stdout)
        self.assertIn(", 8 to 12 ports, including unused ones ", found)
        self.assertIn(" per switch (each is emulated with 12 ports), ", found)
        with open(larger, "w") as f:
            f.write(re.sub(r'Switch\t8 ("S-0+2cf")', r"Switch\t129 \1", text))
        found = flat(self.fabemu("topo", larger).stdout)
        self.assertIn(", 8 to 129 ports, including unused ones ", found)
        self.assertIn(" (each is emulated with 8 ports, enough for the used ones), ", found)

    def test_full__error_suggests_no_number_of_nodes(self):
        done = self.fabemu("up", "--topo", self.topo, "u")
        self.assertEqual(done.returncode, 0, done.stderr)
        clients = [self.client(self.socket_path("u")) for _ in range(5)]
        *_, refused = [client.attach() for client in clients]
        self.assertIn("take a network with more nodes, or fewer processes", refused["error"])
        self.assertNotIn("--nodes", refused["error"])

    def test_capture__describes_interfaces(self):
        about = self.interfaces()
        self.assertIn("leaf1>spine, up", about)
        self.assertIn("leaf1>node01, down", about)

    def test_capture_filter__takes_links_by_name(self):
        self.assertEqual(sorted(self.interfaces("--capture-filter", "link=leaf2:8")),
                         ["leaf2>spine, up", "spine>leaf2, down"])
        self.assertEqual(sorted(self.interfaces("--capture-filter", "link=leaf2:8", option=2)),
                         ["1:8>2:2", "2:2>1:8"])

    def test_capture_filter__takes_nodes_by_name(self):
        for term in "node=node03", "nodes=node03", "nodes=node03,2 from=node01 to=2":
            self.assertEqual(sorted(self.interfaces("--capture-filter", term)),
                             ["leaf2>node03, down", "node03>leaf2, up"])
        for term in "from=nod03", "to=nod03", "nodes=nod03":
            self.one_line(self.fabemu("run", "--topo", self.topo, "--capture",
                                      os.path.join(self.dir, "c.pcapng"), "--capture-filter", term,
                                      "--", "true"), 2, "there is no node nod03",
                          "did you mean 'node03'?")

    @unittest.skipUnless(shutil.which("tshark"), "needs tshark")
    def test_tshark__shows_names(self):
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        capture = os.path.join(self.dir, "c.pcapng")
        done = self.fabemu("traffic", "--topo", self.topo, "--pattern", "complement", "--load",
                           "0.1", "--measure", "5us", "--capture", capture)
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = [word for name in ("_ws.col.Source", "_ws.col.Destination", "_ws.col.Info",
                                    "fabemu.link.names") for word in ("-e", name)]
        lines = subprocess.run(
            ["tshark", "-2", "-r", capture, "-X", f"lua_script:{top}/apps/capture/fabemu.lua",
             "-T", "fields", *fields], env=dict(self.env, HOME=self.dir, XDG_CONFIG_HOME=self.dir),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
        self.assertRegex(lines, "(?m)^node02\tnode03\tleaf1:8>spine:1: unicast node02 > node03, .*"
                         "\tleaf1:8>spine:1$")

    def test_ring__warns_that_its_routes_use_few_switches(self):
        ring = os.path.join(self.dir, "ring.topo")
        with open(ring, "w") as f:
            for i in range(6):
                f.write(f'Switch 4 "s{i}"\n[1] "h{i}"[1]\n[2] "s{(i + 1) % 6}"[3]\n')
            for i in range(6):
                f.write(f'Ca 1 "h{i}"\n')
        for command in ("traffic", "--topo", ring, "--load", "0.1", "--measure", "20000ns"), \
                ("run", "--topo", ring, "--", "true"):
            said = self.fabemu(*command).stderr
            self.assertTrue(re.search("routes: the cables do not form a tree, so many routes may "
                                      "share few switches; up is ", said), said)


if __name__ == "__main__":
    main()
