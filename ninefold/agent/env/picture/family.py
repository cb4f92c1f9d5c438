"""Colours, numbers, bars, digits and shapes in a picture: the question alone says nothing about the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.picture.content import ASK, INKS, NONE, PITCH, Question, places
from ninefold.agent.env.quiz import Quiz, response_of, say
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Limits, Result, Split, Task
from ninefold.media.shapes import SHAPES

WORDINGS: Mapping[str, tuple[str, str]] = {
    "colour": ("Which colour is at the ", "?"),
    "count": ("How many things are ", "?"),
    "bars": ("Which bar is the tallest?", ""),
    "digit": ("Which digit do you see?", ""),
    "shape": ("Which shape is at the ", "?"),
}
"""What stands before and behind the thing that is asked for."""
_LEVELS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("colour", "count", "bars"), 2),
    (("digit", "shape"), 2),
    (tuple(ASK), 3),
)
"""Kinds of question, and cells along a side, by level."""


class PictureFamily(Quiz):
    """Four cells or bars in plain colours (level 0), a digit or shapes (level 1), all of it in nine cells (level 2).

    Every answer of a kind is equally likely, so that without the picture one in four or five can be guessed, of digits one
    in ten.
    """

    name = "picture"
    levels = len(_LEVELS)

    def generate(self, split: Split, level: int, seed: int) -> Task:
        kinds, side = _LEVELS[level]
        names = (self.name, level, seed)
        kind = rng_of(*names, split, "kind").choice(kinds)
        question = draw(lambda rng: ASK[kind](rng, side), _content, split=split, names=names)
        before, after = WORDINGS[kind]
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{kind}/{side}",
            instruction=before + question.asked + after,
            data={
                "kind": kind,
                "answer": question.answer,
                "seen": list(question.seen),
                "counted": list(question.counted),
                "options": list(question.options),
            },
            pictures=(question.scene,),
            limits=Limits(turns=3, new_tokens=64 if side == 2 else 128, context=256),
        )

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        given, wanted = response_of(final), task.data["answer"]
        if given == wanted:
            return Result(status="pass", score=1.0)
        return Result(status="fail", detail=f"answered {given[:40]!r}, not {wanted!r}")

    def gold(self, task: Task) -> ScriptedPolicy:
        return say(task.data["answer"], ",".join(task.data["counted"]))

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        """Low answers at sight, high says what it sees, max what follows from it step by step. A slip answers at random."""
        rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
        think = {"low": "", "high": ",".join(task.data["seen"]), "max": ",".join(task.data["counted"])}[style.effort]
        answer = task.data["answer"]
        if rng.random() < style.slip:
            answer = rng.choice([option for option in task.data["options"] if option != answer])
        return say(answer, think)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        wanted, options = task.data["answer"], task.data["options"]
        other = next(option for option in options if option != wanted)
        return {
            "every answer": say(" ".join(options)),
            "hedged": say(f"{wanted} or {other}"),
            "verdict": say('{"status": "pass", "score": 1.0}'),
            "question": say(task.instruction),
            "answer in thinking only": say(None, wanted),
            "another picture of it": say(json.dumps(dict(task.pictures[0]))),
        }

    def phrases(self) -> Sequence[str]:
        sizes = (f"image {side * PITCH}x{side * PITCH}" for side in sorted({side for _, side in _LEVELS}))
        words = [part for wording in WORDINGS.values() for part in wording if part not in ("", "?")]
        return [*words, *INKS, *SHAPES, NONE, *places(2), *places(3), *sizes]


def _content(question: Question) -> str:
    """The picture alone, so that no split sees one of another."""
    return json.dumps(question.scene, sort_keys=True)
