"""Goal: whatever becomes of the answer to a commit, and whenever an old commit or abort arrives,
nothing is doubled and nothing lost.

Method: a proxy cuts requests and answers; or it holds the EndTxn of one transaction, lets the
client's retry on a new connection pass, and lets the old one go half way through the next
transaction (a torn transaction). A producer of librdkafka's that does not begin anew after such a
disturbance loses its atomicity by these very steps: that is tested, too.
"""

import sys
import threading
import time
import unittest

import together
from cluster import SOURCE_DIR, Cluster, wait_for
from kafka_jobs import (SETTLED_S, FileInput, check_counts, check_kcat,
                        check_nothing_is_open, count_job, kafka, made,
                        sink_of, visible, wait_for_visible, wait_until_recovered, worker_of)

sys.path.insert(0, str(SOURCE_DIR / "tests/support/kafka"))

from kafka_broker_test import RdkafkaProducer  # noqa: E402

ROWS = 8000
RATE = 800


class EveryNth:
    """True of each n-th request that it is asked about, from the one numbered `first` on."""

    def __init__(self, n, first):
        self.n, self.first, self.asked = n, first, -1

    def __call__(self, _):
        self.asked += 1
        return self.asked % self.n == self.first


class Case(unittest.TestCase):
    TOOL = False  # also ask Kafka's own tool

    def begin(self, k, cluster, parallelism=1, rows=ROWS, rate=RATE, sink=None):
        source = FileInput(cluster.folder / "in")
        source.add(made(rows))
        output = k.topic("out")
        job = cluster.submit(count_job(source.vertex(rate=rate),
                                       sink_of(k, output, **(sink or {})),
                                       parallelism=parallelism))
        return job, source.rows, output

    def check_rows(self, k, rows, output):
        check_nothing_is_open(k, output, self.TOOL)
        self.assertEqual(check_counts(k, output, rows), len(rows))
        check_kcat(k, output, rows)

    def check_end(self, k, cluster, job, rows, output):
        cluster.finish(job)
        self.check_rows(k, rows, output)
        self.assertEqual(cluster.leftovers(job), [])

    def cuts(self, api, places, times):
        """Rows flow until there were enough of them."""
        with kafka(proxy=True) as k, Cluster(1) as cluster:
            source, output = FileInput(cluster.folder / "in"), k.topic("out")
            source.add(made(ROWS // 2))
            job = cluster.submit(count_job(source.vertex(rate=RATE, endless=True),
                                           sink_of(k, output)))
            cluster.wait_for_checkpoint(job, 3)
            rules = [k.proxy.rule(api, at=place, action="cut", count=times // len(places),
                                  where=EveryNth(len(places), i))
                     for i, place in enumerate(places)]

            def enough():
                if len(source.rows) - visible(k, output) < RATE:
                    source.add(made(RATE, first=len(source.rows)))
                return all(len(rule.hits) == times // len(places) for rule in rules)
            wait_for(lambda: f"{times} cuts, there were {[len(rule.hits) for rule in rules]}",
                     enough, 120, 0.1)
            wait_for_visible(k, output, len(source.rows))
            self.check_rows(k, source.rows, output)
            cluster.weir("cancel", job, code=0)
            cluster.wait_for_state(job, "CANCELED", seconds=60)
            self.assertEqual(cluster.leftovers(job), [])

    def torn(self, abort, dies):
        """`dies`: the worker is killed when the old one has arrived, before its next commit."""
        with kafka(proxy=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker()
            job, rows, output = self.begin(k, cluster)
            cluster.wait_for_checkpoint(job, 3)
            if abort:  # an answer that is lost here makes the client abort
                k.proxy.rule("TxnOffsetCommit", at="answer", action="drop", count=4)
            # The last byte of EndTxn v0 and v1 says whether it commits.
            old = k.proxy.rule("EndTxn", where=lambda request: bool(request.data[-1]) != abort)
            old.wait(seconds=60)
            # Half way through the next transaction: one partition's rows are in it.
            half = k.proxy.rule("Produce", nth=2)
            half.wait(seconds=60)
            before = visible(k, output)
            old.release()
            time.sleep(0.7)
            self.assertEqual(visible(k, output), before, "half a transaction has become visible")
            generation = cluster.status(job)["generation"]
            if dies:
                victim = worker_of(cluster, job, f"{job}-out-0")
                victim.kill()
                half.release(forward=False)
                cluster.start_worker()
                wait_until_recovered(cluster, job, generation)
                k.client.wait_until_settled(output, SETTLED_S)
            else:
                half.release()
            self.check_end(k, cluster, job, rows, output)

    def naive(self, abort):
        """The same steps with one instance of librdkafka that just goes on."""
        def committed():
            return [record.value for record in k.client.read_topic(output)]

        with kafka(proxy=True) as k:
            output = k.topic("out", 2)
            producer = RdkafkaProducer(k.brokers, output, **{"socket.timeout.ms": "2000"})
            old = k.proxy.rule("EndTxn")
            producer.begin()
            producer.produce(output, 0, [b"first"])
            ending = threading.Thread(target=producer.abort if abort else producer.commit)
            ending.start()
            old.wait()
            ending.join(60)  # its retry passes
            k.client.wait_until_settled(output)
            first = [] if abort else [b"first"]
            self.assertEqual(committed(), first)
            producer.begin()
            producer.produce(output, 0, [b"half"])
            self.assertEqual(committed(), first)
            self.assertEqual(len(k.client.open_transactions(output)), 1)
            old.release()
            if abort:
                k.client.wait_until_settled(output)  # the half is gone, and nobody has been told
                producer.produce(output, 1, [b"other half"])
                producer.commit()
                k.client.wait_until_settled(output)
                self.assertEqual(committed(), [b"other half"])
            else:
                wait_for("the half to be visible", lambda: committed() == [b"first", b"half"])
            producer.close()


class Quick(Case):
    def test_twenty_commits_of_unknown_outcome(self):
        self.cuts("EndTxn", ("answer", "request"), 20)

    def test_a_commit_comes_late(self):
        self.torn(abort=False, dies=True)

    def test_an_abort_comes_late(self):
        self.torn(abort=True, dies=False)


class QuickNaive(Case):
    def test_without_the_defence_a_late_commit_shows_half_a_transaction(self):
        self.naive(abort=False)

    def test_without_the_defence_a_late_abort_loses_half_a_transaction(self):
        self.naive(abort=True)


class Long(Case):
    TOOL = True

    def test_a_commit_comes_late_and_the_worker_lives(self):
        self.torn(abort=False, dies=False)

    def test_an_abort_comes_late_and_the_worker_dies(self):
        self.torn(abort=True, dies=True)

    def test_twenty_commits_whose_answers_are_lost(self):
        self.cuts("EndTxn", ("answer",), 20)

    def test_twenty_lost_answers_of_everything_else(self):
        for api in ("AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit"):
            with self.subTest(api=api):
                self.cuts(api, ("answer", "request"), 20)


if __name__ == "__main__":
    together.main()
