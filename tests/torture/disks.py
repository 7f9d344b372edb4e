"""Small disks (tmpfs) that get full and read-only."""

import errno
import os
import shutil
import time

from private import run


class Disk:
    """Mounts a disk of its own at `path`. Only inside private namespaces (private.py)."""

    def __init__(self, path, megabytes):
        self.path, self.megabytes = path, megabytes
        self.path.mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "weir", path)
        self.ballast = path / ".ballast"

    def fill(self):
        """Until not one byte more fits."""
        file = os.open(self.ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = 1 << 20
            while size:
                try:
                    if os.write(file, b"\0" * size) < size:
                        size //= 2
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2
        finally:
            os.close(file)

    def empty(self):
        self.ballast.unlink(missing_ok=True)

    def make_read_only(self, seconds):
        """A disk with files open for writing cannot be made read-only: tries for so long to find a
        moment without. Whether it did."""
        end = time.monotonic() + seconds
        while True:
            try:
                run("mount", "-o", "remount,ro", self.path)
                return True
            except AssertionError as error:
                if "busy" not in str(error):
                    raise
            if time.monotonic() > end:
                return False

    def make_writable(self):
        run("mount", "-o", "remount,rw", self.path)

    def keep_copy(self, target):
        """What is on it, where it outlives the namespaces."""
        shutil.copytree(self.path, target, symlinks=True, dirs_exist_ok=True,
                        ignore=lambda *_: [self.ballast.name], ignore_dangling_symlinks=True)

    def unmount(self):
        run("umount", "--lazy", self.path)
