"""The recipe that a run is started with, and goes on with."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ninefold.core.config import configured, faults
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete
from ninefold.recipes.config import Recipe


def stored_recipe(run: Run) -> Recipe:
    """The recipe in the run's config.toml; keys that an older version did not write take their defaults."""
    if not run.config.exists():
        raise UserError(f"{run.path} has no config.toml: it was never started with `ninefold run`")
    try:
        values = tomllib.loads(run.config.read_text(encoding="utf-8"))
        if not values:
            raise UserError(f"{run.config} is empty: it was cut off; remove the run, or put its configuration back")
        return Recipe.model_validate(values)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{run.config} is not valid TOML: {error}") from None
    except ValidationError as error:
        raise UserError(f"{run.config} is no configuration of this version of ninefold: {faults(error)}") from None


def resolve(default: Recipe, run: Run, *, file: Path | None = None, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe to run: `default` with the given values for a run that has nothing yet, the stored one for one that goes on.

    Raises UserError where a run that goes on is asked for another recipe or other values than it was started with.
    """
    if not run.config.exists() or not any(map(is_complete, run.stage().glob("*"))):
        return configured(default, file=file, overrides=overrides)
    stored = stored_recipe(run)
    if stored.name and stored.name != default.name:
        raise UserError(
            f"{run.path} was started as recipe {stored.name}, not {default.name}: give this run a --name of its own"
        )
    asked = configured(stored, file=file, overrides=overrides)
    if changed := differences(stored, asked):
        lines = "; ".join(f"{key} is {old!r}, not {new!r}" for key, (old, new) in changed.items())
        raise UserError(f"{run.path} was started with another configuration: {lines}. Give the changed run a --name of its own")
    return stored


def differences(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted key → (old, new) where two recipes differ."""
    before, after = dotted(old.model_dump(mode="json")), dotted(new.model_dump(mode="json"))
    keys = dict.fromkeys([*before, *after])
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def dotted(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat
