"""Rows: memory of the processes, and a coordinator with many workers."""

import dataclasses
import time

from .cluster import Daemon
from .jobs import count_job
from .measurement import BenchError, Measurement, expect, of_values
from .row import Row

ORDER = 80

IDLE_SECONDS = 1.5
WORKERS = 200
VERTICES = 10  # a subtask of each on every worker
CPU_SHARE_MAX = 0.3


@dataclasses.dataclass(frozen=True)
class Memory:
    """RSS of idle processes, then the peak of the worker that does the first work."""
    rows_full: int = 200_000_000
    rows_quick: int = 100_000_000

    title = "memory"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        with bench.cluster() as cluster:
            time.sleep(IDLE_SECONDS)
            values = {"idle_coordinator_mb": cluster.coordinator.rss_mb(),
                      "idle_worker_mb": cluster.workers[0].rss_mb()}
            run = cluster.run(count_job(rows, 10_000))
            expect("rows at the sink", run.records_out, rows)
        return Measurement(values={**values, "worker_mb": run.rss_mb})


def memory_row(name, figure, goal, work, flink=""):
    return Row(name=name, group="memory", figure=figure, unit="MB", goal=goal, work=work,
               measure=Memory(), flink=flink)


def wide_job(interval):
    vertices = [{"uid": "rows", "type": "generator", "config": {}},
                *({"uid": f"step-{i}", "type": "rebalance", "config": {}}
                  for i in range(VERTICES - 2)),
                {"uid": "out", "type": "blackhole", "config": {}}]
    return {"name": "wide",
            "options": {"parallelism": str(WORKERS), "max_parallelism": "256",
                        "checkpoint.interval": interval},
            "vertices": vertices,
            "edges": [{"from": a["uid"], "to": b["uid"], "partitioning": "REBALANCE"}
                      for a, b in zip(vertices, vertices[1:])]}


@dataclasses.dataclass(frozen=True)
class ManyWorkers:
    """many_workers.cc acknowledges at once: what is left is the coordinator's own, and theirs to
    answer it, on one machine."""
    title = f"{WORKERS} workers"

    def __call__(self, bench):
        with bench.cluster(workers=0) as cluster:
            workers = Daemon("workers",
                             [bench.limits_dir / "many_workers", cluster.address, WORKERS],
                             cluster.folder / "workers.log")
            try:
                cluster.wait_for_workers(WORKERS)
                self.deploys(cluster, "off")
                job, deploy_seconds = self.deploys(cluster, "1s", ends=False)
                time.sleep(1)
                cpu_before, start = cluster.coordinator.cpu_seconds(), time.monotonic()
                time.sleep(bench.pick(12, 6))
                passed = time.monotonic() - start
                cpu = cluster.coordinator.cpu_seconds() - cpu_before
                checkpoints = cluster.weir("checkpoints", job)
                if not workers.alive():
                    raise BenchError(f"many_workers ended:{workers.log_tail()}")
            finally:
                workers.kill()
        expect("checkpoints that failed",
               [c for c in checkpoints if c["state"] == "failed"], [])
        durations = [c["duration_ms"] for c in checkpoints if c["state"] == "completed"]
        if len(durations) < passed - 1:
            raise BenchError(f"{len(durations)} checkpoints in {passed:.0f} s")
        return Measurement(values={"p99_ms": of_values(durations, 0.99),
                                   "p50_ms": of_values(durations, 0.5),
                                   "cpu_share": cpu / passed, "deploy_s": deploy_seconds})

    def deploys(self, cluster, interval, ends=True):
        """(id, seconds until all subtasks run) of a job."""
        start = time.monotonic()
        job = cluster.weir("run", "-d", cluster.write_job(wide_job(interval)))["id"]
        while cluster.weir("status", job)["state"] != "RUNNING":
            if time.monotonic() - start > 30:
                raise cluster.failed("the subtasks do not start")
            time.sleep(0.02)
        seconds = time.monotonic() - start
        subtasks = [s for vertex in cluster.weir("status", job)["vertices"]
                    for s in vertex["subtasks"]]
        expect("subtasks that run", len([s for s in subtasks if s["state"] == "running"]),
               WORKERS * VERTICES)
        if ends:
            cluster.weir("cancel", job)
            while cluster.weir("list"):
                time.sleep(0.02)
        return job, seconds


def cpu_and_start(measurements):
    share = max(m.values["cpu_share"] for m in measurements)
    half = max(m.values["p50_ms"] for m in measurements)
    deploy = max(m.values["deploy_s"] for m in measurements)
    return (f"p50 {half:.0f} ms, {100 * share:.0f} % of one core (goal < "
            f"{100 * CPU_SHARE_MAX:.0f} %), deployed in {deploy:.2g} s", share < CPU_SHARE_MAX)


ROWS = [memory_row("rss-idle-coordinator", "idle_coordinator_mb", 30, "idle coordinator", "2.2 GB"),
        memory_row("rss-idle-worker", "idle_worker_mb", 50, "idle worker"),
        memory_row("rss-worker", "worker_mb", 100, "worker with the first work, 10k keys, peak"),
        Row(name="many-workers", group="many-workers", figure="p99_ms", unit="ms", goal=200,
            work=f"{WORKERS} workers, {WORKERS * VERTICES} subtasks, checkpoint each second: "
                 "trigger to complete, p99",
            measure=ManyWorkers(), also=cpu_and_start)]
