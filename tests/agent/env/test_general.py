"""The general families one by one: that what they call right is right."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ninefold.agent.env import family
from ninefold.agent.env.gym import DATASETS
from ninefold.agent.env.passage import ITEMS, UNKNOWN
from ninefold.agent.env.play import play
from ninefold.agent.env.search.library import library
from ninefold.agent.env.search.question import Question, pattern
from ninefold.core.errors import UserError
from ninefold.core.protocols import Style
from ninefold.core.types import EFFORTS, SPLITS, Call

ARITHMETIC, PASSAGE, SEARCH, GYM = (family(name) for name in ("arithmetic", "passage", "search", "gym"))


def _think(member, task, effort, seed=0, slip=0.0):
    return member.demonstrate(task, Style(effort=effort, seed=seed, slip=slip)).move([])


@pytest.mark.parametrize("level", range(3))
def test_sums_are_sums(level):
    for seed in range(60):
        task = ARITHMETIC.generate("train", level, seed)
        expression = task.data["expression"]
        total = eval(expression)
        assert total >= 0, "so that last digit and remainder agree"
        assert ARITHMETIC.verify(task, {"response": f" {total % 10}\n"}).status == "pass"
        assert all(ARITHMETIC.verify(task, {"response": str(d)}).score == 0 for d in range(10) if d != total % 10)
        assert expression in task.instruction
        assert ("-" in expression) <= (level == 2)
        for step in _think(ARITHMETIC, task, "max").think.rpartition(";")[2].split(","):
            left, _, right = step.partition("=")
            assert eval(left) % 10 == int(right)
        steps = [step.split("=") for step in _think(ARITHMETIC, task, "high").think.split(",")]
        assert len(steps) == len(expression) // 2
        for i, (digit, after) in enumerate(steps, 1):
            assert digit.lstrip("-") == expression[2 * i]
            assert int(after) == eval(expression[: 2 * i + 1]) % 10


def test_lengths_by_level():
    for level, (fewest, most) in enumerate([(3, 6), (6, 9), (4, 9)]):
        lengths = {(len(ARITHMETIC.generate("train", level, seed).data["expression"]) + 1) // 2 for seed in range(150)}
        assert lengths == set(range(fewest, most + 1))


def test_more_effort_thinks_more():
    for member in (ARITHMETIC, PASSAGE, GYM):
        length = {e: sum(len(_think(member, member.generate("train", 0, s), e).think) for s in range(40)) for e in EFFORTS}
        assert length["low"] < length["high"] < length["max"], member.name


def test_a_slip_changes_at_most_one_character_of_a_sum():
    changed = 0
    for seed in range(100):
        task = ARITHMETIC.generate("train", 0, seed)
        right, wrong = _think(ARITHMETIC, task, "max"), _think(ARITHMETIC, task, "max", slip=1.0)
        steps = [move.think.rpartition(";")[2] for move in (right, wrong)]
        different = [a != b for a, b in zip(*steps, strict=True)]
        assert sum(different) <= 1
        assert right.response == wrong.response
        changed += sum(different)
    assert changed > 70


@pytest.mark.parametrize("level", range(3))
def test_passages_answer_or_do_not(level):
    unknown = 0
    for seed in range(120):
        task = PASSAGE.generate("train", level, seed)
        told, asked = task.instruction.rsplit(". ", 1)
        name = task.data["name"]
        verb = {" likes ": "like", " is in ": "Where", " has ": "have"}[task.data["relation"]]
        assert name in asked
        assert verb in asked
        fact = [s for s in told.split(". ") if s.startswith(name + task.data["relation"])]
        assert len(fact) <= 1
        unknown += not fact
        answer = fact[0].removeprefix(name + task.data["relation"]) if fact else UNKNOWN
        passing = [r for r in (*ITEMS, UNKNOWN) if PASSAGE.verify(task, {"response": r}).status == "pass"]
        assert passing == [answer]
    assert 5 <= unknown <= 60


def test_an_unanswerable_question_of_several_relations_names_someone_of_the_passage():
    known = 0
    for seed in range(100):
        task = PASSAGE.generate("train", 2, seed)
        stated = {(name, relation) for name, relation, _ in task.data["facts"]}
        asked = (task.data["name"], task.data["relation"])
        known += asked not in stated and asked[0] in {name for name, _ in stated}
    assert known > 10


@pytest.mark.parametrize("level", range(3))
def test_exactly_one_entry_answers(level):
    for seed in range(15):
        asked = Question(**SEARCH.generate("dev", level, seed).data["question"])
        holding = [e for e in library().entries.values() if pattern(asked.quote).search(e.prose)]
        assert [e.id for e in holding] == [asked.source]
        source, cited = library().entries[asked.source], library().entries[asked.cited]
        if asked.kind == "title":
            assert asked.answer == source.title
        elif asked.kind == "blank":
            assert asked.quote.replace("___", asked.answer) in source.prose
        else:
            assert cited.id == source.related[0] != source.id
            assert cited.prose.split(" ")[2] == asked.answer
            assert f"See also: {cited.title}" in library().index.open(source.id).text


def test_distractors_share_words():
    for seed in range(15):
        asked = Question(**SEARCH.generate("train", 0, seed).data["question"])
        assert len(library().index.search(asked.quote, 5)) == 5


def test_an_answer_needs_its_document():
    task = SEARCH.generate("train", 1, 0)
    asked = Question(**task.data["question"])
    verdict = {
        opened: SEARCH.verify(task, {"response": asked.response, "opened": list(opened)}).status
        for opened in ((), ("0", "1"), (asked.cited,))
    }
    assert list(verdict.values()) == ["fail", "fail", "pass"]
    assert SEARCH.verify(task, {"response": asked.answer, "opened": [asked.cited]}).status == "fail"


def test_tools_of_the_library():
    task = SEARCH.generate("train", 0, 0)
    world = SEARCH.open(task, seed=0)
    call = lambda tool, **arguments: world.call(Call(tool=tool, arguments=arguments)).text  # noqa: E731
    assert len(call("search", query="sort an array").splitlines()) == 5
    assert call("search", query="???") == "nothing found"
    assert call("open", id="-1") == "error: no such entry"
    assert call("open", id=3) == "error: bad arguments: id is 3, not of type string"
    assert call("read", id="3") == "error: no such tool"
    text = call("open", id="3")
    assert text.startswith(library().entries["3"].prose)
    call("open", id="3")
    assert world.final("x") == {"response": "x", "opened": ["3"]}


def test_a_library_of_another_version_is_refused():
    task = SEARCH.generate("train", 0, 0)
    other = replace(task, data={**task.data, "library": "another"})
    with pytest.raises(UserError, match="another version"):
        SEARCH.open(other, seed=0)


def test_every_generator_of_the_gym_occurs():
    for level in range(3):
        for split in SPLITS:
            seen = {GYM.generate(split, level, seed).data["dataset"] for seed in range(60)}
            assert seen == set(DATASETS)


def test_gym_gives_no_part_marks():
    task = next(t for s in range(50) if (t := GYM.generate("train", 1, s)).data["dataset"] == "chain_sum")
    answer = task.data["entry"]["answer"]
    assert GYM.verify(task, {"response": f"{answer} or so"}).score == 0.0
    assert GYM.verify(task, {"response": f"+{answer}.00"}).status == "pass", "the package's scorer reads numbers"


def test_the_gym_takes_no_number_that_was_not_given():
    task = next(t for s in range(50) if (t := GYM.generate("train", 0, s)).data["dataset"] == "number_sorting")
    given = json.loads(task.data["entry"]["answer"].replace("'", '"'))
    ascending = sorted(given, key=float)
    nearly = [*given[:-1], str(float(given[-1]) + (0.5 if given == ascending else -0.5))]
    assert GYM.verify(task, {"response": json.dumps(given)}).status == "pass"
    assert GYM.verify(task, {"response": json.dumps(nearly)}).status == "fail"


def test_a_scorer_broken_by_the_answer_is_a_fail_and_a_broken_task_is_invalid():
    task = next(t for s in range(50) if (t := GYM.generate("train", 0, s)).data["dataset"] == "number_sorting")
    entry = task.data["entry"]
    assert GYM.verify(task, {"response": "[" * 2_000}).status == "fail"
    no_answer = replace(task, data={**task.data, "entry": {k: v for k, v in entry.items() if k != "answer"}})
    assert GYM.verify(no_answer, {"response": "['1', '2', '3']"}).status == "invalid"
    no_metadata = replace(task, data={**task.data, "entry": {**entry, "metadata": None}})
    assert GYM.verify(no_metadata, {"response": entry["answer"]}).status == "invalid"


def test_a_policy_that_never_answers_is_stopped_by_the_turns():
    task = SEARCH.generate("train", 0, 0)
    moves = []

    class Restless:
        def move(self, observations):
            moves.append(observations)
            return SEARCH.gold(task).move([])

    result, final = play(SEARCH, task, Restless())
    assert len(moves) == task.limits.turns
    assert (result.status, final["response"]) == ("fail", None)
