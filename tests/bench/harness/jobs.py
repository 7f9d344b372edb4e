"""Graphs of the jobs that are measured, as `weir run` reads them."""


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
