"""Goal: behind a sink that is a hundred times slower than the source memory stays where it is: rows
wait in bounded queues, and the source waits for them. And the time of every subtask, in whatever
condition, is accounted for: busy, idle and backpressured add up to 100 %.

Method: a generator without a rate into a blackhole that takes 10,000 rows a second; the resident
memory of every process is read from /proc each half second.
"""

import pathlib
import re
import statistics
import sys
import time
import unittest

from cluster import Cluster
from jobs import endless_job, flights_job

SINK_RATE = 10_000
SHARE_TOLERANCE = 0.02
GROWTH_MAX = 0.05
WARMING_UP_GROWTH_MAX = 0.10  # of a process that is seconds old
MIB = 1 << 20
# What a process may have more than before the job, when it has some 22 MiB (a sanitizer's runtime
# adds to that). A job of parallelism 2 has eight channels between its tasks, each with a window of
# 1 MiB, and a batch of 256 KiB in the hands of each task.
RSS_ADDED_MAX = 42 * MIB


def rss(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def slow_job(name="slow"):
    return {
        "name": name,
        "options": {"parallelism": "2", "checkpoint.interval": "2s"},
        "vertices": [
            {"uid": "rows", "type": "generator", "config": {"keys": 1000}},
            {"uid": "per-key", "type": "aggregate",
             "config": {"keys": ["key"], "emit": "every_row", "keep": ["seq"],
                        "aggregates": [{"function": "count", "as": "n"}]}},
            {"uid": "out", "type": "blackhole", "config": {"rate": SINK_RATE}}],
        "edges": [
            {"from": "rows", "to": "per-key", "partitioning": "HASH", "columns": ["key"]},
            {"from": "per-key", "to": "out", "partitioning": "REBALANCE"}]}


def subtasks(status):
    return [(vertex["uid"], subtask) for vertex in status["vertices"]
            for subtask in vertex["subtasks"]]


class Shares(unittest.TestCase):
    def check_sums(self, status):
        for uid, subtask in subtasks(status):
            total = subtask["busy"] + subtask["idle"] + subtask["backpressured"]
            self.assertLessEqual(abs(total - 1), SHARE_TOLERANCE, f"{uid}: {subtask}")


class Memory(Shares):
    def run_behind_a_slow_sink(self, seconds, first_s, window_s, growth_max):
        """Compares the memory around `first_s` with that at the end, in medians of `window_s`."""
        with Cluster(workers=2, slots=1) as cluster:
            processes = [cluster.coordinators[0], *cluster.workers]
            before = {process.name: rss(process.pid) for process in processes}
            job = cluster.submit(slow_job())
            started = cluster.wait_for_status("rows in the sink", job,
                                              lambda s: s["records_out"] > SINK_RATE)
            begin, series = time.monotonic(), {process.name: [] for process in processes}
            taken = started["records_out"]
            while (passed := time.monotonic() - begin) < seconds:
                for process in processes:
                    series[process.name].append((passed, rss(process.pid)))
                time.sleep(0.5)
            status = cluster.status(job)
            self.report(before, series, seconds)

            # The source could do a hundred times as much, and waits.
            rate = (status["records_out"] - taken) / passed
            self.assertLess(abs(rate - SINK_RATE), 0.2 * SINK_RATE, f"{rate} rows/s")
            self.check_sums(status)
            shares = {uid: subtask for uid, subtask in subtasks(status)}
            self.assertGreater(shares["rows"]["backpressured"], 0.9, shares["rows"])
            self.assertGreater(shares["per-key"]["backpressured"], 0.9, shares["per-key"])
            self.assertGreater(shares["out"]["backpressured"], 0.8, shares["out"])
            # Barriers wait behind the rows, half a minute here, and come through.
            if seconds > 120:
                self.assertGreater(status["checkpoints_completed"], 1)
            self.assertEqual(status["restarts"], 0)

            for name, values in series.items():
                added = max(value for _, value in values) - before[name]
                self.assertLess(added, RSS_ADDED_MAX, name)
                first = statistics.median(value for at, value in values
                                          if abs(at - first_s) <= window_s / 2)
                last = statistics.median(value for at, value in values if at > seconds - window_s)
                self.assertLess(last / first - 1, growth_max, f"{name}: {first} to {last} bytes")

    def report(self, before, series, seconds):
        for name, values in series.items():
            step = max(1, len(values) // 20)
            line = " ".join(f"{value / MIB:.1f}" for _, value in values[::step])
            print(f"{name}: {before[name] / MIB:.1f} MiB before; every {seconds / 20:.0f} s: {line}",
                  file=sys.stderr)


class QuickMemory(Memory):
    def test_twenty_seconds_behind_a_sink_that_is_a_hundred_times_slower(self):
        self.run_behind_a_slow_sink(20, first_s=8, window_s=4,
                                    growth_max=WARMING_UP_GROWTH_MAX)


class LongMemory(Memory):
    def test_ten_minutes_behind_a_sink_that_is_a_hundred_times_slower(self):
        self.run_behind_a_slow_sink(600, first_s=120, window_s=20, growth_max=GROWTH_MAX)


class QuickShares(Shares):
    def test_idle_and_busy_subtasks_account_for_all_of_their_time(self):
        with Cluster(workers=2, slots=2) as cluster:
            folder = cluster.folder / "in"
            folder.mkdir()
            (folder / "part-0.csv").write_text("row_id,carrier,dep_delay\n1,UA,2\n")
            idle = cluster.submit(flights_job(
                cluster.folder / "idle", name="idle", source=folder / "*.csv",
                source_config={"follow": True}))
            busy = cluster.submit(endless_job(cluster.folder / "busy", name="busy", rate=None))
            for job in (idle, busy):
                cluster.wait_for_checkpoint(job, 2)
            for _ in range(5):
                time.sleep(0.5)
                status = cluster.status(idle)
                self.check_sums(status)
                for uid, subtask in subtasks(status):
                    self.assertGreater(subtask["idle"], 0.9, f"{uid}: {subtask}")
                status = cluster.status(busy)
                self.check_sums(status)
                # Whoever could do more is busy or held back, not idle.
                rows = [subtask for uid, subtask in subtasks(status) if uid == "rows"]
                for subtask in rows:
                    self.assertGreater(subtask["busy"] + subtask["backpressured"], 0.9, subtask)


if __name__ == "__main__":
    unittest.main(verbosity=2)
