"""The sub-agents of an episode: one at work at a time, and of those that are done what came back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from ninefold.agent.harness.compose import ERROR
from ninefold.agent.harness.delegation import Delegation, prompts
from ninefold.agent.harness.progress import Progress
from ninefold.core.protocols import Observation
from ninefold.core.types import Call, Result, Slot, StopReason, Trajectory


class SubAgent(Protocol):
    """An episode, as the one that began it sees it."""

    progress: Progress

    @property
    def done(self) -> bool: ...

    def go_on(self, note: str) -> None:
        """Ask for another message, by a note behind the last one."""
        ...

    def truncate(self, stop: StopReason) -> None:
        """End it where it is."""
        ...

    def told(self, result: Result) -> Trajectory:
        """The trajectory, with that verdict."""
        ...


Agent = TypeVar("Agent", bound=SubAgent)


class Agents(Generic[Agent]):
    """A call begins them one after the other; their reports are its result once all of them are there."""

    def __init__(
        self,
        *,
        slot: Slot,
        delegation: Delegation,
        progress: Progress,
        begin: Callable[[Slot], Agent],
        ended: Sequence[Trajectory] = (),
        reports: Sequence[str] = (),
    ) -> None:
        """`slot` and `progress` are those of the episode whose sub-agents they are, `begin` is how one of a slot begins."""
        self._slot, self._delegation, self._progress, self._begin = slot, delegation, progress, begin
        self._ended, self._reports = list(ended), list(reports)
        self.at_work: Agent | None = None

    @property
    def ended(self) -> tuple[Trajectory, ...]:
        """Of all that are done."""
        return tuple(self._ended)

    @property
    def reports(self) -> tuple[str, ...]:
        """Of those of the call that is executed."""
        return tuple(self._reports)

    def delegate(self, call: Call, number: int) -> Observation | None:
        """Begin the next one of call `number` of a message, which is None; what all of them reported once there is no further
        one."""
        wanted, most = prompts(call), self._delegation.most
        if not wanted or len(wanted) > most:
            return Observation(text=f"{ERROR}give 1 to {most} prompts, not {len(wanted)}")
        group = f"{self._slot.id}@{len(self._progress.turns)}.{number}"
        while (index := len(self._reports)) < len(wanted) and self._progress.stop is None:
            left = self._slot.task.limits.new_tokens - self._progress.new_tokens
            slot = self._delegation.slot(self._slot, wanted[index], group=group, index=index, new_tokens=left)
            self.at_work = self._begin(slot)
            if not self.at_work.done:
                return None
            self.dismiss()
        reports, self._reports = self._reports, []
        return Observation(text="\n\n".join(reports))

    def heard(self) -> bool:
        """Whether the one at work is done, which is dismissed then; where its report is short it is asked for more, once."""
        agent = self.at_work
        assert agent is not None
        progress = agent.progress
        short = len(progress.response or "") < self._delegation.least
        if progress.stop == "answered" and short and not progress.asked_again:
            progress.stop, progress.asked_again = None, True
            agent.go_on(self._delegation.more)
        if agent.done:
            self.dismiss()
        return agent.done

    def dismiss(self) -> None:
        """Keep trajectory and report of the one at work. Its tokens are the episode's own; what broke it breaks the episode."""
        agent, self.at_work = self.at_work, None
        assert agent is not None
        own, progress = self._progress, agent.progress
        self._ended.append(agent.told(Result(status="invalid", detail="a sub-agent is not judged")))
        own.new_tokens += progress.new_tokens
        own.think_tokens += progress.think_tokens
        said = progress.response or f"{ERROR}the sub-agent ended without a report ({progress.stop})"
        self._reports.append(self._delegation.shown(said))
        if progress.trouble:
            own.stop, own.trouble = "error", progress.trouble
