"""Faults of disks: full, read-only, unmounted."""

from disks import BusyDisk
from fault import Fault

BUSY_S = 1.0  # how long to wait for a moment in which nobody has a file open


class DiskFaults:
    """Of a TortureCluster with disks."""

    KINDS = ("checkpoints_full", "checkpoints_read_only", "checkpoints_unmounted", "output_full",
             "output_read_only", "output_unmounted")
    AT_POINTS = True

    def start(self, kind, chaos, at=None):
        name, _, what = kind.partition("_")
        disk = chaos.cluster.disks[name]
        for other in [other for other in chaos.faults if other.kind.startswith(f"{name}_")]:
            chaos.heal(other)
        seconds = chaos.random.uniform(0.3, 6)
        text = f"disk of {name}"
        if what == "full":
            disk.fill()
            return Fault(f"{text}, {disk.size}", disk.free, seconds)
        begin, heal = {"read_only": (lambda: disk.read_only(True, BUSY_S),
                                     lambda: disk.read_only(False)),
                       "unmounted": (lambda: disk.unmount(BUSY_S), disk.mount)}[what]
        if kind == "output_unmounted" and not chaos.all_resume():
            # A job that starts without a checkpoint makes its output directory, wherever it is.
            return Fault(f"{text}: not while a job has no checkpoint")
        try:
            begin()
        except BusyDisk:
            # As after a crash of the machine: all are dead, and the disk comes back like that.
            victims = [worker for worker in chaos.cluster.workers if worker.alive()]
            victims += chaos.cluster.coordinators
            chaos.kill(victims)
            text += f", {', '.join(victim.name for victim in victims)} killed"
            begin()
        return Fault(text, heal, seconds)
