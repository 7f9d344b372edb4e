"""Goal: examples/kafka_flights/verify.py accepts right output and goes red on lost, doubled, wrong
and disordered rows, from each of the two consumers; fill.py makes messages of the flights.

Method: a small input, its right output made by hand, then one damage at a time.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
EXAMPLE = EXAMPLES / "kafka_flights"

INPUT = {
    "part-0.csv": "row_id,carrier,dep_delay\n0,AA,5\n2,AA,\n4,UA,7\n",
    "part-1.csv": "row_id,carrier,dep_delay\n1,AA,-3\n3,UA,\n",
}
# (partition, offset, key, value); the job may take the rows of a carrier in any order.
RIGHT = [
    (0, 0, "AA", {"row_id": 0, "carrier": "AA", "flights": 1, "delay": 5}),
    (0, 1, "AA", {"row_id": 2, "carrier": "AA", "flights": 2, "delay": 5}),
    (0, 3, "AA", {"row_id": 1, "carrier": "AA", "flights": 3, "delay": 2}),
    (1, 0, "UA", {"row_id": 3, "carrier": "UA", "flights": 1, "delay": None}),
    (1, 2, "UA", {"row_id": 4, "carrier": "UA", "flights": 2, "delay": 7}),
]


def line(message, layout="{}\t{}\t{}\t{}\n"):
    return layout.format(*message[:3], json.dumps(message[3]))


def lines(messages, **options):
    return "".join(line(message, **options) for message in messages)


def changed(index, partition=None, offset=None, key=None, **values):
    """RIGHT with one message that is another."""
    old = RIGHT[index]
    new = (old[0] if partition is None else partition, old[1] if offset is None else offset,
           key or old[2], {**old[3], **values})
    return RIGHT[:index] + [new] + RIGHT[index + 1:]


def verify(*texts, rows=None):
    """(exit code, output) of verify.py on one file of messages per text."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in INPUT.items():
            pathlib.Path(folder, name).write_text(text)
        files = [pathlib.Path(folder, f"consumer-{i}") for i in range(len(texts))]
        for file, text in zip(files, texts):
            file.write_text(text)
        done = subprocess.run(
            [sys.executable, "-B", str(EXAMPLE / "verify.py"), "--input", folder,
             *(["--rows", str(rows)] if rows else []), *map(str, files)],
            capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class Verify(unittest.TestCase):
    def assert_red(self, text, *messages):
        for found in messages:
            code, output = verify(found if isinstance(found, str) else lines(found))
            self.assertEqual(code, 1, output)
            self.assertIn(text, output)

    def test_right_output_of_both_consumers_is_accepted(self):
        code, output = verify(lines(RIGHT), lines(
            RIGHT[3:] + RIGHT[:3], layout="Partition:{}\tOffset:{}\t{}\t{}\n"))
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("RIGHT: 5 flights"), 2)
        self.assertIn("9 minutes", output)

    def test_one_wrong_consumer_is_enough(self):
        for texts in ((RIGHT, RIGHT[1:]), (RIGHT[1:], RIGHT)):
            code, output = verify(*map(lines, texts))
            self.assertEqual(code, 1)
            self.assertIn("WRONG", output)
            self.assertIn("RIGHT", output)

    def test_of_a_part_of_the_flights_only_those_count(self):
        first = [RIGHT[0], (0, 1, "AA", {"row_id": 1, "carrier": "AA", "flights": 2, "delay": 2})]
        self.assertEqual(verify(lines(first), rows=2)[0], 0)
        self.assertEqual(verify(lines(first), rows=3)[0], 1)

    def test_a_lost_row(self):
        for index in range(len(RIGHT)):
            self.assert_red(f"row_id {RIGHT[index][3]['row_id']} lost",
                            RIGHT[:index] + RIGHT[index + 1:])
        self.assert_red("row_id 0 lost", "")

    def test_a_doubled_row(self):
        for message in RIGHT:
            self.assert_red("doubled", RIGHT + [(message[0], 9, *message[2:])])

    def test_a_count_or_sum_that_is_not_the_next_one(self):
        self.assert_red("flights, delay = 3, 5 where 2, 5 is due", changed(1, flights=3))
        self.assert_red("flights, delay = 2, 6 where 2, 5 is due", changed(1, delay=6))
        self.assert_red("AA: ends with flights, delay = (3, 3)", changed(2, delay=3))

    def test_rows_of_a_carrier_out_of_order_or_apart(self):
        self.assert_red("flights, delay = 3, 2 where 1, -3 is due",
                        [(0, 0, *RIGHT[2][2:]), RIGHT[1], (0, 3, *RIGHT[0][2:]), *RIGHT[3:]])
        self.assert_red("AA is also in partition 0", changed(2, partition=3))

    def test_another_carrier_or_key(self):
        self.assert_red("row_id 4 has carrier AA", changed(4, carrier="AA"))
        self.assert_red("row_id 4 has carrier UA and key AA", changed(4, key="AA"))

    def test_an_invented_row(self):
        self.assert_red("row_id 9 is not in the input",
                        RIGHT + [(0, 9, "AA", {"row_id": 9, "carrier": "AA", "flights": 4,
                                               "delay": 2})])

    def test_what_is_no_message(self):
        self.assert_red("not a message", lines(RIGHT) + "Processed a total of 5 messages\n")
        self.assert_red("not JSON", lines(RIGHT) + "0\t9\tAA\t{\n")
        self.assert_red("not an object", lines(RIGHT) + "0\t9\tAA\t[]\n")
        self.assert_red("must be integers", changed(1, flights="2"), changed(1, flights=True))


class Fill(unittest.TestCase):
    def test_messages_are_the_flights(self):
        printed = subprocess.run([sys.executable, "-B", str(EXAMPLE / "fill.py")], check=True,
                                 capture_output=True, text=True).stdout.splitlines()
        flights = {}
        for part in (EXAMPLES / "flights/data").glob("part-*.csv"):
            with open(part, newline="") as file:
                flights.update({row["row_id"]: row for row in csv.DictReader(file)})
        self.assertEqual(len(printed), len(flights))
        for number, text in enumerate(printed):
            key, _, value = text.partition("\t")
            row = json.loads(value)
            self.assertEqual(row["row_id"], number)
            self.assertEqual(key, row["carrier"])
            self.assertEqual({name: "" if field is None else str(field)
                              for name, field in row.items()}, flights[str(number)])


if __name__ == "__main__":
    unittest.main()
