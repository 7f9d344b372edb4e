"""The limits as subjects, and the input files of those that read some."""

import dataclasses
import os

from .measurement import expect


@dataclasses.dataclass(frozen=True)
class GenerateCount:
    """The loop of the first work. Checks the sum of its counts itself."""
    keys: int
    rows_full: int
    rows_quick: int

    @property
    def title(self):
        return f"generate_count, {self.keys:,} keys"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        measurement, printed = bench.limit("generate_count", "--keys", self.keys, "--rows", rows)
        expect("rows of generate_count", printed["rows"], rows)
        return measurement


@dataclasses.dataclass(frozen=True)
class TcpRows:
    rows_full: int
    rows_quick: int
    title: str = "tcp_rows"

    def __call__(self, bench):
        return bench.limit("tcp_rows", "--rows", bench.pick(self.rows_full, self.rows_quick))[0]


@dataclasses.dataclass(frozen=True)
class VerifyLimit:
    """A limit that needs no input, on few rows, compared with its own second computation."""
    program: str
    arguments: tuple = ()

    @property
    def title(self):
        return self.program

    def __call__(self, bench):
        _, printed = bench.limit(self.program, *self.arguments, "--verify")
        expect(f"verified of {self.program}", printed["verified"], True)


def inputs_of(bench, file_format, rows, keys):
    """Four files of make_rows in scratch space, made when first asked for; their paths."""
    folder = bench.scratch / f"inputs-{file_format}-{rows}"
    if not folder.is_dir():
        folder.mkdir()
        bench.limit("make_rows", "--rows", rows, "--keys", keys, "--format", file_format,
                    "--files", 4, "--output", folder / "rows")
        os.sync()  # or it would be written back while something is measured
    return sorted(folder.iterdir())


@dataclasses.dataclass(frozen=True)
class FileSum:
    """json_sum or csv_sum."""
    file_format: str
    keys: int
    rows_full: int
    rows_quick: int
    verify: bool = False

    @property
    def title(self):
        return f"{self.file_format}_sum"

    def __call__(self, bench):
        rows = bench.pick(self.rows_full, self.rows_quick)
        output = bench.scratch / f"limit.{self.file_format}"
        measurement, printed = bench.limit(
            f"{self.file_format}_sum", "--input",
            *inputs_of(bench, self.file_format, rows, self.keys), "--output", output,
            *(["--verify"] if self.verify else []))
        expect(f"rows of {self.title}", printed["rows"], rows)
        expect(f"verified of {self.title}", printed["verified"], self.verify)
        output.unlink()
        return measurement
