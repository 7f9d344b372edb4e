"""The network of `--network-namespaces`: each process has a network namespace of its own, and the
one of the torture is the router between them. Links are cut by nft rules in the router or blackhole
routes in a namespace, and slowed by a proxy in the router. Only inside private namespaces
(private.py), with which all of it goes."""

import collections
import pathlib
import subprocess
import sys

from cluster import DIE_WITH_PARENT
from private import run

PROXY = pathlib.Path(__file__).parent / "delay_proxy.py"
PROXY_PORT = 9000  # and following ones
TABLE = """
table ip weir {
  chain cuts {
    type filter hook forward priority filter; policy accept;
  }
  chain slow {
    type nat hook prerouting priority dstnat; policy accept;
  }
}
"""


class Fabric:
    """Namespaces by name. Thread: that of the torture."""

    def __init__(self, names):
        self.addresses = {}
        # (from, to): what is sent that way vanishes, or cannot be sent; how often that was asked.
        self.cuts, self.blackholes = collections.Counter(), collections.Counter()
        self.slow = {}  # (a, b) in order: (proxy process, port)
        self._next_port = PROXY_PORT
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        run("nft", "-f", "-", text=TABLE)
        for number, name in enumerate(names, 1):
            self.addresses[name] = f"10.77.{number}.2"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"veth{number}", "type", "veth", "peer", "name", "net0",
                "netns", name)
            run("ip", "address", "add", f"10.77.{number}.1/30", "dev", f"veth{number}")
            run("ip", "link", "set", f"veth{number}", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "address", "add", f"10.77.{number}.2/30", "dev", "net0")
            run("ip", "-n", name, "link", "set", "net0", "up")
            run("ip", "-n", name, "route", "add", "default", "via", f"10.77.{number}.1")

    def prefix(self, name):
        """Runs a command in that namespace."""
        return ["nsenter", f"--net=/run/netns/{name}"]

    # -- cuts: silence ---------------------------------------------------------------------------

    def cut(self, pairs):
        self.cuts.update(pairs)
        self._load()

    def mend(self, pairs):
        """As often as it was cut."""
        self.cuts.subtract(pairs)
        self._load()

    def add_blackhole(self, at, to):
        """`at` cannot send to `to`: calls fail there, at once."""
        self.blackholes[(at, to)] += 1
        if self.blackholes[(at, to)] == 1:
            self._route("add", at, to)

    def remove_blackhole(self, at, to):
        """As often as it was added."""
        self.blackholes[(at, to)] -= 1
        if self.blackholes[(at, to)] == 0:
            self._route("del", at, to)

    def _route(self, verb, at, to):
        run("ip", "-n", at, "route", verb, "blackhole", f"{self.addresses[to]}/32")

    # -- slow links ------------------------------------------------------------------------------

    def slow_down(self, a, b, delay_ms):
        """New connections between the two take `delay_ms` longer each way; present ones break.
        False: they are slow already."""
        if (a, b) in self.slow or (b, a) in self.slow:
            return False
        port = self._next_port
        self._next_port += 1
        proxy = subprocess.Popen(
            [*DIE_WITH_PARENT, sys.executable, "-B", str(PROXY), str(port), str(delay_ms)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.slow[(a, b)] = proxy, port
        if not proxy.stdout.readline():
            raise AssertionError(f"the proxy on port {port} did not start")
        self._load()
        self.break_connections(a, b)
        return True

    def speed_up(self, a, b):
        """The connections through the proxy break with it."""
        proxy, _ = self.slow.pop((a, b))
        self._load()
        proxy.kill()
        proxy.wait()
        proxy.stdout.close()

    def break_connections(self, a, b):
        """Resets what is open between the two, at both ends."""
        for at, other in ((a, b), (b, a)):
            run(*self.prefix(at), "ss", "-K", "-t", "dst", self.addresses[other])

    def _load(self):
        lines = ["flush chain ip weir cuts", "flush chain ip weir slow"]
        for a, b in sorted(pair for pair, times in self.cuts.items() if times > 0):
            lines.append(f"add rule ip weir cuts ip saddr {self.addresses[a]} "
                         f"ip daddr {self.addresses[b]} counter drop")
        for (a, b), (_, port) in sorted(self.slow.items()):
            for source, target in ((a, b), (b, a)):
                lines.append(f"add rule ip weir slow ip saddr {self.addresses[source]} "
                             f"ip daddr {self.addresses[target]} ip protocol tcp "
                             f"redirect to :{port}")
        run("nft", "-f", "-", text="\n".join(lines) + "\n")

    def close(self):
        for a, b in list(self.slow):
            self.speed_up(a, b)
