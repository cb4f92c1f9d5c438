"""Whether anything that a run pre-trains on holds a task: documents, every window of worksheets, conversations.

`python bench/contamination.py --run runs/nano` draws tasks of every family, level and split, other ones than the corpus was
cleaned against. A document that holds an instruction (13 words of it in a row, or all of a shorter one) is a hit; so is a
worksheet that holds a whole one, for worksheets are drawn from the same few words as tasks and share facts with them by
chance; and so is a conversation about a task whose content is that of a task of another split. The same search for planted
copies shows that it would see them. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.progress import track

from ninefold.core.picture import Picture
from ninefold.core.store import Run
from ninefold.core.types import SPLITS, Task
from ninefold.data.corpus.filters import Contamination
from ninefold.data.samples import read_samples
from ninefold.media.scene import draw
from ninefold.recipes.kit import Kit
from ninefold.recipes.pretrain import load_mixture, window

PLANTED = 200
WHOLE = 10**9
"""Words that no instruction has."""


def tasks_of(kit: Kit, count: int) -> list[Task]:
    """`count` tasks of each family, level and split that a model is trained, tuned or judged on."""
    return [
        task
        for domain, levels in kit.recipe.families.items()
        for split in SPLITS
        if split != "corpus"
        for task in kit.tasks(domain, split, count * sum(map(len, levels.values())), "bench contamination")
    ]


def windows(kit: Kit) -> Iterator[tuple[str, str, Sequence[Picture]]]:
    """(domain, text, pictures) of every worksheet window of pre-training, and of every document."""
    config, mixture = kit.recipe.pretrain, load_mixture(kit)
    for sample in read_samples(kit.run.stage("corpus") / "documents.npz"):
        yield sample.task.split("/")[0], kit.tokenizer.decode(sample.ids), ()
    steps = config.tokens // config.batch_tokens
    for step in track(range(steps), "worksheets", transient=True):
        for sample in mixture.batch(step, config.batch_tokens, window(config, step, steps), kit.recipe.seed):
            if sample.task in ("skills", "pictures"):
                yield sample.task, kit.tokenizer.decode(sample.ids), sample.pictures


def content(task: Task) -> str:
    """What makes a task this one: where the instruction says the same in all of them, its world differs."""
    return json.dumps([task.family, task.instruction, task.data, task.pictures], sort_keys=True)


def conversed(kit: Kit) -> list[Task]:
    """The tasks that the conversations of pre-training are about."""
    share = kit.recipe.pretrain.wire_documents // len(kit.domains)
    return [task for domain in kit.domains for task in kit.tasks(domain, "corpus", share, "demonstrate")]


def main() -> None:
    from ninefold.app.configuration import stored_recipe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=2000, help="of each family, level and split")
    arguments = parser.parse_args()
    run = Run.open(arguments.run)
    kit = Kit(recipe=stored_recipe(run), run=run)

    tasks = tasks_of(kit, arguments.tasks)
    contamination = Contamination(task.instruction for task in tasks)
    whole = Contamination((task.instruction for task in tasks), ngram=WHOLE)
    texts = list(windows(kit))
    worksheets = ("skills", "pictures")
    hits = [
        f"{domain}: {text[:80]!r}" for domain, text, _ in texts if text in (whole if domain in worksheets else contamination)
    ]
    asked = {draw(scene).hash for task in tasks for scene in task.pictures}
    hits += [f"picture {picture.hash}" for _, _, pictures in texts for picture in pictures if picture.hash in asked]
    about = conversed(kit)
    contents = {content(task) for task in tasks}
    hits += [f"conversation: {task.id}" for task in about if content(task) in contents]
    stride = max(1, len(tasks) // PLANTED)
    copied = [f"{texts[n][1]} {task.instruction} {texts[-n][1]}" for n, task in enumerate(tasks[::stride])]
    planted = sum(text in contamination and text in whole for text in copied)
    copies = len(copied)

    characters = sum(len(text) for _, text, _ in texts)
    size = f"{characters / 1e6:.1f} M characters"
    print(f"{len(contents)} tasks; {len(texts)} documents and windows ({size}), {len(about)} conversations")
    print(f"hits: {len(hits)}; planted copies found: {planted} of {copies}")
    for hit in hits[:20]:
        print(f"  {hit}")
    figures = {"tasks": len(contents), "texts": len(texts), "conversations": len(about), "hits": len(hits)}
    figures |= {"planted": copies, "found": planted}
    ok = not hits and planted == copies
    print(json.dumps({"bench": "contamination", "figures": figures, "against": {"hits": 0, "found": copies}, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()
