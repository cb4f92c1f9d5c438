"""Patches in the form that begins with `*** Begin Patch`: files added, deleted, updated and moved, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ninefold.agent.harness.executor.files import Files
from ninefold.agent.harness.executor.operations import Refused
from ninefold.core.protocols import Observation

_BEGIN, _END, _EOF = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE, _MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "


@dataclass(slots=True, kw_only=True)
class _Hunk:
    context: str = ""
    """A line above the place, from behind `@@`; empty where none is named."""
    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])


@dataclass(slots=True, kw_only=True)
class _Change:
    path: str
    kind: str
    to: str = ""
    """New path of a file that moves."""
    lines: list[str] = field(default_factory=list[str])
    """Of a file that is added."""
    hunks: list[_Hunk] = field(default_factory=list[_Hunk])


def apply_patch(files: Files, patch: str) -> Observation:
    """Work every change out first, then make all. Raises Refused naming the line or place at fault."""
    written: dict[str, str | None] = {}
    report: list[str] = []
    for change in _changes(patch):
        if change.kind == _ADD:
            written[change.path] = "".join(f"{line}\n" for line in change.lines)
            report.append(f"A {change.path}")
        elif change.kind == _DELETE:
            files.data(change.path)
            written[change.path] = None
            report.append(f"D {change.path}")
        else:
            text = _updated(files.data(change.path).decode(errors="surrogateescape"), change)
            if change.to:
                written[change.path] = None
            written[change.to or change.path] = text
            report.append(f"M {change.to or change.path}")
    for path, text in written.items():
        if text is None:
            files.remove(path)
        else:
            files.put(path, text)
    return Observation(text="\n".join(report), data={"lines": report})


def _changes(patch: str) -> Iterator[_Change]:
    lines = patch.strip("\n").split("\n")
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise Refused(f"a patch begins with a line {_BEGIN!r} and ends with {_END!r}")
    change: _Change | None = None
    for number, line in enumerate(lines[1:-1], 2):
        kind = next((kind for kind in (_ADD, _DELETE, _UPDATE) if line.startswith(kind)), None)
        if kind is not None:
            if change is not None:
                yield change
            change = _Change(path=line.removeprefix(kind).strip(), kind=kind)
        elif change is None:
            raise Refused(f"line {number} of the patch belongs to no file: {line[:80]!r}")
        else:
            _take(change, line, number)
    if change is None:
        raise Refused("the patch changes nothing")
    yield change


def _take(change: _Change, line: str, number: int) -> None:
    """One line of a change."""
    if change.kind == _ADD and line.startswith("+"):
        change.lines.append(line[1:])
    elif change.kind == _UPDATE and line.startswith(_MOVE):
        change.to = line.removeprefix(_MOVE).strip()
    elif change.kind == _UPDATE and line.startswith("@@"):
        change.hunks.append(_Hunk(context=line[2:].strip()))
    elif change.kind == _UPDATE and line == _EOF:
        return
    elif change.kind == _UPDATE and (not line or line[0] in " +-"):
        if not change.hunks:
            change.hunks.append(_Hunk())
        mark, text = line[:1] or " ", line[1:]
        if mark != "+":
            change.hunks[-1].old.append(text)
        if mark != "-":
            change.hunks[-1].new.append(text)
    else:
        raise Refused(f"line {number} of the patch is not understood: {line[:80]!r}")


def _updated(text: str, change: _Change) -> str:
    lines, place = text.split("\n"), 0
    for hunk in change.hunks:
        if hunk.context:
            place = _find(lines, [hunk.context], place, change.path) + 1
        if hunk.old:
            place = _find(lines, hunk.old, place, change.path)
        elif not hunk.context:
            place = len(lines) - (lines[-1] == "")
        lines[place : place + len(hunk.old)] = hunk.new
        place += len(hunk.new)
    return "\n".join(lines)


def _find(lines: list[str], wanted: list[str], start: int, path: str) -> int:
    """Where `wanted` stands from `start` on: exactly, or else with white space around lines disregarded."""
    for plain in (str, str.rstrip, str.strip):
        sought = [plain(line) for line in wanted]
        for place in range(start, len(lines) - len(wanted) + 1):
            if [plain(line) for line in lines[place : place + len(wanted)]] == sought:
                return place
    raise Refused(f"{path} holds no such lines from line {start + 1} on: {wanted[0][:80]!r}")
