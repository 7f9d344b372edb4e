"""A small Kafka client of its own, for checks: what it sees does not come through librdkafka.

Written from the published protocol, in versions that a 4.x broker accepts. Standard library only.
One Client is one connection to a broker that leads every partition and coordinates every group,
as scripts/kafka starts it. Every call has a bound (timeout_s) and raises KafkaError with the
broker's error. Thread: confined to one.
"""

import contextlib
import select
import socket
import struct
import time

from kafka_records import ABORT, COMMIT, Record, decode_batches, encode_batch  # noqa: F401

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 0, 1, 2, 3, 8, 9
FIND_COORDINATOR, LIST_GROUPS, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 10, 16, 18, 19, 20
DELETE_RECORDS, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN = 21, 22, 24, 25
END_TXN, TXN_OFFSET_COMMIT, DESCRIBE_ACLS, CREATE_ACLS = 26, 28, 29, 30
DESCRIBE_CONFIGS, CREATE_PARTITIONS = 32, 37
DELETE_GROUPS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_PRODUCERS = 42, 44, 61
DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 65, 66
FLEXIBLE = {(OFFSET_FETCH, 7), (DESCRIBE_PRODUCERS, 0), (DESCRIBE_TRANSACTIONS, 0),
            (LIST_TRANSACTIONS, 0)}

EARLIEST, LATEST = -2, -1  # the timestamps that ask for a log's ends
TOPIC, BROKER = 2, 4       # kinds of configuration
# Of rules who may do what.
RESOURCES = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5}
OPERATIONS = {"READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8,
              "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11,
              "IDEMPOTENT_WRITE": 12}
LITERAL, PREFIXED, ALLOW, ANY = 3, 4, 3, 1

ERRORS = {
    -1: "UNKNOWN_SERVER_ERROR", 1: "OFFSET_OUT_OF_RANGE", 2: "CORRUPT_MESSAGE",
    3: "UNKNOWN_TOPIC_OR_PARTITION", 5: "LEADER_NOT_AVAILABLE", 6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT", 10: "MESSAGE_TOO_LARGE", 14: "COORDINATOR_LOAD_IN_PROGRESS",
    15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR", 17: "INVALID_TOPIC_EXCEPTION",
    18: "RECORD_LIST_TOO_LARGE", 22: "ILLEGAL_GENERATION", 25: "UNKNOWN_MEMBER_ID",
    29: "TOPIC_AUTHORIZATION_FAILED", 30: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED", 32: "INVALID_TIMESTAMP", 35: "UNSUPPORTED_VERSION",
    36: "TOPIC_ALREADY_EXISTS", 37: "INVALID_PARTITIONS", 38: "INVALID_REPLICATION_FACTOR",
    40: "INVALID_CONFIG", 42: "INVALID_REQUEST", 45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER", 47: "INVALID_PRODUCER_EPOCH", 48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING", 50: "INVALID_TRANSACTION_TIMEOUT",
    51: "CONCURRENT_TRANSACTIONS", 53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    54: "SECURITY_DISABLED", 59: "UNKNOWN_PRODUCER_ID", 68: "NON_EMPTY_GROUP",
    69: "GROUP_ID_NOT_FOUND", 87: "INVALID_RECORD", 88: "UNSTABLE_OFFSET_COMMIT",
    90: "PRODUCER_FENCED", 105: "TRANSACTIONAL_ID_NOT_FOUND", 120: "TRANSACTION_ABORTABLE",
}
# What passes by itself while a broker starts or a coordinator settles something.
PASSING = {5, 6, 7, 14, 15, 16, 51, 88}
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")  # states of transactions
RETRY_PAUSE_S = 0.05


class KafkaError(Exception):
    def __init__(self, what, code, message=None):
        self.code, self.name = code, ERRORS.get(code, str(code))
        super().__init__(f"{what}: {self.name}" + (f": {message}" if message else ""))


class _Writer:
    """The body of a request. `flexible` chooses compact strings and arrays, and tagged fields."""

    def __init__(self, flexible=False):
        self.data, self.flexible = bytearray(), flexible

    def raw(self, layout, *values):
        self.data += struct.pack(">" + layout, *values)
        return self

    def _unsigned(self, value):
        while value > 0x7F:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def string(self, text):
        encoded = None if text is None else text.encode()
        if self.flexible:
            self._unsigned(0 if encoded is None else len(encoded) + 1)
        else:
            self.raw("h", -1 if encoded is None else len(encoded))
        self.data += encoded or b""
        return self

    def blob(self, value):
        self.raw("i", -1 if value is None else len(value))
        self.data += value or b""
        return self

    def array(self, values, write):
        """write(writer, value) for each; None is the null array."""
        if self.flexible:
            self._unsigned(0 if values is None else len(values) + 1)
        else:
            self.raw("i", -1 if values is None else len(values))
        for value in values or ():
            write(self, value)
        return self

    def tags(self):
        if self.flexible:
            self.data.append(0)
        return self


class _Reader:
    """The body of an answer."""

    def __init__(self, data, flexible=False):
        self.data, self.at, self.flexible = data, 0, flexible

    def raw(self, layout):
        values = struct.unpack_from(">" + layout, self.data, self.at)
        self.at += struct.calcsize(">" + layout)
        return values if len(values) > 1 else values[0]

    def _unsigned(self):
        shift = value = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _length(self, layout):
        return self._unsigned() - 1 if self.flexible else self.raw(layout)

    def _take(self, length):
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length:self.at]

    def string(self):
        value = self._take(self._length("h"))
        return None if value is None else bytes(value).decode()

    def blob(self):
        return self._take(self._length("i"))

    def array(self, read):
        return [read(self) for _ in range(max(self._length("i"), 0))]

    def tags(self):
        if self.flexible:
            for _ in range(self._unsigned()):
                self._unsigned()
                self._take(self._unsigned())


def _unpack(layout):
    return lambda reader: reader.raw(layout)


def _topics(rows):
    """[(topic, partition, ...)] grouped: [(topic, [(partition, ...)])]."""
    grouped = {}
    for topic, *rest in rows:
        grouped.setdefault(topic, []).append(tuple(rest))
    return list(grouped.items())


class Client:
    """One connection, made at the first call and anew after a broken one."""

    def __init__(self, bootstrap, client_id="weir-check", timeout_s=30):
        host, _, port = bootstrap.rpartition(":")
        self.address, self.client_id, self.timeout_s = (host, int(port)), client_id, timeout_s
        self._socket, self._correlation = None, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._socket:
            self._socket.close()
        self._socket = None

    def call(self, api, version, body):
        """Sends one request; the reader of its answer. For APIs that have no method here, too."""
        flexible = (api, version) in FLEXIBLE
        self._correlation += 1
        head = struct.pack(">hhih", api, version, self._correlation, len(self.client_id))
        data = head + self.client_id.encode() + (b"\0" if flexible else b"") + bytes(body.data)
        try:
            # Nothing was asked: if there is something to read, the broker has closed it meanwhile.
            if self._socket and select.select([self._socket], [], [], 0)[0]:
                self.close()
            if self._socket is None:
                self._socket = socket.create_connection(self.address, self.timeout_s)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(self.timeout_s)
            self._socket.sendall(struct.pack(">i", len(data)) + data)
            received = self._receive(struct.unpack(">i", self._receive(4))[0])
        except OSError:
            self.close()
            raise
        reader = _Reader(received, flexible)
        correlation = reader.raw("i")
        if correlation != self._correlation:
            self.close()
            raise KafkaError(f"API {api}", -1, f"answer {correlation} to {self._correlation}")
        reader.tags()
        return reader

    def _receive(self, length):
        data = bytearray(length)
        view, at = memoryview(data), 0
        while at < length:
            got = self._socket.recv_into(view[at:])
            if got == 0:
                raise ConnectionResetError("the broker closed the connection")
            at += got
        return data

    def _retrying(self, attempt):
        """attempt() until it does not end in an error that passes by itself."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if error.code not in PASSING or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_PAUSE_S)

    # ---- the cluster and its topics

    def api_versions(self):
        """{API key: (lowest, highest version)} that the broker accepts."""
        reader = self.call(API_VERSIONS, 0, _Writer())
        _check("ApiVersions", reader.raw("h"))
        return {key: (low, high) for key, low, high in reader.array(_unpack("hhh"))}

    def metadata(self, topics=None):
        """{topic: {partition: leader}}; of all topics without an argument."""
        body = _Writer().array(topics, _Writer.string).raw("?", False)
        reader = self.call(METADATA, 4, body)
        reader.raw("i")
        reader.array(lambda r: (r.raw("i"), r.string(), r.raw("i"), r.string()))
        reader.string()
        reader.raw("i")
        result = {}

        def topic(r):
            error, name, _ = r.raw("h"), r.string(), r.raw("?")
            partitions = r.array(lambda p: (p.raw("hii"), p.array(_unpack("i")),
                                            p.array(_unpack("i"))))
            _check(f"topic {name}", error)
            result[name] = {index: leader for (_, index, leader), _, _ in sorted(partitions)}
        reader.array(topic)
        return result

    def brokers(self):
        """[(node id, host, port)] that the cluster advertises on this listener."""
        reader = self.call(METADATA, 4, _Writer().array([], _Writer.string).raw("?", False))
        reader.raw("i")
        return [(node, host, port) for node, host, port, _ in
                reader.array(lambda r: (r.raw("i"), r.string(), r.raw("i"), r.string()))]

    def topics(self):
        """Names of the topics that are not Kafka's own."""
        return sorted(name for name in self.metadata() if not name.startswith("__"))

    def partitions(self, topic):
        """Numbers of the topic's partitions."""
        return sorted(self.metadata([topic])[topic])

    def create_topic(self, topic, partitions=1, config=None):
        """Creates it and waits until each partition is led, also in the eyes of the leader: until
        then it refuses what it is asked for as no leader."""
        def write(w, name):
            w.string(name).raw("ih", partitions, 1).array([], None)
            w.array(list((config or {}).items()), lambda v, c: v.string(c[0]).string(str(c[1])))
        body = _Writer().array([topic], write).raw("i?", self._timeout_ms(), False)
        reader = self.call(CREATE_TOPICS, 2, body)
        reader.raw("i")
        for name, error, message in reader.array(lambda r: (r.string(), r.raw("h"), r.string())):
            _check(f"create topic {name}", error, message)
        self._wait_for_leaders(topic, partitions)

    def _wait_for_leaders(self, topic, partitions):
        def attempt():
            try:
                leaders = self.metadata([topic])[topic]
                if len(leaders) < partitions or min(leaders.values()) < 0:
                    raise KafkaError(f"topic {topic}", 5, f"leaders {leaders}")
                for partition in leaders:
                    self.high_watermark(topic, partition)
            except KafkaError as error:
                raise KafkaError(f"topic {topic}", 5) if error.code == 3 else error
        self._retrying(attempt)

    def delete_topic(self, topic):
        """Deletes it and waits until the broker no longer knows it."""
        reader = self.call(DELETE_TOPICS, 1,
                           _Writer().array([topic], _Writer.string).raw("i", self._timeout_ms()))
        reader.raw("i")
        for name, error in reader.array(lambda r: (r.string(), r.raw("h"))):
            _check(f"delete topic {name}", error)
        deadline = time.monotonic() + self.timeout_s
        while topic in self.metadata() and time.monotonic() < deadline:
            time.sleep(RETRY_PAUSE_S)

    def create_partitions(self, topic, total):
        """Grows the topic to `total` partitions."""
        body = _Writer().array([topic], lambda w, t: w.string(t).raw("i", total).array(None, None))
        reader = self.call(CREATE_PARTITIONS, 0, body.raw("i?", self._timeout_ms(), False))
        reader.raw("i")
        for name, error, message in reader.array(lambda r: (r.string(), r.raw("h"), r.string())):
            _check(f"grow topic {name} to {total}", error, message)
        self._wait_for_leaders(topic, total)

    def configs(self, name, kind=TOPIC):
        """{key: value} of a topic, or of a broker (its id as a string) with kind BROKER."""
        body = _Writer().array([name], lambda w, n: w.raw("b", kind).string(n).array(None, None))
        reader = self.call(DESCRIBE_CONFIGS, 1, body.raw("?", False))
        reader.raw("i")

        def result(r):
            error, message, _, owner = r.raw("h"), r.string(), r.raw("b"), r.string()
            entries = r.array(lambda c: (c.string(), c.string(), c.raw("?b?"), c.array(
                lambda s: (s.string(), s.string(), s.raw("b")))))
            _check(f"configuration of {owner}", error, message)
            return {entry[0]: entry[1] for entry in entries}
        return reader.array(result)[0]

    def set_config(self, name, key, value, kind=TOPIC):
        """Sets one key; None puts the default back."""
        def entry(w, _):
            w.string(key).raw("b", 1 if value is None else 0)
            w.string(None if value is None else str(value))
        body = _Writer().array([name], lambda w, n: w.raw("b", kind).string(n).array([0], entry))
        reader = self.call(INCREMENTAL_ALTER_CONFIGS, 0, body.raw("?", False))
        reader.raw("i")
        for error, message, _, owner in reader.array(
                lambda r: (r.raw("h"), r.string(), r.raw("b"), r.string())):
            _check(f"set {key} of {owner}", error, message)

    # ---- who may do what

    def allow(self, rules):
        """Grants (user, operation, kind of resource, name; one that ends in * is a prefix) each, and
        waits until the broker goes by them."""
        def write(w, rule):
            user, operation, resource, name = rule
            w.raw("b", RESOURCES[resource]).string(name.rstrip("*"))
            w.raw("b", PREFIXED if name.endswith("*") else LITERAL).string(f"User:{user}")
            w.string("*").raw("bb", OPERATIONS[operation], ALLOW)
        reader = self.call(CREATE_ACLS, 1, _Writer().array(rules, write))
        reader.raw("i")
        for rule, (error, message) in zip(rules, reader.array(lambda r: (r.raw("h"), r.string()))):
            _check(f"allow {rule}", error, message)

        def attempt():
            missing = set(rules) - self.rules()
            if missing:
                raise KafkaError(f"allow {sorted(missing)}", 7, "the broker does not know it yet")
        self._retrying(attempt)

    def rules(self):
        """{(user, operation, kind of resource, name)} that are granted."""
        body = _Writer().raw("b", ANY).string(None).raw("b", ANY).string(None).string(None)
        reader = self.call(DESCRIBE_ACLS, 1, body.raw("bb", ANY, ANY))
        reader.raw("i")
        _check("describe rules", reader.raw("h"), reader.string())
        resources = {number: name for name, number in RESOURCES.items()}
        operations = {number: name for name, number in OPERATIONS.items()}

        def resource(r):
            kind, name, pattern = r.raw("b"), r.string(), r.raw("b")
            name += "*" if pattern == PREFIXED else ""
            return [(user.removeprefix("User:"), operations[operation], resources[kind], name)
                    for user, operation in r.array(one)]

        def one(r):
            user, _, (operation, _) = r.string(), r.string(), r.raw("bb")
            return user, operation
        return {rule for rules in reader.array(resource) for rule in rules}

    # ---- rows and offsets

    def offset(self, topic, partition, timestamp, read_committed=False):
        """An end of the log (EARLIEST, LATEST), or the offset of the first row not older than a
        timestamp in ms (-1 if there is none)."""
        def attempt():
            body = _Writer().raw("ib", -1, 1 if read_committed else 0).array(
                [topic], lambda w, t: w.string(t).array([partition], lambda v, p: v.raw(
                    "iq", p, timestamp)))
            reader = self.call(LIST_OFFSETS, 2, body)
            reader.raw("i")
            _, [(_, error, _, offset)] = reader.array(
                lambda r: (r.string(), r.array(_unpack("ihqq"))))[0]
            _check(f"offsets of {topic}/{partition}", error)
            return offset
        return self._retrying(attempt)

    def earliest(self, topic, partition):
        return self.offset(topic, partition, EARLIEST)

    def high_watermark(self, topic, partition):
        return self.offset(topic, partition, LATEST)

    def last_stable_offset(self, topic, partition):
        """Where a reader of committed rows ends: below the high watermark while a transaction is
        open."""
        return self.offset(topic, partition, LATEST, read_committed=True)

    def fetch_batches(self, topic, partition, offset, read_committed=True, bytes_max=1 << 20,
                      wait_ms=500):
        """One fetch: (batches with offset or behind it, aborted [(producer id, first offset)],
        last stable offset, high watermark)."""
        def one(w, p):
            w.raw("iqqi", p, offset, -1, bytes_max)
        body = _Writer().raw("iiiib", -1, wait_ms, 1, bytes_max, 1 if read_committed else 0)
        body.array([topic], lambda w, t: w.string(t).array([partition], one))
        reader = self.call(FETCH, 5, body)
        reader.raw("i")

        def part(r):
            fields = r.raw("ihqqq")
            return fields, r.array(_unpack("qq")), r.blob()
        (_, error, watermark, stable, _), aborted, blob = reader.array(
            lambda r: (r.string(), r.array(part)))[0][1][0]
        _check(f"fetch {topic}/{partition} from {offset}", error)
        batches = [batch for batch in decode_batches(blob or b"", partition)
                   if batch.last_offset >= offset]
        return batches, aborted, stable, watermark

    def read_partition(self, topic, partition, start=None, end=None, read_committed=True):
        """The rows of [start, end) in order; from the earliest to the last stable offset (or, with
        read_committed=False, to the high watermark) unless given. Rows of aborted and, with
        read_committed, of open transactions are left out."""
        at = self.earliest(topic, partition) if start is None else start
        if end is None:
            end = self.offset(topic, partition, LATEST, read_committed)
        rows, aborting, ended = [], set(), {}
        deadline = time.monotonic() + self.timeout_s
        while at < end:
            batches, aborted, _, _ = self._retrying(
                lambda: self.fetch_batches(topic, partition, at, read_committed))
            if not batches:
                if time.monotonic() > deadline:
                    raise KafkaError(f"read {topic}/{partition}", 7,
                                     f"nothing at {at}, before {end}, in {self.timeout_s} s")
                continue
            deadline = time.monotonic() + self.timeout_s
            # An aborted transaction: from its first offset to its producer's next control batch.
            starts = sorted((first, producer) for producer, first in aborted
                            if ended.get(producer, -1) < first)
            for batch in batches:
                while starts and starts[0][0] <= batch.last_offset:
                    aborting.add(starts.pop(0)[1])
                if batch.control is not None:
                    aborting.discard(batch.producer_id)
                    ended[batch.producer_id] = batch.base_offset
                elif not (read_committed and batch.transactional and
                          batch.producer_id in aborting):
                    rows += [row for row in batch.records if at <= row.offset < end]
                at = batch.last_offset + 1
        return rows

    def read_topic(self, topic, read_committed=True):
        """The rows of all partitions, partition by partition."""
        return [row for partition in self.partitions(topic)
                for row in self.read_partition(topic, partition, read_committed=read_committed)]

    def produce(self, topic, partition, records, gzip=False, **producer):
        """Appends records (Record, or a value as bytes or str, or (key, value)) in one batch and
        returns the offset of the first. `timestamp` -1 becomes the present."""
        batch = encode_batch(_as_records(records), gzip=gzip, transactional="id" in producer,
                             **{key: value for key, value in producer.items() if key != "id"})

        def attempt():
            body = _Writer().string(producer.get("id")).raw("hi", -1, self._timeout_ms())
            body.array([topic], lambda w, t: w.string(t).array(
                [partition], lambda v, p: v.raw("i", p).blob(batch)))
            _, [(_, error, offset, _)] = self.call(PRODUCE, 3, body).array(
                lambda r: (r.string(), r.array(_unpack("ihqq"))))[0]
            _check(f"produce to {topic}/{partition}", error)
            return offset
        return self._retrying(attempt)

    def delete_records(self, topic, partition, before):
        """Deletes the rows below the offset `before`; the new earliest offset."""
        body = _Writer().array([topic], lambda w, t: w.string(t).array(
            [partition], lambda v, p: v.raw("iq", p, before))).raw("i", self._timeout_ms())
        reader = self.call(DELETE_RECORDS, 0, body)
        reader.raw("i")
        _, [(_, low, error)] = reader.array(lambda r: (r.string(), r.array(_unpack("iqh"))))[0]
        _check(f"delete records of {topic}/{partition} before {before}", error)
        return low

    # ---- groups

    def find_coordinator(self, key, transactional=False):
        """(node, host, port), once there is one; creates Kafka's internal topic if need be."""
        def attempt():
            body = _Writer().string(key).raw("b", 1 if transactional else 0)
            reader = self.call(FIND_COORDINATOR, 1, body)
            reader.raw("i")
            _check(f"coordinator of {key}", reader.raw("h"), reader.string())
            return reader.raw("i"), reader.string(), reader.raw("i")
        return self._retrying(attempt)

    def groups(self):
        """Names of all groups."""
        def attempt():
            reader = self.call(LIST_GROUPS, 0, _Writer())
            _check("list groups", reader.raw("h"))
            return sorted(r for r, _ in reader.array(lambda r: (r.string(), r.string())))
        return self._retrying(attempt)

    def delete_group(self, group):
        self.find_coordinator(group)

        def attempt():
            reader = self.call(DELETE_GROUPS, 0, _Writer().array([group], _Writer.string))
            reader.raw("i")
            for name, error in reader.array(lambda r: (r.string(), r.raw("h"))):
                _check(f"delete group {name}", error)
        self._retrying(attempt)

    def group_offset(self, group, topic, partition, stable=True):
        """(offset, metadata) that the group has committed, offset -1 for none. With `stable` it
        waits for the end of a transaction that is about to change it."""
        return self.group_offsets(group, [(topic, partition)], stable)[topic, partition]

    def group_offsets(self, group, partitions=None, stable=True):
        """{(topic, partition): (offset, metadata)} of the given ones, or of all that the group has
        committed: then offsets that a first transaction still holds are not among them."""
        self.find_coordinator(group)
        wanted = None if partitions is None else _topics(partitions)

        def attempt():
            def one(w, topic):
                w.string(topic[0]).array(topic[1], lambda v, p: v.raw("i", p[0])).tags()
            body = _Writer(flexible=True).string(group).array(wanted, one).raw("?", stable).tags()
            reader = self.call(OFFSET_FETCH, 7, body)
            reader.raw("i")
            rows = {}

            def partition(r):
                (index, offset, _), metadata, error = r.raw("iqi"), r.string(), r.raw("h")
                r.tags()
                return index, offset, metadata, error

            def topic(r):
                name = r.string()
                for index, offset, metadata, error in r.array(partition):
                    _check(f"offset of {group} in {name}/{index}", error)
                    rows[name, index] = (offset, metadata)
                r.tags()
            reader.array(topic)
            _check(f"offsets of {group}", reader.raw("h"))
            return rows
        return self._retrying(attempt)

    def commit_group_offset(self, group, topic, partition, offset, metadata=""):
        """Commits as a client outside of the group, which must have no members."""
        self.find_coordinator(group)

        def attempt():
            body = _Writer().string(group).raw("i", -1).string("").array(
                [topic], lambda w, t: w.string(t).array(
                    [partition], lambda v, p: v.raw("iq", p, offset).string(metadata)))
            reader = self.call(OFFSET_COMMIT, 5, body)
            reader.raw("i")
            _, [(_, error)] = reader.array(lambda r: (r.string(), r.array(_unpack("ih"))))[0]
            _check(f"commit {offset} of {group} in {topic}/{partition}", error)
        self._retrying(attempt)

    # ---- transactions

    def new_producer_id(self):
        """One without a transactional id: (producer id, epoch)."""
        def attempt():
            reader = self.call(INIT_PRODUCER_ID, 1, _Writer().string(None).raw("i", 0))
            reader.raw("i")
            error, producer_id, epoch = reader.raw("hqh")
            _check("new producer id", error)
            return producer_id, epoch
        return self._retrying(attempt)

    def transactions(self):
        """{transactional id: (producer id, state)} that the broker knows, ended ones too."""
        def attempt():
            body = _Writer(flexible=True).array([], None).array([], None).tags()
            reader = self.call(LIST_TRANSACTIONS, 0, body)
            reader.raw("i")
            _check("list transactions", reader.raw("h"))
            reader.array(_Reader.string)

            def one(r):
                name, producer, state = r.string(), r.raw("q"), r.string()
                r.tags()
                return name, (producer, state)
            return dict(reader.array(one))
        return self._retrying(attempt)

    def describe_transaction(self, transactional_id):
        """{state, timeout_ms, started_ms, producer_id, producer_epoch, partitions}."""
        self.find_coordinator(transactional_id, transactional=True)

        def attempt():
            body = _Writer(flexible=True).array([transactional_id], _Writer.string).tags()
            reader = self.call(DESCRIBE_TRANSACTIONS, 0, body)
            reader.raw("i")

            def topic(r):
                name, partitions = r.string(), r.array(_unpack("i"))
                r.tags()
                return [(name, index) for index in partitions]

            def one(r):
                error, name, state = r.raw("h"), r.string(), r.string()
                timeout, started, producer, epoch = r.raw("iqqh")
                partitions = [p for group in r.array(topic) for p in group]
                r.tags()
                _check(f"describe transaction {name}", error)
                return {"state": state, "timeout_ms": timeout, "started_ms": started,
                        "producer_id": producer, "producer_epoch": epoch,
                        "partitions": partitions}
            return reader.array(one)[0]
        return self._retrying(attempt)

    def producers(self, topic, partition):
        """[(producer id, epoch, first offset of its open transaction or -1)] of a partition."""
        def attempt():
            body = _Writer(flexible=True)
            body.array([topic], lambda w, t: w.string(t).array(
                [partition], lambda v, p: v.raw("i", p)).tags()).tags()
            reader = self.call(DESCRIBE_PRODUCERS, 0, body)
            reader.raw("i")

            def producer(r):
                number, epoch, _, _, _, start = r.raw("qiiqiq")
                r.tags()
                return number, epoch, start

            def part(r):
                (index, error), message = r.raw("ih"), r.string()
                active = r.array(producer)
                r.tags()
                _check(f"producers of {topic}/{index}", error, message)
                return active

            def one(r):
                r.string()
                parts = r.array(part)
                r.tags()
                return parts
            return reader.array(one)[0][0]
        return self._retrying(attempt)

    def open_transactions(self, topic):
        """What holds readers of committed rows back: [(partition, producer id, first offset)]."""
        return [(partition, producer, start) for partition in self.partitions(topic)
                for producer, _, start in self.producers(topic, partition) if start >= 0]

    def hanging_transactions(self, topics, seconds=5):
        """What the broker's own tool calls so (kafka-transactions find-hanging): open transactions
        of which no coordinator knows, so that nothing will ever end them: still so after `seconds`.
        [(topic, partition, producer id, first offset)]"""
        def look():
            held = {(topic, *one) for topic in topics for one in self.open_transactions(topic)}
            known = set()
            for name, (_, state) in self.transactions().items() if held else ():
                if state in ENDED:
                    continue
                found = self.describe_transaction(name)
                known |= {(*place, found["producer_id"]) for place in found["partitions"]}
            return {one for one in held if one[:3] not in known}
        # The two questions are not asked at one time: jobs that go on end theirs in between.
        deadline = time.monotonic() + seconds
        found = look()
        while found and time.monotonic() < deadline:
            time.sleep(RETRY_PAUSE_S)
            found &= look()
        return sorted(found)

    def wait_until_settled(self, topic, seconds=5):
        """Until no transaction holds readers of committed rows back: on every partition the last
        stable offset is the high watermark, and no producer has a transaction open."""
        deadline = time.monotonic() + seconds
        while True:
            ends = {partition: (self.last_stable_offset(topic, partition),
                                self.high_watermark(topic, partition))
                    for partition in self.partitions(topic)}
            held = self.open_transactions(topic)
            if not held and all(stable == watermark for stable, watermark in ends.values()):
                return
            if time.monotonic() > deadline:
                raise KafkaError(f"settle {topic} in {seconds} s", 7,
                                 f"(last stable offset, high watermark) {ends}; open (partition, "
                                 f"producer id, first offset) {held}")
            time.sleep(RETRY_PAUSE_S)

    def _timeout_ms(self):
        return int(self.timeout_s * 1000)


class Transaction:
    """One producer with a transactional id, request by request: what a test wants to leave open,
    abort or commit. Each call is one request; nothing is done behind one's back."""

    def __init__(self, client, transactional_id, timeout_ms=60000):
        """Initialises the id: an earlier producer is fenced, its open transaction aborted."""
        self.client, self.id = client, transactional_id
        self.partitions, self.sequences = set(), {}
        client.find_coordinator(transactional_id, transactional=True)

        def attempt():
            body = _Writer().string(transactional_id).raw("i", timeout_ms)
            reader = client.call(INIT_PRODUCER_ID, 1, body)
            reader.raw("i")
            error, self.producer_id, self.epoch = reader.raw("hqh")
            _check(f"initialise {transactional_id}", error)
        client._retrying(attempt)

    def _identity(self, body):
        return body.string(self.id).raw("qh", self.producer_id, self.epoch)

    def add_partition(self, topic, partition):
        def attempt():
            body = self._identity(_Writer()).array([topic], lambda w, t: w.string(t).array(
                [partition], lambda v, p: v.raw("i", p)))
            reader = self.client.call(ADD_PARTITIONS_TO_TXN, 0, body)
            reader.raw("i")
            _, [(_, error)] = reader.array(lambda r: (r.string(), r.array(_unpack("ih"))))[0]
            _check(f"add {topic}/{partition} to {self.id}", error)
        self.client._retrying(attempt)
        self.partitions.add((topic, partition))

    def produce(self, topic, partition, records, gzip=False):
        """Appends in one batch; the offset of the first."""
        if (topic, partition) not in self.partitions:
            self.add_partition(topic, partition)
        sequence = self.sequences.get((topic, partition), 0)
        offset = self.client.produce(topic, partition, records, gzip, id=self.id,
                                     producer_id=self.producer_id, producer_epoch=self.epoch,
                                     base_sequence=sequence)
        self.sequences[topic, partition] = sequence + len(records)
        return offset

    def send_offset(self, group, topic, partition, offset, metadata=""):
        """Commits an offset of the group with the transaction."""
        self.client.find_coordinator(group)

        def add():
            reader = self.client.call(ADD_OFFSETS_TO_TXN, 0,
                                      self._identity(_Writer()).string(group))
            _check(f"add group {group} to {self.id}", reader.raw("ih")[1])

        def send():
            body = _Writer().string(self.id).string(group).raw("qh", self.producer_id, self.epoch)
            body.array([topic], lambda w, t: w.string(t).array(
                [partition], lambda v, p: v.raw("iq", p, offset).string(metadata)))
            reader = self.client.call(TXN_OFFSET_COMMIT, 0, body)
            reader.raw("i")
            _, [(_, error)] = reader.array(lambda r: (r.string(), r.array(_unpack("ih"))))[0]
            _check(f"offset of {group} in {self.id}", error)
        self.client._retrying(add)
        self.client._retrying(send)

    def _end(self, commit):
        def attempt():
            reader = self.client.call(END_TXN, 0, self._identity(_Writer()).raw("?", commit))
            _check(f"{'commit' if commit else 'abort'} {self.id}", reader.raw("ih")[1])
        self.client._retrying(attempt)
        self.partitions.clear()

    def commit(self):
        self._end(True)

    def abort(self):
        self._end(False)


def _as_records(records):
    result = []
    for record in records:
        if not isinstance(record, Record):
            key, value = record if isinstance(record, tuple) else (None, record)
            record = Record(_as_bytes(key), _as_bytes(value))
        if record.timestamp < 0:
            record.timestamp = int(time.time() * 1000)
        result.append(record)
    return result


def _as_bytes(value):
    return value.encode() if isinstance(value, str) else value


def _check(what, code, message=None):
    if code != 0:
        raise KafkaError(what, code, message)


def wait_until_up(bootstrap, seconds, alive=lambda: True):
    """Until the broker answers and counts itself a member of its cluster; False when `alive()`
    turned false or the time ran out."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and alive():
        with contextlib.suppress(OSError, KafkaError), Client(bootstrap, timeout_s=2) as client:
            if client.brokers():
                return True
        time.sleep(RETRY_PAUSE_S)
    return False
