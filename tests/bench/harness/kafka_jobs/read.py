"""Kafka → blackhole."""

import base64
import collections
import dataclasses
import json

from ..counts import rows_in
from ..limits import inputs_of
from ..measurement import WrongResult, expect
from .broker import KEYS, Kafka
from .jobs import ROWS_VERIFY, SCHEMA, job, measurement_of, source
from .limits import KafkaConsume

STALL_NANOS = 1000


def fields_of(file_format):
    return {"format": "raw"} if file_format == "raw" else {"format": "json", "schema": SCHEMA}


@dataclasses.dataclass(frozen=True)
class Read:
    """Kafka → blackhole."""
    file_format: str
    rows_full: int
    rows_quick: int

    @property
    def title(self):
        return f"Kafka to blackhole, {self.file_format}"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        kafka = bench.service(Kafka)
        topic = kafka.input_topic(rows)
        with bench.cluster() as cluster:
            run = cluster.run(job(f"kafka-{self.file_format}",
                                  source(kafka, topic, **fields_of(self.file_format)),
                                  {"uid": "out", "type": "blackhole"}))
        expect(f"rows in of {self.title}", run.records_in, rows)
        expect(f"rows out of {self.title}", run.records_out, rows)
        return measurement_of(run, rows)


def check_rows(what, got, due):
    """WrongResult unless two Counters are the same."""
    if got != due:
        example = next(iter((got - due) or (due - got)))
        raise WrongResult(f"{what}: {sum((got - due).values())} rows too many, "
                          f"{sum((due - got).values())} missing, such as {example!r}")


@dataclasses.dataclass(frozen=True)
class VerifyRead:
    """The same source into files, whose rows must be those of the input, each once."""
    file_format: str

    @property
    def title(self):
        return f"Kafka to blackhole, {self.file_format}"

    def __call__(self, bench):
        KafkaConsume(ROWS_VERIFY, ROWS_VERIFY, verify=True)(bench)
        kafka = bench.service(Kafka)
        topic = kafka.input_topic(ROWS_VERIFY)
        output = bench.folder("verify") / "out"
        with bench.cluster() as cluster:
            cluster.run(job("verify", source(kafka, topic, **fields_of(self.file_format)),
                            {"uid": "out", "type": "files.sink",
                             "config": {"path": str(output), "format": "json"}}))
        if self.file_format == "raw":
            got = collections.Counter(base64.b64decode(row["value"]) for row in rows_in(output))
        else:
            got = collections.Counter(tuple(row[name] for name in SCHEMA)
                                      for row in rows_in(output))
        due = collections.Counter(self._due(bench))
        check_rows(self.title, got, due)

    def _due(self, bench):
        for path in inputs_of(bench, "json", ROWS_VERIFY, KEYS):
            for line in path.read_bytes().splitlines():
                if self.file_format == "raw":
                    yield line
                else:
                    row = json.loads(line)
                    yield tuple(row[name] for name in SCHEMA)


@dataclasses.dataclass(frozen=True)
class Stall:
    """One partition, one subtask, a microsecond of work for each row. A client that fetches late
    lets the work wait, and one that fetches all it can fills the memory."""
    rows_full: int
    rows_quick: int

    title = "one partition, 1 µs of work a row"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        kafka = bench.service(Kafka)
        topic = kafka.input_topic(rows, partitions=1)
        with bench.cluster() as cluster:
            run = cluster.run(bench.limits_dir / "busy_job.so", "--", "--brokers", kafka.brokers,
                              "--topic", topic, "--nanos", STALL_NANOS)
        expect("rows out of kafka-stall", run.records_out, rows)
        return measurement_of(run, rows, us_per_row=1e6 * run.seconds / rows)
