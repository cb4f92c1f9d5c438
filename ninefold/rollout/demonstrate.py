"""Demonstrations: scripted policies in the same loop as sampled ones, so that tokens and masks come out the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ninefold.agent.harness.episode import Episode
from ninefold.core.protocols import Completion, Move, Request, ScriptedPolicy
from ninefold.core.types import IntArray, Slot, Trajectory
from ninefold.rollout.scene import Finished, Scene

DEMONSTRATOR = 0
"""Policy version of demonstrated tokens; their log-probabilities are 0."""
SUMMARISED = 3
"""Turns whose results a demonstrator's summary holds."""
SUMMARY_CHARS = 40
"""Of each of those results."""


def demonstrate(
    slots: Iterable[Slot], policy: Callable[[Slot], ScriptedPolicy], scene: Scene, *, batch: int = 256
) -> list[Trajectory]:
    """The slots' trajectories as their scripted policies play them, in order; judged `batch` at a time."""
    trajectories: list[Trajectory] = []
    finished: list[Finished] = []
    for episode in scene.start(slots):
        act(episode, policy(episode.slot))
        finished.append((episode, episode.final()))
        if len(finished) == batch:
            trajectories += scene.grade(finished)
            finished = []
    return trajectories + scene.grade(finished)


def act(episode: Episode, policy: ScriptedPolicy) -> None:
    """Play `episode` to its end: each move is written as the harness's policy would, within the same limits.

    Between a call that begins a sub-agent and what it returns, the policy makes the sub-agent's moves.
    """
    while not episode.done:
        request, writer = episode.request(), episode.at_work
        move = summary(writer) if writer.summarising else policy.move(writer.observations)
        ids = writer.chat.completion(writer.harness.to_wire(move, writer.tools))
        whole = len(ids) <= request.max_new
        ids = ids[: request.max_new]
        episode.accept(
            Completion(
                request=request.id,
                ids=ids,
                logprobs=np.zeros(len(ids), np.float32),
                policy_version=DEMONSTRATOR,
                finish="stop" if whole else "length",
            )
        )


def summary(episode: Episode) -> Move:
    """[ours] What a demonstrator says of a row that is closed: its last results, briefly. It remembers the rest itself."""
    results = [text for turn in episode.turns[-SUMMARISED:] for text in turn.observations]
    return Move(response="\n".join(text[:SUMMARY_CHARS] for text in results))


def replay(trajectories: Sequence[Trajectory]) -> Callable[[Request], IntArray]:
    """What a scripted engine answers so that slots equal to the trajectories' play them again, token by token."""
    rows = {f"{trajectory.id}#{n}": row for trajectory in trajectories for n, row in enumerate(trajectory.rows)}

    def respond(request: Request) -> IntArray:
        """The sampled tokens that stand behind the request's ids, up to the next rendered one."""
        row = rows[request.session]
        start = len(request.ids)
        rendered = np.flatnonzero(~row.sampled_mask[start:])
        return row.ids[start : start + rendered[0]] if len(rendered) else row.ids[start:]

    return respond
