"""Tortures a Weir cluster of real processes for as long as you like, and checks every result."""

import argparse
import functools
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "e2e")]

import private  # noqa: E402
from chaos import Chaos  # noqa: E402
from cluster import BIN_DIR, ENDED, WaitError, brief, end_of, wait_for  # noqa: E402
from disk_faults import DiskFaults  # noqa: E402
from jobs import (FLIGHTS_ROWS, Watch, check_clean, check_flights, check_generated,  # noqa: E402
                  flights_job, generator_job, visible)
from kill_plan import KillPlan  # noqa: E402
from link_faults import ConnectionFaults, LinkFaults  # noqa: E402
from process_faults import ProcessFaults  # noqa: E402
from progress import Progress  # noqa: E402
from torture_cluster import TortureCluster  # noqa: E402

NOTICED_S = 4  # how long a fault goes on before a checkpoint counts as one in spite of it
ADVANCE_S = 30  # for that checkpoint, if the fault leaves enough slots
RECOVERED_S = 30  # once the faults have stopped
DRAINED_S = 90
WATCH_POLL_S = 0.2
BOUNDED = ("flights", "made")
KINDS = ("flights", "made", "follow", "endless")

EPILOG = """
faults of processes: worker, workers, coordinator, everything (SIGKILL), worker_ended (SIGTERM),
  worker_paused, coordinator_paused (SIGSTOP, SIGCONT up to 7 s later; the heartbeat timeout is 3 s),
  worker_away (not replaced for a while), worker_storm, coordinator_storm (killed again and again
  right after the start); at named points: coordinators, and one worker at a time, die or stop at a
  kill point drawn from the seed; who stops there goes on later, or with a bad disk or link
of disks (as root): checkpoints_full, checkpoints_read_only, checkpoints_unmounted, output_full,
  output_read_only, output_unmounted
of connections (as root): connections_cut (reset)
of links (--network-namespaces): link_cut, link_cut_one_way, link_blackhole, link_slow (by a proxy),
  node_cut_off, connections_reset

Checked: each row exactly once, against values computed from the input; what is visible never
changes; nothing is left behind; checkpoints complete while a fault goes on that leaves enough slots;
when the faults stop, jobs go on and are drained in time; a job that is cancelled amid faults
ends, without a gap in what it has published.

As root all of it happens in a mount and a network namespace of its own, which vanishes with the
last process. Otherwise faults of disks and connections are left out.
Programs are taken from WEIR_BIN_DIR, else build/release/bin. Exit code: 0 survived, 1 not, 2 wrong
usage, 130 interrupted.
"""


class Job:
    """One job of a round, and who looks at it. Kinds: `flights` and `made` (a generator) end with
    their input; `follow` (the flights, followed) goes on for ever; `endless` (a generator) is
    cancelled amid the faults."""

    def __init__(self, cluster, name, kind, rng, options):
        self.cluster, self.name, self.kind = cluster, name, kind
        self.output = cluster.output_root / name
        self.parallelism = options["parallelism"]
        self.cancel_asked = False
        self.rows = FLIGHTS_ROWS
        if kind in ("flights", "follow"):
            graph = flights_job(self.output, name, source_config={"follow": kind == "follow"},
                                **options)
            self.check = check_flights
        else:
            self.rows = rng.choice((20000, 40000)) if kind == "made" else None
            graph = generator_job(self.output, name, rows=self.rows, keys=rng.choice((3, 200)),
                                  **options)
            self.check = functools.partial(check_generated, rows=self.rows,
                                           complete=kind == "made")
        self.id = cluster.submit(graph)
        self.watch = Watch(self.output, poll_s=WATCH_POLL_S)
        self.watch.__enter__()
        self.progress = Progress(cluster.job_dir(self.id), self.output)

    def bounded(self):
        return self.kind in ("flights", "made")

    def status(self):
        return self.cluster.status(self.id)

    def has_ended(self):
        """In the way that is due."""
        status = self.status()
        due = "FINISHED" if self.bounded() else "CANCELED"
        if status is not None and status["state"] in ENDED and status["state"] != due:
            raise AssertionError(f"{self.name} ended: {brief(status)}")
        return status is not None and status["state"] == due

    def cancel(self):
        """Asks each coordinator until one says yes, which is the answer. Without an answer it may
        have been taken or not."""
        self.cancel_asked = True
        for which, coordinator in enumerate(self.cluster.coordinators):
            if coordinator.alive() and not coordinator.paused():
                try:
                    if self.cluster.weir("cancel", self.id, which=which, seconds=5).code == 0:
                        return True
                except subprocess.TimeoutExpired:
                    pass
        return False

    def rows_visible(self):
        header = any(path.suffix == ".csv" for path in visible(self.output))
        return sum(path.read_bytes().count(b"\n") - header for path in visible(self.output))

    def drain(self):
        """Until all of its input is visible, and it has ended. The last status."""
        if self.bounded():
            return self.cluster.finish(self.id, DRAINED_S)
        if self.kind == "follow":
            wait_for(lambda: f"{self.name} to be drained: {self.rows_visible():,} of {self.rows:,} "
                     f"rows are visible; {brief(self.status())}",
                     lambda: self.rows_visible() >= self.rows, DRAINED_S, 0.2)
        wait_for("a coordinator to cancel the job", lambda: self.has_ended() or self.cancel())
        return self.cluster.wait_for_state(self.id, "CANCELED", seconds=DRAINED_S)

    def verify(self, status):
        """Once it has ended. Number of rows."""
        ended = end_of(status)
        self.progress.stop()
        self.watch.__exit__(None, None, None)
        rows = self.check(self.output, ended=ended)
        if self.rows is None:
            check_clean(self.output, ended)
        elif rows != self.rows:
            raise AssertionError(f"{self.output}: {rows} rows where {self.rows} are due")
        left = self.cluster.leftovers(self.id, ended)
        if left:
            raise AssertionError(f"{self.name}: left in the checkpoint directory: {left}")
        return rows


class Torture:
    """One run: rounds of jobs on one cluster, until the time is over and each named point has been
    hit often enough."""

    def __init__(self, arguments, seed, say):
        self.arguments, self.say = arguments, say
        self.random = random.Random(seed)
        self.seed = seed
        self.jobs = []
        self.rounds = self.rows = self.restarts = self.completed = self.advances = 0
        self.longest_gap_s = self.longest_to_recover_s = 0.0
        rng = random.Random(f"points {seed}")
        self.plan = KillPlan(rng, arguments.kills_per_point) if arguments.points else None

    def run(self):
        arguments = self.arguments
        families = [ProcessFaults()]
        if private.inside():
            families += [DiskFaults(), LinkFaults() if arguments.network_namespaces
                         else ConnectionFaults()]
        kinds = [kind for family in families for kind in family.KINDS]
        if arguments.faults:
            unknown = sorted(set(arguments.faults) - set(kinds))
            if unknown:
                raise ValueError(f"no such fault here: {', '.join(unknown)}")
            kinds = arguments.faults
        self.end = time.monotonic() + arguments.minutes * 60
        with TortureCluster(arguments.workers, arguments.coordinators, arguments.slots,
                            disks=private.inside(),
                            network=arguments.network_namespaces) as cluster:
            self.cluster = cluster
            self.chaos = Chaos(cluster, self.seed, arguments.workers, kinds, self.say, families,
                               self.plan, self.under_load, self.all_resume)
            self.chaos.start()
            while not self.over():
                self.round()

    def over(self):
        now = time.monotonic()
        if now < self.end:
            return False
        if self.arguments.each_kind and not all(self.chaos.counts.values()):
            # On a slow machine; but not for ever.
            return now >= self.end + 4 * self.arguments.minutes * 60
        return self.plan is None or self.plan.done()

    def under_load(self, at):
        return any(job.progress.under_load(at) for job in self.jobs)

    def all_resume(self):
        return all(job.progress.completed_since(0) for job in self.jobs)

    # -- one round -------------------------------------------------------------------------------

    def round(self):
        rng, chaos = self.random, self.chaos
        slots = self.arguments.workers * self.cluster.slots
        self.jobs = []
        if self.rounds:
            chaos.arm_again()
        for number in range(self.arguments.jobs):
            most = min(4, slots - 2) if number == 0 else 2  # together: not more than there are
            options = {"parallelism": rng.randint(1, most),
                       "format": rng.choice(("json", "csv")),
                       "interval": rng.choice(("20ms", "100ms", "300ms")),
                       "rate": rng.choice((1500, 4000)),
                       "part_size_max": rng.choice((None, "1KiB", "8KiB"))}
            kinds = BOUNDED if number == 0 else KINDS
            if self.arguments.kills_per_point:
                # Every worker has a part in it when it dies, and several files to publish.
                options.update(parallelism=slots, interval="100ms", part_size_max="1KiB")
            self.jobs.append(Job(self.cluster, f"job-{self.rounds}-{number}", rng.choice(kinds),
                                 rng, options))
        cancel_at = time.monotonic() + rng.uniform(1, 15)
        # Often in the midst of the jobs: they must get going again by themselves.
        calm_at = time.monotonic() + rng.uniform(8, 40)
        while time.monotonic() < calm_at and not self.over() and not all(
                job.has_ended() for job in self.jobs if job.bounded()):
            chaos.rest(rng.uniform(*self.arguments.rest))
            for job in self.jobs:
                if job.kind == "endless" and not job.cancel_asked and time.monotonic() > cancel_at:
                    self.say(f"cancel {job.name}: {'yes' if job.cancel() else 'no answer'}")
            fault = chaos.step()
            if fault and fault.lost_workers is not None and rng.random() < 0.4:
                self.require_advance(fault)
        chaos.calm()
        self.settle()

    def require_advance(self, fault):
        """While the fault goes on, and it alone, each job completes a checkpoint, also after the
        fault was noticed: if there are slots for all."""
        slots = (self.arguments.workers - fault.lost_workers) * self.cluster.slots
        jobs = [job for job in self.jobs if not job.cancel_asked and not job.has_ended()]
        if sum(job.parallelism for job in jobs) > slots or fault not in self.chaos.faults:
            return
        self.chaos.heal_others(fault)
        fault.until = float("inf")
        self.chaos.arming = False
        at = time.time() + NOTICED_S

        def advanced():
            self.chaos.rest(0.05)  # those that are armed go on arriving at their points
            return all(job.progress.completed_since(at) or job.has_ended() for job in jobs)
        try:
            wait_for("a checkpoint of each job", advanced, NOTICED_S + ADVANCE_S)
        except WaitError:
            raise AssertionError(
                f"no checkpoint in {ADVANCE_S} s, though {fault.kind} ({fault.text}) leaves {slots} "
                f"slots: " + "; ".join(f"{job.name} parallelism {job.parallelism}: "
                                       f"{brief(job.status())}" for job in jobs
                                       if not job.progress.completed_since(at))) from None
        self.chaos.arming = True
        self.advances += 1
        self.say(f"  while that goes on: each job completed a checkpoint, "
                 f"{time.time() - at + NOTICED_S:.1f} s after its begin")
        fault.until = time.monotonic()

    def settle(self):
        """The faults have stopped: each job runs and completes a checkpoint soon, and is drained;
        its result is checked."""
        at = time.time()

        def recovered(job):
            status = job.status()
            return status is not None and (
                job.cancel_asked or status["state"] == "FINISHED"
                or status["state"] == "RUNNING" and job.progress.completed_since(at) > 0)
        for job in self.jobs:
            wait_for(lambda: f"{job.name} to run and to complete a checkpoint, once the faults had "
                     f"stopped: {brief(job.status())}", lambda: recovered(job),
                     RECOVERED_S - (time.time() - at))
        recovered_s = time.time() - at
        self.longest_to_recover_s = max(self.longest_to_recover_s, recovered_s)
        self.say(f"no more faults; all jobs run and have completed a checkpoint {recovered_s:.1f} s "
                 f"later")
        for job in self.jobs:
            status = job.drain()
            rows = job.verify(status)
            self.rows += rows
            restarts = status["generation"] - 1  # "restarts" is since the present leader leads
            self.restarts += restarts
            self.completed += len(job.progress.completions)
            self.longest_gap_s = max(self.longest_gap_s,
                                     job.progress.longest_gap(end_of(status)))
            self.say(f"{job.name} {status['state']}, {restarts} restarts: "
                     f"{rows:,} rows, each exactly once")
            for folder in self.cluster.output_root.glob(f"{job.name}*"):
                shutil.rmtree(folder)
        self.cluster.forget_the_dead()
        self.rounds += 1

    # -- what is said at the end -----------------------------------------------------------------

    def summary(self):
        chaos = self.chaos
        yield f"faults: {sum(chaos.counts.values())}"
        for kind, count in chaos.counts.items():
            yield f"  {kind:24} {count:4}"
        yield (f"kills: {chaos.kills} processes, {chaos.kills_under_load} of them with rows flowing "
               f"and a checkpoint open")
        if self.plan:
            yield f"at named points: {self.plan.kills()} kills"
            for line in self.plan.lines():
                yield f"  {line}"
        yield (f"checked: {self.rows:,} rows in {self.rounds} rounds, each exactly once; "
               f"{self.restarts} restarts, {self.completed} checkpoints completed")
        yield (f"longest time without a completed checkpoint {self.longest_gap_s:.1f} s; "
               f"{self.advances} times one was required during a fault; "
               f"longest time from the last fault to a completed checkpoint {self.longest_to_recover_s:.1f} s")


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/torture", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5, metavar="N",
                        help="how long faults go on (default 5); then the last jobs are drained")
    parser.add_argument("--seed", type=int, metavar="N",
                        help="of jobs and faults (default: random)")
    parser.add_argument("--network-namespaces", action="store_true",
                        help="each coordinator and worker in a network namespace of its own, and "
                        "faults of links (needs root)")
    parser.add_argument("--kills-per-point", type=int, default=0, metavar="N",
                        help="go on until N kills at each named point have been survived with rows "
                        "flowing and a checkpoint open; one job at a time, over all workers")
    parser.add_argument("--each-kind", action="store_true",
                        help="go on until each kind of fault came once, up to five times as long")
    parser.add_argument("--no-points", dest="points", action="store_false",
                        help="no kills at named points, only on timers")
    parser.add_argument("--faults", type=lambda text: text.split(","), metavar="KIND,...",
                        help="only these on timers")
    parser.add_argument("--rest", type=lambda text: [float(s) for s in text.split(",")],
                        metavar="MIN,MAX", default=[0.1, 2.0],
                        help="seconds between two of them (default 0.1,2)")
    parser.add_argument("--workers", type=int, metavar="N",
                        help="default 3; 2 with --kills-per-point; 4 with --network-namespaces")
    parser.add_argument("--slots", type=int, metavar="N",
                        help="of each worker: default 2; 1 with --network-namespaces, so that jobs "
                        "are spread over the links")
    parser.add_argument("--coordinators", type=int, default=2, metavar="N")
    parsed = parser.parse_args(arguments)
    if len(parsed.rest) != 2:
        parser.error("--rest takes two numbers")
    if parsed.kills_per_point and not parsed.points:
        parser.error("--kills-per-point excludes --no-points")
    network = parsed.network_namespaces
    parsed.slots = parsed.slots or (1 if network else 2)
    parsed.workers = parsed.workers or (4 if network else 2 if parsed.kills_per_point else 3)
    if parsed.workers * parsed.slots < 4:
        parser.error("two jobs of two subtasks need four slots")
    parsed.jobs = 1 if parsed.kills_per_point else 2
    return parser, parsed


def interrupt(number, frame):
    raise KeyboardInterrupt


def main():
    parser, arguments = parse(sys.argv[1:])
    why_not = None if private.inside() else private.missing()
    if why_not is None:
        private.enter()
    elif arguments.network_namespaces:
        print(f"scripts/torture: no --network-namespaces: {why_not}", file=sys.stderr)
        return 2
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    start = time.monotonic()

    def say(text):
        print(f"{time.monotonic() - start:7.1f} s  {text}", flush=True)

    command = " ".join(["scripts/torture", *sys.argv[1:]])
    if arguments.seed is None:
        command += f" --seed {seed}"
    say(f"{command}: {arguments.coordinators} coordinators, {arguments.workers} workers, "
        f"programs in {BIN_DIR}")
    if why_not:
        say(f"without faults of disks and connections: {why_not}")
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, interrupt)
    torture = Torture(arguments, seed, say)
    try:
        torture.run()
    except KeyboardInterrupt:
        say(f"interrupted; {command}")
        return 130
    except ValueError as error:
        parser.error(str(error))
    except Exception as error:
        say(f"FAILED after {time.monotonic() - start:.0f} s: {type(error).__name__}: {error}")
        say(f"again: {command}")
        if not isinstance(error, AssertionError):
            raise
        return 1
    for line in torture.summary():
        say(line)
    say(f"survived: {command}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
