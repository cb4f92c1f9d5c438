"""What every stage of a run works with: tokenizer, chat format, families, sandbox, verifier, models, engines, tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ninefold.agent import env
from ninefold.agent.effort.budget import budget_of
from ninefold.agent.env.lacking import skipped
from ninefold.agent.env.verify import FreshVerifier
from ninefold.chat.chatml import ChatML
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml
from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.protocols import Family, SandboxRuntime
from ninefold.core.seeds import rng_of, seed_of
from ninefold.core.store import Run, is_complete, read_json
from ninefold.core.types import Budget, Cell, Domain, Effort, Split, Task, Trajectory
from ninefold.engine.native import NativeEngine
from ninefold.recipes.config import Recipe
from ninefold.recipes.origin import Origin, Policy, origin_of
from ninefold.rollout.play import lineup, play
from ninefold.rollout.scene import Scene
from ninefold.sandbox.runtime import open_runtime


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The tools of one run in one process; built from the run's folder, so that any process can have its own."""

    recipe: Recipe
    run: Run

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process gets the run and makes its own tools."""
        return partial(Kit, recipe=self.recipe, run=self.run), ()

    @cached_property
    def origin(self) -> Origin:
        """Where models, tokenizer and chat format come from."""
        return origin_of(self.recipe, self.run)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.chat.tokenizer

    @cached_property
    def chat(self) -> Xtml | ChatML:
        return self.origin.chat()

    @cached_property
    def families(self) -> dict[str, Family]:
        """Every family of the recipe. Raises UserError where one does not exist, or not in that domain or at that level."""
        return {family.name: family for family in (*self.trained, *map(env.family, self.measured))}

    @cached_property
    def trained(self) -> tuple[Family, ...]:
        """The families that stages train."""
        trained: list[Family] = []
        for domain, chosen in self.recipe.families.items():
            for name, levels in chosen.items():
                family = family_of(name, levels, f"families.{domain}.{name}")
                trained.append(family)
                if family.domain != domain:
                    raise UserError(f"families.{domain}.{name}: {name} is a family of domain {family.domain}; name it there")
        return tuple(trained)

    @cached_property
    def measured(self) -> dict[str, tuple[int, ...]]:
        """The families that are only evaluated on, by name, and at which levels."""
        measured: dict[str, tuple[int, ...]] = {}
        for name, levels in self.recipe.evaluate.transfer.items():
            family = family_of(name, levels, f"evaluate.transfer.{name}")
            if any(family.name == other.name for other in self.trained):
                raise UserError(f"evaluate.transfer.{name}: the run trains {family.name}; name a family that it does not")
            measured[family.name] = levels
        return measured

    @property
    def runtime(self) -> SandboxRuntime | None:
        """The sandbox runtime; None where no cell of this run needs one."""
        return None if isinstance(self._isolation, SandboxUnavailable) else self._isolation

    @cached_property
    def _isolation(self) -> SandboxRuntime | SandboxUnavailable | None:
        """The sandbox runtime, or why there is none; None where no family needs one."""
        if not any(family.isolated for family in self.families.values()):
            return None
        runtime = open_runtime("namespace")
        try:
            runtime.check()
        except SandboxUnavailable as error:
            return error
        return runtime

    @cached_property
    def scene(self) -> Scene:
        """What episodes are played in: each group under a harness of its own."""
        deadlines = self.recipe.deadlines
        return Scene(
            chat=self.chat,
            families=self.families,
            verify=FreshVerifier(seconds=deadlines.verification),
            harness=self.recipe.harness.sampler(),
            runtime=self.runtime,
            deadlines=deadlines,
        )

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The run's cells; without those whose tasks this machine cannot isolate."""
        return tuple(cell for cell in self.recipe.cells if cell[0] not in self.left_out)

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The domains of this run's cells."""
        return tuple(dict.fromkeys(domain for domain, _ in self.cells))

    @cached_property
    def left_out(self) -> dict[Domain, str]:
        """Domain → why it is left out of this run: its tasks run untrusted code and this machine cannot isolate."""
        if not isinstance(self._isolation, SandboxUnavailable):
            return {}
        chosen = self.recipe.families.items()
        return {domain: str(self._isolation) for domain, levels in chosen if any(env.family(name).isolated for name in levels)}

    def tasks(self, domain: Domain, split: Split, count: int, *names: object) -> list[Task]:
        """`count` tasks of a domain's families and levels, fixed by split and `names`; with budgets once they are measured."""
        return [self.task(domain, split, i, *names) for i in range(count)]

    def task(self, domain: Domain, split: Split, index: int, *names: object) -> Task:
        """The `index`-th task of the stream that `names` fix."""
        rng = rng_of("task", domain, split, *names, index)
        kinds = [(family, level) for family, levels in self.recipe.families[domain].items() for level in levels]
        family, level = kinds[index % len(kinds)]
        task = env.family(family).generate(split, level, rng.getrandbits(48))
        return replace(task, budget=budget_of(task, self.budgets)) if self.budgets else task

    @property
    def budgets(self) -> dict[str, Budget]:
        """Task shape or family → b₀; empty before they are measured."""
        return self._measured if is_complete(self.run.stage("budgets")) else {}

    @cached_property
    def _measured(self) -> dict[str, Budget]:
        return {shape: Budget(**fields) for shape, fields in read_json(self.run.stage("budgets") / "budgets.json").items()}

    def play(self, model: Policy, tasks: Sequence[Task], effort: Effort, name: str) -> list[Trajectory]:
        """The model's attempts at the tasks, one each, in order; `name` seeds them."""
        slots = lineup([(task, effort) for task in tasks], seed=seed_of(self.recipe.seed, name), name=f"{name}/")
        return play(slots, engine=self.engine(model), scene=self.scene, width=self.recipe.engine.rows)

    def engine(self, model: Policy) -> NativeEngine:
        return NativeEngine(self.origin.decodable(model), stop_ids=self.chat.stop_ids, config=self.recipe.engine)

    def start(self) -> Policy:
        """The model that SFT begins with."""
        return self.origin.load(self.run.stage(self.origin.stage) / "model")

    def load(self, *stage: str) -> Policy:
        """The model that a stage from SFT on left, quantisation-aware where it has experts."""
        return self.origin.load(self.run.stage(*stage) / "model")

    def save(self, model: Policy, folder: Path) -> None:
        """Leave a model in a stage's folder."""
        self.origin.save(model, folder / "model")

    def controls(self) -> dict[str, Any]:
        """Values changed while the run goes on."""
        return read_json(self.run.controls) if self.run.controls.exists() else {}


def family_of(name: str, levels: Sequence[int], key: str) -> Family:
    """The family of that name. Raises UserError, naming the configuration's key, where it has no such levels or lacks something
    on this machine."""
    family = env.family(name)
    if not levels or not all(0 <= level < family.levels for level in levels):
        takes = f"takes a list of one or more levels, e.g. [0]; levels are 0 to {family.levels - 1}"
        raise UserError(f"{key}: {takes} (got {list(levels)})")
    for level, reason in skipped(family, levels).items():
        raise UserError(f"{key}: level {level} cannot be played here: {reason}")
    return family
