# SPDX-License-Identifier: BSD-3-Clause
"""cli_helpers.py - shared by the tests of commands: runs fabemu in a folder of its own, with ranks
that a script plays, and clients of the control socket."""
import array
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

END_S = 5      # time limit for all processes of a run to end
PATIENCE_S = 20  # for steps that take no time on an idle machine

HOSTIF_H = pathlib.Path(__file__).resolve().parents[2] / "emu/hostif/hostif.h"
HOSTIF_VERSION = int(re.search(r"#define EMU_HOSTIF_VERSION (\d+)u", HOSTIF_H.read_text())[1])
ATTACH = b'{"cmd":"attach","version":%d,"want":-1}\n' % HOSTIF_VERSION

# A script's background job ignores SIGINT, and commands would inherit this from the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


def unless_no_sync(run, said):
    """Returns the result of @run().

    In one of some thousand successful runs mpirun reports that it has not seen a rank's
    MPI_Finalize (a known bug of Open MPI 4, closed without a fix:
    https://github.com/open-mpi/ompi/issues/7833). Such a run is repeated once, with a message,
    unless the fabric reports an error.

    @said: status and output of the result of run().
    """
    result = run()
    status, text = said(result)
    if (status != 1 or "with PID 0 on" not in text or "exiting improperly" not in text or
            "\n  died " in text or "the fabric is gone" in text):
        return result
    print("RUN AGAIN: mpirun has not seen a rank's MPI_Finalize", file=sys.stderr)
    return run()


def end_of_spawning(start, seconds):
    """Start a program that calls MPI_Comm_spawn. Returns its process and its output.

    With any transport, a spawned child of Open MPI 4.1.4 sometimes hangs in PMIx_Init(). Then the
    program is started again, with a message. The parent prints "spawn: wanted" before each call,
    and a child "spawn: there" after MPI_Init. If these counts are equal, the hang is our error.
    """
    for attempt in range(4):
        if attempt:
            print("RUN AGAIN: a spawned child has not started", file=sys.stderr)
        run = start()
        try:
            return run, *run.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGTERM)
            out, err = run.communicate()
            if err.count("spawn: wanted") == err.count("spawn: there"):
                break
    return run, out, err


RANK = f"ATTACH = {ATTACH!r}\n" + r'''
import array, json, os, signal, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["FABEMU_SOCKET"])
s.sendall(ATTACH)
data, ancillary, _, _ = s.recvmsg(65536, 64)
reply = json.loads(data)
if not reply["ok"]:
    print("refused", reply["error"], flush=True)
    sys.exit(3)
with open(os.path.join(sys.argv[1], "rank.%d" % reply["node"]), "w") as f:
    f.write("%d\n" % os.getpid())
if len(sys.argv) > 2 and sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
if len(sys.argv) > 2 and sys.argv[2] == "leave":
    s.sendall(b'{"cmd":"detach"}\n')
    s.recv(4096)
    sys.exit(0)
if len(sys.argv) > 2 and sys.argv[2] == "exit":
    sys.exit(1)
while True:
    signal.pause()
'''


def until(condition, seconds=PATIENCE_S):
    """Poll until condition() is true; returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.02)


def flat(text):
    """@text on one line, because long lines are broken between words (apps/base/fold.h)."""
    return " ".join(text.split())


def build_bugs(folder):
    """Compile classic bugs of MPI programs, tests/mpi/bugs.c, into the folder; returns the
    program."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mpi", "bugs.c")
    program = os.path.join(folder, "bugs")
    subprocess.run(["mpicc", "-O1", "-std=c17", "-D_GNU_SOURCE", source, "-o", program],
                   check=True)
    return program


def stat_of(pid, thread=None):
    """The fields of a process's or thread's stat after its name; the first is the state."""
    with open(f"/proc/{pid}/stat" if thread is None else f"/proc/{pid}/task/{thread}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()


def stopped(pid):
    """Are all of its threads stopped?"""
    return {stat_of(pid, thread)[0] for thread in os.listdir(f"/proc/{pid}/task")} == {"T"}


def alive(pid):
    try:
        return stat_of(pid)[0] not in "ZX"
    except OSError:
        return False


class Client:
    """One connection to a control socket."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.data = b""
        self.fds = []

    def send(self, message):
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, data):
        self.socket.sendall(data)

    def next(self):
        while b"\n" not in self.data:
            data, ancillary, _, _ = self.socket.recvmsg(65536, 256)
            if not data:
                raise EOFError
            for _, _, fds in ancillary:
                self.fds += array.array("i", fds)
            self.data += data
        line, self.data = self.data.split(b"\n", 1)
        return json.loads(line)

    def ask(self, cmd, **fields):
        self.send({"cmd": cmd, **fields})
        return self.next()

    def attach(self, want=-1, **job):
        return self.ask("attach", version=HOSTIF_VERSION, want=want, **job)

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        self.socket.close()


@contextlib.contextmanager
def busy_host():
    """Keep a core busy with another process."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


class FabemuCase(unittest.TestCase):
    command = os.path.abspath("build/fabemu")

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="fabemu-cli-test.")
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("OMPI_", "FI_", "FABEMU_"))}
        self.env["XDG_RUNTIME_DIR"] = self.dir
        self.rank = os.path.join(self.dir, "rank.py")
        with open(self.rank, "w") as f:
            f.write(RANK)
        self.started = []
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.close()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for name in self.sockets():
            self.fabemu("down", name[:-5])
        shutil.rmtree(self.dir, ignore_errors=True)

    # --- helpers ---------------------------------------------------------------

    def sockets(self):
        try:
            return os.listdir(os.path.join(self.dir, "fabemu"))
        except FileNotFoundError:
            return []

    def socket_path(self, name):
        return os.path.join(self.dir, "fabemu", name + ".sock")

    def against_library(self, text):
        """Compile @text, a C program, with the build's libfabemu."""
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
        library = os.path.join(os.path.dirname(self.command), "nic")
        path = os.path.join(self.dir, "p")
        with open(path + ".c", "w") as f:
            f.write(text)
        sanitized = ["-fsanitize=address,undefined"] if "asan" in self.command else []
        subprocess.run(["cc", *sanitized, "-D_GNU_SOURCE", path + ".c", "-o", path,
                        "-I" + os.path.join(source, "nic"), "-L" + library, "-lfabemu",
                        "-Wl,-rpath," + library], check=True, timeout=60)
        return path

    def fabemu(self, *args, **kwargs):
        env = kwargs.pop("env", self.env)
        return unless_no_sync(
            lambda: subprocess.run([self.command, *args], env=env, text=True,
                                   stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                                   **kwargs),
            lambda done: (done.returncode, done.stderr))

    def need_tsc(self):
        """Skip the test where RDTSC cannot raise a signal."""
        done = self.fabemu("run", "--clock", "virtual", "--tsc", "--", "true")
        if "lets RDTSC raise a signal" in flat(done.stderr):
            self.skipTest("RDTSC cannot raise a signal on this machine")

    def start(self, *args, **kwargs):
        process = subprocess.Popen([self.command, *args], env=self.env, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **kwargs)
        self.started.append(process)
        return process

    def start_ranks(self, count, *options, mode="", wait="wait", **kwargs):
        """A run of a shell with @count ranks; returns it and {node: pid}."""
        line = f"{sys.executable} {self.rank} {self.dir} {mode} & " * count + wait
        run = self.start("run", "--topo", "kary:2,2", "--name", "r", *options, "--", "sh", "-c",
                         line, **kwargs)
        self.assertTrue(until(lambda: len(self.rank_pids()) == count), "ranks did not attach")
        return run, self.rank_pids()

    def rank_pids(self):
        pids = {}
        for name in os.listdir(self.dir):
            if name.startswith("rank.") and name != "rank.py":
                with open(os.path.join(self.dir, name)) as f:
                    text = f.read()
                if text.endswith("\n"):
                    pids[int(name[5:])] = int(text)
        return pids

    def up(self, name="u", *options):
        done = self.fabemu("up", "--topo", "kary:2,2", *options, name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.socket_path(name)

    def status(self, name):
        done = self.fabemu("status", "--json", name)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)[0]

    def client(self, path):
        client = Client(path)
        self.clients.append(client)
        return client

    def one_line(self, done, code, *words):
        """One line on stderr with these words, and this exit code."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("fabemu: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def ends(self, process, pids, since):
        """All processes end in time and leave neither process nor socket; returns stderr."""
        _, err = process.communicate(timeout=30)
        gone = until(lambda: not any(alive(pid) for pid in pids) and not self.sockets(), END_S)
        took = time.monotonic() - since
        self.assertEqual([pid for pid in pids if alive(pid)], [])
        self.assertEqual(self.sockets(), [])
        self.assertTrue(gone)
        self.assertLess(took, END_S)
        return err


def each(tests):
    """Every test of a nested suite: "Class.test_name"."""
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test.id().removeprefix("__main__.")


def side_by_side(jobs):
    """All tests, each in a process of its own, @jobs at a time. Returns the exit status."""
    def alone(name):
        return subprocess.run([sys.executable, sys.argv[0], "--fabemu", FabemuCase.command, name],
                              text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    names = list(each(unittest.defaultTestLoader.loadTestsFromName("__main__")))
    failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in pool.map(alone, names):
            failed += done.returncode != 0
            skipped += "\nOK (skipped=" in done.stdout
            print(done.stdout, flush=True)
    name = os.path.basename(sys.argv[0]).removesuffix(".py")
    print(f"{name}: {len(names) - failed - skipped} passed, {failed} failed")
    return int(failed > 0 or not names)


# The folder for sockets of fabrics on several hosts does not depend on XDG_RUNTIME_DIR.
SHARED = f"/tmp/fabemu-{os.geteuid()}"
ALONE = "FABEMU_TEST_ALONE"  # in the environment: SHARED is private to this test


def be_alone():
    """`fabemu status` lists the fabrics on several hosts that other tests have. Where permitted,
    mount an empty folder of sockets that only this test sees."""
    words = ["unshare", "--mount", "sh", "-c",
             f'mount -t tmpfs -o mode=700 none {SHARED} && exec "$@"', "sh"]
    if os.environ.get(ALONE) or os.geteuid():
        return
    os.makedirs(SHARED, mode=0o700, exist_ok=True)
    if subprocess.run([*words, "true"], capture_output=True).returncode == 0:
        os.execvpe(words[0], [*words, sys.executable, *sys.argv], {**os.environ, ALONE: "1"})


def main(jobs=1, alone=True):
    """unittest.main() with --fabemu PATH removed from the arguments. Tests that mostly wait run
    @jobs at a time, unless some are named. @alone: be_alone()."""
    if alone:
        be_alone()
    args = sys.argv[1:]
    if "--fabemu" in args:
        at = args.index("--fabemu")
        FabemuCase.command = os.path.abspath(args[at + 1])
        del args[at:at + 2]
    if not os.access(FabemuCase.command, os.X_OK):
        sys.exit(f"{FabemuCase.command} is not there; build it, or name it with --fabemu")
    if jobs > 1 and not args:
        sys.exit(side_by_side(jobs))
    unittest.main(module="__main__", argv=[sys.argv[0], "-v", *args])
