"""What the calls of a message come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from ninefold.agent.harness.agents import Agent, Agents
from ninefold.agent.harness.compose import ERROR, AnyHarness
from ninefold.agent.harness.delegation import TOOLS
from ninefold.agent.harness.rules import key_of
from ninefold.core.protocols import Observation, ParsedMessage, Tool
from ninefold.core.types import Call, Turn


class Execution(Generic[Agent]):
    """Executes calls in order, in the world or by sub-agents; while these are at work the rest waits."""

    def __init__(
        self,
        *,
        harness: AnyHarness,
        tools: Sequence[Tool],
        call: Callable[[Call], Observation],
        agents: Agents[Agent],
        observations: Sequence[Observation] = (),
    ) -> None:
        """`call` executes one in the world; `observations` are those of the message whose calls are being executed."""
        self._harness, self._tools, self._call = harness, tools, call
        self.agents = agents
        self.observations = tuple(observations)
        """What the last message's calls returned, those that were executed."""

    @property
    def submission(self) -> str | None:
        """The answer, where the last call handed one in."""
        return self._harness.submission(self.observations[-1]) if self.observations else None

    def canonical(self, message: ParsedMessage) -> list[Call]:
        """The message's calls in canonical names, those that cannot be dispatched with their error."""
        return [self._harness.to_world(call, self._tools) for call in message.calls]

    def carry_on(self, message: ParsedMessage) -> bool:
        """Execute the message's calls from the first without a result up to one that hands in an answer; False while
        sub-agents are at work."""
        calls = self.canonical(message)
        for number in range(len(self.observations), len(calls)):
            observation = self._seen(calls, number) or self._dispatch(calls[number], number)
            if observation is None:
                return False
            self.observations += (observation,)
            if self.submission is not None:
                break
        return True

    def turn(self, message: ParsedMessage, before: Sequence[Turn]) -> Turn:
        """The message with its results as the policy sees them, and with what is said of calls like those of turns `before`."""
        pairs = zip(message.calls, self.observations)
        results = tuple(self._harness.observation(call, observation, self._tools) for call, observation in pairs)

        def told(*observations: str) -> Turn:
            return Turn(think=message.think, response=message.response, calls=message.calls, observations=observations)

        reminder = self._harness.reminder([*before, told(*results)])
        return told(*results[:-1], f"{results[-1]}\n\n{reminder}") if reminder else told(*results)

    def _seen(self, calls: Sequence[Call], number: int) -> Observation | None:
        """What an equal call of the message returned, where equal ones are executed once."""
        if not self._harness.once:
            return None
        return {key_of(call): seen for call, seen in zip(calls, self.observations)}.get(key_of(calls[number]))

    def _dispatch(self, call: Call, number: int) -> Observation | None:
        """Execute call `number` of a message; None while sub-agents are at work for it. What cannot be dispatched is answered
        by an error under the same index."""
        if call.error is not None:
            return Observation(text=ERROR + call.error)
        if any(call.tool == tool.name for tool in TOOLS):
            return self.agents.delegate(call, number)
        return self._call(call)
