"""The hack suite: nobody is rewarded who did not solve the task, and a hole in a verifier is found."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env import families, family
from ninefold.agent.env.arithmetic import Arithmetic
from ninefold.agent.env.example import FAMILY as EXAMPLE
from ninefold.agent.env.example.family import Example
from ninefold.agent.env.expression.content import RULES
from ninefold.agent.env.hack import attack
from ninefold.agent.env.hack.catalogue import programs
from ninefold.agent.env.hack.code import functions, is_program, mutations
from ninefold.agent.env.hack.mutants import mutants
from ninefold.agent.env.repair.programs import FUNCTIONS, MODULES
from ninefold.agent.env.script import use
from ninefold.core.errors import UserError
from ninefold.core.protocols import Move, SandboxRuntime
from ninefold.core.types import Result, Task

from .conftest import LONG

SOURCES = [source for program in (*FUNCTIONS, *MODULES) for source in program.files.values()]
SOURCES = [source.replace("<a>", "3").replace("<b>", "4") for source in SOURCES]


@pytest.mark.parametrize("name", families())
def test_no_attack_succeeds(name: str, request: pytest.FixtureRequest) -> None:
    member = family(name)
    runtime = request.getfixturevalue("isolated") if member.isolated else None
    levels = [level for level in range(member.levels) if level not in LONG.get(name, ())]
    report = attack(member, levels=levels, seeds=1, mutants=12, runtime=runtime)
    assert report.successes == ()
    assert report.rate == 0.0
    assert report.failed > report.invalid, "a suite that judges nothing finds nothing"
    assert report.attacks >= len(levels) * 20
    assert report.mutants == report.failed + len(report.equivalent) >= 12


@pytest.mark.full
@pytest.mark.parametrize("name", families())
def test_no_attack_succeeds_in_many_tasks(name: str, request: pytest.FixtureRequest) -> None:
    member = family(name)
    runtime = request.getfixturevalue("isolated") if member.isolated else None
    report = attack(member, seeds=5, mutants=250, seed=1, runtime=runtime)
    assert report.successes == ()
    assert report.mutants >= 250


class Trusting(Example):
    """Looks only whether the thing lies where it belongs."""

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        places, thing = task.data["places"], task.data["thing"]
        right = final["places"][thing] == places[task.data["neighbour"]]
        return Result(status="pass", score=1.0) if right else Result(status="fail")


class Lenient(Arithmetic):
    """Takes an answer that holds the right digit somewhere."""

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        response = final["response"] or ""
        right = any(super(Lenient, self).verify(task, {"response": part}).status == "pass" for part in response.split())
        return Result(status="pass", score=1.0) if right else Result(status="fail")


class Broken(Arithmetic):
    """Takes nothing."""

    def verify(self, task: Task, final: Mapping[str, Any], *, runtime: SandboxRuntime | None = None) -> Result:
        return Result(status="fail", detail="no")


def test_holes_in_verifiers_are_found() -> None:
    assert any("moves everything there" in attempt.what for attempt in attack(Trusting(), seeds=2, mutants=0).successes)
    lenient = attack(Lenient(), seeds=1, mutants=30)
    assert any(attempt.what == "own: hedged" for attempt in lenient.successes)
    assert any(attempt.what == "hedged answer" and attempt.moves for attempt in lenient.successes)
    assert 0 < lenient.rate < 1
    with pytest.raises(UserError, match="gold does not pass arithmetic/dev/0/0"):
        attack(Broken())


def test_mutants_that_come_to_the_same_are_equivalent() -> None:
    report = attack(EXAMPLE, seeds=1, mutants=60)
    kinds = {attempt.what for attempt in report.equivalent}
    assert "answer withheld" in kinds
    assert "call 1 dropped" not in kinds
    assert report.failed > 0


@pytest.mark.parametrize("source", [*SOURCES, "2*5+3", "a if not x else -y", "x = [i for i in range(9) if i and 1 < i < 5]"])
def test_every_mutation_of_a_program_parses_and_changes_it(source: str) -> None:
    found = mutations(source)
    assert len({text for _, text in found}) == len(found) > 4
    for what, text in found:
        assert what
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(source))


def test_all_kinds_of_edits_are_made() -> None:
    kinds = {what.partition(":")[0] for source in SOURCES for what, _ in mutations(source)}
    expected = {"operator", "constant", "condition", "off by one", "variable", "statement dropped", "result", "argument"}
    assert kinds == {*expected, "sign or negation dropped"}


@given(st.text())
def test_any_text_can_be_mutated(text: str) -> None:
    assert isinstance(is_program(text), bool)
    assert all(mutated != text for _, mutated in mutations(text))


@given(st.text(min_size=1), st.integers(0, 9))
def test_mutants_differ_from_gold_and_from_each_other(text: str, seed: int) -> None:
    gold = (use("send", to="Ann", text=text), use("send", to="Bob", text="12.5 kg"), Move(response="done 3"))
    made = [moves for _, moves in mutants(gold, [(Move(response="other"),)], Random(seed), programs=True)]
    assert gold not in made
    assert len({repr(moves) for moves in made}) == len(made) > 8


def test_programs_of_the_catalogue_define_what_they_stand_for() -> None:
    rule = "def f(x): return " + RULES["line"][0].format(a=2, b=3)
    for name, source in programs(rule).items():
        compile(source, name, "exec")
        assert functions(source) in (["f"], []), name
