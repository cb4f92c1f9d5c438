"""Where KernelBench lies, and which problems it has; nothing of it is kept here."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ninefold.core.errors import UserError

PLACE = "NINEFOLD_KERNELBENCH"
"""Environment variable: the checkout."""
LEVELS = (1, 2, 3, 4)


def place() -> Path:
    """The checkout: what the environment names, or a folder beside the referees."""
    return Path(os.environ.get(PLACE, "runs/referees/kernelbench")).absolute()


def lacks() -> str | None:
    """What is missing, in a sentence; None where there is a checkout."""
    if (place() / "KernelBench" / "level1").is_dir():
        return None
    return f"no checkout of KernelBench at {place()}: clone ScalingIntelligence/KernelBench there, or set {PLACE}"


def problems(level: int) -> dict[str, str]:
    """Name → text of each problem of a level, in the order of their numbers. Raises UserError where there are none."""
    if missing := lacks():
        raise UserError(missing)
    found = [*(place() / "KernelBench" / f"level{level}").glob("*.py")]
    if not found:
        raise UserError(f"KernelBench at {place()} has no level {level}; levels are {', '.join(map(str, LEVELS))}")
    return {path.stem: path.read_text() for path in sorted(found, key=_number)}


def _number(path: Path) -> tuple[int, str]:
    leading = re.match(r"\d+", path.stem)
    return (int(leading[0]) if leading else 0, path.stem)
