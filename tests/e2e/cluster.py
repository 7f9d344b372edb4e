"""Starts, kills, stops and asks a real Weir cluster on this machine. Standard library only.

Every process is a child of the harness and dies with it; every wait has a bound. A cluster lives in
a folder of its own under the system's temporary folder: removed at the end, kept (and its logs
shown) when the test failed.
"""

import datetime
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

SOURCE_DIR = pathlib.Path(os.environ.get("WEIR_SOURCE_DIR") or
                          pathlib.Path(__file__).resolve().parents[2])
BIN_DIR = pathlib.Path(os.environ.get("WEIR_BIN_DIR") or SOURCE_DIR / "build/release/bin")
KILL_BIN_DIR = BIN_DIR.parent / "test_bin"  # weir-coordinator-kill, weir-worker-kill

WAIT_S = 90  # the bound of a wait for something that takes a second or two on an idle machine
POLL_S = 0.05
KEEP = bool(os.environ.get("WEIR_E2E_KEEP"))  # folders of tests that passed, too
LOG_LINES_SHOWN = 25
ENDED = ("FINISHED", "FAILED", "CANCELED")
# Set by exec, so that no Python runs between fork and exec: there are threads.
DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


class WaitError(AssertionError):
    pass


def wait_for(what, predicate, seconds=WAIT_S, poll_s=POLL_S):
    """The first truthy value of predicate(); WaitError when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise WaitError(f"waited {seconds} s in vain for {what() if callable(what) else what}")
        time.sleep(poll_s)


def free_port():
    """A port outside the range that outgoing connections take theirs from: it stays free while the
    process that listens on it is dead."""
    for _ in range(100):
        port = random.SystemRandom().randrange(10000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free port between 10000 and 32000")


class Daemon:
    """One process that was started. Knows its kill point, if it has one."""

    def __init__(self, name, command, log, environment=None, kill_file=None):
        self.name, self.log, self.kill_file = name, log, kill_file
        self.output = log.with_suffix(".out")
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                [*DIE_WITH_PARENT, *command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, env={**os.environ, **(environment or {})})
        self.pid = self.process.pid

    def alive(self):
        return self.process.poll() is None

    def paused(self):
        try:
            text = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return text.rpartition(")")[2].split()[0] == "T"

    def kill(self):
        """SIGKILL, and wait until it is gone."""
        if self.alive():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)

    def terminate(self, seconds=20):
        """SIGTERM; its exit code."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def wait_until_hit(self, seconds=WAIT_S):
        """Until its kill point has done what it was told."""
        def hit():
            return self.kill_file.exists() and (self.paused() or not self.alive())
        wait_for(lambda: f"{self.name} to arrive at its kill point "
                 f"({'runs' if self.alive() else f'ended with {self.process.returncode}'})",
                 hit, seconds, 0.01)

    def stop_there_again(self):
        """It stands still at its kill point, and will at the next arrival there."""
        self.kill_file.unlink()

    def log_text(self):
        texts = []
        for path in (self.output, self.log):
            if path.exists():
                texts.append(path.read_text(errors="replace"))
        return "".join(texts)

    def log_tail(self):
        return "\n".join("    " + line for line in self.log_text().splitlines()[-LOG_LINES_SHOWN:])


class Result:
    """What one call of the CLI said."""

    def __init__(self, arguments, code, out, err):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError:
            raise AssertionError(f"no JSON: {self}") from None

    def __str__(self):
        return f"weir {' '.join(self.arguments)}: exit code {self.code}\n{self.out}{self.err}"


class Cluster:
    """Use as a context manager. Names of workers are given in order: worker-1, worker-2, ..."""

    def __init__(self, workers=0, slots=2, coordinators=1, flags=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-e2e-"))
        self.checkpoint_dir = self.folder / "checkpoints"
        self.slots = slots
        self.ports = [free_port() for _ in range(coordinators)]
        self.hosts = ["127.0.0.1"] * coordinators  # as in an address
        self.daemons = []
        self.coordinators = [None] * coordinators  # the last one started on each port
        self.workers = []
        self.flags = list(flags)
        self.environment = {}  # of every process that is started
        self._wanted = workers
        self._started = 0
        self._started_workers = 0

    # -- life ------------------------------------------------------------------------------------

    def __enter__(self):
        if self._wanted:
            try:
                self.start_coordinator()
                for _ in range(self._wanted):
                    self.start_worker()
                self.wait_for_workers(self._wanted)
            except BaseException as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise
        return self

    def stop_all(self):
        for daemon in self.daemons:
            if daemon.alive():
                daemon.resume()
                daemon.process.kill()
        for daemon in self.daemons:
            daemon.process.wait(WAIT_S)

    def __exit__(self, kind, error, trace):
        self.stop_all()
        if kind is None and not KEEP:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        if kind is not None:
            print(f"\nfailed: {error}", file=sys.stderr)
        print(f"kept: {self.folder}", file=sys.stderr)
        if kind is not None:
            for daemon in self.daemons[-6:]:
                print(f"  end of the log of {daemon.name} (pid {daemon.pid}, "
                      f"{daemon.process.returncode}):\n{daemon.log_tail()}", file=sys.stderr)

    def _start(self, name, binary, flags, kill, kill_signal, prefix=()):
        """`prefix`: a command that runs the one behind it, by exec."""
        log = self.folder / f"{self._started:03}-{name}.log"
        self._started += 1
        environment, kill_file = dict(self.environment), None
        if kill:
            kill_file = log.with_suffix(".killed")
            environment.update({"WEIR_KILL_POINT": kill, "WEIR_KILL_SIGNAL": kill_signal,
                                "WEIR_KILL_POINT_FILE": str(kill_file)})
            path = KILL_BIN_DIR / f"{binary}-kill"
        else:
            path = BIN_DIR / binary
        command = [*prefix, str(path), "--log-file", str(log), "--log-level", "debug", *flags]
        daemon = Daemon(name, command, log, environment, kill_file)
        self.daemons.append(daemon)
        return daemon

    def start_coordinator(self, which=0, kill=None, kill_signal="KILL", flags=()):
        """`kill`: name[:count] of the point at which it dies (or stops)."""
        daemon = self._start(
            f"coordinator-{which + 1}", "weir-coordinator",
            ["--listen", self.addresses()[which],
             "--checkpoint-dir", str(self.checkpoint_dir),
             "--heartbeat-interval", "200ms", "--heartbeat-timeout", "3s",
             "--lease-timeout", "2s", *self.flags, *flags], kill, kill_signal)
        self.coordinators[which] = daemon
        return daemon

    def start_worker(self, kill=None, kill_signal="KILL", slots=None, flags=(), name=None):
        if name is None:
            self._started_workers += 1
            name = f"worker-{self._started_workers}"
        daemon = self._start(
            name, "weir-worker",
            ["--name", name, "--coordinators", ",".join(self.addresses()),
             "--slots", str(slots or self.slots), "--work-dir", str(self.folder / name), *flags],
            kill, kill_signal)
        self.workers.append(daemon)
        return daemon

    def forget_the_dead(self):
        """Deletes the logs of processes that have ended: for those who start thousands."""
        for daemon in [daemon for daemon in self.daemons if not daemon.alive()]:
            self.daemons.remove(daemon)
            for path in (daemon.log, daemon.output):
                path.unlink(missing_ok=True)
        self.workers = [worker for worker in self.workers if worker.alive()]

    def live_workers(self):
        return [worker for worker in self.workers if worker.alive() and not worker.paused()]

    def addresses(self):
        return [f"{host}:{port}" for host, port in zip(self.hosts, self.ports)]

    # -- the CLI ---------------------------------------------------------------------------------

    def command(self, arguments, which=0, as_json=True):
        return [str(BIN_DIR / "weir"), "--coordinator", self.addresses()[which],
                *(["--json"] if as_json else []), *map(str, arguments)]

    def weir(self, *arguments, which=0, as_json=True, code=None, seconds=WAIT_S):
        """Runs the CLI; with `code`, fails unless that is its exit code."""
        done = subprocess.run(self.command(arguments, which, as_json), cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
        result = Result([str(a) for a in arguments], done.returncode, done.stdout, done.stderr)
        if code is not None and result.code != code:
            raise AssertionError(f"exit code {code} is due: {result}")
        return result

    def attach(self, *arguments, which=0, as_json=False):
        """Starts the CLI and returns the process, its output in pipes."""
        return subprocess.Popen(
            [*DIE_WITH_PARENT, *self.command(arguments, which, as_json)], cwd=self.folder,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def write_job(self, job, name="job.json"):
        path = self.folder / name
        path.write_text(json.dumps(job, indent=1))
        return path

    def submit(self, job, *arguments):
        """To whichever coordinator leads; the id of the job."""
        path = self.write_job(job)

        def submit():
            for which, coordinator in enumerate(self.coordinators):
                if coordinator is None or not coordinator.alive() or coordinator.paused():
                    continue
                result = self.weir("run", "-d", path, *arguments, which=which)
                if result.code == 0:
                    return result.json["id"]
                if result.code != 4:  # not reached, or does not lead
                    raise AssertionError(f"exit code 0 is due: {result}")
            return None
        return wait_for("a coordinator to take the job", submit)

    def ask(self, *arguments):
        """The JSON answer of whichever coordinator leads; None when none answers."""
        for which, coordinator in enumerate(self.coordinators):
            if coordinator is None or not coordinator.alive() or coordinator.paused():
                continue
            try:
                result = self.weir(*arguments, which=which, seconds=15)
            except subprocess.TimeoutExpired:
                continue
            if result.code == 0:
                return result.json
        return None

    def status(self, job):
        return self.ask("status", job)

    def checkpoints(self, job):
        return self.ask("checkpoints", job)

    # -- waits -----------------------------------------------------------------------------------

    def wait_for_workers(self, count, seconds=WAIT_S):
        wait_for(f"{count} registered workers",
                 lambda: len(self.ask("workers") or []) == count, seconds)

    def wait_for_status(self, what, job, holds, seconds=WAIT_S):
        """The first status for which holds(status); a job that ended otherwise fails at once."""
        last = [None]

        def look():
            status = self.status(job)
            if status is None:
                return None
            last[0] = status
            if holds(status):
                return status
            if status["state"] in ENDED:
                raise AssertionError(f"the job ended before {what}: {brief(status)}")
            return None
        return wait_for(lambda: f"{what}; last seen: {brief(last[0])}", look, seconds, 0.1)

    def wait_for_state(self, job, *states, seconds=WAIT_S):
        return self.wait_for_status(" or ".join(states), job, lambda s: s["state"] in states,
                                    seconds)

    def wait_for_checkpoint(self, job, least=1, seconds=WAIT_S):
        return self.wait_for_status(f"checkpoint {least}", job,
                                    lambda s: last_checkpoint(s) >= least, seconds)

    def finish(self, job, seconds=WAIT_S):
        return self.wait_for_state(job, "FINISHED", seconds=seconds)

    # -- what lies in the checkpoint directory ---------------------------------------------------

    def job_dir(self, job):
        return self.checkpoint_dir / job

    def terms(self, job):
        """{term: {number: entry}} of the completion log, read from disk by a decoder of our own."""
        out = {}
        for term in sorted((self.job_dir(job) / "log").iterdir()):
            if not term.name.isdigit():
                continue
            entries = {}
            for entry in term.iterdir():
                if not entry.name.isdigit():
                    continue
                try:
                    entries[int(entry.name)] = decode_entry(entry.read_bytes())
                except FileNotFoundError:
                    continue  # pruned meanwhile
            out[int(term.name)] = entries
        return out

    def leftovers(self, job, ended=None):
        """What must not be there when a job has ended: files of checkpoints, temporary ones. With
        `ended`, only what is older than the job's end, and not in the completion log: a worker or
        leader that was paused until later may leave a file, in the log for the next leader."""
        root = self.job_dir(job)
        left = []
        for path in root.rglob("*"):
            top = path.relative_to(root).parts[0]
            if not (top.startswith("chk-") or ".tmp" in path.name
                    or path.is_file() and top in ("shared", "staged")):
                continue
            if ended is None or top != "log" and path.stat().st_mtime < ended:
                left.append(str(path.relative_to(root)))
        return sorted(left)


def last_checkpoint(status):
    return (status.get("last_checkpoint") or {}).get("id") or 0


def end_of(status):
    """When the job ended, in seconds since 1970."""
    return datetime.datetime.fromisoformat(status["end_time"].replace("Z", "+00:00")).timestamp()


def brief(status):
    if status is None:
        return "no answer"
    return (f"{status['state']}, generation {status['generation']}, restarts {status['restarts']}, "
            f"last checkpoint {last_checkpoint(status)}, waits for {status['waiting_for']}, "
            f"failure {status['failure']}")


ENTRY_KINDS = {1: "SEALED", 2: "STARTED", 3: "COMPLETED", 4: "CANCELLING", 5: "FAILING",
               6: "STOPPING", 7: "CANCELED", 8: "FAILED", 9: "FINISHED"}


def decode_entry(data):
    """An entry of the completion log as {"kind", "generation", "checkpoint"}: 8 bytes of magic, 4
    of version, a protobuf (kind = 1, token = 2, generation = 3, checkpoint = 4), 8 of checksum."""
    if data[:8] != b"weirCLOG":
        raise AssertionError(f"no entry of a completion log: {data[:16]!r}")
    body, at, fields = data[12:-8], 0, {}

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(body):
        tag = varint()
        if tag & 7 == 0:
            fields[tag >> 3] = varint()
        elif tag & 7 == 1:
            at += 8
        elif tag & 7 == 2:
            length = varint()
            at += length
        else:
            raise AssertionError(f"wire type {tag & 7} in an entry of a completion log")
    return {"kind": ENTRY_KINDS[fields.get(1, 0)], "generation": fields.get(3, 0),
            "checkpoint": fields.get(4, 0)}
