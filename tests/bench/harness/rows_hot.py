"""Rows: 90 % of the rows on one key, beside keys that are spread evenly."""

import dataclasses

from .counts import Count, VerifyCount
from .row import Row

ORDER = 50

UNIFORM = Count(keys=10_000, rows_full=300_000_000, rows_quick=120_000_000)


def hot_row(name, emit, figure, goal, work):
    uniform = dataclasses.replace(UNIFORM, emit=emit)
    hot = dataclasses.replace(uniform, distribution="hot")
    return Row(name=name, group=name, work=work, measure=hot, limit=uniform, limit_name="uniform",
               figure=figure, goal=goal, verify=(VerifyCount(hot),))


ROWS = [hot_row("hot-key-changed", "changed", "rows_per_second", 0.9,
                "rows/s, output once per changed key and batch"),
        hot_row("hot-key-every-row", "every_row", "rows_per_cpu_second", 1.0,
                "one output row per input row")]
