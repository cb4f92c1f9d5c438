"""The rules of a loop: how it ends, what counts as an error of form, and what is said of repeated calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ninefold.core.protocols import Observation, ParsedMessage
from ninefold.core.types import Call, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """What happens to a policy that makes the same call again and again."""

    remind: tuple[int, ...]
    """Numbers of equal calls at which it is told."""
    stop: int = 0
    """Number at which the episode ends; 0: never."""
    history: int = 0
    """Equal calls count within so many last ones; 0: only those without another in between."""
    failures: bool = False
    """Whether only calls that failed count."""
    text: str = "This is the same call for the {count}th time in a row. Try something else."
    """The reminder, behind the result."""

    def repeats(self, turns: Sequence[Turn]) -> int:
        """How often the last call was made, once a turn."""
        calls = [keys for turn in turns if (keys := self._keys(turn))]
        if not calls:
            return 0
        last = calls[-1][-1]
        if self.history:
            return sum(last in keys for keys in calls[-self.history :])
        count = 0
        for keys in reversed(calls):
            if last not in keys or len(keys) > 1:
                return count + (last in keys)
            count += 1
        return count

    def reminder(self, repeats: int) -> str:
        """What is said at that number; empty where nothing is."""
        return self.text.format(count=repeats) if repeats in self.remind else ""

    def _keys(self, turn: Turn) -> list[str]:
        """The turn's calls, equal ones once."""
        pairs = zip(turn.calls, turn.observations)
        return list(dict.fromkeys(key_of(call) for call, text in pairs if not self.failures or text.startswith("error")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How an episode goes on and ends."""

    turns: int = 0
    """Assistant messages; 0: as many as the task allows."""
    sentinel: str = ""
    """A shell command that succeeds and prints this first ends the episode; what follows it is the answer."""
    format_errors: int = 0
    """So many messages in a row without a proper call end the episode. 0: a message without calls is the answer, and a bad
    call is answered by an error."""
    reprimand: str = "{error}"
    """What is said, as a user, to such a message, which is dropped from the history."""
    ladder: Ladder | None = None
    once: bool = False
    """Whether equal calls of one message are executed once."""

    def error(self, message: ParsedMessage, bad: Sequence[str | None]) -> str:
        """The error of form of a message whose calls have these errors; empty where it has none or none is sought."""
        if not self.format_errors:
            return ""
        if not message.calls:
            return self.reprimand.format(error="The message calls no tool; each one has to.")
        first = next(filter(None, bad), None)
        return self.reprimand.format(error=f"The call cannot be made: {first}.") if first else ""

    def submission(self, observation: Observation) -> str | None:
        """The answer, where the observation hands one in."""
        data = observation.data
        if not self.sentinel or data is None or data.get("exit_code") != 0:
            return None
        lines = str(data.get("output", "")).lstrip().splitlines(keepends=True)
        return "".join(lines[1:]) if lines and lines[0].strip() == self.sentinel else None

    def finished(self, message: ParsedMessage, turns: int) -> bool:
        """Whether `message`, the `turns`-th, is the last one."""
        return (not message.calls and not self.format_errors) or bool(self.turns and turns >= self.turns)


def key_of(call: Call) -> str:
    """Equal for equal calls."""
    return call.tool + json.dumps(call.arguments, sort_keys=True, default=str)
