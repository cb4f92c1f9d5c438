"""mini-swe-agent: the preset's loop, and the real package beside it on the same scripted messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.presets import mini_swe
from ninefold.chat.xtml import Xtml
from ninefold.core.protocols import Completion, SandboxRuntime
from ninefold.core.types import Slot
from tests.agent.harness.errand import Errand

PYTHON = Path(__file__).parents[3] / "runs" / "referees" / "mini-swe" / "bin" / "python"
X = "printf 'x%%.0s' $(seq 1 %d)"
SUBMIT = f"echo {mini_swe.SENTINEL}; echo beta"


def says(*commands: str, why: str = "because", tool: str = "bash", argument: str = "command") -> dict[str, Any]:
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": tool, "arguments": json.dumps({argument: command})}}
        for n, command in enumerate(commands, 1)
    ]
    return {"role": "assistant", "content": why, **({"tool_calls": calls} if calls else {})}


SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "submits": [says("echo hello"), says("cat notes.txt", "exit 3"), says(SUBMIT)],
    "a sentinel that fails hands nothing in": [says(f"echo {mini_swe.SENTINEL}; exit 1"), says(SUBMIT)],
    "a sentinel that is not first hands nothing in": [says(f"echo x; echo {mini_swe.SENTINEL}"), says(SUBMIT)],
    "nothing after a submission is run": [says("touch a", SUBMIT, "touch b")],
    "long output": [
        says("seq 1 4000"),
        says(X % 9_999),
        says(X % 10_000),
        says(SUBMIT),
    ],
    "odd characters": [says("printf '<a href=\"x\">&\\047é</a>\\n\\t\\\\'"), says(SUBMIT)],
    "both streams": [says("echo out; echo err >&2; echo out"), says(SUBMIT)],
    "folders do not last": [says("cd / && pwd"), says("test -f notes.txt && echo here"), says(SUBMIT)],
    "errors of form are forgiven twice": [
        says("echo a"),
        says(),
        says("1", tool="python"),
        says("echo b"),
        says(),
        says(SUBMIT),
    ],
    "errors of form at once": [says(), says("ls notes.txt"), says(SUBMIT)],
    "three errors of form end it": [says("echo a"), says(), says("x", argument="cmd"), says("y", tool="sh")],
    "too slow": [says("echo begun; sleep 9"), says(SUBMIT)],
    "step limit": [says("echo 1"), says("echo 2"), says("echo 3"), says("echo 4")],
}
STEPS = {"step limit": 3}


def play(
    script: Sequence[dict[str, Any]], steps: int, chat: Xtml, runtime: SandboxRuntime
) -> tuple[Episode, list[list[int]], AnyHarness]:
    """(finished episode, ids of each request, harness) of our preset."""
    harness = replace(mini_swe.FULL, rules=replace(mini_swe.RULES, turns=steps or mini_swe.RULES.turns))
    family = Errand(seconds=1.0)
    task = family.generate("train", 0, 0)
    slot = Slot(task=task, effort="max", group="g", index=0, seed=0)
    episode = Episode.start(slot, family=family, harness=harness, chat=chat, runtime=runtime)
    requests = []
    for message in script:
        if episode.done:
            break
        request = episode.request()
        requests.append(request.ids.tolist())
        ids = chat.completion(message)
        completion = Completion(
            request=request.id, ids=ids, logprobs=np.zeros(len(ids), np.float32), policy_version=0, finish="stop"
        )
        episode.accept(completion)
        if not episode.done:  # the loop goes on from saved data as from live
            episode = Episode.restore(episode.save(), families={family.name: family}, chat=chat, runtime=runtime)
    return episode, requests, harness


def ended(episode: Episode) -> tuple[str, str]:
    """As mini-swe-agent names it: (status, what was handed in)."""
    final = episode.final()
    assert final is not None
    stop = episode.conclude(Errand().verify(episode.slot.task, final)).stop
    names = {"answered": "Submitted", "form": "RepeatedFormatError", "turns": "LimitsExceeded"}
    return names[stop], (final["response"] or "") if stop == "answered" else ""


def test_submission_is_the_answer(chat: Xtml, namespaces: SandboxRuntime) -> None:
    episode, _, _ = play(SCRIPTS["nothing after a submission is run"], 0, chat, namespaces)
    final = episode.final()
    assert final is not None
    assert final["response"] == "beta\n"
    assert "a" in final["files"]
    assert "b" not in final["files"]


def test_errors_of_form_leave_the_history(chat: Xtml, namespaces: SandboxRuntime) -> None:
    episode, requests, _ = play(SCRIPTS["errors of form at once"], 0, chat, namespaces)
    wrong = chat.completion(says()).tolist()
    assert len(requests) == 3
    assert chat.decode(np.asarray(wrong, np.int32)) not in chat.decode(np.asarray(requests[1], np.int32))
    assert ended(episode) == ("Submitted", "beta\n")


@pytest.mark.referee
@pytest.mark.parametrize("name", SCRIPTS)
def test_requests_equal_those_of_the_real_one(name: str, chat: Xtml, namespaces: SandboxRuntime, tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("make referees installs mini-swe-agent")
    family = Errand()
    for path, text in family.generate("train", 0, 0).files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    steps = STEPS.get(name, 0)
    ask = {"outputs": SCRIPTS[name], "cwd": str(tmp_path), "timeout": 1, "step_limit": steps}
    environment = {**os.environ, "MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(tmp_path / "settings")}
    command = [str(PYTHON), str(Path(__file__).with_name("mini_swe_driver.py"))]
    done = subprocess.run(command, input=json.dumps(ask), text=True, capture_output=True, check=True, env=environment)
    real = json.loads(done.stdout)

    episode, requests, harness = play(SCRIPTS[name], steps, chat, namespaces)
    assert _undescribed(real["tools"]) == _undescribed(harness.schemas(episode.tools))
    opening = harness.messages(episode.slot.task)
    for theirs, ours in zip(real["requests"], requests, strict=True):
        messages = _in_our_words(theirs, opening)
        rendered = chat.open(messages, tools=harness.schemas(episode.tools), effort="max")
        assert chat.decode(np.asarray(ours, np.int32)) == chat.decode(np.concatenate([s.ids for s in rendered]))
    assert ended(episode) == (real["ended"]["exit_status"], real["ended"]["submission"])
    rules, seconds = mini_swe.RULES, mini_swe.BASH.fixed["seconds"]
    assert real["facts"] == {"step_limit": rules.turns, "timeout": seconds, "format_errors": rules.format_errors}


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undescribed(item) for key, item in value.items() if key != "description"}
    return [_undescribed(item) for item in value] if isinstance(value, list) else value


def _in_our_words(messages: Sequence[dict[str, Any]], opening: Sequence[Any]) -> list[dict[str, Any]]:
    """Their conversation with the prose of ours: prompts, reprimands, what is said of long output and of errors."""
    assert [m["role"] for m in messages[: len(opening)]] == [m["role"] for m in opening]
    said: list[dict[str, Any]] = [dict(message) for message in opening]
    for message in messages[len(opening) :]:
        content = message["content"]
        if message["role"] == "user":
            content = mini_swe.RULES.reprimand.format(error=_reason(content))
        elif message["role"] == "tool":
            content = content.replace('"Output too long."', '"Too long."')
            content = re.sub(r'": "[^"]*Command .* timed out after', '": "timed out after', content)
        said.append({**message, "content": content})
    return said


def _reason(content: str) -> str:
    if "No tool calls" in content:
        return "The message calls no tool; each one has to."
    why = "no such tool" if "Unknown tool" in content else "bad arguments: cmd is not a parameter; there are command (string)"
    return f"The call cannot be made: {why}."
