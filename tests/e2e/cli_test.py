"""Goal: the command line keeps its promises: exit codes, names of jobs, JSON; and what is wrong
with a job is said at submission, with place, value and what is valid.

Method: every command against a real cluster; each refusal by a job with one fault.
"""

import copy
import datetime
import json
import os
import re
import signal
import subprocess
import unittest

from cluster import BIN_DIR, Cluster, free_port, wait_for
from jobs import (FLIGHTS, FLIGHTS_ROWS, check_flights, endless_job, flights_job, visible)

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
COMMANDS = ("run", "list", "status", "logs", "info", "checkpoints", "cancel", "remove", "workers",
            "local")


class QuickAlone(unittest.TestCase):
    """Without a cluster."""

    def program(self, name, *arguments):
        return subprocess.run([BIN_DIR / name, *arguments], text=True, capture_output=True,
                              timeout=20)

    def test_help_and_version_of_each_program(self):
        for name in ("weir", "weir-coordinator", "weir-worker"):
            with self.subTest(name=name):
                done = self.program(name, "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(name, done.stdout)
                done = self.program(name, "--version")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"\d+\.\d+\.\d+")

    def test_help_of_each_command(self):
        overview = self.program("weir", "--help").stdout
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertIn(command, overview)
                self.assertEqual(self.program("weir", command, "--help").returncode, 0)

    def test_wrong_words_are_named(self):
        done = self.program("weir", "statsu", "x")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'statsu'", done.stderr)
        self.assertIn("did you mean 'status'", done.stderr)
        job = FLIGHTS / "job.json"
        for flag in ("--from", "--name"):
            done = self.program("weir", "run", job, flag, "")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(flag, done.stderr)

    def test_a_coordinator_without_a_usable_directory_does_not_start(self):
        done = self.program("weir-coordinator", "--listen", "127.0.0.1:0", "--checkpoint-dir",
                            "/proc/self/comm/x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/self/comm/x", done.stderr)

    def test_help_of_the_daemons_names_each_key(self):
        for name, keys in (("weir-coordinator", ("listen", "advertise", "checkpoint-dir",
                                                 "heartbeat-interval", "heartbeat-timeout",
                                                 "log-level", "log-file", "take-over")),
                           ("weir-worker", ("name", "coordinators", "listen", "slots",
                                            "work-dir"))):
            text = self.program(name, "--help").stdout
            for key in ("config", *keys):
                self.assertIn(f"--{key}", text)

    def test_wrong_usage_is_2(self):
        for arguments in ((), ("frobnicate",), ("run",), ("status",), ("list", "--no-such-flag"),
                          ("run", "job.json", "-p", "0"), ("run", "/nowhere/job.json")):
            with self.subTest(arguments=arguments):
                done = self.program("weir", *arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertNotEqual(done.stderr, "")
        for name in ("weir-coordinator", "weir-worker"):
            done = self.program(name, "--chekpoint-dir", "x")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("chekpoint", done.stderr)

    def test_a_coordinator_that_is_not_there_is_4(self):
        address = f"127.0.0.1:{free_port()}"
        for command in (("list",), ("status", "x"), ("workers",), ("cancel", "x")):
            done = self.program("weir", "--coordinator", address, *command)
            self.assertEqual(done.returncode, 4, f"{command}: {done.stderr}")
            self.assertIn(address, done.stderr)

    def test_an_address_that_is_none_is_2(self):
        for address in ("nowhere", "::1:7070", "localhost:99999", "[::1]"):
            for done in (self.program("weir", "--coordinator", address, "list"),
                         subprocess.run([BIN_DIR / "weir", "list"], text=True, timeout=20,
                                        capture_output=True,
                                        env={**os.environ, "WEIR_COORDINATOR": address})):
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"'{address}' is no address: expected HOST:PORT", done.stderr)

    def test_a_host_name_that_nobody_knows_is_4(self):
        done = self.program("weir", "--coordinator", "nohost.invalid:7070", "list")
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, r"^weir: cannot reach nohost\.invalid:7070: [^:]+\n$")

    def test_errors_are_one_json_document_too(self):
        address = f"127.0.0.1:{free_port()}"
        for arguments, code, name in (
                (("--coordinator", address, "list"), 4, "unavailable"),
                (("run", "/nowhere/job.json"), 2, "not_found"),
                (("statsu",), 2, "invalid_argument"), (("status",), 2, "invalid_argument"),
                (("--coordinator", "x", "list"), 2, "invalid_argument"),
                (("list", "--no-such-flag"), 2, "invalid_argument")):
            with self.subTest(arguments=arguments):
                done = self.program("weir", "--json", *arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                error = json.loads(done.stdout)["error"]
                self.assertEqual((error["code"], error["exit_code"]), (name, code))
                self.assertEqual(done.stderr, f"weir: {error['message']}\n")

    def test_other_than_loopback_needs_insecure(self):
        done = self.program("weir-coordinator", "--listen", f"0.0.0.0:{free_port()}",
                            "--checkpoint-dir", "/nowhere")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("insecure", done.stderr)


class QuickCommands(unittest.TestCase):
    """One cluster for all of it."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(2, slots=4)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def time(self, text):
        self.assertRegex(text, TIME)
        return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))

    def test_an_attached_run_that_finishes_is_0(self):
        output = self.cluster.folder / "attached"
        run = self.cluster.attach("run", self.cluster.write_job(flights_job(output), "a.json"),
                                  "--name", "attached")
        out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, out + err)
        self.assertIn("FINISHED", out)
        self.assertIn("27,004", out)
        self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_an_attached_run_with_json_prints_one_document(self):
        output = self.cluster.folder / "attached-json"
        job = flights_job(output, name="attached-json")
        result = self.cluster.weir("run", self.cluster.write_job(job, "j.json"), code=0)
        self.assertEqual(result.json["state"], "FINISHED")

    def test_a_job_that_fails_is_1_and_says_where(self):
        folder = self.cluster.folder
        (folder / "bad.csv").write_text("row_id,carrier,dep_delay\n1,UA,2\n2,UA,soon\n")
        job = flights_job(folder / "failing", name="failing", source=folder / "bad.csv",
                          options={"restart.attempts_max": "0"})
        result = self.cluster.weir("run", self.cluster.write_job(job, "bad.json"), as_json=False)
        self.assertEqual(result.code, 1, result)
        self.assertIn("FAILED", result.out)
        for part in ("bad.csv", "dep_delay", "soon"):
            self.assertIn(part, result.out + result.err)
        jobs = [job for job in self.cluster.ask("list", "-a") if job["name"] == "failing"]
        self.assertEqual(len(jobs), 1)
        failure = self.cluster.status(jobs[0]["id"])["failure"]
        self.assertEqual(failure["uid"], "flights")
        self.assertIn("bad.csv", failure["message"])
        self.assertEqual(visible(folder / "failing"), [])

    def test_ctrl_c_detaches_with_130_and_the_job_goes_on(self):
        job = endless_job(self.cluster.folder / "detached", name="detached")
        run = self.cluster.attach("run", self.cluster.write_job(job, "d.json"))
        line = run.stdout.readline()
        self.assertIn("detached", line)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=20)
        self.assertEqual(run.returncode, 130, out + err)
        self.assertIn("cancel", out + err)
        self.cluster.wait_for_state("detached", "RUNNING")
        self.cluster.weir("cancel", "detached", code=0)

    def test_list_status_and_names_of_a_job(self):
        cluster = self.cluster
        job = cluster.submit(endless_job(cluster.folder / "named", name="named", interval="100ms"))
        cluster.wait_for_checkpoint(job, 2)
        for name in (job, job[:8], "named"):
            self.assertEqual(cluster.weir("status", name, code=0).json["id"], job)
        self.assertIn(job, [entry["id"] for entry in cluster.ask("list")])
        status = cluster.status(job)
        self.assertEqual(
            [status[name] for name in ("name", "state", "generation", "restarts", "parallelism",
                                       "waiting_for", "failure")],
            ["named", "RUNNING", 1, 0, 2, None, None])
        start = self.time(status["start_time"])
        self.assertLess(abs((datetime.datetime.now(datetime.timezone.utc) - start).seconds), 120)
        self.assertGreaterEqual(status["last_checkpoint"]["id"], 2)
        self.assertGreaterEqual(self.time(status["last_checkpoint"]["completed_time"]), start)
        self.assertGreaterEqual(status["last_checkpoint"]["duration_ms"], 0)
        self.assertEqual([(v["uid"], v["type"], v["parallelism"]) for v in status["vertices"]],
                         [("rows", "generator", 2), ("per-key", "aggregate", 2),
                          ("out", "files.sink", 2)])
        for vertex in status["vertices"]:
            self.assertEqual([s["subtask"] for s in vertex["subtasks"]], [0, 1])
            for subtask in vertex["subtasks"]:
                self.assertEqual(subtask["state"], "running")
                self.assertIn(subtask["worker"], ("worker-1", "worker-2"))
                share = subtask["busy"] + subtask["idle"] + subtask["backpressured"]
                self.assertTrue(0 <= share <= 1.05, subtask)
                for name in ("records_in", "records_out"):
                    self.assertIsInstance(subtask[name], int)
        text = cluster.weir("status", job, as_json=False, code=0).out
        for part in ("named", job[:8], "RUNNING", "per-key", "worker-"):
            self.assertIn(part, text)
        self.assertNotIn("\x1b", text)
        cluster.weir("logs", job, as_json=False, code=0)
        cluster.weir("cancel", job, code=0)
        self.assertNotIn(job, [entry["id"] for entry in cluster.ask("list")])
        self.assertIn(job, [entry["id"] for entry in cluster.ask("list", "-a")])
        self.assertNotEqual(cluster.weir("status", "named").code, 0)
        cluster.weir("remove", job, code=0)
        self.assertNotIn(job, [entry["id"] for entry in cluster.ask("list", "-a")])
        self.assertFalse(cluster.job_dir(job).exists())

    def test_a_job_that_is_not_there_is_1(self):
        for command in ("status", "cancel", "checkpoints", "logs", "remove"):
            result = self.cluster.weir(command, "no-such-job", as_json=False)
            self.assertEqual(result.code, 1, result)
            self.assertIn("no-such-job", result.err)

    def test_a_live_job_is_not_removed(self):
        job = self.cluster.submit(endless_job(self.cluster.folder / "live", name="live"))
        result = self.cluster.weir("remove", job, as_json=False)
        self.assertEqual(result.code, 1, result)
        self.assertIn("live", result.err)
        self.cluster.weir("cancel", job, code=0)

    def test_checkpoints(self):
        cluster = self.cluster
        job = cluster.submit(endless_job(cluster.folder / "history", name="history"))
        cluster.wait_for_checkpoint(job, 3)
        history = cluster.checkpoints(job)
        done = [entry for entry in history if entry["state"] == "completed"]
        self.assertGreaterEqual(len(done), 3)
        self.assertEqual(len({entry["id"] for entry in history}), len(history))
        for entry in history:
            self.assertIn(entry["state"], ("in_progress", "completed", "failed"))
            self.time(entry["trigger_time"])
        for entry in done:
            self.assertGreater(entry["duration_ms"], 0)
            self.assertGreater(entry["size_bytes"], 0)
            self.assertIsNone(entry["failure_reason"])
        parts = next(entry for entry in cluster.ask("checkpoints", job, "--subtasks")
                     if entry["state"] == "completed")["subtasks"]
        self.assertEqual({(part["uid"], part["subtask"]) for part in parts},
                         {(uid, n) for uid in ("rows", "per-key", "out") for n in (0, 1)})
        for part in parts:
            for name in ("alignment_ms", "synchronous_ms", "asynchronous_ms", "longest_step_ms",
                         "size_bytes"):
                self.assertGreaterEqual(part[name], 0)
            self.time(part["ack_time"])
        text = cluster.weir("checkpoints", job, "--subtasks", as_json=False, code=0).out
        self.assertIn("per-key", text)
        cluster.weir("cancel", job, code=0)

    def test_workers(self):
        workers = self.cluster.ask("workers")
        self.assertEqual({(w["name"], w["slots"], w["pid"]) for w in workers},
                         {(d.name, 4, d.pid) for d in self.cluster.workers})
        text = self.cluster.weir("workers", as_json=False, code=0).out
        self.assertIn("worker-1", text)

    def test_info_shows_the_plan_without_a_cluster(self):
        path = self.cluster.write_job(flights_job("x", parallelism=3), "plan.json")
        done = subprocess.run([BIN_DIR / "weir", "info", path], text=True, capture_output=True,
                              timeout=20)
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("flights", "per-carrier", "out", "files.sink", "HASH", "carrier", "3"):
            self.assertIn(part, done.stdout)

    def test_settings_of_the_command_line(self):
        cluster = self.cluster
        output = cluster.folder / "set"
        path = cluster.write_job(endless_job(output), "set.json")
        job = cluster.weir("run", "-d", path, "-p", "3", "--name", "other-name", "--set",
                           "checkpoint.interval=50ms", code=0).json["id"]
        status = cluster.wait_for_checkpoint(job, 2)
        self.assertEqual((status["name"], status["parallelism"]), ("other-name", 3))
        cluster.weir("cancel", job, code=0)

    def test_relative_paths_are_those_of_the_caller(self):
        cluster = self.cluster
        job = flights_job("relative/out", name="relative", source="rel.csv")
        (cluster.folder / "rel.csv").write_text("row_id,carrier,dep_delay\n1,UA,2\n")
        cluster.weir("run", cluster.write_job(job, "rel.json"), code=0)
        self.assertEqual(len(visible(cluster.folder / "relative/out")), 1)

    def test_a_second_worker_of_a_name_is_refused(self):
        twin = self.cluster.start_worker(name="worker-1")
        self.cluster.workers.remove(twin)
        wait_for("the refusal", lambda: not twin.alive() or "worker-1" in twin.log_text(), 20)
        self.assertEqual(len(self.cluster.ask("workers")), 2)
        twin.kill()


class QuickRefusals(unittest.TestCase):
    """Each job has one fault; the message names place, value and what is valid."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(1, slots=4)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def refused(self, job, *parts, arguments=()):
        before = len(self.cluster.ask("list", "-a"))
        path = self.cluster.write_job(job, "refused.json")
        result = self.cluster.weir("run", "-d", path, *arguments, as_json=False)
        self.assertEqual(result.code, 2, result)
        for part in parts:
            self.assertIn(part, result.err)
        self.assertEqual(len(self.cluster.ask("list", "-a")), before)
        return result.err

    def job(self, **options):
        return flights_job(self.cluster.folder / "refused-out", **options)

    def with_vertex(self, vertex):
        """flights -> vertex -> blackhole."""
        job = self.job()
        job["vertices"] = [job["vertices"][0], vertex, {"uid": "end", "type": "blackhole"}]
        job["edges"] = [{"from": "flights", "to": vertex["uid"]},
                        {"from": vertex["uid"], "to": "end"}]
        return job

    def test_option(self):
        self.refused(self.job(options={"checkpoint.intervall": "1s"}), "checkpoint.intervall",
                     "'checkpoint.interval'")

    def test_value_of_an_option(self):
        for name, value in (("checkpoint.interval", "soon"), ("checkpoint.interval", "1ms"),
                            ("parallelism", "0"), ("parallelism", "129"),
                            ("max_parallelism", "40000"), ("bad_data", "ignore"),
                            ("batch.bytes_max", "-1"), ("state.backend", "papyrus"),
                            ("checkpoint.retained", "0"), ("restart.backoff_initial", "x")):
            with self.subTest(name=name, value=value):
                self.refused(self.job(options={name: value}), name.partition(".")[0], value)

    def test_setting_of_the_command_line(self):
        self.refused(self.job(), "nonsense", arguments=["--set", "nonsense=1"])
        self.refused(self.job(), "checkpoint.interval",
                     arguments=["--set", "checkpoint.interval=x"])

    def test_unknown_field(self):
        job = self.job()
        job["vertexes"] = job.pop("vertices")
        self.refused(job, "vertexes", "vertices")
        job = self.job()
        job["vertices"][0]["config"]["pth"] = job["vertices"][0]["config"].pop("path")
        self.refused(job, "flights", "pth", "path")

    def test_json_that_is_none(self):
        path = self.cluster.folder / "broken.json"
        path.write_text('{"name": "x",\n "vertices": [}')
        result = self.cluster.weir("run", "-d", path, as_json=False)
        self.assertEqual(result.code, 2, result)
        self.assertIn("broken.json", result.err)

    def test_type_of_a_vertex(self):
        job = self.job()
        job["vertices"][1]["type"] = "agregate"
        self.refused(job, "per-carrier", "agregate", "'aggregate'")

    def test_type_of_a_column(self):
        job = self.job()
        job["vertices"][0]["config"]["schema"]["row_id"] = "INT46"
        self.refused(job, "flights", "row_id", "INT46", "INT64")

    def test_column_of_an_operator(self):
        job = self.job()
        job["vertices"][1]["config"]["keys"] = ["carier"]
        job["edges"][0]["columns"] = ["carier"]
        self.refused(job, "carier", "carrier")
        job = self.job()
        job["vertices"][1]["config"]["aggregates"][1]["column"] = "delay"
        self.refused(job, "per-carrier", "'delay'", "dep_delay")
        job = self.job()
        job["vertices"][1]["config"]["aggregates"][1]["column"] = "carrier"
        self.refused(job, "per-carrier", "carrier", "STRING")

    def test_column_that_the_files_do_not_have(self):
        job = self.job()
        job["vertices"][0]["config"]["schema"]["dep_dely"] = "INT32"
        self.refused(job, "flights", "dep_dely", "dep_delay")

    def test_edge_that_does_not_match_the_keys(self):
        job = self.job()
        job["edges"][0]["columns"] = ["row_id"]
        self.refused(job, "per-carrier", "row_id", "carrier")
        job = self.job()
        job["edges"][0]["from"] = "flihgts"
        self.refused(job, "flihgts", "flights")

    def test_expression(self):
        for text, parts in (("dep_delay >", ["dep_delay >"]),
                            ("dep_dely > 15", ["dep_dely", "dep_delay"]),
                            ("carrier + 1 > 2", ["carrier", "STRING"]),
                            ("dep_delay + 1", ["BOOL"]),
                            ("no_such_function(dep_delay) > 1", ["no_such_function"])):
            with self.subTest(text=text):
                self.refused(self.with_vertex({"uid": "some", "type": "filter",
                                               "config": {"expression": text}}), "some", *parts)

    def test_cycle(self):
        job = self.job()
        job["vertices"] += [{"uid": "one", "type": "union"}, {"uid": "two", "type": "rebalance"},
                            {"uid": "three", "type": "filter", "config": {"expression": "true"}}]
        job["edges"] = [{"from": "flights", "to": "one", "input": 0},
                        {"from": "one", "to": "three"}, {"from": "three", "to": "one", "input": 1}]
        job["vertices"] = [v for v in job["vertices"] if v["uid"] in ("flights", "one", "three")]
        self.refused(job, "one", "three")

    def test_vertex_without_input_and_rows_without_sink(self):
        job = self.job()
        job["edges"] = job["edges"][1:]
        self.refused(job, "flights", "no edge")
        job = self.job()
        job["edges"] = job["edges"][:1]
        self.refused(job, "out")

    def test_missing_files(self):
        self.refused(self.job(source=self.cluster.folder / "nothing-*.csv"), "flights",
                     "nothing-*.csv")
        self.refused(self.job(source="/no/such/folder/x.csv"), "flights", "/no/such/folder")

    def test_format(self):
        job = self.job()
        job["vertices"][2]["config"]["format"] = "xml"
        self.refused(job, "out", "xml", "csv", "json")

    def test_output_directory_with_foreign_files(self):
        output = self.cluster.folder / "foreign"
        output.mkdir()
        (output / "thesis.txt").write_text("mine")
        self.refused(flights_job(output), "out", str(output), "thesis.txt")
        self.assertEqual([path.name for path in output.iterdir()], ["thesis.txt"])

    def test_one_directory_for_two_sinks(self):
        output = self.cluster.folder / "shared"
        job = flights_job(output)
        sink = next(v for v in job["vertices"] if v["type"] == "files.sink")
        second = copy.deepcopy(sink)
        second["uid"] = "again"
        second["config"]["path"] = str(output / "x" / "..")
        job["vertices"].append(second)
        edge = next(e for e in job["edges"] if e["to"] == sink["uid"])
        job["edges"].append({**edge, "to": "again"})
        self.refused(job, "again", str(output), sink["uid"])

    def test_a_pipe_as_source(self):
        pipe = self.cluster.folder / "pipe.csv"
        os.mkfifo(pipe)
        self.refused(flights_job(self.cluster.folder / "piped", source=pipe), str(pipe), "regular")

    def test_an_output_directory_that_cannot_be_made(self):
        self.refused(flights_job("/proc/weir/out"), "/proc/weir")

    def test_output_directory_of_another_job(self):
        output = self.cluster.folder / "shared"
        job = self.cluster.submit(endless_job(output))
        self.cluster.wait_for_checkpoint(job, 1)
        self.refused(flights_job(output), "out", str(output))
        self.cluster.weir("cancel", job, code=0)
        self.refused(flights_job(output), "out", str(output))

    def test_output_directory_that_is_a_file(self):
        path = self.cluster.folder / "a-file"
        path.write_text("")
        self.refused(flights_job(path), "out", str(path))

    def test_uid_twice_and_a_name_that_is_none(self):
        job = self.job()
        twin = copy.deepcopy(job["vertices"][1])
        job["vertices"].append(twin)
        self.refused(job, "per-carrier", "twice")
        self.refused(self.job(name="../escape"), "../escape")


if __name__ == "__main__":
    unittest.main(verbosity=2)
