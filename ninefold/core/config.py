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
        if not all(part.strip() for part in key.split(".")):
            raise UserError(f"--set {override}: a part of the key is empty; e.g. --set rl.steps=10")
        _merge(values, _nest(key.strip().split("."), parse_value(text)), f"--set {override}", default)
    try:
        return type(default).model_validate(values)
    except ValidationError as error:
        raise UserError(f"configuration: {faults(error)}") from None


def faults(error: ValidationError) -> str:
    """Which keys are at fault, why, and what stood there (not for a rule over several keys, which names them), in one line."""

    return "; ".join(dict.fromkeys(map(_told, error.errors())))


_TAKES = {
    kind: words
    for kinds, words in (
        ("int_type int_parsing int_from_float", "takes a whole number"),
        ("float_type float_parsing", "takes a number"),
        ("finite_number", "takes a finite number"),
        ("bool_type bool_parsing", "takes true or false"),
        ("string_type", "takes a text"),
        ("tuple_type list_type", "takes a list: [A, B]"),
        ("dict_type model_type model_attributes_type", "takes keys of its own: {where}.KEY=VALUE"),
        ("literal_error", "takes {expected}"),
        ("greater_than_equal", "takes {ge} or more"),
        ("greater_than", "takes more than {gt}"),
        ("less_than_equal", "takes {le} or less"),
        ("less_than", "takes less than {lt}"),
        ("too_short", "takes a list of {min_length} or more"),
        ("too_long", "takes a list of {max_length} or fewer"),
        ("extra_forbidden", "is no key here"),
        ("missing", "is missing"),
    )
    for kind in kinds.split()
}
"""Kind of fault → what the key takes; in braces what pydantic tells of it."""


def _told(fault: Any) -> str:
    kind, loc = fault["type"], fault["loc"]
    takes = _TAKES.get(kind, "")
    if loc and loc[-1] == "[key]":
        loc, takes = loc[:-1], "there is no such key; there are {expected}"
    elif kind == "missing" and isinstance(loc[-1], int):
        loc, takes = loc[:-1], "takes more values"
    where = ".".join(map(str, loc))
    reason = takes.format(where=where, **fault.get("ctx", {})) or fault["msg"].removeprefix("Value error, ")
    over_several = kind == "value_error" and isinstance(fault["input"], dict)
    got = "" if over_several else f" (got {reprlib.repr(fault['input'])})"
    return f"{where}: {reason}{got}" if where else reason + got


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
