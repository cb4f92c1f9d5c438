"""What may be handed in: C, Python with NumPy or PyTorch, Triton in its interpreter; CUDA is refused, with the reason."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from ninefold.agent.env.kernels.runner import PACKAGES
from ninefold.core.protocols import ExecLimits, SandboxRuntime

Language = Literal["c", "python", "triton", "cuda"]

FILES: Mapping[str, Language] = {
    "kernel.c": "c",
    "kernel.py": "python",
    "kernel_triton.py": "triton",
    "kernel.cu": "cuda",
}
LONGEST = 65_536
"""Characters of a source."""
_NEEDS: Mapping[Language, tuple[str, ...]] = {"c": (), "python": ("numpy",), "triton": ("numpy", "torch", "triton")}
_FIND = """
import sys
from importlib.util import find_spec
sys.path.append({place!r})
print(find_spec({package!r}) is not None)
"""
_PROBE = ExecLimits(seconds=60.0, memory_mb=8192, processes=8)

_importable: WeakKeyDictionary[SandboxRuntime, dict[str, bool]] = WeakKeyDictionary()


class Handed(NamedTuple):
    """A source that was handed in."""

    language: Language
    source: str


def handed_in(final: Mapping[str, Any]) -> Handed | str:
    """The kernel of a final state, or what is wrong with what was handed in."""
    files = final.get("files")
    found = [name for name in FILES if isinstance(files, Mapping) and isinstance(files.get(name), str)]
    if len(found) != 1 or not isinstance(files, Mapping):
        return f"hand in one of {', '.join(FILES)}" + (f", not {' and '.join(found)}" if found else "")
    source = files[found[0]]
    if not source.strip() or len(source) > LONGEST:
        return f"{found[0]} is empty, or longer than {LONGEST} characters"
    return Handed(FILES[found[0]], source)


def refused(runtime: SandboxRuntime, handed: Handed) -> str | None:
    """Why a source is not run here; None where it is."""
    if handed.language == "cuda":
        return f"kernel.cu is not run: {_no_cuda()}; hand in kernel.c"
    missing = [name for name in _NEEDS[handed.language] if not shows(runtime, name)]
    if missing:
        return f"the sandbox shows no {' and no '.join(missing)}, which a kernel in {handed.language} needs; hand in kernel.c"
    if handed.language == "triton":
        return _no_triton(handed.source)
    return None


def _no_cuda() -> str:
    if not Path("/dev/nvidiactl").exists():
        return "this machine has no GPU"
    if shutil.which("nvcc") is None:
        return "this machine has no nvcc"
    return "no sandbox here is given the GPU"


def shows(runtime: SandboxRuntime, package: str) -> bool:
    """Whether programs in its sandboxes can import a package."""
    known = _importable.setdefault(runtime, {})
    if package not in known:
        code = _FIND.format(place=PACKAGES, package=package)
        with closing(runtime.create()) as sandbox:
            known[package] = sandbox.python(code, limits=_PROBE).stdout.strip() == "True"
    return known[package]


def _no_triton(source: str) -> str | None:
    """A kernel of one's own has to be there, and what PyTorch computes is none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "kernel_triton.py is no Python"
    jitted = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(mark) for mark in node.decorator_list)
    }
    launched = {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
    }
    return None if jitted & launched else "kernel_triton.py launches no kernel of its own (@triton.jit, kernel[grid](...))"
