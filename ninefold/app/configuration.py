"""The recipe that a run is started with, and goes on with."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ninefold.core.config import configured, faults
from ninefold.core.errors import UserError
from ninefold.core.store import Run
from ninefold.recipes.config import Recipe


def stored_recipe(run: Run) -> Recipe:
    """The recipe in the run's config.toml; keys that an older version did not write take their defaults."""
    if not run.config.exists():
        raise UserError(f"{run.path} has no config.toml: it was never started with `ninefold run`")
    try:
        return Recipe.model_validate(tomllib.loads(run.config.read_text()))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{run.config} is not valid TOML: {error}") from None
    except ValidationError as error:
        raise UserError(f"{run.config} is no configuration of this version of ninefold: {faults(error)}") from None


def resolve(default: Recipe, run: Run, *, file: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe to run: `default` with the given values for a new run, the stored one for a run that goes on.

    Raises UserError where a run that goes on is asked for other values than it was started with.
    """
    if not run.config.exists():
        return configured(default, file=file, overrides=overrides)
    stored = stored_recipe(run)
    asked = configured(stored, file=file, overrides=overrides)
    if changed := differences(stored, asked):
        lines = "; ".join(f"{key} is {old!r}, not {new!r}" for key, (old, new) in changed.items())
        raise UserError(f"{run.path} was started with another configuration: {lines}. Give the changed run a --name of its own")
    return stored


def differences(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted key → (old, new) where two recipes differ."""
    before, after = _flat(old.model_dump(mode="json")), _flat(new.model_dump(mode="json"))
    keys = dict.fromkeys([*before, *after])
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
