"""Goal: whoever looks at a job with Kafka in it while something around it is bad sees within ten
seconds what and since when; and the job goes on by itself when that is well again, or stops where
going on could lose or double rows.

Method: a small disk that is filled, a proxy that refuses connections, topics that are deleted and
made anew. What is shown is read from `weir status`; rows are checked by kafka_wire.
"""

import datetime
import time
import unittest

from cluster import Cluster, brief, wait_for
from disks import SmallDisk, unavailable
from kafka_jobs import FileInput, KafkaInput, check_counts, count_job, kafka, made, sink_of

NO_DISK = unavailable()
SHOWN_S = 10  # from the trouble to the first sight of it
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
    def run_without_room(self, sign, make_sick, make_well):
        with kafka() as k, Cluster(workers=0) as cluster, \
                SmallDisk(cluster.checkpoint_dir) as checkpoints:
            cluster.start_coordinator()
            cluster.start_worker()
            cluster.wait_for_workers(1)
            source, output = FileInput(cluster.folder / "in"), k.topic("out")
            source.add(made(ROWS))
            job = cluster.submit(count_job(source.vertex(rate=RATE), sink_of(k, output)))
            cluster.wait_for_checkpoint(job, 3)
            make_sick(checkpoints)
            self.wait_until_shown(cluster, job, sign, "/staged/")
            time.sleep(2)
            status = cluster.status(job)
            self.assertEqual((status["state"], status["restarts"]), ("RUNNING", 0), status)
            make_well(checkpoints)
            status = cluster.finish(job)
            self.assertEqual((status["restarts"], status["waiting_for"]), (0, None), status)
            self.assertEqual(check_counts(k, output, source.rows), ROWS)
            self.assertEqual(cluster.leftovers(job), [])

    def test_a_full_checkpoint_directory(self):
        self.run_without_room("No space left on device", SmallDisk.fill, SmallDisk.free)

    def test_a_read_only_checkpoint_directory(self):
        self.run_without_room("Read-only file system", lambda disk: disk.read_only(True),
                              lambda disk: disk.read_only(False))


class QuickAway(Case):
    """The proxy refuses all connections: to what a sink or source needs, and to a settlement."""

    def run_away(self, vertices, output, finish):
        """`vertices`: (source, sink) of the job, by the proxy's address."""
        k = self.k
        with Cluster(1) as cluster:
            job = cluster.submit(count_job(*vertices(cluster)))
            cluster.wait_for_checkpoint(job, 3)
            k.proxy.refuse()
            k.proxy.cut()
            away = time.time()
            status = self.wait_until_shown(cluster, job, "Kafka brokers", k.brokers,
                                           "do not answer")
            since = seconds_of(status["waiting_since"])
            self.assertTrue(away - 1 <= since <= time.time(), status["waiting_since"])
            self.assertIn("do not answer", cluster.weir("status", job, as_json=False, code=0).out)
            if finish:
                k.proxy.refuse(False)
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
        return self.source.vertex(rate=RATE)

    def test_a_sink_exactly_once(self):
        output = self.k.topic("out")
        self.run_away(lambda cluster: (self.files(cluster), sink_of(self.k, output)), output,
                      finish=True)

    def test_a_sink_at_least_once(self):
        output = self.k.topic("out")
        self.run_away(lambda cluster: (self.files(cluster), sink_of(
            self.k, output, delivery="at_least_once")), output, finish=True)

    def test_a_source(self):
        source = self.source = KafkaInput(self.k)
        source.add(made(ROWS))
        output = self.k.topic("out")
        sink = sink_of(self.k, output)
        sink["config"]["brokers"] = self.k.broker.bootstrap
        # The rows are in the client's hands by then: that is no reason to say nothing.
        self.run_away(lambda _: (source.vertex(rate=RATE / 3, brokers=self.k.brokers), sink),
                      output, finish=True)

    def test_a_settlement(self):
        output = self.k.topic("out")
        self.run_away(lambda cluster: (self.files(cluster), sink_of(self.k, output)), output,
                      finish=False)


if __name__ == "__main__":
    unittest.main(verbosity=2)
