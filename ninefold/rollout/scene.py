"""What every episode needs besides its slot, and how finished ones become trajectories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.sampler import sample
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.protocols import ChatFormat, Family, SandboxRuntime, Verify
from ninefold.core.types import Result, Slot, Task, Trajectory

Finished = tuple[Episode, Mapping[str, Any] | None]
"""A finished episode and its final state; None where there is nothing to judge."""


@runtime_checkable
class VerifyMany(Protocol):
    """A verifier that judges many at once for little more than the cost of one."""

    def verify_many(self, items: Sequence[tuple[Task, Mapping[str, Any]]]) -> list[Result]: ...


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

    def start(self, slots: Iterable[Slot]) -> Iterator[Episode]:
        """The slots' episodes, worlds open, made as they are asked for. Samples of one group that follow share the prompt."""
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
            )
            yield before

    def restore(self, saved: bytes) -> Episode:
        """An episode that was saved."""
        return Episode.restore(saved, families=self.families, chat=self.chat, runtime=self.runtime)

    def grade(self, finished: Sequence[Finished]) -> list[Trajectory]:
        """Trajectories in the order given, judged together. Where the verifier breaks, results are invalid."""
        verdicts = iter(self._judge([(episode.slot.task, final) for episode, final in finished if final is not None]))
        return [episode.conclude(None if final is None else next(verdicts)) for episode, final in finished]

    def _judge(self, items: Sequence[tuple[Task, Mapping[str, Any]]]) -> list[Result]:
        results: list[Result] = []
        broken: list[NinefoldError] = []
        with boundary(VerifierError, "verifying", catch=broken.append):
            if isinstance(self.verify, VerifyMany):
                results = self.verify.verify_many(items)
            else:
                results = [self.verify(task, final) for task, final in items]
        return [Result(status="invalid", detail=str(broken[0])) for _ in items] if broken else results
