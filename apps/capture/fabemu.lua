-- SPDX-License-Identifier: BSD-3-Clause
--
-- fabemu.lua - Wireshark dissector of fabemu's captures and of the frames between its hosts.
--
-- docs/capture.md describes the installation and the fields. Input is not trusted, so the length is
-- checked before every read.

-- Wireshark loads this file twice if the file is in the folder of plugins and the option
-- -X lua_script also names it. The second load does nothing, because a protocol can be registered
-- only once.
local is_first, fabemu = pcall(Proto, "fabemu", "fabemu fabric")
if not is_first then
    return
end
local frames = Proto("fabemu_frame", "fabemu frame between hosts")

-- --- names -----------------------------------------------------------------------------

local WHAT = {"segment", "packet", "reply", "credits", "answer"}
local KIND = {[0] = "unicast", "multicast", "reduce", "allreduce", "barrier", "set", "test"}
local PACKET = {[16] = "head", [17] = "cont", [18] = "ack", [19] = "nack"}
local ANSWER = {[0] = "none", "ack", "again"}
local OP = {[0] = "sum", "min", "max", "prod", "land", "lor", "lxor", "band", "bor", "bxor",
            "minloc", "maxloc"}
local TYPE = {[0] = "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64", "f32_i32",
              "f64_i32", "i64_i32", "i32_i32", "i16_i32", "f128_i32", "f32_f32", "f64_f64",
              "f128", "f32_complex", "f64_complex", "f128_complex", "i128", "u128"}
local NIC = {"eager", "more", "rts", "put", "put_rts", "get", "atomic", "short", "put_notice",
             "put_notice_rts", "batch", "batch_more", "cts", "fin", "result", "ack", "disconnect",
             "data", "hello"}
local TEST = {[0] = "equal", "reached"}
local UNTIL = {[0] = "once", "until", "take back"}
local FRAME = {"hello", "reply", "confirm", "data", "ack"}
local CHECK = {[0] = "CRC-32C", "BLAKE2b", "AES-256-GCM", "ChaCha20-Poly1305"}
local RECORD = {"entry", "credits", "taken", "old", "ready", "control", "control taken",
                "clock", "credit at", "step"}
local STEP = {[0] = "more", "last", "fail"}

local STATUS = {[0] = "bad", "good", "not checked"}
local BAD, GOOD, UNCHECKED = 0, 1, 2

local GROUP_WIDE = 0x80000000

-- --- fields ----------------------------------------------------------------------------

-- f maps names to fields. In f, the names of the fields of frames begin with "frame.".
local f, all = {}, {[fabemu] = {}, [frames] = {}}
local prefix = {[fabemu] = "fabemu.", [frames] = "fabemu_frame."}

local function field(proto, name, make, text, base, values, mask)
    local key = proto == fabemu and name or "frame." .. name
    f[key] = make(prefix[proto] .. name, text, base, values, mask)
    table.insert(all[proto], f[key])
end

local function bytes_field(proto, name, text)
    field(proto, name, function(abbrev) return ProtoField.bytes(abbrev, text) end)
end

local u8, u16, u32, u64 = ProtoField.uint8, ProtoField.uint16, ProtoField.uint32,
    ProtoField.uint64
local DEC, HEX = base.DEC, base.HEX

-- The header of each record of a capture: emu/link/tap.h.
field(fabemu, "version", u8, "Version", DEC)
field(fabemu, "link", ProtoField.string, "Link")
field(fabemu, "link.names", ProtoField.string, "Link, by names")
field(fabemu, "link.from", ProtoField.string, "Link from")
field(fabemu, "link.to", ProtoField.string, "Link to")
field(fabemu, "what", u8, "What", DEC, WHAT)
field(fabemu, "flags", u8, "Flags", HEX)
field(fabemu, "numbered", u8, "Numbered by link-level retry", DEC, nil, 1)
field(fabemu, "again", u8, "Sent again", DEC, nil, 2)
field(fabemu, "carries", u8, "A segment follows", DEC, nil, 4)
field(fabemu, "number", u32, "Number on the cable", DEC)
field(fabemu, "credits", u32, "Credits", DEC)
field(fabemu, "credits.channel", u32, "Channel", DEC)
field(fabemu, "answer", u32, "Answer", DEC, ANSWER)
field(fabemu, "answer.number", u32, "All before this number received", DEC)
field(fabemu, "note", u32, "Note", HEX)
field(fabemu, "crc32", u32, "CRC-32 of the payload", HEX)
field(fabemu, "crc32.status", u8, "CRC-32 status", DEC, STATUS)
field(fabemu, "crc32.incarnation", u16, "Incarnation of the source", DEC)

-- The segment: emu/packet/seg.h.
field(fabemu, "dst", u32, "Destination node", DEC)
field(fabemu, "address", u32, "Collective address", HEX)
field(fabemu, "group", u32, "Group", DEC)
field(fabemu, "wide", u8, "Wide window", DEC)
field(fabemu, "src", u32, "Source node", DEC)
field(fabemu, "seq", u32, "Number", DEC)
field(fabemu, "kind", u8, "Kind", DEC, KIND, 7)
field(fabemu, "notify", u8, "Notify", DEC, nil, 32)
field(fabemu, "failed", u8, "Failed", DEC, nil, 64)
field(fabemu, "stored", u8, "Stored", DEC, nil, 128)
field(fabemu, "len", u8, "Payload bytes", DEC)
field(fabemu, "op", u8, "Operation", DEC, OP)
field(fabemu, "op.raw", u8, "Operation (raw byte)", DEC)
field(fabemu, "type", u8, "Type", DEC, TYPE)
field(fabemu, "type.raw", u8, "Type (raw byte)", DEC)
bytes_field(fabemu, "payload", "Payload")
field(fabemu, "word.value", u64, "Value", HEX)
field(fabemu, "word", u32, "Word", DEC)
field(fabemu, "word.test", u8, "Test", DEC, TEST)
field(fabemu, "word.until", u8, "Until", DEC, UNTIL)

-- The parts of a packet, on cables with channels: emu/packet/packet.h.
field(fabemu, "packet.kind", u8, "Part", DEC, PACKET)
field(fabemu, "packet.tag", u32, "Tag", HEX)
field(fabemu, "packet.wire", u16, "Bytes on the wire", DEC)
field(fabemu, "packet.channel", u8, "Channel on this cable", DEC)
field(fabemu, "packet.last", u8, "Last segment", DEC)
field(fabemu, "head.channel", u8, "Channel", DEC)
field(fabemu, "head.priority", u8, "Priority", DEC)
field(fabemu, "head.group", u8, "To a group", DEC)
field(fabemu, "head.dst", u16, "Destination", DEC)
field(fabemu, "head.bytes", u16, "Packet's payload bytes", DEC)
field(fabemu, "head.stamp", u16, "Stamp", DEC)
field(fabemu, "head.more", u8, "Another packet follows", DEC)
field(fabemu, "head.crc16", u16, "CRC-16", HEX)
field(fabemu, "head.crc16.status", u8, "CRC-16 status", DEC, STATUS)
field(fabemu, "cont.channel", u8, "Channel", DEC)
field(fabemu, "cont.priority", u8, "Priority", DEC)
field(fabemu, "cont.index", u8, "Index", DEC)
field(fabemu, "cont.last", u8, "Last", DEC)
field(fabemu, "cont.crc16", u16, "CRC-16", HEX)
field(fabemu, "cont.crc16.status", u8, "CRC-16 status", DEC, STATUS)

-- The protocol between adapters: nic/host/base/wire.h.
field(fabemu, "nic.what", u8, "Message", DEC, NIC)
field(fabemu, "nic.queue", u16, "Queue", DEC)
field(fabemu, "nic.check", u32, "Check", HEX)
field(fabemu, "nic.ack", u32, "Requests dispatched", DEC)
field(fabemu, "nic.consumed", u32, "Bytes consumed", DEC)
field(fabemu, "nic.src_queue", u16, "Source's queue", DEC)
field(fabemu, "nic.id", u32, "Transfer", DEC)
field(fabemu, "nic.to", u32, "Transfer to refer to", DEC)
field(fabemu, "nic.tag", u64, "Tag", HEX)
field(fabemu, "nic.data", u64, "Data", HEX)
field(fabemu, "nic.bytes", u64, "Bytes", DEC)
field(fabemu, "nic.key", u64, "Key", HEX)
field(fabemu, "nic.offset", u64, "Offset", DEC)
field(fabemu, "nic.result", u64, "Bytes of the result", DEC)
field(fabemu, "nic.op", u8, "Atomic operation", DEC)
field(fabemu, "nic.type", u8, "Atomic type", DEC)
field(fabemu, "nic.fetch", u8, "Fetch", DEC)
field(fabemu, "nic.status", ProtoField.int32, "Status", DEC)
field(fabemu, "nic.want", u8, "Wants a reply", DEC)
field(fabemu, "nic.epoch", u32, "Epoch", DEC)
field(fabemu, "nic.incarnation", u64, "Process", DEC)
field(fabemu, "nic.known", u64, "Known process of the peer", DEC)
field(fabemu, "nic.sent", u32, "Requests sent", DEC)
field(fabemu, "nic.disconnect", u8, "Disconnect", DEC, {[0] = "ask", "answer", "unknown", "done"})
field(fabemu, "nic.done", u8, "Reported to be done", DEC)
field(fabemu, "nic.asked", u16, "Queries sent", DEC)
field(fabemu, "nic.came", u16, "Queries received", DEC)
field(fabemu, "nic.given", u16, "Replies sent", DEC)

-- Frames between hosts: emu/hostlink/session/frame.c; their records: emu/hostlink/wire.h.
field(frames, "magic", u8, "Magic", HEX)
field(frames, "version", u8, "Version", DEC)
field(frames, "fabric", u64, "Fabric", HEX)
field(frames, "from", u16, "From host", DEC)
field(frames, "to", u16, "To host", DEC)
field(frames, "kind", u8, "Kind", DEC, FRAME)
field(frames, "check", u8, "Check", DEC, CHECK)
field(frames, "length", u16, "Bytes of the body", DEC)
field(frames, "packet", u64, "Packet", DEC)
field(frames, "yours", u64, "Yours", HEX)
field(frames, "mine", u64, "Mine", HEX)
field(frames, "seq", u32, "Number", DEC)
field(frames, "ack", u32, "All before received", DEC)
field(frames, "sent", u32, "Sent, ns", DEC)
field(frames, "echo", u32, "Echo, ns", DEC)
field(frames, "needless", u32, "Duplicates", DEC)
field(frames, "newest", u32, "Newest", DEC)
bytes_field(frames, "tag", "Tag")
field(frames, "tag.status", u8, "Tag status", DEC, STATUS)
bytes_field(frames, "map", "Map of received frames")
bytes_field(frames, "digest", "Digest of the cluster file")
field(frames, "frame_bytes", u32, "Largest frame", DEC)
field(frames, "window", u32, "Window", DEC)
field(frames, "first", u32, "First number", DEC)
field(frames, "checks", u32, "Checks", HEX)
field(frames, "record", u8, "Record", DEC, RECORD)
field(frames, "record.channel", u8, "Channel", DEC)
field(frames, "record.buffer", u8, "A payload follows", DEC, nil, 1)
field(frames, "record.own", u8, "A header precedes it", DEC, nil, 2)
field(frames, "record.length", u16, "Bytes", DEC)
field(frames, "record.cable", u32, "Cable", DEC)
field(frames, "record.count", u64, "Count", DEC)
field(frames, "entry.at", u64, "Time, ps", DEC)
field(frames, "entry.crc", u32, "Note or CRC-32", HEX)
field(frames, "entry.note", u32, "Buffer's note", HEX)
field(frames, "clock.sent", u64, "Sent, ns", DEC)
field(frames, "clock.echo", u64, "Echo, ns", DEC)
field(frames, "clock.came", u64, "Received, ns", DEC)
bytes_field(frames, "control", "Control bytes")
field(frames, "credit.at", u64, "Arrives at, ps", DEC)
field(frames, "step", u8, "Step", DEC, STEP)
bytes_field(frames, "step.bytes", "Bytes of the step")

local short = ProtoExpert.new("fabemu.short", "Truncated, or too short",
                              expert.group.MALFORMED, expert.severity.WARN)
local strange = ProtoExpert.new("fabemu_frame.strange", "Invalid: not written by a host",
                                expert.group.MALFORMED, expert.severity.WARN)
local damaged = ProtoExpert.new("fabemu.damaged", "Wrong checksum",
                                expert.group.CHECKSUM, expert.severity.ERROR)
local forged = ProtoExpert.new("fabemu_frame.damaged", "Wrong tag",
                               expert.group.CHECKSUM, expert.severity.ERROR)
fabemu.fields = all[fabemu]
fabemu.experts = {short, damaged}
frames.fields = all[frames]
frames.experts = {strange, forged}

-- --- reading ---------------------------------------------------------------------------

-- Returns false if the data is too short for the field.
local function add(tree, name, tvb, at, bytes)
    if at + bytes > tvb:len() then
        return false
    end
    tree:add_le(f[name], tvb(at, bytes))
    return true
end

-- Adds the fields of @rows, {name, offset, bytes}. Returns false if the data is too short.
local function add_all(tree, tvb, at, rows)
    for _, row in ipairs(rows) do
        if not add(tree, row[1], tvb, at + row[2], row[3]) then
            tree:add_proto_expert_info(short)
            return false
        end
    end
    return true
end

-- Adds a field that is a part of a word. The caller has checked the length.
local function add_bits(tree, name, tvb, at, bytes, value)
    tree:add(f[name], tvb(at, bytes), value)
end

-- Adds the result of checking the bytes in @range.
local function add_status(tree, name, range, status, info)
    local item = tree:add(f[name], range, status)
    item:set_generated()
    if status == BAD then
        item:add_proto_expert_info(info)
    end
end

-- --- checksums -------------------------------------------------------------------------

-- CCITT (polynomial 0x1021, reflected), initial value 0, inverted result. @raw: a string of bytes.
local function crc16(raw)
    local crc = 0
    for i = 1, #raw do
        crc = bit32.bxor(crc, raw:byte(i))
        for _ = 1, 8 do
            crc = bit32.bxor(bit32.rshift(crc, 1), crc % 2 == 1 and 0x8408 or 0)
        end
    end
    return bit32.bxor(crc, 0xffff)
end

-- Castagnoli (polynomial 0x1EDC6F41, reflected). CRC32[i] is the change of the register if its
-- lowest byte is i. CRC32_BACK maps the highest byte of such a change back to i, to undo a step.
local CRC32, CRC32_BACK = {}, {}
for i = 0, 255 do
    local crc = i
    for _ = 1, 8 do
        crc = bit32.bxor(bit32.rshift(crc, 1), crc % 2 == 1 and 0x82f63b78 or 0)
    end
    CRC32[i] = crc
    CRC32_BACK[bit32.rshift(crc, 24)] = i
end

-- Returns the register after the bytes of @raw. It is 0xffffffff before the first byte, and is
-- inverted after the last one.
local function crc32_more(crc, raw)
    for i = 1, #raw do
        crc = bit32.bxor(bit32.rshift(crc, 8), CRC32[bit32.band(bit32.bxor(crc, raw:byte(i)), 255)])
    end
    return crc
end

-- Returns the 32-bit word that changes the register from @from to @to.
local function crc32_word(from, to)
    for _ = 1, 4 do
        local i = CRC32_BACK[bit32.rshift(to, 24)]
        to = bit32.bor(bit32.lshift(bit32.bxor(to, CRC32[i]), 8), i)
    end
    return bit32.bxor(from, to)
end

-- A packet is captured in parts of one segment each. Its CRC-32 is over these segments, its tag,
-- and a last word, which has the destination in the lower 17 bits and the incarnation of the source
-- in the upper 15. On one interface and channel, the parts of a packet follow each other.
-- incomplete: by interface and channel, the packet whose last part has not arrived.
-- checked: by the frame number of a packet's last part, the result of the check.
local incomplete, checked = {}, {}
local interface = Field.new("frame.interface_id")

function fabemu.init()
    incomplete, checked = {}, {}
end

-- Returns the packet to which the part at offset 16 belongs; nil: an earlier part is missing.
local function packet_so_far(tvb, stream)
    local before, tag = incomplete[stream], tvb:raw(24, 4)
    if tvb(28, 1):uint() == 16 then
        local word = tvb(16, 4):le_uint()
        return {tag = tag, index = 0, crc = 0xffffffff,
                to = bit32.extract(word, 8, 16) + 65536 * bit32.extract(word, 7, 1)}
    elseif before and before.tag == tag
        and before.index + 1 == bit32.extract(tvb(16, 4):le_uint(), 7, 5) then
        before.index = before.index + 1
        return before
    end
    return nil
end

-- Returns the bytes that the checksum covers of the segment at offset 32; nil: it is truncated.
local function carried(tvb)
    if tvb:len() < 48 then
        return nil
    end
    local stored = bit32.band(tvb(44, 1):uint(), 128) == 128 -- no payload follows
    local bytes = 16 + (stored and 0 or tvb(45, 1):uint())
    return 32 + bytes <= tvb:len() and tvb:raw(32, bytes) or nil
end

-- Adds the part with a descriptor at offset 16 to its packet. If it is the packet's last part,
-- returns the result of the check and the incarnation of the source.
local function packet_take(tvb, carries)
    local id, last = interface(), tvb(31, 1):uint() == 1
    local stream = (id and id.value or 0) * 256 + tvb(30, 1):uint()
    local packet, raw = packet_so_far(tvb, stream), ""
    if carries then
        raw = carried(tvb)
    end
    if packet and raw then
        packet.crc = crc32_more(packet.crc, raw)
    else
        packet = nil
    end
    incomplete[stream] = not last and packet or nil
    if not last or not packet then
        return last and UNCHECKED or nil
    end
    local word = crc32_word(crc32_more(packet.crc, packet.tag), bit32.bnot(tvb(12, 4):le_uint()))
    if bit32.band(word, 0x1ffff) ~= packet.to then
        return BAD
    end
    return GOOD, bit32.rshift(word, 17)
end

-- Wireshark may dissect a record several times. Only the first times are in the order of the file,
-- so this function adds a part to its packet only then.
local function add_crc32(tree, tvb, pinfo, carries)
    if not pinfo.visited then
        local status, incarnation = packet_take(tvb, carries)
        checked[pinfo.number] = status and {status = status, incarnation = incarnation}
    end
    local check = checked[pinfo.number]
    if check then
        add_status(tree, "crc32.status", tvb(12, 4), check.status, damaged)
    end
    if check and check.incarnation then
        tree:add(f["crc32.incarnation"], tvb(12, 4), check.incarnation):set_generated()
    end
end

-- --- protocol between adapters ----------------------------------------------------------

local HEAD = {{"nic.queue", 2, 2}, {"nic.check", 4, 4}, {"nic.ack", 8, 4}, {"nic.consumed", 12, 4}}
local MESSAGE = {{"nic.src_queue", 16, 2}, {"nic.id", 20, 4}, {"nic.tag", 24, 8},
                 {"nic.data", 32, 8}, {"nic.bytes", 40, 8}}
local SHORT = {{"nic.src_queue", 16, 2}, {"nic.data", 20, 4}, {"nic.tag", 24, 8}}
local MEMORY = {{"nic.id", 16, 4}, {"nic.key", 24, 8}, {"nic.offset", 32, 8}, {"nic.bytes", 40, 8}}
local BATCH = {{"nic.id", 16, 4}, {"nic.key", 24, 8}, {"nic.result", 32, 8}, {"nic.bytes", 40, 8}}
local NOTICE = {{"nic.id", 16, 4}, {"nic.key", 24, 8}, {"nic.offset", 32, 8}, {"nic.bytes", 40, 8},
                {"nic.data", 48, 8}, {"nic.src_queue", 56, 2}}
-- By message type: the fields after the head, and the offset of the data.
local LAYOUTS = {
    [1] = {MESSAGE, 48}, [2] = {{}, 16}, [3] = {MESSAGE, 48}, [4] = {MEMORY, 48},
    [5] = {MEMORY, 48}, [6] = {MEMORY, 48},
    [7] = {{{"nic.id", 16, 4}, {"nic.key", 24, 8}, {"nic.offset", 32, 8}, {"nic.bytes", 40, 8},
            {"nic.op", 48, 1}, {"nic.type", 49, 1}, {"nic.fetch", 50, 1}}, 56},
    [8] = {SHORT, 32},
    [9] = {NOTICE, 64}, [10] = {NOTICE, 64},
    [11] = {BATCH, 48}, [12] = {{}, 16},
    [13] = {{{"nic.id", 16, 4}, {"nic.to", 20, 4}, {"nic.bytes", 24, 8}}, 32},
    [14] = {{{"nic.id", 16, 4}, {"nic.status", 20, 4}}, 24},
    [15] = {{{"nic.id", 16, 4}}, 24},
    [16] = {{}, 16},
    [17] = {{{"nic.sent", 16, 4}, {"nic.disconnect", 20, 1}, {"nic.done", 21, 1},
             {"nic.asked", 22, 2}, {"nic.came", 24, 2}, {"nic.given", 26, 2}, {"nic.incarnation", 32, 8}}, 40},
}
local DATA = {{"nic.check", 2, 2}, {"nic.id", 4, 4}}
local HELLO = {{"nic.want", 1, 1}, {"nic.epoch", 4, 4}, {"nic.incarnation", 8, 8},
               {"nic.known", 16, 8}}

-- Adds the adapters' message in the payload of a unicast segment. Returns its name; nil: unknown.
local function adapter_message(tree, tvb, at)
    local what = tvb(at, 1):uint()
    local layout, data = LAYOUTS[what], nil
    if not NIC[what] then
        return nil
    end
    local sub = tree:add(fabemu, tvb(at), "Adapters: " .. NIC[what])
    add(sub, "nic.what", tvb, at, 1)
    if layout then
        if add_all(sub, tvb, at, HEAD) and add_all(sub, tvb, at, layout[1]) then
            data = layout[2]
        end
    elseif what == 18 then
        data = add_all(sub, tvb, at, DATA) and 8
    else
        data = add_all(sub, tvb, at, HELLO) and 24
    end
    if data and at + data < tvb:len() then
        sub:add(f["payload"], tvb(at + data))
    end
    return NIC[what]
end

-- --- addresses -------------------------------------------------------------------------

-- An interface of a capture is one direction of a cable, with a name like "3:5>7:1".
local interface_name = Field.new("frame.interface_name")
local interface_about = Field.new("frame.interface_description")

-- Returns the ends of a link with the names of the devices, from an interface's description such as
-- "leaf1>spine, up"; nil: it has none, or a name contains '>'.
local function link_names(from, to)
    local about = interface_about()
    local near, far = string.match(about and about.value or "", "^([^>]+)>([^>]+), %a+$")
    if near then
        return near .. string.match(from, ":.*"), far .. string.match(to, ":.*")
    end
end

-- The names of nodes, by number, as far as records of the interfaces at these nodes were seen.
local node_names = {}

function fabemu.init()
    node_names = {}
end

-- Returns a node's name, or "n3" if it is unknown.
local function node_text(node)
    return node_names[node] or "n" .. node
end

-- Notes the name of a node from a link's end, "n3:1" without and "node04:1" with the name.
local function note_name(number, named)
    local node = string.match(number, "^n(%d+):")
    if node then
        node_names[tonumber(node)] = string.match(named, "^(.*):%d+$")
    end
end

-- Adds the link of this record. Returns its two ends for the columns, with names if the network's
-- file has them; nil if the interface has no name.
local function add_link(tree, tvb)
    local name = interface_name()
    local from, to = string.match(name and name.value or "", "^(n?%d+:%d+)>(n?%d+:%d+)$")
    if from then
        tree:add(f["link"], tvb(0, 0), from .. ">" .. to):set_generated()
        tree:add(f["link.from"], tvb(0, 0), from):set_generated()
        tree:add(f["link.to"], tvb(0, 0), to):set_generated()
        local near, far = link_names(from, to)
        if near then
            note_name(from, near)
            note_name(to, far)
            tree:add(f["link.names"], tvb(0, 0), near .. ">" .. far):set_generated()
            return near, far
        end
    end
    return from, to
end

-- Returns the source and the destination in the segment header at @at; nil: it is truncated.
local function parties(tvb, at)
    if at + 16 > tvb:len() then
        return nil
    end
    local src, dst = tvb(at + 4, 4):le_uint(), tvb(at, 4):le_uint()
    if bit32.band(tvb(at + 12, 1):uint(), 7) == 0 then
        return {src = src, dst = dst, to = node_text(dst)}
    end
    dst = bit32.band(dst, bit32.bnot(GROUP_WIDE))
    return {src = src, dst = dst, group = true, to = "group " .. dst}
end

-- A script cannot add a table to Statistics > Conversations, but Wireshark's Ethernet dissector has
-- one. Therefore each segment also gets an Ethernet header, for that dissector. The address of node
-- N is 02:00 and N in four bytes. The address of group G is 03:00 and G in four bytes.
local ethernet = Dissector.get("eth_withoutfcs")
local NODE, GROUP, EXPERIMENT = "0200", "0300", "88b6"

local function add_addresses(tree, tvb, pinfo, of)
    local header = string.format("%s%08x%s%08x%s", of.group and GROUP or NODE, of.dst, NODE,
                                 of.src, EXPERIMENT)
    local sub = tree:add(fabemu, tvb(0, 0), "Addresses for tables of conversations")
    local src, dst = pinfo.src, pinfo.dst
    sub:set_generated()
    ethernet:call(ByteArray.new(header):tvb("Addresses"), pinfo, sub)
    pinfo.src, pinfo.dst = src, dst -- Ethernet would replace both columns
end

-- --- segments --------------------------------------------------------------------------

-- Adds the payload of a segment of @kind. Returns the name of the adapters' message in it, or nil.
local function payload(tree, tvb, at, kind)
    if at >= tvb:len() then
        return nil
    end
    if kind == 0 then
        local name = adapter_message(tree, tvb, at)
        if name then
            return name
        end
    elseif kind == 5 or kind == 6 then
        add_all(tree, tvb, at, {{"word.value", 0, 8}, {"word", 8, 4}, {"word.test", 12, 1},
                                {"word.until", 13, 1}})
        return nil
    end
    tree:add(f["payload"], tvb(at))
    return nil
end

-- Returns "contribution" or "result" for a segment of a reduction, all-reduce or barrier; nil: it
-- is another segment, or unknown. If switches combine, contributions to an all-reduce move up, away
-- from the nodes, and results move down; contributions to a reduction move to its root. If adapters
-- combine, contributions are addressed to a node, and results to the group. @packet: offset of the
-- header on the wire; nil: none.
local function stage(tvb, at, packet)
    local kind = bit32.band(tvb(at + 12, 1):uint(), 7)
    local name, about = interface_name(), interface_about()
    if kind < 2 or kind > 4 then
        return nil
    elseif packet then
        return tvb(packet + 12, 1):uint() == 16 and
            (bit32.extract(tvb(packet, 4):le_uint(), 7, 1) == 1 and "result" or "contribution")
            or nil
    elseif string.match(name and name.value or "", ">n") then
        return "result"
    end
    local way = string.match(about and about.value or "", "(%a+)$")
    if way == "up" or way and kind == 2 then
        return "contribution"
    end
    return way == "down" and "result" or nil
end

-- Adds the segment whose header of 16 bytes is at @at. @packet: as for stage(). Returns a line for
-- the column Info.
local function segment(tree, tvb, at, packet)
    if at + 16 > tvb:len() then
        tree:add_proto_expert_info(short)
        return "truncated"
    end
    local kinds, len = tvb(at + 12, 1):uint(), tvb(at + 13, 1):uint()
    local kind, dst = bit32.band(kinds, 7), tvb(at, 4):le_uint()
    local src, seq = tvb(at + 4, 4):le_uint(), tvb(at + 8, 4):le_uint()
    local stop = math.min(at + 16 + len, tvb:len())
    local sub = tree:add(fabemu, tvb(at, stop - at),
                         "Segment: " .. (KIND[kind] or "kind " .. kind))
    local of = parties(tvb, at)
    if kind == 0 then
        add(sub, "dst", tvb, at, 4)
    else
        add(sub, "address", tvb, at, 4)
        add_bits(sub, "group", tvb, at, 4, of.dst)
        add_bits(sub, "wide", tvb, at, 4, dst >= GROUP_WIDE and 1 or 0)
    end
    add(sub, "src", tvb, at + 4, 4)
    add(sub, "seq", tvb, at + 8, 4)
    for _, name in ipairs({"kind", "notify", "failed", "stored"}) do
        add(sub, name, tvb, at + 12, 1)
    end
    add(sub, "len", tvb, at + 13, 1)
    local combines = kind == 2 or kind == 3
    add(sub, combines and "op" or "op.raw", tvb, at + 14, 1)
    add(sub, combines and "type" or "type.raw", tvb, at + 15, 1)
    local message = payload(sub, tvb(0, stop):tvb(), at + 16, kind)
    if stop - at - 16 < len then
        sub:append_text(" (of " .. len .. " bytes " .. (stop - at - 16) .. " captured)")
    end
    local role = stage(tvb, at, packet)
    return string.format("%s%s %s > %s, number %u, %u bytes%s%s", KIND[kind] or kind,
                         role and " " .. role or "", node_text(src), of.to, seq, len,
                         combines and ", " .. (OP[tvb(at + 14, 1):uint()] or "?") or "",
                         message and ", " .. message or "")
end

-- --- packets ---------------------------------------------------------------------------

local function packet_head(tree, tvb, at)
    local low, high = tvb(at, 4):le_uint(), tvb(at + 4, 4):le_uint()
    local sub = tree:add(fabemu, tvb(at, 8), "Header on the wire")
    add_bits(sub, "head.channel", tvb, at, 8, bit32.band(low, 31))
    add_bits(sub, "head.priority", tvb, at, 8, bit32.extract(low, 5, 2))
    add_bits(sub, "head.group", tvb, at, 8, bit32.extract(low, 7, 1))
    add_bits(sub, "head.dst", tvb, at, 8, bit32.extract(low, 8, 16))
    add_bits(sub, "head.bytes", tvb, at, 8,
             bit32.extract(low, 24, 8) + 256 * bit32.extract(high, 0, 5))
    add_bits(sub, "head.stamp", tvb, at, 8, bit32.extract(high, 5, 10))
    add_bits(sub, "head.more", tvb, at, 8, bit32.extract(high, 15, 1))
    add_bits(sub, "head.crc16", tvb, at, 8, bit32.extract(high, 16, 16))
    add_status(sub, "head.crc16.status", tvb(at + 6, 2),
               crc16(tvb:raw(at, 6)) == bit32.extract(high, 16, 16) and GOOD or BAD, damaged)
    return (bit32.extract(low, 7, 1) == 1 and " > group " or " > n") .. bit32.extract(low, 8, 16)
end

local function packet_cont(tree, tvb, at)
    local word = tvb(at, 4):le_uint()
    local sub = tree:add(fabemu, tvb(at, 4), "Continuation on the wire")
    add_bits(sub, "cont.channel", tvb, at, 4, bit32.band(word, 31))
    add_bits(sub, "cont.priority", tvb, at, 4, bit32.extract(word, 5, 2))
    add_bits(sub, "cont.index", tvb, at, 4, bit32.extract(word, 7, 5))
    add_bits(sub, "cont.last", tvb, at, 4, bit32.extract(word, 12, 1))
    add_bits(sub, "cont.crc16", tvb, at, 4, bit32.extract(word, 16, 16))
    add_status(sub, "cont.crc16.status", tvb(at + 2, 2),
               crc16(tvb:raw(at, 2)) == bit32.extract(word, 16, 16) and GOOD or BAD, damaged)
    return ", " .. bit32.extract(word, 7, 5)
end

-- Adds the descriptor of a part of a packet or of a reply. Returns a line for the column Info.
local function packet(tree, tvb, at)
    if at + 16 > tvb:len() then
        tree:add_proto_expert_info(short)
        return "truncated"
    end
    local kind = tvb(at + 12, 1):uint()
    local sub = tree:add(fabemu, tvb(at, 16), "Packet: " .. (PACKET[kind] or "kind " .. kind))
    local more = ""
    if kind == 16 then
        more = packet_head(sub, tvb, at)
    elseif kind == 17 then
        more = packet_cont(sub, tvb, at)
    end
    add(sub, "packet.tag", tvb, at + 8, 4)
    add(sub, "packet.kind", tvb, at + 12, 1)
    add_bits(sub, "packet.wire", tvb, at + 13, 1, tvb(at + 13, 1):uint() + 1)
    add(sub, "packet.channel", tvb, at + 14, 1)
    add(sub, "packet.last", tvb, at + 15, 1)
    return string.format("%s%s, tag %x, channel %u", PACKET[kind] or kind, more,
                         tvb(at + 8, 4):le_uint(), tvb(at + 14, 1):uint())
end

-- --- captures --------------------------------------------------------------------------

local function capture_head(tree, tvb, what)
    add(tree, "version", tvb, 0, 1)
    add(tree, "what", tvb, 1, 1)
    add(tree, "flags", tvb, 2, 1)
    if what == 1 then
        add(tree, "numbered", tvb, 2, 1)
        add(tree, "again", tvb, 2, 1)
        if bit32.band(tvb(2, 1):uint(), 1) == 1 then
            add(tree, "number", tvb, 4, 4)
        end
        add(tree, "note", tvb, 12, 4)
    elseif what == 2 then
        add(tree, "carries", tvb, 2, 1)
        add(tree, "crc32", tvb, 12, 4)
    elseif what == 4 then
        add(tree, "credits", tvb, 4, 4)
        add(tree, "credits.channel", tvb, 8, 4)
    elseif what == 5 then
        add(tree, "answer.number", tvb, 4, 4)
        add(tree, "answer", tvb, 8, 4)
    end
end

local function record_of_segment(tree, tvb, flags)
    local info = segment(tree, tvb, 16)
    if bit32.band(flags, 1) == 1 then
        info = info .. ", no. " .. tvb(4, 4):le_uint() .. " on the cable"
    end
    return bit32.band(flags, 2) == 2 and info .. ", again" or info
end

local function record_of_packet(tree, tvb, pinfo, what, carries)
    local info = packet(tree, tvb, 16)
    if what == 2 and tvb:len() >= 32 then
        add_crc32(tree, tvb, pinfo, carries)
    end
    return carries and info .. ": " .. segment(tree, tvb, 32, 16) or info
end

-- Adds the data after the header of a captured record. Returns a line for the column Info.
local function record_body(tree, tvb, pinfo, what, flags)
    if what == 1 then
        return record_of_segment(tree, tvb, flags)
    elseif what == 2 or what == 3 then
        return record_of_packet(tree, tvb, pinfo, what, bit32.band(flags, 4) == 4)
    elseif what == 4 then
        local count = tvb(4, 4):le_uint()
        return count .. (count == 1 and " credit" or " credits") .. ", channel "
            .. tvb(8, 4):le_uint()
    elseif what == 5 then
        return "answer: " .. (ANSWER[tvb(8, 4):le_uint()] or "?") .. ", all before "
            .. tvb(4, 4):le_uint()
    end
    return WHAT[what] or "?"
end

-- Sets the columns Source and Destination. For a segment they are its nodes or group. For credits,
-- answers and replies, which do not leave the link, they are the ends of the link.
local function add_columns(tree, tvb, pinfo, what, flags, from, to)
    local of = nil
    if what == 1 then
        of = parties(tvb, 16)
    elseif what == 2 and bit32.band(flags, 4) == 4 then
        of = parties(tvb, 32)
    end
    if of then
        add_addresses(tree, tvb, pinfo, of)
        from, to = node_text(of.src), of.to
    end
    if from then
        pinfo.cols.src, pinfo.cols.dst = from, to
    end
end

function fabemu.dissector(tvb, pinfo, root)
    local tree = root:add(fabemu, tvb())
    if tvb:len() < 16 then
        pinfo.cols.protocol = "fabemu"
        tree:add_proto_expert_info(short)
        pinfo.cols.info = "truncated"
        return tvb:len()
    end
    local what, flags = tvb(1, 1):uint(), tvb(2, 1):uint()
    local from, to = add_link(tree, tvb)
    capture_head(tree, tvb, what)
    local info = record_body(tree, tvb, pinfo, what, flags)
    add_columns(tree, tvb, pinfo, what, flags, from, to)
    pinfo.cols.protocol = "fabemu"
    pinfo.cols.info = from and from .. ">" .. to .. ": " .. info or info
    return tvb:len()
end

-- --- frames between hosts --------------------------------------------------------------

local FRAME_HEAD = {
    {"frame.magic", 0, 1}, {"frame.version", 1, 1}, {"frame.fabric", 2, 8}, {"frame.from", 10, 2},
    {"frame.to", 12, 2}, {"frame.kind", 14, 1}, {"frame.check", 15, 1}, {"frame.length", 16, 2},
    {"frame.packet", 18, 8}, {"frame.yours", 26, 8}, {"frame.mine", 34, 8}, {"frame.seq", 42, 4},
    {"frame.ack", 46, 4}, {"frame.sent", 50, 4}, {"frame.echo", 54, 4},
    {"frame.needless", 58, 4}, {"frame.newest", 62, 4}}
local FRAME_HEAD_BYTES = 66 -- header after the EtherType
local OFFER = {
    {"frame.digest", 0, 32}, {"frame.frame_bytes", 32, 4}, {"frame.window", 36, 4},
    {"frame.first", 40, 4}, {"frame.checks", 44, 4}}

local function add_strange(tree, tvb)
    tree:add_proto_expert_info(strange)
    return tvb:len()
end

-- Adds an entry: a descriptor and the contents of its buffer. Returns the offset of its end.
local function record_entry(tree, tvb, at)
    local flags, bytes = tvb(at + 1, 1):uint(), tvb(at + 2, 2):le_uint()
    local own = bit32.band(flags, 2) == 2 and 16 or 0
    local stop = at + 40 + own + bytes
    if at + 40 > tvb:len() or stop > tvb:len() then
        return add_strange(tree, tvb)
    end
    add(tree, "frame.record.buffer", tvb, at + 1, 1)
    add(tree, "frame.record.own", tvb, at + 1, 1)
    add(tree, "frame.record.length", tvb, at + 2, 2)
    add(tree, "frame.entry.at", tvb, at + 8, 8)
    add(tree, "frame.entry.crc", tvb, at + 32, 4)
    add(tree, "frame.entry.note", tvb, at + 36, 4)
    local kind = tvb(at + 28, 1):uint()
    if PACKET[kind] then
        tree:append_text(": " .. packet(tree, tvb, at + 16))
        if own > 0 then
            tree:append_text(": " .. segment(tree, tvb(0, stop):tvb(), at + 40, at + 16))
        end
    elseif own == 0 then -- join the header at 16 and the payload at 40
        local together = tvb:bytes(at + 16, 16)
        if bytes > 0 then
            together:append(tvb:bytes(at + 40, bytes))
        end
        tree:append_text(": " .. segment(tree, together:tvb("Segment"), 0))
    end
    return stop
end

local function record(tree, tvb, at)
    local kind, bytes = tvb(at, 1):uint(), tvb(at + 2, 2):le_uint()
    local sub = tree:add(frames, tvb(at), "Record: " .. (RECORD[kind] or "kind " .. kind))
    local stop = at + 16
    add(sub, "frame.record", tvb, at, 1)
    add(sub, "frame.record.cable", tvb, at + 4, 4)
    if kind == 1 then
        stop = record_entry(sub, tvb, at)
    elseif kind == 5 then
        stop = at + 8
    elseif kind == 6 or kind == 10 then
        stop = at + 8 + bytes
        if kind == 10 then
            add(sub, "frame.step", tvb, at + 1, 1)
        end
        add(sub, "frame.record.length", tvb, at + 2, 2)
        if bytes > 0 and not add(sub, kind == 6 and "frame.control" or "frame.step.bytes", tvb,
                                 at + 8, bytes) then
            stop = add_strange(sub, tvb)
        end
    elseif kind == 8 then
        stop = at + 32
        if not (add(sub, "frame.clock.sent", tvb, at + 8, 8)
                and add(sub, "frame.clock.echo", tvb, at + 16, 8)
                and add(sub, "frame.clock.came", tvb, at + 24, 8)) then
            stop = add_strange(sub, tvb)
        end
    elseif RECORD[kind] then
        add(sub, "frame.record.channel", tvb, at + 1, 1)
        if not add(sub, "frame.record.count", tvb, at + 8, 8) then
            stop = add_strange(sub, tvb)
        elseif kind == 9 then
            stop = at + 24
            if not add(sub, "frame.credit.at", tvb, at + 16, 8) then
                stop = add_strange(sub, tvb)
            end
        end
    else
        stop = add_strange(sub, tvb)
    end
    sub:set_len(math.min(stop, tvb:len()) - at)
    return stop
end

-- Adds the body of a frame of @kind. @tvb: the body alone. Returns text for the column Info.
local function frame_body(tree, tvb, kind)
    if kind >= 1 and kind <= 3 then
        for _, row in ipairs(OFFER) do
            if not add(tree, row[1], tvb, row[2], row[3]) then
                add_strange(tree, tvb)
                break
            end
        end
        return ""
    elseif kind == 5 then
        tree:add(f["frame.map"], tvb())
        return ""
    end
    local at, count = 0, 0
    while at + 8 <= tvb:len() do
        at = record(tree, tvb, at)
        count = count + 1
    end
    if at ~= tvb:len() then
        add_strange(tree, tvb)
    end
    return ", " .. count .. " records"
end

-- A CRC-32C tag covers all bytes before it, including the Ethernet addresses. Other tags cannot be
-- checked without the key.
local to, from = Field.new("eth.dst"), Field.new("eth.src")

local function frame_status(tvb, stop)
    local dst, src = to(), from()
    if tvb(15, 1):uint() ~= 0 or not dst or not src then
        return UNCHECKED
    end
    local crc = crc32_more(0xffffffff, dst.range:raw() .. src.range:raw() .. "\x88\xb5"
                           .. tvb:raw(0, stop))
    local good = bit32.bnot(crc) == tvb(stop, 4):le_uint()
        and tvb:raw(stop + 4, 12) == string.rep("\0", 12)
    return good and GOOD or BAD
end

function frames.dissector(tvb, pinfo, root)
    if tvb:len() < FRAME_HEAD_BYTES or tvb(0, 1):uint() ~= 0xfe then
        return 0 -- another protocol uses this experimental EtherType
    end
    pinfo.cols.protocol = "fabemu"
    local tree = root:add(frames, tvb())
    for _, row in ipairs(FRAME_HEAD) do
        add(tree, row[1], tvb, row[2], row[3])
    end
    local kind, bytes = tvb(14, 1):uint(), tvb(16, 2):le_uint()
    local there = math.min(bytes, tvb:len() - FRAME_HEAD_BYTES)
    local info = string.format("%s, host %u > %u, %s", FRAME[kind] or "kind " .. kind,
                               tvb(10, 2):le_uint(), tvb(12, 2):le_uint(),
                               "number " .. tvb(42, 4):le_uint())
    if there > 0 then
        info = info .. frame_body(tree, tvb(FRAME_HEAD_BYTES, there):tvb(), kind)
    end
    if there < bytes or not add(tree, "frame.tag", tvb, FRAME_HEAD_BYTES + bytes, 16) then
        add_strange(tree, tvb)
    else
        local stop = FRAME_HEAD_BYTES + bytes
        add_status(tree, "frame.tag.status", tvb(stop, 16), frame_status(tvb, stop), forged)
    end
    pinfo.cols.info = info
    return tvb:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, fabemu)
DissectorTable.get("ethertype"):add(0x88b5, frames)
