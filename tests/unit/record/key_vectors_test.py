#!/usr/bin/env python3
"""Goal: key_vectors.txt, which the C++ test reads, is what its script computes from the contract.
Method: runs the script again; its hash against published values of XXH3."""

import contextlib
import io
import pathlib
import unittest

import make_key_vectors


class KeyVectorsTest(unittest.TestCase):
    def test_the_file_is_what_the_script_writes(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            make_key_vectors.main()
        path = pathlib.Path(__file__).with_name("key_vectors.txt")
        self.assertEqual(out.getvalue(), path.read_text(encoding="utf-8"))

    def test_the_hash_is_xxh3(self):
        # From the sanity checks of the reference implementation, seed 0: its test buffer is filled
        # by the generator below.
        buffer = bytearray()
        state = 2654435761
        for _ in range(2367):
            buffer.append(state >> 56)
            state = state * 11400714785074694797 & make_key_vectors.MASK64
        for length, expected in SANITY.items():
            self.assertEqual(make_key_vectors.xxh3_64(bytes(buffer[:length])), expected, length)


SANITY = {
    0: 0x2D06800538D394C2,
    1: 0xC44BDFF4074EECDB,
    6: 0x27B56A84CD2D7325,
    12: 0xA713DAF0DFBB77E7,
    24: 0xA3FE70BF9D3510EB,
    48: 0x397DA259ECBA1F11,
    80: 0xBCDEFBBB2C47C90A,
    195: 0xCD94217EE362EC3A,
    403: 0xCDEB804D65C6DEA4,
    512: 0x617E49599013CB6B,
    2048: 0xDD59E2C3A5F038E0,
    2240: 0x6E73A90539CF2948,
    2367: 0xCB37AEB9E5D361ED,
}

if __name__ == "__main__":
    unittest.main()
