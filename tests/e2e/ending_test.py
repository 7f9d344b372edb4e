"""Goal: what a job amounted to is told the same by every later coordinator, also when the leader died
between the last checkpoint and the end.

Method: a bounded job whose only checkpoint is the final one; the coordinator is killed behind its
claim, or restarted behind the end.
"""

import unittest

from cluster import Cluster
from jobs import check_generated, generator_job, visible

ROWS = 5000
TOTALS = ("state", "records_in", "records_out", "checkpoints_completed", "restarts", "end_time")


class QuickEnding(unittest.TestCase):
    def test_the_totals_of_an_ended_job_outlive_the_coordinator(self):
        with Cluster(workers=1) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(generator_job(output, rows=ROWS, rate=None))
            before = cluster.finish(job)
            self.assertEqual((before["records_in"], before["records_out"]), (ROWS, ROWS))
            cluster.coordinators[0].terminate()
            cluster.start_coordinator()
            cluster.wait_for_workers(1)
            after = cluster.status(job)
            for name in TOTALS:
                self.assertEqual(after[name], before[name], name)
            self.assertIn(f"{ROWS:,}", cluster.weir("list", "-a", as_json=False, code=0).out)

    def test_a_leader_that_dies_between_the_final_checkpoint_and_the_end(self):
        with Cluster() as cluster:
            output = cluster.folder / "out"
            first = cluster.start_coordinator(kill="coordinator.before_notice")
            cluster.start_worker()
            cluster.wait_for_workers(1)
            job = cluster.submit(generator_job(output, rows=ROWS, rate=None, interval="off"))
            first.wait_until_hit()
            self.assertEqual(visible(output), [])  # nobody has been told to publish
            cluster.start_coordinator()
            after = cluster.finish(job)
            self.assertEqual(check_generated(output, ROWS), ROWS)
            self.assertEqual((after["records_in"], after["records_out"]), (ROWS, ROWS))
            self.assertEqual(cluster.leftovers(job), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
