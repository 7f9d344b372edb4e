"""Which named kill point the next process dies at, and how often each was hit.

A hit counts when rows were flowing and a checkpoint was open (progress.py says so)."""

from kill_points import COORDINATOR_POINTS, RESTORE_POINTS, WORKER_POINTS

ALL_POINTS = {**COORDINATOR_POINTS, **WORKER_POINTS, **RESTORE_POINTS}


def points_of(role):
    return [point for point in ALL_POINTS
            if point.startswith("coordinator.") == (role == "coordinator")]


class Tally:
    """Of one point."""

    def __init__(self):
        self.kills = self.counted = self.stops = 0
        self.armed = 0  # live processes that wait for it


class KillPlan:
    """Without `wanted`, some processes get a point, and soon or late. With it, all do, and soon:
    the more counted kills a point lacks, the likelier; none that has enough. Some stop at their
    point (SIGSTOP) instead of dying."""

    ARMED_SHARE = 0.5  # without `wanted`
    LATE = 10  # times later than in the midst of the tests' jobs, at most
    STOP_SHARE = 0.4  # of those armed without `wanted`
    STOP_SHARE_WANTED = 0.15

    def __init__(self, rng, wanted=0):
        self.random, self.wanted = rng, wanted
        self.tallies = {point: Tally() for point in ALL_POINTS}

    def arm(self, role):
        """The (point, count, signal) for a new `coordinator` or `worker`; None: it is left
        alone."""
        points = points_of(role)
        if self.wanted:
            # Without a leader no worker arrives anywhere: coordinators wait for the workers' points.
            if role == "coordinator" and self.share_done(role) > self.share_done("worker"):
                return None
            points = [point for point in points for _ in range(self.lacking(point))]
        elif self.random.random() > self.ARMED_SHARE:
            return None
        if not points:
            return None
        point = self.random.choice(points)
        late = 1 if self.wanted or point in RESTORE_POINTS else self.LATE
        count = self.random.randint(1, ALL_POINTS[point] * late)
        stops = self.STOP_SHARE_WANTED if self.wanted else self.STOP_SHARE
        return point, count, "STOP" if self.random.random() < stops else "KILL"

    def share_done(self, role):
        points = points_of(role)
        return sum(min(self.tallies[point].counted, self.wanted) for point in points) / len(points)

    def lacking(self, point):
        tally = self.tallies[point]
        return self.wanted - tally.counted - tally.armed

    def record(self, point, signal, counted):
        tally = self.tallies[point]
        if signal == "STOP":
            tally.stops += 1
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
                   f"flowing and a checkpoint open, {tally.stops:3} stops")
