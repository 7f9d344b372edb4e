"""Goal: a coordinator started again takes up every live job and no ended one; a second one waits
and says for whom; when it has taken over, the first never completes anything more, wherever it
paused.

Method: two coordinators on one checkpoint directory. The first stops itself (SIGSTOP) at a step of
completing a checkpoint, the second takes over, the first goes on (SIGCONT) while the job still
runs. The completion log is read from disk: the first one's term is sealed and grows no more.
"""

import time
import unittest

import together
from cluster import Cluster, end_of, last_checkpoint, wait_for
from jobs import (FLIGHTS_ROWS, Watch, check_flights, check_generated, endless_job, flights_job,
                  generator_job, hidden, visible)

RATE = 3600
ENDING_ROWS = 5000
TOTALS = ("state", "records_in", "records_out", "checkpoints_completed", "restarts", "end_time")
POINTS = {
    "coordinator.before_manifest": 4,
    "coordinator.after_manifest": 4,
    "coordinator.after_claim_sent": 4,
    "coordinator.before_claim_answer": 4,
    "coordinator.before_notice": 4,
    "coordinator.during_restore": 1,
}


class TakeoverCase(unittest.TestCase):
    def take_over(self, point, count):
        with Cluster(coordinators=2) as cluster:
            first = cluster.start_coordinator(0, kill=f"{point}:{count}", kill_signal="STOP")
            cluster.start_worker()
            cluster.start_worker()
            cluster.wait_for_workers(2)
            second = cluster.start_coordinator(1)
            address = f"127.0.0.1:{cluster.ports[0]}"
            wait_for("the second coordinator to say for whom it waits",
                     lambda: any("waits for" in line and address in line
                                 for line in second.log_text().splitlines()))
            output = cluster.folder / "out"
            with Watch(output):
                # Slow enough that it still runs when the first one goes on.
                job = cluster.submit(flights_job(output, rate=RATE, parallelism=4))
                first.wait_until_hit()
                status = cluster.wait_for_status(
                    "the second one's checkpoint", job,
                    lambda s: s["state"] == "RUNNING" and last_checkpoint(s) >= count + 1)
                self.assertEqual(cluster.weir("list", which=1, code=0).json[0]["id"], job)
                sealed = self.lower_terms(cluster, job)
                first.resume()
                time.sleep(1)  # time to do harm
                status = cluster.status(job)
                self.assertEqual(status["state"], "RUNNING", "too fast: nothing was shown")
                generation = status["generation"]
                status = cluster.finish(job)
                self.assertEqual(status["generation"], generation)
            self.assertTrue(first.alive(), first.log_tail())
            self.assertNotEqual(cluster.weir("list", which=0).code, 0)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)
            for term, entries in self.lower_terms(cluster, job).items():
                self.assertLessEqual(max(entries), max(sealed[term]))
            self.assertEqual(cluster.leftovers(job, end_of(status)), [])

    def lower_terms(self, cluster, job):
        """All terms but the highest; each must end with a seal."""
        terms = cluster.terms(job)
        del terms[max(terms)]
        for term, entries in terms.items():
            self.assertEqual(entries[max(entries)]["kind"], "SEALED", f"term {term}: {entries}")
            kinds = [entry["kind"] for entry in entries.values()]
            self.assertEqual(kinds.count("SEALED"), 1, f"term {term}: {entries}")
        self.assertTrue(terms, "there was but one term")
        return terms


class QuickPaused(TakeoverCase):
    pass


class LongPaused(TakeoverCase):
    pass


for point, count in POINTS.items():
    setattr(QuickPaused, f"test_paused_at_{point.replace('.', '_')}",
            lambda self, point=point, count=count: self.take_over(point, count))
    if count > 1:
        for other in (1, 2, 3, 6, 9):
            setattr(LongPaused, f"test_paused_at_{point.replace('.', '_')}_{other:02}",
                    lambda self, point=point, count=other: self.take_over(point, count))


class QuickRestart(unittest.TestCase):
    def test_workers_that_gave_up_on_a_paused_coordinator_are_noticed_when_it_comes_back(self):
        for interval in ("100ms", "off"):  # noticed by a trigger, or by heartbeats alone
            with self.subTest(interval=interval), Cluster() as cluster:
                cluster.start_coordinator()
                for _ in range(2):
                    cluster.start_worker(flags=["--coordinator-timeout", "2s"])
                cluster.wait_for_workers(2)
                output = cluster.folder / "out"
                job = cluster.submit(flights_job(output, rate=9000, interval=interval,
                                                 parallelism=4))
                cluster.wait_for_state(job, "RUNNING")
                cluster.coordinators[0].pause()
                for worker in cluster.workers:
                    wait_for("the worker to give up", lambda worker=worker:
                             "no coordinator for too long" in worker.log_text())
                cluster.coordinators[0].resume()
                cluster.finish(job)
                self.assertGreaterEqual(cluster.status(job)["restarts"], 1)
                self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_live_jobs_are_taken_up_and_no_ended_one(self):
        with Cluster(2, slots=6) as cluster:
            folder = cluster.folder
            finished = cluster.submit(flights_job(folder / "finished", name="finished"))
            cluster.finish(finished)
            canceled = cluster.submit(endless_job(folder / "canceled", name="canceled"))
            cluster.wait_for_checkpoint(canceled, 1)
            cluster.weir("cancel", canceled, code=0)
            (folder / "bad.csv").write_text("row_id,carrier,dep_delay\n1,UA,2\nx,UA,2\n")
            failed = cluster.submit(flights_job(folder / "failed", name="failed",
                                                source=folder / "bad.csv",
                                                options={"restart.attempts_max": "0"}))
            cluster.wait_for_state(failed, "FAILED")
            running = cluster.submit(flights_job(folder / "running", name="running", rate=6000,
                                                 parallelism=4))
            other = cluster.submit(generator_job(folder / "other", name="other", rows=30000,
                                                 rate=6000))
            waiting = cluster.submit(flights_job(folder / "waiting", name="waiting",
                                                 parallelism=40))
            cluster.wait_for_checkpoint(running, 3)
            cluster.wait_for_checkpoint(other, 3)

            def ended():
                return {name: {path.name: path.stat().st_mtime_ns
                               for path in visible(folder / name)}
                        for name in ("finished", "canceled", "failed")}
            before, ids = ended(), (finished, canceled, failed)
            terms = {job: cluster.terms(job) for job in ids}
            cluster.coordinators[0].kill()
            time.sleep(0.5)
            cluster.start_coordinator()
            live = wait_for("the jobs", lambda: cluster.ask("list"))
            self.assertEqual({job["id"] for job in live}, {running, other, waiting})
            everything = {job["id"]: job for job in cluster.ask("list", "-a")}
            self.assertEqual(set(everything), {*ids, running, other, waiting})
            self.assertEqual([everything[job]["state"] for job in ids],
                             ["FINISHED", "CANCELED", "FAILED"])
            self.assertTrue(everything[failed]["failure"])
            self.assertEqual(everything[waiting]["state"], "CREATED")
            cluster.finish(running)
            cluster.finish(other)
            self.assertEqual(check_flights(folder / "running"), FLIGHTS_ROWS)
            self.assertEqual(check_generated(folder / "other", 30000), 30000)
            self.assertEqual(ended(), before)
            self.assertEqual({job: cluster.terms(job) for job in ids}, terms)
            cluster.weir("cancel", waiting, code=0)

    def test_sigterm_of_the_coordinator_and_of_a_worker(self):
        with Cluster(3) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, rate=5000, parallelism=4))
            cluster.wait_for_checkpoint(job, 2)
            self.assertEqual(cluster.workers[0].terminate(), 0)
            cluster.wait_for_status("a restart", job,
                                    lambda s: s["restarts"] >= 1 and s["state"] == "RUNNING")
            self.assertEqual(cluster.coordinators[0].terminate(), 0)
            start = time.monotonic()
            cluster.start_coordinator()
            cluster.wait_for_state(job, "RUNNING", "FINISHED")
            self.assertLess(time.monotonic() - start, 20)
            cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_the_second_one_takes_over_when_the_first_dies(self):
        with Cluster(coordinators=2) as cluster:
            first = cluster.start_coordinator(0)
            cluster.start_worker()
            cluster.start_worker()
            cluster.wait_for_workers(2)
            cluster.start_coordinator(1)
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, rate=5000, parallelism=4))
            cluster.wait_for_checkpoint(job, 3)
            first.kill()
            cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)
            self.assertEqual(hidden(output), [])

    def test_take_over_at_once(self):
        with Cluster(2, coordinators=2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, rate=5000, parallelism=4))
            cluster.wait_for_checkpoint(job, 2)
            cluster.start_coordinator(1, flags=["--take-over"])
            wait_for("the second one to lead",
                     lambda: cluster.weir("list", which=1).code == 0)
            status = cluster.finish(job)
            self.assertGreaterEqual(status["generation"], 2)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)
            # The first one has given way although nothing ever paused it.
            self.assertNotEqual(cluster.weir("list", which=0).code, 0)


class QuickEnding(unittest.TestCase):
    """What a job amounted to is told the same by every later coordinator, also when the leader died
    between the last checkpoint and the end."""

    def test_the_totals_of_an_ended_job_outlive_the_coordinator(self):
        with Cluster(workers=1) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(generator_job(output, rows=ENDING_ROWS, rate=None))
            before = cluster.finish(job)
            self.assertEqual((before["records_in"], before["records_out"]), (ENDING_ROWS, ENDING_ROWS))
            cluster.coordinators[0].terminate()
            cluster.start_coordinator()
            cluster.wait_for_workers(1)
            after = cluster.status(job)
            for name in TOTALS:
                self.assertEqual(after[name], before[name], name)
            self.assertIn(f"{ENDING_ROWS:,}", cluster.weir("list", "-a", as_json=False, code=0).out)

    def test_a_leader_that_dies_between_the_final_checkpoint_and_the_end(self):
        with Cluster() as cluster:
            output = cluster.folder / "out"
            first = cluster.start_coordinator(kill="coordinator.before_notice")
            cluster.start_worker()
            cluster.wait_for_workers(1)
            job = cluster.submit(generator_job(output, rows=ENDING_ROWS, rate=None, interval="off"))
            first.wait_until_hit()
            self.assertEqual(visible(output), [])  # nobody has been told to publish
            cluster.start_coordinator()
            after = cluster.finish(job)
            self.assertEqual(check_generated(output, ENDING_ROWS), ENDING_ROWS)
            self.assertEqual((after["records_in"], after["records_out"]), (ENDING_ROWS, ENDING_ROWS))
            self.assertEqual(cluster.leftovers(job), [])


if __name__ == "__main__":
    together.main()
