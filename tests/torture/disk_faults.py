"""Faults of disks: full, and read-only."""

from fault import Fault

READ_ONLY_TRY_S = 1.0  # a disk with files open for writing cannot be made read-only


class DiskFaults:
    """Of a TortureCluster with disks."""

    KINDS = ("checkpoints_full", "checkpoints_read_only", "output_full", "output_read_only")
    AT_POINTS = True

    def start(self, kind, chaos, at=None):
        name, _, what = kind.partition("_")
        disk = chaos.cluster.disks[name]
        for other in [other for other in chaos.faults if other.kind.startswith(f"{name}_")]:
            chaos.heal(other)  # what is read-only can neither be filled nor emptied
        seconds = chaos.random.uniform(0.3, 6)
        if what == "full":
            disk.fill()
            return Fault(f"{disk.megabytes} MiB of {name}", disk.empty, seconds)
        text = f"disk of {name}"
        if not disk.make_read_only(READ_ONLY_TRY_S):
            # As after a crash of the machine: those who wrote are dead, the disk comes back
            # read-only.
            victims = [worker for worker in chaos.cluster.workers if worker.alive()]
            victims += chaos.cluster.coordinators
            chaos.kill(victims)
            text += f", {', '.join(victim.name for victim in victims)} killed"
            if not disk.make_read_only(READ_ONLY_TRY_S):
                raise AssertionError(f"{disk.path} is busy, who writes there?")
        return Fault(text, disk.make_writable, seconds)
