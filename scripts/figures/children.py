# SPDX-License-Identifier: BSD-3-Clause
"""children.py - runs points (runs of `fabemu traffic`) as child processes, several at a time.

The kernel kills each child when the calling thread ends for any reason."""
import ctypes
import json
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time

from model import dig

POINT_LIMIT_S = 900     # time limit of a point
PR_SET_PDEATHSIG = 1
FIELDS = ("offered", "accepted", "latency_ns", "saturated")

libc = ctypes.CDLL(None, use_errno=True)


class Child:
    def __init__(self, command, point):
        self.point = point
        self.since = time.monotonic()
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        parent = os.getpid()

        def die_with_parent():
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        self.process = subprocess.Popen(
            [command, "traffic", *point.args, "--json"], stdin=subprocess.DEVNULL, stdout=self.out,
            stderr=self.err, preexec_fn=die_with_parent)
        self.pidfd = os.pidfd_open(self.process.pid)

    def seconds(self):
        return time.monotonic() - self.since

    def close(self):
        os.close(self.pidfd)
        self.out.close()
        self.err.close()

    def _text(self, file):
        file.seek(0)
        return file.read().decode(errors="replace")

    def outcome(self):
        """Return (result, None) or (None, reason of the failure). The process has ended."""
        status = self.process.wait()
        lines = [line for line in self._text(self.err).splitlines() if line.strip()]
        said = lines[-1] if lines else "it printed nothing"
        if self.seconds() > POINT_LIMIT_S:
            return None, f"it took more than {POINT_LIMIT_S} s"
        if status < 0:
            return None, f"killed by signal {-status}"
        if status:
            return None, f"exit status {status}: {said}"
        try:
            result = json.loads(self._text(self.out))
        except ValueError as error:
            return None, f"its output is not JSON: {error}"
        if isinstance(result, list) and len(result) == 1:
            result = result[0]
        missing = [name for name in FIELDS if not isinstance(result, dict) or name not in result]
        if missing:
            return None, f"its JSON has no {missing[0]}"
        if (dig(result, ("latency_ns", "mean")) is None and
                not dig(result, ("source_messages_per_s", "mean"))):
            return None, "it measured no message"
        return result, None


class Children:
    def __init__(self, command, jobs):
        self.command = command
        self.jobs = jobs
        self.running = {}   # Point -> Child
        self.selector = selectors.DefaultSelector()

    def room(self):
        return len(self.running) < self.jobs

    def start(self, point):
        child = Child(self.command, point)
        # A signal may raise an exception after each line. A child in self.running must be
        # registered with the selector, because _forget() unregisters it.
        self.selector.register(child.pidfd, selectors.EVENT_READ, child)
        self.running[point] = child

    def wait(self, seconds):
        """Wait up to @seconds. Return (point, result or None, reason, duration) of each
        child that has ended."""
        ended = [key.data for key, _ in self.selector.select(seconds)]
        for child in self.running.values():
            if child.seconds() > POINT_LIMIT_S:
                child.process.kill()
        return [(child.point, *child.outcome(), self._forget(child)) for child in ended]

    def _forget(self, child):
        self.selector.unregister(child.pidfd)
        del self.running[child.point]
        child.close()
        return child.seconds()

    def end(self):
        for child in list(self.running.values()):
            child.process.kill()
            child.process.wait()
            self._forget(child)


def command_line(command, point):
    return shlex.join([command, "traffic", *point.args, "--json"])
