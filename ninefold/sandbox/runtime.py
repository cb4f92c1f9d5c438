"""Choice of a sandbox runtime by name."""

from __future__ import annotations

from typing import Literal

from ninefold.core.protocols import SandboxRuntime
from ninefold.sandbox.memory import MemoryRuntime, Script, silent
from ninefold.sandbox.namespace import NamespaceConfig, NamespaceRuntime

RuntimeKind = Literal["namespace", "memory"]


def open_runtime(
    kind: RuntimeKind = "namespace", *, config: NamespaceConfig | None = None, script: Script = silent
) -> SandboxRuntime:
    """A runtime, not yet checked.

    `namespace` never falls back to running programs unisolated: `check` and `create` raise SandboxUnavailable instead.
    `memory` executes nothing; `script` answers for the programs.
    """
    if kind == "memory":
        return MemoryRuntime(script)
    return NamespaceRuntime(config)
