"""Row: strings of 100 bytes from one worker to another."""

import collections
import dataclasses
import json
import pathlib

from .generated import payload_of
from .limits import TcpRows, VerifyLimit
from .measurement import Measurement, WrongResult, expect
from .row import Row

ORDER = 20

PAYLOAD_BYTES = 100
# With one key all rows go to one subtask; with this many key groups it is the second one, on the
# other worker. The harness checks that.
MAX_PARALLELISM = 127
VERIFY_ROWS = 20_000


def exchange_job(rows, sink=None):
    """One split on worker 1 → HASH by the one key, to worker 2 → blackhole."""
    return {
        "name": "exchange",
        "options": {"parallelism": "2", "checkpoint.interval": "off",
                    "max_parallelism": str(MAX_PARALLELISM)},
        "vertices": [
            {"uid": "rows", "type": "generator",
             "config": {"rows": rows, "keys": 1, "splits": 1, "payload_size": PAYLOAD_BYTES}},
            {"uid": "strings", "type": "project", "config": {"columns": ["payload"]}},
            {"uid": "out", **(sink or {"type": "blackhole"})}],
        "edges": [
            {"from": "rows", "to": "strings", "partitioning": "HASH", "columns": ["key"]},
            {"from": "strings", "to": "out"}]}


def loopback_bytes():
    """What the loopback interface has carried, by all processes."""
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[0])
    raise WrongResult("no loopback interface in /proc/net/dev")


def check_crossing(run, rows):
    """WrongResult unless every row went from a subtask on one worker to one on the other."""
    made = {s["worker"]: s["records_out"] for s in run.subtasks("rows") if s["records_out"]}
    taken = {s["worker"]: s["records_in"] for s in run.subtasks("strings") if s["records_in"]}
    if list(made.values()) != [rows] or list(taken.values()) != [rows] or made.keys() & taken.keys():
        raise WrongResult(f"rows made by {made}, taken by {taken}: all {rows} are to cross from one "
                          "worker to the other")


@dataclasses.dataclass(frozen=True)
class Exchange:
    rows_full: int
    rows_quick: int
    title: str = "exchange of strings"

    def run(self, bench, rows, sink=None):
        with bench.cluster(workers=2, slots=1) as cluster:
            return cluster.run(exchange_job(rows, sink))

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        bytes_before = loopback_bytes()
        run = self.run(bench, rows)
        carried = loopback_bytes() - bytes_before
        expect("rows in of the exchange", run.records_in, rows)
        expect("rows out of the exchange", run.records_out, rows)
        check_crossing(run, rows)
        if carried < rows * PAYLOAD_BYTES:
            raise WrongResult(f"loopback carried {carried} bytes, fewer than {rows} strings of "
                              f"{PAYLOAD_BYTES}")
        return Measurement(rows=rows, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
                           rss_mb=run.rss_mb, values={"bytes_per_row": round(carried / rows, 1)})


@dataclasses.dataclass(frozen=True)
class VerifyExchange:
    """The strings that arrive, one by one."""
    subject: Exchange
    title: str = "exchange of strings"

    def __call__(self, bench):
        output = bench.folder("verify") / "out"
        run = self.subject.run(bench, VERIFY_ROWS, {
            "type": "files.sink", "config": {"path": str(output), "format": "json"}})
        check_crossing(run, VERIFY_ROWS)
        got = collections.Counter()
        for path in output.glob("[!.]*"):
            with open(path, encoding="utf-8") as file:
                got.update(json.loads(line)["payload"] for line in file)
        wanted = collections.Counter(payload_of(seq, 1, PAYLOAD_BYTES)
                                     for seq in range(VERIFY_ROWS))
        if got != wanted:
            raise WrongResult(f"strings of the exchange: {sum((wanted - got).values())} are lost, "
                              f"{sum((got - wanted).values())} too many")


def bytes_note(measurements):
    return f"{measurements[0].values['bytes_per_row']:g} bytes a row on loopback", True


SIZE = (100_000_000, 40_000_000)
ROWS = [Row(name="tcp-rows", group="tcp", work="strings of 100 bytes", measure=Exchange(*SIZE),
            limit=TcpRows(*SIZE), limit_name="tcp_rows", goal=0.6,
            verify=(VerifyLimit("tcp_rows"), VerifyExchange(Exchange(*SIZE))), also=bytes_note)]
