#!/usr/bin/env python3
"""Prints the flights of ../flights/data as messages, in order of departure, a line each:

    carrier <tab> {"row_id": 0, ..., "carrier": "UA", "dep_delay": 2, ...}

which `kcat -P -K '\\t'` puts into a topic: the carrier becomes the key. Standard library only.
"""

import argparse
import csv
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parents[1] / "flights/data"
TEXTS = {"carrier", "tailnum", "origin", "dest", "time_hour"}  # all other columns are numbers


def value_of(column, text):
    if not text:
        return None  # an empty field is null
    return text if column in TEXTS else int(text)


def flights(folder):
    """All flights of a folder's part-*.csv as dicts, by row_id."""
    rows = []
    for part in sorted(folder.glob("part-*.csv")):
        with open(part, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                rows.append({column: value_of(column, text) for column, text in row.items()})
    return sorted(rows, key=lambda row: row["row_id"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, help="only the first so many flights")
    parser.add_argument("--input", type=pathlib.Path, default=DATA, metavar="DIR",
                        help="folder with part-*.csv")
    arguments = parser.parse_args()
    rows = flights(arguments.input)
    if not rows:
        sys.exit(f"fill: no part-*.csv in {arguments.input}")
    for row in rows[:arguments.rows]:
        print(row["carrier"], json.dumps(row, separators=(",", ":")), sep="\t")


if __name__ == "__main__":
    main()
