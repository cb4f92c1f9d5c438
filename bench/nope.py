"""NoPE at four times the trained length: loss by position, and recall and copying by the distance of the evidence.

    ninefold run nano --name nope-0 --until pretrain            # for each seed
    python bench/nope.py --run runs/nope-0 runs/nope-1 runs/nope-2

Nothing of the model is changed for the longer windows. Loss: held-out text and fresh worksheets in windows of 4× the longest
trained one; each place beyond the trained length is scored with all that stands before it, and again in a window of the trained
length, so that the same tokens are compared. Evidence: a fact or a list, worksheets without names between, then the question or
the list's first items again; every next token that follows from the evidence counts. Pre-training never sets evidence apart:
`--teach N` first trains the model N steps on such cases within the trained length. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from ninefold.agent.env.names import NAMES
from ninefold.app.configuration import stored_recipe
from ninefold.chat.tokenizer import Tokenizer
from ninefold.core.layout import DocLayout
from ninefold.core.seeds import rng_of
from ninefold.core.store import Run
from ninefold.core.types import IntArray, Sample
from ninefold.data.corpus.skills import RELATIONS, THINGS, Skills, page
from ninefold.data.samples import read_samples
from ninefold.learn.batch import micro_batches
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.adamw import AdamWConfig
from ninefold.learn.optim.muon import MuonConfig
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.checkpoint import load_model
from ninefold.model.k3 import K3

TIMES = 4
EDGES = (0, 1 / 4, 1 / 2, 1, 2, 3, 4)
"""Of the buckets of places, in trained lengths."""
DISTANCES = (0, 1 / 8, 1 / 4, 1 / 2, 7 / 8, 3 / 2, 2, 3, 31 / 8)
"""Tokens between evidence and question, in trained lengths."""
WITHOUT_NAMES = Skills(repeat=0, copy_words=0, recall=0, sums=0.5, additions=0.2, expressions=0)
MOST = 0.02
"""Nats that the longer context may cost a token beyond the trained length [ours]."""
KINDS = ("recall", "copy")
LONGEST_TAUGHT = 7 / 8
"""Of distances, in trained lengths."""
TAUGHT_AT_ONCE = 24
"""Cases of one step."""
SHOWN, CUE = 8, 2
"""Items of a list to copy, and how many of them are given again."""
FloatArray = NDArray[np.float64]


@torch.no_grad()
def nats(model: K3, windows: Sequence[IntArray]) -> list[FloatArray]:
    """−ln p of each window's tokens but the first."""
    found: list[FloatArray] = []
    for window in windows:
        ids = torch.from_numpy(window.astype(np.int64))
        logp = torch.log_softmax(model.logits(model(ids, DocLayout.of([len(ids)])).final_TD), -1)
        found.append(-logp[:-1].gather(1, ids[1:, None]).squeeze(1).double().numpy())
    return found


def by_position(model: K3, windows: Sequence[IntArray], trained: int) -> tuple[list[float], float, float]:
    """Mean loss of each bucket of places; over places beyond the trained length, with everything before and with what fits."""
    full = np.stack(nats(model, windows))
    places = [int(edge * trained) for edge in EDGES]
    buckets = [float(full[:, max(a - 1, 0) : b - 1].mean()) for a, b in pairwise(places)]
    half = trained // 2
    starts = range(half, TIMES * trained - trained + 1, half)
    short = np.stack([np.stack(nats(model, [w[s : s + trained] for w in windows]))[:, half - 1 :] for s in starts], 1)
    # A window from s scores places s + half to s + trained: the second half, so that each has half a window before it.
    long = np.stack([full[:, s + half - 1 : s + trained - 1] for s in starts], 1)
    beyond = [n for n, s in enumerate(starts) if s + half >= trained]
    return buckets, float(long[:, beyond].mean()), float(short[:, beyond].mean())


@torch.no_grad()
def accuracy(model: K3, cases: Iterable[tuple[IntArray, list[int]]]) -> float:
    """Share of the tokens at each case's places that are the likeliest ones where they stand."""
    right = asked = 0
    for ids_T, places in cases:
        ids, place_N = torch.from_numpy(ids_T.astype(np.int64)), torch.tensor(places)
        best_N = model.logits(model(ids, DocLayout.of([len(ids)])).final_TD[place_N - 1]).argmax(-1)
        right, asked = right + int((best_N == ids[place_N]).sum()), asked + len(places)
    return right / asked


def case(tokenizer: Tokenizer, kind: str, distance: int, *names: object) -> tuple[IntArray, list[int]]:
    """Ids, and the places of what follows from evidence `distance` tokens back: first tokens of a value, or of list items."""
    rng = rng_of("nope", kind, distance, *names)
    if kind == "recall":
        keys, values = rng.sample(NAMES, 2), rng.sample(THINGS, 2)
        relation, asked = rng.choice(RELATIONS)[0], rng.randrange(2)
        evidence = "".join(f"{key}{relation}{value}. " for key, value in zip(keys, values)) + "\n"
        question, wanted = f"Q: {keys[asked]}{relation}", [values[asked]]
    else:
        items = rng.sample(list(NAMES), SHOWN)
        evidence, question = ",".join(items) + ";", ",".join(items[:CUE]) + ","
        wanted = [part for item in items[CUE:] for part in (item, ",")]
    filler = tokenizer.encode(page(WITHOUT_NAMES, 4 * distance + 1, "nope", kind, *names))[:distance]
    parts = [tokenizer.encode(evidence), filler, tokenizer.encode(question), *map(tokenizer.encode, wanted)]
    starts = np.cumsum([len(part) for part in parts])[2:-1].tolist()
    return np.concatenate(parts), starts[:: 1 if kind == "recall" else 2]


def taught(model: K3, tokenizer: Tokenizer, trained: int, steps: int) -> K3:
    """The model after so many steps on such cases within the trained length: pre-training never sets evidence apart."""
    sizes = {"muon": MuonConfig(lr=0.01, weight_decay=0.0), "adamw": AdamWConfig(lr=0.003, weight_decay=0.0)}
    trainer = Trainer(model, TrainerConfig(steps=steps, **sizes))

    def sample(*names: object) -> Sample:
        rng = rng_of("teach", *names)
        ids, places = case(tokenizer, rng.choice(KINDS), rng.randint(0, int(LONGEST_TAUGHT * trained)), "teach", *names)
        return Sample(ids=ids, mask=np.isin(np.arange(len(ids)), places))

    for step in range(steps):
        metrics = trainer.step(micro_batches([sample(step, n) for n in range(TAUGHT_AT_ONCE)], 4096), sft_loss)
        if step % 20 == 0:
            print(f"  step {step}/{steps}, loss {metrics['loss']:.2f}", file=sys.stderr, flush=True)
    return model


def heldout_windows(tokenizer: Tokenizer, folder: Path, length: int, most: int) -> dict[str, list[IntArray]]:
    """Windows of held-out text, and of worksheets that no training step has drawn."""
    documents = [s.ids for s in read_samples(folder / "documents.npz") if s.task.endswith("/heldout")]
    text = [ids[i : i + length] for ids in documents for i in range(0, len(ids) - length + 1, length)]
    sheets = [tokenizer.encode(page(Skills(), 4 * length, "nope", n))[:length] for n in range(most)]
    return {"text": text[:most], "worksheets": sheets}


def measured(folder: Path, most: int, samples: int, teach: int) -> dict[str, Any]:
    """Everything of one run."""
    stages = folder / "stages"
    recipe = stored_recipe(Run(path=folder))
    trained = recipe.pretrain.stages[-1].length
    model, tokenizer = load_model(stages / "pretrain" / "model"), Tokenizer.load(stages / "corpus" / "tokenizer.json")
    found: dict[str, Any] = {"trained": trained, "loss": {}, "accuracy": {}}
    for name, windows in heldout_windows(tokenizer, stages / "corpus", TIMES * trained, most).items():
        print(f"{folder.name}: loss on {len(windows)} windows of {name}", file=sys.stderr, flush=True)
        buckets, long, short = by_position(model, windows, trained)
        found["loss"][name] = {"buckets": buckets, "windows": len(windows), "all before": long, "what fits": short}
    if teach:
        print(f"{folder.name}: {teach} steps on evidence within the trained length", file=sys.stderr, flush=True)
        model = taught(model, tokenizer, trained, teach)
    for kind in KINDS:
        print(f"{folder.name}: {kind}, {samples} samples a distance", file=sys.stderr, flush=True)
        spans = [int(d * trained) for d in DISTANCES]
        found["accuracy"][kind] = [accuracy(model, (case(tokenizer, kind, d, n) for n in range(samples))) for d in spans]
    return found


def show(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Tables of the means over runs; the figures of the last line."""
    trained, figures = runs[0]["trained"], dict[str, float]()
    places = [f"{int(a * trained)}–{int(b * trained)}" for a, b in pairwise(EDGES)]
    losses = Table("loss, mean of runs", *places, "beyond: all before", "what fits", "difference, by run")
    for name in runs[0]["loss"]:
        of_runs = [run["loss"][name] for run in runs]
        long, short = ([r[key] for r in of_runs] for key in ("all before", "what fits"))
        figures[f"{name}_beyond_minus_window"] = float(np.mean(long) - np.mean(short))
        means = [f"{v:.2f}" for v in np.mean([r["buckets"] for r in of_runs], 0)]
        apart = " ".join(f"{a - b:+.3f}" for a, b in zip(long, short))
        losses.add_row(name, *means, f"{np.mean(long):.3f}", f"{np.mean(short):.3f}", apart)
    hits = Table("accuracy by distance", *(f"{int(d * trained)}" for d in DISTANCES))
    for kind in runs[0]["accuracy"]:
        of_runs = np.array([run["accuracy"][kind] for run in runs])
        figures |= {f"{kind}_{int(d * trained)}": float(m) for d, m in zip(DISTANCES, of_runs.mean(0))}
        hits.add_row(kind, *(f"{m:.2f}" for m in of_runs.mean(0)))
        hits.add_row("  by run", *(" ".join(f"{v:.2f}" for v in column) for column in of_runs.T))
    for table in (losses, hits):
        Console(width=170).print(table)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, nargs="+", required=True)
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--teach", type=int, default=0, help="steps on evidence at distances within the trained length")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    runs = [measured(folder, arguments.windows, arguments.samples, arguments.teach) for folder in arguments.run]
    figures = show(runs)
    apart = {name: figures[f"{name}_beyond_minus_window"] for name in runs[0]["loss"]}
    held = {f"{name}: beyond the trained length at most {MOST} nats worse": value <= MOST for name, value in apart.items()}
    rounded = {name: round(value, 4) for name, value in figures.items()}
    print(json.dumps({"bench": "nope", "figures": rounded, "against": held, "ok": all(held.values())}))
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
