"""Files of one JSON object a line, as users write them."""

from __future__ import annotations

from pathlib import Path

from ninefold.core.errors import UserError


def numbered_lines(path: Path) -> list[tuple[int, str]]:
    """(number from 1, text) of every line that is not blank. Raises UserError where there is no such file of UTF-8 text."""
    try:
        # Not splitlines: JSON strings may hold other line separators unescaped.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise UserError(f"no file {path}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}") from None
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def drop_torn_line(path: Path) -> None:
    """Remove a last line that a kill cut off, where the file exists."""
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)
