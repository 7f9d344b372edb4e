"""Rows: Kafka → keyed count → Kafka, exactly once; Kafka → blackhole; one partition with work."""

from .kafka_jobs.broker import install_broker
from .kafka_jobs.limits import KafkaConsume, KafkaLoop
from .kafka_jobs.loop import Loop, VerifyLoop
from .kafka_jobs.read import Read, Stall, VerifyRead
from .row import Row

ORDER = 35

READ_ROWS = LOOP_ROWS = (6_000_000, 2_000_000)  # full, quick; of one topic
STALL_ROWS = (4_000_000, 2_000_000)
# In scratch space: an input file and its topic, both twice, an output topic and, until the broker
# has deleted it, the one before.
ROW_BYTES = 600
LOOP_ROWS_PER_SECOND_MIN = 400_000
STALL_RSS_MB_MAX = 100


def fast_enough(measurements):
    slowest = min(m.rows_per_second for m in measurements)
    return (f"slowest {slowest / 1e3:.0f} k rows/s (goal ≥ {LOOP_ROWS_PER_SECOND_MIN / 1e3:.0f} k)",
            slowest >= LOOP_ROWS_PER_SECOND_MIN)


def small_enough(measurements):
    largest = max(m.rss_mb for m in measurements)
    return f"at most {largest:.0f} MB (goal < {STALL_RSS_MB_MAX} MB)", largest < STALL_RSS_MB_MAX


def read_row(file_format, goal):
    return Row(name=f"kafka-{file_format}", group="kafka-read", work="Kafka → blackhole",
               measure=Read(file_format, *READ_ROWS), limit=KafkaConsume(*READ_ROWS),
               limit_name="kafka_consume, jemalloc", goal=goal, flink="2.1 M",
               needs=(install_broker,), verify=(VerifyRead(file_format),),
               scratch_bytes=scratch_bytes(READ_ROWS))


def scratch_bytes(rows):
    return tuple(number * ROW_BYTES for number in rows)


ROWS = [
    Row(name="kafka-loop", group="kafka-loop", work="exactly once, checkpoint each 1s",
        measure=Loop(*LOOP_ROWS), limit=KafkaLoop(*LOOP_ROWS), limit_name="kafka_loop", goal=0.8,
        flink="0.62 M", needs=(install_broker,), verify=(VerifyLoop(),), also=fast_enough,
        scratch_bytes=scratch_bytes(LOOP_ROWS)),
    read_row("raw", 0.8),
    read_row("json", 0.65),
    Row(name="kafka-stall", group="kafka-stall", work="one partition, 1 µs of work a row",
        measure=Stall(*STALL_ROWS), figure="us_per_row", unit="µs", goal=1.25, also=small_enough,
        needs=(install_broker,),
        scratch_bytes=scratch_bytes(STALL_ROWS)),
]
