"""One trajectory as ATIF v1.8, the interchange format of agent trajectories (spec 10), token ids and log-probs included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

import ninefold
from ninefold.agent.env import family
from ninefold.agent.harness.compose import compose
from ninefold.chat.messages import call_id
from ninefold.core.errors import UserError
from ninefold.core.events import redact
from ninefold.core.picture import Picture
from ninefold.core.protocols import Tool, offered
from ninefold.core.types import Segment, Trajectory

VERSION = "ATIF-v1.8"


def to_atif(trajectory: Trajectory) -> dict[str, Any]:
    """JSON of the trajectory: what was put to the agent, then a step a turn. Secrets are redacted.

    A row that begins anew (context shortened) is not a continued trajectory: every message was sampled once and stands here
    once, with the ids that it was sampled after. Sub-agents' trajectories are embedded, and the calls that began them refer to
    them.
    """
    harness = compose(trajectory.composition)
    opening = harness.messages(trajectory.task)
    steps = [{"source": message["role"], "message": _text(message["content"])} for message in opening]
    steps += [
        _step(trajectory, number, *written) for number, written in zip(range(len(trajectory.turns)), _messages(trajectory))
    ]
    prompt_tokens = sum(step["metrics"]["prompt_tokens"] for step in steps if "metrics" in step)
    agents = [to_atif(agent) for agent in trajectory.agents]
    return redact(
        {
            "schema_version": VERSION,
            "session_id": trajectory.group,
            "trajectory_id": trajectory.id,
            "agent": {
                "name": "ninefold",
                "version": ninefold.__version__,
                "tool_definitions": harness.schemas(_tools(trajectory)),
                "extra": {"harness": trajectory.composition, "harness_hash": trajectory.composition_hash},
            },
            "steps": [{"step_id": number, **step} for number, step in enumerate(steps, 1)],
            "final_metrics": {
                "total_prompt_tokens": prompt_tokens,
                "total_completion_tokens": trajectory.new_tokens,
                "total_steps": len(steps),
            },
            "extra": {
                "task": trajectory.task.id,
                "stop": trajectory.stop,
                "status": trajectory.result.status,
                "score": trajectory.result.score,
                "detail": trajectory.result.detail,
                "spend": trajectory.spend,
                "resumes": trajectory.resumes,
            },
            **({"subagent_trajectories": agents} if agents else {}),
        }
    )


def _tools(trajectory: Trajectory) -> list[Tool]:
    """What the task offered; [] where its family is not known here any more."""
    with suppress(UserError):
        return [*offered(family(trajectory.task.family), trajectory.task)]
    return []


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    """A message's content, its pictures by size and hash."""
    if isinstance(content, str):
        return content
    return "".join(p["text"] if p["type"] == "text" else _picture(p["width"], p["height"], p["hash"]) for p in content)


def _shown(pictures: Sequence[Picture], text: str) -> str:
    """A call's result, the pictures that came of it before its text."""
    return "".join(_picture(p.width, p.height, p.hash) for p in pictures) + text


def _picture(width: int, height: int, hash: str) -> str:
    return f"[picture {width}×{height} {hash}]"


def _step(trajectory: Trajectory, number: int, prompt: list[int], written: list[Segment]) -> dict[str, Any]:
    turn = trajectory.turns[number]
    step: dict[str, Any] = {
        "source": "agent",
        "reasoning_effort": trajectory.effort,
        "message": turn.response or "",
        "reasoning_content": turn.think,
        # A pause cuts a message into pieces, each of one request to the engine.
        "llm_call_count": len(written),
        "metrics": {
            "prompt_tokens": len(prompt),
            "completion_tokens": sum(len(segment.ids) for segment in written),
            "prompt_token_ids": prompt,
            "completion_token_ids": [token for segment in written for token in segment.ids.tolist()],
            "logprobs": [value for s in written if s.logprobs is not None for value in s.logprobs.tolist()],
            "extra": {
                "policy_versions": [segment.policy_version for segment in written],
                "finish_reasons": [segment.finish_reason for segment in written],
            },
        },
    }
    if turn.calls:
        step["tool_calls"] = [
            {"tool_call_id": call_id(number), "function_name": call.tool, "arguments": dict(call.arguments)}
            for number, call in enumerate(turn.calls, 1)
        ]
        step["observation"] = {
            "results": [_result(trajectory, number, call, text) for call, text in enumerate(turn.observations)]
        }
    return step


def _result(trajectory: Trajectory, turn: int, call: int, text: str) -> dict[str, Any]:
    result: dict[str, Any] = {
        "source_call_id": call_id(call + 1),
        "content": _shown(trajectory.seen(trajectory.turns[turn], call), text),
    }
    if begun := trajectory.begun_by(turn, call):
        result["subagent_trajectory_ref"] = [{"session_id": agent.group, "trajectory_id": agent.id} for agent in begun]
    return result


def _messages(trajectory: Trajectory) -> Iterator[tuple[list[int], list[Segment]]]:
    """(ids before it in its row, its pieces) of each sampled message, in order."""
    for row in trajectory.rows:
        ids: list[int] = []
        for sampled, segments in groupby(row.segments, key=lambda segment: segment.source == "sampled"):
            pieces = list(segments)
            if sampled:
                yield list(ids), pieces
            ids += [token for segment in pieces for token in segment.ids.tolist()]
