"""Which harness a task group runs under: drawn by seed, the same for all K samples of the group.

Either one of given compositions, or a new one: tools, prompt, context and rules each of some public harness. The split of a
composition is fixed by the hash of its name, so that what is held out was never trained under.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Literal

from ninefold.agent.harness.compose import AnyHarness
from ninefold.agent.harness.executor import OPERATIONS
from ninefold.agent.harness.presets import PRESETS, PUBLIC, preset
from ninefold.agent.harness.whitebox import WhiteBox
from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.core.seeds import rng_of, split_of
from ninefold.core.types import Slot

Parts = tuple[str, str, str, str]
"""The public harnesses that tools, prompt, context and rules are taken from; of equal modules the first one's."""
_MODULES = ("toolset", "prompt", "context", "rules")
HarnessSplit = Literal["train", "dev", "heldout"]


class HarnessConfig(Config):
    """Which harness the task groups of a run meet."""

    among: tuple[str, ...] = tuple(harness.name for harness in PRESETS)
    """Names to draw from (`ninefold harness ls`); empty: each group gets a new composition of the public ones."""
    split: HarnessSplit = "train"
    """Of the new compositions."""
    without: tuple[str, ...] = ()
    """Public harnesses of which new compositions take no module."""
    nano: bool = True
    """Whether new compositions are those for small contexts."""

    def sampler(self) -> Callable[[Slot], AnyHarness]:
        """Slot → the harness of its group. Raises UserError for a harness that there is not."""
        if unknown := set(self.without) - set(PUBLIC):
            raise UserError(f"harness.without names {', '.join(sorted(unknown))}; public harnesses are {', '.join(PUBLIC)}")
        if not self.among:
            return Sampler(split=self.split, without=self.without, nano=self.nano)
        among = self.harnesses()
        return lambda slot: sample(slot.group, 0, among)

    def harnesses(self) -> tuple[AnyHarness, ...]:
        """Harnesses that together put on the wire whatever the drawn ones do."""
        return tuple(map(harness_of, self.among or [f"{name}/nano" if self.nano else name for name in PUBLIC]))


def sample(group: str, seed: int, among: Sequence[AnyHarness] = PRESETS) -> AnyHarness:
    """The harness of a group; equal arguments give equal harnesses."""
    if not among:
        raise UserError("no harness composition to choose from: give at least one")
    return rng_of("harness", seed, group).choice(among)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Draws new compositions."""

    seed: int = 0
    split: HarnessSplit = "train"
    nano: bool = True
    """Whether the modules are those for small contexts."""
    without: tuple[str, ...] = ()
    """Public harnesses of which no module is taken."""

    def __call__(self, slot: Slot) -> WhiteBox:
        """The harness of a slot's group: what `rollout.scene.Scene` asks for."""
        return self.draw(slot.group, slot.task.tools)

    def draw(self, group: str, tools: Sequence[str] = tuple(OPERATIONS)) -> WhiteBox:
        """The harness of a group whose task offers `tools`. Raises UserError where none is left."""
        choices = _choices(self.split, self.without, "shell" in tools)
        if not choices:
            raise UserError(f"no composition of the split {self.split} without {', '.join(self.without)} fits {list(tools)}")
        return combine(rng_of("composition", self.seed, group).choice(choices), nano=self.nano)


@cache
def _choices(split: HarnessSplit, without: tuple[str, ...], shell: bool) -> tuple[Parts, ...]:
    """The split's compositions without a module that only harnesses left out have; a sentinel is printed by a shell."""
    return tuple(
        parts
        for parts in compositions(split)
        if (shell or not _full(parts[3]).rules.sentinel)
        and not any(set(_owners(module, name)) <= set(without) for module, name in zip(_MODULES, parts))
    )


def compositions(split: HarnessSplit | None = None) -> tuple[Parts, ...]:
    """Every composition whose modules are compatible, or those of one split; no two of them are equal."""
    return tuple(parts for parts in _all() if split is None or split_of_parts(parts) == split)


@cache
def _all() -> tuple[Parts, ...]:
    return tuple(parts for parts in product(PUBLIC, PUBLIC, PUBLIC, PUBLIC) if _first(parts) == parts and _compatible(parts))


@cache
def _owners(module: str, name: str) -> tuple[str, ...]:
    """The public harnesses whose module equals that of `name`."""
    wanted = getattr(_full(name), module)
    return tuple(other for other in PUBLIC if getattr(_full(other), module) == wanted)


def _first(parts: Parts) -> Parts:
    """The same modules, each named after the first harness that has it."""
    tools, prompt, context, rules = (_owners(module, name)[0] for module, name in zip(_MODULES, parts))
    return tools, prompt, context, rules


def _compatible(parts: Parts) -> bool:
    """Rules that want the work handed in by a sentinel go with the prompt that says so, and with a tool of its name."""
    tools, prompt, _, rules = (_full(name) for name in parts)
    if not rules.rules.sentinel:
        return not prompt.rules.sentinel
    return parts[1] == parts[3] and any(view.name == "bash" for view in tools.toolset.views)


def split_of_parts(parts: Parts) -> HarnessSplit:
    """A tenth is held out, a tenth for choices between runs, the rest to train under."""
    split = split_of(f"harness/{name_of(parts)}")
    return "train" if split == "corpus" else split


@cache
def combine(parts: Parts, *, nano: bool = False) -> WhiteBox:
    """The harness of these modules; of four modules of one harness, that harness."""
    tools, prompt, context, rules = (_full(name, nano) for name in parts)
    if name_of(parts) in PUBLIC:
        return tools
    todo = next((view.name for view in tools.toolset.views if view.operation == "todo"), "")
    return WhiteBox(
        name=name_of(parts) + "/nano" * nano,
        version="+".join(harness.version for harness in (tools, prompt, context, rules)),
        toolset=tools.toolset,
        prompt=prompt.prompt,
        context=replace(context.context, todo=todo if context.context.todo else ""),
        rules=rules.rules,
    )


def name_of(parts: Parts) -> str:
    """The name of a composition, of which `harness_of` makes it."""
    tools = parts[0]
    return tools if _first((tools, tools, tools, tools)) == _first(parts) else "+".join(_first(parts))


def harness_of(name: str) -> AnyHarness:
    """A preset or a composition by name: `codex`, `pi/nano`, `codex+pi+pi+hermes/nano`. Raises UserError."""
    if "+" not in name:
        return preset(name)
    text, _, size = name.partition("/")
    tools, prompt, context, rules = parts = tuple([*text.split("+"), "", "", "", ""][:4])
    if text.count("+") != 3 or not set(parts) <= set(PUBLIC) or size not in ("", "nano"):
        raise UserError(f"a composition is named tools+prompt+context+rules, each of {', '.join(PUBLIC)}; not {name!r}")
    if _first((tools, prompt, context, rules)) not in _all():
        raise UserError(f"the modules of {name!r} do not go together: a sentinel needs its prompt and a tool called bash")
    return combine((tools, prompt, context, rules), nano=bool(size))


def _full(name: str, nano: bool = False) -> WhiteBox:
    harness = preset(f"{name}/nano" if nano else name)
    assert isinstance(harness, WhiteBox)
    return harness
