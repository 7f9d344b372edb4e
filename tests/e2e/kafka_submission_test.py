"""Goal: a job that may not do at the brokers what it asks for is refused when it is submitted,
within five seconds, naming both sides; so is one whose brokers leave one question unanswered. What
docs/kafka.md says is enough, is enough.

Method: a broker of its own with users that have everything that is needed but one thing each; a
proxy that holds one kind of answer.
"""

import unittest

import kafka_jobs
from cluster import Cluster, wait_for
from kafka_jobs import (FileInput, KafkaInput, check_counts, check_nothing_is_open, copy_job,
                        count_job, files_sink, made, sink_of, timed, wait_for_visible)

REFUSED_S = 5
PASSWORD = "secret"
# What docs/kafka.md tells to grant; {} is the user's name.
NEEDED = {
    "topic_out_write": ("WRITE", "topic", "out-{}"),
    "topic_out_read": ("READ", "topic", "out-{}"),
    "id_write": ("WRITE", "transactional_id", "{}-*"),
    "group_out_read": ("READ", "group", "{}-*"),
    "topic_in_read": ("READ", "topic", "in-*"),
    "group_in_read": ("READ", "group", "positions-{}"),
}
ALL = "everything"


class Case(unittest.TestCase):
    def refused(self, job, brokers, *words):
        result, took = timed(lambda: self.cluster.weir(
            "run", "-d", self.cluster.write_job(job), as_json=False))
        self.assertEqual(result.code, 2, result)
        for word in (brokers, *words):
            self.assertIn(word, result.err)
        self.assertLess(took, REFUSED_S, result.err)

    def one_row(self):
        files = FileInput(self.cluster.folder / kafka_jobs.kafka_broker.unique("in"))
        files.add(made(1))
        return files.vertex()


class Quick(Case):
    @classmethod
    def setUpClass(cls):
        users = [ALL, *(f"no_{missing}" for missing in NEEDED), "stranger", "describes"]
        cls.k = cls.enterClassContext(kafka_jobs.kafka(
            users={user: PASSWORD for user in users}))
        cls.cluster = cls.enterClassContext(Cluster(1, slots=4))
        cls.input = KafkaInput(cls.k)
        cls.input.add(made(300))
        for user in users:
            cls.k.client.create_topic(f"out-{user}", 2)
        cls.k.client.allow([
            *((user, operation, kind, name.format(user)) for user in users[:-2]
              for need, (operation, kind, name) in NEEDED.items() if user != f"no_{need}"),
            ("describes", "DESCRIBE", "topic", "in-*"), ("describes", "DESCRIBE", "topic", "out-*"),
            ("describes", "READ", "group", "positions-*"), ("describes", "WRITE", "transactional_id", "describes-*")])

    def login(self, user, password=PASSWORD):
        return {"brokers": self.k.broker.secured_bootstrap,
                "kafka": {"security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN",
                          "sasl.username": user, "sasl.password": password}}

    def sink(self, user, **more):
        return sink_of(self.k, f"out-{user}", **{
            **self.login(user), "transactional_id_prefix": user, **more})

    def source(self, user, **more):
        return self.input.vertex(**{**self.login(user), "group": f"positions-{user}", **more})

    def from_files(self, user, **more):
        return copy_job(self.one_row(), self.sink(user, **more))

    def to_files(self, user, **more):
        return copy_job(self.source(user, **more), files_sink(self.cluster.folder / "none"))

    def refused_to(self, job, *words):
        self.refused(job, self.k.broker.secured_bootstrap, *words)

    def test_what_the_documentation_grants_is_enough(self):
        job = self.cluster.submit(count_job(self.source(ALL, endless=True), self.sink(ALL)))
        wait_for_visible(self.k, f"out-{ALL}", 300)

        def positions():
            found = self.k.client.group_offsets(f"positions-{ALL}")
            return {offset for offset, _ in found.values()}
        wait_for(lambda: f"positions 75: {positions()}", lambda: positions() == {75})
        self.assertEqual(self.cluster.status(job)["restarts"], 0)
        self.cluster.weir("cancel", job, code=0)
        check_nothing_is_open(self.k, f"out-{ALL}")
        self.assertEqual(check_counts(self.k, f"out-{ALL}", self.input.rows), 300)

    def test_a_sink_s_missing_permission_is_named(self):
        for missing, words in (("topic_out_write", ("WRITE", "topic", "out-no_topic_out_write")),
                               ("topic_out_read", ("READ", "topic", "out-no_topic_out_read")),
                               ("id_write", ("WRITE", "transactional id", "no_id_write-out-0")),
                               ("group_out_read", ("READ", "group", "no_group_out_read-out-0"))):
            with self.subTest(missing=missing):
                self.refused_to(self.from_files(f"no_{missing}"), *words)

    def test_a_source_s_missing_permission_is_named(self):
        for missing, words in (("topic_in_read", ("READ", "topic", self.input.topic)),
                               ("group_in_read", ("READ", "group", "positions-no_group_in_read"))):
            with self.subTest(missing=missing):
                self.refused_to(self.to_files(f"no_{missing}"), *words)

    def test_topics_that_may_only_be_seen_or_not_even_that(self):
        for user, words in (("describes", ("READ", "WRITE")),
                            ("stranger", ("may not be seen", "DESCRIBE"))):
            with self.subTest(user=user):
                self.refused_to(self.to_files(user), self.input.topic, words[0])
                self.refused_to(self.from_files(user), f"out-{user}", words[-1])

    def test_a_wrong_password_is_refused(self):
        for job in (self.to_files(ALL, **self.login(ALL, "guess")),
                    self.from_files(ALL, **self.login(ALL, "guess"))):
            self.refused_to(job, "uthentication failed")

    def test_at_least_once_needs_to_write_only(self):
        files = FileInput(self.cluster.folder / "in-least")
        files.add(made(10))
        jobs = [self.cluster.submit(copy_job(files.vertex(), sink_of(
            self.k, f"out-{user}", delivery="at_least_once", **self.login(user))))
            for user in ("no_id_write", "no_topic_out_write")]
        self.cluster.finish(jobs[0])
        self.assertEqual(len(self.k.client.read_topic("out-no_id_write")), 10)
        # Only a row can tell.
        failure = str(self.cluster.wait_for_state(jobs[1], "FAILED")["failure"])
        for word in ("WRITE", "out-no_topic_out_write"):
            self.assertIn(word, failure)


class Long(Case):
    def test_brokers_that_leave_a_question_unanswered(self):
        with kafka_jobs.kafka(proxy=True) as k, Cluster(1) as self.cluster:
            brokers, rows = {"brokers": k.broker.proxied_bootstrap}, KafkaInput(k)
            reading = copy_job(rows.vertex(**brokers), files_sink(self.cluster.folder / "none"))
            writing = copy_job(self.one_row(), sink_of(k, k.topic("out")))
            for job, apis in (
                    (reading, ("Metadata", "FindCoordinator", "OffsetFetch", "OffsetCommit")),
                    (writing, ("Metadata", "InitProducerId", "AddPartitionsToTxn",
                               "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"))):
                for api in apis:
                    with self.subTest(api=api, job=job["vertices"][-1]["type"]):
                        held = k.proxy.rule(api, at="answer", count=None)
                        try:
                            self.refused(job, k.broker.proxied_bootstrap)
                            self.assertTrue(held.hits)
                        finally:
                            held.remove()

    def test_slow_brokers_that_leave_the_last_question_unanswered(self):
        with kafka_jobs.kafka(proxy=True) as k, Cluster(1) as self.cluster:
            k.proxy.rule("Metadata", at="answer", action="delay", seconds=0.8, count=None)
            held = k.proxy.rule("InitProducerId", at="answer", count=None)
            self.refused(copy_job(self.one_row(), sink_of(k, k.topic("out"))),
                         k.broker.proxied_bootstrap)
            self.assertTrue(held.hits)


if __name__ == "__main__":
    unittest.main(verbosity=2)
