"""Packages as text: loaded without the import system, so that nothing is left behind and no two of them meet."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any, NamedTuple

RAISED = '["raised", '
"""How the outcome of a call that raises begins."""
_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
    re.error,
)


class Case(NamedTuple):
    """One call of a function of a repository."""

    module: str
    """Its whole name."""
    function: str
    arguments: Sequence[Any]
    """JSON."""


class Sources:
    """The modules of a repository of our own making, each loaded when it is first asked for."""

    def __init__(self, files: Mapping[str, str]) -> None:
        """`files` is path → text; paths are those of modules and packages from the repository's root."""
        self._files = files
        self._modules: dict[str, ModuleType] = {}

    def outcome(self, case: Case) -> str:
        """JSON text of what the call returns, or of what it raises."""
        try:
            function = getattr(self._module(case.module), case.function)
            return json.dumps(function(*json.loads(json.dumps(case.arguments))))
        except _ERRORS as error:
            return json.dumps(["raised", type(error).__name__])

    def _module(self, name: str) -> ModuleType:
        if name not in self._modules:
            path = self._path(name)
            assert path is not None, name
            module = ModuleType(name)
            module.__package__ = name if path.endswith("__init__.py") else name.rpartition(".")[0]
            module.__dict__["__builtins__"] = {**vars(builtins), "__import__": self._import}
            exec(_compiled(path, self._files[path]), module.__dict__)
            self._modules[name] = module
        return self._modules[name]

    def _import(
        self, name: str, space: Mapping[str, Any] | None = None, _: object = None, wanted: Sequence[str] = (), level: int = 0
    ) -> ModuleType:
        """What `from … import …` calls: our own modules come from `files`, all others from Python."""
        if level and space is not None:
            package = str(space["__package__"]).rsplit(".", level - 1)[0]
            return self._module(f"{package}.{name}")
        return self._module(name) if self._path(name) else __import__(name, fromlist=wanted)

    def _path(self, name: str) -> str | None:
        path = name.replace(".", "/")
        return next((found for found in (f"{path}.py", f"{path}/__init__.py") if found in self._files), None)


@lru_cache(maxsize=1024)
def _compiled(path: str, text: str) -> CodeType:
    return compile(text, path, "exec", dont_inherit=True)
