"""Goal: exactly once, whichever gap between two effects a process dies in.

Method: the flights at a limited rate with five checkpoints a second; one process is a version with
kill points and dies (SIGKILL) at the named one, in the middle of the data. A plain one takes its
place. The job must go to FINISHED; the output is compared with the input; nothing hidden, and no
file of a checkpoint, may be left; files that were visible before the death stay as they were.
The points and their gaps: the crash table in docs/checkpoint_protocol.md.
"""

import unittest

import together
from cluster import Cluster
from jobs import FLIGHTS_ROWS, Watch, check_flights, flights_job, read_rows
from kill_points import COORDINATOR_POINTS, RESTORE_POINTS, WORKER_POINTS


class KillPointCase(unittest.TestCase):
    def job(self, output):
        # Small parts: several renames in one commit.
        return flights_job(output, rate=9000, parallelism=4, part_size_max="4KiB")

    def check_end(self, cluster, job, output, generations):
        status = cluster.finish(job)
        self.assertGreaterEqual(status["generation"], generations)
        self.assertEqual(check_flights(output), FLIGHTS_ROWS)
        self.assertEqual(cluster.leftovers(job), [])

    def check_midst(self, victim, output):
        self.assertEqual(victim.process.returncode, -9, victim.log_tail())
        rows = sum(1 for _ in read_rows(output))
        self.assertTrue(0 < rows < FLIGHTS_ROWS, f"{rows} rows were visible at the kill")

    def kill_coordinator(self, point, count):
        with Cluster() as cluster:
            victim = cluster.start_coordinator(kill=f"{point}:{count}")
            cluster.start_worker()
            cluster.start_worker()
            output = cluster.folder / "out"
            with Watch(output):
                job = cluster.submit(self.job(output))
                if point in RESTORE_POINTS:
                    cluster.wait_for_checkpoint(job, 1)
                    cluster.workers[0].kill()
                    cluster.start_worker()
                victim.wait_until_hit()
                self.check_midst(victim, output)
                cluster.start_coordinator()
                self.check_end(cluster, job, output, 2)

    def kill_worker(self, point, count):
        with Cluster() as cluster:
            cluster.start_coordinator()
            other = cluster.start_worker()
            victim = cluster.start_worker(kill=f"{point}:{count}")
            output = cluster.folder / "out"
            with Watch(output):
                job = cluster.submit(self.job(output))
                if point in RESTORE_POINTS:
                    cluster.wait_for_checkpoint(job, 1)
                    other.kill()
                    cluster.start_worker()
                victim.wait_until_hit()
                self.check_midst(victim, output)
                cluster.start_worker()
                self.check_end(cluster, job, output, 3 if point in RESTORE_POINTS else 2)

    def kill(self, point, count):
        if point.startswith("coordinator."):
            self.kill_coordinator(point, count)
        else:
            self.kill_worker(point, count)


def sentence(point):
    return point.replace(".", "_")


class QuickCoordinator(KillPointCase):
    pass


class QuickWorker(KillPointCase):
    pass


class Long(KillPointCase):
    pass


def add(case, name, point, count):
    setattr(case, name, lambda self: self.kill(point, count))


for points in (COORDINATOR_POINTS, WORKER_POINTS, RESTORE_POINTS):
    for point, count in points.items():
        quick = QuickCoordinator if point.startswith("coordinator.") else QuickWorker
        add(quick, f"test_{sentence(point)}", point, count)
        more = range(count, count + 4) if points is RESTORE_POINTS else (
            count - 2, count - 1, count + 1, count + 2, count + 5, count + 9)
        if point == "coordinator.during_restore":
            more = ()  # arrives there once for each generation
        for other in more:
            add(Long, f"test_{sentence(point)}_{other:02}", point, other)

if __name__ == "__main__":
    together.main()
