"""A run's folder as an experiment leaves it, written through the same event log and stores, without training anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ninefold.agent.harness.presets import PLAIN
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.config import to_toml
from ninefold.core.store import Run, write_atomic, write_json
from ninefold.core.types import (
    CELLS,
    Budget,
    Call,
    Result,
    Row,
    Segment,
    Task,
    Trajectory,
    Turn,
    append,
)
from ninefold.recipes.whole import recipe
from ninefold.rollout.store import write_trajectories

STAGES = ["corpus", "pretrain", "sft", "budgets", "rl", "pooled", "mopd", "draft", "evaluate"]
WITHIN = {"sft": 0.4, "experts": 0.7, "pooled": 0.6, "student": 0.67, "average": 0.45}
EVIL = "</script><script>alert(1)</script>"


def record(path: Path) -> Run:
    """A whole run, with one cell that fell back and text that tries to be markup."""
    run = begin(path)
    emit = run.log()
    for stage in STAGES:
        emit("stage.start", stage=stage)
        _stage(run, stage)
        emit("stage.finish", stage=stage, wall=61.0, cpu=100.0, peak_mb=800.0)
    emit("note", stage="rl", cell="agents/low", text=f"no RL {EVIL}")
    emit("run.finish")
    tokenizer = Tokenizer.train(["is it clear?"] * 3, wire_phrases(), 400)
    tokenizer.save(run.stage("corpus") / "tokenizer.json")
    write_trajectories(run.path / "trajectories" / "coding-low.parquet", trajectories(Xtml(tokenizer)))
    write_json(run.stage("budgets") / "tau.json", {"/".join(cell): 1.2 for cell in CELLS})
    write_json(run.stage("budgets") / "COMPLETE", {"schema": 1})
    return run


def begin(path: Path) -> Run:
    """A run that has just been started."""
    run, smoke = Run(path=path), recipe("smoke")
    path.mkdir(parents=True)
    write_atomic(run.config, to_toml(smoke))
    run.log()("run.start", version="0.0", recipe=smoke.model_dump(mode="json"), stages=STAGES)
    return run


def _stage(run: Run, stage: str) -> None:
    emit = run.log(stage=stage)
    if stage in ("pretrain", "sft", "pooled", "mopd", "draft"):
        for step in (*range(1, 5), *range(3, 7)):  # cut off after step 4, and resumed from step 2
            emit("step", **_step(step), **({"distill/reverse_kl": 1 / step} if stage == "mopd" else {}))
    if stage == "pretrain":
        emit("heldout", step=6, tokens=600, losses={"code": 2.0, "web": 3.0})
    if stage == "rl":
        for cell in CELLS:
            name = "/".join(cell)
            log = run.log(stage="rl", cell=name)
            for step in range(1, 4):
                shared = {"dispatched/reward": 0.1 * step, "dispatched/new_tokens": 40.0, "policy/outside_share": 0.02}
                log("step", **_step(step), **shared, tau=1.1)
            log("dev", step=3.0, within=0.5, tokens=40.0, shaped=0.4)
            log("expert", fell_back=name == "agents/low")
    if stage == "evaluate":
        emit("acceptance", tokens=900, **{f"accept_{i}": 0.8 - 0.05 * i for i in range(1, 8)})
        emit("table", table=table())


def _step(step: int) -> dict[str, Any]:
    layer = "model.layers.1.block_sparse_moe"
    return {
        "step": float(step),
        "total": 6,
        "loss": 5.0 / step,
        "tokens": 100.0,
        f"{layer}.overload": 1.5,
        f"{layer}.dead": 0.0,
    }


def table() -> dict[str, dict[str, dict[str, float]]]:
    """Every model on every cell."""
    tokens = {"low": 20.0, "high": 40.0, "max": 80.0}
    return {
        model: {
            "/".join(cell): {"within": within, "within_se": 0.03, "pass": within + 0.1, "over": 0.1, "tokens": tokens[cell[1]]}
            for cell in CELLS
        }
        for model, within in WITHIN.items()
    }


def trajectories(chat: Xtml) -> list[Trajectory]:
    """One that passed and one that failed."""
    task = Task(
        id="expression/heldout/0/1", domain="coding", family="expression", split="heldout", level=0, seed=1,
        shape="expression/0", instruction=f"is it {EVIL}?", budget=Budget(tokens=12.0, samples=4),
    )  # fmt: skip
    opened = chat.open([{"role": "user", "content": task.instruction}], tools=[], effort="low")
    ids = chat.completion({"role": "assistant", "reasoning_content": "clear", "content": "it is"})
    sampled = Segment(
        ids=ids,
        source="sampled",
        message=1,
        logprobs=np.full(len(ids), -0.5, np.float32),
        policy_version=7,
        finish_reason="stop",
    )
    row = append(Row(), *opened, sampled)
    turn = Turn(think="clear", response="it is", calls=(Call(tool="run", arguments={"code": EVIL}),), observations=(EVIL,))
    return [
        Trajectory(
            id=f"evaluate/0/coding/low/{n}", task=task, effort="low", group=f"g{n}", seed=n, rows=(row,), turns=(turn,),
            composition=PLAIN.composition, stop="answered", result=Result(status=status, score=float(n == 0)), spend=9,
        )
        for n, status in enumerate(("pass", "fail"))
    ]  # fmt: skip
