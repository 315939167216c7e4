# SPDX-License-Identifier: BSD-3-Clause
"""Print the tables of crc.c.

table[k][b] is the effect on the checksum of byte b, k bytes before its end. CRC32_BY1 and CRC32_BY2
advance a checksum by one lane and by two, CRC32_BY256, _BY512 and _BY768 by that many bytes, as a
factor of a carry-less multiplication. CRC32_FOLD_n_LOW and _HIGH advance the two halves of 16 bytes
by n bytes.
"""

SLICES = 8
LANE = 80  # bytes: three lanes are 240 of a segment's 256
FOLDS = (256, 192, 128, 64, 48, 32, 16)  # bytes: registers of 64 bytes, and lanes of one
CRC16 = 0x8408
CRC32 = 0x82F63B78


def tables(poly):
    """The slices for a reflected polynomial."""
    first = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (poly if value & 1 else 0)
        first.append(value)
    rows = [first]
    for _ in range(SLICES - 1):
        rows.append([value >> 8 ^ first[value & 255] for value in rows[-1]])
    return rows


def power(bits):
    """x to the power of @bits modulo the CRC-32's polynomial, reflected."""
    value = 0x80000000
    for _ in range(bits):
        value = value >> 1 ^ (CRC32 if value & 1 else 0)
    return value


def show(kind, name, rows):
    """One table as C."""
    print(f"{kind} {name}[{SLICES}][256] = {{")
    for row in rows:
        print("    {" + ", ".join(hex(value) for value in row) + "},")
    print("};")


show("const uint16_t", "emu_crc16_table", tables(CRC16))
show("static const uint32_t", "crc32_table", tables(CRC32))
print(f"#define CRC32_LANE   {LANE}")
# The instruction multiplies a word of 64 bits by x^32; a product of reflected factors has an x
# more.
print(f"#define CRC32_BY1 {hex(power(8 * LANE - 33))}")
print(f"#define CRC32_BY2 {hex(power(16 * LANE - 33))}")
for piece in (256, 512, 768):
    print(f"#define CRC32_BY{piece} {hex(power(8 * piece - 33))}")
# Of 16 bytes the first 8 are x^64 more, and a product of 64 bits with 32 lacks x^33 of 128.
for fold in FOLDS:
    print(f"#define CRC32_FOLD_{fold}_LOW {hex(power(8 * fold + 31))}")
    print(f"#define CRC32_FOLD_{fold}_HIGH {hex(power(8 * fold - 33))}")
