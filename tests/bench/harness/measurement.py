"""One run of Weir or of a limit, and what can go wrong with it."""

import dataclasses


class BenchError(Exception):
    """The benchmark could not be run to its end: a process failed, the disk is too small."""


class WrongResult(BenchError):
    """It ran, and its result is not what it must be. No rate is printed then."""


@dataclasses.dataclass
class Measurement:
    """What one run took. `values` holds further figures by name, units last ("stall_ms")."""
    rows: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rss_mb: float | None = None
    values: dict = dataclasses.field(default_factory=dict)

    @property
    def rows_per_second(self):
        return self.rows / self.seconds if self.seconds > 0 else None

    @property
    def rows_per_cpu_second(self):
        return self.rows / self.cpu_seconds if self.cpu_seconds > 0 else None

    def figure(self, name):
        """A rate by its name, or one of `values`; None where the run has none."""
        if name in ("rows_per_second", "rows_per_cpu_second"):
            return getattr(self, name)
        return self.values.get(name)


def expect(what, got, wanted):
    if got != wanted:
        raise WrongResult(f"{what}: {got!r}, expected {wanted!r}")


def quantile(weighted, share):
    """The least value that at least `share` of the weight does not exceed; `weighted`: pairs (value,
    weight) in any order, or a dict of them."""
    pairs = sorted(weighted.items() if isinstance(weighted, dict) else weighted)
    left = share * sum(weight for _, weight in pairs)
    for value, weight in pairs:
        left -= weight
        if left <= 1e-9:
            return value
    return pairs[-1][0]


def of_values(values, share):
    return quantile([(value, 1) for value in values], share)
