"""Text that people hand in: files of it, and words with quotes around them."""

from __future__ import annotations

import shlex
from pathlib import Path

from ninefold.core.errors import UserError


def read_text(path: Path) -> str:
    """A file's text. Raises UserError where there is no such file, or it is no text."""
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder; name a file")
        if not path.is_file():
            raise UserError(f"there is no file {path}")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text in UTF-8: byte {error.start} is none of it") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror or error})") from None


def split_words(line: str, where: str = "") -> list[str]:
    """The words of a line as a shell takes them; `where` it stands goes into the error.

    Raises UserError where a quote is not closed, or nothing follows a backslash.
    """
    try:
        return shlex.split(line)
    except ValueError:
        place = where or line.strip()[:80]
        mend = "write \\' or \\\" for a quote itself, \\\\ for a backslash"
        raise UserError(f"{place}: a quote is not closed, or nothing follows a backslash; {mend}") from None
