"""The knowledge graph and its tasks against what they promise, and against the public endless-learning 0.0.2.

`python bench/graph.py --graph runs/graphs/big` grows the graph if need be and then, each step kept in `runs/bench/graph` and
not done twice: counts it and its tasks (`ninefold synth big` makes those); grows it again under kill -9; compares what each
look-up for equal nodes finds; grows a graph with our endpoint proposer and one with endless-learning (`make referees`) from
the same documents, seeds and number of chat completions, answered by one deterministic stand-in (bench/graph_endpoint.py);
and reads the verdicts of a reader on a sample of the tasks (bench/graph_read.json; `--draw 50` prints a sample to read).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import networkx as nx
from graph_endpoint import Knower, same, serving
from rich.console import Console
from rich.table import Table

from ninefold.core.seeds import rng_of
from ninefold.core.store import read_json, write_json
from ninefold.data.synth.endpoint import Chat, Endpoint
from ninefold.data.synth.fields import FIELDS, Field
from ninefold.data.synth.graph import Graph
from ninefold.data.synth.grow import LIKE, Growth, grow
from ninefold.data.synth.library import Library
from ninefold.data.synth.names import Known, key_of, words_of
from ninefold.data.synth.synthesise import Synthesis, read_journal
from ninefold.data.synth.target import deviation

Figures = dict[str, Any]
KEPT = Path("runs", "bench", "graph")
REFEREE = Path("runs", "referees", "endless", "bin", "python")
HERE = Path(__file__).parent
POLL_S = 0.05


def counted(folder: Path) -> Figures:
    """The graph as networkx sees it, and the tasks that were made of it."""
    with closing(Graph(folder / "graph.sqlite")) as graph:
        nodes, decisions = graph.nodes(), Counter(decision for _, _, decision in graph.decisions())
        twin = nx.DiGraph((edge.coarse, edge.fine) for edge in graph.edges())
        orphans = sum(node.depth > 0 and not graph.coarser(node.id) for node in nodes)
    attempts = read_journal(folder / "synth")
    made = Counter(attempt.cell for attempt in attempts if attempt.task)
    off = [abs(points) for values in deviation(made, Synthesis().target).values() for points in values.values()]
    return {
        "nodes": len(nodes),
        "acyclic": nx.is_directed_acyclic_graph(twin),
        "orphans": orphans,
        "decisions": dict(decisions),
        "tasks": made.total(),
        "attempts": len(attempts),
        "refused": dict(Counter(attempt.gate for attempt in attempts if attempt.gate)),
        "most points off target": round(max(off), 2),
        "tasks that take a second search": sum(count for cell, count in made.items() if cell.relation == "bridge"),
    }


def killed(folder: Path, kills: int) -> Figures:
    """Grow it again from the same documents under kill -9, and compare."""
    again = KEPT / "killed"
    if not again.exists():
        shutil.copytree(folder / "documents", again / "documents")
        shutil.copy(folder / "growth.toml", again)
    with closing(Graph(folder / "graph.sqlite")) as graph:
        whole, digest = len(graph), graph.digest
    rng = rng_of("graph", "kill", kills)
    marks = sorted(rng.randrange(whole // 20, whole) for _ in range(kills))
    began = [_start(again, until=mark) for mark in marks]
    finished = _start(again, until=None)
    with closing(Graph(again / "graph.sqlite")) as graph:
        return {"kills": sum(began), "nodes at kills": marks, "finished": finished, "same graph": graph.digest == digest}


def _start(folder: Path, *, until: int | None) -> bool:
    """Grow until there are so many nodes, then kill -9, True if it was alive; or to the end, True if it got there."""
    command = [sys.executable, "-c", "from ninefold.app.cli import main; main()", "graph", "grow", f"{folder}/"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while until is not None and process.poll() is None and _known(folder) < until:
        time.sleep(POLL_S)
    if until is None:
        return process.wait() == 0
    alive = process.poll() is None
    os.kill(process.pid, signal.SIGKILL) if alive else None
    process.wait()
    return alive


def _known(folder: Path) -> int:
    if not (folder / "graph.sqlite").exists():
        return 0
    with closing(sqlite3.connect(f"file:{folder / 'graph.sqlite'}?mode=ro", uri=True, timeout=60)) as sql:
        try:
            return sql.execute("SELECT count(*) FROM nodes").fetchone()[0]
        except sqlite3.OperationalError:  # not yet made
            return 0


def looked_up(folder: Path) -> Figures:
    """Which look-up finds a node again: by its key, its words, or the vector of its name, under names changed in known ways."""
    with closing(Graph(folder / "graph.sqlite")) as graph:
        nodes = [node for node in graph.nodes() if "." not in node.name and len(node.name) > 5]
        known = Known()
        for id, name in graph.names():
            known.add(name, id)
        reused = [(graph.find(name), name) for _, name, decision in graph.decisions() if decision == "reused"]
        used = Counter(_route(known, name, id, graph) for id, name in reused if id is not None)
        found: dict[str, Counter[str]] = {}
        for node in rng_of("look-up").sample(nodes, min(300, len(nodes))):
            for change, name in _variants(node.name):
                counts = found.setdefault(change, Counter())
                counts["names"] += 1
                counts["key"] += graph.find(name) == node.id
                counts["words"] += known.like(name, 0) == [node.id]
                counts["vector"] += node.id in known.like(name, LIKE)
    return {"reused by": dict(used), "found again": {change: dict(counts) for change, counts in found.items()}}


def _route(known: Known, name: str, id: int, graph: Graph) -> str:
    node = graph.node(id)
    if key_of(name) == key_of(node.name):
        return "key"
    if words_of(name) == words_of(node.name):
        return "words"
    return "vector" if id in known.like(name, LIKE) else "alias"


def _variants(name: str) -> list[tuple[str, str]]:
    rng, words = rng_of("variants", name), name.split()
    i = rng.randrange(1, len(name) - 1)
    made = [("plural", f"{name}s"), ("typing error", name[:i] + name[i + 1 :]), ("capitals", name.title())]
    if len(words) > 1:
        made += [
            ("hyphen", "-".join(words)),
            ("turned round", f"{words[-1]} of {' '.join(words[:-1])}"),
            ("joined", "".join(words)),
        ]
    return made


# -------------------------------------------------------------------------------------------------- beside endless-learning


class Spent(Exception):
    """The budget is used up."""


def ours(library: Library, calls: int) -> Figures:
    knower = Knower(library=library)
    fields = {domain: Field(seeds=field.seeds) for domain, field in FIELDS.items()}
    folder = _fresh("ours")
    with serving(knower) as url, closing(Graph(folder / "graph.sqlite")) as graph:
        proposer = Endpoint(Chat(url=f"{url}/v1", model="rules"))

        def watch(_: int) -> None:
            if knower.calls >= calls:
                raise Spent

        with suppress(Spent):
            grow(graph, library, proposer, Growth(fields=fields, nodes=1_000_000), watch)
        nodes = graph.nodes()
        edges = [(edge.coarse, edge.fine) for edge in graph.edges()]
        parents = [len(graph.coarser(node.id)) for node in nodes]
        expanded = len({id for id, _, _ in graph.decisions()})
    made = [(node.name, node.definition, node.depth) for node in nodes]
    return {**measured(made, edges, parents, start=1), "expanded to finer": expanded, "asked": dict(knower.asked)}


def theirs(library: Library, calls: int) -> Figures:
    knower = Knower(library=library)
    folder = _fresh("theirs")
    seeds = list(dict.fromkeys(seed for field in FIELDS.values() for seed in field.seeds))
    with serving(knower) as url:
        command = [REFEREE, HERE / "graph_endless.py", folder / "run", url, json.dumps(seeds), str(calls), "64"]
        ended = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    said = json.loads(ended.stdout.splitlines()[-1])
    edges = [(coarse, fine) for coarse, fine in said["edges"]]
    return {
        **measured(said["nodes"], edges, said["parents"], start=0),
        "its own count": said["stats"],
        "asked": dict(knower.asked),
    }


def _fresh(name: str) -> Path:
    folder = KEPT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def measured(nodes: Sequence[Sequence[Any]], edges: Sequence[tuple[str, str]], parents: Sequence[int], start: int) -> Figures:
    """Duplicates by rules that belong to neither side's look-up: a sentence that defines two nodes of one name, or two nodes of
    one name whose definitions the stand-in calls the same. `start` is the depth of seeds."""
    made = [(name, definition) for name, definition, depth in nodes if depth is None or depth > start]
    by_name: dict[str, list[tuple[str, str]]] = {}
    doubled = 0
    for name, definition in made:
        others = by_name.setdefault(key_of(name), [])
        doubled += any(same(name, definition, *other) for other in others)
        others.append((name, definition))
    orphans = sum(depth is None or (depth > start and not count) for (_, _, depth), count in zip(nodes, parents))
    return {
        "grown": len(made),
        "edges": len(edges),
        "several parents": sum(count > 1 for count in parents),
        "duplicates": doubled,
        "orphans": orphans,
        "without a sentence": sum(not definition for _, definition in made),
    }


def yields(side: Figures) -> Figures:
    calls = sum(count for kind, count in side["asked"].items() if kind not in ("search", "fetch"))
    return {
        "chat completions": calls,
        "nodes grown": side["grown"],
        "nodes a call": round(side["grown"] / calls, 3),
        "duplicates": round(side["duplicates"] / max(1, side["grown"]), 4),
        "orphans": side["orphans"],
        "several parents": side["several parents"],
    }


# ------------------------------------------------------------------------------------------------------------ the sample


def draw(folder: Path, count: int, seed: int, first: int | None) -> list[str]:
    """Of the first so many tasks that were made, or all."""
    tasks = [attempt.task for attempt in read_journal(folder / "synth") if attempt.task][:first]
    return rng_of("read", seed).sample(tasks, count)


def precision(path: Path) -> Figures:
    """Share of tasks without a flaw among those read, with Wilson's interval of 95 %."""
    reads = read_json(path)["tasks"]
    n, good = len(reads), sum(not read["flaws"] for read in reads)
    z = 1.96
    centre, half = (good + z * z / 2) / (n + z * z), z * (good * (n - good) / n + z * z / 4) ** 0.5 / (n + z * z)
    flaws = Counter(flaw for read in reads for flaw in read["flaws"])
    return {"read": n, "good": good, "interval": [round(centre - half, 3), round(centre + half, 3)], "flaws": dict(flaws)}


def step(name: str, do: Callable[[], Figures]) -> Figures:
    path = KEPT / f"{name}.json"
    if not path.exists():
        began = time.process_time()
        figures = do()
        write_json(path, {**figures, "CPU seconds": round(time.process_time() - began, 1)})
    return read_json(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", type=Path, default=Path("runs", "graphs", "big"))
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1000, help="chat completions of each side")
    parser.add_argument("--draw", type=int, help="print so many tasks to read, and do nothing else")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--first", type=int, help="draw the sample of so many tasks that were made first")
    arguments = parser.parse_args()
    folder: Path = arguments.graph
    if arguments.draw:
        print("\n".join(draw(folder, arguments.draw, arguments.seed, arguments.first)))
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    if _known(folder) < Growth().nodes and not _start(folder, until=None):
        sys.exit(f"{folder} could not be grown; see `ninefold graph grow {folder}/`")
    library = Library.load(folder / "documents")
    figures: dict[str, Figures] = {
        "graph": counted(folder),
        "killed": step("killed", lambda: killed(folder, arguments.kills)),
        "look-up": step("look-up", lambda: looked_up(folder)),
        "ours": step("ours", lambda: ours(library, arguments.calls)),
        "read": precision(HERE / "graph_read.json"),
    }
    table = Table("", "ours", *(["endless-learning 0.0.2"] if REFEREE.exists() else []))
    sides = [yields(figures["ours"])]
    if REFEREE.exists():
        figures["theirs"] = step("theirs", lambda: theirs(library, arguments.calls))
        sides.append(yields(figures["theirs"]))
    for row in sides[0]:
        table.add_row(row, *(str(side[row]) for side in sides))
    Console(width=110).print(table)
    graph, read = figures["graph"], figures["read"]
    held = {
        "2,000 nodes, acyclic, no orphan": graph["nodes"] >= 2000 and graph["acyclic"] and not graph["orphans"],
        "killed and resumed to the same graph": figures["killed"]["same graph"] and figures["killed"]["kills"] > 0,
        "300 tasks within 5 points of the target": graph["tasks"] >= 300 and graph["most points off target"] <= 5,
        "50 tasks read": read["read"] >= 50,
        "no more duplicates and orphans than endless-learning": len(sides) < 2
        or all(sides[0][what] <= sides[1][what] for what in ("duplicates", "orphans")),
    }
    print(json.dumps({"bench": "graph", "figures": figures, "against": held, "ok": all(held.values())}))
    sys.exit(not all(held.values()))


if __name__ == "__main__":
    main()
