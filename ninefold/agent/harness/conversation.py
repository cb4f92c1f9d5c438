"""What is done about each message: acted on, refused, taken as a summary, or cut off by a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic

from ninefold.agent.harness.agents import Agent
from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.context import Exchange
from ninefold.agent.harness.execution import Execution
from ninefold.agent.harness.history import History
from ninefold.agent.harness.progress import Progress
from ninefold.core.protocols import ChatFormat, ParsedMessage
from ninefold.core.types import Limits, Segment, StopReason, Turn
from ninefold.media.png import from_png


class Conversation(Generic[Agent]):
    """Goes on, message after message, until something stops it, which `progress` says."""

    def __init__(
        self,
        *,
        limits: Limits,
        harness: AnyHarness,
        chat: ChatFormat,
        history: History,
        execution: Execution[Agent],
        progress: Progress,
    ) -> None:
        self._limits, self._harness, self._chat = limits, harness, chat
        self._history, self._execution, self._progress = history, execution, progress

    @property
    def room(self) -> int:
        """Tokens that may still be generated in this row."""
        limits = self._limits
        return min(limits.new_tokens - self._progress.new_tokens, limits.context - self._history.tokens)

    def begin(self, prompt: Sequence[Segment] | None = None) -> None:
        """Open it; `prompt` is the rendering of what opens it, where there is one already."""
        self._history.begin(prompt)
        self.check_limits()

    def act(self) -> None:
        """The message in progress is whole: have its calls executed, then stop or ask for the next one."""
        progress, message = self._progress, self._message()
        progress.think_tokens += message.think_tokens
        progress.response = message.response
        progress.malformed = progress.malformed or next(iter(message.problems), "")
        if self._history.standing.summarising:
            self._summarised(message)
            return
        refusal = self._harness.refusal(message, [call.error for call in self._execution.canonical(message)])
        self._execution.observations = ()
        if refusal:
            self._refuse(message, refusal)
        else:
            progress.refused = 0
            self.execute()

    def execute(self) -> None:
        """Execute those calls of the whole message that were not yet; while sub-agents are at work the rest waits."""
        message = self._message()
        if self._execution.carry_on(message):
            self._executed(message)

    def go_on(self, note: str) -> None:
        """Ask for another message, by a note behind the last one."""
        self._follow(Exchange(sampled=self._history.message, calls=(), results=(), notes=(note,)))

    def check_limits(self) -> None:
        """Stop where nothing may be generated any more."""
        if self._progress.stop is None and self.room <= 0:
            self.run_out()

    def run_out(self) -> None:
        """Stop at the limit that is reached."""
        self.truncate("tokens" if self._progress.new_tokens >= self._limits.new_tokens else "context")

    def truncate(self, stop: StopReason) -> None:
        """End it here. A message in progress is kept as a turn of which nothing is dispatched."""
        progress, agents = self._progress, self._execution.agents
        if agents.at_work is not None:
            agents.at_work.truncate(stop)
            agents.dismiss()
            progress.turns.append(self._execution.turn(self._message(), progress.turns))
        elif self._history.message:
            message = self._message()
            progress.think_tokens += message.think_tokens
            progress.turns.append(_without_calls(message))
            progress.response = None
        progress.stop = stop

    def _message(self) -> ParsedMessage:
        return self._chat.parse(self._history.message_ids)

    def _summarised(self, message: ParsedMessage) -> None:
        """The summary is there, and is no response."""
        self._progress.turns.append(_without_calls(message))
        self._progress.response = None
        self._history.summarise(message.response or "")
        self.check_limits()

    def _refuse(self, message: ParsedMessage, refusal: str) -> None:
        """A message of bad form leaves the history, where patience is not at its end."""
        progress = self._progress
        progress.refused += 1
        progress.turns.append(_without_calls(message))
        if progress.refused >= self._harness.patience:
            progress.stop = "form"
        elif self._last(message):
            progress.stop = "turns"
        else:
            self._history.refuse(refusal)
            self.check_limits()

    def _executed(self, message: ParsedMessage) -> None:
        """All calls of a message have their results: stop, or ask for the next one."""
        progress, execution = self._progress, self._execution
        turn = execution.turn(message, progress.turns)
        progress.turns.append(turn)
        if progress.stop is not None:
            return
        if execution.submission is not None:
            progress.response, progress.stop = execution.submission, "answered"
        elif not message.calls or any(observation.done for observation in execution.observations):
            progress.stop = "answered"
        elif self._last(message):
            progress.stop = "turns"
        elif self._harness.stuck(progress.turns):
            progress.stop = "loop"
        else:
            seen = tuple(tuple(map(from_png, observation.images)) for observation in execution.observations)
            pictures, sampled = seen if any(seen) else (), self._history.message
            progress.turns[-1] = replace(turn, pictures=tuple(tuple(picture.hash for picture in some) for some in pictures))
            self._follow(Exchange(sampled=sampled, calls=message.calls, results=turn.observations, pictures=pictures))

    def _last(self, message: ParsedMessage) -> bool:
        """Whether no further message is asked for behind this one, that of the last turn."""
        turns = len(self._progress.turns)
        return self._harness.finished(message, turns) or turns >= self._limits.turns

    def _follow(self, exchange: Exchange) -> None:
        """Go on behind the results; stop where they do not fit."""
        if self._history.follow(exchange):
            self.check_limits()
        else:
            self._progress.stop = "context"


def _without_calls(message: ParsedMessage) -> Turn:
    return Turn(think=message.think, response=message.response, calls=(), observations=())
