#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""dissector_test.py - Wireshark's dissector shows every field of every format with its value.

   tests/apps/capture/dissector_test.py --fabemu build/fabemu [unittest options]

Tests that need tshark are skipped where it is not installed (scripts/deps tshark).
"""
import collections
import errno
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2,
                                "cli"))
from cli_helpers import FabemuCase, main  # noqa: E402
from helpers import capture as pcap_file, formats  # noqa: E402
from helpers.seed import seed  # noqa: E402

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3)
DISSECTOR = os.path.normpath(os.path.join(TOP, "apps/capture/fabemu.lua"))
MUTANTS = int(os.environ.get("FABEMU_MUTANTS", "1500"))
A_FILE = 20000  # most mutants in one file
FAULT = "bit-errors link=any rate=0.02\n"


class DissectorCase(FabemuCase):
    def setUp(self):
        super().setUp()
        if not shutil.which("tshark"):
            self.skipTest("SKIPPED: tshark is not installed (scripts/deps tshark)")
        self.draw = random.Random(seed())

    def path(self, name="c.pcapng"):
        return os.path.join(self.dir, name)

    def run_tshark(self, *args, dissector=DISSECTOR):
        env = dict(self.env, XDG_CONFIG_HOME=self.dir, HOME=self.dir)
        done = subprocess.run(["tshark", *args, "-X", f"lua_script:{dissector}"], env=env,
                              stdin=subprocess.DEVNULL, text=True, capture_output=True,
                              errors="replace", timeout=170)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def fields(self):
        """All fields that the dissector registers with Wireshark."""
        rows = [row.split("\t") for row in self.run_tshark("-G", "fields").stdout.splitlines()]
        return sorted(row[2] for row in rows
                      if row[0] == "F" and row[2].split(".")[0] in ("fabemu", "fabemu_frame"))

    def shown(self, fields, name="c.pcapng"):
        """For each packet a dict {field: text} of the fields that it has."""
        wanted = [word for field in fields for word in ("-e", field)]
        done = self.run_tshark("-r", self.path(name), "-T", "fields", "-E", "separator=/t", *wanted)
        self.assertNotIn("Lua", done.stderr + done.stdout)
        return [{field: text for field, text in zip(fields, line.split("\t"), strict=True) if text}
                for line in done.stdout.splitlines()]

    def write(self, packets, links=(pcap_file.USER0, pcap_file.ETHERNET), name="c.pcapng"):
        with open(self.path(name), "wb") as f:
            f.write(pcap_file.pcapng(links, packets))

    def read(self, name="c.pcapng"):
        with open(self.path(name), "rb") as f:
            return pcap_file.Capture(f.read())

    def frames(self):
        """Frames of host links as the code encodes them: pairs of bytes and fields."""
        program = os.path.join(os.path.dirname(self.command), "tests/hostlink_frames")
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [(bytes.fromhex(line["hex"]), line["fields"]) for line in lines]

    def traffic(self, *options, name="c.pcapng"):
        done = self.fabemu("traffic", "--capture", self.path(name), *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.read(name)

    def same(self, shown, made):
        self.assertEqual(len(shown), len(made))
        for got, (data, wanted) in zip(shown, made):
            self.assertEqual(got, wanted, data.hex())


class Loading(DissectorCase):
    def test_loading_it_twice_is_harmless(self):
        """The option of README names the file, which is also in the folder of plugins."""
        plugins = os.path.join(self.dir, ".local/lib/wireshark/plugins")
        os.makedirs(plugins)
        os.symlink(os.path.abspath(DISSECTOR), os.path.join(plugins, "fabemu.lua"))
        self.traffic("--topo", "kary:2,1", "--measure", "10us", "--load", "0.1")
        shown = self.shown(["frame.number", "fabemu.link"])
        self.assertTrue(shown)
        self.assertTrue(all("fabemu.link" in row for row in shown))


class Formats(DissectorCase):
    def test_every_field_of_every_format_is_what_was_written(self):
        """No field may be missing: a new field must be added to the formats or to the frames."""
        fields = self.fields()
        cut = [(data[:bytes_], {"fabemu.short": "1"} | fields_) for data, bytes_, fields_ in (
            (b"\x01\x01\0\0", 4, {}),
            (formats.capture_head(1)[0] + bytes(9), 25, formats.capture_head(1)[1]),
            (formats.capture_head(3)[0] + bytes(9), 25, formats.capture_head(3)[1]))]
        made = formats.records(self.draw) + cut
        frames = self.frames()
        self.write([(0, data) for data, _ in made] + [(1, data) for data, _ in frames + [
            (frames[-1][0][:-5], None)]])
        shown = self.shown(fields)
        strange = shown.pop()
        self.same(shown, made + frames)
        self.assertEqual(strange["fabemu_frame.strange"], "1")
        compared = {field for row in shown for field in row} | {"fabemu_frame.strange"}
        damage = {"fabemu.damaged", "fabemu_frame.damaged"}  # Checksum errors
        named = {"fabemu.link.names"}  # of a network from a file: tests/cli/machine_test.py
        self.assertEqual(set(fields) - compared - damage - named, set())
        # Every compared field has a value other than 0 somewhere, or a wrong offset could go
        # unnoticed.
        never = {field for field in compared
                 if all(set(row.get(field, "0")) <= set("0x,") for row in shown)}
        self.assertEqual(never - {"fabemu_frame.strange"}, set())


class Checksums(DissectorCase):
    STATUS = ["fabemu.head.crc16.status", "fabemu.cont.crc16.status", "fabemu.crc32.status",
              "fabemu.damaged", "fabemu.crc32.incarnation"]

    def frames_damaged(self):
        """Each frame with a checksum instead of a keyed tag, with one bit flipped."""
        ret = []
        for data, fields in self.frames():
            if fields["fabemu_frame.check"] == "0":
                self.assertEqual(int.from_bytes(data[-16:-12], "little"), formats.crc32(data[:-16]))
                bits = [8 * at for at in (0, 6, 20, 81, len(data) - 17, len(data) - 16,
                                          len(data) - 1)]
                ret += [flipped(data, bit + self.draw.randrange(8)) for bit in bits]
        return ret

    def test_tag_of_a_damaged_frame_is_shown_as_such(self):
        frames = self.frames_damaged()
        self.assertGreater(len(frames), 7)
        self.write([(1, data) for data in frames])
        shown = self.shown(["fabemu_frame.tag.status", "fabemu_frame.damaged"])
        self.assertEqual(shown, [{"fabemu_frame.tag.status": formats.BAD,
                                  "fabemu_frame.damaged": "1"}] * len(frames))

    def judge(self, r, in_progress):
        """The checksums of a record by their definition: CRC-16, CRC-32."""
        if r.what != pcap_file.PART:
            return None, None
        head = r.part == pcap_file.HEAD
        width = 6 if head else 2
        word = r.word.to_bytes(8, "little")
        good16 = formats.crc16(word[:width]) == int.from_bytes(word[width:width + 2], "little")
        place = r.interface, r.channel
        if head:
            in_progress[place] = [r.tag, r.word >> 8 & 65535, r.word >> 7 & 1, 0, b""]
        packet = in_progress.get(place)
        if not head and packet and (packet[0] != r.tag or packet[3] + 1 != r.word >> 7 & 31):
            packet = None
        if packet and not head:
            packet[3] += 1
        if packet and r.header:
            stored = r.header.bits & 128
            packet[4] += r.data[32:48] + (b"" if stored else r.header.payload)
        if not r.last:
            return good16, None
        if not packet:
            return good16, formats.UNCHECKED
        tag, dst, group, _, carried = packet
        good = formats.packet_crc(carried, tag, dst, group) == r.note
        return good16, formats.GOOD if good else formats.BAD

    def compare(self, capture, name="c.pcapng"):
        """Compares tshark's verdict on each checksum with our own. Returns a tally."""
        rows = self.shown(self.STATUS, name)
        in_progress, tally = {}, collections.Counter()
        self.assertEqual(len(rows), len(capture.records))
        for r, row in zip(capture.records, rows):
            good16, status = self.judge(r, in_progress)
            wanted = {}
            if good16 is not None:
                name16 = self.STATUS[r.part == pcap_file.CONT]
                wanted[name16] = formats.GOOD if good16 else formats.BAD
            if status:
                wanted["fabemu.crc32.status"] = status
            if status == formats.GOOD:
                wanted["fabemu.crc32.incarnation"] = "0"
            damaged = good16 is False, status == formats.BAD
            if any(damaged):
                wanted["fabemu.damaged"] = ",".join(["1"] * sum(damaged))
            self.assertEqual(row, wanted)
            tally[good16, status] += 1
        return tally

    def test_crcs_of_a_good_network_are_good(self):
        """Payloads in full, of packets with one part and with several."""
        capture = self.traffic("--topo", "qsnet:16", "--pattern", "allreduce", "--bytes", "900",
                               "--operations", "2")
        tally = self.compare(capture)
        self.assertTrue({status for _, status in tally} == {None, formats.GOOD})
        self.assertEqual({good for good, _ in tally}, {None, True})
        self.assertIn(pcap_file.CONT, {r.part for r in capture.records})

    def test_crcs_of_a_bad_network_are_found_bad_where_they_are(self):
        """Bits flip on cables: each checksum that is wrong afterwards is shown as wrong."""
        faults = self.path("faults")
        with open(faults, "w") as f:
            f.write(FAULT)
        capture = self.traffic("--topo", "qsnet:16", "--pattern", "allreduce", "--bytes", "900",
                               "--operations", "5", "--faults", faults)
        tally = self.compare(capture)
        self.assertGreater(sum(n for (_, status), n in tally.items() if status == formats.BAD), 3)
        self.assertGreater(sum(n for (_, status), n in tally.items() if status == formats.GOOD),
                           100)

    def flips(self, packet):
        """Yield copies of a packet with one bit flipped: in a part's header or payload, or in the
        last part's checksum. With each copy, yield whether the bit is in a header."""
        for part, (data, _) in enumerate(packet):
            last = part + 1 == len(packet)
            places = [(16, 4 if part else 8, True),
                      (12, 4, False) if last else (32, 12, False)]
            if not last:
                places.append((46, len(data) - 46, False))
            for at, count, in_head in places:
                bit = 8 * at + self.draw.randrange(8 * count)
                yield [flipped(other, bit) if i == part else other
                       for i, (other, _) in enumerate(packet)], in_head

    def test_any_bit_that_flips_is_found(self):
        """Bits of headers, payloads and checksums in the file."""
        cases = [case for carried in (0, 1, 3) for case in self.flips(formats.packet(
            self.draw, [formats.segment(self.draw, 3) for _ in range(carried)]))]
        self.write([(0, data) for packet, _ in cases for data in packet])
        rows = iter(self.shown(self.STATUS))
        for packet, in_head in cases:
            mine = [next(rows) for _ in packet]
            bad16 = sum(formats.BAD in (row.get(self.STATUS[0]), row.get(self.STATUS[1]))
                        for row in mine)
            self.assertEqual(bad16, int(in_head))
            if not in_head:
                self.assertEqual(mine[-1]["fabemu.crc32.status"], formats.BAD)
            self.assertTrue(any("fabemu.damaged" in row for row in mine))

    def test_packet_with_a_missing_part_is_not_checked(self):
        for missing in range(3):
            packet = formats.packet(self.draw, [formats.segment(self.draw, 3) for _ in range(3)])
            del packet[missing]
            self.write([(0, data) for data, _ in packet])
            row = self.shown(self.STATUS)[-1]
            self.assertEqual(row["fabemu.crc32.status"], formats.UNCHECKED)
            self.assertNotIn("fabemu.damaged", row)


class Programs(DissectorCase):
    """Segments between two processes (speaks.c) in a capture of all cables."""

    NODES = (0, 1)
    SAYS = {"fabemu.nic." + name for what in range(formats.EAGER, formats.HELLO + 1)
            for name, _ in formats.parts_of(what) if name} | {"fabemu.nic.what"}
    SEGMENT = ["fabemu." + name for name in (
        "src", "dst", "group", "seq", "kind", "len", "op", "type", "payload", "word",
        "word.value", "word.test", "word.until")]
    TAG, DATA, FLOOD = 0xa1b2c3d400000000, 0x0102030405060700, 600
    NOTICE = 0x5566778899aabb00
    REQUESTS = range(formats.EAGER, formats.BATCH_MORE + 1)

    def run_speaks(self, topo):
        """Run the two processes. Keeps what they print, by node, and the segments that leave each
        node in the capture, without duplicates."""
        program = os.path.join(os.path.dirname(self.command), "tests/speaks")
        began = time.time()
        done = self.fabemu("run", "--topo", topo, "--capture", self.path(), "--", "sh", "-c",
                           f"FABEMU_NODE=0 {program} {self.FLOOD} & "
                           f"FABEMU_NODE=1 {program} {self.FLOOD} || exit; wait $!")
        ended = time.time()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.printed = {line["node"]: line for line in map(json.loads, done.stdout.splitlines())}
        self.assertEqual(set(self.printed), set(self.NODES))
        self.assertIn(f"{len(self.read().records)} records are in", done.stderr)
        rows = self.shown(["frame.interface_name", "frame.time_epoch", "fabemu.what",
                           "fabemu.packet.kind", *self.SEGMENT, *sorted(self.SAYS)])
        for row in rows:  # the absolute time
            self.assertTrue(began - 1 < float(row.pop("frame.time_epoch")) < ended + 1)
        self.left = {node: self.once([row for row in rows if "fabemu.kind" in row and
                                      row["frame.interface_name"].startswith(f"n{node}:")])
                     for node in self.NODES}
        return rows

    def once(self, rows):
        """Removes retransmissions after a refusal: all their fields are the same."""
        seen, ret = set(), []
        for row in rows:
            key = tuple(sorted((k, v) for k, v in row.items() if k != "frame.interface_name"))
            if key not in seen:
                ret.append(row)
            seen.add(key)
        return ret

    def sent_by(self, node, *whats):
        """Segments from @node of the given kinds, as numeric fields, in the order of requests."""
        ret = []
        for row in self.left[node]:
            if row["fabemu.kind"] != "0" or int(row["fabemu.nic.what"]) not in whats:
                continue
            self.assertEqual((row["fabemu.src"], row["fabemu.dst"]), (str(node), str(1 - node)))
            numbers = {k[11:]: int(v, 0) for k, v in row.items() if k.startswith("fabemu.nic.")}
            numbers["seq"] = int(row["fabemu.seq"])
            numbers["payload"] = bytes.fromhex(row.get("fabemu.payload", ""))
            ret.append(numbers)
        return ret

    @staticmethod
    def filled(count, i):
        """Same as fill() in speaks.c."""
        return bytes((n * 7 + i * 31) % 256 for n in range(count))

    def message(self, i, node, payload, *, what=formats.EAGER, beginning=None):
        """The first segment of a message of speaks.c."""
        return {"what": what, "queue": 7 if node else 9, "src_queue": 9 if node else 7,
                "tag": self.TAG + i, "data": self.DATA + i, "bytes": len(payload),
                "payload": payload if beginning is None else beginning}

    def short(self, i, node, payload):
        """A short message of speaks.c."""
        ret = self.message(i, node, payload, what=formats.SHORT) | {"data": i}
        del ret["bytes"]  # this is the segment's own length
        return ret

    def requests(self, node):
        """All requests of @node in order, as far as they are known beforehand."""
        key, group = self.printed[1]["key"], self.printed[0]["group"].to_bytes(4, "little")
        words = bool(self.sent_by(0, formats.EAGER)[-1]["tag"] == self.TAG + 8)
        if node == 1:
            return [self.message(5, 1, key.to_bytes(8, "little"))]
        long, bytes_ = self.filled(500, 2), self.filled(9000, 5)
        memory = {"queue": 0, "key": key}
        notice = {"queue": 9, "src_queue": 7, "key": key}
        ret = [self.message(1, 0, self.filled(100, 1)),
               self.message(2, 0, long, beginning=long[:192]),
               {"what": formats.MORE, "queue": 9, "payload": long[192:416]},
               {"what": formats.MORE, "queue": 9, "payload": long[416:]},
               self.message(3, 0, bytes(100000), what=formats.RTS, beginning=b"")]
        ret += [self.short(4, 0, self.filled(8, 4))] * self.FLOOD
        ret += [{"what": formats.PUT, "offset": 16, "bytes": 50, "payload": bytes_[:50]} | memory,
                {"what": formats.PUT_RTS, "offset": 50000, "bytes": 9000, "payload": b""} | memory,
                {"what": formats.PUT_NOTICE, "offset": 20000, "bytes": 50, "data": self.NOTICE,
                 "payload": bytes_[:50]} | notice,
                {"what": formats.PUT_NOTICE_RTS, "offset": 24000, "bytes": 3000,
                 "data": self.NOTICE + 1, "payload": b""} | notice,
                {"what": formats.GET, "offset": 8192, "bytes": 3000, "payload": b""} | memory,
                {"what": formats.GET, "offset": 65536, "bytes": 100, "payload": b""} | memory,
                {"what": formats.ATOMIC, "offset": 40000, "bytes": 8, "op": 0, "type": 7,
                 "fetch": 1, "payload": struct.pack("<Q", 5)} | memory,
                {"what": formats.ATOMIC, "offset": 40008, "bytes": 4, "op": 7, "type": 4,
                 "fetch": 0, "payload": struct.pack("<iI", -7, 0x01020304)} | memory,
                # the gets have filled the buffer: with zeros
                {"what": formats.BATCH, "result": 0, "bytes": 272,
                 "payload": struct.pack("<QIBBH", 30000, 256, 255, 0, 0) + bytes(176)} | memory,
                {"what": formats.BATCH_MORE, "queue": 0, "payload": bytes(80)},
                self.message(6, 0, b"\0"), self.message(7, 0, group)]
        return ret + [self.message(8, 0, b"\0")] * words

    def check(self, node):
        """The check value of a pair, as nic/host/base/wire.h defines it."""
        hello = self.sent_by(node, formats.HELLO)[-1]
        here, there = (self.printed[n]["incarnation"] for n in (node, 1 - node))
        return (here * 0x9e3779b1 + there * 0x85ebca77 + hello["epoch"] * 0xc2b2ae3d) % 2**32

    def check_heads(self, node):
        """Fields of every message head: sender, receiver, and cumulative counters."""
        mine = self.sent_by(node, *range(formats.EAGER, formats.BYE + 1))
        theirs = len(self.sent_by(1 - node, *self.REQUESTS))
        self.assertEqual({m["check"] for m in mine}, {self.check(node)})
        self.assertEqual({m["check"] for m in self.sent_by(node, formats.DATA)},
                         {self.check(node) % 2**16})
        for name, most in (("ack", theirs), ("consumed", 500 * node)):
            values = [m[name] for m in mine]
            self.assertEqual(max(values), most, name)
            self.assertGreaterEqual(min(values), 0)
        acks = self.sent_by(1, formats.ACK)  # acknowledgments of a flood that has no other answers
        self.assertGreaterEqual(max(m["ack"] for m in acks), 256)

    def check_transfers(self):
        """The id that a transfer gets is used throughout, and its pieces cover it."""
        rts, = self.sent_by(0, formats.RTS)
        put, = self.sent_by(0, formats.PUT_RTS)
        noticed, = self.sent_by(0, formats.PUT_NOTICE_RTS)
        get, beyond = self.sent_by(0, formats.GET)
        to = {m["id"]: m for m in self.sent_by(1, formats.CTS)}
        self.assertEqual(to[rts["id"]]["bytes"], 100000)
        self.assertEqual(to[put["id"]]["bytes"], 9000)
        self.assertEqual(to[noticed["id"]]["bytes"], 3000)
        self.assertEqual(len(to), 3)
        region = bytearray(65536)
        region[16:66], region[50000:59000] = self.filled(50, 5), self.filled(9000, 5)
        for node, name, wanted in ((0, to[rts["id"]]["to"], self.filled(100000, 3)),
                                   (0, to[put["id"]]["to"], self.filled(9000, 5)),
                                   (0, to[noticed["id"]]["to"], self.filled(3000, 5)),
                                   (1, get["id"], bytes(region[8192:11192]))):
            pieces = {m["seq"]: m["payload"] for m in self.sent_by(node, formats.DATA)
                      if m["id"] == name}
            self.assertEqual(b"".join(pieces[i] for i in range(len(pieces))), wanted)
        fins = {m["id"]: m["status"] for m in self.sent_by(1, formats.FIN)}
        small, = self.sent_by(0, formats.PUT)
        small_noticed, = self.sent_by(0, formats.PUT_NOTICE)
        batch, = self.sent_by(0, formats.BATCH)
        self.assertEqual(fins, {rts["id"]: 0, put["id"]: 0, small["id"]: 0, batch["id"]: 0,
                                noticed["id"]: 0, small_noticed["id"]: 0,
                                beyond["id"]: -errno.EACCES})
        add, swap = self.sent_by(0, formats.ATOMIC)
        self.assertEqual({m["id"]: m["payload"] for m in self.sent_by(1, formats.RESULT)},
                         {add["id"]: struct.pack("<Q", 0x1122334455667788), swap["id"]: b""})

    def check_connects_and_disconnects(self, node):
        pair = self.printed[node]["incarnation"], self.printed[1 - node]["incarnation"]
        hellos = self.sent_by(node, formats.HELLO)
        self.assertEqual({m["incarnation"] for m in hellos}, {pair[0]})
        self.assertLessEqual({m["known"] for m in hellos}, {0, pair[1]})
        self.assertEqual({m["epoch"] for m in hellos}, {self.sent_by(1 - node, formats.HELLO)[0][
            "epoch"]})
        byes = self.sent_by(node, formats.BYE)
        self.assertEqual({m["incarnation"] for m in byes}, {pair[0]})
        self.assertEqual({m["sent"] for m in byes if m["disconnect"] < 2},
                         {len(self.sent_by(node, *self.REQUESTS))})
        asked = {m["asked"] for m in byes if m["disconnect"] == 0}
        self.assertEqual(asked, set(range(1, len(asked) + 1)))
        answers = [m for m in byes if m["disconnect"] == 1]
        self.assertEqual([m["given"] for m in answers], list(range(1, len(answers) + 1)))
        theirs = {m["asked"] for m in self.sent_by(1 - node, formats.BYE) if m["disconnect"] == 0}
        self.assertLessEqual({m["came"] for m in answers}, theirs)
        self.assertLessEqual({m["done"] for m in byes}, {0, 1})
        self.assertLessEqual({m["disconnect"] for m in byes}, {0, 1, 3})

    def check_all_segments(self):
        """Requests in order and all the segments that follow from them: every kind, every field."""
        for node in self.NODES:
            got = sorted(self.sent_by(node, *self.REQUESTS), key=lambda m: m["seq"])
            wanted = self.requests(node)
            self.assertEqual([m["seq"] for m in got], list(range(len(wanted))))
            for m, known in zip(got, wanted):
                self.assertEqual({name: m[name] for name in known}, known)
            self.check_heads(node)
            self.check_connects_and_disconnects(node)
        self.check_transfers()
        rows = [row for node in self.NODES for row in self.left[node]]
        self.assertEqual({int(row["fabemu.nic.what"]) for row in rows if "fabemu.nic.what" in row},
                         set(range(formats.EAGER, formats.HELLO + 1)))
        self.assertEqual(self.SAYS - {name for row in rows for name in row}, set())

    def of_group(self, rows, kind, **wanted):
        """Segments of the group with this kind and these fields."""
        group = str(self.printed[0]["group"] & ~pcap_file.WIDE)
        return [row for row in rows if row.get("fabemu.kind") == str(kind) and
                row["fabemu.group"] == group and
                all(row.get("fabemu." + name.replace("_", ".")) == text
                    for name, text in wanted.items())]

    def check_collectives(self, rows):
        sums = [struct.pack("<qq", value, -7 * (1 + all_)).hex()
                for value, all_ in ((100, 0), (101, 0), (201, 1))]
        most = [struct.pack("<ddd", 1.5, value, -1).hex() for value in (2.5, 3.5)]
        for kind, type_, op, known in ((pcap_file.ALLREDUCE, "6", "0", sums),
                                       (pcap_file.REDUCE, "9", "2", most)):
            found = self.of_group(rows, kind, type=type_, op=op)
            self.assertTrue(found)
            self.assertLessEqual({row["fabemu.payload"] for row in found}, set(known))
            self.assertEqual({row["fabemu.len"] for row in found}, {str(len(known[0]) // 2)})
        self.assertEqual({row["fabemu.src"] for row in self.of_group(
            rows, pcap_file.MULTICAST, payload=self.filled(100, 8).hex())}, {"0"})
        self.assertTrue(self.of_group(rows, pcap_file.BARRIER))

    def test_over_crosspoints_every_segment_is_shown(self):
        rows = self.run_speaks("kary:2,2")
        self.check_all_segments()
        self.check_collectives(rows)
        for node in self.NODES:  # each contribution, as it left its node
            row, = self.of_group(self.left[node], pcap_file.ALLREDUCE, type="6", op="0")
            self.assertEqual(row["fabemu.payload"], struct.pack("<qq", 100 + node, -7).hex())

    def test_over_packets_every_segment_is_shown(self):
        """Conditionals are acknowledged if they are true and refused otherwise."""
        rows = self.run_speaks("qsnet:16")
        self.check_all_segments()
        self.check_collectives(rows)
        self.assertEqual([row for row in rows if row.get("fabemu.kind") == str(formats.SET)], [])
        asked = {tuple(row.get("fabemu.word" + name) for name in ("", ".value", ".test", ".until"))
                 for row in self.of_group(rows, formats.TEST)}
        # Besides the conditionals of speaks.c there are barriers, which have no word.
        self.assertEqual(asked, {("3", self.value(77), "0", "0"), ("4", self.value(78), "0", "0"),
                                 ("5", self.value(999), "1", "1"), (None,) * 4})
        self.check_replies()

    @staticmethod
    def value(number):
        return f"0x{number:016x}"

    def check_replies(self):
        """Each reply is for a packet in the opposite direction on its cable and channel. The NACK
        for a false conditional has the tag of the conditional."""
        fields = ["frame.interface_name", "fabemu.what", "fabemu.packet.kind", "fabemu.packet.tag",
                  "fabemu.packet.channel", "fabemu.packet.wire", "fabemu.packet.last",
                  "fabemu.word.value", "fabemu.word.until"]
        rows = self.shown(fields)
        heads, refused = collections.defaultdict(set), set()
        for row in rows:
            at = tuple(row.get(name) for name in ("fabemu.packet.tag", "fabemu.packet.channel"))
            way = row["frame.interface_name"]
            if row.get("fabemu.packet.kind") == "16":
                heads[way, *at].add(row.get("fabemu.word.value"))
            elif row["fabemu.what"] == str(pcap_file.REPLY):
                back = ">".join(reversed(way.split(">")))
                self.assertIn((back, *at), heads)
                self.assertEqual((row["fabemu.packet.wire"], row["fabemu.packet.last"]), ("8", "1"))
                if row["fabemu.packet.kind"] == str(pcap_file.NACK):
                    refused |= heads[back, *at]
        self.assertLessEqual({self.value(78), self.value(999)}, refused)
        self.assertNotIn(self.value(77), refused)


class Times(DissectorCase):
    """The times of single messages in simulated time, to the picosecond: docs/profiles.md."""

    def messages(self, topo):
        """Capture messages of 100 bytes, each alone in the network; returns the time of each."""
        run = ("--topo", topo, "--pattern", "complement", "--load", "0.001", "--bytes", "100",
               "--warmup", "1000ns", "--measure", "300000ns")
        capture = self.traffic("--json", *run)
        latency = json.loads(self.fabemu("traffic", "--json", *run).stdout)["latency_ns"]
        return capture, round(latency["min"] * 1000)

    def check_times(self, topo, *, hop, nic, wire, credit):
        """@hop: from one head to the next; @nic: at both ends; @wire: of all bytes; all in ps."""
        capture, latency = self.messages(topo)
        shown = self.shown(["frame.time_epoch", "frame.interface_name"])
        self.assertEqual([(row["frame.time_epoch"], row["frame.interface_name"]) for row in shown],
                         [(f"{r.time // 10**12}.{r.time // 1000 % 10**9:09d}", r.interface)
                          for r in capture.records])
        messages = []
        for r in sorted(capture.records, key=lambda r: r.time):
            if r.header and r.ends[0].startswith("n"):
                messages.append([r])
            elif r.header:
                mine = next(m for m in reversed(messages) if m[0].header.src == r.header.src)
                self.assertEqual(mine[-1].ends[1].split(":")[0], r.ends[0].split(":")[0])
                self.assertEqual(r.time - mine[-1].time, hop)
                mine.append(r)
            # credits for the last segment in the opposite direction
            elif r.what == pcap_file.CREDITS:
                back = ">".join(reversed(r.ends))
                sent = max(s.time for m in messages for s in m if s.interface == back)
                self.assertEqual(r.time - sent, credit[r.ends[0].startswith("n")])
        self.assertGreater(len(messages), 20)
        whole = [m for m in messages if m[-1].ends[1].startswith("n")]
        self.assertGreaterEqual(len(whole), len(messages) - 1)
        for m in whole:
            self.assertEqual(m[-1].time - m[0].time + 2 * nic + 20000 + wire, latency)

    def test_over_crosspoints_each_hop_takes_the_profile_s_time(self):
        self.check_times("kary:4,2", hop=20000 + 90000, nic=1300000, wire=116 * 800,
                         credit=(110000, 110000))

    def test_over_packets_each_hop_takes_the_profile_s_time(self):
        """Here an adapter returns a credit when it has the whole segment."""
        self.check_times("qsnet:16", hop=20000 + 40000, nic=300000, wire=132 * 400,
                         credit=(60000, 20000 + 132 * 400))


class Hostile(DissectorCase):
    """No input makes the dissector fail. FABEMU_MUTANTS=500000 makes a long run."""

    def pool(self):
        """Packets of each format, invented or encoded by the code: pairs of link and bytes."""
        made = [(0, data) for data, _ in formats.records(self.draw)]
        frames = [(1, data) for data, _ in self.frames()] * 8
        real = [(0, r.data) for r in
                self.traffic("--topo", "kary:2,2", "--pattern", "allreduce", "--operations",
                             "2").records +
                self.traffic("--topo", "qsnet:16", "--pattern", "uniform", "--load", "0.1",
                             "--bytes", "700", "--warmup", "500ns", "--measure", "800ns").records]
        return made + frames + self.draw.sample(real, min(len(real), 200))

    def tshark_output(self, packets, dissector=DISSECTOR):
        self.write(packets, name="mutants.pcapng")
        text = self.run_tshark("-V", "-r", self.path("mutants.pcapng"), dissector=dissector).stdout
        self.assertEqual(text.count("\nFrame ") + text.startswith("Frame "), len(packets))
        return text

    def test_nothing_makes_the_dissector_fail(self):
        pool, left = self.pool(), MUTANTS
        self.draw.shuffle(pool)
        while left:
            count = min(left, A_FILE)
            packets = [(link, mutant(self.draw, data)) for link, data in
                       (pool[i % len(pool)] for i in range(count))]
            self.assertNotIn("Lua Error", self.tshark_output(packets))
            left -= count

    def test_a_dissector_that_fails_is_found(self):
        with open(DISSECTOR) as f:
            text = f.read()
        wrong = text.replace("if at + bytes > tvb:len() then", "if false then")
        self.assertNotEqual(wrong, text)
        path = os.path.join(self.dir, "wrong.lua")
        with open(path, "w") as f:
            f.write(wrong)
        packets = [(link, mutant(self.draw, data)) for link, data in self.pool()]
        self.assertIn("Lua Error", self.tshark_output(packets, path))


def mutant(draw, data):
    """The bytes with some changed, removed or added."""
    data = bytearray(data)
    for _ in range(draw.randint(0, 6)):
        at = draw.randrange(len(data)) if draw.random() < 0.5 else draw.randrange(
            min(len(data), 40))
        data[at] = draw.choice((0, 1, 255, draw.randrange(256)))
    cut = draw.random()
    if cut < 0.3:
        del data[draw.randrange(len(data)):]
    elif cut < 0.4:
        data += draw.randbytes(draw.randint(1, 300))
    return bytes(data)


def flipped(data, bit):
    return data[:bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1:]


if __name__ == "__main__":
    main(jobs=2)
