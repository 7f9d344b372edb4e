"""Rows: files → keyed sum → files, exactly once."""

import dataclasses
import shutil

from .limits import FileSum, inputs_of
from .measurement import BenchError, Measurement, WrongResult, expect
from .row import Row

ORDER = 30

KEYS = 100_000
ROWS_FULL, ROWS_QUICK, ROWS_VERIFY = 10_000_000, 4_000_000, 200_000
ROW_BYTES = 300  # in scratch space: inputs of both formats, one output, and some more
SCHEMA = {"k": "INT64", "v": "INT64", "d": "FLOAT64", "ts": "INT64"}


def sum_job(pattern, output, file_format):
    return {
        "name": f"{file_format}-sum",
        "options": {"parallelism": "2", "checkpoint.interval": "1s"},
        "vertices": [
            {"uid": "rows", "type": "files.source",
             "config": {"path": str(pattern), "format": file_format, "schema": SCHEMA}},
            {"uid": "per-key", "type": "aggregate",
             "config": {"keys": ["k"], "emit": "every_row", "keep": ["d", "ts"],
                        "aggregates": [{"function": "sum", "column": "v", "as": "sum"}]}},
            {"uid": "out", "type": "files.sink",
             "config": {"path": str(output), "format": file_format}}],
        "edges": [
            {"from": "rows", "to": "per-key", "partitioning": "HASH", "columns": ["k"]},
            {"from": "per-key", "to": "out"}]}


def run_and_check(bench, file_format, rows):
    """JobRun; every row of the output has been compared."""
    inputs = inputs_of(bench, file_format, rows, KEYS)
    output = bench.folder("files") / "out"
    with bench.cluster() as cluster:
        run = cluster.run(sum_job(inputs[0].parent / f"rows-*.{file_format}", output, file_format))
    expect(f"rows in of {file_format}-sum", run.records_in, rows)
    expect(f"rows out of {file_format}-sum", run.records_out, rows)
    files = sorted(output.glob("[!.]*"))
    try:
        bench.limit("check_sums", "--rows", rows, "--keys", KEYS, "--format", file_format,
                    "--output", *files)
    except BenchError as error:
        raise WrongResult(f"output of {file_format}-sum: {error}") from None
    shutil.rmtree(output.parent)
    return run


@dataclasses.dataclass(frozen=True)
class Files:
    file_format: str

    @property
    def title(self):
        return f"{self.file_format} files to files"

    def __call__(self, bench):
        rows = bench.pick(ROWS_FULL, ROWS_QUICK)
        run = run_and_check(bench, self.file_format, rows)
        return Measurement(rows=rows, seconds=run.seconds, cpu_seconds=run.cpu_seconds,
                           rss_mb=run.rss_mb, values={"checkpoints": len(run.checkpoints)})


@dataclasses.dataclass(frozen=True)
class VerifyFiles:
    """The job and the limit on few rows, the latter compared with its own second computation."""
    file_format: str

    @property
    def title(self):
        return f"{self.file_format} files to files"

    def __call__(self, bench):
        run_and_check(bench, self.file_format, ROWS_VERIFY)
        FileSum(self.file_format, KEYS, ROWS_VERIFY, ROWS_VERIFY, verify=True)(bench)
        shutil.rmtree(inputs_of(bench, self.file_format, ROWS_VERIFY, KEYS)[0].parent)
        # Once for nothing, inputs and output at full size: in a virtual machine the host may have
        # yet to back the memory that files are kept in, which would count against the first run.
        FileSum(self.file_format, KEYS, ROWS_FULL, ROWS_QUICK)(bench)


FLINK = {"json": "0.41 M, own sink 0.91 M", "csv": "0.45 M, own sink 0.96 M"}
ROWS = [Row(name=f"{name}-files", group=f"{name}-files", work="exactly once, checkpoint each 1s",
            measure=Files(name), limit=FileSum(name, KEYS, ROWS_FULL, ROWS_QUICK),
            limit_name=f"{name}_sum", goal=0.6, flink=flink, verify=(VerifyFiles(name),),
            scratch_bytes=(ROWS_FULL * ROW_BYTES, ROWS_QUICK * ROW_BYTES))
        for name, flink in FLINK.items()]
