"""Goal: a pipeline writes what its input says, run straight, killed on the way, or cancelled half
way and started again from its last checkpoint with more subtasks.

Method: pipelines.py has the jobs; make_expected.py has computed their output from the input alone.
All pipelines are on one cluster at a time, so that each run of the three takes seconds.
"""

import subprocess
import sys
import unittest

from shared_cluster import SharedClusterCase  # e2e/ is found from there

from pipelines import HERE, PIPELINES, awkward_to_csv, awkward_to_json
from cluster import ENDED, Cluster, brief, last_checkpoint, wait_for
from jobs import check_clean, visible

CHECKPOINTS = {"checkpoint.interval": "50ms", "restart.backoff_max": "500ms"}
SECONDS = 4  # of a run that something is to happen to
TRIES = 4    # each takes twice as long: on a busy machine a job may be done before it is hit


class GoldenCase(unittest.TestCase):
    def submit(self, cluster, pipeline, run, parallelism, seconds=None, options=None, *arguments):
        """(id, output directory) of a job that has been accepted."""
        output = cluster.folder / f"{pipeline.name}-{run}"
        name = f"{pipeline.name.replace('_', '-')}-{run}"
        job = pipeline.job(output, seconds, name, {**CHECKPOINTS, **(options or {})})
        return cluster.submit(job, "-p", parallelism, *arguments), output

    def check_end(self, cluster, pipeline, job, *outputs, counted=True):
        status = cluster.finish(job)
        with self.subTest(pipeline=pipeline.name):
            for output in outputs:
                check_clean(output)
            rows = pipeline.check(*outputs)
            # Checkpoints are deleted behind the end of the job.
            wait_for(lambda: f"the end of {cluster.leftovers(job)}",
                     lambda: not cluster.leftovers(job), 20)
            if counted:
                self.assertEqual(status["records_in"], pipeline.rows_in)
                self.assertEqual(status["records_out"], len(rows))
                if pipeline.rows_out is not None:
                    self.assertEqual(len(rows), pipeline.rows_out)
        return status

    def run_straight(self, cluster, pipelines, parallelism, run="straight", options=None):
        jobs = [(pipeline, *self.submit(cluster, pipeline, run, parallelism, options=options))
                for pipeline in pipelines]
        for pipeline, job, output in jobs:
            status = self.check_end(cluster, pipeline, job, output)
            self.assertEqual(status["restarts"], 0)

    def run_killed(self, cluster, pipelines, parallelism, run="killed"):
        """A worker that hosts tasks of every job dies when each has completed a checkpoint."""
        for attempt in range(TRIES):
            jobs = [(pipeline, *self.submit(cluster, pipeline, f"{run}-{attempt}", parallelism,
                                            SECONDS << attempt)) for pipeline in pipelines]
            for _, job, _ in jobs:
                cluster.wait_for_status(
                    "a checkpoint or the end", job,
                    lambda s: last_checkpoint(s) >= 2 or s["state"] == "FINISHED")
            cluster.live_workers()[0].kill()
            cluster.start_worker()
            again = []
            for pipeline, job, output in jobs:
                status = self.check_end(cluster, pipeline, job, output)
                if status["restarts"] == 0:
                    again.append(pipeline)
            pipelines = again
            if not pipelines:
                return
        self.fail(f"done before the kill: {[pipeline.name for pipeline in pipelines]}")

    def cancel_half_way(self, cluster, jobs):
        """Yields each with the status after its cancellation, in the order in which they get so
        far."""
        left = list(jobs)

        def some():
            for job in left:
                status = cluster.status(job[1])
                if status and (status["state"] in ENDED or
                               status["records_in"] >= job[0].rows_in // 4 and visible(job[2])):
                    return job
            return None
        while left:
            job = wait_for(lambda: f"rows of {[job[0].name for job in left]}", some)
            left.remove(job)
            cluster.weir("cancel", job[1])
            yield *job, cluster.status(job[1])

    def run_restored(self, cluster, pipelines, before=2, after=3, run="restored"):
        """Cancelled when some of the output is visible; the rest comes from a second job, which
        starts from the kept checkpoint and writes elsewhere."""
        for attempt in range(TRIES):
            jobs = [(pipeline, *self.submit(cluster, pipeline, f"{run}-{attempt}-1", before,
                                            SECONDS << attempt, {"checkpoint.on_cancel": "keep"}))
                    for pipeline in pipelines]
            again, second = [], []
            for pipeline, job, output, status in self.cancel_half_way(cluster, jobs):
                check_clean(output)
                if (status["state"] == "FINISHED" or
                        len(pipeline.read(output)) == len(pipeline.expected)):
                    again.append(pipeline)
                    continue
                self.assertEqual(status["state"], "CANCELED", brief(status))
                kept = status["retained_checkpoint"]
                self.assertRegex(kept, rf"/{job}/chk-{last_checkpoint(status)}\.\d+$")
                second.append((pipeline, output, *self.submit(
                    cluster, pipeline, f"{run}-{attempt}-2", after, None, None, "--from", kept)))
            for pipeline, first_output, job, output in second:
                self.check_end(cluster, pipeline, job, first_output, output, counted=False)
                self.assertTrue(visible(output) or pipeline.rows_out is None, output)
            pipelines = again
            if not pipelines:
                return
        self.fail(f"done before the cancellation: {[pipeline.name for pipeline in pipelines]}")


class Quick(SharedClusterCase, GoldenCase):
    """Each pipeline in each of the three ways."""

    slots = 50

    def test_straight(self):
        self.run_straight(self.cluster, PIPELINES, 1)

    def test_killed(self):
        self.run_killed(self.cluster, PIPELINES, 2)

    def test_restored(self):
        self.run_restored(self.cluster, PIPELINES)

    def test_csv_to_json_to_csv(self):
        job, output = self.submit(self.cluster, awkward_to_json(), "there", 2)
        self.cluster.finish(job)
        back = awkward_to_csv(f"{output}/*.jsonl")
        self.check_end(self.cluster, back, *self.submit(self.cluster, back, "back", 2))

    def test_the_output_of_another_job_is_left_alone(self):
        """The second of two jobs that make one output writes elsewhere: it has to."""
        cluster, pipeline = self.cluster, PIPELINES[0]
        job, output = self.submit(cluster, pipeline, "first", 2, SECONDS,
                                  {"checkpoint.on_cancel": "keep"})
        cluster.wait_for_checkpoint(job, 2)
        cluster.weir("cancel", job)
        before = {path.name: path.read_bytes() for path in output.iterdir()}
        kept = cluster.status(job)["retained_checkpoint"]
        path = cluster.write_job(pipeline.job(output, name="second"))
        result = cluster.weir("run", "-d", path, "-p", 3, "--from", kept, as_json=False, code=2)
        self.assertIn(str(output), result.err)
        self.assertEqual(before, {path.name: path.read_bytes() for path in output.iterdir()})


class QuickExpected(unittest.TestCase):
    def test_the_committed_files_are_as_computed(self):
        done = subprocess.run([sys.executable, "-B", HERE / "make_expected.py", "--check"],
                              text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Long(GoldenCase):
    """The same at other parallelisms, batch sizes and moments."""

    def test_straight_at_every_parallelism(self):
        with Cluster(3, slots=40) as cluster:
            for parallelism in (2, 3, 5, 9):
                self.run_straight(cluster, PIPELINES, parallelism, f"p{parallelism}")

    def test_straight_in_small_batches(self):
        with Cluster(2, slots=50) as cluster:
            for rows in (1, 7):
                self.run_straight(cluster, PIPELINES, 2, f"rows{rows}",
                                  {"batch.rows_max": str(rows)})
            self.run_straight(cluster, PIPELINES, 2, "bytes", {"batch.bytes_max": "1KiB"})

    def test_killed_at_other_parallelisms(self):
        with Cluster(2, slots=60) as cluster:
            for parallelism in (3, 4):
                self.run_killed(cluster, PIPELINES, parallelism, f"killed{parallelism}")

    def test_restored_at_other_parallelisms(self):
        with Cluster(2, slots=90) as cluster:
            for before, after in ((1, 4), (4, 1), (3, 7), (5, 2)):
                self.run_restored(cluster, PIPELINES, before, after, f"from{before}to{after}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
