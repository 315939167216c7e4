#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""inject_test.py - faults under an unmodified MPI program, and on a fabric that runs: what is right, what is told.

    tests/cli/inject_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import subprocess
import sys

from cli_kit import FabemuCase, main, stat_of, until

ROUNDS = os.path.join("tests", "mpi_rounds")
NETWORK = ("--topo", "kary:2,3", "--profile", "qsnet3")
WEATHER = """# Links go and come, a top switch dies and is back, and one packet in a thousand is damaged or lost.
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

    def rounds(self, *options, seconds=2):
        """The MPI program over a fabric: what it printed, and the report."""
        report = os.path.join(self.dir, "report.json")
        program = os.path.join(os.path.dirname(self.command), ROUNDS)
        done = self.fabemu("run", *NETWORK, "--report", report, *options, "--", "mpirun", "-np", "4", program,
                           "--seconds", str(seconds))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report) as f:
            return done.stdout, json.load(f)

    def stay(self, *options):
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
            told = [json.loads(line) for line in f]
        self.assertEqual(sum(event["event"] == "hit" for event in told), report["hits_logged"])
        hit = next(event for event in told if event["event"] == "hit" and "operation" in event)
        self.assertRegex(hit["cable"], r"^switch \d+:\d+ (->|<-) (switch|node) \d+:\d$")
        self.assertLess(hit["from"], 8)

    def test_copies__cost_no_packet(self):
        printed, report = self.rounds("--faults", self.write("duplicate link=any rate=0.5\n"), seconds=1)
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        transport = report["transport"]
        self.assertLess(transport["retransmissions"], transport["packets"] / 20)

    def test_link_level_retry__mends_what_crosspoints_cannot(self):
        printed, report = self.rounds("--profile", "oq2004", "--set", "link_retry=go_back_n", "--faults",
                                      self.write("loss link=any rate=0.001\nbit-errors link=any rate=0.001\n"),
                                      seconds=1)
        self.assertRegex(printed, r"^[1-9][0-9]* rounds, 0 wrong\n$")
        self.assertEqual(report["dropped"], 0)
        self.assertGreater(report["faults"][0]["hits"], 0)

    def test_fault__that_hit_nothing_says_so(self):
        _, report = self.rounds("--faults", self.write("loss link=any nth=1000000000\nat=1000s link-down link=0:2\n"),
                                seconds=1)
        self.assertEqual([fault["hits"] for fault in report["faults"]], [0, 0])
        self.assertEqual(report["faults"][1]["times"], 0)

    def test_live__begins_is_listed_and_taken_back(self):
        self.stay(*NETWORK)
        self.assertEqual(self.fault().stdout, "no faults\n")
        self.assertEqual(self.fault("link-down", "link=0:2").stdout, "fault 1\n")
        self.assertRegex(self.fault().stdout, r"^   1  active  1 time, 1 target, 0 hits  link-down link=0:2\n$")
        status = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]["report"]
        self.assertEqual(status["links"]["out_now"], 1)
        self.assertEqual(self.fault("--clear", "1").returncode, 0)

        def back():
            links = json.loads(self.fabemu("status", "--json", "mine").stdout)[0]["report"]["links"]
            return links["out_now"] == 0 and links["up_again"] == 1
        self.assertTrue(until(back))
        self.assertIn("over", self.fault().stdout)

    def test_live__faults_more_often_than_the_host_can_leave_the_fabric_answering(self):
        self.stay(*NETWORK)
        for words in (("every=1ns", "adapter-reset", "node=0"), ("link-flap", "link=0:2", "down=1ns", "up=1ns")):
            self.assertEqual(self.fault(*words).returncode, 0)
        for _ in range(5):
            self.assertIn("active", self.fault().stdout)
        self.assertEqual([self.fault("--clear", n).returncode for n in "12"], [0, 0])

    def test_live__a_process_that_detaches_while_it_stands_still_goes_on(self):
        self.stay(*NETWORK)
        go = os.path.join(self.dir, "go")
        code = ("import os, socket, time\n"
                "s = socket.socket(socket.AF_UNIX)\n"
                "s.connect(os.environ['FABEMU_SOCKET'])\n"
                "s.sendall(b'{\"cmd\":\"attach\",\"version\":3,\"want\":1}\\n')\n"
                "s.recv(65536)\n"
                "if os.fork() == 0:\n"  # what detaches for it runs on
                f"    while not os.path.exists({go!r}): time.sleep(0.01)\n"
                "    s.sendall(b'{\"cmd\":\"detach\"}\\n')\n"
                "    os._exit(0)\n"
                "print('attached', flush=True)\n"
                "time.sleep(1000)\n")
        process = subprocess.Popen([sys.executable, "-c", code], text=True, stdout=subprocess.PIPE,
                                   env={**self.env, "FABEMU_SOCKET": self.socket_path("mine")})
        self.started.append(process)
        self.assertEqual(process.stdout.readline(), "attached\n")
        self.assertEqual(self.fault("node-freeze", "node=1").returncode, 0)
        self.assertTrue(until(lambda: stat_of(process.pid)[0] == "T"))
        with open(go, "w"):
            pass
        self.assertTrue(until(lambda: stat_of(process.pid)[0] != "T"))

    def test_live__refuses_what_cannot_be(self):
        self.stay(*NETWORK)
        for words, right in ((("link-down", "link=99:2"), "switch"), (("link-dwon", "link=0:2"), "link-down"),
                             (("combine-flip", "switch=0"), "combin"), (("--clear", "7"), "no fault of that number"),
                             (("--clear", "x"), "number of a fault")):
            with self.subTest(words=words):
                done = self.fault(*words)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(right, done.stderr)
        done = self.fabemu("fault", "--name", "nobody", "link-down", "link=0:2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody", done.stderr)

    def test_crosspoints__say_what_a_fault_would_need(self):
        self.stay("--topo", "kary:2,2")
        done = self.fault("link-down", "link=0:2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("acknowledge", done.stderr)

    def test_process__is_killed_on_time(self):
        done = self.fabemu("run", "--topo", "kary:2,2", "--faults", self.write("at=300ms node-kill node=0\n"), "--",
                           "python3", self.rank, self.dir)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"node 0 \(pid \d+, python3\) died: (killed by signal 9|ended without detaching)")

    def test_schedule__wrong_ones_end_the_run_before_it_begins(self):
        for text, right in (("at=1ms link-down link=0:77\n", "line 1"), ("combine-stall switch=any\n", "line 1"),
                            ("", "fault")):
            with self.subTest(text=text):
                done = self.fabemu("run", *NETWORK, "--faults", self.write(text), "--", "true")
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(right, done.stderr)
        done = self.fabemu("run", *NETWORK, "--faults", "no-such-scenario", "--", "true")
        self.assertEqual(done.returncode, 2)

    def test_traffic__is_the_same_on_any_number_of_threads(self):
        path = self.write("at=20us every=40us for=15us link-down random\nat=50us for=40us switch-crash top\n"
                          "loss link=any rate=0.001\nbit-errors link=any rate=0.001\nduplicate link=any rate=0.001\n"
                          "delay link=any rate=0.001 by=100ns jitter=2us\n")
        runs = []
        for threads in "1", "2":
            done = self.fabemu("traffic", "--topo", "kary:4,2", "--profile", "qsnet3", "--load", "0.3", "--threads",
                               threads, "--warmup", "20000", "--measure", "200000", "--faults", path, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            runs.append(json.loads(done.stdout))
        self.assertEqual(runs[0]["digest"], runs[1]["digest"])
        self.assertEqual(runs[0]["faults"], runs[1]["faults"])
        self.assertGreater(runs[0]["faults"]["hit"], 0)
        self.assertGreater(runs[0]["faults"]["links_up_again"], 0)

    def test_schedule__of_very_many_faults_at_a_time_leaves_the_fabric_answering(self):
        path = self.write("at=100ms for=3ms link-down random\n" * 20000)
        done = self.fabemu("run", *NETWORK, "--faults", path, "--", "sleep", "1")
        self.assertIn("tables       new", done.stderr)

    def test_traffic__that_saturates_runs_empty_when_its_faults_are_over(self):
        done = self.fabemu("traffic", "--topo", "kary:2,3", "--profile", "qsnet3", "--pattern", "neighbour", "--load",
                           "2", "--warmup", "10000", "--measure", "100000", "--faults",
                           self.write("at=47us loss link=any rate=0.02\nat=20us every=30us for=10us link-down random\n"),
                           "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["saturated"])


if __name__ == "__main__":
    main()
