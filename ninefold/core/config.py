"""Configuration: frozen pydantic models, TOML files that are dumps of them, dotted overrides, unknown keys refused."""

from __future__ import annotations

import json
import re
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
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

    A field that is a mapping keeps its keys and gains the given ones; a model has no keys but its fields.
    Raises UserError naming the key, what stood there, and the keys that exist.
    """
    values = default.model_dump(mode="json")
    if file is not None:
        try:
            given = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(f"no configuration file {file}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UserError(f"{file} is not valid TOML: {error}") from None
        _merge(values, given, str(file), default)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise UserError(f"--set takes KEY=VALUE, got {override!r}; e.g. --set rl.steps=10")
        _merge(values, _nest(key.strip().split("."), parse_value(text)), f"--set {override}", default)
    try:
        return type(default).model_validate(values)
    except ValidationError as error:
        raise UserError(f"configuration: {faults(error)}") from None


def faults(error: ValidationError) -> str:
    """Which keys are at fault, why, and what stood there (not for a rule over several keys, which names them), in one line."""

    def told(fault: Any) -> str:
        where = ".".join(str(part) for part in fault["loc"])
        reason = fault["msg"].removeprefix("Value error, ")
        over_several = fault["type"] == "value_error" and isinstance(fault["input"], dict)
        got = "" if over_several else f" (got {reprlib.repr(fault['input'])})"
        return f"{where}: {reason}{got}" if where else reason + got

    return "; ".join(told(fault) for fault in error.errors())


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
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    if isinstance(value, str):
        # TOML knows JSON's escapes, but no surrogate pairs, and wants DEL escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def _nest(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return value


def _merge(values: dict[str, Any], given: dict[str, Any], where: str, owner: object, path: tuple[str, ...] = ()) -> None:
    """Put `given` into `values`, the dump of `owner`: a model, which has its fields alone, or a mapping, which has any key."""
    for key, value in given.items():
        if isinstance(owner, BaseModel) and key not in values:
            known = ", ".join(sorted(values))
            raise UserError(f"{where}: unknown key {'.'.join((*path, key))!r}; here one may set {known}")
        if isinstance(values.get(key), dict) and isinstance(value, dict):
            _merge(values[key], value, where, _inner(owner, key), (*path, key))
        else:
            values[key] = value


def _inner(owner: object, key: str) -> object:
    if isinstance(owner, BaseModel):
        return getattr(owner, key)
    return owner.get(key) if isinstance(owner, Mapping) else None
