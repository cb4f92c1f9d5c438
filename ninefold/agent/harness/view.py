"""Views: the tools of a harness as names, schemas and layouts over the executor's operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ninefold.agent.harness.arguments import fits, shown, unknown
from ninefold.agent.harness.delegation import Delegation
from ninefold.agent.harness.executor.operations import OPERATIONS
from ninefold.agent.harness.layout import Layout
from ninefold.agent.harness.tools import BAD_ARGUMENTS, ToolInterface
from ninefold.core.protocols import Observation, Tool
from ninefold.core.types import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a view."""

    schema: Mapping[str, Any] = field(hash=False)
    """JSON schema of its value."""
    to: str = ""
    """The canonical parameter that it becomes; empty: it is taken and has no effect."""
    required: bool = False
    default: Any = field(default=None, hash=False)
    """What it is where left out, in the view's unit; where required, what a scripted policy writes."""
    scale: float = 1.0
    """Canonical units in one of the view's: 0.001 of milliseconds."""
    most: float | None = None
    """Larger numbers are taken as this one, in the view's unit."""
    single: bool = False
    """Whether the canonical value is the first item of an array."""
    names: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """The view's value → the canonical one, where they differ. Of an array of objects: its keys, and values of `status`."""

    @property
    def kind(self) -> str:
        return self.schema.get("type", "string")

    def problem(self, value: Any) -> str:
        """What is wrong with a value off the wire; empty where nothing is."""
        return _problem(value, self.schema)

    def canonical(self, value: Any) -> Any:
        """A value off the wire as the executor takes it."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            value = min(value, self.most) if self.most is not None else value
            return value if self.scale == 1.0 else value * self.scale
        if isinstance(value, list):
            renamed = [_renamed(item, self.names) for item in value]
            return next(iter(renamed), "") if self.single else renamed
        return self.names.get(value, value) if isinstance(value, str) else value

    def wire(self, value: Any) -> Any:
        """The inverse of `canonical`, as far as there is one."""
        back = {canonical: wire for wire, canonical in self.names.items()}
        if isinstance(value, bool):
            return back.get(value, value)
        if isinstance(value, int | float):
            value = value if self.scale == 1.0 else value / self.scale
            return round(value) if self.kind == "integer" else value
        if isinstance(value, list):
            return [_renamed(item, back) for item in value]
        if isinstance(value, str):
            return [value] if self.single else back.get(value, value)
        return value


def required(schema: Mapping[str, Any], to: str = "", **facts: Any) -> Parameter:
    """A parameter that every call has to give."""
    return Parameter(schema=schema, to=to, required=True, **facts)


def optional(schema: Mapping[str, Any], to: str = "", **facts: Any) -> Parameter:
    """A parameter that may be left out."""
    return Parameter(schema=schema, to=to, **facts)


TEXT: Mapping[str, Any] = {"type": "string"}
WHOLE: Mapping[str, Any] = {"type": "integer"}
NUMBER: Mapping[str, Any] = {"type": "number"}
FLAG: Mapping[str, Any] = {"type": "boolean"}
OBJECT: Mapping[str, Any] = {"type": "object"}
TEXTS: Mapping[str, Any] = {"type": "array", "items": TEXT}


def choice(*values: str) -> Mapping[str, Any]:
    """Schema of one of these strings."""
    return {"type": "string", "enum": list(values)}


def within(least: int, most: int | None = None) -> Mapping[str, Any]:
    """Schema of a whole number in a range."""
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def record(needed: Sequence[str] = (), **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Schema of an object with these properties, of which `needed` have to be there."""
    return {"type": "object", "properties": properties, "required": list(needed)}


def array(items: Mapping[str, Any], least: int | None = None, most: int | None = None) -> Mapping[str, Any]:
    """Schema of an array."""
    bounds = {"minItems": least, "maxItems": most}
    return {"type": "array", "items": items} | {name: n for name, n in bounds.items() if n is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One tool as a harness shows it."""

    name: str
    operation: str
    """Of the executor; one that it lacks (`agent`, `ask`, …) is shown where a task's world offers it."""
    description: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter], hash=False)
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    """Canonical arguments that every call carries."""
    switch: str = ""
    """A parameter whose value chooses between operations; empty: there is one."""
    cases: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    """Its values → the operations that they stand for instead of `operation`."""
    layout: Layout = field(default_factory=Layout)

    @property
    def operations(self) -> tuple[str, ...]:
        """Every operation that it can mean."""
        return (self.operation, *self.cases.values())

    def schema(self, tool: Tool, *, described: bool, optional: bool, strict: bool) -> dict[str, Any]:
        """The OpenAI function declaration, of the parameters that mean something to `tool`."""
        shown = {name: p for name, p in self.shown(tool).items() if optional or p.required}
        shape: dict[str, Any] = {
            "type": "object",
            "properties": {name: dict(p.schema) for name, p in shown.items()},
            "required": [name for name, p in shown.items() if p.required],
        }
        if strict:
            shape["additionalProperties"] = False
        function: dict[str, Any] = {"name": self.name, "parameters": shape}
        if described:
            function["description"] = self.description
        return {"type": "function", "function": function}

    def shown(self, tool: Tool) -> Mapping[str, Parameter]:
        """All parameters over an operation of the executor, and over a world's own tool those that it takes."""
        if OPERATIONS.get(tool.name) == tool:
            return self.parameters
        known = {**tool.parameters, **tool.optional}
        return {name: p for name, p in self.parameters.items() if p.to in known or (p.required and not p.to)}

    def to_world(self, call: Call, offered: Mapping[str, Tool]) -> Call:
        """A call off the wire in canonical names, with `error` where its arguments do not fit."""
        parameters = self.shown(offered[self.operation])
        problems = [p for name, value in call.arguments.items() if (p := _fault(parameters, name, value))]
        lacking = [name for name, p in parameters.items() if p.required and name not in call.arguments]
        problems += [f"{name} is missing ({parameters[name].kind})" for name in lacking]
        tool = offered.get(self.cases.get(str(call.arguments.get(self.switch)), self.operation))
        if tool is None:
            problems.append(f"{self.switch} {call.arguments[self.switch]} is not to be had here")
        if problems or tool is None:
            return Call(tool=self.operation, arguments=call.arguments, error=f"{BAD_ARGUMENTS}: {problems[0]}")
        known = {**tool.parameters, **tool.optional}
        arguments = {name: value for name, value in self.fixed.items() if name in known}
        for name, parameter in parameters.items():
            value = call.arguments.get(name, None if parameter.required else parameter.default)
            if parameter.to in known and value is not None:
                arguments[parameter.to] = parameter.canonical(value)
        return Call(tool=tool.name, arguments=arguments)

    def to_wire(self, call: Call, offered: Mapping[str, Tool]) -> Call | None:
        """A canonical call as this view's policy writes it; None where the view cannot say it."""
        shown = self.shown(offered[self.operation])
        by_target = {p.to: name for name, p in shown.items() if p.to}
        if any(self.fixed[key] != call.arguments[key] for key in call.arguments.keys() & self.fixed.keys()):
            return None
        if not call.arguments.keys() <= by_target.keys() | self.fixed.keys():
            return None
        given = {by_target[key]: value for key, value in call.arguments.items() if key in by_target}
        written = {
            name: p.wire(given[name]) if name in given else p.default
            for name, p in shown.items()
            if name in given or (p.required and (not p.to or p.default is not None))
        }
        case = next((value for value, operation in self.cases.items() if operation == call.tool), None)
        return Call(tool=self.name, arguments=written if case is None else {**written, self.switch: case})


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The tools of a harness: views of the operations that a task offers, and the world's own tools by a convention.

    An operation that the harness has no view of is not shown where a shell can do its work, and by the convention elsewhere.
    """

    views: tuple[View, ...]
    """The most needed first."""
    others: ToolInterface = field(default_factory=lambda: ToolInterface(schema="described"))
    """How tools without a view are shown."""
    most: int = 0
    """Views shown at once; 0 means all."""
    described: bool = True
    optional: bool = True
    """Whether parameters that may be left out are declared; they are understood in any case."""
    strict: bool = False
    """Whether schemas forbid further properties."""
    delegation: Delegation = field(default_factory=Delegation)
    """Of its tool that begins sub-agents."""

    def shown(self, offered: Iterable[str]) -> list[View]:
        """The views of a task that offers these operations."""
        names = set(offered)
        views = [view for view in self.views if view.operation in names]
        return views[: self.most] if self.most else views

    def schemas(self, tools: Sequence[Tool]) -> list[dict[str, Any]]:
        """OpenAI function declarations: views, then the other tools."""
        offered = _named(tools)
        how = {"described": self.described, "optional": self.optional, "strict": self.strict}
        declared = [view.schema(offered[view.operation], **how) for view in self.shown(offered)]
        return declared + self.others.schemas(self._plain(tools))

    def to_wire(self, call: Call, tools: Sequence[Tool]) -> Call:
        """A canonical call as the policy writes it; what no tool says stays as it is."""
        offered = _named(tools)
        views = [view for view in self.shown(offered) if call.tool in view.operations]
        said = next(filter(None, (view.to_wire(call, offered) for view in views)), None)
        return said or self.others.to_wire(call, self._plain(tools))

    def to_world(self, call: Call, tools: Sequence[Tool]) -> Call:
        """A call off the wire in canonical names, with `error` where it names no tool or its arguments do not fit."""
        if call.error is not None:
            return call
        offered = _named(tools)
        view = self._called(call, offered)
        return self.others.to_world(call, self._plain(tools)) if view is None else view.to_world(call, offered)

    def show(self, call: Call, observation: Observation, tools: Sequence[Tool]) -> str:
        """What came of a call in the names of the wire, as the policy sees it."""
        view = self._called(call, _named(tools))
        return self.others.observation(observation.text) if view is None else view.layout.show(observation)

    def _called(self, call: Call, offered: Mapping[str, Tool]) -> View | None:
        return next((view for view in self.shown(offered) if view.name == call.tool), None)

    def _plain(self, tools: Sequence[Tool]) -> list[Tool]:
        """The tools that are shown by the convention."""
        shown = {name for view in self.shown(_named(tools)) for name in view.operations}
        hidden = {name for view in self.views for name in view.operations}
        if "shell" in shown:
            hidden |= OPERATIONS.keys()
        return [tool for tool in tools if tool.name not in shown | hidden]


def _named(tools: Sequence[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def _fault(parameters: Mapping[str, Parameter], name: str, value: Any) -> str:
    if name not in parameters:
        return unknown(name, {known: p.kind for known, p in parameters.items()})
    problem = parameters[name].problem(value)
    return problem and f"{name} {problem}: {shown(value)}"


def _problem(value: Any, schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "integer" and isinstance(value, float) and not value.is_integer():
        return "is not a whole number"
    if kind is not None and not fits(value, "number" if kind == "integer" else kind):
        return f"is not of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"is not one of {', '.join(map(str, schema['enum']))}"
    if kind in ("integer", "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"is not within {schema.get('minimum', '…')} and {schema.get('maximum', '…')}"
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return f"has more than {schema['maxLength']} characters"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"has {len(value)} items, not {schema.get('minItems', 0)} to {schema.get('maxItems', '…')}"
        return next(filter(None, (_problem(item, schema.get("items", {})) for item in value)), "")
    if isinstance(value, dict):
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            return f"lacks {missing[0]}"
        properties = schema.get("properties", {})
        return next((f"{n}: {p}" for n, v in value.items() if n in properties and (p := _problem(v, properties[n]))), "")
    return ""


def _renamed(item: Any, names: Mapping[str, Any]) -> Any:
    if not isinstance(item, dict):
        return item
    return {names.get(key, key): names.get(value, value) if key == "status" else value for key, value in item.items()}
