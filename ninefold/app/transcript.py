"""Trajectories and masked text on the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.text import Text

from ninefold.chat.markers import image_prompt
from ninefold.chat.tokenizer import Tokenizer
from ninefold.core.picture import Picture
from ninefold.core.types import Segment, Trajectory, Turn
from ninefold.media.scene import draw

_PICTURE = re.compile(re.escape(image_prompt(1, 1)).replace("1x1", r"(\d+)x(\d+)"))
"""A picture's place in decoded text."""
COLUMNS = ["id", "domain", "effort", "status", "spend", "new_tokens", "turns", "stop"]
BRACKETS = ("⟦", "⟧")
"""Around learned tokens where there is no colour."""


def list_trajectories(folder: Path) -> list[dict[str, Any]]:
    """What is stored, a line each."""
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file, columns=COLUMNS).to_pylist()]


def print_trajectory(trajectory: Trajectory, tokenizer: Tokenizer, console: Console, *, tokens: bool) -> None:
    """Task, turns, verdict; then every token if wanted."""
    task, result = trajectory.task, trajectory.result
    console.print(Text(trajectory.id, style="bold"))
    budget = f", b₀ {task.budget.tokens:.0f}" if task.budget else ""
    harness = trajectory.composition.get("name", "?")
    console.print(
        f"{task.family}, effort {trajectory.effort}, harness {harness}, spend {trajectory.spend}{budget}", style="dim"
    )
    shown = _pictures([draw(scene) for scene in task.pictures])
    console.print(Text("task   ", style="bold blue") + Text(shown + task.instruction))
    for number, turn in enumerate(trajectory.turns):
        _print_turn(trajectory, turn, console)
        for agent in (agent for call in range(len(turn.calls)) for agent in trajectory.begun_by(number, call)):
            console.print(Text(f"sub-agent {agent.id.rsplit('@', 1)[-1]}", style="bold magenta"))
            print_trajectory(agent, tokenizer, console, tokens=tokens)
    verdict = f"{result.status} ({result.score:.2f}) after {trajectory.stop}" + (f": {result.detail}" if result.detail else "")
    console.print(Text(verdict, style="green" if result.status == "pass" else "red"))
    for number, row in enumerate(trajectory.rows if tokens else ()):
        console.print(
            Text(f"\nrow {number}: {len(row)} tokens; sampled and learned ones are {learned_look(console)}", style="bold")
        )
        for segment in row.segments:
            console.print(Text(_describe(segment), style="dim"))
            console.print(masked_text(segment, tokenizer, console), soft_wrap=True)


def _pictures(pictures: Sequence[Picture]) -> str:
    return "".join(f"[picture {p.width}×{p.height} {p.hash[:8]}] " for p in pictures)


def _print_turn(trajectory: Trajectory, turn: Turn, console: Console) -> None:
    lines = [("thinks", turn.think, "dim italic"), ("says", turn.response or "", "")]
    for i, call in enumerate(turn.calls):
        arguments = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
        lines.append(("calls", f"{call.tool}({arguments}) {call.error or ''}", "yellow"))
        if i < len(turn.observations):
            lines.append(("sees", _pictures(trajectory.seen(turn, i)) + turn.observations[i], "cyan"))
    for label, text, style in lines:
        if text:
            console.print(Text(f"{label:<7}", style="bold") + Text(text, style=style))


def _describe(segment: Segment) -> str:
    facts = [f"{segment.role} {segment.message}", segment.source, f"{len(segment.ids)} tokens"]
    if segment.logprobs is not None and len(segment.logprobs):
        facts += [f"version {segment.policy_version}", f"mean ln p {segment.logprobs.mean():.2f}"]
    return "  ".join(facts if segment.finish_reason is None else [*facts, segment.finish_reason])


def masked_text(segment: Segment, tokenizer: Tokenizer, console: Console) -> Text:
    """The segment's text, learned tokens in colour, or in brackets where the console has none."""
    text = Text()
    mask = segment.loss_mask.tolist()
    before, behind = ("", "") if _has_colour(console) else BRACKETS
    start = 0
    for end in range(1, len(mask) + 1):
        if end == len(mask) or mask[end] != mask[start]:
            piece = _PICTURE.sub(r"[picture \1×\2]", tokenizer.decode(segment.ids[start:end]))
            text.append(before + piece + behind if mask[start] else piece, style="green" if mask[start] else "dim")
            start = end
    return text


def learned_look(console: Console) -> str:
    """How `masked_text` shows learned tokens there."""
    return "green" if _has_colour(console) else f"in {' '.join(BRACKETS)}"


def _has_colour(console: Console) -> bool:
    return console.color_system is not None and not console.no_color
