"""Goal: damaged storage is named, with path and what was wanted and found; nothing starts from empty
or from an older checkpoint by itself; what can be put back heals the job.

Method: everything is killed in the middle of a job, one file is damaged, everything starts again.
"""

import shutil
import unittest

from cluster import Cluster, last_checkpoint
from jobs import check_generated, generator_job, visible

# So many at that rate that the job cannot come to its end before everything is killed, however
# slow the machine is.
ROWS = 600_000
RATE = 6000


class QuickDamage(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(workers=2)
        self.cluster.__enter__()
        self.addCleanup(lambda: self.cluster.__exit__(None, None, None))
        self.output = self.cluster.folder / "out"
        self.job = self.cluster.submit(generator_job(
            self.output, rows=ROWS, rate=RATE, options={"restart.backoff_max": "500ms"}))
        self.cluster.wait_for_checkpoint(self.job, 3)
        for daemon in self.cluster.daemons:
            daemon.kill()
        self.shown = {path.name: path.read_bytes() for path in visible(self.output)}
        self.assertNotEqual(self.shown, {})

    def start_again(self):
        self.cluster.start_coordinator(flags=("--take-over",))
        for _ in range(2):
            self.cluster.start_worker()

    def newest(self):
        """The directory of the checkpoint that the log says completed last: a newer manifest may be
        there that counts for nothing."""
        checkpoint, generation = max(
            (entry["checkpoint"], entry["generation"])
            for entries in self.cluster.terms(self.job).values() for entry in entries.values()
            if entry["kind"] == "COMPLETED")
        return self.cluster.job_dir(self.job) / f"chk-{checkpoint}.{generation}"

    def state_file(self, kind):
        return next(self.newest().glob(f"*-{kind}"))

    def expect_failed(self, *parts):
        """FAILED by that reason, and nothing has become visible or has gone."""
        self.start_again()
        status = self.cluster.wait_for_state(self.job, "FAILED", seconds=30)
        for part in parts:
            self.assertIn(str(part), status["failure"]["message"])
        now = {path.name: path.read_bytes() for path in visible(self.output)}
        # What the newest checkpoint lists may have been published when the job ended.
        for name, content in self.shown.items():
            self.assertEqual(now[name], content)
        rows = check_generated(self.output, ROWS, complete=False)
        self.assertLess(rows, ROWS)
        text = self.cluster.weir("status", self.job, as_json=False, code=0).out
        self.assertIn(str(parts[0]), text)
        return status

    def test_a_cut_state_file(self):
        path = self.state_file("keyed")
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        self.expect_failed(path, f"has {len(content) - 1} bytes, its checkpoint says "
                           f"{len(content)}")

    def test_a_flipped_bit_in_a_state_file(self):
        path = self.state_file("positions")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        self.expect_failed(path, "is damaged: checksum ", ", its checkpoint says ")

    def test_a_state_file_that_is_not_there_is_waited_for(self):
        path = self.state_file("keyed")
        away = self.cluster.folder / "away"
        path.rename(away)
        self.start_again()
        status = self.cluster.wait_for_status(
            "its name in the status", self.job,
            lambda s: s["failure"] and str(path) in s["failure"]["message"], seconds=30)
        self.assertIn("No such file or directory", status["failure"]["message"])
        self.assertNotEqual(status["state"], "FAILED")
        shown = check_generated(self.output, ROWS, complete=False)
        away.rename(path)
        self.cluster.wait_for_checkpoint(self.job, last_checkpoint(status) + 2)
        self.cluster.weir("cancel", self.job, code=0)
        self.cluster.wait_for_state(self.job, "CANCELED")
        # Each key is counted on from where it was: nothing started from less.
        self.assertGreater(check_generated(self.output, ROWS, complete=False), shown)

    def test_a_flipped_bit_in_a_manifest(self):
        path = self.newest() / "_metadata"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        self.expect_failed(path, "its checksum does not hold")

    def test_a_deleted_completion_log(self):
        log = self.cluster.job_dir(self.job) / "log"
        newest = self.newest()
        shutil.rmtree(log)
        status = self.expect_failed(f"completion log {log} does not exist")
        self.assertEqual(last_checkpoint(status), 0)
        self.assertFalse(log.exists())
        # Nothing was taken away: the checkpoint can be started from.
        self.assertTrue((newest / "_metadata").exists())

    def test_deleted_entries_of_the_completion_log(self):
        # All that tells of the checkpoints that have published. The entry of the one before the
        # newest goes too, if it is still there: whether it was pruned in time is chance.
        for term, entries in self.cluster.terms(self.job).items():
            for number, entry in entries.items():
                if entry["kind"] == "COMPLETED":
                    (self.cluster.job_dir(self.job) / "log" / f"{term:06}" / f"{number:010}").unlink()
        status = self.expect_failed("its completion log has lost entries")
        self.assertIn("was published by checkpoint", status["failure"]["message"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
