"""Rows: how long a row takes from when it is due at the source, to a file that all can see and to a
sink that drops it."""

import dataclasses
import json
import time

from .cluster import seconds_of
from .jobs import count_job
from .measurement import BenchError, Measurement, WrongResult, expect, quantile
from .row import Row
from .visible import Visible

ORDER = 60

KEYS = 10_000
PARALLELISM = 2
WARMUP_SECONDS = 1
BYTES_OF_A_ROW = 64
LINES_OF_A_FILE = 200
FASTER_THAN_ANY = 1e9  # rows a second: a source with it is never ahead


def values_of(weighted_ms, rate):
    return {"p99_ms": quantile(weighted_ms, 0.99), "p50_ms": quantile(weighted_ms, 0.5),
            "p999_ms": quantile(weighted_ms, 0.999), "rate": rate}


def text_of(measurements, p999_max_ms=None):
    middle = sorted(measurements, key=lambda m: m.values["p99_ms"])[(len(measurements) - 1) // 2]
    values = middle.values
    worst = sorted(m.values["p999_ms"] for m in measurements)[(len(measurements) - 1) // 2]
    text = (f"at {values['rate'] / 1e6:.3g} M rows/s, p50 {values['p50_ms']:.2g} ms, "
            f"p99.9 {worst:.3g} ms")
    if p999_max_ms is not None:
        text += f" (goal < {p999_max_ms} ms)"
    if "loop_p99_ms" in values:
        text += (f"; a bare loop of that load in the same run: p99 {values['loop_p99_ms']:.3g}, "
                 f"p99.9 {values['loop_p999_ms']:.3g} ms")
    return text, p999_max_ms is None or worst < p999_max_ms


@dataclasses.dataclass(frozen=True)
class CommittedLatency:
    """From `due` of a row to when a directory listing shows its file, at half of the rate at which
    the same job runs when it may, for as long: what a second of writing leaves to later is not
    sustained."""
    rows_short: int = 10_000_000

    title = "rows due to rows visible in files"

    def __call__(self, bench):
        seconds = bench.pick(5, 3.5)
        with bench.cluster() as cluster:
            full = self.full_rate(bench, cluster, self.rows_short, "short")
            full = self.full_rate(bench, cluster, int(full * seconds), "full")
            half = full / 2
            output = cluster.folder / "half"
            rows = int(half * seconds)
            bench.require_space("the latency to a file", rows * BYTES_OF_A_ROW)
            start = time.time()
            with Visible(output) as visible:
                run = cluster.run(self.job(rows, half, output))
            visible.look()
            expect("rows committed", run.records_out, rows)
            files = [path for path in output.iterdir() if not path.name.startswith(".")]
            expect("files of the output", len(files), len(visible.seen))
            expect("lines of the output", sum(map(count_lines, files)), rows)
            weighted = []
            for path in files:
                weighted += latencies_ms(path, visible.seen[path.name], start + WARMUP_SECONDS)
        if not weighted:
            raise BenchError("no row was due after the warm-up")
        return Measurement(rows=rows, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
                           rss_mb=run.rss_mb, values=values_of(weighted, half))

    def full_rate(self, bench, cluster, rows, name):
        bench.require_space("the latency to a file", rows * BYTES_OF_A_ROW)
        return rows / cluster.run(self.job(rows, FASTER_THAN_ANY, cluster.folder / name)).seconds

    def job(self, rows, rate, output):
        job = count_job(rows, KEYS, interval="100ms",
                        sink={"type": "files.sink",
                              "config": {"path": str(output), "format": "json"}})
        job["vertices"][0]["config"].update(rate=rate, due_time=True)
        job["vertices"][1]["config"]["keep"] = ["due"]
        return job


def count_lines(path):
    with open(path, "rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))


def latencies_ms(path, visible, due_from):
    """[(ms, weight)] of lines at even distances; together they weigh what the file's bytes do."""
    size = path.stat().st_size
    found = []
    with open(path, "rb") as file:
        for i in range(LINES_OF_A_FILE):
            file.seek(size * i // LINES_OF_A_FILE)
            if i > 0:
                file.readline()
            line = file.readline()
            if not line:
                continue
            due = seconds_of(json.loads(line)["due"])
            if due >= due_from:
                found.append(((visible - due) * 1000, size / LINES_OF_A_FILE))
    return found


@dataclasses.dataclass(frozen=True)
class BlackholeLatency:
    """From `due` of a row to the operator in front of the blackhole. `rate`: rows a second; absent:
    half of the rate at which the same job runs when it may, and beside it what the machine does to
    two threads of that load that need nothing of each other."""
    rate: float | None = None
    rows_full: int = 150_000_000
    rows_quick: int = 100_000_000

    @property
    def title(self):
        return f"rows due to a blackhole, {'half rate' if self.rate is None else self.rate}"

    def __call__(self, bench):
        with bench.cluster() as cluster:
            rate = self.rate
            if rate is None:
                rows = bench.pick(self.rows_full, self.rows_quick)
                rate = rows / self.run(bench, cluster, rows, FASTER_THAN_ANY)[0].seconds / 2
            rows = int(rate * bench.pick(5, 3.5))
            run, counts = self.run(bench, cluster, rows, rate)
        loop = self.loop(bench, run, rows / rate) if self.rate is None else {}
        counted = sum(counts.values())
        if counted < rows / 10:
            raise WrongResult(f"{counted} of {rows} rows were measured")
        return Measurement(rows=rows, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
                           rss_mb=run.rss_mb,
                           values=values_of({us / 1000: n for us, n in counts.items()}, rate) | loop)

    def loop(self, bench, run, seconds):
        load = min(run.cpu_seconds / seconds / PARALLELISM, 1)
        _, printed = bench.limit("paced_loop", "--threads", PARALLELISM, "--load", f"{load:.3f}",
                                 "--seconds", f"{seconds:.1f}")
        return {f"loop_{name}": printed[name] for name in ("p99_ms", "p999_ms")}

    def run(self, bench, cluster, rows, rate):
        """(JobRun, {µs: rows})"""
        stem = cluster.folder / "histogram"
        run = cluster.run(bench.limits_dir / "latency_job.so", "-p", PARALLELISM, "--",
                          "--rate", int(rate), "--rows", rows, "--keys", KEYS, "--histogram", stem,
                          "--warmup_ms", 1000 * WARMUP_SECONDS)
        expect("rows at the sink", run.records_out, rows)
        counts = {}
        for subtask in range(PARALLELISM):
            for us, number in json.loads(stem.with_suffix(f".{subtask}").read_text()).items():
                counts[int(us)] = counts.get(int(us), 0) + number
        return run, counts


ROWS = [
    Row(name="latency-committed", group="latency", figure="p99_ms", unit="ms", goal=120,
        work="due to visible in a file, p99, interval 100 ms", measure=CommittedLatency(),
        flink="124 ms at 10k rows/s", also=text_of),
    Row(name="latency-half-rate", group="latency", figure="p99_ms", unit="ms", goal=3,
        work="due to a blackhole, p99", measure=BlackholeLatency(),
        flink="3–5 ms, p99.9 9 ms at 4 M rows/s with a 1 ms flush; 99 ms by default",
        also=lambda measurements: text_of(measurements, 8)),
    Row(name="latency-1k", group="latency", figure="p99_ms", unit="ms", goal=2,
        work="due to a blackhole, p99", measure=BlackholeLatency(rate=1000.0), also=text_of)]
