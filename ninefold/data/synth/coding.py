"""Coding tasks by rules: do what these documented functions do, judged by hidden calls.

Functions are those of the standard library that answer literal arguments with JSON, whatever process they run in; which
arguments those are is found by trying, in the sandbox. [ours]
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from ninefold.core.protocols import ExecLimits, SandboxRuntime
from ninefold.core.seeds import rng_of
from ninefold.data.lines import drop_torn_line, numbered_lines
from ninefold.data.synth.draft import Draft
from ninefold.data.synth.graph import Graph, Node
from ninefold.data.synth.knowledge import blanked
from ninefold.data.synth.library import PYTHON
from ninefold.data.synth.names import words_of
from ninefold.data.synth.target import Cell
from ninefold.index import Document

CALLS = 8
"""Hidden calls of a task, at most."""
_FEWEST = 4
"""Calls with different results that a function must answer."""
_MACHINE = frozenset(
    {
        "getpass",
        "inspect",
        "linecache",
        "locale",
        "os",
        "platform",
        "shutil",
        "site",
        "socket",
        "subprocess",
        "sysconfig",
        "time",
    }
)
"""Modules whose answers depend on the machine, its settings or its files."""
_PROBE_LIMITS = ExecLimits(seconds=5.0, memory_mb=256, processes=8)
_PROBE = """
import importlib, inspect, itertools, json, sys
POOL = ["", "a", "Hello, World", "The quick  brown fox", "a/b/../c.txt", "3.75", "x=1&y=two", "<p>5 > 3</p>", "*.py",
        0, 1, 7, -12, 360, 2.5, [], [3, 1, 2], [1.5, 2.5, 4.0, 8.0], ["b", "a", "b"], "abcabc", "2024-02-29", "key: value",
        [[1, 2], [3, 4]], True, 97, 2024, "10.0.0.1", "#top", "user@example.com", "\\ttab", "C:\\\\dir\\\\file",
        "a,b;c", [5, 5, 6]]
function = getattr(importlib.import_module(MODULE), NAME)
if not inspect.isfunction(function) and not inspect.isbuiltin(function):
    raise SystemExit("no function")
wanted = [p for p in inspect.signature(function).parameters.values() if p.kind < 2 and p.default is p.empty]
answered = []
choices = itertools.product(POOL, repeat=len(wanted)) if 1 <= len(wanted) <= 2 else []
for arguments in choices:
    try:
        fresh, again = json.loads(json.dumps(arguments)), json.loads(json.dumps(arguments))
        first, second = (json.dumps(function(*given), sort_keys=True, allow_nan=False) for given in (fresh, again))
    except BaseException:
        continue
    if first == second and first not in ("null", "[]", '""') and len(first) < 400:
        answered.append([arguments, json.loads(first)])
print("\\n" + NONCE + json.dumps(answered))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the standard library and calls that it answers."""

    module: str
    name: str
    calls: Mapping[str, Any]
    """JSON of the arguments → result."""


@dataclass(kw_only=True)
class Functions:
    """Functions by dotted name, each tried once."""

    runtime: SandboxRuntime
    path: Path
    """File of what they answered, a line each: no function is tried again after a restart."""

    def of(self, node: Node) -> Function | None:
        """None where it is no function of the standard library, or does not answer enough calls differently."""
        documented = bool(node.evidence) and node.evidence[0].url.startswith(f"doc://{PYTHON}/")
        if (
            not documented
            or node.name.partition(".")[0] in _MACHINE
            or re.fullmatch(r"[a-z_][\w.]*\.[a-z]\w*", node.name) is None
        ):
            return None
        if node.name not in self._tried:
            function = self._tried[node.name] = self._try(node.name)
            with self.path.open("a") as file:
                file.write(json.dumps([node.name, function and dict(function.calls)]) + "\n")
        return _documented(self._tried[node.name], node)

    @cached_property
    def _tried(self) -> dict[str, Function | None]:
        drop_torn_line(self.path)
        records = [json.loads(line) for _, line in numbered_lines(self.path)] if self.path.exists() else []
        return {title: None if calls is None else _function(title, calls) for title, calls in records}

    def _try(self, title: str) -> Function | None:
        module, _, name = title.rpartition(".")
        nonce = f"calls of {title}: "
        program = f"MODULE, NAME, NONCE = {module!r}, {name!r}, {nonce!r}\n{_PROBE}"
        sandbox = self.runtime.create({})
        try:
            ended = sandbox.python(program, limits=_PROBE_LIMITS)
        finally:
            sandbox.close()
        lines = [line.removeprefix(nonce) for line in ended.stdout.splitlines() if line.startswith(nonce)]
        if ended.exit_code != 0 or len(lines) != 1:
            return None
        calls = {json.dumps(arguments): result for arguments, result in json.loads(lines[0])}
        return _function(title, calls) if len({json.dumps(r, sort_keys=True) for r in calls.values()}) >= _FEWEST else None


def _documented(function: Function | None, node: Node) -> Function | None:
    """The function with the calls that its documentation speaks of: of strings alone where it names them. None where too few
    of them change what they are given."""
    if function is None:
        return None
    strings = bool(words_of(node.definition) & {"string", "text", "pattern", "pathname", "path"})
    calls = {text: r for text, r in function.calls.items() if not strings or all(isinstance(a, str) for a in json.loads(text))}
    changed = {json.dumps(r, sort_keys=True) for text, r in calls.items() if r not in json.loads(text)}
    return replace(function, calls=calls) if len(changed) >= _FEWEST else None


def _function(title: str, calls: Mapping[str, Any]) -> Function:
    module, _, name = title.rpartition(".")
    return Function(module=module, name=name, calls=calls)


def coding(
    cell: Cell, nodes: Sequence[Node], graph: Graph, documents: tuple[Document, ...], functions: Functions
) -> Draft | str:
    """A draft on those of the nodes that are functions, or why there is none."""
    used = [(node, function) for node in nodes if (function := functions.of(node)) is not None]
    if not used:
        return "no function among the nodes"
    calls = _calls(nodes, [function for _, function in used])
    quotes = [blanked(node, [other for other, _ in used]) for node, _ in used]
    sources = [evidence for node, _ in used for evidence in node.evidence]
    others = [other for node, _ in used for id in graph.finer(graph.coarser(node.id)[0]) if id != node.id
              if (other := functions.of(graph.node(id))) is not None][:6]  # fmt: skip
    programs = [f"{function.module}.{function.name}" for _, function in used]
    return Draft(
        cell=cell,
        nodes=tuple(node.name for node in nodes),
        instruction=_instruction(quotes),
        quotes=tuple(quotes),
        hidden=tuple(node.name for node, _ in used),
        file="solution.py",
        gold=program(programs, "[{}]"),
        expected={"calls": [arguments for arguments, _ in calls], "results": [json.dumps(r, sort_keys=True) for _, r in calls]},
        evidence=tuple(sources),
        documents=documents,
        guesses=tuple(_guesses(len(used))),
        mutants=tuple(_mutants(programs, [f"{other.module}.{other.name}" for other in others])),
    )


def _calls(nodes: Sequence[Node], functions: Sequence[Function]) -> list[tuple[list[Any], list[Any]]]:
    """Hidden calls: a list of arguments for each function, and the list of their results."""
    rng = rng_of("calls", *(node.name for node in nodes))
    drawn = [_telling(function, rng) for function in functions]
    rows = [[calls[i % len(calls)] for calls in drawn] for i in range(CALLS)]
    return [([arguments for arguments, _ in row], [result for _, result in row]) for row in rows]


def _telling(function: Function, rng: Random) -> list[tuple[list[Any], Any]]:
    """Calls with different results, at most CALLS; those that return an argument as it is come last."""
    calls = [(json.loads(arguments), result) for arguments, result in function.calls.items()]
    rng.shuffle(calls)
    calls.sort(key=lambda call: call[1] in call[0])
    by_result = {json.dumps(result, sort_keys=True): (arguments, result) for arguments, result in reversed(calls)}
    chosen = sorted(by_result.values(), key=calls.index)
    return chosen[:CALLS]


def _instruction(quotes: Sequence[str]) -> str:
    listed = "\n".join(f'- "{quote}"' for quote in quotes)
    return (
        "Write solution.py with a function solve that takes "
        f"{len(quotes)} list{'s' if len(quotes) > 1 else ''} of arguments and returns a list: for each, in order, what the "
        "function of Python's standard library returns for those positional arguments that is documented so:\n\n"
        f"{listed}\n\nThe folder documents/ holds its documentation among other; the first line of each text is its address, "
        "the second the name. Hidden calls compare what solve returns, as JSON.\n"
    )


def program(names: Sequence[str], result: str) -> str:
    """Calls each of the functions with its arguments; `result` has a place for the list of what they return."""
    modules = "".join(f"import {module}\n" for module in sorted({name.rpartition(".")[0] for name in names}))
    arguments = ", ".join(f"a{i}" for i in range(len(names)))
    called = ", ".join(f"{name}(*a{i})" for i, name in enumerate(names))
    return f"{modules}\n\ndef solve({arguments}):\n    return {result.format(called)}"


_PEEK = """import json, os, pathlib

for folder in (os.environ.get("TESTS", "/tests"), "tests", "../tests", "task/tests"):
    for file in pathlib.Path(folder).glob("*.json"):
        results = iter(json.loads(file.read_text())["results"])


def solve(*a):
    return json.loads(next(results))"""
"""Takes the results from the verifier's folder."""


def _guesses(count: int) -> list[str]:
    """Programs that need no document: constants, and what comes to mind for any argument."""
    bodies = ("None", "x[0]", "str(x[0])", "True", "False", "x[0].strip()", "x[0].lower()", "sorted(x[0])", "x[0] == x[-1]",
              "sum(x[0])", "float(x[0])", "x[0].split()")  # fmt: skip
    programs = [f"def solve(*a):\n    return [{body} for x in a][:{count}]" for body in bodies]
    return [*programs, _PEEK]


def _mutants(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Other functions in the place of the last, arguments turned round or cut, results changed, swapped or left out."""
    wrong = [program([*names[:-1], other], "[{}]") for other in others]
    wrong += [program(names, changed) for changed in ("[{}][:-1]", "[str(r) + ' ' for r in [{}]]", "[[r] for r in [{}]]")]
    gold = program(names, "[{}]")
    wrong.append(gold.replace("(*a0)", "(*a0[:-1])"))
    wrong.append(f"{gold}\n\n\n_solve, _calls = solve, []\n\n\ndef solve(*a):\n    _calls.append(1)\n"
                 "    return _solve(*a) if len(_calls) % 4 else None")  # fmt: skip
    if len(names) > 1:
        wrong.append(program(names, "[{}][::-1]"))
    return wrong
