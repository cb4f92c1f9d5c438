"""Judge /app/answer.json: {"answer": [name, …], "sources": [address, …]} against expected.json beside this file."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any


def normal(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().casefold()


def judge(given: Any, expected: dict[str, Any]) -> bool:
    """Every name, in order, is one of those accepted for its place, and every document that says so is cited, with no more
    than twice as many."""
    if not isinstance(given, dict):
        return False
    answer, sources = given.get("answer"), given.get("sources")
    if not isinstance(answer, list) or not isinstance(sources, list):
        return False
    if not all(isinstance(value, str) for value in [*answer, *sources]) or len(answer) != len(expected["answer"]):
        return False
    named = all(normal(name) in map(normal, accepted) for name, accepted in zip(answer, expected["answer"]))
    return named and set(expected["sources"]) <= set(sources) and len(sources) <= 2 * len(expected["sources"])


def main(app: Path, tests: Path, reward: Path) -> None:
    try:
        given = json.loads((app / "answer.json").read_text())
    except (OSError, ValueError, RecursionError):
        given = None
    reward.write_text("1.0\n" if judge(given, json.loads((tests / "expected.json").read_text())) else "0.0\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
