"""Goal: the torture does to a cluster what it says, sees what goes wrong, and leaves nothing behind.

Method: each part alone, on sockets, files and processes of the test's own; and the whole program,
interrupted, killed, as nobody, and with a result that is wrong.
"""

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import private  # noqa: E402
from cluster import SOURCE_DIR, free_port, wait_for  # noqa: E402
from delay_proxy import CHUNK_BYTES_MAX  # noqa: E402
from disks import BusyDisk, SmallDisk  # noqa: E402
from fabric import PROXY, Fabric  # noqa: E402
from kill_plan import ALL_POINTS, KillPlan  # noqa: E402
from kill_points import KAFKA_POINTS  # noqa: E402
from link_faults import cut_connections  # noqa: E402
from progress import Progress  # noqa: E402

WHY_NOT = None if private.inside() else private.missing()
TORTURE = str(SOURCE_DIR / "scripts/torture")


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-torture-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)


class Echo:
    """A server of one thread per connection that sends back what it gets."""

    def __init__(self, address="127.0.0.1", prefix=()):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-B", "-c", ECHO, address], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.pid = self.process.pid

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


ECHO = """
import socket, sys, threading
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
def serve(one):
    try:
        while data := one.recv(1 << 16):
            one.sendall(data)
        one.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


class KillPlans(unittest.TestCase):
    def test_every_kill_point_of_the_sources_is_known(self):
        found = set()
        for part in ("coordinator", "worker"):
            for path in (SOURCE_DIR / part).rglob("*.cc"):
                for call in re.findall(r"KillPoint\((.*?)\);", path.read_text()):
                    found |= set(re.findall(r'"([a-z_.]+)"', call))
        self.assertEqual(found, {*ALL_POINTS, *KAFKA_POINTS})

    def test_points_that_lack_kills_come_first_until_none_does(self):
        plan = KillPlan(random.Random(1), wanted=2)
        drawn = []
        while not plan.done():
            for role in ("coordinator", "worker"):
                arm = plan.arm(role)
                if arm is None:
                    continue
                point, count, signal_name = arm
                self.assertEqual(point.startswith("coordinator."), role == "coordinator")
                self.assertTrue(1 <= count <= ALL_POINTS[point])
                plan.record(point, signal_name, counted=len(drawn) % 3 != 0)
                drawn.append(point)
            self.assertLess(len(drawn), 1000)
        self.assertIsNone(plan.arm("worker"))
        for tally in plan.tallies.values():
            self.assertEqual(tally.counted, 2)

    def test_a_pause_and_a_kill_that_does_not_count_are_no_counted_kills(self):
        plan = KillPlan(random.Random(1), wanted=1)
        plan.record("sink.before_sync", "STOP", True)
        plan.record("sink.before_sync", "KILL", False)
        tally = plan.tallies["sink.before_sync"]
        self.assertEqual((tally.kills, tally.counted, tally.stops), (1, 0, 1))


class ProgressOfFiles(Folder):
    """A checkpoint directory that is made by hand. STARTED is kind 2, COMPLETED kind 3; fields
    generation 3 and checkpoint 4."""

    def setUp(self):
        super().setUp()
        self.term = self.folder / "job/log/000001"
        self.term.mkdir(parents=True)
        self.output = self.folder / "out"
        self.output.mkdir()
        self.progress = Progress(self.folder / "job", self.output)
        self.addCleanup(self.progress.stop)
        self.entry(1, 2, 5, 0)
        self.settle()

    def entry(self, number, kind, generation, checkpoint):
        body = bytes([8, kind, 24, generation, 32, checkpoint])
        temporary = self.folder / "entry"
        temporary.write_bytes(b"weirCLOG" + bytes(4) + body + bytes(8))
        temporary.rename(self.term / f"{number:010}")

    def settle(self):
        """Well past what is seen late."""
        time.sleep(0.3)

    def begin(self, name):
        (self.folder / "job" / name).mkdir()

    def rows(self, generation):
        (self.output / f".weir-job-g{generation}-0-1-out.pending").touch()

    def test_under_load_needs_rows_and_an_open_checkpoint_of_the_newest_generation(self):
        self.assertFalse(self.progress.under_load(time.time()))
        self.rows(5)
        self.settle()
        self.assertFalse(self.progress.under_load(time.time()), "no checkpoint")
        self.begin("chk-1.4")
        self.settle()
        self.assertFalse(self.progress.under_load(time.time()), "one of an older generation")
        self.begin("chk-2.5")
        self.settle()
        open_at = time.time()
        self.assertTrue(self.progress.under_load(open_at))
        self.entry(2, 3, 5, 2)
        time.sleep(0.6)
        self.assertFalse(self.progress.under_load(time.time()), "it completed long before")
        self.assertTrue(self.progress.under_load(open_at), "it was open then")

    def test_without_rows_nothing_is_under_load(self):
        self.begin("chk-2.5")
        self.rows(4)
        self.settle()
        self.assertFalse(self.progress.under_load(time.time()))

    def test_a_checkpoint_whose_folder_vanishes_is_not_open_and_did_not_complete(self):
        self.rows(5)
        self.begin("chk-3.5")
        self.settle()
        (self.folder / "job/chk-3.5").rmdir()
        time.sleep(0.6)
        self.assertFalse(self.progress.under_load(time.time()))
        self.assertEqual(self.progress.completed_since(0), 0)

    def test_completions_and_the_longest_time_without_one(self):
        began = time.time()
        self.begin("chk-1.5")
        self.entry(2, 3, 5, 1)
        self.settle()
        middle = time.time()
        self.begin("chk-2.5")
        self.entry(3, 3, 5, 2)
        self.settle()
        self.assertEqual(self.progress.completed_since(began), 2)
        self.assertEqual(self.progress.completed_since(middle), 1)
        self.assertAlmostEqual(self.progress.longest_gap(time.time() + 7), 7.3, delta=0.2)


class DelayProxy(unittest.TestCase):
    DELAY_S = 0.15

    def setUp(self):
        self.echo = Echo()
        self.addCleanup(self.echo.stop)
        port = free_port()
        self.proxy = subprocess.Popen(
            [sys.executable, "-B", str(PROXY), str(port), str(int(self.DELAY_S * 1000)),
             f"127.0.0.1:{self.echo.port}"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.proxy.stdout.close)
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.kill)
        self.proxy.stdout.readline()
        self.client = socket.create_connection(("127.0.0.1", port), 20)
        self.addCleanup(self.client.close)

    def test_each_way_takes_the_delay_and_the_end_of_the_stream_comes_through(self):
        self.client.sendall(b"a")  # waits for the proxy's own connection, too
        self.client.recv(1)
        began = time.monotonic()
        self.client.sendall(b"hello")
        self.assertEqual(self.client.recv(100), b"hello")
        took = time.monotonic() - began
        self.assertTrue(2 * self.DELAY_S <= took < 2 * self.DELAY_S + 2, took)
        self.client.shutdown(socket.SHUT_WR)
        self.assertEqual(self.client.recv(100), b"")

    def test_bytes_stay_in_order_and_whole(self):
        data = random.Random(5).randbytes(20 * CHUNK_BYTES_MAX + 17)
        threading.Thread(target=lambda: (self.client.sendall(data),
                                         self.client.shutdown(socket.SHUT_WR))).start()
        got = b""
        while part := self.client.recv(1 << 20):
            got += part
        self.assertEqual(got, data)

    def test_the_end_of_the_server_ends_the_client(self):
        self.client.sendall(b"a")
        self.client.recv(1)
        self.echo.process.kill()
        self.assertIn(self.recv_or_reset(), (b"", "reset"))

    def recv_or_reset(self):
        try:
            return self.client.recv(1)
        except ConnectionError:
            return "reset"


@unittest.skipIf(WHY_NOT, f"no namespaces: {WHY_NOT}")
class Disks(Folder):
    def setUp(self):
        super().setUp()
        self.disk = SmallDisk(self.folder / "disk", "2m")
        self.disk.__enter__()
        self.addCleanup(self.disk.__exit__)
        self.file = self.disk.path / "file"

    def test_a_full_disk_takes_nothing_until_it_is_freed(self):
        self.file.write_bytes(b"before")
        self.disk.fill()
        with self.assertRaisesRegex(OSError, "No space left"):
            (self.disk.path / "other").write_bytes(b"x")
        self.disk.free()
        self.file.write_bytes(b"x" * 1_000_000)

    def test_a_read_only_disk_can_be_read_alone_and_only_when_nobody_writes(self):
        with open(self.file, "w") as file:
            file.write("before")
            with self.assertRaises(BusyDisk):
                self.disk.read_only(True, 0.05)
        self.disk.read_only(True, 0.05)
        with self.assertRaisesRegex(OSError, "Read-only"):
            self.file.write_text("x")
        self.assertEqual(self.file.read_text(), "before")
        self.disk.read_only(False)
        self.file.write_text("x")

    def test_an_unmounted_disk_is_empty_and_comes_back_whole(self):
        self.file.write_text("before")
        with open(self.file), self.assertRaises(BusyDisk):
            self.disk.unmount(0.05)
        self.disk.unmount(0.05)
        self.assertEqual(list(self.disk.path.iterdir()), [])
        self.disk.mount()
        self.assertEqual(self.file.read_text(), "before")

    def test_a_copy_outlives_it_even_when_it_is_full_and_unmounted(self):
        self.file.write_text("x")
        self.disk.fill()
        self.disk.unmount()
        self.disk.keep_copy(self.folder / "copy")
        self.assertEqual([path.name for path in (self.folder / "copy").iterdir()], ["file"])


@unittest.skipIf(WHY_NOT, f"no namespaces: {WHY_NOT}")
class Connections(unittest.TestCase):
    def test_those_between_two_processes_are_reset_and_no_others(self):
        one, other = Echo(), Echo()
        self.addCleanup(one.stop)
        self.addCleanup(other.stop)
        cut = socket.create_connection(("127.0.0.1", one.port), 10)
        spared = socket.create_connection(("127.0.0.1", other.port), 10)
        with cut, spared:
            for client in (cut, spared):
                client.sendall(b"a")
                self.assertEqual(client.recv(1), b"a")
            self.assertEqual(cut_connections(os.getpid(), one.pid), 1)
            with self.assertRaises(ConnectionError):
                cut.sendall(b"b")
                cut.recv(1)
            spared.sendall(b"b")
            self.assertEqual(spared.recv(1), b"b")


@unittest.skipIf(WHY_NOT, f"no namespaces: {WHY_NOT}")
class Links(unittest.TestCase):
    """Two namespaces for the class; an echo server in `b`, a client in `a`."""

    @classmethod
    def setUpClass(cls):
        cls.fabric = Fabric(["a", "b"])
        cls.echo = Echo(cls.fabric.addresses["b"], cls.fabric.prefix("b"))
        cls.addClassCleanup(cls.fabric.close)
        cls.addClassCleanup(cls.echo.stop)

    def client(self, seconds=1.0, at="a"):
        """What a client there sees: ok and how long the answer took, or its error."""
        done = subprocess.run(
            [*self.fabric.prefix(at), sys.executable, "-B", "-c", CLIENT,
             self.fabric.addresses["b"], str(self.echo.port), str(seconds)],
            stdout=subprocess.PIPE, text=True, timeout=60)
        return done.stdout.split()

    def test_a_cut_link_is_silent_and_heals(self):
        for pairs in ([("a", "b"), ("b", "a")], [("a", "b")], [("b", "a")]):
            with self.subTest(pairs=pairs):
                self.assertEqual(self.client()[0], "ok")
                self.fabric.cut(pairs)
                self.fabric.cut(pairs)  # by two faults
                self.assertEqual(self.client()[0], "TimeoutError")
                self.fabric.mend(pairs)
                self.assertEqual(self.client()[0], "TimeoutError")
                self.fabric.mend(pairs)
                self.assertEqual(self.client()[0], "ok")

    def test_only_the_link_that_was_cut(self):
        self.fabric.cut([("a", "b"), ("b", "a")])
        self.assertEqual(self.client(at="b")[0], "ok")
        self.fabric.mend([("a", "b"), ("b", "a")])

    def test_a_blackhole_lets_calls_fail_at_once(self):
        self.fabric.add_blackhole("a", "b")
        self.assertEqual(self.client(30)[0], "OSError")
        self.fabric.remove_blackhole("a", "b")
        self.assertEqual(self.client()[0], "ok")

    def test_a_slow_link_takes_longer_each_way(self):
        self.assertTrue(self.fabric.slow_down("a", "b", 200))
        self.assertFalse(self.fabric.slow_down("b", "a", 100), "it is slow already")
        said, took = self.client(20)
        self.assertEqual(said, "ok")
        self.assertGreater(float(took), 0.4)
        self.fabric.speed_up("a", "b")
        said, took = self.client(20)
        self.assertEqual(said, "ok")
        self.assertLess(float(took), 0.4)


CLIENT = """
import socket, sys, time
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3])) as client:
        began = time.monotonic()
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        print("ok", time.monotonic() - began)
except OSError as error:
    print(type(error).__name__)
"""


class WholeProgram(Folder):
    def start(self, *arguments, **more):
        process = subprocess.Popen(
            [TORTURE, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**{name: value for name, value in os.environ.items() if name != private.INSIDE},
                 "TMPDIR": str(self.folder)}, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def surroundings(self):
        """What it could leave behind; its processes are those that name our folder."""
        processes = set()
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.folder) in path.read_bytes().decode(errors="replace"):
                    processes.add(path.parent.name)
            except OSError:
                continue
        return (processes, pathlib.Path("/proc/mounts").read_text(),
                os.listdir("/sys/class/net"),
                os.listdir("/run/netns") if os.path.isdir("/run/netns") else [])

    def end_by(self, signal_number, *arguments):
        before = self.surroundings()
        process = self.start(*arguments, "--minutes", "5", "--seed", "1")
        for line in process.stdout:
            if "worker" in line and " for " in line:
                break  # a fault that goes on
        else:
            self.fail("it ended by itself")
        self.assertNotEqual(self.surroundings()[0], before[0])
        process.send_signal(signal_number)
        process.stdout.read()
        process.wait(60)
        wait_for("its processes to end", lambda: self.surroundings()[0] == before[0], 30)
        self.assertEqual(self.surroundings(), before)
        return process.returncode

    def test_ctrl_c_and_sigterm_leave_nothing_behind(self):
        self.assertEqual(self.end_by(signal.SIGINT), 130)
        self.assertEqual(self.end_by(signal.SIGTERM), 130)
        self.assertEqual(list(self.folder.iterdir()), [])

    @unittest.skipIf(WHY_NOT, f"no namespaces: {WHY_NOT}")
    def test_ctrl_c_leaves_no_network_behind(self):
        self.assertEqual(self.end_by(signal.SIGINT, "--network-namespaces"), 130)
        self.assertEqual(list(self.folder.iterdir()), [])

    @unittest.skipIf(WHY_NOT, f"no namespaces: {WHY_NOT}")
    def test_sigkill_leaves_no_process_mount_or_network_behind(self):
        self.assertEqual(self.end_by(signal.SIGKILL, "--network-namespaces"), -signal.SIGKILL)

    @unittest.skipIf(os.geteuid() != 0, "cannot become nobody")
    def test_namespaces_are_refused_to_those_who_are_not_root(self):
        process = self.start("--network-namespaces", "--minutes", "0.01", user=65534)
        self.assertEqual(process.stdout.read(),
                         "scripts/torture: no --network-namespaces: that needs root\n")
        self.assertEqual(process.wait(60), 2)

    def test_an_unknown_fault_is_refused(self):
        process = self.start("--faults", "flood", "--minutes", "0.01")
        self.assertIn("no such fault here: flood", process.stdout.read())
        self.assertEqual(process.wait(60), 2)

    def test_a_lost_row_fails_the_run_which_keeps_all_and_says_how_to_repeat_it(self):
        driver = self.folder / "driver.py"
        driver.write_text(DRIVER.format(here=str(HERE)))
        process = subprocess.run(
            [sys.executable, "-B", str(driver), "--minutes", "0.05", "--seed", "3"], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
            env={**{name: value for name, value in os.environ.items() if name != private.INSIDE},
                 "TMPDIR": str(self.folder)})
        self.assertEqual(process.returncode, 1, process.stdout)
        self.assertRegex(process.stdout, r"FAILED after \d+ s: AssertionError: .*/out/job-0-\d")
        self.assertIn("again: scripts/torture --minutes 0.05 --seed 3", process.stdout)
        kept = pathlib.Path(re.search(r"kept: (.*)", process.stdout)[1])
        logs = [path.read_text() for path in kept.glob("*-coordinator-*.log")]
        self.assertTrue(any("leads as coordinator" in log for log in logs))
        if WHY_NOT is None:
            self.assertTrue(list(kept.glob("output-at-the-end/job-0-0/*")))
            self.assertTrue(list(kept.glob("checkpoints-at-the-end/*/log")))


# A file of the result vanishes before it is checked.
DRIVER = """
import sys
sys.path[:0] = [{here!r}]
import torture
def less(check):
    def check_less(output, **more):
        torture.visible(output)[-1].unlink()
        return check(output, **more)
    return check_less
torture.check_generated = less(torture.check_generated)
torture.check_flights = less(torture.check_flights)
torture.Watch.__exit__ = lambda *_: None
for name in ("generator_job", "flights_job"):
    job = getattr(torture, name)
    setattr(torture, name, lambda *all, job=job, **more: job(*all, **dict(more, rate=20000)))
sys.exit(torture.main())
"""


if __name__ == "__main__":
    if WHY_NOT is None:
        private.enter()
    unittest.main(verbosity=2)
