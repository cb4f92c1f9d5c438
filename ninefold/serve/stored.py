"""A world that outlives its process: a folder that holds the task, the world as it was now and then, and every call."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from safetensors import SafetensorError

from ninefold.core.errors import SandboxError, UserError
from ninefold.core.packed import as_bytes, pack, unpack
from ninefold.core.protocols import Family, Observation, SandboxRuntime, Tool, World, offered
from ninefold.core.records import task_of, task_record
from ninefold.core.store import LOCK, check_ours, hold, read_json, write_atomic, write_json
from ninefold.core.types import Call, Result, Task

SAVE_EVERY = 200
"""Calls after which the world is saved; those since then are made again when it is opened."""
Done = TypeVar("Done")
_ELSEWHERE = "give another folder with --in"
_TASK, _WORLD, _CALLS = "task.json", "world.bin", "calls.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a call came to."""

    text: str
    images: tuple[str, ...] = ()
    """PNG pictures in base64."""
    done: bool = False
    """The world ended the episode."""

    @staticmethod
    def of(observation: Observation) -> Reply:
        images = tuple(base64.b64encode(image).decode() for image in observation.images)
        return Reply(text=observation.text, images=images, done=observation.done)


class StoredWorld:
    """One task's world. Whoever was answered can rely on the call being there after a kill at any moment.

    A call is made, written down and then answered. One that was cut off before it was written never happened; one that was
    written but not answered is answered by its record when it comes again under the same key. Everything is done in one thread,
    in the order in which it is asked for: worlds may hold what is bound to a thread.
    """

    def __init__(self, folder: Path, family: Family, task: Task, runtime: SandboxRuntime | None, lock: IO[str]) -> None:
        self.family, self.task = family, task
        self._folder, self._runtime, self._held = folder, runtime, lock
        self._thread = ThreadPoolExecutor(1, "world")
        self._calls = 0
        self._made: dict[str, tuple[tuple[str, Mapping[str, Any]], Reply]] = {}
        self._response: str | None = None
        self._world: World = self._in_turn(self._resume)
        self._log = (folder / _CALLS).open("a", encoding="utf-8")

    @staticmethod
    def begin(folder: Path, family: Family, task: Task, runtime: SandboxRuntime | None = None) -> StoredWorld:
        """A new folder for a task, or the one that it has already.

        Raises UserError where another task or anything else lies there, or another process has it open.
        """
        check_ours(folder, (_TASK,), _ELSEWHERE)
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / _TASK).exists() and read_task(folder).id != task.id:
            raise UserError(f"{folder} holds {read_task(folder).id}, not {task.id}; {_ELSEWHERE}")
        if not (folder / _TASK).exists():
            write_json(folder / _TASK, task_record(task))
        return StoredWorld._held_open(folder, family, runtime, f"has {folder} open; end it, or {_ELSEWHERE}")

    @staticmethod
    def open(folder: Path, family: Family, runtime: SandboxRuntime | None = None) -> StoredWorld:
        """The world as it was left. Raises UserError where none is, or another process has it open."""
        return StoredWorld._held_open(folder, family, runtime, f"has {folder} open; end it first")

    @staticmethod
    def _held_open(folder: Path, family: Family, runtime: SandboxRuntime | None, held: str) -> StoredWorld:
        task = read_task(folder)
        lock = hold(folder / LOCK, held)
        try:
            return StoredWorld(folder, family, task, runtime, lock)
        except BaseException:
            lock.close()
            raise

    @property
    def tools(self) -> list[Tool]:
        """What the task offers, in canonical form."""
        return [*offered(self.family, self.task)]

    @property
    def calls(self) -> int:
        """How many were made so far."""
        return self._calls

    def call(self, tool: str, arguments: Mapping[str, Any], key: str = "") -> Reply:
        """Make a call; one with a key that was there before is not made again, but answered alike. Raises UserError where the
        key was that of another call."""
        return self._in_turn(self._call, tool, arguments, key)

    def answer(self, response: str) -> None:
        """Hand in the last response; a later one takes its place."""
        self._in_turn(self._write, {"response": response})

    def final(self) -> Mapping[str, Any]:
        """All that a verifier may look at, as JSON."""
        return self._in_turn(lambda: json.loads(json.dumps(self._world.final(self._response))))

    def verdict(self) -> Result:
        """What the verifier says of the world as it is now."""
        return self.family.verify(self.task, self.final(), runtime=self._runtime)

    def snapshot(self) -> bytes:
        """Everything that `restore` needs."""
        return self._in_turn(self._snapshot)

    def restore(self, snapshot: bytes) -> None:
        """Go back to a snapshot. Raises UserError where it is one of another task."""
        record, arrays = read_snapshot(snapshot)
        if record["task"] != self.task.id:
            raise UserError(f"the snapshot is of {record['task']}, this world of {self.task.id}")
        self._in_turn(self._go_back, arrays["world"].tobytes(), arrays["calls"].tobytes())

    def close(self) -> None:
        """Save the world and let others open it."""
        self._in_turn(self._save)
        self._in_turn(self._world.close)
        self._thread.shutdown()
        self._log.close()
        self._held.close()

    def _in_turn(self, do: Callable[..., Done], *arguments: Any) -> Done:
        return self._thread.submit(do, *arguments).result()

    def _call(self, tool: str, arguments: Mapping[str, Any], key: str) -> Reply:
        if key and key in self._made:
            made, reply = self._made[key]
            if made != (tool, dict(arguments)):
                raise UserError(f"the key {key[:80]!r} was that of another call, of {made[0]}; give each call its own")
            return reply
        reply = Reply.of(self._world.call(Call(tool=tool, arguments=arguments)))
        line = {"tool": tool, "arguments": dict(arguments), "key": key, "text": reply.text}
        self._write({**line, "images": reply.images, "done": reply.done})
        if self._calls % SAVE_EVERY == 0:
            self._save()
        return reply

    def _write(self, line: Mapping[str, Any]) -> None:
        self._log.write(json.dumps(line, ensure_ascii=True) + "\n")
        self._log.flush()
        self._remember(line)

    def _save(self) -> None:
        write_atomic(self._folder / _WORLD, pack({"calls": self._calls}, {"world": as_bytes(self._world.save())}))

    def _snapshot(self) -> bytes:
        log = (self._folder / _CALLS).read_bytes()
        return pack({"task": self.task.id}, {"world": as_bytes(self._world.save()), "calls": as_bytes(log)})

    def _go_back(self, world: bytes, log: bytes) -> None:
        self._world.close()
        self._log.close()
        # First the saved world goes: a kill in between leaves a log that can be played from the beginning.
        (self._folder / _WORLD).unlink(missing_ok=True)
        write_atomic(self._folder / _CALLS, log)
        self._calls, self._made, self._response = 0, {}, None
        for line in self._lines():
            self._remember(line)
        self._world = self.family.restore(self.task, world, runtime=self._runtime)
        self._log = (self._folder / _CALLS).open("a", encoding="utf-8")
        self._save()

    def _resume(self) -> World:
        """The saved world, or a new one, with all calls made that it has not seen."""
        saved = self._folder / _WORLD
        count = 0
        if saved.exists():
            record, arrays = unpack(saved.read_bytes())
            count = record["calls"]
            world = self.family.restore(self.task, arrays["world"].tobytes(), runtime=self._runtime)
        else:
            world = self.family.open(self.task, seed=self.task.seed, runtime=self._runtime)
        for line in self._lines():
            self._remember(line)
            if "tool" in line and self._calls > count:
                again = Reply.of(world.call(Call(tool=line["tool"], arguments=line["arguments"])))
                if again.text != line["text"]:
                    raise SandboxError(f"call {self._calls} of {self._folder} returns something else when it is made again")
        return world

    def _lines(self) -> list[dict[str, Any]]:
        """Every line that was written whole; a torn last one is taken off."""
        path = self._folder / _CALLS
        if not path.exists():
            return []
        whole, newline, torn = path.read_text(encoding="utf-8").rpartition("\n")
        if torn:
            write_atomic(path, whole + newline)
        lines: list[dict[str, Any]] = []
        for number, line in enumerate(whole.split("\n"), 1):
            try:
                lines += [json.loads(line)] if line else []
            except ValueError:
                raise UserError(f"{path}, line {number} is damaged: go back to a copy, or begin in another folder") from None
        return lines

    def _remember(self, line: Mapping[str, Any]) -> None:
        if "tool" not in line:
            self._response = line["response"]
            return
        self._calls += 1
        if line["key"]:
            reply = Reply(text=line["text"], images=tuple(line["images"]), done=line["done"])
            self._made[line["key"]] = (line["tool"], line["arguments"]), reply


def read_task(folder: Path) -> Task:
    """The task of a stored world. Raises UserError where there is none."""
    path = folder / _TASK
    if not path.exists():
        raise UserError(f"{folder} holds no world; `ninefold world serve` begins one")
    record = read_json(path)
    if not isinstance(record, dict) or "schema" not in record:
        raise UserError(f"{path} is no task of ninefold's, so {folder} is no world; {_ELSEWHERE}")
    return task_of(record)


def read_snapshot(snapshot: bytes) -> tuple[Any, Mapping[str, Any]]:
    """(record, arrays). Raises UserError where the bytes are no snapshot."""
    try:
        record, arrays = unpack(snapshot)
        if {"world", "calls"} <= arrays.keys() and "task" in record:
            return record, arrays
    except (ValueError, KeyError, SafetensorError):
        pass
    raise UserError("this is no snapshot of a world")
