"""Recorded answers of an endpoint, by the hash of what was asked: the same requests give the same answers, offline."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ninefold.core.errors import UserError
from ninefold.data.lines import drop_torn_line

Ask = Callable[[dict[str, Any]], dict[str, Any]]
"""Sends the JSON body of a request and returns the answer's."""


class Cassette:
    """A file of one JSON object a line: key, request, answer."""

    def __init__(self, path: Path, ask: Ask | None = None) -> None:
        """With `ask`, what is not recorded is asked and recorded; without, it is an error."""
        self._path, self._ask = path, ask
        self._lock = threading.Lock()
        drop_torn_line(path)
        self._answers: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
            try:
                record = json.loads(line)
                self._answers[record["key"]] = record["answer"]
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{path}, line {number} is no recorded answer: remove the line") from None

    def __call__(self, request: dict[str, Any]) -> dict[str, Any]:
        """Raises UserError where the request is not recorded and nobody can be asked."""
        key = request_hash(request)
        with self._lock:
            if key in self._answers:
                return self._answers[key]
        if self._ask is None:
            raise UserError(f"{self._path} has no answer to request {key[:12]}; record it with an endpoint first")
        answer = self._ask(request)
        line = json.dumps({"key": key, "request": request, "answer": answer}, ensure_ascii=False) + "\n"
        with self._lock:
            self._answers[key] = answer
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(line)
        return answer


def request_hash(request: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(request, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
