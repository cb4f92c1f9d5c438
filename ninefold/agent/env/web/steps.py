"""What a check does at a page and what it wants to see, as data; and the comparison of what was seen with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ninefold.agent.env.web.likeness import alike

LOOKS = ("see", "title", "read", "boxes", "ask", "portrait")
"""What brings something to be compared."""
BAR_ERROR = 0.03
"""Of the tallest bar: how far a bar's height may be from its share."""
PIXEL_ERROR = 2.0
"""Of the bars' common ground line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a person does at a page, or looks at."""

    do: str
    """click, type, press, choose, reload, open (a new tab), client (another person), cut (the network), restart (the server);
    see (visible texts), title, read (an attribute), boxes, ask (the server, without a page), portrait (picture, structure)."""
    at: str = ""
    """CSS selector."""
    text: str = ""
    """What is typed, pressed or chosen; who comes; `off` or `on`; attribute; method and path."""
    body: Any = None
    """JSON of a request; the HTML of the page that a portrait is compared with."""
    want: Any = None
    """What should be seen: equal JSON; of boxes the numbers that they stand for."""

    @property
    def order(self) -> dict[str, Any]:
        """What the driver is told: everything but what is wanted."""
        given = {"do": self.do, "at": self.at, "text": self.text, "body": self.body}
        return {key: value for key, value in given.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a script."""

    seen: Sequence[Any]
    """One for each step that looks, up to the fault."""
    fault: str | None
    """What no page may do and this one did."""


def do(what: str, at: str = "", text: str = "") -> Step:
    return Step(do=what, at=at, text=text)


def click(at: str) -> Step:
    return Step(do="click", at=at)


def enter(at: str, text: str) -> Step:
    return Step(do="type", at=at, text=text)


def see(at: str, *want: str) -> Step:
    """The texts of all elements that match and show any, in their order."""
    return Step(do="see", at=at, want=list(want))


def ask(request: str, status: int, want: Any, body: Any = None) -> Step:
    return Step(do="ask", text=request, body=body, want=[status, want])


def wrong(steps: Sequence[Step], played: Played) -> str | None:
    """The first thing that is not as wanted; None where all is."""
    looks = [(number, step) for number, step in enumerate(steps, 1) if step.do in LOOKS]
    for (number, step), seen in zip(looks, played.seen):
        if (problem := _differs(step, seen)) is not None:
            return f"step {number} ({step.do} {step.at}{step.text}): {problem}"
    if played.fault is not None:
        return played.fault
    if len(looks) != len(played.seen):
        return "not everything was looked at"
    return None


def observed(steps: Sequence[Step], played: Played) -> list[Any]:
    """What a script comes to: texts and answers as they are; of shapes, and of answers whose body no brief asks for, whether
    they are as wanted."""
    looks = [step for step in steps if step.do in LOOKS]

    def loose(step: Step) -> bool:
        return step.do in ("boxes", "portrait") or (step.do == "ask" and step.want[1] is None)

    told = [_differs(step, seen) if loose(step) else seen for step, seen in zip(looks, played.seen)]
    return [*told, played.fault]


def _differs(step: Step, seen: Any) -> str | None:
    match step.do:
        case "boxes":
            return _no_bars(seen, step.want)
        case "portrait":
            return alike(*seen)
        case "ask" if step.want[1] is None:
            return None if seen[0] == step.want[0] else f"status {seen[0]}, not {step.want[0]}"
        case _:
            return None if seen == step.want else f"{str(seen)[:120]}, not {str(step.want)[:120]}"


def _no_bars(boxes: Sequence[Sequence[int]], values: Sequence[int]) -> str | None:
    """Why these boxes are no bars of these values: side by side on one line, as high as the values are large."""
    if len(boxes) != len(values):
        return f"{len(boxes)} bars, not {len(values)}"
    highest = max(height for _, _, _, height in boxes)
    if highest < 20:
        return "the bars are too small to be seen"
    grounds = [y + height for _, y, _, height in boxes]
    if max(grounds) - min(grounds) > PIXEL_ERROR:
        return "the bars stand on no common line"
    ends = [(x, x + width) for x, _, width, _ in boxes]
    if any(after[0] < before[1] - 1 for before, after in pairwise(ends)):
        return "the bars are not side by side, in order"
    for value, (_, _, _, height) in zip(values, boxes):
        if abs(height / highest - value / max(values)) > BAR_ERROR:
            return f"the bar of {value} is {height} high where that of {max(values)} is {highest}"
    return None
