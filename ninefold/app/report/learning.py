"""Sections on how training went: losses, expert loads, reinforcement learning, distillation, draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninefold.app.journal import Event, Journal, Place
from ninefold.app.report.chart import PALETTE, Chart, bars, cell_line, line
from ninefold.app.report.section import Section, section
from ninefold.learn.spikes import spikes

LOSS_STAGES = {"pretrain": "Pre-training", "sft": "SFT", "pooled": "SFT on the experts' trajectories"}


def losses(journal: Journal) -> Section:
    """Training loss per stage, held-out loss per text domain."""
    charts = [_losses(journal, stage, title) for stage, title in LOSS_STAGES.items()] + _vision(journal)
    return section(
        "Losses",
        "Mean nats per token of each step; in pre-training also on held-out documents of each text domain, which are in no "
        "training batch. Where the model reads pictures, also the gradient norm of what it sees with; a spike is over four "
        "times the median of the fifty steps before.",
        charts=charts,
        until="No stage has logged a step yet.",
    )


def _losses(journal: Journal, stage: str, title: str) -> Chart:
    traces = [line(journal.all("step", stage), "loss", "train", color=PALETTE[5])]
    heldout = journal.all("heldout", stage)
    for i, domain in enumerate(heldout[-1]["losses"] if heldout else ()):
        points = [{"step": event["step"], "loss": event["losses"].get(domain)} for event in heldout]
        traces.append({**line(points, "loss", f"held-out {domain}", color=PALETTE[i]), "mode": "lines+markers"})
    return Chart(title=title, x="step", traces=tuple(traces))


def _vision(journal: Journal) -> list[Chart]:
    """Gradient norms of tower and projector, and how many stand out; nothing for a model that reads no pictures."""
    traces: list[dict[str, Any]] = []
    for i, (stage, title) in enumerate(LOSS_STAGES.items()):
        events = [event for event in journal.all("step", stage) if "vision/grad_norm" in event]
        if events:
            found = len(spikes([event["vision/grad_norm"] for event in events]))
            traces.append(line(events, "vision/grad_norm", f"{title}: {found} spikes", color=PALETTE[i]))
    return [Chart(title="Gradient norm of the vision tower", x="step", traces=tuple(traces))] if traces else []


def loads(journal: Journal) -> Section:
    """Balance of the routed experts."""
    places = [place for place in journal.places("step") if place.stage != "draft"]
    series = {_name(place): [_worst(event) for event in journal.all("step", place.stage, place.cell)] for place in places}
    charts = [
        Chart(
            title=title,
            x="step",
            traces=tuple(line(events, field, name, color=PALETTE[i % 8]) for i, (name, events) in enumerate(series.items())),
            y={"rangemode": "tozero"},
        )
        for title, field in (("Busiest expert over the mean load", "overload"), ("Share of experts without a token", "dead"))
    ]
    return section(
        "Expert loads",
        "The worst layer of each step. A router that has collapsed shows here first; training stops with a reason where it "
        "stays so.",
        charts=charts,
        until="No step of a mixture-of-experts model is logged yet.",
    )


def _worst(event: Event) -> Event:
    worst = {
        name: max((value for key, value in event.items() if key.endswith(f".{name}")), default=None)
        for name in ("overload", "dead")
    }
    return {"step": event["step"], **worst}


def _name(place: Place) -> str:
    return f"{place.stage} {place.cell}".strip()


def reinforcement(journal: Journal) -> Section:
    """The nine experts over their iterations."""
    shown = {
        "Reward (−1 over budget)": "dispatched/reward",
        "Passed": "dispatched/outcome",
        "Generated tokens": "dispatched/new_tokens",
        "Over budget": "dispatched/over",
        "Assistant turns": "dispatched/turns",
    }
    charts = [_cells(journal, "step", title, field) for title, field in shown.items()]
    charts.append(_cells(journal, "dev", "Dev tasks: pass within budget", "within"))
    return section(
        "Reinforcement learning",
        "Each cell is one expert: a colour per domain, a dash per effort. Figures are means over the groups that were learned "
        "from at that step, a vote per trajectory.",
        charts=charts,
        until="No expert has taken a step yet.",
    )


def _cells(journal: Journal, kind: str, title: str, field: str) -> Chart:
    places = journal.places(kind, "rl")
    traces = [cell_line(journal.all(kind, "rl", place.cell), field, place.cell) for place in places if place.cell]
    return Chart(title=title, x="iteration", traces=tuple(traces))


def staleness(journal: Journal) -> Section:
    """What partial rollout does to the objective."""
    lam = journal.recipe.get("rl", {}).get("lam")
    policy = journal.recipe.get("rl", {}).get("policy", {})
    shown = {
        "Share of tokens outside the clip": "policy/outside_share",
        "Pull τρ² per token": "policy/pull",
        "Share of trajectories that were resumed": "dispatched/resumed",
    }
    stated = f"λ = {lam}; log-ratios outside [{policy.get('low')}, {policy.get('high')}] are clipped, τ = {policy.get('tau')}."
    return section(
        "Partial rollout",
        "Generation pauses when a share λ of the trajectories is complete, the rest goes on under the next weights: ρ is the "
        "log-ratio between the weights that learn and those that sampled. Clip and pull are means over the rows that can move "
        f"the weights: with an advantage, or sampled by earlier weights. {stated if lam else ''}",
        charts=[_cells(journal, "step", title, field) for title, field in shown.items()],
        until="No expert has taken a step yet.",
    )


def distillation(journal: Journal) -> Section:
    """MOPD's reverse KL."""
    stages = [place.stage for place in journal.places("step") if place.stage.startswith("mopd")]
    traces = [line(journal.all("step", stage), "distill/reverse_kl", stage, color=PALETTE[i]) for i, stage in enumerate(stages)]
    chart = Chart(title="Exact reverse KL to the cell's expert, nats per token", x="step", traces=tuple(traces))
    return section(
        "Multi-teacher distillation",
        "The student's own rollouts at every effort, each scored by the expert of its cell.",
        charts=[chart],
        until="Distillation has not begun.",
    )


def draft(journal: Journal) -> Section:
    """Acceptance of speculative decoding."""
    event = journal.last("acceptance") or {}
    positions = _positions(event)
    names = [f"{name.removeprefix('accept_')}." for name in positions]
    charts = [
        Chart(
            title="Probability of acceptance on held-out rollouts",
            x="drafted token, given those before it",
            traces=(bars(names, [event[name] for name in positions], "acceptance", PALETTE[0]),),
            y={"range": [0, 1]},
        )
    ]
    steps = journal.all("step", "draft")
    names = [f"draft/{name}" for name in _positions({key.removeprefix("draft/"): 0 for key in (steps[-1] if steps else ())})]
    traces = tuple(line(steps, name, name.rpartition("_")[2], color=PALETTE[i % 8]) for i, name in enumerate(names))
    charts.append(Chart(title="During training, by position", x="step", traces=traces, y={"range": [0, 1]}))
    return section(
        "Draft model",
        "Speculative sampling at temperature 1 leaves the distribution as it is; a higher acceptance makes it faster.",
        charts=charts,
        until="The draft is not trained yet.",
    )


def _positions(event: Event) -> Sequence[str]:
    found = [name for name in event if name.startswith("accept_") and name.removeprefix("accept_").isdigit()]
    return sorted(found, key=lambda name: int(name.removeprefix("accept_")))
