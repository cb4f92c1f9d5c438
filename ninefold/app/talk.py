"""A conversation on the terminal."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.core.types import EFFORTS, Effort
from ninefold.media.parts import picture_part
from ninefold.media.png import from_png
from ninefold.serve.completion import Service
from ninefold.serve.errors import ApiError
from ninefold.serve.request import ChatRequest

COMMANDS = "/effort low|high|max, /picture FILE shows one with the next line, /new for a new conversation, /quit"


class Talk:
    """Remembers the messages, and streams the answers."""

    def __init__(self, service: Service, console: Console, *, effort: Effort, options: dict[str, Any]) -> None:
        """`options` are fields of every request: temperature, seed, max_tokens."""
        self._service, self._console, self._options = service, console, options
        self._effort: Effort = effort
        self._messages: list[dict[str, Any]] = []
        self._pictures: list[Picture] = []
        """Shown with the next line."""

    def answer(self, text: str) -> None:
        """Say `text` and print what comes back as it is sampled. Raises UserError."""
        shown, self._pictures = [picture_part(picture) for picture in self._pictures], []
        content = [*shown, {"type": "text", "text": text}] if shown else text
        messages = [*self._messages, {"role": "user", "content": content}]
        request = ChatRequest(model=self._service.model, messages=messages, reasoning_effort=self._effort, **self._options)
        try:
            message, tokens = asyncio.run(self._stream(request))
        except ApiError as error:
            raise UserError(str(error)) from None
        self._console.print(Text(f"\n[{self._effort}: {tokens} tokens]", style="dim"))
        self._messages = [*messages, message]

    async def _stream(self, request: ChatRequest) -> tuple[dict[str, Any], int]:
        message: dict[str, Any] = {"role": "assistant", "content": "", "reasoning_content": ""}
        completion = self._service.complete(request)
        async for _, delta in completion.deltas():
            if delta.content and message["reasoning_content"] and not message["content"]:
                self._console.print()
            message["reasoning_content"] += delta.reasoning
            message["content"] += delta.content
            self._console.print(Text(delta.reasoning, style="dim italic"), Text(delta.content), sep="", end="")
        return message, completion.tokens

    def show(self, path: Path) -> None:
        """Keep a picture for the next line; say so, or why it cannot be shown."""
        try:
            picture = from_png(path.read_bytes())
        except (OSError, UserError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self._console.print(f"{path}: {why}", style="red", markup=False)
            return
        self._pictures.append(picture)
        self._console.print(f"[picture {picture.width}×{picture.height}]", style="dim", markup=False)

    def loop(self) -> None:
        """Read lines until the user leaves."""
        self._console.print(f"{self._service.model} at effort {self._effort}. {COMMANDS}", style="dim")
        while True:
            try:
                line = self._console.input("[bold]› [/bold]").strip()
            except (EOFError, KeyboardInterrupt):
                self._console.print()
                return
            if line == "/quit":
                return
            if line.startswith("/"):
                self._command(line)
            elif line:
                try:
                    self.answer(line)
                except UserError as error:
                    self._console.print(str(error), style="red")
                except KeyboardInterrupt:
                    self._console.print(Text("\n[stopped]", style="dim"))

    def _command(self, line: str) -> None:
        name, _, value = line.partition(" ")
        efforts: dict[str, Effort] = {effort: effort for effort in EFFORTS}
        if name == "/new":
            self._messages.clear()
        elif name == "/picture" and value.strip():
            self.show(Path(os.path.expanduser(value.strip())))  # noqa: PTH111 - of Path's it raises where there is no such user
        elif name == "/effort" and value.strip() in efforts:
            self._effort = efforts[value.strip()]
        else:
            self._console.print(f"commands: {COMMANDS}", style="yellow")
