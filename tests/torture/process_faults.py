"""Faults of processes: SIGKILL, SIGTERM, SIGSTOP for longer than the heartbeat timeout, restart
storms."""

import time

from fault import Fault

PAUSE_S = (0.2, 7)  # heartbeat timeout 3 s, lease timeout 2 s


class ProcessFaults:
    KINDS = ("worker", "workers", "coordinator", "everything", "worker_paused",
             "coordinator_paused", "worker_ended", "worker_away", "worker_storm",
             "coordinator_storm")
    AT_POINTS = False

    def start(self, kind, chaos):
        cluster, rng = chaos.cluster, chaos.random
        workers = cluster.live_workers()
        which = rng.randrange(len(cluster.ports))
        seconds = rng.uniform(*PAUSE_S)
        if kind == "workers":
            victims = rng.sample(workers, min(len(workers), rng.randint(2, chaos.workers)))
        elif kind == "everything":
            victims = workers + cluster.coordinators
        elif kind.startswith("coordinator"):
            victims = [cluster.coordinators[which]]
        else:
            victims = rng.sample(workers, min(1, len(workers)))
        text = ", ".join(victim.name for victim in victims)
        if kind.endswith("_paused"):
            return self._pause(kind, victims, text, seconds, chaos)
        if kind.endswith("_storm"):
            return self._storm(kind, which, victims, chaos)
        if kind == "worker_ended":
            for victim in victims:
                victim.process.terminate()
                victim.ending = True
            return Fault(text)
        chaos.kill(victims)
        if kind == "worker_away":
            chaos.away += 1

            def come_back():
                chaos.away -= 1
            return Fault(text, come_back, seconds, 1)
        return Fault(text)

    def _pause(self, kind, victims, text, seconds, chaos):
        for victim in victims:
            victim.pause()

        def go_on():
            for victim in victims:
                if victim.alive():
                    victim.resume()
        lost_workers = len(victims)
        if kind == "coordinator_paused":  # another one, if there is one, takes over
            lost_workers = 0 if len(chaos.cluster.ports) > 1 else None
        return Fault(text, go_on, seconds, lost_workers)

    def _storm(self, kind, which, victims, chaos):
        """The same process again and again, killed right after its start."""
        times = chaos.random.randint(3, 8)
        for victim in victims:
            for _ in range(times):
                chaos.kill([victim])
                if kind == "worker_storm":
                    victim = chaos.start_worker(victim.name)
                else:
                    victim = chaos.start_coordinator(which)
                time.sleep(chaos.random.choice((0, 0.02, 0.1, 0.3, 0.8)))
        return Fault(f"{', '.join(victim.name for victim in victims)} {times} times")
