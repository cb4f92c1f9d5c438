"""The AET family: generator and verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.aet import policies
from ninefold.agent.env.aet.audit import Audit
from ninefold.agent.env.aet.factors import KNOBS, Factors
from ninefold.agent.env.aet.kind import Kind, assess
from ninefold.agent.env.aet.ledger import PENALTY, alarm, entries, score, wasted
from ninefold.agent.env.aet.progress import Point, curve
from ninefold.agent.env.aet.replica import Replica
from ninefold.agent.env.aet.world import TOOLS, AetWorld, offered
from ninefold.agent.env.draw import draw
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.types import Domain, Limits, Result, Split, Task

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (Replica(), Factors(), Audit())}
SUBMISSIONS = (2, 3, 4, 4, 5)
"""Of each level."""
_TERMS = f" The last one counts , on hidden scenarios ; one that brings no progress costs {PENALTY} . Stop when you like ."
_FURTHER_CALLS = (2, 4, 40, 60, 90)
"""Tool calls of each level besides probes and submissions."""
_LIMITS = (
    Limits(turns=10, new_tokens=256, context=640),
    Limits(turns=16, new_tokens=768, context=1536),
    Limits(turns=64, new_tokens=16_384, context=32_768, tool_seconds=5.0),
    Limits(turns=112, new_tokens=49_152, context=98_304, tool_seconds=10.0),
    Limits(turns=176, new_tokens=131_072, context=262_144, tool_seconds=20.0),
)


class Aet:
    """A goal, an oracle, a verifier that tells something of each submission, and one that scores the last (spec 05)."""

    name = "aet"
    domain: Domain = "agents"
    levels = len(SUBMISSIONS)
    tools = TOOLS
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split and of a kind that the seed chooses; its key is what is to be found out."""
        kind = list(KINDS.values())[seed % len(KINDS)]
        data = draw(
            lambda rng: kind.draw(rng, level),
            lambda data: f"aet/{kind.name}/{kind.key(data)}",
            split=split,
            names=("aet", level, seed),
        )
        submissions, probes = SUBMISSIONS[level], data["probes"]
        asked = f" {probes} probes ," if probes else ""
        calls = probes + submissions + _FURTHER_CALLS[level]
        return Task(
            id=f"aet/{split}/{level}/{seed}",
            domain="agents",
            family="aet",
            split=split,
            level=level,
            seed=seed,
            shape=f"aet/{level}/{kind.name}",
            instruction=f"{kind.brief(data)}{asked} {submissions} submissions .{_TERMS if level else ''}",
            tools=tuple(offered(level, probes)),
            files=dict(kind.files(data)),
            data={**data, "kind": kind.name, "submissions": submissions, "calls": calls},
            limits=_LIMITS[level],
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> AetWorld:
        return AetWorld(task, KINDS[task.data["kind"]], _required(runtime), seed=seed)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> AetWorld:
        return AetWorld.restore(task, KINDS[task.data["kind"]], _required(runtime), saved)

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Completion of the last submission on the hidden scenarios, less what was wasted; all of them to pass."""
        ledger = entries(final)
        if not ledger:
            return Result(status="fail", detail="nothing was submitted")
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        try:
            found = assess(KINDS[task.data["kind"]], task.data, ledger[-1].answer, "hidden", runtime)
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))
        parts = [f"{found.right} of {found.scenarios} hidden", f"{wasted(ledger)} wasted", alarm(found.completion, ledger)]
        return Result(
            status="pass" if found.right == found.scenarios else "fail",
            score=score(found.completion, ledger),
            detail=", ".join(filter(None, parts)),
        )

    def progress(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime) -> tuple[Point, ...]:
        """Hidden completion of each submission against the share of allowed calls made up to it. Raises SandboxError."""

        def completion(answer: str) -> float:
            return assess(KINDS[task.data["kind"]], task.data, answer, "hidden", runtime).completion

        return curve(entries(final), task.data["calls"], completion)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What the last submission predicts of further scenarios."""
        ledger, kind = entries(final), KINDS[task.data["kind"]]
        if not ledger:
            return None
        inputs = kind.inputs(task.data, f"further {seed}")
        return kind.predict(task.data, ledger[-1].answer, inputs, runtime)

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(KINDS[task.data["kind"]].gold(task.data))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, KINDS[task.data["kind"]].gold(task.data), style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task, KINDS[task.data["kind"]])

    def phrases(self) -> Sequence[str]:
        copied = ("Copy the program f : a number from 0 to 19 . Probe it , submit Python .", "def f(x): return ", "f ")
        found = ("Which knobs change the outcome , and by how much ? Knobs : ", " makes ", "from ", " to ", "none", *KNOBS)
        probed = (" . Probe with the knobs that are on ; submit like ", "Audit sums . Probe pages 1 to 4 .")
        audited = (" Which entries are wrong ? submit like a h .", "page ", " missed , ", " accused falsely")
        told = (" probes ,", " submissions .", " of ", " visible", " left", " , not ", "done")
        return (*copied, *found, *probed, *audited, *told)


def _required(runtime: SandboxRuntime | None) -> SandboxRuntime:
    if runtime is None:
        raise SandboxUnavailable("aet tasks run submitted programs; give them a sandbox runtime")
    return runtime
