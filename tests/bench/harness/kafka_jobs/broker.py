"""The broker of a run of scripts/bench and its topics."""

import contextlib
import subprocess
import sys

from ..bench import SOURCE_DIR
from ..limits import inputs_of
from ..measurement import BenchError, WrongResult, expect

sys.path.append(str(SOURCE_DIR / "tests/support/kafka"))
import kafka_broker  # noqa: E402 (the path comes first)
import kafka_install  # noqa: E402
import kafka_wire  # noqa: E402

KEYS = 100_000
PARTITIONS = 4
FILL_SECONDS, FILL_ATTEMPTS = 40, 3  # a full topic takes ten on a loaded machine


def install_broker(bench):
    """Fetches its jars where they are not there, which needs the network once."""
    try:
        kafka_install.install()
    except (kafka_install.BrokerError, OSError) as error:
        raise BenchError(f"no Kafka broker: {error}") from None


class Kafka:
    """One broker, started when it is first asked for (Bench.service) and gone with the bench. It
    takes its share of the machine while rows are measured, as a broker on one machine does."""

    def __init__(self, bench):
        self.bench = bench
        self._inputs = {}
        self._names = 0
        self.broker = kafka_broker.Broker(bench.folder("kafka"), die_with_parent=True)
        try:
            self.broker.start()
        except (kafka_install.BrokerError, kafka_wire.KafkaError, OSError) as error:
            self.close()
            raise BenchError(f"no Kafka broker: {error}") from None

    def close(self):
        self.broker.remove()

    @property
    def brokers(self):
        return self.broker.bootstrap

    def client(self):
        return kafka_wire.Client(self.brokers)

    def input_topic(self, rows, partitions=PARTITIONS):
        """A topic of `rows` rows of make_rows as JSON, filled when first asked for; its name."""
        if (rows, partitions) not in self._inputs:
            self._inputs[rows, partitions] = self._fill(rows, partitions)
        return self._inputs[rows, partitions]

    def _fill(self, rows, partitions):
        inputs = inputs_of(self.bench, "json", rows, KEYS)
        for attempt in range(1, FILL_ATTEMPTS + 1):
            name = f"rows-{rows}-{partitions}-{attempt}"
            with self.client() as client:
                client.create_topic(name, partitions)
            try:
                _, printed = self.bench.limit("kafka_fill", "--brokers", self.brokers, "--topic",
                                              name, "--input", *inputs, seconds=FILL_SECONDS)
            except subprocess.TimeoutExpired:
                # librdkafka 2.0.2: who waits for room in rd_kafka_produce_batch holds a lock that
                # its broker thread wants when a partition has lost its leader.
                self.bench.log(f"kafka_fill of {name} stands still; again into another topic")
                with self.client() as client:
                    client.delete_topic(name)
                continue
            expect(f"records in the topic {name}", printed["records_in_topic"], rows)
            return name
        raise BenchError(f"kafka_fill did not fill a topic with {rows} rows in {FILL_SECONDS} s, "
                         f"{FILL_ATTEMPTS} times")

    @contextlib.contextmanager
    def output_topic(self):
        """An empty topic with a name of its own, deleted at the end."""
        self._names += 1
        name = f"out-{self._names}"
        with self.client() as client:
            client.create_topic(name, PARTITIONS)
        try:
            yield name
        finally:
            with self.client() as client:
                client.delete_topic(name)

    def check_counts(self, topic, rows):
        """WrongResult unless the topic holds the counted rows of the input, each exactly once, and
        nothing that is still open."""
        with self.client() as client:
            client.wait_until_settled(topic)
        try:
            self.bench.limit("check_counts", "--brokers", self.brokers, "--topic", topic,
                             "--rows", rows, "--keys", KEYS)
        except BenchError as error:
            raise WrongResult(f"the output topic: {error}") from None
