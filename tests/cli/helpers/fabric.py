# SPDX-License-Identifier: BSD-3-Clause
"""fabric.py - a fabric that a test plays, for readers of telemetry: the page and fabemu top."""
import contextlib
import json
import os
import queue
import socket
import threading

PATIENCE_S = 20


class Listener:
    """A control socket. Each connection has a thread, which runs talk(conn)."""

    def __init__(self, path):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.path = path
        self.conns = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.conns.append(conn)
            threading.Thread(target=self.talk, args=(conn,), daemon=True).start()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)


class FakeFabric(Listener):
    """A control socket under the test's control. The test gets streams one by one (next()); other
    requests are answered from replies, by their command."""

    def __init__(self, path):
        self.streams = queue.Queue()
        self.replies = {}
        super().__init__(path)

    def talk(self, conn):
        text = b""
        while not text.endswith(b"\n"):
            piece = b""
            with contextlib.suppress(OSError):  # the test has ended
                piece = conn.recv(65536)
            if not piece:
                return  # the server's watch connection, and the server has ended
            text += piece
        cmd = json.loads(text)["cmd"]
        if cmd == "subscribe":
            self.streams.put(conn)
        else:
            reply = self.replies.get(cmd, {"ok": False, "errno": 5, "error": "it says nothing"})
            with contextlib.suppress(ConnectionError):  # the server has refused it
                text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                conn.sendall(text + b"\n")

    def next(self):
        """The connection of the next stream."""
        return self.streams.get(timeout=PATIENCE_S)

    def say(self, conn, *lines):
        conn.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def hang_up(self, conn):
        conn.shutdown(socket.SHUT_RDWR)

    def end(self):
        """Ends abruptly, as if killed."""
        self.close()
        for conn in self.conns:
            try:
                conn.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended already
            conn.close()
