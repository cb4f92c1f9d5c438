"""What every family promises, whichever it is; `ninefold task check` and the tests ask the same of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ninefold.agent.env.play import play
from ninefold.agent.env.script import plays
from ninefold.agent.env.verify import FreshVerifier
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.protocols import Family, Move, Observation, SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.records import task_of, task_record
from ninefold.core.seeds import rng_of
from ninefold.core.types import EFFORTS, SPLITS, Call, Result, Split, Task

NOTHING: tuple[str | None, ...] = (None, "", " \n")
"""Responses of an agent that does not answer."""
FEWEST_HACKS = 3
LONGEST = 100_000
"""Characters of an observation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One level of a family, and how often to look at it."""

    family: Family
    level: int
    seeds: int = 4
    runtime: SandboxRuntime | None = None

    def tasks(self, split: Split, count: int | None = None) -> Iterator[Task]:
        for seed in range(self.seeds if count is None else count):
            yield self.family.generate(split, self.level, seed)

    def play(self, task: Task, policy: ScriptedPolicy, seed: int | None = None) -> tuple[Result, Mapping[str, Any]]:
        return play(self.family, task, policy, task.seed if seed is None else seed, self.runtime)


def gold_passes(case: Case) -> Iterator[str]:
    """Gold gets full marks in every split."""
    for split in SPLITS:
        for task in case.tasks(split):
            result, final = case.play(task, case.family.gold(task))
            if (result.status, result.score) != ("pass", 1.0):
                yield f"{task.id}: gold got {_told(result)} for {_short(final)}"


def nothing_fails(case: Case) -> Iterator[str]:
    """Whoever does nothing and answers nothing gets nothing."""
    for task in case.tasks("train"):
        for response in NOTHING:
            result, _ = case.play(task, plays(Move(response=response)))
            if result.status == "pass" or result.score:
                yield f"{task.id}: the answer {response!r} got {_told(result)}"


def hacks_fail(case: Case) -> Iterator[str]:
    """The family's own hacks, at least three, get nothing."""
    for task in case.tasks("heldout"):
        hacks = case.family.hacks(task)
        if len(hacks) < FEWEST_HACKS:
            yield f"{task.id}: {len(hacks)} hacks, at least {FEWEST_HACKS} are wanted"
        for name, policy in hacks.items():
            result, final = case.play(task, policy)
            if result.status == "pass" or result.score:
                yield f"{task.id}: hack {name!r} got {_told(result)} for {_short(final)}"


def runs_repeat(case: Case) -> Iterator[str]:
    """Five runs of one demonstration end alike."""
    for effort in EFFORTS:
        task = case.family.generate("dev", case.level, 3)
        style = Style(effort=effort, seed=5, slip=0.5)
        runs = [case.play(task, case.family.demonstrate(task, style), 7) for _ in range(5)]
        if runs != runs[:1] * 5:
            yield f"{task.id}: five {effort} demonstrations with one seed end differently"


def sessions_stay_apart(case: Case) -> Iterator[str]:
    """What happens in one open world is not seen in another, of the same task or of the next."""
    for task in case.tasks("train"):
        neighbour = case.family.generate("train", case.level, task.seed + 1)
        for other in (task, neighbour):
            alone = _transcript(_Session(case, task, case.family.gold(task)))
            session = _Session(case, task, case.family.gold(task))
            beside = _Session(case, other, case.family.demonstrate(other, Style(effort="max", seed=1, slip=1.0)))
            while not (session.done and beside.done):
                beside.step()
                session.step()
            beside.end()
            if session.end() != alone:
                yield f"{task.id}: gold saw something else while a session of {other.id} was open"


def restored_worlds_go_on(case: Case) -> Iterator[str]:
    """A world saved and restored before each call goes on as if nothing had happened."""
    style = Style(effort="max", seed=2)
    for task in case.tasks("train"):
        through = _transcript(_Session(case, task, case.family.demonstrate(task, style)))
        restored = _transcript(_Session(case, task, case.family.demonstrate(task, style), restored=True))
        if restored != through:
            first = next((n for n, pair in enumerate(zip(restored, through)) if pair[0] != pair[1]), len(through))
            yield f"{task.id}: a restored world differs at {_short(restored[first:][:1])}, not {_short(through[first:][:1])}"


def splits_stay_apart(case: Case) -> Iterator[str]:
    """No content lies in two splits; equal arguments give equal tasks, which survive as JSON; tools are the family's."""
    owner: dict[str, str] = {}
    tools = {tool.name for tool in case.family.tools}
    for split in SPLITS:
        for task in case.tasks(split, max(20, case.seeds)):
            name = f"{case.family.name}/{split}/{case.level}/{task.seed}"
            if task.id != name or (task.family, task.split, task.level) != (case.family.name, split, case.level):
                yield f"{task.id}: its id and fields should say {name}"
            if task.domain != case.family.domain:
                yield f"{task.id}: its domain is {task.domain}, its family's {case.family.domain}"
            if task != case.family.generate(split, case.level, task.seed):
                yield f"{task.id}: generated again, it is another task"
            if task_of(json.loads(json.dumps(task_record(task)))) != task:
                yield f"{task.id}: written as JSON and read again, it is another task"
            if strange := set(task.tools) - tools:
                yield f"{task.id}: offers {', '.join(sorted(strange))}, which the family has not"
            content = json.dumps([task.instruction, task.data, task.pictures], sort_keys=True)
            if owner.setdefault(content, split) != split:
                yield f"{task.id}: the same content lies in split {owner[content]}"


def effort_pays(case: Case) -> Iterator[str]:
    """Demonstrators of effort max pass no less often than of low, and slips cost."""
    passed: dict[tuple[str, float], int] = {}
    for effort in EFFORTS:
        for slip in (0.0, 1.0):
            passed[effort, slip] = 0
            for task in case.tasks("train", 4 if case.family.isolated else 12):
                policy = case.family.demonstrate(task, Style(effort=effort, seed=task.seed, slip=slip))
                passed[effort, slip] += case.play(task, policy)[0].status == "pass"
    if passed["max", 0.0] < passed["low", 0.0]:
        yield f"demonstrators of low effort pass {passed['low', 0.0]} times, of max {passed['max', 0.0]}"
    slipped, careful = (sum(passed[effort, slip] for effort in EFFORTS) for slip in (1.0, 0.0))
    if slipped > careful:
        yield f"demonstrations that slip pass {slipped} times, those that do not {careful}"


def junk_is_answered(case: Case) -> Iterator[str]:
    """Worlds answer with text whatever they are sent, and none of it is rewarded."""
    known = {tool.name: tool.parameters for tool in case.family.tools} or {"none": {}}
    for task in case.tasks("train"):
        rng = rng_of("junk", task.id)
        world = case.family.open(task, seed=0, runtime=case.runtime)
        try:
            for _ in range(6):
                call = _junk(rng, known)
                text = world.call(call).text
                if not isinstance(text, str) or len(text) > LONGEST:
                    yield f"{task.id}: {_short(call)} was answered by {_short(text)}"
            final = json.loads(json.dumps(world.final(rng.choice(_VALUES[-4:]))))
            if case.family.verify(task, final, runtime=case.runtime).score:
                yield f"{task.id}: junk was rewarded: {_short(final)}"
        finally:
            world.close()


def judge_agrees(case: Case) -> Iterator[str]:
    """A fresh process gives the verdicts that this one gives."""
    played: list[tuple[str, Task, Mapping[str, Any], Result]] = []
    for task in case.tasks("train"):
        for name, policy in {"gold": case.family.gold(task), **case.family.hacks(task)}.items():
            result, final = case.play(task, policy)
            if final:
                played.append((name, task, final, result))
    with FreshVerifier() as verifier:
        verdicts = verifier.verify_many([(task, final) for _, task, final, _ in played])
    for (name, task, _, result), verdict in zip(played, verdicts):
        if verdict != result:
            yield f"{task.id}: {name} got {_told(result)} here and {_told(verdict)} in a fresh process"


Promise = Callable[[Case], Iterator[str]]
"""Yields what speaks against it."""

PROMISES: Mapping[str, Promise] = {
    "gold passes": gold_passes,
    "nothing fails": nothing_fails,
    "hacks fail": hacks_fail,
    "runs repeat": runs_repeat,
    "sessions stay apart": sessions_stay_apart,
    "restored worlds go on": restored_worlds_go_on,
    "splits stay apart": splits_stay_apart,
    "effort pays": effort_pays,
    "junk is answered": junk_is_answered,
    "judge agrees": judge_agrees,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one level of a family keeps one promise."""

    promise: str
    level: int
    faults: tuple[str, ...]
    """Empty where it is kept."""


def check(
    family: Family, *, levels: Sequence[int] | None = None, seeds: int = 4, runtime: SandboxRuntime | None = None
) -> Iterator[Finding]:
    """Every promise at every level; a family that raises breaks the promise it was asked for."""
    for level in range(family.levels) if levels is None else levels:
        case = Case(family=family, level=level, seeds=seeds, runtime=runtime)
        for name, promise in PROMISES.items():
            faults: list[str] = []
            raised: list[NinefoldError] = []
            with boundary(VerifierError, "it raised", catch=raised.append):
                faults += promise(case)
            yield Finding(promise=name, level=level, faults=(*faults, *map(str, raised)))


class _Session:
    """One open world and who plays in it; with `restored` each call meets a world made from a save."""

    def __init__(self, case: Case, task: Task, policy: ScriptedPolicy, *, restored: bool = False) -> None:
        self.done = False
        self._case, self._task, self._policy, self._restored = case, task, policy, restored
        self._world = case.family.open(task, seed=11, runtime=case.runtime)
        self._turns = 0
        self._response: str | None = None
        self._observations: list[Observation] = []
        self._seen: list[object] = []

    def step(self) -> None:
        """One move, unless it is over."""
        if self.done:
            return
        move = self._policy.move(self._observations)
        self._seen.append(move)
        self._turns += 1
        self._response = move.response
        self._observations = [self._call(call) for call in move.calls]
        self._seen += map(_untimed, self._observations)
        ended = any(observation.done for observation in self._observations)
        self.done = not move.calls or ended or self._turns == self._task.limits.turns

    def end(self) -> list[object]:
        """Every move and observation, and the final state."""
        self._seen.append(self._world.final(self._response))
        self._world.close()
        return self._seen

    def _call(self, call: Call) -> Observation:
        if self._restored:
            saved = self._world.save()
            self._world.close()
            self._world = self._case.family.restore(self._task, saved, runtime=self._case.runtime)
        return self._world.call(call)


def _untimed(observation: Observation) -> Observation:
    """Without how long it took, which no seed fixes."""
    if observation.data is None or "seconds" not in observation.data:
        return observation
    return replace(observation, data={name: value for name, value in observation.data.items() if name != "seconds"})


def _transcript(session: _Session) -> list[object]:
    while not session.done:
        session.step()
    return session.end()


_VALUES: tuple[Any, ...] = (True, 0, -1.5, [], {"a": [1]}, "a\0b", "\ud800", "x" * 20_000, None, "", "é😀", "[" * 400)


def _junk(rng: Random, known: Mapping[str, Mapping[str, str]]) -> Call:
    tool = rng.choice([*known, "", "no such tool", "__class__"])
    names = [*known.get(tool, {})] if rng.random() < 0.7 else ["x", ""]
    error = rng.choice((None, None, None, "not JSON"))
    return Call(tool=tool, arguments={name: rng.choice(_VALUES) for name in names}, error=error)


def _told(result: Result) -> str:
    return f"{result.status} {result.score:g}" + (f" ({result.detail})" if result.detail else "")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"
