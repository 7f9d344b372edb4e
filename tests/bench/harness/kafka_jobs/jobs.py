"""Parts of the jobs that are measured."""

from ..measurement import Measurement

ROWS_VERIFY = 200_000
SCHEMA = {"k": "INT64", "v": "INT64", "d": "FLOAT64", "ts": "INT64"}


def source(kafka, topic, **fields):
    return {"uid": "rows", "type": "kafka.source",
            "config": {"brokers": kafka.brokers, "topics": topic, "end": "latest", **fields}}


def job(name, *vertices, interval="1s"):
    """Vertices one behind the other; into an aggregate by its keys."""
    edges = []
    for before, after in zip(vertices, vertices[1:]):
        edge = {"from": before["uid"], "to": after["uid"]}
        if after["type"] == "aggregate":
            edge.update(partitioning="HASH", columns=after["config"]["keys"])
        edges.append(edge)
    return {"name": name, "options": {"parallelism": "2", "checkpoint.interval": interval},
            "vertices": list(vertices), "edges": edges}


def measurement_of(run, rows, **values):
    return Measurement(rows=rows, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
                       rss_mb=run.rss_mb, values={"checkpoints": len(run.checkpoints), **values})
