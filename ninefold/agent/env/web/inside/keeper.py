"""The keeper of a candidate's server, inside the server's own sandbox: starts it, and ends it with everything that it left.

It is the first process there, so that none escapes it, and takes orders on an abstract socket: `a` start afresh from the files
as they were handed in, `r` start again with the files as they are. It answers `k` when the server listens, `b` where `build.py`
fails, `d` where the server ended, `t` where it does not listen in time; and ends when whoever gave the orders does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

WAIT_SECONDS = 15.0
"""For the first order."""
BUILD_SECONDS = 8.0
LISTEN_SECONDS = 8.0
HIDE_MEMORY = 4
"""PR_SET_DUMPABLE: with 0 no other process may trace this one."""


class Site:
    """The working directory as it was handed in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def restore(self) -> None:
        """Nothing is left of what a server stored."""
        for folder in (self._folder, Path("/tmp")):
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name, data in self._files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def build(self) -> bool:
        """Run `build.py`, where there is one; whether it went well."""
        if Path("build.py") not in self._files:
            return True
        building = start_program("build.py")
        try:
            return building.wait(BUILD_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            end_all()


def start_program(name: str) -> subprocess.Popen[bytes]:
    """A program of the site, with nobody to talk to."""
    nothing = subprocess.DEVNULL
    return subprocess.Popen(["python3", name], stdin=nothing, stdout=nothing, stderr=nothing)


def end_all() -> None:
    """No process of this namespace is left but this one, however it detached itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def start(port: int) -> bytes:
    """Start the server, and tell what came of it."""
    server = start_program("server.py")
    until = time.monotonic() + LISTEN_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return b"k"
        if server.poll() is not None:
            return b"d"
        time.sleep(0.02)
    return b"t"


def main() -> None:
    ctypes.CDLL(None).prctl(HIDE_MEMORY, 0, 0, 0, 0)
    name, port = sys.stdin.read().split()
    site = Site(Path.cwd())
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"\0{name}")
        door.listen(1)
        door.settimeout(WAIT_SECONDS)
        orders, _ = door.accept()
    while order := orders.recv(1):
        end_all()
        if order == b"a":
            site.restore()
            if not site.build():
                orders.sendall(b"b")
                continue
        orders.sendall(start(int(port)))
    end_all()


if __name__ == "__main__":
    main()
