"""Goal: addresses of every kind work end to end, and what cannot work is said at once with both
sides' names.

Method: real processes; a job of two workers, so that rows cross the data plane.
"""

import socket
import unittest

from cluster import Cluster, free_port, wait_for
from jobs import FLIGHTS_ROWS, check_flights, flights_job


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


class QuickNetwork(unittest.TestCase):
    @unittest.skipUnless(has_ipv6(), "there is no IPv6 loopback here")
    def test_a_cluster_on_ipv6_literals(self):
        with Cluster() as cluster:
            cluster.hosts = ["[::1]"]
            cluster.start_coordinator()
            for _ in range(2):
                cluster.start_worker(slots=1, flags=("--listen", "[::1]:0"))
            cluster.wait_for_workers(2)
            for worker in cluster.ask("workers"):
                self.assertRegex(worker["control_address"], r"^\[::1\]:\d+$")
                self.assertRegex(worker["data_address"], r"^\[::1\]:\d+$")
            output = cluster.folder / "out"
            job = cluster.submit(flights_job(output, parallelism=2))
            status = cluster.finish(job)
            self.assertEqual(len({subtask["worker"] for vertex in status["vertices"]
                                  for subtask in vertex["subtasks"]}), 2)
            self.assertEqual(check_flights(output), FLIGHTS_ROWS)

    def test_two_workers_of_one_name(self):
        with Cluster(workers=1) as cluster:
            second = cluster.start_worker(name="worker-1")
            first = cluster.workers[0]
            wait_for("the refusal", lambda: "not registered" in second.log_text(), 10)
            self.assertRegex(second.log_text(),
                             rf"not registered: coordinator {cluster.addresses()[0]}: a worker "
                             rf"named worker-1 is alive on host \S+ \(pid {first.pid}\): give "
                             r"this one another name")
            # It ends with an error when that does not change; the first one is not disturbed.
            self.assertEqual(second.process.wait(40), 1)
            self.assertIn("ends at once: ", second.log_text())
            self.assertEqual([worker["pid"] for worker in cluster.ask("workers")], [first.pid])

    def test_a_peer_that_is_no_weir(self):
        """A coordinator address where something else answers."""
        with socket.socket() as other, Cluster() as cluster:
            port = free_port()
            other.bind(("127.0.0.1", port))
            other.listen()
            cluster.ports = [port]
            result = cluster.weir("list", as_json=False, seconds=40)
            self.assertEqual(result.code, 4)
            self.assertIn(f"127.0.0.1:{port}", result.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
