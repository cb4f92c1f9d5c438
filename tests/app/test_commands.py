"""The command line: what it prints, what it changes, how it fails."""

from __future__ import annotations

import json
import os
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ninefold import __version__
from ninefold.agent.env import families
from ninefold.app.cli import app
from ninefold.app.configuration import resolve, stored_recipe
from ninefold.app.runs import open_run
from ninefold.core.config import to_toml
from ninefold.core.errors import UserError
from ninefold.core.events import read_events
from ninefold.core.protocols import Lacking
from ninefold.core.store import Run, read_json, write_atomic
from ninefold.recipes.whole import RECIPES, recipe

from .recorded import WITHIN, begin


def call(*words: str, status: int = 0, input: str | None = None) -> Result:
    result = CliRunner().invoke(app, list(words), input=input)
    assert result.exit_code == status, result.output
    return result


def printed(*words: str) -> Any:
    return json.loads(call(*words).stdout)


COMMANDS = ["run", "recipes", "chat", "serve", "watch", "report", "show", "evaluate", "stage", "set", "preview", "doctor"]


@pytest.mark.parametrize(
    "command", [[], *([name] for name in COMMANDS), ["runs"], *(["runs", n] for n in ("ls", "compare", "rm"))]
)
def test_help(command: list[str]) -> None:
    assert "Usage:" in call(*command, "--help").output


def test_model_inspect_counts_presets_and_folders(run: Run) -> None:
    found = printed("model", "inspect", "k3", "--json")
    assert (found["total"], found["layers"]) == (2_779_484_393_568, 93)
    assert "2,779.48B" in call("model", "inspect", "k3").stdout
    assert "no model preset 'huge'" in call("model", "inspect", "huge", status=2).stderr
    assert "config.json" in call("model", "inspect", str(run.path), status=2).stderr


def test_recipes() -> None:
    assert printed("recipes", "--json").keys() == RECIPES.keys()


def test_dry_run_prints_a_configuration_that_can_be_run(here: Path) -> None:
    text = call("run", "smoke", "--dry-run", "--set", "rl.steps=7", "--seed", "5", "--deterministic").stdout
    (here / "mine.toml").write_text(text)
    read = resolve(recipe("smoke"), Run(path=here / "runs" / "x"), file=here / "mine.toml")
    assert (read.rl.steps, read.seed, read.processes) == (7, 5, 1)
    assert "# total" in text
    assert not (here / "runs" / "smoke").exists()


def test_a_run_goes_on_with_its_own_configuration(run: Run) -> None:
    stored = stored_recipe(run)
    assert resolve(recipe("smoke"), run) == stored
    assert resolve(recipe("smoke"), run, overrides=[f"rl.steps={stored.rl.steps}"]) == stored
    refused = call("run", "smoke", "--name", "trial", "--set", "rl.steps=99", "--until", "corpus", status=2)
    assert "rl.steps is 2, not 99" in refused.stderr
    assert "--name" in refused.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "huge"], "no recipe 'huge'"),
        (["run", "smoke", "--until", "lunch"], "there is no such stage"),
        (["run", "smoke", "--set", "rl.stepz=1"], "unknown key 'rl.stepz'"),
        (["run", "smoke", "--set", "mopd.steps=0"], "mopd.steps: takes 1 or more (got 0)"),
        (["run", "smoke", "--set", "sft.weights.coding=-1"], "sft.weights.coding: takes 0.0 or more"),
        (["run", "smoke", "--config", "absent.toml"], "no configuration file"),
        (["report", "absent"], "is not a run"),
        (["chat", "trial", "--prompt", "hi"], "has no model yet"),
        (["chat", "trial", "--stage", "mopd", "--prompt", "hi"], "has no model yet"),
        (["serve", "trial", "--host", "0.0.0.0"], "--api-key"),
        (["show", "trial", "weather"], "there is no 'weather'"),
        (["show", "trial", "trajectory", "x"], "evaluate/0/coding/low/0"),
        (["stage", "trial", "lunch"], "there is no stage"),
        (["stage", "trial", "sft", "--cell", "coding/low"], "has no cells"),
        (["stage", "trial", "rl", "--cell", "cooking/low"], "no cell"),
        (["stage", "trial", "mopd"], "goes on from"),
        (["set", "trial", "tau_b.cooking.low=1"], "no cell of that name"),
        (["set", "trial", "tau_b.coding.low=0"], "positive number"),
        (["set", "trial", "tau_b.coding.low=inf"], "positive number below"),
        (["set", "trial", "rl.steps=1"], "tau_b.coding.low=0.6"),
        (["run", "nano", "--name", "trial"], "was started as recipe smoke, not nano"),
        (["run", "smoke", "--name", ".."], "is no name for a run"),
        (["run", "smoke", "--name", "x[/b]"], "is no name for a run"),
        (["run", "smoke", "--set", "pretrain.tokens=1"], "at least one step"),
        (["run", "smoke", "--dry-run", "--set", "families.general.lunch=[0]"], "lunch"),
        (["run", "smoke", "--dry-run", "--set", "families.general.arithmetic=[99]"], "levels are 0 to"),
        (
            ["run", "smoke", "--dry-run", "--set", "families.general.arithmetic=[]"],
            "families.general.arithmetic: takes a list of one or more levels, e.g. [0]; levels are 0 to 2 (got [])",
        ),
        (["run", "smoke", "--dry-run", "--set", "sft.files=['absent.jsonl']"], "sft.files: no file absent.jsonl"),
        (["run", "smoke", "--dry-run", "--set", "efforts=['low']"], "error: configuration: efforts lacks max, on which"),
        (["run", "smoke", "--dry-run", "--set", "sft.weights={general=0,agents=0,coding=0}"], "sft.weights gives none of"),
        (["run", "smoke", "--dry-run", "--set", "sft.styles.low=[0,0,0]"], "sft.styles.low gives no style"),
        (["run", "smoke", "--dry-run", "--set", "pretrain.stages=[]"], "pretrain.stages"),
        (["run", "smoke", "--dry-run", "--set", "pretrain.tokens=10"], "error: configuration: pretrain: tokens (10) must make"),
        (["stage", "new", "sft", "--from", "trial", "--set", "sft.files=['absent.jsonl']"], "stage demonstrations reads it"),
        (["runs", "rm"], "--keep-last"),
        (["preview", "absent.jsonl"], "no file"),
    ],
)
def test_faults_of_the_user_are_told_without_a_traceback(run: Run, words: list[str], message: str) -> None:
    result = call(*words, status=2)
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_what_the_machine_refuses_is_told_without_a_traceback(run: Run, here: Path) -> None:
    (here / "file").write_text("")
    for words in (["preview", str(here)], ["run", "smoke", "--config", str(here)], ["run", "smoke", "--name", "file/x"]):
        result = call(*words, status=1)
        assert "error: " in result.stderr
        assert "Traceback" not in result.output
    run.controls.write_text("{")
    assert "controls.json is damaged" in call("set", "trial", status=2).stderr
    run.controls.unlink()
    with run.events.open("a") as log:
        log.write('5\nnull\n{"kind": "stage.finish"}\n{"kind": "run.start", "time": 1, "stage": 3}\n')
    call("report", "trial")
    run.config.write_bytes(b"\xff\xfe")
    assert "not valid TOML" in call("evaluate", "trial", status=2).stderr
    run.config.write_text("")
    assert "is empty" in call("evaluate", "trial", status=2).stderr


def test_a_run_with_nothing_yet_takes_other_values(here: Path) -> None:
    first = Run(path=here / "runs" / "young")
    write_atomic(first.config, to_toml(recipe("smoke")))
    assert resolve(recipe("smoke"), first, overrides=["rl.steps=9"]).rl.steps == 9


def test_a_run_does_not_go_where_other_files_are(here: Path) -> None:
    write_atomic(here / "runs" / "notes" / "plan.txt", "mine")
    told = call("run", "nano", "--name", "notes", status=2).stderr
    assert "holds other files (plan.txt); give the run a --name of its own" in told
    assert "holds other files (plan.txt)" in call("graph", "grow", str(here / "runs" / "notes"), status=2).stderr
    assert [path.name for path in (here / "runs" / "notes").iterdir()] == ["plan.txt"]


def test_a_taken_port_is_told(run: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "choose another --port" in call("watch", "trial", "--port", port, status=2).stderr


def test_version() -> None:
    assert call("--version").stdout.strip() == f"ninefold {__version__}"


def test_controls(run: Run) -> None:
    assert printed("set", "trial", "--json")["tau_b.coding.low"] == 1.2
    call("set", "trial", "tau_b.coding.low=0.6", "tau_b.agents.max=2")
    assert read_json(run.controls) == {"tau_b.coding.low": 0.6, "tau_b.agents.max": 2}
    assert [event["values"] for _, event in read_events(run.events) if event["kind"] == "control"] == [read_json(run.controls)]
    assert printed("set", str(run.path), "--json")["tau_b.coding.low"] == 0.6


def test_show(run: Run) -> None:
    ids = [row["id"] for row in printed("show", "trial", "trajectory", "--json")]
    assert ids == ["evaluate/0/coding/low/0", "evaluate/0/coding/low/1"]
    assert ids[1] in call("show", "trial", "trajectory").stdout
    text = call("show", "trial", "trajectory", ids[0]).stdout
    for part in ("task", "thinks", "clear", "calls", "sees", "version 7", "pass"):
        assert part in text
    assert "version 7" not in call("show", "trial", "trajectory", ids[0], "--no-tokens").stdout
    assert printed("show", "trial", "trajectory", ids[0], "--json")["ids"]
    assert printed("show", "trial", "trajectory", ids[0], "--atif")["trajectory_id"] == ids[0]


def test_listing_comparing_removing(run: Run, here: Path) -> None:
    begin(here / "runs" / "young")
    assert {entry["name"] for entry in printed("runs", "ls", "--json")} == {"trial", "young"}
    assert "trial" in call("runs", "ls").stdout
    same = printed("runs", "compare", "trial", "trial", "--json")
    assert same["configuration"] == {}
    assert same["student"]["coding/low"] == [WITHIN["student"]] * 2
    call("runs", "rm", "young", status=1, input="n\n")
    assert open_run("young").path.exists()
    with run.locked():
        assert f"process {os.getpid()} is working on" in call("runs", "rm", "trial", "--yes", status=2).stderr
    call("runs", "rm", "--keep-last", "1", "--yes")
    assert [entry["name"] for entry in printed("runs", "ls", "--json")] == ["young"]
    with pytest.raises(UserError, match="not a run"):
        open_run("trial")


def test_preview_names_every_bad_line(here: Path) -> None:
    good = {"messages": [{"role": "user", "content": "1+2?"}, {"role": "assistant", "content": "3"}], "effort": "low"}
    bad = [{"messages": 3}, {**good, "effort": "extreme"}, {**good, "label": 1}, {"messages": good["messages"][:1]}, []]
    (here / "own.jsonl").write_text(json.dumps(good) + "\n\n" + json.dumps(good) + "\n")
    figures = printed("preview", "own.jsonl", "--json")
    assert figures["conversations"] == 2
    assert 0 < figures["learned"] < figures["tokens"]
    shown = call("preview", "own.jsonl").stdout
    assert "line 3" in shown
    assert f"{figures['learned']} learned (in ⟦ ⟧)" in shown
    assert shown.count("⟦") == shown.count("⟧") > figures["conversations"]
    (here / "bad.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [good, *bad]) + "{torn\n")
    message = call("preview", "bad.jsonl", status=2).stderr
    assert all(f"line {number}: " in message for number in range(2, 8))
    assert "line 1: " not in message


def test_report_command(run: Run) -> None:
    assert call("report", "trial").stdout.strip() == str(run.report.relative_to(Path.cwd()))
    assert run.report.exists()


def test_doctor_looks_at_everything() -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"])
    findings = {finding["name"]: finding["state"] for finding in json.loads(result.stdout)}
    lacking = {f"family {name}" for name, family in families().items() if isinstance(family, Lacking)}
    assert "family web" in lacking
    assert findings.keys() == {"Python", "PyTorch", "threads", "C kernels", "sandbox", "memory", "disk", *lacking}
    assert result.exit_code == int("missing" in findings.values())


def test_stored_configuration_of_another_version(run: Run) -> None:
    values = tomllib.loads(run.config.read_text())
    run.config.write_text("\n".join(line for line in run.config.read_text().splitlines() if not line.startswith("lam =")))
    assert stored_recipe(run).rl.lam == values["rl"]["lam"]
    run.config.write_text("future_key = 1\n" + run.config.read_text())
    with pytest.raises(UserError, match="future_key"):
        stored_recipe(run)
