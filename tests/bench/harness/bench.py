"""What a subject is given: where programs and scratch space are, and how large a run may be."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from .cluster import Cluster
from .measurement import BenchError, Measurement

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[3]
LIMIT_SECONDS_MAX = 300


class Bench:
    """Owns the scratch directory while it is open; use as a context manager."""

    def __init__(self, quick=False, runs=None, scratch=None, build_dir=None):
        self.quick = quick
        self.runs = runs or (2 if quick else 3)
        self.build_dir = pathlib.Path(build_dir or SOURCE_DIR / "build/release")
        self.bin_dir = self.build_dir / "bin"
        self.limits_dir = self.build_dir / "bench_bin"
        self._parent = pathlib.Path(scratch or SOURCE_DIR / "build")
        self.scratch = None
        self._services = {}

    def __enter__(self):
        self._parent.mkdir(parents=True, exist_ok=True)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=self._parent)).resolve()
        return self

    def __exit__(self, kind, error, trace):
        for service in self._services.values():
            service.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def log(self, text):
        print(text, file=sys.stderr, flush=True)

    def pick(self, full, quick):
        """One of two sizes."""
        return quick if self.quick else full

    def folder(self, name):
        """A fresh folder in scratch space."""
        return pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))

    def require_space(self, what, size_bytes):
        free = shutil.disk_usage(self.scratch).free
        if free < size_bytes:
            raise BenchError(f"{what} needs {size_bytes / 1e9:.1f} GB in {self.scratch}, which has "
                             f"{free / 1e9:.1f} GB free; --scratch DIR names another place")

    def cluster(self, **arguments):
        return Cluster(self, **arguments)

    def service(self, kind):
        """The one object of a class that several subjects share, made by kind(bench) when it is
        first asked for and closed at the end."""
        if kind not in self._services:
            self._services[kind] = kind(self)
        return self._services[kind]

    def limit(self, program, *arguments, environment=None, seconds=LIMIT_SECONDS_MAX):
        """Runs one of the limits; (Measurement, what it printed)."""
        command = [str(self.limits_dir / program), *map(str, arguments)]
        done = subprocess.run(command, text=True, capture_output=True, timeout=seconds,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, "LC_ALL": "C", **(environment or {})})
        # A library that is not there is passed over by ld.so, and said.
        if done.returncode != 0 or "cannot be preloaded" in done.stderr:
            raise BenchError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
        printed = json.loads(done.stdout)
        return Measurement(rows=printed["rows"], seconds=printed["seconds"],
                           cpu_seconds=printed["cpu_seconds"]), printed
