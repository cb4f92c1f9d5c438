"""What a forked child becomes: a Python program in this interpreter, or the parent of an executed one."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import linecache
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType
from typing import NoReturn

from ninefold.sandbox.zygote.box import Namespaces, confine, keep_only
from ninefold.sandbox.zygote.root import WORK

_FILE = "<program>"


def become(box: Namespaces, request: int, streams: Sequence[int], reply: socket.socket) -> NoReturn:
    """Confine this process, then run what the file `request` asks for on `streams` (stdin, stdout, stderr).

    A confinement that fails is told on `reply` and nothing is run.
    """
    try:
        wanted = json.loads(os.read(request, os.fstat(request).st_size))
        try:
            confine(box, wanted["limits"])
        except OSError as error:
            reply.send(json.dumps({"error": str(error)}).encode())
            os._exit(1)
        reply.detach()
        keep_only(streams)
        gc.enable()
        os._exit(_python(wanted["code"]) if "code" in wanted else _parent_of(wanted["argv"]))
    finally:
        os._exit(1)


def _python(source: str) -> int:
    """Run source as `__main__` of what looks like a new interpreter; returns its exit code."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [_FILE]
    sys.path.insert(0, WORK)
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    code = _guarded(lambda: exec(_compiled(source), main.__dict__))
    # The interpreter's own farewell, which os._exit leaves out.
    code = _guarded(threading._shutdown) or code  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    return code


def _compiled(source: str) -> CodeType:
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)
    return compile(source, _FILE, "exec", dont_inherit=True)


def _guarded(act: Callable[[], object]) -> int:
    """Call, and say of what it raised what the interpreter says at top level."""
    try:
        act()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BaseException as error:  # noqa: BLE001  whatever a program raises is its own affair
        _report(error)
        return 1
    return 0


def _report(error: BaseException) -> None:
    """The traceback without this module's own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    if sys.excepthook is sys.__excepthook__:
        traceback.print_exception(error)
    else:
        sys.excepthook(type(error), error, trace)


def _parent_of(argv: list[str]) -> int:
    """Execute a program as a child, so that signals mean to it what they do anywhere; reap strays until it ends."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode(errors="surrogateescape"))
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
