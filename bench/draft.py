"""The draft of a finished run: how often its first token is taken, and whether speculation changes what is sampled.

`python bench/draft.py --run runs/nano` lets the student play held-out tasks at temperature 1 with one drafted token at a time,
then samples short continuations of the same contexts with and without the draft and compares their counts by a χ² test; the
same test against temperature 0.8 shows that it would see a difference. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from ninefold.core.protocols import Completion, Engine, Request
from ninefold.core.seeds import rng_of, seed_of
from ninefold.core.store import Run
from ninefold.core.types import Effort, IntArray, Task, Trajectory
from ninefold.engine.speculative import SpeculativeConfig, SpeculativeEngine
from ninefold.recipes.draft import load_draft
from ninefold.recipes.kit import Kit
from ninefold.rollout.play import lineup, play

NEW = 4
"""Tokens of a continuation: enough for a round that takes every proposal, one that refuses, and the next."""
EXPECTED = 5.0
"""Least expected count of a χ² category; rarer continuations are counted together."""


class Counting(SpeculativeEngine):
    """Adds up what was proposed and taken."""

    drafted = 0
    accepted = 0

    def poll(self) -> list[Completion]:
        done = super().poll()
        self.drafted += sum(completion.drafted for completion in done)
        self.accepted += sum(completion.accepted for completion in done)
        return done


def speculative(kit: Kit, proposals: int) -> Counting:
    return Counting(
        kit.load("mopd"), load_draft(kit), stop_ids=kit.chat.stop_ids, config=SpeculativeConfig(proposals=proposals)
    )


def rollouts(kit: Kit, engine: Engine, tasks: int) -> list[Trajectory]:
    """The student's attempts at `tasks` held-out tasks of every cell."""
    prompts: list[tuple[Task, Effort]] = [
        (task, effort) for domain, effort in kit.cells for task in kit.tasks(domain, "heldout", tasks, "bench draft", effort)
    ]
    return play(lineup(prompts, seed=seed_of("bench draft"), name="draft/"), engine=engine, scene=kit.scene)


def contexts_of(played: Sequence[Trajectory], count: int) -> list[IntArray]:
    """`count` rows cut at random before a sampled token."""
    rng = rng_of("contexts")
    rows = [row for trajectory in played for row in trajectory.rows if row.sampled_mask.any()]
    chosen = rng.sample(rows, min(count, len(rows)))
    return [row.ids[: rng.choice(np.flatnonzero(row.sampled_mask).tolist())] for row in chosen]


def continuations(
    engine: Engine, contexts: Sequence[IntArray], samples: int, name: str, *, temperature: float = 1.0
) -> list[Counter[bytes]]:
    """For each context, how often each continuation of up to NEW tokens was sampled."""
    counts: list[Counter[bytes]] = []
    for c, ids in enumerate(contexts):
        requests = [
            Request(id=s, session=s, ids=ids, max_new=NEW, seed=seed_of(s), temperature=temperature)
            for s in (f"{name}/{c}/{n}" for n in range(samples))
        ]
        engine.submit(requests)
        counts.append(Counter())
        while engine.in_flight:
            for completion in engine.poll():
                counts[-1][completion.ids.tobytes()] += 1
                engine.release(completion.request)
    return counts


def chi_squared(ours: Sequence[Counter[bytes]], theirs: Sequence[Counter[bytes]]) -> tuple[float, int, float]:
    """(χ², degrees of freedom, p) of the hypothesis that both sample one distribution in every context; equal sample sizes."""
    statistic, freedom = 0.0, 0
    for one, other in zip(ours, theirs, strict=True):
        assert one.total() == other.total()
        pairs = np.array([(one[key], other[key]) for key in one.keys() | other.keys()], float)
        common = pairs.sum(1) >= 2 * EXPECTED
        rest = pairs[~common].sum(0)
        table = np.vstack([pairs[common], rest]) if rest.sum() >= 2 * EXPECTED else pairs[common]
        if len(table) > 1:
            statistic += float(((table[:, 0] - table[:, 1]) ** 2 / table.sum(1)).sum())
            freedom += len(table) - 1
    if not freedom:
        return statistic, 0, 1.0
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return statistic, freedom, float(torch.special.gammaincc(half[0], half[1]))


def main() -> None:
    from ninefold.app.configuration import stored_recipe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=64, help="held-out tasks a cell for the acceptance")
    parser.add_argument("--contexts", type=int, default=36)
    parser.add_argument("--samples", type=int, default=1000, help="continuations of each context by each engine")
    parser.add_argument("--proposals", type=int, default=3, help="drafted at a time in the χ² test")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run = Run.open(arguments.run)
    kit = Kit(recipe=stored_recipe(run), run=run)

    engine = speculative(kit, proposals=1)
    played = rollouts(kit, engine, arguments.tasks)
    rate = engine.accepted / engine.drafted
    error = float(np.sqrt(rate * (1 - rate) / engine.drafted))
    print(f"first drafted token taken: {rate:.4f} ± {error:.4f} of {engine.drafted} on {len(played)} held-out rollouts")

    contexts = contexts_of(played, arguments.contexts)
    plain = kit.engine(kit.load("mopd"))
    ours = continuations(speculative(kit, arguments.proposals), contexts, arguments.samples, "speculative")
    theirs = continuations(plain, contexts, arguments.samples, "plain")
    cooler = continuations(plain, contexts, arguments.samples, "cooler", temperature=0.8)
    statistic, freedom, p = chi_squared(ours, theirs)
    *_, control = chi_squared(ours, cooler)
    print(f"speculative against plain: χ² {statistic:.1f}, {freedom} degrees of freedom, p {p:.3f}")
    print(f"temperature 0.8 against plain: p {control:.1e}")

    figures = {"accept_first": rate, "accept_first_se": error, "drafted": engine.drafted}
    figures |= {"chi2": statistic, "freedom": freedom, "p": p, "p_temperature_0.8": control}
    ok = rate >= 0.6 and p >= 0.001 and control < 1e-6
    print(json.dumps({"bench": "draft", "figures": figures, "against": {"accept_first": 0.6, "p": 0.001}, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()
