"""Scripted policies written as generators."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ninefold.core.protocols import Move, Observation, ScriptedPolicy
from ninefold.core.types import Call

Steps = Generator[Move, Sequence[Observation], None]
"""Yields moves; is sent what the move's calls returned."""


class Script:
    """Plays a generator of moves; where it ends without an answer the answer is empty."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._started = False

    def move(self, observations: Sequence[Observation]) -> Move:
        """The next turn, given what the last turn's calls returned ([] at first)."""
        try:
            if self._started:
                return self._steps.send(observations)
            self._started = True
            return next(self._steps)
        except StopIteration:
            return Move(response="")


def use(tool: str, /, think: str = "", **arguments: str) -> Move:
    """A move of one tool call."""
    return Move(think=think, calls=(Call(tool=tool, arguments=arguments),))


def plays(*moves: Move) -> Script:
    """A policy that makes these moves, whatever it sees."""

    def steps() -> Steps:
        for move in moves:  # noqa: UP028  (what a tuple yields takes no `send`)
            yield move

    return Script(steps())


def answers(response: str) -> Script:
    """A policy that says something and does nothing."""
    return plays(Move(response=response))


class Recorder:
    """Plays a policy and keeps its moves."""

    def __init__(self, policy: ScriptedPolicy) -> None:
        self._policy = policy
        self.moves: list[Move] = []

    def move(self, observations: Sequence[Observation]) -> Move:
        """The policy's next turn."""
        self.moves.append(self._policy.move(observations))
        return self.moves[-1]
