"""The gates that a draft passes in order; each refusal says which and why."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from ninefold.core.errors import VerifierError
from ninefold.core.protocols import ExecLimits, SandboxRuntime
from ninefold.data.corpus.filters import Contamination
from ninefold.data.synth.bridge import called, mentions
from ninefold.data.synth.checks.knowledge import judge
from ninefold.data.synth.definitions import definitions
from ninefold.data.synth.draft import Draft
from ninefold.data.synth.knowledge import gives_away
from ninefold.data.synth.library import Library, sha256
from ninefold.data.synth.weak import Policy, Weak, policy_of
from ninefold.index import Index

RUNS = 3
"""Times that the gold is judged; equal each time."""
LIKENESS = 0.5
"""Jaccard index of two tasks' quoted 5-grams from which they are near-duplicates. [ours]"""
FIRST = 3
"""Hits of one search that a bridge's text may not be among."""
_LIMITS = ExecLimits(seconds=900.0, memory_mb=512, processes=16)


class Refusal(NamedTuple):
    """Why a draft is no task."""

    gate: str
    reason: str


@dataclass(kw_only=True)
class Gates:
    """All gates, and what those need that compare with other tasks and documents."""

    library: Library
    runtime: SandboxRuntime
    contamination: Contamination
    """Of the texts of held-out tasks."""
    accepted: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    """Shingles of the tasks made so far."""
    answers: set[str] = field(default_factory=set[str])
    weak: Policy = field(default_factory=lambda: policy_of(Weak()))
    attempts: int = Weak().attempts
    """Of the weak policy."""
    rates: dict[str, float] = field(default_factory=dict[str, float])
    """Task → share of the weak policy's attempts that passed."""

    def refusal(self, draft: Draft) -> Refusal | None:
        """The first gate that the draft fails; None where it is a task. Cheap gates come before those that run programs."""
        gates: Sequence[tuple[str, Callable[[Draft], str | None]]] = (
            ("grounded", self._grounded),
            ("unique answer", self._unique),
            ("needs documents", self._needs_documents),
            ("one search", self._one_search),
            ("near-duplicate", self._near_duplicate),
            ("decontaminated", self._decontaminated),
            ("weak policy", self._weak_policy),
            ("judged", self._judged),
        )
        for name, gate in gates:
            reason = gate(draft)
            if reason is not None:
                named = re.match(r"(gold|null|runs|guess|mutant): ", reason)
                return Refusal(named[1] if named else name, reason)
        return None

    def accept(self, draft: Draft) -> None:
        self.accepted.append(shingles(" ".join(draft.quotes)))
        self.answers.add(_answer(draft))

    def _grounded(self, draft: Draft) -> str | None:
        """Every span of evidence is in a document that the agent gets, word for word."""
        given = {document.id: document for document in draft.documents}
        for evidence in draft.evidence:
            if evidence.url not in given:
                return f"{evidence.url} was not retrieved"
            if sha256(given[evidence.url].text[evidence.start : evidence.end]) != evidence.sha256:
                return f"{evidence.url} does not say so at {evidence.start}"
        return None if draft.evidence else "no evidence"

    def _unique(self, draft: Draft) -> str | None:
        """Nothing else in the library is defined in the words of a piece of evidence."""
        for evidence in draft.evidence:
            text = self.library.documents[evidence.url].text[evidence.start : evidence.end]
            if self._defined[gloss(text)] > 1:
                return f"{self._defined[gloss(text)]} documents say {gloss(text)[:60]!r}"
        return self._one_bridge(draft) if draft.clues else None

    def _one_bridge(self, draft: Draft) -> str | None:
        """Besides those that define the clues, the answer's document alone names them all."""
        answer = draft.evidence[-1].url
        defining = {evidence.url for evidence in draft.evidence} - {answer}
        calls = [called(names) for names in draft.clues]
        naming = [d.id for d in draft.documents if all(mentions(f"{d.title}\n{d.text}", words) for words in calls)]
        others = set(naming) - defining
        return None if others == {answer} else f"{len(others)} documents name both clues"

    @cached_property
    def _defined(self) -> Counter[str]:
        return Counter(
            gloss(document.text[found.start : found.end])
            for document in self.library.documents.values()
            for found in definitions(document)
        )

    def _needs_documents(self, draft: Draft) -> str | None:
        """What has to be named is not in the instruction, and no scripted guess passes."""
        for name in draft.hidden:
            if any(gives_away(quote, name) for quote in draft.quotes):
                return f"the quotes give {name!r} away"
        return None

    def _one_search(self, draft: Draft) -> str | None:
        """No search for what the instruction quotes finds a bridge's text among the first."""
        if not draft.clues:
            return None
        with closing(Index.build(draft.documents)) as index:
            for query in (*draft.quotes, " ".join(draft.quotes)):
                if draft.evidence[-1].url in [hit.id for hit in index.search(query, FIRST)]:
                    return f"a search for {query[:60]!r} finds it"
        return None

    def _near_duplicate(self, draft: Draft) -> str | None:
        if _answer(draft) in self.answers:
            return "the same is asked already"
        mine = shingles(" ".join(draft.quotes))
        likest = max((len(mine & other) / len(mine | other) for other in self.accepted), default=0.0)
        return f"likeness {likest:.2f} to another" if likest >= LIKENESS else None

    def _decontaminated(self, draft: Draft) -> str | None:
        held = any(text in self.contamination for text in (draft.instruction, *draft.quotes))
        return "holds a held-out task" if held else None

    def _weak_policy(self, draft: Draft) -> str | None:
        """It passes sometimes, and not always."""
        tries = self.weak.attempts(draft, self.attempts)
        if draft.cell.type == "knowledge":
            passed = [_passes(text, draft) for text in tries]
        else:
            distinct = list(dict.fromkeys(tries))
            rewards = dict(zip(distinct, judged(draft, distinct, self.runtime)[RUNS + 1 :]))
            passed = [rewards[text] == "1.0" for text in tries]
        self.rates[draft.id] = sum(passed) / len(passed)
        return None if 0 < sum(passed) < len(passed) else f"{sum(passed)} of {len(passed)} attempts pass"

    def _judged(self, draft: Draft) -> str | None:
        """The directory's own solution and verifier, in the sandbox: gold, nothing at all, guesses, mutants.

        Answers, which are many, are judged here by the verifier's own function; one of each kind goes to the sandbox too.
        """
        guesses, mutants = draft.guesses, draft.mutants
        if draft.cell.type == "knowledge":
            for kind, answers in (("guess", guesses), ("mutant", mutants)):
                passing = [answer for answer in answers if _passes(answer, draft)]
                if passing:
                    return f"{kind}: {passing[0][:80]} passes"
            guesses, mutants = guesses[:1], mutants[-1:]
        rewards = judged(draft, [*guesses, *mutants], self.runtime)
        gold, null, rest = rewards[:RUNS], rewards[RUNS], rewards[RUNS + 1 :]
        if len(set(gold)) > 1:
            return f"runs: {' '.join(gold)}"
        if gold != ["1.0"] * RUNS:
            return f"gold: scored {gold[0]!r}"
        if null != "0.0":
            return f"null: scored {null!r}"
        for kind, scores in (("guess", rest[: len(guesses)]), ("mutant", rest[len(guesses) :])):
            for i, score in enumerate(scores):
                if score != "0.0":
                    return f"{kind}: number {i} scored {score!r}"
        return None


def judged(draft: Draft, candidates: Sequence[str], runtime: SandboxRuntime) -> list[str]:
    """Rewards of the gold (RUNS times, by solve.sh), of nothing, then of each candidate, as test.sh writes them.

    Raises VerifierError where the sandbox ended it: that says nothing of the task.
    """
    files = {f"task/{path}": text for path, text in draft.files().items() if not path.startswith("environment/")}
    files |= {f"candidates/{i:03d}": text for i, text in enumerate(candidates)}
    file = shlex.quote(draft.file)
    script = f"""
export APP=$PWD/app TESTS=$PWD/task/tests LOGS=$PWD/logs
judge() {{ bash task/tests/test.sh >/dev/null 2>&1; cat logs/verifier/reward.txt || echo none; }}
for run in $(seq {RUNS}); do rm -rf app; mkdir app; bash task/solution/solve.sh; judge; done
rm -rf app; mkdir app; judge
for candidate in candidates/*; do rm -rf app; mkdir app; cp "$candidate" app/{file}; judge; done
"""
    with closing(runtime.create(files)) as sandbox:
        ended = sandbox.run(["bash", "-c", script], limits=_LIMITS)
    rewards = ended.stdout.split()
    if ended.reason != "exited" or len(rewards) != RUNS + 1 + len(candidates):
        raise VerifierError(f"{draft.id} could not be judged ({ended.reason}): {ended.stderr[-200:]}")
    return rewards


def _passes(text: str, draft: Draft) -> bool:
    """What the verifier of a knowledge task says of an answer."""
    try:
        return judge(json.loads(text), dict(draft.expected))
    except (ValueError, RecursionError):
        return False


def gloss(text: str) -> str:
    """What a definition says, without what it defines."""
    text = re.sub(r"^[^():]+ \(noun\): |^(?:An?|The|Every|Each)\s.+?\s(?:is|are)\s", "", text.strip(), count=1)
    return " ".join(text.split()).casefold().strip(". ")


def shingles(text: str) -> frozenset[str]:
    words = re.findall(r"\w+", text.casefold())
    return frozenset(" ".join(words[i : i + 5]) for i in range(max(1, len(words) - 4)))


def heldout(texts: Iterable[str]) -> Contamination:
    """Held-out instructions, and what they quote."""
    texts = list(texts)
    quotes = [quote for text in texts for quote in re.findall(r'"([^"]{20,})"', text)]
    return Contamination([*texts, *quotes])


def _answer(draft: Draft) -> str:
    """What is asked for; a text that bridges is asked for once, whatever the clues."""
    return json.dumps([draft.nodes[-1] if draft.clues else sorted(draft.nodes), draft.cell.type])
