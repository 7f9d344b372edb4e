"""Goal: a job library builds out of tree against an installed libweir, and loads.

Method: install libweir and headers alone into a temporary prefix, build examples/own_job with it as
a user would, then let a process that uses the libweir of the build tree load the result.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["WEIR_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["WEIR_BIN_DIR"]).parent


def run(*command, code=0):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != code:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class OwnJobTest(unittest.TestCase):
    def test_builds_and_loads(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, build = pathlib.Path(folder, "prefix"), pathlib.Path(folder, "build")
            run("cmake", "--install", BUILD, "--component", "development", "--prefix", prefix)
            self.assertTrue((prefix / "include/weir/weir.h").is_file())
            self.assertFalse(list(prefix.rglob("*.cc")))
            run("cmake", "-S", SOURCE / "examples/own_job", "-B", build,
                f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
            run("cmake", "--build", build)
            library = build / "own_job.so"

            probe = BUILD / "test_bin/job_library_probe"
            graph = json.loads(run(probe, library, "--input", "in/*.csv", "output=out").stdout)
            self.assertEqual(graph["name"], "worst-delay")
            self.assertEqual([v["type"] for v in graph["vertices"]],
                             ["files.source", "worst_delay", "files.sink"])
            self.assertEqual(graph["vertices"][1]["output_schema"],
                             {"row_id": "INT64", "carrier": "STRING", "worst": "INT64"})
            self.assertEqual(graph["edges"][0],
                             {"from": "flights", "to": "worst", "partitioning": "HASH",
                              "columns": ["carrier"]})
            refused = run(probe, library, "--input", "in", code=1)
            self.assertIn("job argument 'output' is missing", refused.stderr)


if __name__ == "__main__":
    unittest.main()
