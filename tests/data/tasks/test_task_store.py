"""Tasks as records and files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.agent.env import family
from ninefold.core.errors import UserError
from ninefold.core.records import task_of, task_record
from ninefold.core.types import Budget, Limits, Task
from ninefold.data.tasks.store import read_tasks, write_tasks

TEXT = st.text(max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
TASKS = st.builds(
    Task,
    id=TEXT,
    domain=st.sampled_from(["general", "agents", "coding"]),
    family=TEXT,
    split=st.just("train"),
    level=st.integers(0, 9),
    seed=st.integers(0, 2**63 - 1),
    shape=TEXT,
    instruction=TEXT,
    tools=st.lists(TEXT, max_size=3).map(tuple),
    files=st.dictionaries(TEXT, TEXT, max_size=3),
    data=st.dictionaries(TEXT, JSON, max_size=3),
    limits=st.builds(Limits, turns=st.integers(1, 99), tool_seconds=st.floats(0.1, 60)),
    budget=st.none() | st.builds(Budget, tokens=st.floats(0, 1e6), samples=st.integers(0, 99)),
)


@settings(deadline=None)
@given(TASKS)
def test_a_record_is_the_task(task):
    assert task_of(json.loads(json.dumps(task_record(task)))) == task


@settings(deadline=None, max_examples=30)
@given(st.lists(TASKS, max_size=5, unique_by=lambda task: task.id))
def test_a_file_is_its_tasks(tmp_path_factory, tasks):
    path = tmp_path_factory.mktemp("tasks") / "tasks.jsonl"
    write_tasks(path, tasks)
    assert read_tasks(path) == tasks
    assert read_tasks(path, "heldout") == []


def _task(seed: int = 0, **changes: object) -> Task:
    return replace(family("arithmetic").generate("train", 0, seed), **changes)


def test_older_records_take_defaults_and_newer_ones_are_refused():
    record = task_record(_task())
    older = {key: value for key, value in record.items() if key not in ("budget", "provenance", "limits")}
    assert task_of(older) == replace(_task(), limits=Limits())
    with pytest.raises(UserError, match="schema 99"):
        task_of({**record, "schema": 99})
    with pytest.raises(UserError, match="schema None"):
        task_of({})
    with pytest.raises(UserError, match="split"):
        task_of({**record, "split": "test"})


@pytest.mark.parametrize(("line", "problem"), [("{", "line 2"), ("[1]", "JSON object"), ('{"schema": 1}', "not a task record")])
def test_bad_lines_are_named(tmp_path, line, problem):
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, [_task()])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(UserError, match=problem):
        read_tasks(path)


def test_no_task_twice_and_none_in_two_splits(tmp_path):
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, [_task()])
    with pytest.raises(UserError, match="unique"):
        write_tasks(path, [_task(), _task()])
    with pytest.raises(UserError, match="two splits"):
        write_tasks(path, [_task(), _task(id="other", split="heldout")])
    assert read_tasks(path) == [_task()]
    with pytest.raises(UserError, match="no file"):
        read_tasks(tmp_path / "none.jsonl")
