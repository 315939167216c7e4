# SPDX-License-Identifier: BSD-3-Clause
"""capture.py - reads and writes pcapng files with fabemu's records. Written from docs/capture.md,
not from the code under test."""
import struct

SECTION, INTERFACE, STATISTICS, PACKET = 0x0a0d0d0a, 1, 5, 6
USER0, ETHERNET = 147, 1
SEGMENT, PART, REPLY, CREDITS, ANSWER = 1, 2, 3, 4, 5
NUMBERED, AGAIN, CARRIES = 1, 2, 4
UNICAST, MULTICAST, REDUCE, ALLREDUCE, BARRIER = range(5)
HEAD, CONT, ACK, NACK = range(16, 20)
WIDE = 1 << 31
NAME = "n4:0>1:2"  # name of the interface in generated files


def options_of(data):
    """{code: value} of a block's options."""
    ret = {}
    while len(data) >= 4:
        code, length = struct.unpack_from("<HH", data)
        if not code:
            break
        ret[code] = data[4:4 + length]
        data = data[4 + (length + 3) // 4 * 4:]
    return ret


def time_of(data):
    high, low = struct.unpack("<II", data)
    return high << 32 | low


class Header:
    """A segment's header and its payload."""

    def __init__(self, data):
        self.dst, self.src, self.seq, kind, self.len, self.op, self.type = struct.unpack_from(
            "<IIIBBBB", data)
        self.kind, self.bits = kind & 7, kind & ~7
        self.group = self.dst & ~WIDE
        self.payload = data[16:]


class Record:
    """A packet of a capture."""

    def __init__(self, at, interface, time, data, whole, lost):
        self.at, self.interface, self.time, self.data = at, interface, time, data
        self.whole, self.lost = whole, lost
        (self.version, self.what, self.flags, _, self.number, self.about,
         self.note) = struct.unpack_from("<BBBBIII", data)
        self.header = self.part = None
        rest = data[16:]
        if self.what in (PART, REPLY):
            self.word, self.tag, self.part, wire, self.channel, self.last = struct.unpack_from(
                "<QIBBBB", rest)
            self.wire = wire + 1
            rest = rest[16:]
        if self.what == SEGMENT or self.flags & CARRIES and self.what == PART:
            self.header = Header(rest)

    @property
    def to_group(self):
        """Head only: is the packet for a broadcast group?"""
        return bool(self.word >> 7 & 1)

    @property
    def ends(self):
        """The sending and the receiving end: "n4:0", "1:0"."""
        return tuple(self.interface.split(">"))


class Capture:
    """A file: its interfaces, its records, and the statistics of each interface."""

    def __init__(self, data):
        self.interfaces, self.units, self.records, self.counts = [], [], [], {}
        self.by = None
        at = 0
        while at < len(data):
            kind, length = struct.unpack_from("<II", data, at)
            body = data[at + 8:at + length - 4]
            assert struct.unpack_from("<I", data, at + length - 4)[0] == length and length % 4 == 0
            self.block(at, kind, body)
            at += length
        assert at == len(data)

    def block(self, at, kind, body):
        if kind == SECTION:
            assert struct.unpack_from("<IHHQ", body) == (0x1a2b3c4d, 1, 0, 2 ** 64 - 1)
            self.by = options_of(body[16:])[4].decode()
        elif kind == INTERFACE:
            assert struct.unpack_from("<H", body)[0] == USER0
            options = options_of(body[8:])
            self.interfaces.append(options[2].decode())
            self.units.append(options[9][0])
        elif kind == PACKET:
            interface, _, _, kept, whole = struct.unpack_from("<IIIII", body)
            lost = options_of(body[20 + (kept + 3) // 4 * 4:]).get(4, bytes(8))
            self.records.append(Record(at, self.interfaces[interface], time_of(body[4:12]),
                                       body[20:20 + kept], whole,
                                       int.from_bytes(lost, "little")))
        else:
            assert kind == STATISTICS, hex(kind)
            options = options_of(body[12:])
            self.counts[self.interfaces[struct.unpack_from("<I", body)[0]]] = tuple(
                int.from_bytes(options[code], "little") for code in (4, 5, 8))

    def segments(self, *kinds):
        """Records with a segment of one of these kinds, or of any kind."""
        return [r for r in self.records if r.header and (not kinds or r.header.kind in kinds)]


def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def interface_name(name):
    """The option with an interface's name, and the end-of-options mark."""
    return struct.pack("<HH", 2, len(name)) + name.encode() + bytes(-len(name) % 4 + 4)


def pcapng(links, packets):
    """A file with an interface for each of the link types @links; interfaces of fabemu's type get
    the name NAME. @packets: pairs of interface and bytes."""
    ret = block(SECTION, struct.pack("<IHHQ", 0x1a2b3c4d, 1, 0, 2 ** 64 - 1))
    for link in links:
        name = interface_name(NAME) if link == USER0 else b""
        ret += block(INTERFACE, struct.pack("<HHI", link, 0, 0) + name)
    for interface, data in packets:
        head = struct.pack("<IIIII", interface, 0, 0, len(data), len(data))
        ret += block(PACKET, head + data + bytes(-len(data) % 4))
    return ret
