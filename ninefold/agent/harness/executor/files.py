"""Files: read, write, edit, list, glob and grep in a sandbox's working directory.

DEVIATION: files are listed by path, not by time, as some harnesses do: a restored sandbox keeps no times, and a resumed
episode has to see what it would have seen.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path, PurePosixPath

from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.errors import UserError
from ninefold.core.protocols import ExecLimits, Observation, Sandbox
from ninefold.sandbox.archive import unpack

ROOT = "/work"
_SEARCH = ExecLimits(seconds=20.0, output_bytes=1 << 20)
"""Of one grep, which runs in the sandbox: a policy's pattern may take for ever."""


class Files:
    """The file operations, and what the agent has seen of each file."""

    def __init__(self, sandbox: Sandbox, seen: dict[str, str] | None = None) -> None:
        self._sandbox = sandbox
        self.seen: dict[str, str] = dict(seen or {})
        """Path → hash of the content as the agent last read or wrote it."""

    def read(self, path: str, offset: float = 1, limit: float | None = None) -> Observation:
        """Lines `offset` … of a file; a negative offset counts from the end."""
        name, text = self._text(path)
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        total, first = len(lines), int(offset)
        if first < 0:
            first = max(1, total + first + 1)
        first = max(1, first)
        last = total if limit is None else min(total, first - 1 + max(0, int(limit)))
        shown = lines[first - 1 : last]
        self._remember(name, text)
        data = {"lines": shown, "first": first, "total": total, "path": path, "left_out": total - last}
        return Observation(text="\n".join(shown), data=data)

    def write(
        self, path: str, text: str, append: bool = False, read_first: bool = False, create_only: bool = False
    ) -> Observation:
        """Make or replace a file, parents included; `read_first` refuses to replace one that was not read as it is."""
        name, before = relative(path), ""
        exists = self._exists(name)
        if exists:
            if create_only:
                raise Refused(f"{path} exists already")
            if read_first:
                self._check_seen(path)
            if append:
                before = self._text(path)[1]
        self.put(path, before + text)
        data = {"path": path, "bytes": len(text.encode()), "lines_written": text.count("\n") + (not text.endswith("\n"))}
        return Observation(text=f"{'Updated' if exists else 'Created'} {path}", data=data)

    def edit(self, path: str, old: str, new: str, every: bool = False, read_first: bool = False) -> Observation:
        """Replace `old`, which must occur once unless `every` place is meant."""
        if read_first:
            self._check_seen(path)
        if old == new:
            raise Refused("the new text equals the old one")
        if not old:
            raise Refused("the text to replace is empty; give some of the file's own")
        _, text = self._text(path)
        found = text.count(old)
        if not found:
            raise Refused(f"the text to replace does not occur in {path}")
        if found > 1 and not every:
            raise Refused(f"the text to replace occurs {found} times in {path}; give more of what surrounds it")
        self.put(path, text.replace(old, new))
        return Observation(text=f"Edited {path}", data={"path": path, "count": found})

    def folder(self, path: str = ".", limit: float | None = None) -> Observation:
        """Names in one folder, folders with a slash behind them."""
        within = _folder(path)
        names: set[str] = set()
        for name in self.paths():
            below = name.removeprefix(within)
            if name.startswith(within):
                head, _, rest = below.partition("/")
                names.add(f"{head}/" if rest else head)
        if not names and within:
            raise Refused(f"{path} is no folder with anything in it")
        return _listed(sorted(names), limit, 0)

    def glob(self, pattern: str, path: str = ".", limit: float | None = None, offset: float = 0) -> Observation:
        """Files whose path below `path` fits `pattern`; `**` stands for any folders, and a bare name for one in any folder."""
        within, fits = _folder(path), glob_pattern(relative(pattern) if pattern.startswith("/") else pattern)
        found = [name for name in self.paths() if name.startswith(within) and fits.fullmatch(name[len(within) :])]
        return _listed(found, limit, int(offset))

    def grep(
        self, pattern: str, path: str = ".", glob: str = "", limit: float | None = None, offset: float = 0, **how: object
    ) -> Observation:
        """Lines that match, laid out as ripgrep does: `path:number:line`, or paths, or counts by `mode`."""
        request = {"pattern": pattern, "path": relative(path), "glob": glob_pattern(glob).pattern if glob else "", **how}
        ended = self._sandbox.python(_searcher(), stdin=json.dumps(request), limits=_SEARCH)
        if ended.reason != "exited":
            raise Refused(f"the search was ended ({ended.reason}); search for something narrower")
        if ended.exit_code == 2:
            raise Refused(f"the pattern cannot be used: {ended.stderr.strip()[-200:]}")
        if ended.exit_code != 0:
            raise Refused(f"the search failed: {ended.stderr.strip()[-200:]}")
        return _listed(ended.stdout.splitlines(), limit, int(offset))

    def paths(self) -> list[str]:
        """Every file, by path."""
        return sorted(entry.path for entry in unpack(self._sandbox.export()) if entry.kind == "file")

    def data(self, path: str) -> bytes:
        """Content of a file."""
        try:
            return self._sandbox.read(relative(path))
        except (FileNotFoundError, UserError):  # the working directory itself is no file either
            raise Refused(f"there is no file {path}") from None

    def put(self, path: str, text: str) -> None:
        """Make or replace a file; the agent knows what is in it."""
        try:
            self._sandbox.write(relative(path), text.encode())
        except UserError as error:
            raise Refused(str(error)) from None
        self._remember(relative(path), text)

    def remove(self, path: str) -> None:
        """Delete a file."""
        ended = self._sandbox.run(["rm", "-f", "--", relative(path)])
        if ended.exit_code != 0:
            raise Refused(f"{path} cannot be deleted: {ended.stderr.strip()[-200:]}")
        self.seen.pop(relative(path), None)

    def _text(self, path: str) -> tuple[str, str]:
        data = self.data(path)
        try:
            return relative(path), data.decode()
        except UnicodeDecodeError:
            raise Refused(f"{path} is no text file") from None

    def _exists(self, name: str) -> bool:
        try:
            self._sandbox.read(name)
        except (FileNotFoundError, UserError):
            return False
        return True

    def _remember(self, name: str, text: str) -> None:
        self.seen[name] = hashlib.sha256(text.encode()).hexdigest()

    def _check_seen(self, path: str) -> None:
        name, text = self._text(path)
        if name not in self.seen:
            raise Refused(f"{path} has not been read yet; read it first")
        if self.seen[name] != hashlib.sha256(text.encode()).hexdigest():
            raise Refused(f"{path} has changed since it was read; read it again first")


def relative(path: str) -> str:
    """A path of the working directory in its simplest form; '.' for the directory itself. Raises Refused outside of it."""
    pure = PurePosixPath(path)
    if pure.is_absolute():
        if not pure.is_relative_to(ROOT):
            raise Refused(f"{path} lies outside of the working directory {ROOT}")
        pure = pure.relative_to(ROOT)
    if ".." in pure.parts:
        raise Refused(f"{path} goes up; give the path from {ROOT} on")
    return str(pure)


@lru_cache(maxsize=256)
def glob_pattern(glob: str) -> re.Pattern[str]:
    """A glob as a regular expression over whole paths."""
    if "/" not in glob:
        glob = f"**/{glob}"
    text, place = "", 0
    while place < len(glob):
        character = glob[place]
        if glob.startswith("**/", place):
            text, place = text + r"(?:[^/]+/)*+", place + 3
        elif glob.startswith("**", place):
            text, place = text + ".*", place + 2
        elif character == "*":
            text, place = text + "[^/]*", place + 1
        elif character == "?":
            text, place = text + "[^/]", place + 1
        elif character == "{" and (end := glob.find("}", place)) > 0:
            choices = glob[place + 1 : end].split(",")
            text, place = text + f"(?:{'|'.join(map(re.escape, choices))})", end + 1
        elif character == "[" and (end := glob.find("]", place + 2)) > 0:
            inside = glob[place + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            text, place = text + f"[{'^' + inside[1:] if inside[0] == '!' else inside}]", end + 1
        else:
            text, place = text + re.escape(character), place + 1
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise Refused(f"the pattern {glob} cannot be used: {error}") from None


def _folder(path: str) -> str:
    name = relative(path)
    return "" if name == "." else f"{name}/"


def _listed(lines: list[str], limit: float | None, offset: int) -> Observation:
    start = max(0, offset)
    shown = lines[start:] if not limit else lines[start : start + max(1, int(limit))]
    data = {"lines": shown, "first": start + 1, "total": len(lines), "left_out": len(lines) - start - len(shown)}
    return Observation(text="\n".join(shown), data=data)


@lru_cache(maxsize=1)
def _searcher() -> str:
    """The program that greps inside the sandbox."""
    return Path(__file__).with_name("grep.py").read_text()
