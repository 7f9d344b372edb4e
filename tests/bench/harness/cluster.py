"""One coordinator and some workers, started afresh for one measurement, and one job on them.

Every process is a child of the harness and dies with it, also by SIGKILL. Options are those that a
user gets by default; only addresses, directories and slots are set.
"""

import dataclasses
import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

from .measurement import BenchError, expect

START_SECONDS_MAX = 30
JOB_SECONDS_MAX = 300
STOP_SECONDS_MAX = 20
LOG_LINES_SHOWN = 15
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Set by exec, so that no Python runs between fork and exec.
DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


def free_port():
    """Outside the range from which outgoing connections take theirs."""
    for _ in range(100):
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise BenchError("no free port between 10000 and 32000")


def cpu_seconds_of(pid):
    """user + sys of all threads, also of those that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def status_mb_of(pid, field):
    """VmHWM (peak) or VmRSS (now) of a process, in MB (10^6 bytes)."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024 / 1e6
    raise BenchError(f"no {field} in /proc/{pid}/status")


def seconds_of(text):
    """Seconds since 1970 of an RFC 3339 time as `weir --json` prints it."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Daemon:
    """A process of the cluster; its log is a file in the cluster's folder."""

    def __init__(self, name, command, log):
        self.name, self.log = name, log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [*DIE_WITH_PARENT, *map(str, command)], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True)
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def cpu_seconds(self):
        return cpu_seconds_of(self.pid)

    def rss_peak_mb(self):
        return status_mb_of(self.pid, "VmHWM")

    def rss_mb(self):
        return status_mb_of(self.pid, "VmRSS")

    def kill(self):
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS_MAX)

    def log_tail(self):
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        return "".join(f"\n    {line}" for line in lines)


@dataclasses.dataclass
class JobRun:
    """What one job took, from the start of `weir run` to its end.

    `cpu_seconds` are those of coordinator, workers and the client; `seconds` end when the
    coordinator says that the job ended, not when the client looks next."""
    seconds: float
    cpu_seconds: float
    rss_mb: float           # sum of the workers' peaks
    status: dict            # as `weir --json status` gives it, after the end
    checkpoints: list       # `weir --json checkpoints --subtasks`, the last 100

    @property
    def records_in(self):
        return self.status["records_in"]

    @property
    def records_out(self):
        return self.status["records_out"]

    def completed(self):
        return [c for c in self.checkpoints if c["state"] == "completed"]

    def subtasks(self, uid):
        for vertex in self.status["vertices"]:
            if vertex["uid"] == uid:
                return vertex["subtasks"]
        raise BenchError(f"the status has no operator '{uid}'")


class Cluster:
    """Use as a context manager: it is up when entered, and gone without a trace when left."""

    def __init__(self, bench, workers=1, slots=2, coordinator_flags=(), worker_flags=()):
        self.bench = bench
        self.folder = bench.folder("cluster")
        self.checkpoint_dir = self.folder / "checkpoints"
        self.address = f"127.0.0.1:{free_port()}"
        self.slots = slots
        self.coordinator = None
        self.workers = []
        self._worker_count = workers
        self._coordinator_flags = list(coordinator_flags)
        self._worker_flags = list(worker_flags)

    def __enter__(self):
        try:
            self.start_coordinator()
            for _ in range(self._worker_count):
                self.start_worker()
            self.wait_for_workers(self._worker_count)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind, error, trace):
        self.stop()

    def daemons(self):
        return [daemon for daemon in [self.coordinator, *self.workers] if daemon is not None]

    def start_coordinator(self):
        self.coordinator = Daemon(
            "coordinator",
            [self.bench.bin_dir / "weir-coordinator", "--listen", self.address,
             "--checkpoint-dir", self.checkpoint_dir, *self._coordinator_flags],
            self.folder / "coordinator.log")
        return self.coordinator

    def start_worker(self, slots=None, flags=()):
        name = f"worker-{len(self.workers) + 1}"
        worker = Daemon(
            name,
            [self.bench.bin_dir / "weir-worker", "--coordinators", self.address, "--name", name,
             "--slots", slots or self.slots, "--work-dir", self.folder / name,
             *self._worker_flags, *flags],
            self.folder / f"{name}.log")
        self.workers.append(worker)
        return worker

    def stop(self):
        for daemon in self.daemons():
            daemon.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- the client ------------------------------------------------------------------------------

    def command(self, *arguments):
        return [str(self.bench.bin_dir / "weir"), "--coordinator", self.address,
                *map(str, arguments)]

    def weir(self, *arguments, seconds=30):
        """The JSON answer of a command; BenchError unless its exit code is 0."""
        done = subprocess.run(self.command("--json", *arguments), text=True, timeout=seconds,
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder)
        if done.returncode != 0:
            raise self.failed(f"weir {' '.join(map(str, arguments))}: exit code {done.returncode}"
                              f"\n{done.stderr}{done.stdout}")
        return json.loads(done.stdout)

    def wait_for_workers(self, count):
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            done = subprocess.run(self.command("--json", "workers"), text=True, timeout=30,
                                  stdin=subprocess.DEVNULL, capture_output=True)
            if done.returncode == 0 and len(json.loads(done.stdout)) == count:
                return
            for daemon in self.daemons():
                if not daemon.alive():
                    raise self.failed(f"{daemon.name} ended with {daemon.process.returncode}")
            if time.monotonic() > deadline:
                raise self.failed(f"no {count} workers after {START_SECONDS_MAX} s")
            time.sleep(0.02)

    def write_job(self, job, name="job.json"):
        path = self.folder / name
        path.write_text(json.dumps(job, indent=1))
        return path

    def run(self, job, *arguments, seconds=JOB_SECONDS_MAX):
        """Runs a job to its end; JobRun. `job` as `weir run` reads it, or the path of a library."""
        path = self.write_job(job) if isinstance(job, dict) else job
        name = job["name"] if isinstance(job, dict) else job.name
        answer, log = self.folder / "client.json", self.folder / "client.log"
        cpu_before = sum(daemon.cpu_seconds() for daemon in self.daemons())
        with open(answer, "wb") as output, open(log, "wb") as errors:
            start = time.time()
            client = subprocess.Popen(
                [*DIE_WITH_PARENT, *self.command("--json", "run", path, *arguments)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, cwd=self.folder,
                start_new_session=True)
        try:
            client_cpu_seconds = wait_for_exit(client, seconds)
        except subprocess.TimeoutExpired:
            raise self.failed(f"the job {name} did not end within {seconds} s") from None
        finally:
            if client.returncode is None:
                client.kill()
                client.wait()
        if client.returncode != 0:
            raise self.failed(f"weir run {name}: exit code {client.returncode}\n"
                              + log.read_text(errors="replace") + answer.read_text())
        cpu = sum(daemon.cpu_seconds() for daemon in self.daemons()) - cpu_before
        rss = sum(worker.rss_peak_mb() for worker in self.workers)
        status = json.loads(answer.read_text())  # the status at the end
        expect(f"state of {name}", status["state"], "FINISHED")
        expect(f"restarts of {name}", status["restarts"], 0)
        return JobRun(seconds=seconds_of(status["end_time"]) - start,
                      cpu_seconds=cpu + client_cpu_seconds, rss_mb=rss, status=status,
                      checkpoints=self.weir("checkpoints", status["id"], "--subtasks"))

    def failed(self, text):
        logs = "".join(f"\n  end of the log of {daemon.name}:{daemon.log_tail()}"
                       for daemon in self.daemons())
        return BenchError(text + logs)


def wait_for_exit(process, seconds):
    """Until a child has ended; its user + sys seconds. subprocess.TimeoutExpired."""
    deadline = time.monotonic() + seconds
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            raise subprocess.TimeoutExpired(process.args, seconds)
        time.sleep(0.005)
