"""Where text comes from, and what a mixture asks of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from pydantic import ValidationError

from ninefold.core.errors import UserError
from ninefold.core.types import Sample
from ninefold.data.corpus.document import Sources, read
from ninefold.data.corpus.mixture import CorpusConfig, Mixture


def test_every_document_has_an_id_of_its_own_that_no_machine_changes() -> None:
    documents = list(read(Sources(code=("typer",), mathematics=("mpmath",))))
    assert {document.domain for document in documents} == {"code", "web", "mathematics", "knowledge"}
    assert [id for id, count in Counter(d.id for d in documents).items() if count > 1] == []
    assert {d.id.split("/")[0].split(".")[0] for d in documents} == {"typer", "mpmath", "excerpt"}


def test_a_rate_without_text_is_refused() -> None:
    web = Sample(ids=np.ones(9, np.int32), mask=np.ones(9, np.bool_), task="web/train")

    def mixture(**rates: float) -> Mixture:
        return Mixture.of(CorpusConfig.model_validate({"rates": rates}), [web], [], lambda text: np.zeros(0, np.int32))

    assert [sample.task for sample in mixture(web=1.0, code=0.0).batch(0, 9, 9)] == ["web"]
    with pytest.raises(UserError, match=r"no text of domain code.*corpus\.rates\.code=0"):
        mixture(web=1.0, code=0.1)
    with pytest.raises(ValidationError):
        mixture(webb=1.0)
    with pytest.raises(ValidationError):
        mixture(web=-1.0)
