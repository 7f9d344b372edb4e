"""The command line of scripts/bench."""

import argparse
import fnmatch
import pathlib
import signal
import subprocess
import sys
import time

from . import registry, runner, table
from .bench import SOURCE_DIR, Bench
from .machine import MachineWatch
from .measurement import BenchError, WrongResult

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

DESCRIPTION = """\
Builds Weir optimised, measures its jobs beside what a plain loop does, and prints one table.
Each figure is a ratio to a limit measured in the same run, in turn with Weir, or an absolute one
where the goal is. Progress is on standard error. tests/bench/README.md says how it is measured.

The file rows need about 3 GB of scratch space. The Kafka rows install Java and fetch a broker's
jars where they are not there, which needs the network once. Keep the machine quiet meanwhile."""
EPILOG = """\
exit codes: 0 all ran and every result was right (a goal that is not met is shown, and no error),
1 a run failed or its result was wrong, 2 wrong usage, 130 interrupted."""


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="fewer rows and two rounds: under 5 minutes instead of 20")
    parser.add_argument("--only", nargs="+", metavar="NAME", action="extend", default=[],
                        help="only these rows; * and ? stand for any letters")
    parser.add_argument("--runs", type=runs_number, metavar="N",
                        help="rounds, of which medians are taken (default 3, quick 2)")
    parser.add_argument("--json", action="store_true", help="an array with an object per row")
    parser.add_argument("--list", action="store_true", help="print the rows and their goals; exit")
    parser.add_argument("--scratch", type=pathlib.Path, metavar="DIR",
                        help="where clusters and files live meanwhile (default: build)")
    parser.add_argument("--no-build", action="store_true", help="take build/release as it is")
    options = parser.parse_args(arguments)
    if options.scratch is not None and not options.scratch.is_dir():
        parser.error(f"--scratch {options.scratch}: no such directory")
    try:
        options.rows = choose(registry.all_rows(), options.only)
    except ValueError as error:
        parser.error(str(error))
    return options


def runs_number(text):
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 100")
    return int(text)


def choose(rows, patterns):
    """The rows that match a pattern, in the order of the table; all without one. ValueError."""
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(row.name, pattern) for row in rows):
            raise ValueError(f"no row '{pattern}'; there are: "
                             + ", ".join(row.name for row in rows))
    return [row for row in rows
            if not patterns or any(fnmatch.fnmatchcase(row.name, p) for p in patterns)]


def build():
    for command in (["scripts/setup"],
                    ["scripts/build", "weir", "weir-coordinator", "weir-worker", "bench_programs"]):
        done = subprocess.run([SOURCE_DIR / command[0], *command[1:]], cwd=SOURCE_DIR,
                              stdin=subprocess.DEVNULL, stdout=sys.stderr)
        if done.returncode != 0:
            raise BenchError(f"{' '.join(command)}: exit code {done.returncode}")


def list_rows(rows):
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{row.name:{width}}  {table.goal_text(row):12} {row.work}".rstrip())


def terminate(number, frame):
    raise SystemExit(128 + number)  # through every `with`


def main(arguments=None):
    options = parse(arguments)
    if options.list:
        list_rows(options.rows)
        return 0
    signal.signal(signal.SIGTERM, terminate)
    signal.signal(signal.SIGHUP, terminate)
    start = time.monotonic()
    try:
        if not options.no_build:
            build()
        with Bench(options.quick, options.runs, options.scratch) as bench:
            watch = MachineWatch()
            outcomes = runner.run(bench, options.rows)
            bench.log(f"{len(outcomes)} rows in {time.monotonic() - start:.0f} s")
            machine = watch.line()
    except WrongResult as error:
        print(f"bench: WRONG RESULT: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (BenchError, OSError, subprocess.SubprocessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    if options.json:
        bench.log(machine)
        sys.stdout.write(table.as_json(outcomes))
    else:
        sys.stdout.write(f"{table.table(outcomes)}{machine}\n")
    return 0
