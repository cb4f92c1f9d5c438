"""The agent loop: alignment of tokens, masks and versions, limits as stop reasons, pauses, restarts, malformed calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.agent.env import family
from ninefold.agent.harness.compose import Composed
from ninefold.agent.harness.context import ContextPolicy
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.presets import PLAIN, PRESETS
from ninefold.chat.xtml import Xtml
from ninefold.core.packed import pack, trajectory_of, trajectory_record, unpack
from ninefold.core.protocols import Completion, Family, Move, Request, Style
from ninefold.core.types import Call, FinishReason, IntArray, Limits, Result, Row, Slot, Task, Trajectory


def slot_for(assistant: Family, seed: int = 3, level: int = 1, limits: Limits | None = None) -> Slot:
    task = assistant.generate("train", level, seed)
    return Slot(task=replace(task, limits=limits or task.limits), effort="max", group=f"g{seed}", index=0, seed=seed)


def completion(request: Request, ids: Sequence[int] | IntArray, finish: FinishReason = "stop", version: int = 1) -> Completion:
    array = np.asarray(ids, np.int32)
    logprobs = -(array % 7).astype(np.float32) - 0.5
    return Completion(request=request.id, ids=array, logprobs=logprobs, policy_version=version, finish=finish)


def finish(episode: Episode, assistant: Family) -> Trajectory:
    final = episode.final()
    return episode.conclude(None if final is None else assistant.verify(episode.slot.task, final))


def script(episode: Episode, family: Family, cuts: Sequence[int] = (), reload: bool = False) -> Trajectory:
    """Play the demonstrator; pause message n after cuts[n] tokens and, if `reload`, save and restore there."""
    policy = family.demonstrate(episode.slot.task, Style(effort="max", seed=5))
    chat, turn = episode.chat, 0
    while not episode.done:
        ids = chat.completion(episode.harness.to_wire(policy.move(episode.observations), episode.tools))
        cut = min(cuts[turn], len(ids) - 1) if turn < len(cuts) else None
        turn += 1
        if cut is not None:
            episode.accept(completion(episode.request(), ids[:cut], "paused", version=turn))
            if reload:
                episode = Episode.restore(episode.save(), families={family.name: family}, chat=chat)
            episode.resume()
            ids = ids[cut:]
        episode.accept(completion(episode.request(), ids, version=turn + 1))
    return finish(episode, family)


def tokens(trajectory: Trajectory) -> list[list[float]]:
    return [[*row.ids.tolist(), *row.logprobs.tolist(), *row.loss_mask.tolist()] for row in trajectory.rows]


@pytest.mark.parametrize("harness", PRESETS, ids=lambda h: h.name)
def test_demonstration_passes_under_every_preset(assistant: Family, chat: Xtml, harness: Composed) -> None:
    slot = slot_for(assistant)
    policy = assistant.gold(slot.task)
    episode = Episode.start(slot, family=assistant, harness=harness, chat=chat)
    while not episode.done:
        move = policy.move(episode.observations)
        episode.accept(completion(episode.request(), chat.completion(harness.to_wire(move, episode.tools))))
    trajectory = finish(episode, assistant)
    assert (trajectory.result.status, trajectory.stop) == ("pass", "answered")
    assert trajectory.spend == trajectory.new_tokens == sum(len(r.ids) for r in _sampled(trajectory.rows))
    assert trajectory.composition["name"] == harness.name
    for row in trajectory.rows:
        assert np.array_equal(row.loss_mask, row.sampled_mask)
        assert len(row.ids) == len(row.logprobs) == len(row.versions) == len(row.loss_mask)


def _sampled(rows: Sequence[Row]) -> list:
    return [segment for row in rows for segment in row.segments if segment.source == "sampled"]


@pytest.mark.parametrize("reload", [False, True])
def test_left_out_markers_do_not_pass(assistant: Family, chat: Xtml, reload: bool) -> None:
    """The state is right and the answer is read all the same, but tokens saved by breaking the format earn nothing."""
    slot = slot_for(assistant)
    policy = assistant.gold(slot.task)
    episode = Episode.start(slot, family=assistant, harness=PLAIN, chat=chat)
    closing = chat.tokenizer.control["<|close|>"]
    while not episode.done:
        ids = chat.completion(PLAIN.to_wire(policy.move(episode.observations), episode.tools)).tolist()
        first = ids.index(closing)
        cut = ids[:first] + ids[ids.index(chat.tokenizer.control["<|sep|>"], first) + 1 :]
        episode.accept(completion(episode.request(), cut))
        if reload and not episode.done:
            episode = Episode.restore(episode.save(), families={assistant.name: assistant}, chat=chat)
    final = episode.final()
    assert final is not None
    assert assistant.verify(slot.task, final).status == "pass"
    trajectory = episode.conclude(assistant.verify(slot.task, final))
    assert trajectory.result.status == "fail"
    assert "unclosed" in trajectory.result.detail


def test_each_turn_extends_the_ids_before(assistant: Family, chat: Xtml) -> None:
    episode = Episode.start(slot_for(assistant), family=assistant, harness=PLAIN, chat=chat)
    policy = assistant.demonstrate(episode.slot.task, Style(effort="max", seed=1))
    before = np.zeros(0, np.int32)
    seen: list[tuple[IntArray, list[int]]] = []
    while not episode.done:
        request = episode.request()
        assert np.array_equal(request.ids[: len(before)], before)
        assert len(request.ids) > len(before)
        seen.append((request.ids, request.ids.tolist()))
        ids = chat.completion(PLAIN.to_wire(policy.move(episode.observations), episode.tools))
        before = np.concatenate([request.ids, ids])
        episode.accept(completion(request, ids))
    assert len(seen) > 1
    assert all(ids.tolist() == copy for ids, copy in seen), "ids that were handed out never change"


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 40), max_size=6), reload=st.booleans())
def test_pauses_change_nothing_but_versions(assistant: Family, chat: Xtml, cuts: list[int], reload: bool) -> None:
    slot = slot_for(assistant)
    whole = script(Episode.start(slot, family=assistant, harness=PLAIN, chat=chat), assistant)
    cut = script(Episode.start(slot, family=assistant, harness=PLAIN, chat=chat), assistant, cuts, reload)
    assert tokens(cut) == tokens(whole)
    assert (cut.turns, cut.result, cut.stop, cut.spend) == (whole.turns, whole.result, whole.stop, whole.spend)
    assert cut.resumes == min(len(cuts), len(cut.turns))
    assert trajectory_equal(trajectory_of(*unpack(pack(*trajectory_record(cut)))), cut)
    for before, after in zip(_sampled(cut.rows), _sampled(cut.rows)[1:]):
        if before.finish_reason == "paused":
            assert after.message == before.message
            assert after.policy_version == before.policy_version + 1


def trajectory_equal(a: Trajectory, b: Trajectory) -> bool:
    plain = all(getattr(a, f) == getattr(b, f) for f in Trajectory.__slots__ if f != "rows")
    facts = [[(s.source, s.message, s.role, s.policy_version, s.finish_reason) for s in r.segments] for r in a.rows]
    return (
        plain
        and tokens(a) == tokens(b)
        and facts == [[(s.source, s.message, s.role, s.policy_version, s.finish_reason) for s in r.segments] for r in b.rows]
    )


def test_malformed_calls_are_answered_and_not_dispatched(assistant: Family, chat: Xtml) -> None:
    episode = Episode.start(slot_for(assistant), family=assistant, harness=PLAIN, chat=chat)
    world = episode._world
    assert world is not None
    before = world.save()
    bad = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "lookup", "arguments": "[broken"}},
            {"id": "b", "type": "function", "function": {"name": "nothing", "arguments": "{}"}},
            {"id": "c", "type": "function", "function": {"name": "lookup", "arguments": '{"wrong": 1}'}},
        ],
    }
    episode.accept(completion(episode.request(), chat.completion(bad)))
    assert not episode.done
    assert world.save() == before
    assert [o.text.startswith("error: ") for o in episode.observations] == [True] * 3
    text = chat.decode(episode.request().ids)
    assert [text.count(f'index="{n}"<|sep|>error: ') for n in (1, 2, 3)] == [1, 1, 1]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_output_crashes_it(assistant: Family, chat: Xtml, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, chat.tokenizer.vocab_size - 1), min_size=1, max_size=60))
    episode = Episode.start(slot_for(assistant), family=assistant, harness=PLAIN, chat=chat)
    episode.accept(completion(episode.request(), [*ids, chat.stop_ids[0]]))
    while not episode.done:
        episode.accept(completion(episode.request(), [chat.stop_ids[0]]))
    assert finish(episode, assistant).result.status == "fail"


@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        (Limits(turns=1, new_tokens=400, context=1024), "turns"),
        (Limits(turns=9, new_tokens=30, context=1024), "tokens"),
        (Limits(turns=9, new_tokens=10_000, context=170), "context"),
    ],
)
def test_limits_are_distinct_stop_reasons(assistant: Family, chat: Xtml, limits: Limits, stop: str) -> None:
    episode = Episode.start(slot_for(assistant, limits=limits), family=assistant, harness=PLAIN, chat=chat)
    call = Call(tool="lookup", arguments={"key": "Ann"})
    while not episode.done:
        request = episode.request()
        assert request.max_new > 0
        assert len(request.ids) + request.max_new <= limits.context
        ids = chat.completion(PLAIN.to_wire(Move(think="Ann", calls=(call,)), episode.tools))
        fits = len(ids) <= request.max_new
        episode.accept(completion(request, ids[: request.max_new], "stop" if fits else "length"))
    trajectory = finish(episode, assistant)
    assert trajectory.stop == stop
    assert trajectory.result.status == "fail"
    assert trajectory.new_tokens <= limits.new_tokens
    assert all(len(row) <= limits.context for row in trajectory.rows)


def test_a_prompt_beyond_the_context_ends_at_once(assistant: Family, chat: Xtml) -> None:
    episode = Episode.start(slot_for(assistant, limits=Limits(context=8)), family=assistant, harness=PLAIN, chat=chat)
    assert episode.done
    assert finish(episode, assistant).stop == "context"


def test_engine_errors_and_staleness_are_invalid(assistant: Family, chat: Xtml) -> None:
    episode = Episode.start(slot_for(assistant), family=assistant, harness=PLAIN, chat=chat)
    episode.accept(completion(episode.request(), [], "error"))
    assert (trajectory := finish(episode, assistant)).stop == "error"
    assert trajectory.result.status == "invalid"
    episode = Episode.start(slot_for(assistant), family=assistant, harness=PLAIN, chat=chat)
    for _ in range(2):
        episode.accept(completion(episode.request(), [], "paused"))
        episode.resume(at_most=1)
    trajectory = finish(episode, assistant)
    assert (trajectory.stop, trajectory.result.status) == ("stale", "invalid")
    assert "paused more than 1" in trajectory.result.detail


@pytest.mark.parametrize("kind", ["clear", "truncate"])
def test_shortened_history_opens_a_row_and_is_learned_once(assistant: Family, chat: Xtml, kind: str) -> None:
    harness = replace(PLAIN, context=ContextPolicy(kind=kind, threshold=0.6, keep=1))  # pyright: ignore[reportArgumentType]
    limits = Limits(turns=12, new_tokens=2_000, context=330)
    episode = Episode.start(slot_for(assistant, limits=limits), family=assistant, harness=harness, chat=chat)
    said: list[int] = []
    for turn in range(12):
        if episode.done:
            break
        if turn == 7:
            episode = Episode.restore(episode.save(), families={"assistant": assistant}, chat=chat)
        call = Call(tool="lookup", arguments={"key": "Ann"})
        ids = chat.completion(harness.to_wire(Move(think="Ann", calls=(call,)), episode.tools))
        said += ids.tolist()
        episode.accept(completion(episode.request(), ids))
    trajectory = finish(episode, assistant)
    assert len(trajectory.rows) > 1
    learned = [token for row in trajectory.rows for token in row.ids[row.loss_mask].tolist()]
    assert learned == said, "every sampled token is learned from exactly once, byte for byte"
    assert ("cleared" in chat.decode(trajectory.rows[1].ids)) == (kind == "clear")


def test_equal_slots_ask_for_equal_things(assistant: Family, chat: Xtml) -> None:
    slot = slot_for(assistant)
    one, two = (Episode.start(slot, family=assistant, harness=PLAIN, chat=chat).request() for _ in range(2))
    other = Episode.start(replace(slot, seed=99), family=assistant, harness=PLAIN, chat=chat).request()
    assert (one.seed, one.session, one.ids.tolist()) == (two.seed, two.session, two.ids.tolist())
    assert one.seed != other.seed


def test_a_world_that_cannot_open_is_invalid(chat: Xtml) -> None:
    expression = family("expression")
    task: Task = expression.generate("train", 0, 1)
    slot = Slot(task=task, effort="low", group="g", index=0, seed=1)
    episode = Episode.start(slot, family=expression, harness=PLAIN, chat=chat, runtime=None)
    if not episode.done:
        call = Call(tool="run", arguments={"code": "1+1"})
        ids = chat.completion(PLAIN.to_wire(Move(calls=(call,)), episode.tools))
        episode.accept(completion(episode.request(), ids))
    trajectory = finish(episode, expression)
    assert trajectory.result == Result(status="invalid", detail=trajectory.result.detail)
    assert trajectory.stop == "error"


def test_a_world_that_cannot_be_saved_ends_its_episode_alone(assistant: Family, chat: Xtml) -> None:
    episode = Episode.start(slot_for(assistant), family=assistant, harness=PLAIN, chat=chat)
    assert episode._world is not None
    episode._world.close()
    restored = Episode.restore(episode.save(), families={"assistant": assistant}, chat=chat)
    assert restored.done
    restored.resume()
    trajectory = finish(restored, assistant)
    assert (trajectory.result.status, trajectory.stop) == ("invalid", "error")
    assert "saving" in trajectory.result.detail
