"""Goal: a disk that is full, read-only, away or hanging is shown within ten seconds with reason,
path and since when; checkpoints fail or wait, no finished file is short; and the job goes on by
itself when the disk is well again, each row once.

Method: checkpoint and output directory are small disks of their own; the job is endless, and
cancelled at the end: from each split of its source the first rows must be in the output, without a
gap and without a double.
"""

import collections
import datetime
import os
import sys
import time
import unittest

from cluster import KILL_BIN_DIR, Cluster, brief, last_checkpoint, wait_for
from disks import SmallDisk, go_private, unavailable
from jobs import check_clean, check_generated, endless_job, read_rows, visible

REASON = unavailable()
SHOWN_S = 10  # from the trouble to the first sight of it
FULL = "No space left on device"
READ_ONLY = "Read-only file system"
AWAY = "No such file or directory"
RATE = 2000  # fills no disk by itself in the time that a test may take
SPLITS = 8


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Case(unittest.TestCase):
    def submit(self, cluster, output, **options):
        job = endless_job(output, rate=RATE, options={"restart.backoff_max": "500ms", **options})
        job["vertices"][0]["config"]["splits"] = SPLITS
        return cluster.submit(job)

    def cancel(self, cluster, job, output, seen_before):
        """Ends the job. `seen_before`: names of files, to which it has added."""
        cluster.weir("cancel", job, code=0)
        self.assertEqual(cluster.status(job)["state"], "CANCELED")
        self.assertGreater({path.name for path in visible(output)}, set(seen_before))
        check_clean(output)
        check_generated(output, 0, complete=False)
        seqs = collections.defaultdict(list)
        for row in read_rows(output):
            seqs[row["seq"] % SPLITS].append(row["seq"])
        for split, own in seqs.items():
            self.assertEqual(sorted(own), list(range(split, SPLITS * len(own), SPLITS)))
        self.assertEqual(cluster.leftovers(job), [])


@unittest.skipIf(REASON, REASON)
class QuickDisk(Case):
    def run_with_a_sick_disk(self, which, make_sick, make_well, signs, hold_s=1, waits=False):
        """`signs`: texts of which all must be shown, anywhere in the status. `waits`: the sink
        waits, and the checkpoint under way with it; else checkpoints fail."""
        with Cluster(workers=0) as cluster, \
                SmallDisk(cluster.checkpoint_dir) as checkpoints, \
                SmallDisk(cluster.folder / "out", "32m") as output:
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker()
            cluster.wait_for_workers(2)
            disk = {"checkpoints": checkpoints, "output": output}[which]
            job = self.submit(cluster, output.path)
            cluster.wait_for_checkpoint(job, 2)
            seen_before = {path.name: path.stat().st_size for path in visible(output.path)}
            sick = time.time()
            make_sick(disk)
            status = self.wait_for_signs(cluster, job, signs, sick)
            print(f"{which}: shown after {time.time() - sick:.1f} s: {troubles(status)}",
                  file=sys.stderr)
            failed = last_checkpoint(status) if waits else \
                self.failed_checkpoints(cluster, job, signs, disk)
            time.sleep(hold_s)
            if waits:
                self.assertIn(signs[0], cluster.status(job)["waiting_for"])
            if which == "output" and disk.path.is_dir() and visible(disk.path):
                # Whatever is finished is whole: each line is a row.
                for _ in read_rows(disk.path):
                    pass
            make_well(disk)
            well = cluster.wait_for_status(
                "a checkpoint after the trouble", job,
                lambda s: last_checkpoint(s) > failed and s["state"] == "RUNNING"
                and not s["waiting_for"] and not s["failing_checkpoints"], seconds=60)
            print(f"{which}: well again: {brief(well)}", file=sys.stderr)
            if waits:
                self.assertEqual(well["restarts"], 0, well)
            self.cancel(cluster, job, output.path, seen_before)
            for name, size in seen_before.items():
                self.assertEqual((output.path / name).stat().st_size, size, name)

    def wait_for_signs(self, cluster, job, signs, since):
        status = wait_for(
            lambda: f"{signs} in the status; last seen: {troubles(cluster.status(job))}",
            lambda: (lambda s: s if s and all(sign in troubles(s) for sign in signs) else None)(
                cluster.status(job)), seconds=SHOWN_S, poll_s=0.1)
        begun = [seconds_of(part["since"]) for part in
                 (status["failure"], status["failing_checkpoints"]) if part]
        if status["waiting_since"]:
            begun.append(seconds_of(status["waiting_since"]))
        self.assertTrue(begun, status)
        self.assertLessEqual(since - 0.1, max(begun))
        self.assertIn(signs[0], cluster.weir("status", job, as_json=False, code=0).out)
        return status

    def failed_checkpoints(self, cluster, job, signs, disk):
        """The highest failed one that says why."""
        def look():
            return [one["id"] for one in cluster.checkpoints(job) or []
                    if one["state"] == "failed" and signs[0] in one["failure_reason"]]
        return max(wait_for("a failed checkpoint that says why", look, seconds=20))

    # -- the checkpoint directory ----------------------------------------------------------------

    def test_a_full_checkpoint_directory(self):
        self.run_with_a_sick_disk("checkpoints", SmallDisk.fill, SmallDisk.free,
                                  [FULL, "/checkpoints/"])

    def test_a_read_only_checkpoint_directory(self):
        self.run_with_a_sick_disk("checkpoints", lambda disk: disk.read_only(True),
                                  lambda disk: disk.read_only(False),
                                  [READ_ONLY, "/checkpoints/"])

    def test_a_checkpoint_directory_that_is_unmounted_and_mounted_again(self):
        self.run_with_a_sick_disk("checkpoints", SmallDisk.unmount, SmallDisk.mount,
                                  [AWAY, "/checkpoints/"], hold_s=2)

    # -- the output directory --------------------------------------------------------------------

    def test_a_full_output_directory(self):
        self.run_with_a_sick_disk("output", SmallDisk.fill, SmallDisk.free, [FULL, "/out/"],
                                  waits=True)

    def test_a_read_only_output_directory(self):
        self.run_with_a_sick_disk("output", lambda disk: disk.read_only(True),
                                  lambda disk: disk.read_only(False), [READ_ONLY, "/out/"],
                                  waits=True)

    def test_an_output_directory_that_is_unmounted_and_mounted_again(self):
        self.run_with_a_sick_disk("output", SmallDisk.unmount, SmallDisk.mount,
                                  ["/out"], hold_s=2)


class QuickHanging(Case):
    """Calls about one of the directories do not come back for a while (hanging_disk.cc)."""

    def hang(self, which, whose):
        with Cluster(workers=0) as cluster:
            below = {"checkpoints": cluster.checkpoint_dir, "output": cluster.folder / "out"}[which]
            flag = cluster.folder / "hangs"
            # Of the AddressSanitizer build: its runtime need not be the first library.
            asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
            cluster.environment = {"LD_PRELOAD": str(KILL_BIN_DIR / "hanging_disk.so"),
                                   "ASAN_OPTIONS": asan,
                                   "WEIR_HANG_BELOW": str(below), "WEIR_HANG_WHILE": str(flag)}
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker()
            cluster.wait_for_workers(2)
            output = cluster.folder / "out"
            job = self.submit(cluster, output, **{"checkpoint.timeout": "1s"})
            cluster.wait_for_checkpoint(job, 2)
            seen_before = [path.name for path in visible(output)]
            hung = time.time()
            flag.touch()
            status = wait_for(
                lambda: f"{whose} in the status; last seen: {troubles(cluster.status(job))}",
                lambda: (lambda s: s if s and all(sign in (s["waiting_for"] or "")
                                                  for sign in (*whose, str(below)))
                         else None)(cluster.status(job)), SHOWN_S, 0.1)
            print(f"{which} hangs: shown after {time.time() - hung:.1f} s: {troubles(status)}",
                  file=sys.stderr)
            self.assertRegex(status["waiting_for"], r" for \d+ s")
            # Nothing completes meanwhile: what is in progress expires.
            expired = wait_for("an expired checkpoint", lambda: [
                one for one in cluster.checkpoints(job)
                if "expired after 1s" in (one["failure_reason"] or "")], 10)
            self.assertEqual(expired[0]["state"], "failed")
            self.assertEqual(status["failing_checkpoints"]["failures"] > 0, True)
            flag.unlink()
            cluster.wait_for_status(
                "a checkpoint after the trouble", job,
                lambda s: last_checkpoint(s) > expired[-1]["id"] and not s["waiting_for"], 60)
            self.cancel(cluster, job, output, seen_before)

    def test_a_hanging_checkpoint_directory(self):
        self.hang("checkpoints", ("storage of the coordinator: ",))

    def test_a_hanging_output_directory(self):
        self.hang("output", ("storage of worker worker-",))


def troubles(status):
    """All that the status says to be wrong, as one text."""
    if not status:
        return "no answer"
    failing, failure = status["failing_checkpoints"], status["failure"]
    return " | ".join(filter(None, (status["waiting_for"], failing and failing["reason"],
                                    failure and failure["message"])))


if __name__ == "__main__":
    go_private()
    unittest.main(verbosity=2)
