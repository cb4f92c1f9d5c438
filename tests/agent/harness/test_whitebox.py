"""White-box harnesses: layouts, views there and back, compaction, the ladder of repeated calls, sampled compositions."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.agent.env import families
from ninefold.agent.harness.compaction import Compaction, Pruning, fit_users, tokens_of
from ninefold.agent.harness.context import CLEARED, Exchange
from ninefold.agent.harness.episode import Episode
from ninefold.agent.harness.executor import OPERATIONS
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.presets import PUBLIC, hermes, kimi_code, preset
from ninefold.agent.harness.rules import Ladder
from ninefold.agent.harness.sampler import Sampler, combine, compositions, harness_of, split_of_parts
from ninefold.agent.harness.whitebox import WhiteBox
from ninefold.chat.xtml import Xtml
from ninefold.core.errors import UserError
from ninefold.core.protocols import Completion, Move, Observation, SandboxRuntime, Tool
from ninefold.core.types import Call, Limits, Slot, Trajectory, Turn, hash_of
from ninefold.rollout.demonstrate import act
from tests.agent.harness.errand import Errand

TOOLS = tuple(OPERATIONS.values())


@given(text=st.text(max_size=80), head=st.integers(0, 20), tail=st.integers(0, 20), in_bytes=st.booleans())
def test_what_is_cut_keeps_its_ends(text: str, head: int, tail: int, in_bytes: bool) -> None:
    layout = Layout(limit=head + tail, head=head, tail=tail, bytes=in_bytes, cut="{head}|{left_out}|{tail}")
    shown = layout.show(Observation(text=text, data={"output": text, "exit_code": 0}))
    size = len(text.encode()) if in_bytes else len(text)
    if head + tail == 0 or size <= head + tail:
        assert shown == text
    else:
        assert f"|{size - head - tail}|" in shown
        kept = shown.replace(f"|{size - head - tail}|", "", 1)
        assert (len(kept.encode()) if in_bytes else len(kept)) <= head + tail


def test_layouts() -> None:
    read = Observation(text="", data={"lines": ["a", "b"], "first": 4, "total": 9, "left_out": 4, "path": "x"})
    assert kimi_code.READ.layout.show(read) == "4\ta\n5\tb\n[4 more lines; go on with line_offset 6]"
    ended: dict[str, Any] = {"output": "x\n", "exit_code": 2, "reason": "exited", "why": "", "seconds": 0}
    died = {**ended, "exit_code": None, "why": "timed out after 1 seconds"}
    shown = {
        name: [_shell(name).show(Observation(text="", data=data)) for data in ({**ended, "exit_code": 0}, ended, died)]
        for name in ("claude_code", "codex", "pi")
    }
    assert shown["claude_code"] == ["x\n", "x\n\nExit code 2", "error: the command timed out after 1 seconds\nx\n"]
    assert [text.split("exit_code: ")[1].split("\n")[0] for text in shown["codex"]] == ["0", "2", "124"]
    assert shown["pi"][1].endswith("ended with exit code 2")
    error = Observation(text="error: no", data={"error": "no"})
    assert all(view.layout.show(error).endswith(("error: no", '"error: no"')) for name in PUBLIC for view in _views(name))


def _views(name: str) -> Sequence[Any]:
    harness = preset(name)
    assert isinstance(harness, WhiteBox)
    return harness.toolset.views


def _shell(name: str) -> Layout:
    return next(view.layout for view in _views(name) if view.operation == "shell")


CANONICAL = [
    Call(tool="read", arguments={"path": "a.txt"}),
    Call(tool="read", arguments={"path": "a.txt", "offset": 3, "limit": 5}),
    Call(tool="write", arguments={"path": "a.txt", "text": "x"}),
    Call(tool="edit", arguments={"path": "a.txt", "old": "x", "new": "y"}),
    Call(tool="glob", arguments={"pattern": "*.py"}),
    Call(tool="grep", arguments={"pattern": "x", "path": "src"}),
    Call(tool="shell", arguments={"command": "ls"}),
    Call(tool="shell", arguments={"command": "ls", "seconds": 30}),
    Call(tool="patch", arguments={"patch": "*** Begin Patch"}),
    Call(tool="search", arguments={"query": "x"}),
    Call(tool="fetch", arguments={"url": "http://x"}),
    Call(tool="media", arguments={"path": "p.png"}),
    Call(tool="todo", arguments={"items": [{"text": "a", "status": "in_progress"}]}),
    Call(tool="cron", arguments={"action": "create", "when": "* * * * *", "prompt": "x"}),
]


@pytest.mark.parametrize("name", [f"{name}{size}" for name in PUBLIC for size in ("", "/nano")])
def test_what_a_view_says_comes_back(name: str) -> None:
    """Scripted policies write calls as each harness has them; with defaults and fixed arguments they mean the same."""
    harness = preset(name)
    said = 0
    for call in CANONICAL:
        message = harness.to_wire(Move(calls=(call,)), TOOLS)
        function = message["tool_calls"][0]["function"]
        back = harness.to_world(Call(tool=function["name"], arguments=json.loads(function["arguments"])), TOOLS)
        if back.error is None:
            said += 1
            assert back.tool == call.tool
            got = {key: back.arguments[key] for key in call.arguments}
            if call.tool == "todo":
                got = {"items": [{"text": item["text"], "status": item["status"]} for item in back.arguments["items"]]}
            assert got == call.arguments
    assert said >= (1 if name.startswith("mini_swe") else 3)


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("Read", {}, "path is missing"),
        ("Read", {"path": 3}, "path is not of type string"),
        ("Read", {"path": "a", "line_offset": 1.5}, "not a whole number"),
        ("Read", {"path": "a", "line_offset": -1_001}, "is not within -1000"),
        ("Read", {"path": "a", "file": "b"}, "file is not a parameter"),
        ("Write", {"path": "a", "content": "b", "mode": "w"}, "is not one of overwrite, append"),
        ("TodoList", {"todos": [{"title": "a"}]}, "lacks status"),
        ("CronCreate", {"cron": "* * * * *", "prompt": "x" * 8_193}, "more than 8192"),
        ("read", {"path": "a"}, "no such tool"),
    ],
)
def test_bad_calls_are_told_what_is_wrong(tool: str, arguments: dict[str, Any], problem: str) -> None:
    assert problem in (kimi_code.FULL.to_world(Call(tool=tool, arguments=arguments), TOOLS).error or "")


def test_defaults_caps_and_switches() -> None:
    def world(harness: WhiteBox, tool: str, **arguments: Any) -> Call:
        return harness.to_world(Call(tool=tool, arguments=arguments), TOOLS)

    assert world(kimi_code.FULL, "Bash", command="ls").arguments == {"command": "ls", "seconds": 60}
    assert world(kimi_code.FULL, "Bash", command="ls", timeout=900).arguments["seconds"] == 300
    assert world(kimi_code.FULL, "Write", path="a", content="b", mode="append").arguments["append"] is True
    assert world(hermes.FULL, "patch", mode="patch", patch="p").tool == "patch"
    assert world(hermes.FULL, "search_files", pattern="*", target="files").tool == "glob"
    assert world(hermes.FULL, "web_extract", urls=["u", "v"]).arguments["url"] == "u"
    cut_down = tuple(tool for tool in TOOLS if tool.name != "patch")
    assert "not to be had" in (hermes.FULL.to_world(Call(tool="patch", arguments={"mode": "patch"}), cut_down).error or "")


def test_a_worlds_own_tools() -> None:
    """Views show what a tool of that name takes; what has no view is shown by the convention, and not where a shell does it."""
    own = (
        Tool(name="read", description="", parameters={"path": "string"}),
        Tool(name="run_tests", description="Run the tests.", parameters={}),
    )
    names = {name: [s["function"]["name"] for s in preset(name).schemas(own)] for name in PUBLIC}
    assert names["kimi_code"] == ["Read", "run_tests"]
    assert names["mini_swe"] == ["read", "run_tests"]
    (read, _) = kimi_code.FULL.schemas(own)
    assert list(read["function"]["parameters"]["properties"]) == ["path"]
    assert kimi_code.FULL.to_world(Call(tool="Read", arguments={"path": "a"}), own).arguments == {"path": "a"}
    assert [s["function"]["name"] for s in preset("mini_swe").schemas(TOOLS)] == ["bash"]


MESSAGES = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text("ab ", max_size=120)), max_size=8)


@given(said=MESSAGES, budget=st.integers(0, 60), head=st.integers(0, 30))
def test_users_words_keep_within_their_budget(said: list[tuple[str, str]], budget: int, head: int) -> None:
    messages = [{"role": role, "content": text} for role, text in said]
    fitted = fit_users(messages, budget, head)
    users = [m["content"] for m in fitted if m["role"] == "user"]
    whole = [text for role, text in said if role == "user"]
    kept = sum(tokens_of(text) for text in users if "left out" not in text)
    cut = [text for text in users if "left out" in text]
    assert len(cut) <= 1
    assert kept + sum(tokens_of(re.sub(r"\n… \(.*\) …\n", "", text)) for text in cut) <= budget
    assert [m for m in fitted if m["role"] != "user"] == [m for m in messages if m["role"] != "user"]
    assert whole[len(whole) - len(users) + len(cut) :] == users[len(cut) :], "the newest stay, in order, whole"
    assert fit_users(messages, None, head) == messages


def exchange(n: int, result: str) -> Exchange:
    return Exchange(sampled=(), calls=(Call(tool="Read", arguments={"path": str(n)}),), results=(result,))


@given(st.lists(st.integers(0, 6_000), max_size=12), st.floats(0, 1))
def test_pruning_cuts_results_and_never_calls(sizes: list[int], share: float) -> None:
    exchanges = [exchange(n, "x" * size) for n, size in enumerate(sizes)]
    pruned = Pruning(least=9_000).prune(exchanges, share)
    assert [e.calls for e in pruned] == [e.calls for e in exchanges]
    assert all(len(e.results) == len(e.calls) for e in pruned)
    assert pruned[-3:] == exchanges[-3:]
    if share < 0.3:
        assert pruned == exchanges
    elif CLEARED not in {result for e in pruned for result in e.results}:
        assert all(len(e.results[0]) <= 4_000 for e in pruned[:-3])


@given(st.lists(st.integers(0, 800), max_size=12), st.integers(0, 9), st.integers(100, 2_000))
def test_what_is_kept_is_the_end(sizes: list[int], keep: int, limit: int) -> None:
    exchanges = [exchange(n, "x" * size) for n, size in enumerate(sizes)]
    kept = Compaction(keep=keep, keep_tokens=300).kept(exchanges, limit)
    assert kept == exchanges[len(exchanges) - len(kept) :]
    assert len(kept) <= keep
    assert sum(tokens_of(e.results[0]) for e in kept) <= min(300, limit / 2)


def test_triggers() -> None:
    window = 1_000_000
    assert [kimi_code.CONTEXT.due(tokens, window) for tokens in (850_000, 850_001)] == [False, True]
    assert [kimi_code.CONTEXT.due(tokens, 200_000) for tokens in (150_000, 150_001)] == [False, True], "50,000 stay free"
    pi = preset("pi").context
    assert [pi.due(tokens, 200_000) for tokens in (200_000 - 16_384, 200_000 - 16_383)] == [False, True]


def turn(*arguments: str, failed: bool = False) -> Turn:
    calls = tuple(Call(tool="Bash", arguments={"command": text}) for text in arguments)
    return Turn(think="", response=None, calls=calls, observations=("error: no" if failed else "ok",) * len(calls))


@given(before=st.lists(st.sampled_from("ab"), max_size=4), count=st.integers(1, 14))
def test_ladder_counts_equal_calls_in_a_row(before: list[str], count: int) -> None:
    ladder = kimi_code.RULES.ladder
    assert ladder is not None
    turns = [*(turn(text) for text in before), turn("b"), *[turn("c")] * count]
    assert ladder.repeats(turns) == count
    assert bool(ladder.reminder(count)) == (count in (3, 5, 8))
    assert kimi_code.FULL.stuck(turns) == (count >= 12)
    assert ladder.repeats([turn("c", "c")]) == 1, "equal calls of one message count once"
    assert Ladder(remind=(), history=3).repeats([turn("c"), turn("a"), turn("c"), turn("c")]) == 2


def test_ladder_of_failures() -> None:
    ladder = hermes.RULES.ladder
    assert ladder is not None
    assert ladder.repeats([turn("a", failed=True), turn("b"), turn("a", failed=True)]) == 2
    assert ladder.repeats([turn("a"), turn("a")]) == 0


def start(name: str, chat: Xtml, runtime: SandboxRuntime, context: int = 200_000) -> Episode:
    family = Errand()
    task = family.generate("train", 0, 0)
    limits = Limits(turns=60, new_tokens=100_000, context=context)
    slot = Slot(task=replace(task, limits=limits), effort="max", group="g", index=0, seed=0)
    return Episode.start(slot, family=family, harness=harness_of(name), chat=chat, runtime=runtime)


def write(episode: Episode, move: Move) -> None:
    ids = episode.chat.completion(episode.harness.to_wire(move, episode.tools))
    request = episode.request()
    finish = "stop" if len(ids) <= request.max_new else "length"
    ids = ids[: request.max_new]
    logprobs = np.zeros(len(ids), np.float32)
    episode.accept(Completion(request=request.id, ids=ids, logprobs=logprobs, policy_version=0, finish=finish))


def conclude(episode: Episode) -> Trajectory:
    final = episode.final()
    return episode.conclude(None if final is None else Errand().verify(episode.slot.task, final))


@pytest.mark.parametrize("name", [n for n in PUBLIC if n not in ("codex", "mini_swe")] + ["pi+kimi_code+hermes+hermes/nano"])
def test_gold_passes(name: str, chat: Xtml, namespaces: SandboxRuntime) -> None:
    episode = start(name, chat, namespaces)
    act(episode, Errand().gold(episode.slot.task))
    trajectory = conclude(episode)
    assert (trajectory.result.status, trajectory.stop) == ("pass", "answered")
    assert trajectory.composition_hash == hash_of(json.loads(json.dumps(harness_of(name).composition)))


def test_a_policy_that_repeats_itself_is_told_and_stopped(chat: Xtml, namespaces: SandboxRuntime) -> None:
    episode = start("kimi_code", chat, namespaces)
    while not episode.done:
        write(episode, Move(calls=(Call(tool="read", arguments={"path": "notes.txt"}),)))
    trajectory = conclude(episode)
    assert (trajectory.stop, len(trajectory.turns)) == ("loop", 12)
    told = [n for n, t in enumerate(trajectory.turns, 1) if "<system-reminder>" in t.observations[0]]
    assert told == [3, 5, 8]


@settings(max_examples=5, deadline=None)
@given(
    name=st.sampled_from(["kimi_code/nano", "claude_code/nano", "hermes/nano", "openclaw/nano", "pi/nano"]),
    sizes=st.lists(st.integers(1, 60), min_size=4, max_size=14),
    reload=st.booleans(),
)
def test_compaction_never_parts_calls_from_results(
    chat: Xtml, namespaces: SandboxRuntime, name: str, sizes: list[int], reload: bool
) -> None:
    """Every row reads: as many results behind each message as it has calls; the summary stands in the next row."""
    context = 1_500
    episode = start(name, chat, namespaces, context)
    for n, size in enumerate(sizes):
        if episode.done:
            break
        if episode.summarising:
            write(episode, Move(response=f"summary {n}"))
            assert episode.done or f"summary {n}" in chat.decode(episode.request().ids)
        elif not episode.done:
            calls = [Call(tool="shell", arguments={"command": f"seq {n} {n + size}"})] * (1 + n % 2)
            write(episode, Move(calls=tuple(calls)))
        if reload and not episode.done:
            episode = Episode.restore(episode.save(), families={"errand": Errand()}, chat=chat, runtime=namespaces)
    while not episode.done:
        write(episode, Move(response="done"))
    trajectory = conclude(episode)
    assert all(len(row) <= context or not row.sampled_mask.any() for row in trajectory.rows)
    check_pairs(trajectory)


def check_pairs(trajectory: Trajectory) -> None:
    """Behind each message in a row, sampled there or carried over, come as many results as it has calls, or the row's end."""
    sampled = [s for row in trajectory.rows for s in row.segments if s.source == "sampled"]
    calls = {s.ids.tobytes(): len(turn.calls) for s, turn in zip(sampled, trajectory.turns, strict=True)}
    for row in trajectory.rows:
        due, results = 0, 0
        for _, group in groupby(row.segments, key=lambda segment: segment.message):
            pieces = list(group)
            if pieces[0].role == "tool":
                results += 1
            elif pieces[0].role == "assistant":
                assert results == due
                due, results = sum(calls.get(piece.ids.tobytes(), 0) for piece in pieces), 0
        assert results in (0, due)


def test_compositions_are_split_for_good() -> None:
    every = compositions()
    assert len(every) == len(set(every)) > 500
    contents = {hash_of({**combine(parts).composition, "name": "", "version": ""}) for parts in every}
    assert len(contents) == len(every), "no composition stands in two splits under two names"
    parts = {split: set(compositions(split)) for split in ("train", "dev", "heldout")}
    assert sum(map(len, parts.values())) == len(every)
    assert 0.05 < len(parts["heldout"]) / len(every) < 0.2
    assert all(split_of_parts(p) == "heldout" for p in parts["heldout"])


def test_sampler_is_seeded_and_keeps_out_what_it_should() -> None:
    drawn = [Sampler(seed=1).draw(f"g{n}") for n in range(40)]
    assert drawn == [Sampler(seed=1).draw(f"g{n}") for n in range(40)]
    assert drawn != [Sampler(seed=2).draw(f"g{n}") for n in range(40)]
    assert len({h.name for h in drawn}) > 20
    held = {Sampler(seed=1, split="heldout").draw(f"g{n}").name for n in range(40)}
    assert not held & {h.name for h in drawn}
    for harness in [Sampler(without=("kimi_code", "pi")).draw(f"g{n}") for n in range(40)]:
        assert not {"kimi_code", "pi"} & set(harness.name.removesuffix("/nano").split("+"))
    assert all(not Sampler().draw(f"g{n}", tools=("lookup",)).rules.sentinel for n in range(40))
    assert all(harness_of(h.name) == h for h in drawn)
    with pytest.raises(UserError, match="go together"):
        harness_of("pi+pi+pi+mini_swe")
    with pytest.raises(UserError, match="named tools"):
        harness_of("pi+pi")


@pytest.mark.parametrize("name", ["assistant", "repair"])
def test_families_are_played_under_sampled_harnesses(name: str, chat: Xtml, namespaces: SandboxRuntime) -> None:
    """Worlds with tools of their own meet any composition: gold passes, and each of its calls is understood."""
    family = families()[name]
    task = family.generate("train", 0, 5)
    task = replace(task, limits=replace(task.limits, context=50_000, new_tokens=50_000))
    for number in range(4):
        slot = Slot(task=task, effort="max", group=f"g{number}", index=0, seed=number)
        harness = Sampler(seed=3, split="heldout")(slot)
        episode = Episode.start(slot, family=family, harness=harness, chat=chat, runtime=namespaces)
        act(episode, family.gold(task))
        final = episode.final()
        assert final is not None
        trajectory = episode.conclude(family.verify(task, final, runtime=namespaces))
        assert trajectory.result.status == "pass", (harness.name, [turn.observations for turn in trajectory.turns])
