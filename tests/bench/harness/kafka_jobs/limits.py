"""The Kafka limits as subjects."""

import dataclasses

from ..measurement import expect
from .broker import Kafka

# The limit's memory allocator: with it kafka_consume is twice as fast as with glibc's.
JEMALLOC = {"LD_PRELOAD": "libjemalloc.so.2"}


@dataclasses.dataclass(frozen=True)
class KafkaConsume:
    rows_full: int
    rows_quick: int
    verify: bool = False

    title = "kafka_consume, jemalloc"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        kafka = bench.service(Kafka)
        measurement, printed = bench.limit(
            "kafka_consume", "--brokers", kafka.brokers, "--in-topic", kafka.input_topic(rows),
            *(["--verify"] if self.verify else []), environment=JEMALLOC)
        expect("rows of kafka_consume", printed["rows"], rows)
        expect("verified of kafka_consume", printed["verified"], self.verify)
        return measurement


@dataclasses.dataclass(frozen=True)
class KafkaLoop:
    rows_full: int
    rows_quick: int
    verify: bool = False

    title = "kafka_loop"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        kafka = bench.service(Kafka)
        with kafka.output_topic() as output:
            measurement, printed = bench.limit(
                "kafka_loop", "--brokers", kafka.brokers, "--in-topic", kafka.input_topic(rows),
                "--out-topic", output, *(["--verify"] if self.verify else []))
        expect("rows of kafka_loop", printed["rows"], rows)
        expect("verified of kafka_loop", printed["verified"], self.verify)
        return measurement
