"""How far a job is, seen from the disk: when its checkpoints were open and completed, and when its
sinks wrote. Asks no process of Weir, so that it sees while nobody answers."""

import os
import re
import threading
import time

from cluster import decode_entry

CHECKPOINT = re.compile(r"chk-(\d+)\.(\d+)")
PENDING = re.compile(r"\..+-g(\d+)-\d+-\d+-.+\.pending")
SAMPLE_S = 0.01
LATE_S = 0.1  # what was there may have been seen so much later, but before the next generation
JUST_BEFORE_S = 0.25
FLOWING_S = 1.0


class Progress:
    """Looks at one job until stopped. Thread: thread-safe; owns one."""

    def __init__(self, job_dir, output):
        self.job_dir, self.output = job_dir, output
        self.checkpoints = {}  # (number, generation): [first seen, ended or None]
        self.completions = []  # times
        self.generations = []  # (time, generation)
        self.writes = []  # (time, generation): a file for new rows was seen
        self.began = time.time()
        self._entries, self._pending = set(), set()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self):
        self._end.set()
        self._thread.join(60)

    def _run(self):
        while not self._end.wait(SAMPLE_S):
            self.look()

    def look(self):
        with self._lock:
            self._look_at_log()
            self._look_at_checkpoints()
            self._look_at_output()

    def _look_at_log(self):
        for term in names(self.job_dir / "log"):
            for number in names(self.job_dir / "log" / term):
                key = term, number
                if key in self._entries or not number.isdigit():
                    continue
                try:
                    entry = decode_entry((self.job_dir / "log" / term / number).read_bytes())
                except FileNotFoundError:
                    continue  # pruned meanwhile
                self._entries.add(key)
                now = time.time()
                if entry["kind"] == "STARTED":
                    self.generations.append((now, entry["generation"]))
                elif entry["kind"] == "COMPLETED":
                    self.completions.append(now)
                    seen = entry["checkpoint"], entry["generation"]
                    self.checkpoints.setdefault(seen, [now, None])[1] = now

    def _look_at_checkpoints(self):
        now, present = time.time(), set()
        for name in names(self.job_dir):
            if match := CHECKPOINT.fullmatch(name):
                present.add((int(match[1]), int(match[2])))
        for seen in present:
            self.checkpoints.setdefault(seen, [now, None])
        for seen, times in self.checkpoints.items():
            if times[1] is None and seen not in present:
                times[1] = now

    def _look_at_output(self):
        now = time.time()
        pending = {name for name in names(self.output) if PENDING.fullmatch(name)}
        for generation in {int(PENDING.fullmatch(name)[1]) for name in pending - self._pending}:
            self.writes.append((now, generation))
        self._pending = pending

    def under_load(self, at):
        """Whether at that time the tasks of the newest generation ran, a checkpoint of theirs was
        open then or just before, and their sinks had files for new rows."""
        self.look()
        with self._lock:
            generation = max((g for t, g in self.generations if t <= at), default=None)
            was_open = any(
                g == generation and began <= at + LATE_S
                and (ended is None or at <= ended + JUST_BEFORE_S)
                for (_, g), (began, ended) in self.checkpoints.items())
            return was_open and any(g == generation and at - FLOWING_S <= t <= at + LATE_S
                                    for t, g in self.writes)

    def completed_since(self, at):
        with self._lock:
            return sum(t > at for t in self.completions)

    def longest_gap(self, until):
        """The longest time without a completed checkpoint, in seconds."""
        with self._lock:
            times = [self.began, *self.completions, until]
        return max(later - earlier for earlier, later in zip(times, times[1:]))


def names(folder):
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
