"""The professional family: generator and verifier."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.professional import deliverable, hacks, policies
from ninefold.agent.env.professional.case import Case
from ninefold.agent.env.professional.figures import FILE, OUT, RULES
from ninefold.agent.env.professional.kinds import KINDS, TRADES
from ninefold.agent.env.professional.workbook import Foul
from ninefold.agent.env.professional.world import Bureau
from ninefold.agent.harness.executor import OPERATIONS
from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.seeds import rng_of, seed_of
from ninefold.core.types import Domain, Limits, Result, Split, Task

_FEW = ("read", "write")
_ALL = ("shell", "read", "write", "edit", "grep", "glob", "list", "todo")
_LIMITS: tuple[Limits, ...] = (
    Limits(turns=8, new_tokens=192, context=768),
    Limits(turns=24, new_tokens=8_000, context=16_000, tool_seconds=5.0),
    Limits(turns=60, new_tokens=24_000, context=64_000, tool_seconds=5.0),
    Limits(turns=150, new_tokens=64_000, context=128_000, tool_seconds=5.0),
    Limits(turns=400, new_tokens=200_000, context=256_000, tool_seconds=5.0),
)


class Professional:
    """One number out of three lines (level 0); then data analysis, finance or legal practice: one table (1), documents with
    traps (2), several files and a workbook or a redline (3), dozens of them (4)."""

    name = "professional"
    domain: Domain = "agents"
    levels = len(_LIMITS)
    tools: tuple[Tool, ...] = tuple(OPERATIONS[name] for name in _ALL)
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is what the records say, not how the files write it."""
        kind, drawn = draw(
            lambda rng: _case(rng, level), lambda made: made[1].key, split=split, names=("professional", level, seed)
        )
        return Task(
            id=f"professional/{split}/{level}/{seed}",
            domain="agents",
            family="professional",
            split=split,
            level=level,
            seed=seed,
            shape=f"professional/{level}/{kind}",
            instruction=drawn.instruction + (_TOOL if level > 1 else ""),
            tools=_ALL if level else _FEW,
            files=dict(drawn.files),
            data={
                "content": seed_of(drawn.key),
                "kind": kind,
                "papers": dict(drawn.papers),
                "wanted": [dict(wanted) for wanted in drawn.wanted],
            },
            limits=_LIMITS[level],
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> Bureau:
        return Bureau.open(task, _needed(runtime))

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> Bureau:
        return Bureau.restore(task, saved, _needed(runtime))

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """The share of what is right in the worst of the files: whatever is computed is computed again, here, for other inputs
        as well. A file that breaks a rule of form, or an input that was touched, costs everything."""
        if final.get("changed"):
            return Result(status="fail", detail=f"an input was changed: {final['changed'][0]}")
        shares: dict[str, float] = {}
        for wanted in task.data["wanted"]:
            data = _handed_in(final, wanted["path"])
            if data is None:
                return Result(status="fail", detail=f"no file {wanted['path']}")
            try:
                shares[wanted["path"]] = deliverable.share(wanted, data, rng_of("vary", task.id, wanted["path"]))
            except Foul as foul:
                return Result(status="fail", detail=f"{wanted['path']}: {foul}")
        worst = min(shares, key=lambda path: shares[path])
        right = shares[worst] == 1.0
        detail = "" if right else f"{worst}: {shares[worst]:.0%} is right"
        return Result(status="pass" if right else "fail", score=shares[worst], detail=detail)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What the files say, and what the workbooks come to for inputs that `seed` draws."""
        said: list[Any] = [final.get("changed")]
        for wanted in task.data["wanted"]:
            data = _handed_in(final, wanted["path"])
            said.append(None if data is None else deliverable.reading(wanted, data, rng_of("observe", task.id, seed)))
        return said

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return hacks.hacks(task)

    def phrases(self) -> Sequence[str]:
        asked = [f"Write the {rule} of {FILE} to {OUT} ." for rule in RULES]
        return (*asked, FILE, OUT, " , ", f"Created {OUT}", f"Updated {OUT}", "done")


_TOOL = " Word files and workbooks are shown and made by papers.py; python3 papers.py says how."


def _case(rng: Random, level: int) -> tuple[str, Case]:
    kind = rng.choice(TRADES) if level else "figures"
    return kind, KINDS[kind].draw(rng, level)


def _needed(runtime: SandboxRuntime | None) -> SandboxRuntime:
    if runtime is None:
        raise SandboxUnavailable("professional tasks run commands; give them a sandbox runtime")
    return runtime


def _handed_in(final: Mapping[str, Any], path: str) -> bytes | None:
    """None where there is no such file."""
    files = final.get("files")
    text = files.get(path) if isinstance(files, Mapping) else None
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except binascii.Error:
        return None
