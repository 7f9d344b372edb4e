"""A mount and a network namespace for the torture alone: its disks, links, rules and connections
are no one else's, and are gone with its last process, whatever ends it."""

import os
import subprocess
import sys

INSIDE = "WEIR_TORTURE_PRIVATE"
UNSHARE = ["unshare", "--mount", "--net", "--propagation", "private"]
TOOLS = ("ip", "ss", "nft", "mount", "umount", "nsenter")


def run(*command, text=None):
    """The output of a command; AssertionError, with what it said, when it fails."""
    done = subprocess.run([str(word) for word in command], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {done.returncode}: "
                             f"{done.stdout.strip()}")
    return done.stdout


def missing():
    """Why there can be no private namespaces; None when there can."""
    if os.geteuid() != 0:
        return "that needs root"
    lacking = [tool for tool in ("unshare", *TOOLS)
               if subprocess.run(["which", tool], capture_output=True).returncode != 0]
    if lacking:
        return f"not installed: {', '.join(lacking)} (scripts/setup installs them)"
    done = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "weir", "/run"], text=True,
                          capture_output=True)
    if done.returncode != 0:
        return f"no right to make namespaces and mounts: {done.stderr.strip()}"
    return None


def enter():
    """Goes on inside: replaces this process, the first time; the second time it is there."""
    if INSIDE in os.environ:
        run("ip", "link", "set", "lo", "up")
        # For the names of further network namespaces, which then nobody else sees.
        run("mount", "-t", "tmpfs", "weir", "/run")
        return
    os.environ[INSIDE] = "1"
    sys.stdout.flush()
    os.execvp(UNSHARE[0], [*UNSHARE, sys.executable, "-B", *sys.argv])


def inside():
    return INSIDE in os.environ
