"""The lexical index: ranking, determinism, and queries that are not words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.index import Document, Index

DOCUMENTS = [
    Document(id="b", title="Rivers", text="The river runs to the sea. Rivers carry silt."),
    Document(id="a", title="Seas", text="The sea is salt, and the sea is wide."),
    Document(id="c", title="Salt", text="Salt comes from brine."),
    Document(id="d", title="Brine", text="Water with salt in it."),
]


@pytest.fixture
def index():
    index = Index.build(DOCUMENTS)
    yield index
    index.close()


def test_best_first_and_stemmed(index):
    assert [hit.id for hit in index.search("running rivers")] == ["b"]
    assert index.search("salt")[0].id == "c", "a title weighs more than a text"
    scores = [hit.score for hit in index.search("sea salt water")]
    assert scores == sorted(scores, reverse=True)
    assert len(index.search("sea salt water", 2)) == 2


def test_open(index):
    assert index.open("a") == DOCUMENTS[1]
    assert len(index) == 4
    with pytest.raises(KeyError):
        index.open("A")


def test_order_of_documents_changes_nothing(index):
    other = Index.build(reversed(DOCUMENTS))
    assert other.digest == index.digest
    for query in ("sea", "salt water", "the", "brine salt"):
        assert other.search(query) == index.search(query)
    changed = Index.build([*DOCUMENTS[:3], Document(id="d", title="Brine", text="Water with salt in it!")])
    assert changed.digest != index.digest


def test_ties_go_by_id():
    index = Index.build([Document(id=str(i), title="same", text="same words") for i in (3, 1, 2)])
    assert [hit.id for hit in index.search("words")] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "sea AND",
        "NOT",
        "title:salt",
        "sea*",
        "(sea",
        "NEAR(sea salt)",
        "sea -salt",
        "^sea",
        "'; DROP TABLE words; --",
        "sea\0",
    ],
)
def test_syntax_is_text(index, query):
    index.search(query)
    assert len(index) == 4
    assert [hit.id for hit in index.search("sea")] == ["a", "b"]


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(), max_size=60))
def test_any_text_is_a_query(query):
    index = _shared()
    assert index.search(query) == index.search(query)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=80)), max_size=8))
def test_every_document_is_found_by_its_words_and_comes_back_whole(texts):
    documents = [Document(id=str(i), title=title, text=text) for i, (title, text) in enumerate(texts)]
    index = Index.build(documents)
    for document in documents:
        assert index.open(document.id) == document
        words = [word for word in document.text.split() if word.isascii() and word.isalnum()]
        for word in words:
            assert document.id in [hit.id for hit in index.search(word, len(documents))]


def test_a_long_query_costs_no_more(index):
    assert index.search("sea " * 100_000) == index.search("sea " * 32)


def test_two_documents_of_one_id_are_refused():
    with pytest.raises(UserError, match="unique"):
        Index.build([DOCUMENTS[0], DOCUMENTS[0]])


_SHARED: list[Index] = []


def _shared() -> Index:
    if not _SHARED:
        _SHARED.append(Index.build(DOCUMENTS))
    return _SHARED[0]
