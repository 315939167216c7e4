#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""inject_test.py - faults under an unmodified MPI program, and on a running fabric: results stay
right, and reports are complete.

   tests/cli/inject_test.py --fabemu build/fabemu [unittest options]
"""
import contextlib
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys

from cli_helpers import ALONE, ATTACH, FabemuCase, flat, main, stopped, until

ROUNDS = os.path.join("tests", "mpi_rounds")
ENOUGH = 200  # rounds: with one segment in a thousand hit there are tens of hits by then
NETWORK = ("--topo", "kary:2,3", "--profile", "qsnet3")
ROUTERS = (("--profile", "qsnet3"), ("--profile", "oq2004"),
           ("--profile", "oq2004", "--set", "credit=counter"),
           ("--profile", "oq2004", "--set", "buffers=input"),
           ("--profile", "oq2004", "--set", "buffers=input_xpoint"),
           ("--profile", "oq2004", "--set", "link_retry=go_back_n"))
COMBINERS = ("--profile", "oq2004"), ("--profile", "qsnet3", "--set", "combining=switch")
UNIT_FAILED = r"MPI_\w+ on MPI_COMM_WORLD failed in the fabric: the combine unit of switch \d+"
WEATHER = """# Links go and come, a top switch dies and is back, and one packet in a thousand is
# damaged or lost.
at=100ms every=100ms for=40ms link-down random
at=500ms for=500ms switch-crash top
loss link=any rate=0.001
bit-errors link=any rate=0.001
"""


class InjectTest(FabemuCase):
    def write(self, text):
        path = os.path.join(self.dir, "my.faults")
        with open(path, "w") as f:
            f.write(text)
        return path

    def rounds(self, *options, seconds=2, least=0):
        """Run the MPI program over a fabric, for this time and at least this many rounds: returns
        its output and the report. For faults that need no time only the rounds count."""
        report = os.path.join(self.dir, "report.json")
        program = os.path.join(os.path.dirname(self.command), ROUNDS)
        done = self.fabemu("run", *NETWORK, "--report", report, *options, "--", "mpirun", "-np",
                           "4", program, "--seconds", str(seconds), "--rounds", str(least))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report) as f:
            return done.stdout, json.load(f)

    def start_fabric(self, *options):
        done = self.fabemu("up", *options, "mine")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def fault(self, *words):
        return self.fabemu("fault", "--name", "mine", *words)

    def test_mpi_program__is_right_while_links_flap_and_a_top_switch_dies(self):
        events = os.path.join(self.dir, "events.json")
        printed, report = self.rounds("--faults", self.write(WEATHER), "--events", events)
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        links, faults = report["links"], report["faults"]
        self.assertGreater(links["lost"], 5)
        self.assertGreater(links["up_again"], 5)
        self.assertGreater(links["new_tables"], 5)
        self.assertGreater(links["recovery_longest_ns"], 0)
        self.assertEqual([fault["times"] > 0 for fault in faults], [True] * 4)
        self.assertGreater(faults[2]["hits"] + faults[3]["hits"], 0)
        self.assertGreater(report["transport"]["retransmissions"], 0)
        with open(events) as f:
            logged = [json.loads(line) for line in f]
        self.assertEqual(sum(event["event"] == "hit" for event in logged), report["hits_logged"])
        hit = next(event for event in logged if event["event"] == "hit" and "operation" in event)
        self.assertRegex(hit["cable"], r"^switch \d+:\d+ (->|<-) (switch|node) \d+:\d$")
        self.assertLess(hit["from"], 8)

    def test_copies__cost_no_packet(self):
        printed, report = self.rounds("--faults", self.write("duplicate link=any rate=0.5\n"),
                                      seconds=0, least=ENOUGH)
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        transport = report["transport"]
        self.assertLess(transport["retransmissions"], transport["packets"] / 20)

    def test_link_level_retry__repairs_faults_of_crosspoint_networks(self):
        printed, report = self.rounds("--profile", "oq2004", "--set", "link_retry=go_back_n",
                                      "--faults",
                                      self.write("loss link=any rate=0.001\n"
                                                 "bit-errors link=any rate=0.001\n"),
                                      seconds=0, least=ENOUGH)
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        self.assertEqual(report["dropped"], 0)
        self.assertGreater(report["faults"][0]["hits"], 0)

    def test_crosspoints__mpi_program_is_right_while_links_flap(self):
        printed, report = self.rounds("--profile", "oq2004", "--set", "link_retry=go_back_n",
                                      "--faults",
                                      self.write(WEATHER.replace("for=500ms switch-crash",
                                                                 "switch-crash")))
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        links = report["links"]
        self.assertEqual(report["dropped"], 0)
        self.assertGreater(links["lost"], 5)
        self.assertGreater(links["new_tables"], 5)
        self.assertEqual(links["groups_without_tree"], 0)

    def test_crosspoints__a_group_survives_the_loss_of_a_tree_link(self):
        def trees_moved(link):  # one of the two links up from half of the ranks
            fault = self.write(f"on=multicast:3 link-down link={link}\n")
            printed, report = self.rounds(*ROUTERS[-1], "--faults", fault, seconds=1)
            self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
            self.assertEqual((report["dropped"], report["links"]["out_now"]), (0, 1))
            self.assertEqual(report["links"]["groups_without_tree"], 0)
            return report["links"]["trees_moved"]
        self.assertTrue(any(map(trees_moved, ("0:2", "0:3"))))

    def test_fault__without_hits_is_reported(self):
        _, report = self.rounds("--faults", self.write("loss link=any nth=1000000000\n"
                                                       "at=1000s link-down link=0:2\n"),
                                seconds=0, least=ENOUGH)
        self.assertEqual([fault["hits"] for fault in report["faults"]], [0, 0])
        self.assertEqual(report["faults"][1]["times"], 0)

    def test_report__shows_that_traffic_was_rerouted(self):
        path = os.path.join(self.dir, "rounds.faults")
        with open(path, "w") as f:
            f.write("link-down link=0:2\n")
        program = os.path.join(os.path.dirname(self.command), ROUNDS)
        done = self.fabemu("run", *NETWORK, "--faults", path, "--", "mpirun", "-np", "4", program,
                           "--seconds", "0", "--rounds", str(ENOUGH))
        self.assertRegex(flat(done.stderr), r" fault 1 link-down link=0:2: 1 time, packets hit in "
                         r"transit: \d+; routes were changed ")

    def test_hits__are_segments_without_acknowledgments(self):
        network = ("--topo", "kary:2,2", "--set", "link_retry=go_back_n")
        self.start_fabric(*network)
        client = self.client(self.socket_path("mine"))
        self.assertTrue(client.ask("fault", fault="link-down link=0:2")["ok"])
        fault, = client.ask("faults")["faults"]
        self.assertEqual(fault["hits_are"], "segments hit in transit")
        path = self.write("at=1us for=1us link-down link=0:2\n")
        done = self.fabemu("traffic", *network, "--measure", "5us", "--faults", path)
        self.assertRegex(done.stdout, r"(?m)^  faults       hit \d+ segments; ")

    def test_faults__without_new_tables_have_no_time_of_them(self):
        path = self.write("at=1us for=1us stuck-port link=0:2\n")
        done = self.fabemu("traffic", "--topo", "kary:2,2", "--measure", "5us", "--faults", path)
        self.assertRegex(done.stdout, r"(?m)^  faults       .* 0 taken out$")

    def test_node_kill__reports_empty_nodes(self):
        self.start_fabric(*NETWORK)
        client = self.client(self.socket_path("mine"))
        rank = subprocess.Popen([sys.executable, self.rank, self.dir], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL,
                                env={**self.env, "FABEMU_SOCKET": self.socket_path("mine")})
        self.started.append(rank)
        self.assertTrue(until(self.rank_pids))
        node, = self.rank_pids()
        for kind in ("node-kill", "for=1s node-freeze"):
            reply = client.ask("fault", fault=f"{kind} node={(node + 1) % 8}")
            self.assertIn("no process is attached", reply["note"])
        self.assertNotIn("note", client.ask("fault", fault=f"node-kill node={node}"))
        self.assertEqual(rank.wait(), -signal.SIGKILL)
        killed = client.ask("faults")["faults"][-1]
        self.assertEqual((killed["hits"], killed["hits_are"]), (1, "processes killed"))

    def test_live__is_injected_listed_and_cleared(self):
        self.start_fabric(*NETWORK)
        self.assertEqual(self.fault().stdout, "no faults\n")
        self.assertEqual(self.fabemu("fault", "mine").stdout, "no faults\n")
        self.assertEqual(self.fault("link-down", "link=0:2").stdout, "fault 1\n")
        self.assertRegex(self.fault().stdout,
                         "^FAULT STATE       TIMES TARGETS      HITS  TEXT\n"
                         "    1 active          1       1         0  link-down link=0:2\n$")
        status = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]["report"]
        self.assertEqual(status["links"]["out_now"], 1)
        self.assertEqual(self.fault("--clear", "1").stdout, "fault 1 is over\n")

        def is_back():
            links = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]["report"]["links"]
            return links["out_now"] == 0 and links["up_again"] == 1
        self.assertTrue(until(is_back))
        self.assertIn("over", self.fault().stdout)

    def test_live__first_word_is_a_fabric_or_a_fault(self):
        self.start_fabric(*NETWORK)
        for i, words in enumerate((("mine", "link-down", "link=0:2"),
                                   ("mine", "for=10s", "link-down", "random"),
                                   ("--name", "mine", "link-down", "link=0:3"))):
            self.assertEqual(self.fabemu("fault", *words).stdout, f"fault {i + 1}\n")
        self.assertEqual(self.fabemu("fault", "mine", "--clear", "1").returncode, 0)
        if os.environ.get(ALONE):  # no name: the user's only fabric
            self.assertEqual(self.fabemu("fault", "link-down", "link=0:2").stdout, "fault 4\n")
            self.one_line(self.fabemu("fault", "random", "link-down"), 2,
                          "'mine': random is before")
        self.one_line(self.fabemu("fault", "other", "link-down", "link=0:2"), 1, "'other'")
        self.one_line(self.fabemu("fault", "mine", "link-dwn", "link=0:2"), 2, "link-dwn")
        self.one_line(self.fabemu("fault", "mine", "link=0:2", "--clear", "1"), 2,
                      "give either a fault, or")

    def test_live__very_frequent_faults_keep_the_fabric_responsive(self):
        self.start_fabric(*NETWORK)
        for words in (("every=1ns", "adapter-reset", "node=0"),
                      ("link-flap", "link=0:2", "down=1ns", "up=1ns")):
            self.assertEqual(self.fault(*words).returncode, 0)
        for _ in range(5):
            self.assertIn("active", self.fault().stdout)
        self.assertEqual([self.fault("--clear", n).returncode for n in "12"], [0, 0])

    def test_live__refuses_impossible_faults(self):
        self.start_fabric(*NETWORK)
        for words, right in ((("link-down", "link=99:2"), "switch"),
                             (("link-dwon", "link=0:2"), "link-down"),
                             (("combine-flip", "switch=0"), "combin"),
                             (("--clear", "7"), "no fault with that number"),
                             (("--clear", "x"), "number of a fault")):
            with self.subTest(words=words):
                done = self.fault(*words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(right, done.stderr)
        done = self.fabemu("fault", "--name", "nobody", "link-down", "link=0:2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody", done.stderr)

    def test_crosspoints__error_says_what_a_fault_needs(self):
        self.start_fabric("--topo", "kary:2,2")
        done = self.fault("link-down", "link=0:2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("acknowledge", done.stderr)

    def test_process__is_killed_on_time(self):
        # It may start late: whatever is there at one of these times is killed.
        kill = self.write("at=100ms every=100ms node-kill node=0\n")
        done = self.fabemu("run", "--topo", "kary:2,2", "--faults", kill, "--",
                           "python3", self.rank, self.dir)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"node 0 \(pid \d+, python3\) died: (killed by "
                                      r"signal 9|ended without detaching)")

    @contextlib.contextmanager
    def at_node_0(self):
        """A process at node 0: its pid, and a socket on which the test may act for it."""
        self.start_fabric(*NETWORK)
        shared, path = socket.socket(socket.AF_UNIX), self.socket_path("mine")
        child = os.fork()
        if not child:  # the process that connects is the process at the node
            shared.connect(path)
            shared.sendall(ATTACH.replace(b"-1", b"0"))
            signal.pause()
        try:
            self.assertTrue(until(lambda: "node 0" in self.fabemu("status", "mine").stdout))
            yield child, shared
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            shared.close()

    def test_process__frozen_while_detaching_continues(self):
        with self.at_node_0() as (child, shared):
            self.assertEqual(self.fault("node-freeze", "node=0").returncode, 0)
            self.assertTrue(until(lambda: stopped(child)))
            shared.sendall(b'{"cmd":"detach"}\n')
            self.assertTrue(until(lambda: not stopped(child)))

    def test_process__frozen_by_two_faults_waits_for_both_ends(self):
        with self.at_node_0() as (child, _):
            for _ in range(2):
                self.assertEqual(self.fault("node-freeze", "node=0").returncode, 0)
            self.assertTrue(until(lambda: stopped(child)))
            self.assertEqual(self.fault("noise", "node=0", "period=2ms", "length=1ms",
                                        "for=100ms").returncode, 0)
            self.assertEqual(self.fault("--clear", "1").returncode, 0)
            self.assertTrue(until(lambda: re.search("(?m)^ +3 +over ", self.fault().stdout)))
            self.assertTrue(stopped(child))
            self.assertEqual(self.fault("--clear", "2").returncode, 0)
            self.assertTrue(until(lambda: not stopped(child)))

    def test_process__frozen_continues_when_its_fabric_is_killed(self):
        for killed in "pid", "supervisor":
            with self.subTest(killed=killed), self.at_node_0() as (child, _):
                self.assertEqual(self.fault("node-freeze", "node=0").returncode, 0)
                self.assertTrue(until(lambda c=child: stopped(c)))
                status = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]
                os.kill(status[killed], signal.SIGKILL)
                self.assertTrue(until(lambda c=child: not stopped(c)))
                self.assertTrue(until(lambda: not self.sockets()))

    def test_partition__is_whole_or_refused(self):
        # Nodes that share a switch use cables that cannot fail with crosspoints.
        self.start_fabric("--topo", "kary:4,2", "--profile", "oq2004",
                          "--set", "link_retry=go_back_n")
        done = self.fault("partition", "nodes=0-5")
        self.assertEqual(done.returncode, 1)
        self.assertIn("which leads to a node", done.stderr)
        self.assertEqual(self.fault("partition", "nodes=0-3").returncode, 0)
        self.assertEqual(self.fault("switch-crash", "switch=4").returncode, 0)
        status = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]["report"]
        self.assertEqual(status["links"]["out_now"], 7)
        self.assertEqual([self.fault("--clear", n).returncode for n in "12"], [0, 0])

        def is_back():
            links = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]["report"]["links"]
            return links["out_now"] == 0
        self.assertTrue(until(is_back))

    def test_schedule__invalid_ones_end_the_run_before_it_starts(self):
        for text, right in (("at=1ms link-down link=0:77\n", "line 1"),
                            ("combine-stall switch=any\n", "line 1"),
                            ("", "fault")):
            with self.subTest(text=text):
                done = self.fabemu("run", *NETWORK, "--faults", self.write(text), "--", "true")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(right, done.stderr)
        done = self.fabemu("run", "--topo", "kary:2,2",
                           "--faults", self.write("# none\nloss link=any rate=0.1\n"), "--",
                           "true")
        self.assertIn("line 2", done.stderr)  # the fabric refuses this one
        done = self.fabemu("run", *NETWORK, "--faults", "no-such-scenario", "--", "true")
        self.assertEqual(done.returncode, 2)

    def test_traffic__is_the_same_on_any_number_of_threads(self):
        path = self.write("at=20us every=40us for=15us link-down random\n"
                          "at=50us for=40us switch-crash top\nloss link=any rate=0.001\n"
                          "bit-errors link=any rate=0.001\nduplicate link=any rate=0.001\n"
                          "delay link=any rate=0.001 by=100ns jitter=2us\n")
        for profile in ("qsnet3",), ("oq2004", "--set", "link_retry=go_back_n"):
            with self.subTest(profile=profile):
                self.replayed("--profile", *profile, "--faults", path)

    def replayed(self, *options):
        runs = []
        for threads in "1", "2":
            done = self.fabemu("traffic", "--topo", "kary:4,2", "--load", "0.3",
                               "--threads", threads, "--warmup",
                               "20000ns", "--measure", "200000ns", *options, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            runs.append(json.loads(done.stdout))
        self.assertEqual(runs[0]["digest"], runs[1]["digest"])
        self.assertEqual(runs[0]["faults"], runs[1]["faults"])
        self.assertGreater(runs[0]["faults"]["hit"], 0)
        self.assertGreater(runs[0]["faults"]["links_up_again"], 0)
        self.assertGreater(runs[0]["faults"]["new_tables"], 0)

    def traffic(self, faults, *options, status=0,
                work=("--load", "0.3", "--warmup", "20000ns", "--measure", "200000ns")):
        """A run in simulated time: its result, which must be the same on three threads."""
        results = []
        for threads in "1", "3":
            done = self.fabemu("traffic", "--topo", "kary:4,2", *work, "--threads", threads,
                               "--faults", self.write(faults), "--json", *options)
            self.assertEqual(done.returncode, status, done.stderr)
            results.append(json.loads(done.stdout) if not status else {"digest": done.stderr})
        self.assertEqual(results[0]["digest"], results[1]["digest"])
        self.assertEqual(results[0].get("faults"), results[1].get("faults"))
        return results[0]

    def test_stuck_ports_and_slow_links__lose_nothing_over_any_switch(self):
        for options in ROUTERS:
            with self.subTest(options=options):
                stuck = self.traffic("at=30us for=40us stuck-port link=0:4>\n"
                                     "at=60us for=50us stuck-port random=2\n", *options)
                slow = self.traffic("at=30us for=100us slow-link level=0 factor=3\n"
                                    "at=60us for=50us slow-link random=2 factor=7.5\n", *options)
                self.assertGreater(stuck["faults"]["hit"], 0)
                self.assertGreater(slow["faults"]["hit"], stuck["faults"]["hit"])
                self.assertEqual((stuck["undelivered"], slow["undelivered"]), (0, 0))

    def test_run__ending_during_link_tests_waits_for_them(self):
        # A stuck port makes a link fail its test, and the link waits to be tested again when the
        # faults have ended.
        faults = self.write("at=71us for=31us every=114us link-flap level=0 down=3us up=70us\n"
                            "at=84us for=44us every=123us stuck-port random=2\n")
        last_ns = 0
        for seed in "1", "2", "4", "5":
            done = self.fabemu("traffic", "--topo", "kary:2,2", "--profile", "oq2004", "--set",
                               "link_retry=go_back_n", "--pattern", "hotspot:0:0.2", "--load",
                               "0.39", "--warmup", "20us", "--measure", "200us", "--seed", seed,
                               "--faults", faults, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            last = json.loads(done.stdout)["faults"]["changes"][-1]
            self.assertEqual(last["links_out"], 0)
            last_ns = max(last_ns, last["at_ns"])
        self.assertGreater(last_ns, 1e6)

    def test_stuck_port__without_traffic_has_no_hits(self):
        stuck, never = (self.traffic("at=%s for=1us stuck-port link=any\n" % at)
                        for at in ("1ns", "1s"))
        self.assertEqual(stuck["faults"]["hit"], 0)
        self.assertEqual(stuck["digest"], never["digest"])

    def test_slow_link__multiplies_the_time_per_byte(self):
        quiet = "--load", "0.01", "--pattern", "complement"
        factor, cables, bytes_on_wire, ps_per_byte = 3, 2, 256, 800
        plain = self.traffic("at=1s slow-link level=0 factor=3\n", *quiet)
        slow = self.traffic("slow-link level=0 factor=%d\n" % factor, *quiet)
        more_ns = cables * (factor - 1) * bytes_on_wire * ps_per_byte / 1000
        self.assertAlmostEqual(slow["latency_ns"]["min"], plain["latency_ns"]["min"] + more_ns,
                               places=3)
        self.assertEqual(plain["faults"]["hit"], 0)

    def test_slow_link__end_keeps_the_factor_of_other_faults(self):
        def latency_ns(*faults):
            done = self.traffic("".join(line + "\n" for line in faults), "--load", "0.01",
                                "--pattern", "complement")
            return done["latency_ns"]["min"]
        plain, slow = (f"at={at} slow-link level=0 factor=3" for at in ("1s", "0s"))
        over = "at=1us for=1us slow-link level=0 factor=9"
        self.assertEqual(latency_ns(over), latency_ns(plain))
        self.assertEqual(latency_ns(slow, over), latency_ns(slow))

    def test_list__keeps_the_last_thousand_ended_ones_and_sums(self):
        self.start_fabric("--topo", "kary:2,2")
        client = self.client(self.socket_path("mine"))
        ids = [client.ask("fault", fault="node-kill node=0")["fault"] for _ in range(500)]
        ids.append(client.ask("fault", fault="stuck-port random")["fault"])  # this fault stays
        ids += [client.ask("fault", fault="node-kill node=0")["fault"] for _ in range(6000)]
        self.assertEqual(ids, list(range(1, 6502)))
        reply = client.ask("faults")
        listed = [state["fault"] for state in reply["faults"]]
        self.assertEqual(listed, sorted(listed))
        self.assertEqual([state["fault"] for state in reply["faults"]
                          if state["state"] != "over"], [501])
        self.assertEqual(listed[-1000:], ids[-1000:])
        self.assertLess(len(listed), 4000)
        past = 6501 - len(listed)
        self.assertEqual(reply["past_faults"], {"faults": past, "times": past, "hits": 0})
        self.assertEqual(client.ask("fault_clear", fault=1)["errno"], errno.ENOENT)
        self.assertEqual(client.ask("fault_clear", fault=501), {"ok": True})
        report = client.ask("report")["report"]
        self.assertEqual(report["past_faults"], reply["past_faults"])
        self.assertRegex(self.fault().stdout,
                         rf"\n{past} more have ended: {past} times, 0 hits\n$")

    def test_slow_link__has_no_effect_without_byte_times(self):
        self.start_fabric("--topo", "kary:2,2")
        done = self.fault("slow-link", "link=0:2", "factor=4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("clock raw does not model time", done.stderr)
        done = self.fabemu("run", *NETWORK, "--faults", "slow-link", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("line 1: slow-link: clock raw does not model time", done.stderr)

    def test_mpi_program__is_right_while_ports_are_stuck_and_links_slow(self):
        stuck = "at=100ms every=400ms for=200ms stuck-port random\n"
        slow = "slow-link link=any factor=20\n"
        for options, text in ((("--profile", "oq2004"), stuck), ((), stuck),
                              (("--profile", "oq2004", "--clock", "real"), stuck + slow)):
            with self.subTest(options=options):
                printed, report = self.rounds(*options, "--faults", self.write(text), seconds=1)
                self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
                self.assertGreater(report["faults"][0]["times"], 1)
        self.assertGreater(report["faults"][1]["hits"], 0)
        self.assertEqual(report["hits"][0]["what"], "slowed")

    def test_mpi_program__continues_without_a_permanently_stuck_port(self):
        for options in ROUTERS[1], ROUTERS[-1], ():
            with self.subTest(options=options):
                events = os.path.join(self.dir, "events.json")
                printed, report = self.rounds(*options, "--bound", "stuck=200ms",
                                              "--events", events, "--faults",
                                              self.write("at=100ms stuck-port link=0:2\n"))
                self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
                self.assertEqual((report["links"]["stuck"], report["links"]["out_now"]), (1, 1))
                self.assertGreater(report["faults"][0]["hits"], 0)
                self.assertEqual(report["check"]["wrong"], [])
                with open(events) as f:
                    logged = [json.loads(line) for line in f]
                stuck = [event["cable"] for event in logged if event.get("state") == "stuck"]
                self.assertEqual(stuck, ["switch 0:2 - switch 4:0"])

    def test_lost_and_forged_credits__are_found_with_their_cable(self):
        for options in ROUTERS[:-1]:
            with self.subTest(options=options):
                lost = self.traffic("at=30us credit-loss link=0:4> count=1\n", "--load", "0.7",
                                    *options, status=1)
                self.assertIn("switch 4 port 0 (cable to switch 0 port 4): credits were lost",
                              lost["digest"])
        for options in ROUTERS[3:5]:
            with self.subTest(options=options):
                made = self.traffic("at=30us credit-forge link=0:4<\n", "--load", "0.7", *options,
                                    status=1)
                self.assertIn("switch 0 port 4 (cable to switch 4 port 0): there are "
                              "more credits than buffers on the cable to here",
                              made["digest"])

    def test_lost_credits__are_found_under_a_program(self):
        for profile in "oq2004", "qsnet3":
            with self.subTest(profile=profile):
                printed, report = self.rounds("--profile", profile, "--faults",
                                              self.write("credit-loss link=0:2> count=1\n"),
                                              seconds=0, least=ENOUGH)
                self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
                self.assertEqual(report["check"]["wrong"],
                                 ["switch 4 port 0 (cable to switch 0 port 2): credits were lost "
                                  "on the cable to here"])
                self.assertEqual([(hit["what"], hit["packet"], hit["cable"])
                                  for hit in report["hits"]],
                                 [("lost", "credit", "switch 0:2 -> switch 4:0")])

    def test_forged_credits__overrun_buffers_which_drop(self):
        lines = "at=30us credit-forge link=any\n", "at=30us credit-forge link=any rate=0.05\n"
        for line in lines:
            with self.subTest(line=line):
                acknowledged = self.traffic(line, "--profile", "qsnet3", "--load", "0.7")
                self.assertEqual(acknowledged["undelivered"], 0)
                self.assertGreater(acknowledged["faults"]["hit"], 0)
                dropped = self.traffic(line, "--load", "0.7", status=1)["digest"]
                self.assertRegex(dropped, r"[0-9]+ segments should have arrived, but [0-9]+ have")
        printed, report = self.rounds("--faults", self.write(lines[0]), seconds=0, least=ENOUGH)
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        self.assertGreater(report["drops"]["malformed"], 0)  # credits that were not due
        self.assertEqual(report["drops"]["overrun"], report["unrecoverable"]["overruns"])

    def test_credits__are_part_of_link_level_retry(self):
        self.start_fabric("--topo", "kary:2,2", "--set", "link_retry=go_back_n")
        done = self.fault("credit-loss", "link=any")
        self.assertEqual(done.returncode, 1)
        self.assertIn("link_retry=none", done.stderr)

    def run_with_fault(self, fault, *options, np=4):
        """A run of a program under the fault: its output, its errors, the report."""
        report = os.path.join(self.dir, "report.json")
        program = os.path.join(os.path.dirname(self.command), ROUNDS)
        done = self.fabemu("run", *NETWORK, *options, "--report", report,
                           "--faults", self.write(fault), "--",
                           "mpirun", "-np", str(np), "--mca", "coll_fabemu_step_aside", "0",
                           program, "--seconds", "1")
        with open(report) as f:
            return done.stdout, done.stderr, json.load(f)

    def test_combine_flip__is_found_and_fails_the_group_with_the_switch(self):
        for options in COMBINERS:
            with self.subTest(options=options):
                printed, errors, report = self.run_with_fault(
                    "at=300ms combine-flip switch=any kind=allreduce nth=5\n", *options)
                self.assertNotIn("wrong", printed)
                self.assertRegex(errors, UNIT_FAILED + " found a parity error")
                self.assertGreater(report["unrecoverable"]["states_damaged"], 0)
                self.assertGreater(report["unrecoverable"]["groups_failed"], 0)

    def test_combine_stall__permanent_ends_with_an_error_naming_the_switch(self):
        for options in COMBINERS[0], ROUTERS[-1], COMBINERS[1]:
            with self.subTest(options=options):
                _, errors, report = self.run_with_fault(
                    "at=300ms combine-stall switch=any\n", *options, "--bound", "unit=300ms")
                self.assertRegex(errors, UNIT_FAILED + " was stuck and was taken out of service")
                self.assertGreater(report["unrecoverable"]["units_out"], 0)
                if options != COMBINERS[1]:  # with these, results are lost
                    self.assertGreater(report["drops"]["at_broken_units"], 0)
                self.assertGreater(report["faults"][0]["hits"], 0)
                self.assertTrue(report["check"]["right"])

    def test_combine_flip__without_parity_reports_wrong_sums(self):
        for options in COMBINERS:
            with self.subTest(options=options):
                printed, _, report = self.run_with_fault(
                    "combine-flip switch=any kind=allreduce nth=5\n", *options,
                    "--set", "combine_check=none", np=2)
                self.assertRegex(printed, r"^[1-9][0-9]* rounds, [1-9][0-9]* wrong\n$")
                hits = report["hits"]
                self.assertGreater(len(hits), 0)
                self.assertEqual(report["faults"][0]["hits"], len(hits))
                self.assertEqual({(hit["what"], hit["kind"]) for hit in hits},
                                 {("damaged", "allreduce")})
                self.assertLess(max(hit["combine_unit_of_switch"] for hit in hits), 12)

    def test_combine_stall__delays_operations_only(self):
        for options in COMBINERS:
            with self.subTest(options=options):
                printed, report = self.rounds(*options, "--faults",
                                              self.write("at=100ms every=300ms for=100ms "
                                                         "combine-stall switch=any\n"))
                self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
                self.assertGreater(report["faults"][0]["hits"], 0)
                self.assertIn("kept waiting", [hit["what"] for hit in report["hits"]])
                self.assertTrue(report["check"]["right"])

    def test_combine_exhaust__routes_new_groups_elsewhere(self):
        for options in COMBINERS:
            with self.subTest(options=options):
                printed, report = self.rounds(*options, "--faults",
                                              self.write("combine-exhaust switch=any\n"),
                                              seconds=0, least=ENOUGH)
                self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
                self.assertGreater(report["faults"][0]["hits"], 0)

    def collectives(self, faults, *options, kind="allreduce", status=0):
        return self.traffic(faults, *options, status=status,
                            work=("--pattern", kind,
                                  *(("--bytes", "480") if kind != "barrier" else ())))

    def test_traffic__combine_units_fail_on_the_same_contribution_on_any_number_of_threads(self):
        for options in ((), ("--set", "combine_units=3"), ("--set", "buffers=input_xpoint"),
                        COMBINERS[1]):
            with self.subTest(options=options):
                plain = self.collectives("at=1s combine-stall switch=0\n", *options)
                stall = self.collectives("at=20us for=30us combine-stall switch=any\n", *options)
                self.assertGreater(stall["faults"]["hit"], 0)
                # one operation may be in flight between adapters when the units stop
                an_operation = plain["virtual_ns"] / 100
                self.assertGreater(stall["virtual_ns"], plain["virtual_ns"] + 30000 - an_operation)
                flip = "combine-flip switch=any nth=20\n"
                wrong = self.collectives(flip, *options, "--set", "combine_check=none", status=1)
                self.assertIn("wrong", wrong["digest"])
                found = self.collectives(flip, *options, status=1)
                self.assertRegex(found["digest"],
                                 r"the combine unit of switch \d+ found a parity error")

    def test_traffic__refuses_combine_exhaust(self):
        for schedule in self.write("combine-exhaust switch=any\n"), "full-combiner":
            done = self.fabemu("traffic", "--topo", "kary:4,2", "--pattern", "allreduce",
                               "--faults", schedule)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"line 1: combine-exhaust: .*: use fabemu run "
                             r"without --clock virtual\n")

    def test_traffic__last_of_several_equal_faults_ends_the_effect(self):
        for what in "combine-stall switch=any\n", "stuck-port level=0\n":
            with self.subTest(what=what):
                def digest(*times):
                    return self.collectives("".join(f"{time} {what}" for time in times))["digest"]
                whole = digest("at=20us for=60us")
                self.assertEqual(digest("at=20us for=30us", "at=30us for=50us"), whole)
                self.assertEqual(digest("at=20us for=60us", "at=30us for=20us"), whole)
                self.assertNotEqual(digest("at=20us for=30us"), whole)

    def test_traffic__faults_start_when_an_operation_is_seen(self):
        for kind in "allreduce", "reduce", "barrier":
            for options in ((), COMBINERS[1], ("--profile", "qsnet3")):
                with self.subTest(kind=kind, options=options):
                    def begins(nth, fault="for=30us stuck-port level=0"):
                        return self.collectives("on=%s:%d %s\n" % (kind, nth, fault), *options,
                                                kind=kind)
                    never, early, late = begins(10 ** 6), begins(20), begins(90)
                    self.assertEqual(never["faults"]["hit"], 0)
                    self.assertGreater(early["faults"]["hit"] + late["faults"]["hit"], 0)
                    self.assertEqual(len({run["digest"] for run in (never, early, late)}), 3)
                    self.assertEqual(begins(20, "at=1s for=30us stuck-port level=0")["digest"],
                                     never["digest"])

    def test_traffic__multicasts_are_seen_on_cables(self):
        work = "--pattern", "multicast", "--load", "0.05"
        never, once = (self.traffic("on=multicast:%d for=20us stuck-port level=0\n" % nth,
                                    work=work)
                       for nth in (10 ** 6, 3))
        self.assertEqual(never["faults"]["hit"], 0)
        self.assertGreater(once["faults"]["hit"], 0)

    def test_live__waits_until_an_operation_is_seen(self):
        for options in ("--profile", "oq2004"), ("--profile", "qsnet3"):
            with self.subTest(options=options):
                _, report = self.rounds(*options, "--faults", self.write(
                    "on=allreduce:20 for=100ms stuck-port level=1\n"
                    "on=allreduce:1000000000 stuck-port level=1\n"), seconds=1, least=ENOUGH)
                self.assertEqual([fault["times"] for fault in report["faults"]], [1, 0])
                self.assertEqual([fault["state"] for fault in report["faults"]],
                                 ["over", "scheduled"])

    def test_crosspoints__have_no_faults_on_the_cables_of_nodes(self):
        self.start_fabric("--topo", "kary:2,2")
        done = self.fault("stuck-port", "link=n0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("between switches", done.stderr)

    def test_schedule__very_many_faults_keep_the_fabric_responsive(self):
        path = self.write("at=100ms for=3ms link-down random\n" * 20000)
        run = self.start("run", *NETWORK, "--name", "r", "--faults", path, "--", "sleep", "1000")
        self.assertTrue(until(lambda: "r.sock" in self.sockets()))
        self.assertTrue(until(lambda: self.status("r")["report"]["links"]["new_tables"]))
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        self.assertIn("tables       new", err)

    def test_traffic__saturated_drains_after_its_faults(self):
        done = self.fabemu("traffic", "--topo", "kary:2,3", "--profile", "qsnet3",
                           "--pattern", "neighbour", "--load",
                           "200%", "--warmup", "10000ns", "--measure", "100000ns", "--faults",
                           self.write("at=47us loss link=any rate=0.02\n"
                                      "at=20us every=30us for=10us link-down random\n"),
                           "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["saturated"])


if __name__ == "__main__":
    main()
