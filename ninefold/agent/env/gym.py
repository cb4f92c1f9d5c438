"""Tasks of the public package `reasoning-gym`: its generators, its scorers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import create_dataset

from ninefold.agent.env.draw import draw
from ninefold.agent.env.quiz import Quiz, response_of, say
from ninefold.core.errors import NinefoldError, VerifierError, boundary
from ninefold.core.protocols import SandboxRuntime, ScriptedPolicy, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import Limits, Result, Split, Task

DATASETS: dict[str, tuple[dict[str, Any], ...]] = {
    "chain_sum": (
        {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1},
        {"min_terms": 3, "max_terms": 4, "min_digits": 1, "max_digits": 2},
        {"min_terms": 4, "max_terms": 6, "min_digits": 2, "max_digits": 4},
    ),
    "gcd": ({"max_value": 30}, {"max_value": 200}, {"min_numbers": 3, "max_numbers": 3, "max_value": 1000}),
    "lcm": ({"min_value": 2, "max_value": 20}, {"max_value": 60}, {"max_value": 300}),
    "leg_counting": (
        {"min_animals": 1, "max_animals": 2, "max_instances": 3},
        {"min_animals": 2, "max_animals": 4, "max_instances": 6},
        {"min_animals": 4, "max_animals": 10, "max_instances": 15},
    ),
    "letter_counting": ({"min_words": 2, "max_words": 4}, {"min_words": 5, "max_words": 9}, {"min_words": 10, "max_words": 20}),
    "count_bits": ({"max_n": 255}, {"max_n": 65_535}, {"max_n": 2**31 - 1}),
    "number_sorting": (
        {"min_numbers": 3, "max_numbers": 3, "max_decimals": 0},
        {"min_numbers": 3, "max_numbers": 6, "max_decimals": 1},
        {"min_numbers": 6, "max_numbers": 12, "max_decimals": 2},
    ),
    "family_relationships": (
        {"min_family_size": 3, "max_family_size": 4},
        {"min_family_size": 4, "max_family_size": 6},
        {"min_family_size": 6, "max_family_size": 9},
    ),
}
"""Generator → its configuration by level. Left out: generators whose answer one guess in two gets right, and those whose scorer
evaluates the answer as code."""
LAX = ("number_sorting",)
"""Generators whose scorer takes numbers that are off by up to one: their answers must hold the very numbers."""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_LONGEST = 2_000
"""Characters of an answer that a scorer is given."""


class Gym(Quiz):
    """One of several third-party generators, drawn by seed; only its scorer's full marks pass, part marks count nothing."""

    name = "gym"
    levels = 3
    datasets: tuple[str, ...] = tuple(DATASETS)

    def generate(self, split: Split, level: int, seed: int) -> Task:
        names = (self.name, level, seed)
        dataset = rng_of(*names, split, "dataset").choice(self.datasets)
        entry = draw(lambda rng: _entry(dataset, level, rng), lambda entry: entry["question"], split=split, names=names)
        return Task(
            id=f"{self.name}/{split}/{level}/{seed}",
            domain=self.domain,
            family=self.name,
            split=split,
            level=level,
            seed=seed,
            shape=f"{self.name}/{dataset}/{level}",
            instruction=entry["question"],
            data={"dataset": dataset, "entry": entry},
            limits=Limits(turns=3, new_tokens=256, context=1024),
            provenance="reasoning-gym",
        )

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        given = response_of(final)
        if not 0 < len(given) <= _LONGEST:
            return Result(status="fail", detail=f"an answer has 1 to {_LONGEST} characters, this one {len(given)}")
        score, problem = _score(task, given)
        if score == 1.0:
            if task.data["dataset"] in LAX and _numbers(given) != _numbers(task.data["entry"]["answer"]):
                return Result(status="fail", detail="the numbers are not those that were given")
            return Result(status="pass", score=1.0)
        # Several scorers hide what goes wrong in them: only one that knows the right answer may say that this one is not.
        reference, problem_with_reference = _score(task, task.data["entry"].get("answer"))
        if reference != 1.0:
            return Result(status="invalid", detail=f"the right answer scored {reference:.3g} {problem_with_reference}".strip())
        return Result(status="fail", detail=f"scored {score:.3g} {problem}".strip())

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """The answer, its numbers in one form."""
        return _NUMBER.sub(lambda found: repr(float(found[0])), response_of(final))

    def gold(self, task: Task) -> ScriptedPolicy:
        return say(task.data["entry"]["answer"])

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        """Low answers at once, high copies what is asked about, max copies and concludes. A slip answers another task."""
        rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
        response = task.data["entry"]["answer"]
        if rng.random() < style.slip:
            response = _entry(task.data["dataset"], task.level, rng)["answer"]
        matter = task.instruction.rstrip().splitlines()[-1].rpartition(": ")[2]
        think = {"low": "", "high": matter, "max": f"{matter} {response}"}[style.effort]
        return say(response, think)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        wanted = task.data["entry"]["answer"]
        return {
            "hedged": say(f"{wanted} or not {wanted}"),
            "question": say(task.instruction),
            "code": say("__import__('os').system('true') or " + wanted),
            "nested": say("[" * 1_500 + wanted),
            "huge number": say(f"1e{'9' * 40}"),
            "wall of text": say(" ".join([wanted] * 2_000)),
            "answer in thinking only": say(None, wanted),
        }

    def phrases(self) -> Sequence[str]:
        return []


class ChainSum(Gym):
    """Sums and differences alone."""

    name = "chain_sum"
    datasets = ("chain_sum",)

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task costs what its number of terms makes it cost."""
        task = super().generate(split, level, seed)
        return replace(task, shape=f"{self.name}/{len(_signed(task.instruction))}")

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        """Low answers at once, high writes the running sums, max every step. A slip gets one step wrong."""
        rng = rng_of(task.id, "demonstrate", style.effort, style.seed)
        first, *steps = _signed(task.instruction)
        slip = rng.randrange(len(steps)) if rng.random() < style.slip else -1
        total, written = first, list[str]()
        for n, step in enumerate(steps):
            before, total = total, total + step + (rng.choice((-2, -1, 1, 2)) if n == slip else 0)
            written.append(f"{before}{step:+}={total}" if style.effort == "max" else str(total))
        return say(str(total), "" if style.effort == "low" else ", ".join(written))


def _signed(question: str) -> list[int]:
    """The terms of `… 4 + 3 - 8 =`, signs included."""
    expression = question.rpartition(":")[2].replace(" ", "")
    return [int(term) for term in re.findall(r"[+-]?\d+", expression)]


def _entry(dataset: str, level: int, rng: Random) -> dict[str, Any]:
    """A question, its answer and what the scorer needs, as JSON."""
    generator = create_dataset(dataset, seed=rng.getrandbits(31), size=1, **DATASETS[dataset][level])
    return json.loads(json.dumps(generator[0]))


def _numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


@cache
def _scorer(dataset: str, level: int) -> ProceduralDataset:
    return create_dataset(dataset, seed=0, size=1, **DATASETS[dataset][level])


def _score(task: Task, answer: str | None) -> tuple[float, str]:
    """(the package's own score in [0, 1], what broke in its scorer): 0 where something did."""
    problems: list[NinefoldError] = []
    with boundary(VerifierError, "the scorer broke", catch=problems.append):
        score = float(_scorer(task.data["dataset"], task.level).score_answer(answer, task.data["entry"]))
        if 0.0 <= score <= 1.0:
            return score, ""
        raise VerifierError(f"the scorer gave {score}")
    return 0.0, str(problems[0])
