"""A secluded process: what it cannot do, and that its children's trees die with them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ninefold.sandbox.namespace import NamespaceRuntime

_PROGRAM = """
# All that is needed, before it becomes a user to whom Python's own files may be closed.
import encodings.idna, json, os, random, socket, sys, tempfile, time
from ninefold.sandbox import linux
from ninefold.sandbox.seclusion import Seclusion

port, file, user = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
if user:
    os.setgroups([]), os.setgid(user), os.setuid(user)
    linux.make_dumpable()  # as a process is that was this user's from the start
seclusion = Seclusion.enter()

def works(act):
    try:
        act()
        return True
    except OSError:
        return False

def tree():
    read, write = os.pipe()
    pid = seclusion.fork()
    if pid == 0:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
        os.write(write, b"!")
        time.sleep(600)
    os.read(read, 1)
    os.close(write)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    while os.read(read, 64):
        pass
    return True  # every holder of the other end is dead

print(json.dumps({
    "reach a port of this host": works(lambda: socket.create_connection(("127.0.0.1", port), 1)),
    "change a file": works(lambda: open(file, "a")),
    "write to its temporary folder": works(lambda: tempfile.TemporaryFile()),
    "listen to itself": works(lambda: socket.create_server(("127.0.0.1", 0))),
    "end a whole tree": tree(),
    "fork again": os.WEXITSTATUS(os.waitpid(seclusion.fork() or os._exit(7), 0)[1]) == 7,
}))
"""


@pytest.mark.parametrize("user", [0, 65534], ids=["as it is", "without rights"])
def test_no_network_no_file_and_no_survivor(namespaces: NamespaceRuntime, tmp_path: Path, user: int) -> None:
    if user and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [sys.executable, "-c", _PROGRAM, str(server.getsockname()[1]), str(file), str(user)]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        "reach a port of this host": False,
        "change a file": False,
        "write to its temporary folder": True,
        "listen to itself": True,
        "end a whole tree": True,
        "fork again": True,
    }
