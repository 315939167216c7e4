# SPDX-License-Identifier: BSD-3-Clause
"""Print the tables of crc.c.

table[k][b] is the effect of byte b on the checksum if k bytes follow it. CRC32_BY256, _BY512 and
_BY768 are factors of carry-less multiplications that advance a checksum by that many bytes.
"""

SLICES = 8
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
# 33, because the CRC-32 instruction multiplies by x^32, and the product of two reflected factors
# is too large by the factor x.
for piece in (256, 512, 768):
    print(f"#define CRC32_BY{piece} {hex(power(8 * piece - 33))}")
