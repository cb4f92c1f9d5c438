"""What is wrong with a repository, and how it is told: edits of its syntax tree, and functions that are missing."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from ninefold.agent.env.hack.code import Edit, edited, edits
from ninefold.agent.env.software import repository as repositories
from ninefold.agent.env.software.repository import Repository, signature
from ninefold.agent.env.software.sources import RAISED, Case, Sources
from ninefold.core.seeds import rng_of

_POOL, _PUBLIC = 10, 2
"""Calls of each function that are drawn at first, and those of them that its public tests make."""
_SHOWN = 3
"""Least number of the drawn calls of one function that a change has to show in."""
_WORK: tuple[tuple[str, ...], ...] = (("edit",), ("edit",), ("edit",), ("missing",), ("edit", "edit", "missing"))
"""What is wrong at each level."""
_HOW = "Tests : python3 -m tests . Hidden tests cover what is said here and in docs/ ; nothing else may change ."


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One file as it was made wrong."""

    path: str
    text: str
    missing: str = ""
    """Name of the function that was taken out; empty where one was edited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A repository with something wrong, which a public test shows for each change."""

    repository: Repository
    changes: tuple[Change, ...]
    """At most one a file."""
    shown: Mapping[str, tuple[Case, ...]]
    """Whole name of a function → calls of it that show a change."""
    seed: int
    """Draws the other public calls."""
    text: str

    @property
    def right(self) -> dict[str, str]:
        """The changed files as they ought to be."""
        return {change.path: self.repository.sources[change.path] for change in self.changes}

    @property
    def key(self) -> str:
        """Content key: all sources, right and wrong, under whatever name."""
        return "software/" + json.dumps([list(self.repository.sources.values()), [change.text for change in self.changes]])

    @property
    def base(self) -> dict[str, str]:
        """The sources that the agent starts with."""
        return {**self.repository.sources, **{change.path: change.text for change in self.changes}}

    def calls(self) -> dict[str, list[Case]]:
        """Whole name of a function → the calls of its public tests."""
        found: dict[str, list[Case]] = {}
        for name in self.repository.draws:
            drawn = calls(self.repository, name, rng_of("public", self.seed, name), _PUBLIC)
            shown = list(self.shown.get(name, ()))
            found[name] = [*shown, *(case for case in drawn if case not in shown)][: max(_PUBLIC, len(shown))]
        return found

    @staticmethod
    def draw(rng: Random, level: int) -> Issue:
        repository = repositories.draw(rng, level)
        pool = _Pool(repository, rng.getrandbits(63))
        changes: list[Change] = []
        shown: dict[str, tuple[Case, ...]] = {}
        told: list[str] = []
        for work in _WORK[level]:
            change, name, number = _found(rng, pool, work, [change.path for change in changes], far=level > 1)
            case, outcome = pool.cases(name)[number], pool.outcomes(name)[number]
            changes.append(change)
            shown[name] = (*shown.get(name, ()), case)
            told.append(_told(repository, change, case, outcome))
        text = " ".join([*told, _HOW]) if level else "Fix f.py : test_f.py fails ."
        return Issue(repository=repository, changes=tuple(changes), shown=shown, seed=rng.getrandbits(63), text=text)


def calls(repository: Repository, name: str, rng: Random, count: int) -> list[Case]:
    """At most so many calls of a function, no two alike."""
    module, _, function = name.rpartition(".")
    drawn = [[draw(rng) for draw in repository.draws[name]] for _ in range(count)]
    return [Case(module, function, json.loads(text)) for text in dict.fromkeys(map(json.dumps, drawn))]


class _Pool:
    """Calls on which changes are tried, and what is right for them; of a function when it is first asked for."""

    def __init__(self, repository: Repository, seed: int) -> None:
        self.repository = repository
        self._seed = seed
        self._right = Sources(repository.sources)
        self._cases: dict[str, list[Case]] = {}
        self._outcomes: dict[str, list[str]] = {}

    def cases(self, name: str) -> list[Case]:
        if name not in self._cases:
            self._cases[name] = calls(self.repository, name, rng_of("pool", self._seed, name), _POOL)
        return self._cases[name]

    def outcomes(self, name: str) -> list[str]:
        if name not in self._outcomes:
            self._outcomes[name] = [self._right.outcome(case) for case in self.cases(name)]
        return self._outcomes[name]

    def shows(self, change: Change) -> dict[str, int]:
        """Functions in enough of whose calls a change shows → the first of these calls.

        Of an edit this call must not raise: that would tell of the place.
        """
        wrong = Sources({**self.repository.sources, change.path: change.text})
        found: dict[str, int] = {}
        for name in self.repository.reached(change.path):
            seen = [wrong.outcome(case) for case in self.cases(name)]
            differ = [n for n, (got, right) in enumerate(zip(seen, self.outcomes(name))) if got != right]
            if len(differ) >= _SHOWN and (change.missing or not seen[differ[0]].startswith(RAISED)):
                found[name] = differ[0]
        return found


def _found(rng: Random, pool: _Pool, work: str, taken: Sequence[str], *, far: bool) -> tuple[Change, str, int]:
    """A change, a function that shows it, and the number of the call that does.

    Where `far`, an edit is told of by a function of another file if one shows it; a missing function by itself.
    """
    repository = pool.repository
    paths = [path for path in repository.sources if repository.within(path) and path not in taken]
    while True:
        path = rng.choice(paths)
        change = _edited(rng, repository, path) if work == "edit" else _without(rng, repository, path)
        within = repository.within(path)
        if change.text == repository.sources[path]:
            continue
        shown = pool.shows(change)
        own = [name for name in within if name in shown and (not change.missing or name.endswith(f".{change.missing}"))]
        others = [name for name in shown if name not in within] if far and not change.missing else []
        if own:
            name = rng.choice(others or own)
            return change, name, shown[name]


def _edited(rng: Random, repository: Repository, path: str) -> Change:
    """One edit that could be a slip of the pen; an edit that comes to nothing shows in no call."""
    source = repository.sources[path]
    edit = rng.choice(_edits(source))
    return Change(path=path, text=edited(source, edit) or source)


@lru_cache(maxsize=256)
def _edits(source: str) -> tuple[Edit, ...]:
    """All but names, which mostly end in an error that says where it is, and results that are gone, which nothing tells of."""
    return tuple(edit for edit in edits(source) if not edit.what.startswith(("variable", "result")))


def _without(rng: Random, repository: Repository, path: str) -> Change:
    """The body of one function taken out; what it does is still said."""
    text = repository.sources[path]
    node = rng.choice([node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)])
    lines = text.splitlines(keepends=True)
    begin, end = node.body[0].end_lineno, node.end_lineno
    assert begin is not None
    body = "    raise NotImplementedError\n"
    return Change(path=path, text="".join([*lines[:begin], body, *lines[end:]]), missing=node.name)


def _told(repository: Repository, change: Change, case: Case, right: str) -> str:
    """The issue, as somebody tells it who sees what comes out and not why."""
    if change.missing:
        body = ast.parse(repository.sources[change.path]).body
        node = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == change.missing)
        said = " ".join((ast.get_docstring(node) or "").split())
        return f"{case.module}.{signature(node)} is still missing ; write it : {said}"
    wrong = Sources({**repository.sources, change.path: change.text}).outcome(case)
    return f"{written(case)} gives {json.loads(wrong)!r} , but should give {json.loads(right)!r} ."


def written(case: Case, *, short: bool = False) -> str:
    """A call as Python; `short` names the module by its last part."""
    module = case.module.rpartition(".")[2] if short else case.module
    return f"{module}.{case.function}({', '.join(map(repr, case.arguments))})"
