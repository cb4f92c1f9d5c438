"""A writable layer as a tar file: equal content gives equal bytes, on every runtime."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from ninefold.core.errors import UserError

Kind = Literal["file", "folder", "link", "fifo"]

_TYPES: dict[Kind, bytes] = {
    "file": tarfile.REGTYPE,
    "folder": tarfile.DIRTYPE,
    "link": tarfile.SYMTYPE,
    "fifo": tarfile.FIFOTYPE,
}
_KINDS: dict[bytes, Kind] = {tar: kind for kind, tar in _TYPES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing of a layer. Times and owners are not part of it."""

    path: str
    """Relative, with bytes that are no UTF-8 as surrogates."""
    kind: Kind
    mode: int = 0o644
    """Permission bits."""
    data: bytes = b""
    """Content of a file."""
    target: str = ""
    """Where a link points, uninterpreted."""


def pack(entries: Iterable[Entry]) -> bytes:
    """Sorted by path, without times or owners; `unpack` gives the same entries back."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape") as tar:
        for entry in sorted(entries, key=lambda entry: PurePosixPath(entry.path).parts):
            info = tarfile.TarInfo(entry.path)
            info.type, info.mode, info.linkname, info.size = _TYPES[entry.kind], entry.mode, entry.target, len(entry.data)
            tar.addfile(info, io.BytesIO(entry.data))
    return buffer.getvalue()


def unpack(data: bytes) -> list[Entry]:
    """Raises UserError where `data` is no archive made by `pack`, or names anything outside of the layer."""
    entries: list[Entry] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for info in tar:
                if info.type not in _KINDS:
                    raise UserError(f"exported layer holds {info.name!r} of tar type {info.type!r}; export it anew")
                file = tar.extractfile(info) if info.isreg() else None
                entries.append(
                    Entry(
                        path=layer_path(info.name),
                        kind=_KINDS[info.type],
                        mode=info.mode,
                        data=file.read() if file else b"",
                        target=info.linkname,
                    )
                )
    except tarfile.TarError as error:
        raise UserError(f"not an exported sandbox layer ({error}); use what Sandbox.export returned") from None
    return entries


def layer_path(path: str) -> str:
    """`path` in its simplest form. Raises UserError unless it names something inside the working directory."""
    pure = PurePosixPath(path)
    if not pure.parts or pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise UserError(f"{path!r} is no relative path inside the sandbox's working directory; give one like 'src/main.py'")
    return str(pure)
