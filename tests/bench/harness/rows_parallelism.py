"""Rows: many subtasks on one worker, the same work in all."""

import dataclasses

from .counts import Count, VerifyCount
from .row import Row

ORDER = 90

# As many splits and key groups as the largest has subtasks, for all alike.
TWO = Count(keys=10_000, rows_full=400_000_000, rows_quick=150_000_000, splits=256,
            max_parallelism=256)


def parallelism_row(parallelism, goal):
    many = dataclasses.replace(TWO, parallelism=parallelism, slots=parallelism)
    return Row(name=f"parallelism-{parallelism}", group="parallelism", work="one worker, 10k keys",
               measure=many, limit=TWO, limit_name="parallelism 2", goal=goal,
               verify=(VerifyCount(many),))


ROWS = [parallelism_row(32, 0.8), parallelism_row(256, 0.4)]
