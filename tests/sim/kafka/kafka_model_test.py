#!/usr/bin/env python3
"""The simulation's model of a broker against a real one: the same calls to both, request by
request, and each answer and all that a reader sees must be the same. What the model gets wrong, no
seed would notice.

Usage: kafka_model_test.py <kafka_model> [unittest arguments]
"""

import pathlib
import subprocess
import sys
import time
import unittest

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE_DIR / "tests/support/kafka"))

import kafka_broker  # noqa: E402
import kafka_wire  # noqa: E402
from kafka_wire import _Writer  # noqa: E402

MODEL = None
# Answers that pass by themselves; how long a call waits for that.
PASSING = {kafka_wire.ERRORS[code] for code in kafka_wire.PASSING}
PATIENCE_S = 10
PAUSE_S = 0.02
# A broker looks for transactions that take too long once in ten seconds.
TIMED_OUT_S = 14


class Model:
    """The model; its time passes when it is told so."""

    def __init__(self):
        self.process = subprocess.Popen([MODEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def wait(self, seconds):
        self.ask("advance", int(seconds * 1000))

    def create_topic(self, topic, partitions):
        self.ask("topic", topic, partitions)

    def init(self, name, timeout_ms):
        error, *producer = self.ask("init", name, timeout_ms)
        return error, tuple(int(word) for word in producer)

    def add(self, name, producer, topic, partition):
        return self.ask("add", name, *producer, topic, partition)[0]

    def produce(self, name, producer, topic, partition, sequence, values):
        return self.ask("produce", name, *producer, topic, partition, sequence, *values)[0]

    def add_group(self, name, producer, group):
        return self.ask("add_group", name, *producer, group)[0]

    def send(self, name, producer, group, topic, partition, offset, metadata):
        return self.ask("send", name, *producer, group, topic, partition, offset, metadata)[0]

    def end(self, name, producer, commit):
        return self.ask("end", name, *producer, "commit" if commit else "abort")[0]

    def offset(self, group, topic, partition):
        error, *fields = self.ask("offset", group, topic, partition)
        return (error, int(fields[0]), fields[1] if len(fields) > 1 else "") if fields else (error,)

    def read(self, topic, partition):
        return self.ask("read", topic, partition)[1:]

    def ends(self, topic, partition):
        return tuple(int(word) for word in self.ask("ends", topic, partition)[1:])

    def state(self, name):
        return self.ask("state", name)[1]


class Real:
    """A real broker, by single requests."""

    def __init__(self, client):
        self.client = client
        self.known = set()

    def close(self):
        pass

    def wait(self, seconds):
        time.sleep(seconds)

    def create_topic(self, topic, partitions):
        self.client.create_topic(topic, partitions=partitions)

    def _coordinated(self, name, transactional):
        if name not in self.known:
            self.client.find_coordinator(name, transactional=transactional)
            self.known.add(name)

    @staticmethod
    def _name(code):
        return "NONE" if code == 0 else kafka_wire.ERRORS.get(code, str(code))

    def init(self, name, timeout_ms):
        self._coordinated(name, True)
        reader = self.client.call(kafka_wire.INIT_PRODUCER_ID, 1,
                                  _Writer().string(name).raw("i", timeout_ms))
        reader.raw("i")
        error, producer_id, epoch = reader.raw("hqh")
        return self._name(error), (producer_id, epoch) if error == 0 else ()

    def _identity(self, name, producer):
        return _Writer().string(name).raw("qh", *producer)

    def add(self, name, producer, topic, partition):
        body = self._identity(name, producer).array([topic], lambda w, t: w.string(t).array(
            [partition], lambda v, p: v.raw("i", p)))
        reader = self.client.call(kafka_wire.ADD_PARTITIONS_TO_TXN, 0, body)
        reader.raw("i")
        _, [(_, error)] = reader.array(
            lambda r: (r.string(), r.array(lambda v: v.raw("ih"))))[0]
        return self._name(error)

    def produce(self, name, producer, topic, partition, sequence, values):
        batch = kafka_wire.encode_batch(
            kafka_wire._as_records(list(values)), transactional=True, producer_id=producer[0],
            producer_epoch=producer[1], base_sequence=sequence)
        body = _Writer().string(name).raw("hi", -1, 10000).array(
            [topic], lambda w, t: w.string(t).array(
                [partition], lambda v, p: v.raw("i", p).blob(batch)))
        reader = self.client.call(kafka_wire.PRODUCE, 3, body)
        _, [(_, error, _, _)] = reader.array(
            lambda r: (r.string(), r.array(lambda v: v.raw("ihqq"))))[0]
        return self._name(error)

    def add_group(self, name, producer, group):
        self._coordinated(group, False)
        reader = self.client.call(kafka_wire.ADD_OFFSETS_TO_TXN, 0,
                                  self._identity(name, producer).string(group))
        return self._name(reader.raw("ih")[1])

    def send(self, name, producer, group, topic, partition, offset, metadata):
        self._coordinated(group, False)
        body = _Writer().string(name).string(group).raw("qh", *producer)
        body.array([topic], lambda w, t: w.string(t).array(
            [partition], lambda v, p: v.raw("iq", p, offset).string(metadata)))
        reader = self.client.call(kafka_wire.TXN_OFFSET_COMMIT, 0, body)
        reader.raw("i")
        _, [(_, error)] = reader.array(
            lambda r: (r.string(), r.array(lambda v: v.raw("ih"))))[0]
        return self._name(error)

    def end(self, name, producer, commit):
        reader = self.client.call(kafka_wire.END_TXN, 0,
                                  self._identity(name, producer).raw("?", commit))
        return self._name(reader.raw("ih")[1])

    def offset(self, group, topic, partition):
        self._coordinated(group, False)
        body = _Writer(flexible=True).string(group).array(
            [topic], lambda w, t: w.string(t).array(
                [partition], lambda v, p: v.raw("i", p)).tags()).raw("?", True).tags()
        reader = self.client.call(kafka_wire.OFFSET_FETCH, 7, body)
        reader.raw("i")

        def one(r):
            (_, offset, _), metadata, error = r.raw("iqi"), r.string(), r.raw("h")
            r.tags()
            return offset, metadata, error

        def of_topic(r):
            r.string()
            rows = r.array(one)
            r.tags()
            return rows
        [[(offset, metadata, error)]] = reader.array(of_topic)
        return (self._name(error), offset, metadata) if error == 0 else (self._name(error),)

    def read(self, topic, partition):
        return [bytes(row.value).decode() for row in self.client.read_partition(topic, partition)]

    def ends(self, topic, partition):
        return (self.client.last_stable_offset(topic, partition),
                self.client.high_watermark(topic, partition))

    def state(self, name):
        return self.client.describe_transaction(name)["state"]


class Both:
    """Plays each call to the model and to the real broker; they must answer alike."""

    def __init__(self, test, client):
        self.test, self.model, self.real = test, Model(), Real(client)
        self.topic, self.group = kafka_broker.unique("model"), kafka_broker.unique("model-group")
        self.model.create_topic(self.topic, 2)
        self.real.create_topic(self.topic, 2)
        self.sequences = {}
        self.step = 0

    def close(self):
        self.model.close()

    def name(self, text):
        return f"{self.topic}-{text}"

    def _alike(self, what, ask, patient=True):
        """ask(side) of both, each until it answers for good."""
        self.step += 1
        answers = []
        for side in (self.model, self.real):
            deadline = PATIENCE_S / PAUSE_S
            while True:
                answer = ask(side)
                error = answer if isinstance(answer, str) else answer[0]
                if not patient or error not in PASSING:
                    break
                side.wait(PAUSE_S)
                deadline -= 1
                self.test.assertGreater(deadline, 0, f"{what}: {error} for too long")
            answers.append(answer)
        self.test.assertEqual(answers[0], answers[1], f"step {self.step}, {what}: model, broker")
        return answers[0]

    def init(self, name, timeout_ms=60000):
        """The producer: its number at the model and at the real broker, and its epoch."""
        numbers = {}

        def ask(side):
            error, producer = side.init(self.name(name), timeout_ms)
            numbers[side] = producer
            return error, producer[1] if producer else None
        error, epoch = self._alike(f"init {name}", ask)
        if error != "NONE":
            return error
        return Producer(self, self.name(name), {side: producer[0]
                                                for side, producer in numbers.items()}, epoch)

    def wait(self, seconds):
        self.model.wait(seconds)
        self.real.wait(seconds)

    def see(self):
        """What a reader sees of both partitions and of the group, once nothing is being ended."""
        seen = {}
        for partition in range(2):
            seen[partition] = self._alike(
                f"rows of {partition}", lambda side, p=partition: ("", side.read(self.topic, p)))[1]
            seen["ends", partition] = self._alike(
                f"ends of {partition}", lambda side, p=partition: ("", *side.ends(self.topic, p)))
        return seen

    def offset(self, patient=True):
        return self._alike("offset", lambda side: side.offset(self.group, self.topic, 0), patient)

    def settle(self, name, state):
        """Until both say that the id's transaction is in that state."""
        for side in (self.model, self.real):
            deadline = TIMED_OUT_S / 0.1
            while side.state(self.name(name)) != state:
                side.wait(0.1)
                deadline -= 1
                self.test.assertGreater(deadline, 0, f"{side.state(self.name(name))}, not {state}")


class Producer:
    """One instance of a transactional id, at both."""

    def __init__(self, both, name, numbers, epoch):
        self.both, self.name, self.numbers, self.epoch = both, name, numbers, epoch
        self.sequences = {}

    def _at(self, side):
        return self.numbers[side], self.epoch

    def add(self, partition):
        return self.both._alike("add partition", lambda side: side.add(
            self.name, self._at(side), self.both.topic, partition))

    def produce(self, partition, *values, sequence=None):
        if sequence is None:
            sequence = self.sequences.get(partition, 0)
        error = self.both._alike(f"produce {values}", lambda side: side.produce(
            self.name, self._at(side), self.both.topic, partition, sequence, values))
        if error == "NONE":
            self.sequences[partition] = max(self.sequences.get(partition, 0),
                                            sequence + len(values))
        return error

    def add_group(self):
        return self.both._alike("add group", lambda side: side.add_group(
            self.name, self._at(side), self.both.group))

    def send(self, offset, metadata):
        return self.both._alike(f"send offset {offset}", lambda side: side.send(
            self.name, self._at(side), self.both.group, self.both.topic, 0, offset, metadata))

    def end(self, commit, patient=True):
        return self.both._alike("commit" if commit else "abort", lambda side: side.end(
            self.name, self._at(side), commit), patient)

    def marker(self, offset, metadata):
        return [self.add_group(), self.send(offset, metadata)]


class KafkaModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(kafka_broker.shared())

    def setUp(self):
        self.client = self.enterContext(kafka_wire.Client(self.broker.bootstrap))
        self.both = Both(self, self.client)
        self.addCleanup(self.both.close)

    def assert_done(self, *answers):
        self.assertEqual(set(answers), {"NONE"})

    def test_rows_and_marker_are_seen_together_after_the_commit(self):
        both = self.both
        self.assertEqual(both.offset(), ("NONE", -1, ""))
        one = both.init("one")
        self.assert_done(one.add(0), one.add(1), one.produce(0, "a", "b"), one.produce(1, "c"))
        self.assertEqual(both.see()["ends", 0], ("", 0, 2), "last stable offset, high watermark")
        self.assert_done(*one.marker(7, "first"))
        self.assertEqual(both.offset(patient=False), ("UNSTABLE_OFFSET_COMMIT",))
        self.assertEqual(both.see()[0], [])
        self.assert_done(one.end(True))
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.offset(), ("NONE", 7, "first"))
        seen = both.see()
        self.assertEqual((seen[0], seen[1]), (["a", "b"], ["c"]))
        self.assertEqual(seen["ends", 0], ("", 3, 3), "the control record counts")
        # The answer was lost, and the request comes once more: all is well. The other way is not.
        self.assert_done(one.end(True))
        self.assertEqual(one.end(False), "INVALID_TXN_STATE")
        # An aborted one leaves the rows out and the marker as it was.
        self.assert_done(one.add(0), one.produce(0, "d"), *one.marker(8, "second"), one.end(False))
        both.settle("one", "CompleteAbort")
        self.assertEqual(both.offset(), ("NONE", 7, "first"))
        self.assertEqual(both.see()[0], ["a", "b"])
        self.assert_done(one.end(False))
        self.assertEqual(one.end(True), "INVALID_TXN_STATE")
        # A row that was sent twice is there once.
        self.assert_done(one.add(0), one.produce(0, "e"), one.produce(0, "e", sequence=3))
        self.assertEqual(one.produce(0, "z", sequence=9), "OUT_OF_ORDER_SEQUENCE_NUMBER")
        self.assert_done(one.end(True))
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.see()[0], ["a", "b", "e"])

    def test_nothing_open(self):
        one = self.both.init("one")
        self.assertEqual(one.end(True), "INVALID_TXN_STATE")
        self.assertEqual(one.end(False), "INVALID_TXN_STATE")
        self.assertEqual(one.produce(0, "a"), "INVALID_TXN_STATE", "not added")
        self.assertEqual(one.send(1, "m"), "INVALID_TXN_STATE", "not added")
        self.assertEqual(self.both.init("two", timeout_ms=900001), "INVALID_TRANSACTION_TIMEOUT")
        self.assertEqual(self.both.see()["ends", 0], ("", 0, 0))

    def test_a_younger_instance_fences_and_settles(self):
        both = self.both
        old = both.init("one")
        self.assert_done(old.add(0), old.produce(0, "a"), *old.marker(3, "old"))
        young = both.init("one")
        self.assertGreater(young.epoch, old.epoch)
        # Settled when it is initialised: the marker read now is final.
        self.assertEqual(both.offset(patient=False), ("NONE", -1, ""))
        self.assertEqual(both.see()["ends", 0], ("", 2, 2))
        fenced = "INVALID_PRODUCER_EPOCH"
        self.assertEqual(old.end(True), fenced)
        self.assertEqual(old.end(False), fenced)
        self.assertEqual(old.add(1), fenced)
        self.assertEqual(old.produce(0, "b"), fenced)
        self.assertEqual(old.produce(1, "b"), fenced)
        self.assertEqual(old.add_group(), fenced)
        self.assertEqual(old.send(4, "old"), fenced)
        self.assert_done(young.add(0), young.produce(0, "c"), *young.marker(4, "young"),
                         young.end(True))
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.see()[0], ["c"])
        self.assertEqual(both.offset(), ("NONE", 4, "young"))
        # Nothing was open: the next one raises the epoch by one.
        third = both.init("one")
        self.assertEqual(third.epoch, young.epoch + 1)
        self.assertEqual(young.end(True), fenced, "although it was committed")

    def test_a_late_commit_tears_the_next_transaction(self):
        both = self.both
        one = both.init("one")
        self.assert_done(one.add(0), one.produce(0, "a"), one.end(True))
        both.settle("one", "CompleteCommit")
        self.assert_done(one.add(0), one.produce(0, "b"))
        self.assert_done(one.end(True))  # the copy that was held back
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.see()[0], ["a", "b"], "half of the rows, and no marker")
        self.assertEqual(one.produce(0, "c"), "INVALID_TXN_STATE")
        self.assertEqual(one.send(1, "m"), "INVALID_TXN_STATE")
        # With a new instance in between, it has no effect.
        two = both.init("one")
        self.assert_done(two.add(0), two.produce(0, "d"))
        self.assertEqual(one.end(True), "INVALID_PRODUCER_EPOCH")
        self.assertEqual(both.see()[0], ["a", "b"])
        self.assert_done(two.produce(0, "e"), two.end(True))
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.see()[0], ["a", "b", "d", "e"])

    def test_a_late_abort_loses_half_of_the_next_transaction(self):
        both = self.both
        one = both.init("one")
        self.assert_done(one.add(0), one.produce(0, "a"), one.end(False))
        both.settle("one", "CompleteAbort")
        self.assert_done(one.add(0), one.produce(0, "b"), one.end(False))
        both.settle("one", "CompleteAbort")
        # Added once more for its marker, the rest goes through.
        self.assert_done(one.add(0), one.produce(0, "c"), *one.marker(1, "m"), one.end(True))
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.see()[0], ["c"])
        self.assertEqual(both.offset(), ("NONE", 1, "m"))

    def test_a_transaction_that_takes_too_long(self):
        both = self.both
        one = both.init("one", timeout_ms=1000)
        self.assert_done(one.add(0), one.produce(0, "a"), *one.marker(5, "m"))
        both.settle("one", "CompleteAbort")
        self.assertEqual(both.see()["ends", 0], ("", 2, 2))
        self.assertEqual(both.offset(), ("NONE", -1, ""))
        fenced = "INVALID_PRODUCER_EPOCH"
        self.assertEqual(one.end(True), fenced)
        self.assertEqual(one.produce(0, "b"), fenced)
        self.assertEqual(one.add(0), fenced)
        two = both.init("one")
        self.assert_done(two.add(0), two.produce(0, "c"), two.end(True))
        both.settle("one", "CompleteCommit")
        self.assertEqual(both.see()[0], ["c"])


if __name__ == "__main__":
    MODEL = sys.argv.pop(1)
    unittest.main()
