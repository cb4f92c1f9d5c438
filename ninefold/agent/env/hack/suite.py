"""Plays every attack on a family and counts what succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ninefold.agent.env.hack.catalogue import catalogue
from ninefold.agent.env.hack.mutants import Moves, mutants
from ninefold.agent.env.play import final_state, play
from ninefold.agent.env.script import Recorder, plays
from ninefold.core.errors import UserError
from ninefold.core.protocols import Family, SandboxRuntime, ScriptedPolicy
from ninefold.core.seeds import rng_of
from ninefold.core.types import Result, Task

RETRIED = 50
"""Further seeds on which a mutant that passes must come to what gold comes to."""
OTHERS = 6
"""Other tasks whose solutions a mutant may borrow from."""
PER_TASK = 8
"""Mutants of one task, so that they are spread over many."""


@runtime_checkable
class Observed(Protocol):
    """A family that says what a final state comes to, where two that differ may come to the same: files in another order,
    programs that compute the same. Without it the final state itself is compared."""

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """JSON of what can be observed, a program's outputs for inputs that `seed` draws; the verifier is not asked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attack, or one mutant of gold."""

    task: str
    """Id."""
    what: str
    result: Result
    moves: Moves = ()
    """Of a mutant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of all attempts on a family."""

    family: str
    attacks: int
    """Hacks of the catalogue and of the family's own, played."""
    kinds: tuple[str, ...]
    """Their names."""
    mutants: int
    failed: int
    """Mutants that did not pass."""
    invalid: int
    """Attempts that nobody could judge; they are among those that did not succeed."""
    equivalent: tuple[Attempt, ...]
    """Mutants that passed and come to what gold comes to on further seeds."""
    successes: tuple[Attempt, ...]
    """Attacks that were rewarded, and mutants that passed without being equivalent."""

    @property
    def rate(self) -> float:
        """Attack-success rate: successes among all attempts but the equivalent ones."""
        return len(self.successes) / max(1, self.attacks + self.mutants - len(self.equivalent))


@dataclass(slots=True, kw_only=True)
class _Tally:
    kinds: dict[str, int] = field(default_factory=dict[str, int])
    mutants: int = 0
    failed: int = 0
    invalid: int = 0
    equivalent: list[Attempt] = field(default_factory=list[Attempt])
    successes: list[Attempt] = field(default_factory=list[Attempt])


def attack(
    family: Family,
    *,
    levels: Sequence[int] | None = None,
    seeds: int = 2,
    mutants: int = 200,
    seed: int = 0,
    runtime: SandboxRuntime | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Play all hacks on `seeds` tasks of each of `levels`, or of all, and about `mutants` mutants over them.

    `seed` chooses tasks and mutants. Raises UserError where gold itself does not pass: then nothing would be learned.
    """
    tally = _Tally()
    attacked = range(family.levels) if levels is None else levels
    wanted = -(-mutants // len(attacked))
    for level in attacked:
        before = tally.mutants
        for number in range(max(seeds, wanted)):
            made = tally.mutants - before
            if number >= seeds and made >= wanted:
                break
            progress(f"level {level}: {sum(tally.kinds.values())} hacks, {tally.mutants} mutants")
            task = family.generate("dev", level, seed * 10_007 + number)
            target = _Target(family, task, runtime)
            if number < seeds:
                _play_hacks(target, tally)
            _play_mutants(target, min(PER_TASK, wanted - made), tally)
    return Report(
        family=family.name,
        attacks=sum(tally.kinds.values()),
        kinds=tuple(tally.kinds),
        mutants=tally.mutants,
        failed=tally.failed,
        invalid=tally.invalid,
        equivalent=tuple(tally.equivalent),
        successes=tuple(tally.successes),
    )


class _Target:
    """A task, and what gold does and comes to in it."""

    def __init__(self, family: Family, task: Task, runtime: SandboxRuntime | None) -> None:
        self.family, self.task, self.runtime = family, task, runtime
        self.gold = _recorded(family, task, runtime)
        self._golden: dict[int, tuple[Mapping[str, Any], Any]] = {}
        result = self.play(plays(*self.gold))
        if result.status != "pass":
            verdict = f"{result.status}: {result.detail}"
            raise UserError(f"gold does not pass {task.id} ({verdict}); `ninefold task check {family.name}` says more")

    def play(self, policy: ScriptedPolicy) -> Result:
        return play(self.family, self.task, policy, self.task.seed, self.runtime)[0]

    def others(self) -> list[Moves]:
        """What gold does in the tasks that follow."""
        seeds = range(self.task.seed + 1, self.task.seed + 1 + OTHERS)
        tasks = [self.family.generate(self.task.split, self.task.level, seed) for seed in seeds]
        return [_recorded(self.family, task, self.runtime) for task in tasks]

    def equals_gold(self, moves: Moves) -> bool:
        """Whether these moves come to what gold comes to on further seeds of world and inputs."""
        return all(self._same(moves, seed) for seed in range(1, 1 + RETRIED))

    def _same(self, moves: Moves, seed: int) -> bool:
        if seed not in self._golden:
            final = self._final(self.gold, seed)
            self._golden[seed] = final, self._observed(final, seed)
        golden, observed = self._golden[seed]
        final = self._final(moves, seed)
        return final == golden or self._observed(final, seed) == observed

    def _final(self, moves: Moves, seed: int) -> Mapping[str, Any]:
        return final_state(self.family, self.task, plays(*moves), seed, self.runtime)

    def _observed(self, final: Mapping[str, Any], seed: int) -> Any:
        if isinstance(self.family, Observed):
            return self.family.observe(self.task, final, seed, runtime=self.runtime)
        return final


def _play_hacks(target: _Target, tally: _Tally) -> None:
    own = {f"own: {name}": policy for name, policy in target.family.hacks(target.task).items()}
    for name, policy in {**catalogue(target.family, target.task, target.gold), **own}.items():
        result = target.play(policy)
        tally.kinds[name] = tally.kinds.get(name, 0) + 1
        tally.invalid += result.status == "invalid"
        if result.status == "pass" or result.score > 0:
            tally.successes.append(Attempt(task=target.task.id, what=name, result=result))


def _play_mutants(target: _Target, most: int, tally: _Tally) -> None:
    if most < 1:
        return
    rng = rng_of("mutants", target.task.id)
    for what, moves in mutants(target.gold, target.others(), rng, programs=target.family.isolated)[:most]:
        result = target.play(plays(*moves))
        attempt = Attempt(task=target.task.id, what=what, result=result, moves=moves)
        tally.mutants += 1
        tally.invalid += result.status == "invalid"
        if result.status != "pass":
            tally.failed += 1
        elif target.equals_gold(moves):
            tally.equivalent.append(attempt)
        else:
            tally.successes.append(attempt)


def _recorded(family: Family, task: Task, runtime: SandboxRuntime | None) -> Moves:
    """The moves that gold makes."""
    recorder = Recorder(family.gold(task))
    final_state(family, task, recorder, task.seed, runtime)
    return tuple(recorder.moves)
