"""Proof of isolation: a sandboxed program tries to reach this host, and must fail at everything."""

from __future__ import annotations

import json
import secrets
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import ExecResult
from ninefold.sandbox.advice import advice

# Runs inside. Prints a JSON list of what it could do and should not.
_ATTEMPTS = """
import json, os, socket
targets = json.loads(input())
open("/dev/null", "w").close()
broken = []

def attempt(what, act):
    try:
        worked = act()
    except OSError:
        return
    if worked is not False:
        broken.append(what)

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)

for path in targets["paths"]:
    attempt(f"read {path} of this host", lambda: open(path, "rb").read(1))
for path in targets["folders"]:
    attempt(f"see {path} of this host", lambda: os.stat(path))
for path in ("/", "/usr/bin", "/etc", "/dev"):
    attempt(f"write to {path}", lambda: open(path + "/ninefold-probe", "w"))
attempt("reach a TCP port of this host", lambda: connect(socket.AF_INET, ("127.0.0.1", targets["port"])))
attempt("reach an abstract socket of this host", lambda: connect(socket.AF_UNIX, targets["abstract"].encode()))
attempt("reach the internet", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
attempt("see a network device", lambda: [name for _, name in socket.if_nameindex()] != ["lo"])
attempt("become root", lambda: os.setuid(0))
attempt("change the host name", lambda: socket.sethostname("x"))
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
expected = {"NSpid": os.getpid() == 1 and "1", "CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1"}
broken += [f"{k} is {status[k].strip()}" for k, v in expected.items() if status[k].strip() != v]
others = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
broken += [f"see process {pid}" for pid in others]
print(json.dumps(broken))
"""


class Execute(Protocol):
    """Runs a program in the sandbox under test."""

    def __call__(self, code: str, *, stdin: str) -> ExecResult: ...


def check(execute: Execute) -> None:
    """Raise SandboxUnavailable, saying what was possible, unless the sandbox withstands every attempt."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ninefold-probe-")))
        secret = folder / "secret"
        secret.write_text("not for the sandbox")
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = f"\0ninefold-probe-{secrets.token_hex(8)}"
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(abstract)
        listener.listen()
        targets = {
            "paths": [str(secret), "/etc/shadow"],
            "folders": [str(folder), "/sys/class", *_private_folders()],
            "port": tcp.getsockname()[1],
            "abstract": abstract,
        }
        result = execute(_ATTEMPTS, stdin=json.dumps(targets))
    if result.exit_code != 0:
        raise SandboxUnavailable(f"the isolation test did not run: {result.reason}, {result.stderr.strip()[-500:]}; {advice()}")
    broken = json.loads(result.stdout)
    if broken:
        raise SandboxUnavailable(f"isolation is not complete: a sandboxed program could {', '.join(broken)}; {advice()}")


def _private_folders() -> list[str]:
    """What lies in this user's home, save the way to the interpreter."""
    try:
        home = Path.home()
        inside = [] if home == Path("/") else sorted(home.iterdir())
    except (RuntimeError, OSError):  # a user without a home, or one that cannot be entered
        return []
    prefix = Path(sys.base_prefix)
    return [str(path) for path in inside[:50] if not prefix.is_relative_to(path)]
