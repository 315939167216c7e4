# SPDX-License-Identifier: BSD-3-Clause
"""web_helpers.py - a page's address, and plain HTTP requests to it, controlled byte by byte."""
import http.client
import json
import os
import re
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from cli_helpers import FabemuCase, PATIENCE_S, main, until  # noqa: E402 (and for who imports us)
from helpers.fabric import FakeFabric  # noqa: E402 (the same)

ADDRESS = re.compile(r"page http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/(#recording)?$", re.M)
__all__ = ["FabemuCase", "FakeFabric", "PATIENCE_S", "Page", "main", "page_of", "until"]


class Page:
    """The address of a page."""

    def __init__(self, port, token):
        self.port, self.token = int(port), token
        self.address = f"http://127.0.0.1:{port}/{token}/"

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def request(self, path="", method="GET", body=None, headers=(), token=None):
        """(status, headers, body) of a request as a browser would send it."""
        http_ = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        token = self.token if token is None else token
        http_.request(method, f"/{token}/{path}", body, dict(headers))
        reply = http_.getresponse()
        ret = reply.status, reply.headers, reply.read()
        http_.close()
        return ret

    def ask(self, cmd, **fields):
        status, _, body = self.request("ask", "POST", json.dumps({"cmd": cmd, **fields}),
                                       {"Content-Type": "application/json"})
        return (json.loads(body) if status == 200 else None), status

    def stream(self, path="stream"):
        """A socket on which events arrive, after the header."""
        sock = self.connect()
        sock.sendall(f"GET /{self.token}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n"
                     .encode())
        return Stream(sock)


class Stream:
    """Server-sent events, chunk by chunk."""

    def __init__(self, sock):
        self.file = sock.makefile("rb")
        sock.close()
        self.status = int(self.file.readline().split()[1])
        self.text = b""
        while self.file.readline().strip():
            pass

    def more(self):
        """Read one chunk. Returns false if it was the last."""
        size = int(self.file.readline() or b"0", 16)
        self.text += self.file.read(size)
        self.file.readline()
        return size > 0

    def event(self):
        """The text of one event; EOFError after the last."""
        while b"\n\n" not in self.text:
            if not self.more():
                raise EOFError
        event, self.text = self.text.split(b"\n\n", 1)
        assert event.startswith(b"data: "), event[:80]
        return event[6:]

    def next(self):
        return json.loads(self.event())

    def close(self):
        self.file.close()


def page_of(text):
    """The page whose address is in fabemu's output; None: none yet."""
    found = ADDRESS.search(text)
    return Page(*found.groups()[:2]) if found else None
