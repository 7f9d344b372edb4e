"""Goal: scripts/check_includes goes red on each rule it promises to check.

Method: plant one violation at a time in a small clean tree and look for the rule's name.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADER = "#pragma once\n"

CLEAN = {
    "common/base/status.h": HEADER + "#include <string>\n",
    "common/rpc/job_proto.h": HEADER + '#include "weir/v1/job.pb.h"\n#include "common/base/status.h"\n',
    "common/storage/file_system.h": HEADER,
    "common/record/codec.h": HEADER + '#include "common/base/status.h"\n',
    "coordinator/checkpoint/checkpoint_coordinator.h":
        HEADER + "#include <map>\n#include \"common/base/status.h\"\n// Never a steady_clock here.\n",
    "coordinator/checkpoint/checkpoint_store.h": HEADER + '#include "common/storage/file_system.h"\n',
    "coordinator/checkpoint/completion_log_files.cc": '#include "common/storage/file_system.h"\n',
    "coordinator/server/control_service.cc": "#include <grpcpp/grpcpp.h>\n",
    "worker/checkpoint/barrier_aligner.cc": 'const char* kName = "steady_clock";\n',
    "worker/task/task.h": HEADER + '#include "worker/operators/filter.h"\n',
    "worker/operators/filter.h": HEADER + '#include "worker/state/table.h"\n',
    "worker/state/table.h": HEADER,
    "tests/unit/worker/task/task_test.cc":
        '#include "worker/task/task.h"\n#include "coordinator/checkpoint/checkpoint_store.h"\n',
}

# (rule, file, text); each replaces or joins the files of CLEAN.
PLANTED = [
    ("border", "coordinator/job/job.cc", '#include "worker/task/task.h"\n'),
    ("border", "worker/server/server.cc", '#include "coordinator/checkpoint/checkpoint_store.h"\n'),
    ("border", "common/graph/graph.cc", '#include "worker/task/task.h"\n'),
    ("border", "cli/main.cc", '#include "coordinator/checkpoint/checkpoint_store.h"\n'),
    ("border", "worker/operators/filter.cc", '#include "worker/network/connection.h"\n'),
    ("border", "worker/connectors/files/files_source.cc", '#include "worker/task/task.h"\n'),
    ("border", "worker/task/task.cc", '#include "worker/server/server.h"\n'),
    ("border", "worker/state/table.cc", '#include "worker/task/task.h"\n'),
    ("worker-layers", "worker/extra/thing.cc", "int x;\n"),
    ("grpc", "coordinator/job/job.cc", "#include <grpcpp/grpcpp.h>\n"),
    ("grpc", "worker/task/task.cc", '#include "weir/v1/worker.grpc.pb.h"\n'),
    ("protobuf", "coordinator/metadata/job_store.cc", '#include "weir/v1/job.pb.h"\n'),
    ("protobuf", "worker/task/task.cc", "#include <google/protobuf/message.h>\n"),
    ("rdkafka", "worker/connectors/files/files_source.cc", "#include <librdkafka/rdkafka.h>\n"),
    ("rocksdb", "worker/state/table.cc", "#include <rocksdb/db.h>\n"),
    ("spdlog", "coordinator/job/job.cc", "#include <spdlog/spdlog.h>\n"),
    ("gtest", "common/base/status.cc", "#include <gtest/gtest.h>\n"),
    ("tests", "worker/task/task.cc", '#include "tests/sim/world.h"\n'),
    ("public-header", "common/record/codec.h", HEADER + '#include "absl/status/status.h"\n'),
    ("public-header", "common/operator/operator.h", HEADER + '#include "common/rpc/job_proto.h"\n'),
    ("pragma-once", "common/base/status.h", "#include <string>\n"),
    ("root-relative", "common/record/codec.cc", '#include "codec.h"\n'),
    ("root-relative", "common/record/codec.cc", '#include "../base/status.h"\n'),
    ("empty-name", "common/base/string_utils.cc", "int x;\n"),
    ("file-length", "common/base/long.cc", "int x;\n" * 1001),
    ("sleep", "tests/unit/worker/task/task_test.cc", "void f() { std::this_thread::sleep_for(d); }\n"),
    ("pure", "coordinator/checkpoint/checkpoint_coordinator.cc", "#include <mutex>\n"),
    ("pure", "coordinator/checkpoint/pending_checkpoint.cc", "#include <thread>\n"),
    ("pure", "coordinator/checkpoint/completion_log.cc", '#include "common/storage/file_system.h"\n'),
    ("pure", "coordinator/checkpoint/completion_log.cc", '#include "common/rpc/job_proto.h"\n'),
    ("pure", "coordinator/checkpoint/completion_log.cc",
     '#include "coordinator/checkpoint/checkpoint_store.h"\n'),
    ("pure", "coordinator/scheduler/slots.cc", "#include <fstream>\n"),
    ("pure", "coordinator/membership/heartbeat_monitor.cc",
     "auto t = std::chrono::steady_clock::now();\n"),
    ("pure", "coordinator/job/job_state.cc", "#include <fcntl.h>\n"),
    ("pure", "worker/checkpoint/barrier_aligner.cc", "#include <unistd.h>\n"),
    ("pure", "worker/network/channel_credit.cc", '#include "common/base/clock.h"\n'),
    ("pure", "worker/network/frame_codec.cc", "auto t = time(nullptr);\n"),
]


def check(tree):
    """(exit code, output) of the checker over a tree of {name: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run(
            [sys.executable, "-B", str(ROOT / "scripts/check_includes"), "--root", folder],
            capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class CheckIncludesTest(unittest.TestCase):
    def test_a_clean_tree_is_accepted(self):
        self.assertEqual(check(CLEAN), (0, ""))

    def test_each_planted_violation_is_found(self):
        for rule, name, text in PLANTED:
            with self.subTest(rule=rule, name=name, text=text[:60]):
                code, output = check({**CLEAN, name: text})
                self.assertEqual(code, 1, output)
                found = {line.split(": ")[1] for line in output.splitlines() if name in line}
                self.assertIn(rule, found, output)

    def test_a_violation_names_its_line(self):
        code, output = check({**CLEAN, "worker/task/task.cc": "\n\n#include <rocksdb/db.h>\n"})
        self.assertIn("worker/task/task.cc:3: rocksdb:", output)

    def test_a_folder_of_26_files_is_too_large(self):
        many = {f"common/base/file_{i}.cc": "int x;\n" for i in range(25)}
        code, output = check({**CLEAN, **many})  # and status.h
        self.assertEqual(code, 1)
        self.assertIn("common/base:1: folder-size: 26", output)

    def test_comments_do_not_count(self):
        text = "/*\n#include <mutex>\n*/\n// #include <thread>\n"
        self.assertEqual(check({**CLEAN, "coordinator/scheduler/slots.cc": text}), (0, ""))


if __name__ == "__main__":
    os.chdir(ROOT)
    unittest.main()
