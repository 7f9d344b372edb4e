"""What a family of faults (process_faults.py, disk_faults.py, ...) gives to chaos.py.

A family has KINDS and `start(kind, chaos)`, which returns a fault that has begun. With AT_POINTS it
takes a third argument: the process that stands still at a named point, and that the fault is for."""

import time


class Fault:
    """Something that is wrong until `heal()`, for `seconds`; without one it is over at once.
    `lost_workers`: how many the cluster must do without meanwhile; None: it may stand still."""

    def __init__(self, text, heal=None, seconds=0.0, lost_workers=None):
        self.text, self.heal, self.lost_workers = text, heal, lost_workers
        self.began = time.time()
        self.until = time.monotonic() + seconds
        self.kind = None  # set by chaos.py
