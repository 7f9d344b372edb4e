"""Goal: Kafka to Kafka, exactly once, and no transaction left open, whichever process dies in
whichever gap of publishing a stage.

Method: rows with known counts per key run through a job at a limited rate. A proxy between sink and
broker holds one request or answer, which is where the gap is; then processes are killed (SIGKILL),
and started again. For a worker the same by its kill points; a coordinator stops at its own before
it gives notice of a checkpoint. Or a worker stops (SIGSTOP) and goes on when others have its place,
and what was held of it arrives then. Readers of committed rows must be held back no longer than 5 s
after recovery, and the output is compared with the input, per key in order. The broker's own tool
is asked for hanging transactions in the long tests, the same question over the wire in all.
"""

import dataclasses
import struct
import time
import unittest

import together
from cluster import Cluster, wait_for
from kafka_jobs import (SETTLED_S, FileInput, KafkaInput, check_counts, check_kcat,
                        check_nothing_is_open, checkpoint_behind, count_job, kafka, kafka_wire,
                        made, sink_of, visible, wait_for_visible, wait_until_nothing_old_is_open,
                        wait_until_recovered, worker_of)
from kill_points import KAFKA_POINTS

ROWS = 6000
RATE = 1200
TIMEOUT_S = 5         # of transactions, where it matters
SHORT_TIMEOUT_S = 3   # and where whoever could end them is away for longer


@dataclasses.dataclass
class Gap:
    """Where a process dies: when the proxy has this frame in its hands."""
    api: str
    at: str
    at_start: bool = False  # happens only when a sink starts: another kill comes first
    half: bool = False      # rows of some partitions are in the log, those of others are not

    def rows_wait(self):
        """Whether rows have been sent that have no answer."""
        return self.half or (self.api == "AddPartitionsToTxn" and self.at == "answer")


GAPS = {
    "before_init": Gap("InitProducerId", "request", at_start=True),
    "after_init": Gap("InitProducerId", "answer", at_start=True),
    "before_marker_is_read": Gap("OffsetFetch", "request", at_start=True),
    "after_begin": Gap("AddPartitionsToTxn", "request"),
    "partitions_added": Gap("AddPartitionsToTxn", "answer"),
    "half_produced": Gap("Produce", "request", half=True),
    "marker_announced": Gap("AddOffsetsToTxn", "answer"),
    "before_marker": Gap("TxnOffsetCommit", "request"),
    "after_marker": Gap("TxnOffsetCommit", "answer"),
    "before_commit": Gap("EndTxn", "request"),
    "after_commit": Gap("EndTxn", "answer"),  # applied, its answer lost
}
AT_START = ("kafka.before_init", "kafka.after_init")
REFUSED = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")  # what a fenced one's EndTxn is answered


class ThirdOfATransaction:
    """True of the third Produce request of one of an identity's transactions. Each has the rows of
    one partition. It counts from where it has seen a transaction end, or a producer begin."""

    def __init__(self, proxy, identity):
        self.seen = None
        for api in ("EndTxn", "InitProducerId"):
            proxy.rule(api, transactional_id=identity, where=self._between)

    def _between(self, _):
        self.seen = 0
        return False  # it only looks on

    def __call__(self, _):
        if self.seen is not None:
            self.seen += 1
        return self.seen == 3


class Case(unittest.TestCase):
    TOOL = False  # also ask Kafka's own tool

    def begin(self, kafka, cluster, rows=ROWS, rate=RATE, files=False, sink=None, **options):
        """Starts the job; (job, rows, output topic)."""
        source = FileInput(cluster.folder / "in") if files else KafkaInput(kafka)
        source.add(made(rows))
        output = kafka.topic("out")
        job = cluster.submit(count_job(source.vertex(rate=rate),
                                       sink_of(kafka, output, **(sink or {})), **options))
        return job, source.rows, output

    def wait_for_the_midst(self, kafka, cluster, job, output):
        cluster.wait_for_checkpoint(job, 3)
        wait_for_visible(kafka, output, 1)

    def check_recovery(self, kafka, cluster, job, output, generation):
        wait_until_recovered(cluster, job, generation)
        wait_until_nothing_old_is_open(kafka, output)

    def check_end(self, kafka, cluster, job, rows, output):
        status = cluster.finish(job)
        check_nothing_is_open(kafka, output, self.TOOL)
        self.assertEqual(check_counts(kafka, output, rows), len(rows))
        check_kcat(kafka, output, rows)
        self.assertEqual(cluster.leftovers(job), [])
        return status

    def hold(self, kafka, gap, job):
        if not gap.half:
            return kafka.proxy.rule(gap.api, at=gap.at)
        identity = f"{job}-out-0"
        return kafka.proxy.rule(gap.api, at=gap.at, transactional_id=identity,
                                where=ThirdOfATransaction(kafka.proxy, identity))

    def wait_in(self, kafka, gap, held, output):
        """Until one is in the gap: the request that is held, or whose answer is."""
        request, _ = held.wait(seconds=60)
        if gap.half:
            found = kafka.client.describe_transaction(request.transactional_id)
            self.assertEqual(found["state"], "Ongoing")
            announced = {place[1] for place in found["partitions"] if place[0] == output}

            def reached():
                return {partition for partition, producer, _ in
                        kafka.client.open_transactions(output)
                        if producer == found["producer_id"]}
            # Soon: it takes what is held for lost after 3 s, and sends it again.
            wait_for(f"rows of {request.transactional_id} in the log", reached, seconds=2)
            self.assertLess(reached(), announced, "all partitions have rows: that is not half")
        return request

    def at_gap(self, name, victims, times=1, forward=False, rest_s=0.5, sink=None):
        """Kills `victims` (worker, coordinator) so often in the gap; they come back after `rest_s`.
        `forward`: what was held arrives all the same, later than the dead one's successor has
        started."""
        gap = GAPS[name]
        with kafka(proxy=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1)
            job, rows, output = self.begin(k, cluster, rows=ROWS * times, sink=sink)
            self.wait_for_the_midst(k, cluster, job, output)
            held = self.hold(k, gap, job)
            if gap.at_start:
                cluster.workers[0].kill()
                cluster.start_worker(slots=1)
            for turn in range(times):
                request = self.wait_in(k, gap, held, output)
                seen = visible(k, output)
                self.assertLess(seen, len(rows), "too late: all rows were visible at the kill")
                if turn == 0:
                    self.assertGreater(seen, 0, "too early: no row was visible at the kill")
                # A coordinator that was started a moment ago does not lead yet.
                generation = cluster.wait_for_status("an answer", job, bool)["generation"]
                # At a start it may be the committer's, wherever that runs: all die.
                dying = (cluster.live_workers() if gap.at_start else
                         [worker_of(cluster, job, request.transactional_id)])
                if "worker" in victims:
                    for worker in dying:
                        worker.kill()
                if "coordinator" in victims:
                    cluster.coordinators[0].kill()
                if not forward:
                    held.release(forward=False)
                time.sleep(rest_s)
                # Only now: those that live on for a moment must not take it.
                following = self.hold(k, gap, job) if turn + 1 < times else None
                if "coordinator" in victims:
                    cluster.start_coordinator()
                if "worker" in victims:
                    for _ in dying:
                        cluster.start_worker(slots=1)
                if following is None:
                    self.check_recovery(k, cluster, job, output, generation)
                held.release(forward=forward)
                held = following
            self.check_end(k, cluster, job, rows, output)

    def broker_at_gap(self, name, times=1, late=False):
        """Kills the broker so often in the gap. `late`: it comes back when open transactions have
        had their time, and ends them."""
        gap = GAPS[name]
        with kafka(proxy=True, own=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1)
            job, rows, output = self.begin(
                k, cluster, rows=8000 * times, rate=1000,
                sink={"transaction_timeout": f"{SHORT_TIMEOUT_S}s"} if late else None)
            self.wait_for_the_midst(k, cluster, job, output)
            for _ in range(times):
                held = self.hold(k, gap, job)
                if gap.at_start:
                    cluster.live_workers()[0].kill()
                    cluster.start_worker(slots=1)
                request = self.wait_in(k, gap, held, output)
                is_open = not gap.at_start and \
                    k.client.describe_transaction(request.transactional_id)["state"] == "Ongoing"
                generation, seen = cluster.status(job)["generation"], visible(k, output)
                k.broker.kill()
                held.release(forward=False)
                if late:
                    time.sleep(SHORT_TIMEOUT_S + 1)
                k.broker.start()
                # Whoever had it open finds out, and a successor publishes. Rows that have no answer
                # make it end the transaction itself, perhaps before the broker does.
                if late and is_open and not gap.rows_wait():
                    self.check_recovery(k, cluster, job, output, generation)
                wait_for_visible(k, output, seen + 1)
                wait_until_nothing_old_is_open(k, output)
            self.check_end(k, cluster, job, rows, output)

    def kill_point(self, point, count):
        with kafka() as k, Cluster() as cluster:
            cluster.start_coordinator()
            other = cluster.start_worker(slots=1)
            victim = cluster.start_worker(slots=1, kill=f"{point}:{count}")
            job, rows, output = self.begin(k, cluster)
            if point in AT_START:
                cluster.wait_for_checkpoint(job, 3)
                other.kill()
                cluster.start_worker(slots=1)
            victim.wait_until_hit()
            self.assertEqual(victim.process.returncode, -9, victim.log_tail())
            self.assertLess(visible(k, output), len(rows))
            cluster.start_worker(slots=1)
            wait_until_recovered(cluster, job, 1)
            wait_until_nothing_old_is_open(k, output)
            self.check_end(k, cluster, job, rows, output)

    def before_notice(self, victims, times=1, count=4, rest_s=0.0, sink=None):
        """Kills `victims` (worker, coordinator, broker) so often when a checkpoint is completed and
        no worker knows of it; they come back after `rest_s`. The coordinator stands still there
        meanwhile."""
        def start_coordinator(cluster, count):
            cluster.start_coordinator(kill=f"coordinator.before_notice:{count}",
                                      kill_signal="STOP")

        broker_dies = "broker" in victims
        with kafka(own=broker_dies) as k, Cluster() as cluster:
            start_coordinator(cluster, count)
            for _ in range(2):
                cluster.start_worker(slots=1)
            job, rows, output = self.begin(
                k, cluster, rows=14000 if broker_dies else ROWS * times, sink=sink)
            for turn in range(times):
                coordinator = cluster.coordinators[0]
                coordinator.wait_until_hit()
                self.assertLess(visible(k, output), len(rows), "too late")
                dying = cluster.live_workers() if "worker" in victims else []
                for worker in dying:
                    worker.kill()
                if broker_dies:
                    k.broker.kill()
                if "coordinator" in victims:
                    coordinator.kill()
                time.sleep(rest_s)
                if broker_dies:
                    k.broker.start()
                following = turn + 1 < times
                if "coordinator" not in victims:
                    if following:
                        coordinator.stop_there_again()
                    coordinator.resume()
                elif following:
                    start_coordinator(cluster, 1)
                else:
                    cluster.start_coordinator()
                for _ in dying:
                    cluster.start_worker(slots=1)
            wait_for_visible(k, output, 1)
            if dying or "coordinator" in victims:
                self.check_recovery(k, cluster, job, output, times)
            else:
                wait_until_nothing_old_is_open(k, output)
            self.check_end(k, cluster, job, rows, output)

    def late(self, name, timeout_s=TIMEOUT_S):
        """All die in the gap and come back when the broker has long ended the transaction."""
        gap = GAPS[name]
        with kafka(proxy=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1)
            job, rows, output = self.begin(
                k, cluster, sink={"transaction_timeout": f"{timeout_s}s"})
            self.wait_for_the_midst(k, cluster, job, output)
            held = self.hold(k, gap, job)
            if gap.at_start:
                cluster.workers[0].kill()
                cluster.start_worker(slots=1)
            self.wait_in(k, gap, held, output)
            generation = cluster.status(job)["generation"]
            for worker in cluster.live_workers():
                worker.kill()
            cluster.coordinators[0].kill()
            held.release(forward=False)
            time.sleep(timeout_s + 4)  # the broker looks once a second
            k.client.wait_until_settled(output, 1)
            before = visible(k, output)
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1)
            self.check_recovery(k, cluster, job, output, generation)
            self.check_end(k, cluster, job, rows, output)
            self.assertTrue(0 < before < len(rows), before)

    def wait_longer_than_anything(self, cluster, job, since, timeout_s):
        time.sleep(max(0.0, since + timeout_s + 2 - time.monotonic()))
        checkpoint_behind(cluster, job)
        self.assertEqual(cluster.status(job)["state"], "RUNNING", "too fast")

    def zombie(self, name, timeout_s=TIMEOUT_S):
        """A worker stops for longer than everything waits for it, then what it was about to do
        arrives, then it goes on. At a start all workers stop: whose the id is, is not told."""
        gap = GAPS[name]
        with kafka(proxy=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1)
            job, rows, output = self.begin(
                k, cluster, rows=11000, rate=700, sink={"transaction_timeout": f"{timeout_s}s"})
            self.wait_for_the_midst(k, cluster, job, output)
            if gap.at == "request":  # the answers are only looked at
                answers = k.proxy.rule(gap.api, at="answer", action="delay", count=None)
            held = self.hold(k, gap, job)
            if gap.at_start:
                cluster.workers[0].kill()
                cluster.start_worker(slots=1)
            request = self.wait_in(k, gap, held, output)
            generation = cluster.status(job)["generation"]
            victims = (cluster.live_workers() if gap.at_start else
                       [worker_of(cluster, job, request.transactional_id)])
            since = time.monotonic()
            for victim in victims:
                victim.pause()
            for _ in victims:
                cluster.start_worker(slots=1)
            self.check_recovery(k, cluster, job, output, generation)
            generation = cluster.status(job)["generation"]
            self.wait_longer_than_anything(cluster, job, since, timeout_s)
            held.release()
            if gap.at == "request":
                answer = wait_for("an answer to what was held", lambda: next(
                    (answer for asked, answer in answers.hits if asked is request), None))
                if gap.api == "EndTxn":
                    # Behind the correlation and the time that it was throttled.
                    code = struct.unpack_from(">h", answer, 8)[0]
                    self.assertIn(kafka_wire.ERRORS.get(code, code), REFUSED,
                                  "the late commit was taken")
            # The late one has the id of its successor now, which finds out at its next commit.
            if name == "before_init":
                self.check_recovery(k, cluster, job, output, generation)
                generation = cluster.status(job)["generation"]
            for victim in victims:
                victim.resume()
            checkpoint_behind(cluster, job, 5)
            wait_until_nothing_old_is_open(k, output)
            status = self.check_end(k, cluster, job, rows, output)
            self.check_disturbance(k, job, status, generation, gap.at_start)

    def check_disturbance(self, kafka, job, status, generation, starting):
        """One that starts has been told that it may, and asks the broker for each of its ids until
        it has an answer: it may take each from its successor, but once."""
        may = len(kafka.identities(job)) if starting else 0
        self.assertIn(status["generation"] - generation, range(may + 1),
                      "the zombie disturbed the job")

    def zombie_at_point(self, point, steals, timeout_s=TIMEOUT_S):
        """A worker stops at its start for longer than everything waits for it, then goes on."""
        with kafka() as k, Cluster() as cluster:
            cluster.start_coordinator()
            other = cluster.start_worker(slots=1)
            victim = cluster.start_worker(slots=1, kill=f"{point}:{KAFKA_POINTS[point]}",
                                          kill_signal="STOP")
            job, rows, output = self.begin(
                k, cluster, rows=11000, rate=700, sink={"transaction_timeout": f"{timeout_s}s"})
            self.wait_for_the_midst(k, cluster, job, output)
            other.kill()
            cluster.start_worker(slots=1)
            victim.wait_until_hit()
            since = time.monotonic()
            generation = cluster.status(job)["generation"]
            cluster.start_worker(slots=1)
            self.check_recovery(k, cluster, job, output, generation)
            self.wait_longer_than_anything(cluster, job, since, timeout_s)
            generation = cluster.status(job)["generation"]

            def epochs():
                return {name: k.client.describe_transaction(name)["producer_epoch"]
                        for name in k.identities(job)}
            before = epochs()
            victim.resume()
            if steals:
                wait_for(lambda: f"the late one to take an id: {before}, then {epochs()}",
                         lambda: epochs() != before)
                self.check_recovery(k, cluster, job, output, generation)
            checkpoint_behind(cluster, job, 5)
            wait_until_nothing_old_is_open(k, output)
            status = self.check_end(k, cluster, job, rows, output)
            self.check_disturbance(k, job, status, generation, starting=True)


class Quick(Case):
    def test_worker_half_produced(self):
        self.at_gap("half_produced", ["worker"])

    def test_worker_after_commit(self):
        self.at_gap("after_commit", ["worker"])

    def test_coordinator_before_commit(self):
        self.at_gap("before_commit", ["coordinator"])

    def test_both_after_marker(self):
        self.at_gap("after_marker", ["worker", "coordinator"])

    def test_worker_twice_before_the_marker_is_read(self):
        self.at_gap("before_marker_is_read", ["worker"], times=2)

    def test_worker_before_init_which_arrives_late(self):
        self.at_gap("before_init", ["worker"], forward=True)

    def test_recovery_behind_the_transaction_timeout(self):
        self.late("half_produced")

    def test_a_zombie_before_its_commit(self):
        self.zombie("before_commit")

    def test_a_worker_that_nothing_takes_the_place_of(self):
        """The job waits for slots; the worker that is left settles what the dead one had open."""
        with kafka(proxy=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1)
            job, rows, output = self.begin(k, cluster)
            self.wait_for_the_midst(k, cluster, job, output)
            held = self.hold(k, GAPS["before_commit"], job)
            request, _ = held.wait(seconds=60)
            worker_of(cluster, job, request.transactional_id).kill()
            held.release(forward=False)
            wait_until_nothing_old_is_open(k, output)
            status = cluster.wait_for_status(
                "the wait for slots", job, lambda s: "slots" in (s["waiting_for"] or ""))
            self.assertEqual(status["state"], "RESTARTING")
            k.client.wait_until_settled(output, SETTLED_S)
            cluster.start_worker(slots=1)
            self.check_end(k, cluster, job, rows, output)


class QuickPoints(Case):
    pass


class QuickBroker(Case):
    def test_broker_before_commit(self):
        self.broker_at_gap("before_commit")


class Long(Case):
    TOOL = True


class LongTwice(Case):
    TOOL = True


class LongBroker(Case):
    TOOL = True


class LongPoints(Case):
    TOOL = True


def add(case, name, action):
    setattr(case, f"test_{name}", action)


for gap_name, the_gap in GAPS.items():
    for who in (("worker",), ("coordinator",), ("worker", "coordinator")):
        add(Long, f"{'_and_'.join(who)}_{gap_name}",
            lambda self, g=gap_name, who=who: self.at_gap(g, who))
        add(LongTwice, f"{'_and_'.join(who)}_{gap_name}",
            lambda self, g=gap_name, who=who: self.at_gap(g, who, times=2))
    add(Long, f"worker_{gap_name}_late_request",
        lambda self, g=gap_name: self.at_gap(g, ["worker"], forward=True))
    add(Long, f"late_{gap_name}", lambda self, g=gap_name: self.late(g))
    add(LongTwice, f"worker_{gap_name}_and_late", lambda self, g=gap_name: self.at_gap(
        g, ["worker"], times=2, rest_s=TIMEOUT_S + 4,
        sink={"transaction_timeout": f"{TIMEOUT_S}s"}))
    add(LongBroker, f"broker_{gap_name}", lambda self, g=gap_name: self.broker_at_gap(g))
    add(LongBroker, f"broker_twice_{gap_name}", lambda self, g=gap_name: self.broker_at_gap(g, 2))
    add(LongBroker, f"broker_{gap_name}_late",
        lambda self, g=gap_name: self.broker_at_gap(g, late=True))
    add(Long, f"zombie_{gap_name}", lambda self, g=gap_name: self.zombie(g))
for who in (("worker",), ("coordinator",), ("worker", "coordinator")):
    add(LongPoints, f"{'_and_'.join(who)}_before_notice",
        lambda self, who=who: self.before_notice(who))
    add(LongPoints, f"{'_and_'.join(who)}_twice_before_notice",
        lambda self, who=who: self.before_notice(who, times=2))
add(LongPoints, "late_before_notice", lambda self: self.before_notice(
    ["worker", "coordinator"], rest_s=SHORT_TIMEOUT_S + 2,
    sink={"transaction_timeout": f"{SHORT_TIMEOUT_S}s"}))
add(LongBroker, "broker_before_notice", lambda self: self.before_notice(["broker"]))
add(LongBroker, "broker_twice_before_notice", lambda self: self.before_notice(["broker"], times=2))
for who in (("broker",), ("worker", "coordinator", "broker")):
    add(LongBroker, f"{'_and_'.join(who)}_before_notice_late",
        lambda self, who=who: self.before_notice(
            who, rest_s=SHORT_TIMEOUT_S + 1,
            sink={"transaction_timeout": f"{SHORT_TIMEOUT_S}s"}))
for point in AT_START:
    add(LongPoints, f"zombie_{point.replace('.', '_')}",
        lambda self, p=point: self.zombie_at_point(p, steals=p == "kafka.before_init"))
for point, count in KAFKA_POINTS.items():
    sentence = point.replace(".", "_")
    if point in ("kafka.after_begin", "kafka.before_notice"):
        add(QuickPoints, sentence, lambda self, p=point, c=count: self.kill_point(p, c))
    for other in (2,) if point in AT_START else (1, 2, 5, 8):
        add(LongPoints, f"{sentence}_{other:02}",
            lambda self, p=point, c=other: self.kill_point(p, c))

if __name__ == "__main__":
    together.main()
