"""Goal: a source that follows a directory takes each complete line of new and growing files exactly
once, whatever dies meanwhile, and a job that goes on from its last checkpoint takes the rest.

Method: the test writes the files: numbered rows, in pieces that end anywhere, and looks at what was
committed. A line whose end is not there yet is no row.
"""

import json
import unittest

import shared_cluster  # noqa: F401: e2e/ is found from there

from cluster import Cluster, last_checkpoint, wait_for
from jobs import Watch, check_clean, read_rows

ROWS_OF_A_FILE = 120
TEXTS = ["plain", "", 'with "quotes", and commas', "two\nlines", "Grüße 🛫", "x" * 500]


def csv_line(id):
    text = TEXTS[id % len(TEXTS)].replace('"', '""')
    return f'{id},"{text}"\n'.encode()


def json_line(id):
    return (json.dumps({"id": id, "text": TEXTS[id % len(TEXTS)]}, ensure_ascii=id % 2 == 0)
            + "\n").encode()


class GrowingFile:
    """Rows first ... first + ROWS_OF_A_FILE - 1, written a piece at a time."""

    def __init__(self, folder, number, format):
        line = {"csv": csv_line, "json": json_line}[format]
        self.path = folder / f"in-{number:02}.{format}"
        first = number * ROWS_OF_A_FILE
        self.lines = [(None, b"id,text\n")] if format == "csv" else []
        self.lines += [(id, line(id)) for id in range(first, first + ROWS_OF_A_FILE)]
        self.bytes = b"".join(line for _, line in self.lines)
        self.written = 0

    def grow(self, share):
        """Up to about `share` of its bytes, and in the middle of a line."""
        end = self.line_end(int(len(self.bytes) * share)) - 2 if share < 1 else len(self.bytes)
        with open(self.path, "ab") as file:
            file.write(self.bytes[self.written:end])
        self.written = max(self.written, end)

    def line_end(self, least):
        at = 0
        for _, line in self.lines:
            at += len(line)
            if at >= least:
                return at
        return at

    def complete(self):
        """Ids of the rows whose line is there as a whole."""
        ids, at = set(), 0
        for id, line in self.lines:
            at += len(line)
            if at <= self.written and id is not None:
                ids.add(id)
        return ids


class FollowCase(unittest.TestCase):
    def job(self, cluster, output, format, name="follow", rate=None):
        return {
            "name": name,
            "options": {"parallelism": "2", "checkpoint.interval": "50ms",
                        "restart.backoff_max": "500ms", "checkpoint.on_cancel": "keep"},
            "vertices": [
                {"uid": "rows", "type": "files.source",
                 "config": {"path": str(cluster.folder / f"in-*.{format}"), "format": format,
                            "schema": {"id": "INT64", "text": "STRING"}, "follow": True,
                            "follow_interval": "50ms", **({"rate": rate} if rate else {})}},
                {"uid": "out", "type": "files.sink",
                 "config": {"path": str(output), "format": "json"}}],
            "edges": [{"from": "rows", "to": "out"}]}

    def check(self, outputs, files):
        ids = []
        for output in outputs:
            for row in read_rows(output):
                ids.append(row["id"])
                self.assertEqual(row["text"], TEXTS[row["id"] % len(TEXTS)])
        due = set().union(*(file.complete() for file in files))
        self.assertEqual(len(ids), len(set(ids)), "a row is doubled")
        self.assertEqual(set(ids), due)

    def wait_until_all(self, outputs, files):
        """Until as many rows are visible as lines are complete."""
        due = sum(len(file.complete()) for file in files)

        def count():
            return sum(1 for output in outputs for _ in read_rows(output))
        wait_for(lambda: f"{due} rows, {count()} are there", lambda: count() >= due)
        self.check(outputs, files)

    def follow(self, cluster, format):
        output = cluster.folder / "out"
        files = [GrowingFile(cluster.folder, number, format) for number in range(6)]
        files[0].grow(0.3)
        with Watch(output):
            job = cluster.submit(self.job(cluster, output, format))
            self.wait_until_all([output], files[:1])
            # New ones, one of them as yet without a complete line; the first grows.
            files[1].grow(1)
            files[2].path.touch()
            files[3].grow(0)
            files[0].grow(0.5)
            self.wait_until_all([output], files[:4])
            # A worker dies while others are written.
            cluster.live_workers()[0].kill()
            files[2].grow(0.6)
            files[3].grow(0.8)
            cluster.start_worker()
            files[4].grow(0.9)
            files[0].grow(0.9)
            self.wait_until_all([output], files[:5])
            status = cluster.status(job)
            self.assertGreaterEqual(status["restarts"], 1)
            self.assertEqual(status["state"], "RUNNING")
            # Nothing more comes, and nothing is done again.
            before = last_checkpoint(status)
            cluster.wait_for_checkpoint(job, before + 3)
            self.check([output], files)
            cluster.weir("cancel", job, code=0)
        status = cluster.status(job)
        self.assertEqual(status["state"], "CANCELED")
        check_clean(output)
        self.check([output], files)

        # It went on growing while no job ran; another job goes on from there, with more subtasks.
        for file in files:
            file.grow(1)
        rest = cluster.folder / "rest"
        second = cluster.submit(self.job(cluster, rest, format, "goes-on"), "-p", 3, "--from",
                                status["retained_checkpoint"])
        self.wait_until_all([output, rest], files)
        cluster.weir("cancel", second, code=0)
        check_clean(rest)
        self.check([output, rest], files)


class Quick(FollowCase):
    def test_csv(self):
        with Cluster(2, slots=8) as cluster:
            self.follow(cluster, "csv")

    def test_json(self):
        with Cluster(2, slots=8) as cluster:
            self.follow(cluster, "json")


class Long(FollowCase):
    def test_a_directory_that_is_empty_at_first(self):
        with Cluster(2, slots=8) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(self.job(cluster, output, "csv"))
            cluster.wait_for_checkpoint(job, 2)
            file = GrowingFile(cluster.folder, 0, "csv")
            file.grow(0.7)
            self.wait_until_all([output], [file])
            cluster.weir("cancel", job, code=0)
            check_clean(output)

    def test_a_rate_and_cancelled_in_the_middle(self):
        """Half of it is committed, the rest comes from the next job."""
        with Cluster(2, slots=8) as cluster:
            files = [GrowingFile(cluster.folder, number, "csv") for number in range(6)]
            for file in files:
                file.grow(1)
            outputs, kept = [], None
            for turn, parallelism in enumerate((2, 3, 1)):
                outputs.append(cluster.folder / f"out-{turn}")
                job = cluster.submit(
                    self.job(cluster, outputs[-1], "csv", f"turn-{turn}", rate=150),
                    "-p", parallelism, *(["--from", kept] if kept else []))
                if turn < 2:
                    wait_for("some of the rows",
                             lambda: sum(1 for _ in read_rows(outputs[-1])) > ROWS_OF_A_FILE)
                    cluster.weir("cancel", job, code=0)
                    kept = cluster.status(job)["retained_checkpoint"]
                    check_clean(outputs[-1])
            self.wait_until_all(outputs, files)

    def test_a_file_that_shrinks_goes_or_is_replaced_fails_the_job(self):
        with Cluster(2, slots=8) as cluster:
            for fault, part in (("shrink", "has only 8 bytes"), ("remove", "gone"),
                                ("replace", "other bytes stand in front of it now")):
                with self.subTest(fault=fault):
                    output = cluster.folder / f"out-{fault}"
                    file = GrowingFile(cluster.folder, 0, "csv")
                    file.grow(0.5)
                    job = cluster.submit(self.job(cluster, output, "csv", fault))
                    self.wait_until_all([output], [file])
                    if fault == "shrink":
                        file.path.write_bytes(file.bytes[:8])
                    elif fault == "remove":
                        file.path.unlink()
                    else:
                        other = file.path.with_suffix(".other")
                        other.write_bytes(file.path.read_bytes().replace(b"plain", b"other"))
                        other.rename(file.path)
                    status = cluster.wait_for_state(job, "FAILED")
                    self.assertIn(str(file.path), status["failure"]["message"])
                    self.assertIn(part, status["failure"]["message"])
                    self.check([output], [file])
                    file.path.unlink(missing_ok=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
