"""Small disks for the tests: tmpfs mounts that can be filled, made read-only, taken away and put
back. Needs root and the right to mount; `unavailable()` says why not. A test with disks begins with
go_private(), so that none outlives it."""

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time


BUSY_S = 20
INSIDE = "WEIR_PRIVATE_MOUNTS"
UNSHARE = ["unshare", "--mount", "--propagation", "private"]


def _run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def unavailable():
    """Why no disk can be mounted here; None when it can."""
    if os.geteuid() != 0:
        return "mounting a small disk needs root"
    with tempfile.TemporaryDirectory(prefix="weir-disk-") as folder:
        done = _run(*UNSHARE, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder)
        if done.returncode != 0:
            return f"a tmpfs cannot be mounted here: {done.stderr.strip()}"
    return None


def go_private():
    """Goes on in a mount namespace that ends with the last of its processes, whatever ends them:
    replaces this process, the first time."""
    if INSIDE in os.environ or unavailable():
        return
    os.environ[INSIDE] = "1"
    sys.stdout.flush()
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, "-B", *sys.argv])


class BusyDisk(RuntimeError):
    pass


class SmallDisk:
    """A tmpfs of its own at `path`. It is mounted a second time beside it, so that it lives on
    while it is not mounted at `path`. Use as a context manager; leave it when nobody uses it."""

    def __init__(self, path, size="8m"):
        self.path = pathlib.Path(path)
        self.keeper = self.path.with_name(self.path.name + "-keeper")
        self.size = size
        self._ballast = self.keeper / ".ballast"

    def __enter__(self):
        self.path.mkdir(parents=True, exist_ok=True)
        self.keeper.mkdir()
        try:
            self._do("mount", "-t", "tmpfs", "-o", f"size={self.size}", "tmpfs", str(self.keeper))
            self.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Lazily: a process that is being killed may still be in it.
        for place in (self.path, self.keeper):
            _run("umount", "-l", str(place))

    def _do(self, *command, seconds=BUSY_S):
        """Again while a file is open for a moment."""
        deadline = time.monotonic() + seconds
        while True:
            done = _run(*command)
            if done.returncode == 0:
                return
            message = f"{' '.join(command)}: {done.stderr.strip()}"
            if "busy" not in done.stderr:
                raise RuntimeError(message)
            if time.monotonic() > deadline:
                raise BusyDisk(message)
            time.sleep(0.02)

    def mount(self):
        self._do("mount", "--bind", str(self.keeper), str(self.path))

    def unmount(self, seconds=BUSY_S):
        self._do("umount", str(self.path), seconds=seconds)

    def read_only(self, on, seconds=BUSY_S):
        """While a file is open for writing it cannot become so: BusyDisk after `seconds`."""
        self._do("mount", "-o", f"remount,{'ro' if on else 'rw'},bind", str(self.path),
                 seconds=seconds)

    def fill(self):
        """Until not one byte more fits; what others free is taken too."""
        with open(self._ballast, "ab", buffering=0) as file:
            for chunk in (1 << 16, 1 << 12):
                while True:
                    try:
                        file.write(b"x" * chunk)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break

    def free(self):
        self._ballast.unlink()

    def keep_copy(self, target):
        """What is on it, where it outlives it."""
        shutil.copytree(self.keeper, target, symlinks=True,
                        ignore=lambda *_: [self._ballast.name])
