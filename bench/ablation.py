"""What K3's parts buy in pre-training, each arm at its own learning rate; and K3 against a K2-style model by compute.

    nice python bench/ablation.py                  # all that is missing, run by run; may be stopped at any time
    nice python bench/ablation.py --minutes 60     # as much of it as fits
    python bench/ablation.py --report              # tables of what has run

Every run is one line of bench/ablation.jsonl with what fixes it. Pre-training is the nano recipe's own (`learn_language`) on
its corpus, which `--corpus DIR` keeps; half of the tokens are real text, half worksheets, so that both can be judged. An arm's
learning rates, Muon's and AdamW's together, are searched by factors of 2 on seed 0 for the lowest held-out text loss until the
best lies inside; that factor holds for the arm's other seeds and token budgets. Differences are paired by seed, which fixes
initial weights and batches. Compute is what `ninefold.model.inspect` counts for training, windows taken as full. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from ninefold.core.errors import Diverged
from ninefold.core.store import Run, is_complete
from ninefold.core.types import Sample
from ninefold.data.corpus.document import TEXT_DOMAINS
from ninefold.data.corpus.mixture import Mixture
from ninefold.data.corpus.skills import page
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.parallel import World
from ninefold.model.config import K3Config
from ninefold.model.inspect import inspect
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.recipes.config import PretrainConfig, Recipe, StepSizes
from ninefold.recipes.kit import Kit
from ninefold.recipes.pretrain import heldout_losses, learn_language, load_mixture
from ninefold.recipes.run import run_recipe
from ninefold.recipes.whole import nano, smoke

RESULTS = Path(__file__).with_name("ablation.jsonl")
RATES = {"code": 0.125, "web": 0.125, "mathematics": 0.125, "knowledge": 0.125, "skills": 0.5}
ARMS: dict[str, dict[str, Any]] = {
    "base": {},
    "full Muon": {"muon_per_head": False},
    "SwiGLU": {"hidden_act": "silu"},
    "no AttnRes": {"attn_res_block_size": None},
    "sign bias": {"router_balance": "sign"},
    "no latent norm": {"latent_moe_use_norm": False},
    "k2": {},
    "MLA for KDA": {"full_attn_layers": (0, 1, 2, 3), "mla_use_nope": False, "mla_use_output_gate": False},
}
"""Name → what departs from the K3 preset; `k2` is a preset of its own, and the last is its attention alone."""
SHARED = {"batch_tokens", "stages", "step_sizes", "floor", "weight_decay", "mtp_weight", "heldout_tokens"}
"""Of the recipe's pre-training, what is the same for all runs."""
LATE = 10
"""Loads are means over so many last steps."""
STUDENT_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Samples → 97.5 % quantile of t."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One pre-training."""

    arm: str
    size: str
    """Of the preset."""
    tokens: int
    factor: float
    """Of the recipe's learning rates."""
    seed: int


Found = Mapping[Job, Mapping[str, Any]]
"""Jobs that have run, with their results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which runs are wanted, the most telling first."""

    ablated: str = "nano"
    """Size of the ablations; of four layers."""
    arms: tuple[str, ...] = ("base", "full Muon", "SwiGLU", "no AttnRes", "sign bias", "no latent norm", "k2")
    also: tuple[str, ...] = ("MLA for KDA",)
    """Arms that are run last."""
    compared: tuple[str, ...] = ("nano", "tiny", "micro")
    """Sizes of K3 against k2, the one that is searched already first."""
    tokens: int = 524_288
    """Of an ablation run."""
    budgets: tuple[float, ...] = (0.5, 2.0)
    """Shares of `tokens` that K3 and k2 are trained on besides."""
    seeds: tuple[int, ...] = (0, 1, 2)
    factors: tuple[float, ...] = (1.0, 2.0)
    """Tried by every arm; then beyond the edge where the best lies there."""
    furthest: float = 8.0
    """Largest factor, and its inverse the smallest."""

    def jobs(self, found: Found) -> Iterator[Job]:
        """In order. Until a search is over, what depends on it is guessed at its best so far: only the first missing counts."""
        yield from self._at_own_rate(found, self.ablated, self.arms)
        for size in self.compared:
            yield from self._compared(found, size, ("base", "k2"))
        yield from self._at_own_rate(found, self.ablated, self.also)

    def _compared(self, found: Found, size: str, pair: Sequence[str]) -> Iterator[Job]:
        yield from self._at_own_rate(found, size, pair)
        for share in self.budgets:
            for seed in self.seeds:
                for arm in pair:
                    yield replace(self._job(arm, size, self.best(found, arm, size), seed), tokens=round(share * self.tokens))

    def _at_own_rate(self, found: Found, size: str, arms: Sequence[str]) -> Iterator[Job]:
        for factor in self.factors:
            for arm in arms:
                yield self._job(arm, size, factor, self.seeds[0])
        for arm in arms:
            if (further := self.beyond(found, arm, size)) is not None:
                yield self._job(arm, size, further, self.seeds[0])
        for seed in self.seeds[1:]:
            for arm in arms:
                yield self._job(arm, size, self.best(found, arm, size), seed)

    def _job(self, arm: str, size: str, factor: float, seed: int) -> Job:
        return Job(arm=arm, size=size, tokens=self.tokens, factor=factor, seed=seed)

    def searched(self, found: Found, arm: str, size: str) -> dict[float, float]:
        """Factor → held-out text loss on the first seed."""
        first = self._job(arm, size, 1.0, self.seeds[0])
        return {j.factor: r["text"] for j, r in found.items() if replace(j, factor=1.0) == first}

    def best(self, found: Found, arm: str, size: str) -> float:
        """The factor with the lowest loss so far; 1 before any has run."""
        losses = self.searched(found, arm, size)
        return min(losses, key=lambda factor: losses[factor], default=1.0)

    def beyond(self, found: Found, arm: str, size: str) -> float | None:
        """The next factor to try, where the best of those tried lies at their edge."""
        losses = self.searched(found, arm, size)
        if not set(self.factors) <= losses.keys():
            return None
        best = self.best(found, arm, size)
        further = best / 2 if best == min(losses) else best * 2
        inside = min(losses) < best < max(losses)
        return None if inside or not 1 / self.furthest <= further <= self.furthest else further


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The corpus and how to train on it."""

    mixture: Mixture
    pretrain: PretrainConfig
    vocabulary: int
    setting: str
    """Hash of the corpus, the tokenizer and everything about training that is the same for all jobs."""

    @staticmethod
    def of(run: Run, recipe: Recipe) -> Bench:
        """On the corpus in `run`, which is made first if it is not there."""
        if not is_complete(run.stage("corpus")):
            run_recipe(recipe, run, until="corpus")
        kit = Kit(recipe=recipe, run=run)
        corpus = recipe.corpus.model_copy(update={"rates": RATES})
        mixture = replace(load_mixture(kit), config=corpus)
        texts = [ids.tobytes() for name in TEXT_DOMAINS for ids in (mixture.train[name], *mixture.heldout[name])]
        shared = [RATES, corpus.skills.model_dump(), recipe.pretrain.model_dump(mode="json", include=SHARED)]
        tokenizer = (run.stage("corpus") / "tokenizer.json").read_bytes()
        setting = hashlib.sha256(b"\0".join([tokenizer, json.dumps(shared).encode(), *texts])).hexdigest()[:12]
        return Bench(mixture=mixture, pretrain=recipe.pretrain, vocabulary=kit.tokenizer.vocab_size, setting=setting)

    def model_of(self, job: Job) -> K3Config:
        name = f"k2-{job.size}" if job.arm == "k2" else job.size
        return preset(name, self.vocabulary).model_copy(update=ARMS[job.arm])

    def training_of(self, job: Job) -> PretrainConfig:
        sizes = self.pretrain.step_sizes
        scaled = StepSizes(muon=job.factor * sizes.muon, adamw=job.factor * sizes.adamw)
        # The loss is wanted at the end only, and a run that is cut off begins anew.
        rare = {"evaluate_every": job.tokens, "save_every": job.tokens}
        return self.pretrain.model_copy(update={"tokens": job.tokens, "step_sizes": scaled, **rare})

    def flops(self, job: Job) -> float:
        """Of the whole training."""
        stages = self.pretrain.stages
        context = sum(stage.share * (stage.length - 1) / 2 for stage in stages) / sum(stage.share for stage in stages)
        return job.tokens * inspect(self.model_of(job)).training_flops(context)

    def run(self, job: Job) -> dict[str, Any]:
        """Train, and what came of it; a run that diverged has infinite losses."""
        began, config, steps = time.process_time(), self.training_of(job), list[dict[str, Any]]()

        def emit(event: str, **fields: Any) -> None:
            if event == "step":
                steps.append(fields)

        model = K3(self.model_of(job), seed=job.seed)
        outcome: dict[str, Any] = {"text": math.inf, "worksheets": math.inf}
        with tempfile.TemporaryDirectory() as folder:
            try:
                learn_language(World(), model, self.mixture, config, job.seed, Path(folder), emit)
            except Diverged as error:
                outcome["diverged"] = str(error)
            else:
                domains = heldout_losses(model, self.mixture, config)
                outcome = {"text": fmean(domains.values()), "worksheets": self.worksheets_loss(model), "domains": domains}
        late = steps[-LATE:]
        loads = {
            kind: fmean(v for step in late for k, v in step.items() if k.endswith(f".{kind}")) for kind in ("overload", "dead")
        }
        counted = {"parameters": inspect(model.config).total, "flops": self.flops(job)}
        return rounded({**outcome, **loads, **counted, "cpu": time.process_time() - began})

    @torch.no_grad()
    def worksheets_loss(self, model: K3) -> float:
        """Mean nats per token of pages that no training window is cut from, as many tokens as of all text domains."""
        length, tokens = self.pretrain.stages[-1].length, len(TEXT_DOMAINS) * self.pretrain.heldout_tokens
        pages = [page(self.mixture.config.skills, 2 * length, "ablation", n) for n in range(tokens // length)]
        windows = [self.mixture.encode(text)[:length] for text in pages]
        samples = [Sample(ids=ids, mask=np.ones(len(ids), np.bool_)) for ids in windows]
        parts = [sft_loss(model, batch) for batch in micro_batches(samples, self.pretrain.batch_tokens)]
        return float(sum(part.total for part in parts)) / sum(part.tokens for part in parts)


def rounded(value: Any) -> Any:
    """Floats to seven digits; what is not finite is none, for JSON has no word for it."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def job_of(line: Mapping[str, Any]) -> Job:
    return Job(**{name: line[name] for name in ("arm", "size", "tokens", "factor", "seed")})


def result_of(line: Mapping[str, Any]) -> dict[str, Any]:
    """With the infinite losses of a run that diverged."""
    return {name: math.inf if value is None else value for name, value in line["result"].items()}


def fingerprint(config: K3Config) -> str:
    return hashlib.sha256(config.model_dump_json().encode()).hexdigest()[:12]


# Running.


def fill(plan: Plan, bench: Bench, path: Path, minutes: float, console: Console) -> None:
    """Run what is missing, the most telling first, until the plan is done or the time is over."""
    lines, until = read(path), time.monotonic() + 60 * minutes
    while True:
        found = {
            job_of(line): result_of(line)
            for line in lines
            if line["setting"] == bench.setting and line["model"] == fingerprint(bench.model_of(job_of(line)))
        }
        missing = list(dict.fromkeys(job for job in plan.jobs(found) if job not in found))
        if not missing or time.monotonic() > until:
            return
        job = missing[0]
        line = {**asdict(job), "setting": bench.setting, "model": fingerprint(bench.model_of(job)), "result": bench.run(job)}
        with path.open("a") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        lines.append(line)
        speed = sum(bench.flops(job_of(line)) for line in lines) / sum(line["result"]["cpu"] for line in lines)
        left = sum(bench.flops(job) for job in missing[1:]) / speed / 60
        what = f"{job.size} {job.arm} ×{job.factor:g} seed {job.seed}, {job.tokens:,} tokens"
        result = result_of(line)
        console.print(
            f"{what}: text {result['text']:.4f}, worksheets {result['worksheets']:.4f}, {result['cpu']:.0f} CPU-s; "
            f"{len(missing) - 1} runs to go, about {left:.0f} CPU-minutes"
        )


# Reporting.


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval by Student's t; infinite for a single value."""
    mean = fmean(values)
    return mean, STUDENT_95[len(values)] * stdev(values) / len(values) ** 0.5 if len(values) > 1 else math.inf


def ablations(plan: Plan, found: Found) -> tuple[Table, dict[str, Any]]:
    """Every arm at its best factor, and its differences to base, paired by seed."""
    table = Table(
        "arm", "factors tried", "best", "seeds", "text loss", "worksheets", "Δ text", "Δ worksheets", "max/mean", "dead",
        title=f"{plan.ablated}, {plan.tokens:,} tokens: Δ to base paired by seed, 95 % interval",
    )  # fmt: skip
    figures: dict[str, Any] = {}

    def at_best(arm: str) -> dict[int, Mapping[str, Any]]:
        factor = plan.best(found, arm, plan.ablated)
        wanted = Job(arm=arm, size=plan.ablated, tokens=plan.tokens, factor=factor, seed=0)
        return {j.seed: r for j, r in found.items() if replace(j, seed=0) == wanted}

    base = at_best("base")
    for arm in (*plan.arms, *plan.also):
        runs, searched = at_best(arm), plan.searched(found, arm, plan.ablated)
        if not runs:
            continue
        best = plan.best(found, arm, plan.ablated)
        edge = "" if min(searched) < best < max(searched) else " (edge)"
        differences = {
            kind: interval([runs[s][kind] - base[s][kind] for s in sorted(runs.keys() & base.keys())])
            for kind in ("text", "worksheets")
            if arm != "base" and runs.keys() & base.keys()
        }
        tried = " ".join(f"{f:g}:{searched[f]:.3f}" for f in sorted(searched))
        means = {kind: fmean(r[kind] for r in runs.values()) for kind in ("text", "worksheets", "overload", "dead")}
        shown = [signed(*differences[kind]) if kind in differences else "" for kind in ("text", "worksheets")]
        table.add_row(
            arm, tried, f"×{best:g}{edge}", f"{len(runs)}", f"{means['text']:.4f}", f"{means['worksheets']:.4f}", *shown,
            f"{means['overload']:.2f}", f"{means['dead']:.1%}",
        )  # fmt: skip
        figures[arm] = {"factor": best, "seeds": len(runs), **means, **{f"Δ {k}": d for k, d in differences.items()}}
    return table, figures


def signed(mean: float, half: float) -> str:
    return f"{mean:+.4f} ± {half:.4f}" if math.isfinite(half) else f"{mean:+.4f}"


Curve = list[tuple[float, float]]
"""(compute, loss), compute rising."""


def curve(found: Found, plan: Plan, arm: str, size: str, seeds: Iterable[int], kind: str) -> Curve:
    """Mean loss over `seeds`, one of which may stand several times, at each token budget that all of them have run at."""
    factor, points = plan.best(found, arm, size), list[tuple[float, float]]()
    for share in sorted((1.0, *plan.budgets)):
        tokens = round(share * plan.tokens)
        jobs = [Job(arm=arm, size=size, tokens=tokens, factor=factor, seed=seed) for seed in seeds]
        if jobs and all(job in found for job in jobs):
            points.append((found[jobs[0]]["flops"], fmean(found[job][kind] for job in jobs)))
    return points


def compute_at(points: Curve, loss: float) -> float:
    """Compute at which the curve reaches `loss`, log-linear between its points and beyond its ends."""
    (c0, l0), (c1, l1) = next(((a, b) for a, b in pairwise(points) if b[1] <= loss), (points[-2], points[-1]))
    return c0 * (c1 / c0) ** ((loss - l0) / (l1 - l0))


def span(ours: Curve, theirs: Curve) -> tuple[float, float]:
    """Lowest and highest loss that both curves reach; the first is above the second where they reach none in common."""
    low = max(min(loss for _, loss in points) for points in (ours, theirs))
    return low, min(max(loss for _, loss in points) for points in (ours, theirs))


def ratio(ours: Curve, theirs: Curve) -> float:
    """Their compute over ours, at the loss in the middle of what both curves reach."""
    loss = fmean(span(ours, theirs))
    return compute_at(theirs, loss) / compute_at(ours, loss)


def falling(points: Curve) -> bool:
    return len(points) > 1 and all(b[1] < a[1] for a, b in pairwise(points))


def compared(plan: Plan, found: Found) -> tuple[Table, dict[str, Any]]:
    """K3 against k2 at each size, and how much more compute k2 needs for the same loss."""
    table = Table(
        "size", "loss", "best factors", "seeds", "K3: TFLOPs → loss", "k2: TFLOPs → loss", "k2/K3 compute at equal loss",
        title="K3 against k2 over token budgets; ratio with a 95 % bootstrap interval over seeds, all resamples",
    )  # fmt: skip
    figures: dict[str, Any] = {}
    for size in plan.compared:
        seeds = [s for s in plan.seeds if all(curve(found, plan, arm, size, [s], "text") for arm in ("base", "k2"))]
        if not seeds:
            continue
        for kind in ("text", "worksheets"):
            curves = [curve(found, plan, arm, size, seeds, kind) for arm in ("base", "k2")]
            shown = [", ".join(f"{c / 1e12:.3g} → {loss:.4f}" for c, loss in points) for points in curves]
            best = "×{:g}, ×{:g}".format(*(plan.best(found, arm, size) for arm in ("base", "k2")))
            said, figure = ratio_with_interval(plan, found, size, seeds, kind) if all(map(falling, curves)) else ("", None)
            table.add_row(size, kind, best, f"{len(seeds)}", *shown, said)
            figures[f"{size} {kind}"] = figure
    return table, figures


def ratio_with_interval(plan: Plan, found: Found, size: str, seeds: list[int], kind: str) -> tuple[str, dict[str, Any]]:
    def drawn(some: Sequence[int]) -> tuple[Curve, Curve]:
        ours, theirs = (curve(found, plan, arm, size, some, kind) for arm in ("base", "k2"))
        return ours, theirs

    ours, theirs = drawn(seeds)
    low, high = span(ours, theirs)
    if low > high:
        ahead = min(loss for _, loss in theirs) > max(loss for _, loss in ours)
        bound = theirs[-1][0] / ours[0][0] if ahead else theirs[0][0] / ours[-1][0]
        said = f"{'>' if ahead else '<'} {bound:.2f}: the curves do not overlap"
        return said, {"bound": bound, "side": "above" if ahead else "below", "seeds": len(seeds)}
    value, draws = ratio(ours, theirs), map(drawn, product(seeds, repeat=len(seeds)))
    ratios = sorted(ratio(*pair) for pair in draws if all(map(falling, pair)))
    low, high = ratios[int(0.025 * len(ratios))], ratios[math.ceil(0.975 * len(ratios)) - 1]
    return f"{value:.2f} [{low:.2f}, {high:.2f}]", {"ratio": value, "low": low, "high": high, "seeds": len(seeds)}


def report(plan: Plan, path: Path, console: Console) -> dict[str, Any]:
    """Tables of the runs in `path` that share the last one's corpus and settings."""
    lines = read(path)
    current = [line for line in lines if line["setting"] == lines[-1]["setting"]]
    found = {job_of(line): result_of(line) for line in current}
    if len(current) < len(lines):
        console.print(f"{len(lines) - len(current)} runs of other settings are left out")
    missing = [job for job in dict.fromkeys(plan.jobs(found)) if job not in found]
    tables, figures = zip(ablations(plan, found), compared(plan, found))
    for table in tables:
        console.print(table)
    hours = sum(result["cpu"] for result in found.values()) / 3600
    diverged = sum("diverged" in result for result in found.values())
    console.print(f"{len(found)} runs, {hours:.2f} CPU-hours, {diverged} diverged; {len(missing)} of the plan have not run")
    return {"ablations": figures[0], "compute": figures[1], "runs": len(found), "missing": len(missing), "cpu_hours": hours}


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="print from the results alone")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--corpus", type=Path, default=Path("runs/ablation"), help="run folder that holds the corpus")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no run after so long")
    parser.add_argument("--smoke", action="store_true", help="a few steps of tiny models in a temporary folder: no results")
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    plan, console = Plan(), Console(width=180)
    with tempfile.TemporaryDirectory() if arguments.smoke else nullcontext("") as folder:
        path, run, recipe = arguments.results, Run(path=arguments.corpus), text_recipe()
        if arguments.smoke:
            plan, path, run, recipe = small_plan(), Path(folder, "results.jsonl"), Run(path=Path(folder, "run")), small_recipe()
        if not arguments.report:
            fill(plan, Bench.of(run, recipe), path, arguments.minutes, Console(width=180, file=sys.stderr))
        if not read(path):
            console.print(f"{path} holds no run")
            return 1
        figures = report(plan, path, console)
    done = not figures["missing"]
    print(json.dumps({"bench": "ablation", "figures": rounded(figures), "against": {"all runs done": done}, "ok": done}))
    return int(not done)


def text_recipe() -> Recipe:
    """The nano recipe without pictures."""
    recipe = nano()
    families = {
        domain: {name: levels for name, levels in of.items() if name != "picture"} for domain, of in recipe.families.items()
    }
    return recipe.model_copy(update={"preset": "nano", "families": families})


def small_plan() -> Plan:
    return Plan(ablated="tiny", compared=("tiny",), tokens=1024, budgets=(2.0,), seeds=(0, 1), factors=(1.0,), furthest=1.0)


def small_recipe() -> Recipe:
    recipe = smoke()
    sources = recipe.corpus.sources.model_copy(update={"code": ("typer",), "mathematics": ("mpmath",)})
    corpus = recipe.corpus.model_copy(update={"sources": sources, "max_characters": 60_000})
    pretrain = recipe.pretrain.model_copy(update={"batch_tokens": 1024, "heldout_tokens": 256})
    return recipe.model_copy(update={"corpus": corpus, "pretrain": pretrain, "families": {"general": {"arithmetic": (0,)}}})


if __name__ == "__main__":
    sys.exit(main())
