"""What RL brought to each family of a run: experts less SFT on the same held-out tasks with the same draws.

    ninefold run wide
    python bench/families.py --run runs/wide

The attempts of all efforts of a family count alike. The difference is of passes within budget, paired by task, with its
standard error. The last line is JSON; ok where at least six families gain more than two standard errors, no more CPU than
stated was spent, and a kind of task that no stage trains was measured.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from ninefold.app.configuration import stored_recipe
from ninefold.app.journal import Figures, Journal
from ninefold.core.store import Run, read_json
from ninefold.recipes.kit import Kit

FAMILIES, ERRORS, CPU_SECONDS = 6, 2.0, 7200.0


def differences(kit: Kit) -> dict[str, list[tuple[float, float]]]:
    """Family → (SFT, expert) of each task that both were judged on: 1 where it was passed within budget."""
    outcomes = read_json(kit.run.stage("evaluate") / "outcomes.json")
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for domain, effort in kit.cells:
        count = len(outcomes[f"sft/{domain}/{effort}"]["within"])
        tasks = kit.tasks(domain, "heldout", count, "evaluate", kit.recipe.evaluate.seed)
        pairs = zip(*(outcomes[f"{model}/{domain}/{effort}"]["within"] for model in ("sft", "experts")))
        for task, pair in zip(tasks, pairs):
            if min(pair) >= 0:
                found[task.family].append(pair)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    given = parser.parse_args()
    run = Run.open(given.run)
    kit, journal = Kit(recipe=stored_recipe(run), run=run), Journal.of(run)
    cpu = sum(event["cpu"] for event in journal.finished.values())
    figures: dict[str, object] = {"cpu_seconds": cpu}
    better = 0
    print(f"{'family':<14}{'tasks':>6}{'SFT':>8}{'experts':>9}   difference")
    for family, pairs in differences(kit).items():
        sft, experts = np.array(pairs).T
        gain, error = (experts - sft).mean(), (experts - sft).std(ddof=1) / math.sqrt(len(pairs))
        better += bool(gain > ERRORS * error)
        figures[family] = {"tasks": len(pairs), "sft": sft.mean(), "experts": experts.mean(), "gain": gain, "error": error}
        print(f"{family:<14}{len(pairs):>6}{sft.mean():>8.3f}{experts.mean():>9.3f}   {gain:+.3f} ± {error:.3f}")
    transfer = Figures.of(run, journal).transfer
    for family, models in transfer.items():
        for model, by_effort in models.items():
            shown = "  ".join(f"{effort} {f['pass']:.3f} ± {f.get('within_se', 0):.3f}" for effort, f in by_effort.items())
            print(f"{family}, never trained: {model:<16} {shown}")
    print(f"{better} families gain more than {ERRORS:g} standard errors; {cpu:,.0f} CPU-seconds")
    ok = better >= FAMILIES and cpu <= CPU_SECONDS and bool(transfer)
    against = {"families": FAMILIES, "standard errors": ERRORS, "cpu_seconds": CPU_SECONDS}
    print(json.dumps({"bench": "families", "figures": {**figures, "transfer": transfer}, "against": against, "ok": ok}))


if __name__ == "__main__":
    main()
