"""Goal: examples/flights/verify.py accepts right output and goes red on lost, doubled and wrong rows.

Method: a small input, its right output made by hand, then one damage at a time; and the real flights
with an output computed here.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples/flights"

INPUT = {
    "part-0.csv": "row_id,carrier,dep_delay\n0,AA,5\n2,AA,\n4,UA,7\n",
    "part-1.csv": "row_id,carrier,dep_delay\n1,AA,-3\n3,UA,\n",
}
# Per carrier in an order that a run may well have taken; UA begins with a null.
RIGHT = [
    {"row_id": 0, "carrier": "AA", "flights": 1, "delay": 5},
    {"row_id": 2, "carrier": "AA", "flights": 2, "delay": 5},
    {"row_id": 1, "carrier": "AA", "flights": 3, "delay": 2},
    {"row_id": 3, "carrier": "UA", "flights": 1, "delay": None},
    {"row_id": 4, "carrier": "UA", "flights": 2, "delay": 7},
]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def changed(index, **values):
    rows = [dict(row) for row in RIGHT]
    rows[index].update(values)
    return rows


def verify(output_files, input_files=INPUT, arguments=()):
    """(exit code, output) of verify.py."""
    with tempfile.TemporaryDirectory() as folder:
        for name, files in (("in", input_files), ("out", output_files)):
            pathlib.Path(folder, name).mkdir()
            for file, text in files.items():
                pathlib.Path(folder, name, file).write_text(text)
        done = subprocess.run(
            [sys.executable, "-B", str(EXAMPLE / "verify.py"), "--input", f"{folder}/in",
             "--output", f"{folder}/out", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class FlightsVerifyTest(unittest.TestCase):
    def assert_red(self, files, text, **options):
        code, output = verify(files, **options)
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)

    def test_right_output_is_accepted(self):
        code, output = verify({"a.jsonl": lines(RIGHT)})
        self.assertEqual(code, 0, output)
        self.assertIn("RIGHT: 5 rows", output)

    def test_order_and_files_do_not_matter(self):
        code, output = verify({"b.jsonl": lines(RIGHT[:2]), "a.jsonl": lines(RIGHT[:1:-1])})
        self.assertEqual(code, 0, output)

    def test_a_sum_of_nothing_may_be_null_zero_or_missing(self):
        missing = [dict(row) for row in RIGHT]
        del missing[3]["delay"]
        for rows in (RIGHT, changed(3, delay=0), missing):
            code, output = verify({"a.jsonl": lines(rows)})
            self.assertEqual(code, 0, output)

    def test_a_lost_row(self):
        for index in range(len(RIGHT)):
            with self.subTest(index=index):
                self.assert_red({"a.jsonl": lines(RIGHT[:index] + RIGHT[index + 1:])},
                                f"row_id {RIGHT[index]['row_id']} lost")

    def test_a_row_that_is_only_in_a_hidden_file_is_lost(self):
        self.assert_red({"a.jsonl": lines(RIGHT[:4]), ".b.jsonl": lines(RIGHT[4:])}, "row_id 4 lost")

    def test_a_doubled_row(self):
        for row in RIGHT:
            self.assert_red({"a.jsonl": lines(RIGHT), "b.jsonl": lines([row])}, "doubled")

    def test_a_row_counted_twice_and_written_once(self):
        # State ahead of the output: the count jumps from 1 to 3.
        rows = [dict(row) for row in RIGHT]
        rows[1]["flights"], rows[2]["flights"] = 3, 4
        self.assert_red({"a.jsonl": lines(rows)}, "flights is 3 where 2 is due")

    def test_a_row_that_was_not_counted(self):
        self.assert_red({"a.jsonl": lines(changed(1, flights=1))}, "flights is 1 where 2 is due")

    def test_a_wrong_sum_in_the_middle(self):
        self.assert_red({"a.jsonl": lines(changed(1, delay=6))}, "whose dep_delay is None")

    def test_a_wrong_total(self):
        self.assert_red({"a.jsonl": lines(changed(2, delay=3))}, "AA: ends with flights, delay = 3, 3")

    def test_a_wrong_carrier(self):
        self.assert_red({"a.jsonl": lines(changed(4, carrier="AA"))}, "row_id 4 has carrier AA")

    def test_an_invented_row(self):
        extra = {"row_id": 9, "carrier": "AA", "flights": 4, "delay": 2}
        self.assert_red({"a.jsonl": lines(RIGHT + [extra])}, "row_id 9 is not in the input")

    def test_damaged_files(self):
        self.assert_red({"a.jsonl": lines(RIGHT)[:-1]}, "cut off")
        self.assert_red({"a.jsonl": lines(RIGHT) + "{\n"}, "not JSON")
        self.assert_red({"a.jsonl": lines(RIGHT) + "[]\n"}, "not an object")
        self.assert_red({"a.jsonl": lines(changed(4, flights="2"))}, "must be integers")
        self.assert_red({"a.jsonl": lines(RIGHT), "b.tmp": ""}, "not a .jsonl file")

    def test_no_output_at_all(self):
        self.assert_red({}, "row_id 0 lost")

    def test_leftovers_count_only_when_asked_for(self):
        files = {"a.jsonl": lines(RIGHT), ".b.jsonl": lines(RIGHT)}
        self.assertEqual(verify(files)[0], 0)
        self.assert_red(files, "a hidden file is left", arguments=["--no-leftovers"])

    def test_the_real_flights(self):
        running, rows = {}, []
        for part in sorted((EXAMPLE / "data").glob("part-*.csv")):
            for row in csv.DictReader(part.read_text().splitlines()):
                count, total = running.get(row["carrier"], (0, 0))
                running[row["carrier"]] = (count + 1, total + int(row["dep_delay"] or 0))
                rows.append({"row_id": int(row["row_id"]), "carrier": row["carrier"],
                             "flights": count + 1, "delay": total + int(row["dep_delay"] or 0)})
        inputs = {part.name: part.read_text() for part in (EXAMPLE / "data").glob("part-*.csv")}
        code, output = verify({"a.jsonl": lines(rows)}, inputs)
        self.assertEqual(code, 0, output)
        self.assertIn("27,004 rows", output)
        self.assertIn("265,801 minutes", output)  # data/expected/totals.csv


if __name__ == "__main__":
    unittest.main()
