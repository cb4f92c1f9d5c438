"""Choice of a sandbox runtime by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from ninefold.core.errors import UserError
from ninefold.core.protocols import SandboxRuntime
from ninefold.sandbox.memory import MemoryRuntime
from ninefold.sandbox.namespace import NamespaceConfig, NamespaceRuntime

RuntimeKind = Literal["namespace", "memory"]
PACKAGES = "NINEFOLD_PACKAGES"
"""Environment variable: the folder of Python packages that sandboxes show (`NamespaceConfig.packages`); unset, none."""


def open_runtime(kind: RuntimeKind = "namespace") -> SandboxRuntime:
    """A runtime, not yet checked.

    `namespace` never falls back to running programs unisolated: `check` and `create` raise SandboxUnavailable instead.
    `memory` executes nothing. Raises UserError where NINEFOLD_PACKAGES names no folder.
    """
    return MemoryRuntime() if kind == "memory" else NamespaceRuntime(NamespaceConfig(packages=packages()))


def packages() -> str | None:
    """The folder that NINEFOLD_PACKAGES names. Raises UserError where it is none."""
    named = os.environ.get(PACKAGES)
    if named and not Path(named).is_dir():
        raise UserError(f"{PACKAGES} names {named}, which is no folder: name one that Python packages lie in, or unset it")
    return str(Path(named).absolute()) if named else None
