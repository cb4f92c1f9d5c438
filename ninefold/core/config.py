"""Configuration: frozen pydantic models, TOML files that are dumps of them, dotted overrides, unknown keys refused."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ninefold.core.errors import UserError


class Config(BaseModel):
    """Base of every configuration: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


C = TypeVar("C", bound=Config)


def configured(default: C, *, file: Path | None = None, overrides: Sequence[str] = ()) -> C:
    """`default` with a TOML file's values, then `a.b=c` overrides, on top; validated as a whole.

    Raises UserError naming the key, what stood there, and the keys that exist.
    """
    values = default.model_dump(mode="json")
    if file is not None:
        try:
            given = tomllib.loads(file.read_text())
        except FileNotFoundError:
            raise UserError(f"no configuration file {file}") from None
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"{file} is not valid TOML: {error}") from None
        _merge(values, given, str(file))
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise UserError(f"--set takes KEY=VALUE, got {override!r}; e.g. --set rl.steps=10")
        _merge(values, _nest(key.strip().split("."), parse_value(text)), f"--set {override}")
    try:
        return type(default).model_validate(values)
    except ValidationError as error:
        lines = [f"{'.'.join(str(p) for p in e['loc'])}: {e['msg']} (got {e['input']!r})" for e in error.errors()]
        raise UserError("configuration: " + "; ".join(lines)) from None


def parse_value(text: str) -> Any:
    """A TOML value, or the text itself where it is none (so that names need no quotes)."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def to_toml(config: Config) -> str:
    """The whole configuration as TOML that `configured` reads back."""
    lines: list[str] = []
    _dump(config.model_dump(mode="json", exclude_none=True), (), lines)
    return "\n".join(lines).lstrip("\n") + "\n"


def _dump(table: dict[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    if path:
        lines.append(f"\n[{'.'.join(_key(p) for p in path)}]")
    for key, value in table.items():
        if not isinstance(value, dict):
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in table.items():
        if isinstance(value, dict):
            _dump(value, (*path, key), lines)


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return json.dumps(value)


def _nest(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return value


def _merge(values: dict[str, Any], given: dict[str, Any], where: str, path: tuple[str, ...] = ()) -> None:
    for key, value in given.items():
        if key not in values:
            known = ", ".join(sorted(values))
            raise UserError(f"{where}: unknown key {'.'.join((*path, key))!r}; here one may set {known}")
        if isinstance(values[key], dict) and isinstance(value, dict):
            _merge(values[key], value, where, (*path, key))
        else:
            values[key] = value
