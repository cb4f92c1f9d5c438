"""MOPD with real weights: the printed (sampled-token) form and the full-vocabulary form, from the experts of a smol run.

    ninefold run smol                          # or --until rl
    python bench/mopd_smol.py --run runs/smol

Both students start from the SFT model, not from the second SFT, so that what they recover is MOPD's own. Each has a folder in
the run (`bench-sampled`, `bench-full`), and a call that was cut off goes on where it was. Then the SFT model, the experts and
both students play the same held-out tasks with the same draws. The last line is one JSON object: recovery of the experts' gain
in pass within budget, reverse KL at the first and the last two steps, and CPU-seconds of the training, of each form.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ninefold.app.configuration import stored_recipe
from ninefold.core.events import Emit
from ninefold.core.seeds import seed_of
from ninefold.core.store import Run, is_complete, read_json, write_json
from ninefold.core.types import EFFORTS, Cell
from ninefold.learn.optim.schedule import ScheduleConfig
from ninefold.learn.parallel import World
from ninefold.learn.trainer import Trainer
from ninefold.recipes.budgets import tau_of
from ninefold.recipes.evaluate import outcomes_of
from ninefold.recipes.kit import Kit
from ninefold.recipes.mopd import Distillation
from ninefold.recipes.training import finish, train, trainer_config

FORMS = ("sampled", "full")
RESAMPLES = 2000


def distilled(kit: Kit, form: str) -> dict[str, Any]:
    """The student of a form in its stage; its reverse KL by step and its cost."""
    config, stage = kit.recipe.mopd, kit.run.stage(f"bench-{form}")
    if is_complete(stage):
        return read_json(stage / "results.json")
    log = stage / "steps.jsonl"
    stage.mkdir(parents=True, exist_ok=True)
    student = kit.load("sft")
    schedule = ScheduleConfig(kind="cosine", warmup=config.warmup, floor=config.floor)
    trainer = Trainer(student, trainer_config(config.step_sizes, config.steps, schedule), world=World())
    # Equal names give both forms the same tasks and draws at every step.
    distillation = Distillation(kit, trainer, form, "bench-mopd")
    began = time.process_time()

    def emit(_: str, /, **fields: Any) -> None:
        spent = time.process_time() - began
        kept = {"step": int(fields["step"]), "kl": fields["distill/reverse_kl"], "tokens": fields["tokens"], "cpu": spent}
        print(f"{form} step {kept['step']} of {config.steps}: reverse KL {kept['kl']:.4f}, {spent:.0f} CPU-s", flush=True)
        with log.open("a") as lines:
            lines.write(json.dumps(kept) + "\n")

    report: Emit = emit
    train(trainer, stage, distillation.batches, distillation.loss, report, save_every=config.save_every)
    kit.save(student, stage)
    steps = {int(s["step"]): s for s in map(json.loads, log.read_text().splitlines())}
    finish(stage, {"kl": [steps[n]["kl"] for n in sorted(steps)], "cpu": cost([steps[n]["cpu"] for n in sorted(steps)])})
    return read_json(stage / "results.json")


def cost(spent: list[float]) -> float:
    """CPU-seconds of all steps, where every call began to count anew."""
    return float(sum(now - before if now > before else now for before, now in zip([0.0, *spent], spent)))


def played(kit: Kit, name: str, cell: Cell, tasks: int) -> list[float]:
    """Pass within budget of each held-out task; kept beside the run."""
    domain, effort = cell
    kept = kit.run.stage(f"bench-{name}", domain, f"{effort}-{tasks}.json")
    if not kept.exists():
        stage = {"sft": ("sft",), "experts": ("rl", *cell)}.get(name, (f"bench-{name}",))
        chosen = kit.tasks(domain, "heldout", tasks, "mopd_smol")
        attempts = kit.play(kit.load(*stage), chosen, effort, f"mopd_smol/{domain}/{effort}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_json(kept, outcomes_of(attempts, tau_of(kit)[cell])["within"])
        print(f"{name} {domain}/{effort}: {np.mean(read_json(kept)):.3f}", flush=True)
    return read_json(kept)


def recovery(within: dict[str, np.ndarray], form: str, seed: int) -> tuple[float, float, float] | None:
    """Share of the experts' mean gain that the form's student has, and its 95 % interval, paired by task; None without gain."""
    if within["experts"].mean() <= within["sft"].mean():
        return None

    def of(pick: np.ndarray) -> float:
        sft, experts, student = (within[name][:, pick].mean() for name in ("sft", "experts", form))
        return float((student - sft) / (experts - sft))

    tasks = within["sft"].shape[1]
    rng = np.random.default_rng(seed)
    low, high = np.quantile([of(rng.integers(0, tasks, tasks)) for _ in range(RESAMPLES)], [0.025, 0.975])
    return of(np.arange(tasks)), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=96, help="held-out tasks a cell")
    parser.add_argument("--efforts", nargs="*", choices=EFFORTS, help="whose experts are distilled; all if none is named")
    parser.add_argument("--steps", type=int, default=0, help="of MOPD; the run's own number if 0")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.open(arguments.run)
    recipe = stored_recipe(run)
    changes: dict[str, Any] = {"efforts": tuple(arguments.efforts)} if arguments.efforts else {}
    if arguments.steps:
        changes["mopd"] = recipe.mopd.model_copy(update={"steps": arguments.steps})
    kit = Kit(recipe=recipe.model_copy(update=changes), run=run)
    results = {form: distilled(kit, form) for form in FORMS}
    names = ("sft", "experts", *FORMS)
    within = {name: np.array([played(kit, name, cell, arguments.tasks) for cell in kit.cells]) for name in names}
    figures: dict[str, Any] = {f"{name}_within": round(float(within[name].mean()), 4) for name in names}
    for form in FORMS:
        shares = recovery(within, form, seed_of(0, form) % 2**32)
        kl = results[form]["kl"]
        figures[form] = {
            "recovery": shares and round(shares[0], 3),
            "interval": shares and [round(share, 3) for share in shares[1:]],
            "kl_first": round(float(np.mean(kl[:2])), 5),
            "kl_last": round(float(np.mean(kl[-2:])), 5),
            "cpu_s": round(results[form]["cpu"]),
        }
        print(f"{form}: {figures[form]}")
    ok = all((figures[form]["recovery"] or 0.0) > 0 for form in FORMS)
    print(json.dumps({"bench": "mopd-smol", "figures": figures, "against": {"recovery": 0.0}, "ok": bool(ok)}))


if __name__ == "__main__":
    main()
