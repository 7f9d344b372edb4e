"""Goal: without any failure, a job takes each record once, commits all of it and then is FINISHED.

Method: the flights and generated rows on a cluster of processes; the output compared with what the
input alone says.
"""

import csv
import json
import time
import unittest

import together
from cluster import Cluster, last_checkpoint
from jobs import (FLIGHTS, FLIGHTS_ROWS, check_flights, check_generated, flights_job, generator_job,
                  visible)


class StraightCase(unittest.TestCase):
    def run_flights(self, workers=2, **options):
        with Cluster(workers) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, **options))
            status = cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)
            self.assertEqual(status["restarts"], 0)
            self.assertEqual(cluster.leftovers(job), [])
            suffix = {"json": ".jsonl", "csv": ".csv"}[options.get("format", "json")]
            self.assertEqual({path.suffix for path in visible(output)}, {suffix})
            return status


class Quick(StraightCase):
    def test_flights_with_checkpoints_all_the_time(self):
        status = self.run_flights(parallelism=2, rate=12000, interval="20ms")
        self.assertGreater(last_checkpoint(status), 10)

    def test_flights_at_parallelism_4_as_csv(self):
        self.run_flights(parallelism=4, format="csv", interval="50ms")

    def test_flights_at_parallelism_1_on_one_worker(self):
        self.run_flights(workers=1, parallelism=1)

    def test_ten_records_and_an_interval_of_ten_minutes(self):
        for interval in ("10min", "off"):
            with self.subTest(interval=interval), Cluster(2) as cluster:
                source, output = cluster.folder / "in", cluster.folder / "out"
                source.mkdir()
                lines = (FLIGHTS / "data/part-0.csv").read_text().splitlines(keepends=True)
                (source / "part-0.csv").write_text("".join(lines[:11]))
                start = time.monotonic()
                job = cluster.submit(flights_job(output, source=source / "part-*.csv",
                                                 interval=interval, parallelism=2))
                cluster.finish(job)
                self.assertEqual(check_flights(output, source), 10)
                self.assertLess(time.monotonic() - start, 30)

    def test_an_input_without_rows_gives_no_file(self):
        with Cluster(1) as cluster:
            source, output = cluster.folder / "in", cluster.folder / "out"
            source.mkdir()
            header = (FLIGHTS / "data/part-0.csv").read_text().splitlines(keepends=True)[0]
            (source / "part-0.csv").write_text(header)
            job = cluster.submit(flights_job(output, source=source / "part-*.csv"))
            cluster.finish(job)
            self.assertEqual(visible(output), [])

    def test_generated_rows(self):
        with Cluster(2) as cluster:
            output = cluster.folder / "out"
            job = cluster.submit(generator_job(output, rows=20000, rate=40000, interval="100ms"))
            cluster.finish(job)
            self.assertEqual(check_generated(output, 20000), 20000)


class Long(StraightCase):
    def test_flights_in_every_shape(self):
        for parallelism in (1, 2, 4, 7):
            for format in ("json", "csv"):
                for interval in ("10ms", "200ms", "off"):
                    for rate in (None, 20000):
                        with self.subTest(parallelism=parallelism, format=format,
                                          interval=interval, rate=rate):
                            self.run_flights(workers=4, parallelism=parallelism, format=format,
                                             interval=interval, rate=rate)

    def test_flights_read_from_json(self):
        with Cluster(2) as cluster:
            source, output = cluster.folder / "in", cluster.folder / "out"
            source.mkdir()
            for part in sorted((FLIGHTS / "data").glob("part-*.csv")):
                with open(part, newline="") as rows, \
                        open(source / f"{part.stem}.jsonl", "w") as lines:
                    for row in csv.DictReader(rows):
                        delay = int(row["dep_delay"]) if row["dep_delay"] else None
                        lines.write(json.dumps({"carrier": row["carrier"], "dep_delay": delay,
                                                "row_id": int(row["row_id"]), "x": [1, {}]}) + "\n")
            job = cluster.submit(flights_job(output, source=source / "*.jsonl", parallelism=3,
                                             source_config={"format": "json"}))
            cluster.finish(job)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_several_jobs_at_once(self):
        with Cluster(3, slots=4) as cluster:
            jobs = []
            for number in range(4):
                output = cluster.folder / f"out-{number}"
                jobs.append((cluster.submit(flights_job(output, name=f"flights-{number}",
                                                        rate=9000, parallelism=3)), output))
            for job, output in jobs:
                cluster.finish(job)
                self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_keys_that_are_few_and_hot(self):
        for distribution in ("uniform", "zipf", "hot"):
            with self.subTest(distribution=distribution), Cluster(2) as cluster:
                output = cluster.folder / "out"
                job = cluster.submit(generator_job(output, rows=300000, rate=200000, keys=1000,
                                                   parallelism=4, distribution=distribution))
                cluster.finish(job)
                self.assertEqual(check_generated(output, 300000), 300000)


if __name__ == "__main__":
    together.main()
