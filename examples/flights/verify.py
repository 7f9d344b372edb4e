#!/usr/bin/env python3
"""Checks the committed output of examples/flights against its input. Knows nothing of Weir.

The job counts flights and sums up departure delays per carrier, and writes one row for every input
row: {"row_id", "carrier", "flights", "delay"}. If each input row was taken exactly once, then

  - every row_id is in the output exactly once, with the carrier it has in the input,
  - per carrier `flights` takes the values 1 ... n, each once,
  - per carrier, in the order of `flights`, `delay` grows by exactly the row's own dep_delay
    (a null adds nothing; a sum of nothing may be null, missing or 0).

Hidden files are not output: they belong to checkpoints that have not completed. Exit code 0 only if
all of it holds. Standard library only.
"""

import argparse
import collections
import csv
import json
import pathlib
import sys

SHOWN_MAX = 10  # errors that are printed; all are counted


class Errors:
    def __init__(self):
        self.count, self.shown = 0, []

    def add(self, text):
        self.count += 1
        if len(self.shown) < SHOWN_MAX:
            self.shown.append(text)


def read_input(folder):
    """row_id -> (carrier, dep_delay or None), from all part-*.csv of a folder."""
    rows = {}
    parts = sorted(folder.glob("part-*.csv"))
    if not parts:
        sys.exit(f"verify: no part-*.csv in {folder}")
    for part in parts:
        with open(part, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                row_id = int(row["row_id"])
                if row_id in rows:
                    sys.exit(f"verify: the input itself has row_id {row_id} twice")
                delay = row["dep_delay"]
                rows[row_id] = (row["carrier"], int(delay) if delay else None)
    return rows


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def read_output(folder, errors):
    """Yields (place, row_id, carrier, flights, delay) of every well-formed row that is visible."""
    if not folder.is_dir():
        sys.exit(f"verify: {folder} is no folder")
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.suffix != ".jsonl":
            errors.add(f"{path.name}: not a .jsonl file")
            continue
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                place = f"{path.name}:{number}"
                try:
                    row = json.loads(line)
                except ValueError as error:
                    errors.add(f"{place}: not JSON: {error}")
                    continue
                if not line.endswith("\n"):
                    errors.add(f"{place}: the last line is cut off")
                if not isinstance(row, dict) or set(row) - {"delay"} != {"row_id", "carrier", "flights"}:
                    errors.add(f"{place}: not an object with row_id, carrier, flights and delay")
                    continue
                delay = row.get("delay")
                delay = 0 if delay is None else delay
                if not (is_integer(row["row_id"]) and is_integer(row["flights"]) and is_integer(delay)):
                    errors.add(f"{place}: row_id, flights and delay must be integers")
                    continue
                yield place, row["row_id"], row["carrier"], row["flights"], delay


def verify(input_folder, output_folder):
    """(errors, totals): totals is carrier -> (flights, delay) as the input has it."""
    errors = Errors()
    expected = read_input(input_folder)
    place_of = {}
    per_carrier = collections.defaultdict(list)
    for place, row_id, carrier, flights, delay in read_output(output_folder, errors):
        if row_id not in expected:
            errors.add(f"{place}: row_id {row_id} is not in the input")
            continue
        if row_id in place_of:
            errors.add(f"{place}: row_id {row_id} doubled, first in {place_of[row_id]}")
        place_of.setdefault(row_id, place)
        if carrier != expected[row_id][0]:
            errors.add(f"{place}: row_id {row_id} has carrier {carrier}, "
                       f"in the input {expected[row_id][0]}")
            continue
        per_carrier[carrier].append((flights, delay, row_id, place))

    for row_id in sorted(set(expected) - set(place_of)):
        errors.add(f"row_id {row_id} lost")

    totals = collections.defaultdict(lambda: (0, 0))
    for carrier, delay in expected.values():
        count, total = totals[carrier]
        totals[carrier] = (count + 1, total + (delay or 0))

    for carrier in sorted(set(totals) | set(per_carrier)):
        rows = sorted(per_carrier[carrier], key=lambda row: (row[0], row[2]))
        before = 0
        for wanted, (flights, delay, row_id, place) in enumerate(rows, 1):
            if flights != wanted:
                errors.add(f"{place}: {carrier}: flights is {flights} where {wanted} is due "
                           "(1 ... n, each once)")
                break  # everything behind a gap is off by it
            step = expected[row_id][1] or 0
            if delay - before != step:
                errors.add(f"{place}: {carrier}: delay goes from {before} to {delay} at row_id {row_id}, "
                           f"whose dep_delay is {expected[row_id][1]}")
            before = delay
        last = rows[-1][:2] if rows else (0, 0)
        if last != totals[carrier]:
            errors.add(f"{carrier}: ends with flights, delay = {last[0]}, {last[1]}; "
                       f"the input has {totals[carrier][0]}, {totals[carrier][1]}")
    return errors, dict(totals)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", type=pathlib.Path, required=True, metavar="DIR",
                        help="folder with part-*.csv")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="DIR",
                        help="folder that the job's sink wrote")
    parser.add_argument("--no-leftovers", action="store_true",
                        help="also fail when a hidden file is left")
    arguments = parser.parse_args()

    errors, totals = verify(arguments.input, arguments.output)
    if arguments.no_leftovers:
        for path in sorted(arguments.output.iterdir()):
            if path.name.startswith("."):
                errors.add(f"{path.name}: a hidden file is left")
    if errors.count:
        print(f"WRONG: {errors.count} errors")
        for text in errors.shown:
            print(f"  {text}")
        if errors.count > len(errors.shown):
            print(f"  ... and {errors.count - len(errors.shown)} more")
        return 1
    rows = sum(count for count, _ in totals.values())
    delay = sum(total for _, total in totals.values())
    print(f"RIGHT: {rows:,} rows, each exactly once; {len(totals)} carriers, each counted 1 ... n "
          f"without a gap; {delay:,} minutes of delay in all, as in the input")
    return 0


if __name__ == "__main__":
    sys.exit(main())
