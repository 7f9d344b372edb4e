"""Which named kill point the next process dies at, and how often each was hit.

A hit counts when rows were flowing and a checkpoint was open (progress.py says so)."""

from kill_points import COORDINATOR_POINTS, RESTORE_POINTS, WORKER_POINTS

ALL_POINTS = {**COORDINATOR_POINTS, **WORKER_POINTS, **RESTORE_POINTS}


class Tally:
    """Of one point."""

    def __init__(self):
        self.kills = self.counted = self.pauses = 0
        self.armed = 0  # live processes that wait for it


class KillPlan:
    """Without `wanted`, some processes get a point, and soon or late. With it, all do, and soon:
    points that have fewer counted kills come first, and none is drawn that has enough.
    `PAUSE_SHARE` of the processes stop at their point (SIGSTOP) instead of dying."""

    ARMED_SHARE = 0.4  # without `wanted`
    LATE = 10  # times later than in the midst of the tests' jobs, at most
    PAUSE_SHARE = 0.15

    def __init__(self, rng, wanted=0):
        self.random, self.wanted = rng, wanted
        self.tallies = {point: Tally() for point in ALL_POINTS}

    def arm(self, role):
        """The (point, count, signal) for a new `coordinator` or `worker`; None: it is left
        alone."""
        points = [point for point in ALL_POINTS
                  if point.startswith("coordinator.") == (role == "coordinator")]
        if self.wanted:
            lack = {point: self.lacking(point) for point in points}
            points = [point for point in points
                      if lack[point] > 0 and lack[point] == max(lack.values())]
        elif self.random.random() > self.ARMED_SHARE:
            return None
        if not points:
            return None
        point = self.random.choice(points)
        late = 1 if self.wanted or point in RESTORE_POINTS else self.LATE
        count = self.random.randint(1, ALL_POINTS[point] * late)
        return point, count, "STOP" if self.random.random() < self.PAUSE_SHARE else "KILL"

    def lacking(self, point):
        tally = self.tallies[point]
        return self.wanted - tally.counted - tally.armed

    def record(self, point, signal, counted):
        tally = self.tallies[point]
        if signal == "STOP":
            tally.pauses += 1
        else:
            tally.kills += 1
            tally.counted += counted

    def done(self):
        return all(tally.counted >= self.wanted for tally in self.tallies.values())

    def kills(self):
        return sum(tally.kills for tally in self.tallies.values())

    def lines(self):
        width = max(map(len, self.tallies))
        for point, tally in self.tallies.items():
            yield (f"{point:{width}}  {tally.kills:3} kills, {tally.counted:3} of them with rows "
                   f"flowing and a checkpoint open, {tally.pauses:3} pauses")
