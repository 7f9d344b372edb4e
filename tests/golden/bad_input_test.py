"""Goal: a row that cannot be read, or a sum that cannot be, fails the job with a message from which
one finds the place; with bad_data "drop" the row is left out and counted, each once; with
"dead_letter" its bytes are found in a file besides.

Method: files with known faults at known places; what the job says and writes.
"""

import base64
import json
import unittest

from shared_cluster import SharedClusterCase  # e2e/ is found from there

from cluster import last_checkpoint, wait_for
from jobs import check_clean, read_rows, visible


class BadInputCase(SharedClusterCase):
    def setUp(self):
        self.folder = self.cluster.folder / self.id().rpartition(".")[2]
        self.folder.mkdir()
        self.output = self.folder / "out"

    def job(self, schema, format="csv", options=None, middle=(), **config):
        """A job that reads all in-* of the folder; `middle`: (vertex, hash columns) if any."""
        vertices = [{"uid": "rows", "type": "files.source",
                     "config": {"path": str(self.folder / "in-*"), "format": format,
                                "schema": schema, **config}}]
        edges = []
        for vertex, columns in middle:
            edges.append({"from": vertices[-1]["uid"], "to": vertex["uid"],
                          **({"partitioning": "HASH", "columns": columns} if columns else {})})
            vertices.append(vertex)
        edges.append({"from": vertices[-1]["uid"], "to": "out"})
        vertices.append({"uid": "out", "type": "files.sink",
                         "config": {"path": str(self.output), "format": "json"}})
        return {"name": self.folder.name.replace("_", "-"), "vertices": vertices, "edges": edges,
                "options": {"parallelism": "2", "checkpoint.interval": "50ms",
                            "restart.backoff_max": "500ms", **(options or {})}}

    def fails(self, job, uid, *parts):
        """The job is FAILED at once, and not after attempts that cannot help; its message."""
        id = self.cluster.submit(job)
        status = self.cluster.wait_for_state(id, "FAILED")
        failure = status["failure"]
        for part in parts:
            self.assertIn(str(part), failure["message"])
        self.assertEqual(failure["uid"], uid, failure)
        self.assertEqual(status["restarts"], 0, failure)
        check_clean(self.output)
        return failure["message"]


class QuickOverflow(BadInputCase):
    def overflow(self, type, values, last, sum):
        lines = [f"k{i % 3},{i}" for i in range(30)]
        lines += [f"hot,{value}" for value in (*values, last)]
        (self.folder / "in-0.csv").write_text("key,value\n" + "\n".join(lines) + "\n")
        aggregate = {"uid": "totals", "type": "aggregate", "config": {
            "keys": ["key"], "aggregates": [{"function": "count", "as": "n"},
                                            {"function": "sum", "column": "value", "as": "sum"}]}}
        job = self.job({"key": "STRING", "value": type}, middle=[(aggregate, ["key"])])
        self.fails(job, "totals", "totals", "key = 'hot'", "sum(value)", f"{sum} + {last}")

    def test_of_a_sum(self):
        self.overflow("INT64", (2**62, 2**62 - 1), 1, 2**63 - 1)

    def test_below(self):
        self.overflow("INT64", (-2**63, 0), -7, -2**63)

    def test_int32_is_summed_up_as_int64(self):
        lines = "".join(f"k,{2**31 - 1}\n" for _ in range(1000))
        (self.folder / "in-0.csv").write_text("key,value\n" + lines)
        aggregate = {"uid": "totals", "type": "aggregate", "config": {
            "keys": ["key"], "aggregates": [{"function": "sum", "column": "value", "as": "sum"}]}}
        job = self.cluster.submit(self.job({"key": "STRING", "value": "INT32"},
                                           middle=[(aggregate, ["key"])]))
        self.cluster.finish(job)
        self.assertEqual(max(row["sum"] for row in read_rows(self.output)), 1000 * (2**31 - 1))

    def test_of_an_expression(self):
        (self.folder / "in-0.csv").write_text(f"value\n1\n{2**62}\n3\n")
        project = {"uid": "twice", "type": "project", "config": {"columns": [
            {"name": "twice", "expression": "value + value"}]}}
        self.fails(self.job({"value": "INT64"}, middle=[(project, None)]), "twice",
                   "value + value", f"{2**62} + {2**62}")

    def test_division_by_zero(self):
        (self.folder / "in-0.csv").write_text("value\n1\n0\n")
        project = {"uid": "parts", "type": "project", "config": {"columns": [
            {"name": "part", "expression": "10 / value"}]}}
        self.fails(self.job({"value": "INT64"}, middle=[(project, None)]), "parts",
                   "10 / value", "zero")

    def test_rows_of_completed_checkpoints_stay(self):
        """What was committed before the bad row is read is neither lost nor taken back."""
        lines = [f"k,{i}" for i in range(600)] + [f"k,{2**63 - 1}"]
        (self.folder / "in-0.csv").write_text("key,value\n" + "\n".join(lines) + "\n")
        aggregate = {"uid": "totals", "type": "aggregate", "config": {
            "keys": ["key"], "keep": ["value"],
            "aggregates": [{"function": "sum", "column": "value", "as": "sum"}]}}
        job = self.job({"key": "STRING", "value": "INT64"}, middle=[(aggregate, ["key"])], rate=300)
        self.fails(job, "totals", f"{sum(range(600))} + {2**63 - 1}")
        values = sorted(row["value"] for row in read_rows(self.output))
        self.assertEqual(values, list(range(len(values))))
        self.assertGreater(len(values), 0)


# (schema, header, good line, bad line, what the message says of it)
CSV_FAULTS = {
    "integer": ({"id": "INT64", "n": "INT32"}, "id,n", "1,2", "1,2x", ("n", "INT32", "2x")),
    "range": ({"id": "INT64", "n": "INT32"}, "id,n", "1,2", "1,2147483648",
              ("n", "INT32", "2147483648")),
    "float": ({"id": "INT64", "f": "FLOAT64"}, "id,f", "1,2.5", "1,1e999",
              ("f", "FLOAT64", "1e999")),
    "bool": ({"id": "INT64", "b": "BOOL"}, "id,b", "1,true", "1,yes", ("b", "BOOL", "yes")),
    "time": ({"id": "INT64", "t": "TIMESTAMP"}, "id,t", "1,2013-01-01T10:00:00Z",
             "1,2013-02-29T10:00:00Z", ("t", "TIMESTAMP", "2013-02-29T10:00:00Z")),
    "bytes": ({"id": "INT64", "d": "BYTES"}, "id,d", "1,AA==", "1,A===", ("d", "BYTES", "A===")),
    "fields": ({"id": "INT64", "n": "INT32"}, "id,n", "1,2", "1,2,3", ("3", "2")),
    "quote": ({"id": "INT64", "s": "STRING"}, "id,s", "1,a", '1,a"b', ("quote",)),
}
JSON_FAULTS = {
    "syntax": ({"id": "INT64", "n": "INT32"}, '{"id": 1, "n": 2}', '{"id": 1, "n": 2', ()),
    "type": ({"id": "INT64", "n": "INT32"}, '{"id": 1, "n": 2}', '{"id": 1, "n": "two"}',
             ("n", "INT32", "two")),
    "range": ({"id": "INT64", "n": "INT32"}, '{"id": 1, "n": 2}', '{"id": 1, "n": 3000000000}',
              ("n", "INT32", "3000000000")),
    "unread": ({"id": "INT64"}, '{"id": 1}', '{"id": 1, "x": tru}', ()),
    "array": ({"id": "INT64"}, '{"id": 1}', "[1]", ()),
}


class QuickFail(BadInputCase):
    """The message names file, line (from 1), offset (of the row's first byte), column and value."""

    def at_line(self, format, schema, header, good, bad, parts):
        head = [header] if header else []
        lines = head + [good] * 6 + [bad] + [good] * 3
        path = self.folder / f"in-1.{format}"
        path.write_text("\n".join(lines) + "\n")
        (self.folder / f"in-0.{format}").write_text("\n".join(head + [good] * 5) + "\n")
        number = len(head) + 6
        offset = sum(len(line) + 1 for line in lines[:number])
        self.fails(self.job(schema, format), "rows", path, f"line {number + 1} ",
                   f"offset {offset}", *parts)

    def test_csv(self):
        folder = self.folder
        for name, (schema, header, good, bad, parts) in CSV_FAULTS.items():
            with self.subTest(fault=name):
                self.folder = folder / name
                self.folder.mkdir()
                self.output = self.folder / "out"
                self.at_line("csv", schema, header, good, bad, parts)

    def test_json(self):
        folder = self.folder
        for name, (schema, good, bad, parts) in JSON_FAULTS.items():
            with self.subTest(fault=name):
                self.folder = folder / name
                self.folder.mkdir()
                self.output = self.folder / "out"
                self.at_line("json", schema, None, good, bad, parts)

    def test_line_and_offset_behind_quoted_line_ends(self):
        text = 'id,s\n1,"a\nb\nc"\n2,é\n'
        bad_at = len(text.encode())
        path = self.folder / "in-0.csv"
        path.write_bytes((text + '3x,"d\ne"\n4,f\n').encode())
        self.fails(self.job({"id": "INT64", "s": "STRING"}), "rows", path, "line 6 ",
                   f"offset {bad_at}", "id", "3x")


class QuickDrop(BadInputCase):
    def test_each_bad_row_is_counted_once(self):
        """Also across a kill: what was dropped before the checkpoint counts once, like rows."""
        good, bad = [], 0
        for number in range(3):
            with open(self.folder / f"in-{number}.csv", "w", encoding="utf-8") as file:
                file.write("id,n\n")
                for i in range(number, 900, 3):
                    if i % 10 == 4:
                        file.write(("x,1\n", f"{i},none\n", f"{i}\n", f'{i},"1"x\n')[i // 10 % 4])
                        bad += 1
                    else:
                        file.write(f"{i},{i * i}\n")
                        good.append({"id": i, "n": i * i})
        good.sort(key=lambda row: row["id"])
        for seconds in (4, 8, 16):
            self.output = self.folder / f"out-{seconds}"
            job = self.job({"id": "INT64", "n": "INT64"}, bad_data="drop", rate=900 / seconds)
            job["name"] += f"-{seconds}"
            id = self.cluster.submit(job)
            self.cluster.wait_for_status("a checkpoint or the end", id, lambda s: (
                s["state"] == "FINISHED" or
                last_checkpoint(s) >= 3 and any(read_rows(self.output))))
            self.cluster.live_workers()[0].kill()
            self.cluster.start_worker()
            status = self.cluster.finish(id)
            rows = sorted(read_rows(self.output), key=lambda row: row["id"])
            self.assertEqual(rows, good)
            self.assertEqual(self.dropped(status), bad)
            self.assertEqual(status["records_in"], len(good))
            if status["restarts"] > 0:
                return
        self.fail("done before the kill")

    def dropped(self, status):
        return sum(subtask["dropped_rows"] for subtask in status["vertices"][0]["subtasks"])

    def test_as_an_option_of_the_job(self):
        rows = [{"id": i} if i % 3 else {"id": "none"} for i in range(30)]
        (self.folder / "in-0.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows) + "{\n")
        job = self.job({"id": "INT64"}, "json", options={"bad_data": "drop"})
        status = self.cluster.finish(self.cluster.submit(job))
        self.assertEqual(sorted(row["id"] for row in read_rows(self.output)),
                         [i for i in range(30) if i % 3])
        self.assertEqual(self.dropped(status), 11)


# Good and bad rows as bytes, without their line ends.
GOOD_AND_BAD = {
    "csv": ("id,text\n", lambda i: f'{i},"row ""{i}"",\nof two lines"'.encode(),
            [b"x,1", b"7", b'7,"a"b', b"", b"\xff\xfe,x", b"18446744073709551615,x"]),
    "json": ("", lambda i: json.dumps({"id": i, "text": f'row "{i}",\nof two lines'}).encode(),
             [b'{"id": 7', b'{"id": 1, "text": 7}', b'{"id": 18446744073709551615}', b'{"id": 1}{}',
              b'{"text": "\xff"}', b'{"text": "\\ud800"}', b'{"id": ' + 2000 * b"[" + b"}"]),
}


class QuickDeadLetter(BadInputCase):
    """Good rows out are good rows in, and each bad one is found once, bytes and place; with a worker
    killed right after one."""

    def write(self, format, files=3, rows=150):
        """Good rows; bad ones as (file, offset, bytes)."""
        header, good, bad = GOOD_AND_BAD[format]
        rows_in, letters = [], []
        for number in range(files):
            path = self.folder / f"in-{number}.{format}"
            with open(path, "wb") as file:
                file.write(header.encode())
                for i in range(number, files * rows, files):
                    if i % 5 == 3:
                        line = bad[i // 5 % len(bad)] + (b"\r\n" if i % 2 else b"\n")
                        letters.append((str(path), file.tell(), line))
                    else:
                        line = good(i) + b"\n"
                        rows_in.append((i, f'row "{i}",\nof two lines'))
                    file.write(line)
        return sorted(rows_in), sorted(letters)

    def letters(self, folder):
        check_clean(folder)
        lines, letters = [], []
        for path in visible(folder):
            self.assertRegex(path.name, r"-rows-\d+-\d+-\d+\.jsonl$")
            lines += path.read_text().splitlines()
        for letter in map(json.loads, lines):
            self.assertEqual(list(letter), ["source", "file", "line", "offset", "length", "reason",
                                            "text", "bytes"])
            self.assertEqual(letter["source"], "rows")
            line = base64.b64decode(letter["bytes"], validate=True)
            self.assertEqual(letter["length"], len(line))
            with open(letter["file"], "rb") as file:
                self.assertEqual(letter["line"], file.read(letter["offset"]).count(b"\n") + 1)
            try:
                self.assertEqual(letter["text"], line.decode())
            except UnicodeDecodeError:
                self.assertIsNone(letter["text"])
            letters.append((letter["file"], letter["offset"], line))
        return sorted(letters)

    def check(self, status, dead, rows_in, letters):
        self.assertEqual(sorted((row["id"], row["text"]) for row in read_rows(self.output)),
                         rows_in)
        self.assertEqual(self.letters(dead), letters)
        self.assertEqual(status["records_in"], len(rows_in))
        self.assertEqual(sum(subtask["dropped_rows"] for vertex in status["vertices"]
                             for subtask in vertex["subtasks"]), len(letters))
        text = self.cluster.weir("status", status["id"], as_json=False, code=0).out
        self.assertIn(f"bad rows left out {len(letters)}\n", text)

    def test_straight(self):
        folder = self.folder
        for format in GOOD_AND_BAD:
            with self.subTest(format=format):
                self.folder = folder / format
                self.folder.mkdir()
                self.output = self.folder / "out"
                rows_in, letters = self.write(format)
                dead = self.folder / "dead"
                job = self.job({"id": "INT64", "text": "STRING"}, format,
                               options={"bad_data": "dead_letter"}, dead_letter_path=str(dead))
                status = self.cluster.finish(self.cluster.submit(job))
                self.check(status, dead, rows_in, letters)

    def test_killed_right_after_a_bad_row(self):
        rows_in, letters = self.write("json")
        for seconds in (3, 6, 12):
            self.output = self.folder / f"out-{seconds}"
            dead = self.folder / f"dead-{seconds}"
            job = self.job({"id": "INT64", "text": "STRING"}, "json", bad_data="dead_letter",
                           dead_letter_path=str(dead), rate=450 / seconds)
            job["name"] += f"-{seconds}"
            id = self.cluster.submit(job)
            # A hidden file: a bad row was read, and its checkpoint has not completed yet.
            for _ in range(2):
                wait_for("a dead letter under way, or the end", lambda: (
                    self.cluster.status(id)["state"] == "FINISHED" or
                    any(dead.glob(".*.pending"))))
                self.cluster.live_workers()[0].kill()
                self.cluster.start_worker()
            status = self.cluster.finish(id)
            self.check(status, dead, rows_in, letters)
            if status["restarts"] > 0:
                return
        self.fail("done before the kill")

    def test_cancelled_what_completed_is_there_and_nothing_hidden(self):
        rows_in, letters = self.write("json")
        dead = self.folder / "dead"
        job = self.job({"id": "INT64", "text": "STRING"}, "json", bad_data="dead_letter",
                       dead_letter_path=str(dead), rate=150)
        id = self.cluster.submit(job)
        wait_for("a dead letter", lambda: any(dead.glob("*.jsonl")))
        self.cluster.weir("cancel", id, code=0)
        check_clean(self.output)
        seen = self.letters(dead)
        self.assertGreater(len(seen), 0)
        self.assertTrue(set(seen) < set(letters))

    def test_refused_where_it_cannot_be(self):
        (self.folder / "in-0.json").write_text("{}")
        job = self.job({"id": "INT64"}, "json", options={"bad_data": "dead_letter"})
        self.assertIn("vertex 'rows' (files.source): config field 'dead_letter_path' is missing: "
                      "bad_data is dead_letter", self.refusal(job))
        job = self.job({"id": "INT64"}, "json", bad_data="dead_letter",
                       dead_letter_path=str(self.output))
        self.assertIn("is that of the dead letters of source 'rows' too: each needs a directory of "
                      "its own", self.refusal(job))
        job = self.job({"id": "INT64"}, "json", bad_data="dead_letter",
                       dead_letter_path=str(self.folder))
        self.assertIn(f"config field 'dead_letter_path' is '{self.folder}': the directory holds "
                      "'in-0.json'", self.refusal(job))

    def refusal(self, job):
        path = self.folder / "job.json"
        path.write_text(json.dumps(job))
        result = self.cluster.weir("run", "-d", str(path), code=2)
        path.unlink()
        return result.err


if __name__ == "__main__":
    unittest.main(verbosity=2)
