"""The two daemons as processes: how they start, refuse, find each other and end.

Goal: what a person or a supervisor sees (exit codes, messages, times) is what the manual says.
Method: the real binaries on loopback, each test in a directory of its own; waits are on lines of
the log, with a deadline only for failure.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["WEIR_BIN_DIR"])
PATIENCE_S = 20


class Daemon:
    """A process with its log in a file."""

    def __init__(self, program, log, *arguments):
        self.log = pathlib.Path(log)
        with open(log, "wb") as out:
            self.process = subprocess.Popen([BIN / program, *map(str, arguments)],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def wait_for(self, pattern):
        """The first match in the log."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            match = re.search(pattern, self.log.read_text())
            if match:
                return match
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"no '{pattern}' in the log:\n{self.log.read_text()}")

    def end(self, number=signal.SIGTERM):
        """Signals, and returns the exit code and the seconds it took."""
        start = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S), time.monotonic() - start

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class DaemonsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)
        self.started = 0

    def start(self, program, *arguments):
        self.started += 1
        daemon = Daemon(program, self.path / f"{program}-{self.started}.log", *arguments)
        self.addCleanup(daemon.close)
        return daemon

    def start_coordinator(self, *arguments):
        coordinator = self.start("weir-coordinator", "--listen", "127.0.0.1:0",
                                 "--checkpoint-dir", self.path / "checkpoints", *arguments)
        address = coordinator.wait_for(r" address=(\S+)")[1]
        return coordinator, address

    def start_worker(self, address, name, *arguments):
        return self.start("weir-worker", "--name", name, "--coordinators", address,
                          "--work-dir", self.path / name, *arguments)

    def run_once(self, program, *arguments):
        return subprocess.run([BIN / program, *map(str, arguments)], capture_output=True,
                              text=True, timeout=PATIENCE_S)

    def test_help_and_version_go_to_standard_output(self):
        for program in ("weir-coordinator", "weir-worker"):
            done = self.run_once(program, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("SYNOPSIS", done.stdout)
            done = self.run_once(program, "--version")
            self.assertRegex(done.stdout, rf"^{program} \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_exit_code_2(self):
        done = self.run_once("weir-worker", "--slot", "3")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr,
                         "weir-worker: unknown flag '--slot': did you mean --slots?\n")
        # A word behind a value is a mistake, not another value.
        done = self.run_once("weir-coordinator", "--listen", "127.0.0.1:0", "again",
                             "--checkpoint-dir", self.path / "c")
        self.assertEqual((done.returncode, done.stderr),
                         (2, "weir-coordinator: unexpected argument 'again'; --help lists the "
                             "known flags\n"))
        done = self.run_once("weir-worker", "--coordinators", "127.0.0.1:1", "127.0.0.1:2")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unexpected argument '127.0.0.1:2'", done.stderr)
        done = self.run_once("weir-coordinator", "--listen", "0.0.0.0:0")
        self.assertEqual(done.returncode, 2)
        self.assertIn("insecure", done.stderr)

    def test_a_port_in_use_is_exit_code_1(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            message = f"cannot listen on {address}: Address already in use\n"
            done = self.run_once("weir-coordinator", "--listen", address,
                                 "--checkpoint-dir", self.path / "checkpoints")
            self.assertEqual((done.returncode, done.stderr), (1, "weir-coordinator: " + message))
            done = self.run_once("weir-worker", "--listen", address, "--work-dir", self.path / "w")
            self.assertEqual((done.returncode, done.stderr), (1, "weir-worker: " + message))
            done = self.run_once("weir-worker", "--data-listen", address,
                                 "--work-dir", self.path / "w")
            self.assertEqual(done.returncode, 1)
            self.assertIn(address, done.stderr)

    def test_a_host_name_that_nobody_knows_is_exit_code_1(self):
        for arguments in (("weir-coordinator", "--checkpoint-dir", self.path / "c"),
                          ("weir-worker", "--work-dir", self.path / "w")):
            done = self.run_once(*arguments, "--listen", "nohost.invalid:0", "--insecure")
            self.assertEqual(done.returncode, 1)
            # Which words the resolver finds depends on whether there is a network.
            self.assertRegex(done.stderr, r"^weir-\w+: cannot \w+( \w+)? nohost\.invalid.*: .+\n$")
        worker = self.start_worker("nohost.invalid:7070", "worker-1")
        worker.wait_for(r"not registered: coordinator nohost\.invalid:7070: cannot reach "
                        r"nohost\.invalid:7070: [^:]+\n")

    def test_a_log_or_work_directory_that_cannot_be_is_exit_code_1(self):
        done = self.run_once("weir-worker", "--work-dir", "/dev/null/w")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/dev/null/w", done.stderr)
        done = self.run_once("weir-coordinator", "--listen", "127.0.0.1:0",
                             "--log-file", "/dev/null/log")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/dev/null/log", done.stderr)

    def test_a_worker_registers_and_takes_leave(self):
        coordinator, address = self.start_coordinator()
        worker = self.start_worker(address, "worker-1", "--slots", "3")
        coordinator.wait_for(r"worker worker-1 is here: 3 slots")
        worker.wait_for(r"registered")
        code, seconds = worker.end()
        self.assertEqual(code, 0)
        self.assertLess(seconds, 5)
        coordinator.wait_for(r"worker worker-1 is lost: it left")
        code, seconds = coordinator.end(signal.SIGINT)
        self.assertEqual(code, 0)
        self.assertLess(seconds, 5)

    def test_a_killed_worker_is_noticed_at_once(self):
        # Long before the heartbeats are missed: the closed connection tells.
        coordinator, address = self.start_coordinator("--heartbeat-timeout", "1h")
        worker = self.start_worker(address, "worker-1")
        coordinator.wait_for(r"worker worker-1 is here")
        # A watch reports what breaks after it stood; it does when the next worker, whose start takes
        # far longer than a connection, is here.
        other = self.start_worker(address, "worker-2")
        coordinator.wait_for(r"worker worker-2 is here")
        start = time.monotonic()
        worker.end(signal.SIGKILL)
        coordinator.wait_for(r"worker worker-1 is lost")
        self.assertLess(time.monotonic() - start, 2)
        other.end()

    def test_a_worker_follows_a_coordinator_that_comes_back(self):
        coordinator, address = self.start_coordinator("--heartbeat-interval", "100ms")
        worker = self.start_worker(address, "worker-1")
        coordinator.wait_for(r"worker worker-1 is here")
        self.assertEqual(coordinator.end()[0], 0)
        again = self.start("weir-coordinator", "--listen", address,
                           "--checkpoint-dir", self.path / "checkpoints")
        again.wait_for(r"leads as coordinator 2")
        again.wait_for(r"worker worker-1 is here")
        self.assertEqual(worker.end()[0], 0)

    def test_a_worker_without_a_coordinator_ends_cleanly(self):
        worker = self.start_worker("127.0.0.1:1", "worker-1")
        worker.wait_for(r"weir-worker \d")
        code, seconds = worker.end()
        self.assertEqual(code, 0)
        self.assertLess(seconds, 5)


if __name__ == "__main__":
    unittest.main()
