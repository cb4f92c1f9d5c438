"""When training must stop: updates that are no numbers, and a router that sends everything to a few experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field

from ninefold.core.config import Config
from ninefold.core.errors import Diverged


class GuardConfig(Config):
    """Limits beyond which a run is not worth going on."""

    bad_steps: int = Field(default=5, ge=1)
    """So many steps in a row with a non-finite loss or gradient end the run; each is skipped, the weights kept."""
    dead_share: float = Field(default=0.5, gt=0, le=1)
    """A layer has collapsed where a larger share of its experts got no token in a step."""
    overload: float = Field(default=20.0, gt=1)
    """A layer has collapsed where its busiest expert got more than this many times the mean load."""
    collapsed_steps: int = Field(default=50, ge=1)
    """So many steps in a row with one and the same layer collapsed end the run."""


@dataclass(slots=True)
class Guard:
    """Counts bad steps in a row. Entropy of the router is no measure of collapse: it reads healthy with most experts dead."""

    config: GuardConfig
    bad: int = 0
    """Steps skipped since the last good one."""
    collapsed: dict[str, int] = field(default_factory=dict[str, int])
    """Layer → steps in a row that it has been collapsed for."""

    def finite(self, good: bool, step: int, what: str) -> None:
        """Note whether a step's loss and gradient were finite. Raises Diverged when too many in a row were not."""
        self.bad = 0 if good else self.bad + 1
        if self.bad >= self.config.bad_steps:
            raise Diverged(
                f"step {step}: {what}; {self.bad} steps in a row were not finite and were skipped, so the weights are those "
                f"of step {step - self.bad}. Lower the learning rate, or look at the samples of these steps"
            )

    def loads(self, metrics: Mapping[str, float], step: int) -> None:
        """Note `LAYER.dead` and `LAYER.overload`. Raises Diverged when a layer has been collapsed for too long."""
        for layer in [name.removesuffix(".dead") for name in metrics if name.endswith(".dead")]:
            dead, overload = metrics[f"{layer}.dead"], metrics[f"{layer}.overload"]
            over = dead > self.config.dead_share or overload > self.config.overload
            self.collapsed[layer] = self.collapsed.get(layer, 0) + 1 if over else 0
            if self.collapsed[layer] >= self.config.collapsed_steps:
                raise Diverged(
                    f"step {step}: the router of {layer} has been collapsed for {self.collapsed[layer]} steps: {dead:.0%} of "
                    f"its experts idle, the busiest at {overload:.1f} times the mean load. Is the learning rate too high?"
                )
