#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fabtests_test.py - the functional tests of libfabric's suite fabtests (docs/stacks.md). Debian
does not package the suite, so they are skipped unless runfabtests.sh is in PATH.

   tests/nic/ofi/fabtests_test.py --fabemu build/fabemu [unittest options]
"""
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, *[os.pardir] * 2, "cli"))
from cli_helpers import FabemuCase, main  # noqa: E402

SLOW = "multi_mr"  # fills several GB

# runfabtests.sh kills all processes whose names begin with fi_, and its programs use fixed ports.
ISOLATED = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
            'ip link set lo up && exec "$@"', "sh"]


def is_isolated():
    return shutil.which("ip") and subprocess.run([*ISOLATED, "true"],
                                                 capture_output=True).returncode == 0


@unittest.skipUnless(shutil.which("runfabtests.sh"), "runfabtests.sh (fabtests) is not in PATH")
@unittest.skipUnless(is_isolated(), "needs iproute2, and the right to make namespaces")
class FabtestsTest(FabemuCase):
    def passes(self, *network):
        self.env["IPATH_NO_BACKTRACE"] = "1"  # else Debian's libfabric may ignore SIGTERM
        # A server fills 1 GB before it accepts, so a client on a busy host must wait for long.
        run = self.start("run", "--bound", "silence=off", *network, "--", *ISOLATED,
                         "runfabtests.sh", "-v", "-T", "300", "-t", "unit,functional",
                         "-f", os.path.join(HERE, "fabtests.exclude"), "-e", SLOW, "fabemu",
                         cwd=self.dir)
        out, err = run.communicate(timeout=1500)
        self.assertEqual(run.returncode, 0, out + err)
        self.assertRegex(out, r"# Total Pass +[1-9]")
        self.assertRegex(out, r"# Total Fail +0\n")

    def test_oq2004(self):
        self.passes("--topo", "kary:4,2")

    def test_qsnet3(self):
        self.passes("--profile", "qsnet3", "--topo", "qsnet:16")


if __name__ == "__main__":
    main(jobs=2)
