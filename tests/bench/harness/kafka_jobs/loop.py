"""Kafka → keyed count → Kafka, exactly once."""

import dataclasses

from ..measurement import expect
from .broker import Kafka
from .jobs import ROWS_VERIFY, SCHEMA, job, measurement_of, source
from .limits import KafkaLoop


@dataclasses.dataclass(frozen=True)
class Loop:
    """Each row of the input becomes one with its key's running count, keyed by it. Every output row
    of every run is checked."""
    rows_full: int
    rows_quick: int

    title = "Kafka to keyed count to Kafka"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        kafka = bench.service(Kafka)
        topic = kafka.input_topic(rows)
        with kafka.output_topic() as output, bench.cluster() as cluster:
            run = cluster.run(job(
                "kafka-loop", source(kafka, topic, format="json", schema=SCHEMA),
                {"uid": "per-key", "type": "aggregate",
                 "config": {"keys": ["k"], "emit": "every_row", "keep": ["v", "d", "ts"],
                            "aggregates": [{"function": "count", "as": "n"}]}},
                {"uid": "out", "type": "kafka.sink",
                 "config": {"brokers": kafka.brokers, "topic": output, "format": "json",
                            "key": ["k"]}}))
            expect("rows in of kafka-loop", run.records_in, rows)
            expect("rows out of kafka-loop", run.records_out, rows)
            kafka.check_counts(output, rows)
        return measurement_of(run, rows)


@dataclasses.dataclass(frozen=True)
class VerifyLoop:
    title = "Kafka to keyed count to Kafka"

    def __call__(self, bench):
        Loop(ROWS_VERIFY, ROWS_VERIFY)(bench)
        KafkaLoop(ROWS_VERIFY, ROWS_VERIFY, verify=True)(bench)
