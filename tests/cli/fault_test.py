#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fault_test.py - fabemu fault: the lists, the dry run, and errors.

   tests/cli/fault_test.py --fabemu build/fabemu [unittest options]
"""
import json
import os
import re

from cli_helpers import FabemuCase, flat, main

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "faults.md")
KINDS = os.path.join(os.path.dirname(DOCS), "..", "emu", "packet", "kinds.def")


# A fault of each kind, at the interesting targets of kary:2,2, where switches 0 and 1 have the
# nodes.
FAULTS = """
link-down random
link-down link=n0
link-down switch=0
link-flap random down=5ms up=5ms
bit-errors link=any
loss link=n0
duplicate random
delay random by=1us
credit-loss random count=1
credit-forge link=n0 count=1
stuck-port random
stuck-port link=n0
slow-link random factor=2
switch-crash top
switch-crash random
switch-crash switch=0
combine-stall top
combine-flip top
combine-exhaust top
adapter-reset node=1
node-freeze node=1
node-slow node=1 share=50%
node-kill node=1
noise node=1 period=1ms length=10us
partition nodes=0-1
partition node=0
partition random=1
partition random=100%
on=barrier:1 stuck-port random
on=multicast:1 stuck-port random
on=test:1 stuck-port random
""".split("\n")[1:-1]
MACHINES = (("--profile", "oq2004"),
            ("--profile", "oq2004", "--set", "link_retry=go_back_n"),
            ("--profile", "qsnet3"),
            ("--profile", "qsnet3", "--set", "combining=switch"),
            ("--profile", "oq2004", "--set", "buffers=input"))
INPUT = MACHINES[-1]  # this switch model uses time slots, which clock raw does not have


class FaultTest(FabemuCase):
    def good(self, *args):
        """The output of a successful command."""
        done = self.fabemu("fault", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def page(self):
        """The documentation page on faults."""
        with open(DOCS, encoding="utf-8") as f:
            return f.read()

    def lists(self):
        """The names of faults and scenarios that --list prints."""
        kinds, scenarios = self.good("--list").split("scenarios\n")
        return [re.findall(r"^  (\S+)", part, re.M) for part in (kinds, scenarios)]

    def checked_faults(self, *args):
        """The lines of a dry run, without those that say what was read."""
        head, at, lines = self.good("--check", *args).partition("nothing is injected\n")
        self.assertTrue(at, head)
        return lines

    def write(self, text):
        path = os.path.join(self.dir, "my.faults")
        with open(path, "w", newline="") as f:
            f.write(text)
        return path

    def test_list__marks_what_needs_retransmission(self):
        """Each scenario with the mark is refused by oq2004 for this reason, and no other one."""
        head, note = self.good("--list").split("(*) needs")
        self.assertIn("link_retry=go_back_n", note)
        self.assertRegex(head, r"\n  cut-link .*\(\*\)\n")
        for text in re.split(r"\n  (?=\S)", "\n" + head.split("scenarios\n")[1])[1:]:
            done = self.fabemu("fault", "--check", text.split()[0], "--clock", "real")
            self.assertEqual(text.split()[-1] == "(*)", "link_retry=go_back_n" in done.stderr or
                             "use --profile qsnet3, or node-kill" in done.stderr, text)

    def test_list__agrees_with_the_page(self):
        kinds, scenarios = self.lists()
        self.assertIn("link-down", kinds)
        self.assertIn("flap", scenarios)
        table = self.page().split("## Kinds")[1].split("## Which")[0]
        self.assertEqual(re.findall(r"^\| `([a-z-]+)` \|", table, re.M), kinds)

    def test_kinds_of_segments__are_in_both_pages(self):
        with open(KINDS, encoding="utf-8") as f:
            kinds = re.findall(r'^KIND\(\w+, +"(\w+)"', f.read(), re.M)
        self.assertIn("set", kinds)
        row = re.search(r"^\| `kind=(.*?) \|", self.page(), re.M)[1]
        self.assertEqual(re.findall(r"\w+", row), kinds)
        with open(os.path.join(os.path.dirname(DOCS), "capture.md"), encoding="utf-8") as f:
            self.assertIn(f"`kind={','.join(kinds)}`", f.read())

    def test_list__as_json_has_the_same_names_and_marks(self):
        lists = json.loads(self.good("--list", "--json"))
        kinds, scenarios = self.lists()
        self.assertEqual([one["name"] for one in lists["faults"]], kinds)
        self.assertEqual([one["name"] for one in lists["scenarios"]], scenarios)
        text = flat(self.good("--list"))
        for one in lists["faults"] + lists["scenarios"]:
            mark = " (*)" if one["needs_retransmission"] else ""
            self.assertIn(flat(f" {one['name']} {one['about']}{mark}"), text)

    def test_show__is_a_schedule(self):
        for name in self.lists()[1]:
            with self.subTest(name=name):
                path = self.write(self.good("--show", name))
                over = ("--topo", "qsnet:256", "--set", "combining=switch", "--clock", "real")
                self.assertEqual(self.checked_faults(path, *over),
                                 self.checked_faults(name, *over))

    def test_check__lists_only_cables_that_can_fail(self):
        """Without acknowledgments a node's cable cannot fail."""
        path = self.write("bit-errors link=any\nbit-errors switch=0\n")
        over = ("--topo", "kary:2,2", "--set", "link_retry=go_back_n")
        lines = self.checked_faults(path, *over).splitlines()
        self.assertEqual(lines[1], "    # 4 cables: 0:2-2:0 0:3-3:0 1:2-2:1 1:3-3:1")
        self.assertEqual(lines[3], "    # 2 cables: 0:2-2:0 0:3-3:0")
        lines = self.checked_faults(path, "--topo", "qsnet:4").splitlines()
        self.assertIn("0:0-n0:0", lines[1])

    def test_report__of_one_change_uses_the_singular(self):
        done = self.fabemu("run", "--topo", "kary:2,2", "--set", "link_retry=go_back_n", "--faults",
                           self.write("at=1ms link-down link=0:2\n"), "--", "sleep", "0.5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("\n  tables       new 1 time, ", done.stderr)
        self.assertIn("; routes were changed ", flat(done.stderr))

    def test_check__prints_the_faults_it_read(self):
        for spec in ("kary:4,2", "kary:3,3"):
            over = ("--topo", spec, "--profile", "qsnet3")
            out = self.checked_faults("flap", *over)
            again = self.write(self.good("--check", "flap", *over).replace("\n", "\r\n"))
            self.assertEqual(self.checked_faults(again, *over), out)

    def test_check__draws_by_the_seed(self):
        drawn = {self.checked_faults("cut-link", "--topo", "qsnet:64", "--seed", str(seed))
                 for seed in range(20)}
        self.assertGreater(len(drawn), 10)
        one = self.good("--check", "cut-link", "--topo", "qsnet:64", "--seed", "5")
        self.assertEqual(one, self.good("--check", "cut-link", "--topo", "qsnet:64", "--seed", "5"))

    def test_check__names_cables_switches_and_nodes(self):
        out = self.good("--check",
                        self.write("link-down link=0:1>\nlink-down link=0:4\nlink-down link=4:0<\n"
                                   "switch-crash switch=7\nnode-kill nodes=3-5"),
                        "--topo", "kary:4,2", "--profile", "qsnet3")
        for words in ("1 cable: 0:1->n1:0\n", "1 cable: 0:4-4:0\n", "1 cable: 4:0<-0:4\n",
                      "1 switch: 7\n", "3 nodes: 3 4 5\n", "5 faults"):
            self.assertIn(words, out)

    def verdict(self, done):
        """A command's verdict about a fault: "", or the error without the name of the file."""
        return re.sub(r"^fabemu: (fabric '\w+': |.*, line 1: )", "",
                      done.stderr) if done.returncode else ""

    def checked(self, fault, machine, clock):
        return self.verdict(self.fabemu("fault", "--check", self.write(fault + "\n"), "--topo",
                                        "kary:2,2", "--clock", clock, *machine))

    def test_check__decides_as_a_running_fabric_does(self):
        verdicts = set()
        for machine in MACHINES:
            for clock in ("raw", "real")[machine == INPUT:1 + (machine in (MACHINES[1], INPUT))]:
                self.up("f", "--clock", clock, *machine)
                for fault in FAULTS:
                    with self.subTest(machine=machine, clock=clock, fault=fault):
                        done = self.fabemu("fault", "--name", "f", *fault.split())
                        self.assertEqual(self.verdict(done), self.checked(fault, machine, clock))
                        verdicts.add((fault, not done.returncode))
                began = json.loads(self.fabemu("fault", "--name", "f", "--json").stdout)
                self.assertEqual([state["text"] for state in began
                                  if not state["times"] and "on=" not in state["text"]], [])
                self.fabemu("down", "f")
        self.assertGreater(len(verdicts), len(FAULTS))  # some depend on the switch model

    def test_check__decides_as_a_run_and_simulated_traffic_do(self):
        for machine in MACHINES[0], MACHINES[2]:
            for fault in FAULTS:
                with self.subTest(machine=machine, fault=fault):
                    file = self.write(fault + "\n")
                    done = self.fabemu("traffic", "--topo", "kary:2,2", *machine, "--load", "0.1",
                                       "--warmup", "1ns", "--measure", "10ns", "--faults", file)
                    said = self.checked(fault, machine, "virtual")
                    self.assertEqual(self.verdict(done), said)
                    self.assertEqual(done.returncode, 2 if said else 0)
        for fault in FAULTS[:2]:
            done = self.fabemu("run", "--topo", "kary:2,2", "--faults", self.write(fault + "\n"),
                               "--", "true")
            self.assertEqual((done.returncode, self.verdict(done)),
                             (2, self.checked(fault, (), "raw")))

    def test_errors__are_one_line_with_the_valid_values(self):
        bad = self.write("stuck-port link=any\n\nlink-down link=99:0\n")
        for args, status, words in (
                ((), 1, ["no fabric named 'default'"]),
                (("link-down", "random"), 1, ["'default' is running (the default name)"]),
                (("link-donw", "random"), 1, ["no fabric named 'link-donw'",
                                                 "did you mean 'fabemu fault link-down'?"]),
                (("flap",), 1, ["no fabric named 'default'"]),
                (("loss random " + "x" * 1012,), 2, ["has at most 1023 characters"]),
                (("--list", "--show", "flap"), 2, ["one of"]),
                (("--list", "more"), 2, ["one of"]),
                (("--show", "flap", "--json"), 2, ["--json is possible with --list"]),
                (("--check", "flap", "--json"), 2, ["--json is possible with --list"]),
                (("--clear", "1", "--json"), 2, ["--json is possible with --list"]),
                (("link-down", "random", "--json"), 2, ["--json is possible with --list"]),
                (("--show", "flop"), 2, ["--show: no scenario 'flop'", "did you mean 'flap'?"]),
                (("--check", ""), 2, ["--check", "name of"]),
                (("--check", "flop"), 2, ["no scenario 'flop'", "flap"]),
                (("--check", "slow-link", "--topo", "kary:4,1"), 2,
                 ["slow-link, line 1", "no cables between", "link=nN"]),
                (("--check", bad, "--topo", "kary:4,2"), 2, ["line 3", "no switch 99", "0 to 7"]),
                (("--check", self.dir + "/none"), 2, ["none", "No such file"]),
                (("--check", self.dir), 2, ["Is a directory"]),
                (("--check", "adapter-resets", "--topo", "kary:4,2"), 2, ["line 1", "qsnet3"]),
                (("--check", "flap", "--topo", "torus:3"), 2, ["kary:"]),
                (("--check", "stuck-port", *INPUT), 2, ["clock raw has no time"]),
                (("--check", "stop-a-node", "--clock", "virtual"), 2,
                 ["line 1", "not possible in simulated time"]),
        ):
            with self.subTest(args=args):
                done = self.fabemu("fault", *args)
                self.one_line(done, status, *words)
                self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    main()
