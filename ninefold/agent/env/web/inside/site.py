"""What the browser visits: the candidate's server, kept in a sandbox beside this one, or the files of a page."""

from __future__ import annotations

import functools
import http.client
import http.server
import json
import socket
import threading
import time
from typing import Any

from ninefold.agent.env.web.inside.chromium import ANSWER_SECONDS, Fault, Lost


class Server:
    """The candidate's server, whose keeper listens on a socket that no page can reach."""

    def __init__(self, port: int, keeper: str) -> None:
        self._port = port
        self._keeper = socket.socket(socket.AF_UNIX)
        self._keeper.settimeout(2 * ANSWER_SECONDS)
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                self._keeper.connect(f"\0{keeper}")
                return
            except OSError:
                if time.monotonic() > until:
                    raise Lost from None
                time.sleep(0.02)

    def begin(self, order: bytes) -> None:
        """Have it started: `a` afresh as it was handed in, `r` again with what it has stored since."""
        try:
            self._keeper.sendall(order)
            answer = self._keeper.recv(1)
        except OSError:
            answer = b""
        if answer != b"k":
            said = {b"b": "the build fails", b"d": "the server ends", b"t": f"no server listens on port {self._port}"}
            raise Fault(said.get(answer, "the server took more than there is"))

    def ask(self, request: str, body: Any) -> list[Any]:
        """[status, JSON or text] of a request."""
        method, _, path = request.partition(" ")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=3.0)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
            answer = connection.getresponse()
            text = answer.read(1 << 16).decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise Fault(f"{request}: {type(error).__name__}") from None
        finally:
            connection.close()
        try:
            return [answer.status, json.loads(text)]
        except ValueError:
            return [answer.status, text[:200]]


class Files(http.server.SimpleHTTPRequestHandler):
    """Hands out the files of a page that has no server of its own."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve(folder: str, port: int) -> None:
    """Hand out the folder's files, on a thread that ends with this program."""
    site = http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Files, directory=folder))
    threading.Thread(target=site.serve_forever, daemon=True).start()
