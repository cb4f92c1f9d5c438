"""A run's model as a Hugging Face folder: weights, tokenizer, chat template and model card, for other programs to load."""

from __future__ import annotations

import shutil
from pathlib import Path

from ninefold import __version__
from ninefold.app.configuration import stored_recipe
from ninefold.app.model import final_stage
from ninefold.chat.markers import BOS, END_OF_MSG, PAD, UNK
from ninefold.chat.template import TEMPLATE
from ninefold.core.errors import UserError
from ninefold.core.store import Run, is_complete, read_json, write_atomic, write_json
from ninefold.model.checkpoint import CONFIG, save_model
from ninefold.model.config import K3Config
from ninefold.model.k3 import K3
from ninefold.recipes.kit import Kit

CARD = """---
library_name: ninefold
tags: [kimi-k3, ninefold]
---
# {name}

A {parameters:,}-parameter {kind}: stage `{stage}` of a run of ninefold {version}, preset
`{preset}`, seed {seed}. Trained on generated tasks: {families}.

## Use
Chat in XTML: `chat_template.jinja`. Its variables: `messages`, `tools`, `thinking_effort` (low, high, max; how much the model
thinks), `thinking` (False: no think channel), `tool_choice`, `response_format`. Before rendering, turn string arguments of tool
calls into objects; text that is no JSON may stay. Text that spells a control token becomes one: a template cannot tell them
apart. ninefold's own renderer can, use it where input is not trusted. Sample at temperature 1.
{sight}
Routed experts are {experts}.

## Figures
{figures}
"""

SIGHT = """
It reads pictures: parts of type `image_url`, each of which the template writes as one `<|media_pad|>` that the model expands.
Cutting a picture into patches is ninefold's (`ninefold serve` does it); this folder has no image processor of Hugging Face's.
"""

EVALUATED = {"mopd": "student", "pooled": "pooled", "sft": "sft"}
"""Stage → its name in the evaluation."""


def export(run: Run, folder: Path, *, stage: str = "", packed: bool = False) -> None:
    """Write the model of a stage, the final one if none is named, into `folder`.

    Raises UserError where the folder is not empty, the stage left no model, or packing would change the model.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty; name a new folder")
    stage = stage or final_stage(run)
    parts = tuple(part for part in stage.split("/") if part)
    if not (run.stage(*parts) / "model").is_dir():
        raise UserError(f"stage {stage} of {run.path} left no model; one that did is {final_stage(run)}")
    recipe = stored_recipe(run)
    kit = Kit(recipe=recipe, run=run)
    model = kit.load(*parts)
    if not isinstance(model, K3):
        raise UserError(f"{run.stage(*parts) / 'model'} is a Hugging Face folder already: copy it")
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, folder, packed=packed)
    ids = kit.tokenizer.control
    special = {"bos_token_id": ids[BOS], "eos_token_id": ids[END_OF_MSG], "pad_token_id": ids[PAD]}
    config = read_json(folder / CONFIG) | special | {"dtype": "float32"}
    if packed:
        config["quantization_config"] = {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}
    write_json(folder / CONFIG, config)
    write_json(folder / "generation_config.json", special | {"do_sample": True, "temperature": 1.0})
    write_json(folder / "tokenizer.json", kit.tokenizer.to_hf())
    names = {"bos_token": BOS, "eos_token": END_OF_MSG, "pad_token": PAD, "unk_token": UNK}
    extra = [token for token in ids if token not in names.values()]
    write_json(
        folder / "tokenizer_config.json",
        names
        | {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "additional_special_tokens": extra,
            "clean_up_tokenization_spaces": False,
            "model_max_length": kit.engine(model).config.capacity,
        },
    )
    shutil.copyfile(TEMPLATE, folder / TEMPLATE.name)
    families = ", ".join(name for levels in recipe.families.values() for name in levels)
    card = CARD.format(
        name=run.name,
        parameters=sum(p.numel() for p in model.parameters()),
        kind=_kind(model.config),
        stage=stage,
        version=__version__,
        preset=recipe.preset,
        seed=recipe.seed,
        families=families,
        sight=SIGHT if model.config.vision else "",
        experts="MXFP4 (two codes a byte, E8M0 scales)" if packed else "fp32, quantisation-aware where the stage was",
        figures=_figures(run, stage),
    )
    write_atomic(folder / "README.md", card)


def _kind(config: K3Config) -> str:
    """What the model is built of."""
    mla = f"{'gated ' * config.mla_use_output_gate}MLA{'' if config.mla_use_nope else ' with RoPE'}"
    whole = len(config.full_attn_layers) == config.num_hidden_layers
    residuals = "" if config.attn_res_block_size is None else "attention residuals, "
    return f"K3-style model ({'' if whole else 'KDA + '}{mla}, {residuals}Stable LatentMoE)"


def _figures(run: Run, stage: str) -> str:
    """A Markdown table of what the run's evaluation says of the stage."""
    evaluated = run.stage("evaluate")
    name = EVALUATED.get(stage)
    if name is None or not is_complete(evaluated):
        return "None: the run has not evaluated this stage."
    cells = read_json(evaluated / "table.json")[name]
    rows = [
        f"| {cell} | {c['within']:.3f} ± {c['within_se']:.3f} | {c['tokens']:.1f} | {c['n']} |" for cell, c in cells.items()
    ]
    said = "Held-out tasks; an answer over its token budget counts as failed."
    return "\n".join([said, "", "| cell | passed | tokens | tasks |", "|---|---|---|---|", *rows])
