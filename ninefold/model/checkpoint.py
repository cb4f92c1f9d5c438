"""Models on disk: safetensors under the public names beside a public `config.json` (spec 01, "Names on disk")."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ninefold.core.errors import UserError, boundary
from ninefold.core.store import read_json, write_atomic, write_json
from ninefold.model.config import K3Config
from ninefold.model.k3 import K3
from ninefold.model.quant.mx import MXFP4, Quantized, dequantize, quantize

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
SHARD_BYTES = 4 << 30
LOG_SCALES = {96: 128}
"""Heads → values of A_log as released, zeros behind those of the heads; other numbers of heads are not padded."""
PREFIX = "language_model."
"""Of the text model's names in a released multimodal checkpoint."""
_VISION = ("vision_tower.", "mm_projector.")
"""Of what stands beside the text model."""
_STACKED = re.compile(r"(?P<stem>.*\.experts)\.(?P<matrix>w[123])$")
_EXPERT = re.compile(r"(?P<stem>.*\.experts)\.(?P<expert>\d+)\.(?P<matrix>w[123])\.(?P<part>weight(_packed|_scale)?)$")


def save_model(model: K3, folder: Path, *, packed: bool = False, shard_bytes: int = SHARD_BYTES) -> None:
    """Write weights and configuration into `folder`, each file atomically; beyond `shard_bytes` in shards with an index.

    `packed` writes routed experts as MXFP4 (`weight_packed`: two codes a byte, the even element low; `weight_scale`: E8M0
    bytes) instead of fp32; a quantisation-aware model computes bit for bit the same from it.
    """
    if packed and not model.quantized:
        raise UserError("packing would change what this model computes; call model.quantize() first and train or check it")
    shards = _cut(_public(model, packed), shard_bytes)
    names = (
        [WEIGHTS] if len(shards) == 1 else [f"model-{n:05}-of-{len(shards):05}.safetensors" for n in range(1, len(shards) + 1)]
    )
    for name, tensors in zip(names, shards, strict=True):
        write_atomic(folder / name, save(tensors, metadata={"format": "pt"}))
    if len(shards) > 1:
        size = sum(t.nbytes for tensors in shards for t in tensors.values())
        where = {tensor: name for name, tensors in zip(names, shards, strict=True) for tensor in tensors}
        write_json(folder / INDEX, {"metadata": {"total_size": size}, "weight_map": where})
    public = {**model.config.to_public(), "quantization_aware": model.quantized}
    if model.rule not in (None, "floor"):
        public["quantization_rule"] = model.rule
    write_json(folder / CONFIG, public)


def _cut(tensors: Iterator[tuple[str, Tensor]], shard_bytes: int) -> list[dict[str, Tensor]]:
    """In order, as many to a shard as fit; one that fits nowhere has a shard of its own."""
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors:
        if shards[-1] and filled + tensor.nbytes > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor.contiguous()
        filled += tensor.nbytes
    return shards


def load_config(folder: Path) -> K3Config:
    """The configuration in `folder`. Raises UserError where there is none."""
    return K3Config.from_public(read_public(folder))


def load_model(folder: Path) -> K3:
    """The text model in `folder`: ours or a released one, whole or in shards, experts packed or not.

    Raises UserError that says which file or tensor is missing or unfit.
    """
    public = read_public(folder)
    config = K3Config.from_public(public)
    model = K3(config)
    state = _stacked(read_tensors(folder), config)
    check_tensors(state, model, folder)
    model.load_state_dict(state)
    quantized = public.get("quantization_aware", "quantization_config" in public.get("text_config", public))
    model.quantize(quantized, public.get("quantization_rule", "floor"))
    return model


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Public name → tensor; the text model's without their prefix in a multimodal checkpoint."""
    files = [WEIGHTS]
    if (folder / INDEX).exists():
        files = sorted(set(read_json(folder / INDEX)["weight_map"].values()))
    if absent := [name for name in files if not (folder / name).exists()]:
        raise UserError(f"{folder} holds no whole model: {', '.join(absent)} missing")
    with boundary(UserError, f"{folder} is damaged"):
        tensors = {name: tensor for file in files for name, tensor in load_file(folder / file).items()}
    return {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}


def check_tensors(state: Mapping[str, Tensor], model: nn.Module, folder: Path) -> None:
    """Raise UserError that names a tensor which the model lacks, does not know, or has in another shape."""
    expected = model.state_dict()
    for told, names in (("lacks", expected.keys() - state.keys()), ("has the unknown", state.keys() - expected.keys())):
        if names:
            raise UserError(f"{folder} {told} {min(names)}" + (f" and {len(names) - 1} more" if len(names) > 1 else ""))
    for name, tensor in expected.items():
        if state[name].shape != tensor.shape:
            raise UserError(f"{folder}: {name} is {tuple(state[name].shape)}, this configuration has {tuple(tensor.shape)}")


def read_public(folder: Path) -> dict[str, Any]:
    """The `config.json` of a model's folder. Raises UserError where there is none, or it is damaged."""
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no model: it has no {CONFIG}")
    return read_json(folder / CONFIG)


def _public(model: K3, packed: bool) -> Iterator[tuple[str, Tensor]]:
    """(public name, tensor) of everything that the model holds."""
    for name, tensor in model.state_dict().items():
        public = _to_public(name, model.config)
        stacked = _STACKED.match(public)
        if name.endswith(".A_log"):
            tensor = F.pad(tensor, (0, LOG_SCALES.get(len(tensor), len(tensor)) - len(tensor)))
        if stacked is None:
            yield public, tensor
            continue
        for expert, matrix in enumerate(tensor):
            stem = f"{stacked['stem']}.{expert}.{stacked['matrix']}"
            if packed:
                quantized = quantize(matrix, MXFP4, model.rule or "floor")
                yield f"{stem}.weight_packed", quantized.codes
                yield f"{stem}.weight_scale", quantized.scales
            else:
                yield f"{stem}.weight", matrix


def _stacked(tensors: dict[str, Tensor], config: K3Config) -> dict[str, Tensor]:
    """The state dict that these public tensors make."""
    state: dict[str, Tensor] = {}
    banks: dict[str, dict[int, Tensor]] = {}
    for public, tensor in tensors.items():
        found = _EXPERT.match(public)
        if found is None:
            name = _from_public(public, config)
            state[name] = _fitted(name, tensor, config)
        elif found["part"] != "weight_scale":
            if found["part"] == "weight_packed":
                scales = tensors[public.removesuffix("packed") + "scale"]
                tensor = dequantize(Quantized(codes=tensor, scales=scales, format=MXFP4))
            bank = _from_public(f"{found['stem']}.{found['matrix']}", config)
            banks.setdefault(bank, {})[int(found["expert"])] = tensor
    return state | {name: torch.stack([bank[e] for e in range(len(bank))]) for name, bank in banks.items()}


def _fitted(name: str, tensor: Tensor, config: K3Config) -> Tensor:
    """In our shape: the released checkpoint pads its 96 log-scales to 128, and taps may come without a middle axis."""
    if name.endswith(".A_log"):
        if tensor[config.num_attention_heads :].any():
            raise UserError(
                f"{name} has {len(tensor)} values for {config.num_attention_heads} heads, and the rest are not zero"
            )
        return tensor[: config.num_attention_heads]
    return tensor[:, None] if "_conv1d." in name and tensor.ndim == 2 else tensor


def _to_public(name: str, config: K3Config) -> str:
    """The MTP layer stands behind the backbone's layers; beside a tower the text model's names have a prefix."""
    if name.startswith("mtp."):
        name = name.replace("mtp.", f"model.layers.{config.num_hidden_layers}.", 1)
    return PREFIX + name if config.vision and not name.startswith(_VISION) else name


def _from_public(name: str, config: K3Config) -> str:
    return re.sub(rf"^model\.layers\.{config.num_hidden_layers}\.", "mtp.", name)
