"""Synthesis: the target's shares, each gate by a draft that must not pass it, directories that judge, and going on."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.core.errors import SandboxUnavailable
from ninefold.data.corpus.filters import Contamination
from ninefold.data.synth.draft import Draft
from ninefold.data.synth.endpoint import Chat
from ninefold.data.synth.fields import Field
from ninefold.data.synth.gates import Gates, heldout, judged
from ninefold.data.synth.graph import Graph
from ninefold.data.synth.grow import Growth, grow
from ninefold.data.synth.library import Library
from ninefold.data.synth.propose import Rules
from ninefold.data.synth.synthesise import Synthesis, read_journal, synthesise
from ninefold.data.synth.target import Cell, Target, deviation, neediest
from ninefold.data.synth.weak import Model, Weak
from ninefold.index import Document
from ninefold.sandbox.namespace import NamespaceRuntime

FIELDS = {"coding": Field(seeds=("posixpath", "ornament"))}
TARGET = Target(domain={"coding": 1}, granularity={"coarse": 1}, type={"knowledge": 1, "coding": 1}, relation={"single": 1})
CONFIG = Synthesis(target=TARGET, tasks=4, patience=6, weak=Weak(words=1))
DOCUMENTS = {
    "posixpath": "Common operations on path names of one family of systems.",
    "posixpath.basename": "Returns the final component of a pathname, after the last slash.",
    "posixpath.split": "Cut a pathname in two: all before the last slash, and the rest.",
    "posixpath.splitext": "Part a pathname into root and extension, the latter with its dot.",
    "finial.txt": "A finial is an ornament on top of a gable, spire or canopy.",
    "rosette.txt": "A rosette is an ornament carved or painted round like a flower.",
    "tassel.txt": "A tassel is an ornament of loose threads that hangs from cushions.",
}
LIBRARY = Library.of(
    Document(id=f"doc://python/3/{name}", title=name.removesuffix(".txt"), text=text) for name, text in DOCUMENTS.items()
)


@pytest.fixture(scope="module")
def runtime():
    runtime = NamespaceRuntime()
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield runtime
    runtime.close()


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    graph = Graph(tmp_path_factory.mktemp("graph") / "g.sqlite")
    grow(graph, LIBRARY, Rules(), Growth(fields=FIELDS))
    yield graph
    graph.close()


def make(graph, folder, runtime, config=CONFIG):
    return synthesise(graph, LIBRARY, FIELDS, folder, config, runtime, Contamination([]))


@pytest.fixture(scope="module")
def made(graph, runtime, tmp_path_factory):
    folder = tmp_path_factory.mktemp("synth")
    return folder, make(graph, folder, runtime)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_makes_both_types_and_says_why_not_others(made):
    folder, attempts = made
    tasks = [attempt for attempt in attempts if attempt.task]
    assert {attempt.cell.type for attempt in tasks} == {"knowledge", "coding"}
    assert all(attempt.weak is not None and 0 < attempt.weak < 1 for attempt in tasks)
    assert all(attempt.gate and attempt.reason for attempt in attempts if not attempt.task)
    assert read_journal(folder) == attempts


def test_directories(made):
    folder, attempts = made
    for attempt in (attempt for attempt in attempts if attempt.task):
        task = folder / "tasks" / attempt.task
        config = tomllib.loads((task / "task.toml").read_text())
        assert config["schema_version"] == "1.4"
        assert config["task"]["name"] == f"ninefold/{attempt.task}"
        assert config["metadata"]["type"] == attempt.cell.type
        assert config["metadata"]["weak_pass_rate"] == attempt.weak
        spans = config["metadata"]["evidence"]
        given = [path.read_text() for path in (task / "environment/documents").iterdir()]
        assert spans
        for span in spans:
            assert any(text.startswith(f"{span['url']}\n") for text in given)
        assert {"instruction.md", "tests/test.sh", "solution/solve.sh", "environment/Dockerfile"} <= set(contents(task))


def test_goes_on_after_a_kill(made, graph, runtime, tmp_path):
    """Killed after a task was written but before the journal said so, with the journal's last line torn."""
    folder, attempts = made
    make(graph, tmp_path, runtime, CONFIG.model_copy(update={"tasks": 2}))
    journal = tmp_path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:9])
    assert make(graph, tmp_path, runtime) == attempts
    assert contents(tmp_path) == contents(folder)


@pytest.fixture
def draft(graph, runtime):
    from ninefold.data.synth.knowledge import knowledge

    node = graph.node(graph.find("finial"))
    made = knowledge(Cell("coding", "coarse", "knowledge", "single"), [node], graph, tuple(LIBRARY.documents.values()))
    assert isinstance(made, Draft)
    return made


@dataclass(frozen=True)
class Scripted:
    """Gives what is expected in so many attempts of twelve."""

    right: int

    def attempts(self, draft, count):
        answer = {"answer": [names[0] for names in draft.expected["answer"]], "sources": draft.expected["sources"]}
        return [json.dumps(answer)] * self.right + ["no JSON"] * (count - self.right)


def wrong(expected):
    return json.dumps({"answer": [expected], "sources": ["doc://python/3/finial.txt"]})


@pytest.mark.parametrize(
    ("gate", "broken"),
    [
        ("grounded", lambda d: replace(d, documents=())),
        ("grounded", lambda d: replace(d, evidence=tuple(replace(e, start=e.start + 1) for e in d.evidence))),
        ("grounded", lambda d: replace(d, evidence=())),
        ("needs documents", lambda d: replace(d, quotes=("the finial of a spire",))),
        ("guess", lambda d: replace(d, guesses=(*d.guesses, d.gold))),
        ("mutant", lambda d: replace(d, mutants=(*d.mutants, wrong("FINIAL")))),
        ("gold", lambda d: replace(d, gold=wrong("tassel"))),
    ],
)
def test_gates(draft, runtime, gate, broken):
    gates = Gates(library=LIBRARY, runtime=runtime, contamination=Contamination([]), weak=Scripted(6))
    refusal = gates.refusal(broken(draft))
    assert refusal is not None
    assert refusal.gate == gate


def test_gates_that_compare(draft, runtime):
    gates = Gates(library=LIBRARY, runtime=runtime, contamination=Contamination([]), weak=Scripted(6))
    assert gates.refusal(draft) is None
    gates.accept(draft)
    assert gates.refusal(draft).gate == "near-duplicate"
    assert gates.refusal(replace(draft, nodes=("another",))).reason.startswith("likeness")
    held = heldout([f'Which word is it? "{draft.quotes[0]}"'])
    gates = Gates(library=LIBRARY, runtime=runtime, contamination=held, weak=Scripted(6))
    assert gates.refusal(draft).gate == "decontaminated"
    copy = Document(id="doc://python/3/pommel.txt", title="pommel", text=DOCUMENTS["finial.txt"].replace("finial", "pommel"))
    gates = Gates(
        library=Library.of([*LIBRARY.documents.values(), copy]),
        runtime=runtime,
        contamination=Contamination([]),
        weak=Scripted(6),
    )
    assert gates.refusal(draft).gate == "unique answer"


@pytest.mark.parametrize(("right", "refused"), [(0, True), (1, False), (11, False), (12, True)])
def test_a_weak_policy_passes_sometimes(draft, runtime, right, refused):
    gates = Gates(library=LIBRARY, runtime=runtime, contamination=Contamination([]), weak=Scripted(right))
    refusal = gates.refusal(draft)
    assert (refusal is not None and refusal.gate == "weak policy") == refused
    assert gates.rates[draft.id] == right / 12


def test_a_model_as_weak_policy(draft):
    """It is shown the instruction and the documents; the last fenced block is its answer."""
    asked = []

    def ask(request):
        asked.append(request)
        return {"choices": [{"message": {"content": f"first ```\nno\n``` then\n```json\n{draft.gold}\n```"}}]}

    assert [text.strip() for text in Model(Chat(model="m"), ask).attempts(draft, 2)] == [draft.gold] * 2
    assert [request["seed"] for request in asked] == [0, 1]
    prompt = asked[0]["messages"][0]["content"]
    assert draft.instruction in prompt
    assert all(document.text in prompt for document in draft.documents)
    assert Model(Chat(model="m"), lambda _: {}).attempts(draft, 1) == [""]


def test_a_flaky_verdict_is_refused(draft, runtime):
    """A solution that scores by chance: the gold alternates by what an earlier run left behind."""
    gold = draft.gold
    assert judged(draft, [gold, "{}", wrong("tassel")], runtime) == ["1.0", "1.0", "1.0", "0.0", "1.0", "0.0", "0.0"]


@settings(max_examples=10, deadline=None)
@given(st.sets(st.sampled_from(Target().cells()), max_size=60))
def test_shares_come_near_the_target(exhausted):
    """Whatever cells are given up, the others are filled towards the shares; with none given up they are met."""
    made: Counter[Cell] = Counter()
    for _ in range(100):
        cell = neediest(made, Target(), exhausted)
        assert cell is not None
        assert cell not in exhausted
        made[cell] += 1
    off = [abs(points) for values in deviation(made, Target()).values() for points in values.values()]
    assert sum(points for values in deviation(made, Target()).values() for points in values.values()) == pytest.approx(0)
    if not exhausted:
        assert max(off) < 2.5
