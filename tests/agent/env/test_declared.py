"""Tools by JSON schemas, and what a harness makes of the parameters that may be left out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from ninefold.agent.env.declared import KINDS, record_of, schema_of, tool_of, tools_of
from ninefold.agent.harness.tools import BAD_ARGUMENTS, ToolInterface
from ninefold.core.protocols import Tool
from ninefold.core.types import Call

KIND = st.sampled_from(sorted(set(KINDS.values())))
NAMES = st.text(st.characters(categories=["Ll"]), min_size=1, max_size=6)
TOOLS = st.builds(
    lambda name, kinds, needed: Tool(
        name=name,
        description="",
        parameters={n: k for n, k in kinds.items() if n in needed},
        optional={n: k for n, k in kinds.items() if n not in needed},
    ),
    NAMES,
    st.dictionaries(NAMES, KIND, max_size=4),
    st.sets(NAMES),
)


@given(TOOLS)
def test_a_tool_comes_back_from_its_schema(tool: Tool) -> None:
    assert tool_of(tool.name, "", json.loads(json.dumps(schema_of(tool)))) == tool
    assert tools_of(json.loads(json.dumps([record_of(tool)]))) == (tool,)


def test_what_a_schema_says_beyond_types_is_told() -> None:
    schema = {
        "properties": {
            "size": {"type": "integer", "description": "In litres."},
            "colour": {"anyOf": [{"type": "null"}, {"type": "string"}], "enum": ["red", "blue"]},
            "odd": {"$ref": "#/nowhere"},
        },
        "required": ["size"],
    }
    tool = tool_of("pour", "Pour it.", schema)
    assert tool.description == "Pour it.\nsize: In litres.\ncolour: one of red, blue"
    assert (tool.parameters, tool.optional) == ({"size": "number"}, {"colour": "string", "odd": "string"})


def test_described_tools_take_what_may_be_left_out() -> None:
    tool = Tool(name="pour", description="", parameters={"size": "number"}, optional={"colour": "string"})
    described, bare = ToolInterface(schema="described"), ToolInterface()
    assert set(described.schemas([tool])[0]["function"]["parameters"]["properties"]) == {"size", "colour"}
    assert set(bare.schemas([tool])[0]["function"]["parameters"]["properties"]) == {"size"}
    whole = Call(tool="pour", arguments={"size": 1, "colour": "red"})
    assert described.to_world(whole, [tool]) == whole
    assert described.to_world(Call(tool="pour", arguments={"size": 1}), [tool]).error is None
    for call, wrong in (
        (Call(tool="pour", arguments={"colour": "red"}), "size is missing (number)"),
        (Call(tool="pour", arguments={"size": 1, "colour": 2}), "colour is 2, not of type string"),
        (
            Call(tool="pour", arguments={"size": 1, "shape": "round"}),
            "shape is not a parameter; there are size (number), colour (string)",
        ),
    ):
        assert described.to_world(call, [tool]).error == f"{BAD_ARGUMENTS}: {wrong}"
    assert bare.to_world(whole, [tool]).error == f"{BAD_ARGUMENTS}: colour is not a parameter; there are size (number)"
