#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""capture_test.py - captures of cables: every segment once, readable by Wireshark.

   tests/cli/capture_test.py --fabemu build/fabemu [unittest options]

Tests that need tshark are skipped where it is not installed (scripts/deps tshark).
"""
import collections
import json
import os
import re
import shutil
import signal
import subprocess

from helpers import capture as pcap_file, formats
from helpers.telemetry import parse_metrics
from cli_helpers import FabemuCase, PATIENCE_S, main, stopped, until

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DISSECTOR = os.path.join(TOP, "apps/capture/fabemu.lua")
RETRY = ("--set", "link_retry=go_back_n")
RINGS = 65536  # records that fit all rings: docs/capture.md
STREAM_PIECES = -(-100000 // 232)  # pieces of the longest message of speaks
SPEAKS = 'FABEMU_NODE=0 "$0" "$1" & FABEMU_NODE=1 "$0" "$1" || exit; wait $!'
EXAMPLE = 'for i in 0 1 2 3; do FABEMU_NODE=$i "$0" 4 & done; wait'


class CaptureTest(FabemuCase):
    def path(self, name="c.pcapng"):
        return os.path.join(self.dir, name)

    def read(self, name="c.pcapng"):
        with open(self.path(name), "rb") as f:
            return pcap_file.Capture(f.read())

    def traffic(self, *options, text="", name="c.pcapng"):
        """Capture synthetic traffic in simulated time; no record may be lost."""
        done = self.fabemu("traffic", "--capture", self.path(name), "--capture-filter", text,
                           *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        capture = self.read(name)
        self.assertIn(f"{len(capture.records)} records are in", done.stderr)
        self.check_counts(capture)
        return capture

    def check_counts(self, capture):
        """Each interface's statistics count the records written and missed."""
        there = collections.Counter(r.interface for r in capture.records)
        self.assertEqual(set(capture.counts), set(capture.interfaces))
        for interface, (seen, missed, written) in capture.counts.items():
            self.assertEqual(written + missed, seen, interface)
            self.assertEqual(written, there[interface], interface)
        lost = sum(r.lost for r in capture.records)
        self.assertLessEqual(lost, sum(missed for _, missed, _ in capture.counts.values()))

    def allreduce(self, topo, *options, **kwargs):
        return self.traffic("--topo", topo, "--pattern", "allreduce", "--bytes", "8",
                            "--operations", "3", *options, **kwargs)

    def tshark(self, name, *fields, also=()):
        """Rows with these fields of each packet, as the dissector decodes them."""
        if not shutil.which("tshark"):
            self.skipTest("SKIPPED: tshark is not installed (scripts/deps tshark)")
        wanted = [word for field in fields for word in ("-e", field)]
        how = ["-T", "fields", "-E", "separator=/t", *wanted] if fields else ["-V"]
        env = dict(self.env, XDG_CONFIG_HOME=self.dir, HOME=self.dir)
        done = subprocess.run(["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", self.path(name),
                               *how, *also], env=env, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, errors="replace", timeout=120)
        self.assertNotIn("Lua", done.stderr + done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr)
        if not fields:
            return done.stdout
        return [line.split("\t") for line in done.stdout.splitlines()]

    # --- what is in it ---------------------------------------------------------

    def test_allreduce__every_link_carries_each_contribution_and_result_once(self):
        capture = self.allreduce("kary:4,2")
        folded = capture.segments(pcap_file.ALLREDUCE)
        seen = collections.Counter((r.interface, r.header.seq) for r in folded)
        self.assertEqual(set(seen.values()), {1})
        sent = [r for r in folded if r.ends[0].startswith("n")]
        got = [r for r in folded if r.ends[1].startswith("n")]
        numbers = {r.header.seq for r in folded}
        self.assertEqual(len(numbers), 3)
        for number in numbers:
            mine = [r for r in sent if r.header.seq == number]
            results = [r for r in got if r.header.seq == number]
            self.assertEqual(sorted(r.header.src for r in mine), list(range(16)))
            self.assertEqual(sorted(r.ends[0] for r in mine),
                             sorted(f"n{r.header.src}:0" for r in mine))
            self.assertEqual(sorted(r.ends[1] for r in results),
                             sorted(f"n{n}:0" for n in range(16)))
            values = [int.from_bytes(r.header.payload, "little") for r in mine]
            self.assertEqual({int.from_bytes(r.header.payload, "little") for r in results},
                             {sum(values) % 2 ** 64})
            # Between switches: a partial sum up each branch, and the result down.
            between = {r.interface for r in folded if r.header.seq == number
                       and "n" not in r.interface}
            self.assertEqual({">".join(reversed(way.split(">"))) for way in between}, between)
        self.assertEqual({unit for unit in capture.units}, {12})

    def test_allreduce__in_adapters_carries_each_contribution_and_result_once(self):
        capture = self.allreduce("qsnet:16")
        folded = [r for r in capture.segments(pcap_file.ALLREDUCE) if r.part == pcap_file.HEAD]
        seen = collections.Counter((r.interface, r.header.seq, r.header.src) for r in folded)
        self.assertEqual(set(seen.values()), {1})
        numbers = {r.header.seq for r in folded}
        self.assertEqual(len(numbers), 3)
        for number in numbers:
            mine = [r for r in folded if r.header.seq == number]
            # Each adapter but the tree's root sends its subtree's result up, ...
            up = [r for r in mine if not r.to_group and r.ends[0].startswith("n")]
            self.assertEqual(len({r.header.src for r in up}), 15)
            self.assertEqual(len(up), 15)
            # ... and the root sends the result to all others.
            down = [r for r in mine if r.to_group and r.ends[1].startswith("n")]
            root = set(range(16)) - {r.header.src for r in up}
            self.assertEqual({r.header.src for r in down}, root)
            self.assertEqual(sorted(r.ends[1] for r in down),
                             sorted(f"n{n}:0" for n in set(range(16)) - root))
        replies = [r for r in capture.records if r.what == pcap_file.REPLY]
        heads = [r for r in capture.records if r.part == pcap_file.HEAD]
        self.assertEqual({r.part for r in replies}, {pcap_file.ACK})
        self.assertTrue({r.tag for r in replies} <= {r.tag for r in heads})
        for text, wanted in (("packet=ack", replies), ("packet=head", heads),
                             ("packet=cont", [])):
            kept = self.allreduce("qsnet:16", text=text).records
            self.assertEqual(sorted((r.interface, r.time, r.data) for r in kept),
                             sorted((r.interface, r.time, r.data) for r in wanted))

    def test_credits__equal_the_segments_in_the_opposite_direction(self):
        capture = self.traffic("--topo", "kary:2,2", "--pattern", "complement", "--load", "0.5",
                               "--warmup", "1000ns", "--measure", "3000ns")
        sent, back = collections.Counter(), collections.Counter()
        for r in capture.records:
            if r.what == pcap_file.CREDITS:
                back[">".join(reversed(r.ends))] += r.number
            else:
                sent[r.interface] += 1
        self.assertGreater(sum(sent.values()), 100)
        self.assertEqual(sent, back)
        times = [r.time for r in capture.records]
        self.assertLess(max(times), 1000 * 1000 * 1000)

    def test_retry__retransmissions_have_their_reasons(self):
        faults = self.path("some.faults")
        with open(faults, "w") as f:
            f.write("loss link=any rate=0.02\n")
        capture = self.traffic("--topo", "kary:2,3", *RETRY, "--pattern", "uniform", "--load",
                               "0.3", "--warmup", "2000ns", "--measure", "20000ns", "--faults",
                               faults, text="level=0 level=1")
        first, again = collections.defaultdict(list), 0
        for r in capture.records:
            if r.what != pcap_file.SEGMENT:
                continue
            self.assertTrue(r.flags & pcap_file.NUMBERED)
            if r.flags & pcap_file.AGAIN:
                again += 1
                self.assertIn(r.number, first[r.interface])
            else:
                first[r.interface].append(r.number)
        self.assertGreater(again, 0)
        for numbers in first.values():
            self.assertEqual(numbers, [(numbers[0] + i) % 2 ** 32 for i in range(len(numbers))])
        answers = [r.about for r in capture.records if r.what == pcap_file.ANSWER]
        self.assertEqual(set(answers), {1, 2})
        self.assertFalse([r for r in capture.records if "n" in r.interface])

    def test_filters__keep_matching_records(self):
        def of(r, *kinds):
            return r.header and r.header.kind in kinds
        everything = self.allreduce("kary:4,2").records
        cases = (("link=0:1", lambda r: "0:1" in r.ends),
                 ("link=0:1>", lambda r: r.ends[0] == "0:1"),
                 ("link=n3 link=n4", lambda r: "n3:0" in r.ends or "n4:0" in r.ends),
                 ("nodes=3-4,9", lambda r: {"n3:0", "n4:0", "n9:0"} & set(r.ends)),
                 ("switch=5", lambda r: any(end.startswith("5:") for end in r.ends)),
                 ("level=nodes", lambda r: "n" in r.interface),
                 ("level=0", lambda r: "n" not in r.interface),
                 ("level=nodes direction=up", lambda r: r.interface.startswith("n")),
                 ("direction=down what=segments", lambda r: r.header and not
                  r.interface.startswith("n") and int(r.ends[0].split(":")[0]) in
                  (range(4) if ">n" in r.interface else range(4, 8))),
                 ("kind=allreduce", lambda r: of(r, pcap_file.ALLREDUCE)),
                 ("kind=allreduce from=2",
                  lambda r: of(r, pcap_file.ALLREDUCE) and r.header.src == 2),
                 ("kind=unicast", lambda r: of(r, pcap_file.UNICAST)),
                 ("what=credits", lambda r: r.what == pcap_file.CREDITS),
                 ("what=credits,segments link=2:0", lambda r: "2:0" in r.ends))
        for text, keeps in cases:
            with self.subTest(text):
                wanted = [(r.interface, r.time, r.data) for r in everything if keeps(r)]
                got = [(r.interface, r.time, r.data)
                       for r in self.allreduce("kary:4,2", text=text).records]
                self.assertEqual(sorted(got), sorted(wanted))

    def test_simulated_time__is_the_same_with_a_capture_and_without(self):
        run = ("traffic", "--json", "--topo", "kary:4,2", "--pattern", "uniform", "--load", "0.4",
               "--warmup", "1000ns", "--measure", "3000ns")
        without = self.fabemu(*run)
        captured = self.fabemu(*run, "--capture", self.path(), "--threads", "2")
        self.assertEqual(json.loads(captured.stdout)["digest"],
                         json.loads(without.stdout)["digest"])
        self.check_counts(self.read())

    def test_snaplen__truncates_payloads_only(self):
        capture = self.allreduce("kary:2,2", "--snaplen", "3")
        for r in capture.segments():
            self.assertEqual((len(r.header.payload), r.header.len), (3, 8))
            self.assertEqual(r.whole, len(r.data) + 5)

    # --- how large it gets -----------------------------------------------------

    # In simulated time with one thread, every run gives the same records in the same order.
    STEADY = ("--topo", "kary:2,2", "--threads", "1", "--pattern", "uniform", "--load", "0.5",
              "--warmup", "1000ns", "--measure", "200000ns")

    def steady(self, *options, name="c.pcapng", status=0):
        done = self.fabemu("traffic", "--capture", self.path(name), *self.STEADY, *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    @staticmethod
    def plain(records):
        return [(r.interface, r.time, r.data) for r in records]

    def everything(self):
        """The records of a capture without a limit: enough to fill several files of 40 kB."""
        said = self.steady(name="all.pcapng")
        self.assertRegex(said, r"each record takes up to \d+ bytes of \S+/all.pcapng, and the disk "
                               r"has \S+ \wiB left; --capture-size sets a limit")
        records = self.read("all.pcapng").records
        self.assertGreater(os.path.getsize(self.path("all.pcapng")), 8 * 40960)
        return self.plain(records)

    def test_size__keeps_the_first_records_and_counts_the_others(self):
        wanted = self.everything()
        said = self.steady("--capture-size", "40K")
        capture = self.read()
        kept = len(capture.records)
        self.assertGreater(kept, 40)
        self.assertLessEqual(os.path.getsize(self.path()), 40960)
        self.assertEqual(self.plain(capture.records), wanted[:kept])
        self.check_counts(capture)
        self.assertEqual(sum(seen for seen, _, _ in capture.counts.values()), len(wanted))
        self.assertRegex(said, r"c.pcapng takes up to 40 KiB, and the disk has ")
        self.assertIn(f"{kept} records are in {self.path()}; {len(wanted) - kept} later ones were "
                      "not written, because of --capture-size", said)

    def test_ring__keeps_the_last_records_and_counts_the_others(self):
        wanted = self.everything()
        for i, text in ((1, "of a ring before"), (2, "likewise")):
            with open(self.path(f"c_{i}.pcapng"), "w") as f:
                f.write(text)
        said = self.steady("--capture-size", "40K", "--capture-files", "3")
        names = sorted(name for name in os.listdir(self.dir) if name.startswith("c"))
        self.assertEqual(names, ["c_0.pcapng", "c_1.pcapng", "c_2.pcapng"])
        files = [self.read(name) for name in names]
        for name, capture in zip(names, files):
            self.assertLessEqual(os.path.getsize(self.path(name)), 40960)
            self.assertEqual(set(capture.counts), set(files[0].interfaces))
        files.sort(key=lambda capture: capture.records[0].time)
        kept = [r for capture in files for r in capture.records]
        self.assertEqual(self.plain(kept), wanted[-len(kept):])
        # The statistics of each file count from the beginning of the capture.
        self.assertEqual(sum(written for _, _, written in files[-1].counts.values()), len(wanted))
        self.assertRegex(said, r"c_\*.pcapng take up to 120 KiB in 3 files, and the disk has ")
        self.assertIn(f"{len(kept)} records are in {self.path('c_*.pcapng')}; "
                      f"{len(wanted) - len(kept)} older ones were overwritten", said)

    def test_ring__has_no_file_that_it_did_not_need(self):
        with open(self.path("c_01.pcapng"), "w") as f:
            f.write("of a ring before")
        self.steady("--capture-size", "1GB", "--capture-files", "20", "--capture-filter",
                    "what=segments")
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith("c")],
                         ["c_00.pcapng"])

    def test_size__of_several_loads_is_that_of_one_file(self):
        options = ("--topo", "kary:2,2", "--threads", "1", "--load", "0.5,0.6,0.7", "--warmup",
                   "1000ns", "--measure", "60000ns", "--capture", self.path())
        done = self.fabemu("traffic", *options, "--capture-size", "60K")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(os.path.getsize(self.path()), 61440)
        kept = [int(n) for n in re.findall(r"(\d+) records are in", done.stderr)]
        self.assertEqual(len(kept), 3)
        self.assertEqual(kept[-1], 0)
        self.assertEqual(done.stderr.count("the disk has"), 1)

    def test_size__invalid_is_refused_without_effect(self):
        with open(self.path(), "w") as f:
            f.write("precious")
        run = ("traffic", "--topo", "kary:2,2", "--capture", self.path())
        for words, code, said in (
                (("--capture-size", "1kB"), 2, "--capture-size must be 4KiB or more"),
                (("--capture-size", "500"), 2, "--capture-size must be 4KiB or more"),
                (("--capture-size", "much"), 2, "it must be a size, such as 500MB or 2GiB"),
                (("--capture-size", "0MB"), 2, "such as 500MB"),
                (("--capture-size", "-1MB"), 2, "such as 500MB"),
                (("--capture-size", "99999999999EB"), 2, "such as 500MB"),
                (("--capture-size", "1MB", "--capture-files", "1"), 2, "from 2 to 100"),
                (("--capture-size", "1MB", "--capture-files", "101"), 2, "from 2 to 100"),
                (("--capture-files", "3"), 2,
                 "--capture-files needs --capture-size SIZE")):
            with self.subTest(words):
                self.one_line(self.fabemu(*run, *words), code, said)
                with open(self.path()) as f:
                    self.assertEqual(f.read(), "precious")
        ring = ("--capture-size", "1MB", "--capture-files", "2")
        os.mkfifo(self.path("p_0"))
        with open(os.open(self.path("p_0"), os.O_RDONLY | os.O_NONBLOCK)):
            self.one_line(self.fabemu("traffic", "--capture", self.path("p"), *ring), 1,
                          "a ring of files needs regular files")
        self.up("u")
        self.one_line(self.fabemu("capture", "u", "-w", "-", *ring), 1,
                      "to standard output: a ring of files needs regular files")

    def test_disk_that_is_full__is_reported_and_the_file_can_be_read(self):
        room = self.path("room")
        os.mkdir(room)
        mount = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=100k none {room} && '
                 f'"$@"; status=$?; cp {room}/* {self.dir}; exit $status', "sh"]
        if os.geteuid() or subprocess.run([*mount, "touch", f"{room}/x"],
                                          capture_output=True).returncode:
            self.skipTest("cannot mount a small disk")
        wanted = self.everything()
        ring = ("--capture-size", "60K", "--capture-files", "2")
        for options, label in ((), "c.pcapng"), (ring, "c_*.pcapng"):
            with self.subTest(label):
                done = subprocess.run(
                    [*mount, self.command, "traffic", "--capture", f"{room}/c.pcapng",
                     *self.STEADY, *options], env=self.env, cwd=self.dir, text=True,
                    stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"writing {room}/{label} failed (No space left on "
                              "device)", done.stderr)
                names = sorted(os.listdir(self.dir))
                kept = [r for name in names if name.startswith("c")
                        for r in self.read(name).records]
                self.assertGreater(len(kept), 100)
                self.assertEqual(self.plain(kept), wanted[:len(kept)])
                self.assertIn(f": {len(kept)} records are in it, and {len(wanted) - len(kept)} "
                              "later ones were not written", done.stderr)
                if options:
                    self.assertIn("and the disk has only", done.stderr)
                for name in names:
                    if name.startswith("c"):
                        os.unlink(self.path(name))

    # --- a running fabric ------------------------------------------------------

    def capturing(self, *options, name="live.pcapng"):
        """Start a capture of fabric u, and wait until it has begun."""
        process = self.start("capture", "u", "-w", self.path(name), *options)
        self.assertTrue(until(lambda: os.path.exists(self.path(name)) and
                              os.path.getsize(self.path(name))), "it did not begin")
        return process

    def example(self):
        """Four processes that connect, reduce and send messages on fabric u."""
        program = os.path.join(os.path.dirname(self.command), "apps/example")
        env = dict(self.env, FABEMU_SOCKET=self.socket_path("u"))
        done = subprocess.run(["sh", "-c", EXAMPLE, program], env=env, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.stdout.count("the sum of all is 6"), 4, done.stderr)

    def ended(self, process, code=0):
        """The lines of a capture into a file: first its limits, at the end the record counts."""
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, code, err)
        self.assertEqual(err.count("\n"), 2, err)
        self.assertRegex(err, r"\Afabemu: capture: .*, and the disk has (only )?\d")
        return err

    def test_live__ends_with_the_fabric_or_by_an_interrupt(self):
        self.up("u")
        first = self.capturing("kind=allreduce,barrier")
        self.example()
        self.one_line(self.fabemu("capture", "u", "-w", "/dev/null"), 1, "is capturing already")
        first.send_signal(signal.SIGINT)
        self.ended(first)
        capture = self.read("live.pcapng")
        self.check_counts(capture)
        self.assertEqual({unit for unit in capture.units}, {9})
        sent = [r for r in capture.segments(pcap_file.ALLREDUCE) if r.ends[0].startswith("n")]
        got = [r for r in capture.segments(pcap_file.ALLREDUCE) if r.ends[1].startswith("n")]
        self.assertEqual(sorted(r.header.src for r in sent), [0, 1, 2, 3])
        self.assertEqual(sorted(r.ends[1] for r in got), ["n0:0", "n1:0", "n2:0", "n3:0"])
        second = self.capturing("link=n0", name="second.pcapng")
        self.example()
        self.assertEqual(self.fabemu("down", "u").returncode, 0)
        self.ended(second)
        capture = self.read("second.pcapng")
        self.check_counts(capture)
        self.assertEqual(set(capture.interfaces), {r.interface for r in capture.records})

    def test_live__ends_by_count_seconds_or_reader(self):
        self.up("u")
        counted = self.capturing("--count", "7")
        self.example()
        self.assertIn("7 records", self.ended(counted))
        capture = self.read("live.pcapng")
        self.assertEqual(len(capture.records), 7)
        self.assertEqual(sum(written for _, _, written in capture.counts.values()), 7)
        self.ended(self.capturing("--seconds", "1", name="short.pcapng"))
        piped = self.start("capture", "u", "-w", "-")
        self.assertEqual(piped.stdout.buffer.read(4), b"\n\r\r\n")
        piped.stdout.close()
        self.example()
        self.assertEqual(piped.wait(PATIENCE_S), 0)
        done = self.fabemu("check", "u")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_live__ends_at_the_size_limit(self):
        self.up("u")
        process = self.capturing("--capture-size", "20K")
        self.run_speaks(RINGS)
        self.assertIn("later ones were not written, because of --capture-size", self.ended(process))
        self.assertLessEqual(os.path.getsize(self.path("live.pcapng")), 20480)
        capture = self.read("live.pcapng")
        self.assertGreater(len(capture.records), 10)
        self.check_counts(capture)

    def test_live__a_full_disk_only_ends_the_capture(self):
        self.up("u")
        self.one_line(self.fabemu("capture", "u", "-w", "/dev/full", "--seconds", "5"), 1,
                      "/dev/full", "No space left")
        self.example()
        killed = self.capturing()
        killed.kill()
        killed.communicate()
        self.assertTrue(until(lambda: self.fabemu("capture", "u", "--count", "1", "--seconds",
                                                  "1", "-w", "/dev/null").returncode == 0))

    def test_run__is_captured_from_its_first_segment_to_its_last(self):
        program = os.path.join(os.path.dirname(self.command), "apps/example")
        report = self.path("report.json")
        done = self.fabemu("run", "--topo", "kary:2,2", *RETRY, "--report", report, "--capture",
                           self.path(), "--", "sh", "-c", EXAMPLE, program)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(report) as f:
            segments = json.load(f)["segments"]
        capture = self.read()
        self.check_counts(capture)
        sent = [r for r in capture.segments() if r.ends[0].startswith("n")]
        got = [r for r in capture.segments() if r.ends[1].startswith("n")]
        self.assertEqual((len(sent), len(got)), (segments["sent"], segments["delivered"]))

    def test_run__stream_within_a_switch_is_captured_at_either_end(self):
        """Segments use cut-through from ring to ring, except on a tapped cable."""
        program = os.path.join(os.path.dirname(self.command), "tests/speaks")
        numbers = {}
        for node in (0, 1):
            done = self.fabemu("run", "--topo", "kary:4,1", "--capture", self.path(),
                               "--capture-filter", f"node={node} kind=unicast", "--", "sh", "-c",
                               SPEAKS, program, "0")
            self.assertEqual(done.returncode, 0, done.stderr)
            numbers[node] = collections.Counter(
                r.header.seq for r in self.read().segments(pcap_file.UNICAST)
                if r.header.src == 0 and r.header.payload[:1] == bytes([formats.DATA]))
        self.assertLessEqual(set(range(STREAM_PIECES)), set(numbers[0]))
        self.assertEqual(numbers[0], numbers[1])

    def run_speaks(self, flood):
        """Two processes of fabric u, one of which sends @flood messages to the other, and some
        more."""
        program = os.path.join(os.path.dirname(self.command), "tests/speaks")
        env = dict(self.env, FABEMU_SOCKET=self.socket_path("u"))
        subprocess.run(["sh", "-c", SPEAKS, program, str(flood)], env=env, capture_output=True,
                       timeout=60, check=True)

    def transmitted(self):
        """Segments sent according to the counters of fabric u, by the sending end: "n4:0"."""
        families = parse_metrics(self.fabemu("status", "--metrics", "u").stdout)
        samples = families["node_infiniband_port_packets_transmitted_total"]["samples"]
        ret = {}
        for labels, count in samples.items():
            of = dict(labels)
            device = of["device"].replace("switch", "").replace("node", "n")
            ret[f"{device}:{of['port']}"] = count
        return ret

    def test_full_rings__are_counted_and_block_nobody(self):
        """A reader stops reading: the fabric continues. Records that do not fit the rings are
        counted in the file, by interface and by record, and on the last line; the sums agree."""
        self.up("u", "--threads", "1")
        process = self.capturing("what=segments")
        process.send_signal(signal.SIGSTOP)
        self.assertTrue(until(lambda: stopped(process.pid)))
        self.run_speaks(RINGS)  # each passes two cables
        sent = self.transmitted()
        self.assertGreater(sum(sent.values()), 2 * RINGS)
        process.send_signal(signal.SIGCONT)
        self.assertTrue(until(lambda: os.path.getsize(self.path("live.pcapng")) > RINGS * 64))
        self.run_speaks(1)  # a record on each interface, which reports the records missed before it
        sent = self.transmitted()
        process.send_signal(signal.SIGINT)
        said = self.ended(process)
        capture = self.read("live.pcapng")
        self.check_counts(capture)
        kept = len(capture.records)
        missed = sum(missed for _, missed, _ in capture.counts.values())
        self.assertGreater(missed, RINGS)
        self.assertIn(f"{kept} records are in", said)
        self.assertIn(f"; {missed} more came too fast and were only counted", said)
        self.assertEqual({i.split(">")[0]: seen for i, (seen, _, _) in capture.counts.items()},
                         sent)
        lost = collections.Counter()
        for r in capture.records:
            lost[r.interface] += r.lost
        self.assertEqual({i: missed for i, (_, missed, _) in capture.counts.items() if missed},
                         {i: count for i, count in lost.items() if count})
        self.assertEqual(next(i for i, r in enumerate(capture.records) if r.lost), RINGS)
        if shutil.which("tshark"):
            self.tshark_shows_lost("live.pcapng", capture, RINGS)

    def tshark_shows_lost(self, name, capture, rings):
        """The interfaces of a file, and the records that arrived while the rings were full."""
        with open(self.path(name), "rb") as f:
            data = f.read()
        with open(self.path("end.pcapng"), "wb") as f:
            f.write(data[:capture.records[0].at] + data[capture.records[rings - 9].at:])
        rows = self.tshark("end.pcapng", "frame.interface_name", "frame.drop_count")
        self.assertEqual(rows, [[r.interface, str(r.lost) if r.lost else ""]
                                for r in capture.records[rings - 9:]])

    def test_run__continues_when_the_capture_fails(self):
        program = os.path.join(os.path.dirname(self.command), "apps/example")
        done = self.fabemu("run", "--topo", "kary:2,2", "--capture", "/dev/full", "--", "sh", "-c",
                           EXAMPLE, program)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("No space left", done.stderr)
        self.assertIn("exit status 1", done.stderr)  # also in the report
        self.assertEqual(done.stdout.count("the sum of all is 6"), 4)

    def test_run__reports_the_end_of_the_capture_at_once(self):
        """The command waits for the line, so it would not end if the line were printed only at the
        end."""
        program = os.path.join(os.path.dirname(self.command), "apps/example")
        wait = f'({EXAMPLE}); until grep -q "$1" said; do sleep 0.02; done'
        for words, line, code in (
                (("c", "--capture-size", "4K"), "has reached the limit of --capture-size", 0),
                (("/dev/full",), "cannot write /dev/full (No space left on device)", 1)):
            with self.subTest(line), open(self.path("said"), "w") as said:
                done = subprocess.run(
                    [self.command, "run", "--topo", "kary:2,2", "--capture", *words, "--", "sh",
                     "-c", wait, program, line], env=self.env, cwd=self.dir, stderr=said,
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)
                self.assertEqual(done.returncode, code)

    def test_bad__options_are_reported(self):
        self.up("u")
        for words, code, said in (
                (("u",), 2, "-w"),
                (("u", "link=0:77", "-w", self.path()), 2, "link=0:77"),
                (("u", "sausage=3", "-w", self.path()), 2, "sausage=3"),
                (("u", "from=4", "-w", self.path()), 2, "kary:2,2 has nodes 0 to 3"),
                (("u", "kind=unicast to=999", "-w", self.path()), 2, "kary:2,2 has nodes 0 to 3"),
                (("u", "packet=head", "-w", self.path()), 2, "does not acknowledge"),
                (("u", "direction=left", "-w", self.path()), 2, "up"),
                (("u", "what=sausages", "-w", self.path()), 2, "segments"),
                (("u", "x=" + "y" * 2000, "-w", self.path()), 2, "1023"),
                (("u", "-w", "/nowhere/c"), 1, "/nowhere/c"),
                (("nobody", "-w", self.path()), 1, "nobody")):
            with self.subTest(words):
                self.one_line(self.fabemu("capture", *words), code, said)
                self.assertFalse(os.path.exists(self.path()))
        for words in (("--capture-filter", "kind=barrier"), ("--snaplen", "240")):
            self.one_line(self.fabemu("run", *words, "--", "true"), 2,
                          words[0] + " needs --capture FILE")
        done = self.fabemu("run", "--capture", self.path(), "--capture-filter", "switch=999",
                           "--", "true")
        self.one_line(done, 2, "--capture-filter: ", "switch")
        done = self.fabemu("run", "--capture", self.path(), "--capture-filter", "kind=set", "--",
                           "true")
        self.one_line(done, 2, "--capture-filter: kind=set: ", "crosses no cable")
        # a filter of the maximum length is read up to its last character
        self.one_line(self.fabemu("run", "--topo", "kary:2,2", "--capture", self.path(),
                                  "--capture-filter", "from=" + "19".rjust(1018, "0"), "--",
                                  "true"), 2, "there is no node")
        self.assertFalse(os.path.exists(self.path()))

    def test_refused__leaves_the_file_unchanged(self):
        def refused(path, said, *words, code=1):
            with open(path, "rb") as f:
                before = f.read()
            self.one_line(self.fabemu(*words), code, said)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), before)
        old = self.path("old.pcapng")
        with open(old, "w") as f:
            f.write("precious\n" * 1000)
        self.up("u")
        refused(old, "nobody", "capture", "nobody", "-w", old)
        refused(old, "no switch 99", "capture", "u", "link=99:0", "-w", old, code=2)
        first = self.capturing("kind=allreduce")
        refused(old, "is capturing already", "capture", "u", "-w", old)
        refused(self.path("live.pcapng"), "another process writes it", "capture", "u", "-w",
                self.path("live.pcapng"))
        refused(self.path("live.pcapng"), "another process writes it", "traffic", "--topo",
                "kary:2,2", "--capture", self.path("live.pcapng"))
        refused(old, "switch", "traffic", "--topo", "kary:2,2", "--capture", self.path(),
                "--telemetry", old, "--capture-filter", "switch=999", code=2)
        self.assertFalse(os.path.exists(self.path()))
        self.example()
        first.send_signal(signal.SIGINT)
        self.ended(first)
        self.check_counts(self.read("live.pcapng"))
        # the same file, started again
        second = self.start("capture", "u", "--count", "5", "-w", old)
        self.assertTrue(until(lambda: os.path.getsize(old) < 9000))
        self.example()
        self.ended(second)
        self.assertEqual(len(self.read("old.pcapng").records), 5)

    def test_unread_pipe__is_waited_for_up_to_a_limit(self):
        self.up("u")
        os.mkfifo(self.path())
        self.one_line(self.fabemu("capture", "u", "--seconds", "1", "-w", self.path()), 1,
                      "no process reads it")
        process = self.start("capture", "u", "--seconds", "60", "-w", self.path())
        with open(self.path(), "rb") as f:
            self.assertEqual(f.read(4), b"\n\r\r\n")
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(PATIENCE_S), 0)

    # --- as Wireshark reads it -------------------------------------------------

    def expected(self, r):
        """The fields of a record as the dissector must show them."""
        h, group = r.header, r.header and r.header.kind != pcap_file.UNICAST
        folds = h and h.kind in (pcap_file.REDUCE, pcap_file.ALLREDUCE)
        row = [r.interface, str(r.what)]
        row += [str(h.src), str(h.group if group else h.dst), str(h.seq), str(h.kind),
                str(h.len), str(h.op) if folds else "", str(h.type) if folds else ""] if h \
            else [""] * 7
        row += [h.payload.hex() if h and h.kind != pcap_file.UNICAST else ""]
        row += [str(r.number) if r.what == pcap_file.CREDITS else "",
                str(r.number) if r.what == pcap_file.ANSWER else "",
                str(r.number) if r.flags & pcap_file.NUMBERED else "",
                str(r.flags >> 1 & 1) if r.what == pcap_file.SEGMENT else ""]
        if not r.part:
            return row + [""] * 8
        row += [str(r.part), f"0x{r.tag:08x}", str(r.wire), str(r.channel), str(r.last)]
        if r.part == pcap_file.HEAD:
            return row + [str(r.word >> 8 & 65535), str(r.word >> 24 & 8191), ""]
        return row + ["", "", str(r.word >> 7 & 31) if r.part == pcap_file.CONT else ""]

    def test_tshark__fields_are_right(self):
        fields = ["frame.interface_name", "fabemu.what", "fabemu.src", "fabemu.dst", "fabemu.seq",
                  "fabemu.kind", "fabemu.len", "fabemu.op", "fabemu.type", "fabemu.payload",
                  "fabemu.credits", "fabemu.answer.number", "fabemu.number", "fabemu.again",
                  "fabemu.packet.kind", "fabemu.packet.tag", "fabemu.packet.wire",
                  "fabemu.packet.channel", "fabemu.packet.last", "fabemu.head.dst",
                  "fabemu.head.bytes", "fabemu.cont.index", "fabemu.group"]
        captures = {
            "tree.pcapng": self.allreduce("kary:4,2", name="tree.pcapng"),
            "packets.pcapng": self.traffic("--topo", "qsnet:16", "--pattern", "uniform", "--load",
                                           "0.2", "--bytes", "700", "--warmup", "1000ns",
                                           "--measure", "3000ns", name="packets.pcapng"),
            "retry.pcapng": self.traffic("--topo", "kary:2,2", *RETRY, "--pattern", "allreduce",
                                         "--operations", "2", "--bytes", "300",
                                         name="retry.pcapng")}
        for name, capture in captures.items():
            with self.subTest(name):
                rows = self.tshark(name, *fields)
                self.assertEqual(len(rows), len(capture.records))
                for row, r in zip(rows, capture.records):
                    group = row.pop()
                    row[3] = row[3] or group
                    if r.header and r.header.kind == pcap_file.UNICAST:
                        row[9] = ""  # except the adapters' own fields
                    self.assertEqual(row, self.expected(r))
        self.assertIn(pcap_file.CONT, {r.part for r in captures["packets.pcapng"].records})

    def parties(self, r):
        """Source and destination as Wireshark shows them: nodes, a group, or a link's ends."""
        if not r.header:
            return r.ends
        to = f"n{r.header.dst}" if r.header.kind == pcap_file.UNICAST else f"group {r.header.group}"
        return f"n{r.header.src}", to

    @staticmethod
    def address(party):
        """The Ethernet address of a node or a group: docs/capture.md."""
        kind, number = ("03", party[6:]) if party.startswith("group") else ("02", party[1:])
        return f"{kind}:00:" + int(number).to_bytes(4, "big").hex(":")

    def test_tshark__columns_and_conversations_have_addresses(self):
        captures = {
            "tree.pcapng": self.allreduce("kary:4,2", name="tree.pcapng"),
            "packets.pcapng": self.traffic("--topo", "qsnet:16", "--pattern", "uniform", "--load",
                                           "0.2", "--bytes", "700", "--warmup", "1000ns",
                                           "--measure", "3000ns", name="packets.pcapng")}
        for name, capture in captures.items():
            with self.subTest(name):
                rows = self.tshark(name, "_ws.col.Source", "_ws.col.Destination", "_ws.col.Info",
                                   "fabemu.link", "fabemu.link.from", "fabemu.link.to")
                self.assertEqual(len(rows), len(capture.records))
                for (src, dst, info, *link), r in zip(rows, capture.records):
                    self.assertEqual((src, dst), self.parties(r))
                    self.assertEqual(link, [r.interface, *r.ends])
                    self.assertTrue(info.startswith(r.interface + ": "), info)
                    self.assertNotIn(" 1 credits", info)
                infos = " ".join(info for _, _, info, *_ in rows)
                self.assertIn(" 1 credit, channel ", infos)
                pairs, ends = collections.Counter(), collections.Counter()
                for r in capture.records:
                    if r.header:
                        pair = sorted(map(self.address, self.parties(r)))
                        pairs[tuple(pair)] += 1
                        ends.update(pair)
                self.assertEqual(self.table(name, "conv,eth"), pairs)
                self.assertEqual(self.table(name, "endpoints,eth"), ends)

    def test_tshark__info_reports_contributions_from_results(self):
        for topo, name in (("kary:4,2", "tree.pcapng"), ("qsnet:16", "adapters.pcapng")):
            with self.subTest(topo):
                capture = self.allreduce(topo, name=name)
                infos = [info for info, in self.tshark(name, "_ws.col.Info")]
                self.assertEqual(len(infos), len(capture.records))
                seen = collections.Counter()
                for info, r in zip(infos, capture.records):
                    if not r.header or r.header.kind != pcap_file.ALLREDUCE or \
                            topo == "qsnet:16" and r.part != pcap_file.HEAD:
                        continue
                    is_, = re.findall(r"allreduce (contribution|result) n\d+ > group", info)
                    seen[is_] += 1
                    if topo == "qsnet:16":
                        self.assertEqual(is_, "result" if r.to_group else "contribution", info)
                    elif r.ends[0].startswith("n") or r.ends[1].startswith("n"):
                        self.assertEqual(is_, "result" if r.ends[1].startswith("n") else
                                         "contribution", info)
                # as many results as contributions: each link of a tree carries one in each
                # direction
                self.assertTrue(seen["contribution"] == seen["result"] > 0 or
                                topo == "qsnet:16" and min(seen.values()) > 0, seen)

    def table(self, name, which):
        """{addresses: frames} from one of tshark's tables; both directions of a pair are added."""
        address = r"((?:[\da-f]{2}:){5}[\da-f]{2})"
        text = self.tshark(name, also=("-q", "-n", "-z", which))
        if which.startswith("endpoints"):
            rows = re.findall(rf"^{address} +(\d+) ", text, re.M)
            return {end: int(frames) for end, frames in rows}
        rows = re.findall(rf"^{address} +<-> {address} +(\d+) \d+ \w+ +(\d+) \d+ \w+ ", text, re.M)
        return {tuple(sorted(pair)): int(back) + int(forth) for *pair, back, forth in rows}


if __name__ == "__main__":
    main()
