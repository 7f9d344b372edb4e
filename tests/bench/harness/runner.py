"""Runs the chosen rows: group by group, round by round, limit and Weir in turn."""

import time

from .row import outcome_of


def run(bench, rows):
    """[Outcome] in the order of `rows`. Raises BenchError or WrongResult."""
    for row in rows:
        bench.require_space(row.name, bench.pick(*row.scratch_bytes))
    for needs in dict.fromkeys(needs for row in rows for needs in row.needs):
        needs(bench)
    outcomes = {}
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        for verify in dict.fromkeys(verify for row in members for verify in row.verify):
            with timed(bench, f"checks the results of {describe(verify)}"):
                verify(bench)
        rounds = {row.name: [] for row in members}
        for number in range(bench.runs):
            done = {}  # subject: its Measurement of this round

            def measured(subject):
                if subject not in done:
                    with timed(bench, f"{group}, round {number + 1} of {bench.runs}: "
                               f"{describe(subject)}") as line:
                        done[subject] = subject(bench)
                        line.append(brief(done[subject]))
                return done[subject]

            for row in members:
                limit = None if row.limit is None else measured(row.limit)
                rounds[row.name].append((measured(row.measure), limit))
        for row in members:
            outcomes[row.name] = outcome_of(row, rounds[row.name])
    return [outcomes[row.name] for row in rows]


def describe(subject):
    return getattr(subject, "title", None) or getattr(subject, "__name__", repr(subject))


def brief(measurement):
    words = []
    if measurement.rows_per_cpu_second:
        words.append(f"{measurement.rows_per_cpu_second / 1e6:.2f} M rows/CPU s")
    if measurement.rows_per_second:
        words.append(f"{measurement.rows_per_second / 1e6:.2f} M rows/s")
    if measurement.rss_mb:
        words.append(f"{measurement.rss_mb:.0f} MB")
    words.extend(f"{name} {value:g}" for name, value in measurement.values.items()
                 if isinstance(value, (int, float)))
    return ", ".join(words)


class timed:
    """A line of progress with the time that the block took."""

    def __init__(self, bench, what):
        self.bench, self.what, self.words = bench, what, []

    def __enter__(self):
        self.start = time.monotonic()
        return self.words

    def __exit__(self, kind, error, trace):
        words = self.words if kind is None else ["FAILED"]
        took = f"{time.monotonic() - self.start:.1f} s"
        self.bench.log(f"{self.what}: " + ", ".join([*words, took]))
