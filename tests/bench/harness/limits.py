"""The limits as subjects."""

import dataclasses

from .measurement import expect


@dataclasses.dataclass(frozen=True)
class GenerateCount:
    """The loop of the first work. Checks the sum of its counts itself."""
    keys: int
    rows_full: int
    rows_quick: int

    @property
    def title(self):
        return f"generate_count, {self.keys:,} keys"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        measurement, printed = bench.limit("generate_count", "--keys", self.keys, "--rows", rows)
        expect("rows of generate_count", printed["rows"], rows)
        return measurement
