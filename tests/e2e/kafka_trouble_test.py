"""Goal: whoever looks at a job with Kafka in it while something around it is bad sees within ten
seconds what and since when; and the job goes on by itself when that is well again, or stops where
going on could lose or double rows.

Method: a small disk that is filled, a proxy that refuses connections or is slow, topics that are
deleted and made anew, or take less than they did. What is shown is read from `weir status`; rows
are checked by kafka_wire.
"""

import datetime
import time
import unittest

from cluster import WAIT_S, Cluster, WaitError, brief, last_checkpoint, wait_for
from disks import SmallDisk, go_private, unavailable
from kafka_jobs import (SEGMENT, FileInput, KafkaInput, check_counts, check_kcat,
                        check_nothing_is_open, checkpoint_behind, count_job, decoded, kafka, made,
                        records_out, sink_of, visible, wait_for_visible, wait_until_recovered,
                        wait_until_refused)

NO_DISK = unavailable()
SHOWN_S = 10  # from the trouble to the first sight of it
TRY_S = 4
ROWS = 12_000
RATE = 2000
LIMIT, LOW_LIMIT = 20_000, 2000  # of a topic's messages, in bytes
LARGE = 4000      # bytes of a key: twice in its message, which is between the two limits
REFUSED_S = 6     # a settlement that was refused is tried again every two seconds
COMMIT_S = 63     # what a slow commit takes: with all that comes before it, more than a minute
SETTLED_S = 300   # the attempts that are too short for it, and the one that is not


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


class CommitsOfRows:
    """True of an EndTxn of a transaction that has rows: not of one that has but its marker."""

    def __init__(self, proxy):
        self.with_rows = set()  # transactional ids
        for api in ("InitProducerId", "Produce"):
            proxy.rule(api, where=self._look)

    def _look(self, request):
        if request.name == "Produce":
            self.with_rows.add(request.transactional_id)
        else:
            self.with_rows.discard(request.transactional_id)
        return False  # it only looks on

    def __call__(self, request):
        has_rows = request.transactional_id in self.with_rows
        self.with_rows.discard(request.transactional_id)
        return has_rows


class Long(Case):
    """What completed is not published when the job is cancelled, or its worker dies: the proxy
    holds all commits until then."""

    def all_read(self, cluster, job, source):
        """Until a completed checkpoint covers all rows of the source; the id of one that does."""
        wait_for(lambda: f"all to be read: {brief(cluster.status(job))}",
                 lambda: records_out(cluster.status(job), "rows") == len(source.rows))
        # The second began behind the last row.
        return last_checkpoint(checkpoint_behind(cluster, job, 2))

    def wait_for_commits(self, held, count):
        """Until so many identities are at a commit, and stay there."""
        def identities():
            return {request.transactional_id for request, _ in list(held.hits)}
        wait_for(lambda: f"{count} commits, of {identities()}",
                 lambda: len(identities()) == count)

    def check_all(self, k, output, rows):
        check_nothing_is_open(k, output, tool=True)
        self.assertEqual(check_counts(k, output, rows), len(rows))
        check_kcat(k, output, rows)

    def refused(self, end):
        """A topic takes less than it did, so that it refuses rows that are staged; the job is
        cancelled, and its coordinator dies while it waits. `end` ends that under the next one."""
        with kafka(proxy=True) as k, Cluster(coordinators=2) as cluster:
            first = cluster.start_coordinator(0)
            cluster.start_worker()
            cluster.wait_for_workers(1)
            cluster.start_coordinator(1)
            source = FileInput(cluster.folder / "in")
            output = k.topic("out", **{"max.message.bytes": LIMIT})
            source.add(made(1000))
            job_of = count_job(source.vertex(endless=True), sink_of(k, output))
            job = cluster.submit(job_of)
            wait_for_visible(k, output, 1000)
            held = k.proxy.rule("EndTxn", count=None)
            self.wait_for_commits(held, 2)
            k.client.set_config(output, "max.message.bytes", LOW_LIMIT)
            large = [(1500, "a" * LARGE), (1501, "b" * LARGE)]
            source.add(made(500, first=1000) + large + made(500, first=1502))
            covers = self.all_read(cluster, job, source)
            cancel = cluster.attach("cancel", job)
            newest = last_checkpoint(cluster.wait_for_state(job, "CANCELLING"))
            self.assertGreaterEqual(newest, covers)
            held.release(forward=False)
            held.remove()
            signs = ("the output of out to be settled", output, f"{LOW_LIMIT} bytes",
                     "weir cancel --force")
            self.wait_until_shown(cluster, job, *signs, seconds=30)

            def check_waits():
                status = cluster.status(job)
                self.assertEqual((status["state"], last_checkpoint(status)),
                                 ("CANCELLING", newest), status)
                self.assertTrue(list(cluster.job_dir(job).glob(f"chk-{newest}.*")))
                # Of each key the first rows, in order, and none of those that are refused.
                records = k.client.read_topic(output)
                seen = check_counts(k, output, source.rows, complete=False, records=records)
                self.assertTrue(1000 <= seen < len(source.rows), seen)
                self.assertFalse({decoded(record)["seq"] for record in records} &
                                 {seq for seq, _ in large})
            check_waits()
            first.kill()
            cancel.communicate(timeout=60)
            self.wait_until_shown(cluster, job, *signs, seconds=30)
            until = time.monotonic() + REFUSED_S
            while time.monotonic() < until:
                check_waits()
                time.sleep(0.5)
            end(k, cluster, job, job_of, source, output, newest)

    def raise_limit(self, k, output):
        """As a user does by kafka-configs."""
        k.client.set_config(output, "max.message.bytes", LIMIT)

    def test_rows_that_are_refused_to_a_cancelled_job_wait_under_the_next_coordinator(self):
        def end(k, cluster, job, job_of, source, output, newest):
            self.raise_limit(k, output)
            status = cluster.wait_for_state(job, "CANCELED")
            self.assertEqual((last_checkpoint(status), status["retained_checkpoint"]),
                             (newest, None))
            self.check_all(k, output, source.rows)
            self.assertEqual(cluster.leftovers(job), [])
        self.refused(end)

    def test_rows_that_are_refused_to_a_cancelled_job_are_published_from_its_checkpoint(self):
        def end(k, cluster, job, job_of, source, output, newest):
            forced = cluster.weir("cancel", "--force", job, which=1, code=0)
            self.assertIn("left behind", forced.err)
            status = cluster.status(job)
            self.assertEqual(status["state"], "CANCELED")
            kept = status["retained_checkpoint"]
            self.assertIn(f"/chk-{newest}.", kept)
            self.assertLess(visible(k, output), len(source.rows))
            self.raise_limit(k, output)
            path = cluster.write_job(job_of, "second.json")
            second = cluster.weir("run", "-d", path, "--from", kept, which=1, code=0).json["id"]
            wait_for_visible(k, output, len(source.rows))
            source.add(made(200, first=len(source.rows)))
            wait_for_visible(k, output, len(source.rows))
            self.assertEqual(cluster.status(second)["restarts"], 0)
            cluster.weir("cancel", second, which=1, code=0)
            self.check_all(k, output, source.rows)
        self.refused(end)

    def test_a_settlement_that_takes_longer_than_a_minute(self):
        """A worker dies, and the brokers take long to commit: who settles is given more and more
        time, at last as much as a transaction may take. Each further attempt ends the transaction
        of the one before it."""
        with kafka(proxy=True) as k, Cluster(1) as cluster:
            source, output = FileInput(cluster.folder / "in"), k.topic("out")
            source.add(made(500))
            # The client asks no second time.
            sink = sink_of(k, output, transaction_timeout="5min",
                           kafka={"socket.timeout.ms": "120000"})
            job = cluster.submit(count_job(source.vertex(endless=True), sink, interval="1s"))
            wait_for_visible(k, output, 500)
            held = k.proxy.rule("EndTxn", count=None)
            source.add(made(1500, first=500))
            self.wait_for_commits(held, 2)
            self.all_read(cluster, job, source)
            generation = cluster.status(job)["generation"]
            cluster.workers[0].kill()
            held.release(forward=False)
            held.remove()
            slow = k.proxy.rule("EndTxn", action="delay", seconds=COMMIT_S, count=None,
                                where=CommitsOfRows(k.proxy))
            began = time.monotonic()
            cluster.start_worker()
            self.wait_until_shown(cluster, job, "the output of out", "Kafka brokers", k.brokers,
                                  "do not answer", seconds=30)
            self.assertEqual(visible(k, output), 500)
            wait_for(lambda: f"{len(source.rows)} rows, {visible(k, output)} are there after "
                     f"{len(slow.hits)} commits: {brief(cluster.status(job))}",
                     lambda: visible(k, output) >= len(source.rows), SETTLED_S, 0.5)
            took = time.monotonic() - began
            print(f"settled after {took:.0f} s and {len(slow.hits)} commits", flush=True)
            self.assertGreater(took, COMMIT_S, "too fast: nothing was shown")
            self.assertEqual({request.transactional_id for request, _ in list(slow.hits)},
                             {f"{job}-out-0", f"{job}-out-1"})
            slow.remove()
            wait_until_recovered(cluster, job, generation)
            source.add(made(300, first=2000))
            wait_for_visible(k, output, len(source.rows))
            self.assertEqual(cluster.status(job)["restarts"], 1)
            cluster.weir("cancel", job, code=0)
            self.check_all(k, output, source.rows)
            self.assertEqual(cluster.leftovers(job), [])


if __name__ == "__main__":
    go_private()
    unittest.main(verbosity=2)
