"""A sandbox with the task's pictures as files; what programs show of them comes back as pictures."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.agent.env.visual import picture as library
from ninefold.agent.env.visual.question import LARGEST, file_of
from ninefold.agent.harness.executor import OPERATIONS, Executor, ExecutorConfig
from ninefold.core.errors import UserError
from ninefold.core.protocols import ExecLimits, Observation, Sandbox, SandboxRuntime, Tool
from ninefold.core.types import Call, Task
from ninefold.media.png import from_png, to_png
from ninefold.media.scene import draw

CODE = Tool(
    name="code",
    description=(
        'Run Python that sees the pictures: load("a.png") has crop(left, top, right, bottom), zoom(times), shrink(times), '
        "turn(quarters), mirror(), difference(other), only((red, green, blue)), spots((red, green, blue)) and at(x, y); "
        'show(picture, …) gives pictures back, look("top left") a quarter of a.png, print(…) text. Files last, variables do '
        "not; the library is picture.py."
    ),
    parameters={"code": "string"},
)
TOOLS: tuple[Tool, ...] = (CODE, OPERATIONS["media"], OPERATIONS["shell"])
LIBRARY = "picture.py"
BYTES = 4 << 20
"""Of a file that is taken for a picture."""
LIMITS = ExecLimits(memory_mb=256, output_bytes=65_536, processes=8, files_mb=16)
SAID = 4_000
"""Characters of a program's output that are given back."""


class VisualWorld:
    """The sandbox is made at the first call; a paused episode carries its export."""

    def __init__(self, task: Task, runtime: SandboxRuntime | None, saved: bytes = b"") -> None:
        self._task = task
        self._runtime = runtime
        self._config = ExecutorConfig(seconds=task.limits.tool_seconds, memory_mb=LIMITS.memory_mb)
        self._executor: Executor | None = None
        if saved:
            assert runtime is not None
            self._executor = Executor.restore(saved, runtime=runtime, config=self._config)

    def call(self, call: Call) -> Observation:
        """Run code, or an operation of the executor."""
        if call.tool not in self._task.tools or call.error is not None:
            return Observation(text=f"error: {call.error[:200]}" if call.error else "error: no such tool")
        refused = refusal(call, (CODE,)) if call.tool == CODE.name else None
        if refused is not None:
            return Observation(text=refused)
        executor = self._opened()
        if call.tool == "media":
            return _small_enough(executor.call(call))
        before = _waiting(executor.sandbox)
        observation = self._run(executor.sandbox, call.arguments["code"]) if call.tool == CODE.name else executor.call(call)
        return _with_pictures(observation, executor.sandbox, before)

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response alone: whatever was done to the pictures, the answer is judged."""
        return {"response": response}

    def save(self) -> bytes:
        return b"" if self._executor is None else self._executor.save()

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()
            self._executor = None

    def _opened(self) -> Executor:
        if self._executor is None:
            assert self._runtime is not None
            sandbox = self._runtime.create({**self._task.files, LIBRARY: _source()})
            for number, scene in enumerate(self._task.pictures):
                sandbox.write(file_of(number), _file(scene["of"]))
            self._executor = Executor(sandbox, config=self._config)
        return self._executor

    def _run(self, sandbox: Sandbox, code: str) -> Observation:
        """What a program prints, and how it failed if it did."""
        limits = replace(LIMITS, seconds=self._task.limits.tool_seconds)
        ended = sandbox.python(f"from picture import *\n{code}", limits=limits)
        said = ended.stdout[-SAID:].rstrip("\n")
        if ended.reason != "exited":
            return Observation(text=f"{said}\nerror: {ended.reason}".lstrip("\n"))
        if ended.exit_code:
            why = (ended.stderr.strip().splitlines() or ["it failed without a word"])[-1][:400]
            return Observation(text=f"{said}\nerror: {why}".lstrip("\n"))
        return Observation(text=said)


@lru_cache(maxsize=1)
def _source() -> str:
    """The library that programs import."""
    return Path(library.__file__).read_text()


def _file(scene: Mapping[str, Any]) -> bytes:
    """A PNG file without filters, which the library reads fastest."""
    pixels = draw(scene).pixels_HWC
    return library.Picture(pixels.shape[1], pixels.shape[0], pixels.tobytes()).png()


def _waiting(sandbox: Sandbox) -> int:
    """Number of the last picture that was shown."""
    number = 0
    while _read(sandbox, number + 1) is not None:
        number += 1
    return number


def _read(sandbox: Sandbox, number: int) -> bytes | None:
    try:
        return sandbox.read(f"{library.FOLDER}/{number}.png")
    except (OSError, UserError):
        return None


def _with_pictures(observation: Observation, sandbox: Sandbox, before: int) -> Observation:
    """What a program said, with the pictures that it showed, and what is wrong with those that cannot be."""
    images: list[bytes] = []
    said = [observation.text] if observation.text else []
    for number in range(before + 1, before + 1 + library.SHOWN):
        data = _read(sandbox, number)
        if data is None:
            break
        problem, image = _taken(data)
        said += [f"error: picture {number - before} {problem}"] if problem else []
        images += [image] if image else []
    text = "\n".join(said) or ("" if images else "nothing was shown or printed")
    data = observation.data if observation.data is None or not images else {**observation.data, "output": text}
    return Observation(text=text, images=tuple(images), data=data)


def _taken(data: bytes) -> tuple[str, bytes]:
    """(problem, the picture as we write it); one of them is empty. Nothing is decoded before its size is known."""
    if len(data) > BYTES:
        return f"has {len(data):,} bytes; {BYTES:,} are the most", b""
    size = _size(data)
    if size is None:
        return "is no PNG file", b""
    if max(size) > LARGEST:
        return f"is {size[0]}x{size[1]}; crop or shrink it to {LARGEST} a side", b""
    try:
        return "", to_png(from_png(data))
    except UserError as error:
        return f"cannot be read: {error}", b""


def _small_enough(observation: Observation) -> Observation:
    """The observation, unless its picture is too large to be shown."""
    for image in observation.images:
        size = _size(image)
        if size is None or max(size) > LARGEST:
            text = f"error: {observation.text} is too large; ask for a region of {LARGEST} a side"
            return Observation(text=text, data={"error": text})
    return observation


def _size(data: bytes) -> tuple[int, int] | None:
    """Width and height that a PNG file declares."""
    if len(data) < 24 or not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height
