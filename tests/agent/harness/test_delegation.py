"""Sub-agents: one world, conversations of their own, and only the last message comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ninefold.agent.env.play import play
from ninefold.agent.env.script import Script, Steps
from ninefold.agent.harness.delegation import AGENT, SWARM, TOOLS, Delegation, prompts
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.executor import OPERATIONS
from ninefold.agent.harness.sampler import harness_of
from ninefold.chat.xtml import Xtml
from ninefold.core.packed import pack, trajectory_of, trajectory_record, unpack
from ninefold.core.protocols import Completion, Move, SandboxRuntime, ScriptedPolicy, Tool
from ninefold.core.types import Call, FinishReason, Slot, Task, Trajectory
from ninefold.recipes.budgets import rows_of
from ninefold.rollout.atif import to_atif
from tests.agent.harness.errand import Errand

LOOK = "Say what the second line of notes.txt is."
REPORT = "The second line of notes.txt is: beta. " + "I read the whole file, and nothing else. " * 6


class Divided(Errand):
    """The same, with sub-agents."""

    tools: tuple[Tool, ...] = (*OPERATIONS.values(), *TOOLS)

    def task(self, **limits: int) -> Task:
        base = self.generate("train", 0, 0)
        return replace(
            base, tools=(*OPERATIONS, AGENT.name, SWARM.name), limits=replace(base.limits, **limits) if limits else base.limits
        )

    def gold(self, task: Task) -> ScriptedPolicy:
        """Has somebody else look."""
        return delegates(Call(tool="agent", arguments={"prompt": LOOK}))


def delegates(call: Call, agents: int = 1, report: str = REPORT) -> Script:
    """Begins sub-agents that read the notes and report, then writes what the last one found."""

    def steps() -> Steps:
        seen = yield Move(think="ask", calls=(call,))
        for _ in range(agents):
            assert not seen, "a sub-agent begins with nothing"
            seen = yield Move(think="look", calls=(Call(tool="read", arguments={"path": "notes.txt"}),))
            assert "beta" in seen[0].text
            seen = yield Move(response=report)
        assert "beta" in seen[0].text
        yield Move(calls=(Call(tool="write", arguments={"path": "done.txt", "text": "beta\n"}),))
        yield Move(response="done")

    return Script(steps())


def start(name: str, chat: Xtml, runtime: SandboxRuntime, **limits: int) -> Episode:
    slot = Slot(task=Divided().task(**limits), effort="max", group="g", index=0, seed=0)
    return Episode.start(slot, family=Divided(), harness=harness_of(name), chat=chat, runtime=runtime)


def pieces(ids: np.ndarray, cut: int | None) -> Iterator[tuple[np.ndarray, FinishReason]]:
    if cut is not None and 0 < cut < len(ids):
        yield ids[:cut], "paused"
        ids = ids[cut:]
    yield ids, "stop"


def run(episode: Episode, policy: ScriptedPolicy, runtime: SandboxRuntime, *, cut: int | None = None) -> Trajectory:
    """Play it; with `cut`, every message is paused there, saved and restored."""
    while not episode.done:
        writer = episode.at_work
        ids = episode.chat.completion(writer.harness.to_wire(policy.move(writer.observations), writer.tools))
        for piece, finish in pieces(ids, cut):
            request = episode.request()
            logprobs = np.zeros(len(piece), np.float32)
            episode.accept(
                Completion(request=request.id, ids=piece, logprobs=logprobs, policy_version=1, finish=finish),
            )
            if finish == "paused":
                saved = episode.save()
                episode.final() if episode.done else episode._world.close()  # type: ignore[union-attr]
                episode = Episode.restore(saved, families={"errand": Divided()}, chat=episode.chat, runtime=runtime)
                episode.resume()
    final = episode.final()
    return episode.conclude(None if final is None else Divided().verify(episode.slot.task, final))


HARNESSES = ("plain", "service", "kimi_code", "claude_code", "hermes", "openclaw")


@pytest.mark.parametrize("name", HARNESSES)
def test_only_the_last_message_comes_back(name: str, chat: Xtml, namespaces: SandboxRuntime) -> None:
    episode = start(name, chat, namespaces)
    trajectory = run(episode, Divided().gold(episode.slot.task), namespaces)
    assert (trajectory.result.status, trajectory.stop) == ("pass", "answered")
    assert trajectory.turns[0].observations == (REPORT.strip(),) or REPORT.strip() in trajectory.turns[0].observations[0]
    (agent,) = trajectory.agents
    assert agent == trajectory.begun_by(0, 0)[0]
    assert agent.task.instruction.startswith(LOOK)
    assert not {AGENT.name, SWARM.name} & set(agent.task.tools)
    assert [len(turn.calls) for turn in agent.turns] == [1, 0]
    assert not agent.valid
    assert len(trajectory.turns) == 3
    assert trajectory.spend == trajectory.new_tokens
    assert trajectory.new_tokens - agent.new_tokens == sum(int(row.sampled_mask.sum()) for row in trajectory.rows)
    learned = [sample.ids.tolist() for sample in rows_of([trajectory])]
    assert learned == [row.ids.tolist() for row in trajectory.rows], "nothing of a sub-agent is learned"


@pytest.mark.parametrize("cut", [1, 9])
def test_pauses_within_a_sub_agent_change_nothing(cut: int, chat: Xtml, namespaces: SandboxRuntime) -> None:
    whole, cut_up = (
        run(start("kimi_code", chat, namespaces), Divided().gold(Divided().task()), namespaces, cut=c) for c in (None, cut)
    )
    for a, b in ((whole, cut_up), (whole.agents[0], cut_up.agents[0])):
        assert [row.ids.tolist() for row in a.rows] == [row.ids.tolist() for row in b.rows]
        assert (a.turns, a.stop, a.result) == (b.turns, b.stop, b.result)
    assert whole.new_tokens == cut_up.new_tokens


def test_a_trajectory_with_sub_agents_survives_as_data(chat: Xtml, namespaces: SandboxRuntime) -> None:
    trajectory = run(start("hermes", chat, namespaces), Divided().gold(Divided().task()), namespaces)
    again = trajectory_of(*unpack(pack(*trajectory_record(trajectory))))
    assert replace(again, rows=(), agents=()) == replace(trajectory, rows=(), agents=())
    assert [row.ids.tolist() for row in again.rows] == [row.ids.tolist() for row in trajectory.rows]
    assert [row.ids.tolist() for row in again.agents[0].rows] == [row.ids.tolist() for row in trajectory.agents[0].rows]
    assert again.agents[0].turns == trajectory.agents[0].turns


def test_atif_embeds_sub_agents(chat: Xtml, namespaces: SandboxRuntime) -> None:
    atif = to_atif(run(start("claude_code", chat, namespaces), Divided().gold(Divided().task()), namespaces))
    (embedded,) = atif["subagent_trajectories"]
    first = next(step for step in atif["steps"] if "observation" in step)
    (reference,) = first["observation"]["results"][0]["subagent_trajectory_ref"]
    assert reference["trajectory_id"] == embedded["trajectory_id"]
    assert "subagent_trajectories" not in embedded


def test_a_short_report_is_asked_for_once_more(chat: Xtml, namespaces: SandboxRuntime) -> None:
    def steps() -> Steps:
        yield Move(calls=(Call(tool="agent", arguments={"prompt": LOOK}),))
        yield Move(response="beta")
        seen = yield Move(response="still beta")
        assert seen[0].text == "still beta"
        yield Move(response="done")

    trajectory = run(start("kimi_code", chat, namespaces), Script(steps()), namespaces)
    assert [turn.response for turn in trajectory.agents[0].turns] == ["beta", "still beta"]
    assert trajectory.result.status == "fail", "it wrote nothing"


def test_a_swarm_reports_in_order(chat: Xtml, namespaces: SandboxRuntime) -> None:
    call = Call(tool="swarm", arguments={"template": "Look at {{item}}.", "items": ["line 1", "line 2"]})
    trajectory = run(start("kimi_code", chat, namespaces), delegates(call, agents=2), namespaces, cut=5)
    assert trajectory.passed
    assert [agent.task.instruction for agent in trajectory.agents] == ["Look at line 1.", "Look at line 2."]
    assert trajectory.begun_by(0, 0) == trajectory.agents
    assert trajectory.turns[0].observations[0].count("beta") == 2


def test_hermes_gives_three_children_at_most(chat: Xtml, namespaces: SandboxRuntime) -> None:
    tasks = [{"goal": f"Look {n}.", "context": "quickly"} for n in range(4)]

    def steps() -> Steps:
        seen = yield Move(calls=(Call(tool="agent", arguments={"tasks": tasks}),))
        assert seen[0].text == "error: give 1 to 3 prompts, not 4"
        yield Move(response="done")

    trajectory = run(start("hermes", chat, namespaces), Script(steps()), namespaces)
    assert trajectory.agents == ()


@pytest.mark.parametrize("kind", ["tokens", "turns"])
def test_a_sub_agent_keeps_within_limits(kind: str, chat: Xtml, namespaces: SandboxRuntime) -> None:
    """It has the tokens that are left, and its own turns; the agent goes on where it can."""

    def steps() -> Steps:
        yield Move(calls=(Call(tool="agent", arguments={"prompt": LOOK}),))
        while True:
            yield Move(calls=(Call(tool="read", arguments={"path": "notes.txt"}),))

    episode = start("claude_code", chat, namespaces, **({"new_tokens": 400} if kind == "tokens" else {"turns": 4}))
    trajectory = bounded(episode, Script(steps()), namespaces)
    assert trajectory.agents[0].stop == kind
    assert trajectory.new_tokens <= trajectory.task.limits.new_tokens
    assert "ended without a report" in trajectory.turns[0].observations[0]


def bounded(episode: Episode, policy: ScriptedPolicy, runtime: SandboxRuntime) -> Trajectory:
    """Play within the requests' own bounds."""
    while not episode.done:
        writer, request = episode.at_work, episode.request()
        ids = episode.chat.completion(writer.harness.to_wire(policy.move(writer.observations), writer.tools))
        finish: FinishReason = "stop" if len(ids) <= request.max_new else "length"
        ids = ids[: request.max_new]
        logprobs = np.zeros(len(ids), np.float32)
        episode.accept(Completion(request=request.id, ids=ids, logprobs=logprobs, policy_version=1, finish=finish))
    final = episode.final()
    return episode.conclude(None if final is None else Divided().verify(episode.slot.task, final))


@pytest.mark.parametrize("how", ["error", "stale", "given up"])
def test_what_breaks_a_sub_agent_breaks_the_episode(how: str, chat: Xtml, namespaces: SandboxRuntime) -> None:
    episode, policy = start("plain", chat, namespaces), Divided().gold(Divided().task())
    ids = chat.completion(episode.harness.to_wire(policy.move(()), episode.tools))
    nothing = np.zeros(0, np.int32)

    def accept(ids: np.ndarray, finish: FinishReason) -> None:
        logprobs = np.zeros(len(ids), np.float32)
        request = episode.request()
        episode.accept(Completion(request=request.id, ids=ids, logprobs=logprobs, policy_version=1, finish=finish))

    accept(ids, "stop")
    assert episode.at_work is not episode
    if how == "error":
        accept(nothing, "error")
    elif how == "stale":
        accept(nothing, "paused")
        episode.resume(at_most=0)
    else:
        episode.give_up("the deadline has passed")
    assert episode.done
    assert episode.final() is None
    trajectory = episode.conclude(None)
    assert trajectory.result.status == "invalid"
    assert len(trajectory.agents) == len(trajectory.turns) == 1


def test_scripted_policies_delegate_without_a_harness(namespaces: SandboxRuntime) -> None:
    task = Divided().task()
    result, _ = play(Divided(), task, Divided().gold(task), runtime=namespaces)
    assert result.status == "pass"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"prompt": "a"}, ["a"]),
        ({"prompt": "a", "context": "b", "description": "c"}, ["a\n\nb"]),
        ({"tasks": [{"goal": "a"}, {"goal": "b", "context": "c"}, {"goal": ""}, "d"]}, ["a", "b\n\nc"]),
        ({}, []),
    ],
)
def test_prompts_of_a_call(arguments: dict[str, object], told: Sequence[str]) -> None:
    assert prompts(Call(tool="agent", arguments=arguments)) == list(told)


def test_what_a_delegation_cuts() -> None:
    delegation = Delegation(blocked=("memory",), chars=3)
    assert delegation.tools(("read", "memory", "agent", "swarm", "shell")) == ("read", "shell")
    assert delegation.shown("beta") == "bet"
    assert Delegation().shown("beta") == "beta"
