"""The trainer: a model, its optimisers, and the one step that all stages share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable

import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ninefold.core.config import Config
from ninefold.core.errors import UserError
from ninefold.core.store import read_json, write_json
from ninefold.core.types import Batch
from ninefold.learn.gradient import reduce_gradients
from ninefold.learn.guard import Guard, GuardConfig
from ninefold.learn.loss.outcome import Loss, Mean, add_metrics
from ninefold.learn.optim.adamw import AdamWConfig, adamw
from ninefold.learn.optim.assign import Rule, adamw_rules, assign, k3_rules
from ninefold.learn.optim.muon import Muon, MuonConfig
from ninefold.learn.optim.qk_clip import mla_layers, qk_clip, record_attention, recorded_logits
from ninefold.learn.optim.schedule import ScheduleConfig, learning_rate_factor
from ninefold.learn.optim.state import pack_state, unpack_state
from ninefold.learn.parallel import World
from ninefold.learn.sharding import is_sharded, load_whole, whole_state
from ninefold.model.config import K3Config
from ninefold.model.routing import Reduce
from ninefold.model.weights import Published, Weights

M = TypeVar("M", bound=nn.Module)


class TrainerConfig(Config):
    """How weights are updated."""

    steps: int = Field(ge=1)
    """Optimiser steps that the schedule spans."""
    muon: MuonConfig = MuonConfig()
    adamw: AdamWConfig = AdamWConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    clip_norm: float = Field(default=1.0, gt=0)
    """Largest gradient norm; a longer gradient is scaled down to it."""
    qk_clip: float | None = Field(default=100.0, gt=0)
    """Largest attention logit before a head is scaled back; none turns QK-clip off."""
    guard: GuardConfig = GuardConfig()


@runtime_checkable
class Balanced(Protocol):
    """A model whose routers learn their biases from the loads of each step."""

    def collect_routing(self, on: bool = True) -> None: ...

    def balance(self, reduce: Reduce | None = None) -> dict[str, float]: ...


class Trainer(Generic[M]):
    """Owns a model and how it changes. On several ranks each holds a replica, or its part of one model (`learn.sharding`); all
    take the same steps. Of a sharded model all ranks together call `weights`, `save` and `load`, as they do `step`.
    """

    def __init__(self, model: M, config: TrainerConfig, *, world: World | None = None) -> None:
        """A K3 model by `k3_rules`, others by `adamw_rules`. Frozen parameters stay as they are."""
        self.model, self.config, self.world = model, config, world or World()
        self.assigned = assign(model.named_parameters(), _rules_of(model))
        if not self.assigned:
            raise UserError("there is nothing to train: every parameter is frozen")
        matrices, others = ([a for a in self.assigned if a.rule.optimizer == kind] for kind in ("muon", "adamw"))
        self.optimizers: list[torch.optim.Optimizer] = []
        if matrices:
            self.optimizers.append(Muon(matrices, config.muon))
        if others:
            self.optimizers.append(adamw(others, config.adamw))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["peak_lr"] = group["lr"]
        self.vision = [a.parameter for a in self.assigned if a.name.startswith(("vision_tower.", "mm_projector."))]
        self.guard = Guard(config.guard)
        self.steps_done = 0
        """Steps taken, skipped ones included: the place in the schedule."""
        self.version = 0
        """Weight updates: the policy version of the weights as they stand."""

    def step(self, batches: Sequence[Batch], loss: Callable[[M, Batch], Loss], *, still_tokens: int = 0) -> dict[str, float]:
        """One update from this rank's micro-batches, perhaps none; metrics of the whole batch.

        Gradients are of the loss summed over all tokens of all ranks, divided by their number. `still_tokens` of this
        rank are known to have no gradient and only count. A step whose gradient is not finite, or that has no token, changes
        nothing but `steps_done`. Raises Diverged as `GuardConfig` says.
        """
        self.model.zero_grad(set_to_none=True)
        if any(is_sharded(a.parameter) for a in self.assigned):
            self._keep_pace(batches, loss)
        self._observe(True)
        measured, tokens = self._backward(batches, loss, still_tokens)
        parameters = [a.parameter for a in self.assigned]
        norm = reduce_gradients(parameters, max(tokens, 1), self.config.clip_norm, self.world)
        factor = learning_rate_factor(self.config.schedule, self.steps_done, self.config.steps)
        self.steps_done += 1
        metrics = {name: mean.value for name, mean in measured.items()}
        metrics |= {"tokens": float(tokens), "grad_norm": norm, "lr_factor": factor, "step": float(self.steps_done)}
        good = math.isfinite(norm)
        if good and (seen := [p.grad for p in self.vision if p.grad is not None]):
            clipped = min(1.0, self.config.clip_norm / norm) if norm else 1.0
            metrics["vision/grad_norm"] = float(torch.nn.utils.get_total_norm(seen)) / clipped
        if good and tokens:
            metrics |= self._update(factor)
        metrics |= {"skipped": float(not (good and tokens)), "version": float(self.version)}
        self._observe(False)
        self.guard.finite(good, self.steps_done, f"the gradient's norm is {norm}")
        self.guard.loads(metrics, self.steps_done)
        return metrics

    def _backward(self, batches: Sequence[Batch], loss: Callable[[M, Batch], Loss], tokens: int) -> tuple[dict[str, Mean], int]:
        """Leave this rank's summed gradients on the parameters; metrics, and tokens of all ranks, from `tokens` on."""
        measured: dict[str, Mean] = {}
        for batch in batches:
            part = loss(self.model, batch)
            part.total.backward()
            measured = add_metrics([measured, part.metrics])
            tokens += part.tokens
        everyone = self.world.gather((measured, tokens))
        return add_metrics(m for m, _ in everyone), sum(t for _, t in everyone)

    def _keep_pace(self, batches: Sequence[Batch], loss: Callable[[M, Batch], Loss]) -> None:
        """Ranks gather a sharded model's parts together: each passes as often as the busiest, with blanks at first."""
        everyone = self.world.gather([list(batch.streams) for batch in batches])
        streams = next((named for of_rank in everyone for named in of_rank), None)
        for _ in range(max(map(len, everyone)) - len(batches)):
            assert streams is not None
            loss(self.model, Batch.blank(streams)).total.backward()

    def _update(self, factor: float) -> dict[str, float]:
        """Move the weights along the reduced gradients, then the router biases, then clip attention; what to log of it."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = factor * group["peak_lr"]
            optimizer.step()
        self.version += 1
        metrics = self.model.balance(self.world.sum_) if isinstance(self.model, Balanced) else {}
        if self.config.qk_clip is not None and mla_layers(self.model):
            largest_LH = recorded_logits(self.model)
            self.world.max_(largest_LH)
            clipped = qk_clip(self.model, largest_LH, self.config.qk_clip)
            metrics |= {"attention/max_logit": float(largest_LH.max()), "attention/clipped_heads": float(clipped)}
        return metrics

    def _observe(self, on: bool) -> None:
        """Collect routing loads and attention logits, only while a step's own forwards run; what was collected is dropped."""
        if isinstance(self.model, Balanced):
            self.model.collect_routing(on)
        if self.config.qk_clip is not None:
            record_attention(self.model, on)

    def weights(self) -> Weights:
        """A copy of the weights as they stand, to hand to an engine with `version`."""
        return Weights.of(self.model) if isinstance(self.model, Published) else Weights.of_tensors(whole_state(self.model))

    def save(self, folder: Path) -> None:
        """Write everything that the next step depends on: tensors.safetensors and trainer.json. Give it a folder that is
        put in place as a whole (`core.store.write_folder`). Rank 0 writes it; it does not tell how many ranks there were."""
        tensors = {f"model/{name}": value for name, value in whole_state(self.model).items()}
        for optimizer in self.optimizers:
            tensors |= {f"optimizer/{name}": value for name, value in pack_state(optimizer, self.assigned).items()}
        if self.world.rank:
            return
        tensors["rng"] = torch.get_rng_state()
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: value.contiguous().clone() for name, value in tensors.items()}, folder / "tensors.safetensors")
        write_json(
            folder / "trainer.json",
            {
                "steps_done": self.steps_done,
                "version": self.version,
                "bad": self.guard.bad,
                "collapsed": self.guard.collapsed,
            },
        )

    def load(self, folder: Path) -> None:
        """Go on from `save`, on any number of ranks. Raises UserError where the folder holds another model's state."""
        tensors, state = load_file(folder / "tensors.safetensors"), read_json(folder / "trainer.json")
        model = _under("model/", tensors)
        own = {name: value.shape for name, value in self.model.state_dict().items()}
        if own != {name: value.shape for name, value in model.items()}:
            raise UserError(f"{folder} holds the state of another model: its tensors differ in name or shape")
        load_whole(self.model, model)
        for optimizer in self.optimizers:
            unpack_state(optimizer, self.assigned, _under("optimizer/", tensors))
        torch.set_rng_state(tensors["rng"])
        self.steps_done, self.version = state["steps_done"], state["version"]
        self.guard.bad, self.guard.collapsed = state["bad"], state["collapsed"]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _rules_of(model: nn.Module) -> tuple[Rule, ...]:
    config = getattr(model, "config", None)
    return k3_rules(config) if isinstance(config, K3Config) else adamw_rules()
