"""What every episode needs besides its slot, and how finished ones become trajectories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.sampler import sample
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.protocols import ChatFormat, Family, SandboxRuntime, Verify
from ninefold.core.types import Result, Slot, Task, Trajectory
from ninefold.rollout.deadline import Clock, DeadlineConfig

Finished = tuple[Episode, Mapping[str, Any] | None]
"""A finished episode and its final state; None where there is nothing to judge."""


_LATE = Result(status="invalid", detail="not judged by the deadline of the rollout")


@runtime_checkable
class VerifyMany(Protocol):
    """A verifier that judges many at once for little more than the cost of one."""

    def verify_many(self, items: Sequence[tuple[Task, Mapping[str, Any]]], *, within: float | None = None) -> list[Result]:
        """A verdict for each; `within` so many seconds, where given: what is not judged by then is invalid."""
        ...


def preset_of(slot: Slot) -> AnyHarness:
    """One of the presets, by the name of the slot's group alone."""
    return sample(slot.group, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The surroundings of episodes."""

    chat: ChatFormat
    families: Mapping[str, Family]
    verify: Verify
    harness: Callable[[Slot], AnyHarness] = preset_of
    """Slot → the harness that it runs under, as all of its group."""
    runtime: SandboxRuntime | None = None
    """For families that run untrusted code."""
    deadlines: DeadlineConfig = field(default_factory=DeadlineConfig)
    """Of each rollout in it; the verifier has its own bound of a verification."""
    now: Callable[[], float] = time.monotonic
    """The clock that they are read on."""

    def clock(self) -> Clock:
        """Of a rollout that begins now."""
        return Clock(self.deadlines, self.now)

    def start(self, slots: Iterable[Slot], clock: Clock | None = None) -> Iterator[Episode]:
        """The slots' episodes, worlds open, made as they are asked for. Samples of one group that follow share the prompt.

        Once the clock says that playing is over, they are invalid and no world is opened.
        """
        before: Episode | None = None
        for slot in slots:
            sibling = before if before is not None and before.slot.group == slot.group else None
            before = Episode.start(
                slot,
                family=self.families[slot.task.family],
                harness=self.harness(slot),
                chat=self.chat,
                runtime=self.runtime,
                prompt=None if sibling is None else sibling.prompt,
                trouble=clock.cut() if clock is not None and clock.over else "",
            )
            yield before

    def restore(self, saved: bytes) -> Episode:
        """An episode that was saved."""
        return Episode.restore(saved, families=self.families, chat=self.chat, runtime=self.runtime)

    def grade(self, finished: Sequence[Finished], *, within: float | None = None) -> list[Trajectory]:
        """Trajectories in the order given, judged together. Where the verifier breaks, or does not come to its end within so
        many seconds, results are invalid."""
        verdicts = iter(self._judge([(episode.slot.task, final) for episode, final in finished if final is not None], within))
        return [episode.conclude(None if final is None else next(verdicts)) for episode, final in finished]

    def _judge(self, items: Sequence[tuple[Task, Mapping[str, Any]]], within: float | None) -> list[Result]:
        results: list[Result] = []
        end = float("inf") if within is None else self.now() + within
        broken: list[NinefoldError] = []
        with boundary(VerifierError, "verifying", catch=broken.append):
            if isinstance(self.verify, VerifyMany):
                results = self.verify.verify_many(items, within=within)
            else:
                results = [self.verify(task, final) if self.now() < end else _LATE for task, final in items]
        return [Result(status="invalid", detail=str(broken[0])) for _ in items] if broken else results
