#!/usr/bin/env python3
"""Checks what a consumer read from the output topic against the flights. Knows nothing of Weir.

The job counts flights and sums up departure delays per carrier, and publishes one message for every
flight: key carrier, value {"row_id", "carrier", "flights", "delay"}. If each flight was taken exactly
once, then

  - every row_id is in the topic exactly once, with the carrier that it has in the input, as key too,
  - all messages of a carrier are in one partition, where in order of their offsets `flights` goes
    1, 2, ... n and `delay` grows by exactly the flight's own dep_delay (a null adds nothing; a sum of
    nothing is null or 0),
  - n and the last `delay` are the carrier's totals, computed from the input files alone.

Reads lines `partition <tab> offset <tab> key <tab> value` (in whatever order of partitions) from
each FILE, one a consumer; all must be right. Exit code 0 only then. Standard library only.
"""

import argparse
import collections
import csv
import json
import pathlib
import re
import sys

SHOWN_MAX = 10  # errors that are printed; all are counted
# "0\t17\tUA\t{...}" as kcat was told, "Partition:0\tOffset:17\tUA\t{...}" as Kafka's consumer prints.
LINE = re.compile(r"(?:Partition:)?(\d+)\t(?:Offset:)?(\d+)\t([^\t]*)\t(.*)")


class Errors:
    def __init__(self):
        self.count, self.shown = 0, []

    def add(self, text):
        self.count += 1
        if len(self.shown) < SHOWN_MAX:
            self.shown.append(text)


def read_input(folder, rows_max):
    """row_id -> (carrier, dep_delay or 0) of the first `rows_max` flights, all with None."""
    rows = {}
    for part in sorted(folder.glob("part-*.csv")):
        with open(part, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                rows[int(row["row_id"])] = (row["carrier"], int(row["dep_delay"] or 0))
    if not rows:
        sys.exit(f"verify: no part-*.csv in {folder}")
    return {row_id: rows[row_id] for row_id in sorted(rows)[:rows_max]}


def read_messages(lines, errors):
    """[(partition, offset, key, row_id, carrier, flights, delay)] of all well-formed lines, in order
    of partition and offset."""
    messages = []
    for number, line in enumerate(lines, 1):
        found = LINE.fullmatch(line.rstrip("\n"))
        if not found:
            errors.add(f"line {number}: not a message with partition, offset, key and value: {line!r}")
            continue
        partition, offset, key, text = int(found[1]), int(found[2]), found[3], found[4]
        place = f"partition {partition}, offset {offset}"
        try:
            row = json.loads(text)
        except ValueError as error:
            errors.add(f"{place}: not JSON: {error}")
            continue
        if not isinstance(row, dict) or set(row) - {"delay"} != {"row_id", "carrier", "flights"}:
            errors.add(f"{place}: not an object with row_id, carrier, flights and delay: {text}")
            continue
        values = row["row_id"], row["flights"], row.get("delay") or 0
        if any(type(value) is not int for value in values):
            errors.add(f"{place}: row_id, flights and delay must be integers: {text}")
            continue
        messages.append((partition, offset, key, values[0], row["carrier"], values[1], values[2]))
    return sorted(messages)


def verify(expected, lines):
    """(Errors, totals): totals is carrier -> (flights, delay) as the input has it."""
    errors = Errors()
    messages = read_messages(lines, errors)
    place_of, partition_of = {}, {}
    running = collections.defaultdict(lambda: (0, 0))
    for partition, offset, key, row_id, carrier, flights, delay in messages:
        place = f"partition {partition}, offset {offset}"
        if row_id not in expected:
            errors.add(f"{place}: row_id {row_id} is not in the input")
            continue
        if row_id in place_of:
            errors.add(f"{place}: row_id {row_id} doubled, first at {place_of[row_id]}")
        place_of.setdefault(row_id, place)
        due_carrier, dep_delay = expected[row_id]
        if carrier != due_carrier or key != due_carrier:
            errors.add(f"{place}: row_id {row_id} has carrier {carrier} and key {key}, in the input "
                       f"the carrier is {due_carrier}")
            continue
        if partition_of.setdefault(carrier, partition) != partition:
            errors.add(f"{place}: {carrier} is also in partition {partition_of[carrier]}")
        count, total = running[carrier]
        if (flights, delay) != (count + 1, total + dep_delay):
            errors.add(f"{place}: {carrier}: flights, delay = {flights}, {delay} where {count + 1}, "
                       f"{total + dep_delay} is due")
        running[carrier] = flights, delay

    for row_id in sorted(set(expected) - set(place_of)):
        errors.add(f"row_id {row_id} lost")
    totals = collections.defaultdict(lambda: (0, 0))
    for carrier, dep_delay in expected.values():
        count, total = totals[carrier]
        totals[carrier] = count + 1, total + dep_delay
    for carrier in sorted(totals):
        if running[carrier] != totals[carrier]:
            errors.add(f"{carrier}: ends with flights, delay = {running[carrier]}; the input has "
                       f"{totals[carrier]}")
    return errors, dict(totals)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=pathlib.Path, required=True, metavar="DIR",
                        help="folder with part-*.csv")
    parser.add_argument("--rows", type=int, help="the topic was filled with so many of them")
    parser.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    arguments = parser.parse_args()

    expected = read_input(arguments.input, arguments.rows)
    code = 0
    for path in arguments.files:
        with open(path, encoding="utf-8") as lines:
            errors, totals = verify(expected, lines)
        if errors.count:
            code = 1
            print(f"{path.name}: WRONG: {errors.count} errors")
            for text in errors.shown:
                print(f"  {text}")
            if errors.count > len(errors.shown):
                print(f"  ... and {errors.count - len(errors.shown)} more")
        else:
            delay = sum(total for _, total in totals.values())
            print(f"{path.name}: RIGHT: {len(expected):,} flights, each exactly once; {len(totals)} "
                  f"carriers, each counted 1 ... n in order; {delay:,} minutes of delay in all, as "
                  "in the input")
    return code


if __name__ == "__main__":
    sys.exit(main())
