"""Where a run's models, tokenizer and chat format come from: pre-trained from nothing, or released weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from ninefold.chat.chatml import ChatML
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml
from ninefold.core.errors import UserError
from ninefold.core.store import Run
from ninefold.model.checkpoint import load_model, save_model
from ninefold.model.hf import HfModel, import_gguf, load_hf, packaged_gguf
from ninefold.model.k3 import K3
from ninefold.model.llama import Llama, load_llama, save_llama
from ninefold.recipes.config import Recipe, ReleasedConfig

Policy = K3 | Llama | HfModel
"""A model that a recipe trains."""


class Origin(Protocol):
    """How a run's models are read, written and spoken to."""

    @property
    def stage(self) -> str:
        """The stage that leaves the model which SFT begins with."""
        ...

    def chat(self) -> Xtml | ChatML: ...

    def load(self, folder: Path) -> Policy: ...

    def save(self, model: Policy, folder: Path) -> None: ...

    def decodable(self, model: Policy) -> K3 | Llama:
        """What the native engine takes; its weights may be the model's own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    """K3 trained from nothing, in XTML."""

    run: Run
    quantize: bool
    stage: str = "pretrain"

    def chat(self) -> Xtml:
        return Xtml(Tokenizer.load(self.run.stage("corpus") / "tokenizer.json"))

    def load(self, folder: Path) -> K3:
        model = load_model(folder)
        model.quantize(self.quantize)
        return model

    def save(self, model: Policy, folder: Path) -> None:
        assert isinstance(model, K3)
        save_model(model, folder)

    def decodable(self, model: Policy) -> K3:
        assert isinstance(model, K3)
        return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Somebody's weights in a Hugging Face folder, in ChatML by their own template."""

    run: Run
    config: ReleasedConfig
    stage: str = "import"

    @property
    def folder(self) -> Path:
        """The weights as they were released."""
        return self.run.stage(self.stage) / "model"

    @property
    def products(self) -> torch.dtype | None:
        return torch.bfloat16 if self.config.products == "bfloat16" else None

    def chat(self) -> ChatML:
        return ChatML.of(self.folder)

    def load(self, folder: Path) -> Llama | HfModel:
        if self.config.through == "transformers":
            return load_hf(folder, products=self.products, lora=self.config.lora)
        return load_llama(folder, products=self.products)

    def save(self, model: Policy, folder: Path) -> None:
        assert not isinstance(model, K3)
        tensors = model.published() if isinstance(model, HfModel) else model.state_dict()
        save_llama(tensors, folder, like=self.folder)

    def decodable(self, model: Policy) -> Llama:
        assert not isinstance(model, K3)
        if isinstance(model, Llama):
            return model
        ours = load_llama(self.folder, products=self.products)
        ours.load_state_dict(dict(model.published()))
        return ours


def origin_of(recipe: Recipe, run: Run) -> Origin:
    """Where the models of the recipe's runs come from."""
    if recipe.released is None:
        return Pretrained(run=run, quantize=recipe.quantize)
    return Released(run=run, config=recipe.released)


def import_released(config: ReleasedConfig, folder: Path) -> None:
    """Leave the released weights, tokenizer and template in `folder`: dequantised from a package's GGUF, or linked to.

    Raises UserError where the source is neither, or is of a family that the engine does not decode.
    """
    source = Path(config.source)
    if source.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.unlink(missing_ok=True)
        folder.symlink_to(source.resolve())
    elif config.source.isidentifier():
        import_gguf(packaged_gguf(config.source), folder)
    else:
        raise UserError(f"released.source {config.source!r} is neither a folder nor the name of a package")
    load_llama(folder)
    ChatML.of(folder)
