"""Rows: the first work on one worker and across two."""

from .counts import Count, VerifyCount
from .limits import GenerateCount, VerifyLimit
from .row import Row

ORDER = 10

SIZES = {  # name: keys, rows in full and quick runs
    "10k": (10_000, 500_000_000, 300_000_000),
    "1m": (1_000_000, 200_000_000, 160_000_000),
    "10m": (10_000_000, 200_000_000, 80_000_000),
}
WORKERS_1 = {"10k": (0.5, "7.7 M"), "1m": (0.7, "2.0 M"), "10m": (1.0, "1.3 M")}
WORKERS_2 = {"10k": (0.3, "5.9 M"), "1m": (0.55, "1.7 M"), "10m": (0.75, "1.05 M")}


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


ROWS = list(count_rows())
