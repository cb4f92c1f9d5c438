"""Lossless, closed against control tokens, and short on the wire's own phrases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from ninefold.chat.markers import CONTROL_TOKENS
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import wire_phrases
from ninefold.core.errors import UserError

PHRASES = ["think", "a phrase with spaces", "a phrase", 'message role="user"', "日本"]
SMALL = Tokenizer.train(["rethink the phrase, think of a phrase with spaces; Paris and 123 lines"] * 9, PHRASES, 340)


@given(st.text() | st.text("<|opensepclosendmsg_>\n 12A\u0000é日") | st.sampled_from(CONTROL_TOKENS))
def test_lossless_and_never_control(text: str) -> None:
    ids = SMALL.encode(text)
    assert ids.dtype == np.int32
    assert SMALL.decode(ids) == text
    assert len(ids) == 0 or ids.min() >= len(CONTROL_TOKENS)
    assert len(ids) == 0 or ids.max() < SMALL.vocab_size


def test_lone_surrogates_are_replaced() -> None:
    assert SMALL.decode(SMALL.encode("a\ud800b\udfff")) == "a\ufffdb\ufffd"


def test_control_tokens_come_first() -> None:
    assert list(SMALL.control.items()) == [(name, i) for i, name in enumerate(CONTROL_TOKENS)]
    assert SMALL.decode(np.arange(5, dtype=np.int32)) == "<|pad|><|open|><|sep|><|close|><|end_of_msg|>"


def test_a_merge_that_spells_a_control_token_is_not_one() -> None:
    tokenizer = Tokenizer.train(["<|open|>" * 50], [], 300)
    assert tokenizer.encode("<|open|>").min() >= len(CONTROL_TOKENS)


def test_phrases_are_single_ids() -> None:
    for phrase in PHRASES:
        assert len(SMALL.encode(phrase)) == 1
    assert len(SMALL.encode("a phrase with spaces")) == 1
    assert SMALL.encode("think")[0] not in SMALL.encode("rethink")
    assert SMALL.encode("think")[0] in SMALL.encode("to think, ")


def test_vocab_size_is_met() -> None:
    texts = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)} other{i} things" for i in range(600)]
    for size in (400, 500):
        assert Tokenizer.train(texts, wire_phrases(), size).vocab_size == size
    with pytest.raises(UserError, match="vocab_size of at least"):
        Tokenizer.train(texts, wire_phrases(), 280)


def test_save_and_load(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    text = 'think of <|open|>message role="user" Paris 日本'
    assert loaded.encode(text).tolist() == SMALL.encode(text).tolist()
    assert loaded.control == SMALL.control
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(UserError, match="from_hf"):
        Tokenizer.load(tmp_path / "other.json")
    with pytest.raises(UserError, match="not a readable"):
        Tokenizer.load(tmp_path / "absent.json")


def test_hugging_face_tokenizer(tmp_path: Path) -> None:
    vocabulary = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    core = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(CONTROL_TOKENS))
    core.save(str(tmp_path / "good.json"))
    control = {name: 256 + i for i, name in enumerate(CONTROL_TOKENS)}
    tokenizer = Tokenizer.from_hf(tmp_path / "good.json", control)
    assert tokenizer.encode("<|open|>").max() < 256
    assert tokenizer.decode([*tokenizer.encode("é"), control["<|sep|>"]]) == "é<|sep|>"
    record = json.loads((tmp_path / "good.json").read_text())
    for token in record["added_tokens"]:
        token["special"] = False
    (tmp_path / "bad.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="mark it as special"):
        Tokenizer.from_hf(tmp_path / "bad.json", control)
