"""Choice of a sandbox runtime by name."""

from __future__ import annotations

from typing import Literal

from ninefold.core.protocols import SandboxRuntime
from ninefold.sandbox.memory import MemoryRuntime
from ninefold.sandbox.namespace import NamespaceRuntime

RuntimeKind = Literal["namespace", "memory"]


def open_runtime(kind: RuntimeKind = "namespace") -> SandboxRuntime:
    """A runtime, not yet checked.

    `namespace` never falls back to running programs unisolated: `check` and `create` raise SandboxUnavailable instead.
    `memory` executes nothing.
    """
    return MemoryRuntime() if kind == "memory" else NamespaceRuntime()
