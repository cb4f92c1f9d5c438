"""Harness modules: names and schemas there and back, prompts, context policies, presets, the sampler."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env import families
from ninefold.agent.harness.compose import Composed, compose
from ninefold.agent.harness.context import CLEARED, ContextPolicy, Exchange
from ninefold.agent.harness.presets import PRESETS, phrases
from ninefold.agent.harness.prompt import Prompt
from ninefold.agent.harness.sampler import sample
from ninefold.agent.harness.tools import BAD_ARGUMENTS, NO_SUCH_TOOL, ToolInterface
from ninefold.core.errors import UserError
from ninefold.core.protocols import Family, Move, ParsedMessage, Tool
from ninefold.core.types import Call

TOOLS = (
    Tool(name="lookup", description="Boss of a person.", parameters={"key": "string"}),
    Tool(name="write", description="Write a file.", parameters={"path": "string", "text": "string"}),
    Tool(name="mail_send", description="Send mail.", parameters={"to": "string", "urgent": "boolean", "copies": "number"}),
    Tool(name="next_day", description="End the day.", parameters={}),
)
VALUES = {"string": st.text(max_size=8), "boolean": st.booleans(), "number": st.integers() | st.floats(allow_nan=False)}


@st.composite
def calls(draw: st.DrawFn) -> Call:
    tool = draw(st.sampled_from(TOOLS))
    return Call(tool=tool.name, arguments={name: draw(VALUES[kind]) for name, kind in tool.parameters.items()})


@pytest.mark.parametrize("harness", PRESETS, ids=lambda h: h.name)
@given(call=calls())
def test_wire_names_are_undone(harness: Composed, call: Call) -> None:
    message = harness.to_wire(Move(calls=(call,)), TOOLS)
    function = message["tool_calls"][0]["function"]
    wire = Call(tool=function["name"], arguments=json.loads(function["arguments"]))
    assert harness.to_world(wire, TOOLS) == call
    declared = {schema["function"]["name"]: schema["function"]["parameters"] for schema in harness.schemas(TOOLS)}
    assert list(declared[wire.tool]["properties"]) == declared[wire.tool]["required"] == list(wire.arguments)


def test_presets_differ_in_names_schemas_and_prompts(assistant: Family) -> None:
    task = assistant.generate("train", 0, 1)
    tools = assistant.tools[:2]
    assert len({json.dumps(h.schemas(tools)) for h in PRESETS}) == len(PRESETS) >= 3
    assert len({h.schemas(tools)[0]["function"]["name"] for h in PRESETS}) == len(PRESETS)
    assert len({json.dumps(h.messages(task)) for h in PRESETS}) == len(PRESETS)


@pytest.mark.parametrize("name", families())
def test_every_family_has_distinct_wire_names(name: str) -> None:
    for harness in PRESETS:
        harness.schemas(families()[name].tools)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (Call(tool="rm", arguments={}), NO_SUCH_TOOL),
        (Call(tool="write", arguments={"path": "a"}), f"{BAD_ARGUMENTS}: text is missing (string)"),
        (
            Call(tool="write", arguments={"path": "a", "text": "b", "mode": "w"}),
            f"{BAD_ARGUMENTS}: mode is not a parameter; there are path (string), text (string)",
        ),
        (Call(tool="write", arguments={"path": "a", "text": 3}), f"{BAD_ARGUMENTS}: text is 3, not of type string"),
        (
            Call(tool="mail_send", arguments={"to": "x", "urgent": 1, "copies": 2}),
            f"{BAD_ARGUMENTS}: urgent is 1, not of type boolean",
        ),
        (
            Call(tool="mail_send", arguments={"to": "x", "urgent": True, "copies": True}),
            f"{BAD_ARGUMENTS}: copies is true, not of type number",
        ),
        (Call(tool="lookup", arguments={"key": "a"}, error="bad JSON"), "bad JSON"),
    ],
)
def test_calls_that_cannot_be_dispatched(call: Call, error: str) -> None:
    assert PRESETS[0].to_world(call, TOOLS).error == error


def test_tools_called_the_same_are_refused() -> None:
    clash = (Tool(name="cat", description="", parameters={}), Tool(name="read", description="", parameters={"path": "string"}))
    with pytest.raises(AssertionError, match="called the same"):
        ToolInterface(naming="service").schemas([*clash, Tool(name="Cat", description="", parameters={})])


@given(st.text(max_size=60), st.integers(1, 40))
def test_output_limit(text: str, limit: int) -> None:
    shown = ToolInterface(output_limit=limit).observation(text)
    assert shown == text if len(text) <= limit else shown.startswith(text[:limit]) and f"({len(text) - limit} more)" in shown


def test_phrases_rebuild_the_declaration() -> None:
    for harness in PRESETS:
        pieces = set(harness.phrases(TOOLS[:2]))
        for schema in harness.schemas(TOOLS[:2]):
            rest = json.dumps(schema, sort_keys=True, separators=(",", ":"))
            for piece in sorted(pieces, key=len, reverse=True):
                rest = rest.replace(piece, "")
            assert rest == ""
    assert len(phrases(TOOLS)) == len(set(phrases(TOOLS)))


@pytest.mark.parametrize("harness", PRESETS, ids=lambda h: h.name)
def test_composition_makes_it_again(harness: Composed) -> None:
    assert compose(json.loads(json.dumps(harness.composition))) == harness


def test_composition_errors_name_the_fault() -> None:
    with pytest.raises(UserError, match="colour"):
        compose({**PRESETS[0].composition, "stop": {"colour": 1}})
    with pytest.raises(ValueError, match="exactly once"):
        Prompt(user="no slot")


def test_sampler_is_seeded_and_covers_its_choices() -> None:
    drawn = [sample(f"g{n}", 3) for n in range(60)]
    assert drawn == [sample(f"g{n}", 3) for n in range(60)]
    assert {h.name for h in drawn} == {h.name for h in PRESETS}
    assert drawn != [sample(f"g{n}", 4) for n in range(60)]


def test_stop_rule() -> None:
    message = ParsedMessage(think="", response=None, calls=(Call(tool="x", arguments={}),), problems=(), think_tokens=0)
    harness = PRESETS[2]
    assert not harness.finished(message, harness.stop.turns - 1)
    assert harness.finished(message, harness.stop.turns)


def test_context_policies() -> None:
    exchanges = [Exchange(sampled=(), calls=(Call(tool="x", arguments={}),), results=(str(n),)) for n in range(5)]
    assert ContextPolicy(kind="truncate", keep=2).shorten(exchanges) == exchanges[3:]
    cleared = ContextPolicy(kind="clear", keep=2).shorten(exchanges)
    assert [e.results[0] for e in cleared] == [CLEARED] * 3 + ["3", "4"]
    assert not ContextPolicy().due(1000, 10)
    with pytest.raises(ValueError, match="keep"):
        ContextPolicy(keep=0)
