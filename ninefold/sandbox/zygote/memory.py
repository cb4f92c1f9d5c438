"""How much memory a process and its descendants hold together; the kernel's own limit is per process."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _RESIDENT = 1, 21
"""Places in /proc/PID/stat after the program's name."""


class Census:
    """The processes that are there now."""

    def __init__(self) -> None:
        self._resident: dict[int, int] = {}
        self._children: dict[int, list[int]] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and (stat := _read(folder / "stat")):
                fields = stat.rpartition(")")[2].split()
                self._resident[int(folder.name)] = int(fields[_RESIDENT]) * _PAGE
                self._children.setdefault(int(fields[_PARENT]), []).append(int(folder.name))

    def exceeds(self, root: int, limit: int) -> bool:
        """Whether the tree below and with `root` holds more than `limit` bytes, what its processes share counted once."""
        tree = [root]
        for pid in tree:
            tree += self._children.get(pid, [])
        if sum(self._resident.get(pid, 0) for pid in tree) <= limit:
            return False
        return sum(_proportional(pid) for pid in tree) > limit


def _proportional(pid: int) -> int:
    """Bytes in memory, each page divided by the number of processes that share it."""
    found = re.search(r"^Pss:\s+(\d+) kB", _read(Path(f"/proc/{pid}/smaps_rollup")), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _read(path: Path) -> str:
    """Empty where the process has just ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text()
    return ""
