"""An exported folder is read by the public tokenizer library and by our own loader, and says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
import torch

from ninefold.app.configuration import stored_recipe
from ninefold.app.export import export
from ninefold.chat.render import Options, render
from ninefold.core.errors import UserError
from ninefold.core.layout import DocLayout
from ninefold.core.store import Run
from ninefold.model.checkpoint import load_model
from ninefold.recipes.kit import Kit


@pytest.fixture
def kit(whole: Run) -> Kit:
    return Kit(recipe=stored_recipe(whole), run=whole)


@pytest.mark.parametrize("packed", [False, True])
def test_the_folder_holds_the_same_model(kit: Kit, tmp_path: Path, packed: bool) -> None:
    export(kit.run, tmp_path / "out", packed=packed)
    ours, theirs = kit.load("mopd"), load_model(tmp_path / "out")
    ids, layout = torch.arange(20, 60), DocLayout.of([40])
    with torch.no_grad():
        assert torch.equal(ours(ids, layout).final_TD, theirs(ids, layout).final_TD)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["eos_token_id"] == kit.chat.stop_ids[0]
    assert ("quantization_config" in config) == packed
    assert (tmp_path / "out/chat_template.jinja").read_text().startswith("{#- XTML")
    card = (tmp_path / "out/README.md").read_text()
    assert "general/max" in card
    assert "{" not in card


def test_the_tokenizer_reads_a_rendered_conversation_as_we_write_it(kit: Kit, tmp_path: Path) -> None:
    export(kit.run, tmp_path / "out")
    public = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}}]
    messages = [
        {"role": "user", "content": "Where is Ann? Grüße, 日本 12+34\n  indented "},
        {"role": "assistant", "reasoning_content": "look", "tool_calls": [{"id": "1", "function": {"name": "look"}}]},
        {"role": "tool", "tool_call_id": "1", "content": 'in "Rome" & so on'},
    ]
    text = "".join(p.text for m in render(messages, Options(tools=tools, effort="low")) for p in m.pieces)
    ours = [int(i) for segment in kit.chat.open(messages, tools=tools, effort="low") for i in segment.ids]
    assert public.encode(text, add_special_tokens=False).ids == ours
    assert public.decode(ours, skip_special_tokens=False).replace(" ", "") == text.replace(" ", "")
    assert public.get_vocab_size(with_added_tokens=True) == kit.tokenizer.vocab_size


def test_other_stages_and_what_is_refused(kit: Kit, tmp_path: Path) -> None:
    export(kit.run, tmp_path / "expert", stage="rl/general/low")
    assert "has not evaluated this stage" in (tmp_path / "expert/README.md").read_text()
    with pytest.raises(UserError, match="not empty"):
        export(kit.run, tmp_path / "expert")
    with pytest.raises(UserError, match="left no model"):
        export(kit.run, tmp_path / "none", stage="lunch")
    assert not (tmp_path / "none").exists()
