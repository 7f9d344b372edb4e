"""Watches a directory for the files that appear in it, as a reader of the output would."""

import os
import threading
import time

POLL_SECONDS = 0.001


class Visible:
    """Use as a context manager. `seen`: name to the time (since 1970) at which it was found."""

    def __init__(self, directory, hidden=False):
        self.directory, self.hidden = directory, hidden
        self.seen = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, error, trace):
        self._ends.set()
        self._thread.join()

    def _watch(self):
        while not self._ends.is_set():
            self.look()
            time.sleep(POLL_SECONDS)

    def look(self):
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return
        now = time.time()
        for name in names:
            if name.startswith(".") == self.hidden and name not in self.seen:
                self.seen[name] = now
