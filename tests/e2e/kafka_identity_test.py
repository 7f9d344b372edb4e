"""Goal: every stage is published once and every identity has one owner: in silence, with one row an
interval, at other parallelisms, beside jobs of the same name, after a cancel, when another job goes
on from the output; and a job whose marker is lost or ahead refuses to run.

Method: a proxy slows down or holds what the sink sends; rows come from files, so that only the sink
is in question. What the broker holds (markers, transactional ids, offsets) is read by kafka_wire.
"""

import json
import shutil
import time
import unittest

import together
from cluster import Cluster, brief, last_checkpoint, wait_for
from kafka_jobs import (SETTLED_S, FileInput, KafkaInput, check_counts, check_nothing_is_open,
                        checkpoint_behind, count_job, kafka, made, markers, records_out, sink_of,
                        timed, visible, wait_for_visible, wait_until_marked, wait_until_refused)

CANCEL_S = 15  # of a loaded machine; a transaction's time-out is longer
TIMEOUT_S = 5  # of transactions


class Case(unittest.TestCase):
    def files(self, cluster, rows=None, name="in"):
        source = FileInput(cluster.folder / name)
        if rows:
            source.add(rows)
        return source

    def all_visible(self, k, output, source):
        wait_for_visible(k, output, len(source.rows))
        check_nothing_is_open(k, output)
        self.assertEqual(check_counts(k, output, source.rows), len(source.rows))

    def silence(self, seconds):
        """Checkpoints without rows, before the first row and between rows, for longer than a
        transaction may last."""
        with kafka() as k, Cluster(1) as cluster:
            source, output = self.files(cluster), k.topic("out")
            job = cluster.submit(count_job(
                source.vertex(endless=True),
                sink_of(k, output, transaction_timeout=f"{TIMEOUT_S}s"), interval="100ms"))
            cluster.wait_for_checkpoint(job, 5)
            # The marker goes on with every checkpoint: the broker forgets one that rests.
            wait_until_marked(k, job, output, 3)
            source.add(made(40))
            self.all_visible(k, output, source)
            began = last_checkpoint(cluster.status(job))
            time.sleep(seconds)
            k.client.wait_until_settled(output, SETTLED_S)
            passed = last_checkpoint(cluster.status(job)) - began
            self.assertGreater(passed, seconds, "checkpoints in the silence")
            wait_until_marked(k, job, output, began + passed - 2)
            source.add(made(40, first=40))
            self.all_visible(k, output, source)
            status = cluster.status(job)
            self.assertEqual((status["state"], status["restarts"], status["generation"]),
                             ("RUNNING", 0, 1))
            cluster.weir("cancel", job, code=0)
            self.all_visible(k, output, source)

    def one_row_each(self, intervals):
        """One row per checkpoint, while joining a transaction takes longer than an interval."""
        with kafka(proxy=True) as k, Cluster(1) as cluster:
            slow = k.proxy.rule("AddPartitionsToTxn", action="delay", seconds=0.15, count=None)
            source, output = self.files(cluster), k.topic("out")
            job = cluster.submit(count_job(source.vertex(endless=True), sink_of(k, output),
                                           interval="100ms"))
            cluster.wait_for_checkpoint(job, 1)
            for row in made(intervals):
                source.add([row])
                checkpoint_behind(cluster, job, 1)
            self.all_visible(k, output, source)
            self.assertGreater(len(slow.hits), intervals / 3)
            status = cluster.status(job)
            self.assertEqual((status["state"], status["restarts"]), ("RUNNING", 0))

    # -- other parallelisms ----------------------------------------------------------------------

    def rescale(self, before, after, cancel=()):
        """Stages of all identities are pending (the proxy holds their commits) when the workers
        die; the job is cancelled and goes on from its checkpoint at another parallelism."""
        with kafka(proxy=True) as k, Cluster() as cluster:
            cluster.start_coordinator()
            first = cluster.start_worker(slots=before)
            source, output = self.files(cluster, made(1000)), k.topic("out")
            job = cluster.submit(count_job(
                source.vertex(rate=3000, endless=True), sink_of(k, output), parallelism=before,
                **{"checkpoint.on_cancel": "keep"}))
            wait_for_visible(k, output, 1000)
            held = k.proxy.rule("EndTxn", count=None)
            source.add(made(2000, first=1000))
            wait_for(lambda: f"all to be read: {brief(cluster.status(job))}",
                     lambda: records_out(cluster.status(job), "rows") == 3000)
            checkpoint_behind(cluster, job, 2)  # the second began behind the last row

            def identities():
                return {request.transactional_id for request, _ in list(held.hits)}
            wait_for(lambda: f"{before} commits, of {identities()}",
                     lambda: len(identities()) == before)
            source.add(made(500, first=3000))  # some are on their way when it dies
            first.kill()
            held.release(forward=False)
            held.remove()
            if not cancel:  # with a worker, what completed is published before it ends
                cluster.start_worker(slots=max(before, after))
            cluster.weir("cancel", job, *cancel, code=0)
            status = cluster.status(job)
            self.assertEqual(status["state"], "CANCELED")
            if cancel:
                cluster.start_worker(slots=max(before, after))
                self.assertEqual(visible(k, output), 1000)  # 2000 or more are pending
            else:
                k.client.wait_until_settled(output, SETTLED_S)
                self.assertGreaterEqual(visible(k, output), 3000)
            path = cluster.write_job(count_job(
                source.vertex(rate=3000, endless=True), sink_of(k, output), parallelism=after),
                "second.json")
            second = cluster.weir("run", "-d", path, "--from", status["retained_checkpoint"],
                                  code=0).json["id"]
            cluster.wait_for_checkpoint(second, last_checkpoint(status) + 1)
            k.client.wait_until_settled(output, SETTLED_S)
            self.assertGreaterEqual(visible(k, output), 3000)
            source.add(made(500, first=3500))
            self.all_visible(k, output, source)
            self.assertEqual(cluster.status(second)["restarts"], 0)
            ids = k.identities(second)
            self.assertEqual(len(ids), after, ids)

    # -- refusals --------------------------------------------------------------------------------

    def refuses(self, damage, *words):
        """Markers are damaged while no worker lives; then the job must not go on."""
        with kafka() as k, Cluster(1) as cluster:
            source, output = self.files(cluster, made(400)), k.topic("out")
            job = cluster.submit(count_job(source.vertex(endless=True), sink_of(k, output)))
            wait_for_visible(k, output, 400)
            wait_until_marked(k, job, output, 2)
            # While the job lives: what dies in a transaction leaves the marker pending for long.
            found = markers(k, job, output)
            self.assertEqual(sorted(found), [0, 1])
            cluster.workers[0].kill()
            time.sleep(0.5)
            group = f"{job}-out-1"
            damage(k, output, group, *found[1])
            source.add(made(100, first=400))
            cluster.start_worker()
            status = wait_until_refused(cluster, job, group, *words)
            self.assertIn(status["state"], ("RESTARTING", "FAILED"))
            time.sleep(3)
            self.assertEqual(visible(k, output), 400)
            self.assertIn(cluster.status(job)["state"], ("RESTARTING", "FAILED"))
            k.client.wait_until_settled(output, SETTLED_S)

    def marker_lost(self):
        self.refuses(lambda k, output, group, offset, metadata: k.client.delete_group(group),
                     "marker")

    def marker_ahead(self):
        self.refuses(lambda k, output, group, offset, metadata: k.client.commit_group_offset(
            group, output, 0, offset + 1000, metadata), "ahead")

    def marker_of_another_job(self):
        def damage(k, output, group, offset, metadata):
            job = group[:-len("-out-1")]
            self.assertIn(job, metadata)
            k.client.commit_group_offset(group, output, 0, offset,
                                         metadata.replace(job, "0" * len(job)))
        self.refuses(damage, "0" * 8)

    def marker_without_metadata(self):
        self.refuses(lambda k, output, group, offset, metadata: k.client.commit_group_offset(
            group, output, 0, offset, ""), "marker")


class Quick(Case):
    def test_silence(self):
        self.silence(TIMEOUT_S + 2)

    def test_one_row_each_interval(self):
        self.one_row_each(12)

    def test_stages_are_pending_and_the_parallelism_is_lower(self):
        self.rescale(2, 1, ("--force",))

    def test_marker_is_lost(self):
        self.marker_lost()

    def test_marker_is_ahead(self):
        self.marker_ahead()

    def test_jobs_of_one_name_and_two_sinks_of_one_job_share_nothing(self):
        with kafka() as k, Cluster(2, slots=4) as cluster:
            jobs = []
            for i in range(2):
                source = self.files(cluster, made(2500, seed=i), f"in-{i}")
                tops = [k.topic(f"out-{i}-a"), k.topic(f"out-{i}-b")]
                sinks = [sink_of(k, topic, uid) for topic, uid in zip(tops, ("a", "b"))]
                jobs.append((cluster.submit(count_job(source.vertex(rate=700), *sinks)), source,
                             tops))
            for job, _, _ in jobs:
                cluster.wait_for_checkpoint(job, 3)
            cluster.workers[0].kill()
            cluster.start_worker(slots=4)
            ids = set()
            for job, source, tops in jobs:
                cluster.finish(job)
                for topic in tops:
                    k.client.wait_until_settled(topic, SETTLED_S)
                    self.assertEqual(check_counts(k, topic, source.rows), 2500)
                own = k.identities(job)
                self.assertEqual(own, [f"{job}-{uid}-{n}" for uid in "ab" for n in (0, 1)])
                ids |= set(own)
            self.assertEqual(len(ids), 8)

    def test_two_sinks_write_to_one_topic(self):
        with kafka() as k, Cluster(1) as cluster:
            source, output = self.files(cluster, made(800)), k.topic("out")
            job = cluster.submit(count_job(source.vertex(rate=2000), sink_of(k, output, "a"),
                                           sink_of(k, output, "b")))
            cluster.finish(job)
            k.client.wait_until_settled(output, SETTLED_S)
            seqs = sorted(seq for seq, _ in source.rows for _ in range(2))
            self.assertEqual(sorted(json.loads(r.value)["seq"]
                                    for r in k.client.read_topic(output)), seqs)

    def test_a_cancelled_job_holds_no_reader_back(self):
        for api, at in (("EndTxn", "request"), ("Produce", "answer")):
            with self.subTest(api=api), kafka(proxy=True) as k, Cluster(1) as cluster:
                source, output = self.files(cluster, made(20000)), k.topic("out")
                job_of = count_job(source.vertex(rate=2000), sink_of(k, output))
                job = cluster.submit(job_of)
                cluster.wait_for_checkpoint(job, 3)
                held = k.proxy.rule(api, at=at)
                held.wait(seconds=60)
                _, took = timed(lambda: cluster.weir("cancel", job, code=0))
                self.assertLess(took, CANCEL_S)
                check_nothing_is_open(k, output)
                held.release()
                check_nothing_is_open(k, output)
                before = check_counts(k, output, source.rows, complete=False)
                self.assertTrue(0 < before < 20000)
                # Anew: it begins with the first row, under names of its own.
                second = cluster.submit(job_of)
                wait_for_visible(k, output, before + 500)
                cluster.weir("cancel", second, code=0)
                check_nothing_is_open(k, output)
                records = k.client.read_topic(output)
                ends = {p: sum(1 for r in records if r.partition == p) for p in range(4)}
                self.assertGreater(sum(ends.values()), before)
                self.assertFalse(set(k.identities(job)) & set(k.identities(second)))

    def test_a_prefix_of_a_live_job_is_refused_to_a_second_one(self):
        with kafka() as k, Cluster(1, slots=4) as cluster:
            source, output = self.files(cluster, made(100)), k.topic("out")
            job_of = count_job(source.vertex(endless=True),
                               sink_of(k, output, transactional_id_prefix=output))
            job = cluster.submit(job_of)
            cluster.wait_for_checkpoint(job, 2)
            wait_for_visible(k, output, 100)
            self.assertEqual(k.identities(output), [f"{output}-out-0", f"{output}-out-1"])
            refused, took = timed(lambda: cluster.weir(
                "run", "-d", cluster.write_job(job_of, "second.json"), as_json=False))
            self.assertEqual(refused.code, 2, refused)
            self.assertIn(output, refused.err)
            self.assertIn(job[:8], refused.err)
            self.assertLess(took, 5)
            source.add(made(100, first=100))
            self.all_visible(k, output, source)  # the first one has not been disturbed
            self.assertEqual(cluster.status(job)["restarts"], 0)


class QuickGrowth(Case):
    def growth(self, after):
        """Partitions 2 to 5 while the job runs; then it goes on at other parallelisms."""
        with kafka() as k, Cluster(1, slots=8) as cluster:
            source, output = KafkaInput(k, partitions=2), k.topic("out")
            source.add(made(300))

            def job_of(parallelism):
                return count_job(
                    source.vertex(endless=True), sink_of(k, output), parallelism=parallelism,
                    **{"checkpoint.on_cancel": "keep"})
            job = cluster.submit(job_of(2))
            wait_for_visible(k, output, 300)
            k.client.create_partitions(source.topic, 5)
            source.partitions = 5
            source.add(made(500, first=300))
            self.all_visible(k, output, source)
            self.assertEqual(cluster.status(job)["restarts"], 0)
            for parallelism in after:
                cluster.weir("cancel", job, code=0)
                kept = cluster.status(job)["retained_checkpoint"]
                source.add(made(300, first=len(source.rows)))
                path = cluster.write_job(job_of(parallelism), f"{parallelism}.json")
                job = cluster.weir("run", "-d", path, "--from", kept, code=0).json["id"]
                self.all_visible(k, output, source)
                source.add(made(300, first=len(source.rows)))
                self.all_visible(k, output, source)
                checkpoint_behind(cluster, job, 3)
                self.assertEqual(visible(k, output), len(source.rows))
            cluster.weir("cancel", job, code=0)

    def test_partitions_grow_and_the_job_goes_on_at_parallelism_3(self):
        self.growth([3])


KEEP = {"checkpoint.on_cancel": "keep", "checkpoint.retained": "100"}


class QuickLineage(Case):
    """Jobs are cancelled and others started from their checkpoints, or from copies of older ones:
    one goes on from an output, the others are refused and publish nothing."""

    def start(self, cluster, job, name, source=None):
        """The id of a job that goes on from checkpoint directory `source`."""
        path = cluster.write_job(job, f"{name}.json")
        origin = ["--from", str(source)] if source else []
        return cluster.weir("run", "-d", path, *origin, code=0).json["id"]

    def refused(self, cluster, job, source, *words):
        path = cluster.write_job(job, "refused.json")
        answer, took = timed(lambda: cluster.weir("run", "-d", path, "--from", str(source),
                                                  as_json=False))
        self.assertEqual(answer.code, 2, answer)
        for word in ("kafka.sink 'out'", *words):
            self.assertIn(word, answer.err)
        self.assertLess(took, 5)

    def cancelled(self, cluster, job):
        """Its kept checkpoint."""
        cluster.weir("cancel", job, code=0)
        return cluster.status(job)["retained_checkpoint"]

    def copied(self, cluster, job):
        """A copy of the newest checkpoint while the job goes on."""
        checkpoint_behind(cluster, job, 1)
        folder = cluster.job_dir(job)

        def copy():
            number = last_checkpoint(cluster.status(job))
            there = sorted(folder.glob(f"chk-{number}.*"))
            target = cluster.folder / f"copy-{number}"
            if not there:
                return None
            shutil.copytree(there[-1], target / there[-1].name)
            shutil.copy(folder / "job.pb", target)
            if (folder / "shared").is_dir():
                shutil.copytree(folder / "shared", target / "shared")
            return target / there[-1].name
        return wait_for("a checkpoint to copy", copy)

    def test_one_job_goes_on_from_an_output(self):
        with kafka() as k, Cluster(1, slots=4) as cluster:
            source, output = FileInput(cluster.folder / "in"), k.topic("out")
            source.add(made(300))
            job_of = count_job(source.vertex(endless=True), sink_of(k, output), **KEEP)
            first = self.start(cluster, job_of, "first")
            self.all_visible(k, output, source)
            older = self.copied(cluster, first)
            checkpoint_behind(cluster, first, 2)
            kept = self.cancelled(cluster, first)
            self.refused(cluster, job_of, older, first, "ahead", "on_doubled_rows")

            second = self.start(cluster, job_of, "second", kept)
            source.add(made(200, first=300))
            self.all_visible(k, output, source)
            for offset, metadata in markers(k, first, output).values():
                self.assertIn(second, metadata)
            for origin in (kept, older):
                self.refused(cluster, job_of, origin, second, "on_doubled_rows")
            self.assertEqual(cluster.status(second)["restarts"], 0)
            kept_second = self.cancelled(cluster, second)

            # One that ends before it has a checkpoint is in nobody's way.
            slow = count_job(source.vertex(endless=True), sink_of(k, output), **KEEP)
            slow["options"]["checkpoint.interval"] = "1h"
            third = self.start(cluster, slow, "third", kept_second)
            cluster.wait_for_state(third, "RUNNING")
            cluster.weir("cancel", third, code=0)
            fourth = self.start(cluster, job_of, "fourth", kept_second)
            source.add(made(200, first=500))
            self.all_visible(k, output, source)
            self.cancelled(cluster, fourth)
            self.assertEqual(visible(k, output), len(source.rows))

            # Rows again, for who says so; and a topic of its own needs nobody's leave.
            again = count_job(source.vertex(endless=True),
                              sink_of(k, output, on_doubled_rows="continue"), **KEEP)
            fifth = self.start(cluster, again, "fifth", kept_second)
            wait_for_visible(k, output, len(source.rows) + 200)
            self.cancelled(cluster, fifth)
            other = k.topic("other")
            elsewhere = count_job(source.vertex(endless=True), sink_of(k, other), **KEEP)
            self.start(cluster, elsewhere, "sixth", kept_second)
            wait_for_visible(k, other, 200)

    def test_the_next_job_goes_on_under_a_fixed_prefix(self):
        with kafka() as k, Cluster(1, slots=4) as cluster:
            source, output = FileInput(cluster.folder / "in"), k.topic("out")
            source.add(made(300))

            def job_of(parallelism):
                return count_job(source.vertex(endless=True),
                                 sink_of(k, output, transactional_id_prefix=output),
                                 parallelism=parallelism, **KEEP)
            first = self.start(cluster, job_of(3), "first")
            self.all_visible(k, output, source)
            kept = self.cancelled(cluster, first)
            second = self.start(cluster, job_of(1), "second", kept)
            source.add(made(200, first=300))
            self.all_visible(k, output, source)
            self.cancelled(cluster, second)
            kept = cluster.status(second)["retained_checkpoint"]
            third = self.start(cluster, job_of(3), "third", kept)
            source.add(made(200, first=500))
            self.all_visible(k, output, source)
            self.cancelled(cluster, third)
            self.assertEqual(k.identities(output), [f"{output}-out-{n}" for n in range(3)])
            # Anew: from the first row.
            fourth = self.start(cluster, job_of(2), "fourth")
            wait_for_visible(k, output, 2 * len(source.rows))
            k.client.wait_until_settled(output, SETTLED_S)
            self.assertEqual(cluster.status(fourth)["restarts"], 0)
            self.assertEqual(visible(k, output), 2 * len(source.rows))


class Long(QuickGrowth):
    def test_silence_of_30_seconds(self):
        self.silence(30)

    def test_one_row_each_of_50_intervals(self):
        self.one_row_each(50)

    def test_partitions_grow_and_the_job_goes_on_at_parallelism_3(self):
        self.growth([1, 2, 3, 8])

    def test_marker_of_another_job(self):
        self.marker_of_another_job()

    def test_marker_without_metadata(self):
        self.marker_without_metadata()


for before, after in ((1, 3), (2, 3), (3, 2), (3, 1), (4, 8)):
    for forced in (False, True):
        name = f"test_rescale_{before}_to_{after}" + ("_forced" if forced else "")
        setattr(Long, name, lambda self, b=before, a=after, f=forced: self.rescale(
            b, a, ("--force",) if f else ()))

if __name__ == "__main__":
    together.main()
