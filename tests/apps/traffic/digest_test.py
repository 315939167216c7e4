#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""digest_test.py - the fabric's behaviour has not changed: digests of many runs of traffic.

A digest covers every arrival of a run, to the picosecond. digests.txt has one line per run: its
digest and its options. After an intended change of behaviour, renew the file:

   tests/apps/traffic/digest_test.py --fabemu build/fabemu --renew

--every N runs each N-th line only, where a run takes thirty times as long. FABEMU_SEED selects the
first one.
"""
import argparse
import json
import os
import random
import shlex
import subprocess
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "digests.txt")


def digest_of(fabemu, options):
    """The digest of one run, or its error."""
    done = subprocess.run([fabemu, "traffic", "--json", *shlex.split(options)], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip()}"
    return json.loads(done.stdout)["digest"]


def main():
    parse = argparse.ArgumentParser(description="Compare the digests of runs with the table.")
    parse.add_argument("--fabemu", required=True, help="the program to test")
    parse.add_argument("--renew", action="store_true", help="write the table anew")
    parse.add_argument("--every", type=int, default=1, metavar="N", help="each N-th run only")
    args = parse.parse_args()
    if args.every < 1 or (args.renew and args.every > 1):
        parse.error("--every is of runs to compare, and at least 1")
    seed = int(os.environ.get("FABEMU_SEED", "1"))
    print(f"digest_test: FABEMU_SEED={seed}", flush=True)
    first = random.Random(seed).randrange(args.every)
    with open(TABLE, encoding="ascii") as f:
        lines = [line.rstrip("\n").split(" ", 1) for line in f if not line.startswith("#")]
    runs = list(enumerate(lines, 2))[first::args.every]  # line number in the file
    wrong, table = 0, []
    for number, (want, options) in runs:
        got = digest_of(args.fabemu, options)
        table.append(f"{got} {options}\n")
        if got != want and not args.renew:
            wrong += 1
            print(f"line {number}: was {want}, is {got}: fabemu traffic {options}")
    if args.renew:
        with open(TABLE, "w", encoding="ascii") as f:
            f.writelines(["# digest and options of runs of fabemu traffic: see digest_test.py\n",
                          *table])
        return 0
    print(f"digest_test: {len(runs) - wrong} passed, {wrong} failed")
    return 1 if wrong or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
