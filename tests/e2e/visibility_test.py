"""Goal: output of checkpoint n is visible only after n completed, and a visible file never changes;
of what dead generations wrote nothing is left, and nothing else is removed.

Method: the output directory is read all the time; after each look the coordinator is asked for the
last completed checkpoint.
"""

import threading
import time
import unittest

import together
from cluster import Cluster, last_checkpoint, wait_for
from jobs import (FLIGHTS_ROWS, MARK, Watch, check_flights, endless_job, flights_job, hidden,
                  visible)


def completed_of(cluster, job):
    """The last completed checkpoint, by history and by status; None without an answer."""
    def ask():
        history, status = cluster.checkpoints(job), cluster.status(job)
        if history is None or status is None:
            return None
        done = [entry["id"] for entry in history if entry["state"] == "completed"]
        return max([last_checkpoint(status), *done])
    return ask


class Consumer:
    """Takes each file as soon as it is visible, as those do who read the output."""

    def __init__(self, output, taken):
        self.output, self.taken = output, taken
        self.error = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.taken.mkdir()
        self._thread.start()
        return self

    def __exit__(self, kind, error, trace):
        self._end.set()
        self._thread.join(60)
        self.take()
        if kind is None and self.error:
            raise AssertionError(self.error)

    def _run(self):
        while not self._end.is_set() and not self.error:
            self.take()
            time.sleep(0.005)

    def take(self):
        for path in visible(self.output):
            to = self.taken / path.name
            if to.exists():
                self.error = f"{path.name} is there again after it was taken"
                return
            path.rename(to)


class Quick(unittest.TestCase):
    def test_only_files_of_completed_checkpoints_are_visible_also_across_a_kill(self):
        with Cluster(3) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, rate=3000, parallelism=4,
                                             part_size_max="16KiB"))
            with Watch(output, completed_of(cluster, job)) as watch:
                cluster.wait_for_checkpoint(job, 3)
                cluster.workers[0].kill()
                cluster.start_worker()
                cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)
            self.assertGreater(watch.checked, 10)
            self.assertGreater(watch.hidden_seen, 10)
            self.assertGreater(len(watch.known), 10)

    def test_nothing_is_visible_while_the_first_checkpoint_has_not_completed(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(endless_job(output, interval="1h", rate=200000))
            wait_for("a file that is not yet visible", lambda: hidden(output))
            cluster.wait_for_status("rows", job, lambda s: s["records_out"] > 100000)
            self.assertEqual(visible(output), [])
            self.assertNotEqual(hidden(output), [])
            cluster.weir("cancel", job, code=0)
            self.assertEqual(visible(output), [])
            self.assertEqual(hidden(output), [])

    def test_a_consumer_may_take_what_is_visible(self):
        with Cluster(2) as cluster:
            output, taken = cluster.folder / "out", cluster.folder / "taken"
            job = cluster.submit(flights_job(output, rate=7000, parallelism=4, interval="50ms"))
            with Consumer(output, taken):
                for least in (5, 20):
                    cluster.wait_for_checkpoint(job, least)
                    cluster.live_workers()[0].kill()
                    cluster.start_worker()
                cluster.finish(job)
            self.assertEqual(check_flights(taken), FLIGHTS_ROWS)
            self.assertEqual([path.name for path in output.iterdir()], [MARK])

    def test_two_jobs_leave_each_others_files_alone(self):
        with Cluster(2, slots=4) as cluster:
            one, two = cluster.folder / "one", cluster.folder / "two"
            first = cluster.submit(flights_job(one, name="one", rate=7000, parallelism=4))
            second = cluster.submit(flights_job(two, name="two", rate=7000, parallelism=4))
            cluster.wait_for_checkpoint(first, 2)
            cluster.wait_for_checkpoint(second, 2)
            cluster.workers[0].kill()
            cluster.start_worker()
            cluster.finish(first)
            cluster.finish(second)
            self.assertEqual(check_flights(one), FLIGHTS_ROWS)
            self.assertEqual(check_flights(two), FLIGHTS_ROWS)


if __name__ == "__main__":
    together.main()
