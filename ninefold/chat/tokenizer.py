"""Byte-level BPE in which the wire's fixed phrases are single ids and text can never spell a control token.

Ids of a tokenizer trained here: control tokens first, then bytes, merges and phrases. The BPE core knows nothing of the control
tokens (its ids are shifted past them), so no text whatever encodes to one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

from ninefold.chat.markers import CONTROL_TOKENS
from ninefold.core.errors import UserError, boundary
from ninefold.core.store import write_atomic
from ninefold.core.types import IntArray

PIECES = r"\d|[A-Z][a-z]+| ?[a-z]+|[A-Z]+|\p{L}+| ?[^\s\p{L}\d]+|\s+(?!\S)|\s+"
"""Pre-tokeniser: no merge crosses these pieces. Digits stand alone so that sums are learned by place; a capitalised word is the
same id at the start of a line and within it."""

FORMAT = "ninefold-tokenizer/1"


class Tokenizer:
    """Text ↔ ids. `control` maps each control token's name to its id; `vocab_size` counts all ids."""

    def __init__(self, core: tokenizers.Tokenizer, *, control: Mapping[str, int], offset: int) -> None:
        """`core` gives ids from 0, `offset` shifts them; `control` ids must be out of its reach."""
        self.control = dict(control)
        self._core = core
        self._offset = offset
        vocabulary = core.get_vocab(with_added_tokens=True)
        self.vocab_size = max([offset + len(vocabulary), *(i + 1 for i in control.values())])
        self._bytes = self._byte_table(vocabulary)

    @staticmethod
    def train(texts: Iterable[str], phrases: Sequence[str] = (), vocab_size: int = 768) -> Tokenizer:
        """Learn merges from `texts` so that control tokens, 256 bytes, merges and `phrases` together fill `vocab_size` ids.

        Each phrase becomes one id wherever it stands (longest first; a phrase that is a single word only as a whole word). The
        vocabulary stays smaller when the texts hold too few merges. Raises UserError when there is no room.
        """
        phrases = sorted(set(phrases) - {""}, key=lambda p: (-len(p), p))
        room = vocab_size - len(CONTROL_TOKENS) - 256
        if room < len(phrases):
            need = len(CONTROL_TOKENS) + 256 + len(phrases)
            raise UserError(f"{len(phrases)} phrases need a vocab_size of at least {need}, got {vocab_size}")
        trained = tokenizers.Tokenizer(models.BPE())
        trained.pre_tokenizer = _pre_tokenizer()
        trainer = trainers.BpeTrainer(
            vocab_size=256 + room, initial_alphabet=_alphabet(), show_progress=False, special_tokens=[]
        )
        trained.train_from_iterator(_outside(texts, phrases), trainer)
        merges = [(a, b) for a, b in json.loads(trained.to_str())["model"]["merges"]]
        return Tokenizer(
            _compose(merges, phrases, 256 + room),
            control={t: i for i, t in enumerate(CONTROL_TOKENS)},
            offset=len(CONTROL_TOKENS),
        )

    @staticmethod
    def from_hf(path: Path, control: Mapping[str, int]) -> Tokenizer:
        """An existing Hugging Face `tokenizer.json` whose control tokens have the ids `control`.

        Bytes that its vocabulary lacks (SmolLM2's has no id for some control characters) are left out of what is encoded.
        Raises UserError when text that spells a control token would encode to it, and for what is not byte-level BPE.
        """
        with boundary(UserError, f"{path} is not a readable tokenizer.json"):
            core = tokenizers.Tokenizer.from_file(str(path))
        core.encode_special_tokens = True
        tokenizer = Tokenizer(core, control=control, offset=0)
        if not {_SYMBOL[byte] for byte in _EVERYDAY} <= core.get_vocab().keys():
            raise UserError(f"{path} is not byte-level BPE; only such a tokenizer can be used")
        names = {name for i in control.values() if (name := core.id_to_token(i)) is not None} | set(control)
        for name in sorted(names):
            if set(tokenizer.encode(name).tolist()) & set(control.values()):
                raise UserError(f"{path}: the text {name!r} encodes to a control token; mark it as special there")
        return tokenizer

    def save(self, path: Path) -> None:
        """One JSON file."""
        record = {"format": FORMAT, "control": self.control, "offset": self._offset, "core": json.loads(self._core.to_str())}
        write_atomic(path, json.dumps(record, ensure_ascii=False))

    def to_hf(self) -> dict[str, Any]:
        """A Hugging Face `tokenizer.json` with the same ids, whose control tokens are special and read from text."""
        record: dict[str, Any] = json.loads(self._core.to_str())
        if self._offset:
            vocabulary = {token: i + self._offset for token, i in record["model"]["vocab"].items()}
            plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            control = [{"id": i, "content": name, **plain, "special": True} for name, i in self.control.items()]
            record["model"]["vocab"] = self.control | vocabulary
            phrases = [token | {"id": token["id"] + self._offset} for token in record["added_tokens"]]
            record["added_tokens"] = control + phrases
        return record

    @staticmethod
    def load(path: Path) -> Tokenizer:
        """What `save` wrote. Raises UserError for anything else."""
        with boundary(UserError, f"{path} is not a readable tokenizer"):
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise UserError(f"{path} is not a tokenizer of the format {FORMAT}; use Tokenizer.from_hf for a tokenizer.json")
        core = tokenizers.Tokenizer.from_str(json.dumps(record["core"]))
        core.encode_special_tokens = True
        return Tokenizer(core, control=record["control"], offset=record["offset"])

    def encode(self, text: str) -> IntArray:
        """[n] ids of `text` as content: never a control token. Lone surrogates become U+FFFD."""
        try:
            encoded = self._core.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            encoded = self._core.encode(_repaired(text), add_special_tokens=False)
        ids = np.array(encoded.ids, np.int32)
        ids += self._offset
        return ids

    def decode(self, ids: IntArray | Sequence[int]) -> str:
        """Text of `ids`, control tokens spelled out; bytes that are no UTF-8 become U+FFFD."""
        return self.bytes_of(ids).decode("utf-8", "replace")

    def bytes_of(self, ids: IntArray | Sequence[int]) -> bytes:
        """The bytes that `ids` stand for, joined."""
        table = self._bytes
        return b"".join([table[i] for i in (ids.tolist() if isinstance(ids, np.ndarray) else ids)])

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one id; b"" for an id without text."""
        return self._bytes[token]

    def _byte_table(self, vocabulary: Mapping[str, int]) -> list[bytes]:
        table = [b""] * self.vocab_size
        added = {token.content for token in self._core.get_added_tokens_decoder().values()}
        for token, i in vocabulary.items():
            table[i + self._offset] = token.encode() if token in added else _bytes_of_symbols(token)
        for name, i in self.control.items():
            table[i] = name.encode()
        return table


def _compose(merges: Sequence[tuple[str, str]], phrases: Sequence[str], size: int) -> tokenizers.Tokenizer:
    """BPE over the first merges that, with the phrases, fill `size` ids. A phrase that is also a BPE token shares its id."""
    vocabulary = {symbol: i for i, symbol in enumerate(_alphabet())}
    if disguised := [p for p in phrases if not p.isascii() and all(c in _BYTE for c in p)]:
        raise UserError(f"phrases {disguised} could be mistaken for the tokenizer's own byte symbols; leave them out")
    alone = {p for p in phrases if p not in vocabulary}
    kept: list[tuple[str, str]] = []
    for left, right in merges:
        token = left + right
        if token not in vocabulary:
            extra = len(alone - {token})
            if len(vocabulary) + 1 + extra > size:
                break
            vocabulary[token] = len(vocabulary)
            alone.discard(token)
        kept.append((left, right))
    core = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=kept))
    core.pre_tokenizer = _pre_tokenizer()
    core.decoder = decoders.ByteLevel()
    core.add_tokens([AddedToken(p, normalized=False, special=False, single_word=_is_word(p)) for p in phrases])
    return core


def _pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _alphabet() -> list[str]:
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _outside(texts: Iterable[str], phrases: Sequence[str]) -> Iterator[str]:
    """What of the texts is left for BPE to encode."""
    if not phrases:
        yield from texts
        return
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(p)}(?!\w)" if _is_word(p) else re.escape(p) for p in phrases))
    for text in texts:
        yield from (piece for piece in pattern.split(text) if piece)


def _is_word(phrase: str) -> bool:
    return re.fullmatch(r"\w+", phrase) is not None


def _byte_symbols() -> tuple[str, ...]:
    """The printable character that byte-level BPE writes for each byte (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    symbols = {b: chr(b) for b in printable} | {b: chr(256 + n) for n, b in enumerate(others)}
    return tuple(symbols[b] for b in range(256))


_SYMBOL = _byte_symbols()
_EVERYDAY = (*b"\n\t", *range(0x20, 0x7F), *range(0x80, 0xC0))
"""Bytes that every byte-level vocabulary has ids for: printable ASCII, and what characters beyond it go on with."""
_BYTE = {symbol: byte for byte, symbol in enumerate(_SYMBOL)}


def _bytes_of_symbols(token: str) -> bytes:
    return bytes(_BYTE[c] for c in token) if all(c in _BYTE for c in token) else token.encode()


def _repaired(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
