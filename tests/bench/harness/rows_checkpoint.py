"""Rows: the first work with checkpoints, beside itself without."""

import dataclasses

from .counts import Count, VerifyCount
from .row import Row
from .rows_count import SIZES

ORDER = 40

EACH_SECOND = {"10k": (0.97, "0.92"), "1m": (0.92, "0.77"), "10m": (0.75, "0.52")}
EACH_100_MS = {"10k": (0.93, "0.83"), "1m": (0.65, "0.36, a third complete")}


def all_complete(measurements):
    asked = sum(m.values.get("checkpoints", 0) for m in measurements)
    completed = sum(m.values.get("checkpoints_completed", 0) for m in measurements)
    return f"{completed} of {asked} checkpoints complete", 0 < asked == completed


def longest_checkpoint(measurements):
    longest = max((m.values.get("checkpoint_ms_max", 0) for m in measurements), default=0)
    return f"longest {longest:.0f} ms", True


def checkpoint_rows():
    for interval, goals in (("1s", EACH_SECOND), ("100ms", EACH_100_MS)):
        for size, (goal, flink) in goals.items():
            plain = Count(*SIZES[size])
            measure = dataclasses.replace(plain, interval=interval)
            yield Row(name=f"checkpoint-{interval}-{size}", group=f"count-{size}", work="",
                      measure=measure, limit=plain, limit_name="without", goal=goal, flink=flink,
                      verify=(VerifyCount(dataclasses.replace(measure, interval="100ms")),),
                      also=all_complete)


def large_checkpoint_rows():
    measure = dataclasses.replace(Count(*SIZES["10m"]), interval="1s")
    for name, figure, goal, work in (
            ("checkpoint-stall-10m", "stall_ms", 20, "longest stall of a task"),
            ("checkpoint-duration-10m", "checkpoint_ms", 500, "median duration")):
        yield Row(name=name, group="count-10m", work=work, measure=measure, figure=figure,
                  unit="ms", goal=goal, flink="1.2 s on average" if "duration" in name else "",
                  also=longest_checkpoint if "duration" in name else None)


ROWS = [*checkpoint_rows(), *large_checkpoint_rows()]
