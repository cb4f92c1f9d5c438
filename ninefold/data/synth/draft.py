"""A drafted task, and the Harbor directory that it becomes (schema 1.4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ninefold.core.seeds import split_of
from ninefold.core.types import Split
from ninefold.data.synth.graph import Evidence
from ninefold.data.synth.library import sha256
from ninefold.data.synth.target import Cell
from ninefold.index import Document

_TEST = """#!/bin/bash
# Paths may be moved, so that a task can be checked outside a container.
APP="${APP:-/app}" TESTS="${TESTS:-/tests}" LOGS="${LOGS:-/logs}"
mkdir -p "$LOGS/verifier"
rm -f "$LOGS/verifier/reward.txt"
python3 -ISB "$TESTS/check.py" "$APP" "$TESTS" "$LOGS/verifier/reward.txt"
"""
_DOCKERFILE = """FROM python:{python}-slim
WORKDIR /app
COPY documents /app/documents
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A task before the gates."""

    cell: Cell
    nodes: tuple[str, ...]
    """Names of the concepts it is about, the coarsest first."""
    instruction: str
    quotes: tuple[str, ...]
    """What the instruction quotes of the documents."""
    hidden: tuple[str, ...]
    """Names that the quotes must not give away."""
    file: str
    """What the agent writes: `answer.json` or `solution.py`."""
    gold: str
    """Content of that file that scores 1."""
    expected: Mapping[str, Any]
    """What the verifier compares with; JSON."""
    evidence: tuple[Evidence, ...]
    """Where the documents say what has to be known."""
    documents: tuple[Document, ...]
    """What was retrieved: what the agent gets."""
    guesses: tuple[str, ...]
    """Contents that need no document; each must score 0."""
    mutants: tuple[str, ...]
    """The gold made wrong; each must score 0."""
    clues: tuple[tuple[str, ...], ...] = ()
    """Names of each thing that the answer's text, which is not quoted, names together; none where the quotes are of it."""

    @property
    def id(self) -> str:
        return f"{self.cell.type}-{sha256(json.dumps([self.nodes, self.instruction]))[:12]}"

    @property
    def split(self) -> Split:
        """By what is expected, however it is asked. None is set aside for documents: what it asks is in documents already."""
        split = split_of(json.dumps(self.expected, sort_keys=True))
        return "train" if split == "corpus" else split

    def files(self, weak: float | None = None) -> dict[str, str]:
        """Path → text of the Harbor directory; `weak` is the pass rate of the weak policy, where it is known."""
        check = resources.files("ninefold.data.synth.checks") / f"{self.cell.type}.py"
        documents = {
            f"environment/documents/{i:02d}.txt": f"{document.id}\n{document.title}\n\n{document.text}\n"
            for i, document in enumerate(self.documents)
        }
        return {
            "instruction.md": self.instruction,
            "task.toml": _toml(self, weak),
            "environment/Dockerfile": _DOCKERFILE.format(python="3.11"),
            "tests/test.sh": _TEST,
            "tests/check.py": check.read_text(),
            "tests/expected.json": json.dumps(self.expected, indent=1, ensure_ascii=False),
            "solution/solve.sh": _solve(self.file, self.gold),
            **documents,
        }


def write(draft: Draft, folder: Path, weak: float | None = None) -> None:
    for name, text in draft.files(weak).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix == ".sh":
            path.chmod(0o755)


def _solve(file: str, gold: str) -> str:
    assert "\nSOLVED\n" not in gold
    return f"#!/bin/bash\ncat > \"${{APP:-/app}}/{file}\" <<'SOLVED'\n{gold}\nSOLVED\n"


def _toml(draft: Draft, weak: float | None) -> str:
    """JSON strings are TOML strings here: no surrogates, DEL aside, which no document's address or name has."""
    said = json.dumps
    evidence = ", ".join(
        f"{{ url = {said(e.url)}, start = {e.start}, end = {e.end}, sha256 = {said(e.sha256)} }}" for e in draft.evidence
    )
    metadata = {**draft.cell._asdict(), "split": draft.split, "searches": len(draft.quotes) + bool(draft.clues)}
    if weak is not None:
        metadata["weak_pass_rate"] = weak
    lines = "".join(f"{key} = {said(value)}\n" for key, value in metadata.items())
    return (
        f'schema_version = "1.4"\n\n[task]\nname = "ninefold/{draft.id}"\nversion = "1"\n'
        f"description = {said('Synthesised from ' + ', '.join(draft.nodes), ensure_ascii=False)}\n\n"
        f"[metadata]\n{lines}concepts = {said(draft.nodes, ensure_ascii=False)}\nevidence = [{evidence}]\n\n"
        "[agent]\ntimeout_sec = 600\n\n[verifier]\ntimeout_sec = 60\n\n"
        '[environment]\nnetwork_mode = "no-network"\nbuild_timeout_sec = 600\ncpus = 1\nmemory_mb = 1024\nstorage_mb = 1024\n'
    )
