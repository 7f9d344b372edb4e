"""Faults of connections and links between any two processes."""

import re

from fault import Fault
from private import run

SOCKET = re.compile(r"(\S+:\d+)\s+(\S+:\d+)\s+users:\(\(.*?pid=(\d+)")


def draw_pair(chaos, at):
    """Two different processes, of which one at least is a worker; `at`, if given, is one of them.
    None: there are none."""
    workers = chaos.cluster.live_workers()
    one = at or (chaos.random.choice(workers) if workers else None)
    others = workers if one in chaos.cluster.coordinators else [*workers,
                                                                *chaos.cluster.coordinators]
    others = [daemon for daemon in others if daemon is not one]
    if one is None or not others:
        return None
    pair = [one, chaos.random.choice(others)]
    chaos.random.shuffle(pair)
    return pair


class ConnectionFaults:
    """All processes share one network: each open connection between two of them is reset."""

    KINDS = ("connections_cut",)
    AT_POINTS = True

    def start(self, kind, chaos, at=None):
        pair = draw_pair(chaos, at)
        if pair is None:
            return Fault("nobody is there")
        one, other = pair
        cut = cut_connections(one.pid, other.pid)
        return Fault(f"{one.name} - {other.name}, {cut}")


def cut_connections(pid, other_pid):
    """Resets the TCP connections between two processes of this network namespace. Their number."""
    owners = {}
    for line in run("ss", "-tnpHO", "state", "established").splitlines():
        if match := SOCKET.search(line):
            owners[(plain(match[1]), plain(match[2]))] = int(match[3]), match[1], match[2]
    cut = 0
    for (local, peer), (owner, *raw) in owners.items():
        far = owners.get((peer, local))
        if far and owner == pid and far[0] == other_pid:
            run("ss", "-K", "-tn", f"src {raw[0]} and dst {raw[1]}")
            cut += 1
    return cut


def plain(address):
    return address.replace("[::ffff:", "").replace("]", "")


class LinkFaults:
    """Of a TortureCluster with a network. A fault stays with the place: who is started there later
    has it too."""

    KINDS = ("link_cut", "link_cut_one_way", "link_blackhole", "link_slow", "node_cut_off",
             "connections_reset")
    AT_POINTS = True

    def start(self, kind, chaos, at=None):
        pair = draw_pair(chaos, at)
        if pair is None:
            return Fault("nobody is there")
        fabric, (a, b) = chaos.cluster.fabric, (daemon.place for daemon in pair)
        seconds = chaos.random.uniform(0.3, chaos.random.choice((3, 9, 25)))
        arrow = "->" if kind in ("link_cut_one_way", "link_blackhole") else "-"
        text = f"{pair[0].name} ({a}) {arrow} {pair[1].name} ({b})"
        # The scheduler does not know which worker reaches which.
        between_workers = {a, b} <= set(chaos.cluster.worker_places)
        lost_workers = None if between_workers else 1
        if kind == "connections_reset":
            fabric.break_connections(a, b)
            return Fault(text)
        if kind == "link_slow":
            delay_ms = chaos.random.choice((5, 50, 200, 500))
            if not fabric.slow_down(a, b, delay_ms):
                return Fault(f"{text} is slow already")
            return Fault(f"{text} by {delay_ms} ms", lambda: fabric.speed_up(a, b), seconds, 0)
        if kind == "link_blackhole":
            fabric.add_blackhole(a, b)
            return Fault(text, lambda: fabric.remove_blackhole(a, b), seconds, lost_workers)
        if kind == "node_cut_off":
            # A leader without workers keeps its lease.
            lost_workers = 1 if a in chaos.cluster.worker_places else None
            text = f"{pair[0].name} ({a})"
            others = [place for place in fabric.addresses if place != a]
            cuts = [(a, other) for other in others] + [(other, a) for other in others]
        else:
            cuts = [(a, b)] if kind == "link_cut_one_way" else [(a, b), (b, a)]
        fabric.cut(cuts)
        return Fault(text, lambda: fabric.mend(cuts), seconds, lost_workers)
