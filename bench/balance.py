"""Router balance on a skewed router: Quantile Balancing, exact and by histogram, against the sign rule.

    python bench/balance.py                            # 64 experts, 4 active
    python bench/balance.py --experts 896 --active 16 --tokens 8192 --steps 200

Every step draws fresh tokens; the router itself does not learn. Expert e's logits are normal around −3 to 3, rising with e, so
that without a bias most experts are idle. Each rule sees the same tokens and routes a step with the bias that it made of the
steps before. Loads are of the step shown. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from ninefold.model.ops.balance import MarginHistogram, dead_share, exact_bias, expert_load, max_over_mean, sign_bias
from ninefold.model.ops.moe import route

SKEW = 3.0
"""The busiest expert's mean logit; the idlest one's is −SKEW."""
SIGN_STEP = 1e-3
SHOWN = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
LATE = 20
"""The figures are means over so many last steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """One step's routing."""

    scores_TE: Tensor
    cutoff_T: Tensor
    """The best score + bias that was not chosen."""
    load_E: Tensor
    active: int
    """Experts a token."""


Rule = Callable[[Tensor, Routed], Tensor]
"""(bias that the step was routed with, its routing) → next bias."""


def by_histogram(bias_E: Tensor, step: Routed) -> Tensor:
    histogram = MarginHistogram.empty(bias_E)
    histogram.add(step.scores_TE, step.cutoff_T)
    return histogram.bias(step.active).float()


RULES: dict[str, Rule] = {
    "QB exact": lambda _, step: exact_bias(step.scores_TE, step.cutoff_T, step.active),
    "QB histogram": by_histogram,
    "sign": lambda bias_E, step: sign_bias(bias_E, step.load_E, SIGN_STEP),
}


@dataclass(slots=True, kw_only=True)
class Course:
    """What one rule did."""

    bias_E: Tensor
    overload: list[float] = field(default_factory=list[float])
    """Max/mean load of each step."""
    dead: list[float] = field(default_factory=list[float])
    """Share of experts without a token in each step."""
    seconds: float = 0.0
    """CPU, of the rule alone."""

    def step(self, rule: Rule, scores_TE: Tensor, active: int) -> None:
        index_Tk, _, cutoff_T = route(scores_TE, self.bias_E, active)
        load_E = expert_load(index_Tk, len(self.bias_E))
        self.overload.append(max_over_mean(load_E))
        self.dead.append(dead_share(load_E))
        began = time.process_time()
        self.bias_E = rule(self.bias_E, Routed(scores_TE=scores_TE, cutoff_T=cutoff_T, load_E=load_E, active=active))
        self.seconds += time.process_time() - began


def run(experts: int, active: int, tokens: int, steps: int, seed: int) -> dict[str, Course]:
    generator = torch.Generator().manual_seed(seed)
    courses = {name: Course(bias_E=torch.zeros(experts)) for name in RULES}
    for _ in track(range(steps), "balancing", console=Console(stderr=True), transient=True):
        logits_TE = torch.randn(tokens, experts, generator=generator) + torch.linspace(-SKEW, SKEW, experts)
        for name, course in courses.items():
            course.step(RULES[name], torch.sigmoid(logits_TE), active)
    return courses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=int, default=64)
    parser.add_argument("--active", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=4096, help="per step")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    courses = run(**vars(arguments))
    table = Table("step", *[f"{name}: max/mean, dead" for name in courses])
    for step in [n for n in SHOWN if n <= arguments.steps]:
        table.add_row(f"{step:,}", *[f"{c.overload[step - 1]:.2f}, {c.dead[step - 1]:.0%}" for c in courses.values()])
    table.add_section()
    table.add_row("ms a step", *[f"{1e3 * c.seconds / arguments.steps:.2f}" for c in courses.values()])
    Console(width=110).print(table)
    figures: dict[str, float] = {}
    for name, course in courses.items():
        late = slice(-LATE, None)
        figures[f"{name}: max/mean"] = sum(course.overload[late]) / len(course.overload[late])
        figures[f"{name}: dead"] = sum(course.dead[late]) / len(course.dead[late])
        below = next((n for n, load in enumerate(course.overload) if load < 2), None)
        figures[f"{name}: updates to max/mean < 2"] = arguments.steps if below is None else below
    quick = [figures[f"{name}: updates to max/mean < 2"] for name in RULES]
    held = {
        "QB, both forms, below max/mean 2 sooner than the sign rule": max(quick[:2]) < quick[2],
        "QB, both forms, leaves no expert idle": figures["QB exact: dead"] == figures["QB histogram: dead"] == 0,
    }
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"bench": "balance", **vars(arguments), "figures": rounded, "against": held, "ok": all(held.values())}))
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
