"""Goal: a minute of torture from fixed seeds, every kind of fault among it; hours of it in Long*.

Method: runs scripts/torture, which checks every result, and looks at what it says at the end.
"""

import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import private  # noqa: E402
from cluster import SOURCE_DIR  # noqa: E402
from disk_faults import DiskFaults  # noqa: E402
from kill_plan import ALL_POINTS  # noqa: E402
from link_faults import ConnectionFaults, LinkFaults  # noqa: E402
from process_faults import ProcessFaults  # noqa: E402


class TortureCase(unittest.TestCase):
    def torture(self, *arguments, timeout):
        done = subprocess.run([str(SOURCE_DIR / "scripts/torture"), *map(str, arguments)],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("survived: scripts/torture", done.stdout)
        return done.stdout

    def assert_each(self, kinds, said):
        for kind in kinds:
            times = re.search(rf"^ *[0-9.]+ s +{kind} +(\d+)$", said, re.MULTILINE)
            self.assertTrue(times and int(times[1]), f"no {kind} in:\n{said}")

    def need_namespaces(self):
        if why := private.missing():
            self.skipTest(f"no namespaces: {why}")


class Quick(TortureCase):
    def test_40_seconds_on_one_machine(self):
        kinds = ProcessFaults.KINDS
        if private.missing() is None:
            kinds += DiskFaults.KINDS + ConnectionFaults.KINDS
        said = self.torture("--minutes", 40 / 60, "--each-kind", "--seed", 42, "--rest", "0.1,1.2",
                            timeout=400)
        self.assert_each(kinds, said)

    def test_20_seconds_over_links(self):
        self.need_namespaces()
        said = self.torture("--network-namespaces", "--minutes", 20 / 60, "--each-kind", "--seed", 42,
                            "--faults", ",".join((*LinkFaults.KINDS, "worker", "worker_paused")),
                            "--rest", "0.1,1.2", timeout=280)
        self.assert_each(LinkFaults.KINDS, said)


class Long(TortureCase):
    def test_ten_minutes_on_one_machine(self):
        self.torture("--minutes", 10, "--seed", 1000, timeout=1200)

    def test_ten_minutes_over_links(self):
        self.need_namespaces()
        self.torture("--network-namespaces", "--minutes", 10, "--seed", 2000, timeout=1200)

    def test_kills_at_each_named_point(self):
        said = self.torture("--minutes", 0, "--kills-per-point", 3, "--seed", 3000, timeout=1200)
        for point in ALL_POINTS:
            counted = re.search(rf"{re.escape(point)} +\d+ kills, +(\d+) of them", said)
            self.assertGreaterEqual(int(counted[1]), 3, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
