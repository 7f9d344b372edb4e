"""Draws faults from a seed and inflicts them on a cluster, one kind after another."""

import os
import random
import time

from fault import Fault
from process_faults import ProcessFaults


RETRY_S = 0.3
CALM_S = 1
ENDED_S = 30  # after SIGTERM


class Chaos:
    """What happens is drawn from the seed; how far the jobs are then is up to the machine. Each
    kind comes once before any comes again. Keeps `workers` workers, and a coordinator on each port
    of the cluster. With a `plan` (kill_plan.py), each coordinator and one worker at a time dies at
    a named point; `under_load(time)` says whether that counts. `all_resume()`: each job has
    completed a checkpoint, from which it would restart. Thread: the one that made it, for its
    processes die with that."""

    KINDS = ("worker", "workers", "coordinator", "everything", "worker_paused",
             "coordinator_paused", "worker_ended")

    def __init__(self, cluster, seed, workers, kinds=KINDS, say=lambda text: None, families=(),
                 plan=None, under_load=lambda at: False, all_resume=lambda: True):
        self.cluster, self.random, self.workers = cluster, random.Random(seed), workers
        self.say, self.plan, self.under_load = say, plan, under_load
        self.all_resume = all_resume
        self.families = {}
        for family in (ProcessFaults(), *families):
            self.families.update({kind: family for kind in family.KINDS})
        self.kinds = kinds
        self.counts = {kind: 0 for kind in kinds}
        self.kills = self.kills_under_load = 0
        self.faults = []  # those that go on
        self.away = 0  # workers that are not replaced for now
        self.arming = True  # those that are started
        self._bag = []
        self._last_kill_under_load = False

    def start(self):
        for which in range(len(self.cluster.ports)):
            self.start_coordinator(which)
        for _ in range(self.workers):
            self.start_worker()
        self.cluster.wait_for_workers(self.workers)

    # -- processes -------------------------------------------------------------------------------

    def start_coordinator(self, which):
        arm = self.plan.arm("coordinator") if self.plan and self.arming else None
        return self._armed(arm, self.cluster.start_coordinator(which, **kill_of(arm)))

    def start_worker(self, name=None):
        arm = None
        if self.plan and self.arming and not any(is_armed(worker) for worker in self.cluster.workers):
            arm = self.plan.arm("worker")
        return self._armed(arm, self.cluster.start_worker(name=name, **kill_of(arm)))

    def _armed(self, arm, daemon):
        daemon.arm = arm
        daemon.retry_at = time.monotonic() + RETRY_S
        if arm:
            self.plan.tallies[arm[0]].armed += 1
        return daemon

    def kill(self, victims):
        under_load = self.under_load(time.time())
        for victim in victims:  # signals first, so that all die in one moment
            victim.process.kill()
        for victim in victims:
            victim.kill()
        self._look_at_points()  # before others take the places of those that were armed
        self._count_kills(len(victims), under_load)

    def _count_kills(self, count, under_load):
        self.kills += count
        self.kills_under_load += count * under_load
        self._last_kill_under_load = under_load

    def repair(self):
        """Others in the place of what died or ended; a paused one keeps its place. A coordinator
        that cannot start is tried again a little later."""
        self._look_at_points()
        for which, coordinator in enumerate(self.cluster.coordinators):
            if coordinator.alive():
                continue
            self._look_at_points()  # of this one, too: it has ended now
            if coordinator.process.returncode > 0 and time.monotonic() < coordinator.retry_at:
                continue
            self.start_coordinator(which)
        living = sum(worker.alive() for worker in self.cluster.workers)
        for _ in range(self.workers - self.away - living):
            self.start_worker()

    def _look_at_points(self):
        for daemon in [*self.cluster.coordinators, *self.cluster.workers]:
            if not is_armed(daemon):
                continue
            point, _, signal = daemon.arm
            if not daemon.kill_file.exists():
                if not daemon.alive():
                    self._disarm(daemon)  # died of something else
                continue
            if daemon.alive() and not daemon.paused():
                continue  # about to
            self._disarm(daemon)
            at = daemon.kill_file.stat().st_mtime
            # Tasks that are being restored write no rows: what counts is whether those did whose
            # end made that necessary.
            restores = point.endswith(("_restore", "_restoring"))
            under_load = self._last_kill_under_load if restores else self.under_load(at)
            self.plan.record(point, signal, under_load)
            if signal == "STOP":
                self._begin(*self._fault_at(daemon, point))
            else:
                self._count_kills(1, under_load)
                self._begin("point_kill", Fault(f"{daemon.name} at {point}"
                                                f"{'' if under_load else ' (not under load)'}"))

    def _fault_at(self, daemon, point):
        """Kind and fault for one that has stopped at a point: it stays so for a while, or goes on
        at once, with a disk or a link that has become bad."""
        kinds = [kind for kind in self.kinds if self.families[kind].AT_POINTS]
        if not kinds or self.random.random() < 0.5:
            return "point_pause", Fault(f"{daemon.name} at {point}",
                                        lambda: daemon.alive() and daemon.resume(),
                                        self.random.uniform(0.2, 7))
        kind = self.random.choice(kinds)
        fault = self.families[kind].start(kind, self, daemon)
        fault.text += f", when {daemon.name} was at {point}"
        if daemon.alive():
            daemon.resume()
        return kind, fault

    def _disarm(self, daemon):
        self.plan.tallies[daemon.arm[0]].armed -= 1
        daemon.arm = None

    def disarm_all(self):
        """Who is not at its point yet goes on for ever."""
        if not self.plan:
            return
        for daemon in [*self.cluster.coordinators, *self.cluster.workers]:
            if is_armed(daemon):
                try:
                    os.close(os.open(daemon.kill_file, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue  # it is there already
                self._disarm(daemon)

    def arm_again(self):
        """Other processes in the place of those that were disarmed: each coordinator, one
        worker."""
        self.arming = True
        if not self.plan:
            return
        victims = [*self.cluster.coordinators, *self.cluster.live_workers()[:1]]
        for victim in victims:
            if not is_armed(victim):
                victim.kill()
        self.repair()
        self.cluster.wait_for_workers(self.workers)

    # -- faults ----------------------------------------------------------------------------------

    def step(self):
        """One fault; and its repair, or it goes on for a while and is returned."""
        self.resume(time.monotonic())
        if not self._bag:
            self._bag = list(self.kinds)
            self.random.shuffle(self._bag)
        kind = self._bag.pop()
        fault = self.families[kind].start(kind, self)
        self._begin(kind, fault)
        if fault.heal is None:
            time.sleep(self.random.choice((0, 0, 0.1, 0.5)))
        self.repair()
        return fault if fault.heal else None

    def _begin(self, kind, fault):
        self.counts[kind] = self.counts.get(kind, 0) + 1
        fault.kind = kind
        if fault.heal:
            self.faults.append(fault)
            self.say(f"{kind}: {fault.text}, for {fault.until - time.monotonic():.1f} s")
        else:
            self.say(f"{kind}: {fault.text}")

    def heal(self, fault):
        self.faults.remove(fault)
        fault.heal()

    def heal_others(self, fault):
        for other in [other for other in self.faults if other is not fault]:
            self.heal(other)

    def resume(self, now):
        for fault in [fault for fault in self.faults if fault.until <= now]:
            self.heal(fault)

    def calm(self):
        """No more faults, nor points at which those stop that start now, until arm_again."""
        self.arming = False
        self.disarm_all()
        self._look_at_points_until_quiet()
        self.resume(float("inf"))
        for worker in self.cluster.workers:
            if getattr(worker, "ending", False):
                worker.process.wait(ENDED_S)
        # A coordinator that was started just before its disk was healed is about to end.
        self.rest(CALM_S)

    def _look_at_points_until_quiet(self):
        """Until those have died or stopped that had arrived at their points already."""
        end = time.monotonic() + 10
        while self.plan and time.monotonic() < end and any(
                is_armed(daemon) for daemon in [*self.cluster.coordinators,
                                                *self.cluster.workers]):
            self._look_at_points()
            time.sleep(0.01)

    def rest(self, seconds):
        """Until the next fault; those that go on end in time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.05))
            self.resume(time.monotonic())
            self.repair()


def kill_of(arm):
    if not arm:
        return {}
    point, count, signal = arm
    return {"kill": f"{point}:{count}", "kill_signal": signal}


def is_armed(daemon):
    return daemon is not None and getattr(daemon, "arm", None) is not None
