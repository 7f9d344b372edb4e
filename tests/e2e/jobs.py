"""The jobs that the end-to-end tests run, and what their output must be.

Expected values are computed here from the input alone (flights: examples/flights/verify.py, which
knows nothing of Weir) or follow from what the generator promises (seq 0 ... rows - 1, each once).
"""

import collections
import csv
import hashlib
import importlib.util
import json
import pathlib
import re
import shutil
import threading
import time

from cluster import SOURCE_DIR

FLIGHTS = SOURCE_DIR / "examples/flights"
FLIGHTS_ROWS = 27004
MARK = ".weir-sink"  # whose directory it is: the one hidden name that stays

FINAL_NAME = re.compile(
    r"(?P<job>.+)-(?P<uid>out)-(?P<subtask>\d+)-(?P<checkpoint>\d+)-(?P<part>\d+)\.(jsonl|csv)")


def load_verify():
    spec = importlib.util.spec_from_file_location("flights_verify", FLIGHTS / "verify.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flights_job(output, name="flights", rate=None, parallelism=2, interval="200ms", format="json",
                part_size_max=None, options=None, source=None, source_config=None):
    """The job of examples/flights. `rate` in rows per second."""
    config = {"path": str(source or FLIGHTS / "data/part-*.csv"), "format": "csv",
              "schema": {"row_id": "INT64", "carrier": "STRING", "dep_delay": "INT32"},
              **(source_config or {})}
    if rate:
        config["rate"] = rate
    sink = {"path": str(output), "format": format}
    if part_size_max:
        sink["part_size_max"] = part_size_max
    return {
        "name": name,
        "options": {"parallelism": str(parallelism), "checkpoint.interval": interval,
                    "restart.backoff_max": "1s", **(options or {})},
        "vertices": [
            {"uid": "flights", "type": "files.source", "config": config},
            {"uid": "per-carrier", "type": "aggregate",
             "config": {"keys": ["carrier"], "emit": "every_row", "keep": ["row_id"],
                        "aggregates": [{"function": "count", "as": "flights"},
                                       {"function": "sum", "column": "dep_delay",
                                        "as": "delay"}]}},
            {"uid": "out", "type": "files.sink", "config": sink}],
        "edges": [
            {"from": "flights", "to": "per-carrier", "partitioning": "HASH",
             "columns": ["carrier"]},
            {"from": "per-carrier", "to": "out"}]}


def generator_job(output, name="made", rows=20000, rate=8000, keys=50, parallelism=2,
                  interval="200ms", distribution="uniform", options=None, format="json",
                  part_size_max=None):
    sink = {"path": str(output), "format": format}
    if part_size_max:
        sink["part_size_max"] = part_size_max
    return {
        "name": name,
        "options": {"parallelism": str(parallelism), "checkpoint.interval": interval,
                    "restart.backoff_max": "1s", **(options or {})},
        "vertices": [
            {"uid": "rows", "type": "generator",
             "config": {**({"rows": rows} if rows else {}), **({"rate": rate} if rate else {}),
                        "keys": keys, "seed": 7, "distribution": distribution}},
            {"uid": "per-key", "type": "aggregate",
             "config": {"keys": ["key"], "emit": "every_row", "keep": ["seq"],
                        "aggregates": [{"function": "count", "as": "n"}]}},
            {"uid": "out", "type": "files.sink", "config": sink}],
        "edges": [
            {"from": "rows", "to": "per-key", "partitioning": "HASH", "columns": ["key"]},
            {"from": "per-key", "to": "out"}]}


def endless_job(output, name="endless", rate=2000, **more):
    return generator_job(output, name=name, rows=None, rate=rate, **more)


def visible(output):
    if not output.is_dir():
        return []
    return sorted(path for path in output.iterdir() if not path.name.startswith("."))


def hidden(output):
    """Hidden names that belong to nobody any more once a job has ended."""
    if not output.is_dir():
        return []
    return sorted(path.name for path in output.iterdir()
                  if path.name.startswith(".") and path.name != MARK)


def checkpoint_of(name):
    match = FINAL_NAME.fullmatch(name)
    if not match:
        raise AssertionError(f"{name}: no name that the file sink gives")
    return int(match["checkpoint"])


def read_rows(output):
    """All visible rows as dictionaries, CSV values as text (empty: None)."""
    for path in visible(output):
        checkpoint_of(path.name)
        with open(path, newline="", encoding="utf-8") as file:
            if path.suffix == ".csv":
                for row in csv.DictReader(file):
                    yield {name: value if value != "" else None for name, value in row.items()}
            else:
                for line in file:
                    yield json.loads(line)


def check_clean(output, ended=None):
    """No hidden file is left. With `ended` (when the job ended, in seconds since 1970), none that
    was there at that time: a worker that was paused until later may make one before it hears."""
    left = [name for name in hidden(output)
            if ended is None or (output / name).stat().st_mtime < ended]
    if left:
        raise AssertionError(f"hidden files are left in {output}: {left}")


def check_flights(output, input_folder=FLIGHTS / "data", ended=None):
    """AssertionError unless the visible output is exactly what the input says, and nothing else is
    left. Number of rows."""
    check_clean(output, ended)
    folder = output
    if any(path.suffix == ".csv" for path in visible(output)):
        folder = output.parent / f"{output.name}-as-json"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with open(folder / "all.jsonl", "w", encoding="utf-8") as file:
            for row in read_rows(output):
                number = {name: row[name] if row[name] is None else int(row[name])
                          for name in ("row_id", "flights", "delay")}
                file.write(json.dumps({**row, **number}) + "\n")
    errors, totals = load_verify().verify(pathlib.Path(input_folder), folder)
    if errors.count:
        raise AssertionError(f"{output}: {errors.count} errors: {errors.shown}")
    return sum(count for count, _ in totals.values())


def check_generated(output, rows, complete=True, ended=None):
    """Each seq once (0 ... rows - 1 when the job is complete), per key the counts 1 ... n without a
    gap. Of an unfinished job: without a gap as far as it is visible. Number of rows."""
    if complete:
        check_clean(output, ended)
    seen, counts = set(), collections.defaultdict(list)
    for row in read_rows(output):
        seq = int(row["seq"])
        if seq in seen:
            raise AssertionError(f"{output}: seq {seq} doubled")
        seen.add(seq)
        counts[int(row["key"])].append(int(row["n"]))
    for key, values in sorted(counts.items()):
        if sorted(values) != list(range(1, len(values) + 1)):
            values.sort()
            wrong = next((i, n) for i, n in enumerate(values, 1) if i != n)
            raise AssertionError(f"{output}: key {key}: count {wrong[1]} where {wrong[0]} is due")
    if complete and seen != set(range(rows)):
        lost = sorted(set(range(rows)) - seen)
        raise AssertionError(f"{output}: {len(seen)} rows of {rows}; lost {lost[:5]}, "
                             f"too many {sorted(seen - set(range(rows)))[:5]}")
    return len(seen)


class Watch:
    """Looks at an output directory all the time: a file that is visible never changes and never
    vanishes, and belongs to a checkpoint that `completed()` (asked afterwards) covers. Use as a
    context manager: leaving it raises what it saw."""

    def __init__(self, output, completed=None, poll_s=0.02):
        self.output, self.completed, self.poll_s = output, completed, poll_s
        self.known, self.looks, self.hidden_seen, self.checked = {}, 0, 0, 0
        self.errors = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, error, trace):
        self._end.set()
        self._thread.join(60)
        if kind is None:
            self.look(every_byte=True)
            self.raise_errors()

    def raise_errors(self):
        if self.errors:
            raise AssertionError("; ".join(self.errors[:5]))

    def _run(self):
        while not self._end.is_set() and not self.errors:
            try:
                self.look()
            except Exception as error:  # a thread has nobody else to tell
                if isinstance(error, FileNotFoundError) and not self.output.is_dir():
                    continue  # its disk has been unmounted
                self.errors.append(f"{type(error).__name__}: {error}")
            time.sleep(self.poll_s)

    def look(self, every_byte=False):
        if not self.output.is_dir():
            return
        self.looks += 1
        names = {path.name for path in self.output.iterdir()}
        shown = {name for name in names if not name.startswith(".")}
        self.hidden_seen += len(names - shown - {MARK})
        for name in sorted(set(self.known) - shown):
            self.errors.append(f"{name}: was visible and has vanished")
        for name in sorted(shown):
            path = self.output / name
            stat = path.stat()
            now = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            if name not in self.known or every_byte:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                before = self.known.setdefault(name, (now, digest))
                if before[1] != digest:
                    self.errors.append(f"{name}: its bytes have changed")
            if self.known[name][0] != now:
                self.errors.append(f"{name}: size, time, inode were {self.known[name][0]}, "
                                   f"are {now}")
        if self.completed is not None and shown:
            newest = max(checkpoint_of(name) for name in shown)
            completed = self.completed()
            if completed is not None:
                self.checked += 1
                if newest > completed:
                    self.errors.append(f"a file of checkpoint {newest} is visible, the last "
                                       f"completed one is {completed}")
