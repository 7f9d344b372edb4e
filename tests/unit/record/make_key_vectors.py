#!/usr/bin/env python3
"""Writes key_vectors.txt: keys, their canonical encoding, their hash and where they go.

Knows nothing of Weir's code: the encoding is written from "The hash of a key" in the reference of
the surface, the hash (XXH3, 64 bits, seed 0) from its published specification.

A line: columns, '->', encoding, hash, key group of 128, subtask of 3 at 128 key groups, key group
of 32768, subtask of 7 at 32768. A column: TYPE=null, BOOL=true, INT32=-1, FLOAT64=<bits, hex>,
STRING=<bytes, hex>.

Usage: make_key_vectors.py > key_vectors.txt
"""

import random
import struct

MASK64 = (1 << 64) - 1
MASK32 = (1 << 32) - 1

# The default secret of XXH3, 192 bytes.
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
assert len(SECRET) == 192

PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
PRIME64_4, PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRIME_MX1, PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def swap64(x):
    return int.from_bytes(x.to_bytes(8, "little"), "big")


def rotate_left(x, bits):
    return ((x << bits) | (x >> (64 - bits))) & MASK64


def fold128(a, b):
    product = a * b
    return (product & MASK64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * PRIME_MX1 & MASK64
    return h ^ (h >> 32)


def avalanche_xxh64(h):
    h ^= h >> 33
    h = h * PRIME64_2 & MASK64
    h ^= h >> 29
    h = h * PRIME64_3 & MASK64
    return h ^ (h >> 32)


def mix16(data, at, secret_at):
    return fold128(u64(data, at) ^ u64(SECRET, secret_at),
                   u64(data, at + 8) ^ u64(SECRET, secret_at + 8))


def accumulate(acc, data, at, secret_at):
    for i in range(8):
        value = u64(data, at + 8 * i)
        key = value ^ u64(SECRET, secret_at + 8 * i)
        acc[i ^ 1] = (acc[i ^ 1] + value) & MASK64
        acc[i] = (acc[i] + (key & MASK32) * (key >> 32)) & MASK64


def scramble(acc, secret_at):
    for i in range(8):
        acc[i] ^= acc[i] >> 47
        acc[i] ^= u64(SECRET, secret_at + 8 * i)
        acc[i] = acc[i] * PRIME32_1 & MASK64


def hash_long(data):
    n = len(data)
    acc = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    stripes_per_block = (len(SECRET) - 64) // 8
    block = 64 * stripes_per_block
    blocks = (n - 1) // block
    for b in range(blocks):
        for s in range(stripes_per_block):
            accumulate(acc, data, b * block + 64 * s, 8 * s)
        scramble(acc, len(SECRET) - 64)
    for s in range((n - 1 - block * blocks) // 64):
        accumulate(acc, data, blocks * block + 64 * s, 8 * s)
    accumulate(acc, data, n - 64, len(SECRET) - 64 - 7)
    h = n * PRIME64_1 & MASK64
    for i in range(4):
        h += fold128(acc[2 * i] ^ u64(SECRET, 11 + 16 * i),
                     acc[2 * i + 1] ^ u64(SECRET, 11 + 16 * i + 8))
    return avalanche(h & MASK64)


def xxh3_64(data):
    n = len(data)
    if n == 0:
        return avalanche_xxh64(u64(SECRET, 56) ^ u64(SECRET, 64))
    if n <= 3:
        combined = (data[0] << 16) | (data[n >> 1] << 24) | data[n - 1] | (n << 8)
        return avalanche_xxh64(combined ^ (u32(SECRET, 0) ^ u32(SECRET, 4)))
    if n <= 8:
        h = (u32(data, n - 4) + (u32(data, 0) << 32)) ^ (u64(SECRET, 8) ^ u64(SECRET, 16))
        h ^= rotate_left(h, 49) ^ rotate_left(h, 24)
        h = h * PRIME_MX2 & MASK64
        h ^= (h >> 35) + n
        h = h * PRIME_MX2 & MASK64
        return h ^ (h >> 28)
    if n <= 16:
        low = u64(data, 0) ^ (u64(SECRET, 24) ^ u64(SECRET, 32))
        high = u64(data, n - 8) ^ (u64(SECRET, 40) ^ u64(SECRET, 48))
        return avalanche((n + swap64(low) + high + fold128(low, high)) & MASK64)
    if n <= 128:
        h = n * PRIME64_1
        for i in range((n - 1) // 32, -1, -1):
            h += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & MASK64)
    if n <= 240:
        h = n * PRIME64_1
        for i in range(8):
            h += mix16(data, 16 * i, 16 * i)
        h = avalanche(h & MASK64)
        for i in range(8, n // 16):
            h += mix16(data, 16 * i, 16 * (i - 8) + 3)
        h += mix16(data, n - 16, 136 - 17)
        return avalanche(h & MASK64)
    return hash_long(data)


def encode(kind, value):
    if value is None:
        return b"\x00"
    if kind == "BOOL":
        return b"\x01" + (b"\x01" if value else b"\x00")
    if kind in ("INT32", "INT64", "TIMESTAMP"):
        return b"\x01" + struct.pack("<q", value)
    if kind == "FLOAT64":  # value: the bits
        number = struct.unpack("<d", struct.pack("<Q", value))[0]
        if number != number:
            value = 0x7FF8000000000000
        elif number == 0:
            value = 0
        return b"\x01" + struct.pack("<Q", value)
    assert kind in ("STRING", "BYTES")
    return b"\x01" + struct.pack("<I", len(value)) + value


def show(kind, value):
    if value is None:
        return kind + "=null"
    if kind == "BOOL":
        return kind + ("=true" if value else "=false")
    if kind == "FLOAT64":
        return "%s=%016x" % (kind, value)
    if kind in ("STRING", "BYTES"):
        return kind + "=" + value.hex()
    return "%s=%d" % (kind, value)


def line(columns):
    encoding = b"".join(encode(kind, value) for kind, value in columns)
    h = xxh3_64(encoding)
    a, b = h % 128, h % 32768
    return "%s -> %s %016x %d %d %d %d" % (
        " ".join(show(kind, value) for kind, value in columns), encoding.hex(), h,
        a, a * 3 // 128, b, b * 7 // 32768)


def bits(number):
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def main():
    source = random.Random(20130101)
    keys = [[(kind, None)] for kind in
            ("BOOL", "INT32", "INT64", "FLOAT64", "STRING", "BYTES", "TIMESTAMP")]
    keys += [[("BOOL", False)], [("BOOL", True)]]
    for value in (0, 1, -1, 42, 2**31 - 1, -2**31):
        keys += [[("INT32", value)], [("INT64", value)], [("TIMESTAMP", value)]]
    for value in (2**63 - 1, -2**63, 1356998400000000, source.getrandbits(62)):
        keys += [[("INT64", value)], [("TIMESTAMP", value)]]
    for value in (0.0, -0.0, 1.0, -1.5, 1e300, 5e-324, float("inf"), float("-inf")):
        keys.append([("FLOAT64", bits(value))])
    for value in (0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF,
                  0xFFF0000000000123):
        keys.append([("FLOAT64", value)])
    for text in ("", "A", "AA", "UA", "EWR", "JFK-LAX", "München", "ein längerer Schlüssel"):
        keys.append([("STRING", text.encode())])
        keys.append([("BYTES", text.encode())])
    # Every branch of the hash by length of the encoding, and both sides of each border.
    for size in list(range(0, 40)) + [58, 59, 60, 91, 92, 122, 123, 124, 125, 150, 234, 235, 236,
                                      237, 300, 500, 1018, 1019, 1020, 1021, 1083, 1084, 2043,
                                      2044, 3000]:
        keys.append([("STRING", bytes(source.choices(range(0x20, 0x7F), k=size)))])
    keys.append([("BYTES", bytes(range(256)))])
    keys += [
        [("STRING", b"UA"), ("INT32", 7)],
        [("INT32", 7), ("STRING", b"UA")],
        [("STRING", b"a"), ("STRING", b"bc")],
        [("STRING", b"ab"), ("STRING", b"c")],
        [("STRING", b""), ("STRING", None)],
        [("STRING", None), ("STRING", b"")],
        [("STRING", None), ("STRING", None)],
        [("BOOL", True), ("BOOL", None), ("BOOL", False)],
        [("INT64", 1), ("INT64", 2)],
        [("FLOAT64", bits(-0.0)), ("FLOAT64", 0x7FF0000000000001)],
        [("BOOL", True), ("INT32", -5), ("INT64", 2**40), ("FLOAT64", bits(2.5)),
         ("STRING", b"weir"), ("BYTES", b"\x00\xff"), ("TIMESTAMP", -1)],
        [("STRING", b"x" * 400), ("STRING", b"y" * 400), ("INT64", 9)],
        [("INT32", None)] * 20,
    ]
    for key in keys:
        print(line(key))


if __name__ == "__main__":
    main()
