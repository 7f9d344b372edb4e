"""Kills processes of a cluster at random times, from a seed, and puts others in their place."""

import random
import time


class Chaos:
    """What happens is drawn from the seed; how far the jobs are then is up to the machine. Keeps
    `workers` workers, and a coordinator on each port of the cluster."""

    KINDS = ("worker", "workers", "coordinator", "everything", "worker_paused",
             "coordinator_paused", "worker_ended")

    def __init__(self, cluster, seed, workers, kinds=KINDS, say=lambda text: None):
        self.cluster, self.random, self.workers = cluster, random.Random(seed), workers
        self.kinds, self.say = kinds, say
        self.counts = {kind: 0 for kind in kinds}
        self.paused = []  # (daemon, when it goes on)

    def start(self):
        for which in range(len(self.cluster.ports)):
            self.cluster.start_coordinator(which)
        for _ in range(self.workers):
            self.cluster.start_worker()
        self.cluster.wait_for_workers(self.workers)

    def step(self):
        """One fault and its repair."""
        self.resume(time.monotonic())
        kind = self.random.choice(self.kinds)
        self.counts[kind] += 1
        cluster, rng = self.cluster, self.random
        workers = cluster.live_workers()
        which = rng.randrange(len(cluster.ports))
        victims = []
        if kind in ("worker", "worker_paused", "worker_ended"):
            victims = rng.sample(workers, min(1, len(workers)))
        elif kind == "workers":
            victims = rng.sample(workers, min(len(workers), rng.randint(2, self.workers)))
        elif kind in ("coordinator", "coordinator_paused"):
            victims = [cluster.coordinators[which]]
        else:
            victims = workers + cluster.coordinators
        self.say(f"{kind}: {', '.join(victim.name for victim in victims)}")
        if kind.endswith("_paused"):
            until = time.monotonic() + rng.uniform(0.2, 6)
            for victim in victims:
                victim.pause()
                self.paused.append((victim, until))
        elif kind == "worker_ended":
            for victim in victims:
                victim.process.terminate()
        else:
            for victim in victims:  # signals first, so that all die in one moment
                victim.process.kill()
            for victim in victims:
                victim.kill()
        time.sleep(rng.choice((0, 0, 0.1, 0.5)))
        self.repair()

    def repair(self):
        """Others in the place of what died or ended; a paused one keeps its place."""
        for which, coordinator in enumerate(self.cluster.coordinators):
            if not coordinator.alive():
                self.cluster.start_coordinator(which)
        ending = sum(worker.alive() for worker in self.cluster.workers)
        for _ in range(self.workers - ending):
            self.cluster.start_worker()

    def resume(self, now):
        for item in [item for item in self.paused if item[1] <= now]:
            self.paused.remove(item)
            if item[0].alive():
                item[0].resume()

    def calm(self):
        """No more faults."""
        self.resume(float("inf"))
        self.repair()

    def rest(self, seconds):
        """Until the next fault; those that are paused go on in time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            self.resume(time.monotonic())
            self.repair()
