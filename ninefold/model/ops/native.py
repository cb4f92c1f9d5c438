"""Builds and loads the C kernels: once per sources, compiler flags and processor, into the user's cache.

Where there is no C compiler, or with NINEFOLD_NATIVE=0, every operation takes its PyTorch form; `status` says which.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ninefold.core.errors import UserError

SOURCES = Path(__file__).with_name("kernels")
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
BUILD_SECONDS = 600
"""A busy machine is slow, and without the kernels everything after is slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Whether the kernels are in use, and why not if not."""

    available: bool
    detail: str
    """For people: the library's place, or the reason of its absence with the remedy."""


def status() -> Status:
    """What `ninefold doctor` shows; builds the kernels if they have not been yet."""
    return _loaded()[1]


def usable(*tensors: Tensor, dtypes: Sequence[torch.dtype] = (torch.float32,)) -> bool:
    """True where the kernels are built and take these tensors: on the CPU, of one of `dtypes`."""
    return all(x.dtype in dtypes and x.device.type == "cpu" for x in tensors) and _loaded()[0] is not None


def call(kernel: str, *arguments: Tensor | int | float | None) -> None:
    """Run a kernel on contiguous tensors (None is a null pointer), integers (C long) and floats (C float)."""
    function = _function(kernel)
    if function.argtypes is None:
        function.argtypes = [_c_type(a) for a in arguments]
    function(*[_address(a) if isinstance(a, Tensor) else a for a in arguments])


def pointers(tensors: Sequence[Tensor]) -> Tensor:
    """Addresses of contiguous tensors, as a kernel's array of pointers; the caller keeps the tensors alive."""
    assert all(x.is_contiguous() for x in tensors)
    return torch.tensor([x.data_ptr() for x in tensors], dtype=torch.int64)


def _address(tensor: Tensor) -> int:
    assert tensor.is_contiguous()
    return tensor.data_ptr()


def _c_type(argument: Tensor | int | float | None) -> type[ctypes.c_void_p | ctypes.c_long | ctypes.c_float]:
    if argument is None or isinstance(argument, Tensor):
        return ctypes.c_void_p
    return ctypes.c_long if isinstance(argument, int) else ctypes.c_float


@cache
def _function(kernel: str) -> Any:
    library = _loaded()[0]
    assert library is not None, "call only what `usable` allows"
    return getattr(library, kernel)


def load() -> tuple[ctypes.CDLL | None, Status]:
    """The library, built first if need be, or None and the reason; every call reads the environment anew."""
    if os.environ.get("NINEFOLD_NATIVE", "1") == "0":
        return None, Status(available=False, detail="switched off by NINEFOLD_NATIVE=0; PyTorch forms in use")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None, Status(available=False, detail="no C compiler found; install gcc or clang for a faster nano model")
    try:
        library = _library_path(compiler)
        if not library.exists():
            _build(compiler, library)
        loaded = ctypes.CDLL(str(library))
    except (OSError, UserError, subprocess.SubprocessError) as error:
        return None, Status(available=False, detail=f"the kernels could not be built, PyTorch forms in use: {error}")
    return loaded, Status(available=True, detail=str(library))


@cache
def _loaded() -> tuple[ctypes.CDLL | None, Status]:
    return load()


def _library_path(compiler: str) -> Path:
    sources = [path.read_text() for path in sorted(SOURCES.iterdir())]
    key = hashlib.sha256("\0".join([*sources, *FLAGS, compiler, _processor()]).encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "ninefold" / "native" / f"kernels-{key}.so"


def _processor() -> str:
    """Names the instruction set: a library built for one processor may not run on another that shares the home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))


def _build(compiler: str, library: Path) -> None:
    """Compile beside the target and rename, so that processes building at once never load half a file."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        built = Path(folder) / library.name
        command: Sequence[str] = (compiler, *FLAGS, "-o", str(built), *sorted(map(str, SOURCES.glob("*.c"))))
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
        if done.returncode:
            told = f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}"
            raise UserError(told.replace(folder, str(library.parent)))
        built.replace(library)
