# SPDX-License-Identifier: BSD-3-Clause
"""half.py - a loader of tests: all, or where $FABEMU_CASES is "half", as scripts/test says it on a
slow host, half of them, which $FABEMU_SEED draws. Those that are named are not drawn."""
import os
import random
import time
import unittest


class Loader(unittest.TestLoader):
    """For unittest.main()."""

    def __init__(self):
        super().__init__()
        self.draw = None
        if os.environ.get("FABEMU_CASES") == "half":
            seed = os.environ.setdefault("FABEMU_SEED", str(time.time_ns()))
            print(f"half of the tests: FABEMU_SEED={seed}", flush=True)
            self.draw = random.Random(int(seed))

    def getTestCaseNames(self, testCaseClass):
        """Of a class."""
        names = super().getTestCaseNames(testCaseClass)
        return [name for name in names if not self.draw or self.draw.random() < 0.5]
