"""Jobs from and to a real Kafka broker, and what their output must be.

Expected values come from the rows that a test makes itself (made()), the murmur2 written here from
its published description, and kafka_wire, a client that has nothing of Weir or librdkafka in it.
"""

import base64
import collections
import contextlib
import fcntl
import json
import random
import subprocess
import sys
import time

from cluster import SOURCE_DIR, brief, last_checkpoint, wait_for

sys.path.insert(0, str(SOURCE_DIR / "tests/support/kafka"))

import kafka_broker  # noqa: E402
import kafka_proxy  # noqa: E402
import kafka_wire  # noqa: E402

SCHEMA = {"seq": "INT64", "key": "STRING"}
SETTLED_S = 5        # a recovered job leaves no transaction open for longer
SEGMENT = 500        # rows of a produced batch, and of an input file


def murmur2(data):
    """MurmurHash2 of 32 bits with Kafka's seed, as a signed Java int would print it."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def partition_of(key, partitions):
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class Kafka:
    """One test's view of a broker: names of its own, a client beside Weir, a proxy if asked for."""

    def __init__(self, broker, client, proxy):
        self.broker, self.client, self.proxy = broker, client, proxy

    @property
    def brokers(self):
        """What a job is to connect to: the proxy's port when there is one."""
        return self.broker.proxied_bootstrap if self.proxy else self.broker.bootstrap

    def topic(self, name, partitions=4, **config):
        topic = kafka_broker.unique(name)
        self.client.create_topic(topic, partitions, config)
        return topic

    def identities(self, job):
        """Transactional ids of the job that the broker knows."""
        return sorted(name for name in self.client.transactions() if name.startswith(job))


@contextlib.contextmanager
def kafka(proxy=False, own=False, users=None, **settings):
    """`own`: a broker for this test alone, which it may kill; it may have `users` (kafka_broker).
    With `proxy` one test at a time has the shared broker's proxied port."""
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(
            kafka_broker.temporary(proxied=True, users=users, settings=settings)
            if own or users or settings
            else kafka_broker.shared())
        client = stack.enter_context(kafka_wire.Client(broker.bootstrap))
        if proxy:
            lock = stack.enter_context(open(broker.folder / "proxy.lock", "w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            proxy = stack.enter_context(kafka_proxy.Proxy.of(broker))
        yield Kafka(broker, client, proxy or None)


# ---- rows


def made(count, keys=30, seed=11, first=0):
    """[(seq, key)]: a few keys have most of the rows."""
    chance = random.Random(seed)
    return [(first + i, f"k{int(keys * chance.random() ** 2):03}") for i in range(count)]


def as_json(row):
    return json.dumps({"seq": row[0], "key": row[1]})


class KafkaInput:
    """A topic that jobs read; rows are spread over its partitions by their seq."""

    def __init__(self, kafka, partitions=4):
        self.kafka, self.partitions, self.rows = kafka, partitions, []
        self.topic = kafka.topic("in", partitions)

    def add(self, rows):
        self.rows += rows
        for partition in range(self.partitions):
            own = [row for row in rows if row[0] % self.partitions == partition]
            for at in range(0, len(own), SEGMENT):
                self.kafka.client.produce(
                    self.topic, partition,
                    [(row[1], as_json(row)) for row in own[at:at + SEGMENT]])

    def vertex(self, rate=None, endless=False, **config):
        config = {"brokers": self.kafka.broker.bootstrap, "topics": self.topic, "format": "json",
                  "schema": SCHEMA, "discovery_interval": "500ms",
                  **({} if endless else {"end": "latest"}), **({"rate": rate} if rate else {}),
                  **config}
        return {"uid": "rows", "type": "kafka.source", "config": config}


class FileInput:
    """A folder that jobs read: sinks can be tried without any source but the files'."""

    def __init__(self, folder):
        self.folder, self.rows, self._parts = folder, [], 0
        folder.mkdir(parents=True)

    def add(self, rows):
        self.rows += rows
        for at in range(0, len(rows), SEGMENT):
            self.add_lines([as_json(row) for row in rows[at:at + SEGMENT]])

    def add_lines(self, lines):
        hidden = self.folder / ".part"
        hidden.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        hidden.rename(self.folder / f"part-{self._parts:06}.jsonl")
        self._parts += 1

    def vertex(self, rate=None, endless=False, **config):
        config = {"path": str(self.folder / "part-*.jsonl"), "format": "json", "schema": SCHEMA,
                  **({"follow": True, "follow_interval": "50ms"} if endless else {}),
                  **({"rate": rate} if rate else {}), **config}
        return {"uid": "rows", "type": "files.source", "config": config}


# ---- jobs


def options_of(parallelism=2, interval="200ms", **more):
    return {"parallelism": str(parallelism), "checkpoint.interval": interval,
            "restart.backoff_max": "1s", **more}


def sink_of(k, topic, uid="out", **config):
    return {"uid": uid, "type": "kafka.sink",
            "config": {"brokers": k.brokers, "topic": topic, "format": "json",
                       "key": ["key"], **config}}


COUNT = {"uid": "per-key", "type": "aggregate",
         "config": {"keys": ["key"], "emit": "every_row", "keep": ["seq"],
                    "aggregates": [{"function": "count", "as": "n"}]}}


def count_job(source, *sinks, name="counts", **options):
    """Rows, counted by key, each row with the count of its key so far."""
    return {"name": name, "options": options_of(**options),
            "vertices": [source, COUNT, *sinks],
            "edges": [{"from": "rows", "to": "per-key", "partitioning": "HASH",
                       "columns": ["key"]},
                      *({"from": "per-key", "to": sink["uid"]} for sink in sinks)]}


def copy_job(source, sink, name="copy", **options):
    return {"name": name, "options": options_of(**options), "vertices": [source, sink],
            "edges": [{"from": source["uid"], "to": sink["uid"]}]}


def files_sink(path, uid="out"):
    return {"uid": uid, "type": "files.sink", "config": {"path": str(path), "format": "json"}}


# ---- what must have come out


def decoded(record):
    return json.loads(record.value)


def check_counts(kafka, topic, rows, complete=True, records=None):
    """AssertionError unless the committed rows of the topic are those of count_job over `rows`:
    each seq once, with its key, per key 1 ... n in order, each in the partition of its key. Of an
    unfinished job: as far as it is. Number of rows."""
    records = kafka.client.read_topic(topic) if records is None else records
    partitions = len(kafka.client.partitions(topic))
    due = dict(rows)
    seen, counts = set(), collections.Counter()
    for record in records:
        row = decoded(record)
        place = f"{topic}/{record.partition} offset {record.offset}: {row}"
        if row["seq"] in seen:
            raise AssertionError(f"{place}: doubled")
        if due.get(row["seq"]) != row["key"]:
            raise AssertionError(f"{place}: no such row was made")
        seen.add(row["seq"])
        if record.key != row["key"].encode():
            raise AssertionError(f"{place}: key {record.key!r}")
        if record.partition != partition_of(record.key, partitions):
            raise AssertionError(f"{place}: belongs into {partition_of(record.key, partitions)}")
        counts[row["key"]] += 1
        if row["n"] != counts[row["key"]]:
            raise AssertionError(f"{place}: count {counts[row['key']]} is due: a row is lost, "
                                 "doubled or out of order")
    if complete and len(seen) != len(due):
        raise AssertionError(f"{topic}: {len(seen)} rows of {len(due)}; lost "
                             f"{sorted(set(due) - seen)[:5]}")
    return len(seen)


def check_kcat(kafka, topic, rows):
    """The same rows once each as kcat, a client of others, reads them."""
    done = subprocess.run(
        ["kcat", "-q", "-b", kafka.broker.bootstrap, "-C", "-t", topic, "-o", "beginning", "-e",
         "-X", "isolation.level=read_committed", "-X", "check.crcs=true"],
        text=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"kcat: {done.stderr}")
    seqs = sorted(json.loads(line)["seq"] for line in done.stdout.splitlines())
    if seqs != sorted(seq for seq, _ in rows):
        raise AssertionError(f"kcat sees {len(seqs)} rows of {topic}, {len(rows)} are due")


def visible(kafka, topic):
    """Number of committed rows."""
    return len(kafka.client.read_topic(topic))


def wait_for_visible(kafka, topic, least, seconds=90):
    return wait_for(lambda: f"{least} rows in {topic}, {visible(kafka, topic)} are there",
                    lambda: visible(kafka, topic) >= least, seconds, 0.1)


def wait_until_nothing_old_is_open(kafka, topic, seconds=SETTLED_S):
    """Until readers of committed rows have passed all that is in the topic now: younger
    transactions of a job that catches up may be open."""
    ends = {p: kafka.client.high_watermark(topic, p) for p in kafka.client.partitions(topic)}

    def stable():
        return {p: kafka.client.last_stable_offset(topic, p) for p in ends}
    wait_for(lambda: f"last stable offsets {stable()} to reach {ends}",
             lambda: all(offset >= ends[p] for p, offset in stable().items()), seconds, 0.05)


def check_nothing_is_open(kafka, topic, tool=False):
    """Of a job that has ended: no reader is held back, and neither topic nor markers have a
    transaction that hangs; `tool`: nor does Kafka's own tool find one, which takes seconds."""
    kafka.client.wait_until_settled(topic, SETTLED_S)
    found = kafka.client.hanging_transactions([topic, "__consumer_offsets"])
    if tool:
        found += kafka_broker.hanging(kafka.broker.bootstrap, topic)
    if found:
        raise AssertionError(f"(topic, partition, producer id, first offset) that hang: {found}")


def markers(kafka, job, topic, uid="out"):
    """{number: (offset, metadata)} of the markers of a job's sink."""
    found = {}
    for group in kafka.client.groups():
        if group.startswith(f"{job}-{uid}-"):
            found[int(group.rpartition("-")[2])] = kafka.client.group_offset(group, topic, 0)
    return found


def wait_until_marked(kafka, job, topic, least, uid="out", seconds=60):
    """Until all markers of the sink have reached checkpoint `least`."""
    def reached():
        found = markers(kafka, job, topic, uid)
        return found and min(offset for offset, _ in found.values()) >= least
    wait_for(lambda: f"marker {least}: {markers(kafka, job, topic, uid)}", reached, seconds, 0.1)


# ---- who does what


def worker_of(cluster, job, identity, uid="out"):
    """The process that has the subtask of the sink to which a transactional id belongs."""
    number = int(identity.rpartition("-")[2])

    def find():
        status = cluster.status(job)
        for vertex in (status or {}).get("vertices", []):
            for subtask in vertex["subtasks"]:
                if vertex["uid"] == uid and subtask["subtask"] == number and subtask["worker"]:
                    return next((worker for worker in cluster.workers
                                 if worker.name == subtask["worker"] and worker.alive()), None)
        return None
    return wait_for(f"the worker of {identity}", find)


def wait_until_recovered(cluster, job, generation, seconds=90):
    """Until the job runs (or has ended well) in a generation behind `generation`."""
    return cluster.wait_for_status(
        f"a generation behind {generation}", job,
        lambda s: s["state"] in ("RUNNING", "FINISHED") and s["generation"] > generation, seconds)


def wait_until_refused(cluster, job, *words, seconds=60):
    """Until the job says all of these words, as its failure or as what keeps it from going on; its
    status."""
    def look():
        status = cluster.status(job) or {}
        said = f"{status.get('failure')} {status.get('waiting_for')}"
        return status if all(word in said for word in words) else None
    return wait_for(lambda: f"a refusal with {words}: {brief(cluster.status(job))}", look,
                    seconds, 0.1)


def records_out(status, uid):
    """Rows that the subtasks of a vertex have passed on."""
    return sum(subtask["records_out"] for vertex in (status or {}).get("vertices", [])
               if vertex["uid"] == uid for subtask in vertex["subtasks"])


def checkpoint_behind(cluster, job, more=2, seconds=90):
    """Until so many further checkpoints have completed."""
    before = last_checkpoint(cluster.status(job))
    return cluster.wait_for_checkpoint(job, before + more, seconds)


def timed(action):
    start = time.monotonic()
    result = action()
    return result, time.monotonic() - start


def bytes_of(text):
    return None if text is None else base64.b64decode(text)
