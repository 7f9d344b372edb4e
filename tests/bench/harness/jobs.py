"""Graphs of the jobs that are measured, as `weir run` reads them."""

import copy


def count_job(rows, keys, parallelism=2, interval="off", emit="every_row", distribution="uniform",
              splits=None, options=None, sink=None):
    """The first work: generator → HASH by key → keyed count → blackhole (or `sink`)."""
    source = {"rows": rows, "keys": keys, "distribution": distribution}
    if splits is not None:
        source["splits"] = splits
    return {
        "name": "count",
        "options": {"parallelism": str(parallelism), "checkpoint.interval": interval,
                    **(options or {})},
        "vertices": [
            {"uid": "rows", "type": "generator", "config": source},
            {"uid": "per-key", "type": "aggregate",
             "config": {"keys": ["key"], "emit": emit,
                        "aggregates": [{"function": "count", "as": "n"}]}},
            {"uid": "out", **(sink or {"type": "blackhole"})}],
        "edges": [
            {"from": "rows", "to": "per-key", "partitioning": "HASH", "columns": ["key"]},
            {"from": "per-key", "to": "out"}]}


def summed(job, output):
    """A count job whose rows are added up instead of dropped: files in `output` with growing sums
    of n and of n * (key + 1), the last of which are those of all rows."""
    job = copy.deepcopy(job)
    job["vertices"][-1:] = [
        {"uid": "weigh", "type": "project",
         "config": {"columns": [{"name": "all", "expression": "0"}, "n",
                                {"name": "weight", "expression": "n * (key + 1)"}]}},
        {"uid": "total", "type": "aggregate",
         "config": {"keys": ["all"], "emit": "changed",
                    "aggregates": [{"function": "sum", "column": "n", "as": "sum"},
                                   {"function": "sum", "column": "weight", "as": "weighted"}]}},
        {"uid": "out", "type": "files.sink", "config": {"path": str(output), "format": "json"}}]
    job["edges"][-1:] = [
        {"from": "per-key", "to": "weigh"},
        {"from": "weigh", "to": "total", "partitioning": "HASH", "columns": ["all"]},
        {"from": "total", "to": "out"}]
    return job
