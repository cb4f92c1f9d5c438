"""Playing a task by hand: a policy that reads its moves from the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ninefold.core.errors import UserError
from ninefold.core.protocols import Family, Move, Observation, Tool, offered
from ninefold.core.text import read_text, split_words
from ninefold.core.types import Call, Task
from ninefold.media.png import to_png
from ninefold.media.scene import draw

HELP = "/TOOL name=value … calls a tool, any other line is the answer; @FILE stands for a file's text, /give-up answers nothing"


class Hand:
    """Shows a task and what its calls return; each line that is read is a move."""

    def __init__(self, family: Family, task: Task, console: Console, read: Callable[[], str], folder: Path) -> None:
        """`read` gives the next line; at its EOFError nothing is answered. Pictures are written into `folder`."""
        self._tools = {tool.name: tool for tool in offered(family, task)}
        self._task, self._console, self._read = task, console, read
        self._folder = folder
        self._turns = self._pictures = 0

    def move(self, observations: Sequence[Observation]) -> Move:
        """The next turn, given what the last turn's calls returned ([] at first)."""
        if not self._turns:
            self._introduce()
        for observation in observations:
            self._console.print(observation.text, markup=False)
            self._show([*observation.images])
        self._turns += 1
        while True:
            self._console.print(f"turn {self._turns} of {self._task.limits.turns}> ", end="", style="dim")
            try:
                return self._parsed(self._read())
            except EOFError:
                return Move(response=None)
            except UnicodeError:
                self._console.print("this line is no text in UTF-8", style="yellow")
            except UserError as error:
                self._console.print(f"{error}", style="yellow", soft_wrap=True, markup=False)

    def _introduce(self) -> None:
        self._console.print(self._task.instruction, style="bold", markup=False)
        self._show([to_png(draw(scene)) for scene in self._task.pictures])
        for path in self._task.files:
            self._console.print(f"file {path}", markup=False)
        for tool in self._tools.values():
            parameters = " ".join(f"{name}={kind}" for name, kind in tool.parameters.items())
            parameters += "".join(f" [{name}={kind}]" for name, kind in tool.optional.items())
            self._console.print(f"  /{tool.name} {parameters}  {tool.description}", markup=False)
        self._console.print(HELP, style="dim", markup=False)

    def _show(self, pictures: Sequence[bytes]) -> None:
        """Pictures as files, for a viewer to open."""
        for picture in pictures:
            self._pictures += 1
            path = self._folder / f"{self._pictures}.png"
            path.write_bytes(picture)
            self._console.print(f"picture: {path}", soft_wrap=True, markup=False)

    def _parsed(self, line: str) -> Move:
        """Raises UserError with what is wrong, UnicodeError where the terminal's bytes are no text."""
        line = line.strip()
        line.encode()
        if line == "/give-up":
            return Move(response=None)
        if not line.startswith("/"):
            return Move(response=_text(line))
        name, *words = split_words(line[1:]) or [""]
        if name not in self._tools:
            wrong = f"there is no tool {name!r}" if name else "name a tool behind the /"
            raise UserError(f"{wrong}; there are {', '.join(self._tools) or 'none'}")
        return Move(calls=(Call(tool=name, arguments=_arguments(self._tools[name], words)),))


def _arguments(tool: Tool, words: Sequence[str]) -> Mapping[str, Any]:
    """Of `name=value` words; text as it stands, anything else as JSON."""
    arguments: dict[str, Any] = {}
    known = {**tool.parameters, **tool.optional}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            wanted = " ".join(f"{parameter}=…" for parameter in known)
            raise UserError(f"{word!r} is no argument of {tool.name}: write {wanted}")
        arguments[name] = _text(value) if known[name] == "string" else _json(name, known[name], value)
    return arguments


def _text(value: str) -> str:
    return read_text(Path(value[1:])) if value.startswith("@") else value


def _json(name: str, kind: str, value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        example = f"write it as JSON, e.g. {name}={_EXAMPLES[kind]}"
        raise UserError(f"{name} is of type {kind}: {example}; got {value[:80]}") from None


_EXAMPLES = {"number": "3", "boolean": "true", "array": "'[1, 2]'", "object": "'{\"a\": 1}'"}
"""JSON type → JSON of it as a word of a line."""
