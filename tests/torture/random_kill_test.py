"""Goal: exactly once, whoever dies whenever: a worker, several, the coordinator, all at once.

Method: seeded SIGKILLs while the flights and generated rows run; the output is compared with what
the input says, and each visible file is watched.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import together  # noqa: E402
from chaos import Chaos  # noqa: E402
from cluster import Cluster, end_of  # noqa: E402
from jobs import (FLIGHTS_ROWS, Watch, check_flights, check_generated, flights_job,  # noqa: E402
                  generator_job)

KILLS = ("worker", "workers", "coordinator", "everything")


class RandomKillCase(unittest.TestCase):
    def storm(self, seed, kinds, faults, rate=4500, coordinators=1, rest=(0.3, 1.5)):
        with Cluster(coordinators=coordinators) as cluster:
            chaos = Chaos(cluster, seed, workers=3, kinds=kinds)
            chaos.start()
            flights, made = cluster.folder / "flights", cluster.folder / "made"
            rows = int(rate * 4)
            with Watch(flights), Watch(made):
                jobs = [cluster.submit(flights_job(flights, rate=rate, parallelism=2,
                                                   interval="100ms", part_size_max="16KiB")),
                        cluster.submit(generator_job(made, rows=rows, rate=rate, parallelism=3,
                                                     interval="150ms"))]
                for _ in range(faults):
                    chaos.rest(chaos.random.uniform(*rest))
                    chaos.step()
                chaos.calm()
                ends = [end_of(cluster.finish(job, 180)) for job in jobs]
            if not any(kind.endswith("_paused") for kind in kinds):
                ends = [None, None]
            self.assertEqual(check_flights(flights, ended=ends[0]), FLIGHTS_ROWS)
            self.assertEqual(check_generated(made, rows, ended=ends[1]), rows)
            for job, ended in zip(jobs, ends):
                self.assertEqual(cluster.leftovers(job, ended), [])


class Quick(RandomKillCase):
    def test_workers_die(self):
        self.storm(seed=1, kinds=("worker", "workers"), faults=5)

    def test_the_coordinator_and_all_at_once(self):
        self.storm(seed=2, kinds=("coordinator", "everything"), faults=4)


class Long(RandomKillCase):
    def test_kills(self):
        for seed in range(100, 112):
            with self.subTest(seed=seed):
                self.storm(seed, KILLS, faults=10)

    def test_kills_in_quick_succession(self):
        for seed in range(200, 206):
            with self.subTest(seed=seed):
                self.storm(seed, KILLS, faults=20, rest=(0.0, 0.3))

    def test_kills_and_pauses_with_a_second_coordinator(self):
        for seed in range(300, 308):
            with self.subTest(seed=seed):
                self.storm(seed, Chaos.KINDS, faults=10, coordinators=2)


if __name__ == "__main__":
    together.main()
