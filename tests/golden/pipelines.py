"""The golden pipelines: job, input, expected rows, and what the order of the output must be.

Expected rows are those of expected/, computed by make_expected.py from the input alone.
"""

import collections
import json
import pathlib

from jobs import FINAL_NAME, visible

HERE = pathlib.Path(__file__).resolve().parent
INPUT, EXPECTED = HERE / "input", HERE / "expected"

# -- rows of an output directory ------------------------------------------------------------------


def parse_csv(text):
    """Lists of fields; None for an empty field, "" for a quoted empty one (which the csv module of
    Python cannot tell apart). Strict RFC 4180 with LF: what a sink writes, not all one may read."""
    rows, row, at = [], [], 0
    while at < len(text):
        if text[at] == '"':
            field = ""
            while True:
                end = text.index('"', at + 1)
                field += text[at + 1:end]
                at = end + 1
                if text[at] != '"':
                    break
                field += '"'
        else:
            end = at
            while text[end] not in ',\n"':
                end += 1
            field = text[at:end] or None
            at = end
        row.append(field)
        if text[at] == "\n":
            rows.append(row)
            row = []
        elif text[at] != ",":
            raise AssertionError(f"{text[at]!r} behind a field of {rows[-1:]} {row}")
        at += 1
    if row:
        raise AssertionError(f"the last line is cut off: {row}")
    return rows


def canonical(value, type):
    """A value of a JSON row as one that is equal only to the same value of the same type."""
    if value is None:
        return None
    if type == "FLOAT64":
        if isinstance(value, str):
            if value not in ("NaN", "Infinity", "-Infinity"):
                raise AssertionError(f"{value!r} is no {type}")
        elif isinstance(value, bool) or not isinstance(value, (int, float)):
            raise AssertionError(f"{value!r} is no {type}")
        return repr(float(value))
    wanted = {"BOOL": bool, "INT32": int, "INT64": int}.get(type, str)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise AssertionError(f"{value!r} is no {type}")
    return value


def from_csv(text, type):
    if text is None:
        return None
    if type == "BOOL":
        return {"true": True, "false": False}[text]
    if type in ("INT32", "INT64"):
        return int(text)
    if type == "FLOAT64":
        return text if text in ("NaN", "Infinity", "-Infinity") else float(text)
    return text


def in_order(output):
    """Files such that rows of one subtask are in the order in which it wrote them."""
    def place(path):
        match = FINAL_NAME.fullmatch(path.name)
        if not match:
            raise AssertionError(f"{path.name}: no name that the file sink gives")
        return int(match["subtask"]), int(match["checkpoint"]), int(match["part"])
    return sorted(visible(output), key=place)


def float_from_json(text):
    """Shortest text that reads back the same: no digit more than Python's."""
    def digits(number):
        return number.lstrip("-").partition("e")[0].replace(".", "").strip("0")
    value = float(text)
    if digits(text) != digits(repr(value)):
        raise AssertionError(f"{text} is written where {value!r} is enough")
    return value


def number_from_json(text):
    return -0.0 if text == "-0" else int(text)


def read_output(output, schema):
    """The rows as tuples of canonical values."""
    types = list(schema.values())
    rows = []
    for path in in_order(output):
        text = path.read_bytes().decode("utf-8")
        if path.suffix == ".csv":
            header, *lines = parse_csv(text)
            if header != list(schema):
                raise AssertionError(f"{path.name}: the header is {header}")
            values = ([from_csv(field, type) for field, type in zip(line, types, strict=True)]
                      for line in lines)
        else:
            if not text.endswith("\n"):
                raise AssertionError(f"{path.name}: the last line is cut off")
            objects = [json.loads(line, parse_float=float_from_json, parse_int=number_from_json)
                       for line in text[:-1].split("\n")]
            for row in objects:
                # A null may be left out; what is there is in the order of the schema.
                if [name for name in schema if name in row] != list(row):
                    raise AssertionError(f"{path.name}: columns {list(row)} of {list(schema)}")
            values = ([row.get(name) for name in schema] for row in objects)
        rows += [tuple(map(canonical, line, types)) for line in values]
    return rows


def read_expected(name, schema):
    rows = []
    with open(EXPECTED / f"{name}.jsonl", encoding="utf-8", newline="\n") as file:
        for line in file:
            row = json.loads(line)
            assert list(row) == list(schema), (list(row), list(schema))
            rows.append(tuple(canonical(row[column], type) for column, type in schema.items()))
    return rows


# -- comparisons: each raises AssertionError that shows some of what differs ----------------------


def differences(rows, expected):
    have, due = collections.Counter(rows), collections.Counter(expected)
    lost, extra = due - have, have - due
    if lost or extra:
        raise AssertionError(
            f"{len(rows)} rows where {len(expected)} are due; {lost.total()} lost: "
            f"{list(lost.elements())[:3]}; {extra.total()} too many: {list(extra.elements())[:3]}")


def same_rows(rows, expected):
    """In any order."""
    differences(rows, expected)


def by_key(rows, width):
    keys = collections.defaultdict(list)
    for row in rows:
        keys[row[:width]].append(row)
    return keys


def same_order_per_key(width):
    def compare(rows, expected):
        differences(rows, expected)
        have = by_key(rows, width)
        for key, due in by_key(expected, width).items():
            if have[key] != due:
                at = next(i for i, row in enumerate(due) if have[key][i] != row)
                raise AssertionError(f"key {key}, row {at}: {have[key][at]} where {due[at]} is due")
    return compare


def changed_per_key(width, kept):
    """Of each key some of its states, ascending, the last one among them. `kept`: the columns of
    the expected rows that such rows have."""
    def compare(rows, expected):
        have = by_key(rows, width)
        due = by_key([tuple(row[i] for i in kept) for row in expected], width)
        if set(have) != set(due):
            raise AssertionError(f"keys that differ: {sorted(set(have) ^ set(due))[:5]}")
        for key, states in due.items():
            if have[key][-1] != states[-1]:
                raise AssertionError(
                    f"key {key} ends with {have[key][-1]} where {states[-1]} is due")
            at = 0
            for row in have[key]:
                if row not in states[at:]:
                    raise AssertionError(f"key {key}: {row} is no state of it, or not in order")
                at = states.index(row, at) + 1
    return compare


def running(columns, update):
    """Rows of a key in an order that is not defined: the first `columns` columns (the key is the
    first) are the expected rows, the others what `update` makes of the state before and the row."""
    def compare(rows, expected):
        differences([row[:columns] for row in rows], expected)
        for key, states in by_key(rows, 1).items():
            state = None
            for row in states:
                state = update(state, row)
                if row[columns:] != state:
                    raise AssertionError(f"key {key}: {row} where ... {state} is due")
    return compare


def last_of_key(aggregates):
    """The key, a count of its rows, and what `aggregates` make of them: in the end that of all
    expected rows of the key; the counts of a key ascend."""
    def compare(rows, expected):
        have = by_key(rows, 1)
        last = sorted(states[-1] for states in have.values())
        due = sorted((*key, len(of_key), *aggregates(of_key))
                     for key, of_key in by_key(expected, 1).items())
        differences(last, due)
        for key, states in have.items():
            counts = [row[1] for row in states]
            if counts != sorted(set(counts)):
                raise AssertionError(f"key {key}: its rows are counted as {counts}")
    return compare


def count_of_key(state, row):
    return ((state[0] if state else 0) + 1,)


def diamond_state(state, row):
    count, sum_, min_, max_ = state or (0, None, None, None)
    delay = row[2]
    if delay is not None:
        sum_ = delay + (sum_ or 0)
        min_ = delay if min_ is None else min(min_, delay)
        max_ = delay if max_ is None else max(max_, delay)
    return (count + 1, sum_, min_, max_)


# -- the jobs -------------------------------------------------------------------------------------


class Pipeline:
    """`vertices`: without the sink, which takes the rows of the last one. `schema`: of the output;
    `expected_schema`: of the expected rows, if another. `rows_in`: what all sources together read;
    `rows_out`: None where it is not defined."""

    def __init__(self, name, vertices, edges, schema, compare, rows_in, rows_out=None,
                 expected=None, expected_schema=None, format="json"):
        self.name, self.schema, self.compare, self.format = name, schema, compare, format
        self.vertices, self.edges = vertices, edges
        self.rows_in, self.rows_out = rows_in, rows_out
        self.expected = read_expected(expected or name, expected_schema or schema)

    def job(self, output, seconds=None, name=None, options=None):
        """`seconds`: about how long it is to take, by the rate of its sources."""
        vertices = [dict(vertex, config=dict(vertex.get("config", {})))
                    for vertex in self.vertices]
        sources = [v for v in vertices if v["type"] in ("files.source", "generator")]
        for vertex in sources if seconds else ():
            vertex["config"]["rate"] = self.rows_in / len(sources) / seconds
        last = self.vertices[-1]["uid"]
        return {"name": name or self.name.replace("_", "-"), "options": dict(options or {}),
                "vertices": [*vertices, {"uid": "out", "type": "files.sink",
                                         "config": {"path": str(output), "format": self.format}}],
                "edges": [*self.edges, {"from": last, "to": "out"}]}

    def read(self, output):
        return read_output(output, self.schema)

    def check(self, *outputs):
        """The rows of all output directories together, the older one first."""
        rows = [row for output in outputs for row in self.read(output)]
        self.compare(rows, self.expected)
        return rows


def count_lines(path):
    return path.read_bytes().count(b"\n")


def files(uid, pattern, schema, format="csv"):
    return {"uid": uid, "type": "files.source",
            "config": {"path": str(INPUT / pattern), "format": format, "schema": schema}}


def chain(*uids):
    return [{"from": one, "to": next} for one, next in zip(uids, uids[1:])]


def hashed(one, next, *columns):
    return {"from": one, "to": next, "partitioning": "HASH", "columns": list(columns)}


FLIGHT_COLUMNS = {"row_id": "INT64", "carrier": "STRING", "tailnum": "STRING", "origin": "STRING",
                  "dest": "STRING", "dep_delay": "INT32", "arr_delay": "INT32",
                  "air_time": "INT32", "distance": "INT32", "time_hour": "TIMESTAMP"}
UNION_SCHEMA = {name: FLIGHT_COLUMNS[name]
                for name in ("row_id", "carrier", "dep_delay", "tailnum", "time_hour")}
AWKWARD_SCHEMA = {"id": "INT64", "name": "STRING", "note": "STRING", "flag": "BOOL",
                  "small": "INT32", "big": "INT64", "ratio": "FLOAT64", "at": "TIMESTAMP",
                  "data": "BYTES"}
GENERATED_SCHEMA = {"seq": "INT64", "key": "INT64", "value": "FLOAT64", "payload": "STRING"}
COUNTED_SCHEMA = {"key": "INT64", "seq": "INT64", "value": "FLOAT64", "n": "INT64"}
AGGREGATE_SCHEMA = {
    "carrier": "STRING", "origin": "STRING", "row_id": "INT64", "rows": "INT64", "delays": "INT64",
    "delay_sum": "INT64", "delay_min": "INT32", "delay_max": "INT32", "delay_avg": "FLOAT64",
    "ratio_sum": "FLOAT64", "ratio_min": "FLOAT64", "ratio_max": "FLOAT64", "ratio_avg": "FLOAT64",
    "tail_min": "STRING", "tail_max": "STRING", "time_min": "TIMESTAMP", "time_max": "TIMESTAMP"}

FILTER = ("(dep_delay > 15 or dep_delay is null or tailnum like 'N3%') "
          "and carrier in ('UA', 'AA', 'B6', 'EV', 'DL', 'MQ') "
          "and not (origin = 'LGA' and dest like '_T%')")
PROJECT = [  # name, type, expression
    ("row_id", "INT64", None),
    ("code", "STRING", "lower(carrier)"),
    ("gain", "INT64", "dep_delay - arr_delay"),
    ("speed", "FLOAT64", "cast(distance as FLOAT64) / air_time * 60"),
    ("sevenths", "INT64", "arr_delay / 7"),
    ("rest", "INT64", "arr_delay % 7"),
    ("off", "INT64", "abs(arr_delay)"),
    ("late", "BOOL", "dep_delay > 15"),
    ("kind", "STRING", "case when dep_delay is null then 'cancelled' when dep_delay > 60 then "
                       "'very late' when dep_delay > 15 then 'late' else 'on time' end"),
    ("tail", "STRING", "coalesce(tailnum, 'unknown')"),
    ("plane", "STRING", "substr(tailnum, 2, 3)"),
    ("plane_length", "INT64", "length(substr(tailnum, 1))"),
    ("route", "STRING", "concat(origin, '-', dest)"),
    ("delay_text", "STRING", "cast(arr_delay as STRING)"),
    ("hour_us", "INT64", "cast(time_hour as INT64)"),
    ("thirds", "INT64", "cast(cast(distance as FLOAT64) / 3 as INT64)"),
    ("second_half", "BOOL", "time_hour >= timestamp '2013-01-16T00:00:00Z'"),
    ("at", "TIMESTAMP", "cast(cast(time_hour as STRING) as TIMESTAMP)"),
]
FLIGHT_ROWS, AWKWARD_ROWS, GENERATED_ROWS = 800, 240, 600

AGGREGATES = [("count", None, "rows"), ("count", "dep_delay", "delays"),
              ("sum", "dep_delay", "delay_sum"), ("min", "dep_delay", "delay_min"),
              ("max", "dep_delay", "delay_max"), ("avg", "dep_delay", "delay_avg"),
              ("sum", "ratio", "ratio_sum"), ("min", "ratio", "ratio_min"),
              ("max", "ratio", "ratio_max"), ("avg", "ratio", "ratio_avg"),
              ("min", "tailnum", "tail_min"), ("max", "tailnum", "tail_max"),
              ("min", "time_hour", "time_min"), ("max", "time_hour", "time_max")]


def aggregate(uid, keys, aggregates, **config):
    return {"uid": uid, "type": "aggregate", "config": {
        "keys": keys, **config,
        "aggregates": [{"function": function, **({"column": column} if column else {}), "as": name}
                       for function, column, name in aggregates]}}


def filter_project():
    return Pipeline(
        "filter_project",
        [files("flights", "flights-*.csv", FLIGHT_COLUMNS),
         {"uid": "some", "type": "filter", "config": {"expression": FILTER}},
         {"uid": "made", "type": "project", "config": {"columns": [
             name if expression is None else {"name": name, "expression": expression}
             for name, _, expression in PROJECT]}}],
        chain("flights", "some", "made"), {name: type for name, type, _ in PROJECT}, same_rows,
        FLIGHT_ROWS, rows_out=count_lines(EXPECTED / "filter_project.jsonl"))


def aggregate_flights(name, emit, sums_of_floats=True):
    """A carrier is in one file only, so the order of the rows of a key is that of the file. Without
    sums of FLOAT64, senders may aggregate, too."""
    aggregates = [entry for entry in AGGREGATES
                  if sums_of_floats or entry[2] not in ("ratio_sum", "ratio_avg")]
    ratio = {"name": "ratio", "expression": "cast(air_time as FLOAT64) / 7"}
    changed = emit == "changed"
    schema = {name: type for name, type in AGGREGATE_SCHEMA.items()
              if name in ("carrier", "origin") or name == "row_id" and not changed
              or name in [entry[2] for entry in aggregates]}
    kept = [list(AGGREGATE_SCHEMA).index(column) for column in schema]
    return Pipeline(
        name,
        [files("flights", "flights-*.csv", FLIGHT_COLUMNS),
         {"uid": "ratios", "type": "project", "config": {"columns": [
             "row_id", "carrier", "origin", "dep_delay", "tailnum", "time_hour", ratio]}},
         aggregate("per-key", ["carrier", "origin"], aggregates, emit=emit,
                   **({} if changed else {"keep": ["row_id"]}))],
        [{"from": "flights", "to": "ratios"}, hashed("ratios", "per-key", "carrier", "origin")],
        schema, changed_per_key(2, kept) if changed else same_order_per_key(2), FLIGHT_ROWS,
        rows_out=None if changed else FLIGHT_ROWS, expected="aggregate",
        expected_schema=AGGREGATE_SCHEMA)


def union_rebalance():
    return Pipeline(
        "union_rebalance",
        [files("from-csv", "flights-[01].csv", UNION_SCHEMA),
         files("from-json", "flights-23.jsonl", UNION_SCHEMA, "json"),
         {"uid": "both", "type": "union"}, {"uid": "even", "type": "rebalance"}],
        [{"from": "from-csv", "to": "both", "input": 0},
         {"from": "from-json", "to": "both", "input": 1},
         {"from": "both", "to": "even", "partitioning": "REBALANCE"}],
        UNION_SCHEMA, same_rows, FLIGHT_ROWS, rows_out=FLIGHT_ROWS, format="csv")


def diamond():
    columns = {name: FLIGHT_COLUMNS[name] for name in ("row_id", "carrier", "origin", "dep_delay")}
    return Pipeline(
        "diamond",
        [files("flights", "flights-*.csv", columns),
         {"uid": "late", "type": "filter", "config": {"expression": "dep_delay > 0"}},
         {"uid": "newark", "type": "filter", "config": {"expression": "origin == 'EWR'"}},
         {"uid": "both", "type": "union"},
         aggregate("per-carrier", ["carrier"],
                   [("count", None, "n"), ("sum", "dep_delay", "sum"), ("min", "dep_delay", "min"),
                    ("max", "dep_delay", "max")], keep=["row_id", "dep_delay"])],
        [{"from": "flights", "to": "late"}, {"from": "flights", "to": "newark"},
         {"from": "late", "to": "both", "input": 0}, {"from": "newark", "to": "both", "input": 1},
         hashed("both", "per-carrier", "carrier")],
        {"carrier": "STRING", "row_id": "INT64", "dep_delay": "INT32", "n": "INT64",
         "sum": "INT64", "min": "INT32", "max": "INT32"},
        running(3, diamond_state), FLIGHT_ROWS,
        rows_out=count_lines(EXPECTED / "diamond.jsonl"),
        expected_schema={"carrier": "STRING", "row_id": "INT64", "dep_delay": "INT32"})


def awkward_to_json():
    return Pipeline("awkward_to_json", [files("rows", "awkward-*.csv", AWKWARD_SCHEMA)], [],
                    AWKWARD_SCHEMA, same_rows, AWKWARD_ROWS, rows_out=AWKWARD_ROWS,
                    expected="awkward")


def awkward_to_csv(pattern="awkward.jsonl"):
    return Pipeline("awkward_to_csv", [files("rows", pattern, AWKWARD_SCHEMA, "json")], [],
                    AWKWARD_SCHEMA, same_rows, AWKWARD_ROWS, rows_out=AWKWARD_ROWS,
                    expected="awkward", format="csv")


def generator():
    return Pipeline("generator",
                    [{"uid": "rows", "type": "generator", "config": {
                        "rows": GENERATED_ROWS, "keys": 20, "seed": 1, "payload_size": 21}}], [],
                    GENERATED_SCHEMA, same_rows, GENERATED_ROWS, rows_out=GENERATED_ROWS)


def generator_counted(distribution, **config):
    return Pipeline(
        f"generator_{distribution}",
        [{"uid": "rows", "type": "generator", "config": {
            "rows": GENERATED_ROWS, "keys": 20, "distribution": distribution, **config}},
         aggregate("per-key", ["key"], [("count", None, "n")], keep=["seq", "value"])],
        [hashed("rows", "per-key", "key")], COUNTED_SCHEMA, running(3, count_of_key),
        GENERATED_ROWS, rows_out=GENERATED_ROWS,
        expected_schema={"key": "INT64", "seq": "INT64", "value": "FLOAT64"})


def hot_changed():
    """Most rows have one key: their senders aggregate them."""
    return Pipeline(
        "hot_changed",
        [{"uid": "rows", "type": "generator", "config": {
            "rows": GENERATED_ROWS, "keys": 20, "distribution": "hot", "seed": 7,
            "hot_fraction": 0.6}},
         aggregate("per-key", ["key"],
                   [("count", None, "n"), ("sum", "seq", "sum"), ("avg", "seq", "avg"),
                    ("min", "value", "min"), ("max", "value", "max")], emit="changed")],
        [hashed("rows", "per-key", "key")],
        {"key": "INT64", "n": "INT64", "sum": "INT64", "avg": "FLOAT64", "min": "FLOAT64",
         "max": "FLOAT64"},
        last_of_key(lambda rows: (
            sum(row[1] for row in rows), repr(sum(row[1] for row in rows) / len(rows)),
            *(repr(best(float(row[2]) for row in rows)) for best in (min, max)))),
        GENERATED_ROWS, expected="generator_hot",
        expected_schema={"key": "INT64", "seq": "INT64", "value": "FLOAT64"})


PIPELINES = [
    filter_project(), aggregate_flights("aggregate_every_row", "every_row"),
    aggregate_flights("aggregate_changed", "changed"),
    aggregate_flights("aggregate_partial", "changed", sums_of_floats=False), hot_changed(),
    union_rebalance(), diamond(),
    awkward_to_json(), awkward_to_csv(), generator(), generator_counted("uniform", seed=7),
    generator_counted("zipf", seed=-5, zipf_exponent=1.2),
    generator_counted("hot", seed=7, hot_fraction=0.6)]
