"""Repositories: one of the trees, a part of one, or all of them in one package, with constants drawn from a seed."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

from ninefold.agent.env.software.draws import DRAWS, Draw, whole

_TREES = Path(__file__).with_name("trees")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "depot": ("depot", "shop", "store"),
    "lingo": ("lingo", "calc", "terse"),
    "plan": ("plan", "office", "times"),
}
"""What the package of a tree may be called."""
_SETTINGS: Mapping[str, tuple[int, int]] = {
    "TAX": (5, 25),
    "FREE_FROM": (1500, 6000),
    "POSTAGE": (90, 990),
    "BATCH": (2, 12),
    "GRACE": (3, 12),
    "MODULUS": (100, 997),
    "DEEPEST": (2, 5),
    "WIDTH": (12, 30),
    "OPEN": (6, 10),
    "HOURS": (6, 10),
    "SCALE": (2, 4),
}
"""Constants of the trees' settings, and between what they are drawn."""
_LINES = (
    "x*<a>+y",
    "x-y*<a>+<b>",
    "x+<b> if x>y else y*<a>",
    "(x+y)*<a>-<b>",
    "x*y-<b>",
    "max(x,y)*<a>+<b>",
    "x%<a>*<b>+y",
    "min(x,<b>)+y*<a>",
)
_IMPORT = re.compile(r"^from \.(\w+) import", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Sources that are right, and how to call them."""

    package: str
    """Its folder; empty where it is a single file."""
    sources: Mapping[str, str]
    """Path → text."""
    draws: Mapping[str, tuple[Draw, ...]]
    """Whole name of a function → a draw for each of its arguments."""

    def within(self, path: str) -> list[str]:
        """Whole names of the functions of one file."""
        module = path.removesuffix(".py").replace("/", ".")
        return [name for name in self.draws if name.rpartition(".")[0] == module]

    def reached(self, path: str) -> list[str]:
        """Whole names of the functions that an edit of a file can change: of it and of all that import it."""
        return [name for other in self.sources if path in self._closure(other) for name in self.within(other)]

    def _closure(self, path: str) -> set[str]:
        """A file and all that it imports."""
        folder = path.rpartition("/")[0]
        found = {path}
        for module in _IMPORT.findall(self.sources[path]):
            found |= self._closure(f"{folder}/{module}.py")
        return found


def draw(rng: Random, level: int) -> Repository:
    """A line (level 0), a few modules of a tree (1), more of them (2), a tree (3), or all trees (4)."""
    if level == 0:
        return _line(rng)
    if level == 4:
        trees = [_tree(rng, name, f"works/{name}", ()) for name in DRAWS]
        sources = {"works/__init__.py": '"""All that the office runs on."""\n'}
        for tree in trees:
            sources |= tree.sources
        return Repository(package="works", sources=sources, draws={n: d for tree in trees for n, d in tree.draws.items()})
    name = rng.choice(list(DRAWS))
    return _tree(rng, name, rng.choice(_NAMES[name]), () if level == 3 else _part(rng, name, small=level == 1))


def docs(repository: Repository) -> dict[str, str]:
    """A page for each module, made of its docstrings, and a README."""
    pages: dict[str, str] = {}
    for path, text in repository.sources.items():
        module = path.removesuffix(".py").replace("/", ".")
        if not path.endswith("__init__.py"):
            pages[f"docs/{module.partition('.')[2]}.md"] = f"# {module}\n\n{_page(text)}\n"
    about = _page(repository.sources[f"{repository.package}/__init__.py"])
    readme = f"# {repository.package}\n\n{about}\n\nWhat each function does is said in docs/. Tests: `python3 -m tests`\n"
    return {"README.md": readme, **pages}


@lru_cache(maxsize=512)
def _page(text: str) -> str:
    """The docstrings of a module and of its functions."""
    tree = ast.parse(text)
    parts = [ast.get_docstring(tree) or ""]
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            parts += [f"## {signature(node)}", ast.get_docstring(node) or ""]
    return "\n\n".join(parts)


def signature(node: ast.FunctionDef) -> str:
    """Name and parameters of a function."""
    return f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"


def _line(rng: Random) -> Repository:
    text = rng.choice(_LINES).replace("<a>", str(rng.randint(2, 9))).replace("<b>", str(rng.randint(2, 9)))
    return Repository(package="", sources={"f.py": f"def f(x,y): return {text}\n"}, draws={"f.f": _line_draws()})


def _tree(rng: Random, name: str, folder: str, modules: Collection[str]) -> Repository:
    """A tree, or some modules of it, in a folder."""
    texts = _texts(name)
    chosen = {m: text for m, text in texts.items() if not modules or m in modules or m == "__init__"}
    for constant, (least, most) in _SETTINGS.items():
        if "settings" in chosen:
            chosen["settings"] = re.sub(
                rf"^{constant} = \d+", f"{constant} = {rng.randint(least, most)}", chosen["settings"], flags=re.MULTILINE
            )
    dotted = folder.replace("/", ".")
    draws = {f"{dotted}.{function}": d for function, d in DRAWS[name].items() if function.partition(".")[0] in chosen}
    return Repository(
        package=folder.partition("/")[0], sources={f"{folder}/{m}.py": text for m, text in chosen.items()}, draws=draws
    )


def _part(rng: Random, name: str, *, small: bool) -> set[str]:
    """A module and all that it imports."""
    closures = [_needed(name, module) for module in _texts(name) if module not in ("__init__", "settings")]
    return rng.choice([found for found in closures if (len(found) <= 3) == small])


def _needed(name: str, module: str) -> set[str]:
    return {module}.union(*(_needed(name, other) for other in _IMPORT.findall(_texts(name)[module])))


@lru_cache(maxsize=8)
def _texts(name: str) -> Mapping[str, str]:
    """Module → text."""
    return {path.stem: path.read_text() for path in sorted((_TREES / name).glob("*.py"))}


def draws_of(functions: Sequence[str]) -> dict[str, tuple[Draw, ...]]:
    """How the arguments of functions of a drawn repository are drawn, by their whole names."""
    known = {alias: tree for tree, aliases in _NAMES.items() for alias in aliases}
    found: dict[str, tuple[Draw, ...]] = {}
    for name in functions:
        parts = name.split(".")
        found[name] = _line_draws() if len(parts) == 2 else DRAWS[known[parts[-3]]][".".join(parts[-2:])]
    return found


def _line_draws() -> tuple[Draw, ...]:
    return (whole(-9, 20), whole(-9, 20))
