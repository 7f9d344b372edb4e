"""Goal: what kafka.sink writes is what was asked for (keys, partitions, headers, timestamps, null
and empty), and what it cannot do it refuses before the job runs, in under 5 s, naming both sides.

Method: rows from files, published and read back by kafka_wire; partitions come from a murmur2
written from its description, and from vectors of Java's clients.
"""

import collections
import datetime
import json
import time
import unittest

from cluster import Cluster, free_port, wait_for
from jobs import read_rows
from kafka_jobs import (SETTLED_S, FileInput, check_counts, copy_job, count_job,
                        decoded, kafka, kafka_wire, made, markers, partition_of, sink_of, timed,
                        visible, wait_for_visible, wait_until_marked)

REFUSED_S = 5
VECTORS = (("TT0124", 15, 10), ("wu", 10, 0), ("", 7, 2), ("a", 7, 5))


class Case(unittest.TestCase):
    """All tests of a class share a broker and a cluster of one worker."""

    PROXY = False

    @classmethod
    def setUpClass(cls):
        cls.k = cls.enterClassContext(kafka(proxy=cls.PROXY))
        cls.cluster = cls.enterClassContext(Cluster(1, slots=4))
        cls.inputs = 0

    def setUp(self):
        self.client = self.k.client

    def lines(self, *rows):
        type(self).inputs += 1
        source = FileInput(self.cluster.folder / f"{type(self).__name__}-{self.inputs}")
        source.add_lines([row if isinstance(row, str) else json.dumps(row) for row in rows])
        return source

    def publish(self, rows, schema, topic=None, source=None, parallelism=1, interval="100ms",
                options=None, **sink):
        """Runs a bounded job over the rows; (topic, records in order of partition and offset)."""
        topic = topic or self.k.topic("out")
        job = copy_job(self.lines(*rows).vertex(schema=schema, **(source or {})),
                       sink_of(self.k, topic, **sink), parallelism=parallelism, interval=interval,
                       **(options or {}))
        status = self.cluster.finish(self.cluster.submit(job))
        self.client.wait_until_settled(topic, SETTLED_S)
        self.status = status
        return topic, self.client.read_topic(topic)

    def refused(self, *words, code=2, **job):
        result, took = timed(lambda: self.cluster.weir(
            "run", "-d", self.cluster.write_job(job["job"]), as_json=False))
        self.assertEqual(result.code, code, result)
        for word in words:
            self.assertIn(str(word), result.err)
        self.assertLess(took, REFUSED_S)
        return result.err


class Quick(Case):
    def test_partitions_are_those_of_java_s_clients(self):
        for key, partitions, partition in VECTORS:
            with self.subTest(key=key):
                topic = self.k.topic("out", partitions)
                _, records = self.publish([{"key": key}], {"key": "STRING"}, topic, key=["key"])
                self.assertEqual([(r.partition, r.key) for r in records],
                                 [(partition, key.encode())])

    def test_many_keys(self):
        topic = self.k.topic("out", 7)
        keys = [f"{'ä' * (i % 5)}{i}" for i in range(600)]
        _, records = self.publish([{"key": key, "n": i} for i, key in enumerate(keys)],
                                  {"key": "STRING", "n": "INT64"}, topic, key=["key"])
        self.assertEqual(len(records), len(keys))
        self.assertEqual(len({r.partition for r in records}), 7)
        for record in records:
            row = decoded(record)
            self.assertEqual(record.key, row["key"].encode())
            self.assertEqual(keys[row["n"]], row["key"])
            self.assertEqual(record.partition, partition_of(record.key, 7), row)

    def test_a_null_key_and_rows_without_key(self):
        topic = self.k.topic("out", 3)
        rows = [{"key": None, "n": i} for i in range(300)] + [{"key": "", "n": 300}]
        _, records = self.publish(rows, {"key": "STRING", "n": "INT64"}, topic, key=["key"],
                                  options={"batch.rows_max": "16"})
        by_key = collections.Counter(record.key for record in records)
        self.assertEqual(by_key, {None: 300, b"": 1})
        # Without a key batches are spread.
        counts = collections.Counter(record.partition for record in records)
        self.assertGreater(min(counts[p] for p in range(3)), 50, counts)

    def test_a_key_of_several_columns(self):
        topic = self.k.topic("out", 5)
        _, records = self.publish([{"a": "x", "b": i, "v": i} for i in range(20)],
                                  {"a": "STRING", "b": "INT64", "v": "INT64"}, topic,
                                  key=["a", "b"])
        for record in records:
            row = decoded(record)
            self.assertEqual(json.loads(record.key), {"a": "x", "b": row["v"]})
            self.assertEqual(record.partition, partition_of(record.key, 5))

    def test_partition_timestamp_headers_and_tombstones(self):
        topic = self.k.topic("out", 4)
        at = "2013-01-01T10:00:00.123Z"
        schema = {"key": "STRING", "part": "INT32", "at": "TIMESTAMP", "origin": "STRING",
                  "gone": "BOOL", "v": "STRING"}
        rows = [{"key": "a", "part": 3, "at": at, "origin": "JFK", "gone": False, "v": "one"},
                {"key": "a", "part": 2, "at": at, "origin": "", "gone": True, "v": "two"},
                {"key": "a", "part": None, "at": None, "origin": None, "gone": None, "v": ""}]
        before = time.time()
        _, records = self.publish(
            rows, schema, topic, key=["key"], partition_column="part", timestamp_column="at",
            headers={"from": "origin"}, tombstone_column="gone")
        ms = int(datetime.datetime(2013, 1, 1, 10, 0, 0, 123000,
                                   datetime.timezone.utc).timestamp() * 1000 + 0.5)
        by_partition = {record.partition: record for record in records}
        self.assertEqual(sorted(by_partition), sorted({3, 2, partition_of(b"a", 4)}))
        one, two = by_partition[3], by_partition[2]
        last = by_partition[partition_of(b"a", 4)]
        self.assertEqual(decoded(one)["v"], "one")
        self.assertIsNone(two.value)
        self.assertEqual(decoded(last)["v"], "")
        self.assertEqual([r.headers for r in (one, two)],
                         [[("from", b"JFK")], [("from", b"")]])
        self.assertIn(last.headers, ([], [("from", None)]))
        self.assertEqual([one.timestamp, two.timestamp], [ms, ms])
        self.assertTrue(before - 60 < last.timestamp / 1000 < time.time() + 60)

    def test_null_is_not_empty_in_raw(self):
        _, records = self.publish(
            [{"key": "a", "value": "text"}, {"key": "a", "value": ""},
             {"key": "a", "value": None}],
            {"key": "STRING", "value": "STRING"}, self.k.topic("out", 1), format="raw",
            key=["key"])
        self.assertEqual([(r.key, r.value) for r in records],
                         [(b"a", b"text"), (b"a", b""), (b"a", None)])

    def test_csv(self):
        _, records = self.publish(
            [{"key": "a", "v": "x,y", "n": 1}, {"key": "b", "v": None, "n": None},
             {"key": "c", "v": "", "n": -5}],
            {"key": "STRING", "v": "STRING", "n": "INT64"}, self.k.topic("out", 1), format="csv",
            key=["key"])
        self.assertEqual([r.value.rstrip(b"\r\n") for r in records],
                         [b'a,"x,y",1', b"b,,", b'c,"",-5'])

    def left_out(self):
        return sum(subtask["dropped_rows"] for vertex in self.status["vertices"]
                   if vertex["uid"] == "out" for subtask in vertex["subtasks"])

    def test_rows_that_are_too_large(self):
        schema = {"key": "STRING", "v": "STRING"}
        rows = [{"key": "a", "v": "x" * 100}, {"key": "b", "v": "y" * 5000},
                {"key": "c", "v": "z" * 100}]
        with self.subTest(policy="drop"):
            topic = self.k.topic("out", 1, **{"max.message.bytes": 2000})
            _, records = self.publish(rows, schema, topic, bad_data="drop")
            self.assertEqual([r.key for r in records], [b"a", b"c"])
            self.assertEqual(self.left_out(), 1)
        with self.subTest(policy="dead_letter"):
            topic = self.k.topic("out", 1, **{"max.message.bytes": 2000})
            letters = self.cluster.folder / "letters"
            _, records = self.publish(rows, schema, topic, bad_data="dead_letter",
                                      dead_letter_path=str(letters))
            self.assertEqual([r.key for r in records], [b"a", b"c"])
            self.assertEqual(self.left_out(), 1)
            (letter,) = read_rows(letters)
            self.assertEqual(json.loads(letter["row"]), rows[1])
            self.assertEqual((letter["sink"], letter["topic"]), ("out", topic))
            self.assertIn("2000", letter["reason"])
        with self.subTest(policy="fail"):
            topic = self.k.topic("out", 1, **{"max.message.bytes": 2000})
            job = self.cluster.submit(copy_job(
                self.lines(*rows).vertex(schema=schema), sink_of(self.k, topic),
                parallelism=1, **{"restart.attempts_max": "2"}))
            status = self.cluster.wait_for_state(job, "FAILED", seconds=60)
            failure = str(status["failure"])
            self.assertRegex(failure, r"\b5[01]\d\d\b")  # its size
            self.assertIn("2000", failure)
            self.assertIn(topic, failure)
            self.client.wait_until_settled(topic, SETTLED_S)
            self.assertNotIn(b"b", [r.key for r in self.client.read_topic(topic)])

    def test_the_source_of_a_row_that_is_too_large(self):
        """The third row of a partition of another topic, as its columns say."""
        origin = self.k.topic("in", 2)
        topic = self.k.topic("out", 1, **{"max.message.bytes": 2000})
        self.client.produce(origin, 1, [kafka_wire.Record(None, json.dumps(
            {"key": key, "v": key * size}).encode())
            for key, size in (("a", 10), ("b", 10), ("c", 5000), ("d", 10))])
        source = {"uid": "rows", "type": "kafka.source", "config": {
            "brokers": self.k.brokers, "topics": origin, "format": "json",
            "schema": {"key": "STRING", "v": "STRING"}, "end": "latest",
            "metadata": {"from": "topic", "part": "partition", "at": "offset"}}}
        job = self.cluster.submit(copy_job(source, sink_of(self.k, topic), parallelism=2,
                                           interval="1h"))
        failure = self.cluster.wait_for_state(job, "FAILED", seconds=60)["failure"]
        self.assertEqual(failure["uid"], "out")
        message = failure["message"]
        self.assertIn(f"row 3 of subtask {failure['subtask']}:", message)
        shown = json.loads(message[message.index("; the row: ") + len("; the row: "):])
        self.assertEqual(shown, {"key": "c", "from": origin, "part": 1, "at": 2})

    def test_rows_that_the_broker_would_refuse(self):
        """Timestamps too far from the clock, and null keys of a compacted topic."""
        topic = self.k.topic("out", 1, **{"cleanup.policy": "compact",
                                          "message.timestamp.before.max.ms": 3_600_000})

        def row(key, hours, v="x"):
            at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
            return {"key": key, "at": at.isoformat().replace("+00:00", "Z"), "value": v}
        rows = [row("ahead", 2), row("a", 0.9), row(None, 0), row("b", -0.9, None), row("old", -2)]
        for delivery in ("exactly_once", "at_least_once"):
            with self.subTest(delivery=delivery):
                before = len(self.client.read_topic(topic))
                _, records = self.publish(
                    rows, {"key": "STRING", "at": "TIMESTAMP", "value": "STRING"}, topic,
                    format="raw", key=["key"], timestamp_column="at", delivery=delivery,
                    bad_data="drop")
                self.assertEqual([(r.key, r.value) for r in records[before:]],
                                 [(b"a", b"x"), (b"b", None)])
                self.assertEqual(self.left_out(), 3)

    def test_a_limit_that_is_lowered_under_a_running_job(self):
        for delivery in ("exactly_once", "at_least_once"):
            with self.subTest(delivery=delivery):
                topic = self.k.topic("out", 1, **{"max.message.bytes": 20_000})
                source = self.lines({"key": "a", "v": "x"})
                path = self.cluster.write_job(copy_job(
                    source.vertex(schema={"key": "STRING", "v": "STRING"}, endless=True),
                    sink_of(self.k, topic, delivery=delivery), parallelism=1))
                job = self.cluster.weir("run", "-d", path, code=0).json["id"]
                wait_for_visible(self.k, topic, 1)
                self.client.set_config(topic, "max.message.bytes", 2000)
                source.add_lines([json.dumps({"key": "b", "v": "y" * 5000}),
                                  json.dumps({"key": "c", "v": "z"})])
                status = self.cluster.wait_for_state(job, "FAILED", seconds=60)
                failure = str(status["failure"]["message"])
                print(failure, flush=True)
                self.assertIn(topic, failure)
                self.assertIn("2000", failure)
                self.assertRegex(failure, r"\b5[01]\d\d\b")  # the size of the row
                self.client.wait_until_settled(topic, SETTLED_S)
                there = {r.key for r in self.client.read_topic(topic)}
                if delivery == "at_least_once":  # rows around the bad one may be sent
                    self.assertLessEqual({b"a"}, there)
                    self.assertNotIn(b"b", there)
                    continue
                self.assertEqual(there, {b"a"})
                for word in ("partition 0", "too large", "None of the 2 rows", "weir run --from"):
                    self.assertIn(word, failure)
                self.client.set_config(topic, "max.message.bytes", 20_000)
                job = self.cluster.weir("run", "-d", path, "--from", status["retained_checkpoint"],
                                        code=0).json["id"]
                wait_for_visible(self.k, topic, 3)
                self.cluster.weir("cancel", job, code=0)
                self.assertEqual([r.key for r in self.client.read_topic(topic)], [b"a", b"b", b"c"])

    def test_at_least_once(self):
        source, topic = FileInput(self.cluster.folder / "least"), self.k.topic("out")
        source.add(made(3000))
        job = self.cluster.submit(count_job(source.vertex(rate=1500), sink_of(
            self.k, topic, delivery="at_least_once"), **{"restart.backoff_initial": "100ms"}))
        self.cluster.wait_for_checkpoint(job, 3)
        self.cluster.workers[-1].kill()
        self.cluster.start_worker(slots=4)
        self.cluster.finish(job)
        seen = {decoded(record)["seq"] for record in self.client.read_topic(topic)}
        self.assertEqual(seen, set(range(3000)))
        self.assertEqual(self.k.identities(job), [])


class QuickRefusals(Case):
    def job_to(self, topic, **sink):
        return copy_job(self.lines({"seq": 1, "key": "a"}).vertex(), sink_of(
            self.k, topic, **sink))

    def test_a_missing_topic_is_refused(self):
        self.refused("no-such-topic", self.k.broker.bootstrap, job=self.job_to("no-such-topic"))

    def test_a_transaction_timeout_above_the_broker_s_is_refused(self):
        topic = self.k.topic("out")
        text = self.refused("transaction_timeout",
                            job=self.job_to(topic, transaction_timeout="20min"))
        # Both values, in whatever unit: 20 min asked for, 15 min are the broker's default.
        self.assertRegex(text, r"20 ?min|1,?200,?000|1200")
        self.assertRegex(text, r"15 ?min|900,?000|\b900")

    def test_an_unreachable_broker_is_refused(self):
        address = f"127.0.0.1:{free_port()}"
        self.refused(address, job=self.job_to(self.k.topic("out"), brokers=address))

    def test_properties_that_weir_owns_and_unknown_ones_are_refused(self):
        topic = self.k.topic("out")
        for name in ("bootstrap.servers", "transactional.id", "enable.idempotence",
                     "transaction.timeout.ms", "acks"):
            with self.subTest(name=name):
                self.refused(name, "Weir", job=self.job_to(topic, kafka={name: "1"}))
        self.refused("no.such.property",
                     job=self.job_to(topic, kafka={"no.such.property": "1"}))
        self.refused("security.protocol",
                     job=self.job_to(topic, kafka={"security.protocol": "carrier-pigeon"}))

    def test_a_protocol_that_the_broker_does_not_speak_is_refused(self):
        self.refused(self.k.broker.bootstrap, job=self.job_to(
            self.k.topic("out"), kafka={"security.protocol": "ssl"}))

    def test_options_pass_through(self):
        topic, records = self.publish(
            [{"key": "a", "v": "x" * 200}] * 50, {"key": "STRING", "v": "STRING"},
            self.k.topic("out", 1), kafka={"compression.type": "gzip"})
        self.assertEqual(len(records), 50)
        batches = self.client.fetch_batches(topic, 0, 0)[0]
        self.assertEqual({b.codec for b in batches if b.control is None}, {"gzip"})

    def test_columns_that_are_not_there_are_refused(self):
        topic = self.k.topic("out")
        for field, value in (("key", ["kez"]), ("partition_column", "kez"),
                             ("timestamp_column", "kez"), ("headers", {"h": "kez"}),
                             ("tombstone_column", "kez"), ("timestamp_column", "key"),
                             ("partition_column", "key"), ("tombstone_column", "key")):
            with self.subTest(field=field):
                word = value if isinstance(value, str) else "kez"
                self.refused(field, word, job=self.job_to(topic, **{field: value}))


class QuickStatus(Case):
    PROXY = True

    def test_status_of_a_sink(self):
        source, topic = FileInput(self.cluster.folder / "status"), self.k.topic("out")
        source.add(made(500))
        job = self.cluster.submit(count_job(source.vertex(endless=True, rate=2000),
                                            sink_of(self.k, topic)))
        wait_for_visible(self.k, topic, 500)
        wait_until_marked(self.k, job, topic, 4)
        self.assertEqual(sorted(markers(self.k, job, topic)), [0, 1])

        def progress():
            status = self.cluster.status(job)
            return next((v["sink_progress"] for v in status["vertices"] if v["uid"] == "out"), None)

        def committed():
            found = progress()
            return found and (found["committed_checkpoint"] or 0) >= 4 and found
        found = wait_for(lambda: f"committed: {progress()}", committed, 30)
        # Heartbeats are late by parts of a second; a checkpoint is each 200 ms. One without rows
        # that came while another was being published has no marker of its own: the next one has.
        wait_until_marked(self.k, job, topic, found["committed_checkpoint"], seconds=5)
        self.assertEqual((found["publishing_rows"], found["publishing_bytes"]), (0, 0))
        age = time.time() - datetime.datetime.fromisoformat(
            found["committed_time"].replace("Z", "+00:00")).timestamp()
        self.assertTrue(-1 < age < 20, age)
        text = self.cluster.weir("status", job, as_json=False).out
        for word in ("staged", "publishing", "committed up to checkpoint", "ago"):
            self.assertIn(word, text)
        # Commits are held, for more than a checkpoint.
        held = self.k.proxy.rule("EndTxn", count=None)
        self.addCleanup(held.remove)

        def both():
            source.add(made(100, first=len(source.rows)))
            found = progress()
            return found and found["staged_rows"] > 0 and found["publishing_rows"] > 0 and found
        found = wait_for(lambda: f"rows of both kinds: {progress()}", both)
        self.assertGreater(min(found["staged_bytes"], found["publishing_bytes"]), 0)

        def hidden():
            return len(source.rows) - visible(self.k, topic)

        def completed():
            found = progress()
            return found and (found["staged_rows"], found["publishing_rows"]) == (0, hidden())
        wait_for(lambda: f"{hidden()} rows of completed checkpoints: {progress()}", completed)
        self.assertGreater(hidden(), 0)
        status = self.cluster.status(job)
        self.assertLess(progress()["committed_checkpoint"], status["last_checkpoint"]["id"])
        text = self.cluster.weir("status", job, as_json=False).out.replace(",", "")
        self.assertIn(f"publishing {hidden()} rows", text)
        last = progress()["committed_time"]
        time.sleep(1)
        self.assertEqual(progress()["committed_time"], last)
        held.remove()
        wait_for_visible(self.k, topic, len(source.rows))
        wait_for(lambda: f"nothing on its way: {progress()}",
                 lambda: progress()["publishing_rows"] == 0)
        # A restart takes nothing of it back.
        before = progress()["committed_checkpoint"]
        self.cluster.workers[-1].kill()
        self.cluster.start_worker(slots=4)

        def further():
            text = self.cluster.weir("status", job, as_json=False).out
            self.assertNotIn("nothing committed yet", text)
            found = progress()
            if found:
                self.assertGreaterEqual(found["committed_checkpoint"], before)
            return self.cluster.status(job)["restarts"] > 0 and found and \
                found["committed_checkpoint"] > before + 2
        wait_for(lambda: f"commits after the restart: {progress()}", further)
        # Ended with rows on their way: what completed is published, and nothing is left.
        source.add(made(20_000, first=len(source.rows)))
        wait_for_visible(self.k, topic, len(source.rows) - 19_500)
        self.cluster.weir("cancel", job, code=0)
        found, status = progress(), self.cluster.status(job)
        self.assertEqual({name: found[name] for name in found if "rows" in name or "bytes" in name},
                         {"staged_rows": 0, "staged_bytes": 0,
                          "publishing_rows": 0, "publishing_bytes": 0})
        self.assertEqual(found["committed_checkpoint"], status["last_checkpoint"]["id"])
        check_counts(self.k, topic, source.rows, complete=False)


class Long(Case):
    def test_a_large_stage_is_published_in_parts(self):
        """Several transactions per stage, and a worker that dies between them."""
        topic, source = self.k.topic("out"), FileInput(self.cluster.folder / "large")
        rows = made(30000)
        for at in range(0, len(rows), 500):
            source.add_lines([json.dumps({"seq": seq, "key": key, "pad": "x" * 300})
                              for seq, key in rows[at:at + 500]])
        schema = {"seq": "INT64", "key": "STRING", "pad": "STRING"}
        job = self.cluster.submit(copy_job(
            source.vertex(schema=schema), sink_of(self.k, topic, transaction_size_max="1MiB"),
            parallelism=2, interval="1s"))
        wait_for_visible(self.k, topic, 1)
        self.cluster.workers[-1].kill()
        self.cluster.start_worker(slots=4)
        self.cluster.finish(job)
        self.client.wait_until_settled(topic, SETTLED_S)
        seqs = sorted(decoded(record)["seq"] for record in self.client.read_topic(topic))
        self.assertEqual(seqs, list(range(30000)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
