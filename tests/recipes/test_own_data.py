"""Supervised data of one's own: added to the demonstrations or alone, and refused line by line before anything is trained."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from ninefold.app.configuration import stored_recipe
from ninefold.core.config import to_toml
from ninefold.core.errors import UserError
from ninefold.core.events import read_events
from ninefold.core.store import Run, write_atomic, write_folder
from ninefold.core.types import Sample
from ninefold.data.samples import read_samples
from ninefold.media.png import to_png
from ninefold.media.scene import draw
from ninefold.recipes.config import Recipe
from ninefold.recipes.kit import Kit
from ninefold.recipes.run import check, run_recipe
from ninefold.recipes.sft import demonstrate
from tests.recipes.small import small

DEMONSTRATIONS = 6


def conversation(question: str, *answers: str) -> str:
    messages = [{"role": "user", "content": question}]
    for answer in answers:
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "and?"}]
    return json.dumps({"messages": messages[:-1], "effort": "low"}) + "\n"


def with_files(*files: Path, demonstrations: int = DEMONSTRATIONS) -> Recipe:
    sft = small().sft.model_copy(update={"files": tuple(map(str, files)), "demonstrations": demonstrations})
    return small().model_copy(update={"sft": sft})


def made(recipe: Recipe, run: Run, whole: Run) -> list[Sample]:
    """What the stage `demonstrations` leaves, with the whole run's tokenizer."""
    tokenizer = (whole.stage("corpus") / "tokenizer.json").read_text()
    write_folder(run.stage("corpus"), lambda folder: (folder / "tokenizer.json").write_text(tokenizer) and None)
    demonstrate(Kit(recipe=recipe, run=run))
    return read_samples(run.stage("demonstrations") / "samples.npz")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text(conversation("ping?", "pong") + "\n" + conversation("one?", "two", "three"))
    return path


def test_conversations_stand_beside_the_demonstrations_or_alone(whole: Run, tmp_path: Path, own: Path) -> None:
    plain = made(with_files(), Run(path=tmp_path / "plain"), whole)
    both = made(with_files(own), Run(path=tmp_path / "both"), whole)
    alone = made(with_files(own, demonstrations=0), Run(path=tmp_path / "alone"), whole)
    assert len(plain) == DEMONSTRATIONS
    assert [s.ids.tolist() for s in both] == [s.ids.tolist() for s in (*plain, *alone)]
    assert [s.task for s in alone] == [f"{own}/1", f"{own}/3"]
    tokenizer = Kit(recipe=small(), run=whole).tokenizer
    learned = [tokenizer.decode(np.asarray(s.ids)[s.mask].tolist()) for s in alone]
    assert "pong" in learned[0]
    assert "ping" not in learned[0]
    assert all(word in learned[1] for word in ("two", "three"))
    (event,) = [e for _, e in read_events(Run(path=tmp_path / "both").events) if e["kind"] == "samples"]
    assert (event["rows"], event["own"]) == (DEMONSTRATIONS + 2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (conversation("a?", "b") + '{"messages": 3}\n', "line 2: `messages` must be a list"),
        ("", "holds no conversation"),
        (None, "no file"),
    ],
)
def test_faults_stop_the_run_before_it_begins(tmp_path: Path, text: str | None, message: str) -> None:
    path, run = tmp_path / "own.jsonl", Run(path=tmp_path / "run")
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message):
        run_recipe(with_files(path), run)
    assert not run.path.exists(), "the same command can be given again with another configuration"


def test_nothing_to_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"sft\.files"):
        run_recipe(with_files(demonstrations=0), Run(path=tmp_path / "run"))


def test_files_are_part_of_the_configuration(tmp_path: Path, own: Path) -> None:
    run, recipe = Run(path=tmp_path / "run"), with_files(own)
    write_atomic(run.config, to_toml(recipe))
    assert stored_recipe(run) == recipe


def test_pictures_are_refused_before_a_run_whose_model_reads_none(tmp_path: Path) -> None:
    picture = base64.b64encode(to_png(draw({"kind": "shapes", "width": 28, "height": 28, "ground": "grey", "items": []})))
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture.decode()}"}}
    messages = [{"role": "user", "content": [shown]}, {"role": "assistant", "content": "grey"}]
    path = tmp_path / "seen.jsonl"
    path.write_text(json.dumps({"messages": messages, "effort": "low"}) + "\n")
    with pytest.raises(UserError, match=r"sft.files: line .*seen.jsonl/1 shows pictures.*preset=nano-vision"):
        check(with_files(path), Run(path=tmp_path / "run"))
    check(with_files(path).model_copy(update={"preset": "nano-vision"}), Run(path=tmp_path / "run"))
