# SPDX-License-Identifier: BSD-3-Clause
"""seed.py - the seed of a test's random numbers: $FABEMU_SEED, or 1, so that every run is the
same."""
import os
import sys


def seed():
    """The seed, which is printed as well."""
    value = int(os.environ.get("FABEMU_SEED", "1"))
    print(f"FABEMU_SEED={value}", file=sys.stderr, flush=True)
    return value
