"""Goal: the broker of the tests starts, dies and goes on as told, and four ways of looking at it
agree: kafka_wire, kcat, librdkafka and Kafka's own console consumer.

Method: the real broker. Rows are written by one and read by another.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import kafka_broker  # noqa: E402
import kafka_install  # noqa: E402
import kafka_proxy  # noqa: E402
import kafka_wire  # noqa: E402
from kafka_broker import unique  # noqa: E402
from kafka_wire import KafkaError, Transaction  # noqa: E402

SCRIPT = str(kafka_install.HERE.parents[2] / "scripts/kafka")
WAIT_S = 60
DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


class RdkafkaProducer:
    """A transactional producer on librdkafka, as a foreign application would be one."""

    PRODUCER, COPY = 0, 2

    def __init__(self, bootstrap, transactional_id, **settings):
        self.library = ctypes.CDLL("librdkafka.so.1")
        for name in ("conf_new", "new", "topic_new", "init_transactions", "begin_transaction",
                     "commit_transaction", "abort_transaction"):
            getattr(self.library, f"rd_kafka_{name}").restype = ctypes.c_void_p
        self.library.rd_kafka_error_string.restype = ctypes.c_char_p
        configuration = ctypes.c_void_p(self.library.rd_kafka_conf_new())
        message = ctypes.create_string_buffer(512)
        for key, value in {"bootstrap.servers": bootstrap, "transactional.id": transactional_id,
                           **settings}.items():
            if self.library.rd_kafka_conf_set(configuration, key.encode(), value.encode(), message,
                                              ctypes.c_size_t(512)) != 0:
                raise RuntimeError(message.value.decode())
        self.instance = ctypes.c_void_p(self.library.rd_kafka_new(
            self.PRODUCER, configuration, message, ctypes.c_size_t(512)))
        if not self.instance:
            raise RuntimeError(message.value.decode())
        self._call("init_transactions", WAIT_S * 1000)

    def _call(self, name, *arguments):
        error = getattr(self.library, f"rd_kafka_{name}")(self.instance, *arguments)
        if error:
            text = self.library.rd_kafka_error_string(ctypes.c_void_p(error))
            raise RuntimeError(f"{name}: {text.decode()}")

    def begin(self):
        self._call("begin_transaction")

    def produce(self, topic, partition, values):
        handle = ctypes.c_void_p(self.library.rd_kafka_topic_new(self.instance, topic.encode(),
                                                                None))
        for value in values:
            if self.library.rd_kafka_produce(handle, partition, self.COPY, value,
                                             ctypes.c_size_t(len(value)), None,
                                             ctypes.c_size_t(0), None) != 0:
                raise RuntimeError("produce failed")
        if self.library.rd_kafka_flush(self.instance, WAIT_S * 1000) != 0:
            raise RuntimeError("flush failed")
        self.library.rd_kafka_topic_destroy(handle)

    def commit(self):
        self._call("commit_transaction", WAIT_S * 1000)

    def abort(self):
        self._call("abort_transaction", WAIT_S * 1000)

    def close(self):
        """Ends the instance; an open transaction stays open."""
        self.library.rd_kafka_destroy(self.instance)


def kcat(bootstrap, *arguments, text=""):
    done = subprocess.run(["kcat", "-q", "-b", bootstrap, *arguments], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S)
    assert done.returncode == 0, f"kcat {arguments}: {done.stderr}"
    return done.stdout


def values(rows):
    return [row.value.decode() for row in rows]


class SharedBroker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(kafka_broker.shared())

    def setUp(self):
        self.client = kafka_wire.Client(self.broker.bootstrap)
        self.addCleanup(self.client.close)
        self.topic = unique(self.id().rpartition(".")[2])

    def create(self, partitions=1, **config):
        self.client.create_topic(self.topic, partitions, config)


class QuickShared(SharedBroker):
    def test_rows_of_kcat(self):
        self.create(2)
        kcat(self.broker.bootstrap, "-P", "-t", self.topic, "-p", "1", "-K:", "-H", "source=kcat",
             "-H", "empty=", text="a:1\nb:2\n")
        kcat(self.broker.bootstrap, "-P", "-t", self.topic, "-p", "1", "-K:", "-Z", "-z", "gzip",
             text="c:\n")
        rows = self.client.read_topic(self.topic)
        self.assertEqual([(row.partition, row.offset, row.key, row.value) for row in rows],
                         [(1, 0, b"a", b"1"), (1, 1, b"b", b"2"), (1, 2, b"c", None)])
        self.assertEqual(rows[0].headers, [("source", b"kcat"), ("empty", b"")])
        for row in rows:
            self.assertLess(abs(row.timestamp / 1000 - time.time()), WAIT_S)

    def test_kcat_reads_what_kafka_wire_writes(self):
        self.create()
        rows = [kafka_wire.Record(b"k", b"v", [("h", b"1"), ("n", None)], 1_000_000_000_123),
                kafka_wire.Record(None, b"", [], 1_000_000_000_000),
                kafka_wire.Record(b"", None, [], 2)]
        self.assertEqual(self.client.produce(self.topic, 0, rows), 0)
        self.assertEqual(self.client.produce(self.topic, 0, rows[:1], gzip=True), 3)
        text = kcat(self.broker.bootstrap, "-C", "-t", self.topic, "-o", "beginning", "-e",
                    "-f", "%o %T %K %k %S %s %h\n")
        self.assertEqual(text, "0 1000000000123 1 k 1 v h=1,n=NULL\n"
                               "1 1000000000000 -1  0  \n"
                               "2 2 0  -1  \n"
                               "3 1000000000123 1 k 1 v h=1,n=NULL\n")

    def test_committed_aborted_and_open_transactions_of_librdkafka(self):
        self.create()
        producer = RdkafkaProducer(self.broker.bootstrap, self.topic)
        producer.begin()
        producer.produce(self.topic, 0, [b"one", b"two"])
        producer.commit()
        producer.begin()
        producer.produce(self.topic, 0, [b"never"])
        producer.abort()
        producer.begin()
        producer.produce(self.topic, 0, [b"three"])
        producer.commit()
        self.client.wait_until_settled(self.topic)
        expected = ["one", "two", "three"]
        self.assertEqual(values(self.client.read_topic(self.topic)), expected)
        self.assertEqual(values(self.client.read_topic(self.topic, read_committed=False)),
                         ["one", "two", "never", "three"])
        # Left open by an instance that goes away.
        producer.begin()
        producer.produce(self.topic, 0, [b"open"])
        producer.close()
        self.assertEqual(values(self.client.read_topic(self.topic)), expected)
        open_from = self.client.last_stable_offset(self.topic, 0)
        self.assertEqual(open_from, 7)  # four rows, three control records
        self.assertEqual([(partition, start) for partition, _, start in
                          self.client.open_transactions(self.topic)], [(0, open_from)])
        self.assertEqual(self.client.describe_transaction(self.topic)["state"], "Ongoing")
        with self.assertRaisesRegex(KafkaError, r"settle .* \(7, 8\)"):
            self.client.wait_until_settled(self.topic, seconds=0.1)
        # Kafka's own consumer sees the same.
        seen = kafka_broker.run_tool("console-consumer", [
            "--bootstrap-server", self.broker.bootstrap, "--topic", self.topic, "--from-beginning",
            "--isolation-level", "read_committed", "--max-messages", str(len(expected)),
            "--timeout-ms", "30000"])
        self.assertEqual(seen.stdout.split(), expected)
        # The next instance settles it.
        RdkafkaProducer(self.broker.bootstrap, self.topic).close()
        self.client.wait_until_settled(self.topic)
        self.assertEqual(values(self.client.read_topic(self.topic)), expected)

    def test_own_transactions_as_kcat_sees_them(self):
        self.create()
        transaction = Transaction(self.client, self.topic)
        transaction.produce(self.topic, 0, ["1", "2"])
        transaction.send_offset(self.topic, self.topic, 0, 17, "marker")
        self.assertEqual(self.client.group_offset(self.topic, self.topic, 0, stable=False),
                         (-1, ""))
        transaction.commit()
        self.assertEqual(self.client.group_offset(self.topic, self.topic, 0), (17, "marker"))
        transaction.produce(self.topic, 0, ["lost"], gzip=True)
        transaction.send_offset(self.topic, self.topic, 0, 18)
        transaction.abort()
        self.assertEqual(self.client.group_offset(self.topic, self.topic, 0), (17, "marker"))
        transaction.produce(self.topic, 0, ["3"], gzip=True)
        transaction.commit()
        self.client.wait_until_settled(self.topic)
        text = kcat(self.broker.bootstrap, "-C", "-t", self.topic, "-o", "beginning", "-e", "-X",
                    "isolation.level=read_committed")
        self.assertEqual(text, "1\n2\n3\n")
        self.assertEqual(values(self.client.read_topic(self.topic)), ["1", "2", "3"])
        # An earlier producer of the id is fenced, and its rows are gone.
        transaction.produce(self.topic, 0, ["zombie"])
        Transaction(self.client, self.topic)
        with self.assertRaises(KafkaError) as caught:
            transaction.commit()
        self.assertEqual(caught.exception.name, "INVALID_PRODUCER_EPOCH")
        self.client.wait_until_settled(self.topic)
        self.assertEqual(values(self.client.read_topic(self.topic)), ["1", "2", "3"])

    def test_interleaved_transactions(self):
        self.create()
        aborted, committed = (Transaction(self.client, f"{self.topic}-{i}") for i in range(2))
        for i in range(3):
            aborted.produce(self.topic, 0, [f"a{i}"])
            committed.produce(self.topic, 0, [f"c{i}"])
            self.client.produce(self.topic, 0, [f"plain{i}"])
        aborted.abort()
        aborted.produce(self.topic, 0, ["a-later"])
        committed.commit()
        aborted.commit()
        self.client.wait_until_settled(self.topic)
        rows = self.client.read_partition(self.topic, 0)
        self.assertEqual(values(rows), ["c0", "plain0", "c1", "plain1", "c2", "plain2", "a-later"])
        # From any offset on, the same rows without those before it.
        for start in range(self.client.high_watermark(self.topic, 0) + 1):
            self.assertEqual(self.client.read_partition(self.topic, 0, start),
                             [row for row in rows if row.offset >= start], f"from {start}")

    def test_topics_offsets_and_groups(self):
        self.create(2, **{"max.message.bytes": 500})
        self.assertIn(self.topic, self.client.topics())
        self.assertEqual(self.client.configs(self.topic)["max.message.bytes"], "500")
        with self.assertRaisesRegex(KafkaError, "MESSAGE_TOO_LARGE"):
            self.client.produce(self.topic, 0, ["x" * 500])
        self.client.set_config(self.topic, "max.message.bytes", None)
        for i in range(4):
            self.client.produce(self.topic, 0, [kafka_wire.Record(None, b"x" * 500, [], i * 10)])
        self.assertEqual(self.client.offset(self.topic, 0, 15), 2)
        self.assertEqual(self.client.delete_records(self.topic, 0, 3), 3)
        self.assertEqual((self.client.earliest(self.topic, 0),
                          self.client.high_watermark(self.topic, 0)), (3, 4))
        with self.assertRaisesRegex(KafkaError, "OFFSET_OUT_OF_RANGE"):
            self.client.read_partition(self.topic, 0, start=1)
        self.client.create_partitions(self.topic, 5)
        self.assertEqual(self.client.partitions(self.topic), [0, 1, 2, 3, 4])

        self.client.commit_group_offset(self.topic, self.topic, 1, 0, "by hand")
        self.assertEqual(self.client.group_offsets(self.topic), {(self.topic, 1): (0, "by hand")})
        self.client.delete_group(self.topic)
        self.assertNotIn(self.topic, self.client.groups())

        self.client.delete_topic(self.topic)
        self.assertNotIn(self.topic, self.client.topics())
        with self.assertRaisesRegex(KafkaError, "UNKNOWN_TOPIC_OR_PARTITION"):
            self.client.partitions(self.topic)

    def test_a_topic_just_made_is_led(self):
        partitions = 40  # the later ones are led some milliseconds after they are announced
        self.create(partitions)
        with unittest.mock.patch.object(kafka_wire, "PASSING", ()):  # asks once
            self.assertEqual([self.client.high_watermark(self.topic, partition)
                              for partition in reversed(range(partitions))], partitions * [0])


class QuickProxy(SharedBroker):
    def setUp(self):
        super().setUp()
        self.proxy = self.enterContext(kafka_proxy.Proxy.of(self.broker))

    def test_a_client_of_the_proxied_listener_stays_behind_the_proxy(self):
        self.create()
        host, port = self.broker.proxied_bootstrap.split(":")
        with kafka_wire.Client(self.broker.proxied_bootstrap) as client:
            self.assertEqual(client.brokers(), [(1, host, int(port))])
        kcat(self.broker.proxied_bootstrap, "-P", "-t", self.topic, text="a\nb\n")
        self.assertGreaterEqual(self.proxy.counts["Produce"], 1)
        self.assertEqual(values(self.client.read_topic(self.topic)), ["a", "b"])

    def test_a_commit_whose_answer_is_lost_has_happened(self):
        self.create()
        lost = self.proxy.rule("EndTxn", at="answer", action="cut", transactional_id=self.topic)
        producer = RdkafkaProducer(self.broker.proxied_bootstrap, self.topic)
        self.addCleanup(producer.close)
        producer.begin()
        producer.produce(self.topic, 0, [b"row"])
        producer.commit()  # asks again on a new connection
        lost.wait()
        self.assertEqual(self.proxy.counts["EndTxn"], 2)
        self.client.wait_until_settled(self.topic)
        self.assertEqual(values(self.client.read_topic(self.topic)), ["row"])

    def test_a_commit_held_back_ends_the_next_transaction_half_way(self):
        # What a sink must defend itself against: the broker cannot tell an old EndTxn from a new.
        self.create()
        held = self.proxy.rule("EndTxn")
        with kafka_wire.Client(self.broker.proxied_bootstrap, timeout_s=0.5) as cut_off:
            old = Transaction(cut_off, self.topic)
            old.produce(self.topic, 0, ["one"])
            with self.assertRaises(TimeoutError):
                old.commit()
        held.wait()
        with kafka_wire.Client(self.broker.proxied_bootstrap) as again:
            old.client = again
            old.commit()
            self.client.wait_until_settled(self.topic)
            old.produce(self.topic, 0, ["two"])
            self.assertEqual(values(self.client.read_topic(self.topic)), ["one"])
            held.release()
            self.client.wait_until_settled(self.topic)
            self.assertEqual(values(self.client.read_topic(self.topic)), ["one", "two"])
            with self.assertRaisesRegex(KafkaError, "INVALID_TXN_STATE"):
                old.abort()


class QuickKill(unittest.TestCase):
    def script(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)

    def test_what_was_written_survives_sigkill_and_stop(self):
        with kafka_broker.temporary(settings={"message.max.bytes": 20000}) as broker:
            with kafka_wire.Client(broker.bootstrap) as client:
                client.create_topic("in", 2)
                client.produce("in", 1, ["kept"])
                transaction = Transaction(client, "open")
                transaction.produce("in", 1, ["in the air"])
                self.assertEqual(client.configs("1", kafka_wire.BROKER)["message.max.bytes"],
                                 "20000")
                first = broker.pid
                # As another test would do it, whose child it is not.
                kafka_broker.Broker.load(broker.folder).kill()
                self.assertFalse(broker.alive())
                with self.assertRaises(OSError):
                    client.topics()
                broker.start()
                self.assertNotEqual(broker.pid, first)
                # The transaction survived, too; its producer goes on.
                self.assertEqual(values(client.read_topic("in")), ["kept"])
                transaction.produce("in", 1, ["landed"])
                transaction.commit()
                client.wait_until_settled("in")
                self.assertTrue(broker.stop())
                self.assertFalse(broker.alive())
                broker.start()
                self.assertEqual(values(client.read_topic("in")),
                                 ["kept", "in the air", "landed"])
                self.assertEqual(client.configs("1", kafka_wire.BROKER)["message.max.bytes"],
                                 "20000")
        self.assertFalse(broker.folder.exists())

    def test_the_script(self):
        with tempfile.TemporaryDirectory(prefix="weir-kafka-") as folder:
            self.addCleanup(self.script, "stop", "--kill", "--dir", folder)
            self.assertEqual(self.script("status", "--dir", folder).returncode, 3)
            self.assertEqual(self.script("topic", "list", "--dir", folder).returncode, 3)
            started = self.script("start", "--dir", folder, "--port", "0", "--at-most", "600",
                                  "--set", "num.partitions=3")
            self.assertEqual(started.returncode, 0, started.stderr)
            bootstrap = started.stdout.strip()
            self.assertRegex(bootstrap, r"^127\.0\.0\.1:\d+$")
            with open(os.path.join(folder, "bootstrap"), encoding="ascii") as file:
                self.assertEqual(file.read(), started.stdout)
            broker = kafka_broker.Broker.load(folder)
            self.assertIn(f"{bootstrap}, pid {broker.pid}, ",
                          self.script("status", "--dir", folder).stdout)
            # The same once more changes nothing; other settings want a stop first.
            self.assertEqual(self.script("start", "--dir", folder).stdout, started.stdout)
            other = self.script("start", "--dir", folder, "--set", "num.partitions=4")
            self.assertEqual((other.returncode, "stop it first" in other.stderr), (1, True))
            taken = self.script("start", "--dir", os.path.join(folder, "second"), "--port",
                                bootstrap.partition(":")[2])
            self.assertEqual((taken.returncode, "is taken" in taken.stderr), (1, True))
            for arguments, code in ((("start", "--set", "listeners=x"), 1),
                                    (("start", "--set", "x"), 2), (("start", "--port", "x"), 2)):
                self.assertEqual(
                    self.script(*arguments, "--dir", os.path.join(folder, "x")).returncode, code)

            self.assertEqual(self.script("topic", "create", "t", "--partitions", "2", "--config",
                                         "retention.ms=5000", "--dir", folder).returncode, 0)
            again = self.script("topic", "create", "t", "--dir", folder)
            self.assertEqual((again.returncode, "TOPIC_ALREADY_EXISTS" in again.stderr), (1, True))
            self.assertEqual(self.script("topic", "list", "--dir", folder).stdout, "t\n")
            kcat(bootstrap, "-P", "-t", "t", "-p", "1", text="row\n")
            lines = self.script("topic", "describe", "t", "--dir", folder).stdout.splitlines()
            self.assertEqual([line.split() for line in lines[1:]],
                             [["0", "1", "0", "0", "0"], ["1", "1", "0", "1", "1"]])
            with kafka_wire.Client(bootstrap) as client:
                self.assertEqual(client.configs("t")["retention.ms"], "5000")
            self.assertEqual(self.script("topic", "delete", "t", "--dir", folder).returncode, 0)

            pid = broker.pid
            stopped = self.script("stop", "--dir", folder, "--remove")
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            self.assertFalse(os.path.exists(f"/proc/{pid}"))
            self.assertFalse(os.path.exists(folder))
            os.mkdir(folder)


class LongHanging(unittest.TestCase):
    def test_what_hangs_is_found_and_what_is_only_open_is_not(self):
        """Before Kafka 3.6, and with this setting, rows of a transaction that nobody announced were
        taken: nothing ever ends it."""
        with kafka_broker.temporary(settings={
                "transaction.partition.verification.enable": "false"}) as broker, \
                kafka_wire.Client(broker.bootstrap) as client:
            client.create_topic("t", 2)
            open_one = Transaction(client, "open")
            open_one.produce("t", 0, ["open"])
            self.assertEqual(client.hanging_transactions(["t"]), [])
            self.assertEqual(kafka_broker.hanging(broker.bootstrap, "t"), [])
            hanging = Transaction(client, "hanging")
            hanging.partitions.add(("t", 1))  # it is not
            hanging.produce("t", 1, ["hanging"])
            self.assertEqual(client.hanging_transactions(["t"]),
                             [("t", 1, hanging.producer_id, 0)])
            self.assertEqual(kafka_broker.hanging(broker.bootstrap, "t"),
                             [("t", 1, hanging.producer_id, 0)])


class LongKill(unittest.TestCase):
    def test_a_broker_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(kafka_install.BrokerError,
                                    r"(?s)ended at its start.*num\.io\.threads"):
            with kafka_broker.temporary(settings={"num.io.threads": -3}):
                pass

    def test_it_dies_with_the_process_that_started_it(self):
        code = ("import sys, time; sys.path.insert(0, sys.argv[1]); import kafka_broker\n"
                "with kafka_broker.temporary(at_most_s=600) as broker:\n"
                "    print(broker.pid, broker.folder, flush=True); time.sleep(600)\n")
        process = subprocess.Popen(
            [*DIE_WITH_PARENT, sys.executable, "-B", "-c", code, str(kafka_install.HERE)],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        pid, folder = process.stdout.readline().split()
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.assertEqual(kafka_broker.Broker.load(folder).pid, int(pid))
        process.kill()
        process.wait(WAIT_S)
        self.assertTrue(kafka_broker.Broker.load(folder).wait_until_gone(WAIT_S))

    def test_it_ends_after_its_time(self):
        with tempfile.TemporaryDirectory(prefix="weir-kafka-") as folder:
            broker = kafka_broker.Broker(folder, at_most_s=4)
            with contextlib.suppress(kafka_install.BrokerError):  # a slow machine: not even up
                broker.start()
            self.assertTrue(broker.wait_until_gone(WAIT_S))


if __name__ == "__main__":
    unittest.main(verbosity=2)
