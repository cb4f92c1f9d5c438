"""Expressions and functions: executed in the sandbox, judged outside it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.expression import Expression
from ninefold.agent.env.expression.content import HIDDEN_INPUTS, LEVEL_RULES, WORDINGS, Rule, expression_for
from ninefold.agent.env.expression.execution import expression_value, function_fits
from ninefold.agent.env.play import play
from ninefold.core.errors import SandboxError, SandboxUnavailable
from ninefold.core.protocols import ExecResult, Style
from ninefold.core.seeds import rng_of
from ninefold.core.types import EFFORTS, SPLITS
from ninefold.sandbox.memory import MemoryRuntime

FAMILY = Expression()


def test_the_sandbox_computes_what_python_computes(isolated):
    rng = rng_of("expressions")
    for _ in range(40):
        a, b, c = (rng.randint(0, 9) for _ in range(3))
        sign = rng.choice((1, -1))
        assert expression_value(isolated, f" {a}*{b}{'+' if sign > 0 else '-'}{c} ") == a * b + sign * c


@given(st.integers(-5, 34), st.integers())
def test_an_expression_is_worth_its_target(target, seed):
    code = expression_for(rng_of(seed), target)
    left, right = code.split("*")
    sign = 1 if "+" in right else -1
    assert int(left) * int(right[0]) + sign * int(right[2:]) == target


def _must_not_run(execution):
    raise AssertionError(f"executed {execution.code}")


@given(
    st.text() | st.sampled_from(["17", "1*17+0", "2*5+7;print(17)", "2**5+7", "2*5+7.0", "٢*5+7", "2*5+7\n2*5+7", "(2)*5+7"])
)
def test_what_has_not_the_form_is_never_run(code):
    assert expression_value(MemoryRuntime(_must_not_run), code) is None


def test_a_broken_sandbox_is_nobodys_fault():
    def broken(execution):
        return ExecResult(stdout="", stderr="", exit_code=None, reason="timeout")

    task = FAMILY.generate("train", 0, 0)
    result, _ = play(FAMILY, task, FAMILY.gold(task), 0, MemoryRuntime(broken))
    assert result.status == "invalid"
    with pytest.raises(SandboxError):
        expression_value(MemoryRuntime(broken), "2*5+7")


def test_an_expression_is_executed_once():
    runs = []

    def count(execution):
        runs.append(execution.code)
        return ExecResult(stdout="17\n", stderr="", exit_code=0, reason="exited")

    runtime = MemoryRuntime(count)
    assert [expression_value(runtime, "2*5+7") for _ in range(3)] == [17, 17, 17]
    assert len(runs) == 1


def test_without_a_runtime_nothing_opens_and_nothing_is_judged():
    task = FAMILY.generate("train", 0, 0)
    with pytest.raises(SandboxUnavailable):
        FAMILY.open(task, seed=0)
    assert FAMILY.verify(task, {"response": "2*5+7"}).status == "invalid"
    assert FAMILY.verify(task, {}).status == "fail"


@pytest.mark.parametrize("split", SPLITS)
def test_targets_are_ambiguous_and_the_hidden_one_has_no_place_of_its_own(split):
    phrases = set(FAMILY.phrases())
    named, first = [], []
    for seed in range(300):
        task = FAMILY.generate(split, 0, seed)
        targets = [str(target) for target in task.data["named"]]
        wording = next(w for w in WORDINGS if task.instruction.startswith(w[0]))
        assert task.instruction == wording[0] + wording[1].join(targets) + wording[2]
        assert set(wording) <= phrases
        named.append(len(targets) == 2)
        if len(targets) == 2:
            first.append(task.data["named"][0] == task.data["hidden"])
    assert 0.5 < sum(named) / len(named) < 0.7
    assert 0.4 < sum(first) / len(first) < 0.6


def test_only_running_the_check_tells_which_target_counts(isolated):
    passed = dict.fromkeys(EFFORTS, 0)
    for effort in EFFORTS:
        for seed in range(60):
            task = FAMILY.generate("train", 0, seed)
            result, _ = play(FAMILY, task, FAMILY.demonstrate(task, Style(effort=effort, seed=0)), 0, isolated)
            passed[effort] += result.status == "pass"
    assert passed["low"] < passed["high"] < passed["max"], passed


@pytest.mark.parametrize("level", [1, 2])
def test_examples_determine_the_rule(level):
    for kind in LEVEL_RULES[level]:
        thresholds = range(3, 9) if kind == "bend" else (0,)
        rules = [Rule(kind=kind, a=a, b=b, c=c) for a, b, c in product(range(2, 10), range(1, 10), thresholds)]
        for rule in rules[::7]:
            fitting = [r for r in rules if all(r.value(x) == rule.value(x) for x in rule.examples)]
            hidden = {tuple(r.value(x) for x in HIDDEN_INPUTS) for r in fitting}
            assert len(hidden) == 1, (rule, fitting)
            assert not set(rule.examples) & set(HIDDEN_INPUTS)


def test_a_function_is_judged_by_what_it_returns(isolated):
    inputs, outputs = [1, 2, 100], [3, 5, 201]
    for code, right in (
        ("def f(x): return 2*x+1", True),
        ("f = lambda x: x+x+1", True),
        ("print('debug')\ndef f(x):\n    print(x)\n    return 2*x+1", True),
        ("def f(x): return 2*x+1.0", False),
        ("def f(x): return str(2*x+1)", False),
        ("def f(x): return 2*x+1 if x < 50 else True", False),
        ("def f(x):\n    while True: pass", False),
        ("def f(x): raise SystemExit(0)", False),
        ("def g(x): return 2*x+1", False),
        ("def f(x) return", False),
        ("", False),
    ):
        assert function_fits(isolated, code, inputs, outputs) == right, code


def test_a_bend_in_the_wrong_place_is_wrong(isolated):
    tasks = [t for seed in range(8) if (t := FAMILY.generate("train", 2, seed)).data["rule"]["kind"] == "bend"]
    assert tasks
    for task in tasks:
        rule = Rule(**task.data["rule"])
        for place in (rule.c - 1, rule.c + 1, 0):
            moved = Rule(kind="bend", a=rule.a, b=rule.b, c=place)
            assert all(moved.value(x) == rule.value(x) for x in HIDDEN_INPUTS), "hidden inputs alone would not tell"
            assert FAMILY.verify(task, {"response": moved.source}, runtime=isolated).status == "fail"
