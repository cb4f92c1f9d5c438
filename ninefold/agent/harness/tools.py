"""The tool interface: how tools are named, declared and called on the wire, and how much of a result is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ninefold.agent.harness.arguments import fault
from ninefold.agent.harness.naming import Convention, wire_name
from ninefold.chat.messages import call_id, tool_call
from ninefold.core.protocols import Message, Move, Tool
from ninefold.core.types import Call

SchemaStyle = Literal["bare", "strict", "described"]

NO_SUCH_TOOL = "no such tool"
BAD_ARGUMENTS = "bad arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInterface:
    """One way of offering tools to a policy."""

    naming: Convention = "plain"
    schema: SchemaStyle = "bare"
    """bare: names and types; strict: no further properties; described: with the tool's description, and with the parameters
    that may be left out."""
    output_limit: int = 4_000
    """Characters of a tool result that the policy sees."""

    def schemas(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """OpenAI function declarations; no two tools may share a name on the wire."""
        declared = [self._schema(tool) for tool in tools]
        names = [schema["function"]["name"] for schema in declared]
        assert len(set(names)) == len(names), f"two tools are called the same under {self.naming}: {names}"
        return declared

    def to_wire(self, call: Call, tools: Sequence[Tool]) -> Call:
        """A call in canonical names as this interface's policy writes it; what no tool is called stays as it is."""
        tool = next((tool for tool in tools if tool.name == call.tool), None)
        if tool is None:
            return call
        name, parameters = wire_name(tool, self.naming)
        renamed = dict(zip(tool.parameters, parameters))
        return Call(tool=name, arguments={renamed.get(key, key): value for key, value in call.arguments.items()})

    def to_world(self, call: Call, tools: Sequence[Tool]) -> Call:
        """A call off the wire in canonical names, with `error` where it names no tool or its arguments do not fit."""
        if call.error is not None:
            return call
        for tool in tools:
            name, parameters = wire_name(tool, self.naming)
            if name == call.tool:
                return _canonical(call, tool, parameters, tool.optional if self.schema == "described" else {})
        return Call(tool=call.tool, arguments=call.arguments, error=NO_SUCH_TOOL)

    def observation(self, text: str) -> str:
        """A result cut to `output_limit` characters, with the number left out stated."""
        left_out = len(text) - self.output_limit
        return text if left_out <= 0 else f"{text[: self.output_limit]}… ({left_out} more)"

    def phrases(self, tools: Sequence[Tool]) -> list[str]:
        """Names, and what stands around names in a compact, sorted declaration of `tools`."""
        names = [text for tool in tools for text in _flat(wire_name(tool, self.naming))]
        return names + around(self.schemas(tools), names)

    def _schema(self, tool: Tool) -> dict[str, Any]:
        name, parameters = wire_name(tool, self.naming)
        kinds = [{"type": kind} for kind in tool.parameters.values()]
        shape: dict[str, Any] = {"type": "object", "properties": dict(zip(parameters, kinds)), "required": list(parameters)}
        function: dict[str, Any] = {"name": name, "parameters": shape}
        if self.schema == "strict":
            shape["additionalProperties"] = False
        elif self.schema == "described":
            function["description"] = tool.description
            shape["properties"] |= {name: {"type": kind} for name, kind in tool.optional.items()}
        return {"type": "function", "function": function}


def written(move: Move, calls: Sequence[Call]) -> Message:
    """A scripted move as an assistant message; `calls` are its calls in the names of the wire."""
    message: dict[str, Any] = {"role": "assistant", "reasoning_content": move.think, "content": move.response}
    if calls:
        message["tool_calls"] = [tool_call(call, call_id(number)) for number, call in enumerate(calls, 1)]
    return message


def _canonical(call: Call, tool: Tool, parameters: Sequence[str], optional: Mapping[str, str]) -> Call:
    names = dict(zip(parameters, tool.parameters)) | {name: name for name in optional}
    wrong = fault(call.arguments, {name: tool.parameters[names[name]] for name in parameters}, optional)
    if wrong is not None:
        return Call(tool=tool.name, arguments=call.arguments, error=f"{BAD_ARGUMENTS}: {wrong}")
    return Call(tool=tool.name, arguments={names[name]: value for name, value in call.arguments.items()})


def _flat(name: tuple[str, tuple[str, ...]]) -> list[str]:
    return [name[0], *name[1]]


def around(schemas: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """The pieces of declarations' text between quoted names."""
    pieces: list[str] = []
    for schema in schemas:
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        for name in names:
            text = text.replace(f'"{name}"', '"\x00"')
        pieces += filter(None, text.split("\x00"))
    return pieces
