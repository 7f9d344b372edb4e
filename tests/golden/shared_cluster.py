"""One cluster for all tests of a class."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))

from cluster import Cluster  # noqa: E402


class SharedClusterCase(unittest.TestCase):
    """Its folder is kept and the logs are shown when one of the tests failed."""

    slots = 20  # of each of the two workers

    @classmethod
    def setUpClass(cls):
        cls.failed = False
        cls.cluster = Cluster(2, slots=cls.slots)
        cls.cluster.__enter__()

    def run(self, result=None):
        result = super().run(result)
        if result is not None and not result.wasSuccessful():
            type(self).failed = True
        return result

    @classmethod
    def tearDownClass(cls):
        error = AssertionError("see the tests") if cls.failed else None
        cls.cluster.__exit__(type(error) if error else None, error, None)
