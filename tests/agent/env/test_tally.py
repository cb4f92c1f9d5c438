"""The kind that needs two domains' skills."""

from __future__ import annotations

import json

from ninefold.agent import env
from ninefold.agent.env.play import play
from ninefold.agent.env.script import Script, Steps, use
from ninefold.core.protocols import Move
from ninefold.core.types import Call

FAMILY = env.family("tally")


def test_the_answer_counts_only_if_every_number_was_read() -> None:
    for seed in range(20):
        task = FAMILY.generate("heldout", 1, seed)
        people = task.data["people"]
        answer = str(sum(task.data["numbers"][name] for name in people) % 10)

        def reads(*names: str, answer: str = answer) -> Script:
            def steps() -> Steps:
                for name in names:
                    yield use("lookup", key=name)
                yield Move(response=answer)

            return Script(steps())

        assert play(FAMILY, task, reads(*people), 0)[0].status == "pass"
        assert play(FAMILY, task, reads(*reversed(people)), 0)[0].status == "pass"
        result, _ = play(FAMILY, task, reads(*people[:-1]), 0)
        assert result.status == "fail"
        assert result.detail == f"never looked up {people[-1]}"


def test_a_directory_says_what_it_does_not_know() -> None:
    world = FAMILY.open(FAMILY.generate("train", 0, 0), seed=0)
    assert world.call(Call(tool="lookup", arguments={"key": "Nobody"})).text == "error: no such name"
    assert json.loads(world.save()) == []
