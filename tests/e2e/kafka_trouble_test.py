"""Goal: whoever looks at a job with Kafka in it while something around it is bad sees within ten
seconds what and since when; and the job goes on by itself when that is well again, or stops where
going on could lose or double rows.

Method: a small disk that is filled, a proxy that refuses connections, topics that are deleted and
made anew. What is shown is read from `weir status`; rows are checked by kafka_wire.
"""

import datetime
import time
import unittest

from cluster import WAIT_S, Cluster, WaitError, brief, last_checkpoint, wait_for
from disks import SmallDisk, go_private, unavailable
from kafka_jobs import (SEGMENT, FileInput, KafkaInput, check_counts, checkpoint_behind, count_job,
                        decoded, kafka, made, sink_of, wait_for_visible, wait_until_refused)

NO_DISK = unavailable()
SHOWN_S = 10  # from the trouble to the first sight of it
TRY_S = 4
ROWS = 12_000
RATE = 2000


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Case(unittest.TestCase):
    def wait_until_shown(self, cluster, job, *words, seconds=SHOWN_S):
        """Until `weir status` says all of these in what the job waits for; its status."""
        begun = time.time()

        def look():
            status = cluster.status(job) or {}
            said = status.get("waiting_for") or ""
            return status if all(word in said for word in words) else None
        status = wait_for(lambda: f"{words} in what the job waits for; last seen: "
                          f"{brief(cluster.status(job))}", look, seconds, 0.1)
        self.assertTrue(status["waiting_since"], status)
        print(f"shown after {time.time() - begun:.1f} s: {status['waiting_for']}", flush=True)
        return status


@unittest.skipIf(NO_DISK, NO_DISK)
class QuickRoom(Case):
    def run_without_room(self, make_sick, make_well, *signs, tries=1):
        """`tries`: who is shown is a matter of chance, so the disk gets well and sick again."""
        with kafka() as k, Cluster(workers=0) as cluster, \
                SmallDisk(cluster.checkpoint_dir) as checkpoints:
            cluster.start_coordinator()
            cluster.start_worker()
            cluster.wait_for_workers(1)
            source, output = FileInput(cluster.folder / "in"), k.topic("out")
            source.add(made(RATE * WAIT_S))  # flow until the job is cancelled
            job = cluster.submit(count_job(source.vertex(rate=RATE), sink_of(k, output)))
            cluster.wait_for_checkpoint(job, 3)
            for left in reversed(range(tries)):
                make_sick(checkpoints)
                try:
                    self.wait_until_shown(cluster, job, *signs,
                                          seconds=TRY_S if left else SHOWN_S)
                    break
                except WaitError:
                    if not left:
                        raise
                make_well(checkpoints)
                checkpoint_behind(cluster, job)
            time.sleep(2)
            status = cluster.status(job)
            self.assertEqual((status["state"], status["restarts"]), ("RUNNING", 0), status)
            make_well(checkpoints)
            before = last_checkpoint(status)
            status = cluster.wait_for_status(
                "checkpoints after the trouble", job,
                lambda s: last_checkpoint(s) > before + 1 and not s["waiting_for"])
            self.assertEqual(status["restarts"], 0, status)
            cluster.weir("cancel", job, code=0)
            k.client.wait_until_settled(output)
            records = k.client.read_topic(output)
            check_counts(k, output, source.rows, complete=False, records=records)
            # Of each file the first rows, without a gap.
            seen = {decoded(record)["seq"] for record in records}
            for first in range(0, len(source.rows), SEGMENT):
                count = sum(seq in seen for seq in range(first, first + SEGMENT))
                self.assertLessEqual(set(range(first, first + count)), seen)
            self.assertEqual(cluster.leftovers(job), [])

    def test_a_full_checkpoint_directory(self):
        # No sink is shown while the coordinator cannot note that a checkpoint is complete.
        self.run_without_room(SmallDisk.fill, SmallDisk.free, "No space left on device",
                              "/staged/", tries=3)

    def test_a_read_only_checkpoint_directory(self):
        # Of whom is a matter of chance: a sink that has no file to make yet waits for nothing.
        self.run_without_room(lambda disk: disk.read_only(True),
                              lambda disk: disk.read_only(False), "Read-only file system")


class QuickAway(Case):
    """The proxy refuses all connections: to what a sink or source needs, and to a settlement."""

    def run_away(self, vertices, output, finish, begun=None, ending=None):
        """`vertices`: (source, sink) of the job, by the proxy's address. `begun`, `ending`: what
        follows the begin of the job, and the end of the trouble."""
        k = self.k
        with Cluster(1) as cluster:
            job = cluster.submit(count_job(*vertices(cluster)))
            cluster.wait_for_checkpoint(job, 3)
            if begun:
                begun(cluster, job)
            k.proxy.refuse()
            k.proxy.cut()
            away = time.time()
            status = self.wait_until_shown(cluster, job, "Kafka brokers", k.brokers,
                                           "do not answer")
            since = seconds_of(status["waiting_since"])
            if not begun:  # else it has waited for something before
                self.assertTrue(away - 1 <= since <= time.time(), status["waiting_since"])
            self.assertIn("do not answer", cluster.weir("status", job, as_json=False, code=0).out)
            if finish:
                k.proxy.refuse(False)
                if ending:
                    ending()
                status = cluster.finish(job)
                self.assertEqual((status["restarts"], status["waiting_for"]), (0, None), status)
                self.assertEqual(check_counts(k, output, self.source.rows), ROWS)
                return
            # What is completed has to be published before the job is cancelled.
            cancel = cluster.attach("cancel", job)
            status = self.wait_until_shown(cluster, job, "the output of out", "Kafka brokers",
                                           k.brokers, "do not answer")
            self.assertEqual(status["waiting_for"].count("settle"), 1, status["waiting_for"])
            k.proxy.refuse(False)
            cluster.wait_for_state(job, "CANCELED")
            self.assertEqual(cancel.wait(20), 0)
            k.client.wait_until_settled(output)
            check_counts(k, output, self.source.rows, complete=False)

    def setUp(self):
        self.k = self.enterContext(kafka(proxy=True))

    def files(self, cluster):
        self.source = FileInput(cluster.folder / "in")
        self.source.add(made(ROWS))
        return self.source.vertex(rate=RATE / 3)  # longer than a loaded machine takes

    def test_a_sink_exactly_once(self):
        output = self.k.topic("out")
        self.run_away(lambda cluster: (self.files(cluster), sink_of(self.k, output)), output,
                      finish=True)

    def test_a_sink_at_least_once(self):
        output = self.k.topic("out")
        self.run_away(lambda cluster: (self.files(cluster), sink_of(
            self.k, output, delivery="at_least_once")), output, finish=True)

    def test_a_source(self):
        """It has read all that there is, and is told to read twice as much."""
        source = self.source = KafkaInput(self.k)
        rows = made(ROWS)
        source.add(rows[:ROWS // 2])
        output = self.k.topic("out")
        sink = sink_of(self.k, output)
        sink["config"]["brokers"] = self.k.broker.bootstrap
        ends = {f"{source.topic}:{p}": ROWS // source.partitions for p in range(source.partitions)}
        self.run_away(
            lambda _: (source.vertex(endless=True, brokers=self.k.brokers, end_offsets=ends), sink),
            output, finish=True, begun=lambda cluster, job: self.wait_until_shown(
                cluster, job, source.topic, f"up to offset {ROWS // source.partitions}",
                "(end_offsets)"),
            ending=lambda: source.add(rows[ROWS // 2:]))

    def test_a_settlement(self):
        output = self.k.topic("out")
        self.run_away(lambda cluster: (self.files(cluster), sink_of(self.k, output)), output,
                      finish=False)


class QuickAnew(Case):
    """Topics that are deleted, and made anew, while a job writes or reads them."""

    def setUp(self):
        self.k = self.enterContext(kafka())
        self.cluster = self.enterContext(Cluster(1, slots=4))

    def make_anew(self, topic, partitions=4):
        self.k.client.delete_topic(topic)
        self.k.client.create_topic(topic, partitions)

    def write(self, parallelism=2, **sink):
        source, output = FileInput(self.cluster.folder / "in"), self.k.topic("out")
        source.add(made(ROWS))
        job = self.cluster.submit(count_job(source.vertex(rate=RATE, follow=True),
                                            sink_of(self.k, output, **sink),
                                            parallelism=parallelism))
        self.cluster.wait_for_checkpoint(job, 5)
        wait_for_visible(self.k, output, 500)
        return job, output

    def test_the_topic_of_a_sink_is_made_anew(self):
        for delivery in ("exactly_once", "at_least_once"):
            with self.subTest(delivery=delivery):
                job, output = self.write(delivery=delivery)
                self.make_anew(output)
                wait_until_refused(self.cluster, job, output, "made anew", seconds=SHOWN_S)
                # Brokers that have just come back are given some seconds; then it stops.
                status = self.cluster.wait_for_status(
                    "that it stops", job, lambda s: s["state"] in ("RESTARTING", "FAILED"), 20)
                print(delivery, brief(status), flush=True)
                self.cluster.weir("cancel", "--force", job)
                self.cluster.wait_for_state(job, "CANCELED", "FAILED")
                (self.cluster.folder / "in").rename(self.cluster.folder / f"in-{delivery}")

    def test_the_topic_of_a_sink_is_deleted(self):
        """Half way through a transaction, which librdkafka would try to end for a minute."""
        with kafka(proxy=True) as self.k:
            job, output = self.write(parallelism=1)
            held = self.k.proxy.rule("AddPartitionsToTxn", at="request")
            held.wait(seconds=30)
            self.k.client.delete_topic(output)
            held.release()
            status = wait_until_refused(self.cluster, job, output, "was deleted", seconds=15)
            self.assertNotIn(output, self.k.client.topics())
            self.cluster.weir("cancel", "--force", job)
            print(brief(status), flush=True)
            self.cluster.wait_for_state(job, "CANCELED", "FAILED")

    def test_the_topic_of_a_source_is_made_anew_and_longer(self):
        source = KafkaInput(self.k, partitions=1)
        source.add(made(1000))
        job = self.cluster.submit(count_job(source.vertex(endless=True),
                                            sink_of(self.k, self.k.topic("out"))))
        # A row now and then, as long as it takes until one of them is known.
        for number in range(4):
            source.add(made(1, first=1000 + number))
            checkpoint_behind(self.cluster, job, 3)
        self.make_anew(source.topic, partitions=1)
        self.k.client.produce(source.topic, 0, [("k", '{"seq": 1, "key": "k"}')] * 3000)
        status = wait_until_refused(self.cluster, job, source.topic, "made anew", seconds=20)
        print(brief(status), flush=True)


if __name__ == "__main__":
    go_private()
    unittest.main(verbosity=2)
