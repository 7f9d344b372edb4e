"""Runs the tests of a file a few at a time, each in a process of its own: they mostly wait."""

import concurrent.futures
import os
import subprocess
import sys
import unittest

AT_ONCE = int(os.environ.get("WEIR_E2E_AT_ONCE", "2"))


def names_of(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from names_of(item)
        else:
            yield item.id().partition("__main__.")[2]


def run(name):
    return name, subprocess.run([sys.executable, "-B", sys.argv[0], name], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def main():
    """In place of unittest.main(): arguments are classes or tests, none means all."""
    loader, module = unittest.defaultTestLoader, sys.modules["__main__"]
    suite = (loader.loadTestsFromNames(sys.argv[1:], module) if sys.argv[1:]
             else loader.loadTestsFromModule(module))
    names = list(names_of(suite))
    if len(names) <= 1:
        unittest.main(verbosity=2)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, done in pool.map(run, names):
            print(f"{name} ... {'ok' if done.returncode == 0 else 'FAILED'}", flush=True)
            if done.returncode != 0:
                failed.append(name)
                print(done.stdout, flush=True)
    print(f"{len(names)} tests, {len(failed)} failed {' '.join(failed)}")
    sys.exit(1 if failed else 0)
