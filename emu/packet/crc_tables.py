# SPDX-License-Identifier: BSD-3-Clause
"""Print the tables of crc.c.

table[k][b] is the effect of byte b on the checksum if k bytes follow it. The other constants are
factors of carry-less multiplications. CRC32_BY1 and CRC32_BY2 advance a checksum by one or two
lanes; CRC32_BY256, _BY512 and _BY768 advance it by that many bytes. CRC32_FOLD_n_LOW and _HIGH
advance the first and the last 8 of 16 bytes by n bytes.
"""

SLICES = 8
LANE = 80  # bytes: three lanes are 240 of a segment's 256
FOLDS = (256, 192, 128, 64, 48, 32, 16)  # bytes: 64 per register, 16 per lane of a register
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
# 33, because the CRC-32 instruction multiplies by x^32, and the product of two reflected factors
# is too large by the factor x.
print(f"#define CRC32_BY1 {hex(power(8 * LANE - 33))}")
print(f"#define CRC32_BY2 {hex(power(16 * LANE - 33))}")
for piece in (256, 512, 768):
    print(f"#define CRC32_BY{piece} {hex(power(8 * piece - 33))}")
# The first 8 of 16 bytes count x^64 times as much as the last 8. A constant of 32 bits in a word of
# 64 is too large by x^32, and the product by x.
for fold in FOLDS:
    print(f"#define CRC32_FOLD_{fold}_LOW {hex(power(8 * fold + 31))}")
    print(f"#define CRC32_FOLD_{fold}_HIGH {hex(power(8 * fold - 33))}")
