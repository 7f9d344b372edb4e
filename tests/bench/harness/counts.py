"""The first work as a subject, and the check of its results."""

import collections
import dataclasses
import json

from .generated import key_of
from .jobs import count_job, summed
from .measurement import Measurement, WrongResult, expect

VERIFY_ROWS = 200_000
SUM_ROWS = (20_000_000, 8_000_000)  # full, quick
DEFAULT_SPLITS = 128  # of the generator


@dataclasses.dataclass(frozen=True)
class Count:
    """generator → HASH → count → blackhole. What of it differs from row to row are the fields."""
    keys: int
    rows_full: int
    rows_quick: int
    workers: int = 1
    slots: int = 2
    parallelism: int = 2
    interval: str = "off"
    emit: str = "every_row"
    distribution: str = "uniform"
    splits: int | None = None
    max_parallelism: int | None = None

    @property
    def title(self):
        words = [f"count, {self.keys:,} keys"]
        if self.workers > 1:
            words.append(f"{self.workers} workers")
        if self.parallelism != 2:
            words.append(f"parallelism {self.parallelism}")
        if self.distribution != "uniform":
            words.append(self.distribution)
        if self.emit != "every_row":
            words.append(self.emit)
        if self.interval != "off":
            words.append(f"checkpoint each {self.interval}")
        return ", ".join(words)

    def job(self, rows, sink=None):
        options = {}
        if self.max_parallelism is not None:
            options["max_parallelism"] = str(self.max_parallelism)
        return count_job(rows, self.keys, self.parallelism, self.interval, self.emit,
                         self.distribution, self.splits, options, sink)

    def run(self, bench, job):
        with bench.cluster(workers=self.workers, slots=self.slots) as cluster:
            return cluster.run(job)

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        run = self.run(bench, self.job(rows))
        expect(f"rows in of {self.title}", run.records_in, rows)
        if self.emit == "every_row":
            expect(f"rows out of {self.title}", run.records_out, rows)
        elif not 0 < run.records_out <= rows:
            raise WrongResult(f"rows out of {self.title}: {run.records_out}, of {rows} rows in")
        return Measurement(rows=rows, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
                           rss_mb=run.rss_mb, values=checkpoint_values(run.checkpoints))


def checkpoint_values(checkpoints):
    """Figures of the checkpoints of one run; none of a run that had but the last one, which is
    taken when the sources have ended."""
    if len(checkpoints) < 2:
        return {}
    completed = [c for c in checkpoints if c["state"] == "completed"]
    running = completed[1:-1] or completed[:-1]  # of those, with most keys there and rows flowing
    values = {"checkpoints": len(checkpoints), "checkpoints_completed": len(completed)}
    if running:
        durations = sorted(c["duration_ms"] for c in running)
        values["checkpoint_ms"] = durations[len(durations) // 2]
        values["checkpoint_ms_max"] = durations[-1]
        values["stall_ms"] = max(max(part["synchronous_ms"], part["longest_step_ms"])
                                 for c in running for part in c["subtasks"])
    return values


@dataclasses.dataclass(frozen=True)
class VerifyCount:
    """Runs a Count with few rows into files and compares every row with counts made here; with more
    rows, adds its rows up and compares the sums."""
    subject: Count

    @property
    def title(self):
        return self.subject.title

    def __call__(self, bench):
        output = bench.folder("verify") / "out"
        self.subject.run(bench, self.subject.job(
            VERIFY_ROWS, {"type": "files.sink", "config": {"path": str(output), "format": "json"}}))
        counts = collections.defaultdict(list)
        for row in rows_in(output):
            counts[row["key"]].append(row["n"])
        check_counts(self.subject, VERIFY_ROWS, counts)
        if self.subject.emit == "every_row":  # else batches decide which counts come out
            self._check_sums(bench)

    def _check_sums(self, bench):
        subject, output = self.subject, bench.folder("verify") / "out"
        rows = bench.pick(*SUM_ROWS)
        subject.run(bench, summed(subject.job(rows), output))
        hot = ["--hot-fraction-percent", 90] if subject.distribution == "hot" else []
        _, due = bench.limit("key_totals", "--rows", rows, "--keys", subject.keys, "--splits",
                             subject.splits or DEFAULT_SPLITS, *hot)
        last = max(rows_in(output), key=lambda row: row["sum"])
        expect(f"sums of the counts of {subject.title}", (last["sum"], last["weighted"]),
               (due["sum"], due["weighted"]))


def rows_in(folder):
    """Of all JSON lines files that are visible in it."""
    for path in folder.glob("[!.]*"):
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def check_counts(subject, rows, counts):
    """WrongResult unless `counts` (key: the counts in its output rows) is what `rows` rows give."""
    totals = collections.Counter(
        key_of(seq, subject.splits or DEFAULT_SPLITS, subject.keys, subject.distribution)
        for seq in range(rows))
    expect(f"keys of {subject.title}", sorted(counts), sorted(totals))
    for key, total in totals.items():
        got = sorted(counts[key])
        if subject.emit == "every_row":
            right = got == list(range(1, total + 1))
        else:  # some of them, each once, the last one among them
            right = len(set(got)) == len(got) and got[0] >= 1 and got[-1] == total
        if not right:
            raise WrongResult(f"counts of key {key} of {subject.title}: {got[:20]}, its rows are "
                              f"{total}")
