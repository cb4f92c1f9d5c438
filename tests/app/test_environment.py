"""Commands for environment builders, and the tutorial that teaches them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from ninefold.agent.env import families
from ninefold.core.store import Run, is_complete, read_json
from ninefold.core.types import DOMAINS
from ninefold.recipes.run import run_recipe
from tests.recipes.small import small

from .test_commands import call, printed

TUTORIAL = Path(__file__).parents[2] / "docs" / "environment.md"
COMMANDS = re.findall(r"^ninefold (.+)$", TUTORIAL.read_text(), re.MULTILINE)


def test_the_tutorial_runs_as_it_is_written(here: Path) -> None:
    for command in COMMANDS:
        words = shlex.split(command.replace("--seeds 50", "--seeds 2").replace("--mutants 200", "--mutants 20"))
        if words[0] == "run":
            call("run", "smoke", *words[2:], "--dry-run")
        elif words[0] != "show":
            call(*words, input="/look box=red\ndone\n")
    assert (here / "shelf" / "test_shelf.py").exists()


@pytest.mark.full
def test_a_run_is_trained_on_the_family_of_the_tutorial(here: Path) -> None:
    call("task", "new", "cupboard")
    tiny = {"demonstrations": 60, "save_every": 20}
    recipe = small().model_copy(update={"families": {"agents": {"cupboard": (0, 1)}}})
    recipe = recipe.model_copy(update={"sft": recipe.sft.model_copy(update=tiny)})
    run = Run(path=here / "runs" / "cupboard")
    run_recipe(recipe, run, until="rl")
    assert is_complete(run.stage("rl"))
    assert {"cupboard/0", "cupboard/1"} <= read_json(run.stage("budgets") / "budgets.json").keys()


def test_families_are_listed_as_other_programs_read_them() -> None:
    found = printed("task", "ls", "--json")
    assert found.keys() == {"families"}
    assert [row["family"] for row in found["families"]] == list(families())
    for row in found["families"]:
        assert row.keys() == {"family", "domain", "levels"}
        assert row["domain"] in DOMAINS
        assert row["levels"] >= 1
    assert "arithmetic" in call("task", "ls").stdout


def test_playing_by_hand(here: Path) -> None:
    lines = "/look\n/look box\n/nothing\n/look box=red\n/move thing='tea' box=blue\n@absent.txt\ndone\n"
    call("task", "new", "toybox")
    text = call("task", "play", "toybox", "--level", "1", "--seed", "3", input=lines).stdout
    for part in ("Put the ", "/move thing=string box=string", "is no argument of look", "no tool 'nothing'", "absent.txt"):
        assert part in text
    assert text.splitlines()[-1].startswith(("pass", "fail"))
    (here / "answer.txt").write_text("7")
    assert "score" in call("task", "play", "arithmetic", input="@answer.txt\n").stdout
    assert "fail, score 0" in call("task", "play", "picture", input="").stdout


def test_what_is_broken_is_told_and_ends_with_status_1(here: Path) -> None:
    call("task", "new", "leaky")
    path = here / "leaky" / "family.py"
    source = path.read_text()
    whole = '{**places, thing: places[task.data["neighbour"]]}'
    assert whole in source
    path.write_text(source.replace(f'final.get("places") == {whole}', '"done" in str(final.get("response"))'))
    checked = json.loads(call("task", "check", "leaky", "--seeds", "1", "--level", "0", "--json", status=1).stdout)
    broken = {finding["promise"] for finding in checked["findings"] if finding["faults"]}
    assert "hacks fail" in broken
    assert "hack 'claims to be done' got pass 1" in call("task", "check", "leaky", "--seeds", "1", status=1).stdout
    attacked = json.loads(call("hack", "run", "leaky", "--mutants", "10", "--json", status=1).stdout)
    assert attacked["attack_success_rate"] > 0
    assert attacked["successes"]
    assert "SUCCESS" in call("hack", "run", "leaky", "--mutants", "10", status=1).stdout


def test_lint_remarks_on_what_it_reads_and_plays(here: Path) -> None:
    (here / "poor.py").write_text(
        "import random, time, socket\n"
        "from ninefold.agent.env.arithmetic import Arithmetic, say\n"
        "class Poor(Arithmetic):\n"
        "    name = 'poor_sums'\n"
        "    def verify(self, task, final, *, runtime=None):\n"
        "        try:\n            return eval('super().verify(task, final)')\n"
        "        except Exception:\n            return super().verify(task, final)\n"
        "    def generate(self, split, level, seed):\n"
        "        random.choice('ab'), time.time(), hash('x')\n"
        "        return super().generate(split, level, 1)\n"
        "    def demonstrate(self, task, style):\n        return say('3')\n"
        "FAMILY = Poor()\n"
    )
    remarks = printed_with_status_1("task", "lint", "poor.py", "--json")
    text = "\n".join(remark["text"] for remark in remarks)
    told = ["random.choice", "time.time", "hash of", "eval runs", "broad except", "imports socket", "no effort", "only 1 of"]
    for part in told:
        assert part in text
    assert "nothing to remark" in call("task", "lint", "passage").stdout


def printed_with_status_1(*words: str) -> list[dict[str, str]]:
    return json.loads(call(*words, status=1).stdout)


LACKS = "level 1 needs an abacus: ask a museum"


@pytest.fixture
def poor(here: Path) -> str:
    """The path of a family whose levels above 0 need what no machine has."""
    source = f"""
from ninefold.agent.env.arithmetic import Arithmetic
class Counting(Arithmetic):
    name = {here.name!r}
    def lacks(self, level=0):
        return {LACKS!r} if level else None
FAMILY = Counting()
"""
    (here / "counting.py").write_text(source)
    return "counting.py"


def test_levels_that_lack_something_are_skipped_and_never_kept(poor: str) -> None:
    checked = json.loads(call("task", "check", poor, "--seeds", "1", "--json", status=3).stdout)
    assert (checked["status"], checked["kept"], checked["skipped"]) == ("skipped", False, {"1": LACKS, "2": LACKS})
    assert {(f["level"], f["status"]) for f in checked["findings"]} == {(0, "kept"), (1, "skipped"), (2, "skipped")}
    assert f"skipped, level 1, 2: {LACKS}" in call("task", "check", poor, "--seeds", "1", status=3).stdout
    assert json.loads(call("task", "check", poor, "--seeds", "1", "--level", "0", "--json").stdout)["status"] == "kept"

    attacked = json.loads(call("hack", "run", poor, "--mutants", "6", "--json", status=3).stdout)
    assert (attacked["status"], attacked["skipped"], attacked["mutants"]["made"]) == ("skipped", {"1": LACKS, "2": LACKS}, 6)
    assert attacked["attack_success_rate"] == 0
    assert LACKS in call("hack", "run", poor, "--mutants", "6", status=3).stdout

    remarks = json.loads(call("task", "lint", poor, "--json", status=3).stdout)
    assert [(remark["where"], remark["skipped"]) for remark in remarks] == [("level 1", True), ("level 2", True)]
    assert LACKS in call("task", "play", poor, "--level", "1", status=3).stdout
    assert "score 0" in call("task", "play", poor, input="").stdout


def test_a_run_that_lacks_something_is_refused_at_once(poor: str, here: Path) -> None:
    lacking = f"families.general={{'{poor}'=[0,1]}}"
    for words in ([], ["--dry-run"]):
        told = call("run", "smoke", "--name", "poor", "--set", lacking, *words, status=2).stderr
        assert f"level 1 cannot be played here: {LACKS}" in " ".join(told.split())
    assert not (here / "runs" / "poor" / "events.jsonl").exists()
    call("run", "smoke", "--name", "poor", "--set", lacking.replace("0,1", "0"), "--dry-run")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["task", "check", "absent"], "no task family 'absent'"),
        (["task", "check", "arithmetic", "--level", "9"], "levels of arithmetic are 0 to 2"),
        (["task", "play", "arithmetic", "--level", "9"], "levels of arithmetic are 0 to 2"),
        (["task", "play", "arithmetic", "--split", "lunch"], "splits are train"),
        (["task", "new", "Big Box"], "small letters"),
        (["task", "new", "search"], "there is a family search already"),
        (["task", "new", "runs"], "exists already"),
        (["hack", "run", "."], "no family: give a Python file"),
    ],
)
def test_faults_of_builders_are_told(here: Path, words: list[str], message: str) -> None:
    assert message in " ".join(call(*words, status=2).stderr.split())
