"""Chromium in the sandbox: where it is, what this machine lacks, and a visit to what was handed in."""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from ninefold.agent.env.web.inside import chromium, driver, eyes, keeper, site
from ninefold.agent.env.web.steps import Played, Step
from ninefold.core.errors import SandboxError
from ninefold.core.protocols import ExecLimits, SandboxRuntime

PLACES = (
    *("/usr/lib/chromium/chromium-headless-shell", "/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser"),
    *("/usr/lib64/chromium-browser/headless_shell", "/usr/lib64/chromium-browser/chromium-browser"),
)
"""Where distributions put the program itself; its start script reads files that a sandbox does not show."""
PORT = 8000
SIZE = (800, 600)
"""Pixels of the window."""
_PROGRAM = {f"{module.__name__.replace('.', '/')}.py": inspect.getsource(module) for module in (driver, chromium, eyes, site)}
"""What plays the person, as files of the sandbox."""
_START_SECONDS, _SCRIPT_SECONDS = 30.0, 30.0
_SERVER_MEMORY_MB = 256


def program() -> str | None:
    """The browser of this machine."""
    return next((place for place in PLACES if Path(place).exists()), None)


def lacks() -> str | None:
    """What is missing, and how to get it."""
    if program() is not None:
        return None
    return "pages are judged in Chromium, which is not here: install Debian's chromium-headless-shell (make chromium)"


def visit(
    runtime: SandboxRuntime, files: Mapping[str, str], scripts: Sequence[Sequence[Step]], *, served: bool
) -> list[Played]:
    """What comes of each script at a site of these files, in one browser, each with empty storage and a server started afresh.

    Browser and server live in two sandboxes that share nothing but a loopback; neither knows what the steps want. Raises
    SandboxError where the browser does not start, or its driver breaks.
    """
    browser = program()
    if browser is None:
        raise SandboxError(str(lacks()))
    seconds = _START_SECONDS + _SCRIPT_SECONDS * len(scripts)
    limits = ExecLimits(seconds=seconds, memory_mb=1536, address_mb=1 << 27, output_bytes=32 << 20, processes=512, files_mb=64)
    plan = {
        "browser": browser,
        "port": PORT,
        "size": SIZE,
        "folder": "site",
        "keeper": secrets.token_hex(16) if served else "",
        "scripts": [[step.order for step in steps] for steps in scripts],
    }
    with ExitStack() as stack:
        page = {} if served else {f"site/{path}": text for path, text in files.items()}
        box = stack.enter_context(closing(runtime.create({**page, **_PROGRAM})))
        if served:
            beside = stack.enter_context(closing(runtime.create(files, beside=box)))
            bounds = ExecLimits(seconds=seconds, memory_mb=_SERVER_MEMORY_MB, processes=64)
            pool = stack.enter_context(ThreadPoolExecutor(1))
            # It ends when the driver does, whose orders it takes.
            pool.submit(beside.python, inspect.getsource(keeper), stdin=f"{plan['keeper']} {PORT}", limits=bounds)
        ended = box.python(f"from {driver.__name__} import main\nmain()", stdin=json.dumps(plan), limits=limits)
    if ended.reason != "exited":
        return _after(scripts, [], f"the visit was ended: {ended.reason}")
    if ended.exit_code != 0:
        raise SandboxError(f"the browser's driver broke: {ended.stderr.strip()[-300:]}")
    report: dict[str, Any] = json.loads(ended.stdout)
    if not report["begun"]:
        raise SandboxError("the browser did not start")
    return _after(scripts, [Played(seen=one["seen"], fault=one["fault"]) for one in report["played"]], "not reached")


def _after(scripts: Sequence[object], played: list[Played], fault: str) -> list[Played]:
    """One for each script, however many were reached."""
    return [*played, *[Played(seen=(), fault=fault)] * (len(scripts) - len(played))]
