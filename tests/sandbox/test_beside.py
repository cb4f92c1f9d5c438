"""A sandbox has a loopback of its own, or that of the one that it lies beside, and shares nothing else with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ninefold.core.errors import UserError
from ninefold.core.protocols import ExecLimits, Sandbox
from ninefold.sandbox.namespace import NamespaceRuntime

LISTEN = """
import socket
with socket.create_server(("127.0.0.1", 8000)) as server:
    open("/tmp/listening", "w").close()
    server.settimeout(5)
    peer, _ = server.accept()
    print(peer.recv(9).decode())
"""
CALL = """
import socket, time
until = time.monotonic() + TRIES
while True:
    try:
        socket.create_connection(("127.0.0.1", 8000), 1).sendall(b"hello")
        break
    except OSError:
        if time.monotonic() > until: raise SystemExit("nobody listens")
        time.sleep(0.01)
"""
AROUND = """
import json, os
print(json.dumps([os.path.exists("/work/mine"), os.path.exists("/tmp/mine"),
                  sorted(name for name in os.listdir("/proc") if name.isdigit())]))
"""


@pytest.fixture
def neighbour(namespaces: NamespaceRuntime, box: Sandbox) -> Iterator[Sandbox]:
    with closing(namespaces.create(beside=box)) as sandbox:
        yield sandbox


def test_it_reaches_itself_and_its_neighbour_and_nobody_else(
    namespaces: NamespaceRuntime, box: Sandbox, neighbour: Sandbox
) -> None:
    with ThreadPoolExecutor(1) as pool, closing(namespaces.create()) as stranger:
        listening = pool.submit(box.python, LISTEN)
        assert stranger.python(CALL.replace("TRIES", "0.3")).exit_code == 1
        assert neighbour.python(CALL.replace("TRIES", "4")).exit_code == 0
        assert listening.result().stdout == "hello\n"


def test_it_shares_neither_files_nor_processes(box: Sandbox, neighbour: Sandbox) -> None:
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            box.python, "import time\nfor path in ('/work/mine', '/tmp/mine'): open(path, 'w')\ntime.sleep(0.5)"
        )
        assert json.loads(neighbour.python(f"import time\ntime.sleep(0.3)\n{AROUND}").stdout) == [False, False, ["1"]]
        assert running.result().exit_code == 0


def test_one_lies_beside_an_open_sandbox_only(namespaces: NamespaceRuntime) -> None:
    gone = namespaces.create()
    gone.close()
    with pytest.raises(UserError, match="beside an open one"):
        namespaces.create(beside=gone)


def test_address_space_is_bounded_apart_from_memory(box: Sandbox) -> None:
    reserve = "import mmap\nmmap.mmap(-1, 1 << 31)\nprint('reserved')"
    assert box.python(reserve).exit_code != 0
    assert box.python(reserve, limits=ExecLimits(address_mb=8192)).stdout == "reserved\n"
    hold = "x = bytearray(b'1' * (1 << 29))\nimport time\ntime.sleep(3)"
    assert box.python(hold, limits=ExecLimits(address_mb=8192)).reason == "memory"
