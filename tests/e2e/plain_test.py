#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""plain_test - a build without DPDK supports one host, and reports that when several are
requested; so does a build whose DPDK library is missing. Builds the command and the libraries
for MPI programs without optimization, in a folder of its own: half a minute of one core."""
import pathlib
import shutil
import sys
import time

import common

OPTIONS = ["-Ddpdk=disabled", "-Dtests=false", "-Dweb=disabled", "-Dncurses=disabled",
           "-Dbuildtype=plain"]
TARGETS = ["fabemu", "nic/ofi/libfabemu-fi.so", "apps/ompi/mca_coll_fabemu.so",
           "apps/ompi/mca_osc_fabemu.so"]
CLUSTER = """fabric plain
key none
host here
    port net_af_packet0,iface=lo
host there
    port net_af_packet0,iface=lo
"""
NETWORK = ["--topo", "kary:2,2"]
WITHOUT = ("this fabemu was built without DPDK, and links between hosts need it: install "
           "libdpdk-dev and build it anew")
MISSING = ("libfabemu-dpdk.so is neither beside this program nor where it was to be installed: "
           "build and install fabemu anew")


def build(checks, args, folder):
    """The command of a build without DPDK, or None."""
    began = time.monotonic()
    for words in (["meson", "setup", str(folder), str(common.TOP), *OPTIONS],
                  ["ninja", "-C", str(folder), *TARGETS]):
        done = common.run(words, common.TOP, args.timeout)
        if not checks.that(not done.wrong(), f"{words[0]}: {done.wrong()}\n{done.tail(30)}"):
            return None
    print(f"built without DPDK in {time.monotonic() - began:.1f} s")
    return str(folder / "fabemu")


def refuses(checks, args, fabemu, why, cwd):
    """Every option for other hosts fails with @why."""
    cluster = ["--cluster", "lab.cluster", "--topo", "kary:4,2"]
    here = [*cluster, "--host", "here", "--launch", "none"]
    for words in (["run", *here, "--", "true"], ["up", "plain", *here], ["traffic", *here],
                  ["join", *cluster, "--host", "there", "--name", "plain"]):
        done = common.run([fabemu, *words], cwd, args.timeout)
        checks.that(done.status == 1 and why in done.output and not done.left,
                    f"{words[0]}: status {done.status}, left {done.left}\n{done.tail()}")


def works_on_one(checks, args, fabemu, cwd):
    """An MPI program, whose collectives are combined in switches; simulated time; a placement."""
    program = str(pathlib.Path(args.fabemu).parent / "tests" / "mpi_rounds")
    done, report = common.fabemu_mpirun(fabemu, NETWORK, 2, [program, "--seconds", "0", "--rounds",
                                                             "50"], cwd, args.timeout)
    checks.that(not done.wrong() and ", 0 wrong" in done.output and report and
                report["collectives"]["allreduce"]["in_switch"] >= 50,
                f"mpirun: {done.wrong()}\n{done.tail()}")
    words = ["traffic", *NETWORK, "--load", "0.3", "--measure", "20000ns", "--json"]
    digests = [line for command in (fabemu, args.fabemu)
               for line in common.run([command, *words], cwd, args.timeout).output.splitlines()
               if "digest" in line]
    checks.that(len(digests) == 2 and digests[0] == digests[1], f"traffic: {digests}")
    done = common.run([fabemu, "cluster", "--check", "lab.cluster", "--topo", "kary:4,2"], cwd,
                      args.timeout)
    checks.that(not done.wrong() and "digest" in done.output, f"cluster:\n{done.tail()}")


def main():
    args = common.arguments("A build without DPDK.",
                            timeout=(int, 200, "seconds that anything may take"))
    checks = common.Checks("plain_test")
    with common.scratch() as cwd:
        (pathlib.Path(cwd) / "lab.cluster").write_text(CLUSTER)
        fabemu = build(checks, args, pathlib.Path(cwd) / "build")
        if fabemu:
            works_on_one(checks, args, fabemu, cwd)
            refuses(checks, args, fabemu, WITHOUT, cwd)
        alone = shutil.copy(args.fabemu, cwd)  # no library is beside it
        probe = common.run([alone, "run", "--cluster", "lab.cluster", "--host", "here", "--launch",
                            "none", "--", "true"], cwd, args.timeout)
        if WITHOUT in probe.output or MISSING not in probe.output:
            checks.skip("a library for DPDK that is missing: this build has none, or one is "
                        "installed")
        else:
            refuses(checks, args, alone, MISSING, cwd)
    return checks.end()


if __name__ == "__main__":
    sys.exit(main())
