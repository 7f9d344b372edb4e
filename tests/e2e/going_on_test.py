"""Goal: what goes on where something else stopped takes each record once: a source that follows
growing files, a job that starts from the kept checkpoint of another, at another parallelism; and a
whole cluster of one command.

Method: the rows of both parts together must be what one run over all of the input would give.
"""

import pathlib
import signal
import time
import unittest

import together
from cluster import Cluster, wait_for
from jobs import (FLIGHTS, FLIGHTS_ROWS, Watch, check_flights, check_generated, endless_job,
                  flights_job, hidden, read_rows, visible)


class Quick(unittest.TestCase):
    def test_growing_and_new_files_are_followed_across_kills(self):
        with Cluster(2) as cluster:
            source, output = cluster.folder / "in", cluster.folder / "out"
            source.mkdir()
            parts = sorted((FLIGHTS / "data").glob("part-*.csv"))
            texts = [part.read_bytes() for part in parts]
            first = texts[0]
            (source / parts[0].name).write_bytes(first[:1000])
            job = cluster.submit(flights_job(
                output, source=source / "part-*.csv", parallelism=4,
                source_config={"follow": True, "follow_interval": "50ms"}))
            cluster.wait_for_state(job, "RUNNING")
            with Watch(output):
                # In pieces that end in the midst of a line.
                with open(source / parts[0].name, "ab", buffering=0) as file:
                    for at in range(1000, len(first), 100001):
                        file.write(first[at:at + 100001])
                        time.sleep(0.1)
                cluster.workers[0].kill()
                cluster.start_worker()
                for part, text in zip(parts[1:], texts[1:]):
                    (source / f".{part.name}").write_bytes(text)
                    (source / f".{part.name}").rename(source / part.name)
                    time.sleep(0.3)
                cluster.coordinators[0].kill()
                cluster.start_coordinator()
                wait_for("all rows", lambda: sum(1 for _ in read_rows(output)) >= FLIGHTS_ROWS,
                         poll_s=0.3)
                cluster.wait_for_state(job, "RUNNING")
                cluster.weir("cancel", job, code=0)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_a_job_starts_from_the_kept_checkpoint_of_another(self):
        with Cluster(3) as cluster:
            one, two = cluster.folder / "one", cluster.folder / "two"
            job = cluster.submit(endless_job(one, name="one", parallelism=2, rate=20000,
                                             options={"checkpoint.on_cancel": "keep"}))
            cluster.wait_for_checkpoint(job, 3)
            path = cluster.write_job(endless_job(two, name="two", parallelism=3, rate=20000),
                                     "2.json")
            live = next((cluster.job_dir(job)).glob("chk-*"))
            refused = cluster.weir("run", "-d", path, "--from", live, as_json=False)
            self.assertEqual(refused.code, 2, refused)  # its job still runs
            cluster.weir("cancel", job, code=0)
            kept = cluster.status(job)["retained_checkpoint"]
            self.assertTrue(pathlib.Path(kept).is_dir(), kept)
            before = check_generated(one, 0, complete=False)
            self.assertGreater(before, 0)
            result = cluster.weir("run", "-d", path, "--from", kept, code=0)
            second = result.json["id"]
            cluster.wait_for_checkpoint(second, 2)
            cluster.workers[0].kill()
            cluster.start_worker()
            cluster.wait_for_status("more rows", second, lambda s: s["state"] == "RUNNING" and
                                    sum(1 for _ in read_rows(two)) > 10000)
            cluster.weir("remove", job, code=0)  # the second one has what it needs
            generation = cluster.status(second)["generation"]
            cluster.workers[1].kill()
            cluster.start_worker()
            cluster.wait_for_status("a restart", second, lambda s: s["state"] == "RUNNING" and
                                    s["generation"] > generation)
            cluster.weir("cancel", second, code=0)
            both = cluster.folder / "both"
            both.mkdir()
            for folder in (one, two):
                for file in visible(folder):
                    file.rename(both / file.name)
            self.assertGreater(check_generated(both, 0, complete=False), before)
            self.assertEqual(hidden(two), [])

    def test_what_is_not_ours_stays_in_the_output_directory(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, rate=8000, parallelism=4))
            cluster.wait_for_checkpoint(job, 2)
            other = "0" * 32
            foreign = [".mine", f".weir-{other}-g1-0-0-out.pending",
                       f".weir-{job}-g1-0-0-another.pending"]
            for name in foreign:
                (output / name).write_text("mine")
            cluster.workers[0].kill()
            cluster.start_worker()
            cluster.finish(job)
            self.assertEqual(sorted(hidden(output)), sorted(foreign))
            for name in foreign:
                (output / name).unlink()
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_a_whole_cluster_of_one_command(self):
        with Cluster() as cluster:
            local = cluster.attach("local", "-w", "2", "-s", "2", "--port", "0")
            lines = [local.stdout.readline() for _ in range(3)]
            self.assertTrue(lines[0].startswith("coordinator"), lines)
            address = lines[0].split()[1]
            pids = [int(line.split()[line.split().index("pid") + 1]) for line in lines]
            cluster.ports = [int(address.rpartition(":")[2])]
            # Its folder is its own as long as it runs, whatever another one is told to clean.
            second = cluster.attach("local", "-w", "0", "--port", "0", "--clean")
            _, refusal = second.communicate(timeout=30)
            self.assertEqual(second.returncode, 1, refusal)
            self.assertIn("another local cluster runs in", refusal)
            output = cluster.folder / "out"
            result = cluster.weir("run", cluster.write_job(flights_job(output, parallelism=4)),
                                  code=0)
            self.assertEqual(result.json["state"], "FINISHED")
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)
            local.send_signal(signal.SIGINT)
            out, err = local.communicate(timeout=30)
            self.assertIn(local.returncode, (0, 130), out + err)
            for pid in pids:
                self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), f"{pid} still runs")


if __name__ == "__main__":
    together.main()
