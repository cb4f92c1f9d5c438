"""What this machine can do, and what to mend."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from ninefold.agent.env import families
from ninefold.agent.env.lacking import skipped
from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import Lacking
from ninefold.model.ops import native
from ninefold.sandbox.runtime import open_runtime

DISK_GB = 2.0
MEMORY_GB = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at."""

    name: str
    state: Literal["good", "limited", "missing"]
    """`limited`: works, with less; `missing`: a run would fail."""
    detail: str


def examine() -> list[Finding]:
    """Everything that a run depends on."""
    return [_python(), _torch(), _threads(), _kernels(), _sandbox(), *_families(), _memory(), _disk(Path.cwd())]


def _python() -> Finding:
    state = "good" if sys.version_info >= (3, 11) else "missing"
    return Finding(name="Python", state=state, detail=f"{platform.python_version()} at {sys.executable}")


def _torch() -> Finding:
    good = torch.__version__.startswith("2.13.")
    detail = torch.__version__ if good else f"{torch.__version__}; tested with 2.13"
    return Finding(name="PyTorch", state="good" if good else "limited", detail=detail)


def _threads() -> Finding:
    threads, cores = (
        torch.get_num_threads(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    )
    good = threads == 1
    advice = "" if good else "; set OMP_NUM_THREADS=1, models this small are slower with more"
    return Finding(
        name="threads", state="good" if good else "limited", detail=f"{threads} per process on {cores} cores{advice}"
    )


def _kernels() -> Finding:
    status = native.status()
    return Finding(name="C kernels", state="good" if status.available else "limited", detail=status.detail)


def _sandbox() -> Finding:
    runtime = open_runtime("namespace")
    try:
        runtime.check()
    except SandboxUnavailable as error:
        return Finding(name="sandbox", state="limited", detail=f"runs leave coding out (exit status 3): {error}")
    finally:
        runtime.close()
    return Finding(name="sandbox", state="good", detail="isolates: no way out was found")


def _families() -> Iterator[Finding]:
    """Families that need a component which this machine may not have."""
    for name, family in families().items():
        if not isinstance(family, Lacking):
            continue
        left_out = skipped(family)
        levels = ", ".join(map(str, left_out))
        detail = f"level {levels} skipped: {'; '.join(dict.fromkeys(left_out.values()))}" if left_out else "nothing is lacking"
        yield Finding(name=f"family {name}", state="limited" if left_out else "good", detail=detail)


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    good = total >= MEMORY_GB
    return Finding(
        name="memory",
        state="good" if good else "limited",
        detail=f"{total:.1f} GB" + ("" if good else f"; the nano recipe wants {MEMORY_GB:.0f}: try --set workers=1"),
    )


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free / 1e9
    detail = f"{free:.1f} GB free in {folder}" + ("" if free >= DISK_GB else f"; a run needs {DISK_GB:.0f}")
    return Finding(name="disk", state="good" if free >= DISK_GB else "missing", detail=detail)
