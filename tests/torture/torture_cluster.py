"""The cluster that the torture works on: workers at numbered places, disks and a network of its
own."""

from cluster import KEEP, Cluster
from disks import SmallDisk
from fabric import Fabric

DISK_SIZE = "64m"
COORDINATOR_PORT = 7070


class TortureCluster(Cluster):
    """With `disks`, the checkpoint directory and `output_root` are each a small disk. With
    `network`, each coordinator and each place of a worker is a network namespace. Both only inside
    private namespaces (private.py)."""

    def __init__(self, workers, coordinators, slots=2, disks=False, network=False):
        super().__init__(slots=slots, coordinators=coordinators)
        self.worker_places = [f"place-{number}" for number in range(1, workers + 1)]
        self.coordinator_places = [f"coordinator-{which + 1}" for which in range(coordinators)]
        self.output_root = self.folder / "out"
        self.output_root.mkdir()
        self.disks = {}
        if disks:
            self.disks = {"checkpoints": SmallDisk(self.checkpoint_dir, DISK_SIZE),
                          "output": SmallDisk(self.output_root, DISK_SIZE)}
            for disk in self.disks.values():
                disk.__enter__()
        self.fabric = None
        if network:
            self.fabric = Fabric([*self.coordinator_places, *self.worker_places])

    def __exit__(self, kind, error, trace):
        if self.fabric:
            self.fabric.close()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            kind = error = trace = None  # nobody asks for the logs
        kept = kind is not None or KEEP
        self.stop_all()
        for name, disk in self.disks.items():
            if kept:
                disk.keep_copy(self.folder / f"{name}-at-the-end")
            disk.__exit__()
        super().__exit__(kind, error, trace)

    def addresses(self):
        if not self.fabric:
            return super().addresses()
        return [f"{self.fabric.addresses[place]}:{COORDINATOR_PORT}"
                for place in self.coordinator_places]

    def free_place(self):
        taken = {worker.place for worker in self.workers if worker.alive()}
        return next(place for place in self.worker_places if place not in taken)

    def _start(self, name, binary, flags, kill, kill_signal, prefix=()):
        is_worker = binary == "weir-worker"
        if is_worker:  # shorter than many a fault
            flags = [*flags, "--coordinator-timeout", "6s"]
        place = self.free_place() if is_worker else name
        if self.fabric:
            prefix = self.fabric.prefix(place)
            flags = [*flags, "--insecure"]
            if is_worker:
                address = f"{self.fabric.addresses[place]}:0"
                flags += ["--listen", address, "--data-listen", address]
        daemon = super()._start(name, binary, flags, kill, kill_signal, prefix)
        daemon.place = place
        return daemon
