"""The visual family: generator and verifier."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

from ninefold.agent.env.draw import draw
from ninefold.agent.env.quiz import response_of
from ninefold.agent.env.visual import answer, figures, grounding, policies, puzzles, reading
from ninefold.agent.env.visual.question import PLURALS, QUARTERS, SIZES, Form, Question, file_of
from ninefold.agent.env.visual.world import TOOLS, VisualWorld
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Domain, Limits, Result, Split, Task
from ninefold.media.scene import Scene
from ninefold.media.shapes import SHAPES

Ask = Callable[[Random, int], Question]
KINDS: tuple[tuple[Ask, ...], ...] = (
    (reading.tile,),
    (reading.page, figures.chart, grounding.count, grounding.points),
    (figures.curve, figures.angle, grounding.boxes, grounding.mask, reading.turned),
    (puzzles.maze, puzzles.jigsaw, puzzles.difference, reading.page, figures.chart),
    (
        *(grounding.count, grounding.boxes, reading.turned, reading.page),
        *(figures.curve, puzzles.jigsaw, puzzles.difference, puzzles.maze),
    ),
)
"""Kinds of question by level."""
FORMS: Mapping[Form, str] = {
    "word": "Answer with it alone.",
    "text": "Answer with the text alone.",
    "number": "Answer with a whole number alone.",
    "boxes": "Answer with JSON alone: [[left, top, right, bottom], …] in pixels of the file.",
    "points": "Answer with JSON alone: [[x, y], …] in pixels of the file.",
    "polygon": "Answer with JSON alone: its corners in order, [[x, y], …] in pixels of the file.",
}
LOOKS = 8
"""Most image operations that an answer takes."""


class Visual:
    """A quarter of a tiny picture (level 0), small print, bars and crowds (1), figures, outlines and turned pages (2), puzzles
    (3), several pictures, each with more than one thing to look at (4). The first view of each is too small to tell."""

    name = "visual"
    domain: Domain = "general"
    levels = len(KINDS)
    tools = TOOLS
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is its first picture."""
        names = (self.name, level, seed)
        ask = rng_of(*names, split, "kind").choice(KINDS[level])
        question = draw(lambda rng: ask(rng, level), _content, split=split, names=names)
        assert len(question.looks) <= LOOKS, question.kind
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{question.kind}/{level}",
            instruction=question.asked if level == 0 else _instruction(question, level),
            tools=("code",) if level == 0 else tuple(tool.name for tool in TOOLS),
            data={
                "kind": question.kind,
                "form": question.form,
                "answer": question.answer,
                "options": list(question.options),
                "off": question.off,
                "looks": [asdict(look) for look in question.looks],
            },
            pictures=tuple(_first_view(scene, level) for scene in question.scenes),
            limits=Limits(turns=3, new_tokens=96, context=384)
            if level == 0
            else Limits(turns=8 + 4 * level, new_tokens=4_096 * level, context=8_192 * level, tool_seconds=5.0),
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> VisualWorld:
        return VisualWorld(task, runtime)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> VisualWorld:
        return VisualWorld(task, runtime, saved)

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """The agreement of the answer with the truth, by its form."""
        form, wanted = task.data["form"], task.data["answer"]
        given = answer.parsed(form, response_of(final))
        if given is None:
            return Result(status="fail", detail=f"no answer of the form {form}")
        agreed = answer.agreement(form, given, wanted, off=task.data["off"], side=SIZES[task.level].side)
        if answer.passes(form, agreed):
            return Result(status="pass", score=min(1.0, agreed))
        detail = f"agreement {agreed:.2f} with {policies.written(form, wanted)[:80]}"
        return Result(status="fail", score=agreed if agreed > answer.HALF else 0.0, detail=detail)

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What the answer says, of places what it hits."""
        form = task.data["form"]
        given = answer.parsed(form, response_of(final))
        return answer.meant(form, given, task.data["answer"], off=task.data["off"], side=SIZES[task.level].side)

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        """Of level 0."""
        side, half = SIZES[0].side, SIZES[0].side // 2
        sizes = [f"image {n}x{n}" for n in (side // SIZES[0].shrink, half)]
        asked = ["How many ", " are ", "Which digit is ", "Which shape is ", reading.AT]
        return [*asked, *SHAPES, *PLURALS.values(), *QUARTERS, 'look("', '")', *sizes]


def _content(question: Question) -> str:
    """The first picture alone: where it belongs the others do too."""
    return json.dumps(question.scenes[0], sort_keys=True)


def _first_view(scene: Scene, level: int) -> dict[str, Any]:
    """What the policy is shown of a picture: all of it, smaller."""
    width, height = (scene.get(name, SIZES[level].side) for name in ("width", "height"))
    shrink = SIZES[level].shrink
    return {"kind": "view", "of": scene, "width": max(1, width // shrink), "height": max(1, height // shrink)}


def _instruction(question: Question, level: int) -> str:
    files = ", ".join(file_of(number) for number in range(len(question.scenes)))
    they_are = "it is" if len(question.scenes) == 1 else "they are"
    seen = f"You see {files} {SIZES[level].shrink} times smaller than {they_are}; look closer."
    return f"{question.asked} {FORMS[question.form]} {seen}"
