"""The corpus: no task in it, stable hashes, batches that can be made again at the stated rates, windows within documents."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.agent.env import families
from ninefold.chat.tokenizer import Tokenizer
from ninefold.core.store import Run, read_json
from ninefold.core.types import SPLITS, Sample, Task
from ninefold.data.corpus.document import TEXT_DOMAINS, Document
from ninefold.data.corpus.filters import NGRAM, Contamination, Rules, clean, rejected
from ninefold.data.corpus.mixture import CorpusConfig, Mixture, collect, heldout_samples, manifest
from ninefold.data.corpus.skills import page
from ninefold.data.samples import read_samples
from ninefold.recipes.kit import Kit
from ninefold.recipes.pretrain import load_mixture, task_texts
from tests.recipes.small import small

TRAINED_SPLITS = ("train", "dev", "heldout")


def tasks_of(kit: Kit) -> Iterator[Task]:
    """Tasks of every split, others than those that the corpus was cleaned against."""
    for split in TRAINED_SPLITS:
        yield from kit.tasks("general", split, 150, "elsewhere")


def texts_of(kit: Kit) -> list[str]:
    """Everything a model is pre-trained on, as text: documents, wire documents, some worksheets."""
    stage = kit.run.stage("corpus")
    stored = [*read_samples(stage / "documents.npz"), *read_samples(stage / "wire.npz")]
    return [kit.tokenizer.decode(s.ids) for s in stored] + [page(kit.recipe.corpus.skills, 400, n) for n in range(150)]


def test_no_task_of_any_split_occurs(kit: Kit) -> None:
    texts = texts_of(kit)
    assert len(texts) > 100
    for task in tasks_of(kit):
        assert not any(task.instruction in text for text in texts), task.id
    sums = {terms for text in texts for terms in re.findall(r"sum ([\d+]+);", text) if terms.count("+") > 1}
    assert sums
    assert not sums & {task.data["expression"] for task in tasks_of(kit)}, "worksheets add other digits than tasks"


def test_wire_documents_hold_only_content_that_is_set_aside(kit: Kit) -> None:
    wire = read_samples(kit.run.stage("corpus") / "wire.npz")
    assert wire
    assert {sample.task.split("/")[1] for sample in wire} == {"corpus"}


def test_planted_tasks_are_caught(kit: Kit) -> None:
    """Whatever family and split a task is of, a document that quotes it is dropped."""
    planted = [family.generate(split, 0, 5) for family in families().values() for split in SPLITS]
    contamination = Contamination(task.instruction for task in planted)
    filler = "This page speaks of gardens, rivers and old bridges, and of the people who keep them. " * 4
    quoting = [
        Document(id=task.id, domain="web", text=f"{filler}{n} {task.instruction} {filler}") for n, task in enumerate(planted)
    ]
    dropped: Counter[str] = Counter()
    kept = list(
        clean([*quoting, Document(id="clean", domain="web", text=filler)], Rules(max_line=10**6), contamination, dropped)
    )
    assert [document.id for document in kept] == ["clean"]
    assert dropped == {"web: holds a task": len(planted)}


WORDS = st.lists(st.sampled_from([f"word{letter}" for letter in "abcdefghijkl"]), max_size=40)


@given(before=WORDS, after=WORDS, task=WORDS.filter(bool), upper=st.booleans())
def test_contamination_sees_a_task_wherever_it_stands(
    before: list[str], after: list[str], task: list[str], upper: bool
) -> None:
    text = " ".join([*before, *task, *after])
    assert (text.upper() if upper else text) in Contamination([" ".join(task)])


@given(text=WORDS, task=WORDS.filter(bool))
def test_contamination_sees_nothing_else(text: list[str], task: list[str]) -> None:
    """Exactly: a short task stands there whole, or thirteen words in a row of a long one do."""
    size = min(len(task), NGRAM)
    runs = {tuple(task[i : i + size]) for i in range(len(task) - size + 1)}
    held = any(tuple(text[i : i + size]) in runs for i in range(len(text) - size + 1))
    assert (" ".join(text) in Contamination([" ".join(task)])) == held


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("short", "short"),
        ("good words " * 30 + "\ufffd", "binary"),
        ("1234567890 " * 30, "few letters"),
        ("word" * 600, "long line"),
        ("the same line again\n" * 30, "repetition"),
        ("\n".join(f"line {chr(97 + n)} of some letters" for n in range(20)), None),
    ],
)
def test_rules(text: str, reason: str | None) -> None:
    assert rejected(Document(id="x", domain="web", text=text), Rules()) == reason


def test_the_same_sources_give_the_same_manifest(whole: Run, kit: Kit) -> None:
    made = manifest(kit.recipe.corpus, collect(kit.recipe.corpus, task_texts(kit), lambda kind, /, **fields: None))
    assert made == read_json(whole.stage("corpus") / "manifest.json")
    assert {entry["split"] for entry in made["documents"].values()} == {"train", "heldout"}
    assert {entry["domain"] for entry in made["documents"].values()} == set(TEXT_DOMAINS)


@given(a=st.text(min_size=1), spaces=st.integers(1, 3))
def test_hashes_see_through_white_space_and_case(a: str, spaces: int) -> None:
    one, other = (Document(id=i, domain="web", text=t) for i, t in (("1", f"x {a}"), ("2", f"X{' ' * spaces}{a}")))
    assert one.hash == other.hash


def numbered(lengths: dict[str, list[int]], rates: dict[str, float]) -> Mixture:
    """A mixture whose tokens say which document they stand in: 1000 · document + place."""
    documents = [
        Sample(ids=np.arange(n, dtype=np.int32) + 1000 * d, mask=np.ones(n, bool), task=f"{domain}/train")
        for domain, sizes in lengths.items()
        for d, n in enumerate(sizes)
    ]
    wire = [
        Sample(ids=np.arange(40 + 20 * n, dtype=np.int32) + 1000 * n, mask=np.ones(40 + 20 * n, np.bool_)) for n in range(3)
    ]
    return Mixture.of(
        CorpusConfig(rates=rates), documents, wire, lambda text: np.frombuffer(text.encode(), np.uint8).astype(np.int32)
    )


@settings(max_examples=25)
@given(sizes=st.lists(st.integers(1, 300), min_size=1, max_size=6), length=st.integers(2, 128), step=st.integers(0, 10**6))
def test_windows_lie_in_one_document(sizes: list[int], length: int, step: int) -> None:
    mixture = numbered(dict.fromkeys(TEXT_DOMAINS, sizes), {"code": 0.5, "wire": 0.2, "web": 0.3})
    for sample in mixture.batch(step, 600, length, "seed"):
        assert 1 <= len(sample.ids) <= length
        assert len(np.unique(sample.ids // 1000)) == 1
        assert (np.diff(sample.ids) == 1).all()
        assert sample.mask.all()


def test_batches_can_be_made_again_and_differ_by_step(kit: Kit) -> None:
    def facts(mixture: Mixture, step: int) -> list[list[int]]:
        return [sample.ids.tolist() for sample in mixture.batch(step, 1000, 128, 0)]

    first, second = load_mixture(kit), load_mixture(kit)
    batches = [facts(first, step) for step in range(4)]
    assert [facts(second, step) for step in reversed(range(4))] == batches[::-1]
    assert all(one != other for one, other in pairwise(batches))


def test_tokens_follow_the_stated_rates() -> None:
    rates = {"code": 0.1, "web": 0.15, "mathematics": 0.05, "knowledge": 0.1, "skills": 0.3, "wire": 0.3}
    mixture = numbered({domain: [500] * 20 for domain in TEXT_DOMAINS}, rates)
    tokens: Counter[str] = Counter()
    for step in range(60):
        for sample in mixture.batch(step, 4096, 128):
            tokens[sample.task] += len(sample.ids)
    shares = {domain: count / tokens.total() for domain, count in tokens.items()}
    assert shares == pytest.approx(rates, abs=0.02)


def test_held_out_documents_are_never_drawn(kit: Kit) -> None:
    """Their windows of 16 tokens or more occur in no training text, save what two documents share."""
    mixture = load_mixture(kit)
    documents = read_samples(kit.run.stage("corpus") / "documents.npz")
    held = {s.ids.tobytes() for s in documents if s.task.endswith("/heldout")}
    learned = {s.ids.tobytes() for s in documents if s.task.endswith("/train")}
    assert held
    assert learned
    assert not held & learned
    for domain in TEXT_DOMAINS:
        train = {s.ids.tobytes() for s in documents if s.task == f"{domain}/train"}
        cuts = mixture.starts[domain]
        assert {mixture.train[domain][a:b].tobytes() for a, b in pairwise(cuts)} == train
        windows = heldout_samples(mixture.heldout[domain], 64, 512)
        assert windows
        assert all(len(window.ids) <= 64 for window in windows)


def test_worksheets_are_fixed_by_their_names() -> None:
    skills = small().corpus.skills
    assert page(skills, 300, 7) == page(skills, 300, 7)
    assert len({page(skills, 300, random.Random(n).random()) for n in range(20)}) == 20
    assert all(len(page(skills, 300, n)) >= 300 for n in range(20))


def test_the_tokenizer_of_a_corpus_round_trips_its_documents(kit: Kit) -> None:
    tokenizer: Tokenizer = kit.tokenizer
    for n in range(30):
        text = page(kit.recipe.corpus.skills, 200, "round trip", n)
        assert tokenizer.decode(tokenizer.encode(text)) == text
