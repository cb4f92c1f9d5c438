"""How a result is laid out for the policy: lines with their numbers, an exit code, and what is cut where it is too long."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

from ninefold.core.protocols import Observation


class _Template(Formatter):
    """Format strings with one more conversion, `!j`: JSON that is safe inside HTML, as the templates of agents have it."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion != "j":
            return super().convert_field(value, conversion)
        text = json.dumps(value)
        for character in "<>&'":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text


_fill = _Template().vformat


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Templates over an observation's data; `{body}` is its lines or output."""

    line: str = "{text}"
    """Of each line, where the data has lines; with `{number}`."""
    line_chars: int = 0
    """Characters of a line that are shown; 0 means all."""
    whole: str = "{body}"
    """Of a result; may state data of it, `{tokens}` of its body (four characters each) and a `{digest}` of that."""
    failed: str = ""
    """Where a program ended with another exit code than 0; empty: as `whole`."""
    killed: str = ""
    """Where it was ended: `{why}`; empty: as `failed`."""
    body: str = "{body}"
    """Around a body that is short enough."""
    cut: str = "{head}… ({left_out} more)…{tail}"
    """In the place of a body that is longer than `limit`."""
    more: str = ""
    """Behind lines that are not the last: `{next}` is the first one left out, `{left_out}` their number."""
    empty: str = ""
    """In the place of an empty body."""
    limit: int = 0
    """Characters or bytes of a body; 0 means any number."""
    head: int = 0
    """Kept of the beginning of one that is longer."""
    tail: int = 0
    """Kept of its end."""
    bytes: bool = False
    """Whether limit, head and tail count bytes of UTF-8."""

    def __post_init__(self) -> None:
        if self.head + self.tail > self.limit + 1 or (self.limit and not self.head + self.tail):
            raise ValueError(f"layout: head and tail make up the limit of {self.limit}, got {self.head} and {self.tail}")

    def show(self, observation: Observation) -> str:
        """The text that the policy sees."""
        data = observation.data
        if data is None:
            return self._bounded(observation.text)
        if "error" in data:
            return observation.text
        text = self._text(data, observation.text)
        whole = text or self.empty
        facts = {"tokens": -(-len(whole) // 4), "digest": hashlib.sha256(whole.encode()).hexdigest()[:6]}
        values = {**data, **facts, "body": self._bounded(whole)}
        return _fill(self._ended(data), (), values) + self._more(data)

    def _text(self, data: Mapping[str, Any], plain: str) -> str:
        if "lines" not in data:
            return data.get("output", plain)
        lines = [line[: self.line_chars] if self.line_chars else line for line in data["lines"]]
        if self.line == "{text}":
            return "\n".join(lines)
        first = data.get("first", 1)
        return "\n".join(_fill(self.line, (), {"number": n, "text": line}) for n, line in enumerate(lines, first))

    def _bounded(self, text: str) -> str:
        unit = text.encode() if self.bytes else text
        if not self.limit or len(unit) <= self.limit:
            return _fill(self.body, (), {"body": text})
        head, tail = unit[: self.head], unit[len(unit) - self.tail :]
        values = {"head": _string(head), "tail": _string(tail), "left_out": len(unit) - self.head - self.tail}
        return _fill(self.cut, (), values)

    def _ended(self, data: Mapping[str, Any]) -> str:
        if "exit_code" not in data or data["exit_code"] == 0:
            return self.whole
        failed = self.failed or self.whole
        return (self.killed or failed) if data["exit_code"] is None else failed

    def _more(self, data: Mapping[str, Any]) -> str:
        left_out = data.get("left_out", 0)
        if not self.more or not left_out or "lines" not in data:
            return ""
        return _fill(self.more, (), {"next": data["first"] + len(data["lines"]), "left_out": left_out, "total": data["total"]})


def _string(piece: str | bytes) -> str:
    return piece if isinstance(piece, str) else piece.decode(errors="ignore")
