# SPDX-License-Identifier: BSD-3-Clause
"""store.py - keeps finished points in the output folder, so that an interrupted run can continue.

The files are FOLDER/points/BUILD/KEY.json. A file is written under another name and then renamed,
so it is always complete. BUILD is a hash of the fabemu command, and KEY is a hash of the command
line of the point (one run of `fabemu traffic`)."""
import fcntl
import hashlib
import json
import os
import shutil
import subprocess


class Fabemu:
    """The command that measures. Results are valid for this version and this file."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.version = subprocess.run([self.path, "--version"], stdin=subprocess.DEVNULL, text=True,
                                      capture_output=True, timeout=30, check=True).stdout.strip()
        self.file = self._file()
        with open(self.path, "rb") as f:
            self.fingerprint = hashlib.sha256(self.version.encode() + f.read()).hexdigest()[:16]

    def _file(self):
        st = os.stat(self.path)
        return st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns

    def changed(self):
        """Return whether the file has changed since the start."""
        try:
            return self._file() != self.file
        except OSError:
            return True


class Store:
    def __init__(self, folder, fabemu, fresh):
        self.folder = os.path.join(folder, "points", fabemu.fingerprint)
        self.fabemu = fabemu
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise OSError(f"cannot make the folder {folder}: {error.strerror}; choose another "
                          "--out") from None
        self.lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"another fabemu figures uses {folder}; wait for it, or choose "
                          "another --out") from None
        if fresh:
            shutil.rmtree(os.path.join(folder, "points"), ignore_errors=True)
        os.makedirs(self.folder, exist_ok=True)

    def _path(self, point):
        key = hashlib.sha256("\0".join(point.args).encode()).hexdigest()[:24]
        return os.path.join(self.folder, key + ".json")

    def load(self, point):
        """Return the result of the point; None if it has not run, or if the file is damaged."""
        try:
            with open(self._path(point)) as f:
                kept = json.load(f)
        except (OSError, ValueError):
            return None
        return kept["result"] if kept.get("args") == list(point.args) else None

    def save(self, point, result):
        path = self._path(point)
        with open(path + ".new", "w") as f:
            json.dump({"version": self.fabemu.version, "args": list(point.args), "result": result},
                      f)
            f.write("\n")
        os.replace(path + ".new", path)
