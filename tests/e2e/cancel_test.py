"""Goal: `cancel` ends within 5 s and leaves no hidden file, whatever the job is doing; a job that
lacks slots waits, says so, and starts by itself.

Method: cancel during a checkpoint, in recovery, while it waits; look at the clock and the output.
"""

import time
import unittest

import together
from cluster import Cluster, wait_for
from jobs import (FLIGHTS_ROWS, check_clean, check_flights, check_generated, endless_job,
                  flights_job, visible)

CANCEL_S = 5


class CancelCase(unittest.TestCase):
    def cancel(self, cluster, job, output):
        start = time.monotonic()
        cluster.weir("cancel", job, code=0)
        took = time.monotonic() - start
        status = cluster.status(job)
        self.assertEqual(status["state"], "CANCELED")
        self.assertLess(took, CANCEL_S)
        check_clean(output)
        if any(visible(output)):
            check_generated(output, 0, complete=False)
        self.assertEqual(cluster.leftovers(job), [])
        self.assertEqual(cluster.ask("list"), [])


class Quick(CancelCase):
    def test_during_a_checkpoint(self):
        with Cluster(2) as cluster:
            for turn in range(4):
                with self.subTest(turn=turn):
                    output = cluster.folder / f"out-{turn}"
                    job = cluster.submit(endless_job(output, interval="10ms", rate=20000,
                                                     parallelism=4))
                    cluster.wait_for_checkpoint(job, 2 + turn)
                    self.cancel(cluster, job, output)

    def test_during_a_checkpoint_that_hangs(self):
        for point in ("snapshot.while_writing:10", "sink.after_prepare:5", "sink.before_rename:5"):
            with self.subTest(point=point), Cluster() as cluster:
                cluster.start_coordinator()
                cluster.start_worker()
                victim = cluster.start_worker(kill=point, kill_signal="STOP")
                output = cluster.folder / "out"
                job = cluster.submit(endless_job(output, parallelism=4))
                victim.wait_until_hit()
                self.cancel(cluster, job, output)

    def test_during_recovery(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(endless_job(output, parallelism=4,
                                             options={"restart.backoff_initial": "30s",
                                                      "restart.backoff_max": "1min"}))
            cluster.wait_for_checkpoint(job, 2)
            cluster.workers[0].kill()
            cluster.start_worker()
            cluster.wait_for_state(job, "RESTARTING")
            self.cancel(cluster, job, output)

    def test_during_recovery_that_waits_for_slots(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(endless_job(output, parallelism=4))
            cluster.wait_for_checkpoint(job, 2)
            cluster.workers[0].kill()
            cluster.wait_for_status("the wait for slots", job, lambda s: s["state"] != "RUNNING" and
                                    "slot" in (s["waiting_for"] or ""))
            self.cancel(cluster, job, output)

    def test_while_tasks_restore(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            first = cluster.start_worker()
            victim = cluster.start_worker(kill="task.while_restoring:5", kill_signal="STOP")
            output = cluster.folder / "out"
            job = cluster.submit(endless_job(output, parallelism=4))
            cluster.wait_for_checkpoint(job, 2)
            first.kill()
            cluster.start_worker()
            victim.wait_until_hit()
            self.cancel(cluster, job, output)

    def test_while_it_waits_for_slots(self):
        with Cluster(1) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(endless_job(output, parallelism=4))
            status = cluster.wait_for_status("the wait", job, lambda s: s["waiting_for"])
            self.assertEqual(status["state"], "CREATED")
            self.cancel(cluster, job, output)

    def test_an_attached_run_ends_with_3(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            run = cluster.attach("run", cluster.write_job(endless_job(output)))
            job = wait_for("the job", lambda: cluster.ask("list"))[0]["id"]
            cluster.wait_for_checkpoint(job, 1)
            cluster.weir("cancel", "endless", code=0)
            out, err = run.communicate(timeout=20)
            self.assertEqual(run.returncode, 3, out + err)
            self.assertIn("CANCELED", out)

    def test_canceled_and_killed_in_between(self):
        """The intent is in the log: the next coordinator carries it on."""
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(endless_job(output, parallelism=4, interval="20ms"))
            cluster.wait_for_checkpoint(job, 2)
            cancel = cluster.attach("cancel", job)
            wait_for("the intent", lambda: any(
                entry["kind"] == "CANCELLING" for entries in cluster.terms(job).values()
                for entry in entries.values()), poll_s=0.001)
            cluster.coordinators[0].kill()
            cluster.start_coordinator()
            cancel.wait(60)
            cluster.wait_for_state(job, "CANCELED")
            check_clean(output)
            check_generated(output, 0, complete=False)


class QuickSlots(unittest.TestCase):
    def test_a_job_waits_for_slots_and_starts_by_itself(self):
        with Cluster(1) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, parallelism=4))
            status = cluster.wait_for_status("the wait", job, lambda s: s["waiting_for"])
            self.assertEqual(status["state"], "CREATED")
            self.assertIn("slot", status["waiting_for"])
            self.assertRegex(status["waiting_for"], r"\b(4|2)\b")
            cluster.start_worker()
            cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_a_job_waits_without_any_worker(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            wait_for("the coordinator", lambda: cluster.ask("list") is not None)
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, parallelism=2))
            status = cluster.wait_for_status("the wait", job, lambda s: s["waiting_for"])
            self.assertEqual(status["state"], "CREATED")
            cluster.start_worker()
            cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_two_jobs_share_slots_in_turn(self):
        with Cluster(1, slots=2) as cluster:
            jobs = [(cluster.submit(flights_job(cluster.folder / name, name=name, rate=15000)),
                     cluster.folder / name) for name in ("one", "two")]
            for job, output in jobs:
                cluster.finish(job)
                self.assertEqual(check_flights(output), FLIGHTS_ROWS)


class Long(CancelCase):
    def test_at_any_time(self):
        with Cluster(2) as cluster:
            for turn in range(40):
                with self.subTest(turn=turn):
                    output = cluster.folder / f"out-{turn}"
                    job = cluster.submit(endless_job(output, interval="20ms", rate=20000,
                                                     parallelism=4))
                    if turn % 2:
                        cluster.wait_for_state(job, "RUNNING")
                        cluster.live_workers()[turn % 4 // 2].kill()
                        cluster.start_worker()
                    time.sleep(turn * 0.02)
                    self.cancel(cluster, job, output)


if __name__ == "__main__":
    together.main()
