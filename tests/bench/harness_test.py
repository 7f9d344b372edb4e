#!/usr/bin/env python3
"""The harness of scripts/bench without a cluster: arguments, medians, table, checks of results."""

import collections
import contextlib
import dataclasses
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from harness import (  # noqa: E402
    counts, generated, main, registry, row, rows_checkpoint, rows_kafka, rows_latency, rows_tcp, runner,
    table)
from harness.kafka_jobs import read as kafka_read  # noqa: E402
from harness.measurement import (  # noqa: E402
    BenchError, Measurement, WrongResult, of_values, quantile)


def measurement(cpu_rate, rate=0, **values):
    """1000 rows at the given rates."""
    return Measurement(rows=1000, seconds=1000 / rate if rate else 0,
                       cpu_seconds=1000 / cpu_rate if cpu_rate else 0, values=values)


def ratio_row(**fields):
    return row.Row(**{"name": "r", "group": "g", "work": "w", "measure": None, "limit": id,
                      "limit_name": "loop", "goal": 0.5, **fields})


class FakeBench:
    def __init__(self, runs=3):
        self.runs, self.lines, self.space_bytes = runs, [], 1000

    def log(self, text):
        self.lines.append(text)

    def pick(self, full, quick):
        return full

    def require_space(self, what, size_bytes):
        if size_bytes > self.space_bytes:
            raise BenchError(f"{what} needs {size_bytes}")


class Arguments(unittest.TestCase):
    def refused(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as exit:
            main.main(list(arguments))
        self.assertEqual(exit.exception.code, 2)
        return errors.getvalue()

    def test_an_unknown_row_is_refused_with_all_names(self):
        text = self.refused("--only", "count-10k", "nonsense")
        self.assertIn("no row 'nonsense'", text)
        for each in registry.all_rows():
            self.assertIn(each.name, text)

    def test_wrong_values_are_refused(self):
        self.assertIn("'0' is no number from 1 to 100", self.refused("--runs", "0"))
        self.assertIn("no such directory", self.refused("--scratch", "/nonexistent/place"))
        self.assertIn("unrecognized arguments", self.refused("--nonsense"))
        self.assertIn("expected at least one argument", self.refused("--only"))

    def test_only_takes_names_and_patterns_in_the_order_of_the_table(self):
        rows = [ratio_row(name=name) for name in ("count-1", "count-2", "tcp")]
        self.assertEqual([r.name for r in main.choose(rows, ["tcp", "count-?"])],
                         ["count-1", "count-2", "tcp"])
        self.assertEqual([r.name for r in main.choose(rows, ["count-2"])], ["count-2"])
        self.assertEqual(main.choose(rows, []), rows)

    def test_list_prints_every_row(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(main.main(["--list"]), 0)
        names = [line.split()[0] for line in out.getvalue().splitlines()]
        self.assertEqual(names, [each.name for each in registry.all_rows()])


class Ratios(unittest.TestCase):
    def test_the_ratio_is_the_median_of_the_rounds_not_the_ratio_of_medians(self):
        rounds = [(measurement(40), measurement(100)), (measurement(90), measurement(100)),
                  (measurement(30), measurement(50))]
        outcome = row.outcome_of(ratio_row(), rounds)
        self.assertAlmostEqual(outcome.ratio, 0.6)
        self.assertAlmostEqual(outcome.rows_per_cpu_second, 40)
        self.assertAlmostEqual(outcome.limit, 100)
        self.assertIs(outcome.met, True)

    def test_a_goal_is_met_from_itself_on(self):
        rounds = [(measurement(50), measurement(100))]
        self.assertIs(row.outcome_of(ratio_row(goal=0.5), rounds).met, True)
        self.assertIs(row.outcome_of(ratio_row(goal=0.51), rounds).met, False)
        self.assertIsNone(row.outcome_of(ratio_row(goal=None), rounds).met)

    def test_the_figure_of_a_row_is_compared(self):
        rounds = [(measurement(1, rate=90), measurement(1000, rate=100))]
        outcome = row.outcome_of(ratio_row(figure="rows_per_second"), rounds)
        self.assertAlmostEqual(outcome.ratio, 0.9)

    def test_an_absolute_figure_must_stay_below_its_goal(self):
        absolute = ratio_row(limit=None, figure="stall_ms", unit="ms", goal=20)
        rounds = [(measurement(1, stall_ms=ms), None) for ms in (5, 19, 400)]
        outcome = row.outcome_of(absolute, rounds)
        self.assertEqual(outcome.value, 19)
        self.assertIs(outcome.met, True)
        self.assertIs(row.outcome_of(dataclasses.replace(absolute, goal=19), rounds).met, False)
        nothing = row.outcome_of(absolute, [(measurement(1), None)])
        self.assertIs(nothing.met, False)

    def test_the_second_part_of_a_goal_counts(self):
        both = ratio_row(also=lambda found: (f"{len(found)} runs", False))
        outcome = row.outcome_of(both, [(measurement(99), measurement(100))])
        self.assertIs(outcome.met, False)
        self.assertEqual(outcome.note, "1 runs")


class Quantiles(unittest.TestCase):
    def test_the_least_value_that_covers_the_share(self):
        self.assertEqual(of_values([3, 1, 2, 4], 0.5), 2)
        self.assertEqual(of_values([3, 1, 2, 4], 0.51), 3)
        self.assertEqual(of_values(range(1, 101), 0.99), 99)
        self.assertEqual(quantile({10: 98, 20: 1, 30: 1}, 0.99), 20)
        self.assertEqual(quantile([(5, 0.25), (1, 0.75)], 1), 5)

    def test_lines_of_a_file_are_as_old_as_they_say(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "part")
            path.write_text("".join(
                f'{{"key":{i},"due":"2020-01-01T00:00:{i:02}Z","n":1}}\n' for i in range(60)))
            visible = 1577836800 + 70  # 2020-01-01T00:01:10Z
            found = rows_latency.latencies_ms(path, visible, 1577836800 + 10)
        self.assertEqual({ms for ms, _ in found}, {1000 * (70 - i) for i in range(10, 60)})


class Rounds(unittest.TestCase):
    def test_limit_and_weir_run_in_turn_and_what_rows_share_runs_once_a_round(self):
        order = []

        @dataclasses.dataclass(frozen=True)
        class Subject:
            title: str

            def __call__(self, bench):
                order.append(self.title)
                return measurement(10)

        rows = [ratio_row(name="a", measure=Subject("a"), limit=Subject("loop")),
                ratio_row(name="b", measure=Subject("b"), limit=Subject("loop")),
                ratio_row(name="c", measure=Subject("c"), limit=Subject("a")),
                ratio_row(name="d", group="other", measure=Subject("d"), limit=None)]
        outcomes = runner.run(FakeBench(runs=2), rows)
        self.assertEqual(order, ["loop", "a", "b", "c"] * 2 + ["d"] * 2)
        self.assertEqual([outcome.row.name for outcome in outcomes], ["a", "b", "c", "d"])
        self.assertEqual(len(outcomes[0].rounds), 2)

    def test_results_are_checked_before_anything_is_measured(self):
        def wrong(bench):
            raise WrongResult("a row is missing")

        def measure(bench):
            self.fail("measured")
        with self.assertRaises(WrongResult):
            runner.run(FakeBench(), [ratio_row(measure=measure, limit=measure, verify=(wrong,))])

    def test_space_is_asked_for_before_anything_runs(self):
        def measure(bench):
            self.fail("measured")
        with self.assertRaisesRegex(BenchError, "large needs 1001"):
            runner.run(FakeBench(), [ratio_row(measure=measure, limit=measure), ratio_row(
                name="large", measure=measure, limit=measure, scratch_bytes=(1001, 0))])


class Table(unittest.TestCase):
    def outcomes(self):
        fast = ratio_row(name="fast", flink="7.7 M")
        late = ratio_row(name="late", limit=None, limit_name="", figure="p99_ms", unit="ms",
                         goal=120)
        return [row.outcome_of(fast, [(measurement(72.5e6), measurement(145e6))]),
                row.outcome_of(late, [(measurement(0, p99_ms=130.4), None)])]

    def test_a_line_per_row(self):
        header, fast, late = table.table(self.outcomes()).splitlines()
        self.assertEqual(header.split()[0], "name")
        self.assertEqual(fast.split(), ["fast", "72.5", "M", "145", "M", "loop", "0.50", "≥",
                                        "0.5", "yes", "7.7", "M", "w"])
        self.assertEqual(late.split(), ["late", "130", "ms", "<", "120", "ms", "NO", "w"])

    def test_json_has_the_fields_that_were_promised(self):
        fast, late = json.loads(table.as_json(self.outcomes()))
        self.assertEqual((fast["name"], fast["rows_per_cpu_second"], fast["limit"], fast["ratio"],
                          fast["goal"], fast["met"]),
                         ("fast", 72500000, 145000000, 0.5, 0.5, True))
        self.assertIsNone(fast["rows_per_second"])
        self.assertIsNone(fast["rss_mb"])
        self.assertEqual((late["value"], late["unit"], late["met"], late["ratio"], late["limit"]),
                         (130.4, "ms", False, None, None))

    def test_three_digits_of_a_number(self):
        self.assertEqual([table.number(n) for n in (145.2e6, 7.018e6, 99.96e3, 12, 0.0312, None)],
                         ["145 M", "7.02 M", "100 k", "12.0", "0.03", ""])


class Checks(unittest.TestCase):
    COUNT = counts.Count(keys=3, rows_full=1, rows_quick=1)

    def right(self, rows=50):
        found = {}
        for seq in range(rows):
            found.setdefault(generated.key_of(seq, 128, 3), []).append(0)
        return {key: list(range(1, len(some) + 1)) for key, some in found.items()}

    def test_right_counts_pass(self):
        counts.check_counts(self.COUNT, 50, self.right())

    def test_lost_doubled_and_changed_rows_are_noticed(self):
        for spoil in (lambda c: c[0].pop(), lambda c: c[0].append(1), lambda c: c.pop(1),
                      lambda c: c[2].__setitem__(0, 7), lambda c: c.update({9: [1]})):
            spoilt = self.right()
            spoil(spoilt)
            with self.assertRaises(WrongResult):
                counts.check_counts(self.COUNT, 50, spoilt)

    def test_of_changed_keys_the_last_count_must_be_there(self):
        changed = dataclasses.replace(self.COUNT, emit="changed")
        counts.check_counts(changed, 50, {k: some[-1:] for k, some in self.right().items()})
        with self.assertRaises(WrongResult):
            counts.check_counts(changed, 50, {k: some[:-1] for k, some in self.right().items()})

    def test_generated_rows_are_those_of_the_contract(self):
        # The vectors that fix it, also in tests/unit/worker/connectors/generator_test.cc.
        for seed, seq, key, payload in ((0, 0, 0, "kelkhiclibcdjdnnaied"),
                                        (0, 128, 8833, "dimiifjficneagfkiadp"),
                                        (42, 643, 6990, "cggengfaekgfaeajchmm"),
                                        (42, 128000127, 6922, "pmbhpbaeenmbfjdanaio")):
            self.assertEqual(generated.key_of(seq, 128, 10000, seed=seed), key)
            self.assertEqual(generated.payload_of(seq, 128, 20, seed=seed), payload)
        self.assertEqual([generated.key_of(4 * i + 1, 4, 100, "hot", 0.5, 7) for i in range(12)],
                         [32, 0, 0, 0, 0, 89, 0, 0, 0, 0, 49, 4])

    def test_rows_of_the_exchange_must_cross(self):
        def run(made, taken):
            def subtasks(rows, of):
                return [{"worker": worker, of: count} for worker, count in rows.items()]
            found = {"rows": subtasks(made, "records_out"), "strings": subtasks(taken, "records_in")}
            return types.SimpleNamespace(subtasks=found.get)
        rows_tcp.check_crossing(run({"a": 9, "b": 0}, {"a": 0, "b": 9}), 9)
        for made, taken in (({"a": 9}, {"a": 9}), ({"a": 9}, {"a": 4, "b": 5}),
                            ({"a": 5, "b": 4}, {"b": 9}), ({"a": 9}, {"b": 8})):
            with self.assertRaises(WrongResult):
                rows_tcp.check_crossing(run(made, taken), 9)

    def test_rows_read_from_a_topic(self):
        due = collections.Counter({b"a": 1, b"b": 2})
        kafka_read.check_rows("topic", collections.Counter([b"b", b"a", b"b"]), due)
        for got, text in (([b"b", b"a"], "0 rows too many, 1 missing, such as b'b'"),
                          ([b"b", b"a", b"b", b"c"], "1 rows too many, 0 missing, such as b'c'"),
                          ([b"b", b"c", b"b"], "1 rows too many, 1 missing, such as b'c'")):
            with self.assertRaisesRegex(WrongResult, text):
                kafka_read.check_rows("topic", collections.Counter(got), due)

    def test_kafka_must_be_fast_enough_each_time(self):
        self.assertIs(rows_kafka.fast_enough([measurement(1, rate=400_001)] * 2)[1], True)
        self.assertIs(rows_kafka.fast_enough([measurement(1, rate=rate)
                                              for rate in (390_000, 900_000)])[1], False)

    def test_one_partition_must_fit_into_the_memory(self):
        for mb, small in ((99, True), (100, False)):
            found = [dataclasses.replace(measurement(1), rss_mb=rss) for rss in (50, mb)]
            self.assertIs(rows_kafka.small_enough(found)[1], small)

    def test_checkpoints_of_a_run(self):
        def checkpoint(state, ms, stall_ms):
            return {"state": state, "duration_ms": ms,
                    "subtasks": [{"synchronous_ms": 0.1, "longest_step_ms": stall_ms},
                                 {"synchronous_ms": stall_ms / 2, "longest_step_ms": 0.1}]}
        # The first has few keys, the last no rows flowing.
        some = [checkpoint("completed", *pair)
                for pair in ((1, 900), (40, 2), (70, 8), (50, 3), (2, 700))]
        values = counts.checkpoint_values(some + [checkpoint("failed", 0, 0)])
        self.assertEqual((values["checkpoints"], values["checkpoints_completed"]), (6, 5))
        self.assertEqual((values["checkpoint_ms"], values["checkpoint_ms_max"]), (50, 70))
        self.assertEqual(values["stall_ms"], 8)
        self.assertEqual(counts.checkpoint_values(some[:1]), {})
        self.assertEqual(rows_checkpoint.all_complete([measurement(1, **values)]),
                         ("5 of 6 checkpoints complete", False))
        self.assertIs(rows_checkpoint.all_complete([measurement(1)])[1], False)


if __name__ == "__main__":
    unittest.main()
