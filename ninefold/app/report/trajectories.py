"""Sample trajectories, turn by turn, down to tokens with masks, log-probabilities and policy versions."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from html import escape

from ninefold.app.report.section import Section, section
from ninefold.chat.tokenizer import Tokenizer
from ninefold.core.picture import Picture
from ninefold.core.store import Run
from ninefold.core.types import Segment, Trajectory, Turn
from ninefold.media.png import to_png
from ninefold.media.scene import draw
from ninefold.rollout.store import read_trajectories

PER_FILE = 2
"""Of each cell: the first that passed and the first that failed."""

SHOWN = 96
"""Pixels of the page that a picture is wide at least, as far as whole multiples go."""

Decode = Callable[[int], str]


def samples(run: Run) -> Section:
    """A passed and a failed attempt of each cell."""
    folder = run.path / "trajectories"
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    tokenizer = run.stage("corpus") / "tokenizer.json"
    decode = _decoder(Tokenizer.load(tokenizer)) if tokenizer.exists() else str
    shown = [trajectory for file in files for trajectory in _chosen(read_trajectories(file))]
    return section(
        "Trajectories",
        "The final model on held-out tasks. Tokens that it sampled, and is taught on, are marked; point at one for its id, "
        "log-probability and the version of the weights that sampled it.",
        body="".join(trajectory_html(trajectory, decode) for trajectory in shown),
        until="No trajectories are stored yet.",
    )


def _decoder(tokenizer: Tokenizer) -> Decode:
    return lambda token: tokenizer.decode([token])


def _chosen(trajectories: Iterator[Trajectory]) -> list[Trajectory]:
    first: dict[str, Trajectory] = {}
    for trajectory in trajectories:
        first.setdefault(trajectory.result.status, trajectory)
        if len(first) == PER_FILE:
            break
    return list(first.values())


def trajectory_html(trajectory: Trajectory, decode: Decode) -> str:
    """One trajectory as a fold."""
    task, result = trajectory.task, trajectory.result
    head = (
        f'<b>{escape(task.domain)} · {escape(trajectory.effort)}</b> <span class="{result.status}">{result.status}</span> '
        f"<small>{trajectory.new_tokens} tokens, {len(trajectory.turns)} turns, {escape(task.family)}</small>"
    )
    facts = f"{trajectory.id} · harness {trajectory.composition.get('name', '?')} · stopped: {trajectory.stop}"
    if task.budget is not None:
        facts += f" · spend {trajectory.spend} of b₀ = {task.budget.tokens:.0f}"
    if result.detail:
        facts += f" · {result.detail}"
    turns = "".join(_turn(trajectory, turn) for turn in trajectory.turns)
    asked = _pictures([draw(scene) for scene in task.pictures])
    rows = "".join(f'<div class="tokens">{"".join(_segment(s, decode) for s in row.segments)}</div>' for row in trajectory.rows)
    return (
        f'<details id="{escape(trajectory.id)}"><summary>{head}</summary><p><small>{escape(facts)}</small></p>'
        f'<div class="said user"><i>task</i>{asked}{escape(task.instruction)}</div>{turns}'
        f"{''.join(trajectory_html(agent, decode) for agent in trajectory.agents)}"
        f"<details><summary>tokens</summary>{rows}</details></details>"
    )


def _pictures(pictures: Sequence[Picture]) -> str:
    """Pictures within the page, small ones larger."""
    return "".join(
        f'<img src="data:image/png;base64,{base64.b64encode(to_png(picture)).decode()}" '
        f'width="{picture.width * max(1, SHOWN // picture.width)}" alt="picture {picture.width}×{picture.height}"> '
        for picture in pictures
    )


def _turn(trajectory: Trajectory, turn: Turn) -> str:
    parts = [f'<div class="said think"><i>thinks</i>{escape(turn.think)}</div>' if turn.think else ""]
    if turn.response:
        parts.append(f'<div class="said"><i>says</i>{escape(turn.response)}</div>')
    for i, call in enumerate(turn.calls):
        arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        trouble = f' <span class="fail">{escape(call.error)}</span>' if call.error else ""
        parts.append(f'<div class="said call"><i>calls</i>{escape(call.tool)}({escape(arguments)}){trouble}</div>')
        if i < len(turn.observations):
            seen = _pictures(trajectory.seen(turn, i)) + escape(turn.observations[i])
            parts.append(f'<div class="said tool"><i>sees</i>{seen}</div>')
    return "".join(parts)


def _segment(segment: Segment, decode: Decode) -> str:
    version = "" if segment.policy_version is None else f", version {segment.policy_version}"
    ends = "" if segment.finish_reason is None else f", {segment.finish_reason}"
    head = f"<i>{escape(segment.role)} {segment.message}, {segment.source}{version}{ends}</i>"
    spans: list[str] = []
    for i, (token, learned) in enumerate(zip(segment.ids.tolist(), segment.loss_mask.tolist())):
        score = "" if segment.logprobs is None else f" ln p {segment.logprobs[i]:.2f}"
        text = escape(decode(token)).replace("\n", "⏎\n")
        spans.append(f'<span{" class=learned" if learned else ""} title="{token}{score}">{text}</span>')
    return f"<div>{head}{''.join(spans)}</div>"
