"""Rows: the first work on one worker and across two, and with checkpoints."""

import dataclasses

from .counts import Count, VerifyCount
from .limits import GenerateCount, VerifyLimit
from .row import Row

ORDER = 10

SIZES = {  # name: keys, rows in full and quick runs
    "10k": (10_000, 500_000_000, 300_000_000),
    "1m": (1_000_000, 200_000_000, 100_000_000),
    "10m": (10_000_000, 200_000_000, 80_000_000),
}
WORKERS_1 = {"10k": (0.5, "7.7 M"), "1m": (0.7, "2.0 M"), "10m": (1.0, "1.3 M")}
WORKERS_2 = {"10k": (0.3, "5.9 M"), "1m": (0.55, "1.7 M"), "10m": (0.75, "1.05 M")}
EACH_SECOND = {"10k": (0.97, "0.92"), "1m": (0.92, "0.77"), "10m": (0.75, "0.52")}
EACH_100_MS = {"10k": (0.93, "0.83"), "1m": (0.65, "0.36, a third complete")}


def all_complete(measurements):
    asked = sum(m.values.get("checkpoints", 0) for m in measurements)
    completed = sum(m.values.get("checkpoints_completed", 0) for m in measurements)
    return f"{completed} of {asked} checkpoints complete", 0 < asked == completed


def longest_checkpoint(measurements):
    longest = max((m.values.get("checkpoint_ms_max", 0) for m in measurements), default=0)
    return f"longest {longest:.0f} ms", True


def count_rows():
    for size, (keys, full, quick) in SIZES.items():
        limit = GenerateCount(keys, full, quick)
        one = Count(keys, full, quick)
        goal, flink = WORKERS_1[size]
        yield Row(name=f"count-{size}", group=f"count-{size}", work="one worker", measure=one,
                  limit=limit, limit_name="generate_count", goal=goal, flink=flink,
                  verify=(VerifyLimit("generate_count", ("--keys", keys)),
                          VerifyCount(one)))
    for size, (keys, full, quick) in SIZES.items():
        two = Count(keys, full, quick, workers=2, slots=1)
        goal, flink = WORKERS_2[size]
        yield Row(name=f"count-tcp-{size}", group=f"count-{size}", work="two workers",
                  measure=two, limit=GenerateCount(keys, full, quick),
                  limit_name="generate_count", goal=goal, flink=flink,
                  verify=(VerifyCount(two),))


def checkpoint_rows():
    for name, interval, goals in (("1s", "1s", EACH_SECOND), ("100ms", "100ms", EACH_100_MS)):
        for size, (goal, flink) in goals.items():
            plain = Count(*SIZES[size])
            measure = dataclasses.replace(plain, interval=interval)
            yield Row(name=f"checkpoint-{name}-{size}", group=f"count-{size}", work="",
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


ROWS = [*count_rows(), *checkpoint_rows(), *large_checkpoint_rows()]
