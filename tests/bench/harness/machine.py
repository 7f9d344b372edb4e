"""What machine this is, and how much of it other work took meanwhile."""

import os
import pathlib
import time

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return os.uname().machine


def busy_seconds(stat):
    """Of the first line of /proc/stat: user, nice, system, irq, softirq; not idle, waiting, stolen
    or given to guests (which user already has)."""
    fields = [int(field) for field in stat.splitlines()[0].split()[1:]]
    return (sum(fields[0:3]) + sum(fields[5:7])) / TICKS_PER_SECOND


class MachineWatch:
    """Counts from when it is made. Processes that we started count once they have been waited
    for."""

    def __init__(self):
        self._start = self._now()

    @staticmethod
    def _now():
        busy = busy_seconds(pathlib.Path("/proc/stat").read_text())
        return time.monotonic(), busy, sum(os.times()[:4])

    def other_share(self):
        """Share of the machine's CPU time, 0 to 1, that other processes took."""
        wall, busy, own = (now - then for now, then in zip(self._now(), self._start))
        return max(0.0, busy - own) / (wall * os.cpu_count())

    def line(self):
        return (f"{os.cpu_count()} cores, {model()}; other work took "
                f"{100 * self.other_share():.0f} % of them meanwhile")
