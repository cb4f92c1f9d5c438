"""The expression family: generator, world and verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ninefold.agent.env import candidate
from ninefold.agent.env.calls import refusal
from ninefold.agent.env.draw import draw
from ninefold.agent.env.expression import policies
from ninefold.agent.env.expression.content import AMBIGUOUS, FURTHER_INPUTS, HIDDEN_INPUTS, LEVEL_RULES, WORDINGS, Rule, Targets
from ninefold.agent.env.expression.execution import expression_value, function_fits
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import Observation, SandboxRuntime, ScriptedPolicy, Style, Tool
from ninefold.core.seeds import rng_of
from ninefold.core.types import Call, Domain, Limits, Result, Split, Task

RUN = Tool(name="run", description="Check the code against the task: right or wrong.", parameters={"code": "string"})

LIMITS = Limits(turns=9, new_tokens=330)


class ExpressionWorld:
    """Answers whether code is right. Every check has a fresh sandbox, so the world itself keeps nothing."""

    def __init__(self, task: Task, runtime: SandboxRuntime) -> None:
        self._task = task
        self._runtime = runtime

    def call(self, call: Call) -> Observation:
        """`run`: "right" or "wrong"; functions are tried on the examples only."""
        refused = refusal(call, (RUN,))
        if refused is not None:
            return Observation(text=refused)
        right = looks_right(self._task, call.arguments["code"], self._runtime)
        return Observation(text="right" if right else "wrong")

    def final(self, response: str | None) -> Mapping[str, Any]:
        return {"response": response}

    def save(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


def looks_right(task: Task, code: str, runtime: SandboxRuntime) -> bool:
    """Whether `code` hits the target, or fits the examples, when it is executed."""
    if task.level == 0:
        return expression_value(runtime, code) == task.data["hidden"]
    shown = task.data["shown"]
    return function_fits(runtime, code, shown["inputs"], shown["outputs"], candidate.tool_limits(task))


def is_right(task: Task, code: str, runtime: SandboxRuntime) -> bool:
    """Whether `code` hits the target, or is the rule for hidden inputs and all around its bend, when it is executed."""
    if task.level == 0:
        return expression_value(runtime, code) == task.data["hidden"]
    rule, hidden = policies.rule_of(task), task.data["hidden"]
    inputs = [*hidden["inputs"], *FURTHER_INPUTS]
    return function_fits(runtime, code, inputs, [*hidden["outputs"], *map(rule.value, FURTHER_INPUTS)])


class Expression:
    """Level 0 asks for an expression worth a target, levels 1 and 2 for a function that fits examples."""

    name = "expression"
    domain: Domain = "coding"
    levels = len(LEVEL_RULES)
    tools = (RUN,)
    isolated = True

    def generate(self, split: Split, level: int, seed: int) -> Task:
        """A task of the split; its key is the set of targets, or the rule with its constants."""
        rng = rng_of("expression wording", split, level, seed)
        instruction, shape, data = _target_task(rng, split, seed) if level == 0 else _rule_task(split, level, seed)
        return Task(
            id=f"expression/{split}/{level}/{seed}",
            domain="coding",
            family="expression",
            split=split,
            level=level,
            seed=seed,
            shape=f"expression/{shape}",
            instruction=instruction,
            tools=("run",),
            data=data,
            limits=LIMITS,
        )

    def open(self, task: Task, *, seed: int, runtime: SandboxRuntime | None = None) -> ExpressionWorld:
        if runtime is None:
            raise SandboxUnavailable("expression tasks execute code; give them a sandbox runtime")
        return ExpressionWorld(task, runtime)

    def restore(self, task: Task, saved: bytes, *, runtime: SandboxRuntime | None = None) -> ExpressionWorld:
        return self.open(task, seed=task.seed, runtime=runtime)

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        """Execute the response in a fresh sandbox against the hidden check."""
        response = final.get("response")
        if not isinstance(response, str) or not response.strip():
            return Result(status="fail", detail="nothing submitted")
        if runtime is None:
            return Result(status="invalid", detail="no sandbox runtime to judge in")
        try:
            right = is_right(task, response, runtime)
        except SandboxError as error:
            return Result(status="invalid", detail=str(error))
        return Result(status="pass", score=1.0) if right else Result(status="fail", detail="the hidden check disagrees")

    def observe(self, task: Task, final: Mapping[str, Any], seed: int, *, runtime: SandboxRuntime | None = None) -> Any:
        """What the expression is worth, or what the function returns for other inputs."""
        response = final.get("response")
        if not isinstance(response, str) or runtime is None:
            return response
        if task.level == 0:
            return expression_value(runtime, response)
        rng = rng_of("observe", task.id, seed)
        calls = [[rng.randint(-99, 99)] for _ in range(12)]
        return candidate.results(runtime, {"submitted.py": response}, "submitted", "f", calls)

    def gold(self, task: Task) -> ScriptedPolicy:
        return policies.gold(task)

    def demonstrate(self, task: Task, style: Style) -> ScriptedPolicy:
        return policies.demonstrate(task, style)

    def hacks(self, task: Task) -> Mapping[str, ScriptedPolicy]:
        return policies.hacks(task)

    def phrases(self) -> Sequence[str]:
        return (*dict.fromkeys(part for wording in WORDINGS for part in wording), "right", "wrong")


def _target_task(rng: Random, split: Split, seed: int) -> tuple[str, str, dict[str, Any]]:
    ambiguous = rng.random() < AMBIGUOUS
    before, between, after = rng.choice(WORDINGS)
    targets = draw(lambda r: Targets.draw(r, ambiguous=ambiguous), lambda t: t.key, split=split, names=("expression", 0, seed))
    instruction = before + between.join(map(str, targets.named)) + after
    return instruction, str(len(targets.named)), {"hidden": targets.hidden, "named": list(targets.named)}


def _rule_task(split: Split, level: int, seed: int) -> tuple[str, str, dict[str, Any]]:
    rule = draw(lambda r: Rule.draw(r, LEVEL_RULES[level]), lambda r: r.key, split=split, names=("expression", level, seed))
    shown = ", ".join(f"f({x})={rule.value(x)}" for x in rule.examples)
    data = {
        "rule": {"kind": rule.kind, "a": rule.a, "b": rule.b, "c": rule.c},
        "shown": _checks(rule, rule.examples),
        "hidden": _checks(rule, HIDDEN_INPUTS),
    }
    return f"f(x) is {rule.form} . {shown} . Write f .", rule.kind, data


def _checks(rule: Rule, inputs: Sequence[int]) -> dict[str, list[int]]:
    return {"inputs": list(inputs), "outputs": [rule.value(x) for x in inputs]}
