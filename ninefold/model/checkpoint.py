"""Models on disk: safetensors under the public names beside a public `config.json` (spec 01, "Names on disk")."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from ninefold.core.errors import UserError
from ninefold.core.store import write_atomic, write_json
from ninefold.model.config import K3Config
from ninefold.model.k3 import K3
from ninefold.model.quant.mx import MXFP4, Quantized, dequantize, quantize

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
_STACKED = re.compile(r"(?P<stem>.*\.experts)\.(?P<matrix>w[123])$")
_EXPERT = re.compile(r"(?P<stem>.*\.experts)\.(?P<expert>\d+)\.(?P<matrix>w[123])\.(?P<part>weight(_packed|_scale)?)$")


def save_model(model: K3, folder: Path, *, packed: bool = False) -> None:
    """Write weights and configuration into `folder`, each file atomically.

    `packed` writes routed experts as MXFP4 (`weight_packed`: two codes a byte, the even element low; `weight_scale`: E8M0
    bytes) instead of fp32; a quantisation-aware model computes bit for bit the same from it.
    """
    if packed and not model.quantized:
        raise UserError("packing would change what this model computes; call model.quantize() first and train or check it")
    tensors = dict(_public(model, packed))
    write_atomic(folder / WEIGHTS, save({name: t.contiguous() for name, t in tensors.items()}, metadata={"format": "pt"}))
    write_json(folder / CONFIG, {**model.config.to_public(), "quantization_aware": model.quantized})


def load_config(folder: Path) -> K3Config:
    """The configuration in `folder`. Raises UserError where there is none."""
    return K3Config.from_public(_read_public(folder))


def load_model(folder: Path) -> K3:
    """The model in `folder`, whether its experts are packed or not."""
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder} holds no model: {WEIGHTS} and {CONFIG} are needed")
    public = _read_public(folder)
    config = K3Config.from_public(public)
    model = K3(config)
    model.load_state_dict(_stacked(load_file(folder / WEIGHTS), config))
    model.quantize(public["quantization_aware"])
    return model


def _read_public(folder: Path) -> dict[str, Any]:
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no model: it has no {CONFIG}")
    return json.loads((folder / CONFIG).read_text())


def _public(model: K3, packed: bool) -> Iterator[tuple[str, Tensor]]:
    """(public name, tensor) of everything that the model holds."""
    for name, tensor in model.state_dict().items():
        public = _to_public(name, model.config)
        stacked = _STACKED.match(public)
        if stacked is None:
            yield public, tensor
            continue
        for expert, matrix in enumerate(tensor):
            stem = f"{stacked['stem']}.{expert}.{stacked['matrix']}"
            if packed:
                quantized = quantize(matrix, MXFP4)
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
            # The released checkpoint pads its 96 log-scales to 128.
            state[name] = tensor[: config.num_attention_heads] if name.endswith(".A_log") else tensor
        elif found["part"] != "weight_scale":
            if found["part"] == "weight_packed":
                scales = tensors[public.removesuffix("packed") + "scale"]
                tensor = dequantize(Quantized(codes=tensor, scales=scales, format=MXFP4))
            bank = _from_public(f"{found['stem']}.{found['matrix']}", config)
            banks.setdefault(bank, {})[int(found["expert"])] = tensor
    return state | {name: torch.stack([bank[e] for e in range(len(bank))]) for name, bank in banks.items()}


def _to_public(name: str, config: K3Config) -> str:
    """The MTP layer stands behind the backbone's layers."""
    return name.replace("mtp.", f"model.layers.{config.num_hidden_layers}.", 1) if name.startswith("mtp.") else name


def _from_public(name: str, config: K3Config) -> str:
    return re.sub(rf"^model\.layers\.{config.num_hidden_layers}\.", "mtp.", name)
