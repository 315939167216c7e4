#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""standstill_test.py - a run that stands still reports which ranks wait for which: classic bugs of
MPI programs (tests/mpi/bugs.c), each diagnosed by rank and operation; and no report where there
is no bug. All runs are made first, several at a time; then their output is checked.

   tests/cli/standstill_test.py --fabemu build/fabemu [unittest options]
"""
import concurrent.futures
import json
import mmap
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from cli_helpers import FabemuCase, build_bugs, flat, main, until

RANKS = 4
FLOODS = 7  # senders with 1024 messages each in flight; a ring has 4096 slots
REPORT_AFTER_S = 2      # --standstill
COMPUTES_S = 10  # of ranks that only compute
HOGS = 16  # processes that leave hardly any core to ranks
STARVED_S = 4  # time without a core
STARVED_LIMIT_S = 180  # time limit of the test that waits for STARVED_S of time without a core
AT_A_TIME = 6  # they are idle most of the time
PATIENCE_S = 90
TWO_JOBS = ("sh", "-c", '"$@" & "$@"; wait', "sh")  # of two ranks each
NO_SWITCHES = ("sh", "-c", 'OMPI_MCA_coll=^fabemu exec "$@"', "sh")

# name: (bug, options, command before mpirun, stands still?)
RUNS = {
    "skip-barrier": ("skip-barrier", (), (), True),
    "first barrier": ("first-barrier", (), (), True),
    "early-finalize": ("early-finalize", (), (), True),
    "finalize-unsent": ("finalize-unsent", (), (), True),
    "ends": ("skip-barrier", ("--standstill", f"{REPORT_AFTER_S}s:end"), (), False),
    "bcast-roots": ("bcast-roots", (), (), True),
    "reduce-roots": ("reduce-roots", (), (), True),
    "reduce-count": ("reduce-count", (), (), True),
    "allreduce-count": ("allreduce-count", (), (), True),
    "missing-receive": ("missing-receive", (), (), True),
    "missing-receive-of-ssend": ("missing-receive-of-ssend", (), (), True),
    "probe-cycle": ("probe-cycle", (), (), True),
    "skip-fence": ("skip-fence", (), (), True),
    "exclusive-lock": ("exclusive-lock", (), (), True),
    "adapters: exclusive-lock": ("exclusive-lock", ("--profile", "qsnet3"), (), True),
    "shared-waiter": ("shared-waiter", (), (), True),
    "shared-lock": ("shared-lock", (), (), True),
    "skip-post": ("skip-post", (), (), True),
    "skip-free": ("skip-free", (), (), True),
    "simulated": ("missing-send", ("--clock", "virtual"), (), True),
    "missing-send": ("missing-send", (), (), True),
    "two jobs": ("missing-send", (), TWO_JOBS, True),
    "wrong-tag": ("wrong-tag", (), (), True),
    "first wrong tag": ("first-wrong-tag", (), (), True),
    "skip-gather": ("skip-gather", (), (), True),
    "skip-small-gather": ("skip-small-gather", (), (), True),
    "adapters: skip-small-gather": ("skip-small-gather", ("--profile", "qsnet3"), (), True),
    "skip-scatter": ("skip-scatter", (), (), True),
    "skip-reduce-scatter": ("skip-reduce-scatter", (), (), True),
    "skip-alltoall": ("skip-alltoall", (), (), True),
    "stopped": ("stopped", (), (), True),
    "stopped later": ("stopped-later", (), (), True),
    "all stopped": ("all-stopped", (), (), True),
    "adapters: all stopped": ("all-stopped", ("--profile", "qsnet3"), (), True),
    "flood": ("flood", ("--set", "raw_xpoint_slots=2"), (), True),
    "one-computes": ("one-computes", (), (), True),
    "over messages": ("skip-barrier", (), NO_SWITCHES, True),
    "adapters: skip-barrier": ("skip-barrier", ("--profile", "qsnet3"), (), True),
    "adapters: reduce-count": ("reduce-count", ("--profile", "qsnet3"), (), True),
    "bcast-two-roots": ("bcast-two-roots", (), (), False),
    "all-compute": ("all-compute", (), (), False),
    "off": ("one-computes", ("--standstill", "off"), (), False),
}


class Running:
    """One run from its start to its end, and its output."""

    def __init__(self, command, env, program, name):
        bug, options, before, stands = RUNS[name]
        seconds = {"off": 6, "one-computes": PATIENCE_S}.get(name, COMPUTES_S)
        go_file = program + ".go"  # one-computes runs until this file exists
        topo, ranks = ("kary:3,2", FLOODS + 1) if bug == "flood" else ("kary:2,2", RANKS)
        if before is TWO_JOBS:
            ranks //= 2
        self.err = ""
        out = tempfile.TemporaryFile("w+")
        run = subprocess.Popen(
            [command, "run", "--topo", topo, "--standstill", f"{REPORT_AFTER_S}s", "--report",
             f"{program}.{name}.json", *options, "--",
             *before,
             "mpirun", "-np", str(ranks), program, bug, str(seconds),
             *([go_file] if name == "one-computes" else [])],
            env=env, text=True, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE)
        late = threading.Timer(PATIENCE_S, run.kill)
        late.start()
        with run.stderr:
            for line in run.stderr:
                self.err += line
                if stands and "nothing has moved" in line:
                    stands = False
                    time.sleep(0.3)  # lines after this one
                    if name == "one-computes":
                        open(go_file, "w").close()
                    else:
                        run.send_signal(signal.SIGINT)
        self.status = run.wait()
        late.cancel()
        with open(f"{program}.{name}.json") as f:
            self.report = json.load(f)
        with out:
            out.seek(0)
            self.out = out.read()


@unittest.skipUnless(shutil.which("mpirun") and shutil.which("mpicc"), "needs Open MPI")
class StandstillTest(FabemuCase):
    @classmethod
    def setUpClass(cls):
        cls.build = tempfile.mkdtemp(prefix="fabemu-standstill.")
        cls.program = build_bugs(cls.build)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "FI_", "FABEMU_"))}
        env["XDG_RUNTIME_DIR"] = cls.build
        env["OMPI_MCA_coll_fabemu_step_aside"] = "0"  # collectives in the network
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            runs = {name: pool.submit(Running, cls.command, env, cls.program, name)
                    for name in RUNS}
            cls.runs = {name: run.result() for name, run in runs.items()}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.build, ignore_errors=True)

    def find(self, name, *patterns):
        """Each pattern matches a separate line of the run's output; #N is rank N in full."""
        run = self.runs[name]
        for pattern in patterns:
            pattern = re.sub(r"#(\d)", r"rank \1 \\(node \1, pid \\d+, bugs\\)", pattern)
            self.assertRegex(run.err, rf"(?m)^fabemu: +{pattern}")
        return run

    BARRIER = r"barrier, number 2 of MPI_COMM_WORLD \(group \d+\), for .* s: 3 of 4 have arrived, "

    def test_barrier_skipped(self):
        self.find("skip-barrier", self.BARRIER + "ranks 0-2$",
                  "#3 has not entered it: switch 1 waits for it at port 1$",
                  "#3 waits in a receive from rank 0, tag 7, 4 bytes at most, for .* s: no "
                  "matching message has arrived$")

    def test_barrier_skipped__with_acknowledgments(self):
        self.find("adapters: skip-barrier", self.BARRIER + "ranks 0-2$",
                  "#3 has not entered it: its adapter waits for it$",
                  "#3 waits in a receive from rank 0, tag 7,")

    def test_barrier_skipped__over_messages(self):
        """Open MPI's own barrier: receives from ranks, named after it."""
        run = self.find("over messages", "#3 waits in a receive from rank 0, tag 7,",
                        "#0 waits in a receive from .*, in MPI_Barrier, 0 bytes at most, ")
        self.assertNotIn("have arrived", run.err)

    def test_first_barrier_skipped(self):
        """One member has not joined the communicator's group yet."""
        run = self.find("first barrier",
                        self.BARRIER.replace("number 2", "number 1") + "ranks 0-2$",
                        "#3 has not entered it: switch 1 waits for it at port 1$",
                        "#3 waits in a receive from rank 0, tag 7, 4 bytes at most, for .* s: "
                        "no matching message has arrived$")
        self.assertNotIn("MPI_All", run.err)

    def test_barrier_skipped__by_a_rank_that_finalizes(self):
        self.find("early-finalize", self.BARRIER + "ranks 0-2$",
                  "#3 has not entered it: switch 1 waits for it at port 1$",
                  "rank 3 is in MPI_Finalize$")

    def test_message_not_sent__by_ranks_that_finalize(self):
        run = self.find("finalize-unsent", "#0 waits in a receive from rank 3, tag 7, 4 bytes ",
                        "ranks 1-3 are in MPI_Finalize$")
        self.assertEqual([one["node"] for one in run.report["standstill_attached"]
                          if one.get("finalizes")], [1, 2, 3])
        self.assertNotIn("MPI_Finalize", self.runs["skip-barrier"].err)

    def test_cycle(self):
        """Lists ranks that wait for each other, some of them in a collective, but no rank that
        waits for one outside of the cycle."""
        for name, ranks in (("skip-barrier", "0, 3"), ("first barrier", "0, 3"),
                            ("missing-send", "0-1")):
            self.find(name, f"ranks {ranks} wait for each other in a cycle$")
        for name in ("one-computes", "stopped", "flood"):
            self.assertNotIn("cycle", self.runs[name].err)

    def test_report(self):
        for name, stood in (("skip-barrier", True), ("one-computes", True), ("off", False),
                            ("all-compute", False)):
            (self.assertRegex if stood else self.assertNotRegex)(
                self.runs[name].err, r"(?m)^  standstill   nothing moved for \d")

    def test_report__has_the_reason_in_json(self):
        for name in ("skip-barrier", "ends"):
            report = self.runs[name].report
            barrier, = report["standstill"]["collectives"]
            self.assertEqual((barrier["kind"], barrier["arrived"]), ("barrier", [0, 1, 2]))
            self.assertEqual([one["node"] for one in barrier["missing"]], [3])
            self.assertEqual(report["standstill"]["for_ns"], report["standstill_ns"])
            waits = {one["node"]: one.get("receive") for one in report["standstill_attached"]}
            self.assertEqual((waits[3]["node"], waits[3]["tag"]), (0, 7))
        self.assertNotIn("standstill", self.runs["off"].report)

    def test_end(self):
        """The run ends by itself, with its report and its own exit status."""
        run = self.find("ends", self.BARRIER + "ranks 0-2$", "#3 has not entered it",
                        "ending the run, which stands still .*; exit status 124$")
        self.assertEqual(run.status, 124, run.err)
        self.assertIn("\n  command      exit status 124 after ", run.err)
        # mpirun itself got SIGTERM, not its ranks as well: then it aborts, and may crash.
        self.assertNotIn("Segmentation fault", run.err)
        self.assertNotIn("abort is already in progress", run.err)
        self.assertNotIn("exited on signal", run.err)
        self.assertNotIn("interrupted", run.err)
        # A rank may see that mpirun has killed another one before it; the run reports no death.
        self.assertNotRegex(run.err, r"(?m)^(fabemu: |  ).*\bdied\b")

    def test_broadcast__roots_differ(self):
        self.find("bcast-roots",
                  r"broadcast of 4 bytes from rank 0, number 2 of MPI_COMM_WORLD .*: 3 of 4 have "
                  "arrived, ranks 1-3$",
                  "#0 called a broadcast of 4 bytes from rank 1 instead: the members do not "
                  "agree$")

    def test_broadcast__two_send(self):
        """Nobody waits, and the data of one of them is received: it is reported all the same."""
        run = self.runs["bcast-two-roots"]
        self.assertEqual(run.status, 0, run.err)
        self.assertRegex(run.err,
                         r"rank \d \(.*\) and rank [03] \(.*\) do not agree on collective 2 of "
                         r"MPI_COMM_WORLD \(group \d+\): rank \d called a broadcast from rank \d, "
                         r"and rank ([03]) called a broadcast of 4 bytes from rank \1\n")
        self.assertEqual(run.err.count("do not agree"), 1, run.err)

    def test_reduce__roots_differ(self):
        self.find("reduce-roots",
                  r"reduce of 4 bytes \(sum of int32\) to rank [03], number 2 of MPI_COMM_WORLD ")
        self.assertRegex(self.runs["reduce-roots"].err,
                         r"  rank ([03]) \(.*\) called a reduce of 4 bytes \(sum of int32\) to "
                         r"rank \1 instead: the members do not agree\n")

    def count_differs(self, name):
        self.find(name,
                  r"reduce of 16 bytes \(sum of int32\) to rank 0, number 2 of MPI_COMM_WORLD ")
        line = re.search(r"the members do not agree: (.*)\n", self.runs[name].err).group(1)
        self.assertRegex(line,
                         r"rank 3 \(node 3, pid \d+, bugs\) called a reduce of 32 bytes \(sum "
                         r"of int32\)")
        self.assertRegex(line,
                         r"rank [0-2] \(.*?\) called a reduce of 16 bytes \(sum of int32\)")

    def test_reduce__counts_differ(self):
        self.count_differs("reduce-count")

    def test_reduce__counts_differ__with_acknowledgments(self):
        self.count_differs("adapters: reduce-count")

    def test_allreduce__counts_differ(self):
        self.find("allreduce-count",
                  r"all-reduce of 16 bytes \(sum of int32\), number 2 of .* 3 of 4 have arrived, "
                  r"ranks 0-2$",
                  r"#3 called an all-reduce of 32 bytes \(sum of int32\) instead: the members "
                  r"do not agree$")

    def test_receive_missing(self):
        self.find("missing-receive", self.BARRIER + "ranks 1-3$", "#0 has not entered it",
                  "#0 waits in a send to rank 1, tag 5, 1000000 bytes, for .* s: no matching "
                  "receive is posted$")

    def test_receive_missing__of_a_synchronous_send(self):
        """The short message has been sent. Only the receive of its confirmation is pending."""
        run = self.find("missing-receive-of-ssend",
                        r"#0 waits in a synchronous send \(MPI_Ssend or MPI_Issend\) to rank 1, "
                        r"tag 5 of communicator [3-9], for .* s: no matching receive is posted$")
        self.assertNotIn("waits in a receive", run.err)
        send, = (one["send"] for one in run.report["standstill_attached"] if "send" in one)
        self.assertEqual((send["kind"], send["state"], send["node"]), ("send", "unmatched", 1))
        self.assertNotIn("bytes", send)

    def test_probes(self):
        """All ranks probe for messages that nobody sends. No operation is pending."""
        self.find("probe-cycle", "ranks 0-3 wait for each other in a cycle$",
                  *[f"#{n} waits in a probe for a message from rank {(n + 1) % 4}, tag 5, for .* "
                    "s: no matching message has arrived$" for n in range(4)])

    def test_fence_skipped(self):
        self.find("skip-fence", r"all-reduce of 4 bytes \(maximum of int32\), number 1 of "
                  r"MPI_Win_fence of fabemu window \d+ \(group \d+\), ",
                  "#0 has not entered it: ")

    def test_lock_held(self):
        """A process that waits for a lock tries again and again; that is no progress."""
        for name in ("exclusive-lock", "adapters: exclusive-lock", "shared-waiter"):
            run = self.find(name, "ranks 0, 3 wait for each other in a cycle$",
                            "#3 waits for rank 0 to release the lock of rank 1 in an MPI window, "
                            "for .* s$", "#0 waits in a receive from rank 3, tag 7, ")
            wait, = (one["receive"] for one in run.report["standstill_attached"]
                     if one["node"] == 3)
            self.assertEqual((wait["kind"], wait["node"], wait["target"]), ("unlock", 0, 1))
            self.assertNotIn("tag", wait)

    def test_lock_held__by_readers(self):
        """The lock word does not say who holds a shared lock."""
        self.find("shared-lock", "#3 waits for other ranks to release the lock of rank 1 in an MPI "
                  "window, for .* s$")

    def test_post_missing(self):
        self.find("skip-post", "#0 waits in MPI_Win_start for MPI_Win_post of rank 1, for .* s$",
                  "#3 waits in MPI_Win_wait for MPI_Win_complete of rank 2, for .* s$")

    def test_free_missing(self):
        self.find("skip-free", "#1 waits in MPI_Win_free for MPI_Win_free of other ranks, for ")

    def test_in_simulated_time(self):
        run = self.find("simulated",
                        r"nothing has moved for .* \(all times here are simulated\):$",
                        "#1 waits in a receive from rank 0, tag 5, ")
        self.assertRegex(run.err, r"\n  standstill   nothing moved for .* of simulated time\n")
        self.assertTrue(run.report["standstill"]["simulated"])
        self.assertNotIn("simulated", self.runs["missing-send"].err)

    def test_send_missing(self):
        self.find("missing-send", self.BARRIER + "ranks 0, 2-3$", "#1 has not entered it",
                  "#1 waits in a receive from rank 0, tag 5, 4 bytes at most, for .* s: no "
                  "matching message has arrived$")

    def test_send_missing__in_two_jobs(self):
        run = self.find("two jobs", r"node \d \(pid \d+, bugs\) waits in a receive from node \d, ")
        self.assertNotRegex(run.err, r"\branks? \d")

    def test_tags_differ(self):
        self.find("wrong-tag",
                  "#1 waits in a receive from rank 0, tag 5, .*: no matching message has arrived; "
                  "1 message has arrived that matches no receive, the first from rank 0, tag 6, 4 "
                  "bytes$")

    def test_tags_differ__before_the_first_collective(self):
        self.find("first wrong tag", self.BARRIER.replace("number 2", "number 1") + "ranks 0-2$",
                  "#3 waits in a receive from rank 0, tag 5, .*: no matching message has arrived; "
                  "1 message has arrived that matches no receive, the first from rank 0, tag 6, 4 "
                  "bytes$")

    def test_gather_skipped(self):
        self.find("skip-gather", "#0 waits in a receive from rank 3, in MPI_Gatherv, ")

    def test_gather_skipped__in_the_network(self):
        """The network executes the call as another collective, and the report names both."""
        for name in ("skip-small-gather", "adapters: skip-small-gather"):
            self.find(name, r"gather, executed as a reduce of 16 bytes \(bitwise or of uint8\) to "
                      "rank 0, number 2 of MPI_COMM_WORLD ")
            self.find(name, r"  #3 called a barrier instead: the members do not agree$")

    def test_other_collectives_skipped__in_the_network(self):
        self.find("skip-scatter", "scatter, executed as a broadcast of 16 bytes from rank 0, "
                  "number 2 of MPI_COMM_WORLD ")
        self.find("skip-reduce-scatter", r"reduce-scatter, executed as a reduce of 4 bytes \(sum "
                  r"of int32\) to rank \d, number \d of MPI_COMM_WORLD ")
        self.find("skip-alltoall", r"all-to-all, executed as an all-reduce of 64 bytes \(bitwise "
                  r"or of uint8\), number 2 of MPI_COMM_WORLD ")

    def test_stopped(self):
        run = self.find("stopped", self.BARRIER + "ranks 0-2$",
                        "#3 has not entered it: .*; it is stopped$")
        self.assertEqual(run.status, 130, run.err)

    def test_stopped__its_report_is_outdated(self):
        """It has reported waiting for a barrier, was released, and stopped before it reported
        that."""
        run = self.find("stopped later",
                        self.BARRIER.replace("number 2", "number 3") + "ranks 0-2$",
                        "#3 has not entered it: .*; it is stopped$", "#3 is stopped$")
        self.assertNotIn("barrier, number 2 ", run.err)

    def test_stopped__all(self):
        """A broadcast is over, which nobody can say any more: nothing is told of it."""
        for name in ("all stopped", "adapters: all stopped"):
            run = self.find(name, *[f"#{n} is stopped$" for n in range(RANKS)])
            self.assertNotIn("broadcast of 4", run.err)

    def test_stopped__while_others_send(self):
        """Its ring is full, and the network backs up: links say what they wait for."""
        self.find("flood", *[f"#{n} waits in a send to rank {FLOODS}, tag 1, 4 bytes, for .* s: it "
                             "is not sent: the peer accepts no more, " for n in range(FLOODS)],
                  f"#{FLOODS} is stopped$",
                  f"the link to #{FLOODS} waits for space: its process does not receive its "
                  "segments, for ",
                  r"the link from switch \d, port \d, to switch \d waits for a credit, for ")

    def test_computing__is_the_missing_rank(self):
        """It is not called dead, and the run goes on."""
        run = self.find("one-computes", self.BARRIER + "ranks 0-2$",
                        "#3 has not entered it: .*; it computes, or waits for something outside "
                        "the fabric$")
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(run.err.count("nothing has moved"), 1, run.err)
        self.assertNotIn("died", run.err)
        self.assertIn("ends", run.out)

    def test_computing_alone__is_not_a_standstill(self):
        run = self.runs["all-compute"]
        self.assertEqual(run.status, 0, run.err)
        self.assertIn("ends", run.out)
        self.assertNotIn("nothing has moved", run.err)
        self.assertNotIn("waits", run.err)

    def test_off(self):
        run = self.runs["off"]
        self.assertEqual(run.status, 0, run.err)
        self.assertNotIn("nothing has moved", run.err)

    def test_interrupt__repeats_the_report(self):
        err = self.runs["skip-barrier"].err
        before, after = err.split("interrupted; ending the run\n")
        for part in (before, after):
            self.assertIn("nothing has moved for", part)
            self.assertIn(" has not entered it", part)

    # --- by status ------------------------------------------------------------------

    def test_status(self):
        path = os.path.join(self.dir, "report.json")
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", "--standstill", "off",
                         "--report", path, "--", "mpirun", "-np", str(RANKS), self.program,
                         "wrong-tag")

        def stands():
            done = self.fabemu("status", "--json", "r")
            status = json.loads(done.stdout)[0] if done.returncode == 0 else None
            what = status["standstill"] if status else {"for_ns": 0}
            return status if what["for_ns"] - what.get("starved_ns", 0) > 4e9 else None
        status = until(stands, 60)
        self.assertTrue(status)
        (collective,) = status["standstill"]["collectives"]
        self.assertEqual([collective[k] for k in ("name", "number", "kind", "members", "arrived")],
                         ["MPI_COMM_WORLD", 2, "barrier", RANKS, [0, 2, 3]])
        (missing,) = collective["missing"]
        self.assertEqual(missing, {"node": 1, "begun": 1, "entered": False, "switch": 0, "port": 1})
        self.assertEqual([one["rank"] for one in status["attached"]], [0, 1, 2, 3])
        receive = status["attached"][1]["receive"]
        self.assertEqual([receive[k] for k in ("kind", "state", "node", "tag", "bytes")],
                         ["receive", "unmatched", 0, 5, 4])
        self.assertEqual(status["standstill"]["links"], [])
        self.assertEqual(status["standstill"]["disagreements"], [])
        text = self.fabemu("status", "r").stdout
        self.assertRegex(text, r"\n  node 1: pid \d+, bugs, rank 1\n")
        self.assertRegex(text, r"\n  nothing has moved for ")
        self.assertRegex(text,
                         r"\n  rank 1 \(node 1, pid \d+, bugs\) waits in a receive from rank 0, "
                         r"tag 5,")
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
        self.assertIn("nothing has moved for", err)  # off: still reported on interrupt
        with open(path, encoding="utf-8") as file:
            self.assertIn("collectives", json.load(file)["standstill"])

    def test_without_a_core(self):
        """Ranks stand still with hardly any core: that time does not count, and a line says so.
        The standstill lasts, although the ranks do not even get a core to poll."""
        run = self.start("run", "--topo", "kary:2,2", "--name", "s", "--standstill", "off", "--",
                         "mpirun", "-np", "2", self.program, "missing-send")

        def standing():
            done = self.fabemu("status", "--json", "s")
            status = json.loads(done.stdout)[0] if done.returncode == 0 else None
            return status if status and status["standstill"]["for_ns"] else None
        status = until(standing, 60)
        self.assertTrue(status)
        core = min(os.sched_getaffinity(0))
        for one in status["attached"]:  # its first thread, but not libfabemu's, which reports
            os.sched_setscheduler(one["pid"], os.SCHED_IDLE, os.sched_param(0))
            os.sched_setaffinity(one["pid"], {core})
        hogs = [subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
                for _ in range(HOGS)]
        self.started += hogs
        least_ns = status["standstill"].get("starved_ns", 0) + STARVED_S * 1e9
        end = time.monotonic() + STARVED_LIMIT_S
        while status["standstill"].get("starved_ns", 0) < least_ns:
            self.assertLess(time.monotonic(), end, "time without a core is not counted")
            time.sleep(0.05)
            status = standing()
            self.assertTrue(status, "it has ended, and nothing has moved")
            self.assertEqual([one["waits"] for one in status["attached"]], [True, True])
        self.assertLessEqual(status["standstill"]["starved_ns"], status["standstill"]["for_ns"])
        self.assertRegex(flat(self.fabemu("status", "s").stdout),
                         r" nothing has moved for .* s, .* s of it without a core: a host "
                         r"had too many threads to run: ")
        for hog in hogs:
            hog.kill()
            hog.wait()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=30)
        self.assertIn(" of it without a core: a host had too many threads to run:\n", err)

    def test_up_in_the_foreground(self):
        up = self.start("up", "--topo", "kary:2,2", "--foreground", "u")
        self.assertTrue(until(lambda: "u.sock" in self.sockets()))
        run = subprocess.Popen(
            ["sh", "-c", 'eval "$("$0" env u)"; exec mpirun -np 2 "$1" missing-send',
             self.command, self.program], env=self.env, stdin=subprocess.DEVNULL,
             stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.started.append(run)
        with up.stderr:
            for line in up.stderr:
                if "waits in a receive from rank 0, tag 5," in line:
                    break
            else:
                self.fail("it said nothing")
        run.terminate()
        run.wait()
        self.fabemu("down", "u")
        up.wait()

    def test_garbage_in_the_hostif(self):
        """A process may write anything into its shared memory: status works, and prints none of
        those bytes."""
        client = self.client(self.up())
        self.assertTrue(client.attach()["ok"])
        with mmap.mmap(client.fds[0], 0) as hostif:
            for round in range(30):
                hostif[64:16384] = os.urandom(16320) if round % 2 else bytes([round]) * 16320
                for args in (("--json",), ()):
                    done = self.fabemu("status", *args, "u")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue(done.stdout.replace("\n", "").isprintable(), done.stdout)
                    self.assertTrue(done.stdout.isascii(), done.stdout)

    def test_wrong_option(self):
        for value in ("0", "x", "-1", "", "5m", "s", "5:", "5:ends", "off:end", ":end",
                      "5s:end:end", "1" * 40):
            self.one_line(self.fabemu("run", "--standstill", value, "--", "true"), 2,
                          "--standstill", "or off")


if __name__ == "__main__":
    main()
