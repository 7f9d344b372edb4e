"""Goal: kafka.source reads each committed row once, begins and ends where it was told to, and what
is not there any more is an error that names it, never silence.

Method: topics filled by kafka_wire (rows, transactions, deletions), read by jobs into files; the
rows due are those that were written.
"""

import base64
import json
import time
import unittest

from cluster import Cluster, WaitError, free_port, last_checkpoint, wait_for
from jobs import read_rows
from kafka_jobs import (KafkaInput, checkpoint_behind, copy_job, count_job, files_sink, kafka,
                        kafka_wire, made, records_out, sink_of, timed, wait_until_refused)

REFUSED_S = 5
Record = kafka_wire.Record


class Case(unittest.TestCase):
    """All tests of a class share a broker and a cluster."""

    PROXY = False

    @classmethod
    def setUpClass(cls):
        cls.k = cls.enterClassContext(kafka(proxy=cls.PROXY))
        cls.cluster = cls.enterClassContext(Cluster(1, slots=8))
        cls.outputs = 0

    def setUp(self):
        self.client, self.endless = self.k.client, []
        self.addCleanup(lambda: [self.cluster.weir("cancel", job) for job in self.endless])

    def output(self):
        type(self).outputs += 1
        return self.cluster.folder / f"{type(self).__name__}-{self.outputs}"

    def source(self, topics, endless=False, **config):
        config = {"brokers": self.k.brokers, "format": "raw", "discovery_interval": "200ms",
                  **({"topics": topics} if topics else {}), **config}
        if not endless and "end_offsets" not in config:
            config["end"] = "latest"
        return {"uid": "rows", "type": "kafka.source", "config": config}

    def job(self, topics, output, endless=False, options=None, **config):
        return copy_job(self.source(topics, endless, **config), files_sink(output),
                        **{"parallelism": 2, **(options or {})})

    def rows(self, topics, **config):
        """The rows that a bounded job reads."""
        output = self.output()
        self.status = self.cluster.finish(self.cluster.submit(self.job(topics, output, **config)))
        return list(read_rows(output))

    def values(self, topics, **config):
        return sorted(base64.b64decode(row["value"]).decode()
                      for row in self.rows(topics, **config))

    def start(self, topics, **config):
        """An endless job; (its id, a function for the sorted values it has put out)."""
        output = self.output()
        job = self.cluster.submit(self.job(topics, output, endless=True, **config))
        self.endless.append(job)

        def seen():
            return sorted(base64.b64decode(row["value"] or "").decode()
                          for row in read_rows(output))
        return job, seen

    def wait_for_values(self, seen, values):
        try:
            wait_for("the rows", lambda: len(seen()) >= len(values), 60, 0.1)
        except WaitError:
            pass  # the comparison says more
        self.assertEqual(seen(), sorted(values))

    def refused(self, job, *words):
        result, took = timed(lambda: self.cluster.weir(
            "run", "-d", self.cluster.write_job(job), as_json=False))
        self.assertEqual(result.code, 2, result)
        for word in words:
            self.assertIn(word, result.err)
        self.assertLess(took, REFUSED_S)

    def group_offset(self, group, topic, partition):
        return self.client.group_offset(group, topic, partition)[0]

    def wait_until_read(self, job, rows):
        wait_for(lambda: f"{rows} rows to be read",
                 lambda: records_out(self.cluster.status(job), "rows") == rows)

    def fill(self, topic, partition, values, **more):
        values = list(values)
        self.client.produce(topic, partition, [Record(None, v.encode(), **more) for v in values])
        return values


class Quick(Case):
    def test_where_it_begins(self):
        topic = self.k.topic("in", 3)
        for p in range(2):  # the third partition stays empty
            self.client.produce(topic, p, [Record(None, f"{p}-{i}".encode(), [], 1000 * i + 1000)
                                           for i in range(10)])
        everything = sorted(f"{p}-{i}" for p in range(2) for i in range(10))
        self.assertEqual(self.values(topic), everything)
        self.assertEqual(self.values(topic, start="latest"), [])
        # The first row that is not older.
        self.assertEqual(self.values(topic, start="1970-01-01T00:00:06.5Z"),
                         sorted(f"{p}-{i}" for p in range(2) for i in range(6, 10)))
        self.assertEqual(self.values(topic, start="2100-01-01T00:00:00Z"), [])
        self.client.commit_group_offset(topic, topic, 0, 7)
        self.assertEqual(
            self.values(topic, start="committed", group=topic),
            sorted([f"0-{i}" for i in range(7, 10)] + [f"1-{i}" for i in range(10)]))
        self.assertEqual(
            self.values(topic, start="latest", start_offsets={f"{topic}:1": 8, f"{topic}:2": 0}),
            ["1-8", "1-9"])

    def test_where_it_ends(self):
        topic = self.k.topic("in", 3)
        for p in range(2):
            self.fill(topic, p, [f"{p}-{i}" for i in range(10)])
        self.assertEqual(self.values(topic, end_offsets={f"{topic}:0": 4, f"{topic}:1": 0}),
                         [f"0-{i}" for i in range(4)])
        self.assertEqual(
            self.values(topic, start_offsets={f"{topic}:0": 3}, end_offsets={f"{topic}:0": 3}),
            [f"1-{i}" for i in range(10)])

    def test_what_is_added_later_is_not_read_by_a_bounded_job(self):
        topic, output = self.k.topic("in", 1), self.output()
        due = self.fill(topic, 0, [f"{i:05}" for i in range(3000)])
        job = self.cluster.submit(self.job(topic, output, rate=1500))
        self.cluster.wait_for_checkpoint(job, 1)
        self.fill(topic, 0, ["later"])
        self.cluster.finish(job)
        self.assertEqual(sorted(base64.b64decode(row["value"]).decode()
                                for row in read_rows(output)), due)

    def test_ends_of_aborted_and_control_records(self):
        topic = self.k.topic("in", 5)  # the fourth has but an aborted transaction, the fifth none
        due = []
        for p in range(4):
            transaction = kafka_wire.Transaction(self.client, f"{topic}-{p}")
            if p != 3:
                due += [f"{p}-a", f"{p}-b"]
                transaction.produce(topic, p, [f"{p}-a", f"{p}-b"])
                transaction.commit()
            if p > 0:
                transaction.produce(topic, p, ["never"] * 5)
                transaction.abort()
            if p == 2:
                transaction.produce(topic, p, ["never"])
                transaction.abort()
        self.assertEqual(self.values(topic), due)

    def test_an_open_transaction_is_waited_for(self):
        topic = self.k.topic("in", 1)
        self.fill(topic, 0, ["before"])
        transaction = kafka_wire.Transaction(self.client, topic)
        transaction.produce(topic, 0, ["inside"])
        self.fill(topic, 0, ["behind"])
        # Bounded: to the end of what is settled.
        self.assertEqual(self.values(topic), ["before"])
        job, seen = self.start(topic)
        self.wait_for_values(seen, ["before"])
        checkpoint_behind(self.cluster, job, 3)
        self.assertEqual(seen(), ["before"])
        transaction.commit()
        self.wait_for_values(seen, ["before", "behind", "inside"])

    def test_a_compacted_end(self):
        topic = self.k.topic("in", 1, **{
            "cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.001,
            "min.compaction.lag.ms": 0, "delete.retention.ms": 0})
        for i in range(20):
            self.client.produce(topic, 0, [("same", f"{i}")])
        time.sleep(0.2)
        self.client.produce(topic, 0, [("other", "20")])  # a new segment
        time.sleep(0.2)
        self.client.produce(topic, 0, [("last", "21")])

        def left():
            return [row.offset for row in self.client.read_partition(topic, 0)]
        wait_for(lambda: f"the cleaner, {left()}", lambda: left() == [19, 20, 21], 60, 0.2)
        self.assertEqual(self.values(topic), ["19", "20", "21"])
        self.assertEqual(self.values(topic, end_offsets={f"{topic}:0": 10}), [])
        self.assertEqual(self.values(topic, start_offsets={f"{topic}:0": 5}), ["19", "20", "21"])

    def test_columns_of_a_message(self):
        topic = self.k.topic("in", 2)
        headers = [("h", b"old"), ("h", b"new"), ("n", None), ("raw", b"\xff")]
        self.client.produce(topic, 1, [
            Record(b"k\xc3\xa9", b'{"a": 1}', headers, 1356998400123),
            Record(None, b'{"a": 2}', [], 1356998400000),
            Record(b"", None, [], 1000)])
        rows = self.rows(topic, format="json", schema={"a": "INT64"}, metadata={
            "key": "key", "bytes": "key_bytes", "t": "topic", "p": "partition", "o": "offset",
            "at": "timestamp", "all": "headers", "h": "header:h", "n": "header:n",
            "raw": "header_bytes:raw", "none": "header:none"})
        for row in rows:
            row["all"] = json.loads(row["all"]) if row["all"] else row["all"]
        rows.sort(key=lambda row: row["o"])
        first, second, third = rows
        self.assertEqual(
            {name: first[name] for name in first if name != "all"},
            {"a": 1, "key": "ké", "bytes": base64.b64encode("ké".encode()).decode(), "t": topic,
             "p": 1, "o": 0, "at": "2013-01-01T00:00:00.123Z", "h": "new", "n": None,
             "raw": base64.b64encode(b"\xff").decode(), "none": None})
        self.assertEqual([header["name"] for header in first["all"]], ["h", "h", "n", "raw"])
        self.assertEqual([second[name] for name in ("a", "key", "bytes", "h")],
                         [2, None, None, None])
        # A tombstone: no value, yet all else; a key that is empty is not one that is missing.
        self.assertEqual([third[name] for name in ("a", "key", "bytes", "o", "at")],
                         [None, "", "", 2, "1970-01-01T00:00:01Z"])

    def test_csv(self):
        topic = self.k.topic("in", 1)
        self.fill(topic, 0, ['1,"x,\ny"', "2,", '3,""\r\n'])
        rows = self.rows(topic, format="csv", schema={"n": "INT64", "v": "STRING"})
        self.assertEqual(sorted((row["n"], row["v"]) for row in rows),
                         [(1, "x,\ny"), (2, None), (3, "")])

    def test_bad_rows(self):
        topic, dead = self.k.topic("in", 1), self.output()
        self.fill(topic, 0, ['{"a": 1}', '{"a": "x"}', '{"a": 3}', "{"])
        config = {"format": "json", "schema": {"a": "INT64"}}
        self.assertEqual(
            [row["a"] for row in self.rows(topic, bad_data="drop", **config)], [1, 3])
        self.assertEqual(sum(subtask["dropped_rows"] for vertex in self.status["vertices"]
                             for subtask in vertex["subtasks"]), 2)
        self.assertEqual([row["a"] for row in self.rows(
            topic, bad_data="dead_letter", dead_letter_path=str(dead), **config)], [1, 3])
        letters = [json.loads(line) for file in sorted(dead.glob("*.jsonl"))
                   for line in file.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([(letter["topic"], letter["partition"], letter["offset"],
                           base64.b64decode(letter["bytes"])) for letter in letters],
                         [(topic, 0, 1, b'{"a": "x"}'), (topic, 0, 3, b"{")])
        job = self.cluster.submit(self.job(topic, self.output(), options={
            "restart.attempts_max": "0"}, **config))
        failure = str(self.cluster.wait_for_state(job, "FAILED")["failure"])
        self.assertIn(topic, failure)
        self.assertRegex(failure, r"\boffset 1\b")

    def test_topics_of_a_pattern_and_new_ones(self):
        one, two = self.k.topic("pattern-a", 2), self.k.topic("pattern-a", 1)
        due = self.fill(one, 1, ["1"]) + self.fill(two, 0, ["2"])
        job, seen = self.start(None, topic_pattern=f"{one}(-new.*)?|{two}")
        self.wait_for_values(seen, due)
        three = self.k.topic(f"{one}-new", 2)
        due += self.fill(three, 1, ["3"]) + self.fill(three, 0, ["4"])
        self.wait_for_values(seen, due)
        self.assertEqual(self.cluster.status(job)["restarts"], 0)

    def test_offsets_of_the_group_follow_the_checkpoints(self):
        topic = self.k.topic("in", 2)
        due = self.fill(topic, 0, [f"{i}" for i in range(50)])
        job, seen = self.start(topic, group=topic)
        self.wait_for_values(seen, due)
        wait_for("the group", lambda: self.group_offset(topic, topic, 0) == 50, 20)
        # They are shown, and never read: not even when somebody else moves them.
        self.client.commit_group_offset(topic, topic, 0, 3)
        self.cluster.workers[-1].kill()
        self.cluster.start_worker(slots=8)
        due += self.fill(topic, 0, ["more"])
        self.wait_for_values(seen, due)
        wait_for("the group", lambda: self.group_offset(topic, topic, 0) == 51, 20)

    def test_without_a_checkpoint_the_group_has_no_offsets(self):
        topic = self.k.topic("in", 1)
        self.fill(topic, 0, [f"{i}" for i in range(50)])
        job = self.cluster.submit(copy_job(
            self.source(topic, endless=True, group=topic), {"uid": "out", "type": "blackhole"},
            interval="1h"))
        self.wait_until_read(job, 50)
        self.assertEqual(self.group_offset(topic, topic, 0), -1)
        self.cluster.weir("cancel", job, code=0)
        self.assertEqual(self.group_offset(topic, topic, 0), -1)

    def test_a_worker_dies(self):
        source, output = KafkaInput(self.k), self.output()
        source.add(made(4000))
        job = self.cluster.submit(count_job(source.vertex(rate=1200), files_sink(output)))
        self.cluster.wait_for_checkpoint(job, 3)
        self.cluster.workers[-1].kill()
        self.cluster.start_worker(slots=8)
        status = self.cluster.finish(job)
        self.assertGreaterEqual(status["restarts"], 1)
        rows = list(read_rows(output))
        self.assertEqual(sorted((row["seq"], row["key"]) for row in rows), source.rows)
        counts = {}
        for row in rows:
            counts.setdefault(row["key"], []).append(row["n"])
        for key, seen in counts.items():
            self.assertEqual(sorted(seen), list(range(1, len(seen) + 1)), key)


class QuickRefusals(Case):
    def test_a_missing_topic_is_refused(self):
        topic = self.k.topic("in", 1)
        self.refused(self.job("no-such-topic", self.output()), "no-such-topic", self.k.brokers)
        self.refused(self.job([topic, "no-such-topic"], self.output()), "no-such-topic")
        for field in ("start_offsets", "end_offsets"):
            self.refused(self.job(topic, self.output(), **{field: {f"{topic}:7": 1}}),
                         topic, "7")

    def test_an_unreachable_broker_is_refused(self):
        address = f"127.0.0.1:{free_port()}"
        self.refused(self.job("in", self.output(), brokers=address), address)

    def test_properties_are_passed_on_or_refused(self):
        topic = self.k.topic("in", 1)
        due = self.fill(topic, 0, ["a"])
        for name in ("bootstrap.servers", "group.id", "enable.auto.commit", "auto.offset.reset",
                     "isolation.level", "enable.auto.offset.store", "enable.partition.eof"):
            with self.subTest(name=name):
                self.refused(self.job(topic, self.output(), kafka={name: "x"}), name, "Weir")
        self.refused(self.job(topic, self.output(), kafka={"no.such.property": "1"}),
                     "no.such.property")
        self.refused(self.job(topic, self.output(), kafka={"security.protocol": "pigeon"}),
                     "security.protocol")
        self.refused(self.job(topic, self.output(), kafka={"security.protocol": "ssl"}),
                     self.k.brokers)
        self.assertEqual(self.values(topic, kafka={"security.protocol": "plaintext",
                                                   "fetch.max.bytes": "2000000"}), due)


class QuickLoss(Case):
    """A job has read offsets 0 ... 299 of partition 0, then something happens to its topic."""

    def read(self, partitions=2, **config):
        topic = self.k.topic("in", partitions)
        due = self.fill(topic, 0, [f"{i:04}" for i in range(300)])
        job, seen = self.start(topic, options={"restart.attempts_max": "2"}, **config)
        self.wait_for_values(seen, due)
        checkpoint_behind(self.cluster, job, 2)
        return topic, job, seen, due

    def while_no_worker_lives(self, action):
        self.cluster.workers[-1].kill()
        action()
        self.cluster.start_worker(slots=8)

    def fails(self, job, seen, due, *words):
        status = wait_until_refused(self.cluster, job, *words)
        self.cluster.wait_for_state(job, "FAILED")
        self.assertNotEqual(status["state"], "FINISHED")
        self.assertEqual(seen(), due)

    def lose(self, topic):
        self.fill(topic, 0, [f"{i:04}" for i in range(300, 500)])
        self.client.delete_records(topic, 0, 400)

    def test_rows_deleted_before_they_were_read(self):
        topic, job, seen, due = self.read()
        self.while_no_worker_lives(lambda: self.lose(topic))
        self.fails(job, seen, due, f"{topic}/0", "300", "400", "500")

    def test_rows_deleted_and_the_job_may_go_on(self):
        topic, job, seen, due = self.read(on_lost_rows="continue")
        self.while_no_worker_lives(lambda: self.lose(topic))
        self.wait_for_values(seen, due + [f"{i:04}" for i in range(400, 500)])

        def lost():
            return sum(subtask["lost_rows"] for vertex in self.cluster.status(job)["vertices"]
                       for subtask in vertex["subtasks"])
        wait_for("the number of lost rows", lambda: lost() == 100, 20)
        self.assertIn("lost", self.cluster.weir("status", job, as_json=False).out)

    def test_topic_deleted(self):
        topic, job, seen, due = self.read()
        self.while_no_worker_lives(lambda: self.client.delete_topic(topic))
        self.fails(job, seen, due, topic, "deleted")

    def test_topic_deleted_while_it_is_read(self):
        topic, job, seen, due = self.read()
        self.client.delete_topic(topic)
        self.fails(job, seen, due, topic, "deleted")

    def anew(self, topic, rows, partitions=2):
        self.client.delete_topic(topic)
        self.client.create_topic(topic, partitions)
        if rows:
            self.fill(topic, 0, [f"x{i:04}" for i in range(rows)])

    def test_topic_made_anew_and_shorter(self):
        topic, job, seen, due = self.read()
        self.while_no_worker_lives(lambda: self.anew(topic, 100))
        self.fails(job, seen, due, f"{topic}/0", "300", "100")

    def test_topic_made_anew_and_longer(self):
        topic, job, seen, due = self.read()
        self.while_no_worker_lives(lambda: self.anew(topic, 500))
        self.fails(job, seen, due, f"{topic}/0", "300")

    def test_topic_made_anew_with_fewer_partitions(self):
        topic, job, seen, due = self.read(partitions=3)
        self.fill(topic, 2, ["9"])
        due = due + ["9"]
        self.wait_for_values(seen, due)
        checkpoint_behind(self.cluster, job, 2)
        self.while_no_worker_lives(lambda: self.anew(topic, 300, 2))
        self.fails(job, seen, due, topic)


class QuickGrowth(Case):
    def test_partitions_grow_and_are_shared_out_anew(self):
        """2 to 5 partitions while the job runs, then it goes on at other parallelisms; the sixth
        comes while it does not run. It has begun with the latest rows: those of later partitions
        are read from their beginning all the same."""
        topic, due, outputs = self.k.topic("in", 2), [], []

        def add(partitions):
            for p in range(partitions):
                due.extend(self.fill(topic, p, [f"{p}-{len(due) + i:05}" for i in range(40)]))

        def seen():
            return sorted(base64.b64decode(row["value"]).decode()
                          for output in outputs for row in read_rows(output))

        def start(parallelism, *arguments):
            outputs.append(self.output())
            path = self.cluster.write_job(self.job(
                topic, outputs[-1], endless=True, start="latest", group=topic,
                discovery_interval="1s",
                options={"parallelism": parallelism, "checkpoint.on_cancel": "keep"}))
            return self.cluster.weir("run", "-d", path, *arguments, code=0).json["id"]
        for p in range(2):
            self.fill(topic, p, ["never"] * 30)
        job = start(2)
        wait_for("the group to show where it has begun", lambda: [
            self.group_offset(topic, topic, p) for p in range(2)] == [30, 30])
        add(2)
        self.wait_for_values(seen, due)
        self.client.create_partitions(topic, 5)
        add(5)
        self.wait_for_values(seen, due)
        self.assertEqual(self.cluster.status(job)["restarts"], 0)
        for parallelism in (1, 2, 3, 8):
            self.cluster.weir("cancel", job, code=0)
            kept = self.cluster.status(job)["retained_checkpoint"]
            if parallelism == 1:
                self.client.create_partitions(topic, 6)
            add(6)
            job = start(parallelism, "--from", kept)
            self.wait_for_values(seen, due)
            add(6)
            self.wait_for_values(seen, due)
            checkpoint_behind(self.cluster, job, 2)
            self.assertEqual(seen(), sorted(due), f"parallelism {parallelism}")
        self.cluster.weir("cancel", job, code=0)


class QuickAway(Case):
    PROXY = True

    def test_offsets_of_the_group_wait_for_the_checkpoint(self):
        """The source's part of a checkpoint is there, the sink's is not: the brokers' answers to
        its rows are held."""
        topic, output, partitions = self.k.topic("in", 4), self.k.topic("out"), range(4)
        for p in partitions:
            self.fill(topic, p, [json.dumps({"seq": p, "key": "a"})] * 10)
        held = self.k.proxy.rule("Produce", at="answer", count=None)
        self.addCleanup(held.remove)
        source = self.source(topic, endless=True, group=topic, format="json",
                             schema={"seq": "INT64", "key": "STRING"})
        job = self.cluster.submit(count_job(source, sink_of(
            self.k, output, delivery="at_least_once")))
        self.endless.append(job)
        self.wait_until_read(job, 40)

        def ours():
            """A checkpoint that has not completed, but has the positions of all subtasks."""
            listed = self.cluster.ask("checkpoints", job, "--subtasks") or []
            return [c["id"] for c in listed if c["completed_time"] is None and sum(
                part["uid"] == "rows" for part in c["subtasks"]) == 2]

        def shown():
            return [self.group_offset(topic, topic, p) for p in partitions]
        begun = wait_for("a checkpoint to begin", ours)
        # One that completed before the first row has 0.
        self.assertLessEqual(max(shown()), 0)
        self.assertEqual(ours(), begun)
        held.remove()
        wait_for(lambda: f"the group, {shown()}", lambda: shown() == [10] * 4, 20)

    def test_the_broker_is_away_and_comes_back(self):
        topic = self.k.topic("in", 2)
        due = self.fill(topic, 0, [f"{i}" for i in range(50)])
        job, seen = self.start(topic)
        self.wait_for_values(seen, due)
        self.k.proxy.refuse()
        self.k.proxy.cut()
        due += self.fill(topic, 1, ["later"])
        self.cluster.wait_for_status(
            "that it says why it waits", job,
            lambda s: "answer" in json.dumps([subtask["blocked_on"] for vertex in s["vertices"]
                                              for subtask in vertex["subtasks"]]), 60)
        began = last_checkpoint(self.cluster.status(job))
        self.cluster.wait_for_checkpoint(job, began + 2)  # checkpoints need no broker
        self.k.proxy.refuse(False)
        self.wait_for_values(seen, due)
        status = self.cluster.status(job)
        self.assertEqual((status["state"], status["restarts"]), ("RUNNING", 0))


class LongBroker(Case):
    def test_the_broker_is_killed_twice(self):
        with kafka(own=True) as k, Cluster(1) as cluster:
            source, output = KafkaInput(k), self.output()
            source.add(made(3000))
            job = cluster.submit(count_job(source.vertex(rate=400, endless=True),
                                           files_sink(output)))
            for _ in range(2):
                checkpoint_behind(cluster, job, 3)
                k.broker.kill()
                time.sleep(2)
                k.broker.start()
                source.add(made(1500, first=len(source.rows)))

            def rows():
                return sorted((row["seq"], row["key"]) for row in read_rows(output))
            wait_for(f"{len(source.rows)} rows", lambda: len(rows()) >= len(source.rows), 90)
            self.assertEqual(rows(), source.rows)
            self.assertEqual(cluster.status(job)["restarts"], 0)
            cluster.weir("cancel", job, code=0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
