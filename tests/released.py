"""A tiny released model as a Hugging Face folder: ChatML tokenizer, template, Llama weights."""

from __future__ import annotations

from pathlib import Path

import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

from ninefold.chat.chatml import END, START
from ninefold.core.store import write_json
from ninefold.model.llama import TIED, Llama, LlamaConfig

TEMPLATE = """{% for message in messages %}{% if loop.first and message['role'] != 'system' %}<|im_start|>system
You are kind.<|im_end|>
{% endif %}{{ '<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}"""
WORDS = ["hello hell help <think> </think> <tool_call> user assistant tool State the final answer arithmetic problem system"]


def write_tokenizer(folder: Path) -> int:
    """`tokenizer.json` and `chat_template.jinja`; the size of the vocabulary."""
    core = tokenizers.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=380, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, special_tokens=[]
    )
    core.train_from_iterator(WORDS * 9, trainer)
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in (START, END)])
    core.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return core.get_vocab_size(with_added_tokens=True)


def write_released(folder: Path) -> None:
    """The whole folder, of random weights."""
    config = LlamaConfig(
        vocab_size=write_tokenizer(folder),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=True,
    )
    write_json(folder / "config.json", {"model_type": "llama", "hidden_act": "silu", **config.model_dump(exclude={"qkv_bias"})})
    torch.manual_seed(0)
    tensors = {name: tensor for name, tensor in Llama(config).bfloat16().state_dict().items() if name != TIED}
    save_file(tensors, folder / "model.safetensors")
