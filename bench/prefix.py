"""The prefix cache on recorded coding conversations: share of prompt tokens that are hit, equal outputs, gain in CPU-seconds.

    python bench/prefix.py

Scripted demonstrators play tasks of the families `expression` and `repair`; each conversation is several of these episodes
end to end, at least TURNS turns. Sessions take turns on an engine with fewer rows than sessions, and a pool that cannot hold
them all: a turn's prompt is the conversation so far, with what the model itself wrote, and it samples as many tokens as the
demonstrator did; then comes what the harness answered him. The other side has no cache and forgets every session. Sides
alternate, and the best of several counts. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import torch

from ninefold.agent.env import families
from ninefold.agent.harness.presets import phrases
from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.protocols import Completion, Request, ScriptedPolicy, Style
from ninefold.core.types import EFFORTS, IntArray, Result, Slot, Task
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.model.k3 import K3
from ninefold.model.presets import nano
from ninefold.rollout.demonstrate import demonstrate
from ninefold.rollout.play import lineup
from ninefold.rollout.scene import Scene
from ninefold.sandbox.runtime import open_runtime

NAMES = ("expression", "repair")
SESSIONS, TURNS, FLYING = 12, 24, 4
LEAST = 0.9
"""Share of prompt tokens that must be hit."""
CONFIG = NativeConfig(rows=FLYING, capacity=4096, prompts=FLYING, chunk=512, grain=16, pool_mb=4)
OFF = CONFIG.model_copy(update={"pool_mb": 0})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a recorded conversation."""

    before: IntArray
    """What is rendered since the last message was sampled."""
    new: int
    """Tokens that the demonstrator wrote."""


def accept(_: Task, __: object) -> Result:
    """What the demonstrators achieve is not asked here."""
    return Result(status="pass")


def record() -> list[list[Turn]]:
    """The conversations, by the project's own demonstrators and harness."""
    played = {name: families()[name] for name in NAMES}
    fixed = [*wire_phrases(), *(phrase for family in played.values() for phrase in family.phrases())]
    fixed += phrases([tool for family in played.values() for tool in family.tools])
    chat = Xtml(Tokenizer.train(["def add(a, b):\n    return a + b\n", "1 + 2 * (3 - 4)"] * 8, fixed, 640))
    with closing(open_runtime()) as runtime:
        scene = Scene(chat=chat, families=played, verify=accept, runtime=runtime)
        prompts = [(played[NAMES[n % 2]].generate("train", 0, n), EFFORTS[2 - n % 3 % 2]) for n in range(SESSIONS * TURNS)]

        def policy(slot: Slot) -> ScriptedPolicy:
            return played[slot.task.family].demonstrate(slot.task, Style(effort=slot.effort, seed=slot.seed, slip=0.5))

        episodes = iter(demonstrate(lineup(prompts, name="trace"), policy, scene))
    conversations: list[list[Turn]] = []
    while len(conversations) < SESSIONS:
        turns: list[Turn] = []
        while len(turns) < TURNS:
            before = list[IntArray]()
            for segment in next(episodes).rows[0].segments:
                if segment.source == "sampled":
                    turns.append(Turn(before=np.concatenate([*before, np.zeros(0, np.int32)]), new=len(segment.ids)))
                    before = []
                else:
                    before.append(segment.ids)
        conversations.append(turns)
    return conversations


def converse(engine: NativeEngine, conversations: Sequence[Sequence[Turn]], *, forget: bool) -> list[tuple[int, Completion]]:
    """(prompt tokens, completion) of every turn, FLYING sessions at a time."""
    said: list[tuple[int, Completion]] = []
    ids = [np.zeros(0, np.int32) for _ in conversations]
    for turn in range(max(map(len, conversations))):
        going = [n for n, turns in enumerate(conversations) if turn < len(turns)]
        for first in range(0, len(going), FLYING):
            requests = dict[str, int]()
            for n in going[first : first + FLYING]:
                ids[n] = np.concatenate([ids[n], conversations[n][turn].before])
                requests[f"{n}.{turn}"] = n
                new = conversations[n][turn].new
                engine.submit([Request(id=f"{n}.{turn}", session=str(n), ids=ids[n], max_new=new, seed=n * TURNS + turn)])
            done = dict[str, Completion]()
            while engine.in_flight:
                done |= {completion.request: completion for completion in engine.poll()}
            for name, n in requests.items():
                said.append((len(ids[n]), done[name]))
                ids[n] = np.concatenate([ids[n], done[name].ids])
                if forget:
                    engine.release(str(n))
    return said


def compare(model: K3, conversations: Sequence[Sequence[Turn]], repeats: int) -> dict[str, float | bool]:
    """Figures of one model."""
    best = {"on": float("inf"), "off": float("inf")}
    said: dict[str, list[tuple[int, Completion]]] = {}
    for repeat in range(repeats):
        for side, config in (("on", CONFIG), ("off", OFF)):
            engine = NativeEngine(model, stop_ids=(), config=config)
            began = time.process_time()
            said[side] = converse(engine, conversations, forget=side == "off")
            best[side] = min(best[side], time.process_time() - began)
            print(f"  {repeat + 1}/{repeats} cache {side}: {best[side]:.2f} CPU-s", flush=True)
    prompt, cached = sum(n for n, _ in said["on"]), sum(c.cached for _, c in said["on"])
    pairs = [(on, off) for (_, on), (_, off) in zip(said["on"], said["off"])]
    apart = max(float(np.abs(on.logprobs - off.logprobs).max()) for on, off in pairs if len(on.ids) == len(off.ids) > 0)
    return {
        "prompt_tokens": prompt,
        "new_tokens": sum(len(on.ids) for on, _ in pairs),
        "hit": round(cached / prompt, 4),
        "ratio": round(best["off"] / best["on"], 3),
        "same": all(np.array_equal(on.ids, off.ids) for on, off in pairs),
        "largest_logprob_difference": float(f"{apart:.2g}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    conversations = record()
    turns = [len(turns) for turns in conversations]
    print(f"{SESSIONS} conversations of {min(turns)} to {max(turns)} turns, {FLYING} at a time, a pool of {CONFIG.pool_mb} MB")
    figures: dict[str, dict[str, float | bool]] = {}
    for name, quantized in (("plain", False), ("quantized", True)):
        model = K3(nano(640))
        model.quantize(quantized)
        print(name)
        figures[name] = compare(model, conversations, arguments.repeats)
        print(f"  {figures[name]}")
    ok = min(turns) >= TURNS and all(f["hit"] >= LEAST and bool(f["same"]) for f in figures.values())
    print(json.dumps({"bench": "prefix", "figures": figures, "against": {"hit": LEAST, "same": True}, "ok": ok}))
    sys.exit(not ok)


if __name__ == "__main__":
    main()
