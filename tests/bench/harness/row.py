"""A row of the table: what is measured, beside which limit, and which goal it has."""

import dataclasses
import statistics
import typing

from .measurement import Measurement


@dataclasses.dataclass(frozen=True)
class Row:
    """`measure` and `limit` are subjects: callables that take the Bench and return a Measurement.
    Rows of one `group` are run in turn, round by round, and a subject that several of them have in
    common (equal by ==, such as frozen dataclasses of equal fields) is run once a round.

    With a `limit` the row is a ratio: `figure` of the subject divided by that of the limit, and
    the goal is the least ratio. Without one it is an absolute figure in `unit`, and the goal is
    what it must stay below. A goal of None is none."""
    name: str
    group: str
    work: str                           # for the reader of the table
    measure: typing.Callable
    limit: typing.Callable | None = None
    limit_name: str = ""
    figure: str = "rows_per_cpu_second"
    unit: str = ""
    goal: float | None = None
    flink: str = ""                     # what Flink does, as text
    scratch_bytes: tuple = (0, 0)       # disk space that it takes in full and quick runs
    # Each takes the Bench and installs what the row needs besides Weir. Called before anything runs.
    needs: tuple = ()
    # Each takes the Bench and checks the results of a smaller run of the job, or of the limit;
    # raises WrongResult. Run once, before the rounds; equal ones of several rows run once.
    verify: tuple = ()
    # (text, holds): from all Measurements, a note for the table and whether the goal's second part
    # holds.
    also: typing.Callable | None = None


@dataclasses.dataclass
class Outcome:
    """A row with what its rounds measured: pairs (subject, limit or None)."""
    row: Row
    rounds: list

    def _median(self, of, which=0):
        found = [of(pair[which]) for pair in self.rounds if pair[which] is not None]
        found = [value for value in found if value is not None]
        return statistics.median(found) if found else None

    @property
    def rows_per_second(self):
        return self._median(lambda m: m.rows_per_second)

    @property
    def rows_per_cpu_second(self):
        return self._median(lambda m: m.rows_per_cpu_second)

    @property
    def rss_mb(self):
        return self._median(lambda m: m.rss_mb)

    @property
    def limit(self):
        return self._median(lambda m: m.figure(self.row.figure), 1)

    @property
    def ratios(self):
        """Of each round: what ran side by side is compared."""
        if self.row.limit is None:
            return []
        return [subject.figure(self.row.figure) / limit.figure(self.row.figure)
                for subject, limit in self.rounds]

    @property
    def ratio(self):
        return statistics.median(self.ratios) if self.row.limit is not None else None

    @property
    def value(self):
        """The absolute figure of a row without a limit."""
        if self.row.limit is not None:
            return None
        return self._median(lambda m: m.figure(self.row.figure))

    def also(self):
        if self.row.also is None:
            return "", True
        return self.row.also([subject for subject, _ in self.rounds])

    @property
    def note(self):
        return self.also()[0]

    @property
    def met(self):
        if self.row.goal is None:
            return None
        if self.row.limit is not None:
            reached = self.ratio >= self.row.goal
        else:
            reached = self.value is not None and self.value < self.row.goal
        return bool(reached and self.also()[1])


def outcome_of(row, rounds):
    for subject, limit in rounds:
        assert isinstance(subject, Measurement)
        assert (limit is None) == (row.limit is None)
    return Outcome(row, rounds)
