"""Start of the zygote: `python -S -s -P -m ninefold.sandbox.zygote CONTROL_FD OWNER_PID PACKAGES`."""

from __future__ import annotations

import builtins
import gc
import importlib
import json
import os
import resource
import site
import socket
import sys
from pathlib import Path

from ninefold.sandbox import linux
from ninefold.sandbox.owner import owner_ids
from ninefold.sandbox.zygote import root
from ninefold.sandbox.zygote.service import Service

# Imported once here, so that small programs find them for free.
_READY = (
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "io",
    "itertools",
    "math",
    "operator",
    "random",
    "re",
    "string",
    "textwrap",
    "time",
    "typing",
)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    owner = os.pidfd_open(int(sys.argv[2]))
    try:
        if os.getppid() != int(sys.argv[2]):
            raise ProcessLookupError("the owner is gone")
        shown = _enter_namespaces(control.fileno(), owner)
        root.build(shown)
        _prepare_interpreter()
        service = Service(control, owner)
    except OSError as error:
        control.send(json.dumps({"error": str(error)}).encode())
        raise SystemExit(1) from error
    control.send(json.dumps({"ready": sys.version}).encode())
    service.serve()


def _enter_namespaces(control: int, owner: int) -> list[root.Source]:
    """Return as the first process of new namespaces; the process that was here waits for it and ends with it."""
    uid, gid = owner_ids()
    if os.geteuid() == 0:
        os.setgroups([])
    tell_mapper, mapper = _start_mapper(uid, gid)
    linux.unshare(linux.NEW_USER | linux.NEW_MOUNTS | linux.NEW_PIDS | linux.NEW_NETWORK | linux.NEW_IPC | linux.NEW_HOSTNAME)
    os.write(tell_mapper, b"!")
    os.close(tell_mapper)
    if os.waitpid(mapper, 0)[1] != 0:
        raise PermissionError("uid_map: the kernel does not let this user map itself into a user namespace")
    shown = root.sources(sys.argv[3])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    linux.make_dumpable()
    child = os.fork()
    if child:
        os.close(control)
        os.close(owner)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    linux.die_with_parent()
    socket.sethostname("sandbox")
    return shown


def _start_mapper(uid: int, gid: int) -> tuple[int, int]:
    """A process outside the coming user namespace, which alone may map a foreign id into it. Returns (pipe, pid)."""
    target = os.getpid()
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(read)
        return write, pid
    try:
        os.close(write)
        if os.read(read, 1):
            folder = Path(f"/proc/{target}")
            (folder / "setgroups").write_text("deny")
            (folder / "uid_map").write_text(f"0 {uid} 1")
            (folder / "gid_map").write_text(f"0 {gid} 1")
            os._exit(0)
    finally:
        os._exit(1)


def _prepare_interpreter() -> None:
    for name in _READY:
        importlib.import_module(name)
    site.setquit()
    builtins.__dict__.pop("_", None)
    sys.path[:] = [path for path in sys.path if path.startswith((sys.base_prefix, sys.base_exec_prefix))]
    os.environ.clear()
    os.environ.update(
        PATH=root.search_path(),
        HOME=root.WORK,
        TMPDIR="/tmp",
        LANG="C.UTF-8",
        USER="agent",
        PYTHONHASHSEED="0",
        PYTHONDONTWRITEBYTECODE="1",
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "ninefold"]:
        del sys.modules[name]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    gc.freeze()
    gc.disable()


if __name__ == "__main__":
    main()
