"""Goal: exactly once through generator, aggregate and file sink, also across a kill.

Method: seq is unique by promise and each row carries the count of its key: the output must hold
each of 0 ... rows - 1 once, and per key 1 ... n without a gap.
"""

import unittest

import together
from cluster import Cluster
from jobs import Watch, check_generated, generator_job

ROWS = 24000


class Quick(unittest.TestCase):
    def test_a_worker_dies(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            with Watch(output):
                job = cluster.submit(generator_job(output, rows=ROWS, rate=4000))
                cluster.wait_for_checkpoint(job, 3)
                # So that it hits one that hosts tasks: two slots each, two are needed.
                used = {subtask["worker"] for vertex in cluster.status(job)["vertices"]
                        for subtask in vertex["subtasks"]}
                victim = next(w for w in cluster.workers if w.name in used)
                victim.kill()
                cluster.start_worker()
                status = cluster.finish(job)
            self.assertGreaterEqual(status["restarts"], 1)
            self.assertEqual(check_generated(output, ROWS), ROWS)

    def test_the_rows_are_the_same_after_every_run(self):
        rows = []
        for parallelism in (1, 3):
            with Cluster(2) as cluster:
                output = cluster.folder / "out"
                job = generator_job(output, rows=5000, rate=50000, parallelism=parallelism)
                job["vertices"] = [job["vertices"][0], job["vertices"][2]]
                job["edges"] = [{"from": "rows", "to": "out"}]
                cluster.finish(cluster.submit(job))
                lines = [line for path in output.glob("*.jsonl")
                         for line in path.read_text().splitlines()]
                rows.append(sorted(lines))
        self.assertEqual(len(rows[0]), 5000)
        self.assertEqual(rows[0], rows[1])


if __name__ == "__main__":
    together.main()
