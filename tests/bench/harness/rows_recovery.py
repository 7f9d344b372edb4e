"""Rows: from the kill of a worker to the next output, and from `weir run` to the first row."""

import dataclasses
import random
import statistics
import subprocess
import time

from .jobs import count_job
from .measurement import BenchError, Measurement, expect
from .row import Row
from .visible import Visible

ORDER = 70

SECONDS_MAX = 20


def slow_job(rate, output, **sink):
    job = count_job(None, 10_000, interval="200ms",
                    sink={"type": "files.sink",
                          "config": {"path": str(output), "format": "json", **sink}})
    config = job["vertices"][0]["config"]
    del config["rows"]  # without end
    config["rate"] = rate
    return job


def wait_for(cluster, what, predicate, pause_seconds=0.02):
    deadline = time.monotonic() + SECONDS_MAX
    while not predicate():
        if time.monotonic() > deadline:
            raise cluster.failed(f"waited {SECONDS_MAX} s in vain for {what}")
        time.sleep(pause_seconds)


@dataclasses.dataclass(frozen=True)
class Recovery:
    """Kills the workers that run a job, one after the other, at any time of its interval. The next
    output is the first file of a checkpoint that the restarted job took itself; what the old one
    had completed and is published late does not count."""
    title = "kills of a worker"

    def __call__(self, bench):
        kills = []
        with bench.cluster(workers=2) as cluster:
            output = cluster.folder / "out"
            job = cluster.weir("run", "-d", cluster.write_job(slow_job(10_000, output)))["id"]
            with Visible(output) as visible:
                for _ in range(bench.pick(7, 5)):
                    self.wait_for_output(cluster, visible)
                    time.sleep(0.2 + random.random() * 0.2)
                    busy = {subtask["worker"]
                            for vertex in cluster.weir("status", job)["vertices"]
                            for subtask in vertex["subtasks"]}
                    victim = next(w for w in cluster.workers if w.name in busy)
                    kills.append(time.time())
                    victim.kill()
                    self.wait_for_generation(cluster, job, len(kills) + 1)
                    cluster.start_worker()
                    wait_for(cluster, "two workers", lambda: len(cluster.weir("workers")) == 2)
                self.wait_for_output(cluster, visible)
            expect("restarts", cluster.weir("status", job)["restarts"], len(kills))
            generation_of = {c["id"]: c["generation"] for c in cluster.weir("checkpoints", job)}
        seconds = []
        for number, killed in enumerate(kills):
            # <job>-<uid>-<subtask>-<checkpoint>-<part>.jsonl
            times = [at for name, at in visible.seen.items()
                     if generation_of.get(int(name.rsplit("-", 2)[1])) == number + 2]
            if not times:
                raise BenchError(f"the job has no output after kill {number + 1}")
            seconds.append(min(times) - killed)
        return Measurement(values={"recovery_s": statistics.median(seconds),
                                   "least_s": min(seconds), "most_s": max(seconds),
                                   "kills": len(seconds)})

    def wait_for_output(self, cluster, visible):
        before = len(visible.seen)
        wait_for(cluster, "output", lambda: len(visible.seen) > before + 2)

    def wait_for_generation(self, cluster, job, number):
        def has_completed_one():
            return any(c["generation"] == number and c["state"] == "completed"
                       for c in cluster.weir("checkpoints", job))
        wait_for(cluster, f"a checkpoint of generation {number}", has_completed_one, 0.05)


@dataclasses.dataclass(frozen=True)
class Start:
    """From the start of the client until the sink has made the hidden file of the first row: a part
    of it holds one row and more."""
    title = "starts of a job"

    def __call__(self, bench):
        taken_ms = []
        with bench.cluster() as cluster:
            for number in range(bench.pick(15, 10)):
                output = cluster.folder / f"out-{number}"
                job = slow_job(20, output, part_size_max="1")
                path = cluster.write_job(job, f"job-{number}.json")
                with Visible(output, hidden=True) as visible:
                    start = time.time()
                    client = subprocess.Popen(cluster.command("--json", "run", "-d", path),
                                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
                    wait_for(cluster, "the first row",
                             lambda: any(n.endswith(".pending") for n in list(visible.seen)),
                             0.001)
                    expect("exit code of weir run", client.wait(), 0)
                taken_ms.append(1000 * (min(at for n, at in visible.seen.items()
                                            if n.endswith(".pending")) - start))
                cluster.weir("cancel", cluster.weir("list")[0]["id"])
                wait_for(cluster, "the end of the job", lambda: not cluster.weir("list"))
        return Measurement(values={"start_ms": statistics.median(taken_ms),
                                   "least_ms": min(taken_ms), "most_ms": max(taken_ms),
                                   "starts": len(taken_ms)})


def range_of(unit, number):
    def text(measurements):
        least = min(m.values[f"least_{unit}"] for m in measurements)
        most = max(m.values[f"most_{unit}"] for m in measurements)
        count = sum(m.values[number] for m in measurements)
        return f"{least:.3g}–{most:.3g} {unit} in {count}", True
    return text


ROWS = [
    Row(name="recovery", group="recovery", figure="recovery_s", unit="s", goal=0.4,
        work="SIGKILL of a worker to the next committed output, interval 200 ms, default settings",
        measure=Recovery(), flink="18.5 s; 0.62 s tuned", also=range_of("s", "kills")),
    Row(name="start", group="start", figure="start_ms", unit="ms", goal=100,
        work="weir run to the first row processed", measure=Start(),
        flink="1.7 s; 0.28 s by REST", also=range_of("ms", "starts"))]
