# SPDX-License-Identifier: BSD-3-Clause
"""formats.py - every format of a capture, built from random numbers, with the fields that a
dissector must show; and both checksums. Written from docs/capture.md, docs/qsnet3.md and
nic/host/base/wire.h, not from the code under test.

A built object is a pair: its bytes, and {field: text}, where a missing field must not be shown.
"""
import struct

from .capture import NAME

SET, TEST = 5, 6
(EAGER, MORE, RTS, PUT, PUT_RTS, GET, ATOMIC, SHORT, PUT_NOTICE, PUT_NOTICE_RTS, BATCH,
 BATCH_MORE, CTS, FIN, RESULT, ACK, BYE, DATA, HELLO) = range(1, 20)
BAD, GOOD, UNCHECKED = "0", "1", "2"


# --- checksums -----------------------------------------------------------------------------------

def table_of(poly):
    """For each byte, how its eight bits change the register, low bit first."""
    ret = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (poly if byte & 1 else 0)
        ret.append(byte)
    return ret


CRC16 = table_of(0x8408)  # CCITT's, 0x1021, bit-reversed
CRC32 = table_of(0x82f63b78)  # Castagnoli's, 0x1EDC6F41, bit-reversed


def crc16(data):
    crc = 0
    for byte in data:
        crc = crc >> 8 ^ CRC16[(crc ^ byte) & 255]
    return crc ^ 0xffff


def crc32(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC32[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


def packet_crc(carried, tag, dst, group, life=0):
    """CRC of a packet; @carried: all of its headers and payloads, concatenated."""
    return crc32(carried + struct.pack("<II", tag, dst | group << 16 | life << 17))


# --- what adapters say ---------------------------------------------------------------------------

# By kind of adapter message: the fields after the head, each with its struct code; x is a zero
# byte.
HEAD = (("queue", "H"), ("check", "I"), ("ack", "I"), ("consumed", "I"))
MESSAGE = (("src_queue", "H"), ("", "2x"), ("id", "I"), ("tag", "Q"), ("data", "Q"), ("bytes", "Q"))
LITTLE = (("src_queue", "H"), ("", "2x"), ("data", "I"), ("tag", "Q"))
MEMORY = (("id", "I"), ("", "4x"), ("key", "Q"), ("offset", "Q"), ("bytes", "Q"))
LIST = (("id", "I"), ("", "4x"), ("key", "Q"), ("result", "Q"), ("bytes", "Q"))
ELEMENTS = (("op", "B"), ("type", "B"), ("fetch", "B"), ("", "5x"))
NOTICE = (("data", "Q"), ("src_queue", "H"), ("", "6x"))
PARTS = {EAGER: MESSAGE, MORE: (), RTS: MESSAGE, PUT: MEMORY, PUT_RTS: MEMORY, GET: MEMORY,
         PUT_NOTICE: MEMORY + NOTICE, PUT_NOTICE_RTS: MEMORY + NOTICE,
         BATCH: LIST, BATCH_MORE: (),
         ATOMIC: MEMORY + ELEMENTS, SHORT: LITTLE, CTS: (("id", "I"), ("to", "I"), ("bytes", "Q")),
         FIN: (("id", "I"), ("status", "i")), RESULT: (("id", "I"), ("", "4x")),
         ACK: (),
         BYE: (("sent", "I"), ("disconnect", "B"), ("done", "B"), ("asked", "H"), ("came", "H"),
               ("given", "H"), ("", "4x"), ("incarnation", "Q"))}
HELLO_PARTS = (("want", "B"), ("", "2x"), ("epoch", "I"), ("incarnation", "Q"), ("known", "Q"))
DATA_PARTS = (("", "x"), ("check", "H"), ("id", "I"))
IN_HEX = {"check": 8, "tag": 16, "data": 16, "key": 16}
# Kinds that end with bytes of a message or of memory, or with elements of an atomic.
WITH_BYTES = (EAGER, MORE, PUT, SHORT, PUT_NOTICE, BATCH, BATCH_MORE, DATA, ATOMIC, RESULT)
LEAST = {"status": -2**31}


def parts_of(what):
    """Fields of an adapter message after its first byte, with the struct code of each."""
    if what == HELLO:
        return HELLO_PARTS
    if what == DATA:
        return DATA_PARTS
    return (("", "x"), *HEAD, *PARTS[what])


def text_of(name, value):
    return f"0x{value:0{IN_HEX[name]}x}" if name in IN_HEX else str(value)


def read(payload):
    """Decodes an adapter message: {"what": …, field: number}, and the bytes after it."""
    what = payload[0]
    parts = parts_of(what)
    layout = struct.Struct("<B" + "".join(kind for _, kind in parts))
    numbers = layout.unpack_from(payload)
    names = ["what"] + [name for name, _ in parts if name]
    return dict(zip(names, numbers, strict=True)), payload[layout.size:]


def said(what, numbers, behind=b""):
    """Encodes an adapter message."""
    parts = parts_of(what)
    values = [numbers[name] for name, _ in parts if name]
    data = struct.pack("<B" + "".join(kind for _, kind in parts), what, *values)
    return data + behind, said_fields({"what": what, **numbers}, behind)


def said_fields(numbers, behind):
    ret = {f"fabemu.nic.{name}": text_of(name, value) for name, value in numbers.items()}
    if behind:
        ret["fabemu.payload"] = behind.hex()
    return ret


def drawn_said(draw, what):
    bits = {"B": 8, "H": 16, "I": 32, "i": 32, "Q": 64}
    numbers = {name: draw.getrandbits(bits[kind]) + LEAST.get(name, 0)
               for name, kind in parts_of(what) if name}
    return said(what, numbers, draw.randbytes(9) if what in WITH_BYTES else b"")


# --- segments ------------------------------------------------------------------------------------

def header_fields(dst, src, seq, kinds, length, op, type_):
    kind = kinds & 7
    folds = kind in (2, 3)
    ret = {"fabemu.src": str(src), "fabemu.seq": str(seq), "fabemu.kind": str(kind),
           "fabemu.notify": str(kinds >> 5 & 1), "fabemu.failed": str(kinds >> 6 & 1),
           "fabemu.stored": str(kinds >> 7), "fabemu.len": str(length),
           "fabemu.op" if folds else "fabemu.op.raw": str(op),
           "fabemu.type" if folds else "fabemu.type.raw": str(type_)}
    if kind == 0:
        ret["fabemu.dst"] = str(dst)
    else:
        ret.update({"fabemu.address": f"0x{dst:08x}", "fabemu.group": str(dst & 2**31 - 1),
                    "fabemu.wide": str(dst >> 31)})
    return ret


def word(value, number, test, until):
    """The payload of SET and TEST."""
    return struct.pack("<QIBB2x", value, number, test, until), {
        "fabemu.word.value": f"0x{value:016x}", "fabemu.word": str(number),
        "fabemu.word.test": str(test), "fabemu.word.until": str(until)}


def segment(draw, kinds, payload=None):
    """A header and a payload: (bytes, fields); the payload is random if none is given."""
    data, fields = payload or (lambda data: (data, {"fabemu.payload": data.hex()}))(
        b"\xfe" + draw.randbytes(draw.randint(0, 239)))
    numbers = (draw.getrandbits(32), draw.getrandbits(32), draw.getrandbits(32), kinds, len(data),
               draw.randrange(12), draw.randrange(24))
    return struct.pack("<IIIBBBB", *numbers) + data, header_fields(*numbers) | fields


# --- packets -------------------------------------------------------------------------------------

class Packet:
    """A packet on a cable: its parts, and the segments in each."""

    def __init__(self, draw):
        self.channel, self.priority = draw.randrange(32), draw.randrange(4)
        self.group, self.dst, self.bytes = draw.randrange(2), draw.getrandbits(16), draw.randrange(
            4097)
        self.stamp, self.more, self.tag = draw.randrange(1024), draw.randrange(2), draw.getrandbits(
            32)
        self.wire = draw.randrange(256)

    def rest(self, kind, last):
        data = struct.pack("<IBBBB", self.tag, kind, self.wire, self.channel, last)
        return data, {"fabemu.packet.tag": f"0x{self.tag:08x}", "fabemu.packet.kind": str(kind),
                      "fabemu.packet.wire": str(self.wire + 1),
                      "fabemu.packet.channel": str(self.channel), "fabemu.packet.last": str(last)}

    def head(self, last):
        bits = (self.channel | self.priority << 5 | self.group << 7 | self.dst << 8 |
                self.bytes << 24 | self.stamp << 37 | self.more << 47)
        crc = crc16(bits.to_bytes(6, "little"))
        data, fields = self.rest(16, last)
        return struct.pack("<Q", bits | crc << 48) + data, fields | {
            f"fabemu.head.{name}": str(getattr(self, name))
            for name in ("channel", "priority", "group", "dst", "bytes", "stamp", "more")} | {
                "fabemu.head.crc16": f"0x{crc:04x}", "fabemu.head.crc16.status": GOOD}

    def cont(self, index, last):
        bits = self.channel | self.priority << 5 | index << 7 | last << 12
        crc = crc16(bits.to_bytes(2, "little"))
        data, fields = self.rest(17, last)
        return struct.pack("<II", bits | crc << 16, 0) + data, fields | {
            "fabemu.cont.channel": str(self.channel), "fabemu.cont.priority": str(self.priority),
            "fabemu.cont.index": str(index), "fabemu.cont.last": str(last),
            "fabemu.cont.crc16": f"0x{crc:04x}", "fabemu.cont.crc16.status": GOOD}


def capture_head(what, flags=0, number=0, about=0, note=0):
    link_from, link_to = NAME.split(">")
    fields = {"fabemu.version": "1", "fabemu.what": str(what), "fabemu.flags": f"0x{flags:02x}",
              "fabemu.link": NAME, "fabemu.link.from": link_from, "fabemu.link.to": link_to}
    if what == 1:
        fields |= {"fabemu.numbered": str(flags & 1), "fabemu.again": str(flags >> 1 & 1),
                   "fabemu.note": f"0x{note:08x}"}
        if flags & 1:
            fields["fabemu.number"] = str(number)
    elif what == 2:
        fields |= {"fabemu.carries": str(flags >> 2 & 1), "fabemu.crc32": f"0x{note:08x}"}
    elif what == 4:
        fields |= {"fabemu.credits": str(number), "fabemu.credits.channel": str(about)}
    elif what == 5:
        fields |= {"fabemu.answer.number": str(number), "fabemu.answer": str(about)}
    return struct.pack("<BBBxIII", 1, what, flags, number, about, note), fields


def together(*made):
    """Several objects in a row as one."""
    return b"".join(data for data, _ in made), {k: v for _, fields in made
                                                for k, v in fields.items()}


def packet(draw, carried, life=0):
    """The records of a packet that carries these segments: one per part, and a last one without
    any."""
    p = Packet(draw)
    crc = packet_crc(b"".join(data for data, _ in carried), p.tag, p.dst, p.group, life)
    ret = []
    for i in range(len(carried) + 1):
        last = i == len(carried)
        part = p.cont(i, int(last)) if i else p.head(int(last))
        mine = [] if last else [carried[i]]
        data, fields = together(capture_head(2, 0 if last else 4, note=crc if last else 0), part,
                                *mine)
        if last:
            fields |= {"fabemu.crc32.status": GOOD, "fabemu.crc32.incarnation": str(life)}
        ret.append((data, fields))
    return ret


# --- all of them ---------------------------------------------------------------------------------

def payloads(draw):
    """Possible payloads of a segment of each kind: pairs of kind and payload."""
    ret = [(0, drawn_said(draw, what)) for what in range(EAGER, HELLO + 1)]
    ret += [(kind, None) for kind in range(5)]
    # Each field of a word is non-zero in one of these two.
    ret += [(SET, word(draw.getrandbits(64), draw.getrandbits(32), 0, 0)),
            (TEST, word(draw.getrandbits(64), draw.getrandbits(32), 1, 2))]
    return ret + [(TEST, (b"", {}))]  # a barrier is a conditional without a word


def reply(draw, kind):
    p = Packet(draw)
    return together(capture_head(3), (bytes(8), {}), p.rest(kind, 1))


def records(draw):
    """Each format once or more."""
    ret = []
    for kind, payload in payloads(draw):
        for flags in range(4):
            bits = draw.randrange(8) << 5 | draw.randrange(2) << 3
            ret.append(together(capture_head(1, flags, draw.getrandbits(32), 0,
                                             draw.getrandbits(32)),
                                segment(draw, kind | bits, payload)))
    for pieces in (0, 1, 3):
        ret += packet(draw, [segment(draw, draw.choice((2, 3, 10, 11, 12, 32)))
                             for _ in range(pieces)], draw.getrandbits(15) * (pieces == 1))
    for kind, payload in payloads(draw):
        ret += packet(draw, [segment(draw, kind, payload)])
    ret += [reply(draw, kind) for kind in (18, 19)]
    ret += [capture_head(4, 0, draw.getrandbits(32), draw.randrange(32)) for _ in range(2)]
    ret += [capture_head(5, 0, draw.getrandbits(32), about) for about in (0, 1, 2)]
    return ret
